"""Stochastic subgradient descent with a weighted average."""

from __future__ import annotations

import math

import numpy as np

from dpfast._typing import Vector
from dpfast.objectives import Objective, Smoothable
from dpfast.optimizers._contract import (
    Callback,
    Progress,
    check_finite_sum,
    check_radius,
    check_start,
    project,
    random_rows,
)
from dpfast.optimizers.certificates import OptimizeResult


def minimize(
    objective: Objective,
    *,
    tolerance: float,
    max_passes: int = 1000,
    w0: Vector | None = None,
    radius: float | None = None,
    rng: int | np.random.Generator = 0,
    callback: Callback | None = None,
) -> OptimizeResult:
    r"""Minimize a mean over rows plus a ridge by steps along single rows' subgradients.

    Lowy & Razaviyayn 2021, Algorithm 3: step t is ``w ← Π(w - 2/(µ(t + 1)) G)`` with ``G`` an
    unbiased estimate from one row drawn at random, and the weights of the average grow with t, for
    which ``E F(w̄_T) - F* <= 2 E‖G‖² / (µ(T + 1))`` (Lacoste-Julien, Schmidt & Bach 2012).  The
    bound holds on average; what is returned is certified on the run at hand: after each epoch of n
    steps by the full gradient, or, where the loss has kinks, by the duality gap.  Epochs run in C.

    Parameters
    ----------
    objective : Objective
        Also a :class:`dpfast.objectives.FiniteSum`, and, where it is not smooth, a
        :class:`dpfast.objectives.Smoothable`.
    radius : float or None, default=None
        Project every step on the ball of this radius; None takes the objective's own bound of
        ``‖w*‖``, without which the first steps, of size ``1/µ``, go astray.
    """
    rows = check_finite_sum(objective, "sgd")
    smooth = math.isfinite(objective.smoothness)
    if not smooth and not isinstance(objective, Smoothable):
        raise TypeError(
            "objective must be smooth or a dpfast.objectives.Smoothable for the optimizer 'sgd'; "
            f"got {type(objective).__name__}."
        )
    mu, n = objective.strong_convexity, rows.n_samples
    bound = rows.minimizer_norm if radius is None else check_radius(radius)
    generator = np.random.default_rng(rng)
    progress = Progress(objective, tolerance, max_passes, callback)
    start = check_start(objective, w0)
    w = project(start, bound)
    width = 1.0
    if smooth:
        progress.evaluate(w)
    else:
        width = progress.examine_kinked(w, width)
    # The first point has weight 1, the point after step t has weight t + 1.
    total, done = w.copy(), 0
    while progress.affords(2 if smooth else 4):
        for indices in random_rows(generator, n, n):
            number = np.arange(done + 1, done + len(indices) + 1, dtype=np.float64)
            rows.sgd_epoch(
                w,
                indices,
                2.0 / (mu * (number + 1.0)),
                radius=bound,
                average=total,
                average_weight=number + 1.0,
            )
            done += len(indices)
        progress.passes += 1
        average = total / (0.5 * (done + 1.0) * (done + 2.0))
        if smooth:
            progress.evaluate(average)
        else:
            width = progress.examine_kinked(average, 2.0 * width)
    return progress.result()
