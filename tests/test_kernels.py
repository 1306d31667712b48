"""The dense kernels against their slow twins, on every instruction set."""

import ast
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import dense as twin

from dpfast import Loss, _kernels
from dpfast.losses import loss_names

LOGISTIC = Loss("logistic").spec
LOSSES = [
    Loss("logistic"), Loss("hinge"), Loss("huberized-hinge"), Loss("huberized-hinge", width=1.7),
    Loss("squared-hinge"), Loss("squared-hinge", 0.8), Loss("huber"), Loss("huber", 0.3),
    Loss("squared"), Loss("pinball"), Loss("pinball", 0.9, 0.5), Loss("sigmoid"),
    Loss("poisson"), Loss("poisson", width=0.4), Loss("gamma", width=1.0), Loss("gamma", width=0.2),
    Loss("tweedie", width=1.0), Loss("tweedie", 1.2, 0.3), Loss("negative-binomial", 0.2),
]  # fmt: skip

# d below, at and beside the vector width, the switch of row order (64, 512) and the block sizes;
# n beside the groups of four rows and the blocks.
SHAPES = [
    (1, 1), (3, 1), (4, 2), (5, 3), (7, 4), (9, 5), (8, 7), (33, 8), (513, 20), (70, 63),
    (130, 64), (129, 65), (20, 511), (17, 513), (9, 1030), (1025, 16),
]  # fmt: skip


def problem(n, d, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * scale
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    w = rng.standard_normal(d + 1) / math.sqrt(d + 1)
    return X, y, w


def check_against_the_twin(X, y, w, loss, intercept, clipping, weighted):
    """Every method of DenseRows on these rows, against sums written out row by row."""
    n, d = X.shape
    rng = np.random.default_rng(1)
    row_scale = rng.uniform(0.2, 1.0, n) if clipping else None
    weight = rng.uniform(0.0, 2.0, n) if weighted else None
    rows = twin.rows_with_intercept(X, row_scale, intercept)
    kernel = _kernels.DenseRows(X, y, intercept)
    kernel.set_row_scale(row_scale)
    kernel.set_weight(weight)
    clips = (0.7 * np.sqrt(d), 0.6) if clipping else (np.inf, np.inf)
    if clipping:
        norms = np.linalg.norm(rows, axis=1)
        inverse = np.divide(1.0, norms, out=np.full(n, np.inf), where=norms > 0)
        kernel.set_inverse_norm(inverse.astype(np.float32))
    twin.check(kernel, rows, y, w, loss, *clips, weight)


# Every pair of an intercept, clipping and a type occurs.
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "intercept, clipping, dtype",
    [
        (0.0, False, np.float64), (0.0, True, np.float32), (1.0, False, np.float32),
        (1.0, True, np.float64), (0.5, True, np.float64), (0.5, False, np.float32),
    ],
)  # fmt: skip
def test_shapes_match_the_twin(isa, shape, intercept, clipping, dtype):
    n, d = shape
    X, y, w = problem(n, d)
    w = w[: d + (intercept != 0)]
    check_against_the_twin(X.astype(dtype), y, w, LOSSES[0], intercept, clipping, False)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("clipping, weighted", [(False, True), (True, False)])
def test_losses_match_the_twin(isa, loss, clipping, weighted):
    X, y, w = problem(530, 11)
    if loss.kind == "regression":
        y = np.clip(np.random.default_rng(2).standard_normal(530) * 3, *loss.target_range)
    check_against_the_twin(X, y, w, loss, 1.0, clipping, weighted)


def test_every_loss_of_the_list_is_tested():
    assert {loss.name for loss in LOSSES} == set(loss_names())


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_line_search_matches_the_twin(isa, loss, weighted):
    rng = np.random.default_rng(6)
    n = 1100
    margin, direction, y = (
        rng.standard_normal(n),
        rng.standard_normal(n),
        rng.choice([-1.0, 1.0], n),
    )
    weight = rng.uniform(0, 2, n) if weighted else None
    steps = np.array([0.0, 0.1, 1.0, -2.0, 50.0])
    for loss_clip in (0.7, np.inf):
        out = np.empty(5)
        _kernels.line_search(margin, direction, y, weight, loss.spec, loss_clip, steps, out)
        for step, got in zip(steps, out, strict=True):
            values = np.minimum(loss(margin - step * direction, y)[0], loss_clip)
            expected = math.fsum(values * (1.0 if weight is None else weight))
            assert got == pytest.approx(expected, rel=1e-13)
    with pytest.raises(FloatingPointError):
        _kernels.line_search(margin, direction, y, weight, loss.spec, 1.0, np.array([np.nan]),
                             np.empty(1))  # fmt: skip


