"""What the values of a table mean: matching of categories, numbers, dates, and what is missing.

Values come as text (from CSV) or typed (from Parquet and data frames). Two ways of writing the same
value mean the same here: ``TRUE`` and ``True``, ``1.0`` and ``1``.
"""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._arrays import may_be_rounded, refuse_masked
from dpfast._csv_form import CsvForm
from dpfast._table_files import NO_TEXT
from dpfast.errors import DataError
from dpfast.preprocessing.matching import (
    NUMBER,
    REMEMBERED,
    Distinct,
    Index,
    alone,
    folded,
    is_null,
    is_null_type,
    written,
)

Values = Sequence[str] | NDArray[Any]
"""A column: text ("" where a value is missing), or an array of booleans, numbers (NaN where a
value is missing) or ``datetime64``."""

#: Text that stands for a missing number, date or truth value: it could be none of them.
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "nat", "null", "none", "<na>", "?", "."})
FALSE, TRUE = frozenset({"false", "f", "no", "n", "0"}), frozenset({"true", "t", "yes", "y", "1"})

_REMEDY = (
    "Correct the row, or declare what the column holds: a range, categories, dates or truth "
    'values, and "missing_values" for what stands for none.'
)
_NUMBERS = "Numbers are written like 1234.5: no comma, no unit, no % sign."
_OTHER_NUMBERS = 'How a CSV file writes them is declared as "decimal" and "thousands".'
_DATES = 'Another form is declared as {"dates": [first, last], "format": "%d.%m.%Y"}.'

_PLAIN = (str, numbers.Real, Decimal, np.bool_, datetime.date)
# Texts for which PyArrow is worth its import.
_MANY_TEXTS = 1000
_DAY = datetime.timedelta(days=1)
_EPOCH = datetime.datetime(1970, 1, 1)


class TruthIndex(Index):
    """An index of [false, true] that knows the usual words for them."""

    def __init__(self, missing: Collection[str] = ()) -> None:
        super().__init__(["false", "true"], (*MISSING, *missing))

    def _match(self, text: str) -> int:
        plain = folded(text)
        if plain in FALSE or plain in TRUE:
            return int(plain in TRUE)
        return super()._match(text)


def texts_of(values: Values) -> Iterable[str]:
    """A column as text; whole numbers are written without a point."""
    if not isinstance(values, np.ndarray):
        return values
    if values.dtype.kind == "f":
        return ["" if x != x else _text(x) for x in values.tolist()]
    return map(str, values.tolist())


def parse_numbers(name: str, values: Values, missing: Collection[str]) -> NDArray[np.float64]:
    """Numbers of a column, NaN where a value is missing.

    An error names column and row.
    """
    if not isinstance(values, np.ndarray):
        hint = f"{_NUMBERS} {_OTHER_NUMBERS}"
        found = _each(name, values, _number, missing, "a finite number", hint)
    elif values.dtype.kind == "M":
        raise DataError(
            f'column {name!r}: expected numbers; got dates. Declare {{"dates": [first, last]}}.'
        )
    else:
        found = values.astype(np.float64)
    for text in filter(NUMBER.fullmatch, map(folded, missing)):
        found[found == float(text)] = math.nan
    if np.isinf(found).any():
        row = int(np.argmax(np.isinf(found)))
        raise WrongValue(name, row, "a finite number", "an infinite one")
    return found


def in_points(name: str, values: Values, missing: Collection[str], form: CsvForm) -> Values:
    """Text of numbers as Python writes them; what stands for a missing value stays as it is.

    An error names column and row.
    """
    if isinstance(values, np.ndarray) or form.points:
        return values
    if isinstance(values, Distinct):
        try:
            texts = in_points(name, values.texts, missing, form)
            return Distinct(list(texts), values.places)
        except WrongValue as error:
            raise error.at(int(np.argmax(values.places == error.arguments[1]))) from None
    kept = MISSING.union(map(folded, missing))
    hint = f"The file was declared to write numbers like {form.example}: no unit, no % sign."
    if form.thousands is None:
        hint += ' What stands between groups of digits is declared as "thousands".'
    found = []
    for row, text in enumerate(values):
        try:
            found.append(text if folded(text) in kept else form.plain(text))
        except ValueError:
            raise WrongValue(
                name, row, "a finite number", kind_of(text), f"{hint} {_REMEDY}"
            ) from None
    return found


