"""Katyusha: accelerated, variance-reduced steps along single rows."""

from __future__ import annotations

import math

import numpy as np

from dpfast._typing import Vector
from dpfast._validation import check_integer
from dpfast.objectives import Objective
from dpfast.optimizers._contract import (
    Callback,
    Progress,
    check_finite_sum,
    check_radius,
    check_smooth,
    check_start,
    project,
    random_rows,
)
from dpfast.optimizers.certificates import OptimizeResult


def minimize(
    objective: Objective,
    *,
    tolerance: float,
    max_passes: int = 2000,
    w0: Vector | None = None,
    epoch_passes: int = 2,
    radius: float | None = None,
    rng: int | np.random.Generator = 0,
    callback: Callback | None = None,
) -> OptimizeResult:
    r"""Minimize a mean over rows plus a ridge by accelerated, variance-reduced steps.

    Lowy & Razaviyayn 2021, Algorithm 5 (Allen-Zhu 2018, Algorithm 1) with the ridge as
    ``ψ(w) = (µ/2)‖w‖²``, ``m = 2n`` steps an epoch, ``τ₂ = 1/2``, ``τ₁ = min(√(mµ/(3β)), 1/2)``,
    ``γ = 1/(3τ₁β)``, ``β`` the smoothness of a row's loss.  With ``g`` the variance-reduced
    gradient of the mean loss at ``v = τ₁z + τ₂w̃ + (1 - τ₁ - τ₂)y``, the proximal steps are::

        z ← Π((z - γg)/(1 + γµ)),    y ← Π((3βv - g)/(3β + µ))

    and the next snapshot ``w̃`` is the epoch's average of ``y`` with weights ``(1 + γµ)^j``.  It
    takes ``O((n + √(nκ)) log(1/ε))`` steps to an excess of ``ε`` on average (their Theorem 2.1):
    for ``κ = β/µ`` beyond n fewer passes than SVRG, ``O(n + κ)``, and than accelerated gradient
    descent, ``O(n√κ)``.  An epoch costs ``2 + m/n`` passes: gradient and margins of the snapshot,
    and the steps, which read one row each and run in C.

    Parameters
    ----------
    objective : Objective
        Also a :class:`dpfast.objectives.FiniteSum`.
    epoch_passes : int, default=2
        ``m/n``.
    """
    check_smooth(objective, "katyusha")
    rows = check_finite_sum(objective, "katyusha")
    n, epoch_passes = rows.n_samples, check_integer("epoch_passes", epoch_passes, low=1)
    bound = check_radius(radius)
    steps = epoch_passes * n
    tau1 = min(math.sqrt(steps * objective.strong_convexity / (3.0 * rows.row_smoothness)), 0.5)
    generator = np.random.default_rng(rng)
    progress = Progress(objective, tolerance, max_passes, callback)
    w = project(check_start(objective, w0), bound)
    z, y = w.copy(), w.copy()
    base = progress.snapshot(rows, w)
    while progress.affords(epoch_passes + 2):
        average, average_scale = np.zeros(objective.dim), np.zeros(1)
        for indices in random_rows(generator, n, steps):
            rows.katyusha_epoch(
                z,
                y,
                average,
                average_scale,
                indices,
                tau1=tau1,
                snapshot=base,
                radius=bound,
            )
        progress.passes += epoch_passes
        base = progress.snapshot(rows, average)
    return progress.result()
