"""What an optimizer may ask of an objective, and what a plan may ask of its public shape.

A *public shape* holds what is known of an objective without its data: constants that hold for
**every** data set of the class.  A plan sees a shape only.  An :class:`Objective` adds the data and
what an optimizer needs; its `shape` is the one that it was planned with.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_integer

Vector = NDArray[np.float64]


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


def check_shape(shape: Any) -> None:
    """Refuse what is not the public shape of an objective, naming what is missing.

    Raises
    ------
    TypeError
    """
    needed = (
        "dim", "n_samples", "lipschitz", "strong_convexity", "smoothness", "minimizer_norm",
        "minimizer_sensitivity", "gradient_error",
    )  # fmt: skip
    missing = [name for name in needed if not hasattr(shape, name)]
    if missing:
        raise TypeError(
            f"shape must be the public shape of an objective; {shape!r} has no "
            f"{', '.join(missing)}."
        )
    check_integer("shape.dim", shape.dim, low=1)


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
