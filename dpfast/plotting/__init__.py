"""Pictures: what a guarantee means, where a budget went, what privacy costs.

Displays are like scikit-learn's: class methods ``from_...`` compute and draw, the values are
attributes, ``plot(ax)`` draws again, and ``ax_`` and ``figure_`` are matplotlib's. They need the
extra ``plot``, without which they raise ImportError.
"""

from dpfast.plotting.attacks import AttackDisplay
from dpfast.plotting.budget import BudgetDisplay, plot_ledger
from dpfast.plotting.coefficients import CoefficientDisplay
from dpfast.plotting.released import plot_history
from dpfast.plotting.risk_bounds import plot_risk_bounds
from dpfast.plotting.trade_off import TradeOffDisplay
from dpfast.plotting.utility import PrivacyUtilityDisplay, SolverComparisonDisplay
from dpfast.privacy import trade_off

__all__ = [
    "AttackDisplay",
    "BudgetDisplay",
    "CoefficientDisplay",
    "PrivacyUtilityDisplay",
    "SolverComparisonDisplay",
    "TradeOffDisplay",
    "plot_history",
    "plot_ledger",
    "plot_risk_bounds",
    "trade_off",
]
