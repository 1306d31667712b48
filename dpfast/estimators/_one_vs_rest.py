"""Several problems over the same rows on one ledger: one class against the rest, for each class.

Every row is in every problem, so there is no parallel composition: one person changes all k of
them.  Each problem gets the same share of the budget, and the shares compose exactly where they
can:

* a solver of Gaussian releases only gets ``µ / √k`` (Dong, Roth & Su 2022, Corollary 3.3: for
  Gaussian mechanisms GDP composes by adding squares, without loss);
* one that serves zCDP gets ``ρ / k`` (Bun & Steinke 2016, Lemma 2.3);
* otherwise, and for pure budgets, each gets ``(ε / k, δ / k)``.

The shares are a matter of utility.  What is promised is what one ledger with the whole budget
admits: all accesses of all k problems are checked against it before the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpfast._validation import check_choice
from dpfast.privacy import Budget, Event, budget_mu
from dpfast.privacy.calibration import MARGIN, budget_rho
from dpfast.shape import ProblemShape
from dpfast.solvers import SOLVERS, Plan, plan, served

# Accountants under which Gaussian releases add up by squares.
BY_SQUARES = ("auto", "gdp", "zcdp", "rdp", "basic")
# The solver for "auto" among those that make Gaussian releases only.
_GAUSSIAN = "dp-whitened-gd"


def share_of(
    budget: Budget,
    parts: int,
    solver: str,
    accountant: str,
    shape: ProblemShape,
    options: Sequence[str],
) -> tuple[str, Budget, str]:
    """Solver, budget and accountant of each of several fits that together stay within a budget."""
    check_choice("solver", solver, ("auto", *SOLVERS))
    if budget.kind != "pure" and accountant in BY_SQUARES:
        if solver == "auto":
            solver = _GAUSSIAN if served(SOLVERS[_GAUSSIAN], shape, budget, options) else solver
        kinds = () if solver == "auto" else SOLVERS[solver].budgets
        if "gdp" in kinds:
            mu_each = budget_mu(budget, accountant) / math.sqrt(parts) * (1.0 - MARGIN)
            return solver, Budget(mu=mu_each), "auto"
        if "zcdp" in kinds and accountant != "gdp":
            return solver, Budget(rho=budget_rho(budget) / parts * (1.0 - MARGIN)), "auto"
    epsilon = budget.limit / parts * (1.0 - MARGIN)
    return solver, Budget(epsilon, budget.delta / parts * (1.0 - MARGIN)), accountant


def planned(
    shape: ProblemShape,
    parts: int,
    solver: str,
    budget: Budget,
    *,
    accountant: str,
    **settings: Any,
) -> tuple[Plan[Any], tuple[Event, ...]]:
    """Plan of each of `parts` fits that share a budget, and the accesses of all of them.

    Raises
    ------
    ValueError
        If the solver decides along the way what to spend: it would leave nothing for the others.
    """
    if parts == 1:
        result = plan(shape, solver, budget, accountant=accountant, **settings)
        return result, result.events
    options = [name for name in settings if name != "neighboring_relation"]
    name, share, pricing = share_of(budget, parts, solver, accountant, shape, options)
    result = plan(shape, name, share, accountant=pricing, **settings)
    if result.adaptive:
        raise ValueError(
            f"solver must fix its accesses to the data beforehand for more than two classes; "
            f"got {result.solver!r}. solver='auto' does."
        )
    return result, result.events * parts
