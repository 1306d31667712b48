"""What a pass over dask partitions takes, with one and two workers and with hardly any rows.

    python -m bench.dask_scaling --rows 4_000_000 --columns 50 --output bench/results

Workers are processes with one thread each.  What is timed is the sum of the rows' clipped
gradients, which every full-batch method takes in every iteration; the least of several rounds, in
which all settings take turns.  The same sum over partitions of 64 rows is what a pass costs
however few rows there are.  The page is dask_scaling.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import describe
from bench.report import measured

_TINY_ROWS = 64


def collections(rows: int, columns: int, partitions: int) -> tuple[Any, Any]:
    """Normal rows of mean squared norm 1, made on the workers, and labels."""
    import dask.array as da

    chunk = -(-rows // partitions)
    X = da.random.default_rng(0).standard_normal((rows, columns), chunks=(chunk, columns))
    X = X / columns**0.5
    return X, da.where(X[:, 0] > 0.0, 1.0, -1.0)


def measure(rows: int, columns: int, partitions: int, rounds: int) -> dict[str, float]:
    """Seconds of a pass: in this process, over 1 and 2 workers, and over partitions of few rows."""
    from distributed import Client, LocalCluster

    from dpfast import Problem
    from dpfast.blocks import BlockProblem, from_dask

    X, y = collections(rows, columns, partitions)
    tiny = collections(_TINY_ROWS * partitions, columns, partitions)
    problems: dict[str, Any] = {}
    with ExitStack() as stack:
        for workers in (1, 2):
            cluster = stack.enter_context(
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
            )
            client = stack.enter_context(Client(cluster, set_as_default=False))
            for name, data in (("", (X, y)), (", few rows", tiny)):
                source = from_dask(*data, client=client)
                problems[f"dask, workers: {workers}{name}"] = BlockProblem(source, data_norm=1.0)
        # After the clusters have theirs: the rows once more, in this process.
        problems["in memory, threads: 1"] = Problem(
            X.compute(), y.compute(), data_norm=1.0, n_jobs=1
        )
        w = np.zeros(columns + 1)
        best = dict.fromkeys(problems, np.inf)
        for _ in range(rounds + 1):  # the first makes what is made once
            for name, problem in problems.items():
                start = time.perf_counter()
                problem.clipped_gradient(w, 0.5)
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def report(result: dict[str, Any]) -> str:
    """The measurement as a page."""
    seconds, n = result["seconds"], result["rows"]
    alone = seconds["in memory, threads: 1"]
    lines = [
        "# A pass over dask partitions",
        "",
        f"{n:,} rows x {result['columns']} columns in {result['partitions']} partitions; one pass "
        "is one clipped gradient, least of "
        f"{result['rounds']} rounds. Client, scheduler and workers share the cores.",
        "",
        "| where | time of a pass | million rows a second | of one thread in memory |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, value in seconds.items():
        count = _TINY_ROWS * result["partitions"] if "few rows" in name else n
        share = "" if "few rows" in name else f"{alone / value:.2f} x"
        lines.append(f"| {name} | {1e3 * value:.1f} ms | {count / value / 1e6:.1f} | {share} |")
    return "\n".join([*lines, "", measured(result["machine"]), ""])


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("bench/results"))
    options = parser.parse_args()
    machine = describe()
    result = {
        "rows": options.rows,
        "columns": options.columns,
        "partitions": options.partitions,
        "rounds": options.rounds,
        "machine": machine,
        "seconds": measure(options.rows, options.columns, options.partitions, options.rounds),
    }
    page = report(result)
    (options.output / "dask_scaling.md").write_text(page)
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
