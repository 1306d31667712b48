"""The solvers by name: those that users run, and those of the papers."""

from __future__ import annotations

from typing import Any

from dpfast.solvers import (
    _gradient_method,
    dp_adassp,
    dp_newton,
    dp_sgd,
    dp_whitened_gd,
    objective_perturbation,
    output_perturbation,
)
from dpfast.solvers._contract import Solver
from dpfast.solvers.papers import (
    dp_agd,
    dp_svrg,
    exponential,
    kuru2020,
    localized_exponential,
    privgene,
    rrpsgd,
)

SOLVERS: dict[str, Solver[Any]] = {
    solver.name: solver
    for solver in (
        output_perturbation.SOLVER,
        objective_perturbation.SOLVER,
        dp_whitened_gd.SOLVER,
        dp_adassp.SOLVER,
        dp_newton.SOLVER,
        _gradient_method.DP_GD,
        *kuru2020.SOLVERS,
        dp_agd.SOLVER,
        dp_sgd.SOLVER,
        dp_svrg.SOLVER,
        rrpsgd.SOLVER,
        exponential.SOLVER,
        localized_exponential.SOLVER,
        privgene.SOLVER,
    )
}
