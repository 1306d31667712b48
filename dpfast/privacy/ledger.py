"""The ledger: every noisy access is written down, and paid for, before the data is touched."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from dpfast._files import check_unchanged, checksum, new_lock, read_json, this_process
from dpfast._validation import check_choice, check_flag
from dpfast.errors import BudgetExceeded, UnsupportedEvent
from dpfast.privacy import ledger_text
from dpfast.privacy.accountants import ACCOUNTANTS, AUTOMATIC, Accountant, AdditiveAccountant
from dpfast.privacy.budget import Budget, check_budget
from dpfast.privacy.checkpoint import Checkpoint
from dpfast.privacy.conversions import gaussian_epsilon, zcdp_epsilon
from dpfast.privacy.events import Event, counted, event_from_dict, sampler_delta
from dpfast.privacy.filters import PrivacyFilter, budget_filter, check_one_relation
from dpfast.privacy.open_accounts import Charged, active_accountants

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

_SCHEMA = "dpfast.ledger"
_VERSION = 2

_NOTHING = "Nothing was spent."
_MEANWHILE = (
    "What this fit paid for before stays spent; others were charged to the account since it began. "
    "Fit one after another."
)

SAMPLERS_SHARE = 1e-13
"""Of a delta, what is set aside for the finite range of samplers."""


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
        Whether the accesses were chosen along the way. Then the guarantee is that of the budget,
        however much was spent. Otherwise it holds if the accesses were fixed beforehand.
    sampler_delta : float
        What the finite range of the samplers adds to delta
        (:attr:`~dpfast.privacy.Event.sampler_delta`). A delta above 0 includes it; it comes on top
        of a delta of 0, of `mu` and of `rho`, which are those of ideal noise.
    """

    epsilon: float
    delta: float
    neighboring_relation: str | None
    accountant: str
    mu: float | None = None
    rho: float | None = None
    adaptive: bool = False
    sampler_delta: float = 0.0

    def __str__(self) -> str:
        how = "chosen along the way: the whole budget" if self.adaptive else "fixed beforehand"
        to_whom = "" if self.neighboring_relation is None else f", {self.neighboring_relation}"
        return (
            f"epsilon = {self.epsilon:.6g}, delta = {self.delta:.6g}{to_whom} "
            f"(accountant {self.accountant}; accesses {how})"
        )


class _Total(NamedTuple):
    """What a ledger adds up.

    The events are counted without their places: accountants need no more, and a thousand equal
    iterations cost them as much as one.  `ends` is what the samplers' finite range adds to delta.
    """

    tally: Counter[Event]
    ends: float


_Bill = tuple[Charged, Sequence[Event]]


def _pay(bills: Sequence[_Bill]) -> None:
    """Charge all accounts or none: each is held until those after it have paid.

    In an order that is the same for everybody, or two could wait for each other.
    """
    if bills:
        (accountant, charged), *others = bills
        accountant.charge(charged, partial(_pay, others))


