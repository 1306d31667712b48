"""Slow twin of the multinomial kernel: one row at a time, straight from the definition."""

import math

import numpy as np


def multinomial(rows, labels, w, clip_norm=math.inf, weight=None, lengths=None):
    """Sum of the clipped gradients, outer products of softmax minus indicator and row."""
    weight = np.ones(len(rows)) if weight is None else weight
    gradient = np.zeros_like(w)
    for i, (x, y, c) in enumerate(zip(rows, labels, weight, strict=True)):
        margins = [math.fsum(x * row) for row in w]
        top = max(margins)
        odds = [math.exp(z - top) for z in margins]
        slope = np.array(odds) / math.fsum(odds)
        slope[int(y)] -= 1.0
        if lengths is not None:
            slope *= min(1.0, clip_norm / (lengths[i] * math.sqrt(math.fsum(slope**2)) + 1e-300))
        gradient += c * np.outer(slope, x)
    return gradient
