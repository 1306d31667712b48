"""The genetic algorithm: its choices are paid for, its children look at no data."""

import math

import numpy as np
import pytest

from dpfast import Budget, Ledger, Problem, ProblemShape, plan, solve
from dpfast.privacy import ExponentialEvent
from dpfast.random import SecureGenerator
from dpfast.solvers.papers import privgene

SHAPE = ProblemShape(10_000, 8, 1.0)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("budget", [Budget(1.0), Budget(1.0, 1e-6), Budget(rho=0.1)], ids=str)
def test_every_choice_is_paid_for(budget, relation):
    settled = plan(SHAPE, "privgene", budget, neighboring_relation=relation)
    (event,) = settled.events
    assert isinstance(event, ExponentialEvent)
    assert event.count == 15 * 2 + 1
    ledger = Ledger(budget)
    ledger.spend(event)
    assert 0.95 < ledger.used() <= 1.0
    mechanism = settled.settings.mechanism
    records = 2 if relation == "replace_one" else 1
    assert mechanism.score_range == pytest.approx(records * 2 * math.log(2.0))


def test_a_delta_buys_more_than_the_plain_sum():
    noise = [
        plan(SHAPE, "privgene", Budget(1.0, delta)).expected["noise_in_mean_loss"]
        for delta in (0.0, 1e-6)
    ]
    assert noise[1] < 0.5 * noise[0]
    pure = plan(SHAPE, "privgene", Budget(1.0, 1e-6), accountant="pure")
    assert pure.expected["noise_in_mean_loss"] == noise[0]


def test_it_finds_good_weights_when_noise_is_small(classification):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0)
    best = solve(problem, "output-perturbation", Budget(1e6), alpha=1e-3, random_state=0).w
    found = solve(problem, "privgene", Budget(1e4), generations=40, parents=3, random_state=0).w
    losses = [problem.objective(w) / len(y) for w in (best, found, np.zeros(7))]
    assert losses[1] < losses[0] + 0.1 * (losses[2] - losses[0])


def test_candidates_stay_in_the_ball_and_children_mix_their_parents():
    rng = SecureGenerator(1)
    spread = privgene._spread(200, 4, 3.0, rng)
    assert np.linalg.norm(privgene._within(spread, 1.0), axis=1).max() <= 1.0 + 1e-12
    assert 2.5 < np.linalg.norm(spread, axis=1).max() <= 3.0
    parents = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    children = privgene._cross(parents, 100, rng)
    assert np.all((children == parents[0]) | (children == parents[1]))
    assert len(np.unique(children, axis=0)) == 8


def test_any_parameter_will_do():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, (300, 2))
    problem = Problem(X, X @ [1.0, -1.0], "huber", data_norm=1.0)
    assert np.all(np.isfinite(solve(problem, "privgene", Budget(1.0)).w))


@pytest.mark.parametrize(
    ("option", "value"),
    [("generations", 0), ("population", 1), ("parents", 51), ("loss_clip", -1.0),
     ("radius", math.inf), ("alpha", 0.0)],
)  # fmt: skip
def test_bad_options(option, value):
    with pytest.raises(ValueError, match=option):
        plan(SHAPE, "privgene", Budget(1.0), **{option: value})
    squared = ProblemShape(100, 2, 1.0, "squared")
    with pytest.raises(ValueError, match="loss_clip must be given"):
        plan(squared, "privgene", Budget(1.0))
