"""Where the entries of each column lie between bounds that may be far too wide.

A round counts every column's entries in bins over its range of the round before, and what counts
tell narrows it (`dpfast/solvers/_range_laws.py`).  After four rounds a column is resolved that is
some thousand times narrower than its bounds.

Counts of a share of the rows tell nothing of rare entries far away, and coordinates in which many
rows are long lose these.  So columns whose entries are mostly one value are left out; or, if asked
for, only those in which hardly any entry is another, and the rest are as wide as the values that
are seen one by one.  Rows that are long in the others are counted: if many are, the columns that
make most of them long are not believed either, and where noise hides which these are, no column is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import ColumnHistogram, LongRows
from dpfast.shape import ProblemShape
from dpfast.solvers._range_laws import Search, added_up, ends, normal_laws
from dpfast.solvers._shares import Release

_RANGES, _LONG_ROWS = "column ranges", "long rows"
ROUNDS, _BINS = 4, 101
# Of laws, which are weighed for every column: more tell no more of counts that noisy.
_WIDTHS = 10
# All rows in units of a count's noise: with fewer, columns are not found; more than the second tell
# no more.  Shares of the budget, in units of mu²: a round costs the usual one if it has rows enough
# then, and up to the most; and the count of long rows six times as much, between twice these.
_LEAST_SEEN, _AMPLE = 10.0, 50.0
_LEAST, _USUAL, _MOST = 1e-4, 0.003, 0.008
# No scale is less than so many of the last bins; and a column has one value, beside rare ones that
# counts do not show, if two neighboring bins hold the first part of the rows, and no others if they
# hold the second.  It is not 0 if it is so many scales away.
_LEAST_WIDTH, MOSTLY, ALL, _AWAY = 0.3, 0.5, 0.9, 4.0
# Deviations of the noise by which a bin stands out by itself; and the scale of a column that is
# mostly of one value, over how far apart its values are.
_ALONE, _OF_SPAN = 5.0, 0.25
# At most this share of the rows may be long, and so many deviations of the count's noise: where a
# signal is weak, such rows lose more by coordinates that fit the others than these gain.
_MOST_LONG, _DOUBT = 0.005, 2.0
# Columns at a time, so that what is known of their laws stays in a cache.
_AT_ONCE = 64


class Ranges(NamedTuple):
    """Center and deviation of columns, and which of them are believed."""

    center: Vector
    deviation: Vector
    believed: NDArray[np.bool_]
    steady: NDArray[np.bool_]  # mostly of one value
    alike: NDArray[np.bool_]  # nearly all of one value, which is the center
    within: NDArray[np.bool_]  # not at the ends, where entries beyond a guess are counted
    constant: int | None  # a column of one value that is not 0


@dataclass(frozen=True)
class ColumnRanges:
    """The accesses of the rounds, and of the count of long rows."""

    histogram: Gaussian
    long_rows: Gaussian
    rounds: int


def share(rows: float, columns: int) -> float:
    """Of the budget, in units of mu², of one round; 0 if it would cost too much.

    `rows` is ``µ n / √k``, and a count's noise ``√columns`` over it and over the share's root.
    """
    if columns == 0:
        return 0.0
    needed = columns * (_LEAST_SEEN / rows) ** 2
    ample = columns * (_AMPLE / rows) ** 2
    return max(needed, min(ample, _USUAL), _LEAST) if needed <= _MOST else 0.0


def cost(rounds: int, share: float) -> float:
    """Of all rounds and of the count of long rows, as a share of the budget."""
    return rounds * share + _for_long_rows(share)


def _for_long_rows(share: float) -> float:
    return 2.0 * min(max(3.0 * share, _USUAL), _MOST)


def planned(
    shape: ProblemShape,
    columns: NDArray[np.intp],
    rounds: int,
    share: float,
    release: Release,
) -> ColumnRanges:
    """Settle the accesses; `release` calibrates one from its share of the budget."""
    histogram = release(share, ColumnHistogram(shape, columns, _BINS), _RANGES)
    long_rows = release(_for_long_rows(share), LongRows(shape, by_column=True), _LONG_ROWS)
    return ColumnRanges(histogram, long_rows, rounds)


class _Apart:
    """How far apart the values of a column are that counts show one by one.

    Where entries lie beyond the bins, they are somewhere in those of the round before.
    """

    def __init__(self, search: Search) -> None:
        self.found = self._before = search.high - search.low
        self._cut = np.zeros(len(self.found), dtype=bool)

    def add(self, search: Search, counts: Matrix) -> tuple[Vector, Vector]:
        """Take in a round; where bins that stand out of the noise by themselves begin and end."""
        alone = counts > _ALONE
        some = alone.any(axis=1)
        first = np.where(some, np.argmax(alone, axis=1), math.inf)
        last = np.where(some, _BINS - np.argmax(alone[:, ::-1], axis=1), -math.inf)
        seen = search.bin_width * np.maximum(last - first, 0.0)
        now = np.where(alone[:, 0] | alone[:, -1], self._before, seen)
        self.found = np.where(self._cut, self.found, now)
        self._cut = self._cut | alone[:, 0] | alone[:, -1]
        self._before = search.high - search.low
        return first, last


def learn_ranges(
    ranges: ColumnRanges, height: float, curator: Curator, mostly: float = MOSTLY
) -> Ranges:
    """What the counts tell, in the rows' units.

    Entries are looked for up to this height on either side of zero.  Columns of which one value has
    more than a part of the rows, `mostly`, are not believed.
    """
    query = ranges.histogram.query
    assert isinstance(query, ColumnHistogram)
    columns, shape = query.columns, query.shape
    reach = np.full(len(columns), height)
    search = Search(-reach, reach, _BINS, ranges.histogram.stddev)
    middles, apart = np.arange(0.5, _BINS), _Apart(search)
    for _ in range(ranges.rounds):
        counts, row = search.add(curator.release(ranges.histogram, search.low, search.high))
        rows = shape.n_samples * row
        shares = _mixtures(counts, rows)
        mean = shares @ middles
        center, bin_width = search.at(mean), search.bin_width
        first, last = ends(shares, counts)
        if mostly > MOSTLY:
            lowest, highest = apart.add(search, counts)
            first, last = np.minimum(first, lowest - 1.0), np.maximum(last, highest + 1.0)
        search.narrow(first, last)
    deviation = np.sqrt(np.sum(shares * np.square(middles - mean[:, None]), axis=1))
    scale = bin_width * np.maximum(deviation, _LEAST_WIDTH)
    two = counts[:, :-1] + counts[:, 1:]
    d = shape.n_features
    most = two.max(axis=1)
    if mostly > MOSTLY:
        # A law of the one value has all others far away.
        wide = np.maximum(scale, _OF_SPAN * apart.found)
        scale = np.where(most >= MOSTLY * rows, wide, scale)
    away = np.where(most > ALL * rows, np.abs(center) / scale, 0.0)
    constant = int(columns[np.argmax(away)]) if away.max() > _AWAY else None
    believed, steady, alike, within = np.zeros((4, d), dtype=bool)
    found = Ranges(np.zeros(d), np.full(d, height), believed, steady, alike, within, constant)
    found.center[columns], found.deviation[columns] = center, scale
    steady[columns] = most >= MOSTLY * rows
    within[columns] = bool(shape.columns) | (np.abs(center) + 2.0 * bin_width < height)
    alike[columns] = (most > ALL * rows) & within[columns]
    believed[columns] = most < mostly * rows
    found.believed[_blamed(ranges.long_rows, found, curator)] = False
    return found


def _blamed(long_rows: Gaussian, found: Ranges, curator: Curator) -> NDArray[np.intp]:
    """The columns that make too many rows long; none, if few rows are."""
    query = long_rows.query
    assert isinstance(query, LongRows)
    center = np.where(found.believed, found.center, 0.0)
    largest = query.largest_factor(center)
    factor = np.where(found.believed, np.minimum(1.0 / found.deviation, largest), 0.0)
    told, doubt = curator.release(long_rows, center, factor), _DOUBT * long_rows.stddev
    count, of_columns, columns = told[0], told[1:], np.flatnonzero(found.believed)
    too_many = count - _MOST_LONG * query.shape.n_samples
    if too_many <= doubt or columns.size == 0:
        return columns[:0]
    # Those that have most of it, until they have it beyond doubt; all, if they never do.
    columns = columns[np.argsort(-of_columns[columns])]
    total, doubts = added_up(of_columns[columns], doubt)
    enough = total - doubts >= too_many
    return columns[: np.argmax(enough) + 1] if enough.any() else columns


def _mixtures(counts: Matrix, rows: Vector) -> Matrix:
    """Shares of the entries to be expected in the bins."""
    laws = normal_laws(_BINS, _WIDTHS)
    chunks = [slice(at, at + _AT_ONCE) for at in range(0, len(counts), _AT_ONCE)]
    parts = [laws.mixture(laws.likelihoods(counts[at], rows[at]), laws.weight) for at in chunks]
    return np.concatenate(parts)
