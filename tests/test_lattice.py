"""The exact l2-Laplace law on integer vectors: rejection from discrete Gaussians."""

import math
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2, gamma, kstest

from dpfast.lattice import Mixture, bounds, largest_width
from dpfast.random import SecureGenerator

DIMENSIONS = (1, 2, 5, 30, 300, 1000, 20_000)
SCALE = 2**20 + 12345


@pytest.mark.parametrize("d", DIMENSIONS)
def test_what_is_accepted_never_has_a_probability_over_one(d):
    """In 20,000 places; and hardly anything is refused in vain."""
    mixture = Mixture.of(d, SCALE)
    places = np.linspace(mixture.low, mixture.high, 20_000)
    ratios = np.array([mixture.log_ratio(u) for u in places])
    assert ratios.max() < -0.01
    bulk = np.linspace(*gamma(d).ppf([1e-12, 1.0 - 1e-12]), 100)
    assert min(mixture.log_ratio(u) for u in bulk) > -0.03


@pytest.mark.parametrize("d", DIMENSIONS)
def test_drawn_and_accepted_is_the_law_that_is_wanted(d):
    """The proposals' law, from the weights and widths alone, times the ratio: ``c exp(-u)``."""
    mixture = Mixture.of(d, SCALE)
    widths = np.array(mixture.widths, dtype=float)
    # Weights of 1,600 bits, and a constant that they have in common.
    chosen = np.array([math.log(w >> 600) + 600.0 * math.log(2.0) if w >> 600 else -np.inf
                       for w in mixture.weights])  # fmt: skip
    constants = [
        logsumexp(chosen - d * np.log(widths) - 0.5 * (u * SCALE / widths) ** 2)
        + mixture.log_ratio(u)
        + u
        for u in np.linspace(*gamma(d).ppf([1e-12, 1.0 - 1e-12]), 50)
    ]
    np.testing.assert_allclose(constants, constants[0], atol=1e-9 * max(1.0, d**0.5))


@pytest.mark.parametrize("d", [1, 3, 40])
@pytest.mark.parametrize("above", [False, True])
def test_what_floating_point_cannot_tell_decimals_do(d, above):
    """A uniform number that agrees with the exact ratio in its first 181 bits, but for the last."""
    mixture = Mixture.of(d, SCALE)
    k = np.full(d, int(gamma(d).median() * SCALE / math.sqrt(d)))
    square = sum(int(x) ** 2 for x in k)
    with localcontext(Context(prec=150, Emax=10**9, Emin=-(10**9))):
        exact = mixture._exact_ratio(square)
        assert float(exact) == pytest.approx(math.exp(mixture.log_ratio(math.sqrt(square) / SCALE)))
        number = int(exact * Decimal(2) ** 181) + (2 if above else -2)
    words = [number >> 128, number & (2**128 - 1)]
    asked = []

    def below(bound):
        asked.append(bound)
        return words[len(asked) - 1] if len(asked) <= 2 else 2**128 // 2

    assert mixture.accepts(k, below) is not above
    assert len(asked) >= 2 and asked[0] == 2**53


def test_the_tails_are_refused_and_weigh_nothing():
    for d in DIMENSIONS:
        low, high = bounds(d)
        assert gamma(d).logsf(high - 300.0) < -999.0 * math.log(2.0) or d > 1000
        assert low == 0.0 or gamma(d).logcdf(low) < -999.0 * math.log(2.0)
        mixture = Mixture.of(d, SCALE)
        far = np.zeros(d, dtype=np.int64)
        far[0] = int(1.001 * high * SCALE)
        assert not mixture.accepts(far, lambda bound: 0)
        assert max(mixture.widths) < largest_width(d) * SCALE
        assert min(mixture.widths) > 1000


@pytest.mark.parametrize("d", [1, 2, 7, 60])
def test_drawn_vectors(d):
    """False alarms at 1e-6: radius and direction; another scale is seen."""
    rng = SecureGenerator(5)
    drawn = np.array([rng.discrete_l2_laplace(SCALE, d) for _ in range(1500)]) / SCALE
    radius = np.linalg.norm(drawn, axis=1)
    assert kstest(radius, gamma(d).cdf).pvalue > 1e-6
    for factor in (2 / 3, 3 / 2):
        assert kstest(radius, gamma(d, scale=factor).cdf).pvalue < 1e-6
    signs = (drawn > 0.0).mean(axis=0) - 0.5
    assert 4.0 * 1500 * float(signs @ signs) < chi2(d).ppf(1.0 - 1e-6)


def test_whole_numbers_below_a_bound():
    rng = SecureGenerator(7)
    for bound in (1, 2, 3, 1000, 2**64, 2**64 + 1, 3**900):
        drawn = [rng._below(bound) for _ in range(300)]
        assert min(drawn) >= 0 and max(drawn) < bound
    assert kstest([rng._below(3**900) / 3**900 for _ in range(2000)], "uniform").pvalue > 1e-6
    assert np.bincount([rng._below(3) for _ in range(3000)], minlength=3).min() > 850


@pytest.mark.parametrize(("scale", "d"), [(2**19 - 1, 3), (2**27, 3), (2**20, 0), (2.0**20, 3)])
def test_arguments(scale, d):
    with pytest.raises((TypeError, ValueError), match=r"scale|d must"):
        SecureGenerator(0).discrete_l2_laplace(scale, d)
