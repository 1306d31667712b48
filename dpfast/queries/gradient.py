"""Sums of clipped gradients, and what a step along them does."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums


def within_norm(clip_norm: float | None, natural: float, shape: ProblemShape) -> float:
    """The smaller bound of a row's gradient, of the one asked for and the one the loss has."""
    within = natural if clip_norm is None else min(clip_norm, natural)
    if not math.isfinite(within):
        raise ValueError(
            f"clip_norm must be given for the loss {shape.loss.name!r}, whose slope has no bound; "
            f"got {clip_norm}."
        )
    return within


class ClippedGradient(Query):
    """``Σ_i c_i clip(ℓ'_i x̃_i)`` over the rows at the weights w, the argument, without the ridge.

    A row's gradient is clipped to the norm ``C``, and never longer than ``L ρ``, L the largest
    slope and ρ the bound of the row norm.  The sum is kept between releases at one fixed w.

    Sensitivity: ``k G c``, c the largest weight and G the bound of a row's gradient: a replaced row
    takes one such vector away and brings another.  The ridge is data-independent.

    - In l2, ``G = min(C, L ρ)``.
    - In l1, for noise that is drawn coordinate by coordinate (Dwork, McSherry, Nissim & Smith
      2006), ``√dim`` times that, or ``L (R₁ + |intercept|)`` if R₁ bounds the rows' l1 norms; if
      that is less, rows are clipped to it in l1.

    So it is of parts of the rows: a row's vector is what it is among all, and rounding is charged
    for more of them.

    Parameters
    ----------
    shape : ProblemShape
    clip_norm : float or None, default=None
        ``C``; None leaves the rows to the bound that they all obey.
    norm : {"l2", "l1"}
        Which distance is bounded.
    data_l1_norm : float or None, default=None
        ``R₁``, the intercept not counted.
    n_rows : int or None, default=None
        Rows in the sum, if they are a sample; None: all.

    Raises
    ------
    ValueError
        If nothing bounds the gradients, or two bounds would have to be enforced.
    """

    fixed, fewer_rows = 1, True

    def __init__(
        self,
        shape: ProblemShape,
        clip_norm: float | None = None,
        *,
        norm: Literal["l2", "l1"] = "l2",
        data_l1_norm: float | None = None,
        n_rows: int | None = None,
    ) -> None:
        self.shape, self.norm = shape, norm
        self.n_rows = shape.n_samples if n_rows is None else n_rows
        self.dimension = shape.dim
        self.takes = ((shape.dim,),)
        self.largest_argument = shape.largest_weights
        natural = shape.loss.lipschitz * shape.row_norm
        within = within_norm(clip_norm, natural, shape)
        #: What the kernels clip to, and in the norm of which order; infinite if no row is longer.
        self.clip_norm = within if within < natural else math.inf
        self.clip_order: Literal[1, 2] = 2
        #: Bound of a row's gradient in `norm`, its weight not counted.
        self.longest = within
        if norm == "l1":
            self.longest = math.sqrt(shape.dim) * within * (1.0 + 2.0**-50)
        if data_l1_norm is not None:
            self._clip_in_l1(clip_norm, data_l1_norm)
        # No coordinate of the sum is larger, so none is clamped.
        self.bound = 1.01 * self.n_rows * self.longest * shape.max_weight

    def _clip_in_l1(self, clip_norm: float | None, data_l1_norm: float) -> None:
        """Take the bound of the rows' l1 norms instead of the l2 one, if it is smaller."""
        if self.norm != "l1":
            raise ValueError(
                "data_l1_norm must be None for Gaussian noise, whose sensitivity is measured in "
                f"l2; got {data_l1_norm!r}."
            )
        if clip_norm is not None:
            raise ValueError(
                "clip_norm and data_l1_norm cannot both be given: rows' gradients are clipped in "
                "one norm only."
            )
        within = self.shape.loss.lipschitz * (data_l1_norm + abs(self.shape.intercept))
        if within < self.longest:
            self.longest = self.clip_norm = within
            self.clip_order = 1

    def sensitivity(self, neighboring_relation: str) -> float:
        return records_apart(neighboring_relation) * self.longest * self.shape.record_weight

    def rounding_error(self) -> float:
        """Return what the order of additions can do."""
        clipped = self.clip_norm if self.clip_order == 2 else math.inf
        return self.shape.gradient_sum_error(clipped, self.n_rows)

    def check(self, *fixed: Any) -> None:
        """Refuse a sum over all rows where bounds are those of a sample."""
        del fixed
        if self.n_rows < self.shape.n_samples:
            raise ValueError(
                f"n_rows must be None for a sum over all rows; got {self.n_rows} of "
                f"{self.shape.n_samples}. Nothing was spent on it."
            )

    def prepare(self, rows: RowSums, *fixed: Any) -> Vector:
        """The sum."""
        return rows.clipped_gradient(fixed[0], self.clip_norm, clip_order=self.clip_order)[0]

    def over_sample(self, rows: RowAccess, w: Vector, sample: NDArray[np.int64]) -> Vector:
        """The sum at w over the rows with these numbers."""
        return rows.sampled_gradient(sample, w, self.clip_norm, self.clip_order)

    def __call__(self, prepared: Vector, *point: Any) -> Vector:
        """The sum."""
        return prepared


class GradientStep(Query):
    """``w - η ∇F(w)``, F the mean loss with its ridge: a step of gradient descent from w.

    Sensitivity: ``η k L / n``, L the bound of a row's gradient.  The ridge is the same for both.

    Rounding: the computed mean gradient at ``‖w‖ <= radius`` is wrong by at most
    :meth:`~dpfast.ProblemShape.gradient_error`, and the step's own operations by a few units of
    what they are applied to.

    Parameters
    ----------
    shape : ProblemShape
        With its ridge.
    step : float
        ``η``.
    radius : float
        Of the ball in which the weights are.
    slack : float, default=0.0
        What else is to be charged as if it were a rounding error.
    """

    fixed = 1

    def __init__(self, shape: ProblemShape, step: float, radius: float, slack: float = 0.0) -> None:
        self.shape, self.step, self.radius, self.slack = shape, step, radius, slack
        self.dimension = shape.dim
        self.takes = ((shape.dim,),)
        self.bound = 2.0 * (radius + step * shape.lipschitz)

    def sensitivity(self, neighboring_relation: str) -> float:
        records = records_apart(neighboring_relation)
        return self.step * records * self.shape.record_lipschitz / self.shape.n_samples

    def rounding_error(self) -> float:
        """Return the error of the gradient and of the step, and the slack."""
        of_step = 8.0 * UNIT * (self.radius + self.step * self.shape.lipschitz)
        return self.step * self.shape.gradient_error(self.radius) + of_step + self.slack

    def check(self, *fixed: Any) -> None:
        """Refuse weights beyond the radius."""
        norm = float(np.linalg.norm(fixed[0]))
        if not norm <= self.radius * (1.0 + 2.0**-40):
            raise ValueError(
                f"weights must be no longer than {self.radius:.6g}, which rounding errors are "
                f"charged for; got a norm of {norm:.6g}."
            )

    def prepare(self, rows: RowSums, *fixed: Any) -> Vector:
        """The step's end."""
        (w,) = fixed
        mean = rows.clipped_gradient(w)[0] / self.shape.n_samples
        end: Vector = w - self.step * (mean + (self.shape.alpha or 0.0) * w)
        return end

    def __call__(self, prepared: Vector, *point: Any) -> Vector:
        """The step's end."""
        return prepared
