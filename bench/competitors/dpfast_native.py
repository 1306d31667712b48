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


def fit(
    task: Task, *, solver: str = "auto", delta: float | None = None, relation: str = RELATION
) -> Vector:
    from dpfast import LogisticRegression
    from dpfast.column_blocks import ColumnBlock

    model = LogisticRegression(
        epsilon=task.epsilon,
        delta=task.delta if delta is None else delta,
        neighboring_relation=relation,
        solver=solver,
        alpha="auto" if task.alpha is None else task.alpha,
        data_norm=task.data_norm,
        classes=[-1.0, 1.0],
        random_state=task.seed,
        column_blocks=[ColumnBlock(*block) for block in task.blocks] or None,
    ).fit(task.X, task.y)
    return np.append(model.coef_[0], model.intercept_)
