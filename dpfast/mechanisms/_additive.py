"""What the additive mechanisms share: pay, look, round, add noise, in this order."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._validation import check_choice, check_integer, check_real
from dpfast.errors import GridOverflow
from dpfast.mechanisms._grid import Grid
from dpfast.privacy import NEIGHBORING_RELATIONS, Ledger, QueryEvent

if TYPE_CHECKING:
    from dpfast.random import SecureGenerator

_ROUND_UP = 1.0 + 2.0**-48
"""Covers the rounding errors of the few operations that compute a charged sensitivity."""


class AdditiveMechanism(ABC):
    """A vector-valued query plus noise on a grid.

    Attributes
    ----------
    sensitivity, error : float
        As declared.
    charged_sensitivity : float
        What the event states: `sensitivity` plus everything that the arithmetic may add to it.
    dimension : int
    neighboring_relation : str
    grid_step : float
        The released values are multiples of it, up to the rounding of int64 to float64.
    """

    noise_name: ClassVar[str]
    """What the constructor's first argument is called, for messages."""

    def __init__(
        self,
        noise: float,
        *,
        sensitivity: float,
        dimension: int,
        neighboring_relation: str,
        error: float = 0.0,
        bound: float | None = None,
    ) -> None:
        noise = check_real(self.noise_name, noise, low=0.0, low_open=True)
        self.sensitivity = check_real("sensitivity", sensitivity, low=0.0, low_open=True)
        self.dimension = check_integer("dimension", dimension, low=1)
        self.neighboring_relation = check_choice(
            "neighboring_relation", neighboring_relation, NEIGHBORING_RELATIONS
        )
        self.error = check_real("error", error, low=0.0)
        self._grid = Grid.for_noise(self.noise_name, noise, bound)
        self.charged_sensitivity = (
            self.sensitivity + 2.0 * self.error + self._grid.rounding(self.dimension)
        ) * _ROUND_UP

    @property
    def grid_step(self) -> float:
        """The step of the grid."""
        return self._grid.step

    @abstractmethod
    def event(self, where: str, count: int = 1) -> QueryEvent:
        """Return the event that `count` releases are charged as."""

    @abstractmethod
    def _noise(self, rng: "SecureGenerator") -> NDArray[np.int64]:
        """Return fresh noise, in grid steps, shape (dimension,)."""

    def release(
        self,
        query: Callable[[], ArrayLike],
        *,
        rng: "SecureGenerator",
        ledger: Ledger,
        where: str,
    ) -> NDArray[np.float64]:
        """Return the query's value plus noise, after the ledger was charged.

        Parameters
        ----------
        query : callable
            Called without arguments, once, after the event was spent: nothing is to touch the data
            before. It returns an array of shape (dimension,).
        rng : SecureGenerator
        ledger : Ledger
        where : str
            The place in the algorithm, for the ledger.

        Returns
        -------
        value : ndarray of shape (dimension,)

        Raises
        ------
        BudgetExceeded, UnsupportedEvent, ValueError
            By the ledger; nothing was spent and `query` was not called.
        ValueError
            If the value has another shape or is not finite. The event stays spent.
        """
        ledger.spend(self.event(where))
        value = np.asarray(query(), dtype=np.float64)
        if value.shape != (self.dimension,):
            raise ValueError(
                f"the query of {where!r} must return an array of shape ({self.dimension},), as its "
                f"sensitivity was declared for; got shape {value.shape}. The privacy cost of this "
                "release stays spent."
            )
        # Says neither where nor which: that would be a statement about the data.
        if not np.isfinite(value).all():
            raise ValueError(
                f"the query of {where!r} must return finite numbers; got NaN or infinity. The "
                "privacy cost of this release stays spent, and that this error was raised is "
                "itself not covered by the guarantee: bound the data first."
            )
        return self._grid.to_float(self._grid.round(value) + self._noise(rng))

    @classmethod
    def _smallest(
        cls,
        target: float,
        *,
        sensitivity: float,
        dimension: int,
        neighboring_relation: str,
        error: float,
        bound: float | None,
    ) -> Self:
        """Return the mechanism with the smallest noise whose charged loss is at most `target`.

        The loss is the ratio of charged sensitivity and noise, and the grid, so the charge, grows
        with the noise: hence the iteration, which takes two or three rounds.
        """
        sensitivity = check_real("sensitivity", sensitivity, low=0.0, low_open=True)
        error = check_real("error", error, low=0.0)
        noise = (sensitivity + 2.0 * error) / target
        for _ in range(64):
            mechanism = cls(
                noise,
                sensitivity=sensitivity,
                dimension=dimension,
                neighboring_relation=neighboring_relation,
                error=error,
                bound=bound,
            )
            event = mechanism.event("calibration")
            excess = event.sensitivity / event.noise / target
            if excess <= 1.0:
                return mechanism
            # From the noise as the grid rounded it up, or a tiny excess never leaves its step.
            noise = event.noise * excess * _ROUND_UP
        raise GridOverflow(
            f"the budget is too small for dimension={dimension}: with this much noise, rounding to "
            "the grid costs more than the query itself. Give a larger budget or fewer dimensions."
        )
