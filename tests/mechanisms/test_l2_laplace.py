"""The l2 Laplace mechanism's law: Gamma radius, uniform direction."""

import numpy as np
import pytest
from declared import Unlimited, release
from scipy.stats import beta, gamma, kstest

from dpfast.mechanisms import L2Laplace
from dpfast.random import SecureGenerator

RUNS = 4000


@pytest.mark.parametrize("dimension", [1, 2, 5, 40])
def test_the_law(dimension):
    """Each Kolmogorov-Smirnov test has a false-alarm rate of 1e-6; wrong scales must be seen."""
    mechanism = L2Laplace(
        0.7, sensitivity=1.0, dimension=dimension, neighboring_relation="replace_one"
    )
    rng, center = SecureGenerator(random_state=13), np.linspace(-1.0, 1.0, dimension)
    noise = np.array(
        [
            release(mechanism, lambda: center, rng=rng, ledger=Unlimited(), where="x")
            for _ in range(RUNS)
        ]
    )
    noise -= center
    assert noise.std() == pytest.approx(mechanism.stddev, rel=0.1)
    radius = np.linalg.norm(noise, axis=1)
    assert kstest(radius, gamma(dimension, scale=0.7).cdf).pvalue > 1e-6
    for factor in (2 / 3, 3 / 2):
        assert kstest(radius, gamma(dimension, scale=0.7 * factor).cdf).pvalue < 1e-6
    if dimension == 1:
        assert abs((noise > 0).mean() - 0.5) < 5 * 0.5 / np.sqrt(RUNS)
        return
    # The projection of a uniform direction: (1 + u) / 2 is Beta((d - 1) / 2, (d - 1) / 2).
    half = (dimension - 1) / 2
    for axis in (0, dimension - 1):
        cosine = noise[:, axis] / radius
        assert kstest((1 + cosine) / 2, beta(half, half).cdf).pvalue > 1e-6
        # Radius and direction are independent: their correlation is within 5 / sqrt(n) of 0.
        assert abs(np.corrcoef(radius, cosine)[0, 1]) < 5 / np.sqrt(RUNS)


def test_the_charge():
    mechanism = L2Laplace(
        1.0, sensitivity=1.0, dimension=9, neighboring_relation="replace_one", error=0.25
    )
    event = mechanism.event("x")
    assert event.epsilon == pytest.approx(1.5 + 3 * mechanism.grid_step, rel=1e-14)
    assert event.epsilon >= 1.5 + 3 * mechanism.grid_step
