"""IBM's diffprivlib: objective perturbation with its defaults."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from bench.competitors._contract import Task

NAME = "diffprivlib"
MODULE = "diffprivlib.models"
RELATION, DELTA = "replace_one", False
GUARANTEE = (
    "epsilon-DP under replace_one by its own claim (Chaudhuri et al. 2011, C = 1); floating-point "
    "noise, an optimizer's tolerance that is not accounted for, the intercept's column not in the "
    "row norm"
)


def fit(task: Task) -> NDArray[np.float64]:
    from diffprivlib.models import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(
            epsilon=task.epsilon, data_norm=task.data_norm, max_iter=1000, random_state=task.seed
        ).fit(task.X, task.y)
    return np.append(model.coef_[0], model.intercept_)
