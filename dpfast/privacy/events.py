"""What happened: one record for every noisy access to the data.

An event holds exactly what an accountant needs and nothing that depends on the data. What an event
costs is not its business: see :mod:`dpfast.privacy.accountants`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, ClassVar, get_type_hints

from dpfast._validation import check_choice, check_flag, check_integer, check_real
from dpfast.privacy.selection import law_parameter, selection_epsilon

NEIGHBORING_RELATIONS = ("replace_one", "add_or_remove_one")
"""Two data sets are neighbors if one record is replaced, or if one record contributes in only one
of them: in the other a row that adds zero to every sum stands in its place. The number of rows is
the same in both, and public; that somebody can be left out of the count is not what is proved."""

_OF_GROUPS = {relation: f"{relation}_group" for relation in NEIGHBORING_RELATIONS}
RELATIONS = (*NEIGHBORING_RELATIONS, *_OF_GROUPS.values())
"""The same, and with a group of rows, such as all rows of one person, instead of a record. The
number of groups is public then, and the number of rows is not."""


_LARGEST = 2**63 - 1
"""Of the numbers that count something: accountants multiply them in floating point."""

_VALUE = 2.0**-1000
"""What the sampler of one value, or of one candidate's noise, adds to delta."""

_ABSTRACT = 2.0**-900
"""The same for an access of whatever kind, of less than 2^63 values and 2^30 steps."""

_BATCH = 2.0**-199
"""The same for a Poisson batch."""

_SEARCH = 2.0**-200
"""The same for a random number of runs."""

_LEAST = 1e-300
"""Of what one access costs: a ratio that underflows would make it free, any number of times."""


def records_apart(neighboring_relation: str) -> int:
    """Return how many records' contributions lie between the sums of two neighbors.

    A replaced record takes one contribution away and brings another: 2. A record that contributes
    in one data set only makes a difference of 1.

    Parameters
    ----------
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        Or one of groups, each of which is one record then.

    Raises
    ------
    ValueError
        If the relation is unknown.

    Examples
    --------
    >>> from dpfast.privacy import records_apart
    >>> records_apart("replace_one"), records_apart("add_or_remove_one")
    (2, 1)
    """
    check_choice("neighboring_relation", neighboring_relation, RELATIONS)
    return 2 if neighboring_relation.startswith("replace_one") else 1


def relation_of(neighboring_relation: str, unit: str) -> str:
    """Return the relation between data sets that differ in a record of this unit.

    Parameters
    ----------
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    unit : {"row", "group"}

    Examples
    --------
    >>> relation_of("replace_one", "row"), relation_of("replace_one", "group")
    ('replace_one', 'replace_one_group')
    """
    check_choice("neighboring_relation", neighboring_relation, NEIGHBORING_RELATIONS)
    return neighboring_relation if unit == "row" else _OF_GROUPS[neighboring_relation]


def row_relation(neighboring_relation: str) -> str:
    """Return the relation between data sets whose records are rows, of either unit's."""
    return NEIGHBORING_RELATIONS[2 - records_apart(neighboring_relation)]


def unit_of(neighboring_relation: str) -> str:
    """Return whose data a relation is about: "row" or "group"."""
    return "group" if neighboring_relation in _OF_GROUPS.values() else "row"


