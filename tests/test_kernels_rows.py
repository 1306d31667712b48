"""What rows have in common whatever their layout, on every instruction set."""

import numpy as np
import pytest
import scipy.sparse

from dpfast import Loss, _kernels

LOGISTIC = Loss("logistic").spec
SETTERS = [("row_scale", np.float64), ("weight", np.float64), ("inverse_norm", np.float32)]


@pytest.fixture(params=["dense", "sparse", "codes"])
def rows_of(request):
    """Rows of an array in one of the layouts, with a constant column of ones."""

    def make(X, y):
        if request.param == "dense":
            return _kernels.DenseRows(X, y, 1.0)
        if request.param == "sparse":
            A = scipy.sparse.csr_array(X)
            return _kernels.CsrRows(A.indptr, A.indices, A.data, X.shape[1], y, 1.0)
        parts = _kernels.CodedParts([(column.copy(), None) for column in X.T])
        return _kernels.CodedRows(parts, 0, len(X), y, 1.0)

    return make


def problem(n, d, scale=1.0):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, d)) < 0.6, rng.standard_normal((n, d)) * scale, 0.0)
    return X, rng.choice([-1.0, 1.0], n), rng.standard_normal(d + 1) / np.sqrt(d + 1)


def test_clipping_bounds_every_single_row(isa, rows_of):
    """One row alone is exactly the per-row gradient, so its norm must respect the bound."""
    X, y, w = problem(64, 9, scale=30.0)
    kernel, norms = rows_of(X, y), np.empty(64)
    kernel.row_norms(0, 64, norms)
    inverse = (1.0 / np.hypot(norms, 1.0)).astype(np.float32)
    kernel.set_inverse_norm(np.nextafter(inverse, np.float32(0)))
    for i in range(64):
        out = np.empty(10)
        loss = kernel.gradient(i, i + 1, LOGISTIC, 10 * w, 0.25, 2.0, out)
        assert np.linalg.norm(out) <= 0.25 * (1 + 1e-14)
        assert loss <= 2.0 * (1 + 1e-15)


def test_row_ranges_add_up(isa, rows_of):
    X, y, w = problem(1700, 20)
    kernel = rows_of(X, y)
    weight, scale = np.random.default_rng(1).uniform(0.5, 1.0, (2, 1700))
    kernel.set_weight(weight)
    kernel.set_row_scale(scale)
    whole, first, second = (np.empty(21) for _ in range(3))
    total = kernel.gradient(0, 1700, LOGISTIC, w, np.inf, np.inf, whole)
    parts = kernel.gradient(0, 333, LOGISTIC, w, np.inf, np.inf, first)
    parts += kernel.gradient(333, 1700, LOGISTIC, w, np.inf, np.inf, second)
    assert total == pytest.approx(parts, rel=1e-14)
    np.testing.assert_allclose(whole, first + second, atol=1e-12)
    margins, tail = np.empty(1700), np.empty(1367)
    kernel.margins(0, 1700, w, margins)
    kernel.margins(333, 1700, w, tail)
    np.testing.assert_allclose(margins[333:], tail, atol=1e-13)
    assert kernel.objective(333, 1700, LOGISTIC, w, np.inf) == pytest.approx(
        float(weight[333:] @ np.logaddexp(0.0, -y[333:] * tail)), rel=1e-12
    )


def test_no_rows_have_sums_of_zero(rows_of):
    X, y, w = problem(10, 4)
    kernel, out = rows_of(X, y), np.empty(5)
    assert kernel.gradient(5, 5, LOGISTIC, w, np.inf, np.inf, out) == 0.0
    assert not out.any()
    kernel.margins(3, 3, w, np.empty(0))
    kernel.row_norms(10, 10, np.empty(0))


def test_arguments_are_checked(rows_of):
    X, y, w = problem(10, 4)
    with pytest.raises(ValueError, match="target must have 10"):
        rows_of(X, y[:9])
    kernel, out = rows_of(X, y), np.empty(5)
    for call, text in (
        (lambda: kernel.gradient(0, 10, LOGISTIC, w[:4], 1.0, 1.0, out), "w must have 5"),
        (lambda: kernel.objective(0, 10, LOGISTIC, w[:4], 1.0), "w must have 5"),
        (lambda: kernel.margins(0, 10, w[:4], np.empty(10)), "w must have 5"),
        (lambda: kernel.gradient(0, 10, LOGISTIC, w, 1.0, 1.0, out[:4]), "out must have 5"),
        (lambda: kernel.margins(0, 10, w, np.empty(9)), "out must have 10"),
        (lambda: kernel.row_norms(0, 10, np.empty(11)), "out must have 10"),
        (lambda: kernel.gradient(0, 10, LOGISTIC, w, 0.0, np.inf, out), "documented range"),
        (lambda: kernel.gradient(0, 10, LOGISTIC, w, np.inf, 0.0, out), "documented range"),
        (lambda: kernel.objective(0, 10, LOGISTIC, w, np.nan), "documented range"),
        (lambda: kernel.gradient(-1, 9, LOGISTIC, w, 1.0, 1.0, out), r"rows \[-1, 9\)"),
        (lambda: kernel.objective(5, 4, LOGISTIC, w, np.inf), r"rows \[5, 4\)"),
        (lambda: kernel.margins(3, 11, w, np.empty(8)), r"rows \[3, 11\)"),
        (lambda: kernel.row_norms(3, 11, np.empty(8)), r"rows \[3, 11\)"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError):
        kernel.gradient(0, 10, None, w, np.inf, np.inf, out)
    with pytest.raises(TypeError):
        kernel.margins(0, 10, None, np.empty(10))
    for name, dtype in SETTERS:
        setter = getattr(kernel, f"set_{name}")
        with pytest.raises(ValueError, match=f"{name} must have 10 entries; got 9"):
            setter(np.ones(9, dtype=dtype))
        setter(np.ones(10, dtype=dtype))
        setter(None)


@pytest.mark.parametrize("name, dtype", SETTERS)
def test_epochs_read_what_was_set_last(rows_of, name, dtype):
    X, y, w = problem(10, 4)
    kernel, out, moved = rows_of(X, y), np.empty(5), w.copy()
    clip_norm = 0.01 if name == "inverse_norm" else np.inf
    getattr(kernel, f"set_{name}")(np.linspace(0.1, 0.5, 10).astype(dtype))
    kernel.gradient(7, 8, LOGISTIC, w, clip_norm, np.inf, out)
    assert out.any()
    _kernels.private_epoch(
        kernel, LOGISTIC, moved, 1.0, sampling="given", noise="none", indices=np.array([7]),
        batch_start=np.array([0, 1]), divisor=1.0, clip_norm=clip_norm,
    )  # fmt: skip
    np.testing.assert_allclose(moved, w - out, rtol=1e-13)
