"""What goes to the screen: prose, tables, reports, progress, messages."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from dpfast._files import atomic_file
from dpfast._typing import Matrix
from dpfast._version import __version__
from dpfast.errors import DataError
from dpfast.estimators._progress import progress
from dpfast.privacy import Event, PrivacyReport
from dpfast.privacy.report import condensed, numbers

T = TypeVar("T")
Labels = NDArray[np.int64]
Scores = dict[str, float]


class SpentError(Exception):
    """An error after private data was touched."""


class UndeclaredError(Exception):
    """Predictions are written, but of values that were never declared."""


# --- results -------------------------------------------------------------------------------------


class _Console(Console):
    """A console that goes on without its reader: what was begun, a fit perhaps, is finished."""

    def on_broken_pipe(self) -> None:
        """Drop this output and all that follows, instead of ending the process."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console() -> Console:
    """Standard output, as plain text in the width of the terminal."""
    return _Console(markup=False, highlight=False, emoji=False)


def _errors() -> Console:
    """Standard error, in the same way."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def say(text: str) -> None:
    """Print prose, wrapped to the width of the terminal."""
    console().print(text)


def show_json(command: str, result: Mapping[str, Any]) -> None:
    """Print the one JSON object of a command; infinities and NaN become null."""
    document = {"dpfast": __version__, "command": command, **result}
    print(json.dumps(plain(document), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """The JSON types of a value: what has none is left out of mappings."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items() if _has_json(entry)}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def _has_json(value: Any) -> bool:
    return value is None or isinstance(
        value, str | int | float | list | tuple | Mapping | np.generic | np.ndarray
    )


def legend(entries: Iterable[tuple[str, str]]) -> None:
    """Print terms with their meanings, the meanings wrapped beside them."""
    screen = Table.grid(padding=(0, 2))
    for term, meaning in entries:
        screen.add_row(term, meaning)
    console().print(screen)


def show_report(report: PrivacyReport) -> None:
    """Print a privacy report with its table of events fitted to the terminal."""
    table_start = "  "
    say("\n".join(x for x in str(report).splitlines() if not x.startswith(table_start)))
    show_events(report.events)


def show_events(events: Sequence[Event]) -> None:
    """Print accesses to the data, equal ones together; of very many the first and the last."""
    events = condensed(events)
    screen = Table()
    for name in ("where", "mechanism"):
        screen.add_column(name)
    for name in ("count", "dimension", "sensitivity", "noise"):
        screen.add_column(name, justify="right")
    for index, event in enumerate(events):
        if len(events) > 2 * _ENDS and _ENDS <= index < len(events) - _ENDS:
            if index == _ENDS:
                screen.add_row(f"({len(events) - 2 * _ENDS:,} more)")
            continue
        cells = ("-" if number is None else f"{number:.4g}" for number in numbers(event))
        mechanism = event.mechanism.replace("_", " ")
        screen.add_row(event.where, mechanism, str(event.count), *cells)
    console().print(screen)
    legend(_COLUMNS)
    say("")


# Events that are shown from either end of very many.
_ENDS = 10
_COLUMNS = (
    ("dimension", "how many numbers an answer has"),
    ("sensitivity", "how far one record can move the exact answer"),
    ("noise", "scale of the noise that hides this"),
)


def scores(margins: Matrix, y: Labels) -> Scores:
    """Accuracy and mean log-loss of margins for labels 0 and 1."""
    return {
        "accuracy": float(np.mean((margins > 0.0) == (y == 1))),
        "log_loss": float(np.mean(np.logaddexp(0.0, np.where(y == 1, -margins, margins)))),
    }


def show_scores(title: str, results: Mapping[str, Scores]) -> None:
    """Print the scores of models by name."""
    columns = list(dict.fromkeys(name for found in results.values() for name in found))
    if all(found.get("r2") == found.get("deviance_explained") for found in results.values()):
        columns = [name for name in columns if name != "deviance_explained"]
    screen = Table(title=title, title_justify="left")
    screen.add_column("model")
    for name in columns:
        screen.add_column(name.replace("_", " ").replace("auc", "AUC"), justify="right")
    for model, found in results.items():
        # Adding zero takes the sign off what is rounded to zero.
        cells = (f"{round(found[name], 4) + 0.0:.4f}" if name in found else "" for name in columns)
        screen.add_row(model, *cells)
    console().print(screen)


def save_picture(figure: Any, path: str) -> None:
    """Write a figure in the form that the file's name ends in; an old file is lost to no error."""
    with atomic_file(path) as stream:
        figure.savefig(stream, format=path.rpartition(".")[2])


# --- progress ------------------------------------------------------------------------------------


def track(values: Sequence[T], what: str) -> Iterator[T]:
    """Go through values with a bar on standard error, if that is a terminal."""
    with progress(
        _errors(), TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    ) as bar:
        yield from bar.track(values)


@contextmanager
def reading(path: str) -> Iterator[Callable[[float], None]]:
    """A bar for reading a file; yields what to call with the share that is read.

    An error about the table has the name of its file in front.
    """
    with progress(
        _errors(),
        TextColumn("reading {task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    ) as bar:
        task = bar.add_task(Path(path).name, total=1.0)
        try:
            yield lambda share: bar.update(task, completed=share)
        except DataError as error:
            if str(error).startswith(path):
                raise
            raise DataError(f"{path}: {error}") from error


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner and a clock for work whose end nobody knows."""
    with progress(_errors(), SpinnerColumn(), TextColumn(what), TimeElapsedColumn()) as bar:
        bar.add_task(what, total=None)
        yield


# --- messages ------------------------------------------------------------------------------------


def note(text: str) -> None:
    """Print one line on standard error; a terminal gets it wrapped between words.

    Where nobody can read it, because the stream is closed, its reader has gone or its disk is full,
    what was begun goes on without it: it may have been paid for.
    """
    if sys.stderr is None:
        return
    with suppress(OSError):
        if sys.stderr.isatty():
            _errors().print(text)
        else:
            print(text, file=sys.stderr)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line, for :data:`warnings.showwarning`."""
    note(f"warning: {' '.join(str(message).split())}")


def describe(error: BaseException) -> str:
    """What an exception says, as one line."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def _same(one: Path, other: Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):  # of a file that is not there yet, too
        return True
    return one.exists() and other.exists() and one.samefile(other)


def check_writable(path: str, *inputs: str | None) -> None:
    """Refuse a result file that cannot be written, or would replace what is read for it."""
    target = Path(path)
    for given in inputs:
        if given is not None and _same(target, Path(given)):
            raise ValueError(
                f"{path} must not be written in the place of what is read, or of the account; give "
                "another name."
            )
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory; give the name of a file.")
    places = [target] if target.exists() else []
    if not target.exists() or target.is_file():
        # A new file is written beside it, or beside what a link leads to, and takes its place.
        folder = Path(os.path.realpath(target)).parent
        if not folder.is_dir():
            raise FileNotFoundError(f"cannot write {path}: there is no directory {folder}.")
        places.append(folder)
    if not all(os.access(place, os.W_OK) for place in places):
        raise PermissionError(f"cannot write {path}: permission denied.")
