"""How far slopes of a mean may reach: counts of the tails of the targets.

Slopes are cut by the range where most targets lie, so of a skewed tail a part is lost, and with it
a part of the mean.  To cut farther out costs noise in proportion.  Counts by distance from where
the descent begins, geometric up to the declared bounds, tell the one: what clipped slopes would
make of the mean.  The plan tells the other, and the cut goes where both together are least.

So it reaches every tail as there are more rows, and stays where it is if the tails are alike on
both sides, or if noise hides them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import TargetTails
from dpfast.shape import ProblemShape
from dpfast.solvers._range_laws import added_up
from dpfast.solvers._shares import Release
from dpfast.solvers._target_range import Place

_TAILS = "tails of the targets"
# Counts on either side.
_STEPS = 10
# Rows in units of a count's noise, if it had the whole budget: with fewer all tails are hidden.
_LEAST_ROWS = 75.0
# Of the budget, in units of mu²: what tells a count of 3 % of the rows, between these ends.
_ROWS_SEEN, _LEAST, _MOST = 140.0, 0.01, 0.03
# Deviations of the noise by which a tail must stand out: a false one may be very far away.
_SEEN = 4.0
# Rows of the usual length are shorter than √dim, by this factor; the slopes of long ones are cut
# so much earlier.
_USUAL, _LONG = 1.2, 0.5
# The cost of noise, in units of the plan's, which is that of flat ground.
_COST = 0.5
# Counts are spread over these places within their bins, in logarithms; density falls as a square.
_WITHIN, _FALLS = np.array([1.0, 3.0, 5.0]) / 6.0, 2.0
# Steps to the mean of clipped slopes, and the least share of the rows that are taken to bend it.
_TURNS, _LEAST_INSIDE = 50, 0.2


@dataclass(frozen=True)
class Tails:
    """The access, and what it is for."""

    histogram: Gaussian
    rows: float  # how many there are, by their weights at most
    cut: float  # where slopes are cut, in units of half the range
    noise: float  # excess loss by noise if half the range is 1


def share(rows: float) -> float:
    """Of the budget, in units of mu²; `rows` is ``µ n / √k``."""
    return min(_MOST, max(_LEAST, (_ROWS_SEEN / rows) ** 2)) if rows >= _LEAST_ROWS else 0.0


def planned(
    shape: ProblemShape,
    share: float,
    release: Release,
    clip: float,
    noise: float,
) -> Tails:
    """Settle the access; `release` calibrates it from its share of the budget.

    Gradients are clipped to ``clip √dim`` times the largest slope; `noise` is as in :class:`Tails`.
    """
    histogram = release(share, TargetTails(shape, _STEPS), _TAILS)
    cut = shape.loss.lipschitz * min(1.0, _USUAL * clip)
    return Tails(histogram, shape.n_samples * shape.max_weight, cut, noise)


def widened(place: Place, tails: Tails, curator: Curator, centered: bool = True) -> Place:
    """The place with a range as wide as its tails are worth.

    Distances are from where the descent begins, or from zero if no constant takes that up.
    """
    center, nearest = place.start if centered else 0.0, tails.cut * place.half
    farthest = max(1.0 + abs(center), 1.01 * nearest)
    edges = np.geomspace(_LONG * nearest, farthest, _STEPS + 1)
    counts = curator.release(tails.histogram, center, edges[0], edges[-1])
    sides = np.stack([counts[:_STEPS][::-1], counts[_STEPS + 1 :]])
    # Targets lie in [-1, 1], and what noise hides is taken for nothing.
    told = edges[:-1] < 1.0 + np.array([[center], [-center]])
    told &= np.arange(_STEPS) < _seen(np.where(told, sides, 0.0) / tails.histogram.stddev)
    shares = np.where(told, sides, 0.0) / tails.rows
    cuts = np.geomspace(nearest, farthest / _LONG, 4 * _STEPS)
    deviation = tails.histogram.stddev / tails.rows
    bias = _bias(cuts, edges, shares, counts[_STEPS] / tails.rows, np.where(told, deviation, 0.0))
    cost = _COST * tails.noise * (cuts / tails.cut) ** 2 + 0.5 * bias**2
    best = float(cuts[np.argmin(cost)])
    half = max(place.half, best / tails.cut)
    return Place(place.center, half, place.start, place.move, place.bins, place.narrowing)


def _seen(counts: Matrix) -> int:
    """How many counts outwards, in units of the noise, are up to the last that stands out of it."""
    outer, noise = added_up(counts[:, ::-1])
    together = (outer > _SEEN * noise)[:, ::-1]
    found = np.flatnonzero((together | (counts > _SEEN)).any(axis=0))
    return int(found[-1]) + 1 if len(found) else 0


def _bias(cuts: Vector, edges: Vector, sides: Matrix, middle: float, noise: Matrix) -> Vector:
    """How far the center of slopes cut so is from the mean, less a deviation of the noise.

    `sides` are the shares of the rows between the edges, below and above, with this noise; `middle`
    is that of the rows up to the first edge.
    """
    width = edges[1] / edges[0]
    away: Matrix = edges[:-1, None] * width**_WITHIN
    # The last end is a bound, and may be where they are.
    away[-1] = edges[-1] * width ** (0.5 * (_WITHIN - 1.0))
    weight = width ** (-_FALLS * _WITHIN)
    weight /= weight.sum()
    places = np.concatenate([[0.0], -away.ravel(), away.ravel()])
    shares = np.append(middle, np.outer(sides, weight))
    # Half of the rows are of the usual length, and half are long.
    reach = np.stack([cuts, _LONG * cuts], axis=1)[:, :, None]
    center = np.zeros((len(cuts), 1, 1))
    for _ in range(_TURNS):
        center += (np.clip(places - center, -reach, reach) @ shares).mean(axis=1)[:, None, None]
    bias = np.abs(shares @ places / max(_LEAST_INSIDE, shares.sum()) - center.ravel())
    over = np.maximum(away - reach[:, :, None], 0.0)
    inside = 1.0 - (over > 0.0).mean(axis=1) @ weight @ sides.sum(axis=0)
    deviation = np.sqrt((over.mean(axis=1) @ weight) ** 2 @ np.square(noise).sum(axis=0))
    bias = np.maximum(0.0, bias - deviation / np.clip(inside, _LEAST_INSIDE, 1.0))
    # It may change its sign on the way out, and is not gone where it does.
    return np.maximum.accumulate(bias[::-1])[::-1]
