"""From the targets of a table to those of a loss, and from its weights back to coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.losses import Loss

Vector = NDArray[np.float64]


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
            If a label was not declared; it is private, and not quoted.
        """
        if not np.all(np.isin(y, self.classes)):
            raise ValueError(
                f"y must hold only the declared classes {self.classes.tolist()}; it has at least "
                "one other label."
            )
        return np.where(y == self.positive, 1.0, -1.0)


@dataclass(frozen=True)
class Affine:
    """Targets brought to [-1, 1]; those beyond the public range are clipped."""

    loss: Loss
    center: float
    unit: float

    @classmethod
    def of(cls, loss: Loss, low: float, high: float, *, centered: bool) -> Affine:
        """The range is brought to [-1, 1]; without an intercept it is only divided."""
        if not centered:
            return cls(loss, 0.0, max(abs(low), abs(high)) or 1.0)
        return cls(loss, 0.5 * low + 0.5 * high, (0.5 * high - 0.5 * low) or 1.0)

    def __call__(self, y: NDArray[Any]) -> Vector:
        """The loss's targets."""
        scaled = (np.asarray(y, dtype=np.float64) - self.center) / self.unit
        return np.clip(scaled, -1.0, 1.0)
