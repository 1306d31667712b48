"""How the time of a private fit grows: with rows, columns, threads, non-zeros and iterations."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bench.competitors import Task, sklearn_nonprivate
from bench.harness import Document, Record, Run, interleave, timing_records
from bench.machine import usable_cores
from bench.problems import synthetic
from bench.report import Table, duration, plain

NAME = "scaling"
TITLE = "How the time of a private fit grows"
AUTO, DESCENT, SKLEARN = "auto", "dp-nag", sklearn_nonprivate.NAME
DENSE, SPARSE = "dp-nag, dense rows", "dp-nag, sparse rows"
COMPETITORS = {
    AUTO: "(epsilon, delta)-DP under replace_one: what 'auto' chooses, with its defaults",
    DESCENT: "(epsilon, delta)-DP under replace_one: a noisy gradient an iteration, 20 of them "
    "unless said",
    DENSE: "the same, every zero of the rows stored",
    SPARSE: "the same, on compressed sparse rows",
    SKLEARN: sklearn_nonprivate.GUARANTEE,
}
ROWS, COLUMNS, THREADS, DENSITY, ITERATIONS = (
    "rows", "columns", "threads", "share of non-zeros", "iterations",
)  # fmt: skip
# What each group varies, as its cases name it.
_AXES = {ROWS: "n", COLUMNS: "d", THREADS: "threads", DENSITY: "density", ITERATIONS: "T"}
_T = 20
_EPSILON, _DELTA = 1.0, 1e-6


@dataclass(frozen=True)
class Sizes:
    """What is varied, and what is kept meanwhile."""

    rows: tuple[int, ...] = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
    rows_columns: int = 20
    columns: tuple[int, ...] = (10, 30, 100, 300, 1000)
    columns_rows: int = 50_000
    #: Of as many threads as there are cores at most.
    threads: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    threads_shape: tuple[int, int] = (1_000_000, 50)
    densities: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    density_shape: tuple[int, int] = (100_000, 500)
    iterations: tuple[int, ...] = (1, 10, 100, 1000)
    iterations_shape: tuple[int, int] = (100_000, 20)
    #: A comparison that takes longer gets two rounds.
    group_seconds: float = 15.0


FULL = Sizes()
QUICK = Sizes(
    rows=(10_000, 100_000), columns=(10, 100), columns_rows=10_000, threads=(1, 2),
    threads_shape=(300_000, 50), densities=(0.01, 0.1, 1.0), density_shape=(20_000, 300),
    iterations=(1, 10, 100), iterations_shape=(20_000, 20), group_seconds=2.0,
)  # fmt: skip


def run(settings: Run, sizes: Sizes) -> list[Record]:
    records: list[Record] = []
    shapes = [(ROWS, n, sizes.rows_columns) for n in sizes.rows]
    shapes += [(COLUMNS, sizes.columns_rows, d) for d in sizes.columns]
    for group, n, d in shapes:
        data = synthetic(n, d)
        task = Task(data.X, data.y, data.data_norm)
        contestants = {
            AUTO: private_fit(data.X, data.y, AUTO),
            DESCENT: private_fit(data.X, data.y, DESCENT, iterations=_T),
            SKLEARN: partial(sklearn_nonprivate.fit, task),
        }
        records += _timed(settings, sizes, group, {"n": n, "d": d}, contestants)

    n, d = sizes.threads_shape
    data = synthetic(n, d)
    for threads in sizes.threads:
        if threads > usable_cores():
            settings.note(f"{threads} threads left out: there are {usable_cores()} cores.")
            continue
        fit = private_fit(data.X, data.y, DESCENT, n_jobs=threads, iterations=_T)
        case = {"n": n, "d": d, "threads": threads}
        records += _timed(settings, sizes, THREADS, case, {DESCENT: fit})

    n, d = sizes.density_shape
    for density in sizes.densities:
        X, y = sparse_rows(n, d, density)
        contestants = {
            SPARSE: private_fit(X, y, DESCENT, iterations=_T),
            DENSE: private_fit(X.toarray(), y, DESCENT, iterations=_T),
        }
        case = {"n": n, "d": d, "density": density}
        records += _timed(settings, sizes, DENSITY, case, contestants)

    n, d = sizes.iterations_shape
    data = synthetic(n, d)
    for iterations in sizes.iterations:
        fit = private_fit(data.X, data.y, DESCENT, iterations=iterations)
        case = {"n": n, "d": d, "T": iterations}
        records += _timed(settings, sizes, ITERATIONS, case, {DESCENT: fit})
    return records


def _timed(
    settings: Run,
    sizes: Sizes,
    group: str,
    case: dict[str, int | float | str],
    contestants: dict[str, Callable[[], object]],
) -> list[Record]:
    settings.say(f"  {group}: {', '.join(f'{k} = {plain(v)}' for k, v in case.items())}")
    timings = interleave(
        contestants,
        repeat=settings.repeat,
        group_seconds=sizes.group_seconds,
        fewest_rounds=2,
        # On one thread, other processes should not count.
        clock=time.perf_counter if group == THREADS else time.process_time,
    )
    return timing_records(group, case, timings, [SKLEARN, DENSE])


def private_fit(
    X: Any,
    y: NDArray[np.float64],
    solver: str,
    *,
    n_jobs: int = 1,
    epsilon: float = _EPSILON,
    data_norm: float = 1.0,
    **options: Any,
) -> Callable[[], NDArray[np.float64]]:
    """A fit from rows to weights, validation and norms included; its plan is made before."""
    from dpfast import Budget, Problem, plan
    from dpfast.privacy import Ledger
    from dpfast.random import SecureGenerator
    from dpfast.solvers import carry_out

    def problem() -> Problem:
        return Problem(X, y, data_norm=data_norm, n_jobs=n_jobs)

    settled = plan(problem().shape, solver, Budget(epsilon, _DELTA), **options)

    def fit() -> NDArray[np.float64]:
        ledger = Ledger(settled.budget, adaptive=settled.adaptive)
        return carry_out(settled, problem(), SecureGenerator(0), ledger).w

    return fit


def sparse_rows(n: int, d: int, density: float) -> tuple[Any, NDArray[np.float64]]:
    """Rows in the unit ball with a fixed number of non-zeros each, at random columns."""
    rng = np.random.default_rng(0)
    count = max(1, round(density * d))
    # Columns of a row: one of each of `count` strips, so that they are sorted and differ.
    edges = np.linspace(0, d, count + 1).astype(np.int64)
    indices = rng.integers(edges[:-1], edges[1:], (n, count))
    values = rng.uniform(-1.0, 1.0, (n, count)) / math.sqrt(count)
    X = scipy.sparse.csr_array(
        (values.ravel(), indices.ravel().astype(np.int32), np.arange(0, n * count + 1, count)),
        shape=(n, d),
    )
    margins = X @ rng.standard_normal(d)
    y = np.where(rng.logistic(size=n) < margins * (2.0 / margins.std()), 1.0, -1.0)
    return X, y


def growth(records: Sequence[Record], axis: str) -> float:
    """Exponent of the power law through the two largest cases; NaN if there are fewer."""
    points = sorted((float(r.case[axis]), r.values["seconds"]) for r in records)[-2:]
    if len(points) < 2:
        return math.nan
    (x0, t0), (x1, t1) = points
    return math.log(t1 / t0) / math.log(x1 / x0)


# ---- reporting ----------------------------------------------------------------------------------


_TEXTS = {
    ROWS: "Processor time, as in all tables but that of the threads. 'growth' is the exponent "
    "between the two largest sizes: 1 is proportional. Where 'auto' gets faster with more rows, it "
    "has changed from whitened descent to objective perturbation.",
    COLUMNS: "A noisy gradient is proportional to the columns; what 'auto' chooses may learn "
    "their covariances or solve with a Hessian, which is not.",
    THREADS: "Weights do not depend on the number of threads.",
    DENSITY: "Every row has the same number of non-zeros.",
    ITERATIONS: "The time of one iteration is what the last lines differ by.",
}


def tables(document: Document) -> list[Table]:
    found = []
    for group, axis in _AXES.items():
        own = [r for r in document.records if r.group == group]
        if not own:
            continue
        names = list(dict.fromkeys(r.competitor for r in own))
        fixed = {k: v for k, v in own[0].case.items() if k != axis}
        seconds = {(r.case[axis], r.competitor): r.values["seconds"] for r in own}
        rows = [
            (plain(x), *(duration(seconds[x, name]) for name in names))
            for x in dict.fromkeys(r.case[axis] for r in own)
        ]
        exponents = [growth([r for r in own if r.competitor == name], axis) for name in names]
        if not any(map(math.isnan, exponents)):
            rows.append(("growth", *(f"{e:.2f}" for e in exponents)))
        kept = ", ".join(f"{k} = {plain(v)}" for k, v in fixed.items())
        found.append(
            Table(f"Time against {group}", f"{kept}. {_TEXTS[group]}", (axis, *names), rows)
        )
    return found


_COLORS = {AUTO: "black", DESCENT: "C0", SKLEARN: "C1", DENSE: "C3", SPARSE: "C0"}


def draw(document: Document, figure: Any) -> None:
    """A panel a question, both axes logarithmic."""
    groups = [g for g in _AXES if any(r.group == g for r in document.records)]
    columns = 3
    rows = -(-len(groups) // columns)
    figure.set_size_inches(10.0, 0.6 + 3.0 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[len(groups) :]:
        axis.set_axis_off()
    for axis, group in zip(axes, groups, strict=False):
        own = [r for r in document.records if r.group == group]
        key = _AXES[group]
        for name in dict.fromkeys(r.competitor for r in own):
            points = [(r.case[key], r.values["seconds"]) for r in own if r.competitor == name]
            axis.plot(*zip(*points, strict=True), "o-", color=_COLORS[name], markersize=4,
                      label=name)  # fmt: skip
        axis.set_xscale("log")
        axis.set_yscale("log")
        places = list(dict.fromkeys(float(r.case[key]) for r in own))
        axis.set_xticks(places, [_short(x) for x in places], fontsize=8)
        axis.minorticks_off()
        axis.yaxis.set_major_formatter(
            lambda t, _: duration(t).replace(".00", "").replace(".0 ", " ")
        )
        low, high = axis.get_ylim()
        if high / low < 20.0:  # more than one tick
            axis.set_ylim(low / 2.5, high * 2.5)
        axis.tick_params(axis="y", labelsize=8)
        axis.set_title(f"{group} ({_fixed(own[0], key)})", fontsize=9)
        axis.legend(frameon=False, fontsize=8)
        axis.grid(color="0.92")
        axis.set_axisbelow(True)
    for axis in axes[::columns]:
        axis.set_ylabel("time of a fit")


def _fixed(record: Record, key: str) -> str:
    return ", ".join(f"{k} = {_short(float(v))}" for k, v in record.case.items() if k != key)


def _short(x: float) -> str:
    """Such as 30k and 1M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if x >= size:
            return f"{x / size:g}{unit}"
    return f"{x:g}"
