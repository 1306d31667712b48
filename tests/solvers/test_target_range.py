"""Ranges of targets that are learned: where they end, and what they are worth."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from dpfast import (
    Budget,
    HuberRegressor,
    Ledger,
    LinearRegression,
    Loss,
    Problem,
    QuantileRegressor,
    plan,
    solve,
)
from dpfast.curator import Curator
from dpfast.random import SecureGenerator
from dpfast.solvers._range_laws import normal_laws
from dpfast.solvers._target_range import _PAIRS, _filling, _likely, learn_range, share


def placed(y, epsilon, seed=0, intercept=1.0):
    """What is found among declared bounds of -1 and 1."""
    X = np.zeros((len(y), 1))
    problem = Problem(X, y, "huber", data_norm=1.0, intercept=intercept)
    settled = plan(problem, "dp-whitened-gd", Budget(epsilon, 1e-6))
    curator = Curator(problem, Ledger(settled.budget), SecureGenerator(seed))
    return learn_range(settled.settings.target_range, curator)


def learned(*arguments, **options):
    """Its center and half the width."""
    return placed(*arguments, **options)[:2]


@pytest.mark.parametrize("width", [1e-2, 0.1, 0.9])
@pytest.mark.parametrize("place", [-0.6, 0.0, 0.07])
def test_it_holds_the_targets_and_not_much_more(place, width):
    rng = np.random.default_rng(1)
    y = np.clip(place + width * rng.uniform(-1, 1, 20_000), -1.0, 1.0)
    for seed in range(5):
        center, half = learned(y, 1.0, seed)
        assert np.mean(np.abs(y - center) > half) < 0.01
        assert half <= 8.0 * width


def test_without_a_constant_it_is_around_zero():
    center, half = learned(np.full(20_000, 0.03), 1.0, intercept=0.0)
    assert center == 0.0 and 0.03 < half < 0.3


@pytest.mark.parametrize("estimator", [LinearRegression, HuberRegressor, QuantileRegressor])
def test_a_constant_column_takes_up_the_center_as_an_intercept_does(estimator):
    """Around zero ranges were so wide that fits ended four times as far from the targets."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, (3_000, 3))
    noiseless = 70.0 + X @ [3.0, -2.0, 1.0]
    y, within = noiseless + rng.standard_normal(3_000), np.insert(X, 1, 1.0, axis=1)

    def far(table, **options):
        """Mean square of what predictions are off by."""
        fits = (
            estimator(
                0.4, 1e-6, target_bounds=(0.0, 100.0), data_norm=2.0, random_state=seed, **options
            ).fit(table, y)
            for seed in range(6)
        )
        return np.mean([np.mean(np.square(fit.predict(table) - noiseless)) for fit in fits])

    assert far(within, fit_intercept=False) < 1.5 * far(X)


def test_targets_beyond_the_range_are_reached_without_an_intercept():
    """A problem of one's own may have them: all are counted at an end, as if they were there."""
    rng = np.random.default_rng(3)
    X = np.insert(rng.uniform(-0.5, 0.5, (3_000, 3)), 1, 1.0, axis=1)
    y = X @ [1.0, 6.0, -1.0, 0.5] + 0.3 * rng.standard_normal(3_000)
    problem = Problem(X, y, Loss("huber", 1.0), data_norm=2.0, intercept=0.0)
    for seed in range(4):
        w = solve(problem, "dp-whitened-gd", Budget(1.0, 1e-6), random_state=seed).w
        assert problem.objective(w) < 0.1 * problem.objective(np.zeros(4))


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
def test_few_rows_leave_it_as_declared_or_still_hold_most_targets(epsilon):
    y = 0.2 + 0.05 * np.random.default_rng(2).standard_normal(150)
    for seed in range(20):
        center, half = learned(y, epsilon, seed)
        assert (center, half) == (0.0, 1.0) or np.mean(np.abs(y - center) > half) < 0.5


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("place", [-0.7, 0.2])
def test_a_thousandth_of_the_bounds_is_found_by_few_rows(place, epsilon):
    n = int(200 / epsilon)
    y = place + 5e-4 * np.random.default_rng(5).standard_normal(n)
    found = [learned(y, epsilon, seed) for seed in range(20)]
    assert all(abs(center - place) < half < 0.05 for center, half in found)


