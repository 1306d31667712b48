"""What values mean: categories, truth values, numbers, dates, missing ones, from any container."""

import datetime
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpfast.errors import DataError
from dpfast.preprocessing.matching import Distinct, Index
from dpfast.tabular import ClassTarget, TableModel, TableSchema
from dpfast.tabular.values import (
    Days,
    TruthIndex,
    arrow_values,
    day_of,
    parse_dates,
    parse_numbers,
    plain_values,
    texts_of,
)


class TestIndex:
    @pytest.mark.parametrize(
        ("categories", "value", "code"),
        [
            (["no", "yes"], "yes", 1),
            (["no", "yes"], " YES ", 1),
            (["False", "True"], "TRUE", 1),
            (["0", "1"], "TRUE", 1),
            (["0", "1"], "1.0", 1),
            (["0", "1"], "false", 0),
            (["1", "2", "3"], "2.0", 1),
            (["1.50", "x"], "1.5", 0),
            (["New  York", "Boston"], "new york", 0),
            (["007", "8"], "007", 0),
            # Codes are no numbers, and what two categories share says nothing.
            (["7", "8"], "007", 2),
            (["a", "A"], "a", 0),
            (["ab", "AB"], "Ab", 2),
            (["true", "1"], "TRUE", 0),
            (["Ulm", "K\u00f6ln"], "KO\u0308LN", 1),
            (["Ulm", "Ko\u0308ln"], "k\u00f6ln", 1),
            (["no", "yes"], "1", 2),
            (["no", "yes"], "maybe", 2),
            (["no", "yes"], "", 3),
            (["no", "yes"], "  ", 3),
        ],
    )
    def test_what_means_the_same_is_the_same(self, categories, value, code):
        assert Index(categories).codes([value]).tolist() == [code]

    @pytest.mark.parametrize(
        ("categories", "values", "codes"),
        [
            (["0", "1", "2"], np.array([2.0, 0.0, np.nan, 1.5]), [2, 0, 4, 3]),
            (["0", "1", "2"], np.array([2, 0, 7]), [2, 0, 3]),
            (["False", "True"], np.array([True, False]), [1, 0]),
            (["0", "1"], np.array([True, False]), [1, 0]),
            (["False", "True"], np.array([1.0, 0.0]), [1, 0]),
        ],
    )
    def test_typed_columns(self, categories, values, codes):
        assert Index(categories).codes(values).tolist() == codes

    def test_declared_missing_values(self):
        index = Index(["a", "b"], ["?", "Unknown"])
        assert index.codes(["?", "unknown", "a", "c"]).tolist() == [3, 3, 0, 2]

    def test_a_listed_category_is_never_missing(self):
        assert Index(["none", "?"]).codes(["None", "?"]).tolist() == [0, 1]

    def test_usual_words_for_truth(self):
        words = ["yes", "N", "t", "FALSE", "1", "0.0", "", "n/a", "perhaps"]
        assert TruthIndex().codes(words).tolist() == [1, 0, 1, 0, 1, 0, 3, 3, 2]

    def test_it_does_not_keep_every_text(self, monkeypatch):
        monkeypatch.setattr("dpfast.preprocessing.matching.REMEMBERED", 10)
        index = Index(["a"])
        index.codes([f"name {number}" for number in range(1000)])
        assert len(index) <= 10

    @given(st.lists(st.text(max_size=4), max_size=5), st.lists(st.text(max_size=4), max_size=5))
    def test_any_text_has_a_place(self, categories, values):
        categories = [text for text in dict.fromkeys(categories) if text.strip()]
        index = Index(categories)
        assert set(index.codes(values).tolist()) <= set(range(len(categories) + 2))
        assert index.codes(categories).tolist() == list(range(len(categories)))


class TestNumbers:
    def test_text(self):
        found = parse_numbers("x", ["1", " 2.5 ", "-3e2", "", "NA", "?"], ())
        np.testing.assert_array_equal(found, [1.0, 2.5, -300.0, np.nan, np.nan, np.nan])

    def test_declared_missing_values(self):
        expected = [1.0, np.nan, np.nan]
        np.testing.assert_array_equal(parse_numbers("x", ["1", "-9", "x"], ("-9", "x")), expected)
        found = parse_numbers("x", np.array([1.0, -9.0, np.nan]), ("-9", "x"))
        np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize("text", ["abc", "1,5", "12_5", "inf", "-1e999", "0x1", "12 apples"])
    @pytest.mark.parametrize("row", [0, 1, 499, 999])
    def test_what_is_no_number_is_named_with_its_row(self, text, row):
        values = ["30"] * 1000
        values[row] = text
        expected = f"column 'x', row {row + 1} of the data: .*; got (other text.* 1234|an infinite)"
        with pytest.raises(DataError, match=expected):
            parse_numbers("x", values, ())

    def test_dates_are_no_numbers(self):
        with pytest.raises(DataError, match="expected numbers; got dates"):
            parse_numbers("x", np.array(["2024-01-01"], dtype="datetime64[D]"), ())


