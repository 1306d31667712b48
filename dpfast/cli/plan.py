"""``dpfast plan``: what a private fit would do and cost, from public numbers alone."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from rich.table import Table

from dpfast._validation import counted
from dpfast.cli._arguments import (
    PICTURES,
    Commands,
    add_json,
    add_model,
    add_prior,
    add_relation,
    add_solver,
    count,
    model_of,
    prior_of,
    suggest,
)
from dpfast.cli._screen import (
    check_writable,
    console,
    legend,
    plain,
    save_picture,
    say,
    show_events,
    show_json,
)
from dpfast.losses import Loss, loss_names
from dpfast.privacy import Budget, Event
from dpfast.privacy.budget import check_promise
from dpfast.privacy.report import shares_told
from dpfast.shape import ProblemShape
from dpfast.solvers import Plan, plan
from dpfast.solvers._whitened_rules import least_share
from dpfast.solvers.meanings import EXPECTED, SETTINGS
from dpfast.tabular.fitting import NOUNS


def add(commands: Commands) -> None:
    """Add the command's parser."""
    command = commands.add_parser(
        "plan",
        help="what a private fit would do and cost, without data",
        description="Print what a private fit would do: accesses to the data, noise, and what "
        "accuracy to expect, from the numbers given here alone. Nothing is spent.",
    )
    command.add_argument(
        "--rows",
        required=True,
        type=count,
        metavar="N",
        help="number of rows; with --person, of persons",
    )
    add_model(command, required=False)
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
            "--loss", metavar="L", help="loss by name, without --bounds (default: logistic)"
        ),
        loss_names(),
    )
    add_relation(command)
    add_solver(command)
    add_prior(command)
    command.add_argument(
        "--plot", metavar="FILE",
        help="also draw what accuracy costs against epsilon (.png, .pdf, .svg)",
    )  # fmt: skip
    add_json(command)
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Plan, print, draw."""
    if arguments.plot:
        if not arguments.plot.endswith(PICTURES):
            raise ValueError(f"--plot must end in {', '.join(PICTURES)}; got {arguments.plot!r}.")
        check_writable(arguments.plot, arguments.bounds)
    planned, events, table = _planned(arguments)
    shape, relation = planned.shape, arguments.neighboring_relation
    if arguments.plot:
        from dpfast.plotting import PrivacyUtilityDisplay

        display = PrivacyUtilityDisplay.from_plans(
            shape, arguments.delta, mark=arguments.epsilon, neighboring_relation=relation
        )
        save_picture(display.figure_, arguments.plot)
    if arguments.json:
        show_json("plan", _document(planned, events, arguments.plot))
        return
    if table:
        say(table)
    _show(planned, events)
    if arguments.plot:
        say(f"Picture written to {arguments.plot}.")


# Arguments that say nothing without bounds.
_OF_TABLES = ("weight", "exposure", "person", "max_rows_per_person", "quantile", "set", "prior")


def _planned(arguments: argparse.Namespace) -> tuple[Plan[Any], tuple[Event, ...], str]:
    """The solver's plan, all accesses to the data, and how a table is read."""
    if arguments.bounds is None:
        if arguments.columns is None or arguments.target is not None or arguments.categorical:
            raise ValueError(
                "give --bounds, or --columns D instead; --target and --categorical need --bounds."
            )
        if arguments.family != "auto" or any(getattr(arguments, name) for name in _OF_TABLES):
            options = ", ".join(f"--{name.replace('_', '-')}" for name in ("family", *_OF_TABLES))
            raise ValueError(f"{options} need --bounds; --loss does not.")
        budget = Budget(arguments.epsilon, arguments.delta)
        check_promise(budget, arguments.rows)
        data_norm = 1.0 if arguments.data_norm is None else arguments.data_norm
        loss = Loss(arguments.loss or "logistic")
        shape = ProblemShape(arguments.rows, arguments.columns, data_norm, loss)
        planned = plan(
            shape,
            arguments.solver,
            budget,
            neighboring_relation=arguments.neighboring_relation,
        )
        return planned, planned.events, ""
    for name in ("columns", "data_norm", "loss"):
        if getattr(arguments, name) is not None:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} follows from --bounds and --family; leave it out.")
    own = {"solver": arguments.solver, "prior": prior_of(arguments)}
    fit = model_of(arguments, own=own).plan(arguments.rows)
    return fit.solver, fit.events, f"{fit.table}\n"


