"""The smallest noise that a budget pays for, where no formula inverts the accountant."""

import math
from collections.abc import Callable, Iterable
from functools import cache

from scipy.optimize import brentq

from dpfast._validation import check_real
from dpfast.errors import BudgetExceeded, UnsupportedEvent
from dpfast.privacy.accountants import ACCOUNTANTS, AUTOMATIC
from dpfast.privacy.budget import Budget
from dpfast.privacy.events import Event
from dpfast.privacy.ledger import Ledger

_TOLERANCE = 1e-7
_MAX_NOISE = 1e100
_CLAMP = 690.0


def smallest_noise(
    events_of: Callable[[float], Iterable[Event]],
    budget: Budget,
    accountant: str = "auto",
    *,
    start: float = 1.0,
) -> float:
    """Return the smallest noise whose events a new ledger of `budget` admits.

    Parameters
    ----------
    events_of : callable
        A noise scale, above 0, to the events of a run with that scale. More noise must not cost
        more. Parameters that do not depend on the noise (counts, sampling) are kept fixed.
    budget : Budget
    accountant : str, default="auto"
        The accountant of the ledger that will be charged.
    start : float, default=1.0
        Where to begin: any guess is as good, a good one is faster.

    Returns
    -------
    noise : float
        Its events are within the budget, those of a noise smaller by a relative 1e-6 are not
        (rounding aside).

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong type or out of its range; also if no noise, or any noise, is
        enough.
    UnsupportedEvent
        If no accountant prices the events in the budget's unit.

    Examples
    --------
    One thousand steps of private stochastic gradient descent on 1 % of the rows:

    >>> from dpfast.privacy import Budget, SubsampledGaussianEvent, smallest_noise
    >>> def events_of(noise):
    ...     yield SubsampledGaussianEvent(
    ...         sensitivity=1.0, stddev=noise, dimension=5, batch=10, n_samples=1000,
    ...         sampling="poisson", neighboring_relation="add_or_remove_one", where="step",
    ...         count=1000)
    >>> round(smallest_noise(events_of, Budget(1.0, 1e-6)), 3)
    1.659
    """
    Ledger(budget, accountant)  # refuses a budget that the accountant cannot limit
    start = check_real("start", start, low=1e-100, high=_MAX_NOISE)
    names = AUTOMATIC if accountant == "auto" else (accountant,)

    @cache
    def excess(log_noise: float) -> float:
        return _log_excess(list(events_of(math.exp(log_noise))), budget, names)

    low, high = _bracket(excess, math.log(start), budget)
    root = brentq(excess, low, high, xtol=_TOLERANCE, rtol=1e-14)
    margin = _TOLERANCE
    while root + margin < high and excess(root + margin) > 0.0:
        margin *= 2.0
    return math.exp(min(root + margin, high))


def _log_excess(events: list[Event], budget: Budget, names: tuple[str, ...]) -> float:
    """Logarithm of the price by the cheapest accountant over the budget; above 0 it is too much."""
    able = [
        ACCOUNTANTS[name]
        for name in names
        if ACCOUNTANTS[name].accepts(budget) and all(map(ACCOUNTANTS[name].supports, events))
    ]
    if not able:
        raise UnsupportedEvent(
            f"no accountant among {list(names)} can price "
            f"{sorted({event.mechanism for event in events})} against {budget!r}."
        )
    spent = min(a.spent(events, budget) for a in able)
    # Written so that a NaN is too much.
    if not spent <= budget.limit:
        spent = max(spent, math.nextafter(budget.limit, math.inf))
        return min(math.log(spent / budget.limit), _CLAMP) if spent < math.inf else _CLAMP
    return max(math.log(spent / budget.limit), -_CLAMP) if spent > 0.0 else -_CLAMP


def _bracket(excess: Callable[[float], float], start: float, budget: Budget) -> tuple[float, float]:
    """Logarithms of a noise that is too small and of one that is enough, near this one."""
    low = high = start
    step = math.log(2.0)
    if excess(high) > 0.0:
        while excess(high) > 0.0:
            low, high, step = high, high + step, 2.0 * step
            if high > math.log(_MAX_NOISE):
                raise ValueError(
                    f"no amount of noise brings these events within {budget!r}: a part of them "
                    "does not depend on it. Give a larger budget, or ask for fewer releases."
                )
    else:
        while excess(low) <= 0.0:
            low, high, step = low - step, low, 2.0 * step
            if low < -math.log(_MAX_NOISE):
                raise ValueError(
                    f"any amount of noise keeps these events within {budget!r}: their price does "
                    "not depend on it."
                )
    return low, high


def affordable(events: Iterable[Event], budget: Budget, accountant: str = "auto") -> bool:
    """Say whether a new ledger would admit these events; nothing is spent anywhere.

    Parameters
    ----------
    events : iterable of Event
    budget : Budget
    accountant : str, default="auto"

    Raises
    ------
    TypeError, ValueError, UnsupportedEvent
        As for :class:`Ledger`.
    """
    try:
        Ledger(budget, accountant).check(*events, alone=True)
    except BudgetExceeded:
        return False
    return True
