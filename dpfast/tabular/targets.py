"""Columns that are no features: the target, the weight of a row, and its exposure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.preprocessing.matching import Index
from dpfast.tabular.tally import Tally
from dpfast.tabular.values import TruthIndex, Values, WrongValue, kind_of, parse_numbers

_MOST = float(np.finfo(np.float64).max)


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
        """Positions of the labels of rows."""
        index = index or self.index()
        codes = index.codes(values)
        if (wrong := codes >= index.unknown).any():
            row = int(np.argmax(wrong))
            shown = " or ".join(repr(label) for label in self.classes[:8])
            raise WrongValue(
                self.name,
                row,
                f"the class {shown}{' or ...' if len(self.classes) > 8 else ''}",
                kind_of(values[row]),
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

    def parse(
        self, values: Values, tally: Tally | None = None, exposure: Any = 1.0
    ) -> NDArray[np.float64]:
        """The numbers of rows, over their exposures, not cut."""
        found = parse_numbers(self.name, values, ())
        if (gone := np.isnan(found)).any():
            row, advice = int(np.argmax(gone)), "Remove the rows without a target."
            raise WrongValue(self.name, row, "a finite number", "none", advice)
        with np.errstate(over="ignore"):
            found /= exposure
        np.clip(found, -_MOST, _MOST, out=found)
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
        """The weights of rows."""
        return _numbers(self.name, values, "a weight >= 0", np.greater_equal)


@dataclass(frozen=True)
class Exposure:
    """A column that says how long each row was watched, or how many units are in it.

    Attributes
    ----------
    name : str
    high : float
        Public bound; a row with a larger one weighs as much as with it.
    """

    name: str
    high: float

    def parse(self, values: Values) -> NDArray[np.float64]:
        """The exposures of rows."""
        return _numbers(self.name, values, "an exposure > 0", np.greater)


def _numbers(name: str, values: Values, expected: str, beyond: np.ufunc) -> NDArray[np.float64]:
    """The numbers of rows, of which the first that is not `beyond` 0 is refused."""
    found = parse_numbers(name, values, ())
    if (wrong := ~beyond(found, 0.0)).any():
        row = int(np.argmax(wrong))
        raise WrongValue(name, row, expected, kind_of(found[row]))
    return found
