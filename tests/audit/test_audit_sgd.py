"""Empirical lower bounds of epsilon of the stochastic solvers' releases: never above the claim, and
above it where the noise or the sampling is not what is claimed."""

import numpy as np
import pytest

from dpfast import Budget, Loss, Problem, _kernels, plan
from dpfast.fused import SampledSteps, State, Walk
from dpfast.privacy import audit_epsilon
from dpfast.random import SecureGenerator

BUDGET = Budget(1.0, 0.01)
RUNS = 6000
N = 20
PAIRS = [("add_or_remove_one", "poisson"), ("replace_one", "fixed-size")]


def neighbors(relation):
    """Data sets whose gradients differ as much as they may, in one row and one direction."""
    X, y = np.zeros((N, 1)), np.ones(N)
    X[0] = 1.0
    other_X, other_y = X.copy(), y.copy()
    if relation == "replace_one":
        other_y[0] = -1.0
    else:
        other_X[0] = 0.0
    # Its slope is 1 over all that is reached.
    loss = Loss("huberized-hinge")
    return (
        Problem(X, y, loss, data_norm=1.0, intercept=0.0),
        Problem(other_X, other_y, loss, data_norm=1.0, intercept=0.0),
    )


def scores(problem, steps, count, seed, runs=RUNS):
    """How far w went after steps so small that slopes stay what they are."""
    rng, walk = SecureGenerator(seed), Walk(lambda a, b: 1e-6)
    part = steps.part(0, count, "audited")
    ends = (part.answer(problem, rng, State(np.zeros(1)), walk).w[0] for _ in range(runs))
    return np.fromiter(ends, dtype=float, count=runs)


def audit(relation, steps, batch, change=lambda access: access, budget=BUDGET, runs=RUNS):
    first, second = neighbors(relation)
    settled = plan(first, "dp-sgd", budget, neighboring_relation=relation, steps=steps, batch=batch)
    access = change(settled.settings.parts[0])
    return audit_epsilon(
        scores(first, access, steps, 1, runs),
        scores(second, access, steps, 2, runs),
        delta=budget.delta,
    ).value


def halve_the_noise(access):
    relation = access.events()[0].neighboring_relation
    return SampledSteps(access._sum, access.noise_multiplier / 2.0, relation, n_steps=1)


@pytest.mark.parametrize(("relation", "sampling"), PAIRS)
@pytest.mark.parametrize(("steps", "batch"), [(1, 10), (8, 5), (1, 20)])
def test_audit_is_below_the_claim(relation, sampling, steps, batch):
    assert audit(relation, steps, batch) <= BUDGET.epsilon


@pytest.mark.parametrize(("relation", "sampling"), PAIRS)
def test_audit_catches_too_little_noise(relation, sampling):
    budget = Budget(2.0, 0.05)  # a larger one takes a fifth of the runs
    assert audit(relation, 1, 20, halve_the_noise, budget, 5000) > budget.epsilon


@pytest.mark.parametrize(("relation", "sampling"), PAIRS)
def test_audit_catches_batches_that_are_not_random(relation, sampling, monkeypatch):
    """The first rows, every time, accounted as a random batch."""
    epoch = _kernels.private_epoch

    def always_the_first(rows, loss, w, step, *, n_steps, batch, **named):
        rows_of_batches = np.tile(np.arange(batch), n_steps)
        start = np.arange(n_steps + 1) * batch
        epoch(rows, loss, w, step, **{
            **named, "sampling": "given", "indices": rows_of_batches, "batch_start": start,
            "divisor": float(batch),
        })  # fmt: skip

    monkeypatch.setattr(_kernels, "private_epoch", always_the_first)
    assert audit(relation, 8, 2) > BUDGET.epsilon
