"""Kernels against the speed of reading X, against the same sums elsewhere, and their targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bench import machine, rivals
from bench.arrange import bars, grouped, pick
from bench.competitors import dpfast_native
from bench.harness import Document, Record, Run, interleave, timing_records
from bench.problems import Dataset, synthetic
from bench.report import NAMED, SHAPE, TIME, Cell, Table, case, relative, rows_of, value
from dpfast.cli._numpy_kernels import in_numpy, reads_losses

Calls = dict[str, Callable[[], object]]

NAME = "kernels"
TITLE = "Kernels"
DPFAST = dpfast_native.NAME
READ = "reading X"
READ_ON_ONE, READ_ON_TWO = "reading X, 1 thread", "reading X, 2 threads"
WHOLE, BLOCKS = "NumPy, whole arrays", "NumPy, row blocks"
FLOAT64 = "dpfast float64, as many rows"
SCIPY = "SciPy"
RECOMPUTED = "NumPy, from X"
SAGA = "scikit-learn SAGA"
NUMPY = "NumPy"
COMPETITORS = {
    READ: "yardstick: a vectorized sum of the numbers of X, which reads each of them once",
    DPFAST: "the kernels; the name of the instruction set follows",
    READ_ON_ONE: "yardstick of threads: the same sum, as a whole or by halves",
    FLOAT64: "the kernels on float64 rows: two passes over half as many, the same bytes a pass",
    WHOLE: "the same sums: BLAS products with all of X, vectorized losses, norms computed once",
    BLOCKS: "the same sums in cache-sized row blocks, written in place: harder to beat",
    SCIPY: "the same sums: CSR products with all of X, vectorized losses, norms computed once",
    RECOMPUTED: "a product with X and the losses for every step size",
    SAGA: "as many single-row steps of its compiled solver, without validation",
    NUMPY: "noise from a fast generator in floating point: not safe to release",
}
GRADIENT, OBJECTIVE, MARGINS, HESSIAN = (
    "clipped gradient and objective", "clipped objective", "margins", "Hessian",
)  # fmt: skip
OPERATIONS = (GRADIENT, OBJECTIVE, MARGINS, HESSIAN)
GRADIENT32, SPARSE = f"{GRADIENT}, float32", f"{GRADIENT}, CSR"
LINE_SEARCH, STEPS, THREADS = "line search", "stochastic steps", "one thread against two"
SAMPLERS, READING = "noise", "reading"

# Clip about half of the gradients, and the larger losses: the work does not depend on it, but
# branches, if there were any, would.
_CLIPS = (0.5, 1.0)
_EPOCHS = 2


@dataclass(frozen=True)
class Sizes:
    """Columns of the dense problems, megabytes and rows of X, and numbers that are drawn.

    `step_megabytes` is for stochastic steps, of which an epoch takes one a row.
    """

    columns: tuple[int, ...] = (20, 120, 1000)
    megabytes: float = 320.0
    read_megabytes: tuple[float, ...] = (1.0, 16.0, 160.0, 640.0)
    draws: int = 200_000
    sparse_rows: int = 1_000_000
    line_search_rows: int = 1_000_000
    step_megabytes: float = 32.0


FULL = Sizes()
QUICK = Sizes(
    megabytes=16.0, read_megabytes=(1.0, 16.0), draws=20_000, sparse_rows=50_000,
    line_search_rows=50_000, step_megabytes=4.0,
)  # fmt: skip


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
        records += _read_bandwidth(settings, megabytes)
    for columns in sizes.columns:
        data = synthetic(_rows(sizes.megabytes, columns), columns)
        records += _operations(settings, data)
        records += _float32_gradient(settings, data)
        records += _threads(settings, data)
    records += _sparse_gradient(settings, sizes.sparse_rows)
    records += _line_search(settings, sizes.line_search_rows)
    for columns in sizes.columns:
        data = synthetic(_rows(sizes.step_megabytes, columns), columns)
        records += stochastic_steps(settings, data)
    return records + _samplers(settings, sizes.draws)


def _rows(megabytes: float, columns: int) -> int:
    return max(1, round(1e6 * megabytes / (8 * columns)))


# ---- dense rows ---------------------------------------------------------------------------------


def _read_bandwidth(settings: Run, megabytes: float) -> list[Record]:
    from dpfast import _kernels

    x = np.ones(round(1e6 * megabytes / 8))
    contestants = _on_every_isa(partial(_kernels.read_sum, x)) | {"numpy.sum": x.sum}
    where = {"megabytes": megabytes}
    return [
        _with(r, gigabytes_per_second=megabytes / 1e3 / r.values["seconds"])
        for r in _compare(settings, READING, where, contestants, "numpy.sum")
    ]


def _operations(settings: Run, data: Dataset) -> list[Record]:
    from dpfast import Problem, _kernels

    w = _weights(data.X.shape[1])

    def calls(problem: Problem) -> Calls:
        return {
            GRADIENT: partial(problem.clipped_gradient, w, *_CLIPS),
            OBJECTIVE: partial(problem.objective, w, _CLIPS[1]),
            MARGINS: partial(problem.margins, w),
            HESSIAN: partial(problem.hessian, w, 1e-3),
        }

    ours = calls(Problem(data.X, data.y, data_norm=data.data_norm))
    with in_numpy():
        twins = calls(Problem(data.X, data.y, data_norm=data.data_norm))
    whole = partial(rivals.clipped_gradient, data.X, data.y, rivals.inverse_norms(data.X), w)
    records = []
    for operation, call in ours.items():
        others: Calls = {BLOCKS: partial(_in_numpy, twins[operation])}
        if operation == GRADIENT:
            others = {WHOLE: partial(whole, *_CLIPS), **others}
        contestants: Calls = {READ: partial(_kernels.read_sum, data.X.reshape(-1))}
        contestants |= _on_every_isa(call) | others
        records += _compare(settings, operation, _shape(data.X), contestants, READ, *others)
    return records


def _in_numpy(call: Callable[[], Any]) -> Any:
    with in_numpy():
        return reads_losses(call)()


def _float32_gradient(settings: Run, data: Dataset) -> list[Record]:
    """Twice the rows of `data` as float32: the same number of bytes."""
    from dpfast import Problem, _kernels

    rows, w = len(data.y), _weights(data.X.shape[1])
    X = np.empty((2 * rows, data.X.shape[1]), np.float32)
    X[:rows] = X[rows:] = data.X
    # Rounding may lengthen a row; none of them is to be scaled.
    bound = data.data_norm * (1.0 + 1e-6)
    narrow = Problem(X, np.concatenate([data.y, data.y]), data_norm=bound)
    wide = Problem(data.X, data.y, data_norm=bound)

    def gradient(problem: Problem, times: int = 1) -> None:
        for _ in range(times):
            problem.clipped_gradient(w, *_CLIPS)

    # The bytes as float64 numbers, for the yardstick, which only reads.
    flat = X.reshape(-1)[: X.size // 2 * 2].view(np.float64)
    contestants: Calls = {READ: partial(_kernels.read_sum, flat)}
    contestants |= _on_every_isa(partial(gradient, narrow))
    contestants[FLOAT64] = partial(gradient, wide, 2)
    return _compare(settings, GRADIENT32, _shape(X), contestants, READ, FLOAT64)


def _threads(settings: Run, data: Dataset) -> list[Record]:
    """The clipped gradient on one thread and on two, and what two gain for reading alone."""
    from dpfast import Problem, _kernels

    if machine.usable_cores() < 2:
        settings.note("threads left out: only one core may be used.")
        return []
    w = _weights(data.X.shape[1])
    contestants: Calls = {}
    for count, name in ((1, "1 thread"), (2, "2 threads")):
        problem = Problem(data.X, data.y, data_norm=data.data_norm, n_jobs=count)
        contestants[name] = partial(problem.clipped_gradient, w, *_CLIPS)
    flat = data.X.reshape(-1)
    halves = [flat[: flat.size // 2], flat[flat.size // 2 :]]
    with ThreadPoolExecutor(2) as pool:
        contestants[READ_ON_ONE] = partial(_kernels.read_sum, flat)
        contestants[READ_ON_TWO] = lambda: list(pool.map(_kernels.read_sum, halves))
        return _compare(settings, THREADS, _shape(data.X), contestants, "1 thread", READ_ON_ONE)


# ---- sparse rows, line search, stochastic steps -------------------------------------------------


def _sparse_gradient(settings: Run, rows: int) -> list[Record]:
    """14 categorical columns with 120 categories in all; with ones, and with other values."""
    from dpfast import Problem

    records = []
    for kind in ("values", "one-hot"):
        X, y = rivals.categorical(rows, ones=kind == "one-hot")
        w = _weights(X.shape[1])
        problem = Problem(X, y, data_norm=math.sqrt(14.0))
        clips = (2.0, _CLIPS[1])
        contestants: Calls = {
            DPFAST: partial(problem.clipped_gradient, w, *clips),
            SCIPY: partial(rivals.clipped_gradient, X, y, rivals.inverse_norms(X), w, *clips),
        }
        records += _compare(settings, SPARSE, {**_shape(X), "kind": kind}, contestants, SCIPY)
    return records


def _line_search(settings: Run, rows: int) -> list[Record]:
    """20 step sizes along one direction."""
    from dpfast import Problem

    data = synthetic(rows, 20)
    direction = np.random.default_rng(2).standard_normal(21)
    steps = np.geomspace(1e-3, 2.0, 20)
    w = _weights(20)

    def search(problem: Problem, points: list[Any]) -> None:
        # From another point at every call: margins that an earlier search left must not help.
        points.reverse()
        problem.line_search_losses(points[0], direction, steps, _CLIPS[1])

    ours = Problem(data.X, data.y, data_norm=data.data_norm)
    with in_numpy():
        twin = Problem(data.X, data.y, data_norm=data.data_norm)
    contestants: Calls = {
        DPFAST: partial(search, ours, [w, -w]),
        RECOMPUTED: partial(rivals.line_search, data.X, data.y, w, direction, steps, _CLIPS[1]),
        BLOCKS: partial(_in_numpy, partial(search, twin, [w, -w])),
    }
    return _compare(settings, LINE_SEARCH, _shape(data.X), contestants, RECOMPUTED, BLOCKS)


def stochastic_steps(settings: Run, data: Dataset) -> list[Record]:
    """Epochs of n single-row steps in random order; the snapshot's full gradient is not timed."""
    from dpfast import Loss, _kernels

    n, d = data.X.shape
    w, alpha, spec = _weights(d), 1e-4, Loss("logistic").spec
    rows = _kernels.DenseRows(data.X, data.y, 1.0)
    margin = np.empty(n)
    rows.margins(0, n, w, margin)
    derivative = np.ascontiguousarray(spec.points(margin, data.y)[1])
    gradient = np.append(data.X.T @ derivative, derivative.sum()) / n
    smoothness = 0.25 * (data.data_norm**2 + 1.0)
    rng = np.random.default_rng(3)
    snapshot = {"snapshot_gradient": gradient, "snapshot_derivative": derivative, "alpha": alpha}

    def svrg() -> None:
        moving = w.copy()
        for _ in range(_EPOCHS):
            order = rng.integers(0, n, n)
            _kernels.sgd_epoch(
                rows, spec, moving, order, 0.1 / smoothness, average=np.zeros(d + 1), **snapshot
            )

    def katyusha() -> None:
        z, y, average, scale = w.copy(), w.copy(), np.zeros(d + 1), np.zeros(1)
        tau = min(math.sqrt(n * alpha / (3.0 * smoothness)), 0.5)
        for _ in range(_EPOCHS):
            scale[0] = 0.0
            _kernels.katyusha_epoch(
                rows, spec, z, y, average, scale, rng.integers(0, n, n), smoothness=smoothness,
                tau1=tau, snapshot=w, snapshot_margin=margin, **snapshot,
            )  # fmt: skip

    contestants: Calls = {"dpfast SVRG": svrg, "dpfast Katyusha": katyusha}
    if (reason := rivals.saga_missing()) is None:
        contestants[SAGA] = partial(rivals.saga, data.X, data.y, alpha, _EPOCHS)
    else:
        settings.note(f"{SAGA} left out: {reason}.")
    return [
        _with(r, nanoseconds_per_step=1e9 * r.values["seconds"] / (_EPOCHS * n))
        for r in _compare(settings, STEPS, _shape(data.X), contestants, SAGA)
    ]


