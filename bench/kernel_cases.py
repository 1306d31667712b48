"""The cases of the suite `kernels`: each function measures one of them and returns its records."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import scipy.sparse

from bench import machine, rivals
from bench.competitors import dpfast_native, numpy_baseline
from bench.competitors.numpy_baseline import NumpyProblem
from bench.harness import Record, Run, interleave, timing_records
from bench.problems import Dataset, synthetic

Calls = dict[str, Callable[[], object]]

DPFAST = dpfast_native.NAME
READ = "reading X"
READ_ON_ONE, READ_ON_TWO = "reading X, 1 thread", "reading X, 2 threads"
NUMPY = numpy_baseline.NAME
WHOLE = "NumPy, whole arrays"
BLOCKS = "NumPy, row blocks"
TORCH = "PyTorch, per-sample gradients"
FLOAT64 = "dpfast float64, as many rows"
SCIPY = "SciPy"
RECOMPUTED = "NumPy, from X"
KEPT = "NumPy, from margins"
SAGA = "scikit-learn SAGA"

GRADIENT = "clipped gradient and objective"
OBJECTIVE = "clipped objective"
MARGINS = "margins"
HESSIAN = "Hessian"
OPERATIONS = (GRADIENT, OBJECTIVE, MARGINS, HESSIAN)
GRADIENT32 = "clipped gradient and objective, float32"
SPARSE = "clipped gradient and objective, CSR"
LINE_SEARCH = "line search"
STEPS = "stochastic steps"
THREADS = "threads"
SAMPLERS = "samplers"
LARGE = "large"
READING = "read bandwidth"

# Clip about half of the gradients, and the larger losses: the work does not depend on it, but
# branches, if there were any, would.
_CLIP_NORM, _LOSS_CLIP = 0.5, 1.0
_EPOCHS = 2


def read_bandwidth(settings: Run, megabytes: float) -> list[Record]:
    from dpfast import _kernels

    settings.say(f"  reading {megabytes:g} MB")
    x = np.ones(round(1e6 * megabytes / 8))
    contestants = _on_every_isa(partial(_kernels.read_sum, x))
    contestants["numpy.sum"] = x.sum
    timings = interleave(contestants, repeat=settings.repeat)
    return [
        _with(r, gigabytes_per_second=megabytes / 1e3 / r.values["seconds"])
        for r in timing_records(READING, {"megabytes": megabytes}, timings, ["numpy.sum"])
    ]


# ---- dense rows ---------------------------------------------------------------------------------


def operations(settings: Run, data: Dataset) -> list[Record]:
    from dpfast import Problem, _kernels

    w = _weights(data.X.shape[1])
    problem = Problem(data.X, data.y, data_norm=data.data_norm)
    twin = NumpyProblem(data.X, data.y, data.data_norm)
    arrays = (data.X, data.y, rivals.inverse_norms(data.X))
    gradient_rivals: Calls = {
        WHOLE: partial(rivals.clipped_gradient, *arrays, w, _CLIP_NORM, _LOSS_CLIP),
        BLOCKS: partial(twin.clipped_gradient, w, _CLIP_NORM, _LOSS_CLIP),
    }
    if (reason := rivals.torch_missing()) is None:
        gradient_rivals[TORCH] = rivals.per_sample_gradients(
            data.X, data.y, w, _CLIP_NORM, _LOSS_CLIP
        )
    else:
        settings.note(f"{TORCH} left out: {reason}.")
    calls: dict[str, tuple[Callable[[], object], Calls]] = {
        GRADIENT: (
            partial(problem.clipped_gradient, w, _CLIP_NORM, _LOSS_CLIP),
            gradient_rivals,
        ),
        OBJECTIVE: (
            partial(problem.objective, w, _LOSS_CLIP),
            {BLOCKS: partial(twin.objective, w, _LOSS_CLIP)},
        ),
        MARGINS: (partial(problem.margins, w), {BLOCKS: partial(twin.margins, w)}),
        HESSIAN: (partial(problem.hessian, w, 1e-3), {BLOCKS: partial(twin.hessian, w, 1e-3)}),
    }
    read: Calls = {READ: partial(_kernels.read_sum, data.X.reshape(-1))}
    records = []
    for operation, (ours, theirs) in calls.items():
        contestants = read | _on_every_isa(ours) | theirs
        with rivals.torch_on_one_thread():
            records += _compare(settings, operation, data, contestants, [READ, *theirs])
    return records


def float32_gradient(settings: Run, data: Dataset) -> list[Record]:
    """Twice the rows of `data` as float32: the same number of bytes."""
    from dpfast import Problem, _kernels

    rows, w = len(data.y), _weights(data.X.shape[1])
    X = np.empty((2 * rows, data.X.shape[1]), np.float32)
    X[:rows] = X[rows:] = data.X
    # Rounding may lengthen a row; none of them is to be scaled.
    bound = data.data_norm * (1.0 + 1e-6)
    twice = Dataset(data.name, X, np.concatenate([data.y, data.y]), bound)  # type: ignore[arg-type]
    narrow = Problem(X, twice.y, data_norm=bound)
    wide = Problem(data.X, data.y, data_norm=bound)

    def gradient(problem: Problem, times: int = 1) -> None:
        for _ in range(times):
            problem.clipped_gradient(w, _CLIP_NORM, _LOSS_CLIP)

    contestants: Calls = {READ: partial(_kernels.read_sum, as_float64(X))}
    contestants |= _on_every_isa(partial(gradient, narrow))
    contestants[FLOAT64] = partial(gradient, wide, 2)
    return _compare(settings, GRADIENT32, twice, contestants, [READ, FLOAT64])


def threads(settings: Run, data: Dataset) -> list[Record]:
    """The clipped gradient on one thread and on two, and what two gain for reading alone."""
    from dpfast import Problem, _kernels

    if machine.usable_cores() < 2:
        settings.note("threads left out: only one core may be used.")
        return []
    w = _weights(data.X.shape[1])
    problems = {
        f"{count} thread{'s' * (count > 1)}": Problem(
            data.X, data.y, data_norm=data.data_norm, n_jobs=count
        )
        for count in (1, 2)
    }
    results = [p.clipped_gradient(w, _CLIP_NORM, _LOSS_CLIP) for p in problems.values()]
    if not np.array_equal(results[0][0], results[1][0]):
        raise AssertionError("the gradient depends on the number of threads")
    contestants: Calls = {
        name: partial(p.clipped_gradient, w, _CLIP_NORM, _LOSS_CLIP) for name, p in problems.items()
    }
    flat = data.X.reshape(-1)
    halves = [flat[: flat.size // 2], flat[flat.size // 2 :]]
    with ThreadPoolExecutor(2) as pool:
        contestants[READ_ON_ONE] = partial(_kernels.read_sum, flat)
        contestants[READ_ON_TWO] = lambda: list(pool.map(_kernels.read_sum, halves))
        return _compare(settings, THREADS, data, contestants, ["1 thread", READ_ON_ONE])


def large(settings: Run, rows: int, columns: int = 120) -> list[Record]:
    """One float32 gradient in a process of its own, with the memory that it takes."""
    settings.say(f"  {GRADIENT32}, {rows:,} x {columns}, in a process of its own")
    command = [sys.executable, "-m", "bench.large_gradient", str(rows), str(columns)]
    result = subprocess.run(
        [*command, str(settings.repeat)], cwd=machine.ROOT, capture_output=True, text=True
    )
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        settings.note(f"{rows:,} x {columns} left out: {last}")
        return []
    return [Record(**record) for record in json.loads(result.stdout)]


# ---- sparse rows, line search, stochastic steps -------------------------------------------------


def sparse_gradient(settings: Run, rows: int) -> list[Record]:
    """14 categorical columns with 120 categories in all; with ones, and with other values."""
    from dpfast import Problem

    records = []
    for kind in ("values", "one-hot"):
        X, y = categorical(rows, ones=kind == "one-hot")
        w = _weights(X.shape[1])
        problem = Problem(X, y, data_norm=math.sqrt(14.0))
        clip_norm = 2.0
        contestants: Calls = {
            DPFAST: partial(problem.clipped_gradient, w, clip_norm, _LOSS_CLIP),
            SCIPY: partial(
                rivals.clipped_gradient, X, y, rivals.inverse_norms(X), w, clip_norm, _LOSS_CLIP
            ),
        }
        settings.say(f"  {SPARSE}, {rows:,} x {X.shape[1]}, {kind}")
        case = {"n": rows, "d": X.shape[1], "stored": X.nnz, "kind": kind}
        timings = interleave(contestants, repeat=settings.repeat)
        records += timing_records(SPARSE, case, timings, [SCIPY])
    return records


def categorical(rows: int, *, ones: bool) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """One of some categories in each of 14 columns; values of magnitude at most 1."""
    rng = np.random.default_rng(2)
    categories = np.array([len(part) for part in np.array_split(np.arange(120), 14)])
    first = np.cumsum(categories) - categories
    indices = (first + rng.integers(0, categories, (rows, 14))).astype(np.int32).ravel()
    values = np.ones(14 * rows) if ones else rng.uniform(-1.0, 1.0, 14 * rows)
    indptr = np.arange(0, 14 * rows + 1, 14, dtype=np.int32)
    y = np.where(rng.random(rows) < 0.3, 1.0, -1.0)
    return scipy.sparse.csr_array((values, indices, indptr), shape=(rows, 120)), y


def line_search(settings: Run, rows: int) -> list[Record]:
    """20 step sizes along one direction."""
    from dpfast import Problem

    data = synthetic(rows, 20)
    problem = Problem(data.X, data.y, data_norm=data.data_norm)
    # From another point at every call: margins that an earlier search left must not help.
    points = [_weights(20), -_weights(20)]
    direction = np.random.default_rng(2).standard_normal(21)
    steps = np.geomspace(1e-3, 2.0, 20)

    def ours() -> None:
        points.reverse()
        problem.line_search_losses(points[0], direction, steps, _LOSS_CLIP)

    arguments = (data.X, data.y, points[0], direction, steps, _LOSS_CLIP)
    contestants: Calls = {
        DPFAST: ours,
        RECOMPUTED: partial(rivals.line_search_from_rows, *arguments),
        KEPT: partial(rivals.line_search_from_margins, *arguments),
    }
    return _compare(settings, LINE_SEARCH, data, contestants, [RECOMPUTED, KEPT])


def stochastic_steps(settings: Run, data: Dataset) -> list[Record]:
    """Epochs of n single-row steps in random order; the snapshot's full gradient is not timed."""
    from dpfast import Loss, _kernels

    if not hasattr(_kernels, "sgd_epoch"):
        settings.note("stochastic steps left out: dpfast._kernels has no sgd_epoch.")
        return []
    n, d = data.X.shape
    w, alpha, spec = _weights(d), 1e-4, Loss("logistic").spec
    rows = _kernels.DenseRows(data.X, data.y, 1.0)
    margin = np.empty(n)
    rows.margins(0, n, w, margin)
    derivative = np.ascontiguousarray(spec.points(margin, data.y)[1])
    gradient = np.append(data.X.T @ derivative, derivative.sum()) / n
    smoothness = 0.25 * (data.data_norm**2 + 1.0)
    rng = np.random.default_rng(3)

    def svrg() -> None:
        moving = w.copy()
        for _ in range(_EPOCHS):
            _kernels.sgd_epoch(
                rows,
                spec,
                moving,
                rng.integers(0, n, n),
                0.1 / smoothness,
                alpha=alpha,
                snapshot_derivative=derivative,
                snapshot_gradient=gradient,
                average=np.zeros(d + 1),
            )

    def katyusha() -> None:
        z, y, average, scale = w.copy(), w.copy(), np.zeros(d + 1), np.zeros(1)
        for _ in range(_EPOCHS):
            scale[0] = 0.0
            _kernels.katyusha_epoch(
                rows,
                spec,
                z,
                y,
                average,
                scale,
                rng.integers(0, n, n),
                alpha=alpha,
                smoothness=smoothness,
                tau1=min(math.sqrt(n * alpha / (3.0 * smoothness)), 0.5),
                snapshot=w,
                snapshot_gradient=gradient,
                snapshot_margin=margin,
                snapshot_derivative=derivative,
            )

    contestants: Calls = {"dpfast SVRG": svrg, "dpfast Katyusha": katyusha}
    if (reason := rivals.saga_missing()) is None:
        contestants[SAGA] = partial(rivals.saga, data.X, data.y, alpha, _EPOCHS)
    else:
        settings.note(f"{SAGA} left out: {reason}.")
    return [
        _with(r, nanoseconds_per_step=1e9 * r.values["seconds"] / (_EPOCHS * n))
        for r in _compare(settings, STEPS, data, contestants, [SAGA])
    ]


