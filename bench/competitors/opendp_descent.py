"""OpenDP: it has no linear classifier, so a descent by hand whose noise and accounting are its."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.competitors import _descent
from bench.competitors._contract import Task

NAME = "OpenDP, descent by hand"
MODULE = "opendp.prelude"
RELATION, DELTA = _descent.RELATION, _descent.DELTA
GUARANTEE = (
    "(epsilon, delta)-DP under add_or_remove_one: noise on float64, composition and conversion are "
    f"OpenDP's, the sums of clipped gradients (and their rounding) are not; {_descent.CHOSEN}"
)


def _noisy_sum(dp: Any, dim: int, epsilon: float, delta: float) -> Any:
    """The measurement of one step, with the least noise that OpenDP's conversion allows."""
    space = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=dim),
        dp.l2_distance(T=float),
    )

    def serves(scale: float) -> bool:
        step = dp.m.make_gaussian(*space, scale)
        steps = dp.c.make_zCDP_to_approxDP(dp.c.make_composition([step] * _descent.STEPS))
        return bool(steps.map(_descent.CLIP_NORM).epsilon(delta) <= epsilon)

    # The conversion in closed form is enough, and OpenDP's is not better than by half.
    low, high = (factor * _descent.noise_scale(epsilon, delta) for factor in (0.5, 1.01))
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if serves(middle) else (middle, high)
    return dp.m.make_gaussian(*space, high)


def fit(task: Task) -> NDArray[np.float64]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    X = _descent.rows(task)
    limits = _descent.CLIP_NORM / np.sqrt(np.einsum("ij,ij->i", X, X))
    release = _noisy_sum(dp, X.shape[1], task.epsilon, task.delta)
    w, velocity = np.zeros((2, X.shape[1]))
    for _ in range(_descent.STEPS):
        slopes = -task.y / (1.0 + np.exp(task.y * (X @ w)))
        noisy = np.array(release((np.clip(slopes, -limits, limits) @ X).tolist()))
        velocity = _descent.MOMENTUM * velocity + noisy / len(task.y)
        w = w - _descent.RATE * velocity
    return _descent.weights(w, task)
