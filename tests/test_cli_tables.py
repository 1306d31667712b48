"""From a table to a release by the command line: families, roles, accounts, what is said."""

import json
import os
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpfast import Budget, BudgetAccountant, cli
from dpfast.privacy.open_accounts import ENTERED
from dpfast.tabular import FAMILIES, TableFit, TableModel
from dpfast.tabular import model as model_room


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 3000
    age, dose = rng.integers(18, 91, n), rng.normal(50.0, 10.0, n)
    score = (age - 50) / 15 + (dose - 50) / 20
    return pd.DataFrame(
        {
            "id": np.arange(n) + 10_000,
            "age": age,
            "dose": dose.round(3),
            "ward": rng.choice(["A", "B", "C"], n),
            "ill": np.where(score + rng.logistic(size=n) > 0, "TRUE", "FALSE"),
            "grade": np.clip(np.round(score + rng.normal(size=n)), -1, 1).astype(int) + 1,
            "cost": (1000 + 400 * score + rng.normal(0, 100, n)).round(2),
            "w": rng.choice([1, 2], n),
        }
    )


BOUNDS = {
    "age": [18, 90],
    "dose": {"range": [0, 1e5], "learn": True},
    "ward": ["a", "b", "c"],
    "ill": [False, True],
    "target": "ill",
}


