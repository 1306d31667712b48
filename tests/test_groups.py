"""Groups of rows, such as persons: which rows belong together, and what problems make of them."""

from decimal import Decimal
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse
import sklearn
from replay import Forced, Recording
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from dpfast import (
    Budget,
    GammaRegressor,
    HuberRegressor,
    Ledger,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    Problem,
    ProblemShape,
    QuantileRegressor,
    plan,
    solve,
)
from dpfast.blocks import from_npy
from dpfast.groups import index_groups
from dpfast.model_selection import PrivateSearchCV, _means
from dpfast.privacy import BudgetAccountant, Certificate, PrivacyReport, relation_of
from dpfast.queries import ClippedGradient, GroupGradient
from dpfast.queries._linear import lengths, measured
from dpfast.queries.coordinates import column_transform, coordinates_of, reach_of
from dpfast.random import SecureGenerator
from dpfast.solvers import SOLVERS

BUDGET = Budget(1.0, 1e-6)


def rows(n_groups=60, seed=0, most=6):
    """Rows of persons with one to several of them, mixed, their targets, and whose they are."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat(np.arange(n_groups), rng.integers(1, most + 1, n_groups)))
    X = rng.uniform(-0.5, 0.5, (len(ids), 3))
    return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(len(ids)) > 0, 1.0, -1.0), ids


# ---- which rows belong together -----------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1, 3, 2, 1, 3],
        ["c", "a", "c", "b", "a", "c"],
        np.array([3, 1, 3, 2, 1, 3], dtype=np.uint8),
        pd.Series([3, 1, 3, 2, 1, 3], index=[9, 8, 7, 6, 5, 4]),
        pd.Categorical(["c", "a", "c", "b", "a", "c"]),
        [(3, 0), (1, 0), (3, 0), (2, 1), (1, 0), (3, 0)],
        [10**30, 1, 10**30, 2, 1, 10**30],
        np.array([2**64 - 1, 1, 2**64 - 1, 2, 1, 2**64 - 1], dtype=np.uint64),
        np.ma.array([3, 1, 3, 2, 1, 3]),
    ],
    ids=["lists", "texts", "bytes", "series", "categories", "tuples", "large", "beyond", "masks"],
)
def test_rows_of_a_group_come_together_in_their_order(ids):
    found = index_groups(ids, 6, 1000)
    assert found.count == 3
    groups = [set(found.order[first:last]) for first, last in pairwise(found.start)]
    assert sorted(map(sorted, groups)) == [[0, 2, 5], [1, 4], [3]]
    for first, last in pairwise(found.start):
        assert list(found.order[first:last]) == sorted(found.order[first:last])


def test_sorted_rows_stay_where_they_are():
    assert index_groups([1, 1, 4, 9], 4, 1000).order is None


def test_of_a_long_group_some_rows_are_kept_and_which_follows_from_their_number():
    ids = np.repeat([5, 7, 9], [40, 3, 40])
    found = index_groups(ids, 83, 4)
    assert list(found.sizes) == [4, 3, 4]
    kept = found.order
    np.testing.assert_array_equal(kept[7:] - 43, kept[:4])
    alone = index_groups(np.zeros(40, dtype=int), 40, 4)
    np.testing.assert_array_equal(alone.order, kept[:4])
    # Evenly: over many sizes every place is taken about as often.
    places = [index_groups(np.zeros(m, dtype=int), m, 5).order / m for m in range(50, 350)]
    assert abs(np.mean(places) - 0.5) < 0.02


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ([1.0, 2.0, 2.0], TypeError, "got floating-point numbers"),
        (np.array([1.0, np.nan, 2.0]), TypeError, "got floating-point numbers"),
        ([np.float32(1), 1, 2], TypeError, "got floating-point numbers"),
        ([(1, 2.5), (1, 2), (2, 1)], TypeError, "got floating-point numbers"),
        ([1j, 1, 2], TypeError, "got floating-point numbers"),
        ([1, None, 2], ValueError, "at least one is missing"),
        (["a", np.nan, "b"], ValueError, "at least one is missing"),
        ([np.float32("nan"), 1, 2], ValueError, "at least one is missing"),
        ([Decimal("nan"), 1, 2], ValueError, "at least one is missing"),
        (["a", "", "b"], ValueError, "at least one is missing"),
        (np.array([b"a", b" ", b"b"]), ValueError, "at least one is missing"),
        ([("a", 1), ("a", None), ("b", 1)], ValueError, "at least one is missing"),
        (
            [frozenset({"a", np.nan}), frozenset({"b"}), frozenset({"c"})],
            ValueError,
            "at least one is missing",
        ),
        (np.ma.array([1, 2, 3], mask=[False, True, False]), ValueError, "at least one is missing"),
        ([1, np.ma.masked, 2], (TypeError, ValueError), "groups must"),
        (np.array(["2020-01-01", "NaT"] * 2, "M8[D]")[:3], ValueError, "at least one is missing"),
        (pd.Series(["a", pd.NA, "b"]), ValueError, "at least one is missing"),
        (pd.Categorical(["a", None, "b"]), ValueError, "at least one is missing"),
        (polars.Series(["a", None, "b"]), ValueError, "at least one is missing"),
        (pd.Series([1, None, 2], dtype="Int64"), TypeError, "Ids with missing values"),
        (pd.to_datetime(pd.Series(["2020-01-01", None, "2020-01-02"])), ValueError, "missing"),
        ([7, "7", 8], TypeError, "ids of one type; got int and str"),
        ([object(), object(), object()], TypeError, "got objects of type object, which are equal"),
        ([(7, object())] * 3, TypeError, "got objects of type object, which are equal"),
        ([(7, "a"), ("7", "a"), (8, "b")], TypeError, "ids of one type"),
        ([1, 2], ValueError, "the group of each of the 3 rows"),
        (np.ones((3, 2), dtype=int), ValueError, "in one vector; got shape"),
        (7, ValueError, "in one vector; got shape"),
        ([[1], [2, 3], [4]], (TypeError, ValueError), "groups must"),
    ],
)
def test_bad_groups_are_refused_and_not_quoted(groups, error, message):
    with pytest.raises(error, match=message):
        Problem(np.ones((3, 1)), np.ones(3), data_norm=1.0, groups=groups)


def test_missing_rows_and_limits_are_refused():
    X, y, ids = rows()
    with pytest.raises(ValueError, match="max_rows_per_group must be None without groups"):
        Problem(X, y, data_norm=1.0, max_rows_per_group=3)
    for bad in (0, -1, 1001, 2.5, "3"):
        with pytest.raises((TypeError, ValueError), match="max_rows_per_group"):
            Problem(X, y, data_norm=1.0, groups=ids, max_rows_per_group=bad)
    with pytest.raises(ValueError, match="unit='group'"):
        ProblemShape(10, 2, 1.0, max_rows_per_group=3)


# ---- problems -----------------------------------------------------------------------------------


def test_the_number_of_groups_is_public_and_that_of_rows_is_not():
    X, y, ids = rows()
    shapes = {
        Problem(X[keep], y[keep], data_norm=1.0, groups=ids[keep]).shape
        for keep in (slice(None), np.sort(np.unique(ids, return_index=True)[1]))
    }
    assert len(shapes) == 1
    (shape,) = shapes
    assert (shape.n_samples, shape.unit) == (60, "group")
    assert str(plan(shape, "auto", BUDGET)).startswith("Plan: dp-whitened-gd on 60 groups x 3")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("most", [None, 4])
def test_sums_are_those_of_the_rows_by_the_parts_that_count(sparse, most):
    X, y, ids = rows()
    weight = np.linspace(0.1, 2.0, len(y))
    problem = Problem(
        scipy.sparse.csr_array(X) if sparse else X, y, data_norm=0.4, groups=ids,
        max_rows_per_group=most, sample_weight=weight, max_weight=2.0,
    )  # fmt: skip
    indexed = index_groups(ids, len(ids), most or 1000)
    kept = indexed.order
    plain = Problem(X[kept], y[kept], data_norm=0.4, sample_weight=weight[kept], max_weight=2.0)
    w = np.array([0.3, -2.0, 1.0, 0.2])
    part = 1.0 / (most or 1)
    gradient, loss = problem.clipped_gradient(w)
    expected, expected_loss = plain.clipped_gradient(w)
    np.testing.assert_allclose(gradient, part * expected, rtol=1e-12)
    assert loss == pytest.approx(part * expected_loss)
    np.testing.assert_allclose(problem.gram(), part * plain.gram(), rtol=1e-12)
    value, _ = problem.value_and_gradient(w)
    assert value == pytest.approx(part * expected_loss / 60)
    by_rows = plain.hessian(w) * part * len(kept) / 60
    np.testing.assert_allclose(problem.hessian(w), by_rows, rtol=1e-12)


def test_targets_and_labels_follow_their_rows():
    X, y, ids = rows()
    problem = Problem(X, y, data_norm=1.0, groups=ids, max_rows_per_group=2)
    order = index_groups(ids, len(ids), 2).order
    np.testing.assert_array_equal(problem.target, y[order])
    np.testing.assert_array_equal(problem.with_target(-y).target, -y[order])
    np.testing.assert_array_equal(problem.with_labels(ids).labels, ids[order])


def test_single_rows_are_not_told_where_a_group_has_several():
    X, y, ids = rows()
    problem = Problem(X, y, data_norm=1.0, groups=ids, max_rows_per_group=3)
    for ask in (
        problem.kernel_rows,
        lambda: problem.part(0, 5),
        lambda: problem.sampled_gradient(np.arange(3), np.zeros(4), 1.0),
    ):
        with pytest.raises(TypeError, match="problem must have no groups"):
            ask()


# ---- one row a group ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
def test_one_row_a_group_gives_exactly_what_rows_give(name):
    solver = SOLVERS[name]
    X, y, _ = rows()
    n = len(y)
    kind = "approximate" if "approximate" in solver.budgets else "pure"
    budget = {"approximate": BUDGET, "pure": Budget(1.0)}[kind]
    if solver.loss == "squared":
        y = X[:, 0]
    found = []
    for settings in ({}, {"groups": np.arange(n), "max_rows_per_group": 1}):
        problem = Problem(X, y, solver.loss, data_norm=1.0, alpha=0.1, **settings)
        relation = solver.relations[0]
        found.append(solve(problem, name, budget, neighboring_relation=relation, random_state=1))
    rows_alone, groups = found
    np.testing.assert_array_equal(groups.w, rows_alone.w)
    assert groups.privacy.epsilon == rows_alone.privacy.epsilon
    assert (groups.privacy.unit, rows_alone.privacy.unit) == ("group", "row")


def test_who_is_first_changes_nobody_elses_gradient():
    """One row a person: under another id a row moves to the end, and all others one place up."""
    rng = np.random.default_rng(4)
    apart = []
    for d, n in ((5, 17), (9, 10), (12, 10)) * 200:
        x = rng.standard_normal(d)
        x /= np.linalg.norm(x)
        # Margins are what rounding leaves of large products: another order of additions shows.
        w = rng.standard_normal(d) * 1e17
        w = np.append(w - x * (x @ w), 0.0)
        X, y = np.tile(x, (n, 1)), np.ones(n)
        X[0] = 0.0
        query = ClippedGradient(
            ProblemShape(n, d, 1.0, unit="group", max_rows_per_group=1), clip_norm=1.0
        )
        ids = np.arange(n)
        values = [
            query.evaluate(Problem(X, y, data_norm=1.0, groups=owner, max_rows_per_group=1), w)
            for owner in (ids, np.where(ids == 0, n, ids))
        ]
        apart.append(np.linalg.norm(values[0] - values[1]) / query.rounding_error())
    assert max(apart) <= 2.0


def test_lengths_of_one_row_a_person_are_those_of_float64():
    """The last bits of a product depend on places, and those of float32 are not charged for."""
    X = np.random.default_rng(0).standard_normal((40, 150))
    transform = np.random.default_rng(1).standard_normal((151, 151))
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    found = []
    for owners in ({}, {"groups": np.arange(40), "max_rows_per_group": 1}):
        problem = Problem(X, y, data_norm=1.0, **owners)
        reach = reach_of(problem.shape, transform)
        found.append(lengths(problem, transform=transform, reach=reach, least=0.0))
    rows, persons = found
    scaled = np.column_stack([X / np.linalg.norm(X, axis=1)[:, None], np.ones(40)])
    exact = np.linalg.norm(scaled @ transform, axis=1)
    np.testing.assert_allclose(persons, exact, rtol=1e-10)
    assert np.all(rows > exact * (1.0 + 1e-7))


@pytest.mark.parametrize("columns", [2, 5, 9, 33, 100])
def test_rows_have_the_same_coordinates_wherever_they_are(columns):
    """To the last bit: how alike the rows of a group are is a quotient of what remains of them."""
    rng = np.random.default_rng(0)
    shape = ProblemShape(9, columns - 1, 1.0, intercept=0.5, unit="group")
    block = rng.standard_normal((777, columns))
    block[:, -1] = 0.5
    scaled = column_transform(shape, rng.random(columns - 1), 0.1 + rng.random(columns - 1))
    for transform in (rng.standard_normal((columns, columns)), scaled):
        measure = coordinates_of(shape, transform)
        z, bounds = measure(block)
        np.testing.assert_allclose(z, block @ transform, atol=1e-12)
        assert np.all(bounds >= np.linalg.norm(block @ transform, axis=1))
        order = rng.permutation(len(block))
        for some in (slice(1), slice(3, 6), slice(0, 191), slice(5, 777), order):
            for found, expected in zip(measure(block[some]), (z[some], bounds[some]), strict=True):
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("columns", [9, 33, 120])
def test_rows_are_as_long_wherever_they_are(columns, most):
    rng = np.random.default_rng(0)
    order = np.array([2, 0, 1])
    for _ in range(40):
        X = rng.standard_normal((3, columns))
        transform = rng.standard_normal((columns + 1, columns + 1))
        found = []
        for ids in (np.arange(3), order):
            problem = Problem(X, np.ones(3), data_norm=1.0, groups=ids, max_rows_per_group=most)
            found.append(lengths(problem, transform=transform, reach=100.0, least=0.0))
        np.testing.assert_array_equal(found[1][order], found[0])


def test_who_is_first_changes_nobody_elses_alikeness():
    """It is a quotient of last bits, of rows that all but vanish: here those of the last of 201.

    Whatever BLAS is set to.
    """
    rng = np.random.default_rng(1)
    n, d = 300, 200
    direction, X = rng.standard_normal(d), rng.standard_normal((n, d))
    X -= np.outer(X @ direction, direction) / (direction @ direction)
    X /= 1.1 * np.linalg.norm(X, axis=1).max()
    X, y = np.vstack([np.zeros((96, d)), np.repeat(X, 2, axis=0)]), np.ones(96 + 2 * n)
    transform = np.zeros((d + 1, d + 1))
    transform[:d, -1] = direction
    found = []
    for mover in (0, n + 1):
        owner = np.append([mover] * 96, np.repeat(np.arange(1, n + 1), 2))
        problem = Problem(X, y, data_norm=1.0, groups=owner)
        query = GroupGradient(problem.shape, reach_of(problem.shape, transform), weight=0.3)
        with threadpool_limits(2):
            found.append(query.evaluate(problem, transform, np.zeros(d + 1), 1.0, 1.0, 1e3, None))
    assert np.linalg.norm(np.subtract(*found)) <= 2.0 * query.rounding_error()


@pytest.mark.parametrize("d", [65, 400])
def test_products_do_not_follow_how_many_threads_blas_has(d):
    """Another thread may set them in the midst of a fit."""
    rng = np.random.default_rng(0)
    row, transform = rng.standard_normal(d), rng.standard_normal((d, d))
    found = []
    for threads in (1, 2, 5, 7):
        with threadpool_limits(threads):
            rows = np.tile(row, (500, 1))
            found.append(measured(rows, coordinates=transform, dim=d, reach=1.0)[0])
    np.testing.assert_array_equal(found, np.broadcast_to(found[0][0], (4, 500, d)))
    np.testing.assert_allclose(found[0][0], row @ transform, atol=1e-11)


def test_one_row_a_person_is_in_no_part_of_its_own():
    """Which of two parts a person is in depends on where the others' rows are."""
    X, y = np.arange(8.0)[:, None] / 8.0, np.where(np.arange(8) % 2, 1.0, -1.0)
    problem = Problem(X, y, data_norm=1.0, groups=list("abcdefgh"), max_rows_per_group=1)
    with pytest.raises(TypeError, match="no groups for parts of the rows"):
        problem.part(0, 4)
    with pytest.raises(ValueError, match="batch must be None for groups of rows"):
        plan(problem.shape, "dp-agd", BUDGET, batch=4)


