"""What the hand-written descents have in common: the recipe, and how they pay for it.

Full-batch gradient descent in which every row's gradient is clipped and Gaussian noise is added to
the sum.  A row's presence moves a sum by at most the clip norm C, so noise of standard deviation s
costs ``C²/(2 s²)`` of zCDP a step (Bun & Steinke 2016, Proposition 1.6), steps add up, and ρ-zCDP
implies ``(ρ + 2 sqrt(ρ ln(1/δ)), δ)``-DP (Proposition 1.3).  The settings did best on RAND HIE
among seventeen, which no guarantee here pays for.
"""

from __future__ import annotations

import math

from bench.competitors._contract import Rows, Task

STEPS, CLIP_NORM, RATE, MOMENTUM = 40, 1.0, 4.0, 0.9


def unit_rows(task: Task) -> Rows:
    """Rows of norm at most 1, before the column of ones."""
    return task.X / task.data_norm


def total_rho(epsilon: float, delta: float) -> float:
    """The largest ρ whose conversion is within the budget."""
    log = math.log(1.0 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def noise_scale(epsilon: float, delta: float) -> float:
    """Standard deviation of the noise on a sum, the same in every step."""
    return CLIP_NORM * math.sqrt(0.5 * STEPS / total_rho(epsilon, delta))
