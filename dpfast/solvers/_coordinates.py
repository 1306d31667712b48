"""Coordinates in which noise hurts least, learned from noisy sums over the columns.

Rounds of first moments and mean absolute values settle center and scale of every column, each round
in the coordinates of the one before.  A mean absolute value bounds the variance from both sides:
from below by that of a normal column, from above by that of a column that is 0 except for rare
spikes as high as entries get.  Columns that are declared to be categories are counts: their mean is
their variance, too.  Then correlations are learned, and those that stand out of the noise are taken
out.

A table of indicators may come without declarations.  Then the sum of all squares tells how high
entries are, over that of all absolute values: if these are about the same, entries are 0 or 1, and
columns that are rarely 1 and never negative are taken for categories from the first round on.  In
the end they are as well where most are 0 in most rows, however high entries get; so is one in which
nothing else was seen: scaled by what it was seen to spread, hardly at all, it would have rows
thousands of times as long as others.  And the squares of the scales add up to no less than the sum
of all squares: noise hides most columns that are rarely not 0, of which together it hides nothing.

A constant column of the table's own takes the intercept's place if there is none: the one that
varies least for its size, or that is likely to be of ones, as most are.  And of every category it
is kept how many rows it has at least, by its counts and by the correlations' diagonal:
:meth:`Coordinates.weights` gives next to no effect to those that nobody was seen to have.

All is post-processing of releases of :mod:`dpfast.queries.coordinates`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs, lu_factor, lu_solve, null_space
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import splu
from scipy.special import ndtr

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import ColumnParts, bounded, symmetric
from dpfast.queries.coordinates import column_transform
from dpfast.shape import ProblemShape
from dpfast.solvers import _column_ranges
from dpfast.solvers._column_ranges import ColumnRanges
from dpfast.solvers._doubtful import within_others
from dpfast.solvers._lengths import usual_length

_SQRT_2 = math.sqrt(2.0)
# Mean squares of a normal column over the square of its mean absolute value.
_NORMAL = 0.5 * math.pi
# Where between the bounds of a variance, on the scale of logarithms, it is taken to be.
_TAIL = 0.75
# Deviations of the noise below which a mean absolute value is not told from zero.
_UNSEEN = 1.5
# How high spikes are, over the length of the longest rows that are not cut.
_SPIKE = 0.6
# And by so many the mean of the rows' weights differs from the largest, if it does.
_BELIEF_IN_WEIGHTS = 2.0
# Of columns whose range is known: by how much, and by how many deviations of the noise besides,
# entries may be farther from the center than that tells; how much wider rounds begin; and how well
# the center is known.
_ABOUT, _FARTHER, _WIDER, _OFF = 1.25, 4.0, 2.0, 0.5
# Their spikes end so many deviations, or mean distances, from the center.
_SPIKES_END = 30.0
# Floor of a category's share: so many deviations of its noise, and 1 / (this² weights).
_COUNTED, _RAREST = 5.0, 4.0
# Entries of an undeclared column are seen if those on either side of its center stand out by so
# many deviations of the noise.
_MOVES = 3.0
# By so many deviations of the noise a mean square of the rows' lengths is believed to be too large.
_BELIEF_IN_LENGTHS = 2.0
# How far a guess of the entries' height may be wrong, as a share of it.
_HEIGHT_DEVIATION = 0.5
# Entries are 0 or 1, but for those of a few numbers, if their height is known better than by the
# first and this far from 1, beside the noise in it; and a category has at most this share of rows.
_HEIGHT_KNOWN, _ABOUT_ONE, _COMMON = 0.12, 0.15, 0.5
# Zeros are as far below a center as it is above 0, and cut by no clipping of the rest: of a column
# that reaches below by these shares of its center on average, most entries are taken to be 0.
_ZEROS, _MOST_ZEROS = 0.7, 1.2
# Deviations of the noise: a category is taken to have so many rows less than were counted, and was
# seen in more than the second, times the part of its effect that is kept: with a higher bar, where
# counts are noisy, effects of nearly all would be bounded by those of a few.  By the third, what
# noise does not do.
_DOUBT, _SEEN, _CERTAIN = 1.0, 3.0, 4.5
# Deviation of a category's effect before any data are seen, in units of the margin, and the most of
# one that was not seen, or that of a number, as a share of the largest effect that was.
CATEGORY_EFFECT, UNCERTAIN_EFFECT = 1.4, 0.7
# Second moments tell the share of rarer categories alone: at 1/2, (x - p)² is the same in all rows.
_TOLD_BY_SQUARES = 0.3
# Deviations of the noise by which a number is taken to vary less than was seen.
_SURELY = 3.0
# A column is constant if its mean is so many times its deviation, which is that but for spikes, and
# so many times that of the noise; and of ones up to so many of these.
_STEADY, _KNOWN, _ONES = 1.4, 6.0, 3.0
# The mean square to which the coordinates of numbers are brought, as the descent's settings expect
# it, where it was before, and the deviation of that guess; and the least that is believed.
_SQUARE, _GUESS_DEVIATION, _LEAST_SQUARE = 0.7, 0.2, 0.1
# The least mean square of a coordinate beside others.
_LEAST_COORDINATE = 0.01
# What is taken off an eigenvalue's distance from 1, and below what it is not told from 0, over the
# noise's norm.
_BELIEF = 0.5
# The same of the mean of many eigenvalues, which is known better; and how many those are, so that
# the noise's largest is, too, and vectors are worth saving.
_BELIEF_IN_MEAN, _MANY = 0.1, 100
# Entries of a transform a column, up to which sparse factors are worth having.
_FEW_ENTRIES = 3


@dataclass(frozen=True)
class Learning:
    """The accesses that coordinates are learned by, and their public numbers."""

    ranges: ColumnRanges | None  # of numeric columns; None: as they were declared
    lengths: Gaussian | None  # of rows; None: as long as their bound
    moments: tuple[Gaussian, ...]
    correlation: Gaussian | None
    correlation_rounds: int  # 1 or 2
    limit: float  # of the transform's reach

    @property
    def has_intercept(self) -> bool:
        """Whether there is one; otherwise a constant column takes its place, if there is one."""
        return _parts_of(self.moments[0]).shape.intercept != 0.0

    @property
    def of_columns(self) -> tuple[Gaussian | None, ...]:
        """Moments and lengths: after the first round where a constant column may hide these."""
        begun = not self.has_intercept
        return *self.moments[:begun], self.lengths, *self.moments[begun:]


@dataclass(frozen=True)
class Columns:
    """Center and scale of every column, in the rows' units, and what is known of them."""

    center: Vector
    scale: Vector
    deviation: Vector  # of the noise in the centers
    counted: NDArray[np.bool_]  # declared to be, or taken for, those of categories
    binary: NDArray[np.bool_]  # declared, of two values as far below and above 0
    height: float  # how high entries get
    # Shares of the rows that have each category, or the rarer of two values, and the noise in
    # these; of the two kinds above alone.
    frequency: Vector
    frequency_deviation: Vector
    least: Vector  # mean squares of numbers about their centers that are no noise; 0: none is known
    ranged: NDArray[np.bool_]  # nearly all entries are within a few scales of the center
    steady: NDArray[np.bool_]  # mostly of one value, as counts tell
    value: Vector  # of nearly all rows, where counts tell it; else the center
    constant: int | None  # the column that takes the intercept's place
    # Noisy means of the rows' weights by class, over the largest weight; empty for regression.
    shares: Vector
    share_deviation: float  # of the noise in these

    @property
    def categories(self) -> NDArray[np.bool_]:
        """Columns of categories, of two or more."""
        return self.counted | self.binary

    @property
    def ranges(self) -> Matrix | None:
        """Lowest and highest entries that weights are meant for, as (2, n_features); infinite where
        no range is known, and None if none is.

        Counts of a share of the rows do not show values that are rare and far away, such as codes
        for missing ones, nor do rows that are cut to a length show what the weights make of them.
        """
        if not self.ranged.any():
            return None
        reach = np.where(self.ranged, _SPIKES_END * self.scale, np.inf)
        return np.stack([self.center - reach, self.center + reach])

    @property
    def spread(self) -> Vector:
        """How far apart the values of such columns are."""
        return spread_of(self.binary, self.height)


