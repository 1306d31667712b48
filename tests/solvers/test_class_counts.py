"""Gradients that tell of the constant alone, where a class may have too few rows."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpfast import Budget, Ledger, LinearSVC, LogisticRegression, Problem, plan, solve
from dpfast.curator import Curator
from dpfast.random import SecureGenerator
from dpfast.solvers import _coordinates
from dpfast.solvers._class_counts import counted, counted_classes
from dpfast.solvers.multinomial import plan_multinomial

BUDGET, ROWS, COLUMNS = Budget(0.1, 1e-6), 4000, 20


def table(positives, **options):
    rng = np.random.default_rng(0)
    X = np.clip(rng.standard_normal((ROWS, COLUMNS)) / 3.0, -1.0, 1.0)
    y = np.where(np.arange(ROWS) < positives, 1.0, -1.0)
    return Problem(X, y, data_norm=math.sqrt(COLUMNS), **options)


def exactly(problem, shares, noise, budget=BUDGET, **options):
    """What is left to do, and shares and noise, after counts without noise; from such shares."""
    settings, ask = plan(problem, "dp-whitened-gd", budget, **options).settings, counted
    if len(shares) > 2:
        settings = plan_multinomial(problem.shape, len(shares), budget, **options).settings
        ask = counted_classes
    curator = Curator(problem, Ledger(budget), SecureGenerator(0))
    coordinates = _coordinates.learn(settings.learning, problem.shape, curator)
    columns = replace(coordinates.columns, shares=np.array(shares), share_deviation=noise)
    exact = SimpleNamespace(
        fix=curator.fix,
        release=lambda access, fixed, point: access.query(
            access.query.prepare(problem, *fixed.values), point
        ),
    )
    left, found = ask(settings, problem.shape, exact, replace(coordinates, columns=columns))
    return settings.iterations - left.iterations, *found.class_shares()


@pytest.mark.parametrize("consistent", [False, True])
@pytest.mark.parametrize("shares", [(0.98, 0.02), (0.63, 0.02)])  # rows count less in the second
def test_slopes_along_the_constant_alone_are_counts(shares, consistent):
    weight = round(sum(shares), 2)
    weighted = {"sample_weight": np.full(ROWS, weight), "max_weight": 1.0} if weight < 1.0 else {}
    steps, found, noise, total = exactly(table(20, **weighted), shares, 0.02, consistent=consistent)
    before = 0.02 * (math.sqrt(0.5) if weight == 1.0 else 1.0 / weight)
    assert steps > 5 and noise < 0.8 * before and total == pytest.approx(weight)
    # What was released before is still in it.
    trust = 1.0 - (noise / before) ** 2
    known = shares[1] / weight
    assert found[1] == pytest.approx(trust * 20 / ROWS + (1.0 - trust) * known, rel=1e-4)


@pytest.mark.parametrize("weight", [1.0, 0.6])
def test_slopes_of_several_classes_along_the_constant_are_counts(weight):
    weighted = {"sample_weight": np.full(ROWS, weight), "max_weight": 1.0} if weight < 1.0 else {}
    labels = np.repeat(np.arange(4), [ROWS // 2, ROWS // 4, ROWS // 5, ROWS // 20])
    problem = table(0, **weighted).with_labels(labels)
    guess = np.array([0.4, 0.3, 0.1, 0.2])
    steps, found, noise, total = exactly(problem, weight * guess, 0.1 * weight)
    before = 0.1 * (math.sqrt(0.75) if weight == 1.0 else 1.0)
    assert steps > 0 and noise < 0.9 * before and total == pytest.approx(weight)
    trust = 1.0 - (noise / before) ** 2
    told = np.array([0.5, 0.25, 0.2, 0.05])
    np.testing.assert_allclose(found, trust * told + (1.0 - trust) * guess, atol=1e-4)


def test_several_classes_are_counted_no_longer_than_needed():
    problem = table(0).with_labels(np.arange(ROWS) % 4)
    even, rare = np.full(4, 0.25), np.array([0.5, 0.48, 0.01, 0.01])
    assert exactly(problem, even, 0.02)[0] == 0
    assert exactly(problem, rare, 0.02)[0] > 0  # noise is the worse the smaller a share is
    steps = plan_multinomial(problem.shape, 4, BUDGET).settings.iterations
    assert exactly(problem, even, 10.0)[0] == steps // 8
    assert exactly(problem, even, 10.0, james_stein=False)[0] == 0


def test_they_stop_when_the_rarer_class_has_rows_enough():
    even = table(ROWS // 2)
    assert exactly(even, (0.5, 0.5), 0.01)[0] == 0
    # A first guess may be far off: the first count tells.
    assert exactly(even, (0.99, 0.01), 0.2)[0] == 1
    assert exactly(even, (0.5, 0.5), 0.01, Budget(1e-3, 1e-6))[0] > 5  # too few of both
    assert exactly(table(20), (0.99, 0.01), 0.02, james_stein=False)[0] == 0


def test_rows_count_by_their_own_weights():
    light = {"sample_weight": np.full(ROWS, 0.02), "max_weight": 1.0}
    assert exactly(table(ROWS // 2, **light), (0.01, 0.01), 1e-4)[0] > 5
    # And hardly, if noise may have shown what they weigh.
    some = {"sample_weight": np.full(ROWS, 0.4), "max_weight": 1.0}
    budget = Budget(0.2, 1e-6)
    assert exactly(table(ROWS // 2, **some), (0.2, 0.2), 1e-4, budget)[0] == 0
    assert exactly(table(ROWS // 2, **some), (0.2, 0.2), 0.1, budget)[0] > 5


def test_few_rows_of_some_weight_end_near_the_constant():
    rng = np.random.default_rng(1)
    weight = np.where(rng.random(ROWS) < 0.02, 1.0, 0.0)
    problem = table(ROWS // 2, sample_weight=weight, max_weight=1.0)
    runs = [solve(problem, "auto", Budget(1.0, 1e-6), random_state=s) for s in range(16)]
    # Gradients along the weights lose .052.
    lost = np.mean([problem.objective(run.w) for run in runs]) / weight.sum() - math.log(2.0)
    assert lost < 0.025


def test_few_positives_end_near_the_constant():
    problem, options = table(4), {"neighboring_relation": "add_or_remove_one"}
    share = 4 / ROWS
    constant = -share * math.log(share) - (1.0 - share) * math.log1p(-share)
    runs = [solve(problem, "auto", BUDGET, random_state=s, **options) for s in range(16)]
    # Gradients along the weights lose .017.
    assert np.mean([problem.objective(run.w) for run in runs]) / ROWS - constant < 0.01


def test_a_hinge_without_a_signal_ends_at_its_best_constant():
    rng = np.random.default_rng(3)
    X = np.clip(rng.standard_normal((ROWS, 10)) / 4.0, -1.0, 1.0)
    y = np.where(rng.random(ROWS) < 0.4, 1.0, -1.0)
    best, declared = 2.0 * np.mean(y > 0.0), {"data_norm": math.sqrt(10.0), "classes": [-1, 1]}
    lost = []
    for seed in range(8):
        model = LinearSVC(0.4, 1e-6, **declared, random_state=seed).fit(X, y)
        lost.append(np.mean(np.maximum(0.0, 1.0 - y * model.decision_function(X))) - best)
    # The rounded-off corner's own constant, at shorter margins, loses .007.
    assert np.mean(lost) < 0.004


@pytest.mark.parametrize(("share", "epsilon", "most"), [(0.2, 0.4, 1.02), (0.05, 8.0, 1.02)])
def test_a_rare_class_takes_a_hinge_no_farther_than_its_corner(share, epsilon, most):
    """What a wide corner added was still there in the end: medians of 1.03 and 1.06."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (4_000, 3))
    y = np.where(rng.random(4_000) < share, 1, -1)
    found = []
    for seed in range(6):
        model = LinearSVC(
            epsilon, 1e-6, data_norm=math.sqrt(3.0), classes=[-1, 1], random_state=seed
        ).fit(X, y)
        found.append(-float(np.median(model.decision_function(X))))
    assert 0.99 < np.median(found) < most


@pytest.mark.parametrize("classes", [2, 3])
def test_a_column_of_ones_in_bounds_that_are_far_too_wide_counts_classes(classes):
    """By its bound its rows may be a million times as long, which their sum's rounding is not."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(ROWS), rng.standard_normal(ROWS)])
    y = rng.integers(0, classes, ROWS)
    settings = {"data_norm": 1e6, "fit_intercept": False, "random_state": 0}
    model = LogisticRegression(3.0, 1e-6, classes=list(range(classes)), **settings).fit(X, y)
    assert np.isfinite(model.coef_).all()
