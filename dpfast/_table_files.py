"""Strict reading of CSV and Parquet files: text as it stands, a block of rows at a time."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import json
import os
import re
import stat
import zlib
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, BinaryIO, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from dpfast._csv_form import SEPARATORS, USUAL_FORM, CsvForm
from dpfast._files import ends_in, show_names
from dpfast._validation import counted, did_you_mean
from dpfast.errors import DataError

_CHUNK_ROWS = 50_000
# Text of a CSV file that PyArrow is given at once.
_TEXT_BYTES = 2**20

Progress = Callable[[float], None]
"""Called with the share of a file that was read, between 0 and 1."""

PARQUET = (".parquet", ".pq")
"""Endings of the names of Parquet files."""

NO_TEXT = "texts must be UTF-8; got other bytes in at least one row. Write the column anew."
"""What is wrong with a column that says it holds text."""

NOT_SHOWN = "not shown: they are a record if the file has no names"
"""Of what stands where names of columns should."""


def import_parquet() -> Any:
    """The module ``pyarrow.parquet``."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            "Parquet files need pyarrow; install it with `pip install 'dpfast[parquet]'`."
        ) from error
    return parquet


def table_header(path: str | os.PathLike[str], form: CsvForm = USUAL_FORM) -> list[str]:
    """Names of the columns of a CSV or Parquet file."""
    if ends_in(path, PARQUET):
        with _parquet_file(path) as file:
            return list(file.schema_arrow.names)
    with _csv_rows(path, form) as (reader, _):
        return _csv_header(path, reader)


def table_chunks(
    path: str | os.PathLike[str],
    columns: Sequence[str],
    progress: Progress | None = None,
    rows: int = _CHUNK_ROWS,
    *,
    arrow: bool = False,
    form: CsvForm = USUAL_FORM,
) -> Iterator[dict[str, Any]]:
    """Columns of a CSV or, by the name's ending, of a Parquet file, so many rows at a time.

    A CSV file has double quotes around fields that need them; the first line names the columns, or
    the second if the first tells Excel what separates fields (``sep=;``); a name ending in ``.gz``
    is decompressed, blank lines are skipped.

    Parameters
    ----------
    path : path-like
    columns : sequence of str
        Columns to return; nested ones of Parquet cannot be.
    progress : callable, optional
        Called with the share that was read, now and then.
    rows : int
    arrow : bool, default=False
        Where the plain text of a CSV file allows it, columns are Arrow dictionaries of text, which
        are much faster to read, in chunks of a megabyte; needs pyarrow.
    form : CsvForm, optional
        What separates fields, and the encoding; by default commas and UTF-8. Numbers stay text.

    Yields
    ------
    dict of str to tuple of str, or to pyarrow.Array
        In the order of `columns`.

    Raises
    ------
    DataError
        If columns are missing or repeated, a line of CSV has another number of fields than the
        header, the file has no rows, or it is neither CSV of that form nor Parquet.
    ImportError
        If pyarrow is needed and not installed.
    OSError
        If the file cannot be read.
    """
    chunks: Iterator[dict[str, Any]]
    if ends_in(path, PARQUET):
        chunks = _parquet_chunks(path, columns, progress, rows)
    elif arrow:
        chunks = _fast_csv_chunks(path, columns, progress, rows, form)
    else:
        chunks = _csv_chunks(path, columns, progress, rows, form)
    found = False
    for chunk in chunks:
        found = True
        yield chunk
    if not found:
        raise DataError(f"{os.fspath(path)} has columns but no rows.")


def _parquet_chunks(
    path: str | os.PathLike[str], columns: Sequence[str], progress: Progress | None, rows: int
) -> Iterator[dict[str, Any]]:
    with _parquet_file(path) as file:
        _check_header(path, list(file.schema_arrow.names), columns, USUAL_FORM)
        read, total = 0, max(1, file.metadata.num_rows)
        for batch in file.iter_batches(rows, columns=list(columns)):
            if not batch.num_rows:
                continue
            yield {name: batch.column(name) for name in columns}
            read += batch.num_rows
            if progress is not None:
                progress(read / total)


