"""dpfast's output perturbation, the algorithm that the NumPy baseline has too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.competitors._contract import Task
from bench.competitors.dpfast_native import DELTA as DELTA
from bench.competitors.dpfast_native import GUARANTEE as GUARANTEE
from bench.competitors.dpfast_native import RELATION as RELATION
from bench.competitors.dpfast_native import minimize as minimize
from bench.competitors.dpfast_native import missing as missing

NAME = "dpfast, output perturbation"


def fit(task: Task) -> NDArray[np.float64]:
    from dpfast import LogisticRegression

    model = LogisticRegression(
        epsilon=task.epsilon,
        delta=task.delta,
        solver="output-perturbation",
        alpha="auto" if task.alpha is None else task.alpha,
        data_norm=task.data_norm,
        classes=[-1.0, 1.0],
        random_state=task.seed,
    ).fit(task.X, task.y)
    return np.append(model.coef_[0], model.intercept_)
