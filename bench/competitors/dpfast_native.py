"""dpfast itself, through the estimator that users call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bench.competitors._contract import Task

NAME = "dpfast"
MODULE = "dpfast"
GUARANTEE = "(epsilon, delta)-DP under replace_one; exact discrete noise, rounding error charged"
RELATION, DELTA = "replace_one", True

Vector = NDArray[np.float64]


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


@dataclass(frozen=True)
class Variant:
    """dpfast with another promise, or another solver."""

    NAME: str
    RELATION: str
    DELTA: bool
    GUARANTEE: str
    fit: Callable[[Task], Vector]
    MODULE: str = MODULE


#: Output perturbation solves once, as scikit-learn does.
OUTPUT = Variant(
    "dpfast, output perturbation",
    RELATION,
    True,
    GUARANTEE,
    partial(fit, solver="output-perturbation"),
)
#: Under the relation that DP-SGD's libraries use.
UNBOUNDED = Variant(
    "dpfast, add_or_remove_one",
    "add_or_remove_one",
    True,
    GUARANTEE.replace("replace_one", "add_or_remove_one"),
    partial(fit, relation="add_or_remove_one"),
)
#: Without a delta, as diffprivlib.
PURE = Variant(
    "dpfast, pure",
    RELATION,
    False,
    "epsilon-DP under replace_one; noise from the secure stream, rounded to a grid",
    partial(fit, delta=0.0),
)
