"""Groups whose rows come in pieces, such as all rows of one person: where each of them begins.

The rows of a group lie side by side, in whichever order the groups come; one pass over the ids
finds that out, and refuses others before anything is paid.  What stays in memory is one number a
group.  Blocks are of whole groups, so that each of them is a problem with groups of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from sys import byteorder
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import DataError
from dpfast.groups import Indices, Kind, check_ids, check_kinds, chosen_rows, refuse_floats
from dpfast.shape import MOST_ROWS

Ids = NDArray[np.generic]

# Without trailing zeros, and not rounded.
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
# Of which equal ones have one text; those of a set are in any order.
_WRITTEN_ONE_WAY = (bytes, date, timedelta, Decimal, UUID)
_MISSING = "groups must name a group for every row; at least one is missing."


def keys_of(ids: Ids) -> tuple[NDArray[np.uint64], set[Kind]]:
    """A number for each id: equal for equal ids, and hardly ever for others; and their kinds.

    What is missing, a floating-point number, of several kinds, or of a type whose equal values may
    be written in several ways is refused.
    """
    refuse_floats(ids)
    if ids.dtype.kind in "iub":
        return ids.astype(np.int64).view(np.uint64), check_ids([0])
    values = ids.tolist()
    kinds = check_ids(values)
    return np.frombuffer(b"".join(map(_key, values)), dtype=np.uint64), kinds


def _key(value: object) -> bytes:
    if isinstance(value, int | np.integer | np.bool_):  # as if all others were integers, too
        return (int(value) % 2**64).to_bytes(8, byteorder)
    return hashlib.blake2b(_text(value).encode(), digest_size=8).digest()


def _text(value: Any) -> str:
    """The same for ids that are equal, however they are written."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return f"tuple {[_text(part) for part in value]}"
    if isinstance(value, int | np.integer | np.bool_):
        return f"int {int(value)}"
    if isinstance(value, Decimal):
        value = value.normalize(_EXACT)
    elif isinstance(value, datetime):
        value = value.replace(fold=0) if value.tzinfo is None else value.astimezone(UTC)
    elif not isinstance(value, _WRITTEN_ONE_WAY):
        raise TypeError(
            "groups must hold integers, texts, dates or other ids that are written in one way, "
            f"where rows come in blocks; got {type(value).__name__}. Convert them to text."
        )
    return f"{type(value).__name__} {value!r}"


def group_starts(pieces: Iterable[Ids], where: str) -> Indices:
    """The first row of each group, and the number of all rows.

    `pieces` are the ids, in order; `where` says what they are read from, for the error that refuses
    a group whose rows lie apart.
    """
    begins: list[Indices] = []
    keys: list[NDArray[np.uint64]] = []
    kinds: set[Kind] = set()
    at, last = 0, None
    for ids in pieces:
        if not len(ids):
            continue
        refuse_floats(ids)
        new = np.flatnonzero(_changes(ids, last))
        begins.append(new + at)
        some, found = keys_of(ids[new])
        keys.append(some)
        check_kinds(kinds := kinds | found)
        at, last = at + len(ids), ids[-1:].copy()
    if not at:
        raise DataError(f"{where}: there must be at least one row; got 0.")
    known = np.concatenate(keys)
    if len(np.unique(known)) < len(known):
        raise DataError(
            f"{where}: all rows of a group must lie side by side, since blocks are read one after "
            "another; those of at least one lie apart. Sort the rows by group first."
        )
    return np.append(np.concatenate(begins), at).astype(np.int64)


def _changes(ids: Ids, last: Ids | None) -> NDArray[np.bool_]:
    """Whether each id is another than the one before it."""
    new = np.ones(len(ids), dtype=bool)
    try:
        new[1:] = ids[1:] != ids[:-1]
        if last is not None:
            new[0] = bool(ids[0] != last[0])
    except TypeError:  # a missing value of pandas, of which nothing is known
        raise ValueError(_MISSING) from None
    return new


class GroupBlocks:
    """Blocks of whole groups, and which rows of a long group are read.

    `start` is that of :func:`group_starts`, and every block but the last has `block_rows` rows at
    least.  `sizes` are the rows of each block that are kept; `begins` the first row of each among
    all rows, and the number of all rows.
    """

    def __init__(self, start: Indices, block_rows: int) -> None:
        self._start = start
        self.count = len(start) - 1
        kept = np.append(0, np.cumsum(np.minimum(np.diff(start), MOST_ROWS)))
        edges = [0]
        while edges[-1] < self.count:
            full = int(np.searchsorted(kept, kept[edges[-1]] + block_rows))
            edges.append(min(full, self.count))
        self.sizes = tuple(np.diff(kept[edges]).tolist())
        self.begins: list[int] = start[edges].tolist()

    def place(self, ids: Ids, begin: int, last: Ids | None) -> tuple[Indices, Indices | None]:
        """Groups of the rows from `begin` on, and which of these rows are kept (None: all).

        `last` is the id of the row before, of shape (1,); None: the rows begin with a block.
        """
        rows = np.arange(begin, begin + len(ids))
        numbers = np.searchsorted(self._start, rows, side="right") - 1
        new = rows == self._start[numbers]
        found = _changes(ids, last)
        if rows[-1] >= self._start[-1] or np.any(found != new):
            raise ValueError("groups must begin at the same rows in every pass.")
        long = [number for number in np.unique(numbers) if self._size(number) > MOST_ROWS]
        if not long:
            return numbers, None
        kept = np.ones(len(rows), dtype=bool)
        for number in long:
            chosen = chosen_rows(self._size(number), MOST_ROWS) + self._start[number]
            of_group = numbers == number
            kept[of_group] = np.isin(rows[of_group], chosen)
        return numbers[kept], np.flatnonzero(kept)

    def _size(self, number: int) -> int:
        return int(self._start[number + 1] - self._start[number])
