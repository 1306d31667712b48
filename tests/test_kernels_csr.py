"""The sparse kernels against their densified twins, on every instruction set."""

import gc
import math
import weakref

import mpmath
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import csr as sparse_twin
from reference import dense as twin

from dpfast import Loss, _kernels

LOGISTIC = Loss("logistic").spec
LOSSES = [Loss("logistic"), Loss("huberized-hinge"), Loss("squared"), Loss("sigmoid")]
INDEX_TYPES = [np.int32, np.int64, np.uint16]
VALUE_TYPES = [np.float64, np.float32, None]

# (n, d, share of stored entries): one row, one column, n beside the rows of a block (512), blocks
# cut by their entries (2048), rows longer than a block, no entries at all.
SHAPES = [
    (1, 1, 1.0), (1, 7, 0.5), (5, 1, 0.6), (40, 30, 0.2), (513, 4, 0.5), (1025, 3, 0.1),
    (300, 40, 0.9), (3, 2500, 0.95), (17, 600, 0.01), (9, 5, 0.0),
]  # fmt: skip


def problem(n, d, density, seed=0, value_type=np.float64, index_type=np.int32, scale=1.0):
    """Sparse arrays (data None: ones), targets and weights; some rows and columns are empty."""
    rng = np.random.default_rng(seed)
    stored = rng.random((n, d)) < density
    if n > 2:
        stored[[0, n // 2]] = False
    if d > 2:
        stored[:, d // 2] = False
    indptr = np.concatenate([[0], np.cumsum(stored.sum(axis=1))]).astype(np.int32)
    indices = np.nonzero(stored)[1].astype(index_type)
    values = rng.standard_normal(len(indices)) * scale
    data = None if value_type is None else values.astype(value_type)
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    w = rng.standard_normal(d + 1) / math.sqrt(d + 1)
    return indptr, indices, data, y, w


# Each value type with each index type, and each of both plain and not.
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "value_type, index_type, plain",
    [
        (value_type, index_type, (i + j) % 2 == 0)
        for i, value_type in enumerate(VALUE_TYPES)
        for j, index_type in enumerate(INDEX_TYPES)
    ],
)
def test_all_methods_match_the_twin(isa, shape, value_type, index_type, plain):
    n, d, density = shape
    indptr, indices, data, y, w = problem(n, d, density, 0, value_type, index_type)
    if index_type == np.int64:
        indptr = indptr.astype(np.int64)
    rng = np.random.default_rng(1)
    intercept = 0.0 if plain else 0.5
    row_scale = None if plain else rng.uniform(0.2, 1.0, n)
    weight = None if plain else rng.uniform(0.0, 2.0, n)
    w = w[: d + (not plain)]
    dense = sparse_twin.densify(indptr, indices, data, d)
    rows = twin.rows_with_intercept(dense, row_scale, intercept)
    kernel = _kernels.CsrRows(indptr, indices, data, d, y, intercept)
    assert (kernel.n_samples, kernel.n_features, kernel.dim) == (n, d, rows.shape[1])
    assert kernel.n_stored == len(indices)
    kernel.set_row_scale(row_scale)
    kernel.set_weight(weight)
    clip_norm, loss_clip = np.inf, np.inf
    if not plain:
        clip_norm, loss_clip = 0.4 * math.sqrt(d), 0.6
        inverse = 1.0 / np.linalg.norm(rows, axis=1)
        kernel.set_inverse_norm(inverse.astype(np.float32))
    if d < 1000:
        twin.check(kernel, rows, y, w, Loss("logistic"), clip_norm, loss_clip, weight)
    else:  # a Hessian of this size would take long
        out = np.empty(kernel.dim)
        total = kernel.gradient(0, n, LOGISTIC, w, clip_norm, loss_clip, out)
        expected, expected_loss = twin.clipped_gradient(
            rows, y, w, Loss("logistic"), clip_norm, loss_clip, weight
        )
        np.testing.assert_allclose(out, expected, rtol=0, atol=2e-7 * n)
        assert total == pytest.approx(expected_loss, rel=1e-13)
    norms = np.empty(n)
    kernel.row_norms(0, n, norms)
    np.testing.assert_allclose(norms, np.linalg.norm(dense, axis=1), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_losses_with_slopes_of_either_sign_of_curvature(isa, loss):
    indptr, indices, data, y, w = problem(700, 12, 0.4)
    weight = np.random.default_rng(3).uniform(0.0, 2.0, 700)
    kernel = _kernels.CsrRows(indptr, indices, data, 12, y, 1.0)
    kernel.set_weight(weight)
    rows = twin.rows_with_intercept(sparse_twin.densify(indptr, indices, data, 12), None, 1.0)
    twin.check(kernel, rows, y, w, loss, np.inf, np.inf, weight)


def test_dense_and_sparse_kernels_agree_on_clipping(isa):
    """The same clipped rows in both layouts, to a few roundings and not only to float32."""
    indptr, indices, data, y, w = problem(800, 20, 0.5, scale=3.0)
    dense = sparse_twin.densify(indptr, indices, data, 20)
    results = []
    for kernel in (
        _kernels.DenseRows(dense, y, 1.0),
        _kernels.CsrRows(indptr, indices, data, 20, y, 1.0),
        _kernels.CsrRows(indptr, indices, data, 20, y, 1.0, compact=True),
    ):
        norms, out = np.empty(800), np.empty(21)
        kernel.row_norms(0, 800, norms)
        kernel.set_inverse_norm((1.0 / np.hypot(norms, 1.0)).astype(np.float32))
        loss = kernel.gradient(0, 800, LOGISTIC, w, 0.3, 1.0, out)
        results.append(np.concatenate([out, [loss]]))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(results[2], results[1])


def test_ones_are_dropped_and_compact_indices_copied(isa):
    indptr, indices, _, y, w = problem(400, 30, 0.3)
    ones = np.ones(len(indices))
    explicit = ones.copy()
    explicit[0] = 1.0 + 2**-52
    implicit = _kernels.CsrRows(indptr, indices, ones, 30, y, 1.0)
    compact = _kernels.CsrRows(indptr, indices, ones.astype(np.float32), 30, y, 1.0, compact=True)
    stored = _kernels.CsrRows(indptr, indices, explicit, 30, y, 1.0)
    assert implicit.nbytes == indptr.nbytes + indices.nbytes
    assert compact.nbytes == indptr.nbytes + indices.nbytes // 2
    assert stored.nbytes == indptr.nbytes + indices.nbytes + ones.nbytes
    results = []
    for kernel in (implicit, compact, stored):
        out = np.empty(31)
        kernel.gradient(0, 400, LOGISTIC, w, np.inf, np.inf, out)
        results.append(out)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], results[2], rtol=1e-13)
    # 65,536 columns are the last that uint16 can name.
    for d, width in ((65536, 2), (65537, 4)):
        last = np.array([0, d - 1], dtype=np.int32)
        wide = _kernels.CsrRows(
            np.array([0, 2], dtype=np.int32), last, None, d, np.ones(1), compact=True
        )
        assert wide.nbytes == 8 + 2 * width
        margin = np.empty(1)
        wide.margins(0, 1, np.arange(d, dtype=np.float64), margin)
        assert margin[0] == d - 1


def test_arrays_are_kept_alive_and_never_written_to(isa):
    indptr, indices, data, y, w = problem(50, 6, 0.5)
    expected = np.empty(7)
    _kernels.CsrRows(indptr, indices, data, 6, y, 1.0).gradient(
        0, 50, LOGISTIC, w, np.inf, np.inf, expected
    )
    arrays = [a.copy() for a in (indptr, indices, data, y)]
    for array in arrays:
        array.flags.writeable = False
    reference = weakref.ref(arrays[1])
    kernel = _kernels.CsrRows(*arrays[:3], 6, arrays[3], 1.0)
    del arrays, array
    gc.collect()
    assert reference() is not None
    out = np.empty(7)
    kernel.gradient(0, 50, LOGISTIC, w, np.inf, np.inf, out)
    np.testing.assert_array_equal(out, expected)


def test_hessians_of_row_ranges_add_up(isa):
    indptr, indices, data, y, w = problem(1700, 20, 0.3)
    kernel = _kernels.CsrRows(indptr, indices, data, 20, y, 1.0)
    at_once, piecewise = np.zeros((21, 21)), np.zeros((21, 21))
    kernel.add_hessian(0, 1700, LOGISTIC, w, at_once)
    kernel.add_hessian(0, 1001, LOGISTIC, w, piecewise)
    kernel.add_hessian(1001, 1700, LOGISTIC, w, piecewise)
    np.testing.assert_allclose(piecewise, at_once, atol=1e-12)


def test_summation_error_is_within_the_stated_bound(isa):
    n = 20_000
    rng = np.random.default_rng(2)
    indptr = np.arange(0, 2 * n + 1, 2, dtype=np.int32)
    indices = np.tile(np.array([0, 2], dtype=np.int32), n)
    data = 100.0 + rng.standard_normal(2 * n)  # all terms of one sign: the worst case for rounding
    y, w = np.ones(n), np.full(3, -0.001)
    kernel = _kernels.CsrRows(indptr, indices, data, 3, y)
    out, margins = np.empty(3), np.empty(n)
    kernel.gradient(0, n, LOGISTIC, w, np.inf, np.inf, out)
    kernel.margins(0, n, w, margins)
    _, derivative, _ = LOGISTIC.points(margins, y)
    for j, column in ((0, data[0::2]), (2, data[1::2])):
        terms = derivative * column
        bound = (_kernels.addition_depth(n) + 10) * 2.0**-53 * np.abs(terms).sum()
        assert abs(out[j] - math.fsum(terms)) <= bound
    assert out[1] == 0.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("value_type", [np.float64, np.float32])
def test_non_finite_data_is_refused(value, value_type):
    indptr, indices, data, y, _ = problem(40, 6, 0.5, value_type=value_type)
    for k in (0, len(data) // 2, len(data) - 1):
        bad = data.copy()
        bad[k] = value
        with pytest.raises(FloatingPointError, match="NaN or infinity"):
            _kernels.CsrRows(indptr, indices, bad, 6, y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 3, 6])
@pytest.mark.parametrize("clip", [np.inf, 0.5])
def test_non_finite_weights_are_refused_even_of_empty_columns(isa, value, column, clip):
    indptr, indices, data, y, w = problem(40, 6, 0.5)
    assert 3 not in indices
    w[column] = value
    kernel = _kernels.CsrRows(indptr, indices, data, 6, y, 1.0)
    kernel.set_inverse_norm(np.ones(40, dtype=np.float32))
    for call in (
        lambda: kernel.gradient(0, 40, LOGISTIC, w, clip, clip, np.empty(7)),
        lambda: kernel.objective(0, 40, LOGISTIC, w, clip),
        lambda: kernel.margins(0, 40, w, np.empty(40)),
        lambda: kernel.add_hessian(0, 40, LOGISTIC, w, np.zeros((7, 7))),
    ):
        with pytest.raises(FloatingPointError, match="NaN or infinity"):
            call()


def test_margins_too_large_for_float64_are_refused(isa):
    indptr, indices = np.array([0, 1], dtype=np.int32), np.array([0], dtype=np.int32)
    kernel = _kernels.CsrRows(indptr, indices, np.array([1e300]), 1, np.ones(1))
    w = np.array([-1e300])
    with pytest.raises(FloatingPointError):
        kernel.margins(0, 1, w, np.empty(1))
    with pytest.raises(FloatingPointError):
        kernel.objective(0, 1, LOGISTIC, w, np.inf)
    with pytest.raises(FloatingPointError):
        kernel.add_hessian(0, 1, Loss("squared").spec, np.zeros(1), np.zeros((1, 1)))


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e-160, 1e-308, 5e-324, 1e160, 1e300])
@pytest.mark.parametrize("d", [1, 3, 17])
@pytest.mark.parametrize("value_type", [np.float64, np.float32])
def test_row_norms_are_upper_bounds_at_any_scale(isa, scale, d, value_type):
    if value_type == np.float32 and scale > 1e38:
        scale = 1e38
    indptr, indices, data, y, _ = problem(50, d, 0.7, 3)
    data = (np.tanh(data) * scale).astype(value_type)
    norms = np.empty(50)
    _kernels.CsrRows(indptr, indices, data, d, y).row_norms(0, 50, norms)
    with mpmath.workdps(60):
        for i, norm in enumerate(norms):
            row = data[indptr[i] : indptr[i + 1]]
            exact = mpmath.sqrt(mpmath.fsum(mpmath.mpf(float(v)) ** 2 for v in row))
            assert mpmath.mpf(float(norm)) >= exact
            assert norm <= float(exact) * (1 + (len(row) + 16) * 2.0**-52) + 1e-323


