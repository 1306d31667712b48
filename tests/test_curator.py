"""The curator holds a run to its plan, and pays for all of it."""

import contextlib
import copy
import pickle
import threading
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest

from dpfast import Budget, BudgetExceeded, Ledger, Loss, Problem, ProblemShape
from dpfast.blocks import BlockProblem, from_npy
from dpfast.curator import Curator
from dpfast.fused import LastIterate, PerturbedMinimizer, SampledSteps, State, Walk
from dpfast.mechanisms import Gaussian, NoisyMax
from dpfast.objectives import objective_shape
from dpfast.queries import (
    BatchSum,
    CertifiedMinimizer,
    ClippedGradient,
    ColumnHistogram,
    ColumnParts,
    DescentIterate,
    Gram,
    LineSearchLosses,
    TargetSum,
)
from dpfast.random import SecureGenerator
from dpfast.shape import BlockSizes
from dpfast.solvers import SOLVERS, Outcome, Plan, carry_out

BUDGET, RELATION = Budget(1.0, 1e-6), "replace_one"


@dataclass(frozen=True)
class Settings:
    """Of the solvers made up here."""

    first: Gaussian
    second: Gaussian


@pytest.fixture
def problem(classification):
    return Problem(*classification, "logistic", data_norm=2.0)


@pytest.fixture
def settled(problem):
    """One access of one kind and three of another, of unequal price."""
    query = ClippedGradient(problem.shape)
    first, second = (
        Gaussian.calibrate(Budget(mu=mu), query, RELATION, where=where)
        for mu, where in ((0.06, "once"), (0.03, "thrice"))
    )
    return Plan(
        solver="dp-gd", shape=problem.shape, budget=BUDGET, neighboring_relation=RELATION,
        settings=Settings(first, second), accesses=((first, 1), (second, 3)),
    )  # fmt: skip


def faithful(settled, curator):
    w = np.zeros(settled.shape.dim)
    w = w - curator.release(settled.settings.first, w)
    for _ in range(3):
        w = w - curator.release(settled.settings.second, w)
    return Outcome(w)


def made_up(run):
    """A solver of that run takes the place of the plan's."""
    return mock.patch.dict(SOLVERS, {"dp-gd": replace(SOLVERS["dp-gd"], run=run)})


def carried_out(settled, problem, run, seed=0, **ledger):
    ledger = Ledger(BUDGET, **ledger)
    with made_up(run):
        return carry_out(settled, problem, SecureGenerator(seed), ledger), ledger


def test_what_was_planned_is_released(settled, problem):
    _, ledger = carried_out(settled, problem, faithful)
    assert [e.where for e in ledger.events] == ["once"] + ["thrice"] * 3


def twice(settled, curator):
    """Chooses by what was released."""
    w = np.zeros(settled.shape.dim)
    noisy = curator.release(settled.settings.first, w)
    again = settled.settings.first if noisy[0] != 0.0 else settled.settings.second
    return Outcome(curator.release(again, w))


def other_order(settled, curator):
    return Outcome(curator.release(settled.settings.second, np.zeros(settled.shape.dim)))


def once_more(settled, curator):
    faithful(settled, curator)
    return Outcome(curator.release(settled.settings.second, np.zeros(settled.shape.dim)))


def its_own(settled, curator):
    """An access of the same price is another one."""
    w = np.zeros(settled.shape.dim)
    return Outcome(curator.release(settled.settings.first.named("another"), w))


@pytest.mark.parametrize(
    ("run", "made", "message"),
    [
        (twice, 1, "the next is 'thrice'; got 'once'"),
        (other_order, 0, "the next is 'once'; got 'thrice'"),
        (once_more, 4, "there are no more; got 'thrice'"),
        (its_own, 0, "the next is 'once'; got 'another'"),
    ],
)
def test_what_was_not_planned_is_refused_before_it_is_paid_for(
    settled, problem, run, made, message
):
    asked = []

    class Watched(Ledger):
        def spend_all(self, events):
            asked.append(events)
            super().spend_all(events)

    ledger = Watched(BUDGET)
    curator = Curator(problem, ledger, SecureGenerator(0), settled.accesses)
    with pytest.raises(ValueError, match=rf"{message}. Nothing was spent on it\."):
        run(settled, curator)
    assert curator.made == len(asked) == len(ledger.events) == made


