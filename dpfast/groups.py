"""Which rows belong to the same record, where a record is a group of rows such as a person.

Rows are kept in the order of their groups, so that a group is a range of rows.  Of a group of many
rows some are read; which ones depends on nothing but their number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.random import SecureGenerator

Indices = NDArray[np.int64]
Kind = Any
"""What an id is: the name of its type, or, of a tuple, those of its parts."""

# The hash of objects that are equal to nothing but themselves.
_OF_IDENTITY: Any = object.__hash__
_FLOATS = (
    "groups must hold integers, texts or other exact ids; got floating-point numbers. Ids with "
    "missing values are often read as such: give every row an id, and convert them to integers."
)
_MISSING = (
    "groups must name a group for every row; at least one is missing. A row without an id would be "
    "protected alone: give it one, a new one if nobody else's row it is."
)


@dataclass(frozen=True)
class GroupClip:
    """How the gradients of groups are clipped; see csrc/groups.h.

    Parameters
    ----------
    norm, row_norm : float
        Bounds of a group's gradient, its rows' weights counted, and of a row's, its weight not
        counted.
    mass : float
        Bound of the sum of a group's slopes.
    gauge : float
        Which length of a group's gradient counts as typical, over the root mean square of its
        rows'.
    relative, absolute : float
        Errors of squared lengths and of lengths.
    consistent : bool, default=False
        Whether slopes are first multiplied by what does not depend on labels.
    correlation : float, default=0.0
        Of the slopes within a group, for the length that is then taken for its gradient's.
    """

    norm: float
    row_norm: float
    mass: float
    gauge: float
    relative: float
    absolute: float
    consistent: bool = False
    correlation: float = 0.0


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """The groups of some rows.

    Attributes
    ----------
    start : int64 array of shape (n_groups + 1,)
        Group g has the rows ``start[g]`` to before ``start[g + 1]``, in their new order.
    order : int64 array or None
        The rows in their new order, by their old numbers; None: nothing has moved.
    n_given : int
        Rows before some were left out.
    """

    start: Indices
    order: Indices | None
    n_given: int

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.start) - 1

    @property
    def sizes(self) -> Indices:
        """Rows of each group."""
        return np.diff(self.start)

    def ordered(self, values: Any) -> Any:
        """`values`, one a row, in the new order."""
        return values if self.order is None else values[self.order]

    def room(self, most: int) -> Indices:
        """Where the products of each group's rows are kept: for 2 to `most` rows."""
        sizes = self.sizes
        held = np.where((sizes > 1) & (sizes <= most), sizes * (sizes + 1) // 2, 0)
        return np.append(0, np.cumsum(held)).astype(np.int64)

    def edges(self, step: int) -> Indices:
        """Numbers of groups between which there are about `step` rows, or one group."""
        marks = np.searchsorted(self.start, np.arange(0, self.start[-1], step))
        return np.unique(np.append(marks, self.count)).astype(np.int64)


def index_groups(groups: ArrayLike, n_rows: int, most: int) -> GroupedRows:
    """Find which rows belong together, and leave out those beyond `most` of a group.

    Parameters
    ----------
    groups : array-like of shape (n_rows,)
        Whose row each is: integers, texts or other values that can be told apart, none missing.
    n_rows : int
    most : int
        Rows of a group that are kept at most.  Which of m rows these are is a uniform choice that
        is the same for every group of m rows, so it says nothing but their number.
    """
    ids = _as_ids(groups, n_rows)
    order: Indices | None = None
    if len(ids) > 1 and np.any(ids[1:] < ids[:-1]):
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
    begins = np.append(True, ids[1:] != ids[:-1])
    start = np.append(np.flatnonzero(begins), n_rows).astype(np.int64)
    sizes = np.diff(start)
    if sizes.max() > most:
        fewer = np.minimum(sizes, most)
        first = np.append(0, np.cumsum(fewer)).astype(np.int64)
        kept = np.arange(first[-1]) + np.repeat(start[:-1] - first[:-1], fewer)
        for size in np.unique(sizes[sizes > most]):
            places = first[:-1][sizes == size, np.newaxis] + np.arange(most)
            kept[places] = kept[places[:, :1]] + chosen_rows(int(size), most)
        order = kept if order is None else order[kept]
        start = first
    return GroupedRows(start, order, n_rows)


@lru_cache(maxsize=64)
def chosen_rows(size: int, most: int) -> Indices:
    """Which `most` of `size` rows are kept, ascending: the same for every group of this size."""
    words = SecureGenerator(size).uint64(size)
    return np.sort(np.argsort(words, kind="stable")[:most])


def _as_ids(groups: ArrayLike, n_rows: int) -> NDArray[Any]:
    """Groups as integers; messages never quote one."""
    raw = _as_array(groups)
    if raw.ndim != 1 or len(raw) != n_rows:
        raise ValueError(
            f"groups must name the group of each of the {n_rows} rows, in one vector; got shape "
            f"{raw.shape}. Ids of several columns can be combined into one text a row."
        )
    if raw.dtype.kind in "iub":
        return raw
    refuse_floats(raw)
    known: dict[Any, int] = defaultdict(count().__next__)
    try:
        codes = np.fromiter(map(known.__getitem__, raw.tolist()), np.int64, n_rows)
    except TypeError:
        raise TypeError(
            "groups must hold values that can be hashed, such as integers or texts; at least one "
            "cannot."
        ) from None
    check_ids(known)
    return codes


def refuse_floats(ids: NDArray[Any]) -> None:
    """Refuse an array of floating-point numbers (TypeError)."""
    if ids.dtype.kind in "fc":
        raise TypeError(_FLOATS)


def refuse_masks(ids: Any) -> Any:
    """`ids` themselves, of which none is masked: a plain array would show what the mask hides."""
    if np.ma.is_masked(ids):
        raise ValueError(_MISSING)
    return ids


def check_ids(values: Iterable[Any]) -> set[Kind]:
    """Return the kinds of ids; refuse missing ones and floating-point numbers, quoting none."""
    kinds: set[Kind] = set()
    for value in values:
        _check_id(value)
        kinds.add(_kind(value))
    check_kinds(kinds)
    return kinds


def _check_id(value: Any) -> None:
    if isinstance(value, tuple | frozenset):
        for part in value:
            _check_id(part)
    elif _is_missing(value):
        raise ValueError(_MISSING)
    elif isinstance(value, float | complex | np.inexact):
        raise TypeError(_FLOATS)
    elif type(value).__hash__ is _OF_IDENTITY:
        # Of two such rows of one person each would be protected alone.
        raise TypeError(
            "groups must hold ids that are equal for rows of one group, such as integers or texts; "
            f"got objects of type {type(value).__name__}, which are equal to nothing but "
            "themselves."
        )


def check_kinds(kinds: Collection[Kind]) -> None:
    """Refuse ids of several kinds: 7 and "7", from two files, may be one person (TypeError)."""
    if len(kinds) > 1:
        raise TypeError(
            f"groups must hold ids of one type; got {' and '.join(sorted(map(str, kinds)))}. "
            "Rows of one group could have the id 7 here and '7' there: convert all ids to text, or "
            "all to integers."
        )


def _kind(value: Any) -> Kind:
    """What may be the same id, and what cannot."""
    if isinstance(value, tuple):
        return tuple(map(_kind, value))
    if isinstance(value, int | np.integer | np.bool_):
        return "int"
    return "str" if isinstance(value, str) else type(value).__name__


def _as_array(groups: Any) -> NDArray[Any]:
    """Groups as an array in which no id has become another."""
    if not isinstance(groups, list | tuple):
        return np.asarray(refuse_masks(groups))
    raw = np.fromiter(groups, dtype=object, count=len(groups))
    whole = all(type(value) is int for value in groups)
    return raw.astype(np.int64) if whole and _fits(groups) else raw


def _fits(values: Any) -> bool:
    return not values or (min(values) >= -(2**63) and max(values) < 2**63)


def _is_missing(value: Any) -> bool:
    if isinstance(value, str | bytes):
        return not value.strip()
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value != value)