# ---- which solvers ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_that_look_at_single_rows_are_refused(name):
    solver = SOLVERS[name]
    shape = ProblemShape(60, 3, 1.0, solver.loss, alpha=0.1, unit="group", max_rows_per_group=4)
    budget = BUDGET if "approximate" in solver.budgets else Budget(1.0)
    relation = solver.relations[0]
    if solver.weighs_groups:
        settled = plan(shape, name, budget, neighboring_relation=relation)
        assert settled.neighboring_relation == f"{relation}_group"
        assert {e.neighboring_relation for e in settled.events} == {f"{relation}_group"}
    else:
        with pytest.raises(ValueError, match="where a group has several rows"):
            plan(shape, name, budget, neighboring_relation=relation)


@pytest.mark.parametrize(
    ("name", "options"),
    [("dp-gd", {"batch": 10}), ("output-perturbation", {"optimizer": "svrg"}),
     ("output-perturbation", {"objective": "tilted", "objective_options": {"tilt": 1.0}})],
)  # fmt: skip
def test_options_that_look_at_single_rows_are_refused(name, options):
    shape = ProblemShape(60, 3, 1.0, alpha=0.1, unit="group", max_rows_per_group=4)
    with pytest.raises(ValueError, match="without options that look at single rows"):
        plan(shape, name, BUDGET, **options)


