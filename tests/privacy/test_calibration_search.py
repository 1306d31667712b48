"""The search for the smallest noise, against closed forms and round trips over the whole range."""

import math

import pytest

from dpfast.errors import UnsupportedEvent
from dpfast.privacy import (
    ACCOUNTANTS,
    Budget,
    ExponentialEvent,
    GaussianEvent,
    L2LaplaceEvent,
    Ledger,
    SubsampledGaussianEvent,
    gaussian_mu,
    smallest_noise,
    zcdp_rho,
)

COMMON = {"neighboring_relation": "replace_one", "where": "here"}
QUERY = {"sensitivity": 1.0, "dimension": 2, **COMMON}


def gaussians(noise):
    return [GaussianEvent(**QUERY, stddev=noise, count=4)]


def laplaces(noise):
    return [L2LaplaceEvent(**QUERY, scale=noise, count=4)]


def sampled(rate, count):
    def events_of(noise):
        yield SubsampledGaussianEvent(
            **QUERY,
            stddev=noise,
            batch=round(1_000_000 * rate),
            n_samples=1_000_000,
            sampling="fixed-size",
            count=count,
        )

    return events_of


def fits(events, budget, accountant="auto"):
    return Ledger(budget, accountant).can_afford(*events)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 50.0])
def test_closed_forms(epsilon, delta):
    budget = Budget(epsilon, delta)
    for accountant, mu in (
        ("gdp", gaussian_mu(epsilon, delta)),
        ("auto", gaussian_mu(epsilon, delta)),
        ("zcdp", math.sqrt(2 * zcdp_rho(epsilon, delta))),
    ):
        noise = smallest_noise(gaussians, budget, accountant)
        assert noise == pytest.approx(2 / mu, rel=1e-6)
        assert fits(gaussians(noise), budget, accountant)
    noise = smallest_noise(laplaces, budget, "pure")
    assert noise == pytest.approx(4 / epsilon, rel=1e-6)
    assert fits(laplaces(noise), budget, "pure")


@pytest.mark.parametrize("budget", [Budget(1.0), Budget(rho=0.3), Budget(mu=0.5)], ids=str)
def test_other_kinds_of_budgets(budget):
    events_of = laplaces if budget.kind == "pure" else gaussians
    noise = smallest_noise(events_of, budget)
    assert fits(events_of(noise), budget)
    assert not fits(events_of(noise * (1 - 1e-6)), budget)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "count"),
    [
        (1e-3, 1e-12, 1e-6, 10**9),
        (1e-3, 0.1, 0.02, 500),
        (1.0, 1e-6, 1e-6, 10**9),
        (50.0, 1e-12, 0.02, 500),
    ],
)
def test_prv_accountant_too_coarse_at_small_epsilon(epsilon, delta, rate, count):
    """Round trip epsilon -> noise -> epsilon at the corners: what was asked for is delivered."""
    budget, events_of = Budget(epsilon, delta), sampled(rate, count)
    noise = smallest_noise(events_of, budget)
    spent = ACCOUNTANTS["rdp"].epsilon(events_of(noise), delta)
    assert epsilon * (1 - 1e-4) < spent <= epsilon
    assert fits(events_of(noise), budget)
    assert not fits(events_of(noise * (1 - 1e-6)), budget)


def test_the_start_does_not_matter():
    budget = Budget(0.1, 1e-8)
    found = [smallest_noise(gaussians, budget, start=start) for start in (1e-9, 1.0, 1e9)]
    assert found == pytest.approx([found[0]] * 3, rel=5e-7)


def test_noise_that_cannot_help_and_noise_that_is_not_needed():
    def with_fixed_part(epsilon):
        return lambda noise: [*gaussians(noise), ExponentialEvent(epsilon=epsilon, **COMMON)]

    budget = Budget(1.0, 1e-6)
    noise = smallest_noise(with_fixed_part(0.5), budget)
    assert noise > smallest_noise(gaussians, budget)
    assert fits(with_fixed_part(0.5)(noise), budget)
    with pytest.raises(ValueError, match="no amount of noise"):
        smallest_noise(with_fixed_part(100.0), budget)
    with pytest.raises(ValueError, match="any amount of noise"):
        smallest_noise(lambda noise: [ExponentialEvent(epsilon=0.1, **COMMON)], budget)


def test_bad_arguments():
    with pytest.raises(TypeError, match="budget must be"):
        smallest_noise(gaussians, 1.0)
    with pytest.raises(ValueError, match="cannot account for"):
        smallest_noise(gaussians, Budget(1.0), "gdp")
    with pytest.raises(ValueError, match="accountant must be"):
        smallest_noise(gaussians, Budget(1.0), "moments")
    with pytest.raises(UnsupportedEvent, match="gaussian"):
        smallest_noise(gaussians, Budget(1.0))
    for start in (0.0, math.nan, math.inf, "1"):
        with pytest.raises((TypeError, ValueError), match="start must be"):
            smallest_noise(gaussians, Budget(1.0, 1e-6), start=start)
