"""What a curator can be asked for: an answer, and the events that pay for it."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from dpfast.mechanisms._query import Query, Settled, plain
from dpfast.privacy import Event

if TYPE_CHECKING:
    from dpfast.random import SecureGenerator

T = TypeVar("T")


class Access(Settled, Generic[T]):
    """One look at the rows.

    Most accesses are a mechanism calibrated to a query.  Those that have no single exact value, or
    whose steps in between must stay secret, are in :mod:`dpfast.fused`.

    Attributes
    ----------
    where : str
        The place in the algorithm, for the ledger.
    query : Query or None
        What is asked, if it is one function of the rows.
    shape : object
        Without a query, the public shape of the rows that the price holds for; None if any.
    own_loss : bool
        Without a query, whether it brings the rows to the loss of that shape.
    """

    where: str = ""
    query: Query | None = None
    shape: Any = None
    own_loss: bool = False

    @abstractmethod
    def events(self, count: int = 1) -> tuple[Event, ...]:
        """Return what `count` such accesses are charged as."""

    def plain(self, *point: Any) -> tuple[Any, ...]:
        """Return the arguments as they are now, in objects that will not change.

        Raises
        ------
        TypeError
            If one is no number and no array.
        """
        if self.query is not None and self.query.takes_functions:
            return point
        return tuple(map(plain, point))

    def check(self, *point: Any) -> None:
        """Refuse arguments for which the price does not hold, before anything is spent.

        Raises
        ------
        TypeError, ValueError
        """
        del point

    @abstractmethod
    def answer(self, prepared: Any, rng: SecureGenerator, *point: Any) -> T:
        """Return the noisy answer; only a curator calls this, after it has spent the events.

        Parameters
        ----------
        prepared : object
            What the query's ``prepare`` made of the rows; without a query, the rows.
        rng : SecureGenerator
            The source of the noise.
        *point
            The arguments that are not fixed.
        """

    def named(self, where: str) -> Self:
        """Return the same access under another name in the ledger."""
        other = copy(self)
        other.__dict__.pop("_once", None)  # its events, which say where
        other.__dict__["where"] = where  # which no price rests on
        return other
