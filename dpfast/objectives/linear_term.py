"""An objective plus a linear function, and a ridge of single weights."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._typing import Vector
from dpfast.objectives._contract import Objective


class LinearTerm:
    """``F(w) + <b, w> + Σ_j (r_j/2) w_j²`` for an objective ``F``.

    Parameters
    ----------
    objective : Objective
    coefficients : array-like of shape (dim,)
        ``b``, finite.
    ridge : array-like of shape (dim,), default=0.0
        ``r >= 0``, finite.

    Raises
    ------
    ValueError
        If `coefficients` or `ridge` have another shape or are not finite, or a ridge is negative.
    """

    def __init__(
        self, objective: Objective, coefficients: ArrayLike, ridge: ArrayLike = 0.0
    ) -> None:
        b = np.array(coefficients, dtype=np.float64)
        if b.shape != (objective.dim,) or not np.all(np.isfinite(b)):
            raise ValueError(
                f"coefficients must hold {objective.dim} finite numbers; got shape {b.shape}."
            )
        r = np.asarray(ridge, dtype=np.float64)
        if r.shape not in ((), b.shape) or not (np.all(r >= 0.0) and np.all(np.isfinite(r))):
            raise ValueError(
                f"ridge must hold {objective.dim} finite numbers >= 0; got shape {r.shape}."
            )
        self._objective = objective
        self._coefficients = b
        self._norm = float(np.linalg.norm(b))
        self._ridge = np.broadcast_to(r, b.shape)
        self._largest = float(np.max(r))

    @property
    def dim(self) -> int:
        """Length of the weight vector."""
        return self._objective.dim

    @property
    def strong_convexity(self) -> float:
        """That of the objective: a linear function is flat, and some ridges may be 0."""
        return self._objective.strong_convexity

    @property
    def smoothness(self) -> float:
        """That of the objective, and the largest ridge."""
        return self._objective.smoothness + self._largest

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Value and gradient, in one pass over the rows."""
        value, gradient = self._objective.value_and_gradient(w)
        added = self._ridge * w
        value += float(self._coefficients @ w) + 0.5 * float(added @ w)
        return value, gradient + (self._coefficients + added)

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        """Second derivative at `w`."""
        hessian = self._objective.hessian(w, max_rows=max_rows)
        return hessian + np.diag(self._ridge) if self._largest else hessian

    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error (l2) of a computed gradient at ``‖w‖ <= w_norm``.

        With ``s = ‖b‖ + max_j r_j ‖w‖``, products and their addition to ``b`` are wrong by
        ``2^-52 s``, their addition to the gradient by ``2^-53`` times the result's norm.  A result
        no longer than ``2 s`` is covered by what is added here; of a longer one, ``2^-53`` of its
        own norm is missing, which whoever compares it with a tolerance allows for.
        """
        added = self._norm + self._largest * w_norm
        return self._objective.gradient_error(w_norm) + 2.0**-51 * added
