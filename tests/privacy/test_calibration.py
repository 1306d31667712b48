"""Conversions against arithmetic of many digits, and calibrations from both sides."""

import math
import warnings

import mpmath
import numpy as np
import pytest

from dpfast.privacy import (
    Budget,
    budget_epsilon,
    budget_mu,
    budget_rho,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)

EPSILONS = [10.0**k for k in range(-6, 7)]
DELTAS = [1e-300, 1e-100, 1e-30, 1e-12, 1e-8, 1e-6, 1e-3, 0.1]


def exact_gaussian_delta(epsilon, mu):
    """The definition, with enough digits to survive its cancellation."""
    with mpmath.workdps(700):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        t = epsilon / mu - mu / 2
        tail = [mpmath.erfc(x / mpmath.sqrt(2)) / 2 for x in (t, t + mu)]
        return tail[0] - mpmath.exp(epsilon) * tail[1]


@pytest.mark.parametrize("epsilon", [0.0, *EPSILONS])
def test_gaussian_delta_is_accurate_in_relative_terms(epsilon):
    for delta in [*DELTAS, 0.5, 0.99]:
        mu = gaussian_mu(epsilon, delta)
        for factor in (0.999, 1.0, 1.3):
            exact = exact_gaussian_delta(epsilon, mu * factor)
            if exact > 1e-300:
                assert abs(gaussian_delta(epsilon, mu * factor) / exact - 1) < 1e-10


@pytest.mark.parametrize("mu", [1e-12, 1e-9, 1e-6, 1e-3, 1.0 - 1e-9, 1.0, 1.0 + 1e-9, 30.0, 900.0])
def test_gaussian_delta_over_scales_of_mu(mu):
    """Also at small mu with moderate t, where the two terms agree to many digits."""
    for t in (-0.5 * mu, 0.0, 0.1, 1.0, 6.0, 20.0, 36.0):
        epsilon = mu * (t + 0.5 * mu)
        exact = exact_gaussian_delta(epsilon, mu)
        assert abs(gaussian_delta(epsilon, mu) / exact - 1) < 1e-9


def test_the_ends():
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_delta(0.0, 1e3) == 1.0
    assert gaussian_delta(1e6, 1e-3) == gaussian_delta(1e308, 1e-300) == 0.0
    assert gaussian_delta(1.0, 1e200) == gaussian_delta(1.0, math.inf) == 1.0
    assert zcdp_delta(math.inf, 1.0) == 1.0
    assert zcdp_delta(0.0, 0.0) == 0.0
    assert gaussian_epsilon(0.0, 1e-6) == zcdp_epsilon(0.0, 1e-6) == 0.0
    assert gaussian_epsilon(math.inf, 1e-6) == zcdp_epsilon(math.inf, 1e-6) == math.inf


@pytest.mark.parametrize("mu", [1e4, 1e6, 1e7, 1e100])
def test_gaussian_epsilon_beyond_any_budget(mu):
    epsilon = gaussian_epsilon(mu, 1e-6)
    assert epsilon == pytest.approx(0.5 * mu * mu, rel=1e-2)
    if mu <= 1e7:
        assert exact_gaussian_delta(epsilon, mu) <= 1e-6


@pytest.mark.parametrize("delta", [*DELTAS, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.0, *EPSILONS])
def test_gaussian_mu_is_the_largest_that_is_safe(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert delta * (1.0 - 1e-5) <= gaussian_delta(epsilon, mu) <= delta
    assert exact_gaussian_delta(epsilon, mu) <= delta
    assert exact_gaussian_delta(epsilon, mu * (1.0 + 1e-6)) > delta


@pytest.mark.parametrize("delta", [*DELTAS, 0.5])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_what_was_calibrated_costs_at_most_what_it_was_calibrated_to(epsilon, delta):
    """Exactly, and also after being cut into parts whose squares are added again."""
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_epsilon(mu, delta) <= epsilon
    for parts in (3, 7, 1000):
        again = math.sqrt(math.fsum([(mu / math.sqrt(parts)) ** 2] * parts))
        assert gaussian_epsilon(again, delta) <= epsilon


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 1.0, 10.0, 300.0])
def test_gaussian_epsilon_is_the_smallest_that_is_safe(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert exact_gaussian_delta(epsilon, mu) <= delta
    if epsilon > 0.0:
        assert exact_gaussian_delta(epsilon * (1.0 - 1e-8) - 1e-9 * mu, mu) > delta


def test_the_analytic_gaussian_needs_less_noise_than_the_classical_formula():
    for epsilon in (0.1, 0.5, 1.0):
        for delta in (1e-10, 1e-6, 1e-3):
            assert (
                1.0 / gaussian_mu(epsilon, delta) < math.sqrt(2 * math.log(1.25 / delta)) / epsilon
            )


@pytest.mark.parametrize("delta", [1e-30, 1e-12, 1e-6, 1e-2, 0.3])
@pytest.mark.parametrize("rho", [1e-10, 1e-5, 1e-2, 0.5, 10.0, 1e4])
def test_zcdp_conversion_is_attained_and_optimal(rho, delta):
    """Against Proposition 12 of Canonne, Kamath & Steinke on a fine grid of orders."""
    excess = 10.0 ** np.arange(-8.0, 12.0, 1e-4)
    order = 1.0 + excess

    def grid_log_delta(epsilon):
        log_delta = excess * (order * rho - epsilon) - np.log(excess)
        return min(0.0, np.min(log_delta - order * np.log1p(1.0 / excess)))

    epsilon = zcdp_epsilon(rho, delta)
    assert epsilon <= rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))
    for value in (0.0, epsilon, 0.5 * epsilon, 2.0 * epsilon):
        expected = grid_log_delta(value)
        if expected > -690.0:
            assert math.log(zcdp_delta(rho, value)) == pytest.approx(expected, abs=1e-5)
    if epsilon > 0.0:
        assert zcdp_delta(rho, epsilon) == pytest.approx(delta, rel=1e-6)
    else:
        assert zcdp_delta(rho, 0.0) <= delta


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_zcdp_rho_is_the_largest_that_is_safe(epsilon):
    for delta in (1e-300, 1e-12, 1e-6, 0.1):
        rho = zcdp_rho(epsilon, delta)
        assert zcdp_epsilon(rho, delta) <= epsilon < zcdp_epsilon(rho * (1 + 1e-6), delta)


