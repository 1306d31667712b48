"""Command line of the benchmarks: ``python -m bench [suite ...]``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import machine, report
from bench.harness import Document, Run, one_thread
from bench.suites import SUITES

_RESULTS = Path(__file__).resolve().parent / "results"


def run_suite(name: str, settings: Run, sizes: Any = None) -> Document:
    """Measure one suite on one thread, with its own sizes unless others are given."""
    suite = SUITES[name]
    if sizes is None:
        sizes = suite.QUICK if settings.quick else suite.FULL
    environment = machine.describe()
    with one_thread():
        records = suite.run(settings, sizes)
    return Document(
        suite=name,
        quick=settings.quick,
        repeat=settings.repeat,
        sizes=dataclasses.asdict(sizes),
        environment=environment,
        competitors=suite.COMPETITORS,
        notes=list(settings.notes),
        records=records,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen suites and write their reports."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "suite", nargs="*", metavar="suite", help=f"any of {', '.join(SUITES)}; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to try things out")
    parser.add_argument("--repeat", type=int, default=None, help="rounds (default 7, quick 3)")
    parser.add_argument(
        "--large", action="store_true", help="kernels: also 5,000,000 rows, 4 GB of memory"
    )
    parser.add_argument(
        "--output", type=Path, default=_RESULTS, help="directory of the reports (bench/results)"
    )
    parser.add_argument("--data", type=Path, help="directory with Adult and Bank as CSV files")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.suite) - set(SUITES))
    if unknown:
        parser.error(f"suite must be any of {', '.join(SUITES)}; got {', '.join(unknown)}")
    if options.repeat is not None and options.repeat < 1:
        parser.error(f"--repeat must be at least 1; got {options.repeat}")
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data must be a directory; got {options.data}")

    repeat = options.repeat or (3 if options.quick else 7)
    for name in options.suite or SUITES:
        print(f"{name}:")
        start = time.perf_counter()
        settings = Run(options.quick, repeat, options.data, options.large)
        document = run_suite(name, settings)
        for path in report.write(document, SUITES[name], options.output):
            print(f"  wrote {path}")
        print(f"  took {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
