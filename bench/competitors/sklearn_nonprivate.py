"""scikit-learn's LogisticRegression with its default solver: what privacy is paid against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.competitors._contract import Task

NAME = "scikit-learn"
MODULE = "sklearn.linear_model"
GUARANTEE = "none (not private)"
RELATION, DELTA = "none", False

Vector = NDArray[np.float64]


def fit(task: Task) -> Vector:
    """With its own stopping rule and its intercept outside the ridge, as users call it."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=_inverse_ridge(task), solver="lbfgs", max_iter=1000)
    model.fit(task.X, task.y)
    return np.append(model.coef_[0], model.intercept_)


def _inverse_ridge(task: Task) -> float:
    return 1.0 if task.alpha is None else 1.0 / (task.alpha * len(task.y))
