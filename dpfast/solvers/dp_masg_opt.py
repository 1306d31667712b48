"""Multistage accelerated gradient descent with the budget divided as its bound prefers.

Kuru et al. 2020, section 4.2, with the shares of Proposition 4.2.

Options: those of :func:`dpfast.solvers._gradient_method.plan` in `OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dpfast.privacy import NEIGHBORING_RELATIONS, Budget
from dpfast.shape import ProblemShape
from dpfast.solvers import _gradient_method
from dpfast.solvers._contract import LegacyPlan as Plan

NAME = "dp-masg-opt"
OPTIONS = (*_gradient_method.OPTIONS, "p", "first_stage")
BUDGET_KINDS = ("pure", "approximate", "zcdp", "gdp")
RELATIONS = NEIGHBORING_RELATIONS
MINIMIZES = True
EXACT: Mapping[str, Any] = MappingProxyType({"iterations": 400, "step": 1.0, "first_stage": 400})
EXPECTS = _gradient_method.EXPECTS

run = _gradient_method.run


def plan(shape: ProblemShape, budget: Budget, **options: Any) -> Plan:
    """Settle the run from public quantities; see :func:`dpfast.solvers._gradient_method.plan`."""
    return _gradient_method.plan(
        NAME, "multistage", shape, budget, **{"split": "optimal", **options}
    )
