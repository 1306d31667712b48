"""A model is applied to rows as it was learned of them: cut to the declared norm, and no other."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse

import dpfast
from dpfast import blocks
from dpfast.coded import CodedMatrix
from dpfast.estimators._base import _told_of_columns
from dpfast.rows import row_lengths
from dpfast.solvers._contract import Outcome

N = 200
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (N, 3))
Y = RNG.integers(0, 3, N)
LENGTHS = np.linalg.norm(X, axis=1)
CUT = X / np.maximum(LENGTHS, 1.0)[:, np.newaxis]
HOW = {"data_norm": 1.0, "epsilon": 5.0, "random_state": 0}
MODELS = {
    "two classes": lambda: dpfast.LogisticRegression(classes=[0, 1], **HOW).fit(X, Y > 0),
    "ovr": lambda: dpfast.LogisticRegression(classes=[0, 1, 2], multi_class="ovr", **HOW).fit(X, Y),
    "multinomial": lambda: dpfast.LogisticRegression(
        classes=[0, 1, 2], multi_class="multinomial", **HOW
    ).fit(X, Y),
    "svc": lambda: dpfast.LinearSVC(classes=[0, 1], **HOW).fit(X, Y > 0),
    "huber": lambda: dpfast.HuberRegressor(target_bounds=(0, 2), **HOW).fit(X, Y),
    "poisson": lambda: dpfast.PoissonRegressor(target_bounds=(0, 2), **HOW).fit(X, Y),
}
FORMS = {
    "dense": lambda X: X,
    "fortran": np.asfortranarray,
    "sparse": scipy.sparse.csr_array,
    "old sparse": scipy.sparse.csr_matrix,
    "float32": lambda X: X.astype(np.float32),
    "blocks": lambda X: blocks.from_npy(X, Y, block_rows=50),
    "codes": lambda X: CodedMatrix([(np.arange(len(X), dtype=np.uint8), X)]),
}


def outputs(model, X):
    names = ("predict", "decision_function", "predict_proba", "predict_log_proba")
    return [getattr(model, name)(X) for name in names if hasattr(model, name)]


CUT3 = 3.0 * X / np.maximum(3.0 * LENGTHS, 1.0)[:, np.newaxis]


@pytest.mark.parametrize("name", MODELS)
def test_longer_rows_are_cut_as_in_the_fit(name):
    model = MODELS[name]()
    for found, expected in zip(outputs(model, 3.0 * X), outputs(model, CUT3), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert model.score(3.0 * X, Y > 0) == pytest.approx(model.score(CUT3, Y > 0))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["two classes", "ovr"])
def test_rows_in_any_form(name, form):
    model = MODELS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.decision_function(FORMS[form](X))
    np.testing.assert_allclose(found, model.decision_function(CUT), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_rows_within_the_norm_are_not_touched(name):
    """Nor those as long as it, up to rounding; and none where no norm was declared."""
    model = MODELS[name]()
    rows = np.vstack([CUT, X / LENGTHS[:, np.newaxis]])
    bound = model.__dict__.pop("_row_bound")
    free = outputs(model, rows)
    longer = model._affine(X, model.coef_.T, model.intercept_)
    np.testing.assert_array_equal(longer, X @ model.coef_.T + model.intercept_)
    model._row_bound = bound
    for found, expected in zip(outputs(model, rows), free, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_float32_is_not_copied_as_a_whole():
    rows = np.random.default_rng(0).standard_normal((10_000, 40)).astype(np.float32)
    model = dpfast.LogisticRegression(classes=[0, 1], **HOW).fit(rows, rows[:, 0] > 0.0)
    tracemalloc.start()
    found = model.decision_function(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes
    expected = model.decision_function(rows.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_rows_of_any_size():
    model = MODELS["two classes"]()
    rows = np.array([[1.7e308, -1.7e308, 1e308], [1e200, 0.0, 0.0], [0.1, 0.0, 0.0]])
    expected = [[1.7, -1.7, 1.0], [1.0, 0.0, 0.0], [0.1, 0.0, 0.0]]
    expected /= np.maximum(np.linalg.norm(expected, axis=1), 1.0)[:, np.newaxis]
    with np.errstate(all="raise"):
        found = model.decision_function(rows)
    np.testing.assert_allclose(found, model.decision_function(expected), rtol=1e-12)


def test_lengths_of_unsorted_sparse_rows():
    twice = scipy.sparse.csr_array(([3.0, 1.0, 3.0], [1, 0, 1], [0, 3]), (1, 2))
    np.testing.assert_allclose(row_lengths(twice), [np.sqrt(37.0)])
    assert twice.nnz == 3


def test_predictions_stay_in_the_bounds_of_targets():
    for make in (dpfast.HuberRegressor, dpfast.QuantileRegressor, dpfast.LinearRegression):
        for fit_intercept in (True, False):
            model = make(target_bounds=(1.0, 1.1), fit_intercept=fit_intercept, **HOW).fit(X, Y)
            model.coef_ = np.full(3, 1e6)
            found = model.predict(X)
            assert (found.min(), found.max()) == (1.0, 1.1)


def test_a_small_norm_does_no_harm():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(5000, 8)) + 0.5
    y = rows @ rng.normal(size=8) > 0.0
    model = dpfast.LogisticRegression(4.0, data_norm=0.5, classes=[False, True], random_state=0)
    model.fit(rows, y)
    chance = model.predict_proba(rows)[np.arange(len(y)), y.astype(int)]
    assert model.score(rows, y) > 0.85
    assert -np.log(chance).mean() < 0.4


RANGES = np.array([[-0.2, -np.inf, 0.1], [0.5, np.inf, 0.3]])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_entries_beyond_the_known_range_are_drawn_to_its_middle(name, form):
    """As if they had been before, after the rows were cut; a zero may be out of range, too."""
    drawn = CUT3.copy()
    for column in (0, 2):
        low, high = RANGES[:, column]
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        away = (drawn[:, column] - middle) / half
        beyond = np.abs(away) > 1.0
        drawn[beyond, column] = middle + half * np.sign(away[beyond]) / away[beyond] ** 2
    model = MODELS[name]()
    model.column_ranges_, model._row_bound = None, np.inf
    expected = model._affine(drawn, model.coef_.T, model.intercept_)
    model.column_ranges_, model._row_bound = RANGES, 1.0
    found = model._affine(FORMS[form](3.0 * X), model.coef_.T, model.intercept_)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_rows_in_their_ranges_are_not_touched():
    model = MODELS["multinomial"]()
    model.column_ranges_ = None
    before = outputs(model, X)
    model.column_ranges_ = 2.0 * np.outer([-1.0, 1.0], np.abs(X).max(axis=0))
    for found, expected in zip(outputs(model, X), before, strict=True):
        np.testing.assert_array_equal(found, expected)
    model.column_ranges_ = np.outer([-np.inf, np.inf], np.ones(3))  # as files may have it
    for found, expected in zip(outputs(model, X), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_entries_of_any_size_are_drawn_to_the_middle():
    model = MODELS["two classes"]()
    model.column_ranges_, model._row_bound = np.array([[-0.5] * 3, [0.5] * 3]), np.inf
    found = model.decision_function([[1.7e308, -1.7e308, 1e17]])
    np.testing.assert_allclose(found, model.decision_function([[0.0, 0.0, 0.0]]))
    model.column_ranges_ = np.zeros((2, 3))
    np.testing.assert_array_equal(model.decision_function([[1.0, -5e-324, 0.0]]), found)


def test_codes_that_counts_hide_have_no_great_effect():
    """999 for a missing number from 0 to 4, in one row of a hundred."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.uniform(-1.0, 1.0, 3000), rng.integers(0, 5, 3000) / 999.0])
    rows[rng.random(3000) < 0.01, 1] = 1.0
    y = rows[:, 0] + rng.normal(size=3000)
    for seed in range(3):
        model = dpfast.LinearRegression(
            2.0, data_norm=2.0**0.5, target_bounds=(-5.0, 5.0), random_state=seed
        ).fit(rows, y)
        low, high = model.column_ranges_
        assert low[1] < 0.0 < 0.004 < high[1] < 0.2
        assert np.mean((model.predict(rows) - y) ** 2) < 0.78 * np.var(y)
        model.column_ranges_ = None  # as before
        assert np.mean((model.predict(rows) - y) ** 2) > 0.85 * np.var(y)


