"""Minimization over a ball, or where two of them overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.optimize

from dpfast._typing import Vector
from dpfast.objectives import Objective
from dpfast.optimizers import lbfgs, newton

Ball = tuple[Vector, float]


def minimize_in_balls(
    objective: Objective, balls: Sequence[Ball], *, tolerance: float, sharpness: float
) -> Vector:
    """Return a point about the minimizer over the region that all balls hold.

    The first ball's size is the unit of the search, `tolerance` is for the gradient's norm where
    the minimizer is inside, and the objective's values are told apart at one over `sharpness`.
    """
    inner = newton if objective.dim <= newton.MAX_DIM else lbfgs
    point: Vector = inner.minimize(objective, tolerance=tolerance).w
    if all(float(np.linalg.norm(point - center)) <= radius for center, radius in balls):
        return point
    origin, size = balls[0]

    def energy(x: Vector) -> tuple[float, Vector]:
        value, gradient = objective.value_and_gradient(origin + size * x)
        return sharpness * value, sharpness * size * gradient

    found = scipy.optimize.minimize(
        energy,
        np.zeros(len(origin)),
        jac=True,
        method="SLSQP",
        constraints=[
            {
                "type": "ineq",
                "fun": lambda x, c=c, r=r: 1.0 - float(np.sum((origin + size * x - c) ** 2)) / r**2,
                "jac": lambda x, c=c, r=r: -2.0 * size * (origin + size * x - c) / r**2,
            }
            for c, r in balls
        ],
        options={"ftol": 1e-9, "maxiter": 1000},
    ).x
    point = origin + size * (found if np.all(np.isfinite(found)) else 0.0)
    for center, radius in balls:
        away = point - center
        point = center + away * min(1.0, radius / max(float(np.linalg.norm(away)), radius))
    return point
