"""A second opinion: dp-accounting, which shares no code with dpfast."""

import numpy as np
import pytest

from dpfast.errors import UnsupportedEvent
from dpfast.privacy import (
    ACCOUNTANTS,
    Budget,
    Event,
    ExponentialEvent,
    GaussianEvent,
    GDPEvent,
    L2LaplaceEvent,
    LaplaceEvent,
    Ledger,
    NoisyMaxEvent,
    PrivacyReport,
    SubsampledGaussianEvent,
    SubsampledLaplaceEvent,
    ZCDPEvent,
    budget_mu,
    to_dp_event,
)

COMMON = {"dimension": 3, "neighboring_relation": "replace_one", "where": "gradient"}


def test_without_the_library_the_message_names_the_extra(without_dp_accounting):
    with pytest.raises(ImportError, match=r"dpfast\[accounting\]"):
        Ledger(Budget(1.0)).to_dp_event()


class TestAgreement:
    @pytest.fixture(autouse=True)
    def library(self):
        self.dp_accounting = pytest.importorskip("dp_accounting")

    def epsilon(self, event, delta):
        from dp_accounting.pld import PLDAccountant

        relation = self.dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        return PLDAccountant(relation).compose(event).get_epsilon(delta)

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
    def test_gaussian_guarantees_are_confirmed(self, epsilon):
        budget = Budget(epsilon, 1e-6)
        mu = budget_mu(budget)
        ledger = Ledger(budget)
        for share, count in ((0.5, 1), (0.25, 2)):
            ledger.spend(
                GaussianEvent(sensitivity=mu * share**0.5, stddev=1.0, count=count, **COMMON)
            )
        # Its discretization only ever rounds up.
        confirmed = self.epsilon(ledger.to_dp_event(), 1e-6)
        assert ledger.guarantee().epsilon <= confirmed * (1 + 1e-6)
        assert confirmed <= 1.01 * epsilon
        report = PrivacyReport.from_ledger(ledger, reproducible=False)
        assert report.to_dp_event() == ledger.to_dp_event()

    def test_pure_releases_are_dominated(self):
        event = L2LaplaceEvent(sensitivity=0.5, scale=1.0, count=2, **COMMON)
        translated = to_dp_event([event])
        (inner,) = translated.events
        assert inner.count == 2
        p = inner.event.noise_parameter
        assert inner.event.num_buckets == 2
        # Keep with 1 - p/2, flip with p/2.
        assert (1 - p / 2) / (p / 2) == pytest.approx(2.718281828459045**0.5, rel=1e-12)

    def test_unknown_events_are_refused(self):
        class Unknown(Event):
            mechanism = "unknown"

        with pytest.raises(UnsupportedEvent, match="unknown"):
            to_dp_event([Unknown(neighboring_relation="replace_one", where="x")])

    def renyi(self, events, relation, orders):
        """Our and the library's Renyi divergences at integer orders."""
        from dp_accounting.rdp import RdpAccountant

        accountant = RdpAccountant(orders, self.dp_accounting.NeighboringRelation[relation])
        accountant.compose(to_dp_event(events))
        ours = [ACCOUNTANTS["rdp"].log_moment(events, a - 1.0) / (a - 1.0) for a in orders]
        return np.array(ours), np.array(accountant._rdp)

    @pytest.mark.parametrize(("noise", "batch"), [(0.8, 3), (1.0, 100), (6.0, 400)])
    def test_poisson_sampled_curves_agree_where_both_are_exact(self, noise, batch):
        events = [subsampled(SubsampledGaussianEvent, noise, batch, "poisson", count=30)]
        ours, theirs = self.renyi(events, "ADD_OR_REMOVE_ONE", [2, 3, 8, 33])
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)

    @pytest.mark.parametrize("delta", [1e-10, 1e-5])
    def test_epsilon_agrees_on_our_own_orders(self, delta):
        from dp_accounting.rdp import compute_epsilon

        event = subsampled(SubsampledGaussianEvent, 1.1, 20, "poisson", count=500)
        rdp = ACCOUNTANTS["rdp"]
        orders = 1.0 + 10.0 ** np.arange(0.5, 1.6, 0.002)
        curve = [rdp.log_moment([event], a - 1.0) / (a - 1.0) for a in orders]
        theirs, _ = compute_epsilon(orders, curve, delta)
        assert rdp.epsilon([event], delta) == pytest.approx(theirs, rel=1e-5)
        assert rdp.epsilon([event], delta) <= theirs * (1 + 1e-9)

    @pytest.mark.parametrize(("noise", "batch"), [(0.8, 3), (1.0, 100), (6.0, 400)])
    def test_our_fixed_size_curve_is_at_most_theirs(self, noise, batch):
        events = [subsampled(SubsampledGaussianEvent, noise, batch, "fixed-size")]
        ours, theirs = self.renyi(events, "REPLACE_ONE", [2, 3, 8, 33])
        assert np.all(ours <= theirs * (1 + 1e-9))
        assert np.all(ours > 0.05 * theirs)

    def test_laplace_and_zcdp_and_gdp_curves_agree(self):
        common = {key: COMMON[key] for key in ("neighboring_relation", "where")}
        events = [
            LaplaceEvent(sensitivity=0.7, scale=1.0, **COMMON),
            ZCDPEvent(rho=0.3, **common),
            GDPEvent(mu=0.4, count=3, **common),
        ]
        ours, theirs = self.renyi(events, "ADD_OR_REMOVE_ONE", [2, 3, 8, 33])
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)

    def test_choices_are_dominated(self):
        common = {key: COMMON[key] for key in ("neighboring_relation", "where")}
        events = [
            ExponentialEvent(epsilon=0.5, **common),
            NoisyMaxEvent(
                sensitivity=1.0,
                scale=3.0,
                candidates=9,
                noise_kind="gumbel",
                monotone=True,
                **common,
            ),
        ]
        ours, theirs = self.renyi(events, "REPLACE_ONE", [2, 3, 8, 33])
        assert np.all(ours < theirs)

    @pytest.mark.parametrize("delta", [1e-8, 1e-5])
    def test_poisson_sampling_costs_less_than_twice_its_privacy_loss_distribution(self, delta):
        """The distribution's answer is all but exact; Renyi orders lose a lot for few steps."""
        event = subsampled(SubsampledGaussianEvent, 1.0, 10, "poisson", count=100)
        exact = self.epsilon(to_dp_event([event]), delta)
        assert 0.999 * exact < ACCOUNTANTS["rdp"].epsilon([event], delta) < 2.0 * exact

    def test_sampled_laplace_noise(self):
        for sampling, kind in (
            ("poisson", self.dp_accounting.PoissonSampledDpEvent),
            ("fixed-size", self.dp_accounting.SampledWithoutReplacementDpEvent),
        ):
            event = subsampled(SubsampledLaplaceEvent, 2.0, 10, sampling)
            (translated,) = to_dp_event([event]).events
            assert isinstance(translated, kind)
            assert translated.event == self.dp_accounting.LaplaceDpEvent(2.0)


def subsampled(kind, noise, batch, sampling, count=1):
    relation = {"poisson": "add_or_remove_one", "fixed-size": "replace_one"}[sampling]
    return kind(
        **{"stddev" if kind is SubsampledGaussianEvent else "scale": noise},
        sensitivity=1.0,
        batch=batch,
        n_samples=1000,
        sampling=sampling,
        count=count,
        **{**COMMON, "neighboring_relation": relation},
    )
