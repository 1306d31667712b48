"""Differentially private least squares."""

from __future__ import annotations

from dataclasses import dataclass

from dpfast.estimators._documented import documented
from dpfast.estimators._inference import Inferential
from dpfast.estimators._regressor import PrivateLinearRegressor
from dpfast.losses import Loss

# Half the width of the targets' range.  On seven synthetic tables (500 to 200,000 rows, ε from 0.3
# to 4) whitened descent on this loss had mean squared errors down to a tenth of those of noisy
# sums, and larger ones only where both were worse than predicting the mean; 2 did worse than 1.
_THRESHOLD = 1.0


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class LinearRegression(Inferential, PrivateLinearRegressor):
    """Least squares with a ridge and an (ε, δ)-differential-privacy guarantee.

    Minimizes ``(1/n) Σ (t_i - <x̃_i, w>)²/2 + (α/2)‖w‖²`` privately, where ``x̃_i`` is row i scaled
    into the ball of radius `data_norm`, followed by the constant `intercept_scaling`, and ``t_i``
    the target scaled to [-1, 1]. The slope of a square is not bounded, so a single row could pull
    arbitrarily hard. Residuals beyond 1, which is half the width of `target_bounds`, therefore
    count linearly (the Huber loss with threshold 1), which moves predictions away from the mean
    where many targets are at one end and some far from it. "dp-whitened-gd", which "auto" takes for
    budgets with a δ, learns where targets are, and how far out residuals are worth the noise that
    they cost: it estimates the mean of skewed targets, too, the better the more rows there are.
    "objective-perturbation", which "auto" takes for pure budgets, learns where targets are.
    ``solver="dp-adassp"`` keeps the squares and perturbs sums of products instead, which costs more
    accuracy on most data. ``inference=True``, whose coefficients have standard errors, keeps them,
    too.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Ridge of the mean loss, as in scikit-learn's Ridge (``alpha * n_samples`` there),
        for targets scaled to [-1, 1]. "auto" lets the solver choose it from public quantities.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast import LinearRegression
    >>> X = np.linspace(-1.0, 1.0, 5000)[:, np.newaxis]
    >>> y = 20.0 + 5.0 * X[:, 0]
    >>> model = LinearRegression(data_norm=1.0, target_bounds=(10.0, 30.0), random_state=0)
    >>> prediction = model.fit(X, y).predict([[0.5]])
    >>> bool(abs(prediction[0] - 22.5) < 1.0), model.privacy_.epsilon <= 1.0
    (True, True)
    """

    def _loss(self) -> Loss:
        squares = self.inference or self.solver in ("dp-adassp", "dp-newton")
        return Loss("squared") if squares else Loss("huber", _THRESHOLD)
