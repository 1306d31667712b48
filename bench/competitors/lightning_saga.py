"""scikit-learn-contrib's lightning: SAGA, not private."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.competitors._contract import Task

NAME = "lightning"
MODULE = "lightning.classification"
RELATION, DELTA = "none", False
GUARANTEE = "none (not private): SAGA with a ridge of 1/n"


def fit(task: Task) -> NDArray[np.float64]:
    """It has no intercept: the rows get a column of ones."""
    from lightning.classification import SAGAClassifier

    X = np.column_stack([task.X, np.ones(len(task.y))])
    model = SAGAClassifier(
        loss="log", alpha=1.0 / len(task.y), max_iter=20, tol=1e-4, random_state=task.seed
    ).fit(X, task.y)
    return np.asarray(model.coef_, dtype=np.float64).ravel()