def test_what_only_looks_like_an_access_is_refused(settled, problem):
    class Lookalike:
        query, where = None, "free of charge"

        def events(self, count=1):
            return ()

        def answer(self, prepared, rng):
            return prepared

    curator = Curator(problem, Ledger(BUDGET), SecureGenerator(0))
    with pytest.raises(TypeError, match="access must be a mechanism"):
        curator.release(Lookalike())


def test_what_a_price_rests_on_cannot_be_set(settled):
    """A run that clips anew would have what another clip was charged for."""
    access = settled.settings.first
    for changed, name in ((access.query, "clip_norm"), (access, "stddev"), (access, "query")):
        with pytest.raises(AttributeError, match="a price rests on it"):
            setattr(changed, name, 1e9)
    assert access.named("elsewhere").where == "elsewhere"


@pytest.mark.parametrize("run", [twice, other_order, once_more, its_own])
def test_without_a_plan_the_ledger_alone_decides(settled, problem, run):
    ledger = Ledger(BUDGET, adaptive=True)
    run(settled, Curator(problem, ledger, SecureGenerator(0)))
    assert ledger.events


def test_what_is_chosen_on_the_way_is_between_the_neighbors_that_are_asked_for(settled, problem):
    """The absent record moves half as much, and a report that says so is not what was asked."""

    def run(settled, curator):
        query = settled.settings.first.query
        half = Gaussian.calibrate(Budget(mu=0.06), query, "add_or_remove_one", where="half")
        return Outcome(curator.release(half, np.zeros(settled.shape.dim)))

    ledger = Ledger(BUDGET, adaptive=True)
    asked = pytest.raises(ValueError, match="asked for, 'replace_one'; got 'half', between those")
    with asked, made_up(run):
        carry_out(replace(settled, adaptive=True), problem, SecureGenerator(0), ledger)
    assert ledger.events == ()


def stops(settled, curator):
    """By what was released, or so it might be."""
    return Outcome(curator.release(settled.settings.first, np.zeros(settled.shape.dim)))


def never_asks(settled, curator):
    return Outcome(np.zeros(settled.shape.dim))


@pytest.mark.parametrize("run", [stops, never_asks])
def test_what_a_run_leaves_out_is_paid_for(settled, problem, run):
    _, ledger = carried_out(settled, problem, run)
    _, whole = carried_out(settled, problem, faithful)
    assert ledger.events == whole.events
    assert ledger.guarantee() == whole.guarantee()


def fails(settled, curator):
    """By what was released, or so it might be."""
    stops(settled, curator)
    raise RuntimeError("a number that I do not like")


def test_a_run_that_fails_has_paid_for_all_of_it(settled, problem):
    ledger = Ledger(BUDGET)
    with pytest.raises(RuntimeError, match="do not like"), made_up(fails):
        carry_out(settled, problem, SecureGenerator(0), ledger)
    assert ledger.events == carried_out(settled, problem, faithful)[1].events


def test_a_run_that_fails_before_it_has_seen_anything_has_paid_nothing(settled, problem):
    def fails_early(settled, curator):
        raise RuntimeError

    ledger = Ledger(BUDGET)
    with pytest.raises(RuntimeError), made_up(fails_early):
        carry_out(settled, problem, SecureGenerator(0), ledger)
    assert ledger.events == ()


def test_an_interrupted_run_has_paid_for_what_it_saw(settled, problem):
    """Ctrl-C comes from outside."""

    def interrupted(settled, curator):
        stops(settled, curator)
        raise KeyboardInterrupt

    ledger = Ledger(BUDGET)
    with pytest.raises(KeyboardInterrupt), made_up(interrupted):
        carry_out(settled, problem, SecureGenerator(0), ledger)
    assert [e.where for e in ledger.events] == ["once"]


def test_a_budget_that_is_too_small_for_the_rest_pays_for_what_it_can(settled, problem):
    ledger = Ledger(Budget(mu=0.07))
    with pytest.raises(BudgetExceeded), made_up(stops):
        carry_out(settled, problem, SecureGenerator(0), ledger)
    assert [e.where for e in ledger.events] == ["once", "thrice"]


