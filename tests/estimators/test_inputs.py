"""Hostile data: a clear error that quotes no entry and spends nothing; finite data, no warning."""

import datetime
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.model_selection import cross_val_predict
from sklearn.multiclass import OneVsRestClassifier

from dpfast import (
    Budget,
    BudgetAccountant,
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Problem,
    TableModel,
)
from dpfast._arrays import validated
from dpfast.errors import QuestionableSettingWarning
from dpfast.model_selection import PrivateSearchCV
from dpfast.preprocessing import BoundedScaler, PublicOneHotEncoder
from dpfast.privacy.repeats import FITS

N = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
X[3, 1] = NUMBER = 0.731234
Y = (X[:, 0] > 0).astype(int)
TEXT = "confidential"
DAYS = np.datetime64("2031-07-04") + np.arange(N)
FRAME = pd.DataFrame(X, columns=list("abc"))
FIRST = np.arange(N) == 0


def classifier(**settings):
    return LogisticRegression(**{"data_norm": 2.0, "classes": [0, 1], **settings})


def regressor(cls=LinearRegression, **settings):
    return cls(**{"data_norm": 2.0, "target_bounds": (0, 1), **settings})


def refused(work, message):
    """What `work` is refused with: clear, without an entry, and before anything is spent."""
    with (
        BudgetAccountant(Budget(9.0, 1e-3)) as account,
        warnings.catch_warnings(),
        pytest.raises((TypeError, ValueError), match=message) as caught,
    ):
        warnings.simplefilter("ignore", UserWarning)
        work()
    assert account.events == ()
    told = "".join(traceback.format_exception(caught.value))
    assert not any(entry in told for entry in (str(NUMBER)[2:6], TEXT, "2031"))
    assert type(caught.value) in (TypeError, ValueError) and len(str(caught.value)) > 60


def with_entry(values, entry):
    values = np.array(values, dtype=object)
    values.flat[4] = entry
    return values


def unsound(kind):
    matrix = scipy.sparse.csc_array(X) if kind == "csc" else scipy.sparse.csr_array(X)
    if kind == "indptr":
        matrix.indptr[3] = 10**6
    elif kind == "short":
        matrix.data = matrix.data[:-1]
    elif kind == "negative":
        matrix.indices[5] = -4
    else:
        matrix.indices[5] = 1000
    return matrix.tocoo() if kind == "coo" else matrix


def unsound_coordinates():
    matrix = scipy.sparse.coo_array(X)
    matrix.coords[1][5] = 1000
    return matrix


def records(values):
    return np.array([(value,) for value in values], dtype=[("a", float)])


