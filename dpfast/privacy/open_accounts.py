"""Which accounts pay for what is done here: those whose blocks are open around it.

A block of a :class:`~dpfast.privacy.BudgetAccountant` covers everything that is fitted in this
process until it ends, in whatever thread, and in the processes that this one has started.

*Threads.*  A new thread inherits no context variables, and what it fits inside a block of its own
is inside those of other threads, too, as far as anybody can tell.  So every open block pays; only
an account that was made with ``all_threads=False`` leaves other threads alone.  So does that of a
part (:mod:`dpfast.privacy.disjoint_accounts`), since each thread may serve another one; there,
threads and processes that opened nothing (workers of joblib) are refused, unless the account that
paid for the parts is open, too, and pays for them.

*Processes.*  A process that was forked has its parent's open blocks in memory.  One that was
started otherwise (a worker of joblib, of ``multiprocessing``, of dask on this machine) knows of
nothing, and may have been started long before the block was opened.  So a process with open blocks
writes down which they are, in a file that is called after its number and locked as long as they are
open, and whoever spends looks for such files of its parents: an account with a file is charged in
the child as well, and one without stops the fit, since its total would be too low.  Other
processes (grandchildren, other machines) are not covered: open the account's file there.

The file is in the directory for temporary files, in a folder that only its owner can enter; it
names accounts and says nothing about data.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import platform
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from dpfast._files import lock_name, open_lock, try_lock, wait_for_lock
from dpfast._validation import warn
from dpfast.privacy.events import Event


class Charged(Protocol):
    """What stands behind ledgers and is charged first: a BudgetAccountant."""

    @property
    def adaptive(self) -> bool:
        """Whether it may be charged for accesses that are chosen along the way."""
        ...

    @property
    def identity(self) -> str:
        """What a checkpoint knows it by."""
        ...

    @property
    def paid_by(self) -> str | None:
        """Identity of an account that paid for all of it beforehand."""
        ...

    @property
    def all_threads(self) -> bool:
        """Whether its block covers other threads and processes, too."""
        ...

    def charge(self, events: Iterable[Event], also: Callable[[], None] | None = None) -> None:
        """Spend `events` together, and do `also`; or raise and spend nothing."""
        ...

    def check(self, *events: Event) -> None:
        """Raise what charging would raise."""
        ...

    def for_children(self) -> dict[str, Any] | None:
        """What a child process needs to charge it, as values of JSON; None if it cannot."""
        ...


ACTIVE: ContextVar[tuple[Charged, ...]] = ContextVar("dpfast_accountants", default=())
"""The accounts whose blocks this context opened."""

ENTERED: list[Charged] = []
"""All accounts of this process whose blocks are open, outermost first."""

_lock = threading.Lock()


def active_accountants() -> tuple[Charged, ...]:
    """Return the accounts that pay for what is spent here, outermost first.

    Raises
    ------
    RuntimeError
        If an account is open in the process that started this one, and cannot be charged here, or
        that of a part is open elsewhere.
    """
    # A copy: a list that another thread shortens meanwhile would hide an account.
    own, entered = ACTIVE.get(), tuple(ENTERED)
    opened = [account for account in own if any(account is other for other in entered)]
    above = {account.identity: account for account in _accounts_above(bool(opened))}
    if not entered and not above:
        return ()
    if not opened and _parts_alone(entered):
        raise RuntimeError(_OF_A_PART)
    # Whoever paid for a whole part pays nothing more for what is done in its block.
    paid = {account.paid_by for account in opened}
    here = tuple(
        account
        for account in entered
        if account.identity not in paid
        and (account.all_threads or any(account is other for other in own))
    )
    known = {account.identity for account in here} | paid
    return (*(a for identity, a in above.items() if identity not in known), *here)


def enter(account: Charged) -> None:
    """Open the block of an account.

    Raises
    ------
    RuntimeError
        If it is open already, here or by another object with the same file.
    """
    with _lock:
        if any(other.identity == account.identity for other in ENTERED):
            raise RuntimeError(
                f"{account!r} is open already; it would be charged twice. Open it once, around "
                "all fits: unless all_threads=False, it covers those of other threads."
            )
        ENTERED.append(account)
        try:
            _announce()
        except BaseException:
            # A warning that is made an error, or an interrupt: nobody will leave this block.
            ENTERED.pop()
            raise
    ACTIVE.set((*ACTIVE.get(), account))


def leave(account: Charged) -> None:
    """Close the block of an account."""
    ACTIVE.set(tuple(a for a in ACTIVE.get() if a is not account))
    with _lock:
        ENTERED[:] = [other for other in ENTERED if other is not account]
        _announce()


_OF_A_PART = (
    "the account of a part is open in another thread or process, and covers no other. Nothing was "
    "spent. Open the part here, or the account that paid for the parts around all, or fit in one "
    "thread and process (n_jobs=1). What has nothing to do with it can have a BudgetAccountant of "
    "its own here, with all_threads=False."
)


def _parts_alone(entered: Sequence[Charged]) -> bool:
    """Whether a part is open in this process, and nobody who pays for other threads."""
    names = {account.identity for account in entered}
    return any(a.paid_by is not None and a.paid_by not in names for a in entered)


# ---- what child processes are told --------------------------------------------------------------

_PART = "part"
"""Stands for an open part, which covers the thread that opened it."""

_held: io.FileIO | None = None


def _announce() -> None:
    """Write down the open accounts for child processes. The lock is held."""
    global _held
    place = Path(_name(os.getpid()))
    records: list[Any] = [a.for_children() for a in ENTERED if a.all_threads]
    records += [_PART] * _parts_alone(ENTERED)
    try:
        if not records:
            if _held is not None:
                place.unlink(missing_ok=True)
                _held.close()
                _held = None
                Path(f"{place}.lock").unlink(missing_ok=True)
            return
        if not place.parent.exists():
            place.parent.mkdir(mode=0o700, exist_ok=True)
        if not _is_ours(place.parent):
            raise PermissionError(f"{place.parent} belongs to somebody else")
        if _held is None:
            _held = open_lock(place)
            wait_for_lock(_held)
        # Replaced as a whole, so that nobody reads half of it.
        part = place.with_name(f"{place.name}.part")
        part.write_text(json.dumps(records), encoding="utf-8")
        os.replace(part, place)
    except OSError as error:
        warn(
            f"child processes cannot be told of open accounts ({error}): what they fit will not "
            "be counted. Set the environment variable TMPDIR to a directory that can be written, "
            "or open the account in them with its path.",
            RuntimeWarning,
        )


def _accounts_above(opened: bool) -> Iterator[Charged]:
    """Yield the accounts that are open in the processes that started this one.

    `opened` says whether an account was opened here, which may be that of another part.
    """
    numbers = {os.getppid()}
    started_by = multiprocessing.parent_process()
    if started_by is not None and started_by.pid is not None:
        numbers.add(started_by.pid)
    for record in (record for number in numbers for record in _read(number)):
        if record == _PART:
            if not opened:
                raise RuntimeError(_OF_A_PART)
            continue
        if record is None:
            raise RuntimeError(
                "an accountant is open in the process that started this one, and cannot be charged "
                "from here, so that its total would be too low. Nothing was spent. Give the "
                "BudgetAccountant a path (and no key), or fit in one process (n_jobs=1)."
            )
        yield _opened(json.dumps(record, sort_keys=True))


def _read(number: int) -> list[Any]:
    """Return what a process says about its open accounts, if it lives and has any."""
    name = _name(number)
    # Asked at every access, and mostly in vain.
    if not os.path.exists(name):
        return []
    place = Path(name)
    if not _is_ours(place.parent):
        return []
    try:
        # If only the lock file is gone, somebody cleaned up: who can tell that the process ended?
        if os.path.exists(lock_name(place)):
            with open_lock(place) as lock:
                if try_lock(lock):
                    return []  # left behind by a process that has ended
        records: list[dict[str, Any] | None] = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []  # closed meanwhile
    return records


_accounts: dict[str, Charged] = {}
"""Accounts of parents that were charged here, by what the parent says about them."""


def _opened(record: str) -> Charged:
    from dpfast.privacy.budget_accountant import BudgetAccountant

    if record not in _accounts:
        _accounts[record] = BudgetAccountant.of_parent(json.loads(record))
    return _accounts[record]


def _name(number: int) -> str:
    """Return the file in which a process says which accounts it has open."""
    return f"{tempfile.gettempdir()}{_folder()}{number}"


@lru_cache(maxsize=1)
def _folder() -> str:
    # Containers may share the directory, and give the same numbers.
    host = sha256(platform.node().encode()).hexdigest()[:8]
    owner = os.getuid() if hasattr(os, "getuid") else 0
    return f"{os.sep}dpfast-{owner}{os.sep}{host}-"


def _is_ours(folder: Path) -> bool:
    return not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()


def _after_fork() -> None:
    """Let go, in the child, of what is the parent's."""
    global _lock, _held
    _lock = threading.Lock()
    _accounts.clear()
    if _held is not None:
        _held.close()
        _held = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
