"""The upper tail of a law of sizes, from noisy counts.

What lies in a long tail is hidden by the noise of the counts far out, where it adds most to a mean.
So a lognormal law is fitted to the counts of the larger sizes alone; its tail is longer than that
of normal and exponential laws, and shorter than any power's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dpfast._typing import Vector
from dpfast.solvers._range_laws import normal_shares

# The law is fitted to so many of the rows, and standard deviations in octaves are between these.
_UPPER, _NARROWEST, _WIDEST, _WIDTHS = 0.15, 0.2, 3.0, 24


@dataclass(frozen=True)
class LongTail:
    """A lognormal law: its share of the rows, and mean and deviation of the binary logarithm."""

    share: float
    center: float
    width: float

    @classmethod
    def of(cls, places: Vector, noisy: Vector) -> LongTail:
        """The law that fits noisy shares of the rows near some places best, by least squares.

        Places are binary logarithms of sizes, from the smallest up, half an octave apart.
        """
        above = np.cumsum(noisy[::-1])[::-1]
        upper = slice(int(np.argmax(above <= _UPPER * above[0])), None)
        ends = np.append(places - 0.25, places[-1] + 0.25)
        centers = np.arange(places[0] - 4.0, places[-1], 0.125)
        widths = np.geomspace(_NARROWEST, _WIDEST, _WIDTHS)
        center, width = (grid.ravel() for grid in np.meshgrid(centers, widths, indexing="ij"))
        cells = normal_shares(ends, center[:, None], width[:, None])[:, upper]
        square = np.maximum(np.einsum("ij,ij->i", cells, cells), 1e-12)
        share = np.clip(cells @ noisy[upper] / square, 0.0, 1.0)
        misfit = np.sum((noisy[upper] - share[:, None] * cells) ** 2, axis=1)
        best = int(np.argmin(misfit))
        return cls(float(share[best]), float(center[best]), float(width[best]))

    @property
    def top(self) -> float:
        """A size beyond which there is hardly any row."""
        return float(2.0 ** (self.center + 3.0 * self.width))

    def beyond(self, sizes: Vector) -> Vector:
        """Mean of what rows have above a size."""
        spread = math.log(2.0) * self.width
        far = (self.center - np.log2(sizes)) / self.width
        mean = 2.0**self.center * math.exp(0.5 * spread**2)
        over: Vector = self.share * (mean * ndtr(far + spread) - sizes * ndtr(far))
        return over
