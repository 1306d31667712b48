"""``dpfast plan``: what a private fit would do and cost, from public numbers alone."""

from __future__ import annotations

import argparse
from typing import Any

from rich.table import Table

from dpfast.cli._arguments import (
    Commands,
    add_categorical,
    add_json,
    add_relation,
    add_solver,
    count,
    schema_of,
    suggest,
)
from dpfast.cli._screen import (
    check_writable,
    console,
    legend,
    plain,
    say,
    show_events,
    show_json,
)
from dpfast.losses import Loss, loss_names
from dpfast.privacy import Budget
from dpfast.shape import ProblemShape
from dpfast.solvers import Plan, plan

_PICTURES = (".png", ".pdf", ".svg")

#: What the entries of `Plan.expected` mean; an entry without a line here is shown by its name.
_MEANINGS = {
    "choice_noise_scale": "scale of the noise in the scores by which a step size is chosen",
    "excess_loss": "expected mean loss above the best possible",
    "excess_loss_by_noise": "mean loss that the noise adds, expected for rows as they mostly are",
    "excess_risk_bound": "expected mean loss above the best possible: at most this",
    "excess_risk_guess": "expected mean loss above the best possible: about this",
    "first_gradient_noise_stddev": "noise in the first mean gradient, standard deviation",
    "gradient_noise_stddev": "noise in each entry of a mean gradient, standard deviation",
    "gradient_norm_bound": "expected squared length of the gradient at the result: at most this",
    "lowy2021_risk": "the bound of Lowy & Razaviyayn 2021",
    "noise_and_time_bound": "expected mean loss above the best, by noise and few steps: at most",
    "noise_in_mean_loss": "noise in a mean loss by which candidates are chosen",
    "noise_stddev_of_a_gradient": "noise in each entry of a gradient, standard deviation",
    "noise_stddev_of_mean_difference": "noise in a batch's mean difference, standard deviation",
    "noise_stddev_of_mean_gradient": "noise in a batch's mean gradient, standard deviation",
    "noise_stddev_of_snapshot_gradient": "noise in a snapshot's mean gradient, standard deviation",
    "noise_stddev_per_row": "noise in each sum of products, over the number of rows",
    "noise_stddev_per_weight": "noise in each weight, standard deviation at most",
    "proposals": "samples drawn until one is accepted, expected at most; each reads all rows",
    "seconds": "seconds that a fit takes, to a factor of two: one core, rows in memory",
    "zhang2017_rate": "the rate of Zhang et al. 2017, without its constant",
}


