"""The hinge: known optimum, gaps that never promise too much, methods that refuse nothing."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from dpfast import Problem
from dpfast.objectives import Erm, FiniteSum, Rounded, Smoothable
from dpfast.optimizers import OPTIMIZERS

METHODS = ["sgd", "smoothing", "subgradient"]


def hinge(classification, alpha, weights=False, sparse=False):
    """The objective, its rows written out, and their weights."""
    X, y = classification
    if sparse:
        X = np.where(np.abs(X) > 0.5, X, 0.0)
    norm = np.linalg.norm(X, axis=1)
    rows = np.hstack([X * (1.5 / np.maximum(1.5, norm))[:, None], np.full((len(X), 1), 0.5)])
    weight = np.ones(len(X))
    options = {}
    if weights:
        weight = np.random.default_rng(3).uniform(0.0, 2.0, len(X))
        options = {"sample_weight": weight, "max_weight": 2.0}
    data = scipy.sparse.csr_array(X) if sparse else X
    # A norm of 1.5 clips some rows.
    problem = Problem(data, y, loss="hinge", data_norm=1.5, intercept=0.5, **options)
    return Erm(problem, alpha), rows, y, weight


def value(rows, y, weight, alpha, w):
    return weight @ np.maximum(0.0, 1.0 - y * (rows @ w)) / len(y) + 0.5 * alpha * w @ w


def reference(rows, y, weight, alpha):
    model = LinearSVC(loss="hinge", C=1.0 / (alpha * len(y)), fit_intercept=False, tol=1e-10,
                      max_iter=1_000_000, random_state=0)  # fmt: skip
    return model.fit(rows, y, sample_weight=weight).coef_[0]


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_smoothing_reaches_the_known_optimum(classification, alpha, weights, sparse):
    objective, rows, y, weight = hinge(classification, alpha, weights, sparse)
    result = OPTIMIZERS["smoothing"](objective, tolerance=1e-5)
    assert result.converged
    expected = reference(rows, y, weight, alpha)
    assert np.linalg.norm(result.w - expected) <= result.certificate + 1e-5
    assert result.certificate <= 1e-5 / alpha
    assert result.value == pytest.approx(value(rows, y, weight, alpha, result.w), rel=1e-12)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("passes", [8, 60, 300])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_certificate_bounds_the_true_distance(name, passes, alpha, classification):
    objective, *_ = hinge(classification, alpha)
    exact = OPTIMIZERS["smoothing"](objective, tolerance=1e-6)
    result = OPTIMIZERS[name](objective, tolerance=1e-3, max_passes=passes)
    distance = np.linalg.norm(result.w - exact.w)
    assert distance <= result.certificate + exact.certificate
    assert result.converged == (alpha * result.certificate <= 1e-3)
    assert result.passes <= passes
    assert np.isfinite(result.certificate)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    size=st.floats(1e-3, 30.0),
    width=st.floats(1e-6, 5.0),
    alpha=st.sampled_from([1e-3, 0.1, 10.0]),
    weights=st.booleans(),
)
def test_the_gap_is_never_too_small(seed, size, width, alpha, weights):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 3))
    y = np.where(rng.random(40) < 0.5, -1.0, 1.0)
    objective, rows, y, weight = hinge((X, y), alpha, weights)
    w = size * rng.standard_normal(4)
    # Any other point's value is at least the minimum's: a minimum that is too high only helps the
    # claim to fail.
    best = OPTIMIZERS["smoothing"](objective, tolerance=1e-4).w
    excess = value(rows, y, weight, alpha, w) - value(rows, y, weight, alpha, best)
    assert objective.duality_gap(w, width) >= excess
    assert objective.duality_gap(best, width) <= 1.01 * (
        width / 8.0 * weight.max()
        + np.linalg.norm(objective.smoothed(width).value_and_gradient(best)[1]) ** 2 / (2 * alpha)
    ) + 1e-12 * (1.0 + np.linalg.norm(best))  # fmt: skip


def test_the_gradient_of_the_smoothed_loss_alone_would_promise_too_much(classification):
    """What the test above is able to see: the minimizer of the smoothed loss is not the minimizer,
    so a gap without the rows' own terms is too small there."""
    objective, rows, y, weight = hinge(classification, 0.01)
    width = 2.0
    smooth = objective.smoothed(width)
    w = OPTIMIZERS["newton"](smooth, tolerance=1e-10).w
    best = OPTIMIZERS["smoothing"](objective, tolerance=1e-5).w
    excess = value(rows, y, weight, 0.01, w) - value(rows, y, weight, 0.01, best)
    assert np.linalg.norm(smooth.value_and_gradient(w)[1]) ** 2 / 0.02 < 1e-3 * excess
    assert excess <= objective.duality_gap(w, width) <= width / 8.0 + 1e-9


