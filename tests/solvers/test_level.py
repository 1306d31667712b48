"""The intercept of a quantile: where slopes along the constant change their sign."""

import numpy as np
import pytest

import dpfast
from dpfast import Loss, Problem, QuantileRegressor
from dpfast.queries import QuantileSlopes
from dpfast.solvers._level import ROUNDS, _Search


def skewed(n, seed=0):
    """Rows of many columns that say little of the targets, which are mostly small."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 24))
    return X, np.minimum(np.exp(0.3 * X[:, 0] + rng.standard_normal(n)), 50.0)


@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize("quantile", [0.7, 0.9])
def test_as_many_targets_lie_below_as_were_asked_for(quantile, people):
    # Clipped slopes alone have their zero nearer to the median: .64 and .84, of people .58 and .77.
    X, y = skewed(6000)
    groups = {"groups": np.arange(6000) // 2} if people else {}
    settings = {"data_norm": 5.0, "target_bounds": (0.0, 50.0), "random_state": 0}
    model = QuantileRegressor(1.5, 1e-6, quantile=quantile, **settings).fit(X, y, **groups)
    assert np.mean(y <= model.predict(X)) == pytest.approx(quantile, abs=0.03)
    asked = [event.where for event in model.privacy_.events]
    assert asked.count("slopes along the constant") == ROUNDS


def test_the_median_and_hopeless_fits_pay_nothing():
    for quantile, n, given in (
        (0.5, 9000, {}),
        (0.9, 20, {}),
        (0.9, 9000, {"intercept": 0.0}),
        (0.9, 9000, {"alpha": 0.1}),
    ):
        shape = dpfast.ProblemShape(n, 4, 1.0, Loss("pinball", quantile), **given)
        plan = dpfast.plan(shape, "dp-whitened-gd", dpfast.Budget(1.0, 1e-6))
        assert plan.settings.level is None


@pytest.mark.parametrize("quantile, epsilon", [(0.99, 0.5), (0.97, 0.2)])
def test_outer_quantiles_of_few_rows_are_hardly_worse_than_a_constant(quantile, epsilon):
    # A hundredth of the rows tell the weights little, and the intercept needs more of the budget.
    X, y = skewed(6000)
    settings = {"data_norm": 5.0, "target_bounds": (0.0, 50.0)}
    above = y - np.quantile(y, quantile)
    constant = np.mean(np.maximum(quantile * above, (quantile - 1.0) * above))
    lost = []
    for seed in range(4):
        model = QuantileRegressor(epsilon, 1e-6, quantile=quantile, random_state=seed, **settings)
        above = y - model.fit(X, y).predict(X)
        lost.append(np.mean(np.maximum(quantile * above, (quantile - 1.0) * above)))
    assert np.mean(lost) < 1.2 * constant


def test_a_ridge_draws_the_intercept_to_zero_too():
    X, y = skewed(6000)
    problem = Problem(X, y / 25.0 - 0.5, Loss("pinball", 0.9), data_norm=5.0, alpha=3.0)
    w = dpfast.solve(problem, "dp-whitened-gd", dpfast.Budget(8.0, 1e-6), random_state=0).w
    slope = np.mean(problem.target < w[-1] + X @ w[:-1]) - 0.9
    assert w[-1] == pytest.approx(-slope / 3.0, abs=0.03)


def test_a_corner_of_no_width_has_slopes():
    """Where targets are met 0/0 was none."""
    rows = Problem(np.ones((3, 1)), [0.0, 0.0, 1.0], Loss("pinball", 0.75, 1e-300), data_norm=1.0)
    found = QuantileSlopes(rows.shape).evaluate(rows, np.zeros(2), 1e-100, 1.0)
    np.testing.assert_allclose(found, 2.0 * (0.5 - 0.75) - 0.75)


@pytest.mark.parametrize("scale", [0.02, 0.2, 1.0])
@pytest.mark.parametrize("root", [-0.6, 0.001, 0.4])
def test_a_search_ends_near_the_zero(scale, root):
    search = _Search(noise=5e-7, dense=1.0, most=0.25)
    for _ in range(ROUNDS):
        search.add(0.5 * float(np.tanh((search.at - root) / scale)))
    assert abs(search.at - root) <= 0.5 * abs(root)


def test_a_search_does_not_move_for_noise():
    search = _Search(noise=0.05, dense=1.0, most=0.25)
    search.add(0.09)
    assert search.at == 0.0


def test_rows_of_a_person_count_alike():
    # Persons of one row and of four: their own share below is not the rows'.
    X, y = skewed(6000)
    sizes = np.tile([1, 4], 1200)
    who = np.repeat(np.arange(2400), sizes)
    y = np.where(np.repeat(sizes, sizes) > 1, y + 2.0, y)
    settings = {"data_norm": 5.0, "target_bounds": (0.0, 52.0), "random_state": 0}
    model = QuantileRegressor(3.0, 1e-6, quantile=0.75, **settings).fit(X, y, groups=who)
    below = y <= model.predict(X)
    assert np.mean(below) == pytest.approx(0.75, abs=0.03)
    assert np.mean(np.bincount(who, below) / sizes) > 0.78