@pytest.mark.parametrize("values", [["-9", "-9.0"], [-9, -9], [-9.0, -9.0], [-9.0, None]])
@pytest.mark.parametrize(
    "entry", [{"categories": [1, 2]}, {"boolean": [0, 1]}, {"boolean": [False, True]}]
)
def test_a_number_that_stands_for_none_is_one_in_every_type(entry, values):
    entry = {**entry, "missing": "indicator", "missing_values": [-9]}
    model = TableModel({"x": entry, "y": ["no", "yes"], "target": "y"})
    table = {"x": pd.Series(values), "y": ["no", "yes"]}
    assert not model.check(table)
    assert model._schema().transform(table)[:, -1].tolist() == [1.0, 1.0]


class TestDates:
    def test_text_and_typed(self):
        texts = ["1970-01-02", "1970-01-02T12:00:00", "1970-01-02 12:00", "", "nat"]
        expected = [1.0, 1.5, 1.5, np.nan, np.nan]
        np.testing.assert_array_equal(parse_dates("d", texts, (), Days(None)), expected)
        typed = np.array(["1970-01-02", "NaT"], dtype="datetime64[D]")
        np.testing.assert_array_equal(parse_dates("d", typed, (), Days(None)), [1.0, np.nan])

    def test_other_forms(self):
        assert parse_dates("d", ["31.12.1970"], (), Days("%d.%m.%Y")) == [364.0]

    def test_a_moment_is_the_same_in_every_zone_and_container(self):
        """Arrow and polars keep times in UTC, pandas with their zone, CSV files with an offset."""
        expected = day_of("2024-02-29T23:30")
        moments = pd.Series([pd.Timestamp("2024-03-01T00:30", tz="Europe/Berlin")]).dt.as_unit("s")
        texts = ["2024-03-01T00:30+01:00"], ["2024-02-29 23:30Z"]
        columns = *texts, moments, moments.astype(object), pl.Series(moments)
        values = [plain_values("d", column) for column in columns]
        pyarrow = pytest.importorskip("pyarrow")
        values.append(arrow_values("d", pyarrow.array(moments)))
        for each in values:
            assert parse_dates("d", each, (), Days(None)).tolist() == [expected]
        form = Days("%d.%m.%Y %H:%M %z")
        assert parse_dates("d", ["01.03.2024 00:30 +0100"], (), form) == [expected]
        with pytest.raises(DataError, match="row 1 of the data: expected a date such as"):
            parse_dates("d", ["0001-01-01T00:00+05:00"], (), Days(None))

    @pytest.mark.parametrize("text", ["31.12.1970", "today", "2024-13-01", "x"])
    def test_what_is_no_date(self, text):
        with pytest.raises(DataError, match=r"row 2 of the data: expected a date such as.*format"):
            parse_dates("d", ["1970-01-01", text], (), Days(None))

    def test_numbers_are_no_dates(self):
        with pytest.raises(DataError, match="expected dates; got int64"):
            parse_dates("d", np.array([20240101]), (), Days(None))
        with pytest.raises(DataError, match=r"as text of the form %d\.%m\.%Y"):
            parse_dates("d", np.array([31122024]), (), Days("%d.%m.%Y"))


DAY = datetime.date(1970, 1, 2)


