"""The accountant of privacy loss distributions against formulas that share no code with it."""

import math

import mpmath as mp
import pytest

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
    SubsampledGaussianEvent,
    ZCDPEvent,
    gaussian_epsilon,
)
from dpfast.privacy.accountants import AUTOMATIC, pld

PLD = ACCOUNTANTS["pld"]
COMMON = {"neighboring_relation": "add_or_remove_one", "where": "here"}
QUERY = {"sensitivity": 1.0, "dimension": 1, **COMMON}


def sampled(noise, batch, count=1, n=1000):
    return SubsampledGaussianEvent(
        **QUERY, stddev=noise, batch=batch, n_samples=n, sampling="poisson", count=count
    )


def pure(epsilon, count=1):
    return L2LaplaceEvent(**QUERY, scale=1.0 / epsilon, count=count)


def sampled_gaussian_delta(epsilon, noise, rate):
    """Both directions' hockey-stick divergences of one Poisson-sampled release, in 30 digits.

    The densities' ratio ``1 - q + q exp((2 x - 1) / (2 s^2))`` rises, so each is a difference of
    tails beyond the one point where it passes the bound.
    """
    with mp.workdps(30):
        noise, rate, bound = mp.mpf(noise), mp.mpf(rate), mp.exp(mp.mpf(epsilon))
        point = mp.mpf("0.5") + noise**2 * mp.log((bound - 1 + rate) / rate)
        above = [mp.ncdf((center - point) / noise) for center in (0, 1)]
        remove = rate * above[1] + (1 - rate) * above[0] - bound * above[0]
        if rate <= 1 - 1 / bound:  # the ratio never falls to it
            return float(remove)
        point = mp.mpf("0.5") + noise**2 * mp.log((1 / bound - 1 + rate) / rate)
        below = [mp.ncdf((point - center) / noise) for center in (0, 1)]
        add = below[0] - bound * (rate * below[1] + (1 - rate) * below[0])
        return float(max(remove, add))


def test_without_the_library_the_message_names_the_extra(without_dp_accounting):
    pld._composed.cache_clear()
    pld._distribution.cache_clear()
    with pytest.raises(ImportError, match=r"dpfast\[accounting\]"):
        PLD.epsilon([pure(0.5)], 1e-6)
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.spend(sampled(5.0, 10))
    assert ledger.guarantee().accountant == "rdp"


def test_auto_never_takes_it():
    assert "pld" not in AUTOMATIC
    assert set(AUTOMATIC) == set(ACCOUNTANTS) - {"pld"}


def test_what_it_has_no_distribution_for():
    fixed = SubsampledGaussianEvent(
        **{**QUERY, "neighboring_relation": "replace_one"},
        stddev=1.0,
        batch=1,
        n_samples=10,
        sampling="fixed-size",
    )
    for event in (fixed, ZCDPEvent(rho=0.1, **COMMON)):
        assert not PLD.supports(event)
        with pytest.raises(UnsupportedEvent, match="accountant='rdp'"):
            PLD.epsilon([event], 1e-6)


def test_more_than_a_million_steps_are_refused_with_the_reason():
    event = sampled(1.0, 10, count=10**6 + 1)
    for call in (PLD.epsilon, PLD.delta):
        with pytest.raises(UnsupportedEvent, match=r"1,000,001, .* take minutes"):
            call([event], 0.1)
    ledger = Ledger(Budget(1.0, 1e-6), "pld")
    with pytest.raises(UnsupportedEvent):
        ledger.spend(event)
    assert ledger.events == ()


