"""Descents of which the last iterate alone comes out."""

import math

import numpy as np
import pytest

from dpfast import Budget, Ledger, Problem, ProblemShape
from dpfast.curator import Curator
from dpfast.errors import GridOverflow
from dpfast.fused import LastIterate
from dpfast.fused.last_iterate import last_iterate_factor
from dpfast.random import SecureGenerator

SHAPE = ProblemShape(1000, 3, 1.0, alpha=0.1)


def made(shape, **changed):
    settings = {"mu": 0.5, "step": 0.8, "iterations": 9, "radius": 3.0, "start": np.zeros(4)}
    return LastIterate(shape, "replace_one", **settings | changed)


@pytest.mark.parametrize("T", [1, 2, 10, 1000])
@pytest.mark.parametrize("contraction", [0.0, 0.5, 0.99, 1.0 - 1e-9])
def test_the_last_iterate_never_costs_more_than_composition(T, contraction):
    factor = last_iterate_factor(contraction, T)
    assert factor * (1 + 1e-12) >= 1.0
    assert factor <= math.sqrt(T) * (1 + 1e-12)
    # The optimum of the proof, from its definition.
    powers = contraction ** np.arange(T)
    if contraction < 0.999:
        assert factor == pytest.approx(powers.sum() / math.sqrt((powers**2).sum()), rel=1e-6)


def test_it_is_charged_what_it_may_cost():
    access = made(SHAPE)
    (event,) = access.events()
    assert 0.4999 < event.mu <= 0.5
    assert event.where == "last iterate of 9 noisy gradient steps"
    # Noise of a mean gradient, of one step at least: s / (η μ), s / η = 2 L / n.
    one = 2.0 * SHAPE.lipschitz / 1000 / 0.5
    assert one < access.stddev < 3.0 * one * (1.0 + 1e-3)
    assert made(SHAPE, iterations=1).stddev == pytest.approx(one, rel=1e-3)
    # A step that does not contract is paid for by composition.
    long = made(SHAPE, step=10.0)
    assert long.stddev == pytest.approx(3.0 * one, rel=1e-3)


@pytest.mark.parametrize("mu", [3e-9, 2e-9, 1e-9])
def test_a_budget_with_which_grids_cost_most_is_refused_also_without_assertions(mu):
    with pytest.raises(GridOverflow, match="Give a larger budget or fewer dimensions"):
        made(SHAPE, mu=mu)


def test_without_noise_it_is_projected_descent(noiseless, classification):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0, alpha=0.3)
    start = np.linspace(-2.0, 2.0, 7)
    access = made(problem.shape, step=0.3, radius=0.7, start=start)
    ledger = Ledger(Budget(mu=0.5))
    w = Curator(problem, ledger, SecureGenerator(0)).release(access)
    assert ledger.events == access.events()
    expected = start * 0.7 / np.linalg.norm(start)
    for _ in range(9):
        expected = expected - 0.3 * problem.value_and_gradient(expected)[1]
        expected *= min(1.0, 0.7 / np.linalg.norm(expected))
    np.testing.assert_allclose(w, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (ProblemShape(1000, 3, 1.0), "shape must have a convex loss and a ridge"),
        (ProblemShape(1000, 3, 1.0, "sigmoid", alpha=0.1), "convex loss and a ridge"),
        (ProblemShape(1000, 3, 1.0, "squared", alpha=0.1), "sensitivity must be"),
    ],
)
def test_what_the_proof_needs_is_asked_for(shape, message):
    with pytest.raises(ValueError, match=message):
        made(shape)
