"""How many targets lie on either side of the margins."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums

Vector = NDArray[np.float64]


class QuantileSlopes(Query):
    """``Σ_i c_i s_i``: slopes of the pinball loss along the constant, of the size 1.

    ``s_i`` is ``1 - q`` where the margin is above the target and ``-q`` below it, and in between on
    a line within the corner's width.  The arguments are the weights ``w`` of the columns and the
    factor of that width.  A group of rows contributes the mean over them, whatever their weights.

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

    dimension = 1

    def __init__(self, shape: ProblemShape) -> None:
        if shape.loss.quantile is None:
            raise ValueError(f"loss must be one of a quantile; got {shape.loss.name!r}.")
        self.shape, self.quantile = shape, shape.loss.quantile
        self.largest_argument = shape.largest_weights

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the distance that the docstring proves."""
        replaced = records_apart(neighboring_relation) > 1
        return self._single * (1.0 if replaced else max(self.quantile, 1.0 - self.quantile))

    def rounding_error(self) -> float:
        """Return the error of n additions of weighted slopes, or of shares of groups."""
        n = self.shape.n_samples
        return 1.01 * UNIT * (self.shape.most_rows + 8.0) * n * self._single

    @property
    def _single(self) -> float:
        """What a record's rows count together, at most."""
        return 1.0 if self.shape.several_rows else self.shape.record_weight

    def check_point(self, *point: Any) -> None:
        """Refuse a width, or a number of rows, that is none.

        Raises
        ------
        ValueError
        """
        super().check_point(*point)
        if not 0.0 < point[1] < math.inf:
            raise ValueError(f"the width's factor must be positive; got {point[1]}.")
        if not 1.0 <= point[2] < math.inf:
            raise ValueError(f"rows must be at least 1; got {point[2]}.")

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The sum at w."""
        w, size, rows = point
        width = (self.shape.loss.width or 0.0) * size
        work = partial(_slopes, w=w, width=width, quantile=self.quantile, rows=rows)
        return np.array([sum(prepared.map_blocks(work))])


def _slopes(problem: RowAccess, w: Vector, width: float, quantile: float, rows: float) -> float:
    """The sum over some rows."""
    with np.errstate(over="ignore"):
        beyond = 0.5 * (problem.margins(w) - problem.target) / max(width, 1e-300)
    slopes = np.clip(beyond + (0.5 - quantile), -quantile, 1.0 - quantile)
    shares = problem.row_shares()
    weight = problem.sample_weight if shares is None else np.minimum(shares, 1.0 / rows)
    return float(slopes.sum() if weight is None else weight @ slopes)
