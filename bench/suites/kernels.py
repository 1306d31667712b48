"""Kernels against the speed of reading X, against the same sums elsewhere, and their targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench import kernel_cases, kernel_targets, machine
from bench.competitors import dpfast_native
from bench.harness import Document, Record, Run
from bench.kernel_cases import (
    BLOCKS,
    FLOAT64,
    GRADIENT,
    GRADIENT32,
    HESSIAN,
    KEPT,
    LARGE,
    LINE_SEARCH,
    NUMPY,
    OPERATIONS,
    READ,
    READ_ON_ONE,
    READING,
    RECOMPUTED,
    SAGA,
    SAMPLERS,
    SCIPY,
    SPARSE,
    STEPS,
    THREADS,
    TORCH,
    WHOLE,
)
from bench.problems import synthetic
from bench.report import Table, duration, plain, speed

NAME = "kernels"
TITLE = "Kernels"
COMPETITORS = {
    READ: "yardstick: a vectorized sum of the numbers of X, which reads each of them once",
    dpfast_native.NAME: "the kernels; the name of the instruction set follows",
    READ_ON_ONE: "yardstick of threads: the same sum, as a whole or by halves",
    FLOAT64: "the kernels on float64 rows: two passes over half as many, the same bytes a pass",
    WHOLE: "the same sums: BLAS products with all of X, vectorized losses, norms computed once",
    BLOCKS: "the same sums in cache-sized row blocks, written in place: harder to beat",
    TORCH: "the same sums through a tensor of one gradient a row (4096 rows at a time)",
    SCIPY: "the same sums: CSR products with all of X, vectorized losses, norms computed once",
    RECOMPUTED: "a product with X and the losses for every step size",
    KEPT: "the losses for every step size from margins that are computed once",
    SAGA: "as many single-row steps of its compiled solver, without validation",
    NUMPY: "noise from a fast generator in floating point: not safe to release",
}


@dataclass(frozen=True)
class Sizes:
    """Columns of the dense problems, megabytes and rows of X, and numbers that are drawn.

    `step_megabytes` is for stochastic steps, of which an epoch takes one a row.
    """

    columns: tuple[int, ...]
    megabytes: float
    read_megabytes: tuple[float, ...]
    draws: int
    sparse_rows: int
    line_search_rows: int
    step_megabytes: float
    large_rows: int


FULL = Sizes(
    columns=(20, 120, 1000),
    megabytes=320.0,
    read_megabytes=(1.0, 16.0, 160.0, 640.0),
    draws=200_000,
    sparse_rows=1_000_000,
    line_search_rows=1_000_000,
    step_megabytes=32.0,
    large_rows=5_000_000,
)
QUICK = Sizes(
    columns=(20, 120, 1000),
    megabytes=16.0,
    read_megabytes=(1.0, 16.0),
    draws=20_000,
    sparse_rows=50_000,
    line_search_rows=50_000,
    step_megabytes=4.0,
    large_rows=200_000,
)


def run(settings: Run, sizes: Sizes) -> list[Record]:
    cache = machine.largest_cache()
    if 1e6 * sizes.megabytes < cache:
        settings.note(
            f"X ({sizes.megabytes:g} MB) is smaller than the largest cache that the processor "
            f"reports ({cache / 1e6:.0f} MB). Whether it was read from there shows in the last "
            "table, by the speed of reading arrays of other sizes."
        )
    records: list[Record] = []
    for megabytes in sizes.read_megabytes:
        records += kernel_cases.read_bandwidth(settings, megabytes)
    for columns in sizes.columns:
        data = synthetic(_rows(sizes.megabytes, columns), columns)
        records += kernel_cases.operations(settings, data)
        records += kernel_cases.float32_gradient(settings, data)
        records += kernel_cases.threads(settings, data)
    records += kernel_cases.sparse_gradient(settings, sizes.sparse_rows)
    records += kernel_cases.line_search(settings, sizes.line_search_rows)
    for columns in sizes.columns:
        data = synthetic(_rows(sizes.step_megabytes, columns), columns)
        records += kernel_cases.stochastic_steps(settings, data)
    records += kernel_cases.samplers(settings, sizes.draws)
    if settings.large:
        records += kernel_cases.large(settings, sizes.large_rows)
    else:
        settings.note(f"{sizes.large_rows:,} float32 rows left out: ask for them with --large.")
    return records


def _rows(megabytes: float, columns: int) -> int:
    return max(1, round(1e6 * megabytes / (8 * columns)))


# ---- for readers --------------------------------------------------------------------------------

_SHARE = (
    "Share of the read limit: the time of one read of X over the time of the operation, so 1.0 is "
    "as fast as X can be read."
)


def tables(document: Document) -> list[Table]:
    groups: dict[str, list[Record]] = {}
    for record in document.records:
        groups.setdefault(record.group, []).append(record)
    found = [kernel_targets.table(document)]
    for name in OPERATIONS:
        text = _SHARE
        if name == HESSIAN:
            text += " A Hessian is bound by arithmetic, not by reading."
        references = (WHOLE, BLOCKS, TORCH) if name == GRADIENT else (BLOCKS,)
        found.append(_comparison(name, text, groups.get(name, []), READ, *references))
    found += [
        _comparison(GRADIENT32, _SHARE, groups.get(GRADIENT32, []), READ, FLOAT64),
        _comparison(
            SPARSE,
            "14 categorical columns with 120 categories in all.",
            groups.get(SPARSE, []),
            SCIPY,
        ),
        _comparison(
            LINE_SEARCH,
            "Clipped losses of all rows at 20 step sizes along one direction; the margins of both "
            "ends are part of the time.",
            groups.get(LINE_SEARCH, []),
            RECOMPUTED,
            KEPT,
        ),
        _steps(groups.get(STEPS, [])),
        _comparison(
            "One thread against two",
            f"{GRADIENT.capitalize()}; results are equal to the last bit. What reading alone gains "
            "is all that memory and other processes leave to gain.",
            groups.get(THREADS, []),
            "1 thread",
            READ_ON_ONE,
        ),
        _large(groups.get(LARGE, [])),
        _noise(groups.get(SAMPLERS, [])),
        _reading(groups.get(READING, [])),
    ]
    return [table for table in found if table.rows]


def _comparison(title: str, text: str, records: list[Record], *references: str) -> Table:
    """Times, and speeds relative to the references; to reading X as a share."""
    names = [
        "share of read limit" if other == READ else f"speed relative to {other}"
        for other in references
    ]
    kinds = ("kind",) if any("kind" in r.case for r in records) else ()
    return Table(
        title[0].upper() + title[1:],
        text,
        ("rows", "columns", *kinds, "competitor", "time", *names),
        [
            (
                plain(r.case["n"]),
                plain(r.case["d"]),
                *(str(r.case[kind]) for kind in kinds),
                r.competitor,
                duration(r.values["seconds"]),
                *(_share(r) if other == READ else speed(r, other) for other in references),
            )
            for r in records
        ],
    )


def _share(record: Record) -> str:
    return f"{record.speed.get(READ, 1.0):.2g}"


def _steps(records: list[Record]) -> Table:
    return Table(
        "Stochastic steps",
        "Steps on one random row each, two epochs of n steps, random numbers included. SVRG's and "
        "Katyusha's full gradient, one an epoch, is not: SAGA keeps a table instead.",
        ("rows", "columns", "competitor", "time", "ns a step", f"speed relative to {SAGA}"),
        [
            (
                plain(r.case["n"]),
                plain(r.case["d"]),
                r.competitor,
                duration(r.values["seconds"]),
                f"{r.values['nanoseconds_per_step']:,.4g}",
                speed(r, SAGA),
            )
            for r in records
        ],
    )


def _large(records: list[Record]) -> Table:
    return Table(
        "More rows than a copy would fit",
        f"{GRADIENT32.capitalize()}, in a process of its own. Memory beside the data is the growth "
        "of the process's peak during the first gradient.",
        ("rows", "columns", "competitor", "time", "share of read limit", "data", "beside the data"),
        [
            (
                plain(r.case["n"]),
                plain(r.case["d"]),
                r.competitor,
                duration(r.values["seconds"]),
                _share(r),
                *(
                    f"{r.values[key] / 1e6:,.1f} MB" if key in r.values else "-"
                    for key in ("data_bytes", "growth_bytes")
                ),
            )
            for r in records
        ],
    )


def _noise(records: list[Record]) -> Table:
    return Table(
        "Noise",
        "dpfast draws from ChaCha20, discrete laws in exact integer arithmetic. NumPy's times are "
        "for a fast generator and floating-point (rounded) noise, which is not safe to release: "
        "they show what safety costs.",
        ("draw", "generator", "ns a draw", "speed relative to NumPy"),
        [
            (
                str(r.case["draw"]),
                r.competitor,
                f"{r.values['nanoseconds_per_draw']:,.4g}",
                speed(r, NUMPY),
            )
            for r in records
        ],
    )


def _reading(records: list[Record]) -> Table:
    return Table(
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
            for r in records
        ],
    )


_GRAYS = {WHOLE: "0.8", BLOCKS: "0.65", TORCH: "0.5"}


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
                color=_GRAYS.get(competitor) or ("C0", "C9", "C2")[k % 3],
            )
            axis.bar_label(bars, fmt="%.2f", fontsize=6, padding=1)
        axis.set_xticks(range(len(columns)), [f"d = {d}" for d in columns])
        axis.axhline(1.0, color="0.3", linewidth=0.8, linestyle="--")
        axis.set_title(name, fontsize=10)
    axes[0].set_ylabel("share of the read limit\n(higher is faster)")
    axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    axes[0].set_ylim(0.0, max(1.7, 1.25 * axes[0].get_ylim()[1]))
    figure.suptitle("How close the kernels come to reading X once, one thread")
