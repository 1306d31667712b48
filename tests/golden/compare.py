"""Whether two checkouts give the same public results, to the last bit, on this machine.

    python tests/golden/compare.py REFERENCE [PRESENT] [--only PATTERN] [--except PATTERN]
        [--list] [--save FILE]

REFERENCE and PRESENT are checkouts of dpfast with the extension built in place; PRESENT is by
default the one that this file belongs to.  Both run the cases of :mod:`golden.cases` as they stand
beside this file, each in a process of its own, at the same time; then all outcomes are compared.
``--save`` keeps the reference's outcomes in a file, which may be given as REFERENCE the next time,
on the same machine: instruction sets and BLAS round differently.

PATTERN is a regular expression: ``--only`` searches for it in the names of cases, which ``--list``
prints, and ``--except`` in the names of fields, which are then meant to differ.
The status is 0 if everything is equal, 1 if something differs, 2 if a run broke off.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
# Differences that are shown of one case, and cases that are shown.
_SHOWN_FIELDS, _SHOWN_CASES = 4, 40


def start(checkout: Path, file: Path, only: str, listing: bool) -> subprocess.Popen[bytes]:
    """Run the cases with the dpfast of `checkout`, one BLAS thread, away from both trees."""
    single = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")}
    path = os.pathsep.join((str(checkout), str(TESTS)))
    return subprocess.Popen(
        [sys.executable, "-m", "golden.cases", str(file), "--only", only] + ["--list"] * listing,
        env={**os.environ, **single, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        cwd=file.parent,
    )


def outcomes(file: Path, checkout: Path | None, status: int) -> dict[str, dict[str, Any]]:
    """Outcomes by case; ends the program if the run broke off, or imported another dpfast."""
    lines = file.read_text().splitlines() if file.exists() else []
    if not lines:
        sys.exit(f"{checkout}: the run ended with status {status} before its first case.")
    head, *rest = map(json.loads, lines)
    if checkout is not None and not Path(head["dpfast"]).is_relative_to(checkout):
        sys.exit(f"{checkout}: its run imported {head['dpfast']} instead.")
    found: dict[str, dict[str, Any]] = {}
    for line in rest:
        found.setdefault(line.pop("case"), {}).update(line)
    if status != 0:
        print(f"{checkout}: the run ended with status {status} in the case {list(found)[-1]!r}.")
        sys.exit(2)
    return found


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Paths and values of everything in nested mappings and lists; arrays stay whole."""
    if isinstance(value, dict) and "array" not in value:
        for name, part in value.items():
            yield from leaves(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        yield f"{path}.length", len(value)
        for index, part in enumerate(value):
            yield from leaves(part, f"{path}[{index}]")
    else:
        yield path, value


def shown(left: Any, right: Any) -> str:
    """How two values differ, in a line."""
    if isinstance(left, dict) and isinstance(right, dict) and left["array"] == right["array"]:
        first, second = left["values"], right["values"]
        if isinstance(first[0], float):
            pairs = [
                (abs(a - b), max(abs(a), abs(b)))
                for a, b in zip(first, second, strict=True)
                if repr(a) != repr(b)
            ]
            most = max(gap / size if size else 0.0 for gap, size in pairs)
            return f"{len(pairs)} of {len(first)} entries differ, by {most:.2g} relative at most"
    if isinstance(left, float) and isinstance(right, float) and left and right:
        return f"{left!r} -> {right!r} ({abs(left - right) / max(abs(left), abs(right)):.2g})"
    texts = (json.dumps(value) for value in (left, right))
    return " -> ".join(text if len(text) <= 160 else text[:157] + "..." for text in texts)


def differences(left: dict[str, Any], right: dict[str, Any]) -> list[tuple[str, str]]:
    """Fields in which two outcomes differ, and how."""
    first, second = dict(leaves(left)), dict(leaves(right))
    missing = object()
    found = []
    for path in dict.fromkeys((*first, *second)):
        a, b = first.get(path, missing), second.get(path, missing)
        if a is missing or b is missing:
            found.append((path, f"only in the {'reference' if b is missing else 'present'} one"))
        # As text: NaN equals itself, 0.0 is not -0.0, 1 is not 1.0.
        elif json.dumps(a) != json.dumps(b):
            found.append((path, shown(a, b)))
    return found


def compare(
    reference: dict[str, dict[str, Any]],
    present: dict[str, dict[str, Any]],
    everything: bool,
    meant: str | None = None,
) -> bool:
    """Print how the two runs differ; True if they do not."""
    seconds = [
        sum(case.pop("seconds", 0.0) for case in run.values()) for run in (reference, present)
    ]
    fields: Counter[str] = Counter()
    differing = equal = refused = 0
    for name in dict.fromkeys((*reference, *present)):
        if name not in reference or name not in present:
            found = [
                ("the case", f"only in the {'present' if name in present else 'reference'} run")
            ]
        else:
            found = differences(reference[name], present[name])
            found = [pair for pair in found if meant is None or not re.search(meant, pair[0])]
        if not found:
            equal += 1
            refused += "refused" in reference[name]
            continue
        differing += 1
        fields.update({re.sub(r"\[\d+\]", "[]", path) for path, _ in found})
        if differing <= _SHOWN_CASES or everything:
            print(name)
            for path, how in found if everything else found[:_SHOWN_FIELDS]:
                print(f"    {path}: {how}")
            if not everything and len(found) > _SHOWN_FIELDS:
                print(f"    and {len(found) - _SHOWN_FIELDS} more fields")
    if differing > _SHOWN_CASES and not everything:
        print(f"... and {differing - _SHOWN_CASES} more cases (--all shows them)")
    if fields:
        print("\nFields that differ, with the number of cases:")
        for path, count in fields.most_common(30):
            print(f"  {count:6}  {path}")
    print(
        f"\n{equal} cases are equal to the bit ({refused} of them refusals), {differing} differ; "
        f"processor time {seconds[0]:.0f} s and {seconds[1]:.0f} s."
    )
    return differing == 0 and equal > 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reference", type=Path, help="a checkout, or a file of --save")
    parser.add_argument("present", type=Path, nargs="?", default=TESTS.parent, help="another")
    parser.add_argument("--only", default="", metavar="PATTERN", help="cases whose names match")
    parser.add_argument("--except", dest="meant", metavar="PATTERN", help="leave out such fields")
    parser.add_argument("--list", action="store_true", help="print the cases' names and stop")
    parser.add_argument("--all", action="store_true", help="show every difference")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the reference's outcomes")
    arguments = parser.parse_args()
    checkouts = [path.resolve() for path in (arguments.reference, arguments.present)]
    with tempfile.TemporaryDirectory() as folder:
        runs = []
        for number, checkout in enumerate(checkouts[: 1 if arguments.list else 2]):
            file = Path(folder) / f"{number}.jsonl"
            if checkout.is_file():
                runs.append((checkout, None, None))
            else:
                run = start(checkout, file, arguments.only, arguments.list)
                runs.append((file, checkout, run))
        found = [outcomes(file, checkout, run.wait() if run else 0) for file, checkout, run in runs]
        if arguments.save:
            shutil.copyfile(runs[0][0], arguments.save)
    if checkouts[0].is_file():
        found[0] = {name: x for name, x in found[0].items() if re.search(arguments.only, name)}
    if arguments.list:
        print("\n".join(found[0]))
        return 0
    return 0 if compare(found[0], found[1], arguments.all, arguments.meant) else 1


if __name__ == "__main__":
    sys.exit(main())
