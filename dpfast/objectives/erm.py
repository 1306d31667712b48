"""Empirical risk with a ridge."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_real
from dpfast.problem import Problem, ProblemShape

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ErmShape:
    """Public side of :class:`Erm`: a problem's shape and the ridge.

    Parameters
    ----------
    problem : ProblemShape
    alpha : float
        Ridge, which is also the strong convexity.

    Raises
    ------
    TypeError, ValueError
        If `alpha` is not a positive number.
    """

    problem: ProblemShape
    alpha: float

    def __post_init__(self) -> None:
        check_real("alpha", self.alpha, low=1e-100, high=1e100)

    @property
    def dim(self) -> int:
        """Length of the weight vector."""
        return self.problem.dim

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.problem.n_samples

    @property
    def lipschitz(self) -> float:
        """Bound of the norm of one row's gradient."""
        return self.problem.lipschitz

    @property
    def strong_convexity(self) -> float:
        """The ridge: the loss part may be flat in some direction."""
        return self.alpha

    @property
    def smoothness(self) -> float:
        """Bound of the Hessian's norm, the ridge included."""
        return self.problem.smoothness + self.alpha

    @property
    def minimizer_norm(self) -> float:
        """See :meth:`dpfast.ProblemShape.minimizer_norm`."""
        return self.problem.minimizer_norm(self.alpha)

    def minimizer_sensitivity(self, neighboring_relation: str) -> float:
        """See :meth:`dpfast.ProblemShape.minimizer_sensitivity`."""
        return self.problem.minimizer_sensitivity(self.alpha, neighboring_relation)

    def gradient_error(self, w_norm: float) -> float:
        """See :meth:`dpfast.ProblemShape.gradient_error`."""
        return self.problem.with_alpha(self.alpha).gradient_error(w_norm)


class Erm:
    """``F(w) = (1/n) Σ ℓ_i(w) + (α/2)‖w‖²`` of a :class:`~dpfast.Problem`.

    Parameters
    ----------
    problem : Problem
    alpha : float
        Ridge, which is also the strong convexity of ``F``.
    """

    def __init__(self, problem: Problem, alpha: float) -> None:
        self._problem = problem
        self._alpha = check_real("alpha", alpha, low=0.0, low_open=True)
        self._shape = problem.shape.with_alpha(self._alpha)
        self.shape = ErmShape(problem.shape, self._alpha)

    @property
    def dim(self) -> int:
        """Length of the weight vector."""
        return self._shape.dim

    @property
    def strong_convexity(self) -> float:
        """The ridge: the loss part may be flat in some direction."""
        return self._alpha

    @property
    def smoothness(self) -> float:
        """Bound of the Hessian's norm, the ridge included."""
        return self._shape.smoothness + self._alpha

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """``F(w)`` and its gradient, in one pass over the rows."""
        return self._problem.value_and_gradient(w, self._alpha)

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        """Second derivative of ``F`` at `w`, from about `max_rows` rows if given."""
        return self._problem.hessian(w, self._alpha, max_rows=max_rows)

    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error (l2) of a computed gradient at ``‖w‖ <= w_norm``."""
        return self._shape.gradient_error(w_norm)
