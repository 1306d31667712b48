"""Differentially private Tweedie regression."""

from __future__ import annotations

from dataclasses import dataclass

from dpfast._documented import documented
from dpfast._validation import check_real
from dpfast.estimators._log_link import PrivateTweedieRegressor
from dpfast.losses import Loss

# Of means whose intervals hold in bounds of the targets that are far too wide, in logarithms.
_FAR_BELOW = 6.0


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class TweedieRegressor(PrivateTweedieRegressor):
    """Regression of costs with many zeros, with an (ε, δ)-differential-privacy guarantee.

    The mean of the target is ``exp(<x, coef_> + intercept_)``, its variance in proportion to the
    power q of the mean: a Tweedie law, between Poisson (1) and gamma (2) that of a random number of
    gamma costs. Minimizes ``(1/n) Σ (exp((2-q) z_i)/(2-q) + t_i exp((1-q) z_i)/(q-1)) + (α/2)‖w‖²``
    privately, ``z_i = <x̃_i, w>``, where ``x̃_i`` is row i scaled into the ball of radius
    `data_norm`, followed by the constant `intercept_scaling`, and ``t_i`` is the target divided by
    a twentieth of the highest one (by nothing without an intercept). Far outside the targets' range
    the exponentials continue as straight lines.

    Parameters
    ----------
    power : float, default=1.5
        The power q, from 1 (Poisson) to 2 (gamma, whose targets are > 0).

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast import TweedieRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(-1.0, 1.0, 20_000)[:, np.newaxis]
    >>> y = rng.gamma(rng.poisson(np.exp(X[:, 0])))
    >>> model = TweedieRegressor(data_norm=1.0, target_bounds=(0.0, 20.0), random_state=0)
    >>> prediction = model.fit(X, y).predict([[0.5]])
    >>> bool(abs(prediction[0] - np.exp(0.5)) < 0.5), model.privacy_.epsilon <= 1.0
    (True, True)
    """

    power: float = 1.5

    _ratio = "mean ratio"

    def _family(self) -> Loss:
        power = self.deviance_power
        if power == 1.0:
            return Loss("poisson")
        return Loss("gamma") if power == 2.0 else Loss("tweedie", power)

    def _count_width(self) -> float:
        # Straight lines begin as far below; intervals are not for these, but for the exponentials.
        return _FAR_BELOW if self.inference else super()._count_width()

    @property
    def deviance_power(self) -> float:
        """Power of the mean that the variance is taken to be in proportion to: `power`."""
        return check_real(
            "power", self.power, low=1.0, high=2.0, hint="Others have no bounded gradients."
        )
