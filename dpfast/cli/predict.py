"""``dpfast predict``: the rows of a table, by a model file."""

from __future__ import annotations

import argparse
import csv
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._files import PARQUET, atomic_file, atomic_writer, import_parquet
from dpfast.cli._arguments import Commands, add_json
from dpfast.cli._screen import check_writable, note, reading, show_json, track
from dpfast.errors import DpfastError
from dpfast.model_file import load_model
from dpfast.tabular import read_table

_CHUNK_ROWS = 50_000


def add(commands: Commands) -> None:
    """Add the command's parser."""
    predict = commands.add_parser(
        "predict",
        help="predict the rows of a table with a model file",
        description="Write a table with the columns 'prediction' (a class) and 'probability' "
        "(of the positive class), one row for each row of DATA, in order.",
    )
    predict.add_argument("model", metavar="MODEL.json", help="model file written by 'dpfast fit'")
    predict.add_argument("data", metavar="DATA", help="rows to predict: .csv, .csv.gz or .parquet")
    predict.add_argument(
        "-o", "--output", required=True, metavar="OUT",
        help="file to write: CSV, compressed if its name ends in .gz, or .parquet",
    )  # fmt: skip
    add_json(predict)
    predict.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, predict, write, say what was done."""
    model = load_model(arguments.model)
    check_writable(arguments.output)
    if arguments.output.endswith(PARQUET):
        import_parquet()
    with reading(arguments.data) as progress:
        columns = [feature.name for feature in model.schema.features]
        table, _ = read_table(arguments.data, columns, progress)
    try:
        probability = model.predict_proba(table)[:, 1]
    except DpfastError as error:
        raise type(error)(f"{arguments.data}: {error}") from error
    write = _write_parquet if arguments.output.endswith(PARQUET) else _write_csv
    write(arguments.output, model.label(probability), probability)
    privacy = model.privacy
    if privacy.reproducible:
        note("warning: the model's noise came from a fixed seed; do not release the model.")
    if arguments.json:
        show_json(
            "predict",
            {
                "output": arguments.output,
                "rows": len(probability),
                "target": model.schema.target,
                "classes": model.schema.classes,
                "epsilon": privacy.epsilon,
                "delta": privacy.delta,
                "neighboring_relation": privacy.neighboring_relation,
                "reproducible": privacy.reproducible,
            },
        )
        return
    note(
        f"{len(probability):,} predictions of {model.schema.target!r} written to "
        f"{arguments.output}; 'probability' is that of {model.schema.classes[1]!r}. The model was "
        f"fitted with epsilon = {privacy.epsilon:.3g}, delta = {privacy.delta:.3g} "
        f"({privacy.neighboring_relation})."
    )


def _write_csv(path: str, prediction: NDArray[Any], probability: NDArray[np.float64]) -> None:
    with atomic_writer(path) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["prediction", "probability"])
        for start in track(range(0, len(probability), _CHUNK_ROWS), "writing"):
            rows = slice(start, start + _CHUNK_ROWS)
            writer.writerows(
                zip(prediction[rows].tolist(), probability[rows].tolist(), strict=True)
            )


def _write_parquet(path: str, prediction: NDArray[Any], probability: NDArray[np.float64]) -> None:
    parquet = import_parquet()
    import pyarrow

    with atomic_file(path) as stream:
        parquet.write_table(
            pyarrow.table({"prediction": prediction.astype(object), "probability": probability}),
            stream,
        )
