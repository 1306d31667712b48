"""An objective plus a linear function."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.objectives._contract import Objective

Vector = NDArray[np.float64]


class LinearTerm:
    """``F(w) + <b, w>`` for an objective ``F``.

    Parameters
    ----------
    objective : Objective
    coefficients : array-like of shape (dim,)
        ``b``, finite.

    Raises
    ------
    ValueError
        If `coefficients` has another shape or is not finite.
    """

    def __init__(self, objective: Objective, coefficients: ArrayLike) -> None:
        b = np.array(coefficients, dtype=np.float64)
        if b.shape != (objective.dim,) or not np.all(np.isfinite(b)):
            raise ValueError(
                f"coefficients must hold {objective.dim} finite numbers; got shape {b.shape}."
            )
        self._objective = objective
        self._coefficients = b
        self._norm = float(np.linalg.norm(b))

    @property
    def dim(self) -> int:
        """Length of the weight vector."""
        return self._objective.dim

    @property
    def strong_convexity(self) -> float:
        """That of the objective: a linear function is flat."""
        return self._objective.strong_convexity

    @property
    def smoothness(self) -> float:
        """That of the objective."""
        return self._objective.smoothness

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Value and gradient, in one pass over the rows."""
        value, gradient = self._objective.value_and_gradient(w)
        return value + float(self._coefficients @ w), gradient + self._coefficients

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        """Second derivative of the objective at `w`."""
        return self._objective.hessian(w, max_rows=max_rows)

    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error (l2) of a computed gradient at ``‖w‖ <= w_norm``.

        The addition of ``b`` is wrong by ``2^-53`` times the result's norm.  A result no longer
        than ``4‖b‖`` is covered by what is added here; of a longer one, ``2^-53`` of its own norm
        is missing, which whoever compares it with a tolerance allows for.
        """
        return self._objective.gradient_error(w_norm) + 2.0**-51 * self._norm