def test_declared_bounds_are_right_until_counts_say_otherwise():
    nothing, filled, narrow = np.zeros((3, 1, 33))
    filled[:], narrow[0, 3] = 5.0 * _filling() @ normal_laws(33, 14, _PAIRS).shares, 5.0
    rows = np.array([5.0])
    assert [_likely(counts, rows, 0.75)[0] for counts in (nothing, filled, narrow)] == [1, 1, 0]
    assert not _likely(filled, rows, 0.0)[0]


def test_grades_are_not_taken_for_the_commonest_one():
    """Counts of empty bins hid the others: of half of the fits the range had a single grade."""
    y = np.random.default_rng(3).choice([-0.2, 0.0, 0.2, 0.4], 6_500, p=[0.03, 0.34, 0.46, 0.17])
    for seed in range(10):
        center, half = learned(y, 0.1, seed)
        assert np.mean(np.abs(y - center) <= half) > 0.75


@pytest.mark.parametrize("epsilon", [0.1, 0.4])
def test_a_descent_begins_between_two_places_far_apart(epsilon):
    """One narrow law explains half of the rows as well as none, and misses the other half."""
    y = np.where(np.arange(1_000) < 550, -1.0, 1.0)
    starts = [placed(y, epsilon, seed).start for seed in range(20)]
    assert np.mean(np.square(starts - y.mean())) < 0.1 * y.var()


def places_of_few(y, rows):
    """Thirty places that are learned with µn/√k as large as `rows`."""
    budget = Budget(mu=rows * math.sqrt(2.0) / len(y))
    problem = Problem(np.zeros((len(y), 1)), y, "huber", data_norm=1.0, intercept=1.0)
    target = plan(problem, "dp-whitened-gd", budget).settings.target_range
    curators = (Curator(problem, Ledger(budget), SecureGenerator(seed)) for seed in range(30))
    return [learn_range(target, curator) for curator in curators]


@pytest.mark.parametrize("rows", [1, 6, 12, 25])
def test_few_rows_in_known_bounds_lose_nothing_to_the_search(rows):
    """A descent begins hardly farther from the mean than the middle of the bounds is."""
    rng = np.random.default_rng(8)
    y = np.clip(0.1 + 0.35 * rng.standard_normal(60), -1.0, 1.0)
    places = places_of_few(y, rows)
    assert np.mean([place.half == 1.0 for place in places]) > 0.9
    apart = np.array([place.start for place in places]) - y.mean()
    assert np.mean(apart**2) <= y.mean() ** 2 + 0.05 * y.var()


@pytest.mark.parametrize(("rows", "most"), [(10, 5.0), (13, 3.3)])
@pytest.mark.parametrize("zeros", [0.0, 0.5])
def test_a_descent_of_few_rows_begins_where_skewed_targets_are(rows, most, zeros):
    """At the lower end of their bounds, not in the middle, which loses thirty variances or more."""
    rng = np.random.default_rng(10)
    costs = np.exp(1.2 * rng.standard_normal(400)) * (rng.random(400) >= zeros)
    y = np.minimum(costs / 15.0 - 1.0, 1.0)
    apart = np.array([place.start for place in places_of_few(y, rows)]) - y.mean()
    assert np.exp(np.mean(np.log1p(apart**2 / y.var()))) < most


@pytest.mark.parametrize("rows", [22, 45])
def test_noise_far_from_narrow_targets_hardly_moves_where_a_descent_begins(rows):
    """The mean of all counts is some deviations away, and loses 20 times what a constant does."""
    y = np.random.default_rng(3).lognormal(0.0, 0.8, 200)
    y = y / (500.0 * y.max()) - 1.0
    apart = np.array([place.start for place in places_of_few(y, rows)]) - y.mean()
    assert np.exp(np.mean(np.log1p(apart**2 / y.var()))) < 5.0


