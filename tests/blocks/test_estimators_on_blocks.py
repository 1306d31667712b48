"""Estimators take blocks of rows in the place of X and y, and find the same."""

import numpy as np
import pytest

from dpfast import (
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    QuantileRegressor,
)
from dpfast.blocks import from_npy
from dpfast.errors import DataError


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
    assert model.n_features_in_ == 4
    assert model.privacy_.epsilon <= 5.0


@pytest.mark.parametrize("kind", [HuberRegressor, LinearRegression, QuantileRegressor])
def test_regressors(kind, table):
    X, y = table
    model = kind(epsilon=5.0, data_norm=2.0, target_bounds=(-3.0, 3.0), random_state=1)
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


def test_weights_come_with_the_blocks(table):
    X, z = table
    y, weight = (z > 0).astype(int), np.random.default_rng(1).random(400)
    model = LogisticRegression(5.0, data_norm=2.0, classes=[0, 1], max_weight=0.7, random_state=1)
    expected = model.fit(X, y, sample_weight=weight).coef_
    model.fit(from_npy(X, y, weight, block_rows=70))
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-10)


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
    with pytest.raises(ValueError, match="y and sample_weight must be left out for rows in"):
        model.fit(source, y)
    with pytest.raises(DataError, match=r"rows 0 to 399: y must hold only the declared classes"):
        LogisticRegression(data_norm=2.0, classes=[1, 2]).fit(source)
    model.fit(source)
    with pytest.raises(ValueError, match="X must have 4 features, as in fit; got 3"):
        model.predict(from_npy(X[:, :3]))
