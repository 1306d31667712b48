"""No valid input ends in an error that depends on the data: small problems, drawn from a seed.

A plan sees public quantities alone, and may refuse.  Once there is one, the fit must succeed on
whatever the rows are: that it failed would say something of them, and no ledger has it.
"""

import zlib

import numpy as np
import pytest

from dpfast import Budget, LinearSVC, Loss, Problem, plan, solve
from dpfast.losses import loss_names
from dpfast.solvers import SOLVERS

BUDGETS = (
    Budget(1.0), Budget(30.0), Budget(1.0, 1e-6), Budget(0.01, 1e-5), Budget(30.0, 1e-5),
    Budget(rho=0.5), Budget(mu=1.0),
)  # fmt: skip
# Of those whose work grows with the budget or the rows a few steps say as much.
FEW = {
    "rrpsgd": {"steps": 300}, "privgene": {"alpha": 0.1, "generations": 2},
    "exponential": {"max_trials": 1e5}, "localized-exponential": {"max_trials": 1e5},
    "dp-agd": {"max_iterations": 10},
    "dp-gd": {"max_iterations": 300}, "dp-hb": {"max_iterations": 300},
    "dp-nag": {"max_iterations": 300}, "dp-nag-opt": {"max_iterations": 300},
    "dp-masg": {"max_iterations": 300, "alpha": 0.1},
    "dp-masg-opt": {"max_iterations": 300, "alpha": 0.1},
}  # fmt: skip
PROBLEMS_EACH = 25


def rows_of(rng, loss):
    """Ordinary rows, and those at which arithmetic is known to stumble."""
    n, d = int(rng.integers(1, 51)), int(rng.integers(1, 5))
    X = rng.standard_normal((n, d)) * rng.choice([1e-3, 0.3, 1.0, 1e3])
    kind = rng.integers(5)
    if kind == 0:
        X = np.round(2.0 * X) / 2.0
    elif kind == 1:
        X[rng.random((n, d)) < 0.7] = 0.0
    elif kind == 2:
        X[:] = X[0]
    elif kind == 3:
        X[:, 0] = 0.0
    if loss.kind == "classification":
        return X, rng.choice([-1.0, 1.0], n) if rng.random() < 0.7 else np.ones(n)
    y = rng.standard_normal(n) * rng.choice([0.1, 1.0, 10.0])
    return X, np.clip(np.abs(y) + 1e-3, *loss.target_range) if loss.log_link else y


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.filterwarnings("ignore")
def test_a_fit_that_has_a_plan_succeeds(name):
    solver, rng = SOLVERS[name], np.random.default_rng(zlib.crc32(name.encode()))
    budgets = [budget for budget in BUDGETS if budget.kind in solver.budgets]
    fits = 0
    for _ in range(40 * PROBLEMS_EACH):
        loss = Loss(str(rng.choice(loss_names())))
        settings = {"neighboring_relation": str(rng.choice(solver.relations)), **FEW.get(name, {})}
        budget = budgets[rng.integers(len(budgets))]
        X, y = rows_of(rng, loss)
        norm, intercept = float(rng.choice([0.5, 2.0])), float(rng.choice([0.0, 1.0]))
        problem = Problem(X, y, loss, data_norm=norm, intercept=intercept)
        try:
            plan(problem, name, budget, **settings)
        except ValueError:
            continue
        result = solve(problem, name, budget, random_state=0, **settings)
        assert np.isfinite(result.w).all(), (loss.name, budget, X, y)
        fits += 1
        if fits == PROBLEMS_EACH:
            break
    assert fits == PROBLEMS_EACH


@pytest.mark.parametrize("x", [-0.5, -0.4])
def test_the_hinge_on_one_row_and_one_of_zeros(x):
    """The bound of a gradient's rounding is infinite there, which is no reason to give up."""
    X, y = np.array([[x], [0.0]]), np.array([1.0, -1.0])
    for seed in range(3):
        model = LinearSVC(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[-1, 1],
                          random_state=seed)  # fmt: skip
        assert np.isfinite(model.fit(X, y).coef_).all()


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("value", [0.0, 0.3, 1e-200])
def test_many_rounds_of_moments(value, epsilon):
    """Of constant columns, whose scale shrinks in every round."""
    problem = Problem(np.full((50, 3), value), np.tile([1.0, -1.0], 25), data_norm=1.0)
    for seed in (0, 9):  # with either, errors have a covariance that is singular for some value
        found = solve(
            problem, "dp-whitened-gd", Budget(epsilon, 1e-6), rounds=100, random_state=seed
        )
        assert np.isfinite(found.w).all()
