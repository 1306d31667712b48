"""``dpfast fit``: a private model from a table."""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpfast._validation import counted, id_names
from dpfast.cli._account import account_facts, account_text, add_account, begun, open_account
from dpfast.cli._arguments import (
    Commands,
    add_csv,
    add_json,
    add_model,
    add_prior,
    add_relation,
    add_solver,
    alpha,
    count,
    model_of,
    prior_of,
    seed,
    threshold,
)
from dpfast.cli._baselines import baselines
from dpfast.cli._screen import (
    SpentError,
    check_writable,
    console,
    describe,
    note,
    reading,
    say,
    show_json,
    show_report,
    show_scores,
    working,
)
from dpfast.errors import DataError
from dpfast.privacy import Budget, BudgetAccountant
from dpfast.solvers._ridge import RIDGES
from dpfast.tabular import (
    FAMILIES,
    FitPlan,
    Scores,
    TableFit,
    TableModel,
    check_threshold,
)

_CHANGES = {
    ("replace_one", "row"): "one row replaced by any other",
    ("replace_one", "person"): "all rows of one person replaced by any others",
    ("add_or_remove_one", "row"): "the contribution of one row added or removed",
    ("add_or_remove_one", "person"): "the contribution of all rows of one person added or removed",
}
_SPENT = "The budget was spent and stays spent."
_WRITTEN = "The budget was spent; the model is in {}."
_NAMES = {
    "private": "private",
    "non_private": "not private (scikit-learn)",
    "majority_class": "always the larger class",
    "constant": "always the same number",
}


def add(commands: Commands) -> None:
    """Add the command's parser."""
    fit = commands.add_parser(
        "fit",
        help="fit a private model to a table",
        description="Fit a differentially private linear model to a table and write it, with its "
        "privacy report, to a model file.",
        epilog='BOUNDS.json is one JSON object: {"age": [0, 110], "sex": ["female", "male"], '
        '"income": ["low", "high"], "target": "income"}. Two numbers are the range of a number, '
        "two dates that of a date, [false, true] a truth value, texts the categories; the target "
        "has its classes, of two the negative one first, or its range. Take all of it from public "
        "knowledge, never from the data: the guarantee depends on that. Columns that are not "
        "listed are not used.",
    )
    fit.add_argument("data", metavar="DATA", help="training data: .csv, .csv.gz or .parquet")
    add_model(fit, required=True)
    add_csv(fit, "the bounds say")
    fit.add_argument("--epsilon", required=True, type=float, metavar="E", help="privacy loss, > 0")
    fit.add_argument(
        "--delta",
        required=True,
        type=float,
        metavar="D",
        help="probability outside the epsilon bound, well below 1/rows; 0 for pure privacy",
    )
    add_account(fit)
    fit.add_argument("--test", metavar="TEST", help="also measure accuracy on these rows")
    fit.add_argument(
        "--threshold", type=threshold, metavar="P",
        help="probability from which on --test counts a row as the second class (default: 0.5; "
        "--set threshold=balanced learns one privately)",
    )  # fmt: skip
    add_relation(fit)
    add_solver(fit)
    fit.add_argument(
        "--alpha",
        default="auto",
        type=alpha,
        metavar="A",
        help=f"ridge of the mean loss, or how it is chosen: {', '.join(RIDGES)} (default: auto)",
    )
    add_prior(fit)
    fit.add_argument(
        "--in-memory", action="store_true",
        help="hold all encoded rows in memory, as some solvers need, however many there are",
    )  # fmt: skip
    fit.add_argument("--jobs", type=count, metavar="N", help="threads (default: 1)")
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
    lock = arguments.account and f"{arguments.account}.lock"
    read = (arguments.data, arguments.test, arguments.bounds, arguments.account, lock)
    check_writable(arguments.output, arguments.prior, *read)
    model = model_of(
        arguments,
        own={
            "solver": arguments.solver,
            "alpha": arguments.alpha,
            "n_jobs": arguments.jobs,
            "prior": prior_of(arguments),
        },
        random_state=arguments.seed,
        undeclared="ignore",  # said of the test rows, with the name of their file
        in_memory=True if arguments.in_memory else "auto",
    )
    test_rows = _check_test(arguments, model)
    account = open_account(arguments)
    with account or nullcontext(), reading(arguments.data) as progress:
        fit = model.prepare(arguments.data, progress=progress)
    _announce(arguments, model, fit)
    account = begun(account, arguments)
    with account or nullcontext():
        _fit(arguments, fit, model, budget, account)
    try:
        _show(arguments, model, fit, account, test_rows)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_WRITTEN.format(arguments.output)) from None
    except BrokenPipeError:
        raise
    except Exception as error:
        written = _WRITTEN.format(arguments.output)
        raise SpentError(f"{describe(error).rstrip('.')}. {written}") from error


