"""Least squares from noisy sums: what is summed, how far neighbors are apart, what comes out."""

import math

import numpy as np
import pytest
import scipy.sparse

from dpfast import Budget, Problem, ProblemShape, plan, solve
from dpfast.column_blocks import ColumnBlock
from dpfast.queries.products import _sums


def table(n=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X *= 1.0 / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    return X, np.clip(X @ np.arange(1.0, d + 1.0) / 3.0 + 0.1 * rng.standard_normal(n), -1, 1)


def naive_sums(X, y, weight, intercept, factor):
    """The sums as the module defines them, row by row."""
    rows = np.hstack([X, np.full((len(X), 1), intercept)]) if intercept else X
    d = rows.shape[1]
    total = np.zeros(d * (d + 1) // 2 + d)
    for x, t, c in zip(rows, y, weight, strict=True):
        entries = [
            c * x[i] * x[j] * (math.sqrt(0.5) if i == j else 1.0)
            for i in range(d)
            for j in range(i, d)
        ]
        total += np.array([*entries, *(c * factor * t * x)])
    return total


@pytest.mark.parametrize("intercept", [0.0, 0.5])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_sums_are_those_of_the_definition(intercept, sparse):
    X, y = table()
    y = 1.5 * y
    weight = np.linspace(0.1, 2.0, len(y))
    problem = Problem(
        scipy.sparse.csr_array(X) if sparse else X, y, "squared", data_norm=1.0,
        intercept=intercept, sample_weight=weight, max_weight=2.0,
    )  # fmt: skip
    assert np.any(np.abs(y) > 1.0)
    for center, half, bound in ((0.0, 1.0, 1.0), (0.2, 0.5, 1.0), (-0.1, 0.3, 2.0)):
        found = _sums(problem, center, half, bound, 0.7)
        scaled = bound * np.clip((y - center) / half, -1, 1)
        expected = naive_sums(X, scaled, weight, intercept, 0.7)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    # The caller's problem still has its own targets.
    np.testing.assert_array_equal(problem.target, y)


def test_noise_is_as_planned():
    """The ridge is public here and large, so that the weights show the noise of the sums."""
    X, y = table(200)
    problem = Problem(X, y, "squared", data_norm=1.0, intercept=0.0)
    options = {"alpha": 1e6, "target_rounds": 0}
    settled = plan(problem, "dp-adassp", Budget(1.0, 1e-6), **options)
    mechanism, factor = (settled.parameters[k] for k in ("mechanism", "target_factor"))
    w = np.array(
        [
            solve(problem, "dp-adassp", Budget(1.0, 1e-6), random_state=seed, **options).w
            for seed in range(400)
        ]
    )
    noise = (w * 1e6 * 200 - X.T @ y) * factor / mechanism.stddev
    assert mechanism.stddev == pytest.approx(1.5 * 4.2247, rel=1e-3)
    # 1200 draws: a false alarm is beyond 5 standard errors of 2%.
    assert np.std(noise) == pytest.approx(1.0, abs=0.1)
    assert np.max(np.abs(noise.mean(axis=0))) < 0.3


@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(1.0)], ids=str)
def test_few_rows_give_small_weights(budget):
    """The adaptive ridge keeps noise from being inverted, whatever the rows are."""
    rng = np.random.default_rng(3)
    problem = Problem(rng.standard_normal((5, 4)), rng.choice([-1.0, 1.0], 5), "squared",
                      data_norm=1.0)  # fmt: skip
    settled = plan(problem, "dp-adassp", budget)
    for seed in range(20):
        w = solve(problem, "dp-adassp", budget, random_state=seed).w
        noise = settled.expected["noise_stddev_per_row"] * 5
        largest = 8.0 * math.sqrt(5) * noise / settled.parameters["target_factor"] + 10.0
        assert np.linalg.norm(w) <= largest / settled.parameters["least_eigenvalue"]


