"""Non-private minimizers that prove how close they came.

Each file holds one method, ``minimize(objective, *, tolerance, max_passes, ...)``; the table below
maps names to them.  None of them is private by itself: a solver releases nothing but what it has
perturbed.  :func:`as_minimizer` makes one of a user's function; :func:`minimax_appa` solves another
kind of problem, ``min_w max_v H(w, v)``.  Their results are
believed as far as :mod:`~dpfast.optimizers.certificates` proves them, the one file here that
privacy rests on.
"""

from dpfast.optimizers import agd, gd, katyusha, lbfgs, newton, sgd, smoothing, subgradient, svrg
from dpfast.optimizers._contract import Minimizer
from dpfast.optimizers.certificates import OptimizeResult, SaddleWitness, witness
from dpfast.optimizers.custom import as_minimizer
from dpfast.optimizers.minimax import MinimaxResult, minimax_appa

OPTIMIZERS: dict[str, Minimizer] = {
    "newton": newton.minimize,
    "lbfgs": lbfgs.minimize,
    "gd": gd.minimize,
    "agd": agd.minimize,
    "subgradient": subgradient.minimize,
    "sgd": sgd.minimize,
    "svrg": svrg.minimize,
    "katyusha": katyusha.minimize,
    "smoothing": smoothing.minimize,
}

__all__ = [
    "OPTIMIZERS",
    "MinimaxResult",
    "Minimizer",
    "OptimizeResult",
    "SaddleWitness",
    "as_minimizer",
    "minimax_appa",
    "witness",
]
