"""Tables to models: every container, every family, what is said, and what it costs."""

import json
import pickle
import warnings
from decimal import Decimal
from typing import ClassVar

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from refusals import refused
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpfast
from dpfast import (
    Budget,
    BudgetAccountant,
    BudgetExceeded,
    GammaRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    TableModel,
    TweedieRegressor,
)
from dpfast.errors import DataError, QuestionableSettingWarning, UndeclaredValueWarning
from dpfast.privacy import budget_filter
from dpfast.privacy.repeats import FITS
from dpfast.privacy.report import condensed
from dpfast.tabular import FAMILIES, TableSchema
from dpfast.tabular import fitting as fitting_room
from dpfast.tabular import model as model_room
from dpfast.tabular import rows as rows_room

BOUNDS = {
    "age": [18, 90],
    "smoker": [False, True],
    "city": ["Aachen", "Bonn"],
    "entry": ["2015-01-01", "2024-12-31"],
    "ill": ["no", "yes"],
    "target": "ill",
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 4000
    age = rng.integers(18, 91, n)
    smoker = rng.random(n) < 0.3
    days = rng.integers(0, 3650, n)
    score = age / 20 + 2 * smoker + rng.logistic(size=n) - 4
    return pd.DataFrame(
        {
            "age": age,
            "smoker": smoker,
            "city": rng.choice(["Aachen", "Bonn"], n),
            "entry": pd.Timestamp("2015-01-01") + pd.to_timedelta(days, unit="D"),
            "ill": np.where(score > 0, "yes", "no"),
            "cost": np.maximum(0.0, 100 * age + 3000 * smoker + rng.normal(0, 500, n)),
            "name": "x",
        }
    )


def fitted(table, **settings):
    settings = {"random_state": 0, "epsilon": 2.0, **settings}
    return TableModel(settings.pop("bounds", BOUNDS), **settings).fit(table)


@pytest.fixture(scope="module")
def model(table):
    return fitted(table)


class TestContainers:
    def test_every_container_gives_the_same_model(self, table, model, tmp_path):
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        table.to_csv(tmp_path / "t.csv", index=False)
        table.to_csv(tmp_path / "t.csv.gz", index=False)
        arrow = pa.Table.from_pandas(table)
        parquet.write_table(arrow, tmp_path / "t.parquet", row_group_size=700)
        others = {
            "polars": pl.from_pandas(table),
            "arrow": arrow,
            "dict": {name: table[name].to_numpy() for name in table},
            "objects": table.astype(object),
            "csv": tmp_path / "t.csv",
            "csv.gz": str(tmp_path / "t.csv.gz"),
            "parquet": tmp_path / "t.parquet",
        }
        expected = model.predict_proba(table)
        for name, other in others.items():
            again = fitted(other)
            np.testing.assert_array_equal(again.coef_, model.coef_, err_msg=name)
            np.testing.assert_array_equal(model.predict_proba(other), expected, err_msg=name)

    def test_files_that_are_declared_to_be_written_otherwise(self, table, model, tmp_path):
        thousands = table.rename(columns={"city": "Größe"}).assign(
            age=1000.0 * table["age"], entry=table["entry"].dt.strftime("%d.%m.%Y")
        )
        written = thousands.assign(age=[f"{age}.000,00" for age in table["age"]])
        entry = {"dates": ["1.1.2015", "31.12.2024"], "format": "%d.%m.%Y"}
        bounds = {**BOUNDS, "age": [18_000, 90_000], "entry": entry}
        form = {"separator": ";", "decimal": ",", "thousands": ".", "encoding": "cp1252"}
        path, expected = tmp_path / "t.csv.gz", model.predict_proba(table)
        written.to_csv(path, sep=";", index=False, encoding="cp1252")
        renamed = {"Größe" if name == "city" else name: entry for name, entry in bounds.items()}
        again = fitted(path, bounds={**renamed, **form})
        np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-12)
        again.save(tmp_path / "m.json")
        loaded = TableModel.load(tmp_path / "m.json")
        assert loaded.schema_ == again.schema_ and loaded.schema_.csv.encoding == "cp1252"
        np.testing.assert_allclose(loaded.predict_proba(path), expected, rtol=1e-12)
        assert loaded.evaluate(path)["accuracy"] == model.evaluate(table)["accuracy"]
        # In memory numbers are as they stand.
        np.testing.assert_allclose(loaded.predict_proba(thousands), expected, rtol=1e-12)

    def test_declared_numbers_of_all_roles(self, tmp_path):
        path, rows = tmp_path / "t.csv", ["x;n;years;w;who"]
        rows += [f"{j / 10};{j % 3}.0;1.5;{j % 2}.25;{j // 2}.0" for j in range(40)]
        path.write_text("\n".join(rows).replace(".", ","))
        bounds = {"x": [0, 4], "n": [0, 9], "years": [0, 2], "w": [0, 2], "target": "n"}
        roles = {"exposure": "years", "weight": "w", "person": "who"}
        form = {"separator": ";", "decimal": ","}
        fit = TableModel({**bounds, **roles, **form}, "poisson", epsilon=5.0).prepare(path)
        assert fit.n_samples == 20
        y, further = fit.dense()[1:]
        np.testing.assert_allclose(y, np.arange(40) % 3 / 1.5)
        np.testing.assert_allclose(further["sample_weight"], 1.5 * (np.arange(40) % 2 + 0.25))

    def test_target_beside_the_table(self, table, model):
        X, y = table.drop(columns="ill"), table["ill"]
        again = TableModel(BOUNDS, epsilon=2.0, random_state=0).fit(X, y)
        np.testing.assert_array_equal(again.coef_, model.coef_)
        assert model.score(X, y) == model.score(table) == model.score(X, y.to_numpy())
        with pytest.raises(ValueError, match="y must be None: the table has the target 'ill'"):
            TableModel(BOUNDS).fit(table, y)

    def test_arrays_have_the_columns_of_the_bounds(self, table, model):
        X = table[["age", "smoker", "city", "entry"]].to_numpy(dtype=object)
        np.testing.assert_array_equal(model.predict(X), model.predict(table))
        with pytest.raises(ValueError, match="must have the 4 columns of the bounds"):
            model.predict(X[:, :3])

    @pytest.mark.parametrize("data", [None, 3, object()])
    def test_what_is_no_table(self, data, model):
        with pytest.raises(TypeError, match="a table must be a data frame"):
            model.predict(data)
        with pytest.raises(TypeError, match="a table must be a data frame"):
            TableModel(BOUNDS).fit(data)

    def test_rows_that_are_not_there_yet(self, table, model):
        pl = pytest.importorskip("polars")
        with pytest.raises(TypeError, match=r"got LazyFrame.*pass what its collect\(\) gives"):
            model.predict(pl.from_pandas(table).lazy())
        for value in (30, "30", {30, 40}, {0: 30, 1: 40}):  # the last is of DataFrame.to_dict()
            with pytest.raises(DataError, match=r"column 'age': expected a list or an array"):
                model.predict(dict.fromkeys(table, value))

    def test_no_rows(self, table, model):
        for action in (model.predict, model.evaluate, TableModel(BOUNDS).fit):
            with pytest.raises(DataError, match="has columns but no rows"):
                action(table.head(0))

    def test_columns_of_different_lengths(self, model):
        with pytest.raises(DataError, match="must have one length"):
            model.predict({"age": [1], "smoker": ["no", "no"], "city": ["x"], "entry": ["x"]})