class TestPrices:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("dp_accounting")

    @pytest.mark.parametrize("delta", [1e-12, 1e-8, 1e-5, 1e-2])
    @pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 10.0])
    def test_gaussian_releases_cost_what_the_closed_form_says(self, mu, delta):
        exact = gaussian_epsilon(mu, delta)
        events = [
            GDPEvent(mu=0.6 * mu, **COMMON),
            GaussianEvent(**QUERY, stddev=2.5 / mu, count=4),
        ]
        epsilon = PLD.epsilon(events, delta)
        assert exact <= epsilon <= exact * (1 + 1e-4)
        assert PLD.delta(events, epsilon) <= delta

    @pytest.mark.parametrize("count", [2, 100, 3000])
    def test_its_transforms_are_never_below_the_closed_form(self, count):
        """All rows sampled: a plain Gaussian release, but composed by Fourier transforms."""
        event = sampled(30.0, 1000, count)
        for delta in (1e-12, 1e-10, 1e-8, 1e-6, 1e-3):
            exact = gaussian_epsilon(math.sqrt(count) / 30.0, delta)
            epsilon = PLD.epsilon([event], delta)
            assert exact <= epsilon
            if delta >= 1e-6:
                assert epsilon <= exact * (1 + 2e-3)

    @pytest.mark.parametrize(("epsilon", "count"), [(0.3, 30), (0.02, 1000), (0.003, 20_000)])
    def test_pure_releases_are_randomized_responses(self, epsilon, count):
        event = pure(epsilon, count)
        for delta in (1e-12, 1e-9, 1e-6, 1e-3):
            exact = ACCOUNTANTS["optimal"].epsilon([event], delta)
            price = PLD.epsilon([event], delta)
            assert exact * (1 - 1e-9) <= price
            if delta >= 1e-6:
                assert price <= exact * (1 + 3e-3)

    def test_the_library_alone_is_below_the_truth_where_delta_is_small(self):
        """So the allowance is needed."""
        event = pure(0.003, 20_000)
        distribution, error = pld._composed(PLD._kinds([event]))
        exact = ACCOUNTANTS["optimal"].delta([event], 3.5)
        assert distribution.get_delta_for_epsilon(3.5) + error >= exact
        assert abs(distribution.get_delta_for_epsilon(3.5) - exact) > 1e-15

    @pytest.mark.parametrize("noise", [0.7, 3.0])
    @pytest.mark.parametrize("rate", [0.001, 0.1, 0.9])
    def test_one_poisson_sampled_release_is_its_hockey_stick(self, noise, rate):
        event = sampled(noise, round(1000 * rate))
        for epsilon in (0.01, 0.3, 1.5):
            exact = sampled_gaussian_delta(epsilon, noise, rate)
            assert exact <= PLD.delta([event], epsilon) <= exact * (1 + 1e-3) + 1e-14
            # A rate that is a third too small would be caught.
            wrong = sampled_gaussian_delta(epsilon, noise, 2 * rate / 3)
            assert wrong < exact

    def test_laplace_noise_on_one_number_is_cheaper_than_randomized_response(self):
        one = LaplaceEvent(**QUERY, scale=1.0)
        wide = LaplaceEvent(**{**QUERY, "dimension": 2}, scale=1.0)
        for epsilon in (0.2, 0.7):
            assert PLD.delta([one], epsilon) == pytest.approx(
                -math.expm1(0.5 * (epsilon - 1.0)), rel=1e-3
            )
            keep = math.e / (1 + math.e)
            response = keep - math.exp(epsilon) * (1 - keep)
            assert PLD.delta([one], epsilon) < PLD.delta([wide], epsilon) <= response * (1 + 1e-9)
            assert PLD.delta([pure(1.0)], epsilon) == pytest.approx(response, rel=1e-9)

    def test_different_kinds_compose(self):
        """A pure and a Gaussian release: the mixture of two shifted curves."""
        events = [pure(0.75), GDPEvent(mu=0.5, **COMMON)]
        keep = 1 / (1 + math.exp(-0.75))
        for epsilon in (0.9, 2.0):
            gdp = [ACCOUNTANTS["gdp"].delta(events[1:], epsilon - x) for x in (0.75, -0.75)]
            exact = keep * gdp[0] + (1 - keep) * gdp[1]
            assert exact <= PLD.delta(events, epsilon) <= exact * (1 + 1e-3)

    def test_pure_releases_alone_need_no_delta(self):
        events = [pure(0.5), ExponentialEvent(epsilon=0.25, **COMMON)]
        assert PLD.epsilon(events, 0.0) == 0.75
        assert PLD.delta(events, 0.75) == 0.0
        assert PLD.epsilon([GDPEvent(mu=1.0, **COMMON)], 0.0) == math.inf

    def test_the_order_of_the_events_does_not_matter(self):
        events = [pure(0.1, 3), GDPEvent(mu=0.3, **COMMON), sampled(2.0, 10, 20)]
        assert PLD.epsilon(events, 1e-6) == PLD.epsilon(events[::-1], 1e-6)

    def test_the_prices_of_all_accountants_for_stochastic_gradients(self):
        """A thousand steps on 1 % of the rows."""
        event = sampled(1.0, 10, count=1000)
        prices = {
            name: accountant.epsilon([event], 1e-5)
            for name, accountant in ACCOUNTANTS.items()
            if accountant.supports(event)
        }
        assert sorted(prices, key=prices.__getitem__) == ["pld", "rdp"]
        assert prices["pld"] == pytest.approx(1.828, abs=2e-3)
        assert prices["rdp"] == pytest.approx(2.101, abs=2e-3)

    def test_a_ledger_of_it_keeps_its_budget(self):
        ledger = Ledger(Budget(1.0, 1e-5), "pld")
        event = sampled(1.5, 10, count=100)
        while ledger.can_afford(event):
            ledger.spend(event)
        guarantee = ledger.guarantee()
        assert guarantee.accountant == "pld"
        assert 0.9 < guarantee.epsilon <= 1.0
        assert ACCOUNTANTS["rdp"].epsilon(ledger.events, 1e-5) > 1.0
