"""The private epochs: batches of the stated law, steps against a slow twin."""

import math
import signal
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
from reference import dense as dense_twin
from reference import private_epochs as twin
from scipy import stats

from dpfast import Loss, _kernels

FALSE_ALARM = 1e-6
LAYOUTS = ["float64", "float32", "csr"]


def stream(seed=0):
    return _kernels.Stream(seed.to_bytes(32, "little"))


# ---- Batches ------------------------------------------------------------------------------------


def draw(sampling, n, batch, count, seed=0):
    source = stream(seed)
    return [_kernels.draw_batch(source, sampling, n, batch, n) for _ in range(count)]


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
@pytest.mark.parametrize(
    ("n", "batch"), [(1, 1), (5, 2), (64, 63), (130, 3), (1000, 400), (64, 64)]
)
def test_rows_of_a_batch_are_distinct_and_in_range(sampling, n, batch):
    for rows in draw(sampling, n, batch, 200):
        assert len(set(rows.tolist())) == len(rows)
        assert len(rows) == 0 or (rows.min() >= 0 and rows.max() < n)
        assert sampling == "poisson" or len(rows) == batch


def test_every_subset_is_equally_likely():
    subsets = {rows: k for k, rows in enumerate(combinations(range(7), 3))}
    drawn = [subsets[tuple(sorted(r.tolist()))] for r in draw("fixed-size", 7, 3, 35_000)]
    assert stats.chisquare(np.bincount(drawn, minlength=len(subsets))).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("n", "batch"), [(3, 1), (3, 2), (9, 3), (16, 4), (100, 7)])
def test_poisson_batches_take_rows_independently(n, batch):
    count = 20_000
    taken = np.zeros((count, n), dtype=bool)
    for k, rows in enumerate(draw("poisson", n, batch, count)):
        taken[k, rows] = True
    rate = batch / n
    # Each row's share.
    z = (taken.sum(axis=0) - count * rate) / math.sqrt(count * rate * (1 - rate))
    assert stats.chi2.sf(np.sum(z**2), n) > FALSE_ALARM
    wrong = (taken.sum(axis=0) - count * rate * 1.05) / math.sqrt(count * rate * (1 - rate))
    assert stats.chi2.sf(np.sum(wrong**2), n) < FALSE_ALARM
    # The size is binomial, not fixed.
    sizes = np.bincount(taken.sum(axis=1), minlength=n + 1).astype(float)
    expected = count * stats.binom.pmf(np.arange(n + 1), n, rate)
    few = expected < 5.0
    observed = np.append(sizes[~few], sizes[few].sum())
    wanted = np.append(expected[~few], expected[few].sum() + 1e-9)
    assert stats.chi2.sf(np.sum((observed - wanted) ** 2 / wanted), len(wanted)) > FALSE_ALARM
    # Pairs of rows.
    both = np.mean(taken[:, 0] & taken[:, 1])
    assert abs(both - rate**2) < 5 * math.sqrt(rate**2 / count)


def test_large_poisson_batches_have_the_right_mean_and_variance():
    n, batch = 100_000, 317
    sizes = np.array([len(rows) for rows in draw("poisson", n, batch, 2000)])
    deviation = math.sqrt(batch * (1 - batch / n))
    assert abs(sizes.mean() - batch) < 5 * deviation / math.sqrt(len(sizes))
    assert abs(sizes.std() / deviation - 1) < 5 / math.sqrt(2 * len(sizes))


def test_a_poisson_batch_beyond_capacity_is_drawn_again():
    source = stream()
    sizes = [len(_kernels.draw_batch(source, "poisson", 100, 10, 10)) for _ in range(500)]
    assert max(sizes) == 10


