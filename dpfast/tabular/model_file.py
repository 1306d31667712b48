"""Model files: one readable JSON document that holds a released model and its guarantee.

The file contains the coefficients, with their standard errors if the fit released them, what
predicted numbers are kept in, and what a later fit needs to begin with the coefficients; the
declaration of the columns; the privacy report with its ledger; and nothing else about the data.
Reading it checks everything and executes nothing: a checksum notices a file that was damaged or
edited, and the stated guarantee is computed again from the ledger. Neither stops a forger, who can
write a whole file that agrees with itself.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._files import (
    atomic_writer,
    check_unchanged,
    checksum,
    is_json_number,
    parse_json,
    read_text,
)
from dpfast._version import __version__
from dpfast.errors import DataError, ModelFileError
from dpfast.inference import Estimates
from dpfast.privacy import PrivacyReport
from dpfast.tabular.families import (
    FAMILIES,
    family_of,
    own_parameters,
    parameters_of,
    task_of,
    unfitted,
)
from dpfast.tabular.schema import TableSchema
from dpfast.tabular.targets import ClassTarget, RangeTarget, Target

FORMAT = "dpfast-model"
VERSION = 2

_KEYS = (
    *("format", "version", "dpfast_version", "family", "parameters", "classes_together"),
    *("schema", "coef", "intercept", "privacy", "sha256"),
)
_ERRORS, _PRIOR = "standard_errors", "as_prior"
_RANGES, _KEPT = "column_ranges", "prediction_range"
# Programs that write JSON anew may sort its keys, and coefficients have the columns' places alone.
_ORDER = "column_order"
_OPTIONAL = {_ERRORS, _PRIOR, _RANGES, _KEPT, _ORDER}


class StandardErrors(NamedTuple):
    """What a fit with standard errors has besides its coefficients.

    `facts` are what stands above the table of the coefficients.
    """

    estimates: Estimates
    facts: tuple[tuple[str, str], ...]


class Accuracy(NamedTuple):
    """How well a fit knows its coefficients, for later ones that begin with them.

    Both follow from what was released and from public quantities alone: the covariance from the
    noise, the learned coordinates and the coefficients, the rows from the plan.  So a file may hold
    them; the data were not looked at for them.

    `covariance` is of the coefficients, with the intercept last if there is one.
    """

    covariance: NDArray[np.float64]
    rows_per_weight: float


@dataclass(frozen=True, eq=False)
class StoredModel:
    """What a model file holds.

    Parameters
    ----------
    schema : TableSchema
    family : str
    parameters : dict
        Of the estimator, where they are not its defaults.
    coef : array-like of shape (k, n_columns)
        One row for two classes or a number, one for each of more classes.
    intercept : array-like of shape (k,)
    classes_together : bool
        Whether more than two classes were learned by one loss, so that probabilities are a softmax.
    privacy : PrivacyReport
        What the fit promised, with its ledger.
    errors : StandardErrors or None, default=None
    accuracy : Accuracy or None, default=None
    column_ranges : array-like of shape (2, n_columns) or None, default=None
        Lowest and highest entry of each encoded column that the coefficients are meant for, as far
        as the fit's releases told them; infinite where not.
    prediction_range : tuple of two floats or None, default=None
        What predicted numbers are kept in; None is the range of the targets, as in files of earlier
        versions.
    """

    schema: TableSchema
    family: str
    parameters: dict[str, Any]
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    classes_together: bool
    privacy: PrivacyReport
    errors: StandardErrors | None
    accuracy: Accuracy | None
    column_ranges: NDArray[np.float64] | None
    prediction_range: tuple[float, float] | None

    def __init__(
        self,
        schema: TableSchema,
        family: str,
        parameters: dict[str, Any],
        coef: ArrayLike,
        intercept: ArrayLike,
        classes_together: bool,
        privacy: PrivacyReport,
        errors: StandardErrors | None = None,
        accuracy: Accuracy | None = None,
        column_ranges: ArrayLike | None = None,
        prediction_range: tuple[float, float] | None = None,
    ) -> None:
        target = schema.target
        rows = len(target.classes) if isinstance(target, ClassTarget) else 1
        expected = (1 if rows == 2 else rows, len(schema.feature_names))
        weights = np.array(coef, dtype=np.float64)
        constants = np.array(intercept, dtype=np.float64)
        if weights.shape != expected:
            raise ValueError(
                f"coef must have shape {expected}, a column for each encoded column of the schema; "
                f"got {weights.shape}."
            )
        if constants.shape != expected[:1]:
            raise ValueError(f"intercept must have shape {expected[:1]}; got {constants.shape}.")
        if not (np.isfinite(weights).all() and np.isfinite(constants).all()):
            raise ValueError("coef and intercept must be finite; got NaN or infinity.")
        ends = None if column_ranges is None else np.array(column_ranges, dtype=np.float64)
        if ends is not None and not (ends.shape == (2, expected[1]) and (ends[0] <= ends[1]).all()):
            raise ValueError(
                "column_ranges must be the lowest and highest entries of "
                f"{expected[1]} columns, the lower one first."
            )
        for array in (weights, constants, *(() if ends is None else (ends,))):
            array.flags.writeable = False
        self.__dict__.update(
            schema=schema,
            family=family,
            parameters=parameters,
            coef=weights,
            intercept=constants,
            classes_together=classes_together,
            privacy=privacy,
            errors=errors,
            accuracy=accuracy,
            column_ranges=ends,
            prediction_range=prediction_range,
        )


def stored(estimator: Any, schema: TableSchema, report: PrivacyReport) -> StoredModel:
    """What a file holds of a fitted estimator."""
    found = vars(estimator).get("_estimates")
    covariance = vars(estimator).get("_covariance")
    return StoredModel(
        schema,
        family_of(estimator),
        own_parameters(estimator),
        np.atleast_2d(estimator.coef_),
        np.atleast_1d(estimator.intercept_),
        bool(getattr(estimator, "_softmax", False)),
        report,
        None if found is None else StandardErrors(found, estimator._facts),
        Accuracy(covariance, estimator._known_rows) if _is_definite(covariance) else None,
        vars(estimator).get("column_ranges_"),
        vars(estimator).get("prediction_range_"),
    )


def _is_definite(covariance: NDArray[np.float64] | None) -> bool:
    """Whether there is a covariance, and it is positive definite for all that rounding did."""
    if covariance is None or not np.isfinite(covariance).all():
        return False
    try:
        np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return False
    return True


def write_model(path: str | os.PathLike[str], model: StoredModel) -> None:
    """Write a model file; a file of that name is replaced only once the new one is complete."""
    schema = model.schema.to_dict()
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "dpfast_version": __version__,
        "family": model.family,
        "parameters": model.parameters,
        "classes_together": model.classes_together,
        "schema": schema,
        _ORDER: list(schema["columns"]),
        "coef": model.coef.tolist(),
        "intercept": model.intercept.tolist(),
        **_written(model.errors),
        **_written_accuracy(model.accuracy),
        **_written_ranges(model.column_ranges),
        **({} if model.prediction_range is None else {_KEPT: list(model.prediction_range)}),
        "privacy": json.loads(model.privacy.to_json()),
    }
    document["sha256"] = checksum(document)
    with atomic_writer(path) as stream:
        json.dump(document, stream, indent=2, allow_nan=False)
        stream.write("\n")


def _written(errors: StandardErrors | None) -> dict[str, Any]:
    if errors is None:
        return {}
    facts = [list(fact) for fact in errors.facts]
    return {_ERRORS: {"facts": facts, **errors.estimates.to_dict()}}


def _written_accuracy(accuracy: Accuracy | None) -> dict[str, Any]:
    """The lower triangle, row by row: doubles of 8 bytes, little end first, in base64."""
    if accuracy is None:
        return {}
    numbers = accuracy.covariance[np.tril_indices(len(accuracy.covariance))].astype("<f8")
    text = base64.b64encode(numbers.tobytes()).decode("ascii")
    return {_PRIOR: {"rows_per_weight": accuracy.rows_per_weight, "covariance": text}}


def _written_ranges(ranges: NDArray[np.float64] | None) -> dict[str, Any]:
    """For each encoded column its ends, or null."""
    if ranges is None:
        return {}
    return {_RANGES: [ends if np.isfinite(ends).all() else None for ends in ranges.T.tolist()]}


_WRITTEN = (
    f'expected what \'dpfast fit\' or TableModel.save writes: JSON with "format": "{FORMAT}".'
)


def read_model(path: str | os.PathLike[str]) -> StoredModel:
    """Read a model file and check all of it.

    A ModelFileError says what is wrong.
    """
    try:
        text = read_text(path)
        if not text.lstrip().startswith("{"):
            raise ModelFileError(_WRITTEN)
        return _parse(parse_json(text))
    except ValueError as error:
        raise ModelFileError(f"{os.fspath(path)} is not a valid dpfast model: {error}") from error


def _parse(document: Any) -> StoredModel:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(_WRITTEN)
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise ModelFileError(
            f"it has version {version!r}, this dpfast reads version {VERSION}. Read it with the "
            f"dpfast that wrote it, {document.get('dpfast_version')!r:.30}, or fit the model again."
        )
    if set(document) - _OPTIONAL != set(_KEYS):
        missing = sorted(set(_KEYS) - set(document))
        unknown = sorted(set(document) - {*_KEYS, *_OPTIONAL})
        raise ModelFileError(f"missing keys {missing}, unknown keys {unknown}.")
    if not isinstance(document["dpfast_version"], str):
        raise ModelFileError("dpfast_version must be text.")
    if not isinstance(document["classes_together"], bool):
        raise ModelFileError("classes_together must be true or false.")
    schema = _schema(document["schema"], document.get(_ORDER))
    try:
        model = StoredModel(
            schema,
            _family(document["family"], schema),
            _parameters(document["family"], document["parameters"]),
            _numbers("coef", document["coef"], 2),
            _numbers("intercept", document["intercept"], 1),
            document["classes_together"],
            _privacy_report(document["privacy"]),
        )
        if _ERRORS in document:
            model = replace(model, errors=_errors(document[_ERRORS], model))
        if _PRIOR in document:
            model = replace(model, accuracy=_accuracy(document[_PRIOR], model))
        if _RANGES in document:
            model = replace(model, column_ranges=_ranges(document[_RANGES], model))
        if _KEPT in document:
            model = replace(model, prediction_range=_kept(document[_KEPT], schema.target))
    except OverflowError:
        raise ModelFileError("a number is out of the range of float64.") from None
    # Last: what can be named is named.
    check_unchanged(document)
    return model


def _schema(data: Any, order: Any) -> TableSchema:
    """The schema, with its columns in this order; files of earlier versions do not have it."""
    if not isinstance(data, dict) or not isinstance(data.get("columns"), dict):
        raise ModelFileError('schema must be an object with "columns".')
    if order is not None:
        texts = isinstance(order, list) and all(isinstance(name, str) for name in order)
        if not texts or sorted(order) != sorted(data["columns"]):
            raise ModelFileError(f"{_ORDER} must list the columns of the schema.")
        data = {**data, "columns": {name: data["columns"][name] for name in order}}
    try:
        schema = TableSchema.from_bounds(data)
    except DataError as error:
        raise ModelFileError(f"schema: {error}") from error
    if schema.to_dict() != data:
        raise ModelFileError("schema is not as a fit writes it.")
    return schema


def _family(name: Any, schema: TableSchema) -> str:
    if not isinstance(name, str) or name not in FAMILIES:
        raise ModelFileError(f"family must be one of {', '.join(FAMILIES)}; got {name!r:.60}.")
    if task_of(name) != schema.task:
        raise ModelFileError(f"family {name!r} does not suit the target, of {schema.task}.")
    return name


def _parameters(family: str, data: Any) -> dict[str, Any]:
    known = parameters_of(FAMILIES[family]())
    if not isinstance(data, dict) or not set(data) <= known:
        raise ModelFileError(f"parameters must be an object with keys among {sorted(known)}.")
    return data


def _numbers(name: str, data: Any, depth: int) -> Any:
    """Nested lists of numbers."""
    if not isinstance(data, list):
        raise ModelFileError(f"{name} must be a list{' of lists' * (depth > 1)} of numbers.")
    if depth > 1:
        return [_numbers(name, row, depth - 1) for row in data]
    if not all(map(is_json_number, data)):
        raise ModelFileError(f"{name} must hold numbers.")
    return [float(value) for value in data]


def _errors(data: Any, model: StoredModel) -> StandardErrors:
    """The standard errors of the coefficients that were read."""
    facts = data.get("facts") if isinstance(data, dict) else None
    if len(model.coef) > 1 or not isinstance(facts, list) or not all(map(_is_fact, facts)):
        raise ModelFileError(
            f"{_ERRORS} must be an object with facts, of one coefficient a column."
        )
    names, coefficients = model.schema.feature_names, model.coef[0]
    if model.parameters.get("fit_intercept", True):
        names, coefficients = [*names, "Intercept"], np.append(coefficients, model.intercept)
    rest = {key: value for key, value in data.items() if key != "facts"}
    try:
        found = Estimates.from_dict(rest, names, coefficients)
    except ValueError as error:
        raise ModelFileError(f"{_ERRORS}: {error}") from error
    return StandardErrors(found, tuple((str(name), str(fact)) for name, fact in facts))


def _accuracy(data: Any, model: StoredModel) -> Accuracy:
    """How well the coefficients that were read are known."""
    if not isinstance(data, dict) or set(data) != {"rows_per_weight", "covariance"}:
        raise ModelFileError(f"{_PRIOR} must be an object with rows_per_weight and covariance.")
    rows, text = data["rows_per_weight"], data["covariance"]
    if not is_json_number(rows) or rows < 0:
        raise ModelFileError(f"rows_per_weight of {_PRIOR} must be a number from 0.")
    dim = model.coef.shape[1] + bool(model.parameters.get("fit_intercept", True))
    lower = np.zeros((dim, dim))
    try:
        numbers = np.frombuffer(base64.b64decode(text, validate=True), "<f8")
        sound = 2 * len(numbers) == dim * (dim + 1)
        lower[np.tril_indices(dim)] = numbers
    except (TypeError, ValueError):  # binascii's errors are such
        sound = False
    covariance = lower + np.tril(lower, -1).T
    if not sound or not _is_definite(covariance) or len(model.coef) > 1:
        raise ModelFileError(
            f"covariance of {_PRIOR} must be the lower triangle of a positive definite matrix of "
            f"{dim} rows, as base64 of numbers, of a model of one coefficient a column."
        )
    return Accuracy(covariance, float(rows))


def _ranges(data: Any, model: StoredModel) -> NDArray[np.float64]:
    """The ranges of the encoded columns that were read."""
    columns = model.coef.shape[1]
    if (
        not isinstance(data, list)
        or len(data) != columns
        or not all(pair is None or _is_range(pair) for pair in data)
    ):
        raise ModelFileError(
            f"{_RANGES} must hold null or two numbers, the lower one first, for each of {columns} "
            "encoded columns."
        )
    ends = [(-np.inf, np.inf) if pair is None else pair for pair in data]
    return np.array(ends, dtype=np.float64).T


def _is_range(data: Any) -> bool:
    """Whether these are two numbers, the lower one first."""
    pair = isinstance(data, list) and len(data) == 2 and all(map(is_json_number, data))
    return pair and float(data[0]) <= float(data[1])


def _kept(data: Any, target: Target) -> tuple[float, float]:
    """What predictions are kept in."""
    if isinstance(target, RangeTarget) and _is_range(data):
        low, high = target.ends
        if low <= data[0] and data[1] <= high:
            return float(data[0]), float(data[1])
    raise ModelFileError(f"{_KEPT} must be two numbers in the range of a target that is a number.")


def _is_fact(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and all(isinstance(e, str) for e in entry)


def _privacy_report(data: Any) -> PrivacyReport:
    try:
        return PrivacyReport.from_json(json.dumps(data))
    except (TypeError, ValueError, KeyError, AttributeError, ImportError) as error:
        raise ModelFileError(f"privacy is not a privacy report: {error}") from error


def restored(model: StoredModel) -> Any:
    """A fitted estimator of encoded rows, from what a file holds."""
    schema = model.schema
    estimator = unfitted(FAMILIES[model.family](**model.parameters), schema, {})
    fitted: dict[str, Any] = {
        "n_features_in_": len(schema.feature_names),
        "privacy_": model.privacy,
        "coef_": np.array(model.coef),
        "intercept_": np.array(model.intercept),
        "column_ranges_": model.column_ranges,
    }
    if isinstance(schema.target, ClassTarget):
        fitted["classes_"] = np.arange(len(schema.target.classes))
        fitted["_softmax"] = model.classes_together
    else:
        fitted["coef_"], fitted["intercept_"] = fitted["coef_"][0], float(model.intercept[0])
        (targets,), _ = estimator._resolve_targets(None)
        fitted["prediction_range_"] = model.prediction_range or targets.prediction_range()
    if model.errors is not None:
        fitted["_estimates"], fitted["_facts"] = model.errors
    if model.accuracy is not None:
        fitted["_covariance"], fitted["_known_rows"] = model.accuracy
    estimator.__dict__.update(fitted)
    return estimator
