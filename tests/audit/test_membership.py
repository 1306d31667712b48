"""Membership inference on real data: what it gains is within what the guarantee allows.

The attacker knows all records but one, the algorithm and its noise, and the two records that the
one may be, two of the table that pull the weights apart as far as any. He compares the released
weights with what he would expect of either. Against weights that are hardly private he is always
right.
"""

import numpy as np
import pytest
from outputs import unperturbed
from scipy.stats import norm

from dpfast import Budget, Loss, Problem, plan
from dpfast.datasets import load_randhie
from dpfast.privacy import audit_epsilon, audit_mu, clopper_pearson, gaussian_mu
from dpfast.random import SecureGenerator

pytestmark = pytest.mark.audit

# A strong ridge: with a weak one the curvature of real rows leaves a record a hundredth of the
# influence that the guarantee has to allow for, and the attack has nothing to see.
ROWS, RUNS, DELTA, ALPHA = 2000, 3000, 1e-5, 2.0
CONFIDENCE = 1.0 - 1e-6
RADIUS = 1.0


@pytest.fixture(scope="module")
def worlds():
    """Two problems that differ in one record of the table."""
    X, y = load_randhie(target="visits", return_X_y=True)
    X, y = np.asarray(X, dtype=float)[:ROWS], np.asarray(y, dtype=float)[:ROWS]
    # Public scales would do as well; here everything is known to the attacker anyway.
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-12)
    X *= RADIUS / np.maximum(RADIUS, np.linalg.norm(X, axis=1))[:, None]
    y = (y - np.median(y)) / y.std()
    # A long row with very many visits, in place of one that points the same way and has none.
    many = np.where(y >= 1.0, 1.0, 0.0) * np.linalg.norm(X, axis=1)
    target = int(np.argmax(many))
    none = np.where(y < 0.0, -y, 0.0)[:, None] * X
    ordinary = int(np.argmax(none @ X[target]))
    other_X, other_y = X.copy(), y.copy()
    other_X[target], other_y[target] = X[ordinary], y[ordinary]
    loss = Loss("huber", 1.0)
    return tuple(Problem(Z, t, loss, data_norm=RADIUS) for Z, t in ((X, y), (other_X, other_y)))


def attack(worlds, budget, cheat=1.0):
    """Scores of the attacker's test, in both worlds; `cheat` divides the noise."""
    settled = plan(worlds[0], "output-perturbation", budget, alpha=ALPHA, noise="gaussian")
    points = [unperturbed(settled, world) for world in worlds]
    mechanism = settled.settings.mechanism
    scores = []
    for seed, point in enumerate(points):
        rng = SecureGenerator(seed)
        noise = (
            rng.discrete_gaussian(mechanism.integer_scale, RUNS * len(point)) * mechanism.grid_step
        )
        released = point + noise.reshape(RUNS, -1) / cheat
        scores.append((released - 0.5 * (points[0] + points[1])) @ (points[0] - points[1]))
    return scores


def advantage(scores):
    """Right guesses less false alarms, and a lower bound of that which holds with CONFIDENCE."""
    found = [int((score > 0.0).sum()) for score in scores]
    low, _ = clopper_pearson(found[0], RUNS, 0.5 * (1.0 - CONFIDENCE))
    _, high = clopper_pearson(found[1], RUNS, 0.5 * (1.0 - CONFIDENCE))
    return (found[0] - found[1]) / RUNS, low - high


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_advantage_is_within_the_trade_off_curve(worlds, epsilon):
    budget = Budget(epsilon, DELTA)
    scores = attack(worlds, budget)
    mu = gaussian_mu(epsilon, DELTA)
    _, at_least = advantage(scores)
    # The best advantage against mu-GDP, and against anything that is (epsilon, delta)-DP.
    assert at_least <= 2.0 * norm.cdf(0.5 * mu) - 1.0
    assert at_least <= (np.expm1(epsilon) + 2.0 * DELTA) / (np.exp(epsilon) + 1.0)
    # At every threshold.
    assert audit_mu(*scores, confidence=CONFIDENCE).value <= mu
    assert audit_epsilon(*scores, delta=DELTA, confidence=CONFIDENCE).value <= epsilon


def test_the_attack_works_where_it_may(worlds):
    """Nearly without privacy it is always right; with a tenth of the noise it refutes the claim."""
    found, _ = advantage(attack(worlds, Budget(1e5, DELTA)))
    assert found > 0.99
    # Of what the guarantees allow (0.20 and 0.60), more than half is found.
    assert advantage(attack(worlds, Budget(2.0, DELTA)))[0] > 0.1
    assert advantage(attack(worlds, Budget(8.0, DELTA)))[0] > 0.3
    scores = attack(worlds, Budget(2.0, DELTA), cheat=10.0)
    assert audit_mu(*scores, confidence=CONFIDENCE).value > gaussian_mu(2.0, DELTA)
