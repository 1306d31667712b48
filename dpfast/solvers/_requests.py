"""Refuse requests that a solver cannot serve, and what its plan or run returns if it is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dpfast.mechanisms import Access
from dpfast.optimizers.choice import ROW_OPTIMIZERS
from dpfast.shape import ProblemShape
from dpfast.solvers._contract import Outcome, Plan, Solver
from dpfast.solvers._table import SOLVERS


def check_objective(
    solver: Solver[Any], problem: Any, shape: Any, options: dict[str, Any]
) -> dict[str, Any]:
    """Refuse other objectives than the mean loss where a solver knows no other."""
    if "objective" in solver.options:
        return options
    if not isinstance(shape, ProblemShape) and not solver.takes_objectives:
        raise TypeError(
            f"problem must be a Problem or a ProblemShape for solver={solver.name!r}; got "
            f"{type(problem).__name__}. solver='output-perturbation' takes any objective."
        )
    options = dict(options)
    name, settings = options.pop("objective", "erm"), options.pop("objective_options", None)
    if name != "erm" or settings:
        raise ValueError(
            f"objective must be 'erm', without objective_options, for solver={solver.name!r}; got "
            f"{name!r}. solver='output-perturbation' takes 'tilted' and 'adversarial', too."
        )
    return options


def of_problem(shape: Any) -> Any:
    """The shape itself, or of an objective that of its problem, if it has one."""
    return getattr(shape, "problem", shape)


#: Options that look at a random choice of rows, or at single ones, by solver-independent names.
_RANDOM_ROWS = ("batch",)


def check_blocks(solver: Solver[Any], shape: Any, options: dict[str, Any]) -> None:
    """Refuse, for rows in blocks, what would need single rows in a random order."""
    if getattr(of_problem(shape), "blocks", None) is None:
        return
    cause = "rows in blocks are only ever read one block after another"
    if solver.row_access == "single rows":
        raise ValueError(
            f"solver must be one of full batches, such as 'auto' or 'dp-gd', for rows in blocks; "
            f"got {solver.name!r}, which looks at the rows in a random order, and {cause}. Its "
            "privacy rests on that order."
        )
    for name in _RANDOM_ROWS:
        if options.get(name) is not None:
            raise ValueError(
                f"{name} must be None for rows in blocks; got {options[name]!r}: {cause}, and a "
                "sample that is not uniform would not keep what it is charged for."
            )
    optimizer = options.get("optimizer", "auto")
    if optimizer in ROW_OPTIMIZERS:
        raise ValueError(
            f"optimizer must be one of full batches, such as 'auto', 'newton' or 'agd', for rows "
            f"in blocks; got {optimizer!r}, which takes single rows in a random order: {cause}."
        )
    if options.get("objective", "erm") != "erm":
        raise ValueError(
            f"objective must be 'erm' for rows in blocks; got {options['objective']!r}, which "
            "needs vectors with an entry for every row."
        )


def check_groups(solver: Solver[Any], shape: Any, options: dict[str, Any]) -> None:
    """Refuse, where a record can have several rows, what has no proof for them."""
    shape = of_problem(shape)
    if not getattr(shape, "several_rows", False):
        return
    if solver.any_rows_per_group:
        return
    rows = [name for name in _RANDOM_ROWS if options.get(name) is not None]
    if options.get("optimizer", "auto") in ROW_OPTIMIZERS:
        rows.append("optimizer")
    if options.get("objective", "erm") != "erm":
        rows.append("objective")
    if rows or not solver.weighs_groups:
        able = [name for name, known in SOLVERS.items() if known.weighs_groups]
        what = f"with {', '.join(rows)}" if rows else "which looks at rows one by one"
        raise ValueError(
            f"solver must be 'auto' or one of {', '.join(able)}, without options that look at "
            f"single rows, where a group has several rows; got {solver.name!r}, {what}: what it "
            "promises would hold for one row of a group only. Or keep one row of each group, by "
            "max_rows_per_group=1."
        )
    if shape.max_rows_per_group is None:
        raise ValueError(
            f"max_rows_per_group must be given for solver={solver.name!r} where a record is a "
            "group of rows; got None. Each row then counts 1/max_rows_per_group, so that a group "
            "counts as one row at most (of a table's persons it is max_rows_per_group of the "
            "TableModel, or --max-rows-per-person). With delta > 0, solver='dp-whitened-gd' does "
            "without it."
        )


def blame_bounds(
    shape: Any, options: dict[str, Any], make: Callable[..., Plan[Any]], error: Exception
) -> None:
    """Name the bounds with which there is no plan, or what is wrong without them."""
    bounds = {name: getattr(shape, name, None) for name in ("data_norm", "intercept", "max_weight")}
    bounds["alpha"] = options.get("alpha", getattr(shape, "alpha", None))
    extreme = {
        name: bound
        for name, bound in bounds.items()
        if isinstance(bound, int | float) and bound != 0.0 and not 1e-15 <= abs(bound) <= 1e15
    }
    if not extreme or not isinstance(shape, ProblemShape):
        return
    usual: dict[str, Any] = {**dict.fromkeys(extreme, 1.0), "alpha": None}
    try:
        make(replace(shape, **usual), **{**options, **{k: "auto" for k in options if k == "alpha"}})
    except OverflowError:
        return
    except Exception as plainer:
        raise plainer from error  # something else is wrong, too
    raise ValueError(
        f"{', '.join(extreme)} must be between 1e-15 and 1e15, or numbers of the plan leave the "
        f"range of float64; got {', '.join(f'{n}={b:g}' for n, b in extreme.items())}. Divide the "
        "columns or the weights, and their bound, by a public number (an intercept is the "
        "intercept_scaling of estimators). Nothing was spent."
    ) from error


def check_plan(plan: Plan[Any], solver: Solver[Any], neighboring_relation: str) -> None:
    """Refuse what the plan of a solver that was added may lack, while nothing is paid for."""
    if not isinstance(plan, Plan):
        raise TypeError(
            f"plan of solver={solver.name!r} must return a dpfast.solvers.Plan; got "
            f"{type(plan).__name__}."
        )
    # Its run is found by the name in the plan: another solver's would be private, but not meant.
    if SOLVERS.get(plan.solver) is not solver:
        raise ValueError(
            f"solver must have plans that say solver={solver.name!r}; those of {solver.name!r} say "
            f"{plan.solver!r}, the name by which dpfast.solvers.SOLVERS has what is run."
        )
    for asked in plan.accesses:
        match asked:
            case (Access(), int()):
                continue
        raise TypeError(
            f"accesses of the plan of solver={solver.name!r} must be pairs, such as (mechanism, "
            f"20), of what the run asks for and how often; got {type(asked).__name__}."
        )
    stated = {plan.neighboring_relation, *(event.neighboring_relation for event in plan.events)}
    if stated != {neighboring_relation}:
        raise ValueError(
            f"accesses of the plan of solver={solver.name!r} must be calibrated between the "
            f"neighbors that are asked for, {neighboring_relation!r}; got {sorted(stated)}."
        )


def check_outcome(outcome: Outcome, plan: Plan[Any]) -> None:
    """The same of what its run returns, which is known only when it has been paid for."""
    dim, got = plan.shape.dim, type(outcome).__name__
    if isinstance(outcome, Outcome):
        said = ""
        if isinstance(outcome.w, np.ndarray):
            finite = bool(np.isfinite(outcome.w).all())
            # Of several classes the weights have a row for each.
            if finite and outcome.w.shape[-1:] == (dim,):
                return
            said = f" of shape {outcome.w.shape}" + ", not all finite" * (not finite)
        got = f"an Outcome whose w is {type(outcome.w).__name__}{said}"
    raise TypeError(
        f"run of solver={plan.solver!r} must return dpfast.solvers.Outcome(w), w a finite array of "
        f"shape ({dim},); got {got}. What it released before is paid for."
    )
