"""What a budget buys: the conversions of :mod:`dpfast.privacy.conversions`, inverted.

A mistake here costs accuracy, never privacy: the ledger prices every release by its noise, and
filters confirm the limits that they take from here.
"""

import math
from functools import lru_cache

from scipy.special import ndtri

from dpfast._validation import check_choice, check_real
from dpfast.privacy.budget import Budget, check_delta
from dpfast.privacy.conversions import _ROUNDING, _gaussian_delta, _root, zcdp_epsilon

MARGIN = 1e-10
"""Relative amount by which calibrations stay inside their budget. It covers the rounding errors of
the conversions (below 1e-11) and of adding up the parts into which a plan cuts a budget."""

_LEAST_RHO = 1e-300

_GRID_LOSS = 1e-3
"""What the accountant "pld" may find a Gaussian release to cost more than it does."""


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
        If an argument is not a real number or is out of its range; also if rho would be below
        1e-300.

    Examples
    --------
    >>> from dpfast.privacy import zcdp_rho
    >>> round(zcdp_rho(1.0, 1e-6), 6)
    0.024356
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, low_open=True)
    return _zcdp_rho(epsilon, check_delta("delta", delta, allow_zero=False))


@lru_cache(maxsize=256)
def _zcdp_rho(epsilon: float, delta: float) -> float:
    """:func:`zcdp_rho` of numbers that were checked: a fit asks several times for the same."""
    # The simple rule, solved for rho, is safe; at 0, to which squares underflow, the search stays.
    log_term = -math.log(delta)
    low = (epsilon / (math.sqrt(log_term + epsilon) + math.sqrt(log_term))) ** 2
    low = max(low, _LEAST_RHO)
    if epsilon < _LEAST_RHO or zcdp_epsilon(low, delta) > epsilon:
        raise ValueError(
            f"epsilon={epsilon:g} with delta={delta:g} is too small for zero-concentrated privacy: "
            f"its rho would be below {_LEAST_RHO:g}. Give a larger epsilon or delta."
        )
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
