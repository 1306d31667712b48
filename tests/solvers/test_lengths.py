"""Lengths of rows: what one released number tells of them, and columns that noise hides."""

import math

import numpy as np
import pytest

from dpfast import Budget, Ledger, Problem, plan, solve
from dpfast.column_blocks import ColumnBlock
from dpfast.curator import Curator
from dpfast.random import SecureGenerator
from dpfast.solvers import _lengths
from dpfast.solvers._coordinates import _as_long, _least_seen, learn

DELTA = 1e-6


def rows_of(width, n=10_000, d=8):
    """Rows of this length, over their bound."""
    X = np.random.default_rng(3).standard_normal((n, d))
    return X * width * math.sqrt(d) / np.linalg.norm(X, axis=1, keepdims=True)


def table(width, kind="number", n=10_000, d=8):
    """The same with a signal."""
    X, rng = rows_of(width, n, d), np.random.default_rng(4)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-3.0 * X.sum(axis=1) / width)), 1.0, -1.0)
    columns = tuple(ColumnBlock(kind, j, j + 1) for j in range(d))
    return Problem(X, y, "logistic", data_norm=math.sqrt(d), columns=columns)


def settled(problem, epsilon):
    return plan(problem, "dp-whitened-gd", Budget(epsilon, DELTA))


@pytest.mark.parametrize("width", [0.06, 0.1, 0.3])
def test_rows_are_as_long_as_is_told(width):
    problem, found = table(width), []
    settings = settled(problem, 0.1).settings
    for seed in range(20):
        curator = Curator(problem, Ledger(Budget(0.1, DELTA)), SecureGenerator(seed))
        found.append(_lengths.usual_length(settings.learning.lengths, curator))
    # A deviation of the noise, 0.07 of all logarithms from 1/16 to 1, more.
    middle = width if width > 0.0625 else 0.0625
    assert np.median(np.log(found)) == pytest.approx(math.log(middle * 16.0**0.07), abs=0.15)
    assert 0.05 < np.std(np.log(found)) < 0.3


def test_rows_almost_as_long_as_their_bound_are_taken_to_be_so():
    problem = table(0.9)
    settings = settled(problem, 0.1).settings
    for seed in range(20):
        curator = Curator(problem, Ledger(Budget(0.1, DELTA)), SecureGenerator(seed))
        assert _lengths.usual_length(settings.learning.lengths, curator) == 1.0


def test_a_constant_column_hides_no_lengths():
    """As many rows are needed whether the intercept is the table's own or not."""
    scales = []
    for own in (False, True):
        X, y = rows_of(0.05), table(0.05).target
        X = np.column_stack([X, np.ones(len(X))]) if own else X
        columns = tuple(ColumnBlock("number", j, j + 1) for j in range(8 + own))
        problem = Problem(X, y, "logistic", data_norm=3.0, intercept=1.0 - own, columns=columns)
        settings = settled(problem, 0.1).settings
        found = []
        for seed in range(8):
            curator = Curator(problem, Ledger(Budget(0.1, DELTA)), SecureGenerator(seed))
            found.append(learn(settings.learning, problem.shape, curator).columns.scale[:8])
        scales.append(np.median(found))
    assert scales[1] < 1.5 * scales[0]
    assert scales[1] < 0.15  # of a bound of 1


def test_what_it_costs_follows_from_the_rows():
    assert _lengths.share(50.0) == 0.0
    assert _lengths.share(100.0) == pytest.approx(1.0 / 49.0)
    assert _lengths.share(1e5) == 1e-4


def test_lengths_are_asked_for_where_ranges_are_not():
    few, many = (settled(table(0.1), epsilon).settings.learning for epsilon in (0.1, 4.0))
    assert few.ranges is None and few.lengths is not None
    assert many.ranges is not None and many.lengths is None
    assert settled(table(0.1), 0.01).settings.learning.lengths is None
    # The scales of categories follow from their counts.
    assert settled(table(0.1, "one-hot"), 0.1).settings.learning.lengths is None