@pytest.mark.parametrize(
    ("name", "loss"),
    [("output-perturbation", "logistic"), ("auto", "squared"), ("dp-gd", "poisson")],
)
def test_what_weighs_rows_needs_their_largest_number(name, loss):
    shape = ProblemShape(60, 3, 1.0, loss, unit="group")
    with pytest.raises(ValueError, match="max_rows_per_group must be given"):
        plan(shape, name, BUDGET)


# ---- what nobody is told ------------------------------------------------------------------------


def outcome_of(problem, settled, script=None):
    """Weights and what was asked, with the answers of `script` forced upon the run."""
    kind = Recording if script is None else Forced
    ledger = Ledger(settled.budget, adaptive=settled.adaptive)
    planned = None if settled.adaptive else settled.accesses
    curator = kind(problem, ledger, SecureGenerator(3), planned)
    curator.seen, curator.script = [], script
    outcome = SOLVERS[settled.solver].run(settled, curator)
    report = PrivacyReport.from_ledger(ledger, reproducible=False)
    return outcome, curator.seen, report


@pytest.mark.parametrize("name", ["dp-whitened-gd", "dp-gd", "dp-agd"])
def test_the_number_of_rows_leaves_only_by_releases(name):
    """With the same answers, a table of three times the rows gives the same to the last bit."""
    X, y, ids = rows()
    once, more = np.arange(len(y)), np.repeat(np.arange(len(y)), 3)
    few, many = (
        Problem(X[k], y[k], data_norm=1.0, groups=ids[k], max_rows_per_group=30)
        for k in (once, more)
    )
    settled = plan(few, name, BUDGET)
    assert str(plan(many, name, BUDGET)) == str(settled)
    one, asked, report = outcome_of(few, settled)
    two, _, other = outcome_of(many, settled, asked)
    np.testing.assert_array_equal(one.w, two.w)
    for entry, values in one.history.items():
        np.testing.assert_array_equal(values, two.history[entry])
    assert report.to_json() == other.to_json()


