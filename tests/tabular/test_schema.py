"""The bounds of a table, and how rows are encoded by them."""

import datetime
import json
import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hostile_files import json_values
from hypothesis import given, settings
from hypothesis import strategies as st

from dpfast.column_blocks import ColumnBlock
from dpfast.errors import DataError
from dpfast.tabular import ClassTarget, RangeTarget, TableSchema, Tally, read_bounds
from dpfast.tabular.columns import BooleanColumn, CategoryColumn, DateColumn, NumberColumn
from dpfast.tabular.targets import Exposure, Weight

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

BOUNDS = {
    "age": [17, 90],
    "sex": ["female", "male"],
    "income": ["low", "high"],
    "hours": [0, 99.5],
}


@pytest.fixture
def schema():
    return TableSchema.from_bounds(BOUNDS, target="income")


def one(entry, policy=None):
    """The column that an entry declares."""
    roles = {"target": "y"} | ({} if policy is None else {"missing": policy})
    return TableSchema.from_bounds({**roles, "columns": {"a": entry, "y": ["n", "p"]}}).features[0]


def encoded(column, values):
    schema = TableSchema((column,), ClassTarget("y", ("n", "p")))
    return schema.transform({column.name: values})


TEXTS = st.text(max_size=3)
KEYS = st.sampled_from(
    ["range", "categories", "dates", "boolean", "missing", "missing_values", "transform",
     "learn", "other", "reference", "format", "learned"]
)  # fmt: skip
WORDS = st.sampled_from(["a", "b", "", " a", "range", "categories", "indicator", "2020-01-01"])
LISTS = st.lists(st.integers(), min_size=2, max_size=2) | st.lists(TEXTS, min_size=1, max_size=3)
ENTRIES = json_values(WORDS | TEXTS, KEYS | TEXTS, LISTS, most=12)