@contextmanager
def _parquet_file(path: str | os.PathLike[str]) -> Iterator[Any]:
    """An open Parquet file; whatever is wrong with its form becomes a DataError."""
    parquet = import_parquet()
    import pyarrow

    name = _reread(path)
    with open(path, "rb") as stream:
        try:
            yield parquet.ParquetFile(stream)
        except pyarrow.ArrowNotImplementedError as error:
            raise DataError(
                f"{name} has a column that is neither numbers nor text: {error}."
            ) from error
        except (pyarrow.ArrowInvalid, KeyError) as error:
            raise DataError(f"{name} is not a complete Parquet file: {error}.") from error


def _reread(path: str | os.PathLike[str]) -> str:
    """The name of a file that can be read more than once, as tables are."""
    name = os.fspath(path)
    kind = os.stat(path).st_mode
    if stat.S_ISDIR(kind):
        raise DataError(
            f"{name} must be one file; got a directory. In Python TableModel takes a directory of "
            "Parquet files as pyarrow.dataset.dataset(directory).to_table()."
        )
    if not stat.S_ISREG(kind):
        raise DataError(
            f"{name} must be a file, which can be read more than once; got a pipe or a device. "
            "Write its rows to a file first."
        )
    return name


def _csv_chunks(
    path: str | os.PathLike[str],
    columns: Sequence[str],
    progress: Progress | None,
    rows: int,
    form: CsvForm,
    skip: int = 0,
) -> Iterator[dict[str, Any]]:
    """Rows of a CSV file, without the first `skip`."""
    with _csv_rows(path, form) as (reader, share):
        header = _csv_header(path, reader)
        _check_header(path, header, columns, form)
        positions = [header.index(name) for name in columns]
        start = 0
        while skip:
            skip -= bool(next(reader))
            start += 1
        while lines := list(itertools.islice(reader, rows)):
            widths = set(map(len, lines)) - {0, len(header)}
            if widths:
                index = next(i for i, line in enumerate(lines) if len(line) in widths)
                _refuse_row(path, start + index, len(lines[index]), len(header), form)
            start += len(lines)
            if fields := list(zip(*filter(None, lines), strict=True)):
                yield {name: fields[j] for name, j in zip(columns, positions, strict=True)}
            if progress is not None:
                progress(share())


def _fast_csv_chunks(
    path: str | os.PathLike[str],
    columns: Sequence[str],
    progress: Progress | None,
    rows: int,
    form: CsvForm,
) -> Iterator[dict[str, Any]]:
    """The same rows, as long as the text is plain through PyArrow."""
    _check_header(path, table_header(path, form), columns, form)
    read, chunks = 0, _plain_csv_chunks(path, columns, progress, form)
    while True:
        try:
            chunk = next(chunks)
        except StopIteration as end:
            if end.value:
                return
            break
        if rows_found := len(chunk[columns[0]]):
            read += rows_found
            yield chunk
    # What is left has quotes, spaces or errors, which one reader alone knows.
    yield from _csv_chunks(path, columns, progress, rows, form, skip=read)


def _plain_csv_chunks(
    path: str | os.PathLike[str],
    columns: Sequence[str],
    progress: Progress | None,
    form: CsvForm,
) -> Generator[dict[str, Any], None, bool]:
    """The rows before text that PyArrow could read otherwise; returns whether those are all."""
    if find_spec("pyarrow") is None or not form.utf8:
        return False
    separator = form.separator
    with open(path, "rb") as raw, suppress(gzip.BadGzipFile, EOFError, zlib.error):
        size = os.fstat(raw.fileno()).st_size
        stream = gzip.GzipFile(fileobj=raw) if ends_in(path, (".gz",)) else raw
        line = stream.readline().removeprefix(b"\xef\xbb\xbf")
        if line.rstrip() == f"sep={separator}".encode().rstrip():
            line = stream.readline()
        if not size or not line.strip() or not _is_plain(line, separator):
            return False
        header = [name.strip() for name in line.decode().rstrip("\r\n").split(separator)]
        rest = b""
        while text := stream.read(_TEXT_BYTES):
            text = rest + text
            end = text.rfind(b"\n") + 1
            text, rest = text[:end], text[end:]
            chunk = _plain_chunk(text, header, columns, separator)
            if len(rest) > _TEXT_BYTES or chunk is None:
                return False
            yield chunk
            if progress is not None:
                progress(raw.tell() / size)
        if rest:
            if (chunk := _plain_chunk(rest, header, columns, separator)) is None:
                return False
            yield chunk
        return True
    return False


