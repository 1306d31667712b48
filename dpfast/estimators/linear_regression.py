"""Differentially private least squares."""

from __future__ import annotations

from dataclasses import dataclass

from dpfast._documented import documented
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
    the target scaled to [-1, 1]. The slope of a square is unbounded, so a single row could pull
    arbitrarily hard. Residuals beyond 1, half the width of `target_bounds`, therefore count
    linearly (the Huber loss with threshold 1).

    That biases the mean of skewed targets. "dp-whitened-gd", which "auto" takes for budgets with a
    δ, learns where targets are and up to where residuals are worth their noise; its bias falls with
    the number of rows. "objective-perturbation", which "auto" takes for pure budgets, learns where
    targets are. ``solver="dp-adassp"`` and ``inference=True`` keep the squares; the former perturbs
    sums of products, which costs more accuracy on most data.

    Parameters
    ----------
    alpha : float, "auto" or None, default="auto"
        Ridge of the mean loss, as in scikit-learn's Ridge (``alpha * n_samples`` there),
        for targets scaled to [-1, 1]. "auto" or None lets the solver choose it from public
        quantities.

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