@dataclass(frozen=True)
class Coordinates:
    """``z = Wᵀ x̃``; of the coordinates the last is 1 for every row if they are anchored."""

    transform: Matrix  # W
    anchor: int | None  # the constant entry of x̃: the intercept's, or that of a constant column
    constant: float  # its value
    columns: Columns

    @property
    def free(self) -> int:
        """Coordinates that are not constant."""
        return len(self.transform) - (self.anchor is not None)

    @property
    def tells_shares(self) -> bool:
        """Whether classes were counted, and there is a constant that their shares settle."""
        return self.anchor is not None and len(self.columns.shares) > 0

    def squares(self) -> Vector:
        """Their mean squares, as far as they differ: small where few rows have a category."""
        columns, d = self.columns, len(self.columns.center)
        rows = np.maximum(columns.frequency, 0.0) * columns.spread**2
        variance = np.where(columns.categories, rows, columns.scale**2)
        if columns.constant is not None:
            variance[columns.constant] = 0.0
        loads = self.transform[:d, : self.free]
        found = np.einsum("i,ij,ij->j", variance, loads, loads)
        return np.asarray(np.clip(found, _LEAST_COORDINATE, 1.0), dtype=np.float64)

    def probabilities(self) -> Vector:
        """Shares of the classes to expect, of what the noise shows."""
        shares, noise, _ = self.class_shares()
        found = expected_shares(shares, noise)
        expected: Vector = found / found.sum()
        return expected

    def class_shares(self) -> tuple[Vector, float, float]:
        """Noisy shares of the classes, the noise's deviation, and the mean weight of the rows.

        All rows are taken to have the largest weight, which is 1, unless the counts deny it.
        """
        shares, noise = self.columns.shares, self.columns.share_deviation
        surplus, classes = float(shares.sum()) - 1.0, len(shares)
        if abs(surplus) < _BELIEF_IN_WEIGHTS * noise * math.sqrt(classes):
            return shares - surplus / classes, noise * math.sqrt(1.0 - 1.0 / classes), 1.0
        total = max(1.0 + surplus, noise)
        return shares / total, noise / total, total

    def with_shares(self, told: Vector, noise: float) -> Coordinates:
        """The same, with shares of the classes told once more, by noise of this deviation."""
        shares, before, total = self.class_shares()
        trust = before**2 / (before**2 + noise**2)
        columns = replace(
            self.columns,
            shares=total * (shares + trust * (told - shares)),
            share_deviation=self.columns.share_deviation * math.sqrt(1.0 - trust),
        )
        return replace(self, columns=columns)

    def weights(self, v: Matrix, noise: Callable[[Vector], Vector]) -> Matrix:
        """``w = W v``, with the effects of categories shrunk as the noise in them asks for.

        `W` stretches the noise in an effect, and noise piles up where few rows have the category,
        since slopes hardly depend on its weight there.  `noise` is the deviation in a coordinate,
        by the share of the usual curvature along it.
        """
        w: Matrix = self.transform @ v
        columns, d = self.columns, len(self.columns.center)
        categories = columns.categories.copy()
        if self.anchor is not None and self.anchor < d:
            categories[self.anchor] = False  # a rare flag may take the intercept's place
        if not categories.any():
            return w
        spread = columns.spread[:, None]
        stretch = np.sum(np.square(spread * self.transform[:d, : self.free]), axis=1)
        least = np.maximum(columns.frequency - _DOUBT * columns.frequency_deviation, 0.0)
        variance = stretch * np.square(noise(np.minimum(1.0, stretch * least)))
        kept = np.where(categories, CATEGORY_EFFECT**2 / (CATEGORY_EFFECT**2 + variance), 1.0)
        found = (kept * w[:d].T).T
        certain = kept * columns.frequency > _SEEN * columns.frequency_deviation
        certain |= ~categories
        found = within_others(found, ~certain, UNCERTAIN_EFFECT)
        return self.shortened(w, found, columns.center)

    def with_kept(self, v: Matrix, kept: Vector) -> Matrix:
        """The same with so much of the columns' weights; typical rows keep their margins."""
        if np.all(kept == 1.0):
            return v
        w: Matrix = self.transform @ v
        shortened = self.shortened(w, (kept * w[: len(kept)].T).T, self.columns.value)
        return self.of_weights(shortened)

    def of_weights(self, w: Matrix) -> Matrix:
        """The ``v`` with ``W v = w``."""
        return np.asarray(self._solve(w), dtype=np.float64)

    def columns_of_inverse(self, at: NDArray[np.intp]) -> Matrix:
        """These columns of the inverse of ``W``."""
        units = np.zeros((len(self.transform), len(at)))
        units[at, np.arange(len(at))] = 1.0
        return self.of_weights(units)

    @cached_property
    def _solve(self) -> partial[Matrix]:
        """Solve equations with ``W``: it is factored once, as sparse if it hardly mixes columns."""
        size = len(self.transform)
        if size >= _MANY and np.count_nonzero(self.transform) <= _FEW_ENTRIES * size:
            return partial(splu(csc_array(self.transform)).solve)
        factors = lu_factor(self.transform, check_finite=False)
        return partial(lu_solve, factors, check_finite=False)

    def shortened(self, w: Matrix, found: Matrix, at: Vector) -> Matrix:
        """Weights whose columns' become these; rows with these entries keep their margins."""
        d, constants = len(found), w[len(found) :]
        whole: Matrix = np.concatenate([found, constants])
        if self.anchor is not None:
            whole[self.anchor] += at @ (w[:d] - found) / self.constant
        return whole


