"""Fit an estimator on one data set, then on its neighbor with the same releases forced upon it.

Nothing else may tell them apart: no attribute, to its last bit, type and layout, and no warning.
The exact values behind each release are held against what it charges, too.
"""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from replay import Seen, charged, distance, same

from dpfast import (
    CoefficientPrior,
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    NegativeBinomialRegressor,
    PoissonRegressor,
    QuantileRegressor,
    TableModel,
)
from dpfast.column_blocks import ColumnBlock
from dpfast.curator import Curator
from dpfast.mechanisms import Mechanism
from dpfast.preprocessing import PrivateQuantileScaler, PrivateRangeScaler, PrivateStandardScaler
from dpfast.privacy.repeats import FITS

N, D = 300, 3
LONG, EMPTY, TINY = np.full(D, 1e200), np.zeros(D), np.full(D, -1e-310)
COMMON = {"epsilon": 12.0, "random_state": 0}


@pytest.fixture
def replay(monkeypatch):
    """Two fits, the second one with the releases of the first."""
    answer, script, seen = Curator._answer, [], []

    def look(self, access, fixed, point):
        values, exact = () if fixed is None else fixed.values, None
        if isinstance(access, Mechanism):
            exact = np.asarray(access.query(self._prepare(access.query, fixed), *point))
        if len(seen) == len(script):
            script.append(Seen(access, values, point, exact, answer(self, access, fixed, point)))
        before = script[len(seen)]
        seen.append(before)
        assert access.events() == before.access.events()
        assert same((values, point), (before.fixed, before.point)), f"{access.where!r}"
        if exact is not None:
            assert distance(access, exact - before.exact) <= charged(access), f"{access.where!r}"
        return before.answer

    monkeypatch.setattr(Curator, "_answer", look)

    def fit(make, rows):
        FITS.forget()
        seen.clear()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = make(*rows)
        return pickle.dumps(model), [str(warning.message) for warning in said], len(seen)

    def replay(make, rows, neighbor):
        script.clear()
        first = fit(make, rows)
        assert script
        assert first == fit(make, neighbor)

    return replay