@pytest.fixture
def run(table, tmp_path, monkeypatch, capsys):
    """Runs a command in a folder with the table and its bounds; returns code, out and err."""
    monkeypatch.chdir(tmp_path)
    table.to_csv("t.csv", index=False)

    def run(*arguments, bounds=BOUNDS):
        with open("b.json", "w") as stream:
            json.dump(bounds, stream)
        code = cli.main([*map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


FIT = ("fit", "t.csv", "--bounds", "b.json", "--epsilon", 2, "--delta", 1e-6, "-o", "m.json")


def regression(**target):
    rest = {name: entry for name, entry in BOUNDS.items() if name != "ill"}
    return {**rest, "cost": {"range": [-1e6, 1e6], "learn": True, **target}, "target": "cost"}


class TestForm:
    """CSV files that are not written with commas between fields and points in numbers."""

    def test_declared_or_given(self, run, table):
        table = table.rename(columns={"dose": "größe"})
        table.to_csv("t.csv", sep=";", decimal=",", encoding="cp1252", index=False)
        table.to_csv("u.csv", index=False)
        bounds = {**BOUNDS, "größe": [0, 100]}
        del bounds["dose"]
        given = ("--separator", ";", "--decimal", ",", "--encoding", "cp1252")
        declared = {"separator": ";", "decimal": ",", "encoding": "cp1252", **bounds}
        for options, file in (((), declared), (given, bounds)):
            assert run("check", "t.csv", "--bounds", "b.json", *options, bounds=file)[0] == 0
            code, _, err = run(*FIT, "--test", "t.csv", "--seed", 0, *options, bounds=file)
            assert code == 0, err
            model = json.loads(Path("m.json").read_text())
            assert (
                declared.items()
                >= {
                    name: model["schema"][name] for name in ("separator", "decimal", "encoding")
                }.items()
            )
            assert run("predict", "m.json", "t.csv", "-o", "p.csv")[0] == 0
            assert run("predict", "m.json", "u.csv", "-o", "q.csv", "--separator", ",")[0] == 0
            # Predictions are written as the table is.
            found = pd.read_csv("p.csv", sep=";", decimal=",", encoding="cp1252")
            pd.testing.assert_frame_equal(found, pd.read_csv("q.csv"))
            assert run("certify", "m.json")[0] == 0
        code, _, err = run("predict", "m.json", "u.csv", "-o", "q.csv")
        assert code == 2 and 'there are commas. Declare "separator": ","' in err
        code, _, err = run("check", "t.csv", "--bounds", "b.json", "--separator", "tab", *given[4:])
        assert code == 2 and "Tabs must separate names; there are semicolons" in err


class TestFit:
    def test_three_commands_and_no_bound_twice(self, run):
        code, out, err = run(*FIT, "--test", "t.csv")
        assert code == 0
        assert err.splitlines() == [
            "note: not in b.json, so not used: id, grade, cost, w",
            "note: the guarantee is for one row. If a person has several, name the column of their "
            "ids (id?) by --person.",
            "note: the test rows are those of the fit; fresh ones tell how good a model is.",
        ]
        assert "True against False; family 'logistic'" in out
        assert "Ranges learned within this budget: dose [" in out
        for column in ("accuracy", "AUC", "recall", "log loss", "deviance explained"):
            assert column in out
        code, _, err = run("predict", "m.json", "t.csv", "-o", "p.csv", "--id", "id,ward")
        assert code == 0
        assert "'probability' is that of True" in err
        found = pd.read_csv("p.csv")
        assert list(found) == ["id", "ward", "prediction", "probability"]
        assert found["id"].tolist() == list(range(10_000, 13_000))

    def test_too_few_rows_are_told_of(self, run, table):
        table.head(30).to_csv("t.csv", index=False)
        bounds = BOUNDS | {"dose": [0, 100]}
        _, _, err = run(*FIT, bounds=bounds)
        assert "30 rows are too few for this budget to learn much more than a constant" in err

    def test_standard_errors(self, run):
        bounds = {name: BOUNDS[name] for name in ("age", "ward", "ill", "target")}
        command = (*FIT, "--epsilon", 5, "--set", "inference=True", "--json")
        code, out, err = run(*command, bounds=bounds)
        assert code == 0, err
        found = {record["name"]: record for record in json.loads(out)["coefficients"]}
        assert list(found) == ["age", "ward_b", "ward_c", "Intercept"]
        for record in found.values():
            assert record["refused"] == "" and record["lower"] < record["coef"] < record["upper"]
        code, out, _ = run(*command[:-1], "--output", "n.json", bounds=bounds)
        assert code == 0
        assert "References  ward: a" in out and "std err" in out

    def test_exposure(self, run, table):
        """In the declaration or beside it; what is predicted grows with the exposure."""
        years = np.arange(1, len(table) + 1) / len(table)
        table.assign(years=years, claims=(3 * years).round()).to_csv("claims.csv", index=False)
        bounds = {"age": [18, 90], "years": [0, 1], "claims": [0, 20], "target": "claims"}
        command = ("fit", "claims.csv", *FIT[2:], "--family", "poisson", "--test", "claims.csv")
        code, out, err = run(*command, "--exposure", "years", "--json", bounds=bounds)
        assert code == 0, err
        scores = json.loads(out)["test"]
        assert abs(scores["constant"]["deviance_explained"]) < 1e-9
        assert run("predict", "m.json", "claims.csv", "-o", "p.csv")[0] == 0
        rates = pd.read_csv("p.csv")["prediction"] / years
        assert rates.max() < 5.0 and rates.min() > 2.0
        assert run(*command, bounds={**bounds, "exposure": "years"})[0] == 0

    def test_persons(self, run, table):
        who = np.repeat(np.arange(1000), 3)
        table.assign(who=who).to_csv("visits.csv", index=False)
        bounds = BOUNDS | {"dose": [0, 100]}
        command = ("fit", "visits.csv", *FIT[2:], "--person", "who")
        code, out, err = run(*command, bounds=bounds)
        assert code == 0, err
        assert "visits.csv: 1,000 persons, 3 columns" in out
        assert "the guarantee is for one row" not in err
        assert "replace_one: all rows of one person replaced by any others" in out
        assert "all rows of any one group (person)" in out
        assert "3,000" not in out
        code, out, _ = run(*command, "--json", bounds=bounds)
        document = json.loads(out)
        assert document["persons"] == 1000 and "rows" not in document
        assert document["privacy"]["neighboring_relation"] == "replace_one_group"
        code, out, _ = run("certify", "m.json")
        assert code == 0
        assert "All rows of a person together are protected" in out
        plan = ("plan", "--rows", 1000, "--bounds", "b.json", "--person", "who", "--epsilon", 1)
        code, out, err = run(*plan, "--delta", 1e-6, bounds=bounds)
        assert code == 0, err
        assert "1,000 persons x" in out
        declared = run(*command[:-2], bounds={**bounds, "person": "who"})
        assert declared[0] == 0 and "1,000 persons" in declared[1]

    def test_persons_of_a_large_table(self, run, table, monkeypatch):
        """It is read in blocks, in whichever order the rows are, and ranges are of persons."""
        monkeypatch.setattr("dpfast.tabular.model._HELD_BYTES", 1000)
        visits = table.assign(who=np.repeat(np.arange(1000), 3)).sample(frac=1.0, random_state=0)
        visits.to_csv("visits.csv", index=False)
        command = ("fit", "visits.csv", *FIT[2:], "--person", "who")
        code, out, err = run(*command, bounds={**BOUNDS, "learn_share": 0.3})
        assert code == 0, err
        assert "note: the encoded rows are read in blocks." in err
        assert "1,000 persons" in out
        assert "Ranges learned within this budget: dose" in out
        assert "3,000" not in out

    def test_solvers_that_need_the_most_rows_of_a_person(self, run, table):
        table.assign(who=np.repeat(np.arange(1000), 3)).to_csv("visits.csv", index=False)
        bounds = BOUNDS | {"dose": [0, 100]}
        command = ("fit", "visits.csv", *FIT[2:], "--person", "who")
        command = (*command, "--solver", "output-perturbation")
        code, _, err = run(*command, bounds=bounds)
        assert code == 2 and "max_rows_per_group must be given" in err
        assert run(*command, "--max-rows-per-person", 3, bounds=bounds)[0] == 0

    @pytest.mark.parametrize("family", FAMILIES)
    def test_every_family(self, run, table, family):
        classes = family in ("logistic", "svm")
        bounds = BOUNDS if classes else regression()
        if family in ("poisson", "gamma", "tweedie", "negative-binomial"):
            bounds = regression(range=[1, 1e6])
            assert run(*FIT, "--family", family, "--test", "t.csv", bounds=bounds)[0] == 0
            table.assign(cost=table["cost"].clip(lower=1.0)).to_csv("t.csv", index=False)
        more = ("--quantile", 0.8) if family == "quantile" else ()
        code, out, _ = run(
            *FIT, "--family", family, "--test", "t.csv", "--json", *more, bounds=bounds
        )
        assert code == 0
        document = json.loads(out)
        assert document["family"] == family
        private = document["test"]["private"]
        if family == "quantile":
            assert 0.6 < private["share_below"] < 0.95
            assert set(private) == {"pinball_loss", "share_below", "deviance_explained"}
        assert private["accuracy"] > 0.7 if classes else private["deviance_explained"] > 0.2
        code, _, err = run("predict", "m.json", "t.csv", "-o", "p.csv")
        assert (code, err.startswith("3,000 predictions of")) == (0, True)

    def test_a_count_is_compared_by_its_deviance(self, run, table):
        """Also scikit-learn's model, which does not say its deviance by itself."""
        rng = np.random.default_rng(1)
        cost = rng.poisson(np.exp(table["age"] / 30))
        table.assign(cost=cost).to_csv("t.csv", index=False)
        bounds = regression(range=[0, 100], learn=False)
        code, out, err = run(
            *FIT, "--family", "poisson", "--test", "t.csv", "--json", bounds=bounds
        )
        assert code == 0
        assert "note: the test rows are those of the fit" in err
        scores = json.loads(out)["test"]
        usual, private = scores["non_private"], scores["private"]
        assert usual["deviance_explained"] != pytest.approx(usual["r2"], abs=1e-6)
        assert usual["deviance_explained"] >= private["deviance_explained"] - 1e-6

    def test_test_rows_without_scores_lose_no_report(self, run, tmp_path):
        table = pd.read_csv("t.csv")
        table.assign(cost=np.where(table.index > 5, 1.0 + table["age"], 0.0)).to_csv(
            "t.csv", index=False
        )
        bounds = regression(range=[1, 100], learn=False)
        code, out, err = run(*FIT, "--family", "gamma", "--test", "t.csv", bounds=bounds)
        assert code == 0
        assert "t.csv has no scores: the target 'cost' must hold numbers > 0" in err
        assert "Differential privacy with epsilon" in out and "Model written to" in out

    def test_several_classes(self, run):
        bounds = {**BOUNDS, "grade": [0, 1, 2], "target": "grade"}
        del bounds["ill"]
        code, out, _ = run(*FIT, "--test", "t.csv", "--json", bounds=bounds)
        assert code == 0
        scores = json.loads(out)["test"]
        assert scores["private"]["accuracy"] > scores["majority_class"]["accuracy"]
        assert set(scores["private"]) == {
            "accuracy", "auc", "recall", "precision", "log_loss", "deviance_explained",
        }  # fmt: skip
        assert run("predict", "m.json", "t.csv", "-o", "p.csv")[0] == 0
        found = pd.read_csv("p.csv")
        probabilities = found[[f"probability_{k}" for k in range(3)]]
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        assert (found["prediction"] == probabilities.to_numpy().argmax(axis=1)).all()

    def test_weights_and_further_parameters(self, run):
        bounds = {**BOUNDS, "w": [0, 2]}
        code, out, _ = run(
            *FIT, "--weight", "w", "--set", "intercept_scaling=0.5", "--json", bounds=bounds
        )
        assert code == 0
        model = TableModel.load("m.json")
        assert model.schema_.weight.name == "w"
        assert model.estimator_.intercept_scaling == 0.5
        assert json.loads(out)["unused_columns"] == ["id", "grade", "cost"]

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            (("--family", "logit"), "got 'logit' (str). Did you mean 'logistic'?"),
            (("--family", "linear"), "target 'ill': expected its range"),
            (("--quantile", "0.5"), "the family 'logistic' has no parameter 'quantile'"),
            (("--set", "x=1"), "the family 'logistic' has no parameter 'x'"),
            (("--set", "inferences=1"), " Did you mean 'inference'?"),
            (
                ("--family", "svm", "--set", "cov_type=cluster"),
                "(cov_type: a kind of standard errors, which come with inference.)",
            ),
            (("--set", "x"), "expected NAME=VALUE"),
            (("--set", "solver=dp-sgd"), "solver must be set by --solver"),
            (("--set", "n_jobs=2"), "n_jobs must be set by --jobs"),
            (("--set", "epsilon=3"), "epsilon must be set by --epsilon"),
            (("--set", "threshold=0.3", "--set", "threshold=0.4"), "set once"),
            (("--set", "fit_intercept=maybe"), "fit_intercept must be True or False"),
            (("--set", "cov_type=x"), "cov_type must be one of"),
            (("--set", "class_weight=x"), "class_weight must be"),
            (("--set", "data_norm=2"), "data_norm must be left out"),
            (("--solver", "newton"), "solver must be one of"),
            (("--set", 'solver_options={"step": 1, "iteration": 9}'), "Did you mean 'iterations'?"),
            (("--set", 'solver_options={"iterations": -1}'), "iterations"),
            (("--threshold", "0.3"), "--threshold must come with --test"),
            (("--threshold", "balanced"), "'dpfast fit --set threshold=balanced' learns one"),
            (("--max-rows-per-person", "3"), "--max-rows-per-person must come with --person"),
            (("--account-budget", "3,1e-5"), "--account-budget must come with --account"),
            (("--account", "a.json"), "there is no account a.json yet"),
            (("--account", "a.json", "--account-budget", "3"), "expected epsilon and delta as in"),
            (("--account", "b.json"), "b.json is not a valid account"),
        ],
        ids=str,
    )
    def test_settings_are_checked_before_it_says_that_it_spends(self, run, more, expected):
        code, out, err = run(*FIT, *more)
        assert code == 2
        assert "About to spend" not in out
        assert expected in err.splitlines()[-1]

    def test_what_was_never_declared_is_said_of_test_rows_only(self, run):
        bounds = {**BOUNDS, "ward": ["A", "B"], "age": [30, 90]}
        code, _, err = run(*FIT, "--test", "t.csv", bounds=bounds)
        assert code == 0
        (line,) = [line for line in err.splitlines() if line.startswith("warning:")]
        assert line.startswith("warning: t.csv: Values that were never declared, of 3,000:")
        assert "Outside the declared range" in line and "no guarantee covers it" in line

    def test_the_screen_of_a_fit_is_the_same_for_neighbors(self, run, table):
        screens = []
        for ages, wards in (([40, 50], ["A", "B"]), ([40, 5000], ["A", "nowhere"])):
            table.assign(age=[*ages, *table["age"][2:]], ward=[*wards, *table["ward"][2:]]).to_csv(
                "t.csv", index=False
            )
            code, out, err = run(*FIT, bounds={**BOUNDS, "dose": [0, 100]})
            assert code == 0
            screens.append((out, err))
        assert screens[0] == screens[1]


