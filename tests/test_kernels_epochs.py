"""The stochastic epochs against their slow twins, on every layout and instruction set."""

import _thread
import math
import threading

import numpy as np
import pytest
import scipy.sparse
from reference import dense as dense_twin
from reference import epochs as twin

from dpfast import Loss, _kernels
from dpfast.losses import loss_names

LAYOUTS = ["float64", "float32", "csr"]
# Beside the vector width, the unrolling and the prefetch of long rows.
COLUMNS = [1, 3, 20, 67, 513]


class Case:
    """A problem in one layout, its rows written out, and the state of a snapshot."""

    def __init__(self, layout, n, d, *, loss="logistic", intercept=1.0, scaled=True, weighted=True,
                 density=None, seed=0, types=(np.int32, np.int32, np.float64)):  # fmt: skip
        rng = np.random.default_rng(seed)
        self.loss = Loss(loss)
        X = rng.standard_normal((n, d)) / math.sqrt(d)
        if layout == "csr":
            X[rng.random((n, d)) >= (0.3 if density is None else density)] = 0.0
            if types[2] is None:
                X[X != 0.0] = 1.0
            elif types[2] == np.float32:
                X = X.astype(np.float32)
        elif layout == "float32":
            X = X.astype(np.float32)
        if self.loss.kind == "classification":
            self.y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        else:
            self.y = rng.standard_normal(n)
        self.row_scale = rng.uniform(0.3, 1.0, n) if scaled else None
        self.weight = rng.uniform(0.2, 2.0, n) if weighted else None
        self.weights = np.ones(n) if self.weight is None else self.weight
        self.X = X
        self.rows = dense_twin.rows_with_intercept(X, self.row_scale, intercept)
        self.n, self.dim = self.rows.shape
        if layout == "csr":
            m = scipy.sparse.csr_array(X)
            self.kernel = _kernels.CsrRows(
                m.indptr.astype(types[0]), m.indices.astype(types[1]),
                None if types[2] is None else m.data.astype(types[2]), d, self.y, intercept,
            )  # fmt: skip
        else:
            self.kernel = _kernels.DenseRows(X, self.y, intercept)
        self.kernel.set_row_scale(self.row_scale)
        self.kernel.set_weight(self.weight)
        self.w = 0.5 * rng.standard_normal(self.dim)
        self.snapshot = self.w + 0.3 * rng.standard_normal(self.dim)
        self.rng = rng
        self.set_snapshot(self.snapshot)

    def derivative(self, margin, target):
        return self.loss([margin], [target])[1][0]

    def set_snapshot(self, w):
        self.snapshot = w.copy()
        self.margin = self.rows @ w
        self.snapshot_derivative = self.loss(self.margin, self.y)[1]
        self.gradient = (self.weights * self.snapshot_derivative) @ self.rows / self.n

    @property
    def problem(self):
        return self.rows, self.y, self.weights, self.derivative

    def indices(self, count):
        return self.rng.integers(0, self.n, count)

    def smoothness(self):
        largest = np.max(self.weights * np.sum(self.rows**2, axis=1))
        return float(largest) * (self.loss.smoothness if self.loss.smoothness < np.inf else 1.0)

    def sgd(self, w, indices, step, **options):
        _kernels.sgd_epoch(self.kernel, self.loss.spec, w, indices, step, **options)

    def svrg_arguments(self):
        return {
            "snapshot_derivative": self.snapshot_derivative, "snapshot_gradient": self.gradient,
        }  # fmt: skip

    def snapshot_arguments(self):
        return {
            **self.svrg_arguments(), "snapshot": self.snapshot, "snapshot_margin": self.margin,
        }  # fmt: skip


def close(got, expected, rtol=1e-10):
    scale = max(1e-300, float(np.max(np.abs(expected))))
    assert float(np.max(np.abs(got - expected))) <= rtol * scale


# ---- SGD ----------------------------------------------------------------------------------------


