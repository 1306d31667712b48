"""Tables of text with public bounds: what the command line fits and predicts on.

A :class:`TableSchema` says what is publicly known of each column before anyone looks at the data:
the range of a number, the list of a category, the two classes of the target. It turns a table into
a matrix whose rows have a public bound of their norm.
"""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._files import is_json_number, parse_json, read_csv, read_table, show_names
from dpfast.errors import DataError
from dpfast.preprocessing import one_hot, scale_to_range

__all__ = [
    "CategoricalColumn",
    "NumericColumn",
    "Table",
    "TableSchema",
    "read_bounds",
    "read_csv",
    "read_table",
]

Table = Mapping[str, NDArray[Any]]
"""Column name to a one-dimensional array of text or numbers; all of one length."""

# Short, and safe for values nested too deeply for repr.
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 60
_show = _REPR.repr


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers in a public range; values outside are cut to it."""

    name: str
    low: float
    high: float

    @property
    def feature_names(self) -> list[str]:
        """The one column of :meth:`encode`."""
        return [self.name]

    def encode(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """The values scaled from ``[low, high]`` to [-1, 1]; shape (n, 1).

        Raises
        ------
        DataError
            If one of them is not a finite number; the message names column and row.
        """
        numbers = _parse_numbers(self.name, values)
        return scale_to_range(numbers[:, np.newaxis], self.low, self.high)

    def to_dict(self) -> dict[str, Any]:
        """The column as plain JSON types."""
        return {"name": self.name, "type": "numeric", "low": self.low, "high": self.high}


@dataclass(frozen=True)
class CategoricalColumn:
    """A column of text with a public list of categories; all other text counts as one more."""

    name: str
    categories: tuple[str, ...]

    @property
    def feature_names(self) -> list[str]:
        """The columns of :meth:`encode`, the last of them for all other text."""
        return [f"{self.name}_{category}" for category in (*self.categories, "<other>")]

    def encode(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """One-hot; shape (n, number of categories + 1).

        Raises
        ------
        DataError
            If the values are floating-point numbers, which can be written in several ways.
        """
        return one_hot(_texts(self.name, values), self.categories)

    def to_dict(self) -> dict[str, Any]:
        """The column as plain JSON types."""
        return {"name": self.name, "type": "categorical", "categories": list(self.categories)}


@dataclass(frozen=True)
class TableSchema:
    """What is publicly known of the columns of a table.

    Build it with :meth:`from_bounds` or :meth:`from_dict`, which check everything.

    Attributes
    ----------
    features : tuple of NumericColumn or CategoricalColumn
        In the order of the columns of :meth:`transform`.
    target : str
        Name of the target column.
    classes : (str, str)
        The two labels, negative first.

    Examples
    --------
    >>> schema = TableSchema.from_bounds(
    ...     {"age": [17, 90], "sex": ["female", "male"], "income": ["low", "high"]},
    ...     target="income",
    ... )
    >>> schema.feature_names
    ['age', 'sex_female', 'sex_male', 'sex_<other>']
    >>> table = {"age": np.array(["17", "99"]), "sex": np.array(["male", ""])}
    >>> schema.transform(table)
    array([[-1.,  0.,  1.,  0.],
           [ 1.,  0.,  0.,  1.]])
    >>> schema.row_norm_bound == math.sqrt(2)
    True
    """

    features: tuple[NumericColumn | CategoricalColumn, ...]
    target: str
    classes: tuple[str, str]

    @classmethod
    def from_bounds(
        cls, bounds: Mapping[str, Any], *, target: str, categorical: Collection[str] = ()
    ) -> TableSchema:
        """Build a schema from the content of a bounds file.

        Parameters
        ----------
        bounds : dict
            Column name to ``[low, high]`` (two numbers: a range) or to a list of categories. The
            target is listed too, with its two classes, negative first. Categories given as numbers
            are compared as text, as written: 1 is not 1.0.
        target : str
            Name of the target column.
        categorical : collection of str, default=()
            Columns whose list of numbers means categories, not a range.

        Raises
        ------
        DataError
            If an entry is not as described; the message names the column.
        """
        if not isinstance(bounds, Mapping):
            raise DataError(
                "the bounds must be one JSON object {column: [low, high] or [category, ...]}; "
                f"got {_show(bounds)}."
            )
        if target not in bounds:
            raise DataError(
                f"the target {target!r} is not in the bounds. Add it with its two classes, the "
                f'negative one first: {{"{target}": ["no", "yes"]}}.'
            )
        if unknown := [name for name in categorical if name not in bounds]:
            raise DataError(f"categorical names columns that the bounds do not list: {unknown}.")
        features = tuple(
            _column(name, entry, name in categorical)
            for name, entry in bounds.items()
            if name != target
        )
        return _checked(cls(features, target, _classes(target, bounds[target])))

    @classmethod
    def from_dict(cls, data: Any) -> TableSchema:
        """Rebuild a schema from the result of :meth:`to_dict`.

        Raises
        ------
        DataError
            If `data` is anything else.
        """
        _require_keys("schema", data, {"features", "target", "classes"})
        if not isinstance(data["features"], list):
            raise DataError(f"schema: features must be a list; got {_show(data['features'])}.")
        features = tuple(_column_from_dict(entry) for entry in data["features"])
        target = data["target"]
        return _checked(cls(features, target, _classes(target, data["classes"])))

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain JSON types."""
        return {
            "features": [feature.to_dict() for feature in self.features],
            "target": self.target,
            "classes": list(self.classes),
        }

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of :meth:`transform`."""
        return [name for feature in self.features for name in feature.feature_names]

    @property
    def row_norm_bound(self) -> float:
        """Public bound of the Euclidean norm of every row of :meth:`transform`.

        A number is scaled to [-1, 1] and a category has exactly one 1, so each column of the table
        adds at most 1 to the squared norm.
        """
        return math.sqrt(len(self.features))

    def transform(self, table: Table) -> NDArray[np.float64]:
        """Encode the features of a table.

        Parameters
        ----------
        table : dict of str to ndarray of shape (n,)
            As read by :func:`read_csv`; columns other than the features are ignored.

        Returns
        -------
        ndarray of shape (n, len(feature_names))

        Raises
        ------
        DataError
            If a column is missing, or a numeric column holds something that is not a finite number.
        """
        columns = [(feature, _values(table, feature.name)) for feature in self.features]
        result = np.empty((len(columns[0][1]), len(self.feature_names)))
        start = 0
        for feature, values in columns:
            stop = start + len(feature.feature_names)
            result[:, start:stop] = feature.encode(values)
            start = stop
        return result

    def encode_target(self, table: Table) -> NDArray[np.int64]:
        """The target as 0 (negative class) and 1 (positive class).

        Parameters
        ----------
        table : dict of str to ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (n,)

        Raises
        ------
        DataError
            If the column is missing or holds any other label.
        """
        values = _texts(self.target, _values(table, self.target))
        negative, positive = self.classes
        labels = values == positive
        known = labels | (values == negative)
        if not known.all():
            row = int(np.argmin(known))
            raise DataError(
                f"column {self.target!r}, row {row + 1} of the data: expected the class "
                f"{negative!r} or {positive!r}; got {str(values[row])!r}. Correct the "
                "row, or the classes in the bounds."
            )
        target: NDArray[np.int64] = labels.astype(np.int64)
        return target


def read_bounds(path: str | os.PathLike[str]) -> Any:
    """Read a bounds file: one flat JSON object, for :meth:`TableSchema.from_bounds`.

    Raises
    ------
    DataError
        If the file is not strict JSON in UTF-8.
    OSError
        If it cannot be read.
    """
    try:
        return parse_json(Path(path).read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise DataError(f"{os.fspath(path)} is not valid JSON: {error}.") from error


def _parse_numbers(name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    try:
        numbers = values.astype(np.float64)
        row = None if (finite := np.isfinite(numbers)).all() else int(np.argmin(finite))
    except ValueError:
        row = _first_unparseable(values)
    if row is None:
        return numbers
    value = str(values[row])
    raise DataError(
        f"column {name!r}, row {row + 1} of the data: expected a finite number; got "
        f"{repr(value) if value else 'an empty field'}. Fill in the value or remove the row, or "
        "declare the column as categorical."
    )


def _first_unparseable(values: NDArray[np.str_]) -> int:
    """Index of the first value that is not a number, by halving: nothing is parsed one by one."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            values[low:middle].astype(np.float64)
        except ValueError:
            high = middle
        else:
            low = middle
    return low


