"""Affine maps of rows and quadratic forms, against whole arrays, on every instruction set."""

import numpy as np
import pytest
import scipy.sparse

from dpfast import _kernels

SHAPES = [(1, 1), (3, 2), (5, 7), (40, 8), (33, 17), (9, 65), (2, 1030)]


def table(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32).astype(np.float64)
    X[rng.random((n, d)) < 0.4] = 0.0
    return X, rng.uniform(0.2, 1.0, n), rng.standard_normal((2, d + 1))


def kernels(X, scale, intercept):
    y, csr = np.ones(len(X)), scipy.sparse.csr_array(X)
    yield _kernels.DenseRows(X, y, intercept)
    yield _kernels.DenseRows(X.astype(np.float32), y, intercept)
    for indices in (np.int32, np.int64, np.uint16):
        for values in (np.float64, np.float32):
            yield _kernels.CsrRows(
                csr.indptr, csr.indices.astype(indices), csr.data.astype(values), X.shape[1], y,
                intercept,
            )  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("intercept", [0.0, 0.5])
def test_affine_rows_are_those_of_the_array(isa, shape, intercept):
    X, scale, (factor, shift) = table(*shape)
    n, d = shape
    whole = np.column_stack([X * scale[:, None], np.full(n, intercept)])
    for kernel in kernels(X, scale, intercept):
        kernel.set_row_scale(scale)
        for columns in {d, kernel.dim}:
            expected = whole[:, :columns] * factor[:columns] + shift[:columns]
            out, squares = np.empty((n, columns)), np.empty(n)
            arguments = (kernel, 0, n, factor[:columns].copy(), shift[:columns].copy())
            if isinstance(kernel, _kernels.DenseRows):
                to = _kernels.RowMap(factor=arguments[3], shift=arguments[4])
                _kernels.coordinates(kernel, 0, n, to, squares, out)
            else:
                _kernels.affine_rows(*arguments, out, squares)
            np.testing.assert_allclose(out, expected, rtol=0, atol=1e-15)
            np.testing.assert_allclose(squares, np.square(expected).sum(axis=1), rtol=1e-13)
            if isinstance(kernel, _kernels.DenseRows):
                narrow = np.empty((n, columns), dtype=np.float32)
                _kernels.affine_rows_float(*arguments, narrow)
                np.testing.assert_array_equal(narrow, out.astype(np.float32))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("radius", [0.5, 3.0, 1e3])
@pytest.mark.parametrize("kinds", [2, 3])
def test_part_sums_are_those_of_the_array(isa, shape, radius, kinds):
    X, scale, (factor, shift) = table(*shape)
    n, d = shape
    factor, shift, share = factor[:d].copy(), shift[:d].copy(), scale**2
    z = X * scale[:, None] * factor + shift
    shortened = np.minimum(1.0, radius / np.linalg.norm(z, axis=1))
    z *= shortened[:, None]
    parts = [np.maximum(z, 0.0), np.maximum(-z, 0.0), z**2][:kinds]
    for kernel in kernels(X, scale, 0.5):
        kernel.set_row_scale(scale)
        if isinstance(kernel, _kernels.CsrRows):
            found = np.empty(n)
            _kernels.shortening(kernel, 0, n, factor, shift, radius, found)
            assert np.all(found <= shortened)
            np.testing.assert_allclose(found, shortened, rtol=1e-11)
        for weights in (None, share):
            first = n // 3
            out = np.ones((kinds, d))
            counted = np.ones(n) if weights is None else weights
            expected = [1.0 + counted[first:] @ part[first:] for part in parts]
            own = None if weights is None else weights[first:].copy()
            _kernels.part_sums(kernel, first, n, factor, shift, radius, own, out)
            np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("intercept", [0.0, 0.5])
