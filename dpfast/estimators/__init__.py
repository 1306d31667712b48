"""scikit-learn estimators: validate, build the problem, plan, run."""

from dpfast.estimators.logistic import LogisticRegression

__all__ = ["LogisticRegression"]
