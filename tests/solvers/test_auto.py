"""What solver="auto" takes, from public quantities alone."""

import math

import numpy as np
import pytest

from dpfast import Budget, Problem, ProblemShape, plan, solve

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


@pytest.mark.parametrize("rows", [1, 10_000_000, 2**50])
def test_the_number_of_rows_changes_nothing(rows):
    """Columns that are narrow for their bounds are no less so in many rows."""
    assert plan(ProblemShape(rows, 8, 1.0), "auto", APPROXIMATE).solver == "dp-whitened-gd"


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


# ---- hard rows ----------------------------------------------------------------------------------


def table(n=3000, d=6, positives=0.5, seed=0):
    """Correlated rows and labels of which about a given share is +1."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, d))
    z[:, 1] = 0.8 * z[:, 0] + 0.6 * z[:, 1]
    margins = 1.5 * z @ np.linspace(1.0, -1.0, d)
    margins += rng.logistic(size=n)
    return z, np.where(margins > np.quantile(margins, 1.0 - positives), 1.0, -1.0)


def rescaled(X, seed):
    """Columns of very different units."""
    return X * 10.0 ** np.random.default_rng(seed).uniform(-4.0, 0.0, X.shape[1])


def rotated(X, seed):
    """The same rows along other axes, stretched along some of them."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))[0]
    return (X * np.geomspace(1.0, 0.01, X.shape[1])) @ axes


CHANGES = {
    **{f"rescaled {seed}": (rescaled, seed) for seed in range(10)},
    **{f"rotated {seed}": (rotated, seed) for seed in range(3)},
    "duplicated": (lambda X, seed: np.hstack([X, X, X[:, :1]]), 0),
    "constant": (lambda X, seed: np.hstack([X, np.full((len(X), 2), 3.0)]), 0),
    "all zero": (lambda X, seed: np.hstack([X, np.zeros((len(X), 2))]), 0),
    "far away": (lambda X, seed: X + 20.0, 0),
}


def losses(X, y, budget, runs=2, **settings):
    """Mean loss of auto's weights, of the best constant, and what the plan expects."""
    problem = Problem(X, y, data_norm=1.01 * np.linalg.norm(X, axis=1).max())
    fits = [solve(problem, "auto", budget, random_state=s, **settings) for s in range(runs)]
    assert all(np.all(np.isfinite(fit.w)) for fit in fits)
    mean = np.mean([problem.objective(fit.w) for fit in fits]) / len(y)
    share = np.mean(y > 0.0)
    constant = -share * math.log(share) - (1.0 - share) * math.log(1.0 - share)
    return mean, constant, fits[0].plan


@pytest.mark.parametrize("change", CHANGES)
def test_hard_rows(change):
    """No divergence; with a budget that is enough, better than any constant."""
    X, y = table()
    alter, seed = CHANGES[change]
    mean, constant, settled = losses(alter(X, seed), y, Budget(4.0, 1e-6), runs=1)
    assert settled.solver == "dp-whitened-gd"
    assert mean < constant - 0.1


@pytest.mark.parametrize("change", CHANGES)
def test_hard_rows_with_hardly_any_budget(change):
    """Few rows, little budget, rare positives: no divergence, and little more than w = 0 has."""
    alter, seed = CHANGES[change]
    X, y = table(200, positives=0.05)
    mean, _, settled = losses(alter(X, seed), y, Budget(0.05, 1e-6), runs=2)
    assert settled.parameters["regime"] == "near a constant prediction"
    assert mean < 1.1 * math.log(2.0)


@pytest.mark.slow
@pytest.mark.parametrize("positives", [0.01, 0.5])
@pytest.mark.parametrize("rows", [200, 2000, 20_000])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 4.0])
@pytest.mark.parametrize("change", CHANGES)
def test_hard_rows_of_all_sizes(change, epsilon, rows, positives):
    alter, seed = CHANGES[change]
    X, y = table(rows, positives=positives)
    mean, constant, settled = losses(alter(X, seed), y, Budget(epsilon, 1e-6), runs=4)
    assert mean < constant + 3.0 * settled.expected["excess_risk_guess"]


@pytest.mark.parametrize("positives", [0.01, 0.5])
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_rare_and_even_classes(positives, epsilon):
    """Never worse than the majority by more than what the plan expects the noise to cost."""
    mean, constant, settled = losses(*table(5000, positives=positives), Budget(epsilon, 1e-6))
    allowed = {0.01: 3.0, 1.0: 1.0}[epsilon] * settled.expected["excess_risk_guess"]
    assert mean < constant + allowed
    regime = {0.01: "near a constant prediction", 1.0: "all weights"}[epsilon]
    assert settled.parameters["regime"] == regime
    assert f"regime = {regime}" in str(settled)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("rows", [200, 2000])
def test_tiny_budgets_stay_near_the_start(rows, relation):
    """With next to no budget, next to nothing is learned, noise included."""
    budget = Budget(1e-4, 1e-9)
    mean, _, settled = losses(*table(rows), budget, neighboring_relation=relation)
    assert settled.parameters["regime"] == "near a constant prediction"
    assert mean < 1.02 * math.log(2.0)


@pytest.mark.slow
@pytest.mark.parametrize("positives", [0.01, 0.5])
@pytest.mark.parametrize("rows", [200, 2000, 20_000, 200_000, 1_000_000])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 4.0])
def test_from_few_to_very_many_rows(rows, positives, epsilon):
    mean, constant, settled = losses(
        *table(rows, positives=positives), Budget(epsilon, 1e-6), runs=4
    )
    assert mean < constant + 3.0 * settled.expected["excess_risk_guess"]
