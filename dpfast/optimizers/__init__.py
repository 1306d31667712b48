"""Non-private minimizers that prove how close they came.

Each file holds one method, ``minimize(objective, *, tolerance, max_passes, ...)``; the table below
maps names to them.  None of them is private by itself: a solver releases nothing but what it has
perturbed.
"""

from dpfast.optimizers import lbfgs, newton
from dpfast.optimizers._contract import Minimizer, OptimizeResult

OPTIMIZERS: dict[str, Minimizer] = {
    "newton": newton.minimize,
    "lbfgs": lbfgs.minimize,
}

__all__ = ["OPTIMIZERS", "Minimizer", "OptimizeResult"]
