"""Whitened private gradient descent: sensitivities, coordinates, rounding, guarantees, accuracy."""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from correlated import clipped_rows, correlated
from declared import Unlimited
from scipy.special import expit
from sklearn.base import clone

from dpfast import (
    Budget,
    HuberRegressor,
    Ledger,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    Problem,
    ProblemShape,
    QuantileRegressor,
    plan,
    solve,
)
from dpfast.column_blocks import ColumnBlock
from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.objectives import Erm
from dpfast.optimizers import OPTIMIZERS
from dpfast.privacy.auditing import audit_mu
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import CoordinateGradient
from dpfast.queries.coordinates import column_transform
from dpfast.random import SecureGenerator
from dpfast.solvers import SOLVERS, _coordinates, _whitened_descent, carry_out, dp_whitened_gd

RELATIONS = ["replace_one", "add_or_remove_one"]
BUDGET = Budget(1.0, 1e-6)
EXACT = dict(dp_whitened_gd.SOLVER.exact)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_plan_states_the_sensitivities(relation):
    shape = ProblemShape(1000, 4, data_norm=2.0)
    settled = plan(
        shape, "dp-whitened-gd", BUDGET, neighboring_relation=relation, clip=0.5,
        correlation_clip=1.5, range_rounds=0,
    )  # fmt: skip
    k = 2 if relation == "replace_one" else 1
    radius = settled.settings.learning_clip * math.sqrt(shape.dim)
    first, *others, correlation, gradient = settled.events
    # Parts of both signs and classes, and once the rows' lengths.
    assert first.sensitivity == pytest.approx(math.sqrt(5 * (k * 1.09 + 0.09)), rel=1e-2)
    for later in others:
        assert later.sensitivity == pytest.approx(radius * math.sqrt(k * 1.09), rel=1e-2)
    assert correlation.sensitivity == pytest.approx(math.sqrt(k / 2) * 2.25 * 5, rel=1e-2)
    # Up to a hundredth for rounding.
    assert gradient.sensitivity == pytest.approx(k * 0.5 * math.sqrt(5), rel=1e-2)
    assert gradient.sensitivity >= k * 0.5 * math.sqrt(5)


def test_scipy_need_not_know_empty_matrices(monkeypatch):
    """Before 1.14 it has no null space of them: all columns in ranges that are known."""
    whole = _coordinates.null_space

    def null_space(matrix):
        assert matrix.size
        return whole(matrix)

    monkeypatch.setattr(_coordinates, "null_space", null_space)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (6000, 5))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    problem = Problem(X, y, data_norm=math.sqrt(5.0))
    result = solve(problem, "dp-whitened-gd", Budget(2.0, 1e-7), random_state=0)
    assert result.plan.settings.learning.correlation_rounds == 2
    assert np.isfinite(result.w).all()


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("broken", [False, True])
def test_audit_of_whole_runs(relation, broken, monkeypatch):
    """A likelihood-ratio attack on the released weights of worst-case neighbors.

    The claim is mu; with the gradients' sensitivity declared at a quarter of its value the audit
    refutes it. Error probability of each bound: 1e-6.
    """
    mu = 2.0
    if broken:
        honest = CoordinateGradient.sensitivity
        monkeypatch.setattr(
            CoordinateGradient, "sensitivity", lambda self, relation: 0.25 * honest(self, relation)
        )
    X = np.zeros((20, 1))
    X[0] = 1.0
    neighbor = X.copy()
    neighbor[0] = -1.0 if relation == "replace_one" else 0.0
    # Without an intercept a row of zeros contributes nothing: the absent record.
    problems = [Problem(data, np.ones(20), data_norm=1.0, intercept=0.0) for data in (X, neighbor)]
    settled = plan(
        problems[0], "dp-whitened-gd", Budget(mu=mu), neighboring_relation=relation,
        iterations=1, rounds=1, clip=0.3, learning_share=0.02,
    )  # fmt: skip
    scores = []
    for seed, problem in enumerate(problems):
        rng = SecureGenerator(seed)
        scores.append([carry_out(settled, problem, rng, Unlimited()).w[0] for _ in range(500)])
    result = audit_mu(*scores, confidence=1 - 1e-6)
    assert (result.value > mu) == broken


@pytest.mark.parametrize("relation", RELATIONS)
def test_it_beats_isotropic_noise_where_rows_are_far_from_white(relation):
    X, y = correlated(20_000)
    problem = Problem(X, y, data_norm=1.0)
    losses = {}
    for solver in ("dp-whitened-gd", "output-perturbation"):
        runs = [
            solve(problem, solver, BUDGET, neighboring_relation=relation, random_state=seed).w
            for seed in range(3)
        ]
        losses[solver] = np.mean([problem.objective(w) / len(y) for w in runs])
    assert losses["dp-whitened-gd"] < 0.53 < losses["output-perturbation"]


def learned(problem, budget=None, seed=0, **options):
    """The coordinates that a plan's run learns."""
    settled = plan(problem, "dp-whitened-gd", budget or Budget(1e4, 1e-6), **options)
    curator = Curator(problem, Ledger(settled.budget), SecureGenerator(seed))
    return _coordinates.learn(settled.settings.learning, problem.shape, curator)


def test_the_coordinates_are_white(noiseless):
    X, y = correlated()
    problem = Problem(X, y, data_norm=1.0)
    found = learned(problem, rounds=4, correlation_share=0.1)
    Z = (X - found.columns.center) / found.columns.scale
    assert np.abs(Z.mean(axis=0)).max() < 0.2
    np.testing.assert_allclose(Z.std(axis=0), 1.0, rtol=0.35)  # clipped tails are missing
    white = np.column_stack([X, np.ones(len(X))]) @ found.transform
    np.testing.assert_allclose(white[:, 6], 1.0, rtol=1e-9)
    white = clipped_rows(white[:, :6], math.sqrt(7))
    eigenvalues = np.linalg.eigvalsh(white.T @ white / len(X))
    assert eigenvalues.max() / eigenvalues.min() < 2.0


@pytest.mark.parametrize(("square", "found"), [(0.3, 0.3), (1.4, 1.4), (1e-3, 0.1)])
def test_numbers_are_divided_by_what_their_squares_are_together(square, found):
    numbers = np.array([True, False, True, True])
    squares = np.array([0.5, 9.0, 1.5, 1.0]) * square
    unit = _coordinates._unit_of_numbers(squares, 1e-9, numbers)
    np.testing.assert_allclose(unit[numbers] ** 2, found / 0.7, rtol=1e-9)
    assert unit[1] == 1.0
    hidden = _coordinates._unit_of_numbers(squares, 1e9, numbers)
    np.testing.assert_allclose(hidden, 1.0, rtol=1e-9)


def symmetric_noise(d, deviation):
    noise = deviation * np.random.default_rng(0).standard_normal((d, d))
    return (noise + noise.T) / math.sqrt(2.0)


@pytest.mark.parametrize(("deviation", "most"), [(0.02, 0.02), (0.2, 0.06)])
def test_moments_that_are_white_but_for_noise_are_left_alone(deviation, most, monkeypatch):
    """The noise's eigenvalues reach to 28 deviations: 0.6, and 5.7."""
    monkeypatch.setattr(_coordinates, "_MANY", 201)
    found = _coordinates._whitening(np.eye(200) + symmetric_noise(200, deviation), deviation)
    stretched = np.linalg.norm(found, axis=0)
    assert np.sqrt(np.mean(np.square(stretched - 1.0))) < most


@pytest.mark.parametrize(("deviation", "expected"), [(0.001, 0.7), (0.02, 0.76), (0.2, 1.0)])
def test_many_moments_that_noise_explains_are_all_rescaled_alike(deviation, expected):
    moments = 0.7 * np.eye(200) + symmetric_noise(200, deviation)
    found = _coordinates._whitening(moments, deviation)
    np.testing.assert_array_equal(found, found[0, 0] * np.eye(200))
    assert found[0, 0] ** -2 == pytest.approx(expected, abs=0.01)


def test_a_common_factor_stands_out_of_the_noise():
    factor = np.full(200, 200**-0.5)
    moments = np.eye(200) + 20.0 * np.outer(factor, factor) + symmetric_noise(200, 0.2)
    found = _coordinates._whitening(moments, 0.2)
    assert np.linalg.norm(found.T @ factor) < 0.3


@pytest.mark.parametrize("james_stein", [True, False])
def test_rows_in_narrower_units_are_as_long(james_stein):
    """Noise hides what a column's scale is; the rows' lengths tell it."""
    X = np.clip(np.random.default_rng(7).standard_normal((4000, 12)) / 4.0, -1.0, 1.0)
    squares = []
    for units in (1.0, 0.4):
        problem = Problem(units * X, np.sign(X[:, 0] + 0.01), data_norm=math.sqrt(12.0))
        found = [
            np.column_stack([units * X, np.ones(4000)])
            @ learned(problem, Budget(0.3, 1e-6), seed=seed, james_stein=james_stein).transform
            for seed in range(5)
        ]
        squares.append(np.mean([np.var(Z[:, :12], axis=0).mean() for Z in found]))
    assert 0.8 < squares[1] / squares[0] < 1.2, squares


