"""What an optimizer may ask of an objective, and what a plan may ask of its public shape.

A *public shape* holds what is known of an objective without its data: constants that hold for
**every** data set of the class.  A plan sees a shape only, and :meth:`RiskShape.on` makes the
objective of it and a problem.  An :class:`Objective` adds the data and what an optimizer needs; its
`shape` is the one that it was planned with.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast._validation import check_real, keep_python_numbers
from dpfast.shape import ProblemShape
from dpfast.sums import RowSums

#: Covers the rounding of bounds that are sums and products of a few positive numbers.
UP = 1.0 + 1e-12


class ObjectiveShape(Protocol):
    """The public quantities of an objective: all that a plan may depend on.

    Attributes
    ----------
    dim : int
        Length of the weight vector.
    n_samples : int or None
        Number of records; None where the objective has no such notion.
    lipschitz : float
        ``L``: bound of the norm of the gradient of what depends on the data: for a mean over
        records, of one record's term; otherwise of the whole data-dependent part.
    strong_convexity, smoothness : float
        ``µ > 0`` and ``β`` of the whole objective, the ridge included; ``β`` is infinite for an
        objective that is not smooth.
    minimizer_norm : float
        Bound of ``‖w*‖₂`` over all data sets; infinite if there is none.
    """

    @property
    def dim(self) -> int: ...

    @property
    def n_samples(self) -> int | None: ...

    @property
    def lipschitz(self) -> float: ...

    @property
    def strong_convexity(self) -> float: ...

    @property
    def smoothness(self) -> float: ...

    @property
    def minimizer_norm(self) -> float: ...

    def minimizer_sensitivity(self, neighboring_relation: str) -> float:
        """Largest distance between the minimizers of neighboring data sets."""
        ...

    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error (l2) of a computed gradient at ``‖w‖ <= w_norm``."""
        ...


class Described:
    """What follows from the public quantities of an objective unless its shape knows better."""

    #: Whether optimizers may take steps along single rows.
    single_rows: ClassVar[bool] = False
    #: Whether kinks, if there are any, can be rounded off (:class:`Smoothable`).
    smoothable: ClassVar[bool] = False

    @property
    def certificate(self: ObjectiveShape) -> Literal["gradient", "gap", "saddle"] | None:
        """What proves how close a point is to the minimizer; None: nothing does."""
        return "gradient" if math.isfinite(self.smoothness) else None

    @property
    def lacks(self) -> str | None:
        """What its loss must be, and is not, for a stable minimizer that can be certified."""
        return None

    def least_tolerance(self: ObjectiveShape) -> float:
        """The smallest tolerance that an optimizer can be sure to certify in floating point.

        Four times the rounding error of a gradient where the minimizer can be; of a gap, for other
        certificates.
        """
        radius = self.minimizer_norm
        reach = radius if math.isfinite(radius) else self.lipschitz / self.strong_convexity
        return 4.0 * float(self.gradient_error(2.0 * reach))

    def easy_tolerance(self) -> float:
        """The smallest tolerance that the default optimizer reaches in reasonable time; 0: any."""
        return 0.0

    def hessian_trace(self: ObjectiveShape) -> float:
        """Bound of the trace of the Hessian."""
        return self.dim * self.smoothness

    def noise_risk(self: ObjectiveShape, stddev: float, mean_norm: float) -> float:
        """Bound of what noise in the weights adds to the objective, in expectation.

        Parameters
        ----------
        stddev : float
            Of noise of mean zero, in each coordinate.
        mean_norm : float
            Bound of ``E‖z‖``.
        """
        assert isinstance(self, Described)
        return 0.5 * stddev**2 * self.hessian_trace()

    def ridge_risk(self, minimizer_norm: float) -> float:
        """What a ridge that is no part of the risk adds to it at weights of this norm."""
        return 0.0


