import base64
import contextlib
import dataclasses
import json
import math
import os

import numpy as np
import pytest
from hostile_files import damaged, json_values, replaced
from hypothesis import given, settings
from hypothesis import strategies as st

from dpfast import __version__
from dpfast._files import checksum, parse_json
from dpfast.cli.certify import _numbers_released
from dpfast.errors import DataError, ModelFileError
from dpfast.inference import Estimates
from dpfast.privacy import Budget, GaussianEvent, Ledger, PrivacyReport, gaussian_delta
from dpfast.tabular import TableModel, TableSchema
from dpfast.tabular.model_file import (
    Accuracy,
    StandardErrors,
    StoredModel,
    read_model,
    restored,
    write_model,
)

BOUNDS = {"age": [0, 100], "sex": ["f", "m"], "y": ["no", "yes"]}
TABLE = {"age": np.array(["0", "100", "50"]), "sex": np.array(["f", "m", "M"])}


def report():
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.spend(
        GaussianEvent(
            sensitivity=1.0,
            stddev=4.5,
            dimension=5,
            neighboring_relation="replace_one",
            where="output",
        )
    )
    return PrivacyReport.from_ledger(ledger, reproducible=False, notes=("a note",))


def model():
    schema = TableSchema.from_bounds(BOUNDS, target="y")
    return StoredModel(schema, "logistic", {}, [[1.0, 0.1, 5e-324]], [0.25], False, report())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.json"


