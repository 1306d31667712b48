"""Strict reading of JSON, atomic writing, locks between processes."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import math
import os
import secrets
import sys
import threading
import time
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TextIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_DEEPEST = 100
# Names that an error message shows of many.
_SHOWN = 12
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def parse_json(text: str, allow_nan: bool = False) -> Any:
    """Parse JSON, refusing what the standard library lets pass.

    Repeated keys, the non-standard constants NaN and Infinity and numbers beyond float64 are
    errors: each would let two readers understand the same file differently. So is what is nested
    more than 100 deep: no file of ours is, and whatever goes through the values by recursion, to
    check or to show them, need not fear it.

    `allow_nan` takes NaN and Infinity all the same, which Python writes.

    Examples
    --------
    >>> parse_json('{"age": [17, 90]}')
    {'age': [17, 90]}
    >>> parse_json('{"age": [17, 90], "age": [0, 1]}')
    Traceback (most recent call last):
    ...
    ValueError: the key 'age' appears twice
    """
    try:
        record = json.loads(
            text,
            object_pairs_hook=_object,
            parse_float=_float,
            parse_constant=None if allow_nan else _refuse_constant,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level: list[Any] = [record] if isinstance(record, dict | list) else []
    for _ in range(_DEEPEST + 1):
        if not level:
            return record
        children = (node.values() if isinstance(node, dict) else node for node in level)
        level = [child for part in children for child in part if isinstance(child, dict | list)]
    raise ValueError("it is nested too deeply")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key!r} appears twice")
        result[key] = value
    return result


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def read_json(
    text: str,
    schema: str,
    version: int,
    names: tuple[str, ...],
    optional: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the record in `text`, which must have the stated schema, version and names."""
    try:
        record: Any = parse_json(text)
    except ValueError as error:
        raise ValueError(f"expected JSON text of schema {schema!r}; got {error}.") from error
    if not isinstance(record, dict):
        raise ValueError(f"expected a JSON object of schema {schema!r}; got {type(record)}.")
    found = record.get("schema"), record.get("version")
    if found != (schema, version):
        raise ValueError(
            f"expected JSON of schema {schema!r}, version {version}; got {found}. "
            "It was written by something else or by another version of dpfast."
        )
    missing = [name for name in names if name not in record]
    if missing:
        raise ValueError(f"the JSON of schema {schema!r} lacks {missing}.")
    unknown = sorted(set(record).difference(names, optional, ("schema", "version")))
    if unknown:
        raise ValueError(f"the JSON of schema {schema!r} has unknown names {unknown}.")
    return record


def checksum(record: Any) -> str:
    """Return the SHA-256 of values of JSON, whatever the order of keys and the spaces between.

    It notices files that were damaged or edited. It is no signature: whoever can write a file can
    also write the checksum that goes with it.

    Examples
    --------
    >>> checksum({"a": 1, "b": 2}) == checksum({"b": 2, "a": 1}) != checksum({"a": 1, "b": 3})
    True
    """
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def check_unchanged(record: dict[str, Any]) -> None:
    """Refuse a record of JSON whose "sha256" is not the checksum of the rest (ValueError)."""
    rest = {name: value for name, value in record.items() if name != "sha256"}
    if record.get("sha256") != checksum(rest):
        raise ValueError(
            "its checksum does not match: it was changed or damaged after it was written."
        )


