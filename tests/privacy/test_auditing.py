"""The audit's own statistics: bounds that hold, and bounds that are worth having."""

import math

import numpy as np
import pytest
from scipy.stats import binom, laplace, norm

from dpfast.privacy import (
    audit_epsilon,
    audit_mu,
    audit_one_run,
    choice_score,
    clopper_pearson,
    gaussian_score,
    l2_laplace_score,
    laplace_score,
)
from dpfast.privacy.auditing import _one_run_epsilon


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (10, 10), (1, 100_000)])
@pytest.mark.parametrize("error", [1e-7, 0.01, 0.2])
def test_clopper_pearson_is_the_root_of_the_binomial_tails(successes, trials, error):
    low, high = clopper_pearson(successes, trials, error)
    assert 0.0 <= low <= successes / trials <= high <= 1.0
    if successes > 0:
        assert binom.sf(successes - 1, trials, low) == pytest.approx(error, rel=1e-6)
    if successes < trials:
        assert binom.cdf(successes, trials, high) == pytest.approx(error, rel=1e-6)


def test_randomized_response_is_found_from_both_sides():
    """A score with two values; the audit must find the threshold between them."""
    rng = np.random.default_rng(1)
    keep = math.e / (1 + math.e)
    first = rng.random(40_000) < keep
    second = rng.random(40_000) >= keep
    # The true epsilon is 1: the false-alarm rate of the upper limit is 1e-6.
    for scores, others in ((1.0 * first, 1.0 * second), (-1.0 * second, -1.0 * first)):
        assert 0.85 < audit_epsilon(scores, others).value <= 1.0


def test_the_better_side_is_taken():
    """The same mechanism, revealing only the second data set: low scores are the better test."""
    rng = np.random.default_rng(6)
    first, second = np.zeros(20_000), -1.0 * (rng.random(20_000) < 0.1)
    result = audit_epsilon(first, second)
    assert result.flipped and result.value > 4.0


def test_delta_is_taken_off():
    """A mechanism that reveals all with probability 0.1 is (0, 0.1)-DP, and no pure epsilon."""
    rng = np.random.default_rng(2)
    reveal = rng.random((2, 40_000)) < 0.1
    first = np.where(reveal[0], 1.0, 0.0)
    second = np.where(reveal[1], -1.0, 0.0)
    assert audit_epsilon(first, second, delta=0.1).value == 0.0
    assert audit_epsilon(first, second, delta=0.05).value > 3.0


def test_mu_of_gaussians():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 40_000))
    # False alarm of the upper limit 1e-6.
    assert 0.85 < audit_mu(x[0] + 1.0, x[1]).value <= 1.0
    assert audit_mu(x[0], x[1]).value < 0.1


def test_the_audit_rarely_exceeds_the_truth():
    """At confidence 0.9 at most one audit in ten may exceed the truth.

    Of 200 audits more than 40 would then exceed it with a probability below 1e-5; the bounds are
    conservative (two one-sided bounds), so that it is in truth far below 1e-6.
    """
    rng = np.random.default_rng(4)
    exceeded = sum(
        audit_mu(rng.normal(0.5, 1.0, 400), rng.normal(0.0, 1.0, 400), confidence=0.9).value > 0.5
        for _ in range(200)
    )
    assert exceeded <= 40


def test_scores_are_log_likelihood_ratios():
    rng = np.random.default_rng(5)
    outputs, value, other = rng.normal(size=(50, 3)), np.array([1.0, 0.0, 2.0]), np.zeros(3)
    logpdf = norm(scale=1.7).logpdf
    expected = (logpdf(outputs - value) - logpdf(outputs - other)).sum(axis=1)
    np.testing.assert_allclose(gaussian_score(outputs, value, other, 1.7), expected, atol=1e-12)
    logpdf = laplace(scale=1.7).logpdf
    expected = (logpdf(outputs - value) - logpdf(outputs - other)).sum(axis=1)
    np.testing.assert_allclose(laplace_score(outputs, value, other, 1.7), expected, atol=1e-12)
    distance = [np.sqrt(((outputs - center) ** 2).sum(axis=1)) for center in (value, other)]
    np.testing.assert_allclose(
        l2_laplace_score(outputs, value, other, 1.7), (distance[1] - distance[0]) / 1.7, atol=1e-12
    )


def test_scores_of_choices():
    p, q = np.array([0.5, 0.25, 0.25, 0.0, 0.0]), np.array([0.25, 0.25, 0.0, 0.5, 0.0])
    scores = choice_score([0, 1, 2, 3, 4, 0], p, q)
    np.testing.assert_array_equal(scores, [np.log(2.0), 0.0, np.inf, -np.inf, 0.0, np.log(2.0)])
    with pytest.raises(ValueError, match="vectors of one length"):
        choice_score([0], p, q[:3])


@pytest.mark.parametrize("scores", [np.zeros(5), np.zeros((50, 2)), np.full(50, np.nan)])
def test_bad_scores(scores):
    with pytest.raises(ValueError, match="scores must be"):
        audit_epsilon(scores, np.zeros(50))
    with pytest.raises(ValueError, match="neighbor_scores must be"):
        audit_mu(np.zeros(50), scores)