@dataclass(frozen=True, kw_only=True)
class Event:
    """A noisy access to the data. Events of every kind have these parameters, too.

    Every field annotated ``int``, ``float`` or ``bool``, also of a subclass, is checked here (a
    count of at least 1, a number above 0, a flag) and kept as that type of Python. A NumPy scalar
    would keep its arithmetic: 64 events of ``numpy.uint8(128)`` accesses each are 8192, and add up
    to 0.

    Parameters
    ----------
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    where : str
        The place in the algorithm.
    count : int, default=1
        How many such accesses, each with fresh noise.
    """

    mechanism: ClassVar[str]
    """Name of the mechanism, unique among the classes of events."""

    neighboring_relation: str
    where: str
    count: int = 1

    def __post_init__(self) -> None:
        check_choice("neighboring_relation", self.neighboring_relation, RELATIONS)
        if not isinstance(self.where, str):
            raise TypeError(f"where must be a string; got {self.where!r}.")
        for name, kind in _numbers(type(self)):  # type: ignore[arg-type]  # classes have hashes
            object.__setattr__(self, name, _checked(name, kind, getattr(self, name)))

    @cached_property
    def kind(self) -> "Event":
        """The same access once and in no place: what accountants count."""
        return counted(self, 1)

    @property
    def sampler_delta(self) -> float:
        """What one access adds to delta because samplers end at a finite range.

        Every price here is that of an ideal law, say Q for the noise. What is drawn is Q given an
        event of probability ``1 - t``, t below 2^-1000 for each value or candidate; so an output
        is as likely as under Q, up to a factor that neighbors have in common, except that a part
        of mass u lies beyond what the neighbor's noise can reach. That mass is beyond 1023 scales
        less the neighbors' distance, so ``u <= exp(e - 1023)``, ``e`` being the price of the one
        access in scales: below 2^-1000 for every price up to 300. Such an access is the ideal one
        with probability ``1 - u``. By induction over the accesses, all of them are within the ideal
        total up to the sum of the u, which adds to delta as it is: without a factor
        ``exp(epsilon)``, the neighbor's side being left as it is.

        A choice by noisy maximum has no common factor, but is within ``(1 + exp(e)) n 2^-1475`` of
        one that is e-DP, the bound of n candidates' noises; the same follows. A Poisson batch of
        more rows than there is room for, of probability ``t < 2^-200``, is drawn again: the
        batches that are left pair up as without it (the same others, with and without the record),
        except those of just the largest size, and the record's rate grows by a factor of at most
        ``1 + 2 t``: 2^-199 in all.
        """
        return _ABSTRACT

    def describe(self) -> dict[str, float | int | str]:
        """Return what a reader should see of the event: field names to values."""
        common = {"neighboring_relation", "where", "count"}
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in common
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the event as values of JSON; :func:`event_from_dict` reads it back."""
        return {"mechanism": self.mechanism, **asdict(self)}


class _HasStddev:
    """What events of Gaussian noise have in common."""

    sensitivity: float
    stddev: float

    @property
    def noise(self) -> float:
        """Standard deviation of the noise."""
        return self.stddev

    @property
    def noise_multiplier(self) -> float:
        """``stddev / sensitivity``."""
        return self.stddev / self.sensitivity


class _HasScale:
    """What events of all other noise have in common."""

    scale: float

    @property
    def noise(self) -> float:
        """Scale of the noise."""
        return self.scale


@dataclass(frozen=True, kw_only=True)
class QueryEvent(Event):
    """A release of a vector-valued query with added noise. Events of all such releases have these.

    Parameters
    ----------
    sensitivity : float
        The distance of the query's values on two neighbors (l2 unless the class says otherwise), in
        the query's unit, as it is charged: bounds of rounding and of floating-point summation are
        included.
    dimension : int
        Number of coordinates released.
    """

    sensitivity: float
    dimension: int

    @property
    def noise(self) -> float:
        """Scale of the noise, in the query's unit: for Gaussian noise its standard deviation."""
        raise NotImplementedError

    @property
    def sampler_delta(self) -> float:
        """What one access adds to delta because samplers end at a finite range."""
        return self.dimension * _VALUE

    @cached_property
    def ratio(self) -> float:
        """``sensitivity / noise``, never 0."""
        return max(self.sensitivity / self.noise, _LEAST)