def _values(table: Table, name: str) -> NDArray[Any]:
    if name not in table:
        raise DataError(f"the table lacks the column {name!r}; it has {show_names(list(table))}.")
    values = np.asarray(table[name])
    return values if values.dtype.kind in "iuf" else values.astype(np.str_)


def _texts(name: str, values: NDArray[Any]) -> NDArray[np.str_]:
    """Values to be compared with categories; integers as they are written."""
    if values.dtype.kind == "f":
        raise DataError(
            f"column {name!r}: categories and classes are compared as text, and floating-point "
            "numbers can be written in several ways; store them as text or as integers."
        )
    return values.astype(np.str_)


def _checked(schema: TableSchema) -> TableSchema:
    """The checks that concern the columns together."""
    names = [feature.name for feature in schema.features] + [schema.target]
    for name in names:
        if not isinstance(name, str) or not name or name != name.strip():
            raise DataError(
                "a column name must be text that is not empty and has no spaces around it; "
                f"got {_show(name)}."
            )
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"the columns {show_names(repeated)} are declared more than once.")
    if not schema.features:
        raise DataError(
            f"only the target {schema.target!r} is declared; add at least one other column."
        )
    return schema


def _column(name: str, entry: Any, categorical: bool) -> NumericColumn | CategoricalColumn:
    if not isinstance(entry, list | tuple):
        raise DataError(
            f"column {name!r}: expected [low, high] or a list of categories; got {_show(entry)}."
        )
    if categorical or (entry and all(isinstance(value, str) for value in entry)):
        return CategoricalColumn(name, _categories(name, entry))
    if len(entry) != 2 or not all(is_json_number(value) for value in entry):
        raise DataError(
            f"column {name!r}: expected two numbers [low, high] or a list of text categories; got "
            f"{_show(entry)}. If the numbers are categories, name the column in --categorical."
        )
    return NumericColumn(name, *_range(name, entry[0], entry[1]))


