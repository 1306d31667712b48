"""Fits to the same rows are noticed, also as folds; others are not."""

import dataclasses
import pickle
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.model_selection import KFold

from dpfast import Budget, BudgetAccountant
from dpfast.errors import RepeatedFitWarning
from dpfast.privacy import GaussianEvent, Ledger, PrivacyReport, gaussian_epsilon
from dpfast.privacy.repeats import FitLog, total

EVENT = GaussianEvent(
    sensitivity=1.0, stddev=5.0, dimension=3, neighboring_relation="replace_one", where="output"
)


def report(*events):
    ledger = Ledger(Budget(9.0, 1e-6))
    for event in events or (EVENT,):
        ledger.spend(event)
    return PrivacyReport.from_ledger(ledger, reproducible=False)


@pytest.fixture
def log():
    return FitLog()


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(2000, 5))


def noted(log, X, report):
    """Note a fit, and warn as its caller does."""
    _, repeated = log.note(X, report)
    if repeated is not None:
        warnings.warn(repeated, RepeatedFitWarning, stacklevel=2)


def quiet(log, X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noted(log, X, report())


def test_a_second_fit_is_said_once_with_the_sum(log, rows):
    quiet(log, rows)
    expected = gaussian_epsilon(0.2 * np.sqrt(2.0), 1e-6)
    with pytest.warns(RepeatedFitWarning, match=f"2 fits together have epsilon = {expected:.3g}"):
        noted(log, rows, report())
    quiet(log, rows)


@pytest.mark.parametrize("change", ["order", "sparse", "float32 of float32", "some more", "half"])
def test_the_same_rows_in_another_form(log, rows, change):
    rows = rows.astype(np.float32) if "float32" in change else rows
    quiet(log, rows)
    other = {
        "order": lambda: rows[::-1],
        "sparse": lambda: scipy.sparse.csr_array(rows),
        "float32 of float32": lambda: np.asfortranarray(rows),
        "some more": lambda: np.vstack([rows, rows[:500] + 1.0]),
        "half": lambda: rows[1000:],
    }[change]()
    with pytest.warns(RepeatedFitWarning):
        noted(log, other, report())


@pytest.mark.parametrize("folds", [2, 5])
def test_folds_are_the_same_rows(log, folds):
    """But the two halves of a two-fold validation, which have none in common."""
    rows = np.random.default_rng(1).normal(size=(3000, 4))
    said = 0
    for train, _ in KFold(folds).split(rows):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            noted(log, rows[train], report())
        said += len(caught)
    assert said == (folds > 2)
    if folds == 2:
        with pytest.warns(RepeatedFitWarning, match="3 fits together"):
            noted(log, rows, report())


@pytest.mark.parametrize("size", [1e200, 1e308])
def test_rows_of_any_size_are_noted_without_a_warning(log, rows, size):
    quiet(log, np.sign(rows) * size)


def test_other_rows_are_others(log, rows):
    rng = np.random.default_rng(2)
    for _ in range(50):
        quiet(log, rng.normal(size=(500, 5)))
    quiet(log, rows[:, :4])


def test_few_different_rows_say_nothing(log):
    rng = np.random.default_rng(3)
    for _ in range(3):
        quiet(log, rng.integers(0, 2, size=(1000, 3)).astype(float))
    assert not log._fits


def test_an_account_adds_up_by_itself(log, rows):
    with BudgetAccountant(Budget(9.0, 1e-6)):
        quiet(log, rows)
        quiet(log, rows)


def test_sketches_of_two_processes_cannot_be_compared(log, rows):
    assert not log.sketch(rows) & FitLog().sketch(rows)
    assert len(log.sketch(rows)) == 128
    assert b"FitLog" not in pickle.dumps(report())


def test_what_is_forgotten(log, rows):
    quiet(log, rows)
    log.forget()
    quiet(log, rows)


def test_the_sum_is_that_of_a_ledger_or_plain():
    one = report()
    epsilon, delta = total([one] * 16)
    assert (epsilon, delta) == (pytest.approx(gaussian_epsilon(0.8, 1e-6)), 1e-6)
    along = dataclasses.replace(one, adaptive=True)
    assert total([one, along]) == (pytest.approx(2 * one.epsilon), 2e-6)


def test_threads(log, rows):
    found = []

    def work():
        with warnings.catch_warnings(record=True) as caught:
            noted(log, rows, report())
        found.extend(caught)

    threads = [threading.Thread(target=work) for _ in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(log._fits) == 8 and len(log._said) == 1
