"""What predictions are kept in: declared bounds, or what a fit that learns a range believes."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from dpfast import (
    Budget,
    CoefficientPrior,
    HuberRegressor,
    LinearRegression,
    Loss,
    PoissonRegressor,
    Problem,
    QuantileRegressor,
    TableModel,
    solve,
)
from dpfast.blocks import from_npy
from dpfast.solvers._target_range import _FAR, _NEAR, Place

REGRESSORS = [HuberRegressor, LinearRegression, QuantileRegressor]
WIDE = (-3_000.0, 5_000.0)


def table(rows=4_000, seed=0):
    """Targets around 100 of deviation 3, in rows without a bound."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 3))
    return X, 100.0 + X @ [2.0, -1.0, 1.0] + 2.0 * rng.standard_normal(rows)


def fitted(cls, X, y, **settings):
    settings = {"data_norm": 1e7, "target_bounds": WIDE, "random_state": 0, **settings}
    return cls(**settings).fit(X, y)


def test_a_place_keeps_what_is_near_it_or_few_deviations_from_other_margins():
    place = Place(0.2, 0.01, 0.2)
    assert place.kept(0.2, 0.0) == pytest.approx((0.2 - _NEAR * 0.01, 0.2 + _NEAR * 0.01))
    assert place.kept(0.2, 0.01) == pytest.approx((0.2 - _FAR * 0.01, 0.2 + _FAR * 0.01))
    # The mean of skewed targets may be beyond their range.
    assert place.kept(0.5, 0.0) == pytest.approx((0.2 - _NEAR * 0.01, 0.5 + _NEAR * 0.01))


@pytest.mark.parametrize(
    ("cls", "solver"), [*((cls, "auto") for cls in REGRESSORS), (LinearRegression, "dp-adassp")]
)
def test_predictions_stay_around_the_range_that_was_learned(cls, solver):
    X, y = table()
    model = fitted(cls, X, y, data_norm=5.0, epsilon=5.0, solver=solver)
    low, high = model.prediction_range_
    # All targets and more: nothing that is right is cut, and no declared bound matters.
    assert WIDE[0] < low < y.min() < y.max() < high < WIDE[1]
    assert high - low < 0.1 * (WIDE[1] - WIDE[0])
    rows = X[np.linalg.norm(X, axis=1) < 5.0]
    margins = rows @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(rows), margins, rtol=1e-12)
    model._row_bound, model.column_ranges_ = np.inf, None
    direction = 1e6 * model.coef_ / np.linalg.norm(model.coef_)
    np.testing.assert_array_equal(model.predict([direction, -direction]), [high, low])


def test_means_far_beyond_a_range_of_zeros_are_not_cut():
    X, _ = table(20_000)
    rng = np.random.default_rng(1)
    y = np.where(rng.random(20_000) < 0.9, 0.0, 2_000.0 * rng.exponential(size=20_000))
    bounds = (0.0, 1e5)
    model = fitted(
        LinearRegression, X, y, data_norm=5.0, target_bounds=bounds, epsilon=0.05, random_state=1
    )
    low, high = model.prediction_range_
    rows = X[np.linalg.norm(X, axis=1) < 5.0]
    margins = rows @ model.coef_ + model.intercept_
    assert low < margins.min() < margins.max() < high < 1e5
    # A sum of residuals told the mean; half the range that the zeros left is a hundredth of it.
    assert 150.0 < model.predict(rows).mean() < 300.0
    assert high - margins.max() < 0.02 * high


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": "dp-adassp", "delta": 0.0},
        {"solver": "dp-adassp", "solver_options": {"target_rounds": 0}},
        {"solver": "dp-whitened-gd", "solver_options": {"target_rounds": 0}},
        {"delta": 0.0},
        {"inference": True, "epsilon": 8.0},
    ],
    ids=str,
)
def test_without_a_range_they_stay_in_the_declared_bounds(settings):
    X, y = table()
    model = fitted(LinearRegression, X, y, **{"data_norm": 5.0, "epsilon": 2.0, **settings})
    assert model.prediction_range_ == WIDE


def test_a_range_that_is_not_narrowed_changes_nothing():
    X, y = table(60)
    bounds = (90.0, 110.0)
    model = fitted(LinearRegression, X, y, data_norm=5.0, target_bounds=bounds, epsilon=0.5)
    assert model.prediction_range_ == bounds


def test_a_range_beyond_the_declared_bounds_is_cut_to_them():
    X, y = table()
    bounds = (99.0, 200.0)
    model = fitted(LinearRegression, X, y, data_norm=5.0, target_bounds=bounds, epsilon=5.0)
    assert model.prediction_range_[0] == 99.0
    assert model.prediction_range_[1] < 200.0


