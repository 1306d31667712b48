"""Whitened descent on losses with a log link: what it learns of the targets, and its plan."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpfast import Budget, Ledger, Loss, Problem, ProblemShape, plan, solve
from dpfast.curator import Curator
from dpfast.privacy.ledger import merged
from dpfast.random import SecureGenerator
from dpfast.solvers import _log_link, _whitened_descent
from dpfast.solvers._coordinates import learn
from dpfast.solvers._target_law import TargetLaw
from dpfast.solvers._whitened_descent import _Steps, _Units

LOSSES = [
    Loss("poisson"), Loss("gamma", width=4.0), Loss("tweedie", 1.3), Loss("negative-binomial", 0.5),
]  # fmt: skip


def counts(loss, n=20_000, mean=0.4, seed=0, **settings):
    """Skewed targets of this mean, and rows that explain a part of them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    y = mean * np.exp(0.8 * X[:, 0]) * rng.gamma(0.7, 1.0 / 0.7, n)
    y *= mean / y.mean()
    return Problem(X, np.clip(y, *loss.target_range), loss, data_norm=2.0, **settings)


def learned(problem, budget, seed=1):
    settled = plan(problem, "dp-whitened-gd", budget)
    curator = Curator(problem, Ledger(budget), SecureGenerator(seed))
    return _log_link.learn_spread(settled.settings.link, problem.shape, curator)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("mean", [0.1, 1.0, 5.0])
def test_mean_and_spread_of_the_targets_are_learned(loss, mean):
    problem = counts(loss, mean=mean)
    y = problem.target
    found = learned(problem, Budget(8.0, 1e-6))
    assert found.mean == pytest.approx(y.mean(), rel=0.12)
    # What tail the noise of octaves 100 means up may hide counts, too.
    hidden = 0.5 if mean < 1.0 else 0.2
    assert found.relative == pytest.approx(y.std() / y.mean(), rel=hidden)
    assert 0.25 * y.max() <= found.top <= 2.0 * y.max()
    assert found.level.weight == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("power", [1.5, 1.9])
