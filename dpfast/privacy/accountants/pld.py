"""Privacy loss distributions, composed by Fourier transforms in the library dp-accounting."""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from dpfast.errors import UnsupportedEvent
from dpfast.privacy.accountants._contract import Accountant
from dpfast.privacy.accountants.pure import PureAccountant, unless_pure_is_as_good
from dpfast.privacy.accountants.rdp import RDPAccountant
from dpfast.privacy.events import (
    Event,
    GaussianEvent,
    GDPEvent,
    LaplaceEvent,
    SubsampledGaussianEvent,
)

_PURE = PureAccountant()
_RDP = RDPAccountant()
_MAX_STEPS = 10**6
_UNIT = 2.0**-53
# Grid steps in one release's standard deviation: rounding the losses to the grid adds at most a
# quarter of a squared step to a release's variance, mostly a sixth: 3e-5 of the deviation.
_RESOLUTION = 50.0
# Bounds of the work: grid points of one release's losses, and of all of them together.
_MAX_POINTS_OF_ONE = 2e5
_MAX_POINTS = 2e6
# What one release's hockey-stick curve, a difference of probabilities, can be wrong by.
_CURVE_ERROR = 8.0 * _UNIT

_Kind = tuple[str, float, float]
"""What is released ("gaussian", "laplace", "pure"), its mu or epsilon, and the sampling rate."""


class PLDAccountant(Accountant):
    """Composition of privacy loss distributions on a grid (Koskela, Jalko & Honkela 2020).

    The library dp-accounting does it (``pip install 'dpfast[accounting]'``), with losses rounded up
    by connecting the dots (Doroshenko et al. 2022): nearly exact for many small releases, above all
    for Poisson-sampled Gaussian noise. Gaussian releases enter as the one release that they amount
    to, Laplace noise on one number as such, every other epsilon-DP release as randomized response,
    which dominates it (Kairouz, Oh & Viswanath 2015). Fixed-size samples and zCDP have no
    distribution there. "auto" never chooses this accountant: answers must not depend on what is
    installed.

    Its Fourier transforms have an absolute error, which the library does not count: at small deltas
    its epsilons can be too low by percents. A transform of length N of a vector a is wrong by at
    most ``c = 10 log2(N) 2^-53`` times ``norm1(a)`` in every entry and times the transform's 2-norm
    in the 2-norm (Higham 2002, Theorem 24.2, whose constant is below 7). With ``norm1(a) <= 1`` the
    transform's entries A are at most 1 in modulus, so those of the k-fold convolution's are wrong
    by at most ``k c |A|^(k-1)``; the power and the inverse at most double that. In the 1-norm,
    which bounds the error of every delta, these are at most ``3 k c S`` with
    ``S^2 = sum |A|^(2k-2)``, which Hoelder's inequality bounds by ``N^(1/k) (N r^2)^(1-1/k)``, r
    the 2-norm of the result; in the same way ``4 c sqrt(N)`` times the smaller 2-norm for the
    convolution of two. This is subtracted from delta before epsilon is looked for. Where that
    leaves less than the Renyi accountant has to offer, its price is the answer.
    """

    name = "pld"
    automatic = False

    def supports(self, event: Event) -> bool:
        """Say whether dp-accounting has a distribution for `event`."""
        if type(event) is SubsampledGaussianEvent:
            return event.sampling == "poisson"
        return type(event) in (GaussianEvent, GDPEvent) or _PURE.supports(event)

    def epsilon(self, events: Iterable[Event], delta: float) -> float:
        """Return the smallest epsilon at `delta`."""
        events = list(events)
        if not events:
            return 0.0
        kinds = self._kinds(events)
        if delta == 0.0:
            pure = all(map(_PURE.supports, events))
            return _PURE.total(events) if pure else math.inf
        distribution, error = _composed(kinds)
        best = min(_smallest_epsilon(distribution, delta - error), _RDP.epsilon(events, delta))
        if all(map(_PURE.supports, events)):
            best = min(best, _PURE.total(events))
        return unless_pure_is_as_good(events, best)

    def delta(self, events: Iterable[Event], epsilon: float) -> float:
        """Return the smallest delta at `epsilon`; raises as :meth:`epsilon` does."""
        events = list(events)
        if not events:
            return 0.0
        distribution, error = _composed(self._kinds(events))
        computed = float(distribution.get_delta_for_epsilon(epsilon)) + error
        best = min(computed, _RDP.delta(events, epsilon))
        if all(map(_PURE.supports, events)):
            best = min(best, _PURE.delta(events, epsilon))
        return best

    def _kinds(self, events: list[Event]) -> tuple[tuple[_Kind, int], ...]:
        """Return what is to be composed and how often, in one order for equal ledgers."""
        counts: dict[_Kind, int] = {}
        squares = []
        for event in events:
            if not self.supports(event):
                raise UnsupportedEvent(
                    f"the accountant {self.name!r} has no privacy loss distribution for this event "
                    f"of mechanism {event.mechanism!r}; it has them for Gaussian, Laplace and pure "
                    "releases and for Poisson-sampled Gaussian noise. Use accountant='rdp'."
                )
            kind: _Kind
            if isinstance(event, (GaussianEvent, GDPEvent)):
                squares += [event.count * event.mu**2]
                continue
            if isinstance(event, SubsampledGaussianEvent):
                kind = ("gaussian", event.ratio, event.sampling_rate)
            elif isinstance(event, LaplaceEvent) and event.dimension == 1:
                kind = ("laplace", event.epsilon, 1.0)
            else:
                kind = ("pure", _PURE.total([event]) / event.count, 1.0)
            counts[kind] = counts.get(kind, 0) + event.count
        if squares:
            counts["gaussian", math.sqrt(math.fsum(squares)), 1.0] = 1
        steps = sum(counts.values())
        if steps > _MAX_STEPS:
            raise UnsupportedEvent(
                f"the accountant {self.name!r} composes up to {_MAX_STEPS:,} releases; got "
                f"{steps:,}, for which its transforms would take minutes and lose the digits of "
                "delta. Use accountant='rdp', which loses little for so many."
            )
        return tuple(sorted(counts.items()))