@dataclass(frozen=True, kw_only=True)
class GaussianEvent(_HasStddev, QueryEvent):
    """A query plus Gaussian noise.

    Parameters
    ----------
    stddev : float
        Standard deviation of the noise in every coordinate.

    Examples
    --------
    >>> from dpfast.privacy import GaussianEvent
    >>> event = GaussianEvent(sensitivity=1.0, stddev=4.0, dimension=3,
    ...                       neighboring_relation="replace_one", where="gradient", count=10)
    >>> event.mu, event.noise_multiplier
    (0.25, 4.0)
    """

    mechanism: ClassVar[str] = "gaussian"

    stddev: float

    @property
    def mu(self) -> float:
        """``sensitivity / stddev``: each of the `count` releases is mu-GDP."""
        return self.ratio


@dataclass(frozen=True, kw_only=True)
class L2LaplaceEvent(_HasScale, QueryEvent):
    """A query plus noise of density proportional to ``exp(-norm(z) / scale)``, l2 norm.

    Parameters
    ----------
    scale : float
        Scale of the noise.

    Examples
    --------
    >>> from dpfast.privacy import L2LaplaceEvent
    >>> L2LaplaceEvent(sensitivity=1.0, scale=2.0, dimension=3, neighboring_relation="replace_one",
    ...                where="output").epsilon
    0.5
    """

    mechanism: ClassVar[str] = "l2_laplace"

    scale: float

    @property
    def epsilon(self) -> float:
        """``sensitivity / scale``: each of the `count` releases is epsilon-DP."""
        return self.ratio


@dataclass(frozen=True, kw_only=True)
class LaplaceEvent(_HasScale, QueryEvent):
    """A query plus independent Laplace noise in every coordinate.

    `sensitivity` is the **l1** distance of the query's values on two neighbors.

    Parameters
    ----------
    scale : float
        Scale of the noise in every coordinate.
    """

    mechanism: ClassVar[str] = "laplace"

    scale: float

    @property
    def epsilon(self) -> float:
        """``sensitivity / scale``: each of the `count` releases is epsilon-DP."""
        return self.ratio


SAMPLINGS = {"poisson": "add_or_remove_one", "fixed-size": "replace_one"}
"""How rows may be sampled for a release, and the one neighboring relation each is analyzed for."""


@dataclass(frozen=True, kw_only=True)
class _SampledEvent(QueryEvent):
    """A query of a random part of the rows, drawn in secret and afresh each time, plus noise.

    `sensitivity` is that on a sample.

    Parameters
    ----------
    batch : int
        Rows in the sample; the expected number with Poisson sampling.
    n_samples : int
        Rows of the data.
    sampling : {"poisson", "fixed-size"}
        "poisson" takes every row independently with probability ``batch / n_samples``, "fixed-size"
        a uniform subset without replacement. Poisson sampling is analyzed for neighbors that differ
        in one record's presence, fixed-size sampling for a replaced record; no other pair is
        accepted.
    """

    batch: int
    n_samples: int
    sampling: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("batch", self.batch, low=1, high=self.n_samples)
        relation = SAMPLINGS[check_choice("sampling", self.sampling, tuple(SAMPLINGS))]
        if self.neighboring_relation not in (relation, _OF_GROUPS[relation]):
            raise ValueError(
                f"sampling={self.sampling!r} must go with neighboring_relation={relation!r}, the "
                f"relation for which its amplification is proved; got "
                f"{self.neighboring_relation!r}."
            )

    @property
    def sampler_delta(self) -> float:
        """What one access adds to delta because samplers end at a finite range."""
        return super().sampler_delta + (_BATCH if self.sampling == "poisson" else 0.0)

    @property
    def sampling_rate(self) -> float:
        """``batch / n_samples``."""
        return self.batch / self.n_samples


@dataclass(frozen=True, kw_only=True)
class SubsampledGaussianEvent(_HasStddev, _SampledEvent):
    """A query of a random sample of the rows plus Gaussian noise.

    Parameters
    ----------
    stddev : float
        Standard deviation of the noise in every coordinate.
    """

    mechanism: ClassVar[str] = "subsampled_gaussian"

    stddev: float


