"""Gradient descent with a constant step."""

from __future__ import annotations

from dpfast._typing import Vector
from dpfast._validation import check_choice, check_real
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

STEPS = ("optimal", "strongly-convex", "convex")


def minimize(
    objective: Objective,
    *,
    tolerance: float,
    max_passes: int = 20_000,
    w0: Vector | None = None,
    step: float | str = "optimal",
    radius: float | None = None,
    callback: Callback | None = None,
) -> OptimizeResult:
    """Minimize a smooth, strongly convex objective to a gradient norm of `tolerance`.

    ``w ← Π(w - η ∇F(w))`` (Zhang, Zheng, Mou & Wang 2017, Algorithm 1, without its noise).  With
    ``η = 2/(β + µ)`` every step brings ``w`` closer to the minimizer by the factor
    ``(κ - 1)/(κ + 1)``, ``κ = β/µ`` (Nesterov 2004, Theorem 2.1.15); with ``1/(β + µ)`` by
    ``κ/(κ + 1)``, with ``1/β`` by ``1 - 1/κ``.

    Parameters
    ----------
    step : float or {"optimal", "strongly-convex", "convex"}, default="optimal"
        ``2/(β + µ)``, ``1/(β + µ)`` (the paper's for strongly convex objectives), ``1/β`` (the
        paper's for convex ones), or a number.
    """
    check_smooth(objective, "gd")
    if isinstance(step, str):
        check_choice("step", step, STEPS)
        beta, mu = objective.smoothness, objective.strong_convexity
        size = {
            "optimal": 2.0 / (beta + mu),
            "strongly-convex": 1.0 / (beta + mu),
            "convex": 1.0 / beta,
        }[step]
    else:
        size = check_real("step", step, low=0.0, low_open=True)
    bound = check_radius(radius)
    progress = Progress(objective, tolerance, max_passes, callback)
    w = project(check_start(objective, w0), bound)
    _, gradient = progress.evaluate(w)
    while progress.affords(1):
        w = project(w - size * gradient, bound)
        _, gradient = progress.evaluate(w)
    return progress.result()
