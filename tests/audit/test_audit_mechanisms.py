"""Empirical epsilon of the mechanisms on worst-case neighbors.

Every audit has a false-alarm rate of at most 1e-6 (the audit's confidence). For each there is a
counterpart that is broken on purpose and must be refuted, so that a blind audit cannot pass.
"""

import numpy as np
import pytest

from dpfast.mechanisms import Gaussian, L2Laplace
from dpfast.privacy import (
    Budget,
    audit_epsilon,
    audit_mu,
    gaussian_score,
    l2_laplace_score,
)
from dpfast.random import SecureGenerator

pytestmark = pytest.mark.audit

RUNS = 20_000
SCORES = {Gaussian: gaussian_score, L2Laplace: l2_laplace_score}


class Unlimited:
    """A ledger that admits everything, for many independent releases."""

    def spend(self, event):
        pass


class HalvedNoise:
    """A generator whose noise has half the scale that was asked for."""

    def __init__(self, rng):
        self.rng = rng

    def discrete_gaussian(self, scale, n):
        return self.rng.discrete_gaussian(scale // 2, n)

    def l2_laplace(self, d, scale):
        return self.rng.l2_laplace(d, scale / 2)


def rows(neighbor, norm=1.0, dimension=3):
    """Rows of a private table; its neighbor has one row replaced by its opposite."""
    table = np.random.default_rng(0).standard_normal((50, dimension))
    table *= norm / np.linalg.norm(table, axis=1)[:, None]
    if neighbor:
        table[17] *= -1.0
    return table


def releases(mechanism, value, seed, halved=False):
    rng = SecureGenerator(random_state=seed)
    if halved:
        rng = HalvedNoise(rng)
    return np.array(
        [
            mechanism.release(lambda: value, rng=rng, ledger=Unlimited(), where="sum")
            for _ in range(RUNS)
        ]
    )


def scores(mechanism, seed, halved=False):
    """Scores of the releases of the sum of the rows, on both data sets."""
    values = [rows(neighbor).sum(axis=0) for neighbor in (False, True)]
    score = SCORES[type(mechanism)]
    noise = mechanism.event("").noise
    return [
        score(releases(mechanism, value, seed + k, halved), *values, noise)
        for k, value in enumerate(values)
    ]


REPLACE_ONE = {"sensitivity": 2.0, "dimension": 3, "neighboring_relation": "replace_one"}
# A row of norm 1 that comes or goes moves the sum by 1: right for that relation only.
ADD_OR_REMOVE_ONE = {
    "sensitivity": 1.0,
    "dimension": 3,
    "neighboring_relation": "add_or_remove_one",
}


class TestGaussian:
    BUDGET = Budget(1.0, 0.01)

    def audits(self, mechanism, **settings):
        pair = scores(mechanism, **settings)
        return audit_epsilon(*pair, delta=self.BUDGET.delta).value, audit_mu(*pair).value

    def test_the_claim_stands(self):
        mechanism = Gaussian.calibrate(self.BUDGET, **REPLACE_ONE)
        epsilon, mu = self.audits(mechanism, seed=100)
        claimed = mechanism.event("").mu
        assert epsilon <= self.BUDGET.epsilon
        assert 0.7 * claimed < mu <= claimed

    def test_halved_noise_is_refuted(self):
        mechanism = Gaussian.calibrate(self.BUDGET, **REPLACE_ONE)
        epsilon, mu = self.audits(mechanism, seed=200, halved=True)
        assert epsilon > self.BUDGET.epsilon
        assert mu > 1.5 * mechanism.event("").mu

    def test_a_replaced_row_is_not_an_added_one(self):
        mechanism = Gaussian.calibrate(self.BUDGET, **ADD_OR_REMOVE_ONE)
        epsilon, mu = self.audits(mechanism, seed=300)
        assert epsilon > self.BUDGET.epsilon
        assert mu > 1.5 * mechanism.event("").mu


class TestL2Laplace:
    BUDGET = Budget(1.0)

    def epsilon(self, mechanism, **settings):
        return audit_epsilon(*scores(mechanism, **settings)).value

    def test_the_claim_stands(self):
        mechanism = L2Laplace.calibrate(self.BUDGET, **REPLACE_ONE)
        assert 0.5 < self.epsilon(mechanism, seed=400) <= self.BUDGET.epsilon

    def test_halved_noise_is_refuted(self):
        mechanism = L2Laplace.calibrate(self.BUDGET, **REPLACE_ONE)
        assert self.epsilon(mechanism, seed=500, halved=True) > self.BUDGET.epsilon

    def test_a_replaced_row_is_not_an_added_one(self):
        mechanism = L2Laplace.calibrate(self.BUDGET, **ADD_OR_REMOVE_ONE)
        assert self.epsilon(mechanism, seed=600) > self.BUDGET.epsilon
