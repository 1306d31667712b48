"""The privacy report of a fit: what is promised, to whom, and what it rests on."""

import html
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING, Any

from dpfast._files import read_json
from dpfast._validation import check_choice, check_flag, check_real
from dpfast.errors import BudgetExceeded, UnsupportedEvent
from dpfast.privacy.accountants import ACCOUNTANTS, AdditiveAccountant
from dpfast.privacy.conversions import gaussian_epsilon, zcdp_epsilon
from dpfast.privacy.events import RELATIONS, Event, event_from_dict, sampler_delta, unit_of
from dpfast.privacy.filters import GDPFilter, PureFilter, ZCDPFilter, check_one_relation
from dpfast.privacy.ledger import SAMPLERS_SHARE, Ledger, merged, totals

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

_SCHEMA = "dpfast.privacy_report"
_VERSION = 1

_CHANGES = {
    "replace_one": "if any one record of the data were replaced by any other",
    "add_or_remove_one": "if the contribution of any one record were added to the data or removed "
    "from it, while the number of rows, which is public, stayed as it is",
    "replace_one_group": "if all rows of any one group (person) of the data were replaced by any "
    "others, however many",
    "add_or_remove_one_group": "if the contribution of all rows of any one group (person) were "
    "added to the data or removed from it, while the number of groups, which is public, stayed as "
    "it is",
}
_ELSE = (
    "the running time; and whatever else was computed from the data, such as scaling, scores, or "
    "parameters chosen by results."
)
_NOT_COVERED = {
    "row": "Not covered: all records of one person together, if there are several; the number of "
    f"records; {_ELSE}",
    "group": f"Not covered: the number of groups; {_ELSE}",
}
_ONE = {"row": "one record", "group": "one group with all its rows"}
_COLUMNS = ("where", "mechanism", "count", "dimension", "sensitivity", "noise")


