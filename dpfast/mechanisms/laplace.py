"""The Laplace mechanism, coordinate by coordinate, exact in finite arithmetic."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpfast.mechanisms._grid import Grid, resolution_for
from dpfast.mechanisms._mechanism import ROUND_UP
from dpfast.mechanisms._pure import PureMechanism
from dpfast.privacy import LaplaceEvent

if TYPE_CHECKING:
    from dpfast.random import SecureGenerator


class Laplace(PureMechanism):
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
    _event = LaplaceEvent

    @property
    def stddev(self) -> float:
        """Standard deviation of a coordinate's noise."""
        return math.sqrt(2.0) * self.scale

    def _grid_for(self, noise: float, bound: float | None) -> Grid:
        resolution = resolution_for(self.dimension * (noise / self.sensitivity))
        return Grid.for_noise(self.noise_name, noise, bound, resolution)

    def _charged(self) -> float:
        # In l1: sqrt(d) times an l2 norm bounds it, and each coordinate is rounded for itself.
        summation = 2.0 * math.sqrt(self.dimension) * self.error
        return (self.sensitivity + summation + self.grid_step * self.dimension) * ROUND_UP

    def _noise(self, rng: "SecureGenerator") -> NDArray[np.int64]:
        return rng.discrete_laplace(self.integer_scale, self.dimension)
