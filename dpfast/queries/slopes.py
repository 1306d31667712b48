"""How targets lie around the margins: slopes along the constant."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from dpfast._typing import Vector
from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.queries._linear import relative_weights
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums

# Width of a corner: on a line of no width 0/0 would be no slope.
_LEAST = 1e-300


class _AlongConstant(Query):
    """A sum over the rows of a number between two ends, each by its weight.

    Of groups, a row counts its weight over the largest one, over the number of its group's rows, or
    over the last argument, at least 1, if that is more: so a group of more rows counts more, up to
    one of so many.  The first argument are the weights ``w`` of the columns.
    """

    any_parameter = True
    dimension = 1

    def __init__(self, shape: ProblemShape) -> None:
        self.shape, self.largest_argument = shape, shape.largest_weights
        self.takes = (shape.dim,), (), ()

    def rounding_error(self) -> float:
        """Return the error of n additions of weighted numbers, or of shares of groups."""
        n = self.shape.n_samples
        return 1.01 * UNIT * (self.shape.most_rows + 8.0) * n * self._single

    @property
    def _single(self) -> float:
        """What a record's rows count together, at most."""
        return 1.0 if self.shape.several_rows else self.shape.record_weight

    def check_point(self, *point: Any) -> None:
        """Refuse a size, or a number of rows, that is none."""
        super().check_point(*point)
        _, size, rows = point
        if not (1e-100 <= size <= 1e100 and 1.0 <= rows < math.inf):
            raise ValueError(
                "the second argument must be positive, and the number of rows at least 1; got "
                f"{size} and {rows}. Nothing was spent on it."
            )


class QuantileSlopes(_AlongConstant):
    """``Σ_i c_i s_i``: slopes of the pinball loss along the constant, of the size 1.

    ``s_i`` is ``1 - q`` where the margin is above the target and ``-q`` below it, and in between on
    a line within the corner's width.  The arguments are the weights, the factor of that width, and
    how many rows of a group count one together.

    Sensitivity: ``c`` if a record is replaced, and ``max(q, 1 - q) c`` if it is present in one of
    two neighbors only, c the largest weight; of groups with 1 in the place of c.  What a record
    adds is between ``-q c`` and ``(1 - q) c``, which are c apart.  Slopes are brought between these
    ends in the last operation, so this holds of what is added up, whatever rounding did before.

    Parameters
    ----------
    shape : ProblemShape
        Of the pinball loss.

    Raises
    ------
    ValueError
        If the loss is another one.
    """

    def __init__(self, shape: ProblemShape) -> None:
        if shape.loss.quantile is None:
            raise ValueError(f"loss must be one of a quantile; got {shape.loss.name!r}.")
        assert shape.loss.width is not None
        super().__init__(shape)
        self.quantile, self._width = shape.loss.quantile, shape.loss.width

    def sensitivity(self, neighboring_relation: str) -> float:
        replaced = records_apart(neighboring_relation) > 1
        return self._single * (1.0 if replaced else max(self.quantile, 1.0 - self.quantile))

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The sum at w."""
        w, size, rows = point
        q = self.quantile
        width = max(2.0 * self._width * size, _LEAST)
        ends = (-q, 1.0 - q)
        work = partial(_sum, self.shape, w=w, size=width, shift=0.5 - q, ends=ends, rows=rows)
        return np.array([sum(prepared.map_blocks(work))])


class ResidualSum(_AlongConstant):
    """``Σ_i c_i max(-1, min(1, r_i / T))``, ``r_i`` the margin less the target.

    The arguments are the weights, T, and how many rows of a group count one together.

    Sensitivity: ``k c``, c the largest weight; of groups with 1 in the place of c.  What a record
    adds is between ``-c`` and c; the clip is the last operation.

    Parameters
    ----------
    shape : ProblemShape
    """

    def sensitivity(self, neighboring_relation: str) -> float:
        return records_apart(neighboring_relation) * self._single

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The sum at w."""
        w, size, rows = point
        ends = (-1.0, 1.0)
        work = partial(_sum, self.shape, w=w, size=size, shift=0.0, ends=ends, rows=rows)
        return np.array([sum(prepared.map_blocks(work))])


def _sum(
    shape: ProblemShape,
    problem: RowAccess,
    w: Vector,
    size: float,
    shift: float,
    ends: tuple[float, float],
    rows: float,
) -> float:
    """Over some rows, of residuals in units of `size`, shifted and cut."""
    with np.errstate(over="ignore"):
        cut = np.clip((problem.margins(w) - problem.target) / size + shift, *ends)
    weight, shares = problem.sample_weight, problem.row_shares()
    if shares is not None:
        weight = np.minimum(shares, 1.0 / rows) * relative_weights(problem, shape)
    return float(cut.sum() if weight is None else weight @ cut)