FALSE = [
    {"data_norm": 1.0}, {"intercept": 0.0}, {"max_weight": 0.5}, {"n_samples": 400},
    {"n_features": 1}, {"loss": Loss("huber")}, {"blocks": BlockSizes(2, (250,))},
    {"unit": "group", "max_rows_per_group": 1},
]  # fmt: skip
DESCENT = partial(DescentIterate, alpha=0.0, iterations=1, step=1e-9)
MOMENTS = partial(ColumnParts, radius=1.0)


@pytest.mark.parametrize(
    ("made", "false"),
    [*((made, false) for made in (ClippedGradient, DESCENT) for false in FALSE),
     *((made, {"n_samples": 5000}) for made in (DESCENT, MOMENTS)),
     (ClippedGradient, {"n_samples": 998})],
)  # fmt: skip
def test_what_is_made_for_other_rows_is_refused_before_anything_is_spent(problem, made, false):
    """A plan that mistakes a bound would be charged too little for what rows can change."""
    shape = replace(problem.shape, **false)
    access = Gaussian.of_query(100.0, made(shape), RELATION, where="once")
    curator = Curator(problem, ledger := Ledger(BUDGET), SecureGenerator(0))
    name = next(iter(false))
    with pytest.raises(ValueError, match=f"the shape of the rows; got one with .*{name}="):
        curator.release(access, np.zeros(shape.dim))
    assert ledger.events == ()


def test_a_sum_for_all_rows_serves_parts_of_them(problem):
    shape = replace(problem.shape, n_samples=999)
    access = Gaussian.of_query(100.0, ClippedGradient(shape), RELATION, where="once")
    assert Curator(problem, Ledger(BUDGET), SecureGenerator(0)).release(
        access, np.zeros(shape.dim)
    ).shape == (shape.dim,)


def test_a_sum_for_rows_in_one_array_does_not_serve_blocks_of_fewer(classification):
    """Every block is one addition more."""
    X, y = classification
    rows = BlockProblem(from_npy(X, y, block_rows=1), "logistic", data_norm=2.0)
    access = Gaussian.of_query(
        100.0, ClippedGradient(replace(rows.shape, n_samples=5000, blocks=None)), RELATION
    )
    with pytest.raises(ValueError, match="the shape of the rows; got one with n_samples="):
        Curator(rows, Ledger(BUDGET), SecureGenerator(0)).release(access, np.zeros(rows.shape.dim))


@pytest.mark.parametrize("d", [1, 20, 20_000])
def test_rounding_of_parts_is_less_than_that_of_all_rows(d):
    turns = [64 * 256 * k + more for k in (1, 2, 3, 9) for more in (-1, 0, 1)]
    sizes = sorted({*range(1, 40), *turns, *(2 * n - 1 for n in turns), 10**6})
    errors = {"sum": {}, "losses": {}}
    for n in sizes:
        shape = ProblemShape(n, d, 1.0)
        errors["sum"][n] = shape.gradient_sum_error()
        errors["losses"][n] = shape.loss_sum_error(1.0)
    for of in errors.values():
        assert all(of[m] <= of[n] for n in sizes for m in sizes if 2 * m <= n + 1)
    # Of a few rows less, it may be more.
    assert d < 20_000 or any(
        of[m] > of[n] for of in errors.values() for n in sizes for m in sizes if m < n
    )


def test_what_does_not_rest_on_the_parameters_of_the_loss_serves_rows_with_others():
    rng = np.random.default_rng(0)
    y = rng.uniform(-1.0, 1.0, 100)
    problem = Problem(rng.normal(size=(100, 2)), y, loss=Loss("pinball", 0.9), data_norm=1.0)
    make = partial(Gaussian.of_query, 100.0, neighboring_relation=RELATION, where="once")
    curator = Curator(problem, ledger := Ledger(BUDGET), SecureGenerator(0))
    other = replace(problem.shape, loss=Loss("pinball", 0.5, 0.2))
    assert curator.release(make(Gram(other, 1.0, 10.0)), np.eye(other.dim)).size > 0
    with pytest.raises(ValueError, match="the shape of the rows; got one with loss="):
        curator.release(make(ClippedGradient(other)), np.zeros(other.dim))
    other = replace(problem.shape, loss=Loss("huber"))
    with pytest.raises(ValueError, match="the shape of the rows; got one with loss="):
        curator.release(make(Gram(other, 1.0, 10.0)), np.eye(other.dim))
    assert len(ledger.events) == 1