@pytest.mark.parametrize("value_type", [np.float64, np.float32])
def test_row_norms_of_implicit_ones_are_those_of_stored_ones(isa, value_type):
    """One entry that was none moved the last bits of all other rows' norms.

    By those rows are scaled, and weights that cancel make a whole margin of them.
    """
    counts = np.arange(400)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = np.concatenate([np.arange(k) for k in counts]).astype(np.int32)
    norms, others = np.empty((2, 400))
    _kernels.CsrRows(indptr, indices, None, 400, np.ones(400)).row_norms(0, 400, norms)
    data = np.ones(len(indices), dtype=value_type)
    data[-1] = 0.5
    _kernels.CsrRows(indptr, indices, data, 400, np.ones(400)).row_norms(0, 400, others)
    np.testing.assert_array_equal(norms[:-1], others[:-1])
    with mpmath.workdps(60):
        for count, norm in zip(counts, norms, strict=True):
            assert mpmath.mpf(float(norm)) >= mpmath.sqrt(int(count))
    np.testing.assert_allclose(norms, np.sqrt(counts), rtol=1e-13)


@settings(max_examples=30)
@given(
    n=st.integers(1, 40),
    d=st.integers(1, 40),
    density=st.floats(0, 1),
    value_type=st.sampled_from(VALUE_TYPES),
    index_type=st.sampled_from(INDEX_TYPES),
    compact=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
    exponent=st.floats(-300, 3),
)
def test_random_matrices(isa, n, d, density, value_type, index_type, compact, seed, exponent):
    scale = 10.0**exponent
    indptr, indices, data, y, w = problem(n, d, density, seed, value_type, index_type, scale)
    kernel = _kernels.CsrRows(indptr, indices, data, d, y, 1.0, compact=compact)
    rows = twin.rows_with_intercept(sparse_twin.densify(indptr, indices, data, d), None, 1.0)
    twin.check(kernel, rows, y, w, Loss("logistic"), np.inf, np.inf, None, rtol=1e-12)


