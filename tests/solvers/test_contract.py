"""What every solver of the table must keep, whatever its algorithm."""

import dataclasses

import numpy as np
import pytest

from dpfast import (
    Budget,
    BudgetAccountant,
    BudgetExceeded,
    Ledger,
    Problem,
    ProblemShape,
    plan,
    solve,
)
from dpfast.curator import Curator
from dpfast.privacy.ledger import kinds
from dpfast.random import SecureGenerator
from dpfast.solvers import SOLVERS, carry_out

BUDGETS = [Budget(0.1, 1e-9), Budget(1.0, 1e-6), Budget(2.0), Budget(8.0, 1e-5), Budget(rho=0.1),
           Budget(mu=0.5)]  # fmt: skip
#: One of a kind: larger and smaller ones have other numbers, and no other code.
ONE_OF_A_KIND = [budget for budget in BUDGETS if budget.epsilon in (1.0, 2.0, None)]
RELATIONS = ["replace_one", "add_or_remove_one"]
SHAPES = {
    name: ProblemShape(n_samples=10_000, n_features=8, data_norm=1.0, loss=loss)
    for name, loss in {"auto": "logistic", **{n: s.loss for n, s in SOLVERS.items()}}.items()
}
SHAPE = SHAPES["auto"]
#: Whose default number of iterations is searched for long, in plan after plan.
FEW = {name: {"max_iterations": 50} for name in ("dp-hb", "dp-masg", "dp-masg-opt")}


def problem_for(solver, X, y):
    return Problem(X, y, SHAPES[solver].loss, data_norm=2.0)


def planned_epsilon(settled):
    ledger = Ledger(settled.budget)
    for event in settled.events:
        ledger.spend(event)
    return ledger.guarantee()


def one_by_one(events):
    """Events with their counts written out, in order."""
    return [dataclasses.replace(event, count=1) for event in events for _ in range(event.count)]


def served(solver, budget, relation="replace_one"):
    """Skip what the solver refuses, after seeing that it does."""
    module = SOLVERS[solver]
    if budget.kind in module.budgets and relation in module.relations:
        return
    with pytest.raises(ValueError, match=f"for solver={solver!r}"):
        plan(SHAPES[solver], solver, budget, neighboring_relation=relation)
    pytest.skip("refused, as it must be")


@pytest.fixture(scope="module")
def settled(solver, budget, relation):
    """The plan, where there is one."""
    served(solver, budget, relation)
    return plan(SHAPES[solver], solver, budget, neighboring_relation=relation,
                **FEW.get(solver, {}))  # fmt: skip


@pytest.fixture(scope="module")
def runs(settled, solver, budget, relation, shared_classification):
    """Two fits with the same seed, and one without; of an approximate budget another one."""
    problem = problem_for(solver, *shared_classification)
    options = {"neighboring_relation": relation, **FEW.get(solver, {})}
    return [
        solve(problem, solver, budget, random_state=seed, **options)
        for seed in (7, 7, None, *[None] * (budget.kind == "approximate"))
    ]


def every(budgets):
    """All tests of one combination follow each other, and share its plan and its fits."""

    def marked(tests):
        for name, values in (("solver", SOLVERS), ("budget", budgets), ("relation", RELATIONS)):
            tests = pytest.mark.parametrize(name, values, ids=str, scope="module")(tests)
        return tests

    return marked


@every(BUDGETS)
class TestEverySolver:
    def test_planned_events_fit_the_budget(self, settled, budget, relation):
        guarantee = planned_epsilon(settled)
        assert settled.events
        assert all(event.neighboring_relation == relation for event in settled.events)
        if budget.kind in ("pure", "approximate"):
            assert guarantee.epsilon <= budget.epsilon
            assert guarantee.delta <= budget.delta

    def test_plan_is_pure(self, settled, solver, budget, relation):
        again = plan(SHAPES[solver], solver, budget, neighboring_relation=relation,
                     **FEW.get(solver, {}))  # fmt: skip
        assert again.events == settled.events
        assert dict(again.expected) == dict(settled.expected)
        assert str(again) == str(settled)

    def test_an_empty_ledger_stops_it_before_data(self, settled, budget):
        small = Budget(1e-6, 1e-12) if budget.kind != "pure" else Budget(1e-6)
        ledger = Ledger(small, adaptive=settled.adaptive)

        class Untouchable:
            shape = settled.shape  # public

            def __getattr__(self, name):
                pytest.fail(f"data was touched: {name}")

        with pytest.raises(BudgetExceeded):
            carry_out(settled, Untouchable(), SecureGenerator(), ledger)
        assert ledger.events == ()


