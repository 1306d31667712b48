"""dpfast: differentially private linear models, fast."""

from dpfast import _compiled as _compiled
from dpfast._show_versions import show_versions
from dpfast._version import __version__
from dpfast.errors import (
    BudgetExceeded,
    CertificateNotReached,
    DpfastError,
    PrivacyLeakWarning,
    UnsupportedEvent,
)
from dpfast.estimators import (
    CoefficientPrior,
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    NegativeBinomialRegressor,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
)
from dpfast.losses import Loss
from dpfast.privacy import Budget, BudgetAccountant, Ledger, PrivacyReport
from dpfast.problem import Problem
from dpfast.shape import ProblemShape
from dpfast.solvers import Plan, Result, plan, solve
from dpfast.tabular import TableModel

__all__ = [
    "Budget",
    "BudgetAccountant",
    "BudgetExceeded",
    "CertificateNotReached",
    "CoefficientPrior",
    "DpfastError",
    "GammaRegressor",
    "HuberRegressor",
    "Ledger",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "Loss",
    "NegativeBinomialRegressor",
    "Plan",
    "PoissonRegressor",
    "PrivacyLeakWarning",
    "PrivacyReport",
    "Problem",
    "ProblemShape",
    "QuantileRegressor",
    "Result",
    "TableModel",
    "TweedieRegressor",
    "UnsupportedEvent",
    "__version__",
    "plan",
    "show_versions",
    "solve",
]
