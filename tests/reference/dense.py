"""Slow twins of the dense kernels: one row at a time, straight from the definitions."""

import math

import numpy as np


def logistic(margin, target):
    """Value, derivative and curvature of log(1 + exp(-y z))."""
    m = target * margin
    value = math.log1p(math.exp(-m)) if m > 0 else -m + math.log1p(math.exp(m))
    tail = math.exp(-m) / (1 + math.exp(-m)) if m > 0 else 1 / (1 + math.exp(m))
    return value, -target * tail, tail * (1 - tail)


LOSSES = {"logistic": logistic}


def rows_with_intercept(X, row_scale, intercept):
    """The rows that the problem is about, written out."""
    X = np.asarray(X, dtype=np.float64)
    scale = np.ones(len(X)) if row_scale is None else np.asarray(row_scale)
    rows = X * scale[:, None]
    return np.hstack([rows, np.full((len(X), 1), intercept)]) if intercept else rows


def clipped_gradient(rows, target, w, loss, clip_norm, loss_clip):
    """Sum of clipped per-row gradients and of clipped losses."""
    gradient, total = np.zeros(rows.shape[1]), 0.0
    for x, y in zip(rows, target, strict=True):
        value, derivative, _ = LOSSES[loss](math.fsum(x * w), y)
        g = derivative * x
        norm = math.sqrt(math.fsum(g * g))
        gradient += g * min(1.0, clip_norm / norm) if norm > 0 else g
        total += min(value, loss_clip)
    return gradient, total


def hessian(rows, target, w, loss):
    """Sum of the rows' Hessians."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for x, y in zip(rows, target, strict=True):
        total += LOSSES[loss](math.fsum(x * w), y)[2] * np.outer(x, x)
    return total
