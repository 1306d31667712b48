"""Ranges of columns that are learned by counts: what is found, left alone, and paid for."""

import math

import numpy as np
import pytest

from dpfast import Budget, Ledger, Loss, Problem, ProblemShape, plan, solve
from dpfast.column_blocks import ColumnBlock
from dpfast.curator import Curator
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import ColumnHistogram, LongRows
from dpfast.random import SecureGenerator
from dpfast.solvers import _column_ranges
from dpfast.solvers._coordinates import learn

DELTA = 1e-6


def declared(X, y=None):
    """A problem with columns declared to be numbers in [-1, 1]."""
    n, d = X.shape
    numbers = tuple(ColumnBlock("number", j, j + 1) for j in range(d))
    y = np.where(np.arange(n) % 2, 1.0, -1.0) if y is None else y
    return Problem(X, y, "logistic", data_norm=math.sqrt(d), columns=numbers)


def curator_of(problem, settled, seed=0):
    return Curator(problem, Ledger(settled.budget), SecureGenerator(seed))


def learned(X, epsilon=1.0, seed=0):
    """The ranges, in units of the columns."""
    problem = declared(X)
    settled = plan(problem, "dp-whitened-gd", Budget(epsilon, DELTA))
    ranges = settled.settings.learning.ranges
    return _column_ranges.learn_ranges(ranges, 1.0, curator_of(problem, settled, seed))


@pytest.mark.parametrize("width", [1e-4, 1e-2, 0.3])
def test_columns_are_found_wherever_they_are(width):
    rng = np.random.default_rng(0)
    places = np.array([-0.9, -0.31, 0.0, 0.5, 0.77])
    X = np.clip(places + width * rng.standard_normal((20_000, 5)), -1.0, 1.0)
    for seed in range(3):
        told = learned(X, seed=seed)
        assert told.believed.all()
        assert np.all(np.abs(told.center - X.mean(axis=0)) < 2.0 * X.std(axis=0))
        ratio = told.deviation / X.std(axis=0)
        assert np.all((ratio > 0.5) & (ratio < 3.0))


def test_columns_of_one_value_are_left_alone():
    rng = np.random.default_rng(1)
    X = np.zeros((20_000, 4))
    X[:, 0] = -0.3 + 0.01 * rng.standard_normal(20_000)
    X[:, 1] = rng.random(20_000) < 0.02  # rare ones
    X[:, 2] = 0.7  # a constant
    X[:, 3] = np.where(rng.random(20_000) < 0.05, rng.random(20_000), -1.0)  # mostly one value
    assert learned(X).believed.tolist() == [True, False, False, False]


def test_the_value_of_a_column_that_is_higher_than_guessed_is_not_told():
    """Entries beyond the height that is looked up to are counted at its ends."""
    X = np.zeros((20_000, 3))
    X[:, 0], X[:, 1] = 1.0, -0.25
    told = learned(X)
    assert told.alike.all() and np.allclose(told.center, [1.0, -0.25, 0.0], atol=1e-3)
    problem = Problem(X, np.where(np.arange(20_000) % 2, 1.0, -1.0), "logistic", data_norm=1.2)
    settled = plan(problem, "dp-whitened-gd", Budget(1.0, DELTA))
    curator = curator_of(problem, settled)
    told = _column_ranges.learn_ranges(settled.settings.learning.ranges, 0.5, curator)
    assert told.alike.tolist() == [False, True, True]


def test_rare_values_far_away_do_not_let_a_column_seem_narrow():
    """Few rows with flags and mostly-zero columns: the prediction stays as good as a constant."""
    for share, most in ((0.003, 0.75), (0.05, 0.67)):
        rng = np.random.default_rng(1)
        X = np.where(rng.random((3_000, 6)) < share, 1.0, -1.0)
        X[:, 0] = rng.uniform(-1.0, 1.0, 3_000)
        y = np.where(rng.logistic(size=3_000) < X[:, 0], 1.0, -1.0)
        problem = declared(X, y)
        fits = (
            solve(problem, "dp-whitened-gd", Budget(1.0, DELTA), random_state=seed).w
            for seed in range(8)
        )
        assert np.mean([problem.objective(w) for w in fits]) / 3_000 < most


