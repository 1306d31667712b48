"""What a declaration says about the columns of an encoded table: public structure for a solver."""

from __future__ import annotations

from dataclasses import dataclass

from dpfast._validation import check_choice, check_integer, keep_python_numbers

KINDS = ("number", "binary", "one-hot")


@dataclass(frozen=True)
class ColumnBlock:
    """Neighboring columns that belong together, because of how they were declared.

    Parameters
    ----------
    kind : {"number", "binary", "one-hot"}
        "number": one column of numbers in a declared range. "binary": one column of -1 and 1, or
        two other numbers of which one is as far below 0 (and 0 for what is unknown). "one-hot":
        columns of zeros except for a single 1; a value that was never declared counts in equal
        shares in all of them.
    start, stop : int
        The columns ``[start, stop)``.

    Examples
    --------
    >>> from dpfast.column_blocks import ColumnBlock
    >>> ColumnBlock("one-hot", 2, 5).width
    3
    """

    kind: str
    start: int
    stop: int

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_integer("start", self.start, low=0)
        check_integer("stop", self.stop, low=int(self.start) + 1)
        keep_python_numbers(self)

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.stop - self.start
