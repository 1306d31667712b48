r"""Objective perturbation together with Gaussian releases.

Write b for the Gaussian linear term, in units of its standard deviation, and ``v`` for what the
neighbor's linear term would differ by at the released minimizer, which depends on b. The loss of
one objective perturbation is at most (see :class:`~dpfast.privacy.ObjectivePerturbationEvent`)

    ``log_jacobian + <b, v> + ||v||^2 / 2``,

convex in v, so at most ``log_jacobian + max_k X_k`` over the corners ``v_k`` of the set that v is
in, ``X_k = <b, v_k> + ||v_k||^2 / 2``. That set is fixed by the records that differ, so ``X_k`` is
exactly the privacy loss of a Gaussian release of ``mu = ||v_k||``.

Let G be all the Gaussian releases beside it, with ``mu`` in all, made before or after and chosen
along the way: given b, what they add to the delta at a level e is at most ``gaussian_delta(e, mu)``
(for every real e), and this falls as e grows. With ``e = epsilon - log_jacobian``,

    ``delta(epsilon) <= E gaussian_delta(e - max_k X_k, mu) = E max_k gaussian_delta(e - X_k, mu)
    <= sum_k E gaussian_delta(e - X_k, mu) = sum_k gaussian_delta(e, sqrt(||v_k||^2 + mu^2))``,

the last step being the composition of two Gaussian releases. Every term grows with ``||v_k||``, so
bounds of the corners' norms suffice. Several objective perturbations: the corners of all of them
combine, by the same argument one after another.

For a monotone loss under add_or_remove_one and without other releases this is
``gaussian_delta(e, L / stddev)``, the corner at 0 costing nothing: half of what Redberg, Koskela &
Wang 2023, Theorem 1, give for every loss (their factor 2 is that of the corners -L and L). The
corner at 0 cannot be left out beside other releases, since v may be 0 whenever ``X_k < 0``; its
term ``gaussian_delta(e, mu)`` is negligible when mu is small against ``L / stddev``. Where
``e < 0`` the accountant answers 1.
"""

import math
from collections.abc import Iterable

from scipy.optimize import brentq

from dpfast.errors import UnsupportedEvent
from dpfast.privacy.accountants._contract import Accountant
from dpfast.privacy.accountants.gdp import GaussianAccountant
from dpfast.privacy.conversions import gaussian_delta, gaussian_epsilon
from dpfast.privacy.events import Event, ObjectivePerturbationEvent

_GAUSSIAN = GaussianAccountant()
# Relative errors of gaussian_delta and of the sum.
_ROUNDING = 1e-9
# Beyond this many different corners they are replaced by the farthest one.
_MAX_CORNERS = 2000
_ENDLESS = 1e5
# So many times two corners are more than any delta pays for.
_MAX_COUNT = 1000


class ObjectiveAccountant(Accountant):
    """Objective perturbations and Gaussian releases, by the corners that the module explains."""

    name = "objective"

    def supports(self, event: Event) -> bool:
        """Say whether it is a Gaussian objective perturbation or the accountant "gdp" prices it."""
        return isinstance(event, ObjectivePerturbationEvent) or _GAUSSIAN.supports(event)

    def epsilon(self, events: Iterable[Event], delta: float) -> float:
        """Return an epsilon at `delta`; infinite at ``delta=0`` with any event."""
        jacobian, corners, mu = _collect(events)
        if not corners:
            if delta == 0.0:
                return math.inf if mu > 0.0 else 0.0
            return gaussian_epsilon(mu, delta)
        # Far beyond any budget; a conversion would overflow on the way.
        if delta == 0.0 or not max(jacobian, *(norm for norm, _ in corners)) < _ENDLESS:
            return math.inf

        def excess(level: float) -> float:
            return math.log(max(_delta(corners, level), 1e-305) / delta)

        if excess(0.0) <= 0.0:
            return jacobian
        high = gaussian_epsilon(max(norm for norm, _ in corners), delta)
        high = max(high, 1e-3)
        while excess(high) > 0.0:
            high *= 2.0
        level = float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-13, maxiter=5000))
        step = 1e-12
        while _delta(corners, level) > delta:
            level *= 1.0 + step
            step *= 2.0
        return (jacobian + level) * (1.0 + 1e-14)

    def delta(self, events: Iterable[Event], epsilon: float) -> float:
        """Return a delta at `epsilon`, at most 1."""
        jacobian, corners, mu = _collect(events)
        if not corners:
            return gaussian_delta(epsilon, mu)
        level = epsilon - jacobian
        return _delta(corners, level) if level >= 0.0 else 1.0


def _collect(events: Iterable[Event]) -> tuple[float, list[tuple[float, float]], float]:
    """Return the sum of the Jacobian terms, corners as (norm, how many), and the Gaussian mu.

    There are no corners if there is no objective perturbation.
    """
    jacobian, objectives = 0.0, False
    gaussian: list[Event] = []
    # Squared norms -> how many.
    squares: dict[float, float] = {0.0: 1.0}
    for event in events:
        if isinstance(event, ObjectivePerturbationEvent):
            jacobian, objectives = jacobian + event.count * event.log_jacobian, True
            if event.count > _MAX_COUNT:
                squares = {math.inf: 1.0}
            for _ in range(min(event.count, _MAX_COUNT)):
                squares = _combined(squares, event.shifts)
        elif _GAUSSIAN.supports(event):
            gaussian.append(event)
        else:
            raise UnsupportedEvent(
                f"the accountant 'objective' has no price for an event of mechanism "
                f"{event.mechanism!r}; it prices ['gaussian', 'gdp', 'objective_perturbation']."
            )
    mu = _GAUSSIAN.total(gaussian)
    if not objectives:
        return 0.0, [], mu
    # 1e-13 covers the rounding of the squares' sums.
    corners = [
        (math.sqrt(square + mu * mu) * (1.0 + 1e-13), many) for square, many in squares.items()
    ]
    return jacobian, corners, mu


def _combined(
    squares: dict[float, float], shifts: Iterable[tuple[int, float]]
) -> dict[float, float]:
    total: dict[float, float] = {}
    for square, many in squares.items():
        for count, shift in shifts:
            # Sums that are equal up to rounding are one corner.
            key = float(f"{square + shift * shift:.15g}")
            total[key] = total.get(key, 0.0) + many * count
    if len(total) > _MAX_CORNERS:
        return {max(total): sum(total.values())}
    return total


def _delta(corners: Iterable[tuple[float, float]], level: float) -> float:
    terms = ((many, gaussian_delta(level, norm)) for norm, many in corners)
    total = math.fsum(many * term for many, term in terms if term > 0.0)
    return min(1.0, total * (1.0 + _ROUNDING))