class TestModels:
    def test_a_useful_model_within_its_budget(self, table, model):
        assert model.score(table) > (table["ill"] == "yes").mean() + 0.05
        assert model.privacy_.epsilon <= 2.0
        assert model.privacy_.notes == ()
        assert model.classes_.tolist() == ["no", "yes"]
        names = model.get_feature_names_out().tolist()
        assert names == ["age", "smoker", "city_Aachen", "city_Bonn", "entry"]
        assert model.coef_[0, names.index("smoker")] > 0.0
        assert [block.kind for block in model.column_blocks_] == [
            "number", "binary", "one-hot", "number",
        ]  # fmt: skip

    def test_data_norm_is_derived(self, table, model):
        assert model.estimator_.data_norm == TableSchema.from_bounds(BOUNDS).row_norm_bound == 2.0

    def test_the_order_of_classes_is_kept(self, table):
        turned = fitted(table, bounds={**BOUNDS, "ill": ["yes", "no"]})
        assert turned.classes_.tolist() == ["yes", "no"]
        assert turned.coef_[0, 1] < 0.0
        proba = turned.predict_proba(table)
        assert (turned.predict(table) == np.where(proba[:, 1] > 0.5, "no", "yes")).all()

    def test_rows_in_blocks_give_the_same_model(self, table, model, monkeypatch):
        from dpfast.tabular import fitting

        monkeypatch.setattr(fitting, "_BLOCK_ENTRIES", 5 * 700)
        blocks = fitted(table, in_memory=False)
        np.testing.assert_allclose(blocks.coef_, model.coef_, rtol=1e-4)

    def test_what_is_too_large_is_read_in_blocks(self, table, monkeypatch):
        assert TableModel(BOUNDS).prepare(table).plan.in_memory
        monkeypatch.setattr(model_room, "_HELD_BYTES", 1000)
        assert not TableModel(BOUNDS).prepare(table).plan.in_memory
        assert TableModel(BOUNDS, in_memory=True).prepare(table).plan.in_memory

    @pytest.mark.parametrize("name", FAMILIES)
    def test_every_family(self, name, table, tmp_path):
        classifier = is_classifier(FAMILIES[name]())
        target = "ill" if classifier else "cost"
        # Costs of gamma regression are above 0.
        table = table.assign(cost=np.maximum(table["cost"], 50.0))
        bounds = {**BOUNDS, "cost": [50, 15000], "target": target}
        del bounds["ill" if target == "cost" else "cost"]
        model = fitted(table, bounds=bounds, estimator=name)
        assert model.family == name
        assert is_classifier(model) == classifier == (not is_regressor(model))
        found = model.evaluate(table)
        assert found["accuracy"] > 0.7 if classifier else found["deviance_explained"] > 0.25
        model.save(tmp_path / "m.json")
        again = TableModel.load(tmp_path / "m.json")
        np.testing.assert_array_equal(again.predict(table), model.predict(table))
        assert again.evaluate(table) == found
        assert again.family == name
        assert hasattr(again, "predict_proba") == hasattr(FAMILIES[name], "predict_proba")

    def test_a_range_that_a_family_cannot_have_is_told_as_that_of_the_table(self):
        bounds = {"age": [18, 90], "cost": [0, 1e4], "target": "cost"}
        with pytest.raises(ValueError, match=r"must be > 0 .*the declared range of 'cost'"):
            TableModel(bounds, "gamma").plan(1000)

    @pytest.mark.parametrize("family", ["gamma", "poisson", "negative-binomial"])
    def test_targets_without_a_deviance_are_named(self, family, table):
        positive = family == "gamma"
        bounds = {"age": BOUNDS["age"], "cost": [float(positive), 15000], "target": "cost"}
        model = fitted(table, bounds=bounds, estimator=family)
        wrong = table.head(50)[["age", "cost"]].copy()
        wrong.loc[7, "cost"] = 0.0 if positive else -1.0
        text = f"target 'cost' must hold numbers {'> 0' if positive else '>= 0'} .* {family!r}"
        for score in (model.score, model.evaluate):
            with warnings.catch_warnings(), pytest.raises(DataError, match=text):
                warnings.simplefilter("ignore")
                score(wrong)
        with pytest.raises(DataError, match="target 'cost' must hold different numbers"):
            model.score(table.head(50).assign(cost=5.0))

    @pytest.mark.parametrize("multi_class", ["multinomial", "ovr"])
    def test_several_classes(self, table, tmp_path, multi_class):
        rng = np.random.default_rng(1)
        grade = np.clip(table["age"] // 25 + rng.integers(0, 2, len(table)), 0, 3)
        bounds = {"age": [18, 90], "city": ["Aachen", "Bonn"], "grade": [0, 1, 2, 3]}
        data = table.assign(grade=grade)
        model = fitted(
            data,
            bounds=bounds,
            target="grade",
            estimator=LogisticRegression(multi_class=multi_class),
        )
        assert model.classes_.tolist() == [0, 1, 2, 3]
        assert model.predict(data).dtype.kind == "i"
        assert model.score(data) > 0.5
        model.save(tmp_path / "m.json")
        again = TableModel.load(tmp_path / "m.json")
        np.testing.assert_array_equal(again.predict_proba(data), model.predict_proba(data))

    def test_parameters_of_an_estimator(self, table):
        bounds = {"age": [18, 90], "cost": [0, 15000], "target": "cost"}
        models = [
            fitted(table, bounds=bounds, estimator=QuantileRegressor(quantile=q))
            for q in (0.2, 0.8)
        ]
        shares = [model.evaluate(table)["share_below"] for model in models]
        assert shares[0] < 0.45 and shares[1] > 0.55

    def test_weights(self, table):
        """Rows without weight count for nothing."""
        bounds = {**BOUNDS, "w": [0, 1]}
        rng = np.random.default_rng(2)
        wrong = rng.random(len(table)) < 0.5
        ill = np.where(wrong, rng.choice(["no", "yes"], len(table)), table["ill"])
        data = table.assign(ill=ill, w=np.where(wrong, 0.0, 1.0))
        settings = {"epsilon": 8.0, "bounds": bounds}
        weighted = fitted(data, weight="w", **settings)
        assert weighted.estimator_.max_weight == 1.0
        assert weighted.feature_names_in_.tolist() == ["age", "smoker", "city", "entry"]
        plain = fitted(data, epsilon=8.0)
        assert abs(weighted.coef_[0, 1]) > 1.3 * abs(plain.coef_[0, 1])
        blocks = fitted(data, weight="w", in_memory=False, **settings)
        np.testing.assert_allclose(blocks.coef_, weighted.coef_, rtol=1e-3)
        with pytest.raises(DataError, match="row 2 of the data: expected a weight >= 0; got"):
            fitted(data.assign(w=[1.0, -1.0] + [1.0] * (len(data) - 2)), weight="w", **settings)

    @pytest.mark.parametrize(
        "estimator", [PoissonRegressor(), GammaRegressor(), TweedieRegressor(power=1.5)]
    )
    def test_exposure(self, estimator, tmp_path):
        """The fit to a table is that of the estimator, and predictions are for the exposure."""
        rng = np.random.default_rng(3)
        n = 3000
        x, years = rng.random(n), rng.uniform(0.1, 4.0, n)
        cost = years * rng.gamma(2.0, np.exp(1.0 + x) / 2.0)
        data = pd.DataFrame({"x": x, "years": years, "cost": cost})
        bounds = {"x": [0, 1], "years": [0, 3], "cost": [0.1, 30], "target": "cost"}
        settings = {"bounds": bounds, "estimator": estimator, "exposure": "years", "epsilon": 8.0}
        model = fitted(data, **settings)
        assert model.feature_names_in_.tolist() == ["x"]
        direct = clone(estimator).set_params(
            epsilon=8.0, random_state=0, data_norm=1.0, target_bounds=(0.1, 30.0), max_exposure=3.0,
            column_blocks=model.column_blocks_,
        )  # fmt: skip
        direct.fit(2.0 * x[:, None] - 1.0, cost, exposure=years)
        np.testing.assert_allclose(model.coef_, direct.coef_, rtol=1e-9)
        rates = direct.predict(2.0 * x[:, None] - 1.0)
        np.testing.assert_allclose(model.predict(data), rates * years, rtol=1e-9)
        weight = years ** (2.0 - estimator.deviance_power)
        score = direct.deviance_explained(cost / years, rates, weight)
        assert model.score(data) == pytest.approx(score, rel=1e-9)
        blocks = fitted(data, in_memory=False, **settings)
        np.testing.assert_allclose(blocks.coef_, model.coef_, rtol=1e-3)
        model.save(tmp_path / "m.json")
        loaded = TableModel.load(tmp_path / "m.json")
        np.testing.assert_array_equal(loaded.predict(data[:5]), model.predict(data[:5]))
        with pytest.raises(DataError, match="years"):
            model.predict(data[["x"]])

    def test_exposure_and_weight(self):
        data = {"x": np.arange(100) % 7, "e": np.ones(100), "w": np.ones(100), "y": np.arange(100)}
        bounds = {"x": [0, 6], "e": [0, 2], "w": [0, 3], "y": [0, 99], "target": "y"}
        roles = {"weight": "w", "exposure": "e", "estimator": TweedieRegressor(power=1.5)}
        plan = TableModel(bounds, **roles).plan(100)
        assert plan.shape.max_weight == pytest.approx(3.0 * 2.0**0.5)
        with pytest.raises(DataError, match="row 2 of the data: expected an exposure > 0; got"):
            fitted({**data, "e": np.array([1.0, 0.0] + [1.0] * 98)}, bounds=bounds, **roles)
        for other in ("linear", "negative-binomial"):
            with pytest.raises(ValueError, match="must be left out except for the families"):
                TableModel(bounds, **{**roles, "estimator": other}).plan(100)
        with pytest.raises(ValueError, match="max_exposure must be left out of the estimator"):
            TableModel(bounds, PoissonRegressor(max_exposure=1.0), exposure="e").plan(100)

    def test_last_month_s_model_is_a_prior(self, table, model, tmp_path):
        kept = pickle.loads(pickle.dumps(model))
        few, settings = table.head(400), {"epsilon": 0.1}
        with_prior = fitted(few, estimator=LogisticRegression(prior=kept), **settings)
        inside = fitted(few, estimator=LogisticRegression(prior=kept.estimator_), **settings)
        np.testing.assert_array_equal(with_prior.coef_, inside.coef_)
        np.testing.assert_array_equal(model.as_prior().coef, model.estimator_.as_prior().coef)
        again = clone(with_prior).fit(few)
        np.testing.assert_array_equal(again.coef_, inside.coef_)
        assert with_prior.evaluate(table)["auc"] > fitted(few, **settings).evaluate(table)["auc"]
        with_prior.save(tmp_path / "m.json")
        kept.save(tmp_path / "january.json")
        read = TableModel.load(tmp_path / "january.json")
        from_file = fitted(few, estimator=LogisticRegression(prior=read), **settings)
        np.testing.assert_array_equal(from_file.coef_, with_prior.coef_)
        # Where rounding left nothing that tells, a file does without, and can be read.
        kept.estimator_._covariance = np.ones_like(kept.estimator_._covariance)
        kept.save(tmp_path / "january.json")
        with pytest.raises(ValueError, match="to be a prior"):
            TableModel.load(tmp_path / "january.json").as_prior()
        with BudgetAccountant(Budget(9.0, 1e-3)) as account:
            for change, found in (
                ({"age": [0, 90]}, r"'age' as .*0\.0, 90\.0.*, where the prior has"),
                ({"more": [0, 1]}, "'more', which only this declaration has"),
            ):
                with pytest.raises(ValueError, match=f"same columns.*; got {found}.*"):
                    fitted(few, estimator=LogisticRegression(prior=kept), bounds=BOUNDS | change)
            with pytest.raises(ValueError, match=r"without ranges that are learned; got .*'age'"):
                learned = BOUNDS | {"age": {"range": [18, 90], "learn": True}}
                fitted(few, estimator=LogisticRegression(prior=kept), bounds=learned)
            with pytest.raises(ValueError, match="on one scale; got LogisticRegression for Linear"):
                fitted(few, estimator=LinearSVC(prior=kept))
            with pytest.raises(
                TypeError, match=r"prior\[0\] must hold real numbers; the columns 'city'"
            ):
                public = LogisticRegression(prior=(table[[*BOUNDS][:4]], table["ill"]))
                fitted(few, estimator=public)
        assert not account.events

    def test_thousands_of_categories(self, table):
        names = [f"c{number}" for number in range(3000)]
        bounds = {"age": [18, 90], "code": names, "ill": ["no", "yes"], "target": "ill"}
        data = table.assign(code=np.resize(names, len(table)))
        plan = TableModel(bounds).prepare(data.head(200))
        X, _, _ = plan.dense()
        assert X.shape == (200, 3001)
        np.testing.assert_array_equal(X[:, 1:].sum(axis=1), 1.0)
        assert "200 rows, 2 columns, encoded as 3,001" in str(plan.plan)


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"bounds": None}, "bounds must be given; got None"),
            ({"estimator": "tree"}, "estimator must be 'auto', 'logistic'"),
            ({"estimator": 3}, "estimator must be 'auto', 'logistic'"),
            ({"estimator": "linear"}, "expected its range"),
            ({"estimator": LogisticRegression(epsilon=3.0)}, "epsilon must be left out of the"),
            ({"estimator": LogisticRegression(data_norm=3.0)}, "data_norm .* derives it from the"),
            ({"estimator": LogisticRegression(delta=1e-9)}, "delta .* TableModel, which takes it"),
            (
                {"estimator": LogisticRegression(inference=True), "epsilon": 1e-3},
                r"X must have at least [\d,]+ rows .* got 4,000",
            ),
            ({"estimator": LogisticRegression(solver="x")}, "solver must be one of"),
            ({"estimator": LogisticRegression(alpha=-1.0)}, "alpha"),
            ({"epsilon": 0.0}, "epsilon must be"),
            ({"delta": 1.0}, "delta must be"),
            ({"undeclared": "no"}, "undeclared must be one of"),
            ({"in_memory": "no"}, "in_memory must be True, False or 'auto'"),
            ({"target": "nope"}, "the target 'nope' is not in the bounds"),
            ({"bounds": {"a": [0, 1]}}, "target must name the column"),
            ({"max_rows_per_group": 3}, "must be None without a person column"),
            ({"person": "name", "delta": 0.0}, "max_rows_per_group must be given"),
            (
                {"estimator": LogisticRegression(solver="dp-sgd"), "in_memory": False},
                "block",
            ),
        ],
        ids=str,
    )
    def test_settings_are_refused_before_anything_is_spent(self, table, settings, message):
        with refused((TypeError, ValueError), message):
            fitted(table, **settings)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"age": np.nan}, "column 'age', row 1 .* Nothing is declared for missing values"),
            ({"city": ""}, "column 'city', row 1 .* Nothing is declared for missing values"),
            ({"ill": "YES!"}, "column 'ill', row 1 of the data: expected the class 'no' or 'yes'"),
            ({"age": "old"}, "column 'age', row 1 of the data: expected a finite number"),
            ({"entry": 20150101}, "column 'entry': expected dates"),
            ({"city": 3}, "expected one of the categories 'Aachen', 'Bonn'; got int64"),
        ],
        ids=str,
    )
    def test_data_are_refused_before_anything_is_spent(self, table, change, message):
        with refused(DataError, message):
            fitted(table.assign(**change))

    def test_what_no_number_of_rows_would_allow_is_refused_unread(self):
        with refused(ValueError, "alpha"):
            fitted("nowhere.csv", estimator=LogisticRegression(alpha=-1.0))

    def test_what_is_no_promise(self, table):
        with pytest.raises(ValueError, match=r"delta must be below one over the number of rows"):
            fitted(table, delta=1e-3)
        with pytest.warns(UserWarning, match="epsilon = 25 is hardly a promise") as caught:
            fitted(table, epsilon=25.0)
        assert [warning.filename for warning in caught] == [__file__]

    def test_the_row_is_counted_over_all_chunks(self, table):
        many = pd.concat([table] * 3, ignore_index=True).astype({"age": object})
        many.loc[9_999, "age"] = "old"
        with pytest.raises(DataError, match="column 'age', row 10000 of the data"):
            fitted(many)

    def test_an_account_refuses_all_of_it(self, table):
        bounds = {"age": {"range": [0, 1e5], "learn": True}, "ill": ["no", "yes"]}
        with refused(BudgetExceeded, budget=Budget(0.5, 1e-6)):
            fitted(table, bounds=bounds, target="ill")


