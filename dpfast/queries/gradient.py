"""Sums of clipped gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.problem import Problem
from dpfast.shape import ProblemShape

Vector = NDArray[np.float64]


class ClippedGradient(Query):
    """``Σ_i c_i clip(ℓ'_i x̃_i)`` over all rows at the weights w, the argument, without the ridge.

    A row's gradient is clipped to the norm ``C``, and never longer than the largest slope L times
    the row norm.  The sum is kept between releases at one fixed w.

    Sensitivity: ``k min(C, L ρ) c``, ρ the bound of the row norm and c the largest weight: a
    replaced row takes one such vector away and brings another.  The ridge is data-independent.

    Parameters
    ----------
    shape : ProblemShape
    clip_norm : float, default=inf
        ``C``.
    """

    fixed = 1

    def __init__(self, shape: ProblemShape, clip_norm: float = math.inf) -> None:
        self.shape = shape
        natural = shape.loss.lipschitz * shape.row_norm
        self.longest = min(clip_norm, natural)
        self.clip_norm = clip_norm if clip_norm < natural else math.inf
        self.dimension = shape.dim
        # No coordinate of the sum is larger, so none is clamped.
        self.bound = 1.01 * shape.n_samples * self.longest * shape.max_weight

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        return records_apart(neighboring_relation) * self.longest * self.shape.max_weight

    def rounding_error(self) -> float:
        """Return what the order of additions can do."""
        return self.shape.gradient_sum_error(self.longest)

    def prepare(self, rows: Problem, *fixed: Any) -> Vector:
        """The sum."""
        return rows.clipped_gradient(fixed[0], self.clip_norm)[0]

    def __call__(self, prepared: Vector, *point: Any) -> Vector:
        """The sum."""
        return prepared
