"""Newton's method with Cholesky factors, for up to about a thousand columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dpfast.objectives import Objective
from dpfast.optimizers._contract import OptimizeResult, certified

Vector = NDArray[np.float64]

# A step that shrinks the gradient at least this much has a Hessian worth keeping.
_GOOD_CONTRACTION = 0.2
# Sufficient decrease of Armijo's rule, and the rounding slack it is given near the minimum.
_DECREASE = 1e-4
_SLACK = 64 * np.finfo(np.float64).eps


def minimize(
    objective: Objective,
    *,
    tolerance: float,
    max_passes: int = 200,
    w0: Vector | None = None,
) -> OptimizeResult:
    """Minimize a strongly convex objective to a gradient norm of `tolerance`.

    Damped Newton steps with Armijo backtracking (Boyd & Vandenberghe 2004, Algorithm 9.5).  A
    Hessian whose step shrank the gradient five times is used again, since a factor costs far more
    than a gradient (Shamanskii's variant).

    Parameters
    ----------
    objective : Objective
    tolerance : float
        Target for the gradient norm, rounding error included.
    max_passes : int, default=200
        Gradient and Hessian evaluations before giving up.
    w0 : ndarray of shape (dim,), default=None
        Start; None is zero.

    Returns
    -------
    OptimizeResult
        With ``converged=False`` when the tolerance was not reached: nothing is raised.
    """
    w = np.zeros(objective.dim) if w0 is None else np.array(w0, dtype=np.float64)
    value, gradient = objective.value_and_gradient(w)
    passes = 1
    factor = None
    result = certified(objective, w, value, gradient, passes, tolerance)
    while not result.converged and passes < max_passes:
        fresh = factor is None
        if fresh:
            passes += 1
            try:
                factor = scipy.linalg.cho_factor(objective.hessian(w), lower=True)
            except scipy.linalg.LinAlgError:
                break  # not positive definite in floating point: the ridge is too small to help
        direction = scipy.linalg.cho_solve(factor, -gradient)
        slope = float(gradient @ direction)
        norm = float(np.linalg.norm(gradient))
        step = 1.0
        while passes < max_passes:
            candidate = w + step * direction
            new_value, new_gradient = objective.value_and_gradient(candidate)
            passes += 1
            new_norm = float(np.linalg.norm(new_gradient))
            # Next to the minimum values are flat to rounding; there the gradient decides.
            if new_value <= value + _DECREASE * step * slope or (
                new_value <= value + _SLACK * abs(value) and new_norm < norm
            ):
                break
            step *= 0.5
            if step < 1e-10:
                break
        else:
            break
        if step < 1e-10:
            if fresh:
                break  # as close as floating point allows
            factor = None
            continue
        w, value, gradient = candidate, new_value, new_gradient
        if step < 1.0 or new_norm > _GOOD_CONTRACTION * norm:
            factor = None
        result = certified(objective, w, value, gradient, passes, tolerance)
    return replace(result, passes=passes)
