"""Rows in NumPy arrays and .npy files, and rows that a function yields."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dpfast._arrays import in_order, refuse_masked
from dpfast._validation import check_integer
from dpfast.blocks._contract import check_name
from dpfast.blocks._source import Piece
from dpfast.errors import DataError
from dpfast.groups import refuse_masks

# Ids that are read at once.
_IDS = 2**16


class NpyFile:
    """The array in a .npy file, read range by range, without a memory map.

    A map of a large file counts as memory of the process, by some measures; and its pages are read
    by whoever touches them first, which is not the thread that reads ahead.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            loaded: Any = np.load(self.path, mmap_mode="r")
        except ValueError as error:
            raise DataError(f"{self.path} is not an array in NumPy's format: {error}.") from error
        if not isinstance(loaded, np.memmap):
            raise DataError(f"{self.path} must hold one array (.npy); it is an archive.")
        header: Any = loaded
        self.shape, self.dtype = header.shape, header.dtype
        self._offset = int(header.offset)
        # Rows that are not contiguous are left to the map.
        self._mapped = not header.flags.c_contiguous

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        if self._mapped:
            return np.array(np.load(self.path, mmap_mode="r")[rows])
        out: Any = np.empty((rows.stop - rows.start, *self.shape[1:]), dtype=self.dtype)
        row_bytes = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        with open(self.path, "rb", buffering=0) as stream:
            stream.seek(self._offset + rows.start * row_bytes)
            target, at = memoryview(out).cast("B"), 0
            while at < len(target):
                count = stream.readinto(target[at:])
                if not count:
                    raise DataError(f"{self.path}: the file ends before its last row.")
                at += count
        rows_read: NDArray[Any] = out
        return rows_read

    def describe(self) -> Any:
        """What tells this file from another, but its type, which knows the longest label."""
        return [*file_facts(self.path), list(self.shape)]


def file_facts(path: str | os.PathLike[str]) -> list[Any]:
    """Name and time of change of a file, not its size: that of a text depends on the values."""
    return [Path(path).name, os.stat(path).st_mtime_ns]