def test_a_plan_says_that_rows_are_read_anew(run):
    bounds = BOUNDS | {"dose": [0, 100]}
    for rows, said in ((3_000, False), (10**8, True)):
        command = ("plan", "--rows", rows, *FIT[2:-2], "--delta", 1e-9)
        code, out, err = run(*command, bounds=bounds)
        assert code == 0, err
        assert ("Rows in blocks are read and encoded anew in every pass" in out) is said


class TestCheck:
    """It looks at the rows without protection, and says so."""

    CHECK = ("check", "t.csv", "--bounds", "b.json")

    def test_all_was_declared(self, run):
        code, out, err = run(*self.CHECK)
        assert (code, err) == (0, "")
        assert out.startswith("t.csv: every value of 3,000 rows is as it was declared.")
        assert "WITHOUT PROTECTION" in out

    def test_counts(self, run, table):
        bounds = {**BOUNDS, "ward": ["A", "B"], "age": [30, 90]}
        code, out, _ = run(*self.CHECK, bounds=bounds)
        assert code == 0
        assert '"missing_values"' in out  # what codes for no value are declared by
        assert '{"boolean": ["nein", "ja"]}' in " ".join(out.split())
        assert "WITHOUT PROTECTION" in out and f"{(table['ward'] == 'C').sum():,}" in out
        code, out, err = run(*self.CHECK, "--json", "--fail-on-undeclared", bounds=bounds)
        found = json.loads(out)
        assert (code, found["covered_by_guarantee"], found["rows"]) == (4, False, 3000)
        assert found["undeclared"] == {"ward": int((table["ward"] == "C").sum())}
        assert found["outside_range"] == {"age": int((table["age"] < 30).sum())}
        assert err == "error: values were never declared, see above.\n"

    def test_flags_that_were_declared_as_numbers(self, run, table):
        table.assign(diabetic=table["age"] > 60, frail=(table["age"] > 50) * 1.0).to_csv(
            "t.csv", index=False
        )
        bounds = {**BOUNDS, "frail": [0, 1], "diabetic": [False, True]}
        code, out, _ = run(*self.CHECK, bounds=bounds)
        assert code == 0
        assert "only at the ends of their range: 'frail'. Where" in " ".join(out.split())
        assert json.loads(run(*self.CHECK, "--json", bounds=bounds)[1])["only_ends"] == ["frail"]

    def test_a_value_that_does_not_fit(self, run, table):
        table.assign(age="old").to_csv("t.csv", index=False)
        code, _, err = run(*self.CHECK)
        assert code == 2
        assert err.startswith("error: t.csv: column 'age', row 1 of the data")

    @pytest.mark.parametrize("name", ["parts", "parts.parquet"])
    def test_a_directory_is_no_file(self, run, name):
        Path(name).mkdir()
        code, _, err = run("check", name, *self.CHECK[2:])
        assert code == 2 and f"error: {name} must be one file; got a directory." in err