@pytest.mark.parametrize("scale", [1e-320, 1e-308, 1e-200, 1e150])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tiny_and_huge_values(isa, scale, dtype):
    """Denormals and values whose squares overflow give what the definition gives."""
    if dtype is np.float32:
        scale = max(min(scale, 1e37), 1e-45)
    X, y, w = problem(40, 9)
    X = (X * scale).astype(dtype)
    w = w / max(scale, 1e-280)  # margins of ordinary size, where the type allows it
    kernel = _kernels.DenseRows(X, y, 1.0)
    out = np.empty(10)
    loss = kernel.gradient(0, 40, LOGISTIC, w, np.inf, np.inf, out)
    rows = twin.rows_with_intercept(X, None, 1.0)
    expected, expected_loss = twin.clipped_gradient(rows, y, w, Loss("logistic"), np.inf, np.inf)
    largest = np.abs(rows).max(axis=0)
    np.testing.assert_allclose(out / largest, expected / largest, rtol=0, atol=1e-12)
    assert loss == pytest.approx(expected_loss, rel=1e-12)
    assert np.all(out[:9] != 0.0)  # never a silent zero


def test_margins_that_overflow_are_an_error_not_a_number(isa):
    X = np.full((8, 4), 1e200)
    kernel = _kernels.DenseRows(X, np.ones(8), 0.0)
    with pytest.raises(FloatingPointError, match="too large for float64"):
        kernel.margins(0, 8, np.full(4, 1e200), np.empty(8))
    with pytest.raises(FloatingPointError):
        kernel.gradient(0, 8, LOGISTIC, np.array([1e200, -1e200, 0, 0]), 1.0, 1.0, np.empty(4))


@pytest.mark.parametrize("name", _kernels.supported_isas())
def test_summation_error_is_within_the_stated_bound(name):
    before = _kernels.isa_name()
    _kernels.force_isa(name)
    try:
        X, y, w = problem(20_000, 3, scale=5.0)
        X += 100.0  # all terms of one sign: the worst case for rounding
        y[:] = 1.0
        w[:] = -0.001
        kernel = _kernels.DenseRows(X, y, 0.0)
        out = np.empty(3)
        kernel.gradient(0, len(X), LOGISTIC, w[:3], np.inf, np.inf, out)
        margins = np.empty(len(X))
        kernel.margins(0, len(X), w[:3], margins)
        _, derivative, _ = LOGISTIC.points(margins, y)
        for j in range(3):
            terms = derivative * X[:, j]
            exact = math.fsum(terms)
            depth = _kernels.addition_depth(len(X))
            bound = (depth + 10) * 2.0**-53 * np.abs(terms).sum()
            assert abs(out[j] - exact) <= bound
    finally:
        _kernels.force_isa(before)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["X", "w"])
@pytest.mark.parametrize("clip_norm", [np.inf, 0.5])
def test_a_non_finite_number_is_never_clipped_into_a_finite_one(isa, value, where, clip_norm):
    X, y, w = problem(40, 6)
    (X if where == "X" else w).flat[5] = value
    kernel = _kernels.DenseRows(X, y, 1.0)
    kernel.set_inverse_norm(np.ones(40, dtype=np.float32))
    out = np.empty(7)
    with pytest.raises(FloatingPointError, match="NaN or infinity"):
        kernel.gradient(0, 40, LOGISTIC, w, clip_norm, np.inf, out)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_row_norms_refuse_non_finite_rows(isa, value):
    X, y, _ = problem(10, 6)
    X[7, 5] = value
    kernel = _kernels.DenseRows(X, y, 0.0)
    with pytest.raises(FloatingPointError):
        kernel.row_norms(0, 10, np.empty(10))
    kernel.row_norms(0, 7, np.empty(7))


@pytest.mark.parametrize("scale", [1.0, 1e-160, 1e-308, 5e-324, 1e160, 1e300])
@pytest.mark.parametrize("d", [1, 3, 17])
def test_row_norms_are_upper_bounds_at_any_scale(isa, scale, d):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (50, d)) * scale
    X[0] = 0.0
    norms = np.empty(50)
    _kernels.DenseRows(X, np.ones(50), 0.0).row_norms(0, 50, norms)
    with mpmath.workdps(60):
        for row, norm in zip(X, norms, strict=True):
            exact = mpmath.sqrt(mpmath.fsum(mpmath.mpf(float(v)) ** 2 for v in row))
            assert mpmath.mpf(float(norm)) >= exact
            assert norm <= float(exact) * (1 + (d + 16) * 2.0**-52) + 1e-323


