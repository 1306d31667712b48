"""What whoever comes from scikit-learn reads: promises in sight, other names, text, NaN, bounds."""

import inspect
import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sklearn.linear_model
from refusals import refused
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from dpfast import (
    Budget,
    BudgetAccountant,
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    TableModel,
)
from dpfast.column_blocks import ColumnBlock
from dpfast.errors import BudgetExceeded, DataError, QuestionableSettingWarning
from dpfast.model_selection import PrivateSearchCV
from dpfast.privacy.repeats import FITS


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    return X, (X[:, 0] > 0).astype(int)


BOUNDS = {"x": [-4, 4], "y": [0, 1], "target": "y"}


def model(**settings):
    return LogisticRegression(**{"data_norm": 2.0, "classes": [0, 1], **settings})


class TestRepr:
    """ε and δ are always to be seen."""

    @pytest.mark.parametrize("cls", [LogisticRegression, HuberRegressor, TableModel])
    def test_defaults_are_shown(self, cls):
        assert repr(cls()) == f"{cls.__name__}(epsilon=1.0, delta=1e-06)"
        assert repr(cls(delta=0.0)) == f"{cls.__name__}(epsilon=1.0, delta=0.0)"
        once = repr(cls(epsilon=0.5, neighboring_relation="add_or_remove_one"))
        assert once.count("epsilon=0.5") == once.count("delta=1e-06") == 1

    def test_of_a_table_with_a_model_inside(self):
        text = repr(TableModel({"a": [0, 1]}, QuantileRegressor(quantile=0.9), epsilon=3.0))
        assert "epsilon=3.0" in text and "delta=1e-06" in text


class TestOtherNames:
    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("C", "alpha = 1 / (C * n_samples)"),
            ("penalty", "the penalty is the ridge alpha"),
            ("max_iter", "private solvers fix their steps beforehand"),
        ],
    )
    def test_parameters_of_scikit_learn_are_explained(self, name, hint, data):
        with pytest.raises(TypeError, match="has no parameter") as caught:
            LinearSVC(**{name: 1})
        assert hint in str(caught.value)
        with pytest.raises(ValueError, match="has no parameter") as caught:
            model().set_params(**{name: 1})
        assert hint in str(caught.value)
        with pytest.raises(ValueError, match=name):
            GridSearchCV(model(), {name: [1, 2]}, error_score="raise").fit(*data)

    def test_class_weight_of_a_fit(self, data):
        with pytest.raises(TypeError, match="class_weight: a parameter of classifiers, not of fit"):
            model().fit(*data, class_weight="balanced")

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("data_norm", "a TableModel derives it from the declaration"),
            ("alpha", r"TableModel\(bounds, LogisticRegression\(alpha=\.\.\.\)\)"),
            ("wieght", "Did you mean 'weight'"),
        ],
    )
    def test_parameters_that_a_table_does_not_have(self, name, hint):
        with pytest.raises(TypeError, match=f"TableModel has no parameter '{name}'.*{hint}"):
            TableModel(BOUNDS, **{name: 1})
        with pytest.raises(ValueError, match=f"TableModel has no parameter '{name}'.*{hint}"):
            TableModel({}).set_params(**{name: 1})
        assert next(iter(inspect.signature(TableModel).parameters)) == "bounds"

    def test_subclasses_may_pass_parameters_on(self, data):
        class Mine(LogisticRegression):
            def __init__(self, **settings):
                super().__init__(**settings)

        assert Mine(data_norm=2.0).data_norm == 2.0
        with pytest.raises(TypeError, match="wrong"):
            Mine(wrong=1)

    @pytest.mark.parametrize("cls", [LogisticRegression, PoissonRegressor])
    def test_weights_by_position(self, cls, data):
        with refused(TypeError, r"no more than X and y by position; got 3 .* sample_weight="):
            cls().fit(*data, np.ones(500))

    def test_other_names_of_a_fit(self, data):
        for names, hint in ((("exposure",), "PoissonRegressor"), (("group",), "mean 'groups'")):
            with refused(TypeError, f"sample_weight and groups; got {names[0]}.*{hint}"):
                model().fit(*data, **dict.fromkeys(names, 1))

    def test_no_penalty(self, data):
        """What the hint says of it is so."""
        with pytest.raises(TypeError, match="and alpha=1e-12 is next to none"):
            model(penalty=None)
        for delta in (1e-6, 0.0):
            assert np.isfinite(model(alpha=1e-12, delta=delta).fit(*data).coef_).all()

    def test_numbers_in_the_place_of_a_budget(self):
        with pytest.raises(TypeError, match=r"got delta, epsilon .*\(Budget\(epsilon, delta\)\)"):
            BudgetAccountant(epsilon=1.0, delta=1e-6)
        with pytest.raises(TypeError, match="got delta beside it or in its place"):
            BudgetAccountant(budget=Budget(1.0), delta=1e-6)

        class Mine(BudgetAccountant):
            def __init__(self, epsilon):
                super().__init__(Budget(epsilon))

        assert Mine(epsilon=1.0).budget == Budget(1.0)
        assert next(iter(inspect.signature(BudgetAccountant).parameters)) == "budget"

    def test_what_nobody_knows_has_no_hint(self):
        with pytest.raises(TypeError, match=r"no parameter 'depth'\. It has epsilon, delta, "):
            HuberRegressor(depth=3)
        assert clone(model()).set_params(epsilon=2.0).epsilon == 2.0

    def test_solvers_of_scikit_learn(self, data):
        with pytest.raises(ValueError, match=r"not private.* chosen by optimizer"):
            model(solver="lbfgs").fit(*data)