ROWS = {
    "masked": (np.ma.masked_array(X, X == NUMBER), "X must .*without a mask"),
    "list of masked rows": (list(np.ma.masked_array(X, X == NUMBER)), "X must .*without a mask"),
    "dates": (np.repeat(DAYS[:, None], 3, axis=1), "X must hold real numbers; got dates"),
    "durations": (np.repeat((DAYS - DAYS[0])[:, None], 3, axis=1), "numbers; got durations"),
    "a date": (with_entry(X, datetime.date(2031, 7, 4)), "X must .*; got dates"),
    "a datetime64": (with_entry(X, DAYS[0]), "X must .*; got dates"),
    "date column": (FRAME.assign(b=DAYS), "X must .*; the column 'b' holds dates"),
    "date column, polars": (pl.DataFrame({"a": X[:, 0], "b": DAYS}), "column 'b' holds dates"),
    "categories": (FRAME.assign(b=pd.Categorical(X[:, 1])), "'b' holds text, categories"),
    "text": (X.astype(str), "X must .*; got text"),
    "a text": (with_entry(X, TEXT), "X must .*; got text"),
    "None inside": (with_entry(X, None), "X must .*; got missing entries"),
    "NA inside": (with_entry(X, pd.NA), "X must .*; got missing entries"),
    "NA column": (FRAME.assign(b=pd.array([1, pd.NA] * (N // 2))), "Input X contains NaN"),
    "arrays inside": (with_entry(X, X[0]), "X must .*; got other objects"),
    "beyond float64": (with_entry(X, 10**400), "X and y must hold numbers that float64"),
    "beyond float64, long": (X * np.longdouble("1e400"), "Input X contains infinity"),
    "ragged": ([[1.0, NUMBER], [2.0]] * (N // 2), "X must be of one shape"),
    "one dimension": (X[:, 1], r"X must have two dimensions.*got shape \(30,\)"),
    "a series": (FRAME["b"], r"X must have two dimensions.*got shape \(30,\)"),
    "complex": (X * 1j, "X must .*; got complex numbers"),
    "sparse complex": (scipy.sparse.csr_array(X * 1j), "X must .*; got complex numbers"),
    "names": (pd.DataFrame(X, columns=["a", "a", "b"]), "X must .*more than one of 'a'"),
    "None": (None, "X must be an array, a table or a list; got NoneType"),
    "scalar": (NUMBER, "X must be an array, .*; got float"),
    "dict": ({"a": X[:, 0]}, "X must be an array, .*; got dict"),
    "generator": ((row for row in X), "X must be an array, .*; got generator"),
    "records": (records(X[:, 1]), "X must .*; got records"),
    **{
        f"unsound {kind}": (unsound(kind), "X must be a sound sparse matrix")
        for kind in ("indptr", "short", "negative", "csr", "csc")
    },
    "unsound coo": (unsound_coordinates(), "X must be a sound sparse matrix"),
}


@pytest.fixture(scope="module")
def fitted():
    return classifier(random_state=0).fit(X, Y)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("kind", ROWS)
def test_rows(kind, fitted):
    rows, message = ROWS[kind]
    refused(lambda: classifier().fit(rows, Y), message)
    refused(lambda: fitted.predict(rows), message)


TARGETS = {
    "masked": (np.ma.masked_array(Y, FIRST), "y must .*without a mask"),
    "dates": (DAYS, "y must .*; got dates"),
    "durations": (pd.Series(DAYS - DAYS[0]), "y must .*; got durations"),
    "dates of a zone": (pd.Series(DAYS).dt.tz_localize("UTC"), "y must .*; got dates"),
    "complex": (Y + 1j * NUMBER, "y must .*; got complex numbers"),
    "None inside": (with_entry(Y, None), "y must .*missing"),
    "NA inside": (with_entry(Y, pd.NA), "y must .*missing"),
    "NA": (pd.Series([1, pd.NA] * (N // 2), dtype="Int64"), "y must .*missing"),
    "arrays inside": (with_entry(Y, X[0]), "y must "),
    "series of objects": (pd.Series(with_entry(Y, DAYS), dtype=object), "y must "),
    "records": (records(Y), "y must .*; got records"),
    "bytes": (Y.astype("S"), "y must .*; got "),
    "two columns": (np.column_stack([Y, Y]), "y must have one entry for each row"),
    "scalar": (NUMBER, "y must be an array, .*; got float"),
    "dict": (dict(enumerate(Y)), "y must be an array, .*; got dict"),
    "mixed": ([1, TEXT] * (N // 2), "y must .*; got "),
    "infinite": (np.where(FIRST, np.inf, Y), "Input y contains (NaN or )?infinity"),
    "short": (Y[:-1], "y must have "),
}
LABELS = {
    **TARGETS,
    "numbers as objects": (Y.astype(object), "got dtype object with entries of type int"),
    "fractions": (np.where(FIRST, NUMBER, Y), "y must .*; got numbers with fractions"),
    "rounded": ([2.0**60, *(2**60 + Y[1:]).tolist()], "y must hold labels beyond .* as integers"),
    "text": (np.where(Y, TEXT, "no"), "y must hold labels such as the classes.*got texts"),
}
NUMBERS = {
    **TARGETS,
    "NA": (TARGETS["NA"][0], "Input y contains NaN"),
    "text": (np.where(Y, TEXT, "no"), "y must hold real numbers; got text"),
    "a text": (with_entry(Y, TEXT), "y must hold real numbers; got text"),
    "numbers in text": (Y.astype(str), "y must hold real numbers; got text"),
    "categories": (pd.Series(pd.Categorical([TEXT] * N)), "y must hold real numbers; got text"),
    "beyond float64": (with_entry(Y, 10**400), "y must hold numbers"),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels(kind, fitted):
    y, message = LABELS[kind]
    refused(lambda: classifier().fit(X, y), message)
    refused(lambda: fitted.score(X, y), message)


@pytest.mark.parametrize("kind", NUMBERS)
def test_targets(kind):
    y, message = NUMBERS[kind]
    refused(lambda: regressor().fit(X, y), message)
    model = regressor(PoissonRegressor, max_exposure=1.0)
    exposed = message.replace("y must have ", "exposure must have shape")
    refused(lambda: model.fit(X, y, exposure=np.ones(N)), exposed if kind == "short" else message)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ma.masked_array(np.ones(N), FIRST), "must .*without a mask"),
        (DAYS, "must hold real numbers; got dates"),
        (np.full(N, NUMBER * 1j), "must hold real numbers; got complex numbers"),
        (with_entry(np.ones(N), TEXT), "must hold real numbers; got text"),
        (np.full(N, -NUMBER), "must hold numbers >"),
        (np.full(N, np.longdouble("1e400")), "must hold finite numbers"),
        ({"a": NUMBER}, "must be an array, .*; got dict"),
        (scipy.sparse.csr_array(np.ones((N, 1))), "must be dense; got a sparse matrix"),
        (NUMBER, "must be an array, .*; got float"),
    ],
    ids=["masked", "dates", "complex", "text", "negative", "infinite", "dict", "sparse", "scalar"],
)
def test_weights_and_exposures(values, message, fitted):
    model = regressor(PoissonRegressor, max_weight=1.0)
    refused(lambda: model.fit(X, Y, sample_weight=values), f"sample_weight {message}")
    refused(lambda: fitted.score(X, Y, sample_weight=values), f"sample_weight {message}")
    model = regressor(PoissonRegressor, max_exposure=1.0)
    refused(lambda: model.fit(X, Y, exposure=values), f"exposure {message}")


def test_numbers_are_no_texts_however_many_classes_there_are():
    """NumPy compares as texts where there are many."""
    y = np.array([str(i) for i in range(N)])
    refused(
        lambda: classifier(classes=range(N)).fit(X, y), "y must hold labels such as the classes"
    )


def test_wrappers_that_number_texts_are_told_of():
    y, wrong = np.where(Y, "yes", "no"), classifier(classes=["no", "yes"])
    refused(
        lambda: cross_val_predict(wrong, X, y, cv=2, method="predict_proba"),
        r"predict_proba.* declare classes=\[0, 1\]",
    )
    three, named = classifier(classes=["a", "b", "c"]), np.array(["a", "b", "c"])[np.arange(N) % 3]
    refused(
        lambda: OneVsRestClassifier(three).fit(X, named),
        r"of two classes at a time, as OneVsRestClassifier .* do, classes=\[0, 1\]",
    )
    found = cross_val_predict(classifier(classes=[0, 1]), X, y, cv=2, method="predict_proba")
    assert found.shape == (N, 2)


def test_what_is_taken_from_the_data_is_not_quoted():
    for work, message in (
        (lambda: PoissonRegressor(data_norm=1.0).fit(X, Y - NUMBER), "y must be >= 0"),
        (lambda: PoissonRegressor(data_norm=1.0).fit(X, 0 * Y), "target_bounds must be given"),
        (lambda: classifier(data_norm=None).fit(X * 1e200, Y), "data_norm must be given where"),
        (
            lambda: classifier(classes=None, class_weight={"yes": 2.0}).fit(
                X, np.where(Y, TEXT, "no")
            ),
            "class_weight must have keys among the 2 classes; got 'yes'",
        ),
    ):
        refused(work, message)


def test_searches_problems_scalers_and_tables_are_as_strict():
    masked = ROWS["masked"][0]
    bounds = {"a": [-3, 3], "b": [-3, 3], "c": [-3, 3], "y": [0, 1], "target": "y"}
    search = PrivateSearchCV(classifier(), {"alpha": [0.1, 0.2]})
    for work in (
        lambda: search.fit(masked, Y),
        lambda: Problem(masked, Y, "squared", data_norm=1.0),
        lambda: BoundedScaler((-1, 1)).fit(masked),
        lambda: PublicOneHotEncoder([[0, 1]] * 3).fit(masked),
        lambda: TableModel(bounds).fit(masked, Y),
    ):
        refused(work, "X must .*without a mask")
    table = {"a": masked[:, 1], "b": Y, "c": Y, "y": Y}
    refused(lambda: TableModel(bounds).fit(table), "column 'a' must .*without a mask")
    refused(lambda: search.fit(X, Y + 0.5), "y must .*; got numbers with fractions")
    encoder = PublicOneHotEncoder([[0, 1]]).fit([[0]])
    refused(lambda: encoder.transform(pd.DataFrame({"x0": [TEXT]})), "must hold numbers")


def test_what_is_allowed():
    """Nothing masked, other layouts, objects that are numbers, labels of pandas."""
    for rows in (
        np.ma.masked_array(X), X.astype(object), X[::-1, ::-1], X > 0, X.astype(np.float16),
        X.astype(np.longdouble), (X * 2**61).astype(np.int64), FRAME.astype("Float64"),
        scipy.sparse.dok_array(X), list(X), memoryview(X),
    ):  # fmt: skip
        classifier().fit(rows, np.ma.masked_array(Y))
    names = np.where(Y, "yes", "no")
    for y in (names.tolist(), pd.Series(names), pd.Series(pd.Categorical(names)), pl.Series(names)):
        assert 0.0 <= classifier(classes=["no", "yes"]).fit(X, y).score(X, y) <= 1.0


FEW = ".* too few for this budget to learn"  # follows from public numbers
HUGE = {
    "all": np.sign(X) * 1.7e308,
    "one": np.where(X == NUMBER, 1.7e308, X),
    "1e200": 1e200 * X,
    "float32": (np.sign(X) * 3e38).astype(np.float32),
    "sparse": scipy.sparse.csr_array(np.sign(X) * 1.7e308),
}


@pytest.mark.parametrize("kind", HUGE)
def test_finite_rows_and_targets_cause_no_warning(kind):
    """Which would tell of them; and predictions are finite."""
    rows = HUGE[kind]
    targets = np.where(Y, 1.7e308, -1.7e308)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", FEW, QuestionableSettingWarning)
        for model, y in (
            (classifier(random_state=0), Y),
            (classifier(classes=[0, 1, 2], random_state=0), np.arange(N) % 3),
            (regressor(HuberRegressor, random_state=0), targets),
            (regressor(PoissonRegressor, random_state=0), targets),
        ):
            FITS.forget()
            model.fit(rows, y)
            found = [model.predict(rows)]
            if hasattr(model, "classes_"):
                model.predict_log_proba(rows)
                assert model.score(rows, y) >= 0.0
                found += [model.decision_function(rows), model.predict_proba(rows)]
            assert all(np.isfinite(values).all() for values in found)


def test_margins_beyond_float64_keep_their_sign(fitted):
    coef = 100.0 * np.cos(np.arange(fitted.coef_.size))[None, :]
    rows = 1.7e308 * np.sign(coef) * np.array([[1.0], [-1.0]])
    large = fitted.__class__(data_norm=2.0, classes=[0, 1])
    large.__dict__.update(vars(fitted), coef_=coef)
    large.__dict__.update(_row_bound=np.inf, least_probability=0.0)
    assert large.predict(rows).tolist() == [1, 0]
    assert large.predict_proba(rows).tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_exposures_of_any_length_cause_no_warning():
    long_and_short = np.where(Y, 1e-308, 1.7e308)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", FEW, QuestionableSettingWarning)
        FITS.forget()
        regressor(PoissonRegressor, max_exposure=1.0).fit(
            X, np.full(N, 1e300), exposure=long_and_short
        )


def test_one_entry_of_a_list_does_not_decide_the_precision_of_the_others():
    """Sums over float32 rows add up in another order, so the last bits of all rows would change."""
    rows = [[np.float32(0.1), np.float32(x)] for x in range(5)]
    for X in (rows, [*rows[:4], [0.1, 4.0]]):
        assert validated(LogisticRegression(), X, dtype=[np.float64, np.float32]).dtype == float
