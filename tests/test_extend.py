"""docs/guide/extend.md is true: its query, mechanism and solver are added, and a loss in Python."""

import dataclasses
import math
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from queries.contract import (
    HUBER,
    NORM,
    NUMBERS,
    RELATIONS,
    Case,
    ball,
    check,
    problem_of,
    shape_of,
)
from replay import replay
from test_architecture import trespasses
from test_replay import neighbors

from dpfast import (
    Budget,
    BudgetAccountant,
    Ledger,
    LogisticRegression,
    Problem,
    ProblemShape,
    plan,
    solve,
)
from dpfast.curator import Curator
from dpfast.losses import loss_names
from dpfast.objectives import PythonErm, PythonLoss
from dpfast.queries import ClippedGradient
from dpfast.random import SecureGenerator
from dpfast.solvers import SOLVERS, Outcome

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "guide" / "extend.md"
pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not installed")


def example(title):
    """The code under a heading of the page, and what it defines."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    (source,) = re.findall(r"```python\n(.*?)```", section, flags=re.S)
    names = {"__name__": "extended"}
    exec(source, names)
    return source, names


@pytest.fixture
def descent(monkeypatch):
    # Dataclasses look their module up.
    monkeypatch.setitem(sys.modules, "extended", ModuleType("extended"))
    source, names = example("A solver")
    monkeypatch.setitem(SOLVERS, "descent", names["SOLVER"])
    return source


def small_problem():
    return Problem(np.ones((50, 1)), np.ones(50), "logistic", data_norm=NORM)


def test_a_query_is_held_to_its_contract():
    made = example("A query")[1]["TargetSum"]
    stated = made.sensitivity
    case = Case(
        "target sum",
        lambda size: made(shape_of(HUBER, size, 2), 3.0),
        lambda query: [()],
        ball(2, NUMBERS, count=2),
        problem_of(HUBER),
        dict.fromkeys(RELATIONS, 1.0),
    )
    check(case, *RELATIONS)
    made.sensitivity = lambda self, relation: 0.5 * stated(self, relation)
    with pytest.raises(AssertionError, match="stated"):
        check(case, "replace_one")


def test_a_mechanism_is_asked_through_the_curator_and_priced():
    made = example("A mechanism")[1]["ConcentratedGaussian"]
    X, y = np.eye(3), np.array([1.0, -1.0, 1.0])
    problem = Problem(X, y, data_norm=1.0)
    mechanism = made.calibrate(
        Budget(rho=0.1), ClippedGradient(problem.shape), "replace_one", where="gradient"
    )
    ledger = Ledger(Budget(rho=0.1))
    released = Curator(problem, ledger, SecureGenerator(0)).release(mechanism, np.zeros(4))
    assert released.shape == (4,) and np.isfinite(released).all()
    (event,) = ledger.events
    assert event.rho == pytest.approx(0.1, rel=1e-6) and event.where == "gradient"
    assert not ledger.can_afford(event)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_solver_is_planned_run_reported_and_replayed(descent, relation):
    data, neighbor = neighbors("logistic", relation)
    settings = {"neighboring_relation": relation, "step": 0.5, "iterations": 2}
    settled = plan(data, "descent", Budget(1.0, 1e-6), **settings)
    (apart, charge), _ = replay(settled, data, neighbor)
    # At zero a row and its opposite with the other label have the same gradient.
    assert (apart > 0.49 * charge) == (relation == "add_or_remove_one")
    found = solve(data, "descent", Budget(1.0, 1e-6), random_state=0, **settings)
    assert found.w.shape == (4,) and found.privacy.epsilon <= 1.0
    assert [event.where for event in found.privacy.events] == ["gradient", "gradient"]
    with pytest.raises(ValueError, match=r"budget must be .* for solver='descent'"):
        solve(data, "descent", Budget(1.0), **settings)
    assert list(trespasses(descent)) == []


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda w: w,
            r"return .*Outcome\(w\), w a finite array of shape \(2,\); got ndarray\.",
        ),
        (lambda w: None, "got NoneType"),
        (lambda w: Outcome(list(w)), "got an Outcome whose w is list"),
        (lambda w: Outcome(w[:1]), r"got an Outcome whose w is ndarray of shape \(1,\)"),
        (lambda w: Outcome(w * np.nan), r"ndarray of shape \(2,\), not all finite"),
    ],
)
def test_a_run_that_returns_no_outcome(descent, monkeypatch, made, message):
    solver = SOLVERS["descent"]

    def run(settled, curator):
        return made(solver.run(settled, curator).w)

    monkeypatch.setitem(SOLVERS, "descent", dataclasses.replace(solver, run=run))
    with pytest.raises(TypeError, match=message):
        solve(small_problem(), "descent", Budget(1.0, 1e-6))


def test_what_can_be_known_of_a_solver_is_refused_before_it_is_paid(descent, monkeypatch):
    solver, budget = SOLVERS["descent"], Budget(1.0, 1e-6)
    with pytest.raises(TypeError, match=r"can be called as run\(plan, curator\): too many"):
        dataclasses.replace(solver, run=lambda settled: None)
    with pytest.raises(TypeError, match=r"plan\(shape, budget, neighboring_relation=\.\.\., acc"):
        dataclasses.replace(solver, plan=lambda shape, budget: None)
    with pytest.raises(ValueError, match=r"budgets must be one of .*got 'pur'"):
        dataclasses.replace(solver, budgets=("pur",))
    with pytest.raises(ValueError, match=r"row_access must be one of .*got 'sum'"):
        dataclasses.replace(solver, row_access="sum")

    def flat(*given, **named):
        settled = solver.plan(*given, **named)
        return dataclasses.replace(settled, accesses=(settled.settings.gradient,))

    for other, message in (
        (solver.run, r"SOLVERS\['descent'\] must be a dpfast\.solvers\.Solver; got function"),
        (dataclasses.replace(solver, plan=lambda *a, **b: None), "return .*Plan; got NoneType"),
        (dataclasses.replace(solver, plan=flat), "must be pairs, .*; got Gaussian"),
    ):
        monkeypatch.setitem(SOLVERS, "descent", other)
        with pytest.raises(TypeError, match=message):
            plan(small_problem(), "descent", budget)


def test_an_estimator_finds_a_solver_that_was_added(descent):
    X = np.linspace(-1.0, 1.0, 200)[:, np.newaxis]
    model = LogisticRegression(
        epsilon=8.0, delta=1e-6, data_norm=1.0, classes=[0, 1], solver="descent", random_state=0
    )
    assert model.fit(X, (X[:, 0] > 0.0).astype(int)).coef_[0, 0] > 0.5


def test_a_loss_in_python_as_the_page_has_it():
    w = example("A loss")[1]["result"].w
    assert w[0] > 0.3 and w[1] < -0.3


def test_a_loss_in_python_is_no_loss_of_a_problem():
    loss = PythonLoss(np.subtract, lipschitz=1.0, smoothness=1.0)
    with pytest.raises(TypeError, match=r"got PythonLoss\. .*PythonErm\(problem, alpha"):
        Problem(np.ones((3, 1)), np.ones(3), loss, data_norm=1.0)


def test_an_option_of_a_solver_is_no_parameter():
    message = r'no parameter \'iterations\'\. .* solver_options=\{"iterations": \.\.\.\}\.\)'
    with pytest.raises(TypeError, match=message):
        LogisticRegression(iterations=3)


def test_a_loss_in_python():
    loss = PythonLoss(
        lambda z, y: (np.logaddexp(z - y, y - z), np.tanh(z - y), 1.0 / np.cosh(z - y) ** 2),
        lipschitz=1.0,
        smoothness=1.0,
    )
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (50, 2))
    problem = Problem(X, X[:, 0], "squared", data_norm=NORM)
    found = solve(PythonErm(problem, 0.1, loss), "output-perturbation", Budget(1e6, 1e-6))
    assert found.w[0] > 0.5 > abs(found.w[1])


def test_a_loss_in_c_has_what_the_page_says():
    """A line in the list, its functions and bounds in the bodies, and a row among the twins."""
    if not (ROOT / "csrc").is_dir():
        pytest.skip("C sources are not part of an installed package")
    from reference import dense

    listed = (ROOT / "csrc" / "loss_list.h").read_text()
    for name in loss_names():
        assert re.search(rf"\b{name.replace('-', '_')}\b", listed)
        assert name.replace("-", "_") in vars(dense)
        assert np.isfinite(ProblemShape(10, 2, 1.0, name).loss(np.zeros(1), np.ones(1))[0]).all()


def test_a_plan_names_its_own_solver(descent, monkeypatch):
    # A copy with steps of its own, and the plan of the first: the first would be run.
    copied = dataclasses.replace(SOLVERS["descent"], name="mine")
    monkeypatch.setitem(SOLVERS, "mine", copied)
    problem = small_problem()
    with pytest.raises(ValueError, match="say solver='mine'; those of 'mine' say 'descent'"):
        plan(problem, "mine", Budget(1.0, 1e-6))


@pytest.mark.parametrize("changed", ["accesses", "neighboring_relation"])
def test_a_plan_is_for_the_neighbors_that_are_asked_for(descent, monkeypatch, changed):
    """The absent record moves half as much, and a report that says so is not what was asked."""
    solver = SOLVERS["descent"]

    def other(shape, budget, *, neighboring_relation, **settings):
        given = {"neighboring_relation": "add_or_remove_one", **settings}
        found = solver.plan(shape, budget, **given)
        if changed == "accesses":
            return dataclasses.replace(found, neighboring_relation=neighboring_relation)
        asked = solver.plan(shape, budget, neighboring_relation=neighboring_relation, **settings)
        return dataclasses.replace(asked, neighboring_relation=found.neighboring_relation)

    monkeypatch.setitem(SOLVERS, "descent", dataclasses.replace(solver, plan=other))
    with pytest.raises(ValueError, match="that are asked for, 'replace_one'; got"):
        plan(small_problem(), "descent", Budget(1.0, 1e-6))


@pytest.mark.parametrize(
    "wrong", [{"iterations": 0}, {"iterations": 2.5}, {"iterations": "3"}, {"step": math.nan}]
)
def test_the_solver_checks_its_options_before_anything_is_spent(descent, wrong):
    (name,) = wrong
    with BudgetAccountant(Budget(9.0, 1e-3)) as account:
        with pytest.raises(ValueError, match=f"{name} must be .*; got {wrong[name]!r}"):
            solve(small_problem(), "descent", Budget(1.0, 1e-6), **wrong)
        assert account.events == ()


def test_settings_are_a_dataclass(descent):
    settled = plan(small_problem(), "descent", Budget(1.0, 1e-6))
    with pytest.raises(TypeError, match="settings of a plan must be a dataclass; got dict"):
        dataclasses.replace(settled, settings={})