@pytest.mark.parametrize("where", [0, 3, 6])
def test_a_constant_column_takes_the_place_of_the_intercept(where, noiseless):
    """Coordinates and fits are those of the rows with an intercept."""
    X, y = correlated()
    own = np.insert(X, where, 0.5, axis=1)
    problem = Problem(own, y, data_norm=1.2, intercept=0.0)
    found = learned(problem, rounds=4)
    assert found.anchor == where and found.free == 6
    white = own @ found.transform
    np.testing.assert_allclose(white[:, 6], 1.0, rtol=1e-3)
    assert np.abs(white[:, :6].mean(axis=0)).max() < 0.2
    fits = [
        solve(each, "dp-whitened-gd", Budget(4.0, 1e-6), clip=2.0).w
        for each in (problem, Problem(X, y, data_norm=1.0))
    ]
    excess = [each.objective(w) / len(y) for each, w in zip((problem, Problem(X, y, data_norm=1.0)),
                                                            fits, strict=True)]  # fmt: skip
    assert excess[0] == pytest.approx(excess[1], abs=0.02)


@pytest.mark.parametrize("epsilon", [0.1, 0.2])
def test_a_column_that_may_be_of_ones_is(epsilon):
    """Noise hides by how much it varies, and what its value is."""
    rng = np.random.default_rng(0)
    X = np.insert(rng.standard_normal((2_000, 6)) / 4.0, 2, 1.0, axis=1)
    problem = Problem(X, np.sign(rng.standard_normal(2_000)), data_norm=2.0, intercept=0.0)
    found = [learned(problem, Budget(epsilon, 1e-6), seed) for seed in range(20)]
    assert sum(each.anchor == 2 and each.constant == 1.0 for each in found) >= 16


@pytest.mark.parametrize("value", [0.3, -0.5, 1.3])
def test_narrow_columns_are_centered_by_a_constant_one(value):
    """Its value is known as well as their centers are, also if it is higher than was guessed."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, 5) + 1e-3 * rng.standard_normal((20_000, 5))
    y = np.sign(rng.standard_normal(len(X)))
    own = np.insert(X, 3, value, axis=1)
    found = learned(Problem(own, y, data_norm=2.0, intercept=0.0), Budget(1.0, 1e-6))
    assert found.anchor == 3 and found.constant == pytest.approx(value, rel=1e-3)
    white = own @ found.transform
    assert np.abs(white[:, :5].mean(axis=0)).max() < 0.6
    assert 0.5 < white[:, :5].std() < 1.5


def test_without_anything_constant_columns_are_scaled_alone(noiseless):
    X, y = correlated()
    X = X - X.mean(axis=0)
    found = learned(Problem(X, y, data_norm=1.0, intercept=0.0), correlation_share=0.0)
    assert found.anchor is None and found.free == 6
    assert np.count_nonzero(found.transform) == 6


def test_columns_that_do_not_vary_leave_the_intercept_alone():
    """Pixels that are never lit: far from centered, they shared it, and took it away in the end."""
    rng = np.random.default_rng(0)
    numbers = np.clip(rng.standard_normal((10_000, 5)), -2.0, 2.0) / 2.0
    X = np.hstack([np.zeros((10_000, 20)), numbers])
    y = np.where(rng.logistic(size=10_000) < 4.0 * numbers[:, -1] - 4.0, 1.0, -1.0)
    problem = Problem(X, y, "logistic", data_norm=5.0)
    best = problem.objective(np.append(np.zeros(24), [4.0, -4.0]))
    fits = (solve(problem, "auto", Budget(6.0, 1e-6), random_state=seed) for seed in (1, 9))
    assert max(problem.objective(fit.w) for fit in fits) < best + 20.0


def test_columns_that_do_not_vary_have_small_weights_beside_others():
    """Noise piled up along them, to weights of 20 to 100 where those of the others are 3."""
    rng = np.random.default_rng(0)
    numbers = np.clip(rng.standard_normal((10_000, 5)) / 3.0, -1.0, 1.0)
    constants = np.tile([0.3, -1.0, 0.0], (10_000, 1))
    y = np.where(rng.logistic(size=10_000) < 3.0 * numbers[:, 0], 1.0, -1.0)
    columns = tuple(ColumnBlock("number", j, j + 1) for j in range(8))
    problem = Problem(
        np.hstack([numbers, constants]), y, "logistic", data_norm=math.sqrt(8.0), columns=columns
    )
    found = [solve(problem, "auto", Budget(5.0, 1e-6), random_state=seed).w for seed in range(8)]
    assert np.median(np.abs([w[5:8] for w in found])) < 6.0


@pytest.mark.parametrize(
    ("estimator", "declared"),
    [
        (LogisticRegression, {"classes": [0, 1, 2]}),
        (LinearSVC, {"classes": [0, 1]}),
        (LinearRegression, {"target_bounds": (0.0, 2.0)}),
    ],
)
def test_a_column_that_does_not_vary_has_a_small_weight_in_every_loss(estimator, declared):
    """Weights of classes were 4 to 90 there, of a hinge 5 to 60, of squares 1 to 15."""
    rng = np.random.default_rng(0)
    X = np.insert(rng.uniform(-1.0, 1.0, (4_000, 2)), 2, -0.4, axis=1)
    y = np.digitize(X[:, 0] + 0.4 * rng.logistic(size=4_000), [-0.5, 0.5])
    y = np.minimum(y, len(declared.get("classes", y)) - 1)
    weights = []
    for seed in range(32):
        model = estimator(8.0, 1e-6, data_norm=2.0, random_state=seed, **declared).fit(X, y)
        weights.append(np.abs(np.atleast_2d(model.coef_)[:, 2]).max())
    assert np.median(weights) < 3.5


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("d", [3, 150])
def test_equations_with_the_transform_are_solved_whether_it_mixes_columns_or_not(d, mixed):
    rng, shape = np.random.default_rng(0), ProblemShape(100, d, 1.0, intercept=1.0)
    transform = column_transform(shape, rng.normal(size=d), rng.uniform(0.1, 1.0, d))
    if mixed:
        transform[:d, :d] = np.eye(d) + 0.01 * rng.normal(size=(d, d))
    found, v = _coordinates.Coordinates(transform, d, 1.0, None), rng.normal(size=(d + 1, 2))
    at = np.array([d - 1, 1])
    np.testing.assert_allclose(found.of_weights(transform @ v), v, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(
        transform @ found.columns_of_inverse(at), np.eye(d + 1)[:, at], atol=1e-10
    )


def test_weights_that_go_leave_rows_of_the_usual_value_alone():
    """A column's center is known as far as noise lets it, and the value of nearly all rows is."""
    rng = np.random.default_rng(0)
    X = np.insert(rng.uniform(-1.0, 1.0, (4_000, 2)), 2, -0.4, axis=1)
    y = np.sign(rng.standard_normal(4_000))
    columns = tuple(ColumnBlock("number", j, j + 1) for j in range(3))
    problem = Problem(X, y, "logistic", data_norm=2.0, columns=columns)
    found = learned(problem, Budget(8.0, 1e-6))
    assert found.columns.value[2] == pytest.approx(-0.4, abs=1e-5)
    assert found.columns.deviation[2] > 1e-3
    w = found.transform @ found.with_kept(np.array([1.0, 2.0, 3.0, 0.5]), np.array([1.0, 1.0, 0.0]))
    row = np.array([0.3, -0.2, found.columns.value[2], 1.0])
    assert w[2] == pytest.approx(0.0, abs=1e-9)
    assert row @ w == pytest.approx(row @ found.transform @ [1.0, 2.0, 3.0, 0.5])


def one_mostly_of_one_value(varies=0.0, off=0.0):
    """A number, and one mostly of one value, whose center is `off`, with a variance of at least so
    much."""
    shape = ProblemShape(1_000, 2, 1.0, intercept=1.0)
    columns = _coordinates.Columns(
        center=np.array([0.0, off]), scale=np.array([0.5, 0.001]), deviation=np.full(2, 1e-9),
        counted=np.zeros(2, bool), binary=np.zeros(2, bool), height=1.0,
        frequency=np.zeros(2), frequency_deviation=np.zeros(2), least=np.array([0.25, varies]),
        ranged=np.array([True, False]), steady=np.array([False, True]), constant=None,
        value=np.zeros(2),
        shares=np.full(2, 0.5), share_deviation=0.01,
    )  # fmt: skip
    settings = plan(shape, "dp-whitened-gd", Budget(1.0, 1e-6)).settings
    return settings, shape, _coordinates._coordinates(shape, columns)


@pytest.mark.parametrize("classes", [None, 5])
@pytest.mark.parametrize("seen", ["first slope", "all slopes", "nothing"])
def test_weights_of_columns_that_may_be_constant_stay_if_they_are_seen(seen, classes):
    """The longer these have to be the more classes' noise they are of."""
    settings, shape, found = one_mostly_of_one_value(varies=1e-6)
    curved = np.full(1, 2.0 / (classes or 2))
    noise = float(_whitened_descent.weight_noise(settings, shape, 1.0, curved)[0])
    slope = 4.0 if classes is None else 6.0
    v = np.array([1.0, noise, 0.2])
    all_slopes = "first slope", "all slopes"
    slopes = [np.array([50.0, slope if seen == which else 1.0, 9.0]) for which in all_slopes]
    if classes is not None:
        settings = replace(settings, classes=classes)
        v, *slopes = (np.outer(one, [0.5, -0.5, 0.5, -0.5, 0.0]) for one in (v, *slopes))
    kept = _whitened_descent._kept_where_flat(v, slopes, settings, shape, found, 1.0)
    # The part of the slope's square that noise has at most is 1/4: squared.
    prior = _whitened_descent.PRIOR_EFFECT / _coordinates.entry_bound(shape)
    of_prior = prior**2 / (prior**2 + (noise / 0.001) ** 2)
    expected = of_prior if seen == "nothing" else 1.0 - 0.25**2
    np.testing.assert_allclose(kept, [1.0, expected], atol=1e-3)


