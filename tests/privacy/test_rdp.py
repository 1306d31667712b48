"""The Renyi accountant: its curves against integrals of densities, and their conversion."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from reference import renyi as slow

from dpfast.errors import UnsupportedEvent
from dpfast.privacy import (
    ACCOUNTANTS,
    Budget,
    ExponentialEvent,
    GaussianEvent,
    GDPEvent,
    L2LaplaceEvent,
    LaplaceEvent,
    Ledger,
    NoisyMaxEvent,
    SubsampledGaussianEvent,
    SubsampledLaplaceEvent,
    ZCDPEvent,
    gaussian_epsilon,
    renyi,
    zcdp_delta,
    zcdp_epsilon,
)

RDP = ACCOUNTANTS["rdp"]
COMMON = {"neighboring_relation": "replace_one", "where": "here"}
QUERY = {"sensitivity": 1.0, "dimension": 1, **COMMON}
RELATION = {"poisson": "add_or_remove_one", "fixed-size": "replace_one"}


def sampled(noise, batch=1, n=100, sampling="poisson", count=1, kind=SubsampledGaussianEvent):
    name = "stddev" if kind is SubsampledGaussianEvent else "scale"
    return kind(
        **{**QUERY, name: noise, "neighboring_relation": RELATION[sampling]},
        batch=batch,
        n_samples=n,
        sampling=sampling,
        count=count,
    )


def divergence(event, order):
    return RDP.log_moment([event], order - 1.0) / (order - 1.0)


@pytest.mark.parametrize("rate", [1e-6, 0.3])
@pytest.mark.parametrize(("noise", "order"), [(0.5, 2.5), (1.0, 1.125), (8.0, 40.5)])
class TestSubsampledGaussianCurve:
    def test_poisson_is_the_mixture_of_densities(self, noise, order, rate):
        got = renyi.subsampled_gaussian_log_moment(order - 1, 1 / noise, rate, "poisson")
        expected = (order - 1) * slow.gaussian_mixture(order, noise, rate)
        assert got == pytest.approx(float(expected), rel=3e-9)

    def test_fixed_size_is_the_integral_over_hockey_sticks(self, noise, order, rate):
        got = renyi.subsampled_gaussian_log_moment(order - 1, 1 / noise, rate, "fixed-size")
        expected = (order - 1) * slow.fixed_size_gaussian(order, noise, rate)
        assert got == pytest.approx(float(expected), rel=3e-9)


def test_orders_next_to_one_and_rates_next_to_nothing_keep_their_digits():
    """There the moment is 1 + 1e-24, and to second order it is the chi-squared divergence's."""
    mu, rate = 0.5, 1e-10
    for excess in (1e-5, 0.1, 3.0):
        got = renyi.subsampled_gaussian_log_moment(excess, mu, rate, "poisson")
        expected = 0.5 * excess * (1 + excess) * rate**2 * math.expm1(mu * mu)
        assert got == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("sampling", RELATION)
def test_sampling_all_rows_or_almost_all_is_the_whole_release(sampling):
    for excess in (0.01, 1.0, 50.0):
        whole = renyi.gaussian_log_moment(excess, 0.7)
        assert renyi.subsampled_gaussian_log_moment(excess, 0.7, 1.0, sampling) == whole
        almost = renyi.subsampled_gaussian_log_moment(excess, 0.7, 1 - 1e-9, sampling)
        assert almost == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("sampling", RELATION)
@pytest.mark.parametrize("mu", [1e-4, 0.3, 3.0, 40.0])
def test_log_moments_are_convex_in_the_order_and_monotone_in_the_rate(mu, sampling):
    excess = np.array([0.01, 0.1, 1.0, 4.0, 16.0, 64.0, 1e3, 1e4])
    table = np.array(
        [
            [renyi.subsampled_gaussian_log_moment(h, mu, q, sampling) for h in excess]
            for q in (1e-4, 1e-2, 0.2, 1.0)
        ]
    )
    assert np.all(np.diff(table, axis=0) > -1e-8 * table[1:])
    slopes = np.diff(table, axis=1) / np.diff(excess)
    assert np.all(np.diff(slopes, axis=1) >= -1e-7 * slopes[:, 1:])


