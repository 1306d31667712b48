"""dpfast itself, through the estimator that users call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.competitors._contract import Task

NAME = "dpfast"
GUARANTEE = "(epsilon, delta)-DP under replace_one; exact discrete noise, rounding error charged"
RELATION, DELTA = "replace_one", True

Vector = NDArray[np.float64]


def missing() -> str | None:
    try:
        import dpfast  # noqa: F401
    except ImportError as error:
        return f"dpfast is not built here ({error})"
    return None


def fit(task: Task, *, delta: float | None = None, relation: str = RELATION) -> Vector:
    from dpfast import LogisticRegression

    model = LogisticRegression(
        epsilon=task.epsilon,
        delta=task.delta if delta is None else delta,
        neighboring_relation=relation,
        alpha="auto" if task.alpha is None else task.alpha,
        data_norm=task.data_norm,
        classes=[-1.0, 1.0],
        random_state=task.seed,
    ).fit(task.X, task.y)
    return np.append(model.coef_[0], model.intercept_)


def minimize(task: Task) -> Vector:
    """The minimizer without noise, to the tolerance that output perturbation would ask for."""
    from dpfast import Budget, Problem, plan
    from dpfast.objectives import Erm
    from dpfast.optimizers import OPTIMIZERS

    problem = Problem(task.X, task.y, "logistic", task.alpha, task.data_norm)
    settled = plan(problem, "output-perturbation", Budget(task.epsilon, task.delta))
    assert settled.shape.alpha is not None
    optimizer = OPTIMIZERS[settled.settings.optimizer]
    result = optimizer(
        Erm(problem, settled.shape.alpha), tolerance=settled.settings.gradient_tolerance
    )
    return result.w
