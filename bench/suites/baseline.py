"""A whole private fit: dpfast, the same algorithm in NumPy, and non-private scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bench.competitors import COMPETITORS as ALL
from bench.competitors import (
    Task,
    dpfast_native,
    dpfast_output,
    numpy_baseline,
    present,
    sklearn_nonprivate,
)
from bench.harness import Document, Record, Run, interleave, timing_records
from bench.problems import synthetic
from bench.report import Table, duration, plain, scientific, speed, time_share

NAME = "baseline"
TITLE = "A whole private fit"
OURS, NUMPY, SKLEARN = dpfast_native.NAME, numpy_baseline.NAME, sklearn_nonprivate.NAME
OUTPUT = dpfast_output.NAME
COMPETITORS = {name: ALL[name].GUARANTEE for name in (OURS, OUTPUT, NUMPY, SKLEARN)}
_FIT = "fit"
_AGREEMENT = "agreement without noise"


@dataclass(frozen=True)
class Sizes:
    """Rows and columns of the problems, and the budget."""

    shapes: tuple[tuple[int, int], ...]
    epsilon: float = 1.0
    delta: float = 1e-6


FULL = Sizes(((10_000, 20), (100_000, 20), (1_000_000, 20), (500_000, 120)))
QUICK = Sizes(((10_000, 20), (100_000, 20)))


def run(settings: Run, sizes: Sizes) -> list[Record]:
    from dpfast import Budget, ProblemShape, plan

    competitors = present(list(COMPETITORS), settings.note)
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
        timings = interleave(contestants, repeat=settings.repeat)
        records += timing_records(_FIT, case, timings, [SKLEARN, NUMPY])

        exact = {
            name: competitor.minimize(task)
            for name, competitor in competitors.items()
            if name != OURS  # has the same minimizer as OUTPUT
        }
        ours = exact.pop(OUTPUT)
        assert ours is not None
        for name, w in exact.items():
            if w is not None:
                distance = float(np.linalg.norm(w - ours) / np.linalg.norm(ours))
                values = {"relative_distance": distance}
                records.append(Record(_AGREEMENT, case, name, values))
    return records


def tables(document: Document) -> list[Table]:
    fits = [r for r in document.records if r.group == _FIT]
    agreement = [r for r in document.records if r.group == _AGREEMENT]
    return [
        Table(
            "Time of a fit",
            "From arrays to weights through the call that users make: validation, norms, "
            "minimization and noise. 'dpfast' is its default: whitened descent, some tens of "
            "passes, which loses least to noise, or objective perturbation where there are so many "
            "rows for each weight that noise hardly matters. Output perturbation, ours and "
            "NumPy's, solves to a certified gradient norm, scikit-learn (lbfgs) to its own default "
            "tolerance, all three with the ridge of output perturbation.",
            (
                "rows",
                "columns",
                "competitor",
                "time",
                "time relative to scikit-learn",
                "speed relative to NumPy",
            ),
            [
                (
                    plain(r.case["n"]),
                    plain(r.case["d"]),
                    r.competitor,
                    duration(r.values["seconds"]),
                    time_share(r, SKLEARN),
                    speed(r, NUMPY),
                )
                for r in fits
            ],
        ),
        Table(
            "Agreement without noise",
            "Distance to dpfast's noise-free weights, relative to their norm, when every "
            "competitor minimizes the same objective as exactly as it can.",
            ("rows", "columns", "competitor", "relative distance"),
            [
                (
                    plain(r.case["n"]),
                    plain(r.case["d"]),
                    r.competitor,
                    scientific(r.values["relative_distance"]),
                )
                for r in agreement
            ],
        ),
    ]


def draw(document: Document, figure: Any) -> None:
    """Bars of time relative to scikit-learn (to the first competitor if it is absent)."""
    fits = [r for r in document.records if r.group == _FIT]
    shapes = list(dict.fromkeys((int(r.case["n"]), int(r.case["d"])) for r in fits))
    competitors = list(dict.fromkeys(r.competitor for r in fits))
    base = SKLEARN if SKLEARN in competitors else competitors[0]
    seconds = {
        (r.competitor, int(r.case["n"]), int(r.case["d"])): r.values["seconds"] for r in fits
    }
    figure.set_size_inches(8.5, 4)
    axis = figure.subplots()
    width = 0.8 / len(competitors)
    colors = {OURS: "C0", OUTPUT: "C2", NUMPY: "0.65", SKLEARN: "C1"}
    for k, competitor in enumerate(competitors):
        heights = [seconds[competitor, n, d] / seconds[base, n, d] for n, d in shapes]
        places = [i + (k - (len(competitors) - 1) / 2) * width for i in range(len(shapes))]
        bars = axis.bar(places, heights, width, label=competitor, color=colors[competitor])
        labels = [duration(seconds[competitor, n, d]) for n, d in shapes]
        axis.bar_label(bars, labels, fontsize=8, padding=1)
    axis.axhline(1.0, color="0.3", linewidth=0.8, linestyle="--")
    axis.set_xticks(range(len(shapes)), [f"{n:,} x {d}" for n, d in shapes])
    axis.set_ylabel(f"time relative to {base}\n(lower is faster)")
    axis.set_ylim(0.0, 1.25 * axis.get_ylim()[1])
    axis.legend(frameon=False, ncols=len(competitors), loc="upper left")
    axis.set_title("A private fit against a non-private one, one thread")
