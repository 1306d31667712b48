"""What an optimizer may ask of an objective."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


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
