"""The law of targets, from noisy counts by octave.

Most of a heavy tail lies in octaves whose counts do not stand out of the noise, and clipped slopes
do not see it either.  So many lognormal and gamma laws (and a mass below all octaves) are weighed
by how likely they make the counts, and the share of an octave may differ from that of a law, in
heavy tails farther out than in light ones, or be one of another mode.  Given a law all of this is
normal, and what a sum of the targets tells besides is Bayes' law, too.  All of it is
post-processing of the counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from dpfast._typing import Matrix, Vector
from dpfast.solvers._coordinates import expected_shares
from dpfast.solvers._range_laws import added_up, normal_shares

# Of the targets in an octave: their mean and mean square, in units of its upper end.
_MIDDLE, _SQUARE = 0.72, 0.56
# Deviations of the noise by which what lies beyond an edge must stand out.
_SEEN = 2.5
# Standard deviations of the lognormal laws, in octaves.
_NARROWEST, _WIDEST, _WIDTHS = 0.25, 3.0, 16
# Shapes of the gamma laws, whose tails are lighter and whose logarithms are skewed.
_LEAST_SHAPE, _LARGEST_SHAPE, _SHAPES = 0.1, 4.0, 12
# By how many octaves a mean is below the highest target, before any data are seen.
_BELOW, _BELOW_DEVIATION = 6.5, 4.0
# And how far it is from the middle of known bounds, in units of half their distance in octaves.
_WITHIN = 0.4
# What part of the targets is a mass at the lowest one, at most as usual.
_MASS = 0.25
# Tails, and how many are so: from an octave to the next shares fall to no less than this part, and
# what a share may be apart from it to no less than that.  It may be so far apart beforehand, in
# units of the share.
_TAILS = ((0.0, 0.15, 0.6), (0.25, 0.3, 0.3), (0.0, 0.4, 0.1))
_APART = 0.3
# How likely a share is one of another mode, before any data are seen; and what is left out after.
_MODE, _MODE_SEEN = 0.01, 0.05
# How far the mean of an octave may be from the usual, in units of its width.
_UNEVEN = 0.2
# How means that are likely are averaged: 1 is plainly, less counts ratios more; from this to 1 as
# the noise of the mean of cut targets falls from a tenth of the cut to a thousandth.
_RATIOS = 0.7
# Laws that are less likely than the likeliest by this factor are left out.
_UNLIKELY = 1e-4
# A normal deviation over the distance of quartiles.
_NORMAL = 0.74
# Steps to the center of distances that are cut, and the least share of the rows taken to bend it.
_TURNS, _INSIDE = 50, 0.2
# By how much counts in bins are wrong about a gap besides noise, since they tell no tails beyond
# their range: by this part of what they tell, and by this part of half the range.
_PART_WRONG, _RANGE_WRONG = 0.3, 0.05


@dataclass(frozen=True)
class TargetLaw:
    """Shares of the targets by octave: normal if one of many smooth laws is theirs.

    Shares may be below 0, as the noise is: sums have no bias.  What is missing to 1 lies below.
    """

    edges: Vector  # upper ends of the octaves
    expected: Matrix  # shares by each law, a row each
    apart: Matrix  # variances of the single octaves
    together: Matrix  # deviations that octaves have in common
    likely: Vector  # how likely each law is
    low: float = 0.0  # lowest target; 0 if there is none

    @classmethod
    def of(cls, edges: Vector, noisy: Vector, noise: float, low: float = 0.0) -> TargetLaw:
        """From shares with noise of this standard deviation; no target is below `low`."""
        inside = edges > low
        if low > 0.0:
            # No target is in the octaves below it: what the shares add up to is known.
            noisy = np.where(inside, noisy + (1.0 - noisy[inside].sum()) / inside.sum(), 0.0)
        # Here octaves are rows: what goes from one to the next passes over all laws at once.
        light, together, beforehand = _laws(edges, noisy, noise, low)
        within, parts = inside[:, None], []
        for falls, decay, chance in _TAILS:
            laws = _falling(light, falls) if falls > 0.0 else light
            if low > 0.0:
                laws = laws * within
                laws /= laws.sum(axis=0)
            apart = _falling(_APART * laws, decay) * within
            variance = np.square(apart)
            variance += noise**2
            off = np.square(noisy[:, None] - laws)
            off /= variance
            off += np.log(variance, out=variance)
            misfit = off.sum(axis=0) + beforehand - 2.0 * math.log(chance)
            near = np.flatnonzero(misfit < misfit.min() - 2.0 * math.log(_UNLIKELY))
            found = (part[:, near].T for part in (laws, together, apart))
            parts.append((*found, misfit[near]))
        laws, together, apart, misfit = (
            np.concatenate(all_of) for all_of in zip(*parts, strict=True)
        )
        likely = np.exp(-0.5 * (misfit - misfit.min()))
        kept = likely > _UNLIKELY
        laws, together, apart = laws[kept], together[kept], apart[kept]
        likely = likely[kept] / likely[kept].sum()
        other, off = _modes(noisy, noise, likely @ laws, _middles(edges, low))
        wide = np.maximum(apart, off)
        smooth, mode = (part**2 / (part**2 + noise**2) for part in (apart, wide))
        known = smooth + other * (mode - smooth)
        expected = laws + known * (noisy - laws)
        doubt = other * (1.0 - other) * np.square((mode - smooth) * (noisy - laws))
        own = known * noise**2 + doubt
        return cls(edges, expected, own, (1.0 - known) * together, likely, low)

    @property
    def shares(self) -> Vector:
        """What is expected of all laws, not below 0."""
        found = np.maximum(self.likely @ self.expected, 0.0)
        total = float(found.sum())
        return found / total if self.low > 0.0 or total > 1.0 else found

    def total(self) -> tuple[float, float]:
        """Of the shares, without the bias that each of them has if none is below 0; deviation."""
        totals = self.expected.sum(axis=1)
        found = float(self.likely @ totals)
        variances = self.apart.sum(axis=1) + self.together.sum(axis=1) ** 2
        return found, math.sqrt(float(self.likely @ ((totals - found) ** 2 + variances)))

    @property
    def middles(self) -> Vector:
        """Means of the targets in the octaves."""
        return _middles(self.edges, self.low)

    @property
    def mean(self) -> float:
        """Of the targets."""
        return max(float(self.likely @ (self.expected @ self.middles)), float(self.edges[0]))

    @property
    def relative(self) -> float:
        """Standard deviation over the mean."""
        squares = _SQUARE * (self.expected @ self.edges**2)
        # A median: the mean would be that of the heaviest tails that there may be.
        order = np.argsort(squares)
        square = squares[order][np.searchsorted(np.cumsum(self.likely[order]), 0.5)]
        return math.sqrt(max(float(square) / self.mean**2 - 1.0, 0.0))

    def best_cut(self, noise: float) -> float:
        """Where to cut targets if their mean then has noise of that part of the cut."""
        tops = np.concatenate([self.edges, self.edges / math.sqrt(2.0)])
        means, cuts, _, variances, covariances = self._moments(tops)
        off, off_cuts = means - self.likely @ means, cuts - self.likely @ cuts
        variance = self.likely @ (variances + off_cuts**2) + (noise * tops) ** 2
        covariance = self.likely @ (covariances + off[:, None] * off_cuts)
        return float(tops[np.argmax(covariance**2 / variance)])

    def beyond(self, tops: Vector) -> tuple[Vector, Vector]:
        """Mean of what targets have beyond each of the tops, and its variance.

        The median of all laws': a mean would be that of the heaviest tails that there may be.
        """
        means, cuts, mean_variances, variances, covariances = self._moments(tops)
        over = np.ascontiguousarray((means[:, None] - cuts).T)
        own = np.maximum(mean_variances[:, None] + variances - 2.0 * covariances, 0.0).T
        order = np.argsort(over)
        shares, every = np.cumsum(self.likely[order], axis=1), np.arange(len(over))

        def quantile(values: Matrix, below: float) -> Vector:
            at = np.argmax(shares >= below * (1.0 - 1e-9), axis=1)
            return np.asarray(values[every, order[every, at]], dtype=np.float64)

        found = quantile(over, 0.5)
        spread = _NORMAL * (quantile(over, 0.75) - quantile(over, 0.25))
        return found, quantile(own, 0.5) + np.square(spread)

    def told(self, top: float, found: float, noise: float) -> tuple[float, float]:
        """Mean of the targets, and its deviation, if that of targets cut at `top` is `found`.

        The noise of that has the deviation `noise`.  Where much is noise, the means that are
        likely differ by orders of magnitude, and one is wanted that is not too wrong in ratios;
        where little is, only rare targets hide, of which a few ratios explain little.
        """
        means, cuts, mean_variances, variances, covariances = self._moments(np.array([top]))
        spread, off = variances[:, 0] + noise**2, found - cuts[:, 0]
        logs = np.log(self.likely) - 0.5 * (off**2 / spread + np.log(spread))
        likely = np.exp(logs - logs.max())
        likely /= likely.sum()
        means = means + covariances[:, 0] / spread * off
        left = np.maximum(mean_variances - covariances[:, 0] ** 2 / spread, 0.0)
        high = float(self.edges[-1])
        if self.low > 0.0:
            means = np.clip(means, self.low, high)
        else:
            means = high * expected_shares(means / high, np.maximum(np.sqrt(left) / high, 1e-12))
        uneven = np.minimum(1.0, left / means**2)

        def expected(power: float) -> float:
            """Of the mean to this power, lognormal by each law."""
            return float(likely @ (means**power * (1.0 + uneven) ** (0.5 * power * (power - 1.0))))

        power = float(np.interp(math.log10(top / noise), [1.0, 3.0], [_RATIOS, 1.0]))
        mean = expected(power) / expected(power - 1.0)
        off = np.log(means / mean)
        return mean, mean * math.sqrt(float(likely @ (off**2 + np.log1p(uneven))))

    def _moments(self, tops: Vector) -> tuple[Vector, Matrix, Vector, Matrix, Matrix]:
        """By each law: mean of the targets, and of those cut at each of the tops, their variances.

        And their covariances.
        """
        middles = self.middles
        cut = np.minimum(middles, tops[:, None]).T
        whole = (self.edges <= tops[:, None]).T
        means, cuts = self.expected @ middles, self.expected @ cut
        of_mean, of_cut = self.together @ middles, self.together @ cut
        uneven = self.edges - np.maximum(self.low, 0.5 * self.edges)
        uneven = np.square(_UNEVEN * self.expected * uneven)
        within = uneven @ whole
        mean_variances = self.apart @ middles**2 + of_mean**2 + uneven.sum(axis=1)
        of_both = np.split(self.apart @ np.hstack([cut**2, middles[:, None] * cut]), 2, axis=1)
        variances, covariances = of_both
        if self.low > 0.0:
            # Shares add up to 1: what one has more another has less.
            alone, alone_cut = self.apart @ middles, self.apart @ cut
            both = self.apart.sum(axis=1)
            mean_variances -= means * (2.0 * alone - both * means)
            variances -= cuts * (2.0 * alone_cut - both[:, None] * cuts)
            covariances -= means[:, None] * alone_cut + cuts * alone[:, None]
            covariances += both[:, None] * means[:, None] * cuts
        variances += of_cut**2 + within
        covariances += of_mean[:, None] * of_cut + within
        return means, cuts, mean_variances, variances, covariances

    def around(self, length: float) -> tuple[Vector, Vector]:
        """Targets in units of their mean, less the spread of margins of a length; their shares."""
        below = max(0.0, 1.0 - float(self.shares.sum()))
        values = np.append(0.5 * self.edges[0], self.middles)
        shares = np.append(below, self.shares)
        shares /= shares.sum()
        wide = math.log(float(shares @ values**2) / float(shares @ values) ** 2)
        values = values ** math.sqrt(max(0.1, 1.0 - length**2 / max(wide, 1e-300)))
        return values / float(shares @ values), shares


@dataclass(frozen=True)
class Sides:
    """The laws of distances from a place, below and above."""

    below: TargetLaw
    above: TargetLaw

    def lost(self, cuts: Vector) -> tuple[Vector, Vector]:
        """By how much the mean is too low if distances are cut, and the variance of that."""
        (below, doubt_below), (above, doubt_above) = (
            law.beyond(cuts) for law in (self.below, self.above)
        )
        return above - below, doubt_below + doubt_above

    def _told(self) -> tuple[Vector, Vector]:
        """Distances in octaves, and their shares."""
        places = np.concatenate([[0.0], -self.below.middles, self.above.middles])
        shares = np.concatenate([[0.0], self.below.shares, self.above.shares])
        shares[0] = max(0.0, 1.0 - float(shares.sum()))
        return places, shares / shares.sum()

    @property
    def variance(self) -> float:
        """Of the targets."""
        places, shares = self._told()
        return float(shares @ np.square(places - shares @ places))

    def bias(self, reach: float) -> tuple[float, float]:
        """How far the mean is from the center of distances that are cut so; variance."""
        places, shares = self._told()
        center = _center(places, shares, reach, 0.0)
        inside = float(np.clip(places, -reach, reach) @ shares)
        (lost,), (variance,) = self.lost(np.array([reach]))
        return inside + float(lost) - center, float(variance)

    def best_cut(self, noise: float) -> tuple[float, float, float]:
        """Where to cut if the mean then has noise of that part of the cut.

        And by how much it is too low then, and the variance of noise and doubt together.
        """
        cuts = self.below.edges
        lost, doubt = self.lost(cuts)
        variance = doubt + np.square(noise * cuts)
        best = int(np.argmin(variance + np.square(lost)))
        return float(cuts[best]), float(lost[best]), float(variance[best])


class Bins(NamedTuple):
    """Noisy shares of the targets in bins of equal width between two places; they add up to 1."""

    low: float
    high: float
    shares: Vector
    noise: float  # deviation of a share's

    def gap(self, reach: float) -> float:
        """How far the mean is from the center of targets that are cut so, as far as that is sure.

        The farther the range goes beyond what noise leaves of it, the larger are gaps that noise
        makes, and the more deviations one must stand out by.
        """
        count, half = len(self.shares), 0.5 * (self.high - self.low)
        places = self.low + 2.0 * half * np.arange(0.5, count) / count
        center = _center(places, self.shares, reach, float(self.shares @ places))
        off, inside = places - center, np.abs(places - center) < reach
        by_share = off - np.clip(off, -reach, reach) / max(_INSIDE, float(self.shares @ inside))
        found = float(self.shares @ off)
        noise = self.noise * math.sqrt(count) * float(np.std(by_share))
        variance = noise**2 + (_PART_WRONG * found) ** 2 + (_RANGE_WRONG * half) ** 2
        variance *= 1.0 + 2.0 * math.log1p(noise / (_RANGE_WRONG * half))
        return found * max(0.0, 1.0 - variance / found**2) if found else 0.0


def _center(places: Vector, shares: Vector, reach: float, center: float) -> float:
    """Where distances to these places, cut at this length, add up to 0: near this center."""
    low, high = float(places.min()), float(places.max())
    for _ in range(_TURNS):
        center += float(np.clip(places - center, -reach, reach) @ shares)
        center = min(max(center, low), high)
    return center


def _modes(noisy: Vector, noise: float, law: Vector, middles: Vector) -> tuple[Vector, Vector]:
    """How likely each share is one of another mode, and how far it then is from the smooth `law`.

    Beforehand a mode is of any size above the noise, on the scale of logarithms, and rarely adds
    more to the mean than all else: of many empty octaves, far above the targets, one has noise of
    three deviations.
    """
    off = np.abs(np.clip(noisy, 0.0, 1.0) - law)
    out = np.maximum(off, noise)
    usual = np.minimum(1.0, float(law @ middles) / (out * middles)) ** 2
    beforehand = _MODE * usual / (out * max(1.0, -math.log(noise)))
    normal = np.exp(np.maximum(-0.5 * np.square(out / noise), -600.0))
    chance = beforehand / (beforehand + normal / (noise * math.sqrt(2.0 * math.pi)))
    return np.where(chance > _MODE_SEEN, chance, 0.0), off


def _middles(edges: Vector, low: float) -> Vector:
    """Means of the targets in octaves with these upper ends."""
    return np.maximum(_MIDDLE * edges, np.sqrt(low * edges))


def _below(high: float, low: float) -> tuple[float, float]:
    """Octaves by which a mean is below the highest target beforehand, and their deviation."""
    if low == 0.0:
        return _BELOW, _BELOW_DEVIATION
    half = 0.5 * math.log2(high / low)
    return min(_BELOW, half), min(_BELOW_DEVIATION, _WITHIN * half)


def highest(noisy: Vector, noise: float) -> int:
    """The highest octave from which on the rest of the counts stands out of the noise."""
    beyond, apart = added_up(noisy[::-1], noise)
    out = np.flatnonzero((beyond > _SEEN * apart)[::-1])
    return int(out[-1]) if len(out) else 0


def _falling(shares: Matrix, decay: float) -> Matrix:
    """The same, but from an octave, a row, to the next they fall to no less than this part."""
    found = shares.copy()
    for octave in range(1, len(found)):
        np.maximum(found[octave], decay * found[octave - 1], out=found[octave])
    return found


def _laws(edges: Vector, noisy: Vector, noise: float, low: float) -> tuple[Matrix, Matrix, Vector]:
    """Shares of smooth laws and of a mass below them, deviations, and how unlikely beforehand.

    The mass is below all octaves, or in the lowest if there is a lowest target; this is unlikely.
    The shares say how large it is, and how far that is in doubt.
    """
    inside, middles = edges > low, _middles(edges, low)
    cells, mass, prior = _smooth_laws(int(inside.sum())), np.zeros((len(edges), 1)), 0.0
    means = (middles[inside] @ cells) / cells.sum(axis=0)
    if low > 0.0:
        smooth, cells = cells / cells.sum(axis=0), np.zeros((len(edges), cells.shape[1]))
        cells[inside] = smooth
        mass[np.argmax(inside)] = 1.0
        prior = (noise / _MASS) ** 2
    off = cells - mass
    precision = np.einsum("ij,ij->j", off, off) + prior
    height, doubt = ((noisy - mass[:, 0]) @ off + prior) / precision, noise / np.sqrt(precision)
    height = expected_shares(height, doubt)
    middle, deviation = _below(edges[-1], low)
    beforehand = ((np.log2(edges[-1] / means) - middle) / deviation) ** 2
    if low > 0.0:
        beforehand += ((1.0 - height) / _MASS) ** 2
    return mass + height * off, np.minimum(doubt, height) * off, beforehand


@lru_cache(maxsize=16)
def _smooth_laws(octaves: int) -> NDArray[np.float64]:
    """Shares in each octave, a row, of many lognormal and gamma laws."""
    ends, centers = np.arange(octaves + 1.0), np.arange(-1.5, octaves + 0.75, 0.25)[:, None, None]
    widths = np.geomspace(_NARROWEST, _WIDEST, _WIDTHS)[:, None]
    power = np.geomspace(_LEAST_SHAPE, _LARGEST_SHAPE, _SHAPES)[:, None]
    cells = normal_shares(ends, centers, widths).reshape(-1, octaves)
    gammas = np.diff(gammainc(power, power * 2.0 ** (ends - centers))).reshape(-1, octaves)
    cells = np.concatenate([cells, gammas])
    return np.ascontiguousarray(cells[cells.sum(axis=1) > 0.3].T)
