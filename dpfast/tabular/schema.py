"""The bounds of a table: what is publicly known of its columns, and which of them does what.

A bounds file is one JSON object. In short it is ``{column: entry}``; in full
``{"columns": {column: entry}, "target": ..., "person": ..., "weight": ..., "exposure": ...,
"missing": ..., "missing_values": [...], "learn_share": ..., "separator": ..., "decimal": ...,
"thousands": ..., "encoding": ...}``. The short form may hold these roles as well, except for the
list, for a column's entry is never a text or a number.
"""

from __future__ import annotations

import datetime
import math
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpfast._csv_form import USUAL_FORM, CsvForm, csv_form
from dpfast._files import is_json_number, parse_json, read_text, show_names
from dpfast.column_blocks import ColumnBlock
from dpfast.errors import DataError
from dpfast.tabular.columns import INDICATOR, CategoryColumn, Column, NumberColumn
from dpfast.tabular.declarations import (
    parse_column,
    parse_exposure,
    parse_target,
    parse_weight,
    show,
)
from dpfast.tabular.frames import columns_of
from dpfast.tabular.tally import Tally
from dpfast.tabular.targets import ClassTarget, Exposure, RangeTarget, Target, Weight

_ROLES = {
    **dict.fromkeys(("target", "person", "weight", "exposure", "missing"), "a text"),
    **dict.fromkeys(("separator", "decimal", "thousands", "encoding"), "a text"),
    "learn_share": "a number",
    "missing_values": "a list",
}
LEARN_SHARE = 0.1
"""Share of the budget for ranges that are learned, unless another one is declared."""
# Encoded columns for each entry that is not zero from which on codes are faster than dense rows.
_WIDER = 3


