"""Differentially private Huber regression."""

from __future__ import annotations

from dataclasses import dataclass

from dpfast._documented import documented
from dpfast._validation import check_real
from dpfast.estimators._inference import Inferential
from dpfast.estimators._regressor import PrivateLinearRegressor
from dpfast.losses import Loss


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class HuberRegressor(Inferential, PrivateLinearRegressor):
    """Huber regression with an (ε, δ)-differential-privacy guarantee.

    Minimizes ``(1/n) Σ h(t_i - <x̃_i, w>) + (α/2)‖w‖²`` privately, where ``x̃_i`` is row i scaled
    into the ball of radius `data_norm`, followed by the constant `intercept_scaling`, ``t_i`` the
    target scaled to [-1, 1], and ``h(r) = r²/2`` where ``|r| <= threshold``, a line beyond. The
    threshold limits the pull of a row: a small one resists outliers and needs less noise.

    Parameters
    ----------
    threshold : float, default=0.2
        Residual from which the loss grows linearly, > 0, in units of half the width of
        `target_bounds` (without an intercept: of the larger absolute value), or of the range within
        these where most targets are, if the solver learns it (those that "auto" takes: with a δ
        "dp-whitened-gd", without one "objective-perturbation", for rows). Unlike scikit-learn, the
        fit does not estimate a residual scale.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast import HuberRegressor
    >>> X = np.linspace(-1.0, 1.0, 5000)[:, np.newaxis]
    >>> y = 20.0 + 5.0 * X[:, 0]
    >>> model = HuberRegressor(data_norm=1.0, target_bounds=(10.0, 30.0), random_state=0)
    >>> prediction = model.fit(X, y).predict([[0.5]])
    >>> bool(abs(prediction[0] - 22.5) < 1.0), model.privacy_.epsilon <= 1.0
    (True, True)
    """

    threshold: float = 0.2

    def _loss(self) -> Loss:
        return Loss("huber", check_real("threshold", self.threshold, low=1e-6, high=1e6))