def test_nor_is_an_access_of_several_steps_made_for_other_rows(problem):
    shape = replace(problem.shape, data_norm=1.0, alpha=0.1)
    access = LastIterate(
        shape, RELATION, mu=0.1, step=0.1, iterations=3, radius=1.0, start=np.zeros(shape.dim)
    )
    curator = Curator(problem, ledger := Ledger(BUDGET), SecureGenerator(0))
    with pytest.raises(ValueError, match="got one with data_norm="):
        curator.release(access)
    assert ledger.events == ()


class Spy:
    """Is whatever it is compared with, and is handed what it is computed with."""

    def __init__(self):
        self.seen = []

    def __array_ufunc__(self, function, method, *inputs, **settings):
        self.seen += inputs

    def __lt__(self, other):
        return True

    __gt__ = __le__ = __ge__ = __lt__


def asked_of(rows, query, *arguments, stddev=100.0):
    curator = Curator(rows, ledger := Ledger(BUDGET), SecureGenerator(0))
    access = Gaussian.of_query(stddev, query, RELATION, where="once")
    try:
        return curator.release(access, *arguments)
    finally:
        assert len(ledger.events) == curator.made


class TestArguments:
    """What is checked is what is computed with, and nobody else looks on."""

    def test_what_is_no_number_is_refused(self, classification):
        X, _ = classification
        rows = Problem(X, np.arange(len(X)) % 4.0, "poisson", data_norm=2.0)
        spy = Spy()
        for top in (spy, np.float64, lambda: 1.0, {1.0}):
            with pytest.raises(TypeError, match="must be numbers or arrays of numbers; got"):
                asked_of(rows, TargetSum(rows.shape), top)
        assert spy.seen == []

    def test_numbers_of_any_kind_are_python_s(self, classification):
        X, _ = classification
        rows = Problem(X, np.arange(len(X)) % 4.0, "poisson", data_norm=2.0)
        for top in (np.float32(2.0), np.int8(2), Fraction(2), 2):
            assert asked_of(rows, TargetSum(rows.shape), top).shape == (1,)

    @pytest.mark.parametrize("fixed", [True, False])
    def test_arrays_are_those_that_were_checked(self, problem, monkeypatch, fixed):
        """Whoever keeps one cannot change it meanwhile, even while noise is paid for."""
        query = ClippedGradient(problem.shape) if fixed else LineSearchLosses(problem.shape, 2, 1.0)
        w, met = np.zeros(problem.shape.dim), []
        points = (w,) if fixed else (w, w, np.array([0.1, 0.2]), 4)
        monkeypatch.setattr(Ledger, "spend_all", lambda *given: w.fill(np.inf))
        monkeypatch.setattr(
            type(query),
            "prepare" if fixed else "__call__",
            lambda q, rows, *given: met.append(given),
        )
        kind = Gaussian if fixed else NoisyMax
        access = (
            kind.of_query(100.0, query, RELATION)
            if fixed
            else kind.calibrate(Budget(0.1), query, RELATION)
        )
        curator = Curator(problem, Ledger(BUDGET), SecureGenerator(0))
        with contextlib.suppress(Exception):
            curator.release(access, *points)
        assert np.isinf(w).all()
        np.testing.assert_array_equal(met[0][0], 0.0)

    def test_what_is_fixed_cannot_be_made_to_change(self, problem):
        curator = Curator(problem, Ledger(BUDGET), SecureGenerator(0))
        query = Gram(problem.shape, 1.0, 20.0)
        fixed = curator.fix(query, np.asfortranarray(np.eye(problem.shape.dim)))
        with pytest.raises(ValueError, match="WRITEABLE"):
            fixed.values[0].setflags(write=True)
        with pytest.raises(AttributeError):
            fixed.values = (1e9 * fixed.values[0],)
        far = type(fixed)(query, (1e9 * fixed.values[0],))
        access = Gaussian.of_query(1e3, query, RELATION)
        with pytest.raises(ValueError, match="for another query, or not here"):
            curator.release(access, far)
        assert curator.made == 0

    def test_what_queries_and_accesses_state_does_not_follow_an_array(self, problem):
        columns, ridge = np.arange(2), np.zeros(problem.shape.dim)
        query = ColumnHistogram(problem.shape, columns, 4)
        access = PerturbedMinimizer(
            replace(problem.shape, alpha=0.1), RELATION, noise="gaussian", scale=1.0,
            tolerance=1e-3, output_noise=1.0, more_ridge=ridge,
        )  # fmt: skip
        columns[:], ridge[:] = 5, -1.0
        np.testing.assert_array_equal(query.columns, [0, 1])
        np.testing.assert_array_equal(access.more_ridge, 0.0)
        for array in (query.columns, access.more_ridge):
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.setflags(write=True)

    def test_the_state_and_the_walk_of_sampled_steps(self, problem):
        query = BatchSum(problem.shape, "fixed-size", 5, 1.0)
        access = SampledSteps(query, 10.0, RELATION, n_steps=2)
        w = np.zeros(problem.shape.dim)
        state, walk = access.plain(State(w), Walk(np.ones, momentum=np.float32(0.5)))
        w[:] = np.nan
        np.testing.assert_array_equal(state.w, 0.0)
        assert type(walk.momentum) is float
        for pair in ((mock.Mock(), walk), (state, mock.Mock())):
            with pytest.raises(TypeError, match="must be a State and a Walk"):
                access.plain(*pair)
        with pytest.raises(TypeError, match="must be numbers or arrays"):
            access.plain(State(Spy()), walk)

    @pytest.mark.parametrize("size", [1e145, 1e308])
    def test_steps_do_not_leave_for_where_rows_have_no_margins(self, size):
        """Two long rows would end in an error there, and rows of zeros would not."""
        ends = []
        for x in (0.0, 60.0):
            X = np.zeros((20, 2))
            X[:2] = [[x, -x], [x, x]]
            rows = Problem(X, np.ones(20), "logistic", data_norm=100.0, intercept=0.0)
            query = BatchSum(rows.shape, "fixed-size", 20, 0.05)
            access = SampledSteps(query, 10.0, RELATION, n_steps=3)
            curator = Curator(rows, Ledger(BUDGET), SecureGenerator(0))
            walk = Walk(lambda first, last: np.full(last - first, size))
            try:
                w = curator.release(access, State(np.zeros(2)), walk).w
                assert np.linalg.norm(w) <= query.largest_argument * (1.0 + 1e-12)
                ends.append("somewhere")
            except FloatingPointError:  # of a noisy sum
                ends.append("nowhere")
        assert len(set(ends)) == 1

    def test_steps_along_differences_are_charged_as_such(self):
        """A row moves them from one of the loss's ends to the other: by twice its gradient."""
        shape = ProblemShape(20, 2, 1.0, Loss("huber", 1.0), intercept=0.0)
        rows = Problem(np.eye(20, 2), np.zeros(20), shape.loss, data_norm=1.0, intercept=0.0)
        away = np.array([50.0, 0.0])
        walk = Walk(lambda first, last: 0.1, snapshot=away, snapshot_gradient=np.zeros(2))
        for differences in (False, True):
            query = BatchSum(shape, "fixed-size", 20, 9.0, differences=differences)
            access = SampledSteps(query, 10.0, RELATION, n_steps=1)
            curator = Curator(rows, Ledger(BUDGET), SecureGenerator(0))
            if differences:
                curator.release(access, State(-away), walk)
                moved = query.evaluate(rows, -away, np.arange(20), away)
                assert np.linalg.norm(moved) == pytest.approx(2.0)
                assert 2.0 <= query.longest < 2.01
            else:
                with pytest.raises(ValueError, match="snapshot must be None for sums that are not"):
                    curator.release(access, State(-away), walk)
                assert curator.made == 0
                assert 1.0 <= query.longest < 1.01

    def test_rows_of_a_batch_count_once(self, problem):
        query, w = BatchSum(problem.shape, "fixed-size", 5, 1.0), np.zeros(problem.shape.dim)
        assert asked_of(problem, query, w, np.arange(5)).shape == w.shape
        for rows in (np.zeros(5, dtype=int), np.arange(6), [-1, 499], [0.5, 0.7], [500], []):
            with pytest.raises(ValueError, match="different rows from 0 to 499, 1 to 5"):
                asked_of(problem, query, w, rows)

    def test_bounds_of_a_sample_are_not_those_of_all_rows(self, problem):
        with pytest.raises(ValueError, match="n_rows must be None for a sum over all rows"):
            asked_of(problem, ClippedGradient(problem.shape, n_rows=5), np.zeros(problem.shape.dim))