def test_the_slope_of_the_constant_is_none_of_a_column_that_does_not_vary():
    """Its center is wrong by half a scale, so that half of the constant's slope is seen there."""
    _, _, found = one_mostly_of_one_value(off=0.0005)
    slope = np.array([0.0, 1.0 - 0.5 * 40.0, 40.0])
    (told,) = _whitened_descent._slopes_along(np.array([1]), (slope,), found)
    assert told == pytest.approx(1.0 / (1.0 + 0.5**2))


@pytest.mark.parametrize(("slope", "most"), [(1.5, 0.7), (6.0, math.inf)])
def test_a_weight_of_a_column_that_was_not_seen_to_vary_stays_below_the_largest(slope, most):
    settings, shape, found = one_mostly_of_one_value()
    v = np.array([0.5, 5.0, 0.2])
    slopes = np.array([0.0, slope, 0.0]), np.zeros(3)
    kept = _whitened_descent._kept_where_flat(v, slopes, settings, shape, found, 1.0)
    w = (found.transform @ found.with_kept(v, kept))[:2]
    assert w[0] == pytest.approx(1.0)
    assert w[1] == pytest.approx(most) if most < 1.0 else w[1] > 100.0


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize(
    "estimator",
    [
        LinearRegression(target_bounds=(-3.0, 3.0)),
        HuberRegressor(target_bounds=(-3.0, 3.0)),
        QuantileRegressor(quantile=0.9, target_bounds=(-3.0, 3.0)),
    ],
)
def test_a_number_of_one_value_has_a_small_weight_in_regressions(estimator, value):
    rng = np.random.default_rng(0)
    X = np.clip(rng.normal(0.0, 0.3, (4_000, 4)), -1.0, 1.0)
    y = X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * rng.standard_normal(4_000)
    X[:, 3] = value
    columns = tuple(ColumnBlock("number", j, j + 1) for j in range(4))
    for seed in range(3):
        model = clone(estimator).set_params(
            epsilon=30.0, data_norm=2.0, column_blocks=columns, random_state=seed
        )
        weights = np.abs(model.fit(X, y).coef_)
        assert weights[3] < weights[:3].max()


# ---- categories ---------------------------------------------------------------------------------


def categories(n=20_000, seed=0):
    """Two categories, of which the first has a value that no row has, and a number."""
    rng = np.random.default_rng(seed)
    one = rng.choice(4, size=n, p=[0.6, 0.3, 0.1, 0.0])
    two = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    X = np.column_stack([np.eye(4)[one], np.eye(3)[two], rng.uniform(-1, 1, n)])
    margins = X @ np.array([0.0, 1.0, -1.0, 0.0, 1.0, 0.0, -1.0, 1.0])
    y = np.where(rng.logistic(size=n) < margins, 1.0, -1.0)
    columns = (ColumnBlock("one-hot", 0, 4), ColumnBlock("one-hot", 4, 7),
               ColumnBlock("number", 7, 8))  # fmt: skip
    return X, y, columns


def test_declared_categories_are_scaled_by_their_counts(noiseless):
    X, y, columns = categories()
    found = learned(Problem(X, y, data_norm=2.0, columns=columns), correlation_share=0.0)
    share = X.mean(axis=0)[:7]
    np.testing.assert_allclose(found.columns.center[:7], share, atol=2e-3)
    np.testing.assert_allclose(
        found.columns.scale[:7], np.sqrt(np.maximum(share, 1 / (16 * 9))), atol=2e-3
    )
    np.testing.assert_array_equal(found.columns.counted, np.arange(8) < 7)
    np.testing.assert_allclose(found.columns.frequency[:7], share, atol=2e-3)


@pytest.mark.parametrize("intercept", [1.0, 0.0])
def test_second_moments_count_categories_again(noiseless, intercept):
    """They tell frequencies by themselves; of centered columns only where these are small."""
    X, y, columns = categories()
    problem = Problem(X, y, data_norm=2.0, columns=columns, intercept=intercept)
    found = learned(problem, correlation_share=0.0)
    known = found.columns
    unsure = replace(known, frequency=known.frequency + 0.1, frequency_deviation=np.full(8, 10.0))
    rows = np.column_stack([X, np.ones(len(X))])[:, : len(found.transform)]
    squares = np.square(rows @ found.transform)[:, :8].mean(axis=0)
    again = _coordinates._counted_again(replace(found, columns=unsure), np.arange(8), squares, 1e-6)
    share = X.mean(axis=0)
    told = (np.arange(8) < 7) & ((share < 0.29) | (intercept == 0.0))
    np.testing.assert_allclose(again.frequency[told], share[told], atol=2e-3)
    assert (again.frequency_deviation[told] < 1e-4).all()
    np.testing.assert_allclose(again.frequency[~told], unsure.frequency[~told])
    np.testing.assert_allclose(again.frequency_deviation[~told], 10.0)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 8.0])
def test_an_empty_category_has_next_to_no_effect(epsilon):
    X, y, columns = categories()
    problem = Problem(X, y, data_norm=2.0, columns=columns)
    found = []
    for seed in range(5):
        w = solve(problem, "auto", Budget(epsilon, 1e-6), random_state=seed).w
        found.append(abs(w[3]) / np.abs(np.delete(w[:8], 3)).max())
    assert np.median(found) < 0.3
    assert max(found) < 0.71  # where noise looks like a few rows


def undeclared(height):
    """Indicators that nobody declared: the last of the first 30 is empty, some are very rare."""
    rng = np.random.default_rng(4)
    n = 20_000
    shares = np.append(np.arange(1.0, 30.0) ** -2.5, 0.0)
    one = rng.choice(30, size=n, p=shares / shares.sum())
    X = np.hstack([np.eye(30)[one], np.eye(10)[rng.integers(0, 10, n)]])
    y = np.where(rng.logistic(size=n) < 2.0 * X[:, 1] + X[:, 35] - 0.5, 1.0, -1.0)
    return height * X, y


@pytest.mark.parametrize("height", [1.0, 100.0])
def test_undeclared_columns_that_are_nearly_always_zero_have_moderate_effects(height):
    X, y = undeclared(height)
    problem = Problem(X, y, data_norm=math.sqrt(2.0) * height)
    rare = np.count_nonzero(X, axis=0) < 25
    assert rare[29] and rare.sum() > 10
    for epsilon, relation in [(1.0, "replace_one"), (3.0, "add_or_remove_one")]:
        for seed in range(3):
            w = solve(problem, "auto", Budget(epsilon, 1e-6), random_state=seed,
                      neighboring_relation=relation).w[:40]  # fmt: skip
            assert np.abs(w[rare]).max() < 2.0 * np.abs(w[~rare]).max()
            assert abs(w[29]) <= 0.71 * np.abs(w).max()  # of what no row has


@pytest.mark.parametrize("height", [1.0, 0.7])
def test_undeclared_columns_are_taken_for_categories_where_most_look_like_them(noiseless, height):
    X, y = undeclared(height)
    problem = Problem(X, y, data_norm=math.sqrt(2.0) * height)
    found = learned(problem, correlation_share=0.0).columns
    share = X.mean(axis=0) / height
    assert found.height == pytest.approx(height)
    assert found.counted[share < 0.2].all()
    seen = found.counted & (share > 0.0)
    np.testing.assert_allclose(found.frequency[seen], share[seen], atol=1e-3)
    # What nobody has is scaled like the rarest category.
    assert found.scale[29] == pytest.approx(found.height / (4.0 * math.sqrt(41.0)))
    rng = np.random.default_rng(0)
    dense = 0.1 * np.hstack([rng.standard_normal((len(X), 8)), X[:, 27:30]])
    found = learned(Problem(dense, y, data_norm=1.0), correlation_share=0.0).columns
    assert not found.counted.any()


def test_numbers_beside_undeclared_indicators_are_told_by_what_is_below_zero(noiseless):
    X, y = undeclared(1.0)
    numbers = np.random.default_rng(0).uniform(-1.0, 1.0, (len(X), 2))
    problem = Problem(np.hstack([X, numbers]), y, data_norm=2.0)
    found = learned(problem, correlation_share=0.0).columns
    share = X.mean(axis=0)
    np.testing.assert_array_equal(found.counted, np.append(share < 0.5, [False, False]))


def test_moments_tell_frequencies_of_whatever_height(noiseless):
    """Squares were read as those of ones, so categories of lower entries seemed rarer."""
    X, y = undeclared(0.7)
    found = learned(Problem(X, y, data_norm=0.7 * math.sqrt(2.0)), correlation_share=0.1).columns
    seen = found.counted & (X.mean(axis=0) > 0.01)
    np.testing.assert_allclose(found.frequency[seen], X.mean(axis=0)[seen] / 0.7, rtol=0.1)


