"""The solvers by name."""

from __future__ import annotations

from typing import Any

from dpfast.solvers import (
    dp_adassp,
    dp_agd,
    dp_sgd,
    dp_svrg,
    dp_whitened_gd,
    exponential,
    localized_exponential,
    objective_perturbation,
    output_perturbation,
    privgene,
    rrpsgd,
)
from dpfast.solvers._gradient_method import DP_GD
from dpfast.solvers._kuru2020 import METHODS

SOLVERS: dict[str, Any] = {
    module.NAME: module
    for module in (
        output_perturbation,
        objective_perturbation,
        dp_whitened_gd,
        dp_adassp,
        DP_GD,
        *METHODS,
        dp_agd,
        dp_sgd,
        dp_svrg,
        rrpsgd,
        exponential,
        localized_exponential,
        privgene,
    )
}