def test_rounding_bounds_hold_against_exact_sums(classification):
    """Values and lines below the objective, against extended precision."""
    objective, rows, y, _ = hinge(classification, 0.01)
    X = classification[0]
    rng = np.random.default_rng(0)
    # The rows that the kernels see: their own scale, rounded, is not ours to repeat, so rows within
    # the ball only.
    kept = np.linalg.norm(X, axis=1) <= 1.5
    problem = Problem(X[kept], y[kept], loss="hinge", data_norm=1.5, intercept=0.5)
    objective, wide = Erm(problem, 0.01), rows[kept].astype(np.longdouble)
    for size in (0.0, 1.0, 100.0):
        w = size * rng.standard_normal(7)
        found, gradient = objective.value_and_gradient(w)
        e, r = objective.rounding(float(np.linalg.norm(w)))
        ones = np.ones(len(wide), dtype=np.longdouble)
        exact = value(wide, y[kept], ones, np.longdouble(0.01), w.astype(np.longdouble))
        assert abs(float(found - exact)) <= e <= 1e-11 * (1.0 + size)
        for other in 10.0 * rng.standard_normal((20, 7)):
            far = np.linalg.norm(other - w)
            line = found + gradient @ (other - w) + 0.005 * far**2 - e - r * far
            assert value(wide, y[kept], ones, 0.01, other) >= line - 1e-12 * (1 + size * far)
    for protocol in (FiniteSum, Rounded, Smoothable):
        assert isinstance(objective, protocol)


def test_subgradient_keeps_its_rate(classification):
    """Value and certified gap of the average fall as 1/t (Bach 2015)."""
    alpha = 0.1
    objective, rows, y, weight = hinge(classification, alpha)
    best = OPTIMIZERS["smoothing"](objective, tolerance=1e-6).w
    minimum = value(rows, y, weight, alpha, best)
    seen = []
    OPTIMIZERS["subgradient"](
        objective, tolerance=1e-12, max_passes=400, callback=lambda result: seen.append(result)
    )
    averages = [result for result in seen if np.isfinite(result.certificate)]
    assert len(averages) == 400
    # A subgradient of the whole is at most twice that of the losses.
    bound = 2.0 * (2.0 * np.hypot(1.5, 0.5)) ** 2 / alpha
    for t, result in enumerate(averages, start=1):
        assert value(rows, y, weight, alpha, result.w) - minimum <= bound / (t + 1)
        assert 0.5 * alpha * result.certificate**2 <= bound / (t + 1)
    assert averages[-1].certificate < 0.2 * averages[9].certificate


def test_sgd_keeps_its_rate(classification):
    """The excess falls as 1/t: 16 times as many epochs divide it by at least 6."""
    alpha = 0.1
    objective, rows, y, weight = hinge(classification, alpha)
    best = OPTIMIZERS["smoothing"](objective, tolerance=1e-6).w
    minimum = value(rows, y, weight, alpha, best)
    excess = {2: 0.0, 32: 0.0}
    for seed in range(6):
        seen = []
        OPTIMIZERS["sgd"](
            objective, tolerance=1e-12, max_passes=400, rng=seed, callback=seen.append
        )
        for epochs in excess:
            at = value(rows, y, weight, alpha, seen[epochs].w) - minimum
            assert at <= 2.0 * (2.0 * np.hypot(1.5, 0.5)) ** 2 / (alpha * (500 * epochs + 1))
            excess[epochs] += at
    assert excess[32] <= excess[2] / 6.0
