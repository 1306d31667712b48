"""Statistics of the columns of a table with declared bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._typing import Vector
from dpfast.mechanisms import Query
from dpfast.privacy import records_apart, row_relation, unit_of
from dpfast.shape import MOST_ROWS, UNIT

BLOCK_ROWS = 4096
#: Parts of which a row of a group of m counts the m-th part, rounded down: sums are exact.
SHARES = 2**20
# Weights of the squares beside the values for which they cost nothing; see the class.
_WEIGHTS = {"replace_one": 1.66, "add_or_remove_one": 1.0}


@dataclass(frozen=True, eq=False)
class GroupedColumns:
    """Rows of a table, and how many rows the group of each has: at most 1000."""

    X: NDArray[Any]
    sizes: NDArray[np.int64]


def shares_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """What rows count of which so many make up a group, in units of one over `SHARES`.

    The shares of a group's rows add up to at most one, and any sums of them are exact in float64,
    up to 2^33 groups.
    """
    return SHARES // sizes


class ColumnSums(Query):
    r"""``Σ_i (u_i, ω (u_i² - 1))``, ``u_i`` row i cut to the bounds and mapped to [-1, 1].

    Sensitivity: ``2 √d`` for "replace_one" with ``ω = 1.66``, and ``√d`` for "add_or_remove_one"
    with ``ω = 1``, as much as that of the sums alone.  Column by column:

    * Replaced, u by u': the squared distance is ``(u - u')² (1 + ω² (u + u')²)``. With
      ``t = |u + u'|``, ``|u - u'| <= 2 - t``, and ``(2 - t)² (1 + ω² t²) <= 4`` if and only if
      ``ω² <= (4 - t) / (t (2 - t)²)``, whose minimum over (0, 2), at ``t = 3 - √5``, is 2.7725.
    * Absent: the squared norm is ``q + ω² (1 - q)²`` with ``q = u²`` in [0, 1], convex in q, and at
      both ends at most 1 for ``ω <= 1``.

    A group of rows contributes the mean over them, which lies in the convex hull of what single
    rows do: hulls are no farther apart, and no longer, than what they are spanned by.

    The rows are an array of shape (n, d), or :class:`GroupedColumns`.

    Parameters
    ----------
    n_samples : int
        Rows, or groups.
    low, high : ndarray of shape (n_features,)
        The bounds.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        Settles ω; the other relation has no proof here.
    """

    def __init__(
        self, n_samples: int, low: Vector, high: Vector, neighboring_relation: str
    ) -> None:
        self.n_samples, self.low, self.high = n_samples, low, high
        self.relation = neighboring_relation
        self.weight = _WEIGHTS[row_relation(neighboring_relation)]
        self.dimension = 2 * len(low)

    def sensitivity(self, neighboring_relation: str) -> float:
        if neighboring_relation != self.relation:
            raise ValueError(
                f"neighboring_relation must be {self.relation!r}, for which the squares are "
                f"weighted; got {neighboring_relation!r}."
            )
        return records_apart(neighboring_relation) * math.sqrt(len(self.low))

    def rounding_error(self) -> float:
        """Return the error of sums to which a record adds at most ``√(d max(1, ω²))``."""
        n, d = self.n_samples, len(self.low)
        rows = n if unit_of(self.relation) == "row" else n * MOST_ROWS
        return 1.01 * UNIT * (BLOCK_ROWS + rows / BLOCK_ROWS + 16) * n * math.sqrt(d) * self.weight

    def __call__(self, prepared: Any, *point: Any) -> Vector:
        """The sums."""
        d = len(self.low)
        total = np.zeros(2 * d)
        for block, sizes in _blocks(prepared):
            u = scale_to_range(block, self.low, self.high)
            squares = u * u - 1.0
            if sizes is not None:
                u, squares = u / sizes[:, None], squares / sizes[:, None]
            total[:d] += u.sum(axis=0)
            total[d:] += self.weight * squares.sum(axis=0)
        return total


class CountsBeyond(Query):
    """Of each column, how many rows lie below one place, and how many above another.

    The argument is the places, of shape (2, d); missing values are neither.  The rows are an array
    of shape (n, d), :class:`GroupedColumns`, or a function from places to these counts, for tables
    that are read in parts.  Of a group of rows, it is the share of them that lies there.

    Sensitivity: ``√(2d)`` in l2.  One record, replaced or absent, changes each of the 2d counts by
    at most 1: what a group adds is in [0, 1].  An absent one reaches that, too: where the first
    place is above the second, as in a search whose ends have crossed, a row between the two counts
    in both.  The counts are exact in float64, see `shares_of`.

    Parameters
    ----------
    n_columns : int
        d.
    """

    largest_argument = math.inf  # values are compared with places, and no more

    def __init__(self, n_columns: int) -> None:
        self.dimension = 2 * n_columns
        self.takes = ((2, n_columns),)

    def sensitivity(self, neighboring_relation: str) -> float:
        records_apart(neighboring_relation)  # refuses what is no relation
        return math.sqrt(self.dimension)

    def rounding_error(self) -> float:
        """Return 0: counts are exact."""
        return 0.0

    def __call__(self, prepared: Any, *point: Any) -> Vector:
        """The counts, those below all columns' first places first."""
        (places,) = point
        if callable(prepared):
            return np.asarray(prepared(places), dtype=np.float64).ravel()
        total = np.zeros(places.shape)
        for block, sizes in _blocks(prepared):
            beyond = block < places[0], block > places[1]
            if sizes is None:
                total += np.stack([each.sum(axis=0) for each in beyond])
            else:
                total += np.stack([shares_of(sizes) @ each for each in beyond]) / SHARES
        return total.ravel()


class RankScores(Query):
    """``-|#{i : x_ij < c} - target|`` for each of the ascending ends c of a column j.

    The arguments are j, the ends and the target.  Values below all ends count at the second end, as
    if they were at the first.  Of a group of rows (:class:`GroupedColumns`), the share counts.

    Sensitivity: a record, present or replaced, changes every count by at most one, so every score
    by an amount in [-1, 1]: an interval of length 2.  The counts are exact in float64, see
    `shares_of`.

    Parameters
    ----------
    candidates : int
        Number of ends.
    """

    norm: Literal["l2", "l1", "range"] = "range"
    largest_argument = math.inf  # values are compared with ends, and no more

    def __init__(self, candidates: int) -> None:
        self.dimension = candidates
        self.takes = (), (candidates,), ()

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the length of the interval that the docstring proves."""
        records_apart(neighboring_relation)  # refuses what is no relation
        return 2.0

    def rounding_error(self) -> float:
        """Return 0: counts are exact."""
        return 0.0

    def check_point(self, *point: Any) -> None:
        """Refuse ends that are not in order: a search among others depends on other rows."""
        super().check_point(*point)
        column, ends, target = point
        if not (type(column) is int and column >= 0):
            raise ValueError(f"column must be a whole number; got {column!r}. Nothing was spent.")
        if not np.all(ends[1:] >= ends[:-1]):
            raise ValueError(
                "ends must be in ascending order; got others. Nothing was spent on it."
            )
        if not math.isfinite(target):
            raise ValueError(f"target must be finite; got {target}. Nothing was spent on it.")

    def __call__(self, prepared: Any, *point: Any) -> Vector:
        """The scores."""
        column, ends, target = point
        first_above = np.zeros(len(ends) + 1)
        for block, sizes in _blocks(prepared, column):
            # The first end that a value is below.
            at = np.maximum(np.searchsorted(ends, block, side="right"), 1)
            share = None if sizes is None else shares_of(sizes) / SHARES
            first_above += np.bincount(at, share, minlength=len(first_above))
        counts = np.cumsum(first_above[:-1])
        return np.asarray(-np.abs(counts - target), dtype=np.float64)


def scale_to_range(
    X: NDArray[Any],
    low: ArrayLike,
    high: ArrayLike,
    feature_range: tuple[float, float] = (-1.0, 1.0),
) -> NDArray[Any]:
    """Cut values to ``[low, high]`` and map that interval linearly onto `feature_range`.

    The result lies in `feature_range` exactly: what rounding takes outside is cut again.

    Parameters
    ----------
    X : ndarray of shape (n, d), floating point
    low, high : array-like of shape (d,) or float
        Public, ``low < high``.
    feature_range : (float, float), default=(-1.0, 1.0)

    Returns
    -------
    ndarray of shape (n, d), of the dtype of `X`

    Examples
    --------
    >>> scale_to_range(np.array([[17.0], [53.5], [120.0]]), 17.0, 90.0).ravel()
    array([-1.,  0.,  1.])
    """
    start, stop = feature_range
    floor, ceiling = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    # In float64 whatever X is: bounds that differ may be equal in float32.
    result = np.clip(X.astype(np.float64), floor, ceiling)
    result -= floor
    result /= ceiling - floor
    result *= stop - start
    result += start
    return np.clip(result, start, stop, out=result).astype(X.dtype, copy=False)


def _blocks(
    rows: NDArray[Any] | GroupedColumns, column: int | None = None
) -> Iterator[tuple[Vector, NDArray[np.int64] | None]]:
    """Rows or one column as float64, a few thousand at a time, and the sizes of their groups."""
    X, sizes = (rows.X, rows.sizes) if isinstance(rows, GroupedColumns) else (rows, None)
    X = X if column is None else X[:, column]
    for start in range(0, len(X), BLOCK_ROWS):
        some = slice(start, start + BLOCK_ROWS)
        yield X[some].astype(np.float64), None if sizes is None else sizes[some]
