"""Limited-memory BFGS, by SciPy, for many columns."""

from __future__ import annotations

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from dpfast.objectives import Objective
from dpfast.optimizers._contract import OptimizeResult, certified

Vector = NDArray[np.float64]


class _Reached(Exception):
    """Leaves SciPy's loop as soon as the certificate holds."""


def minimize(
    objective: Objective,
    *,
    tolerance: float,
    max_passes: int = 2000,
    w0: Vector | None = None,
) -> OptimizeResult:
    """Minimize a strongly convex objective to a gradient norm of `tolerance`.

    SciPy's L-BFGS-B (Byrd, Lu, Nocedal & Zhu 1995) with its own stopping rules switched off: it
    stops when the certificate holds, when `max_passes` is used up, or when the line search cannot
    improve the value in floating point.

    Parameters
    ----------
    objective : Objective
    tolerance : float
        Target for the gradient norm, rounding error included.
    max_passes : int, default=2000
        Gradient evaluations before giving up.
    w0 : ndarray of shape (dim,), default=None
        Start; None is zero.

    Returns
    -------
    OptimizeResult
        The point of smallest gradient norm that was seen, with ``converged=False`` when the
        tolerance was not reached: nothing is raised.
    """
    start = np.zeros(objective.dim) if w0 is None else np.array(w0, dtype=np.float64)
    best: OptimizeResult | None = None
    passes = 0

    def evaluate(w: Vector) -> tuple[float, Vector]:
        nonlocal best, passes
        passes += 1
        value, gradient = objective.value_and_gradient(w)
        result = certified(objective, np.array(w), value, gradient, passes, tolerance)
        if best is None or result.gradient_norm < best.gradient_norm:
            best = result
        if best.converged:
            raise _Reached
        return value, gradient

    try:
        scipy.optimize.minimize(
            evaluate,
            start,
            jac=True,
            method="L-BFGS-B",
            options={
                "ftol": 0.0,
                "gtol": 0.0,
                "maxfun": max_passes,
                "maxiter": max_passes,
                "maxcor": 20,
            },
        )
    except _Reached:
        pass
    assert best is not None
    return best
