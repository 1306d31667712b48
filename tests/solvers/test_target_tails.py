"""How far slopes of a mean reach: as far as counts of the tails tell that it is worth."""

import numpy as np
import pytest

from dpfast import Budget, Ledger, LinearRegression, Loss, Problem, ProblemShape, plan
from dpfast.curator import Curator
from dpfast.queries import TargetTails
from dpfast.random import SecureGenerator
from dpfast.solvers._target_range import learn_range
from dpfast.solvers._target_tails import _bias, _seen, share, widened


def skewed(name, n=20_000):
    """Columns, and targets whose mean is far from their median, with their bounds."""
    rng = np.random.default_rng(3)
    X = np.clip(rng.standard_normal((n, 4)) / 3.0, -1.0, 1.0)
    signal = X @ [1.0, -0.5, 0.5, 0.0]
    if name == "length of stay":
        days = np.round(np.exp(0.4 + signal + 0.9 * rng.standard_normal(n)))
        return X, np.where(rng.random(n) < 0.35, 0.0, np.minimum(days, 365.0)), (0.0, 365.0)
    likely = {"rare": 0.05, "often": 0.4}[name]
    return X, (rng.random(n) < likely * (1.0 + 0.5 * signal)).astype(float), (0.0, 1.0)


@pytest.mark.parametrize("name", ["length of stay", "rare", "often"])
def test_a_skewed_mean_is_recovered(name):
    X, y, bounds = skewed(name)
    model = LinearRegression(8.0, 1e-6, data_norm=2.0, target_bounds=bounds, random_state=0)
    predicted = model.fit(X, y).predict(X)
    assert abs(predicted.mean() / y.mean() - 1.0) < 0.03
    Z = np.column_stack([X, np.ones(len(X))])
    best = Z @ np.linalg.lstsq(Z, y, rcond=None)[0]
    assert np.mean((predicted - best) ** 2) < 0.03 * best.var()


def wider(y, seed, epsilon=4.0):
    """By which factor the range of targets in [-1, 1] was widened."""
    problem = Problem(np.zeros((len(y), 1)), y, "huber", data_norm=1.0, intercept=1.0)
    settled = plan(problem, "dp-whitened-gd", Budget(epsilon, 1e-6))
    curator = Curator(problem, Ledger(settled.budget), SecureGenerator(seed))
    place = learn_range(settled.settings.target_range, curator)
    return widened(place, settled.settings.tails, curator).half / place.half


@pytest.mark.parametrize("width", [0.3, 3e-4])
def test_alike_tails_leave_the_range_as_it_is(width):
    law = np.random.default_rng(4).standard_normal(5_000)
    y = np.clip(0.1 + width * law, -1.0, 1.0)
    assert np.mean([wider(y, seed) < 1.0 + 1e-9 for seed in range(20)]) >= 0.9


def test_a_far_spike_is_reached():
    y = np.where(np.arange(5_000) % 40 == 0, 0.9, -0.999)
    assert min(wider(y, seed) for seed in range(5)) > 5.0


def test_only_a_mean_is_asked_for_its_tails():
    for loss in (Loss("huber", 1.0), Loss("huber", 0.2), Loss("pinball", 0.5)):
        problem = Problem(np.zeros((5_000, 1)), np.zeros(5_000), loss, data_norm=1.0)
        settled = plan(problem, "dp-whitened-gd", Budget(1.0, 1e-6))
        assert (settled.settings.tails is not None) == (loss.parameter == 1.0)


def test_shares():
    assert [share(rows) for rows in (74.0, 75.0, 1e4, 1e6)] == [0.0, 0.03, 0.01, 0.01]


def test_what_stands_out():
    counts = np.zeros((2, 10))
    assert _seen(counts) == 0
    counts[1, 4] = 4.5
    assert _seen(counts) == 5
    counts[0, 7:] = 3.5  # seven of the last two, whose noise is 1.4
    assert _seen(counts) == 9


def test_the_bias_of_clipped_slopes():
    edges, noise = np.geomspace(0.5, 2.0, 11), np.zeros((2, 10))
    cuts, sides = np.array([0.5, 1.0, 4.0]), np.zeros((2, 10))
    assert np.allclose(_bias(cuts, edges, sides, 1.0, noise), 0.0)
    sides[:, -1] = 0.2
    assert np.allclose(_bias(cuts, edges, sides, 0.6, noise), 0.0)
    sides[0] = 0.0
    found = _bias(cuts, edges, sides, 0.8, noise)
    assert found[0] > found[1] > 0.1 and found[2] < 1e-3
    noise[1, -1] = 0.2
    assert np.all(_bias(cuts, edges, sides, 0.8, noise) <= found)


@pytest.mark.parametrize("distances", [(0.0, 1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, 0.5)])
def test_distances_that_do_not_grow_are_refused(distances):
    query = TargetTails(ProblemShape(10, 1, 1.0, Loss("huber")), 3)
    with pytest.raises(ValueError, match="distances positive and growing"):
        query.check_point(0.0, *distances)
