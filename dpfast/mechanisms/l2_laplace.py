"""The l2 Laplace mechanism: pure differential privacy for l2 sensitivities."""

import math
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import GridOverflow
from dpfast.lattice import largest_width
from dpfast.mechanisms._additive import AdditiveMechanism
from dpfast.mechanisms._grid import Grid
from dpfast.mechanisms._query import Query
from dpfast.privacy import Budget, L2LaplaceEvent, budget_epsilon

if TYPE_CHECKING:
    from dpfast.random import SecureGenerator


class L2Laplace(AdditiveMechanism):
    """A vector-valued query plus noise of density proportional to ``exp(-norm(z) / scale)``.

    The norm is l2: the direction is uniform on the sphere, the radius Gamma(d, scale), but for a
    grid of step g on which the noise is discrete. The query is rounded to the grid and clamped to
    ``+-2^61 g``; the noise is added in integers.

    Parameters
    ----------
    scale : float
        In the query's unit; rounded up to a multiple of the grid's step.
    sensitivity : float
        l2 distance of the query's values on two neighbors, in exact arithmetic.
    dimension : int
        Number of coordinates, d.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        The neighbors for which `sensitivity` holds.
    error : float, default=0.0
        Bound, in l2 norm, of the floating-point error of the computed value. Twice this is charged.
    bound : float, optional
        Public bound of the coordinates' absolute values, when they must pass unclamped. Without it
        they are clamped at about ``2^36 scale``.

    Attributes
    ----------
    scale : float
    charged_sensitivity : float
        ``sensitivity + 2 error + g sqrt(d)``.

    Raises
    ------
    TypeError, ValueError
        If a parameter is of the wrong type or out of its range.
    GridOverflow
        If `bound` is over ``2^41 scale``.

    Notes
    -----
    Guarantee: one release is epsilon-DP with ``epsilon = charged_sensitivity / scale``. The rounded
    values of two neighbors are grid points a, a' at a distance of at most the charged sensitivity.
    Released is ``a + K``, K a grid point of probability proportional to ``exp(-||K|| / scale)``; by
    the triangle inequality the probability of a value changes by a factor of at most
    ``exp(||a - a'|| / scale)`` (Chaudhuri, Monteleoni & Sarwate 2011, for the continuous law).

    The sampler (:meth:`dpfast.random.SecureGenerator.discrete_l2_laplace`) draws from this law,
    within 2^-1000 a value, whatever floating point does; so the attacks on floating-point noise
    (Mironov 2012; Haney et al. 2022) have nothing to work on.

    Examples
    --------
    >>> from dpfast.mechanisms import L2Laplace
    >>> from dpfast.privacy import Budget
    >>> from dpfast.queries import ScoreSum
    >>> query = ScoreSum(n_samples=1000, norm="l2")  # one record moves it by 1
    >>> mechanism = L2Laplace.calibrate(Budget(0.5), query, "replace_one")
    >>> round(mechanism.scale, 6)
    2.0
    """

    norm = "l2"
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

    def _grid_for(self, noise: float, bound: float | None) -> Grid:
        """A grid on which the widest Gaussian that noise is drawn from is within its sampler."""
        resolution = int(32.0 - math.log2(largest_width(self.dimension)))
        if resolution < 20:
            raise GridOverflow(
                f"dimension must be at most some 3 million for l2-Laplace noise; got "
                f"{self.dimension}."
            )
        return Grid.for_noise(self.noise_name, noise, bound, resolution)

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
            States its sensitivity in l2, and what rounding adds to it.
        neighboring_relation : {"replace_one", "add_or_remove_one"}
        where : str, default=""
            The place in the algorithm, for the ledger.

        Returns
        -------
        mechanism : L2Laplace

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

    def event(self, where: str | None = None, count: int = 1) -> L2LaplaceEvent:
        """Return the event that `count` releases are charged as; `where` is the access\'s own."""
        return L2LaplaceEvent(
            sensitivity=self.charged_sensitivity,
            scale=self.scale,
            dimension=self.dimension,
            neighboring_relation=self.neighboring_relation,
            where=self.where if where is None else where,
            count=count,
        )

    def _noise(self, rng: "SecureGenerator") -> NDArray[np.int64]:
        return rng.discrete_l2_laplace(self.integer_scale, self.dimension)