class TestUndeclared:
    def test_it_is_said_and_counted(self, table, model):
        odd = table.head(1000).assign(city="Cologne")
        odd.loc[:2, "age"] = 200
        with pytest.warns(UndeclaredValueWarning) as caught:
            model.predict(odd)
        (warning,) = caught
        text = str(warning.message)
        assert "never declared, of 1,000: 1,000 in 'city'" in text
        assert "Outside the declared range, of 1,000: 3 in 'age'" in text
        assert warning.filename == __file__

    @pytest.mark.parametrize("undeclared", ["warn", "error"])
    def test_a_fit_says_nothing_that_depends_on_the_rows(self, table, capfd, undeclared):
        """Whether one more row has an unknown value, or two: nobody learns it from the fit."""
        said = []
        for rows in (0, 1, 700):
            odd = table.astype({"city": object, "age": float})
            odd.loc[: rows - 1, "city"] = "Cologne"
            odd.loc[: rows - 1, "age"] = 1000.0
            FITS.forget()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model = fitted(odd, undeclared=undeclared)
            out = capfd.readouterr()
            said.append((out.out, out.err, str(model.privacy_), model.privacy_.to_json()))
        assert said[0] == said[1] == said[2]

    def test_looking_without_protection(self, table):
        odd = table.assign(city="Cologne")
        odd.loc[:2, "age"] = 200
        model = TableModel(BOUNDS, target="ill")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = model.check(odd)
            assert not model.check(table) and str(model.check(table)) == ""
        assert (found.rows, found.undeclared, found.cut) == (
            len(table), {"city": len(table)}, {"age": 3},
        )  # fmt: skip
        assert "3 in 'age'; each was cut to it." in str(found)
        others = {**BOUNDS, "city": {"categories": BOUNDS["city"], "other": True}}
        assert not TableModel(others, target="ill").check(odd).undeclared
        with pytest.raises(DataError, match="row 1 of the data"):
            model.check(table.assign(age="old"))
        odd = table.assign(ill=table["ill"].where(table.index != 3, None), entry=5)
        odd["age"] = odd["age"].astype(object).where(odd.index != 7, "old")
        message = (
            "column 'age', row 8 of the data: expected .*Besides: column 'entry': expected dates; "
            "got int64.*; column 'ill', row 4 of the data: expected the class .*; got an empty"
        )
        with pytest.raises(DataError, match=message):
            model.check(odd)

    def test_what_means_the_same_is_not(self, table, model):
        same = table.assign(
            smoker=table["smoker"].map({True: "TRUE", False: "0"}), city=table["city"].str.upper()
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(model.predict_proba(same), model.predict_proba(table))
            again = fitted(same)
        np.testing.assert_array_equal(again.coef_, model.coef_)

    def test_policies(self, table):
        odd = table.head(500).assign(city="Cologne")
        with pytest.raises(DataError, match=r"never declared.*undeclared='warn'"):
            fitted(odd, undeclared="error").predict(odd)
        FITS.forget()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted(odd, undeclared="ignore").predict(odd)

    def test_an_unknown_value_has_next_to_no_effect(self, table):
        """Even where noise gave the categories wild coefficients."""
        jobs = [f"job {number}" for number in range(30)]
        rng = np.random.default_rng(0)
        data = table.assign(job=rng.choice(jobs[:3], len(table)))
        bounds = {**BOUNDS, "job": jobs}
        exact = LogisticRegression(least_probability=0.0)
        model = fitted(data, bounds=bounds, epsilon=0.1, undeclared="ignore", estimator=exact)
        one = data.head(1)
        p = [model.predict_proba(one.assign(job=job))[0, 1] for job in jobs]
        unknown = model.predict_proba(one.assign(job="astronaut"))[0, 1]
        logit = np.log(np.array(p) / (1 - np.array(p)))
        assert np.log(unknown / (1 - unknown)) == pytest.approx(logit.mean())

    def test_missing_values_with_a_policy(self, table):
        gaps = table.astype({"age": float, "city": object})
        gaps.loc[::3, "age"] = np.nan
        gaps.loc[::4, "city"] = None
        model = fitted(gaps, bounds={**BOUNDS, "missing": "indicator"})
        names = model.get_feature_names_out().tolist()
        assert {"age_<missing>", "smoker_<missing>", "city_<missing>"} <= set(names)
        assert np.isfinite(model.predict_proba(gaps)).all()
        assert model.score(gaps) > 0.6


class TestLearnedRanges:
    WIDE: ClassVar = {
        "age": {"range": [0, 1e5], "learn": True},
        "smoker": [False, True],
        "cost": {"range": [0, 1e7], "learn": True},
        "target": "cost",
    }

    def test_bounds_a_thousand_times_too_wide(self, table):
        declared = {"age": [18, 90], "smoker": [False, True], "cost": [0, 15000], "target": "cost"}
        wide = {**self.WIDE, "age": [0, 1e5], "cost": [0, 1e7]}
        best = fitted(table, bounds=declared).evaluate(table)["r2"]
        learned = fitted(table, bounds=self.WIDE)
        assert learned.evaluate(table)["r2"] > best - 0.1
        # Where rows are many the fit itself finds where columns and targets are.
        assert fitted(table, bounds=wide).evaluate(table)["r2"] > best - 0.1
        (_, high), (_, most) = learned.learned_ranges.values()
        assert 60.0 < high < 200.0
        assert 5_000.0 < most < 40_000.0

    @pytest.mark.parametrize("delta", [1e-6, 0.0])
    @pytest.mark.parametrize("solver", ["auto", "objective-perturbation", "dp-gd"])
    def test_the_whole_stays_within_one_budget(self, table, delta, solver, tmp_path):
        bounds = {**self.WIDE, "ill": ["no", "yes"], "target": "ill", "learn_share": 0.25}
        bounds.pop("cost")
        settings = {
            "bounds": bounds,
            "delta": delta,
            "epsilon": 4.0,
            "estimator": LogisticRegression(solver=solver),
        }
        planned = TableModel(bounds, LogisticRegression(solver=solver), 4.0, delta)
        plan = planned.plan(len(table))
        with BudgetAccountant(Budget(4.0, delta)) as account:
            model = fitted(table, **settings)
        report = model.privacy_
        assert report.epsilon <= 4.0 and report.delta <= delta
        assert condensed(report.events) == condensed(account.events)
        assert condensed(report.events) == condensed(plan.events)
        assert report.events[0].where == "ranges of the columns"
        # What is left over is little.
        assert report.epsilon > 3.0
        model.save(tmp_path / "m.json")
        again = TableModel.load(tmp_path / "m.json")
        assert again.learned_ranges == model.learned_ranges
        np.testing.assert_array_equal(again.predict(table), model.predict(table))

    @pytest.mark.parametrize("delta", [1e-6, 0.0])
    def test_accounts_pay_for_whatever_range_is_learned(self, table, delta):
        """A loss with a log link follows from it, and the noise that a fit adds from the loss."""
        bounds = {**self.WIDE, "cost": {"range": [1.0, 1e7], "learn": True}}
        settings = {"bounds": bounds, "epsilon": 4.0, "delta": delta}
        with BudgetAccountant(Budget(9.0, 1e-5)) as account:
            model = fitted(table, estimator=GammaRegressor(), **settings)
        unit = budget_filter(Budget(9.0, 1e-5), "rdp")
        learned, whole = account.events
        made, paid = (
            sum(event.count * unit.price(event) for event in events)
            for events in (model.estimator_.privacy_.events, [whole])
        )
        # Three pure releases, of which most has the last, add up to less than one of their sum.
        assert (0.99 if delta else 0.85) * paid < made <= paid
        # What the fit did follows from what was learned: it adds up to no guarantee.
        assert condensed(model.privacy_.events) == condensed([learned, whole])
        assert model.privacy_.epsilon <= 4.0

    def test_a_price_that_follows_from_the_range_is_refused(self, table):
        bounds = {**self.WIDE, "cost": {"range": [1.0, 1e7], "learn": True}}
        estimator = GammaRegressor(solver="objective-perturbation")
        with pytest.raises(ValueError, match="whose price follows from the range"):
            fitted(table, bounds=bounds, estimator=estimator)

    def test_too_few_rows_are_refused_before_anything_is_spent(self, table):
        with refused(ValueError, "50 rows are too few to learn the ranges of 2"):
            fitted(table.head(50), bounds=self.WIDE)
        with refused(ValueError, "1 row is too few to learn the ranges of 2 columns"):
            fitted(table.head(1), bounds=self.WIDE)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"random_state": -1}, "random_state"),
            ({"estimator": LinearRegression(n_jobs=0)}, "n_jobs"),
            ({"bounds": WIDE | {"cost": {"range": [0, 1e150], "learn": True}}}, "target_bounds"),
        ],
        ids=str,
    )
    def test_what_the_model_refuses_is_refused_before_ranges_are_paid_for(
        self, table, settings, message
    ):
        with refused(ValueError, message):
            fitted(table, **{"bounds": self.WIDE, **settings})

    def test_missing_values_are_neither_low_nor_high(self, table):
        gaps = table.astype({"age": float})
        gaps.loc[::2, "age"] = np.nan
        entry = {"range": [0, 1e5], "learn": True, "missing": 40}
        model = fitted(gaps, bounds={"age": entry, "ill": ["no", "yes"]}, target="ill")
        low, high = model.learned_ranges["age"]
        assert low < 40.0 < 60.0 < high < 200.0

    def test_it_follows_the_transform(self, table):
        entry = {"range": [0, 1e5], "learn": True, "transform": "log1p"}
        model = fitted(table, bounds={"age": entry, "ill": ["no", "yes"]}, target="ill")
        low, high = model.learned_ranges["age"]
        assert 2.0 < low < np.log1p(40) < high < 6.0

    def test_a_solver_that_decides_along_the_way_is_refused(self, table):
        settings = {"bounds": {**self.WIDE, "ill": ["no", "yes"], "target": "ill"}}
        settings["bounds"].pop("cost")
        with pytest.raises(ValueError, match="solver must fix its accesses"):
            fitted(table, estimator=LogisticRegression(solver="dp-agd"), **settings)