class TestEntries:
    @pytest.mark.parametrize(
        ("entry", "column"),
        [
            ([17, 90], NumberColumn("a", low=17.0, high=90.0)),
            ({"range": [17, 90]}, NumberColumn("a", low=17.0, high=90.0)),
            ({"range": [0, 9], "missing": 3}, NumberColumn("a", 3, low=0.0, high=9.0)),
            (
                {"range": [0, 9], "transform": "log1p", "learn": True},
                NumberColumn("a", low=0.0, high=9.0, transform="log1p", learn=True),
            ),
            ([" x", "y "], CategoryColumn("a", categories=("x", "y"))),
            ([1, 2, 3], CategoryColumn("a", categories=("1", "2", "3"))),
            ([1, "x"], CategoryColumn("a", categories=("1", "x"))),
            (["1", "2"], CategoryColumn("a", categories=("1", "2"))),
            ({"categories": [1, 2]}, CategoryColumn("a", categories=("1", "2"))),
            (
                {"categories": ["x"], "other": True, "missing_values": ["?", -9]},
                CategoryColumn("a", None, ("?", "-9"), categories=("x",), other=True),
            ),
            (
                {"categories": [1, 2], "reference": 2},
                CategoryColumn("a", categories=("1", "2"), reference="2"),
            ),
            ([False, True], BooleanColumn("a")),
            ({"boolean": [False, True]}, BooleanColumn("a")),
            ({"boolean": ["N", "J"], "missing": "N"}, BooleanColumn("a", "N", words=("N", "J"))),
            (
                ["2020-01-01", "2024-12-31"],
                DateColumn("a", first="2020-01-01", last="2024-12-31"),
            ),
            (
                {"dates": ["1.1.2020", "31.12.2024"], "format": "%d.%m.%Y"},
                DateColumn("a", first="1.1.2020", last="31.12.2024", form="%d.%m.%Y"),
            ),
        ],
        ids=str,
    )
    def test_kinds(self, entry, column):
        assert one(entry) == column
        assert one(column.declaration()) == column

    def test_two_dates_that_are_categories(self):
        column = one({"categories": ["2020-01-01", "2024-12-31"]})
        assert column.feature_names == ["a_2020-01-01", "a_2024-12-31"]

    def test_two_numbers_that_are_categories(self):
        schema = TableSchema.from_bounds({"a": [1, 2], "y": [0, 1]}, target="y", categorical=["a"])
        assert schema.features == (CategoryColumn("a", categories=("1", "2")),)

    def test_one_policy_for_all_that_say_nothing(self):
        assert one([0, 1], "indicator").missing == "indicator"
        assert one({"range": [0, 1], "missing": "refuse"}, "indicator").missing is None

    def test_missing_values_for_all(self):
        columns = {"a": ["x", "unknown"], "b": {"categories": ["x"], "missing_values": ["?"]}}
        schema = TableSchema.from_bounds(
            {"columns": {**columns, "y": ["n", "p"]}, "target": "y", "missing": "indicator",
             "missing_values": ["unknown", -9]}
        )  # fmt: skip
        assert [c.missing_values for c in schema.features] == [
            ("unknown", "-9"),
            ("unknown", "-9", "?"),
        ]
        # What is listed as a category is one.
        X = schema.transform({"a": ["unknown", "-9"], "b": ["unknown", "?"]})
        np.testing.assert_array_equal(X, [[0, 1, 0, 0, 1], [0, 0, 1, 0, 1]])

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ([90, 17], r"low < high; got \[90, 17\]. Did you mean \[17, 90\]\?$"),
            ([1, 1], "carries no information"),
            ([-1e308, 1e308], "expected two finite numbers"),
            ([0, 10**400], "expected two finite numbers"),
            ([0, float("nan")], "expected two finite numbers"),
            ([0], "expected two finite numbers"),
            ([], "or a list of categories"),
            (None, r"expected \[low, high\] or a list"),
            ([True, False], r"expected \[false, true\]"),
            ([True], r"expected \[false, true\]"),
            ([None, "x"], "a category must be text"),
            ([18, "90"], r"two numbers in quotes may be a range .* write \[18, 90\], or"),
            (["18", "90"], r"two numbers in quotes may be a range .* write \[18, 90\], or"),
            (["01.01.2022", "31.12.2023"], r'"dates": \["01.01.2022", "31.12.2023"\], "format"'),
            (["1/1/2022 00:00", "12/31/2023 23:59"], "two dates in another form"),
            (["x", " x"], "the categories 'x' are listed more"),
            (["x"], """one category alone .* {"categories": \\["x"\\], "other": true}"""),
            (["x", " "], "expected text that is not empty"),
            ({"low": 0}, "expected an object with one of the keys range, dates, boolean"),
            ({"range": [0, 1], "dates": ["a", "b"]}, "one of the keys"),
            ({"range": [0, 1], "other": True}, "'other' says nothing beside 'range'"),
            ({"range": [0, 1], "transform": "exp"}, "transform must be one of log1p, sqrt"),
            ({"range": [-1, 1], "transform": "sqrt"}, "sqrt takes no numbers below 0"),
            ({"range": [0, 1], "learn": 1}, "learn must be true or false"),
            ({"range": [0, 1], "missing": 2}, r"missing must be .* a number in \[0, 1\]; got 2"),
            ({"range": [0, 1], "missing": "x"}, "a number in"),
            ({"range": [0, 1], "missing_values": "?"}, "missing_values must be a list"),
            ({"categories": ["x"], "missing": "z"}, "missing must be .* one of the declared"),
            ({"categories": ["x"], "other": "yes"}, "other must be true or false"),
            ({"categories": ["x", "y"], "reference": "z"}, "reference must be one of two or more"),
            ({"categories": ["x"], "reference": "x"}, "reference must be one of two or more"),
            ({"categories": ["x", "y"], "reference": None}, "reference must be one of two or more"),
            ({"dates": ["2020-01-01"]}, "expected two dates"),
            ({"dates": ["2024-01-01", "2020-01-01"]}, "the earlier one first; got"),
            (
                {"dates": ["2024-01-01", "2024-12-31"], "format": "%d/%m/%Y"},
                r'such as \["01/01/2015", "31/12/2024"\], the earlier one first',
            ),
            ({"dates": ["1", "2"], "format": "\0"}, "expected two dates"),
            ({"rnage": [0, 1]}, "got .* Did you mean 'range'"),
            ({"dates": [2020, 2024]}, "expected two dates"),
            ({"dates": ["2020-01-01", "2024-01-01"], "missing": "2030-01-01"}, "a date between"),
            ({"boolean": ["N"]}, "or the two words for them"),
        ],
        ids=str,
    )
    def test_refused(self, entry, message):
        with pytest.raises(DataError, match=f"column 'a': .*{message}"):
            one(entry)

    @given(bounds=st.dictionaries(st.sampled_from(["y", "a", "b", ""]), ENTRIES))
    @settings(max_examples=300)
    def test_only_data_errors_come_out(self, bounds):
        for categorical in ([], ["a"]):
            try:
                schema = TableSchema.from_bounds(bounds, target="y", categorical=categorical)
            except DataError:
                continue
            again = TableSchema.from_bounds(json.loads(json.dumps(schema.to_dict())))
            assert again == schema
            assert 0.0 < schema.row_norm_bound < math.inf


