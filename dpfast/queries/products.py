"""Sums of products of columns with each other and with the target: what least squares needs."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from dpfast._typing import Vector
from dpfast.chunks import add_up
from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.queries.coordinates import triangle_of
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums

# s² of the proof: with weights of margins about as large as the targets, the variances of both
# sums' noise in the normal equations add up to (1 + s²)³ / s², least at 1/2.
_TARGET_SHARE = 0.5


class ProductSums(Query):
    """``Σ_i c_i (U(x̃_i x̃_iᵀ), ω t_i x̃_i)``, the targets shifted, scaled and clipped.

    The arguments are center and half the width of a range: ``t = T (y - center) / half``, cut to
    ``|t| <= T``.

    ``U`` takes the upper triangle with its diagonal divided by ``√2``, so that
    ``‖U(x̃ x̃ᵀ)‖² = ‖x̃‖⁴/2`` and ``<U(A), U(B)> = tr(A B)/2`` for symmetric A and B.

    Sensitivity.  One row contributes ``u = c (U(x̃ x̃ᵀ), ω t x̃)``; with ``‖x̃‖ <= R``, ``|t| <= T``,
    ``0 <= c <= C`` and ``s = ω T / R``:

    * `add_or_remove_one`: ``‖u‖ <= C R² √(1/2 + s²)``.
    * `replace_one`: ``‖u - u'‖ <= C R² (1 + s²)`` if ``s <= 1``.  ``‖u - u'‖²`` is convex in the
      weights ``(c, c')`` and in ``(t, t')``, so it is largest at the ends of their ranges.  With a
      weight of 0 it is the square above, which is smaller.  With both weights C, in units of
      ``C R²``, and with ``a = ‖x̃‖²/R²``, ``b = ‖x̃'‖²/R²``, ``z = <x̃, x̃'>/R²``, it is at most
      ``(a² + b²)/2 - z² + s² (a + b + 2|z|) <= 1 - z² + 2 s² (1 + |z|)``, which is largest at
      ``|z| = s²``, where it is ``(1 + s²)²``.  Both contributions cannot be at their farthest at
      once, which is what adding up their separate sensitivities would charge.

    Parameters
    ----------
    shape : ProblemShape
        Of the squared loss.
    target_bound : float
        ``T``.
    """

    takes = (), ()

    def __init__(self, shape: ProblemShape, target_bound: float) -> None:
        self.shape, self.target_bound = shape, target_bound
        self.target_factor = math.sqrt(_TARGET_SHARE) * shape.row_norm / target_bound
        self.largest = shape.max_weight * shape.row_norm**2
        self.dimension = shape.dim * (shape.dim + 1) // 2 + shape.dim
        # Sums that are clamped would still be private, and wrong.
        self.bound = shape.n_samples * self.largest * (1.0 + 1e-6)

    @property
    def _single(self) -> float:
        """Bound of one row's contribution."""
        return self.largest * math.sqrt(0.5 + _TARGET_SHARE)

    def sensitivity(self, neighboring_relation: str) -> float:
        alone = records_apart(neighboring_relation) == 1
        largest = self.shape.record_weight * self.shape.row_norm**2
        farthest = largest * (math.sqrt(0.5 + _TARGET_SHARE) if alone else 1.0 + _TARGET_SHARE)
        return farthest * (1.0 + 16.0 * UNIT)

    def rounding_error(self) -> float:
        """Return the error of a sum through so many additions an entry."""
        additions = self.shape.gram_additions() + 40
        return 1.01 * UNIT * additions * self.shape.n_samples * self._single

    def check_point(self, *point: Any) -> None:
        """Refuse ranges in which some targets have no place."""
        super().check_point(*point)
        center, half = point
        if not (abs(center) <= self.largest_argument and 1e-100 <= half <= 1e100):
            raise ValueError(
                "center must be finite, and half the width of a range between 1e-100 and 1e100; "
                f"got {center} and {half}. Nothing was spent on it."
            )

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The triangle, and the products with the target."""
        center, half = point
        sums = partial(
            _sums, center=center, half=half, bound=self.target_bound, factor=self.target_factor
        )
        return add_up(prepared.map_blocks(sums))


def _scaled(target: Vector, center: float, half: float, bound: float) -> Vector:
    return bound * np.clip((target - center) / half, -1.0, 1.0)


def _sums(problem: RowAccess, center: float, half: float, bound: float, factor: float) -> Vector:
    """The sums of rows that are one array."""
    scaled = problem.with_target(partial(_scaled, center=center, half=half, bound=bound))
    # The gradient of the squared loss at zero.
    moments = -scaled.clipped_gradient(np.zeros(problem.shape.dim))[0]
    return np.concatenate([triangle_of(problem.gram()), factor * moments])