def _library() -> Any:
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError as error:
        raise ImportError(
            "accountant='pld' needs the library dp-accounting; install it with "
            "`pip install 'dpfast[accounting]'`, or use accountant='rdp'."
        ) from error
    return privacy_loss_distribution


@lru_cache(maxsize=64)
def _composed(kinds: tuple[tuple[_Kind, int], ...]) -> tuple[Any, float]:
    """Return the library's distribution and a bound of the error of its deltas."""
    step = _grid_step(kinds)
    whole: Any = None
    error = _UNIT
    for kind, count in kinds:
        one = _distribution(kind, step)
        error += count * _CURVE_ERROR
        part = one
        if count > 1:
            part = one.self_compose(count)
            length = _length(part)
            power = (length * (_norm(part) + 1e-12) ** 2) ** (1.0 - 1.0 / count)
            error += (
                3.0 * count * _relative_error(length) * math.sqrt(length ** (1.0 / count) * power)
            )
        if whole is None:
            whole = part
            continue
        smaller = min(_norm(whole), _norm(part))
        whole = whole.compose(part)
        length = _length(whole)
        error += 4.0 * _relative_error(length) * math.sqrt(length) * smaller
    return whole, error


@lru_cache(maxsize=16)
def _distribution(kind: _Kind, step: float) -> Any:
    library = _library()
    name, size, rate = kind
    if name == "gaussian":
        return library.from_gaussian_mechanism(
            1.0 / size, value_discretization_interval=step, sampling_prob=rate
        )
    if name == "laplace":
        return library.from_laplace_mechanism(1.0 / size, value_discretization_interval=step)
    probability = {-size: 1.0 / (1.0 + math.exp(size)), size: 1.0 / (1.0 + math.exp(-size))}
    rounded: dict[int, float] = {}
    for loss, mass in probability.items():
        index = math.ceil(loss / step)
        rounded[index] = rounded.get(index, 0.0) + mass
    return library.PrivacyLossDistribution.create_from_rounded_probability(rounded, 0.0, step)


def _grid_step(kinds: tuple[tuple[_Kind, int], ...]) -> float:
    """Return the grid's step: fine for the smallest release, but not beyond the bounds of work.

    Losses of the largest pure release, a power of two times the step, are on the grid; of such
    releases alone nothing is rounded.
    """
    if len(kinds) == 1 and kinds[0][0][0] == "pure":
        return kinds[0][0][1]
    step = math.inf
    range_of_one = variance = largest = 0.0
    for (name, size, rate), count in kinds:
        deviation = rate * size
        step = min(step, deviation / _RESOLUTION)
        # Ten standard deviations have a probability of 1e-23.
        top = 0.5 * size * size + 10.0 * size if name == "gaussian" else size
        largest = max(largest, size) if name == "pure" else largest
        reach = top if top > 50.0 else math.log1p(rate * math.expm1(top))
        range_of_one = max(range_of_one, 2.0 * reach)
        spread = min(reach, deviation * math.exp(min(0.5 * size * size, 50.0)))
        variance += count * spread**2
    # The total's losses: twenty deviations to each side is beyond every delta.
    whole = 40.0 * math.sqrt(variance)
    step = max(step, range_of_one / _MAX_POINTS_OF_ONE, whole / _MAX_POINTS)
    if largest > 0.0:
        exponent = math.ceil(math.log2(largest / step)) if largest > step else 0
        step = math.ldexp(largest, -exponent)
    return step


def _norm(distribution: Any) -> float:
    """Return the larger 2-norm of the distribution's two directions."""
    return max(float(np.linalg.norm(p)) for p in _masses(distribution))


def _length(distribution: Any) -> float:
    """Return a bound of the length of the transforms behind a distribution: a padded one's."""
    return 2.0 * max(2.0, *(float(p.size) for p in _masses(distribution)))


def _relative_error(length: float) -> float:
    return 10.0 * math.log2(length) * _UNIT


def _masses(distribution: Any) -> list[Any]:
    return [pmf.to_dense_pmf()._probs for pmf in (distribution._pmf_remove, distribution._pmf_add)]


def _smallest_epsilon(distribution: Any, delta: float) -> float:
    if not delta > 0.0:
        return math.inf
    epsilon = float(distribution.get_epsilon_for_delta(delta))
    # It adds millions of terms one after another; asked the other way round it is more accurate.
    step = 1e-12 * max(epsilon, 1e-3)
    while epsilon < math.inf and distribution.get_delta_for_epsilon(epsilon) > delta:
        epsilon, step = epsilon + step, 2.0 * step
    return epsilon
