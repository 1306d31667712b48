"""What all mechanisms share: pay, look, check, in this order; and finding the least noise."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_choice, check_real
from dpfast.errors import GridOverflow
from dpfast.mechanisms._access import Access
from dpfast.mechanisms._grid import Grid
from dpfast.mechanisms._query import Query
from dpfast.privacy import RELATIONS, Event

T = TypeVar("T")

ROUND_UP = 1.0 + 2.0**-48
"""Covers the rounding errors of the few operations that compute a charged sensitivity."""


class Mechanism(Access[T]):
    """A noisy answer to a query, on a grid.

    Attributes
    ----------
    neighboring_relation : str
    error : float
        As declared.
    grid_step : float
        The step of the grid to which the query's values are rounded.
    """

    norm: ClassVar[str]
    """What the sensitivity of its queries is measured in."""
    noise_name: ClassVar[str]
    """What the constructor's first argument is called, for messages."""

    _grid: Grid

    def __init__(self, *, neighboring_relation: str, error: float) -> None:
        self.neighboring_relation = check_choice(
            "neighboring_relation", neighboring_relation, RELATIONS
        )
        self.error = check_real("error", error, low=0.0)

    @property
    def grid_step(self) -> float:
        """The step of the grid."""
        return self._grid.step

    @abstractmethod
    def event(self, where: str | None = None, count: int = 1) -> Event:
        """Return the event that `count` releases are charged as; `where` is the access's own."""

    def events(self, count: int = 1) -> tuple[Event, ...]:
        """Return what `count` releases are charged as."""
        if count == 1:  # asked for at every release
            known: tuple[Event, ...] | None = self.__dict__.get("_once")
            if known is None or known[0].where != self.where:
                known = self.__dict__["_once"] = (self.event(),)
            return known
        return (self.event(count=count),)

    def check(self, *point: Any) -> None:
        """Refuse arguments of other shapes, or for which the query may have no finite value."""
        if self.query is not None:
            self.query.check_shapes(point, slice(self.query.fixed, None))
            self.query.check_point(*point)

    def _value(self, prepared: Any, *point: Any) -> NDArray[np.float64]:
        """The query's value, which must have as many entries as its sensitivity was stated for."""
        assert self.query is not None
        value = np.asarray(self.query(prepared, *point), dtype=np.float64)
        if value.shape != (self.query.dimension,):
            raise ValueError(
                f"the query of {self.where!r} must return an array of shape "
                f"({self.query.dimension},), as its sensitivity was stated for; got shape "
                f"{value.shape}. The privacy cost of this release stays spent."
            )
        # Says neither where nor which: that would be a statement about the data.
        if not np.isfinite(value).all():
            raise ValueError(
                f"the query of {self.where!r} must return finite numbers; got NaN or infinity. The "
                "privacy cost of this release stays spent, and that this error was raised is "
                "itself not covered by the guarantee: bound the data first."
            )
        return value

    @classmethod
    def _of(
        cls, query: Query, neighboring_relation: str, where: str, made: Callable[..., Self]
    ) -> Self:
        """The mechanism that `made` makes from what the query states of itself."""
        if not isinstance(query, Query):
            raise TypeError(f"query must be a Query; got {type(query).__name__}.")
        if query.norm != cls.norm:
            raise ValueError(
                f"query must be measured in {cls.norm!r} for {cls.__name__}; got "
                f"{type(query).__name__}, measured in {query.norm!r}."
            )
        mechanism = made(
            query.sensitivity(neighboring_relation),
            neighboring_relation=neighboring_relation,
            error=query.rounding_error(),
            bound=query.bound,
        )
        mechanism.__dict__.update(query=query, where=where)
        return mechanism

    @classmethod
    def _smallest(cls, target: float, noise: float, **settings: Any) -> Self:
        """Return the mechanism with the smallest noise whose charged loss is at most `target`.

        `noise` is a first guess, not above it. The grid, so the charge, grows with the noise: hence
        the iteration, which takes two or three rounds.
        """
        make: Any = cls
        for _ in range(64):
            mechanism: Self = make(noise, **settings)
            event: Any = mechanism.event("calibration")
            excess = cls._loss(event) / target
            if excess <= 1.0:
                return mechanism
            # From the noise as the grid rounded it up, or a tiny excess never leaves its step.
            noise = event.noise * excess * ROUND_UP
        raise GridOverflow(
            f"the budget is too small{cls._size(settings)}: with this much noise, rounding to the "
            "grid costs more than the query itself. Give a larger budget or fewer dimensions."
        )

    @staticmethod
    def _loss(event: Any) -> float:
        """Return what is to be at most the target of :meth:`_smallest`."""
        return float(event.sensitivity / event.noise)

    @staticmethod
    def _size(settings: dict[str, Any]) -> str:
        return f" for dimension={settings['dimension']}" if "dimension" in settings else ""
