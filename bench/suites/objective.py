"""Objective perturbation: Bank next to published implementations, a fine grid of epsilon, time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bench.competitors import Task, sklearn_nonprivate
from bench.harness import Document, Record, Run, interleave, timing_records
from bench.problems import Dataset, bank, randhie, synthetic
from bench.report import Table, duration, mean_and_error, plain, speed

NAME = "objective"
TITLE = "Objective perturbation"
OURS = "objective-perturbation"
RELATIONS = ("add_or_remove_one", "replace_one")
COMPETITORS = {
    **{f"{OURS}, {relation}": f"(epsilon, delta)-DP, {relation}" for relation in RELATIONS},
    sklearn_nonprivate.NAME: sklearn_nonprivate.GUARANTEE,
}
_BANK, _GRID, _TIME = "Bank", "fine grid", "time"
_DELTA = 1e-8
# Accuracy in percent and log-loss on training rows, Bank at delta = 1e-8, add_or_remove_one, by
# earlier measurements in which the majority had 88.3 %: Redberg et al.'s objective perturbation,
# its bugs repaired and rows of norm 1, and Iyengar et al.'s approximate minima perturbation.
PUBLISHED: dict[str, dict[float, tuple[float, float]]] = {
    "repaired, unit rows": {
        0.05: (83.8, 0.752), 0.1: (86.1, 0.542), 0.2: (88.0, 0.353), 0.4: (89.2, 0.286),
        0.8: (89.6, 0.266), 1.6: (89.7, 0.260),
    },
    "approximate minima": {
        0.05: (88.3, 0.365), 0.1: (88.3, 0.342), 0.2: (88.3, 0.330), 0.4: (88.5, 0.320),
        0.8: (89.0, 0.308), 1.6: (89.2, 0.297),
    },
}  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """Budgets and runs on Bank; grid, runs and rows of the fine grid; shapes that are timed."""

    epsilons: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
    splits: int = 5
    repeats: int = 4
    grid: int = 60
    grid_runs: int = 50
    shapes: tuple[tuple[int, int], ...] = ((1_000_000, 20), (500_000, 120))


FULL = Sizes()
QUICK = Sizes(splits=2, repeats=2, grid=12, grid_runs=10, shapes=((100_000, 20),))


def run(settings: Run, sizes: Sizes) -> list[Record]:
    records = _time(settings, sizes)
    settings.say("  fine grid of epsilon")
    records += _grid(sizes)
    if settings.data is None:
        settings.note("Bank left out: give its directory with --data.")
        return records
    try:
        data = bank(settings.data)
    except FileNotFoundError:
        settings.note("Bank left out: bank_dpagd.csv is not there.")
        return records
    for relation in RELATIONS:
        for epsilon in sizes.epsilons:
            settings.say(f"  Bank, {relation}, epsilon {epsilon:g}")
            records.append(_score(data, relation, epsilon, sizes))
    return records


def _fitted(data: Dataset, relation: str, epsilon: float, seed: int) -> Any:
    from dpfast import Budget, Problem, solve

    problem = Problem(data.X, data.y, "logistic", data_norm=data.data_norm)
    budget = Budget(epsilon, _DELTA)
    return solve(problem, OURS, budget, neighboring_relation=relation, random_state=seed).w


def _log_loss(w: Any, data: Dataset) -> float:
    return float(np.mean(np.logaddexp(0.0, -data.y * (data.X @ w[:-1] + w[-1]))))


def _score(data: Dataset, relation: str, epsilon: float, sizes: Sizes) -> Record:
    scores = []
    for split in range(sizes.splits):
        train, test = data.split(split)
        for repeat in range(sizes.repeats):
            w = _fitted(train, relation, epsilon, 1000 * split + repeat)
            right = (test.X @ w[:-1] + w[-1] > 0.0) == (test.y > 0.0)
            majority = max(float(np.mean(test.y > 0.0)), float(np.mean(test.y < 0.0)))
            accuracy = float(np.mean(right))
            scores.append((accuracy, accuracy - majority, _log_loss(w, train)))
    values: dict[str, float] = {"runs": len(scores)}
    names = ("accuracy", "over_majority", "log_loss")
    for name, sample in zip(names, zip(*scores, strict=True), strict=True):
        values[name] = statistics.fmean(sample)
        values[f"{name}_standard_error"] = statistics.stdev(sample) / math.sqrt(len(sample))
    return Record(_BANK, {"epsilon": epsilon, "delta": _DELTA}, f"{OURS}, {relation}", values)


def _grid(sizes: Sizes) -> list[Record]:
    """RAND HIE with one matrix, so that thousands of fits take a minute."""
    from dpfast import Budget, Ledger, Problem, plan
    from dpfast.random import SecureGenerator
    from dpfast.solvers import carry_out

    data, relation = randhie(), RELATIONS[1]
    problem = Problem(data.X, data.y, "logistic", data_norm=data.data_norm)
    records = []
    for epsilon in np.geomspace(0.01, 10.0, sizes.grid).tolist():
        settled = plan(problem, OURS, Budget(epsilon, _DELTA), neighboring_relation=relation)
        losses = [
            _log_loss(
                carry_out(settled, problem, SecureGenerator(seed), Ledger(settled.budget)).w,
                data,
            )
            for seed in range(sizes.grid_runs)
        ]
        values = {
            "runs": float(len(losses)),
            "log_loss": statistics.fmean(losses),
            "log_loss_standard_error": statistics.stdev(losses) / math.sqrt(len(losses)),
        }
        case: dict[str, int | float | str] = {"epsilon": epsilon, "delta": _DELTA}
        records.append(Record(_GRID, case, f"{OURS}, {relation}", values))
    return records


def largest_rise(records: list[Record]) -> float:
    """Largest rise of the mean log-loss from one epsilon to the next, in standard errors."""
    rises = []
    for before, after in pairwise(records):
        error = math.hypot(*(r.values["log_loss_standard_error"] for r in (before, after)))
        rises.append((after.values["log_loss"] - before.values["log_loss"]) / max(error, 1e-12))
    return max(rises)


def _time(settings: Run, sizes: Sizes) -> list[Record]:
    records = []
    for n, d in sizes.shapes:
        settings.say(f"  time, {n:,} x {d}")
        data = synthetic(n, d)
        task = Task(data.X, data.y, data.data_norm)
        contestants: dict[str, Callable[[], object]] = {
            f"{OURS}, {RELATIONS[1]}": lambda data=data: _fitted(data, RELATIONS[1], 1.0, 0),  # type: ignore[misc]
            sklearn_nonprivate.NAME: lambda task=task: sklearn_nonprivate.fit(task),  # type: ignore[misc]
        }
        timings = interleave(contestants, repeat=settings.repeat)
        case: dict[str, int | float | str] = {"n": n, "d": d}
        records += timing_records(_TIME, case, timings, [sklearn_nonprivate.NAME])
    return records


# ---- reports ------------------------------------------------------------------------------------


def tables(document: Document) -> list[Table]:
    times, grid, scores = (
        [r for r in document.records if r.group == group] for group in (_TIME, _GRID, _BANK)
    )
    found = [
        Table(
            "Time of a fit",
            "From rows in memory to weights, epsilon = 1. The private fit is meant to take at most "
            "0.6 of scikit-learn's time.",
            ("rows", "columns", "competitor", "time", "speed relative to scikit-learn"),
            [
                (
                    plain(r.case["n"]),
                    plain(r.case["d"]),
                    r.competitor,
                    duration(r.values["seconds"]),
                    speed(r, sklearn_nonprivate.NAME),
                )
                for r in times
            ],
        ),
        Table(
            "A fine grid of epsilon",
            f"RAND HIE, {len(grid)} values of epsilon from 0.01 to 10, mean of "
            f"{plain(grid[0].values['runs'])} runs, log-loss on the training rows. A cliff would "
            "be a rise by many standard errors.",
            ("log-loss at 0.01", "in the middle", "at 10", "largest rise in standard errors"),
            [
                (
                    *(f"{grid[k].values['log_loss']:.4f}" for k in (0, len(grid) // 2, -1)),
                    f"{largest_rise(grid):.1f}",
                )
            ],
        ),
    ]
    if scores:
        found.append(
            Table(
                "Bank",
                "80 % train, 20 % test; mean ± standard error over "
                f"{plain(scores[0].values['runs'])} splits and noises; test accuracy / log-loss on "
                f"training rows; delta = {_DELTA:g}, default options. The last columns were "
                "measured elsewhere, under add_or_remove_one, with other splits and bounds, where "
                "the majority has 88.3 %; ours is beside the majority of the same test rows.",
                ("relation", "epsilon", "accuracy", "over majority", "log-loss", *PUBLISHED),
                [
                    (
                        r.competitor.partition(", ")[2],
                        plain(r.case["epsilon"]),
                        mean_and_error(
                            100 * r.values["accuracy"], 100 * r.values["accuracy_standard_error"], 2
                        )
                        + " %",
                        mean_and_error(
                            100 * r.values["over_majority"],
                            100 * r.values["over_majority_standard_error"],
                            2,
                        ),
                        mean_and_error(
                            r.values["log_loss"], r.values["log_loss_standard_error"], 4
                        ),
                        *(
                            f"{known[e][0]:.1f} % / {known[e][1]:.3f}" if e in known else "-"
                            for known in PUBLISHED.values()
                            for e in [float(r.case["epsilon"])]
                        ),
                    )
                    for r in scores
                ],
            )
        )
    return found


def draw(document: Document, figure: Any) -> None:
    """The fine grid; Bank next to what was published, if it was there."""
    grid = [r for r in document.records if r.group == _GRID]
    scores = [r for r in document.records if r.group == _BANK]
    figure.set_size_inches(9 if scores else 5, 3.5)
    axes = figure.subplots(1, 2 if scores else 1, squeeze=False)[0]
    _curve(axes[0], grid, "RAND HIE")
    axes[0].set_title("a fine grid", fontsize=9)
    if not scores:
        return
    for relation in RELATIONS:
        _curve(axes[1], [r for r in scores if r.competitor.endswith(relation)], relation)
    for name, known in PUBLISHED.items():
        points = [e for e in document.sizes["epsilons"] if e in known]
        axes[1].plot(points, [known[e][1] for e in points], "--", label=f"published: {name}")
    axes[1].set_title("Bank", fontsize=9)
    axes[1].legend(frameon=False, fontsize=7)


def _curve(axis: Any, records: list[Record], label: str) -> None:
    axis.errorbar(
        [float(r.case["epsilon"]) for r in records],
        [r.values["log_loss"] for r in records],
        [r.values["log_loss_standard_error"] for r in records],
        marker=".",
        capsize=2,
        label=label,
    )
    axis.set_xscale("log")
    axis.set_xlabel("epsilon")
    axis.set_ylabel("log-loss on training rows")