@dataclass(frozen=True, kw_only=True)
class SubsampledLaplaceEvent(_HasScale, _SampledEvent):
    """A query of a random sample of the rows plus Laplace noise in every coordinate.

    `sensitivity` is the **l1** distance of the query's values on two samples that differ in the one
    record.

    Parameters
    ----------
    scale : float
        Scale of the noise in every coordinate.
    """

    mechanism: ClassVar[str] = "subsampled_laplace"

    scale: float

    @property
    def epsilon(self) -> float:
        """``ln(1 + q (exp(e) - 1))``, ``q`` the sampling rate and ``e = sensitivity / scale``.

        Amplification by subsampling of a pure mechanism, for both kinds of sampling (Balle, Barthe
        & Gaboardi 2018, Theorems 8 and 9): each of the `count` releases is epsilon-DP.
        """
        whole, rate = self.ratio, self.sampling_rate
        # For a large exponent, ln(1 + q (e^x - 1)) = x + ln(q + (1 - q) e^-x).
        if whole > 1.0:
            return whole + math.log(rate + (1.0 - rate) * math.exp(-whole))
        return max(math.log1p(rate * math.expm1(whole)), _LEAST)


@dataclass(frozen=True, kw_only=True)
class NoisyMaxEvent(_HasScale, Event):
    """The index of the largest (or smallest) of some scores, noise having been added to each.

    Parameters
    ----------
    sensitivity : float
        Largest change of one score between neighbors, as it is charged.
    scale : float
        Scale of the noise.
    candidates : int
        Number of scores.
    noise_kind : {"laplace", "exponential", "gumbel"}
    monotone : bool
        Whether a neighbor's scores all move in the same direction.
    """

    mechanism: ClassVar[str] = "noisy_max"

    sensitivity: float
    scale: float
    candidates: int
    noise_kind: str
    monotone: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("noise_kind", self.noise_kind, ("laplace", "exponential", "gumbel"))

    @property
    def sampler_delta(self) -> float:
        """What one access adds to delta because samplers end at a finite range."""
        return self.candidates * _VALUE

    @property
    def epsilon(self) -> float:
        """``2 sensitivity / scale``, or half of it for monotone scores: what one choice costs."""
        return max((1.0 if self.monotone else 2.0) * self.sensitivity / self.scale, _LEAST)


@dataclass(frozen=True, kw_only=True)
class ExponentialEvent(Event):
    """A choice by the exponential mechanism, from any set.

    Parameters
    ----------
    epsilon : float
        The log-probabilities' range: the logarithm of the probability ratio of neighbors lies, for
        all outcomes, in one interval of this length that holds 0. One choice is epsilon-DP and
        (epsilon^2 / 8)-zCDP (Cesar & Rogers 2021, Lemma 3.4).
    """

    mechanism: ClassVar[str] = "exponential"

    epsilon: float


@dataclass(frozen=True, kw_only=True)
class ZCDPEvent(Event):
    """An access that is proved to be rho-zCDP, by whatever mechanism.

    Parameters
    ----------
    rho : float
    """

    mechanism: ClassVar[str] = "zcdp"

    rho: float


@dataclass(frozen=True, kw_only=True)
class GDPEvent(Event):
    """An access that is proved to be mu-GDP, by whatever mechanism.

    Parameters
    ----------
    mu : float
    """

    mechanism: ClassVar[str] = "gdp"

    mu: float


