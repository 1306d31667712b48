"""How many rows have each class."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpfast.mechanisms import Query
from dpfast.privacy import records_apart


class ClassCounts(Query):
    """How many rows have each of the classes 1, 2, ..., K - 1; the others have class 0.

    The rows are an array of the positions of their classes.

    Sensitivity: a record that appears or vanishes changes one count by one, and a record that is
    replaced two counts; of two classes there is but one.  So ``min(k, K - 1)`` in l1, and its root
    in l2.  The counts are integers, exact in float64.

    Parameters
    ----------
    n_samples, n_classes : int
    norm : {"l1", "l2"}
    """

    def __init__(self, n_samples: int, n_classes: int, norm: Literal["l1", "l2"]) -> None:
        self.n_samples, self.norm = n_samples, norm
        self.dimension = n_classes - 1

    def sensitivity(self, neighboring_relation: str) -> float:
        changed = float(min(records_apart(neighboring_relation), self.dimension))
        return changed if self.norm == "l1" else math.sqrt(changed)

    def rounding_error(self) -> float:
        """Return 0: counts are exact."""
        return 0.0

    def __call__(self, prepared: NDArray[np.intp], *point: Any) -> NDArray[np.float64]:
        """The counts."""
        counts = np.bincount(prepared, minlength=self.dimension + 1)[1:]
        return counts.astype(np.float64)
