"""The intercept, from sums along the constant alone, in the end of a descent.

Along the constant nothing need be clipped, and noise is that of a single number.  So what these
sums say at the final weights is added to the intercept; the other weights stay as they are.

Above an outer quantile slopes are many times as long as below it, and a clip cuts the longer ones:
clipped gradients have their zero nearer to the median; and of few rows a descent looks for the
median itself.  A few releases of the sum of these slopes, each at an intercept that the ones before
it tell, bring the share of the targets below to the quantile that was asked for.

Gradients are cut by how long most of them are, so of a skewed tail a part is lost, and with it a
part of the mean: a sum of residuals, cut farther out for the same noise, tells it.  Counts by
octave of the distance from where the descent began, of groups of the mean over their rows, tell the
law of the tails on either side, that how far out to cut, and what lies beyond.  The counts in bins
that told the range foretell what is lost within it: where that stands out it is added beforehand,
and the sum has less left to tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from dpfast._typing import Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import QuantileSlopes, ResidualSum, TargetTails
from dpfast.shape import ProblemShape
from dpfast.solvers._groups import SizeLaw
from dpfast.solvers._shares import Release
from dpfast.solvers._target_law import Sides, TargetLaw
from dpfast.solvers._target_range import Place
from dpfast.solvers._whitened_rules import SURE, is_mean, sure

_SLOPES, _RESIDUALS = "slopes along the constant", "sum of residuals"
_TAILS = "distances of the targets by octave"
# Octaves below the farthest distance that are told apart.
_OCTAVES = 40
# Releases of the slopes: the moves of a search for their zero.
ROUNDS = 5
# Of all rounds together, the share of the budget, in units of mu², with which a mean slope has this
# noise, but no more than the most.
_NOISE, _LEAST, _MOST = 0.01, 0.01, 0.1
# And that with which it has this noise in units of q (1 - q), but no more than so much of what
# others leave: around an outer quantile few rows tell the weights anything, and the intercept is
# nearly all that can be learned.
_OUTER, _MOST_LEFT = 0.2, 0.5
# Laws of residuals in units of half the range of the targets: how far their quantile may be, that
# over what is told apart near 0, the narrowest, and how many places and widths; laws that are less
# likely than the likeliest by the last are left out.
_WIDEST, _FARTHEST, _NARROWEST, _PLACES, _WIDTHS, _UNLIKELY = 4.0, 40.0, 0.02, 161, 24, 1e-9
# How far the quantile is from where counts of the targets tell, and the other one from 0, in the
# same units; and by which part of a slope residuals' law makes it differ from a normal one's.
_ABOUT_START, _ABOUT_END, _NOT_NORMAL = 0.5, 0.15, 0.2
# Steps to the quantile of the laws together.
_HALVINGS = 40
# If noise in an octave's share of the rows is more, no residual is so many times as long as half
# the range: one octave of 80, far away, has noise of three deviations.
_FEW, _FAR = 0.04, 8.0
# Share of the budget, in units of mu², of a sum of residuals: as much as gives it the noise that
# the least has with so many rows, in units of a count's noise, but no more than the most.
_FOR_MEAN, _WITH_ROWS, _MOST_FOR_MEAN = 0.03, 140.0, 0.05
# Share of the residuals beyond half the range of the targets, as a guess.  If more are beyond the
# fewer the farther out, as of laws of finite variance, noise and bias are least in the geometric
# mean of that range and the one with as much noise.  No residual is longer than the last.
_BEYOND, _LONGEST = 0.05, 2.0


@dataclass(frozen=True)
class Level:
    """The releases by which the intercept is settled."""

    sums: Gaussian
    rounds: int
    rows: float  # how many there are, or groups of them, by their weights at most
    share: float  # of the budget, in units of mu²
    tails: Gaussian | None = None  # where a mean is asked for
    other: float = 0.5  # quantile whose loss the descent minimizes

    @property
    def accesses(self) -> tuple[tuple[Gaussian, int], ...]:
        """What is asked, and how often."""
        sums = (self.sums, self.rounds)
        return (sums,) if self.tails is None else ((self.tails, 1), sums)

    def settled(
        self,
        w: Vector,
        shape: ProblemShape,
        curator: Curator,
        place: Place,
        corner: float,
        groups: SizeLaw | None,
        reach: float = 0.0,
        spread: float = 0.0,
    ) -> Vector:
        """The weights with the intercept that the sums tell.

        `corner` is the width of the loss's corner over what was declared; the descent began at the
        `place` of the targets, cut residuals at `reach`, and found margins of this deviation.
        """
        half = place.half
        noise, q = self.sums.stddev / self.rows, shape.loss.quantile
        fewest, counted = (1.0, 1.0) if groups is None else groups.counted_above(noise)
        rows, noise = self.rows * counted, noise / counted

        def moved(move: float) -> Vector:
            """The weights with margins moved so."""
            return np.append(w[:-1], w[-1] + move / shape.intercept)

        def told(move: float, unit: float) -> float:
            """The mean of the sums there."""
            return float(curator.release(self.sums, moved(move), unit, fewest)[0]) / rows

        if q is None:
            if self.tails is None:
                cut = min(_LONGEST, half * math.sqrt(_BEYOND / noise))
                mean = told(0.0, cut)
                move = -sure(mean, noise) * mean * cut
            else:
                sides = self._sides(place, curator)
                cut, lost, variance = sides.best_cut(noise)
                gap = _foretold(place, sides, reach, spread)
                mean = told(0.0, cut) * cut - lost + gap
                move = gap - _believed(mean, variance, sides, reach, gap) * mean
        else:
            search = _Search(q, self.other, noise, half, place.move)
            for _ in range(self.rounds):
                search.add(told(search.at, corner))
            move = search.at
        return moved(move)

    def _sides(self, place: Place, curator: Curator) -> Sides:
        """The laws of the distances, of which the farthest is that of a bound."""
        assert self.tails is not None
        edges = (1.0 + abs(place.start)) * 2.0 ** np.arange(-_OCTAVES, 1.0)
        counts = curator.release(self.tails, place.start, edges[0], edges[-1]) / self.rows
        noise = self.tails.stddev / self.rows
        near = edges[1:] <= (math.inf if noise <= _FEW else _FAR * place.half)
        below, above = counts[:_OCTAVES][::-1], counts[_OCTAVES + 1 :]
        laws = (TargetLaw.of(edges[1:], side * near, noise) for side in (below, above))
        return Sides(*laws)


def _foretold(place: Place, sides: Sides, reach: float, spread: float) -> float:
    """What a descent that cuts residuals at the reach surely missed of the mean, by the bins.

    Margins have this deviation: residuals have less of what targets vary by, and of their gap.
    """
    if place.bins is None:
        return 0.0
    left = max(0.0, 1.0 - spread**2 / max(sides.variance, 1e-300))
    return left * place.bins.gap(reach)


def _believed(mean: float, variance: float, sides: Sides, reach: float, gap: float) -> float:
    """Which part of a mean residual with this variance is a reason to move, after the gap.

    As much as for any number, or more if slopes that are cut at the reach lose a part of the mean
    beyond doubt; unless that says that the gap was too small, and the mean that it was too large.
    """
    bias, doubt = sides.bias(reach)
    expected = bias**4 / max(bias**2 + doubt, 1e-300)
    if gap != 0.0 and (bias - gap) * mean > 0.0:
        expected = 0.0
    return max(sure(mean, math.sqrt(variance)), expected / (expected + variance))


def planned(
    shape: ProblemShape,
    rows: float,
    left: float,
    release: Release,
    for_tails: float = 0.0,
    other: float | None = None,
) -> Level | None:
    """How the intercept is settled; None if noise hides what there is.

    `rows` is ``µ n / √k``, and `left` the share of the budget that others leave; `for_tails` is
    that for counts of distances, 0 for none, and `other` the quantile that a descent looks for.
    """
    n = shape.n_samples * (1.0 if shape.several_rows else shape.max_weight)
    share = quantile_share(shape, rows, left)
    if share > 0.0:
        slopes = release(share / ROUNDS, QuantileSlopes(shape), _SLOPES)
        return Level(slopes, ROUNDS, n, share, None, other or 0.5)
    if not is_mean(shape.loss) or shape.intercept == 0.0:
        return None
    tails, share = None, _FOR_MEAN
    if for_tails > 0.0:
        tails = release(for_tails, TargetTails(shape, _OCTAVES), _TAILS)
        share = min(_MOST_FOR_MEAN, max(share, share * (_WITH_ROWS / rows) ** 2))
    residuals = release(share, ResidualSum(shape), _RESIDUALS)
    # What lies beyond a cut that is as narrow as the noise asks for, only the tails can tell.
    if tails is None and residuals.stddev > _BEYOND * n:
        return None
    return Level(residuals, 1, n, share + for_tails, tails)


def quantile_share(shape: ProblemShape, rows: float, left: float) -> float:
    """Share of the budget, in units of mu², for the rounds; `rows` and `left` as for a plan.

    None for the median, which is even, and where no slope stands out of the noise.

    Examples
    --------
    >>> from dpfast import Loss, ProblemShape
    >>> shape = ProblemShape(5_000, 3, 1.0, Loss("pinball", 0.9))
    >>> [round(quantile_share(shape, rows, 0.7), 4) for rows in (1_000.0, 100.0, 5.0)]
    [0.0405, 0.35, 0.0]
    """
    q = shape.loss.quantile
    if q is None or q == 0.5 or shape.intercept == 0.0 or left <= 0.0:
        return 0.0
    unit = math.sqrt(ROUNDS) * shape.loss.lipschitz / rows
    usual = min(_MOST, max(_LEAST, (unit / _NOISE) ** 2))
    found = max(usual, left * min(_MOST_LEFT, (unit / (_OUTER * q * (1.0 - q))) ** 2))
    return found if SURE * unit < shape.loss.lipschitz * math.sqrt(found) else 0.0


class _Search:
    """Where residuals have their quantile: normal laws, as likely as sums of slopes make them.

    `start` is the place to begin with, and residuals have this `other` quantile near 0, where the
    descent ended.  Places are in units of `half` the range of the targets.

    Examples
    --------
    >>> search = _Search(0.9, 0.5, noise=0.01, half=1.0, start=0.5)
    >>> search.add(-0.1)  # too low
    >>> search.at > 0.5
    True
    """

    def __init__(self, q: float, other: float, noise: float, half: float, start: float) -> None:
        self._q, self._noise, self._half = q, noise, half
        even = np.linspace(-1.0, 1.0, _PLACES)
        places = np.sinh(even * math.asinh(_FARTHEST)) * (_WIDEST / _FARTHEST)
        widths = np.geomspace(_NARROWEST, 0.5 * _WIDEST, _WIDTHS)
        place, self._width = (part.ravel() for part in np.meshgrid(places, widths, indexing="ij"))
        self._center = place - ndtri(q) * self._width
        apart = np.gradient(places).repeat(len(widths))
        self._likely = np.log(apart) + _near((place - start / half) / _ABOUT_START)
        self._likely += _near((self._center + ndtri(other) * self._width) / _ABOUT_END)
        self.at = self._root()

    def add(self, value: float) -> None:
        """Take in the mean slope where it was looked, and move.

        Residuals are not normal: the farther from its zero, the less a slope tells of where it is.
        """
        misfit = value - (self._below(self.at / self._half) - self._q)
        doubt = self._noise**2 + (_NOT_NORMAL * value) ** 2
        self._likely -= 0.5 * misfit**2 / doubt
        self.at = self._root()

    def _below(self, place: float) -> Vector:
        """Share of the residuals below a place, by each law."""
        return np.asarray(ndtr((place - self._center) / self._width), dtype=np.float64)

    def _root(self) -> float:
        """The quantile of all laws together: there the expected loss is least."""
        weight = np.exp(self._likely - self._likely.max())
        kept = weight > _UNLIKELY
        weight, center, width = weight[kept], self._center[kept], self._width[kept]
        weight /= weight.sum()
        low, high = -_WIDEST, _WIDEST
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            if weight @ ndtr((middle - center) / width) < self._q:
                low = middle
            else:
                high = middle
        return self._half * 0.5 * (low + high)


def _near(deviations: Vector) -> Vector:
    """Logarithms of a density that is near 0, more or less: Student's with three degrees."""
    return -2.0 * np.log1p(np.square(deviations) / 3.0)
