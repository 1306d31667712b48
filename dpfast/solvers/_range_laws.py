"""Where entries lie between bounds that may be far too wide, by rounds of noisy counts in bins.

Normal laws of every place and width are weighed by how likely they make the counts.  What lies
beyond nearly all of the mixture, and beyond all counts that stand out of the noise, the next range
leaves out, with room to spare.  All of it is done for many histograms at once.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from dpfast._typing import Matrix, Vector

# Deviations of the noise by which a tail of the counts must stand out.
SEEN = 3.5
# Share of the likely entries that a range leaves out on either side, and the room that it adds
# there, in units of what is left.
_LEFT_OUT, _ROOM = 0.02, 0.25
# A range that is hardly narrower is not worth new bins: counts of the same ones add up.
_NARROWER = 0.9
# Entries are not normal: by which share of the rows a count may differ for that.
_NOT_NORMAL = 0.03
# Deviations of the laws: from a part of a bin to a part of all bins.
_NARROWEST, _WIDEST = 0.25, 1.0 / 3.0
# Deviations of the parts of a pair, in bins, and the shares of the first.
_PAIRED, _PARTS = (0.25, 1.0), (0.25, 0.5, 0.75)
# Laws that are not likelier than this for any histogram are not mixed.
_UNLIKELY = 1e-15


class Search:
    """Ranges of some histograms, which are narrowed by counts in bins of equal width over them.

    `noise` is the standard deviation of one round's counts.
    """

    def __init__(self, low: Vector, high: Vector, bins: int, noise: float) -> None:
        self.low, self.high, self.bins, self.noise = low, high, bins, noise
        self._counts, self._alike = np.zeros((len(low), bins)), np.zeros(len(low))

    @property
    def bin_width(self) -> Vector:
        """Of each histogram."""
        return (self.high - self.low) / self.bins

    def at(self, place: Vector | float) -> Vector:
        """What lies at a place in bins."""
        return self.low + self.bin_width * place

    def add(self, noisy: Vector) -> tuple[Matrix, Vector]:
        """All counts over the same ranges, and how many a row adds, in units of their noise."""
        self._counts += noisy.reshape(self._counts.shape)
        self._alike += 1.0
        noise = self.noise * np.sqrt(self._alike)
        return self._counts / noise[:, None], self._alike / noise

    def narrow(self, first: Vector, last: Vector) -> None:
        """Go on between these places, where that is much narrower."""
        first, last = np.maximum(first, 0.0), np.minimum(last, self.bins)
        new = last - first < _NARROWER * self.bins
        low, high = self.at(first), self.at(last)
        self.low, self.high = np.where(new, low, self.low), np.where(new, high, self.high)
        self._counts[new], self._alike[new] = 0.0, 0.0


class NormalLaws:
    """Normal laws of some widths and many centers, in bins; the outer bins have the tails.

    Centers are half a width apart, or half a bin.  Pairs of narrow laws far from each other, if
    they have a weight beforehand, come last: of two humps a single law would miss one.

    Attributes
    ----------
    center, width, weight : ndarray of shape (l,)
        A law counts by how far apart those of its width are.  Weights add up to 1.  Of pairs
        center and width are 0.
    shares : ndarray of shape (l, bins)
    """

    def __init__(self, bins: int, widths: int, pairs: float = 0.0) -> None:
        grid = []
        for width in np.geomspace(_NARROWEST, _WIDEST * bins, widths):
            step = 0.5 * max(1.0, width)
            reach = math.ceil(0.5 * bins / step)
            grid += [(0.5 * bins + step * k, width, step) for k in range(-reach, reach + 1)]
        self.center, self.width, self.weight = np.array(grid).T
        self.weight /= self.weight.sum()
        ends = np.concatenate([[-math.inf], np.arange(1.0, bins), [math.inf]])
        self.shares = normal_shares(ends, self.center[:, None], self.width[:, None])
        if pairs > 0.0:
            more = _pairs(ends)
            self.shares = np.concatenate([self.shares, more])
            self.center, self.width = (np.pad(p, (0, len(more))) for p in (self.center, self.width))
            weight = np.full(len(more), pairs / len(more))
            self.weight = np.append((1.0 - pairs) * self.weight, weight)
        self._squares = np.square(self.shares).sum(axis=1)

    def likelihoods(self, counts: Matrix, rows: Vector) -> Matrix:
        """How likely each law makes the counts of each histogram, in units of the likeliest.

        Counts and rows are in units of the noise.
        """
        rows, doubt = (part[:, None] for part in rows_told(counts, rows))
        # Less the squares of the counts, which are the same for all laws.
        found: Matrix = (rows * doubt * counts) @ self.shares.T
        found -= (0.5 * rows**2 * doubt) * self._squares
        found -= found.max(axis=1, keepdims=True)
        return np.exp(found, out=found)

    def mixture(self, likelihoods: Matrix, weight: Vector) -> Matrix:
        """Shares of the entries to expect in the bins, of laws of these weights beforehand."""
        kept = np.flatnonzero(likelihoods.max(axis=0) > _UNLIKELY)
        found: Matrix = likelihoods[:, kept] @ (weight[kept, None] * self.shares[kept])
        found /= found.sum(axis=1, keepdims=True)
        return found


def _pairs(ends: Vector) -> Matrix:
    """Shares of laws of two narrow parts, half of the bins or more from each other."""
    bins = len(ends) - 1
    first, last = np.triu_indices(bins, bins // 2)
    found = []
    for width in _PAIRED:
        one = normal_shares(ends, np.arange(0.5, bins)[:, None], np.full((bins, 1), width))
        found += [part * one[first] + (1.0 - part) * one[last] for part in _PARTS]
    return np.concatenate(found)


@lru_cache(maxsize=4)
def normal_laws(bins: int, widths: int, pairs: float = 0.0) -> NormalLaws:
    """The laws of so many widths for so many bins, with pairs of this weight."""
    return NormalLaws(bins, widths, pairs)


def rows_told(counts: Matrix, rows: Vector) -> tuple[Vector, Vector]:
    """No more rows than the counts can add up to, and what part of a misfit the noise explains."""
    most = np.maximum(counts.sum(axis=1), 0.0) + SEEN * math.sqrt(counts.shape[1])
    rows = np.minimum(rows, most)
    return rows, 1.0 / (1.0 + np.square(_NOT_NORMAL * rows))


def ends(
    shares: Matrix, counts: Matrix, tails: tuple[Vector | float, Vector | float] = (0.0, 0.0)
) -> tuple[Vector, Vector]:
    """Ends, in bins, that hold nearly all that is likely and what was seen, with room."""
    first, last = place(shares, _LEFT_OUT), place(shares, 1.0 - _LEFT_OUT)
    seen_first, seen_last = seen(counts, tails)
    first, last = np.minimum(first, seen_first), np.maximum(last, seen_last)
    room = np.maximum(1.0, _ROOM * (last - first))
    return first - room, last + room


def place(shares: Matrix, below: float) -> Vector:
    """Where so much lies below, in bins."""
    lines, total = np.arange(len(shares)), np.cumsum(shares, axis=1)
    inside = np.argmax(total >= below, axis=1)
    missing = total[lines, inside] - below
    found: Vector = inside + 1.0 - missing / shares[lines, inside]
    return found


def seen(
    counts: Matrix, tails: tuple[Vector | float, Vector | float] = (0.0, 0.0)
) -> tuple[Vector, Vector]:
    """Ends beyond which counts together do not stand out of the noise, or are only low, high tails.

    An empty range where nothing stands out.
    """
    sums = added_up(counts), added_up(counts[:, ::-1])
    below, above = (
        total > np.maximum(SEEN * noise, tail)
        for (total, noise), tail in zip(sums, tails, strict=True)
    )
    first, last = np.argmax(below, axis=1), counts.shape[1] - np.argmax(above, axis=1)
    out = below.any(axis=1) & above.any(axis=1) & (first < last)
    return np.where(out, first, math.inf), np.where(out, last, -math.inf)


def added_up(counts: Matrix | Vector, noise: float = 1.0) -> tuple[Matrix, Vector]:
    """Sums of the counts from the first to each, and the deviations of their noise.

    Counts that noise hides one by one may stand out of it together.
    """
    total: Matrix = np.cumsum(counts, axis=-1)
    return total, noise * np.sqrt(np.arange(1.0, counts.shape[-1] + 1.0))


def normal_shares(ends: Vector, center: Matrix, width: Matrix) -> Matrix:
    """Shares between the ends of normal laws; centers and widths are columns."""
    return np.asarray(np.diff(ndtr((ends - center) / width)), dtype=np.float64)
