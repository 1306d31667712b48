"""Problems: validation, row clipping, sums over chunks, rounding-error bounds."""

import copy
import re
import tempfile
import tracemalloc
import warnings
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.sparse
from reference import dense as twin

from dpfast import (
    Budget,
    LogisticRegression,
    Loss,
    PrivacyLeakWarning,
    Problem,
    ProblemShape,
    plan,
)
from dpfast import rows as storage
from dpfast import shape as shapes
from dpfast.blocks import BlockProblem, from_batches
from dpfast.coded import CodedMatrix
from dpfast.errors import ConversionWarning
from dpfast.queries import ClippedGradient, ProductSums, coordinates
from dpfast.shape import BlockSizes


def test_sums_match_the_twin(classification):
    X, y = classification
    problem = Problem(X, y, "logistic", alpha=0.1, data_norm=1.0)
    norms = np.linalg.norm(X, axis=1)
    rows = twin.rows_with_intercept(X, np.minimum(1.0, 1.0 / norms), 1.0)
    w = np.linspace(-1, 1, 7)
    expected, expected_loss = twin.clipped_gradient(rows, y, w, Loss("logistic"), 0.5, 0.8)
    gradient, loss = problem.clipped_gradient(w, 0.5, 0.8)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)
    assert loss == pytest.approx(expected_loss, rel=1e-12)
    assert problem.objective(w, 0.8) == pytest.approx(loss, rel=1e-14)
    np.testing.assert_allclose(problem.margins(w), rows @ w, atol=1e-13)

    expected, expected_loss = twin.clipped_gradient(rows, y, w, Loss("logistic"), np.inf, np.inf)
    value, gradient = problem.value_and_gradient(w)
    np.testing.assert_allclose(gradient, expected / 500 + 0.1 * w, atol=1e-14)
    assert value == pytest.approx(expected_loss / 500 + 0.05 * w @ w)
    np.testing.assert_allclose(
        problem.hessian(w),
        twin.hessian(rows, y, w, Loss("logistic")) / 500 + 0.1 * np.eye(7),
        atol=1e-13,
    )


def test_results_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, 6))
    y = np.where(rng.random(200_000) < 0.5, -1.0, 1.0)
    w = rng.standard_normal(7)
    one, two, all_ = (Problem(X, y, data_norm=2.0, n_jobs=n) for n in (1, 2, -1))
    assert len(list(one.chunks())) > 2
    for other in (two, all_):
        for a, b in zip(
            one.clipped_gradient(w, 0.3, 0.7), other.clipped_gradient(w, 0.3, 0.7), strict=True
        ):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(one.margins(w), other.margins(w))
        assert one.objective(w) == other.objective(w)
        np.testing.assert_array_equal(one.hessian(w), other.hessian(w))


