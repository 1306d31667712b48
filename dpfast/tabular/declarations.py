"""From an entry of a bounds file to the column, target, weight or exposure that it declares."""

from __future__ import annotations

import datetime
import json
import math
import re
import reprlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dpfast._files import is_json_number, show_names
from dpfast._validation import did_you_mean
from dpfast.errors import DataError
from dpfast.preprocessing.matching import NUMBER
from dpfast.tabular.columns import (
    INDICATOR,
    TRANSFORMS,
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
)
from dpfast.tabular.targets import ClassTarget, Exposure, RangeTarget, Target, Weight
from dpfast.tabular.values import day_of

#: Pairs of numbers that, for a target, are labels and not a range.
_LABELS = ((0, 1), (1, 2), (-1, 1))
_DATE_LIKE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}\b")
# Short, and safe for values nested too deeply for repr.
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 60
show = _REPR.repr


# --- entries -------------------------------------------------------------------------------------

_KINDS = {
    "range": ("transform", "learn", "learned"),
    "dates": ("format",),
    "boolean": (),
    "categories": ("other", "reference"),
}


def parse_column(name: Any, entry: Any, categorical: bool, roles: Mapping[str, Any]) -> Column:
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
            f"{show(entry)}.{''.join(did_you_mean(str(key), kinds) for key in entry)}"
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
        if len(entry) == 2 and not categorical:
            texts = [value if isinstance(value, str) else repr(value) for value in entry]
            if all(map(_is_date, texts)):
                return "dates", entry
            _check_quotes(name, texts)
        return "categories", entry
    return ("range" if len(entry) <= 2 else "categories"), entry


def _check_quotes(name: Any, entry: Any) -> None:
    """Refuse two texts in quotes that are more often the ends of a range than two categories."""
    shown = json.dumps([text[:20] for text in entry])
    if all(_DATE_LIKE.match(text.strip()) for text in entry):
        raise DataError(
            f"column {name!r}: two dates in another form than 2024-12-31 may be a range or two "
            f'categories: write {{"dates": {shown}, "format": "%d.%m.%Y"}}, with their form, or '
            f'{{"categories": {shown}}}.'
        )
    if all(NUMBER.fullmatch(text.strip().lower()) for text in entry):
        low, high = map(float, entry)
        if (low, high) not in _LABELS:
            raise DataError(
                f"column {name!r}: two numbers in quotes may be a range or two categories: write "
                f'[{low:g}, {high:g}], or {{"categories": {shown}}}.'
            )


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


def _example(form: str | None) -> str:
    """Two dates as the declaration would have them, after words that say so."""
    days = datetime.date(2015, 1, 1), datetime.date(2024, 12, 31)
    with suppress(ValueError):  # a form that nothing can be written in
        texts = [day.isoformat() if form is None else day.strftime(form) for day in days]
        return f", such as {json.dumps(texts, ensure_ascii=False)}"
    return ""


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
            f"{'' if form is None else f' of the form {form}'}{_example(form)}, the earlier one "
            f"first; got {show(value)}."
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
    column = CategoryColumn(name, categories=_categories(name, value), other=other, **common)
    alone = len(column.categories) == 1 and not other and column.missing is None
    if alone and "reference" not in options:
        shown = json.dumps([column.categories[0][:60]])
        raise DataError(
            f"column {name!r}: one category alone carries no information, since undeclared values "
            f'count as it does; got {shown}. Declare {{"categories": {shown}, "other": true}}, '
            "which tells it from all others, or leave the column out."
        )
    if "reference" not in options:
        return column
    reference = options["reference"]
    if isinstance(reference, bool) or not isinstance(reference, str | int | float):
        place = len(column.categories)
    else:
        place = column._index()[str(reference).strip()]
    if place >= len(column.categories) or len(column.categories) < 2:
        raise DataError(
            f"column {name!r}: reference must be one of two or more declared categories; got "
            f"{show(reference)}."
        )
    return replace(column, reference=column.categories[place])


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
        hint = ""
        if start > stop:
            hint = f" Did you mean {show([high, low])}?"
        elif start == stop:
            hint = " A column with one possible value carries no information: leave it out."
        raise DataError(
            f"column {name!r}: expected two finite numbers [low, high], low < high; got "
            f"{show(value)}.{hint}"
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
                + " Truth values are declared as [false, true]."
                * isinstance(value, bool)
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


def parse_target(name: str, entry: Any, task: str | None) -> Target:
    options: dict[str, Any] = {}
    if isinstance(entry, Mapping):
        if "transform" in entry:
            raise DataError(
                f"target {name!r}: expected no transform, which is for features; got "
                f"{show(entry)}. Of skewed costs or durations a family with a log link, such as "
                "gamma, models the mean."
            )
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
            f"target {name!r}: expected its range, two numbers [low, high], as this model is of "
            f"numbers; got {show(entry)}."
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


# --- weight and exposure -------------------------------------------------------------------------


def parse_weight(name: Any, columns: Mapping[str, Any]) -> Weight | None:
    return None if name is None else Weight(name, _largest("weight", name, columns))


def parse_exposure(name: Any, columns: Mapping[str, Any]) -> Exposure | None:
    return None if name is None else Exposure(name, _largest("exposure", name, columns))


def _largest(role: str, name: Any, columns: Mapping[str, Any]) -> float:
    """Upper end of the range of a column that says how much a row counts."""
    if name not in columns:
        raise DataError(
            f"the {role} {name!r} is not in the bounds. Noise is in proportion to the largest "
            f'one: declare its range, {{"{name}": [0, largest]}}.'
        )
    column = parse_column(name, columns[name], False, {})
    high = column.high if isinstance(column, NumberColumn) else 1.0
    if column != NumberColumn(name, low=0.0, high=high):
        largest = f"{high:g}" if high > 1.0 else "largest"
        raise DataError(
            f"the {role} {name!r} must be declared as [0, {largest}], a range from 0 on with "
            f"nothing beside it, since small ones stay as they are; got {show(columns[name])}."
        )
    return high
