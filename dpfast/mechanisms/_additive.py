"""What the additive mechanisms share: pay, look, round, add noise, in this order."""

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_integer, check_real
from dpfast.mechanisms._grid import Grid
from dpfast.mechanisms._mechanism import ROUND_UP, Mechanism
from dpfast.mechanisms._query import Query
from dpfast.privacy import QueryEvent

if TYPE_CHECKING:
    from dpfast.random import SecureGenerator


class AdditiveMechanism(Mechanism[NDArray[np.float64]]):
    """A vector-valued query plus noise on a grid.

    Attributes
    ----------
    sensitivity, error : float
        As declared.
    charged_sensitivity : float
        What the event states: `sensitivity` plus everything that the arithmetic may add to it.
    dimension : int
    neighboring_relation : str
    integer_scale : int
        The scale of the noise in grid steps, rounded up.
    grid_step : float
        The released values are multiples of it, up to the rounding of int64 to float64.
    """

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
        super().__init__(neighboring_relation=neighboring_relation, error=error)
        self._grid = self._grid_for(noise, bound)
        self.integer_scale = math.ceil(noise / self.grid_step)
        self.charged_sensitivity = self._charged()

    def _grid_for(self, noise: float, bound: float | None) -> Grid:
        return Grid.for_noise(self.noise_name, noise, bound)

    def _charged(self) -> float:
        """Return the distance that the grid points of two neighbors may have."""
        return (
            self.sensitivity + 2.0 * self.error + self._grid.rounding(self.dimension)
        ) * ROUND_UP

    @abstractmethod
    def event(self, where: str | None = None, count: int = 1) -> QueryEvent:
        """Return the event that `count` releases are charged as; `where` is the access's own."""

    @abstractmethod
    def _noise(self, rng: "SecureGenerator") -> NDArray[np.int64]:
        """Return fresh noise, in grid steps, shape (dimension,)."""

    def answer(self, prepared: Any, rng: "SecureGenerator", *point: Any) -> NDArray[np.float64]:
        """Return the query's value, rounded, plus noise."""
        return self.perturb(self._value(prepared, *point), rng)

    def perturb(self, value: NDArray[np.float64], rng: "SecureGenerator") -> NDArray[np.float64]:
        """Return a finite value of the query, rounded, plus noise; it was paid for elsewhere."""
        return self._grid.to_float(self._grid.round(value) + self._noise(rng))

    @classmethod
    def of_query(
        cls, noise: float, query: Query, neighboring_relation: str, *, where: str = ""
    ) -> Self:
        """Return the mechanism with a given noise for a query.

        Parameters
        ----------
        noise : float
            The constructor's first argument.
        query : Query
        neighboring_relation : {"replace_one", "add_or_remove_one"}
        where : str, default=""
            The place in the algorithm, for the ledger.
        """

        dimension = query.dimension
        return cls._of(
            query,
            neighboring_relation,
            where,
            lambda s, **settings: cls(noise, sensitivity=s, dimension=dimension, **settings),
        )

    @classmethod
    def _calibrated(
        cls, target: float, sensitivity: float, *, error: float, **settings: object
    ) -> Self:
        """Return the mechanism with the smallest noise whose charged loss is at most `target`."""
        sensitivity = check_real("sensitivity", sensitivity, low=0.0, low_open=True)
        error = check_real("error", error, low=0.0)
        return cls._smallest(
            target,
            (sensitivity + 2.0 * error) / target,
            sensitivity=sensitivity,
            error=error,
            **settings,
        )