def all_replaced(n, size, noisy):
    """Laws of a sampled sum of bits on every pair of neighbors: noisy maps a sum to a law."""
    for rows in itertools.product((0, 1), repeat=n - 1):
        pair = []
        for last in (0, 1):
            samples = itertools.combinations((*rows, last), size)
            pair.append(np.mean([noisy(sum(sample)) for sample in samples], axis=0))
        yield pair
        yield pair[::-1]


@pytest.mark.parametrize("order", [1.05, 2.0, 7.5, 60.0])
def test_the_fixed_size_bound_holds_for_every_small_discrete_example(order):
    """Randomized response of the sampled sum's parity, a pair of which the base's H is attained."""
    epsilon = 1.3
    keep = 1 / (1 + math.exp(-epsilon))

    def noisy(total):
        return np.array([keep, 1 - keep]) if total % 2 else np.array([1 - keep, keep])

    n, size = 5, 2
    exact = max(float(slow.discrete(order, *pair)) for pair in all_replaced(n, size, noisy))
    rate = size / n
    bound = renyi.subsampled_laplace_log_moment(order - 1, epsilon, rate, dimension=2)
    whole = renyi.pure_log_moment(order - 1, epsilon) / (order - 1)
    assert exact <= bound / (order - 1) < whole
    # A sampling rate that is a third too small would be caught.
    wrong = renyi.subsampled_laplace_log_moment(order - 1, epsilon, rate * 2 / 3, dimension=2)
    assert exact > wrong / (order - 1)


@pytest.mark.parametrize("order", [1.05, 2.0, 7.5, 60.0])
def test_the_fixed_size_bound_holds_for_gaussian_noise(order):
    """All pairs of four bits, two of them sampled, on a grid of outcomes."""
    noise = 0.8
    z = np.arange(-8.0, 10.0, 0.05)

    def noisy(total):
        law = np.exp(-0.5 * ((z - total) / noise) ** 2)
        return law / law.sum()

    exact = max(float(slow.discrete(order, *pair)) for pair in all_replaced(4, 2, noisy))
    event = sampled(noise, batch=2, n=4, sampling="fixed-size")
    assert exact <= divergence(event, order) < order / (2 * noise**2)


@pytest.mark.parametrize("epsilon", [1e-4, 0.7, 9.0])
@pytest.mark.parametrize("order", [1.0001, 1.5, 2.0, 30.0])
class TestPureCurves:
    def test_laplace(self, epsilon, order):
        event = LaplaceEvent(**{**QUERY, "sensitivity": epsilon}, scale=1.0)
        expected = float(slow.laplace(order, epsilon))
        assert divergence(event, order) == pytest.approx(expected, rel=1e-8)

    def test_others_are_randomized_response(self, epsilon, order):
        with mpmath.workdps(40):
            keep = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
            law = [keep, 1 - keep]
            expected = float(slow.discrete(mpmath.mpf(order), law, law[::-1]))
        for event in (
            L2LaplaceEvent(**{**QUERY, "sensitivity": epsilon}, scale=1.0),
            noisy_max(epsilon, "laplace"),
            noisy_max(epsilon, "exponential"),
        ):
            assert divergence(event, order) == pytest.approx(expected, rel=1e-8)

    def test_a_choice_is_the_worst_pair_of_its_range(self, epsilon, order):
        with mpmath.workdps(40):
            expected = max(
                slow.discrete(mpmath.mpf(order), *bounded_range_pair(epsilon, mpmath.mpf(k) / 200))
                for k in range(1, 200)
            )
        for event in (ExponentialEvent(epsilon=epsilon, **COMMON), noisy_max(epsilon, "gumbel")):
            got = divergence(event, order)
            assert float(expected) * (1 - 1e-12) <= got < float(expected) * (1 + 1e-3)
            assert got <= order * epsilon**2 / 8

    def test_the_order_of_the_prices(self, epsilon, order):
        choice, laplace, pure = (
            f(order - 1, epsilon)
            for f in (renyi.range_log_moment, renyi.laplace_log_moment, renyi.pure_log_moment)
        )
        assert max(choice, laplace) <= pure * (1 + 1e-8)
        # epsilon tanh(epsilon / 2), the divergence at order 1, times the order.
        zcdp = order * epsilon * math.tanh(epsilon / 2)
        assert pure / (order - 1) <= min(zcdp, epsilon) * (1 + 1e-8)
        sampled_ = renyi.subsampled_laplace_log_moment(order - 1, epsilon, 0.3, 1)
        wide = renyi.subsampled_laplace_log_moment(order - 1, epsilon, 0.3, 5)
        amplified = sampled(1 / epsilon, 3, 10, kind=SubsampledLaplaceEvent).epsilon
        assert sampled_ <= wide * (1 + 1e-8)
        assert wide <= renyi.pure_log_moment(order - 1, amplified) * (1 + 1e-8)


