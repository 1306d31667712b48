"""Kinds of feature columns: what is declared of each, and how its values become numbers.

A column is read in two steps. `coder` makes a compact code of every value: a number, or the
position of a category. `write` makes the encoded columns of codes, a few thousand rows at a time.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dpfast._csv_form import USUAL_FORM, CsvForm
from dpfast.errors import DataError
from dpfast.preprocessing import scale_to_range
from dpfast.preprocessing.matching import Index, meanings
from dpfast.tabular.tally import Tally
from dpfast.tabular.values import (
    Days,
    TruthIndex,
    Values,
    WrongValue,
    day_of,
    in_points,
    meant_in_points,
    parse_dates,
    parse_numbers,
)

Codes = NDArray[Any]
Matrix = NDArray[Any]

INDICATOR = "indicator"
"""The policy that a missing value has a column of its own, and no other effect."""

TRANSFORMS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "log1p": (np.log1p, 0.0),
    "sqrt": (np.sqrt, 0.0),
}
"""Public transforms of numbers by name, and the lowest value that each takes."""


Coder = Callable[[Values, Tally], Codes]


@dataclass(frozen=True)
class Column(ABC):
    """A column of features, as it was declared.

    Attributes
    ----------
    name : str
    missing : None, "indicator", or a value
        None refuses missing values. A value takes their place; with it, as with "indicator", they
        have a column of their own, which is 1.
    missing_values : tuple of str
        Texts that stand for a missing value, besides the empty one.
    """

    name: str
    missing: Any = None
    missing_values: tuple[str, ...] = ()

    @property
    def dtype(self) -> Any:
        """Type in which a code can be kept."""
        return np.dtype(np.float64)

    @property
    @abstractmethod
    def feature_names(self) -> list[str]:
        """Names of the encoded columns."""

    @property
    @abstractmethod
    def kinds(self) -> list[tuple[str, int]]:
        """Kind and width of the encoded columns, see :class:`~dpfast.column_blocks.ColumnBlock`."""

    @property
    @abstractmethod
    def squared_norm(self) -> float:
        """Public bound of the sum of squares of a row's encoded columns."""

    @property
    def unit_step(self) -> float:
        """How far one more, a day, or true in the place of false moves the first encoded column."""
        return 1.0

    @abstractmethod
    def coder(self, form: CsvForm = USUAL_FORM) -> Coder:
        """A function that makes codes of values, of text in a form.

        It may remember values, so it is not kept.
        """

    @abstractmethod
    def write(self, codes: Codes, out: Matrix) -> None:
        """Write the encoded columns of codes; `out` has shape (n, len(feature_names))."""

    @abstractmethod
    def parts(self, codes: Codes) -> list[tuple[Codes, Any]]:
        """The same columns as parts of a :class:`~dpfast.coded.CodedMatrix`, numbers in float32."""

    @property
    @abstractmethod
    def stored(self) -> tuple[int, int]:
        """Entries of a row that are mostly not zero, and bytes of a row in :meth:`parts`."""

    @abstractmethod
    def declaration(self) -> dict[str, Any]:
        """What stands in the bounds, as plain JSON types."""

    def _options(self) -> dict[str, Any]:
        """The part of the declaration that all kinds have."""
        options = {} if self.missing is None else {"missing": self.missing}
        if self.missing_values:
            options["missing_values"] = list(self.missing_values)
        return options

    def _with_indicator(self) -> str:
        """The declaration with a column for missing values, as text; a long one is cut."""
        text = json.dumps({**self.declaration(), "missing": INDICATOR}, default=str)
        return text if len(text) <= 80 else f'{{..., "missing": "{INDICATOR}"}}'

    def _check_missing(self, mask: NDArray[np.bool_]) -> None:
        """Refuse missing values where nothing was declared for them."""
        if self.missing is None and mask.any():
            raise WrongValue(
                self.name,
                int(np.argmax(mask)),
                "a value",
                "a missing one",
                "Nothing is declared for missing values of this column. Declare it as "
                f"{self._with_indicator()} (they get a column of their own), give a value in place "
                f'of "{INDICATOR}", or remove these rows.',
            )


