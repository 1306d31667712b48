"""An objective plus a linear function, as objective perturbation needs it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._validation import check_integer

Vector = NDArray[np.float64]

_UNIT = 2.0**-53


class LinearTerm:
    """``F(w) + b·w / n``: the same curvature, a shifted gradient.

    Parameters
    ----------
    objective : Objective
    b : array-like of shape (dim,)
    n_samples : int, default=1
        ``n``.

    Raises
    ------
    TypeError, ValueError
        If `b` has another shape or is not finite, or `n_samples` is not positive.
    """

    def __init__(self, objective: Any, b: ArrayLike, n_samples: int = 1) -> None:
        self._objective = objective
        n = check_integer("n_samples", n_samples, low=1, high=2**53)
        slope = np.array(b, dtype=np.float64)
        if slope.shape != (objective.dim,):
            raise ValueError(f"b must have shape ({objective.dim},); got {slope.shape}.")
        if not np.all(np.isfinite(slope)):
            raise ValueError("b must be finite; got NaN or infinity.")
        self._slope: Vector = slope / n
        self._slope_norm = float(np.linalg.norm(self._slope))

    @property
    def dim(self) -> int:
        """Length of the weight vector."""
        return int(self._objective.dim)

    @property
    def strong_convexity(self) -> float:
        """That of the objective."""
        return float(self._objective.strong_convexity)

    @property
    def smoothness(self) -> float:
        """That of the objective."""
        return float(self._objective.smoothness)

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Value and gradient of the sum."""
        value, gradient = self._objective.value_and_gradient(w)
        return value + float(self._slope @ w), gradient + self._slope

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        """That of the objective."""
        hessian: NDArray[np.float64] = self._objective.hessian(w, max_rows=max_rows)
        return hessian

    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error (l2) of a computed gradient at ``‖w‖ <= w_norm``.

        Besides the objective's own: ``u‖b‖/n`` for the quotient.  The sum of the two gradients is
        rounded relative to itself, which changes the norm that is certified by a factor ``1 + u``;
        the second ``u‖b‖/n`` and the slack of the objective's own bound cover that.
        """
        return float(self._objective.gradient_error(w_norm)) + 2.0 * _UNIT * self._slope_norm
