"""The projected subgradient method, which carries a dual certificate along."""

from __future__ import annotations

import math

import numpy as np

from dpfast._typing import Vector
from dpfast.objectives import Objective
from dpfast.optimizers._contract import Callback, Progress, check_radius, check_start, project
from dpfast.optimizers.certificates import OptimizeResult, averages_of


def minimize(
    objective: Objective,
    *,
    tolerance: float,
    max_passes: int = 20_000,
    w0: Vector | None = None,
    radius: float | None = None,
    callback: Callback | None = None,
) -> OptimizeResult:
    r"""Minimize a strongly convex objective, with kinks or without, by subgradients.

    Lowy & Razaviyayn 2021, Algorithm 2: ``w_{t+1} = Π(w_t - 2/(µ(t + 1)) G_t)``, and the average of
    the ``w_t`` with weights ``2t/(T(T + 1))``, for which ``F(w̄) - F* <= 2L²/(µ(T + 1))`` with
    ``L`` the largest subgradient (Lacoste-Julien, Schmidt & Bach 2012).

    Without projection the method is conditional gradient on the dual with steps ``2/(t + 1)``: the
    same weights average the subgradients into a dual point, and the duality gap falls as ``1/T``,
    too (Bach 2015).  :class:`~dpfast.optimizers.certificates.Averages` computes that gap along the
    way, and ``√(2 gap/µ)`` certifies the average.  It falls slowly; where a tight certificate is
    wanted `smoothing` is the method.

    Parameters
    ----------
    objective : Objective
        The gap needs its `rounding` (:class:`dpfast.objectives.Rounded`); without it only points of
        small gradient are certified.

    Returns
    -------
    OptimizeResult
        Its value is an upper bound of the objective at an average.  ``converged=False`` when the
        tolerance was not reached: nothing is raised.
    """
    mu, bound = objective.strong_convexity, check_radius(radius)
    progress = Progress(objective, tolerance, max_passes, callback)
    averages = averages_of(objective)
    w = project(check_start(objective, w0), bound)
    t = 0
    while progress.affords(1):
        t += 1
        progress.passes += 1
        share = 2.0 / (t + 1.0)
        value, gradient = averages.add(share, w)
        progress.examine(w, value, gradient)
        if progress.affords(0):
            # Any slope of infinite norm says that the average has no gradient bound of its own.
            nowhere = np.full(objective.dim, math.inf)
            progress.examine(averages.w, averages.value, nowhere, averages.gap())
        w = project(w - (share / mu) * gradient, bound)
    return progress.result()
