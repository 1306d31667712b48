"""Optimal composition of pure releases: what many epsilons cost together at a delta."""

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from dpfast.errors import UnsupportedEvent
from dpfast.privacy.accountants._contract import Accountant
from dpfast.privacy.accountants.pure import PureAccountant, unless_pure_is_as_good
from dpfast.privacy.events import Event

_PURE = PureAccountant()
_ROUNDING = 1e-9
_MAX_TERMS = 100_000
# Below it the sums of probabilities have no digits left for what a delta would gain.
_SMALL = 1e-9


class OptimalAccountant(Accountant):
    r"""Optimal composition of pure-DP releases (Kairouz, Oh & Viswanath 2015, Theorem 3.3).

    k releases, each epsilon-DP, also when each is chosen after seeing those before it, have the
    privacy region of k binary randomized responses: with ``p = 1 / (1 + exp(-epsilon))`` and j of
    them against, ::

        delta(x) = sum_j C(k, j) p^(k-j) (1-p)^j (1 - exp(x - (k - 2 j) epsilon))_+

    and nothing smaller holds for every such sequence. Releases of different epsilons are priced as
    the largest (the optimum is #P-hard, Murtagh & Vadhan 2016), small ones in groups of a sum up to
    the largest: the randomized responses that dominate the releases are independent of each other,
    in whatever order the releases were made, and a group of them is one release of the sum.
    Beyond 100,000 groups the answer is basic composition.
    """

    name = "optimal"

    def supports(self, event: Event) -> bool:
        """Say whether the accountant "pure" prices `event`."""
        return _PURE.supports(event)

    def epsilon(self, events: Iterable[Event], delta: float) -> float:
        """Return the smallest epsilon at `delta`; the plain sum where `delta` gains below 1 %."""
        events = list(events)
        total = self._total(events)
        if delta == 0.0 or not _SMALL < total < math.inf:
            return total
        count, largest = _homogeneous(events)
        return unless_pure_is_as_good(events, min(total, _epsilon(count, largest, delta)))

    def delta(self, events: Iterable[Event], epsilon: float) -> float:
        """Return the smallest delta at `epsilon`, 0 from the plain sum on."""
        events = list(events)
        total = self._total(events)
        if epsilon >= total:
            return 0.0
        if not _SMALL < total < math.inf:
            return _PURE.delta(events, epsilon)
        count, largest = _homogeneous(events)
        return min(_PURE.delta(events, epsilon), _delta(count, largest, epsilon))

    def _total(self, events: list[Event]) -> float:
        for event in events:
            if not self.supports(event):
                raise UnsupportedEvent(
                    f"the accountant {self.name!r} has no price for an event of mechanism "
                    f"{event.mechanism!r}, which is not pure."
                )
        return _PURE.total(events)


def _homogeneous(events: list[Event]) -> tuple[int, float]:
    """Return k and epsilon of equal releases that the events are at most as bad as.

    Full groups: of an epsilon e, ``floor(largest / e)`` releases together are at most one of the
    largest. What remains over of each kind is one group more.
    """
    counts: dict[float, int] = {}
    for event in events:
        price = _PURE.total([event]) / event.count
        counts[price] = counts.get(price, 0) + event.count
    largest = max(counts)
    groups = 0
    for price, count in counts.items():
        size = max(1, math.floor(largest / price * (1.0 - 1e-12)))
        groups += -(-count // size)
    return groups, largest


@lru_cache(maxsize=1 << 12)
def _law(count: int, epsilon: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the privacy losses of `count` randomized responses and their log-probabilities."""
    against = np.arange(count + 1.0)
    log_against = -epsilon - math.log1p(math.exp(-epsilon))
    log_keep = -math.log1p(math.exp(-epsilon))
    log_choose = -betaln(against + 1.0, count - against + 1.0) - math.log1p(count)
    log_law = log_choose + (count - against) * log_keep + against * log_against
    return (count - 2.0 * against) * epsilon, log_law


def _delta(count: int, epsilon: float, at: float) -> float:
    if count > _MAX_TERMS:
        return 1.0
    losses, log_law = _law(count, epsilon)
    above = losses > at
    gains = -np.expm1(at - losses[above])
    return min(1.0, math.fsum(np.exp(log_law[above]) * gains) * (1.0 + _ROUNDING))


def _epsilon(count: int, epsilon: float, delta: float) -> float:
    """Return the smallest x with delta(x) <= delta: between two losses, delta is linear in e^x."""
    if count > _MAX_TERMS:
        return math.inf
    losses, log_law = _law(count, epsilon)
    target = delta / (1.0 + _ROUNDING)
    # From the largest loss down: A = sum of P, B = sum of P exp(-loss), so delta(x) = A - e^x B.
    mass = np.cumsum(np.exp(log_law))
    log_scaled = np.logaddexp.accumulate(log_law - losses)
    with np.errstate(over="ignore"):
        at_losses = mass[:-1] - np.exp(losses[1:] + log_scaled[:-1])
    # delta at the next smaller loss, if there is one, reaches the target: x lies above it.
    last = int(np.searchsorted(at_losses, target))
    found = max(0.0, math.log(mass[last] - target) - float(log_scaled[last]))
    # A and B may be large against their difference: what they lost is looked for the other way.
    step = 1e-12 * max(found, epsilon)
    while _delta(count, epsilon, found) > delta:
        found, step = found + step, 2.0 * step
    return found
