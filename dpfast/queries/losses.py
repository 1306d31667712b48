"""Sums of clipped losses: scores of candidate weights, and of candidate steps."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowSums


class CandidateLosses(Query):
    """``Σ_i c_i min(ℓ_i, C) + (n α / 2)‖w‖²`` at each of several weights, the rows of the argument.

    Sensitivity: all scores change by amounts in an interval of length ``k c C`` that holds 0, c the
    largest weight: in ``[0, c C]``, or in ``[-c C, 0]``, if a record's presence differs, and in
    ``[-c C, c C]`` if a record is replaced.  The ridge is the same for both.

    Parameters
    ----------
    shape : ProblemShape
    candidates : int
        K.
    loss_clip : float
        ``C``.
    radius : float
        Bound of the candidates' norms, which the ridge's rounding rests on.
    """

    norm = "range"
    monotone = True
    fixed = 1

    def __init__(
        self, shape: ProblemShape, candidates: int, loss_clip: float, radius: float
    ) -> None:
        self.shape, self.loss_clip, self.radius = shape, loss_clip, radius
        self.largest_argument = shape.largest_weights
        self.dimension = candidates
        self.takes = ((candidates, shape.dim),)
        self.ridge = 0.5 * shape.n_samples * (shape.alpha or 0.0)

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the length of the interval that the docstring proves."""
        largest = self.loss_clip * self.shape.record_weight
        return records_apart(neighboring_relation) * largest

    def rounding_error(self) -> float:
        """Return the error of a score.

        Any order of additions, and a few units for every row's own loss, see
        :meth:`dpfast.ProblemShape.loss_sum_error`; the ridge is added in two operations.
        """
        n, largest = self.shape.n_samples, self.loss_clip * self.shape.max_weight
        ridge = 0.5 * n * (self.shape.alpha or 0.0) * self.radius**2
        losses = n * ((self.shape.most_rows + 24) * largest + 8.0 * self.shape.max_weight)
        return 1.1 * UNIT * (losses + 8.0 * ridge)

    def check(self, *fixed: Any) -> None:
        """Refuse candidates beyond the radius."""
        longest = float(np.linalg.norm(fixed[0], axis=1).max())
        if not longest <= self.radius * (1.0 + 2.0**-40):
            raise ValueError(
                f"candidates must be no longer than {self.radius:.6g}, which rounding errors are "
                f"charged for; got one of norm {longest:.6g}."
            )

    def prepare(self, rows: RowSums, *fixed: Any) -> tuple[RowSums, Matrix]:
        """The rows and the candidates."""
        return rows, fixed[0]

    def __call__(self, prepared: tuple[RowSums, Matrix], *point: Any) -> Vector:
        """The scores."""
        problem, candidates = prepared
        return np.array(
            [problem.objective(w, self.loss_clip) + self.ridge * (w @ w) for w in candidates]
        )


class LineSearchLosses(Query):
    """Scores of steps from w along a direction, by the objective where they end, up to a constant.

    ``Σ_i c_i min(ℓ_i, K)`` at ``w - a d`` for each step a, and n times the change of the ridge,
    which is the same for neighbors.  Where the ridge outweighs all losses it decides, by whatever
    amount: so it is brought to the range of the losses.  The arguments are w, the direction, the
    steps and the public number n of the rows that are asked.

    Sensitivity: a record present in one of two neighbors only moves all scores by amounts in
    ``[0, c K]``, or in ``[-c K, 0]``, c the largest weight; a replaced record by amounts in
    ``[-c K, c K]``.  Both are intervals of length ``k c K`` that hold 0.  So it is of parts of the
    rows: a row's losses are what they are among all, and rounding is charged for more of them.

    Parameters
    ----------
    shape : ProblemShape
        Its number of rows is the largest n, if parts of the rows are asked.
    candidates : int
        Number of steps.
    loss_clip : float
        ``K``.
    """

    norm: Literal["l2", "l1", "range"] = "range"
    monotone = fewer_rows = True

    def __init__(self, shape: ProblemShape, candidates: int, loss_clip: float) -> None:
        self.shape, self.loss_clip = shape, loss_clip
        self.largest_argument = shape.largest_weights
        self.dimension = candidates
        self.takes = (shape.dim,), (shape.dim,), (candidates,), ()
        self.bound: float = 2.001 * shape.n_samples * shape.max_weight * loss_clip

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the length of the interval that the docstring proves."""
        return records_apart(neighboring_relation) * (self.shape.record_weight * self.loss_clip)

    def rounding_error(self) -> float:
        """Return the error of the losses' sum; that of losses and ridge is rounded once more."""
        return self.shape.loss_sum_error(self.loss_clip) + UNIT * self.bound

    def check_point(self, *point: Any) -> None:
        """Refuse ends of steps that are too far, and a number of rows that there are not.

        Of more rows, rounding would be more than is charged.
        """
        w, direction, steps, n = point
        with np.errstate(all="ignore"):
            line = np.outer(steps, direction)
        for moved in (w, direction, line):
            super().check_point(moved)
        if not 0 <= n <= self.shape.n_samples:
            raise ValueError(
                f"n must be a number of rows, at most {self.shape.n_samples}; got {n}. Nothing was "
                "spent."
            )

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The scores."""
        w, direction, steps, n = point
        scores: Vector = prepared.line_search_losses(w, direction, steps, self.loss_clip)
        alpha = self.shape.alpha or 0.0
        if alpha == 0.0:
            return scores
        squares = steps * (steps * float(direction @ direction) - 2.0 * float(w @ direction))
        largest = n * self.shape.max_weight * self.loss_clip
        with_ridge: Vector = scores + np.clip(0.5 * alpha * n * squares, -largest, largest)
        return with_ridge
