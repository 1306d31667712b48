r"""The exponential mechanism: weights of density ``exp(-s F)`` on a ball, sampled exactly.

``F(w) = (1/n) Σ ℓ_i + (α/2)‖w‖²`` on ``‖w‖ <= r``, with the radius r of a ball that holds the
minimizer of every data set (:meth:`dpfast.ProblemShape.minimizer_norm`), and ``s`` the largest for
which the sample is ε-DP; :mod:`dpfast.fused.ball_sample` has the proof and the sampler.  Only
rejection is exact, and only a ridge keeps it short: about ``exp(β/(2α))`` proposals at most, each a
pass over the rows.  docs/exponential.md has a table of what is within reach.

``F`` may also be any function of the data with declared constants, a
:class:`~dpfast.objectives.General` objective: ``s = ε / (2 r G)``, G its gradient sensitivity, and
about ``(β/µ)^(d/2)`` proposals.

Sources: McSherry & Talwar 2007; Bassily, Smith & Thakurta 2014, Algorithm 2; Lowy & Razaviyayn
2021, Algorithm 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

from dpfast._validation import check_real
from dpfast.curator import Curator
from dpfast.fused import BallSample
from dpfast.fused.ball_sample import check_shape
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget
from dpfast.privacy.calibration import budget_epsilon
from dpfast.shape import ProblemShape
from dpfast.solvers._contract import (
    TYPICAL_MARGIN,
    Outcome,
    Plan,
    Solver,
    check_alpha,
    settle_minimizer_norm,
)

NAME = "exponential"

_WHERE = "sample of the exponential mechanism"
# Ridges to choose from, in units of the smoothness.
_RIDGES = 2.0 ** (np.arange(-80, 81) / 8.0)
_AUTO_TRIALS = 1e3
_MAX_TRIALS = 1e6


@dataclass(frozen=True)
class Settings:
    """What a run follows; the rest is derived from the access, for display."""

    ball: BallSample
    radius: float
    inverse_temperature: float


def plan(
    shape: Any,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    minimizer_norm: float | None = None,
    max_trials: float = _MAX_TRIALS,
) -> Plan[Settings]:
    """Settle ridge, ball and temperature from public quantities.

    Parameters
    ----------
    shape : ProblemShape or GeneralShape
    budget : Budget
        Its delta is not used.
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss.  None takes that of `shape`, or "auto" if it has none.  "auto"
        minimizes the bound ``(α/2) minimizer_norm² + d/s`` among those that need at most some
        1000 proposals.
    minimizer_norm : float or None
        Guess of the norm of the best weights, for "auto" alpha; None is 6 over the row norm.  Of an
        objective, which declares a bound, it must be None, as must `alpha`.
    max_trials : float, default=1e6
        Estimated proposals from which on a given alpha, or an objective, is refused.
    """
    check_shape(shape, NAME)
    epsilon = budget_epsilon(budget)

    def make(ridge: float | None) -> BallSample:
        public = shape if ridge is None else shape.with_alpha(ridge)
        radius = shape.minimizer_norm if ridge is None else public.minimizer_norm(ridge)
        return BallSample(public, epsilon, neighboring_relation, radius=radius, where=_WHERE)

    ball, bound = choose(shape, alpha, minimizer_norm, max_trials, make, NAME)
    return Plan(
        solver=NAME,
        shape=ball.shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=((ball, 1),),
        settings=Settings(ball, ball.radius, ball.scale),
        expected={"excess_risk_bound": bound, "proposals": trials(ball)},
        objective=None if isinstance(shape, ProblemShape) else shape,
    )


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Ask for a sample: proposals are drawn until one is accepted."""
    return Outcome(curator.release(plan.settings.ball))