def check_sgd(case, n_steps, *, projected=False, weighted_average=False, alpha=0.1,
              decreasing=True):  # fmt: skip
    indices = case.indices(n_steps)
    steps = 0.5 / (1.0 + 0.1 * np.arange(n_steps)) if decreasing else np.full(n_steps, 0.2)
    w_radius = 0.8 * float(np.linalg.norm(case.w)) if projected else np.inf
    average_weight = case.rng.uniform(0.0, 2.0, n_steps) if weighted_average else None

    w, average = case.w.copy(), np.zeros(case.dim)
    case.sgd(
        w, indices, steps if decreasing else 0.2, alpha=alpha, w_radius=w_radius, average=average,
        average_weight=average_weight,
    )  # fmt: skip
    expected, expected_average = twin.sgd(
        *case.problem, case.w, indices, steps, alpha=alpha, w_radius=w_radius,
        average_weight=average_weight,
    )  # fmt: skip
    close(w, expected)
    close(average, expected_average)
    if projected:
        assert np.linalg.norm(w) <= w_radius * (1 + 1e-14)

    alone = case.w.copy()
    case.sgd(alone, indices, steps, alpha=alpha, w_radius=w_radius)
    close(alone, w, 1e-12)


SGD_OPTIONS = [
    {}, {"projected": True, "weighted_average": True},
    {"projected": True}, {"weighted_average": True}, {"alpha": 0.0, "decreasing": False},
]  # fmt: skip


# The first two with every number of columns, the others with two each.
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "d, options",
    [(d, SGD_OPTIONS[k]) for k in range(2) for d in COLUMNS]
    + [
        (COLUMNS[(k + i) % len(COLUMNS)], SGD_OPTIONS[k])
        for k in range(2, len(SGD_OPTIONS))
        for i in (0, 2)
    ],
)
def test_sgd_matches_the_twin(isa, layout, d, options):
    check_sgd(Case(layout, 40, d), 80, **options)