def test_every_row_ends_inside_the_ball():
    """The bound of every per-row gradient, measured by gradients of one-row problems."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 5)) * 10.0 ** rng.uniform(-3, 150, (300, 1))
    X[0] = 0.0
    X[1] = [0.6, 0.8, 0, 0, 0]  # norm exactly 1 before rounding
    for row in X:
        problem = Problem(row[None], [1.0], data_norm=1.0, intercept=0.0)
        # At w = 0 the gradient is -row/2.
        gradient, _ = problem.clipped_gradient(np.zeros(5))
        with mpmath.workdps(50):
            norm = mpmath.sqrt(sum(mpmath.mpf(float(g)) ** 2 for g in gradient))
            assert 2 * norm <= 1 + mpmath.mpf(2) ** -51
    direction = X[2:] / np.linalg.norm(X[2:], axis=1)[:, None]
    whole = Problem(X[2:], np.ones(298), data_norm=1.0, intercept=0.0)
    w = rng.standard_normal(5)
    np.testing.assert_allclose(
        whole.margins(w),
        direction @ w * np.minimum(1, np.linalg.norm(X[2:], axis=1)),
        rtol=1e-12, atol=1e-13,
    )  # fmt: skip


def test_weights_are_not_multiplied_by_less_than_zero():
    """A factor of -5 counts five times what sensitivities are stated for."""
    problem = Problem(0.5 * np.eye(3), [1.0, -1.0, 1.0], data_norm=1.0)
    with pytest.raises(ValueError, match="factors must hold numbers >= 0"):
        problem.weighted_by([1.0, -5.0, 1.0], 1.0)


def test_rows_in_codes_that_are_too_long_for_arithmetic_end_in_the_ball():
    """No entry is, but the norm of many."""
    columns = [(np.array([1e149, 0.1]), None) for _ in range(150)]
    problem = Problem(CodedMatrix(columns), [1.0, -1.0], data_norm=1.0, intercept=0.0)
    norms = [np.linalg.norm(row) for row in next(iter(problem.map_rows(np.copy)))]
    np.testing.assert_allclose(norms, 1.0, rtol=1e-12)


@pytest.mark.parametrize("convert", [np.asarray, np.asfortranarray, scipy.sparse.csr_array])
def test_no_entry_is_too_large_for_the_ball(convert):
    """A factor of 1e-323 has three bits, and products with 1e308 overflow: neither may show."""
    X = np.array([[1e308, 0.0], [0.0, 0.0], [0.0, -1.7e308], [1.5e308, 1.5e308], [3.0, 4.0]])
    for radius in (2.53e-16, 1e-100, 1.0, 1e100):
        problem = Problem(convert(X), np.ones(5), data_norm=radius, intercept=0.0)
        w = np.array([3.0, 5.0])
        at = np.array([3.0, 0.0, -5.0, 8.0 * 0.5**0.5, 0.0]) * radius
        at[4] = 29.0 * min(1.0, radius / 5.0)
        np.testing.assert_allclose(problem.margins(w), at, rtol=1e-12)
        for row in range(5):
            alone = Problem(convert(X[row : row + 1]), [1.0], data_norm=radius, intercept=0.0)
            gradient, _ = alone.clipped_gradient(np.zeros(2))
            length = sum(Fraction(2.0 * float(g)) ** 2 for g in gradient)
            assert length <= Fraction(radius) ** 2 * (1 + Fraction(1, 2**49))
    weights = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    twice = Problem(
        convert(X), np.ones(5), data_norm=1.0, intercept=0.0, sample_weight=weights, max_weight=5.0
    )
    np.testing.assert_allclose(
        twice.clipped_gradient(np.zeros(2))[0],
        -0.5 * np.array([1.0 + 4.0 * 0.5**0.5 + 3.0, -3.0 + 4.0 * 0.5**0.5 + 4.0]),
    )


@pytest.mark.parametrize("loss", ["huber", "squared", "pinball"])
def test_no_target_is_too_large_for_a_sum(loss):
    """Two records could overflow the sum of losses, and an error would tell of them."""
    X, y = np.ones((4, 1)), np.array([1.7e308, 1.7e308, -1e101, 0.5])
    problem = Problem(X, y, loss, data_norm=1.0)
    np.testing.assert_array_equal(problem.target, [1e100, 1e100, -1e100, 0.5])
    value, gradient = problem.value_and_gradient(np.array([1.0, -2.0]), 0.1)
    assert np.isfinite(value) and np.isfinite(gradient).all()


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.filterwarnings("ignore:X was copied")
def test_l1_clipping_of_the_least_integer(dtype, convert):
    """It has no absolute value in its type: -128 is its own."""
    least = np.iinfo(dtype).min
    X = np.array([[least, -(least + 1), 3]], dtype=dtype)
    problem = Problem(convert(X), [1.0], data_norm=1e30, intercept=0.0)
    gradient, _ = problem.clipped_gradient(np.zeros(3), 0.25, clip_order=1)
    assert np.abs(gradient).sum() == pytest.approx(0.25, rel=1e-6)
    assert np.abs(gradient).sum() <= 0.25


def test_sums_of_products_of_sparse_rows_are_as_exact_as_stated():
    """Every addition to a long sum of these rows rounds down; the sum over a block is short."""
    n, d = 2**18, 64
    entry = 1.0 + 32113 * 2.0**-52
    X = scipy.sparse.csr_array(
        (np.full(n, entry), np.zeros(n, dtype=np.int32), np.arange(n + 1)), shape=(n, d)
    )
    problem = Problem(X, np.ones(n), "squared", data_norm=1.001, intercept=0.0)
    exact = n * Fraction(entry * entry)
    additions = problem.shape.gram_additions() + 8
    assert abs(Fraction(float(problem.gram()[0, 0])) - exact) <= additions * exact / 2**53


def test_the_intercept_counts_in_the_row_norm():
    shape = ProblemShape(100, 3, data_norm=1.0)
    assert shape.row_norm == pytest.approx(np.sqrt(2))
    assert shape.lipschitz == pytest.approx(np.sqrt(2))
    assert shape.smoothness == pytest.approx(0.5)
    without = ProblemShape(100, 3, data_norm=1.0, intercept=0.0)
    assert (without.dim, without.row_norm) == (3, 1.0)
    # A row on the sphere, with the constant: its gradient at a point of steep loss.
    problem = Problem([[1.0, 0.0, 0.0]], [1.0], data_norm=1.0)
    gradient, _ = problem.clipped_gradient(np.array([-50.0, 0, 0, -50.0]))
    assert np.linalg.norm(gradient) == pytest.approx(shape.lipschitz)


def test_gradient_clipping_includes_the_intercept():
    problem = Problem([[3.0, 4.0]], [1.0], data_norm=5.0)
    gradient, _ = problem.clipped_gradient(np.array([-9.0, -9.0, -9.0]), clip_norm=0.1)
    assert 0.1 * (1 - 1e-6) < np.linalg.norm(gradient) <= 0.1


def test_minimizer_sensitivity_by_relation():
    shape = ProblemShape(1000, 4, data_norm=3.0, intercept=0.0)
    assert shape.minimizer_sensitivity(0.5, "replace_one") == pytest.approx(2 * 3 / (0.5 * 1000))
    assert shape.minimizer_sensitivity(0.5, "add_or_remove_one") == pytest.approx(3 / (0.5 * 1000))


def test_gradient_error_bound_holds():
    """Computed gradients against 60-digit ones."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 5)) + 3.0
    y = np.ones(400)
    problem = Problem(X, y, alpha=0.01, data_norm=20.0)
    for scale in (0.1, 1.0, 30.0):
        w = scale * rng.standard_normal(6)
        _, gradient = problem.value_and_gradient(w)
        with mpmath.workdps(60):
            exact = [mpmath.mpf(0)] * 6
            for row in X:
                full = [mpmath.mpf(float(v)) for v in row] + [mpmath.mpf(1)]
                z = mpmath.fsum(a * mpmath.mpf(float(b)) for a, b in zip(full, w, strict=True))
                s = -1 / (1 + mpmath.exp(z))
                exact = [e + s * v for e, v in zip(exact, full, strict=True)]
            error = mpmath.sqrt(
                sum(
                    (mpmath.mpf(float(g)) - e / 400 - mpmath.mpf(0.01) * mpmath.mpf(float(v))) ** 2
                    for g, e, v in zip(gradient, exact, w, strict=True)
                )
            )
        assert error <= problem.shape.gradient_error(float(np.linalg.norm(w)))


