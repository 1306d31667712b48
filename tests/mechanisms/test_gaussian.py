"""The Gaussian mechanism: its law, and the numerical side of its proof."""

import math

import numpy as np
import pytest
from declared import release
from scipy.integrate import quad
from scipy.stats import kstest, norm

from dpfast.mechanisms import Gaussian
from dpfast.privacy import Budget, Ledger, gaussian_delta
from dpfast.random import SecureGenerator

SETTINGS = {"sensitivity": 1.0, "neighboring_relation": "replace_one"}


def test_the_law_is_gaussian_with_the_stated_deviation():
    """Each Kolmogorov-Smirnov test has a false-alarm rate of 1e-6; wrong scales must be seen."""
    mechanism = Gaussian(3.0, dimension=100_000, **SETTINGS)
    draws = release(
        mechanism,
        lambda: np.full(100_000, 7.0),
        rng=SecureGenerator(random_state=11),
        ledger=Ledger(Budget(100.0, 1e-6)),
        where="x",
    )
    assert kstest(draws, norm(7.0, 3.0).cdf).pvalue > 1e-6
    for factor in (2 / 3, 3 / 2):
        assert kstest(draws, norm(7.0, 3.0 * factor).cdf).pvalue < 1e-6


def discrete_gaussian(s, reach=14):
    k = np.arange(-int(reach * s), int(reach * s) + 1)
    weights = np.exp(-0.5 * (k / s) ** 2)
    return k, weights / weights.sum()


@pytest.mark.parametrize(("s", "t"), [(4, 1.0), (5, 1.5)])
def test_randomized_rounding_of_a_smaller_gaussian_is_the_discrete_gaussian(s, t):
    """Step 3 of the proof, at scales where the factor 1 +- 3 b can be resolved."""
    r = math.sqrt(s * s - t * t)
    neighbors = np.arange(-40, 41)

    def density(x, k):
        total = np.exp(-0.5 * ((neighbors + round(x) - x) / t) ** 2).sum()
        return norm.pdf(x, scale=r) * math.exp(-0.5 * ((k - x) / t) ** 2) / total

    b = 3.0 * math.exp(-2.0 * (math.pi * t) ** 2)
    support, law = discrete_gaussian(s)
    for k in (0, 1, 2, 5, 12):
        rounded, _ = quad(density, -12 * s, 12 * s, args=(k,), epsabs=0, epsrel=1e-12, limit=400)
        # The quadrature's own error is below 1e-10.
        assert abs(rounded / law[support == k][0] - 1) <= 3 * b + 1e-10


@pytest.mark.parametrize("shift", [1, 3, 10])
def test_the_discrete_gaussian_is_dominated_as_charged(shift):
    """Steps 4 and 5: delta of the discrete law against the GDP curve with s / r charged."""
    s, t = 6, 2.0
    k, law = discrete_gaussian(s)
    log_ratio = ((k - shift) ** 2 - k**2) / (2.0 * s * s)
    charged = shift / math.sqrt(s * s - t * t)
    uncharged_holds = True
    for epsilon in np.linspace(0.0, 4.0 * shift / s, 200):
        delta = np.sum(law * np.maximum(0.0, -np.expm1(epsilon - log_ratio)))
        assert delta <= gaussian_delta(epsilon, charged) + 1e-15
        uncharged_holds &= bool(delta <= gaussian_delta(epsilon, shift / s) + 1e-15)
    # The extra charge is no luxury: without it the bound fails.
    assert not uncharged_holds


def test_the_charge_for_discreteness():
    """Exactly s / r <= 1 + 4096 / s^2 down to the smallest scale, and negligible at the usual."""
    from fractions import Fraction

    for s in (2**20, 2**25, 2**31, 2**32):
        assert Fraction(s * s, s * s - 64**2) <= (1 + Fraction(64**2, s * s)) ** 2
    coarse = Gaussian(1.0, dimension=1, bound=2.0**41, **SETTINGS)
    assert coarse.integer_scale == 2**20
    least = (1.0 + coarse.grid_step) * (1 + 4096 / 2**40)
    assert least <= coarse.charged_sensitivity <= least * (1 + 1e-13)
    # exp(-2 pi^2 64^2) < 10^-35000
    assert 2.0 * (math.pi * 64) ** 2 / math.log(10) > 35_000
