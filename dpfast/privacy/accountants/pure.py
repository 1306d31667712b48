"""Pure differential privacy: the epsilons add up."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from dpfast.privacy.accountants._contract import AdditiveAccountant
from dpfast.privacy.events import (
    Event,
    ExponentialEvent,
    L2LaplaceEvent,
    L2LaplaceObjectiveEvent,
    LaplaceEvent,
    NoisyMaxEvent,
    PureSelectionEvent,
    SubsampledLaplaceEvent,
)


def _epsilon(event: Any) -> float:
    return float(event.epsilon)


class PureAccountant(AdditiveAccountant):
    """Basic composition of pure-DP releases (Dwork & Roth 2014, Theorem 3.14)."""

    name = "pure"
    pure = True
    unit = "epsilon"
    prices: ClassVar = dict.fromkeys(
        (
            L2LaplaceEvent,
            L2LaplaceObjectiveEvent,
            LaplaceEvent,
            SubsampledLaplaceEvent,
            NoisyMaxEvent,
            ExponentialEvent,
            PureSelectionEvent,
        ),
        _epsilon,
    )

    def epsilon(self, events: Iterable[Event], delta: float) -> float:
        """Return the sum of the epsilons; `delta` is not used."""
        return self.total(events)

    def delta(self, events: Iterable[Event], epsilon: float) -> float:
        """Return the delta of a total-DP mechanism at `epsilon`.

        Randomized response is the worst of them (Kairouz, Oh & Viswanath 2015), so it is
        ``(exp(total) - exp(epsilon)) / (exp(total) + 1)`` below the total and 0 from there on.
        """
        total = self.total(events)
        if epsilon >= total:
            return 0.0
        return -math.expm1(epsilon - total) / (1.0 + math.exp(-total))


_WORTH = 0.99


def unless_pure_is_as_good(events: Sequence[Event], epsilon: float) -> float:
    """Return `epsilon`, found at some delta, or the plain sum if that is at most 1 % larger.

    The sum needs no delta, which is the stronger promise; a delta should buy something for it. An
    accountant that uses this ties with "pure", which comes first in the table.
    """
    if not all(type(event) in PureAccountant.prices for event in events):
        return epsilon
    total = PureAccountant().total(events)
    return epsilon if epsilon < _WORTH * total else total
