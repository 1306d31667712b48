"""What scikit-learn's tools make of one model: many fits, which are said with their sum."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score

from dpfast import (
    Budget,
    BudgetAccountant,
    HuberRegressor,
    LogisticRegression,
    TableModel,
    blocks,
)
from dpfast.errors import QuestionableSettingWarning, RepeatedFitWarning
from dpfast.model_selection import PrivateSearchCV
from dpfast.privacy.repeats import FITS, total

N = 600


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return X, (X[:, 0] + rng.normal(size=N) > 0).astype(int)


def model(**settings):
    return LogisticRegression(data_norm=2.0, classes=[0, 1], **settings)


def said(action):
    """The warnings of repeated fits, and what the action returns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = action()
    return [str(w.message) for w in caught if w.category is RepeatedFitWarning], result


TOOLS = {
    "a second fit": lambda X, y: [model().fit(X, y), model().fit(X, y)][1],
    "blocks": lambda X, y: [model().fit(blocks.from_npy(X, y, block_rows=N)) for _ in "12"],
    "cross_val_score": lambda X, y: cross_val_score(model(), X, y, cv=3),
    "GridSearchCV": lambda X, y: GridSearchCV(model(), {"alpha": [0.1, 0.01]}, cv=3).fit(X, y),
    "CalibratedClassifierCV": lambda X, y: CalibratedClassifierCV(model(), cv=3).fit(X, y),
}


@pytest.mark.parametrize("name", TOOLS)
def test_many_fits_are_said_once_with_the_sum(name, data):
    (text,), _ = said(lambda: TOOLS[name](*data))
    one = model().fit(*data).privacy_
    FITS.forget()
    expected, _ = total([(one, 2)])
    assert f"together they have epsilon = {expected:.3g}, delta = 1e-06 so far" in text
    assert "BudgetAccountant" in text


def test_the_best_estimator_of_a_search_does_not_look_like_one_fit(data):
    X, y = data
    _, search = said(lambda: TOOLS["GridSearchCV"](X, y))
    report = search.best_estimator_.privacy_
    assert report.epsilon <= 1.0
    (note,) = report.notes
    one = model().fit(*data).privacy_
    FITS.forget()
    expected, _ = total([(one, 7)])
    assert "7 fits in this process" in note
    assert f"together they have epsilon = {expected:.3g}" in note
    assert note in str(report)


@pytest.mark.parametrize("name", TOOLS)
def test_an_account_counts_them_and_nothing_is_said(name, data):
    with BudgetAccountant(Budget(20.0, 1e-5)) as account:
        texts, _ = said(lambda: TOOLS[name](*data))
    assert texts == []
    assert account.guarantee().epsilon > 1.0


def test_a_private_search_is_one_fit(data):
    X, y = data

    def search():
        return PrivateSearchCV(
            model(solver="output-perturbation"), {"alpha": [0.1, 0.01]}, epsilon=2.0
        ).fit(X, y)

    texts, found = said(search)
    assert (texts, found.privacy_.notes) == ([], ())
    texts, found = said(search)
    assert len(texts) == len(found.best_estimator_.privacy_.notes) == 1


@pytest.mark.parametrize(
    "settings",
    [{}, {"in_memory": False}, {"bounds": {"x": {"range": [-99, 99], "learn": True}}}],
    ids=["in memory", "in blocks", "ranges learned"],
)
def test_tables(data, settings):
    X, y = np.tile(data[0], (10, 1)) + 1e-3 * np.random.default_rng(1).normal(size=(10 * N, 3)), 0
    table = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "y": X[:, 2] > y})
    bounds = {"x": [-5, 5], "z": [-5, 5], "y": [False, True], "target": "y"}
    bounds.update(settings.pop("bounds", {}))

    def fit():
        return TableModel(bounds, epsilon=2.0, **settings).fit(table)

    assert said(fit)[0] == []
    (text,), again = said(fit)
    expected, _ = total([(again.privacy_, 2)])
    assert f"epsilon = {expected:.3g}" in text
    assert len(again.privacy_.notes) == 1


def test_no_row_decides_what_is_said(data):
    """Neighbors, rows of which few differ, other people: the notes are the same to the letter."""
    X, y = data
    few = np.tile(np.eye(31, 3), (20, 1))[:N]
    neighbor = few.copy()
    neighbor[0] = [0.1, 0.2, 0.3]
    found = []
    for rows in (X, few, neighbor, np.ones_like(X), np.zeros_like(X)):
        FITS.forget()
        texts, last = said(lambda rows=rows: [model().fit(rows, y), model().fit(-X, y)][1])
        found.append((texts, last.privacy_.notes))
    assert len(found[0][0]) == len(found[0][1]) == 1
    assert all(each == found[0] for each in found)


def test_public_rows_need_no_sum(data):
    with FITS.public_rows():
        texts, found = said(lambda: TOOLS["a second fit"](*data))
    assert (texts, found.privacy_.notes) == ([], ())


def test_a_regressor_on_the_rows_of_a_classifier(data):
    X, y = data
    model().fit(X, y)
    texts, _ = said(lambda: HuberRegressor(data_norm=2.0, target_bounds=(0, 1)).fit(X, 1.0 * y))
    assert len(texts) == 1


def table_model(X, y):
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    bounds = dict.fromkeys("abc", (-3.0, 3.0)) | {"y": [0, 1]}
    return TableModel(bounds, target="y"), lambda kept: kept.fit(frame)


def private_search(X, y):
    kept = PrivateSearchCV(model(), {"alpha": [0.1, 0.01]}, epsilon=1.0, delta=1e-6)
    return kept, lambda kept: kept.fit(X, y)


KEPT = {
    "estimator": lambda X, y: (model(), lambda kept: kept.fit(X, y)),
    "table": table_model,
    "search": private_search,
}


@pytest.mark.parametrize("kind", KEPT)
def test_a_warning_made_an_error_loses_no_model(kind, data):
    kept, fit = KEPT[kind](*data)
    fit(KEPT[kind](*data)[0])
    with warnings.catch_warnings(), pytest.raises(RepeatedFitWarning):
        warnings.simplefilter("error", RepeatedFitWarning)
        fit(kept)
    assert kept.privacy_.epsilon <= 1.0 and kept.privacy_.notes


def test_bounds_far_too_wide_made_an_error_lose_no_model():
    X = np.random.default_rng(1).uniform(-1.0, 1.0, (20_000, 3))
    kept = LogisticRegression(epsilon=2.0, data_norm=300.0, classes=[False, True], random_state=0)
    with warnings.catch_warnings(), pytest.raises(QuestionableSettingWarning):
        warnings.simplefilter("error", QuestionableSettingWarning)
        kept.fit(X, X[:, 0] > 0.0)
    assert np.isfinite(kept.coef_).all()