def choose(
    shape: Any,
    alpha: float | str | None,
    minimizer_norm: float | None,
    max_trials: float,
    make: Callable[[float | None], BallSample],
    name: str,
) -> tuple[BallSample, float]:
    """Return the ball of the given ridge, or of the best one, and its excess-risk bound."""
    max_trials = check_real("max_trials", max_trials, low=1.0)
    if not isinstance(shape, ProblemShape):
        return _of_objective(alpha, minimizer_norm, max_trials, make, name)
    size = settle_minimizer_norm(minimizer_norm, TYPICAL_MARGIN / shape.row_norm)

    def bound(ball: BallSample) -> float:
        return 0.5 * ball.alpha * size**2 + excess_risk(ball)

    given = check_alpha(alpha, shape)
    if given is None:
        # On a fixed grid of ridges, so that a larger epsilon is never worse.
        balls = [make(ridge) for ridge in (shape.smoothness * _RIDGES).tolist()]
        balls = [ball for ball in balls if trials(ball) <= min(max_trials, _AUTO_TRIALS)]
        if not balls:
            raise ValueError(
                f"alpha='auto' finds no ridge for which solver={name!r} could draw an exact sample "
                f"in some {_AUTO_TRIALS:.0f} passes over the rows: epsilon times n_samples is too "
                f"small for {shape.dim} weights. Use solver='output-perturbation'."
            )
        best = min(balls, key=bound)
        return best, bound(best)
    ball = make(given)
    if trials(ball) > max_trials:
        raise ValueError(
            f"alpha={ball.alpha:.4g} is too small for solver={name!r}: an exact sample would take "
            f"about {trials(ball):.2g} passes over the rows, over max_trials={max_trials:.2g}. "
            f"Give a larger alpha or 'auto', or use solver='output-perturbation'."
        )
    return ball, bound(ball)


def _of_objective(
    alpha: float | str | None,
    minimizer_norm: float | None,
    max_trials: float,
    make: Callable[[float | None], BallSample],
    name: str,
) -> tuple[BallSample, float]:
    """Return the one ball of an objective, which has its own strong convexity."""
    for option, value in (("alpha", alpha), ("minimizer_norm", minimizer_norm)):
        if value is not None:
            raise ValueError(
                f"{option} must be None for an objective, which declares its own; got {value!r}."
            )
    ball = make(None)
    if trials(ball) > max_trials:
        raise ValueError(
            f"smoothness={ball.shape.smoothness:.4g} is too far above strong_convexity="
            f"{ball.alpha:.4g} for solver={name!r} in {ball.shape.dim} dimensions: an exact sample "
            f"would take about {trials(ball):.2g} values of the objective, over "
            f"max_trials={max_trials:.2g}. Use solver='output-perturbation'."
        )
    return ball, excess_risk(ball)


def excess_risk(ball: BallSample) -> float:
    """Bound ``d / s`` of the expected excess of F over its minimum on the ball.

    For a convex F, ``E F - min F <= d / s`` under the density ``exp(-s F)`` on a convex body (de
    Klerk & Laurent 2018, Theorem 3.3; equality for linear F on a cone).
    """
    return float(ball.shape.dim / ball.scale)


def trials(ball: BallSample) -> float:
    """Estimate of the proposals for one sample, from public quantities.

    On the whole space it is at most ``det(H/µ)^½``, H a bound of the Hessian: ``(β/µ)^(d/2)`` for
    an objective.  For a problem ``H = αI + A``, where ``A = max|ℓ''| mean x̃x̃ᵀ`` has trace β at
    most: ``(1 + β/(dα))^(d/2) <= exp(β/(2α))`` (arithmetic and geometric means).  That is divided
    by the share of the widest Gaussian, of variance ``1/(sµ)``, that a ball around its center
    holds.
    """
    d, mu = ball.shape.dim, ball.alpha
    inside = float(chi2.cdf(ball.scale * mu * min(ball.radius, ball.domain) ** 2, d))
    if isinstance(ball.shape, ProblemShape):
        growth = 0.5 * d * math.log1p(ball.shape.smoothness / (d * mu))
    else:
        growth = 0.5 * d * math.log(ball.shape.smoothness / mu)
    return math.exp(min(growth, 600.0)) / max(inside, 1e-300)


SOLVER = Solver(
    name=NAME,
    doc=__doc__,
    plan=plan,
    run=run,
    budgets=("pure", "approximate"),
    relations=NEIGHBORING_RELATIONS,
    row_access="sums",
    resumable=True,
    minimizes=True,
    expects="excess_risk_bound",
    takes_objectives=True,
)
