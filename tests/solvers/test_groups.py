"""Whitened descent where a record is a group of rows: what it learns of sizes and of alikeness."""

import itertools
import math

import numpy as np
import pytest

from dpfast import Budget, Ledger, Problem, ProblemShape, plan, solve
from dpfast.curator import Curator
from dpfast.queries import GroupGradient
from dpfast.random import SecureGenerator
from dpfast.solvers import _groups, dp_whitened_gd

BUDGET = Budget(2.0, 1e-6)


def panel(sizes, alike=0.0, seed=0):
    """Persons of these sizes; `alike`: share of a row that all rows of a person have in common."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(len(sizes)), sizes)

    def drawn(*shape):
        shared = rng.standard_normal((len(sizes), *shape))[ids]
        own = rng.standard_normal((len(ids), *shape))
        return math.sqrt(alike) * shared + math.sqrt(1.0 - alike) * own

    X = drawn(4) / 8.0
    y = np.where(drawn() + X[:, 0] > 0.0, 1.0, -1.0)
    return Problem(X, y, data_norm=1.0, groups=ids)


def run(problem, settled, script=None):
    asked = []

    class Watching(Curator):
        def _answer(self, access, fixed, point):
            asked.append((access, point))
            return super()._answer(access, fixed, point)

    curator = Watching(problem, Ledger(settled.budget), SecureGenerator(1), settled.accesses)
    return dp_whitened_gd.run(settled, curator), asked


@pytest.mark.parametrize("size", [1, 3, 12, 40])
def test_the_mean_size_is_learned(size):
    problem = panel([size] * 3000)
    settled = plan(problem, "auto", BUDGET, consistent=False)
    curator = Curator(problem, Ledger(BUDGET), SecureGenerator(1))
    found = _groups.learned(settled.settings.groups, settled.settings, curator)
    assert size / 1.5 <= found.groups.law.mean <= 1.5 * size
    before, after = settled.settings, found
    assert after.clip >= before.clip and after.step == before.step == 1.0
    assert (after.clip > before.clip) == (size > 1)


def test_few_groups_are_taken_for_small_ones():
    """Counts below the noise are no sizes: most edges belong to large groups."""
    problem = panel([5] * 40)
    settled = plan(problem, "auto", Budget(0.1, 1e-6))
    for seed in range(30):
        curator = Curator(problem, Ledger(settled.budget), SecureGenerator(seed))
        found = _groups.learned(settled.settings.groups, settled.settings, curator)
        assert found.groups.law.mean < 10.0


@pytest.mark.parametrize(("alike", "low", "high"), [(0.0, 0.8, 1.9), (1.0, 5.0, 7.0)])
def test_the_radius_follows_how_alike_rows_are(alike, low, high):
    """Between √m times a row's and more than m times, m = 16."""
    problem = panel([16] * 3000, alike)
    settled = plan(problem, "auto", Budget(8.0, 1e-6), consistent=True)
    _, asked = run(problem, settled)
    *_, (_, (_, row_norm, norm, gauge, correlation)) = asked
    assert gauge == pytest.approx(4.0, rel=0.2)
    assert correlation == 0.0 if alike == 0.0 else 0.3 < correlation < 0.9
    row = row_norm / _groups._ROW
    assert low <= norm / (_groups._RADIUS * row * gauge) <= high


def test_steps_are_of_the_mean_size():
    """The minimum is that of the mean loss over rows, however many rows a person has."""
    problem = panel([7] * 4000)
    settled = plan(problem, "auto", Budget(50.0, 1e-6))
    outcome, _ = run(problem, settled)
    _, gradient = problem.value_and_gradient(outcome.w)
    _, at_zero = problem.value_and_gradient(np.zeros(5))
    assert np.linalg.norm(gradient) < 0.05 * np.linalg.norm(at_zero)


def test_the_law_of_sizes_tells_how_long_alike_groups_are():
    law = _groups.SizeLaw(np.array([1.0, 4.0, 19.0]), np.array([0.5, 0.25, 0.25]))
    assert law.mean == 6.25
    alike = [0.5 + 0.25 * 2.5 / 4.0 + 0.25 * 2.5 / 19.0, 0.75 + 0.25 * 2.5 / math.sqrt(19.0)]
    np.testing.assert_allclose(law.alike(np.array([1.0, 0.5])), alike)


