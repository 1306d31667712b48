"""The solvers by name."""

from __future__ import annotations

from types import ModuleType

from dpfast.solvers import (
    dp_adassp,
    dp_agd,
    dp_gd,
    dp_hb,
    dp_masg,
    dp_masg_opt,
    dp_nag,
    dp_nag_opt,
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

SOLVERS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (
        output_perturbation,
        objective_perturbation,
        dp_whitened_gd,
        dp_adassp,
        dp_gd,
        dp_hb,
        dp_nag,
        dp_nag_opt,
        dp_masg,
        dp_masg_opt,
        dp_agd,
        dp_sgd,
        dp_svrg,
        rrpsgd,
        exponential,
        localized_exponential,
        privgene,
    )
}
