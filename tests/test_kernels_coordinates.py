"""Rows in other coordinates and their Gram matrices: against arrays, and row by row."""

import numpy as np
import pytest

from dpfast import Problem, _kernels
from dpfast.queries import Gram
from dpfast.queries.coordinates import column_transform, reach_of

# Beside the ends of blocks and of tiles.
SHAPES = [(1, 1), (3, 2), (127, 7), (128, 8), (129, 9), (300, 24), (20, 25), (9, 101)]


def table(n, d, scalar=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32).astype(scalar)
    return X, rng.uniform(0.2, 1.0, n), rng


def maps(dim, d, rng):
    """Maps of all kinds, and what they make of an array."""
    for columns in {1, d, 2 * dim + 1}:
        W = rng.standard_normal((dim, columns))
        yield _kernels.RowMap(W), lambda rows, W=W: rows @ W
    for columns in {d, dim}:
        f, s = rng.standard_normal((2, columns))
        to = _kernels.RowMap(factor=f, shift=s)
        yield to, lambda rows, f=f, s=s: rows[:, : len(f)] * f + s


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scalar", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", [0.0, 0.5])
def test_they_are_those_of_the_array(isa, shape, scalar, intercept):
    X, scale, rng = table(*shape, scalar)
    n, d = shape
    wide = np.zeros((n, d + 2), scalar)
    wide[:, :d] = X
    kernel = _kernels.DenseRows(wide[:, :d], np.ones(n), intercept)
    kernel.set_row_scale(scale)
    rows = np.column_stack([X * scale[:, None], np.full(n, intercept)])[:, : kernel.dim]
    share, first = rng.random(n), n // 3
    for to, by in maps(kernel.dim, d, rng):
        z, squares, out = by(rows)[first:], np.empty(n - first), np.empty((n - first, to.columns))
        _kernels.coordinates(kernel, first, n, to, squares, out)
        np.testing.assert_allclose(out, z, rtol=0, atol=1e-13 * (d + 1))
        np.testing.assert_allclose(squares, np.square(z).sum(axis=1), rtol=1e-11)
        alone = np.empty(n - first)
        _kernels.coordinates(kernel, first, n, to, alone)
        np.testing.assert_array_equal(alone, squares)
        upper = np.triu_indices(to.columns)
        for radius in (0.5, 1e3):
            for shares in (None, share):
                cut = z * np.minimum(1.0, radius / np.sqrt(squares))[:, None]
                expected = 1.0 + cut.T @ (cut if shares is None else cut * share[first:, None])
                gram = np.ones((to.columns, to.columns))
                own = None if shares is None else shares[first:].copy()
                _kernels.gram(kernel, first, n, to, radius, own, gram)
                np.testing.assert_allclose(gram[upper], expected[upper], rtol=0, atol=1e-9)


@pytest.mark.parametrize("d", [3, 24, 65])
@pytest.mark.parametrize("kind", ["any", "columns"])
def test_a_row_is_the_same_wherever_it_is(isa, d, kind):
    X, _, rng = table(300, d)
    X[:] = X[0]
    X[250:] *= 1e3  # whatever the others are
    if kind == "any":
        to = _kernels.RowMap(rng.standard_normal((d, d + 5)))
    else:
        to = _kernels.RowMap(factor=rng.standard_normal(d), shift=rng.standard_normal(d))
    squares, z = np.empty(300), np.empty((300, to.columns))
    _kernels.coordinates(_kernels.DenseRows(X, np.ones(300)), 0, 300, to, squares, z)
    for found in (squares, z):
        np.testing.assert_array_equal(found[:250], np.broadcast_to(found[0], found[:250].shape))
    alone, row = np.empty(1), np.empty((1, to.columns))
    _kernels.coordinates(_kernels.DenseRows(X[7:8], np.ones(1)), 0, 1, to, alone, row)
    assert (alone[0], *row[0]) == (squares[0], *z[0])


@pytest.mark.parametrize("d", [3, 40])
def test_no_row_adds_more_than_the_radius_allows(isa, d):
    """``tr(z zᵀ) = ‖z‖²``, of rows far beyond the radius, at it, and within."""
    X, _, rng = table(50, d)
    for row in X * rng.choice([1e-3, 1.0, 1e9], 50)[:, None]:
        to, gram = _kernels.RowMap(rng.standard_normal((d, d))), np.zeros((d, d))
        square = np.empty(1)
        kernel = _kernels.DenseRows(row[None], np.ones(1))
        _kernels.coordinates(kernel, 0, 1, to, square)
        for radius in (0.7, np.sqrt(square[0])):
            gram[:] = 0.0
            _kernels.gram(kernel, 0, 1, to, radius, None, gram)
            # Its own roundings, of a product and of d additions.
            assert np.trace(gram) <= radius**2 * (1.0 + (d + 4) * 2.0**-53)


