"""What happened: one record for every noisy access to the data.

An event holds exactly what an accountant needs and nothing that depends on the data. What an event
costs is not its business: see :mod:`dpfast.privacy.accountants`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from dpfast._validation import check_choice, check_integer, check_real

NEIGHBORING_RELATIONS = ("replace_one", "add_or_remove_one")
"""Two data sets are neighbors if one record is replaced, or if one record is present in only one
of them (its place being taken by a zero contribution, so that the number of rows is public)."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """A release of a query with added noise.

    Parameters
    ----------
    sensitivity : float
        The l2 distance of the query's values on two neighbors, in the query's unit, as it is
        charged: bounds of rounding and of floating-point summation are included.
    dimension : int
        Number of coordinates released.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    where : str
        The place in the algorithm.
    count : int, default=1
        How many such releases, each with fresh noise.
    """

    mechanism: ClassVar[str]
    """Name of the mechanism, unique among the classes of events."""

    sensitivity: float
    dimension: int
    neighboring_relation: str
    where: str
    count: int = 1

    def __post_init__(self) -> None:
        _set_real(self, "sensitivity")
        check_integer("dimension", self.dimension, low=1)
        check_choice("neighboring_relation", self.neighboring_relation, NEIGHBORING_RELATIONS)
        if not isinstance(self.where, str):
            raise TypeError(f"where must be a string; got {self.where!r}.")
        check_integer("count", self.count, low=1)

    @property
    def noise(self) -> float:
        """Scale of the noise, in the query's unit."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the event as values of JSON; :func:`event_from_dict` reads it back."""
        return {"mechanism": self.mechanism, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class GaussianEvent(Event):
    """A query plus Gaussian noise.

    Parameters
    ----------
    stddev : float
        Standard deviation of the noise in every coordinate.

    See Also
    --------
    Event : The parameters common to all events.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        _set_real(self, "stddev")

    @property
    def noise(self) -> float:
        """Standard deviation of the noise."""
        return self.stddev

    @property
    def noise_multiplier(self) -> float:
        """``stddev / sensitivity``."""
        return self.stddev / self.sensitivity

    @property
    def mu(self) -> float:
        """``sensitivity / stddev``: each of the `count` releases is mu-GDP."""
        return self.sensitivity / self.stddev


@dataclass(frozen=True, kw_only=True)
class L2LaplaceEvent(Event):
    """A query plus noise of density proportional to ``exp(-norm(z) / scale)``, l2 norm.

    Parameters
    ----------
    scale : float
        Scale of the noise.

    See Also
    --------
    Event : The parameters common to all events.

    Examples
    --------
    >>> from dpfast.privacy import L2LaplaceEvent
    >>> L2LaplaceEvent(sensitivity=1.0, scale=2.0, dimension=3, neighboring_relation="replace_one",
    ...                where="output").epsilon
    0.5
    """

    mechanism: ClassVar[str] = "l2_laplace"

    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _set_real(self, "scale")

    @property
    def noise(self) -> float:
        """Scale of the noise."""
        return self.scale

    @property
    def epsilon(self) -> float:
        """``sensitivity / scale``: each of the `count` releases is epsilon-DP."""
        return self.sensitivity / self.scale


EVENTS: dict[str, type[Event]] = {kind.mechanism: kind for kind in (GaussianEvent, L2LaplaceEvent)}
"""Every class of events by the name of its mechanism."""


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


def _set_real(event: Event, name: str) -> None:
    value = check_real(name, getattr(event, name), low=0.0, low_open=True)
    object.__setattr__(event, name, value)
