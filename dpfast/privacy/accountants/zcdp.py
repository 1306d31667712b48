"""Zero-concentrated differential privacy: the rhos add up, for Gaussian and pure releases alike."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from dpfast.privacy.accountants._contract import AdditiveAccountant
from dpfast.privacy.conversions import zcdp_delta, zcdp_epsilon
from dpfast.privacy.events import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    GDPEvent,
    L2LaplaceEvent,
    LaplaceEvent,
    NoisyMaxEvent,
    SubsampledLaplaceEvent,
    ZCDPEvent,
)


def _of_gdp(event: Any) -> float:
    return 0.5 * float(event.mu * event.mu)


def _of_pure(event: Any) -> float:
    return 0.5 * float(event.epsilon * event.epsilon)


def _of_choice(event: Any) -> float:
    return float(event.epsilon * event.epsilon) / 8.0


class ZCDPAccountant(AdditiveAccountant):
    """Composition in zero-concentrated differential privacy.

    A mu-GDP release is (mu^2 / 2)-zCDP, an epsilon-DP release is (epsilon^2 / 2)-zCDP and a choice
    by the exponential mechanism (epsilon^2 / 8)-zCDP (Cesar & Rogers 2021, Lemma 3.4);
    the sum also bounds releases that are chosen along the way (Bun & Steinke 2016, Propositions 1.4
    and 1.6, Lemma 1.7; Feldman & Zrnic 2021 for adaptively chosen rho_i under a fixed bound).
    """

    name = "zcdp"
    unit = "rho"
    prices: ClassVar = {
        GaussianEvent: _of_gdp,
        GDPEvent: _of_gdp,
        L2LaplaceEvent: _of_pure,
        LaplaceEvent: _of_pure,
        SubsampledLaplaceEvent: _of_pure,
        NoisyMaxEvent: _of_pure,
        ExponentialEvent: _of_choice,
        ZCDPEvent: lambda event: event.rho,
    }

    def epsilon(self, events: Iterable[Event], delta: float) -> float:
        """Return the smallest epsilon at `delta`; infinite at ``delta=0`` with any event."""
        rho = self.total(events)
        if delta == 0.0:
            return math.inf if rho > 0.0 else 0.0
        return zcdp_epsilon(rho, delta)

    def delta(self, events: Iterable[Event], epsilon: float) -> float:
        """Return the smallest delta at `epsilon`."""
        return zcdp_delta(self.total(events), epsilon)
