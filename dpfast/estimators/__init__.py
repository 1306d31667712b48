"""scikit-learn estimators: validate, build the problem, plan, run."""

from dpfast.estimators._intervals import CoefficientInterval
from dpfast.estimators._prior import CoefficientPrior
from dpfast.estimators.gamma import GammaRegressor
from dpfast.estimators.huber import HuberRegressor
from dpfast.estimators.linear_regression import LinearRegression
from dpfast.estimators.linear_svc import LinearSVC
from dpfast.estimators.logistic import LogisticRegression
from dpfast.estimators.negative_binomial import NegativeBinomialRegressor
from dpfast.estimators.poisson import PoissonRegressor
from dpfast.estimators.quantile import QuantileRegressor
from dpfast.estimators.tweedie import TweedieRegressor

__all__ = [
    "CoefficientInterval",
    "CoefficientPrior",
    "GammaRegressor",
    "HuberRegressor",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "NegativeBinomialRegressor",
    "PoissonRegressor",
    "QuantileRegressor",
    "TweedieRegressor",
]
