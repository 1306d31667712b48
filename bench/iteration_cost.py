"""What an iteration of a full-batch method costs, in times of one read of X."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from bench.harness import Document, Record, Run
from bench.problems import synthetic
from bench.report import SHAPE, TIME, Table, rows_of, value

GROUP = "cost of an iteration"
READ, PRODUCT = "reading X", "X @ w"
# Iterations of the two runs whose difference is taken: what a fit does once drops out.
_FEW, _MANY = 2, 6


def measure(
    settings: Run, methods: Iterable[str], shapes: Iterable[tuple[int, int]]
) -> list[Record]:
    """Processor seconds of an iteration, of one read of X and of one product with X."""
    from dpfast import Problem, _kernels

    records = []
    for n, d in shapes:
        settings.say(f"  cost of an iteration, {n:,} x {d}")
        data = synthetic(n, d)
        problem = Problem(data.X, data.y, "logistic", data_norm=data.data_norm, alpha=1e-3)
        calls: dict[str, Callable[[], Any]] = {
            READ: partial(_kernels.read_sum, data.X.reshape(-1)),
            PRODUCT: partial(np.matmul, data.X, np.ones(d)),
        }
        for name in methods:
            for length in (_FEW, _MANY):
                calls[f"{name} {length}"] = partial(_fit, problem, name, length)
        best = dict.fromkeys(calls, math.inf)
        counts: dict[str, int] = {}
        for _ in range(max(3, settings.repeat)):
            for name, call in calls.items():
                # Of the processor: other processes on the machine should not count.
                start = time.process_time()
                found = call()
                best[name] = min(best[name], time.process_time() - start)
                counts[name] = found if isinstance(found, int) else 1
        case = {"n": n, "d": d}
        for name in (READ, PRODUCT):
            records.append(_record(case, name, best[name], best))
        for name in methods:
            few, many = f"{name} {_FEW}", f"{name} {_MANY}"
            # The line search's directions; the same in every round, the seed being fixed.
            made = max(1, counts[many] - counts[few])
            records.append(_record(case, name, (best[many] - best[few]) / made, best))
    return records


def _record(case: dict[str, Any], name: str, seconds: float, best: dict[str, float]) -> Record:
    values = {
        "seconds": seconds,
        "reads": seconds / best[READ],
        "products": seconds / best[PRODUCT],
    }
    return Record(GROUP, case, name, values)


def _fit(problem: Any, name: str, length: int) -> int:
    """A fit with so many iterations; how many directions it took."""
    from dpfast import Budget, solve

    options: dict[str, Any] = {"max_iterations": length, "splits": 100}
    if name != "dp-agd":
        options = {"iterations": length, "step": 0.1 if name == "dp-hb" else 1.0}
    result = solve(problem, name, Budget(1.0, 1e-8), random_state=0, **options)
    return len(result.history["step"])


def table(document: Document, targets: dict[str, float]) -> Table:
    """What was measured, next to how many reads of X are meant to be enough."""
    return rows_of(
        "Cost of an iteration",
        "Everything included: gradient, exact noise, ledger, line search. Difference of fits with "
        f"{_MANY} and with {_FEW} iterations, processor time, least of several, on one thread. A "
        "read is the fastest sum of the numbers of X that there is here; X @ w is BLAS. An "
        "iteration reads X from memory as often as the last column says (the tests count it); "
        "beyond that it takes arithmetic: a row is used twice for its gradient, and each of the "
        "line search's 19 losses a row takes an exponential.",
        [r for r in document.records if r.group == GROUP],
        SHAPE
        | {"what": lambda r: r.competitor}
        | TIME
        | {
            "in reads of X": value("reads", "{:.2f}".format),
            "in products X @ w": value("products", "{:.2f}".format),
            "reads made": lambda r: f"{targets.get(r.competitor, 1):g}",
        },
    )
