import argparse
import csv
import datetime
import io
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpfast import Budget, ProblemShape, __version__, cli, plan
from dpfast._files import checksum
from dpfast._table_files import read_csv, table_chunks
from dpfast.cli import _screen, bench, demo
from dpfast.cli import plan as plan_command
from dpfast.cli import solvers as solvers_command
from dpfast.cli._arguments import count
from dpfast.privacy.report import shares_told
from dpfast.solvers import SOLVERS
from dpfast.solvers.meanings import EXPECTED, SETTINGS
from dpfast.tabular import TableFit, TableModel, frames

BOUNDS = {"age": [20, 70], "city": ["A", "B", "C"], "label": ["no", "yes"]}


def write_rows(path, n, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 70, n)
    city = rng.choice(["A", "B", "C"], n)
    label = np.where(age + 20 * (city == "B") + rng.normal(0, 5, n) > 50, "yes", "no")
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["age", "city", "secret", "label"])
        writer.writerows(zip(age, city, rng.integers(0, 9, n), label, strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    write_rows(folder / "train.csv", 3_000, 0)
    write_rows(folder / "test.csv", 500, 1)
    (folder / "bounds.json").write_text(json.dumps(BOUNDS))
    return folder


@pytest.fixture
def fit_arguments(folder, tmp_path):
    def fit_arguments(*more, data=folder / "train.csv", bounds=folder / "bounds.json", **options):
        options = {"target": "label", "epsilon": "2", "delta": "1e-6", **options}
        named = [text for key, value in options.items() for text in (f"--{key}", value)]
        output = tmp_path / "model.json"
        return [*map(str, ["fit", data, "--bounds", bounds, *named, "-o", output, *more])]

    return fit_arguments


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")


def raising(error):
    def raise_it(*_, **__):
        raise error

    return raise_it


class Unwritable(io.StringIO):
    """A stream to a full disk."""

    def write(self, text):
        raise OSError(28, "No space left on device")


def assert_one_error_line(capsys, code, expected):
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    assert expected in line


class TestFit:
    def test_model_file_and_report(self, fit_arguments, tmp_path, capsys):
        assert cli.main(fit_arguments()) == 0
        out, err = capsys.readouterr()
        assert "3,000 rows, 2 columns, encoded as 4 features" in out
        assert "About to spend epsilon = 2, delta = 1e-06 on these rows (replace_one" in out
        assert out.index("About to spend") < out.index("Differential privacy with epsilon")
        assert "so not used: secret" in err
        model = TableModel.load(tmp_path / "model.json")
        assert model.schema_.feature_names == ["age", "city_A", "city_B", "city_C"]
        assert model.coef_[0, 0] > 0.0
        assert 0.0 < model.privacy_.epsilon <= 2.0
        assert not model.privacy_.reproducible
        # Everything that could be inferred from the data was declared.
        assert model.privacy_.notes == ()

    def test_noise_is_fresh(self, fit_arguments, tmp_path):
        coefs = []
        for _ in range(2):
            assert cli.main(fit_arguments()) == 0
            coefs.append(TableModel.load(tmp_path / "model.json").coef_)
        assert not np.equal(*coefs).any()

    def test_seed_repeats_and_is_marked(self, fit_arguments, tmp_path, capsys):
        models = []
        for _ in range(2):
            assert cli.main(fit_arguments(seed="7")) == 0
            models.append(TableModel.load(tmp_path / "model.json"))
        np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
        assert models[0].privacy_.reproducible
        assert "do not release" in capsys.readouterr().out

    def test_last_months_model_is_a_prior(self, fit_arguments, tmp_path, capsys):
        january, february = tmp_path / "january.json", tmp_path / "model.json"
        assert cli.main(fit_arguments(epsilon="0.2")) == 0
        january.write_bytes(february.read_bytes())
        assert cli.main(fit_arguments(epsilon="0.1", prior=str(january))) == 0
        said = "LogisticRegression read from january.json, whose own account protects its records"
        assert said in " ".join(capsys.readouterr().out.split())
        report = TableModel.load(february).privacy_
        assert said in report.prior
        assert cli.main(["certify", str(february), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["releasable"]
        assert found["privacy"]["prior"] == report.prior
        assert found["subject"]["numbers_released"] == 5 + 25
        plan = ["plan", *fit_arguments(prior=str(january))[2:-2], "--rows", "500"]
        assert cli.main(plan) == 0
        out = capsys.readouterr().out
        assert "No forecast" in out and "prior_rows_per_weight" in out

    def test_a_prior_that_does_not_fit_is_refused_before_anything_is_spent(
        self, fit_arguments, tmp_path, capsys
    ):
        january = tmp_path / "january.json"
        assert cli.main([*fit_arguments()[:-1], str(january)]) == 0
        other = tmp_path / "other.json"
        other.write_text(json.dumps(BOUNDS | {"age": [0, 99]}))
        capsys.readouterr()
        code = cli.main(fit_arguments(bounds=other, prior=str(january)))
        assert_one_error_line(
            capsys, code, "'age' as {\"range\": [0.0, 99.0]}, where the prior has"
        )
        code = cli.main([*fit_arguments(prior=str(january))[:-1], str(january)])
        assert_one_error_line(capsys, code, "must not be written in the place of what is read")
        document = json.loads(january.read_text())
        del document["as_prior"], document["sha256"]  # as earlier versions wrote it
        january.write_text(json.dumps(document | {"sha256": checksum(document)}))
        code = cli.main(fit_arguments(prior=str(january)))
        assert_one_error_line(capsys, code, "model files of earlier versions do not keep")

    def test_scores_on_test_rows(self, fit_arguments, folder, capsys):
        assert cli.main(fit_arguments(epsilon="20", test=str(folder / "test.csv"))) == 0
        out = capsys.readouterr().out
        assert "Test on 500 rows of test.csv" in out
        assert "not private (scikit-learn)" in out
        assert "the guarantee does not cover them" in out

    def test_json(self, fit_arguments, folder, tmp_path, capsys):
        arguments = fit_arguments("--json", epsilon="20", test=str(folder / "test.csv"))
        assert cli.main(arguments) == 0
        result = json.loads(capsys.readouterr().out)
        assert result["model"] == str(tmp_path / "model.json")
        assert (result["rows"], result["features"]) == (3_000, 4)
        assert result["unused_columns"] == ["secret"]
        assert 0.0 < result["privacy"]["epsilon"] <= 20.0
        assert result["privacy"]["delta"] <= 1e-6
        assert result["privacy"]["events"]
        test = result["test"]
        assert test["covered_by_guarantee"] is False
        assert test["non_private"]["accuracy"] > test["majority_class"]["accuracy"] + 0.1
        assert test["private"]["accuracy"] > test["majority_class"]["accuracy"] + 0.05
        assert test["non_private"]["log_loss"] < test["private"]["log_loss"] + 0.01

    def test_scores_match_predictions(self, fit_arguments, folder, tmp_path, capsys):
        test = folder / "test.csv"
        assert cli.main(fit_arguments("--json", test=str(test))) == 0
        scores = json.loads(capsys.readouterr().out)["test"]["private"]
        labels = read_csv(test, ["label"])["label"]
        out = tmp_path / "out.csv"
        assert cli.main(["predict", str(tmp_path / "model.json"), str(test), "-o", str(out)]) == 0
        result = read_csv(out, ["prediction", "probability"])
        p = result["probability"].astype(float)
        assert np.mean(result["prediction"] == labels) == pytest.approx(scores["accuracy"])
        chosen = np.where(labels == "yes", p, 1.0 - p)
        assert -np.mean(np.log(chosen)) == pytest.approx(scores["log_loss"])

    def test_neighboring_relation_and_alpha(self, fit_arguments, tmp_path):
        options = {"neighboring-relation": "add_or_remove_one", "alpha": "0.5"}
        assert cli.main(fit_arguments(**options)) == 0
        privacy = TableModel.load(tmp_path / "model.json").privacy_
        assert privacy.neighboring_relation == "add_or_remove_one"

    def test_the_ridge_of_a_paper(self, fit_arguments):
        assert cli.main(fit_arguments(solver="output-perturbation", alpha="lowy2021")) == 0

    def test_pure_privacy(self, fit_arguments, tmp_path):
        assert cli.main(fit_arguments(delta="0")) == 0
        privacy = TableModel.load(tmp_path / "model.json").privacy_
        assert privacy.delta == 0.0
        assert privacy.epsilon <= 2.0

    def test_a_delta_above_one_over_the_rows_is_refused(self, fit_arguments, capsys):
        code = cli.main(fit_arguments(delta="0.01"))
        assert_one_error_line(capsys, code, "delta must be below one over the number of rows")

    def test_a_large_epsilon_is_questioned(self, fit_arguments, capsys):
        assert cli.main(fit_arguments(epsilon="25")) == 0
        assert "warning: epsilon = 25 is hardly a promise" in capsys.readouterr().err
        assert cli.main(fit_arguments(epsilon="20")) == 0
        assert "hardly" not in capsys.readouterr().err

    def test_categorical(self, fit_arguments, folder, tmp_path):
        bounds = tmp_path / "bounds.json"
        bounds.write_text(json.dumps({**BOUNDS, "secret": [0, 1, 2]}))
        assert cli.main(fit_arguments(bounds=bounds, categorical="secret, city")) == 0
        assert "secret_2" in TableModel.load(tmp_path / "model.json").schema_.feature_names

    def test_one_class_only(self, fit_arguments, folder, tmp_path, capsys):
        # Whether both classes occur is private: the fit must go through without a word.
        lines = (folder / "train.csv").read_text().splitlines()
        data = tmp_path / "one.csv"
        data.write_text("\n".join([lines[0], *(x for x in lines if x.endswith(",yes"))]))
        assert cli.main(fit_arguments("--json", data=data, test=str(data))) == 0
        assert "non_private" not in json.loads(capsys.readouterr().out)["test"]

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"epsilon": "0"}, "epsilon must be"),
            ({"epsilon": "-1"}, "epsilon must be"),
            ({"epsilon": "nan"}, "epsilon must be"),
            ({"epsilon": "inf"}, "epsilon must be"),
            ({"epsilon": "abc"}, "argument --epsilon: invalid float value: 'abc'"),
            ({"delta": "1"}, "delta must be"),
            ({"alpha": "-1"}, "alpha"),
            ({"alpha": "abc"}, "argument --alpha"),
            ({"solver": "none"}, "solver must be"),
            ({"solver": "DP-AGD"}, "Did you mean 'dp-agd'?"),
            ({"seed": "-1"}, "argument --seed: expected an integer >= 0"),
            ({"seed": "1.5"}, "argument --seed: expected an integer >= 0"),
            ({"target": "nope"}, "the target 'nope' is not in the bounds"),
            ({"categorical": "nope"}, "categorical names columns"),
            ({"neighboring-relation": "swap"}, "argument --neighboring-relation"),
        ],
    )
    def test_wrong_options(self, fit_arguments, tmp_path, capsys, options, expected):
        code = cli.main(fit_arguments(**options))
        captured = capsys.readouterr()
        assert code == 2
        assert captured.err.splitlines()[-1].startswith("error: ")
        assert expected in captured.err
        assert "Traceback" not in captured.err
        assert not (tmp_path / "model.json").exists()

    def test_missing_arguments(self, capsys):
        assert_one_error_line(capsys, cli.main(["fit", "x.csv"]), "--bounds")
        assert_one_error_line(capsys, cli.main([]), "COMMAND")
        assert_one_error_line(capsys, cli.main(["fly"]), "fly")

    def test_missing_files(self, fit_arguments, tmp_path, capsys):
        nowhere = tmp_path / "nowhere"
        for arguments in (
            fit_arguments(data=nowhere),
            fit_arguments(bounds=nowhere),
            fit_arguments(test=str(nowhere)),
        ):
            code = cli.main(arguments)
            assert_one_error_line(capsys, code, f"{nowhere}: No such file or directory")

    @pytest.mark.parametrize(
        ("row", "expected"),
        [
            (
                "x,A,1,yes",
                "column 'age', row 2 of the data: expected a finite number; got other text",
            ),
            (",A,1,yes", "Nothing is declared for missing values of this column"),
            ("30,A,1,YEP", "column 'label', row 2 of the data: expected the class 'no' or 'yes'"),
            ("30,A,yes", "line 3: 3 fields where the header has 4"),
        ],
    )
    def test_bad_data_spends_nothing(
        self, fit_arguments, tmp_path, capsys, monkeypatch, row, expected
    ):
        monkeypatch.setattr(TableFit, "run", None)
        data = tmp_path / "bad.csv"
        data.write_text(f"age,city,secret,label\n30,A,1,no\n{row}\n")
        for arguments in (fit_arguments(data=data), fit_arguments(test=str(data))):
            code = cli.main(arguments)
            assert_one_error_line(capsys, code, expected)

    def test_unwritable_output_spends_nothing(self, fit_arguments, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(TableFit, "run", None)
        for output, expected in (
            (tmp_path, "is a directory"),
            (tmp_path / "no" / "model.json", "there is no directory"),
        ):
            assert_one_error_line(capsys, cli.main(fit_arguments("-o", str(output))), expected)

    @pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
    def test_a_link_that_cannot_be_followed_spends_nothing(
        self, fit_arguments, tmp_path, capsys, monkeypatch
    ):
        monkeypatch.setattr(TableFit, "run", None)
        link = tmp_path / "link.json"
        link.symlink_to(tmp_path / "no" / "model.json")
        code = cli.main(fit_arguments("-o", str(link)))
        assert_one_error_line(capsys, code, "there is no directory")

    @pytest.mark.parametrize("place", ["x.csv", "b.json", "account", "account.lock"])
    def test_nothing_that_is_read_is_overwritten(self, tmp_path, capsys, monkeypatch, place):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "x.csv").write_text("kept")
        (tmp_path / "b.json").write_text("kept")
        command = ["fit", "x.csv", "--bounds", "b.json", "--epsilon", "1", "--delta", "1e-6"]
        command += ["--account", "account", "--account-budget", "3,1e-5"]
        for output in (f"./{place}", str(tmp_path / place)):
            code = cli.main([*command, "-o", output])
            assert_one_error_line(capsys, code, "must not be written in the place of what is read")
        assert (tmp_path / "x.csv").read_text() == (tmp_path / "b.json").read_text() == "kept"

    def test_predictions_and_certificates_do_not_replace_what_they_are_of(
        self, fit_arguments, tmp_path, capsys
    ):
        assert cli.main(fit_arguments()) == 0
        model = str(tmp_path / "model.json")
        before = (tmp_path / "model.json").read_bytes()
        for command in (("predict", model, "x.csv"), ("predict", "x.csv", model),
                        ("certify", model)):  # fmt: skip
            assert cli.main([*command, "-o", model]) == 2
        assert (tmp_path / "model.json").read_bytes() == before

    def test_interruption(self, fit_arguments, tmp_path, capsys, monkeypatch):
        (tmp_path / "model.json").write_text("old")
        for module, name, expected in (
            (TableFit, "run", "interrupted. Nothing was spent."),
            (TableModel, "save", "interrupted. The budget was spent and stays spent."),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, raising(KeyboardInterrupt))
                assert cli.main(fit_arguments()) == 130
            assert capsys.readouterr().err.splitlines()[-1] == expected
        assert (tmp_path / "model.json").read_text() == "old"

    def test_failure_after_spending_has_a_code_of_its_own(
        self, fit_arguments, tmp_path, capsys, monkeypatch
    ):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        full = OSError(28, "No space left on device", "model.json")
        monkeypatch.setattr(TableModel, "save", raising(full))
        assert cli.main(fit_arguments()) == 3
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == (
            "error: model.json: No space left on device. The budget was spent and stays spent."
        )

    def test_what_was_paid_for_is_kept_where_it_can_be(
        self, fit_arguments, tmp_path, capsys, monkeypatch
    ):
        save = TableModel.save

        def fails_once(model, path):
            monkeypatch.setattr(TableModel, "save", save)
            raise OSError(28, "No space left on device", path)

        monkeypatch.setattr(TableModel, "save", fails_once)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        assert cli.main(fit_arguments()) == 3
        last = capsys.readouterr().err.splitlines()[-1]
        (kept,) = tmp_path.glob("dpfast-*/model.json")
        assert last.endswith(
            f"No space left on device. The budget was spent; the model is in {kept}."
        )
        assert TableModel.load(kept).privacy_.epsilon <= 2.0

    @given(
        bounds=st.dictionaries(
            st.sampled_from(["age", "city", "label", "secret", "x"]),
            st.lists(
                st.integers(-2, 2) | st.floats(width=16) | st.text(max_size=2) | st.none(),
                max_size=3,
            )
            | st.none(),
        )
    )
    @settings(max_examples=100)
    def test_no_bounds_file_brings_a_traceback(self, fit_arguments, tmp_path, bounds):
        path = tmp_path / "fuzzed.json"
        path.write_text(json.dumps(bounds))
        data = tmp_path / "tiny.csv"
        data.write_text("age,city,secret,label\n30,A,1,no\n40,B,2,yes\n")
        assert cli.main(fit_arguments(data=data, bounds=path)) in (0, 2)


