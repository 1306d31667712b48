"""How a mean loss bends where rows are white: as if they were normal, and labels as the model says.

Nothing of it is taken from data.  Where rows are normal the loss bends alike in all directions but
that of the weights, and together with it along the constant, so two numbers beside the usual bend
tell all.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, ndtri

from dpfast._typing import Matrix, Vector
from dpfast.losses import Loss

# Nodes of a normal number, enough of them for a corner that is rounded off over little.
_NODES = ndtri((np.arange(1000) + 0.5) / 1000.0)
# Fewer of them, for the logistic loss, whose bend is wide, and their powers.
_FEW = _NODES.reshape(200, 5)[:, 2]
_POWERS = _FEW ** np.arange(3)[:, None]
# Deviation of residuals, in units of half the targets' range: a guess.
_RESIDUAL = 0.3
# The least bend that is believed, in units of the largest: noise hides a smaller one.
_LEAST = 1e-3
# Real rows are not normal, nor quite white: so much more they bend in all directions alike.
_EVEN = 0.3


def mean_bends(loss: Loss, v: Vector, free: int, cut: float, consistent: bool) -> Matrix:
    """How the mean gradient of clipped rows grows with the weights, at `v`: positive definite.

    Rows are white in the coordinates, the last of which is constant if not all are `free`.  `cut`
    is the largest slope of a row of usual length, in units of the largest there is; `consistent` as
    for :class:`~dpfast.queries.CoordinateGradient`.

    Examples
    --------
    >>> from dpfast.losses import Loss
    >>> mean_bends(Loss("logistic"), np.zeros(2), 1, 1.0, False).round(2)
    array([[0.25, 0.  ],
           [0.  , 0.25]])
    """
    length = float(np.linalg.norm(v[:free]))
    frame = np.zeros((len(v), 2))
    frame[:free, 0], frame[free:, 1] = v[:free] / max(length, 1e-12), 1.0
    bends = _bends(loss, float(v[free:].sum()) + length * _NODES, cut, consistent)
    bends = np.maximum(bends, _LEAST * loss.smoothness)
    usual, tilted, along = (float(np.mean(bends * _NODES**power)) for power in range(3))
    more = np.array([[along - usual, tilted], [tilted, 0.0]]) / (1.0 + _EVEN)
    return usual * np.eye(len(v)) + frame @ more @ frame.T


def logistic_bends(mean: float, deviation: float) -> Vector:
    """Of the logistic loss, over its largest, where margins have this normal law.

    Along the constant, along it and the weights together, and along the weights.

    Examples
    --------
    >>> logistic_bends(-2.0, 2.0).round(2)
    array([0.45, 0.27, 0.35])
    """
    bends = 1.0 - np.square(np.tanh(0.5 * (mean + deviation * _FEW)))
    return np.asarray(_POWERS @ bends / len(_FEW), dtype=np.float64)


def _bends(loss: Loss, margins: Vector, cut: float, consistent: bool) -> Vector:
    """Mean second derivatives of a margin's rows, less where their slopes are cut."""

    def cut_bends(margins: Vector, target: float) -> Vector:
        _, slopes, bends = loss(margins, np.full_like(margins, target))
        sizes = np.abs(slopes) / loss.lipschitz
        if consistent:
            sizes = np.maximum(sizes, 1.0 - sizes)
        return bends * np.minimum(1.0, cut / np.maximum(sizes, 1e-100))

    if loss.kind == "regression":
        return np.full_like(margins, cut_bends(_RESIDUAL * _NODES, 0.0).mean())
    positive = expit(margins)
    mean: Vector = positive * cut_bends(margins, 1.0) + (1.0 - positive) * cut_bends(margins, -1.0)
    return mean
