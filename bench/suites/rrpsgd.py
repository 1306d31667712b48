"""Algorithm 2 of Zhang et al. 2017, random-round SGD, with all its n² steps paid for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from bench.harness import Document, Record, Run
from bench.problems import synthetic
from bench.report import SHAPE, Table, duration, rows_of, scientific, value

NAME = "rrpsgd"
TITLE = "Random-round SGD (Zhang et al. 2017)"
COMPETITORS = {NAME: "(epsilon, delta)-DP under replace_one"}


@dataclass(frozen=True)
class Sizes:
    """Rows and columns, and runs; twice as many rows take four times as long."""

    shape: tuple[int, int] = (15_000, 34)
    runs: int = 1


FULL = Sizes()
QUICK = Sizes((2_000, 34), 2)


def run(settings: Run, sizes: Sizes) -> list[Record]:
    """On the sigmoid loss, which is not convex."""
    from dpfast import Budget, Problem, plan, solve

    n, d = sizes.shape
    data = synthetic(n, d)
    problem = Problem(data.X, data.y, "sigmoid", data_norm=data.data_norm)
    budget = Budget(1.0, 1e-6)
    bound = plan(problem, NAME, budget).expected["gradient_norm_bound"]
    records = []
    for seed in range(sizes.runs):
        settings.say(f"  {n:,} x {d}, run {seed + 1}")
        start = time.process_time()
        result = solve(problem, NAME, budget, random_state=seed)
        seconds = time.process_time() - start
        gradient = problem.value_and_gradient(result.w)[1]
        values = {
            "rounds": float(result.history["rounds"][0]),
            "cpu_seconds": seconds,
            "squared_gradient": float(gradient @ gradient),
            "bound": float(bound),
        }
        records.append(Record("whole runs", {"n": n, "d": d, "seed": seed}, NAME, values))
    return records


def tables(document: Document) -> list[Table]:
    text = (
        "Sigmoid loss, epsilon = 1, delta = 1e-6, all n² steps paid for, a random number of them "
        "taken. Theorem 5 bounds the mean of the squared gradient norm."
    )
    columns = SHAPE | {
        "steps taken": value("rounds"),
        "processor time": value("cpu_seconds", duration),
        "squared gradient": value("squared_gradient", scientific),
        "bound": value("bound", scientific),
    }
    return [rows_of("Whole runs", text, document.records, columns)]


def draw(document: Document, figure: Any) -> None:
    """Squared gradients beside their bound."""
    figure.set_size_inches(4.0, 3.0)
    axis = figure.subplots()
    values = [r.values for r in document.records]
    axis.plot([v["squared_gradient"] for v in values], "o", label="squared gradient norm")
    axis.axhline(values[0]["bound"], color="0.5", linestyle="--", label="bound of its mean")
    axis.set_yscale("log")
    axis.set_xticks(range(len(values)), [f"run {k + 1}" for k in range(len(values))])
    axis.legend(frameon=False, fontsize=8)