@dataclass(frozen=True)
class _Scaled(Column):
    """Values of a declared range, which is mapped to [-1, 1]."""

    @property
    def feature_names(self) -> list[str]:
        return [self.name] if self.missing is None else [self.name, f"{self.name}_<missing>"]

    @property
    def kinds(self) -> list[tuple[str, int]]:
        return [("number", 1)] if self.missing is None else [("number", 1), ("one-hot", 1)]

    @property
    def squared_norm(self) -> float:
        return 1.0 if self.missing is None else 1.0 + self._fill_bound() ** 2

    @property
    def unit_step(self) -> float:
        low, high = self._ends()
        return 2.0 / (high - low)

    def _fill_bound(self) -> float:
        return abs(self._fill())

    def _fill(self) -> float:
        """What a missing value is mapped to: the middle, unless a value was declared."""
        if self.missing is None or self.missing == INDICATOR:
            return 0.0
        place = scale_to_range(np.array([self._number(self.missing)]), *self._ends())
        return float(place[0])

    @abstractmethod
    def _number(self, value: Any) -> float:
        """A declared value as the number by which it is coded."""

    @abstractmethod
    def _ends(self) -> tuple[float, float]:
        """The codes that are mapped to -1 and 1."""

    def write(self, codes: Codes, out: Matrix) -> None:
        out[:, 0] = scale_to_range(codes, *self._ends())
        if self.missing is not None:
            gone = np.isnan(codes)
            out[gone, 0] = self._fill()
            out[:, 1] = gone

    def parts(self, codes: Codes) -> list[tuple[Codes, Any]]:
        out = np.empty((len(codes), len(self.feature_names)), dtype=np.float32, order="F")
        self.write(codes, out)
        number: tuple[Codes, Any] = out[:, 0], None
        if self.missing is None:
            return [number]
        return [number, (out[:, 1].astype(np.uint8), np.array([[0.0], [1.0]]))]

    @property
    def stored(self) -> tuple[int, int]:
        return (1, 4) if self.missing is None else (1, 5)

    def _cut(
        self, numbers: NDArray[np.float64], low: float, high: float, tally: Tally
    ) -> NDArray[np.float64]:
        self._check_missing(np.isnan(numbers))
        tally.see(self.name, numbers, low, high)
        return np.clip(numbers, low, high)