class TestPredict:
    @pytest.fixture
    def odd(self, run, table):
        assert run(*FIT)[0] == 0
        table.head(50).assign(ward=["Z"] * 7 + ["A"] * 43).to_csv("odd.csv", index=False)
        return run

    def test_undeclared_values_have_a_line_and_on_request_a_code(self, odd):
        predict = ("predict", "m.json", "odd.csv", "-o", "p.csv")
        code, _, err = odd(*predict)
        assert code == 0
        assert "warning: Values that were never declared, of 50: 7 in 'ward'" in err
        code, _, err = odd(*predict, "--fail-on-undeclared")
        assert code == 4
        assert len(pd.read_csv("p.csv")) == 50
        code, out, _ = odd(*predict, "--json")
        assert json.loads(out)["undeclared"] == {"ward": 7}
        assert odd("predict", "m.json", "t.csv", "-o", "p.csv", "--fail-on-undeclared")[0] == 0

    def test_threshold(self, odd):
        shares = []
        for threshold in ("0.1", "0.5", "0.9"):
            assert (
                odd("predict", "m.json", "t.csv", "-o", "p.csv", "--threshold", threshold)[0] == 0
            )
            found = pd.read_csv("p.csv")
            assert (found["prediction"] == (found["probability"] > float(threshold))).all()
            shares.append(found["prediction"].mean())
        assert shares[0] > shares[1] > shares[2]

    def test_the_threshold_is_that_of_the_test(self, odd):
        _, out, _ = odd(*FIT, "--test", "t.csv", "--threshold", "0.9", "--json")
        recall = json.loads(out)["test"]["private"]["recall"]
        odd("predict", "m.json", "t.csv", "-o", "p.csv", "--threshold", "0.9", "--id", "ill")
        found = pd.read_csv("p.csv")
        assert found["prediction"][found["ill"]].mean() == pytest.approx(recall)

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            (("--threshold", "1.5"), "threshold must be"),
            (("--id", "nope"), "lacks the column 'nope'"),
            (("-o", "p.xlsx"), "OUT must end in .csv, .csv.gz or .parquet; got 'p.xlsx'"),
            (("--id", "prediction"), "--id names prediction, which is a column of the predictions"),
        ],
    )
    def test_refused(self, odd, more, expected):
        code, _, err = odd("predict", "m.json", "t.csv", "-o", "p.csv", *more)
        assert code == 2
        assert expected in err

    def test_encoded_rows_are_not_kept(self, odd, monkeypatch):
        """With thousands of categories all of them took more memory than there is."""
        whole = TableModel.encoded

        def encoded(self, *arguments, **settings):
            kept = []
            for part in whole(self, *arguments, **settings):
                kept.append(weakref.ref(part.X))
                assert sum(X() is not None for X in kept) <= 3
                yield part
            assert len(kept) == 30

        monkeypatch.setattr(TableModel, "encoded", encoded)
        monkeypatch.setattr(model_room, "block_rows", lambda columns: 100)
        code, out, err = odd(*FIT, "--test", "t.csv")
        assert code == 0, err
        assert "not private (scikit-learn)" in out
        assert odd("predict", "m.json", "t.csv", "-o", "p.csv", "--id", "id,w")[0] == 0
        assert pd.read_csv("p.csv")["id"].tolist() == pd.read_csv("t.csv")["id"].tolist()

    def test_a_threshold_needs_two_classes_with_probabilities(self, odd):
        assert odd(*FIT, "--family", "svm")[0] == 0
        code, _, err = odd("predict", "m.json", "t.csv", "-o", "p.csv", "--threshold", "0.5")
        assert code == 2
        assert "threshold must be None except for two classes with probabilities" in err
        assert odd("predict", "m.json", "t.csv", "-o", "p.csv")[0] == 0
        assert list(pd.read_csv("p.csv")) == ["prediction", "margin"]

    def test_evaluate_scores_as_the_fit_and_as_python(self, odd):
        fit = (*FIT, "--test", "odd.csv", "--threshold", "0.9", "--json")
        expected = json.loads(odd(*fit)[1])["test"]["private"]
        evaluate, before = ("evaluate", "m.json", "odd.csv", "--threshold", "0.9"), os.listdir()
        code, out, err = odd(*evaluate, "--json")
        assert code == 0
        found = json.loads(out)
        assert found["scores"] == expected == TableModel.load("m.json").evaluate("odd.csv", 0.9)
        assert (found["rows"], found["undeclared"]) == (50, {"ward": 7})
        assert found["covered_by_guarantee"] is False
        assert "7 in 'ward'" in err
        code, out, _ = odd(*evaluate)
        assert code == 0
        assert "50 rows of odd.csv" in out and "NOT PRIVATE" in out and "precision" in out
        assert os.listdir() == before

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("t.csv", "--threshold", "5"), "threshold must be a real number in [0, 1]"),
            (("nope.csv",), "nope.csv: No such file"),
            (("t.csv", "--separator", ";"), "t.csv lacks the columns"),
        ],
    )
    def test_evaluate_refuses(self, odd, arguments, message):
        code, out, err = odd("evaluate", "m.json", *arguments)
        assert (code, out) == (2, "")
        assert message in err


