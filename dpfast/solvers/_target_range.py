"""Where the targets lie between bounds that may be far too wide: a range in private rounds.

A round counts the targets in bins over the range of the one before.  Normal laws of every place and
width are weighed by how likely they make the noisy counts, and what lies beyond nearly all of the
mixture, and beyond all bins whose counts stand out of the noise, is cut off, with room to spare.
What is left of a range a thousand times too wide is as long as the targets' own after three rounds.

Bounds are right more often than not, so laws that fill them, around their middle, have most of the
weight beforehand.  As long as these are likelier than all others the range is as it was declared,
and a descent begins near its middle: few rows in known bounds lose nothing to a search.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian, Query
from dpfast.queries import TargetHistogram
from dpfast.shape import ProblemShape
from dpfast.solvers._target_law import normal_shares

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Ends = tuple[float, float]

_RANGE = "range of the targets"
_BINS = 33
ROUNDS = 5
# Deviations of the noise by which a tail of the counts must stand out.
_SEEN = 3.5
# Share of the likely targets that a range leaves out on either side, and the room that it adds
# there, in units of what is left.
_LEFT_OUT, _ROOM = 0.02, 0.25
# A range that is hardly narrower is not worth new bins: counts of the same ones add up.
_NARROWER = 0.9
# Targets are not normal: by which share of the rows a count may differ for that.
_NOT_NORMAL = 0.03
# Deviations of the laws: from a part of a bin to a part of all bins.
_NARROWEST, _WIDEST, _WIDTHS = 0.25, 1.0 / 3.0, 14
# That the declared bounds are right: how likely that is before any counts, which laws it stands
# for, by the least of their deviations, and the deviation of their centers, in units of all bins;
# until all rows in units of a count's noise tell better.
_RIGHT, _FILLS, _AROUND, _TELL = 0.75, 0.1, 0.05, 20.0
# Of all rounds together: the share of the budget, in units of mu², that lets a twentieth of the
# rows stand out of the noise of a quarter of the bins (8.5, nearly), between these ends; and more
# if all rows would not stand out otherwise; but where that is hopeless, nearly nothing, and from
# there on no more than leaves as much for all else, in units of mu.
_ROWS_SEEN, _LEAST, _MOST = 20.0 * _SEEN * math.sqrt(8.5), 0.01, 0.1
_ALL_SEEN, _MOST_FOR_FEW, _HOPELESS = 7.5, 0.5, 7.0
# All rows in units of a count's noise: with fewer, targets are not found in bounds far too wide.
_LEAST_SEEN = 6.0


def share(rows: float) -> float:
    """Of the budget, in units of mu²; `rows` is ``µ n / √k``."""
    usual = min(_MOST, max(_LEAST, ROUNDS * (_ROWS_SEEN / rows) ** 2))
    asked = min(_MOST_FOR_FEW, max(usual, ROUNDS * (_ALL_SEEN / rows) ** 2))
    return max(_LEAST, min(asked, 1.0 - (_HOPELESS / rows) ** 2))


class Place(NamedTuple):
    """Where targets are: center and half the width of their range, and where a descent begins."""

    center: float
    half: float
    start: float


@dataclass(frozen=True)
class TargetRange:
    """The accesses of the rounds, and the declared range.

    Attributes
    ----------
    histogram : Gaussian
    bound : float
        Targets lie in ``[-bound, bound]``.
    rounds : int
    rows : float
        How many there are, by their weights at most.
    centered : bool
        Whether a constant can take up the center of a range; otherwise ranges are around zero.
    tail : float
        Rows on either side that a range need not hold.
    quantile : float or None
        Of the targets, where a descent begins; None: at their mean.
    """

    histogram: Gaussian
    bound: float
    rounds: int
    rows: float
    centered: bool
    tail: float = 0.0
    quantile: float | None = None

    @property
    def found(self) -> bool:
        """Whether there are rows enough to find them in bounds that are far too wide."""
        return self.rows >= _LEAST_SEEN * self.histogram.stddev


def planned(
    shape: ProblemShape,
    bound: float,
    rounds: int,
    share: float,
    release: Callable[[float, Query, str], Gaussian],
    tail: float = 0.0,
    quantile: float | None = None,
) -> TargetRange:
    """Settle the accesses; `release` calibrates one from its share of the budget.

    With a `tail`, the range need not hold this share of the rows on either side.
    """
    histogram = release(share / rounds, TargetHistogram(shape, _BINS), _RANGE)
    rows, centered = shape.n_samples * shape.max_weight, shape.intercept != 0.0
    return TargetRange(histogram, bound, rounds, rows, centered, tail * rows, quantile)


def learn_range(target: TargetRange, curator: Curator) -> Place:
    """A range that holds nearly all targets, and where among them a descent begins."""
    low, high = -target.bound, target.bound
    counts, alike, start, declared = np.zeros(_BINS), 0, 0.0, True
    for _ in range(target.rounds):
        counts, alike = counts + curator.release(target.histogram, low, high), alike + 1
        # From here on in units of the noise, and places in bins.
        noise, bin_width = target.histogram.stddev * math.sqrt(alike), (high - low) / _BINS
        rows, tail = target.rows * alike / noise, target.tail * alike / noise
        beforehand = _RIGHT if declared and rows < _TELL else 0.0
        right, shares, nearly_all = _likely(counts / noise, rows, beforehand)
        # Where rows hardly stand out, the middle is no worse a place, unless laws are around it.
        trust = 1.0 if right else 1.0 / (1.0 + (_LEAST_SEEN / rows) ** 2)
        apart = _start(shares, target.quantile) - 0.5 * _BINS
        start = 0.5 * (low + high) + trust * bin_width * apart
        if right:
            continue
        first, last = _with_room(nearly_all, _seen(counts / noise, tail))
        inner = low + first * bin_width, low + last * bin_width
        if not target.centered:
            reach = max(abs(inner[0]), abs(inner[1]))
            inner = -reach, reach
        inner = max(low, inner[0]), min(high, inner[1])
        if inner[1] - inner[0] < _NARROWER * (high - low):
            low, high = inner
            counts, alike, declared = np.zeros(_BINS), 0, False
    return Place(0.5 * (low + high), 0.5 * (high - low), start)


def _with_room(likely: Ends, seen: Ends | None) -> Ends:
    """Ends that hold what is likely and what was seen, with room on either side."""
    first, last = likely if seen is None else (min(likely[0], seen[0]), max(likely[1], seen[1]))
    room = max(1.0, _ROOM * (last - first))
    return first - room, last + room


def _likely(counts: Vector, rows: float, right: float = 0.0) -> tuple[bool, Vector, Ends]:
    """What counts tell if laws that fill all bins are `right` with this probability beforehand.

    Whether these are likelier than all others, the shares of the targets to be expected in the
    bins, and ends that hold nearly all of them: by these laws alone, if they are.
    """
    laws = _normal_laws()
    # Rows may weigh less than they might: no more than the counts can add up to.
    rows = min(rows, max(0.0, float(counts.sum())) + _SEEN * math.sqrt(_BINS))
    apart = np.square(counts - rows * laws).sum(axis=1)
    misfit = (_NOT_NORMAL * rows) ** 2
    belief = np.exp(-0.5 * (apart - apart.min()) / (1.0 + misfit))
    filling, others = right * _filling() * belief, (1.0 - right) / len(laws) * belief
    is_right = bool(filling.sum() > others.sum())
    belief = filling if is_right else filling + others
    shares = belief @ laws / belief.sum()
    below = np.append(0.0, np.cumsum(shares))
    first, last = np.interp([_LEFT_OUT, 1.0 - _LEFT_OUT], below, np.arange(_BINS + 1.0))
    # Counts that noise does not hide tell more than laws.
    told = misfit / (1.0 + misfit)
    return is_right, shares + told * (counts / rows - shares), (float(first), float(last))


def _start(shares: Vector, quantile: float | None) -> float:
    """The mean or a quantile of targets with these shares, in bins."""
    shares = np.maximum(shares, 0.0)
    shares /= shares.sum()
    if quantile is None:
        return float(shares @ np.arange(0.5, _BINS))
    below = np.append(0.0, np.cumsum(shares))
    return float(np.interp(quantile, below, np.arange(_BINS + 1.0)))


# Deviations of the laws, and their centers, in bins.
_DEVIATIONS = np.geomspace(_NARROWEST, _WIDEST * _BINS, _WIDTHS)
_CENTERS = np.arange(0.0, _BINS + 0.25, 0.5)


@lru_cache(maxsize=1)
def _normal_laws() -> Matrix:
    """Shares in the bins of many normal laws, one a row; the outer bins have the tails."""
    ends = np.concatenate([[-math.inf], np.arange(1.0, _BINS), [math.inf]])
    return normal_shares(ends, _CENTERS, _DEVIATIONS)


@lru_cache(maxsize=1)
def _filling() -> Vector:
    """Probabilities of the same laws if the declared bounds are right."""
    near = np.exp(-0.5 * ((_CENTERS / _BINS - 0.5) / _AROUND) ** 2)
    found = np.outer(near, _DEVIATIONS >= _FILLS * _BINS).ravel()
    return np.asarray(found / found.sum(), dtype=np.float64)


def _seen(counts: Vector, tail: float = 0.0) -> Ends | None:
    """Ends of what stands out of the noise; beyond them the counts together do not.

    Or they are those of a tail; None if nothing stands out.
    """
    level = np.maximum(_SEEN * np.sqrt(np.arange(1.0, len(counts) + 1.0)), tail)
    below = np.flatnonzero(np.cumsum(counts) > level)
    above = len(counts) - np.flatnonzero(np.cumsum(counts[::-1]) > level)
    stands_out = len(below) and len(above) and below[0] < above[0]
    return (float(below[0]), float(above[0])) if stands_out else None
