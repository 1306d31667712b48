"""The intercept in the end: where slopes along the constant, or residuals, add up to nothing."""

import numpy as np
import pytest

import dpfast
from dpfast import LinearRegression, Loss, Problem, QuantileRegressor
from dpfast.errors import QuestionableSettingWarning
from dpfast.privacy import Budget
from dpfast.queries import QuantileSlopes
from dpfast.solvers._groups import SizeLaw
from dpfast.solvers._level import ROUNDS, _Search
from dpfast.solvers._target_range import Place

BUDGET = Budget(2.0, 1e-6)


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
    ):
        shape = dpfast.ProblemShape(n, 4, 1.0, Loss("pinball", quantile), **given)
        plan = dpfast.plan(shape, "dp-whitened-gd", dpfast.Budget(1.0, 1e-6))
        assert plan.settings.level is None


@pytest.mark.parametrize("quantile", [0.1, 0.5])
@pytest.mark.parametrize("given", ["rows", "people", "prior"])
def test_few_rows_descend_by_a_loss_of_their_own(quantile, given):
    """Of another quantile, or with a chosen width: their curator keeps that of the problem."""
    X, y = skewed(200)
    groups = {"groups": np.arange(200) // 2} if given == "people" else {}
    settings = {"data_norm": 5.0, "target_bounds": (0.0, 50.0), "random_state": 0}
    model = QuantileRegressor(quantile=quantile, **settings).fit(X, y, **groups)
    if given == "prior":
        model = QuantileRegressor(quantile=quantile, prior=model, **settings).fit(X, y)
    assert np.isfinite(model.coef_).all()


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


def test_a_ridge_leaves_the_intercept_alone():
    X, y = skewed(6000)
    problem = Problem(X, y / 25.0 - 0.5, Loss("pinball", 0.9), data_norm=5.0, alpha=3.0)
    w = dpfast.solve(problem, "dp-whitened-gd", dpfast.Budget(8.0, 1e-6), random_state=0).w
    assert np.linalg.norm(w[:-1]) < 0.02
    assert np.mean(problem.target < w[-1] + X @ w[:-1]) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("solver", ["auto", "dp-adassp"])
def test_a_ridge_draws_no_prediction_to_the_middle_of_the_bounds(solver):
    """With the intercept in it the loss is ten times the targets' variance and more."""
    X, y = skewed(3000)
    model = LinearRegression(
        4.0, data_norm=5.0, target_bounds=(0.0, 1500.0), alpha=0.01, random_state=0, solver=solver
    ).fit(X, y)
    assert np.mean((y - model.predict(X)) ** 2) < 1.1 * np.var(y)


def test_a_corner_of_no_width_has_slopes():
    """Where targets are met 0/0 was none."""
    rows = Problem(np.ones((3, 1)), [0.0, 0.0, 1.0], Loss("pinball", 0.75, 1e-300), data_norm=1.0)
    found = QuantileSlopes(rows.shape).evaluate(rows, np.zeros(2), 1e-100, 1.0)
    np.testing.assert_allclose(found, 2.0 * (0.5 - 0.75) - 0.75)


@pytest.mark.parametrize("scale", [0.02, 0.2, 1.0])
@pytest.mark.parametrize("root", [-0.3, 0.001, 0.4])
def test_a_search_ends_near_the_zero(scale, root):
    # Residuals of a logistic law, so no normal one.
    for q in (0.2, 0.75, 0.9):
        search, edge = _Search(q, q, noise=5e-7, half=1.0, start=0.0), np.log(1.0 / q - 1.0)
        for _ in range(ROUNDS):
            search.add(float(1.0 / (1.0 + np.exp(edge - (search.at - root) / scale))) - q)
        assert abs(search.at - root) <= max(0.5 * abs(root), 0.3 * scale)


def test_a_search_does_not_move_for_noise():
    search = _Search(0.9, 0.5, noise=0.5, half=1.0, start=0.4)
    before = search.at
    search.add(-0.5)
    assert abs(search.at - before) < 0.1


def test_a_search_in_other_units_is_the_same():
    one, other = (_Search(0.9, 0.5, 0.02, half, 0.4 * half) for half in (1.0, 1e-3))
    for value in (-0.1, 0.05, -0.02):
        one.add(value)
        other.add(value)
    assert other.at == pytest.approx(1e-3 * one.at)


def test_of_few_rows_the_weights_are_a_medians():
    """Around an outer quantile few rows tell anything of them."""
    for n, least, most in ((2_000, 0.5, 0.51), (12_000, 0.55, 0.85), (40_000, 0.9, 0.9)):
        shape = dpfast.ProblemShape(n, 15, 1.0, Loss("pinball", 0.9))
        settled = dpfast.plan(shape, "dp-whitened-gd", dpfast.Budget(0.1, 1e-6))
        assert least - 0.01 <= settled.settings.loss.quantile <= most + 0.01
        assert settled.settings.level.other == settled.settings.loss.quantile
        assert settled.settings.level.sums.query.quantile == settled.shape.loss.quantile == 0.9
    shape = dpfast.ProblemShape(200, 15, 1.0, Loss("pinball", 0.9), intercept=0.0)
    settled = dpfast.plan(shape, "dp-whitened-gd", dpfast.Budget(0.1, 1e-6))
    assert settled.settings.loss.quantile == 0.9


def test_farther_out_the_weights_are_those_of_a_nearer_quantile_longer():
    found = []
    for quantile in (0.1, 0.9, 0.99, 0.01, 0.92):
        shape = dpfast.ProblemShape(40_000, 15, 1.0, Loss("pinball", quantile))
        settled = dpfast.plan(shape, "dp-whitened-gd", dpfast.Budget(0.1, 1e-6))
        found.append(settled.settings.loss.quantile)
    assert found == pytest.approx([0.1, 0.9, 0.9, 0.1, 0.92])


@pytest.mark.parametrize("quantile, epsilon, part", [(0.9, 0.1, 0.6), (0.99, 0.8, 0.45)])
def test_few_rows_have_the_weights_of_a_signal(quantile, epsilon, part):
    # With the quantile's own loss no less than the constant's is lost, and half of it at 0.99.
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, (3_000, 8))
    y = np.clip(X @ rng.standard_normal(8) + 0.3 * rng.standard_normal(3_000), -6.0, 6.0)

    def lost(predicted):
        above = y - predicted
        return np.mean(np.maximum(quantile * above, (quantile - 1.0) * above))

    settings = {"quantile": quantile, "data_norm": 3.0, "target_bounds": (-6.0, 6.0)}
    found = [
        lost(QuantileRegressor(epsilon, 1e-6, random_state=seed, **settings).fit(X, y).predict(X))
        for seed in range(6)
    ]
    assert np.mean(found) < part * lost(np.quantile(y, quantile))