def _check_test(arguments: argparse.Namespace, model: TableModel) -> int:
    """Number of test rows, which are all read to refuse what would fail after the fit."""
    if arguments.threshold is not None:
        if arguments.test is None:
            raise ValueError("--threshold must come with --test; 'dpfast predict' has its own.")
        classes = getattr(model.bounds.target, "classes", ())
        probable = hasattr(FAMILIES[model.family], "predict_proba")
        shape = np.empty((0, len(classes))) if probable else None
        check_threshold(arguments.threshold, shape)
    if arguments.test is None:
        return 0
    schema = replace(model.bounds, weight=None, person=None)
    with reading(arguments.test) as progress:
        tally = TableModel(schema).check(arguments.test, progress=progress)
    if tally:
        note(
            f"warning: {arguments.test}: {tally} (For you, like the scores of these rows: no "
            "guarantee covers it.)"
        )
    return tally.rows


def _announce(arguments: argparse.Namespace, model: TableModel, fit: TableFit) -> None:
    """What is about to be spent on what."""
    rows = fit.n_samples
    if fit.unused:
        note(f"note: not in {arguments.bounds}, so not used: {', '.join(fit.unused)}")
    if fit.plan.schema.person is None and (ids := id_names(fit.unused)):
        note(
            "note: the guarantee is for one row. If a person has several, name the column of their "
            f"ids ({', '.join(ids)}?) by --person."
        )
    if arguments.test is not None and Path(arguments.test).samefile(arguments.data):
        note("note: the test rows are those of the fit; fresh ones tell how good a model is.")
    if not fit.plan.in_memory:
        note(
            "note: the encoded rows are read in blocks"
            + (
                ", and the classes learned one against the rest; --in-memory learns them together"
                if len(getattr(fit.plan.schema.target, "classes", ())) > 2
                else ""
            )
            + "."
        )
    if arguments.json:
        return
    schema = fit.plan.schema
    say(
        f"{arguments.data}: {counted(rows, fit.plan.noun)}, "
        f"{counted(len(schema.features), 'column')}, encoded as "
        f"{counted(len(schema.feature_names), 'feature')}; target {schema.target.name!r}, "
        f"{_described(fit.plan, model)}."
    )
    changes = _CHANGES[arguments.neighboring_relation, fit.plan.noun]
    say(
        f"About to spend epsilon = {arguments.epsilon:g}, delta = {arguments.delta:g} on these "
        f"{fit.plan.noun}s ({arguments.neighboring_relation}: {changes})."
    )


def _described(plan: FitPlan, model: TableModel) -> str:
    """Family and target in words."""
    classes = getattr(plan.schema.target, "classes", None)
    if classes is None:
        low, high = plan.schema.target.low, plan.schema.target.high  # type: ignore[union-attr]
        return f"a number in [{low:g}, {high:g}]; family {model.family!r}"
    if len(classes) == 2:
        return f"{classes[1]!r} against {classes[0]!r}; family {model.family!r}"
    return f"{len(classes)} classes; family {model.family!r}"


