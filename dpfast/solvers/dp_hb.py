"""The heavy ball on noisy gradients (Kuru et al. 2020, section 3; Polyak 1964).

Options: those of :func:`dpfast.solvers._gradient_method.plan` in `OPTIONS`.  A momentum that
:func:`dpfast.theory.kuru2020.simple_certificate` does not cover is accepted; the expected error is
then that of the worst quadratic.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dpfast.privacy import NEIGHBORING_RELATIONS, Budget
from dpfast.shape import ProblemShape
from dpfast.solvers import _gradient_method
from dpfast.solvers._contract import LegacyPlan as Plan

NAME = "dp-hb"
OPTIONS = _gradient_method.OPTIONS
BUDGET_KINDS = ("pure", "approximate", "zcdp", "gdp")
RELATIONS = NEIGHBORING_RELATIONS
MINIMIZES = True
EXACT: Mapping[str, Any] = MappingProxyType({"iterations": 2500, "step": 0.5})
EXPECTS = _gradient_method.EXPECTS

run = _gradient_method.run


def plan(shape: ProblemShape, budget: Budget, **options: Any) -> Plan:
    """Settle the run from public quantities; see :func:`dpfast.solvers._gradient_method.plan`."""
    return _gradient_method.plan(
        NAME, "heavy-ball", shape, budget, **{"split": "uniform", **options}
    )
