"""A data set larger than memory: made, read, and fitted under a limit; run by hand.

    python -m bench.large_data make FOLDER --rows 50_000_000 --columns 100
    python -m bench.large_data fit FOLDER --limit 4

The first writes float32 Parquet files (20 GB for these numbers), block by block. The second limits
the address space of its process, reads the files once with PyArrow alone, fits a logistic
regression over them, and prints how many rows a second each of the two went through.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np

_GROUP_ROWS = 250_000
_FILE_ROWS = 5_000_000
_BATCH_ROWS = 65_536


def make(folder: Path, rows: int, columns: int) -> None:
    """Write the files: normal rows of mean squared norm 1, labels by a logistic model."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    truth = np.random.default_rng(0).standard_normal(columns)
    names = [f"x{number}" for number in range(columns)]
    fields = [pyarrow.field(name, pyarrow.float32()) for name in names]
    schema = pyarrow.schema([*fields, pyarrow.field("y", pyarrow.int8())])
    for start in range(0, rows, _FILE_ROWS):
        path = folder / f"{start:012d}.parquet"
        with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as out:
            for at in range(start, min(start + _FILE_ROWS, rows), _GROUP_ROWS):
                rng = np.random.default_rng([1, at])
                count = min(_GROUP_ROWS, rows - at)
                X = rng.standard_normal((count, columns), dtype=np.float32)
                X /= np.float32(columns**0.5)
                y = (4.0 * (X @ truth) + rng.logistic(size=count) > 0).astype(np.int8)
                out.write_table(pyarrow.table([*X.T.copy(), y], schema=schema))


def plain_pass(folder: Path) -> int:
    """Rows read by PyArrow as record batches, and nothing done with them."""
    from pyarrow import parquet

    rows = 0
    for path in sorted(folder.glob("*.parquet")):
        with parquet.ParquetFile(path, buffer_size=2**18, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                rows += batch.num_rows
    return rows


def fit(folder: Path, limit: float, solver: str, jobs: int) -> None:
    """Fit under the limit and print what it took."""
    # Before PyArrow is loaded: its other allocators reserve addresses that they do not use.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    bytes_allowed = int(limit * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (bytes_allowed, bytes_allowed))

    import dpfast
    from dpfast.blocks import BlockProblem, from_parquet

    size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
    begin = time.perf_counter()
    rows = plain_pass(folder)
    plain = time.perf_counter() - begin

    passed = [0]

    def watch(count: int) -> None:
        passed[0] += count

    source = from_parquet(folder, "y")
    source.watch = watch
    loss = dpfast.solvers.SOLVERS[solver].loss
    problem = BlockProblem(source, loss, data_norm=1.5, n_jobs=jobs, target=_signs)
    budget = dpfast.Budget(1.0, 1e-9)
    begin = time.perf_counter()
    result = dpfast.solve(problem, solver, budget)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

    truth = np.random.default_rng(0).standard_normal(source.n_features)
    w = result.w[: source.n_features]
    cosine = float(w @ truth / np.linalg.norm(w) / np.linalg.norm(truth))
    speed = passed[0] / seconds
    print(f"{rows:,} rows x {source.n_features} columns, {size / 1e9:.2f} GB, limit {limit:g} GiB")
    print(f"plain reading with PyArrow: {rows / plain:,.0f} rows/s, {size / plain / 1e9:.2f} GB/s")
    print(
        f"{result.plan.solver}: {seconds:.1f} s, {passed[0] / rows:.2f} passes, "
        f"{speed:,.0f} rows/s, {speed / (rows / plain):.2f} of plain reading"
    )
    print(f"peak resident memory {peak:.2f} GiB, cosine to the true weights {cosine:.4f}")


def _signs(labels: np.ndarray) -> np.ndarray:
    return np.where(labels > 0, 1.0, -1.0)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    maker = commands.add_parser("make")
    maker.add_argument("folder", type=Path)
    maker.add_argument("--rows", type=int, default=50_000_000)
    maker.add_argument("--columns", type=int, default=100)
    fitter = commands.add_parser("fit")
    fitter.add_argument("folder", type=Path)
    fitter.add_argument("--limit", type=float, default=4.0, help="GiB of address space")
    fitter.add_argument("--solver", default="objective-perturbation")
    fitter.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.folder, arguments.rows, arguments.columns)
    else:
        fit(arguments.folder, arguments.limit, arguments.solver, arguments.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
