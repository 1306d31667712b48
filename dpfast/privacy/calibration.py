r"""Conversions between mu-GDP, rho-zCDP and (epsilon, delta), and what a budget buys.

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
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfcx, ndtr, ndtri

from dpfast._validation import check_choice, check_real
from dpfast.privacy.budget import Budget, check_delta

MARGIN = 1e-10
"""Relative amount by which calibrations stay inside their budget. It covers the rounding errors of
the conversions (below 1e-11) and of adding up the parts into which a plan cuts a budget."""

_GRID_LOSS = 1e-3
"""What the accountant "pld" may find a Gaussian release to cost more than it does."""

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


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which a Gaussian mechanism is (epsilon, delta)-DP.

    The result errs on the safe side by a relative 1e-10, so that sums of the parts into which it is
    cut still fit: ``gaussian_delta(epsilon, result) <= delta`` and
    ``gaussian_epsilon(result, delta) <= epsilon``.

    Parameters
    ----------
    epsilon : float
        At least 0.
    delta : float
        In [1e-300, 1).

    Returns
    -------
    mu : float
        Above 0; the noise's standard deviation is ``sensitivity / mu``.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a real number or is out of its range.

    Examples
    --------
    The noise multiplier of one (1, 1e-6)-DP release:

    >>> from dpfast.privacy import gaussian_mu
    >>> round(1 / gaussian_mu(1.0, 1e-6), 4)
    4.2247
    """
    epsilon = check_real("epsilon", epsilon, low=0.0)
    return _gaussian_mu(epsilon, check_delta("delta", delta, allow_zero=False))


@lru_cache(maxsize=256)
def _gaussian_mu(epsilon: float, delta: float) -> float:
    """:func:`gaussian_mu` of numbers that were checked: a fit asks several times for the same."""
    # Phi(-t) = delta: safe, because the second term only lowers delta.
    z = -float(ndtri(delta))
    root = math.hypot(z, math.sqrt(2.0 * epsilon))
    low = 2.0 * epsilon / (z + root) if z > 0.0 else root - z
    if low == 0.0:  # epsilon = 0, where delta = 2 Phi(mu / 2) - 1 < 0.4 mu
        low = delta
    high = 2.0 * low
    while _gaussian_delta(epsilon, high) < delta:
        high *= 2.0
    mu = _root(lambda value: _gaussian_delta(epsilon, value), delta, 0.5 * low, high)
    mu *= 1.0 - MARGIN
    while _gaussian_delta(epsilon, mu * (1.0 + 0.5 * MARGIN)) > delta * (1.0 - 2.0 * _ROUNDING):
        mu *= 1.0 - MARGIN
    return mu


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
    center = 0.5 * math.log(-log_delta / rho)
    return max(0.0, _minimum(epsilon, center)) * (1.0 + _ROUNDING)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which :func:`zcdp_epsilon` promises at most `epsilon`.

    The result errs on the safe side by a relative 1e-10, as :func:`gaussian_mu` does.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        In [1e-300, 1).

    Returns
    -------
    rho : float
        Above 0.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a real number or is out of its range.

    Examples
    --------
    >>> from dpfast.privacy import zcdp_rho
    >>> round(zcdp_rho(1.0, 1e-6), 6)
    0.024356
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, low_open=True)
    delta = check_delta("delta", delta, allow_zero=False)
    # The simple rule, solved for rho, is safe.
    log_term = -math.log(delta)
    low = (epsilon / (math.sqrt(log_term + epsilon) + math.sqrt(log_term))) ** 2
    high = 2.0 * low
    while zcdp_epsilon(high, delta) < epsilon:
        high *= 2.0
    rho = _root(lambda value: zcdp_epsilon(value, delta), epsilon, 0.5 * low, high)
    rho *= 1.0 - MARGIN
    while zcdp_epsilon(rho * (1.0 + 0.5 * MARGIN), delta) > epsilon:
        rho *= 1.0 - MARGIN
    return rho