def meant_in_points(values: Values, index: Index, form: CsvForm) -> Values:
    """Text of categories; numbers as Python writes them, unless a category is written so."""
    if isinstance(values, np.ndarray) or form.points:
        return values
    if isinstance(values, Distinct):
        return Distinct(list(meant_in_points(values.texts, index, form)), values.places)

    def meant(text: str) -> str:
        try:
            return text if index.spells(text) else form.plain(text)
        except ValueError:
            return text

    return list(map(meant, values))


def parse_dates(
    name: str, values: Values, missing: Collection[str], days: Days
) -> NDArray[np.float64]:
    """Days since 1970 of a column's dates, NaN where one is missing.

    `days` remembers texts from one call to the next: few dates stand in many rows.

    An error names column and row.
    """
    if not isinstance(values, np.ndarray):
        expected = "a date such as 2024-12-31"
        if days.form is not None:
            expected = f"a date of the form {days.form}"
        return _each(name, values, days.__getitem__, missing, expected, _DATES)
    if values.dtype.kind != "M":
        raise DataError(
            f"column {name!r}: expected dates; got {values.dtype}. Store them as dates or as text "
            f"{'such as 2024-12-31' if days.form is None else f'of the form {days.form}'}. (A "
            "reader that takes points out of numbers takes them out of dates, too.)"
        )
    seconds = values.astype("datetime64[s]")
    return np.where(np.isnat(seconds), math.nan, seconds.astype(np.int64) / 86_400.0)


def day_of(text: str, form: str | None = None) -> float:
    """Days since 1970 of a date, in UTC if it has a zone, with the time of day as a fraction.

    A ValueError if it is none.

    Examples
    --------
    >>> day_of("1970-01-02 12:00"), day_of("1970-01-02T12:00+12:00")
    (1.5, 1.0)
    """
    text = text.strip()
    if form is None:
        moment = datetime.datetime.fromisoformat(text)
    else:
        moment = datetime.datetime.strptime(text, form)
    return (_utc(moment) - _EPOCH) / _DAY


def _utc(moment: datetime.datetime) -> datetime.datetime:
    """A time without its zone: in UTC if it had one, as Arrow and polars store it."""
    if moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(datetime.UTC).replace(tzinfo=None)
    except OverflowError:
        raise ValueError("in UTC the year is none that a date can have") from None


class Days(dict[str, float]):
    """Text of a date of some form to days since 1970."""

    def __init__(self, form: str | None) -> None:
        self.form = form

    def __missing__(self, text: str) -> float:
        day = day_of(text, self.form)
        if len(self) < REMEMBERED:
            self[text] = day
        return day


def _each(
    name: str,
    values: Sequence[str],
    parse: Callable[[str], float],
    missing: Collection[str],
    expected: str,
    hint: str,
) -> NDArray[np.float64]:
    """``parse`` of every text, NaN for those that stand for a missing value."""
    if isinstance(values, Distinct):
        try:
            found = _each(name, values.texts, parse, missing, expected, hint)
            return np.asarray(found[values.places])
        except WrongValue as error:
            raise error.at(int(np.argmax(values.places == error.arguments[1]))) from None
    declared = frozenset(map(folded, missing))
    plain = _plain_numbers(values) if parse is _number and not declared else None
    if plain is not None:
        return plain

    def read(text: str) -> float:
        if folded(text) in declared:
            return math.nan
        try:
            return parse(text)
        except ValueError:
            if folded(text) in MISSING:
                return math.nan
            raise

    try:
        if not declared:
            return np.fromiter(map(parse, values), np.float64, len(values))
    except ValueError:
        pass
    result = np.empty(len(values))
    for row, text in enumerate(values):
        try:
            result[row] = read(text)
        except ValueError:
            raise WrongValue(name, row, expected, kind_of(text), f"{hint} {_REMEDY}") from None
    return result


