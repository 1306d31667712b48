"""``dpfast predict``: the rows of a table, by a model file."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpfast._csv_form import CsvForm
from dpfast._files import atomic_file, atomic_writer, ends_in
from dpfast._table_files import PARQUET, import_parquet
from dpfast._validation import counted
from dpfast.cli._arguments import Commands, add_json, add_scored, scored_model
from dpfast.cli._screen import UndeclaredError, check_writable, note, reading, show_json
from dpfast.tabular import (
    ClassTarget,
    EncodedRows,
    TableModel,
    Tally,
    check_threshold,
    chosen,
    default_threshold,
    output_of,
)
from dpfast.tabular.frames import form_of

Rows = dict[str, Any]


def add(commands: Commands) -> None:
    """Add the command's parser."""
    predict = commands.add_parser(
        "predict",
        help="predict the rows of a table with a model file",
        description="Write a table with one row for each row of DATA, in order: the columns of "
        "--id, 'prediction' (a class, or a number), and for two classes 'probability' (of the "
        "second one), for more of them one 'probability_CLASS' each; of a family without "
        "probabilities, 'margin'.",
    )
    add_scored(predict, "rows to predict")
    predict.add_argument(
        "-o", "--output", required=True, metavar="OUT",
        help="file to write: CSV as DATA is written, compressed if its name ends in .gz, or "
        ".parquet",
    )  # fmt: skip
    predict.add_argument(
        "--id", default="", metavar="A,B", help="columns of DATA to be written in front"
    )
    predict.add_argument(
        "--fail-on-undeclared", action="store_true",
        help="exit with code 4 if values were never declared; the predictions are written",
    )  # fmt: skip
    add_json(predict)
    predict.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, predict, write, say what was done."""
    model = scored_model(arguments)
    check_writable(arguments.output, arguments.model, arguments.data)
    if ends_in(arguments.output, PARQUET):
        import_parquet()
    if ends_in(arguments.output, (".xls", ".xlsx", ".ods")):
        raise ValueError(
            f"OUT must end in .csv, .csv.gz or .parquet; got {arguments.output!r}. Spreadsheets "
            "open the first."
        )
    form = form_of(arguments.data, model.schema_.csv)
    columns = _Columns(model, arguments.threshold)
    ids = [name.strip() for name in arguments.id.split(",") if name.strip()]
    if taken := sorted(set(ids) & set(columns.names)):
        raise ValueError(f"--id names {', '.join(taken)}, which is a column of the predictions.")
    tally = Tally()
    with reading(arguments.data) as progress, _writer(arguments.output, form) as write:
        for part in model.encoded(arguments.data, keep=ids, tally=tally, progress=progress):
            kept = {name: _decoded(column) for name, column in part.kept.items()}
            write({**kept, **columns.of(part)})
    privacy = model.privacy_
    if privacy.reproducible:
        note("warning: the model's noise came from a fixed seed; do not release the model.")
    if tally:
        note(f"warning: {tally}")
    if arguments.json:
        show_json(
            "predict",
            {
                "output": arguments.output,
                "rows": tally.rows,
                "target": model.schema_.target.name,
                "classes": columns.classes,
                "undeclared": tally.undeclared,
                "outside_range": tally.cut,
                "epsilon": privacy.epsilon,
                "delta": privacy.delta,
                "neighboring_relation": privacy.neighboring_relation,
                "reproducible": privacy.reproducible,
            },
        )
    else:
        note(
            f"{counted(tally.rows, 'prediction')} of {model.schema_.target.name!r} written to "
            f"{arguments.output}{columns.explained}. The model was fitted with epsilon = "
            f"{privacy.epsilon:.3g}, delta = {privacy.delta:.3g} "
            f"({privacy.neighboring_relation})."
        )
    if tally.undeclared and arguments.fail_on_undeclared:
        raise UndeclaredError("values were never declared, see above; the predictions are written.")


class _Columns:
    """The columns that are written for a model."""

    def __init__(self, model: TableModel, threshold: float | None) -> None:
        self._model, self._threshold = model, threshold
        target = model.schema_.target
        self.classes = list(target.classes) if isinstance(target, ClassTarget) else None
        self._probable = hasattr(model.estimator_, "predict_proba")
        shape = np.empty((0, len(self.classes or ()))) if self._probable else None
        check_threshold(threshold, shape)
        if threshold is None:
            self._threshold = default_threshold(model.estimator_)
        self.explained = ""
        self.names = ["prediction"]
        if self.classes is None:
            return
        if not self._probable:
            self.names += ["margin"] if len(self.classes) == 2 else []
        elif len(self.classes) == 2:
            self.names += ["probability"]
            self.explained = f"; 'probability' is that of {self.classes[1]!r}"
        else:
            self.names += [f"probability_{label}" for label in self.classes]

    def of(self, part: EncodedRows) -> Rows:
        """Columns of some rows."""
        output = output_of(self._model.estimator_, part.X)
        if self.classes is None:
            return {"prediction": part.totals(output)}
        if output.ndim == 2 and output.shape[1] == 2:
            output = output[:, 1]
        codes = chosen(output, self._probable, self._threshold)
        shown = list(output.T) if output.ndim == 2 else [output]
        named = zip(self.names[1:], shown, strict=False)
        return {"prediction": self._model.labels(codes), **dict(named)}


@contextmanager
def _writer(path: str, form: CsvForm) -> Iterator[Callable[[Rows], None]]:
    """What writes some rows after others; the file is there once all of them are."""
    if ends_in(path, PARQUET):
        with _parquet_writer(path) as write:
            yield write
        return
    with atomic_writer(path, form.encoding) as stream:
        writer = csv.writer(stream, delimiter=form.separator, lineterminator="\n")
        begun = False

        def write(rows: Rows) -> None:
            nonlocal begun
            if not begun:
                writer.writerow(rows)
                begun = True
            columns = [_written(_plain(column), form) for column in rows.values()]
            writer.writerows(zip(*columns, strict=True))

        yield write


@contextmanager
def _parquet_writer(path: str) -> Iterator[Callable[[Rows], None]]:
    parquet = import_parquet()
    import pyarrow

    with atomic_file(path) as stream:
        file: Any = None

        def write(rows: Rows) -> None:
            nonlocal file
            table = pyarrow.table(
                {
                    name: column if isinstance(column, pyarrow.Array) else _plain(column)
                    for name, column in rows.items()
                },
                schema=None if file is None else file.schema,
            )
            if file is None:
                file = parquet.ParquetWriter(stream, table.schema)
            file.write_table(table)

        try:
            yield write
        finally:
            if file is not None:
                file.close()


def _decoded(column: Any) -> Any:
    """A column whose values Arrow holds as codes, without these."""
    return column.dictionary_decode() if hasattr(column, "dictionary_decode") else column


def _plain(column: Any) -> list[Any]:
    """The values of a column; where one is missing in Arrow's, None."""
    found: list[Any] = column.tolist() if hasattr(column, "tolist") else list(column)
    return found


def _written(values: list[Any], form: CsvForm) -> list[Any]:
    """The same with numbers as the table has them, but for signs between groups of digits."""
    if form.decimal == ".":
        return values
    return [
        str(value).replace(".", form.decimal) if isinstance(value, float) else value
        for value in values
    ]
