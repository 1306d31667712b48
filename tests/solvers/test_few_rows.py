"""Fits with fewer rows than weights, in units of µ: a direction that later releases confirm."""

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from factors import COLUMNS, ROWS, rows

from dpfast import (
    Budget,
    CoefficientPrior,
    Ledger,
    LogisticRegression,
    Problem,
    ProblemShape,
    plan,
    solve,
)
from dpfast.blocks import BlockProblem, from_npy
from dpfast.column_blocks import ColumnBlock
from dpfast.curator import Curator
from dpfast.errors import QuestionableSettingWarning
from dpfast.random import SecureGenerator
from dpfast.solvers import _few_rows
from dpfast.solvers._coordinates import learn
from dpfast.solvers.multinomial import plan_multinomial

BUDGET = Budget(mu=0.04)
ALONG = "gradient along the weights"


def table(signal, **options):
    return Problem(*rows(signal), data_norm=math.sqrt(COLUMNS), **options)


def losses(problem, seeds=3):
    fits = [solve(problem, "auto", BUDGET, random_state=k) for k in range(seeds)]
    return np.array([problem.objective(fit.w) / ROWS for fit in fits]), fits


def names(problem, budget=BUDGET, **options):
    return [
        access.where for access, _ in plan(problem, "dp-whitened-gd", budget, **options).accesses
    ]


def test_few_rows_show_what_one_direction_tells():
    found, _ = losses(table(2.0))
    assert found.max() < 0.9 * math.log(2.0)


def test_gradients_tell_the_intercept_before_a_direction():
    even, y = table(0.0), np.where(np.arange(ROWS) < 60, 1.0, -1.0)
    rare = Problem(rows(0.0)[0], y, data_norm=math.sqrt(COLUMNS))
    settings, left = plan(even, "dp-whitened-gd", BUDGET).settings, []
    for problem, positives, noise in ((even, 0.5, 0.1), (even, 0.5, 0.11), (rare, 0.02, 0.1)):
        curator = Curator(problem, Ledger(BUDGET), SecureGenerator(0))
        coordinates = learn(settings.learning, problem.shape, curator)
        shares = np.array([1.0 - positives, positives])
        columns = replace(coordinates.columns, shares=shares, share_deviation=noise)
        told = replace(coordinates, columns=columns)
        *_, norms = _few_rows.descended(settings, problem.shape, curator, told)
        left.append(len(norms))
    assert left == [settings.iterations, settings.iterations - 1, 2]


def test_releases_are_as_many_whatever_they_tell():
    X, spent = rows(0.0)[0], []
    for problem in (table(0.0), Problem(X, -np.ones(ROWS), data_norm=math.sqrt(COLUMNS))):
        events = solve(problem, "auto", BUDGET, random_state=0).privacy.events
        spent.append([(event.where, event.count) for event in events])
    assert spent[0] == spent[1]


def test_a_rare_class_without_a_signal_ends_near_the_constant(monkeypatch):
    rng, n, d = np.random.default_rng(0), 3000, 40
    X, y = rng.uniform(-1.0, 1.0, (n, d)), np.where(np.arange(n) < 30, 1.0, -1.0)
    problem = Problem(X, y, data_norm=math.sqrt(d))

    def loss():
        fit = partial(solve, problem, "auto", Budget(mu=0.04))
        fits = (fit(random_state=k) for k in range(8))
        return np.mean([problem.objective(fit.w) / n for fit in fits])

    constant = -np.mean([math.log(0.99)] * 99 + [math.log(0.01)])
    found = loss()
    monkeypatch.setattr(_few_rows, "_KNOWN", math.inf)
    assert found - constant < 0.01 < loss() - constant


def test_what_rows_do_not_confirm_goes():
    found, fits = losses(table(0.0), seeds=6)
    assert found.mean() < math.log(2.0) + 0.01
    assert np.mean([np.std(rows(0.0)[0] @ fit.w[:-1]) for fit in fits]) < 0.12


