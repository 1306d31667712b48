"""The experiments of Kuru et al. 2020, Figures 3 and 4: six first-order methods at epsilon = 1."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.harness import Document, Record, Run
from bench.report import Table, duration, plain

NAME = "kuru2020"
TITLE = "Private first-order methods at pure epsilon (Kuru et al. 2020)"
METHODS = ("dp-gd", "dp-hb", "dp-nag", "dp-masg", "dp-nag-opt", "dp-masg-opt")
COMPETITORS = dict.fromkeys(METHODS, "epsilon-DP (replace one), exact Laplace noise") | {
    "published code": "epsilon = 1, its Laplace scale corrected (means of its own runs)"
}
_ERROR = "final error"
_COST = "iteration cost"
# The authors' code with its noise scale corrected, full batch, c = 1, start 10: mean F - F*.
_PUBLISHED = {
    "dp-gd": (13.9, 0.014, 0.075, 0.344),
    "dp-hb": (0.015, 0.181, 0.768, 1.76),
    "dp-nag": (0.044, 0.076, 0.444, 2.09),
    "dp-masg": (0.031, 0.014, 0.082, 0.134),
    "dp-nag-opt": (0.0074, 0.012, 0.016, 0.010),
    "dp-masg-opt": (0.0064, 0.011, 0.0069, math.nan),
}
_PUBLISHED_T = (100, 200, 500, 1000)
_ALPHA = 0.02  # twice the paper's lambda = 0.01


@dataclass(frozen=True)
class Sizes:
    """Rows, columns, samples, iterations, step sizes c, starts and runs of each setting."""

    n: int = 100_000
    d: int = 20
    batches: tuple[int, ...] = (100_000, 1000)
    iterations: tuple[int, ...] = (100, 200, 500, 1000)
    steps: tuple[float, ...] = (0.1, 1.0)
    runs: int = 20
    epsilon: float = 1.0


FULL = Sizes()
QUICK = Sizes(20_000, 10, (20_000, 500), (20, 50), (1.0,), 2)


def run(settings: Run, sizes: Sizes) -> list[Record]:
    from dpfast import Budget, Problem, solve
    from dpfast.datasets import make_uniform_classification
    from dpfast.objectives import Erm
    from dpfast.optimizers import OPTIMIZERS

    X, y = make_uniform_classification(sizes.n, sizes.d)
    problem = Problem(X, y, data_norm=math.sqrt(sizes.d), intercept=0.0, alpha=_ALPHA)
    best = OPTIMIZERS["newton"](Erm(problem, _ALPHA), tolerance=1e-10).w
    optimum = problem.value_and_gradient(best)[0]
    budget = Budget(sizes.epsilon)
    records: list[Record] = []
    starts = (10.0, 0.0)
    for start in starts:
        w0 = np.full(sizes.d, start)
        error = problem.value_and_gradient(w0)[0] - optimum
        records.append(Record("start", {"start": start}, "-", {"error": error}))
        settings.say(f"  start {start:g}: F - F* = {error:.3g}")
    for start in starts:
        for batch in sizes.batches:
            for c in sizes.steps:
                if start == 0.0 and (batch != sizes.n or c != sizes.steps[-1]):
                    continue
                settings.say(f"  start {start:g}, {batch:,} rows a gradient, c = {c:g}")
                for T in sizes.iterations:
                    for name in METHODS:
                        options = _options(name, sizes, start, batch, c, T)
                        values = []
                        for seed in range(sizes.runs):
                            result = solve(problem, name, budget, random_state=seed, **options)
                            values.append(problem.value_and_gradient(result.w)[0] - optimum)
                        case = {"start": start, "batch": batch, "c": c, "T": T}
                        records.append(
                            Record(
                                _ERROR,
                                case,
                                name,
                                {
                                    "error": float(np.mean(values)),
                                    "standard_error": float(
                                        np.std(values) / math.sqrt(max(1, len(values) - 1))
                                    ),
                                    "iterations": result.plan.parameters["iterations"],
                                    "bound": float(result.plan.expected["excess_risk_bound"]),
                                },
                            )
                        )
    return records + _iteration_cost(problem, X, sizes)


def _options(name: str, sizes: Sizes, start: float, batch: int, c: float, T: int) -> dict[str, Any]:
    """The paper's settings; its T' <= T of the least bound for the guess E_0 = 10."""
    from dpfast import Budget, ProblemShape, plan

    options: dict[str, Any] = {
        "alpha": _ALPHA,
        "iterations": T,
        "step": c,
        "data_l1_norm": float(sizes.d),
        "w0": np.full(sizes.d, start),
        "initial_error": 10.0,
    }
    if batch != sizes.n:
        options["batch"] = batch
    if name == "dp-hb":
        root = math.sqrt(c / (0.25 * sizes.d + _ALPHA) * _ALPHA)
        options["momentum"] = (1.0 - root) / (1.0 + root)
    if name.endswith("-opt"):
        shape = ProblemShape(sizes.n, sizes.d, math.sqrt(sizes.d), intercept=0.0, alpha=_ALPHA)
        grid = np.unique(np.round(np.geomspace(5, T, 24)).astype(int))
        options["iterations"] = int(
            min(
                grid,
                key=lambda length: plan(
                    shape, name, Budget(sizes.epsilon), **{**options, "iterations": int(length)}
                ).expected["excess_risk_bound"],
            )
        )
    return options


def _iteration_cost(problem: Any, X: Any, sizes: Sizes) -> list[Record]:
    """Time of an iteration, in times of one read of X."""
    from dpfast import Budget, solve

    def seconds(call: Any) -> float:
        best = math.inf
        for _ in range(5):
            begin = time.perf_counter()
            call()
            best = min(best, time.perf_counter() - begin)
        return best

    few, many = 5, 55
    read = seconds(lambda: X.sum())
    gradient = seconds(lambda: problem.clipped_gradient(np.zeros(sizes.d)))
    records = []
    for name in METHODS:
        times = [
            seconds(
                lambda T=T, name=name: solve(problem, name, Budget(1.0), iterations=T, step=0.5)
            )
            for T in (few, many)
        ]
        step = (times[1] - times[0]) / (many - few)
        values = {"seconds": step, "reads": step / read, "gradients": step / gradient}
        records.append(Record(_COST, {"n": sizes.n, "d": sizes.d}, name, values))
    return records


def tables(document: Document) -> list[Table]:
    errors = [r for r in document.records if r.group == _ERROR]
    settings = list(dict.fromkeys((r.case["start"], r.case["batch"], r.case["c"]) for r in errors))
    sizes = document.sizes
    made = []
    for start, batch, c in settings:
        here = [
            r
            for r in errors
            if (r.case["start"], r.case["batch"], r.case["c"]) == (start, batch, c)
        ]
        lengths = list(dict.fromkeys(int(r.case["T"]) for r in here))
        compare = (start, batch, c, sizes["n"], sizes["d"]) == (10.0, 100_000, 1.0, 100_000, 20)
        rows = []
        for name in METHODS:
            cells = []
            for T in lengths:
                (record,) = [r for r in here if r.competitor == name and r.case["T"] == T]
                text = f"{record.values['error']:.2g} ± {record.values['standard_error']:.1g}"
                if record.values["iterations"] != T:
                    text += f" (T'={int(record.values['iterations'])})"
                if compare and T in _PUBLISHED_T:
                    value = _PUBLISHED[name][_PUBLISHED_T.index(T)]
                    text += f" [{value:g}]" if math.isfinite(value) else " [-]"
                cells.append(text)
            rows.append((name, *cells))
        made.append(
            Table(
                f"Start {start:g}, {plain(batch)} rows a gradient, c = {c:g}",
                f"Mean of F - F* at the end over {sizes['runs']} runs, with its standard error."
                + (
                    " In brackets: the authors' code, noise corrected, on its own draw of "
                    "the data, where the start has F - F* = 71.5."
                    if compare
                    else ""
                ),
                ("method", *(f"T = {T}" for T in lengths)),
                rows,
            )
        )
    made.append(
        Table(
            "Cost of an iteration",
            "Difference of fits with 55 and with 5 iterations, per iteration: gradient, noise, "
            "ledger and step. A read of X is NumPy's sum of it.",
            ("method", "time", "reads of X", "gradients"),
            [
                (
                    r.competitor,
                    duration(r.values["seconds"]),
                    f"{r.values['reads']:.2f}",
                    f"{r.values['gradients']:.2f}",
                )
                for r in document.records
                if r.group == _COST
            ],
        )
    )
    starts = {r.case["start"]: r.values["error"] for r in document.records if r.group == "start"}
    made.append(
        Table(
            "Where the methods start",
            "F - F* before the first iteration: what a method must beat to be of use.",
            ("start", "F - F*"),
            [(f"{start:g}", f"{error:.3g}") for start, error in starts.items()],
        )
    )
    return made


def draw(document: Document, figure: Any) -> None:
    """Final error over the number of iterations, one panel a setting."""
    errors = [r for r in document.records if r.group == _ERROR]
    settings = list(dict.fromkeys((r.case["start"], r.case["batch"], r.case["c"]) for r in errors))
    starts = {r.case["start"]: r.values["error"] for r in document.records if r.group == "start"}
    columns = min(3, len(settings))
    rows = -(-len(settings) // columns)
    figure.set_size_inches(4.0 * columns, 3.2 * rows + 0.4)
    axes = np.ravel(figure.subplots(rows, columns, sharey=True, squeeze=False))
    for axis in axes[len(settings) :]:
        axis.set_axis_off()
    for axis, (start, batch, c) in zip(axes, settings, strict=False):
        here = [
            r
            for r in errors
            if (r.case["start"], r.case["batch"], r.case["c"]) == (start, batch, c)
        ]
        for k, name in enumerate(METHODS):
            points = [(r.case["T"], r.values["error"]) for r in here if r.competitor == name]
            style = "-" if name.endswith("-opt") else "--"
            color = f"C{METHODS.index(name.removesuffix('-opt'))}"
            axis.plot(
                *zip(*points, strict=True), f"o{style}", color=color, label=name, markersize=4
            )
            if (start, batch, c) == (10.0, 100_000, 1.0) and document.sizes["d"] == 20:
                label = "published code, repaired" if k == 0 else None
                axis.plot(_PUBLISHED_T, _PUBLISHED[name], "x", color=color, label=label)
        axis.axhline(starts[0.0], color="0.5", linewidth=0.8, linestyle=":")
        axis.set(xscale="log", yscale="log", xlabel="iterations allowed, T")
        axis.set_title(f"start {start:g}, {plain(batch)} rows, c = {c:g}", fontsize=10)
    axes[0].set_ylabel("F - F* at the end")
    handles, labels = axes[0].get_legend_handles_labels()
    axes[len(settings) - 1].legend(handles, labels, frameon=False, fontsize=7)