def _is_plain(text: bytes, separator: str) -> bool:
    """Whether fields are what stands between separators, and rows what stands between lines."""
    return (
        b'"' not in text
        and f"{separator} ".encode() not in text
        and b"\n " not in text
        and not text.startswith((b" ", b"\xef\xbb\xbf"))  # PyArrow would take a mark for none
        and (b"\r" not in text or text.count(b"\r") == text.count(b"\r\n"))
    )


def _plain_chunk(
    text: bytes, header: Sequence[str], columns: Sequence[str], separator: str
) -> dict[str, Any] | None:
    """Columns of some lines of text; None if it is not plain, or not as the header says."""
    import pyarrow
    from pyarrow import csv

    if not _is_plain(text, separator):
        return None
    wanted = [str(header.index(name)) for name in columns]
    kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    names = list(map(str, range(len(header))))
    try:
        text.decode()
        table = csv.read_csv(
            pyarrow.py_buffer(text),
            csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
            csv.ParseOptions(delimiter=separator, quote_char=False),
            csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, kind),
                strings_can_be_null=False,
            ),
            # The default one keeps what was freed.
            pyarrow.system_memory_pool(),
        )
    except (pyarrow.ArrowInvalid, UnicodeDecodeError):
        return None
    return {
        name: table.column(number).combine_chunks()
        for name, number in zip(columns, wanted, strict=True)
    }


def _csv_header(path: str | os.PathLike[str], reader: Any) -> list[str]:
    """The names, after the line that tells Excel what separates fields, if there is one."""
    lines = filter(None, reader)
    header = [name.strip() for name in next(lines, [])]
    if header == ["sep=", ""]:  # a line "sep=;", divided at the semicolon
        header = [name.strip() for name in next(lines, [])]
    elif len(header) == 1 and (line := re.fullmatch("sep=(.?)", header[0])):
        sign = line[1] or "\t"  # of which nothing is left
        raise DataError(
            f"{os.fspath(path)} begins with {'sep=' + sign!r}, which tells Excel what separates "
            f"fields. {_declare(sign)}"
        )
    if not any(header):
        raise DataError(f"{os.fspath(path)} is empty; expected a line of column names.")
    return header


def read_csv(path: str | os.PathLike[str], columns: Sequence[str]) -> dict[str, NDArray[np.str_]]:
    """Columns of a CSV file as text without the spaces around it, see :func:`table_chunks`."""
    chunks = list(table_chunks(path, columns))
    return {
        name: np.strings.strip(np.concatenate([np.array(chunk[name]) for chunk in chunks]))
        for name in columns
    }


@contextmanager
def _csv_rows(
    path: str | os.PathLike[str], form: CsvForm
) -> Iterator[tuple[Any, Callable[[], float]]]:
    """A csv reader over the file, and a function for the share of the file that was read.

    Whatever is wrong with its form becomes a DataError.
    """
    name = _reread(path)
    with open(path, "rb") as raw:
        size = os.fstat(raw.fileno()).st_size
        packed = ends_in(name, (".gz",))
        if not packed:
            _refuse_binary(name, raw, form)
        plain = gzip.GzipFile(fileobj=raw, mode="rb") if packed else raw
        encoding = "utf-8-sig" if form.utf8 else form.encoding
        stream = io.TextIOWrapper(cast(BinaryIO, plain), encoding=encoding, newline="")
        reader = csv.reader(stream, delimiter=form.separator, strict=True, skipinitialspace=True)
        try:
            yield reader, lambda: raw.tell() / size if size else 0.0
        except csv.Error as error:
            raise DataError(
                f"{name}, line {reader.line_num}: {error}. A field that begins with a double quote "
                'ends with one, and holds others doubled: "6"" wide".'
            ) from error
        except UnicodeError:
            raise DataError(
                f"{name} is not {form.encoding.upper()} text. Save it as that, or give --encoding, "
                'or "encoding" in the bounds: cp1252 is what Windows writes as plain CSV, utf-16 '
                "what it calls Unicode text, utf-8 what most other programs write."
            ) from None  # the cause quotes a byte
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{name} is not a complete gzip file.") from error


