"""Nesterov's accelerated gradient descent."""

from __future__ import annotations

import math

from dpfast._typing import Vector
from dpfast._validation import check_choice
from dpfast.objectives import Objective
from dpfast.optimizers._contract import (
    Callback,
    Progress,
    check_radius,
    check_smooth,
    check_start,
    project,
)
from dpfast.optimizers.certificates import OptimizeResult

MOMENTA = ("constant", "restarted")


def minimize(
    objective: Objective,
    *,
    tolerance: float,
    max_passes: int = 20_000,
    w0: Vector | None = None,
    momentum: str = "constant",
    radius: float | None = None,
    callback: Callback | None = None,
) -> OptimizeResult:
    r"""Minimize a smooth, strongly convex objective to a gradient norm of `tolerance`.

    Lowy & Razaviyayn 2021, Algorithm 4 (Nesterov 2004, scheme 2.2.11)::

        y_t = Π(w_{t-1} - ∇F(w_{t-1}) / β)
        w_t = y_t + θ (y_t - y_{t-1}),    θ = (√κ - 1)/(√κ + 1)

    with ``F(y_t) - F* <= (β + µ)/2 ‖w_0 - w*‖² exp(-t/√κ)``, ``κ = β/µ`` (Bubeck 2015, Theorem
    3.18).  The point returned is one where the gradient was computed, hence a ``w_t`` and not a
    ``y_t``.

    Parameters
    ----------
    momentum : {"constant", "restarted"}, default="constant"
        "constant" is the algorithm above.  "restarted" lets ``θ`` grow as ``t/(t + 3)`` and sets
        ``t`` back to zero when the last step goes uphill (O'Donoghue & Candès 2015, the gradient
        scheme): faster where the objective is better conditioned near its minimizer than the ridge
        alone promises, without a bound as good in the worst case.
    """
    check_smooth(objective, "agd")
    check_choice("momentum", momentum, MOMENTA)
    bound = check_radius(radius)
    progress = Progress(objective, tolerance, max_passes, callback)
    root = math.sqrt(max(1.0, objective.smoothness / objective.strong_convexity))
    constant = (root - 1.0) / (root + 1.0)
    w = project(check_start(objective, w0), bound)
    y, since = w, 0
    _, gradient = progress.evaluate(w)
    while progress.affords(1):
        before = y
        y = project(w - gradient / objective.smoothness, bound)
        if momentum == "restarted" and float(gradient @ (y - before)) > 0.0:
            since = 0
        theta = since / (since + 3.0) if momentum == "restarted" else constant
        w = y + theta * (y - before)
        since += 1
        _, gradient = progress.evaluate(w)
    return progress.result()
