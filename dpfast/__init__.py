"""dpfast: differentially private linear models, fast."""

from dpfast._version import __version__
from dpfast.errors import (
    BudgetExceeded,
    CertificateNotReached,
    DpfastError,
    PrivacyLeakWarning,
    UnsupportedEvent,
)
from dpfast.estimators import LogisticRegression
from dpfast.losses import Loss
from dpfast.privacy import Budget, BudgetAccountant, Ledger, PrivacyReport
from dpfast.problem import Problem, ProblemShape
from dpfast.solvers import Plan, Result, plan, solve

__all__ = [
    "Budget",
    "BudgetAccountant",
    "BudgetExceeded",
    "CertificateNotReached",
    "DpfastError",
    "Ledger",
    "LogisticRegression",
    "Loss",
    "Plan",
    "PrivacyLeakWarning",
    "PrivacyReport",
    "Problem",
    "ProblemShape",
    "Result",
    "UnsupportedEvent",
    "__version__",
    "plan",
    "solve",
]