class TestTarget:
    @pytest.mark.parametrize(
        ("entry", "task", "target"),
        [
            (["no", "yes"], None, ClassTarget("y", ("no", "yes"))),
            (["yes", "no"], None, ClassTarget("y", ("yes", "no"))),
            ([3, 4, 5], None, ClassTarget("y", (3, 4, 5))),
            ([0, 1], None, ClassTarget("y", (0, 1))),
            ([-1, 1], None, ClassTarget("y", (-1, 1))),
            ([0, 120], None, RangeTarget("y", 0.0, 120.0)),
            ([0, 1], "regression", RangeTarget("y", 0.0, 1.0)),
            ([0, 120], "classification", ClassTarget("y", (0, 120))),
            ([False, True], None, ClassTarget("y", (False, True))),
            ({"classes": [0, 120]}, None, ClassTarget("y", (0, 120))),
            ({"range": [0, 1], "learn": True}, None, RangeTarget("y", 0.0, 1.0, True)),
        ],
        ids=str,
    )
    def test_kinds(self, entry, task, target):
        schema = TableSchema.from_bounds({"a": [0, 1], "y": entry}, target="y", task=task)
        assert schema.target == target
        assert TableSchema.from_bounds(schema.to_dict()).target == target

    @pytest.mark.parametrize(
        ("entry", "task", "message"),
        [
            (["n"], None, "target 'y': expected its classes"),
            ("ny", None, "target 'y': expected its classes"),
            (["n", "n"], None, "'n' are listed more than once"),
            (["n", ""], None, "expected text that is not empty"),
            (["n", "p"], "regression", "expected its range"),
            ({"range": [0, 1], "missing": 0}, None, "a row without a target teaches nothing"),
            ({"range": [0, 1], "transform": "log1p"}, None, "no transform, .* such as gamma"),
            ({"range": [1, 0]}, None, "expected two finite numbers"),
        ],
        ids=str,
    )
    def test_refused(self, entry, task, message):
        columns = {"a": [0, 1], "y": entry}
        with pytest.raises(DataError, match=message):
            TableSchema.from_bounds({"columns": columns}, target="y", task=task)

    def test_labels_keep_their_order_and_type(self):
        schema = TableSchema.from_bounds({"a": [0, 1], "y": ["yes", "no"]}, target="y")
        assert schema.target.labels.tolist() == ["yes", "no"]
        assert schema.encode_target({"y": ["no", "YES"]}).tolist() == [1, 0]
        schema = TableSchema.from_bounds({"a": [0, 1], "y": [1, 2]}, target="y")
        assert schema.target.labels.dtype.kind == "i"
        assert schema.encode_target({"y": np.array([2.0, 1.0])}).tolist() == [1, 0]

    @pytest.mark.parametrize("label", ["High", "", "high.", "0"])
    def test_other_labels(self, schema, label):
        labels = ["low", "high", label, "zzz"]
        if label == "High":
            assert schema.encode_target({"income": labels[:3]}).tolist() == [0, 1, 1]
            labels[2] = "higher"
        with pytest.raises(DataError, match=r"'income', row 3 of the data: .*'low' or 'high'; got"):
            schema.encode_target({"income": labels})

    @pytest.mark.parametrize("n", [3, 5000])
    def test_a_target_in_texts(self, n):
        """Of few texts, and of so many that PyArrow reads them."""
        schema = TableSchema.from_bounds({"a": [0, 1], "y": [0, 50]}, target="y")
        texts = [f"{row % 7}.5" for row in range(n)]
        for column in (texts, np.array(texts), np.array(texts, dtype=object)):
            assert schema.encode_target({"y": column}).tolist() == list(map(float, texts))

    def test_a_missing_number(self):
        schema = TableSchema.from_bounds({"a": [0, 1], "y": [0, 50]}, target="y")
        assert schema.encode_target({"y": ["1", "99"]}).tolist() == [1.0, 99.0]
        with pytest.raises(
            DataError, match=r"column 'y', row 2 .* Remove the rows without a target"
        ):
            schema.encode_target({"y": ["1", ""]})


