"""One file a library, one table; a competitor is a module, or what has the same attributes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from bench.competitors import (
    diffprivlib_logistic,
    dpfast_native,
    jax_descent,
    lightning_saga,
    majority,
    opacus_sgd,
    opendp_descent,
    sklearn_nonprivate,
    torch_descent,
)
from bench.competitors._contract import Competitor, Task

COMPETITORS: dict[str, Competitor] = {
    module.NAME: cast(Competitor, module)
    for module in (
        dpfast_native,
        dpfast_native.OUTPUT,
        dpfast_native.UNBOUNDED,
        dpfast_native.PURE,
        diffprivlib_logistic,
        opacus_sgd,
        opendp_descent,
        torch_descent,
        jax_descent,
        sklearn_nonprivate,
        lightning_saga,
        majority,
    )
}

__all__ = ["COMPETITORS", "Competitor", "Task", "missing", "present"]


def missing(name: str) -> str | None:
    """Why a competitor cannot run here, or None; a library that fails to load is missing, too."""
    module = COMPETITORS[name].MODULE
    try:
        importlib.import_module(module)
    except Exception as error:  # of somebody else's library
        return f"{module.partition('.')[0]} cannot be imported ({error})"
    return None


def present(names: list[str], note: Callable[[str], None]) -> dict[str, Competitor]:
    """The named competitors whose libraries are installed; `note` hears of the others."""
    reasons = {name: missing(name) for name in names}
    for name, reason in reasons.items():
        if reason is not None:
            note(f"{name} left out: {reason}.")
    return {name: COMPETITORS[name] for name in names if reasons[name] is None}