def test_missing_data_norm_warns_or_raises(classification):
    X, y = classification
    with pytest.warns(PrivacyLeakWarning, match="data_norm was not given"):
        problem = Problem(X, y)
    assert problem.leaks == ("data_norm was taken from the data",)
    assert problem.shape.data_norm == pytest.approx(np.linalg.norm(X, axis=1).max())
    with pytest.raises(ValueError, match="data_norm must be given when strict=True"):
        Problem(X, y, strict=True)
    assert Problem(X, y, data_norm=1.0).leaks == ()


def test_input_is_never_written_to(classification):
    X, y = classification
    X, y = X.copy(), y.copy()
    before = copy.deepcopy((X, y))
    X.flags.writeable = y.flags.writeable = False
    Problem(X, y, data_norm=0.5).clipped_gradient(np.ones(7), 0.1, 0.1)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])


def memory_map(X):
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file.name, X)
        return np.load(file.name, mmap_mode="r")  # outlives the name of the file


@pytest.mark.parametrize(
    "convert",
    [
        memory_map,
        lambda X: X[::-1][::-1],
        lambda X: X[::-1].copy()[::-1],
        lambda X: X.astype(">f8"),
        lambda X: X.astype(np.float16),
        lambda X: np.asfortranarray(X.astype(np.float32)),
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: np.broadcast_to(X, (1, *X.shape))[0],
        np.asfortranarray,
        lambda X: X.astype(np.float32),
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: np.hstack([X, X])[:, : X.shape[1]],
        lambda X: X.tolist(),
    ],
    ids=["memory map", "view", "reversed", "big-endian", "half", "fortran float32", "column steps",
         "broadcast", "fortran", "float32", "strided rows", "strided columns", "lists"],
)  # fmt: skip
def test_layouts(classification, convert, monkeypatch):
    monkeypatch.setattr(ProblemShape, "chunk_rows", lambda self: 64)
    X, y = classification
    w = np.linspace(-1, 1, 7)
    converted = convert(X)
    exact = np.array(converted, dtype=np.float64)
    weight = np.linspace(0, 2, 500)
    expected, got = (
        Problem(data, y, data_norm=1.0, sample_weight=weight, max_weight=2.0)
        for data in (exact, converted)
    )
    for clip in (np.inf, 0.3):
        pairs = zip(expected.clipped_gradient(w, clip), got.clipped_gradient(w, clip), strict=True)
        for a, b in pairs:
            np.testing.assert_allclose(a, b, atol=1e-12)
    np.testing.assert_allclose(expected.hessian(w), got.hessian(w), atol=1e-12)
    np.testing.assert_allclose(expected.margins(w), got.margins(w), atol=1e-12)


