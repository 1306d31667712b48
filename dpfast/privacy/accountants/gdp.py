"""Gaussian differential privacy: exact for any number of Gaussian releases."""

import math
from collections.abc import Iterable
from typing import ClassVar

from dpfast.privacy.accountants._contract import AdditiveAccountant
from dpfast.privacy.conversions import gaussian_delta, gaussian_epsilon
from dpfast.privacy.events import Event, GaussianEvent, GDPEvent


class GaussianAccountant(AdditiveAccountant):
    """Composition in Gaussian differential privacy: ``mu = sqrt(sum mu_i^2)``.

    Releases that are mu_i-GDP are mu-GDP together, and nothing smaller holds (Dong, Roth & Su 2022,
    Corollary 3.3); the conversion to (epsilon, delta) is exact as well (see
    :func:`dpfast.privacy.gaussian_delta`). If the mu_i are chosen along the way, the bound on
    ``sum mu_i^2`` that a ledger enforces is still the guarantee (Koskela, Tobaben & Honkela 2023).
    """

    name = "gdp"
    exact = True
    unit = "mu"
    prices: ClassVar = dict.fromkeys((GaussianEvent, GDPEvent), lambda event: event.mu * event.mu)

    def total(self, events: Iterable[Event]) -> float:
        """Return mu for all the events together."""
        return math.sqrt(super().total(events))

    def epsilon(self, events: Iterable[Event], delta: float) -> float:
        """Return the smallest epsilon at `delta`; infinite at ``delta=0`` with any event."""
        mu = self.total(events)
        if delta == 0.0:
            return math.inf if mu > 0.0 else 0.0
        return gaussian_epsilon(mu, delta)

    def delta(self, events: Iterable[Event], epsilon: float) -> float:
        """Return the smallest delta at `epsilon`."""
        return gaussian_delta(epsilon, self.total(events))
