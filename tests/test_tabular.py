import ast
import functools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpfast.tabular
from dpfast.errors import DataError
from dpfast.tabular import CategoricalColumn, NumericColumn, TableSchema, read_bounds

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"

BOUNDS = {
    "age": [17, 90],
    "sex": ["female", "male"],
    "income": ["low", "high"],
    "hours": [0, 99.5],
}


@pytest.fixture
def schema():
    return TableSchema.from_bounds(BOUNDS, target="income")


def table(**columns):
    return {name: np.array(values, dtype=np.str_) for name, values in columns.items()}


@functools.cache
def json_values():
    """Made once: building a recursive strategy takes longer than drawing from it."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.just(10**400)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.sampled_from(["a", "b", "", " a", "numeric", "categorical"])
        | st.text(max_size=5)
    )
    return st.recursive(
        leaves,
        lambda child: (
            st.lists(child, max_size=4)
            | st.lists(st.integers(), min_size=2, max_size=2)
            | st.lists(st.text(max_size=3), min_size=1, max_size=3)
            | st.dictionaries(st.text(max_size=5), child, max_size=4)
        ),
        max_leaves=12,
    )


class TestFromBounds:
    def test_order_and_kinds(self, schema):
        assert schema.features == (
            NumericColumn("age", 17.0, 90.0),
            CategoricalColumn("sex", ("female", "male")),
            NumericColumn("hours", 0.0, 99.5),
        )
        assert (schema.target, schema.classes) == ("income", ("low", "high"))
        assert schema.feature_names == ["age", "sex_female", "sex_male", "sex_<other>", "hours"]

    def test_two_numbers_are_a_range_unless_categorical(self):
        bounds = {"grade": [1, 2], "y": [0, 1]}
        (column,) = TableSchema.from_bounds(bounds, target="y").features
        assert column == NumericColumn("grade", 1.0, 2.0)
        schema = TableSchema.from_bounds(bounds, target="y", categorical=["grade"])
        assert schema.features == (CategoricalColumn("grade", ("1", "2")),)
        assert schema.classes == ("0", "1")

    def test_more_numbers_need_categorical(self):
        bounds = {"grade": [1, 2, 3], "y": ["n", "y"]}
        with pytest.raises(DataError, match=r"column 'grade': .* name the column in --cat"):
            TableSchema.from_bounds(bounds, target="y")
        schema = TableSchema.from_bounds(bounds, target="y", categorical=["grade"])
        assert schema.features[0].categories == ("1", "2", "3")

    def test_categories_are_stripped_like_the_values(self):
        schema = TableSchema.from_bounds({"s": [" a", "b "], "y": ["n", "y"]}, target="y")
        assert schema.features[0].categories == ("a", "b")

    @pytest.mark.parametrize(
        ("bounds", "message"),
        [
            ([], "must be one JSON object"),
            ({}, "target 'y' is not in the bounds"),
            ({"y": ["n", "y"]}, "only the target 'y' is declared"),
            ({"y": ["n"], "a": [0, 1]}, "target 'y': expected its two classes"),
            ({"y": ["n", "y", "z"], "a": [0, 1]}, "target 'y': expected its two classes"),
            ({"y": "ny", "a": [0, 1]}, "target 'y': expected its two classes"),
            ({"y": ["n", "n"], "a": [0, 1]}, "'n' are listed more than once"),
            ({"y": ["n", ""], "a": [0, 1]}, "column 'y': expected text that is not empty"),
            ({"y": ["n", "y"], "a": [90, 17]}, "column 'a': expected finite numbers low < high"),
            ({"y": ["n", "y"], "a": [1, 1]}, "column 'a': expected finite numbers low < high"),
            ({"y": ["n", "y"], "a": [-1e308, 1e308]}, "column 'a': expected finite numbers"),
            ({"y": ["n", "y"], "a": [0, 10**400]}, "column 'a': expected finite numbers"),
            ({"y": ["n", "y"], "a": [0, float("nan")]}, "column 'a': expected finite numbers"),
            ({"y": ["n", "y"], "a": [0, float("inf")]}, "column 'a': expected finite numbers"),
            ({"y": ["n", "y"], "a": [False, True]}, "column 'a': expected two numbers"),
            ({"y": ["n", "y"], "a": [0, "1"]}, "column 'a': expected two numbers"),
            ({"y": ["n", "y"], "a": [0]}, "column 'a': expected two numbers"),
            ({"y": ["n", "y"], "a": []}, "column 'a': expected two numbers"),
            ({"y": ["n", "y"], "a": None}, r"column 'a': expected \[low, high\] or a list"),
            ({"y": ["n", "y"], "a": {"low": 0}}, r"column 'a': expected \[low, high\] or a list"),
            ({"y": ["n", "y"], "a": ["x", " x"]}, "column 'a': the categories 'x' are listed more"),
            ({"y": ["n", "y"], "a": ["x", " "]}, "column 'a': expected text that is not empty"),
            ({"y": ["n", "y"], "": [0, 1]}, "column name must be text that is not empty"),
            ({"y": ["n", "y"], " a": [0, 1]}, "no spaces around it; got ' a'"),
            ({"y": ["n", "y"], 3: [0, 1]}, "column name must be text"),
        ],
    )
    def test_refused(self, bounds, message):
        with pytest.raises(DataError, match=message):
            TableSchema.from_bounds(bounds, target="y")

    def test_unknown_categorical(self):
        with pytest.raises(DataError, match=r"categorical names columns .*\['b'\]"):
            TableSchema.from_bounds({"a": [0, 1], "y": ["n", "y"]}, target="y", categorical=["b"])

    @pytest.mark.parametrize("entry", [[], [None], [["a"]], [True], "ab"])
    def test_wrong_categories_of_a_named_column(self, entry):
        with pytest.raises(DataError, match="column 'a'"):
            TableSchema.from_bounds({"a": entry, "y": [0, 1]}, target="y", categorical=["a"])

    @given(bounds=st.dictionaries(st.sampled_from(["y", "a", "b", ""]), json_values()))
    @settings(max_examples=300)
    def test_only_data_errors_come_out(self, bounds):
        for categorical in ([], ["a"]):
            try:
                schema = TableSchema.from_bounds(bounds, target="y", categorical=categorical)
            except DataError:
                continue
            assert TableSchema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


class TestDict:
    def test_round_trip_through_json(self, schema):
        assert TableSchema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema

    @given(data=st.data())
    @settings(max_examples=300)
    def test_only_data_errors_come_out(self, data):
        document = TableSchema.from_bounds(BOUNDS, target="income").to_dict()
        holder = data.draw(
            st.sampled_from([document, *document["features"], {"whole": document}]), label="holder"
        )
        key = data.draw(st.sampled_from([*holder, "new"]), label="key")
        holder[key] = data.draw(json_values(), label="value")
        document = holder.get("whole", document)
        try:
            schema = TableSchema.from_dict(document)
        except DataError:
            return
        assert schema.row_norm_bound > 0.0

    def test_repeated_column(self, schema):
        document = schema.to_dict()
        document["features"].append(document["features"][0])
        with pytest.raises(DataError, match="'age' are declared more than once"):
            TableSchema.from_dict(document)


class TestTransform:
    def test_values(self, schema):
        X = schema.transform(
            table(
                age=["17", "53.5", "1e3"],
                sex=["female", "male", "?"],
                hours=["-5", "99.5", "49.75"],
                ignored=["x", "y", "z"],
            )
        )
        np.testing.assert_allclose(
            X, [[-1, 1, 0, 0, -1], [0, 0, 1, 0, 1], [1, 0, 0, 1, 0]], atol=1e-15
        )
        assert X.dtype == np.float64
        assert X.flags.c_contiguous

    def test_row_norm_bound_holds_for_every_row(self, schema):
        rng = np.random.default_rng(0)
        n = 5_000
        X = schema.transform(
            table(
                age=rng.normal(50.0, 1e3, n).astype(str),
                sex=rng.choice(["female", "male", "", "x"], n),
                hours=rng.normal(50.0, 1e3, n).astype(str),
            )
        )
        assert schema.row_norm_bound == math.sqrt(3)
        norms = np.linalg.norm(X, axis=1)
        assert norms.max() <= schema.row_norm_bound
        # The bound is attained, so a smaller one would be wrong.
        assert norms.max() == pytest.approx(schema.row_norm_bound)

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            ("", "an empty field"),
            ("n/a", "'n/a'"),
            ("nan", "'nan'"),
            ("inf", "'inf'"),
            ("1e999", "'1e999'"),
            ("1,5", "'1,5'"),
        ],
    )
    @pytest.mark.parametrize("row", [1, 2, 500, 1000])
    def test_bad_numbers_name_column_row_and_value(self, schema, value, shown, row):
        ages = ["30"] * 1000
        ages[row - 1] = value
        columns = table(age=ages, sex=["male"] * 1000, hours=["1"] * 1000)
        with pytest.raises(DataError, match=f"column 'age', row {row} of the data: .* got {shown}"):
            schema.transform(columns)

    def test_the_first_bad_row_is_named(self, schema):
        columns = table(age=["1", "x", "2", "y"], sex=["male"] * 4, hours=["1"] * 4)
        with pytest.raises(DataError, match="row 2 of the data"):
            schema.transform(columns)

    def test_missing_column(self, schema):
        with pytest.raises(DataError, match="lacks the column 'sex'; it has 'age'"):
            schema.transform(table(age=["1"]))


class TestEncodeTarget:
    def test_values(self, schema):
        y = schema.encode_target(table(income=["low", "high", "low"]))
        assert y.tolist() == [0, 1, 0]
        assert y.dtype == np.int64

    @pytest.mark.parametrize("label", ["High", "", "high.", "0"])
    def test_other_labels(self, schema, label):
        with pytest.raises(DataError, match=f"'income', row 3 of the data: .*; got '{label}'"):
            schema.encode_target(table(income=["low", "high", label, "zzz"]))

    def test_missing(self, schema):
        with pytest.raises(DataError, match="lacks the column 'income'"):
            schema.encode_target(table(age=["1"]))


class TestReadBounds:
    def test_reads(self, tmp_path):
        path = tmp_path / "bounds.json"
        path.write_text("\ufeff" + json.dumps(BOUNDS), encoding="utf-8")
        assert read_bounds(path) == BOUNDS

    @pytest.mark.parametrize(
        "content", [b"", b"{", b'{"a": NaN}', b'{"a": 1, "a": 2}', b"\xff\xfe{}", b"[" * 100_000]
    )
    def test_refused(self, tmp_path, content):
        path = tmp_path / "bounds.json"
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"bounds\.json is not valid JSON"):
            read_bounds(path)


def test_the_adult_example_is_a_schema():
    schema = TableSchema.from_bounds(read_bounds(EXAMPLES / "adult_bounds.json"), target="income")
    assert schema.row_norm_bound == math.sqrt(14)
    # Numbers of categories in the documentation of the data set, and one "other" for each column.
    assert len(schema.feature_names) == 6 + (8 + 16 + 7 + 14 + 6 + 5 + 2 + 41) + 8


def test_pandas_is_not_imported():
    for node in ast.walk(ast.parse(Path(dpfast.tabular.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] != "pandas" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert str(node.module).split(".")[0] != "pandas"


def test_numbers_need_not_be_text():
    schema = TableSchema.from_bounds(
        {"x": [0, 10], "k": [1, 2], "y": ["0", "1"]}, target="y", categorical=["k"]
    )
    table = {"x": np.array([0.0, 5.0]), "k": np.array([2, 7]), "y": np.array([1, 0])}
    np.testing.assert_array_equal(
        schema.transform(table), [[-1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    )
    assert schema.encode_target(table).tolist() == [1, 0]
    with pytest.raises(DataError, match="column 'x', row 2 of the data: expected a finite number"):
        schema.transform({**table, "x": np.array([0.0, np.nan])})
    for name in ("k", "y"):
        with pytest.raises(DataError, match=f"column '{name}': categories and classes are"):
            changed = {**table, name: np.array([1.0, 0.0])}
            schema.transform(changed)
            schema.encode_target(changed)
