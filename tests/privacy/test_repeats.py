"""Fits to rows of the same public shape are said with an "if"; what the rows hold is not read."""

import dataclasses
import warnings

import numpy as np
import pytest
from threads import in_threads

from dpfast import Budget, BudgetAccountant
from dpfast.errors import RepeatedFitWarning
from dpfast.privacy import GaussianEvent, Ledger, PrivacyReport, gaussian_epsilon, repeats
from dpfast.privacy.repeats import FitLog, total

EVENT = GaussianEvent(
    sensitivity=1.0, stddev=5.0, dimension=3, neighboring_relation="replace_one", where="output"
)


def report(event=EVENT):
    ledger = Ledger(Budget(9.0, 1e-6))
    ledger.spend(event)
    return PrivacyReport.from_ledger(ledger, reproducible=False)


@pytest.fixture
def log():
    return FitLog()


def noted(log, n=2000, d=5, of=None):
    """Note a fit, and warn as its caller does."""
    found, repeated = log.note(n, d, of or report())
    if repeated is not None:
        warnings.warn(repeated, RepeatedFitWarning, stacklevel=2)
    return found


def quiet(log, *shape, of=None):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return noted(log, *shape, of=of)


def test_a_second_fit_is_said_once_with_the_sum(log):
    assert quiet(log).notes == ()
    expected = gaussian_epsilon(0.2 * np.sqrt(2.0), 1e-6)
    text = (
        r"2 fits in this process were to about as many rows of 5 columns\. If these were the same "
        rf"people, or most of them, together they have epsilon = {expected:.3g}, delta = 1e-06"
    )
    with pytest.warns(RepeatedFitWarning, match=text):
        noted(log)
    (note,) = quiet(log).notes
    assert "if these were the same people, together they have epsilon" in note


def test_shapes_that_may_be_of_the_same_rows(log):
    quiet(log, 2000)
    quiet(log, 999)  # less than half
    quiet(log, 2000, 4)  # other columns
    quiet(log, of=report(dataclasses.replace(EVENT, neighboring_relation="replace_one_group")))
    with pytest.warns(RepeatedFitWarning, match="3 fits"):
        noted(log, 1000)


def test_an_account_adds_up_by_itself(log):
    with BudgetAccountant(Budget(9.0, 1e-6)):
        quiet(log)
        quiet(log)


def test_what_is_forgotten(log):
    quiet(log)
    log.forget()
    quiet(log)


def test_the_sum_is_that_of_a_ledger_or_plain():
    one = report()
    epsilon, delta = total([(one, 16)])
    assert (epsilon, delta) == (pytest.approx(gaussian_epsilon(0.8, 1e-6)), 1e-6)
    along = dataclasses.replace(one, adaptive=True)
    assert total([(one, 1), (along, 1)]) == (pytest.approx(2 * one.epsilon), 2e-6)


def test_however_many_there_are_all_are_counted(monkeypatch):
    monkeypatch.setattr(repeats, "_REMEMBERED", 2)
    log, one = FitLog(), report()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(5):
            last = noted(log, of=one)
        for columns in range(1, 4):
            noted(log, 2000, columns, of=one)
    expected = gaussian_epsilon(0.2 * np.sqrt(5.0), 1e-6)
    assert "5 fits" in last.notes[0] and f"epsilon = {expected:.3g}" in last.notes[0]
    assert len(log._fits) == 2  # the latest of four kinds


def test_threads(log):
    found = []

    def work():
        with warnings.catch_warnings(record=True) as caught:
            noted(log)
        found.extend(caught)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_threads(work, 8)
    (fit,) = log._fits.values()
    assert fit.times == 8 and fit.said
