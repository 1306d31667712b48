r"""DP-SGD: stochastic gradient descent on noisy sums of clipped gradients over random batches.

Step t draws a batch, adds up its rows' gradients, each no longer than C, adds Gaussian noise and
moves by ``-h_t`` times the sum over the expected batch size; the ridge, which no record enters, is
added exactly.  The steps are taken by :class:`dpfast.fused.SampledSteps`, where sampling and noise
are; what follows a step's release (momentum, projection, averaging) is post-processing.  The steps
are charged in parts, each before its first.

The noise is calibrated with the accountant of the ledger, by default Rényi differential privacy:
that is SGD-MA, the moments accountant of Abadi et al. 2016.  ``calibration="advanced"`` is
SGD-Adv, advanced composition with amplification by sampling (Bassily, Smith & Thakurta 2014), for
comparison; the ledger then reports what the run really costs.

The defaults use public quantities alone.  For convex losses the average of T steps of size h with
noise of variance ``v`` in each coordinate of the mean gradient has an expected excess risk of at
most ``B²/(2hT) + h d v/2`` (besides what the sampling of rows adds, at most ``h L²/(2m)``) over
weights of norm B.  By amplification ``√v ≈ √T c C/(nμ)`` for a budget of μ-GDP, whatever the
batch, which makes ``hT = B n μ/(c C √d)`` the best; h is then as large as smoothness allows,
``1/(β + α)``, and T between one and 20 epochs.

C weighs noise against bias.  By default it is L or ``c L``, c the slope at margin zero over the
largest one (1/2 for the logistic loss: only rows on the wrong side of the boundary are ever
clipped): the one with the smaller bound, to which clipping adds ``κ (1 - c)``, κ a guess of the
bias, 0.03 of the loss at zero.  Both bounds fall with ε, so the smaller does.  B is the norm at
which a longest row has a margin of 18, since most rows are much shorter.  These guesses were made
on public tables (Adult, a9a, RAND HIE; ε from 0.05 to 1.6) by the log-loss on training rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpfast._typing import Vector
from dpfast._validation import check_choice, check_integer, check_real
from dpfast.curator import Curator
from dpfast.fused import SampledSteps, State, Walk
from dpfast.losses import Loss
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget
from dpfast.privacy.papers import sgd_advanced_stddev
from dpfast.queries import BatchSum
from dpfast.shape import ProblemShape
from dpfast.solvers._contract import Outcome, Plan, Solver, settle_minimizer_norm, with_ridge
from dpfast.solvers._noisy_epochs import (
    SCHEDULES,
    balanced_time,
    default_batch,
    default_sampling,
    least_noisy_steps,
    parts,
    settle_clip_norm,
    step_sizes,
)

NAME = "dp-sgd"

AVERAGES = ("tail", "uniform", "none")
CALIBRATIONS = ("accountant", "advanced")
# Margin of a longest row that the defaults reckon with; baselines take the typical one.
_LARGEST_MARGIN = 18.0
_MAX_EPOCHS = 20.0
# What it costs to clip everything, over the loss at zero.
_CLIPPING_COST = 0.03
_MAX_STEPS = 2**40


@dataclass(frozen=True)
class Settings:
    """What a run follows; the numbers are those of :func:`plan` or derived from them."""

    parts: tuple[SampledSteps, ...]
    sampling: str
    batch: int
    steps: int
    epochs: float
    clip_norm: float
    step: float
    schedule: str
    momentum: float
    average: str
    w_radius: float
    noise: str
    noise_multiplier: float


class _Course(NamedTuple):
    """Steps that are paid for, and what is to be expected of them."""

    access: SampledSteps
    n_steps: int
    clip_norm: float
    size: float
    deviation: float
    bound: float


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    batch: int | str = "auto",
    epochs: float | str = "auto",
    steps: int | str = "auto",
    sampling: str = "auto",
    clip_norm: float | None = None,
    step: float | str = "auto",
    schedule: str = "constant",
    momentum: float = 0.0,
    average: str = "tail",
    w_radius: float | None = None,
    minimizer_norm: float | None = None,
    noise: str = "auto",
    calibration: str = "accountant",
) -> Plan[Settings]:
    """Settle batches, steps and noise from public quantities.

    Parameters
    ----------
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss; None and "auto" take that of `shape`, or none.
    batch : int, "auto" or "full", default="auto"
        (Expected) rows a step; "auto" is the square root of their number.
    epochs : float or "auto", default="auto"
        Passes over the data.
    steps : int or "auto", default="auto"
        Number of steps; overrides `epochs`.
    sampling : {"auto", "poisson", "fixed-size"}
        "poisson" for `add_or_remove_one`, "fixed-size" for `replace_one`; no other pair.
    clip_norm : float or None, default=None
        Rows' gradients are clipped to this norm.  None takes the bound of the loss, which clips
        nothing, or what gradients are at weights zero, whichever promises more.
    step : float or "auto", default="auto"
        Size of the first step.
    schedule : {"constant", "1/sqrt(t)", "1/t"}
        Sizes of the later ones.
    momentum : float in [0, 1), default=0
    average : {"tail", "uniform", "none"}
        What is released: the average of the second half of the iterates, of all, or the last.
    w_radius : float or None, default=None
        Radius of a ball onto which every iterate is projected.
    minimizer_norm : float or None, default=None
        Guess of the norm of the best weights, for the defaults; None is 18 over the row norm.
    noise : {"auto", "discrete", "gaussian"}
        See :mod:`dpfast.fused.epochs`; "auto" is exact ("discrete").
    calibration : {"accountant", "advanced"}
        How much noise: what the accountant asks for, or advanced composition.
    """
    check_choice("schedule", schedule, tuple(SCHEDULES))
    check_choice("average", average, AVERAGES)
    check_choice("calibration", calibration, CALIBRATIONS)
    momentum = check_real("momentum", momentum, low=0.0, high=1.0, high_open=True)
    radius = math.inf
    if w_radius is not None:
        radius = check_real("w_radius", w_radius, low=1e-100, high=1e100)
    guess = min(_LARGEST_MARGIN / shape.row_norm, radius)
    minimizer_norm = settle_minimizer_norm(minimizer_norm, guess)
    shape = with_ridge(shape, alpha)
    sampling = default_sampling(sampling, neighboring_relation)
    rows = default_batch(batch, shape.n_samples)

    def course(longest: float, bias: float) -> _Course:
        time = balanced_time(shape, budget, neighboring_relation, longest, minimizer_norm)
        largest = _largest_step(shape, longest, minimizer_norm)
        n_steps = _n_steps(steps, epochs, shape.n_samples / rows, time / largest)
        size = _first_step(step, schedule, n_steps, time, largest, shape.alpha) * (
            1.0 if step != "auto" else 1.0 - momentum
        )
        access = least_noisy_steps(
            BatchSum(shape, sampling, rows, longest),
            budget,
            accountant,
            neighboring_relation,
            n_steps=n_steps,
            noise=noise,
            multiplier=_multiplier(calibration, budget, n_steps, rows, shape.n_samples),
        )
        deviation = access.stddev / rows
        gained = _time(size, schedule, n_steps) / (1.0 - momentum)
        bound = minimizer_norm**2 / (2.0 * gained) + bias
        bound += 0.5 * gained / n_steps * shape.dim * deviation**2
        return _Course(access, n_steps, longest, size, deviation, bound)

    longest = settle_clip_norm(clip_norm, shape)
    courses = [course(longest, 0.0)]
    share = _share_at_zero(shape.loss)
    if clip_norm is None and share < 1.0:
        bias = _CLIPPING_COST * shape.loss.at_zero * shape.max_weight * (1.0 - share)
        courses.append(course(share * longest, bias))
    best = min(courses, key=lambda course: course.bound)
    made = tuple(best.access.part(*part, where=_where(*part)) for part in parts(best.n_steps))
    return Plan(
        solver=NAME,
        shape=shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=tuple((part, 1) for part in made),
        settings=Settings(
            parts=made,
            sampling=sampling,
            batch=rows,
            steps=best.n_steps,
            epochs=best.n_steps * rows / shape.n_samples,
            clip_norm=best.clip_norm,
            step=best.size,
            schedule=schedule,
            momentum=momentum,
            average=average,
            w_radius=radius,
            noise=best.access.noise,
            noise_multiplier=best.access.noise_multiplier,
        ),
        expected={
            "noise_stddev_of_mean_gradient": best.deviation,
            "noise_and_time_bound": best.bound,
        },
    )


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Take the steps, part by part."""
    settings, dim = plan.settings, plan.shape.dim
    n_steps = settings.steps
    averaged = settings.average != "none"
    averaged_from = n_steps // 2 if settings.average == "tail" else 0

    def weights(start: int, stop: int) -> Vector:
        return (np.arange(start, stop) >= averaged_from) / float(n_steps - averaged_from)

    walk = Walk(
        step_sizes(settings.step, settings.schedule),
        weights if averaged else None,
        alpha=plan.shape.alpha or 0.0,
        w_radius=settings.w_radius,
        momentum=settings.momentum,
    )
    state = State(
        w=np.zeros(dim),
        velocity=np.zeros(dim) if settings.momentum > 0.0 else None,
        average=np.zeros(dim) if averaged else None,
    )
    for part in settings.parts:
        state = curator.release(part, state, walk)
    return Outcome(state.w if state.average is None else state.average)


