"""Fits with a few rows a weight, in units of µ: last gradients tell how far to go."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from factors import COLUMNS, ROWS
from factors import rows as factor_rows
from scipy.optimize import minimize
from scipy.special import expit

from dpfast import Budget, Ledger, Problem, ProblemShape, plan, solve
from dpfast.column_blocks import ColumnBlock
from dpfast.curator import Curator
from dpfast.random import SecureGenerator
from dpfast.solvers import _confirmation
from dpfast.solvers._coordinates import learn
from dpfast.solvers._whitened_rules import confirmed_part

BUDGET = Budget(mu=0.16)  # u = 1.6
ALONG = "gradient along the weights"
rows = partial(factor_rows, intercept=-0.5)


def table(signal, **options):
    return Problem(*rows(signal), data_norm=math.sqrt(COLUMNS), **options)


def mean_loss(signal, seeds):
    problem = table(signal)
    fits = [solve(problem, "auto", BUDGET, random_state=k) for k in range(seeds)]
    return np.mean([problem.objective(fit.w) for fit in fits]) / ROWS


def test_public_quantities_alone_decide():
    problem, ones = table(1.0), np.ones(ROWS)

    def asked(problem, budget=BUDGET, **options):
        accesses = plan(problem, "dp-whitened-gd", budget, **options).accesses
        return [times for access, times in accesses if access.where == ALONG]

    assert asked(problem) == [5] and not asked(problem, Budget(mu=1.0))
    for option in ({"clip": 1.0}, {"alpha": 0.1}, {"range_rounds": 0}, {"momentum": 0.5}):
        assert not asked(problem, **option)
    for other in (
        {"intercept": 0.0},
        {"sample_weight": ones, "max_weight": 2.0},
        {"groups": np.arange(ROWS) // 2},
    ):
        assert not asked(table(1.0, **other))


def test_plans_say_what_is_learned():
    said = [plan(table(1.0), "dp-whitened-gd", Budget(mu=mu)).settings.regime for mu in (0.16, 0.3)]
    assert said == ["two directions of the weights", "all weights"]


def test_it_takes_the_less_of_the_budget_the_more_rows_there_are():
    shapes = [ProblemShape(n, 200, 14.0, "logistic", intercept=1.0) for n in (1000, 10_000)]
    shares = [_confirmation.share(shape, u) for shape in shapes for u in (1.6, 3.0, 5.9)]
    assert shares[:3] == shares[3:] == sorted(shares[:3], reverse=True)
    assert 0.0 < shares[2] < shares[0] < 0.2
    few = ProblemShape(100_000, 63, 8.0, "logistic", intercept=1.0)
    assert [_confirmation.share(shapes[0], u) for u in (6.0, 0.2)] == [0.0, 0.0]
    assert _confirmation.share(few, 3.0) == 0.0


def test_a_signal_is_followed_as_far_as_it_goes(monkeypatch):
    found = mean_loss(2.0, 4)
    monkeypatch.setattr(_confirmation, "share", lambda *asked: 0.0)
    assert found < mean_loss(2.0, 4) - 0.01


def test_without_a_signal_a_constant_is_left():
    p = np.mean(rows(0.0)[1] > 0.0)
    constant = -p * math.log(p) - (1.0 - p) * math.log(1.0 - p)
    assert mean_loss(0.0, 4) < constant + 0.005


def test_with_more_rows_it_is_a_mean_with_the_descents_own_end(monkeypatch):
    parts = [confirmed_part(u) for u in (1.5, 3.0, 4.5, 6.0)]
    assert parts == [1.0, 1.0, 0.75, 0.5]
    problem, budget = table(2.0), Budget(mu=0.45)
    settings = plan(problem, "dp-whitened-gd", budget).settings
    curator = Curator(problem, Ledger(budget), SecureGenerator(0))
    coordinates = learn(settings.learning, problem.shape, curator)
    monkeypatch.setattr(_confirmation, "_followed", lambda *asked: np.zeros(3))
    w = np.random.default_rng(0).standard_normal(COLUMNS + 1)
    found = _confirmation.confirmed(w, w, settings, problem.shape, curator, coordinates)
    part = confirmed_part(settings.rows_per_weight)
    assert 0.7 < part < 0.8
    np.testing.assert_allclose(found, (1.0 - part) * w)


def test_nothing_that_is_not_sure_is_followed(monkeypatch):
    monkeypatch.setattr(_confirmation, "sure", lambda *asked: 0.0)
    fit = solve(table(2.0), "auto", BUDGET, random_state=0)
    assert not fit.w[:-1].any() and fit.w[-1] != 0.0


@pytest.mark.parametrize(("width", "far"), [(0.6, 2.0), (1.0, 1.5), (2.0, 1.0)])
def test_slopes_tell_width_and_length(width, far):
    z = width * np.random.default_rng(0).permutation(np.linspace(-3.0, 3.0, 2001))
    weights = np.exp(-0.5 * np.square(z / width))
    weights /= weights.sum()
    labels = expit(far * z - 0.7)
    belief = _confirmation._Belief(float(weights @ labels))
    for at in (0.0, 0.4 * far, far, 1.2 * far):
        predicted = expit(at * z - 0.7)
        longest = math.sqrt(1.5) / np.sqrt(2.0 + np.square(z))
        kept = np.minimum(1.0, longest / np.maximum(predicted, 1.0 - predicted))
        slope = 4.0 * float(weights @ (kept * z * (predicted - labels)))
        belief.add(slope, 0.01, at, -0.7)
    found, certain, told = belief.told()
    assert found == pytest.approx(far, rel=0.15) and told == pytest.approx(width, rel=0.15)
    assert 0.8 < certain < 1.0


def test_a_width_that_is_not_known_is_no_doubt():
    belief = _confirmation._Belief(0.5)
    assert belief.told()[1] == 0.0
    for slope, at in ((-1.0, 0.0), (-0.5, 1.0)):  # labels follow these margins, however wide
        belief.add(slope, 0.2, at, 0.0)
    assert belief.told()[1] > 0.5


def test_units_of_the_columns_do_not_matter():
    X, y = rows(2.0)

    def fitted(unit):
        problem = Problem(unit * X, y, data_norm=unit * math.sqrt(COLUMNS))
        return solve(problem, "auto", BUDGET, random_state=0).w[:-1] * unit

    plain = fitted(1.0)
    for unit in (2.0**-20, 2.0**-300, 2.0**300):
        np.testing.assert_allclose(fitted(unit), plain, rtol=1e-3, atol=1e-6)


def test_categories_without_rows_go_less_far_than_others(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.zeros((ROWS, 100))
    X[np.arange(ROWS), rng.integers(60, size=ROWS)] = 1.0
    columns = (ColumnBlock("one-hot", 0, 100),)
    y = rng.choice([-1.0, 1.0], ROWS)
    problem = Problem(X, y, "logistic", data_norm=1.0, columns=columns)
    settings = plan(problem, "dp-whitened-gd", Budget(mu=0.2)).settings
    curator = Curator(problem, Ledger(Budget(mu=0.2)), SecureGenerator(0))
    coordinates = learn(settings.learning, problem.shape, curator)
    seen = coordinates.columns.frequency >= coordinates.columns.frequency_deviation
    w = np.append(np.where(seen, 1.0, 3.0), 0.0)
    monkeypatch.setattr(_confirmation, "_followed", lambda *asked: np.array([1.0, 0.0, 0.0]))
    slopes = rng.standard_normal(len(w))
    found = _confirmation.confirmed(w, slopes, settings, problem.shape, curator, coordinates)
    assert 0 < seen.sum() < 100 and found[:-1][seen].min() > 0.0
    assert found[:-1][~seen].max() <= 0.71 * found[:-1][seen].max()


def test_exact_slopes_lead_to_the_best_of_all_mixes(monkeypatch):
    problem, used = table(2.0), []
    settings = plan(problem, "dp-whitened-gd", BUDGET).settings
    curator = Curator(problem, Ledger(BUDGET), SecureGenerator(0))
    coordinates = learn(settings.learning, problem.shape, curator)
    exact = SimpleNamespace(
        fix=lambda query, *fixed: fixed,
        release=lambda access, fixed, *point: access.query(
            access.query.prepare(problem, *fixed), *point
        ),
    )
    apart = _confirmation._apart
    monkeypatch.setattr(
        _confirmation, "_apart", lambda *asked: used.append(apart(*asked)) or used[-1]
    )
    X, y = rows(2.0)
    w = np.append(-0.2 * np.mean(y[:, None] * X[:, ::-1], axis=0), 0.0)
    slopes = coordinates.transform.T @ np.append(-np.mean(y[:, None] * X, axis=0), 0.0)
    found = _confirmation.confirmed(w, slopes, settings, problem.shape, exact, coordinates)
    numbers = np.column_stack([X @ used[0], np.ones(ROWS)])
    best = minimize(lambda v: np.logaddexp(0.0, -y * (numbers @ v)).mean(), np.zeros(3)).fun
    assert problem.objective(found) / ROWS < best + 0.01


def test_directions_are_apart_where_columns_are():
    problem = table(2.0)
    settings = plan(problem, "dp-whitened-gd", BUDGET).settings
    curator = Curator(problem, Ledger(BUDGET), SecureGenerator(0))
    coordinates = learn(settings.learning, problem.shape, curator)
    found = np.random.default_rng(0).standard_normal((COLUMNS, 2))
    apart = _confirmation._apart(found, coordinates)
    inside = (
        np.sqrt(coordinates.squares())[:, None]
        * coordinates.of_weights(np.vstack([apart, np.zeros((1, 2))]))[:-1]
    )
    np.testing.assert_allclose(inside.T @ inside, np.eye(2), atol=1e-9)
    assert found[:, 0] @ apart[:, 0] > 0.0
    nothing = _confirmation._apart(np.zeros((COLUMNS, 2)), coordinates)
    np.testing.assert_array_equal(nothing, np.zeros((COLUMNS, 2)))


def test_what_is_surely_nothing_is_told_as_nothing():
    """Also where its probability is next to none."""
    belief = _confirmation._Belief(0.3)
    for _ in range(5):
        belief.add(0.0, 0.002435, 0.0, math.log(0.3 / 0.7))
    assert belief.told()[:2] == pytest.approx((0.0, 0.0), abs=1e-12)


def test_categories_that_were_not_seen_move_less():
    columns = SimpleNamespace(
        categories=np.array([True, True, True, False]),
        frequency=np.array([0.001, -0.02, 0.3, 0.0]),
        frequency_deviation=np.array([0.01, 0.01, 0.01, 0.01]),
    )
    found = _confirmation._limited(np.array([3.0, -3.0, 2.0, 1.0]), columns)
    np.testing.assert_allclose(found, [1.4, -1.4, 2.0, 1.0])
    columns.frequency[2], columns.categories[3] = 0.0, True
    found = _confirmation._limited(np.array([3.0, -3.0, 2.0, 1.0]), columns)  # nobody is seen
    np.testing.assert_array_equal(found, [3.0, -3.0, 2.0, 1.0])
