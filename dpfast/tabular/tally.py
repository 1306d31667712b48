"""What of a table was never declared: counts that no guarantee covers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# Columns that are named in a sentence.
_NAMED = 8


@dataclass
class Tally:
    """How many values were never declared, by column; not private.

    Attributes
    ----------
    rows : int
    undeclared : dict of str to int
        Values that mean none of the declared categories.
    cut : dict of str to int
        Numbers and dates outside their declared range.
    only_ends : set of str or None
        Columns of numbers that were never between the ends of their range; None: not looked for.
    """

    rows: int = 0
    undeclared: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    only_ends: set[str] | None = None

    def see(self, name: str, numbers: NDArray[np.float64], low: float, high: float) -> None:
        """Take in numbers of a column with this declared range."""
        self.count(self.cut, name, (numbers < low) | (numbers > high))
        if self.only_ends and name in self.only_ends and np.any((low < numbers) & (numbers < high)):
            self.only_ends.remove(name)

    def count(self, kind: dict[str, int], name: str, mask: NDArray[np.bool_]) -> None:
        """Add the number of marked values of a column."""
        if number := int(np.count_nonzero(mask)):
            kind[name] = kind.get(name, 0) + number

    def __bool__(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.undeclared or self.cut or self.only_ends)

    def __str__(self) -> str:
        sentences = []
        if self.undeclared:
            sentences.append(
                f"Values that were never declared, of {self.rows:,}: {_numbers(self.undeclared)}; "
                "each has the average effect of its column."
            )
        if self.cut:
            sentences.append(
                f"Outside the declared range, of {self.rows:,}: {_numbers(self.cut)}; each was cut "
                "to it."
            )
        if self.only_ends:
            sentences.append(self.advice)
        return " ".join(sentences)

    @property
    def advice(self) -> str:
        """What to do about columns that only have two values; empty if there are none."""
        if not self.only_ends:
            return ""
        names = sorted(self.only_ends)
        shown = ", ".join(map(repr, names[:_NAMED])) + " and more" * (len(names) > _NAMED)
        return (
            f"Declared as numbers, but only at the ends of their range: {shown}. Where these are "
            "truth values, declare [false, true]: noise then costs far less."
        )


def _numbers(counts: Mapping[str, int]) -> str:
    """Counts by column, the largest first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{count:,} in {name!r}" for name, count in ordered[:_NAMED])
    more = len(ordered) - _NAMED
    return shown if more <= 0 else f"{shown} and some in {more} more columns"
