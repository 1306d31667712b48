"""Sums of scores of single rows."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.shape import UNIT


class ScoreSum(Query):
    """``Σ_i min(1, max(0, s_i))`` of the rows' scores, NaN counting as 0.

    The rows are a pair (X, y), and the argument is a function of both that returns one number a
    row, each a function of that row alone.

    Sensitivity: 1, in any norm: a score in [0, 1] appears, vanishes or is replaced by another.

    Parameters
    ----------
    n_samples : int
    norm : {"l2", "l1"}
        What a single number is measured in makes no difference.
    """

    takes_functions = True

    def __init__(self, n_samples: int, norm: Literal["l2", "l1", "range"]) -> None:
        self.n_samples, self.norm = n_samples, norm
        self.takes = (None,)
        self.dimension = 1

    def sensitivity(self, neighboring_relation: str) -> float:
        records_apart(neighboring_relation)  # refuses what is no relation
        return 1.0

    def rounding_error(self) -> float:
        """Return the error of the sum, which `math.fsum` rounds once."""
        return self.n_samples * UNIT

    def __call__(self, prepared: tuple[Any, NDArray[Any]], *point: Any) -> Vector:
        """The sum of what the function returns for the rows."""
        X, y = prepared
        scores = np.asarray(point[0](X, y), dtype=np.float64)
        if scores.shape != (len(y),):
            raise ValueError(
                f"scoring must return one number for each of the {len(y)} rows; got shape "
                f"{scores.shape}."
            )
        rows = np.nan_to_num(np.clip(scores, 0.0, 1.0), nan=0.0)
        return np.array([math.fsum(rows.tolist())])
