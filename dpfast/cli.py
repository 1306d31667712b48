"""The command line: ``dpfast demo``, ``fit``, ``predict`` and ``plan``.

Results go to standard output; notes, warnings, errors and progress go to standard error. Exit codes
are 0, 2 after an error and 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table as Screen
from sklearn.linear_model import LogisticRegression as NonPrivateLogisticRegression

from dpfast._files import atomic_writer
from dpfast._version import __version__
from dpfast.datasets import load_randhie
from dpfast.errors import DpfastError
from dpfast.estimators import LogisticRegression
from dpfast.losses import Loss
from dpfast.model_file import TabularModel, load_model, save_model
from dpfast.preprocessing import BoundedScaler
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, PrivacyReport
from dpfast.privacy.report import numbers
from dpfast.problem import ProblemShape
from dpfast.solvers import plan
from dpfast.tabular import TableSchema, read_bounds, read_csv

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]
Scores = dict[str, float]

_CHUNK_ROWS = 50_000
_DEMO_EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
_DEMO_DELTA = 1e-6
_DEMO_REPEATS = 10
_DEMO_REPORT_EPSILON = 1.0

_CHANGES = {
    "replace_one": "one row replaced by any other",
    "add_or_remove_one": "one row added or removed",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str or None, default=None
        Arguments without the program's name; None takes them from ``sys.argv``.

    Returns
    -------
    int
        Exit code.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            arguments.run(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt:
        _note("interrupted. If the fit had begun, its budget is spent and stays spent.")
        return 130
    except BrokenPipeError:
        # The reader of a pipe has gone; keep Python from complaining again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (DpfastError, ValueError, OSError) as error:
        _note(f"error: {_describe(error)}")
        return 2
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (see '{self.prog} --help')\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dpfast", description="Differentially private linear models from the command line."
    )
    parser.add_argument("--version", action="version", version=f"dpfast {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo",
        help="what privacy costs, on data that come with the package",
        description="Fit the same model at several privacy levels on public health-insurance data "
        "that come with the package, and compare it with a non-private fit. Takes seconds.",
    )
    demo.set_defaults(run=_demo)

    fit = commands.add_parser(
        "fit",
        help="fit a private model to a CSV file",
        description="Fit a differentially private logistic regression to a CSV file and write it, "
        "with its privacy report, to a model file.",
        epilog='BOUNDS.json is one JSON object: {"age": [0, 110], "sex": ["female", "male"], '
        '"income": ["low", "high"]}. Two numbers are the range of a number, texts are the '
        "categories, and the target has its two classes, the negative one first. Take all of it "
        "from public knowledge, never from the data: the guarantee depends on that. Columns that "
        "are not listed are not used.",
    )
    fit.add_argument("data", metavar="DATA.csv", help="training data; .csv or .csv.gz, UTF-8")
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
    fit.add_argument(
        "--categorical",
        default="",
        metavar="A,B",
        help="columns whose list of numbers means categories, not a range",
    )
    fit.add_argument("--test", metavar="TEST.csv", help="also measure accuracy on these rows")
    fit.add_argument(
        "--neighboring-relation",
        choices=NEIGHBORING_RELATIONS,
        default="replace_one",
        help="what the guarantee hides: %(choices)s (default: %(default)s)",
        metavar="R",
    )
    fit.add_argument(
        "--solver", default="auto", metavar="S", help="private algorithm (default: auto)"
    )
    fit.add_argument(
        "--alpha",
        default="auto",
        type=_alpha,
        metavar="A",
        help="ridge of the mean loss, or auto (default: auto)",
    )
    fit.add_argument(
        "--seed", type=_seed, metavar="N", help="repeatable noise: for tests only, do not release"
    )
    fit.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    fit.add_argument(
        "-o", "--output", required=True, metavar="MODEL.json", help="model file to write"
    )
    fit.set_defaults(run=_fit)

    predict = commands.add_parser(
        "predict",
        help="predict the rows of a CSV file with a model file",
        description="Write a CSV file with the columns 'prediction' (a class) and 'probability' "
        "(of the positive class), one row for each row of DATA.csv, in order.",
    )
    predict.add_argument("model", metavar="MODEL.json", help="model file written by 'dpfast fit'")
    predict.add_argument("data", metavar="DATA.csv", help="rows to predict; .csv or .csv.gz")
    predict.add_argument("-o", "--output", required=True, metavar="OUT.csv", help="file to write")
    predict.set_defaults(run=_predict)

    plan_ = commands.add_parser(
        "plan",
        help="what a private fit would do and cost, without data",
        description="Print what a private fit would do: ridge, noise, and a bound of the excess "
        "risk, from the numbers given here alone.",
    )
    plan_.add_argument("--rows", required=True, type=_count, metavar="N", help="number of rows")
    plan_.add_argument(
        "--columns", required=True, type=_count, metavar="D", help="number of features"
    )
    plan_.add_argument("--epsilon", required=True, type=float, metavar="E", help="privacy loss")
    plan_.add_argument("--delta", required=True, type=float, metavar="D", help="0 for pure privacy")
    plan_.add_argument(
        "--data-norm", default=1.0, type=float, metavar="R",
        help="bound of the rows' Euclidean norms (default: 1)",
    )  # fmt: skip
    plan_.add_argument(
        "--loss", default="logistic", metavar="L", help="loss by name (default: logistic)"
    )
    plan_.add_argument(
        "--neighboring-relation", choices=NEIGHBORING_RELATIONS, default="replace_one", metavar="R",
        help="what the guarantee hides: %(choices)s (default: %(default)s)",
    )  # fmt: skip
    plan_.add_argument(
        "--solver", default="auto", metavar="S", help="private algorithm (default: auto)"
    )
    plan_.add_argument(
        "--plot", metavar="FILE",
        help="also draw the bound of output perturbation's excess risk against epsilon (.png, "
        ".pdf, .svg)",
    )  # fmt: skip
    plan_.set_defaults(run=_plan)
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer >= 1, got {text!r}")
    return int(text)


def _alpha(text: str) -> float | str:
    return text if text == "auto" else float(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected an integer >= 0, got {text!r}")
    return int(text)


# --- fit -----------------------------------------------------------------------------------------


def _fit(arguments: argparse.Namespace) -> None:
    # All that can be refused is refused before anything is spent.
    Budget(arguments.epsilon, arguments.delta)
    _check_writable(arguments.output)
    schema = TableSchema.from_bounds(
        read_bounds(arguments.bounds),
        target=arguments.target,
        categorical=[name.strip() for name in arguments.categorical.split(",") if name.strip()],
    )
    X, y, unused = _read_labeled(arguments.data, schema)
    test = _read_labeled(arguments.test, schema)[:2] if arguments.test else None

    if unused:
        _note(f"note: not in {arguments.bounds}, so not used: {', '.join(unused)}")
    if arguments.delta * len(y) > 1.0:
        _note(
            f"warning: delta = {arguments.delta:g} is more than one over the number of rows "
            f"({len(y):,}); that allows publishing whole rows. Take a far smaller delta."
        )
    if not arguments.json:
        _say(
            f"{arguments.data}: {len(y):,} rows, {len(schema.features)} columns, encoded as "
            f"{X.shape[1]} features; target {schema.target!r}."
        )
        _say(
            f"About to spend epsilon = {arguments.epsilon:g}, delta = {arguments.delta:g} on these "
            f"rows ({arguments.neighboring_relation}: {_CHANGES[arguments.neighboring_relation]})."
        )
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
    save_model(
        arguments.output,
        TabularModel(
            schema, estimator.coef_[0], float(estimator.intercept_[0]), estimator.privacy_
        ),
    )

    scores = {}
    if test is not None:
        X_test, y_test = test
        private = _scores(estimator.decision_function(X_test), y_test)
        scores = {"private": private, **_baselines(X, y, X_test, y_test)}
    if arguments.json:
        result: dict[str, Any] = {
            "model": arguments.output,
            "rows": len(y),
            "features": X.shape[1],
            "unused_columns": list(unused),
            "privacy": json.loads(estimator.privacy_.to_json()),
        }
        if test is not None:
            result["test"] = {"rows": len(test[1]), "covered_by_guarantee": False, **scores}
        print(json.dumps(result, indent=2))
        return
    _say("")
    _show_report(estimator.privacy_)
    if test is not None:
        _show_scores(arguments.test, len(test[1]), scores)
    _say(f"Model written to {arguments.output}.")


def _read_labeled(path: str, schema: TableSchema) -> tuple[Matrix, Labels, tuple[str, ...]]:
    columns = [feature.name for feature in schema.features] + [schema.target]
    table, unused = read_csv(path, columns)
    try:
        return schema.transform(table), schema.encode_target(table), unused
    except DpfastError as error:
        raise type(error)(f"{path}: {error}") from error


def _baselines(X: Matrix, y: Labels, X_test: Matrix, y_test: Labels) -> dict[str, Scores]:
    """Test scores of a non-private model and of the larger class."""
    scores = {}
    if 0 < y.sum() < len(y):
        plain = NonPrivateLogisticRegression(max_iter=1000).fit(X, y)
        scores["non_private"] = _scores(plain.decision_function(X_test), y_test)
    share = float(np.clip(np.mean(y), 1e-9, 1.0 - 1e-9))
    constant = np.full(len(y_test), math.log(share / (1.0 - share)))
    return {**scores, "majority_class": _scores(constant, y_test)}


def _scores(margins: Matrix, y: Labels) -> Scores:
    return {
        "accuracy": float(np.mean((margins > 0.0) == (y == 1))),
        "log_loss": float(np.mean(np.logaddexp(0.0, np.where(y == 1, -margins, margins)))),
    }


def _show_scores(path: str, rows: int, scores: dict[str, Scores]) -> None:
    screen = Screen(title=f"Test on {rows:,} rows of {Path(path).name}", title_justify="left")
    screen.add_column("model")
    screen.add_column("accuracy", justify="right")
    screen.add_column("log-loss", justify="right")
    labels = {
        "private": "private",
        "non_private": "not private (scikit-learn)",
        "majority_class": "always the larger class",
    }
    for key, score in scores.items():
        screen.add_row(labels[key], f"{score['accuracy']:.4f}", f"{score['log_loss']:.4f}")
    Console(markup=False, highlight=False).print(screen)
    _say(
        "Only the private model may be released. The other two rows, and all test scores, are "
        "computed without noise: the guarantee does not cover them.\n"
    )


# --- predict -------------------------------------------------------------------------------------


def _predict(arguments: argparse.Namespace) -> None:
    model = load_model(arguments.model)
    _check_writable(arguments.output)
    table, _ = read_csv(arguments.data, [feature.name for feature in model.schema.features])
    try:
        probability = model.predict_proba(table)[:, 1]
    except DpfastError as error:
        raise type(error)(f"{arguments.data}: {error}") from error
    prediction = model.label(probability)
    with atomic_writer(arguments.output) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["prediction", "probability"])
        for start in range(0, len(probability), _CHUNK_ROWS):
            rows = slice(start, start + _CHUNK_ROWS)
            writer.writerows(
                zip(prediction[rows].tolist(), probability[rows].tolist(), strict=True)
            )
    privacy = model.privacy
    _note(
        f"{len(probability):,} predictions of {model.schema.target!r} written to "
        f"{arguments.output}; 'probability' is that of {model.schema.classes[1]!r}. The model was "
        f"fitted with epsilon = {privacy.epsilon:.3g}, delta = {privacy.delta:.3g} "
        f"({privacy.neighboring_relation})."
    )
    if privacy.reproducible:
        _note("warning: the model's noise came from a fixed seed; do not release the model.")


# --- plan ----------------------------------------------------------------------------------------


def _plan(arguments: argparse.Namespace) -> None:
    if arguments.plot:
        _check_writable(arguments.plot)
    shape = ProblemShape(
        arguments.rows, arguments.columns, arguments.data_norm, Loss(arguments.loss)
    )
    budget = Budget(arguments.epsilon, arguments.delta)
    relation = arguments.neighboring_relation
    settled = plan(shape, arguments.solver, budget, neighboring_relation=relation)
    _say(str(settled))
    if arguments.plot:
        from dpfast.plotting import plot_risk_bounds

        try:
            ax = plot_risk_bounds(
                shape, arguments.delta, mark=arguments.epsilon, neighboring_relation=relation
            )
        except ImportError as error:
            raise ValueError(str(error)) from error
        ax.figure.savefig(arguments.plot)
        _say(f"Picture written to {arguments.plot}.")


# --- demo ----------------------------------------------------------------------------------------


def _demo(arguments: argparse.Namespace) -> None:
    data = load_randhie()
    X = BoundedScaler(list(data.bounds.values())).fit_transform(data.data)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = np.split(order, [int(0.8 * len(X))])

    console = Console(markup=False, highlight=False)
    fits: dict[float, list[LogisticRegression]] = {epsilon: [] for epsilon in _DEMO_EPSILONS}
    for epsilon in _track(_DEMO_EPSILONS * _DEMO_REPEATS):
        model = LogisticRegression(
            epsilon=epsilon,
            delta=_DEMO_DELTA,
            data_norm=math.sqrt(X.shape[1]),
            classes=data.classes,
            strict=True,
        )
        fits[epsilon].append(model.fit(X[train], data.target[train]))
    X_test, y_test = X[test], data.target[test]
    baselines = _baselines(X[train], data.target[train], X_test, y_test)

    _say(
        "Did a person see a doctor this year? Logistic regression on the RAND Health Insurance "
        f"Experiment: {len(train):,} person-years to learn from, {len(test):,} others to test on, "
        f"{X.shape[1]} features.\n"
    )
    screen = Screen()
    for name in ("epsilon", "max. factor", "test accuracy", "test log-loss"):
        screen.add_column(name, justify="right")
    for epsilon, models in fits.items():
        each = [_scores(model.decision_function(X_test), y_test) for model in models]
        score = {key: float(np.mean([scores[key] for scores in each])) for key in each[0]}
        screen.add_row(f"{epsilon:g}", f"{math.exp(epsilon):,.2f}", *_cells(score))
    screen.add_section()
    screen.add_row("not private", "no limit", *_cells(baselines["non_private"]))
    screen.add_row("larger class", "", *_cells(baselines["majority_class"]))
    console.print(screen)
    legend = Screen.grid(padding=(0, 2))
    for term, meaning in (
        ("epsilon", f"the privacy loss (with delta = {_DEMO_DELTA:g}); smaller is more private"),
        ("max. factor", "e^epsilon: how many times likelier one row can make any result"),
        ("test accuracy", "share of the test rows that are predicted right; higher is better"),
        ("test log-loss", "how far the probabilities are from what happened; lower is better"),
        ("not private", "scikit-learn's LogisticRegression on the same rows"),
        ("larger class", "the same answer for everybody, without looking at the features"),
    ):
        legend.add_row(term, meaning)
    console.print("", legend, "")
    _say(
        f"Each private row is the average of {_DEMO_REPEATS} fits with fresh noise; of private "
        "data only one of them could be released at its epsilon. The test scores themselves are "
        "computed without noise and no guarantee covers them; that is fine here because the data "
        "are public.\n"
    )
    _say(f"The privacy report of one model with epsilon = {_DEMO_REPORT_EPSILON:g}:\n")
    _show_report(fits[_DEMO_REPORT_EPSILON][0].privacy_)
    _say(
        "Here one record is one person in one year. A person has up to five records, and this "
        "guarantee is about each of them, not about all together."
    )


def _cells(score: Scores) -> tuple[str, str]:
    return f"{100.0 * score['accuracy']:.1f} %", f"{score['log_loss']:.4f}"


def _track(values: Sequence[float]) -> Iterator[float]:
    console = Console(stderr=True)
    columns = (TextColumn("fitting"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield from progress.track(values)


# --- messages ------------------------------------------------------------------------------------


def _say(text: str) -> None:
    """Print prose, wrapped to the width of the terminal."""
    Console(markup=False, highlight=False, emoji=False).print(text)


def _show_report(report: PrivacyReport) -> None:
    """Print a privacy report with its table of events fitted to the terminal."""
    table_start = "  "
    _say("\n".join(x for x in str(report).splitlines() if not x.startswith(table_start)))
    screen = Screen()
    for name in ("where", "mechanism"):
        screen.add_column(name)
    for name in ("count", "dimension", "sensitivity", "noise"):
        screen.add_column(name, justify="right")
    for event in report.events:
        cells = ("-" if number is None else f"{number:.4g}" for number in numbers(event))
        screen.add_row(event.where, event.mechanism, str(event.count), *cells)
    Console(markup=False, highlight=False).print(screen, "")


def _note(text: str) -> None:
    print(text, file=sys.stderr)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    _note(f"warning: {' '.join(str(message).split())}")


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def _check_writable(path: str) -> None:
    """Refuse a result file that cannot be written, before the work is done."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory; give the name of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no directory {target.parent}.")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise PermissionError(f"cannot write {path}: permission denied.")


if __name__ == "__main__":
    sys.exit(main())
