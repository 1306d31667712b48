"""How a CSV file is written: what stands between fields, and how its numbers look."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from dpfast.errors import DataError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_THOUSANDS = (".", ",", "'", " ")


@dataclass(frozen=True)
class CsvForm:
    """How a CSV file is written; nothing of it is guessed.

    Parameters
    ----------
    separator : {",", ";", tab, "|"}
    decimal : {".", ","}
        What stands between a number and its fraction.
    thousands : {".", ",", "'", " "} or None
        What may stand between groups of three digits; " " is any kind of space.
    encoding : str
        One that Python knows; a byte order mark is skipped in UTF-8.

    Raises
    ------
    DataError
        If an entry is none of these.

    Examples
    --------
    >>> CsvForm(decimal=",", thousands=".").plain("-1.234,50")
    '-1234.50'
    """

    separator: str = ","
    decimal: str = "."
    thousands: str | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        choices = {"separator": tuple(SEPARATORS), "decimal": (".", ",")}
        if self.thousands is not None:
            choices["thousands"] = tuple(sign for sign in _THOUSANDS if sign != self.decimal)
        for name, known in choices.items():
            if (value := getattr(self, name)) not in known:
                shown = ", ".join(map(repr, known))
                raise DataError(f'"{name}" of CSV files must be one of {shown}; got {value!r}.')
        try:
            "".encode(self.encoding)
        except (LookupError, ValueError, TypeError):
            raise DataError(
                '"encoding" of CSV files must be one that Python knows, such as "utf-8", "cp1252" '
                f'or "latin-1"; got {self.encoding!r}.'
            ) from None

    @property
    def points(self) -> bool:
        """Whether numbers look as Python writes them."""
        return self.decimal == "." and self.thousands is None

    @property
    def utf8(self) -> bool:
        """Whether the text is in UTF-8."""
        return self.encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig")

    @property
    def example(self) -> str:
        """A number as the file writes it."""
        return f"1{self.thousands or ''}234{self.decimal}5"

    def declaration(self) -> dict[str, str]:
        """What stands in the bounds: what is not the default."""
        usual = asdict(CsvForm())
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    def plain(self, text: str) -> str:
        """A number as Python writes it.

        A ValueError if it is none in this form.
        """
        number = text.strip()
        if not self._pattern.fullmatch(number):
            raise ValueError(text)
        if self.thousands is not None:
            number = re.sub(_pattern_of(self.thousands), "", number)
        return number.replace(self.decimal, ".")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        mark, point = _pattern_of(self.thousands), re.escape(self.decimal)
        grouped = rf"\d{{1,3}}(?:{mark}\d{{3}})+|" if mark else ""
        return re.compile(rf"[+-]?(?:(?:{grouped}\d+)(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?")


USUAL_FORM = CsvForm()
"""Commas between fields, points in numbers, UTF-8."""


def _pattern_of(thousands: str | None) -> str:
    return r"\s" if thousands == " " else re.escape(thousands or "")


def csv_form(declared: Mapping[str, Any]) -> CsvForm:
    """The form that bounds declare among others."""
    return CsvForm(**{name: declared[name] for name in asdict(CsvForm()) if name in declared})
