"""Differentially private gamma regression."""

from __future__ import annotations

from dataclasses import dataclass

from dpfast._documented import documented
from dpfast.estimators._log_link import PrivateTweedieRegressor
from dpfast.losses import Loss


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class GammaRegressor(PrivateTweedieRegressor):
    """Gamma regression of costs and durations with an (ε, δ)-differential-privacy guarantee.

    The mean of the target is ``exp(<x, coef_> + intercept_)``, its variance in proportion to the
    square of the mean. Minimizes ``(1/n) Σ (z_i + t_i exp(-z_i)) + (α/2)‖w‖²`` privately,
    ``z_i = <x̃_i, w>``, where ``x̃_i`` is row i scaled into the ball of radius `data_norm`, followed
    by the constant `intercept_scaling`, and ``t_i`` is the target divided by the geometric mean of
    `target_bounds` (by nothing without an intercept). Where the mean would lie below the lowest
    target, the exponential continues as a straight line.

    Parameters
    ----------
    target_bounds : tuple of two floats or None, default=None
        Public lowest and highest target, > 0; targets beyond are clipped, and predictions stay in
        between. None takes them from `y` with a :class:`~dpfast.errors.PrivacyLeakWarning`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast import GammaRegressor
    >>> X = np.linspace(-1.0, 1.0, 20_000)[:, np.newaxis]
    >>> y = np.random.default_rng(0).gamma(2.0, 0.5 * np.exp(1.0 + X[:, 0]))
    >>> model = GammaRegressor(data_norm=1.0, target_bounds=(0.1, 50.0), random_state=0)
    >>> prediction = model.fit(X, y).predict([[0.5]])
    >>> bool(abs(prediction[0] - np.exp(1.5)) < 1.0), model.privacy_.epsilon <= 1.0
    (True, True)
    """

    _ratio = "mean ratio"

    def _family(self) -> Loss:
        return Loss("gamma")

    @property
    def deviance_power(self) -> float:
        """Power of the mean that the variance is taken to be in proportion to: 2."""
        return 2.0