class Ledger:
    """An append-only list of privacy events that never passes its budget.

    Inside a :class:`~dpfast.privacy.BudgetAccountant`, every event is charged to the accountant
    first, and the events of a plan together (:meth:`check`).

    The ledger admits an event exactly when the total that an accountant then reports is at most the
    budget: what it enforces and what it reports are one number. It is safe to use from several
    threads. A forked child cannot spend on it, since parent and child would then both have its
    budget.

    What the samplers' finite range adds to delta is part of it: a budget with a delta admits at
    most 1e-13 times delta of that, which every conversion between epsilon and delta makes up for by
    what it rounds up.

    Parameters
    ----------
    budget : Budget
    accountant : str, default="auto"
        "pure", "gdp", "zcdp", "basic", "optimal", "rdp", "objective" or "pld". "auto" takes the
        smallest epsilon among those that support all the events, except "pld", which needs the
        library dp-accounting.
    adaptive : bool, default=False
        Whether accesses may be chosen after looking at earlier releases. Then
        :func:`~dpfast.privacy.budget_filter` admits events, in one unit that is fixed here, and the
        guarantee is the budget itself.
    accounts : sequence of BudgetAccountant or None, default=None
        The accountants to charge first. None: those whose blocks surround the code that spends.
        Empty if all of it is already paid for.

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

    def __init__(
        self,
        budget: Budget,
        accountant: str = "auto",
        adaptive: bool = False,
        accounts: Sequence[Charged] | None = None,
    ) -> None:
        check_budget(budget)
        check_choice("accountant", accountant, ("auto", *ACCOUNTANTS))
        check_flag("adaptive", adaptive)
        self._allowed = AUTOMATIC if accountant == "auto" else (accountant,)
        if not any(ACCOUNTANTS[name].accepts(budget) for name in self._allowed):
            raise ValueError(
                f"the accountant {accountant!r} cannot account for {budget!r}; "
                f"use 'auto' or one of {[n for n, a in ACCOUNTANTS.items() if a.accepts(budget)]}."
            )
        self._filter = budget_filter(budget, accountant) if adaptive else None
        self._accounts = None if accounts is None else tuple(accounts)
        self._budget = budget
        self._accountant = accountant
        self._events: list[Event] = []
        self._total = _Total(Counter(), 0.0)
        self._lock = new_lock(self)
        #: Where a fit that can be interrupted writes down what it spends.
        self.log: Checkpoint | None = None
        # What was checked together before anything was spent, and what of it is not spent yet.
        self._plan: tuple[Event, ...] = ()
        self._left: Counter[Event] = Counter()
        # Accountants that have paid for all that is left, or for the whole adaptive ledger.
        self._paid: set[str] = set()
        self._process = this_process()

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

        Raises
        ------
        TypeError, ValueError, UnsupportedEvent, BudgetExceeded
            As for :meth:`spend`.
        """
        new = list(events)
        self._check_process()
        with self._lock:
            total = self._check(new)
            bills = self._bills(new)
            paid = () if self.log is None else self.log.paid(new) or ()
            open_bills = {name: bill for name, bill in bills.items() if name not in paid}
            try:
                _pay([open_bills[name] for name in sorted(open_bills)])
            except BudgetExceeded as error:
                if not self._events:
                    raise
                raise BudgetExceeded(str(error).replace(_NOTHING, _MEANWHILE)) from None
            self._paid.update(name for name, (_, charged) in bills.items() if charged is not new)
            # Before it is written down: an interrupt in between loses what was paid, and no more.
            for event in new if self._left else ():
                self._left[event.kind] -= event.count
            if self.log is not None:
                self.log.spend(new, list(open_bills))
            self._append(new, total)

    def spend_alone(self, events: Iterable[Event]) -> None:
        """Spend like :meth:`spend_all`, and charge no accountant that stands behind the ledger.

        For an account's own ledger, and for trials. A release that pays only here is missing from
        the account around it.
        """
        new = list(events)
        self._check_process()
        with self._lock:
            self._admit(new)

    def check(self, *events: Event, alone: bool = False) -> None:
        """Raise what spending `events` together would raise now. Nothing is spent.

        What is checked before anything is spent counts as the plan of a fit: a
        :class:`~dpfast.privacy.BudgetAccountant` is charged for all of it before the first of these
        events, and not again for the others. A part of the plan leaves it as it is; a ledger that
        is adaptive has none.

        Parameters
        ----------
        *events : Event
        alone : bool, default=False
            Leave out the :class:`~dpfast.privacy.BudgetAccountant` that stands behind the ledger.

        Raises
        ------
        TypeError, ValueError, UnsupportedEvent, BudgetExceeded
            As for :meth:`spend`.
        """
        self._check_process()
        with self._lock:
            self._check(events)
            for accountant, charged in () if alone else self._asked(events):
                accountant.check(*charged)
            if not (self._events or self.adaptive or self._planned(events)):
                self._paid, self._plan, self._left = set(), events, kinds(events)

    def can_afford(self, *events: Event) -> bool:
        """Say whether `events` could be spent together now. Nothing is spent.

        Raises
        ------
        TypeError, ValueError, UnsupportedEvent
            As for :meth:`spend`.
        """
        self._check_process()
        with self._lock:
            if not self._affords(events, self._with(events)):
                return False
            try:
                for accountant, charged in self._asked(events):
                    accountant.check(*charged)
            except BudgetExceeded:
                return False
            return True

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
            events, budget, ends = _merged(self._total.tally), self._budget, self._total.ends
        if not events:
            # The first access is chosen without looking, so without it nothing was looked at.
            return Guarantee(0.0, 0.0, None, self._accountant, adaptive=self.adaptive)
        if self._filter is not None:
            return whole_guarantee(self._filter, budget, events[0].neighboring_relation, ends)
        prices = {
            accountant: accountant.epsilon(events, budget.delta)
            for accountant in self._supporting(events)
        }
        best = min(prices, key=prices.__getitem__)
        totals = self.totals()
        return Guarantee(
            epsilon=prices[best],
            delta=0.0 if best.pure else budget.delta,
            neighboring_relation=events[0].neighboring_relation,
            accountant=best.name,
            mu=totals.get("mu"),
            rho=totals.get("rho"),
            sampler_delta=ends,
        )

    def totals(self) -> dict[str, float]:
        """Return what the events add up to, by unit, for every unit that prices them all."""
        with self._lock:
            events = _merged(self._total.tally)
        return totals(events)

    def used(self) -> float:
        """Return the share of the budget that is used so far, in the unit that is limited.

        That is the total over the limit (for mu, whose squares add up, the squared ratio; for a
        budget in epsilon the ratio of the epsilons, which do not add up).
        """
        with self._lock:
            if not self._events:
                return 0.0
            if self._filter is not None:
                share = self._filter.spent / self._filter.limit
                return share * share if self._filter.unit == "mu" else share
            events, accountants = self._priced(self._total)
        spent = min(a.spent(events, self._budget) for a in accountants)
        share = spent / self._budget.limit
        return share * share if self._budget.unit == "mu" else share

    def to_text(self) -> str:
        """Return the ledger for human eyes: budget, what is used, and a line for each event."""
        return ledger_text.plain(self)

    def _repr_html_(self) -> str:
        return ledger_text.markup(self)

    def to_json(self) -> str:
        """Return the ledger as JSON text; :meth:`from_json` reads it back.

        It ends with a checksum of the rest, so that a damaged or edited file is noticed: fewer
        events, or events with more noise, would otherwise look like a budget that is left.
        """
        record = {
            "schema": _SCHEMA,
            "version": _VERSION,
            "budget": self._budget.to_dict(),
            "accountant": self._accountant,
            "adaptive": self.adaptive,
            "events": [event.to_dict() for event in self.events],
        }
        return json.dumps({**record, "sha256": checksum(record)})

    @classmethod
    def from_json(cls, text: str) -> "Ledger":
        """Return the ledger that :meth:`to_json` wrote, checked again from the start.

        Raises
        ------
        TypeError, ValueError
            If the text is not a ledger of this version, was changed since it was written, or a
            value is out of range.
        UnsupportedEvent, BudgetExceeded
            If the events are not within the budget.
        """
        names = ("budget", "accountant", "adaptive", "events", "sha256")
        record = read_json(text, _SCHEMA, _VERSION, names, optional=("account",))
        if not isinstance(record["budget"], dict) or not isinstance(record["events"], list):
            raise TypeError("budget must be an object and events a list.")
        ledger = cls(Budget(**record["budget"]), record["accountant"], record["adaptive"])
        try:
            events = [event_from_dict(event) for event in record["events"]]
            with ledger._lock:
                ledger._admit(events)
        except RecursionError:
            raise ValueError("its events are nested too deeply.") from None
        check_unchanged(record)  # last: what can be named is named
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

    def _check_process(self) -> None:
        if self._process != this_process():
            raise RuntimeError(
                "this Ledger was made in another process, and the two could spend one budget "
                "twice. Nothing was spent. Make a ledger where it is needed; a BudgetAccountant "
                "with a path counts what several processes spend."
            )

    def _supporting(
        self, events: Sequence[Event], budget: Budget | None = None
    ) -> list[Accountant]:
        """Return who can price the events, and a budget if one is given.

        Exact accountants are asked first, and nobody else where there is one: no other can state
        less.
        """
        accountants = [ACCOUNTANTS[name] for name in self._allowed]
        exact = [a for a in accountants if a.exact]
        for asked in (exact, accountants):
            accepting = (a for a in asked if budget is None or a.accepts(budget))
            if found := [a for a in accepting if all(map(a.supports, events))]:
                return found
        return []

    def _admit(self, new: Sequence[Event]) -> None:
        """Append `new` if the budget allows it. The lock is held."""
        self._append(new, self._check(new))

    def _append(self, new: Sequence[Event], total: "_Total") -> None:
        """Write down `new`, which was checked, and the total with it. The lock is held.

        An interrupt, which comes when a function is called or ends, finds all of it or nothing.
        """
        limited = copy(self._filter)
        if limited is not None:
            limited.spend(*new)
        self._filter, self._total = limited, total
        self._events += new

    def _with(self, new: Sequence[Event]) -> "_Total":
        """Return the total with `new`. The lock is held.

        Raises
        ------
        TypeError, ValueError
            If they are no events, or not of one neighboring relation.
        """
        check_one_relation(new, self._events[0].neighboring_relation if self._events else None)
        tally = self._total.tally.copy()
        for event in new:
            tally[event.kind] += event.count
        ends = self._total.ends
        return _Total(tally, math.nextafter(ends + sampler_delta(new), 1.0) if new else ends)

    def _affords(self, new: Sequence[Event], total: "_Total") -> bool:
        """Say whether the budget allows `new`, which make up this total. The lock is held."""
        if not self._samplers_allow(total):
            return False
        if self._filter is not None:
            return self._filter.can_afford(*new)
        events, accountants = self._priced(total)
        for accountant in accountants:
            if isinstance(accountant, AdditiveAccountant) and accountant.total(events) <= _limit(
                self._budget, accountant.name
            ):
                return True  # without a conversion: this is asked a hundred thousand times
        # Lazily: mostly the first one says yes. Written so that a NaN is refused.
        return any(a.spent(events, self._budget) <= self._budget.limit for a in accountants)

    def _samplers_allow(self, total: "_Total") -> bool:
        """Say whether delta has room for the samplers' finite range."""
        delta = self._budget.delta
        return delta == 0.0 or total.ends <= SAMPLERS_SHARE * delta

    def _check(self, new: Sequence[Event]) -> "_Total":
        """Return the total with `new`; raise if the budget does not allow it. The lock is held."""
        total = self._with(new)
        if self._affords(new, total):
            return total
        budget = self._budget
        if not self._samplers_allow(total):
            raise BudgetExceeded(
                f"delta={budget.delta:g} is too small for the release(s) "
                f"{sorted({event.where for event in new})}: the finite range of samplers adds "
                f"{total.ends:.3g} to it in all, and must add at "
                f"most {SAMPLERS_SHARE:g} of it. Nothing was spent. Give a larger delta."
            )
        if self._filter is not None:
            self._filter.spend(*new)  # which says why not
        events, accountants = self._priced(total)
        before = min(a.spent(_merged(self._total.tally), budget) for a in accountants)
        after = min(a.spent(events, budget) for a in accountants)
        raise BudgetExceeded(
            f"{budget!r} cannot pay for this. {_NOTHING} Ask for less (a smaller epsilon, fewer "
            f"releases), or begin with a larger budget. [{budget.unit} would grow from "
            f"{before:.6g} to {after:.6g} by {sorted({event.where for event in new})}]"
        )

    def _bills(self, new: Sequence[Event]) -> dict[str, _Bill]:
        """Return what each accountant behind the ledger has to pay for `new`. The lock is held.

        What was fixed beforehand is paid in one: the plan, or, by an accountant that is not
        adaptive itself, all of an adaptive ledger, which is one access of a fixed size. Events
        beyond the plan are paid one by one.

        So an accountant has never paid for less than was spent in its block. It joins those in
        `_paid` by paying for all that is left of the plan. Whatever is spent is taken off that
        first, so that what `_paid` has paid for always includes what is left; a new plan begins
        with nobody in it.
        """
        bills: dict[str, _Bill] = {}
        behind = active_accountants() if self._accounts is None else self._accounts
        planned = bool(behind) and self._planned(new)
        for accountant in behind if new else ():
            if not (planned if self._filter is None else not accountant.adaptive):
                bills[accountant.identity] = accountant, new
            elif accountant.identity not in self._paid:
                bills[accountant.identity] = accountant, self._whole(new[0].neighboring_relation)
        return bills

    def _planned(self, new: Sequence[Event]) -> bool:
        """Say whether all of `new` is left of the plan, wherever it is. The lock is held."""
        return all(count <= self._left[event] for event, count in kinds(new).items())

    def _whole(self, neighboring_relation: str) -> Sequence[Event]:
        """Return what is paid in one. The lock is held."""
        if self._filter is not None:
            where = "all accesses, chosen along the way"
            return [self._filter.as_event(neighboring_relation, where)]
        return _merged(+self._left) if self._events else self._plan

    def _asked(self, new: Sequence[Event]) -> list[_Bill]:
        """Return the bills that may be too high, without those for what was paid before.

        A fit that goes on from its checkpoint has paid for the next access, and those who paid are
        asked again when that is over.
        """
        replaying = self.log is not None and self.log.replaying
        payers = self.log.payers() if self.log is not None and replaying else ()
        return [bill for name, bill in self._bills(new).items() if name not in payers]

    def _priced(self, total: "_Total") -> tuple[list[Event], list[Accountant]]:
        """Return all the events, merged, and who can price them."""
        events = _merged(total.tally)
        accountants = self._supporting(events, self._budget)
        if not accountants:
            raise UnsupportedEvent(
                f"{self._budget!r} has no price for the mechanism "
                f"{', '.join(sorted({event.mechanism for event in events}))}. {_NOTHING} "
                f"{_REMEDIES[self._budget.kind]} [accountants asked: {', '.join(self._allowed)}]"
            )
        return events, accountants