def rows():
    """Rows, targets above 0, weights, exposures, and whose rows they are."""
    rng = np.random.default_rng(0)
    X = 0.5 * rng.normal(size=(N, D))
    y = rng.poisson(np.exp(X[:, 0])) + 0.5
    return X, y, *rng.uniform(0.1, 3.0, (2, N)), np.repeat(np.arange(N // 3), 3)


def replaced(x, *others):
    """Of one person, a row or two hundred of these entries instead of three, amid the others."""
    whole, count = rows(), 1 if x is LONG else 200
    kept, at = whole[-1] != 7, np.append(np.arange(N - 3), np.linspace(0.0, N, count))
    values = (x, *others, 10**6)
    new = (
        np.concatenate([part[kept], np.full((count, *part.shape[1:]), value)])
        for part, value in zip(whole, values, strict=True)
    )
    return tuple(part[np.argsort(at, kind="stable")] for part in new)


def one_row(x, *others):
    whole = rows()
    for part, value in zip(whole[:-1], (x, *others), strict=True):
        part[31] = value
    return whole


CLASSES = {"classes": [False, True], "data_norm": 1.0}
BOUNDS = {"target_bounds": (0.25, 30.0), "data_norm": 1.0}
EXPOSED = {**BOUNDS, "max_exposure": 2.0, "max_weight": 2.0}
ESTIMATORS = [
    LogisticRegression(**CLASSES),
    LogisticRegression(**CLASSES, class_weight="balanced"),
    LogisticRegression(classes=[0, 1, 2], data_norm=1.0),
    LinearSVC(**CLASSES),
    *(kind(**BOUNDS) for kind in (LinearRegression, HuberRegressor, QuantileRegressor)),
    NegativeBinomialRegressor(**BOUNDS),
    *(kind(**EXPOSED) for kind in (PoissonRegressor, GammaRegressor)),
]


def fitting(estimator, storage, grouped):
    def make(X, y, weight, exposure, groups):
        model = type(estimator)(**{**estimator.get_params(), **COMMON})
        beside = {"groups": groups} if grouped else {}
        if getattr(model, "max_exposure", None) is not None:
            beside |= {"sample_weight": weight, "exposure": exposure}
        if grouped and "target_bounds" in model.get_params():
            model.set_params(max_rows_per_group=2)
        classes = getattr(model, "classes", None)
        labels = y if classes is None else (y > 1.0) if len(classes) == 2 else (y > 1.0) * 2
        return model.fit(storage(X), labels, **beside)

    return make


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_nothing_of_a_row_is_left_but_releases(replay, estimator):
    for storage, values in (
        (np.array, (LONG, 1e-300, 1e300, 1e300)),
        (scipy.sparse.csr_array, (EMPTY, 1e300, 0.0, 1e-300)),
        (pd.DataFrame, (TINY, 2.0, 1.0, 1.0)),
    ):
        replay(fitting(estimator, storage, False), rows(), one_row(*values))


@pytest.mark.parametrize(
    "estimator",
    # The count of the classes is of rows.
    [each for each in ESTIMATORS if getattr(each, "class_weight", None) is None],
    ids=lambda e: type(e).__name__,
)
def test_nothing_of_a_person_is_left_but_releases(replay, estimator):
    for storage, values in (
        (np.array, (LONG, 1e-300, 1e300, 1e300)),
        (scipy.sparse.csr_array, (EMPTY, 1e300, 0.0, 1e-300)),
    ):
        replay(fitting(estimator, storage, True), rows(), replaced(*values))


OPTIONS = [
    LogisticRegression(**CLASSES, threshold="balanced"),
    LogisticRegression(**CLASSES, prior=CoefficientPrior([0.5, 0.0, -0.1], 0.1, [0.04] * 4)),
    LogisticRegression(classes=[0, 1, 2], data_norm=1.0, class_weight="balanced"),
    LogisticRegression(
        classes=[0, 1, 2], data_norm=1.0, multi_class="ovr", class_weight="balanced"
    ),
    # What is learned of ranges without a delta, and units that are.
    *(kind(**BOUNDS, delta=0.0) for kind in (LinearRegression, QuantileRegressor)),
    # Slopes along the constant.
    QuantileRegressor(**BOUNDS, quantile=0.9),
    HuberRegressor(
        target_bounds=(-1e4, 1e5),
        data_norm=3.0,
        fit_intercept=False,
        column_blocks=[ColumnBlock("one-hot", 0, 2), ColumnBlock("number", 2, 3)],
    ),
    LinearRegression(**BOUNDS, solver="dp-adassp", intercept_scaling=0.1),
]


@pytest.mark.parametrize("estimator", OPTIONS, ids=lambda e: type(e).__name__)
def test_nor_with_other_options_and_layouts(replay, estimator):
    for storage, values in (
        (scipy.sparse.csc_array, (LONG, 1e-300, 1.0, 1.0)),
        (lambda X: np.asfortranarray(X, dtype=np.float32), (TINY, 1e300, 1.0, 1.0)),
    ):
        replay(fitting(estimator, storage, False), rows(), one_row(*values))


@pytest.mark.parametrize("kind", [PrivateStandardScaler, PrivateRangeScaler, PrivateQuantileScaler])
def test_scalers(replay, kind):
    def make(X, y, weight, exposure, groups):
        return kind((-2.0, 2.0), **COMMON).fit(X, groups=groups)

    replay(make, rows(), replaced(LONG, 0.0, 0.0, 0.0))
    replay(make, rows(), replaced(EMPTY, 0.0, 0.0, 0.0))


@pytest.mark.parametrize("person", [None, "who"])
@pytest.mark.parametrize("in_memory", [True, False])
def test_tables(replay, person, in_memory):
    bounds = {
        "x": {"range": [-9, 9], "missing": "indicator"},
        "wide": {"range": [-1e6, 1e6], "learn": True},
        "kind": ["a", "b"],
        "cost": {"range": [0.25, 1e4], "learn": True},
        "target": "cost",
        "learn_share": 0.5,
    }

    def make(X, y, weight, exposure, groups):
        kinds = np.where(y > 1e3, "never declared", np.where(y > 1.0, "a", "b"))
        x = np.where(X[:, 0] == 0.0, np.nan, X[:, 0])
        table = {"x": x, "wide": X[:, 1], "kind": kinds, "cost": y, "who": groups}
        settings = {"in_memory": in_memory, "person": person, **COMMON}
        if person:
            settings["max_rows_per_group"] = 3
        return TableModel(bounds, GammaRegressor(), **settings).fit(table)

    change = replaced if person else one_row
    replay(make, rows(), change(LONG, 1e-300, 1.0, 1.0))
    replay(make, rows(), change(EMPTY, 1e300, 1.0, 1.0))
