"""``dpfast bench``: how fast this machine reads rows and fits, at a size of the user's choice."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from sklearn.linear_model import LogisticRegression as NonPrivateLogisticRegression

from dpfast import _kernels
from dpfast._validation import check_choice
from dpfast.cli import _numpy_kernels
from dpfast.cli._arguments import Commands, add_json, add_relation, add_solver, count
from dpfast.cli._screen import console, describe, legend, note, say, scores, show_json, track
from dpfast.estimators import LogisticRegression
from dpfast.privacy import Budget
from dpfast.privacy.repeats import FITS
from dpfast.problem import Problem
from dpfast.solvers import SOLVERS

_SOLVERS = ("auto", "objective-perturbation", "output-perturbation")
_TEST_ROWS = 20_000
_BLOCK_ROWS = 100_000
_GIB = 2.0**30
_NUMPY = " in NumPy"
# What would take longer in NumPy is not timed: steps along one row are a few hundred times as slow
# there, all else up to 8 times.
_LONGEST_SECONDS = 60.0
_SLOWER = {"rrpsgd": 400.0}
_OFTEN_SLOWER = 8.0


def add(commands: Commands) -> None:
    """Add the command's parser."""
    bench = commands.add_parser(
        "bench",
        help="how fast this machine fits, at a size of your choice",
        description="Time the reading of rows, one gradient and whole private fits on made-up "
        "rows of the size that you give, next to the same fits with NumPy instead of "
        "compiled code and to scikit-learn's non-private fit. The best of several rounds counts.",
        epilog="The benchmarks behind the published numbers (kernels, the papers' tables, other "
        "libraries) are in the source tree: 'python -m bench' there.",
    )
    bench.add_argument("--rows", type=count, default=100_000, metavar="N", help="(default: 100000)")
    bench.add_argument("--columns", type=count, default=20, metavar="D", help="(default: 20)")
    bench.add_argument("--epsilon", type=float, default=1.0, metavar="E", help="(default: 1)")
    bench.add_argument("--delta", type=float, default=1e-6, metavar="D", help="(default: 1e-6)")
    add_relation(bench)
    add_solver(
        bench,
        action="append",
        default=None,
        help="private algorithm, may be repeated; 'all' tries every one "
        f"(default: {', '.join(_SOLVERS)})",
    )
    bench.add_argument("--jobs", type=count, default=1, metavar="N", help="threads (default: 1)")
    bench.add_argument("--repeat", type=count, default=3, metavar="K", help="rounds (default: 3)")
    add_json(bench)
    bench.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Make rows, time everything, show a table."""
    Budget(arguments.epsilon, arguments.delta)
    names = list(dict.fromkeys(arguments.solver or _SOLVERS))
    for name in names:
        check_choice("--solver", name, ("auto", "all", *SOLVERS))
    if "all" in names:
        names = ["auto", *SOLVERS]
    X, y, X_test, y_test = _rows(arguments.rows, arguments.columns)
    if y.min() == y.max():
        raise ValueError(
            "--rows must be enough for both classes among the made-up rows; got "
            f"{arguments.rows}, all of one."
        )
    with FITS.public_rows():
        timed = dict(_time(_works(arguments, names, X, y), arguments.repeat))
    fits = [
        _record(name, *timed[name], X_test, y_test)
        | {"numpy_seconds": timed[name + _NUMPY][0] if name + _NUMPY in timed else None}
        for name in names
        if name in timed
    ]
    usual = _record("not private", *timed["not private"], X_test, y_test)
    result = {
        "rows": arguments.rows,
        "columns": arguments.columns,
        "mebibytes": X.nbytes / 2**20,
        "threads": arguments.jobs,
        "repeat": arguments.repeat,
        "epsilon": arguments.epsilon,
        "delta": arguments.delta,
        "neighboring_relation": arguments.neighboring_relation,
        "instruction_set": _kernels.isa_name(),
        "read_gib_per_second": X.nbytes / _GIB / timed["read"][0],
        "gradient_seconds": timed["gradient"][0],
        "gradient_gib_per_second": X.nbytes / _GIB / timed["gradient"][0],
        "non_private": usual,
        "fits": fits,
    }
    if arguments.json:
        show_json("bench", result)
    else:
        _show(result)


def _works(
    arguments: argparse.Namespace, names: list[str], X: NDArray[Any], y: NDArray[Any]
) -> dict[str, Callable[[], Any]]:
    """What is timed, by name: reading, a gradient, and fits."""
    problem = Problem(X, 2.0 * y - 1.0, data_norm=1.0, n_jobs=arguments.jobs)
    w = np.zeros(problem.shape.dim)
    flat = X.reshape(-1)

    def private(name: str) -> Any:
        return LogisticRegression(
            epsilon=arguments.epsilon,
            delta=arguments.delta,
            solver=name,
            data_norm=1.0,
            neighboring_relation=arguments.neighboring_relation,
            classes=[0, 1],
            n_jobs=arguments.jobs,
            strict=True,
        ).fit(X, y)

    def in_numpy(name: str) -> Any:
        with _numpy_kernels.in_numpy():
            return private(name)

    works: dict[str, Callable[[], Any]] = {
        "read": lambda: _kernels.read_sum(flat),
        "gradient": lambda: problem.value_and_gradient(w),
        "not private": lambda: NonPrivateLogisticRegression(max_iter=1000).fit(X, y),
    }
    for name in names:
        works[name] = partial(private, name)
        works[name + _NUMPY] = partial(in_numpy, name)
    return works


def _rows(n: int, d: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows of norm 1 with labels of a logistic model, and fresh ones to test on."""
    try:
        everything = np.empty((n + _TEST_ROWS, d))
    except (MemoryError, ValueError) as error:
        raise MemoryError(
            f"{n:,} rows x {d:,} columns are {8 * n * d / _GIB:.3g} GiB; take fewer."
        ) from error
    rng = np.random.default_rng(0)
    # Margins have a standard deviation of about 2.5, whatever d.
    weights = 2.5 * rng.standard_normal(d)
    labels = np.empty(len(everything), dtype=np.int64)
    for start in range(0, len(everything), _BLOCK_ROWS):
        block = everything[start : start + _BLOCK_ROWS]
        rng.standard_normal(out=block)
        block /= np.linalg.norm(block, axis=1, keepdims=True)
        chance = 1.0 / (1.0 + np.exp(-(block @ weights)))
        labels[start : start + _BLOCK_ROWS] = rng.random(len(block)) < chance
    return everything[:n], labels[:n], everything[n:], labels[n:]