def _fit(
    arguments: argparse.Namespace,
    fit: TableFit,
    model: TableModel,
    budget: Budget,
    account: BudgetAccountant | None,
) -> None:
    """The model, fitted and written; an error says whether the budget was spent before it."""
    # It refuses nothing that the fit's own ledger admits; it knows what was spent if that fails.
    spent = BudgetAccountant(budget, adaptive=False)
    charges = 0 if account is None else account.charges

    def was_spent() -> bool:
        # Both are charged before the data are touched, whichever first, and the file is what
        # counts. Others may charge it meanwhile, and a charge may not be written.
        if account is None:
            return bool(spent.events)
        return account.own_charges > 0 and account.charges > charges

    try:
        with spent, working("fitting"):
            fit.run()
        _save(model, arguments.output)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_SPENT if was_spent() else "Nothing was spent.") from None
    except SpentError:
        raise
    except Exception as error:
        if was_spent():
            raise SpentError(f"{describe(error).rstrip('.')}. {_SPENT}") from error
        raise


def _save(model: TableModel, path: str) -> None:
    """Write the model; what was paid for goes elsewhere if it cannot be written where it should."""
    try:
        model.save(path)
    except OSError as error:
        kept = Path(tempfile.mkdtemp(prefix="dpfast-"), "model.json")
        model.save(kept)
        raise SpentError(f"{describe(error).rstrip('.')}. {_WRITTEN.format(kept)}") from error


def _show(
    arguments: argparse.Namespace,
    model: TableModel,
    fit: TableFit,
    account: BudgetAccountant | None,
    test_rows: int,
) -> None:
    """Scores and the report of a model that is written."""
    results: dict[str, Scores] = {}
    if arguments.test is not None:
        try:
            results = {
                "private": model.evaluate(arguments.test, arguments.threshold),
                **baselines(model, fit, arguments.test, arguments.threshold),
            }
        except DataError as error:  # the model is written, and its report is still to be shown
            note(f"warning: {arguments.test} has no scores: {error}")
    inference = getattr(model.estimator_, "inference", False)
    if arguments.json:
        document: dict[str, Any] = {
            "model": arguments.output,
            "family": model.family,
            f"{fit.plan.noun}s": fit.n_samples,
            "features": len(fit.plan.schema.feature_names),
            "unused_columns": list(fit.unused),
            "privacy": json.loads(model.privacy_.to_json()),
        }
        if inference:
            document["coefficients"] = model.summary().records()
        if arguments.test is not None:
            document["test"] = {"rows": test_rows, "covered_by_guarantee": False, **results}
        if account is not None:
            document["account"] = account_facts(account)
        show_json("fit", document)
        return
    say("")
    show_report(model.privacy_)
    learned = model.learned_ranges
    if learned:
        say(
            "Ranges learned within this budget: "
            + ", ".join(f"{name} [{low:.4g}, {high:.4g}]" for name, (low, high) in learned.items())
            + ".\n"
        )
    if inference:
        # Ratios are left to Python: the lines of the table fit a terminal without them.
        console().print(f"{replace(model.summary(), ratio='')}\n", soft_wrap=True)
    if results:
        _show_scores(arguments.test, test_rows, results)
    if account is not None:
        say(account_text(account))
    say(
        f"Model written to {arguments.output}. 'dpfast certify {arguments.output}' says what it "
        "promises to whoever gets it."
    )


def _show_scores(path: str, rows: int, results: dict[str, Scores]) -> None:
    title = f"Test on {counted(rows, 'row')} of {Path(path).name}"
    show_scores(title, {_NAMES[key]: found for key, found in results.items()})
    say(
        "Only the private model may be released. The other rows, and all test scores, are "
        "computed without noise: the guarantee does not cover them.\n"
    )
