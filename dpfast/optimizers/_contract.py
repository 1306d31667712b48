"""The common result of the optimizers, and the certificate in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.objectives import Objective

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class OptimizeResult:
    """What an optimizer found; it depends on private data in every field.

    Attributes
    ----------
    w : ndarray of shape (dim,)
    value : float
        Objective at `w`.
    gradient_norm : float
        Upper bound of ``‖∇F(w)‖₂``: the computed norm plus the bound of its rounding error.
    certificate : float
        Upper bound of the distance ``‖w - w*‖₂``, ``gradient_norm / µ``: for a µ-strongly convex
        ``F``, ``µ‖w - w*‖ <= ‖∇F(w) - ∇F(w*)‖ = ‖∇F(w)‖``.
    passes : int
        Evaluations of the gradient or the Hessian.
    converged : bool
        Whether `gradient_norm` reached the tolerance.
    """

    w: Vector
    value: float
    gradient_norm: float
    certificate: float
    passes: int
    converged: bool


class Minimizer(Protocol):
    """Signature shared by the optimizers."""

    def __call__(
        self,
        objective: Objective,
        *,
        tolerance: float,
        max_passes: int = ...,
        w0: Vector | None = ...,
    ) -> OptimizeResult: ...


def certified(
    objective: Objective, w: Vector, value: float, gradient: Vector, passes: int, tolerance: float
) -> OptimizeResult:
    """Result at `w` with the certificate that its computed gradient supports."""
    norm = float(np.linalg.norm(gradient)) + objective.gradient_error(float(np.linalg.norm(w)))
    return OptimizeResult(
        w=w,
        value=value,
        gradient_norm=norm,
        certificate=norm / objective.strong_convexity,
        passes=passes,
        converged=norm <= tolerance,
    )