def _time(
    works: dict[str, Callable[[], Any]], repeat: int
) -> Iterator[tuple[str, tuple[float, Any]]]:
    """Best time and last result of each; what cannot be done is left out with a note."""
    best: dict[str, tuple[float, Any]] = {}
    refused: set[str] = set()
    turns = [name for _ in range(repeat) for name in works]
    for name in track(turns, "timing"):
        if name in refused:
            continue
        if name.endswith(_NUMPY):
            solver = name.removesuffix(_NUMPY)
            if solver not in best:
                continue
            slower = _SLOWER.get(solver, _OFTEN_SLOWER)
            if slower * best[solver][0] > _LONGEST_SECONDS:
                refused.add(name)
                note(f"note: {name} is left out: it may take minutes")
                continue
        start = time.perf_counter()
        try:
            made = works[name]()
        except Exception as error:  # one that fails must not take the others with it
            refused.add(name)
            note(f"note: {name} is left out: {describe(error)}")
            continue
        seconds = time.perf_counter() - start
        best[name] = (min(seconds, best[name][0] if name in best else math.inf), made)
    yield from best.items()


def _record(
    name: str, seconds: float, model: Any, X_test: NDArray[Any], y_test: NDArray[Any]
) -> dict[str, Any]:
    return {
        "solver": name,
        "seconds": seconds,
        **scores(model.decision_function(X_test), y_test),
    }


def _beside_numpy(fit: dict[str, Any]) -> str:
    """How many times as long as the fit its twin takes; a dash where there is none."""
    seconds = fit.get("numpy_seconds")
    return "-" if seconds is None else f"{seconds / fit['seconds']:.1f} x"


def _show(result: dict[str, Any]) -> None:
    say(
        f"{result['rows']:,} made-up rows x {result['columns']:,} columns, float64: "
        f"{result['mebibytes']:,.1f} MiB; {result['threads']} thread(s), instruction set "
        f"{result['instruction_set']}, best of {result['repeat']}.\n"
    )
    legend(
        [
            (f"{result['read_gib_per_second']:.1f} GiB/s", "reading the rows, one thread"),
            (
                f"{result['gradient_gib_per_second']:.1f} GiB/s",
                f"reading them for one gradient ({1e3 * result['gradient_seconds']:.3g} ms)",
            ),
        ]
    )
    screen = Table()
    screen.add_column("fit", no_wrap=True)
    for name in ("seconds", "ratio", "NumPy", "accuracy", "log-loss"):
        screen.add_column(name, justify="right")
    usual = result["non_private"]
    for one in (*result["fits"], usual):
        screen.add_row(
            "not private" if one is usual else one["solver"],
            f"{one['seconds']:.4f}",
            f"{one['seconds'] / usual['seconds']:.2f}",
            _beside_numpy(one),
            f"{100.0 * one['accuracy']:.1f} %",
            f"{one['log_loss']:.4f}",
        )
    console().print("", screen, "")
    say(
        "'not private' is scikit-learn's LogisticRegression, 'ratio' the time next to its, 'NumPy' "
        "how many times as long the same fit takes if every pass over the rows is NumPy, written "
        "as well as it can be there. "
        f"Private fits have epsilon = {result['epsilon']:g}, delta = {result['delta']:g} "
        f"({result['neighboring_relation']}). Scores are on {_TEST_ROWS:,} further made-up "
        "rows; one fit with fresh noise stands for each solver. On your own data they will be "
        "others: try 'dpfast fit --test'."
    )