def fails_in_charging(run, monkeypatch):
    def disk_is_full(*_):
        raise OSError(28, "No space left on device")

    def changed(fit):
        monkeypatch.setattr("dpfast.privacy.budget_accountant.atomic_writer", disk_is_full)
        return run(fit)

    return changed


class TestAccount:
    def test_ten_fits_add_up(self, run):
        account = ("--account", "a.json", "--account-budget", "3.8,1e-5", "--json")
        fit = [*FIT[:5], 0.3, "--delta", 1e-7, "-o", "m.json", "--solver", "output-perturbation"]
        bounds = {"age": [18, 90], "ill": [False, True], "target": "ill"}
        left = []
        for number in range(10):
            code, out, err = run(
                *fit, *(account if number == 0 else (*account[:2], "--json")), bounds=bounds
            )
            assert code == 0, err
            left.append(json.loads(out)["account"]["remaining"])
        assert left == sorted(left, reverse=True)
        assert left[-1] < 0.2 < 0.8 < left[0]
        code, out, err = run(*FIT, *account, bounds=bounds)
        assert code == 2
        assert "Budget(epsilon=3.8, delta=1e-05) cannot pay for this. Nothing was spent. Ask" in err
        assert json.loads(Path("a.json").read_text())["budget"]["epsilon"] == 3.8

    def test_it_says_what_is_left(self, run):
        _, out, _ = run(*FIT, "--account", "a.json", "--account-budget", "3,1e-5")
        assert "all its fits together stay within epsilon = 3" in out
        assert "% of its budget (epsilon = 3, delta = 1e-05) is left." in out
        # Of one that was begun in Python the budget may be of another kind.
        BudgetAccountant(Budget(rho=0.5), "r.json")
        _, out, _ = run(*FIT, "--account", "r.json")
        assert "stay within epsilon = 5.22" in out
        assert "% of its budget (rho = 0.5, delta = 1e-06) is left." in out

    def test_an_interrupt_between_two_accounts_is_one_after_spending(self, run, monkeypatch):
        def charges_one(fit):
            account, inner = ENTERED
            account.charge(fit.plan.events)
            assert inner.events == ()
            raise KeyboardInterrupt

        monkeypatch.setattr(TableFit, "run", charges_one)
        code, _, err = run(*FIT, "--account", "a.json", "--account-budget", "3,1e-5")
        assert code == 130
        assert err.endswith("interrupted. The budget was spent and stays spent.\n")

    def test_what_others_spend_meanwhile_is_not_spent_here(self, run, monkeypatch):
        original = TableFit.run

        def runs_after_another(fit):
            BudgetAccountant(Budget(2.5, 1e-5), "a.json").charge(fit.plan.events)
            return original(fit)

        monkeypatch.setattr(TableFit, "run", runs_after_another)
        code, _, err = run(*FIT, "--account", "a.json", "--account-budget", "2.5,1e-5")
        assert code == 2
        assert "Nothing was spent." in err
        assert "stays spent" not in err

    def test_a_charge_that_cannot_be_written_is_not_spent(self, run, monkeypatch):
        monkeypatch.setattr(TableFit, "run", fails_in_charging(TableFit.run, monkeypatch))
        code, _, err = run(*FIT, "--account", "a.json", "--account-budget", "3,1e-5")
        assert code == 2
        assert "No space left" in err
        assert "spent" not in err

    @pytest.mark.parametrize("refused", [{"target": "cost"}, {"ward": [0, 1]}, {}])
    def test_a_refused_fit_leaves_no_account_behind(self, run, refused):
        code, _, err = run(
            *FIT, "--account", "a.json", "--account-budget", "1,1e-5", bounds={**BOUNDS, **refused}
        )
        assert code == 2, err
        assert not list(Path().glob("a.json*"))
        assert run(*FIT, "--account", "a.json", "--account-budget", "3,1e-5")[0] == 0

    def test_another_budget_is_refused(self, run):
        run(*FIT, "--account", "a.json", "--account-budget", "3,1e-5")
        code, _, err = run(*FIT, "--account", "a.json", "--account-budget", "9,1e-5")
        assert code == 2
        assert "was begun with" in err

    def test_what_is_no_account(self, run):
        for content in (b"", b"{}", b"\xff\xfe"):
            Path("a.json").write_bytes(content)
            code, _, err = run(*FIT, "--account", "a.json")
            assert code == 2
            assert "error: a.json is not a valid account" in err


