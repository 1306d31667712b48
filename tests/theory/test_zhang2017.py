"""Bounds of Zhang et al. 2017 against runs of their algorithms on functions of the class."""

import math

import mpmath
import numpy as np
import pytest

from bench.papers import zhang2017 as bounds
from dpfast import Budget
from dpfast.privacy.papers import rrpsgd_noise_stddev
from dpfast.theory import zhang2017
from dpfast.theory.zhang2017 import Setting

N, BETA = 50, 4.0


def descend(curvature, pull, iterations, step):
    """Gradient descent from 0 on ½ Σ λ_j w_j² - p·w."""
    w = np.zeros(len(curvature))
    for _ in range(iterations):
        w = w - step * (curvature * w - pull)
    return w


@pytest.mark.parametrize("mu", [0.0, 0.3])
@pytest.mark.parametrize("iterations", [1, 7, 400])
@pytest.mark.parametrize("share", [0.4, 1.0], ids=["short", "longest"])
def test_worst_neighbors_reach_the_sensitivity_of_descent(mu, iterations, share):
    """Linear terms that differ by g along the flattest direction, and random ones inside."""
    rng = np.random.default_rng(1)
    step = share * 2.0 / (BETA + mu)
    bound = zhang2017.descent_sensitivity(iterations, step, mu, BETA, 2.0 / N)
    curvature = np.array([mu, 1.0, BETA])
    moved = descend(curvature, np.array([2.0 / N, 0.0, 0.0]), iterations, step)
    assert np.linalg.norm(moved) == pytest.approx(bound, rel=1e-9)
    for _ in range(20):
        pull = rng.standard_normal(3)
        moved = descend(curvature, 2.0 / N * pull / np.linalg.norm(pull), iterations, step)
        assert np.linalg.norm(moved) <= bound * (1 + 1e-9)
    if step * (BETA + mu) <= 1.0 or (mu == 0.0 and step * BETA <= 1.0):
        assert bound <= zhang2017.paper_sensitivity(iterations, mu, BETA, 1.0, N)


def test_sensitivity_is_that_of_a_plain_sum():
    for step in (0.1, 2.0 / (BETA + 0.3), 2.0 / BETA, 1.0 / BETA):
        c = zhang2017.descent_contraction(step, 0.3, BETA)
        plain = step * sum(c**t for t in range(37))
        assert zhang2017.descent_sensitivity(37, step, 0.3, BETA, 1.0) == pytest.approx(plain)
    assert zhang2017.descent_sensitivity(9, 0.25, 4.0, 4.0, 1.0) == 0.25  # c = 0


@pytest.mark.parametrize("beyond", [0.0, 3e-16, 9e-13])
def test_a_step_that_rounding_made_too_long_is_charged_for_what_it_adds(beyond):
    """Ten million steps of which each takes points apart by a hair."""
    step, iterations = 2.0 / BETA * (1.0 + beyond), 10**7
    with mpmath.workdps(50):
        c = mpmath.mpf(step) * BETA - 1
        total = (c**iterations - 1) / (c - 1) if c > 1 else mpmath.mpf(iterations)
        exact = float(step * total)
    found = zhang2017.descent_sensitivity(iterations, step, 0.0, BETA, 1.0)
    assert exact * (1.0 - 2.0**-50) <= found <= exact * (1.0 + 1e-9)


def test_steps_that_may_diverge_are_refused():
    with pytest.raises(ValueError, match="step must be <= 2 / smoothness"):
        zhang2017.descent_sensitivity(5, 0.51, 0.1, BETA, 1.0)
    with pytest.raises(ValueError, match="step must be < 2 / smoothness"):
        bounds.rrpsgd_gradient_bound(0.5, BETA, 1.0, 1.0, 10)
    with pytest.raises(ValueError, match="step must hold numbers"):
        bounds.stopping_weights([0.1, 0.5], BETA)
    with pytest.raises(ValueError, match="proved for Budget"):
        rrpsgd_noise_stddev(Budget(2.0, 1e-5), 1.0, 100)
    with pytest.raises(ValueError, match="proved for Budget"):
        rrpsgd_noise_stddev(Budget(rho=0.1), 1.0, 100)


