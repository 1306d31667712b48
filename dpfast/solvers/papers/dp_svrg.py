r"""DP-SVRG: noisy full gradients at snapshots, and noisy gradient differences along batches.

In every epoch a snapshot ``w̃`` releases its mean gradient ``g̃`` with Gaussian noise (Johnson &
Zhang 2013; Wang, Ye & Xu 2017), and the steps move along ``g̃`` plus the mean over a random batch of
the rows' *differences* ``clip(∇ℓ_i(w) - ∇ℓ_i(w̃))``, noisy too.  Differences are shorter than
gradients, so their noise is smaller than DP-SGD's.

Two kinds of releases, with budgets of their own: the snapshots, sums of gradients clipped to C, and
the steps (:class:`dpfast.fused.SampledSteps`), sums of differences clipped to D.  By smoothness a
difference is at most ``β‖w - w̃‖`` long, which is where the default of D comes from: twice the way
from 0 to the minimizer, divided by the number of epochs.

w and w̃ are functions of earlier releases.  `snapshot_share` of the budget (of the sum of squared
signal-to-noise ratios, were the batches' amplification that of a central limit) goes to the
snapshots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpfast._validation import check_integer, check_real
from dpfast.curator import Curator
from dpfast.fused import SampledSteps, State, Walk
from dpfast.mechanisms import Gaussian
from dpfast.privacy import (
    NEIGHBORING_RELATIONS,
    Budget,
    Event,
    GaussianEvent,
)
from dpfast.privacy.sampled_noise import least_admitted, noise_multiplier, sampled_unit_events
from dpfast.queries import BatchSum, ClippedGradient
from dpfast.shape import ProblemShape
from dpfast.solvers._contract import (
    TYPICAL_MARGIN,
    Outcome,
    Plan,
    Solver,
    settle_minimizer_norm,
    with_ridge,
)
from dpfast.solvers._noisy_epochs import (
    balanced_time,
    default_batch,
    default_sampling,
    settle_clip_norm,
)

NAME = "dp-svrg"

_MAX_EPOCHS = 10
_SNAPSHOT = "snapshot gradient"


@dataclass(frozen=True)
class Settings:
    """What a run follows; the numbers are those of :func:`plan` or derived from them."""

    snapshot: Gaussian
    differences: tuple[SampledSteps, ...]
    sampling: str
    batch: int
    epochs: int
    steps_per_epoch: int
    clip_norm: float
    difference_clip_norm: float
    snapshot_share: float
    step: float
    noise: str


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    batch: int | str = "auto",
    epochs: int | str = "auto",
    steps_per_epoch: int | str = "auto",
    sampling: str = "auto",
    clip_norm: float | None = None,
    difference_clip_norm: float | None = None,
    snapshot_share: float = 0.5,
    step: float | str = "auto",
    minimizer_norm: float | None = None,
    noise: str = "auto",
) -> Plan[Settings]:
    """Settle epochs, steps and both kinds of noise from public quantities.

    Parameters
    ----------
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss; None and "auto" take that of `shape`, or none.
    batch : int, "auto" or "full", default="auto"
        (Expected) rows a step; "auto" is the square root of their number.
    epochs : int or "auto", default="auto"
        Number of snapshots.
    steps_per_epoch : int or "auto", default="auto"
        "auto" is one pass over the data.
    sampling : {"auto", "poisson", "fixed-size"}
        "poisson" for `add_or_remove_one`, "fixed-size" for `replace_one`; no other pair.
    clip_norm : float or None, default=None
        Of the rows' gradients at snapshots; None leaves them to the bound of the loss.
    difference_clip_norm : float or None, default=None
        Of the rows' differences; at most twice `clip_norm` is used.
    snapshot_share : float in (0, 1), default=0.5
    step : float or "auto", default="auto"
    minimizer_norm : float or None, default=None
        Guess of the norm of the best weights, for the defaults; None is 6 over the row norm.
    noise : {"auto", "discrete", "gaussian"}
        Of the differences; see :mod:`dpfast.fused.epochs`.
    """
    if not math.isfinite(shape.loss.smoothness):
        raise ValueError(f"loss must be smooth for {NAME}; got {shape.loss.name!r}.")
    snapshot_share = check_real(
        "snapshot_share", snapshot_share, low=0.0, high=1.0, low_open=True, high_open=True
    )
    minimizer_norm = settle_minimizer_norm(minimizer_norm, TYPICAL_MARGIN / shape.row_norm)
    shape = with_ridge(shape, alpha)
    sampling = default_sampling(sampling, neighboring_relation)
    batch = default_batch(batch, shape.n_samples)
    clip_norm = settle_clip_norm(clip_norm, shape)

    course = _course(
        shape,
        balanced_time(shape, budget, neighboring_relation, clip_norm, minimizer_norm),
        max(1, round(shape.n_samples / batch)),
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        step=step,
    )
    if difference_clip_norm is None:
        travel = 2.0 * minimizer_norm / course.epochs
        difference_clip_norm = shape.loss.smoothness * shape.row_norm**2 * travel
    difference_clip_norm = check_real(
        "difference_clip_norm", difference_clip_norm, low=1e-100, high=1e100
    )
    difference_clip_norm = min(difference_clip_norm, 2.0 * clip_norm)

    # Of an epoch with multipliers z and r z the squared signal-to-noise ratios are q² T / z² of the
    # differences, T steps at the rate q, and 1 / (r z)² of the snapshot.
    rate = batch / shape.n_samples
    per_snapshot = (1.0 - snapshot_share) / (snapshot_share * course.steps_per_epoch)
    relative = math.sqrt(per_snapshot) / rate
    snapshot, differences = _least_noisy(
        clip_norm,
        BatchSum(shape, sampling, batch, difference_clip_norm, differences=True),
        budget,
        accountant,
        neighboring_relation,
        epochs=course.epochs,
        steps_per_epoch=course.steps_per_epoch,
        relative=relative,
        noise=noise,
    )
    deviation = differences[0].stddev / batch
    of_snapshot = (snapshot.stddev / shape.n_samples) ** 2 * course.steps_per_epoch
    bound = minimizer_norm**2 / (2.0 * course.gained)
    bound += 0.5 * course.step * shape.dim * (of_snapshot + deviation**2)
    return Plan(
        solver=NAME,
        shape=shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=tuple(access for part in differences for access in ((snapshot, 1), (part, 1))),
        settings=Settings(
            snapshot=snapshot,
            differences=differences,
            sampling=sampling,
            batch=batch,
            epochs=course.epochs,
            steps_per_epoch=course.steps_per_epoch,
            clip_norm=clip_norm,
            difference_clip_norm=difference_clip_norm,
            snapshot_share=snapshot_share,
            step=course.step,
            noise=differences[0].noise,
        ),
        expected={
            "noise_stddev_of_snapshot_gradient": snapshot.stddev / shape.n_samples,
            "noise_stddev_of_mean_difference": deviation,
            "noise_and_time_bound": bound,
        },
    )


class _Course(NamedTuple):
    """Epochs, steps of each, and their size."""

    epochs: int
    steps_per_epoch: int
    step: float

    @property
    def gained(self) -> float:
        """The sum of all step sizes."""
        return self.step * self.steps_per_epoch * self.epochs


def _course(
    shape: ProblemShape,
    time: float,
    one_pass: int,
    *,
    epochs: int | str,
    steps_per_epoch: int | str,
    step: float | str,
) -> _Course:
    """What is asked for; "auto" spends this `time`, the sum of the step sizes, in full steps."""
    largest = 1.0 / (shape.smoothness + (shape.alpha or 0.0))
    if steps_per_epoch == "auto":
        steps_per_epoch = one_pass
    steps_per_epoch = check_integer("steps_per_epoch", steps_per_epoch, low=1, high=2**40)
    if epochs == "auto":
        epochs = min(max(1, round(time / (largest * steps_per_epoch))), _MAX_EPOCHS)
    epochs = check_integer("epochs", epochs, low=1, high=2**20)
    if step == "auto":
        step = min(largest, time / (epochs * steps_per_epoch))
    step = check_real("step", step, low=0.0, low_open=True, high=1e100)
    return _Course(epochs, steps_per_epoch, step)


def _least_noisy(
    clip_norm: float,
    sums: BatchSum,
    budget: Budget,
    accountant: str,
    neighboring_relation: str,
    *,
    epochs: int,
    steps_per_epoch: int,
    relative: float,
    noise: str,
) -> tuple[Gaussian, tuple[SampledSteps, ...]]:
    """A snapshot and the steps of every epoch, with the least noise that a ledger admits."""
    shape, n_steps = sums.shape, steps_per_epoch * epochs
    key = (neighboring_relation, sums.sampling, sums.batch, shape.n_samples, n_steps)
    multiplier = noise_multiplier(budget, accountant, unit_events, *key, epochs, relative)
    gradient = ClippedGradient(shape, clip_norm)
    influence = gradient.sensitivity(neighboring_relation)

    def made(
        multiplier: float,
    ) -> tuple[tuple[Gaussian, tuple[SampledSteps, ...]], tuple[Event, ...]]:
        snapshot = Gaussian.of_query(
            relative * multiplier * influence, gradient, neighboring_relation, where=_SNAPSHOT
        )
        steps = SampledSteps(sums, multiplier, neighboring_relation, n_steps=n_steps, noise=noise)
        differences = tuple(
            steps.part(0, steps_per_epoch, _where(epoch)) for epoch in range(epochs)
        )
        events = (event for part in differences for event in (snapshot.event(), *part.events()))
        return (snapshot, differences), tuple(events)

    return least_admitted(made, multiplier, budget, accountant)


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Snapshot, steps, snapshot, ...: each paid for before it looks."""
    settings, n = plan.settings, plan.shape.n_samples
    state = State(np.zeros(plan.shape.dim))
    for part in settings.differences:
        gradient = curator.release(settings.snapshot, state.w)
        walk = Walk(
            lambda start, stop: settings.step,
            alpha=plan.shape.alpha or 0.0,
            snapshot=state.w,
            snapshot_gradient=gradient / n,
        )
        state = curator.release(part, state, walk)
    return Outcome(state.w)


def unit_events(
    noise: float,
    relation: str,
    sampling: str,
    batch: int,
    n_samples: int,
    count: int,
    snapshots: int,
    relative: float,
) -> list[Event]:
    """Snapshots and differences of sensitivity 1, for calibration."""
    snapshot = GaussianEvent(
        sensitivity=1.0,
        stddev=relative * noise,
        dimension=1,
        neighboring_relation=relation,
        where="calibration",
        count=snapshots,
    )
    return [snapshot, *sampled_unit_events(noise, relation, sampling, batch, n_samples, count)]


def _where(epoch: int) -> str:
    return f"differences of epoch {epoch + 1}"


SOLVER = Solver(
    name=NAME,
    doc=__doc__,
    plan=plan,
    run=run,
    budgets=("approximate",),
    relations=NEIGHBORING_RELATIONS,
    row_access="single rows",
    resumable=True,
    minimizes=True,
    expects="noise_and_time_bound",
    exact={
        "epochs": 40,
        "batch": 100,
        "steps_per_epoch": 80,
        "step": 0.7,
        "difference_clip_norm": 1e6,
    },
)