def test_effects_that_are_cut_go_to_the_constant():
    """Rows at the center of a column keep their margins."""
    shape = ProblemShape(1000, 2, 1.0, intercept=2.0)
    columns = _coordinates.Columns(
        center=np.array([0.3, 0.1]), scale=np.array([0.5, 0.2]), deviation=np.full(2, 0.01),
        counted=np.array([False, True]), binary=np.zeros(2, bool), height=1.0,
        frequency=np.array([0.0, 0.025]),
        frequency_deviation=np.array([1.0, 0.001]), least=np.zeros(2),
        ranged=np.zeros(2, bool), steady=np.zeros(2, bool), constant=None, shares=np.zeros(0),
        value=np.array([0.3, 0.1]),
        share_deviation=math.inf,
    )  # fmt: skip
    found = _coordinates._coordinates(shape, columns)
    v = np.array([1.0, -2.0, 0.5])
    asked = []

    def noise(curved):
        asked.append(curved)
        return np.full(2, 0.4)

    plain, cut = found.weights(v, np.zeros_like), found.weights(v, noise)
    np.testing.assert_allclose(plain, found.transform @ v)
    assert cut[0] == plain[0]
    # Noise of 0.4 · 5 in the second weight; of 0.024 rows at least, whose variance there is 25.
    assert cut[1] == pytest.approx(plain[1] * 1.4**2 / (1.4**2 + 4.0))
    assert asked[0][1] == pytest.approx(0.6)
    center = np.array([0.3, 0.1, 2.0])
    assert center @ cut == pytest.approx(center @ plain)
    # What nobody was seen to have counts less than what somebody has, and the more has to be seen
    # the less is kept.
    for rows, noisy, bounded in [
        (0.0029, np.zeros_like, True),
        (0.0031, np.zeros_like, False),
        (0.0062, noise, True),
    ]:
        hardly = replace(columns, frequency=np.array([0.0, rows]))
        cut = replace(found, columns=hardly).weights(100.0 * v, noisy)
        assert (cut[1] == pytest.approx(-0.7 * abs(cut[0]))) == bounded


def test_effects_that_are_cut_go_to_a_column_in_the_place_of_the_constant():
    """They were lost, and a rare flag in that place was cut itself: loss at 0 times 8."""
    shape = ProblemShape(1000, 3, 1.0, intercept=0.0)
    columns = _coordinates.Columns(
        center=np.array([0.3, -0.9, -1.0]), scale=np.array([0.5, 0.2, 0.1]),
        deviation=np.full(3, 0.01), counted=np.zeros(3, bool),
        binary=np.array([False, True, True]), height=1.0,
        frequency=np.array([0.0, 0.05, 0.001]),
        frequency_deviation=np.array([1.0, 0.002, 0.002]), least=np.zeros(3),
        ranged=np.zeros(3, bool), steady=np.zeros(3, bool), constant=2, shares=np.zeros(0),
        value=np.array([0.3, -0.9, -1.0]),
        share_deviation=math.inf,
    )  # fmt: skip
    found = _coordinates._coordinates(shape, columns)
    assert found.anchor == 2
    plain, cut = (
        found.weights(np.array([1.0, -2.0, 0.5]), lambda curved, noise=noise: noise + 0.0 * curved)
        for noise in (0.0, 0.4)
    )
    np.testing.assert_allclose(plain, found.transform @ [1.0, -2.0, 0.5])
    assert cut[0] == plain[0]
    assert abs(cut[1]) < 0.9 * abs(plain[1])
    assert columns.center @ cut == pytest.approx(columns.center @ plain)


def test_a_rare_flag_may_take_the_place_of_the_constant():
    """Nearly all its values are one: its weight is an intercept and no effect of rare rows."""
    rng = np.random.default_rng(0)
    flags = np.where(rng.random((4000, 2)) < 0.004, 1.0, -1.0)
    X = np.column_stack([rng.uniform(-1, 1, (4000, 2)), flags])
    kinds = (("number", 0, 2), ("binary", 2, 3), ("binary", 3, 4))
    columns = tuple(ColumnBlock(*kind) for kind in kinds)
    y = np.where(rng.logistic(size=4000) < 2.0 * X[:, 0] - 1.5, 1.0, -1.0)
    problem = Problem(X, y, data_norm=2.0, intercept=0.0, columns=columns)
    for seed in range(4):
        w = solve(problem, "dp-whitened-gd", Budget(2.0, 1e-6), random_state=seed).w
        assert problem.objective(w) / 4000 < 0.47


@pytest.mark.parametrize("columns", [((0, 2), (3, 4)), ((0, 2),), ((0, 2), (2, 5)), ((1, 4),)])
def test_declarations_are_of_all_columns(columns):
    blocks = tuple(ColumnBlock("one-hot", *ends) for ends in columns)
    with pytest.raises(ValueError, match=r"column_blocks\) must declare each of the 4 columns"):
        ProblemShape(1000, 4, 1.0, columns=blocks)


# ---- rounds -------------------------------------------------------------------------------------


def test_rounds_count_by_their_precision():
    rng = np.random.default_rng(0)
    values, deviations = rng.standard_normal((3, 5)), rng.uniform(0.1, 2.0, (3, 5))
    estimate = _coordinates.Estimate(5)
    for count in (1, 2, 3):
        found = estimate.add(values[count - 1], deviations[count - 1])
        precisions = deviations[:count] ** -2
        np.testing.assert_allclose(found, np.average(values[:count], axis=0, weights=precisions))
        np.testing.assert_allclose(estimate.deviation(), precisions.sum(axis=0) ** -0.5)


def test_coordinates_take_less_of_an_ample_budget():
    shares = [
        sum(plan(ProblemShape(n, 9, 1.0), "dp-whitened-gd", BUDGET).parameters[name]
            for name in ("learning_share", "correlation_share"))
        for n in (500, 20_000, 2_000_000)
    ]  # fmt: skip
    assert shares[0] == pytest.approx(0.23, abs=0.01) and shares[1] == pytest.approx(0.19, abs=0.02)
    assert shares[2] < 0.08


def test_a_ridge_is_part_of_the_objective(noiseless):
    """It is far from white where the rows are: gradient steps short enough for it stay near 0."""
    from optimizers.test_optimizers import reference_minimizer

    X, y = correlated(2000)
    problem = Problem(X, y, data_norm=1.0)
    best = reference_minimizer(X, y, 0.01, penalized=False)
    w = solve(problem, "dp-whitened-gd", Budget(4.0, 1e-6), alpha=0.01, **EXACT).w
    np.testing.assert_allclose(w, best, atol=1e-5)
    # The default number of steps comes close, too.
    options = {"alpha": 0.01, "clip": 10.0, "james_stein": False}
    w = solve(problem, "dp-whitened-gd", Budget(4.0, 1e-6), **options).w
    values = [problem.value_and_gradient(v, 0.01)[0] - 0.005 * v[-1] ** 2
              for v in (best, w, np.zeros(7))]  # fmt: skip
    assert values[1] - values[0] < 0.01 * (values[2] - values[0])


@pytest.mark.parametrize("categories", [False, True])
def test_coordinates_beside_a_ridge(categories):
    """Isotropic noise costs the least that the theory allows; a ridge goes as far as slopes."""
    scale = np.array([1.0, 0.3, 0.02])
    shape = ProblemShape(10**6, 3, data_norm=2.0, intercept=0.0)
    settings = plan(shape, "dp-whitened-gd", BUDGET, alpha=0.05, range_rounds=0).settings
    columns = SimpleNamespace(categories=np.full(3, categories))
    white = _Plain(np.diag(1.0 / scale), columns)
    found, now = _whitened_descent.beside_ridge(white, settings, shape, None)
    # Second moments A, loss bent as A + R: the noise's law is the geometric mean of both.
    squares = np.square(scale) / np.sqrt(scale**2 * (scale**2 + 0.05 / settings.curvature))
    left = 0.5 if categories else 1.0
    squares *= np.mean(squares) ** -left
    assert squares.max() < 2.0
    np.testing.assert_allclose(found.transform, np.diag(np.sqrt(squares) / scale), rtol=1e-12)
    assert now.ridge_left == 1.0
    short = replace(settings, clip_norm=0.25)
    cut = _whitened_descent.beside_ridge(white, short, shape, None)[1].ridge_left
    row = math.sqrt(1.0 + squares.sum())
    assert cut == pytest.approx(0.25 / row / 0.5, rel=1e-12)
    slight = replace(short, ridge=1e-6)  # next to what noise does, it is worth keeping
    assert _whitened_descent.beside_ridge(white, slight, shape, None)[1] == slight
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turned = _Plain(white.transform @ turn, columns)  # other axes, the same noise
    again, _ = _whitened_descent.beside_ridge(turned, settings, shape, None)
    np.testing.assert_allclose(again.transform @ turn.T, found.transform, rtol=1e-9, atol=1e-9)
    plain = replace(settings, ridge=0.0)
    assert _whitened_descent.beside_ridge(white, plain, shape, None) == (white, plain)
    alone = _Plain(np.zeros((0, 0)), columns)  # of a constant, which no ridge draws
    assert _whitened_descent.beside_ridge(alone, settings, shape, None) == (alone, settings)