class TestScikitLearn:
    def test_clone_and_parameters(self, model):
        again = clone(model)
        assert again.get_params() == model.get_params()
        nested = TableModel(BOUNDS, LogisticRegression())
        nested.set_params(estimator__alpha=0.5, epsilon=3.0)
        assert nested.estimator.alpha == 0.5
        assert "TableModel(" in repr(again)
        for family, kind in (("auto", LogisticRegression), ("svm", LinearSVC)):
            search = clone(TableModel(BOUNDS, family)).set_params(estimator__alpha=0.5)
            assert type(search.estimator) is kind and search.estimator.alpha == 0.5
        with pytest.raises(ValueError, match="LogisticRegression has no parameter 'C'"):
            TableModel(BOUNDS).set_params(estimator__C=1.0)

    def test_fit_leaves_parameters_alone(self, table):
        inner = LogisticRegression(alpha=0.01)
        model = TableModel(BOUNDS, inner, random_state=0).fit(table)
        assert model.estimator is inner
        assert not hasattr(inner, "coef_")
        assert inner.data_norm is None

    @pytest.mark.parametrize("bounds", [None, "nowhere.json", {"target": "ill"}])
    def test_a_notebook_shows_it_whatever_its_bounds(self, bounds):
        model = TableModel(bounds)
        assert "TableModel" in model._repr_html_()
        assert not is_classifier(model)
        with pytest.raises(NotFittedError):
            model.predict({"age": [30]})

    def test_an_order_of_classes_that_scikit_learn_does_not_expect_is_said(self, table):
        X, y = table.drop(columns="ill"), table["ill"].map({"no": "nein", "yes": "ja"})
        for classes, said in ((["nein", "ja"], True), (["ja", "nein"], False)):
            model = TableModel({**BOUNDS, "ill": classes})
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                model.prepare(X, y)
                model.prepare(X.assign(ill=y))
            assert [each.category for each in seen] == [QuestionableSettingWarning] * said

    def test_a_pipeline_of_frames(self, table):
        X, y = table.drop(columns="ill"), table["ill"]
        steps = FunctionTransformer(lambda X: X.assign(age=X["age"] + 1)), TableModel(BOUNDS)
        model = make_pipeline(*steps).set_output(transform="pandas").fit(X, y)
        encoded = model.transform(X[5:7])
        assert list(encoded) == list(model[-1].get_feature_names_out())
        assert list(encoded.index) == [5, 6]
        assert steps[1].transform(table.head(2).to_dict("list")).shape == (2, 5)

    def test_cross_validation_and_search(self, table):
        X, y = table.drop(columns="ill"), table["ill"]
        model = TableModel(BOUNDS, LogisticRegression(), epsilon=4.0, random_state=0)
        assert cross_val_score(model, X, y, cv=3).min() > 0.6
        search = GridSearchCV(model, {"estimator__alpha": [1e-4, 10.0]}, cv=2).fit(X, y)
        assert search.best_params_ == {"estimator__alpha": 1e-4}

    @pytest.mark.parametrize("copy", [
        lambda model, path: pickle.loads(pickle.dumps(model)),
        lambda model, path: joblib.load(joblib.dump(model, path)[0]),
    ], ids=["pickle", "joblib"])  # fmt: skip
    def test_copies_predict_the_same_and_hold_no_rows(self, model, table, tmp_path, copy):
        again = copy(model, tmp_path / "m.joblib")
        np.testing.assert_array_equal(again.predict(table), model.predict(table))
        assert again.privacy_ == model.privacy_
        assert len(pickle.dumps(model)) < 50_000

    def test_what_was_never_declared_is_not_remembered(self, table):
        odd = table.assign(city=["Secretville", *["Bonn"] * (len(table) - 1)])
        model = fitted(odd, undeclared="ignore")
        model.predict(odd)
        assert b"Secretville" not in pickle.dumps(model)
        assert "Secretville" not in str(vars(model))

    def test_skops(self, model, table, tmp_path):
        io = pytest.importorskip("skops.io")
        io.dump(model, tmp_path / "m.skops")
        trusted = io.get_untrusted_types(file=tmp_path / "m.skops")
        assert all(name.startswith(("dpfast.", "numpy.")) for name in trusted), trusted
        again = io.load(tmp_path / "m.skops", trusted=trusted)
        np.testing.assert_array_equal(again.predict(table), model.predict(table))
        assert again.privacy_ == model.privacy_

    def test_epsilon_can_be_read_from_the_object(self, model, tmp_path):
        """By a tool that knows nothing of dpfast, before and after a round trip."""
        model.save(tmp_path / "m.json")
        for found in (model, TableModel.load(tmp_path / "m.json")):
            assert found.epsilon == pytest.approx(2.0)
            assert found.privacy_.epsilon <= 2.0
            record = json.loads(found.privacy_.to_json())
            assert record["epsilon"] == found.privacy_.epsilon

    def test_not_fitted(self):
        model = TableModel(BOUNDS)
        for action in (model.predict, model.transform, model.evaluate):
            with pytest.raises(NotFittedError):
                action({"age": [1]})
        with pytest.raises(NotFittedError):
            model.save("x.json")


