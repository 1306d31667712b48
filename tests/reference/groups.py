"""Slow twin of the gradients of groups: one row at a time, straight from the definition."""

import math
from itertools import pairwise

import numpy as np
from reference.dense import points


def slopes_of(rows, target, w, loss):
    """Derivatives by the margins, one column a class; `loss` None: the multinomial loss."""
    made = []
    for x, y in zip(rows, target, strict=True):
        margins = [math.fsum(x * part) for part in w]
        if loss is not None:
            made.append([points(loss, margins[0], y)[1]])
            continue
        odds = np.array([math.exp(z - max(margins)) for z in margins])
        slope = odds / math.fsum(odds)
        slope[int(y)] -= 1.0
        made.append(slope)
    return np.array(made)


def alike(slopes, z, weight, clip, row_clip, correlation):
    """What slopes of a group are multiplied by: the same whatever the labels of its rows are."""
    mean, gaps, longest, factors = [], [], [], []
    for s, row, own in zip(slopes, z, weight, strict=True):
        length = math.sqrt(math.fsum(row**2))
        p = np.where(s < 0.0, 1.0 + s, s) if len(s) > 1 else np.array([abs(s[0]), 1 - abs(s[0])])
        # The squares of the slopes of every label; one margin of two classes has one of a pair.
        squares = (math.fsum(p**2) - 2.0 * p + 1.0) / (1.0 if len(s) > 1 else 2.0)
        most = math.sqrt(squares.max())
        factors.append(min(1.0, row_clip / max(most * length, 1e-300)))
        reach = factors[-1] * own * length
        mean.append(math.fsum(p * squares) * reach**2)
        longest.append(most * reach)
        gaps.append(longest[-1] ** 2 - mean[-1])
    square = math.fsum(mean) + max(gaps)
    square += correlation * (math.fsum(longest) ** 2 - math.fsum(np.square(longest)))
    whole = min(1.0, clip / max(math.sqrt(square), 1e-300)) if len(slopes) > 1 else 1.0
    return whole * np.array(factors)


def group_gradient(
    rows, target, start, w, loss, transform, clip, row_clip=math.inf, mass=math.inf, gauge=1.0,
    weight=None, correlation=None,
):  # fmt: skip
    """Sum of the groups' gradients, each scaled as one vector, and the share.

    With a correlation, slopes are first multiplied by what does not depend on labels.
    """
    weight = np.ones(len(rows)) if weight is None else weight
    z = rows @ transform
    total, share = np.zeros_like(w), 0.0
    slopes = slopes_of(rows, target, w, loss)
    for first, last in pairwise(start):
        gradient, seen = np.zeros_like(w), np.zeros((len(w), z.shape[1]))
        size, squares = 0.0, 0.0
        before = np.ones(last - first)
        if correlation is not None and last > first:
            before = alike(
                slopes[first:last], z[first:last], weight[first:last], clip, row_clip, correlation
            )
        for i in range(first, last):
            s, length = before[i - first] * slopes[i], math.sqrt(math.fsum(z[i] ** 2))
            norm = math.sqrt(math.fsum(s**2))
            s = weight[i] * s * min(1.0, row_clip / max(norm * length, 1e-300))
            gradient += np.outer(s, rows[i])
            seen += np.outer(s, z[i])
            size += math.sqrt(math.fsum(s**2))
            squares += math.fsum(s**2) * length**2
        if last == first:
            continue
        norm = math.sqrt(math.fsum(seen.ravel() ** 2))
        factor = 1.0
        if last - first > 1:
            factor = min(1.0, clip / max(norm, 1e-300), mass / max(size, 1e-300))
            share += min(1.0, gauge * math.sqrt(squares / (last - first)) / max(norm, 1e-300))
        else:
            factor = min(1.0, mass / max(size, 1e-300))
            share += min(1.0, gauge)
        total += factor * gradient
    return total, share