def ulps(got, exact):
    """Distance of a float64 from an exact value in units of the last place."""
    return float(abs(mpmath.mpf(float(got)) - exact) / mpmath.mpf(float(np.spacing(float(exact)))))


def test_exp_is_accurate_to_two_ulp(isa):
    rng = np.random.default_rng(4)
    x = np.concatenate(
        [
            rng.uniform(-707, 708, 1000),
            rng.uniform(-2, 2, 1000),
            10.0 ** rng.uniform(-300, 0, 200),
            [0.0, -0.0, math.log(2), -math.log(2) / 2, 709.0, -708.0],
        ]
    )
    got = _kernels.exp_points(x)
    with mpmath.workdps(40):
        assert (
            max(ulps(g, mpmath.exp(mpmath.mpf(float(v)))) for g, v in zip(got, x, strict=True))
            <= 2.0
        )
    special = _kernels.exp_points(np.array([np.nan, np.inf, -np.inf, 1e300, -1e300]))
    assert np.isnan(special[0])
    assert special[1] == special[3] > 8e307
    assert 0 < special[2] == special[4] < 4e-308


@pytest.mark.parametrize("target", [-1.0, 1.0])
def test_logistic_is_accurate_to_four_ulp(target):
    rng = np.random.default_rng(5)
    margin = np.concatenate(
        [rng.uniform(-700, 700, 200), rng.uniform(-40, 40, 400), rng.uniform(-1, 1, 200),
         [0.0, 37.0, -37.0, 1e-20, -1e-20]]
    )  # fmt: skip
    value, derivative, curvature = LOGISTIC.points(margin, np.full(len(margin), target))
    with mpmath.workdps(40):
        for i, z in enumerate(margin):
            m = mpmath.mpf(float(target * z))
            e = mpmath.exp(-abs(m))
            tail = (1 if m < 0 else e) / (1 + e)
            assert ulps(value[i], max(-m, 0) + mpmath.log1p(e)) <= 4
            assert ulps(derivative[i], -target * tail) <= 4
            assert ulps(curvature[i], e / (1 + e) ** 2) <= 6


@pytest.mark.parametrize("target", [-1.0, 1.0])
def test_logistic_derivatives_of_a_block_are_accurate_to_four_ulp(isa, target):
    """As the gradient has them, in vectors: of the rows of the identity."""
    rng = np.random.default_rng(6)
    margin = np.concatenate(
        [rng.uniform(-700, 700, 100), rng.uniform(-40, 40, 200), rng.uniform(-1, 1, 100),
         [0.0, 37.0, -37.0, 1e-20, -1e-20]]
    )  # fmt: skip
    n = len(margin)
    kernel = _kernels.DenseRows(np.eye(n), np.full(n, target), 0.0)
    derivative = np.empty(n)
    kernel.gradient(0, n, LOGISTIC, margin, np.inf, np.inf, derivative)
    with mpmath.workdps(40):
        for got, z in zip(derivative, margin, strict=True):
            assert ulps(got, -target / (1 + mpmath.exp(mpmath.mpf(float(target * z))))) <= 4


@pytest.mark.parametrize("n", [1, 7, 8, 9, 511, 512, 513, 1500])
@pytest.mark.parametrize("n_steps", [1, 4, 7])
def test_logistic_line_search_on_blocks_of_any_length(isa, n, n_steps):
    """Rows that fill up the last vector, and steps the last group, add nothing."""
    rng = np.random.default_rng(n)
    m, q = rng.normal(0, 3, n), rng.normal(0, 3, n)
    y = rng.choice([-1.0, 1.0], n)
    # From -1 to far beyond every clip, on either side, up to where exp would overflow.
    steps = rng.uniform(-2, 2, n_steps) * 10.0 ** np.arange(n_steps)
    steps[0] /= 10.0
    # Beside the bounds between which products of factors take the losses.
    for clip in (np.inf, 16.1, 15.9, 3.0, 0.8, 0.13, 0.12, 1e-300):
        got = np.empty(n_steps)
        _kernels.line_search(m, q, y, None, LOGISTIC, clip, steps, got)
        for k, step in enumerate(steps):
            t = y * (m - step * q)
            losses = np.maximum(-t, 0) + np.log1p(np.exp(-np.abs(t)))
            assert got[k] == pytest.approx(math.fsum(np.minimum(losses, clip)), rel=1e-11)


def test_a_logistic_line_search_refuses_what_is_not_finite(isa):
    for bad in (np.nan, np.inf):
        for row in (0, 7, 8, 19):
            m = np.zeros(20)
            m[row] = bad
            with pytest.raises(FloatingPointError, match="line search"):
                _kernels.line_search(
                    m, np.ones(20), -np.ones(20), None, LOGISTIC, np.inf, np.ones(3), np.empty(3)
                )