@pytest.mark.parametrize("kind", ["csr_array", "csr_matrix", "one-hot"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_sparse_rows_are_the_dense_ones(kind, dtype, n_jobs, monkeypatch):
    monkeypatch.setattr("dpfast.problem._THREADING_BYTES", 0)
    rng = np.random.default_rng(0)
    X = np.where(rng.random((700, 30)) < 0.2, rng.standard_normal((700, 30)), 0.0).astype(dtype)
    if kind == "one-hot":
        X = (X != 0.0).astype(dtype)
    y = rng.choice([-1.0, 1.0], 700)
    w, weight = rng.standard_normal(31), rng.uniform(0, 2, 700)
    make = scipy.sparse.csr_matrix if kind == "csr_matrix" else scipy.sparse.csr_array
    dense, sparse = (
        Problem(data, y, data_norm=1.5, sample_weight=weight, max_weight=2.0, n_jobs=n_jobs)
        for data in (X, make(X))
    )
    assert dense.shape == sparse.shape
    for bounds in ((np.inf, np.inf), (0.4, 0.6)):
        left, right = dense.clipped_gradient(w, *bounds), sparse.clipped_gradient(w, *bounds)
        for a, b in zip(left, right, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(dense.margins(w), sparse.margins(w), atol=1e-13)
    np.testing.assert_allclose(dense.hessian(w, 0.1), sparse.hessian(w, 0.1), atol=1e-12)
    np.testing.assert_allclose(dense.gram(), sparse.gram(), atol=1e-10)
    np.testing.assert_allclose(
        dense.line_search_losses(w, w, [0.3, 2.0]), sparse.line_search_losses(w, w, [0.3, 2.0])
    )


def test_sparse_layouts_that_cost_a_copy_say_so():
    X = scipy.sparse.random_array((50, 8), density=0.3, rng=np.random.default_rng(0))
    y = np.ones(50)
    csr = X.tocsr()
    expected = Problem(csr, y, data_norm=2.0).clipped_gradient(np.ones(9))[0]
    cases = {
        "stored as csc": csr.tocsc(),
        "stored as coo": csr.tocoo(),
        "int64": (csr * 10).astype(np.int64),
        # Silent: one row decides that.
        "not unique": scipy.sparse.csr_array(
            (np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), csr.indptr * 2), csr.shape
        ),
    }
    for reason, matrix in cases.items():
        before = matrix.copy()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            problem = Problem(matrix, y, data_norm=2.0)
        assert all(warning.category is ConversionWarning for warning in said)
        texts = [str(warning.message) for warning in said]
        assert len(texts) == (reason != "not unique")
        for text in texts:  # and no number of entries
            assert re.fullmatch(f"X was copied: it.* {reason}, not [a-z0-9 ]*\\.", text)
        if reason != "int64":
            np.testing.assert_allclose(problem.clipped_gradient(np.ones(9))[0], expected)
        assert matrix.nnz == before.nnz  # the caller's matrix is left alone


def several_entries_of_one_place(form, unsorted):
    """Rows whose entries make 0 in the order in which they are stored; those of row 0 are few.

    Zeros beside them, since few entries are sorted in a way that leaves equal ones in order.
    """
    entries = np.array([2.0**60, 1.0, -(2.0**60), *np.zeros(17)])
    first = [2, 0] if unsorted else [0, 2]
    columns = np.array([*first, *np.ones(5 * len(entries), dtype=int)])
    data = np.array([0.1, 0.1, *np.tile(entries, 5)])
    if form == "coo":
        rows = np.repeat(np.arange(6), [2] + 5 * [len(entries)])
        return scipy.sparse.coo_array((data, (rows, columns)), (6, 3))
    start = np.array([0, *np.arange(2, len(data) + 1, len(entries))])
    if form == "bsr":
        return scipy.sparse.bsr_array((data[:, None, None], columns, start), (6, 3))
    X = scipy.sparse.csr_array((data, columns, start), (6, 3))
    return X.tocsc() if form == "csc" else X


@pytest.mark.filterwarnings("ignore::dpfast.errors.ConversionWarning")
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
def test_what_entries_of_one_place_add_up_to_is_no_matter_of_other_rows(form):
    """SciPy sorts all rows if one is not, and equal columns in any order: 1 became of 0."""
    found = []
    for unsorted in (False, True):
        X = several_entries_of_one_place(form, unsorted)
        given, y = X.copy(), np.ones(6)
        problem = Problem(X, y, data_norm=1.0)
        in_batches = BlockProblem(from_batches(lambda rows=X, y=y: [(rows, y)]), data_norm=1.0)
        w = np.array([0.5, 1.0, 0.25, 0.0])
        found += [problem.margins(w)[1:], in_batches.margins(w)[1:]]
        model = LogisticRegression(classes=[-1, 1], data_norm=1.0)
        rows = model._posed(X, np.resize([-1, 1], 6), {})[0]
        found.append(rows.margins(w)[1:])
        assert (X.data == given.data).all()
    np.testing.assert_array_equal(found, np.zeros((6, 5)))


def test_sparse_rows_with_bad_values_are_refused():
    X = scipy.sparse.csr_array(np.diag([1.0, np.nan, 2.0]))
    with pytest.raises(ValueError, match="X must hold finite numbers only"):
        Problem(X, np.ones(3), data_norm=2.0)
    with pytest.raises(ValueError, match="X must hold real numbers; got complex numbers"):
        Problem(scipy.sparse.csr_array(np.eye(3) * 1j), np.ones(3), data_norm=2.0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool])
def test_integers_are_converted_block_by_block(dtype):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 2 if dtype is bool else 200, (900, 20)).astype(dtype)
    y = rng.choice([-1.0, 1.0], 900)
    w = rng.standard_normal(21) / 100
    expected = Problem(X.astype(np.float64), y, data_norm=500.0).clipped_gradient(w)
    got = Problem(X, y, data_norm=500.0).clipped_gradient(w)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-12)