# ---- noise --------------------------------------------------------------------------------------


def samplers(settings: Run, n: int) -> list[Record]:
    from dpfast.random import SecureGenerator

    ours, theirs = SecureGenerator(0), np.random.default_rng(0)
    scale = 2**31
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
            partial(ours.l2_laplace, d, 1.0, vectors),
            partial(rivals.l2_laplace, theirs, d, 1.0, vectors),
        )
    records = []
    for name, (draws, secure, fast) in cases.items():
        timings = interleave({DPFAST: secure, NUMPY: fast}, repeat=settings.repeat)
        records += [
            _with(r, nanoseconds_per_draw=1e9 * r.values["seconds"] / draws)
            for r in timing_records(SAMPLERS, {"draw": name, "draws": draws}, timings, [NUMPY])
        ]
    return records


# ---- helpers ------------------------------------------------------------------------------------


def as_float64(X: np.ndarray) -> np.ndarray:
    """The bytes of a float32 array as float64 numbers, for the yardstick, which only reads."""
    flat = X.reshape(-1)
    return flat[: flat.size // 2 * 2].view(np.float64)


def _weights(d: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(d + 1) / math.sqrt(d)


def _compare(
    settings: Run, group: str, data: Dataset, contestants: Calls, references: list[str]
) -> list[Record]:
    n, d = data.X.shape
    settings.say(f"  {group}, {n:,} x {d}")
    timings = interleave(contestants, repeat=settings.repeat)
    return timing_records(group, {"n": n, "d": d}, timings, references)


def _with(record: Record, **values: float) -> Record:
    return replace(record, values={**record.values, **values})


def _on_every_isa(call: Callable[[], object]) -> Calls:
    from dpfast import _kernels

    return {
        f"{DPFAST} {isa}": partial(_run_with, isa, call)
        for isa in reversed(_kernels.supported_isas())
    }


def _run_with(isa: str, call: Callable[[], object]) -> object:
    with _forced(isa):
        return call()


@contextmanager
def _forced(isa: str) -> Iterator[None]:
    from dpfast import _kernels

    before = _kernels.isa_name()
    _kernels.force_isa(isa)
    try:
        yield
    finally:
        _kernels.force_isa(before)
