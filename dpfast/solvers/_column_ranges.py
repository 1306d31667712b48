"""Where the entries of each column lie between bounds that may be far too wide.

A round counts every column's entries in bins over its range of the round before.  Normal laws of
every place and width are weighed by how likely they make the noisy counts; what lies beyond nearly
all of the mixture, and beyond all counts that stand out of the noise, the next range leaves out.
A column a thousand times narrower than its bounds is resolved after three rounds.

Counts of a share of the rows tell nothing of rare entries far away, and coordinates in which many
rows are long lose these.  So columns whose entries are mostly one value are left out, and rows that
are long in the others are counted: if many are, nothing of all this is believed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian, Query
from dpfast.queries import ColumnHistogram, LongRows
from dpfast.shape import ProblemShape
from dpfast.solvers._target_law import normal_shares

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_RANGES, _LONG_ROWS = "column ranges", "long rows"
ROUNDS, _BINS = 3, 101
# All rows in units of a count's noise: with fewer, columns are not found; more than the second tell
# no more.  Shares of the budget, in units of mu²: a round costs the usual one if it has rows enough
# then, and up to the most; and the count of long rows half a round's.
_LEAST_SEEN, _AMPLE = 10.0, 50.0
_LEAST, _USUAL, _MOST = 1e-4, 0.003, 0.008
OF_LONG_ROWS = 0.5
# Deviations of the noise by which a tail of the counts must stand out.
_SEEN = 3.5
# Share of the likely entries that a range leaves out on either side, and the room that it adds
# there, in units of what is left.
_LEFT_OUT, _ROOM = 0.02, 0.25
# Entries are not normal: by which share of the rows a count may differ for that.
_NOT_NORMAL = 0.03
# Deviations of the laws: from a part of a bin to a part of all bins.
_NARROWEST, _WIDEST, _WIDTHS = 0.25, 1.0 / 3.0, 18
# A column has one value if it is not wider than so many of the last bins, and no scale is less.
_RESOLVED, _LEAST_WIDTH = 1.5, 0.3
# At most this share of the rows may be long.
_MOST_LONG = 0.3
# Columns at a time, so that what laws tell of them stays small.
_AT_ONCE = 256


class Ranges(NamedTuple):
    """Center and deviation of columns, and which of them are believed."""

    center: Vector
    deviation: Vector
    found: NDArray[np.bool_]


@dataclass(frozen=True)
class ColumnRanges:
    """The accesses of the rounds, and of the count of long rows.

    Attributes
    ----------
    histogram : Gaussian
        Of :class:`~dpfast.queries.ColumnHistogram`.
    long_rows : Gaussian
        Of :class:`~dpfast.queries.LongRows`.
    rounds : int
    share : float
        Of the budget, in units of mu², that all of this takes.
    """

    histogram: Gaussian
    long_rows: Gaussian
    rounds: int
    share: float


def share(rows: float, columns: int) -> float:
    """Of the budget, in units of mu², of one round; 0 if it would cost too much.

    `rows` is ``µ n / √k``, and a count's noise ``√columns`` over it and over the share's root.
    """
    if columns == 0:
        return 0.0
    needed = columns * (_LEAST_SEEN / rows) ** 2
    ample = columns * (_AMPLE / rows) ** 2
    return max(needed, min(ample, _USUAL), _LEAST) if needed <= _MOST else 0.0


def planned(
    shape: ProblemShape,
    columns: NDArray[np.intp],
    rounds: int,
    share: float,
    release: Callable[[float, Query, str], Gaussian],
) -> ColumnRanges:
    """Settle the accesses; `release` calibrates one from its share of the budget."""
    histogram = release(share, ColumnHistogram(shape, columns, _BINS), _RANGES)
    long_rows = release(OF_LONG_ROWS * share, LongRows(shape), _LONG_ROWS)
    return ColumnRanges(histogram, long_rows, rounds, (rounds + OF_LONG_ROWS) * share)


def learn_ranges(ranges: ColumnRanges, height: float, curator: Curator) -> Ranges | None:
    """What the counts tell, in the rows' units; None if many rows are long.

    Entries are looked for up to this height on either side of zero.
    """
    query = ranges.histogram.query
    assert isinstance(query, ColumnHistogram)
    columns, shape, noise = query.columns, query.shape, ranges.histogram.stddev
    low, high = np.full(len(columns), -height), np.full(len(columns), height)
    for turn in range(ranges.rounds):
        noisy = curator.release(ranges.histogram, low, high).reshape(len(columns), _BINS)
        told = _told(noisy / noise, shape.n_samples / noise)
        bin_width = (high - low) / _BINS
        center = low + bin_width * told.center
        deviation = bin_width * np.maximum(told.deviation, _LEAST_WIDTH)
        if turn + 1 < ranges.rounds:
            low, high = (
                np.maximum(low, low + bin_width * told.first),
                np.minimum(high, low + bin_width * told.last),
            )
    d = shape.n_features
    found = Ranges(np.zeros(d), np.full(d, height), np.zeros(d, dtype=bool))
    found.center[columns], found.deviation[columns] = center, deviation
    found.found[columns] = told.width > _RESOLVED
    return found if _rows_are_short(ranges.long_rows, found, curator) else None


def _rows_are_short(long_rows: Gaussian, found: Ranges, curator: Curator) -> bool:
    """Whether few rows are long in the columns that were found."""
    query = long_rows.query
    assert isinstance(query, LongRows)
    center = np.where(found.found, found.center, 0.0)
    largest = query.largest_factor(center)
    factor = np.where(found.found, np.minimum(1.0 / found.deviation, largest), 0.0)
    count = float(curator.release(long_rows, center, factor)[0])
    return count <= _MOST_LONG * query.shape.n_samples


class _Told(NamedTuple):
    """What noisy counts tell of each column: all in bins."""

    center: Vector
    deviation: Vector
    width: Vector
    first: Vector
    last: Vector


def _told(counts: Matrix, rows: float) -> _Told:
    """Counts and rows are in units of the noise."""
    parts = [_of_laws(counts[at : at + _AT_ONCE], rows) for at in range(0, len(counts), _AT_ONCE)]
    shares, width, first, last = (np.concatenate(part) for part in zip(*parts, strict=True))
    middles = np.arange(0.5, _BINS)
    center = shares @ middles
    deviation = np.sqrt(np.maximum(shares @ middles**2 - center**2, 0.0))
    seen_first, seen_last = _seen(counts)
    first, last = np.minimum(first, seen_first), np.maximum(last, seen_last)
    room = np.maximum(1.0, _ROOM * (last - first))
    return _Told(center, deviation, width, first - room, last + room)


def _of_laws(counts: Matrix, rows: float) -> tuple[Matrix, Vector, Vector, Vector]:
    """Shares of the entries to expect in the bins, laws' width, and ends that hold nearly all."""
    laws, widths, weights = _normal_laws()
    # No more rows than the counts can add up to.
    rows_of = np.clip(counts.sum(axis=1) + _SEEN * math.sqrt(_BINS), 1e-9, rows)[:, None]
    apart = rows_of**2 * np.einsum("ij,ij->i", laws, laws) - 2.0 * rows_of * (counts @ laws.T)
    misfit = (_NOT_NORMAL * rows_of) ** 2
    belief = np.exp(-0.5 * (apart - apart.min(axis=1, keepdims=True)) / (1.0 + misfit))
    belief *= weights
    belief /= belief.sum(axis=1, keepdims=True)
    shares = belief @ laws
    first, last = _place(shares, _LEFT_OUT), _BINS - _place(shares[:, ::-1], _LEFT_OUT)
    return shares, np.exp(belief @ widths), first, last


