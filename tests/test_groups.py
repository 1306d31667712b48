"""Groups of rows, such as persons: which rows belong together, and what problems make of them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from dpfast import Budget, Problem, ProblemShape, plan, solve
from dpfast.groups import index_groups
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
    ],
    ids=["lists", "texts", "bytes", "series", "categories", "tuples", "large"],
)
def test_rows_of_a_group_come_together_in_their_order(ids):
    found = index_groups(ids, 6, 1000)
    assert found.count == 3
    groups = [
        set(found.order[first:last])
        for first, last in zip(found.start[:-1], found.start[1:], strict=True)
    ]
    assert sorted(map(sorted, groups)) == [[0, 2, 5], [1, 4], [3]]
    for first, last in zip(found.start[:-1], found.start[1:], strict=True):
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
        ([1, None, 2], ValueError, "at least one is missing"),
        (["a", np.nan, "b"], ValueError, "at least one is missing"),
        (pd.Series([1, None, 2], dtype="Int64"), TypeError, "Ids with missing values"),
        (pd.to_datetime(pd.Series(["2020-01-01", None, "2020-01-02"])), ValueError, "missing"),
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
    [("output-perturbation", "logistic"), ("auto", "squared"), ("auto", "poisson")],
)
def test_what_weighs_rows_needs_their_largest_number(name, loss):
    shape = ProblemShape(60, 3, 1.0, loss, unit="group")
    with pytest.raises(ValueError, match="max_rows_per_group must be given"):
        plan(shape, name, BUDGET)