def _column_from_dict(entry: Any) -> NumericColumn | CategoricalColumn:
    kind = entry.get("type") if isinstance(entry, dict) else None
    if kind == "numeric":
        _require_keys("numeric column", entry, {"name", "type", "low", "high"})
        return NumericColumn(entry["name"], *_range(entry["name"], entry["low"], entry["high"]))
    if kind == "categorical":
        _require_keys("categorical column", entry, {"name", "type", "categories"})
        return CategoricalColumn(entry["name"], _categories(entry["name"], entry["categories"]))
    raise DataError(f"schema: expected a numeric or categorical column; got {_show(entry)}.")


def _range(name: str, low: Any, high: Any) -> tuple[float, float]:
    try:
        start, stop = float(low), float(high)
    except (TypeError, ValueError, OverflowError):
        start = stop = math.nan
    if not (is_json_number(low) and is_json_number(high) and 0.0 < stop - start < math.inf):
        raise DataError(
            f"column {name!r}: expected finite numbers low < high; got "
            f"[{_show(low)}, {_show(high)}]. A column with one possible value carries no "
            "information: leave it out."
        )
    return start, stop


def _categories(name: str, entry: Any) -> tuple[str, ...]:
    if not isinstance(entry, list | tuple) or not entry:
        raise DataError(f"column {name!r}: expected a list of categories; got {_show(entry)}.")
    for value in entry:
        if not isinstance(value, str) and not is_json_number(value):
            raise DataError(
                f"column {name!r}: a category must be text in quotes; got {_show(value)}."
            )
    categories = tuple(str(value).strip() for value in entry)
    if "" in categories:
        raise DataError(
            f"column {name!r}: expected text that is not empty; got {_show(entry)}. In a feature, "
            "empty fields and unlisted text count together as one further category."
        )
    if repeated := sorted({value for value in categories if categories.count(value) > 1}):
        raise DataError(
            f"column {name!r}: the categories {show_names(repeated)} are listed more than once."
        )
    return categories


def _classes(target: Any, entry: Any) -> tuple[str, str]:
    if not isinstance(entry, list | tuple) or len(entry) != 2:
        raise DataError(
            f"target {target!r}: expected its two classes, the negative one first, as in "
            f'["no", "yes"]; got {_show(entry)}.'
        )
    negative, positive = _categories(target, entry)
    return negative, positive


def _require_keys(what: str, data: Any, keys: set[str]) -> None:
    if not isinstance(data, dict) or set(data) != keys:
        raise DataError(
            f"{what}: expected an object with the keys {sorted(keys)}; got {_show(data)}."
        )