class TestLookalikes:
    """Whoever only looks like a query, or like a shape, would state bounds of its own."""

    def test_of_a_query(self, problem):
        looks = mock.Mock(norm="l2", dimension=1, bound=None, fixed=0)
        with pytest.raises(TypeError, match="query must be a Query; got Mock"):
            Gaussian.of_query(1.0, looks, RELATION)
        access = Gaussian.of_query(1.0, ClippedGradient(problem.shape), RELATION)
        vars(access)["query"] = looks
        with pytest.raises(TypeError, match="access must be a mechanism"):
            Curator(problem, Ledger(BUDGET), SecureGenerator(0)).release(access)
        with pytest.raises(TypeError, match="query must be a BatchSum; got Mock"):
            SampledSteps(looks, 1.0, RELATION, n_steps=1)
        assert looks.prepare.call_count == 0

    def test_of_a_shape(self, problem):
        class Short:
            data_norm = row_norm = lipschitz = record_lipschitz = 1e-9

            def __getattr__(self, name):
                return getattr(problem.shape, name)

            def check_rows(self, *asked):
                pass

        with pytest.raises(ValueError, match="the public shape of the rows; got <"):
            asked_of(problem, ClippedGradient(Short()), np.zeros(problem.shape.dim))

    def test_of_an_objective(self, problem):
        looks = mock.Mock(problem=problem.shape, lacks=None, certificate="gradient", dim=3)
        with pytest.raises(TypeError, match=r"objective must be one of dpfast\.objectives"):
            CertifiedMinimizer(looks, 1e-3)

    def test_of_the_objective_that_is_given(self, problem):
        """Another ridge would move its minimizer less."""
        given = objective_shape("erm", problem.shape, 0.1)
        for shape in (given, objective_shape("erm", problem.shape, 10.0)):
            query = CertifiedMinimizer(shape, 1e-3)
            if shape is given:
                assert asked_of(given.on(problem), query).shape == (shape.dim,)
            else:
                with pytest.raises(ValueError, match="the public shape of the rows; got ErmShape"):
                    asked_of(given.on(problem), query)