def bounded_range_pair(epsilon, share):
    top = epsilon * share
    ratios = [mpmath.exp(top), mpmath.exp(top - epsilon)]
    mass = (1 - ratios[1]) / (ratios[0] - ratios[1])
    Q = [mass, 1 - mass]
    return [q * r for q, r in zip(Q, ratios, strict=True)], Q


def noisy_max(epsilon, noise_kind):
    return NoisyMaxEvent(
        sensitivity=epsilon,
        scale=2.0,
        candidates=3,
        noise_kind=noise_kind,
        monotone=False,
        **COMMON,
    )


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("order", [1.2, 3.0, 20.0])
def test_the_subsampled_laplace_curve_covers_poisson_sampling_in_both_directions(scale, order):
    """On bins of outcomes, small ones: binning only lowers a divergence."""
    edges = np.arange(-800, 805) / 400.0 * 20.0 * scale
    shift = edges[820]

    def binned(center):
        near = np.minimum(np.abs(edges[1:] - center), np.abs(edges[:-1] - center))
        return -0.5 * np.expm1(-np.diff(edges) / scale) * np.exp(-near / scale)

    Q, P = binned(0.0), binned(shift)
    mixture = 0.25 * P + 0.75 * Q
    exact = max(
        np.logaddexp.reduce(order * np.log(a) + (1 - order) * np.log(b)) / (order - 1)
        for a, b in ((mixture, Q), (Q, mixture))
    )
    bound = renyi.subsampled_laplace_log_moment(order - 1, shift / scale, 0.25, 1) / (order - 1)
    assert exact <= bound * (1 + 1e-6)
    assert bound < 2.0 * exact


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
@pytest.mark.parametrize("rho", [1e-9, 1e-4, 0.3, 30.0])
def test_gaussian_releases_cost_what_zcdp_says(rho, delta):
    mu = math.sqrt(2 * rho)
    for event in (
        GaussianEvent(**QUERY, stddev=1 / mu),
        GDPEvent(mu=mu, **COMMON),
        ZCDPEvent(rho=rho, **COMMON),
    ):
        epsilon = RDP.epsilon([event], delta)
        assert epsilon == pytest.approx(zcdp_epsilon(rho, delta), rel=1e-9)
        assert epsilon >= gaussian_epsilon(mu, delta)
        assert RDP.delta([event], epsilon) == pytest.approx(zcdp_delta(rho, epsilon), rel=1e-6)


@pytest.mark.parametrize("sampling", RELATION)
@pytest.mark.parametrize(("noise", "count"), [(0.7, 100), (50.0, 10**9)])
def test_the_conversion_finds_the_best_of_many_orders(noise, count, sampling):
    event = sampled(noise, sampling=sampling, count=count)
    excess = 10.0 ** np.linspace(-0.5, 2.5, 121)
    moments = np.array([RDP.log_moment([event], h) for h in excess])
    for delta in (1e-12, 1e-5):
        terms = moments - math.log(delta) - np.log1p(excess)
        grid = np.min(terms / excess - np.log1p(1 / excess))
        epsilon = RDP.epsilon([event], delta)
        assert grid * (1 - 2e-2) <= epsilon <= grid * (1 + 1e-9)
        assert RDP.delta([event], epsilon) == pytest.approx(delta, rel=1e-6)


