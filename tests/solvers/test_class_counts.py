"""Gradients that tell of the constant alone, where a class may have too few rows."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpfast import Budget, Ledger, Problem, plan, solve
from dpfast.curator import Curator
from dpfast.random import SecureGenerator
from dpfast.solvers import _coordinates
from dpfast.solvers._class_counts import counted

BUDGET, ROWS, COLUMNS = Budget(0.1, 1e-6), 4000, 20


def table(positives, **options):
    rng = np.random.default_rng(0)
    X = np.clip(rng.standard_normal((ROWS, COLUMNS)) / 3.0, -1.0, 1.0)
    y = np.where(np.arange(ROWS) < positives, 1.0, -1.0)
    return Problem(X, y, data_norm=math.sqrt(COLUMNS), **options)


def exactly(problem, shares, noise, budget=BUDGET, **options):
    """What is left to do, and shares and noise, after counts without noise; from such shares."""
    settings = plan(problem, "dp-whitened-gd", budget, **options).settings
    curator = Curator(problem, Ledger(budget), SecureGenerator(0))
    coordinates = _coordinates.learn(settings.learning, problem.shape, curator)
    columns = replace(coordinates.columns, shares=np.array(shares), share_deviation=noise)
    exact = SimpleNamespace(
        fix=curator.fix,
        release=lambda access, fixed, point: access.query(
            access.query.prepare(problem, *fixed.values), point
        ),
    )
    left, found = counted(settings, problem.shape, exact, replace(coordinates, columns=columns))
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
