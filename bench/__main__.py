"""Command line of the benchmarks: ``python -m bench [suite ...]``, all suites by default."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import compare, machine, report, schedule
from bench.harness import Document, Run, give_way, one_thread
from bench.suites import GROUPS, SCHEDULE, SUITES

_RESULTS = Path(__file__).resolve().parent / "results"


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
    """Run the chosen suites and write their reports."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["compare"]:
        return compare.main(words[1:])
    if words[:1] == ["render"]:
        return _render(words[1:])
    options = _parse(words)
    names = _chosen(options.suite)
    if len(names) == 1:
        _run_here(names[0], options)
        return 0
    command = [sys.executable, "-m", "bench", *_passed_on(options)]
    jobs = [
        schedule.Job(
            name,
            [*command, name],
            SCHEDULE[name].quick_minutes if options.quick else SCHEDULE[name].minutes,
            SCHEDULE[name].timed,
        )
        for name in names
    ]
    codes = schedule.run(jobs, options.jobs, _say)
    failed = [name for name in names if codes[name]]
    print(f"Reports are in {options.output}." if len(failed) < len(names) else "No report.")
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
        "--large", action="store_true", help="kernels: also 5,000,000 rows, 4 GB of memory"
    )
    parser.add_argument(
        "--output", type=Path, default=_RESULTS, help="directory of the reports (bench/results)"
    )
    parser.add_argument("--data", type=Path, help="directory with Adult and Bank as CSV files")
    parser.add_argument(
        "--python",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="peers: another interpreter in which to look for those that are not installed here",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=min(2, machine.usable_cores()),
        help="suites at a time, of those that time nothing (default: 2, or the number of cores)",
    )
    options = parser.parse_args(words)
    unknown = sorted(set(options.suite) - set(everything))
    if unknown:
        parser.error(f"suite must be any of {', '.join(everything)}; got {', '.join(unknown)}")
    for name in ("repeat", "jobs"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name} must be at least 1; got {value}")
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data must be a directory; got {options.data}")
    for path in options.python:
        if not path.is_file():
            parser.error(f"--python must be an interpreter; got {path}")
    return options


def _chosen(words: Sequence[str]) -> list[str]:
    """Suites in the order of the table."""
    asked = {name for word in words or ["all"] for name in GROUPS.get(word, (word,))}
    return [name for name in SUITES if name in asked]


def _passed_on(options: argparse.Namespace) -> list[str]:
    """The options, for the process of a single suite, whose folder may be another."""
    found = ["--output", str(options.output.resolve()), "--jobs", "1"]
    for name in ("quick", "large"):
        if getattr(options, name):
            found.append(f"--{name}")
    if options.repeat is not None:
        found += ["--repeat", str(options.repeat)]
    if options.data is not None:
        found += ["--data", str(options.data.resolve())]
    for path in options.python:
        found += ["--python", str(path.absolute())]
    return found


def _run_here(name: str, options: argparse.Namespace) -> None:
    print(f"{name}:")
    start = time.perf_counter()
    repeat = options.repeat or (3 if options.quick else 7)
    give_way()
    settings = Run(
        options.quick,
        repeat,
        options.data,
        options.large,
        say=_say_and_give_way,
        pythons=tuple(options.python),
    )
    document = run_suite(name, settings)
    for path in report.write(document, SUITES[name], options.output):
        print(f"  wrote {path}")
    print(f"  took {schedule.shown(time.perf_counter() - start)}")


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
        for written in report.write(document, SUITES[document.suite], path.parent):
            print(f"wrote {written}")
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


def _say_and_give_way(line: str) -> None:
    _say(line)
    give_way()


if __name__ == "__main__":
    sys.exit(main())
