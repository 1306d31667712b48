"""Arguments that commands share, and what a shell may offer for them."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from dpfast._csv_form import CsvForm, csv_form
from dpfast._validation import check_choice
from dpfast.estimators._messages import hints
from dpfast.privacy import NEIGHBORING_RELATIONS
from dpfast.solvers import SOLVERS
from dpfast.solvers._ridge import RIDGES
from dpfast.tabular import FAMILIES, TableModel, TableSchema, parameters_of, read_bounds

PICTURES = (".png", ".pdf", ".svg")
"""Endings of the names of pictures."""

Commands = Any  # argparse keeps the type of add_subparsers() to itself


def suggest(action: argparse.Action, words: Iterable[str]) -> None:
    """Give the shell's completion words for an argument that checks its values elsewhere."""
    setattr(action, "suggestions", tuple(words))  # noqa: B010


def suggestions(action: argparse.Action) -> tuple[str, ...]:
    """What a shell may offer as the value of an argument; nothing means file names."""
    words = action.choices if action.choices is not None else getattr(action, "suggestions", ())
    return tuple(map(str, words))


def add_json(command: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    command.add_argument("--json", action="store_true", help="print one JSON object, nothing else")


def add_relation(command: argparse.ArgumentParser) -> None:
    """Add ``--neighboring-relation``."""
    command.add_argument(
        "--neighboring-relation",
        choices=NEIGHBORING_RELATIONS,
        default="replace_one",
        help="what the guarantee hides: %(choices)s (default: %(default)s)",
        metavar="R",
    )


def add_solver(command: argparse.ArgumentParser, **settings: Any) -> None:
    """Add ``--solver``."""
    settings = {"default": "auto", "help": "private algorithm (default: auto)", **settings}
    suggest(command.add_argument("--solver", metavar="S", **settings), ("auto", *SOLVERS))


def add_table(command: argparse.ArgumentParser, *, required: bool) -> None:
    """Add what says how a table is to be read."""
    command.add_argument(
        "--bounds",
        required=required,
        metavar="BOUNDS.json",
        help="what is publicly known of the columns",
    )
    command.add_argument(
        "--target", metavar="COLUMN", help="column to predict (default: as the bounds say)"
    )
    command.add_argument(
        "--categorical",
        default="",
        metavar="A,B",
        help="columns whose list of two numbers means categories, not a range",
    )
    command.add_argument(
        "--weight", metavar="COLUMN", help="column that says how much a row counts"
    )
    command.add_argument(
        "--exposure", metavar="COLUMN",
        help="column that says how long a row was watched, for --family poisson, gamma, tweedie",
    )  # fmt: skip
    command.add_argument("--person", metavar="COLUMN", help="column that says whose row it is")
    suggest(
        command.add_argument(
            "--family",
            default="auto",
            metavar="F",
            help=f"kind of model: {', '.join(FAMILIES)} (default: logistic for classes, linear for "
            "a range)",
        ),
        ("auto", *FAMILIES),
    )


def add_model(command: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the same, and what sets the model."""
    add_table(command, required=required)
    command.add_argument(
        "--max-rows-per-person", type=count, metavar="M", help="rows of a person that count at most"
    )
    command.add_argument(
        "--quantile", type=float, metavar="Q", help="quantile to predict, with --family quantile"
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help="further parameter of the estimator, such as inference=True (may be repeated)",
    )


def add_csv(command: argparse.ArgumentParser, declared: str) -> None:
    """Add what says how CSV files are written, where it is not as `declared`."""
    options = command.add_argument_group(
        "CSV files", f"How they are written, if not as {declared}: all that is not the default."
    )
    for name, metavar, says in (
        ("separator", "S", "between fields: , ; | or tab (default: ,)"),
        ("decimal", "P", "between a number and its fraction: . or , (default: .)"),
        ("thousands", "T", "between groups of three digits: . , ' or a space (default: nothing)"),
        ("encoding", "NAME", "such as cp1252 (default: utf-8)"),
    ):
        options.add_argument(f"--{name}", metavar=metavar, help=says)


def csv_of(arguments: argparse.Namespace, declared: CsvForm) -> CsvForm:
    """The form of CSV files that the arguments of :func:`add_csv` describe."""
    given = {name: getattr(arguments, name, None) for name in asdict(declared)}
    given = {name: value for name, value in given.items() if value is not None}
    if given.get("separator") in ("tab", r"\t"):
        given["separator"] = "\t"
    return csv_form(given) if given else declared


def add_scored(command: argparse.ArgumentParser, rows: str) -> None:
    """Add a model file, rows that it is to score, and what the scores mean."""
    command.add_argument("model", metavar="MODEL.json", help="model file written by 'dpfast fit'")
    command.add_argument("data", metavar="DATA", help=f"{rows}: .csv, .csv.gz or .parquet")
    command.add_argument(
        "--threshold", type=threshold, metavar="P",
        help="probability from which on a row counts as the second of two classes (default: 0.5, "
        "or what the model learned)",
    )  # fmt: skip
    add_csv(command, "those of the fit")


def scored_model(arguments: argparse.Namespace) -> TableModel:
    """The model that :func:`add_scored` names, which reads rows as they are written."""
    model = TableModel.load(arguments.model)
    model.schema_ = replace(model.schema_, csv=csv_of(arguments, model.schema_.csv))
    return model


def add_prior(command: argparse.ArgumentParser) -> None:
    """Add ``--prior``."""
    command.add_argument(
        "--prior",
        metavar="MODEL.json",
        help="model file of an earlier fit with the same bounds, to begin with",
    )


def prior_of(arguments: argparse.Namespace) -> TableModel | None:
    """The model to begin with, which is read; None without ``--prior``."""
    if arguments.prior is None:
        return None
    prior = TableModel.load(arguments.prior)
    try:
        prior.as_prior()
    except ValueError as error:
        raise ValueError(f"--prior {arguments.prior}: {error}") from None
    return prior


def schema_of(arguments: argparse.Namespace) -> TableSchema:
    """The declaration that the arguments of :func:`add_table` describe."""
    check_choice("--family", arguments.family, ("auto", *FAMILIES))
    bounds = read_bounds(arguments.bounds)
    schema = TableSchema.from_bounds(
        bounds,
        target=arguments.target,
        person=arguments.person,
        weight=arguments.weight,
        exposure=arguments.exposure,
        categorical=[name.strip() for name in arguments.categorical.split(",") if name.strip()],
        task=TableModel(bounds, arguments.family).task,
    )
    return replace(schema, csv=csv_of(arguments, schema.csv))


# Of parameters whose options have other names, or go to the whole table.
_OPTIONS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "neighboring_relation": "neighboring-relation",
    "max_rows_per_group": "max-rows-per-person",
    "n_jobs": "jobs",
    "random_state": "seed",
}


def model_of(arguments: argparse.Namespace, **settings: Any) -> TableModel:
    """The model that the arguments of :func:`add_table` and a budget describe."""
    options = {**settings.pop("own", {}), "quantile": arguments.quantile}
    names = [name for name, _ in arguments.set]
    for name in names:
        if name in options or name in _OPTIONS:
            option = _OPTIONS.get(name, name)
            raise ValueError(f"{name} must be set by --{option}, which it has; got --set {name}.")
        if names.count(name) > 1:
            raise ValueError(
                f"{name} must be set once; got --set {name} {names.count(name)} times."
            )
    own = {**dict(arguments.set), **options}
    own = {name: value for name, value in own.items() if value is not None}
    schema = schema_of(arguments)
    if schema.person is None and arguments.max_rows_per_person is not None:
        raise ValueError("--max-rows-per-person must come with --person, the column of persons.")
    family = arguments.family
    if family == "auto":
        family = {"classification": "logistic", "regression": "linear"}[schema.task]
    kind = FAMILIES[family]
    known = kind().get_params(deep=False)
    if unknown := sorted(set(own) - set(known)):
        raise ValueError(
            f"the family {family!r} has no parameter {', '.join(map(repr, unknown))}; it has "
            f"{', '.join(sorted(parameters_of(kind())))}.{hints(unknown, known)}"
        )
    return TableModel(
        schema,
        kind(**own),
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        neighboring_relation=arguments.neighboring_relation,
        max_rows_per_group=arguments.max_rows_per_person,
        **settings,
    )


def count(text: str) -> int:
    """An integer from 1; five million may also be 5_000_000, 5,000,000 or 5e6."""
    plain = re.sub(r"(?<=\d)[_,](?=\d{3}(?!\d))", "", text)
    found = re.fullmatch(r"(\d+)(?:e(\d{1,2}))?", plain)
    number = int(found[1]) * 10 ** int(found[2] or 0) if found else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected an integer >= 1, got {text!r}")
    return number


def threshold(text: str) -> float:
    """A number, since what is learned is learned in a fit."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a number between 0 and 1; got {text!r}. 'dpfast fit --set "
            "threshold=balanced' learns one privately"
        ) from None


def seed(text: str) -> int:
    """An integer from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected an integer >= 0, got {text!r}")
    return int(text)


def alpha(text: str) -> float | str:
    """A number, or the name of a rule."""
    if text in RIDGES:
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a number or any of {', '.join(RIDGES)}; got {text!r}"
        ) from None


_CONSTANTS = {"True": True, "False": False, "None": None}


def setting(text: str) -> tuple[str, Any]:
    """A name and a value, which is JSON, True, False or None as in Python, or a text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    if value in _CONSTANTS:
        return name.strip(), _CONSTANTS[value]
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value