def test_more_rows_reach_the_least_squares():
    X, y = table(40_000)
    problem = Problem(X, y, "squared", data_norm=1.0, intercept=0.0)
    exact = np.linalg.lstsq(X, y, rcond=None)[0]
    for budget, tolerance in ((Budget(1.0, 1e-6), 0.02), (Budget(4.0), 0.02)):
        w = solve(problem, "auto", budget, random_state=0).w
        np.testing.assert_allclose(w, exact, atol=tolerance)


def test_auto_takes_it_for_squares_alone():
    shape = ProblemShape(n_samples=100, n_features=2, data_norm=1.0, loss="squared")
    assert plan(shape, "auto", Budget(1.0)).solver == "dp-adassp"
    assert plan(shape, "auto", Budget(1.0)).parameters["noise"] == "l2-laplace"
    assert plan(shape, "auto", Budget(1.0, 1e-6)).parameters["noise"] == "gaussian"
    other = ProblemShape(n_samples=100, n_features=2, data_norm=1.0, loss="huber")
    assert plan(other, "auto", Budget(1.0)).solver != "dp-adassp"


@pytest.mark.parametrize("accountant", ["auto", "gdp", "zcdp", "basic", "rdp", "pure", "optimal"])
def test_every_accountant_gets_what_it_prices(accountant):
    X, y = table()
    problem = Problem(X, y, "squared", data_norm=1.0)
    privacy = solve(problem, "dp-adassp", Budget(1.0, 1e-6), accountant=accountant).privacy
    assert 0.99 < privacy.epsilon <= 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "logistic"}, "loss must be 'squared'"),
        ({"loss": "huber"}, "loss must be 'squared'"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"target_bound": 0.0}, "target_bound must be"),
        ({"target_bound": math.inf}, "target_bound must be"),
        ({"floor": 0.0}, "floor must be"),
        ({"target_rounds": -1}, "target_rounds must be"),
        ({"n_features": 10_001}, "X must have at most 10000 columns"),
    ],
)
def test_bad_arguments(settings, message):
    public = {"n_samples": 100, "n_features": 2, "data_norm": 1.0, "loss": "squared"}
    public |= {name: settings[name] for name in public if name in settings}
    options = {name: settings[name] for name in settings if name not in public}
    with pytest.raises(ValueError, match=message):
        plan(ProblemShape(**public), "dp-adassp", Budget(1.0, 1e-6), **options)


def test_one_release_has_no_rounds():
    shape = ProblemShape(n_samples=100, n_features=2, data_norm=1.0, loss="squared")
    with pytest.raises(ValueError, match="target_rounds must be 0 for pure privacy"):
        plan(shape, "dp-adassp", Budget(1.0), target_rounds=1)
    assert len(plan(shape, "dp-adassp", Budget(1.0)).events) == 1


@pytest.mark.parametrize("intercept", [1.0, 0.5])
@pytest.mark.parametrize("alpha", [None, 0.1])
def test_a_range_that_is_learned_changes_no_minimizer(intercept, alpha, noiseless):
    """The center that the constant takes up is part of what the ridge draws to zero."""
    X, y = table(3000)
    problem = Problem(X, 0.3 + 0.01 * y, "squared", data_norm=1.0, intercept=intercept)
    options = {"alpha": alpha, "floor": 1e-9}
    fits = [
        solve(problem, "dp-adassp", Budget(50.0, 1e-6), target_rounds=rounds, **options)
        for rounds in (0, 4)
    ]
    assert fits[1].plan.settings.target_range is not None
    np.testing.assert_allclose(fits[1].w, fits[0].w, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("budget", [Budget(0.5), Budget(0.5, 1e-6)])
def test_declared_categories_without_rows_stay_within_the_others(budget):
    rng, n = np.random.default_rng(0), 1000
    chosen = rng.integers(0, 6, n)
    X = np.eye(12)[chosen]
    y = np.where(chosen == 0, 0.9, 0.1)
    declared = (ColumnBlock("one-hot", 0, 12),)

    def above(columns):
        problem = Problem(X, y, "squared", data_norm=1.0, columns=columns)
        sizes = [np.abs(solve(problem, "dp-adassp", budget, random_state=k).w) for k in range(20)]
        return sum(w[6:12].max() > w[:6].max() for w in sizes)

    assert above(()) > 0 and above(declared) == 0
