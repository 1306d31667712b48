"""One budget over many fits, in memory or in a file that outlives the process."""

import io
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from dpfast._files import atomic_writer, open_lock, wait_for_lock
from dpfast.errors import BudgetExceeded, BudgetFileError, UnsupportedEvent
from dpfast.privacy.budget import Budget
from dpfast.privacy.events import Event
from dpfast.privacy.ledger import ACTIVE, ENTERED, Guarantee, Ledger

T = TypeVar("T")


class BudgetAccountant:
    """A budget that all fits inside a block share.

    Whatever is spent on any :class:`~dpfast.privacy.Ledger` inside ``with BudgetAccountant(...)``
    is charged here first, before the access to the data. A fit whose planned accesses do not fit
    is refused before it starts. Blocks can be nested; all of them pay.

    Parameters
    ----------
    budget : Budget
    path : path-like, optional
        A file that keeps the account. It is created if it is not there; otherwise it must have been
        begun with the same budget, accountant and `adaptive`. Several processes can use one file.
        It is a ledger in JSON (:meth:`Ledger.from_json` reads it), replaced as a whole under a lock
        (``path`` + ".lock") before an access: a process that is killed may have spent more than it
        used, never less. Each charge writes the file once.
    accountant : str, default="auto"
        How privacy is added up, as for a :class:`~dpfast.privacy.Ledger`.
    adaptive : bool, default=False
        Whether it is decided along the way, from earlier results, which fits to make with what
        privacy parameters. Then the rule of admission is a privacy filter
        (:func:`~dpfast.privacy.budget_filter`). Without it the totals are a guarantee only if the
        fits were settled beforehand.

    Raises
    ------
    TypeError, ValueError
        If the budget or the accountant is not valid.
    BudgetFileError
        If the file is damaged or was begun otherwise.
    OSError
        If the file cannot be read or written.

    Notes
    -----
    Threads without a block of their own are charged to all open blocks of the process. Forked
    children go on paying if there is a `path`, and are refused if there is none. Other processes
    (for example joblib's workers) know of nothing: open the accountant with the same `path` there.

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
    dpfast.errors.BudgetExceeded: epsilon would grow from ...
    >>> len(accountant.events)
    2
    """

    def __init__(
        self,
        budget: Budget,
        path: str | os.PathLike[str] | None = None,
        accountant: str = "auto",
        adaptive: bool = False,
    ) -> None:
        self._ledger = Ledger(budget, accountant, adaptive)
        self._path = None if path is None else Path(os.path.abspath(path))
        self._lock = threading.Lock()
        self._guard: io.FileIO | None = None
        self._process = os.getpid()
        self._name = secrets.token_hex(16)
        _ALL.add(self)
        if self._path is not None:
            self._alone(self._begin)

    @property
    def budget(self) -> Budget:
        """The limit."""
        return self._ledger.budget

    @property
    def adaptive(self) -> bool:
        """Whether fits may be chosen along the way."""
        return self._ledger.adaptive

    @property
    def path(self) -> Path | None:
        """The file, as an absolute path."""
        return self._path

    @property
    def identity(self) -> str:
        """What a checkpoint knows the account by: its file, or a name made up for the object."""
        return f"object {self._name}" if self._path is None else f"file {self._path}"

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything that was charged so far, by other processes too."""
        return self._current().events

    def charge(self, events: Iterable[Event]) -> None:
        """Spend `events` together, or nothing. Call this before the data is touched.

        Parameters
        ----------
        events : iterable of Event

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

        def spend() -> None:
            ledger = self._read()
            ledger.spend_alone(new)
            if self._path is not None:
                self._write(ledger)
            self._ledger = ledger

        self._alone(spend)

    def check(self, *events: Event) -> None:
        """Raise what charging `events` together would raise now. Nothing is charged."""
        self._current().check(*events, alone=True)

    def can_afford(self, *events: Event) -> bool:
        """Say whether `events` could be charged together now."""
        try:
            self.check(*events)
        except BudgetExceeded:
            return False
        return True

    def remaining(self) -> float:
        """Return the share of the budget that is left, between 0 and 1.

        See Also
        --------
        Ledger.used : What it is a share of.
        """
        return max(0.0, 1.0 - self._current().used())

    def guarantee(self) -> Guarantee:
        """Return what everything that was charged promises together."""
        return self._current().guarantee()

    def to_text(self) -> str:
        """Return the account for human eyes."""
        return self._current().to_text()

    def to_json(self) -> str:
        """Return the account as the JSON of a ledger."""
        return self._current().to_json()

    def _repr_html_(self) -> str:
        return self._current()._repr_html_()

    def __repr__(self) -> str:
        where = "" if self._path is None else f", path={str(self._path)!r}"
        return f"BudgetAccountant({self.budget!r}{where})"

    def __enter__(self) -> Self:
        if any(other is self for other in ENTERED):
            raise RuntimeError(f"{self!r} is open already; it would be charged twice.")
        if self._path is not None and any(
            getattr(other, "path", None) == self._path for other in ENTERED
        ):
            raise RuntimeError(
                f"another accountant with the file {str(self._path)!r} is open in this process; "
                "the file would be charged twice."
            )
        ENTERED.append(self)
        ACTIVE.set((*(ACTIVE.get() or ()), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        rest = tuple(other for other in ACTIVE.get() or () if other is not self)
        ACTIVE.set(rest or None)
        ENTERED[:] = [other for other in ENTERED if other is not self]

    def __reduce__(self) -> Any:
        raise TypeError(
            "a BudgetAccountant cannot be pickled or copied: two copies could spend one budget "
            "twice. Open one with the same path in the other process."
        )

    def _alone(self, action: Callable[[], T]) -> T:
        """Do `action` while other threads, and with a file other processes, are kept out.

        Both locks are freed by code in C. A context manager written in Python could be interrupted
        at the start of its end, and would keep its lock as long as the traceback lives.
        """
        if self._path is None and os.getpid() != self._process:
            raise RuntimeError(
                "this BudgetAccountant was made in another process, and without a file the two "
                "could spend one budget twice. Give it a path."
            )
        with self._lock:
            if self._path is None:
                return action()
            try:
                with open_lock(self._path) as self._guard:
                    wait_for_lock(self._guard)
                    return action()
            except PermissionError as error:
                raise PermissionError(
                    error.errno,
                    "the file of a BudgetAccountant must be writable, and so must its directory "
                    "(nothing was spent)",
                    str(self._path),
                ) from error

    def _current(self) -> Ledger:
        return self._alone(self._refresh)

    def _refresh(self) -> Ledger:
        """Take over what the file has. The locks are held."""
        self._ledger = self._read()
        return self._ledger

    def _read(self) -> Ledger:
        """Return the account as it is now. The locks are held."""
        if self._path is None:
            return self._ledger
        mine = self._ledger
        advice = "Nothing was spent now. What was spent before is not known without it: restore it."
        try:
            ledger = Ledger.from_json(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise BudgetFileError(
                f"the budget file {str(self._path)!r} is gone. {advice}"
            ) from None
        except (TypeError, ValueError, BudgetExceeded, UnsupportedEvent) as error:
            raise BudgetFileError(
                f"{str(self._path)!r} is not a valid budget file: {error} {advice}"
            ) from error
        found, expected = ((kept.budget, kept.accountant, kept.adaptive) for kept in (ledger, mine))
        if found != expected:
            raise BudgetFileError(
                f"{str(self._path)!r} was begun with budget={found[0]!r}, accountant={found[1]!r}, "
                f"adaptive={found[2]}; got {expected[0]!r}, {expected[1]!r}, {expected[2]}. Use "
                "what it was begun with, or another file."
            )
        known = mine.events
        if ledger.events[: len(known)] != known:
            raise BudgetFileError(
                f"{str(self._path)!r} lacks what this process knows was spent: an older copy was "
                f"put in its place. {advice}"
            )
        return ledger

    def _begin(self) -> None:
        """Read the file, or write one if there is none. The locks are held."""
        assert self._path is not None
        if self._path.exists():
            self._read()
        else:
            self._write(self._ledger)

    def _write(self, ledger: Ledger) -> None:
        assert self._path is not None
        with atomic_writer(self._path) as stream:
            stream.write(ledger.to_json() + "\n")

    def _after_fork(self) -> None:
        """Forget, in the child, the locks that a thread of the parent may hold."""
        self._lock = threading.Lock()
        if self._guard is not None:
            self._guard.close()  # or the parent's lock would live as long as the child


_ALL: "weakref.WeakSet[BudgetAccountant]" = weakref.WeakSet()


def _renew_locks() -> None:
    for accountant in list(_ALL):
        accountant._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
