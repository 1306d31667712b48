r"""Conversions of mu-GDP and rho-zCDP to (epsilon, delta), and back to delta.

Formulas
--------
A Gaussian mechanism with ``mu = sensitivity / stddev`` is (epsilon, delta)-DP exactly when ::

    delta >= Phi(-t) - exp(epsilon) Phi(-t - mu),      t = epsilon / mu - mu / 2

(Balle & Wang 2018, Theorem 8; Dong, Roth & Su 2022, Corollary 2.13). With the normal density phi
and the Mills ratio ``m = Phi(-.) / phi``, and as ``exp(epsilon) phi(t + mu) = phi(t)``, the right
side is ``phi(t) (m(t) - m(t + mu))``, which neither overflows nor cancels in the tail.

A rho-zCDP mechanism has Renyi divergence at most ``alpha rho`` at every order ``alpha > 1``, so
(Canonne, Kamath & Steinke 2020, Proposition 12) it is (epsilon, delta)-DP with ::

    delta = inf_alpha exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) (1 - 1 / alpha)^alpha

Every order gives a valid bound: an imperfect minimization is loose, never wrong.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfcx, ndtr, ndtri

from dpfast._validation import check_real
from dpfast.privacy.budget import check_delta

_ROUNDING = 1e-12
_ENDLESS = 1e100
_UNDERFLOW = 40.0
"""phi is below the smallest float64 from here on."""
_SQRT_2 = math.sqrt(2.0)
_SQRT_2PI = math.sqrt(2.0 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta for which a mu-GDP Gaussian mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        At least 0.
    mu : float
        At least 0, may be infinite: sensitivity over standard deviation.

    Returns
    -------
    delta : float
        With a relative error below 1e-10 (mostly below 1e-13) as long as it is above 1e-300; it
        underflows towards 0 below that.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a real number or is out of its range.

    Examples
    --------
    >>> from dpfast.privacy import gaussian_delta
    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    epsilon = check_real("epsilon", epsilon, low=0.0)
    mu = check_real("mu", mu, low=0.0, allow_inf=True)
    if mu == 0.0 or mu == math.inf:
        return float(mu > 0.0)
    return _gaussian_delta(epsilon, mu)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which a mu-GDP Gaussian mechanism is (epsilon, delta)-DP.

    The result errs on the safe side: ``gaussian_delta(result, mu) <= delta``.

    Parameters
    ----------
    mu : float
        At least 0, may be infinite.
    delta : float
        In [1e-300, 1).

    Returns
    -------
    epsilon : float
        At least 0; infinite if `mu` is.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a real number or is out of its range.

    Examples
    --------
    >>> from dpfast.privacy import gaussian_epsilon
    >>> round(gaussian_epsilon(1.0, 1e-6), 5)
    4.88655
    """
    mu = check_real("mu", mu, low=0.0, allow_inf=True)
    delta = check_delta("delta", delta, allow_zero=False)
    target = delta * (1.0 - _ROUNDING)
    if mu == math.inf:
        return mu
    if mu == 0.0 or _gaussian_delta(0.0, mu) <= target:
        return 0.0
    # Phi(-t) alone is at least delta, so its root is an upper end of the bracket. The slack keeps
    # the bracket valid when both terms agree to the last bit.
    high = max(mu * (mu / 2.0 - float(ndtri(target))), 0.0) * (1.0 + 1e-9) + 1e-9 * mu
    if mu > 1e6:  # t is a difference that has no digits left, and high is as good
        return high
    epsilon = _root(lambda value: _gaussian_delta(value, mu), target, 0.0, high)
    step = _ROUNDING * max(epsilon, mu * 1e-3)
    while _gaussian_delta(epsilon, mu) > target:
        epsilon, step = epsilon + step, 2.0 * step
    return epsilon


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a delta for which every rho-zCDP mechanism is (epsilon, delta)-DP.

    Source: Canonne, Kamath & Steinke 2020, Proposition 12, minimized over the order.

    Parameters
    ----------
    rho : float
        At least 0, may be infinite.
    epsilon : float
        At least 0.

    Returns
    -------
    delta : float
        In [0, 1].

    Raises
    ------
    TypeError, ValueError
        If an argument is not a real number or is out of its range.

    Examples
    --------
    >>> from dpfast.privacy import zcdp_delta
    >>> f"{zcdp_delta(0.1, 2.0):.3e}"
    '4.325e-06'
    """
    rho = check_real("rho", rho, low=0.0, allow_inf=True)
    epsilon = check_real("epsilon", epsilon, low=0.0)
    if rho == 0.0 or rho > _ENDLESS:
        return float(rho > 0.0)

    def log_delta(order_minus_1: float) -> float:
        return (
            order_minus_1 * (order_minus_1 * rho + rho - epsilon)
            - order_minus_1 * math.log1p(1.0 / order_minus_1)
            - math.log1p(order_minus_1)
        )

    # The derivative vanishes where 2 rho x + rho - epsilon = log(1 + 1 / x), once; put 1 / x there.
    linear = epsilon - rho
    root = math.sqrt(linear * linear + 8.0 * rho)
    center = math.log((linear + root) / (4.0 * rho) if linear > 0.0 else 2.0 / (root - linear))
    return min(1.0, math.exp(_minimum(log_delta, center) + _ROUNDING))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon for which every rho-zCDP mechanism is (epsilon, delta)-DP.

    Source: Canonne, Kamath & Steinke 2020, Proposition 12, minimized over the order. It is never
    larger than the simple rule ``rho + 2 sqrt(rho log(1 / delta))`` (Bun & Steinke 2016).

    Parameters
    ----------
    rho : float
        At least 0, may be infinite.
    delta : float
        In [1e-300, 1).

    Returns
    -------
    epsilon : float
        At least 0; infinite if `rho` is.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a real number or is out of its range.

    Examples
    --------
    >>> from dpfast.privacy import zcdp_epsilon
    >>> round(zcdp_epsilon(0.1, 1e-6), 4)
    2.1419
    """
    rho = check_real("rho", rho, low=0.0, allow_inf=True)
    delta = check_delta("delta", delta, allow_zero=False)
    if rho == 0.0 or rho == math.inf:
        return rho
    log_delta = math.log(delta)

    def epsilon(order_minus_1: float) -> float:
        return (
            (1.0 + order_minus_1) * rho
            - math.log1p(1.0 / order_minus_1)
            - (log_delta + math.log1p(order_minus_1)) / order_minus_1
        )

    # The simple rule is smallest at sqrt(log(1 / delta) / rho).
    center = 0.5 * math.log(-log_delta / max(rho, 1e-304))
    return max(0.0, _minimum(epsilon, center)) * (1.0 + _ROUNDING)