def test_no_copy_of_a_large_array_is_made():
    """One gradient, also of a layout that must be converted, needs a few blocks beside the data."""
    for X in (np.ones((200_000, 50)), np.ones((200_000, 50), np.float32), np.ones((50, 200_000)).T,
              np.ones((200_000, 50), np.uint8)):  # fmt: skip
        y = np.ones(200_000)
        tracemalloc.start()
        Problem(X, y, data_norm=8.0).clipped_gradient(np.zeros(51))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 12e6  # the data are 10 to 80 MB


def test_arrays_by_columns_are_copied_up_to_a_size(monkeypatch):
    by_columns, by_row = np.ones((5, 8), np.float32).T, np.ones((8, 5))[:, :3]
    copied = storage.by_rows(by_columns)
    assert copied.flags.c_contiguous and copied.dtype == np.float32
    assert storage.by_rows(by_row) is by_row
    monkeypatch.setattr(storage, "_COPIED_BYTES", 100)
    assert storage.by_rows(by_columns) is by_columns


def test_targets_and_weights_stay_as_they_were_checked(classification):
    X, _ = classification
    y, weight = np.arange(len(X)) % 4.0, np.full(len(X), 0.5)
    problem = Problem(X, y, "poisson", data_norm=1.0, sample_weight=weight, max_weight=1.0)
    y *= 1e6
    weight *= 1e6
    assert (problem.target.max(), problem.sample_weight.max()) == (3.0, 0.5)


