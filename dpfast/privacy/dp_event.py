"""Events in the terms of the library dp-accounting, so that it can confirm a ledger."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dpfast.errors import UnsupportedEvent
from dpfast.privacy.events import Event, GaussianEvent, L2LaplaceEvent

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent


def to_dp_event(events: Iterable[Event]) -> "DpEvent":
    """Return the events as one ``dp_accounting.ComposedDpEvent``.

    A Gaussian release becomes a GaussianDpEvent, which is exact. The library has no event for l2
    Laplace noise; such a release becomes the binary RandomizedResponseDpEvent of the same epsilon,
    which dominates every epsilon-DP mechanism (Kairouz, Oh & Viswanath 2015): an accountant's
    answer for it is valid, if not the smallest. The neighboring relation is the accountant's
    argument in that library, not part of the event: it decides only about sampling, so any relation
    under which the accountant accepts these events gives the same numbers.

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
    if isinstance(event, GaussianEvent):
        return library.GaussianDpEvent(event.noise_multiplier)
    if isinstance(event, L2LaplaceEvent):
        # It keeps its input with probability 1 - p / 2 and flips it with p / 2, so
        # exp(epsilon) = (2 - p) / p.
        keep = math.exp(-event.epsilon)
        return library.RandomizedResponseDpEvent(2.0 * keep / (1.0 + keep), 2)
    raise UnsupportedEvent(
        f"dp-accounting has no event that stands for the mechanism {event.mechanism!r}."
    )