@pytest.mark.parametrize("factor", [1.0, 1000.0])
@pytest.mark.parametrize("quantile", [0.1, 0.9])
def test_other_quantiles_than_the_median_under_wide_bounds(quantile, factor):
    """A kink is rounded off in units of the range that was learned, not of that declared."""
    rng = np.random.default_rng(4)
    X = np.clip(rng.standard_normal((10_000, 3)) / 3.0, -1.0, 1.0)
    y = 5.0 * X.sum(axis=1) + rng.standard_normal(10_000)

    def lost(residuals):
        return np.mean(np.maximum(quantile * residuals, (quantile - 1.0) * residuals))

    bounds = (-15.0 * factor, 15.0 * factor)
    model = QuantileRegressor(
        epsilon=1.0, data_norm=2.0, quantile=quantile, target_bounds=bounds, random_state=0
    )
    constant = lost(y - np.quantile(y, quantile))
    assert lost(y - model.fit(X, y).predict(X)) < 0.5 * constant


@pytest.mark.parametrize(("quantile", "place"), [(None, 0.5), (0.9, 0.525), (0.1, 0.475)])
def test_a_descent_begins_at_the_mean_or_halfway_to_the_quantile(quantile, place):
    y = np.random.default_rng(7).uniform(0.4375, 0.5625, 3000)
    loss = Loss("huber", 1.0) if quantile is None else Loss("pinball", quantile)
    problem = Problem(np.zeros((len(y), 1)), y, loss, data_norm=1.0, intercept=1.0)
    settled = plan(problem, "dp-whitened-gd", Budget(1.0, 1e-6))
    curator = Curator(problem, Ledger(settled.budget), SecureGenerator(0))
    found = learn_range(settled.settings.target_range, curator)
    assert abs(found.start - place) < 0.01


def test_more_rows_pay_less():
    shares = [share(rows) for rows in (10, 200, 2000, 1e4, 1e7)]
    assert shares[0] == 0.5 > shares[1] == 0.1 > shares[2] > 0.02 > shares[3] == shares[4] == 0.01


def test_what_a_search_leaves_grows_with_the_budget():
    rows = np.geomspace(7.1, 1e4, 200)
    left = [row**2 * (1.0 - share(row)) for row in rows]
    assert share(1.0) == share(7.0) == 0.01 and np.all(np.diff(left) >= -1e-9)


def table(n=20_000, d=4):
    rng = np.random.default_rng(3)
    X = np.clip(rng.standard_normal((n, d)) / 3.0, -1.0, 1.0)
    return X, 50.0 + 10.0 * X.sum(axis=1) + rng.standard_normal(n)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (LinearRegression, {}),
        (LinearRegression, {"solver": "dp-adassp"}),
        (HuberRegressor, {"threshold": 1.0}),
        (QuantileRegressor, {}),
    ],
)
def test_bounds_a_thousand_times_too_wide(kind, options):
    X, y = table()
    lost = {}
    for factor in (1.0, 1000.0):
        bounds = (50.0 - 30.0 * factor, 50.0 + 40.0 * factor)
        model = kind(epsilon=2.0, data_norm=2.0, target_bounds=bounds, random_state=0, **options)
        lost[factor] = np.mean((y - model.fit(X, y).predict(X)) ** 2) / np.var(y)
    assert lost[1.0] < 0.05 and lost[1000.0] < 0.1


@pytest.mark.parametrize("kind", [LinearRegression, HuberRegressor, QuantileRegressor])
def test_more_budget_never_loses(kind):
    X, y = table(5000)
    lost = []
    for epsilon in (0.4, 1.6, 6.4, 25.0, 100.0):
        model = kind(epsilon=epsilon, data_norm=2.0, target_bounds=(0.0, 100.0), random_state=1)
        lost.append(np.mean(np.abs(y - model.fit(X, y).predict(X))))
    assert max(lost) < 0.5 * np.mean(np.abs(y - np.median(y)))
    assert all(after < 1.05 * before for before, after in pairwise(lost))


def test_the_plan_says_whether_targets_are_found_in_wide_bounds():
    def regime(n):
        problem = Problem(np.zeros((n, 1)), np.zeros(n), "huber", data_norm=1.0)
        return plan(problem, "dp-whitened-gd", Budget(0.4, 1e-6)).settings.regime

    assert "not to find targets" in regime(60)
    assert regime(5_000) == "all weights"
    for loss in ("huber", "pinball"):
        three = Problem(np.zeros((9, 1)), np.zeros(9), loss, data_norm=1.0, groups=[0, 1, 1] * 3)
        assert "not to find" in plan(three, "dp-whitened-gd", Budget(0.4, 1e-6)).settings.regime