@pytest.mark.parametrize("name", loss_names())
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sgd_with_every_loss(isa, name, layout):
    intercept = 0.5 if loss_names().index(name) % 2 else 0.0
    check_sgd(Case(layout, 50, 20, loss=name, intercept=intercept), 60, projected=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sgd_without_scales_and_weights(isa, layout):
    check_sgd(Case(layout, 40, 9, scaled=False, weighted=False, intercept=0.0), 100)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ridge_steps_that_shrink_to_zero_and_beyond(isa, layout):
    """Steps 2 / (alpha (t + 1)), of Lowy & Razaviyayn 2021, Corollary 3.2: the first erases w."""
    case = Case(layout, 40, 33, density=0.1)
    n_steps = 500
    indices = case.indices(n_steps)
    for factor in (1.0, 1.7):
        steps = factor * 2.0 / (0.3 * np.arange(2, n_steps + 2))
        weights = np.arange(1.0, n_steps + 1)
        w, average = case.w.copy(), np.zeros(case.dim)
        case.sgd(w, indices, steps, alpha=0.3, average=average, average_weight=weights)
        expected, expected_average = twin.sgd(*case.problem, case.w, indices, steps, alpha=0.3,
                                              average_weight=weights)  # fmt: skip
        close(w, expected)
        close(average, expected_average)


# ---- SVRG ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", COLUMNS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("projected", [False, True])
def test_svrg_matches_the_twin(isa, layout, d, projected):
    case = Case(layout, 40, d)
    w_radius = 0.9 * float(np.linalg.norm(case.w)) if projected else np.inf
    w, average, expected = case.w.copy(), np.zeros(case.dim), case.w
    expected_average = np.zeros(case.dim)
    for _ in range(3):
        indices = case.indices(80)
        case.sgd(w, indices, 0.1, alpha=0.05, w_radius=w_radius, average=average,
                 **case.svrg_arguments())  # fmt: skip
        expected, total = twin.svrg(*case.problem, case.snapshot, expected, indices, 0.1,
                                    alpha=0.05, w_radius=w_radius)  # fmt: skip
        expected_average = expected_average + total
        close(w, expected)
        case.set_snapshot(expected)
    close(average, expected_average)


# ---- Katyusha -----------------------------------------------------------------------------------


def twins_katyusha(case, z, y, indices, alpha, tau1, w_radius=np.inf):
    return twin.katyusha(
        *case.problem, case.snapshot, z, y, indices, alpha=alpha, smoothness=case.smoothness(),
        tau1=tau1, w_radius=w_radius,
    )  # fmt: skip


def run_katyusha(case, z, y, indices, alpha, tau1, w_radius=np.inf):
    average, scale = np.full(case.dim, np.nan), np.zeros(1)
    _kernels.katyusha_epoch(
        case.kernel, case.loss.spec, z, y, average, scale, indices, alpha=alpha,
        smoothness=case.smoothness(), tau1=tau1, w_radius=w_radius, **case.snapshot_arguments(),
    )  # fmt: skip
    return average


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("d, alpha, tau1, projected", [
    *((d, 0.05, 0.2, True) for d in COLUMNS), *((d, 0.05, 0.5, False) for d in COLUMNS),
    (3, 0.0, 0.01, False), (67, 0.0, 0.01, False), (20, 3.0, 0.49999, True),
])  # fmt: skip
def test_katyusha_matches_the_twin(isa, layout, d, alpha, tau1, projected):
    case = Case(layout, 40, d)
    w_radius = 0.9 * float(np.linalg.norm(case.w)) if projected else np.inf
    z, y, twin_z, twin_y = case.w.copy(), 1.1 * case.w, case.w, 1.1 * case.w
    for _ in range(3):
        indices = case.indices(80)
        average = run_katyusha(case, z, y, indices, alpha, tau1, w_radius)
        twin_z, twin_y, expected = twins_katyusha(
            case, twin_z, twin_y, indices, alpha, tau1, w_radius
        )
        close(z, twin_z)
        close(y, twin_y)
        close(average, expected)
        case.set_snapshot(expected)


@pytest.mark.parametrize("name", loss_names())
@pytest.mark.parametrize("layout", LAYOUTS)
def test_katyusha_with_every_loss(isa, name, layout):
    case = Case(layout, 50, 20, loss=name, intercept=0.0)
    indices, z, y = case.indices(150), case.w.copy(), case.w.copy()
    average = run_katyusha(case, z, y, indices, 0.02, 0.3)
    expected = twins_katyusha(case, case.w, case.w, indices, 0.02, 0.3)
    for got, wanted in zip((z, y, average), expected, strict=True):
        close(got, wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_katyusha_average_does_not_overflow(isa, layout):
    """theta^m with theta = 1 + 2 alpha / (3 beta) = 7.7 and m = 2000 is far beyond float64."""
    case = Case(layout, 30, 10)
    alpha = 10.0 * case.smoothness()
    z, y = case.w.copy(), case.w.copy()
    average = run_katyusha(case, z, y, case.indices(2000), alpha, 0.5)
    assert np.all(np.isfinite(average))
    # The weights fall by 7.7 a step into the past, so the mean is within 0.2 of the latest y's.
    assert np.linalg.norm(average - y) <= 0.2 * np.linalg.norm(y)


# ---- Sparse rows --------------------------------------------------------------------------------

TYPES = [
    (p, i, v)
    for p in (np.int32, np.int64)
    for i in (np.int32, np.int64, np.uint16)
    for v in (np.float64, np.float32, None)
]


@pytest.mark.parametrize("types", TYPES, ids=lambda t: "-".join(
    "ones" if k is None else np.dtype(k).name for k in t))  # fmt: skip
def test_every_type_of_index_and_value(isa, types):
    case = Case("csr", 60, 90, density=0.05, types=types)
    check_sgd(case, 200, projected=True)
    for w_radius in (np.inf, 1.0):
        indices, z, y = case.indices(100), case.w.copy(), case.w.copy()
        average = run_katyusha(case, z, y, indices, 0.02, 0.3, w_radius)
        expected = twins_katyusha(case, case.w, case.w, indices, 0.02, 0.3, w_radius)
        close(average, expected[2])


@pytest.mark.parametrize("w_radius", [np.inf, 0.5])
@pytest.mark.parametrize("svrg", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.01, 2.0])
def test_lazy_sgd_equals_dense_updates(isa, w_radius, svrg, alpha):
    case = Case("csr", 300, 2000, density=0.003)
    dense = _kernels.DenseRows(case.X, case.y, 1.0)
    dense.set_row_scale(case.row_scale)
    dense.set_weight(case.weight)
    n_steps = 5000
    indices, steps = case.indices(n_steps), 1.0 / (1.0 + 0.01 * np.arange(n_steps))
    weights = case.rng.uniform(0.0, 1.0, n_steps)
    results = []
    for kernel in (case.kernel, dense):
        w, average = case.w.copy(), np.zeros(case.dim)
        _kernels.sgd_epoch(
            kernel, case.loss.spec, w, indices, steps, alpha=alpha, w_radius=w_radius,
            average=average, average_weight=weights, **(case.svrg_arguments() if svrg else {}),
        )  # fmt: skip
        results.append((w, average))
    close(results[0][0], results[1][0])
    close(results[0][1], results[1][1])


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("tau1", [0.5, 0.499, 0.25, 1e-3])
def test_lazy_katyusha_equals_dense_updates(isa, alpha, tau1):
    """A ball so large that it is never left makes every column be updated."""
    case = Case("csr", 300, 2000, density=0.003)
    indices = case.indices(1500)
    results = []
    for w_radius in (np.inf, 1e100):
        z, y = case.w.copy(), case.w.copy()
        average = run_katyusha(case, z, y, indices, alpha, tau1, w_radius)
        results.append((z, y, average))
    for lazy, dense in zip(*results, strict=True):
        close(lazy, dense)


def test_empty_rows_and_columns(isa):
    X = np.zeros((5, 50))
    X[1, 7], X[3, 7], X[3, 40] = 0.5, -1.0, 2.0
    m = scipy.sparse.csr_array(X)
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    loss = Loss("logistic")
    indices = np.array([0, 1, 2, 3, 4, 3, 1, 0])
    for intercept in (0.0, 1.0):
        rows = dense_twin.rows_with_intercept(X, None, intercept)
        kernel = _kernels.CsrRows(m.indptr, m.indices, m.data, 50, y, intercept)
        w = np.ones(rows.shape[1])
        expected, _ = twin.sgd(
            rows, y, np.ones(5), lambda z, t: loss([z], [t])[1][0], w, indices,
            np.full(8, 0.2), alpha=0.1, w_radius=2.0,
        )  # fmt: skip
        _kernels.sgd_epoch(kernel, loss.spec, w, indices, 0.2, alpha=0.1, w_radius=2.0)
        close(w, expected)


# ---- Slices, convergence, trouble ---------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_slices_equal_the_whole(isa, layout):
    case = Case(layout, 50, 67, density=0.03)
    indices = case.indices(301)
    steps, weights = case.rng.uniform(0.1, 0.3, 301), case.rng.uniform(0, 1, 301)
    whole, whole_average = case.w.copy(), np.zeros(case.dim)
    parts, parts_average = case.w.copy(), np.zeros(case.dim)
    common = {"alpha": 0.1, "w_radius": 1.0}
    case.sgd(whole, indices, steps, **common, average=whole_average, average_weight=weights)
    for part in np.split(np.arange(301), [1, 2, 100, 100, 300]):
        case.sgd(parts, indices[part], steps[part], **common, average=parts_average,
                 average_weight=weights[part])  # fmt: skip
    close(parts, whole, 1e-12)
    close(parts_average, whole_average, 1e-12)

    for tau1 in (0.5, 0.3):
        arguments = {"alpha": 0.02, "smoothness": case.smoothness(), "tau1": tau1}
        whole = [case.w.copy(), case.w.copy(), np.full(case.dim, np.nan), np.zeros(1)]
        parts = [a.copy() for a in whole]
        _kernels.katyusha_epoch(case.kernel, case.loss.spec, *whole, indices, **arguments,
                                **case.snapshot_arguments())  # fmt: skip
        for part in np.split(indices, [1, 2, 100, 100, 300]):
            _kernels.katyusha_epoch(case.kernel, case.loss.spec, *parts, part, **arguments,
                                    **case.snapshot_arguments())  # fmt: skip
        for got, wanted in zip(parts, whole, strict=True):
            close(got, wanted, 1e-12)


def optimum(case, alpha):
    w = np.zeros(case.dim)
    for _ in range(50):
        _, derivative, curvature = case.loss(case.rows @ w, case.y)
        gradient = (case.weights * derivative) @ case.rows / case.n + alpha * w
        hessian = (case.rows.T * (case.weights * curvature)) @ case.rows / case.n
        w = w - np.linalg.solve(hessian + alpha * np.eye(case.dim), gradient)
    return w


@pytest.mark.parametrize("layout", LAYOUTS)
def test_svrg_and_katyusha_reach_the_optimum(isa, layout):
    case = Case(layout, 200, 10)
    alpha = 1e-2
    best, beta = optimum(case, alpha), case.smoothness()
    w = np.zeros(case.dim)
    for _ in range(60):
        case.set_snapshot(w)
        case.sgd(w, case.indices(400), 0.25 / beta, alpha=alpha, **case.svrg_arguments())
    assert np.linalg.norm(w - best) <= 1e-12

    tau1 = min(math.sqrt(400 * alpha / (3 * beta)), 0.5)
    z, y, snapshot = (np.zeros(case.dim) for _ in range(3))
    for _ in range(60):
        case.set_snapshot(snapshot)
        snapshot = run_katyusha(case, z, y, case.indices(400), alpha, tau1)
    assert np.linalg.norm(snapshot - best) <= 1e-12


@pytest.mark.parametrize("layout", LAYOUTS)
def test_katyusha_is_faster_than_svrg_on_a_badly_conditioned_problem(layout):
    case = Case(layout, 200, 10, weighted=False)
    alpha = 1e-5
    best, beta = optimum(case, alpha), case.smoothness()

    def excess(w):
        value = case.loss(case.rows @ w, case.y)[0].mean() + 0.5 * alpha * w @ w
        return value - (case.loss(case.rows @ best, case.y)[0].mean() + 0.5 * alpha * best @ best)

    w, z, y, snapshot = (np.zeros(case.dim) for _ in range(4))
    tau1 = min(math.sqrt(400 * alpha / (3 * beta)), 0.5)
    for _ in range(40):
        indices = case.indices(400)
        case.set_snapshot(w)
        case.sgd(w, indices, 0.1 / beta, alpha=alpha, **case.svrg_arguments())
        case.set_snapshot(snapshot)
        snapshot = run_katyusha(case, z, y, indices, alpha, tau1)
    assert excess(snapshot) <= 0.5 * excess(w)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ctrl_c_ends_a_long_epoch(layout, ctrl_c):
    case = Case(layout, 50, 1000)
    indices = np.tile(case.indices(50_000), 20)
    w, start = case.w.copy(), case.w.copy()

    def interrupt():
        while np.array_equal(w, case.w):  # until the kernel has begun
            pass
        _thread.interrupt_main()

    thread = threading.Thread(target=interrupt)
    # However late the other thread gets its turn, there is an epoch to be interrupted.
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        while True:
            start[:] = w
            case.sgd(w, indices, 0.1, alpha=0.1)
    thread.join()
    assert np.all(np.isfinite(w))
    if not np.array_equal(w, start):  # else it came between two epochs
        case.sgd(start, indices, 0.1, alpha=0.1)
        assert not np.array_equal(w, start)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("layout", ["float64", "float32"])
@pytest.mark.parametrize("w_radius", [np.inf, 2.0])
def test_a_non_finite_entry_is_never_turned_into_a_finite_one(isa, layout, value, w_radius):
    case = Case(layout, 30, 9)
    X = np.array(case.rows[:, :-1], dtype=layout)
    X[17, 4] = value
    kernel = _kernels.DenseRows(X, case.y, 1.0)
    with pytest.raises(FloatingPointError, match="NaN or infinity"):
        _kernels.sgd_epoch(kernel, case.loss.spec, case.w.copy(), np.arange(30), 0.1,
                           w_radius=w_radius)  # fmt: skip
    with pytest.raises(FloatingPointError, match="NaN or infinity"):
        _kernels.katyusha_epoch(
            kernel, case.loss.spec, case.w.copy(), case.w.copy(), np.zeros(10), np.zeros(1),
            np.arange(30), alpha=0.1, smoothness=1.0, tau1=0.3, w_radius=w_radius,
            **case.snapshot_arguments(),
        )  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["w", "step", "snapshot_gradient", "average"])