@pytest.mark.parametrize("mean", [1.0, 1e-3])
def test_weights_of_costs_are_their_own_in_wide_bounds(power, mean):
    """Means far below the highest target are where the loss, as declared, is a line."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1.0, 1.0, (10_000, 2))
    y = mean * np.exp(X[:, 0]) * rng.gamma(1.0, 1.0, 10_000) * (rng.random(10_000) < 0.7)
    problem = Problem(X, y, Loss("tweedie", power, width=4.0), data_norm=1.5)
    w = solve(problem, "dp-whitened-gd", Budget(8.0, 1e-6), random_state=0).w
    np.testing.assert_allclose(w, [1.0, 0.0, math.log(0.7 * mean)], atol=0.15)


@pytest.mark.parametrize("width", [1e-310, 1e-150, 231.0])
@pytest.mark.parametrize("power", [1.0001, 1.99, 1.999999])
@pytest.mark.parametrize("mean", [0.0, 1.0, 1e30])
def test_no_mean_makes_the_budget_pay_for_a_refusal(width, power, mean):
    """Whatever targets are declared: sizes that queries refuse would be found after payment."""
    loss = Loss("tweedie", power, width=width)
    y = np.minimum(np.full(300, mean), loss.target_range[1])
    problem = Problem(np.linspace(-1.0, 1.0, 300)[:, None], y, loss, data_norm=1.0)
    assert np.isfinite(solve(problem, "dp-whitened-gd", Budget(1.0, 1e-6), random_state=0).w).all()


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_widths_beyond_what_numbers_hold_are_refused_before_anything_is_spent(loss):
    shape = ProblemShape(300, 1, 1.0, replace(loss, width=232.0))
    with pytest.raises(ValueError, match="of a width of at most 231, in logarithms of targets"):
        plan(shape, "dp-whitened-gd", Budget(1.0, 1e-6))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_coordinates_reach_as_far_in_wide_bounds(loss):
    """Rounding is that of clipped slopes, however steep a loss is in its bounds."""
    limits = []
    for width in (2.0, 12.0):
        shape = ProblemShape(20_000, 5, 1.0, replace(loss, width=width))
        limits.append(plan(shape, "dp-whitened-gd", Budget(1.0, 1e-6)).settings.limit)
    assert limits[0] == limits[1] > 1000.0


@pytest.mark.parametrize("most", [3, 1000, None])
def test_what_is_declared_of_persons_costs_nothing(most):
    """Rows that count one part in a thousand of a person would drown in noise."""
    ids = np.repeat(np.arange(4000), np.arange(4000) % 3 + 1)
    problem = counts(LOSSES[0], len(ids), groups=ids, max_rows_per_group=most)
    spread = learned(problem, Budget(8.0, 1e-6))
    assert spread.mean == pytest.approx(problem.target.mean(), rel=0.1)
    assert spread.level.rows == (3.0,)
    assert spread.level.part == pytest.approx(2.0 / 3.0, abs=0.01)
    w = solve(problem, "auto", Budget(8.0, 1e-6), random_state=0).w
    np.testing.assert_allclose(w, [0.8, 0.0, 0.0, math.log(0.4) - 0.1], atol=0.15)


@pytest.mark.parametrize("most", [3, None])
def test_a_ridge_is_beside_the_mean_over_rows_of_persons(most):
    ids = np.repeat(np.arange(4000), np.arange(4000) % 3 + 1)
    settings = {"groups": ids, "max_rows_per_group": most}
    made = [counts(LOSSES[0], len(ids), alpha=0.02, **more) for more in (settings, {})]
    grouped, alone = (solve(one, "auto", Budget(50.0, 1e-6), random_state=0).w for one in made)
    np.testing.assert_allclose(grouped, alone, atol=0.05)


def test_rows_of_one_weight_are_not_taken_for_light_ones():
    """Some of the fits took a mean of 500 rows for that of a third as many."""
    problem = counts(LOSSES[0], n=500)
    weights = []
    for seed in range(12):
        settled = plan(problem.shape, "dp-whitened-gd", Budget(0.2, 1e-6)).settings
        curator = Curator(problem, Ledger(Budget(0.2, 1e-6)), SecureGenerator(seed))
        weights.append(_log_link.learn_spread(settled.link, problem.shape, curator).level.weight)
    assert weights == [1.0] * 12


def test_the_mean_between_far_bounds_is_as_exact_as_the_sum_that_tells_it():
    loss = Loss("gamma", width=9.0)
    y = np.clip(np.random.default_rng(0).gamma(4.0, 0.25, 20_000), *loss.target_range)
    found = learned(Problem(np.zeros((20_000, 1)), y, loss, data_norm=1.0), Budget(30.0, 1e-6))
    assert found.mean == pytest.approx(y.mean(), rel=0.004)


def test_targets_far_below_their_bound_are_found():
    loss = Loss("poisson", width=6.0)
    y = 2.0**-22 * np.random.default_rng(0).poisson(2.0, 5000)
    found = learned(Problem(np.zeros((5000, 1)), y, loss, data_norm=1.0), Budget(1.0, 1e-6))
    assert found.mean == pytest.approx(y.mean(), rel=0.2)


def test_columns_far_narrower_than_their_bounds_have_effects():
    """Their ranges are learned, and effects across them are as large as those of other columns."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (20_000, 3))
    y = np.minimum(rng.poisson(np.exp(X @ [1.0, -0.5, 0.0])), 20.0)
    problem = Problem(X / 300.0, y, Loss("poisson"), data_norm=math.sqrt(3.0))
    w = solve(problem, "dp-whitened-gd", Budget(0.4, 1e-6), random_state=0).w[:3] / 300.0
    np.testing.assert_allclose(w, [1.0, -0.5, 0.0], atol=0.2)


def test_what_cannot_be_seen_is_left_out():
    """Few rows: the highest octaves do not stand out of the noise, but the mean is no less than
    what the rest of the targets have."""
    problem = counts(LOSSES[0], n=400)
    found = learned(problem, Budget(0.3, 1e-6))
    low, high = problem.shape.loss.target_range
    assert low < found.mean <= high and found.top <= high
    assert 0.3 <= found.relative <= 8.0
    empty = Problem(np.zeros((400, 1)), np.zeros(400), LOSSES[0], data_norm=1.0)
    assert 0.0 < learned(empty, Budget(1.0, 1e-6)).mean < 0.5


