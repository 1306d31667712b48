"""``dpfast fit``: a private model from a table."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.table import Table

from dpfast.cli._arguments import (
    Commands,
    add_categorical,
    add_json,
    add_relation,
    add_solver,
    alpha,
    schema_of,
    seed,
)
from dpfast.cli._screen import (
    Labels,
    Matrix,
    Scores,
    SpentError,
    baselines,
    check_writable,
    console,
    describe,
    note,
    reading,
    say,
    scores,
    show_json,
    show_report,
    working,
)
from dpfast.errors import DpfastError
from dpfast.estimators import LogisticRegression
from dpfast.model_file import TabularModel, save_model
from dpfast.privacy import Budget, BudgetAccountant
from dpfast.tabular import TableSchema, read_table

_CHANGES = {
    "replace_one": "one row replaced by any other",
    "add_or_remove_one": "the contribution of one row added or removed",
}
_SPENT = "The budget was spent and stays spent."
_WRITTEN = "The budget was spent; the model is in {}."


def add(commands: Commands) -> None:
    """Add the command's parser."""
    fit = commands.add_parser(
        "fit",
        help="fit a private model to a table",
        description="Fit a differentially private logistic regression to a table and write it, "
        "with its privacy report, to a model file.",
        epilog='BOUNDS.json is one JSON object: {"age": [0, 110], "sex": ["female", "male"], '
        '"income": ["low", "high"]}. Two numbers are the range of a number, texts are the '
        "categories, and the target has its two classes, the negative one first. Take all of it "
        "from public knowledge, never from the data: the guarantee depends on that. Columns that "
        "are not listed are not used.",
    )
    fit.add_argument(
        "data", metavar="DATA", help="training data: .csv or .csv.gz (UTF-8), or .parquet"
    )
    fit.add_argument("--target", required=True, metavar="COLUMN", help="column to predict")
    fit.add_argument("--epsilon", required=True, type=float, metavar="E", help="privacy loss, > 0")
    fit.add_argument(
        "--delta",
        required=True,
        type=float,
        metavar="D",
        help="probability outside the epsilon bound, well below 1/rows; 0 for pure privacy",
    )
    fit.add_argument(
        "--bounds", required=True, metavar="BOUNDS.json", help="public bounds and categories"
    )
    add_categorical(fit)
    fit.add_argument("--test", metavar="TEST", help="also measure accuracy on these rows")
    add_relation(fit)
    add_solver(fit)
    fit.add_argument(
        "--alpha",
        default="auto",
        type=alpha,
        metavar="A",
        help="ridge of the mean loss, or auto (default: auto)",
    )
    fit.add_argument(
        "--seed", type=seed, metavar="N", help="repeatable noise: for tests only, do not release"
    )
    add_json(fit)
    fit.add_argument(
        "-o", "--output", required=True, metavar="MODEL.json", help="model file to write"
    )
    fit.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Fit, write the model, show the report."""
    # All that can be refused is refused before anything is spent.
    budget = Budget(arguments.epsilon, arguments.delta)
    check_writable(arguments.output)
    schema = schema_of(arguments)
    X, y, unused = _read_labeled(arguments.data, schema)
    test = _read_labeled(arguments.test, schema)[:2] if arguments.test else None

    if unused:
        note(f"note: not in {arguments.bounds}, so not used: {', '.join(unused)}")
    if arguments.delta * len(y) > 1.0:
        note(
            f"warning: delta = {arguments.delta:g} is more than one over the number of rows "
            f"({len(y):,}); that allows publishing whole rows. Take a far smaller delta."
        )
    if not arguments.json:
        say(
            f"{arguments.data}: {len(y):,} rows, {len(schema.features)} columns, encoded as "
            f"{X.shape[1]} features; target {schema.target!r}."
        )
        say(
            f"About to spend epsilon = {arguments.epsilon:g}, delta = {arguments.delta:g} on these "
            f"rows ({arguments.neighboring_relation}: {_CHANGES[arguments.neighboring_relation]})."
        )
    estimator = _fit(arguments, schema, X, y, budget)
    try:
        _show(arguments, estimator, X, y, test, unused)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_WRITTEN.format(arguments.output)) from None
    except BrokenPipeError:
        raise
    except Exception as error:
        written = _WRITTEN.format(arguments.output)
        raise SpentError(f"{describe(error).rstrip('.')}. {written}") from error


def _show(
    arguments: argparse.Namespace,
    estimator: LogisticRegression,
    X: Matrix,
    y: Labels,
    test: tuple[Matrix, Labels] | None,
    unused: tuple[str, ...],
) -> None:
    """Scores and the report of a model that is written."""
    results = {}
    if test is not None:
        X_test, y_test = test
        private = scores(estimator.decision_function(X_test), y_test)
        results = {"private": private, **baselines(X, y, X_test, y_test)}
    if arguments.json:
        result: dict[str, Any] = {
            "model": arguments.output,
            "rows": len(y),
            "features": X.shape[1],
            "unused_columns": list(unused),
            "privacy": json.loads(estimator.privacy_.to_json()),
        }
        if test is not None:
            result["test"] = {"rows": len(test[1]), "covered_by_guarantee": False, **results}
        show_json("fit", result)
        return
    say("")
    show_report(estimator.privacy_)
    if test is not None:
        _show_scores(arguments.test, len(test[1]), results)
    say(f"Model written to {arguments.output}.")


def _fit(
    arguments: argparse.Namespace, schema: TableSchema, X: Matrix, y: Labels, budget: Budget
) -> LogisticRegression:
    """The model, fitted and written; an error says whether the budget was spent before it."""
    # It refuses nothing that the fit's own ledger admits; it knows what was spent if that fails.
    account = BudgetAccountant(budget, adaptive=False)
    try:
        with account, working("fitting"):
            estimator = LogisticRegression(
                epsilon=arguments.epsilon,
                delta=arguments.delta,
                solver=arguments.solver,
                alpha=arguments.alpha,
                data_norm=schema.row_norm_bound,
                neighboring_relation=arguments.neighboring_relation,
                classes=[0, 1],
                random_state=arguments.seed,
                strict=True,
            ).fit(X, y)
        weights = estimator.coef_[0], float(estimator.intercept_[0])
        save_model(arguments.output, TabularModel(schema, *weights, estimator.privacy_))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_SPENT if account.events else "Nothing was spent.") from None
    except Exception as error:
        if account.events:
            raise SpentError(f"{describe(error).rstrip('.')}. {_SPENT}") from error
        raise
    return estimator


def _read_labeled(path: str, schema: TableSchema) -> tuple[Matrix, Labels, tuple[str, ...]]:
    columns = [feature.name for feature in schema.features] + [schema.target]
    with reading(path) as progress:
        table, unused = read_table(path, columns, progress)
    try:
        return schema.transform(table), schema.encode_target(table), unused
    except DpfastError as error:
        raise type(error)(f"{path}: {error}") from error


def _show_scores(path: str, rows: int, results: dict[str, Scores]) -> None:
    screen = Table(title=f"Test on {rows:,} rows of {Path(path).name}", title_justify="left")
    screen.add_column("model")
    screen.add_column("accuracy", justify="right")
    screen.add_column("log-loss", justify="right")
    labels = {
        "private": "private",
        "non_private": "not private (scikit-learn)",
        "majority_class": "always the larger class",
    }
    for key, score in results.items():
        screen.add_row(labels[key], f"{score['accuracy']:.4f}", f"{score['log_loss']:.4f}")
    console().print(screen)
    say(
        "Only the private model may be released. The other two rows, and all test scores, are "
        "computed without noise: the guarantee does not cover them.\n"
    )
