"""Differentially private Poisson regression."""

from __future__ import annotations

from dataclasses import dataclass

from dpfast._documented import documented
from dpfast.estimators._log_link import PrivateTweedieRegressor
from dpfast.losses import Loss


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PoissonRegressor(PrivateTweedieRegressor):
    """Poisson regression of counts with an (ε, δ)-differential-privacy guarantee.

    The mean of the target is ``exp(<x, coef_> + intercept_)``. Minimizes
    ``(1/n) Σ (exp(z_i) - t_i z_i) + (α/2)‖w‖²`` privately, ``z_i = <x̃_i, w>``, where ``x̃_i`` is row
    i scaled into the ball of radius `data_norm`, followed by the constant `intercept_scaling`, and
    ``t_i`` is the target divided by a twentieth of the highest one (by nothing without an
    intercept). Where the mean would lie above the highest target, the exponential continues as a
    straight line. Targets may be any numbers >= 0, not only counts.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast import PoissonRegressor
    >>> X = np.linspace(-1.0, 1.0, 20_000)[:, np.newaxis]
    >>> y = np.random.default_rng(0).poisson(np.exp(1.0 + X[:, 0]))
    >>> model = PoissonRegressor(data_norm=1.0, target_bounds=(0, 20), random_state=0)
    >>> prediction = model.fit(X, y).predict([[0.5]])
    >>> bool(abs(prediction[0] - np.exp(1.5)) < 1.0), model.privacy_.epsilon <= 1.0
    (True, True)
    """

    def _family(self) -> Loss:
        return Loss("poisson")

    @property
    def deviance_power(self) -> float:
        """Power of the mean that the variance is taken to be in proportion to: 1."""
        return 1.0
