r"""Localization, then the exponential mechanism: first where, then exactly where.

1. Output perturbation with pure l2-Laplace noise and a share of ε releases ``w₀``, and with
   it the ball of radius ``r`` around it, which holds the minimizer but with probability ``10⁻⁶``
   (the quantile of the noise's norm, a gamma variable; a miss costs accuracy, never privacy).
2. The exponential mechanism with the rest of ε samples from that ball, whose smaller radius lets
   it be colder: ``s = ε₂ n / (2 k r L)``, or ``ε₂ / (2 r G)`` for an objective that declares a
   gradient sensitivity G, of which the part beyond its domain ``‖w‖ <= R`` is left out.

Both are pure; the epsilons add up, though the second ball depends on the first release.  The excess
is ``O(L² d² log d / (α n² ε²))``, that of strong convexity, in place of ``O(d L R / (n ε))``
(without the two n for an objective that is no mean over records).

Sources: Bassily, Smith & Thakurta 2014, Section 4; Lowy & Razaviyayn 2021, Algorithms 10 and 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from scipy.special import gammainccinv

from dpfast._validation import check_real
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, Ledger
from dpfast.privacy.calibration import budget_epsilon
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape
from dpfast.solvers import output_perturbation
from dpfast.solvers._ball import Ball, settle
from dpfast.solvers._contract import LegacyPlan as Plan
from dpfast.solvers._contract import Outcome
from dpfast.solvers.exponential import check_loss, check_planned, choose

NAME = "localized-exponential"
OPTIONS = ("alpha", "minimizer_norm", "max_trials", "share")
BUDGET_KINDS = ("pure", "approximate")
RELATIONS = NEIGHBORING_RELATIONS
MINIMIZES = True
EXACT: Mapping[str, Any] = MappingProxyType({})
EXPECTS = "excess_risk_bound"
TAKES_OBJECTIVES = True

_WHERE = "sample of the exponential mechanism near the first release"
_MISS = 1e-6


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
) -> Plan:
    """Settle ridge, noise and temperature from public quantities.

    Parameters
    ----------
    shape, budget, neighboring_relation, accountant, alpha, minimizer_norm, max_trials
        As for :func:`dpfast.solvers.exponential.plan`.
    share : float, default=0.5
        Part of epsilon for the first release.

    Returns
    -------
    Plan

    Raises
    ------
    TypeError, ValueError
        As for :func:`dpfast.solvers.exponential.plan`.
    """
    check_loss(shape, NAME)
    share = check_real("share", share, low=0.01, high=0.99)
    epsilon = budget_epsilon(budget)

    def first(ridge: float | None) -> Plan:
        return output_perturbation.plan(
            shape,
            Budget(share * epsilon),
            neighboring_relation=neighboring_relation,
            alpha=ridge,
            noise="l2-laplace",
        )

    def make(ridge: float | None) -> Ball:
        settled = first(ridge)
        public = settled.shape
        mechanism = settled.parameters["mechanism"]
        if ridge is None:
            modulus, largest = public.strong_convexity, public.minimizer_norm
        else:
            modulus, largest = ridge, public.minimizer_norm(ridge)
        quantile = float(gammainccinv(public.dim, _MISS)) * mechanism.scale
        radius = quantile + settled.parameters["gradient_tolerance"] / modulus
        return settle(
            public,
            (1.0 - share) * epsilon,
            neighboring_relation,
            radius=min(radius * (1.0 + 1e-6), 2.0 * largest),
            # The first release is projected onto the ball that holds every minimizer.
            offset=largest * (1.0 + 1e-9),
        )

    ball, bound = choose(shape, alpha, minimizer_norm, max_trials, make, NAME)
    given = not isinstance(shape, ProblemShape)
    located = first(None if given else ball.alpha)
    return Plan(
        solver=NAME,
        shape=ball.shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        events=(*located.events, ball.event(_WHERE)),
        parameters=MappingProxyType(
            {
                "first": located,
                "ball": ball,
                "radius": ball.radius,
                "inverse_temperature": ball.scale,
            }
        ),
        expected=MappingProxyType({"excess_risk_bound": bound, "proposals": ball.trials}),
        objective=shape if given else None,
    )


def run(plan: Plan, problem: Any, rng: SecureGenerator, ledger: Ledger) -> Outcome:
    """Spend all, release a rough location, and sample around it.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford it; no data is touched.
    CertificateNotReached
        See :mod:`dpfast.solvers.output_perturbation`.
    ValueError
        If the plan was made for another objective.
    """
    check_planned(plan, problem)
    ball: Ball = plan.parameters["ball"]
    ledger.check(*plan.events)
    center = output_perturbation.run(plan.parameters["first"], problem, rng, ledger).w
    ledger.spend(ball.event(_WHERE))
    return Outcome(ball.sample(problem, center, rng))