@dataclass(frozen=True)
class NumberColumn(_Scaled):
    """Numbers in a public range; values outside are cut to it.

    Attributes
    ----------
    low, high : float
    transform : str or None
        Applied to the values and to the range, see :data:`TRANSFORMS`.
    learn : bool
        Whether a narrower range is to be learned from the data, privately.
    learned : (float, float) or None
        What was learned, after the transform.
    """

    low: float = -1.0
    high: float = 1.0
    transform: str | None = None
    learn: bool = False
    learned: tuple[float, float] | None = None

    def coder(self, form: CsvForm = USUAL_FORM) -> Coder:
        def code(values: Values, tally: Tally) -> Codes:
            values = in_points(self.name, values, self.missing_values, form)
            numbers = parse_numbers(self.name, values, self.missing_values)
            return self._moved(self._cut(numbers, self.low, self.high, tally))

        return code

    def declaration(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"range": [self.low, self.high]}
        if self.transform is not None:
            entry["transform"] = self.transform
        if self.learn:
            entry["learn"] = True
        if self.learned is not None:
            entry["learned"] = list(self.learned)
        return {**entry, **self._options()}

    def transformed_range(self) -> tuple[float, float]:
        """The declared range after the transform."""
        low, high = self._moved(np.array([self.low, self.high])).tolist()
        return low, high

    def with_learned(self, low: float, high: float) -> NumberColumn:
        """The same column with a range that was learned."""
        return replace(self, learned=(low, high))

    def _moved(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.transform is None:
            return numbers
        moved: NDArray[np.float64] = TRANSFORMS[self.transform][0](numbers)
        return moved

    def _number(self, value: Any) -> float:
        return float(self._moved(np.array(float(value))))

    def _ends(self) -> tuple[float, float]:
        return self.transformed_range() if self.learned is None else self.learned

    def _fill_bound(self) -> float:
        # Where the fill lies in a range that is not known yet, nobody knows.
        return 1.0 if self.learn and self.missing != INDICATOR else super()._fill_bound()


@dataclass(frozen=True)
class DateColumn(_Scaled):
    """Dates between a first and a last one; others are cut to them.

    Attributes
    ----------
    first, last : str
    form : str or None
        As for :meth:`datetime.datetime.strptime`; None is ISO 8601, as in 2024-12-31.
    """

    first: str = ""
    last: str = ""
    form: str | None = None

    def coder(self, form: CsvForm = USUAL_FORM) -> Coder:
        low, high = self._ends()
        known = Days(self.form)

        def code(values: Values, tally: Tally) -> Codes:
            days = parse_dates(self.name, values, self.missing_values, known)
            return self._cut(days, low, high, tally)

        return code

    def declaration(self) -> dict[str, Any]:
        form = {} if self.form is None else {"format": self.form}
        return {"dates": [self.first, self.last], **form, **self._options()}

    def _number(self, value: Any) -> float:
        return day_of(value, self.form)

    def _ends(self) -> tuple[float, float]:
        return day_of(self.first, self.form), day_of(self.last, self.form)


@dataclass(frozen=True)
class _Listed(Column):
    """Values of a declared list, coded by their positions in it."""

    other = False  # whether values that are not in it are declared, too

    @property
    def dtype(self) -> Any:
        return np.min_scalar_type(self._index().missing)

    @abstractmethod
    def _index(self) -> Index:
        """What finds the position of a value."""

    def parts(self, codes: Codes) -> list[tuple[Codes, Any]]:
        return [(codes, self._levels())]

    @property
    def stored(self) -> tuple[int, int]:
        return 1, self.dtype.itemsize

    @property
    def squared_norm(self) -> float:
        return 1.0 if self.missing in (None, INDICATOR) else 2.0

    def _levels(self) -> Any:
        """The encoded columns of each code."""
        codes = np.arange(self._index().missing + 1)
        table = np.empty((len(codes), len(self.feature_names)))
        self.write(codes, table)
        return table

    def coder(self, form: CsvForm = USUAL_FORM) -> Coder:
        index = self._index()

        def code(values: Values, tally: Tally) -> Codes:
            self._check_type(values)
            codes = index.codes(meant_in_points(values, index, form))
            if not self.other:
                tally.count(tally.undeclared, self.name, codes == index.unknown)
            self._check_missing(codes == index.missing)
            return codes

        return code

    def _check_type(self, values: Values) -> None:
        """Refuse a column that can hold none of the categories."""
        if not isinstance(values, np.ndarray):
            return
        if values.dtype.kind == "M":
            raise DataError(
                f"column {self.name!r}: expected {self._expected()}; got dates. Declare "
                '{"dates": [first, last]}, or store them as text.'
            )
        if not self._has_numbers():
            raise DataError(
                f"column {self.name!r}: expected {self._expected()}; got {values.dtype}. Declare "
                '{"range": [low, high]} if it holds numbers, or list the codes that it holds.'
            )

    @abstractmethod
    def _expected(self) -> str:
        """The declared values, in words."""

    def _has_numbers(self) -> bool:
        """Whether a number can mean one of the values."""
        return True


@dataclass(frozen=True)
class BooleanColumn(_Listed):
    """Truth values: false is mapped to -1, true to 1, what is neither to 0.

    Attributes
    ----------
    words : (str, str) or None
        What stands for false and for true; None takes the usual words and 0 and 1.
    """

    words: tuple[str, str] | None = None

    @property
    def feature_names(self) -> list[str]:
        return [self.name] if self.missing is None else [self.name, f"{self.name}_<missing>"]

    @property
    def kinds(self) -> list[tuple[str, int]]:
        return [("binary", 1), ("one-hot", 1)][: len(self.feature_names)]

    def declaration(self) -> dict[str, Any]:
        words = [False, True] if self.words is None else list(self.words)
        return {"boolean": words, **self._options()}

    def _index(self) -> Index:
        if self.words is None:
            return TruthIndex(self.missing_values)
        return Index(self.words, self.missing_values)

    def write(self, codes: Codes, out: Matrix) -> None:
        fill = 0.0
        if self.missing not in (None, INDICATOR):
            fill = (-1.0, 1.0)[self._index()[str(self.missing)]]
        # False, true, undeclared, missing.
        out[:, 0] = np.array([-1.0, 1.0, 0.0, fill])[codes]
        if self.missing is not None:
            out[:, 1] = codes == 3

    @property
    def unit_step(self) -> float:
        return 2.0

    def _expected(self) -> str:
        return "truth values"

    def _has_numbers(self) -> bool:
        return self.words is None or _any_numbers(self.words)


@dataclass(frozen=True)
class CategoryColumn(_Listed):
    """Values of a public list of categories.

    A value that was never declared counts in equal shares as each of them: its effect is the
    average one, whatever the coefficients are.

    Attributes
    ----------
    categories : tuple of str
    other : bool
        Whether values that are not in the list have a column of their own.
    reference : str or None
        A category without a column: effects of the others are differences to its own.
    """

    categories: tuple[str, ...] = ()
    other: bool = False
    reference: str | None = None

    @property
    def feature_names(self) -> list[str]:
        ends = [c for c in self.categories if c != self.reference]
        ends += ["<other>"] * self.other
        if self.missing is not None:
            ends.append("<missing>")
        return [f"{self.name}_{end}" for end in ends]

    @property
    def kinds(self) -> list[tuple[str, int]]:
        # A missing value that is filled in has two ones.
        filled = self.missing not in (None, INDICATOR)
        width = len(self.feature_names) - filled
        return [("one-hot", width)] + [("one-hot", 1)] * filled

    def declaration(self) -> dict[str, Any]:
        other = {"other": True} if self.other else {}
        reference = {} if self.reference is None else {"reference": self.reference}
        return {"categories": list(self.categories), **other, **reference, **self._options()}

    def _index(self) -> Index:
        return Index(self.categories, self.missing_values)

    def write(self, codes: Codes, out: Matrix) -> None:
        k = len(self.categories)
        out[...] = 0.0
        self._mark(out, codes, np.flatnonzero(codes < k))
        unknown = codes == k
        own = k - (self.reference is not None)
        if self.other:
            out[unknown, own] = 1.0
        else:
            out[unknown, :own] = 1.0 / k
        if self.missing is not None:
            missing = codes == k + 1
            out[missing, -1] = 1.0
            if self.missing != INDICATOR:
                fill = np.full(len(codes), self._index()[str(self.missing)])
                self._mark(out, fill, np.flatnonzero(missing))

    def _mark(self, out: Matrix, codes: Codes, rows: NDArray[np.intp]) -> None:
        """Write the ones of declared categories in these rows."""
        places = codes[rows].astype(np.intp)
        if self.reference is not None:
            skipped = self.categories.index(self.reference)
            rows, places = rows[places != skipped], places[places != skipped]
            places = places - (places > skipped)
        out[rows, places] = 1.0

    def _levels(self) -> Any:
        k, width = len(self.categories), len(self.feature_names)
        # What stands for no single category; a dense table of all would have k squared entries.
        last = np.empty((2, width))
        self.write(np.array([k, k + 1]), last)
        first = scipy.sparse.eye_array(k, width)
        if self.reference is not None:
            kept = np.arange(k) != self.categories.index(self.reference)
            first = scipy.sparse.eye_array(k, k, format="csc")[:, kept]
            first.resize((k, width))
        return scipy.sparse.vstack([first, last], "csr")

    def _expected(self) -> str:
        shown = ", ".join(map(repr, self.categories[:5]))
        return f"one of the categories {shown}{', ...' if len(self.categories) > 5 else ''}"

    def _has_numbers(self) -> bool:
        return _any_numbers((*self.categories, *self.missing_values))


def _any_numbers(words: tuple[str, ...]) -> bool:
    """Whether a number or a truth value can mean one of them."""
    return any(len(meanings(word)) > 1 for word in words)