class TestPlan:
    def test_families_and_learned_ranges(self, run):
        plan = ("plan", "--rows", 3000, "--bounds", "b.json", "--epsilon", 2, "--delta", 1e-6)
        code, out, _ = run(*plan, "--json")
        assert code == 0
        events = json.loads(out)["events"]
        assert events[0]["where"] == "ranges of the columns"
        for family, loss in (("huber", "huber"), ("quantile", "pinball")):
            _, out, _ = run(*plan, "--family", family, "--json", bounds=regression())
            assert json.loads(out)["loss"] == loss
        code, _, err = run(*plan[:2], 40, *plan[3:])
        assert code == 2
        assert "40 rows are too few to learn the ranges of 1 column from" in err
        code, _, err = run(*plan, "--loss", "huber")
        assert "--loss follows from --bounds and --family" in err
        for ignored in (("--family", "huber"), ("--set", "inference=true"), ("--quantile", "0.9")):
            code, _, err = run("plan", "--rows", 40, "--columns", 3, *plan[5:], *ignored)
            assert code == 2
            assert "--family, --weight, --exposure, --person, --max-rows-per-person, --quan" in err


def known_ends(path):
    """How many ends of columns a model file holds: noise decides which."""
    ranges = TableModel.load(path).estimator_.column_ranges_
    return 0 if ranges is None else int(np.isfinite(ranges).sum())