def _gaussian_delta(epsilon: float, mu: float) -> float:
    t = epsilon / mu - 0.5 * mu
    if t > _UNDERFLOW:
        return 0.0
    density = math.exp(-0.5 * t * t) / _SQRT_2PI
    if mu <= 1.0:
        # m(t) - m(t + mu) cancels for small mu. Its derivative is x m(x) - 1, so it is the integral
        # of 1 - x m(x) > 0, entire in x and smooth on the scale 1: 24 nodes are exact to rounding.
        x = t + 0.5 * mu * (1.0 + _NODES)
        return density * 0.5 * mu * float(_WEIGHTS @ (1.0 - x * _mills(x)))
    if t > 0.0:
        return density * float(_mills(t) - _mills(t + mu))
    # Here t + mu > 1/2: the first term is at least 1/2 and exceeds the second, a product that
    # cannot overflow.
    return float(ndtr(-t)) - density * float(_mills(t + mu))


def _mills(x: ArrayLike) -> NDArray[np.float64]:
    """Return (1 - Phi(x)) / phi(x)."""
    return np.asarray(0.5 * _SQRT_2PI * erfcx(np.asarray(x) / _SQRT_2))


def _root(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Solve ``function(x) = target > 0`` on a bracket, comparing logarithms."""

    def excess(x: float) -> float:
        return math.log(max(function(x), 1e-305) / target)

    return float(brentq(excess, low, high, xtol=1e-305, rtol=1e-14, maxiter=500))


def _minimum(function: Callable[[float], float], center: float) -> float:
    """Return the minimum of `function` over ``exp(x)`` for x around `center`, within float64."""
    center = min(center, 690.0)
    with np.errstate(all="ignore"):
        found = minimize_scalar(
            lambda x: function(math.exp(x)),
            bounds=(center - 10.0, center + 10.0),
            method="bounded",
            options={"xatol": 1e-9},
        )
    return float(found.fun)