def test_where_many_rows_are_long_nothing_is_believed():
    rng = np.random.default_rng(2)
    X = 1e-3 * rng.standard_normal((20_000, 5))
    assert learned(X).believed.all()
    far = rng.random((20_000, 5)) < 0.1  # four rows in ten have an entry far away
    X[far] = rng.uniform(-1.0, 1.0, far.sum())
    assert not learned(X).believed.any()


def test_codes_for_missing_values_in_one_column_leave_the_others_narrow():
    """One row in fifty has its entry at the other end: too few for the counts in bins to show."""
    rng = np.random.default_rng(7)
    X = 0.9 + 0.02 * rng.standard_normal((20_000, 6))
    X[rng.random(20_000) < 0.02, 3] = -1.0
    X[:, 5] = 0.02 * rng.standard_normal(20_000)
    for seed in range(3):
        assert (
            learned(X, epsilon=3.0, seed=seed).believed.tolist()
            == [True] * 3 + [False] + [True] * 2
        )


def test_narrow_columns_get_a_weight_and_rare_spikes_none():
    rng = np.random.default_rng(3)
    z = rng.standard_normal((20_000, 4))
    y = np.where(rng.logistic(size=20_000) < z @ [1.0, -1.0, 0.5, 0.0], 1.0, -1.0)
    problem = declared(0.4 + 1e-3 * z, y)
    w = solve(problem, "dp-whitened-gd", Budget(1.0, DELTA), random_state=0).w
    np.testing.assert_allclose(1e-3 * w[:4], [1.0, -1.0, 0.5, 0.0], atol=0.15)


def test_the_range_of_a_column_bounds_what_its_noise_may_do():
    """Ranged columns are believed to end some thirty scales from their center."""
    rng = np.random.default_rng(4)
    problem = declared(0.4 + 1e-3 * rng.standard_normal((20_000, 3)))
    settled = plan(problem, "dp-whitened-gd", Budget(1.0, DELTA))
    found = learn(settled.settings.learning, problem.shape, curator_of(problem, settled))
    assert found.columns.ranged.all()
    assert np.all((found.columns.scale > 5e-4) & (found.columns.scale < 5e-3))


def test_scales_of_columns_whose_range_is_known_leave_no_room_for_spikes():
    """A narrow column's bounds say nothing of its spread; its scale ends near the deviation."""
    rng = np.random.default_rng(5)
    problem = declared(0.4 + 2e-3 * rng.standard_normal((12_000, 8)))
    settled = plan(problem, "dp-whitened-gd", Budget(0.25, DELTA))
    for seed in range(3):
        found = learn(settled.settings.learning, problem.shape, curator_of(problem, settled, seed))
        assert found.columns.ranged.all()
        assert np.median(found.columns.scale) < 2e-3 * 2.0


def test_noise_in_the_count_of_long_rows_is_not_taken_for_rows():
    """Where no row is long, ranges are believed in nearly all runs."""
    rng = np.random.default_rng(6)
    X = 0.4 + 2e-3 * rng.standard_normal((3_000, 2))
    found = [learned(X, epsilon=0.3, seed=seed) for seed in range(24)]
    assert sum(told.believed.any() for told in found) >= 23


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_share_lets_rows_stand_out(relation):
    """All rows are at least ten times the noise of a count, and cost a few hundredths at most."""
    for n, epsilon in ((2_000, 1.0), (20_000, 0.1), (20_000, 1.0), (300_000, 4.0)):
        shape = ProblemShape(n, 8, data_norm=2.0, loss=Loss("logistic"))
        settled = plan(
            shape, "dp-whitened-gd", Budget(epsilon, DELTA), neighboring_relation=relation
        )
        ranges = settled.settings.learning.ranges
        if ranges is None:
            assert epsilon * n < 5_000
            continue
        assert n >= 9.9 * ranges.histogram.stddev
        events = [*ranges.histogram.events() * ranges.rounds, *ranges.long_rows.events()]
        spent = sum((event.sensitivity / event.stddev) ** 2 for event in events)
        assert spent < 0.049 * budget_mu(Budget(epsilon, DELTA)) ** 2
        queries = [type(mechanism.query) for mechanism, _ in settled.accesses[:2]]
        assert queries == [ColumnHistogram, LongRows]
        assert settled.accesses[0][1] == _column_ranges.ROUNDS


