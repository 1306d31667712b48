"""Noisy sums over a secret sample of the rows."""

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from dpfast import Budget, Ledger, Problem, ProblemShape
from dpfast.curator import Curator
from dpfast.fused import SampledGradient
from dpfast.fused.sampled_gradient import random_subset
from dpfast.privacy import SubsampledGaussianEvent, SubsampledLaplaceEvent
from dpfast.random import SecureGenerator


def test_subsets_are_uniform():
    rng = SecureGenerator(5)
    for n, size in ((5, 2), (5, 3), (6, 1), (4, 4)):
        sets = list(itertools.combinations(range(n), size))
        counts = dict.fromkeys(sets, 0)
        for _ in range(150 * len(sets)):
            counts[tuple(random_subset(rng, n, size).tolist())] += 1
        if len(sets) > 1:
            assert chisquare(list(counts.values())).pvalue > 1e-6
    large = random_subset(rng, 100_000, 1000)
    assert len(np.unique(large)) == 1000
    assert 0 <= large.min() <= large.max() < 100_000


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_an_answer_is_the_sum_over_a_fresh_sample(noise, noiseless, classification):
    X, y = classification
    problem, w = Problem(X, y, data_norm=2.0), np.linspace(-0.5, 0.5, 7)
    access = SampledGradient(
        problem.shape, 40, 1.0, noise=noise, neighboring_relation="replace_one", where="here"
    )
    ledger = Ledger(Budget(50.0, 1e-6))
    curator = Curator(problem, ledger, SecureGenerator(3))
    answers = [curator.release(access, w) for _ in range(2)]
    assert ledger.events == (*access.events(), *access.events())
    twin = SecureGenerator(3)
    for answer in answers:
        rows = random_subset(twin, 500, 40)
        expected = problem.sampled_gradient(rows, w, np.inf)
        np.testing.assert_allclose(answer, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("noise", "kind"), [("gaussian", SubsampledGaussianEvent), ("laplace", SubsampledLaplaceEvent)]
)
def test_events_state_sample_and_noise(noise, kind):
    shape = ProblemShape(1000, 3, 1.0)
    access = SampledGradient(
        shape, 50, 0.5, noise=noise, neighboring_relation="replace_one", clip_norm=0.4
    )
    (event,) = access.named("there").events(7)
    assert isinstance(event, kind)
    assert (event.batch, event.n_samples, event.count, event.where) == (50, 1000, 7, "there")
    assert access.events()[0].where == ""
    # Two vectors no longer than 0.4; in l1, of four numbers each, twice that.
    longest = 0.8 if noise == "gaussian" else 1.6
    assert event.sensitivity == pytest.approx(longest, rel=1e-3)
    assert event.sensitivity / event.noise == pytest.approx(0.5, rel=1e-6)


def test_other_samples_and_neighbors_are_refused():
    shape = ProblemShape(1000, 3, 1.0)
    for batch in (0, 1001):
        with pytest.raises(ValueError, match="batch must be an integer in"):
            SampledGradient(shape, batch, 1.0, noise="laplace", neighboring_relation="replace_one")
    with pytest.raises(ValueError, match="batch must be None for neighboring_relation="):
        SampledGradient(shape, 9, 1.0, noise="laplace", neighboring_relation="add_or_remove_one")
