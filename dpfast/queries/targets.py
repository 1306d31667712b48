"""How targets, and weights, are spread: counts by size."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import numpy as np

from dpfast._typing import Vector
from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.queries._linear import check_rows_per_group, with_rows_per_group
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums


class _Counts(Query):
    """Rows by the place of their target, each by its weight: one count for each of the places."""

    # Whether a group contributes the mean over its rows.
    by_group = False
    norm: Literal["l2", "l1"] = "l2"

    def __init__(self, shape: ProblemShape, count: int) -> None:
        self.shape, self.dimension = shape, count

    def sensitivity(self, neighboring_relation: str) -> float:
        records = records_apart(neighboring_relation)
        return (records if self.norm == "l1" else math.sqrt(records)) * self._single

    def rounding_error(self) -> float:
        """Return the error of n additions of weights, or of shares of groups."""
        n = self.shape.n_samples
        return 1.01 * UNIT * (self.shape.most_rows + 8.0) * n * self._single

    @property
    def _single(self) -> float:
        """What a record's rows count together, at most."""
        return 1.0 if self.by_group else self.shape.record_weight

    def count(self, prepared: RowSums, edges: Vector) -> Vector:
        """The counts up to the first edge, from there up to the second, and so on.

        Edges are sorted, lest rounding have brought two out of order: a search among others finds
        places that depend on where it looked before, that is on other rows.
        """
        edges, total = np.sort(edges), np.zeros(self.dimension)
        for part in prepared.map_blocks(partial(_counts, edges=edges, by_group=self.by_group)):
            total += part
        return total


class TargetCounts(_Counts):
    """Rows by the size of their target, one count an octave below the highest, each by its weight.

    The first count is of all targets up to ``edges[0]``, the one after of those up to ``edges[1]``,
    and so on; ``edges[-1]`` is the highest target.  Of groups the argument is how many rows count
    as one record: each counts its weight over that number, or over that of its group's rows if it
    is more.

    Sensitivity: ``√k c``, c the largest weight, in l1 ``k c``.  One row adds its weight, at most c,
    to one count; of two rows each does, to two counts or with opposite signs to the same.  The rows
    of a group add numbers >= 0 that add up to at most c, however many they are and whatever the
    argument is: such a vector is no longer than c, and two of them are at most ``√2 c`` apart, in
    l1 ``2 c``.

    Parameters
    ----------
    shape : ProblemShape
        Of a loss with a highest target.
    octaves : int
        How many edges there are.
    norm : {"l2", "l1"}, default="l2"
        The norm that the sensitivity is for.
    """

    def __init__(self, shape: ProblemShape, octaves: int, norm: Literal["l2", "l1"] = "l2") -> None:
        super().__init__(shape, octaves)
        self.norm = norm
        self.takes = ((),) * shape.several_rows
        self.edges = shape.loss.target_range[1] * 2.0 ** -np.arange(octaves - 1.0, -1.0, -1.0)

    @property
    def _single(self) -> float:
        return self.shape.max_weight

    def check_point(self, *point: Any) -> None:
        """Refuse a number of rows that is none."""
        super().check_point(*point)
        check_rows_per_group(self.shape, point)

    def __call__(self, prepared: RowSums, *point: float) -> Vector:
        """The counts."""
        return self.count(with_rows_per_group(prepared, point), self.edges)


class TargetSum(Query):
    """The sum of the targets, cut off at ``top``, in units of it: ``Σ_i c_i min(y_i, top) / top``.

    The argument is ``top > 0``, and of groups how many rows count as one record, as for
    :class:`TargetCounts`.

    Sensitivity: c, the largest weight, under either relation, in any norm of the one number.  One
    row adds between 0 and c, since targets are not below 0; two rows differ by c at most.  So do
    groups, whose weights add up to at most c.

    Parameters
    ----------
    shape : ProblemShape
        Of a loss whose targets are not below 0.
    norm : {"l2", "l1"}, default="l2"
        The norm that the sensitivity is for.

    Raises
    ------
    ValueError
        If the loss has other targets.
    """

    dimension = 1

    def __init__(self, shape: ProblemShape, norm: Literal["l2", "l1"] = "l2") -> None:
        if not shape.loss.target_range[0] >= 0.0:
            raise ValueError(
                f"loss must be one whose targets are not below 0; got {shape.loss.name!r}."
            )
        self.shape, self.norm = shape, norm
        self.takes = ((),) * (1 + shape.several_rows)

    def sensitivity(self, neighboring_relation: str) -> float:
        records_apart(neighboring_relation)  # refuses a relation that there is not
        return self.shape.max_weight

    def rounding_error(self) -> float:
        """Return the error of n additions of weighted shares."""
        n = self.shape.n_samples
        return 1.01 * UNIT * (self.shape.most_rows + 8.0) * n * self.shape.max_weight

    def check_point(self, *point: Any) -> None:
        """Refuse a top that is no target."""
        super().check_point(*point)
        top, *rows = point
        if not 0.0 < top < math.inf:
            raise ValueError(f"top must be positive; got {top}. Nothing was spent on it.")
        check_rows_per_group(self.shape, tuple(rows))

    def __call__(self, prepared: RowSums, *point: float) -> Vector:
        """The sum."""
        top, *rows = point
        problem = with_rows_per_group(prepared, tuple(rows))
        return np.array([sum(problem.map_blocks(partial(_cut_sum, top=top)))])