@pytest.mark.parametrize("of", [model, lambda **how: TableModel(BOUNDS, **how)])
def test_few_rows_are_told_of_before_anything_is_spent(of, data):
    X, y = data
    rows = (X, y) if of is model else ({"x": X[:, 0], "y": y},)
    few = (X[:20], y[:20]) if of is model else ({"x": X[:20, 0], "y": y[:20]},)
    with warnings.catch_warnings(), BudgetAccountant(Budget(3.0, 1e-5)) as account:
        warnings.simplefilter("error", QuestionableSettingWarning)
        of().fit(*rows)
        spent = account.charges
        with pytest.raises(QuestionableSettingWarning, match=r"^20 rows are too few for this"):
            of().fit(*few)
        assert account.charges == spent > 0


def test_bounds_too_wide_to_find_the_targets_are_told_of(data):
    X, _ = data
    model = HuberRegressor(0.5, data_norm=2.0, target_bounds=(0.0, 1e4))
    with pytest.warns(QuestionableSettingWarning, match="anywhere between target_bounds. Bounds"):
        model.fit(X[:20], X[:20, 0])


class TestRows:
    @pytest.mark.parametrize(
        "of",
        [
            lambda X: pd.DataFrame(X).assign(sex="secret"),
            lambda X: pd.DataFrame(X).assign(sex=pd.Categorical(["secret"] * len(X))),
            lambda X: pl.DataFrame({"a": X[:, 0], "b": X[:, 1] > 0, "sex": ["secret"] * len(X)}),
            lambda X: [[1.0, "secret"]] * len(X),
        ],
        ids=["text", "category", "polars", "list"],
    )
    def test_text_points_to_the_encoder_and_is_not_quoted(self, of, data):
        X, y = data
        rows = of(X)
        if isinstance(rows, pd.DataFrame):
            rows.columns = rows.columns.map(str)
        with pytest.raises((TypeError, ValueError), match="PublicOneHotEncoder") as caught:
            model().fit(rows, y)
        if not isinstance(rows, list):
            assert "the column 'sex' holds" in str(caught.value)
        assert "secret" not in str(caught.value)

    def test_missing_values_bring_no_advice_that_leaks(self, data):
        X, y = data
        X[3, 1] = np.nan
        with pytest.raises(ValueError, match=r"Input X contains NaN.* known beforehand") as caught:
            model().fit(X, y)
        assert "impute.html" not in str(caught.value)

    def test_sparse_columns_whose_other_entries_are_missing(self, data):
        X, y = data
        for fill in (np.nan, 1.0):
            columns = pd.DataFrame(X).astype(pd.SparseDtype(float, fill))
            with refused(ValueError, r"X must have 0 .* X\.sparse\.to_dense\(\)"):
                model().fit(columns, y)

    def test_truth_values_as_objects(self, data):
        X, y = data
        truths = pd.Series(y == 1, dtype=object)
        with refused(ValueError, r"entries of type bool\..* Convert them with \.astype\(bool\)"):
            model().fit(X, truths)
        model().fit(X, truths.astype(bool))

    def test_columns_in_another_order(self, data):
        X, y = data
        rows = pd.DataFrame(X, columns=["a", "b", "c"])
        fitted = model().fit(rows, y)
        other = rows[["b", "a", "c"]]
        with pytest.raises(ValueError, match=r"X\[model\.feature_names_in_\]") as caught:
            fitted.predict(other)
        assert "same order" in str(caught.value)
        right = fitted.predict(other[fitted.feature_names_in_])
        np.testing.assert_array_equal(right, fitted.predict(rows))
        with pytest.raises(TypeError, match="X must have names of one kind"):
            model().fit(pd.DataFrame(X, columns=["a", 1, 2]), y)