def whole_guarantee(
    limited: PrivacyFilter, budget: Budget, neighboring_relation: str, ends: float
) -> Guarantee:
    """Return what an adaptive ledger promises, whatever was spent.

    `ends` is what samplers add to a delta of 0; of another one a part is set aside for them.

    A budget in epsilon promises just that. Otherwise the limit is converted: mu-GDP is
    (mu^2 / 2)-zCDP, epsilon-DP is (epsilon^2 / 2)-zCDP (Bun & Steinke 2016, Proposition 1.4).
    """
    limit = limited.limit
    mu = limit if limited.unit == "mu" else None
    # A log-moment at one order bounds no other.
    rho = {"rho": limit, "log-moment": None}.get(limited.unit, 0.5 * limit * limit)
    if budget.epsilon is not None:
        epsilon = budget.epsilon
    elif mu is not None:
        epsilon = gaussian_epsilon(mu, budget.delta)
    else:
        assert rho is not None
        epsilon = zcdp_epsilon(rho, budget.delta)
    return Guarantee(
        epsilon=epsilon,
        delta=0.0 if limited.unit == "epsilon" else budget.delta,
        neighboring_relation=neighboring_relation,
        accountant=limited.accountant,
        mu=mu,
        rho=rho,
        adaptive=True,
        sampler_delta=SAMPLERS_SHARE * budget.delta or ends,
    )


