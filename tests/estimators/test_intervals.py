"""Confidence intervals that cover the privacy noise: coverage, units, and what is refused."""

import math
import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import dpfast
from dpfast import Budget, HuberRegressor, LinearSVC, LogisticRegression
from dpfast.estimators import CoefficientInterval
from dpfast.estimators._intervals import WeightNoise
from dpfast.random import SecureGenerator


def fitted(data, cls=LogisticRegression, **settings):
    declared = {"solver": "output-perturbation", "alpha": 0.1, "data_norm": 2.0, "strict": True}
    if cls is HuberRegressor:
        declared["target_bounds"] = (-4.0, 10.0)
    else:
        declared["classes"] = np.unique(data[1])
    X, y, *groups = data
    return cls(**{**declared, **settings}).fit(X, y, **({"groups": groups[0]} if groups else {}))


def without_noise(monkeypatch, *args, **settings):
    """The fit whose weights have none; a range of targets that is learned has the same."""
    with monkeypatch.context() as patch:
        patch.setattr(SecureGenerator, "discrete_gaussian", lambda self, s, n: np.zeros(n, int))
        patch.setattr(SecureGenerator, "l2_laplace", lambda self, d, scale: np.zeros(d))
        patch.setattr(SecureGenerator, "discrete_l2_laplace", lambda self, s, d: np.zeros(d, int))
        return fitted(*args, **settings)


def planned(solver, noise, **options):
    budget = Budget(1.0, 1e-6) if noise == "gaussian" else Budget(1.0)
    shape = dpfast.ProblemShape(500, 6, 2.0)
    return dpfast.plan(shape, solver, budget, alpha=0.1, noise=noise, **options)


# Of 1500 vectors, one entry each: the deviation of a share of 0.9 is 0.008.
DRAWS = 1500


def share_covered(half_width, distances):
    return np.mean(np.abs(distances) <= half_width)


@pytest.mark.parametrize("noise", ["gaussian", "l2-laplace"])
def test_output_perturbation_covers_as_often_as_it_says(noise):
    plan = planned("output-perturbation", noise)
    half = WeightNoise.of(plan).half_width(0.9)
    mechanism, rng = plan.settings.mechanism, SecureGenerator(0)
    entries = [mechanism.grid_step * mechanism._noise(rng)[3] for _ in range(DRAWS)]
    assert abs(share_covered(half, entries) - 0.9) < 5 * 0.008
    # The test can fail, on both sides.
    assert share_covered(half * 2 / 3, entries) < 0.9 - 5 * 0.008
    assert share_covered(half * 3 / 2, entries) > 0.9 + 5 * 0.008


@pytest.mark.parametrize("noise", ["gaussian", "l2-laplace"])
def test_objective_perturbation_covers_the_worst_curvature(noise):
    """M b for the matrix M between 0 and 1/ridge that moves one coefficient most, and others."""
    plan = planned("objective-perturbation", noise)
    half, ridge, rng = (
        WeightNoise.of(plan).half_width(0.9),
        plan.events[0].ridge,
        SecureGenerator(0),
    )
    worst, random = [], []
    for i in range(DRAWS):
        b = plan.settings.access.draw(rng)
        sign = math.copysign(1.0, b[3])
        # A reflection that takes b to its norm along the third axis: M = (1 + S) / (2 ridge).
        axis = np.eye(7)[3] * sign
        v = b / np.linalg.norm(b) - axis
        moved = (b + b - 2.0 * v * (v @ b) / max(v @ v, 1e-300)) / (2.0 * ridge)
        assert abs(moved[3]) == pytest.approx((abs(b[3]) + np.linalg.norm(b)) / (2.0 * ridge))
        worst.append(moved[3])
        if i < 100:
            rows = np.random.default_rng(i).normal(size=(5, 7))
            random.append(np.linalg.solve(rows.T @ rows + ridge * np.eye(7), b)[3])
    assert abs(share_covered(half, worst) - 0.9) < 5 * 0.008
    assert share_covered(half * 2 / 3, worst) < 0.9 - 5 * 0.008
    assert share_covered(half, random) > 0.9


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (LogisticRegression, {}),
        (LogisticRegression, {"solver": "objective-perturbation"}),
        (HuberRegressor, {"intercept_scaling": 0.5}),
    ],
    ids=["output", "objective", "regressor"],
)
def test_the_coefficients_without_noise_are_in_the_intervals(
    monkeypatch, classification, cls, settings, delta
):
    settings = {"epsilon": 3.0, "delta": delta, **settings}
    exact = without_noise(monkeypatch, classification, cls, **settings)
    model = fitted(classification, cls, random_state=0, **settings)
    ci = model.noise_interval(0.999)
    assert np.all((ci.low < exact.coef_) & (exact.coef_ < ci.high))
    assert np.all((ci.intercept_low < exact.intercept_) & (exact.intercept_ < ci.intercept_high))
    # In the units of the coefficients: the noise is seen against them.
    if "solver" not in settings:
        assert np.any(np.abs(model.coef_ - exact.coef_) > 0.05 * (ci.high - model.coef_))