class TestContainers:
    @pytest.mark.parametrize(
        ("column", "expected"),
        [
            (["a", "b"], ["a", "b"]),
            (np.array([1, 2]), [1, 2]),
            (pd.Series(["a", None]), ["a", ""]),
            (pd.Series(["a", None], dtype=object), ["a", ""]),
            (pd.Series([1, None], dtype="Int64"), [1.0, np.nan]),
            (pd.Series([True, None], dtype="boolean"), ["True", ""]),
            (pd.Series(["a", "b", "a"], dtype="category"), ["a", "b", "a"]),
            (pd.Series([1.5, np.nan]), [1.5, np.nan]),
            (pd.Series([2.5, np.nan], dtype="float16"), [2.5, np.nan]),
            (pl.Series(["a", None]), ["a", ""]),
            (pl.Series([1, None]), [1.0, np.nan]),
            (pl.Series([True, None]), ["True", ""]),
            (pl.Series(["a", "b"], dtype=pl.Categorical), ["a", "b"]),
            (np.array([1, "a", None], dtype=object), ["1", "a", ""]),
            (np.array([Decimal("1.5"), None], dtype=object), [1.5, np.nan]),
            (np.array([Decimal("sNaN"), -(10**400)], dtype=object), [np.nan, -np.inf]),
        ],
        ids=str,
    )
    def test_values(self, column, expected):
        found = plain_values("x", column)
        assert list(map(str, list(found))) == list(map(str, expected))

    @pytest.mark.parametrize(
        "column",
        [
            pd.Series([pd.Timestamp(DAY), pd.NaT]),
            pd.Series([pd.Timestamp("1970-01-02T01:00", tz="Europe/Berlin"), pd.NaT]),
            pl.Series([DAY, None]),
            np.array([DAY, None], dtype=object),
            np.array([DAY, "NaT"], dtype="datetime64[ns]"),
        ],
        ids=str,
    )
    def test_dates(self, column):
        found = parse_dates("d", plain_values("d", column), (), Days(None))
        np.testing.assert_array_equal(found, [1.0, np.nan])

    @pytest.mark.parametrize(
        "column", [np.array([1j]), np.zeros((2, 2)), np.array([[1], b"x"], dtype=object)], ids=str
    )
    def test_what_has_no_place_in_a_table(self, column):
        with pytest.raises(DataError, match="column 'x'"):
            plain_values("x", column)

    @pytest.mark.parametrize("other", [None, 2**63, 2**70, 5, -1])
    def test_no_other_entry_rounds_a_code(self, other):
        """One record's missing code made codes of 17 digits and more floats, in all rows."""
        pa = pytest.importorskip("pyarrow")
        codes = [900000000000207008, 900000000000207009, -1]
        makers = [list, lambda entries: pd.Series(entries, dtype=object)]
        if other in (None, 5, -1):
            makers += [
                pl.Series,
                lambda entries: pd.Series(entries, dtype="Int64"),
                lambda entries: pd.Series(entries, dtype="Int64").astype("category"),
                lambda entries: pd.Series(entries, dtype="int64[pyarrow]"),
            ]
            found = texts_of(arrow_values("x", pa.array([*codes, other])))
            assert list(found)[:3] == list(map(str, codes))
        for made in makers:
            found = texts_of(plain_values("x", made([*codes, other])))
            assert list(found)[:3] == list(map(str, codes))

    @pytest.mark.parametrize("other", [None, 2, 900000000000207010])
    def test_categories_of_codes_are_told_apart(self, other):
        index = Index(["5", "5.0", "900000000000207008", "900000000000207009"])
        column = pl.Series([900000000000207008, 900000000000207009, 5, other])
        assert index.codes(plain_values("x", column))[:3].tolist() == [2, 3, 0]
        assert index.codes(plain_values("x", column[2:]))[0] == 0
        assert Index(["900000000000207008"])["900000000000207009"] == 1

    @pytest.mark.parametrize("other", ["b", None, "1970-01-02T00:00:00.000000001"])
    def test_nor_changes_a_text_or_a_time(self, other):
        assert plain_values("x", ["a\0", other])[0] == "a\0"
        entries = [
            np.datetime64("1600-01-01"),
            np.datetime64("NaT" if other in (None, "b") else other),
        ]
        found = parse_dates("x", plain_values("x", entries), (), Days(None))
        assert found[0] == (datetime.date(1600, 1, 1) - DAY).days + 1.0

    def test_arrow(self):
        pa = pytest.importorskip("pyarrow")
        for column, expected in [
            (pa.array([1.5, None]), [1.5, np.nan]),
            (pa.array([1, 2]), [1, 2]),
            (pa.array([1, None]), [1.0, np.nan]),
            (pa.array(["a", None]), ["a", ""]),
            (pa.array(["a", None]).dictionary_encode(), ["a", ""]),
            (pa.DictionaryArray.from_arrays([1, 0], ["a", None]), ["", "a"]),
            (pa.array([True, None]), ["True", ""]),
            (pa.array([True, False]), [True, False]),
            (pa.array([Decimal("1.5")]), [1.5]),
            (pa.array([None, None]), ["", ""]),
            (pa.chunked_array([["a"], ["b"]]), ["a", "b"]),
        ]:
            assert list(map(str, list(arrow_values("x", column)))) == list(map(str, expected))
        unused = pa.DictionaryArray.from_arrays([2, 0, 2], ["1", "none of the rows", "2"])
        np.testing.assert_array_equal(parse_numbers("x", arrow_values("x", unused), ()), [2, 1, 2])
        days = parse_dates("d", arrow_values("d", pa.array([DAY, None])), (), Days(None))
        np.testing.assert_array_equal(days, [1.0, np.nan])
        with pytest.raises(DataError, match="column 'x': expected numbers, text"):
            arrow_values("x", pa.array([[1]]))
        # Arrow makes fields of a struct of what keys there are in the rows.
        with pytest.raises(DataError, match=r"got struct\. Convert the column first: ids to text"):
            arrow_values("x", pa.array([{"secret": 1}]))
        # Arrow does not look whether bytes are text.
        ends = pa.py_buffer(np.array([0, 2], dtype=np.int32))
        none = pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(b"a\xff")])
        for column in (none, none.dictionary_encode()):
            with pytest.raises(DataError, match="column 'x': texts must be UTF-8; got other"):
                arrow_values("x", column)