@dataclass(frozen=True)
class TableSchema:
    """What is publicly known of a table, and what each column is for.

    Build it with :meth:`from_bounds`, which checks everything.

    Attributes
    ----------
    features : tuple of Column
        In the order of the encoded columns.
    target : ClassTarget or RangeTarget
    person : str or None
        Column that says whose row it is.
    weight : Weight or None
    exposure : Exposure or None
        Targets are then divided by it: the target's range is that of the rates.
    learn_share : float
        Share of the budget for what is learned of the columns.
    csv : CsvForm
        How CSV files of the table are written.

    Examples
    --------
    >>> schema = TableSchema.from_bounds(
    ...     {"age": [17, 90], "sex": ["female", "male"], "income": ["low", "high"]},
    ...     target="income",
    ... )
    >>> schema.feature_names
    ['age', 'sex_female', 'sex_male']
    >>> table = {"age": np.array(["17", "99"]), "sex": np.array(["Male", "unknown"])}
    >>> schema.transform(table)
    array([[-1. ,  0. ,  1. ],
           [ 1. ,  0.5,  0.5]])
    >>> schema.row_norm_bound == math.sqrt(2)
    True
    """

    features: tuple[Column, ...]
    target: Target
    person: str | None = None
    weight: Weight | None = None
    exposure: Exposure | None = None
    learn_share: float = LEARN_SHARE
    csv: CsvForm = USUAL_FORM

    @classmethod
    def from_bounds(
        cls,
        bounds: Any,
        *,
        target: str | None = None,
        categorical: Collection[str] = (),
        person: str | None = None,
        weight: str | None = None,
        exposure: str | None = None,
        task: str | None = None,
    ) -> TableSchema:
        """Build a schema from the content of a bounds file.

        Parameters
        ----------
        bounds : dict
            See the guide "Your own table".
        target, person, weight, exposure : str or None, default=None
            Names of columns; None takes what the bounds say.
        categorical : collection of str, default=()
            Columns whose list of two numbers means categories, not a range.
        task : {"classification", "regression"} or None, default=None
            What two numbers of a target are: classes, or a range. None takes [0, 1], [1, 2] and
            [-1, 1] for classes and all others for a range.

        Raises
        ------
        DataError
            If an entry is not as described; the message names the column.
        """
        columns, roles = _parts(bounds)
        given = {"target": target, "person": person, "weight": weight, "exposure": exposure}
        roles.update({role: name for role, name in given.items() if name is not None})
        if (name := roles.get("target")) is None:
            raise DataError(
                'target must name the column to predict: add "target": "COLUMN" to the bounds, or '
                "give it beside them."
            )
        if name not in columns:
            raise DataError(
                f"the target {name!r} is not in the bounds. Add its classes, the negative one "
                f'first, {{"{name}": ["no", "yes"]}}, or its range, {{"{name}": [low, high]}}.'
            )
        if unknown := [name for name in categorical if name not in columns]:
            raise DataError(f"categorical names columns that the bounds do not list: {unknown}.")
        if name in categorical:
            task = "classification"
        aside = {name, *(roles.get(role) for role in ("weight", "person", "exposure"))}
        features = tuple(
            parse_column(name, entry, name in categorical, roles)
            for name, entry in columns.items()
            if name not in aside
        )
        return _checked(
            cls(
                features,
                parse_target(name, columns[name], task),
                _person(roles.get("person"), columns),
                parse_weight(roles.get("weight"), columns),
                parse_exposure(roles.get("exposure"), columns),
                _share(roles.get("learn_share", LEARN_SHARE)),
                csv_form(roles),
            )
        )

    @property
    def unit(self) -> Literal["row", "group"]:
        """What a record is, a "row" or a "group" of rows."""
        return "row" if self.person is None else "group"

    def to_dict(self) -> dict[str, Any]:
        """The schema as bounds in full, as plain JSON types."""
        columns = {column.name: column.declaration() for column in self.features}
        columns[self.target.name] = self.target.declaration()
        roles: dict[str, Any] = {"target": self.target.name}
        if self.person is not None:
            roles["person"] = self.person
        for role, column in (("weight", self.weight), ("exposure", self.exposure)):
            if column is not None:
                roles[role] = column.name
                columns[column.name] = {"range": [0.0, column.high]}
        if self.learns:
            roles["learn_share"] = self.learn_share
        return {**roles, **self.csv.declaration(), "columns": columns}

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded columns."""
        return [name for column in self.features for name in column.feature_names]

    @property
    def column_blocks(self) -> tuple[ColumnBlock, ...]:
        """Which encoded columns belong together, and of what kind they are."""
        blocks, start = [], 0
        for column in self.features:
            for kind, width in column.kinds:
                blocks.append(ColumnBlock(kind, start, start + width))
                start += width
        return tuple(blocks)

    @property
    def row_norm_bound(self) -> float:
        """Public bound of the Euclidean norm of every encoded row."""
        return math.sqrt(sum(column.squared_norm for column in self.features))

    @property
    def in_codes(self) -> bool:
        """Whether rows are held in codes: most of what they encode to is zero."""
        stored = sum(column.stored[0] for column in self.features)
        return len(self.feature_names) >= _WIDER * stored

    @property
    def row_bytes(self) -> int:
        """Bytes of an encoded row that is held in memory, in codes or dense."""
        if self.in_codes:
            return sum(column.stored[1] for column in self.features)
        return 8 * len(self.feature_names)

    @property
    def task(self) -> str:
        """What the target asks for: "classification" or "regression"."""
        return "classification" if isinstance(self.target, ClassTarget) else "regression"

    @property
    def learns(self) -> tuple[str, ...]:
        """Columns whose range is to be learned, the target last."""
        names = [c.name for c in self.features if isinstance(c, NumberColumn) and c.learn]
        return (*names, self.target.name) if self.learns_target else tuple(names)

    @property
    def learns_target(self) -> bool:
        """Whether the target's range is to be learned."""
        return isinstance(self.target, RangeTarget) and self.target.learn

    def with_learned(self, ranges: Mapping[str, tuple[float, float]]) -> TableSchema:
        """The same schema with ranges that were learned, by column."""
        features = tuple(
            column.with_learned(*ranges[column.name])
            if isinstance(column, NumberColumn) and column.name in ranges
            else column
            for column in self.features
        )
        target = self.target
        if isinstance(target, RangeTarget) and target.name in ranges:
            target = replace(target, learned=ranges[target.name])
        return replace(self, features=features, target=target)

    def with_references(self) -> TableSchema:
        """The same schema with a reference in every list of categories, the first unless declared.

        Columns of all categories add up to one, as the intercept's does: no standard error could
        be told of any of them.
        """
        features = tuple(
            replace(column, reference=column.reference or column.categories[0])
            if isinstance(column, CategoryColumn) and len(column.categories) > 1
            else column
            for column in self.features
        )
        return replace(self, features=features)

    def columns_read(self, *, fit: bool) -> list[str]:
        """Names of the columns that a fit, or a prediction, reads."""
        names = [column.name for column in self.features]
        names += [] if self.exposure is None else [self.exposure.name]
        if fit:
            names += [self.target.name]
            names += [] if self.weight is None else [self.weight.name]
            names += [] if self.person is None else [self.person]
        return names

    def spans(self) -> Iterator[tuple[Column, slice]]:
        """The columns, with the range of encoded columns that each has."""
        start = 0
        for column in self.features:
            stop = start + len(column.feature_names)
            yield column, slice(start, stop)
            start = stop

    def unit_steps(self) -> NDArray[np.float64]:
        """How far one unit of a column of the table moves each of its encoded columns."""
        steps = np.ones(len(self.feature_names))
        for column, span in self.spans():
            steps[span][:1] = column.unit_step
        return steps

    def transform(self, table: Mapping[str, Any], tally: Tally | None = None) -> NDArray[Any]:
        """Encode the features of a table.

        Parameters
        ----------
        table : mapping of str to array-like of shape (n,)
            Columns other than the features are ignored.
        tally : Tally, optional
            Counts what was never declared.

        Returns
        -------
        ndarray of shape (n, len(feature_names))

        Raises
        ------
        DataError
            If a column is missing, or a value does not fit its declaration.
        """
        tally = Tally() if tally is None else tally
        columns = columns_of(table, [column.name for column in self.features])
        result = np.empty((len(columns[0]), len(self.feature_names)))
        for (column, span), values in zip(self.spans(), columns, strict=True):
            column.write(column.coder()(values, tally), result[:, span])
        return result

    def encode_target(self, table: Mapping[str, Any]) -> NDArray[Any]:
        """The target: positions of classes, or numbers, as they stand in the table.

        Raises
        ------
        DataError
            If the column is missing, or a value does not fit its declaration.
        """
        (values,) = columns_of(table, [self.target.name])
        found: NDArray[Any] = self.target.parse(values)
        return found


