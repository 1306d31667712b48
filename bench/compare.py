"""Two result files of one suite: how the same cases came out, and what is more than noise.

Of a time, the file has the best and the median of the rounds: ``median / best - 1`` says how much
the machine wavers, and two times differ when their ratio is beyond what both waver by together.  Of
a score, it has a standard error.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.harness import Document, Record
from bench.report import duration, markdown_table, plain

#: Times are never trusted more than this, whatever the rounds say: they share one process.
LEAST_NOISE = 0.03
#: Scores differ when they are so many standard errors apart.
ERRORS_APART = 3.0
# Scores that suites write with their standard errors, and whether more is better.
_SCORES = {"accuracy": True, "auc": True, "log_loss": False, "excess": False}


@dataclass(frozen=True)
class Difference:
    """One value of one record in both files; a ratio within ``1 ± noise`` says nothing."""

    record: Record
    what: str
    before: float
    after: float
    noise: float
    verdict: str  # "same", "better", "worse"

    @property
    def ratio(self) -> float:
        if not self.before:
            return math.copysign(math.inf, self.after)
        return self.after / self.before


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


def _key(record: Record) -> str:
    # What a solver chose is a result; so is the ridge, which is settled from the shape.
    case = {k: v for k, v in record.case.items() if k not in ("chosen", "alpha")}
    return json.dumps([record.group, case, record.competitor], sort_keys=True)


def _times(before: Record, after: Record) -> list[Difference]:
    first, second = (record.values.get("seconds", 0.0) for record in (before, after))
    if not (first and second):
        return []
    noise = max(_wavering(before) + _wavering(after), LEAST_NOISE)
    beyond = abs(math.log(second / first)) > math.log1p(noise)
    return [Difference(after, "time", first, second, noise, _verdict(beyond, second < first))]


def _wavering(record: Record) -> float:
    values = record.values
    return max(values.get("median_seconds", values["seconds"]) / values["seconds"] - 1.0, 0.0)


def _scores(before: Record, after: Record) -> list[Difference]:
    found = []
    for name, upwards in _SCORES.items():
        error = f"{name}_standard_error"
        if not all(key in record.values for key in (name, error) for record in (before, after)):
            continue
        first, second = before.values[name], after.values[name]
        width = ERRORS_APART * math.hypot(before.values[error], after.values[error])
        beyond = abs(second - first) > max(width, 1e-9 * abs(first))
        noise = width / abs(first) if first else math.inf
        verdict = _verdict(beyond, (second > first) is upwards)
        found.append(Difference(after, name, first, second, noise, verdict))
    return found


def _verdict(beyond: bool, better: bool) -> str:
    return "same" if not beyond else "better" if better else "worse"


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
    print(shown(before, after, found, everything=options.all))
    return int(options.fail_above is not None and bool(failures(found, options.fail_above)))


def failures(found: Sequence[Difference], fail_above: float) -> list[Difference]:
    """What is worse beyond its noise: scores, and times by more than the given ratio."""
    return [d for d in found if d.verdict == "worse" and (d.what != "time" or d.ratio > fail_above)]


def shown(
    before: Document, after: Document, found: Sequence[Difference], *, everything: bool = False
) -> str:
    """A table of what differs, or of everything, and a summary."""
    header = ("group", "case", "competitor", "what", "before", "after", "ratio", "noise", "verdict")
    rows = [_row(d) for d in found if everything or d.verdict != "same"]
    lines = [f"{before.suite}: {_origin(before)} → {_origin(after)}"]
    lines += [markdown_table(header, rows)] if rows else []
    better, worse = (sum(d.verdict == verdict for d in found) for verdict in ("better", "worse"))
    lines.append(f"{len(found)} values in both files: {better} better and {worse} worse.")
    times = [math.log(d.ratio) for d in found if d.what == "time"]
    if times:
        mean = math.exp(sum(times) / len(times))
        lines.append(f"Times, geometric mean of after/before: {mean:.3f}.")
    first, second = ({_key(r) for r in document.records} for document in (before, after))
    if first != second:
        lines.append(
            f"{len(first - second)} records only in the first file, {len(second - first)} only in "
            "the second."
        )
    for key in ("cpu", "cores"):
        old, new = before.environment.get(key), after.environment.get(key)
        if old != new:
            lines.append(f"Caution: {key} is {old} in the first file and {new} in the second.")
    for name, document in (("first", before), ("second", after)):
        load, cores = (document.environment.get(key) for key in ("load_average", "cores"))
        if load is not None and cores and load > cores:
            lines.append(f"Caution: the machine was busy for the {name} file (load {load:g}).")
    return "\n\n".join(lines)


def _row(d: Difference) -> tuple[str, ...]:
    return (
        d.record.group,
        ", ".join(f"{key}={plain(value)}" for key, value in d.record.case.items()),
        d.record.competitor,
        d.what,
        *(duration(v) if d.what == "time" else f"{v:.5g}" for v in (d.before, d.after)),
        f"{d.ratio:.3f}",
        f"± {100.0 * d.noise:.0f} %",
        d.verdict,
    )


def _origin(document: Document) -> str:
    commit = (document.environment.get("git") or {}).get("commit", "")
    return f"{document.environment.get('date', '?')} {commit[:8]}".strip()
