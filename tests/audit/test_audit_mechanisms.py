"""Empirical epsilon of the mechanisms on worst-case neighbors.

Every audit has a false-alarm rate of at most 1e-6 (the audit's confidence). For each there is a
counterpart that is broken on purpose and must be refuted, so that a blind audit cannot pass.
"""

import numpy as np
import pytest
from declared import Unlimited, calibrate, release

from dpfast.mechanisms import Exponential, Gaussian, L2Laplace, Laplace, NoisyMax
from dpfast.privacy import (
    Budget,
    audit_epsilon,
    audit_mu,
    choice_score,
    gaussian_score,
    l2_laplace_score,
    laplace_score,
)
from dpfast.random import SecureGenerator

pytestmark = pytest.mark.audit

SCORES = {Gaussian: gaussian_score, L2Laplace: l2_laplace_score, Laplace: laplace_score}
RUNS = {Gaussian: 6000, L2Laplace: 6000, Laplace: 6000}


class HalvedNoise:
    """A generator whose noise has half the scale that was asked for."""

    def __init__(self, rng):
        self.rng = rng

    def discrete_gaussian(self, scale, n):
        return self.rng.discrete_gaussian(scale // 2, n)

    def discrete_laplace(self, scale, n):
        return self.rng.discrete_laplace(scale // 2, n)

    def discrete_l2_laplace(self, scale, d):
        return self.rng.discrete_l2_laplace(scale // 2, d)

    def noisy_max(self, scores, scale, noise):
        return self.rng.noisy_max(scores, scale // 2, noise)


class SubtractedNoise:
    """A generator that takes the largest score *less* exponential noise, as DP-AGD's code does."""

    def __init__(self, rng):
        self.rng = rng

    def noisy_max(self, scores, scale, noise):
        # Half of the mass at 0 is missing: one part in 2^31.
        return int(np.argmax(scores - np.abs(self.rng.discrete_laplace(scale, len(scores)))))


def rows(neighbor, norm=1.0, dimension=3):
    """Rows of a private table; its neighbor has one row replaced by its opposite."""
    table = np.random.default_rng(0).standard_normal((50, dimension))
    table *= norm / np.linalg.norm(table, axis=1)[:, None]
    if neighbor:
        table[17] *= -1.0
    return table


def releases(mechanism, value, rng, runs):
    """Outputs of many runs; `rng` is a generator, or makes one for every run."""
    return np.array(
        [
            release(
                mechanism,
                lambda: value,
                rng=rng() if callable(rng) else rng,
                ledger=Unlimited(),
                where="sum",
            )
            for _ in range(runs)
        ]
    )


def scores(mechanism, seed, broken=lambda rng: rng):
    """Scores of the releases of the sum of the rows, on both data sets."""
    values = [rows(neighbor).sum(axis=0) for neighbor in (False, True)]
    score, runs = SCORES[type(mechanism)], RUNS[type(mechanism)]
    noise = mechanism.event("").noise
    return [
        score(releases(mechanism, value, broken(SecureGenerator(seed + k)), runs), *values, noise)
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
    BUDGET = Budget(2.0, 0.05)

    def audits(self, mechanism, **settings):
        pair = scores(mechanism, **settings)
        return audit_epsilon(*pair, delta=self.BUDGET.delta).value, audit_mu(*pair).value

    def test_the_claim_stands(self):
        mechanism = calibrate(Gaussian, self.BUDGET, **REPLACE_ONE)
        epsilon, mu = self.audits(mechanism, seed=100)
        claimed = mechanism.event("").mu
        assert epsilon <= self.BUDGET.epsilon
        assert 0.7 * claimed < mu <= claimed

    def test_halved_noise_is_refuted(self):
        mechanism = calibrate(Gaussian, self.BUDGET, **REPLACE_ONE)
        epsilon, mu = self.audits(mechanism, seed=200, broken=HalvedNoise)
        assert epsilon > self.BUDGET.epsilon
        assert mu > 1.5 * mechanism.event("").mu

    def test_a_replaced_row_is_not_an_added_one(self):
        mechanism = calibrate(Gaussian, self.BUDGET, **ADD_OR_REMOVE_ONE)
        epsilon, mu = self.audits(mechanism, seed=300)
        assert epsilon > self.BUDGET.epsilon
        assert mu > 1.5 * mechanism.event("").mu


class TestL2Laplace:
    BUDGET = Budget(1.0)

    def epsilon(self, mechanism, **settings):
        return audit_epsilon(*scores(mechanism, **settings)).value

    def test_the_claim_stands(self):
        mechanism = calibrate(L2Laplace, self.BUDGET, **REPLACE_ONE)
        assert 0.5 < self.epsilon(mechanism, seed=400) <= self.BUDGET.epsilon

    def test_halved_noise_is_refuted(self):
        mechanism = calibrate(L2Laplace, self.BUDGET, **REPLACE_ONE)
        assert self.epsilon(mechanism, seed=500, broken=HalvedNoise) > self.BUDGET.epsilon

    def test_a_replaced_row_is_not_an_added_one(self):
        mechanism = calibrate(L2Laplace, self.BUDGET, **ADD_OR_REMOVE_ONE)
        assert self.epsilon(mechanism, seed=600) > self.BUDGET.epsilon


class TestLaplace:
    BUDGET = Budget(1.0)
    # The row that is replaced by its opposite moves the sum by 2 sqrt(3) in l1, at most.
    LARGEST = 2.0 * np.abs(rows(neighbor=False)[17]).sum()

    def calibrated(self, sensitivity):
        return calibrate(Laplace, self.BUDGET, **{**REPLACE_ONE, "sensitivity": sensitivity})

    def epsilon(self, mechanism, **settings):
        return audit_epsilon(*scores(mechanism, **settings)).value

    def test_the_claim_stands(self):
        assert 0.5 < self.epsilon(self.calibrated(self.LARGEST), seed=700) <= self.BUDGET.epsilon

    def test_halved_noise_is_refuted(self):
        mechanism = self.calibrated(self.LARGEST)
        assert self.epsilon(mechanism, seed=800, broken=HalvedNoise) > self.BUDGET.epsilon

    def test_a_replaced_row_is_not_an_added_one(self):
        mechanism = self.calibrated(self.LARGEST / 2)
        assert self.epsilon(mechanism, seed=900) > self.BUDGET.epsilon


@pytest.mark.parametrize("kind", [Gaussian, Laplace, L2Laplace])
def test_a_seed_that_is_used_again_is_refuted(kind):
    """As the default seed=1 of tensorflow-privacy's bolt-on, or one of 256 (dpml-benchmark)."""
    budget = Budget(1.0, 1e-6)
    mechanism = calibrate(kind, budget, **{**REPLACE_ONE, "sensitivity": 4.0})
    values = [rows(neighbor).sum(axis=0) for neighbor in (False, True)]
    outputs = [releases(mechanism, v, lambda: SecureGenerator(1), runs=2000) for v in values]
    # Linear: noise that is known cannot hide a shift from it, however far out it lies.
    pair = [gaussian_score(o, *values, mechanism.event("").noise) for o in outputs]
    assert audit_epsilon(*pair, delta=budget.delta).value > 3.0


# ---- Choices ------------------------------------------------------------------------------------

CLIP = 3.0


def losses(candidates, lead, lag):
    """Sums of losses, one candidate against all others: ahead by `lead`, then behind by `lag`."""
    first, second = np.zeros(candidates), np.zeros(candidates)
    first[0], second[0] = lead, -lag
    return first, second


def chosen(mechanism, values, seed, broken=lambda rng: rng, runs=5000):
    """Scores of choices: whether it is the candidate that one of the data sets is about."""
    laws = np.eye(mechanism.candidates)[0] + 1.0, np.ones(mechanism.candidates)
    return [
        choice_score(releases(mechanism, value, broken(SecureGenerator(seed + k)), runs), *laws)
        for k, value in enumerate(values)
    ]


class TestNoisyMax:
    BUDGET = Budget(2.0)

    def calibrated(self, candidates, kind="exponential", relation="replace_one"):
        return calibrate(
            NoisyMax,
            self.BUDGET,
            sensitivity=CLIP,
            candidates=candidates,
            noise_kind=kind,
            monotone=relation == "add_or_remove_one",
            neighboring_relation=relation,
        )

    def epsilon(self, mechanism, values, **settings):
        return audit_epsilon(*chosen(mechanism, values, **settings)).value

    @pytest.mark.parametrize("kind", ["exponential", "laplace", "gumbel"])
    def test_the_claim_stands_and_halved_noise_is_refuted(self, kind):
        """A tie, of which one record, replaced, makes one rise and one fall by the clip."""
        values = losses(2, 0.0, 2 * CLIP)
        mechanism = self.calibrated(2, kind)
        assert 0.8 < self.epsilon(mechanism, values, seed=1000) <= self.BUDGET.epsilon
        assert self.epsilon(mechanism, values, seed=1010, broken=HalvedNoise) > self.BUDGET.epsilon

    @pytest.mark.parametrize("kind", ["exponential", "laplace", "gumbel"])
    def test_a_replaced_row_is_not_an_added_one(self, kind):
        mechanism = self.calibrated(2, kind, "add_or_remove_one")
        # One record's presence moves one score by the clip, a replaced one two by twice that.
        for lag, refuted in ((CLIP, False), (2 * CLIP, True)):
            found = self.epsilon(mechanism, losses(2, 0.0, lag), seed=1100)
            assert (found > self.BUDGET.epsilon) is refuted

    @pytest.mark.parametrize(("candidates", "runs"), [(2, 5000), (21, 5000), (1000, 3000)])
    def test_the_sign_of_exponential_noise(self, candidates, runs):
        """DP-AGD's published noisy-min, whose loss was 20 times its claim with 21 candidates.

        With two candidates it is right: one wins if the difference of the two noises is above the
        difference of the scores, and the difference of two independent exponential variables is a
        Laplace variable, symmetric, so that a common sign of both does not matter.
        """
        values = losses(candidates, CLIP, CLIP)
        mechanism = self.calibrated(candidates)
        right = self.epsilon(mechanism, values, seed=1200, runs=runs)
        wrong = self.epsilon(mechanism, values, seed=1210, runs=runs, broken=SubtractedNoise)
        assert right <= self.BUDGET.epsilon
        assert (wrong > 1.5 * self.BUDGET.epsilon) is (candidates > 2)
        if candidates == 2:
            assert wrong <= self.BUDGET.epsilon


class TestExponential:
    BUDGET = Budget(2.0)

    def audit(self, values, seed, broken=lambda rng: rng, score_range=2 * CLIP):
        mechanism = calibrate(
            Exponential,
            self.BUDGET,
            score_range=score_range,
            candidates=3,
            neighboring_relation="replace_one",
        )
        return audit_epsilon(*chosen(mechanism, values, seed, broken)).value

    def test_the_claim_stands(self):
        # Far behind, where the probability of the candidate is about exp(score / scale).
        assert 0.8 < self.audit(losses(3, -CLIP, 3 * CLIP), seed=1300) <= self.BUDGET.epsilon
        assert self.audit(losses(3, CLIP, CLIP), seed=1310) <= self.BUDGET.epsilon

    def test_halved_noise_is_refuted(self):
        found = self.audit(losses(3, 0.0, 2 * CLIP), seed=1320, broken=HalvedNoise)
        assert found > self.BUDGET.epsilon

    def test_a_replaced_row_is_not_an_added_one(self):
        found = self.audit(losses(3, 0.0, 2 * CLIP), seed=1330, score_range=CLIP)
        assert found > self.BUDGET.epsilon
