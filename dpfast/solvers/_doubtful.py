"""Weights that noise may have made up stay within those that it did not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Matrix

# Of so many columns that may have no rows one nearly surely has some, even if half have none.
SEVERAL = 8


def within_others(weights: Matrix, doubtful: NDArray[np.bool_], part: float) -> Matrix:
    """Weights of which those of `doubtful` columns are at most a part of the largest other.

    If there is no other, or all of these are 0, at most as large as several of them are: hardly all
    of those have no rows.

    Examples
    --------
    >>> within_others(np.array([3.0, -1.0, 2.0]), np.array([True, True, False]), 0.7)
    array([ 1.4, -1. ,  2. ])
    >>> within_others(np.array([3.0, -1.0, 2.0]), np.array([True, True, True]), 0.7)
    array([ 1., -1.,  1.])
    """
    sizes = np.abs(weights).reshape(len(weights), -1).max(axis=1)
    most = part * float(sizes[~doubtful].max(initial=0.0))
    if most == 0.0:
        most = float(np.sort(sizes[doubtful])[-SEVERAL:].min(initial=sizes.max()))
    found = weights.copy()
    found[doubtful] = np.clip(weights[doubtful], -most, most)
    return found
