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
_BELOW, _BELOW_DEVIATION = 6.5, 4.0
# And how far it is from the middle of known bounds, in units of half their distance in octaves.
_WITHIN = 0.4
# What part of the targets is a mass at the lowest one, at most as usual.
_MASS = 0.25
# Which part of the targets above an edge is in doubt, and how far the middle of an octave is.
_TAIL, _UNEVEN = 0.4, 0.2
# Of the grid on which a mean and its doubt are found.
_POINTS = 400
# How far a count may lie from the fitted one: in units of it, or of what may lie an octave below;
# and from so many deviations of the noise on as far as it does, such as those of a second mode.
_APART, _DECAY, _SURELY = 0.5, 0.4, 4.5


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
    low : float
        Lowest target; 0 if there is none.
    """

    edges: Vector
    shares: Vector
    laws: Matrix
    likely: Vector
    doubt: float
    low: float = 0.0

    @classmethod
    def of(cls, edges: Vector, noisy: Vector, noise: float, low: float = 0.0) -> TargetLaw:
        """From shares with noise of this standard deviation; no target is below `low`."""
        inside = edges > low
        if low > 0.0:
            # No target is in the octaves below it: what the shares add up to is known.
            noisy = np.where(inside, noisy + (1.0 - noisy[inside].sum()) / inside.sum(), 0.0)
        laws, likely = _likely_laws(edges, noisy, noise, low)
        fitted, middles = likely @ laws, _middles(edges, low)
        apart = _APART * fitted
        for octave in range(1, len(apart)):
            apart[octave] = max(apart[octave], _DECAY * apart[octave - 1])
        off = np.abs(noisy - fitted)
        apart = np.where(off > _SURELY * noise, np.maximum(apart, off), apart)
        known = apart**2 / (apart**2 + noise**2)
        of_means = laws @ middles
        unsure = float(likely @ (of_means - likely @ of_means) ** 2)
        unsure += float(np.sum((known * noise * middles) ** 2))
        shares = np.maximum(fitted + known * (noisy - fitted), 0.0)
        if low > 0.0:
            shares /= shares.sum()
        unsure += float(np.sum((_UNEVEN * shares * edges) ** 2))
        kept = likely > 1e-6
        return cls(edges, shares, laws[kept], likely[kept], math.sqrt(unsure), low)

    @property
    def middles(self) -> Vector:
        """Means of the targets in the octaves."""
        return _middles(self.edges, self.low)

    @property
    def mean(self) -> float:
        """Of the targets."""
        return float(self.shares @ self.middles)

    @property
    def relative(self) -> float:
        """Standard deviation over the mean."""
        root = math.sqrt(_SQUARE * float(self.shares @ self.edges**2))
        return math.sqrt(max((root / max(self.mean, 1e-300)) ** 2 - 1.0, 0.0))

    def typical_mean(self, found: float, noise: float) -> tuple[float, float]:
        """Of the targets, and its deviation: in logarithms, from the law and from a noisy mean.

        Where all is noise that is the middle of the range, which is the least wrong in ratios.
        """
        means = self.laws @ self.middles
        expected, logs = float(self.likely @ means), np.log(means)
        within = max(0.0, self.doubt**2 - float(self.likely @ (means - expected) ** 2))
        center = float(self.likely @ logs)
        variance = float(self.likely @ (logs - center) ** 2) + within / self.mean**2
        center += math.log(self.mean / expected)
        at = np.linspace(math.log(self.low), math.log(self.edges[-1]), _POINTS)
        misfit = (at - center) ** 2 / variance + ((np.exp(at) - found) / noise) ** 2
        density = np.exp(-0.5 * (misfit - misfit.min()))
        density /= density.sum()
        mean = float(density @ at)
        deviation = math.sqrt(float(density @ (at - mean) ** 2))
        return math.exp(mean), math.exp(mean) * deviation

    def beyond(self, top: float) -> float:
        """What the mean has of the parts of targets above `top`."""
        return float(self.shares @ np.maximum(self.middles - top, 0.0))

    def doubt_beyond(self, top: float) -> float:
        """Deviation of it: among the laws that may be, and of a part of what it is at most."""
        parts = self.laws @ np.maximum(self.middles - top, 0.0)
        unsure = float(self.likely @ (parts - self.likely @ parts) ** 2)
        most = float(self.shares @ np.maximum(self.edges - top, 0.0))
        return math.hypot(math.sqrt(unsure), _TAIL * most)

    def around(self, length: float) -> tuple[Vector, Vector]:
        """Targets in units of their mean, less the spread of margins of a length; their shares."""
        below = max(0.0, 1.0 - float(self.shares.sum()))
        values = np.append(0.5 * self.edges[0], self.middles)
        shares = np.append(below, self.shares)
        shares /= shares.sum()
        wide = math.log(float(shares @ values**2) / float(shares @ values) ** 2)
        values = values ** math.sqrt(max(0.1, 1.0 - length**2 / max(wide, 1e-300)))
        return values / float(shares @ values), shares


def _middles(edges: Vector, low: float) -> Vector:
    """Means of the targets in octaves with these upper ends."""
    return np.maximum(_MIDDLE * edges, np.sqrt(low * edges))


def _below(high: float, low: float) -> tuple[float, float]:
    """Octaves by which a mean is below the highest target beforehand, and their deviation."""
    if low == 0.0:
        return _BELOW, _BELOW_DEVIATION
    half = 0.5 * math.log2(high / low)
    return min(_BELOW, half), min(_BELOW_DEVIATION, _WITHIN * half)


def highest(noisy: Vector, noise: float) -> int:
    """The highest octave from which on the rest of the counts stands out of the noise."""
    beyond = np.cumsum(noisy[::-1])[::-1]
    apart = noise * np.sqrt(np.arange(len(beyond), 0.0, -1.0))
    out = np.flatnonzero(beyond > _SEEN * apart)
    return int(out[-1]) if len(out) else 0


def _likely_laws(edges: Vector, noisy: Vector, noise: float, low: float) -> tuple[Matrix, Vector]:
    """Shares of smooth laws and of a mass below them, and how likely each of these is.

    The mass is below all octaves, or in the lowest if there is a lowest target; this is unlikely.
    """
    inside = edges > low
    smooth = _smooth_laws(int(inside.sum()))
    cells, mass, prior = np.zeros((len(smooth), len(edges))), np.zeros(len(edges)), 0.0
    cells[:, inside] = smooth
    means = (cells @ _middles(edges, low)) / cells.sum(axis=1)
    if low > 0.0:
        cells /= cells.sum(axis=1, keepdims=True)
        mass[np.argmax(inside)] = 1.0
        prior = (noise / _MASS) ** 2
    apart = cells - mass
    height = (apart @ (noisy - mass) + prior) / (np.einsum("ij,ij->i", apart, apart) + prior)
    height = np.clip(height, 0.0, 1.0)[:, None]
    laws = mass + height * apart
    middle, deviation = _below(edges[-1], low)
    misfit = np.sum((noisy - laws) ** 2, axis=1) / noise**2
    misfit += ((np.log2(edges[-1] / means) - middle) / deviation) ** 2
    if low > 0.0:
        misfit += ((1.0 - height[:, 0]) / _MASS) ** 2
    likely = np.exp(-0.5 * (misfit - misfit.min()))
    return laws, likely / likely.sum()


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