def budget_mu(budget: Budget, accountant: str = "auto") -> float:
    """Return the largest total ``mu = sqrt(sum mu_i^2)`` of Gaussian releases that `budget` buys.

    Parameters
    ----------
    budget : Budget
    accountant : str, default="auto"
        The accountant of the ledger that will be charged. "zcdp" and "rdp" buy less than the
        others: their step to (epsilon, delta) loses. "pld" loses a thousandth on its grid.

    Returns
    -------
    mu : float

    Raises
    ------
    ValueError
        If no amount of Gaussian noise fits: a pure budget, or an accountant of pure releases.

    Examples
    --------
    >>> from dpfast.privacy import Budget, budget_mu
    >>> round(budget_mu(Budget(1.0, 1e-6)), 5), round(budget_mu(Budget(rho=0.5)), 5)
    (0.2367, 1.0)
    """
    names = ("auto", "pure", "gdp", "zcdp", "basic", "optimal", "rdp", "objective", "pld")
    check_choice("accountant", accountant, names)
    if budget.kind == "pure" or accountant in ("pure", "optimal"):
        raise ValueError(
            f"{budget!r} with accountant={accountant!r} cannot pay for Gaussian noise, which has "
            "no pure guarantee. Give a delta > 0 (for example 1e-6), or use L2Laplace noise."
        )
    if budget.mu is not None:
        return budget.mu * (1.0 - MARGIN)
    if budget.epsilon is not None and accountant not in ("zcdp", "rdp"):
        mu = gaussian_mu(budget.epsilon, budget.delta)
        return mu * (1.0 - _GRID_LOSS) if accountant == "pld" else mu
    return math.sqrt(2.0 * budget_rho(budget))


def budget_rho(budget: Budget) -> float:
    """Return the largest total rho of zCDP releases of any kind that `budget` buys.

    Parameters
    ----------
    budget : Budget

    Returns
    -------
    rho : float

    Raises
    ------
    ValueError
        If the budget is pure, or given as mu: zCDP implies neither.

    Examples
    --------
    >>> from dpfast.privacy import Budget, budget_rho
    >>> round(budget_rho(Budget(1.0, 1e-6)), 6)
    0.024356
    """
    if budget.rho is not None:
        return budget.rho * (1.0 - MARGIN)
    if budget.kind != "approximate" or budget.epsilon is None:
        raise ValueError(
            f"{budget!r} cannot be spent as zCDP, which implies neither pure DP nor mu-GDP. "
            "Give Budget(epsilon, delta) with delta > 0, or Budget(rho=...)."
        )
    return zcdp_rho(budget.epsilon, budget.delta)


def budget_epsilon(budget: Budget) -> float:
    """Return the epsilon of the one pure-DP release that `budget` buys.

    A delta is not used. Under ``Budget(rho=...)`` an epsilon-DP release costs ``epsilon^2 / 2``
    (Bun & Steinke 2016, Proposition 1.4).

    Parameters
    ----------
    budget : Budget

    Returns
    -------
    epsilon : float

    Raises
    ------
    ValueError
        If the budget is given as mu.

    Examples
    --------
    >>> from dpfast.privacy import Budget, budget_epsilon
    >>> round(budget_epsilon(Budget(1.0)), 6), round(budget_epsilon(Budget(rho=0.5)), 6)
    (1.0, 1.0)
    """
    if budget.epsilon is not None:
        return budget.epsilon * (1.0 - MARGIN)
    if budget.rho is not None:
        return math.sqrt(2.0 * budget_rho(budget))
    raise ValueError(
        f"{budget!r} cannot pay for a release that is priced in epsilon. "
        "Give Budget(epsilon), Budget(epsilon, delta) or Budget(rho=...)."
    )


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
        return math.log(max(function(x), 1e-320) / target)

    return float(brentq(excess, low, high, xtol=5e-324, rtol=1e-14, maxiter=500))


def _minimum(function: Callable[[float], float], center: float) -> float:
    """Return the minimum of `function` over ``exp(x)`` for x around `center`."""
    found = minimize_scalar(
        lambda x: function(math.exp(x)),
        bounds=(center - 10.0, center + 10.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(found.fun)
