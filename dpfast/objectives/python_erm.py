"""A user's own loss of the margin, written in Python.

The slow path: margins come from the kernels, the loss is called on all of them, and the
gradient is a sum of rows weighted by its derivatives, so X is read twice and no n×d temporary is
formed.  :class:`PythonErm` has ``value_and_gradient`` and ``hessian`` like any objective, so it
serves whatever minimizes an objective to a certificate (output perturbation, every optimizer of
:data:`dpfast.optimizers.OPTIMIZERS`); solvers that clip rows or draw them one at a time run inside
the kernels and need a loss of the C list.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast._validation import check_real, keep_python_numbers
from dpfast.objectives._contract import Risk, RiskShape, checked_weights, difference_hessian
from dpfast.objectives._sums import row_sum, weighted_gram
from dpfast.privacy import records_apart
from dpfast.shape import UNIT
from dpfast.sums import RowAccess, RowSums, single_rows


@dataclass(frozen=True)
class PythonLoss:
    """A convex loss of margin and target with declared constants.

    Parameters
    ----------
    function : callable
        ``function(margin, target)``, two arrays of shape (m,), returns the losses and their
        derivatives in the margin, and optionally the second derivatives, each of shape (m,).  Each
        entry must depend on its own margin and target only.
    lipschitz : float
        Bound of ``|dℓ/dz|`` over all margins and targets.
    smoothness : float
        Bound of ``|d²ℓ/dz²|``.
    at_zero : float, default=inf
        Bound of ``ℓ(0; y)`` over all targets, for losses that are not negative.

    Raises
    ------
    TypeError, ValueError
        If a constant is not of the stated kind or range.

    Notes
    -----
    A derivative beyond `lipschitz` raises an error when it turns up, and so do NaN, infinities and
    arrays of another shape.  These checks depend on private data and are not covered by the
    guarantee: they are there to find mistakes.  The guarantee stands on the declaration, convexity
    included.
    """

    function: Callable[..., Any]
    lipschitz: float
    smoothness: float
    at_zero: float = math.inf

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be callable; got {self.function!r}.")
        check_real("lipschitz", self.lipschitz, low=1e-100, high=1e100)
        check_real("smoothness", self.smoothness, low=0.0, high=1e100)
        check_real("at_zero", self.at_zero, low=0.0, allow_inf=True)
        keep_python_numbers(self)

    def __call__(self, margin: Vector, target: Vector) -> tuple[Vector, ...]:
        """What `function` returns, checked."""
        answer = self.function(margin, target)
        if not isinstance(answer, tuple) or len(answer) not in (2, 3):
            raise TypeError(
                "function must return (value, derivative) or (value, derivative, curvature); "
                f"got {type(answer).__name__}."
            )
        arrays = tuple(np.array(part, dtype=np.float64) for part in answer)
        for name, array in zip(("value", "derivative", "curvature"), arrays, strict=False):
            if array.shape != margin.shape:
                raise ValueError(
                    f"function must return a {name} of shape {margin.shape}; got {array.shape}."
                )
            if not np.all(np.isfinite(array)):
                raise FloatingPointError(f"function returned NaN or infinity as {name}.")
        if np.abs(arrays[1]).max(initial=0.0) > self.lipschitz * (1.0 + 1e-12):
            raise ValueError(
                f"lipschitz must bound the derivatives of the loss; got {self.lipschitz!r}, which "
                "one of them exceeds."
            )
        return arrays


@dataclass(frozen=True)
class PythonErmShape(RiskShape):
    """Public side of :class:`PythonErm`.

    Parameters
    ----------
    problem : ProblemShape
        Its loss is not used.
    alpha : float
        Ridge ``α``.
    loss : PythonLoss
    """

    loss: PythonLoss

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.loss, PythonLoss):
            raise TypeError(f"loss must be a PythonLoss; got {self.loss!r}.")

    def on(self, problem: RowSums) -> PythonErm:
        """The objective of a problem with these public quantities."""
        return PythonErm(problem, self.alpha, self.loss)

    @property
    def lipschitz(self) -> float:
        """Bound of the norm of one row's gradient."""
        return self.loss.lipschitz * self.problem.row_norm * self.problem.max_weight

    @property
    def smoothness(self) -> float:
        """Bound of the Hessian's norm, the ridge included."""
        rows = self.loss.smoothness * self.problem.row_norm**2 * self.problem.max_weight
        return rows + self.alpha

    @property
    def minimizer_norm(self) -> float:
        """As :meth:`dpfast.ProblemShape.minimizer_norm`."""
        at_zero = self.loss.at_zero * self.problem.max_weight
        return min(self.lipschitz / self.alpha, math.sqrt(2.0 * at_zero / self.alpha))

    def minimizer_sensitivity(self, neighboring_relation: str) -> float:
        """``2L/(αn)`` or ``L/(αn)``, as :meth:`dpfast.ProblemShape.minimizer_sensitivity`."""
        records = records_apart(neighboring_relation)
        return records * self.lipschitz / (self.alpha * self.n_samples)

    def gradient_error(self, w_norm: float) -> float:
        """As :meth:`dpfast.ProblemShape.gradient_error`, where the loss's derivatives are within
        64 units of `lipschitz` of the true ones at the computed margins."""
        shape = self.problem
        margin = (self.dim + 6) * shape.row_norm * w_norm
        slope = self.loss.smoothness * margin + 64.0 * self.loss.lipschitz
        row = shape.max_weight * shape.row_norm * slope
        sums = (shape.additions() + 8) * self.lipschitz
        return 1.1 * UNIT * (row + sums + 4.0 * self.alpha * w_norm)