def _place(shares: Matrix, below: float) -> Vector:
    """Where so much lies below, in bins."""
    lines, total = np.arange(len(shares)), np.cumsum(shares, axis=1)
    inside = np.argmax(total >= below, axis=1)
    missing = total[lines, inside] - below
    found: Vector = inside + 1.0 - missing / shares[lines, inside]
    return found


@lru_cache(maxsize=1)
def _normal_laws() -> tuple[Matrix, Vector, Vector]:
    """Shares in the bins of normal laws, one a row, logarithms of their widths, and weights.

    Places are half a width apart, or half a bin, and count by how far apart they are.
    """
    ends = np.concatenate([[-math.inf], np.arange(1.0, _BINS), [math.inf]])
    laws, widths, weights = [], [], []
    for width in np.geomspace(_NARROWEST, _WIDEST * _BINS, _WIDTHS):
        step = 0.5 * max(1.0, width)
        places = np.arange(0.0, _BINS + 0.5 * step, step)
        laws.append(normal_shares(ends, places, np.array([width])))
        widths += len(places) * [math.log(width)]
        weights += len(places) * [step]
    return np.concatenate(laws), np.array(widths), np.array(weights)


def _seen(counts: Matrix) -> tuple[Vector, Vector]:
    """Ends of what stands out of the noise, an empty range where nothing does."""
    level = _SEEN * np.sqrt(np.arange(1.0, counts.shape[1] + 1.0))
    below, above = (np.cumsum(part, axis=1) > level for part in (counts, counts[:, ::-1]))
    first, last = np.argmax(below, axis=1), counts.shape[1] - np.argmax(above, axis=1)
    out = below.any(axis=1) & above.any(axis=1) & (first < last)
    return np.where(out, first, math.inf), np.where(out, last, -math.inf)