def test_nothing_that_is_printed_says_how_many_rows_there_are():
    X, y, ids = rows(211, most=30)
    result = solve(Problem(X, y, data_norm=1.0, groups=ids), "auto", BUDGET, random_state=0)
    n = len(y)
    told = "\n".join(
        [str(result.plan), repr(result.plan), str(result.privacy), result.privacy.to_json()]
    )
    assert str(n) not in told and f"{n:,}" not in told
    assert "211" in told


def test_one_group_may_have_all_rows():
    X, y, _ = rows()
    problem = Problem(X, y, data_norm=1.0, groups=np.zeros(len(y), dtype=int))
    assert problem.shape.n_samples == 1
    result = solve(problem, "auto", BUDGET, random_state=0)
    assert np.all(np.isfinite(result.w))


def test_reports_state_the_unit():
    X, y, ids = rows()
    report = solve(Problem(X, y, data_norm=1.0, groups=ids), "auto", BUDGET).privacy
    assert report.unit == "group"
    assert report.neighboring_relation == "replace_one_group"
    assert "all rows of any one group (person)" in str(report)
    assert "several" not in str(report) and "one group with all its rows" in str(report)
    assert PrivacyReport.from_json(report.to_json()) == report
    certificate = Certificate(report)
    assert certificate.unit == "person"
    assert certificate.to_dict()["guarantee"]["unit"] == "group"
    titles = [title for title, _ in certificate.sections()]
    assert "What it leaves to an attacker who knows everything but one person" in titles
    for relation in ("replace_one", "add_or_remove_one"):
        shape = ProblemShape(60, 3, 1.0, unit="group")
        settled = plan(shape, "auto", BUDGET, neighboring_relation=relation)
        assert settled.neighboring_relation == relation_of(relation, "group")