def test_weights_count():
    weight = np.full(20_000, 0.5)
    problem = counts(LOSSES[0], sample_weight=weight, max_weight=1.0)
    found = learned(problem, Budget(8.0, 1e-6))
    assert found.level.weight == pytest.approx(0.5, abs=0.01)
    assert found.mean == pytest.approx(problem.target.mean(), rel=0.12)


def test_rows_far_lighter_than_the_heaviest_are_fitted_like_fewer():
    """Their settings follow the weight that is learned."""
    rng = np.random.default_rng(0)
    X, w = rng.uniform(-1.0, 1.0, (20_000, 4)), np.array([1.0, -0.5, 0.5, 0.0])
    y = np.minimum(rng.poisson(np.exp(X @ w)), 20.0)
    problem = Problem(
        X, y, Loss("poisson"), data_norm=2.0, sample_weight=np.ones(len(y)), max_weight=100.0
    )
    fits = [solve(problem, "auto", Budget(3.0, 1e-6), random_state=seed).w for seed in range(3)]
    assert np.sqrt(np.mean(np.square(np.array(fits)[:, :4] - w))) < 0.2


@pytest.mark.parametrize("far", [30.0, 1000.0])
def test_weights_far_below_their_bound_are_found(far):
    """And only then: the fit is about that of a bound as high as the weights."""
    rng = np.random.default_rng(0)
    X, w = rng.uniform(-1.0, 1.0, (20_000, 4)), np.array([1.0, -0.5, 0.5, 0.0])
    y, weight = np.minimum(rng.poisson(np.exp(X @ w)), 20.0), rng.uniform(0.1, 1.0, len(X))
    given = {"data_norm": 2.0, "sample_weight": weight, "alpha": 1e-3}
    problem = Problem(X, y, Loss("poisson"), max_weight=far, **given)
    fits = [solve(problem, "auto", Budget(1.0, 1e-6), random_state=seed).w for seed in range(3)]
    assert np.sqrt(np.mean(np.square(np.array(fits)[:, :4] - w))) < 0.15


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_curvature_at_a_mean_is_a_slope_over_a_relative_residual(loss):
    mean, change = np.array([0.2, 1.0, 6.0]), 1e-5
    slope = loss(np.log(mean), mean * (1.0 - change))[1]
    np.testing.assert_allclose(_log_link.curvature(loss, mean), slope / change, rtol=1e-4)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_there_is_curvature_at_the_ends_of_the_range(loss):
    """Where the loss goes on straight; a mean may be there, and a rounding error beyond."""
    ends = np.exp([-loss.width, loss.width])
    means = np.concatenate([ends, np.nextafter(ends, 0.0), np.nextafter(ends, np.inf)])
    assert np.all(_log_link.curvature(loss, means) > 0.0)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("intercept", [0.0, 1.0])
def test_every_loss_is_served_within_the_budget(loss, intercept):
    problem = counts(loss, n=3000, intercept=intercept)
    for budget in (Budget(0.5, 1e-6), Budget(mu=0.3), Budget(rho=0.05)):
        result = solve(problem, "dp-whitened-gd", budget, random_state=3)
        assert np.all(np.isfinite(result.w))
        assert merged(result.privacy.events) == merged(result.plan.events)
    best = solve(problem, "dp-whitened-gd", Budget(mu=1e3), random_state=3).w
    assert problem.objective(best) < problem.objective(np.zeros(len(best)))


def test_where_noise_hides_the_mean_none_that_is_far_too_high_is_believed():
    """Of 50 rows in bounds a thousand means wide fits were 40 to 70 times the mean."""
    y = np.random.default_rng(0).poisson(0.7, 50).astype(float)
    problem = Problem(np.zeros((50, 4)), y, Loss("poisson", width=math.log(1000.0)), data_norm=1.0)
    means = [learned(problem, Budget(0.1, 1e-6), seed).mean for seed in range(12)]
    assert 0.1 < math.exp(np.mean(np.log(means))) / y.mean() < 25.0


