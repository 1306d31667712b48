"""The regressors: their losses, bounded targets, and what they refuse."""

import warnings

import numpy as np
import pytest
import scipy.optimize

from dpfast import HuberRegressor, LinearRegression, PrivacyLeakWarning, QuantileRegressor

REGRESSORS = [HuberRegressor, LinearRegression, QuantileRegressor]
BOUNDS = (-10.0, 30.0)


@pytest.fixture(scope="module")
def regression():
    """Targets around 10 of standard deviation 5, mostly explained; rows of norm at most 2."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((3000, 3))
    X *= 2.0 / np.maximum(2.0, np.linalg.norm(X, axis=1))[:, None]
    return X, 10.0 + X @ [4.0, -3.0, 1.0] + rng.standard_normal(3000)


def fitted(data, cls, **settings):
    settings = {"data_norm": 2.0, "target_bounds": BOUNDS, "random_state": 0, **settings}
    return cls(**settings).fit(*data)


@pytest.mark.parametrize(
    ("cls", "settings", "least"),
    [
        (HuberRegressor, {}, 0.85),
        (HuberRegressor, {"delta": 0.0}, 0.5),
        (QuantileRegressor, {}, 0.8),
        (QuantileRegressor, {"delta": 0.0}, 0.3),
        (LinearRegression, {}, 0.8),
        (LinearRegression, {"delta": 0.0}, 0.3),
        (LinearRegression, {"solver": "dp-adassp"}, 0.6),
    ],
    ids=str,
)
def test_it_beats_the_mean_with_epsilon_one(regression, cls, settings, least):
    model = fitted(regression, cls, epsilon=1.0, **settings)
    assert model.coef_.shape == (3,)
    assert isinstance(model.intercept_, float)
    assert model.score(*regression) > least


def huber(r, threshold=0.2):
    return np.where(np.abs(r) <= threshold, r**2 / 2, threshold * (np.abs(r) - threshold / 2))


def pinball(r, q=0.8, width=0.05):
    parabola = (r**2 / (4 * width)) + (q - 0.5) * r + width / 4
    return np.where(np.abs(r) <= width, parabola, np.maximum(q * r, (q - 1) * r))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("cls", "settings", "loss"),
    [
        (HuberRegressor, {}, huber),
        (HuberRegressor, {"threshold": 0.03}, lambda r: huber(r, 0.03)),
        (QuantileRegressor, {"quantile": 0.8, "width": 0.05}, pinball),
        (LinearRegression, {}, lambda r: huber(r, 1.0)),
        (LinearRegression, {"solver": "dp-adassp"}, np.square),
    ],
    ids=["huber", "huber-small", "pinball", "squares-bounded", "squares"],
)
def test_without_noise_it_minimizes_its_loss(
    noiseless, regression, cls, settings, loss, fit_intercept
):
    X, y = regression
    settings = {"solver": "output-perturbation", **settings}
    model = fitted(
        regression, cls, epsilon=1e4, alpha=0.01, fit_intercept=fit_intercept, **settings
    )
    rows = np.hstack([X, np.ones((3000, 1))]) if fit_intercept else X
    center, half = (10.0, 20.0) if fit_intercept else (0.0, 30.0)
    target = (np.clip(y, *BOUNDS) - center) / half
    ridge = 0.01 if loss is np.square else 0.005

    def objective(w):
        return loss(target - rows @ w).mean() + ridge * w @ w

    best = scipy.optimize.minimize(objective, np.zeros(rows.shape[1]), tol=1e-12).x
    np.testing.assert_allclose(model.coef_, best[:3] * half, atol=2e-3)
    expected = best[3] * half + center if fit_intercept else 0.0
    assert model.intercept_ == pytest.approx(expected, abs=2e-3)


def test_quantiles_are_quantiles(regression):
    X, y = regression
    for quantile in (0.1, 0.5, 0.9):
        model = fitted(regression, QuantileRegressor, quantile=quantile, width=0.02, epsilon=20.0)
        assert np.mean(y <= model.predict(X)) == pytest.approx(quantile, abs=0.05)


def test_huber_resists_outliers(regression):
    X, y = regression
    wild = np.where(np.arange(3000) % 20 == 0, 30.0, y)
    robust = fitted((X, wild), HuberRegressor, threshold=0.05, epsilon=20.0).predict(X)
    squares = fitted((X, wild), LinearRegression, epsilon=20.0).predict(X)
    assert abs(np.mean(robust - y)) < 0.5 * abs(np.mean(squares - y))


@pytest.mark.parametrize("cls", REGRESSORS)
def test_the_unit_of_the_target_does_not_matter(regression, cls):
    X, y = regression
    first = fitted(regression, cls)
    second = fitted((X, 1000.0 * y - 7.0), cls, target_bounds=(-10_007.0, 29_993.0))
    np.testing.assert_allclose(second.predict(X), 1000.0 * first.predict(X) - 7.0, rtol=1e-6)


@pytest.mark.parametrize("cls", REGRESSORS)
def test_targets_beyond_the_bounds_are_clipped(regression, cls):
    X, y = regression
    narrow = (5.0, 15.0)
    first = fitted((X, y), cls, target_bounds=narrow)
    second = fitted((X, np.clip(y, *narrow)), cls, target_bounds=narrow)
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert np.any(first.coef_ != fitted((X, y), cls).coef_)


@pytest.mark.parametrize("cls", REGRESSORS)
def test_bounds_of_constant_targets(regression, cls):
    X, _ = regression
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        constant = fitted((X, np.full(3000, 4.0)), cls, target_bounds=None, epsilon=100.0)
    np.testing.assert_allclose(constant.predict(X), 4.0, atol=0.5)


@pytest.mark.parametrize(
    ("cls", "settings", "error", "message"),
    [
        (QuantileRegressor, {"quantile": 0.0}, ValueError, "quantile must be"),
        (QuantileRegressor, {"width": -0.1}, ValueError, "width must be"),
        (LinearRegression, {"target_bounds": (1, 2, 3)}, ValueError, "must be two numbers"),
        (LinearRegression, {"target_bounds": (1, 1)}, ValueError, "must hold the lower number"),
        (LinearRegression, {"target_bounds": (0, np.inf)}, ValueError, r"target_bounds\[1\] must"),
        (HuberRegressor, {"solver": "dp-adassp"}, ValueError, "loss must be 'squared'"),
    ],
)
def test_bad_parameters(regression, cls, settings, error, message):
    with pytest.raises(error, match=message):
        fitted(regression, cls, **settings)


@pytest.mark.parametrize("cls", REGRESSORS)
@pytest.mark.parametrize(
    ("y", "message"), [([np.nan, 1.0], "NaN"), ([np.inf, 1.0], "infinity"), ([1.0], "inconsistent")]
)
def test_bad_targets(cls, y, message):
    with pytest.raises(ValueError, match=message):
        fitted(([[1.0], [2.0]], y), cls)