@pytest.mark.parametrize("kind", [LinearRegression, HuberRegressor, QuantileRegressor])
def test_targets_of_persons_are_found_in_wide_bounds(kind):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(1200), rng.integers(1, 9, 1200))
    X = rng.uniform(-1.0, 1.0, (len(groups), 3))
    y = 13.0 + X @ [6.0, -4.0, 3.0] + rng.normal(0.0, 3.0, 1200)[groups]
    model = kind(
        epsilon=1.0, delta=1e-6, data_norm=math.sqrt(3.0), target_bounds=(0.0, 500.0),
        max_rows_per_group=8, random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    best = np.var(y - 13.0 - X @ [6.0, -4.0, 3.0]) / np.var(y)
    assert np.mean((y - model.predict(X)) ** 2) / np.var(y) < best + 0.03


@pytest.mark.parametrize(
    ("kind", "outlier", "share"),
    [(partial(QuantileRegressor, quantile=0.9), 0.0, 0.9), (HuberRegressor, 60.0, 0.53)],
)
def test_corners_of_persons_are_in_units_of_the_range(kind, outlier, share):
    """An outer quantile, and a center that outliers on one side hardly move, in wide bounds."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(2000), 4)
    X = rng.uniform(-1.0, 1.0, (8000, 2))
    y = X @ [6.0, -4.0] + rng.normal(0.0, 3.0, 8000)
    y += outlier * (rng.random(8000) < 0.1)
    model = kind(
        epsilon=2.0, delta=1e-6, data_norm=1.5, target_bounds=(-1e4, 3e4), random_state=0
    ).fit(X, y, groups=groups)
    assert abs(np.mean(y <= model.predict(X)) - share) < 0.03


def test_only_numbers_have_a_range():
    problem = Problem(np.zeros((5, 1)), np.ones(5), data_norm=1.0)
    with pytest.raises(ValueError, match="target_rounds must be 0 for the loss 'logistic'"):
        plan(problem, "dp-whitened-gd", Budget(1.0, 1e-6), target_rounds=2)
    assert math.isfinite(share(1e-6))


def test_rows_that_weigh_less_than_they_may_are_found_in_wide_bounds():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (6000, 3))
    y = 13.0 + X @ [6.0, -4.0, 3.0] + rng.normal(0.0, 3.0, 6000)
    model = LinearRegression(
        epsilon=2.0, delta=1e-6, data_norm=math.sqrt(3.0), target_bounds=(0.0, 500.0),
        max_weight=10.0, random_state=0,
    ).fit(X, y, sample_weight=np.ones(6000))  # fmt: skip
    assert np.mean((y - model.predict(X)) ** 2) < 1.05 * 3.0**2


def test_a_descent_begins_within_the_range():
    """Whichever counts of noise alone there were beyond it."""
    rng = np.random.default_rng(2)
    problem = Problem(
        np.zeros((100, 1)), -0.98 + 0.005 * rng.standard_normal(100), "huber", data_norm=1.0
    )
    settled = plan(problem, "dp-whitened-gd", Budget(1.0, 1e-6))
    for seed in range(30):
        curator = Curator(problem, Ledger(settled.budget), SecureGenerator(seed))
        place = learn_range(settled.settings.target_range, curator)
        assert abs(place.start - place.center) <= place.half * (1.0 + 1e-12)


@pytest.mark.parametrize("budget", [Budget(20.0), Budget(20.0, 1e-6)])
def test_many_rounds_do_not_narrow_it_to_nothing(budget):
    """Its ends became one number, and the fit failed when most of the budget was spent."""
    problem = Problem(np.zeros((9000, 1)), np.full(9000, 0.3), "huber", data_norm=1.0)
    solver = "objective-perturbation" if budget.delta == 0.0 else "dp-whitened-gd"
    settled = plan(problem, solver, budget, target_rounds=40)
    curator = Curator(problem, Ledger(settled.budget), SecureGenerator(0))
    center, half, *_ = learn_range(settled.settings.target_range, curator)
    assert abs(center - 0.3) < 2.0 * half < 1e-9
