"""Blocks that are the partitions of dask collections, worked on wherever they are.

Who sees what (the trusted-curator model): workers and scheduler hold raw rows and exact sums over
single partitions, as the machine of an ordinary fit does; they and the network between them must be
trusted.  All noise is drawn on the client, from its own stream and once for each access, after the
partitions' results have been added up.  The ledger is on the client, too, and is spent before the
first task of an access is sent.  So nothing that dask does to tasks can change noise or ledger: a
task is a pure function of its partition, whoever computes it and however often, and the client
takes one result for each partition, by its number.

What a partition holds must not depend on when it is computed.  A partition that a lost worker held
is computed again from the collection's own graph; if that draws random numbers without a seed, or
reads a table that has changed, one access would see two data sets.  With `keep`, the client holds a
checksum of every partition and refuses results of any other; numbers of rows are compared always.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import pickle
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast._arrays import in_order, refuse_masked
from dpfast._validation import check_flag, counted
from dpfast.blocks._contract import Block, Executor, check_name
from dpfast.blocks._groups import keys_of
from dpfast.errors import DataError
from dpfast.groups import Kind, check_kinds, refuse_masks
from dpfast.shape import MOST_ROWS, BlockSizes

T = TypeVar("T")

# Results that the client fetches together, in number and in bytes: a message for each would take
# longer than most tasks, and a matrix for each partition more memory than the client may have.
_GATHERED = 64
_GATHERED_BYTES = 2**26
# What lies beside the rows.
_BESIDE = ("y", "sample_weight", "groups")


class DaskBlocks(Executor):
    """Partitions of dask arrays or dataframes, one block each.

    Parameters
    ----------
    X, y, sample_weight, groups, client, keep, name
        See :func:`dpfast.blocks.from_dask`.

    Attributes
    ----------
    n_samples, n_features : int
    sizes : tuple of int
        Rows of every partition; empty ones are left out.
    n_groups : int or None
    weighted : bool
    feature_names : tuple of str or None
    """

    seekable = True

    def __init__(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
        client: Any,
        keep: bool,
        name: str | None,
    ) -> None:
        dask = _imported()
        check_flag("keep", keep)
        self._client = _current_client() if client is None else client
        self._keep = keep and self._client is not None
        self._name = check_name(name)
        rows = _partitions("X", X, dask)
        self.feature_names = _names(X)
        self.n_features = int(X.shape[1])
        self.weighted, self.targeted = sample_weight is not None, y is not None
        _check_numbers(X)
        columns = [rows]
        for what, part in (("y", y), ("sample_weight", sample_weight), ("groups", groups)):
            columns.append(_beside(what, part, X, len(rows), dask))
        prepare = dask.delayed(_Held, pure=False)
        held = [
            prepare(number, *parts, f"partition {number}")
            for number, parts in enumerate(zip(*columns, strict=True))
        ]
        # Kept by the cluster from here on, each partition with what is made of it for every pass.
        self._held = self._client.compute(held) if self._keep else held
        found = list(self._each(_look, range(len(held))))
        for number, (look, _, _) in enumerate(found):
            for what, length in zip(_BESIDE, look[2], strict=True):
                if length is not None and length != look[0]:
                    raise DataError(
                        f"{what} must have as many rows as X in every partition; partition "
                        f"{number} has {look[0]} of X and {length} of {what}. Repartition them "
                        "alike."
                    )
            if look[0] and look[1] != self.n_features:
                raise DataError(
                    f"partition {number} must have {self.n_features} columns; got {look[1]}."
                )
        filled = [number for number, (look, _, _) in enumerate(found) if look[0]]
        if not filled:
            raise ValueError("X must have at least one row; got 0.")
        self._held = [self._held[number] for number in filled]
        self._numbers = filled
        self.sizes = tuple(found[number][0][0] for number in filled)
        self.n_samples = sum(self.sizes)
        self._checksums = [found[number][2] for number in filled]
        if groups is not None:
            self.n_groups = self._count_groups()
            # How many partitions are empty is private, too.
            self._layout = BlockSizes(len(held), (self.n_groups * MOST_ROWS,))

    def _count_groups(self) -> int:
        """The number of groups, none of which may have rows in two partitions."""
        found = [found for found, _, _ in self._each(_group_keys, range(len(self._held)))]
        keys = [keys for keys, _ in found]
        check_kinds(set().union(*(kinds for _, kinds in found)))
        known = len(np.unique(np.concatenate(keys)))
        if known < sum(map(len, keys)):
            raise DataError(
                "all rows of a group must be in one partition; those of at least one are in "
                "several. frame.shuffle(on=...).persist() brings them together."
            )
        return known

    @property
    def layout(self) -> BlockSizes:
        """What is public of the partitions' sizes."""
        return super().layout if self.n_groups is None else self._layout

    def __repr__(self) -> str:
        columns = counted(self.n_features, "column")
        if self.n_groups is not None:
            return f"<{counted(self.n_groups, 'group')} x {columns} in dask partitions>"
        return (
            f"<{counted(self.n_samples, 'row')} x {columns} in {len(self.sizes):,} dask partitions>"
        )

    def digest(self) -> str:
        """Fingerprint of name, columns and partitions' sizes, never of values.

        Nor of types, which readers of text guess from some of them.
        """
        sizes = self.sizes if self.n_groups is None else (self.n_groups,)
        facts = [self._name, self.n_features, self.feature_names, sizes]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def map(
        self, function: Callable[[Block], T], numbers: Sequence[int] | None = None
    ) -> Iterator[T]:
        """``function(block)`` for every block, by the workers; results in the order of blocks."""
        wanted = range(len(self.sizes)) if numbers is None else numbers
        watch = self.watch
        for number, (result, rows, checksum) in zip(
            wanted, self._each(function, wanted), strict=True
        ):
            if rows != self.sizes[number]:
                raise self._changed(number, f"{rows} rows instead of {self.sizes[number]}")
            if checksum != self._checksums[number]:
                raise self._changed(number, "other values")
            if watch is not None:
                watch(rows)
            yield result

    def _changed(self, number: int, found: str) -> DataError:
        return DataError(
            f"partition {self._numbers[number]} was computed again and came out with {found}. A "
            "collection must give the same rows every time it is computed: seed its random "
            "numbers, and do not change its files while they are in use."
        )

    def _each(
        self, function: Callable[[Block], T], numbers: Sequence[int]
    ) -> Iterator[tuple[T, int, int | None]]:
        """Result, rows and checksum for each of these blocks, in the order of `numbers`."""
        held = [self._held[number] for number in numbers]
        # Once for all tasks; a function that comes as bytes is not looked into by dask.
        sent = _dumps(function)
        if self._client is None:
            dask = _imported()
            work = dask.delayed(_work, pure=False)
            places = [work(part, sent, at, False) for at, part in zip(numbers, held, strict=True)]
            yield from dask.compute(*places)
            return
        if self._keep:
            count = len(held)
            futures = self._client.map(
                _work, held, [sent] * count, list(numbers), [True] * count, pure=False
            )
        else:
            work = _imported().delayed(_work, pure=False)
            futures = self._client.compute(
                [work(part, sent, at, False) for at, part in zip(numbers, held, strict=True)]
            )
        yield from self._gathered(futures)

    def _gathered(self, futures: list[Any]) -> Iterator[Any]:
        """Results of tasks in their order; neither client nor workers keep what was yielded."""
        sizeof = importlib.import_module("dask.sizeof").sizeof
        # The first comes alone: its size says how many of the others to fetch together.
        at, count = 0, 1
        try:
            while at < len(futures):
                fetched = futures[at : at + count]
                results = self._client.gather(fetched)
                for future in fetched:
                    future.release()
                at += len(fetched)
                count = min(_GATHERED, max(1, _GATHERED_BYTES // sizeof(results[0])))
                results.reverse()
                while results:
                    yield results.pop()
        finally:
            # Interrupted, or one of them failed: the others are not wanted any more.
            self._client.cancel([future for future in futures[at:] if not future.done()])


class _Held:
    """A partition where it lies, with the problems that were made of it.

    Pickled (spilled, or sent to another worker) it is the partition alone.
    """

    def __init__(self, number: int, X: Any, y: Any, weight: Any, groups: Any, where: str) -> None:
        self._parts = number, X, y, weight, groups, where
        _check_index(where, X, y, weight, groups)
        for name, part in zip(("X", *_BESIDE), (X, y, weight), strict=False):
            refuse_masked(name, part)
        vectors = _vector(y), _vector(weight)
        self.block = Block(number, _matrix(X), *vectors, where, _vector(refuse_masks(groups)), {})
        self.lock = threading.Lock()
        self._checksum: int | None = None

    def __reduce__(self) -> Any:
        return _Held, self._parts

    def __sizeof__(self) -> int:
        parts = (self.block.X, self.block.y, self.block.weight, self.block.groups)
        return 1000 + sum(_bytes(part) for part in parts)

    def checksum(self) -> int:
        """Of all values; it stays with the client."""
        if self._checksum is None:
            total = 0
            for part in (self.block.X, self.block.y, self.block.weight, self.block.groups):
                for array in _arrays(part):
                    total = zlib.crc32(_plain(array), total)
            self._checksum = total
        return self._checksum


def _work(held: _Held, sent: bytes, number: int, check: bool) -> tuple[Any, int, int | None]:
    """What a task does: a function of one block; on a worker, or in a thread of the client."""
    function = pickle.loads(sent)
    block = held.block
    if number != block.number:
        # Empty partitions are left out, so that a block's number is not its partition's.
        block = replace(block, number=number)
    with held.lock:
        checksum = held.checksum() if check else None
        return function(block), int(block.X.shape[0]), checksum


def _look(block: Block) -> tuple[int, int, tuple[int | None, ...]]:
    """Rows and columns, and lengths of what lies beside them."""
    rows, columns = block.X.shape
    beside = (block.y, block.weight, block.groups)
    return int(rows), int(columns), tuple(None if part is None else len(part) for part in beside)


def _group_keys(block: Block) -> tuple[NDArray[np.uint64], set[Kind]]:
    """A number for each group of a partition, and the kinds of the ids."""
    assert block.groups is not None
    keys, kinds = keys_of(block.groups)
    return np.unique(keys), kinds


def _check_index(where: str, X: Any, *beside: Any) -> None:
    """Refuse parts of dataframes whose rows come in another order than those of X.

    Columns of a frame that is shuffled are shuffled each by itself, with rows in any order.
    """
    own: Any = getattr(X, "index", None)
    for what, part in zip(_BESIDE, beside, strict=True):
        other: Any = getattr(part, "index", None)
        if not hasattr(own, "equals") or not hasattr(other, "equals") or len(own) != len(other):
            continue  # no dataframes; lengths are compared by those who can name both
        if not own.equals(other):
            raise DataError(
                f"{where}: X and {what} must have the same index in every partition, so that it is "
                "known whose row each is; got others. A frame that was shuffled or sorted keeps "
                "its rows together if persist() is called before columns are taken from it; "
                "reset_index(drop=True) of both says that they are in the same order."
            )


def _matrix(X: Any) -> Any:
    if hasattr(X, "dtypes"):
        kinds = set(X.dtypes)
        alike = len(kinds) == 1 and isinstance(kinds.pop(), np.dtype)
        # Of several types, truth values or pandas' own among them, it would be one of objects.
        X = X.to_numpy() if alike else X.to_numpy(np.float64, na_value=np.nan)
    if hasattr(X, "tocsr"):
        return in_order("X", X).tocsr()
    return np.asarray(X)


def _vector(values: Any) -> NDArray[Any] | None:
    if values is None:
        return None
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    return array.ravel() if array.ndim == 2 and array.shape[1] == 1 else array


def _arrays(part: Any) -> list[NDArray[Any]]:
    if part is None:
        return []
    return [part.data, part.indices, part.indptr] if hasattr(part, "indptr") else [part]


def _bytes(part: Any) -> int:
    return sum(int(array.nbytes) for array in _arrays(part))


def _plain(array: NDArray[Any]) -> Any:
    """The bytes of an array, without a copy where its layout allows."""
    if array.dtype == object:
        return pickle.dumps(array.tolist())
    if array.ndim == 2 and array.flags.f_contiguous:
        array = array.T
    return np.ascontiguousarray(array).view(np.uint8).data


def _dumps(function: Any) -> bytes:
    cloudpickle: Any = importlib.import_module("cloudpickle")  # comes with dask
    sent: bytes = cloudpickle.dumps(function)
    return sent


def _imported() -> Any:
    try:
        import dask
    except ImportError as error:
        raise ImportError(
            "dask is needed for collections of dask: pip install 'dpfast[dask]'."
        ) from error
    return dask


def _current_client() -> Any:
    """The client of a cluster that dask would use now, if there is one."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None


def _partitions(what: str, part: Any, dask: Any) -> list[Any]:
    """The partitions along the rows, as delayed objects."""
    if not dask.is_dask_collection(part) or not hasattr(part, "ndim"):
        raise TypeError(
            f"{what} must be a dask array or dataframe; got {type(part).__name__}. NumPy arrays go "
            "to dpfast.blocks.from_npy."
        )
    ndim = 2 if what == "X" else 1
    if part.ndim != ndim and not (ndim == 1 and part.ndim == 2 and part.shape[1] == 1):
        raise ValueError(f"{what} must have {ndim} dimension(s); got {part.ndim}.")
    pieces = part.to_delayed()
    if isinstance(pieces, np.ndarray):
        if pieces.ndim == 2 and pieces.shape[1] != 1:
            raise ValueError(
                f"{what} must not be divided along its columns; it has {pieces.shape[1]} parts. "
                f"Call {what}.rechunk({{0: 'auto', 1: -1}}) first."
            )
        pieces = pieces.ravel()
    return list(pieces)


def _beside(what: str, part: Any, X: Any, count: int, dask: Any) -> list[Any]:
    """Partitions of targets or weights that lie beside those of X."""
    if part is None:
        return [None] * count
    if not dask.is_dask_collection(part):
        raise TypeError(
            f"{what} must be a dask array or series, like X; got {type(part).__name__}. Make one "
            "with the partitions of X by dask.array.from_array."
        )
    known: list[Any] = [getattr(X, "chunks", None), getattr(part, "chunks", None)]
    if None not in known and known[0][0] != known[1][0]:
        lengths = [sum(chunks[0]) for chunks in known]
        if lengths[0] == lengths[1]:
            part = part.rechunk({0: known[0][0]})
        elif all(np.isfinite(length) for length in lengths):
            raise ValueError(
                f"{what} must have as many rows as X; got {lengths[1]} and {lengths[0]}."
            )
    pieces = _partitions(what, part, dask)
    if len(pieces) != count:
        raise ValueError(
            f"{what} must have as many partitions as X; got {len(pieces)} and {count}. Repartition "
            "them alike."
        )
    return pieces


def _names(X: Any) -> tuple[str, ...] | None:
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return tuple(columns)


def _check_numbers(X: Any) -> None:
    """Refuse entries that are no numbers."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is not None:
        for name, dtype in dtypes.items():
            if not _is_number(dtype):
                raise TypeError(
                    f"X must hold numbers only; column {name!r} has type {dtype}. Encode it with "
                    "categories that are known without looking at the data."
                )
    elif not _is_number(X.dtype):
        raise TypeError(f"X must hold numbers only; got type {X.dtype}.")


def _is_number(dtype: Any) -> bool:
    return getattr(dtype, "kind", "O") in "fiub"