class WeightCounts(Query):
    """Rows by their weight, four counts an octave below the largest one there may be.

    The first count is of all weights up to ``edges[0]``, the one after of those up to ``edges[1]``,
    and so on; ``edges[-1]`` is the largest.

    Sensitivity: ``√k``.  A row is in one count, in none if it weighs 0; a replaced one leaves one
    and enters another.
    Counts are integers, exact in float64.

    Parameters
    ----------
    shape : ProblemShape
        Of weighted rows that are records.
    count : int
        How many edges there are.

    Raises
    ------
    ValueError
        If rows have no weights, or a record may have several rows.
    """

    any_parameter = True

    def __init__(self, shape: ProblemShape, count: int) -> None:
        if not shape.weighted or shape.several_rows:
            raise ValueError("shape must be one of weighted rows that are records; got another.")
        self.shape, self.dimension = shape, count
        self.edges = shape.max_weight * 2.0 ** (-0.25 * np.arange(count - 1.0, -1.0, -1.0))

    def sensitivity(self, neighboring_relation: str) -> float:
        return math.sqrt(records_apart(neighboring_relation))

    def rounding_error(self) -> float:
        """Return 0: counts are exact."""
        return 0.0

    def __call__(self, prepared: RowSums) -> Vector:
        """The counts."""
        total = np.zeros(self.dimension)
        for part in prepared.map_blocks(partial(_weight_counts, edges=self.edges)):
            total += part
        return total


class TargetHistogram(_Counts):
    """Rows by their target, in bins of equal width, each by its weight.

    The arguments are the lower end of the first bin and the upper end of the last one, which also
    count what lies below and above.  A group of rows contributes the mean over them, whatever their
    weights are.

    Sensitivity: ``√k c``, c the largest weight, as for :class:`TargetCounts`, in l1 ``k c``; of
    groups with 1 in the place of c: what a group adds has no negative entry and adds up to 1, so
    two groups are no farther apart than two rows of weight 1.

    Parameters
    ----------
    shape : ProblemShape
    count : int
        How many bins there are.
    norm : {"l2", "l1"}, default="l2"
        The norm that the sensitivity is for.
    """

    any_parameter = True
    takes = (), ()

    def __init__(self, shape: ProblemShape, count: int, norm: Literal["l2", "l1"] = "l2") -> None:
        super().__init__(shape, count)
        self.norm = norm
        self.by_group = shape.several_rows

    def check_point(self, *point: Any) -> None:
        """Refuse bins without a width."""
        super().check_point(*point)
        low, high = point
        if not (low < high and math.isfinite(high - low)):
            raise ValueError(
                f"high must be greater than low, and both finite; got {high} and {low}. Nothing "
                "was spent."
            )

    def __call__(self, prepared: RowSums, *point: float) -> Vector:
        """The counts between two places."""
        low, high = point
        return self.count(prepared, np.linspace(low, high, self.dimension + 1)[1:])


class TargetTails(_Counts):
    """Rows by how far their target is from a place, below and above it, each by its weight.

    Distances grow geometrically.  The arguments are the place, the least distance, up to which
    there is one count, and the greatest; what is farther away is counted with what is nearly so.
    Counts are in the order of the targets.  A group of rows contributes the mean over them,
    whatever their weights are.

    Sensitivity: ``√k c``, c the largest weight, of groups with 1 in the place of c, as for
    :class:`TargetHistogram`.

    Parameters
    ----------
    shape : ProblemShape
    steps : int
        Counts on either side.
    """

    any_parameter = True
    takes = (), (), ()

    def __init__(self, shape: ProblemShape, steps: int) -> None:
        super().__init__(shape, 2 * steps + 1)
        self.steps, self.by_group = steps, shape.several_rows

    def check_point(self, *point: Any) -> None:
        """Refuse distances that do not grow, and a place that is none."""
        super().check_point(*point)
        place, least, greatest = point
        if not (math.isfinite(place) and 0.0 < least < greatest < math.inf):
            raise ValueError(
                "the place must be finite, and distances positive and growing; got "
                f"{place}, {least} and {greatest}. Nothing was spent on it."
            )

    def __call__(self, prepared: RowSums, *point: float) -> Vector:
        """The counts around a place."""
        place, least, greatest = point
        far = np.geomspace(least, greatest, self.steps + 1)
        return self.count(prepared, np.concatenate([place - far[-2::-1], place + far]))


def _counts(problem: RowAccess, edges: Vector, by_group: bool = False) -> Vector:
    """The counts of some rows."""
    octave = np.searchsorted(edges[:-1], problem.target)
    weight = problem.row_shares() if by_group else problem.sample_weight
    return np.bincount(octave, weight, len(edges)).astype(np.float64)


def _weight_counts(problem: RowAccess, edges: Vector) -> Vector:
    """The counts of some rows by weight."""
    weight = problem.sample_weight
    assert weight is not None
    step = np.searchsorted(edges[:-1], weight)
    return np.bincount(step, weight > 0.0, len(edges)).astype(np.float64)


def _cut_sum(problem: RowAccess, top: float) -> float:
    """The sum over some rows."""
    shares = np.minimum(problem.target, top) / top
    weight = problem.sample_weight
    return float(shares.sum() if weight is None else weight @ shares)
