"""scikit-learn's own checks, for every estimator, and what all estimators have in common."""

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import dpfast
from dpfast import (
    Budget,
    BudgetAccountant,
    BudgetExceeded,
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    NegativeBinomialRegressor,
    PoissonRegressor,
    PrivacyLeakWarning,
    QuantileRegressor,
    TweedieRegressor,
)
from dpfast.estimators import __all__ as names
from dpfast.privacy.repeats import FITS

ESTIMATORS = [cls for name in sorted(names) if hasattr(cls := getattr(dpfast, name, None), "fit")]


@parametrize_with_checks(
    [
        LogisticRegression(delta=0.0, data_norm=3.0),
        LinearSVC(solver="output-perturbation"),
        HuberRegressor(delta=0.0),
        QuantileRegressor(solver="output-perturbation"),
        LinearRegression(solver="dp-adassp"),
        PoissonRegressor(delta=0.0),
        GammaRegressor(solver="output-perturbation"),
        TweedieRegressor(solver="output-perturbation"),
        NegativeBinomialRegressor(),
    ]
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_scikit_learn_checks_with_the_defaults(cls):
    results = check_estimator(cls(), on_fail=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def positive(cls):
    """Whether its targets are."""
    return cls().__sklearn_tags__().target_tags.positive_only


@pytest.fixture
def data(request, classification):
    """Rows, and targets that the test's class takes."""
    X, y = classification
    return X, np.exp(y) if positive(request.node.callspec.params["cls"]) else y


def of(cls, **settings):
    """An estimator with everything public declared."""
    declared = {"data_norm": 2.0, "random_state": 0, "strict": True}
    declared |= {"classes": [-1, 1]} if "classes" in cls().get_params() else {}
    if "target_bounds" in cls().get_params():
        declared["target_bounds"] = (0.3, 3.0) if positive(cls) else (-1, 1)
    return cls(**{**declared, **settings})


BAD = [
    ({"epsilon": 0.0}, ValueError, r"epsilon must be a real number in .*; got 0\.0"),
    *(({"epsilon": bad}, ValueError, "epsilon must be .*; got") for bad in (-1.0, np.nan, np.inf)),
    ({"epsilon": True}, TypeError, "epsilon must be .*; got True"),
    ({"epsilon": "1"}, TypeError, "epsilon must be a real number in .*; got '1'"),
    ({"delta": 1.0}, ValueError, r"delta must be a real number in \[0, 1\); got 1\.0"),
    *(({"delta": bad}, ValueError, "delta must be .*; got") for bad in (-1e-9, np.nan)),
    ({"solver": "newton"}, ValueError, "solver must be one of 'auto', .*; got 'newton'"),
    ({"solver": 3}, TypeError, "solver must be one of 'auto', .*; got 3"),
    ({"alpha": -1.0}, ValueError, r"alpha must be .*; got -1\.0"),
    ({"alpha": "best"}, (TypeError, ValueError), "alpha must be .*; got 'best'"),
    ({"data_norm": 0.0}, ValueError, r"data_norm must be a real number in .*; got 0\.0"),
    ({"data_norm": np.inf}, ValueError, "data_norm must be a real number in .*; got inf"),
    ({"data_norm": "auto"}, TypeError, "data_norm must be a real number in .*; got 'auto'"),
    ({"data_norm": None}, ValueError, "data_norm must be given when strict=True; got None"),
    ({"fit_intercept": "no"}, TypeError, "fit_intercept must be True or False; got 'no'"),
    ({"strict": "yes"}, TypeError, "strict must be True or False; got 'yes'"),
    ({"intercept_scaling": 0.0}, ValueError, r"intercept_scaling must be .*; got 0\.0"),
    (
        {"neighboring_relation": "swap"},
        ValueError,
        "neighboring_relation must be one of 'replace_one', 'add_or_remove_one'; got 'swap'",
    ),
    ({"solver_options": {"alpha": 1.0}}, ValueError, "solver_options must not hold 'alpha'"),
    ({"solver_options": 5}, TypeError, "solver_options must be None or a dict .*; got 5"),
    ({"solver_options": {1: 2}}, TypeError, "solver_options must be None or a dict .*; got {1: 2}"),
    ({"solver_options": {"cheese": 1}}, ValueError, "options must be among .*; got cheese"),
    ({"optimizer": "adam"}, ValueError, "optimizer must be one of .*; got 'adam'"),
    ({"accountant": "moments"}, ValueError, "accountant must be one of .*; got 'moments'"),
    ({"random_state": "x"}, TypeError, "random_state must be None, an integer .*; got 'x'"),
    ({"random_state": -1}, ValueError, "random_state must be an integer >= 0; got -1"),
    ({"n_jobs": 0}, ValueError, "n_jobs must be None, a positive number, or -1 .*; got 0"),
    ({"n_jobs": "2"}, TypeError, "n_jobs must be an integer in .*; got '2'"),
    ({"classes": [1]}, ValueError, r"classes must hold two different .*; got \[1\]"),
    *(
        ({"classes": bad}, ValueError, "classes must hold two different labels")
        for bad in ([1, 1], [1, 2, 1], [[-1, 1]], [[1], [2, 3]], -1, [0, None], [0.0, np.nan])
    ),
    ({"classes": [0, 1]}, ValueError, "y must hold only the declared classes .*other label"),
    ({"classes": None}, ValueError, "classes must be given when strict=True; got None"),
    ({"objective": "x"}, ValueError, "objective must be one of .*; got 'x'"),
    ({"objective_options": 3}, TypeError, "objective_options must be None or a dict .*; got 3"),
    ({"target_bounds": "ab"}, TypeError, r"target_bounds\[0\] must be a real number .*; got 'a'"),
    ({"target_bounds": (2, 1)}, ValueError, r"target_bounds must hold the lower .*; got \(2, 1\)"),
    ({"target_bounds": 3}, ValueError, "target_bounds must be two numbers .*; got 3"),
    ({"target_bounds": None}, ValueError, "target_bounds must be given when strict=True; got None"),
    ({"threshold": 0.0}, ValueError, r"threshold must be .*; got 0\.0"),
    ({"width": "1"}, TypeError, "width must be .*; got '1'"),
    ({"quantile": 1.0}, ValueError, r"quantile must be .*; got 1\.0"),
]


@pytest.mark.parametrize("cls", ESTIMATORS)
class TestEveryEstimator:
    def test_parameters_have_the_common_names(self, cls):
        common = [
            "epsilon", "delta", "solver", "alpha", "data_norm", "fit_intercept",
            "intercept_scaling", "neighboring_relation", "solver_options", "optimizer",
            "accountant", "random_state", "n_jobs", "verbose", "strict", "max_weight",
        ]  # fmt: skip
        parameters = list(inspect.signature(cls).parameters)
        assert [name for name in parameters if name in common] == common
        defaults, expected = cls().get_params(), LogisticRegression().get_params()
        assert {n: defaults[n] for n in common} == {n: expected[n] for n in common}

    def test_the_report_states_what_was_asked(self, cls, data):
        X, y = data
        for delta, relation in ((1e-7, "add_or_remove_one"), (0.0, "replace_one")):
            FITS.forget()
            model = of(cls, epsilon=0.7, delta=delta, neighboring_relation=relation)
            privacy = model.fit(X, y).privacy_
            assert 0.69 < privacy.epsilon <= 0.7
            assert privacy.delta <= delta
            assert privacy.neighboring_relation == relation
            assert privacy.notes == ()
            assert privacy.reproducible

    def test_clone_pickle_pipeline_cross_validation(self, cls, data):
        X, y = data
        model = of(cls, epsilon=50.0)
        assert clone(model).get_params() == model.get_params()
        again = pickle.loads(pickle.dumps(model.fit(X, y)))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.privacy_.epsilon == model.privacy_.epsilon
        pipeline = make_pipeline(FunctionTransformer().set_output(transform="pandas"), model)
        frame = pd.DataFrame(X, columns=list("abcdef"))
        assert cross_val_score(pipeline, frame, y, cv=2).mean() > 0.1
        assert list(pipeline.fit(frame, y)[-1].feature_names_in_) == list("abcdef")

    def test_a_fit_that_is_refused_leaves_the_one_before_it(self, cls, data):
        X, y = data
        frame = pd.DataFrame(X, columns=list("abcdef"))
        model = of(cls).fit(frame, y)
        report, before = model.privacy_, model.predict(frame)
        # Of fewer columns, and of others in whose order the older coefficients are not.
        for other in (X[:, :2], frame.iloc[:, ::-1]):
            with BudgetAccountant(Budget(0.1, 1e-6)), pytest.raises(BudgetExceeded):
                model.fit(other, y)
            assert model.privacy_ is report
            np.testing.assert_array_equal(model.predict(frame), before)
            with pytest.raises(ValueError, match="feature"):
                model.predict(other)

    def test_layouts_give_the_same_model(self, cls, data, tmp_path):
        X, y = data
        X = np.where(np.abs(X) < 0.5, 0.0, X)
        expected = of(cls, delta=0.0).fit(X, y)
        np.save(tmp_path / "X.npy", X)
        names = list("abcdef")
        for table in (
            X.tolist(), np.asfortranarray(X), np.load(tmp_path / "X.npy", mmap_mode="r"),
            np.repeat(X, 2, axis=1)[:, ::2],
            pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names),
            scipy.sparse.csr_array(X), scipy.sparse.csr_matrix(X), scipy.sparse.coo_array(X),
            scipy.sparse.csc_array(X),
        ):  # fmt: skip
            model = of(cls, delta=0.0).fit(table, y)
            np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-9)
            np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-9)
            np.testing.assert_allclose(model.predict(table), expected.predict(X), rtol=1e-6)
            assert hasattr(model, "feature_names_in_") == hasattr(table, "columns")

    def test_arrow_tables(self, cls, data):
        pyarrow = pytest.importorskip("pyarrow")
        X, y = data
        table = pyarrow.table(dict(zip("abcdef", X.T, strict=True)))
        model = of(cls, delta=0.0).fit(table, pyarrow.array(y))
        expected = of(cls, delta=0.0).fit(X, y)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-9)
        np.testing.assert_array_equal(model.predict(table), expected.predict(X))

    def test_what_is_left_on_the_model(self, cls, data):
        X, y = data
        fitted = {name for name in vars(of(cls).fit(X, y)) if name.endswith("_")}
        own = "classes_" if "classes" in cls().get_params() else "prediction_range_"
        released = {"coef_", "intercept_", "column_ranges_"}
        assert fitted == released | {"n_features_in_", "privacy_", own}

    def test_verbose_prints_the_plan(self, cls, data, capsys):
        X, y = data
        of(cls, verbose=1).fit(X, y)
        assert "on 500 rows x 6 columns" in capsys.readouterr().out

    def test_bad_parameters_spend_nothing(self, cls, data):
        """Argument, expectation and value in the message, before any budget is charged."""
        X, y = data
        with dpfast.BudgetAccountant(dpfast.Budget(10.0, 1e-5)) as account:
            for settings, error, message in BAD:
                if settings.keys() <= cls().get_params().keys():
                    with pytest.raises(error, match=message):
                        of(cls, **settings).fit(X, y)
        assert account.events == ()

    def test_bad_data_spends_nothing(self, cls, data):
        X, y = data
        wrong = X.copy()
        wrong[3, 2] = np.nan
        with dpfast.BudgetAccountant(dpfast.Budget(10.0, 1e-5)) as account:
            for rows, target, message in (
                (wrong, y, "Input X contains NaN"),
                (np.where(np.isnan(wrong), np.inf, X), y, "Input X contains infinity"),
                (scipy.sparse.csr_array(wrong), y, "Input X contains NaN"),
                (X[:0], y[:0], "0 sample"),
                (X[:, :0], y, "0 feature"),
                (X[0], y[:1], "Expected 2D array"),
                (X, y[:-1], "inconsistent numbers of samples"),
                (X, None, "requires y to be passed"),
                (np.full(X.shape, "x"), y, "PublicOneHotEncoder"),
                (X * 1j, y, "Complex data not supported"),
            ):
                with pytest.raises((TypeError, ValueError), match=message):
                    of(cls).fit(rows, target)
        assert account.events == ()
        with pytest.raises(ValueError, match="features"):
            of(cls).fit(X, y).predict(X[:, :2])

    def test_unfitted(self, cls):
        with pytest.raises(Exception, match="not fitted yet"):
            cls().predict([[1.0]])