def test_categories_alone_have_no_ranges():
    shape = ProblemShape(
        50_000, 4, data_norm=1.0, loss=Loss("logistic"), columns=(ColumnBlock("one-hot", 0, 4),)
    )
    assert plan(shape, "dp-whitened-gd", Budget(1.0, DELTA)).settings.learning.ranges is None
    with pytest.raises(ValueError, match="range_rounds must be 0 where noise"):
        plan(shape, "dp-whitened-gd", Budget(1.0, DELTA), range_rounds=3)


def test_long_rows_are_counted():
    shape = ProblemShape(5, 2, data_norm=1.0, loss=Loss("logistic"))
    X = np.array([[0.96, 0.0], [0.4, 0.1], [0.8, 0.0], [0.8, 0.2], [0.0, 0.24]])
    problem = Problem(X, np.ones(5), "logistic", data_norm=1.0)
    query = LongRows(shape)
    center, factor = np.zeros(2), np.array([320.0, 0.0])
    (count,) = query.evaluate(problem, center, factor)
    assert count == pytest.approx(1.0 + 0.75 + 1.0 + 1.0)


def test_columns_have_their_part_of_long_rows():
    """By the squares of what they add to the length."""
    X = np.array([[0.96, 0.0], [0.4, 0.1], [0.1, 0.2], [0.003, 0.004], [0.0, 0.24]])
    problem = Problem(X, np.ones(5), "logistic", data_norm=1.0)
    query = LongRows(problem.shape, by_column=True)
    center, factor = np.array([0.0, 0.04]), np.full(2, 320.0)
    count, *of_columns = query.evaluate(problem, center, factor)
    squares = np.square(320.0 * (X - center))
    lengths = squares.sum(axis=1)
    part = np.clip(0.5 * np.log(lengths / 256.0) / np.log(16.0), 0.0, 1.0)
    assert count == pytest.approx(part.sum())
    np.testing.assert_allclose(of_columns, part @ (squares / lengths[:, None]))
    assert sum(of_columns) == pytest.approx(count)


def test_what_rounding_is_not_charged_for_is_refused():
    shape = ProblemShape(5, 2, data_norm=1.0, loss=Loss("logistic"))
    with pytest.raises(ValueError, match="factor must be from 0 to 1e"):
        LongRows(shape).check_point(np.zeros(2), np.array([1e6, 0.0]))
    histogram = ColumnHistogram(shape, np.arange(2), 3)
    for low, high in ((0.0, 0.0), (1.0, 0.0), (0.0, 1e-320)):
        with pytest.raises(ValueError, match="high must be greater than low"):
            histogram.check_point(np.full(2, low), np.full(2, high))


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_long_tails_in_far_wider_bounds_are_no_spikes(epsilon):
    """Whether sums show the tail or not, a column of costs gets a scale like its deviation."""
    rng = np.random.default_rng(8)
    costs = np.minimum(np.exp(1.5 * rng.standard_normal((20_000, 2))), 5_000.0)
    problem = declared(costs / 2_500.0 - 1.0)
    settled = plan(problem, "dp-whitened-gd", Budget(epsilon, DELTA))
    found = learn(settled.settings.learning, problem.shape, curator_of(problem, settled))
    ratio = 2_500.0 * found.columns.scale / costs.std(axis=0)
    assert found.columns.ranged.all()
    assert np.all((ratio > 0.15) & (ratio < 2.0)), ratio


def test_a_result_has_the_ranges_that_its_weights_are_meant_for():
    rng = np.random.default_rng(2)
    X = np.column_stack([0.5 + 0.01 * rng.standard_normal(20_000), np.zeros(20_000)])
    found = solve(declared(X), "auto", Budget(1.0, DELTA), random_state=0).column_ranges
    assert 0.0 < found[0, 0] < 0.5 < found[1, 0] < 1.0  # thirty scales on either side
    assert np.isinf(found[:, 1]).all()
    few = solve(declared(X[:50]), "auto", Budget(0.1, DELTA), random_state=0)
    assert few.column_ranges is None