def _share_at_zero(loss: Loss) -> float:
    """The largest slope at margin zero over the largest of all; 1 for regression."""
    if loss.kind != "classification":
        return 1.0
    slopes = loss(np.zeros(2), np.array([-1.0, 1.0]))[1]
    return float(np.abs(slopes).max()) / loss.lipschitz


def _where(first: int, count: int) -> str:
    return f"steps {first + 1} to {first + count}"


def _n_steps(steps: int | str, epochs: float | str, per_epoch: float, wanted: float) -> int:
    if steps != "auto":
        return check_integer("steps", steps, low=1, high=_MAX_STEPS)
    if epochs != "auto":
        passes = check_real("epochs", epochs, low=0.0, low_open=True)
    else:
        passes = min(max(wanted / per_epoch, 1.0), _MAX_EPOCHS)
    return check_integer("steps", max(1, round(passes * per_epoch)), low=1, high=_MAX_STEPS)


def _largest_step(shape: ProblemShape, longest: float, minimizer_norm: float) -> float:
    """What smoothness allows; without it, steps whose sampling noise is what is left to gain."""
    curvature = shape.smoothness + (shape.alpha or 0.0)
    if math.isinf(curvature):
        return minimizer_norm / (longest * shape.max_weight)
    return 1.0 / curvature


def _multiplier(
    calibration: str, budget: Budget, n_steps: int, batch: int, n_samples: int
) -> float | None:
    """Noise to begin with; None leaves it to the accountant."""
    if calibration == "accountant":
        return None
    return sgd_advanced_stddev(budget, 1.0, steps=n_steps, batch=batch, n_samples=n_samples)


def _time(size: float, schedule: str, n_steps: int) -> float:
    """The sum of the step sizes."""
    if schedule == "1/sqrt(t)":
        return size * (2.0 * math.sqrt(n_steps + 0.5) - 1.0)
    return size * (n_steps if schedule == "constant" else math.log1p(n_steps))


def _first_step(
    step: float | str, schedule: str, n_steps: int, time: float, largest: float, alpha: float | None
) -> float:
    if step != "auto":
        return check_real("step", step, low=0.0, low_open=True, high=1e100)
    if schedule == "1/t" and alpha is not None:
        return 1.0 / alpha
    return min(largest, time / _time(1.0, schedule, n_steps))


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
    exact={"batch": "full", "steps": 2500, "step": 0.7, "average": "none", "clip_norm": 1e100},
)
