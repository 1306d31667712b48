"""From the targets of a table to those of a loss, and from its weights back to coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast._arrays import as_float64, check_alike
from dpfast._typing import Vector
from dpfast.losses import Loss

# Means from a twentieth of the highest target are above the margin 0, from which solvers start.
COUNT_WIDTH = 3.0
_ZERO = 2.0**-20
#: No margin is refused.
ANY = (-math.inf, math.inf)
# A range of log-means is at least so wide, lest rounding matter.
_LEAST_WIDTH = 0.1


class Targets(Protocol):
    """How targets are brought into the range of a loss; can be pickled."""

    @property
    def loss(self) -> Loss:
        """The loss of the targets that come out."""

    @property
    def unit(self) -> float:
        """What weights are multiplied by to be coefficients."""

    @property
    def center(self) -> float:
        """What is added to the intercept."""

    def __call__(self, y: NDArray[Any]) -> Vector:
        """The loss's targets of some rows."""


def units_of(targets: Targets, dim: int, constant: float) -> tuple[Vector, Vector]:
    """Factors and shifts from a problem's weights to coefficients, the intercept's last.

    `constant` is the value of the constant column, 0 without one.
    """
    units, shift = np.full(dim, targets.unit), np.zeros(dim)
    if constant != 0.0:
        units[-1] *= constant
        shift[-1] = targets.center
    return units, shift


@dataclass(frozen=True, eq=False)
class Signs:
    """+1 for one of the declared classes, -1 for the others."""

    loss: Loss
    classes: NDArray[Any]
    positive: Any
    unit: ClassVar[float] = 1.0
    center: ClassVar[float] = 0.0

    def __call__(self, y: NDArray[Any]) -> Vector:
        """The signs.

        Raises
        ------
        ValueError
            If a label was not declared, or is text where the classes are none; it is private, and
            not quoted.
        """
        check_alike("y", y, self.classes)
        if not np.all(np.isin(y, self.classes)):
            raise ValueError(
                f"y must hold only the declared classes {self.classes.tolist()}; it has at least "
                "one other label."
            )
        return np.where(y == self.positive, 1.0, -1.0)


@dataclass(frozen=True)
class Affine:
    """Targets brought to [-1, 1]; beyond the public range they are clipped."""

    loss: Loss
    center: float
    unit: float
    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def of(cls, loss: Loss, low: float, high: float, *, centered: bool) -> Affine:
        """The range is brought to [-1, 1]; without an intercept it is only divided."""
        if not centered:
            return cls(loss, 0.0, max(abs(low), abs(high)) or 1.0, low, high)
        return cls(loss, 0.5 * low + 0.5 * high, (0.5 * high - 0.5 * low) or 1.0, low, high)

    def __call__(self, y: NDArray[Any]) -> Vector:
        """The loss's targets."""
        with np.errstate(over="ignore"):  # a warning would tell of a target
            scaled = (as_float64("y", y) - self.center) / self.unit
        return np.clip(scaled, -1.0, 1.0)

    def prediction_range(self, margins: tuple[float, float] = ANY) -> tuple[float, float]:
        """The public range, as far as the loss's margins may be in theirs."""
        low, high = (self.center + self.unit * float(margin) for margin in margins)
        return min(max(low, self.low), self.high), max(min(high, self.high), self.low)


@dataclass(frozen=True)
class LogMean:
    """Targets of a loss with a log link: divided by a public constant, which moves the intercept.

    `low` and `high` are the public range of the targets.
    """

    loss: Loss
    center: float
    low: float
    high: float
    unit: float = 1.0

    @classmethod
    def of(
        cls,
        loss: Loss,
        low: float,
        high: float,
        *,
        centered: bool,
        count_width: float = COUNT_WIDTH,
    ) -> LogMean:
        """From the loss, of any width, and the public range of the targets.

        With an intercept margins are 0 in the middle of the range of positive targets (in
        logarithms), and `count_width` below the highest one for those that can be 0; without one
        nothing can be divided.
        """
        positive = loss.target_range[0] > 0.0
        log_low, log_high = math.log(low) if positive else -math.inf, math.log(high)
        if centered and positive:
            center, width = 0.5 * (log_low + log_high), 0.5 * (log_high - log_low)
        elif centered:
            center, width = log_high - count_width, count_width
        else:
            center, width = 0.0, max(log_high, -log_low if positive else 0.0)
        # A count that far below the highest one stands for 0.
        lowest = low * math.exp(-center) * (1.0 - 1e-12) if low > high * _ZERO else 0.0
        wide = replace(loss, width=max(width, _LEAST_WIDTH) * (1.0 + 1e-12), lowest=lowest)
        return cls(wide, center, low, high)

    def __call__(self, y: NDArray[Any]) -> Vector:
        """The loss's targets."""
        clipped = np.clip(as_float64("y", y), self.low, self.high)
        return np.clip(clipped / math.exp(self.center), *self.loss.target_range)

    def prediction_range(self, margins: tuple[float, float] = ANY) -> tuple[float, float]:
        """Of the means: the public range above 0, as far as the loss's margins may be in theirs."""
        lowest = self.low or self.high * 2.0**-500
        low, high = (math.exp(min(self.center + float(margin), 700.0)) for margin in margins)
        return min(max(low, lowest), self.high), max(min(high, self.high), lowest)