class PythonErm(Risk):
    """``F(w) = (1/n) Σ c_i ℓ(<x̃_i, w>; y_i) + (α/2)‖w‖²`` with a loss written in Python.

    Parameters
    ----------
    problem : Problem
        Rows, targets and weights; ``loss="squared"`` takes any targets.  Its own loss is not used.
    alpha : float
    loss : PythonLoss

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast import Problem
    >>> def log_cosh(z, y):
    ...     r = z - y
    ...     return np.logaddexp(r, -r) - np.log(2.0), np.tanh(r), 1.0 - np.tanh(r) ** 2
    >>> loss = PythonLoss(log_cosh, lipschitz=1.0, smoothness=1.0)
    >>> problem = Problem([[1.0], [0.5]], [0.3, 0.1], "squared", data_norm=1.0, intercept=0.0)
    >>> value, gradient = PythonErm(problem, 0.1, loss).value_and_gradient(np.zeros(1))
    >>> gradient.round(4)
    array([-0.1706])
    """

    shape: PythonErmShape
    _problem: RowAccess

    def __init__(self, problem: RowSums, alpha: float, loss: PythonLoss) -> None:
        self.shape = PythonErmShape(problem.shape, alpha, loss)
        self._problem = single_rows(problem, "a loss written in Python")

    def _points(self, w: Vector) -> tuple[Vector, ...]:
        """Weighted losses, derivatives and, if there are any, curvatures of all rows."""
        answer = self.shape.loss(self._problem.margins(w), self._problem.target)
        weight = self._problem.sample_weight
        return answer if weight is None else tuple(part * weight for part in answer)

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """``F(w)`` and its gradient, in two reads of X."""
        vector = checked_weights(w, self.dim)
        value, slope, *_ = self._points(vector)
        gradient = row_sum(self._problem, slope) / self.shape.n_samples
        gradient += self.shape.alpha * vector
        ridge = 0.5 * self.shape.alpha * float(vector @ vector)
        return float(value.mean()) + ridge, gradient

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        """From the loss's curvatures, or from differences of gradients if it returns none."""
        vector = checked_weights(w, self.dim)
        points = self._points(vector)
        if len(points) < 3:
            return difference_hessian(self, vector)
        if points[2].min() < 0.0:
            raise ValueError("function must return curvatures >= 0: the loss must be convex.")
        total = weighted_gram(self._problem, points[2]) / self.shape.n_samples
        total[np.diag_indices(self.dim)] += self.shape.alpha
        return total