def test_public_quantities_alone_decide():
    problem, ones = table(1.0), np.ones(ROWS)
    assert ALONG in names(problem)
    assert ALONG not in names(problem, Budget(mu=1.0))  # rows enough for coordinates
    assert ALONG not in names(problem, Budget(mu=0.001))  # and too few to confirm anything
    for option in ({"clip": 1.0}, {"alpha": 0.1}, {"range_rounds": 0}, {"momentum": 0.5}):
        assert ALONG not in names(problem, **option)
    for other in (
        {"intercept": 0.0},
        {"sample_weight": ones, "max_weight": 2.0},
        {"groups": np.arange(ROWS) // 2},
    ):
        assert ALONG not in names(table(1.0, **other))
    several = plan_multinomial(problem.shape, 3, BUDGET)
    assert ALONG not in {access.where for access, _ in several.accesses}


def test_plans_say_what_is_learned():
    settled = plan(table(1.0), "dp-whitened-gd", BUDGET)
    assert "one direction of the weights" in str(settled)
    shape = ProblemShape(5000, 784, 28.0, "logistic", intercept=1.0)
    budgets = [Budget(mu=mu) for mu in np.geomspace(1e-3, 1.0, 13)]
    plans = [plan(shape, "auto", budget) for budget in budgets]
    assert {"direction" in settled.settings.regime for settled in plans} == {True, False}
    noise = [settled.expected["excess_loss_by_noise"] for settled in plans]
    assert np.all(np.diff(noise) < 0.0)


def limited(direction, frequency, categories, deviation=0.01, off=1.0):
    columns = SimpleNamespace(
        categories=np.array(categories),
        frequency=np.array(frequency),
        frequency_deviation=np.full(len(frequency), deviation),
    )
    return _few_rows._limited(np.array(direction), columns, off)


def test_categories_that_may_have_no_rows_move_no_farther_than_others():
    none, all_of_them = 8 * [0.0], 11 * [True]
    found = limited([3.0, -3.0, 2.0, *none], [0.01, -0.02, 0.3, *none], all_of_them)
    np.testing.assert_array_equal(found[:3], [2.0, -2.0, 2.0])  # the third was counted
    found = limited([3.0, -3.0, 2.0, *none], 11 * [0.0], [True, True, False, *all_of_them[3:]])
    np.testing.assert_array_equal(found[:3], [2.0, -2.0, 2.0])  # it is a number
    found = limited([3.0, -5.0, 2.0, *none], 11 * [0.0], all_of_them)
    np.testing.assert_array_equal(found[:3], [3.0, -5.0, 2.0])  # no noise leads so far
    found = limited([3.0, -3.2, 2.0, *none], [0.0, 0.03, 0.0, *none], all_of_them)
    np.testing.assert_array_equal(found[:3], [3.0, -3.2, 2.0])  # so far and counted besides
    sizes = np.arange(1.0, 12.0) / 4.0
    np.testing.assert_array_equal(limited(sizes, 11 * [0.0], all_of_them), np.minimum(sizes, 1.0))


def test_no_category_without_rows_moves_farthest():
    rng, categories, had = np.random.default_rng(0), 80, 32
    chosen = rng.integers(had, size=1000)
    X, effects = np.eye(categories)[chosen], rng.standard_normal(had)
    y = np.where(rng.logistic(size=1000) < 2.0 * effects[chosen], 1.0, -1.0)
    problem = Problem(X, y, data_norm=1.0, columns=(ColumnBlock("one-hot", 0, categories),))
    ratios = []
    for seed in range(8):
        w = np.abs(solve(problem, "auto", Budget(mu=0.11), random_state=seed).w)
        ratios.append(w[had:-1].max() / w[:had].max() if w[:had].any() else 0.0)
    assert 0.9 < max(ratios) <= 1.0


@pytest.mark.parametrize("steep", [0.1, 100.0])
def test_secants_tell_the_curvature(steep):
    noise, gradient = 1e-3, np.array([1.0, 0.0, 0.0])
    bend, doubt = _few_rows._bent(-0.01 * gradient, -0.01 * steep * gradient, noise, 0.01)
    assert abs(bend - steep) <= doubt < 2.0 * 1.4 * noise / 0.01
    # The noise that a step followed is no curvature.
    rng, bends = np.random.default_rng(0), []
    for _ in range(200):
        first, second = noise * rng.standard_normal((2, 50))
        bends.append(_few_rows._bent(-0.5 * first, second - first, noise, 0.5)[0])
    assert abs(np.mean(bends)) < 0.2


def descended_into(curvatures, gradient, noise, seed=0):
    """The end of a descent into a bowl, and the spread of the margins that is told of it."""
    settings, shape = plan(table(1.0), "dp-whitened-gd", BUDGET).settings, table(1.0).shape
    mechanism = SimpleNamespace(stddev=ROWS * settings.curvature * noise, query=True)
    settings = _few_rows.with_steps(replace(settings, gradient=mechanism), shape)
    rng = np.random.default_rng(seed)

    def release(mechanism, fixed, v):
        slopes = curvatures * v[:-1] - gradient + noise * rng.standard_normal(COLUMNS)
        return ROWS * settings.curvature * np.append(slopes, 0.0)

    curator = SimpleNamespace(fix=lambda *_: None, release=release)
    coordinates = SimpleNamespace(transform=np.eye(COLUMNS + 1), tells_shares=False)
    return _few_rows._direction(settings, shape, curator, coordinates)[:2]


def test_steps_get_longer_where_the_ground_is_flat_alone():
    curvatures, gradient = np.ones(COLUMNS), np.ones(COLUMNS)
    end, _ = descended_into(curvatures, gradient, 0.005)
    assert np.linalg.norm(end - 1.0) < 0.1 * math.sqrt(COLUMNS)
    curvatures[0], gradient[0] = 120.0, 120.0  # a step twice as long would lead away from there
    end, _ = descended_into(curvatures, gradient, 0.005)
    assert abs(end[0] - 1.0) < 0.1


def test_noise_that_led_to_the_end_is_no_curvature():
    rng, steps, told = np.random.default_rng(0), np.geomspace(1.0, 10.0, 10), []
    for _ in range(300):
        slopes = rng.standard_normal((10, COLUMNS))
        path = -np.cumsum(steps[:, None] * slopes, axis=0)
        points = np.vstack([np.zeros(COLUMNS), path[:-1]])
        told.append(_few_rows._variance(points, slopes, steps, path[-1], 1.0))
    by_noise = COLUMNS * float(steps @ steps)
    assert abs(np.mean(told)) < 0.01 * by_noise


def test_blocks_threads_and_interruptions_change_nothing(tmp_path):
    X, y = (part[:600] for part in rows(2.0))
    norm, budget = math.sqrt(COLUMNS), Budget(mu=0.2)
    whole, two = (
        solve(Problem(X, y, data_norm=norm, n_jobs=jobs), "auto", budget, random_state=0)
        for jobs in (1, 2)
    )
    assert np.any(whole.w[:-1])
    np.testing.assert_array_equal(two.w, whole.w)
    source = from_npy(X, y, block_rows=200)
    problem = BlockProblem(source, "logistic", data_norm=norm)
    blocks = solve(problem, "auto", budget, random_state=0)
    np.testing.assert_allclose(blocks.w, whole.w, rtol=1e-6, atol=1e-9)
    count = iter(range(10**6))

    def interrupt(_):
        if next(count) == 3 * (len(whole.privacy.events) - 2):  # along the direction
            raise KeyboardInterrupt

    one, part = (partial(solve, problem, "auto", budget, random_state=0, checkpoint=tmp_path / name)
                 for name in ("whole", "part"))  # fmt: skip
    source.watch = interrupt
    with pytest.raises(KeyboardInterrupt):
        part()
    source.watch = None
    np.testing.assert_array_equal(part().w, one().w)


def test_exact_slopes_lead_to_the_best_scale():
    problem = table(2.0)
    settings = plan(problem, "dp-whitened-gd", BUDGET).settings
    curator = Curator(problem, Ledger(BUDGET), SecureGenerator(0))
    coordinates = learn(settings.learning, problem.shape, curator)
    exact = SimpleNamespace(
        fix=curator.fix,
        release=lambda access, fixed, *point: (
            access.query(access.query.prepare(problem, *fixed.values), *point)
            if hasattr(fixed, "values")
            else curator.release(access, fixed, *point)
        ),
    )
    w, used, norms = _few_rows.descended(settings, problem.shape, exact, coordinates)
    scales = used.transform.diagonal()[:-1]
    assert np.ptp(scales) == 0.0 and len(norms) == settings.iterations

    def loss(scale):  # typical rows keep their margins
        constant = w[-1] + (1.0 - scale) * float(rows(2.0)[0].mean(axis=0) @ w[:-1])
        return problem.objective(np.append(scale * w[:-1], constant))

    assert loss(1.0) < min(loss(0.5), loss(2.0))


def fitted(**parameters):
    model = LogisticRegression(
        epsilon=0.2, data_norm=math.sqrt(COLUMNS), classes=[-1.0, 1.0], random_state=0, **parameters
    )
    return model.fit(*rows(2.0))


def test_estimators_take_it_and_warn():
    with pytest.warns(QuestionableSettingWarning, match="At most one direction of the weights"):
        model = fitted()
    assert model.score(*rows(2.0)) > 0.55
    assert ALONG in {event.where for event in model.privacy_.events}


@pytest.mark.filterwarnings("ignore::dpfast.errors.QuestionableSettingWarning")
def test_priors_and_inference_have_other_plans():
    known = CoefficientPrior(np.full(COLUMNS, 0.01), 0.0, 0.1 * np.eye(COLUMNS + 1))
    events = fitted(prior=known).privacy_.events
    assert ALONG not in {event.where for event in events}
    with pytest.raises(ValueError, match="for inference=True"):
        fitted(inference=True)


def test_numbers_are_centered_together_where_noise_hides_each():
    rng, shape = np.random.default_rng(0), ProblemShape(1000, 100, 10.0, "logistic", intercept=1.0)
    told = np.append(0.5 + 0.3 * rng.standard_normal(80), 0.3 * rng.standard_normal(20))
    columns = SimpleNamespace(
        categories=np.arange(100) >= 80, center=told, deviation=np.full(100, 0.3)
    )

    found = _few_rows._center(columns, shape)
    assert np.abs(found[:80] - 0.5).max() < 0.3 and np.abs(found[80:]).max() < 0.2
    columns.deviation = np.full(100, 1e-6)  # of columns that really lie apart
    np.testing.assert_allclose(_few_rows._center(columns, shape), told, atol=1e-6)
    columns.center = 100.0 * told  # rows do not reach so far
    assert np.linalg.norm(_few_rows._center(columns, shape)) == pytest.approx(shape.data_norm)


def test_rows_are_as_long_as_they_are_about_their_center():
    X, y = rows(2.0)
    problem = Problem(X + 3.0, y, data_norm=4.0 * math.sqrt(COLUMNS))
    settings = plan(problem, "dp-whitened-gd", BUDGET).settings
    for seed in range(3):
        curator = Curator(problem, Ledger(BUDGET), SecureGenerator(seed))
        found = learn(settings.learning, problem.shape, curator)
        center, known = np.full(COLUMNS, 3.0), np.full(COLUMNS, 1e-3)
        found = replace(found, columns=replace(found.columns, center=center, deviation=known))
        _, used, _ = _few_rows.descended(settings, problem.shape, curator, found)
        told = math.sqrt(problem.shape.dim) / used.transform[0, 0]
        assert 0.05 < told / problem.shape.data_norm < 0.25  # three quarters about 0


def test_few_weights_have_one_direction_longer():
    shapes = [ProblemShape(10_000, d, 8.0, "logistic", intercept=1.0) for d in (63, 64)]
    asked = [[_few_rows.serves(shape, u) for u in (1.4, 1.7, 1.9)] for shape in shapes]
    assert asked == [[True, True, False], [True, False, False]]