@pytest.mark.parametrize("settings", [{"delta": 1.0}, {"delta": -0.1}, {"confidence": 1.0}])
def test_bad_settings(settings):
    with pytest.raises(ValueError, match="must be"):
        audit_epsilon(np.zeros(50), np.zeros(50), **settings)


# ---- One run ------------------------------------------------------------------------------------


def randomized_response(rng, keep, canaries):
    """Coins, and each of them as it was told: the truth with probability `keep`."""
    coins = rng.random(canaries) < 0.5
    return coins, np.where(rng.random(canaries) < keep, coins, ~coins)


def test_one_run_is_the_root_of_a_binomial_tail():
    """Without a delta: a Clopper-Pearson bound of the probability that a guess is right."""
    coins = np.arange(500) % 2 == 0
    scores = np.where(np.arange(500) < 400, coins, ~coins) + 1e-4 * np.arange(500)
    result = audit_one_run(scores, coins, guesses=500, confidence=0.999)
    assert (result.guesses, result.correct) == (500, 400)
    low, _ = clopper_pearson(400, 500, 0.001)
    assert result.value == pytest.approx(math.log(low / (1.0 - low)), rel=1e-6)


def test_one_run_is_calibrated():
    """Randomized response is the worst case of the theorem: of audits with confidence 0.9, near one
    in ten passes the truth, and not more.

    The expected number in 400 is between 20 (the binomial law's steps) and 40; the limits are five
    standard deviations away. Without any privacy loss, the same.
    """
    rng = np.random.default_rng(7)
    for epsilon in (0.0, 1.5):
        keep = 1.0 / (1.0 + math.exp(-epsilon))
        passed = 0
        for _ in range(400):
            coins, told = randomized_response(rng, keep, 200)
            passed += audit_one_run(told, coins, guesses=200, confidence=0.9).value > epsilon
        assert 2 < passed < 70


def test_one_run_knows_of_delta():
    """A mechanism that tells a coin with probability delta, and else nothing, is (0, delta)-DP.

    Of 300 audits at confidence 0.9, each with 6 coins told on average, some 30 may pass epsilon = 0
    (the limit is six standard deviations away); an audit that forgot delta mostly does.
    """
    rng, delta = np.random.default_rng(8), 0.06
    passed = {delta: 0, 0.0: 0}
    for _ in range(300):
        coins = rng.random(100) < 0.5
        told = rng.random(100) < delta
        scores = np.where(told, np.where(coins, 9.0, -9.0), rng.standard_normal(100))
        for known in passed:
            found = audit_one_run(scores, coins, delta=known, guesses=8, confidence=0.9)
            passed[known] += found.value > 0.0
    assert passed[delta] < 60 < 150 < passed[0.0]


def test_one_run_bound_with_delta_against_enumeration():
    """Step 3 of the proof: the largest P(A + N >= v), as a linear program over joint laws."""
    from scipy.optimize import linprog
    from scipy.stats import binom

    guesses, correct, extra, error = 6, 5, 0.3, 0.4
    found = _one_run_epsilon(guesses, correct, extra, error)
    q = 1.0 / (1.0 + math.exp(-found))
    states = [(a, n) for a in range(guesses + 1) for n in range(guesses + 1)]
    reached = [-1.0 * (a + n >= correct) for a, n in states]
    law = [[1.0 * (a == k) for a, _ in states] for k in range(guesses + 1)]
    best = linprog(
        reached, A_ub=[[float(n) for _, n in states]], b_ub=[extra],
        A_eq=law, b_eq=binom.pmf(range(guesses + 1), guesses, q),
    )  # fmt: skip
    assert 0.0 < found < 5.0
    assert -best.fun == pytest.approx(error, rel=1e-6)


def test_one_run_tries_several_numbers_of_guesses():
    """Few canaries are told, and loudly: guessing at all of them finds little."""
    rng = np.random.default_rng(9)
    coins = rng.random(4000) < 0.5
    scores = rng.standard_normal(4000)
    scores[:60] += np.where(coins[:60], 9.0, -9.0)
    result = audit_one_run(scores, coins, confidence=0.999)
    assert result.guesses == 4000 >> 6 and result.value > 1.0
    assert audit_one_run(scores, coins, guesses=4000, confidence=0.999).value < 0.2


def test_bad_canaries():
    coins = np.zeros(50, dtype=bool)
    with pytest.raises(ValueError, match="scores must be"):
        audit_one_run(np.zeros(5), coins[:5])
    for members in (coins[:40], np.zeros(50)):
        with pytest.raises(ValueError, match="members must be a boolean vector"):
            audit_one_run(np.zeros(50), members)
    for settings in ({"delta": 1.0}, {"confidence": 0.0}, {"guesses": 51}, {"guesses": 0}):
        with pytest.raises(ValueError, match="must be"):
            audit_one_run(np.zeros(50), coins, **settings)