def test_moments_accountant_that_stops_at_order_32():
    """So no epsilon below 0.576 at delta=1e-8: ours follows the noise to any epsilon."""
    for noise in (1e2, 1e3, 1e4):
        event = sampled(noise, batch=10, n=100, count=100)
        limit = zcdp_epsilon(100 * 0.1**2 / (2 * noise**2), 1e-8)
        assert RDP.epsilon([event], 1e-8) == pytest.approx(limit, rel=1e-2)
        assert RDP.epsilon([event], 1e-8) < 0.05


def test_accounting_that_assumes_poisson_while_the_code_shuffles():
    """The sampling is part of the event, goes with one relation, and has its own price."""
    poisson, fixed = (sampled(1.0, sampling=s, count=1000) for s in RELATION)
    assert RDP.epsilon([poisson], 1e-6) < RDP.epsilon([fixed], 1e-6)
    with pytest.raises(ValueError, match="sampling='poisson' must go with"):
        SubsampledGaussianEvent(**QUERY, stddev=1.0, batch=1, n_samples=10, sampling="poisson")
    with pytest.raises(ValueError, match="sampling must be one of"):
        SubsampledGaussianEvent(**QUERY, stddev=1.0, batch=1, n_samples=10, sampling="shuffle")


def test_a_ledger_of_many_steps_uses_its_budget_up():
    budget = Budget(1.0, 1e-6)
    ledger = Ledger(budget)
    event = sampled(1.0, batch=1, n=1000, sampling="fixed-size", count=50)
    steps = 0
    while ledger.can_afford(event):
        ledger.spend(event)
        steps += 1
    spent = RDP.epsilon([event] * steps, 1e-6)
    assert spent <= 1.0 < RDP.epsilon([event] * (steps + 1), 1e-6)
    assert ledger.guarantee().epsilon == pytest.approx(spent, rel=1e-9)
    assert ledger.guarantee().accountant == "rdp"


def test_equal_steps_cost_the_same_work_however_many(monkeypatch):
    event = sampled(3.0, batch=7, n=1003)
    renyi.subsampled_gaussian_log_moment.cache_clear()
    RDP.spent([event], Budget(5.0, 1e-6))
    computed = renyi.subsampled_gaussian_log_moment.cache_info().misses
    assert computed < 60
    for count in range(2, 30):
        many = sampled(3.0, batch=7, n=1003, count=count)
        RDP.spent([many], Budget(5.0, 1e-6))
    assert renyi.subsampled_gaussian_log_moment.cache_info().misses < 2 * computed


def test_nothing_costs_nothing_and_delta_zero_has_no_epsilon():
    assert RDP.epsilon([], 1e-6) == RDP.epsilon([], 0.0) == RDP.delta([], 0.0) == 0.0
    assert RDP.epsilon([sampled(1.0)], 0.0) == math.inf
    assert RDP.delta([sampled(1e-3)], 0.0) == 1.0


@pytest.mark.parametrize("noise", [1e-8, 1e-3, 1e12])
@pytest.mark.parametrize("sampling", RELATION)
def test_absurd_noise_gives_a_number(noise, sampling):
    epsilon = RDP.epsilon([sampled(noise, sampling=sampling)], 1e-12)
    assert 0.0 <= epsilon <= zcdp_epsilon(0.5 / noise**2, 1e-12) * (1 + 1e-5) + 1e-9


def test_a_delta_that_buys_nothing_is_not_used():
    event = L2LaplaceEvent(**QUERY, scale=2.0)
    assert RDP.epsilon([event], 1e-6) == 0.5
    many = L2LaplaceEvent(**QUERY, scale=100.0, count=1000)
    assert RDP.epsilon([many], 1e-6) < 2.0


def test_other_events_are_refused():
    class Unknown(GaussianEvent):
        mechanism = "unknown"

    event = Unknown(**QUERY, stddev=1.0)
    assert not RDP.supports(event)
    for call in (RDP.epsilon, RDP.delta):
        with pytest.raises(UnsupportedEvent, match="unknown"):
            call([event], 0.1)