def test_a_quantile_too_far_out_is_questioned_before_anything_is_spent():
    def regime(quantile):
        shape = dpfast.ProblemShape(2_000, 3, 1.0, Loss("pinball", quantile))
        return dpfast.plan(shape, "dp-whitened-gd", dpfast.Budget(0.4, 1e-6)).settings.regime

    # Beyond 0.99 are 20 rows, the noise of a count is about 10 of them.
    assert {regime(quantile) for quantile in (0.01, 0.5, 0.9, 0.99)} == {"all weights"}
    assert "not to find a quantile so far out" in regime(0.998)
    assert "not to find a quantile so far out" in regime(0.002)
    X, y = skewed(2_000)
    settings = {"data_norm": 5.0, "target_bounds": (0.0, 50.0), "quantile": 0.998}
    with (
        dpfast.BudgetAccountant(Budget(0.1, 1e-9)),
        pytest.warns(QuestionableSettingWarning, match="so far out"),
        pytest.raises(dpfast.BudgetExceeded),
    ):
        QuantileRegressor(0.4, 1e-6, **settings).fit(X, y)


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


# ---- of a mean ----------------------------------------------------------------------------------


def level_of(kind="huber", parameter=2.0, n=4000, **settings):
    shape = dpfast.ProblemShape(n, 4, 1.0, Loss(kind, parameter), **settings)
    return dpfast.plan(shape, "dp-whitened-gd", BUDGET).settings.level


def test_persons_skewed_targets_have_their_mean():
    # Groups' gradients alone leave .75 to .81 of it, as their radius cuts the tail.
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(6000), 2)
    X = rng.uniform(-1.0, 1.0, (12_000, 10))
    y = np.minimum(np.exp(0.3 * X[:, 0] + rng.standard_normal(12_000)), 60.0)
    model = LinearRegression(2.0, 1e-6, data_norm=3.2, target_bounds=(0.0, 60.0), random_state=0)
    model.fit(X, y, groups=who)
    assert np.mean(model.predict(X)) == pytest.approx(np.mean(y), rel=0.12)
    assert [event.where for event in model.privacy_.events].count("sum of residuals") == 1


@pytest.mark.parametrize("weighted", [False, True])
def test_skewed_targets_have_their_mean(weighted):
    """Of costs of which nine in ten are 0 counts of the tails alone leave .46 of the mean."""
    rng = np.random.default_rng(1)
    X, settings = rng.uniform(-1.0, 1.0, (10_000, 3)), {"data_norm": 1.8}
    y = np.where(rng.random(10_000) < 0.9, 0.0, np.exp(7.0 + rng.standard_normal(10_000)))
    rows = {"sample_weight": np.ones(10_000)} if weighted else {}
    settings |= {"max_weight": 1.0} if weighted else {}
    means = [
        LinearRegression(1.0, 1e-6, target_bounds=(0.0, 5e4), random_state=seed, **settings)
        .fit(X, y, **rows)
        .predict(X)
        .mean()
        for seed in range(12)
    ]
    assert np.mean(means) > 0.5 * y.mean()  # it is .66; without the sum .48, of these seeds .39


