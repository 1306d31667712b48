"""What stochastic methods and methods for losses with kinks may ask of an objective, beyond
:class:`~dpfast.objectives.Objective`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast.objectives._contract import Objective

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Snapshot:
    """Everything a variance-reduced epoch needs to know about one point.

    `gradient` is the whole objective's, `loss_gradient` that of the mean loss without the ridge;
    `margin` and `derivative` are every row's.
    """

    w: Vector
    value: float
    gradient: Vector
    loss_gradient: Vector
    margin: Vector
    derivative: Vector


@runtime_checkable
class FiniteSum(Protocol):
    """A mean over rows plus a ridge, with steps along the gradients of single rows.

    The members are an :class:`~dpfast.objectives.Objective`'s and these.

    Attributes
    ----------
    n_samples : int
    row_smoothness : float
        Bound of the Hessian's norm of every single row's loss, its weight included, without the
        ridge.
    minimizer_norm : float
        Bound of ``‖w*‖₂``; infinite if none is known.
    """

    @property
    def n_samples(self) -> int: ...

    @property
    def row_smoothness(self) -> float: ...

    @property
    def minimizer_norm(self) -> float: ...

    def snapshot(self, w: Vector) -> Snapshot:
        """Value, gradient, margins and derivatives at `w`, in two passes over the rows."""
        ...

    def sgd_epoch(
        self,
        w: Vector,
        indices: Indices,
        step: float | Vector,
        *,
        snapshot: Snapshot | None = None,
        radius: float = np.inf,
        average: Vector | None = None,
        average_weight: Vector | None = None,
    ) -> None:
        """One projected step for each index; updates `w` and adds the weighted iterates to
        `average`.  With a snapshot, the steps are SVRG's."""
        ...

    def katyusha_epoch(
        self,
        z: Vector,
        y: Vector,
        average: Vector,
        average_scale: Vector,
        indices: Indices,
        *,
        tau1: float,
        snapshot: Snapshot,
        radius: float = np.inf,
    ) -> None:
        """Katyusha's steps; updates `z`, `y` and the average that becomes the next snapshot."""
        ...


@runtime_checkable
class Smoothable(Protocol):
    """An objective with kinks that can round them off and bound what that does."""

    def smoothed(self, width: float) -> Objective:
        """The objective with every kink rounded off over `width` on both sides."""
        ...

    def duality_gap(self, w: Vector, width: float, slopes_at: Vector | None = None) -> float:
        """Upper bound of ``F(w) - F(w*)``, rounding included, from the dual point that the
        derivatives of the smoothed loss make at `w`, or elsewhere; two passes over the rows."""
        ...

    def limit(self, before: Vector, w: Vector, width: float, shrink: float) -> Vector | None:
        """Where the smoothed minimizers lead, told by those at `width` and before it shrank; None
        if that is no better than the last."""
        ...


@runtime_checkable
class Rounded(Protocol):
    """An objective that bounds the rounding errors of its values and subgradients."""

    def rounding(self, w_norm: float) -> tuple[float, float]:
        """Bounds ``(e, r)`` for the value ``F̂`` and subgradient ``Ĝ`` computed at ``‖w‖ <=
        w_norm``.

        ``|F̂ - F(w)| <= e``, and for every ``v``:
        ``F(v) >= F̂ + <Ĝ, v - w> + (µ/2)‖v - w‖² - e - r ‖v - w‖``.
        Kinks do no harm: a subgradient of a loss at a margin nearby is still the slope of a line
        below the loss.
        """
        ...