def expected_shares(found: Vector, noise: float | Vector) -> Vector:
    """Means of numbers in [0, 1], of which normal noise of this deviation shows `found`.

    Examples
    --------
    >>> expected_shares(np.array([-0.01, 0.01, 0.3]), 0.01).round(4)
    array([0.0053, 0.0129, 0.3   ])
    """
    # Far outside the interval the formula is 0/0.
    found = np.clip(found, -6.0 * noise, 1.0 + 6.0 * noise)
    low, high = -found / noise, (1.0 - found) / noise
    density = np.exp(-0.5 * low**2) - np.exp(-0.5 * high**2)
    inside = math.sqrt(2.0 * math.pi) * (ndtr(high) - ndtr(low))
    expected: Vector = np.clip(found + noise * density / inside, 1e-9, 1.0 - 1e-9)
    return expected


def entry_bound(shape: ProblemShape) -> float:
    """How high a column's entries may be: as declared, or a guess from the rows' norm."""
    if shape.columns:
        return 1.0
    return float(shape.data_norm * shape.dim**-0.375)


def learn(learning: Learning, shape: ProblemShape, curator: Curator) -> Coordinates:
    """Private coordinates in which the rows are nearly centered and white."""
    known = _Known(learning, shape, curator)
    for number, moments in enumerate(learning.moments):
        known.add(moments, number == 0)
        if number == 0 and learning.lengths is not None and shape.intercept == 0.0:
            known.take_lengths(learning.lengths, int(np.argmax(known.steadiness())))
    known.take_zeros()
    found = _coordinates(shape, known.columns())
    found = replace(found, transform=bounded(shape, found.transform, learning.limit))
    mechanism = learning.correlation
    if mechanism is None:
        return found
    # Where few ranges are known all rounds are of the first coordinates.
    again = learning.correlation_rounds > 1 and 2 * int(found.columns.ranged.sum()) > found.free
    rounds = learning.correlation_rounds - again
    told = _second_moments(mechanism, rounds, shape, curator, found.transform[:, : found.free])
    transform, columns = _correlation(*told, found)
    transform = bounded(shape, transform, learning.limit)
    found = replace(found, transform=transform, columns=columns)
    if again:
        ask = partial(_second_moments, mechanism, 1, shape, curator)
        transform = bounded(shape, _correlation_left(ask, found), learning.limit)
        found = replace(found, transform=transform)
    return found


