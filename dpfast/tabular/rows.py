"""Rows of a table in compact codes, in memory or in a temporary file, and what they encode to."""

from __future__ import annotations

import copy
import re
import tempfile
import threading
import unicodedata
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._csv_form import USUAL_FORM, CsvForm
from dpfast.blocks import Piece
from dpfast.coded import CodedMatrix
from dpfast.errors import DataError
from dpfast.preprocessing.matching import folded
from dpfast.tabular.columns import Column
from dpfast.tabular.frames import Chunk
from dpfast.tabular.schema import TableSchema
from dpfast.tabular.tally import Tally
from dpfast.tabular.targets import ClassTarget, Exposure, RangeTarget, Weight
from dpfast.tabular.values import MISSING, Values, WrongValue, in_points, meant_in_points, texts_of

_NAMELESS = "Give every row an id: a new one if it is nobody else's row."
_SECONDS = "Times are read in whole seconds, and two persons might become one: keep ids as text."
_ROUNDED = "Two persons might become one: keep such ids as text, or as 64-bit integers."

# A whole number in floating point.
_WHOLE = re.compile(r"[+-]?\d+\.0*")

_FULL = "The rows of a table are kept there during a fit: make room, or set TMPDIR to elsewhere"

# Codes beyond this go to a temporary file, which only this process can open.
_MEMORY_BYTES = 2**24
# Rows that are encoded at once: they stay in cache on the way.
_ENCODED_ROWS = 4096
# Rows whose records are read at once.
_CODED_ROWS = 2**16
# Rows that are sorted by person are handled so many at a time, in parts of about so many bytes.
_SORTED_ROWS, _SORTED_BYTES = 2**16, 2**26


class RowCoder:
    """Makes codes of chunks of a table, one after another.

    `fit`: target, weight and person are read, too; an exposure always is.  `form` is how numbers
    are written where they are text.
    """

    def __init__(self, schema: TableSchema, *, fit: bool, form: CsvForm = USUAL_FORM) -> None:
        self.schema, self.tally, self._fit, self._form = schema, Tally(), fit, form
        self._persons: dict[str, int] = defaultdict(count().__next__)
        target = schema.target
        self._index = target.index() if isinstance(target, ClassTarget) and fit else None
        # Name of the column, field and its type, and what makes codes of the values of some rows.
        fields: list[tuple[str, str, Any, Callable[[Values, Any], Any]]] = [
            (column.name, f"x{j}", column.dtype, self._coded(column))
            for j, column in enumerate(schema.features)
        ]
        if schema.exposure is not None:
            fields.append((schema.exposure.name, "exposure", float, self._parsed(schema.exposure)))
        if fit:
            fields.append((target.name, "target", target.dtype, self._target))
            if schema.weight is not None:
                fields.append((schema.weight.name, "weight", float, self._parsed(schema.weight)))
            if schema.person is not None:
                fields.append((schema.person, "person", np.int64, self._numbers))
        self._fields = fields
        self.dtype = np.dtype([(field, kind) for _, field, kind, _ in fields])

    @property
    def persons(self) -> int | None:
        """Number of persons so far; None without a person column."""
        return len(self._persons) if self.schema.person is not None else None

    def codes(self, chunk: Chunk, wrong: dict[str, DataError] | None = None) -> NDArray[Any]:
        """A record for each row.

        `wrong` gets the first error of each column, instead of its being raised.

        Rows are counted over all chunks.
        """
        rows = len(next(iter(chunk.values())))
        records = np.ones(rows, dtype=self.dtype)
        for name, field, _, code in self._fields:
            if wrong is not None and name in wrong:
                continue
            try:
                records[field] = code(chunk[name], records)
            except DataError as error:
                found = error.below(self.tally.rows) if isinstance(error, WrongValue) else error
                if wrong is None:
                    raise found from None
                wrong[name] = found
        self.tally.rows += rows
        return records

    def _coded(self, column: Column) -> Callable[[Values, Any], Any]:
        """What makes codes of a feature's values."""
        code = column.coder(self._form)
        return lambda values, _: code(values, self.tally)

    def _parsed(self, column: Weight | Exposure) -> Callable[[Values, Any], Any]:
        """What reads a column that says how much a row counts."""
        return lambda values, _: column.parse(in_points(column.name, values, (), self._form))

    def _numbers(self, values: Values, _: Any) -> NDArray[np.int64]:
        """A number for each person, in the order in which they appear."""
        name = str(self.schema.person)
        if isinstance(values, np.ndarray) and values.dtype.kind == "f":
            wrong = np.isinf(values) | ((values != np.floor(values)) & ~np.isnan(values))
            if wrong.any():
                row = int(np.argmax(wrong))
                raise WrongValue(name, row, "whose row it is", "no whole number", _NAMELESS)
            # From here on several whole numbers are rounded to one.
            rounded = np.abs(values) >= 2.0 ** (np.finfo(values.dtype).nmant + 1)
            if rounded.any():
                row, kind = int(np.argmax(rounded)), f"a number that {values.dtype} rounds"
                raise WrongValue(name, row, "whose row it is", kind, _ROUNDED)
        if isinstance(values, np.ndarray) and values.dtype.kind == "M":
            seconds = values.astype("datetime64[s]")
            cut = (values != seconds) & ~np.isnat(values)
            if cut.any():
                row, kind = int(np.argmax(cut)), "a time with a fraction of a second"
                raise WrongValue(name, row, "whose row it is", kind, _SECONDS)
            values = seconds
        texts = [_id(text, self._form.decimal) for text in texts_of(values)]
        known = self._persons
        missing = {text for text in set(texts) - known.keys() if folded(text) in MISSING}
        if missing:
            row = next(row for row, text in enumerate(texts) if text in missing)
            raise WrongValue(name, row, "whose row it is", "a missing one", _NAMELESS)
        return np.fromiter(map(known.__getitem__, texts), np.int64, len(texts))

    def _target(self, values: Values, records: Any) -> NDArray[Any]:
        """Positions of classes, or numbers over the exposure."""
        target = self.schema.target
        if self._index is not None:
            assert isinstance(target, ClassTarget)
            values = meant_in_points(values, self._index, self._form)
            return np.asarray(target.parse(values, self._index))
        assert isinstance(target, RangeTarget)
        exposure = 1.0 if self.schema.exposure is None else records["exposure"]
        values = in_points(target.name, values, (), self._form)
        return target.parse(values, self.tally, exposure)


