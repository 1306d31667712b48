"""The estimator: scikit-learn's rules, the non-private limit, and what it refuses."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as Reference

from dpfast import LogisticRegression


def fitted(X, y, **settings):
    settings = {"data_norm": 2.0, "classes": [-1, 1], **settings}
    return LogisticRegression(**settings).fit(X, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("optimizer", ["newton", "lbfgs"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_without_noise_it_is_scikit_learns(
    noiseless, classification, fit_intercept, optimizer, delta
):
    X, y = classification
    model = fitted(
        X, y, epsilon=1e4, delta=delta, alpha=0.01, fit_intercept=fit_intercept,
        optimizer=optimizer, intercept_scaling=0.5, least_probability=0.0,
    )  # fmt: skip
    rows = np.hstack([X, np.full((500, 1), 0.5)]) if fit_intercept else X
    reference = Reference(C=1 / (0.01 * 500), fit_intercept=False, tol=1e-12, max_iter=10_000)
    w = reference.fit(rows, y).coef_[0]
    np.testing.assert_allclose(model.coef_[0], w[:6], atol=1e-6)
    np.testing.assert_allclose(
        model.intercept_, [w[6] * 0.5] if fit_intercept else [0.0], atol=1e-6
    )
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(rows), atol=1e-6)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    np.testing.assert_array_equal(model.predict(X), reference.predict(rows))


def test_a_huge_epsilon_needs_no_switch(classification):
    """With a budget so large that noise vanishes, without touching the noise."""
    X, y = classification
    model = fitted(X, y, epsilon=1e6, delta=1e-3, alpha=0.05)
    exact = Reference(C=1 / (0.05 * 500), tol=1e-12).fit(X, y)
    np.testing.assert_allclose(np.ravel(model.coef_), exact.coef_[0], atol=1e-3)
    assert model.intercept_[0] == pytest.approx(exact.intercept_[0], abs=1e-3)


def test_a_fixed_random_state_is_marked(classification):
    X, y = classification
    first, second = (fitted(X, y, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.privacy_.reproducible
    assert "do not release" in str(first.privacy_)
    first, second = fitted(X, y), fitted(X, y)
    assert np.all(first.coef_ != second.coef_)
    assert not first.privacy_.reproducible


def test_nothing_in_the_pickle_is_as_long_as_the_data(classification):
    X, y = classification
    assert len(pickle.dumps(fitted(np.tile(X, (50, 1)), np.tile(y, 50)))) < 10_000


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [0, 1], [-3, 2]])
def test_labels_of_any_kind(classification, labels):
    X, y = classification
    named = np.asarray(labels)[(y > 0).astype(int)]
    model = fitted(X, named, classes=labels, epsilon=100.0, random_state=0)
    np.testing.assert_array_equal(model.classes_, np.sort(np.asarray(labels)))
    assert np.mean(model.predict(X) == named) > 0.7
    # The order in which the classes are declared does not matter.
    other = fitted(X, named, classes=labels[::-1], epsilon=100.0, random_state=0)
    np.testing.assert_array_equal(model.coef_, other.coef_)


def test_one_class_in_the_data_is_fine_when_two_are_declared(classification):
    X, _ = classification
    model = fitted(X, np.ones(500), epsilon=10.0)
    assert model.predict_proba(X)[:, 1].mean() > 0.5


@pytest.mark.parametrize(
    ("accountant", "mechanism"),
    [
        ("pure", "l2_laplace_objective"),
        ("objective", "objective_perturbation"),
        ("gdp", "gaussian"),
        ("zcdp", "gaussian"),
        ("basic", None),
    ],
)
def test_any_accountant_spends_the_budget_it_was_given(classification, accountant, mechanism):
    X, y = classification
    privacy = fitted(X, y, accountant=accountant, epsilon=2.0).privacy_
    assert 1.99 < privacy.epsilon <= 2.0
    assert privacy.delta <= 1e-6
    assert mechanism in (None, privacy.events[0].mechanism)
    if accountant in ("gdp", "zcdp", "objective"):
        with pytest.raises(ValueError, match=r"accountant .* cannot account for"):
            fitted(X, y, accountant=accountant, epsilon=2.0, delta=0.0)


@pytest.mark.parametrize(
    ("y", "message"),
    [([0.5, 1.5], "[Uu]nknown label type|declared classes"), ([np.nan, 1.0], "NaN")],
)
def test_bad_labels(y, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fitted([[1.0], [2.0]], y)


def test_no_class_is_impossible(classification):
    """As if one more row, or the noise of one, had each class; ranks and thresholds are kept."""
    X, y = classification
    model = fitted(X, y, epsilon=0.5, least_probability="auto")
    assert model.least_probability_ == pytest.approx(1.0 / (0.5 * 500))
    exact = clone(model).set_params(least_probability=0.0)
    exact.__dict__.update(coef_=model.coef_, intercept_=model.intercept_, _softmax=False)
    exact.__dict__.update(classes_=model.classes_, n_features_in_=6)
    far = 1e6 * X
    assert exact.predict_proba(far).min() == 0.0
    found = model.predict_proba(far)
    assert found.min() >= 0.99 / (0.5 * 500 + 2.0)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(far)), found)
    found, told = model.predict_proba(X)[:, 1], exact.predict_proba(X)[:, 1]
    assert np.array_equal(np.argsort(found, kind="stable"), np.argsort(told, kind="stable"))
    model.threshold = 0.3
    np.testing.assert_array_equal(model.predict(X) == model.classes_[1], found > 0.3)
    with pytest.raises(ValueError, match=r"least_probability must be .*got 0\.7"):
        fitted(X, y, least_probability=0.7)
