"""The bounds of a table: what is publicly known of its columns, and which of them does what.

A bounds file is one JSON object. In short it is ``{column: entry}``; in full
``{"columns": {column: entry}, "target": ..., "person": ..., "weight": ..., "missing": ...,
"missing_values": [...], "learn_share": ...}``. The short form may hold these roles as well, but for
the list, for a column's entry is never a text or a number.
"""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._files import is_json_number, parse_json, show_names
from dpfast.column_blocks import ColumnBlock
from dpfast.errors import DataError
from dpfast.preprocessing.matching import Index
from dpfast.tabular.columns import (
    INDICATOR,
    TRANSFORMS,
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    Tally,
)
from dpfast.tabular.frames import column_of
from dpfast.tabular.values import TruthIndex, Values, WrongValue, day_of, parse_numbers

_ROLES = {
    **dict.fromkeys(("target", "person", "weight", "missing"), "a text"),
    "learn_share": "a number",
    "missing_values": "a list",
}
#: Pairs of numbers that, for a target, are labels and not a range.
_LABELS = ((0, 1), (1, 2), (-1, 1))
LEARN_SHARE = 0.1
"""Share of the budget for ranges that are learned, unless another one is declared."""

# Short, and safe for values nested too deeply for repr.
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 60
show = _REPR.repr


@dataclass(frozen=True)
class ClassTarget:
    """A target of classes, in the order in which they were declared.

    Attributes
    ----------
    name : str
    classes : tuple of str, int, float or bool
        Of two, the first is the negative one.
    """

    name: str
    classes: tuple[Any, ...]

    dtype = np.dtype(np.uint16)

    def declaration(self) -> dict[str, Any]:
        """What stands in the bounds."""
        return {"classes": list(self.classes)}

    def index(self) -> Index:
        """What finds the position of a label."""
        if self.classes == (False, True) and isinstance(self.classes[0], bool):
            return TruthIndex()
        return Index([str(label) for label in self.classes])

    def parse(self, values: Values, index: Index | None = None) -> NDArray[np.intp]:
        """Positions of the labels of rows.

        Raises
        ------
        DataError
            If one of them was not declared.
        """
        index = index or self.index()
        codes = index.codes(values)
        if (wrong := codes >= index.unknown).any():
            row = int(np.argmax(wrong))
            shown = " or ".join(repr(label) for label in self.classes[:8])
            raise WrongValue(
                self.name,
                row,
                f"the class {shown}{' or ...' if len(self.classes) > 8 else ''}",
                values[row],
                "Correct the row, or the classes in the bounds. (A target that is a number is "
                'declared as {"range": [low, high]}.)',
            )
        return codes

    @property
    def labels(self) -> NDArray[Any]:
        """The classes as an array."""
        if len({type(label) for label in self.classes}) > 1:
            return np.array([str(label) for label in self.classes])
        return np.array(self.classes)