def _document(planned: Plan[Any], events: tuple[Event, ...], picture: str | None) -> dict[str, Any]:
    shape = planned.shape
    return {
        "solver": planned.solver,
        f"{NOUNS[shape.unit]}s": shape.n_samples,
        "columns": shape.n_features,
        "data_norm": shape.data_norm,
        "loss": shape.loss.name,
        "alpha": shape.alpha,
        "budget": planned.budget.to_dict(),
        "neighboring_relation": planned.neighboring_relation,
        "adaptive": planned.adaptive,
        "events": [event.to_dict() for event in events],
        "parameters": _scalars(planned.parameters),
        "expected": plain(planned.expected),
        "picture": picture,
    }


def _scalars(values: Any) -> dict[str, Any]:
    return {
        key: value
        for key, value in plain(values).items()
        if not isinstance(value, dict | list) and value is not None
    }


def _show(planned: Plan[Any], events: tuple[Event, ...]) -> None:
    shape = planned.shape
    ridge = "no ridge" if shape.alpha is None else f"ridge alpha = {shape.alpha:.4g}"
    legend(
        [
            ("solver", planned.solver),
            (
                "problem",
                f"{counted(shape.n_samples, NOUNS[shape.unit])} x "
                f"{counted(shape.n_features, 'column')} and an intercept, rows of norm at most "
                f"{shape.data_norm:g}, {shape.loss.name} loss, {ridge}",
            ),
            (
                "budget",
                f"epsilon = {planned.budget.epsilon:g}, delta = {planned.budget.delta:g} "
                f"({planned.neighboring_relation})",
            ),
        ]
    )
    say(f"\nTo expect{planned.units}:\n")
    # How good the model will be comes first.
    keys = sorted(planned.expected, key=lambda key: not key.startswith("excess_risk"))
    _explained((f"{planned.expected[key]:.4g}", EXPECTED.get(key, key)) for key in keys)
    if shape.loss.name == "logistic" and any(key.startswith("excess_risk") for key in keys):
        say(
            "(A model that gives both classes one half has a mean loss of 0.693. Where one row in "
            "100 is positive, the best constant has 0.056; one in 1,000, 0.0079.)"
        )
    u = planned.parameters.get("rows_per_weight")
    if u is not None and shape.loss.kind != "regression" and (least := least_share(u)) < 0.5:
        say(f"(Of a class with less than {100.0 * least:.2g} % of the rows little is learned.)")
    if shape.blocks is not None and "seconds" in planned.expected:
        say("(Rows in blocks are read and encoded anew in every pass, which takes longer.)")
    if not keys:
        say("No forecast: none is known for a fit to several classes, or with a prior.")
    chosen = "; which of them are made is chosen along the way" if planned.adaptive else ""
    say(f"\nAccesses to the data{chosen}:\n")
    show_events(events)
    if told := shares_told(events):
        say(f"{told[0].upper()}{told[1:]}.\n")
    say("Settings of the solver, from public numbers alone:\n")
    settings = _scalars(planned.parameters)
    _explained((_shown(value), name, SETTINGS.get(name, "")) for name, value in settings.items())
    say(
        f"\nNothing was spent. 'dpfast solvers {planned.solver}' says what this solver does and "
        "where its guarantee comes from."
    )


def _explained(rows: Iterable[tuple[str, ...]]) -> None:
    """Print numbers with what they are."""
    screen = Table.grid(padding=(0, 2))
    screen.add_column(justify="right")
    for row in rows:
        screen.add_row(*row)
    console().print(screen)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