def test_columns_that_are_only_scaled_need_the_diagonal_of_a_ridge_alone():
    """There may be thousands, of which a square matrix would be most of the memory of a fit."""
    rng = np.random.default_rng(0)
    shape = ProblemShape(1000, 6, data_norm=1.0)
    transform = np.diag(rng.uniform(0.1, 9.0, 7))
    transform[-1] = rng.normal(size=7)  # centers, which a ridge does not see
    bend = _whitened_descent.ridge_bend(shape, SimpleNamespace(transform=transform))
    assert bend.shape == (7,) and bend[-1] == 0.0
    np.testing.assert_array_equal(np.diag(bend), transform[:6].T @ transform[:6])
    for end in (rng.normal(size=7), rng.normal(size=(7, 3))):
        led = _whitened_descent._damped(bend, end)
        np.testing.assert_allclose(led, _whitened_descent._damped(np.diag(bend), end), rtol=1e-14)
    transform[0, 1] = 1e-9
    again = _whitened_descent.ridge_bend(shape, SimpleNamespace(transform=transform))
    np.testing.assert_array_equal(again, transform[:6].T @ transform[:6])


@dataclass(frozen=True)
class _Plain:
    """Coordinates without a constant, in which rows are white."""

    transform: np.ndarray
    columns: SimpleNamespace
    tells_shares: bool = False

    @property
    def free(self):
        return len(self.transform)

    def squares(self):
        return np.ones(self.free)


def test_a_ridge_is_no_sign_that_iterates_are_on_their_way():
    """Slopes of the rows add up to it at the minimum, where all iterates are to be averaged."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((4_000, 8))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1.0 + 1e-12)
    y = np.where(X @ np.linspace(3.0, -3.0, 8) + rng.logistic(size=4_000) > 0.0, 1.0, -1.0)
    problem = Problem(X, y, data_norm=1.0, intercept=0.0)
    best = OPTIMIZERS["newton"](Erm(problem, 0.01), tolerance=1e-9).w
    least = problem.value_and_gradient(best, 0.01)[0]
    excess = [
        problem.value_and_gradient(w, 0.01)[0] - least
        for w in (
            solve(problem, "dp-whitened-gd", Budget(2.0, 1e-6), alpha=0.01, random_state=seed).w
            for seed in range(8)
        )
    ]
    assert np.mean(excess) < 2.2e-4  # of the last iterates alone, 4e-4


def test_a_ridge_does_not_shorten_the_weights_of_rows_that_are_clipped():
    """Rows of rare categories are clipped most; the ridge is not, and drew weights to .91."""
    from optimizers.test_optimizers import reference_minimizer

    rng = np.random.default_rng(7)
    X = np.hstack([np.eye(9)[np.minimum(8, rng.geometric(0.35, 10_000) - 1)] for _ in range(3)])
    effects = 1.5 * rng.normal(size=X.shape[1])
    y = np.where(rng.random(len(X)) < expit(X @ effects - 1.0), 1.0, -1.0)
    problem, budget = Problem(X, y, data_norm=math.sqrt(3.0)), Budget(1.0, 1e-6)
    best = reference_minimizer(X, y, 0.03, penalized=False)[:-1]
    found = [
        solve(problem, "dp-whitened-gd", budget, alpha=0.03, random_state=seed).w[:-1]
        for seed in range(3)
    ]
    assert 0.925 < np.mean(found @ best) / (best @ best) < 1.02


def test_a_constant_column_and_huge_scales():
    X, y = correlated(2000)
    X[:, 2] = 0.1
    for factor in (1e-30, 1.0, 1e30):
        problem = Problem(X * factor, y, data_norm=factor)
        w = solve(problem, "dp-whitened-gd", BUDGET, random_state=1).w
        assert np.all(np.isfinite(w))
        # Scaling the rows and their bound alone changes nothing but the unit of the weights.
        margins = problem.margins(w)
        if factor == 1e-30:
            reference = margins
        np.testing.assert_allclose(margins, reference, rtol=1e-6, atol=1e-9)


def test_weights_scale_the_gradients_alone():
    X, y = correlated(1000)
    plain = plan(Problem(X, y, data_norm=1.0), "dp-whitened-gd", BUDGET)
    weighted = plan(
        Problem(X, y, data_norm=1.0, sample_weight=np.full(1000, 3.0), max_weight=4.0),
        "dp-whitened-gd", BUDGET,
    )  # fmt: skip
    assert weighted.events[0].where == "rows by weight"
    assert weighted.events[1] == plain.events[0]
    assert weighted.events[-1].sensitivity == pytest.approx(
        4 * plain.events[-1].sensitivity, rel=1e-3
    )


def test_history_and_threads():
    X, y = correlated(40_000)
    runs = [
        solve(Problem(X, y, data_norm=1.0, n_jobs=jobs), "dp-whitened-gd", BUDGET, random_state=3)
        for jobs in (1, 2)
    ]
    np.testing.assert_array_equal(runs[0].w, runs[1].w)
    norms = runs[0].history["gradient_norm"]
    assert norms.shape == (runs[0].plan.settings.iterations,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": 0}, "iterations"),
        ({"rounds": 0}, "rounds"),
        ({"clip": 0.0}, "clip"),
        ({"clip": math.nan}, "clip"),
        ({"average": 1.5}, "average"),
        ({"learning_share": 0.0}, "learning_share"),
        ({"learning_share": 0.6, "correlation_share": 0.5}, r"learning_share \+ correlation_share"),
        ({"alpha": -1.0}, "alpha"),
        ({"step": 3.0}, "step"),
        ({"intercept_step": 0.0}, "intercept_step"),
        ({"momentum": 1.0}, "momentum"),
        ({"shrinkage": -0.1}, "shrinkage"),
    ],
)
def test_bad_options(options, message):
    shape = ProblemShape(1000, 4, data_norm=1.0)
    with pytest.raises(ValueError, match=message):
        plan(shape, "dp-whitened-gd", BUDGET, **options)


@pytest.mark.parametrize("loss", ["hinge", "squared", "sigmoid"])
def test_losses_it_refuses(loss):
    with pytest.raises(ValueError, match="loss must be"):
        plan(ProblemShape(1000, 4, data_norm=1.0, loss=loss), "dp-whitened-gd", BUDGET)


@pytest.mark.parametrize("loss", ["huberized-hinge", "squared-hinge", "huber", "pinball"])
def test_other_losses(loss):
    X, y = correlated(5000)
    problem = Problem(X, y, loss, data_norm=1.0)
    w = solve(problem, "dp-whitened-gd", Budget(4.0, 1e-6), random_state=0).w
    assert problem.objective(w) < 0.95 * problem.objective(np.zeros(7))


def test_clip_of_residuals():
    """The Huber loss is clipped as if its slopes were half of the targets' bound at most."""
    clips = {}
    for loss in ("logistic", "huber"):
        shape = ProblemShape(5000, 6, 1.0, loss)
        clips[loss] = plan(shape, "dp-whitened-gd", BUDGET, consistent=False).parameters
    ratio = clips["huber"]["clip_norm"] / clips["logistic"]["clip_norm"]
    assert ratio == pytest.approx(0.5)


def test_short_steps_and_momentum_follow_the_rows():
    few, some, many = (
        plan(ProblemShape(n, 9, 1.0), "dp-whitened-gd", Budget(0.5, 1e-6)).parameters
        for n in (100, 2000, 200_000)
    )
    assert few["step"] < 0.1 < few["intercept_step"] < 1.0 == some["step"]
    assert few["momentum"] == some["momentum"] == 0.0 and many["momentum"] == 0.78
    assert few["learning"].correlation is None and some["learning"].correlation is not None
    assert few["shrinkage"] >= some["shrinkage"] > many["shrinkage"]


@pytest.mark.parametrize(
    "options",
    [
        {"iterations": 1, "momentum": 0.0, "clip": 0.5},
        {"iterations": 12, "momentum": 0.0, "average": 0.0, "clip": 0.3},
        {"iterations": 12, "momentum": 0.6, "average": 0.5, "shrinkage": 0.03, "clip": 2.0},
        {"iterations": 40, "momentum": 0.7, "average": 1.0, "step": 0.4, "clip": 0.5},
        {"iterations": 12, "momentum": 0.6, "average": 0.5, "narrowing": 0.1, "clip": 0.75},
    ],
)
@pytest.mark.parametrize("curved", [0.0, 0.3, 1.0])
def test_weight_noise(options, curved):
    """The weights that noise in a single step makes, one step after the other."""
    loss = "huberized-hinge" if "narrowing" in options else "logistic"
    settled = plan(ProblemShape(5000, 6, 1.0, loss), "dp-whitened-gd", BUDGET, **options)
    p = settled.parameters
    ground = curved * {0.3: 0.15, 0.5: 0.4125, 0.75: 0.5, 2.0: 0.5}[p["clip"]]
    steps, ground = p["iterations"], (ground + p["shrinkage"]) * p["curvature"]
    first = min(steps - 1, math.floor(steps * (1.0 - p["average"])))
    made = []
    for noisy in range(steps):
        v = last = 0.0
        iterates = []
        for step in range(steps):
            z = v + p["momentum"] * (v - last)
            gradient = ground * z + (step == noisy)
            pace = p["narrowing"] ** (0.5 * step / max(1, steps - 1))
            v, last = z - pace * p["step"] / p["curvature"] * gradient, v
            iterates.append(v)
        made.append(np.mean(iterates[first:]))
    found, flat = _whitened_descent.weight_noise(
        settled.settings, settled.shape, 1.0, np.array([curved, 0.0])
    )
    noise = settled.settings.gradient.stddev / 5000
    assert found == pytest.approx(np.linalg.norm(made) * noise, rel=1e-12)
    assert found <= flat


