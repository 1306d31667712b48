"""Minimizers of users, whose word is not taken for anything."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._typing import Vector
from dpfast.objectives import Objective, Smoothable
from dpfast.optimizers._contract import Minimizer, Progress, check_start
from dpfast.optimizers.certificates import OptimizeResult


class _Counted:
    """An objective that counts evaluations; everything else passes through."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self.passes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objective, name)

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        self.passes += 1
        return self._objective.value_and_gradient(w)

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        self.passes += 1
        return self._objective.hessian(w, max_rows=max_rows)


def as_minimizer(optimizer: Callable[..., OptimizeResult | ArrayLike]) -> Minimizer:
    """Make a minimizer of a user's function, with a certificate of our own.

    Only the point it returns is used.  The gradient there (or, for a loss with kinks, the duality
    gap) is computed afresh from the objective itself, so that a wrong claim of convergence cannot
    weaken a privacy guarantee that rests on the certificate.

    Parameters
    ----------
    optimizer : callable
        ``optimizer(objective, *, tolerance, max_passes, w0)``; returns the weights or an
        :class:`OptimizeResult`.  `w0` is an array, never None.  Its effort is its own affair:
        `max_passes` is a request.

    Returns
    -------
    Minimizer
        Raises TypeError or ValueError if what comes back is not a finite vector of the right
        length.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast import Problem
    >>> from dpfast.objectives import Erm
    >>> X, y = np.array([[0.6], [-0.8]]), np.array([1.0, -1.0])
    >>> lazy = as_minimizer(lambda objective, *, tolerance, max_passes, w0: w0)
    >>> result = lazy(Erm(Problem(X, y, data_norm=1.0), 0.1), tolerance=1e-6)
    >>> result.converged, result.passes
    (False, 1)
    """
    if not callable(optimizer):
        raise TypeError(f"optimizer must be callable; got {optimizer!r}.")

    def minimize(
        objective: Objective,
        *,
        tolerance: float,
        max_passes: int = 2000,
        w0: Vector | None = None,
    ) -> OptimizeResult:
        progress = Progress(objective, tolerance, max_passes)
        counted = _Counted(objective)
        start = check_start(objective, w0)
        found = optimizer(counted, tolerance=tolerance, max_passes=max_passes, w0=start)
        w = np.array(found.w if isinstance(found, OptimizeResult) else found, dtype=np.float64)
        if w.shape != (objective.dim,):
            raise ValueError(
                f"optimizer must return weights of shape ({objective.dim},); got {w.shape}."
            )
        if not np.all(np.isfinite(w)):
            raise ValueError("optimizer must return finite weights; got NaN or infinity.")
        progress.passes = counted.passes
        if math.isfinite(objective.smoothness) or not isinstance(objective, Smoothable):
            progress.evaluate(w)
        else:
            progress.examine_kinked(w, 1.0)
        return progress.result()

    return minimize
