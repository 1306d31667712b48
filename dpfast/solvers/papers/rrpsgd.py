r"""RRPSGD: noisy steps along single records, stopped at a random time (Zhang et al. 2017, Alg. 2).

For smooth losses, convex or not.  Every step draws one record uniformly, takes its gradient, which
is at most ``L`` long, adds Gaussian noise and moves by the step size.  What a step sees is a
release of :class:`dpfast.fused.SampledSteps` with batches of one row; neighbors differ in a
replaced row, which moves it by at most ``2L``.  The noise pays for all ``N`` steps (n²
in the paper), however many are taken: their number R is drawn from a law that does not depend on
the data, so the run is a post-processing of N releases, of which the last are not even made.  All N
are charged before the first.

R.  Smoothness gives, with ``ζ_k`` the error of the k-th noisy gradient and ``σ²`` a bound of its
variance, ``Σ_k (2η_k - βη_k²) E‖∇F(w_k)‖² <= 2(F(w_0) - F*) + βσ²Σ_k η_k²`` (Ghadimi & Lan 2013,
Theorem 2.1), the sum over k = 0, ..., N - 1 of the points *from which* the steps are taken.
Theorem 5 of Zhang et al. draws ``R = k + 1`` with the k-th weight and returns the point after R
steps, one step later than the sum allows.  Here R = k, so that
:func:`gradient_norm_bound` is a theorem.  Their noise is by advanced composition for
``ε <= 1`` (``calibration="paper"``); by default it is by the ledger's accountant, at every ε, and
much smaller.

The noise is exact, unless floating-point noise is asked for. n² steps of exact noise may take
hours: by default no more steps are paid for than have 2^28 values of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpfast._validation import check_choice, check_integer, check_real
from dpfast.curator import Curator
from dpfast.fused import SampledSteps, State, Walk
from dpfast.privacy import Budget, affordable
from dpfast.privacy.papers import rrpsgd_noise_stddev
from dpfast.privacy.sampled_noise import check_priced
from dpfast.queries import BatchSum
from dpfast.shape import ProblemShape
from dpfast.solvers._contract import Outcome, Plan, Solver, with_ridge
from dpfast.solvers._noisy_epochs import (
    SCHEDULES,
    least_noisy_steps,
    natural_norm,
    step_sizes,
)

if TYPE_CHECKING:
    from dpfast.random import SecureGenerator

NAME = "rrpsgd"

_MAX_STEPS = 2**40
_WHERE = "all steps, taken or not"
_PROPOSALS = 4096
# So many values of exact noise take half a minute, and n² steps may take hours.
_DEFAULT_VALUES = 2**28


@dataclass(frozen=True)
class Settings:
    """What a run follows; the numbers are those of :func:`plan` or derived from them."""

    access: SampledSteps
    steps: int
    step: float
    schedule: str
    noise: str
    noise_multiplier: float
    gradient_variance: float


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    steps: int | str = "auto",
    step: float | str = "auto",
    schedule: str = "constant",
    noise: str = "auto",
    initial_gap: float | None = None,
    calibration: str = "tight",
) -> Plan[Settings]:
    """Settle steps and noise from public quantities.

    Parameters
    ----------
    neighboring_relation : {"replace_one"}
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss; None and "auto" take that of `shape`, or none.
    steps : int or "auto", default="auto"
        N, the number of steps that are paid for; "auto" is ``n²``, but no more than 2^28 values of
        exact noise are enough for, unless the calibration is "paper".
    step : float or "auto", default="auto"
        Size of the first step, at most ``1/β``; "auto" is ``min(1/β, D/(σ√N))``.
    schedule : {"constant", "1/sqrt(t)", "1/t"}
        Sizes of the later ones.
    noise : {"auto", "discrete", "gaussian"}
        See :class:`dpfast.fused.SampledSteps`; "auto" is exact ("discrete").
    initial_gap : float or None, default=None
        Bound of ``F(0) - F*``; None is the loss's largest value at margin 0.
    calibration : {"tight", "paper"}
        "tight" is the least noise that the accountant admits.  "paper" is that of Theorem 4, for
        epsilon up to 1.  The ledger is charged what the accountant finds either way: with "paper"
        that is less than the budget, and the report says how much.
    """
    check_choice("schedule", schedule, tuple(SCHEDULES))
    check_choice("calibration", calibration, ("tight", "paper"))
    if not math.isfinite(shape.loss.smoothness):
        raise ValueError(f"loss must be smooth for {NAME}; got {shape.loss.name!r}.")
    if not math.isfinite(shape.loss.lipschitz):
        raise ValueError(f"loss must have a bounded slope for {NAME}; got {shape.loss.name!r}.")
    longest = natural_norm(shape)
    if initial_gap is None:
        initial_gap = shape.loss.at_zero * shape.max_weight
        if not math.isfinite(initial_gap):
            raise ValueError(
                f"initial_gap must be given for the loss {shape.loss.name!r}, whose value at "
                "margin 0 has no bound; got None."
            )
    initial_gap = check_real("initial_gap", initial_gap, low=0.0, low_open=True)
    shape = with_ridge(shape, alpha)
    if steps == "auto":
        most = max(1, _DEFAULT_VALUES // shape.dim)
        if calibration == "paper" or noise == "gaussian":
            most = _MAX_STEPS
        steps = min(shape.n_samples**2, most)
    steps = check_integer("steps", steps, low=1, high=_MAX_STEPS)
    query = BatchSum(shape, "fixed-size", 1, longest)
    steps_of = _paper_steps if calibration == "paper" else least_noisy_steps
    access = steps_of(
        query, budget, accountant, neighboring_relation, n_steps=steps, noise=noise
    ).named(_WHERE)
    smoothness = shape.smoothness + (shape.alpha or 0.0)
    deviation = access.stddev
    variance = 4.0 * shape.lipschitz**2 + shape.dim * deviation**2
    if step == "auto":
        distance = math.sqrt(2.0 * initial_gap / smoothness)
        step = min(1.0 / smoothness, distance / math.sqrt(variance * steps))
    step = check_real("step", step, low=0.0, low_open=True, high=1.0 / smoothness)
    return Plan(
        solver=NAME,
        shape=shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=((access, 1),),
        settings=Settings(
            access=access,
            steps=steps,
            step=step,
            schedule=schedule,
            noise=access.noise,
            noise_multiplier=access.noise_multiplier,
            gradient_variance=variance,
        ),
        expected={
            "noise_stddev_of_a_gradient": deviation,
            "gradient_norm_bound": gradient_norm_bound(
                step, schedule, steps, smoothness, variance, initial_gap
            ),
        },
    )


def _paper_steps(
    query: BatchSum,
    budget: Budget,
    accountant: str,
    neighboring_relation: str,
    *,
    n_steps: int,
    noise: str,
) -> SampledSteps:
    """Steps with the noise of Theorem 4, which an accountant must confirm."""
    check_priced(accountant, query.sampling, neighboring_relation)
    shape, sensitivity = query.shape, query.sensitivity(neighboring_relation)
    multiplier = rrpsgd_noise_stddev(budget, shape.lipschitz, shape.n_samples) / sensitivity
    steps = SampledSteps(query, multiplier, neighboring_relation, n_steps=n_steps, noise=noise)
    if not affordable(steps.events(), budget, accountant):
        raise ValueError(
            "calibration='paper' is noise for n² steps, here "
            f"{shape.n_samples**2:,}; with steps={n_steps:,} the ledger of {budget} would refuse "
            "it. Take fewer steps, or calibration='tight'."
        )
    return steps


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Draw how many of the steps are taken, pay for all of them, and take these."""
    settings, alpha = plan.settings, plan.shape.alpha or 0.0
    smoothness = plan.shape.smoothness + alpha
    rounds = draw_rounds(
        curator.public_rng, settings.step, settings.schedule, settings.steps, smoothness
    )
    walk = Walk(step_sizes(settings.step, settings.schedule), alpha=alpha)
    state = curator.release(settings.access, State(np.zeros(plan.shape.dim)), walk, rounds)
    return Outcome(state.w, {"rounds": np.array([rounds])})