def exact_triangle(row, transform, d, radius):
    """What a row adds, its diagonal over √2, computed in long double."""
    z = row.astype(np.longdouble) @ transform.astype(np.longdouble)[:, :d]
    z *= min(np.longdouble(1.0), radius / np.sqrt(z @ z))
    outer = np.outer(z, z)
    outer[np.arange(d), np.arange(d)] *= np.sqrt(np.longdouble(0.5))
    return outer[np.triu_indices(d)]


@pytest.mark.parametrize("kind", ["columns", "any", "stretched"])
@pytest.mark.parametrize("scalar", [np.float64, np.float32])
def test_neighbors_are_as_far_apart_as_stated(isa, kind, scalar):
    """Where orthogonal rows are swapped, the others being long and alike: rounding and all."""
    n, d, radius = 1500, 9, 1.5
    X, _, rng = table(n, d, scalar)
    X[1:] = X[1] / np.linalg.norm(X[1])
    other = X.copy()
    X[0], other[0] = np.eye(d)[:2]
    y = np.ones(n)
    problems = [Problem(rows, y, data_norm=1.0) for rows in (X, other)]
    shape = problems[0].shape
    transform = column_transform(shape, np.zeros(d), np.full(d, 0.1))
    if kind != "columns":
        transform[:, :d] = transform[:, :d] @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    if kind == "stretched":  # to where most of the products cancels
        transform[:, :d] += 1e5 * np.outer(np.append(np.zeros(d - 1), [1.0, -1.0])[:, None], X[2])
    query = Gram(shape, radius, reach_of(shape, transform))
    one, two = (query.evaluate(problem, transform) for problem in problems)
    rows = [np.append(problem._dense(0, 1)[0, :d], shape.intercept) for problem in problems]
    exact = [exact_triangle(row, transform, d, radius) for row in rows]
    apart, error = np.linalg.norm(one - two), query.rounding_error()
    assert apart <= query.sensitivity("replace_one") + 2.0 * error
    assert np.linalg.norm((one - two) - (exact[0] - exact[1])) <= 2.0 * error
    if kind != "stretched":
        assert apart >= 0.999 * query.sensitivity("replace_one")
        assert error < 1e-7


def test_what_is_not_finite_is_refused(isa):
    to = _kernels.RowMap(np.eye(2))
    for bad in (np.nan, np.inf, 1e200):
        kernel = _kernels.DenseRows(np.array([[1.0, bad]]), np.ones(1))
        with pytest.raises(FloatingPointError, match="NaN or infinity"):
            _kernels.coordinates(kernel, 0, 1, to, np.empty(1))
        with pytest.raises(FloatingPointError, match="NaN or infinity"):
            _kernels.gram(kernel, 0, 1, to, 1.0, None, np.zeros((2, 2)))


def test_arrays_of_another_shape_are_refused():
    kernel, to = _kernels.DenseRows(np.eye(3), np.ones(3)), _kernels.RowMap(np.ones((3, 2)))
    squares, gram = np.empty(3), np.zeros((2, 2))
    for start, stop, match in ((1, 4, "outside"), (1, 1, "at least one row")):
        with pytest.raises(ValueError, match=match):
            _kernels.gram(kernel, start, stop, to, 1.0, None, gram)
    for wrong in (_kernels.RowMap(np.ones((4, 2))), _kernels.RowMap(np.ones((2, 2)))):
        with pytest.raises(ValueError, match="transform must have 3 rows"):
            _kernels.coordinates(kernel, 0, 3, wrong, squares)
    long = _kernels.RowMap(factor=np.ones(4), shift=np.ones(4))
    with pytest.raises(ValueError, match="at most 3 entries"):
        _kernels.coordinates(kernel, 0, 3, long, squares)
    with pytest.raises(ValueError, match="squares must have 3"):
        _kernels.coordinates(kernel, 0, 3, to, squares[:2])
    with pytest.raises(ValueError, match=r"out must be of shape \(3, 2\)"):
        _kernels.coordinates(kernel, 0, 3, to, squares, np.empty((3, 3)))
    with pytest.raises(ValueError, match="share must have 3"):
        _kernels.gram(kernel, 0, 3, to, 1.0, squares[:2], gram)
    with pytest.raises(ValueError, match=r"out must be of shape \(2, 2\)"):
        _kernels.gram(kernel, 0, 3, to, 1.0, None, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="outside its documented range"):
        _kernels.gram(kernel, 0, 3, to, 0.0, None, gram)
    with pytest.raises(ValueError, match="as many entries"):
        _kernels.RowMap(factor=np.ones(2), shift=np.ones(3))
    with pytest.raises(ValueError, match="at least one row and one column"):
        _kernels.RowMap(np.ones((2, 0)))
