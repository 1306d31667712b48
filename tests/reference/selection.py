"""Exact probabilities of private selection, by enumeration, and of its broken variants."""

import numpy as np
from scipy import special


def noise_law(scale, kind, reach=60):
    """Support and probabilities of discrete noise, cut off at `reach` scales (below 1e-25)."""
    x = np.arange(0 if kind == "exponential" else -reach * scale, reach * scale + 1)
    p = np.exp(-np.abs(x) / scale)
    return x, p / p.sum()


def selection_law(scores, scale, kind, sign=1):
    """P(i): that ``scores[i] + sign * noise_i`` is the first maximum, or by Gumbel noise."""
    scores = np.asarray(scores)
    if kind == "gumbel":
        return special.softmax(scores / scale)
    x, p = noise_law(scale, kind)
    if sign < 0:
        x, p = -x[::-1], p[::-1]
    below = np.concatenate([[0.0], np.cumsum(p)])  # P(noise < x[i])
    law = []
    for i, score in enumerate(scores):
        wins = p.copy()
        for j, other in enumerate(scores):
            if j != i:
                bound = score + x - other + (j > i)  # noise_j < bound
                wins *= below[np.clip(bound - x[0], 0, len(x))]
        law.append(wins.sum())
    return np.array(law)


def loss(law, neighbor_law):
    """The largest absolute logarithm of a probability ratio: the epsilon of the pair."""
    return np.abs(np.log(law) - np.log(neighbor_law)).max()