def is_json_number(value: Any) -> bool:
    """Whether a parsed value is a number (true and false are not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` only if the block succeeds.

    The bytes go to a temporary file in the same directory, which is renamed at the end; whoever
    reads `path` meanwhile sees the old file or the new one, never half of one. On any exception,
    Ctrl-C included, the temporary file is removed and `path` is as it was. Devices and pipes
    (``/dev/stdout``) cannot be replaced and are written directly.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory; give the name of a file")
    if not target.resolve().parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no directory {target.parent}.")
    if target.exists() and not target.is_file():
        with open(target, "wb") as stream:
            yield stream
        return
    # A link is followed, so that the file it points to is replaced and not the link.
    target = target.resolve()
    # Fifty characters are at most two hundred bytes: a name may have 255 of them.
    temporary = target.with_name(f".{target.name[:50]}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # What writes to a full disk does not say where.
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            error.filename = str(target)
        raise
    _sync_directory(target.parent)


def _sync_directory(path: Path) -> None:
    """Write a directory to disk, so that a renamed file is there after a power failure too."""
    if sys.platform == "win32":
        return
    # Not every file system can, and not every directory may be opened.
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def atomic_writer(path: str | os.PathLike[str], encoding: str = "utf-8") -> Iterator[TextIO]:
    """Open a text file like :func:`atomic_file`; a name ending in ``.gz`` is compressed."""
    with atomic_file(path) as raw:
        if ends_in(path, (".gz",)):
            # No time of writing in the file: the same text gives the same bytes.
            with (
                gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
                io.TextIOWrapper(packed, encoding=encoding, newline="") as stream,
            ):
                yield stream
            return
        text = io.TextIOWrapper(raw, encoding=encoding, newline="")
        try:
            yield text
            text.flush()
        finally:
            text.detach()  # the file is closed by its own block


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a UTF-8 file, as :func:`atomic_writer` wrote it.

    A ValueError if it is none, or no complete gzip file though its name ends in ``.gz``.
    """
    content = Path(path).read_bytes()
    if ends_in(path, (".gz",)):
        try:
            content = gzip.decompress(content)
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise ValueError("it is not a complete gzip file.") from None
    return content.decode("utf-8-sig")


def open_lock(path: str | os.PathLike[str]) -> io.FileIO:
    """Open the lock file of `path`, which is `path` + ".lock" and stays there.

    Deleting it lets two hold the lock, which :func:`is_lock_of` notices. Closing it frees the lock,
    and so does the operating system when the holder dies; a forked child that inherits it should
    close it.
    """
    return open(lock_name(path), "r+b", buffering=0, opener=_open_or_create)


def lock_name(path: str | os.PathLike[str]) -> str:
    """The name of the lock file of `path`."""
    return f"{os.fspath(path)}.lock"


def _open_or_create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o666)


def is_lock_of(lock: io.FileIO, path: str | os.PathLike[str]) -> bool:
    """Whether an open file is still the lock file of `path`: it was not deleted or replaced."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), os.stat(lock_name(path)))
    except FileNotFoundError:
        return False


if sys.platform == "win32":

    def wait_for_lock(lock: io.FileIO) -> None:
        """Hold an open lock file against other processes and other open files of this one."""
        while True:
            try:
                lock.seek(0)
                msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
                return
            except OSError:
                time.sleep(0.01)

    def try_lock(lock: io.FileIO) -> bool:
        """Hold an open lock file, unless somebody else does."""
        try:
            lock.seek(0)
            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:

    def wait_for_lock(lock: io.FileIO) -> None:
        """Hold an open lock file against other processes and other open files of this one."""
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX)

    def try_lock(lock: io.FileIO) -> bool:
        """Hold an open lock file, unless somebody else does."""
        try:
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


_forks = 0
_LOCKED: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock(owner: Any) -> threading.Lock:
    """Return a lock for ``owner._lock``, which gets another one in a forked child.

    There a thread that held it would never free it.
    """
    _LOCKED.add(owner)
    return threading.Lock()


def _after_fork_in_child() -> None:
    global _forks
    _forks += 1
    for owner in list(_LOCKED):
        owner._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def this_process() -> tuple[int, int]:
    """Return what tells this process from those it was forked from and from its forked children.

    Its number alone may be given out again to a child of a child; so the forks on the way here are
    counted, too.
    """
    return os.getpid(), _forks


def ends_in(path: str | os.PathLike[str], endings: tuple[str, ...]) -> bool:
    """Whether the name of a file has one of these endings, in capital or small letters."""
    return os.fspath(path).lower().endswith(endings)


def show_names(names: Sequence[str]) -> str:
    """The names in quotes, cut short, for an error message."""
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