def _id(text: str, decimal: str = ".") -> str:
    """The text of an id; 7.0 is 7, as where ids were once read as floating point.

    An accented letter and the same in two characters are one, as in categories.
    """
    plain = unicodedata.normalize("NFC", text.strip())
    whole, point, rest = plain.partition(decimal)
    return whole if point and _WHOLE.fullmatch(f"{whole}.{rest}") else plain


def coded_parts(schema: TableSchema, records: NDArray[Any]) -> list[tuple[NDArray[Any], Any]]:
    """The same columns as parts of a :class:`~dpfast.coded.CodedMatrix`."""
    return [
        part for j, column in enumerate(schema.features) for part in column.parts(records[f"x{j}"])
    ]


def encode(schema: TableSchema, records: NDArray[Any], dtype: Any = np.float64) -> NDArray[Any]:
    """The encoded columns of records."""
    result = np.empty((len(records), len(schema.feature_names)), dtype=dtype)
    for start in range(0, len(records), _ENCODED_ROWS):
        some = records[start : start + _ENCODED_ROWS]
        out = result[start : start + _ENCODED_ROWS]
        for j, (column, span) in enumerate(schema.spans()):
            column.write(some[f"x{j}"], out[:, span])
    return result


class _Records:
    """Records one after another, beyond 16 MiB in a temporary file without a name."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype, self.length, self._lock = dtype, 0, threading.Lock()
        self._file: Any = tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    @property
    def names(self) -> tuple[str, ...]:
        return self.dtype.names or ()

    def append(self, records: NDArray[Any]) -> None:
        try:
            self._file.write(records.tobytes())
        except OSError as error:
            raise OSError(
                error.errno, f"{error.strerror}. {_FULL}", tempfile.gettempdir()
            ) from None
        self.length += len(records)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        size = self.dtype.itemsize
        with self._lock:
            self._file.seek(rows.start * size)
            return np.frombuffer(self._file.read((rows.stop - rows.start) * size), self.dtype)


class TableRows:
    """The coded rows of a table, which are encoded whenever they are asked for.

    They take a few bytes a value, and beyond 16 MiB lie in a temporary file that has no name and
    vanishes with this object.

    `exponent` is the power of an exposure that a row weighs in proportion to.
    """

    exponent = 0.0
    seekable, in_memory, targeted = True, False, True
    feature_names: tuple[str, ...] | None = None

    def __init__(self, coder: RowCoder, chunks: Iterable[Chunk]) -> None:
        self.schema, self.n_samples = coder.schema, 0
        self._records = _Records(coder.dtype)
        for chunk in chunks:
            records = coder.codes(chunk)
            self._records.append(records)
            self.n_samples += len(records)
        self.n_features = len(self.schema.feature_names)
        #: Rows, or persons: what is public of how many there are.
        self.n_records = self.n_samples if coder.persons is None else coder.persons
        self.weighted = self.schema.weight is not None or self.schema.exposure is not None
        self.grouped = self.schema.person is not None

    def __repr__(self) -> str:
        return "the table"

    def records(self, start: int, stop: int) -> NDArray[Any]:
        """The records of rows [start, stop)."""
        return self._records[start:stop]

    def ranges(self, rows: int) -> Iterator[tuple[int, int]]:
        """Ranges of so many rows."""
        for start in range(0, self.n_samples, rows):
            yield start, min(start + rows, self.n_samples)

    def pieces(self, start: int, stop: int, rows: int) -> Iterator[Piece]:
        """Encoded rows [start, stop), for :class:`dpfast.blocks.Source`; dense ones in float32."""
        for at in range(start, stop, rows):
            end = min(at + rows, stop)
            records = self.records(at, end)
            yield Piece(
                CodedMatrix(coded_parts(self.schema, records))
                if self.schema.in_codes
                else encode(self.schema, records, np.float32),
                np.array(records["target"]),
                self._weights(records) if self.weighted else None,
                f"the table, rows {at + 1} to {end}",
                np.array(records["person"]) if self.grouped else None,
            )

    def _weights(self, records: NDArray[Any]) -> NDArray[np.float64]:
        """What rows count: their own weight, and what the rate over their exposure weighs."""
        names, found = records.dtype.names or (), np.ones(len(records))
        if "weight" in names:
            found *= records["weight"]
        if self.schema.exposure is not None:
            with np.errstate(over="ignore"):
                found *= np.minimum(records["exposure"], self.schema.exposure.high) ** self.exponent
        return np.minimum(found, np.finfo(np.float64).max)  # of which larger ones are lowered, too

    def ids(self) -> Iterator[NDArray[np.int64]]:
        """Numbers of the persons of all rows."""
        for span in self.ranges(_SORTED_ROWS):
            yield np.array(self.records(*span)["person"])

    def sizes(self) -> NDArray[np.int64] | None:
        """Rows of each person, by their numbers; None without a person column."""
        if not self.grouped:
            return None
        counts = np.zeros(self.n_records, dtype=np.int64)
        for numbers in self.ids():
            counts += np.bincount(numbers, minlength=self.n_records)
        return counts

    def by_person(self) -> TableRows:
        """The same rows, those of a person side by side, which takes a second copy of the codes."""
        # Persons are numbered as they appear: they lie side by side if the numbers never fall.
        last = 0
        for numbers in self.ids():
            if numbers[0] < last or np.any(numbers[1:] < numbers[:-1]):
                break
            last = numbers[-1]
        else:
            return self
        size = self._records.dtype.itemsize * self.n_samples
        count = min(self.n_records, -(-size // _SORTED_BYTES))
        parts = [_Records(self._records.dtype) for _ in range(count)]
        for span in self.ranges(_SORTED_ROWS):
            records = self.records(*span)
            places = records["person"] * count // self.n_records
            for place in np.unique(places):
                parts[place].append(records[places == place])
        other = copy.copy(self)
        other._records = _Records(self._records.dtype)
        for part in parts:
            records = part[0 : part.length]
            other._records.append(records[np.argsort(records["person"], kind="stable")])
        return other

    def describe(self) -> Any:
        """What identifies this table, apart from its values."""
        return ["table", self.n_records, self.schema.to_dict()]

    def with_schema(self, schema: TableSchema) -> TableRows:
        """The same rows, encoded by another schema of the same codes."""
        other = copy.copy(self)
        other.schema = schema
        return other

    def with_exponent(self, exponent: float) -> TableRows:
        """The same rows, for another family of rates."""
        other = copy.copy(self)
        other.exponent = exponent
        return other

    def whole(self) -> tuple[Any, NDArray[Any], dict[str, Any]]:
        """All rows as the schema has them held, targets, and what `fit` takes besides."""
        if not self.schema.in_codes:
            return self.dense()
        kept: list[NDArray[Any]] = []
        tables: list[Any] = []
        for start, stop in self.ranges(_CODED_ROWS):
            parts = coded_parts(self.schema, self.records(start, stop))
            if not kept:
                kept = [np.empty(self.n_samples, values.dtype) for values, _ in parts]
                tables = [table for _, table in parts]
            for column, (values, _) in zip(kept, parts, strict=True):
                column[start:stop] = values
        return CodedMatrix(list(zip(kept, tables, strict=True))), *self._beside()

    def dense(self) -> tuple[NDArray[np.float64], NDArray[Any], dict[str, Any]]:
        """All encoded rows, targets, and what `fit` takes besides."""
        X = np.empty((self.n_samples, self.n_features))
        for start, stop in self.ranges(_CODED_ROWS):
            X[start:stop] = encode(self.schema, self.records(start, stop))
        return X, *self._beside()

    def _beside(self) -> tuple[NDArray[Any], dict[str, Any]]:
        """Targets of all rows, and what `fit` takes besides."""
        further = {"groups": self.field("person")} if self.grouped else {}
        if self.weighted:
            further["sample_weight"] = self.weights()
        return self.field("target"), further

    def weights(self) -> NDArray[np.float64]:
        """What all rows count."""
        spans = self.ranges(_CODED_ROWS)
        return np.concatenate([self._weights(self.records(*span)) for span in spans])

    def field(self, name: str) -> NDArray[Any]:
        """One entry of all records."""
        # Copies: a view would hold all of its records.
        spans = self.ranges(_CODED_ROWS)
        return np.concatenate([self.records(*span)[name].copy() for span in spans])