def test_the_spread_of_sizes():
    assert _groups.SizeLaw(np.array([4.0]), np.ones(1)).spread == 0.0
    law = _groups.SizeLaw(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    assert law.spread == pytest.approx(0.5)


def test_rows_count_alike_as_far_as_groups_count_enough():
    law = _groups.SizeLaw(np.array([1.0, 2.0, 10.0]), np.array([0.5, 0.3, 0.2]))
    assert law.counted() == pytest.approx((10.0, 0.31))
    assert law.counted(0.31) == pytest.approx((10.0, 0.31))
    assert law.counted(0.5) == pytest.approx((2.0, 0.75))
    assert law.counted(1.0) == (1.0, 1.0)


def test_what_groups_count_is_told_by_all_counts():
    """Large groups, which hide in the noise one size by one, were missing."""
    sizes = np.append(np.ones(900, int), np.geomspace(40, 900, 60).astype(int))
    problem = panel(sizes)
    access = plan(problem, "auto", Budget(4.0, 1e-6)).settings.groups.sizes
    parts, deviations = [], set()
    for seed in range(40):
        curator = Curator(problem, Ledger(BUDGET), SecureGenerator(seed))
        counts = curator._answer(access, None, ())
        part, deviation = _groups.mean_part(access, counts, len(sizes), 30.0)
        parts.append(part)
        deviations.add(deviation)
    (deviation,) = deviations
    assert np.mean(parts) == pytest.approx((900 / 30 + 60) / 960, abs=deviation / 2.0)
    assert np.std(parts) == pytest.approx(deviation, rel=0.4)
    assert _groups.mean_part(access, counts, len(sizes), 1.0) == (1.0, 0.0)


def test_counts_of_their_classes_settle_the_constant_of_persons():
    """Without a signal; few short steps from zero ended halfway, .05 from the best constant."""
    rng = np.random.default_rng(2)
    ids, X = np.repeat(np.arange(1000), 3), np.eye(6)[rng.integers(6, size=3000)]
    y = np.where(rng.random(3000) < 0.15, 1.0, -1.0)
    rows, share = Problem(X, y, data_norm=1.0), np.mean(y > 0.0)
    persons = Problem(X, y, data_norm=1.0, groups=ids)
    found = (solve(persons, "auto", Budget(0.1, 1e-6), random_state=s).w for s in range(8))
    best = -share * math.log(share) - (1.0 - share) * math.log(1.0 - share)
    assert sum(rows.objective(w) for w in found) / 24_000.0 < best + 0.025


def test_persons_of_copies_end_near_the_minimum():
    """A short radius cuts surprising labels more than others, so its zero has longer weights."""
    rng = np.random.default_rng(3)
    ids = np.repeat(np.arange(3000), rng.integers(1, 21, 3000))
    X = rng.normal(size=(3000, 4)).clip(-3.0, 3.0)[ids] / 6.0
    true = np.array([12.0, -12.0, 6.0, 0.0, 0.0])
    y = np.where(X @ true[:-1] + rng.logistic(size=3000)[ids] > 0.0, 1.0, -1.0)
    problem = Problem(X, y, data_norm=1.0, groups=ids)
    w = solve(problem, "dp-whitened-gd", Budget(4.0, 1e-6), random_state=0).w
    lost = problem.value_and_gradient(w)[0] - problem.value_and_gradient(true)[0]
    assert lost < 0.06


def bias(correlation):
    """How long the expected gradient of groups is whose labels follow the model, over the bound."""
    rng = np.random.default_rng(4)
    X, w = rng.standard_normal((4, 2)), np.array([1.5, -1.0, 0.5])
    ids = [0, 0, 0, 1]
    shape = Problem(X, np.ones(4), data_norm=5.0, groups=ids).shape
    query = GroupGradient(shape, 60.0, 0.0)
    total = np.zeros(4)
    for labels in itertools.product([-1.0, 1.0], repeat=4):
        problem = Problem(X, np.array(labels), data_norm=5.0, groups=ids)
        chance = 1.0 / (1.0 + np.exp(-np.array(labels) * (X @ w[:2] + w[2])))
        prepared = query.prepare(problem, np.eye(3))
        total += chance.prod() * query(prepared, w, 0.6, 0.6, 1.0, correlation)
    return np.linalg.norm(total[:3])


def test_gradients_nearly_vanish_where_labels_follow_the_model():
    assert bias(correlation=0.0) < 0.03 < 0.3 < bias(correlation=None)
    assert bias(correlation=1.0) < 1e-12


@pytest.mark.parametrize("copies", [1, 5])
def test_persons_of_one_row_or_of_copies_end_near_where_rows_do(copies):
    """Labels had a part in how gradients were cut, and persons' classes were not counted."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 8)) / 4.0
    y = np.where(rng.random(800) < 1.0 / (1.0 + np.exp(1.0 - 3.0 * X[:, 0])), 1.0, -1.0)
    rows, ids = Problem(X, y, data_norm=2.0), np.repeat(np.arange(800), copies)
    persons = Problem(X[ids], y[ids], data_norm=2.0, groups=ids)

    def loss(problem):
        options = {"consistent": True}
        found = [
            solve(problem, "dp-whitened-gd", Budget(4.0, 1e-6), random_state=s, **options).w
            for s in range(4)
        ]
        return sum(rows.objective(w) for w in found) / 3200.0

    assert loss(persons) < loss(rows) + 0.003


@pytest.mark.parametrize(
    ("sizes", "epsilon", "alike"),
    [([1] * 3000, 4.0, True), ([1] * 2900 + [3] * 100, 4.0, True), ([1] * 3000, 0.5, False),
     ([1, 2] * 1500, 4.0, False)],
)  # fmt: skip
def test_persons_of_mostly_one_row_are_clipped_as_rows_are(sizes, epsilon, alike):
    problem = panel(sizes)
    for chosen, expected in (("auto", alike), (False, False)):
        settled = plan(problem, "auto", Budget(epsilon, 1e-6), consistent=chosen)
        curator = Curator(problem, Ledger(settled.budget), SecureGenerator(1))
        found = _groups.learned(settled.settings.groups, settled.settings, curator)
        assert found.consistent is expected


@pytest.mark.parametrize("most", [None, 6])
def test_columns_of_persons_are_found_in_wide_bounds(most):
    """A hundred times narrower than rows may be long, one of them far from zero."""
    rng = np.random.default_rng(4)
    ids = np.repeat(np.arange(2500), rng.integers(1, 7, 2500))
    X = rng.normal(size=(len(ids), 3)).clip(-3.0, 3.0) / 1000.0 + np.array([0.0, 0.3, 0.0])
    z = 1000.0 * (X - [0.0, 0.3, 0.0]) @ [1.0, -1.0, 0.0]
    y = np.where(z + rng.logistic(size=len(ids)) > 0.0, 1.0, -1.0)
    problem = Problem(X, y, data_norm=1.0, groups=ids, max_rows_per_group=most)
    w = solve(problem, "dp-whitened-gd", Budget(2.0, 1e-6), random_state=0).w
    assert np.corrcoef(X @ w[:-1], z)[0, 1] > 0.95


def test_what_was_asked_for_stays():
    options = {"clip": 0.8, "step": 0.5, "momentum": 0.1, "iterations": 7}
    problem = panel([9] * 2000)
    settled = plan(problem, "dp-whitened-gd", BUDGET, **options)
    curator = Curator(problem, Ledger(BUDGET), SecureGenerator(1))
    found = _groups.learned(settled.settings.groups, settled.settings, curator)
    assert {name: getattr(found, name) for name in options} == options


def test_plans_of_groups_are_made_of_public_numbers():
    shape = ProblemShape(5000, 8, 1.0, unit="group")
    settled = plan(shape, "auto", BUDGET)
    assert settled.accesses[0][0].where == "sizes of groups"
    assert (
        settled.settings.iterations
        >= plan(ProblemShape(5000, 8, 1.0), "auto", BUDGET).settings.iterations
    )
    ledger = Ledger(BUDGET)
    ledger.spend_alone(settled.events)
    assert ledger.guarantee().epsilon == pytest.approx(2.0, rel=1e-3)


def test_the_reach_leaves_room_for_rounding():
    for persons, d in ((100, 3), (10_000, 30), (10**6, 50)):
        shape = ProblemShape(persons, d, 1.0, unit="group")
        settled = plan(shape, "dp-whitened-gd", BUDGET)
        query = settled.settings.gradient.query
        assert query.rounding_error() < 0.01 * query.sensitivity("replace_one_group")