def test_different_units_do_not_add_up():
    X, y, ids = rows()
    account = BudgetAccountant(Budget(3.0, 1e-5))
    with account:
        solve(Problem(X, y, data_norm=1.0, groups=ids), "auto", BUDGET)
        solve(Problem(X, y, data_norm=1.0, groups=ids), "auto", BUDGET)
        with pytest.raises(ValueError, match=r"cannot mix neighboring .* Give the groups \("):
            solve(Problem(X, y, data_norm=1.0), "auto", BUDGET)
    assert account.guarantee().neighboring_relation == "replace_one_group"
    with pytest.raises(ValueError, match="neighboring_relation"):
        plan(ProblemShape(60, 3, 1.0), "auto", BUDGET, neighboring_relation="replace_one_group")


# ---- searches -----------------------------------------------------------------------------------


class TestSearch:
    GRID: ClassVar = {"alpha": [1e-3, 1e-2]}

    def test_groups_are_held_out_as_a_whole_and_paid_for(self):
        X, y, ids = rows(200)
        seen = []

        def scoring(model, X, y):
            seen.append(X)
            return np.ones(len(y))

        model = LogisticRegression(data_norm=1.0, classes=[-1, 1])
        search = PrivateSearchCV(model, self.GRID, scoring=scoring, epsilon=2.0, random_state=3)
        search.fit(X, y, groups=ids)
        assert search.privacy_.unit == "group"
        assert search.n_train_ == 160
        held = {tuple(x) for x in seen[-1]}  # the first are made up
        of_held = {ids[k] for k, x in enumerate(X) if tuple(x) in held}
        assert len(of_held) == 40
        assert len(held) == np.isin(ids, list(of_held)).sum()
        # A group's score is a mean: a score of one for every row is a one for every group.
        assert search.best_score_ == pytest.approx(1.0, abs=0.5)

    def test_one_row_a_group_is_the_search_over_rows(self):
        X, y, _ = rows(200)
        model = LogisticRegression(data_norm=1.0, classes=[-1, 1])
        found = [
            PrivateSearchCV(
                model.set_params(max_rows_per_group=most), self.GRID, epsilon=2.0, random_state=3
            ).fit(X, y, **groups)
            for most, groups in ((None, {}), (1, {"groups": np.arange(len(y))}))
        ]
        np.testing.assert_array_equal(
            found[0].best_estimator_.coef_, found[1].best_estimator_.coef_
        )
        assert found[0].best_score_ == found[1].best_score_