# ---- noise --------------------------------------------------------------------------------------


def _samplers(settings: Run, n: int) -> list[Record]:
    from dpfast.random import SecureGenerator

    ours, theirs = SecureGenerator(0), np.random.default_rng(0)
    scale, vectors = 2**31, max(1, n // 100)
    cases: dict[str, tuple[int, Callable[[], object], Callable[[], object]]] = {
        "64 random bits": (
            n,
            partial(ours.uint64, n),
            partial(theirs.integers, 0, 2**64, n, dtype=np.uint64),
        ),
        "discrete Gaussian, scale 2^31": (
            n,
            partial(ours.discrete_gaussian, scale, n),
            lambda: np.rint(theirs.normal(0.0, scale, n)),
        ),
        "discrete Laplace, scale 2^31": (
            n,
            partial(ours.discrete_laplace, scale, n),
            lambda: np.rint(theirs.laplace(0.0, scale, n)),
        ),
        "normal": (n, partial(ours.gaussian, n), partial(theirs.standard_normal, n)),
        **{
            f"l2-Laplace vector, d = {d}": (
                vectors,
                partial(_one_by_one, ours, d, vectors),
                partial(rivals.l2_laplace, theirs, d, 1.0, vectors),
            )
            for d in (20, 1000)
        },
    }
    return [
        _with(r, nanoseconds_per_draw=1e9 * r.values["seconds"] / draws)
        for name, (draws, secure, fast) in cases.items()
        for r in _compare(
            settings, SAMPLERS, {"draw": name, "draws": draws}, {DPFAST: secure, NUMPY: fast}, NUMPY
        )
    ]


# ---- helpers ------------------------------------------------------------------------------------


def _one_by_one(rng: Any, d: int, vectors: int) -> None:
    for _ in range(vectors):
        rng.l2_laplace(d, 1.0)


def _weights(d: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(d + 1) / math.sqrt(d)


def _shape(X: Any) -> dict[str, Any]:
    return dict(zip("nd", X.shape, strict=True))


def _compare(
    settings: Run, group: str, where: Mapping[str, Any], contestants: Calls, *references: str
) -> list[Record]:
    settings.say(f"  {group}, {', '.join(f'{k} = {v}' for k, v in where.items())}")
    timings = interleave(contestants, repeat=settings.repeat)
    return timing_records(group, where, timings, references)


def _with(record: Record, **values: float) -> Record:
    return replace(record, values={**record.values, **values})


def _on_every_isa(call: Callable[[], object]) -> Calls:
    from dpfast import _kernels

    def run_with(isa: str) -> object:
        with _forced(isa):
            return call()

    return {f"{DPFAST} {isa}": partial(run_with, isa) for isa in _kernels.supported_isas()[::-1]}


@contextmanager
def _forced(isa: str) -> Iterator[None]:
    from dpfast import _kernels

    before = _kernels.isa_name()
    _kernels.force_isa(isa)
    try:
        yield
    finally:
        _kernels.force_isa(before)


# ---- targets ------------------------------------------------------------------------------------

# Stands for dpfast on the instruction set that it chooses by itself.
_BEST = "best"


@dataclass(frozen=True)
class Target:
    """A bound of one number of the records whose case holds `case`.

    Attributes
    ----------
    group, competitor : str
    case : mapping
    bound : float
    against : str
        The competitor to whom the speed is relative; empty if it is the nanoseconds of a draw
        that must not be more than the bound.
    """

    group: str
    competitor: str
    case: Mapping[str, int | str]
    bound: float
    against: str = ""

    def measured(self, records: list[Record], best: str) -> float | None:
        """What the first record shows that fits; None if there is none."""
        name = best if self.competitor == _BEST else self.competitor
        for r in records:
            if (r.group, r.competitor) == (self.group, name) and (
                self.case.items() <= r.case.items()
            ):
                if self.against:
                    return r.speed.get(self.against)
                return r.values["nanoseconds_per_draw"]
        return None

    def met(self, measured: float) -> bool:
        return measured >= self.bound if self.against else measured <= self.bound


TARGETS: tuple[Target, ...] = (
    *(
        Target(group, competitor, {"d": d}, bound, against)
        for group, competitor, against, bounds in (
            (GRADIENT, _BEST, READ, (0.55, 0.65, 0.75)),
            (GRADIENT, _BEST, WHOLE, (4.0, 2.5, 1.5)),
            (GRADIENT32, _BEST, READ, (0.45, 0.65, 0.70)),
            (GRADIENT32, _BEST, FLOAT64, (1.5, 1.5, 1.5)),
            (STEPS, "dpfast SVRG", SAGA, (7.0, 7.0, 7.0)),
            (STEPS, "dpfast Katyusha", SAGA, (7.0, 7.0, 7.0)),
            (THREADS, "2 threads", "1 thread", (1.7, 1.7, 1.7)),
        )
        for d, bound in zip(FULL.columns, bounds, strict=True)
    ),
    Target(SPARSE, DPFAST, {"kind": "values"}, 2.8, SCIPY),
    Target(SPARSE, DPFAST, {"kind": "one-hot"}, 4.0, SCIPY),
    Target(LINE_SEARCH, DPFAST, {"d": 20}, 15.0, RECOMPUTED),
    Target(SAMPLERS, DPFAST, {"draw": "discrete Gaussian, scale 2^31"}, 200.0),
    Target(SAMPLERS, DPFAST, {"draw": "l2-Laplace vector, d = 20"}, 2.0, NUMPY),
)


def targets(document: Document) -> Table:
    """Every target with what was measured; those that a run cannot judge are listed too."""
    best = f"{DPFAST} {document.environment['dpfast']['instruction_set']}"
    rows = []
    for target in TARGETS:
        measured = target.measured(document.records, best)
        rows.append(
            (
                target.group,
                ", ".join(f"{key} = {v}" for key, v in target.case.items()),
                best if target.competitor == _BEST else target.competitor,
                f"x {target.against}" if target.against else "ns a draw",
                f"{'>=' if target.against else '<='} {target.bound:g}",
                "-" if measured is None else f"{measured:.3g}",
                "not measured" if measured is None else "yes" if target.met(measured) else "**no**",
            )
        )
    met, missed = (sum(row[-1] == verdict for row in rows) for verdict in ("yes", "**no**"))
    text = (
        f"{met} of {met + missed} targets are met. A speed is the other's time over ours, in the "
        "same rounds. Rounding errors are charged to privacy, so float32 rows are widened in "
        "registers and summed in float64: only reading them is cheaper. Sparse rows are added to "
        "the gradient entry by entry, in SciPy as here."
    )
    header = ("kernel", "case", "competitor", "measure", "target", "measured", "met")
    return Table("Targets", text, header, rows)


# ---- for readers --------------------------------------------------------------------------------

_SHARE = (
    "Share of the read limit: the time of one read of X over the time of the operation, so 1.0 is "
    "as fast as X can be read."
)
_TEXTS = {
    **dict.fromkeys((*OPERATIONS, GRADIENT32), _SHARE),
    HESSIAN: f"{_SHARE} A Hessian is bound by arithmetic, not by reading.",
    SPARSE: "14 categorical columns with 120 categories in all.",
    LINE_SEARCH: "Clipped losses of all rows at 20 step sizes along one direction; the margins of "
    "both ends are part of the time.",
    STEPS: "Steps on one random row each, two epochs of n steps, random numbers included. SVRG's "
    "and Katyusha's full gradient, one an epoch, is not: SAGA keeps a table instead.",
    THREADS: f"{GRADIENT.capitalize()}. What reading alone gains is all that memory and other "
    "processes leave to gain.",
    SAMPLERS: "dpfast draws from ChaCha20, discrete laws in exact integer arithmetic. NumPy's "
    "times are for a fast generator and floating-point (rounded) noise, which is not safe to "
    "release: they show what safety costs.",
    READING: "The yardstick itself, a sum over one array, for arrays of several sizes.",
}


def _columns(group: str) -> dict[str, Cell]:
    """The columns of a group's table."""

    def share(record: Record) -> str:
        return f"{record.speed.get(READ, 1.0):.2g}"

    def against(*others: str) -> dict[str, Cell]:
        return {f"speed relative to {other}": relative(other) for other in others}

    timed = SHAPE | NAMED | TIME
    limit = timed | {"share of read limit": share}
    if group in OPERATIONS:
        return limit | against(*((WHOLE, BLOCKS) if group == GRADIENT else (BLOCKS,)))
    step = {"ns a step": value("nanoseconds_per_step", "{:,.4g}".format)}
    draw_ = {"ns a draw": value("nanoseconds_per_draw", "{:,.4g}".format)}
    rate = {"GB/s": value("gigabytes_per_second", "{:.1f}".format)}
    return {
        GRADIENT32: limit | against(FLOAT64),
        SPARSE: SHAPE | {"kind": case("kind")} | NAMED | TIME | against(SCIPY),
        LINE_SEARCH: timed | against(RECOMPUTED, BLOCKS),
        STEPS: timed | step | against(SAGA),
        THREADS: timed | against("1 thread", READ_ON_ONE),
        SAMPLERS: {"draw": case("draw")} | NAMED | draw_ | against(NUMPY),
        READING: {"array, MB": case("megabytes")} | NAMED | TIME | rate | against("numpy.sum"),
    }[group]


def tables(document: Document) -> list[Table]:
    found = [targets(document)]
    for group, text in _TEXTS.items():
        records = [r for r in document.records if r.group == group]
        if records:
            title = group[0].upper() + group[1:]
            found.append(rows_of(title, text, records, _columns(group)))
    return found


_GRAYS = {WHOLE: "0.8", BLOCKS: "0.65"}


def draw(document: Document, figure: Any) -> None:
    """One panel an operation: bars of the share of the read limit."""
    shown = [name for name in OPERATIONS[:3] if any(r.group == name for r in document.records)]
    figure.set_size_inches(11, 3.6)
    axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, shown, strict=True):
        records = [r for r in pick(document.records, group=name) if r.competitor != READ]
        shares = {
            competitor: [r.speed[READ] for r in sorted(own, key=lambda r: r.case["d"])]
            for competitor, own in grouped(records, "competitor").items()
        }
        colors = [_GRAYS.get(n) or ("C0", "C9", "C2")[k % 3] for k, n in enumerate(shares)]
        columns = sorted(grouped(records, "d"))
        for one in bars(axis, [f"d = {d}" for d in columns], shares, colors):
            axis.bar_label(one, fmt="%.2f", fontsize=6, padding=1)
        axis.set_title(name, fontsize=10)
    axes[0].set_ylabel("share of the read limit\n(higher is faster)")
    axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    axes[0].set_ylim(0.0, max(1.7, 1.25 * axes[0].get_ylim()[1]))
    figure.suptitle("How close the kernels come to reading X once, one thread")
