"""A table of coefficients as text, as HTML and as a data frame."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from dpfast.inference.estimates import REASONS, Estimates

_MARKS = "¹²³"
# Columns of numbers before the ratios, and significant digits.
_PLAIN, _DIGITS = 6, 4


@dataclass(frozen=True)
class Summary:
    """What an analyst reads of a fit.

    Attributes
    ----------
    title : str
    facts : tuple of (str, str)
        What stands above the table.
    estimates : Estimates
    level : float
        Of the intervals.
    ratio : str
        What coefficients are the logarithms of, which is then shown: "odds ratio", of counts "rate
        ratio", of costs and durations "mean ratio"; empty if they are none.
    notes : tuple of str
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    estimates: Estimates
    level: float
    ratio: str
    notes: tuple[str, ...]

    def __post_init__(self) -> None:
        self.estimates.conf_int(self.level)  # refuses a level that is none at once

    @property
    def headings(self) -> tuple[str, ...]:
        """Of the columns of numbers."""
        tail = 0.5 - 0.5 * self.level
        ends = f"[{tail:.3g}", f"{1.0 - tail:.3g}]"
        initials = "".join(word[0] for word in self.ratio.split())
        ratios = (self.ratio, *(f"{initials} {end}" for end in ends)) if self.ratio else ()
        return ("coef", "std err", "z", "P>|z|", *ends, *ratios)

    def numbers(self) -> dict[str, Any]:
        """Columns of numbers by their headings."""
        values = self._values()
        if self.ratio:
            with np.errstate(over="ignore"):
                values += [np.exp(values[0]), *np.exp(values[-2:])]
        return dict(zip(self.headings, values, strict=True))

    def records(self) -> list[dict[str, Any]]:
        """A mapping a coefficient; `refused` says why one has no standard error, which is NaN."""
        found, values = self.estimates, self._values()
        names = ("coef", "std_err", "z", "p_value", "lower", "upper")
        return [
            {"name": name, **dict(zip(names, row, strict=True)), "refused": REASONS[code]}
            for name, row, code in zip(
                found.names, np.column_stack(values).tolist(), found.refused, strict=True
            )
        ]

    def _values(self) -> list[Any]:
        """Coefficients, errors, z and p values, and the ends of the intervals."""
        found = self.estimates
        ends = found.conf_int(self.level)
        return [found.coefficients, found.errors, found.zvalues, found.pvalues, *ends.T]

    def to_frame(self) -> Any:
        """The table as a pandas data frame, a row a coefficient."""
        import pandas as pd

        return pd.DataFrame(self.numbers(), index=list(self.estimates.names))

    def __str__(self) -> str:
        rows = self._cells()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if k == 0 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        rule = "=" * max(map(len, [*lines, self.title]))
        head = max(len(name) for name, _ in self.facts)
        facts = [f"{name.ljust(head)}  {value}" for name, value in self.facts]
        return "\n".join(
            [
                *(self.title, rule, *facts, rule, lines[0], "-" * len(rule)),
                *(*lines[1:], rule, *self._footnotes()),
            ]
        )

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        body = "".join(
            f"<tr><th>{escape(row[0])}</th>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in rows
        )
        facts = "; ".join(f"{escape(name)}: {escape(value)}" for name, value in self.facts)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._footnotes())
        return (
            f"<table><caption>{escape(self.title)}<br>{facts}</caption>"
            f"<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>{notes}"
        )

    def _cells(self) -> list[tuple[str, ...]]:
        """Headings, and a row a coefficient; a refused one has its coefficient and a mark."""
        found = self.estimates
        columns = list(self.numbers().values())
        rows = [("", *self.headings)]
        for k, name in enumerate(found.names):
            plain, ratios = columns[:_PLAIN], columns[_PLAIN:]
            written = [_written(column[k]) for column in plain]
            written += [_written(column[k], around=1.0) for column in ratios]
            rows.append((name + self._marks().get(found.refused[k], ""), *written))
        return rows

    def _marks(self) -> dict[int, str]:
        """The marks of the reasons that are given, counted from one."""
        return dict(zip(sorted(set(self.estimates.refused) - {0}), _MARKS, strict=False))

    def _footnotes(self) -> list[str]:
        """Why some have no standard error, then the notes."""
        why = [
            f"{mark} No standard error: {REASONS[code]}." for code, mark in self._marks().items()
        ]
        return [*why, *self.notes]


def _written(number: float, around: float = 0.0) -> str:
    """A number with as many digits as its distance from another needs."""
    if not np.isfinite(number):
        return "-"
    away = abs(number - around)
    more = max(0, -1 - math.floor(math.log10(away))) if around and away else 0
    return f"{number:.{min(_DIGITS + more, 15)}g}"