class TestRoles:
    def test_short_and_full_form_are_one(self):
        columns = {"a": [0, 1], "w": [0, 5], "y": ["n", "p"]}
        roles = {"target": "y", "person": "id", "weight": "w", "learn_share": 0.2}
        counts = {"a": [0, 1], "years": [0, 2], "y": [0, 9], "target": "y", "exposure": "years"}
        watched = TableSchema.from_bounds(counts)
        assert watched.exposure == Exposure("years", 2.0)
        # As large as may be, and without a warning that would depend on the rows.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isfinite(watched.target.parse(np.ones(1), None, np.full(1, 5e-324))).all()
        assert TableSchema.from_bounds(watched.to_dict()) == watched
        assert watched.columns_read(fit=False) == ["a", "years"]
        short = TableSchema.from_bounds({**columns, **roles})
        assert short == TableSchema.from_bounds({"columns": columns, **roles})
        assert (short.person, short.weight, short.learn_share) == ("id", Weight("w", 5.0), 0.2)
        assert [column.name for column in short.features] == ["a"]
        assert short.columns_read(fit=True) == ["a", "y", "w", "id"]
        assert short.columns_read(fit=False) == ["a"]

    def test_columns_may_have_the_names_of_roles(self):
        columns = {"target": ["n", "p"], "weight": [30, 200], "columns": [0, 1]}
        for bounds in ({"columns": columns}, columns):
            schema = TableSchema.from_bounds(bounds, target="target")
            assert schema.feature_names == ["weight", "columns"]

    def test_a_column_may_be_called_format(self):
        bounds = {"format": np.array(["a", "b"]), "y": ["n", "p"], "target": "y"}
        assert TableSchema.from_bounds(bounds).feature_names == ["format_a", "format_b"]

    def test_what_is_given_beside_the_bounds_comes_first(self):
        columns = {"a": [0, 1], "b": ["n", "p"], "y": ["n", "p"], "target": "y"}
        assert TableSchema.from_bounds(columns, target="b").target.name == "b"

    @pytest.mark.parametrize(
        ("bounds", "message"),
        [
            ([], "must be one JSON object"),
            ({"format": "dpfast-model", "schema": {}}, 'got a model file. The entry "schema"'),
            ({"a": [0, 1], "y": ["n", "p"]}, "target must name the column to predict"),
            ({"a": [0, 1], "target": "y"}, "the target 'y' is not in the bounds"),
            ({"y": ["n", "p"], "target": "y"}, "only the target 'y' is declared"),
            ({"a": "x", "y": ["n", "p"], "target": "y"}, "column 'a': expected"),
            ({"a": [0, 1], "y": [0, 1], "target": "y", "person": "a"}, "person column 'a'"),
            ({"a": [0, 1], "y": [0, 1], "target": "y", "weight": "w"}, "weight 'w' is not in"),
            (
                {"a": [0, 1], "w": [-1, 1], "y": [0, 1], "target": "y", "weight": "w"},
                "the weight 'w' must be declared as \\[0, largest\\]",
            ),
            *(
                ({"a": [0, 1], "w": entry, "y": [0, 1], "target": "y", "weight": "w"}, message)
                for entry, message in [
                    ([1, 4], r"as \[0, 4\], .*; got \[1, 4\]"),
                    ({"range": [0, 4], "transform": "log1p"}, "nothing beside it, .*log1p"),
                    ({"range": [0, 4], "missing": 1}, "nothing beside it, .*missing"),
                    (["a", "b"], r"\[0, largest\], .*; got"),
                ]
            ),
            (
                {"a": [0, 1], "e": [1, 4], "y": [0, 9], "target": "y", "exposure": "e"},
                r"the exposure 'e' must be declared as \[0, 4\].*; got \[1, 4\]",
            ),
            (
                {"a": [0, 1], "e": [0, 1], "y": ["n", "p"], "target": "y", "exposure": "e"},
                "the exposure 'e' asks for a target that is a number",
            ),
            (
                {
                    "a": [0, 1],
                    "e": [0, 1],
                    "target": "y",
                    "exposure": "e",
                    "y": {"range": [0, 9], "learn": True},
                },
                "whose range is declared and not learned",
            ),
            ({"a": [0, 1], "y": [0, 1], "target": "y", "missing": "drop"}, '"missing" must be'),
            ({"a": [0, 1], "y": [0, 1], "target": "y", "learn_share": 2}, '"learn_share" must be'),
            ({"a": [0, 1], "y": [0, 1], "target": 3}, '"target" must be a text'),
            (
                {"columns": {"a": [0, 1], "y": [0, 1]}, "target": "y", "missing_values": [[]]},
                "missing_values must be a list",
            ),
            ({"": [0, 1], "y": [0, 1], "target": "y"}, "column name must be text that is not"),
            ({" a": [0, 1], "y": [0, 1], "target": "y"}, "no spaces around it; got ' a'"),
            ({3: [0, 1], "y": [0, 1], "target": "y"}, "column name must be text"),
            ({"a": [0, 1], "y": [0, 1], "target": "y", "weight": "y"}, "more than one role"),
            ({"a_b": [0, 1], "a": ["b", "c", "d"], "y": [0, 1], "target": "y"}, "a_b.* another"),
        ],
        ids=str,
    )
    def test_refused(self, bounds, message):
        with pytest.raises(DataError, match=message):
            TableSchema.from_bounds(bounds)