def _number(text: str) -> float:
    """As ``float``, which reads 12_5 as 125."""
    if "_" in text:
        raise ValueError
    return float(text)


def _plain_numbers(texts: Sequence[str]) -> NDArray[np.float64] | None:
    """What :func:`_number` makes of many texts, by PyArrow; None where one may be no finite number.

    PyArrow takes no spaces, no underscores and no other digits, and rounds as ``float`` does.
    """
    if len(texts) < _MANY_TEXTS:
        return None
    try:
        import pyarrow

        column = pyarrow.array(texts, pyarrow.string()).cast(pyarrow.float64())
    except (ImportError, ValueError):
        return None
    # Else it may not be written to, as targets are: divided by their exposure, and cut.
    found: NDArray[np.float64] = column.to_numpy(zero_copy_only=False, writable=True)
    return found if np.isfinite(found).all() else None


def kind_of(value: Any) -> str:
    """What a value is, in words that do not quote it: it is private."""
    if isinstance(value, str):
        return "other text" if value.strip() else "an empty field"
    if value != value:
        return "an empty field"
    if isinstance(value, np.datetime64):
        return "a date"
    return "a truth value" if isinstance(value, np.bool_) else "another number"


class WrongValue(DataError):
    """A value that does not fit the declaration of its column; it says where, and quotes nothing.

    `got` is what stands there in general words, see :func:`kind_of`.
    """

    def __init__(
        self, column: str, row: int, expected: str, got: str, remedy: str | None = None
    ) -> None:
        remedy = remedy or _REMEDY
        self.place = f"column {column!r}, row {row + 1} of the data: expected {expected}; got {got}"
        super().__init__(f"{self.place}. {remedy}")
        self.arguments = column, row, expected, got, remedy

    def below(self, rows: int) -> WrongValue:
        """The same error, where so many rows stand above those that were looked at."""
        return self.at(self.arguments[1] + rows)

    def at(self, row: int) -> WrongValue:
        """The same error in another row."""
        column, _, expected, got, remedy = self.arguments
        return WrongValue(column, row, expected, got, remedy)


def in_one(errors: Sequence[DataError]) -> DataError:
    """The first of errors about several columns, with the places of the others."""
    first, *others = errors
    places = "; ".join(e.place if isinstance(e, WrongValue) else str(e) for e in others)
    return DataError(f"{first} Besides: {places.rstrip('.')}.") if others else first


def plain_values(name: str, column: Any) -> Values:
    """A column of a data frame or of a mapping as text or as a typed array."""
    refuse_masked(f"column {name!r}", column)
    array = column.to_numpy() if hasattr(column, "to_numpy") else _array_of(column)
    if hasattr(column, "to_list") and may_be_rounded(array):
        # A missing integer is no reason to round the others.
        return _plain_objects(name, column.to_list())
    if array.ndim != 1:
        raise DataError(
            f"column {name!r}: expected one value a row; got an array of shape {array.shape}."
        )
    if array.dtype.kind in "biufM":
        return np.asarray(array)
    if array.dtype.kind in "UT":
        return [str(text) for text in array.tolist()]
    if array.dtype.kind != "O":
        raise _of_other_type(name, array.dtype)
    return _plain_objects(name, array.tolist())


def _array_of(column: Any) -> NDArray[Any]:
    """A column as an array; each entry of a list stays what it is, whatever the others are."""
    if isinstance(column, list | tuple) and set(map(type, column)) == {np.datetime64}:
        return np.array(column, dtype="datetime64[us]")
    return alone(column)


def arrow_values(name: str, column: Any) -> Values:
    """An Arrow array as text or as a typed array."""
    try:
        return _arrow_values(name, column)
    except UnicodeError:  # which quotes a byte
        raise DataError(f"column {name!r}: {NO_TEXT}") from None


