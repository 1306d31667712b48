"""Rows in Parquet and CSV files and in Arrow datasets, through PyArrow."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast._table_files import NO_TEXT, NOT_SHOWN, PARQUET, are_names, import_parquet, is_number
from dpfast._validation import id_names, warn
from dpfast.blocks._arrays import file_facts
from dpfast.blocks._source import Piece
from dpfast.errors import DataError, QuestionableSettingWarning

T = TypeVar("T")

# Rows that are turned from columns into rows at once: they stay in cache on the way.
_TURNED_ROWS = 2048
# Bytes of the batches that are asked for.
_BATCH_BYTES = 2**24
# Of every column of a Parquet file at a time; 0 would hold a row group as a whole.
_BUFFER_BYTES = 2**18
# What of an error in a CSV file tells nothing of its entries.
_TOLD = re.compile(
    r"(In CSV column #(?P<column>\d+): )?(Row #\d+: )?"
    r"CSV (conversion error to \w+|parse error: (Row #\d+: )?Expected \d+ columns, got \d+)"
)


def import_arrow() -> Any:
    """The package ``pyarrow``."""
    import_parquet()
    import pyarrow

    return pyarrow


class Roles(NamedTuple):
    """Names of columns by what they are for; all others are features where `columns` is None."""

    target: str | None
    columns: Sequence[str] | None
    weight: str | None
    groups: str | None

    def check(self) -> None:
        """Refuse what is no name, and columns that have two roles."""
        target, columns, weight, groups = self
        for name, value in (("target", target), ("sample_weight", weight), ("groups", groups)):
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} must be the name of a column or None; got {value!r}.")
        if columns is None:
            return
        if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
            raise TypeError(f"columns must be a list of names or None; got {columns!r}.")
        aside = {target, weight, groups}
        if len(set(columns)) != len(columns) or not aside.isdisjoint(columns):
            raise ValueError(
                "columns must be different from each other and from the target, the weights and "
                f"the groups; got {list(columns)}."
            )

    @property
    def named(self) -> list[str]:
        """All columns that are named."""
        aside = (self.target, self.weight, self.groups)
        return [*(self.columns or ()), *(name for name in aside if name is not None)]


def _question_ids(name: str, columns: Sequence[str]) -> None:
    """Warn of features that nobody asked for and whose names say that they are ids."""
    if ids := id_names(columns):
        warn(
            f"{name}: columns was not given, so {', '.join(map(repr, ids))} "
            f"{'are features' if len(ids) > 1 else 'is a feature'}. Name the features by "
            "columns=[...]; a column that says whose row it is goes to groups.",
            QuestionableSettingWarning,
        )


class _ColumnReader:
    """Rows made of columns by name; a subclass says where record batches come from."""

    in_memory = False
    seekable = False
    n_samples: int

    def __init__(self, name: str, schema: Any, roles: Roles) -> None:
        self.name = name
        roles.check()
        target, columns, weight, groups = roles
        found = list(schema.names)
        _check_found(name, found, roles.named)
        if columns is None:
            columns = [column for column in found if column not in (target, weight, groups)]
            _question_ids(name, columns)
        if not columns:
            raise DataError(f"{name} has no columns but the target, the weights and the groups.")
        self.feature_names: tuple[str, ...] | None = tuple(columns)
        self.target, self.weight, self.groups = target, weight, groups
        self.n_features, self.weighted = len(columns), weight is not None
        self.targeted = target is not None
        self.grouped = groups is not None
        self._schema = schema
        self.dtype = self._dtype(schema)
        # Asked once: for every few rows it would take as long as turning them.
        kinds = {str(schema.field(column).type) for column in columns}
        self._uniform = len(kinds) == 1 and kinds <= {"float", "double"}
        #: Without the extra copies of a column that is also the target.
        self.read = list(dict.fromkeys([*columns, *(c for c in (target, weight, groups) if c)]))
        row_bytes = self.dtype.itemsize * self.n_features
        self.batch_rows = max(_TURNED_ROWS, _BATCH_BYTES // row_bytes)

    def __repr__(self) -> str:
        return self.name

    def _dtype(self, schema: Any) -> np.dtype[Any]:
        """float32 if all columns are; other numbers are read as float64."""
        types = import_arrow().types
        assert self.feature_names is not None
        for column in (*self.feature_names, *([self.weight] if self.weight else [])):
            kind = schema.field(column).type
            if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
                outer = str(kind).partition("<")[0]  # keys of rows may be names of its fields
                raise DataError(
                    f"{self.name}, column {column!r}: must hold numbers; got {outer}. Give "
                    "columns=, encode it by a rule fixed without looking at the data, or give the "
                    "table to dpfast.TableModel, which reads categories and dates."
                )
        if self.groups is not None and types.is_floating(schema.field(self.groups).type):
            raise TypeError(
                f"{self.name}, column {self.groups!r}: groups must be integers, texts or other "
                "exact ids; got floating-point numbers."
            )
        narrow = all(types.is_float32(schema.field(c).type) for c in self.feature_names)
        return np.dtype(np.float32 if narrow else np.float64)

    def _count(self, n_samples: int) -> None:
        """Keep the number of rows, of which there must be some."""
        if not n_samples:
            raise DataError(f"{self.name} has columns but no rows.")
        self.n_samples = n_samples

    def check_schema(self, name: str, schema: Any) -> None:
        """Refuse a file whose columns are not those of the first."""
        for column in self.read:
            if column not in schema.names:
                raise DataError(f"{name} has no column {column!r}, which {self.name} has.")
            kind, expected = schema.field(column).type, self._schema.field(column).type
            if kind != expected:
                raise DataError(
                    f"{name}, column {column!r}: must be {expected}, as in {self.name}; got {kind}."
                )

    def rows_of(self, batch: Any, where: str) -> Iterator[Piece]:
        """A record batch as rows, some at a time."""
        assert self.feature_names is not None
        parts = {}
        for column in self.read:
            values = batch.column(column)
            if values.null_count:
                fill = "Fill missing values by a rule fixed without looking at the data."
                if column == self.groups:
                    fill = "Give every row an id: a new one if it is nobody else's row."
                raise DataError(f"{where}, column {column!r}: a value is missing. {fill}")
            parts[column] = values
        y, weight, groups = (
            _plain(parts[name], where, name) if name else None
            for name in (self.target, self.weight, self.groups)
        )
        features = batch.select(list(self.feature_names))
        for at in range(0, batch.num_rows, _TURNED_ROWS):
            end = min(at + _TURNED_ROWS, batch.num_rows)
            yield Piece(
                self._turned(features.slice(at, end - at)),
                None if y is None else y[at:end],
                None if weight is None else weight[at:end],
                where,
                None if groups is None else groups[at:end],
            )

    def _id_batches(self) -> Iterator[Any]:
        """Record batches with the column of the groups alone."""
        raise NotImplementedError

    def ids(self) -> Iterator[NDArray[Any]]:
        """The groups of all rows."""
        for batch in self._id_batches():
            column = batch.column(self.groups)
            if column.null_count:
                raise DataError(
                    f"{self.name}, column {self.groups!r}: a value is missing. Give every row an "
                    "id: a new one if it is nobody else's row."
                )
            yield _plain(column, self.name, str(self.groups))

    def _turned(self, batch: Any) -> NDArray[Any]:
        """The rows of a small record batch."""
        if self._uniform:
            try:
                rows: NDArray[Any] = batch.to_tensor(row_major=True).to_numpy()
                return rows
            except (AttributeError, TypeError):
                pass  # an old PyArrow
        out = np.empty((batch.num_rows, batch.num_columns), dtype=self.dtype)
        for number, column in enumerate(batch.columns):
            out[:, number] = column.to_numpy(zero_copy_only=False)
        return out

    def describe(self) -> Any:
        """Names of the columns that are read: what made the file may have guessed their types."""
        return [self.feature_names, self.target, self.weight, self.groups]


class ParquetReader(_ColumnReader):
    """Parquet files, row group after row group.

    A directory stands for its files in the order of their names.
    """

    seekable = True

    def __init__(self, path: Any, roles: Roles) -> None:
        import_arrow()
        self.paths = _files(path, PARQUET)
        self._row_groups: list[tuple[str, int, int]] = []
        for number, name in enumerate(self.paths):
            with self._open(name) as file:
                schema, data = file.schema_arrow, file.metadata
                if number == 0:
                    super().__init__(name, schema, roles)
                else:
                    self.check_schema(name, schema)
                self._row_groups += [
                    (name, group, data.row_group(group).num_rows)
                    for group in range(data.num_row_groups)
                ]
        self._count(sum(rows for _, _, rows in self._row_groups))

    def _open(self, name: str) -> Any:
        parquet, arrow = import_parquet(), import_arrow()
        try:
            return parquet.ParquetFile(name, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        except arrow.ArrowInvalid as error:
            said = str(error).rstrip(".")
            raise DataError(f"{name} is not a complete Parquet file: {said}.") from error

    def pieces(self, start: int, stop: int, rows: int) -> Iterator[Piece]:
        """Rows [start, stop); of a row group that begins before, the rows before are skipped."""
        arrow = import_arrow()
        first, opened = 0, ""
        file: Any = None
        try:
            for name, group, count in self._row_groups:
                begin, end = max(start, first), min(stop, first + count)
                at, first = first, first + count
                if begin >= end:
                    continue
                if name != opened:
                    if file is not None:
                        file.close()
                    file, opened = self._open(name), name
                    self.check_schema(name, file.schema_arrow)
                where = f"{name}, row group {group}"
                batches = file.iter_batches(
                    batch_size=self.batch_rows, row_groups=[group], columns=self.read
                )
                for batch in batches:
                    low, high = max(begin - at, 0), min(end - at, batch.num_rows)
                    at += batch.num_rows
                    if low < high:
                        yield from self.rows_of(batch.slice(low, high - low), where)
                    if at >= end:
                        break
        except (arrow.ArrowInvalid, arrow.ArrowKeyError, OSError) as error:
            if isinstance(error, FileNotFoundError | PermissionError):
                raise
            raise DataError(f"{opened} cannot be read to its end: {error}") from error
        finally:
            if file is not None:
                file.close()

    def _id_batches(self) -> Iterator[Any]:
        arrow = import_arrow()
        for path in self.paths:
            try:
                with self._open(path) as file:
                    yield from file.iter_batches(columns=[self.groups])
            except arrow.ArrowInvalid as error:
                raise DataError(f"{path} cannot be read to its end: {error}") from error

    def describe(self) -> Any:
        """Files by name and time, row groups by their rows, unless these are private."""
        rows = [] if self.grouped else [count for _, _, count in self._row_groups]
        return [super().describe(), [file_facts(path) for path in self.paths], rows]


class _StreamReader(_ColumnReader, ABC):
    """Rows that are read from the first to the last."""

    #: Number of the first row, and from where rows are counted, for messages.
    _first, _counted_from = 0, ""

    @abstractmethod
    def _batches(self, columns: list[str]) -> Iterator[Any]:
        """The rows, some columns of them."""

    def pieces(self, start: int, stop: int, rows: int) -> Iterator[Piece]:
        """All rows; the range is left to the caller."""
        at = self._first
        for batch in self._batches(self.read):
            where = f"{self.name}, rows {at} to {at + batch.num_rows - 1}{self._counted_from}"
            at += batch.num_rows
            yield from self.rows_of(batch, where)

    def _id_batches(self) -> Iterator[Any]:
        assert self.groups is not None
        yield from self._batches([self.groups])


class CsvReader(_StreamReader):
    """A CSV file with a header, read as a stream."""

    _first, _counted_from = 1, " below the header"

    def __init__(self, path: Any, roles: Roles) -> None:
        import_arrow()
        target, columns, weight, groups = roles
        self.path = os.fspath(path)
        self._types: dict[str, Any] = {}
        self._header: list[str] = []
        with self._open() as stream:
            header = stream.schema.names
        roles.check()
        if columns is None and any(map(is_number, set(header) - set(roles.named))):
            # The features are numbers, so that a record has some.
            raise DataError(
                f"{self.path}: the first line must hold the names of the columns; it holds "
                "numbers, as a record does. Write a line of names above it. If numbers are the "
                "names, name the features by columns=[...]."
            )
        _check_found(self.path, header, roles.named)
        self._header = header
        names = [c for c in (columns or header) if c != target]
        float64 = import_arrow().float64()
        # Not guessed from the first lines: later ones may look different.
        self._types = dict.fromkeys((*names, *([weight] if weight else [])), float64)
        if groups is not None:
            self._types[groups] = import_arrow().string()
        with self._open() as stream:
            super().__init__(self.path, stream.schema, roles)
        count = [target or self.read[0]]
        with self._open(count) as stream:
            self._count(self._guard(lambda: sum(batch.num_rows for batch in stream)))

    def _open(self, columns: Sequence[str] = ()) -> Any:
        from pyarrow import csv

        convert = csv.ConvertOptions(
            column_types=self._types, include_columns=list(columns), strings_can_be_null=True
        )
        return self._guard(lambda: csv.open_csv(self.path, convert_options=convert))

    def _guard(self, work: Any) -> Any:
        arrow = import_arrow()
        try:
            return work()
        except (arrow.ArrowInvalid, arrow.ArrowKeyError) as error:
            raise _unreadable(self.path, error, self._header) from None

    def _batches(self, columns: list[str]) -> Iterator[Any]:
        with self._open(columns) as stream:
            while (batch := self._guard(lambda: next(stream, None))) is not None:
                yield batch

    def describe(self) -> Any:
        """The file by name and time, columns by name."""
        return [super().describe(), file_facts(self.path)]


class DatasetReader(_StreamReader):
    """An Arrow dataset, in the order of its fragments."""

    def __init__(self, dataset: Any, roles: Roles) -> None:
        import_arrow()
        if not hasattr(dataset, "to_batches") or not hasattr(dataset, "count_rows"):
            raise TypeError(
                f"dataset must be a pyarrow.dataset.Dataset; got {type(dataset).__name__}."
            )
        self._dataset = dataset
        _check_once("dataset", _files_of(dataset))
        for folder in _folders_of(dataset):
            _refuse_history(folder)
        super().__init__("the dataset", dataset.schema, roles)
        (found,) = self._guarded(lambda: iter([dataset.count_rows()]))
        self._count(int(found))

    def _batches(self, columns: list[str]) -> Iterator[Any]:
        ahead = {"batch_readahead": 1, "fragment_readahead": 1}
        yield from self._guarded(
            lambda: self._dataset.to_batches(columns=columns, batch_size=self.batch_rows, **ahead)
        )

    def _guarded(self, read: Callable[[], Iterator[T]]) -> Iterator[T]:
        """What is read, or an error that quotes none of it."""
        try:
            yield from read()
        except import_arrow().ArrowException as error:
            raise _unreadable(self.name, error) from None

    def describe(self) -> Any:
        """Files by name and time, if there are files, columns by name."""
        files = _files_of(self._dataset)
        facts = [file_facts(file) if os.path.exists(file) else file for file in files]
        return [super().describe(), facts]


def _unreadable(name: str, error: Exception, header: Sequence[str] = ()) -> DataError:
    """What Arrow says, up to where it quotes an entry, or a row."""
    told = _TOLD.search(str(error))
    if told is None:
        return DataError(f"{name}: reading fails with {type(error).__name__}.")
    place, text = told["column"], told[0]
    if place is None or int(place) >= len(header):
        return DataError(f"{name}: {text}.")
    return DataError(
        f"{name}, column {header[int(place)]!r}: {text.partition(': ')[2]}. It must hold numbers, "
        "written like 1234.5. Name the columns that do by columns=[...], or give the table to "
        "dpfast.TableModel, which reads categories and dates."
    )


def _files(path: Any, endings: tuple[str, ...]) -> list[str]:
    """The files that a path, a directory or several paths stand for."""
    if isinstance(path, str | os.PathLike):
        folder = Path(path)
        if not folder.is_dir():
            return [os.fspath(path)]
        found = sorted(str(file) for file in folder.iterdir() if file.name.endswith(endings))
        if not found:
            raise DataError(f"{folder} has no files that end in {' or '.join(endings)}.")
        _refuse_history(folder)
        path = found
    paths = [os.fspath(each) for each in path]
    if not paths:
        raise ValueError("path must name at least one file; got none.")
    _check_once("path", paths)
    return paths


_FORMATS = {
    "Delta Lake": ("_delta_log", "deltalake.DeltaTable(path).to_pyarrow_dataset()"),
    "Apache Hudi": (".hoodie", "pyarrow.dataset.dataset(table), of what a reader of Hudi returns"),
    "Apache Iceberg": (
        "metadata/*.metadata.json",
        "pyarrow.dataset.dataset(table.scan().to_arrow()), where table is PyIceberg's",
    ),
}


def _refuse_history(folder: Path) -> None:
    """Refuse folders of tables whose files also hold rows of former versions."""
    for name, (sign, reader) in _FORMATS.items():
        # Iceberg's and Hudi's files may be in a folder below the table's.
        if any(True for place in (folder, *folder.resolve().parents[:2]) for _ in place.glob(sign)):
            raise DataError(
                f"{folder} belongs to a table of {name}, whose files also hold rows that were "
                "changed or deleted: a record would count several times. Read it through "
                f"from_dataset(dataset, ...) with dataset = {reader}."
            )


def _check_once(name: str, paths: Sequence[str]) -> None:
    """Refuse files that are among others, by another name or a link, too."""
    if len(set(map(_place, paths))) < len(paths):
        raise ValueError(
            f"{name} must name each file once, or its rows count twice; got one twice."
        )


def _place(path: str) -> Any:
    """What a file is known by, if it is on this machine."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # reading it says what is wrong
        return path
    # Some file systems number none.
    return (found.st_dev, found.st_ino) if found.st_ino else os.path.realpath(path)


