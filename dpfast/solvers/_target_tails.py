"""How far from a constant prediction slopes may reach: counts of the tails of the targets.

Slopes are cut where most targets end, and a skewed tail beyond has a part in the mean.  What is
lost is the tail's mean excess over the cut, below the constant against above it; a farther cut
costs noise in proportion.  Counts by distance, geometric up to the bounds, tell the first, and the
plan the second: the cut goes where both together are least.  So it reaches every tail as the rows
get more, and stays where it is for laws that are symmetric, or whose tails noise hides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian, Query
from dpfast.queries import TargetTails
from dpfast.shape import ProblemShape
from dpfast.solvers._target_range import Place

Vector = NDArray[np.float64]

_TAILS = "tails of the targets"
_STEPS = 16
# Of the budget, in units of mu²: what shows a fifth of the rows, from the least to the most.
_SHOWS, _LEAST, _MOST = 25.0, 0.01, 0.05
# Deviations of the noise by which a tail must stand out: a false one may be very far away.
_SEEN = 4.5
# A row that is white but for what is not explained is shorter than √dim.
_SHORT = 1.2
# The cost of noise, in units of the plan's.
_COST = 0.5


def share(rows: float) -> float:
    """Of the budget, in units of mu², 0 where all would be hidden; `rows` is ``µ n / √k``."""
    needed = (_SHOWS / rows) ** 2
    return max(_LEAST, needed) if needed <= _MOST else 0.0


@dataclass(frozen=True)
class Tails:
    """The access, and what a cut costs.

    Attributes
    ----------
    histogram : Gaussian
        Of :class:`~dpfast.queries.TargetTails`.
    bound : float
        Targets lie in ``[-bound, bound]``.
    rows : float
        How many there are, by their weights at most.
    centered : bool
        Whether a constant takes up where a descent begins.
    cut : float
        Where slopes of typical rows are cut, in units of half the range.
    noise : float
        Excess loss by noise, for a range of half width 1.
    """

    histogram: Gaussian
    bound: float
    rows: float
    centered: bool
    cut: float
    noise: float


def planned(
    shape: ProblemShape, bound: float, share: float, release: Callable[[float, Query, str], Gaussian]
) -> Gaussian:
    """Settle the access; `release` calibrates it from its share of the budget."""
    return release(share, TargetTails(shape, _STEPS), _TAILS)


def typical_cut(clip: float, lipschitz: float) -> float:
    return lipschitz * min(1.0, _SHORT * clip)


def widened(place: Place, tails: Tails, curator: Curator) -> Place:
    """The place with a range as wide as the tails are worth."""
    center = place.start if tails.centered else 0.0
    nearest, farthest = tails.cut * place.half, tails.bound + abs(center)
    farthest = max(farthest, 1.001 * nearest)
    edges = np.geomspace(nearest, farthest, _STEPS + 1)
    counts = curator.release(tails.histogram, center, nearest, farthest)
    below, above = _seen(counts[:_STEPS][::-1] / tails.histogram.stddev), _seen(counts[_STEPS + 1 :] / tails.histogram.stddev)
    cost = [_lost(edges, k, above, below, tails) for k in range(_STEPS + 1)]
    best = int(np.argmin(cost))
    return place._replace(half=max(place.half, float(edges[best]) / tails.cut))


def _lost(edges: Vector, k: int, above: Vector, below: Vector, tails: Tails) -> float:
    middles = np.sqrt(edges[1:] * edges[:-1])[k:]
    over = (middles - edges[k]) * tails.histogram.stddev / tails.rows
    bias = (above[k:] - below[k:]) @ over
    seen = (above[k:] != 0).astype(float) + (below[k:] != 0)
    square = max(0.0, bias**2 - over**2 @ seen)
    return _COST * tails.noise * (edges[k] / tails.cut) ** 2 + 0.5 * square


def _seen(counts: Vector) -> Vector:
    """Counts outwards up to the last that stand out of the noise."""
    outer = np.cumsum(counts[::-1])[::-1]
    level = _SEEN * np.sqrt(np.arange(len(counts), 0.0, -1.0))
    found = np.flatnonzero((outer > level) | (counts > _SEEN))
    last = found[-1] + 1 if len(found) else 0
    return np.where(np.arange(len(counts)) < last, counts, 0.0)
