"""Differentially private negative binomial regression."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import xlogy

from dpfast._documented import documented
from dpfast._typing import Vector
from dpfast._validation import check_real
from dpfast.estimators._log_link import PrivateLogLinkRegressor
from dpfast.estimators._targets import LogMean, Targets
from dpfast.losses import Loss

# Of the loss, whose registry has none below.
_LEAST_DISPERSION = 1e-8


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class NegativeBinomialRegressor(PrivateLogLinkRegressor):
    """Regression of overdispersed counts with an (ε, δ)-differential-privacy guarantee.

    The mean m of the target is ``exp(<x, coef_> + intercept_)``, its variance ``m + a m²``, a the
    `dispersion`. Minimizes ``(1/n) Σ ((t_i + 1/b) log(1 + b exp(z_i)) - t_i z_i) + (α/2)‖w‖²``
    privately, ``z_i = <x̃_i, w>``, where ``x̃_i`` is row i scaled into the ball of radius
    `data_norm`, followed by the constant `intercept_scaling`, ``t_i`` is the target divided by a
    twentieth of the highest one (by nothing without an intercept), and b is a times what the target
    is divided by. The slopes of the loss are those of a Poisson regression over ``1 + a m``: large
    means count less, and their residuals with them.

    Parameters
    ----------
    dispersion : float, default=1.0
        The public a >= 0.000001: of a law of counts, how much more its variance is than the mean,
        over the square of the mean. It cannot be learned; a wrong one costs accuracy.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast import NegativeBinomialRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(-1.0, 1.0, 20_000)[:, np.newaxis]
    >>> y = rng.poisson(rng.gamma(2.0, np.exp(1.0 + X[:, 0]) / 2.0))
    >>> model = NegativeBinomialRegressor(
    ...     dispersion=0.5, data_norm=1.0, target_bounds=(0, 40), random_state=0
    ... )
    >>> prediction = model.fit(X, y).predict([[0.5]])
    >>> bool(abs(prediction[0] - np.exp(1.5)) < 1.0), model.privacy_.epsilon <= 1.0
    (True, True)
    """

    dispersion: float = 1.0

    def _family(self) -> Loss:
        return Loss("negative-binomial", self._dispersion())

    def _dispersion(self) -> float:
        return check_real("dispersion", self.dispersion, low=1e-6, high=1e6)

    def _targets_in(self, low: float, high: float) -> Targets:
        targets = super()._targets_in(low, high)
        assert isinstance(targets, LogMean)
        # Of targets that are divided by c, the variance is m / c + a m² for means m.
        scaled = self._dispersion() * math.exp(targets.center)
        bounded = min(max(scaled, _LEAST_DISPERSION), 1.0 / _LEAST_DISPERSION)
        return replace(targets, loss=replace(targets.loss, parameter=bounded))

    def deviance_explained(
        self, y: Vector, mean: Vector, sample_weight: Vector | None = None
    ) -> float:
        self.check_targets("y", y)
        target = np.asarray(y, dtype=np.float64)
        constant = float(np.average(target, weights=sample_weight))
        if constant == 0.0:
            raise ValueError("y must hold a number > 0 for the deviance; got zeros alone.")
        whole = self._deviance(target, np.full(len(target), constant), sample_weight)
        left = self._deviance(target, mean, sample_weight)
        return 1.0 - left / whole if whole > 0.0 else float(left == 0.0)

    def _deviance(self, y: Vector, mean: Vector, weight: Vector | None) -> float:
        a = self._dispersion()
        spread = (y + 1.0 / a) * np.log((1.0 + a * y) / (1.0 + a * mean))
        return float(np.average(2.0 * (xlogy(y, y / mean) - spread), weights=weight))
