"""One budget over many fits, in memory or in a file that outlives the process."""

import hmac
import inspect
import io
import json
import os
import secrets
import stat
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from dpfast._files import (
    atomic_writer,
    checksum,
    is_lock_of,
    open_lock,
    parse_json,
    read_text,
    this_process,
    wait_for_lock,
)
from dpfast._validation import check_flag, check_integer
from dpfast.errors import BudgetExceeded, BudgetFileError, UnsupportedEvent
from dpfast.privacy.budget import Budget
from dpfast.privacy.disjoint_accounts import (
    DisjointAccounts,
    check_no_payment,
    check_relation,
    part_path,
    parts_event,
)
from dpfast.privacy.events import Event, sampler_delta
from dpfast.privacy.filters import budget_filter
from dpfast.privacy.ledger import Guarantee, Ledger, whole_guarantee
from dpfast.privacy.open_accounts import enter, leave

T = TypeVar("T")


class _OfBudget:
    """Refuse the numbers of a budget in its place, as other libraries take them.

    A class of its own, so that the signature of accounts is that of their ``__init__``.
    """

    def __new__(cls, *_: Any, **settings: Any) -> Self:
        own = inspect.signature(cls.__init__).parameters
        numbers = {"epsilon", "delta", "rho", "mu"}.intersection(settings).difference(own)
        if numbers:
            raise TypeError(
                f"budget must be a Budget, which has the numbers; got {', '.join(sorted(numbers))} "
                f"beside it or in its place. Write {cls.__name__}(Budget(epsilon, delta))."
            )
        return super().__new__(cls)