@dataclass(frozen=True)
class RiskShape(Described, ABC):
    """Public side of a risk of a problem, with a ridge.

    Parameters
    ----------
    problem : ProblemShape
    alpha : float
        Ridge, which is also the strong convexity: the loss part may be flat in some direction.
    """

    problem: ProblemShape
    alpha: float

    def __post_init__(self) -> None:
        check_real("alpha", self.alpha, low=1e-100, high=1e100)
        keep_python_numbers(self)

    @abstractmethod
    def on(self, problem: RowSums) -> Any:
        """The objective of a problem with these public quantities."""

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
        """The ridge."""
        return self.alpha

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """Bound of the Hessian's norm, the ridge included."""

    @property
    @abstractmethod
    def minimizer_norm(self) -> float:
        """Bound of ``‖w*‖₂``."""

    @abstractmethod
    def minimizer_sensitivity(self, neighboring_relation: str) -> float:
        """Largest distance between the minimizers of neighboring data sets."""

    @abstractmethod
    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error (l2) of a computed gradient at ``‖w‖ <= w_norm``."""

    def hessian_trace(self) -> float:
        """``β + αd``: the loss part's curvature is a mean of ``ℓ'' x̃x̃^T``.

        Tilted, ``t Cov(∇v)`` comes on top, of trace ``tL²``, which β includes.
        """
        return self.smoothness - self.alpha + self.alpha * self.dim

    def noise_risk(self, stddev: float, mean_norm: float) -> float:
        """Half the variance times the trace, or ``L E‖z‖``, by which the loss part rises."""
        return min(super().noise_risk(stddev, mean_norm), self.lipschitz * mean_norm)

    def ridge_risk(self, minimizer_norm: float) -> float:
        """``(α/2)‖w‖²``."""
        return 0.5 * self.alpha * minimizer_norm**2


class Objective(Protocol):
    """A strongly convex function of a weight vector.

    Attributes
    ----------
    dim : int
        Length of the weight vector.
    strong_convexity, smoothness : float
        ``µ > 0`` and ``β`` of the whole objective, the ridge included.
    """

    @property
    def dim(self) -> int: ...

    @property
    def strong_convexity(self) -> float: ...

    @property
    def smoothness(self) -> float: ...

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Value and gradient at `w`, in one pass over the data."""
        ...

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        """Second derivative at `w`; an estimate from about `max_rows` rows will do if given."""
        ...

    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error (l2) of a computed gradient at ``‖w‖ <= w_norm``."""
        ...


class ShapedObjective:
    """An objective that takes its constants from its public shape."""

    #: The public side: what a plan was made of.
    shape: Any

    @property
    def leaks(self) -> tuple[str, ...]:
        """What was inferred from private data, in words."""
        return ()

    @property
    def dim(self) -> int:
        """Length of the weight vector."""
        return int(self.shape.dim)

    @property
    def strong_convexity(self) -> float:
        """Modulus ``µ`` of the whole objective."""
        return float(self.shape.strong_convexity)

    @property
    def smoothness(self) -> float:
        """Bound ``β`` of the Hessian's norm, the ridge included."""
        return float(self.shape.smoothness)

    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error (l2) of a computed gradient at ``‖w‖ <= w_norm``."""
        return float(self.shape.gradient_error(w_norm))


class Risk(ShapedObjective):
    """A risk of a problem, with a ridge."""

    _problem: RowSums

    @property
    def leaks(self) -> tuple[str, ...]:
        """What was inferred from the problem's data, in words."""
        return self._problem.leaks


def checked_weights(w: Any, dim: int) -> Vector:
    """A weight vector as float64, or an error that names what is wrong with it."""
    vector = np.ascontiguousarray(w, dtype=np.float64)
    if vector.shape != (dim,):
        raise ValueError(f"w must have shape ({dim},); got {vector.shape}.")
    if not np.all(np.isfinite(vector)):
        raise ValueError("w must be finite; got NaN or infinity.")
    return vector


def difference_hessian(objective: Any, w: Vector) -> NDArray[np.float64]:
    """Hessian from ``dim + 1`` gradients, by differences; symmetric.

    Good enough for Newton steps, whose certificate rests on gradients alone.
    """
    point = checked_weights(w, objective.dim)
    size = 2.0**-26 * max(1.0, float(np.linalg.norm(point)))
    gradient = objective.value_and_gradient(point)[1]
    total = np.empty((len(point), len(point)))
    for j in range(len(point)):
        moved = point.copy()
        moved[j] += size
        total[j] = (objective.value_and_gradient(moved)[1] - gradient) / (moved[j] - point[j])
    return 0.5 * (total + total.T)
