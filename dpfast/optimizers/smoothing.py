"""Minimization of losses with kinks by rounding the kinks off, less and less."""

from __future__ import annotations

import math

from dpfast._typing import Vector
from dpfast._validation import check_real
from dpfast.objectives import Objective, Smoothable
from dpfast.optimizers import lbfgs, newton
from dpfast.optimizers._contract import Callback, Progress, check_start
from dpfast.optimizers.certificates import OptimizeResult

# Factor by which the width shrinks from one round to the next.
_SHRINK = 0.25
_NARROWEST = 2.0**-40


def minimize(
    objective: Objective,
    *,
    tolerance: float,
    max_passes: int = 2000,
    w0: Vector | None = None,
    width: float = 0.5,
    callback: Callback | None = None,
) -> OptimizeResult:
    r"""Minimize a strongly convex objective with kinks to a certified distance.

    Each round minimizes :meth:`~dpfast.objectives.Smoothable.smoothed`, the objective with kinks
    rounded off over a width ``h`` (Nesterov 2005), by Newton's method or L-BFGS from the last
    round's point, and bounds ``F(w) - F(w*)`` by the duality gap of the smoothed derivatives
    (:meth:`dpfast.objectives.Erm.duality_gap`), which is at most ``h/8`` (times the largest weight)
    plus what the inner minimization leaves, and in practice falls as ``h²``, since only rows inside
    the rounded part contribute.  Then ``h`` shrinks to a quarter.  ``√(2 gap/µ)`` certifies the
    distance to the minimizer of the objective **with** its kinks.

    An objective that is smooth already goes to the inner method as it is.

    Parameters
    ----------
    objective : Objective
        Smooth, or also a :class:`dpfast.objectives.Smoothable`.
    width : float, default=0.5
        ``h`` of the first round.
    """
    width = check_real("width", width, low=0.0, low_open=True)
    inner = newton.minimize if objective.dim <= newton.MAX_DIM else lbfgs.minimize
    w = check_start(objective, w0)
    if math.isfinite(objective.smoothness):
        result = inner(objective, tolerance=tolerance, max_passes=max_passes, w0=w)
        if callback is not None:
            callback(result)
        return result
    if not isinstance(objective, Smoothable):
        raise TypeError(
            "objective must be smooth or a dpfast.objectives.Smoothable for the optimizer "
            f"'smoothing'; got {type(objective).__name__}."
        )
    progress = Progress(objective, tolerance, max_passes, callback)
    # What the inner minimization may leave: a quarter of the gap that the tolerance allows.
    target = 0.5 * tolerance
    while progress.affords(4) or progress.passes == 0:
        smooth = objective.smoothed(width)
        allowed = max(1, max_passes - progress.passes - 3)
        found = inner(smooth, tolerance=target, max_passes=allowed, w0=w)
        if not found.converged and found.passes < allowed:
            rest = lbfgs.minimize(
                smooth, tolerance=target, max_passes=allowed - found.passes, w0=found.w
            )
            progress.passes += rest.passes
            found = min(found, rest, key=lambda r: r.gradient_norm)
        progress.passes += found.passes
        before, w = w, found.w
        value, gradient = objective.value_and_gradient(w)
        gap = objective.duality_gap(w, width)
        progress.passes += 3
        progress.examine(w, value, gradient, gap)
        ahead = objective.limit(before, w, width, _SHRINK)
        if ahead is not None and progress.affords(4):
            value, gradient = objective.value_and_gradient(ahead)
            gap = objective.duality_gap(ahead, width, w)
            progress.passes += 4
            progress.examine(ahead, value, gradient, gap)
        if width <= _NARROWEST:
            break
        width *= _SHRINK
    return progress.result()
