"""Private solvers: one algorithm a file, found by name.

:func:`plan` plans a fit from public quantities; :func:`solve` plans, spends and runs.
"""

from dpfast.solvers._contract import Outcome, Plan, Result, Solver
from dpfast.solvers._driver import begin, carry_out, fit_each, plan, served, solve
from dpfast.solvers._table import SOLVERS

__all__ = [
    "SOLVERS",
    "Outcome",
    "Plan",
    "Result",
    "Solver",
    "begin",
    "carry_out",
    "fit_each",
    "plan",
    "served",
    "solve",
]