def _arrow_values(name: str, column: Any) -> Values:
    import pyarrow
    from pyarrow import types

    if isinstance(column, pyarrow.ChunkedArray):
        column = column.combine_chunks()
    if types.is_dictionary(column.type):
        if types.is_string(column.type.value_type) and not column.null_count:
            # Not what no row has.
            used, places = np.unique(column.indices.to_numpy(), return_inverse=True)
            texts = column.dictionary.take(pyarrow.array(used))
            if not texts.null_count:
                return Distinct(texts.to_pylist(), places)
        column = column.dictionary_decode()
    kind = column.type
    if types.is_temporal(kind) and not types.is_time(kind) and not types.is_duration(kind):
        unit = kind.unit if types.is_timestamp(kind) else "s"
        return np.asarray(column.cast(pyarrow.timestamp(unit), safe=False).to_numpy(False))
    if types.is_decimal(kind):
        column, kind = column.cast(pyarrow.float64()), pyarrow.float64()
    if types.is_floating(kind) or types.is_integer(kind):
        found = np.asarray(column.to_numpy(zero_copy_only=False))
        if types.is_integer(kind) and may_be_rounded(found):
            return _plain_objects(name, column.to_pylist())
        return found
    if types.is_boolean(kind) and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if (
        types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or (types.is_null(kind) or types.is_string_view(kind))
    ):
        return ["" if text is None else str(text) for text in column.to_pylist()]
    outer = str(kind).partition("<")[0]  # the names of a struct's fields may be keys of its rows
    raise _of_other_type(name, outer)


def _of_other_type(name: str, kind: Any) -> DataError:
    return DataError(
        f"column {name!r}: expected numbers, text, truth values or dates; got {kind}. Convert the "
        "column first: ids to text, periods to dates, durations to numbers (in pandas "
        ".astype(str), .dt.to_timestamp(), .dt.total_seconds())."
    )


def _plain_objects(name: str, entries: list[Any]) -> Values:
    """A list of any objects as text or as a typed array.

    What an entry comes out as does not depend on which others it is among, which decide the type.
    """
    every = set(map(type, entries))
    if every == {str}:
        return entries
    kinds = {kind for kind in every if not is_null_type(kind)}
    # A timedelta64 is an integer to NumPy.
    strange = [k for k in kinds if not issubclass(k, _PLAIN) or issubclass(k, np.timedelta64)]
    if bad := sorted(kind.__name__ for kind in strange):
        raise _of_other_type(name, ", ".join(bad))
    plain = [x if type(x) is str or not is_null(x) else None for x in entries]
    if kinds and all(issubclass(kind, datetime.date) for kind in kinds):
        return np.array(list(map(_moment, plain)), dtype="datetime64[us]")
    truths = any(issubclass(kind, bool | np.bool_) for kind in kinds)
    real = kinds and not truths and all(issubclass(kind, numbers.Real | Decimal) for kind in kinds)
    if real and not any(map(_is_rounded, plain)):
        return np.array([math.nan if x is None else _float(x) for x in plain])
    return ["" if x is None else _text(x) for x in plain]


def _text(entry: Any) -> str:
    """An entry as text, as in an array of its own type; a whole number is written as an integer."""
    if isinstance(entry, datetime.date):
        return written(np.array(_moment(entry), dtype="datetime64[s]"))
    whole = isinstance(entry, numbers.Integral)
    if abs(entry) >= 2**64 if whole else isinstance(entry, numbers.Real | Decimal):
        number = _float(entry)
        return str(int(number)) if number.is_integer() else str(number)
    return str(entry)


def _moment(entry: Any) -> Any:
    """A date, or a time without its zone."""
    return _utc(entry) if isinstance(entry, datetime.datetime) else entry


def _is_rounded(entry: Any) -> bool:
    """Whether an entry is a whole number that arrays hold, and float64 may not."""
    return isinstance(entry, numbers.Integral) and 2**53 < abs(int(entry)) < 2**64


def _float(number: Any) -> float:
    """A number in float64; infinity if it is too large."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