def test_weights(classification):
    """An integer weight is a repeated row; the mean stays over n."""
    X, y = classification
    repeat = np.random.default_rng(0).integers(0, 4, 500)
    w = np.linspace(-1, 1, 7)
    weighted = Problem(X, y, data_norm=2.0, sample_weight=repeat, max_weight=3.0)
    repeated = Problem(np.repeat(X, repeat, axis=0), np.repeat(y, repeat), data_norm=2.0)
    for clip in ((np.inf, np.inf), (0.3, 0.5)):
        left, right = weighted.clipped_gradient(w, *clip), repeated.clipped_gradient(w, *clip)
        for a, b in zip(left, right, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    assert weighted.objective(w) == pytest.approx(repeated.objective(w))
    np.testing.assert_allclose(weighted.gram(), repeated.gram(), rtol=1e-12)
    np.testing.assert_allclose(500 * weighted.hessian(w), repeat.sum() * repeated.hessian(w))
    steps = [0.0, 0.5]
    np.testing.assert_allclose(
        weighted.line_search_losses(w, w, steps, 0.7), repeated.line_search_losses(w, w, steps, 0.7)
    )
    assert weighted.shape.lipschitz == 3 * repeated.shape.lipschitz
    assert weighted.shape.smoothness == 3 * repeated.shape.smoothness
    # A weight beyond the public bound is lowered to it.
    lowered = Problem(X, y, data_norm=2.0, sample_weight=repeat, max_weight=1.5)
    by_hand = Problem(X, y, data_norm=2.0, sample_weight=np.minimum(repeat, 1.5), max_weight=1.5)
    np.testing.assert_array_equal(lowered.clipped_gradient(w)[0], by_hand.clipped_gradient(w)[0])
    with pytest.warns(PrivacyLeakWarning, match="max_weight was not given"):
        assert Problem(X, y, data_norm=2.0, sample_weight=repeat).shape.max_weight == 3.0
    with pytest.raises(ValueError, match="max_weight must be given when strict=True"):
        Problem(X, y, data_norm=2.0, sample_weight=repeat, strict=True)
    with pytest.raises(ValueError, match="sample_weight must hold numbers >= 0"):
        Problem(X, y, data_norm=2.0, sample_weight=-1.0 - repeat, max_weight=3.0)
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(500,\)"):
        Problem(X, y, data_norm=2.0, sample_weight=repeat[1:], max_weight=3.0)
    with pytest.raises(ValueError, match="max_weight must be None without sample_weight"):
        Problem(X, y, data_norm=2.0, max_weight=3.0)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "sigmoid"])
def test_line_search_reads_the_data_once_for_each_direction(classification, loss, monkeypatch):
    X, y = classification
    problem = Problem(X, y, loss, data_norm=1.0)
    reads = []
    original = problem._fill_margins

    def fill(start, stop, pairs):
        reads.extend(pairs)
        original(start, stop, pairs)

    monkeypatch.setattr(problem, "_fill_margins", fill)
    rng = np.random.default_rng(0)
    w, steps = rng.standard_normal(7), np.linspace(0, 2, 20)
    for iteration in range(5):
        direction = rng.standard_normal(7)
        got = problem.line_search_losses(w, direction, steps, 0.9)
        expected = [problem.objective(w - a * direction, 0.9) for a in steps]
        np.testing.assert_allclose(got, expected, rtol=1e-12)
        w = w - steps[3 + iteration] * direction
    assert len(reads) == 1 + 5
    problem.line_search_losses(np.zeros(7), w, steps)  # a point elsewhere
    assert len(reads) == 1 + 5 + 2