_REMEDIES = {
    "pure": "Gaussian noise needs a delta > 0: Budget(epsilon, delta).",
    "approximate": "Use accountant='auto'.",
    "zcdp": "Use accountant='auto', or Budget(epsilon, delta).",
    "gdp": "Only Gaussian noise is priced in mu: use Budget(epsilon, delta) or Budget(rho=...).",
}


@lru_cache(maxsize=256)
def _limit(budget: Budget, accountant: str) -> float:
    """Return a total, in an additive accountant's unit, that is within the budget for sure."""
    try:
        return budget_filter(budget, accountant).limit
    except ValueError:
        return 0.0


def totals(events: Collection[Event]) -> dict[str, float]:
    """Return what `events` add up to, by unit, for every unit that prices them all."""
    return {
        accountant.unit: accountant.total(events)
        for accountant in ACCOUNTANTS.values()
        if isinstance(accountant, AdditiveAccountant) and all(map(accountant.supports, events))
    }


def merged(events: Iterable[Event]) -> list[Event]:
    """Return `events` as accountants get them: equal ones are one, whatever their places."""
    return _merged(kinds(events))


def kinds(events: Iterable[Event]) -> Counter[Event]:
    """Count how often each event is made, whatever its place."""
    counter: Counter[Event] = Counter()
    for event in events:
        counter[event.kind] += event.count
    return counter


def _merged(tally: Mapping[Event, int]) -> list[Event]:
    """Return the counted events as one event each."""
    return [event if count == 1 else counted(event, count) for event, count in tally.items()]
