"""Events in the terms of the library dp-accounting, so that it can confirm a ledger."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dpfast.errors import UnsupportedEvent
from dpfast.privacy.events import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    GDPEvent,
    L2LaplaceEvent,
    LaplaceEvent,
    NoisyMaxEvent,
    SubsampledGaussianEvent,
    SubsampledLaplaceEvent,
    ZCDPEvent,
)

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent


def to_dp_event(events: Iterable[Event]) -> "DpEvent":
    """Return the events as one ``dp_accounting.ComposedDpEvent``.

    A Gaussian release, or one that is mu-GDP, becomes a GaussianDpEvent of noise multiplier 1 / mu,
    a Laplace release a LaplaceDpEvent and a rho-zCDP access a ZCDpEvent; sampling wraps them in a
    PoissonSampledDpEvent or a SampledWithoutReplacementDpEvent. The library has no event for l2
    Laplace noise and for choices; they become the binary RandomizedResponseDpEvent of the same
    epsilon, which dominates every epsilon-DP mechanism (Kairouz, Oh & Viswanath 2015): an
    accountant's answer for it is valid, if not the smallest. The neighboring relation is the
    accountant's argument in that library, not part of the event. The noise multipliers refer to the
    sensitivity charged, which has the relation's factor in it.

    Parameters
    ----------
    events : iterable of Event

    Returns
    -------
    dp_event : dp_accounting.DpEvent

    Raises
    ------
    ImportError
        If dp-accounting is not installed.
    UnsupportedEvent
        If there is no faithful translation of an event.
    """
    try:
        import dp_accounting
    except ImportError as error:
        raise ImportError(
            "to_dp_event() needs the library dp-accounting; install it with "
            "`pip install 'dpfast[accounting]'`."
        ) from error
    translated = []
    for event in events:
        one = _translate(event, dp_accounting)
        if event.count > 1:
            one = dp_accounting.SelfComposedDpEvent(one, event.count)
        translated.append(one)
    return dp_accounting.ComposedDpEvent(translated)


def _translate(event: Event, library: Any) -> Any:
    if isinstance(event, (GaussianEvent, GDPEvent)):
        return library.GaussianDpEvent(1.0 / event.mu)
    if isinstance(event, LaplaceEvent):
        return library.LaplaceDpEvent(1.0 / event.epsilon)
    if isinstance(event, ZCDPEvent):
        return library.ZCDpEvent(event.rho)
    if isinstance(event, (SubsampledGaussianEvent, SubsampledLaplaceEvent)):
        multiplier = event.noise / event.sensitivity
        gaussian = isinstance(event, SubsampledGaussianEvent)
        inner = library.GaussianDpEvent if gaussian else library.LaplaceDpEvent
        if event.sampling == "poisson":
            return library.PoissonSampledDpEvent(event.sampling_rate, inner(multiplier))
        return library.SampledWithoutReplacementDpEvent(
            event.n_samples, event.batch, inner(multiplier)
        )
    if isinstance(event, (L2LaplaceEvent, NoisyMaxEvent, ExponentialEvent)):
        # It keeps its input with probability 1 - p / 2 and flips it with p / 2, so
        # exp(epsilon) = (2 - p) / p.
        keep = math.exp(-event.epsilon)
        return library.RandomizedResponseDpEvent(2.0 * keep / (1.0 + keep), 2)
    raise UnsupportedEvent(
        f"dp-accounting has no event that stands for the mechanism {event.mechanism!r}."
    )
