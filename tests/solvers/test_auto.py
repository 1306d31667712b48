"""What solver="auto" takes, from public quantities alone."""

import pytest

from dpfast import Budget, ProblemShape, plan

SHAPE = ProblemShape(10_000, 8, 1.0)
APPROXIMATE = Budget(1.0, 1e-6)


@pytest.mark.parametrize(
    ("budget", "accountant", "solver"),
    [
        (APPROXIMATE, "auto", "dp-whitened-gd"),
        (APPROXIMATE, "gdp", "dp-whitened-gd"),
        (APPROXIMATE, "zcdp", "dp-whitened-gd"),
        (APPROXIMATE, "objective", "objective-perturbation"),
        (APPROXIMATE, "pure", "objective-perturbation"),
        (Budget(1.0), "auto", "objective-perturbation"),
        (Budget(1.0), "pure", "objective-perturbation"),
        (Budget(rho=0.1), "auto", "dp-whitened-gd"),
        (Budget(mu=0.5), "auto", "dp-whitened-gd"),
    ],
    ids=str,
)
def test_by_budget_and_accountant(budget, accountant, solver):
    assert plan(SHAPE, "auto", budget, accountant=accountant).solver == solver


@pytest.mark.parametrize(
    ("loss", "solver"),
    [
        ("logistic", "dp-whitened-gd"),
        ("huber", "dp-whitened-gd"),
        ("squared", "dp-adassp"),
        ("hinge", "output-perturbation"),
    ],
)
def test_by_loss(loss, solver):
    shape = ProblemShape(10_000, 8, 1.0, loss)
    assert plan(shape, "auto", APPROXIMATE).solver == solver


def test_no_solver_takes_a_loss_that_is_not_convex():
    with pytest.raises(ValueError, match="loss must be convex"):
        plan(ProblemShape(10_000, 8, 1.0, "sigmoid"), "auto", APPROXIMATE)


def test_very_many_rows_are_not_worth_whitening():
    shape = ProblemShape(10_000_000, 8, 1.0)
    assert plan(shape, "auto", APPROXIMATE).solver == "objective-perturbation"


def test_options_decide():
    """An option that only some solvers have restricts the choice to them."""
    assert plan(SHAPE, "auto", APPROXIMATE, optimizer="newton").solver == "objective-perturbation"
    assert plan(SHAPE, "auto", APPROXIMATE, objective="erm").solver == "dp-whitened-gd"
    tilted = plan(SHAPE, "auto", APPROXIMATE, objective="tilted", objective_options={"tilt": 1.0})
    assert tilted.solver == "output-perturbation"


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_choice_is_the_same_every_time(relation):
    names = {
        plan(SHAPE, "auto", APPROXIMATE, neighboring_relation=relation).solver for _ in range(3)
    }
    assert len(names) == 1