def test_non_finite_arguments(isa, layout, value, where):
    case = Case(layout, 30, 9)
    arrays = {
        "w": case.w.copy(), "step": np.full(30, 0.1),
        "snapshot_gradient": np.zeros(case.dim), "average": np.zeros(case.dim),
    }  # fmt: skip
    arrays[where].flat[3] = value
    with pytest.raises(FloatingPointError, match="NaN or infinity"):
        case.sgd(arrays.pop("w"), np.arange(30), arrays.pop("step"), w_radius=1.0, **arrays)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("w_radius", [np.inf, 1e200])
def test_a_diverging_epoch_is_reported(isa, layout, w_radius):
    case = Case(layout, 30, 9, loss="squared")
    with pytest.raises(FloatingPointError, match="too large"):
        case.sgd(case.w.copy(), case.indices(3000), 1e3, w_radius=w_radius)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 2])
def test_clipping_does_not_hide_a_margin_that_overflows(isa, layout, batch):
    case = Case(layout, 30, 9, loss="huber", scaled=False)
    w = np.full(case.dim, 1e308)
    w[:-1] *= np.sign(case.rows[4, :-1])
    row = 1e30 * case.rows[4:5, :-1]
    if layout == "csr":
        m = scipy.sparse.csr_array(row)
        kernel = _kernels.CsrRows(m.indptr, m.indices, m.data, 9, np.ones(1), 1.0)
    else:
        kernel = _kernels.DenseRows(row.astype(layout), np.ones(1), 1.0)
    kernel.set_inverse_norm(np.full(1, 1e-31, dtype=np.float32))
    indices, start = np.zeros(2, dtype=np.int64), np.arange(0, 3, batch)
    with pytest.raises(FloatingPointError, match="too large"):
        _kernels.private_epoch(
            kernel, case.loss.spec, w, 1e-3, sampling="given", noise="none", indices=indices,
            batch_start=start, divisor=1.0, clip_norm=1.0,
        )  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arguments_are_checked(layout):
    case = Case(layout, 10, 4)
    dim, ten = case.dim, np.arange(10)

    def sgd(indices=ten, w=None, step=0.1, **options):
        case.sgd(case.w.copy() if w is None else w, indices, step, **options)

    for bad in (-1, 10, 2**62, -(2**62)):
        with pytest.raises(ValueError, match=rf"indices must be in \[0, 10\); got {bad}"):
            sgd(np.array([0, 1, bad, 3]))
    for name, size in (("snapshot_derivative", 10), ("snapshot_gradient", dim), ("average", dim),
                       ("average_weight", 10)):  # fmt: skip
        with pytest.raises(ValueError, match=f"{name} must have {size} entries; got {size + 1}"):
            sgd(**{name: np.zeros(size + 1)})
    with pytest.raises(ValueError, match=f"w must have {dim} entries"):
        sgd(w=np.zeros(dim + 1))
    with pytest.raises(ValueError, match="step must have 10 entries; got 9"):
        sgd(step=np.zeros(9))
    for options in ({"alpha": -1.0}, {"alpha": np.nan}, {"w_radius": -1.0}, {"w_radius": np.nan}):
        with pytest.raises(ValueError, match="outside its documented range"):
            sgd(**options)
    same = np.zeros(dim)
    with pytest.raises(ValueError, match="w and average must not share memory"):
        sgd(w=same, average=same)
    with pytest.raises(TypeError, match="rows must be DenseRows or CsrRows; got ndarray"):
        _kernels.sgd_epoch(case.rows, case.loss.spec, case.w, ten, 0.1)
    sgd(np.array([], dtype=np.int64))

    def katyusha(indices=ten, z=None, **changed):
        arguments = {"alpha": 0.1, "smoothness": 1.0, "tau1": 0.3, **case.snapshot_arguments()}
        z = case.w.copy() if z is None else z
        _kernels.katyusha_epoch(case.kernel, case.loss.spec, z, case.w.copy(), np.zeros(dim),
                                np.zeros(1), indices, **{**arguments, **changed})  # fmt: skip

    with pytest.raises(ValueError, match=r"indices must be in \[0, 10\); got 10"):
        katyusha(np.array([10]))
    for name, size in (("snapshot", dim), ("snapshot_gradient", dim), ("snapshot_margin", 10),
                       ("snapshot_derivative", 10)):  # fmt: skip
        with pytest.raises(ValueError, match=f"{name} must have {size} entries"):
            katyusha(**{name: np.zeros(size + 1)})
    for options in ({"tau1": 0.0}, {"tau1": 0.6}, {"smoothness": 0.0}, {"smoothness": np.inf},
                    {"alpha": -1.0}, {"w_radius": 0.0}):  # fmt: skip
        with pytest.raises(ValueError, match="outside its documented range"):
            katyusha(**options)
    with pytest.raises(ValueError, match="z and snapshot must not share memory"):
        katyusha(z=case.snapshot)
    katyusha(np.array([], dtype=np.int64))