@dataclass(frozen=True, kw_only=True)
class _ObjectiveEvent(Event):
    r"""The exact minimizer of a sum of losses, a ridge, and a random linear term.

    ``w(b) = argmin sum_i c_i l(<x_i, w>; y_i) + (ridge / 2) ||w||^2 + <b, w>``, all of it released,
    with b drawn independently of the data from a density nu.

    Parameters
    ----------
    lipschitz : float
        L: bound of the norm of one record's gradient.
    smoothness : float
        B: bound of the norm of one record's Hessian, which has rank one.
    ridge : float
        Of the sum, not of the mean.
    dimension : int

    Notes
    -----
    On data D the minimizer w belongs to ``b = f_D(w) = -(gradient of the rest at w)``. The rest is
    strongly convex with a Lipschitz gradient, so f_D is one-to-one and Lipschitz both ways, and w
    has the density ``nu(f_D(w)) |det f_D'(w)|`` almost everywhere (a piecewise linear slope has its
    kinks on hyperplanes). Between neighbors the logarithm of this density changes by two terms.

    1. The determinant. Without the records that differ, ``-f'`` is a matrix A of at least ``ridge``
       times the identity; one record x adds ``h x x^T`` with ``0 <= h ||x||^2 <= B`` and multiplies
       the determinant by ``1 + h x^T A^-1 x``, which is in ``[1, 1 + B / ridge]``. A record present
       in one data set only changes it by such a factor. So does a replaced one: the ratio of two
       numbers in that interval is at most its end. Either way **once**
       :attr:`log_jacobian` ``= ln(1 + B / ridge)`` (Chaudhuri, Monteleoni & Sarwate 2011 and Kifer,
       Smith & Thakurta 2012 lose a factor of 2 here; Redberg, Koskela & Wang 2023 bound it by
       ``|ln(1 - B / ridge)|``).
    2. nu at ``b' = b + v`` instead of b, v the difference of the two records' gradients at w(b).
    """

    lipschitz: float
    smoothness: float
    ridge: float
    dimension: int

    @property
    def sensitivity(self) -> float:
        """Largest norm of the difference of neighbors' gradient sums."""
        return records_apart(self.neighboring_relation) * self.lipschitz

    @property
    def log_jacobian(self) -> float:
        """``ln(1 + smoothness / ridge)``, rounded up, never 0."""
        return max(math.log1p(self.smoothness / self.ridge) * (1.0 + 2.0**-48), _LEAST)


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbationEvent(_HasStddev, _ObjectiveEvent):
    """The minimizer of an objective with a Gaussian linear term.

    Parameters
    ----------
    stddev : float
        Standard deviation of the linear term's coefficients, in the unit of the gradient sum.
    monotone : bool
        Whether the loss is monotone in the margin, in a direction that the record determines, as
        the logistic loss is: its slope then has a known sign.

    See Also
    --------
    dpfast.privacy.accountants.objective : The price.

    Examples
    --------
    >>> from dpfast.privacy import ObjectivePerturbationEvent
    >>> event = ObjectivePerturbationEvent(lipschitz=1.0, smoothness=0.25, ridge=2.5, dimension=3,
    ...     stddev=10.0, monotone=True, neighboring_relation="replace_one", where="objective")
    >>> round(event.log_jacobian, 4), event.shifts
    (0.0953, ((1, 0.2), (2, 0.1), (1, 0.0)))
    """

    mechanism: ClassVar[str] = "objective_perturbation"

    stddev: float
    monotone: bool

    @property
    def shifts(self) -> tuple[tuple[int, float], ...]:
        """Corners of the set that v lies in: how many, and bounds of their norms over `stddev`.

        One record's gradient is ``t x / ||x||`` with t in [0, L] up to a sign that is fixed by the
        record (`monotone`), or with t in [-L, L]. So v is in a segment with corners 0 and L, or
        -L and L; with two records it is in the parallelogram that two such segments span. If their
        angle is free, its corners have norms of at most (0, L, L, 2L). Between the diagonals of a
        rhombus of side 2L at most one is longer than ``2 sqrt(2) L``, so for two-sided losses they
        are at most (2L, 2L, sqrt(2) L, sqrt(2) L).
        """
        s = max(self.lipschitz / self.stddev, _LEAST)
        if records_apart(self.neighboring_relation) == 1:
            return ((1, s), (1, 0.0)) if self.monotone else ((2, s),)
        if self.monotone:
            return ((1, 2.0 * s), (2, s), (1, 0.0))
        return ((2, 2.0 * s), (2, math.sqrt(2.0) * s))


