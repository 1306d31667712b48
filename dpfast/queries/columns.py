"""Statistics of the columns of a table with declared bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.shape import UNIT

Vector = NDArray[np.float64]

BLOCK_ROWS = 4096
# Weights of the squares beside the values for which they cost nothing; see the class.
_WEIGHTS = {"replace_one": 1.66, "add_or_remove_one": 1.0}


class ColumnSums(Query):
    r"""``Σ_i (u_i, ω (u_i² - 1))``, ``u_i`` row i cut to the bounds and mapped to [-1, 1].

    Sensitivity: ``2 √d`` for "replace_one" with ``ω = 1.66``, and ``√d`` for "add_or_remove_one"
    with ``ω = 1``, as much as that of the sums alone.  Column by column:

    * Replaced, u by u': the squared distance is ``(u - u')² (1 + ω² (u + u')²)``. With
      ``t = |u + u'|``, ``|u - u'| <= 2 - t``, and ``(2 - t)² (1 + ω² t²) <= 4`` if and only if
      ``ω² <= (4 - t) / (t (2 - t)²)``, whose minimum over (0, 2), at ``t = 3 - √5``, is 2.7725.
    * Absent: the squared norm is ``q + ω² (1 - q)²`` with ``q = u²`` in [0, 1], convex in q, and at
      both ends at most 1 for ``ω <= 1``.

    The rows are an array of shape (n, d).

    Parameters
    ----------
    n_samples, n_features : int
    low, high : ndarray of shape (n_features,)
        The bounds.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        Settles ω; the other relation has no proof here.
    """

    def __init__(
        self, n_samples: int, low: Vector, high: Vector, neighboring_relation: str
    ) -> None:
        self.n_samples, self.low, self.high = n_samples, low, high
        self.relation, self.weight = neighboring_relation, _WEIGHTS[neighboring_relation]
        self.dimension = 2 * len(low)

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        if neighboring_relation != self.relation:
            raise ValueError(
                f"neighboring_relation must be {self.relation!r}, for which the squares are "
                f"weighted; got {neighboring_relation!r}."
            )
        return records_apart(neighboring_relation) * math.sqrt(len(self.low))

    def rounding_error(self) -> float:
        """Return the error of sums to which a row adds at most ``√(d max(1, ω²))``."""
        n, d = self.n_samples, len(self.low)
        return 1.01 * UNIT * (BLOCK_ROWS + n / BLOCK_ROWS + 16) * n * math.sqrt(d) * self.weight

    def __call__(self, prepared: NDArray[Any], *point: Any) -> Vector:
        """The sums."""
        d = len(self.low)
        total = np.zeros(2 * d)
        for block in _blocks(prepared):
            u = scale_to_range(block, self.low, self.high)
            total[:d] += u.sum(axis=0)
            total[d:] += self.weight * (u * u - 1.0).sum(axis=0)
        return total


class CountsBeyond(Query):
    """Of each column, how many rows lie below one place, and how many above another.

    The argument is the places, of shape (2, d); missing values are neither.  The rows are an array
    of shape (n, d), or a function from places to these counts, for tables that are read in parts.

    Sensitivity: ``√(2d)`` in l2.  One record, replaced or absent, changes each of the 2d counts by
    at most 1.  The counts are integers, exact in float64.

    Parameters
    ----------
    n_columns : int
        d.
    """

    largest_argument = math.inf  # values are compared with places, and no more

    def __init__(self, n_columns: int) -> None:
        self.dimension = 2 * n_columns

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
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
        for block in _blocks(prepared):
            total += np.stack([(block < places[0]).sum(axis=0), (block > places[1]).sum(axis=0)])
        return total.ravel()


class RankScores(Query):
    """``-|#{i : x_ij < c} - target|`` for each of the ascending ends c of a column j.

    The arguments are j, the ends and the target.  Values below all ends count at the second end, as
    if they were at the first.

    Sensitivity: a record, present or replaced, changes every count by at most one, so every score
    by an amount in [-1, 1]: an interval of length 2.  The counts are integers, exact in float64.

    Parameters
    ----------
    candidates : int
        Number of ends.
    """

    norm: Literal["l2", "l1", "range"] = "range"
    largest_argument = math.inf  # values are compared with ends, and no more

    def __init__(self, candidates: int) -> None:
        self.dimension = candidates

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the length of the interval that the docstring proves."""
        records_apart(neighboring_relation)  # refuses what is no relation
        return 2.0

    def rounding_error(self) -> float:
        """Return 0: counts are exact."""
        return 0.0

    def __call__(self, prepared: NDArray[Any], *point: Any) -> Vector:
        """The scores."""
        column, ends, target = point
        first_above = np.zeros(len(ends) + 1, dtype=np.int64)
        for block in _blocks(prepared[:, column]):
            # The first end that a value is below.
            at = np.maximum(np.searchsorted(ends, block, side="right"), 1)
            first_above += np.bincount(at, minlength=len(first_above))
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


def _blocks(X: NDArray[Any]) -> Iterator[Vector]:
    """The rows as float64, a few thousand at a time."""
    for start in range(0, len(X), BLOCK_ROWS):
        yield X[start : start + BLOCK_ROWS].astype(np.float64)