@pytest.mark.parametrize("method", ["ovr", "svc"])
def test_codes_have_no_great_effect_on_classes_with_fits_of_their_own(method):
    """999 for a missing number from 0 to 4, in a row to predict for."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.uniform(-1.0, 1.0, 3000), rng.integers(0, 5, 3000) / 999.0])
    y = np.digitize(rows[:, 0] + rng.normal(size=3000) / 2.0, [-0.5, 0.5])
    how = {"data_norm": 2.0**0.5, "epsilon": 8.0, "random_state": 0, "classes": [0, 1, 2]}
    if method == "svc":
        model = dpfast.LinearSVC(**how).fit(rows, y)
    else:
        model = dpfast.LogisticRegression(multi_class="ovr", **how).fit(rows, y)
    low, high = model.column_ranges_
    assert (low < rows.min(axis=0)).all() and (rows.max(axis=0) < high).all() and high[1] < 0.2
    entries = [1.0, high[1], 0.5 * (low[1] + high[1])]
    code, most, middle = model.decision_function([[0.0, entry] for entry in entries])
    assert np.abs(code - middle).max() < 0.1 * np.abs(most - middle).max()


def test_ranges_of_classes_are_those_that_most_of_their_fits_tell():
    ranges = [[[-1.0, 0.0], [1.0, np.inf]], [[-2.0, -np.inf], [3.0, np.inf]], None]
    ranges[0][0][1] = -np.inf
    outcomes = [
        Outcome(np.zeros(3), column_ranges=None if part is None else np.array(part))
        for part in ranges
    ]
    told = _told_of_columns(outcomes, 2)
    np.testing.assert_array_equal(told, [[-2.0, -np.inf], [3.0, np.inf]])
    assert _told_of_columns(outcomes[2:], 2) is None
    assert _told_of_columns(outcomes[1:], 2) is None  # no more than half
    np.testing.assert_array_equal(_told_of_columns(outcomes[:1], 2), ranges[0])