def test_numbers_that_noise_hides_share_a_size():
    size = np.array([0.1, 0.3, 0.2, 4.0, 0.2])
    numbers = np.array([True, True, True, True, False])
    least = _least_seen(size, 1.0, numbers)
    # The mean of three, and a deviation of its noise; the fourth is seen, the last is no number.
    alike = 0.2 + 1.0 / math.sqrt(3.0)
    np.testing.assert_allclose(least, [alike, alike, alike, 1.5, 1.5])
    # One by itself is known no better.
    assert _least_seen(np.array([1.4]), 1.0, np.array([True])) == 1.5


@pytest.mark.parametrize("epsilon", [0.05, 0.1])
def test_short_rows_are_scaled_to_about_one(epsilon):
    problem, lengths = table(0.1, n=20_000), []
    learning = settled(problem, epsilon).settings.learning
    for seed in range(10):
        curator = Curator(problem, Ledger(Budget(epsilon, DELTA)), SecureGenerator(seed))
        z = learn(learning, problem.shape, curator).transform
        rows = np.column_stack([rows_of(0.1, 20_000), np.ones(20_000)]) @ z[:, :-1]
        lengths.append(np.sqrt(np.mean(np.square(rows))))
    assert 0.3 < np.median(lengths) < 2.0


def test_rows_a_tenth_of_their_bound_hardly_lose_by_it():
    excess = {}
    for width in (0.1, 1.0):
        problem = table(width)
        fits = [
            solve(problem, "auto", Budget(0.1, DELTA), random_state=seed).w for seed in range(12)
        ]
        excess[width] = np.mean([problem.objective(w) for w in fits]) / problem.shape.n_samples
    assert excess[0.1] < excess[1.0] + 0.05


def test_what_squares_leave_over_goes_to_columns_that_noise_hides():
    scale, doubtful = np.array([2.0, 1.0, 1.0]), np.array([0.0, 1.0, 3.0])
    found = _as_long(scale, 10.0, doubtful)
    np.testing.assert_allclose(found**2, [4.0, 2.0, 4.0])
    # Nothing is left over, or no column is in doubt.
    np.testing.assert_array_equal(_as_long(scale, 6.0, doubtful), scale)
    np.testing.assert_array_equal(_as_long(scale, 10.0, np.zeros(3)), scale)


def categories(wide=1.0, n=20_000, size=300):
    """One undeclared category of many values beside three numbers."""
    rng = np.random.default_rng(5)
    shares = 1.0 / np.arange(1.0, size + 1.0)
    chosen = rng.choice(size, n, p=shares / shares.sum())
    X = np.zeros((n, size + 3))
    X[np.arange(n), chosen] = 1.0
    X[:, size:] = np.clip(rng.standard_normal((n, 3)) / 3.0, -1.0, 1.0)
    margins = rng.standard_normal(size)[chosen] + 3.0 * X[:, size] - 2.0 * X[:, size + 1]
    y = np.where(rng.logistic(size=n) < margins, 1.0, -1.0)
    return X, Problem(X, y, "logistic", data_norm=2.0 * wide)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 1.5])
def test_rows_of_undeclared_categories_are_not_far_longer_than_planned(epsilon):
    X, problem = categories()
    learning = settled(problem, epsilon).settings.learning
    curator = Curator(problem, Ledger(Budget(epsilon, DELTA)), SecureGenerator(0))
    transform = learn(learning, problem.shape, curator).transform
    rows = np.column_stack([X, np.ones(len(X))]) @ transform[:, :-1]
    # Scales between their bounds alone make it 8 to 70.
    assert 0.4 < np.mean(np.square(rows)) < 1.5


def test_zeros_and_ones_are_told_where_rows_are_far_shorter_than_their_bound():
    rng = np.random.default_rng(0)
    X = np.hstack([np.eye(10)[rng.integers(0, 10, 20_000)] for _ in range(3)])
    y = np.where(rng.random(20_000) < 0.5, 1.0, -1.0)
    problem = Problem(X, y, "logistic", data_norm=3.0 * math.sqrt(3.0))
    learning = settled(problem, 0.1).settings.learning
    assert learning.lengths is not None
    for seed in range(3):
        curator = Curator(problem, Ledger(Budget(0.1, DELTA)), SecureGenerator(seed))
        columns = learn(learning, problem.shape, curator).columns
        assert columns.counted.all()
        assert columns.height == pytest.approx(1.0)
