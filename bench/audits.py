"""Table of claimed against measured epsilon, from the results of ``pytest -m audit``.

    DPFAST_AUDIT_RESULTS=folder python -m pytest -m audit -n 2 tests/audit/test_audit_solvers.py
    python -m bench.audits folder

writes bench/results/audits.json and the table in docs/audits.md; without a folder it only makes the
table anew from the JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results" / "audits.json"
PAGE = ROOT / "docs" / "audits.md"
BEGIN, END = "<!-- table: python -m bench.audits -->\n", "<!-- end of the table -->\n"

Result = Mapping[str, Any]


def key(result: Result) -> tuple[str, ...]:
    """What names a cell."""
    return tuple(result[name] for name in ("solver", "variant", "loss", "relation", "kind"))


def merged(old: Iterable[Result], new: Iterable[Result]) -> list[Result]:
    """All results, the newer ones in the place of older ones of the same cell."""
    return list({key(result): result for result in (*old, *new)}.values())


def table(results: Sequence[Result]) -> str:
    """A row for each solver, variant, relation and budget: the losses' best audit, and all."""
    groups: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for result in results:
        groups[result["solver"], result["variant"], result["relation"], result["kind"]].append(
            result
        )
    lines = [
        "| solver | what is attacked | neighbors | claimed ε | at δ | measured ε at least | of it "
        "| with | losses | samples |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (solver, variant, relation, _), found in groups.items():
        best = max(found, key=lambda r: float(r["measured_epsilon"]) / r["claimed_epsilon"])
        shares = [float(r["measured_epsilon"]) / r["claimed_epsilon"] for r in found]
        cells = [
            f"`{solver}`",
            variant,
            relation.replace("_", " "),
            f"{math.ceil(1e3 * best['claimed_epsilon']) / 1e3:.3f}",
            f"{best['delta']:g}",
            f"{math.floor(1e3 * best['measured_epsilon']) / 1e3:.3f}",
            f"{max(shares):.0%}",
            best["loss"],
            str(len(found)) if len(found) == 1 else f"{len(found)}, from {min(shares):.0%}",
            f"{2 * sum(r['samples'] for r in found):,}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def summary(results: Sequence[Result], cells: int) -> str:
    """What the table adds up to, of the suite's so many cells."""
    above = sum(r["measured_epsilon"] > r["claimed_epsilon"] for r in results)
    samples = 2 * sum(r["samples"] for r in results)
    return (
        f"Recorded: {len(results)} of the suite's {cells} cells, {samples:,} samples; lower bounds "
        f"above the claim: {above}.\n"
    )


def page(text: str, results: Sequence[Result], cells: int) -> str:
    """The page with its table made anew."""
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{summary(results, cells)}\n{table(results)}\n{END}{tail}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Read, merge, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.audits", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="where the audit wrote its results")
    folder = parser.parse_args(arguments).folder
    sys.path.insert(0, str(ROOT / "tests"))
    from audit.worst_cases import cells

    known = {(c.case.solver, c.case.variant, c.loss, c.relation, c.kind) for c in cells()}
    results: list[Result] = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    if folder is not None:
        new = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
        results = sorted((r for r in merged(results, new) if key(r) in known), key=key)
        lines = ",\n".join(json.dumps(result) for result in results)
        RESULTS.write_text(f"[\n{lines}\n]\n")
    text = page(PAGE.read_text(encoding="utf-8"), results, len(known))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