# ---- columns ------------------------------------------------------------------------------------


class Estimate:
    """Mean of noisy values, each weighted by its precision."""

    def __init__(self, size: int) -> None:
        self.total = np.zeros(size)
        self.precision = np.zeros(size)

    def add(self, value: Vector, deviation: Vector | float) -> Vector:
        """The mean, with one more value a coordinate and the deviations of their noise."""
        self.total += value / np.square(deviation)
        self.precision += 1.0 / np.square(deviation)
        return self.total / self.precision

    def deviation(self) -> Vector:
        """Of the mean's noise."""
        return 1.0 / np.sqrt(self.precision)


class _Known:
    """What is known of the columns, round by round.

    In units in which rows are at most √dim long, so that nothing here over- or underflows.
    """

    def __init__(self, learning: Learning, shape: ProblemShape, curator: Curator) -> None:
        d, self.shape, self.curator = shape.n_features, shape, curator
        self.unit = shape.data_norm / math.sqrt(shape.dim)
        self.height = self.typical = self.spike = entry_bound(shape) / self.unit
        self.binary, self.numbers = declared(shape, "binary"), declared(shape, "number")
        self.counted = declared(shape, "one-hot")
        # All rounds' estimates count, each by its precision, which is public: later rounds resolve
        # short columns, and the first, in which no row is clipped, knows the long ones best.
        classes = _parts_of(learning.moments[0]).counted
        self.centers, self.classes = Estimate(d), Estimate(classes)
        self.center, self.scale, self.shares = np.zeros(d), np.ones(d), np.zeros(classes)
        # What the rows' mean square about a place is at least, and that place.
        self.least_square, self.begun = 0.0, self.center
        self.ranged, self.deviations = np.zeros(d, dtype=bool), np.ones(d)
        self.steady, self.alike = np.zeros((2, d), dtype=bool)
        self.places = np.zeros(d)
        # The column that is constant, as far as is known; as ranges tell, or as likely one of ones.
        self.constant: int | None = None
        self.told: int | None = None
        self.ones: int | None = None
        self.usual = np.ones(d)  # deviations but for rare spikes
        if learning.ranges is not None:
            told = _column_ranges.learn_ranges(learning.ranges, self.unit * self.height, curator)
            self.ranged, self.deviations = told.believed, told.deviation / self.unit
            self.steady, self.alike, self.within = told.steady, told.alike, told.within
            self.places = told.center / self.unit
            self.center = np.where(self.ranged, self.places, 0.0)
            if shape.intercept == 0.0 and told.constant is not None:
                self.constant = self.told = told.constant
                self.center[self.told] = self.places[self.told]
        if learning.lengths is not None and shape.intercept != 0.0:
            self.take_lengths(learning.lengths)

    @property
    def categories(self) -> NDArray[np.bool_]:
        """Columns of categories, of two or more."""
        return self.counted | self.binary

    def take_lengths(self, mechanism: Gaussian, left_out: int | None = None) -> None:
        """Take in how long rows usually are."""
        usual = usual_length(mechanism, self.curator, left_out)
        told = ~self.categories
        if left_out is not None:
            told[left_out] = False
        self.scale = np.where(told, np.minimum(usual, self.scale), self.scale)
        if usual < 1.0:
            self.spike = min(self.height, _SPIKE * usual * math.sqrt(self.shape.dim))

    def steadiness(self) -> Vector:
        """Sizes of the columns over how much they usually vary."""
        # What is narrow varies all the same.
        left_out = declared(self.shape, "one-hot") | self.ranged
        return np.where(left_out, 0.0, np.abs(self.center) / self.usual)

    def add(self, mechanism: Gaussian, first: bool) -> None:
        """Take in one more round."""
        # Indicators are not centered, so that they have no negative parts.
        offset = np.where(self.counted, 0.0, self.center)
        above, below, noise = self._released(mechanism, offset)
        mean = np.where(self.counted, above, above - below)
        size, apart = above + below, _SQRT_2 * noise
        known = self.scale * np.where(self.counted, noise, apart)
        self.center = self.centers.add(offset + self.scale * mean, known)
        self._look_for_zeros(above, below, noise, offset)
        least = _least_seen(size, apart, self.numbers & first)
        low, high = _variance_bounds(size, least, mean, apart, self.scale, self._spikes(size))
        # Where entries are, on average, about as far from the center as their range tells.
        farthest = _ABOUT * self.deviations / math.sqrt(_NORMAL)
        near = self.ranged & (self.scale * (size - _FARTHER * apart) < farthest)
        if first:
            self.ones = _likely_ones(self.unit * above, self.unit * noise, self.categories)
            alike = np.where(least < _UNSEEN * apart, self.scale * least, math.inf)
            self._believe(offset, np.where(near, _OFF * self.deviations, alike))
            narrow = np.minimum(high, np.square(_WIDER * self.deviations))
            guess, low = np.where(near, narrow, high), np.where(near, np.minimum(low, narrow), low)
        else:
            guess = low ** (1.0 - _TAIL) * high**_TAIL
            guess = np.where(near, np.minimum(guess, low / _SQUARE), guess)  # no room for spikes
        self.usual = np.sqrt(np.minimum(low, high))
        if self.shape.intercept == 0.0:
            self._find_constant()
        if self.constant is not None:
            guess[self.constant] = low[self.constant]
        doubtful = np.where(self.categories | self.ranged, 0.0, self.scale)
        self._scale(np.sqrt(np.clip(guess, low, high)))
        farthest = np.abs(self.center - self.begun) + _BELIEF_IN_LENGTHS * self.centers.deviation()
        self.scale = _as_long(self.scale, self.least_square - float(farthest @ farthest), doubtful)

    def _look_for_zeros(self, above: Vector, below: Vector, noise: float, offset: Vector) -> None:
        """Which columns move, and of which of these most entries may be 0, or are not for sure."""
        moves = ~self.categories & (np.minimum(above, below) > _MOVES * noise)
        reach, doubt = self.scale * below, self.scale * _MOVES * noise
        above_least, above_most = reach - _ZEROS * offset, reach - _MOST_ZEROS * offset
        self.moves, self.zeros = moves, moves & (above_least > 0.0) & (above_most < 0.0)
        self.others = moves & ((above_least < -doubt) | (above_most > doubt))

    def _spikes(self, size: Vector) -> Vector:
        """How high the columns' spikes may be; where a range is known, so many deviations."""
        end = _SPIKES_END * np.maximum(self.deviations, self.scale * size)
        return np.where(self.ranged, np.minimum(self.spike, end), self.spike)

    def _believe(self, center: Vector, doubt: Vector) -> None:
        """Take in where centers were believed to be before there were sums, with these doubts."""
        if self.told is not None:
            # At the end of a guess its place is not known: sums tell it.
            known = self.within[self.told]
            doubt[self.told] = self.deviations[self.told] if known else math.inf
        self.center = self.centers.add(center, doubt)

    def _find_constant(self) -> None:
        """Settle which column is constant, and that it is 1 unless the noise denies it."""
        far = np.abs(self.center - 1.0 / self.unit)
        noise, steadiness = self.centers.deviation(), self.steadiness()
        ones, most = far < _ONES * noise, int(np.argmax(steadiness))
        if self.told is not None:
            self.constant = self.told
        elif steadiness[most] > _STEADY and abs(self.center[most]) > _KNOWN * noise[most]:
            self.constant = most
        else:
            self.constant = self.ones if self.ones is not None and ones[self.ones] else None
        if self.constant is not None and ones[self.constant]:
            self.center[self.constant] = 1.0 / self.unit

    def _released(self, mechanism: Gaussian, offset: Vector) -> tuple[Vector, Vector, float]:
        """Mean positive and negative parts, and the noise in them; classes and heights are told."""
        d, n, query = self.shape.n_features, self.shape.n_samples, _parts_of(mechanism)
        noisy = self.curator.release(mechanism, self.unit * offset, self.unit * self.scale)
        above, below, _, length, labels = query.split(noisy / n)
        noise = mechanism.stddev / n
        self.shares = self.classes.add(labels, noise / query.label_weight)
        if len(length):
            # All columns have one scale.
            one, of_length = float(self.scale[0]), noise / (query.weight * query.weight_of_lengths)
            doubts = one * noise * math.sqrt(2.0 * d), one**2 * of_length
            sums = one * float(np.sum(above + below)), one**2 * float(length[0])
            self.typical, ones = _height(sums, doubts, self.height, 1.0 / self.unit)
            self.least_square, self.begun = sums[1] - _BELIEF_IN_LENGTHS * doubts[1], offset
            if ones:
                self.height = self.typical
            self.counted = ones & ~self.ranged & (above < _COMMON * self.height)
            self.numbers = np.full(d, not ones)
        if not self.shape.columns:
            self.counted = self.counted & (below < _CERTAIN * noise)
        return above, below, noise

    def take_zeros(self) -> None:
        """Take columns that are mostly 0 for categories, if more than half of all and one are."""
        if np.sum(self.zeros) > np.sum(self.moves & ~self.zeros) + 2:
            unseen = ~self.others & (np.abs(self.center) < _CERTAIN * self.centers.deviation())
            self.counted = self.counted | ~self.categories & (unseen | self.zeros)
            self.height = self.typical
            self._scale(self.scale)

    def _scale(self, of_numbers: Vector) -> None:
        """Settle the scales, those of categories by their shares."""
        lowest = np.where(self.counted, 0.0, -self.height)
        clipped = np.clip(self.center, lowest, self.height)
        self.center = np.where(self.categories, clipped, self.center)
        spread = spread_of(self.binary, self.height)
        self.doubt = self.centers.deviation() / spread
        self.frequency, rare = _rareness(
            self.center, self.doubt, self.binary, self.height, self.shape.dim
        )
        self.scale = np.where(self.categories, spread * np.sqrt(rare), of_numbers)

    def columns(self) -> Columns:
        """All of it, in the rows' units."""
        known, doubt = len(self.shares) > 0, self.centers.deviation()
        return Columns(
            center=self.unit * self.center,
            scale=self.unit * self.scale,
            deviation=self.unit * doubt,
            counted=self.counted,
            binary=self.binary,
            height=self.unit * self.height,
            frequency=self.frequency,
            frequency_deviation=self.doubt,
            least=np.zeros(self.shape.n_features),
            ranged=self.ranged,
            steady=self.steady,
            value=self.unit * np.where(self.alike, self.places, self.center),
            constant=self.constant,
            shares=self.shares,
            share_deviation=float(self.classes.deviation()[0]) if known else math.inf,
        )