class TestErrors:
    """That an answer ended in an error may follow from the rows: nothing goes on after it."""

    def fails(self, settled, curator):
        with contextlib.suppress(ZeroDivisionError):
            stops(settled, curator)
        return Outcome(np.zeros(settled.shape.dim))

    @pytest.fixture(autouse=True)
    def error(self, monkeypatch):
        def fails(self, *given):
            raise ZeroDivisionError

        monkeypatch.setattr(ClippedGradient, "prepare", fails)

    def test_a_run_cannot_hide_it(self, settled, problem):
        ledger = Ledger(BUDGET)
        with pytest.raises(ZeroDivisionError), made_up(self.fails):
            carry_out(settled, problem, SecureGenerator(0), ledger)
        assert sum(event.count for event in ledger.events) == 4

    @pytest.mark.parametrize("of_part", [False, True])
    def test_nothing_is_asked_after_it(self, settled, problem, of_part):
        access = settled.settings.first
        curator = Curator(problem, ledger := Ledger(BUDGET), SecureGenerator(0))
        asked = curator.disjoint((0, 250, 500), access)[1] if of_part else curator
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                asked.release(access, np.zeros(settled.shape.dim))
        with pytest.raises(ZeroDivisionError):
            curator.disjoint((0, 250, 500), access)
        assert len(ledger.events) == curator.made == 1