@pytest.mark.parametrize(
    "ends",
    [
        [datetime.date(2022, 1, 1), datetime.date(2024, 12, 31)],
        (pd.Timestamp("2022-01-01"), pd.Timestamp("2024-12-31")),
        np.array(["2022-01-01", "2024-12-31"], "datetime64[ns]"),
    ],
    ids=["dates", "pandas", "NumPy"],
)
def test_dates_of_python_are_dates(ends):
    written = one(["2022-01-01", "2024-12-31"])
    for entry in (ends, {"dates": ends}):
        column = one(entry)
        assert column._ends() == written._ends()
        json.dumps(column.declaration())


class TestTransform:
    def test_values(self, schema):
        X = schema.transform(
            {
                "age": ["17", "53.5", "1e3"],
                "sex": ["female", "MALE", "?"],
                "hours": ["-5", "99.5", "49.75"],
                "ignored": ["x", "y", "z"],
            }
        )
        np.testing.assert_allclose(X, [[-1, 1, 0, -1], [0, 0, 1, 1], [1, 0.5, 0.5, 0]], atol=1e-15)
        assert X.dtype == np.float64
        assert X.flags.c_contiguous

    @pytest.mark.parametrize(
        ("entry", "values", "expected"),
        [
            ({"range": [0, 10]}, [0.0, 10.0, 5.0], [[-1], [1], [0]]),
            ({"range": [0, 10], "missing": "indicator"}, [np.nan, 10.0], [[0, 1], [1, 0]]),
            ({"range": [0, 10], "missing": 0}, [np.nan, 10.0], [[-1, 1], [1, 0]]),
            ({"range": [0, 99], "transform": "log1p"}, [9.0, 99.0], [[0], [1]]),
            ({"range": [0, 4], "transform": "sqrt"}, [0.0, 1.0, 9.0], [[-1], [0], [1]]),
            ({"boolean": [False, True]}, ["no", "1", "?"], None),
            (
                {"boolean": [False, True], "missing": "indicator"},
                ["no", "1", "?", "maybe"],
                [[-1, 0], [1, 0], [0, 1], [0, 0]],
            ),
            ({"boolean": [False, True], "missing": True}, ["0", ""], [[-1, 0], [1, 1]]),
            ({"boolean": ["N", "J"]}, ["J", "n"], [[1], [-1]]),
            ({"categories": ["x", "y"]}, ["y", "z"], [[0, 1], [0.5, 0.5]]),
            ({"categories": ["x", "y"], "other": True}, ["y", "z"], [[0, 1, 0], [0, 0, 1]]),
            (
                {"categories": ["x", "y"], "missing": "indicator", "missing_values": ["?"]},
                ["y", "?", "", "z"],
                [[0, 1, 0], [0, 0, 1], [0, 0, 1], [0.5, 0.5, 0]],
            ),
            ({"categories": ["x", "y"], "missing": "x"}, ["y", ""], [[0, 1, 0], [1, 0, 1]]),
            (
                {"categories": ["x", "y", "w"], "reference": "y", "missing": "y"},
                ["x", "y", "w", "", "z"],
                [[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1], [1 / 3, 1 / 3, 0]],
            ),
            (
                {"categories": ["x", "y", "w"], "reference": "x", "missing": "w", "other": True},
                ["x", "y", "w", "", "z"],
                [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0]],
            ),
            (
                {"dates": ["2020-01-01", "2020-01-03"]},
                ["2020-01-02", "2020-01-03", "1999-01-01"],
                [[0], [1], [-1]],
            ),
        ],
        ids=str,
    )
    def test_every_kind(self, entry, values, expected):
        column = one(entry)
        if expected is None:
            with pytest.raises(DataError, match=r"row 3 .* expected a value; got a missing one"):
                encoded(column, values)
            return
        X = encoded(column, values)
        np.testing.assert_allclose(X, expected, atol=1e-12)
        assert X.shape[1] == len(column.feature_names)
        assert np.square(X).sum(axis=1).max() <= column.squared_norm + 1e-12

    @pytest.mark.parametrize(
        "entry",
        [
            {"range": [0, 10], "missing": "indicator"},
            {"range": [0, 10], "missing": 2},
            {"range": [0, 10], "missing": 2, "learn": True},
            {"categories": ["x", "y", "z"]},
            {"categories": ["x", "y"], "missing": "x"},
            {"categories": ["x", "y"], "missing": "x", "reference": "y"},
            {"categories": ["x", "y"], "missing": "indicator", "other": True},
            {"boolean": [False, True], "missing": True},
            {"dates": ["2020-01-01", "2020-02-01"], "missing": "2020-01-10"},
        ],
        ids=str,
    )
    def test_the_norm_is_reached_and_never_passed(self, entry):
        column = one(entry)
        if isinstance(column, NumberColumn) and column.learn:
            column = column.with_learned(2.0, 3.0)
        values = ["", "0", "2", "10", "x", "y", "unheard of", "2020-01-01", "2020-02-01", "true"]
        longest = 0.0
        for value in values:
            try:
                X = encoded(column, [value])
            except DataError:
                continue
            longest = max(longest, np.square(X).sum())
        assert longest == pytest.approx(column.squared_norm)

    def test_row_norm_bound_holds_for_every_row(self, schema):
        rng = np.random.default_rng(0)
        n = 5_000
        X = schema.transform(
            {
                "age": rng.normal(50.0, 1e3, n),
                "sex": rng.choice(["female", "male", "x"], n),
                "hours": rng.normal(50.0, 1e3, n),
            }
        )
        assert schema.row_norm_bound == math.sqrt(3)
        norms = np.linalg.norm(X, axis=1)
        # The bound is attained, so a smaller one would be wrong.
        assert norms.max() == pytest.approx(schema.row_norm_bound)
        assert norms.max() <= schema.row_norm_bound * (1.0 + 1e-15)

    def test_an_undeclared_value_has_the_average_effect(self):
        """Whatever the coefficients, and wherever the constant of a block went."""
        X = encoded(one(["x", "y", "z"]), ["x", "y", "z", "never seen"])
        coef = np.array([3.0, -40.0, 136.0])
        effects = X @ coef
        assert effects[3] == pytest.approx(effects[:3].mean())

    def test_what_was_never_declared_is_counted(self, schema):
        tally = Tally()
        table = {"age": [1, 20, 200], "sex": ["male", "?", "x"], "hours": [1, 2, 3]}
        schema.transform(table, tally)
        assert tally.undeclared == {"sex": 2}
        assert tally.cut == {"age": 2}

    @pytest.mark.parametrize(
        ("entry", "values", "message"),
        [
            ([0, 1], ["", "0"], "row 1 .* expected a value; got a missing one.*indicator"),
            ([0, 1], np.array([0.5, np.nan]), "row 2 of the data: expected a value"),
            ([0, 1], ["0", "x"], "row 2 .* expected a finite number; got other text"),
            (["x", "y"], ["x", ""], 'row 2 .* expected a value.*"missing"'),
            (
                ["x", "y"],
                np.array([1.0, 2.0]),
                "expected one of the categories 'x', 'y'; got float",
            ),
            (["x", "y"], np.array([True]), "expected one of the categories 'x', 'y'; got bool"),
            (["x", "y"], np.array(["2020-01-01"], "datetime64[D]"), "got dates"),
            ([False, True], np.array(["2020-01-01"], "datetime64[D]"), "expected truth values"),
            (["2020-01-01", "2021-01-01"], np.array([1, 2]), "expected dates; got int64"),
            (["2020-01-01", "2021-01-01"], ["2020-01-01", "soon"], "row 2 .* expected a date"),
        ],
        ids=str,
    )
    def test_what_does_not_fit_its_declaration(self, entry, values, message):
        with pytest.raises(DataError, match=f"column 'a'.*{message}"):
            encoded(one(entry), values)

    def test_missing_and_doubled_columns(self, schema):
        with pytest.raises(DataError, match="lacks the column 'sex'; it has 'age', 'hours'"):
            schema.transform({"age": ["1"], "hours": ["1"]})
        with pytest.raises(DataError, match=r"it has 'age', 'Sex', .*\. Did you mean 'Sex'\?"):
            schema.transform({"age": ["1"], "Sex": ["f"], "hours": ["1"]})
        # What a reader took for names may be a record, in which a value is called like a column.
        for names in (["77", "secret"], ["77", "sex"]):
            with pytest.raises(DataError, match=r"columns 'age', 'sex', 'hours'; .* 2 others") as e:
                schema.transform(pd.DataFrame([[1, 2]], columns=names))
            assert "77" not in str(e.value) and "secret" not in str(e.value)
        table = pd.DataFrame({"age": [1], "sex": ["f"]}).set_index("sex")
        with pytest.raises(DataError, match=r"'sex' is its index: pass table\.reset_index\(\)"):
            schema.transform(table)

    def test_blocks_of_columns(self):
        columns = {
            "n": {"range": [0, 1], "missing": "indicator"},
            "b": [False, True],
            "c": {"categories": ["x", "y"], "missing": "indicator"},
            "f": {"categories": ["x", "y"], "missing": "x"},
            "y": ["n", "p"],
        }
        schema = TableSchema.from_bounds({"columns": columns}, target="y")
        kinds = ["number", "one-hot", "binary", "one-hot", "one-hot", "one-hot"]
        starts = [0, 1, 2, 3, 6, 8, 9]
        expected = [ColumnBlock(*block) for block in zip(kinds, starts, starts[1:], strict=False)]
        assert schema.column_blocks == tuple(expected)
        assert len(schema.feature_names) == 9


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
        with pytest.raises(DataError, match=r"bounds\.json is not valid JSON.* double quotes"):
            read_bounds(path)


def test_the_adult_example_is_a_schema():
    schema = TableSchema.from_bounds(read_bounds(EXAMPLES / "adult_bounds.json"))
    assert schema.row_norm_bound == math.sqrt(14)
    assert schema.target.classes == ("<=50K", ">50K")
    # Numbers of categories in the documentation of the data set, and one for "?" where it occurs.
    assert len(schema.feature_names) == 6 + (8 + 16 + 7 + 14 + 6 + 5 + 2 + 41) + 3
