"""Errors, intervals and p-values from a covariance, and how a summary shows them."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpfast.errors import QuestionableSettingWarning
from dpfast.inference import Estimates, Summary

COVARIANCE = np.array([[0.04, 0.01, 0.0], [0.01, 0.09, 0.02], [0.0, 0.02, 0.25]])


@pytest.fixture
def found():
    return Estimates.of(
        ["age", "in<come", "Intercept"], np.array([0.5, -0.2, 3.0]), COVARIANCE, COVARIANCE / 4.0,
        np.zeros(3),
    )  # fmt: skip


@pytest.fixture
def partly():
    codes = np.array([0.0, 1.0, 2.0])
    names = ["age", "in<come", "Intercept"]
    return Estimates.of(names, np.array([0.5, -0.2, 3.0]), COVARIANCE, COVARIANCE / 4.0, codes)


def summary(found, **settings):
    facts = (("Rows", "100"), ("Privacy", "Budget(1.0)"))
    given = {"title": "A model", "facts": facts, "level": 0.9, "notes": ("A note.",)}
    given["ratio"] = "odds ratio"
    return Summary(estimates=found, **{**given, **settings})


@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
def test_intervals_and_p_values_are_those_of_the_normal_law(found, level):
    deviations = np.sqrt(np.diag(COVARIANCE))
    np.testing.assert_allclose(found.errors, deviations)
    ends = found.conf_int(level)
    low, high = stats.norm.interval(level, found.coefficients, deviations)
    np.testing.assert_allclose(ends, np.column_stack([low, high]))
    sampling = found.conf_int(level, sampling_only=True)
    np.testing.assert_allclose(2.0 * np.ptp(sampling, axis=1), high - low)
    expected = 2.0 * stats.norm.sf(np.abs(found.coefficients / deviations))
    np.testing.assert_allclose(found.pvalues, expected)


def test_a_level_that_may_be_one_minus_the_level_is_questioned(found):
    with pytest.warns(QuestionableSettingWarning, match=r"level = 0\.05 .*did you mean 0\.95"):
        found.conf_int(0.05)


def test_columns_are_chosen_by_name_and_number(found):
    ends = found.conf_int()
    np.testing.assert_array_equal(found.conf_int(columns=["Intercept", 0]), ends[[2, 0]])
    for wrong in ("income", 3, -1, 1.5):
        with pytest.raises(ValueError, match=r"columns must hold names among age, .*; got"):
            found.conf_int(columns=[wrong])
    with pytest.raises(TypeError, match="columns must be a list of names or numbers; got 'age'"):
        found.conf_int(columns="age")
    with pytest.raises(ValueError, match=r"level must be .*; got 1\.0"):
        found.conf_int(1.0)
    with pytest.raises(ValueError, match="level must be"):
        summary(found, level=95)


def test_what_is_refused_has_no_number(partly):
    np.testing.assert_array_equal(np.isnan(partly.errors), [False, True, True])
    np.testing.assert_array_equal(np.isnan(partly.pvalues), [False, True, True])
    np.testing.assert_array_equal(np.isnan(partly.conf_int()).all(axis=1), [False, True, True])
    np.testing.assert_array_equal(np.isfinite(partly.covariance).sum(axis=1), [1, 0, 0])
    assert np.all(np.isfinite(partly.coefficients))


def test_the_text_has_every_number_and_says_why_one_is_missing(partly):
    text = str(summary(partly))
    lines = text.splitlines()
    row = next(line for line in lines if line.startswith("age"))
    assert row.split()[1:5] == ["0.5", "0.2", "2.5", "0.01242"]
    assert next(line for line in lines if line.startswith("in<come¹")).split()[1:] == [
        "-0.2", *"---" , "-", "-", "0.8187", "-", "-",
    ]  # fmt: skip
    assert "¹ No standard error: what determines it hides in the noise" in text
    assert "² No standard error: too few rows determine it" in text
    assert lines[-1] == "A note."
    later = str(summary(replace(partly, refused=(0, 2, 3))))
    assert "in<come¹" in later and "¹ No standard error: too few rows" in later
    assert "Intercept²" in later and "³" not in later
    assert "0.05" in text and "0.95]" in text  # ends of an interval of 90%


def test_odds_ratios_only_where_they_are(found):
    ends = found.conf_int(0.9)
    frame = summary(found).to_frame()
    np.testing.assert_allclose(frame["odds ratio"], np.exp(found.coefficients))
    np.testing.assert_allclose(frame[["or [0.05", "or 0.95]"]], np.exp(ends))
    np.testing.assert_allclose(frame[["[0.05", "0.95]"]], ends)
    assert list(frame.index) == ["age", "in<come", "Intercept"]
    assert isinstance(frame, pd.DataFrame)
    assert "ratio" not in str(summary(found, ratio=""))
    rates = summary(found, ratio="rate ratio").to_frame()
    np.testing.assert_array_equal(
        rates[["rate ratio", "rr [0.05"]], frame[["odds ratio", "or [0.05"]]
    )


def test_the_html_is_escaped_and_whole(partly):
    html = summary(partly)._repr_html_()
    assert "in&lt;come¹" in html
    assert "<td>0.5</td><td>0.2</td><td>2.5</td>" in html
    assert html.count("<tr>") == 4
    (table,) = pd.read_html(__import__("io").StringIO(html)) if _lxml() else (None,)
    assert table is None or table.shape == (3, 10)


def _lxml():
    try:
        import lxml  # noqa: F401
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("codes", [[0, 0, 0], [0, 1, 2], [2, 2, 2]])
def test_plain_types_give_the_same_estimates(codes):
    found = Estimates.of(
        ["a", "b", "c"], np.ones(3), COVARIANCE, COVARIANCE / 4.0, np.array(codes, dtype=float)
    )
    again = Estimates.from_dict(
        json.loads(json.dumps(found.to_dict(), allow_nan=False)), found.names, found.coefficients
    )
    assert again.refused == found.refused
    np.testing.assert_array_equal(again.covariance, found.covariance)
    np.testing.assert_array_equal(again.sampling, found.sampling)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"more": 1}, "expected an object with refused, covariance and sampling"),
        ({"refused": [0, 1]}, "refused must hold 3 whole numbers from 0 to 4"),
        ({"refused": [0, 1, 5]}, "refused must hold 3 whole numbers"),
        ({"refused": [0, 1, True]}, "refused must hold 3 whole numbers"),
        ({"covariance": [[1.0]]}, "covariance must hold 2 lists of 2 numbers"),
        ({"covariance": [[1.0, 0.0], [0.0, "1"]]}, "covariance must hold 2 lists"),
        ({"sampling": [[1.0, 0.0], [0.0, -1.0]]}, "sampling must be finite, with a diagonal"),
        ({"sampling": 1}, "sampling must hold 2 lists"),
    ],
)
def test_what_are_no_estimates_is_refused(changes, expected):
    given = {"refused": [0, 0, 1], "covariance": np.eye(2).tolist(), "sampling": np.eye(2).tolist()}
    assert Estimates.from_dict(given, ["a", "b", "c"], np.ones(3)).refused == (0, 0, 1)
    with pytest.raises(ValueError, match=expected):
        Estimates.from_dict({**given, **changes}, ["a", "b", "c"], np.ones(3))


def test_ratios_near_one_have_digits_beyond_it():
    # Of a day, or of a euro: four digits of 1.0000123 are 1.
    small = Estimates(("day",), np.array([1.23e-5]), np.array([[1e-12]]), np.array([[1e-12]]), (0,))
    row = str(summary(small, ratio="odds ratio")).splitlines()
    assert any(line.split()[-3:] == ["1.0000123", "1.0000107", "1.0000139"] for line in row)