def test_hessian_of_a_sample_is_close():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50_000, 8))
    problem = Problem(X, rng.choice([-1.0, 1.0], 50_000), data_norm=8.0)
    w = rng.standard_normal(9)
    whole, part = problem.hessian(w, 0.1), problem.hessian(w, 0.1, max_rows=10_000)
    assert 0 < np.abs(part - whole).max() < 0.03
    np.testing.assert_array_equal(problem.hessian(w, 0.1, max_rows=40_000), whole)


def test_many_updates_of_cached_margins_do_not_drift(classification):
    X, y = classification
    problem = Problem(X, y, data_norm=1.0)
    rng = np.random.default_rng(0)
    w = rng.standard_normal(7)
    for _ in range(100):
        direction = rng.standard_normal(7)
        problem.line_search_losses(w, direction, [0.5])
        w = w - 0.5 * direction
    (got,) = problem.line_search_losses(w, direction, [0.0])
    assert got == pytest.approx(problem.objective(w), rel=1e-12)


def test_sum_errors_bound_what_the_order_of_rows_does():
    """Permuting rows changes nothing but rounding; the bounds must cover it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 3)) + 10.0
    y = np.ones(30_000)
    w = np.full(4, -0.5)
    results = []
    for _ in range(4):
        order = rng.permutation(30_000)
        problem = Problem(X[order], y, data_norm=15.0)
        results.append((*problem.clipped_gradient(w, 2.0, 5.0), problem))
    for gradient, loss, problem in results[1:]:
        assert np.linalg.norm(gradient - results[0][0]) <= 2 * problem.shape.gradient_sum_error(2.0)
        assert abs(loss - results[0][1]) <= 2 * problem.shape.loss_sum_error(5.0)
    # ... and are small against what one record can do.
    assert results[0][2].shape.gradient_sum_error(2.0) < 1e-6 * 2.0
    assert results[0][2].shape.loss_sum_error(5.0) < 1e-6 * 5.0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X": [[1.0, np.nan]]}, ValueError, "X must hold finite numbers only"),
        ({"X": [[np.inf, 0.0]]}, ValueError, "X must hold finite numbers only"),
        ({"X": [1.0, 2.0]}, ValueError, r"X must be two-dimensional .* got shape \(2,\)"),
        ({"X": np.empty((0, 2)), "y": []}, ValueError, "at least one row and one column"),
        ({"X": np.empty((1, 0))}, ValueError, "at least one row and one column"),
        ({"X": [["a", "b"]]}, TypeError, "X must hold real numbers; got text"),
        ({"X": [[1j, 0]]}, ValueError, "X must hold real numbers"),
        ({"y": [0.0]}, ValueError, "y must hold -1 and \\+1 only"),
        ({"y": [np.nan]}, ValueError, "y must hold finite numbers only"),
        ({"y": [1.0, 1.0]}, ValueError, r"y must have shape \(1,\); got \(2,\)"),
        ({"y": ["yes"]}, TypeError, "y must hold real numbers"),
        ({"loss": "log"}, ValueError, "loss must be one of"),
        ({"alpha": 0.0}, ValueError, "alpha must be a real number in"),
        ({"alpha": float("nan")}, ValueError, "alpha must be"),
        ({"data_norm": -1.0}, ValueError, "data_norm must be a real number in"),
        ({"data_norm": "1"}, TypeError, "data_norm must be"),
        ({"intercept": float("inf")}, ValueError, "intercept must be"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be None, a positive number"),
        ({"n_jobs": 1.5}, TypeError, "n_jobs must be an integer"),
    ],
)
def test_bad_input(change, error, message):
    arguments = {"X": [[1.0, 2.0]], "y": [1.0], "loss": "logistic", "data_norm": 1.0, **change}
    with pytest.raises(error, match=message):
        Problem(**arguments)


def test_bad_weights_and_bounds(classification):
    X, y = classification
    problem = Problem(X, y, data_norm=1.0)
    with pytest.raises(ValueError, match=r"w must have shape \(7,\); got \(6,\)"):
        problem.clipped_gradient(np.zeros(6))
    with pytest.raises(ValueError, match="w must be finite"):
        problem.margins(np.full(7, np.nan))
    with pytest.raises(ValueError, match=r"clip_norm must be a real number > 0; got -1\.0"):
        problem.clipped_gradient(np.zeros(7), clip_norm=-1.0)
    with pytest.raises(ValueError, match="loss_clip must be a real number > 0; got nan"):
        problem.objective(np.zeros(7), loss_clip=float("nan"))
    with pytest.raises(ValueError, match=r"clip_order must be an integer in \[1, 2\]; got 3"):
        problem.clipped_gradient(np.zeros(7), 1.0, clip_order=3)
    with pytest.raises(ValueError, match="max_rows must be an integer >= 1; got 0"):
        problem.hessian(np.zeros(7), max_rows=0)


@pytest.mark.parametrize("n_samples", [0, -1, 2**60])
def test_shape_sizes(n_samples):
    with pytest.raises(ValueError, match="n_samples must be an integer in"):
        ProblemShape(n_samples, 3, 1.0)


def test_shape_accepts_a_loss_by_name():
    assert ProblemShape(10, 3, 1.0, "logistic").loss == Loss("logistic")
    with pytest.raises(TypeError, match="loss must be a Loss or its name"):
        ProblemShape(10, 3, 1.0, 7)


@pytest.mark.parametrize(
    "additions",
    [shapes._additions, shapes._gram_additions, shapes._group_additions,
     shapes._line_search_additions, coordinates._class_additions],
)  # fmt: skip
@pytest.mark.parametrize("columns", [3, 1000, 4000, 20_000])
@pytest.mark.parametrize("groups", [1, 17, 100, 700])
def test_no_number_of_rows_of_groups_has_a_longer_chain(additions, columns, groups):
    """The number is private, and chunks that are one longer are fewer."""
    shape = ProblemShape(groups, columns, 1.0, unit="group")
    most = shape.most_rows
    turns = range(256 * 64, most + 1, 256 * 64)
    blocks = replace(shape, blocks=shapes.BlockSizes.of_groups(groups, 30_000))
    assert blocks.blocks is not None
    (largest,) = blocks.blocks.distinct
    for rows in {*turns, *range(1, most, max(1, most // 97)), most}:
        alone = additions(shape.of_rows(rows))
        assert alone <= shape.longest_chain(additions)
        if rows <= largest:
            assert alone + blocks.blocks.count <= blocks.longest_chain(additions)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_constants_of_numpy_are_numbers_of_python(kind):
    """A product with a float16 is one, and would round what is charged."""
    number = float(kind(1.1))
    loss = Loss("squared")
    given, plain = (
        ProblemShape(100, 3, bound, loss, intercept=0.0, alpha=bound, max_weight=bound)
        for bound in (kind(1.1), number)
    )
    assert {type(value) for value in (given.data_norm, given.alpha, given.max_weight)} == {float}
    charged = [ProductSums(shape, 1.0).sensitivity("replace_one") for shape in (given, plain)]
    assert charged[0] == charged[1]
    by_hand = [
        ClippedGradient(plain, clip).sensitivity("replace_one") for clip in (kind(1.1), number)
    ]
    assert by_hand[0] == by_hand[1] and type(by_hand[0]) is float
    events = [
        plan(plain, "dp-gd", Budget(1.0, 1e-6), clip_norm=clip, iterations=np.uint8(3)).events
        for clip in (kind(1.1), number)
    ]
    assert events[0] == events[1]


def test_counts_of_numpy_do_not_wrap_round():
    groups = ProblemShape(2, 3, 1.0, unit="group", max_rows_per_group=np.uint8(200))
    assert groups.most_rows == 400
    assert BlockSizes(np.uint8(3), (np.uint8(200),)) == BlockSizes(3, (200,))
    assert type(BlockSizes(3, (np.uint8(200),)).distinct[0]) is int


@pytest.mark.parametrize("storage", [np.array, scipy.sparse.csr_array])
def test_rows_far_apart_in_size_cause_no_warning(storage):
    """A warning of NumPy's, before anything is paid for, would tell that there are such rows."""
    X = storage([[1e300, 0.0], [1e-310, 0.0], [0.0, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = Problem(X, [1.0, 1.0, -1.0], data_norm=1.0)
    np.testing.assert_allclose(problem.margins([1.0, 1.0, 0.0]), [1.0, 0.0, 1.0], atol=1e-15)