@pytest.mark.parametrize("mu", [0.0, 0.05])
def test_descent_and_its_noise_stay_below_their_bounds(mu):
    rng = np.random.default_rng(2)
    curvature = np.array([mu or 0.001, 0.5, 2.0, BETA])
    best = rng.standard_normal(4)
    for step in (1.0 / (BETA + mu), 2.0 / (BETA + mu)):
        for iterations in (1, 10, 200):
            w = descend(curvature, curvature * best, iterations, step)
            gap = 0.5 * curvature @ (w - best) ** 2
            bound = zhang2017.descent_bound(iterations, step, mu, BETA, np.linalg.norm(best))
            assert gap <= bound * (1 + 1e-12)
    z = 0.3 * rng.standard_normal((4000, 4))
    rise = 0.5 * (z**2 @ curvature).mean()
    assert rise <= bounds.noise_bound(BETA, 4 * 0.3**2)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_rates_and_iterations_of_theorems_2_and_3(delta):
    """The stated T balances the optimization error and the noise, up to the hidden constant."""
    d, n, epsilon, distance = 10, 10_000, 0.5, 3.0
    width = d**2 if delta == 0.0 else d * math.log(1 / delta)
    convex = Setting(0.0, BETA, 1.0, distance, n, d, epsilon, delta)
    iterations = convex.iterations
    optimization = BETA * distance**2 / iterations
    noise = BETA * width * (iterations / (n * BETA * epsilon)) ** 2
    rate = bounds.convex_rate(convex)
    assert optimization == pytest.approx(rate, rel=0.1)
    assert noise == pytest.approx(rate, rel=0.2)

    mu = 0.1
    strongly = convex._replace(mu=mu)
    iterations, rate = strongly.iterations, bounds.strongly_convex_rate(strongly)
    step = 1.0 / (BETA + mu)
    assert zhang2017.descent_bound(iterations, step, mu, BETA, distance) <= rate
    # A weak budget needs no steps to speak of, and more budget needs more.
    assert strongly._replace(epsilon=1e-9).iterations == 1
    assert convex._replace(epsilon=1e-9).iterations == 1