def read_bounds(path: str | os.PathLike[str]) -> Any:
    """Read a bounds file, for :meth:`TableSchema.from_bounds`.

    Raises
    ------
    DataError
        If the file is not strict JSON in UTF-8.
    OSError
        If it cannot be read.
    """
    try:
        return parse_json(read_text(path))
    except ValueError as error:
        raise DataError(
            f"{os.fspath(path)} is not valid JSON: {error}. Texts stand in double quotes, truth "
            "values are true and false, and no comma follows the last entry."
        ) from error


# --- the parts of a bounds file ------------------------------------------------------------------


def _parts(bounds: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Entries of the columns, and the roles."""
    if not isinstance(bounds, Mapping):
        raise DataError(
            "the bounds must be one JSON object {column: [low, high] or [category, ...]}; "
            f"got {show(bounds)}."
        )
    kind = bounds.get("format")  # or the entry of a column of that name
    if isinstance(kind, str) and kind == "dpfast-model":
        raise DataError(
            'the bounds must be a declaration of columns; got a model file. The entry "schema" in '
            "it is the declaration of its fit."
        )
    bounds = {name: _plain(entry) for name, entry in bounds.items()}
    if isinstance(bounds.get("columns"), Mapping):
        columns = dict(bounds["columns"])
        roles = {key: value for key, value in bounds.items() if key != "columns"}
    else:
        columns = {key: v for key, v in bounds.items() if not isinstance(v, str | int | float)}
        roles = {key: v for key, v in bounds.items() if key not in columns}
    for role, value in roles.items():
        if role not in _ROLES:
            raise DataError(
                f"column {role!r}: expected [low, high] or a list of categories; got "
                f"{show(value)}. (What else may stand there: {', '.join(_ROLES)}.)"
            )
        fits = {"a text": str, "a number": int | float, "a list": list | tuple}[_ROLES[role]]
        if isinstance(value, bool) or not isinstance(value, fits):
            raise DataError(f'"{role}" must be {_ROLES[role]} in the bounds; got {show(value)}.')
    if (policy := roles.get("missing")) not in (None, "refuse", INDICATOR):
        raise DataError(
            f'"missing" must be "refuse" or "{INDICATOR}" in the bounds; got {show(policy)}.'
        )
    return columns, roles


def _plain(entry: Any, depth: int = 3) -> Any:
    """An entry with the types of JSON in the place of NumPy's, and of dates."""
    if isinstance(entry, np.ndarray | np.generic):
        if entry.dtype.kind == "M":
            entry = entry.astype("datetime64[s]").astype(str)
        return entry.tolist()
    if isinstance(entry, datetime.date):
        return entry.isoformat()
    if isinstance(entry, Mapping) and depth:
        return {key: _plain(value, depth - 1) for key, value in entry.items()}
    if type(entry) in (list, tuple) and depth:
        return type(entry)(_plain(value, depth - 1) for value in entry)
    return entry


def _checked(schema: TableSchema) -> TableSchema:
    """The checks that concern the columns together."""
    names = [*schema.columns_read(fit=True)]
    for name in names:
        if not isinstance(name, str) or not name or name != name.strip():
            raise DataError(
                "a column name must be text that is not empty and has no spaces around it; "
                f"got {show(name)}."
            )
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"the columns {show_names(repeated)} have more than one role.")
    if schema.exposure is not None and (schema.task != "regression" or schema.learns_target):
        raise DataError(
            f"the exposure {schema.exposure.name!r} asks for a target that is a number, whose "
            "range is declared and not learned: that of the target over the exposure; got "
            f"{show(schema.target.declaration())}."
        )
    if not schema.features:
        raise DataError(
            f"only the target {schema.target.name!r} is declared; add at least one other column."
        )
    encoded = Counter(schema.feature_names)
    if alike := sorted(name for name, times in encoded.items() if times > 1):
        raise DataError(
            f"the encoded columns {show_names(alike)} have the name of another: a category's is "
            "COLUMN_VALUE. Rename a column, so that coefficients can be told apart."
        )
    return schema


def _person(name: Any, columns: Mapping[str, Any]) -> str | None:
    if name is not None and name in columns:
        raise DataError(
            f"the person column {name!r} must not be declared as a feature: who it is says nothing "
            "about others. Take it out of the columns."
        )
    return None if name is None else str(name)


def _share(value: Any) -> float:
    if not is_json_number(value) or not 0.0 < value < 1.0:
        raise DataError(f'"learn_share" must be between 0 and 1 in the bounds; got {show(value)}.')
    return float(value)
