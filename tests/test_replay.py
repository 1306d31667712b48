"""Whole solvers on neighbors, with the same releases forced upon both."""

import numpy as np
import pytest
import scipy.sparse
from replay import replay

from dpfast import Budget, Loss, Problem, plan
from dpfast.solvers import SOLVERS, Plan
from dpfast.solvers.multinomial import plan_multinomial, run_multinomial

RELATIONS = ("replace_one", "add_or_remove_one")
BUDGETS = (Budget(2.0, 1e-6), Budget(2.0), Budget(rho=0.2), Budget(mu=1.0))
LOSSES = ("logistic", "huber", "squared", "sigmoid")
# Of many equal accesses a few say as much.
FEW = {
    "dp-svrg": {"epochs": 2}, "dp-agd": {"splits": 12}, "privgene": {"generations": 3},
    "exponential": {"alpha": 0.5}, "localized-exponential": {"alpha": 0.5},
}  # fmt: skip
for name in ("dp-gd", "dp-hb", "dp-nag", "dp-nag-opt", "dp-masg", "dp-masg-opt"):
    FEW[name] = {"iterations": 5}


# Their objectives are means over the public number of rows: the absent one contributes nothing.
MEANS = ("output-perturbation", "objective-perturbation", "exponential", "localized-exponential")


def neighbors(loss, relation, *, sparse=False, seed=0, classes=0, mean=False):
    """Two problems that differ in a long row of another kind than the rest."""
    rng = np.random.default_rng(seed)
    n, d = 60, 3
    X = rng.uniform(-1.0, 1.0, (n, d))
    y = rng.choice([-1.0, 1.0], n)
    X[7], y[7] = [9.0, 0.0, 0.0], 1.0
    weight = rng.uniform(0.0, 3.0, n)
    weight[7] = 3.0
    other_X, other_y, other_weight = X.copy(), y.copy(), weight.copy()
    if relation == "replace_one":
        other_X[7], other_y[7] = [-9.0, 0.0, 0.0], -1.0
    elif mean:
        other_weight[7] = 0.0
    kept = np.arange(n) != (7 if relation == "add_or_remove_one" and not mean else -1)
    made = []
    for rows, target, w in (
        (X, y, weight), (other_X[kept], other_y[kept], other_weight[kept])
    ):  # fmt: skip
        if isinstance(loss, Loss):
            target = np.where(target > 0, *loss.target_range[::-1])
        problem = Problem(
            scipy.sparse.csr_array(rows) if sparse else rows, target, loss, data_norm=1.5,
            sample_weight=w, max_weight=2.0,
        )  # fmt: skip
        if classes:
            number = np.arange(n)[kept] if made else np.arange(n)
            problem = problem.with_labels((number + (target > 0)) % classes)
        made.append(problem)
    return made


def cases():
    for name, solver in SOLVERS.items():
        for relation in solver.relations:
            budget = next(b for b in BUDGETS if b.kind in solver.budgets)
            loss = next(k for k in LOSSES if serves(solver, Loss(k)))
            yield pytest.param(name, relation, budget, loss, id=f"{name}-{relation}")


def serves(solver, loss):
    from dpfast import ProblemShape

    try:
        plan(ProblemShape(60, 3, 1.5, loss), solver.name, next(
            b for b in BUDGETS if b.kind in solver.budgets
        ), neighboring_relation=solver.relations[0], **FEW.get(solver.name, {}))  # fmt: skip
    except (ValueError, TypeError):
        return False
    return True


@pytest.mark.parametrize(("name", "relation", "budget", "loss"), list(cases()))
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_solvers_ask_what_was_released_for_and_pay_for_what_they_see(
    name, relation, budget, loss, sparse
):
    data, neighbor = neighbors(loss, relation, sparse=sparse, mean=name in MEANS)
    settled = plan(data, name, budget, neighboring_relation=relation, **FEW.get(name, {}))
    assert isinstance(settled, Plan)
    replay(settled, data, neighbor)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ["poisson", "gamma", "tweedie", "negative-binomial"])
def test_log_links(name, relation):
    loss = Loss(name, width=1.0)
    data, neighbor = neighbors(loss, relation)
    settled = plan(data, "dp-whitened-gd", BUDGETS[0], neighboring_relation=relation)
    found = replay(settled, data, neighbor)
    assert max(apart / charge for apart, charge in found) > 0.3


@pytest.mark.parametrize("relation", RELATIONS)
def test_several_classes(relation):
    data, neighbor = neighbors("logistic", relation, classes=3)
    settled = plan_multinomial(data.shape, 3, BUDGETS[0], neighboring_relation=relation)
    found = replay(settled, data, neighbor, run_multinomial)
    assert max(apart / charge for apart, charge in found) > 0.3