def _least_seen(size: Vector, noise: float, numbers: NDArray[np.bool_]) -> Vector:
    """The least that mean absolute values are taken for.

    Numbers that are not told from zero are taken to be alike: their mean is known far better than
    any of them.  Not those of a later round, in whose coordinates columns of rare spikes are 0 but
    for these.
    """
    least = np.full(len(size), _UNSEEN * noise)
    unseen = numbers & (size < least)
    if unseen.any():
        together = max(0.0, float(size[unseen].mean())) + noise / math.sqrt(unseen.sum())
        least[unseen] = np.minimum(least[unseen], together)
    return least


def _likely_ones(size: Vector, noise: float, categories: NDArray[np.bool_]) -> int | None:
    """The column that is 1 in all rows by more than even odds, if one of all is.

    By the mean of its positive part: others, which the noise hides, have none to speak of.
    """
    found = int(np.argmax(np.where(categories, 0.0, size)))
    return found if size[found] > 0.5 + noise**2 * math.log(len(size)) else None


def _height(
    sums: tuple[float, float], doubts: tuple[float, float], guess: float, one: float
) -> tuple[float, bool]:
    """How high entries are that are not 0, and whether all those are 1, but for a few numbers.

    Of mean sums of entries' absolute values and squares, with the deviations of the noise in them.
    """
    size = max(sums[0], doubts[0])
    found = max(sums[1], 0.0) / size
    doubt = math.hypot(doubts[1], guess * doubts[0]) / size
    if doubt < _HEIGHT_KNOWN * one and abs(found - one) < _ABOUT_ONE * one + doubt:
        return one, True
    trust = 1.0 / (1.0 + (doubt / (_HEIGHT_DEVIATION * guess)) ** 2)
    return trust * found + (1.0 - trust) * guess, False


