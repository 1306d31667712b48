"""What a number looks like in a CSV file that is declared to be written otherwise."""

import numpy as np
import pytest

from dpfast._csv_form import CsvForm
from dpfast.errors import DataError
from dpfast.preprocessing.matching import Distinct, Index
from dpfast.tabular.values import TruthIndex, in_points, meant_in_points, parse_numbers


@pytest.mark.parametrize(
    ("decimal", "thousands", "text", "plain"),
    [
        (",", None, "1234,5", "1234.5"),
        (",", None, " -,5 ", "-.5"),
        (",", None, "1,5e-3", "1.5e-3"),
        (",", None, "1.5", None),  # 1.234 would be another number to whoever groups digits
        (",", ".", "1.234.567,8", "1234567.8"),
        (",", ".", "1234", "1234"),
        (",", ".", "1.5", None),
        (",", ".", "12.34", None),
        (",", ".", "1,234.5", None),
        (".", ",", "1,234.5", "1234.5"),
        (".", ",", "1,5", None),
        (",", " ", "1\u202f234\u00a0567,5", "1234567.5"),
        (".", "'", "1'234.50", "1234.50"),
        (",", None, "inf", None),
        (",", None, "1_0", None),
        (",", None, "12 kg", None),
    ],
)
def test_one_number(decimal, thousands, text, plain):
    form = CsvForm(decimal=decimal, thousands=thousands)
    if plain is not None:
        assert form.plain(text) == plain
        return
    with pytest.raises(ValueError):
        form.plain(text)
    # It is refused with its row, however the column is held, and not quoted.
    for values in ((form.example, text), Distinct([form.example, text], np.array([0, 1]))):
        with pytest.raises(DataError, match=r"'x', row 2 .* numbers like 1.?234.5: no") as caught:
            in_points("x", values, (), form)
        assert text not in str(caught.value)


def test_what_stands_for_a_missing_value():
    form, missing = CsvForm(decimal=",", thousands="."), ("99,9", "-9", "k.A.")
    values = ("1.000,5", "99,9", "-9,0", "K.A.", "n/a", "", ".")
    found = parse_numbers("x", in_points("x", values, missing, form), missing)
    np.testing.assert_array_equal(found, [1000.5] + [np.nan] * 6)


def test_categories_that_are_numbers():
    form, index = CsvForm(decimal=",", thousands="."), Index(["1", "2,5", "1.5", "1000"], ["-9"])
    texts = ["1,0", "2,5", "1.5", "1,5", "1.000", "-9,0", "", "2.5", "x"]
    expected = [0, 1, 2, 2, 3, index.missing, index.missing, index.unknown, index.unknown]
    for values in (tuple(texts), Distinct(texts, np.arange(9))):
        assert index.codes(meant_in_points(values, index, form)).tolist() == expected
    truth = TruthIndex()
    assert truth.codes(meant_in_points(["1,0", "0,0"], truth, form)).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"separator": ":"}, r'"separator" .* one of .*; got \':\''),
        ({"decimal": ";"}, '"decimal" .* one of'),
        ({"decimal": ",", "thousands": ","}, '"thousands" .* one of'),
        ({"thousands": "."}, '"thousands" .* one of'),
        ({"encoding": "ansi-german"}, '"encoding" .* one that Python knows'),
        ({"encoding": "base64"}, '"encoding"'),
    ],
)
def test_forms_that_there_are_not(wrong, message):
    with pytest.raises(DataError, match=message):
        CsvForm(**wrong)
