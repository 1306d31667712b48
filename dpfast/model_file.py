"""Model files: one readable JSON document that holds a released model and its guarantee.

The file contains the coefficients, the public preprocessing and the privacy report with its ledger,
and nothing else about the data. Reading it checks everything and executes nothing: a checksum
notices a file that was damaged or edited, and the stated guarantee is computed again from the
ledger. Neither stops a forger, who can write a whole file that agrees with itself.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from dpfast._files import (
    atomic_writer,
    check_unchanged,
    checksum,
    is_json_number,
    parse_json,
)
from dpfast._version import __version__
from dpfast.errors import ModelFileError
from dpfast.privacy import PrivacyReport
from dpfast.tabular import Table, TableSchema

FORMAT = "dpfast-model"
VERSION = 1
TASK = "binary-classification"

_KEYS = (
    *("format", "version", "task", "dpfast_version", "schema", "coef", "intercept", "privacy"),
    "sha256",
)


@dataclass(frozen=True, eq=False)
class TabularModel:
    """A logistic model over a table.

    Parameters
    ----------
    schema : TableSchema
        Public preprocessing.
    coef : array-like of shape (len(schema.feature_names),)
    intercept : float
    privacy : PrivacyReport
        What the fit promised, with its ledger: the estimator's ``privacy_``.

    Raises
    ------
    ValueError
        If the coefficients do not match the schema or are not finite.
    """

    schema: TableSchema
    coef: NDArray[np.float64]
    intercept: float
    privacy: PrivacyReport

    def __init__(
        self, schema: TableSchema, coef: ArrayLike, intercept: float, privacy: PrivacyReport
    ) -> None:
        weights = np.array(coef, dtype=np.float64)
        expected = len(schema.feature_names)
        if weights.shape != (expected,):
            raise ValueError(
                f"coef must hold {expected} numbers, one for each encoded column of the schema; "
                f"got shape {weights.shape}."
            )
        constant = float(intercept)
        if not (np.isfinite(weights).all() and np.isfinite(constant)):
            raise ValueError("coef and intercept must be finite; got NaN or infinity.")
        weights.flags.writeable = False
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "coef", weights)
        object.__setattr__(self, "intercept", constant)
        object.__setattr__(self, "privacy", privacy)

    def decision_function(self, table: Table) -> NDArray[np.float64]:
        """Margin of each row of a table; positive favors the positive class; shape (n,)."""
        margins: NDArray[np.float64] = self.schema.transform(table) @ self.coef + self.intercept
        return margins

    def predict_proba(self, table: Table) -> NDArray[np.float64]:
        """Probability of the negative and of the positive class; shape (n, 2)."""
        margins = self.decision_function(table)
        return np.column_stack([expit(-margins), expit(margins)])

    def predict(self, table: Table) -> NDArray[np.str_]:
        """Label of the more probable class of each row; shape (n,)."""
        return self.label(self.predict_proba(table)[:, 1])

    def label(self, probability: NDArray[np.float64]) -> NDArray[np.str_]:
        """Class label for each probability of the positive class; shape (n,)."""
        return np.asarray(self.schema.classes, dtype=np.str_)[(probability > 0.5).astype(np.intp)]


def save_model(path: str | os.PathLike[str], model: TabularModel) -> None:
    """Write a model file; a file of that name is replaced only once the new one is complete.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "task": TASK,
        "dpfast_version": __version__,
        "schema": model.schema.to_dict(),
        "coef": model.coef.tolist(),
        "intercept": model.intercept,
        "privacy": json.loads(model.privacy.to_json()),
    }
    document["sha256"] = checksum(document)
    with atomic_writer(path) as stream:
        json.dump(document, stream, indent=2, allow_nan=False)
        stream.write("\n")


def load_model(path: str | os.PathLike[str]) -> TabularModel:
    """Read a model file and check all of it.

    Raises
    ------
    ModelFileError
        If the file is not a complete model of this version; the message says what is wrong.
    OSError
        If it cannot be read.
    """
    try:
        return _parse(parse_json(Path(path).read_text(encoding="utf-8")))
    except ValueError as error:
        raise ModelFileError(f"{os.fspath(path)} is not a valid dpfast model: {error}") from error


def _parse(document: Any) -> TabularModel:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(f'expected a JSON object with "format": "{FORMAT}".')
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise ModelFileError(
            f"it has version {version!r}, this dpfast reads version {VERSION}. Read it with the "
            "dpfast that wrote it, or fit the model again."
        )
    if set(document) != set(_KEYS):
        missing = sorted(set(_KEYS) - set(document))
        unknown = sorted(set(document) - set(_KEYS))
        raise ModelFileError(f"missing keys {missing}, unknown keys {unknown}.")
    if document["task"] != TASK:
        raise ModelFileError(f"task must be {TASK!r}; got {document['task']!r}.")
    if not isinstance(document["dpfast_version"], str):
        raise ModelFileError("dpfast_version must be text.")
    coef = document["coef"]
    if not isinstance(coef, list) or not all(map(is_json_number, coef)):
        raise ModelFileError("coef must be a list of numbers.")
    if not is_json_number(document["intercept"]):
        raise ModelFileError("intercept must be a number.")
    try:
        model = TabularModel(
            TableSchema.from_dict(document["schema"]),
            coef,
            document["intercept"],
            _privacy_report(document["privacy"]),
        )
    except OverflowError:
        raise ModelFileError("a number is out of the range of float64.") from None
    # Last: what can be named is named.
    check_unchanged(document)
    return model


def _privacy_report(data: Any) -> PrivacyReport:
    try:
        return PrivacyReport.from_json(json.dumps(data))
    except (TypeError, ValueError, KeyError, AttributeError, ImportError) as error:
        raise ModelFileError(f"privacy is not a privacy report: {error}") from error