def test_way_gone():
    """Without momentum what is left of the way shrinks by the same factor in every step."""
    options = {"momentum": 0.0, "shrinkage": 0.0, "iterations": 25, "average": 0.76, "step": 0.8}
    shape = ProblemShape(5000, 6, 1.0, Loss("poisson"))
    settings = replace(plan(shape, "dp-whitened-gd", BUDGET, **options).settings, ground=0.2)
    weights = np.minimum(np.arange(1, 26), 7.0)
    left = np.average((1.0 - 0.8 * 0.2) ** np.arange(25), weights=weights)
    # The last step is one over the curvature: from everywhere it leads to the minimum.
    assert settings.whole == pytest.approx(5.0)
    assert _whitened_descent.way_gone(settings) == pytest.approx(1.0)
    assert _whitened_descent.way_gone(settings, 0.0) == pytest.approx(1.0 - left)
    assert _whitened_descent.way_gone(settings, 2.0) == pytest.approx(1.0 - (1.0 - 0.4) * left)
    # But it is no longer than a part of all steps, wherever a loss is taken for flat.
    slow, flat = replace(settings, iterations=2), replace(settings, ground=0.0)
    assert slow.whole == pytest.approx(0.48) and _whitened_descent.way_gone(slow) < 0.2
    assert flat.whole == pytest.approx(6.0) and _whitened_descent.way_gone(flat) == 0.0


@pytest.mark.parametrize("momentum", [0.0, 0.6])
@pytest.mark.parametrize("curved", [0.0, 0.3, 1.0])
def test_weight_noise_with_a_log_link(momentum, curved):
    """That of the step which leads from all points along the mean of their gradients."""
    options = {"momentum": momentum, "iterations": 12, "average": 0.5, "step": 0.7}
    shape = ProblemShape(5000, 6, 1.0, Loss("poisson"))
    settings = replace(plan(shape, "dp-whitened-gd", BUDGET, **options).settings, ground=0.4)
    weights = np.minimum(np.arange(1, 13), 7.0)
    made = []
    for noisy in range(12):
        v = last = 0.0
        ends = []
        for step in range(12):
            z = v + momentum * (v - last)
            gradient = 0.4 * curved * z + (step == noisy)
            v, last = z - 0.7 * (gradient + settings.shrinkage * z), v
            ends.append(z - settings.whole * gradient)
        made.append(np.average(ends, weights=weights))
    found = _whitened_descent.weight_noise(settings, shape, 1.0, np.array([curved]))
    noise = settings.gradient.stddev / 5000 / settings.curvature
    assert found[0] == pytest.approx(np.linalg.norm(made) * noise, rel=1e-12)


@pytest.mark.parametrize(
    ("share", "options", "found"),
    [(0.3, {}, 0.75), (0.006, {}, 0.65), (0.001, {}, 0.35), (0.001, {"average": 0.9}, 0.9)],
)
def test_where_a_class_is_rare_early_iterates_are_left_out(share, options, found):
    """As far as nobody said which to average."""
    shape = ProblemShape(100_000, 9, 1.0)
    settings = plan(shape, "dp-whitened-gd", BUDGET, **options).settings
    shares = np.array([1.0 - share, share])
    told = SimpleNamespace(
        transform=np.eye(10),
        anchor=9,
        tells_shares=True,
        probabilities=lambda: shares,
    )
    late = _whitened_descent.averaged_late(settings, shape, told)
    assert late.average == pytest.approx(found, abs=0.05)
    assert (late.average == settings.average) is (found >= 0.75)


@pytest.mark.parametrize(("signal", "low", "high"), [(0.5, 1.0, 1.0), (8.0, 0.5, 0.9)])
def test_iterates_on_their_way_are_left_out(signal, low, high, monkeypatch):
    """A strong signal flattens the loss, so the way is long; with a weak one nothing changes."""
    # Momentum, which long weights get, shortens the way, too.
    monkeypatch.setattr(_whitened_descent, "_far", lambda v, u: 0.0)
    rng = np.random.default_rng(5)
    X = 0.4 * rng.standard_normal((6000, 8)) + rng.standard_normal((6000, 1))
    margins = X @ np.tile([1.0, -1.0], 4)
    y = np.where(rng.logistic(size=6000) < signal * margins / margins.std(), 1.0, -1.0)
    problem = Problem(X, y, data_norm=12.0)
    least = problem.objective(OPTIMIZERS["newton"](Erm(problem, 1e-6), tolerance=1e-6).w)

    def excess():
        runs = [solve(problem, "dp-whitened-gd", BUDGET, random_state=s) for s in range(4)]
        return sum(problem.objective(run.w) - least for run in runs)

    found = excess()
    monkeypatch.setattr(_whitened_descent, "_LATE", 1.0)
    assert low <= found / excess() <= high


@pytest.mark.parametrize("name", ["huber", "pinball"])
def test_iterates_on_their_way_to_numbers_are_left_out(name, monkeypatch):
    """Few clipped steps stop short of weights that explain nearly all."""
    rng = np.random.default_rng(6)
    X = np.clip(rng.standard_normal((3000, 8)) / 4.0, -1.0, 1.0)
    y = np.clip(0.4 * X @ np.tile([1.0, -1.0], 4), -1.0, 1.0)
    problem = Problem(X, y, Loss(name, {"huber": 0.2, "pinball": 0.5}[name]), data_norm=3.0)

    def lost():
        budget = Budget(0.1, 1e-6)
        runs = [solve(problem, "dp-whitened-gd", budget, random_state=s) for s in range(4)]
        return sum(problem.objective(run.w) for run in runs)

    found = lost()
    monkeypatch.setattr(_whitened_descent, "_LATE", 1.0)
    assert found < 0.95 * lost()


