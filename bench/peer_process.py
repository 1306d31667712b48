"""One competitor in a process of its own, perhaps of another interpreter; speaks JSON.

``python -m bench.peer_process missing NAME ...`` says why each cannot run there, or null.
``python -m bench.peer_process versions`` says what is installed there.
``python -m bench.peer_process fit NAME ROWS.npz SETTINGS`` fits at every budget and seed.

Only the competitor's own libraries and NumPy are needed, so an interpreter without dpfast will do.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import platform
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.competitors import COMPETITORS, Task, missing

_STATUS = Path("/proc/self/status")
_PEAK_RESET = Path("/proc/self/clear_refs")


_LIBRARIES = (
    "numpy", "scikit-learn", "diffprivlib", "opacus", "torch", "opendp", "jax",
    "sklearn-contrib-lightning",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Budgets, seeds, seconds after which no further seed begins, and how columns were declared."""

    epsilons: tuple[float, ...]
    delta: float
    seeds: int
    limit: float
    blocks: tuple[tuple[str, int, int], ...] = ()


def versions() -> dict[str, str]:
    """Python's and those of the libraries that are installed."""
    found = {"Python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def fits(name: str, arrays: Any, settings: Settings) -> dict[str, Any]:
    """Weights and seconds of every fit, and the memory of this process at its peak.

    Returns
    -------
    dict
        ``fits``, a list of ``{epsilon, seed, seconds, weights}``, the first fit being one that is
        thrown away (libraries compile and allocate then); ``first_seconds``; ``peak_bytes`` of the
        process, and ``growth_bytes`` by which fitting raised it above libraries and rows.
    """
    competitor = COMPETITORS[name]
    epsilons = settings.epsilons if competitor.RELATION != "none" else settings.epsilons[:1]
    splits = [
        [np.ascontiguousarray(arrays[f"{part}{seed}"]) for part in ("X", "y")]
        for seed in range(settings.seeds)
    ]
    norm = float(arrays["data_norm"])
    reason = missing(name)  # loads its library
    if reason is not None:
        raise ModuleNotFoundError(reason)
    whole, before = peak_bytes(), start_peak()

    def timed(call: Callable[[], Any]) -> tuple[float, Any]:
        # Of the processor: other processes on the machine should not count.
        start = time.process_time()
        found = call()
        return time.process_time() - start, found

    def task(seed: int, epsilon: float) -> Task:
        X, y = splits[seed]
        return Task(X, y, norm, epsilon, settings.delta, seed=seed, blocks=settings.blocks)

    begun = time.process_time()
    first, _ = timed(lambda: competitor.fit(task(0, epsilons[0])))
    made = []
    for seed in range(settings.seeds):
        if seed and time.process_time() - begun > settings.limit:
            break
        for epsilon in epsilons:
            here = task(seed, epsilon)
            seconds, w = timed(lambda here=here: competitor.fit(here))
            made.append(
                {"epsilon": epsilon, "seed": seed, "seconds": seconds, "weights": w.tolist()}
            )
    peak = peak_bytes()
    return {
        "fits": made,
        "first_seconds": first,
        "peak_bytes": max(whole, peak),
        "growth_bytes": max(peak - before, 0.0),
    }


def start_peak() -> float:
    """Memory in use, from which :func:`peak_bytes` starts again where the system allows it."""
    try:
        _PEAK_RESET.write_text("5")
    except OSError:
        return peak_bytes()
    return _kibibytes("VmRSS")


def peak_bytes() -> float:
    """Most memory that this process has had at a time; 0 where the system does not tell.

    Not ``ru_maxrss`` on Linux, which remembers what the parent had when it forked.
    """
    try:
        return _kibibytes("VmHWM")
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return 0.0
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _kibibytes(name: str) -> float:
    match = re.search(rf"^{name}:\s*(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    if match is None:
        raise OSError(f"{_STATUS} has no {name}")
    return 1024.0 * int(match[1])


def main(words: Sequence[str]) -> None:
    if words[0] == "missing":
        found: Any = {name: missing(name) for name in words[1:]}
    elif words[0] == "versions":
        found = versions()
    else:
        body = json.loads(words[3])
        settings = Settings(**body | {key: tuple(body[key]) for key in ("epsilons", "blocks")})
        with np.load(words[2]) as arrays:
            found = fits(words[1], arrays, settings)
    # Libraries print what they like: the answer is the last line.
    print("\n" + json.dumps(found))


def arguments(name: str, file: str, settings: Settings) -> list[str]:
    """What makes a process of this module fit."""
    return ["fit", name, file, json.dumps(dataclasses.asdict(settings))]


if __name__ == "__main__":
    main(sys.argv[1:])
