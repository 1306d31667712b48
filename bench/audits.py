"""Table of claimed against measured epsilon, from the results of ``pytest -m audit``.

    DPFAST_AUDIT_RESULTS=folder python -m pytest -m audit -n 2 tests/audit/test_audit_solvers.py
    python -m bench.audits folder

brings the rows that the folder has results of into the table of docs/audit_table.md, which is
the record.  A row is of all the losses of a solver: it is replaced whole.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.report import markdown_table, number, read_tables

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "audit_table.md"
TITLE = "The table"
BEGIN, END = "<!-- table: python -m bench.audits -->\n", "<!-- end of the table -->\n"

Result = Mapping[str, Any]
Row = dict[str, str]
Key = tuple[str, str, str, str]


def key(row: Row) -> Key:
    """What names a row: solver, variant, relation, kind of budget."""
    kind = "pure" if row["at δ"] == "0" else "approximate"
    relation = row["neighbors"].replace(" ", "_")
    return row["solver"].strip("`"), row["what is attacked"], relation, kind


def cell_row(cell: Any) -> Key:
    """The row that a cell of the suite belongs to."""
    return cell.case.solver, cell.case.variant, cell.relation, cell.kind


def cells_of_rows(cells: Iterable[Any]) -> Counter[Key]:
    """How many cells of the suite, a loss each, belong to every row."""
    return Counter(map(cell_row, cells))


def losses(row: Row) -> int:
    """How many losses a row is of."""
    return int(row["losses"].split(",")[0])


def rows(results: Sequence[Result]) -> list[Row]:
    """One for each solver, variant, relation and budget: the losses' best audit, and all."""
    groups: dict[Key, list[Result]] = defaultdict(list)
    for result in results:
        solver, variant, relation, kind = (
            str(result[name]) for name in ("solver", "variant", "relation", "kind")
        )
        groups[solver, variant, relation, kind].append(result)
    return [_row(found) for found in groups.values()]


def _row(found: Sequence[Result]) -> Row:
    best = max(found, key=lambda r: float(r["measured_epsilon"]) / r["claimed_epsilon"])
    shares = [float(r["measured_epsilon"]) / r["claimed_epsilon"] for r in found]
    return {
        "solver": f"`{best['solver']}`",
        "what is attacked": best["variant"],
        "neighbors": best["relation"].replace("_", " "),
        "claimed ε": f"{math.ceil(1e3 * best['claimed_epsilon']) / 1e3:.3f}",
        "at δ": f"{best['delta']:g}",
        "measured ε at least": f"{math.floor(1e3 * best['measured_epsilon']) / 1e3:.3f}",
        "of it": f"{max(shares):.0%}",
        "with": best["loss"],
        "losses": str(len(found)) if len(found) == 1 else f"{len(found)}, from {min(shares):.0%}",
        "samples": f"{2 * sum(r['samples'] for r in found):,}",
    }


def summary(table: Sequence[Row], cells: int) -> str:
    """What the table adds up to, of the suite's so many cells."""
    above = sum(number(r["measured ε at least"]) > number(r["claimed ε"]) for r in table)
    samples = int(sum(number(row["samples"]) for row in table))
    return (
        f"Recorded: {sum(map(losses, table))} of the suite's {cells} cells, {samples:,} samples; "
        f"lower bounds above the claim: {above}.\n"
    )


def recorded(text: str) -> list[Row]:
    """The rows that the page has."""
    return read_tables(text)[TITLE]


def page(text: str, results: Sequence[Result], cells: Mapping[Key, int]) -> str:
    """The page with the rows of these results anew, and without rows of what is audited no more."""
    found = {key(row): row for row in (*recorded(text), *rows(results))}
    table = [found[name] for name in sorted(found) if name in cells]
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    body = markdown_table(tuple(table[0]), [tuple(row.values()) for row in table])
    return f"{head}{BEGIN}\n{summary(table, sum(cells.values()))}\n{body}\n\n{END}{tail}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Read, merge, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.audits", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the audit wrote its results")
    folder = parser.parse_args(arguments).folder
    sys.path.insert(0, str(ROOT / "tests"))
    from audit.worst_cases import cells

    results = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    text = page(PAGE.read_text(encoding="utf-8"), results, cells_of_rows(cells()))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