def test_means_of_scores_are_of_groups():
    groups = index_groups([2, 1, 2, 2], 4, 4)
    means = _means([1.0, 7.0, 0.5, np.nan], groups, 4)
    np.testing.assert_allclose(means, [1.0, 0.5])
    with pytest.raises(ValueError, match="one number for each of the rows"):
        _means([1.0], groups, 4)


# ---- estimators ---------------------------------------------------------------------------------


class TestEstimators:
    def model(self, **settings):
        return LogisticRegression(data_norm=1.0, classes=[-1, 1], random_state=0, **settings)

    def test_columns_of_a_frame(self):
        X, y, ids = rows()
        frame = pd.DataFrame(X, columns=list("abc")).assign(person=[f"p{k}" for k in ids], y=y)
        named = self.model().fit(frame[list("abc")], frame["y"], groups=frame["person"])
        assert named.privacy_.unit == "group"
        # The same groups in the order of their texts.
        texts = np.array([f"p{k}" for k in ids])
        again = self.model().fit(X, y, groups=np.unique(texts, return_inverse=True)[1])
        assert again.privacy_.epsilon == named.privacy_.epsilon
        np.testing.assert_allclose(again.coef_, named.coef_, rtol=1e-9)

    def test_several_classes(self):
        X, _, ids = rows(300)
        labels = np.digitize(X[:, 0], [-0.2, 0.2])
        for multi_class in ("multinomial", "ovr"):
            model = LogisticRegression(
                data_norm=1.0, classes=[0, 1, 2], multi_class=multi_class, random_state=0,
                epsilon=20.0,
            ).fit(X, labels, groups=ids)  # fmt: skip
            assert model.privacy_.unit == "group"
            assert model.score(X, labels) > 0.6

    @pytest.mark.parametrize(
        "kind", [HuberRegressor, QuantileRegressor, LinearSVC, LinearRegression]
    )
    def test_every_family_that_clips_groups(self, kind):
        X, y, ids = rows(300)
        own = {"classes": [-1, 1]} if kind is LinearSVC else {"target_bounds": (-1.0, 1.0)}
        model = kind(data_norm=1.0, max_rows_per_group=5, **own).fit(X, y, groups=ids)
        assert model.privacy_.unit == "group"

    @pytest.mark.parametrize("kind", [PoissonRegressor, GammaRegressor])
    @pytest.mark.parametrize("most", [4, None])
    def test_every_family_that_weighs_rows(self, kind, most):
        X, _, ids = rows(300)
        y = 1.5 + X[:, 0]
        model = kind(data_norm=1.0, target_bounds=(0.5, 3.0), max_rows_per_group=most)
        assert model.fit(X, y, groups=ids).privacy_.unit == "group"

    def test_metadata_routing(self):
        X, y, ids = rows(100)
        with sklearn.config_context(enable_metadata_routing=True):
            model = self.model().set_fit_request(groups=True)
            pipe = Pipeline([("same", FunctionTransformer()), ("model", model)])
            pipe.fit(X, y, groups=ids)
            assert pipe["model"].privacy_.unit == "group"
            unasked = Pipeline([("same", FunctionTransformer()), ("model", self.model())])
            with pytest.raises(Exception, match="groups"):
                unasked.fit(X, y, groups=ids)

    def test_what_is_missing(self, tmp_path):
        X, y, ids = rows()
        with pytest.raises(ValueError, match="groups must be given to fit with max_rows_per_group"):
            self.model(max_rows_per_group=3).fit(X, y)
        with pytest.raises(ValueError, match="the group of each of the"):
            self.model().fit(X, y, groups=ids[:-1])
        np.save(tmp_path / "X.npy", X)
        np.save(tmp_path / "y.npy", y)
        source = from_npy(tmp_path / "X.npy", tmp_path / "y.npy")
        with pytest.raises(ValueError, match=r"groups must be left out for rows .*; got groups\."):
            self.model().fit(source, groups=ids)
        with pytest.raises(ValueError, match=r"y, .* must be left out .*; got y and groups\."):
            self.model().fit(source, y, groups=ids)
        with pytest.raises(ValueError, match="groups must be given to fit with max_rows_per_group"):
            self.model(max_rows_per_group=3).fit(source)
        array = pytest.importorskip("dask.array")
        with pytest.raises(TypeError, match="groups must be a dask array or series"):
            self.model().fit(array.from_array(X), array.from_array(y), groups=ids)

    def test_weights_of_classes(self):
        X, y, ids = rows(300)
        one, two = (
            self.model(epsilon=8.0, class_weight=weight).fit(X, y, groups=ids)
            for weight in ({-1: 1.0, 1: 0.2}, None)
        )
        assert np.mean(one.predict(X) == 1) < np.mean(two.predict(X) == 1)
        weighed = Problem(X, y, data_norm=1.0, groups=ids).weighted_by(np.arange(len(y)), 1e9)
        order = index_groups(ids, len(ids), 1000).order
        np.testing.assert_array_equal(weighed.sample_weight, order)

    @pytest.mark.parametrize("how", [{"class_weight": "balanced"}, {"threshold": "balanced"}])
    def test_classes_are_not_counted_by_rows(self, how):
        X, y, ids = rows()
        with (
            BudgetAccountant(Budget(9.0, 1e-4)) as account,
            pytest.raises(ValueError, match="must not be 'balanced' with groups"),
        ):
            self.model(**how).fit(X, y, groups=ids)
        assert not account.events

    def test_the_report_counts_weights_of_groups(self):
        X, y, ids = rows()
        weight = np.where(ids % 2, 1.0, 3.0)
        model = self.model(max_weight=2.0)
        model.fit(X, y, groups=ids, sample_weight=weight)
        plain = self.model(max_weight=2.0).fit(
            X, y, groups=ids, sample_weight=np.minimum(weight, 2.0)
        )
        np.testing.assert_array_equal(model.coef_, plain.coef_)
