"""The least Gaussian noise on random batches that a budget pays for; the answer is remembered."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from scipy.optimize import brentq

from dpfast.errors import UnsupportedEvent
from dpfast.privacy.accountants import ACCOUNTANTS
from dpfast.privacy.accountants.rdp import RDPAccountant
from dpfast.privacy.budget import Budget
from dpfast.privacy.calibration import budget_mu
from dpfast.privacy.calibration_search import affordable, smallest_noise
from dpfast.privacy.events import Event, SubsampledGaussianEvent
from dpfast.privacy.ledger import Ledger

T = TypeVar("T")

# Between orders that are tried: what is lost by it is less than a hundredth of the noise.
_ORDER_FACTOR = 1.08
_MAX_TURNS = 40
# Of the logarithm of a multiplier that privacy loss distributions have to find.
_PLD_TOLERANCE = 1e-4
_LARGEST_LOG_NOISE = 100.0
# Multipliers that are tried; mostly the first is enough, and the last is a thousand times that.
_TURNS = 120


@lru_cache(maxsize=4096)
def _multiplier(
    key: tuple[Any, ...], budget: Budget, accountant: str, unit_events: Callable[..., list[Event]]
) -> float:
    if accountant in ("auto", "rdp"):
        multiplier = _renyi_multiplier(key, budget, unit_events)
        if multiplier is not None:
            return multiplier
    if accountant == "pld":
        return _pld_multiplier(key, budget, unit_events)
    return smallest_noise(lambda noise: unit_events(noise, *key), budget, accountant)


def _pld_multiplier(
    key: tuple[Any, ...], budget: Budget, unit_events: Callable[..., list[Event]]
) -> float:
    """A multiplier within the budget by privacy loss distributions, in some six evaluations.

    Each takes a second.  Renyi divergences never ask for less noise: the search begins there.
    """
    assert budget.epsilon is not None
    accountant, target = ACCOUNTANTS["pld"], budget.epsilon
    start = _renyi_multiplier(key, budget, unit_events)
    if start is None:
        return smallest_noise(lambda noise: unit_events(noise, *key), budget, "pld")

    @lru_cache
    def excess(log_noise: float) -> float:
        epsilon = accountant.epsilon(unit_events(math.exp(log_noise), *key), budget.delta)
        return math.log(max(epsilon, 1e-300) / target)

    high = math.log(start) + 1e-9
    step = max(-2.0 * excess(high), _PLD_TOLERANCE)
    low = high - step
    while excess(low) <= 0.0 and low > -_LARGEST_LOG_NOISE:
        high, low, step = low, low - step, 2.0 * step
    if excess(high) > 0.0 or excess(low) <= 0.0:
        return math.exp(high)
    root = float(brentq(excess, low, high, xtol=_PLD_TOLERANCE, rtol=1e-12))
    return math.exp(min(root + 2.0 * _PLD_TOLERANCE, high))


def _renyi_multiplier(
    key: tuple[Any, ...], budget: Budget, unit_events: Callable[..., list[Event]]
) -> float | None:
    """A multiplier within the budget by Renyi divergences, in a twentieth of the evaluations.

    It goes up and down between the best order for a multiplier and the smallest multiplier for an
    order.  Any order proves a guarantee, so where this stops early it errs on the side of noise.
    """
    assert budget.epsilon is not None
    accountant, log_delta, target = RDPAccountant(), math.log(budget.delta), budget.epsilon

    def epsilon(log_noise: float, excess: float) -> float:
        moment = accountant.log_moment(unit_events(math.exp(log_noise), *key), excess)
        return (moment - log_delta - math.log1p(excess)) / excess - math.log1p(1.0 / excess)

    def solve(excess: float, start: float, step: float) -> float | None:
        return _falling_root(lambda x: epsilon(x, excess) - target, start, step)

    # The best order for Gaussian noise on all rows; sampling moves it.
    excess = math.sqrt(-2.0 * log_delta) / budget_mu(budget)
    log_noise = solve(excess, 0.0, 0.5)
    for _ in range(_MAX_TURNS):
        if log_noise is None:
            return None
        better = _best_order(epsilon, log_noise, excess)
        if better == excess:
            break
        excess = better
        log_noise = solve(excess, log_noise, 0.01)
    return None if log_noise is None else math.exp(log_noise)


def _best_order(epsilon: Callable[[float, float], float], log_noise: float, excess: float) -> float:
    """An order of the lattice around `excess` where epsilon, which falls and rises, is least."""
    best = epsilon(log_noise, excess)
    for factor in (_ORDER_FACTOR, 1.0 / _ORDER_FACTOR):
        start = excess
        while (value := epsilon(log_noise, excess * factor)) < best:
            excess, best = excess * factor, value
        if excess != start:
            break
    return excess


def _falling_root(function: Callable[[float], float], start: float, step: float) -> float | None:
    """A point at most 1e-4 beyond the root of a falling function; None if there is none near."""
    low = high = start
    while function(high) > 0.0:
        low, high, step = high, high + step, 2.0 * step
        if high > _LARGEST_LOG_NOISE:
            return None
    while low == high or function(low) <= 0.0:
        high, low, step = low, low - step, 2.0 * step
        if low < -_LARGEST_LOG_NOISE:
            return None
    return float(brentq(function, low, high, xtol=4e-5, rtol=1e-12)) + 5e-5


def sampled_unit_events(
    noise: float, relation: str, sampling: str, batch: int, n_samples: int, count: int
) -> list[Event]:
    """Releases of sensitivity 1, for calibration."""
    return [
        SubsampledGaussianEvent(
            sensitivity=1.0,
            stddev=noise,
            dimension=1,
            neighboring_relation=relation,
            where="calibration",
            count=count,
            batch=batch,
            n_samples=n_samples,
            sampling=sampling,
        )
    ]


def noise_multiplier(
    budget: Budget,
    accountant: str,
    unit_events: Callable[..., list[Event]],
    *key: Any,
) -> float:
    """The smallest noise multiplier that the budget pays for; remembered.

    Parameters
    ----------
    budget : Budget
    accountant : str
        Of the ledger that will be charged.
    unit_events : callable
        A module's function from a multiplier and `key` to events of sensitivity 1.
    *key : hashable
    """
    return _multiplier(key, budget, accountant, unit_events)


def least_admitted(
    made: Callable[[float], tuple[T, tuple[Event, ...]]],
    multiplier: float,
    budget: Budget,
    accountant: str,
) -> T:
    """What is made of the first multiplier whose events a ledger admits, from one that about does.

    A BudgetExceeded where no noise will do, since delta has no room for samplers.
    """
    more = 1e-5
    for _ in range(_TURNS):
        found, events = made(multiplier)
        if affordable(events, budget, accountant):
            return found
        multiplier, more = multiplier * (1.0 + more), 1.1 * more
    Ledger(budget, accountant).check(*events, alone=True)
    return found


def check_priced(accountant: str, sampling: str, neighboring_relation: str) -> None:
    """Refuse an accountant that knows no amplification by this sampling."""
    event = sampled_unit_events(1.0, neighboring_relation, sampling, 1, 2, 1)[0]
    if accountant == "auto" or ACCOUNTANTS[accountant].supports(event):
        return
    reason = (
        "composes the privacy loss distributions of Poisson samples, under add_or_remove_one; that "
        "of fixed-size samples under replace_one is not known"
        if accountant == "pld"
        else "has no price for noise on random batches, which are only cheap if amplification by "
        "sampling is counted"
    )
    raise UnsupportedEvent(
        f"accountant must be 'auto' or 'rdp' for {sampling} batches; got {accountant!r}, which "
        f"{reason}."
    )