def _variance_bounds(
    size: Vector, least: Vector, mean: Vector, noise: float, scale: Vector, height: Vector
) -> tuple[Vector, Vector]:
    """Bounds of the columns' variances from mean absolute values and means in units of `scale`.

    A column is at least as spread as a normal one, as what its center was wrong by, and as the
    noise; and at most as one of spikes of these heights.
    """
    high = np.maximum(size, least) * scale * height
    low = scale**2 * (_NORMAL * np.maximum(size**2 - mean**2, 0.0) + 0.25 * mean**2 + noise**2)
    return np.minimum(low, high), np.maximum(low, high)


def _as_long(scale: Vector, least: float, doubtful: Vector) -> Vector:
    """Scales of which those that are `doubtful` grow until all squares add up to the least."""
    left = max(0.0, least - float(scale @ scale))
    found: Vector = np.sqrt(scale**2 + left * doubtful / max(float(doubtful.sum()), 1e-300))
    return found


def _rareness(
    center: Vector, doubt: Vector, binary: NDArray[np.bool_], height: float, dim: int
) -> tuple[Vector, Vector]:
    """Shares of categories, or of the rarer of two values, and variances to scale them by.

    Those are in units of the values' distance, and at least what the noise in a share makes them.
    """
    rarer = np.where(binary, 0.5 * (height - np.abs(center)), center)
    share = np.clip(rarer / height, 0.0, 1.0)
    variance = np.where(binary, share * (1.0 - share), share)
    return share, np.maximum(np.maximum(variance, _COUNTED * doubt), 1.0 / (_RAREST**2 * dim))