class BudgetAccountant(_OfBudget):
    """A budget that several fits share.

    Inside ``with BudgetAccountant(...)``, every :class:`~dpfast.privacy.Ledger` charges its events
    to the accountant first, before the access to the data. A fit pays for all its planned accesses
    before the first, or is refused and pays nothing. Blocks can be nested; all pay, or none.

    Parameters
    ----------
    budget : Budget
    path : path-like, optional
        A file that keeps the account. It is created if it does not exist; otherwise it must have
        the same budget, accountant, `adaptive` and `key`. Several processes can use one file. It is
        a ledger in JSON (:meth:`Ledger.from_json` reads it), replaced as a whole under a lock
        (``path`` + ".lock") before an access: a process that is killed may have spent more than it
        used, never less. Each charge writes the file once. Symbolic links are followed; a file of
        several names (hard links) is refused.
    accountant : str, default="auto"
        How privacy is added up, as for a :class:`~dpfast.privacy.Ledger`. With `adaptive` and a
        budget of epsilon and delta, "auto" is "rdp", which prices every kind of release.
    adaptive : bool, default=True
        Whether the results of earlier fits may decide which fits follow, with what privacy
        parameters, and when to stop. The guarantee is then the whole budget, and a privacy filter
        (:func:`~dpfast.privacy.budget_filter`) admits fits. False adds up more tightly; that total
        is a guarantee only if all fits were fixed beforehand.
    key : bytes, optional
        With `path`: sign the file (HMAC-SHA-256), so that nobody can change what was spent without
        the key. An older copy of the file remains validly signed.
    all_threads : bool, default=True
        Whether the block covers fits in other threads and in child processes while it is open.
        False covers only the thread that opened it (and contexts copied from it).

    Raises
    ------
    TypeError, ValueError
        If the budget or the accountant is not valid.
    BudgetFileError
        If the file is damaged, belongs to another account, or has several names.
    OSError
        If the file cannot be read or written.

    Notes
    -----
    *Planned fits* are charged once, after their input was checked and before their first access.
    One that fails or is interrupted then has spent its plan; one that goes on from its checkpoint
    does not pay again. Whatever is released was charged before, so that at any time the prices of
    all accesses, in the order in which they were made, add up to no more than what was admitted: a
    filter that had been asked access by access would have admitted each of them, too, however fits
    at the same time take turns (:mod:`dpfast.privacy.filters`). Fits that choose their accesses
    along the way (``solver="dp-agd"``) pay one by one.

    *Nested blocks.* Each account is held until all others have been charged; no two fits hold what
    the other waits for, since all take them in the order of their names. Only an error in writing a
    file can leave some charged and others not; then the data are not touched.

    *Fits chosen by results.* The first charge is planned before anything was looked at. If it alone
    is too much for the filter, but within the budget as it would be in a ledger of its own, it is
    admitted and is the only one: nothing else is ever charged to the account. Otherwise everything
    is charged to the filter. Which of the two it is follows from the first plan alone, so that
    neither case rests on a choice by results: in the first, a subset of one plan that was fixed
    beforehand is released, in the second, what one filter admits.

    *Processes.* Forked children go on paying if there is a `path`, and are refused if there is
    none. So are child processes that were started otherwise (workers of joblib), see
    :mod:`dpfast.privacy.open_accounts`. Others know of nothing: open the accountant with the same
    `path` there.

    *The file* has a random number of its own and counts its charges. A process that uses it notices
    if it was replaced by an older copy, or deleted and begun anew. The lock file remembers the
    count, so that others, too, notice an older copy, or that the file is gone, as long as it is
    there.

    An adaptive fit inside an accountant that is not adaptive is charged its whole budget at its
    first access; one whose budget is pure needs ``adaptive=True`` here.

    Examples
    --------
    >>> from dpfast import Budget, BudgetAccountant, LogisticRegression
    >>> from dpfast.datasets import load_randhie
    >>> X, y = load_randhie(return_X_y=True)
    >>> model = LogisticRegression(epsilon=0.4, delta=0.0, solver="output-perturbation",
    ...                            data_norm=65.0, classes=[0, 1])
    >>> with BudgetAccountant(Budget(1.0)) as accountant:
    ...     for _ in range(10):
    ...         model = model.fit(X, y)
    Traceback (most recent call last):
    ...
    dpfast.errors.BudgetExceeded: Budget(epsilon=1.0, delta=0.0) cannot pay for this. ...
    >>> len(accountant.events)
    2
    >>> print(accountant.guarantee())
    epsilon = 1, delta = 0, replace_one (accountant pure; accesses chosen along the way: the whole \
budget)
    """

    def __init__(
        self,
        budget: Budget,
        path: str | os.PathLike[str] | None = None,
        accountant: str = "auto",
        adaptive: bool = True,
        *,
        key: bytes | None = None,
        all_threads: bool = True,
    ) -> None:
        self._adaptive = check_flag("adaptive", adaptive)
        self._all_threads = check_flag("all_threads", all_threads)
        if key is not None and (not isinstance(key, bytes) or len(key) < 16 or path is None):
            raise ValueError(
                "key must be at least 16 bytes, for an account with a path, such as "
                "secrets.token_bytes(32); or None."
            )
        self._key = key
        Ledger(budget, accountant)  # refuses a budget that the accountant cannot limit
        self._budget, self._accountant = budget, accountant
        # Of filters, the one that prices everything.
        general = adaptive and accountant == "auto" and budget.kind == "approximate"
        self._unit = "rdp" if general else accountant
        self._filter = budget_filter(budget, self._unit) if adaptive else None
        self._state = _State(Ledger(budget, self._unit, adaptive), secrets.token_hex(16))
        self._path = None if path is None else Path(os.path.realpath(path))
        self._lock = threading.Lock()
        self._guard: io.FileIO | None = None
        self._process = this_process()
        self._divisions: dict[str, DisjointAccounts] = {}
        self._own_charges = 0
        self._paid_by: str | None = None  # of a part: who paid for it
        _ALL.add(self)
        if self._path is not None:
            self._alone(self._begin)

    @classmethod
    def of_parent(cls, record: dict[str, Any]) -> Self:
        """Return the account of the process that started this one, from what it wrote down."""
        budget = Budget(**record["budget"])
        account = cls(budget, record["path"], record["accountant"], record["adaptive"])
        if account.identity != record["identity"]:
            raise BudgetFileError(
                f"{record['path']!r} is not the budget file that the process which started this "
                "one has open. Nothing was spent."
            )
        return account

    def for_children(self) -> dict[str, Any] | None:
        """What a child process needs to charge the account, as values of JSON; None without a file.

        The key of a signed file is nothing to be written down.
        """
        if self._path is None or self._key is not None:
            return None
        return {
            "path": str(self._path),
            "budget": self._budget.to_dict(),
            "accountant": self._accountant,
            "adaptive": self._adaptive,
            "identity": self.identity,
        }

    def disjoint(
        self,
        name: str,
        budget: Budget,
        neighboring_relation: str = "replace_one",
        accountant: str = "auto",
    ) -> DisjointAccounts:
        """Pay once for fits to several parts of the people, each of which gets the whole `budget`.

        Parallel composition: everybody belongs to one part, which is fixed beforehand and does not
        follow from the records, such as the month in which people were first registered, or the
        clinic of a register. Whatever their records say, nobody's are in two parts. Then what
        is done to one part says nothing about the people of another, and all parts together
        cost what one of them may. :mod:`dpfast.privacy.disjoint_accounts` has the proof.

        Parameters
        ----------
        name : str
            Of the division into parts. The account is charged the first time it is used; later it
            opens the same parts again.
        budget : Budget
            Of every part, for everything that is ever fitted to it; not pure.
        neighboring_relation : str, default="replace_one"
            That of all fits: with ``"_group"`` at its end where they are about persons.
        accountant : {"auto", "gdp", "zcdp"}, default="auto"
            In whose unit the parts are limited; "auto" takes the budget's own, and GDP for
            (epsilon, delta), which prices Gaussian noise alone, and best.

        Returns
        -------
        DisjointAccounts
            ``parts["2024-03"]`` is the account of a part: a :class:`BudgetAccountant` whose block
            covers the thread that opens it. There, this account is not charged again; any others
            are. With a `path`, each part has a file beside it.

        Raises
        ------
        TypeError, ValueError
            If an argument is not of the stated kind, or `name` was begun otherwise.
        BudgetExceeded, UnsupportedEvent, BudgetFileError, OSError
            As for :meth:`charge`; nothing was charged.

        Examples
        --------
        >>> from dpfast import Budget
        >>> account = BudgetAccountant(Budget(mu=0.5))
        >>> parts = account.disjoint("months", Budget(mu=0.3))
        >>> with parts["2024-01"]:
        ...     pass  # the whole of mu = 0.3 for those who were registered in January,
        >>> with parts["2024-02"]:
        ...     pass  # and again for those of February
        >>> round(account.remaining(), 2)
        0.64
        """
        event, unit = parts_event(name, budget, neighboring_relation, accountant)

        def pay() -> None:
            state = self._read()
            known = [each for each in state.ledger.events if each.where == event.where]
            if any(each != event for each in known):
                raise ValueError(
                    f"{event.where} were begun with {known[0].describe()}, "
                    f"{known[0].neighboring_relation}; got {event.describe()}, "
                    f"{neighboring_relation}. Nothing was spent."
                )
            if not known:
                self._spend(state, [event])

        def opened(part: str) -> BudgetAccountant:
            self._check_process()  # without a file, every process would have the part's budget
            path = part_path(self._path, name, part)
            account = BudgetAccountant(budget, path, unit, key=self._key, all_threads=False)
            account._paid_by = self.identity
            account._alone(lambda: account._limit_to(neighboring_relation))
            return account

        self._alone(pay)
        return self._divisions.setdefault(name, DisjointAccounts(name, opened))

    @property
    def paid_by(self) -> str | None:
        """Identity of the account that paid for all of this one beforehand, if it is a part's."""
        return self._paid_by

    @property
    def budget(self) -> Budget:
        """The limit."""
        return self._budget

    @property
    def adaptive(self) -> bool:
        """Whether fits may be chosen along the way."""
        return self._adaptive

    @property
    def all_threads(self) -> bool:
        """Whether a block covers other threads and child processes, too."""
        return self._all_threads

    @property
    def path(self) -> Path | None:
        """The file, as an absolute path without links."""
        return self._path

    @property
    def identity(self) -> str:
        """What a checkpoint knows the account by: a random number, which is in the file."""
        return f"account {self._state.name}"

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything that was charged so far, by other processes too."""
        return self._current().ledger.events

    @property
    def charges(self) -> int:
        """How often anything was charged so far, by other processes too."""
        return self._current().charges

    @property
    def own_charges(self) -> int:
        """How often this object charged the account, or began to and was interrupted."""
        return self._own_charges

    def charge(self, events: Iterable[Event], also: Callable[[], None] | None = None) -> None:
        """Spend `events` together, or nothing. Call this before the data is touched.

        Parameters
        ----------
        events : iterable of Event
        also : callable, optional
            Charges other accounts, once this one has admitted `events` and is kept for them. If it
            raises, nothing is charged here.

        Raises
        ------
        TypeError, ValueError, UnsupportedEvent, BudgetExceeded
            As for :meth:`Ledger.spend`; nothing was charged.
        BudgetFileError, OSError
            If the file cannot be used; then the charge may be in it, and the data must not be
            touched.
        RuntimeError
            In a forked child, without a file.
        """
        new = list(events)
        check_no_payment(new)
        self._alone(lambda: self._spend(self._read(), new, also))

    def _spend(
        self, state: "_State", new: Sequence[Event], also: Callable[[], None] | None = None
    ) -> None:
        """Charge `new` to the account as it is. The locks are held."""
        state = self._admitted(state, new)
        if also is not None:
            also()
        self._own_charges += 1
        state.ledger.spend_alone(new)
        if self._path is not None:
            self._write(state)
        self._state = state

    def check(self, *events: Event) -> None:
        """Raise what charging `events` together would raise now. Nothing is charged."""
        check_no_payment(events)
        self._alone(lambda: self._admitted(self._read(), events))

    def can_afford(self, *events: Event) -> bool:
        """Say whether `events` could be charged together now."""
        try:
            self.check(*events)
        except BudgetExceeded:
            return False
        return True

    def remaining(self) -> float:
        """Return the share of the budget that is left for further fits, between 0 and 1.

        See Also
        --------
        Ledger.used : What it is a share of.
        """
        state = self._current()
        return 0.0 if self._full(state) else max(0.0, 1.0 - state.ledger.used())

    def guarantee(self) -> Guarantee:
        """Return what everything that was charged promises together.

        That is the whole budget for an adaptive account, since what was charged so far, and that it
        was no more, may itself follow from results.
        """
        ledger = self._current().ledger
        events = ledger.events
        if not events or self._filter is None:
            return replace(ledger.guarantee(), adaptive=self._adaptive)
        return whole_guarantee(
            self._filter, self._budget, events[0].neighboring_relation, sampler_delta(events)
        )

    def to_text(self) -> str:
        """Return the account for human eyes."""
        return self._current().ledger.to_text()

    def to_json(self) -> str:
        """Return the account as the JSON of a ledger, as it stands in the file."""
        return self._text(self._current())

    def _repr_html_(self) -> str:
        return self._current().ledger._repr_html_()

    def __repr__(self) -> str:
        where = "" if self._path is None else f", path={str(self._path)!r}"
        how = "" if self._adaptive else ", adaptive=False"
        return f"BudgetAccountant({self._budget!r}{where}{how})"

    def __enter__(self) -> Self:
        enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leave(self)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a BudgetAccountant cannot be pickled or copied: two copies could spend one budget "
            "twice. Open one with the same path in the other process."
        )

    def _limit_to(self, relation: str) -> None:
        """Let nothing be charged between other neighbors, whoever opens it. The locks are held."""
        state = self._read()
        check_relation(state.ledger.events, relation)
        self._state = replace(state, relation=relation)
        if self._path is not None and state.relation != relation:
            self._write(self._state)

    # ---- what is admitted ----------------------------------------------------------------------

    def _admitted(self, state: "_State", new: Sequence[Event]) -> "_State":
        """Return the account on whose ledger `new` can be spent, one charge later; or raise."""
        check_relation(new, state.relation)
        ledger = state.ledger
        if self._full(state):
            raise BudgetExceeded(
                f"the first fit takes all of {self._budget!r}, so the account cannot pay for "
                "another. Nothing was spent on this one. Give the account a larger budget, or "
                "every fit a smaller epsilon."
            )
        try:
            ledger.check(*new, alone=True)
        except (BudgetExceeded, UnsupportedEvent):
            # What was paid for a part is the limit of its filter.
            if ledger.events or not self._adaptive or self._paid_by is not None:
                raise
            ledger = Ledger(self._budget, self._accountant)
            ledger.check(*new, alone=True)
        return replace(state, ledger=ledger, charges=state.charges + 1)

    def _full(self, state: "_State") -> bool:
        """Say whether the first fit takes all: then its ledger is one of what was fixed."""
        return self._adaptive and not state.ledger.adaptive

    # ---- the file --------------------------------------------------------------------------------

    def _alone(self, action: Callable[[], T]) -> T:
        """Do `action` while other threads, and with a file other processes, are kept out.

        Both locks are freed by code in C. A context manager written in Python could be interrupted
        at the start of its end, and would keep its lock as long as the traceback lives.
        """
        self._check_process()
        with self._lock:
            if self._path is None:
                return action()
            try:
                while True:
                    with open_lock(self._path) as self._guard:
                        wait_for_lock(self._guard)
                        # Another one if it was deleted while this waited.
                        if is_lock_of(self._guard, self._path):
                            return action()
            except PermissionError as error:
                if error.strerror == _UNWRITABLE:
                    raise  # the file of another account, which is charged with this one
                raise PermissionError(error.errno, _UNWRITABLE, str(self._path)) from error

    def _check_process(self) -> None:
        """Refuse another process than the one that made the account, if there is no file."""
        if self._path is None and this_process() != self._process:
            raise RuntimeError(
                "this BudgetAccountant was made in another process, and without a file the two "
                "could spend one budget twice. Give it a path."
            )

    def _current(self) -> "_State":
        return self._alone(self._refresh)

    def _refresh(self) -> "_State":
        """Take over what the file has. The locks are held."""
        self._state = self._read()
        return self._state

    def _read(self) -> "_State":
        """Return the account as it is now. The locks are held."""
        if self._path is None:
            return self._state
        mine, name = self._state, str(self._path)
        self._check_names()
        try:
            record, ledger = self._record()
            self._check_begun(ledger.budget, record["account"])
            found = self._parsed(record, ledger)
        except FileNotFoundError:
            raise BudgetFileError(f"the budget file {name!r} is gone. {_ADVICE}") from None
        except BudgetFileError:
            raise
        except (TypeError, ValueError, KeyError, BudgetExceeded, UnsupportedEvent) as error:
            raise BudgetFileError(
                f"{name!r} is not a valid budget file: {error} {_ADVICE}"
            ) from error
        if mine.begun and found.name != mine.name:
            raise BudgetFileError(
                f"{name!r} is another account than it was: it was deleted and begun anew, or "
                f"replaced. {_ADVICE}"
            )
        known = mine.ledger.events if mine.begun else ()
        witness, seen = self._witnessed()
        told = max(mine.charges, seen if witness == found.name else 0)
        if ledger.events[: len(known)] != known or found.charges < told:
            raise BudgetFileError(
                f"{name!r} lacks what is known to have been spent: an older copy was put in its "
                f"place. {_ADVICE}"
            )
        return found

    def _check_names(self) -> None:
        """Refuse a file that another name could bring to another lock. The locks are held."""
        assert self._path is not None
        try:
            facts = os.lstat(self._path)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(facts.st_mode):
            raise BudgetFileError(
                f"{str(self._path)!r} must be a file; got a directory. Nothing was spent."
            )
        if stat.S_ISLNK(facts.st_mode) or facts.st_nlink > 1:
            raise BudgetFileError(
                f"{str(self._path)!r} must be a file of one name; got "
                f"{'a link' if stat.S_ISLNK(facts.st_mode) else f'{facts.st_nlink} hard links'}: "
                "under another name, its budget could be spent a second time. Nothing was spent. "
                "Remove the other names, or open the file itself."
            )

    def _begin(self) -> None:
        """Read the file, or write one if there is none. The locks are held."""
        assert self._path is not None
        if os.path.lexists(self._path):
            self._state = self._read()
        else:
            self._refuse_gone()
            self._write(self._state)
        self._state = replace(self._state, begun=True)

    def _refuse_gone(self) -> None:
        """Refuse to begin where the lock file has seen charges. The locks are held."""
        if charges := self._witnessed()[1]:
            raise BudgetFileError(
                f"the budget file {str(self._path)!r} is gone, though its lock file has seen "
                f"{charges:,} charge{'s' * (charges > 1)}. {_ADVICE} For another account, take "
                f"another name, or delete '{self._path}.lock' as well."
            )

    def _record(self) -> tuple[dict[str, Any], Ledger]:
        """Return what is in the file, and the ledger it is."""
        assert self._path is not None
        text = read_text(self._path)
        ledger, record = Ledger.from_json(text), parse_json(text)
        if not isinstance(record.get("account"), dict):
            raise ValueError("it is a ledger, and not that of an account.")
        return record, ledger

    def _check_begun(self, budget: Budget, account: dict[str, Any]) -> None:
        """Refuse a file that was begun with something else."""
        found = (budget, account.get("accountant"), account.get("adaptive"), "hmac" in account)
        given = (self._budget, self._accountant, self._adaptive, self._key is not None)
        if found != given:
            begun, here = (
                f"budget={b!r}, accountant={n!r}, adaptive={a!r}, {'a' if signed else 'no'} key"
                for b, n, a, signed in (found, given)
            )
            raise BudgetFileError(
                f"{str(self._path)!r} was begun with {begun}; got {here}. Use what it was begun "
                "with, or another file."
            )

    def _parsed(self, record: dict[str, Any], ledger: Ledger) -> "_State":
        """Return the account that the file holds."""
        account = record["account"]
        names = {"id", "charges", "accountant", "adaptive", *(["hmac"] * bool(self._key))}
        # Which version 0.2.0 wrote down, and what only the account of a part has.
        if set(account) - {"plan", _RELATION} != names:
            raise ValueError(f"its account must have the names {sorted(names)}.")
        if self._key is not None and not hmac.compare_digest(
            str(account["hmac"]), _signature(self._key, record)
        ):
            raise ValueError("it was not signed with this key.")
        if not isinstance(account["id"], str):
            raise TypeError("id must be a text.")
        charges = check_integer("charges", account["charges"], low=0)
        if ledger.adaptive != self._adaptive and (ledger.adaptive or not ledger.events):
            raise ValueError("its ledger is not that of such an account.")
        relation = account.get(_RELATION)
        check_relation(ledger.events, relation)
        return _State(ledger, account["id"], charges, begun=True, relation=relation)

    def _text(self, state: "_State") -> str:
        record = json.loads(state.ledger.to_json())
        del record["sha256"]
        record["account"] = {
            "id": state.name,
            "charges": state.charges,
            "accountant": self._accountant,
            "adaptive": self._adaptive,
        }
        if state.relation is not None:
            record["account"][_RELATION] = state.relation
        if self._key is not None:
            record["account"]["hmac"] = _signature(self._key, record)
        return json.dumps({**record, "sha256": checksum(record)})

    def _write(self, state: "_State") -> None:
        assert self._path is not None
        self._check_names()
        self._check_held()
        with atomic_writer(self._path) as stream:
            stream.write(self._text(state) + "\n")
        # After the file: what the lock file says must never be ahead of it.
        if self._guard is not None:
            # Always as long and in place: a full disk, or an end in between, loses no count.
            self._guard.seek(0)
            self._guard.write(f"{state.name} {state.charges:020d}\n".encode())
            self._guard.truncate()
        # Whoever holds another lock from here on opened it later, and reads what was written.
        self._check_held()

    def _check_held(self) -> None:
        """Refuse to go on without the lock. The locks are held, unless the file was deleted."""
        if self._guard is not None and not is_lock_of(self._guard, str(self._path)):
            raise BudgetFileError(
                f"'{self._path}.lock' must stay where it is; it was deleted while it was held, so "
                "that others may have charged the account at the same time. The data were not "
                "touched; the charge may be in the file. Fit again, and do not delete it."
            )

    def _witnessed(self) -> tuple[str, int]:
        """Return which account the lock file knows, and how many charges; no name if none."""
        if self._guard is None:
            return "", 0
        self._guard.seek(0)
        words = self._guard.read(200).decode(errors="replace").split()
        known = len(words) == 2 and words[1].isdecimal()
        return (words[0], int(words[1])) if known else ("", 0)

    def _after_fork(self) -> None:
        """Forget, in the child, the locks that a thread of the parent may hold."""
        self._lock = threading.Lock()
        if self._guard is not None:
            self._guard.close()  # or the parent's lock would live as long as the child


_RELATION = "neighboring_relation"
_UNWRITABLE = (
    "the file of a BudgetAccountant must be writable, and so must its directory (nothing was spent)"
)
_ADVICE = "Nothing was spent now. What was spent before is not known without it: restore it."


@dataclass(frozen=True)
class _State:
    """An account at one time.

    Attributes
    ----------
    ledger : Ledger
    name : str
        A random number.
    charges : int
    begun : bool
        Whether `name` is known to be that of the file.
    relation : str or None
        Of a part: between which neighbors it was paid for.
    """

    ledger: Ledger
    name: str
    charges: int = 0
    begun: bool = False
    relation: str | None = None


def _signature(key: bytes, record: dict[str, Any]) -> str:
    """Return the signature of a file's content, of which its checksum and this are no part."""
    account = {name: value for name, value in record["account"].items() if name != "hmac"}
    rest = {name: value for name, value in record.items() if name != "sha256"}
    return hmac.new(key, checksum({**rest, "account": account}).encode(), "sha256").hexdigest()


_ALL: "weakref.WeakSet[BudgetAccountant]" = weakref.WeakSet()


def _renew_locks() -> None:
    for accountant in list(_ALL):
        accountant._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