@pytest.mark.parametrize("persons", [False, True])
def test_ranges_that_are_learned_are_what_the_noise_is_in_units_of(monkeypatch, persons):
    """Intervals were of the second noise alone, in other units; there were none of persons."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (2000, 3))
    data = X, X[:, 0] + 0.1 * rng.normal(size=2000), *([np.arange(2000) // 2] if persons else [])
    settings = {"solver": "auto", "data_norm": 1.0, "epsilon": 4.0, "delta": 0.0, "random_state": 0}
    settings |= {"target_bounds": (-100.0, 300.0), "alpha": 1.0}
    settings |= {"max_rows_per_group": 2} if persons else {}
    model = fitted(data, HuberRegressor, **settings)
    exact = without_noise(monkeypatch, data, HuberRegressor, **settings)
    for level, held in ((0.999, True), (1e-4, False)):
        ci = model.noise_interval(level)
        inside = (ci.low < exact.coef_) & (exact.coef_ < ci.high)
        assert np.all(inside) if held else not np.any(inside)
    unit = model.noise_interval(0.9)
    known = fitted(data, HuberRegressor, **settings, solver_options={"target_rounds": 0})
    # Half of the declared bounds is 200, of the range some ten.
    widths = [(each.high - each.low)[0] for each in (unit, known.noise_interval(0.9))]
    assert 0.002 < widths[0] / widths[1] < 0.2
    coefficients = model.coef_ - exact.coef_
    assert np.abs(coefficients).max() > 1e-3 * widths[0]


def test_weights_that_were_projected_have_no_interval_in_learned_units(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (40, 3))
    data = X, X[:, 0], np.arange(40)
    settings = {"data_norm": 1.0, "epsilon": 0.1, "delta": 0.0, "max_rows_per_group": 2}
    monkeypatch.setattr(
        SecureGenerator, "discrete_l2_laplace", lambda self, s, d: np.full(d, 2**50)
    )
    model = fitted(data, HuberRegressor, **settings)
    ci = model.noise_interval(0.5)
    assert np.all(np.isfinite(model.coef_)) and np.all(np.isinf(ci.high - ci.low))


def test_three_classes(monkeypatch, classification):
    X, y = classification
    data = X, np.where(X[:, 0] > 0.5, 2.0, y)
    exact = without_noise(monkeypatch, data, epsilon=3.0)
    ci = fitted(data, epsilon=3.0, random_state=0).noise_interval(0.999)
    assert ci.low.shape == ci.high.shape == (3, 6)
    assert ci.intercept_low.shape == (3,)
    assert np.all((ci.low < exact.coef_) & (exact.coef_ < ci.high))
    # Each class has a share of the budget: wider than a fit of two classes.
    two = fitted(classification, epsilon=3.0, random_state=0).noise_interval(0.999)
    assert np.min(ci.high - ci.low) > 1.5 * np.max(two.high - two.low)


def test_weights_on_the_ball_say_only_that(classification):
    model = fitted(classification, epsilon=1e-3, random_state=0)
    ci = model.noise_interval()
    reach = dpfast.ProblemShape(500, 6, 2.0).minimizer_norm(0.1)
    np.testing.assert_allclose([ci.low[0], ci.high[0]], [[-reach] * 6, [reach] * 6])


def test_without_an_intercept_and_by_name(classification):
    model = fitted(classification, LinearSVC, fit_intercept=False)
    ci = pickle.loads(pickle.dumps(model)).noise_interval(0.8)
    assert isinstance(ci, CoefficientInterval)
    assert ci.intercept_low == ci.intercept_high == np.zeros(1)
    np.testing.assert_allclose((ci.low + ci.high) / 2, model.coef_)
    np.testing.assert_array_equal(ci.low, model.noise_interval(0.8).low)
    assert np.all(ci.high < model.noise_interval(0.81).high)
    assert "Privacy noise only" in ci.covers
    assert "0.8" in ci.covers
    assert "Not covered" in str(ci)
    assert str(ci).startswith("[")


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": "auto"},
        {"solver": "dp-gd", "solver_options": {"iterations": 2}},
        {"solver_options": {"mode": "iterate"}},
    ],
    ids=["whitened", "dp-gd", "iterate"],
)
def test_noise_of_unknown_law_is_refused(classification, settings):
    with pytest.raises(ValueError, match=r"solver must be 'output-perturbation' .* Fit again"):
        fitted(classification, **settings).noise_interval()


@pytest.mark.parametrize(
    ("level", "error"), [(0.0, ValueError), (1.0, ValueError), (95, ValueError), ("0.9", TypeError)]
)
def test_bad_level(classification, level, error):
    with pytest.raises(error, match="confidence_level must be a real number in"):
        fitted(classification).noise_interval(level)


def test_unfitted():
    with pytest.raises(NotFittedError):
        LogisticRegression().noise_interval()