@dataclass(frozen=True, kw_only=True)
class L2LaplaceObjectiveEvent(_HasScale, _ObjectiveEvent):
    """The minimizer of an objective with a linear term of density ``exp(-norm(b) / scale)``.

    Parameters
    ----------
    scale : float
        Scale of the linear term's coefficients, in the unit of the gradient sum.

    Examples
    --------
    >>> from dpfast.privacy import L2LaplaceObjectiveEvent
    >>> event = L2LaplaceObjectiveEvent(lipschitz=1.0, smoothness=0.25, ridge=2.5, dimension=3,
    ...     scale=10.0, neighboring_relation="replace_one", where="objective")
    >>> round(event.epsilon, 4)
    0.2953
    """

    mechanism: ClassVar[str] = "l2_laplace_objective"

    scale: float

    @property
    def epsilon(self) -> float:
        """``log_jacobian + sensitivity / scale``: each of the `count` releases is epsilon-DP.

        The density of the linear term changes by ``exp((||b + v|| - ||b||) / scale)``, at most
        ``exp(||v|| / scale)`` (Chaudhuri, Monteleoni & Sarwate 2011, Theorem 9).
        """
        return self.log_jacobian + self.sensitivity / self.scale


@dataclass(frozen=True, kw_only=True)
class _SelectionOfRunsEvent(Event):
    """The best of a random number of independent runs; the others, and their number, stay secret.

    Parameters
    ----------
    repetitions : {"poisson", "negative-binomial"}
        Law of the number of runs.
    mean_runs : float
        Its mean.
    shape : float
        Of the negative binomial law; see :mod:`dpfast.privacy.selection`, which has the proofs.
    """

    repetitions: str
    mean_runs: float
    shape: float

    def __post_init__(self) -> None:
        super().__post_init__()
        law_parameter(self.repetitions, self.mean_runs, self.shape)

    @property
    def sampler_delta(self) -> float:
        """What one search adds to delta: its own part, and that of its runs.

        The number of runs is drawn within ``t = 2^-640`` of its law, on both sides of neighbors:
        ``(1 + exp(e)) t`` for a search that costs e, below 2^-200 for every price up to 300.
        """
        return _SEARCH + self.mean_runs * self._run_sampler_delta()

    def _run_sampler_delta(self) -> float:
        return _ABSTRACT


@dataclass(frozen=True, kw_only=True)
class PureSelectionEvent(_SelectionOfRunsEvent):
    """The best of a random number of runs, each of which is pure.

    Parameters
    ----------
    epsilon_of_run : float
        Each run is so much DP.
    """

    mechanism: ClassVar[str] = "pure_selection"

    epsilon_of_run: float

    @property
    def epsilon(self) -> float:
        """``(1 + shape)`` times that of a run, or ``e + m tanh(e/2)`` for Poisson repetitions."""
        return selection_epsilon(self.epsilon_of_run, self.repetitions, self.mean_runs, self.shape)


