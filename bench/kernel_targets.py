"""What the kernels are meant to reach, and whether the records show that they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.harness import Document, Record
from bench.kernel_cases import (
    DPFAST,
    FLOAT64,
    GRADIENT,
    GRADIENT32,
    LARGE,
    LINE_SEARCH,
    NUMPY,
    READ,
    READ_ON_ONE,
    READ_ON_TWO,
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
from bench.report import Table

# Stands for dpfast on the instruction set that it chooses by itself.
_BEST = "best"


@dataclass(frozen=True)
class Target:
    """A bound of one number of one record.

    Attributes
    ----------
    group, competitor : str
    case : mapping
        What the record's case must hold.
    bound : float
    against : str
        The competitor to whom the speed is relative; empty if `value` is bounded instead.
    value : str
        The value that must not be larger than `bound`.
    relative_to : str
        The value by which `value` is divided.
    label : str
        What readers see of `value`.
    """

    group: str
    competitor: str
    case: Mapping[str, int | str]
    bound: float
    against: str = ""
    value: str = ""
    relative_to: str = ""
    label: str = ""

    def measured(self, record: Record) -> float | None:
        if self.against:
            return record.speed.get(self.against)
        return record.values[self.value] / record.values.get(self.relative_to, 1.0)

    def met(self, measured: float) -> bool:
        return measured >= self.bound if self.against else measured <= self.bound


def _by_columns(
    group: str, competitor: str, against: str, bounds: Mapping[int, float]
) -> list[Target]:
    return [Target(group, competitor, {"d": d}, b, against) for d, b in bounds.items()]


TARGETS: tuple[Target, ...] = (
    *_by_columns(GRADIENT, _BEST, READ, {20: 0.55, 120: 0.65, 1000: 0.75}),
    *_by_columns(GRADIENT, _BEST, WHOLE, {20: 4.0, 120: 2.5, 1000: 1.5}),
    *_by_columns(GRADIENT, _BEST, TORCH, {20: 9.0, 120: 9.0, 1000: 9.0}),
    *_by_columns(GRADIENT32, _BEST, READ, {20: 0.45, 120: 0.65, 1000: 0.70}),
    *_by_columns(GRADIENT32, _BEST, FLOAT64, {20: 1.5, 120: 1.5, 1000: 1.5}),
    Target(SPARSE, DPFAST, {"kind": "values"}, 2.8, SCIPY),
    Target(SPARSE, DPFAST, {"kind": "one-hot"}, 4.0, SCIPY),
    Target(LINE_SEARCH, DPFAST, {"d": 20}, 15.0, RECOMPUTED),
    *_by_columns(STEPS, "dpfast SVRG", SAGA, {20: 7.0, 120: 7.0, 1000: 7.0}),
    *_by_columns(STEPS, "dpfast Katyusha", SAGA, {20: 7.0, 120: 7.0, 1000: 7.0}),
    Target(
        SAMPLERS,
        DPFAST,
        {"draw": "discrete Gaussian, scale 2^31"},
        200.0,
        value="nanoseconds_per_draw",
        label="ns a draw",
    ),
    Target(SAMPLERS, DPFAST, {"draw": "l2-Laplace vector, d = 20"}, 2.0, NUMPY),
    *_by_columns(THREADS, "2 threads", "1 thread", {20: 1.7, 120: 1.7, 1000: 1.7}),
    Target(LARGE, DPFAST, {}, 0.65, READ),
    Target(
        LARGE,
        DPFAST,
        {},
        0.01,
        value="growth_bytes",
        relative_to="data_bytes",
        label="of the data's bytes taken beside them",
    ),
)

_WIDENED = (
    "Rounding errors are charged to privacy, so float32 rows are widened in registers and summed "
    "in float64: the arithmetic of an entry costs about what it costs in float64, and only its "
    "reading is cheaper."
)
_WIDER_REGISTERS = (
    "NumPy's functions and its BLAS use AVX-512 here, registers twice as wide as those of dpfast's "
    "kernels, which is part of the difference to NumPy; to take it out, set OPENBLAS_CORETYPE="
    "Haswell and NPY_DISABLE_CPU_FEATURES."
)
_SPARSE_ADDS = (
    "Sparse rows are added to the gradient entry by entry, in SciPy as here; dpfast fuses the loss "
    "into the same pass."
)
_EXPONENTIALS = (
    "The line search reads X once for both of its margins and then evaluates one exponential a row "
    "and step size; steps that are multiples of each other could share them, at the price of "
    "rounding errors that grow along the line."
)
_RANDOM_ROWS = (
    "Stochastic steps fetch rows at random; how much of a step is waiting for memory was not "
    "separated from arithmetic. Katyusha moves three vectors a step where SVRG moves one."
)
_AVX512_CORES = ("SkylakeX", "Cooperlake", "SapphireRapids", "Zen4", "Zen5")


def table(document: Document) -> Table:
    """Every target with what was measured; those that a run cannot judge are listed too."""
    best = f"{DPFAST} {document.environment['dpfast']['instruction_set']}"
    rows, missed = [], []
    for target in TARGETS:
        name = best if target.competitor == _BEST else target.competitor
        found = [
            record
            for record in document.records
            if (record.group, record.competitor) == (target.group, name)
            and target.case.items() <= record.case.items()
        ]
        measured = target.measured(found[0]) if found else None
        met = measured is not None and target.met(measured)
        if measured is not None and not met:
            missed.append(target)
        rows.append(
            (
                target.group,
                _case(found[0].case if found else target.case),
                name,
                f"x {target.against}" if target.against else target.label,
                f"{'>=' if target.against else '<='} {target.bound:g}",
                "-" if measured is None else f"{measured:.3g}",
                "not measured" if measured is None else "yes" if met else "**no**",
            )
        )
    judged = sum(row[-1] != "not measured" for row in rows)
    text = [
        f"{judged - len(missed)} of {judged} targets are met"
        + (f"; {len(rows) - judged} were not measured." if judged < len(rows) else "."),
        "A speed is the other's time over ours, in the same rounds.",
        *_explanations(missed, document),
    ]
    header = ("kernel", "case", "competitor", "measure", "target", "measured", "met")
    return Table("Targets", " ".join(text), header, rows)


def _explanations(missed: list[Target], document: Document) -> list[str]:
    """What is known about those that are missed; nothing that concerns none of them."""
    found = []
    load, cores = document.environment.get("load_average"), document.environment.get("cores")
    if missed and load and cores and load > cores / 2:
        found.append(
            f"The load average was {load:g} on {cores} cores: other processes took part of the "
            "processor, of its caches and of the memory's bandwidth, so all of these ratios are "
            "uncertain."
        )
    if any(target.group in (GRADIENT32, LARGE) and target.against for target in missed):
        found.append(_WIDENED)
    blas = " ".join(document.environment["blas"])
    wider = document.environment["dpfast"]["instruction_set"] != "avx512" and any(
        core in blas for core in _AVX512_CORES
    )
    if wider and any(target.against == WHOLE for target in missed):
        found.append(_WIDER_REGISTERS)
    for record in document.records:
        if (record.group, record.competitor) != (GRADIENT, READ):
            continue
        caps = [
            f"{record.speed[target.against]:.1f} x {target.against}"
            for target in missed
            if target.group == GRADIENT
            and target.case["d"] == record.case["d"]
            and target.against in (WHOLE, TORCH)
            and record.speed.get(target.against, target.bound) < target.bound
        ]
        if caps:
            found.append(
                f"At d = {record.case['d']} reading X once, without any arithmetic, was "
                f"{' and '.join(caps)} in the same rounds, less than the target."
            )
    for group, text in (
        (SPARSE, _SPARSE_ADDS),
        (LINE_SEARCH, _EXPONENTIALS),
        (STEPS, _RANDOM_ROWS),
    ):
        if any(target.group == group and target.against for target in missed):
            found.append(text)
    words = {
        record.competitor: record.values["nanoseconds_per_draw"]
        for record in document.records
        if record.group == SAMPLERS and record.case["draw"] == "64 random bits"
    }
    if words and any(target.group == SAMPLERS and target.against == NUMPY for target in missed):
        found.append(
            "Both draw all l2-Laplace vectors in one call. Each of their entries takes 64 bits, "
            f"which took {words[DPFAST]:.1f} ns from the secure stream and {words[NUMPY]:.1f} ns "
            "from NumPy's fast generator in the same run."
        )
    columns = {target.case["d"] for target in missed if target.group == THREADS}
    gains = [
        record.speed[READ_ON_ONE]
        for record in document.records
        if record.competitor == READ_ON_TWO and record.case["d"] in columns
    ]
    if gains:
        found.append(
            "Where two threads missed it, a second thread made reading alone "
            f"{', '.join(f'{gain:.2f}' for gain in gains)} times as fast in the same rounds: what "
            "memory and other processes left to gain."
        )
    return found


def _case(case: Mapping[str, int | float | str]) -> str:
    parts = []
    if "n" in case:
        parts.append(f"{case['n']:,} x {case['d']}")
    elif "d" in case:
        parts.append(f"d = {case['d']}")
    parts += [str(case[key]) for key in ("kind", "draw") if key in case]
    return ", ".join(parts)
