"""Zero-concentrated differential privacy: the rhos add up, for Gaussian and pure releases alike."""

import math
from collections.abc import Iterable
from typing import ClassVar

from dpfast.privacy.accountants._contract import AdditiveAccountant
from dpfast.privacy.calibration import zcdp_delta, zcdp_epsilon
from dpfast.privacy.events import Event, GaussianEvent, L2LaplaceEvent


class ZCDPAccountant(AdditiveAccountant):
    """Composition in zero-concentrated differential privacy.

    A mu-GDP Gaussian release is (mu^2 / 2)-zCDP and an epsilon-DP release is (epsilon^2 / 2)-zCDP;
    the sum also bounds releases that are chosen along the way (Bun & Steinke 2016, Propositions 1.4
    and 1.6, Lemma 1.7; Feldman & Zrnic 2021 for adaptively chosen rho_i under a fixed bound).
    """

    name = "zcdp"
    unit = "rho"
    prices: ClassVar = {
        GaussianEvent: lambda event: 0.5 * event.mu * event.mu,
        L2LaplaceEvent: lambda event: 0.5 * event.epsilon * event.epsilon,
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
