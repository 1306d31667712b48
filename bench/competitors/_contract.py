"""What every competitor does: the same task in, weights out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """Logistic regression on rows of norm at most `data_norm`, labels -1 and +1.

    The objective is ``(1/n) Σ log(1 + exp(-y_i (<x_i, w> + b))) + (alpha/2)(‖w‖² + b²)``.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    data_norm : float
    epsilon, delta : float
        Ignored by competitors that promise nothing, delta by those that promise pure epsilon.
    alpha : float or None
        Ridge; None leaves it to the competitor.
    seed : int
    blocks : tuple
        How columns were declared, see :class:`bench.problems.Dataset`; who has no use for it
        ignores it.
    """

    X: Rows
    y: Vector
    data_norm: float
    epsilon: float = 1.0
    delta: float = 1e-6
    alpha: float | None = None
    seed: int = 0
    blocks: tuple[tuple[str, int, int], ...] = ()


class Competitor(Protocol):
    """Signature of the modules in this package."""

    NAME: str
    #: What is promised, and what is not.
    GUARANTEE: str
    #: The neighboring relation of that promise; "none" where there is no promise.
    RELATION: str
    #: Whether the promise has a delta.
    DELTA: bool

    def missing(self) -> str | None:
        """Why this competitor cannot run here, or None."""
        ...

    def fit(self, task: Task) -> Vector:
        """What a user of it would call; the weights (d + 1,), the intercept last."""
        ...
