"""Newton's method with Cholesky factors, for up to about a thousand columns."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast.objectives import Objective
from dpfast.optimizers.certificates import OptimizeResult, certified

#: It factors dim x dim matrices; beyond this L-BFGS is faster.
MAX_DIM = 1000

# A step that shrinks the gradient at least this much has a Hessian worth keeping.
_GOOD_CONTRACTION = 0.2
# A step that shrinks it less than this calls for a better Hessian, from all rows if need be.
_POOR_CONTRACTION = 0.6
# Hessians from a sample of rows before the last one is kept and corrected instead.
_MAX_SAMPLED = 4
# Steps whose gradients correct the Hessian that is kept.
_MEMORY = 10
# Sufficient decrease of Armijo's rule, and the rounding slack it is given near the minimum.
_DECREASE = 1e-4
_SLACK = 64 * np.finfo(np.float64).eps
_SMALLEST_STEP = 1e-10
# A step shortened this much shows that a sample missed most of the curvature.
_SHORT_STEP = 0.2
# Steps in a row that may leave the gradient bound as it is.
_MAX_IDLE = 20


class _Inverse:
    """Inverse Hessian: a Cholesky factor, corrected by the steps taken since (L-BFGS)."""

    def __init__(self, hessian: NDArray[np.float64]) -> None:
        self._factor: Any = scipy.linalg.cho_factor(hessian, lower=True)
        self._pairs: deque[tuple[Vector, Vector, float]] = deque(maxlen=_MEMORY)

    def learn(self, step: Vector, change: Vector) -> None:
        """Note that `step` changed the gradient by `change`."""
        curvature = float(step @ change)
        if curvature > 0.0:
            self._pairs.append((step, change, curvature))

    def apply(self, gradient: Vector) -> Vector:
        """The two-loop recursion (Nocedal & Wright 2006, Algorithm 7.4)."""
        q = gradient.copy()
        shares = []
        for step, change, curvature in reversed(self._pairs):
            shares.append(float(step @ q) / curvature)
            q -= shares[-1] * change
        r: Vector = scipy.linalg.cho_solve(self._factor, q)
        for (step, change, curvature), share in zip(self._pairs, reversed(shares), strict=True):
            r += step * (share - float(change @ r) / curvature)
        return r


class _Lower(NamedTuple):
    """A point that is lower enough, and how it was found."""

    w: Vector
    value: float
    gradient: Vector
    step: float
    contraction: float  # of the gradient's norm


def _lower(
    objective: Objective,
    w: Vector,
    value: float,
    gradient: Vector,
    direction: Vector,
    most: int,
) -> tuple[_Lower | None, int]:
    """Backtrack by Armijo's rule, with `most` passes; the point, if there is one, and the passes.

    Next to the minimum values are flat to rounding; there the gradient decides.
    """
    slope, norm = float(gradient @ direction), float(np.linalg.norm(gradient))
    step, passes = 1.0, 0
    while step >= _SMALLEST_STEP and passes < most:
        candidate = w + step * direction
        new_value, new_gradient = objective.value_and_gradient(candidate)
        passes += 1
        new_norm = float(np.linalg.norm(new_gradient))
        if new_value <= value + _DECREASE * step * slope or (
            new_value <= value + _SLACK * abs(value) and new_norm < norm
        ):
            return _Lower(candidate, new_value, new_gradient, step, new_norm / norm), passes
        step *= 0.5
    return None, passes


def minimize(
    objective: Objective,
    *,
    tolerance: float,
    max_passes: int = 200,
    w0: Vector | None = None,
) -> OptimizeResult:
    """Minimize a strongly convex objective to a gradient norm of `tolerance`.

    Damped Newton steps with Armijo backtracking (Boyd & Vandenberghe 2004, Algorithm 9.5).  A
    Hessian costs far more than a gradient, so the first ones come from a sample of rows spread over
    the data (Byrd, Chin, Neveitt & Nocedal 2011), and one whose steps work well is kept and
    corrected by the gradients seen since, as L-BFGS corrects a multiple of the identity.  Where
    that does not help, the Hessian of all rows takes its place.  None of this touches the
    certificate, which rests on the full gradient.
    """
    w = np.zeros(objective.dim) if w0 is None else np.array(w0, dtype=np.float64)
    value, gradient = objective.value_and_gradient(w)
    passes, sampled = 1, 0
    use_sample = True
    inverse: _Inverse | None = None
    result = certified(objective, w, value, gradient, passes, tolerance)
    reached, idle = result.gradient_norm, 0
    while not result.converged and passes < max_passes and gradient.any():
        fresh = inverse is None
        if inverse is None:
            passes += 1
            sampled += use_sample
            rows = max(20_000, 50 * objective.dim) if use_sample else None
            try:
                inverse = _Inverse(objective.hessian(w, max_rows=rows))
            except scipy.linalg.LinAlgError:
                break  # not positive definite in floating point: the ridge is too small to help
        direction = -inverse.apply(gradient)
        found, tried = _lower(objective, w, value, gradient, direction, max_passes - passes)
        passes += tried
        if found is None:
            if passes >= max_passes or (fresh and not use_sample):
                break  # out of passes, or as close as floating point allows
            use_sample, inverse = use_sample and not fresh, None
            continue
        inverse.learn(found.w - w, found.gradient - gradient)
        if found.contraction > _POOR_CONTRACTION or found.step < _SHORT_STEP:
            use_sample = use_sample and sampled < _MAX_SAMPLED and found.step >= _SHORT_STEP
            inverse = None
        elif found.contraction > _GOOD_CONTRACTION and not (use_sample and sampled >= _MAX_SAMPLED):
            inverse = None
        w, value, gradient = found.w, found.value, found.gradient
        result = certified(objective, w, value, gradient, passes, tolerance)
        if result.gradient_norm < 0.9 * reached:
            reached, idle = result.gradient_norm, 0
        else:
            idle += 1
            if idle == _MAX_IDLE:
                break  # rounding errors are all that is left
    return replace(result, passes=passes)
