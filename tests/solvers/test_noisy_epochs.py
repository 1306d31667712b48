"""What the stochastic solvers share: batches, their capacity, and the noise that is calibrated."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import dpfast
from dpfast import Budget, Ledger, LogisticRegression, Loss, Problem, ProblemShape
from dpfast.errors import BudgetExceeded
from dpfast.fused import State, Walk
from dpfast.privacy import affordable, sampled_noise, smallest_noise
from dpfast.privacy.sampled_noise import noise_multiplier, sampled_unit_events
from dpfast.queries import BatchSum
from dpfast.queries.batches import poisson_capacity
from dpfast.random import SecureGenerator
from dpfast.solvers import SOLVERS
from dpfast.solvers import _noisy_epochs as noisy

PAIRS = [("poisson", "add_or_remove_one"), ("fixed-size", "replace_one")]


def settle(
    shape, budget=None, *, relation="replace_one", batch=10, n_steps=50, clip=math.inf, noise="auto"
):
    query = BatchSum(shape, noisy.default_sampling("auto", relation), batch, clip)
    return noisy.least_noisy_steps(
        query, budget or Budget(1.0, 1e-6), "auto", relation, n_steps=n_steps, noise=noise
    )


def step_from_zero(steps, problem, rng):
    """Where one step of size 1 ends."""
    return steps.answer(problem, rng, State(np.zeros(problem.shape.dim)), Walk(lambda a, b: 1.0)).w


@pytest.mark.parametrize(("sampling", "relation"), PAIRS)
def test_sampling_and_relation_go_together(sampling, relation):
    assert noisy.default_sampling("auto", relation) == sampling
    assert noisy.default_sampling(sampling, relation) == sampling
    other = {"poisson": "fixed-size", "fixed-size": "poisson"}[sampling]
    with pytest.raises(ValueError, match=f"sampling must be '{sampling}' .* is proved for"):
        noisy.default_sampling(other, relation)


@pytest.mark.parametrize("n", [1, 10, 1000, 10**6])
@pytest.mark.parametrize("batch", [1, 3, 500])
def test_hardly_any_batch_is_beyond_capacity(n, batch):
    if batch > n:
        return
    capacity = poisson_capacity(batch, n)
    assert batch <= capacity <= n
    if capacity < n:
        assert stats.binom.logsf(capacity, n, batch / n) < -200 * math.log(2)
        assert capacity < 3 * batch + 300


@pytest.mark.parametrize(("sampling", "relation"), PAIRS)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 20.0])
@pytest.mark.parametrize(("batch", "n_steps"), [(1, 10**6), (100, 400), (1000, 10)])
def test_multiplier_is_the_smallest_but_for_a_thousandth(
    sampling, relation, epsilon, batch, n_steps
):
    key = (relation, sampling, batch, 1000, n_steps)
    budget = Budget(epsilon, 1e-6)
    found = noise_multiplier(budget, "rdp", sampled_unit_events, *key)
    assert Ledger(budget, "rdp").can_afford(*sampled_unit_events(found, *key))
    smaller = sampled_unit_events(found * 0.998, *key)
    assert not Ledger(budget, "rdp").can_afford(*smaller)


def test_multiplier_of_another_accountant_is_searched():
    from dpfast.solvers.papers.dp_svrg import unit_events

    key = ("replace_one", "fixed-size", 10, 100, 40, 2, 3.0)
    budget = Budget(1.0, 1e-6)
    found = noise_multiplier(budget, "auto", unit_events, *key)
    searched = smallest_noise(lambda z: unit_events(z, *key), budget, "rdp")
    assert found == pytest.approx(searched, rel=2e-3)


def test_noise_is_exact_unless_asked_for_and_the_ledger_says_which():
    shape = ProblemShape(1000, 9, 1.0)
    exact, fast = settle(shape, n_steps=2**24), settle(shape, noise="gaussian")
    assert (exact.noise, fast.noise) == ("discrete", "gaussian")
    assert exact.named("a").events()[0].where == "a"
    assert fast.named("a").events()[0].where == "a, floating-point noise"
    # Both have the noise that is declared.
    n = 4
    problem = Problem(np.zeros((n, 50)), np.ones(n), data_norm=1.0, intercept=0.0)
    for noise in ("discrete", "gaussian"):
        steps = settle(problem.shape, batch=4, n_steps=1, noise=noise)
        rng = SecureGenerator(1)
        draws = [step_from_zero(steps, problem, rng) for _ in range(100)]
        values = np.concatenate(draws) * 4 / steps.stddev
        assert stats.kstest(values, "norm").pvalue > 1e-6
        assert stats.kstest(values * 1.2, "norm").pvalue < 1e-6


def test_clip_norm_of_a_loss_without_a_bound_must_be_given():
    shape = ProblemShape(100, 3, 1.0, Loss("squared"))
    with pytest.raises(ValueError, match="clip_norm must be given for the loss 'squared'"):
        noisy.settle_clip_norm(None, shape)
    assert noisy.settle_clip_norm(0.5, shape) == 0.5
    assert BatchSum(shape, "poisson", 10, 0.5).clip_norm == 0.5
    with pytest.raises(ValueError, match="clip_norm must be given for the loss 'squared'"):
        BatchSum(shape, "poisson", 10, math.inf)
    # Beyond the loss's own bound nothing is clipped, and no more is charged.
    shape = ProblemShape(100, 3, 1.0)
    assert noisy.settle_clip_norm(50.0, shape) == shape.lipschitz
    query = BatchSum(shape, "poisson", 10, 50.0)
    assert query.clip_norm == math.inf
    assert query.sensitivity("add_or_remove_one") == shape.lipschitz


@pytest.mark.parametrize("n_steps", [1, 5, 16, 1000, 2**40])
def test_parts_cover_the_steps(n_steps):
    edges = noisy.parts(n_steps)
    assert edges[0][0] == 0
    assert sum(count for _, count in edges) == n_steps
    assert all(a + k == b for (a, k), (b, _) in pairwise(edges))
    assert len(edges) <= 16


@pytest.mark.parametrize("solver", ["dp-sgd", "dp-svrg", "rrpsgd"])
def test_estimators_use_it(solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = (X[:, 0] > 0).astype(int)
    model = LogisticRegression(epsilon=50.0, delta=1e-5, solver=solver, data_norm=1.0,
                               classes=[0, 1], random_state=0).fit(X, y)  # fmt: skip
    assert model.score(X, y) > 0.8
    assert model.privacy_.epsilon <= 50.0


@pytest.mark.parametrize("solver", ["dp-sgd", "dp-svrg", "rrpsgd"])
def test_a_delta_without_room_for_samplers_is_refused_after_few_trials(solver, monkeypatch):
    trials = iter(range(1000))

    def counted(*arguments):
        next(trials)  # or StopIteration: no noise would ever do
        return affordable(*arguments)

    monkeypatch.setattr(sampled_noise, "affordable", counted)
    for relation in SOLVERS[solver].relations:
        # Poisson batches alone add 10^-60 a step.
        delta = 1e-48 if relation == "add_or_remove_one" else 1e-300
        with pytest.raises(BudgetExceeded, match="Give a larger delta"):
            dpfast.plan(
                ProblemShape(1000, 5, 1.0),
                solver,
                Budget(1.0, delta),
                neighboring_relation=relation,
            )