def test_no_error_quotes_a_value():
    """It is private; its row says where to look."""
    bounds = {"a": ["2020-01-01", "2021-01-01"], "b": [0, 1], "target": "b"}
    with pytest.raises(DataError, match="'a', row 1 of the data") as caught:
        TableSchema.from_bounds(bounds).transform({"a": ["777"]})
    assert "777" not in str(caught.value)
    for values in (["secret"], np.array([77.0]), np.array([True])):
        with pytest.raises(DataError) as caught:
            ClassTarget("y", ("no", "yes")).parse(values)
        assert not re.search("secret|77|True", str(caught.value))


class TestDistinct:
    """Columns by their distinct texts are read as columns of text."""

    TEXTS = ("7", "", "1e2", "x")

    def column(self, *rows):
        return Distinct(self.TEXTS, np.array(rows, dtype=np.int32))

    def test_it_is_a_sequence(self):
        column = self.column(0, 2, 0)
        assert (len(column), list(column), column[1]) == (3, ["7", "1e2", "7"], "1e2")
        assert list(column[1:]) == ["1e2", "7"]

    def test_numbers_dates_and_categories(self):
        found = parse_numbers("a", self.column(2, 0, 0)[0:3], ("x",))
        assert found.tolist() == [100.0, 7.0, 7.0]
        assert np.isnan(parse_numbers("a", self.column(3, 1), ("x",))).all()
        assert Index(["7", "x"]).codes(self.column(3, 0, 1, 2)).tolist() == [1, 0, 3, 2]
        days = Distinct(["1970-01-02", ""], np.array([0, 1, 0]))
        assert np.nan_to_num(parse_dates("a", days, (), Days(None))).tolist() == [1.0, 0.0, 1.0]

    def test_an_error_names_the_first_row(self):
        with pytest.raises(DataError, match=r"row 3 of the data.*got other text"):
            parse_numbers("a", self.column(0, 2, 3, 3), ())

    def test_arrow_dictionaries(self):
        pyarrow = pytest.importorskip("pyarrow")
        column = arrow_values("a", pyarrow.array(["u", "v", "u"]).dictionary_encode())
        assert isinstance(column, Distinct)
        assert list(column) == ["u", "v", "u"]
        gone = arrow_values("a", pyarrow.array(["u", None]).dictionary_encode())
        assert list(gone) == ["u", ""]


@pytest.mark.parametrize(
    "odd", ["", " 1", "1 ", "+1", "1_0", "\uff11", "nan", "inf", "1e400", "0x1"]
)
def test_many_numbers_are_read_like_few(odd):
    rng = np.random.default_rng(0)
    digits = rng.integers(1, 10**17, 2000).tolist()
    powers = rng.integers(-330, 290, 2000).tolist()
    texts = [f"{n}e{power}" for n, power in zip(digits, powers, strict=True)]
    texts += [repr(x) for x in rng.normal(size=2000).tolist()]
    assert np.array_equal(parse_numbers("x", texts, ()), np.array(list(map(float, texts))))
    found = []
    for column in (texts, []):
        try:
            found.append(parse_numbers("x", [*column, odd], ())[-1])
        except DataError as error:
            found.append(re.sub(r"row \d+", "", str(error)))
    assert repr(found[0]) == repr(found[1])
