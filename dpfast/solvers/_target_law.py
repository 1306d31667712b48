"""The law of targets, from noisy counts by octave.

Most of a heavy tail lies in octaves whose counts do not stand out of the noise, and clipped slopes
do not see it either.  So the counts are drawn towards those of a lognormal or gamma law (and a mass
below all octaves) that is fitted to them, each as far as its noise asks for.  All of it is
post-processing of the counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from dpfast.solvers._range_laws import normal_shares

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Of the targets in an octave: their mean and mean square, in units of its upper end.
_MIDDLE, _SQUARE = 0.72, 0.56
# Deviations of the noise by which what lies beyond an edge must stand out.
_SEEN = 2.5
# Standard deviations of the lognormal laws, in octaves.
_NARROWEST, _WIDEST, _WIDTHS = 0.25, 3.0, 16
# Shapes of the gamma laws, whose tails are lighter and whose logarithms are skewed.
_LEAST_SHAPE, _LARGEST_SHAPE, _SHAPES = 0.1, 4.0, 12
# By how many octaves a mean is below the highest target, before any data are seen.
_BELOW, _BELOW_DEVIATION = 4.5, 3.0
# Which part of the targets above an edge is in doubt, and how far the middle of an octave is.
_TAIL, _UNEVEN = 0.4, 0.2
# How far a count may lie from the fitted one: in units of it, or of what may lie an octave below.
_APART, _DECAY = 0.5, 0.4


@dataclass(frozen=True)
class TargetLaw:
    """Shares of the targets by octave.

    Attributes
    ----------
    edges : ndarray of shape (k,)
        Upper ends of the octaves.
    shares : ndarray of shape (k,)
        What is missing to 1 lies below.
    laws : ndarray of shape (m, k)
        Shares by octave of the smooth laws that may be theirs.
    likely : ndarray of shape (m,)
        How likely each of these is.
    doubt : float
        Deviation of the mean.
    """

    edges: Vector
    shares: Vector
    laws: Matrix
    likely: Vector
    doubt: float

    @classmethod
    def of(cls, edges: Vector, noisy: Vector, noise: float) -> TargetLaw:
        """From shares with noise of this standard deviation."""
        cells = _smooth_laws(len(edges))
        height = np.clip((cells @ noisy) / np.einsum("ij,ij->i", cells, cells), 0.0, 1.0)
        misfit = np.sum((noisy - height[:, None] * cells) ** 2, axis=1) / noise**2
        means = _MIDDLE * (cells @ edges) / cells.sum(axis=1)
        below = np.log2(edges[-1] / means)
        misfit += ((below - _BELOW) / _BELOW_DEVIATION) ** 2
        likely = np.exp(-0.5 * (misfit - misfit.min()))
        likely /= likely.sum()
        fitted = (likely * height) @ cells
        apart = _APART * fitted
        for octave in range(1, len(apart)):
            apart[octave] = max(apart[octave], _DECAY * apart[octave - 1])
        known = apart**2 / (apart**2 + noise**2)
        of_means = _MIDDLE * height * (cells @ edges)
        unsure = float(likely @ (of_means - likely @ of_means) ** 2)
        unsure += float(np.sum((known * noise * _MIDDLE * edges) ** 2))
        shares = np.maximum(fitted + known * (noisy - fitted), 0.0)
        unsure += float(np.sum((_UNEVEN * shares * edges) ** 2))
        kept = likely > 1e-6
        laws = height[kept, None] * cells[kept]
        return cls(edges, shares, laws, likely[kept], math.sqrt(unsure))

    @property
    def mean(self) -> float:
        """Of the targets."""
        return _MIDDLE * float(self.shares @ self.edges)

    @property
    def relative(self) -> float:
        """Standard deviation over the mean."""
        root = math.sqrt(_SQUARE * float(self.shares @ self.edges**2))
        return math.sqrt(max((root / max(self.mean, 1e-300)) ** 2 - 1.0, 0.0))

    def values(self, length: float) -> tuple[Vector, Vector]:
        """Targets in units of their mean, less what margins explain, and their shares."""
        below = max(0.0, 1.0 - float(self.shares.sum()))
        values = np.append(0.5 * self.edges[0], _MIDDLE * self.edges)
        shares = np.append(below, self.shares)
        shares /= shares.sum()
        values = values / float(shares @ values)
        wide = math.log(float(shares @ values**2))
        values = values ** math.sqrt(max(0.1, 1.0 - length**2 / max(wide, 1e-300)))
        return values / float(shares @ values), shares

    def beyond(self, top: float) -> float:
        """What the mean has of the parts of targets above `top`."""
        return float(self.shares @ np.maximum(_MIDDLE * self.edges - top, 0.0))

    def doubt_beyond(self, top: float) -> float:
        """Deviation of it: among the laws that may be, and of a part of what it is at most."""
        parts = self.laws @ np.maximum(_MIDDLE * self.edges - top, 0.0)
        unsure = float(self.likely @ (parts - self.likely @ parts) ** 2)
        most = float(self.shares @ np.maximum(self.edges - top, 0.0))
        return math.hypot(math.sqrt(unsure), _TAIL * most)

    def around(self, length: float) -> tuple[Vector, Vector]:
        """Targets in units of their mean, less the spread of margins of a length; their shares."""
        below = max(0.0, 1.0 - float(self.shares.sum()))
        values = np.append(0.5 * self.edges[0], _MIDDLE * self.edges)
        shares = np.append(below, self.shares)
        shares /= shares.sum()
        wide = math.log(float(shares @ values**2) / float(shares @ values) ** 2)
        values = values ** math.sqrt(max(0.1, 1.0 - length**2 / max(wide, 1e-300)))
        return values / float(shares @ values), shares


def highest(noisy: Vector, noise: float) -> int:
    """The highest octave from which on the rest of the counts stands out of the noise."""
    beyond = np.cumsum(noisy[::-1])[::-1]
    apart = noise * np.sqrt(np.arange(len(beyond), 0.0, -1.0))
    out = np.flatnonzero(beyond > _SEEN * apart)
    return int(out[-1]) if len(out) else 0


@lru_cache(maxsize=16)
def _smooth_laws(octaves: int) -> NDArray[np.float64]:
    """Shares in each octave of many lognormal and gamma laws, one a row."""
    ends, centers = np.arange(octaves + 1.0), np.arange(-1.5, octaves + 0.75, 0.25)[:, None, None]
    widths = np.geomspace(_NARROWEST, _WIDEST, _WIDTHS)[:, None]
    power = np.geomspace(_LEAST_SHAPE, _LARGEST_SHAPE, _SHAPES)[:, None]
    cells = normal_shares(ends, centers, widths).reshape(-1, octaves)
    gammas = np.diff(gammainc(power, power * 2.0 ** (ends - centers))).reshape(-1, octaves)
    cells = np.concatenate([cells, gammas])
    kept: NDArray[np.float64] = cells[cells.sum(axis=1) > 0.3]
    return kept
