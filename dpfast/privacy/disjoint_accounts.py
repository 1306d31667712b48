"""One payment for many fits, each to people of its own: parallel composition.

Claim.  Let everybody belong to one of several parts, and let who belongs to which be fixed
beforehand, whatever the records say; so are the parts' sizes, which are public as that of one
data set is.  If everything that is done to one part is admitted by a privacy filter of that part,
of a limit b that is the same for all parts and was fixed beforehand, then all releases of all parts
together are within b, whichever parts are asked for next, and for what, because of earlier releases
of any of them.

Proof.  Neighbors differ in the record at one place (all rows of one person), whose part j does not
depend on the record: a replaced record is in the same part as the one that it replaces, an absent
one contributes nothing to it.  Given all earlier releases, an access to another part has the same
law for both neighbors; it is one of price 0 in the induction of :mod:`dpfast.privacy.filters`,
which bounds what follows by what is left of part j's limit *whatever was released*.  So the
releases are within b for this pair, and j was any.  Beside other accesses to the same people they
count as one access of price b: an interactive mechanism within b composes with others, whenever
they are made, as one release within b does (Lyu 2022 for Renyi divergences; Vadhan & Zhang 2023 for
trade-off functions, such as mu-GDP, and for pure DP).

It is not enough that the parts are disjoint in the data at hand.  If the record itself says where
it belongs (the month of a visit, the clinic that was chosen), replacing it takes it out of one part
and brings it into another: two parts change, and so do their sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dpfast._validation import check_choice
from dpfast.privacy.budget import Budget, check_budget
from dpfast.privacy.events import RELATIONS, Event
from dpfast.privacy.filters import budget_filter

if TYPE_CHECKING:
    from dpfast.privacy.budget_accountant import BudgetAccountant

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_PAYMENT = re.compile(rf"parts '{_NAME.pattern}'")
_UNITS = {"approximate": "gdp", "zcdp": "zcdp", "gdp": "gdp"}


def parts_event(
    name: str, budget: Budget, neighboring_relation: str, accountant: str
) -> tuple[Event, str]:
    """The one access that all parts together amount to, and the unit in which each is limited."""
    check_name("name", name)
    check_choice("neighboring_relation", neighboring_relation, RELATIONS)
    check_budget(budget)
    if budget.kind not in _UNITS:
        raise ValueError(
            f"budget must have a delta, a rho or a mu for disjoint parts; got {budget!r}. "
            "Fits of pure epsilon are within Budget(rho=epsilon**2 / 2)."
        )
    check_choice("accountant", accountant, ("auto", "gdp", "zcdp"))
    unit = _UNITS[budget.kind] if accountant == "auto" else accountant
    return budget_filter(budget, unit).as_event(neighboring_relation, f"parts {name!r}"), unit


def check_name(what: str, name: object) -> str:
    """Return a name that may be part of a file's."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a text; got {name!r}.")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{what} must have letters, digits, '-' and '_' alone, 64 at most, and begin with none "
            f"of '-'; got {name!r}."
        )
    return name


class DisjointAccounts:
    """Accounts of people who have nobody in common; see :meth:`BudgetAccountant.disjoint`.

    ``parts["2024-03"]`` is the account of one part, which its name opens again.

    Attributes
    ----------
    name : str
    """

    def __init__(self, name: str, opened: Callable[[str], BudgetAccountant]) -> None:
        self.name, self._opened = name, opened
        self._known: dict[str, BudgetAccountant] = {}

    def __getitem__(self, part: str) -> BudgetAccountant:
        if part not in self._known:
            check_name("part", part)  # before there is a file of that name
            # Of threads that ask for it at once all get one: two would have its budget each.
            self._known.setdefault(part, self._opened(part))
        return self._known[part]

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "DisjointAccounts cannot be pickled or copied: the copy's parts would have their "
            "budgets again. Call disjoint() of an account with the same path in the other process."
        )

    def __repr__(self) -> str:
        return f"DisjointAccounts({self.name!r}, opened: {sorted(self._known)})"


def part_path(path: Path | None, name: str, part: str) -> Path | None:
    """The file of a part, beside that of the account."""
    return None if path is None else path.with_name(f"{path.name}.{name}.{part}")


def check_no_payment(events: Iterable[Event]) -> None:
    """Refuse events that would pass for the payment of parts (ValueError)."""
    for event in events:
        if isinstance(event, Event) and _PAYMENT.fullmatch(event.where):
            raise ValueError(
                f"where must be another name than {event.where!r}, which is that of what "
                "disjoint() pays for parts. Nothing was spent."
            )


def check_relation(events: Iterable[Event], expected: str | None) -> None:
    """Refuse events between other neighbors than those whose parts were paid for (ValueError)."""
    for event in events:
        if expected is not None and event.neighboring_relation != expected:
            raise ValueError(
                f"neighboring_relation must be {expected!r}, for which the parts were paid; got "
                f"{event.neighboring_relation!r}. Nothing was spent."
            )