class TestParts:
    """Each part of the rows answers what was paid for, once and in order."""

    EDGES = (0, 100, 250, 500)

    @pytest.fixture
    def ledger(self):
        return Ledger(BUDGET)

    @pytest.fixture
    def parts(self, settled, problem, ledger):
        curator = Curator(problem, ledger, SecureGenerator(0), settled.accesses)
        pair = settled.settings.first, settled.settings.second
        return curator.disjoint(self.EDGES, *pair)

    def test_one_payment_for_all(self, settled, ledger, parts):
        w = np.zeros(settled.shape.dim)
        for part in parts:
            part.release(settled.settings.first, w)
            part.release(settled.settings.second, w)
        assert len(parts) == 3
        assert [e.where for e in ledger.events] == ["once", "thrice"]

    def test_no_part_is_seen_twice(self, settled, ledger, parts):
        w = np.zeros(settled.shape.dim)
        for part in parts:
            with pytest.raises(ValueError, match="the next is 'once'"):
                part.release(settled.settings.second, w)
            part.release(settled.settings.first, w)
            with pytest.raises(ValueError, match="the next is 'thrice'"):
                part.release(settled.settings.first, w)
            part.release(settled.settings.second, w)
            with pytest.raises(ValueError, match="there are no more"):
                part.release(settled.settings.second, w)
        assert len(ledger.events) == 2

    def test_no_part_is_seen_twice_by_threads_that_ask_at_once(self, settled, parts):
        """Both have found the access to be the next one before either has paid for it."""
        both, w = threading.Barrier(2), np.zeros(settled.shape.dim)
        answers = []

        def ask():
            with contextlib.suppress(ValueError):
                answers.append(parts[0].release(settled.settings.first, w))

        with mock.patch.object(ClippedGradient, "check_point", lambda *point: both.wait(10)):
            threads = [threading.Thread(target=ask) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(answers) == parts[0].made == 1

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_a_copy_would_answer_again(self, parts, copied):
        with pytest.raises(TypeError, match="a Curator cannot be pickled or copied"):
            copied(parts[0])

    def test_a_plan_holds_for_them(self, settled, problem, ledger):
        curator = Curator(problem, ledger, SecureGenerator(0), settled.accesses)
        with pytest.raises(ValueError, match="the next is 'thrice'; got 'once'"):
            curator.disjoint(self.EDGES, settled.settings.first, settled.settings.first)
        assert ledger.events == ()

    @pytest.mark.parametrize(
        ("edges", "false"),
        [
            ((0, 100, 501), {}),
            ((0, 100, 100), {}),
            ((-1, 100), {}),
            ((0, 1.5), {}),
            ((0, 400, 500), {}),  # more than half of them
            (EDGES, {"data_norm": 1.0}),
            (EDGES, {"n_samples": 300}),
        ],
    )
    def test_what_parts_cannot_answer_is_not_paid_for(self, problem, ledger, edges, false):
        shape = replace(problem.shape, **false)
        access = Gaussian.of_query(100.0, ClippedGradient(shape), RELATION, where="once")
        curator = Curator(problem, ledger, SecureGenerator(0))
        with pytest.raises((TypeError, ValueError)):
            curator.disjoint(edges, access)
        assert (ledger.events, curator.made) == ((), 0)

    def test_nor_what_only_looks_like_an_access(self, problem, ledger):
        curator = Curator(problem, ledger, SecureGenerator(0))
        with pytest.raises(TypeError, match="access must be a mechanism"):
            curator.disjoint(self.EDGES, mock.Mock(events=lambda: ()))
        assert curator.made == 0

    def test_weights_are_cut_in_parts_that_were_seen_before(self, classification):
        weight = np.linspace(0.5, 2.0, len(classification[1]))
        rows = Problem(
            *classification, "logistic", data_norm=2.0, sample_weight=weight, max_weight=2.0
        )
        curator = Curator(rows, Ledger(BUDGET), SecureGenerator(0))
        access = Gaussian.of_query(100.0, ClippedGradient(rows.shape), RELATION, where="once")
        before = curator.disjoint(self.EDGES, access)
        curator.cut_weights(1.0)
        after = curator.disjoint(self.EDGES, access)
        for part, other, edges in zip(before, after, pairwise(self.EDGES), strict=True):
            own = weight[slice(*edges)]
            np.testing.assert_array_equal(part._rows.sample_weight, own)
            np.testing.assert_array_equal(other._rows.sample_weight, 2.0 * np.minimum(own, 1.0))