@dataclass(frozen=True, kw_only=True)
class PrivacyReport:
    """What was promised about the records behind a result, in words and in numbers.

    Everything in it is public: it holds nothing that was computed from the data except through the
    releases it accounts for.

    Parameters
    ----------
    epsilon, delta : float
        The result is (epsilon, delta)-differentially private.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        Or "replace_one_group", "add_or_remove_one_group": all rows of one group (person) then.
    events : tuple of Event
        Every noisy access to the data.
    accountant : str
        The accountant that proves the guarantee from the events.
    reproducible : bool
        Whether the noise came from a fixed `random_state`. It can then be recomputed, and the
        result must not be released.
    notes : tuple of str
        What was taken from the data and is not covered by the guarantee, one sentence each.
    mu, rho : float or None
        The same guarantee as mu-GDP and rho-zCDP, where the events allow it.
    adaptive : bool
        Whether the accesses were chosen along the way; then the guarantee is the whole budget of
        the run, and adding up the events gives a number that depends on what was released.
    prior : str
        What the result began with besides these records, and whether that has a guarantee of its
        own; empty for nothing.

    Examples
    --------
    >>> from dpfast.privacy import Budget, GaussianEvent, Ledger, PrivacyReport
    >>> ledger = Ledger(Budget(1.0, 1e-6))
    >>> ledger.spend(GaussianEvent(sensitivity=1.0, stddev=4.5, dimension=3,
    ...                            neighboring_relation="replace_one", where="output"))
    >>> print(PrivacyReport.from_ledger(ledger, reproducible=True))
    Differential privacy with epsilon = 0.935, delta = 1e-06: the probability of anything that can \
be concluded from this result would change by a factor of at most 2.55, plus at most 1e-06, if any \
one record of the data were replaced by any other.
    This holds for one record, whatever else is known about the others, and for this result alone: \
the guarantees of other results from the same data add up with it.
    reproducible: do not release (the noise came from a fixed random_state and can be recomputed)
    Not covered: all records of one person together, if there are several; the number of records; \
the running time; and whatever else was computed from the data, such as scaling, scores, or \
parameters chosen by results.
    Accountant: gdp. Accesses to the data:
      where   mechanism  count  dimension  sensitivity  noise
      output  gaussian   1      3          1            4.5
    """

    epsilon: float
    delta: float
    neighboring_relation: str
    events: tuple[Event, ...]
    accountant: str
    reproducible: bool = False
    notes: tuple[str, ...] = ()
    mu: float | None = None
    rho: float | None = None
    adaptive: bool = False
    prior: str = ""

    def __post_init__(self) -> None:
        numbers = {
            "epsilon": check_real("epsilon", self.epsilon, low=0.0),
            "delta": check_real("delta", self.delta, low=0.0, high=1.0, high_open=True),
        }
        check_choice("neighboring_relation", self.neighboring_relation, RELATIONS)
        for name in ("reproducible", "adaptive"):
            check_flag(name, getattr(self, name))
        for name in ("mu", "rho"):
            if getattr(self, name) is not None:
                numbers[name] = check_real(name, getattr(self, name), low=0.0, allow_inf=True)
        for name, value in numbers.items():  # numbers of Python, whatever was given
            object.__setattr__(self, name, value)
        object.__setattr__(self, "events", tuple(self.events))
        if isinstance(self.notes, str) or not all(isinstance(note, str) for note in self.notes):
            raise TypeError(f"notes must be a sequence of strings; got {self.notes!r}.")
        object.__setattr__(self, "notes", tuple(self.notes))
        if not isinstance(self.prior, str):
            raise TypeError(f"prior must be a string; got {self.prior!r}.")

    @classmethod
    def from_ledger(
        cls, ledger: Ledger, *, reproducible: bool, notes: tuple[str, ...] = (), prior: str = ""
    ) -> "PrivacyReport":
        """Return the report on everything that was spent on `ledger`.

        Raises
        ------
        ValueError
            If nothing was spent: there is nothing to report on.
        """
        guarantee = ledger.guarantee()
        if guarantee.neighboring_relation is None:
            raise ValueError("the ledger has no events, so there is no guarantee to report.")
        return cls(
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            neighboring_relation=guarantee.neighboring_relation,
            events=ledger.events,
            accountant=guarantee.accountant,
            reproducible=reproducible,
            notes=notes,
            mu=guarantee.mu,
            rho=guarantee.rho,
            adaptive=guarantee.adaptive,
            prior=prior,
        )

    @property
    def unit(self) -> str:
        """Whose data the guarantee is about: those of a "row", or of a "group" of rows (person)."""
        return unit_of(self.neighboring_relation)

    @property
    def sampler_delta(self) -> float:
        """What the finite range of the samplers adds to delta.

        A `delta` above 0 has it in it; it is on top of a `delta` of 0.
        """
        return sampler_delta(self.events)

    def to_json(self) -> str:
        """Return the report as JSON text; :meth:`from_json` reads it back."""
        record = {**asdict(self), "events": [event.to_dict() for event in self.events]}
        if not self.prior:
            del record["prior"]
        return json.dumps({"schema": _SCHEMA, "version": _VERSION, **record})

    @classmethod
    def from_json(cls, text: str) -> "PrivacyReport":
        """Return the report that :meth:`to_json` wrote.

        What it states is computed again from its events: no report is read that promises more
        privacy than they give. (Of accesses chosen along the way it is checked that they are within
        the stated limit.) That the events themselves are the true ones it cannot show.

        Raises
        ------
        TypeError, ValueError
            If the text is not a report of this version, a value is out of range, or the events do
            not give what is stated.
        ImportError
            If the accountant needs a library that is not installed.
        """
        names = tuple(cls.__dataclass_fields__)
        # Reports from before these fields were written lack them.
        later: dict[str, Any] = {"adaptive": False, "prior": ""}
        required = tuple(name for name in names if name not in later)
        record = later | read_json(text, _SCHEMA, _VERSION, required, optional=tuple(later))
        values = {name: record[name] for name in names}
        for name in ("events", "notes"):
            if not isinstance(values[name], list):
                raise TypeError(f"{name} must be a list; got {values[name]!r}.")
        try:
            values["events"] = tuple(event_from_dict(event) for event in values["events"])
            report = cls(**values)
            _check_stated(report)
        except RecursionError:
            raise ValueError("its events are nested too deeply.") from None
        return report

    def to_dp_event(self) -> "DpEvent":
        """Return the events as one DpEvent, for a second opinion by the library dp-accounting.

        See :func:`dpfast.privacy.to_dp_event`.
        """
        from dpfast.privacy.dp_event import to_dp_event

        return to_dp_event(self.events)

    def __str__(self) -> str:
        lines = [*self._sentences(), *self._warnings(), _NOT_COVERED[self.unit]]
        lines.append(f"Accountant: {self.accountant}. {self._heading()}")
        table = self._table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append("  " + "  ".join(cells).rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in self._sentences())
        warnings = "".join(
            f"<p><strong>{html.escape(text)}</strong></p>" for text in self._warnings()
        )
        names, *cells = self._table()
        head, *body = (
            "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)
            for tag, row in [("th", names), *(("td", row) for row in cells)]
        )
        rows = "".join(f"<tr>{row}</tr>" for row in body)
        return (
            f"<div>{paragraphs}{warnings}<p>{_NOT_COVERED[self.unit]}</p>"
            f"<p>Accountant: {html.escape(self.accountant)}. "
            f"{html.escape(self._heading())}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        )

    def _sentences(self) -> list[str]:
        plus = f", plus at most {_round_up(self.delta)}," if self.delta > 0.0 else ","
        limit = "apart from what is listed below as not covered, " if self.notes else ""
        # Past e^100 the factor says nothing; the number is only to be printable.
        factor = math.exp(self.epsilon) if self.epsilon < 100.0 else math.inf
        ends = (
            f" (Samplers end at a finite range, which adds at most {_round_up(self.sampler_delta)} "
            "to delta.)"
        )
        began = f"It began with a prior, which it says nothing about: {self.prior}."
        return [
            f"Differential privacy with epsilon = {_round_up(self.epsilon)}, "
            f"delta = {_round_up(self.delta)}: "
            f"{limit}the probability of anything that can be concluded from this result would "
            f"change by a factor of at most {_round_up(factor)}{plus} "
            f"{_CHANGES[self.neighboring_relation]}.{'' if self.delta else ends}",
            f"This holds for {_ONE[self.unit]}, whatever else is known about the others, and for "
            "this result alone: the guarantees of other results from the same data add up with it.",
            *([began] if self.prior else []),
        ]

    def _warnings(self) -> list[str]:
        lines = []
        if self.reproducible:
            lines.append(
                "reproducible: do not release (the noise came from a fixed random_state and can "
                "be recomputed)"
            )
        lines.extend(f"Taken from the data, not covered by the guarantee: {n}" for n in self.notes)
        return lines

    def _heading(self) -> str:
        if not self.adaptive:
            return "Accesses to the data:"
        return (
            "Accesses to the data, chosen along the way; the guarantee is the whole budget, fixed "
            "beforehand, whatever these add up to:"
        )

    def _table(self) -> list[tuple[str, ...]]:
        """Return the names of the columns and a row for each event, or for equal ones in a row."""
        rows = [
            (
                event.where,
                event.mechanism,
                str(event.count),
                *map(_shown, numbers(event)),
                ", ".join(f"{name}={_shown(v)}" for name, v in _details(event).items()),
            )
            for event in condensed(self.events)
        ]
        table = [(*_COLUMNS, "details"), *rows]
        return table if any(row[-1] for row in rows) else [row[:-1] for row in table]


_SLACK = 1.0 - 1e-9
"""Rounding that another machine's mathematical functions may make up for."""


def _check_stated(report: PrivacyReport) -> None:
    """Refuse a report whose numbers promise more than its events give.

    The events are spent anew on a ledger of the stated accountant. It is the upper bounds that are
    compared: a report that promises less than it could is no lie (it may be of an earlier version,
    whose accountant was less tight).

    Raises
    ------
    TypeError, ValueError
    """
    check_choice("accountant", report.accountant, tuple(ACCOUNTANTS))
    if not report.events:
        raise ValueError("events must not be empty: a report is about accesses to the data.")
    check_one_relation(report.events, report.neighboring_relation)
    if report.delta > 0.0 and report.sampler_delta > SAMPLERS_SHARE * report.delta:
        raise ValueError(
            f"delta is stated as {report.delta:.6g}, which has no room for the "
            f"{report.sampler_delta:.3g} that the finite range of samplers adds to it."
        )
    least = _least_adaptive(report) if report.adaptive else _least(report)
    for name, value in least.items():
        stated = getattr(report, name)
        # Written so that a NaN is refused. What is not stated is not promised.
        if stated is not None and not stated >= value * _SLACK:
            raise ValueError(
                f"{name} is stated as {stated:.6g}, but by the accountant {report.accountant!r} "
                f"the events add up to {value:.6g}: the report was changed, or its events are not "
                "all of its own."
            )


def _least(report: PrivacyReport) -> dict[str, float]:
    """Return the smallest numbers that accesses fixed beforehand allow to be stated."""
    accountant = ACCOUNTANTS[report.accountant]
    events = merged(report.events)
    least = {"mu": math.inf, "rho": math.inf, **totals(events)}
    try:
        return {**least, "epsilon": accountant.epsilon(events, report.delta)}
    except UnsupportedEvent as error:
        raise ValueError(str(error)) from error


def _least_adaptive(report: PrivacyReport) -> dict[str, float]:
    """Return the same for accesses chosen along the way, within a limit that they do not pass."""
    kind = {"pure": PureFilter, "zcdp": ZCDPFilter, "gdp": GDPFilter}.get(report.accountant)
    limit = None if kind is None else getattr(report, kind.unit)
    if kind is None or limit is None:
        raise ValueError(
            f"accesses chosen along the way need a limit in the unit of their accountant; got "
            f"accountant={report.accountant!r}, mu={report.mu!r}, rho={report.rho!r}."
        )
    limited = kind(limit)
    try:
        limited.spend(*report.events)
    except (BudgetExceeded, UnsupportedEvent) as error:
        raise ValueError(f"the events are not within the stated limit: {error}") from error
    if kind is PureFilter:
        return {"mu": math.inf, "rho": 0.5 * limit * limit, "epsilon": limit}
    if report.delta == 0.0:
        return {"epsilon": math.inf}
    if kind is GDPFilter:
        epsilon = gaussian_epsilon(limit, report.delta)
        return {"mu": limit, "rho": 0.5 * limit * limit, "epsilon": epsilon}
    return {"mu": math.inf, "rho": limit, "epsilon": zcdp_epsilon(limit, report.delta)}


def condensed(events: Iterable[Event]) -> list[Event]:
    """Events for a table: equal ones in a row become one, their counts added up."""
    result: list[Event] = []
    for event in events:
        last = result[-1] if result else None
        if last is not None and replace(last, count=1) == replace(event, count=1):
            result[-1] = replace(last, count=last.count + event.count)
        else:
            result.append(event)
    return result


def numbers(event: Event) -> tuple[float | None, ...]:
    """Return dimension, sensitivity and noise of an event; None for what its kind does not have."""
    return tuple(getattr(event, name, None) for name in _COLUMNS[3:])


def shares_told(events: Iterable[Event]) -> str:
    """Say which share of the budget each place takes; nothing if no sum of prices tells it."""
    events = list(events)
    for name, unit in (("gdp", "mu²"), ("pure", "epsilon")):
        accountant = ACCOUNTANTS[name]
        if isinstance(accountant, AdditiveAccountant) and all(map(accountant.supports, events)):
            prices: dict[str, float] = {}
            for event in events:
                price = event.count * accountant.price(event)
                prices[event.where] = prices.get(event.where, 0.0) + price
            total = sum(prices.values())
            told = [f"{where} {100.0 * price / total:.3g} %" for where, price in prices.items()]
            return (
                f"shares of the budget (in units of {unit}): {', '.join(told)}" if told[1:] else ""
            )
    return ""


def _details(event: Event) -> dict[str, float | int | str]:
    """Return what an event has beyond the columns: its noise is there already, under its name."""
    noise = getattr(event, "noise", None)
    return {
        name: value
        for name, value in event.describe().items()
        if name not in _COLUMNS and not (name in ("stddev", "scale") and value == noise)
    }


def _shown(value: float | int | str | None) -> str:
    if isinstance(value, bool | str):
        return str(value)
    return "-" if value is None else f"{value:.6g}"


def _round_up(value: float) -> str:
    """Return three digits that promise no more than `value` does."""
    # The relative 1e-9 keeps binary fractions such as 0.1 from turning into 0.101.
    context = Context(prec=3, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal_from_float(value * (1.0 - 1e-9))):.3g}"
