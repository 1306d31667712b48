"""The log of one fit, from which it goes on after an interruption without paying twice.

What is written to the file, in order: the events of an access when they are paid for, *before* the
data are touched; the noisy answer, *before* anybody is given it; and at the end the weights.  A fit
that is begun again with the file is given the recorded answers instead of looking, and so
arrives where it was.

**Privacy.**  The file holds what the ledger covers, and nothing else: events, noisy answers,
released weights.  Neither data nor noise, nor the key of the noise, is in it.  What is fitted to
what is kept as hashes, with a salt of the file's own: two files do not tell whether they are of the
same data, and no table of hashes made beforehand opens them.  The salt being in the file, a hash
hides nothing that can be guessed; so none is of anything that depends on the data's values, the
length of a text file included.  Every event buys one answer:

- An access that is paid for and answered is not made again.  Its answer is fixed.
- An access that is paid for and not answered (the process ended in between) stays paid for, and is
  made under that payment, with noise that is drawn afresh.  What was drawn before has reached
  neither the file nor the caller; so only one draw for each payment ever leaves the process, which
  is what the event stands for.  For that, answers of later accesses must not depend on an answer
  that is not in the file: a file in which an access without an answer comes before one with an
  answer is refused.
- If the fit is given up, everything that stands in the file is spent.
- An account that pays for the whole plan (:meth:`Ledger.check`) stands at the access before which
  it did: at the first one, since a fit that goes on spends all accesses again from the start. One
  that was charged when the process ended before it was written down pays again.

**What it cannot do.**  Whoever copies the file and goes on from both copies, or changes it, gets
two answers for one payment, just as by fitting twice: the file protects against accidents, not
against its owner.  (A checksum notices accidents.)  It is locked while it is used.  A file system
that loses completed writes loses what they say.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from dpfast._files import (
    atomic_writer,
    checksum,
    is_lock_of,
    new_lock,
    open_lock,
    parse_json,
    read_text,
    wait_for_lock,
)
from dpfast.errors import CheckpointError
from dpfast.privacy.events import Event, event_from_dict

if TYPE_CHECKING:
    from dpfast.privacy.ledger import Ledger
    from dpfast.random import SecureGenerator

T = TypeVar("T")

_SCHEMA = "dpfast.checkpoint"
_VERSION = 2


class Checkpoint:
    """The log of one fit; made by :meth:`open`.

    `outcome` is what the fit released at its end, None until it is complete.
    """

    def __init__(self, path: Path, fit: Mapping[str, Any], held: io.FileIO) -> None:
        self._path, self._held = path, held
        self._plain = dict(fit)
        self._fit = _salted(fit, secrets.token_hex(16))
        self._entries: list[dict[str, Any]] = []
        self._next = 0
        self._lock = new_lock(self)
        self.outcome: dict[str, Any] | None = None

    @classmethod
    @contextmanager
    def open(cls, path: str | os.PathLike[str], fit: Mapping[str, Any]) -> Iterator[Self]:
        """Hold the log in the file `path`, which is begun if there is none.

        `fit` says what is fitted to what: a file that says something else, or is no such log, is
        refused with a CheckpointError.
        """
        target = Path(path).resolve()
        while True:
            with open_lock(target) as lock:
                wait_for_lock(lock)
                if not is_lock_of(lock, target):
                    continue  # it was deleted while this waited
                log = cls(target, fit, lock)
                if target.exists():
                    log._read()
                else:
                    log._write()
                yield log
                return

    # ---- for the ledger -------------------------------------------------------------------------

    @property
    def replaying(self) -> bool:
        """Whether the next access stands in the file."""
        return self._next < len(self._entries)

    def payers(self) -> Collection[str]:
        """Accounts that have paid for an access in the file, and for the plan if there is one."""
        return {name for entry in self._entries for name in entry["paid"]}

    def paid(self, events: Sequence[Event]) -> Collection[str] | None:
        """The accounts that have paid at the next access, if it stands in the file.

        A CheckpointError if another access stands there.
        """
        if not self.replaying:
            return None
        entry = self._entries[self._next]
        if entry["events"] != _plain_events(events):
            raise CheckpointError(
                f"{self._path}: the next access to the data, {[e.where for e in events]}, is not "
                "the one that was paid for when the fit was interrupted. Nothing was spent now. "
                "Go on with the same version of dpfast."
            )
        paid: list[str] = entry["paid"]
        return paid

    def spend(self, events: Sequence[Event], accounts: Sequence[str]) -> None:
        """Write down that `events` were paid for, by `accounts`, too; a known access is passed."""
        known = self.replaying
        if not known:
            self._entries.append({"events": _plain_events(events), "paid": [], "answer": None})
        entry = self._entries[self._next]
        if accounts or not known:
            entry["paid"] = sorted({*entry["paid"], *accounts})
            self._write()
        self._next += 1

    def spend_again(self, ledger: Ledger) -> None:
        """Spend all accesses in the file on a new ledger; accounts that have paid are not asked."""
        ledger.check(*(event_from_dict(e) for entry in self._entries for e in entry["events"]))
        while self.replaying:
            ledger.spend_all([event_from_dict(e) for e in self._entries[self._next]["events"]])

    # ---- for the mechanisms ---------------------------------------------------------------------

    def release(
        self,
        spend: Callable[[], None],
        make: Callable[[], T],
        rng: SecureGenerator,
    ) -> T:
        """The answer to the next access: as recorded, or made and recorded.

        Of threads that ask at once one after another is answered, each in the place it pays for.

        `spend` spends the event on the ledger; `make` does so, looks at the data, and adds noise
        from `rng`.
        """
        with self._lock:
            at = self._next
            if self.replaying and self._entries[at]["answer"] is not None:
                spend()
                answer: T = _restored(self._entries[at]["answer"])
                return answer
            rng.begin_access(at)
            value = make()
            # The file first: from here on the answer is in the world.
            self._entries[at]["answer"] = _kept(value)
            self._write()
            return value

    def finish(self, **released: Any) -> None:
        """Write down what the fit releases at its end."""
        self.outcome = released
        self._write()

    # ---- the file -------------------------------------------------------------------------------

    def _write(self) -> None:
        outcome = self.outcome
        if outcome is not None:
            outcome = {name: _kept(value) for name, value in outcome.items()}
        record = {
            "schema": _SCHEMA,
            "version": _VERSION,
            "fit": self._fit,
            "accesses": self._entries,
            "outcome": outcome,
        }
        record["sha256"] = _checksum(record)
        self._check_held()
        with atomic_writer(self._path) as stream:
            json.dump(record, stream)
        # Whoever goes on from the file under another lock from here on reads what was written.
        self._check_held()

    def _check_held(self) -> None:
        """Refuse to go on without the lock: another fit may answer under the same payments."""
        if not is_lock_of(self._held, self._path):
            raise CheckpointError(
                f"{self._path}.lock must stay where it is during a fit; it was deleted, so that "
                "another fit may go on from the same file. What this one spent stays spent. Fit "
                "again with the file."
            )

    def _read(self) -> None:
        try:
            record = parse_json(read_text(self._path), allow_nan=True)
            if (record["schema"], record["version"]) != (_SCHEMA, _VERSION):
                raise ValueError(f"schema {record['schema']!r}, version {record['version']!r}")
            if record.pop("sha256") != _checksum(record):
                raise ValueError("its checksum does not match: it was changed or damaged")
            fit, entries, outcome = record["fit"], record["accesses"], record["outcome"]
            self._fit = _salted(self._plain, str(fit["salt"]))
            answered = [entry["answer"] is not None for entry in entries]
            for entry in entries:
                entry["events"], entry["paid"] = list(entry["events"]), list(entry["paid"])
            if outcome is not None:
                self.outcome = {name: _restored(value) for name, value in outcome.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{self._path} is not a checkpoint of this version of dpfast: {error}. Nothing was "
                "spent; give the name of another file."
            ) from error
        changed = sorted(
            name for name in {*fit, *self._fit} if fit.get(name) != self._fit.get(name)
        )
        if changed:
            raise CheckpointError(
                f"{self._path} is the checkpoint of another fit: {', '.join(changed)} "
                f"{'differs' if len(changed) == 1 else 'differ'}. "
                "Nothing was spent now. Go on with what it was begun with, or give the name of "
                "another file."
            )
        if self.outcome is None and sorted(answered, reverse=True) != answered:
            raise CheckpointError(
                f"{self._path}: the fit was interrupted after an access whose answer was not "
                "recorded had been used. It cannot go on; what it spent is lost."
            )
        self._entries = entries


def _salted(fit: Mapping[str, Any], salt: str) -> dict[str, Any]:
    """What the file keeps of what is fitted to what: the salt, and a hash for every text."""
    hashed = {
        name: hashlib.sha256(f"{salt}:{value}".encode()).hexdigest()
        if isinstance(value, str)
        else value
        for name, value in fit.items()
    }
    return {**hashed, "salt": salt}


def _checksum(record: dict[str, Any]) -> str:
    """Of the text: what a fit keeps may hold NaN, which has no place in strict JSON."""
    return checksum(json.dumps(record))


def fingerprint(*parts: Any) -> str:
    """Hash of values whose texts do not tell objects by their addresses.

    Examples
    --------
    >>> import numpy as np
    >>> fingerprint(1.0, np.ones(2)) == fingerprint(1.0, np.ones(2)) != fingerprint(1.0)
    True
    """
    return hashlib.sha256(_text(parts).encode()).hexdigest()


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return _text(sorted((str(name), _text(entry)) for name, entry in value.items()))
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.tolist()}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, partial):
        return _text([value.func, value.args, value.keywords])
    if is_dataclass(value) and not isinstance(value, type):
        return _text([type(value), *(getattr(value, field.name) for field in fields(value))])
    if callable(value):
        named = value if hasattr(value, "__qualname__") else type(value)
        return f"{getattr(named, '__module__', '')}.{named.__qualname__}"
    return repr(value)


def _plain_events(events: Sequence[Event]) -> list[Any]:
    """As they are read back."""
    plain: list[Any] = json.loads(json.dumps([event.to_dict() for event in events]))
    return plain


def _kept(value: Any) -> Any:
    """A released value for JSON, every bit of it."""
    if isinstance(value, np.ndarray):
        data = value.ravel().tolist()
        return {"dtype": str(value.dtype), "shape": list(value.shape), "data": data}
    if isinstance(value, Mapping):
        return {"named": {name: _kept(entry) for name, entry in value.items()}}
    return {"value": int(value)}


def _restored(kept: Any) -> Any:
    if "named" in kept:
        return {name: _restored(entry) for name, entry in kept["named"].items()}
    if "value" in kept:
        return int(kept["value"])
    return np.array(kept["data"], dtype=kept["dtype"]).reshape(kept["shape"])
