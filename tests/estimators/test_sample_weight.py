"""Weights of rows: their meaning, their sensitivity, metadata routing, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from estimators.test_conventions import ESTIMATORS, of
from refusals import refused
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from dpfast import HuberRegressor, LinearRegression, LinearSVC, LogisticRegression
from dpfast.preprocessing import BoundedScaler


@pytest.mark.parametrize("cls", [LogisticRegression, LinearSVC, HuberRegressor])
def test_without_noise_weights_are_repetitions(noiseless, classification, cls):
    """The mean is over the rows as they are, so alpha is over their number."""
    X, y = classification
    weight = np.arange(500) % 4
    settings = {"epsilon": 1e4, "solver": "output-perturbation"}
    weighted = of(cls, alpha=0.01, max_weight=3.0, **settings).fit(X, y, sample_weight=weight)
    total = weight.sum()
    repeated = of(cls, alpha=0.01 * 500 / total, **settings).fit(
        X.repeat(weight, axis=0), y.repeat(weight)
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-5)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_weights_beyond_the_bound_are_lowered_and_the_report_counts_the_bound(cls, classification):
    X, y = classification
    weight = np.linspace(0.0, 5.0, 500)
    first = of(cls, max_weight=2.0).fit(X, y, sample_weight=weight)
    second = of(cls, max_weight=2.0).fit(X, y, sample_weight=np.minimum(weight, 2.0))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.privacy_.epsilon <= 1.0
    assert first.privacy_.notes == ()
    assert np.any(first.coef_ != of(cls, max_weight=2.0).fit(X, y).coef_)
    # What is promised does not depend on the weights, only on their bound.
    unit = of(cls, max_weight=2.0).fit(X, y, sample_weight=np.ones(500))
    assert unit.privacy_.events == first.privacy_.events


def test_three_classes_take_weights(classification):
    X, y = classification
    kind = np.where(X[:, 0] > 1.0, 2, y)
    model = of(LogisticRegression, classes=[-1, 1, 2], max_weight=1.0, epsilon=20.0)
    weighted = model.fit(X, kind, sample_weight=np.where(kind == 2, 0.0, 1.0))
    # Rows that do not count are not learned.
    assert not np.any(weighted.predict(X) == 2)


class TestRouting:
    def test_requests(self, classification):
        with sklearn.config_context(enable_metadata_routing=True):
            X, y = classification
            model = of(LogisticRegression, max_weight=1.0).set_fit_request(sample_weight=True)
            model.set_score_request(sample_weight=False)
            assert model.get_metadata_routing().fit.requests["sample_weight"] is True
            pipeline = make_pipeline(BoundedScaler((-2, 2)), model)
            weight = np.where(y > 0, 1.0, 0.0)
            routed = pipeline.fit(X, y, sample_weight=weight)[-1]
            direct = of(LogisticRegression, max_weight=1.0).fit(
                BoundedScaler((-2, 2)).fit_transform(X), y, sample_weight=weight
            )
            np.testing.assert_array_equal(routed.coef_, direct.coef_)
            silent = of(LogisticRegression, max_weight=1.0)
            with pytest.raises(ValueError, match="sample_weight"):
                make_pipeline(BoundedScaler((-2, 2)), silent).fit(X, y, sample_weight=weight)
            scores = cross_validate(model, X, y, params={"sample_weight": weight}, cv=2)
            assert len(scores["test_score"]) == 2

    def test_without_routing(self, classification):
        X, y = classification
        weight = np.where(y > 0, 1.0, 0.0)
        model = of(LogisticRegression, max_weight=1.0, epsilon=9.0)
        pipeline = make_pipeline(BoundedScaler((-2, 2)), model)
        pipeline.fit(X, y, logisticregression__sample_weight=weight)
        assert pipeline.predict(X).mean() > 0.99
        search = GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=2)
        assert search.fit(X, y, sample_weight=weight).predict(X).mean() > 0.99

    def test_calibration(self, classification):
        X, y = classification
        model = CalibratedClassifierCV(of(LogisticRegression, epsilon=9.0), cv=2).fit(X, y)
        assert model.score(X, y) > 0.7


@pytest.mark.parametrize("cls", ESTIMATORS)
class TestWhatIsAccepted:
    def test_containers(self, cls, classification):
        X, y = classification
        weight = np.linspace(0.0, 1.0, 500)
        expected = of(cls, max_weight=1.0).fit(X, y, sample_weight=weight).coef_
        for other in (weight.tolist(), pd.Series(weight), weight.astype(np.float32)):
            found = of(cls, max_weight=1.0).fit(X, y, sample_weight=other).coef_
            np.testing.assert_allclose(found, expected, atol=1e-5)
        nothing = of(cls, max_weight=1.0).fit(X, y, sample_weight=None).coef_
        np.testing.assert_array_equal(nothing, of(cls).fit(X, y).coef_)

    @pytest.mark.filterwarnings("ignore::dpfast.PrivacyLeakWarning")
    @pytest.mark.parametrize(
        "check",
        [
            estimator_checks.check_sample_weights_pandas_series,
            estimator_checks.check_sample_weights_not_an_array,
            estimator_checks.check_sample_weights_list,
            estimator_checks.check_sample_weights_shape,
            estimator_checks.check_sample_weights_not_overwritten,
        ],
        ids=lambda check: check.__name__,
    )
    def test_scikit_learn_checks_that_hold_for_private_fits(self, cls, check):
        check(cls.__name__, cls(delta=0.0, max_weight=10.0, solver="output-perturbation"))

    @pytest.mark.parametrize(
        ("bound", "weight", "error", "message"),
        [
            (None, np.ones(500), ValueError, "max_weight must be given with sample_weight; got N"),
            (0.0, np.ones(500), ValueError, "max_weight must be a real number in"),
            ("1", None, TypeError, "max_weight must be a real number in"),
            (1.0, np.ones(3), ValueError, r"sample_weight must have shape \(500,\)"),
            (1.0, -np.ones(500), ValueError, "sample_weight must hold numbers >= 0"),
            (1.0, np.full(500, np.nan), ValueError, "sample_weight must hold finite"),
            (1.0, ["a"] * 500, TypeError, "sample_weight must hold real numbers"),
        ],
        ids=["undeclared", "zero-bound", "text-bound", "short", "negative", "nan", "text"],
    )
    def test_bad_weights_spend_nothing(self, cls, classification, bound, weight, error, message):
        X, y = classification
        with refused(error, message):
            of(cls, max_weight=bound).fit(X, y, sample_weight=weight)

    def test_other_keywords(self, cls, classification):
        with pytest.raises(TypeError, match="but sample_weight and groups; got cheese"):
            of(cls).fit(*classification, cheese=1)


def test_partial_fit_is_absent_and_the_reason_is_told():
    for cls in ESTIMATORS:
        assert not hasattr(cls(), "partial_fit")
        assert "no `partial_fit`" in cls.__doc__


def test_squares_take_weights(classification):
    X, y = classification
    model = of(LinearRegression, solver="dp-adassp", max_weight=1.0, epsilon=50.0)
    weighted = model.fit(X, y, sample_weight=np.where(y > 0, 1.0, 0.0))
    assert weighted.predict(X).mean() > 0.5