@pytest.mark.parametrize(("rows", "epsilon"), [(1, 0.25), (2, 0.7)])
@pytest.mark.parametrize("wide", [10.0, 300.0])
def test_few_skewed_targets_have_their_mean(wide, rows, epsilon):
    """Half of them are 0: slopes that are cut lead to a third of the mean, of persons to .39."""
    rng = np.random.default_rng(0)
    X, zero = rng.uniform(-1.0, 1.0, (2400, 3)), rng.random(2400) < 0.5
    y = np.where(zero, 0.0, rng.exponential(1.0, 2400))
    model = LinearRegression(
        epsilon=epsilon, delta=1e-6, data_norm=3.0**0.5, target_bounds=(0.0, wide)
    )
    who = {"groups": np.arange(2400) // rows} if rows > 1 else {}
    means = [
        np.mean(model.set_params(random_state=s).fit(X, y, **who).predict(X)) for s in range(8)
    ]
    assert 0.55 < np.mean(means) / y.mean() < 1.1


@pytest.mark.parametrize("most", [None, 3])
def test_rows_of_persons_count_by_their_weights(most):
    """They all counted alike, and the intercept was that of other rows."""
    rng = np.random.default_rng(0)
    X, light = rng.uniform(-1.0, 1.0, (6000, 2)), rng.random(6000) < 0.5
    y, weight = 10.0 + X[:, 0] + 3.0 * light + rng.standard_normal(6000), np.where(light, 0.1, 1.0)
    declared = {"data_norm": 1.5, "target_bounds": (0.0, 100.0), "max_weight": 1.0}
    settings = {"max_rows_per_group": most, "random_state": 0, **declared}
    rows = {"sample_weight": weight, "groups": np.arange(6000) // 2}
    model = LinearRegression(4.0, 1e-6, **settings).fit(X, y, **rows)
    assert abs(np.average(y - model.predict(X), weights=weight)) < 0.1  # it was 1.2
    model = QuantileRegressor(4.0, 1e-6, quantile=0.9, **settings).fit(X, y, **rows)
    below = np.average(y <= model.predict(X), weights=weight)
    assert below == pytest.approx(0.9, abs=0.02)  # and .98


class Noise:
    """Stands for a curator who answers with many deviations of noise, but counts nothing."""

    @staticmethod
    def release(access, *_):
        return np.full(access.dimension, 9.0 * access.stddev * (access.dimension == 1))


@pytest.mark.parametrize(("kind", "parameter"), [("huber", 2.0), ("pinball", 0.9)])
def test_a_few_persons_of_very_many_rows_do_not_decide_the_intercept(kind, parameter):
    """If one of 500 rows counts one, groups count a fiftieth, and noise moves it by far."""
    level = level_of(kind, parameter, unit="group")
    shape = dpfast.ProblemShape(4000, 4, 1.0, Loss(kind, parameter), unit="group")
    law, alike = (SizeLaw(np.array([1.0, most]), np.array([0.98, 0.02])) for most in (500.0, 1.0))
    w = np.zeros(5)
    place = Place(0.0, 0.5, 0.0)
    found, single = (level.settled(w, shape, Noise, place, 0.5, each)[-1] for each in (law, alike))
    assert found == single != 0.0


def test_it_is_paid_for_where_it_helps():
    assert level_of(unit="group") is not None
    assert level_of() is not None  # noise hides from counts of the tails what a sum tells
    assert level_of(n=60, unit="group") is None
    assert level_of(parameter=0.5, unit="group") is None  # outliers are not to count
    assert level_of(unit="group", intercept=0.0) is None
    assert level_of(unit="group", alpha=0.1) is not None  # the ridge leaves the intercept alone


def test_rare_costs_have_their_mean():
    """A tenth of the rows is hardly seen in any bin of the range, and has all of the mean."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1.0, 1.0, (20_000, 3))
    y = np.where(rng.random(len(X)) < 0.9, 0.0, 1500.0 * np.exp(rng.standard_normal(len(X))))
    settings = {"data_norm": 2.0, "target_bounds": (0.0, 1e5)}
    found = [
        LinearRegression(1.0, 1e-6, random_state=seed, **settings).fit(X, y).predict(X).mean()
        for seed in range(8)
    ]
    assert np.sqrt(np.mean((np.array(found) - y.mean()) ** 2)) < 0.06 * y.std()


def test_counts_of_the_range_tell_what_cut_slopes_miss():
    """The sum of residuals is too noisy to be believed: errors of the mean were .108 deviations."""
    rng = np.random.default_rng(3)
    X, y = rng.uniform(-1.0, 1.0, (3000, 8)), np.exp(0.8 * rng.standard_normal(3000))
    most = float(np.quantile(y, 0.999))
    y = np.minimum(y, most)
    model = LinearRegression(0.5, 1e-6, data_norm=8.0**0.5, target_bounds=(0.0, most))
    found = [model.set_params(random_state=s).fit(X, y).predict(X).mean() for s in range(8)]
    assert np.sqrt(np.mean((np.array(found) - y.mean()) ** 2)) < 0.09 * y.std()
