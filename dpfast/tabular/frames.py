"""Where tables come from: data frames, mappings and files, a few thousand rows at a time."""

from __future__ import annotations

import datetime
import numbers
import os
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from typing import Any

import numpy as np

from dpfast._csv_form import USUAL_FORM, CsvForm
from dpfast._files import ends_in, show_names
from dpfast._table_files import (
    NOT_SHOWN,
    PARQUET,
    Progress,
    are_names,
    show_columns,
    table_chunks,
    table_header,
)
from dpfast._validation import did_you_mean
from dpfast.errors import DataError
from dpfast.preprocessing.matching import is_null
from dpfast.tabular.values import Values, arrow_values, plain_values

# Rows of text that stay in cache on their way from lines to columns; typed ones are cheaper.
TEXT_ROWS, TYPED_ROWS = 512, 8192
Chunk = dict[str, Values]


def is_path(data: Any) -> bool:
    """Whether a table is named by its file."""
    return isinstance(data, str | os.PathLike)


def form_of(data: Any, declared: CsvForm) -> CsvForm:
    """How the text of a table is written: only that of CSV files is as was declared."""
    return declared if is_path(data) and not ends_in(data, PARQUET) else USUAL_FORM


def column_names(data: Any, form: CsvForm = USUAL_FORM) -> list[str]:
    """Names of the columns of a table."""
    if is_path(data):
        return table_header(data, form)
    if isinstance(data, Mapping):
        return list(data)
    for method in ("collect", "compute"):  # lazy ones of polars and dask
        if hasattr(data, method):
            raise TypeError(
                f"a table must be in memory, or the name of its file; got {type(data).__name__}, "
                f"whose rows are not there yet: pass what its {method}() gives."
            )
    for attribute in ("column_names", "columns"):  # Arrow, then pandas and polars
        names = getattr(data, attribute, None)
        if names is not None and not callable(names):
            return list(names)
    raise TypeError(
        "a table must be a data frame (pandas, polars, Arrow), a dict of columns, or the name of a "
        f"CSV or Parquet file; got {type(data).__name__}. (A table of one row is table[:1] or "
        "table.iloc[[0]].)"
    )


def raw_chunks(
    data: Any,
    columns: Sequence[str],
    progress: Progress | None = None,
    form: CsvForm = USUAL_FORM,
) -> Iterator[dict[str, Any]]:
    """Columns of a table as they are stored, so many rows at a time; see :func:`plain_chunk`."""
    if is_path(data):
        rows = TYPED_ROWS if ends_in(data, PARQUET) else TEXT_ROWS
        yield from table_chunks(data, columns, progress, rows, arrow=True, form=form)
        return
    _check_columns(data, columns)
    whole = {name: data[name] for name in columns}
    length = _common_length(whole)
    if not length:
        raise DataError("the table has columns but no rows.")
    for start in range(0, length, TYPED_ROWS):
        yield {
            name: getattr(column, "iloc", column)[start : start + TYPED_ROWS]
            for name, column in whole.items()
        }


def plain_chunk(chunk: Mapping[str, Any]) -> Chunk:
    """The values of some rows."""
    return {name: _values(name, column) for name, column in chunk.items()}


def chunks(
    data: Any,
    columns: Sequence[str],
    progress: Progress | None = None,
    form: CsvForm = USUAL_FORM,
) -> Iterator[Chunk]:
    """Columns of a table, so many rows at a time."""
    return map(plain_chunk, raw_chunks(data, columns, progress, form))


def columns_of(data: Any, names: Sequence[str]) -> list[Values]:
    """Whole columns of a table that is in memory."""
    _check_columns(data, names)
    return [_values(name, data[name]) for name in names]


def _check_columns(data: Any, wanted: Collection[str]) -> None:
    """Refuse a table in memory that lacks columns, or has one of them twice."""
    found = column_names(data)
    if missing := [name for name in wanted if name not in found]:
        texts = [name for name in found if isinstance(name, str)]
        lacks, has = show_columns(missing), show_names(found)
        hint = did_you_mean(str(missing[0]), texts)
        if texts and not are_names(found, wanted):  # nor which of the names are values of a record
            lacks, hint = show_columns(list(wanted)), ""
            has = f"{len(found)} others ({NOT_SHOWN})"
        if missing[0] in getattr(getattr(data, "index", None), "names", ()):
            hint = f" {missing[0]!r} is its index: pass table.reset_index()."
        raise DataError(f"the table lacks {lacks}; it has {has}.{hint}")
    if repeated := [name for name in wanted if found.count(name) > 1]:
        raise DataError(f"the table has {show_columns(repeated)} more than once.")


def check_persons(data: Any, name: str, columns: Collection[str]) -> None:
    """Refuse a column of persons that holds text and others: 7 may be the person "007".

    It is one of the `columns` that will be read.  Files have one type a column.
    """
    if is_path(data):
        return
    _check_columns(data, columns)
    column = data[name]
    if not isinstance(column, list | tuple):
        # Of categories, too, whose dtype says nothing of their types.
        whole = np.asarray(column) if hasattr(column, "to_numpy") else column
        column = np.asarray(whole, None if hasattr(whole, "dtype") else object)
    if isinstance(column, list | tuple) or column.dtype == np.dtype(object):
        kinds = set(map(type, column))
        texts = {kind for kind in kinds if issubclass(kind, str)}
        others = {
            kind for kind in kinds if issubclass(kind, numbers.Real | Decimal | datetime.date)
        }
        if texts and any(type(entry) in others and not is_null(entry) for entry in column):
            raise DataError(
                f"column {name!r}: expected ids of one type, all text or all integers; got text "
                "and others. One person could be 7 in some rows and '007' in others: store all ids "
                "as text, each person's always the same."
            )
        if kinds != texts and any(map(_is_cut, column)):
            raise DataError(
                f"column {name!r}: expected ids that are kept whole; got times with parts of a "
                "microsecond. Two persons might become one: store all ids as text."
            )


def _is_cut(entry: Any) -> bool:
    """Whether it is a time with parts of a microsecond, which no list of dates keeps."""
    if isinstance(entry, np.datetime64):
        return not np.isnat(entry) and bool(entry != entry.astype("datetime64[us]"))
    return bool(getattr(entry, "nanosecond", 0) > 0)


def _values(name: str, column: Any) -> Values:
    if isinstance(column, list | tuple) and set(map(type, column)) == {str}:
        return column
    module = type(column).__module__.partition(".")[0]
    return arrow_values(name, column) if module == "pyarrow" else plain_values(name, column)


def _common_length(columns: Mapping[str, Any]) -> int:
    lengths = {}
    for name, column in columns.items():
        try:
            if isinstance(column, str | bytes | Set | Mapping):
                raise TypeError
            lengths[name] = len(column)
        except TypeError:
            raise DataError(
                f"column {name!r}: expected a list or an array with a value for each row; got "
                f"{type(column).__name__}."
            ) from None
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns of the table must have one length; got {lengths}.")
    return next(iter(lengths.values()), 0)
