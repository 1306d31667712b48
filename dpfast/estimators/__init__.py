"""scikit-learn estimators: validate, build the problem, plan, run."""

from dpfast.estimators._intervals import CoefficientInterval
from dpfast.estimators.huber import HuberRegressor
from dpfast.estimators.linear_regression import LinearRegression
from dpfast.estimators.linear_svc import LinearSVC
from dpfast.estimators.logistic import LogisticRegression
from dpfast.estimators.quantile import QuantileRegressor

__all__ = [
    "CoefficientInterval",
    "HuberRegressor",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "QuantileRegressor",
]
