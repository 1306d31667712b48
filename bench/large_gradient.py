"""One clipped gradient of a large float32 problem; prints records as JSON.

``python -m bench.large_gradient ROWS COLUMNS REPEAT``: a process of its own, since the peak of a
process's memory is kept for all of its life.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from bench.harness import Record, interleave, one_thread, timing_records
from bench.kernel_cases import DPFAST, LARGE, READ, as_float64

_STATUS = Path("/proc/self/status")
_PEAK_RESET = Path("/proc/self/clear_refs")
_BLOCK_ROWS = 2**16


def measure(rows: int, columns: int, repeat: int) -> list[Record]:
    """Records of reading X and of the gradient; the latter with the memory that it took.

    Raises
    ------
    OSError
        As :func:`peak_growth`.
    """
    from dpfast import Problem, _kernels

    rng = np.random.default_rng(0)
    X = np.empty((rows, columns), np.float32)
    for start in range(0, rows, _BLOCK_ROWS):
        block = X[start : start + _BLOCK_ROWS]
        rng.standard_normal(dtype=np.float32, out=block)
        block *= np.float32(0.5 / np.sqrt(columns))
    y = np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    w = rng.standard_normal(columns + 1) / np.sqrt(columns)
    problem = Problem(X, y, data_norm=1.0)
    gradient = partial(problem.clipped_gradient, w, 0.5, 1.0)

    growth = peak_growth(gradient)
    contestants: dict[str, Callable[[], object]] = {
        READ: partial(_kernels.read_sum, as_float64(X)),
        DPFAST: gradient,
    }
    timings = interleave(contestants, repeat=repeat)
    records = timing_records(LARGE, {"n": rows, "d": columns}, timings, [READ])
    memory = {"data_bytes": X.nbytes, "growth_bytes": growth}
    return [
        Record(r.group, r.case, r.competitor, {**r.values, **memory}, r.speed)
        if r.competitor == DPFAST
        else r
        for r in records
    ]


def peak_growth(call: Callable[[], object]) -> float:
    """Bytes by which the memory of this process, at its peak during `call`, exceeds that before.

    Raises
    ------
    OSError
        If the system does not tell the peak of a process's memory (only Linux does).
    """
    _PEAK_RESET.write_text("5")  # the peak starts again from what is in use
    before = _kibibytes("VmRSS")
    call()
    return 1024.0 * max(0, _kibibytes("VmHWM") - before)


def _kibibytes(name: str) -> int:
    match = re.search(rf"^{name}:\s*(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    if match is None:
        raise OSError(f"{_STATUS} has no {name}")
    return int(match[1])


if __name__ == "__main__":
    with one_thread():
        found = measure(*map(int, sys.argv[1:4]))
    json.dump([asdict(record) for record in found], sys.stdout)
