"""Kernels against the speed of reading X, and against the same sums in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bench import machine
from bench.competitors import dpfast_native, numpy_baseline
from bench.competitors.numpy_baseline import NumpyProblem
from bench.harness import Document, Record, Run, interleave, timing_records
from bench.problems import Dataset, synthetic
from bench.report import Table, duration, plain, speed

NAME = "kernels"
TITLE = "Kernels"
READ = "reading X"
NUMPY = numpy_baseline.NAME
COMPETITORS = {
    READ: "yardstick: a vectorized sum of the numbers of X, which reads each of them once",
    dpfast_native.NAME: "the kernels; the name of the instruction set follows",
    NUMPY: "the same sums in plain NumPy, in cache-sized row blocks",
}

GRADIENT = "clipped gradient and objective"
OBJECTIVE = "clipped objective"
MARGINS = "margins"
HESSIAN = "Hessian"
OPERATIONS = (GRADIENT, OBJECTIVE, MARGINS, HESSIAN)
_READ_GROUP = "read bandwidth"
_THREADS = "threads"
_SAMPLERS = "samplers"


@dataclass(frozen=True)
class Sizes:
    """Columns of the problems, megabytes of X, and vectors or numbers drawn from the samplers."""

    columns: tuple[int, ...]
    megabytes: float
    read_megabytes: tuple[float, ...]
    draws: int


FULL = Sizes((20, 120, 1000), 160.0, (1.0, 16.0, 160.0, 640.0), 200_000)
QUICK = Sizes((20, 120, 1000), 16.0, (1.0, 16.0), 20_000)


def run(settings: Run, sizes: Sizes) -> list[Record]:
    cache = machine.largest_cache()
    if 1e6 * sizes.megabytes < cache:
        settings.note(
            f"X ({sizes.megabytes:g} MB) is smaller than the largest cache that the processor "
            f"reports ({cache / 1e6:.0f} MB). Whether it was read from there shows in the last "
            "table, by the speed of reading arrays of other sizes."
        )
    records = _read_bandwidth(settings, sizes)
    for columns in sizes.columns:
        rows = max(1, round(1e6 * sizes.megabytes / (8 * columns)))
        data = synthetic(rows, columns)
        records += _operations(settings, data)
        records += _threads(settings, data)
    return records + _samplers(settings, sizes)


def _read_bandwidth(settings: Run, sizes: Sizes) -> list[Record]:
    from dpfast import _kernels

    records = []
    for megabytes in sizes.read_megabytes:
        settings.say(f"  reading {megabytes:g} MB")
        x = np.ones(round(1e6 * megabytes / 8))
        contestants: dict[str, Callable[[], object]] = {
            f"dpfast {isa}": _with_isa(isa, partial(_kernels.read_sum, x))
            for isa in _kernels.supported_isas()
        }
        contestants["numpy.sum"] = x.sum
        for record in timing_records(
            _READ_GROUP,
            {"megabytes": megabytes},
            interleave(contestants, repeat=settings.repeat),
            ["numpy.sum"],
        ):
            rate = {"gigabytes_per_second": megabytes / 1e3 / record.values["seconds"]}
            records.append(replace(record, values={**record.values, **rate}))
    return records


def _operations(settings: Run, data: Dataset) -> list[Record]:
    from dpfast import Problem, _kernels

    n, d = data.X.shape
    w = np.random.default_rng(1).standard_normal(d + 1) / math.sqrt(d)
    # Clip about half of the gradients, and the larger losses: the work does not depend on it, but
    # branches, if there were any, would.
    clip_norm, loss_clip = 0.5, 1.0
    problem = Problem(data.X, data.y, data_norm=data.data_norm)
    twin = NumpyProblem(data.X, data.y, data.data_norm)
    calls: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        GRADIENT: (
            partial(problem.clipped_gradient, w, clip_norm, loss_clip),
            partial(twin.clipped_gradient, w, clip_norm, loss_clip),
        ),
        OBJECTIVE: (
            partial(problem.objective, w, loss_clip),
            partial(twin.objective, w, loss_clip),
        ),
        MARGINS: (partial(problem.margins, w), partial(twin.margins, w)),
        HESSIAN: (partial(problem.hessian, w, 1e-3), partial(twin.hessian, w, 1e-3)),
    }
    read = partial(_kernels.read_sum, data.X.reshape(-1))
    records = []
    for operation, (ours, theirs) in calls.items():
        settings.say(f"  {operation}, {n:,} x {d}")
        contestants: dict[str, Callable[[], object]] = {READ: read}
        for isa in reversed(_kernels.supported_isas()):
            contestants[f"dpfast {isa}"] = _with_isa(isa, ours)
        contestants[NUMPY] = theirs
        timings = interleave(contestants, repeat=settings.repeat)
        records += timing_records(operation, {"n": n, "d": d}, timings, [READ, NUMPY])
    return records


def _threads(settings: Run, data: Dataset) -> list[Record]:
    """The clipped gradient on one thread and on two."""
    from dpfast import Problem

    cores = machine.usable_cores()
    if cores < 2:
        settings.note("threads left out: only one core may be used.")
        return []
    n, d = data.X.shape
    settings.say(f"  threads, {n:,} x {d}")
    w = np.random.default_rng(1).standard_normal(d + 1) / math.sqrt(d)
    problems = {
        f"{count} thread{'s' * (count > 1)}": Problem(
            data.X, data.y, data_norm=data.data_norm, n_jobs=count
        )
        for count in (1, 2)
    }
    results = [p.clipped_gradient(w, 0.5, 1.0) for p in problems.values()]
    if not np.array_equal(results[0][0], results[1][0]):
        raise AssertionError("the gradient depends on the number of threads")
    timings = interleave(
        {name: partial(p.clipped_gradient, w, 0.5, 1.0) for name, p in problems.items()},
        repeat=settings.repeat,
    )
    return timing_records(_THREADS, {"n": n, "d": d}, timings, ["1 thread"])


def _samplers(settings: Run, sizes: Sizes) -> list[Record]:
    try:
        from dpfast.random import SecureGenerator
    except ImportError:
        settings.note("samplers left out: dpfast.random is not built.")
        return []
    ours, theirs = SecureGenerator(0), np.random.default_rng(0)
    n, scale = sizes.draws, 2**31
    settings.say(f"  samplers, {n:,} draws")
    cases: dict[str, tuple[int, Callable[[], object], Callable[[], object]]] = {
        "64 random bits": (
            n,
            lambda: ours.uint64(n),
            lambda: theirs.integers(0, 2**64, n, dtype=np.uint64),
        ),
        "discrete Gaussian, scale 2^31": (
            n,
            lambda: ours.discrete_gaussian(scale, n),
            lambda: np.rint(theirs.normal(0.0, scale, n)),
        ),
        "discrete Laplace, scale 2^31": (
            n,
            lambda: ours.discrete_laplace(scale, n),
            lambda: np.rint(theirs.laplace(0.0, scale, n)),
        ),
        "normal": (n, lambda: ours.gaussian(n), lambda: theirs.standard_normal(n)),
    }
    vectors = max(1, n // 100)
    for d in (20, 1000):
        cases[f"l2-Laplace vector, d = {d}"] = (
            vectors,
            partial(_repeatedly, vectors, partial(ours.l2_laplace, d, 1.0)),
            partial(_repeatedly, vectors, partial(_l2_laplace, theirs, d, 1.0)),
        )
    records = []
    for name, (draws, secure, fast) in cases.items():
        timings = interleave({dpfast_native.NAME: secure, NUMPY: fast}, repeat=settings.repeat)
        for r in timing_records(_SAMPLERS, {"draw": name, "draws": draws}, timings, [NUMPY]):
            each = {"nanoseconds_per_draw": 1e9 * r.values["seconds"] / draws}
            records.append(replace(r, values={**r.values, **each}))
    return records


def _repeatedly(count: int, call: Callable[[], object]) -> None:
    for _ in range(count):
        call()


def _l2_laplace(rng: np.random.Generator, d: int, scale: float) -> np.ndarray:
    z = rng.standard_normal(d)
    return z * (rng.gamma(d, scale) / math.sqrt(z @ z))


def _with_isa(isa: str, call: Callable[[], object]) -> Callable[[], object]:
    def forced() -> object:
        with _forced(isa):
            return call()

    return forced


@contextmanager
def _forced(isa: str) -> Iterator[None]:
    from dpfast import _kernels

    before = _kernels.isa_name()
    _kernels.force_isa(isa)
    try:
        yield
    finally:
        _kernels.force_isa(before)


# ---- for readers --------------------------------------------------------------------------------


def tables(document: Document) -> list[Table]:
    groups: dict[str, list[Record]] = {}
    for record in document.records:
        groups.setdefault(record.group, []).append(record)
    found = [_operation_table(name, groups[name]) for name in OPERATIONS if name in groups]
    if _THREADS in groups:
        found.append(
            Table(
                "One thread against two",
                f"{GRADIENT.capitalize()}; results are equal to the last bit.",
                ("rows", "columns", "threads", "time", "speed-up"),
                [
                    (
                        plain(r.case["n"]),
                        plain(r.case["d"]),
                        r.competitor,
                        duration(r.values["seconds"]),
                        speed(r, "1 thread"),
                    )
                    for r in groups[_THREADS]
                ],
            )
        )
    if _SAMPLERS in groups:
        found.append(
            Table(
                "Noise",
                "dpfast draws from ChaCha20, discrete laws in exact integer arithmetic. NumPy's "
                "times are for a fast generator and floating-point (rounded) noise, which is not "
                "safe to release: they show what safety costs.",
                ("draw", "generator", "ns a draw", "speed relative to NumPy"),
                [
                    (
                        str(r.case["draw"]),
                        r.competitor,
                        f"{r.values['nanoseconds_per_draw']:,.4g}",
                        speed(r, NUMPY),
                    )
                    for r in groups[_SAMPLERS]
                ],
            )
        )
    if _READ_GROUP in groups:
        found.append(
            Table(
                "Reading",
                "The yardstick itself, a sum over one array, for arrays of several sizes.",
                ("array, MB", "reader", "time", "GB/s", "speed relative to numpy.sum"),
                [
                    (
                        plain(r.case["megabytes"]),
                        r.competitor,
                        duration(r.values["seconds"]),
                        f"{r.values['gigabytes_per_second']:.1f}",
                        speed(r, "numpy.sum"),
                    )
                    for r in groups[_READ_GROUP]
                ],
            )
        )
    return found


def _operation_table(name: str, records: list[Record]) -> Table:
    return Table(
        name.capitalize(),
        "Share of the read limit: the time of one read of X over the time of the operation, so 1.0 "
        "is as fast as X can be read."
        + (" A Hessian is bound by arithmetic, not by reading." if name == HESSIAN else ""),
        ("rows", "columns", "competitor", "time", "share of read limit", "speed relative to NumPy"),
        [
            (
                plain(r.case["n"]),
                plain(r.case["d"]),
                r.competitor,
                duration(r.values["seconds"]),
                f"{r.speed.get(READ, 1.0):.2g}",
                speed(r, NUMPY),
            )
            for r in records
        ],
    )


def draw(document: Document, figure: Any) -> None:
    """One panel an operation: bars of the share of the read limit."""
    shown = [name for name in OPERATIONS[:3] if any(r.group == name for r in document.records)]
    figure.set_size_inches(11, 3.6)
    axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, shown, strict=True):
        records = [r for r in document.records if r.group == name and r.competitor != READ]
        columns = sorted({int(r.case["d"]) for r in records})
        competitors = list(dict.fromkeys(r.competitor for r in records))
        width = 0.8 / len(competitors)
        for k, competitor in enumerate(competitors):
            share = {int(r.case["d"]): r.speed[READ] for r in records if r.competitor == competitor}
            bars = axis.bar(
                [i + (k - (len(competitors) - 1) / 2) * width for i in range(len(columns))],
                [share[d] for d in columns],
                width,
                label=competitor,
                color="0.65" if competitor == NUMPY else ("C0", "C9", "C2")[k % 3],
            )
            axis.bar_label(bars, fmt="%.2f", fontsize=8, padding=1)
        axis.set_xticks(range(len(columns)), [f"d = {d}" for d in columns])
        axis.axhline(1.0, color="0.3", linewidth=0.8, linestyle="--")
        axis.set_title(name, fontsize=10)
    axes[0].set_ylabel("share of the read limit\n(higher is faster)")
    axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    axes[0].set_ylim(0.0, max(1.45, 1.25 * axes[0].get_ylim()[1]))
    figure.suptitle("How close the kernels come to reading X once, one thread")
