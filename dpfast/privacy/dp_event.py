"""Events in the terms of the library dp-accounting, so that it can confirm a ledger."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpfast.errors import UnsupportedEvent
from dpfast.privacy.accountants import ACCOUNTANTS, AdditiveAccountant
from dpfast.privacy.events import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    GDPEvent,
    L2LaplaceEvent,
    L2LaplaceObjectiveEvent,
    LaplaceEvent,
    NoisyMaxEvent,
    ObjectivePerturbationEvent,
    PureSelectionEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
    SubsampledLaplaceEvent,
    ZCDPEvent,
)
from dpfast.privacy.selection import law_parameter

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent


def to_dp_event(events: Iterable[Event]) -> "DpEvent":
    """Return the events as one ``dp_accounting.ComposedDpEvent``.

    A Gaussian release, or one that is mu-GDP, becomes a GaussianDpEvent of noise multiplier 1 / mu,
    a Laplace release a LaplaceDpEvent and a rho-zCDP access a ZCDpEvent; sampling wraps them in a
    PoissonSampledDpEvent or a SampledWithoutReplacementDpEvent. The library has no event for l2
    Laplace noise and for choices; they become the binary RandomizedResponseDpEvent of the same
    epsilon, which dominates every epsilon-DP mechanism (Kairouz, Oh & Viswanath 2015): an
    accountant's answer for it is valid, if not the smallest. The best of a random number of runs is
    a RepeatAndSelectDpEvent of the costliest alternative, if all are Gaussian or all pure; that
    library lets a Poisson number of runs be 0, which makes a small difference. It has no event for
    objective perturbation, whose loss is no function of one noise multiplier: the density of the
    minimizer changes with a Jacobian, too. :class:`~dpfast.privacy.ObjectivePerturbationEvent` is
    therefore refused; of its pure form, :class:`~dpfast.privacy.L2LaplaceObjectiveEvent`, the
    epsilon is all there is to know, and it is a RandomizedResponseDpEvent. The neighboring relation
    is the accountant's argument in that library, not part of the event. The noise multipliers refer
    to the sensitivity charged, which has the relation's factor in it: for Gaussian and Laplace
    noise on all rows give ADD_OR_REMOVE_ONE for either relation, or its privacy loss distributions
    count the factor twice. They also (in version 0.6.0) compose a repeated
    RandomizedResponseDpEvent only once: its Renyi accountant does not.

    Parameters
    ----------
    events : iterable of Event

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
        multiplier = 1.0 / event.ratio
        gaussian = isinstance(event, SubsampledGaussianEvent)
        inner = library.GaussianDpEvent if gaussian else library.LaplaceDpEvent
        if event.sampling == "poisson":
            return library.PoissonSampledDpEvent(event.sampling_rate, inner(multiplier))
        return library.SampledWithoutReplacementDpEvent(
            event.n_samples, event.batch, inner(multiplier)
        )
    if isinstance(
        event, (L2LaplaceEvent, L2LaplaceObjectiveEvent, NoisyMaxEvent, ExponentialEvent)
    ):
        return _randomized_response(event.epsilon, library)
    if isinstance(event, PureSelectionEvent):
        return _repeated(event, _randomized_response(event.epsilon_of_run, library), library)
    if isinstance(event, SelectionEvent):
        return _repeated(event, _costliest(event, library), library)
    if isinstance(event, ObjectivePerturbationEvent):
        raise UnsupportedEvent(
            "dp-accounting has no event for objective perturbation: the privacy loss of a "
            "minimizer has a Jacobian term, so no noise multiplier stands for it. The accountant "
            "'objective' prices it; noise='l2-laplace' has a pure epsilon, which has an event."
        )
    raise UnsupportedEvent(
        f"dp-accounting has no event that stands for the mechanism {event.mechanism!r}."
    )


def _randomized_response(epsilon: float, library: Any) -> Any:
    # It keeps its input with probability 1 - p / 2 and flips it with p / 2, so
    # exp(epsilon) = (2 - p) / p.
    keep = math.exp(-epsilon)
    return library.RandomizedResponseDpEvent(2.0 * keep / (1.0 + keep), 2)


def _repeated(event: SelectionEvent | PureSelectionEvent, run: Any, library: Any) -> Any:
    if event.repetitions == "poisson":
        rate = law_parameter(event.repetitions, event.mean_runs, event.shape)
        if rate < 1.0:
            raise UnsupportedEvent(
                "dp-accounting has no event for a Poisson number of runs of mean below 1."
            )
        return library.dp_event.RepeatAndSelectDpEvent(run, rate, math.inf)
    if event.shape < 1.0:
        raise UnsupportedEvent(
            "dp-accounting has no event for a negative binomial number of runs of shape below 1."
        )
    return library.dp_event.RepeatAndSelectDpEvent(run, event.mean_runs, event.shape - 1.0)


def _costliest(event: SelectionEvent, library: Any) -> Any:
    """One run's event, if its alternatives can be compared."""
    gdp = ACCOUNTANTS["gdp"]
    assert isinstance(gdp, AdditiveAccountant)
    if all(gdp.supports(one) for run in event.alternatives for one in run):
        return library.GaussianDpEvent(1.0 / max(map(gdp.total, event.alternatives)))
    runs = [[_translate(replace(one, where=""), library) for one in r] for r in event.alternatives]
    if all(run == runs[0] for run in runs):
        return library.ComposedDpEvent(runs[0])
    raise UnsupportedEvent(
        "dp-accounting has no event for runs that cost one thing or another, unless all their "
        "noise is Gaussian."
    )
