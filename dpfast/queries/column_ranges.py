"""Where the entries of columns lie, by counts: in bins, and of rows that are long."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.queries._linear import Affine, column_counts, part_sums, shortened
from dpfast.queries.coordinates import _sum_over_blocks, _unit
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums

# Bins have a finite number per unit.
_NARROWEST = 1e-300
# Lengths from which on rows are long, and very long.
_LONG, _VERY_LONG = 16.0, 256.0
# How long ``(‖x‖ + ‖center‖) max(factor)`` may be, which rounding errors are charged for.
_FARTHEST = 1e5


class ColumnHistogram(Query):
    """Rows by their entry of each of some columns, in bins of equal width.

    The arguments are the lower end of each column's first bin and the upper end of its last one,
    which also count what lies below and above.  A group of rows contributes the mean over them.

    Sensitivity: ``√(k m)`` for m columns.  Of each of them a row adds 1 to one count: a vector of
    length √m, without negative entries, and so is a mean of such vectors no longer than that.  Two
    vectors without negative entries are at most √2 times their length apart.

    Parameters
    ----------
    shape : ProblemShape
    columns : ndarray of shape (m,)
    bins : int
    """

    any_parameter = True

    def __init__(self, shape: ProblemShape, columns: NDArray[np.intp], bins: int) -> None:
        self.shape, self.columns, self.bins = shape, columns, bins
        self.dimension = len(columns) * bins
        self.takes = (len(columns),), (len(columns),)

    def sensitivity(self, neighboring_relation: str) -> float:
        return math.sqrt(records_apart(neighboring_relation) * len(self.columns))

    def rounding_error(self) -> float:
        """Return the error of sums, where sparse rows add to and take from a count of zeros."""
        return _unit(self.shape) * 3.0 * math.sqrt(len(self.columns))

    def check_point(self, *point: Any) -> None:
        """Refuse bins without a width."""
        super().check_point(*point)
        low, high = point
        if not np.all(high - low > _NARROWEST):
            raise ValueError(
                f"high must be greater than low by more than {_NARROWEST:g}; got {high} and {low}. "
                "Nothing was spent on it."
            )

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The counts, column by column."""
        low, high = point
        work = partial(column_counts, columns=self.columns, low=low, high=high, bins=self.bins)
        counts: Vector = _sum_over_blocks(prepared, work)
        return counts.ravel()


class LongRows(Query):
    """How many rows are long, by ``‖z‖``, ``z = factor (x - center)``.

    A row of length 16 or less counts nothing, one of 256 or more counts 1, and between the two it
    counts p, in proportion to the logarithm: heavy tails count less than codes for missing values.
    Behind that count comes, if asked for, what columns have of it: ``p z² / ‖z‖²``, entry by entry.
    The arguments are center and factor; columns of factor 0 are left out.  A group of rows
    contributes the mean over them.

    Sensitivity: 1, with columns √2.  A row adds a number p from 0 to 1, and v of entries >= 0 that
    add up to p, so that ``‖v‖ <= p``; and so does a mean of such rows.  Two of them are apart by
    the root of ``(p - p')² + ‖v - v'‖² <= (p - p')² + p² + p'²``, which is convex, so that it is
    largest, 2, where p and p' are 0 or 1.  A row moves p by less than 0.1 times what its length
    does, and v by 0.5 times that of z besides.

    Parameters
    ----------
    shape : ProblemShape
    by_column : bool, default=False
    """

    any_parameter = True

    def __init__(self, shape: ProblemShape, by_column: bool = False) -> None:
        self.shape, self.by_column = shape, by_column
        self.dimension = 1 + by_column * shape.n_features
        self.takes = (shape.n_features,), (shape.n_features,)

    def sensitivity(self, neighboring_relation: str) -> float:
        records_apart(neighboring_relation)  # refuses a relation that there is not
        return math.sqrt(1.0 + self.by_column)

    def rounding_error(self) -> float:
        """Return the error of the sums, and of lengths that are wrong by roundings of entries.

        What columns have is a sum of squares, of sparse rows of up to nine times what a row adds.
        """
        entries = (self.shape.n_features + 8.0) * UNIT * _FARTHEST * self.shape.n_samples
        of_columns = self.by_column * (9.0 * _unit(self.shape) + 0.6 * entries)
        return _unit(self.shape) + 0.1 * entries + of_columns

    def length(self, share: float) -> float:
        """The length of which rows add up to this share of all."""
        return float(_LONG * (_VERY_LONG / _LONG) ** min(1.0, max(0.0, share)))

    def largest_factor(self, center: Vector) -> float:
        """Up to which rounding errors are charged for."""
        return _FARTHEST / (self.shape.data_norm + float(np.linalg.norm(center)))

    def check_point(self, *point: Any) -> None:
        """Refuse factors that rounding is not charged for."""
        super().check_point(*point)
        center, factor = point
        largest = self.largest_factor(center)
        if not np.all((factor >= 0.0) & (factor <= largest)):
            raise ValueError(
                f"factor must be from 0 to {largest:.3g}, which rounding errors are charged for; "
                f"got {factor.min():.3g} to {factor.max():.3g}. Nothing was spent on it."
            )

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The numbers for a center and a factor of the columns."""
        center, factor = point
        columns = Affine(factor, -center * factor, _LONG)
        work = partial(_long, columns=columns, by_column=self.by_column)
        return _sum_over_blocks(prepared, work)


def _long(problem: RowAccess, columns: Affine, by_column: bool) -> Vector:
    """How many of some rows are long, and what columns have of that."""
    shares = problem.row_shares()
    place = np.minimum(-np.log(shortened(problem, columns)) / math.log(_VERY_LONG / _LONG), 1.0)
    count = np.array([place.sum() if shares is None else place @ shares])
    if not by_column:
        return count
    # Rows that count are shortened to the radius, by whose square squares are divided.
    squares = part_sums(problem, columns=columns, squares=True, parts=place)[2]
    return np.append(count, np.maximum(squares, 0.0) / _LONG**2)