@every(ONE_OF_A_KIND)
class TestEveryFit:
    def test_ledger_holds_the_planned_events(self, runs, relation):
        result = runs[-1]
        if not result.plan.adaptive:
            spent, planned = result.privacy.events, result.plan.events
            assert spent == planned or one_by_one(spent) == one_by_one(planned)
        assert result.privacy.neighboring_relation == relation
        assert not result.privacy.reproducible
        assert result.w.shape == (7,)
        assert np.all(np.isfinite(result.w))

    def test_same_seed_same_result(self, runs):
        np.testing.assert_array_equal(runs[0].w, runs[1].w)
        assert len({run.w.tobytes() for run in runs}) == len(runs) - 1
        assert runs[0].privacy.reproducible

    def test_every_weight_is_noisy(self, runs):
        first, second = runs[1].w, runs[2].w
        # Weights that noise alone would explain are exactly 0; the intercept is not.
        assert np.all((first != second) | (first == 0.0))
        assert np.any(first != second)


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_account_has_paid_for_all_of_it_before_the_first_look(
    solver, classification, monkeypatch
):
    """In one charge, and for just what is reported in the end."""
    (budget, *_) = [b for b in BUDGETS[1:] if b.kind in SOLVERS[solver].budgets]
    account, answer, paid = BudgetAccountant(budget, adaptive=False), Curator._answer, []

    def watched(self, *asked):
        paid.append(kinds(account.events))
        return answer(self, *asked)

    monkeypatch.setattr(Curator, "_answer", watched)
    relation = SOLVERS[solver].relations[0]
    with account:
        result = solve(problem_for(solver, *classification), solver, budget,
                       neighboring_relation=relation)  # fmt: skip
    whole = kinds(account.events if result.plan.adaptive else result.privacy.events)
    assert all(each == whole for each in paid) and paid
    assert kinds(account.events) == whole and account.charges == 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_is_paid_for_is_asked_for(solver, classification, monkeypatch):
    """A run that forgets accesses pays for them all the same: only the model would tell."""
    (budget, *_) = [b for b in BUDGETS[1:] if b.kind in SOLVERS[solver].budgets]
    finish, left = Curator.finish, []

    def watched(self):
        left.append(self._due(0))
        finish(self)

    monkeypatch.setattr(Curator, "finish", watched)
    solve(problem_for(solver, *classification), solver, budget,
          neighboring_relation=SOLVERS[solver].relations[0])  # fmt: skip
    assert left == [None]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_noise_falls_with_epsilon(solver, delta):
    served(solver, Budget(1.0, delta))
    expects = SOLVERS[solver].expects
    grid = np.geomspace(0.01, 100, 9)
    given = FEW.get(solver, {})
    plans = [plan(SHAPES[solver], solver, Budget(e, delta), **given) for e in grid]
    risks = [settled.expected[expects] for settled in plans]
    assert np.all(np.diff(risks) < 0)


@pytest.mark.parametrize("solver", [name for name in SOLVERS if SOLVERS[name].minimizes])
def test_noiseless_run_reaches_the_optimum(solver, noiseless, classification):
    from optimizers.test_optimizers import reference_minimizer

    X, y = classification
    problem, penalized = problem_for(solver, X, y), SOLVERS[solver].penalizes_intercept
    if problem.shape.loss.name == "squared":
        rows, ridge = np.hstack([X, np.ones((500, 1))]), 0.01 * np.eye(7)
        ridge[-1, -1] *= penalized
        expected = np.linalg.solve(rows.T @ rows / 500 + ridge, rows.T @ y / 500)
    else:
        expected = reference_minimizer(X, y, 0.01, penalized=penalized)
    for budget in (Budget(1e4), Budget(1e4, 1e-6)):
        if budget.kind not in SOLVERS[solver].budgets:
            continue
        result = solve(problem, solver, budget, alpha=0.01, **SOLVERS[solver].exact)
        np.testing.assert_allclose(result.w, expected, atol=1e-6)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="solver must be one of 'auto', 'output-perturbation'"):
        plan(SHAPE, "outputperturbation", Budget(1.0))
    with pytest.raises(ValueError, match=r"options must be among .* got ridge"):
        plan(SHAPE, "auto", Budget(1.0), ridge=1.0)
    with pytest.raises(ValueError, match="neighboring_relation must be one of"):
        plan(SHAPE, "auto", Budget(1.0), neighboring_relation="swap")
    with pytest.raises(TypeError, match=r"budget must be a dpfast\.Budget"):
        plan(SHAPE, "auto", 1.0)
    with pytest.raises(TypeError, match=r"problem must be a Problem or a ProblemShape .* got int"):
        plan(3, "auto", Budget(1.0))
    with pytest.raises(TypeError, match=r"problem must be a Problem .* got ProblemShape"):
        solve(SHAPE, "auto", Budget(1.0))


def test_a_plan_cannot_be_changed():
    settled = plan(SHAPE, "auto", Budget(1.0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        settled.events = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        settled.settings.noise = "none"