class TestPromises:
    @pytest.mark.parametrize(
        "make",
        [
            model,
            lambda **s: HuberRegressor(data_norm=2.0, target_bounds=(0, 1), **s),
            lambda **s: PrivateSearchCV(model(), {"alpha": [0.1, 0.2]}, **s),
        ],
        ids=["classifier", "regressor", "search"],
    )
    def test_a_delta_above_one_over_the_rows_is_refused(self, make, data):
        X, y = data
        with refused(ValueError, r"delta must be below one over .*\(500\)"):
            make(delta=2.1e-3).fit(X, y)
        make(delta=1.9e-3).fit(X, y)

    def test_a_large_epsilon_is_questioned(self, data):
        with pytest.warns(QuestionableSettingWarning, match="epsilon = 21 is hardly") as caught:
            model(epsilon=21.0).fit(*data)
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            FITS.forget()
            model(epsilon=20.0).fit(*data)

    def test_a_table_says_it_once(self, data):
        table = {"x": data[0][:, 0], "y": data[1]}
        bounds = {"x": [-3, 3], "y": [0, 1], "target": "y"}
        with pytest.warns(QuestionableSettingWarning, match="epsilon = 21") as caught:
            TableModel(bounds, epsilon=21.0).fit(table)
        assert len(caught) == 1


TABLE = {"x": [-3, 3], "y": [0, 1], "target": "y"}


