"""Two result files of one suite: how the same cases came out, and what is more than noise.

Of a time, the file has the best and the median of the rounds: ``median / best - 1`` says how much
the machine wavers, and two times differ when their ratio is beyond what both waver by together.  Of
a score, it has a standard error.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.harness import Document, Record
from bench.report import duration, plain

#: Times are never trusted more than this, whatever the rounds say: they share one process.
LEAST_NOISE = 0.03
#: Scores differ when they are so many standard errors apart.
ERRORS_APART = 3.0
# The pairs of a value and its standard error that suites write, with whether more is better.
_SCORES = {
    "accuracy": ("accuracy_standard_error", True),
    "auc": ("auc_standard_error", True),
    "log_loss": ("log_loss_standard_error", False),
    "excess": ("standard_error", False),
}


@dataclass(frozen=True)
class Difference:
    """One value of one record in both files.

    Attributes
    ----------
    group, case, competitor, what : str
    before, after : float
    ratio : float
        ``after / before``.
    noise : float
        A ratio within ``1 ± noise`` says nothing.
    verdict : {"same", "better", "worse"}
    """

    group: str
    case: str
    competitor: str
    what: str
    before: float
    after: float
    ratio: float
    noise: float
    verdict: str


def compare(before: Document, after: Document) -> list[Difference]:
    """Every value that both documents have.

    Raises
    ------
    ValueError
        If they are of different suites.
    """
    if before.suite != after.suite:
        raise ValueError(
            f"both files must be of one suite; got {before.suite!r} and {after.suite!r}."
        )
    known = {_key(record): record for record in before.records}
    found: list[Difference] = []
    for record in after.records:
        other = known.get(_key(record))
        if other is not None:
            found += _times(other, record) + _scores(other, record)
    return found


def missing(before: Document, after: Document) -> tuple[int, int]:
    """Records that only the one and only the other file has."""
    first, second = ({_key(r) for r in document.records} for document in (before, after))
    return len(first - second), len(second - first)


def _key(record: Record) -> str:
    # What a solver chose is a result; so is the ridge, which is settled from the shape.
    case = {k: v for k, v in record.case.items() if k not in ("chosen", "alpha")}
    return json.dumps([record.group, case, record.competitor], sort_keys=True)


def _times(before: Record, after: Record) -> list[Difference]:
    if not (before.values.get("seconds") and after.values.get("seconds")):
        return []
    first, second = before.values["seconds"], after.values["seconds"]
    noise = max(_wavering(before) + _wavering(after), LEAST_NOISE)
    beyond = abs(math.log(second / first)) > math.log1p(noise)
    return [_difference(after, "time", first, second, noise, beyond, second < first)]


def _wavering(record: Record) -> float:
    values = record.values
    return max(values.get("median_seconds", values["seconds"]) / values["seconds"] - 1.0, 0.0)


def _scores(before: Record, after: Record) -> list[Difference]:
    found = []
    for name, (error, upwards) in _SCORES.items():
        if not all(key in record.values for key in (name, error) for record in (before, after)):
            continue
        first, second = before.values[name], after.values[name]
        width = ERRORS_APART * math.hypot(before.values[error], after.values[error])
        beyond = abs(second - first) > max(width, 1e-9 * abs(first))
        noise = width / abs(first) if first else math.inf
        better = (second > first) is upwards
        found.append(_difference(after, name, first, second, noise, beyond, better))
    return found


def _difference(
    record: Record,
    what: str,
    before: float,
    after: float,
    noise: float,
    beyond: bool,
    better: bool,
) -> Difference:
    verdict = "same" if not beyond else "better" if better else "worse"
    case = ", ".join(f"{key}={plain(value)}" for key, value in record.case.items())
    ratio = after / before if before else math.copysign(math.inf, after)
    return Difference(
        record.group, case, record.competitor, what, before, after, ratio, noise, verdict
    )


# ---- command line -------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m bench compare BEFORE.json AFTER.json``."""
    parser = argparse.ArgumentParser(
        prog="python -m bench compare", description="Compare two result files of one suite."
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--all", action="store_true", help="show what is within noise, too")
    parser.add_argument(
        "--fail-above",
        type=float,
        metavar="RATIO",
        help="exit with 1 if anything is worse beyond its noise, and a time by more than RATIO",
    )
    options = parser.parse_args(arguments)
    if options.fail_above is not None and not options.fail_above >= 1.0:
        parser.error(f"--fail-above must be at least 1; got {options.fail_above}")
    try:
        before, after = (
            Document.from_json(path.read_text(encoding="utf-8"))
            for path in (options.before, options.after)
        )
        found = compare(before, after)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    show(before, after, found, everything=options.all)
    return int(options.fail_above is not None and bool(failures(found, options.fail_above)))


def failures(found: Sequence[Difference], fail_above: float) -> list[Difference]:
    """What is worse beyond its noise: scores, and times by more than the given ratio."""
    return [d for d in found if d.verdict == "worse" and (d.what != "time" or d.ratio > fail_above)]


def show(
    before: Document,
    after: Document,
    found: Sequence[Difference],
    *,
    everything: bool = False,
    console: Console | None = None,
) -> None:
    """A table of what differs, or of everything, and a summary."""
    screen = console or Console(file=sys.stdout)
    table = Table(title=f"{before.suite}: {_origin(before)} → {_origin(after)}")
    for name in ("group", "case", "competitor", "what"):
        table.add_column(name, overflow="fold")
    for name in ("before", "after", "ratio", "noise"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    shown = [d for d in found if everything or d.verdict != "same"]
    for d in shown:
        color = {"better": "green", "worse": "red"}.get(d.verdict, "")
        table.add_row(
            d.group,
            d.case,
            d.competitor,
            d.what,
            *(duration(v) if d.what == "time" else f"{v:.5g}" for v in (d.before, d.after)),
            f"{d.ratio:.3f}",
            f"± {100.0 * d.noise:.0f} %",
            f"[{color}]{d.verdict}[/]" if color else d.verdict,
        )
    if shown:
        screen.print(table)
    counts = {verdict: sum(d.verdict == verdict for d in found) for verdict in ("better", "worse")}
    times = [math.log(d.ratio) for d in found if d.what == "time"]
    screen.print(
        f"{len(found)} values in both files: {counts['better']} better and {counts['worse']} worse "
        "beyond noise."
    )
    if times:
        mean = math.exp(sum(times) / len(times))
        screen.print(f"Times, geometric mean of after/before: {mean:.3f}.")
    gone, new = missing(before, after)
    if gone or new:
        screen.print(f"{gone} records only in the first file, {new} only in the second.")
    for text in _cautions(before, after):
        screen.print(f"Caution: {text}")


def _origin(document: Document) -> str:
    commit = (document.environment.get("git") or {}).get("commit", "")
    return f"{document.environment.get('date', '?')} {commit[:8]}".strip()


def _cautions(before: Document, after: Document) -> list[str]:
    found = []
    for key in ("cpu", "cores"):
        first, second = before.environment.get(key), after.environment.get(key)
        if first != second:
            found.append(f"{key} is {first} in the first file and {second} in the second.")
    for name, document in (("first", before), ("second", after)):
        load, cores = (document.environment.get(key) for key in ("load_average", "cores"))
        if load is not None and cores and load > cores:
            found.append(f"the machine was busy when the {name} file was made (load {load:g}).")
    return found
