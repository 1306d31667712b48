"""The Laplace mechanism, coordinate by coordinate, exact in finite arithmetic."""

import math
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from dpfast.mechanisms._additive import AdditiveMechanism
from dpfast.mechanisms._grid import Grid, resolution_for
from dpfast.mechanisms._mechanism import ROUND_UP
from dpfast.mechanisms._query import Query
from dpfast.privacy import Budget, LaplaceEvent, budget_epsilon

if TYPE_CHECKING:
    from dpfast.random import SecureGenerator


class Laplace(AdditiveMechanism):
    """A vector-valued query plus independent Laplace noise in every coordinate.

    The query is rounded to a grid of step g, clamped to ``+-2^61 g``, and exact discrete Laplace
    noise, ``P(k) ~ exp(-|k| / s)``, is added to every coordinate, in integers. The scale is
    ``scale = s g``, with ``2^31 <= s <= 2^32``, or less (down to 2^20) where `bound` needs a
    coarser grid, or more (up to 2^52) where the scale is so large beside the sensitivity that
    rounding to that grid would be dear.

    Parameters
    ----------
    scale : float
        In the query's unit; it is rounded up, by less than one part in 2^20 (mostly 2^31). The
        standard deviation of a coordinate is ``sqrt(2)`` times as large.
    sensitivity : float
        **l1** distance of the query's values on two neighbors, in exact arithmetic.
    dimension : int
        Number of coordinates, d.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        The neighbors for which `sensitivity` holds.
    error : float, default=0.0
        Bound, in **l2** norm as for the other mechanisms, of the floating-point error of the
        computed value. ``2 sqrt(d)`` times this is charged, for so large the l1 norm of two such
        errors may be.
    bound : float, optional
        Public bound of the coordinates' absolute values, when they must pass unclamped. Without it
        they are clamped at about ``2^29 scale``, or ``2^48 sensitivity / dimension`` if that is
        less, but never below ``2^9 scale``.

    Attributes
    ----------
    scale : float
        The actual scale.
    integer_scale : int
        s, the same in grid steps.
    charged_sensitivity : float
        ``sensitivity + 2 sqrt(d) error + g d``.

    Raises
    ------
    TypeError, ValueError
        If a parameter is of the wrong type or out of its range.
    GridOverflow
        If `bound` is over ``2^41 scale``.

    Notes
    -----
    Guarantee: one release is epsilon-DP with ``epsilon = charged_sensitivity / scale``. Rounding
    moves a coordinate by at most g / 2, and clamping moves no two values apart, so two neighbors'
    vectors a, a' in grid steps have ``||a - a'||_1 <= D = charged_sensitivity / g``. By the
    triangle inequality, coordinate by coordinate, the probability of an output changes by a factor
    of at most ``exp(||a - a'||_1 / s) <= exp(D / s)`` (Dwork, McSherry, Nissim & Smith 2006; Ghosh,
    Roughgarden & Sundararajan 2009 on the integers).

    The sampler (:meth:`dpfast.random.SecureGenerator.discrete_laplace`) works in integers, so the
    holes and the low bits that betray the value under floating-point noise (Mironov 2012) do not
    exist here. It ends at ``1023 s``, which is within 2^-1000 of the law for every coordinate: that
    adds at most ``d (1 + exp(epsilon)) 2^-1000`` to delta. The time that a release takes is not
    protected.

    Examples
    --------
    >>> from dpfast.mechanisms import Laplace
    >>> from dpfast.privacy import Budget
    >>> from dpfast.queries import ScoreSum
    >>> query = ScoreSum(n_samples=1000, norm="l1")  # one record moves it by 1
    >>> mechanism = Laplace.calibrate(Budget(0.5), query, "replace_one")
    >>> round(mechanism.scale, 6)
    2.0
    """

    norm = "l1"
    noise_name = "scale"

    def __init__(
        self,
        scale: float,
        *,
        sensitivity: float,
        dimension: int,
        neighboring_relation: str,
        error: float = 0.0,
        bound: float | None = None,
    ) -> None:
        super().__init__(
            scale,
            sensitivity=sensitivity,
            dimension=dimension,
            neighboring_relation=neighboring_relation,
            error=error,
            bound=bound,
        )
        self.integer_scale = math.ceil(float(scale) / self.grid_step)
        self.scale = self.integer_scale * self.grid_step

    @classmethod
    def calibrate(
        cls, budget: Budget, query: Query, neighboring_relation: str, *, where: str = ""
    ) -> Self:
        """Return the mechanism with the smallest noise of which one release fits `budget`.

        Parameters
        ----------
        budget : Budget
            Its delta is not used.
        query : Query
            States its sensitivity in l1, and what rounding adds to it.
        neighboring_relation : {"replace_one", "add_or_remove_one"}
        where : str, default=""
            The place in the algorithm, for the ledger.

        Returns
        -------
        mechanism : Laplace

        Raises
        ------
        ValueError
            If the budget is given as mu, or a parameter is out of its range.
        GridOverflow
            If no grid is both coarse enough for the query's bound and dimension and fine enough for
            the noise.
        """
        made = partial(cls._calibrate, budget, dimension=query.dimension)
        return cls._of(query, neighboring_relation, where, made)

    @classmethod
    def _calibrate(
        cls,
        budget: Budget,
        sensitivity: float,
        *,
        dimension: int,
        neighboring_relation: str,
        error: float = 0.0,
        bound: float | None = None,
    ) -> Self:
        """For a sensitivity that is stated by hand."""
        return cls._calibrated(
            budget_epsilon(budget),
            sensitivity=sensitivity,
            dimension=dimension,
            neighboring_relation=neighboring_relation,
            error=error,
            bound=bound,
        )

    def event(self, where: str | None = None, count: int = 1) -> LaplaceEvent:
        """Return the event that `count` releases are charged as; `where` is the access\'s own."""
        return LaplaceEvent(
            sensitivity=self.charged_sensitivity,
            scale=self.scale,
            dimension=self.dimension,
            neighboring_relation=self.neighboring_relation,
            where=self.where if where is None else where,
            count=count,
        )

    def _grid_for(self, noise: float, bound: float | None) -> Grid:
        resolution = resolution_for(self.dimension * (noise / self.sensitivity))
        return Grid.for_noise(self.noise_name, noise, bound, resolution)

    def _charged(self) -> float:
        # In l1: sqrt(d) times an l2 norm bounds it, and each coordinate is rounded for itself.
        summation = 2.0 * math.sqrt(self.dimension) * self.error
        return (self.sensitivity + summation + self.grid_step * self.dimension) * ROUND_UP

    def _noise(self, rng: "SecureGenerator") -> NDArray[np.int64]:
        return rng.discrete_laplace(self.integer_scale, self.dimension)