class TestCertify:
    @pytest.fixture
    def model(self, run):
        assert run(*FIT)[0] == 0
        return run

    @pytest.mark.parametrize(
        ("more", "numbers"),
        # Three coefficients and an intercept, with two covariances of 4 x 4; four and one, with
        # that of the noise, 5 x 5, and a threshold.
        [(("--set", "inference=True"), 4 + 2 * 16), (("--set", "threshold=balanced"), 6 + 25)],
        ids=str,
    )
    def test_all_numbers_are_counted(self, run, more, numbers):
        bounds = {name: BOUNDS[name] for name in ("age", "ward", "ill", "target")}
        assert run(*FIT, "--epsilon", 5, *more, bounds=bounds)[0] == 0
        numbers += known_ends("m.json")
        assert f"numbers released: {numbers}\n" in run("certify", "m.json")[1]

    def test_words_json_and_picture(self, model):
        pytest.importorskip("matplotlib").use("Agg")
        from matplotlib import pyplot

        code, out, _ = model("certify", "m.json", "-o", "c.json", "--plot", "c.png")
        assert code == 0
        for text in (
            "What is released",
            "family: logistic",
            "target: ill",
            "columns: age, dose, ward",
            # Two ends of a range that was learned, and the covariance of the noise, among them.
            f"numbers released: {44 + known_ends('m.json')}",
            "A row of the table.",
            "14 x gaussian: ranges of the columns",
            "Not covered",
            "Questions of NIST SP 800-226",
            "Written to c.json.",
        ):
            assert text in out
        document = json.loads(Path("c.json").read_text())
        assert document["guarantee"]["epsilon"] == TableModel.load("m.json").privacy_.epsilon
        assert Path("c.png").stat().st_size > 10_000
        pyplot.close("all")
        code, out, _ = model("certify", "m.json", "--json", "-o", "c.txt")
        shown = json.loads(out)
        assert shown["subject"]["sha256"] == document["subject"]["sha256"]
        assert "Not covered" in Path("c.txt").read_text()

    def test_a_seeded_model_is_not_to_be_released(self, model):
        assert model(*FIT, "--seed", "1")[0] == 0
        code, out, _ = model("certify", "m.json")
        assert code == 0
        assert "Do not release." in out

    def test_what_is_no_model(self, model):
        for more, expected in (
            (("b.json",), "is not a valid dpfast model"),
            (("m.json", "--plot", "c.gif"), "--plot must end in .png, .pdf, .svg"),
            (("m.json", "-o", "nowhere/c.json"), "there is no directory"),
            (("m.json", "-o", "c.png", "--plot", "./c.png"), "give another name"),
        ):
            code, _, err = model("certify", *more)
            assert code == 2
            assert expected in err