class ArrayReader:
    """Rows of arrays, memory maps, sparse matrices and .npy files."""

    seekable = True
    feature_names: tuple[str, ...] | None = None

    def __init__(self, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> None:
        self._X, self._y = _opened("X", X, 2), None if y is None else _opened("y", y, 1)
        self._weight = None if sample_weight is None else _opened("sample_weight", sample_weight, 1)
        self._groups = None if groups is None else _opened("groups", refuse_masks(groups), 1)
        self.grouped = groups is not None
        self.n_samples, self.n_features = map(int, self._X.shape)
        self.weighted, self.targeted = sample_weight is not None, y is not None
        self.in_memory = not isinstance(self._X, NpyFile | _Mapped)
        beside = {"y": self._y, "sample_weight": self._weight, "groups": self._groups}
        for name, part in beside.items():
            if part is not None and part.shape[0] != self.n_samples:
                raise ValueError(
                    f"{name} must have {self.n_samples} entries, as X has rows; got "
                    f"{part.shape[0]}."
                )

    def __repr__(self) -> str:
        return self._X.path if isinstance(self._X, NpyFile) else "X"

    def pieces(self, start: int, stop: int, rows: int) -> Iterator[Piece]:
        """Rows [start, stop), so many at a time."""
        for at in range(start, stop, rows):
            yield self._piece(at, min(at + rows, stop))

    def _piece(self, start: int, stop: int) -> Piece:
        return Piece(
            self._X[start:stop],
            None if self._y is None else self._y[start:stop],
            None if self._weight is None else self._weight[start:stop],
            f"{self!r}, rows {start} to {stop - 1}",
            None if self._groups is None else self._groups[start:stop],
        )

    def ids(self) -> Iterator[NDArray[Any]]:
        """The groups of all rows."""
        assert self._groups is not None
        for at in range(0, self.n_samples, _IDS):
            yield self._groups[at : min(at + _IDS, self.n_samples)]

    def describe(self) -> Any:
        """Files by name, time and shape; arrays in memory only by their shape."""
        parts = [self._X, self._y, self._weight]
        if not self.grouped:
            return [_describe(part) for part in parts]
        # What says how many rows there are is private.
        found = [_describe(part) for part in (*parts, self._groups)]
        return [facts and [fact for fact in facts if not isinstance(fact, list)] for facts in found]


def _describe(part: Any) -> Any:
    if part is None or isinstance(part, NpyFile):
        return None if part is None else part.describe()
    return ["array", list(part.shape)]


class _Mapped:
    """A memory map, of which ranges are copied: so that they are read where they are asked for."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        return np.array(self._array[rows])


def _opened(name: str, given: Any, ndim: int) -> Any:
    """Something with shape, dtype and ranges of rows."""
    refuse_masked(name, given)
    opened: Any = given
    if isinstance(given, str | os.PathLike):
        opened = NpyFile(given)
    elif isinstance(given, np.memmap):
        opened = _Mapped(given)
    elif scipy.sparse.issparse(given):
        opened = in_order(name, given).tocsr()
    elif not isinstance(given, np.ndarray):
        raise TypeError(
            f"{name} must be an array or the name of a .npy file; got {type(given).__name__}."
        )
    if len(opened.shape) != ndim or min(opened.shape) < 1:
        raise ValueError(
            f"{name} must have {ndim} dimension{'s'[: ndim - 1]}, none of them empty; got shape "
            f"{tuple(opened.shape)}."
        )
    if ndim == 2 and opened.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers; got an array of dtype {opened.dtype}.")
    return opened


class BatchReader:
    """Rows that a function yields, from the first to the last whenever it is called.

    Parameters
    ----------
    open_batches : callable
        Returns a fresh iterator of tuples ``(X, y)``, ``(X, y, sample_weight)`` or ``(X, y,
        sample_weight, groups)`` at every call.
    n_features : int or None
        None: as many as the first batch has.
    n_samples : int or None
        None: counted, in one pass.
    name : str or None
        Of the data; all that :meth:`describe` knows of them.
    """

    seekable = False
    in_memory = False
    feature_names: tuple[str, ...] | None = None

    def __init__(
        self,
        open_batches: Callable[[], Iterable[Any]],
        n_features: int | None,
        n_samples: int | None,
        name: str | None,
    ) -> None:
        if not callable(open_batches):
            raise TypeError(
                "open_batches must be a function that returns a fresh iterator of (X, y), (X, y, "
                "sample_weight) or (X, y, sample_weight, groups) at every call; got "
                f"{type(open_batches).__name__}. An iterator alone can be read only once."
            )
        self._open, self._name = open_batches, check_name(name)
        first = next(iter(self._read()), None)
        if first is None:
            raise ValueError("open_batches must yield at least one batch with a row; got none.")
        self.weighted, self.grouped = first.weight is not None, first.groups is not None
        self.targeted = first.y is not None
        found = int(first.X.shape[1])
        if n_features is not None and check_integer("n_features", n_features, low=1) != found:
            raise ValueError(
                f"n_features must be {found}, as in the first batch; got {n_features}."
            )
        self.n_features = found
        if n_samples is None:
            n_samples = sum(piece.X.shape[0] for piece in self._read())
        self.n_samples = check_integer("n_samples", n_samples, low=1, high=2**53)

    def __repr__(self) -> str:
        return self._name or "batches"

    def pieces(self, start: int, stop: int, rows: int) -> Iterator[Piece]:
        """All rows; the range is left to the caller."""
        for piece in self._read():
            if (piece.groups is not None) != self.grouped:
                raise DataError(f"{piece.where}: either all batches must have groups or none.")
            yield piece

    def _read(self) -> Iterator[Piece]:
        for number, batch in enumerate(self._open()):
            where = f"{self!r}, batch {number}"
            if not isinstance(batch, tuple) or len(batch) not in (2, 3, 4):
                raise TypeError(
                    f"{where} must be a tuple (X, y), (X, y, sample_weight) or (X, y, "
                    f"sample_weight, groups); got {type(batch).__name__}."
                )
            piece = _as_piece(where, *batch)
            del batch
            if piece.X.shape[0]:
                yield piece

    def ids(self) -> Iterator[NDArray[Any]]:
        """The groups of all rows."""
        for piece in self.pieces(0, self.n_samples, 1):
            assert piece.groups is not None
            yield piece.groups

    def describe(self) -> Any:
        """The name alone: nothing else is known of a function."""
        return ["batches", self._name]


def _as_piece(where: str, X: Any, y: Any, weight: Any = None, groups: Any = None) -> Piece:
    """A batch, checked for shapes; its values are looked at when it is used."""
    for name, part in (("X", X), ("y", y), ("sample_weight", weight)):
        refuse_masked(name, part)
    if not scipy.sparse.issparse(X):
        listed, X = isinstance(X, list | tuple), np.asarray(X)
        if listed and X.dtype.kind == "f":
            X = X.astype(np.float64, copy=False)  # as in memory
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise DataError(
            f"{where}: X must be a two-dimensional array of real numbers; got shape {X.shape}, "
            f"dtype {X.dtype}."
        )
    refuse_masks(groups)
    parts: list[NDArray[Any] | None] = []
    for name, part in (("y", y), ("sample_weight", weight), ("groups", groups)):
        values = None if part is None else np.asarray(part)
        if values is not None and values.shape != (X.shape[0],):
            raise DataError(
                f"{where}: {name} must have shape ({X.shape[0]},), as X has rows; got "
                f"{values.shape}."
            )
        parts.append(values)
    X = in_order("X", X).tocsr() if scipy.sparse.issparse(X) else X
    return Piece(X, parts[0], parts[1], where, parts[2], lent=True)
