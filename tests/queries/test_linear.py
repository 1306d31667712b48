"""Sums and lengths of rows after a linear map: against whole arrays, and never too short."""

import math

import numpy as np
import pytest
import scipy.sparse

from dpfast import Problem, ProblemShape, _kernels
from dpfast.coded import CodedMatrix
from dpfast.queries import ColumnParts, CoordinateGradient, Gram, _linear
from dpfast.queries._linear import Affine, affine_of, gram, lengths, part_sums
from dpfast.queries.coordinates import column_transform, reach_of

FUNCTIONS = (
    (lambda z: np.maximum(z, 0.0), 1), (lambda z: np.maximum(-z, 0.0), 1), (np.square, 2)
)  # fmt: skip
STORAGES = {
    "dense": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "columns first": np.asfortranarray,
    "sparse": scipy.sparse.csr_array,
    "codes": lambda X: CodedMatrix([(column, None) for column in X.T]),
}


def table(n=700, d=9, seed=0):
    """Rows of which half the entries are zero and some are too long; exact in float32."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32).astype(np.float64)
    X[rng.random((n, d)) < 0.5] = 0.0
    return X, rng.choice([-1.0, 1.0], n), rng


def problem_of(X, y, storage, data_norm=2.5, intercept=1.0):
    """The problem, and its rows written out."""
    problem = Problem(STORAGES[storage](X), y, data_norm=data_norm, intercept=intercept)
    norms = np.linalg.norm(X, axis=1)[:, None]
    rows = X * (data_norm / np.maximum(norms, data_norm))
    return problem, np.column_stack([rows, np.full(len(X), intercept)])[:, : problem.shape.dim]


def shortened(Z, radius):
    norms = np.linalg.norm(Z, axis=1)
    return Z * np.minimum(1.0, radius / np.maximum(norms, 1e-300))[:, None]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("intercept", [0.0, 0.7])
# A shift that is longer than the radius: sparse rows are then written out.
@pytest.mark.parametrize("radius", [2.0, 0.5, 1e9])
def test_sums_are_those_of_the_array(storage, intercept, radius, monkeypatch):
    monkeypatch.setattr(_linear, "_PIECE_ENTRIES", 9 * 41)  # many pieces
    X, y, rng = table()
    problem, rows = problem_of(X, y, storage, intercept=intercept)
    columns = Affine(rng.uniform(0.5, 2.0, 9), rng.uniform(-0.5, 0.5, 9), radius)
    assert 0.5 < np.linalg.norm(columns.shift) < 2.0
    z = rows[:, :9] * columns.factor + columns.shift
    norms = np.linalg.norm(z, axis=1)[:, None]
    factors = np.minimum(1.0, radius / norms)
    expected = [(f(z) * factors**power).sum(axis=0) for f, power in FUNCTIONS]
    for squares in (False, True):
        found = part_sums(problem, columns=columns, squares=squares)
        np.testing.assert_allclose(found, expected[: 2 + squares], rtol=0, atol=1e-11)
    upper = np.triu_indices(9)
    expected = (shortened(z, radius).T @ shortened(z, radius))[upper]
    # Of stored entries and shifts, of written rows.
    for largest in (np.inf, 0.0):
        found = gram(problem, coordinates=columns, radius=radius, largest=largest)[upper]
        np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("intercept", [0.0, 0.7])
def test_any_transform_has_a_gram_matrix(storage, intercept):
    X, y, rng = table()
    problem, rows = problem_of(X, y, storage, intercept=intercept)
    W = rng.standard_normal((problem.shape.dim, 5))
    z = shortened(rows @ W, 1.5)
    upper = np.triu_indices(5)
    found = gram(problem, coordinates=W, radius=1.5)[upper]
    np.testing.assert_allclose(found, (z.T @ z)[upper], atol=1e-10)


def test_a_transform_of_single_columns_is_told_from_others():
    shape = ProblemShape(10, 3, 1.0, intercept=0.5)
    center, scale = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 2.0])
    W = column_transform(shape, center, scale)
    columns = affine_of(shape, W, 1.0)
    np.testing.assert_allclose(columns.factor, 1.0 / scale)
    np.testing.assert_allclose(columns.shift, -center / scale)
    W[0, 2] = 1e-300
    assert affine_of(shape, W, 1.0) is None
    without = ProblemShape(10, 3, 1.0, intercept=0.0)
    assert not affine_of(without, np.diag([1.0, 0.0, 2.0]), 1.0).shift.any()


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_sparse_rows_are_never_written_out(relation, monkeypatch):
    """Learning coordinates and descending in them touches the stored entries alone."""
    X, y, _ = table()
    problem, _ = problem_of(X, y, "sparse")
    shape, center, scale = problem.shape, np.full(9, 0.1), np.full(9, 0.5)
    W = column_transform(shape, center, scale)
    rotated = W @ np.linalg.qr(np.random.default_rng(0).standard_normal((10, 10)))[0]

    def refuse(*arguments):
        pytest.fail("rows were written out")

    monkeypatch.setattr(_kernels, "affine_rows", refuse)
    monkeypatch.setattr(Problem, "map_rows", refuse)
    ColumnParts(shape, 3.0).evaluate(problem, center, scale)
    Gram(shape, 3.0, 1e6).evaluate(problem, W)
    CoordinateGradient(shape, 0.4, 1e6).evaluate(problem, rotated, np.zeros(10))


# ---- rounding ------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", STORAGES)
def test_no_row_is_longer_than_the_radius(storage):
    """Also where a row is nearly the center, and all that is left of it is rounding."""
    rng = np.random.default_rng(3)
    center = rng.uniform(0.2, 0.4, 9).astype(np.float32).astype(np.float64)
    for scale in (1.0, 1e-4, 1e-8):
        noise = rng.standard_normal((60, 9)) * scale
        X = (center + noise).astype(np.float32).astype(np.float64)
        for row in X:
            problem, _ = problem_of(row[None], np.ones(1), storage, data_norm=30.0)
            for radius in (0.5, 3.0):
                columns = Affine(np.full(9, 1.0 / scale), -center / scale, radius)
                z = (row - center) / scale
                above, below = part_sums(problem, columns=columns, squares=False)
                length = np.linalg.norm(above - below)
                slack = 1e-13 * (np.linalg.norm(columns.shift) + radius)
                assert length <= radius + slack
                assert length == pytest.approx(min(radius, np.linalg.norm(z)), abs=1e-6 * radius)


def measures(monkeypatch):
    """Each way to measure rows, forced: its storage, and by how much it may be too long."""
    yield "sparse", 1e-6
    yield "dense", 1e-10
    monkeypatch.setattr(_linear, "_FLOAT32_COLUMNS", 1)
    monkeypatch.setattr(_linear, "_FLOAT32_SHARE", math.inf)
    yield "dense", 1e-3
    yield "float32", 1e-3
    monkeypatch.setattr(_linear, "_FORM_SHARE", 0.0)
    yield "sparse", 1e-10


@pytest.mark.parametrize("columns", [4, 9, 10])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_lengths_are_upper_bounds_and_no_more(columns, spread, monkeypatch):
    X, y, rng = table(n=2000)
    W = rng.standard_normal((10, columns)) * np.geomspace(1.0 / spread, spread, 10)[:, None]
    seen = set()
    for storage, relative in measures(monkeypatch):
        problem, rows = problem_of(X, y, storage)
        exact = np.linalg.norm(rows.astype(np.longdouble) @ W.astype(np.longdouble), axis=1)
        reach = reach_of(problem.shape, W)
        found = lengths(problem, transform=W, reach=reach, least=0.0)
        assert np.all(found >= exact * (1 - 1e-15))
        np.testing.assert_allclose(found, exact.astype(float), rtol=relative, atol=relative * reach)
        seen.add(found.tobytes())
        at_least = lengths(problem, transform=W, reach=reach, least=1.0)
        np.testing.assert_array_equal(at_least, np.maximum(found, 1.0))
    assert len(seen) >= 4  # the ways are different ones


@pytest.mark.parametrize("scales", [True, False])
def test_lengths_hold_where_large_numbers_cancel(scales, monkeypatch):
    """Rows at the center of a transform that stretches: what is computed is mostly rounding."""
    rng = np.random.default_rng(4)
    center = rng.uniform(0.2, 0.4, 9).astype(np.float32).astype(np.float64)
    for scale in (1e-2, 1e-5):
        X = (center + scale * rng.standard_normal((500, 9))).astype(np.float32).astype(np.float64)
        y = np.ones(500)
        for storage, _ in measures(monkeypatch):
            problem, rows = problem_of(X, y, storage, data_norm=3.0)
            W = column_transform(problem.shape, center, np.full(9, scale))
            if not scales:
                W[:, :9] = W[:, :9] @ np.linalg.qr(rng.standard_normal((9, 9)))[0]
            exact = np.linalg.norm(rows.astype(np.longdouble) @ W.astype(np.longdouble), axis=1)
            found = lengths(problem, transform=W, reach=reach_of(problem.shape, W), least=0.0)
            assert np.all(found >= exact * (1 - 1e-15))
        monkeypatch.undo()


@pytest.mark.parametrize("storage", STORAGES)
def test_columns_that_are_only_scaled_and_shifted_are_measured_one_by_one(storage, monkeypatch):
    """In float64, and not by pairs of columns."""
    monkeypatch.setattr(_linear, "_in_float32", None)
    monkeypatch.setattr(_linear, "_by_forms", None)
    rng = np.random.default_rng(6)
    X = (rng.standard_normal((300, 120)) / 11.0).astype(np.float32).astype(np.float64)
    problem, rows = problem_of(X, np.ones(300), storage)
    W = column_transform(problem.shape, rng.uniform(-0.1, 0.1, 120), rng.uniform(0.1, 9.0, 120))
    for transform in (W, np.diag(np.diagonal(W))):
        exact = np.linalg.norm(rows.astype(np.longdouble) @ transform, axis=1)
        reach = reach_of(problem.shape, transform)
        found = lengths(problem, transform=transform, reach=reach, least=0.0)
        assert np.all(found >= exact)
        np.testing.assert_allclose(found, exact.astype(float), rtol=1e-10)


def test_float32_is_used_where_its_error_is_small_and_no_further(monkeypatch):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((300, 120)) / 11.0
    problem, rows = problem_of(X, np.ones(300), "dense")
    used = []
    of_float32 = _linear._in_float32
    monkeypatch.setattr(_linear, "_in_float32", lambda *a: used.append(True) or of_float32(*a))
    for stretch, expected in ((11.0, True), (1e7, False)):
        used.clear()
        W = stretch * np.linalg.qr(rng.standard_normal((121, 121)))[0]
        found = lengths(problem, transform=W, reach=reach_of(problem.shape, W), least=0.0)
        exact = np.linalg.norm(rows @ W, axis=1)
        assert bool(used) is expected
        assert np.all(found >= exact * (1 - 1e-12))
        np.testing.assert_allclose(found, exact, rtol=0.01)


@pytest.mark.parametrize("norm", [1.0, 1e-12, 1e-90])
@pytest.mark.parametrize("narrow", [1.0, 3e4])
def test_sparse_rows_far_too_long_are_as_long_as_dense_ones(norm, narrow):
    """Squares of entries were beyond float64, and ended a fit, or those of scales too small for it.

    Then the row was missing from some of what the matrix is put together of.
    """
    X = np.array([[1e150, 1e150], [0.3 * norm, 0.0], [0.0, 1e-3 * norm]])
    found = []
    for rows in (X, scipy.sparse.csr_array(X)):
        problem = Problem(rows, np.ones(3), data_norm=norm)
        shape, scale = problem.shape, np.array([norm, norm / narrow])
        transform = column_transform(shape, 0.2 * scale, scale)
        query = Gram(shape, 1.5, limit=1e10)
        reach = reach_of(shape, transform)
        measured = lengths(problem, transform=transform, reach=reach, least=0.0)
        found.append((measured, query.evaluate(problem, transform)))
    (dense, gram), (sparse, stored) = found
    np.testing.assert_allclose(sparse, dense, rtol=1e-4)
    np.testing.assert_allclose(stored, gram, rtol=1e-6, atol=1e-6)


# ---- a row's own ---------------------------------------------------------------------------------

# What the first of the rows becomes: far too long, empty, with no entry of one, and with one more.
OTHERS = {
    "long": lambda row: 1e3 * row,
    "huge": lambda row: 1e151 * row,
    "empty": lambda row: 0.0 * row,
    "not one": lambda row: 0.3 * row,
    "full": np.ones_like,
}
OF_ONES = {
    **STORAGES,
    "codes of few values": lambda X: CodedMatrix(
        [((column != 0.0).astype(np.uint8), np.array([[0.0], [1.0]])) for column in X.T[:-1]]
        + [(X[:, -1].copy(), None)]
    ),
}


@pytest.mark.parametrize("storage", OF_ONES)
@pytest.mark.parametrize("kind", ["scaled", "shifted far", "any"])
@pytest.mark.parametrize("d", [9, 120])
def test_what_a_row_is_does_not_depend_on_the_others(storage, kind, d):
    """To the last bit: what moved for all rows at once would be as large as there are rows."""
    rng = np.random.default_rng(3)
    X = (rng.random((120, d)) < 0.4).astype(np.float64)
    changes = {name: change(X[0]) for name, change in OTHERS.items()}
    changes = {
        name: row
        for name, row in changes.items()
        if np.abs(row).max() < (1e30 if "float32" in storage or "codes" in storage else np.inf)
    }
    if storage == "codes of few values":  # all but the last column have levels
        changes = {name: np.append(X[0, :-1], row[-1]) for name, row in changes.items()}
        changes["long"][-1] = 1e3
    center = X[1] + 1e-3 * rng.standard_normal(d)
    placed = {
        "scaled": (np.zeros(d), np.full(d, 0.5)),
        "shifted far": (center, np.full(d, 1e-3)),
    }
    found = []
    for row in (X[0], *changes.values()):
        rows = np.vstack([row, X[1:]])
        problem = Problem(OF_ONES[storage](rows), np.ones(120), data_norm=math.sqrt(d))
        transform = np.random.default_rng(4).standard_normal((d + 1, d + 1))
        if kind in placed:
            transform = column_transform(problem.shape, *placed[kind])
        reach = reach_of(problem.shape, transform)
        measured = lengths(problem, transform=transform, reach=reach, least=0.0)
        columns = affine_of(problem.shape, transform, 0.5)
        factors = np.ones(120) if columns is None else _linear.shortened(problem, columns)
        found.append((measured[1:], factors[1:], problem.margins(transform[:, 0])[1:]))
    assert len(found) > 3
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
