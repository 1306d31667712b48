"""A second opinion: dp-accounting, which shares no code with dpfast."""

import builtins

import pytest

from dpfast.errors import UnsupportedEvent
from dpfast.privacy import (
    Budget,
    Event,
    GaussianEvent,
    L2LaplaceEvent,
    Ledger,
    PrivacyReport,
    budget_mu,
    to_dp_event,
)

COMMON = {"dimension": 3, "neighboring_relation": "replace_one", "where": "gradient"}


def test_without_the_library_the_message_names_the_extra(monkeypatch):
    original = builtins.__import__

    def fail(name, *args, **kwargs):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fail)
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