@pytest.mark.parametrize("mu", [0.0, 0.1], ids=["convex", "strongly-convex"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_theorems_2_and_3_with_constants_bound_algorithm_1(mu, epsilon, delta):
    """Quadratics whose noise is all in the steepest direction are what the bound allows for."""
    rng = np.random.default_rng(4)
    d, n = 3, 3000
    curvature = np.full(d, BETA)
    curvature[0] = mu or 0.01
    best = np.array([2.0, -1.0, 1.0])
    distance = float(np.linalg.norm(best))
    setting = Setting(mu, BETA, 1.0, distance, n, d, epsilon, delta)
    bound, count = bounds.excess_risk_bound(setting), setting.iterations
    w = descend(curvature, curvature * best, count, 1.0 / (BETA + mu))
    scale = zhang2017.paper_sensitivity(count, mu, BETA, 1.0, n) / epsilon
    z = rng.standard_normal((2000, d))
    if delta == 0.0:
        z *= (rng.gamma(d, scale, 2000) / np.linalg.norm(z, axis=1))[:, None]
    else:
        z *= math.sqrt(2.0 * math.log(2.0 / delta)) * scale
    excess = 0.5 * ((w + z - best) ** 2 @ curvature).mean()
    assert excess <= bound
    assert excess >= 0.5 * bounds.noise_bound(BETA, float((z**2).sum(axis=1).mean()))


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_population_bound_holds_for_records_of_a_known_law(delta):
    """Linear losses ``-p·w``, p a coin along the flattest direction, and a ridge ``½ Σ λ w²``."""
    rng = np.random.default_rng(5)
    mu, n, epsilon, scale, count = 0.1, 200, 40.0, 1.5, 300
    curvature = np.array([mu, 1.0, BETA])
    setting = Setting(mu, BETA, scale, scale / mu, n, 3, epsilon, delta)
    bound, steps = bounds.population_bound(setting), setting.iterations
    assert bounds.population_bound(setting, failure=0.1) == pytest.approx(10.0 * bound)
    noise = zhang2017.paper_sensitivity(steps, mu, BETA, scale, n) / epsilon
    chance = 0.7
    best = np.array([scale * (2 * chance - 1) / mu, 0.0, 0.0])
    excess = []
    for _ in range(count):
        mean = scale * (2.0 * rng.binomial(n, chance) / n - 1.0)
        w = descend(curvature, np.array([mean, 0.0, 0.0]), steps, 1.0 / (BETA + mu))
        z = rng.standard_normal(3)
        if delta == 0.0:
            z *= rng.gamma(3, noise) / np.linalg.norm(z)
        else:
            z *= math.sqrt(2.0 * math.log(2.0 / delta)) * noise
        excess.append(0.5 * curvature @ (w + z - best) ** 2)
    assert np.mean(excess) <= bound
    # Neither so loose that nothing could fail it, nor without the sampling of the records.
    assert bound <= 10.0 * np.mean(excess)
    assert bounds.excess_risk_bound(setting) < bound


def test_population_rate_follows_from_theorem_2():
    n, d, epsilon, failure = 100_000, 20, 0.5, 0.05
    setting = Setting(0.01, 0.25, 1.0, 1.0, n, d, epsilon, math.exp(-1.0))
    rate = bounds.population_rate(setting, failure)
    risk = bounds.strongly_convex_rate(setting)
    assert rate == pytest.approx(math.sqrt(risk / (failure * 0.01)))
    wide = bounds.population_rate(setting._replace(dim=4 * d), failure)
    assert wide == pytest.approx(2.0 * rate)


def rounds(value_gradient, dim, steps, noise_stddev, seed):
    """Algorithm 2 on records drawn uniformly; the gradient's square at every step's start."""
    rng = np.random.default_rng(seed)
    w, squares, gaps = np.zeros(dim), [], []
    for step in steps:
        gap, full, single = value_gradient(w, rng)
        squares.append(full @ full)
        gaps.append(gap)
        w = w - step * (single + noise_stddev * rng.standard_normal(dim))
    return np.array(squares), np.array(gaps)


def test_rrpsgd_stays_below_theorems_5_and_6():
    """Sigmoid losses (not convex) for the gradient, logistic ones for the excess risk."""
    data = np.random.default_rng(3)
    X = data.standard_normal((40, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    noise, count = 0.3, 300

    def sigmoid(w, rng):
        value = 1.0 / (1.0 + np.exp(X @ w))
        slopes = -(value * (1.0 - value))[:, None] * X
        return value.mean(), slopes.mean(axis=0), slopes[rng.integers(40)]

    beta, lipschitz = 1.0 / (6.0 * math.sqrt(3.0)), 0.25
    variance = bounds.rrpsgd_variance(lipschitz, 3, noise)
    step = bounds.rrpsgd_step(count, beta, variance, math.sqrt(2 * 0.5 / beta))
    bound = bounds.rrpsgd_gradient_bound(step, beta, variance, 0.5, count)
    steps = np.full(count, step)
    assert bounds.rrpsgd_gradient_bound(steps, beta, variance, 0.5) == pytest.approx(bound)
    weights = bounds.stopping_weights(steps, beta)
    means = [weights @ rounds(sigmoid, 3, steps, noise, seed)[0] for seed in range(20)]
    assert np.mean(means) <= bound
    sure = bounds.rrpsgd_high_probability_bound(step, beta, lipschitz, 3, noise, 0.5, 0.01, count)
    assert max(means) <= sure
    assert sure > bound

    def logistic(w, rng):
        slopes = -X / (1.0 + np.exp(X @ w))[:, None] + 0.5 * w
        value = np.logaddexp(0.0, -X @ w).mean() + 0.25 * w @ w
        return value, slopes.mean(axis=0), slopes[rng.integers(40)]

    w = np.zeros(3)
    for _ in range(500):
        w = w - logistic(w, data)[1]
    least = logistic(w, data)[0]
    variance = bounds.rrpsgd_variance(1.0, 3, noise)
    step = bounds.rrpsgd_step(count, 0.75, variance, np.linalg.norm(w))
    weights = bounds.stopping_weights(np.full(count, step), 0.75)
    excess = [
        weights @ rounds(logistic, 3, np.full(count, step), noise, seed)[1] - least
        for seed in range(20)
    ]
    assert (
        0.0
        < np.mean(excess)
        <= bounds.rrpsgd_convex_bound(step, 0.75, variance, np.linalg.norm(w), count)
    )


def test_noise_of_algorithm_2_is_that_of_theorem_4():
    n, epsilon, delta = 1000, 0.5, 1e-6
    stddev = rrpsgd_noise_stddev(Budget(epsilon, delta), 2.0, n)
    # exp(-ε²‖z‖²/(8L² log(3n/δ) log(2/δ))) is a Gaussian of twice that in 2σ².
    exponent = 8 * 4.0 * math.log(3 * n / delta) * math.log(2 / delta) / epsilon**2
    assert 2.0 * stddev**2 == pytest.approx(exponent)
    setting = Setting(0.0, 1.0, 1.0, 1.0, n, 4, epsilon, delta)
    assert zhang2017.population_ridge(setting, 0.1) == pytest.approx(
        2 * 4**0.25 / math.sqrt(n * epsilon * 0.1)
    )