def test_logistic_extremes_are_finite_and_nan_stays_nan(isa):
    margin = np.array([1e300, -1e300, 745.0, -745.0, np.nan, np.inf])
    value, derivative, curvature = LOGISTIC.points(margin, np.ones(6))
    np.testing.assert_allclose(value[:4], [0, 1e300, 0, 745], atol=1e-300)
    np.testing.assert_allclose(derivative[:4], [0, -1, 0, -1], atol=1e-300)
    assert np.all(curvature[:4] < 1e-300)
    assert np.isnan(value[4]) and np.isnan(derivative[4]) and np.isnan(curvature[4])


@pytest.mark.parametrize("loss_clip", [1e-300, 1e-8, 0.3, 40.0, 800.0, np.inf])
def test_loss_clip_at_any_size(isa, loss_clip):
    z = np.array([-1e4, -900.0, -50.0, -1.0, 0.0, 1.0, 50.0, 800.0])
    X = z[:, None].copy()
    kernel = _kernels.DenseRows(X, np.ones(8), 0.0)
    got = kernel.objective(0, 8, LOGISTIC, np.ones(1), loss_clip)
    expected = math.fsum(min(max(-v, 0) + math.log1p(math.exp(-abs(v))), loss_clip) for v in z)
    assert got == pytest.approx(expected, rel=1e-12)


@settings(max_examples=50)
@given(
    n=st.integers(1, 40),
    d=st.integers(1, 40),
    padding=st.integers(0, 5),
    seed=st.integers(0, 2**32 - 1),
    exponent=st.floats(-8, 3),
)
def test_random_shapes_strides_and_scales(n, d, padding, seed, exponent):
    X, y, w = problem(n, d, seed, 10.0**exponent)
    wide = np.full((n, d + padding), np.nan)
    wide[:, :d] = X
    strided = wide[:, :d]
    strided.flags.writeable = False
    kernel = _kernels.DenseRows(strided, y, 1.0)
    out = np.empty(d + 1)
    loss = kernel.gradient(0, n, LOGISTIC, w, np.inf, np.inf, out)
    rows = twin.rows_with_intercept(X, None, 1.0)
    expected, expected_loss = twin.clipped_gradient(rows, y, w, Loss("logistic"), np.inf, np.inf)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-12 * (1 + np.abs(rows).sum()))
    assert loss == pytest.approx(expected_loss, rel=1e-12)


def test_arguments_are_checked():
    X, y, w = problem(10, 4)
    with pytest.raises(ValueError, match="contiguous rows"):
        _kernels.DenseRows(np.asfortranarray(X), y)
    with pytest.raises(ValueError, match="at least one row"):
        _kernels.DenseRows(np.empty((0, 4)), np.empty(0))
    with pytest.raises(ValueError, match="one after another"):
        _kernels.DenseRows(X[::-1], y)
    kernel = _kernels.DenseRows(X, y, 1.0)
    with pytest.raises(ValueError, match=r"out must have shape \(10 or more, 5\)"):
        kernel.curvature_rows(0, 10, LOGISTIC, w, np.empty((9, 5)))
    with pytest.raises(ValueError, match="does not exist"):
        _kernels.LossSpec(99)
    with pytest.raises(ValueError, match="float64 or float32; got int64"):
        _kernels.DenseRows(X.astype(np.int64), y)
    with pytest.raises(ValueError, match="name must be one of"):
        _kernels.force_isa("neon9")


def test_the_stub_names_everything():
    """The hand-written types must not fall behind the extension."""
    stub = Path(_kernels.__file__).parent / "_kernels.pyi"
    tree = ast.parse(stub.read_text())
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    named = {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    named |= {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign)}
    assert {n for n in named if not n.startswith("_")} == {
        n for n in vars(_kernels) if not n.startswith("_") and n != "np"
    }

    def methods(node):
        own = {n.name for n in node.body if isinstance(n, ast.FunctionDef)} - {"__init__"}
        return own.union(*(methods(classes[b.id]) for b in node.bases if b.id in classes))

    for name, node in classes.items():
        if not name.startswith("_") and name != "LayoutError":
            kind = getattr(_kernels, name)
            actual = {n for n in dir(kind) if not n.startswith("_") and callable(getattr(kind, n))}
            assert methods(node) == actual, name


def test_read_sum(isa):
    x = np.arange(1001.0)
    assert _kernels.read_sum(x) == 500500.0
    assert _kernels.read_sum(np.empty(0)) == 0.0
