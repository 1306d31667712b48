"""Command line of the benchmarks: ``python -m bench [suite ...]``, all suites by default."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench import compare, machine, report
from bench.harness import Document, Run, one_thread
from bench.suites import GROUPS, SUITES

_ROOT = Path(__file__).resolve().parent.parent
_RESULTS = _ROOT / "bench" / "results"
_TRIED = _ROOT / "build" / "bench"  # quick runs must not replace what is quoted


def run_suite(name: str, settings: Run, sizes: Any = None) -> Document:
    """Measure one suite on one thread, with its own sizes unless others are given."""
    suite = SUITES[name]
    if sizes is None:
        sizes = suite.QUICK if settings.quick else suite.FULL
    environment = machine.describe()
    start = time.perf_counter()
    with one_thread():
        records = suite.run(settings, sizes)
    environment["minutes"] = round((time.perf_counter() - start) / 60.0, 2)
    environment["load_average_at_end"] = machine.load_average()
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
    """Run the chosen suites one by one, so that none disturbs another, and write their reports."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["compare"]:
        return compare.main(words[1:])
    if words[:1] == ["render"]:
        return _render(words[1:])
    options = _parse(words)
    output = options.output or (_TRIED if options.quick else _RESULTS)
    asked = {name for word in options.suite or ["all"] for name in GROUPS.get(word, (word,))}
    failed = []
    for name in SUITES:
        if name not in asked:
            continue
        print(f"{name}:", flush=True)
        settings = Run(
            options.quick,
            options.repeat or (3 if options.quick else 7),
            options.data,
            say=partial(print, flush=True),
            pythons=tuple(options.python),
        )
        try:
            _written(run_suite(name, settings), output)
        except Exception:  # costs no other suite its results
            traceback.print_exc()
            failed.append(name)
    if failed:
        print(f"Failed: {', '.join(failed)}.")
    return int(bool(failed))


def _parse(words: Sequence[str]) -> argparse.Namespace:
    everything = (*SUITES, *GROUPS)
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog="'python -m bench compare BEFORE.json AFTER.json' compares two results, "
        "'python -m bench render FILE.json ...' writes the reports of old results anew.",
    )
    parser.add_argument(
        "suite", nargs="*", metavar="suite", help=f"any of {', '.join(everything)}; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to try things out")
    parser.add_argument("--repeat", type=int, default=None, help="rounds (default 7, quick 3)")
    parser.add_argument(
        "--output",
        type=Path,
        help="directory of the reports (bench/results; build/bench for quick runs)",
    )
    parser.add_argument("--data", type=Path, help="directory with the real tables")
    parser.add_argument(
        "--python",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="peers: another interpreter in which to look for those that are not installed here",
    )
    options = parser.parse_args(words)
    unknown = sorted(set(options.suite) - set(everything))
    if unknown:
        parser.error(f"suite must be any of {', '.join(everything)}; got {', '.join(unknown)}")
    if options.repeat is not None and options.repeat < 1:
        parser.error(f"--repeat must be at least 1; got {options.repeat}")
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data must be a directory; got {options.data}")
    for path in options.python:
        if not path.is_file():
            parser.error(f"--python must be an interpreter; got {path}")
    return options


def _written(document: Document, output: Path) -> None:
    for path in report.write(document, SUITES[document.suite], output):
        print(f"  wrote {path}")


def _render(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench render",
        description="Write the reports and figures of result files anew, beside them.",
    )
    parser.add_argument("file", type=Path, nargs="+")
    for path in parser.parse_args(words).file:
        try:
            document = Document.from_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            parser.error(f"{path}: {error}")
        _written(document, path.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
