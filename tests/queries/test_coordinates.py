"""Sums in learned coordinates: against whole arrays, and on the safe side of rounding."""

import math

import numpy as np
import pytest
import scipy.sparse
from correlated import clipped_rows, correlated

from dpfast import Budget, Ledger, Loss, Problem, ProblemShape
from dpfast.coded import CodedMatrix
from dpfast.curator import Curator
from dpfast.queries import (
    ColumnParts,
    CoordinateGradient,
    Gram,
    RelativeGradient,
    bounded,
    coordinates,
)
from dpfast.queries.coordinates import column_transform, symmetric, triangle_of
from dpfast.random import SecureGenerator


@pytest.mark.parametrize("sparse", [False, True])
def test_sums_against_whole_arrays(sparse):
    X, y = correlated(500)
    problem = Problem(scipy.sparse.csr_array(X) if sparse else X, y, data_norm=0.7)
    X = X * np.minimum(1.0, 0.7 / np.linalg.norm(X, axis=1))[:, None]  # as the problem does
    center, scale = np.full(6, 0.3), np.linspace(0.1, 1.0, 6)
    Z = clipped_rows((X - center) / scale, 1.5)
    for n_classes, classes in ((None, [np.sum(y < 0), np.sum(y > 0)]), (3, [200, 200, 100])):
        labeled = problem.with_labels(np.arange(500) // 200)
        query = ColumnParts(problem.shape, 1.5, n_classes=n_classes)
        sums = query.evaluate(labeled, center, scale)
        np.testing.assert_allclose(sums[12:18], np.square(Z).sum(axis=0) / 1.5, rtol=1e-12)
        parts = (np.maximum(Z, 0.0), np.maximum(-Z, 0.0), np.square(Z))
        for found, part in zip(query.split(sums), parts, strict=False):
            np.testing.assert_allclose(found, part.sum(axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(query.split(sums)[4], classes, rtol=1e-12)
    both = [ColumnParts(problem.shape, 1.5, squares) for squares in (True, False)]
    with_squares, without = (query.evaluate(problem, center, scale) for query in both)
    np.testing.assert_array_equal(without, np.delete(with_squares, np.arange(12, 18)))
    for squares in (True, False):
        query = ColumnParts(problem.shape, 1.5, squares, weight_of_lengths=0.4)
        sums = query.evaluate(problem, center, scale)
        place = 18 if squares else 12
        np.testing.assert_allclose(sums[place], 0.4 * np.sum(Z**2) / 1.5, rtol=1e-12)
        np.testing.assert_allclose(query.split(sums)[3], np.sum(Z**2), rtol=1e-12)
        np.testing.assert_array_equal(np.delete(sums, place), with_squares if squares else without)

    W = column_transform(problem.shape, center, scale)
    rows = np.column_stack([X, np.ones(len(X))])
    np.testing.assert_allclose(rows @ W, np.column_stack([(X - center) / scale, np.ones(len(X))]),
                               atol=1e-12)  # fmt: skip
    triangle = Gram(problem.shape, 1.5, 1e6).evaluate(problem, W)
    np.testing.assert_allclose(triangle, triangle_of(Z.T @ Z), rtol=1e-11)
    np.testing.assert_allclose(symmetric(triangle, 6), Z.T @ Z, rtol=1e-11)

    lengths = coordinates._lengths_in(problem.shape, W)(problem)
    exact = np.linalg.norm(rows @ W, axis=1)
    assert np.all(lengths >= exact) and np.all(lengths <= exact * (1 + 1e-10))
    w = np.linspace(-1, 1, 7)
    slope = -y / (1.0 + np.exp(y * (rows @ w)))
    slope = np.clip(slope, -0.4 / exact, 0.4 / exact)
    computed = CoordinateGradient(problem.shape, 0.4, 1e6).evaluate(problem, W, w)
    np.testing.assert_allclose(computed, (rows @ W).T @ slope, rtol=1e-6)
    # Rounded to the safe side: no row is longer than the clip.
    single = Problem(X[:1], y[:1], data_norm=0.7).clipped_by_lengths(lambda rows: lengths[:1])
    one = single.clipped_gradient(w, 1e-3)[0]
    assert np.linalg.norm(W.T @ one) <= 1e-3


@pytest.mark.parametrize("most", [None, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_classes_of_groups_are_means_of_their_weights(most, weighted):
    """Weights had no part: if rows of one class count a tenth, fits began at a wrong share."""
    X, y = correlated(60)
    ids = np.repeat(np.arange(30), np.tile([1, 3], 15))
    weight = np.where(y > 0.0, 2.0, 0.2) if weighted else None
    settings = {"sample_weight": weight, "max_weight": 2.0} if weighted else {}
    problem = Problem(X, y, data_norm=0.7, groups=ids, max_rows_per_group=most, **settings)
    query = ColumnParts(problem.shape, 1.5)
    found = query.split(query.evaluate(problem, np.zeros(6), np.ones(6)))[4]
    relative = np.ones(60) if weight is None else weight / 2.0
    expected = np.bincount(y > 0.0, relative / np.bincount(ids)[ids])
    np.testing.assert_allclose(found, expected, atol=60 * 2.0**-20)


def _consistent_slopes(y, margin, limit):
    own = 1.0 / (1.0 + np.exp(y * margin))
    weight = np.minimum(1.0, limit / np.maximum(own, 1.0 - own))
    return -y * np.minimum(weight * own, limit)


@pytest.mark.parametrize("kind", ["dense", "single", "sparse", "coded"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clip", [0.2, 0.4, 1.5])
def test_consistent_gradients_against_whole_arrays(kind, weighted, clip):
    X, y = correlated(700)
    X = np.where(np.abs(X) < 0.02, 0.0, X)
    if kind == "single":
        X = X.astype(np.float32)
    weight = np.random.default_rng(1).uniform(0.0, 2.0, len(y)) if weighted else None
    given = X
    if kind == "sparse":
        given = scipy.sparse.csr_array(X)
    if kind == "coded":
        codes = np.random.default_rng(2).integers(0, 4, len(y))
        numbers = [(column, None) for column in X.T.copy()]
        given = CodedMatrix([(codes.astype(np.uint8), np.eye(4)), *numbers])
        X = np.hstack([np.eye(4)[codes], X])
    problem = Problem(
        given, y, data_norm=2.0, sample_weight=weight, max_weight=2.0 if weighted else None
    )
    rows = np.column_stack([X.astype(np.float64), np.ones(len(y))])
    W = np.diag(np.linspace(0.5, 3.0, rows.shape[1]))
    w = np.linspace(-2.0, 2.0, rows.shape[1])
    limit = clip / np.linalg.norm(rows @ W, axis=1)
    slope = _consistent_slopes(y, rows @ w, limit) * (1.0 if weight is None else weight)
    computed = CoordinateGradient(problem.shape, clip, 1e6, True).evaluate(problem, W, w)
    np.testing.assert_allclose(computed, (rows @ W).T @ slope, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("clip", [0.2, 0.6, 1.2])
def test_consistent_gradients_vanish_where_labels_follow_the_model(isa, clip):
    X, _ = correlated(300)
    w = np.array([3.0, -2.0, 4.0, -1.0, 2.0, 1.0, -0.5])
    W = np.diag(np.linspace(1.0, 2.0, 7))
    p = 1.0 / (1.0 + np.exp(-(X @ w[:6] + w[6])))
    # Every row has both labels, each with the weight of its probability.
    both = Problem(
        np.vstack([X, X]), np.repeat([1.0, -1.0], 300), data_norm=1.0,
        sample_weight=np.concatenate([p, 1.0 - p]), max_weight=1.0,
    )  # fmt: skip
    consistent, clamped = (
        CoordinateGradient(both.shape, clip, 1e6, flag).evaluate(both, W, w)
        for flag in (True, False)
    )
    assert np.abs(consistent).max() < 1e-6 * 300
    assert np.linalg.norm(clamped) > 0.5


@pytest.mark.parametrize("consistent", [True, None])
def test_consistent_gradients_are_for_the_logistic_loss(consistent):
    shape = ProblemShape(100, 3, 1.0, Loss("huber"))
    with pytest.raises(ValueError, match="consistent must be False for the huber loss"):
        CoordinateGradient(shape, 1.0, 10.0, consistent)


def test_whether_gradients_are_consistent_may_be_told():
    X, y = correlated(300)
    problem = Problem(X, np.sign(y - np.median(y)) + (y == np.median(y)), data_norm=1.0)
    W, w = np.diag(np.linspace(1.0, 2.0, 7)), np.linspace(-2.0, 2.0, 7)
    told = CoordinateGradient(problem.shape, 0.4, 1e6, None)
    found = []
    for flag in (True, False):
        found.append(told.evaluate(problem, W, flag, w))
        stated = CoordinateGradient(problem.shape, 0.4, 1e6, flag)
        assert np.array_equal(found[-1], stated.evaluate(problem, W, w))
        assert told.sensitivity("replace_one") == stated.sensitivity("replace_one")
    assert not np.allclose(*found)
    curator = Curator(problem, Ledger(Budget(mu=1.0)), SecureGenerator(0))
    for other in (1, 0, 1.0, None, "True", [True], w):
        with pytest.raises((TypeError, ValueError), match=r"must be True or|must have the shapes"):
            curator.fix(told, W, other)
    # Not with the weights, where it would be too late.
    with pytest.raises(ValueError, match="must have the shapes"):
        told.check_shapes((w, False), slice(told.fixed, None))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_relative_gradients_against_whole_arrays(sparse, weighted):
    rng = np.random.default_rng(2)
    X, _ = correlated(500)
    y = rng.uniform(0.0, 7.0, 500)
    weight = rng.uniform(0.0, 2.0, 500) if weighted else None
    loss = Loss("poisson", width=2.0)
    problem = Problem(
        scipy.sparse.csr_array(X) if sparse else X, y, loss, data_norm=0.7, sample_weight=weight,
        max_weight=2.0 if weighted else None,
    )  # fmt: skip
    X = X * np.minimum(1.0, 0.7 / np.linalg.norm(X, axis=1))[:, None]
    rows = np.column_stack([X, np.ones(len(X))])
    W = column_transform(problem.shape, np.full(6, 0.3), np.linspace(0.1, 1.0, 6))
    w = np.linspace(-0.5, 0.5, 7)
    for transform in (W, W[:, 4:]):
        exact = np.linalg.norm(rows @ transform, axis=1)
        for longest in (0.7, 1.7, math.inf):
            query = RelativeGradient(problem.shape, 0.4, 1e6, transform.shape[1], longest)
            for unit in (0.05, 3.0):
                length = np.maximum(exact, 1.0 if math.isinf(longest) else longest)
                counted = np.minimum(1.0, longest / length) * (1.0 if weight is None else weight)
                # Where lengths are bounded, no row's slopes are clamped more than another's.
                bound = 0.4 / np.minimum(length, longest)
                slope = np.clip((np.exp(rows @ w) - y) / unit, -bound, bound) * counted
                found = query.evaluate(problem, transform, w, unit)
                np.testing.assert_allclose(found, (rows @ transform).T @ slope, rtol=1e-5)


@pytest.mark.parametrize("longest", [0.3, 0.94, 1.7, math.inf])
def test_rounding_is_charged_for_the_slopes_of_short_rows(longest):
    """Slopes of rows far shorter than `longest` are the largest there are."""
    problem = Problem([[1.0]], [0.0], Loss("poisson"), data_norm=1.0, intercept=0.0)
    query = RelativeGradient(problem.shape, 0.4, 10.0, 1, longest)
    length = abs(query.evaluate(problem, np.array([[0.01]]), np.zeros(1), 0.1)[0])
    plain = CoordinateGradient(problem.shape, 0.4, 10.0)
    charged = query.rounding_error() / plain.rounding_error() * problem.shape.loss.lipschitz
    assert 0.999 * charged <= length / 0.01 <= charged * (1.0 + 1e-12)


@pytest.mark.parametrize("loss", [Loss("pinball", 0.8, 0.2), Loss("huber", 0.3)])
def test_losses_of_residuals_in_other_units(loss):
    """The slopes are those of the same rows with targets and weights in these units."""
    X, _ = correlated(300)
    y = np.linspace(-1.0, 1.0, 300)
    w, half = np.linspace(-0.5, 0.5, 7), 0.02
    problem = Problem(X, half * y, loss, data_norm=9.0)
    scale = loss.zoomed(half).lipschitz / loss.lipschitz
    query = RelativeGradient(problem.shape, 1.5, 1e6, 7)
    found = query.evaluate(problem, np.eye(7), half * w, scale, half)
    plain = query.evaluate(Problem(X, y, loss, data_norm=9.0), np.eye(7), w, 1.0, 1.0)
    np.testing.assert_allclose(found, plain, rtol=1e-6)


def test_slopes_beyond_float64_are_refused():
    """Infinity less infinity is no slope that a clamp bounds."""
    loss = Loss("tweedie", 1.5, width=3.0)
    query = RelativeGradient(ProblemShape(10, 2, 1.0, loss), 1.0, 10.0, 3)
    query.check_point(np.eye(3)[0], 1.0, 100.0)
    with pytest.raises(ValueError, match=r"slopes of the loss .tweedie. finite; got 1000\.0"):
        query.check_point(np.eye(3)[0], 1.0, 1000.0)


def test_the_transform_is_bounded():
    shape = ProblemShape(10, 2, data_norm=1e-3, intercept=2.0)
    W = np.diag([1e9, 1.0, 2.0])
    lowered = bounded(shape, W, 1e3)
    assert math.sqrt(2.0) * np.linalg.norm(np.diag([1e-3, 1e-3, 2.0]) @ lowered) <= 1e3
    np.testing.assert_allclose(np.diag(lowered)[1:], [1.0, 2.0])
    assert bounded(shape, W, 1e10) is W
    query = Gram(shape, 1.0, 1e3)
    query.check(lowered)
    with pytest.raises(ValueError, match="transform must have a reach of at most 1000"):
        query.check(W)


def test_columns_that_are_bounded_remain_columns():
    """A column of which hardly any row differs from its mean has the scale of one row."""
    shape = ProblemShape(1000, 3, data_norm=2.0, intercept=1.0)
    W = column_transform(shape, np.array([0.1, 0.9999, -0.2]), np.array([0.5, 1e-6, 0.7]))
    lowered = bounded(shape, W, 1e3)
    Gram(shape, 1.0, 1e3).check(lowered)
    np.testing.assert_array_equal(lowered[:, [0, 2, 3]], W[:, [0, 2, 3]])
    ratio = W[[1, 3], 1] / lowered[[1, 3], 1]
    assert ratio[0] == pytest.approx(ratio[1])
    assert ratio[0] > 100.0


def test_what_is_allowed_beyond_the_limit_is_charged():
    """A transform that rounding left a hair too long, and the row that has all of its reach."""
    direction = np.array([3.0, 4.0]) / 5.0
    transform = np.vstack([direction / 2.0, direction])
    shape = ProblemShape(1, 1, 2.0)
    limit = coordinates.reach_of(shape, transform) / (1.0 + 0.999 * 2.0**-40)
    query = CoordinateGradient(shape, 1e9, limit)
    problem = Problem([[2.0]], [-1.0], data_norm=2.0)
    length = np.linalg.norm(query.evaluate(problem, transform, np.full(2, 1e3)))
    charged = query.sensitivity("add_or_remove_one") + 2.0 * query.rounding_error()
    assert charged * (1.0 - 1e-12) <= length <= charged


def test_a_few_directions_are_bounded_like_all():
    shape = ProblemShape(10, 6, 1.0)
    columns = 100.0 * np.random.default_rng(0).standard_normal((shape.dim, 2))
    assert np.linalg.norm(bounded(shape, columns, 5.0)) < 10.0 < np.linalg.norm(columns)
