"""Where the targets lie between bounds that may be far too wide: a range in private rounds.

A round counts the targets in bins over the range of the one before, and what the counts tell cuts
it (`dpfast/solvers/_range_laws.py`).  What is left of a range a thousand times too wide is as long
as the targets' own after three rounds.

Bounds are right more often than not, so laws that fill them, around their middle, have most of the
weight beforehand.  As long as these are likelier than all others the range is as it was declared,
and a descent begins near its middle: few rows in known bounds lose nothing to a search.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtri

from dpfast._typing import Matrix, Vector
from dpfast._validation import check_integer
from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian, Laplace
from dpfast.privacy import Budget, budget_epsilon, records_apart
from dpfast.queries import TargetHistogram
from dpfast.shape import ProblemShape
from dpfast.solvers._range_laws import SEEN, Search, ends, normal_laws, place, rows_told
from dpfast.solvers._shares import Release, left_of_pure, pure_releases
from dpfast.solvers._target_law import Bins

_RANGE = "range of the targets"
ROUNDS, PURE_ROUNDS, _BINS = 5, 3, 33
# Of laws: more than for columns, since noise is in proportion to the range, and rows may be many.
_WIDTHS = 14
# Beforehand targets are in two places far from each other with this probability.
_PAIRS = 0.01
# Tails that a range need not hold: of kinks, which look at one place of the law, but no more than
# this part of what is beyond that place, and of residuals, whose tails have a part in the mean.
_TAIL, _BEYOND, _TAIL_OF_RESIDUALS = 0.15, 0.5, 0.05
# A bin whose count is so many deviations of the noise, normal or Laplace's, is in the range, unless
# it is of such a tail; or of this share of the rows, outliers, if the loss is of residuals.
_ALONE, _ALONE_OF_PURE, _OUTLIERS = 4.0, 7.0, 0.12
# That the declared bounds are right: how likely that is before any counts, which laws it stands
# for, by the least of their deviations, and the deviation of their centers, in units of all bins;
# until all rows in units of a count's noise tell better.
_RIGHT, _FILLS, _AROUND, _TELL = 0.75, 0.1, 0.05, 20.0
# That targets may be narrower than that, where too few rows tell: less likely than they are for a
# range, which cuts what lies beyond; laws that are less likely than the likeliest by the last are
# left out.
_NARROWER, _UNLIKELY = 0.1, 1e-6
# Noise far from narrow targets moves the mean that counts tell by many of their deviations: it is
# left for the safest place where it loses more by e to this power.  Too few rows to find a range
# always leave it.
_MUCH_WORSE = 1.0
# Of all rounds together: the share of the budget, in units of mu², that lets a twentieth of the
# rows stand out of the noise of a quarter of the bins (8.5, nearly), between these ends; and more
# if all rows would not stand out otherwise; but where that is hopeless, nearly nothing, and from
# there on no more than leaves as much for all else, in units of mu.
_ROWS_SEEN, _LEAST, _MOST = 20.0 * SEEN * math.sqrt(8.5), 0.01, 0.1
_ALL_SEEN, _MOST_FOR_FEW, _HOPELESS = 7.5, 0.5, 7.0
# Rows weigh less than they may if their counts are so many deviations fewer.
_LIGHTER = 4.0
# Of the declared range: what is narrower is narrowed no further, lest its ends be one number.
_NARROWEST = 2.0**-40
# All rows in units of a count's noise: with fewer, targets are not found in bounds far too wide.
_LEAST_SEEN = 6.0
# From so many rows in units of a count's noise on, ranges are wider by the fourth root of what
# are more, so that residuals are cut ever less: means of skewed targets have a part in the tails.
_WIDER_FROM = 20_000.0
# A range that the last counts made so many times narrower may be far wider than targets still.
_STILL = 5.0
# So far from an end of [-1, 1] targets may as well be beyond.
_AT_END = 1e-3
# Predictions are kept within so many halves of a range around its center, or within so many
# deviations of the margins if these are more.
_NEAR, _FAR = 3.0, 25.0
#: Ranges of targets are learned from a pure budget up to so many halves away from 0.
FARTHEST = 2.0**12


def share(rows: float) -> float:
    """Of the budget, in units of mu²; `rows` is ``µ n / √k``."""
    usual = min(_MOST, max(_LEAST, ROUNDS * (_ROWS_SEEN / rows) ** 2))
    asked = min(_MOST_FOR_FEW, max(usual, ROUNDS * (_ALL_SEEN / rows) ** 2))
    return max(_LEAST, min(asked, 1.0 - (_HOPELESS / rows) ** 2))


def tails(loss: Loss) -> tuple[float, float]:
    """Shares of the targets, low and high, that the range they are in units of need not hold."""
    if loss.even:
        return _TAIL_OF_RESIDUALS, _TAIL_OF_RESIDUALS
    q = loss.quantile or 0.5
    return min(_TAIL, _BEYOND * q), min(_TAIL, _BEYOND * (1.0 - q))


def pure_share(rows: float) -> float:
    """Of a pure budget, for its fewer rounds; `rows` is ``ε n / (√2 k)``."""
    usual = min(_MOST, max(_LEAST, PURE_ROUNDS * _ROWS_SEEN / rows))
    return min(_MOST_FOR_FEW, max(usual, PURE_ROUNDS * _ALL_SEEN / rows))


class Place(NamedTuple):
    """Where targets are: center and half the width of their range, and where a descent begins."""

    center: float
    half: float
    start: float
    move: float = 0.0  # from there to where the level is looked for
    bins: Bins | None = None  # the last counts that told it
    narrowing: float = 1.0  # how many times wider the range was before these

    def beyond_end(self) -> Place:
        """The declared range, around zero, if all targets are counted at an end of it.

        There those beyond are, too: how far, no count tells.
        """
        at_end = self.half < _AT_END and abs(self.center) + self.half > 1.0 - _AT_END
        return self._replace(center=0.0, half=1.0) if at_end else self

    def said(self) -> tuple[str, ...]:
        """What to say where more counts would have narrowed the range, as far as these tell."""
        if self.narrowing < _STILL:
            return ()
        return (
            "The declared bounds of the targets are far wider than the targets, as far as the "
            "private releases of this fit tell: the last count of these still made their range "
            f"{self.narrowing:.2g} times narrower, and predictions may be far from it. If narrower "
            "bounds are publicly known, declare them; or set a larger target_rounds "
            "(solver_options), which costs some of the budget.",
        )

    def wide(self, widening: float) -> float:
        """Half the width of a range that is wider, as far as its center asks for."""
        return max(widening * self.half, abs(self.center) / FARTHEST)

    def kept(self, middle: float, deviation: float) -> tuple[float, float]:
        """What predictions are kept in, of margins around this middle, with this deviation.

        Few targets lie far beyond their range, and few margins many deviations from the others.  So
        a margin beyond both is that of a row unlike those that the fit saw, such as one with a code
        for a missing value, far beyond its column's other entries: noise in a weight made it.
        """
        far = max(_NEAR * self.half, _FAR * deviation)
        return min(self.center, middle) - far, max(self.center, middle) + far

    def stretch(self, loss: Loss) -> float:
        """How much longer slopes are for residuals in units of half the width."""
        return loss.zoomed(self.half).lipschitz / loss.lipschitz


@dataclass(frozen=True)
class TargetRange:
    """The accesses of the rounds, and the declared range, which is ``[-bound, bound]``."""

    histogram: Gaussian | Laplace
    bound: float
    rounds: int
    rows: float  # how many there are, by their weights at most
    # Whether a constant can take up the center of a range; otherwise ranges are around zero.
    centered: bool
    tails: tuple[float, float] = (0.0, 0.0)  # low and high rows that a range need not hold
    quantile: float | None = None  # of the targets, where a descent begins; None: at their mean
    last: float | None = None  # of the targets, where the level is looked for
    widening: float = 1.0  # by how much a range that a pure budget tells is widened

    @property
    def accesses(self) -> tuple[tuple[Gaussian | Laplace, int], ...]:
        """What is asked, and how often."""
        return ((self.histogram, self.rounds),)

    @property
    def alone(self) -> float:
        """Deviations of the noise from which on a count is not noise."""
        return _ALONE if isinstance(self.histogram, Gaussian) else _ALONE_OF_PURE

    @property
    def outliers(self) -> Vector:
        """Low and high rows that may be away from all others."""
        few = _OUTLIERS * self.rows if self.quantile is None else 0.0
        return np.maximum(self.tails, few)

    @property
    def found(self) -> bool:
        """Whether there are rows enough to find them in bounds that are far too wide."""
        return self.rows >= _LEAST_SEEN * self.histogram.stddev


def planned(
    shape: ProblemShape,
    bound: float,
    rounds: int,
    share: float,
    release: Release | Callable[..., Laplace],
    tails: tuple[float, float] = (0.0, 0.0),
    quantile: float | None = None,
    last: float | None = None,
    norm: Literal["l2", "l1"] = "l2",
) -> TargetRange:
    """Settle the accesses; `release` calibrates one from its share of the budget.

    The range need not hold these `tails`, shares of the rows.
    """
    histogram = release(share / rounds, TargetHistogram(shape, _BINS, norm), _RANGE)
    # A group of rows counts one, whatever the weights of its rows.
    rows = shape.n_samples * (1.0 if shape.several_rows else shape.max_weight)
    centered, left_out = shape.intercept != 0.0, (tails[0] * rows, tails[1] * rows)
    return TargetRange(histogram, bound, rounds, rows, centered, left_out, quantile, last)


def planned_of_pure(
    target_rounds: int | str,
    shape: ProblemShape,
    budget: Budget,
    relation: str,
    automatic: bool = True,
) -> tuple[TargetRange | None, Budget]:
    """How the targets' range is learned from a pure budget, and the budget that it leaves.

    "auto" is rounds for losses of numbers without a log link if they are `automatic`.
    """
    numbers = shape.loss.kind == "regression" and not shape.loss.log_link
    able = numbers and budget.kind == "pure"
    if target_rounds == "auto":
        rounds = PURE_ROUNDS if able and automatic else 0
    else:
        rounds = check_integer("target_rounds", target_rounds, low=0, high=100)
    if rounds == 0:
        return None, budget
    if not able:
        raise ValueError(
            f"target_rounds must be 0 for the loss {shape.loss.name!r} with {budget!r}; got "
            f"{rounds}. Only ranges of numbers without a log link are learned, with a pure budget."
        )
    epsilon = budget_epsilon(budget)
    # In units of the noise of a count that has all of the budget.
    rows = epsilon * shape.n_samples / (math.sqrt(2.0) * records_apart(relation))
    release = pure_releases(epsilon, relation)
    found = planned(shape, 1.0, rounds, pure_share(rows), release, tails(shape.loss), norm="l1")
    if shape.loss.even:
        found = replace(found, widening=max(1.0, (rows / _WIDER_FROM) ** 0.25))
    return found, left_of_pure(budget, found.histogram.events(rounds))


def learn_range(target: TargetRange, curator: Curator) -> Place:
    """A range that holds nearly all targets, and where among them a descent begins."""
    low, high, start, level = -target.bound, target.bound, 0.0, 0.0
    search = Search(np.array([low]), np.array([high]), _BINS, target.histogram.stddev)
    quantiles, bins = (target.quantile, target.last), None
    for _ in range(target.rounds):
        counts, row = search.add(curator.release(target.histogram, low, high))
        # From here on in units of the noise, and places in bins.
        rows = _weighing(counts, target.rows * row)
        found = counts[0] / rows
        bins = Bins(low, high, found + (1.0 - found.sum()) / _BINS, 1.0 / float(rows[0]))
        declared = high - low == 2.0 * target.bound
        right, shares = _likely(counts, rows, _RIGHT if declared and rows < _TELL else 0.0)
        # Where rows hardly stand out, the middle is no worse a place, unless laws are around it.
        trust = 1.0 if right else 1.0 / (1.0 + (_LEAST_SEEN / float(rows[0])) ** 2)
        told = _told(shares, counts, rows)
        middle = 0.5 * _BINS
        places = [middle + trust * (_start(told, quantile) - middle) for quantile in quantiles]
        worse = _MUCH_WORSE if target.found else 0.0
        places = [
            _safest(at, quantile, counts, rows, declared, worse)
            for at, quantile in zip(places, quantiles, strict=True)
        ]
        start, level = (low + (high - low) * at / _BINS for at in places)
        if not right and high - low > _NARROWEST * target.bound:
            first, last = ends(shares, counts, (target.tails[0] * row, target.tails[1] * row))
            alone = np.where(counts[0] > target.alone, counts[0], 0.0)
            lowest, highest = _atoms(alone, target.outliers * row)
            first, last = np.minimum(first, lowest), np.maximum(last, highest)
            if not target.centered:
                first = np.minimum(first, _BINS - last)
                last = _BINS - first
            search.narrow(first, last)
            low, high = float(search.low[0]), float(search.high[0])
            start, level = min(max(start, low), high), min(max(level, low), high)
    center = 0.5 * (low + high) if target.centered else 0.0
    narrowing = 1.0 if bins is None else (bins.high - bins.low) / (high - low)
    return Place(center, 0.5 * (high - low), start, level - start, bins, narrowing)


def _weighing(counts: Matrix, rows: Vector) -> Vector:
    """What all rows weigh: as much as they may, unless their counts are surely fewer."""
    told, noise = np.sum(counts, axis=1), math.sqrt(_BINS)
    return np.where(rows - told > _LIGHTER * noise, np.maximum(told, noise), rows)


def _likely(counts: Matrix, rows: Vector, right: float = 0.0) -> tuple[bool, Matrix]:
    """What counts tell if laws that fill all bins are `right` with this probability beforehand.

    Whether these are likelier than all others, and the shares of the targets to be expected in the
    bins: by these laws alone, if they are.
    """
    laws = normal_laws(_BINS, _WIDTHS, _PAIRS)
    likelihoods = laws.likelihoods(counts, rows)
    filling, others = right * _filling(), (1.0 - right) * laws.weight
    is_right = bool(likelihoods @ filling > likelihoods @ others)
    return is_right, laws.mixture(likelihoods, filling if is_right else filling + others)


def _atoms(alone: Vector, tails: Vector) -> tuple[float, float]:
    """Ends of the bins whose counts stand out alone, but for those of these low and high rows.

    Targets of a few values, such as grades, are in few bins.  No smooth law is theirs, and what
    lies beyond one of them is hidden by the noise of the empty bins.  An empty range if none do.
    """
    below = np.flatnonzero(np.cumsum(alone) > tails[0])
    above = np.flatnonzero(np.cumsum(alone[::-1]) > tails[1])
    if not (len(below) and len(above)):
        return math.inf, -math.inf
    return float(below[0]), float(_BINS - above[0])


def _told(shares: Matrix, counts: Matrix, rows: Vector) -> Matrix:
    """Shares that laws and counts tell together: counts that noise does not hide tell more.

    The nearest shares to these that are none below 0: noise below 0 takes as much from all.
    """
    rows, doubt = rows_told(counts, rows)
    found = (doubt * shares + (1.0 - doubt) * counts / rows)[0]
    falling = np.sort(found)[::-1]
    less = (np.cumsum(falling) - 1.0) / np.arange(1.0, len(found) + 1.0)
    nearest: Matrix = np.maximum(found - less[np.flatnonzero(falling > less)[-1]], 0.0)[None]
    return nearest


def _start(told: Matrix, quantile: float | None) -> float:
    """The mean or a quantile of the targets, in bins."""
    if quantile is None:
        return float(told[0] @ np.arange(0.5, _BINS))
    return float(place(told, quantile)[0])


def _safest(
    place: float,
    quantile: float | None,
    counts: Matrix,
    rows: Vector,
    declared: bool,
    worse: float,
) -> float:
    """Where a constant loses least in the geometric mean over the laws, in bins.

    Or the `place` itself, unless it loses more by e to the power `worse`.

    Losses are in units of each law's own variance: far from targets that are a thousand times
    narrower than the bounds a constant loses a million times as much as that far from the middle of
    targets that fill them.  Of wide laws counts tell the `place` better than their centers do.
    """
    laws = normal_laws(_BINS, _WIDTHS, _PAIRS)
    before = laws.weight
    if declared:
        before = (1.0 - _NARROWER) * _filling() + _NARROWER * before
    known = before * laws.likelihoods(counts, rows)[0]
    kept = (known > _UNLIKELY * known.max()) & (laws.width > 0.0)  # no pairs
    width = laws.width[kept]
    at = laws.center[kept] + (0.0 if quantile is None else ndtri(quantile)) * width
    at = np.where(width < _FILLS * _BINS, at, place)
    found = np.append(np.arange(0.5, _BINS), place)
    lost = np.log1p(np.square((found[:, None] - at) / width)) @ (known[kept] / known[kept].sum())
    return place if lost[-1] <= lost.min() + worse else float(found[np.argmin(lost)])


def _filling() -> Vector:
    """Weights of the laws if the declared bounds are right."""
    laws = normal_laws(_BINS, _WIDTHS, _PAIRS)
    near = np.exp(-0.5 * ((laws.center / _BINS - 0.5) / _AROUND) ** 2)
    found: Vector = laws.weight * near * (laws.width >= _FILLS * _BINS)
    found /= found.sum()
    return found