class TestPredict:
    @pytest.fixture
    def model(self, fit_arguments, tmp_path, capsys):
        assert cli.main(fit_arguments()) == 0
        capsys.readouterr()
        return tmp_path / "model.json"

    def test_rows_in_order(self, model, folder, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(frames, "TEXT_ROWS", 7)
        out = tmp_path / "out.csv"
        assert cli.main(["predict", str(model), str(folder / "test.csv"), "-o", str(out)]) == 0
        result = read_csv(out, ["prediction", "probability"])
        assert out.read_text().splitlines()[0] == "prediction,probability"
        table = read_csv(folder / "test.csv", ["age", "city"])
        loaded = TableModel.load(model)
        np.testing.assert_array_equal(result["prediction"], loaded.predict(table))
        np.testing.assert_array_equal(
            result["probability"].astype(float), loaded.predict_proba(table)[:, 1]
        )
        assert "500 predictions of 'label'" in capsys.readouterr().err

    def test_target_is_not_needed(self, model, tmp_path):
        data = tmp_path / "new.csv"
        data.write_text("city,age\nB,60\n")
        out = tmp_path / "out.csv"
        assert cli.main(["predict", str(model), str(data), "-o", str(out)]) == 0
        assert len(out.read_text().splitlines()) == 2

    def test_missing_column(self, model, tmp_path, capsys):
        data = tmp_path / "new.csv"
        data.write_text("age\n60\n")
        code = cli.main(["predict", str(model), str(data), "-o", str(tmp_path / "out.csv")])
        assert_one_error_line(capsys, code, "lacks the column 'city'")
        assert not (tmp_path / "out.csv").exists()

    def test_not_a_model(self, folder, tmp_path, capsys):
        code = cli.main(
            ["predict", str(folder / "bounds.json"), "x.csv", "-o", str(tmp_path / "out.csv")]
        )
        assert_one_error_line(capsys, code, "is not a valid dpfast model")

    def test_seeded_model_is_warned_about(self, fit_arguments, folder, tmp_path, capsys):
        assert cli.main(fit_arguments(seed="1")) == 0
        arguments = [str(tmp_path / "model.json"), str(folder / "test.csv")]
        assert cli.main(["predict", *arguments, "-o", str(tmp_path / "out.csv")]) == 0
        assert "do not release the model" in capsys.readouterr().err


class TestDemo:
    @pytest.fixture(autouse=True)
    def once(self, monkeypatch):
        monkeypatch.setattr(demo, "_REPEATS", 1)

    def test_json(self, capsys, monkeypatch):
        monkeypatch.setattr(demo, "_EPSILONS", (1.0, 8.0))
        assert cli.main(["demo", "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert (result["rows"], result["test_rows"], result["features"]) == (16_152, 4_038, 9)
        assert [one["epsilon"] for one in result["private"]] == [1.0, 8.0]
        assert result["private"][1]["accuracy"] > result["majority_class"]["accuracy"]
        assert result["privacy"]["epsilon"] <= 1.0

    def test_table_and_report(self, capsys):
        assert cli.main(["demo"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        for text in ("epsilon", "test log-loss", "not private", "larger class", "2,980.96"):
            assert text in out
        assert "Differential privacy with epsilon = " in out
        assert "person-years" in out
        assert "no guarantee covers them" in out


class TestProgram:
    def test_version(self, capsys):
        assert cli.main(["--version"]) == 0
        assert capsys.readouterr().out == f"dpfast {__version__}\n"

    @pytest.mark.parametrize(
        "command", [[], *([m.__name__.split(".")[-1]] for m in cli.COMMANDS)], ids=str
    )
    def test_help(self, command, capsys):
        assert cli.main([*command, "--help"]) == 0
        assert "usage: dpfast" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("option", "hint"), [("--seeds", ". Did you mean '--seed'?"), ("--penalty", "")]
    )
    def test_options_that_a_command_lacks_lead_to_its_help(self, option, hint, capsys):
        budget = ["--bounds", "b", "--epsilon", "1", "--delta", "0"]
        assert cli.main(["fit", "x.csv", *budget, "-o", "m", option, "3"]) == 2
        expected = f"error: unrecognized arguments: {option} 3{hint} (see 'dpfast fit --help')\n"
        assert capsys.readouterr().err == expected

    def test_a_hidden_bar_prints_nothing(self, capsys, monkeypatch):
        """Rich before 14.3 ends it with a line."""
        monkeypatch.setattr("rich.progress.Progress.stop", lambda bar: bar.console.print())
        with _screen.working("fitting"):
            pass
        assert capsys.readouterr().err == ""

    def test_exit_codes_of_the_process(self, tmp_path):
        command = [sys.executable, "-m", "dpfast"]
        done = subprocess.run(
            [*command, "predict", "none.json", "x.csv", "-o", str(tmp_path / "out.csv")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert done.stderr == "error: none.json: No such file or directory\n"

    @pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
    def test_closed_pipe(self):
        done = subprocess.run(
            f"'{sys.executable}' -m dpfast fit --help | true",
            shell=True,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr

    def test_a_command_goes_on_when_its_reader_has_gone(self, monkeypatch):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as stream:
            monkeypatch.setattr("sys.stdout", stream)
            for _ in range(2):
                _screen.say("a line")

    @pytest.mark.parametrize("stream", [None, Unwritable()])
    def test_a_fit_goes_on_where_nobody_can_read_it(self, fit_arguments, monkeypatch, stream):
        monkeypatch.setattr("sys.stderr", stream)
        if stream is None:
            monkeypatch.setattr("sys.stdout", None)
        # With a note, of a column that is not used, and a warning, of the large epsilon.
        arguments = fit_arguments(epsilon="60")
        assert cli.main(arguments) == 0
        assert TableModel.load(arguments[arguments.index("-o") + 1]).privacy_.epsilon > 50.0

    def test_warnings_and_errors_are_one_line_each(self, monkeypatch, capsys):
        def load():
            warnings.warn("first\n  second", stacklevel=1)
            raise ValueError("third\n  fourth")

        monkeypatch.setattr(demo, "load_randhie", raising(TypeError("alpha must be a number")))
        assert_one_error_line(capsys, cli.main(["demo"]), "alpha must be a number")
        monkeypatch.setattr(demo, "load_randhie", load)
        assert cli.main(["demo"]) == 2
        assert capsys.readouterr().err == "warning: first second\nerror: third fourth\n"

    def test_a_warning_that_is_made_an_error_is_one(self, fit_arguments, capsys):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            code = cli.main(fit_arguments("--json", epsilon="100"))
        assert_one_error_line(capsys, code, "epsilon = 100 is hardly a promise")


def test_counts_as_people_write_them():
    for text, number in (("5", 5), ("5e6", 5_000_000), ("5_000_000", 5_000_000), ("12,345", 12345)):
        assert count(text) == number
    for text in ("0", "-5", "1.5", "5e-1", "1,00", "1,0000", ",123", "5,", "e6", "", "1e999"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected an integer >= 1, got"):
            count(text)


def test_scores_of_known_margins():
    scores = _screen.scores(np.array([0.0, 2.0, -2.0, 800.0]), np.array([0, 1, 1, 1]))
    assert scores["accuracy"] == 0.75
    expected = (math.log(2.0) + math.log1p(math.exp(-2.0)) + math.log1p(math.exp(2.0))) / 4.0
    assert scores["log_loss"] == pytest.approx(expected)


class TestPlan:
    ARGUMENTS = ("plan", "--rows", "10000", "--columns", "20", "--epsilon", "1", "--delta", "1e-6")

    def test_text(self, capsys):
        assert cli.main(self.ARGUMENTS) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "10,000 rows x 20 columns" in out
        settled = plan(ProblemShape(10_000, 20, 1.0), "auto", Budget(1.0, 1e-6))
        assert settled.solver in out
        for name, value in settled.expected.items():
            assert f"{value:.4g} {EXPECTED[name]}" in out
        u = settled.parameters["rows_per_weight"]
        assert f"Of a class with less than {50.0 / u:.2g} % of the rows little is learned" in out
        assert "Nothing was spent." in out
        parts = ("To expect", "best possible: about", "Accesses to the data", "Settings of the")
        assert sorted(parts, key=out.index) == list(parts)
        assert "column moments" in shares_told(settled.events)
        assert shares_told(settled.events)[1:] in out

    @pytest.mark.parametrize("solver", ["auto", "objective-perturbation", "dp-gd"])
    def test_what_targets_are_counted_in(self, solver, capsys):
        budget = ("--epsilon", "1", "--delta", "0" if solver.startswith("obj") else "1e-6")
        code = cli.main([*self.ARGUMENTS[:5], *budget, "--loss", "huber", "--solver", solver])
        out = " ".join(capsys.readouterr().out.split())
        kind = "declared" if solver == "dp-gd" else "learned"
        assert code == 0 and f"To expect, with targets in units of half their {kind} range:" in out
        assert ("range of the targets" in out.split("Shares")[-1]) == (solver != "dp-gd")

    def test_picture(self, tmp_path, capsys):
        pytest.importorskip("matplotlib").use("Agg")
        from matplotlib import pyplot

        file = tmp_path / "risk.png"
        assert cli.main([*self.ARGUMENTS, "--plot", str(file)]) == 0
        assert file.stat().st_size > 10_000
        pyplot.close("all")

    def test_an_old_picture_outlives_a_failure(self, tmp_path, capsys, monkeypatch):
        pytest.importorskip("matplotlib").use("Agg")
        from matplotlib import pyplot

        file = tmp_path / "risk.png"
        file.write_text("old")

        def fails_midway(figure, target, **_):
            with open(target, "wb") if isinstance(target, str) else nullcontext(target) as stream:
                stream.write(b"half")
            raise OSError(28, "No space left on device", str(file))

        monkeypatch.setattr(pyplot.Figure, "savefig", fails_midway)
        code = cli.main([*self.ARGUMENTS, "--plot", str(file)])
        assert_one_error_line(capsys, code, "No space left on device")
        assert file.read_text() == "old"
        pyplot.close("all")

    @pytest.mark.parametrize(
        ("option", "value", "expected"),
        [("--rows", "0", "expected an integer >= 1"), ("--loss", "cubic", "loss"),
         ("--epsilon", "-1", "epsilon"), ("--plot", "nowhere/x.png", "no directory"),
         ("--plot", "x.gif", "--plot must end in .png, .pdf, .svg; got 'x.gif'")],
    )  # fmt: skip
    def test_errors(self, capsys, option, value, expected):
        assert_one_error_line(capsys, cli.main([*self.ARGUMENTS, option, value]), expected)

    def test_json(self, capsys):
        assert cli.main([*self.ARGUMENTS, "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        settled = plan(ProblemShape(10_000, 20, 1.0), "auto", Budget(1.0, 1e-6))
        assert (result["command"], result["solver"]) == ("plan", settled.solver)
        assert (result["rows"], result["columns"], result["loss"]) == (10_000, 20, "logistic")
        assert result["expected"] == dict(settled.expected)
        assert len(result["events"]) == len(settled.events)
        for name, value in settled.parameters.items():
            if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
                assert result["parameters"][name] == value

    def test_the_size_follows_from_bounds(self, folder, capsys):
        budget = ["--epsilon", "1", "--delta", "0", "--json"]
        arguments = ["plan", "--rows", "3000", "--bounds", str(folder / "bounds.json"), *budget]
        assert cli.main([*arguments, "--target", "label"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert (result["columns"], result["data_norm"]) == (4, math.sqrt(2.0))
        for more, expected in (
            ([], "target must name the column"),
            (["--target", "label", "--columns", "3"], "--columns follows from --bounds"),
            (["--target", "nope"], "the target 'nope' is not in the bounds"),
        ):
            assert_one_error_line(capsys, cli.main([*arguments, *more]), expected)
        for wrong in ([], ["--columns", "3", "--target", "label"]):
            code = cli.main(["plan", "--rows", "3000", *budget, *wrong])
            assert_one_error_line(capsys, code, "give --bounds, or --columns D instead")

    @pytest.mark.parametrize("solver", sorted(SOLVERS))
    def test_every_number_is_explained(self, solver, capsys):
        loss = "squared" if solver == "dp-adassp" else "logistic"
        arguments = [*self.ARGUMENTS, "--solver", solver, "--loss", loss]
        assert cli.main(arguments) == 0
        shown = " ".join(capsys.readouterr().out.split())
        settled = plan(ProblemShape(10_000, 20, 1.0, loss), solver, Budget(1.0, 1e-6))
        for name, value in plan_command._scalars(settled.parameters).items():
            assert name in SETTINGS, f"dpfast/solvers/meanings.py does not explain {name}"
            if isinstance(value, str):
                assert f"{value} {name} {SETTINGS[name]}" in shown
                assert f"    {name} = {value}: {SETTINGS[name]}\n" in f"{settled}\n"
        for name in settled.expected:
            assert name in EXPECTED, f"dpfast/solvers/meanings.py does not explain {name}"
            assert EXPECTED[name] in shown
            assert EXPECTED[name] in str(settled)


class TestSolvers:
    def test_all_are_listed(self, capsys):
        assert cli.main(["solvers"]) == 0
        out = capsys.readouterr().out
        assert all(name in out for name in SOLVERS)
        assert cli.main(["solvers", "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)["solvers"]
        assert [one["name"] for one in listed] == list(SOLVERS)
        assert listed[0]["options"] == list(next(iter(SOLVERS.values())).options)

    @pytest.mark.parametrize("name", sorted(SOLVERS))
    def test_no_markup_on_the_screen(self, name, capsys, monkeypatch):
        monkeypatch.setattr(solvers_command, "_losses", lambda solver: ["logistic"])  # many plans
        assert cli.main(["solvers", name]) == 0
        out = capsys.readouterr().out
        for markup in ("`", ":class:", ":func:", ":mod:", "**", "----", ".. ", "dpfast/solvers"):
            assert markup not in out
        explained = solvers_command._options(SOLVERS[name])
        assert all(meaning for _, meaning in explained)
        found = [option for names, _ in explained for option in names.split(", ")]
        assert sorted(found) == sorted(SOLVERS[name].options)
        assert all(f"\n{names} " in out for names, _ in explained)

    def test_lists_and_titles_are_laid_out(self):
        text = "Title\n-----\nOne *line*\nand more:\n\n1. first\n   item ``a * b``;\n2. second."
        plain = solvers_command.plain_text(text)
        assert [list(solvers_command._items(part)) for part in plain.split("\n\n")] == [
            [("", "Title")],
            [("", "One line and more:")],
            [("1.", "first item a * b;"), ("2.", "second.")],
        ]

    def test_one(self, capsys):
        assert cli.main(["solvers", "exponential", "--json"]) == 0
        one = json.loads(capsys.readouterr().out)
        assert one["budgets"] == list(SOLVERS["exponential"].budgets)
        # The sigmoid loss is not convex.
        assert "logistic" in one["losses"] and "sigmoid" not in one["losses"]
        assert cli.main(["solvers", "exponential"]) == 0
        assert one["text"].splitlines()[-1].split()[-1] in capsys.readouterr().out

    def test_unknown(self, capsys):
        assert_one_error_line(capsys, cli.main(["solvers", "newton"]), "NAME must be")


class TestBench:
    SMALL = ("bench", "--rows", "2000", "--columns", "3", "--repeat", "1")

    def test_json(self, capsys):
        assert cli.main([*self.SMALL, "--json", "--solver", "output-perturbation"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result["mebibytes"] == 2000 * 3 * 8 / 2**20
        assert result["read_gib_per_second"] > 0.0
        (fitted,) = result["fits"]
        assert fitted["solver"] == "output-perturbation"
        assert fitted["seconds"] > 0.0
        assert fitted["numpy_seconds"] > 0.0
        assert "numpy_seconds" not in result["non_private"]
        # Margins of standard deviation 2.5 / sqrt(3) on 3 columns: well above a coin.
        assert result["non_private"]["accuracy"] > 0.65

    def test_table_and_what_cannot_be_done(self, capsys):
        assert (
            cli.main([*self.SMALL, "--delta", "0", "--solver", "auto", "--solver", "dp-sgd"]) == 0
        )
        out, err = capsys.readouterr()
        assert "not private" in out and "auto" in out
        assert "note: dp-sgd is left out: budget must be" in err
        assert "dp-sgd in NumPy" not in err

    def test_numpy_is_left_out_where_it_would_take_minutes(self, capsys, monkeypatch):
        def forbidden():
            raise AssertionError("NumPy was used")

        monkeypatch.setattr(bench, "_LONGEST_SECONDS", 0.0)
        monkeypatch.setattr(bench._numpy_kernels, "in_numpy", forbidden)
        assert cli.main([*self.SMALL, "--json", "--solver", "output-perturbation"]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["fits"][0]["numpy_seconds"] is None
        assert "output-perturbation in NumPy is left out: it may take minutes" in err

    @pytest.mark.parametrize(
        ("option", "value", "expected"),
        [("--solver", "none", "--solver must be"), ("--rows", "0", "expected an integer >= 1"),
         ("--epsilon", "0", "epsilon must be"), ("--rows", str(10**15), "GiB; take fewer"),
         ("--rows", "1", "--rows must be enough for both classes")],
    )  # fmt: skip
    def test_errors(self, capsys, option, value, expected):
        assert_one_error_line(capsys, cli.main([*self.SMALL, option, value]), expected)


class TestCompletion:
    @pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["pl"], ["plan"]),
            (["plan", "--ep"], ["--epsilon"]),
            (["plan", "--loss", "hu"], ["huberized-hinge", "huber"]),
            (["fit", "--neighboring-relation", ""], ["replace_one", "add_or_remove_one"]),
            (["solvers", "rr"], ["rrpsgd"]),
            (["completion", "f"], ["fish"]),
        ],
        ids=" ".join,
    )
    def test_bash(self, words, expected, capsys, tmp_path):
        assert cli.main(["completion", "bash"]) == 0
        script = tmp_path / "dpfast.bash"
        script.write_text(capsys.readouterr().out)
        line = " ".join(f"'{word}'" for word in ["dpfast", *words])
        ask = (
            f"source '{script}'; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _dpfast; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "--norc", "-c", ask], capture_output=True, text=True, check=False
        )
        assert (done.stdout.split(), done.stderr) == (expected, "")

    @pytest.mark.parametrize("shell", ["zsh", "fish"])
    def test_others_hold_everything(self, shell, capsys):
        assert cli.main(["completion", shell, "--json"]) == 0
        script = json.loads(capsys.readouterr().out)["script"]
        for text in ("predict", "neighboring-relation", "add_or_remove_one", "dp-masg-opt"):
            assert text in script
        # Quotes are closed on every line.
        bare = script.replace("'\"'\"'", "").replace("\\'", "")
        assert all(line.count("'") % 2 == 0 for line in bare.splitlines())

    def test_unknown_shell(self, capsys):
        assert_one_error_line(capsys, cli.main(["completion", "csh"]), "invalid choice")


class TestParquet:
    @pytest.fixture
    def parquet(self, folder, tmp_path):
        pytest.importorskip("pyarrow")
        from pyarrow import csv as arrow_csv
        from pyarrow import parquet

        table = arrow_csv.read_csv(folder / "train.csv")
        path = tmp_path / "train.parquet"
        parquet.write_table(table, path, row_group_size=700)
        return path

    def test_same_model_and_predictions_as_from_csv(self, fit_arguments, parquet, folder, tmp_path):
        models = []
        for data in (folder / "train.csv", parquet):
            assert cli.main(fit_arguments(data=data, seed="1")) == 0
            models.append(TableModel.load(tmp_path / "model.json"))
        np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
        capitals = shutil.copy(parquet, tmp_path / "TRAIN.PQ")
        results = []
        for data, name in (
            (parquet, "out.parquet"), (folder / "train.csv", "out.csv"), (parquet, "out.csv.gz"),
            (capitals, "OUT.PARQUET"), (parquet, "OUT.CSV.GZ"),
        ):  # fmt: skip
            out = str(tmp_path / name)
            assert cli.main(["predict", str(tmp_path / "model.json"), str(data), "-o", out]) == 0
            columns = {"prediction": [], "probability": []}
            for chunk in table_chunks(out, list(columns)):
                for column, values in chunk.items():
                    columns[column] += [str(value) for value in values]
            results.append(columns)
        assert all(columns == results[0] for columns in results)
        assert (tmp_path / "OUT.PARQUET").read_bytes()[:4] == b"PAR1"

    def test_columns_beside_predictions_are_as_they_were(self, fit_arguments, parquet, tmp_path):
        import pyarrow
        from pyarrow.parquet import read_table, write_table

        # Other chunks have no missing value, and no float64 holds these numbers.
        n = 2 * frames.TYPED_ROWS
        table = pyarrow.table(
            {
                "age": np.full(n, 30),
                "city": pyarrow.array(["A"] * n).dictionary_encode(),
                "secret": pyarrow.array([2**60 + 1] * (n - 1) + [None]),
                "label": pyarrow.array([None] + [datetime.date(2024, 2, 29)] * (n - 1)),
            }
        )
        write_table(table, parquet)
        assert cli.main(fit_arguments()) == 0
        names = ["secret", "label", "city"]
        for output in ("out.parquet", "out.csv"):
            command = ["predict", tmp_path / "model.json", parquet, "--id", ",".join(names)]
            assert cli.main([*map(str, command), "-o", str(tmp_path / output)]) == 0
        kept = read_table(tmp_path / "out.parquet", columns=names)
        assert kept.to_pydict() == table.select(names).to_pydict()
        assert kept.schema.types == [pyarrow.int64(), pyarrow.date32(), pyarrow.string()]
        lines = (tmp_path / "out.csv").read_text().splitlines()
        assert [line.split(",")[:3] for line in (lines[1], lines[2], lines[-1])] == [
            [str(2**60 + 1), "", "A"],
            [str(2**60 + 1), "2024-02-29", "A"],
            ["", "2024-02-29", "A"],
        ]

    def test_json_of_predict(self, fit_arguments, parquet, tmp_path, capsys):
        assert cli.main(fit_arguments()) == 0
        capsys.readouterr()
        out = str(tmp_path / "out.csv")
        arguments = ["predict", str(tmp_path / "model.json"), str(parquet), "-o", out, "--json"]
        assert cli.main(arguments) == 0
        result = json.loads(capsys.readouterr().out)
        assert (result["rows"], result["classes"]) == (3_000, ["no", "yes"])

    def test_without_pyarrow(self, fit_arguments, tmp_path, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        data = tmp_path / "x.parquet"
        data.write_bytes(b"PAR1")
        assert_one_error_line(capsys, cli.main(fit_arguments(data=data)), "dpfast[parquet]")