def _files_of(dataset: Any) -> list[str]:
    """Names of the files of a data set, or of those it is made of, if there are files."""
    parts = getattr(dataset, "children", ())
    if parts:
        return [file for part in parts for file in _files_of(part)]
    return [str(file) for file in getattr(dataset, "files", ())]


def _folders_of(dataset: Any) -> set[Path]:
    """Folders of this machine that a data set's files are in, and the one that has them all.

    Files on another file system are named by it: a reader of Delta Lake lists those that count.
    """
    parts = getattr(dataset, "children", ())
    if parts:
        return set().union(*map(_folders_of, parts))
    if getattr(getattr(dataset, "filesystem", None), "type_name", None) != "local":
        return set()
    folders = {Path(file).absolute().parent for file in _files_of(dataset)}
    return folders | {Path(os.path.commonpath(folders))} if folders else folders


def _check_found(name: str, found: list[str], named: list[str]) -> None:
    """Refuse a table that lacks columns, or has one twice."""
    if missing := [column for column in named if column not in found]:
        shown, has = missing, str(found[:20])
        if not are_names(found, named):  # nor which of the names are values of a record
            shown, has = named, f"{len(found)} others ({NOT_SHOWN})"
        raise DataError(f"{name} has no columns {shown}; it has {has}.")
    if doubles := sorted({column for column in found if found.count(column) > 1}):
        own = [column for column in doubles if column in named]
        twice = own or f"with {len(doubles)} of its names ({NOT_SHOWN})"
        raise DataError(f"{name} has the columns {twice} more than once.")


def _plain(values: Any, where: str, column: str) -> NDArray[Any]:
    """A column as an array; texts as objects."""
    if hasattr(values, "dictionary_decode"):
        values = values.dictionary_decode()
    try:
        array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    except NotImplementedError:
        raise DataError(f"{where}, column {column!r}: its type is not supported.") from None
    except (import_arrow().ArrowException, UnicodeError):  # what it says quotes an entry
        raise DataError(f"{where}, column {column!r}: {NO_TEXT}") from None
    return array
