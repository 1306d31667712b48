"""Estimators take blocks of rows in the place of X and y, and find the same."""

import io

import numpy as np
import pytest
from rich.console import Console

from dpfast import (
    Budget,
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
    plan,
    solve,
)
from dpfast.blocks import BlockProblem, from_npy
from dpfast.errors import DataError
from dpfast.estimators._progress import planned_passes, shown
from dpfast.solvers.multinomial import plan_multinomial


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    return X, X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * rng.standard_normal(400)


@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC])
def test_classifiers(kind, table):
    X, z = table
    y = np.where(z > 0, "yes", "no")
    model = kind(epsilon=5.0, data_norm=2.0, classes=["no", "yes"], random_state=1)
    expected = model.fit(X, y).coef_, model.intercept_, model.predict(X)
    source = from_npy(X, y, block_rows=70)
    model.fit(source)
    np.testing.assert_allclose(model.coef_, expected[0], rtol=1e-10)
    np.testing.assert_allclose(model.intercept_, expected[1], rtol=1e-10)
    np.testing.assert_array_equal(model.predict(source), expected[2])
    assert model.score(source) == model.score(X, y) == np.mean(expected[2] == y)
    for rows in (X, from_npy(X)):
        with pytest.raises(TypeError, match="y must be given to score"):
            model.score(rows)
    assert model.n_features_in_ == 4
    assert model.privacy_.epsilon <= 5.0


@pytest.mark.parametrize(
    ("kind", "bounds"),
    [
        (HuberRegressor, (-3.0, 3.0)), (LinearRegression, (-3.0, 3.0)),
        (QuantileRegressor, (-3.0, 3.0)), (PoissonRegressor, (0.0, 3.0)),
        (GammaRegressor, (0.5, 3.0)), (TweedieRegressor, (0.0, 3.0)),
    ],
)  # fmt: skip
def test_regressors(kind, bounds, table):
    X, y = table
    model = kind(epsilon=5.0, data_norm=2.0, target_bounds=bounds, random_state=1)
    expected = model.fit(X, y).coef_, model.predict(X)
    source = from_npy(X, y, block_rows=70)
    np.testing.assert_allclose(model.fit(source).coef_, expected[0], rtol=1e-10)
    np.testing.assert_allclose(model.predict(source), expected[1], rtol=1e-9)


def test_more_classes_are_learned_one_against_the_rest(table):
    X, z = table
    y = np.digitize(z, [-0.5, 0.5])
    settings = {"epsilon": 5.0, "data_norm": 2.0, "classes": [0, 1, 2], "random_state": 1}
    expected = LogisticRegression(multi_class="ovr", **settings).fit(X, y)
    source = from_npy(X, y, block_rows=70)
    model = LogisticRegression(**settings).fit(source)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-10)
    np.testing.assert_allclose(model.predict_proba(source), expected.predict_proba(X), rtol=1e-9)
    with pytest.raises(ValueError, match="multi_class must be 'ovr' or 'auto' for rows in blocks"):
        LogisticRegression(multi_class="multinomial", **settings).fit(source)
    with pytest.raises(ValueError, match="must have its rows in memory for the multinomial loss"):
        plan_multinomial(BlockProblem(source, data_norm=2.0).shape, 3, Budget(1.0, 1e-6))


def test_weights_come_with_the_blocks(table):
    X, z = table
    y, weight = (z > 0).astype(int), np.random.default_rng(1).random(400)
    model = LogisticRegression(5.0, data_norm=2.0, classes=[0, 1], max_weight=0.7, random_state=1)
    expected = model.fit(X, y, sample_weight=weight).coef_
    source = from_npy(X, y, weight, block_rows=70)
    np.testing.assert_allclose(model.fit(source).coef_, expected, rtol=1e-10)
    assert model.score(source) == pytest.approx(model.score(X, y, weight))


def test_what_is_public_must_be_declared(table):
    X, z = table
    y = (z > 0).astype(int)
    source = from_npy(X, y)
    with pytest.raises(ValueError, match="classes must be given for rows in blocks; got None"):
        LogisticRegression(data_norm=2.0).fit(source)
    with pytest.raises(ValueError, match="data_norm must be given for rows in blocks; got None"):
        LogisticRegression(classes=[0, 1]).fit(source)
    with pytest.raises(ValueError, match="target_bounds must be given for rows in blocks"):
        HuberRegressor(data_norm=2.0).fit(source)
    model = LogisticRegression(data_norm=2.0, classes=[0, 1])
    with pytest.raises(ValueError, match="y, sample_weight and groups must be left out for rows"):
        model.fit(source, y)
    with pytest.raises(DataError, match=r"rows 0 to 399: y must hold only the declared classes"):
        LogisticRegression(data_norm=2.0, classes=[1, 2]).fit(source)
    model.fit(source)
    with pytest.raises(ValueError, match="X must have 4 features, as in fit; got 3"):
        model.predict(from_npy(X[:, :3]))


def test_progress_shows_passes_and_speed(table, capsys):
    X, z = table
    source = from_npy(X, (z > 0).astype(int), block_rows=70)
    for passes, expected in ((3, "pass 3 of 3"), (None, "pass 3")):
        text = io.StringIO()
        seen = []
        source.watch = seen.append
        with shown(source, passes, Console(file=text, force_terminal=True, width=100)):
            for _ in range(3):
                list(source.map(lambda block: None))
        assert expected in text.getvalue()
        assert "rows/s" in text.getvalue()
        assert sum(seen) == 3 * 400  # whoever watched before still does
        assert source.watch == seen.append
    source.watch = None
    model = LogisticRegression(data_norm=2.0, classes=[0, 1], solver="dp-gd", verbose=1)
    model.set_params(solver_options={"iterations": 2}).fit(source)
    captured = capsys.readouterr()
    assert captured.out.startswith("Plan: dp-gd on 400 rows")
    assert captured.err == ""  # no terminal
    assert source.watch is None


@pytest.mark.parametrize(
    ("solver", "options", "passes"),
    [
        ("dp-gd", {"iterations": 7}, 7),
        ("dp-gd", {"iterations": 7, "analysis": "last-iterate", "step": 1.0}, 7),
        ("objective-perturbation", {}, None),
        ("dp-agd", {}, None),
    ],
)
def test_passes_that_a_plan_settles(solver, options, passes, table):
    X, z = table
    problem = BlockProblem(from_npy(X, np.sign(z), block_rows=90), data_norm=2.0)
    assert planned_passes(plan(problem, solver, Budget(1.0, 1e-6), **options)) == passes


def test_whitened_descent_takes_the_passes_that_it_plans(table):
    X, z = table
    source = from_npy(X, np.sign(z))
    problem = BlockProblem(source, data_norm=2.0)
    rows = []
    source.watch = rows.append
    result = solve(problem, "dp-whitened-gd", Budget(1.0, 1e-6))
    assert planned_passes(result.plan) == sum(rows) / 400
