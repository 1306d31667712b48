"""The l2 Laplace mechanism: pure differential privacy for l2 sensitivities."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import GridOverflow
from dpfast.lattice import largest_width
from dpfast.mechanisms._grid import Grid
from dpfast.mechanisms._pure import PureMechanism
from dpfast.privacy import L2LaplaceEvent

if TYPE_CHECKING:
    from dpfast.random import SecureGenerator


class L2Laplace(PureMechanism):
    """A vector-valued query plus noise of density proportional to ``exp(-norm(z) / scale)``.

    The norm is l2: the direction is uniform on the sphere, the radius Gamma(d, scale), except for a
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
    _event = L2LaplaceEvent

    @property
    def stddev(self) -> float:
        """Standard deviation of a coordinate's noise: ``E‖z‖² = d (d + 1) scale²``."""
        return math.sqrt(self.dimension + 1.0) * self.scale

    def _grid_for(self, noise: float, bound: float | None) -> Grid:
        """A grid on which the widest Gaussian that noise is drawn from is within its sampler."""
        resolution = int(32.0 - math.log2(largest_width(self.dimension)))
        if resolution < 20:
            raise GridOverflow(
                f"dimension must be at most some 3 million for l2-Laplace noise; got "
                f"{self.dimension}."
            )
        return Grid.for_noise(self.noise_name, noise, bound, resolution)

    def _noise(self, rng: "SecureGenerator") -> NDArray[np.int64]:
        return rng.discrete_l2_laplace(self.integer_scale, self.dimension)
