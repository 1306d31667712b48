"""The exponential mechanism: its law, the range of its log-ratios, and what that costs."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from declared import Unlimited, calibrate, release
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from scipy import special, stats

from dpfast.errors import GridOverflow
from dpfast.mechanisms import Exponential
from dpfast.mechanisms._grid import Grid
from dpfast.privacy import Budget, Ledger, budget_epsilon, budget_rho
from dpfast.random import SecureGenerator

SETTINGS = {"score_range": 2.0, "neighboring_relation": "replace_one"}
ALARM = 1e-7


@pytest.mark.parametrize("minimum", [False, True])
def test_the_law(minimum):
    """Chi-square, false-alarm rate 1e-7: accepts the scale, rejects it at 2/3 and at 3/2."""
    scores = np.array([0.0, 0.5, -1.0, 1.25, 0.25])
    mechanism = Exponential(3.0, candidates=5, minimum=minimum, **SETTINGS)
    rng = SecureGenerator(random_state=3)
    found = np.bincount(
        [
            release(mechanism, lambda: scores, rng=rng, ledger=Unlimited(), where="x")
            for _ in range(8_000)
        ],
        minlength=5,
    )

    def pvalue(factor):
        law = special.softmax((-1.5 if minimum else 1.5) / factor * scores)
        return stats.chisquare(found, law * found.sum()).pvalue

    assert pvalue(1.0) > ALARM
    assert pvalue(2 / 3) < ALARM
    assert pvalue(3 / 2) < ALARM


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.3, 1.0, math.pi, 700.0])
@pytest.mark.parametrize("changes", [{}, {"error": 0.1}, {"bound": 1e3}])
def test_the_scale_pays_for_range_errors_and_rounding(epsilon, changes):
    mechanism = Exponential(epsilon, candidates=3, **SETTINGS, **changes)
    least = 2.0 + 4 * changes.get("error", 0.0) + 2 * mechanism.grid_step
    assert least <= mechanism.charged_range <= least * (1 + 1e-14)
    assert mechanism.charged_range / mechanism.scale <= epsilon
    assert mechanism.charged_range / mechanism.scale >= epsilon * (1 - 2.0**-19)
    assert mechanism.event("x").epsilon == epsilon


def test_too_small_an_epsilon():
    with pytest.raises(GridOverflow, match="larger epsilon"):
        Exponential(2.0**-53, candidates=3, **SETTINGS)


SCORES = arrays(np.float64, 5, elements=st.floats(-1e3, 1e3))
UNIT = arrays(np.float64, 5, elements=st.floats(-1.0, 1.0))


@settings(max_examples=150)
@given(SCORES, UNIT, UNIT, UNIT, st.integers(-20, 10), st.floats(0, 3))
def test_the_log_ratios_lie_in_an_interval_of_length_epsilon(
    scores, change, first, second, exponent, error
):
    """On the exact law of the rounded scores, with grids coarse and fine against the scores."""
    mechanism = Exponential(2.0**exponent, candidates=5, error=error, **SETTINGS)
    grid = Grid(mechanism.grid_step)
    rounded = [grid.round(v) for v in (scores + error * first, scores + change + error * second)]
    laws = [special.log_softmax(r / mechanism.integer_scale) for r in rounded]
    # float64 subtracts logarithms of up to 1e3 * 2^10.
    slack = 1e-9 * (1.0 + np.abs(laws).max())
    ratios = laws[0] - laws[1]
    assert np.ptp(ratios) <= mechanism.epsilon + slack
    assert np.abs(ratios).max() <= mechanism.epsilon + slack


def test_the_price_in_zcdp_holds_and_an_epsilon_alone_would_not_give_it():
    """Renyi divergences of exact laws are at most alpha eta^2 / 8, and come near for small eta."""
    rng = np.random.default_rng(4)
    eta = 0.5
    worst = 0.0
    for _ in range(400):
        logits = rng.normal(scale=2.0, size=rng.integers(2, 8))
        neighbor = logits + eta * rng.integers(0, 2, size=len(logits))
        for alpha in (1.001, 2.0, 10.0, 100.0):
            p, q = special.log_softmax(logits), special.log_softmax(neighbor)
            divergence = special.logsumexp(alpha * p + (1 - alpha) * q) / (alpha - 1)
            worst = max(worst, divergence / (alpha * eta**2 / 8))
    assert 0.95 < worst <= 1 + 1e-9
    # Randomized response with that epsilon, which is not of bounded range eta, costs more.
    keep = 1 / (1 + math.exp(-eta))
    p, q = np.log([keep, 1 - keep]), np.log([1 - keep, keep])
    assert special.logsumexp(2 * p - q) > 2 * eta**2 / 8


def test_calibration_takes_the_best_price():
    def epsilon(budget, accountant="auto"):
        mechanism = calibrate(Exponential, budget, candidates=3, accountant=accountant, **SETTINGS)
        Ledger(budget, accountant).spend(mechanism.event("x"))
        return mechanism.epsilon

    assert epsilon(Budget(0.7)) == budget_epsilon(Budget(0.7))
    assert epsilon(Budget(rho=0.02)) == pytest.approx(0.4)
    small, large = Budget(1.0, 1e-6), Budget(50.0, 1e-6)
    by_rho = [math.sqrt(8 * budget_rho(budget)) for budget in (small, large)]
    assert by_rho[0] < epsilon(small) == budget_epsilon(small)
    assert epsilon(small, "zcdp") == by_rho[0]
    for accountant in ("auto", "pure", "basic"):
        assert epsilon(large, accountant) == max(by_rho[1], budget_epsilon(large))
    with pytest.raises(ValueError, match="accountant must be 'auto', 'zcdp' or 'pure'"):
        epsilon(small, "gdp")
    with pytest.raises(ValueError, match="accountant must be one of"):
        epsilon(small, "advanced")


def test_four_times_cheaper_than_as_any_pure_release():
    from dpfast.mechanisms import NoisyMax

    common = {"candidates": 3, "neighboring_relation": "replace_one"}
    budget = Budget(rho=0.01)
    pure = calibrate(NoisyMax, budget, sensitivity=1.0, **common)
    ranged = calibrate(Exponential, budget, score_range=2.0, **common)
    assert pure.scale == pytest.approx(2.0 * ranged.scale, rel=1e-6)