def spread_of(binary: NDArray[np.bool_], height: float) -> Vector:
    """How far apart the values of a category's column are, or of one of two values."""
    return np.where(binary, 2.0 * height, height)


def declared(shape: ProblemShape, *kinds: str) -> NDArray[np.bool_]:
    """Which columns are declared to be of these kinds."""
    found = np.zeros(shape.n_features, dtype=bool)
    for block in shape.columns:
        found[block.start : block.stop] = block.kind in kinds
    return found


def _parts_of(mechanism: Gaussian) -> ColumnParts:
    assert isinstance(mechanism.query, ColumnParts)
    return mechanism.query


# ---- coordinates --------------------------------------------------------------------------------


def _coordinates(shape: ProblemShape, columns: Columns) -> Coordinates:
    """Columns scaled, and centered where something constant can take up the centers."""
    d, center, scale = shape.n_features, columns.center, columns.scale
    if shape.intercept != 0.0:
        transform = column_transform(shape, center, scale)
        return Coordinates(transform, d, shape.intercept, columns)
    j = columns.constant
    if j is None:
        transform = np.diag(1.0 / np.hypot(scale, center))
        return Coordinates(transform, None, 1.0, columns)
    others = np.flatnonzero(np.arange(d) != j)
    transform = np.zeros((d, d))
    transform[others, np.arange(d - 1)] = 1.0 / scale[others]
    transform[j, : d - 1] = -center[others] / (scale[others] * center[j])
    transform[j, d - 1] = 1.0 / center[j]
    return Coordinates(transform, j, float(center[j]), columns)


def _second_moments(
    mechanism: Gaussian, releases: int, shape: ProblemShape, curator: Curator, transform: Matrix
) -> tuple[Matrix, float]:
    """Second moments of coordinates that are not constant, and the deviation of their noise."""
    size = transform.shape[1]
    asked = np.zeros((shape.dim, shape.dim))
    asked[:, :size] = transform
    told = np.mean([curator.release(mechanism, asked) for _ in range(releases)], axis=0)
    moments = symmetric(told / shape.n_samples, shape.n_features)[:size, :size]
    return moments, mechanism.stddev / math.sqrt(releases) / shape.n_samples


def _correlation(moments: Matrix, noise: float, found: Coordinates) -> tuple[Matrix, Columns]:
    """The transform without the correlations that stand out of the noise.

    And what is known of the columns, now that there are their second moments.
    """
    free, d = found.free, len(found.columns.center)
    columns = np.flatnonzero(np.arange(d) != found.anchor)
    counted_again = _counted_again(found, columns, np.diag(moments), _SQRT_2 * noise)
    numbers = ~found.columns.categories[columns]
    unit = _unit_of_numbers(np.diag(moments), _norm(noise, free), numbers)
    moments, noise = moments / np.outer(unit, unit), noise / float(np.mean(unit**2))
    transform = found.transform.copy()
    transform[:, :free] /= unit
    factor = _one_factor(moments, noise)
    if factor is not None:
        transform[:, :free] *= factor
    else:
        # Of the columns' transform few entries are not zero.
        transform[:, :free] = csr_array(transform[:, :free]) @ _by_vectors(moments, noise)
    return transform, counted_again


def _correlation_left(ask: Callable[[Matrix], tuple[Matrix, float]], found: Coordinates) -> Matrix:
    """The same for what is left between columns whose range is known: some are nearly equal.

    Errors are relative to what was left.  Columns that may have spikes take no part: rows are
    clipped, and what that takes from a variance would be taken twice.
    """
    free, others = found.free, ~found.columns.ranged
    if found.anchor is not None:
        others[found.anchor : found.anchor + 1] = False
    held = found.transform[: len(others), :free][others]
    # SciPy before 1.14 has no null space of an empty matrix.
    basis = null_space(held) if len(held) else np.eye(free)
    within = _whitening(*ask(found.transform[:, :free] @ basis))
    change = np.eye(len(found.transform))
    change[:free, :free] += basis @ (within - np.eye(len(within))) @ basis.T
    return found.transform @ change


def _norm(deviation: float, size: int) -> float:
    """Of a symmetric Gaussian matrix."""
    return 2.0 * math.sqrt(size) * deviation


def _whitening(moments: Matrix, deviation: float) -> Matrix:
    """What makes coordinates of these second moments white, where it stands out of the noise.

    One factor for all of them if these are many, and noise explains how far eigenvalues are from
    their mean: vectors are noise then.
    """
    factor = _one_factor(moments, deviation)
    return _by_vectors(moments, deviation) if factor is None else factor * np.eye(len(moments))


