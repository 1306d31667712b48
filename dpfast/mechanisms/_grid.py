"""The grid on which values and noise are added exactly."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_real
from dpfast.errors import GridOverflow

_RESOLUTION = 32
"""The noise scale is between 2^31 and 2^32 steps of the grid, unless the range asks for less."""
_LARGEST_RESOLUTION = 52
"""The exact Laplace sampler's limit: 2^52 steps."""
_ROUNDING_SHARE = 12
"""Where the sampler allows it, rounding costs at most 2^-11 of the sensitivity."""
_MINIMUM_RESOLUTION = 20
"""The noise scale is never below 2^20 steps."""
_RANGE = 61
"""Values are clamped to +-2^61 steps: with noise of less than 2^62 steps int64 cannot overflow."""
_LARGEST_EXPONENT = 900
"""Noise scales outside 2^-900 ... 2^900 could leave the range in which float64 is exact."""


def resolution_for(ratio: float) -> int:
    """Return a resolution for Laplace noise of which rounding is a small part of the sensitivity.

    With a tiny epsilon, the usual grid of a fixed fraction of the noise is coarse against the
    query, so that rounding would cost more than the query itself.

    `ratio` is ``d * scale / sensitivity``, where rounding costs d steps; the resolution is in [32,
    52].
    """
    needed = _ROUNDING_SHARE + math.frexp(ratio)[1]
    return min(max(needed, _RESOLUTION), _LARGEST_RESOLUTION)


@dataclass(frozen=True)
class Grid:
    """The multiples of a power of two.

    Dividing and multiplying by it are exact.
    """

    step: float

    @classmethod
    def for_noise(
        cls, name: str, scale: float, bound: float | None, resolution: int = _RESOLUTION
    ) -> "Grid":
        """Return a grid for noise of this scale, coarser than asked for only as `bound` requires.

        Parameters
        ----------
        name : str
            What the scale is called, for messages.
        scale : float
        bound : float or None
            Public bound of the coordinates' absolute values, if they are to pass unclamped.
        resolution : int, default=32
            The scale is to be between ``2^(resolution - 1)`` and ``2^resolution`` steps.

        Raises
        ------
        GridOverflow
            If `bound` is over 2^41 noise scales, or the scale is near the limits of float64.
        """
        exponent = math.frexp(scale)[1] - resolution
        if bound is not None:
            bound = check_real("bound", bound, low=0.0, low_open=True)
            mantissa, bound_exponent = math.frexp(bound)
            exponent = max(exponent, bound_exponent - _RANGE - (mantissa == 0.5))
        if abs(math.frexp(scale)[1]) > _LARGEST_EXPONENT or abs(exponent) > _LARGEST_EXPONENT:
            raise GridOverflow(
                f"{name}={scale:g} is too close to the limits of floating-point numbers. "
                "Rescale the query."
            )
        step = math.ldexp(1.0, exponent)
        if scale < step * 2.0**_MINIMUM_RESOLUTION:
            raise GridOverflow(
                f"{name}={scale:g} is too small beside bound={bound:g}: exact noise needs a "
                f"scale of at least bound / 2^{_RANGE - _MINIMUM_RESOLUTION}. "
                "Give a smaller bound (values beyond it are clamped) or add more noise."
            )
        return cls(step)

    def rounding(self, dimension: int) -> float:
        """Return by how much rounding can move two vectors apart, in l2 norm.

        Each coordinate of each vector moves by at most half a step.
        """
        return self.step * math.sqrt(dimension)

    def round(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the nearest multiples of the step, clamped to +-2^61 steps, in steps."""
        limit = 2.0**_RANGE
        # The quotient is exact or, for very large values, infinite; then it is clamped.
        with np.errstate(over="ignore"):
            steps = values / self.step
        return np.rint(np.clip(steps, -limit, limit, out=steps), out=steps).astype(np.int64)

    def to_float(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return grid points as floats: the nearest ones, a function of the grid points alone."""
        return steps.astype(np.float64) * self.step