@pytest.mark.parametrize(
    "fit",
    [
        lambda X, y: LogisticRegression().fit(X, y),
        lambda X, y: LinearRegression().fit(X, y),
        lambda X, y: PrivateSearchCV(model(), {"alpha": [0.1, 0.2]}, epsilon=21.0).fit(X, y),
        lambda X, y: TableModel(TABLE, epsilon=21.0).fit({"x": X[:, 0], "y": y}),
    ],
    ids=["classifier", "regressor", "search", "table"],
)
def test_warnings_are_of_the_line_that_asked(fit, data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(*data)
    assert {warning.filename for warning in caught} == {__file__}


class TestBounds:
    def test_quantiles_in_wide_bounds_are_questioned(self, data):
        X = data[0]
        with pytest.warns(QuestionableSettingWarning, match=r"blurred over 1e\+04 units") as caught:
            QuantileRegressor(
                data_norm=2.0, target_bounds=(-1e5, 1e5), delta=0.0, solver="output-perturbation"
            ).fit(X, X[:, 0])
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for settings in (
                {"target_bounds": (0, 1e4)},
                {"target_bounds": (0, 1e6), "width": 1e-3},
                {"target_bounds": (0, 1e6), "solver": "auto"},  # the range is learned
                {"target_bounds": (0, 1e6), "solver": "auto", "delta": 1e-6},
            ):
                settings = {"delta": 0.0, "solver": "output-perturbation", **settings}
                QuantileRegressor(data_norm=2.0, epsilon=5.0, **settings)._question_bounds()

    @pytest.mark.parametrize("solver", ["auto", "objective-perturbation", "output-perturbation"])
    def test_quantiles_without_a_delta(self, solver, data):
        """None is 0, as for every other estimator."""
        X = data[0]
        fitted = [
            QuantileRegressor(
                data_norm=2.0, target_bounds=(-3, 3), delta=delta, solver=solver, random_state=0
            ).fit(X, X[:, 0])
            for delta in (None, 0.0)
        ]
        assert [each.privacy_.delta for each in fitted] == [0.0, 0.0]
        np.testing.assert_array_equal(fitted[0].coef_, fitted[1].coef_)

    def test_counts_without_a_delta_are_questioned(self):
        given = {"data_norm": 2.0, "target_bounds": (0, 50)}
        for unlearned in (
            {"fit_intercept": False}, {"solver": "output-perturbation"}, {"max_rows_per_group": 3},
        ):  # fmt: skip
            with pytest.warns(QuestionableSettingWarning, match="delta = 0 for counts and costs"):
                PoissonRegressor(delta=0.0, **unlearned, **given)._question_bounds()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            PoissonRegressor(**given)._question_bounds()
            PoissonRegressor(delta=0.0, **given)._question_bounds()  # their mean is learned

    @pytest.mark.parametrize("learn", [False, True])
    def test_of_a_table_unless_the_range_is_learned(self, learn):
        rng = np.random.default_rng(0)
        x = rng.uniform(size=20_000)
        table = {"x": x, "y": 3.0 * x}
        bounds = {"x": [0, 1], "y": {"range": [-1e5, 1e5], "learn": learn}, "target": "y"}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            quantile = QuantileRegressor(solver="output-perturbation")
            TableModel(bounds, quantile, epsilon=2.0, delta=0.0).fit(table)
        assert len(caught) == (not learn)

    @pytest.mark.parametrize(
        ("make", "learns"),
        [
            (partial(LogisticRegression, classes=[0, 1]), True),
            (partial(LogisticRegression, classes=[0, 1, 2]), True),
            (partial(LinearRegression, target_bounds=(0, 2), solver="dp-adassp"), True),
            (partial(HuberRegressor, target_bounds=(0, 2)), True),
            (partial(LogisticRegression, classes=[0, 1], delta=0.0), False),
        ],
        ids=["classes", "more classes", "squares", "Huber", "pure"],
    )
    def test_a_norm_far_above_the_rows_is_said_where_releases_tell_it(self, make, learns):
        """Of solvers that learn the lengths; the others know nothing, and say nothing."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(20_000, 3))
        X /= np.linalg.norm(X, axis=1)[:, np.newaxis]
        y = np.digitize(X[:, 0], [-0.3, 0.3]) % len(make().get_params().get("classes", "012"))
        said = {}
        for data_norm in (1.0, 3.0, 100.0):
            FITS.forget()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                make(data_norm=data_norm, epsilon=2.0).fit(X, y)
            said[data_norm] = [str(w.message) for w in caught]
        assert said[1.0] == said[3.0] == []
        assert len(said[100.0]) == learns
        assert not learns or "data_norm = 100 is far above the norms" in said[100.0][0]

    @pytest.mark.parametrize(
        ("make", "delta"),
        [
            (LinearRegression, 1e-6),
            (partial(LinearRegression, solver="dp-adassp"), 1e-6),
            (HuberRegressor, 1e-6),
            (LinearRegression, 0.0),
            (HuberRegressor, 0.0),
        ],
        ids=["means", "squares", "Huber", "pure, means", "pure, Huber"],
    )
    def test_bounds_of_targets_too_wide_for_the_counts_are_said(self, make, delta):
        """Counts narrow the range some eleven times each, whatever is declared."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1.0, 1.0, (12_000, 4))
        y = np.clip(4.0 + X @ [1.0, 0.5, -0.5, 0.2] + rng.normal(size=len(X)), 0.0, 10.0)
        said = {}
        for high in (10.0, 1e4, 1e8):
            FITS.forget()
            bounds = {"data_norm": 2.0, "target_bounds": (0.0, high), "random_state": 0}
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                make(epsilon=1.0, delta=delta, **bounds).fit(X, y)
            said[high] = [str(w.message) for w in caught if "declared bounds" in str(w.message)]
        assert said[10.0] == said[1e4] == []
        assert "times narrower, and predictions may be far from it" in said[1e8][0]

    @pytest.mark.parametrize(
        ("epsilon", "positives", "told"),
        [(1.0, 0.005, True), (1.0, 0.5, False), (8.0, 0.2, False), (0.01, 0.005, False)],
    )
    def test_a_class_too_rare_for_the_columns_is_told_of(self, epsilon, positives, told):
        """Rows are told in all to be enough; how few have the class follows from releases."""
        n, k = 20_000, 300
        rng = np.random.default_rng(0)
        X = scipy.sparse.csr_array((np.ones(n), (np.arange(n), rng.integers(0, k, n))), (n, k))
        blocks = [ColumnBlock("one-hot", 0, k)]
        fit = model(epsilon=epsilon, column_blocks=blocks, random_state=0).fit
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit(X, (rng.random(n) < positives).astype(int))
        said = [str(w.message) for w in caught]
        assert told == any("A class has less than 6.4 % of the rows" in text for text in said)
        # Where the plan already tells that rows are too few for any weights, that is enough.
        assert (epsilon == 0.01) == any("rows are too few" in text for text in said)

    def test_classes_are_sorted_and_the_message_says_so(self, data):
        X, y = data
        found = LogisticRegression(data_norm=2.0, classes=[1, 0]).fit(X, y)
        assert found.classes_.tolist() == [0, 1]
        with pytest.warns(UserWarning, match="sorted, and of two the last is the positive one"):
            LogisticRegression(data_norm=2.0).fit(X + 5.0, y)


class TestWhatToGive:
    """Each says which argument, what it wants, what came."""

    @pytest.mark.parametrize("given", [[1], 1, "ab"])
    def test_column_blocks(self, data, given):
        with pytest.raises(TypeError, match=r"column_blocks must be .* list of ColumnBlock.*; got"):
            model(column_blocks=given).fit(*data)

    @pytest.mark.parametrize(
        "column",
        [
            lambda labels: pd.Series(labels, dtype="string"),
            lambda labels: pd.Series(labels, dtype="category"),
            lambda labels: pd.array(labels, dtype="string"),
            pl.Series,
        ],
    )
    def test_missing_labels(self, data, column):
        labels = column(["no", None, *["yes"] * (len(data[1]) - 2)])
        with pytest.raises(ValueError, match=r"y must hold class labels.*at least one is missing"):
            LogisticRegression(data_norm=2.0, classes=["no", "yes"]).fit(data[0], labels)

    def test_all_that_is_missing_with_strict(self, data):
        for cls, name in ((LogisticRegression, "classes"), (HuberRegressor, "target_bounds")):
            with pytest.raises(ValueError, match=f"{name} and data_norm must be given when strict"
                               f".* Pass {name}=.* Pass as data_norm a bound"):  # fmt: skip
                cls(strict=True).fit(*data)

    def test_a_norm_far_below_the_intercept_is_questioned(self, data):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model(data_norm=0.02).fit(*data)
            model(data_norm=0.001, intercept_scaling=0.05).fit(*data)
            model(data_norm=0.001, fit_intercept=False).fit(*data)
        assert not [w for w in caught if "data_norm" in str(w.message)]
        far = "data_norm = 0.001 is far below intercept_scaling = 1.*a bound that is\\."
        with pytest.warns(QuestionableSettingWarning, match=f"{far}$"):
            model(data_norm=0.001).fit(*data)
        with pytest.warns(QuestionableSettingWarning, match=f"{far} Otherwise scale X"):
            model(data_norm=0.001, delta=0.0).fit(*data)

    @pytest.mark.parametrize("solver", ["dp-whitened-gd", "dp-newton"])
    def test_units_change_nothing_where_no_other_is_advised(self, data, solver):
        X, y = data
        fits = [
            model(data_norm=2.0 * unit, solver=solver, random_state=0).fit(unit * X, y).coef_ * unit
            for unit in (1.0, 2.0**-12)
        ]
        np.testing.assert_allclose(fits[1], fits[0], rtol=1e-3)

    def test_no_ridge_is_the_automatic_one(self, data):
        found = [model(alpha=alpha, random_state=0).fit(*data).coef_ for alpha in (None, "auto")]
        np.testing.assert_array_equal(*found)
        with pytest.raises(ValueError, match=r"^solver_options must be among (?!alpha)"):
            model(solver="dp-sgd", solver_options={"cheese": 1}).fit(*data)

    def test_options_of_a_solver(self, data):
        with pytest.raises(ValueError, match=r"^solver_options must be among .*; got cheese"):
            model(solver_options={"cheese": 1}).fit(*data)

    def test_tables(self, data, tmp_path):
        X, y = data
        table = pd.DataFrame({"x": np.sign(X[:, 0]), "y": y})
        bounds = {"x": np.array([-1, 1]), "y": [np.int64(0), np.int64(1)], "target": "y"}
        ranges = {**bounds, "x": {"range": np.array([-1.0, 1.0])}}
        assert TableModel(bounds).fit(table).n_features_in_ == 1
        assert TableModel(ranges).prepare(table).plan.schema.row_norm_bound == 1.0
        assert "numbers that are categories: 'x' (3)" in str(
            TableModel({**bounds, "x": [-1, 0, 1]}).plan(500)
        )
        with pytest.raises(TypeError, match=r"got LogisticRegression of the module sklearn\."):
            TableModel(bounds, sklearn.linear_model.LogisticRegression()).fit(table)
        with pytest.raises(TypeError, match=r"got the class LogisticRegression of the module dpf"):
            TableModel(bounds, LogisticRegression).fit(table)
        with pytest.raises(ValueError, match=r"got list of shape \(1,\)\. .* pandas\.DataFrame"):
            TableModel(bounds).fit([{"x": 1, "y": 0}])
        with pytest.raises(TypeError, match=r"got sample_weight\. .* as weight"):
            TableModel(bounds).fit(table, sample_weight=np.ones(len(table)))
        with pytest.raises(DataError, match=r"Truth values are declared as \[false, true\]"):
            TableModel({**bounds, "x": {"categories": [False, True]}}).fit(table)
        with pytest.raises(FileNotFoundError, match=r"bounds must be .*there is no file 'nix"):
            TableModel("nix.json").fit(table)

    def test_what_is_left_of_an_account(self, data):
        with BudgetAccountant(Budget(1.0, 1e-6)):
            model(epsilon=0.9).fit(*data)
            with pytest.raises(BudgetExceeded, match="log-moment") as caught:
                model(epsilon=0.9).fit(*data)
            left = float(re.search(r"of epsilon = (\S+) at", str(caught.value))[1])
            assert 0.1 < left < 0.5
            with pytest.raises(BudgetExceeded):
                model(epsilon=1.02 * left).fit(*data)
            model(epsilon=left).fit(*data)