def test_scipy_matrices_pass_once_their_duplicates_are_summed():
    """A repeated column would have the wrong norm: (1, 1) in one column is 2, not sqrt 2."""
    rng = np.random.default_rng(6)
    columns = rng.integers(0, 5, 120)
    X = scipy.sparse.csr_array((np.ones(120), columns, np.arange(0, 121, 4)), shape=(30, 5))
    y, w, out = np.ones(30), rng.standard_normal(5), np.empty(30)
    with pytest.raises(_kernels.LayoutError, match=r"sum_duplicates\(\)"):
        _kernels.CsrRows(X.indptr, X.indices, X.data, 5, y)
    dense = X.toarray()
    X.sum_duplicates()
    kernel = _kernels.CsrRows(X.indptr, X.indices, X.data, 5, y)
    kernel.margins(0, 30, w, out)
    np.testing.assert_allclose(out, dense @ w, atol=1e-13)
    kernel.row_norms(0, 30, out)
    np.testing.assert_allclose(out, np.linalg.norm(dense, axis=1), rtol=1e-14)


def int32(*values):
    return np.array(values, dtype=np.int32)


@pytest.mark.parametrize(
    "indptr",
    [(1, 2, 3), (0, 3, 2), (0, 2, 2), (0, 2, 4), (0, -1, 3), (0, 2**31 - 1, 3), (-1, 2, 3)],
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_bad_indptr_is_refused(indptr, dtype):
    with pytest.raises(ValueError, match="indptr must start at 0, never decrease, and end at 3"):
        _kernels.CsrRows(np.array(indptr, dtype=dtype), int32(0, 1, 0), None, 2, np.ones(2))


@pytest.mark.parametrize("column", [-1, -(2**31), 2, 2**31 - 1])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("compact", [False, True])
def test_columns_outside_the_matrix_are_refused(column, dtype, compact):
    """65536 + 1 would pass for column 1 if it were narrowed to uint16 before the check."""
    for bad in (column, 65537) if dtype == np.int32 else (column, 65537, 2**32, -(2**63)):
        indices = np.array([0, 1, bad], dtype=dtype)
        with pytest.raises(ValueError, match=r"indices must be columns in \[0, 2\)"):
            _kernels.CsrRows(int32(0, 2, 3), indices, None, 2, np.ones(2), compact=compact)


@pytest.mark.parametrize("indices", [(1, 0, 0), (1, 1, 0), (0, 0, 1)])
def test_unsorted_and_repeated_columns_are_refused(indices):
    with pytest.raises(_kernels.LayoutError, match="strictly increasing within each row"):
        _kernels.CsrRows(int32(0, 2, 3), int32(*indices), None, 2, np.ones(2))


def test_arguments_are_checked():
    indptr, indices, data, y, w = problem(10, 4, 0.6)
    rows = _kernels.CsrRows

    with pytest.raises(ValueError, match="indptr must be int32 or int64; got float64"):
        rows(indptr.astype(float), indices, data, 4, y)
    with pytest.raises(ValueError, match="indptr must be int32 or int64; got uint16"):
        rows(indptr.astype(np.uint16), indices, data, 4, y)
    with pytest.raises(ValueError, match="indices must be int32 or int64 or uint16; got uint8"):
        rows(indptr, indices.astype(np.uint8), data, 4, y)
    with pytest.raises(ValueError, match="got >i4"):
        rows(indptr, indices.astype(">i4"), data, 4, y)
    with pytest.raises(ValueError, match="data must be float64 or float32; got float16"):
        rows(indptr, indices, data.astype(np.float16), 4, y)
    with pytest.raises(ValueError, match="data must have one axis"):
        rows(indptr, indices, data[:, None], 4, y)
    with pytest.raises(_kernels.LayoutError, match="data must be contiguous"):
        rows(indptr, indices, np.repeat(data, 2)[::2], 4, y)
    with pytest.raises(ValueError, match=f"data must have {len(indices)} entries"):
        rows(indptr, indices, data[1:], 4, y)
    with pytest.raises(ValueError, match="at least one row"):
        rows(int32(0), int32(), None, 4, np.empty(0))
    with pytest.raises(ValueError, match="at least one row"):
        rows(int32(), int32(), None, 4, np.empty(0))
    with pytest.raises(ValueError, match="at least one row and one column"):
        rows(int32(0, 0), int32(), None, 0, np.ones(1))
    with pytest.raises(ValueError, match="outside its documented range"):
        rows(indptr, indices, data, 4, y, np.nan)
    with pytest.raises(ValueError, match="outside its documented range"):
        rows(indptr, indices, data, 2**62, y)

    kernel = rows(indptr, indices, data, 4, y, 1.0)
    with pytest.raises(ValueError, match=r"out must have shape \(5, 5\)"):
        kernel.add_hessian(0, 10, LOGISTIC, w, np.zeros((5, 4)))
