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
from dpfast.privacy.calibration import gaussian_epsilon, zcdp_epsilon
from dpfast.privacy.events import Event, event_from_dict
from dpfast.privacy.filters import PrivacyFilter, budget_filter, check_one_relation

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

_SCHEMA = "dpfast.ledger"
_VERSION = 2


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
    adaptive : bool
        Whether the accesses were chosen along the way; then all of this is the budget's, whatever
        was spent of it.
    """

    epsilon: float
    delta: float
    neighboring_relation: str | None
    accountant: str
    mu: float | None = None
    rho: float | None = None
    adaptive: bool = False


class Ledger:
    """An append-only list of privacy events that never passes its budget.

    The ledger admits an event exactly when the total that an accountant then reports is at most the
    budget: what it enforces and what it reports are one number. Used from several threads it stays
    correct.

    Parameters
    ----------
    budget : Budget
    accountant : {"auto", "pure", "gdp", "zcdp", "basic"}, default="auto"
        "auto" takes the smallest epsilon among the accountants that support all the events.
    adaptive : bool, default=False
        Whether the accesses are chosen along the way, after looking at earlier releases. Then the
        rule of admission is that of :func:`~dpfast.privacy.budget_filter`, in one unit that is
        settled here, and the guarantee is the budget itself.

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

    def __init__(self, budget: Budget, accountant: str = "auto", adaptive: bool = False) -> None:
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget, such as Budget(1.0, 1e-6); got {budget!r}.")
        check_choice("accountant", accountant, ("auto", *ACCOUNTANTS))
        if not isinstance(adaptive, bool):
            raise TypeError(f"adaptive must be True or False; got {adaptive!r}.")
        self._allowed = tuple(ACCOUNTANTS) if accountant == "auto" else (accountant,)
        if not any(ACCOUNTANTS[name].accepts(budget) for name in self._allowed):
            raise ValueError(
                f"the accountant {accountant!r} cannot account for {budget!r}; "
                f"use 'auto' or one of {[n for n, a in ACCOUNTANTS.items() if a.accepts(budget)]}."
            )
        self._filter = budget_filter(budget, accountant) if adaptive else None
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
    def adaptive(self) -> bool:
        """Whether accesses may be chosen along the way."""
        return self._filter is not None

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
        self.spend_all([event])

    def spend_all(self, events: Iterable[Event]) -> None:
        """Write `events` down if the budget allows all of them together; otherwise none.

        Parameters
        ----------
        events : iterable of Event

        Raises
        ------
        TypeError, ValueError, UnsupportedEvent, BudgetExceeded
            As for :meth:`spend`.
        """
        new = list(events)
        with self._lock:
            self._admit(new)

    def check(self, *events: Event) -> None:
        """Raise what spending `events` together would raise now. Nothing is spent.

        Raises
        ------
        TypeError, ValueError, UnsupportedEvent, BudgetExceeded
            As for :meth:`spend`.
        """
        with self._lock:
            self._check(events)

    def can_afford(self, *events: Event) -> bool:
        """Say whether `events` could be spent together now. Nothing is spent.

        Raises
        ------
        TypeError, ValueError, UnsupportedEvent
            As for :meth:`spend`.
        """
        with self._lock:
            return self._affords(events)

    def guarantee(self) -> Guarantee:
        """Return what the events so far promise together.

        The total of the events is a guarantee of its own if their number and parameters were fixed
        beforehand. For an adaptive ledger the guarantee is the budget: the total is then a value
        that itself depends on the releases, and no guarantee (Rogers, Roth, Ullman & Vadhan 2016).

        Returns
        -------
        guarantee : Guarantee
            Its epsilon is at most the budget's, for a budget given as (epsilon, delta). Its delta
            is 0 if the guarantee is pure, otherwise the budget's.
        """
        with self._lock:
            events, budget = _merged(self._tally), self._budget
        if not events:
            # The first access is chosen without looking, so without it nothing was looked at.
            return Guarantee(0.0, 0.0, None, self._accountant, adaptive=self.adaptive)
        if self._filter is not None:
            return _whole(self._filter, budget, events[0].neighboring_relation)
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
                "adaptive": self.adaptive,
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
        record = read_json(text, _SCHEMA, _VERSION, ("budget", "accountant", "adaptive", "events"))
        ledger = cls(Budget(**record["budget"]), record["accountant"], record["adaptive"])
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
        adaptive = ", adaptive=True" if self.adaptive else ""
        return (
            f"Ledger({self._budget!r}, {self._accountant!r}{adaptive}): {len(self.events)} events"
        )

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
        self._check(new)
        if self._filter is not None:
            self._filter.spend(*new)
        self._tally.update(_kinds(new))
        self._events += new

    def _affords(self, new: Sequence[Event]) -> bool:
        """Say whether the budget allows `new`. The lock is held."""
        if self._filter is not None:
            return self._filter.can_afford(*new)
        events, accountants = self._priced(new)
        # Lazily: mostly the first one says yes. Written so that a NaN is refused.
        return any(a.spent(events, self._budget) <= self._budget.limit for a in accountants)

    def _check(self, new: Sequence[Event]) -> None:
        """Raise if the budget does not allow `new`. The lock is held."""
        if self._affords(new):
            return
        budget = self._budget
        if self._filter is not None:
            self._filter.spend(*new)  # which says why not
        events, accountants = self._priced(new)
        before = min(a.spent(_merged(self._tally), budget) for a in accountants)
        after = min(a.spent(events, budget) for a in accountants)
        raise BudgetExceeded(
            f"{budget.unit} would grow from {before:.6g} to {after:.6g} by the release(s) "
            f"{sorted({event.where for event in new})}, over the limit of {budget!r}. Nothing "
            "was spent. Give a larger budget, or ask for fewer releases or more noise."
        )

    def _priced(self, new: Sequence[Event]) -> tuple[list[Event], list[Accountant]]:
        """Return all the events with `new`, merged, and who can price them. The lock is held."""
        check_one_relation(new, self._events[0].neighboring_relation if self._events else None)
        tally = self._tally.copy()
        tally.update(_kinds(new))
        events = _merged(tally)
        accountants = [a for a in self._supporting(events) if a.accepts(self._budget)]
        if not accountants:
            raise UnsupportedEvent(
                f"no accountant among {list(self._allowed)} can price "
                f"{sorted({event.mechanism for event in events})} against {self._budget!r}. "
                "Nothing was spent. " + _REMEDIES[self._budget.kind]
            )
        return events, accountants


def _whole(limited: PrivacyFilter, budget: Budget, neighboring_relation: str) -> Guarantee:
    """Return what an adaptive ledger promises, whatever was spent.

    A budget in epsilon promises just that. Otherwise the limit is converted: mu-GDP is
    (mu^2 / 2)-zCDP, epsilon-DP is (epsilon^2 / 2)-zCDP (Bun & Steinke 2016, Proposition 1.4).
    """
    limit = limited.limit
    mu = limit if limited.unit == "mu" else None
    rho = limit if limited.unit == "rho" else 0.5 * limit * limit
    if budget.epsilon is not None:
        epsilon = budget.epsilon
    elif mu is not None:
        epsilon = gaussian_epsilon(mu, budget.delta)
    else:
        epsilon = zcdp_epsilon(rho, budget.delta)
    return Guarantee(
        epsilon=epsilon,
        delta=0.0 if limited.unit == "epsilon" else budget.delta,
        neighboring_relation=neighboring_relation,
        accountant=limited.accountant,
        mu=mu,
        rho=rho,
        adaptive=True,
    )


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
