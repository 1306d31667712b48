"""The ledger: every noisy access is written down, and paid for, before the data is touched."""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpfast._validation import check_choice
from dpfast.errors import BudgetExceeded, UnsupportedEvent
from dpfast.privacy.accountants import ACCOUNTANTS, Accountant, AdditiveAccountant
from dpfast.privacy.budget import Budget
from dpfast.privacy.events import Event, event_from_dict

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

_SCHEMA = "dpfast.ledger"
_VERSION = 1


@dataclass(frozen=True)
class Guarantee:
    """What a ledger's events promise together.

    Attributes
    ----------
    epsilon, delta : float
        The events are (epsilon, delta)-DP.
    neighboring_relation : str or None
        None if there are no events.
    accountant : str
        The accountant that proves it.
    mu : float or None
        The events are mu-GDP; None if the accountant "gdp" does not price them all.
    rho : float or None
        The events are rho-zCDP; None if the accountant "zcdp" does not price them all.
    """

    epsilon: float
    delta: float
    neighboring_relation: str | None
    accountant: str
    mu: float | None = None
    rho: float | None = None


class Ledger:
    """An append-only list of privacy events that never passes its budget.

    The ledger admits an event exactly when the total that an accountant then reports is at most the
    budget: what it enforces and what it reports are one number. Used from several threads it stays
    correct.

    Parameters
    ----------
    budget : Budget
    accountant : {"auto", "pure", "gdp", "zcdp", "basic", "objective"}, default="auto"
        "auto" takes the smallest epsilon among the accountants that support all the events.

    Raises
    ------
    TypeError, ValueError
        If `budget` is not a Budget, or the accountant is not known or cannot price in its unit.

    Examples
    --------
    >>> from dpfast.privacy import Budget, GaussianEvent, Ledger
    >>> ledger = Ledger(Budget(1.0, 1e-6))
    >>> ledger.spend(GaussianEvent(sensitivity=1.0, stddev=10.0, dimension=3,
    ...                            neighboring_relation="replace_one", where="gradient"))
    >>> guarantee = ledger.guarantee()
    >>> round(guarantee.epsilon, 4), guarantee.delta, guarantee.accountant
    (0.3969, 1e-06, 'gdp')
    """

    def __init__(self, budget: Budget, accountant: str = "auto") -> None:
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget, such as Budget(1.0, 1e-6); got {budget!r}.")
        check_choice("accountant", accountant, ("auto", *ACCOUNTANTS))
        self._allowed = tuple(ACCOUNTANTS) if accountant == "auto" else (accountant,)
        if not any(ACCOUNTANTS[name].accepts(budget) for name in self._allowed):
            raise ValueError(
                f"the accountant {accountant!r} cannot account for {budget!r}; "
                f"use 'auto' or one of {[n for n, a in ACCOUNTANTS.items() if a.accepts(budget)]}."
            )
        self._budget = budget
        self._accountant = accountant
        self._events: list[Event] = []
        # The events without their places, counted: accountants need no more, and a thousand equal
        # iterations cost them as much as one.
        self._tally: Counter[Event] = Counter()
        self._lock = threading.Lock()

    @property
    def budget(self) -> Budget:
        """The limit."""
        return self._budget

    @property
    def accountant(self) -> str:
        """The accountant that was asked for."""
        return self._accountant

    @property
    def events(self) -> tuple[Event, ...]:
        """The events so far, in order."""
        with self._lock:
            return tuple(self._events)

    def spend(self, event: Event) -> None:
        """Write `event` down if the budget allows it. Call this before the data is touched.

        Parameters
        ----------
        event : Event

        Raises
        ------
        TypeError
            If `event` is not an Event.
        ValueError
            If its neighboring relation is not that of the events before it.
        UnsupportedEvent
            If no accountant can price it in the budget's unit together with the events before it.
        BudgetExceeded
            If the total would pass the budget.

        Notes
        -----
        When it raises, nothing was spent.
        """
        with self._lock:
            self._admit([event])

    def can_afford(self, *events: Event) -> bool:
        """Say whether `events` could be spent together now. Nothing is spent.

        Raises
        ------
        TypeError, ValueError, UnsupportedEvent
            As for :meth:`spend`.
        """
        with self._lock:
            try:
                self._check(list(events))
            except BudgetExceeded:
                return False
            return True

    def guarantee(self) -> Guarantee:
        """Return what the events so far promise together.

        The total of the events is a guarantee of its own if their number and parameters were fixed
        beforehand. If they were chosen after looking at earlier releases, what is promised to the
        outside is the budget (the total is then a value that itself depends on the releases;
        Rogers, Roth, Ullman & Vadhan 2016).

        Returns
        -------
        guarantee : Guarantee
            Its epsilon is at most the budget's, for a budget given as (epsilon, delta). Its delta
            is 0 if the guarantee is pure, otherwise the budget's.
        """
        with self._lock:
            events, budget = _merged(self._tally), self._budget
        if not events:
            return Guarantee(0.0, 0.0, None, self._accountant)
        prices = {
            accountant: accountant.epsilon(events, budget.delta)
            for accountant in self._supporting(events)
        }
        best = min(prices, key=prices.__getitem__)
        totals = {
            accountant.unit: accountant.total(events)
            for accountant in ACCOUNTANTS.values()
            if isinstance(accountant, AdditiveAccountant) and all(map(accountant.supports, events))
        }
        return Guarantee(
            epsilon=prices[best],
            delta=0.0 if best.pure else budget.delta,
            neighboring_relation=events[0].neighboring_relation,
            accountant=best.name,
            mu=totals.get("mu"),
            rho=totals.get("rho"),
        )

    def to_json(self) -> str:
        """Return the ledger as JSON text; :meth:`from_json` reads it back."""
        return json.dumps(
            {
                "schema": _SCHEMA,
                "version": _VERSION,
                "budget": self._budget.to_dict(),
                "accountant": self._accountant,
                "events": [event.to_dict() for event in self.events],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "Ledger":
        """Return the ledger that :meth:`to_json` wrote, checked again from the start.

        Raises
        ------
        TypeError, ValueError
            If the text is not a ledger of this version, or a value is out of range.
        UnsupportedEvent, BudgetExceeded
            If the events are not within the budget.
        """
        record = read_json(text, _SCHEMA, _VERSION, ("budget", "accountant", "events"))
        ledger = cls(Budget(**record["budget"]), record["accountant"])
        with ledger._lock:
            ledger._admit([event_from_dict(event) for event in record["events"]])
        return ledger

    def to_dp_event(self) -> "DpEvent":
        """Return the events as one DpEvent, for a second opinion by the library dp-accounting.

        See :func:`dpfast.privacy.to_dp_event`.
        """
        from dpfast.privacy.dp_event import to_dp_event

        return to_dp_event(self.events)

    def __repr__(self) -> str:
        return f"Ledger({self._budget!r}, {self._accountant!r}): {len(self.events)} events"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Ledger cannot be pickled or copied: two copies could spend one budget twice. "
            "Write it with to_json() and read it with Ledger.from_json()."
        )

    def _supporting(self, events: Iterable[Event]) -> list[Accountant]:
        accountants = [ACCOUNTANTS[name] for name in self._allowed]
        return [a for a in accountants if all(map(a.supports, events))]

    def _admit(self, new: Sequence[Event]) -> None:
        """Append `new` if the budget allows it. The lock is held."""
        self._tally = self._check(new)
        self._events += new

    def _check(self, new: Sequence[Event]) -> Counter[Event]:
        """Return the events' tally with `new` if the budget allows it. The lock is held."""
        for event in new:
            if not isinstance(event, Event):
                raise TypeError(f"only a privacy event can be spent; got {event!r}.")
            first = (self._events or new)[0]
            if event.neighboring_relation != first.neighboring_relation:
                raise ValueError(
                    "one ledger cannot mix neighboring relations: it began with "
                    f"{first.neighboring_relation!r} and {event.where!r} asks for "
                    f"{event.neighboring_relation!r}. Nothing was spent. Use one relation for all "
                    "releases, or a ledger for each."
                )
        tally = self._tally.copy()
        tally.update(_kinds(new))
        events, budget = _merged(tally), self._budget
        accountants = [a for a in self._supporting(events) if a.accepts(budget)]
        if not accountants:
            raise UnsupportedEvent(
                f"no accountant among {list(self._allowed)} can price "
                f"{sorted({event.mechanism for event in events})} against {budget!r}. Nothing was "
                "spent. " + _REMEDIES[budget.kind]
            )
        # Lazily: mostly the first one says yes. Written so that a NaN is refused.
        if not any(a.spent(events, budget) <= budget.limit for a in accountants):
            before = min(a.spent(_merged(self._tally), budget) for a in accountants)
            after = min(a.spent(events, budget) for a in accountants)
            raise BudgetExceeded(
                f"{budget.unit} would grow from {before:.6g} to {after:.6g} by the release(s) "
                f"{sorted({event.where for event in new})}, over the limit of {budget!r}. Nothing "
                "was spent. Give a larger budget, or ask for fewer releases or more noise."
            )
        return tally


_REMEDIES = {
    "pure": "Gaussian noise needs a delta > 0: Budget(epsilon, delta).",
    "approximate": "Use accountant='auto'.",
    "zcdp": "Use accountant='auto', or Budget(epsilon, delta).",
    "gdp": "Only Gaussian noise is priced in mu: use Budget(epsilon, delta) or Budget(rho=...).",
}


def _kinds(events: Iterable[Event]) -> Counter[Event]:
    """Count how often each event occurs, whatever its place."""
    counter: Counter[Event] = Counter()
    for event in events:
        counter[replace(event, where="", count=1)] += event.count
    return counter


def _merged(tally: Mapping[Event, int]) -> list[Event]:
    """Return the counted events as one event each."""
    return [replace(event, count=count) for event, count in tally.items()]


def read_json(text: str, schema: str, version: int, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the record in `text`, which must have the stated schema, version and further names.

    Raises
    ------
    ValueError
        If it has not.
    """
    try:
        record: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected JSON text of schema {schema!r}; got {error}.") from error
    if not isinstance(record, dict):
        raise ValueError(f"expected a JSON object of schema {schema!r}; got {type(record)}.")
    found = record.get("schema"), record.get("version")
    if found != (schema, version):
        raise ValueError(
            f"expected JSON of schema {schema!r}, version {version}; got {found}. "
            "It was written by something else or by another version of dpfast."
        )
    missing = [name for name in names if name not in record]
    if missing:
        raise ValueError(f"the JSON of schema {schema!r} lacks {missing}.")
    return record
