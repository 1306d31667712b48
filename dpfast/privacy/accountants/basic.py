"""Pure and Gaussian releases together: epsilons add, and the Gaussian part has the delta."""

from collections.abc import Iterable

from dpfast.privacy.accountants._contract import Accountant
from dpfast.privacy.accountants.gdp import GaussianAccountant
from dpfast.privacy.accountants.pure import PureAccountant
from dpfast.privacy.events import Event

_PURE = PureAccountant()
_GAUSSIAN = GaussianAccountant()


class BasicAccountant(Accountant):
    """Basic composition of the pure part with the Gaussian part.

    The privacy loss of all the releases is that of the Gaussian ones plus at most the sum of the
    pure epsilons, in whatever order they were made; so the delta at epsilon is the Gaussian part's
    delta at ``epsilon - sum`` (compare Dwork & Roth 2014, Theorem 3.16).
    """

    name = "basic"

    def supports(self, event: Event) -> bool:
        """Say whether the accountant "pure" or the accountant "gdp" prices `event`."""
        return _PURE.supports(event) or _GAUSSIAN.supports(event)

    def epsilon(self, events: Iterable[Event], delta: float) -> float:
        """Return the sum of the pure epsilons plus the Gaussian part's epsilon at `delta`."""
        pure, gaussian = _split(events)
        return _PURE.total(pure) + _GAUSSIAN.epsilon(gaussian, delta)

    def delta(self, events: Iterable[Event], epsilon: float) -> float:
        """Return the Gaussian part's delta at `epsilon` less the pure epsilons, at most 1."""
        pure, gaussian = _split(events)
        left = epsilon - _PURE.total(pure)
        if left < 0.0:
            return _PURE.delta(pure, epsilon) if not gaussian else 1.0
        return _GAUSSIAN.delta(gaussian, left)


def _split(events: Iterable[Event]) -> tuple[list[Event], list[Event]]:
    pure: list[Event] = []
    gaussian: list[Event] = []
    for event in events:
        (pure if _PURE.supports(event) else gaussian).append(event)
    return pure, gaussian
