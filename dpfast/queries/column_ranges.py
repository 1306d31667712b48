"""Where the entries of columns lie, by counts: in bins, and of rows by their length."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.queries._linear import Affine, column_counts, scaled_lengths
from dpfast.queries.coordinates import _sum_over_blocks, _unit
from dpfast.queries.estimating import LENGTHS
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums

Vector = NDArray[np.float64]


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

    def __init__(self, shape: ProblemShape, columns: NDArray[np.intp], bins: int) -> None:
        self.shape, self.columns, self.bins = shape, columns, bins
        self.dimension = len(columns) * bins

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        return math.sqrt(records_apart(neighboring_relation) * len(self.columns))

    def rounding_error(self) -> float:
        """Return the error of sums, where sparse rows add to and take from a count of zeros."""
        return _unit(self.shape) * 3.0 * math.sqrt(len(self.columns))

    def check_point(self, *point: Any) -> None:
        """Refuse bins without a width.

        Raises
        ------
        ValueError
        """
        super().check_point(*point)
        low, high = point
        if not np.all(np.isfinite(self.bins / (high - low))) or not np.all(low < high):
            raise ValueError(
                "low must be less than high by more than floating point resolves; got low "
                f"{low}, high {high}. Nothing was spent."
            )

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The counts, column by column."""
        low, high = point
        work = partial(column_counts, columns=self.columns, low=low, high=high, bins=self.bins)
        counts: Vector = _sum_over_blocks(prepared, work)
        return counts.ravel()


class ScaledLengths(Query):
    """Rows by the length of ``(x - center) / scale`` of some columns, over the root of their number.

    Counts at :data:`LENGTHS`: a length between two of its steps is divided among them, in
    proportion to how near it is on a logarithmic scale, and one beyond the first or the last belongs
    to that.  A group of rows contributes the mean over them.

    Sensitivity: ``√k``.  What a row adds has no negative entry and adds up to 1, so it is no longer
    than 1; two such vectors have a product >= 0, so they are at most √2 apart.  The position on the
    ladder moves by less than 3 times what the length does, two counts with it.

    Parameters
    ----------
    shape : ProblemShape
    columns : ndarray of shape (m,)
    farthest : float
        How long ``(‖x‖ + ‖center‖) / min(scale)`` may be, which rounding errors are charged for.
    """

    def __init__(
        self, shape: ProblemShape, columns: NDArray[np.intp], farthest: float = 1e5
    ) -> None:
        self.shape, self.columns, self.farthest = shape, columns, farthest
        self.dimension = len(LENGTHS)

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        return math.sqrt(records_apart(neighboring_relation))

    def rounding_error(self) -> float:
        """Return the error of the sums, and of lengths that are wrong by roundings of entries."""
        entries = (self.shape.n_features + 8.0) * UNIT * self.farthest * self.shape.n_samples
        return _unit(self.shape) + 3.0 * math.sqrt(2.0) * entries

    def check_point(self, *point: Any) -> None:
        """Refuse scales that rounding is not charged for.

        Raises
        ------
        ValueError
        """
        super().check_point(*point)
        center, scale = point
        least = (self.shape.data_norm + float(np.linalg.norm(center))) / self.farthest
        if not np.all(scale >= least):
            raise ValueError(
                f"scale must be at least {least:.3g}, which rounding errors are charged for; got "
                f"{scale.min():.3g}. Nothing was spent."
            )

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The counts for a center and a scale of the columns."""
        center, scale = point
        factor, shift = np.zeros((2, self.shape.n_features))
        factor[self.columns], shift[self.columns] = 1.0 / scale, -center / scale
        factor, shift = (a / math.sqrt(len(self.columns)) for a in (factor, shift))
        work = partial(_by_length, columns=Affine(factor, shift, math.inf))
        counts: Vector = _sum_over_blocks(prepared, work)
        return counts


def _by_length(problem: RowAccess, columns: Affine) -> Vector:
    """Shares of some rows at the steps of the ladder."""
    shares = problem.row_shares()
    sizes = np.clip(scaled_lengths(problem, columns), LENGTHS[-1], LENGTHS[0])
    place = np.clip(-2.0 * np.log2(sizes / LENGTHS[0]), 0.0, len(LENGTHS) - 1.0)
    lower = np.minimum(place.astype(np.intp), len(LENGTHS) - 2)
    weights = np.ones(len(place)) if shares is None else shares
    beyond: Vector = weights * (place - lower)
    counts: Vector = np.bincount(lower, weights - beyond, len(LENGTHS)).astype(np.float64)
    counts += np.bincount(lower + 1, beyond, len(LENGTHS))
    return counts