# How files that are no text begin, which no name of a column does.
_BINARY = {
    b"PK\x03\x04": "an Excel workbook or another zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"PAR1\x15": "a Parquet file, whose name should end in .parquet",
    b"ARROW1\x00": "an Arrow file",
    b"\x1f\x8b": "a gzip file, whose name should end in .gz",
    b"BZh91AY&": "a bzip2 file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
}


# How text begins that says its encoding.
_MARKS = {
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe\x00\x00": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}


def _refuse_binary(name: str, file: BinaryIO, form: CsvForm) -> None:
    """Refuse an open file that begins as no text does, or as text of another encoding."""
    start = file.read(8)
    file.seek(0)
    for sign, kind in _BINARY.items():
        if start.startswith(sign):
            raise DataError(
                f"{name} must be a CSV or Parquet file; it is {kind}. Save it as one, or pass a "
                "data frame to dpfast.TableModel."
            )
    declared = codecs.lookup(form.encoding).name
    marked = next((name for sign, name in _MARKS.items() if start.startswith(sign)), declared)
    if not declared.startswith(marked):
        raise DataError(
            f"{name} is {marked.upper()} text, not {declared.upper()}. Give --encoding {marked}, "
            f'or "encoding": "{marked}" in the bounds.'
        )


def _check_header(
    path: str | os.PathLike[str], header: list[str], columns: Collection[str], form: CsvForm
) -> None:
    name, hint = os.fspath(path), "Names must stand in the first line, and match exactly."
    words = [word for field in header for word in re.split("[,;|\t]", field)]
    named = are_names(words, columns)
    fields = counted(len(header), "field")
    found = f"The first line has {fields}, not shown since it could be a record."
    if named:
        found = f"The file has: {show_names(header)}."
    if missing := [column for column in columns if column not in header]:
        hint += did_you_mean(missing[0], header if named else ())
        if signs := [sign for sign in SEPARATORS if _separates(sign, header, columns, form)]:
            hint = (
                f"{SEPARATORS[form.separator].capitalize()} must separate names; there are "
                f"{SEPARATORS[signs[0]]}. {_declare(signs[0])}"
            )
        # Nor is shown which of them are values of what could be a record.
        lacks = show_columns(missing if named else list(columns))
        raise DataError(f"{name} lacks {lacks}. {found} {hint}")
    if repeated := [column for column in columns if header.count(column) > 1]:
        raise DataError(f"{name} names {show_columns(repeated)} more than once. {found}")


def _declare(separator: str) -> str:
    return (
        f'Declare "separator": {json.dumps(separator)} in the bounds, or give --separator, and '
        'with it "decimal" if numbers look like 1234,5.'
    )


def _separates(sign: str, header: list[str], columns: Collection[str], form: CsvForm) -> bool:
    """Whether another sign than the declared one seems to stand between the names."""
    line = form.separator.join(header)
    names = map(str.strip, line.split(sign))
    return (
        sign != form.separator
        and sign in line
        and (len(header) == 1 or not set(columns).isdisjoint(names))
    )


def _refuse_row(
    path: str | os.PathLike[str], index: int, width: int, expected: int, form: CsvForm
) -> NoReturn:
    # Quoted line breaks make the line differ from the row; only a second reading knows it.
    with _csv_rows(path, form) as (reader, _):
        _csv_header(path, reader)
        deque(itertools.islice(reader, index + 1), maxlen=0)
        line = reader.line_num
    raise DataError(
        f"{os.fspath(path)}, line {line}: {counted(width, 'field')} where the header has "
        f"{expected}. Put values that contain {SEPARATORS[form.separator]} in double quotes: "
        f'"a{form.separator} b".'
    )


def are_names(found: Collection[str], wanted: Collection[str]) -> bool:
    """Whether half of several columns that are wanted are among what stands where names should.

    Otherwise, or if the rest holds a number, it could be a record, in which a value happens to be
    called like a column, and is not to be shown.
    """
    words, names = ({str(name).strip().casefold() for name in of} for of in (found, wanted))
    several = len(names) > 1 and 2 * len(words & names) >= len(names)
    return several and not any(map(is_number, words - names))


def is_number(text: str) -> bool:
    """Whether a text is a number, as Python writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def show_columns(names: Sequence[str]) -> str:
    """The names of columns, after what they are."""
    return f"the column{'s' * (len(names) > 1)} {show_names(names)}"