def test_it_is_on_the_front():
    assert dpfast.TableModel is TableModel


class TestStandardErrors:
    @pytest.fixture
    def model(self, table):
        bounds = {name: BOUNDS[name] for name in ("age", "smoker", "ill", "target")}
        bounds["sector"] = ["a", "b", "c"]
        sector = np.random.default_rng(2).choice(["a", "b", "c"], len(table))
        settings = {"epsilon": 5.0, "neighboring_relation": "add_or_remove_one"}
        estimator = LogisticRegression(inference=True)
        return fitted(table.assign(sector=sector), bounds=bounds, estimator=estimator, **settings)

    def test_they_have_the_names_of_the_encoded_columns(self, model):
        assert model.summary().estimates.names == (
            *("age", "smoker", "sector_b", "sector_c", "Intercept"),
        )

    def test_categories_are_compared_with_the_first(self, model):
        # Columns of all categories add up to the intercept's, and none would have an error.
        found = model.summary()
        assert ("References", "sector: a") in found.facts
        assert np.isfinite(found.estimates.errors).all()

    def test_effects_are_in_the_units_of_the_table(self, model):
        found, encoded = model.summary(), model.estimator_.summary().numbers()
        factors = np.array([2.0 / 72.0, 2.0, 1.0, 1.0, 1.0])  # age from 18 to 90; smoker is -1 or 1
        for name in ("coef", "std err", "[0.025", "0.975]"):
            np.testing.assert_allclose(found.numbers()[name], factors * encoded[name])
        np.testing.assert_allclose(found.numbers()["z"], encoded["z"])
        # What the table was made with: a truth value's odds ratio is not that of half the way.
        young, old = (
            {"age": [age], "smoker": [smoker], "sector": ["a"]}
            for age, smoker in ((40, False), (41, True))
        )
        apart = model.decision_function(old) - model.decision_function(young)
        assert apart[0] == pytest.approx(found.numbers()["coef"][:2].sum())
        assert "true against false" in str(found)

    def test_a_file_has_them(self, model, tmp_path):
        model.save(tmp_path / "m.json")
        again = TableModel.load(tmp_path / "m.json")
        assert str(again.summary()) == str(model.summary())
        np.testing.assert_array_equal(again.estimator_.cov_params_, model.estimator_.cov_params_)

    def test_a_file_has_parameters_of_numpy(self, table, tmp_path):
        bounds = {"age": [18, 90], "cost": [0, 5000], "target": "cost"}
        for kind, name, value in (
            (LinearRegression(inference=True), "fit_intercept", np.bool_(False)),
            (QuantileRegressor(), "quantile", np.float32(0.75)),
        ):
            kind.set_params(**{name: value})
            model = fitted(table, bounds=bounds, estimator=kind, epsilon=8.0)
            model.save(tmp_path / "m.json")
            assert getattr(TableModel.load(tmp_path / "m.json").estimator, name) == value

    @pytest.mark.parametrize("in_memory", [True, False])
    def test_exposures_are_part_of_the_row_and_weights_are_refused(self, in_memory):
        rng = np.random.default_rng(4)
        x, exposure = rng.uniform(-1.0, 1.0, 9000), rng.uniform(0.1, 2.0, 9000)
        y = rng.poisson(exposure * np.exp(0.6 * x + 0.5))
        table = {"x": x, "y": y, "long": exposure, "weight": np.ones(9000)}
        bounds = {"x": {"range": [-9, 9], "learn": True}, "y": {"range": [0, 60]}, "target": "y"}
        settings = {"estimator": PoissonRegressor(inference=True), "in_memory": in_memory}
        settings |= {"epsilon": 9.0, "random_state": 0}
        watched = {**bounds, "long": [0, 2], "exposure": "long"}
        model = TableModel(watched, **settings).fit(table)
        numbers = model.summary().numbers()
        z = (numbers["coef"] - np.array([0.6, 0.5])) / numbers["std err"]
        assert np.all(np.abs(z) < 4.5)
        weighted = {**bounds, "weight": [0, 2]}
        with BudgetAccountant(Budget(20.0, 1e-5)) as account:
            with pytest.raises(ValueError, match="'weight' must be left out with inference=True"):
                TableModel(weighted, weight="weight", **settings).fit(table)
            assert account.events == ()

    def test_a_fit_without_them_says_so(self, table):
        with pytest.raises(AttributeError, match="inference=True"):
            fitted(table).summary()