@pytest.mark.parametrize("highest", [40.0, 1e5])
def test_means_with_a_log_link_stay_near_other_margins_and_the_targets(highest):
    X, _ = table()
    y = np.random.default_rng(1).poisson(np.exp(0.5 * X[:, 0]))
    model = fitted(PoissonRegressor, X, y, data_norm=5.0, target_bounds=(0.0, highest), epsilon=5.0)
    low, high = model.prediction_range_
    rows = X[np.linalg.norm(X, axis=1) < 5.0]
    margins = rows @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(rows), np.exp(margins), rtol=1e-12)
    assert 0.0 < low < np.exp(margins.min())
    assert np.exp(margins.max()) < high <= min(highest, 2_000.0)
    model._row_bound, model.column_ranges_ = np.inf, None
    far = 1e6 * model.coef_
    np.testing.assert_array_equal(model.predict([far, -far, 1e-3 * far]), [high, low, high])


def test_means_with_a_log_link_are_above_zero_without_a_range():
    X, _ = table()
    y = np.random.default_rng(1).poisson(np.exp(0.5 * X[:, 0]))
    model = fitted(
        PoissonRegressor,
        X,
        y,
        data_norm=5.0,
        target_bounds=(0.0, 40.0),
        solver="output-perturbation",
    )
    low, high = model.prediction_range_
    assert 0.0 < low < 1e-100
    assert high == 40.0


@pytest.mark.filterwarnings("ignore::dpfast.errors.RepeatedFitWarning")
def test_codes_for_missing_values_that_counts_hide_do_little_harm():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((3_000, 6)) / 4.0
    X[:, 0] = rng.integers(0, 5, 3_000) / 999.0
    y = 0.6 * X[:, 1:].sum(axis=1) + 125.0 * X[:, 0] + rng.standard_normal(3_000)
    X[rng.random(3_000) < 0.02, 0] = 1.0
    kept, margins = [], []
    for seed in range(6):
        model = fitted(
            LinearRegression,
            X,
            y,
            data_norm=3.0,
            target_bounds=(-200.0, 200.0),
            random_state=seed,
        )
        kept.append(np.mean((y - model.predict(X)) ** 2) / np.var(y))
        margins.append(np.mean((y - X @ model.coef_ - model.intercept_) ** 2) / np.var(y))
    assert max(margins) > 50.0
    assert max(kept) < 4.0


def test_rows_in_blocks_checkpoints_pickles_and_clones(tmp_path):
    X, y = table()
    here = fitted(LinearRegression, X, y, data_norm=5.0)
    source = from_npy(X, y, block_rows=1_000)
    model = clone(here)
    assert not hasattr(model, "prediction_range_")
    model.fit(source, checkpoint=tmp_path / "c")
    low, high = model.prediction_range_
    assert WIDE[0] < low < high < WIDE[1]
    again = clone(here).fit(source, checkpoint=tmp_path / "c")  # the file is complete
    assert again.prediction_range_ == (low, high)
    model.coef_ = again.coef_ = np.array([1e9, 0.0, 0.0])
    for other in (again, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(source), np.where(X[:, 0] > 0.0, high, low))


@pytest.mark.parametrize("deviation", [0.1, 1e3])
def test_fits_that_begin_with_a_prior_keep_theirs_too(deviation):
    X, y = table()
    known = CoefficientPrior([2.0, -1.0, 1.0], 100.0, deviation**2 * np.eye(4), 50.0)
    model = fitted(LinearRegression, X, y, data_norm=5.0, prior=known)
    low, high = model.prediction_range_
    assert WIDE[0] < low < y.min() < y.max() < high < WIDE[1]


def test_the_result_of_a_problem_has_it_in_its_units():
    X, y = table()
    problem = Problem(X, y / 4_000.0, Loss("huber", 1.0), data_norm=5.0, intercept=1.0)
    found = solve(problem, "auto", Budget(5.0, 1e-6), random_state=0)
    low, high = found.prediction_range
    assert -1.0 < low < y.min() / 4_000.0 < y.max() / 4_000.0 < high < 1.0
    labels = Problem(X, np.sign(X[:, 0]), "logistic", data_norm=5.0)
    assert solve(labels, "auto", Budget(5.0, 1e-6), random_state=0).prediction_range is None


def test_model_files_have_it(tmp_path):
    X, y = table()
    bounds = {"a": [-4, 4], "b": [-4, 4], "c": [-4, 4], "y": {"range": [*WIDE]}, "target": "y"}
    columns = dict(zip("abcy", [*X.T, y], strict=True))
    model = TableModel(bounds, LinearRegression(), random_state=0).fit(columns)
    model.save(tmp_path / "m.json")
    again = TableModel.load(tmp_path / "m.json")
    low, high = model.estimator_.prediction_range_
    assert WIDE[0] < low < high < WIDE[1]
    rows = {"a": [4.0, -4.0], "b": [0.0, 0.0], "c": [0.0, 0.0]}
    for one in (model, again):
        one.estimator_.coef_ = np.array([1e9, 0.0, 0.0])
        np.testing.assert_array_equal(one.predict(rows), [high, low])
