"""Nesterov's accelerated method on noisy gradients (Kuru et al. 2020, section 4).

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

NAME = "dp-nag"
OPTIONS = _gradient_method.OPTIONS
BUDGET_KINDS = ("pure", "approximate", "zcdp", "gdp")
RELATIONS = NEIGHBORING_RELATIONS
MINIMIZES = True
EXACT: Mapping[str, Any] = MappingProxyType({"iterations": 400, "step": 1.0})
EXPECTS = _gradient_method.EXPECTS

run = _gradient_method.run


def plan(shape: ProblemShape, budget: Budget, **options: Any) -> Plan:
    """Settle the run from public quantities; see :func:`dpfast.solvers._gradient_method.plan`."""
    return _gradient_method.plan(NAME, "nesterov", shape, budget, **{"split": "uniform", **options})
