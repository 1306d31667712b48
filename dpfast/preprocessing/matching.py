"""Which declared category a value means, however it is written: ``TRUE`` is ``True``, 1.0 is 1."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Hashable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

# "007" is a code and not the number 7.
NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?")
# Texts that a column may keep in mind; a column of names has no end of them.
REMEMBERED = 100_000


def folded(text: str) -> str:
    """Text without the difference between capital and small letters and between kinds of spaces.

    An accented letter and the same in two characters are one, too.
    """
    return unicodedata.normalize("NFC", " ".join(text.split()).casefold())


def meanings(text: str) -> list[tuple[str, Hashable]]:
    """What a text may mean, the surest first.

    Examples
    --------
    >>> meanings("True")
    [('text', 'true'), ('truth', True)]
    >>> meanings("1.0")
    [('text', '1.0'), ('number', 1.0), ('truth', True)]
    >>> meanings("007")
    [('text', '007')]
    """
    plain = folded(text)
    found: list[tuple[str, Hashable]] = [("text", plain)]
    if NUMBER.fullmatch(plain):
        # In float64 two codes of 17 digits could be one number.
        whole = len(plain) < 100 and plain.lstrip("+-").isdigit()
        number = int(plain) if whole else float(plain)
        found.append(("number", number))
        if number in (0, 1):
            found.append(("truth", bool(number)))
    elif plain in ("true", "false"):
        found.append(("truth", plain == "true"))
    return found


class Distinct(Sequence[str]):
    """A column of text by its distinct texts, in the order in which they first appear.

    Parameters
    ----------
    texts : sequence of str
    places : integer ndarray of shape (n,)
        Position of each row's text.

    Examples
    --------
    >>> list(Distinct(["a", "b"], np.array([0, 1, 0])))
    ['a', 'b', 'a']
    """

    def __init__(self, texts: Sequence[str], places: NDArray[Any]) -> None:
        self.texts, self.places = texts, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return Distinct(self.texts, self.places[row])
        return self.texts[self.places[row]]

    def __iter__(self) -> Iterator[str]:
        return map(self.texts.__getitem__, self.places.tolist())


class Index(dict[str, int]):
    """Text to the position of the category that it means.

    A text that means none of them has the position `unknown`, one that stands for a missing value
    the position ``unknown + 1``. A meaning that two categories share says nothing.

    Parameters
    ----------
    categories : sequence of str
        They differ from each other.
    missing : collection of str, default=()
        Texts that stand for a missing value, besides the empty one.

    Examples
    --------
    >>> index = Index(["No", "Yes"])
    >>> index["yes"], index["NO "], index["perhaps"], index[""]
    (1, 0, 2, 3)
    """

    def __init__(self, categories: Sequence[str], missing: Collection[str] = ()) -> None:
        self.unknown = len(categories)
        self.missing = self.unknown + 1
        super().__init__({category: code for code, category in enumerate(categories)})
        self._by_meaning: dict[Hashable, int] = {}
        shared = set()
        for code, category in enumerate(categories):
            for meaning in meanings(category):
                if self._by_meaning.setdefault(meaning, code) != code:
                    shared.add(meaning)
        for meaning in shared:
            del self._by_meaning[meaning]
        for text in ("", *missing):
            self.setdefault(text, self.missing)
        # What stands for a missing value does so as a number, too, and as no truth value.
        self._missing = {m for text in ("", *missing) for m in meanings(text) if m[0] != "truth"}

    def __missing__(self, text: str) -> int:
        code = self._match(text)
        if len(self) < REMEMBERED:
            self[text] = code
        return code

    def _match(self, text: str) -> int:
        found = meanings(text)
        for meaning in found:
            if meaning in self._by_meaning:
                return self._by_meaning[meaning]
        return self.unknown if self._missing.isdisjoint(found) else self.missing

    def spells(self, text: str) -> bool:
        """Whether a category or a missing value is written so."""
        plain = meanings(text)[0]
        return plain in self._by_meaning or plain in self._missing

    def codes(self, values: Sequence[str] | NDArray[Any]) -> NDArray[np.intp]:
        """Positions of a column's values."""
        if isinstance(values, Distinct):
            codes: NDArray[np.intp] = self.codes(values.texts)[values.places]
            return codes
        if not isinstance(values, np.ndarray):
            return np.fromiter(map(self.__getitem__, values), np.intp, len(values))
        distinct, places = np.unique(values, return_inverse=True)
        return np.array([self[written(value)] for value in distinct], dtype=np.intp)[places]


def written(value: Any) -> str:
    """An entry of a typed array as text; NaN as an empty one, whole numbers without a point."""
    plain = value.item()
    if isinstance(plain, float) and plain.is_integer():
        return str(int(plain))
    return "" if plain != plain else str(plain)


def is_null(entry: Any) -> bool:
    """Whether an entry is no value; comparing a signaling NaN would raise an error."""
    if isinstance(entry, Decimal):
        return entry.is_nan()
    return is_null_type(type(entry)) or bool(entry != entry)


def is_null_type(kind: type) -> bool:
    """None, and pandas' NA and NaT, which need not be imported to be known."""
    return kind is type(None) or kind.__name__ in ("NAType", "NaTType")


def alone(entries: Any) -> NDArray[Any]:
    """Entries as they are where their types differ: in one array they would become one type.

    Which one that is, and what the others are then, a single entry decides.
    """
    if not isinstance(entries, list | tuple):
        return np.asarray(entries)
    if len(set(map(type, entries))) == 1:
        made = np.array(entries)
        # Some integers would be rounded, as all times are to one unit; texts may end in zeros.
        if made.dtype.kind not in "UMf" or isinstance(entries[0], float | np.floating):
            return made
    return objects(entries)


def objects(entries: Sequence[Any]) -> NDArray[Any]:
    """Entries as they are, in one array."""
    return np.fromiter(entries, dtype=object, count=len(entries))