def add(commands: Commands) -> None:
    """Add the command's parser."""
    command = commands.add_parser(
        "plan",
        help="what a private fit would do and cost, without data",
        description="Print what a private fit would do: accesses to the data, noise, and what "
        "accuracy to expect, from the numbers given here alone. Nothing is spent.",
    )
    command.add_argument("--rows", required=True, type=count, metavar="N", help="number of rows")
    command.add_argument(
        "--bounds", metavar="BOUNDS.json",
        help="bounds and categories as for 'dpfast fit', from which columns and norm follow",
    )  # fmt: skip
    command.add_argument("--target", metavar="COLUMN", help="column to predict, with --bounds")
    add_categorical(command)
    command.add_argument(
        "--columns", type=count, metavar="D", help="number of features, without --bounds"
    )
    command.add_argument("--epsilon", required=True, type=float, metavar="E", help="privacy loss")
    command.add_argument(
        "--delta", required=True, type=float, metavar="D", help="0 for pure privacy"
    )
    command.add_argument(
        "--data-norm", type=float, metavar="R",
        help="bound of the rows' Euclidean norms, without --bounds (default: 1)",
    )  # fmt: skip
    suggest(
        command.add_argument(
            "--loss", default="logistic", metavar="L", help="loss by name (default: logistic)"
        ),
        loss_names(),
    )
    add_relation(command)
    add_solver(command)
    command.add_argument(
        "--plot", metavar="FILE",
        help="also draw what accuracy costs against epsilon (.png, .pdf, .svg)",
    )  # fmt: skip
    add_json(command)
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Plan, print, draw."""
    if arguments.plot:
        if not arguments.plot.endswith(_PICTURES):
            raise ValueError(f"--plot must end in {', '.join(_PICTURES)}; got {arguments.plot!r}.")
        check_writable(arguments.plot)
    columns, data_norm = _size(arguments)
    shape = ProblemShape(arguments.rows, columns, data_norm, Loss(arguments.loss))
    budget = Budget(arguments.epsilon, arguments.delta)
    relation = arguments.neighboring_relation
    settled = plan(shape, arguments.solver, budget, neighboring_relation=relation)
    if arguments.plot:
        from dpfast.plotting import PrivacyUtilityDisplay

        display = PrivacyUtilityDisplay.from_plans(
            shape, arguments.delta, mark=arguments.epsilon, neighboring_relation=relation
        )
        display.figure_.savefig(arguments.plot)
    if arguments.json:
        show_json("plan", _document(settled, arguments.plot))
        return
    _show(settled)
    if arguments.plot:
        say(f"Picture written to {arguments.plot}.")


def _size(arguments: argparse.Namespace) -> tuple[int, float]:
    """Number of features and bound of the rows' norms."""
    if arguments.bounds is None:
        if arguments.columns is None or arguments.target is not None or arguments.categorical:
            raise ValueError(
                "give --columns, or --bounds with --target: without bounds the number of features "
                "is not known, and no column is."
            )
        return arguments.columns, 1.0 if arguments.data_norm is None else arguments.data_norm
    if arguments.columns is not None or arguments.data_norm is not None:
        raise ValueError("--columns and --data-norm follow from --bounds; leave them out.")
    if arguments.target is None:
        raise ValueError("--target must name the column to predict, as --bounds is given.")
    schema = schema_of(arguments)
    return len(schema.feature_names), schema.row_norm_bound


def _document(settled: Plan[Any], picture: str | None) -> dict[str, Any]:
    shape = settled.shape
    return {
        "solver": settled.solver,
        "rows": shape.n_samples,
        "columns": shape.n_features,
        "data_norm": shape.data_norm,
        "loss": shape.loss.name,
        "alpha": shape.alpha,
        "budget": settled.budget.to_dict(),
        "neighboring_relation": settled.neighboring_relation,
        "adaptive": settled.adaptive,
        "events": [event.to_dict() for event in settled.events],
        "parameters": _scalars(settled.parameters),
        "expected": plain(settled.expected),
        "picture": picture,
    }


def _scalars(values: Any) -> dict[str, Any]:
    return {
        key: value
        for key, value in plain(values).items()
        if not isinstance(value, dict | list) and value is not None
    }


def _show(settled: Plan[Any]) -> None:
    shape = settled.shape
    ridge = "no ridge" if shape.alpha is None else f"ridge alpha = {shape.alpha:.4g}"
    legend(
        [
            ("solver", settled.solver),
            (
                "problem",
                f"{shape.n_samples:,} rows x {shape.n_features:,} columns and an intercept, rows "
                f"of norm at most {shape.data_norm:g}, {shape.loss.name} loss, {ridge}",
            ),
            (
                "budget",
                f"epsilon = {settled.budget.epsilon:g}, delta = {settled.budget.delta:g} "
                f"({settled.neighboring_relation})",
            ),
            (
                "settings",
                ", ".join(
                    f"{key} = {value:.4g}" if isinstance(value, float) else f"{key} = {value}"
                    for key, value in _scalars(settled.parameters).items()
                ),
            ),
        ]
    )
    say("\nTo expect:\n")
    screen = Table.grid(padding=(0, 2))
    screen.add_column(justify="right")
    for key, value in settled.expected.items():
        screen.add_row(f"{value:.4g}", _MEANINGS.get(key, key.replace("_", " ")))
    console().print(screen)
    chosen = "; which of them are made is chosen along the way" if settled.adaptive else ""
    say(f"\nAccesses to the data{chosen}:\n")
    show_events(settled.events)
    say(
        f"Nothing was spent. 'dpfast solvers {settled.solver}' says what this solver does and "
        "where its guarantee comes from."
    )
