"""The classic attacks on floating-point noise: they work on the naive one and fail on ours.

A query of 0 or 1 is released with Laplace noise for epsilon = 1/2, or with Gaussian noise of
standard deviation 4 (mu = 1/4). The attacks look at nothing but the digits of the output. Each
audit has a false-alarm rate of at most 1e-6.
"""

import numpy as np
import pytest
from declared import Unlimited, release
from reference import naive_noise

from dpfast.mechanisms import Gaussian, L2Laplace, Laplace
from dpfast.privacy import audit_epsilon, audit_mu
from dpfast.random import SecureGenerator

pytestmark = pytest.mark.audit

EPSILON = 0.5
SCALE = 2.0
STDDEV = 4.0
RUNS = 40_000


def naive(kind, value, seed):
    rng = np.random.default_rng(seed)
    if kind == "laplace":
        return naive_noise.laplace(rng, value, SCALE, RUNS)
    return naive_noise.gaussian(rng, value, STDDEV, RUNS)


def ours(kind, value, seed):
    """Independent releases: the same sensitivity in every coordinate, so one mechanism for all."""
    settings = {"sensitivity": 1.0, "neighboring_relation": "replace_one"}
    rng = SecureGenerator(seed)
    if kind is L2Laplace:
        mechanism = L2Laplace(SCALE, dimension=1, **settings)
        return np.array(
            [
                release(mechanism, lambda: [value], rng=rng, ledger=Unlimited(), where="x")[0]
                for _ in range(RUNS // 4)
            ]
        )
    # The noise of a coordinate is the same whether it stands alone or among others.
    noise = STDDEV if kind is Gaussian else SCALE
    mechanism = kind(noise, dimension=RUNS, **settings)
    return release(mechanism, lambda: np.full(RUNS, value), rng=rng, ledger=Unlimited(), where="x")


def mironov(outputs):
    """1 for an output that naive noise on a query of 0 can give."""
    return np.array([float(naive_noise.reachable(y, 0.0, SCALE)) for y in outputs])


def test_the_holes_of_naive_laplace_noise():
    """Mironov (2012): many outputs at 1 are impossible at 0, which no epsilon covers."""
    at_zero, at_one = (mironov(naive("laplace", value, seed=1)[:4000]) for value in (0.0, 1.0))
    assert at_zero.all()
    assert audit_epsilon(at_zero, at_one).value > 4 * EPSILON


def test_ours_has_no_holes():
    """All multiples of the step, and nothing else, are possible at both."""
    outputs = [ours(Laplace, value, seed=2) for value in (0.0, 1.0)]
    step = Laplace(
        SCALE, sensitivity=1.0, dimension=RUNS, neighboring_relation="replace_one"
    ).grid_step
    for values in outputs:
        np.testing.assert_array_equal(values % step, 0.0)
    assert audit_epsilon(*map(mironov, (values[:4000] for values in outputs))).value <= EPSILON


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_low_bits_give_naive_noise_away(kind):
    """Haney et al. (2022) for Gaussians: the digits alone refute the claim."""
    pair = [naive_noise.trailing_zeros(naive(kind, value, 3 + value)) for value in (1, 0)]
    if kind == "laplace":
        assert audit_epsilon(*pair).value > 2 * EPSILON
    else:
        assert audit_mu(*pair).value > 2 / STDDEV


@pytest.mark.parametrize("kind", [Laplace, Gaussian, L2Laplace])
def test_low_bits_of_ours_say_nothing(kind):
    pair = [naive_noise.trailing_zeros(ours(kind, float(value), 5 + value)) for value in (1, 0)]
    assert audit_epsilon(*pair).value <= 0.5 * EPSILON
    assert audit_mu(*pair).value <= 0.5 / STDDEV