def sealed(document):
    """The document with the checksum that goes with it, as a forger would write it."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    return {**rest, "sha256": checksum(rest)}


def refuses_each_value_replaced(path, document):
    """No other JSON value is read in the place of any."""
    for text in replaced(json.dumps(document)):
        path.write_text(text)
        with pytest.raises(ModelFileError):
            read_model(path)


@pytest.fixture
def document(path):
    write_model(path, model())
    return json.loads(path.read_text())


class TestStoredModel:
    def test_predictions(self, path):
        write_model(path, model())
        loaded = TableModel.load(path)
        # Rows are (-1; f), (1; m), (0; m).
        margins = np.array([-1 + 0.1, 1.0, 0.0]) + 0.25
        np.testing.assert_allclose(loaded.decision_function(TABLE), margins)
        p = loaded.predict_proba(TABLE)
        np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-margins)))
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert loaded.predict(TABLE).tolist() == ["no", "yes", "yes"]
        with pytest.raises(DataError, match="lacks the column 'sex'"):
            loaded.predict({"age": np.array(["1"])})

    def test_probabilities_of_extreme_margins(self, path):
        schema = TableSchema.from_bounds({"a": [-1, 1], "y": [0, 1]}, target="y")
        write_model(path, StoredModel(schema, "logistic", {}, [[700.0]], [0.0], False, report()))
        p = TableModel.load(path).predict_proba({"a": np.array(["-1", "1"])})
        assert 0.0 < p[0, 1] < 1e-300
        assert 0.0 < p[1, 0] < 1e-300

    @pytest.mark.parametrize(
        "coef", [[1.0], [1.0] * 3, [[1.0] * 4], [[1.0] * 3] * 2, [[np.nan] * 3]]
    )
    def test_wrong_coefficients(self, coef):
        with pytest.raises(ValueError, match="coef"):
            StoredModel(model().schema, "logistic", {}, coef, [0.0], False, report())

    @pytest.mark.parametrize("intercept", [[np.inf], [np.nan], [0.0, 1.0], 0.0])
    def test_wrong_intercept(self, intercept):
        with pytest.raises(ValueError, match="intercept"):
            StoredModel(model().schema, "logistic", {}, [[1.0] * 3], intercept, False, report())

    def test_coefficients_are_a_frozen_copy(self):
        coef = np.ones((1, 3))
        frozen = StoredModel(model().schema, "logistic", {}, coef, [0.0], False, report())
        coef[0] = 5.0
        assert frozen.coef[0, 0] == 1.0
        with pytest.raises(ValueError, match="read-only"):
            frozen.coef[0] = 2.0


class TestFile:
    @pytest.mark.parametrize("ending", ["", ".gz"])
    def test_round_trip_is_exact(self, path, ending):
        path = path.with_name(path.name + ending)
        write_model(path, model())
        loaded = read_model(path)
        np.testing.assert_array_equal(loaded.coef, model().coef)
        assert loaded.intercept.tolist() == [0.25]
        assert loaded.schema == model().schema
        assert loaded.privacy == report()

    def test_content(self, document):
        # Nothing else may ever be written: what is in the file is released.
        assert list(document) == [
            *("format", "version", "dpfast_version", "family", "parameters", "classes_together"),
            *("schema", "column_order", "coef", "intercept", "privacy", "sha256"),
        ]
        assert document["format"] == "dpfast-model"
        assert document["version"] == 2
        assert document["family"] == "logistic"
        assert document["dpfast_version"] == __version__
        assert len(document["coef"][0]) == 3
        assert document["privacy"]["events"][0]["stddev"] == 4.5

    def test_sorted_keys_leave_each_coefficient_its_column(self, path, document):
        # As programs write that know no order of keys; the checksum knows none, either.
        expected = TableModel.load(path).decision_function(TABLE)
        columns = document["schema"]["columns"]
        document["schema"]["columns"] = dict(reversed(columns.items()))
        path.write_text(json.dumps(document))
        assert list(read_model(path).schema.to_dict()["columns"]) == list(columns)
        np.testing.assert_array_equal(TableModel.load(path).decision_function(TABLE), expected)

    def test_files_of_earlier_versions_have_no_order_of_columns(self, path, document):
        del document["column_order"]
        path.write_text(json.dumps(sealed(document)))
        assert read_model(path).schema == model().schema

    def test_what_a_later_fit_begins_with(self, path):
        root = np.random.default_rng(0).standard_normal((4, 4))
        known = Accuracy(root @ root.T, 12.5)
        write_model(path, dataclasses.replace(model(), accuracy=known))
        found = read_model(path).accuracy
        np.testing.assert_array_equal(found.covariance, known.covariance)
        assert found.rows_per_weight == 12.5
        document = json.loads(path.read_text())
        kept = document["as_prior"]["covariance"]
        assert len(kept) == 4 * -(-10 * 8 // 3)  # base64 of ten doubles
        lower = known.covariance[np.tril_indices(4)]
        flipped, holed = -lower, lower.copy()
        holed[0] = math.nan
        for numbers in (lower[:1], lower[:9], flipped, holed):
            text = base64.b64encode(numbers.astype("<f8").tobytes()).decode()
            document["as_prior"]["covariance"] = text
            path.write_text(json.dumps(sealed(document)))
            with pytest.raises(ModelFileError, match="covariance of as_prior must be the lower"):
                read_model(path)
        for part in (None, {"covariance": kept}, {"covariance": kept, "rows_per_weight": -1}):
            path.write_text(json.dumps(sealed(document | {"as_prior": part})))
            with pytest.raises(ModelFileError, match="as_prior must be"):
                read_model(path)
        document["as_prior"] = {"covariance": kept, "rows_per_weight": 0}
        refuses_each_value_replaced(path, document)

    def test_ranges_that_were_learned(self, path):
        ranges = np.array([[-math.inf, -0.5, 0.0], [math.inf, 0.25, 5e-324]])
        write_model(path, dataclasses.replace(model(), column_ranges=ranges))
        found = read_model(path)
        np.testing.assert_array_equal(found.column_ranges, ranges)
        np.testing.assert_array_equal(restored(found).column_ranges_, ranges)
        document = json.loads(path.read_text())
        assert document["column_ranges"] == [None, [-0.5, 0.25], [0.0, 5e-324]]
        for part in ([], [None] * 2, [None, None, [1.0, 0.0]], [None, None, [0.0]], {}, [0.0] * 3):
            path.write_text(json.dumps(sealed(document | {"column_ranges": part})))
            with pytest.raises(ModelFileError, match="column_ranges must hold null or two numbers"):
                read_model(path)
        refuses_each_value_replaced(path, document)
        for wrong in (ranges[:, :2], ranges[::-1], ranges * math.nan):
            with pytest.raises(ValueError, match="ranges must be the lowest and highest"):
                dataclasses.replace(model(), column_ranges=wrong)

    def test_what_predictions_are_kept_in(self, path):
        schema = TableSchema.from_bounds({"a": [-1, 1], "y": {"range": [0, 10]}}, target="y")
        known = StoredModel(
            schema, "linear", {}, [[700.0]], [2.0], False, report(), prediction_range=(1.5, 4.0)
        )
        write_model(path, known)
        assert read_model(path).prediction_range == (1.5, 4.0)
        rows = {"a": np.array(["-1", "0", "1"])}
        assert TableModel.load(path).predict(rows).tolist() == [1.5, 2.0, 4.0]
        document = json.loads(path.read_text())
        for wrong in (
            None,
            1.5,
            [1.5],
            [4.0, 1.5],
            [-0.1, 4.0],
            [1.5, 10.1],
            ["1", 2],
            [1.5, None],
        ):
            path.write_text(json.dumps(sealed(document | {"prediction_range": wrong})))
            with pytest.raises(ModelFileError, match="prediction_range must be two numbers in"):
                read_model(path)
        refuses_each_value_replaced(path, document)
        rest = {name: part for name, part in document.items() if name != "prediction_range"}
        path.write_text(json.dumps(sealed(rest)))  # as earlier versions wrote it
        assert read_model(path).prediction_range is None
        assert TableModel.load(path).predict(rows).tolist() == [0.0, 2.0, 10.0]

    @pytest.mark.parametrize("family", ["linear", "poisson"])
    @pytest.mark.parametrize(("kept", "learned"), [(None, 0), ((1.5, 4.0), 2), ((1.5, 10.0), 1)])
    def test_certificates_count_its_ends_that_are_not_declared(self, path, family, kept, learned):
        schema = TableSchema.from_bounds({"a": [-1, 1], "y": {"range": [0, 10]}}, target="y")
        made = StoredModel(schema, family, {}, [[0.7]], [2.0], False, report())
        write_model(path, dataclasses.replace(made, prediction_range=kept))
        assert _numbers_released(TableModel.load(path)) == 2 + learned

    def test_classes_have_no_range_of_predictions(self, path, document):
        path.write_text(json.dumps(sealed(document | {"prediction_range": [0.0, 1.0]})))
        with pytest.raises(ModelFileError, match="of a target that is a number"):
            read_model(path)

    def test_standard_errors(self, path):
        estimates = Estimates.of(
            [*model().schema.feature_names, "Intercept"],
            np.append(model().coef, model().intercept),
            np.eye(4),
            0.5 * np.eye(4),
            np.array([0.0, 0.0, 1.0, 0.0]),
        )
        errors = StandardErrors(estimates, (("Rows", "3"),))
        write_model(path, dataclasses.replace(model(), errors=errors))
        found = read_model(path).errors
        assert found.facts == errors.facts
        assert found.estimates.to_dict() == estimates.to_dict()
        assert found.estimates.names == estimates.names
        document = json.loads(path.read_text())
        for changes in ({"facts": [["Rows"]]}, {"refused": []}, {"covariance": None}):
            broken = {**document["standard_errors"], **changes}
            path.write_text(json.dumps(sealed({**document, "standard_errors": broken})))
            with pytest.raises(ModelFileError, match="standard_errors"):
                read_model(path)

    def test_failed_save_keeps_the_old_file(self, path):
        path.write_text("old")
        broken = model()
        object.__setattr__(broken, "intercept", np.array([np.nan]))
        with pytest.raises(ValueError, match="JSON"):
            write_model(path, broken)
        assert path.read_text() == "old"
        assert os.listdir(path.parent) == ["model.json"]

    def test_no_such_file(self, path):
        with pytest.raises(FileNotFoundError):
            read_model(path)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"format": "other"}, '"format": "dpfast-model"'),
            ({"version": 1}, r"version 1, .* reads version 2\. Read it with the .* it, '\d"),
            ({"version": True}, "version True"),
            ({"version": 1.0}, "version 1.0"),
            ({"family": "tree"}, "family must be one of"),
            ({"family": ["x"]}, "family must be one of"),
            ({"family": "linear"}, "does not suit the target"),
            ({"parameters": {"epsilon": 1}}, "parameters must be an object with keys among"),
            ({"parameters": []}, "parameters must be an object"),
            ({"classes_together": 1}, "classes_together must be"),
            ({"dpfast_version": 1}, "dpfast_version must be text"),
            ({"new": 1}, r"unknown keys \['new'\]"),
            ({"coef": None}, "coef must be a list"),
            ({"coef": [1, 2, 3]}, "coef must be a list of numbers"),
            ({"coef": [[1, 2]]}, r"coef must have shape \(1, 3\)"),
            ({"coef": [[1, 2, True]]}, "coef must hold numbers"),
            ({"coef": [[1, 2, "4"]]}, "coef must hold numbers"),
            ({"coef": [[1, 2, [4]]]}, "coef must hold numbers"),
            ({"coef": [[1, 2, 10**400]]}, "out of the range of float64"),
            ({"intercept": [10**400]}, "out of the range of float64"),
            ({"intercept": "0"}, "intercept must be a list of numbers"),
            ({"intercept": ["0"]}, "intercept must hold numbers"),
            ({"intercept": None}, "intercept must be a list of numbers"),
            ({"schema": {}}, 'schema must be an object with "columns"'),
            ({"schema": BOUNDS}, 'schema must be an object with "columns"'),
            ({"schema": {"columns": BOUNDS}}, "schema: target must name the column"),
            ({"schema": {"columns": BOUNDS, "target": "y"}}, "schema is not as a fit writes it"),
            ({"column_order": ["age", "age", "y"]}, "column_order must list the columns"),
            ({"column_order": ["age", 1, "y"]}, "column_order must list the columns"),
            ({"column_order": "age"}, "column_order must list the columns"),
            ({"privacy": {}}, "not a privacy report"),
            ({"privacy": None}, "not a privacy report"),
        ],
    )
    def test_refused(self, path, document, changes, message):
        path.write_text(json.dumps({**document, **changes}))
        with pytest.raises(ModelFileError, match=message):
            read_model(path)

    @pytest.mark.parametrize("key", ["format", "version", "family", "schema", "coef", "privacy"])
    def test_missing_key(self, path, document, key):
        del document[key]
        path.write_text(json.dumps(document))
        with pytest.raises(ModelFileError):
            read_model(path)

    @pytest.mark.parametrize("key", ["epsilon", "delta", "neighboring_relation", "events"])
    def test_privacy_must_be_complete(self, path, document, key):
        del document["privacy"][key]
        path.write_text(json.dumps(document))
        with pytest.raises(ModelFileError, match="privacy report"):
            read_model(path)

    @pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 100_000])
    def test_not_a_model(self, path, content):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"model\.json is not a valid dpfast model"):
            read_model(path)

    def test_a_table_in_the_place_of_a_model(self, path):
        path.write_text("age,ill\n1,no\n")
        with pytest.raises(ModelFileError, match="expected what 'dpfast fit' or TableModel"):
            read_model(path)

    @pytest.mark.parametrize("constant", ["NaN", "Infinity", "1e999"])
    def test_numbers_that_json_has_not(self, path, document, constant):
        text = json.dumps({**document, "intercept": ["HERE"]}).replace('"HERE"', constant)
        path.write_text(text)
        with pytest.raises(ModelFileError):
            read_model(path)

    @pytest.mark.parametrize(
        "change",
        [
            lambda d: d["privacy"].update(epsilon=0.5 * d["privacy"]["epsilon"]),
            lambda d: d["privacy"].update(delta=1e-9),
            lambda d: d["privacy"].update(neighboring_relation="add_or_remove_one"),
            lambda d: d["privacy"]["events"][0].update(count=2),
            lambda d: d["privacy"]["events"][0].update(stddev=1.0),
            lambda d: d["privacy"]["events"].clear(),
        ],
        ids=["epsilon", "delta", "relation", "count", "stddev", "no events"],
    )
    def test_a_guarantee_that_the_events_do_not_give_is_refused(self, path, document, change):
        change(document)
        path.write_text(json.dumps(sealed(document)))
        with pytest.raises(ModelFileError, match="privacy is not a privacy report"):
            read_model(path)

    @pytest.mark.parametrize(
        "change",
        [
            lambda d: d["privacy"]["notes"].clear(),
            lambda d: d["coef"][0].reverse(),
            lambda d: d["privacy"]["events"][0].update(stddev=9.0),
            lambda d: d["schema"]["columns"]["age"].update(range=[0.0, 1e3]),
        ],
        ids=["notes", "coef", "stddev", "bounds"],
    )
    def test_what_only_the_checksum_can_know(self, path, document, change):
        change(document)
        path.write_text(json.dumps(document))
        with pytest.raises(ModelFileError, match="checksum"):
            read_model(path)

    def test_every_damaged_file_is_refused(self, path, document):
        text = path.read_text()
        for content in damaged(text):
            path.write_bytes(content)
            with pytest.raises(ModelFileError):
                read_model(path)

    def test_no_value_in_any_place_is_a_crash_or_a_better_promise(self, path, document):
        """As it stands, and with the checksum that goes with it."""

        def promise(found):
            return found.epsilon, found.delta, [(event.mu, event.count) for event in found.events]

        for text in replaced(json.dumps(document)):
            path.write_text(text)
            with pytest.raises(ModelFileError):
                read_model(path)
            try:
                forged = sealed(parse_json(text))
            except ValueError:
                continue
            path.write_text(json.dumps(forged))
            with contextlib.suppress(ModelFileError):
                assert promise(read_model(path).privacy) == promise(report())

    @given(data=st.data())
    @settings(max_examples=120)
    def test_only_model_file_errors_come_out(self, tmp_path, document, data):
        path = tmp_path / "fuzzed.json"
        before = json.dumps(document)
        document = json.loads(before)
        holders = [
            document,
            document["schema"],
            document["schema"]["columns"],
            *document["schema"]["columns"].values(),
            document["privacy"],
            *document["privacy"]["events"],
        ]
        holder = data.draw(st.sampled_from(holders), label="holder")
        key = data.draw(st.sampled_from([*holder, "new"]), label="key")
        holder[key] = data.draw(
            json_values(),
            label="value",
        )
        if json.dumps(document) != before:
            path.write_text(json.dumps(document))
            with pytest.raises(ModelFileError):
                read_model(path)
        path.write_text(json.dumps(sealed(document)))
        try:
            loaded = read_model(path)
        except ModelFileError:
            return
        # The events' true profile, from their definition: no stated point is below it.
        mu = math.sqrt(sum(e.count * e.mu**2 for e in loaded.privacy.events))
        true_delta = gaussian_delta(loaded.privacy.epsilon, mu)
        assert loaded.privacy.delta >= true_delta * (1 - 1e-6)
        relations = {event.neighboring_relation for event in loaded.privacy.events}
        assert relations == {loaded.privacy.neighboring_relation}
        assert np.isfinite(loaded.coef).all()
        assert loaded.coef.shape[1] == len(loaded.schema.feature_names)