@pytest.mark.parametrize("epsilon", [1e-150, 1e-170, 1e-300])
def test_zcdp_rho_of_an_epsilon_whose_square_is_no_number(epsilon):
    # What is left is bought by delta.
    assert zcdp_rho(epsilon, 1e-9) == pytest.approx(zcdp_rho(1e-100, 1e-9))
    for smaller, delta in ((5e-324, 1e-9), (epsilon, 1e-300)):
        with pytest.raises(ValueError, match="its rho would be below 1e-300"):
            zcdp_rho(smaller, delta)


def test_zcdp_is_never_cheaper_than_the_exact_gaussian():
    for mu in (1e-3, 0.1, 1.0, 10.0):
        for delta in (1e-12, 1e-6, 1e-2):
            assert gaussian_epsilon(mu, delta) <= zcdp_epsilon(mu**2 / 2, delta)


def test_what_a_budget_buys():
    assert budget_mu(Budget(1.0, 1e-6)) == gaussian_mu(1.0, 1e-6)
    assert budget_mu(Budget(mu=2.0)) == pytest.approx(2.0, rel=1e-9)
    assert budget_mu(Budget(rho=2.0)) == pytest.approx(2.0, rel=1e-9)
    assert budget_mu(Budget(1.0, 1e-6), "zcdp") == math.sqrt(2 * zcdp_rho(1.0, 1e-6))
    assert budget_mu(Budget(1.0, 1e-6), "zcdp") < budget_mu(Budget(1.0, 1e-6))
    assert budget_rho(Budget(rho=2.0)) == pytest.approx(2.0, rel=1e-9)
    assert budget_rho(Budget(1.0, 1e-6)) == zcdp_rho(1.0, 1e-6)
    for budget in (Budget(3.0), Budget(3.0, 1e-6), Budget(rho=4.5)):
        assert budget_epsilon(budget) == pytest.approx(3.0, rel=1e-9)


@pytest.mark.parametrize(
    ("function", "budget"),
    [
        (budget_mu, Budget(1.0)),
        (budget_rho, Budget(1.0)),
        (budget_rho, Budget(mu=1.0)),
        (budget_epsilon, Budget(mu=1.0)),
    ],
)
def test_what_a_budget_does_not_buy(function, budget):
    with pytest.raises(ValueError, match=r"Budget\(.*Give"):
        function(budget)


def test_pure_accounting_buys_no_gaussian_noise():
    with pytest.raises(ValueError, match="no pure guarantee"):
        budget_mu(Budget(1.0, 1e-6), "pure")


@pytest.mark.parametrize("bad", [-1.0, math.nan, "1", True, None])
@pytest.mark.parametrize(
    "call",
    [
        lambda x: gaussian_delta(x, 1.0),
        lambda x: gaussian_delta(1.0, x),
        lambda x: gaussian_epsilon(x, 1e-6),
        lambda x: gaussian_epsilon(1.0, x),
        lambda x: gaussian_mu(x, 1e-6),
        lambda x: gaussian_mu(1.0, x),
        lambda x: zcdp_delta(x, 1.0),
        lambda x: zcdp_delta(1.0, x),
        lambda x: zcdp_epsilon(x, 1e-6),
        lambda x: zcdp_rho(x, 1e-6),
        lambda x: zcdp_rho(1.0, x),
    ],
)
def test_bad_arguments(call, bad):
    with pytest.raises((TypeError, ValueError), match="must be"):
        call(bad)


@pytest.mark.parametrize("rho", [5e-324, 1e-310, 1e-306, 1e-300])
def test_hardly_any_rho_has_hardly_any_epsilon(rho):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0.0 <= zcdp_epsilon(rho, 1e-6) <= 1e-140
        assert all(0.0 <= zcdp_delta(rho, epsilon) <= 1e-140 for epsilon in (0.0, 1e-300, 1.0))


@pytest.mark.parametrize("delta", [0.0, 1.0, 1e-310])
def test_a_delta_of_zero_or_one_has_no_conversion(delta):
    for function in (gaussian_epsilon, gaussian_mu, zcdp_epsilon, zcdp_rho):
        with pytest.raises(ValueError, match="delta"):
            function(1.0, delta)