@pytest.mark.parametrize(("signal", "low", "high"), [(0.0, 0.0, 0.5), (4.0, 0.9, 1.05)])
def test_weights_that_noise_explains_are_drawn_to_zero(signal, low, high):
    """Without a signal most of the excess loss goes; with one next to nothing changes."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((6000, 12))
    y = np.where(rng.logistic(size=6000) < signal * X[:, 0], 1.0, -1.0)
    problem = Problem(X, y, data_norm=8.0)
    least = problem.objective(OPTIMIZERS["newton"](Erm(problem, 1e-6), tolerance=1e-6).w)
    excess, spent, budget = {}, {}, Budget(0.3, 1e-6)
    for james_stein in (False, True, "auto"):
        runs = [
            solve(problem, "dp-whitened-gd", budget, random_state=s, james_stein=james_stein)
            for s in range(4)
        ]
        excess[james_stein] = sum(problem.objective(run.w) - least for run in runs)
        spent[james_stein] = [event for run in runs for event in run.plan.events]
    assert low <= excess[True] / excess[False] < high
    assert excess["auto"] == excess[True]
    assert spent[True] == spent[False]


@pytest.mark.parametrize(
    ("wide", "steep", "epsilon", "without", "most"),
    [
        (100.0, 0.6, 0.1, {"_evident_spread": lambda *_: 1.0}, 0.5),
        (4.0, 3.3, 0.3, {"_FAR": 1e3}, 0.8),
    ],
)
def test_effects_that_are_evident_are_not_drawn_to_zero(
    wide, steep, epsilon, without, most, monkeypatch
):
    """Across columns far narrower than their bounds, and of strong signals."""
    rng = np.random.default_rng(1)
    rows, budget = rng.standard_normal((15_000, 9)), Budget(epsilon, 1e-8)
    margins = steep * rows @ rng.choice([-1.0, 1.0], 9)
    y = np.where(rng.logistic(size=len(rows)) < margins, 1.0, -1.0)
    columns = tuple(ColumnBlock("number", j, j + 1) for j in range(9))
    problem = Problem(np.clip(rows / wide, -1, 1), y, data_norm=3.0, columns=columns)
    least = np.logaddexp(0.0, -y * margins).sum()
    options = {"neighboring_relation": "add_or_remove_one"}

    def excess():
        runs = [solve(problem, "auto", budget, **options, random_state=s) for s in range(3)]
        return sum(problem.objective(run.w) - least for run in runs)

    found = excess()
    for name, value in without.items():
        monkeypatch.setattr(_whitened_descent, name, value)
    assert 0.0 < found < most * excess()


def test_a_first_gradient_that_stands_out_keeps_the_weights():
    """Of columns that are nearly equal: few steps go all the way, others only add noise."""
    rng = np.random.default_rng(5)
    factor = rng.standard_normal(2000)
    X = np.clip(0.25 * factor[:, None] + 0.05 * rng.standard_normal((2000, 50)), -1.0, 1.0)
    y = np.where(rng.logistic(size=2000) < 2.0 * factor, 1.0, -1.0)
    numbers = tuple(ColumnBlock("number", j, j + 1) for j in range(50))
    problem = Problem(X, y, data_norm=math.sqrt(50.0), columns=numbers)
    runs = [solve(problem, "auto", Budget(0.4, 1e-6), random_state=s) for s in range(4)]
    assert max(problem.objective(run.w) for run in runs) / 2000 < 0.55


@pytest.mark.parametrize(
    ("loss", "clip", "ground"),
    [
        (Loss("logistic"), 0.25, 0.15),
        (Loss("logistic"), 0.4, 0.264),
        (Loss("logistic"), 2.0, 0.5),
        (Loss("huber", 2.0), 0.2, 0.264),  # for a mean: residuals are far shorter
        (Loss("huber", 0.3), 2.0, 0.15),
        (Loss("pinball", 0.9), 2.0, 0.08),
    ],
)
def test_noise_piles_up_where_slopes_do_not_follow_the_weights(loss, clip, ground):
    settings = SimpleNamespace(clip=clip)
    assert _whitened_descent._ground(settings, loss) == pytest.approx(ground)


@pytest.mark.parametrize(
    ("end", "begin", "u", "least", "most"),
    [
        (1.2, 1.2, 5.0, 0.2, 0.3),  # both are hardly longer than noise
        (1.0, 1.2, 5.0, 0.0, 1e-9),  # what one gradient in ten may be
        (1.0, 3.0, 5.0, 0.75, 0.85),  # beyond doubt
        (3.0, 1.0, 5.0, 0.85, 0.9),
        (3.0, 1.0, 500.0, 0.9, 0.95),  # with many rows there is less doubt
        (0.9, 0.9, 5.0, 0.0, 1e-9),
    ],
)
def test_the_end_tells_what_is_noise_and_a_first_gradient_beyond_doubt(end, begin, u, least, most):
    settings = SimpleNamespace(step=1.0, rows_per_weight=u)
    even = np.ones(16)
    kept = _whitened_descent.kept(end * even, begin * even, even, settings)
    assert least <= kept <= most


def test_weights_count_by_the_squares_of_their_coordinates():
    """Those of categories that hardly a row has are noise, whatever the others are."""
    settings = SimpleNamespace(step=1.0, rows_per_weight=5.0)
    v, squares = np.ones(40), np.where(np.arange(40) < 10, 1.0, 0.01)
    v[:10] *= 2.0
    alike = _whitened_descent.kept(v, v, np.ones(40), settings)
    assert alike < 0.65 < 0.85 < _whitened_descent.kept(v, v, squares, settings)
    assert _whitened_descent.kept(v[:0], v[:0], squares[:0], settings) == 1.0


def test_coordinates_of_rare_categories_are_short():
    X = np.eye(4)[np.repeat([0, 1, 2], [2700, 200, 100])]
    y = np.where(np.arange(3000) % 2, 1.0, -1.0)
    problem = Problem(X, y, data_norm=1.0, columns=(ColumnBlock("one-hot", 0, 4),))
    squares = np.array([
        learned(problem, Budget(1.0, 1e-6), seed, correlation_share=0.0).squares()
        for seed in range(40)
    ])  # fmt: skip
    assert np.median(squares[:, 3]) < 0.05 < squares[:, 2].min() and squares[:, 0].min() > 0.99


def test_without_signal_few_rows_a_weight_end_near_the_constant():
    """Where full steps begin noise makes the longest weights."""
    rng = np.random.default_rng(10)
    X = np.clip(rng.standard_normal((3000, 15)) / 4.0, -1.0, 1.0)
    y = np.where(rng.random(3000) < 0.5, 1.0, -1.0)
    numbers = tuple(ColumnBlock("number", j, j + 1) for j in range(15))
    problem = Problem(X, y, data_norm=math.sqrt(15.0), columns=numbers)
    options = {"neighboring_relation": "add_or_remove_one"}
    runs = [solve(problem, "auto", Budget(0.1, 1e-6), random_state=s, **options) for s in range(8)]
    assert np.mean([problem.objective(run.w) for run in runs]) / 3000 - math.log(2.0) < 0.025


# Losses with corners, their quantile, and default width.
CORNERS = [("huberized-hinge", None, 0.5), ("pinball", 0.5, 0.1)]


def test_steps_follow_how_far_one_goes():
    """The hinge with its corner rounded moves a margin by 1 a step, the logistic loss by 4."""
    shapes = (
        ProblemShape(2000, 9, 1.0, loss)
        for loss in ("logistic", "huber", *(Loss(*corner) for corner in CORNERS))
    )
    steps = {
        shape.loss.name: plan(shape, "dp-whitened-gd", BUDGET, consistent=False).settings.iterations
        for shape in shapes
    }
    assert steps["logistic"] == steps["huber"] == 10 and steps["pinball"] == 32
    assert steps["huberized-hinge"] == 21


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_quantiles_take_no_sudden_steps_where_rows_become_many(quantile):
    """As the other losses do, for which more of them are worth their time."""
    budget, loss = Budget(1.0, 1e-6), Loss("pinball", quantile)
    below, above = (round(u * 10 / budget_mu(budget, "auto")) for u in (199.0, 201.0))

    def steps(n, loss):
        shape = ProblemShape(n, 9, 1.0, loss)
        found = plan(shape, "dp-whitened-gd", budget, neighboring_relation="add_or_remove_one")
        return found.settings.iterations

    assert steps(below, loss) <= steps(above, loss) <= steps(below, loss) + 2
    assert steps(above, Loss("huber", 0.2)) > 1.4 * steps(below, Loss("huber", 0.2))
    assert steps(10 * above, loss) > steps(above, loss)


@pytest.mark.parametrize(("persons", "epsilon"), [(None, 8.0), (2_000, 64.0)])
def test_steps_are_no_longer_than_secants_allow(persons, epsilon):
    """All products of skewed numbers: where long rows are cut, coordinates are far from white."""
    rng = np.random.default_rng(0)
    a, b, c = np.minimum(rng.exponential(0.12, (3, 8_000)), 1.0)
    squares = [a * a, a * b, a * c, b * b, b * c, c * c]
    cubes = [a * a * a, a * a * b, a * a * c, a * b * b, a * b * c, b * b * c, c * c * c]
    X = np.column_stack([a, b, c, *squares, *cubes])
    signal = a - 2.0 * b + c + 2.0 * a * b
    y = np.clip(signal + signal.std() * rng.standard_normal(8_000) / 2.0, -1.0, 1.0)
    rows = {"groups": np.repeat(np.arange(persons), 4), "max_rows_per_group": 4} if persons else {}
    problem = Problem(X, y, Loss("huber", 1.0), data_norm=4.0, intercept=1.0, **rows)
    Z, budget = np.column_stack([X, np.ones(len(y))]), Budget(epsilon, 1e-6)
    fits = [solve(problem, "dp-whitened-gd", budget, random_state=k) for k in range(3)]
    lost = [np.mean(np.square(y - Z @ fit.w)) / np.var(y) for fit in fits]
    assert np.mean(lost) < 0.22  # least squares leave 0.207


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_noise_that_a_step_follows_is_no_curvature(momentum):
    """A step along the noise in a gradient makes the next one look as if the loss were curved."""
    rng, step = np.random.default_rng(0), 0.3
    secants = []
    for curvature in (0.0, 5.0):
        told, z, before, followed = (
            _whitened_descent.Secants(2_000),
            np.zeros(2_000),
            np.zeros(2_000),
            0.0,
        )
        z[0] = 1e3 * curvature
        for _ in range(12):
            point = z + momentum * (z - before)
            gradient = curvature * point + rng.standard_normal(2_000)
            told.add(point, gradient, 1.0, followed)
            z, before, followed = point - step * gradient, z, (1.0 + momentum) * step
        secants.append(told.most)
    assert secants[0] < 0.2  # it was 2 and more
    assert secants[1] == pytest.approx(5.0, rel=0.05)


def test_noise_that_a_step_follows_is_counted_in_the_classes_that_it_is_in():
    """Entries of several classes add up to 0: of three, two have noise of their own."""
    rng, told, z, followed = (
        np.random.default_rng(0),
        _whitened_descent.Secants(2_000),
        np.zeros((2_000, 3)),
        0.0,
    )
    for _ in range(6):
        gradient = z + rng.standard_normal((2_000, 3))
        gradient -= gradient.mean(axis=1, keepdims=True)
        told.add(z, gradient, 1.0, followed)
        z, followed = z - 0.3 * gradient, 0.3
    assert 0.5 < told.most < 1.5  # the curvature is 1


def test_many_columns_of_few_rows_are_learned_from():
    """Where steps are short and noise long, steps once got ever shorter: nothing was learned."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000, 200))
    margins = X @ rng.standard_normal(200) * 2.0 / math.sqrt(200.0)
    y = np.where(rng.logistic(size=10_000) < margins, 1.0, -1.0)
    problem = Problem(X, y, "logistic", data_norm=21.0)
    fit = solve(problem, "dp-whitened-gd", Budget(0.4, 1e-8), random_state=0)
    assert problem.objective(fit.w) / 10_000 < 0.64  # a constant has 0.693


def plan_of(n, loss, **options):
    return plan(ProblemShape(n, 9, 1.0, loss), "dp-whitened-gd", BUDGET, **options).settings


