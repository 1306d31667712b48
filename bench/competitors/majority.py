"""The more frequent class, whatever the row: what any model has to beat."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bench.competitors._contract import Task

NAME = "majority"
MODULE = "numpy"
GUARANTEE = "none (not private): uses the classes' exact shares"
RELATION, DELTA = "none", False

Vector = NDArray[np.float64]


def fit(task: Task) -> Vector:
    positive = int(np.count_nonzero(task.y > 0.0))
    # Half a record more on either side keeps the log-odds finite when a class is absent.
    odds = (positive + 0.5) / (len(task.y) - positive + 0.5)
    return np.append(np.zeros(task.X.shape[1]), math.log(odds))