def _one_factor(moments: Matrix, deviation: float) -> float | None:
    """That factor; None where vectors tell something, or are few."""
    d, noise = len(moments), _norm(deviation, len(moments))
    if d < _MANY:
        return None
    mean = float(np.trace(moments)) / d
    if not _is_within(moments, mean, noise):
        return None
    left = max(0.0, abs(mean - 1.0) - _BELIEF_IN_MEAN * noise)
    return 1.0 / math.sqrt(1.0 + math.copysign(left, mean - 1.0))


def _by_vectors(moments: Matrix, deviation: float) -> Matrix:
    """The same by eigenvectors."""
    noise = _norm(deviation, len(moments))
    # All vectors: those that stand out alone take as long, and the others need a basis, too.
    eigenvalues, vectors = np.linalg.eigh(moments)
    # White is the guess; only what is further from it than the noise reaches is believed.
    away = eigenvalues - 1.0
    less = np.maximum(np.abs(away) - _BELIEF * noise, 0.0)
    shrunk = 1.0 + np.sign(away) * np.minimum(less, np.abs(_without_noise(away, deviation)))
    shrunk = np.maximum(shrunk, min(1.0, _BELIEF * noise))
    return vectors / np.sqrt(shrunk)


def _is_within(moments: Matrix, mean: float, norm: float) -> bool:
    """Whether no eigenvalue is farther from `mean` than noise of this norm goes, fluctuating [1]_.

    Cholesky's factors tell, in a small part of the time of a decomposition.

    References
    ----------
    .. [1] Tracy and Widom (1996), On orthogonal and symplectic matrix ensembles, Communications in
       Mathematical Physics 177.
    """
    d = len(moments)
    edge = norm * (1.0 + d ** (-2.0 / 3.0))
    factored = get_lapack_funcs("potrf", (moments,))
    for sign in (-1.0, 1.0):
        side = sign * moments
        side.flat[:: d + 1] += edge - sign * mean
        # In LAPACK's order it is its transpose, which is the same.
        if factored(side.T, clean=0, overwrite_a=1)[1] != 0:
            return False
    return True


def _without_noise(eigenvalues: Vector, deviation: float) -> Vector:
    """Best eigenvalues of a symmetric matrix to which noise of this deviation was added.

    To go with the noisy eigenvectors (Bun, Allez, Bouchaud & Potters 2016); if there is nothing but
    noise they are all about 0.  Noisy eigenvalues drive each other apart, by what this takes back.
    """
    found, variance = np.zeros_like(eigenvalues), deviation**2
    for j, value in enumerate(eigenvalues):
        gap = value - eigenvalues
        found[j] = value - 2.0 * variance * np.sum(gap / (gap**2 + variance))
    return np.where(found * eigenvalues > 0.0, found, 0.0)


def _unit_of_numbers(diagonal: Vector, noise: float, numbers: NDArray[np.bool_]) -> Vector:
    """What is left to divide the coordinates by, all those of numbers by the same.

    Scales between bounds are too large by a part that rows' bounds and the noise decide.  The mean
    of all squares is known far better than any of them; `noise` is the norm of their matrix's.
    Scales of categories are as large as they ought to be.
    """
    unit = np.ones(len(diagonal))
    if numbers.any():
        deviation = noise / math.sqrt(2.0 * len(diagonal) * np.count_nonzero(numbers))
        trust = _GUESS_DEVIATION**2 / (_GUESS_DEVIATION**2 + deviation**2)
        found = trust * float(np.mean(diagonal[numbers])) + (1.0 - trust) * _SQUARE
        unit[numbers] = math.sqrt(max(_LEAST_SQUARE, found) / _SQUARE)
    return unit


def _counted_again(
    found: Coordinates, columns: NDArray[np.intp], squares: Vector, noise: float
) -> Columns:
    """The frequencies of categories, with what the columns' second moments tell of them.

    And what numbers vary at least, beside what their centers may be wrong by.

    An h among zeros, from which c is taken, has ``p h (h - 2c) + c²`` as its mean square.  It is
    known the better the smaller the scale is; where rows are clipped it is too small, never too
    large.
    """
    known, height = found.columns, found.columns.height
    center = known.center[columns] if found.anchor is not None else np.zeros(len(columns))
    stretch = np.square(found.transform[columns, np.arange(len(columns))])
    told = known.counted[columns] & (center < _TOLD_BY_SQUARES * height)
    slope = np.where(told, height * (height - 2.0 * center), 1.0)
    counts = Estimate(len(columns))
    counts.add(known.frequency[columns], known.frequency_deviation[columns])
    frequency, deviation = known.frequency.copy(), known.frequency_deviation.copy()
    doubt = np.where(told, noise / stretch / slope, math.inf)
    frequency[columns] = counts.add((squares / stretch - np.square(center)) / slope, doubt)
    deviation[columns] = counts.deviation()
    least, off = np.zeros_like(frequency), _SURELY * known.deviation[columns]
    least[columns] = np.maximum((squares - _SURELY * noise) / stretch - np.square(off), 0.0)
    return replace(known, frequency=frequency, frequency_deviation=deviation, least=least)
