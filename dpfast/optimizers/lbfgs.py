"""Limited-memory BFGS, by SciPy, for many columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.optimize

from dpfast._typing import Vector
from dpfast.objectives import Objective
from dpfast.optimizers.certificates import OptimizeResult, certified


class _Stop(Exception):
    """Leaves SciPy's loop: the certificate holds, or the passes are used up."""


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
    improve the value in floating point.  Values near the minimum are flat to rounding long before
    gradients are, so it is then restarted from the best point ``a`` with the values
    ``<∇F(w) + ∇F(a), w - a> / 2``, which differ from ``F(w) - F(a)`` by ``O(‖w - a‖³)`` and keep
    their relative accuracy.

    Returns
    -------
    OptimizeResult
        The point of smallest gradient norm that was seen, with ``converged=False`` when the
        tolerance was not reached: nothing is raised.
    """
    start = np.zeros(objective.dim) if w0 is None else np.array(w0, dtype=np.float64)
    best: OptimizeResult | None = None
    best_gradient, best_rank = start, (np.inf, np.inf)
    passes = 0

    # Point and gradient that values are measured from; None: the objective's own values.
    anchor: tuple[Vector, Vector] | None = None

    def evaluate(w: Vector) -> tuple[float, Vector]:
        nonlocal best, best_gradient, best_rank, passes
        passes += 1
        value, gradient = objective.value_and_gradient(w)
        result = certified(objective, np.array(w), value, gradient, passes, tolerance)
        # Without a bound of rounding errors all are infinite; then the computed norms decide.
        rank = (result.gradient_norm, float(np.linalg.norm(gradient)))
        if best is None or rank < best_rank:
            best, best_gradient, best_rank = result, gradient, rank
        if best.converged or passes >= max_passes:
            raise _Stop
        if anchor is not None:
            value = 0.5 * float((gradient + anchor[1]) @ (w - anchor[0]))
        return value, gradient

    options = {"ftol": 0.0, "gtol": 0.0, "maxfun": max_passes, "maxiter": max_passes, "maxcor": 20}
    try:
        reached = np.inf
        while True:
            scipy.optimize.minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options)
            assert best is not None
            # A restart that does not halve the gradient has met the rounding of gradients, too.
            if best_rank[1] > 0.5 * reached:
                break
            reached = best_rank[1]
            start, anchor = best.w, (best.w, best_gradient)
    except _Stop:
        pass
    assert best is not None
    return replace(best, passes=passes)
