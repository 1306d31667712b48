"""What an accountant is, and the base of those whose prices add up."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from dpfast.errors import UnsupportedEvent
from dpfast.privacy.budget import Budget
from dpfast.privacy.events import Event

_LEAST = 1e-300
"""Of a price: squares of small ones underflow, and what is added up would be free."""


class Accountant(ABC):
    """Turns a sequence of events into a guarantee.

    Every answer is an upper bound of the privacy loss of all the events together, also when each
    was chosen after seeing the releases before it.
    """

    name: ClassVar[str]
    pure: ClassVar[bool] = False
    """Whether the guarantee is (epsilon, 0)-DP, so that no delta is used."""
    automatic: ClassVar[bool] = True
    """Whether "auto" may choose it: not if it needs a library that may be missing."""
    exact: ClassVar[bool] = False
    """Whether nothing smaller holds: "auto" then asks nobody else."""

    @abstractmethod
    def supports(self, event: Event) -> bool:
        """Say whether the accountant can price `event`."""

    @abstractmethod
    def epsilon(self, events: Iterable[Event], delta: float) -> float:
        """Return an epsilon for which the events are (epsilon, delta)-DP; may be infinite."""

    @abstractmethod
    def delta(self, events: Iterable[Event], epsilon: float) -> float:
        """Return a delta for which the events are (epsilon, delta)-DP."""

    def accepts(self, budget: Budget) -> bool:
        """Say whether a guarantee of this accountant can be compared with `budget`."""
        return budget.kind == "approximate" or (self.pure and budget.kind == "pure")

    def spent(self, events: Iterable[Event], budget: Budget) -> float:
        """Return what the events cost, in the unit of `budget`."""
        return self.epsilon(events, budget.delta)


class AdditiveAccountant(Accountant):
    """An accountant whose privacy parameter is a function of a sum of prices."""

    unit: ClassVar[str]
    """The parameter it adds up to, named as in Budget: "epsilon", "mu" or "rho"."""
    prices: ClassVar[Mapping[type[Event], Callable[[Any], float]]]
    """The additive price of one release, by class of event."""

    def supports(self, event: Event) -> bool:
        """Say whether there is a price for this class of event."""
        return type(event) in self.prices

    def total(self, events: Iterable[Event]) -> float:
        """Return the parameter named by `unit` for all the events together.

        Raises
        ------
        UnsupportedEvent
            If one of the events has no price.
        """
        return math.fsum(event.count * self.price(event) for event in events)

    def accepts(self, budget: Budget) -> bool:
        """Say whether the budget is in the accountant's unit or can be converted to."""
        return super().accepts(budget) or self.unit == budget.unit != "epsilon"

    def spent(self, events: Iterable[Event], budget: Budget) -> float:
        """Return what the events cost, in the unit of `budget`."""
        return self.total(events) if budget.unit == self.unit else super().spent(events, budget)

    def price(self, event: Event) -> float:
        """Return what one of the event's releases adds to the sum, never 0.

        Raises
        ------
        UnsupportedEvent
            If it has no price.
        """
        price = self.prices.get(type(event))
        if price is None:
            raise UnsupportedEvent(
                f"the accountant {self.name!r} has no price for an event of mechanism "
                f"{event.mechanism!r}; it prices {sorted(kind.mechanism for kind in self.prices)}."
            )
        return max(float(price(event)), _LEAST)