def test_few_rows_spend_on_the_mean_what_weights_are_not_worth():
    means = [_log_link.shares(rows, 13)[1] for rows in (5.0, 44.0, 85.0, 1000.0)]
    assert means[0] > 0.3 > means[1] > 0.15 and means[2:] == [0.1, 0.1]
    few = [_log_link.shares(1000.0, dim)[1] for dim in (2, 4, 8)]
    assert few[0] == 0.35 > few[1] > 0.15 and few[2] == 0.1  # one of few weights
    steps = [_log_link.automatic_settings(u, 13)["step"] for u in (0.4, 3.4, 7.0)]
    assert steps[0] < 0.01 < steps[1] < 0.5 < steps[2]
    for rows in (0.1, 5.0, 50.0, 500.0):
        for dim in (2, 13, 200):
            settings = _log_link.automatic_settings(rows / dim, dim)
            assert sum(_log_link.shares(rows, dim)) + settings["learning_share"] < 0.97


def test_a_constant_column_takes_the_place_of_the_intercept():
    """Means of 60 were taken for weights that are too long: a third of them was left."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(3000), rng.uniform(-1.0, 1.0, (3000, 2))])
    y = rng.poisson(60.0 * np.exp(0.5 * X[:, 1])).astype(float)
    loss = Loss("poisson", width=math.log(1000.0))
    problem = Problem(X, y, loss, data_norm=math.sqrt(3.0), intercept=0.0)
    w = solve(problem, "dp-whitened-gd", Budget(3.0, 1e-6), random_state=0).w
    assert np.allclose(w, [math.log(60.0), 0.5, 0.0], atol=0.1)


def test_counts_of_rare_targets_stand_out():
    """Of 233 events in 20,000 rows the mean was off by factors of two to four."""
    rng = np.random.default_rng(3)
    y = np.minimum(rng.poisson(0.012, 20_000), 5.0)
    problem = Problem(
        np.zeros((20_000, 5)), y, Loss("poisson", width=math.log(10.0)), data_norm=1.0
    )
    found = [learned(problem, Budget(0.4, 1e-6), seed).mean for seed in range(6)]
    assert np.abs(np.log(found / y.mean())).max() < 0.5


def test_a_ridge_draws_the_weights_together():
    problem = counts(LOSSES[0])
    lengths = [
        np.linalg.norm(
            solve(problem, "dp-whitened-gd", Budget(mu=50.0), alpha=alpha, random_state=3).w[:-1]
        )
        for alpha in (1e-6, 0.3, 10.0)
    ]
    assert lengths[0] > 1.2 * lengths[1] > 2.0 * lengths[2]


def test_shares_must_leave_something():
    shape = ProblemShape(1000, 3, 1.0, LOSSES[0])
    with pytest.raises(ValueError, match=r"correlation_share must be less than 0"):
        plan(shape, "dp-whitened-gd", Budget(1.0, 1e-6), learning_share=0.9)


def test_the_calibration_corrects_intercept_and_length():
    """From a direction that is right, and a length and intercept that are not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 2)) * [1.0, 1.0]
    X *= 4.0 / np.maximum(4.0, np.linalg.norm(X, axis=1))[:, None]
    y = rng.poisson(np.exp(0.3 + 0.6 * X[:, 0]))
    problem = Problem(X, np.minimum(y, 20.0), LOSSES[0], data_norm=4.0)
    settled = plan(problem, "dp-whitened-gd", Budget(8.0, 1e-6))
    curator = Curator(problem, Ledger(Budget(8.0, 1e-6)), SecureGenerator(1))
    link = settled.settings.link
    spread = _log_link.learn_spread(link, problem.shape, curator)
    for length in (0.5, 0.75):
        start = _log_link.Direction(length * np.eye(3)[0], length, 0.0, 1.0, 1.0, 9.0, np.eye(3)[2])
        found, (low, high) = _log_link.calibrated(
            link, problem.shape, curator, start, 1e3, spread, ridge=0.0
        )
        np.testing.assert_allclose(found, [0.6, 0.0, 0.3], atol=0.06)
        # Eight deviations of the margins on either side.
        assert low == pytest.approx(0.3 - 8.0 * 0.6, abs=0.5)
        assert high == pytest.approx(0.3 + 8.0 * 0.6, abs=0.5)
        assert high > math.log(3.0 * spread.top)
        curator = Curator(problem, Ledger(Budget(8.0, 1e-6)), SecureGenerator(2))
    assert math.isclose(spread.level.weight, 1.0, abs_tol=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_weights_of_rare_counts_are_not_taken_for_cut(seed):
    """Weights that were right came back half as long again: noise hid tails that were not there."""
    rng = np.random.default_rng(0)
    X = np.clip(rng.standard_normal((50_000, 1)), -4.0, 4.0)
    y = rng.poisson(0.05 * np.exp(0.5 * X[:, 0] - 0.125))
    problem = Problem(X, y / 12.0, Loss("poisson"), data_norm=4.0)
    settled = plan(problem, "dp-whitened-gd", Budget(1.0, 1e-6))
    curator = Curator(problem, Ledger(Budget(1.0, 1e-6)), SecureGenerator(seed))
    link = settled.settings.link
    spread = _log_link.learn_spread(link, problem.shape, curator)
    start = _log_link.Direction(np.array([0.5, 0.0]), 0.5, 0.0, 1.0, 1.0, 1.5, np.array([0.0, 1.0]))
    w, _ = _log_link.calibrated(link, problem.shape, curator, start, 1e3, spread, ridge=0.0)
    assert w[0] == pytest.approx(0.5, abs=0.1)


def test_the_mean_is_that_of_a_sum_of_targets():
    """Bounds of a thousand means, so few rows that octaves tell little, and logarithms that are
    skewed to the left."""
    rng = np.random.default_rng(0)
    loss = Loss("gamma", width=math.log(1000.0))
    y = np.clip(0.3 * rng.gamma(0.5, 2.0, 20_000), *loss.target_range)
    problem = Problem(np.zeros((20_000, 1)), y, loss, data_norm=1.0)
    found = [learned(problem, Budget(epsilon, 1e-6)) for epsilon in (0.2, 1.0)]
    for spread in found:
        assert abs(math.log(spread.mean / problem.target.mean())) < 3.0 * spread.doubt
    assert found[0].doubt < 0.2 and found[1].doubt < 0.06


def believed_of(length, noise, way=1.0, seen=1.0):
    """A length in twelve columns, and the doubt in it, after parts of the way."""
    nothing = np.zeros(12)
    found = _log_link.Direction(nothing, length, noise, way, seen, 1.0, None)
    return _log_link._believed(length, noise, found, 12)


def test_a_length_that_noise_explains_is_not_believed():
    believed, doubt = believed_of(1.5, 1.5)
    assert believed == 0.0 and 0.1 < doubt < 0.4
    believed, doubt = believed_of(0.5, 0.01)
    assert believed == pytest.approx(0.5, rel=0.01) and doubt < 0.06
    # Twice the noise may be chance; a usual length is likelier.
    assert believed_of(6.0, 3.0)[0] < 0.6


def test_weights_are_as_much_longer_as_the_descent_stopped_short():
    whole, short = (believed_of(0.3, 0.001, way)[0] for way in (1.0, 0.8))
    assert short == pytest.approx(whole / 0.8, rel=0.001)
    # Overshooting is no reason to doubt the length, nor is a hopeless way one to believe in more.
    assert believed_of(0.3, 0.001, 1.1)[0] == whole
    assert believed_of(0.3, 0.001, 0.01)[0] < 2.001 * whole


def test_beyond_the_points_that_were_asked_for_a_length_is_in_more_doubt():
    (whole, sure), (far, doubt) = believed_of(0.5, 0.2), believed_of(0.5, 0.2, seen=0.6)
    assert far == whole and doubt > 1.3 * sure
    assert believed_of(0.5, 0.2, seen=1.2) == (whole, sure)


@pytest.mark.parametrize(("large", "often"), [(0.02, 0.5), (0.0, 0.95)])
@pytest.mark.parametrize("clip", [0.8, 1.6])
def test_what_the_clip_leaves_of_the_weights_is_that_of_rows_of_the_law(clip, large, often):
    """Of few rows' counts, half of a mean's logarithm is in how many rows have any, or nearly all.

    The latter where targets spread no more than by Poisson's law.
    """
    edges, mean, length = 2.0 ** np.arange(-6.0, 5.0), 0.15, 0.4
    noisy = np.where(edges == 1.0, 0.08, 0.0) + np.where(edges == 8.0, large, 0.0)
    law = TargetLaw.of(edges, noisy, 1e-4)
    counted = _log_link.Counted((), 1.0, 0.0, 1.0)
    spread = _log_link.Spread(mean, 0.1, 3.0, 16.0, law, counted, counted)
    found = _log_link._left_of_length(LOSSES[0], spread, length, 5.0 * clip)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(400_000)
    means = np.exp(length * x - 0.5 * length**2)
    values, shares = law.around(length)
    which = rng.choice(len(values) - 1, x.size, p=shares[1:] / shares[1:].sum())
    some = rng.random(x.size) < (1.0 - shares[0]) * means**often
    y = np.where(some, mean * values[1:][which] * means ** (1.0 - often), 0.0)
    limit = 1.5 * 5.0 * clip * mean
    q, rows = np.array([length, math.log(mean)]), np.stack([x, np.ones(x.size)])
    for _ in range(100):
        slopes = LOSSES[0](q @ rows, y)[1]
        q -= 0.5 / mean * (rows @ np.clip(slopes, -limit, limit)) / x.size
    assert 0.76 < found <= 1.0
    assert min(1.0, q[0] / length) == pytest.approx(found, abs=0.02)


def test_a_wide_clip_leaves_the_weights_as_they_are_and_a_narrow_one_most_of_them():
    edges = 2.0 ** np.arange(-6.0, 3.0)
    counted = _log_link.Counted((), 1.0, 0.0, 1.0)
    for loss in LOSSES:
        law = TargetLaw.of(edges, np.where(edges == 1.0, 0.1, 0.0), 1e-4, loss.target_range[0])
        spread = _log_link.Spread(0.1, 0.1, 3.0, 1.0, law, counted, counted)
        left = [_log_link._left_of_length(loss, spread, 0.4, c) for c in (1e-9, 0.3, 3.0, 1e3)]
        assert all(0.75 <= part <= 1.0 for part in left)
        assert left[0] == 1.0 and left[-1] > 0.97  # if all slopes are cut they tell nothing
        assert _log_link._left_of_length(loss, spread, 0.0, 1.0) == 1.0


@pytest.mark.parametrize("seed", range(6))
def test_slopes_reach_some_targets_where_noise_hides_all_octaves(seed):
    """Gradients were cut to nothing where no octave stood out, and weights stayed 0."""
    rng = np.random.default_rng(0)
    y = np.minimum(rng.poisson(0.01, 20_000), 5.0)
    problem = Problem(np.zeros((20_000, 6)), y, LOSSES[0], data_norm=1.0)
    spread = learned(problem, Budget(0.3, 1e-6), seed)
    assert spread.reach(0.7) > 0.3


def test_steps_do_not_go_astray_where_the_loss_is_curved_more_than_was_learned():
    """Two columns that hardly differ had weights of 500, and rows a hundred times the mean."""
    problem = counts(LOSSES[0])
    settings = plan(problem, "dp-whitened-gd", Budget(2.0, 1e-6)).settings
    coordinates = SimpleNamespace(free=3)
    ends = []
    for curved in (1.0, 6.0):
        steps = _Steps(settings, problem.shape, coordinates, _Units(0.0), plain=False)
        v = last = np.ones(4)
        for k in range(settings.iterations):
            z = v + settings.momentum * (v - last)
            v, last = steps.taken(z, curved * z, 1e-3, k), v
        ends.append(float(np.abs(v).max()))
    assert max(ends) < 0.1


def test_the_top_of_the_targets_is_not_below_their_mean():
    """Of forty octaves one stands out of the noise by chance, mostly a low one."""
    y = np.minimum(np.random.default_rng(0).poisson(0.05, 3_000), 10.0)
    problem = Problem(np.zeros((3_000, 4)), y, LOSSES[0], data_norm=1.0)
    for seed in range(40):
        spread = learned(problem, Budget(0.3, 1e-6), seed)
        assert spread.top >= spread.mean


def test_targets_that_are_seen_spread_although_squares_of_noise_say_none():
    """A negative count far up would take away more than all squares of what is seen."""
    rng = np.random.default_rng(31)
    y = np.minimum(0.4 * rng.negative_binomial(0.5, 0.5, 60_000), 20.0)
    problem = Problem(np.zeros((60_000, 3)), y, LOSSES[0], data_norm=1.0)
    found = [learned(problem, Budget(1.0, 1e-6), seed).relative for seed in range(40)]
    assert min(found) > 1.2


@pytest.mark.parametrize(
    ("loss", "stretch"), [(LOSSES[0], 1.0), (Loss("tweedie", 1.5), 1.87), (LOSSES[1], 1.0)]
)
def test_weights_may_be_stretched_where_most_targets_are_zeros(loss, stretch):
    edges = 2.0 ** np.arange(-6.0, 3.0)
    noisy = np.where(edges == 1.0, 0.1, 0.0)
    law = TargetLaw.of(edges, noisy, 1e-4, loss.target_range[0])
    spread = _log_link.Spread(0.1, 0.1, 3.0, 1.0, law, *[_log_link.Counted((), 1.0, 0.0, 1.0)] * 2)
    assert _log_link._stretched(loss, spread) == pytest.approx(stretch, abs=0.03)


@pytest.mark.parametrize("often", [0.0, 0.5])
def test_one_number_is_estimated_without_an_intercept(often):
    law = np.array([0.0, 4.0]), np.array([0.75, 0.25]), often
    theta = np.array([0.4])
    slopes, cut = _log_link._slopes(LOSSES[0], theta, theta, law, math.inf)
    np.testing.assert_allclose([slopes[0], cut[0]], 0.0, atol=1e-12)
    clipped, cut = _log_link._slopes(LOSSES[0], theta, theta, law, 2.0)
    np.testing.assert_allclose(clipped + cut, 0.0, atol=1e-12)
    assert abs(cut[0]) > 0.01


def test_rare_categories_with_the_same_counts_have_the_same_weights():
    """A clip that followed the rows' lengths cut more of rare ones; .32 apart they were then."""
    category = np.repeat(np.arange(8), 10_000 // np.arange(1, 9) ** 2)
    y = (np.arange(len(category)) % 20 == 0) / 5.0
    problem = Problem(np.eye(8)[category], y, LOSSES[0], data_norm=1.0)
    w = solve(problem, "dp-whitened-gd", Budget(20.0, 1e-6), clip=1.0, random_state=0).w
    assert np.abs(w[:5] - w[0]).max() < 0.15


@pytest.mark.parametrize("times", [1.0, 6.0])
def test_with_a_log_link_the_end_is_where_all_gradients_tell(monkeypatch, times):
    """Of a quadratic loss, whose curvature is known, they tell the minimum after any few steps.

    Where it is curved more, the end is not farther beyond the minimum than points were before it.
    """
    X, y = np.random.default_rng(0).uniform(-0.5, 0.5, (4000, 3)), np.full(4000, 0.1)
    problem = Problem(X, y, Loss("poisson"), data_norm=1.0)
    settled = plan(problem, "dp-whitened-gd", Budget(1.0, 1e-6), iterations=6, momentum=0.3)
    curator = Curator(problem, Ledger(Budget(1.0, 1e-6)), SecureGenerator(0))
    spread = _log_link.learn_spread(settled.settings.link, problem.shape, curator)
    settings = _log_link.learned(settled.settings.link, settled.settings, spread, problem.shape)
    coordinates = learn(settings.learning, problem.shape, curator)
    points, curved = [], np.array([times, 1.0, 1.0, 1.0])
    minimum = np.array([0.3, -0.2, 0.1, 0.0])
    units = _whitened_descent._Units.of(spread, settings, problem.shape)

    def at(self, z, k):
        points.append(z)
        bends = settings.ground * settings.curvature / units.change * curved
        return bends * (z - minimum)

    monkeypatch.setattr(_whitened_descent._Gradients, "at", at)
    settings = replace(settings, iterations=20, shrinkage=0.0)
    v = _whitened_descent.descend(settings, problem.shape, curator, coordinates, spread).end
    assert settings.whole == pytest.approx(1.0 / settings.ground)
    if times == 1.0:
        np.testing.assert_allclose(v, minimum, atol=1e-9)
    before = np.average(points, axis=0, weights=settings.ramp)
    assert abs(v[0] - 0.3) < 1.2 * abs(before[0] - 0.3) + 1e-9
