"""Blocks that one machine reads again and again, one ahead of the one that is worked on."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dpfast._validation import check_flag, check_integer, counted
from dpfast.blocks._contract import Block, Executor
from dpfast.blocks._groups import GroupBlocks, group_starts
from dpfast.coded import CodedMatrix
from dpfast.errors import DataError
from dpfast.shape import BlockSizes

T = TypeVar("T")

# Bytes of a block by default, its entries being float64; half of that if they are float32.
_BLOCK_BYTES = 32 * 2**20
# Smaller blocks are not worth a thread: handing them over takes longer than reading them.
_AHEAD_BYTES = 2**20
# However wide the rows are: what is done once a block should not count.
_LEAST_ROWS = 256


class Piece(NamedTuple):
    """Rows as a reader finds them, as many as it likes.

    If they are `lent`, their arrays may hold others as soon as the next piece is asked for.
    """

    X: Any
    y: NDArray[Any] | None
    weight: NDArray[Any] | None
    where: str
    groups: NDArray[Any] | None = None
    lent: bool = False

    def rows(self, which: slice | NDArray[np.int64]) -> Piece:
        """Some of its rows."""
        y, weight, groups = (
            None if part is None else part[which] for part in (self.y, self.weight, self.groups)
        )
        return Piece(self.X[which], y, weight, self.where, groups, self.lent)


class Reader(Protocol):
    """Where rows are stored: a file, some files, a function that yields arrays."""

    n_samples: int
    n_features: int
    weighted: bool
    #: Whether pieces have targets.
    targeted: bool
    #: Whether pieces have groups.
    grouped: bool
    feature_names: tuple[str, ...] | None
    #: Whether `pieces` skips what is not asked for, instead of reading it and throwing it away.
    seekable: bool
    #: Whether there is nothing to be read: pieces are ranges of an array.
    in_memory: bool

    def pieces(self, start: int, stop: int, rows: int) -> Iterator[Piece]:
        """Rows [start, stop), in order, best `rows` at a time; without seeking, all rows."""
        ...

    def ids(self) -> Iterator[NDArray[Any]]:
        """The groups of all rows, in order."""
        ...

    def describe(self) -> Any:
        """What identifies this data set, apart from its values, for JSON.

        Where rows have groups, nothing that follows from how many rows there are.
        """
        ...


class Source(Executor):
    """Blocks of rows that are read from one place, in order, as often as needed.

    While one block is worked on, a thread reads the next: two blocks are in memory.

    Parameters
    ----------
    reader : Reader
    block_rows : int or None, default=None
        Rows of every block except the last; None: 32 MiB of float64 entries.
    read_ahead : bool, default=True
        Read in a thread of its own; False: by whoever works on the blocks, one block in memory.

    Attributes
    ----------
    n_samples, n_features : int
    sizes : tuple of int
        Rows of every block; of more than 1000 rows of a group, 1000 are read.
    n_groups : int or None
        Where the rows have groups: their number, which is public, while those of rows are not.
    weighted : bool
    feature_names : tuple of str or None
    """

    def __init__(
        self, reader: Reader, block_rows: int | None = None, read_ahead: bool = True
    ) -> None:
        self._reader = reader
        self._read_ahead = check_flag("read_ahead", read_ahead) and not reader.in_memory
        self.n_samples, self.n_features = reader.n_samples, reader.n_features
        self.weighted, self.feature_names = reader.weighted, reader.feature_names
        self.targeted = reader.targeted
        self.seekable = reader.seekable
        if block_rows is None:
            block_rows = max(_LEAST_ROWS, _BLOCK_BYTES // (8 * self.n_features))
        self._block_rows = check_integer("block_rows", block_rows, low=1, high=2**53)
        self._groups: GroupBlocks | None = None
        if reader.grouped:
            start = group_starts(reader.ids(), repr(reader))
            if start[-1] != self.n_samples:
                raise self._changed(str(start[-1]), repr(reader))
            self._groups = GroupBlocks(start, self._block_rows)
            self.n_groups, self.sizes = self._groups.count, self._groups.sizes
            self._begins = self._groups.begins
            return
        whole, rest = divmod(self.n_samples, self._block_rows)
        self.sizes = (self._block_rows,) * whole + ((rest,) if rest else ())
        self._begins = [*range(0, self.n_samples, self._block_rows), self.n_samples]

    def __repr__(self) -> str:
        columns = counted(self.n_features, "column")
        if self.n_groups is not None:
            return f"<{counted(self.n_groups, 'group')} x {columns}, {self._reader!r}>"
        return (
            f"<{counted(self.n_samples, 'row')} x {columns} in {counted(len(self.sizes), 'block')},"
            f" {self._reader!r}>"
        )

    @property
    def layout(self) -> BlockSizes:
        """What is public of the blocks' sizes."""
        if self.n_groups is None:
            return super().layout
        return BlockSizes.of_groups(self.n_groups, self._block_rows)

    def digest(self) -> str:
        """Fingerprint of columns, files (names, times) and blocks, never of what values decide."""
        sizes = [self.sizes[0], self.n_samples]
        if self.n_groups is not None:
            sizes = [self._block_rows, self.n_groups]
        text = json.dumps([self._reader.describe(), self.n_features, *sizes], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def blocks(self, numbers: Sequence[int] | None = None) -> Iterator[Block]:
        """The blocks, read one after another by the caller's thread.

        A DataError if there are not as many rows as there were when the source was made.
        """
        if numbers is None or not self.seekable:
            wanted = None if numbers is None else set(numbers)
            for block in self._blocks(0, len(self.sizes)):
                if wanted is None or block.number in wanted:
                    yield block
            return
        for number in numbers:
            yield from self._blocks(number, number + 1)

    def _blocks(self, number: int, end: int) -> Iterator[Block]:
        """Blocks [number, end), of which there is at least one."""
        gathered = _Gathered(self.sizes[number])
        for piece in self._kept(self._begins[number], self._begins[end]):
            at, rows = 0, piece.X.shape[0]
            while at < rows:
                at += gathered.add(piece, at)
                if gathered.full:
                    # No reference stays here: the next block is read while this one is in use.
                    yield gathered.take(number)
                    number += 1
                    gathered = _Gathered(self.sizes[number] if number < end else 0)

    def _kept(self, start: int, stop: int) -> Iterator[Piece]:
        """Pieces of the rows [start, stop) that are kept of their groups; all that there are."""
        at, last = start, None
        for piece in self._reader.pieces(start, stop, self._block_rows):
            rows = piece.X.shape[0]
            if rows > stop - at:
                raise self._changed(f"more than {stop}", piece.where)
            if rows and self._groups is not None:
                ids = piece.groups
                assert ids is not None
                try:
                    numbers, kept = self._groups.place(ids, at, last)
                except ValueError as error:
                    raise DataError(f"{piece.where}: {error}") from error
                last = ids[-1:].copy()
                piece = (piece if kept is None else piece.rows(kept))._replace(groups=numbers)
            at += rows
            yield piece
        if at < stop:
            raise self._changed(f"only {at}", repr(self._reader))

    def _changed(self, found: str, where: str) -> DataError:
        return DataError(
            f"{where}: there must be {self.n_samples} rows in every pass, as were counted when the "
            f"data were opened; got {found}. Data must not change while they are in use."
        )

    def map(
        self, function: Callable[[Block], T], numbers: Sequence[int] | None = None
    ) -> Iterator[T]:
        """``function(block)`` for every block, in order, while the next is being read."""
        watch = self.watch
        blocks = self.blocks(numbers)
        worth_it = 8 * self.sizes[0] * self.n_features >= _AHEAD_BYTES and len(self.sizes) > 1
        stream = _ahead(blocks) if self._read_ahead and worth_it else blocks
        try:
            while True:
                block = next(stream, None)
                if block is None:
                    return
                rows = self.sizes[block.number]
                result = function(block)
                # Not in memory while the caller adds up and the next ones arrive.
                del block
                if watch is not None:
                    watch(rows)
                yield result
        finally:
            stream.close()  # type: ignore[attr-defined]


class _Gathered:
    """A block in the making."""

    def __init__(self, rows: int) -> None:
        self.rows, self.filled = rows, 0
        self._X: Any = None
        self._parts: list[Piece] = []

    @property
    def full(self) -> bool:
        """Whether it has all its rows."""
        return 0 < self.rows == self.filled

    def add(self, piece: Piece, at: int) -> int:
        """Take rows of `piece` from `at` on, as many as there is room for; returns their number."""
        count = min(self.rows - self.filled, piece.X.shape[0] - at)
        part = piece.rows(slice(at, at + count))
        if isinstance(part.X, np.ndarray) and (count < self.rows or part.lent):
            # Copied right away, so that the piece can go.
            if self._X is None:
                self._X = np.empty((self.rows, part.X.shape[1]), dtype=part.X.dtype)
            if part.X.shape[1] != self._X.shape[1]:
                raise DataError(
                    f"{part.where}: there must be {self._X.shape[1]} columns, as before; got "
                    f"{part.X.shape[1]}."
                )
            self._X = _as_wide(self._X, part.X.dtype)
            self._X[self.filled : self.filled + count] = part.X
            part = part._replace(X=None)
        if part.X is None or part.lent:
            part = part._replace(
                X=None if part.X is None else part.X.copy(),
                y=None if part.y is None else part.y.copy(),
                weight=None if part.weight is None else part.weight.copy(),
                groups=None if part.groups is None else part.groups.copy(),
            )
        self._parts.append(part)
        self.filled += count
        return int(count)

    def take(self, number: int) -> Block:
        """The block; this object is empty afterwards."""
        parts, dense = self._parts, self._X
        self._parts, self._X = [], None
        matrices = [part.X for part in parts if part.X is not None]
        if dense is None:
            dense = matrices[0] if len(matrices) == 1 else _stacked(matrices)
        elif matrices:
            raise DataError(f"{parts[0].where}: rows must be all sparse or all dense.")
        first, last = parts[0].where, parts[-1].where
        return Block(
            number,
            dense,
            _joined([part.y for part in parts], first, "targets"),
            _joined([part.weight for part in parts], first, "weights"),
            first if first == last else f"{first} to {last}",
            _joined([part.groups for part in parts], first, "groups"),
        )


def _as_wide(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """An array that can hold values of `dtype`, too."""
    return array.astype(np.result_type(array.dtype, dtype), copy=False)


def _stacked(matrices: list[Any]) -> Any:
    """Rows of matrices that are all sparse, or all in codes."""
    if isinstance(matrices[0], CodedMatrix):
        return CodedMatrix.stack(matrices)
    return scipy.sparse.vstack(matrices, "csr")


def _joined(parts: list[Any], where: str, what: str) -> Any:
    if all(part is None for part in parts):
        return None
    if any(part is None for part in parts):
        raise DataError(f"{where}: some rows have {what} and others have none.")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass
class _Failed:
    error: BaseException


def _ahead(blocks: Iterator[T]) -> Iterator[T]:
    """What an iterator yields, one item ahead of the consumer, by a thread.

    An item is made once the one before the last was given back, that is, when the consumer asked
    for the next: so there are two at a time.  The thread ends with the consumer, at the latest when
    the item that it is making is complete.
    """
    allowed = threading.Semaphore(1)
    ready: deque[Any] = deque()
    change = threading.Condition()
    stopped = False

    def put(item: Any) -> None:
        with change:
            ready.append(item)
            change.notify()

    def work() -> None:
        try:
            while True:
                allowed.acquire()
                if stopped:
                    return
                item = next(blocks, _END)
                put(item)
                if item is _END:
                    return
                del item
        except BaseException as error:  # raised in the thread of the consumer
            put(_Failed(error))

    # What NumPy warns of is said, or not, as in the consumer's thread.
    run = copy_context().run
    thread = threading.Thread(target=run, args=(work,), name="dpfast-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            with change:
                while not ready:
                    change.wait()
                item = ready.popleft()
            if item is _END:
                return
            if isinstance(item, _Failed):
                raise item.error
            allowed.release()
            held = [item]
            del item
            yield held.pop()
    finally:
        stopped = True
        allowed.release()
        thread.join()
        blocks.close()  # type: ignore[attr-defined]


_END: Any = object()
