"""Every solver against itself with NumPy's passes over the rows; whole fits beside scikit-learn."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.arrange import bars, grouped, index, pick
from bench.competitors import COMPETITORS as ALL
from bench.competitors import Task, dpfast_native, present, sklearn_nonprivate
from bench.harness import Document, Record, Run, interleave, timing_records
from bench.problems import Dataset, private_fit, synthetic
from bench.report import (
    NAMED,
    SHAPE,
    TIME,
    Cell,
    Table,
    duration,
    plain,
    rows_of,
    scientific,
    speed,
    time_share,
)
from dpfast.cli._numpy_kernels import in_numpy

NAME = "baseline"
TITLE = "Native code against NumPy"
OURS, OUTPUT, SKLEARN = dpfast_native.NAME, dpfast_native.OUTPUT.NAME, sklearn_nonprivate.NAME
TWIN = "the same in NumPy"
COMPETITORS = {
    **{name: ALL[name].GUARANTEE for name in (OURS, OUTPUT, SKLEARN)},
    TWIN: "what the solver promises, but for rounding errors, which NumPy does not bound",
}
_FIT, SOLVER = "fit", "solver"

# Where the defaults would take long: fewer iterations of the same kind.
_OPTIONS: dict[str, dict[str, Any]] = {
    **{
        name: {"iterations": 10}
        for name in (
            "dp-whitened-gd", "dp-gd", "dp-hb", "dp-nag", "dp-nag-opt", "dp-masg", "dp-masg-opt",
        )
    },
    "dp-agd": {"max_iterations": 10},
    "dp-sgd": {"epochs": 1},
    "dp-svrg": {"epochs": 1},
    "rrpsgd": {"steps": 20_000},
    "privgene": {"generations": 4},
}  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """Rows and columns of whole fits and of every solver, and the budget."""

    shapes: tuple[tuple[int, int], ...]
    solver_shapes: tuple[tuple[int, int], ...]
    epsilon: float = 1.0
    delta: float = 1e-6
    #: A solver whose run in NumPy is expected to take longer is left out.
    longest_seconds: float = 12.0
    #: Steps of random-round SGD, which are never more than n².
    steps: int = 20_000
    #: None: all of them.
    solvers: tuple[str, ...] | None = None


FULL = Sizes(
    ((10_000, 20), (100_000, 20), (1_000_000, 20), (500_000, 120)),
    ((10_000, 20), (100_000, 20), (1_000_000, 20), (5_000_000, 20)),
)
QUICK = Sizes(((10_000, 20), (100_000, 20)), ((10_000, 20), (100_000, 20)), longest_seconds=1.0)


def run(settings: Run, sizes: Sizes) -> list[Record]:
    return _solvers(settings, sizes) + _fits(settings, sizes)


# ---- every solver -------------------------------------------------------------------------------


def _solvers(settings: Run, sizes: Sizes) -> list[Record]:
    from dpfast.solvers import SOLVERS

    records: list[Record] = []
    names = [name for name in SOLVERS if sizes.solvers is None or name in sizes.solvers]
    expected = dict.fromkeys(names, 0.0)  # seconds of NumPy, from the shape before
    entries = 0
    for n, d in sizes.solver_shapes:
        settings.say(f"  solvers, {n:,} x {d}")
        data = synthetic(n, d)
        for name in names:
            # A given number of single steps takes as long on more rows.
            growth = 1.0 if "steps" in _options(name, sizes) else n * d / max(entries, 1)
            seconds = expected[name] * growth
            if seconds > sizes.longest_seconds:
                settings.note(
                    f"{name} left out at {n:,} x {d}: NumPy would take some {seconds:.0f} s."
                )
                continue
            fit = solver_fit(name, data, sizes)
            found: dict[str, NDArray[np.float64]] = {}

            def native(fit: Any = fit, found: Any = found) -> None:
                found[OURS] = fit()

            def twin(fit: Any = fit, found: Any = found) -> None:
                with in_numpy():
                    found[TWIN] = fit()

            timings = interleave(
                {OURS: native, TWIN: twin},
                repeat=settings.repeat,
                group_seconds=sizes.longest_seconds,
                fewest_rounds=2,
                clock=time.process_time,
            )
            expected[name] = timings[TWIN].seconds
            difference = float(np.linalg.norm(found[TWIN] - found[OURS]))
            case = {"n": n, "d": d, "solver": name, **_options(name, sizes)}
            for record in timing_records(SOLVER, case, timings, [TWIN]):
                if record.competitor == TWIN:
                    norm = float(np.linalg.norm(found[OURS]))
                    record = replace(
                        record, values={**record.values, "difference": difference / norm}
                    )
                records.append(record)
        entries = n * d
    return records


def solver_fit(name: str, data: Dataset, sizes: Sizes) -> Callable[[], NDArray[np.float64]]:
    """A run of a solver from arrays to weights; its plan, which needs no rows, is made before."""
    return private_fit(
        data.X,
        data.y,
        name,
        epsilon=sizes.epsilon,
        delta=0.0 if name in ("exponential", "localized-exponential") else sizes.delta,
        data_norm=data.data_norm,
        **_options(name, sizes),
    )


def _options(name: str, sizes: Sizes) -> dict[str, Any]:
    options = dict(_OPTIONS.get(name, {}))
    if "steps" in options:
        options["steps"] = sizes.steps
    return options


# ---- whole fits ---------------------------------------------------------------------------------


def _fits(settings: Run, sizes: Sizes) -> list[Record]:
    from dpfast import Budget, ProblemShape, plan

    competitors = present([OURS, OUTPUT, SKLEARN], settings.note)
    records: list[Record] = []
    for n, d in sizes.shapes:
        settings.say(f"  fit, {n:,} x {d}")
        data = synthetic(n, d)
        # Everyone minimizes with the ridge of output perturbation for this shape and budget.
        shape = ProblemShape(n, d, data.data_norm)
        alpha = plan(shape, "output-perturbation", Budget(sizes.epsilon, sizes.delta)).shape.alpha
        task = Task(data.X, data.y, data.data_norm, sizes.epsilon, sizes.delta, alpha)
        case = {"n": n, "d": d, "epsilon": sizes.epsilon, "delta": sizes.delta, "alpha": alpha or 0}
        # Except dpfast's default solver, whose own default it is to have none.
        contestants: dict[str, Callable[[], object]] = {
            name: partial(competitor.fit, replace(task, alpha=None) if name == OURS else task)
            for name, competitor in competitors.items()
        }
        timings = interleave(contestants, repeat=settings.repeat, clock=time.process_time)
        records += timing_records(_FIT, case, timings, [SKLEARN])
    return records


def tables(document: Document) -> list[Table]:
    fits = pick(document.records, group=_FIT)
    share: dict[str, Cell] = {"time relative to scikit-learn": lambda r: time_share(r, SKLEARN)}
    return [
        *_solver_tables(document),
        rows_of(
            "Time of a fit",
            "From arrays to weights through the call that users make, processor time: validation, "
            "norms, minimization and noise. 'dpfast' is its default: whitened descent, some tens "
            "of passes, which loses least to noise, or objective perturbation where there are so "
            "many rows for each weight that noise hardly matters. Output perturbation solves to a "
            "certified gradient norm, scikit-learn (lbfgs) to its own default tolerance, both with "
            "the ridge of output perturbation.",
            fits,
            SHAPE | NAMED | TIME | share,
        ),
    ]


def _solver_tables(document: Document) -> list[Table]:
    found: list[Table] = []
    for (n, d), own in grouped(pick(document.records, group=SOLVER), "n", "d").items():
        twins = index(pick(own, competitor=TWIN), "solver")
        text = ""
        if not found:
            text = (
                "From arrays to private weights, the plan settled before: dpfast's processor time, "
                "and that of the same solver whose every pass over the rows (validation, norms, "
                "clipped gradients, Hessians, losses, line searches, mini-batches) is NumPy: BLAS "
                "products on blocks of rows that stay in cache, in-place arithmetic, no temporary "
                "of the size of X. Both draw the same noise and batches from the same secure "
                "stream. 'difference' is that of their weights, relative to the norm; rows are "
                "clipped by norms that are kept in float32, so that rounding may show in the "
                "eighth digit. Iterations are fewer than by default where the options say so."
            )
        rows = []
        for r in pick(own, competitor=OURS):
            chosen = {k: v for k, v in r.case.items() if k not in ("n", "d", "solver")}
            twin = twins[r.case["solver"]]
            rows.append(
                (
                    str(r.case["solver"]),
                    ", ".join(f"{k}={plain(v)}" for k, v in chosen.items()) or "defaults",
                    duration(r.values["seconds"]),
                    duration(twin.values["seconds"]),
                    speed(r, TWIN),
                    scientific(twin.values["difference"]),
                )
            )
        header = ("solver", "options", "dpfast", "NumPy", "speed", "difference")
        found.append(
            Table(f"Every solver against itself in NumPy, {n:,} x {d}", text, header, rows)
        )
    return found


def draw(document: Document, figure: Any) -> None:
    """How many times faster each solver is than with NumPy, one mark a size."""
    records = pick(document.records, group=SOLVER, competitor=OURS)
    names = list(grouped(records, "solver"))
    sizes = grouped(records, "n")
    figure.set_size_inches(7.5, 1.2 + 0.27 * len(names))
    axis = figure.subplots()
    for k, (n, own) in enumerate(sizes.items()):
        axis.plot(
            [r.speed[TWIN] for r in own],
            [names.index(r.case["solver"]) for r in own],
            "o",
            markersize=4.0 + 1.5 * k,
            color=_SHADES[k * (len(_SHADES) - 1) // max(len(sizes) - 1, 1)],
            alpha=0.85,
            label=f"{n:,} rows",
        )
    axis.axvline(1.0, color="0.3", linewidth=0.8, linestyle="--")
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda x, _: f"{x:g}x")
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.grid(axis="x", color="0.9")
    axis.set_axisbelow(True)
    axis.set_xlabel("time in NumPy / time in native code")
    axis.set_title("Native code against the same solver in NumPy, one thread", fontsize=11)
    figure.legend(loc="outside lower center", ncols=len(sizes), frameon=False, fontsize=9)


_SHADES = ("#9ecae1", "#4292c6", "#2171b5", "#08306b")


def _draw_fits(document: Document, figure: Any) -> None:
    """Bars of time relative to scikit-learn (to the first competitor if it is absent)."""
    fits = pick(document.records, group=_FIT)
    seconds = {
        name: [r.values["seconds"] for r in own]
        for name, own in grouped(fits, "competitor").items()
    }
    base = SKLEARN if SKLEARN in seconds else next(iter(seconds))
    shares = {name: np.divide(own, seconds[base]).tolist() for name, own in seconds.items()}
    figure.set_size_inches(8.5, 4)
    axis = figure.subplots()
    colors = {OURS: "C0", OUTPUT: "C2", SKLEARN: "C1"}
    shapes = [f"{n:,} x {d}" for n, d in grouped(fits, "n", "d")]
    made = bars(axis, shapes, shares, [colors[name] for name in shares])
    for one, own in zip(made, seconds.values(), strict=True):
        axis.bar_label(one, [duration(s) for s in own], fontsize=8, padding=1)
    axis.set_ylabel(f"time relative to {base}\n(lower is faster)")
    axis.set_ylim(0.0, 1.25 * axis.get_ylim()[1])
    axis.legend(frameon=False, ncols=len(seconds), loc="upper left")
    axis.set_title("A private fit against a non-private one, one thread")


FIGURES = {"A private fit against a non-private one": _draw_fits}
