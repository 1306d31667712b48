"""What libraries that share no code with this one say of a ledger's events.

dp-accounting (privacy loss distributions, Renyi divergences) and prv-accountant (privacy random
variables, Gopi, Lee & Wutschitz 2021), whose answer is an interval that holds the truth; where it
is installed also opake-accounting (distributions in Rust), for the mechanisms that it has.

**Like with like.** An upper bound of another method that is above a claim says nothing: it may be
the looser one. What refutes a claim is a *lower* bound above it. So a claim is compared with the
price, from below, of an instance: mechanisms with a known law that do what the events state.
"""

import math
import os
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, reduce, wraps
from importlib import metadata, util
from typing import ClassVar

import dp_accounting
import numpy as np
import prv_accountant as prv
from dp_accounting.pld import privacy_loss_distribution as distributions
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from scipy.special import ndtr

from dpfast.privacy import (
    ACCOUNTANTS,
    ExponentialEvent,
    GaussianEvent,
    GDPEvent,
    L2LaplaceEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    SubsampledGaussianEvent,
    SubsampledLaplaceEvent,
    ZCDPEvent,
    to_dp_event,
)
from dpfast.privacy.accountants import AdditiveAccountant
from dpfast.privacy.ledger import merged

MOST_CLAIMS = 6  # of a test that are compared, spread over it; DPFAST_OPINIONS=all compares all
# Of a session, whose processes share them: hundreds of tests fit with the same kinds of releases.
MOST_OF_A_KIND = -(-3 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
ERROR = 2e-3  # of the interval, relative to epsilon


def _opake_accounting():
    """The compiled part of opake-accounting, None without it.

    What it has around that, in Python, cannot be imported by every version of Python.
    """
    try:
        files = metadata.files("opake-accounting") or ()
    except metadata.PackageNotFoundError:
        return None
    (path,) = (file.locate() for file in files if file.suffix == ".so")
    spec = util.spec_from_file_location("opake_accounting", path)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


opake = _opake_accounting()


# ---- bounds from above ---------------------------------------------------------------------------


def by_loss_distributions(events, delta):
    """Epsilon by dp-accounting, None if it has no distribution for an event.

    Its relation has nothing to do with the data's: what is charged has the relation's factor in it,
    and REPLACE_ONE would double Gaussian noise once more; but randomized response needs it. Each of
    these is composed by itself, as the library forgets their count.
    """
    from dp_accounting.pld import PLDAccountant

    plain = GaussianEvent | GDPEvent | LaplaceEvent | SubsampledGaussianEvent
    pure = [not isinstance(event, plain) for event in events]
    if any(pure) != all(pure):
        return None
    relation = dp_accounting.NeighboringRelation[
        "REPLACE_ONE" if all(pure) else "ADD_OR_REMOVE_ONE"
    ]
    accountant = PLDAccountant(relation)
    for event in events:
        one = to_dp_event([replace(event, count=1)])
        if not accountant.supports(one):
            return None
        if all(pure):
            for _ in range(event.count):
                accountant.compose(one)
        else:
            accountant.compose(to_dp_event([event]))
    return accountant.get_epsilon(delta)


def by_divergences(events, delta):
    """Epsilon by dp-accounting's Renyi divergences, choices and Gaussian noise being zCDP."""
    from dp_accounting.rdp import RdpAccountant

    sampled = any(isinstance(event, SubsampledGaussianEvent) for event in events)
    accountant = RdpAccountant(
        None if sampled else list(1.0 + np.geomspace(0.05, 3000.0, 500)),
        dp_accounting.NeighboringRelation.REPLACE_ONE,
    )
    for event in events:
        if isinstance(event, ExponentialEvent):
            accountant.compose(dp_accounting.ZCDpEvent(event.epsilon**2 / 8.0), event.count)
        elif isinstance(event, GaussianEvent):
            accountant.compose(dp_accounting.ZCDpEvent(event.mu**2 / 2.0), event.count)
        else:
            accountant.compose(to_dp_event([event]))
    return accountant.get_epsilon(delta)


def by_distributions_in_rust(instances, delta, step):
    """Epsilon by opake-accounting, None without it or if it has no distribution for an instance."""
    parts = [opake and one.distribution_in_rust(step) for one, _ in instances]
    if None in parts:
        return None
    parts = [part.self_compose(count) for part, (_, count) in zip(parts, instances, strict=True)]
    return reduce(lambda one, other: one.compose(other), parts).epsilon_at(delta)


def by_random_variables(events, delta, size):
    """Epsilon by prv-accountant, as an interval; None if it has no variable for an event."""
    pure = ACCOUNTANTS["pure"]
    assert isinstance(pure, AdditiveAccountant)
    variables = []
    gaussian = [event for event in events if isinstance(event, GaussianEvent)]
    if len(gaussian) > 10:  # a hundred different ones take twenty seconds, each by itself
        events = [event for event in events if event not in gaussian]
        mu = math.sqrt(math.fsum(event.count * event.mu**2 for event in gaussian))
        events.append(replace(gaussian[0], sensitivity=mu, stddev=1.0, count=1))
    for event in events:
        if isinstance(event, GaussianEvent | GDPEvent):
            variables.append(prv.GaussianMechanism(1.0 / event.mu))
        elif isinstance(event, SubsampledGaussianEvent) and event.sampling == "poisson":
            variables.append(
                prv.PoissonSubsampledGaussianMechanism(event.sampling_rate, event.noise_multiplier)
            )
        elif isinstance(event, LaplaceEvent) and event.dimension == 1:
            variables.append(prv.LaplaceMechanism(mu=event.epsilon))
        elif pure.supports(event):
            variables.append(prv.PureDPMechanism(pure.price(event)))
        else:
            return None
    return interval(variables, [event.count for event in events], delta, size)


def interval(variables, counts, delta, size, error=ERROR):
    """The interval in which prv-accountant knows epsilon to be; None if it fails."""
    for share in (1.0, 0.9, 0.8, 0.7):
        try:
            accountant = prv.PRVAccountant(
                prvs=variables,
                max_self_compositions=counts,
                eps_error=share * error * size,
                delta_error=1e-4 * delta,
                eps_max=4.0 * size + min(1.0, 40.0 * size),
            )
        except RuntimeError:  # an atom is on the edge of a cell
            continue
        low, _, high = accountant.compute_epsilon(delta, counts)
        return low, high
    return None


# ---- bounds from below ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Instance:
    """A mechanism of known law.

    "gaussian" (mu) or "laplace" (epsilon), on a Poisson sample at a rate; "swapped", Gaussian noise
    on a sample of fixed size, which one record or the other moves by half of mu each way; or a
    "choice" between two of log-ratios `top` and ``top - size``.
    """

    kind: str
    size: float
    rate: float = 1.0
    top: float = 0.0

    def spread(self, count):
        """About how far the losses of so many reach; all are truncated beyond."""
        one, many = 20.0 * self.size + self.size**2, count * self.rate**2 * self.size**2
        far = one + 20.0 * math.sqrt(many) + many
        pure = self.kind in ("laplace", "choice")
        return min(2.0 * count * self.size, far) if pure else far

    def masses(self):
        """Of a choice: probabilities on one neighbor and on the other."""
        low = self.top - self.size
        other = math.expm1(low) / (math.exp(low) * -math.expm1(self.size))
        return (other * math.exp(self.top), -math.expm1(math.log(other) + self.top)), (
            other,
            1.0 - other,
        )

    def distribution(self, step):
        """Of privacy losses, none larger than it is, by dp-accounting."""
        rounding = {"pessimistic_estimate": False, "value_discretization_interval": step}
        if self.kind == "gaussian":
            return distributions.from_gaussian_mechanism(
                1.0 / self.size, sampling_prob=self.rate, use_connect_dots=False, **rounding
            )
        if self.kind == "laplace":
            return distributions.from_laplace_mechanism(
                1.0 / self.size, sampling_prob=self.rate, use_connect_dots=False, **rounding
            )
        if self.kind == "swapped":
            one, other = self._cells()
            return distributions.from_two_probability_mass_functions(other, one, **rounding)
        # A mass that is none to the last bit is left out: that makes no loss larger.
        both = [k for k in (0, 1) if min(mass[k] for mass in self.masses()) > 0.0]
        one, other = ({k: math.log(mass[k]) for k in both} for mass in self.masses())
        return distributions.from_two_probability_mass_functions(other, one, **rounding)

    def _cells(self):
        """Logarithms of the masses of cells of the noisy value, which is a function of it."""
        edges = np.linspace(-9.0 - self.size, 9.0 + self.size, 2001)
        for half in (0.5 * self.size, -0.5 * self.size):
            whole = (1.0 - self.rate) * ndtr(edges) + self.rate * ndtr(edges - half)
            masses = np.diff(whole)
            yield {k: math.log(mass) for k, mass in enumerate(masses) if mass > 0.0}

    def variable(self):
        """The random variable for prv-accountant; None if it has none."""
        if self.kind == "gaussian" and self.rate == 1.0:
            return prv.GaussianMechanism(1.0 / self.size)
        if self.kind == "gaussian":
            return prv.PoissonSubsampledGaussianMechanism(self.rate, 1.0 / self.size)
        if self.kind == "laplace":
            return prv.LaplaceMechanism(mu=self.size) if self.rate == 1.0 else None
        return Choice(self) if self.kind == "choice" else None

    def distribution_in_rust(self, step):
        """By opake-accounting, of Gaussian noise; None if it has none."""
        settings = opake.DiscretizationConfig(discretization=step)
        if self.kind != "gaussian":
            return None
        whole = opake.gaussian_pld(1.0 / self.size, settings)
        return whole if self.rate == 1.0 else opake.poisson_pld(whole, self.rate)


class Choice(prv.PrivacyRandomVariable):
    """A choice between two, as a privacy random variable."""

    def __init__(self, instance):
        self.top, self.low = instance.top, instance.top - instance.size
        self.mass = instance.masses()[0]

    def cdf(self, t):
        return np.where(t < self.low, 0.0, np.where(t < self.top, self.mass[1], 1.0))

    def mean(self):
        return self.mass[0] * self.top + self.mass[1] * self.low

    def rdp(self, alpha):
        ends = (alpha - 1.0) * np.array([self.top, self.low]) + np.log(self.mass)
        return float(np.logaddexp(*ends)) / (alpha - 1.0)


def instance_of(event, share=0.5):
    """An instance of what an event states; None if none is known here. `share`: a choice's top."""
    if isinstance(event, GaussianEvent | GDPEvent):
        return Instance("gaussian", event.mu)
    if isinstance(event, ZCDPEvent):
        return Instance("gaussian", math.sqrt(2.0 * event.rho))
    if isinstance(event, LaplaceEvent | L2LaplaceEvent):  # neighbors that differ along an axis
        return Instance("laplace", event.epsilon)
    if isinstance(event, ExponentialEvent):
        return Instance("choice", event.epsilon, top=share * event.epsilon)
    poisson = getattr(event, "sampling", None) == "poisson"
    if isinstance(event, SubsampledGaussianEvent) and not poisson:
        return Instance("swapped", event.ratio, event.sampling_rate)
    if isinstance(event, SubsampledGaussianEvent) and poisson:
        return Instance("gaussian", event.ratio, event.sampling_rate)
    if isinstance(event, SubsampledLaplaceEvent) and poisson:
        return Instance("laplace", event.ratio, event.sampling_rate)
    return None


def objective_delta(events, claimed):
    """Delta of the corners of one objective perturbation, with dp-accounting's Gaussian delta."""
    (objective,) = (event for event in events if isinstance(event, ObjectivePerturbationEvent))
    others = [event for event in events if event is not objective]
    assert {type(event) for event in others} <= {GaussianEvent} and objective.count == 1
    square = math.fsum(event.count * (event.sensitivity / event.stddev) ** 2 for event in others)
    left = claimed - math.log1p(objective.smoothness / objective.ridge)

    def delta_at(mu):
        if mu == 0.0:
            return -math.expm1(min(left, 0.0))
        return GaussianPrivacyLoss(1.0 / mu).get_delta_for_epsilon(left)

    return math.fsum(
        many * delta_at(math.hypot(s, math.sqrt(square))) for many, s in objective.shifts
    )


#: Least delta of a comparison (a claim at a smaller one holds there, too), and largest epsilon.
LEAST_DELTA, LARGEST = 1e-10, 100.0
#: Points of a lattice of losses, about: where a claim is tiny beside them, it is a coarse one.
LATTICE = 4e4
#: Of equal releases so many are priced: what is below the price of a part is below that of all.
MOST_EQUAL = 1000


@cache
def from_below(instances, delta, claimed):
    """Lower bounds of epsilon by dp-accounting, prv-accountant and opake-accounting; 0 if none.

    The last rounds up, where several are composed: by less than ERROR, which is taken off.
    """
    many = sum(count for _, count in instances)
    step = claimed / (1000.0 * min(max(1.0, math.sqrt(many)), 30.0))
    spread = sum(one.spread(count) for one, count in instances)
    step = max(step, spread / LATTICE)
    whole = None
    for one, count in instances:
        part = one.distribution(step)
        part = part.self_compose(count) if count > 1 else part
        whole = part if whole is None else whole.compose(part)
    try:
        first = whole.get_epsilon_for_delta(delta)
    except (OverflowError, ValueError):  # it takes exponentials of losses below -700
        first = 0.0
    variables = [one.variable() for one, _ in instances]
    second = None
    if None not in variables and spread < LATTICE * ERROR * claimed:
        error = ERROR if many <= 20 else 10.0 * ERROR
        second = interval(variables, [count for _, count in instances], delta, claimed, error)
    third = by_distributions_in_rust(instances, delta, step) or 0.0
    third -= 0.0 if many == 1 else ERROR * claimed
    return first, 0.0 if second is None else second[0], third


def instances_of(events, share):
    """Instances and counts, Gaussian noise on all rows as one; what is not known is left out."""
    counted, square = {}, 0.0
    for event in events:
        one = instance_of(event, share)
        if one is None:
            continue
        if one.kind == "gaussian" and one.rate == 1.0:
            square += event.count * one.size**2
        else:
            counted[one] = min(MOST_EQUAL, counted.get(one, 0) + event.count)
    if square > 0.0:
        counted[Instance("gaussian", math.sqrt(square))] = 1
    return tuple(sorted(counted.items(), key=repr))


class Claims:
    """The guarantees of all ledgers that are made meanwhile, each compared once in a session."""

    _compared: ClassVar[set] = set()
    _of_a_kind: ClassVar[Counter] = Counter()

    def __init__(self):
        self._made, self._kept = [], {}

    def watched(self, init):
        """`Ledger.__init__`, and what it made is kept."""

        @wraps(init)
        def watching(ledger, *args, **named):
            init(ledger, *args, **named)
            self._made.append(ledger)

        return watching

    def kept_of(self, guarantee):
        """`Ledger.guarantee`, and what it gave is kept."""

        @wraps(guarantee)
        def keeping(ledger):
            claim = guarantee(ledger)
            events = frozenset(merged(ledger.events))
            self._kept[events, claim.epsilon, claim.delta] = claim
            return claim

        return keeping

    def _is_rare(self, events, epsilon, delta):
        """Whether few claims like this one were compared: by events and size."""
        size = round(2.0 * math.log10(epsilon)) if 0.0 < epsilon <= LARGEST else None
        names = frozenset(
            (type(one), getattr(one, "sampling", ""), one.neighboring_relation, one.count > 1)
            for one in events
        )
        kind = names, size, delta == 0.0
        self._of_a_kind[kind] += 1
        return self._of_a_kind[kind] <= MOST_OF_A_KIND

    def refuted(self):
        """What is wrong with those that were not compared before, in words."""
        for ledger in self._made:  # whether or not the test has asked them
            ledger.guarantee()
        new = {key: claim for key, claim in self._kept.items() if key not in self._compared}
        if os.environ.get("DPFAST_OPINIONS") != "all":
            spread = -(-len(new) // MOST_CLAIMS)
            new = dict(list(new.items())[:: max(1, spread)])
            new = {key: claim for key, claim in new.items() if self._is_rare(*key)}
        self._compared |= new.keys()
        found = (refuted(key[0], claim) for key, claim in new.items())
        return [words for words in found if words is not None]


def refuted(events, guarantee):
    """What is wrong with a claim about merged events: None, or a lower bound above it in words."""
    delta, claimed = max(guarantee.delta, LEAST_DELTA), guarantee.epsilon
    if not 0.0 < claimed <= LARGEST or delta >= 1.0:
        return None
    minimizers = [event for event in events if isinstance(event, ObjectivePerturbationEvent)]
    if minimizers:
        plain = {type(event) for event in events} <= {ObjectivePerturbationEvent, GaussianEvent}
        if not plain or [event.count for event in minimizers] != [1]:
            return None  # of several, none is known here
        found = objective_delta(events, claimed)
        return None if found <= delta * (1.0 + 1e-6) else f"delta is {found}, above {guarantee}"
    choices = any(isinstance(event, ExponentialEvent) for event in events)
    for share in (0.5, 0.8) if choices else (0.5,):
        instances = instances_of(events, share)
        if not instances:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = from_below(instances, delta, claimed)
        if max(found) > claimed * (1.0 + 1e-4) + 1e-9:
            return (
                f"lower bounds {found} (dp-accounting, prv-accountant, opake-accounting) of "
                f"{instances} at delta={delta:g} are above the claim: {guarantee}"
            )
    return None
