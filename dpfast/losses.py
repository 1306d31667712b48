"""Losses of one margin and one target, with the constants that the privacy analysis uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast import _kernels
from dpfast._validation import check_choice, check_real

_TABLE: dict[str, tuple[int, str]] = _kernels.loss_table()


def loss_names() -> tuple[str, ...]:
    """Names of the losses that the kernels know.

    Examples
    --------
    >>> "logistic" in loss_names()
    True
    """
    return tuple(_TABLE)


@dataclass(frozen=True)
class Loss:
    """A loss ``ℓ(z; y)`` of the margin ``z = <x, w>`` and the target ``y``.

    Value, derivative and constants all come from one registry in C, so that what the kernels
    compute and what the privacy analysis assumes cannot drift apart.

    Parameters
    ----------
    name : str
        One of :func:`loss_names`.
    parameter : float, default=0.0
        Width, threshold or quantile of the losses that have one; ignored by the others.

    Raises
    ------
    ValueError
        If the name is unknown or the parameter is not a finite number.

    Examples
    --------
    >>> loss = Loss("logistic")
    >>> loss.lipschitz, loss.smoothness, loss.kind
    (1.0, 0.25, 'classification')
    >>> value, derivative, curvature = loss([0.0], [1.0])
    >>> value.round(4), derivative, curvature
    (array([0.6931]), array([-0.5]), array([0.25]))
    """

    name: str
    parameter: float = 0.0

    def __post_init__(self) -> None:
        check_choice("loss", self.name, loss_names())
        object.__setattr__(self, "parameter", check_real("parameter", self.parameter))

    @property
    def id(self) -> int:
        """Position in the C list."""
        return _TABLE[self.name][0]

    @property
    def kind(self) -> str:
        """``"classification"`` (targets are -1 and +1) or ``"regression"``."""
        return _TABLE[self.name][1]

    @property
    def lipschitz(self) -> float:
        """Bound of ``|dℓ/dz|`` over all margins and targets."""
        return float(_kernels.loss_constants(self.id, self.parameter)[0])

    @property
    def smoothness(self) -> float:
        """Bound of ``|d²ℓ/dz²|`` over all margins and targets; infinite if there is none."""
        return float(_kernels.loss_constants(self.id, self.parameter)[1])

    @property
    def at_zero(self) -> float:
        """Bound of ``ℓ(0; y)`` over all targets."""
        return float(_kernels.loss_constants(self.id, self.parameter)[2])

    def __call__(
        self, margin: ArrayLike, target: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Value, first and second derivative in the margin.

        Parameters
        ----------
        margin, target : array-like of shape (n,)

        Returns
        -------
        value, derivative, curvature : ndarray of shape (n,)
        """
        z = np.ascontiguousarray(margin, dtype=np.float64)
        y = np.ascontiguousarray(target, dtype=np.float64)
        value, derivative, curvature = _kernels.loss_points(self.id, self.parameter, z, y)
        return value, derivative, curvature