@pytest.mark.parametrize(("name", "parameter", "width"), CORNERS)
def test_corners_of_default_width_get_narrower_the_more_rows_there_are(name, parameter, width):
    loss = Loss(name, parameter)
    few, some, many = (plan_of(n, loss) for n in (100, 6000, 10**6))
    assert few.narrowing == 1.0 and few.width == width and few.average == 0.75
    assert 0.01 < some.width < 0.5 * width and some.width == width * some.narrowing
    assert many.width == pytest.approx(0.01) and few.average > some.average > many.average
    assert many.average == pytest.approx(0.75 - 0.5 * (width - 0.01))
    np.testing.assert_allclose(many.corners[[0, -1]], [1.0, 0.01 / width])
    chosen = Loss(name, parameter, width)
    assert plan_of(10**6, chosen).narrowing == 1.0
    assert plan_of(10**6, chosen, narrowing=0.4).width == 0.4 * width
    shape = ProblemShape(10**6, 9, 1.0, loss)
    assert "width = 0.01" in str(plan(shape, "dp-whitened-gd", BUDGET))


def test_around_outer_quantiles_corners_get_less_narrow():
    widths = [plan_of(6000, Loss("pinball", q)).width for q in (0.5, 0.9, 0.99)]
    assert widths[1] == pytest.approx(widths[0] / 0.36) and widths[2] == 0.1


@pytest.mark.parametrize(
    ("loss", "narrowing"), [("logistic", 0.5), ("huber", 0.5), ("pinball", 2.0)]
)
def test_narrowing_that_is_refused(loss, narrowing):
    with pytest.raises(ValueError, match="narrowing must be"):
        plan_of(2000, loss, narrowing=narrowing)


@pytest.mark.parametrize("size", [1, 4])
def test_without_signal_a_hinge_ends_near_the_constant(size):
    """Whose loss a wide corner misses by a part of its width; of rows, and of persons."""
    groups = None if size == 1 else np.arange(4000) // size
    rng = np.random.default_rng(5)
    X = rng.uniform(-1.0, 1.0, (4000, 5))
    y = np.where(rng.random(4000) < 0.3, 1.0, -1.0)
    excess = {}
    for loss in (Loss("huberized-hinge"), Loss("huberized-hinge", width=0.5)):
        problem = Problem(X, y, loss, data_norm=2.3, groups=groups)
        w = solve(problem, "dp-whitened-gd", Budget(3.0, 1e-6), random_state=0).w
        short = np.maximum(0.0, 1.0 - y * (X @ w[:-1] + w[-1]))
        excess[loss.default_width] = short.mean() - 2.0 * np.mean(y > 0)
    assert excess[True] < 0.008 < 0.015 < excess[False]


def test_without_signal_a_hinge_of_a_rare_class_ends_near_the_constant():
    """Noise piles up where most rows lie beyond the corner: 1.035 times the constant's loss."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (10_000, 8))
    y = np.where(rng.random(10_000) < 0.05, 1.0, -1.0)
    problem, found = Problem(X, y, Loss("huberized-hinge"), data_norm=3.0), []
    for seed in range(3):
        w = solve(problem, "auto", Budget(0.3, 1e-6), random_state=seed).w
        found.append(np.maximum(0.0, 1.0 - y * (X @ w[:-1] + w[-1])).mean())
    assert np.mean(found) < 1.01 * 2.0 * np.mean(y > 0)


def test_a_narrow_corner_ends_near_the_quantile():
    """Which a wide one misses where residuals are skewed and short, in units of a learned range."""
    rng = np.random.default_rng(6)
    X = rng.uniform(-1.0, 1.0, (4000, 5))
    y = 0.02 * (X[:, 0] + 0.1 * rng.exponential(size=4000)) - 0.5
    apart = {}
    for loss in (Loss("pinball", 0.2), Loss("pinball", 0.2, 0.1)):
        problem = Problem(X, y, loss, data_norm=2.3)
        w = solve(problem, "dp-whitened-gd", Budget(6.0, 1e-6), random_state=0).w
        apart[loss.default_width] = abs(np.mean(y < X @ w[:-1] + w[-1]) - 0.2)
    assert apart[True] < 0.1 < apart[False]


@pytest.mark.parametrize(
    ("n", "most", "alike", "steps"),
    [(200, None, False, 10), (5000, None, True, 16), (5000, 1, True, 16), (5000, 5, False, 10)],
)
def test_from_some_rows_a_weight_on_labels_do_not_say_what_counts(n, most, alike, steps):
    unit = "row" if most is None else "group"
    shape = ProblemShape(n, 9, 1.0, unit=unit, max_rows_per_group=most)
    settings = plan(shape, "dp-whitened-gd", BUDGET).settings
    clamped = plan(shape, "dp-whitened-gd", BUDGET, consistent=False).settings
    assert settings.consistent is alike
    # Gradients of groups are asked with a correlation instead.
    assert getattr(settings.gradient.query, "consistent", False) is alike
    assert settings.iterations >= steps and not clamped.consistent
    assert (settings.clip < clamped.clip) is alike
    huber = plan(ProblemShape(n, 9, 1.0, "huber"), "dp-whitened-gd", BUDGET)
    assert not huber.settings.consistent


@pytest.mark.parametrize("groups", [{}, {"unit": "group", "max_rows_per_group": 5}])
def test_labels_are_of_the_logistic_loss(groups):
    with pytest.raises(ValueError, match="consistent must be False for the huber loss"):
        plan(ProblemShape(5000, 9, 1.0, "huber", **groups), "dp-whitened-gd", BUDGET,
             consistent=True)  # fmt: skip


def test_the_fewer_rows_the_more_counts_of_classes_weigh():
    weights = [
        plan(ProblemShape(n, 9, 1.0), "dp-whitened-gd", Budget(0.5, 1e-6))
        .settings.learning.moments[0]
        .query.relative_weight
        for n in (10, 500, 20_000)
    ]
    assert weights[0] == 3.0 and 0.3 < weights[1] < 3.0 and weights[2] == 0.3


def test_counts_of_classes_take_from_the_gradients_and_not_from_the_columns():
    for n, capped in ((60, True), (200, False), (500, False)):
        with_counts, without = (
            plan(ProblemShape(n, 9, 1.0), "dp-whitened-gd", BUDGET, james_stein=stein).settings
            for stein in ("auto", False)
        )
        query = with_counts.learning.moments[0].query
        price = (1.0 + query.relative_weight**2) / (1.0 + 0.3**2)
        assert without.learning_share == 0.2 and price > 1.0
        assert with_counts.learning_share == pytest.approx(min(0.8, 0.2 * price))
        assert (with_counts.learning_share == 0.8) == capped


def test_james_stein_is_true_or_false():
    with pytest.raises(TypeError, match="james_stein must be True or False; got 1"):
        plan(ProblemShape(100, 9, 1.0), "dp-whitened-gd", BUDGET, james_stein=1)


@pytest.mark.parametrize("weighted", [False, True])
def test_few_rows_give_the_constant(weighted):
    """Where nothing can be learned, the model predicts the share of positives for every row."""
    rng = np.random.default_rng(5)
    X, rare = rng.standard_normal((3000, 40)), rng.random(3000) < 0.1
    y, weight = np.where(rare, 1.0, -1.0), 0.4 if weighted else 1.0
    rows = {"sample_weight": np.full(3000, weight), "max_weight": 1.0} if weighted else {}
    problem = Problem(X, y, data_norm=10.0, **rows)
    for seed in range(4):
        w = solve(problem, "dp-whitened-gd", Budget(0.1, 1e-6), random_state=seed).w
        probabilities = expit(X @ w[:-1] + w[-1])
        assert 0.02 < probabilities.mean() < 0.25
        assert probabilities.std() < 0.02


def test_one_column_has_no_correlations():
    settled = plan(ProblemShape(1000, 1, data_norm=1.0), "dp-whitened-gd", BUDGET, range_rounds=0)
    assert {event.where for event in settled.events} == {"column moments", "gradient"}
    assert SOLVERS["dp-whitened-gd"] is dp_whitened_gd.SOLVER


def test_columns_that_are_nearly_equal_keep_their_difference():
    """What tells the classes is a fiftieth of what the two columns have in common."""
    rng = np.random.default_rng(6)
    base, apart = rng.uniform(-0.9, 0.9, 20_000), 0.01 * rng.standard_normal(20_000)
    X = np.column_stack([base, base + apart, rng.standard_normal((20_000, 2)) / 4.0])
    y = np.where(rng.logistic(size=20_000) < 200.0 * apart, 1.0, -1.0)
    problem = Problem(np.clip(X, -1.0, 1.0), y, data_norm=2.0)
    for seed in range(3):
        w = solve(problem, "dp-whitened-gd", Budget(2.0, 1e-8), random_state=seed).w
        assert problem.objective(w) / 20_000 < 0.48  # 0.458 without privacy, 0.693 for a constant


def test_a_strong_signal_of_a_rare_class_is_followed_to_its_minimum():
    """Steps along the weights and along the intercept alone go back and forth, and lose .02."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((20_000, 10)) / 4.0
    margins = 8.0 * (4.0 * X).sum(axis=1) / math.sqrt(10.0)
    noisy = margins + rng.logistic(size=len(X))
    y = np.where(noisy > np.quantile(noisy, 0.8), 1.0, -1.0)
    problem = Problem(
        np.clip(X, -1.0, 1.0), y, "logistic", data_norm=math.sqrt(10.0), intercept=1.0
    )
    least = problem.objective(OPTIMIZERS["newton"](Erm(problem, 1e-9), tolerance=1e-6).w)
    budget = Budget(4.0, 1e-8)
    found = [
        problem.objective(solve(problem, "dp-whitened-gd", budget, random_state=k).w)
        for k in range(2)
    ]
    assert np.mean(found) - least < 0.003 * len(y)
