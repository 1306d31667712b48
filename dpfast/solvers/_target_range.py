"""Where the targets lie between bounds that may be far too wide: a range in private rounds.

A round counts the targets in a few bins over the range of the one before.  What lies beyond the
bins whose counts stand out of the noise is cut off, with room to spare; what is left of a range a
thousand times too wide is as long as the targets' own after three rounds.  Where noise would hide
most rows, the range stays as it was declared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian, Query
from dpfast.queries import TargetHistogram
from dpfast.shape import ProblemShape

Vector = NDArray[np.float64]

_RANGE = "range of the targets"
_BINS = 17
ROUNDS = 6
# Deviations of the noise by which a tail of the counts must stand out.
_SEEN = 3.5
# Share of the rows that the bins of a narrower range must hold.
_HELD = 0.5
# Of all rounds together: the share of the budget, in units of mu², that lets a twentieth of the
# rows stand out, between these ends.
_ROWS_SEEN, _LEAST, _MOST = 20.0 * _SEEN * math.sqrt(_BINS / 2.0), 0.01, 0.1


def share(rows: float) -> float:
    """Of the budget, in units of mu²; `rows` is ``µ n / √k``."""
    return min(_MOST, max(_LEAST, ROUNDS * (_ROWS_SEEN / rows) ** 2))


@dataclass(frozen=True)
class TargetRange:
    """The accesses of the rounds, and the declared range.

    Attributes
    ----------
    histogram : Gaussian
    bound : float
        Targets lie in ``[-bound, bound]``.
    rounds : int
    centered : bool
        Whether a constant can take up the center of a range; otherwise ranges are around zero.
    tail : float
        Rows on either side that a range need not hold.
    """

    histogram: Gaussian
    bound: float
    rounds: int
    centered: bool
    tail: float = 0.0


def planned(
    shape: ProblemShape,
    bound: float,
    rounds: int,
    share: float,
    release: Callable[[float, Query, str], Gaussian],
    tail: float = 0.0,
) -> TargetRange:
    """Settle the accesses; `release` calibrates one from its share of the budget.

    With a `tail`, the range need not hold this share of the rows on either side.
    """
    histogram = release(share / rounds, TargetHistogram(shape, _BINS), _RANGE)
    return TargetRange(
        histogram, bound, rounds, shape.intercept != 0.0, tail * shape.n_samples * shape.max_weight
    )


def learn_range(target: TargetRange, curator: Curator) -> tuple[float, float]:
    """Center and half the width of a range that holds nearly all targets."""
    low, high = -target.bound, target.bound
    counts, alike = np.zeros(_BINS), 0
    for _ in range(target.rounds):
        counts, alike = counts + curator.release(target.histogram, low, high), alike + 1
        noise = target.histogram.stddev * math.sqrt(alike)
        first, last = _seen(counts, noise, target.tail * alike)
        if first > last or counts[first : last + 1].sum() < _HELD * counts.sum():
            continue  # counts of the same bins add up
        width = (high - low) / _BINS
        room = (last - first + 1) * width
        inner = low + first * width - room, low + (last + 1) * width + room
        if not target.centered:
            reach = max(abs(inner[0]), abs(inner[1]))
            inner = -reach, reach
        low, high = max(low, inner[0]), min(high, inner[1])
        counts, alike = np.zeros(_BINS), 0
    return 0.5 * (low + high), 0.5 * (high - low)


def _seen(counts: Vector, noise: float, tail: float = 0.0) -> tuple[int, int]:
    """First and last bin of what stands out of the noise; (1, 0) if nothing does.

    Beyond them the counts together do not stand out, or are those of a tail; or, where noise hides
    all but single bins, none alone does.
    """
    level = np.maximum(_SEEN * noise * np.sqrt(np.arange(1.0, len(counts) + 1.0)), tail)
    below = np.flatnonzero(np.cumsum(counts) > level)
    above = len(counts) - 1 - np.flatnonzero(np.cumsum(counts[::-1]) > level)
    if len(below) and len(above) and below[0] <= above[0]:
        return int(below[0]), int(above[0])
    alone = np.flatnonzero(counts > _SEEN * noise)
    return (int(alone[0]), int(alone[-1])) if len(alone) else (1, 0)