def test_batches_differ_and_repeat_with_the_key():
    first, second = (draw("fixed-size", 1000, 10, 5, seed) for seed in (1, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(np.sort(first[0]), np.sort(first[1]))


@pytest.mark.parametrize(
    "arguments",
    [("given", 5, 1, 5), ("poisson", 0, 1, 5), ("poisson", 5, 0, 5), ("fixed-size", 5, 6, 6),
     ("poisson", 5, 3, 2)],
)  # fmt: skip
def test_impossible_batches_are_refused(arguments):
    with pytest.raises(ValueError, match="a batch needs"):
        _kernels.draw_batch(stream(), *arguments)


# ---- Steps --------------------------------------------------------------------------------------


class Case:
    """Rows in one layout, written out."""

    def __init__(self, layout, n=60, d=5, *, loss="logistic", intercept=1.0, seed=0):
        rng = np.random.default_rng(seed)
        self.loss, self.n, self.rng = Loss(loss), n, rng
        X = rng.standard_normal((n, d)) / math.sqrt(d)
        if layout == "csr":
            X[rng.random((n, d)) >= 0.4] = 0.0
        elif layout == "float32":
            X = X.astype(np.float32)
        self.y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        scale, self.weight = rng.uniform(0.3, 1.0, n), rng.uniform(0.2, 2.0, n)
        self.rows = dense_twin.rows_with_intercept(X, scale, intercept)
        self.dim = self.rows.shape[1]
        if layout == "csr":
            m = scipy.sparse.csr_array(X)
            self.kernel = _kernels.CsrRows(m.indptr, m.indices, m.data, d, self.y, intercept)
        else:
            self.kernel = _kernels.DenseRows(X, self.y, intercept)
        self.kernel.set_row_scale(scale)
        self.kernel.set_weight(self.weight)
        norms = np.linalg.norm(self.rows, axis=1)
        inverse = np.divide(1.0, norms, out=np.full(n, 1e3), where=norms > 0)
        # Rounded down: a lower bound.
        self.kernel.set_inverse_norm((inverse * (1.0 - 2.0**-22)).astype(np.float32))
        self.w = 0.5 * rng.standard_normal(self.dim)

    def derivative(self, margin, target):
        return self.loss([margin], [target])[1][0]

    def expected(self, batches, sizes, **settings):
        return twin.private_epoch(
            self.rows, self.y, self.weight, self.derivative, self.w, batches, sizes, **settings
        )

    def run(self, batches, sizes, **settings):
        w, velocity, average = self.w.copy(), np.zeros(self.dim), np.zeros(self.dim)
        _kernels.private_epoch(
            self.kernel, self.loss.spec, w, sizes, sampling="given",
            indices=np.concatenate([np.zeros(0, dtype=np.int64), *batches]),
            batch_start=np.cumsum([0, *map(len, batches)], dtype=np.int64),
            velocity=velocity, average=average, **settings,
        )  # fmt: skip
        return w, velocity, average


def close(got, expected, rtol=1e-6):
    np.testing.assert_allclose(got, expected, rtol=0, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("loss", ["logistic", "sigmoid", "huberized-hinge"])
@pytest.mark.parametrize("variant", ["plain", "projected", "differences"])
def test_steps_are_the_twins(isa, layout, loss, variant):
    case = Case(layout, loss=loss, d={"plain": 5, "projected": 1, "differences": 33}[variant])
    rng = case.rng
    batches = [rng.permutation(case.n)[:k] for k in (0, 1, 2, 60, 7, 0, 31)]
    sizes = rng.uniform(0.1, 0.5, len(batches))
    settings = {"divisor": 7.0, "alpha": 0.1, "clip_norm": 0.1, "momentum": 0.6,
                "average_weight": rng.uniform(size=len(batches))}  # fmt: skip
    noise = rng.standard_normal((len(batches), case.dim))
    if variant == "projected":
        settings["w_radius"] = 0.4
    if variant == "differences":
        settings["snapshot"] = case.w + rng.standard_normal(case.dim)
        settings["snapshot_gradient"] = rng.standard_normal(case.dim)
    got = case.run(batches, sizes, noise="given", given_noise=noise, **settings)
    for one, expected in zip(
        got, case.expected(batches, sizes, noise=noise, **settings), strict=True
    ):
        close(one, expected)
    without = case.run(batches, 0.3, noise="none", divisor=3.0)
    close(without[0], case.expected(batches, np.full(len(batches), 0.3), divisor=3.0)[0], 1e-10)


@pytest.mark.parametrize("d", [3, 400])
def test_one_row_moves_a_sum_by_no_more_than_the_clip_norm(isa, d):
    case = Case("float64", d=d)
    for i in range(case.n):
        w = case.w.copy()
        _kernels.private_epoch(
            case.kernel, case.loss.spec, w, 1.0, sampling="given", noise="none",
            indices=np.array([i]), batch_start=np.array([0, 1]), divisor=1.0, clip_norm=0.05,
        )  # fmt: skip
        # The step is the difference of two rounded vectors.
        error = 1e-15 * np.linalg.norm(case.w)
        assert np.linalg.norm(w - case.w) <= 0.05 * case.weight[i] + error


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize("scale", [1.0, 2.0 / 3.0, 1.5])
def test_noise_has_the_stated_law(isa, noise, scale):
    case = Case("float64", d=9)
    stddev, n_steps = 0.75, 600
    source, draws = stream(3), []
    for _ in range(n_steps):
        w = np.zeros(case.dim)
        _kernels.private_epoch(
            case.kernel, case.loss.spec, w, 1.0, sampling="fixed-size", noise=noise,
            stream=source, n_steps=1, batch=1, divisor=1.0, clip_norm=1e-300, stddev=stddev,
            scale=3 * 2**20, grid=2.0**-22,
        )  # fmt: skip
        draws.append(w)
    values = np.concatenate(draws)
    # Multiples of the grid, and no other digits.
    assert np.array_equal(values * 2.0**22, np.round(values * 2.0**22))
    agrees = stats.kstest(values / (scale * stddev), "norm").pvalue > FALSE_ALARM
    assert agrees == (scale == 1.0)


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_drawn_batches_are_those_of_the_stream(isa, sampling, layout):
    case = Case(layout, n=200)
    w, source = case.w.copy(), stream(5)
    _kernels.private_epoch(
        case.kernel, case.loss.spec, w, 0.5, sampling=sampling, noise="none", stream=stream(5),
        n_steps=6, batch=20, capacity=90, clip_norm=0.3,
    )  # fmt: skip
    batches = [_kernels.draw_batch(source, sampling, case.n, 20, 90) for _ in range(6)]
    close(w, case.expected(batches, np.full(6, 0.5), divisor=20.0, clip_norm=0.3)[0])


def test_an_epoch_in_two_calls_is_the_same_epoch():
    case = Case("float64")
    whole, cut = case.w.copy(), case.w.copy()
    settings = {"sampling": "poisson", "noise": "discrete", "batch": 10, "capacity": 60,
                "scale": 2**30, "grid": 2.0**-30, "clip_norm": 1.0}  # fmt: skip
    _kernels.private_epoch(case.kernel, case.loss.spec, whole, 0.1, stream=stream(), n_steps=9,
                           **settings)  # fmt: skip
    source = stream()
    for n_steps in (4, 0, 5):
        _kernels.private_epoch(case.kernel, case.loss.spec, cut, 0.1, stream=source,
                               n_steps=n_steps, **settings)  # fmt: skip
    np.testing.assert_array_equal(whole, cut)


def test_wrong_arguments_are_refused_and_leave_the_weights():
    case = Case("float64")
    good = {"sampling": "fixed-size", "noise": "gaussian", "batch": 3, "n_steps": 2,
            "stream": stream(), "stddev": 1.0, "grid": 2.0**-20}  # fmt: skip
    for change, message in [
        ({"sampling": "shuffle"}, "sampling must be one of 'given', 'poisson', 'fixed-size'"),
        ({"noise": "laplace"}, "noise must be one of"),
        ({"batch": 0}, r"batch must be in \[1, 60\]"),
        ({"batch": 61}, r"batch must be in \[1, 60\]"),
        ({"sampling": "poisson", "capacity": 2}, "capacity must be at least batch=3"),
        ({"n_steps": None}, "n_steps must be a number"),
        ({"stream": None}, "stream must be given"),
        ({"momentum": 0.5}, "velocity must be given"),
        ({"stddev": math.nan}, "outside its documented range"),
        ({"stddev": 0.0}, "outside its documented range"),
        ({"grid": 0.0}, "outside its documented range"),
        ({"alpha": -1.0}, "outside its documented range"),
        ({"clip_norm": 0.0}, "outside its documented range"),
        ({"noise": "discrete", "scale": 2**33}, "outside its documented range"),
        ({"snapshot": np.zeros(2)}, "snapshot must have 6 entries"),
        ({"average": case.w}, "must not share memory"),
    ]:
        before = case.w.copy()
        with pytest.raises(ValueError, match=message):
            _kernels.private_epoch(case.kernel, case.loss.spec, case.w, 0.1, **(good | change))
        np.testing.assert_array_equal(case.w, before)
    for indices, start in [([60], [0, 1]), ([-1], [0, 1]), ([0, 1], [0, 1])]:
        with pytest.raises(ValueError, match="must"):
            _kernels.private_epoch(
                case.kernel, case.loss.spec, case.w, 0.1, sampling="given", noise="none",
                divisor=1.0, indices=np.array(indices), batch_start=np.array(start),
            )  # fmt: skip


@pytest.mark.parametrize("noise", ["discrete", "gaussian", "none"])
def test_what_is_not_finite_is_an_error(isa, noise):
    case = Case("float64")
    case.w[0] = math.nan
    with pytest.raises(FloatingPointError):
        _kernels.private_epoch(
            case.kernel, case.loss.spec, case.w, 0.1, sampling="fixed-size", noise=noise,
            stream=stream(), n_steps=2, batch=3, stddev=1.0, grid=2.0**-20, scale=2**20,
        )  # fmt: skip


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_ctrl_c_stops_an_epoch():
    case = Case("float64")
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            # Would take hours.
            _kernels.private_epoch(
                case.kernel, case.loss.spec, case.w, 1e-9, sampling="fixed-size",
                noise="gaussian", stream=stream(), n_steps=10**11, batch=3, stddev=1.0,
                grid=2.0**-20,
            )  # fmt: skip
    finally:
        signal.signal(signal.SIGALRM, before)
    assert np.isfinite(case.w).all()
