"""Stochastic variance-reduced gradient."""

from __future__ import annotations

import numpy as np

from dpfast._typing import Vector
from dpfast._validation import check_choice, check_integer, check_real
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

SNAPSHOTS = ("last", "average")


def minimize(
    objective: Objective,
    *,
    tolerance: float,
    max_passes: int = 2000,
    w0: Vector | None = None,
    step: float | None = None,
    epoch_passes: int = 2,
    snapshot: str = "last",
    radius: float | None = None,
    rng: int | np.random.Generator = 0,
    callback: Callback | None = None,
) -> OptimizeResult:
    r"""Minimize a mean over rows plus a ridge by variance-reduced steps along single rows.

    Johnson & Zhang 2013, Figure 1: an epoch takes ``m`` steps
    ``w ← Π(w - η (∇f_i(w) - ∇f_i(w̃) + ∇F(w̃)))`` from the snapshot ``w̃``.  With the average of the
    epoch as the next snapshot, ``E F(w̃) - F*`` shrinks in each epoch by
    ``1/(µη(1 - 2β'η)m) + 2β'η/(1 - 2β'η)`` (their Theorem 1), ``β'`` the smoothness of a row's loss
    and the ridge.  An epoch costs ``2 + m/n`` passes: gradient and margins of the snapshot, and the
    steps, which read one row each and run in C.

    Parameters
    ----------
    objective : Objective
        Also a :class:`dpfast.objectives.FiniteSum`.
    step : float or None, default=None
        ``η``; None is ``1/(4β')``.
    epoch_passes : int, default=2
        ``m/n``.
    snapshot : {"last", "average"}, default="last"
        What becomes the next snapshot; the theorem is about the average, practice prefers the last
        point.
    """
    check_smooth(objective, "svrg")
    rows = check_finite_sum(objective, "svrg")
    check_choice("snapshot", snapshot, SNAPSHOTS)
    n, epoch_passes = rows.n_samples, check_integer("epoch_passes", epoch_passes, low=1)
    beta = rows.row_smoothness + objective.strong_convexity
    size = 0.25 / beta if step is None else check_real("step", step, low=0.0, low_open=True)
    bound = check_radius(radius)
    generator = np.random.default_rng(rng)
    progress = Progress(objective, tolerance, max_passes, callback)
    w = project(check_start(objective, w0), bound)
    base = progress.snapshot(rows, w)
    while progress.affords(epoch_passes + 2):
        w = base.w.copy()
        total = np.zeros(objective.dim) if snapshot == "average" else None
        for indices in random_rows(generator, n, epoch_passes * n):
            rows.sgd_epoch(w, indices, size, snapshot=base, radius=bound, average=total)
        progress.passes += epoch_passes
        base = progress.snapshot(rows, w if total is None else total / (epoch_passes * n))
    return progress.result()