def test_quadratic_forms_and_entries_are_those_of_the_array(isa, shape, intercept):
    X, scale, _ = table(*shape)
    n, d = shape
    rng = np.random.default_rng(1)
    for kernel in kernels(X, scale, intercept):
        if isinstance(kernel, _kernels.DenseRows):
            continue
        root = rng.standard_normal((kernel.dim, 3))
        kernel.set_row_scale(scale)
        rows = np.column_stack([X * scale[:, None], np.full(n, intercept)])[:, : kernel.dim]
        forms = np.empty(n)
        _kernels.quadratic_forms(kernel, 0, n, root @ root.T, forms)
        np.testing.assert_allclose(forms, np.square(rows @ root).sum(axis=1), rtol=1e-11)
        offsets, columns, values = kernel.entries(n // 2, n)
        found = scipy.sparse.csr_array((values, columns, offsets), shape=(n - n // 2, d))
        np.testing.assert_array_equal(found.toarray(), rows[n // 2 :, :d])


def test_entries_of_indicators_are_ones():
    indptr, indices = np.array([0, 1, 3], dtype=np.int32), np.array([1, 0, 1], dtype=np.int32)
    kernel = _kernels.CsrRows(indptr, indices, None, 2, np.ones(2))
    offsets, columns, values = kernel.entries(1, 2)
    assert (offsets.tolist(), columns.tolist(), values.tolist()) == ([0, 2], [0, 1], [1.0, 1.0])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scaled", [False, True])
def test_column_counts_are_those_of_a_histogram(shape, scaled):
    X, scale, _ = table(*shape)
    n, d = shape
    columns = np.arange(d)[::2][::-1]
    slot = np.full(d, -1, dtype=np.intp)
    slot[columns] = np.arange(len(columns))
    low, high, bins = np.linspace(-0.7, 0.2, len(columns)), np.ones(len(columns)), 5
    share, first = np.linspace(0.25, 1.0, n), n // 3
    for kernel in kernels(X, scale, 0.5):
        kernel.set_row_scale(scale if scaled else None)
        whole = X * scale[:, None] if scaled else X
        for weights in (None, share):
            out = np.ones((len(columns), bins))
            own = None if weights is None else weights[first:].copy()
            per_bin = bins / (high - low)
            _kernels.column_counts(kernel, first, n, slot, low, per_bin, own, out)
            for line, column in enumerate(columns):
                inside = np.clip(whole[first:, column], low[line], high[line])
                ends = (low[line], high[line])
                counts, _ = np.histogram(inside, bins, ends, weights=own)
                np.testing.assert_allclose(out[line], 1.0 + counts, rtol=1e-14)


def test_what_is_far_away_is_in_the_outer_bins():
    X = np.array([[-1e300], [1e300], [np.inf], [-np.inf], [0.5]])
    out = np.zeros((1, 4))
    kernel, slot = _kernels.DenseRows(X, np.ones(5)), np.zeros(1, dtype=np.intp)
    _kernels.column_counts(kernel, 0, 5, slot, np.zeros(1), np.full(1, 4.0), None, out)
    assert out.tolist() == [[2.0, 0.0, 1.0, 2.0]]


def test_what_is_not_finite_is_refused(isa):
    X = np.array([[1.0, np.inf]])
    for kernel in (
        _kernels.DenseRows(X, np.ones(1)),
        _kernels.DenseRows(X.astype(np.float32), np.ones(1)),
    ):
        with pytest.raises(FloatingPointError, match="NaN or infinity"):
            _kernels.part_sums(kernel, 0, 1, np.ones(2), np.zeros(2), 1.0, None, np.zeros((2, 2)))
    large = scipy.sparse.csr_array([[1e200, 1e200]])
    sparse = _kernels.CsrRows(large.indptr, large.indices, large.data, 2, np.ones(1))
    with pytest.raises(FloatingPointError):
        _kernels.affine_rows(sparse, 0, 1, np.ones(2), np.zeros(2), np.empty((1, 2)), np.empty(1))
    with pytest.raises(FloatingPointError):
        _kernels.quadratic_forms(sparse, 0, 1, np.ones((2, 2)), np.empty(1))
    with pytest.raises(FloatingPointError):
        _kernels.part_sums(sparse, 0, 1, np.ones(2), np.zeros(2), 1.0, None, np.zeros((3, 2)))
    with pytest.raises(FloatingPointError):
        _kernels.shortening(sparse, 0, 1, np.ones(2), np.zeros(2), 1.0, np.empty(1))


def test_arrays_of_another_shape_are_refused():
    X = np.eye(3)
    dense, *_, sparse = kernels(X, None, 0.0)
    ones, out, squares = np.ones(3), np.empty((3, 3)), np.empty(3)
    narrow = np.empty((3, 3), dtype=np.float32)
    with pytest.raises(ValueError, match="outside"):
        _kernels.affine_rows(sparse, 1, 4, ones, ones, out, squares)
    with pytest.raises(ValueError, match="at least one row"):
        _kernels.affine_rows(sparse, 1, 1, ones, ones, out[:0], squares[:0])
    with pytest.raises(ValueError, match="out must have 2 rows"):
        _kernels.affine_rows(sparse, 1, 3, ones, ones, out, squares)
    with pytest.raises(ValueError, match="squares must have 3"):
        _kernels.affine_rows(sparse, 0, 3, ones, ones, out, squares[:2])
    with pytest.raises(ValueError, match="factor and shift must have 3"):
        _kernels.affine_rows(sparse, 0, 3, ones[:2], ones, out, squares)
    with pytest.raises(ValueError, match="1 to 3 columns"):
        _kernels.affine_rows(sparse, 0, 3, np.ones(4), np.ones(4), np.empty((3, 4)), squares)
    with pytest.raises(ValueError, match="factor and shift must have 3"):
        _kernels.affine_rows_float(dense, 0, 3, ones, ones[:2], narrow)
    for shape in ((2, 2), (2, 4), (1, 3), (4, 3)):
        with pytest.raises(ValueError, match=r"out must be of shape \(2 or 3, 3\)"):
            _kernels.part_sums(dense, 0, 3, ones, ones, 1.0, None, np.zeros(shape))
    with pytest.raises(ValueError, match="factor and shift must have 3"):
        _kernels.shortening(sparse, 0, 3, ones[:2], ones, 1.0, np.empty(3))
    with pytest.raises(ValueError, match="out must have 3 entries"):
        _kernels.shortening(sparse, 0, 3, ones, ones, 1.0, np.empty(2))
    slot = np.zeros(3, dtype=np.intp)
    with pytest.raises(ValueError, match="as many entries, 1 or more, as out has lines"):
        _kernels.column_counts(dense, 0, 3, slot, ones, ones, None, np.zeros((2, 4)))
    with pytest.raises(ValueError, match="slot must have 3 entries"):
        _kernels.column_counts(dense, 0, 3, slot[:2], ones, ones, None, out)
    with pytest.raises(ValueError, match="share must have 3 entries"):
        _kernels.column_counts(dense, 0, 3, slot, ones, ones, ones[:2], out)
    for kernel in (dense, sparse):
        with pytest.raises(ValueError, match="outside its documented range"):
            _kernels.column_counts(kernel, 0, 3, slot + 3, ones, ones, None, out)
    for radius in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="radius must be positive"):
            _kernels.part_sums(dense, 0, 3, ones, ones, radius, None, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="share must have 3 entries"):
        _kernels.part_sums(dense, 0, 3, ones, ones, 1.0, ones[:2], np.zeros((2, 3)))
    with pytest.raises(ValueError, match="must have 3 entries"):
        _kernels.quadratic_forms(sparse, 0, 3, np.ones((2, 3)), squares)
    with pytest.raises(ValueError, match="matrix must have 3 columns"):
        _kernels.quadratic_forms(sparse, 0, 3, np.ones((3, 2)), squares)
    with pytest.raises(ValueError, match="out must have 2 entries"):
        _kernels.quadratic_forms(sparse, 1, 3, np.eye(3), squares)
    with pytest.raises(ValueError, match="outside"):
        sparse.entries(0, 4)
    with pytest.raises(TypeError, match="DenseRows or CsrRows"):
        _kernels.column_counts(X, 0, 3, np.zeros(3, dtype=np.intp), ones, ones, None, out)
