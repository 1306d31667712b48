"""Write ``golden.json`` anew: a few numbers of many fits, which tests/test_golden.py holds.

    python -m tests.golden.write

The numbers are those of the baseline kernels and one BLAS thread.  Kernels of BLAS, NumPy and the
C library differ between processors, so every case is run once for each of :data:`PROCESSORS`, too,
which look like other processors to these libraries.  A case whose numbers then differ by more than
:data:`STABLE` is left out of the file: somewhere a choice, a step count or a rounding to the grid
of the noise may flip.  :mod:`golden.compare` still has it.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("golden.json")
#: Instruction set of the kernels, and environment of the libraries.
PROCESSORS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("baseline", {}),
    ("baseline", {"OPENBLAS_CORETYPE": "Haswell"}),
    (
        "baseline",
        {
            "OPENBLAS_CORETYPE": "Nehalem",
            "NPY_DISABLE_CPU_FEATURES": "every",
            "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4,-AVX2_Usable,-FMA_Usable",
        },
    ),
    ("best", {"OPENBLAS_CORETYPE": "Sandybridge"}),
)
#: Relative difference of an array's entries, to its largest one, between processors.
STABLE = 1e-11
#: Longer arrays are stated by their first entries and their norm.
_ENTRIES = 4
_DROPPED = ("plan", "text", "printed", "report", "predict", "decision_function", "predict_proba")


def wanted(name: str) -> bool:
    """Whether a case is to be in the file: a draw from all kinds, and each solver's usual ones."""
    family, *parts = name.split("/")
    if family in ("plan", "account") or "threads" in name or "dask" in name:
        return False
    usual = ("logistic", "squared") if parts[0] == "dp-adassp" else ("logistic",)
    if family == "solve" and parts[3] in usual and parts[4] == "dense":
        return True
    return _drawn(name, 20 if family in ("solve", "options") else 8)


def _drawn(name: str, one_in: int) -> bool:
    """One in so many names, always the same ones."""
    return zlib.crc32(name.encode()) % one_in == 0


# ---- what is kept of an outcome -----------------------------------------------------------------


def summary(value: Any) -> Any:
    """The numbers of an outcome, without texts and plans; events by place and kind."""
    if isinstance(value, dict) and "array" in value:
        return _entries(value["values"])
    if isinstance(value, dict) and "ledger" in value:
        ledger = value["ledger"]
        return {"epsilon": summary(ledger["epsilon"]), "events": dict(_events(ledger["events"]))}
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k not in _DROPPED}
        parts = {k: _last(v) if k == "history" else summary(v) for k, v in kept.items()}
        return {k: v for k, v in parts.items() if v not in (None, {}, [])}
    if isinstance(value, list):
        return [part for part in map(summary, value) if part is not None]
    if isinstance(value, float):
        return float(f"{value:.13g}")
    return value if isinstance(value, int) else None


def _last(history: dict[str, Any]) -> dict[str, Any]:
    return {name: summary(array["values"][-1]) for name, array in history.items()}


def _entries(values: list[Any]) -> list[float]:
    numbers = [summary(x) for x in values if isinstance(x, int | float)]
    if len(numbers) <= _ENTRIES:
        return numbers
    norm = math.sqrt(math.fsum(x * x for x in numbers))
    return [*numbers[: _ENTRIES - 1], summary(norm)]


def _events(events: list[dict[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """For each kind of event and place, its numbers aside: the count, and first and last."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        place = re.sub(r"\d+", "#", event["where"])
        groups.setdefault(f"{place}: {event['mechanism']}", []).append(event)
    for place, group in groups.items():
        ends = [group[0]] if group[0] == group[-1] else [group[0], group[-1]]
        numbers = [[x for x in map(summary, end.values()) if x is not None] for end in ends]
        yield place, [sum(event.get("count", 1) for event in group), *numbers]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Paths and values of a summary; lists of numbers stay whole."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, f"{path}.{name}")
    elif isinstance(value, list) and any(isinstance(part, list | dict) for part in value):
        for index, part in enumerate(value):
            yield from leaves(part, f"{path}[{index}]")
    else:
        yield path, value


def apart(first: Any, second: Any) -> float:
    """Largest difference of two summaries, relative to the largest number beside it."""
    a, b = dict(leaves(first)), dict(leaves(second))
    if a.keys() != b.keys():
        return math.inf
    return max((_distance(a[path], b[path]) for path in a), default=0.0)


def _distance(first: Any, second: Any) -> float:
    a, b = ([x] if not isinstance(x, list) else x for x in (first, second))
    if len(a) != len(b):
        return math.inf
    # Infinite numbers must be equal, counts as well.
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    if not pairs:
        return 0.0
    if not all(isinstance(x, float) and math.isfinite(x) for pair in pairs for x in pair):
        return math.inf
    return max(abs(x - y) for x, y in pairs) / max(abs(x) for x in (*a, *b) if math.isfinite(x))


# ---- running and writing ------------------------------------------------------------------------


def run(isa: str, file: Path) -> None:
    """Run the wanted cases on this instruction set, and write their summaries."""
    from golden.cases import all_cases, record

    from dpfast import _kernels

    _kernels.force_isa(_kernels.supported_isas()[-1] if isa == "best" else isa)
    outcomes = {name: record(case) for name, case in all_cases(wanted).items()}
    found = {
        name: summary(outcome["outcome"])
        for name, outcome in outcomes.items()
        if "outcome" in outcome
    }
    file.write_text(json.dumps(found))


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    """That of a process with one BLAS thread, which imports dpfast and the cases from here."""
    root = FILE.parents[2]
    single = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")}
    changes = dict(changes)
    if "NPY_DISABLE_CPU_FEATURES" in changes:
        from numpy._core import _multiarray_umath as compiled

        features = compiled.__cpu_features__
        known = [name for name in compiled.__cpu_dispatch__ if features.get(name)]
        changes["NPY_DISABLE_CPU_FEATURES"] = " ".join(known)
    path = os.pathsep.join((str(root), str(root / "tests")))
    return {**os.environ, **single, **changes, "PYTHONPATH": path}


def main() -> None:
    if len(sys.argv) > 1:
        run(sys.argv[1], Path(sys.argv[2]))
        return
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (isa, changes) in enumerate(PROCESSORS):
            file = Path(folder) / f"{number}.json"
            command = [sys.executable, "-m", "golden.write", isa, str(file)]
            subprocess.run(command, check=True, cwd=folder, env=environment(changes))
            runs.append(json.loads(file.read_text()))
    first, *others = runs
    gaps = {
        name: max(apart(kept, other.get(name)) for other in others) for name, kept in first.items()
    }
    stable = {name: kept for name, kept in first.items() if gaps[name] <= STABLE}
    dumps = partial(json.dumps, separators=(",", ":"))
    lines = (f"{dumps(name)}:{dumps(kept)}" for name, kept in stable.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    largest = max(gaps[name] for name in stable)
    print(f"{len(stable)} cases, at most {largest:.2g} apart, {FILE.stat().st_size} bytes.")
    print("Left out as not stable:")
    for name in sorted(first.keys() - stable.keys()):
        print(f"  {gaps[name]:8.2g}  {name}")


if __name__ == "__main__":
    main()
