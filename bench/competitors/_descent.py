"""What the hand-written descents have in common: the recipe, and how they pay for it.

Full-batch gradient descent in which every row's gradient is clipped and Gaussian noise is added to
the sum.  A row's presence moves a sum by at most the clip norm C, so noise of standard deviation s
costs ``C²/(2 s²)`` of zCDP a step (Bun & Steinke 2016, Proposition 1.6), steps add up, and ρ-zCDP
implies ``(ρ + 2 sqrt(ρ ln(1/δ)), δ)``-DP (Proposition 1.3).  The settings did best on RAND HIE
among seventeen, which no guarantee here pays for.
"""

from __future__ import annotations

import math

import numpy as np

from bench.competitors._contract import Rows, Task, Vector

RELATION, DELTA = "add_or_remove_one", True
CHOSEN = "settings chosen on RAND HIE for free"
STEPS, CLIP_NORM, RATE, MOMENTUM = 40, 1.0, 4.0, 0.9


def guarantee(library: str) -> str:
    """What a descent promises whose noise is of a library's usual generator."""
    return (
        "(epsilon, delta)-DP under add_or_remove_one in real arithmetic, by zCDP; noise of "
        f"{library}'s generator; {CHOSEN}"
    )


def rows(task: Task) -> Rows:
    """Rows of norm at most 1, and a column of ones."""
    return np.column_stack([task.X / task.data_norm, np.ones(len(task.y))])


def weights(w: Vector, task: Task) -> Vector:
    """What a descent on these rows found, for the task's own."""
    return np.append(w[:-1] / task.data_norm, w[-1])


def total_rho(epsilon: float, delta: float) -> float:
    """The largest ρ whose conversion is within the budget."""
    log = math.log(1.0 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def noise_scale(epsilon: float, delta: float) -> float:
    """Standard deviation of the noise on a sum, the same in every step."""
    return CLIP_NORM * math.sqrt(0.5 * STEPS / total_rho(epsilon, delta))