@dataclass(frozen=True, kw_only=True)
class SelectionEvent(_SelectionOfRunsEvent):
    """The best of a random number of runs, by their Renyi divergences.

    Parameters
    ----------
    alternatives : tuple of tuples of Event
        What one record can meet in a run: one of these lists of accesses, never two.  A run that
        draws one of several settings at random, or works on disjoint parts of the records one
        after another, has a log-moment of at most the largest of theirs (a mixture whose component
        is part of the output; a record is in one part only).
    """

    mechanism: ClassVar[str] = "selection"

    alternatives: tuple[tuple[Event, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        alternatives = tuple(
            tuple(
                event_from_dict(event) if isinstance(event, Mapping) else event
                for event in alternative
            )
            for alternative in self.alternatives
        )
        object.__setattr__(self, "alternatives", alternatives)
        events = [event for alternative in alternatives for event in alternative]
        if not alternatives or not all(alternatives):
            raise ValueError(
                f"alternatives must be lists of events, none of them empty; got {alternatives!r}."
            )
        for event in events:
            if not isinstance(event, Event):
                raise TypeError(f"alternatives must hold events; got {event!r}.")
            if event.neighboring_relation != self.neighboring_relation:
                raise ValueError(
                    f"alternatives must be events of {self.neighboring_relation!r}, as the "
                    f"selection; got one of {event.neighboring_relation!r}."
                )

    def _run_sampler_delta(self) -> float:
        return max(map(sampler_delta, self.alternatives))

    def describe(self) -> dict[str, float | int | str]:
        """Return the law of the number of runs, and what one of them may cost."""
        lists = (
            " + ".join(f"{event.count} x {event.mechanism}" for event in alternative)
            for alternative in self.alternatives
        )
        alternatives = " or ".join(dict.fromkeys(lists))
        return {**super().describe(), "alternatives": alternatives}

    def to_dict(self) -> dict[str, Any]:
        """Return the event as values of JSON, its alternatives in full."""
        alternatives = [[event.to_dict() for event in lists] for lists in self.alternatives]
        return {**super().to_dict(), "alternatives": alternatives}


EVENTS: dict[str, type[Event]] = {
    kind.mechanism: kind
    for kind in (
        GaussianEvent,
        SubsampledGaussianEvent,
        L2LaplaceEvent,
        LaplaceEvent,
        SubsampledLaplaceEvent,
        NoisyMaxEvent,
        ExponentialEvent,
        ZCDPEvent,
        GDPEvent,
        ObjectivePerturbationEvent,
        L2LaplaceObjectiveEvent,
        PureSelectionEvent,
        SelectionEvent,
    )
}
"""Every class of events by the name of its mechanism."""


def counted(event: Event, count: int) -> Event:
    """Return `event` in no place and so many times; its other fields were checked before.

    ``dataclasses.replace`` would check all of them again, several times an iteration.
    """
    made = object.__new__(type(event))
    made.__dict__.update(event.__dict__, where="", count=count)
    return made


def sampler_delta(events: Iterable[Event]) -> float:
    """Return what `events` add to delta because samplers end at a finite range."""
    return math.fsum(event.count * event.sampler_delta for event in events)


def event_from_dict(record: Mapping[str, Any]) -> Event:
    """Return the event that :meth:`Event.to_dict` described.

    Raises
    ------
    TypeError
        If `record` is not a mapping.
    ValueError
        If the mechanism is not known, a field is missing or unknown, or a value is out of range.
    """
    if not isinstance(record, Mapping):
        raise TypeError(f"an event must be a mapping of field names to values; got {record!r}.")
    values = dict(record)
    kind = EVENTS[check_choice("mechanism", values.pop("mechanism", ""), tuple(EVENTS))]
    expected = {field.name for field in fields(kind)}
    if set(values) != expected:
        raise ValueError(
            f"an event of mechanism {kind.mechanism!r} must have the fields "
            f"{sorted(expected)}; got {sorted(values)}."
        )
    return kind(**values)


@lru_cache(maxsize=64)
def _numbers(kind: type[Event]) -> tuple[tuple[str, type], ...]:
    """Return the names and types of an event's numbers and flags."""
    hints = get_type_hints(kind)
    return tuple((f.name, hints[f.name]) for f in fields(kind) if hints[f.name] in _NUMBERS)


_NUMBERS = (int, float, bool)


def _checked(name: str, kind: type, value: Any) -> int | float | bool:
    """Return the value of a field as a number of Python, if it is in range."""
    if kind is int:
        return check_integer(name, value, low=1, high=_LARGEST)
    if kind is bool:
        return check_flag(name, value)
    return check_real(name, value, low=0.0, low_open=True)
