"""A plan is run on what it was made for, or not at all."""

import numpy as np
import pytest

from dpfast import Budget, Ledger, Problem, ProblemShape, plan
from dpfast.blocks import BlockProblem, from_npy
from dpfast.objectives import Erm
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out


def problem_of(X, y, loss="logistic", **changes):
    return Problem(X, y, loss, **{"data_norm": 2.0, **changes})


@pytest.mark.parametrize(
    "solver", ["output-perturbation", "objective-perturbation", "dp-gd", "dp-whitened-gd"]
)
@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"data_norm": 3.0}, "data_norm=3.0 instead of 2.0"),
        ({"intercept": 0.0}, "intercept=0.0 instead of 1.0"),
        ({"loss": "squared-hinge"}, "loss=.*squared-hinge.* instead of .*logistic"),
        ({"rows": 499}, "n_samples=499 instead of 500"),
        ({"columns": 5}, "n_features=5 instead of 6"),
        ({"weighted": True}, "max_weight=2.0 instead of 1.0"),
    ],
)
def test_another_problem_is_refused(solver, other, differs, classification):
    X, y = classification
    settled = plan(problem_of(X, y), solver, Budget(1.0, 1e-6), alpha=0.1)
    other = dict(other)
    n, d = other.pop("rows", 500), other.pop("columns", 6)
    if other.pop("weighted", False):
        other |= {"sample_weight": np.ones(n), "max_weight": 2.0}
    ledger = Ledger(settled.budget)
    with pytest.raises(ValueError, match=f"problem must have the public .* got {differs}"):
        carry_out(settled, problem_of(X[:n, :d], y[:n], **other), SecureGenerator(), ledger)
    assert ledger.events == ()


def test_rows_in_blocks_are_others(classification):
    X, y = classification
    blocks = BlockProblem(from_npy(X, y, block_rows=100), data_norm=2.0)
    settled = plan(problem_of(X, y), "dp-gd", Budget(1.0, 1e-6), iterations=2)
    with pytest.raises(ValueError, match=r"got blocks=BlockSizes\(.*\) instead of None"):
        carry_out(settled, blocks, SecureGenerator(), Ledger(settled.budget))


def test_another_ridge_and_other_targets_are_none_of_its_business(classification):
    """The ridge is the plan's own; neighbors have other rows and targets, and the same plan."""
    X, y = classification
    settled = plan(problem_of(X, y), "output-perturbation", Budget(1.0, 1e-6), alpha=0.1)
    for problem in (problem_of(X, y, alpha=7.0), problem_of(-X, -y)):
        carry_out(settled, problem, SecureGenerator(), Ledger(settled.budget))


@pytest.mark.parametrize("solver", ["dp-whitened-gd", "dp-newton", "dp-adassp", "dp-agd"])
def test_a_plan_states_no_ridge_that_is_not_used(solver):
    loss = "squared" if solver == "dp-adassp" else "logistic"
    shape = ProblemShape(500, 6, 1.0, loss, alpha=0.3)
    for alpha, ridge in ((None, 0.3), (0.1, 0.1), ("auto", None)):
        assert plan(shape, solver, Budget(1.0, 1e-6), alpha=alpha).shape.alpha == ridge


def test_what_is_no_problem_is_refused(classification):
    X, y = classification
    problem = problem_of(X, y)
    settled = plan(problem, "output-perturbation", Budget(1.0, 1e-6), alpha=0.1)
    for other in (Erm(problem, 0.1), X):
        with pytest.raises(ValueError, match="problem must be a Problem"):
            carry_out(settled, other, SecureGenerator(), Ledger(settled.budget))
