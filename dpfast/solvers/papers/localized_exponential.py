r"""Localization, then the exponential mechanism: first where, then exactly where.

1. Output perturbation with pure l2-Laplace noise and a share of ε releases ``w₀``, and with
   it the ball of radius ``r`` around it, which holds the minimizer but with probability ``10⁻⁶``
   (the quantile of the noise's norm, a gamma variable; a miss costs accuracy, never privacy).
2. The exponential mechanism (:class:`~dpfast.fused.BallSample`) with the rest of ε samples from
   that ball, whose smaller radius lets it be colder: ``s = ε₂ n / (2 k r L)``, or
   ``ε₂ / (2 r G)`` for an objective that declares a gradient sensitivity G, of which the part
   beyond its domain ``‖w‖ <= R`` is left out.

Both are pure; the epsilons add up, though the second ball depends on the first release.  The excess
is ``O(L² d² log d / (α n² ε²))``, that of strong convexity, in place of ``O(d L R / (n ε))``
(without the two n for an objective that is no mean over records).

Sources: Bassily, Smith & Thakurta 2014, Section 4; Lowy & Razaviyayn 2021, Algorithms 10 and 11.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy.special import gammainccinv

from dpfast._validation import check_real
from dpfast.curator import Curator
from dpfast.fused import BallSample
from dpfast.fused.ball_sample import check_shape
from dpfast.mechanisms import L2Laplace
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget
from dpfast.privacy.calibration import budget_epsilon
from dpfast.shape import ProblemShape
from dpfast.solvers import output_perturbation
from dpfast.solvers._contract import Outcome, Plan, Solver
from dpfast.solvers.papers.exponential import choose, trials

NAME = "localized-exponential"

_WHERE = "sample of the exponential mechanism near the first release"
_MISS = 1e-6


@dataclass(frozen=True)
class Settings:
    """What a run follows; the last two are the ball's, for display."""

    first: Plan[output_perturbation.Settings]
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
    max_trials: float = 1e6,
    share: float = 0.5,
) -> Plan[Settings]:
    """Settle ridge, noise and temperature from public quantities.

    Parameters
    ----------
    shape, budget, neighboring_relation, accountant, alpha, minimizer_norm, max_trials
        As for :func:`dpfast.solvers.papers.exponential.plan`.
    share : float, default=0.5
        Part of epsilon for the first release.
    """
    check_shape(shape, NAME)
    share = check_real("share", share, low=0.01, high=0.99)
    epsilon = budget_epsilon(budget)

    def first(ridge: float | None) -> Plan[output_perturbation.Settings]:
        return output_perturbation.plan(
            shape,
            Budget(share * epsilon),
            neighboring_relation=neighboring_relation,
            alpha=ridge,
            noise="l2-laplace",
        )

    def make(ridge: float | None) -> BallSample:
        rough = first(ridge)
        public, mechanism = rough.shape, rough.settings.mechanism
        tolerance = rough.settings.gradient_tolerance
        assert isinstance(mechanism, L2Laplace) and tolerance is not None
        if ridge is None:
            modulus, largest = public.strong_convexity, public.minimizer_norm
        else:
            modulus, largest = ridge, public.minimizer_norm(ridge)
        quantile = float(gammainccinv(public.dim, _MISS)) * mechanism.scale
        radius = quantile + tolerance / modulus
        return BallSample(
            public,
            (1.0 - share) * epsilon,
            neighboring_relation,
            radius=min(radius * (1.0 + 1e-6), 2.0 * largest),
            # The first release is projected onto the ball that holds every minimizer.
            offset=largest * (1.0 + 1e-9),
            where=_WHERE,
        )

    ball, bound = choose(shape, alpha, minimizer_norm, max_trials, make, NAME)
    given = not isinstance(shape, ProblemShape)
    located = first(None if given else ball.alpha)
    return Plan(
        solver=NAME,
        shape=ball.shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=(*located.accesses, (ball, 1)),
        settings=Settings(located, ball, ball.radius, ball.scale),
        expected={"excess_risk_bound": bound, "proposals": trials(ball)},
        objective=shape if given else None,
    )


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Release a rough location, and sample around it."""
    settings = plan.settings
    curator.check(settings.first.settings.mechanism, settings.ball)
    center = output_perturbation.run(settings.first, curator).w
    return Outcome(curator.release(settings.ball, center))


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
