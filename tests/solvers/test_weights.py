"""Weights of rows that are far below their declared bound."""

import numpy as np
import pytest

from dpfast import Budget, Loss, Problem, plan, solve
from dpfast.curator import Curator
from dpfast.privacy import Ledger
from dpfast.random import SecureGenerator
from dpfast.solvers import _weights

LOSSES = [Loss("huber"), Loss("pinball", 0.5), Loss("logistic"), Loss("huberized-hinge")]
rng = np.random.default_rng(0)
N = 8_000
X, W = rng.uniform(-1.0, 1.0, (N, 4)), np.array([1.0, -0.5, 0.5, 0.0])
WEIGHTS = {"even": rng.uniform(0.1, 1.0, N), "skewed": np.minimum(1.0, rng.exponential(0.05, N))}
NOISE = {"logistic": rng.logistic(size=N), "number": 0.1 * rng.standard_normal(N)}


def problem_of(loss, weight, bound):
    margins = X @ W
    if loss.kind == "classification":
        y = np.where(3.0 * margins + NOISE["logistic"] > 0.0, 1.0, -1.0)
    elif loss.log_link:
        y = np.minimum(np.random.default_rng(1).poisson(np.exp(margins)), 20.0)
    else:
        y = np.clip(0.3 * margins + NOISE["number"], -1.0, 1.0)
    return Problem(X, y, loss, data_norm=2.0, sample_weight=weight, max_weight=bound)


def settled(problem, epsilon):
    budget = Budget(epsilon, 1e-6)
    return plan(problem.shape, "dp-whitened-gd", budget).settings, budget


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("far", [1.0, 3.0, 64.0, 1000.0])
def test_weights_are_cut_where_hardly_any_are_higher(name, far):
    """And the mean of what is left is known."""
    weight = WEIGHTS[name]
    problem = problem_of(LOSSES[0], weight, far)
    settings, budget = settled(problem, 3.0)
    curator = Curator(problem, Ledger(budget), SecureGenerator(0))
    larger, mean = _weights.cut(settings.weights.counts, 30.0, curator)
    at = far / larger
    assert np.minimum(weight, at).sum() > 0.93 * weight.sum()
    assert at <= 1.0 if name == "even" else at < 0.4
    assert mean == pytest.approx(curator._rows.sample_weight.mean() / far, rel=0.15)


def few(weight, bound):
    y = np.sign(X[:100, 0])
    return Problem(X[:100], y, data_norm=2.0, sample_weight=weight, max_weight=bound)


def test_weights_that_are_not_seen_count_alike():
    """And by how much larger they are then, for a ridge, is known more or less."""
    weight = np.append(0.0, np.exp(np.random.default_rng(2).standard_normal(99)))
    problem = few(weight, 100.0)
    settings, budget = settled(problem, 0.5)
    curator = Curator(problem, Ledger(budget), SecureGenerator(0))
    larger, mean = _weights.cut(settings.weights.counts, 30.0, curator)
    assert mean == 1.0 and 1.0 < larger < 100.0
    assert np.array_equal(curator._rows.sample_weight, np.append(0.0, np.full(99, 100.0)))


def test_fits_of_few_rows_do_not_depend_on_how_high_the_bound_is():
    """Where all weights are hidden."""
    fits = [
        solve(few(np.ones(100), bound), "auto", Budget(0.3, 1e-6), random_state=0).w
        for bound in (1.0, 1000.0)
    ]
    assert fits[1] == pytest.approx(fits[0], rel=0.01)


@pytest.mark.parametrize(
    ("counts", "last"),
    [([0.0, 9.0, 0.0], 1), ([9.0, 3.0, 3.0], 1), ([3.0, 3.0, 0.0], 0), ([0.0, 0.0, 4.5], 2)],
)
def test_the_last_count_that_stands_out_may_do_so_with_those_after_it(counts, last):
    padded = np.append(counts, np.zeros(20))
    assert _weights._last_seen(padded) == last


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_bound_far_too_high_costs_next_to_nothing(loss, name):
    """Fits are about those of a bound as high as the weights."""
    best = solve(problem_of(loss, WEIGHTS[name], 1.0), "dp-whitened-gd", Budget(mu=1e3)).w[:4]

    def error(bound):
        problem = problem_of(loss, WEIGHTS[name], bound)
        fits = [solve(problem, "auto", Budget(1.0, 1e-6), random_state=k).w for k in range(4)]
        apart = np.array(fits)[:, :4] - best
        return np.sqrt(np.mean(np.sum(np.square(apart), axis=1))) / np.linalg.norm(best)

    assert error(1000.0) < 0.02 + 1.3 * error(1.0) < 0.6


def test_rows_without_weights_are_not_counted_by_them():
    assert settled(Problem(X, np.sign(X[:, 0]), data_norm=2.0), 1.0)[0].weights is None