class TestPersons:
    """Rows of one person, by a column that says whose they are."""

    @pytest.fixture
    def visits(self, table):
        rng = np.random.default_rng(1)
        who = rng.permutation(np.repeat(np.arange(900), rng.integers(1, 9, 900))[: len(table)])
        return table.iloc[: len(who)].assign(who=[f"p{k}" for k in who])

    def test_the_guarantee_is_for_persons(self, visits, tmp_path):
        model = fitted(visits, bounds={**BOUNDS, "person": "who"})
        persons = visits["who"].nunique()
        assert model.privacy_.unit == "group"
        assert model.score(visits) > 0.6
        settled = TableModel(BOUNDS, person="who").prepare(visits)
        assert settled.n_samples == settled.plan.shape.n_samples == persons
        assert str(settled.plan).startswith(f"{persons:,} persons, 4 columns")
        assert f"{len(visits):,}" not in str(settled.plan)
        model.save(tmp_path / "m.json")
        again = TableModel.load(tmp_path / "m.json")
        assert again.privacy_ == model.privacy_
        assert again.neighboring_relation == "replace_one"
        np.testing.assert_array_equal(again.predict(visits), model.predict(visits))

    def test_a_file_gives_the_same_model(self, visits, tmp_path):
        visits.to_csv(tmp_path / "t.csv", index=False)
        one, two = (fitted(data, person="who") for data in (visits, tmp_path / "t.csv"))
        np.testing.assert_array_equal(one.coef_, two.coef_)

    def test_rows_in_blocks_give_the_same_model_in_whichever_order(self, visits, monkeypatch):
        monkeypatch.setattr(fitting_room, "_BLOCK_ENTRIES", 512)
        monkeypatch.setattr(rows_room, "_SORTED_BYTES", 2**12)
        memory = fitted(visits, person="who")
        shuffled = visits.sample(frac=1.0, random_state=1)
        for data in (visits, shuffled, visits.sort_values("who")):
            blocks = fitted(data, person="who", in_memory=False)
            np.testing.assert_allclose(blocks.coef_, memory.coef_, rtol=0.0, atol=2e-3)
        settled = TableModel(BOUNDS, person="who", in_memory=False).prepare(shuffled)
        assert "(read in blocks)" in str(settled.plan)
        assert settled.plan.shape.blocks.count > 1
        fewer = TableModel(BOUNDS, person="who", in_memory=False).prepare(
            visits.drop_duplicates("who")
        )
        assert str(fewer.plan) == str(settled.plan)
        assert fewer.plan.shape == settled.plan.shape

    def test_whether_rows_come_in_blocks_follows_from_the_number_of_persons(self, visits):
        model = TableModel(BOUNDS, person="who")
        assert model.plan(10**5).in_memory
        assert not model.plan(10**6).in_memory

    def test_ranges_are_learned_of_persons(self, visits):
        bounds = {**BOUNDS, "age": {"range": [-1e6, 1e6], "learn": True}}
        model = fitted(visits, bounds=bounds, person="who", epsilon=4.0)
        low, high = model.learned_ranges["age"]
        assert -100 < low < 30
        assert 80 < high < 200
        assert model.privacy_.unit == "group"
        assert model.privacy_.epsilon <= 4.0
        again = fitted(
            visits.sample(frac=1.0, random_state=1),
            bounds=bounds, person="who", epsilon=4.0, in_memory=False,
        )  # fmt: skip
        assert again.learned_ranges == model.learned_ranges

    def test_one_row_a_person_is_a_row(self, table, model):
        named = table.assign(who=np.arange(len(table)))
        found = fitted(named, person="who", max_rows_per_group=1)
        np.testing.assert_array_equal(found.coef_, model.coef_)

    def test_a_delta_above_one_over_the_persons_is_refused(self, visits):
        with pytest.raises(ValueError, match="delta must be below one over the number of groups"):
            fitted(visits, person="who", delta=1e-2)

    @pytest.mark.parametrize(
        "name", ["", "  ", "NA", "nan", None, float("nan"), pd.NA, pd.NaT, "<NA>"]
    )
    def test_a_row_without_a_person_is_refused(self, visits, name):
        who = pd.Series([name, *visits["who"][1:]], dtype=object)
        with pytest.raises(DataError, match=r"row 1 .*whose row it is.*Give every row an id"):
            fitted(visits.assign(who=who), person="who")

    def test_dates_and_numbers_may_be_persons_and_fractions_not(self, visits):
        numbers = visits["who"].astype("category").cat.codes
        dates = pd.Timestamp("1950-01-01") + pd.to_timedelta(numbers, "D")
        one, two = (fitted(visits.assign(who=who), person="who") for who in (numbers, dates))
        assert one.privacy_.epsilon == two.privacy_.epsilon
        with pytest.raises(DataError, match=r"row 3 .*whose row it is"):
            fitted(visits.assign(who=dates.where(numbers.index != 2)), person="who")
        for part in (0.5, np.inf):
            with pytest.raises(DataError, match=r"row 2 .*got no whole number"):
                who = numbers + np.where(numbers.index == 1, part, 0)
                fitted(visits.assign(who=who), person="who")

    @pytest.mark.parametrize("form", ["ns", "us", "objects", "parquet"])
    def test_times_that_would_become_one_person_are_refused(self, visits, tmp_path, form):
        moments = pd.Timestamp("1950-01-01") + pd.to_timedelta(np.arange(len(visits)), "s")
        for part, cut in ((0, False), (1000, True)):
            who = moments + pd.to_timedelta(np.where(np.arange(len(visits)) == 4, part, 0), "us")
            data = visits.assign(who=who.astype("datetime64[us]" if form == "us" else who.dtype))
            if form == "objects":
                data["who"] = pd.Series(who.to_pydatetime(), dtype=object, index=data.index)
            if form == "parquet":
                data.to_parquet(tmp_path / "visits.parquet")
                data = tmp_path / "visits.parquet"
            if cut:
                with pytest.raises(DataError, match=r"row 5 .*fraction of a second.*as text"):
                    fitted(data, person="who")
            else:
                assert fitted(data, person="who").privacy_.unit == "group"

    @pytest.mark.parametrize("form", ["list of datetime64", "list", "objects"])
    def test_times_with_parts_of_a_microsecond_are_refused(self, visits, form):
        moments = pd.Timestamp("1950-01-01") + pd.to_timedelta(np.arange(len(visits)), "s")
        for part, cut in ((0, False), (1, True)):
            who = moments + pd.to_timedelta(np.where(np.arange(len(visits)) == 4, part, 0), "ns")
            ids = list(who.to_numpy()) if form == "list of datetime64" else list(who)
            if form == "objects":
                data = visits.assign(who=pd.Series(ids, dtype=object, index=visits.index))
            else:
                data = {**{name: visits[name] for name in visits}, "who": ids}
            if cut:
                with pytest.raises(DataError, match=r"parts of a microsecond.*as text"):
                    fitted(data, person="who")
            else:
                assert fitted(data, person="who").privacy_.unit == "group"

    def test_the_type_of_an_id_makes_no_second_person_of_one(self, visits, tmp_path):
        codes = visits["who"].astype("category").cat.codes
        many = codes.nunique()
        model = TableModel(BOUNDS, person="who")
        mixed = [float(code) if code % 2 else int(code) for code in codes]
        visits.assign(who=[*codes[:100].map("{}.0".format), *codes[100:]]).to_csv(
            tmp_path / "t.csv", index=False
        )
        tables = visits.assign(who=pd.Series(mixed, dtype=object)), tmp_path / "t.csv"
        assert [model.prepare(data).n_samples for data in tables] == [many, many]
        # 7 or "007"?
        ids = [*codes[:100].tolist(), *codes[100:].map("{:03d}".format)]
        for table in (
            visits.assign(who=pd.Series(ids, dtype=object)),
            visits.assign(who=pd.Categorical(ids)),
            {**visits, "who": ids},
            {**visits, "who": pl.Series(ids, dtype=pl.Object)},
        ):
            for read in (model.prepare, model.check):
                with pytest.raises(DataError, match=r"'who': expected ids of one type.*as text"):
                    read(table)

    def test_a_letter_and_its_accent_make_no_second_person_of_one(self, visits):
        who = visits["who"].str.replace("p", "\u00e9").to_list()
        who[::2] = [name.replace("\u00e9", "e\u0301") for name in who[::2]]
        settled = TableModel(BOUNDS, person="who").prepare(visits.assign(who=who))
        assert settled.n_samples == visits["who"].nunique()

    def test_persons_in_an_arrow_array(self, visits):
        arrow = pytest.importorskip("pyarrow")
        model, who = TableModel(BOUNDS, person="who"), visits["who"].tolist()
        found = model.prepare({**visits, "who": arrow.array(who)})
        assert found.n_samples == len(set(who))
        with pytest.raises(DataError, match=r"row 1 .*Give every row an id"):
            model.prepare({**visits, "who": arrow.array([None, *who[1:]])})

    def test_persons_whose_numbers_would_be_rounded_are_refused(self, visits):
        codes = visits["who"].astype("category").cat.codes.to_numpy(np.int64)
        many = len(np.unique(codes))
        for numbers in (codes + 2**60, codes + 2.0**40, codes.astype(np.float32)):
            table = visits.assign(who=numbers)
            assert TableModel(BOUNDS, person="who").prepare(table).n_samples == many
        decimals = [Decimal(2**60 + int(code)) for code in codes]
        for numbers in (decimals, codes + 2.0**60, np.float32(codes + 2**24)):
            with pytest.raises(DataError, match=r"row 1 .*a number that float.. rounds.* as text"):
                fitted(visits.assign(who=numbers), person="who")