def gradient_norm_bound(
    step: float,
    schedule: str,
    n_steps: int,
    smoothness: float,
    variance: float,
    initial_gap: float,
) -> float:
    """Theorem 5: bound of ``E‖∇F(w_R)‖²``, ``(2 gap + βσ²Ση²) / Σ(2η - βη²)``; ``η_0 <= 1/β``."""
    n = float(n_steps)
    # Euler-Maclaurin sums of 1/√t, 1/t and 1/t², relative errors below a tenth at n = 1.
    harmonic = math.log(n) + 0.57721566490153286 + 0.5 / n
    total, squares = {
        "constant": (n, n),
        "1/sqrt(t)": (2.0 * math.sqrt(n) - 1.4603545088095868 + 0.5 / math.sqrt(n), harmonic),
        "1/t": (harmonic, math.pi**2 / 6.0 - 1.0 / (n + 0.5)),
    }[schedule]
    total, squares = step * total, step**2 * squares
    return (2.0 * initial_gap + smoothness * variance * squares) / (
        2.0 * total - smoothness * squares
    )


def draw_rounds(
    rng: SecureGenerator, step: float, schedule: str, n_steps: int, smoothness: float
) -> int:
    """Draw R in {0, ..., N - 1} with probability proportional to ``2η_R - βη_R²``.

    By rejection from the uniform law: the weights fall with the sizes, which are at most ``1/β``.
    """
    largest = step * (2.0 - smoothness * step)
    limit = 2**64 // n_steps * n_steps
    while True:
        words = rng.uint64(2 * _PROPOSALS).reshape(2, -1)
        fair = words[0] <= limit - 1
        rounds = words[0] % np.uint64(n_steps)
        uniform = (words[1] >> np.uint64(11)) * 2.0**-53
        if schedule == "constant":
            accepted = fair
        else:
            eta = step * SCHEDULES[schedule](rounds.astype(np.float64) + 1.0)
            accepted = fair & (uniform * largest < eta * (2.0 - smoothness * eta))
        if accepted.any():
            return int(rounds[accepted.argmax()])


SOLVER = Solver(
    name=NAME,
    doc=__doc__,
    plan=plan,
    run=run,
    budgets=("approximate",),
    relations=("replace_one",),
    row_access="single rows",
    resumable=True,
    minimizes=False,
    expects="gradient_norm_bound",
)