@dataclass(frozen=True)
class RangeTarget:
    """A target that is a number in a public range; values outside are cut to it.

    Attributes
    ----------
    name : str
    low, high : float
    learn : bool
        Whether a narrower range is to be learned from the data, privately.
    learned : (float, float) or None
        What was learned.
    """

    name: str
    low: float
    high: float
    learn: bool = False
    learned: tuple[float, float] | None = None

    dtype = np.dtype(np.float64)

    def declaration(self) -> dict[str, Any]:
        """What stands in the bounds."""
        learn = {"learn": True} if self.learn else {}
        learned = {} if self.learned is None else {"learned": list(self.learned)}
        return {"range": [self.low, self.high], **learn, **learned}

    def parse(self, values: Values, tally: Tally | None = None) -> NDArray[np.float64]:
        """The numbers of rows, not cut.

        Raises
        ------
        DataError
            If one of them is missing or no finite number.
        """
        found = parse_numbers(self.name, values, ())
        if (gone := np.isnan(found)).any():
            row = int(np.argmax(gone))
            raise WrongValue(
                self.name, row, "a finite number", "", "Remove the rows without a target."
            )
        if tally is not None:
            tally.count(tally.cut, self.name, (found < self.low) | (found > self.high))
        return found

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest target of a fit."""
        return (self.low, self.high) if self.learned is None else self.learned


Target = ClassTarget | RangeTarget


@dataclass(frozen=True)
class Weight:
    """A column that says how much each row counts.

    Attributes
    ----------
    name : str
    high : float
        Public bound; larger weights are lowered to it.
    """

    name: str
    high: float

    def parse(self, values: Values) -> NDArray[np.float64]:
        """The weights of rows.

        Raises
        ------
        DataError
            If one of them is missing, negative or no finite number.
        """
        found = parse_numbers(self.name, values, ())
        if (wrong := ~(found >= 0.0)).any():
            row = int(np.argmax(wrong))
            raise WrongValue(self.name, row, "a weight >= 0", values[row])
        return found


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
    learn_share : float
        Share of the budget for what is learned of the columns.

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
    learn_share: float = LEARN_SHARE

    @classmethod
    def from_bounds(
        cls,
        bounds: Any,
        *,
        target: str | None = None,
        categorical: Collection[str] = (),
        person: str | None = None,
        weight: str | None = None,
        task: str | None = None,
    ) -> TableSchema:
        """Build a schema from the content of a bounds file.

        Parameters
        ----------
        bounds : dict
            See the guide "Your own table".
        target, person, weight : str or None, default=None
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
        given = {"target": target, "person": person, "weight": weight}
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
        aside = {name, roles.get("weight"), roles.get("person")}
        features = tuple(
            _column(name, entry, name in categorical, roles)
            for name, entry in columns.items()
            if name not in aside
        )
        return _checked(
            cls(
                features,
                _target(name, columns[name], "classification" if name in categorical else task),
                _person(roles.get("person"), columns),
                _weight(roles.get("weight"), columns),
                _share(roles.get("learn_share", LEARN_SHARE)),
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """The schema as bounds in full, as plain JSON types."""
        columns = {column.name: column.declaration() for column in self.features}
        columns[self.target.name] = self.target.declaration()
        roles: dict[str, Any] = {"target": self.target.name}
        if self.person is not None:
            roles["person"] = self.person
        if self.weight is not None:
            roles["weight"] = self.weight.name
            columns[self.weight.name] = {"range": [0.0, self.weight.high]}
        if self.learns:
            roles["learn_share"] = self.learn_share
        return {**roles, "columns": columns}

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
    def task(self) -> str:
        """What the target asks for: "classification" or "regression"."""
        return "classification" if isinstance(self.target, ClassTarget) else "regression"

    @property
    def learns(self) -> tuple[str, ...]:
        """Columns whose range is to be learned, the target last."""
        names = [c.name for c in self.features if isinstance(c, NumberColumn) and c.learn]
        if isinstance(self.target, RangeTarget) and self.target.learn:
            names.append(self.target.name)
        return tuple(names)

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

    def columns_read(self, *, fit: bool) -> list[str]:
        """Names of the columns that a fit, or a prediction, reads."""
        names = [column.name for column in self.features]
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
        columns = [column_of(table, column.name) for column in self.features]
        result = np.empty((len(columns[0]), len(self.feature_names)))
        for (column, span), values in zip(self.spans(), columns, strict=True):
            column.write(column.coder()(values, tally), result[:, span])
        return result

    def encode_target(self, table: Mapping[str, Any]) -> NDArray[Any]:
        """The target: positions of classes, or numbers.

        Raises
        ------
        DataError
            If the column is missing, or a value does not fit its declaration.
        """
        found: NDArray[Any] = self.target.parse(column_of(table, self.target.name))
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
        return parse_json(Path(path).read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise DataError(f"{os.fspath(path)} is not valid JSON: {error}.") from error


# --- the parts of a bounds file ------------------------------------------------------------------


def _parts(bounds: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Entries of the columns, and the roles."""
    if not isinstance(bounds, Mapping):
        raise DataError(
            "the bounds must be one JSON object {column: [low, high] or [category, ...]}; "
            f"got {show(bounds)}."
        )
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
    if not schema.features:
        raise DataError(
            f"only the target {schema.target.name!r} is declared; add at least one other column."
        )
    return schema


def _person(name: Any, columns: Mapping[str, Any]) -> str | None:
    if name is not None and name in columns:
        raise DataError(
            f"the person column {name!r} must not be declared as a feature: who it is says nothing "
            "about others. Take it out of the columns."
        )
    return None if name is None else str(name)


def _weight(name: Any, columns: Mapping[str, Any]) -> Weight | None:
    if name is None:
        return None
    if name not in columns:
        raise DataError(
            f"the weight {name!r} is not in the bounds. Noise is in proportion to the largest "
            f'weight: declare its range, {{"{name}": [0, largest]}}.'
        )
    column = _column(name, columns[name], False, {})
    if not isinstance(column, NumberColumn) or column.low < 0.0 or column.learn:
        raise DataError(
            f"the weight {name!r} must be declared as a range [0, largest]; got "
            f"{show(columns[name])}."
        )
    return Weight(column.name, column.high)


def _share(value: Any) -> float:
    if not is_json_number(value) or not 0.0 < value < 1.0:
        raise DataError(f'"learn_share" must be between 0 and 1 in the bounds; got {show(value)}.')
    return float(value)


# --- entries -------------------------------------------------------------------------------------

_KINDS = {
    "range": ("transform", "learn", "learned"),
    "dates": ("format",),
    "boolean": (),
    "categories": ("other",),
}


def _column(name: Any, entry: Any, categorical: bool, roles: Mapping[str, Any]) -> Column:
    """A feature column from its entry."""
    options: dict[str, Any] = {}
    if isinstance(entry, Mapping):
        kind, value, options = _long_entry(name, entry, _KINDS)
    else:
        kind, value = _short_entry(name, entry, categorical)
    missing = options.get("missing", roles.get("missing"))
    common = {
        "missing": None if missing == "refuse" else missing,
        "missing_values": tuple(
            text
            for given in (roles, options)
            for text in _missing_values(name, given.get("missing_values", []))
        ),
    }
    column = {"range": _number, "dates": _dates, "boolean": _boolean, "categories": _category}[
        kind
    ](name, value, options, common)
    _check_fill(column)
    return column


def _long_entry(
    name: Any, entry: Mapping[str, Any], kinds: Mapping[str, tuple[str, ...]]
) -> tuple[str, Any, dict[str, Any]]:
    found = [kind for kind in kinds if kind in entry]
    if len(found) != 1:
        raise DataError(
            f"column {name!r}: expected an object with one of the keys {', '.join(kinds)}; got "
            f"{show(entry)}."
        )
    known = {found[0], "missing", "missing_values", *kinds[found[0]]}
    if unknown := [str(key) for key in entry if key not in known]:
        raise DataError(
            f"column {name!r}: {show_names(unknown)} says nothing beside {found[0]!r}, where "
            f"{', '.join(sorted(known - {found[0]}))} may stand."
        )
    options = {key: value for key, value in entry.items() if key != found[0]}
    return found[0], entry[found[0]], options


def _short_entry(name: Any, entry: Any, categorical: bool) -> tuple[str, Any]:
    """What a list means."""
    if not isinstance(entry, list | tuple):
        raise DataError(
            f"column {name!r}: expected [low, high] or a list of categories; got {show(entry)}."
        )
    if not entry:
        raise DataError(
            f"column {name!r}: expected two numbers [low, high] or a list of categories; got []."
        )
    if any(isinstance(value, bool) for value in entry):
        return "boolean", entry
    if categorical or any(isinstance(value, str) for value in entry):
        texts = all(isinstance(value, str) for value in entry)
        dates = len(entry) == 2 and texts and not categorical and all(map(_is_date, entry))
        return ("dates" if dates else "categories"), entry
    return ("range" if len(entry) <= 2 else "categories"), entry


def _is_date(text: str) -> bool:
    try:
        day_of(text)
    except ValueError:
        return False
    return len(text.strip()) >= 10


def _number(
    name: Any, value: Any, options: Mapping[str, Any], common: dict[str, Any]
) -> NumberColumn:
    low, high = _range(name, value)
    transform, learn = options.get("transform"), options.get("learn", False)
    if transform is not None:
        if not isinstance(transform, str) or transform not in TRANSFORMS:
            raise DataError(
                f"column {name!r}: transform must be one of {', '.join(TRANSFORMS)}; got "
                f"{show(transform)}."
            )
        if low < TRANSFORMS[transform][1]:
            raise DataError(
                f"column {name!r}: {transform} takes no numbers below "
                f"{TRANSFORMS[transform][1]:g}; the range begins at {low:g}. Raise its lower end "
                "(lower values are cut to it)."
            )
    _check_truth(name, "learn", learn)
    learned = options.get("learned")
    if learned is not None:
        learned = _range(name, learned)
    column = NumberColumn(
        name, low=low, high=high, transform=transform, learn=learn, learned=learned, **common
    )
    if not column.transformed_range()[0] < column.transformed_range()[1]:
        raise DataError(f"column {name!r}: after {transform} the range has no width.")
    return column


def _dates(name: Any, value: Any, options: Mapping[str, Any], common: dict[str, Any]) -> DateColumn:
    form = options.get("format")
    if form is not None and not isinstance(form, str):
        raise DataError(f"column {name!r}: format must be text; got {show(form)}.")
    try:
        first, last = (day_of(text, form) for text in value)
    except (TypeError, ValueError, AttributeError, OverflowError):
        first = last = math.nan
    if not first < last:
        raise DataError(
            f"column {name!r}: expected two dates [first, last]"
            f"{'' if form is None else f' of the form {form}'}, such as "
            f'["2015-01-01", "2024-12-31"]; got {show(value)}.'
        )
    return DateColumn(name, first=value[0], last=value[1], form=form, **common)


def _boolean(
    name: Any, value: Any, options: Mapping[str, Any], common: dict[str, Any]
) -> BooleanColumn:
    entries = value if isinstance(value, list | tuple) else []
    if value is True or list(map(_truth, entries)) == [False, True]:
        return BooleanColumn(name, **common)
    if len(entries) != 2 or any(isinstance(word, bool) for word in entries):
        raise DataError(
            f"column {name!r}: expected [false, true], or the two words for them; got "
            f"{show(value)}."
        )
    no, yes = _categories(name, value)
    return BooleanColumn(name, words=(no, yes), **common)


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _category(
    name: Any, value: Any, options: Mapping[str, Any], common: dict[str, Any]
) -> CategoryColumn:
    other = options.get("other", False)
    _check_truth(name, "other", other)
    return CategoryColumn(name, categories=_categories(name, value), other=other, **common)


def _check_truth(name: Any, option: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise DataError(f"column {name!r}: {option} must be true or false; got {show(value)}.")


def _missing_values(name: Any, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(
        isinstance(text, str) or is_json_number(text) for text in value
    ):
        raise DataError(
            f'column {name!r}: missing_values must be a list such as ["?", "unknown"]; got '
            f"{show(value)}."
        )
    return tuple(map(str, value))


def _check_fill(column: Column) -> None:
    """Refuse a value for missing ones that the column could not have."""
    fill = column.missing
    if fill is None or (isinstance(fill, str) and fill == INDICATOR):
        return
    if isinstance(column, NumberColumn):
        expected = f"a number in [{column.low:g}, {column.high:g}]"
        fits = is_json_number(fill) and column.low <= fill <= column.high
    elif isinstance(column, DateColumn):
        expected = f"a date between {column.first} and {column.last}"
        fits = isinstance(fill, str) and _within(fill, column)
    else:
        expected = "one of the declared values"
        scalar = isinstance(fill, str | bool) or is_json_number(fill)
        index = column._index()  # type: ignore[attr-defined]
        fits = scalar and index[str(fill)] < index.unknown
    if not fits:
        raise DataError(
            f'column {column.name!r}: missing must be "refuse", "{INDICATOR}" or {expected}; got '
            f"{show(fill)}."
        )


def _within(text: str, column: DateColumn) -> bool:
    try:
        first, day, last = (day_of(t, column.form) for t in (column.first, text, column.last))
    except ValueError:
        return False
    return first <= day <= last


def _range(name: Any, value: Any) -> tuple[float, float]:
    low, high = value if isinstance(value, list | tuple) and len(value) == 2 else (None, None)
    try:
        start, stop = float(low), float(high)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        start = stop = math.nan
    if not (is_json_number(low) and is_json_number(high) and 0.0 < stop - start < math.inf):
        raise DataError(
            f"column {name!r}: expected two finite numbers [low, high], low < high; got "
            f"{show(value)}. A column with one possible value carries no information: leave it out."
        )
    return start, stop


def _categories(name: Any, entry: Any) -> tuple[str, ...]:
    if not isinstance(entry, list | tuple) or not entry:
        raise DataError(f"column {name!r}: expected a list of categories; got {show(entry)}.")
    for value in entry:
        if not isinstance(value, str) and not is_json_number(value):
            raise DataError(
                f"column {name!r}: a category must be text in quotes, or a number; got "
                f"{show(value)}."
            )
        if not isinstance(value, str) and not -1e300 <= value <= 1e300:
            raise DataError(f"column {name!r}: the category {show(value)} is out of range.")
    categories = tuple(str(value).strip() for value in entry)
    if any("\0" in value for value in categories):
        # NumPy takes them for the end of the text: two labels could be one to it.
        raise DataError(f"column {name!r}: a category holds a null character; got {show(entry)}.")
    if "" in categories:
        raise DataError(
            f"column {name!r}: expected text that is not empty; got {show(entry)}. Empty fields "
            'are missing values: declare "missing".'
        )
    if repeated := sorted({value for value in categories if categories.count(value) > 1}):
        raise DataError(
            f"column {name!r}: the categories {show_names(repeated)} are listed more than once."
        )
    return categories


# --- the target ----------------------------------------------------------------------------------

_TARGET_KINDS = {"classes": (), "categories": (), "range": ("learn", "learned"), "boolean": ()}


def _target(name: str, entry: Any, task: str | None) -> Target:
    options: dict[str, Any] = {}
    if isinstance(entry, Mapping):
        kind, value, options = _long_entry(name, entry, _TARGET_KINDS)
        if "missing" in options or "missing_values" in options:
            raise DataError(
                f"target {name!r}: a row without a target teaches nothing; leave out "
                '"missing" and remove such rows.'
            )
    else:
        kind, value = _short_target(name, entry, task)
    if kind != "range":
        return _class_target(name, [False, True] if value is True else value)
    low, high = _range(name, value)
    _check_truth(name, "learn", options.get("learn", False))
    learned = options.get("learned")
    learned = None if learned is None else _range(name, learned)
    return RangeTarget(name, low, high, options.get("learn", False), learned)


def _short_target(name: str, entry: Any, task: str | None) -> tuple[str, Any]:
    numbers = (
        isinstance(entry, list | tuple) and len(entry) == 2 and all(map(is_json_number, entry))
    )
    if numbers and (task == "regression" or (task is None and tuple(entry) not in _LABELS)):
        return "range", entry
    if task == "regression":
        raise DataError(
            f"target {name!r}: expected its range, two numbers [low, high]; got {show(entry)}."
        )
    return "classes", entry


def _class_target(name: str, entry: Any) -> ClassTarget:
    if not isinstance(entry, list | tuple) or len(entry) < 2:
        raise DataError(
            f"target {name!r}: expected its classes, of two the negative one first, as in "
            f'["no", "yes"], or the range of a number; got {show(entry)}.'
        )
    if len(entry) > 2**16 - 2:
        raise DataError(f"target {name!r}: too many classes.")
    if list(map(_truth, entry)) == [False, True]:
        return ClassTarget(name, (False, True))
    texts = _categories(name, entry)
    kept = all(is_json_number(value) for value in entry)
    return ClassTarget(name, tuple(entry) if kept else texts)
