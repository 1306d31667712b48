"""What whitened descent does more for losses with a log link (counts, costs, durations).

Their slopes have no scale that is known beforehand: a slope is a residual in units of a mean, and
the mean may be far below the highest target that was declared.  So a run

1. releases, of persons and other groups of rows, counts by size: from a number of rows on that
   follows, a group counts as one record, each of its rows as a part of it;
2. releases counts of the targets by octave, of which spread and tail follow, and a sum of the
   targets that is cut where noise begins to outweigh the tail, which makes the mean; the descent
   begins there, its steps are of the curvature there, and rows are clipped in units of the spread;
3. descends as for any loss;
4. estimates intercept and length of the weights, from mean and length, as far as noise does not
   explain it, and from a few releases of their two slopes.  Rows are skewed and clipped, so the
   descent ends below the mean, too flat or too steep, but in the right direction; two numbers can
   be learned with a clip so wide that it hardly matters.

All sums are of :mod:`dpfast.queries`; docs/log_link.md has the study behind the constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian, Laplace
from dpfast.queries import RelativeGradient, TargetCounts, TargetSum, bounded
from dpfast.shape import ProblemShape
from dpfast.solvers import _groups
from dpfast.solvers._shares import Release
from dpfast.solvers._target_law import TargetLaw, highest
from dpfast.solvers._whitened_rules import Rule

COUNTS, MEAN, _CALIBRATION = "targets by size", "mean of the targets", "intercept and length"
# Octaves below the highest target that are told apart, at least.
_OCTAVES = 40
# Shares of the budget.
_MEAN_SHARE, _CALIBRATION_SHARE = 0.1, 0.07
# So many rows a weight, or in all, make weights worth their budget; with fewer the mean has more.
_WORTH, _WORTH_IN_ALL, _MORE_MEAN = 6.0, 100.0, 0.25
# Of few weights the mean has its part as one of them, up to so much.
_PART, _MOST_MEAN = 0.75, 0.35
# Releases of the two slopes, and steps to the estimate after each.
_ROUNDS, _STEPS = 4, 6
# A step moves intercept and length no farther than this.
_FARTHEST = 0.7
# The clip of the two slopes, over their spread times the root of the rows in units of the noise: as
# these get many, both noise and what is cut vanish; and the least, in means.
_WIDE, _LEAST = 0.25, 2.0
# Rows of groups count alike as far as groups then count as much as so many rows; for the weights'
# direction, as so many a weight.
_PLENTY, _EACH = 400.0, 100.0
# Below so many rows a weight correlations are left alone.
_CORRELATED = 40.0
# The least clip, in units of the spread, and in means.
_LEAST_CLIP, _LEAST_MEANS = 0.05, 0.38
# Targets are taken to spread by at least this, over their mean.
_LEAST_RELATIVE = 0.3
# The largest means are below the highest target that stands out times this.
_BEYOND = 3.0
# Lines of a Tweedie loss begin at least so far below the mean, in logarithms; above so many rows a
# weight farther by so many times the logarithm of how many more; and at most, also below margin 0,
# and in units of the declared width: no released mean may lead to a size that queries refuse.
# Bounds of targets from 1e-100 to 1e100 are as wide.
_BELOW, _MANY, _FARTHER, _FAR_BELOW = 0.2, 500.0, 2.0, 6.0
WIDEST, _LARGEST = 231.0, 1e100
# Predictions are kept within so many deviations of the margins, or up to the largest means.
_KEPT = 8.0
# Deviations of its noise by which a sum of weights must be below the most it can be.
_ALIKE = 5.0
# White rows are longer by this than those that count fully, and have this part of the curvature.
_SHORTENING, _SHORTENED = 1.5, 0.5
# At so many rows a weight rows are a third as long in the coordinates as white ones.
_SHORT = 2.0
# Which part of what stretches weights is in doubt.
_STRETCHED = 0.5
# Which part of a mean's logarithm is in how many targets are not 0, at least.
_OFTEN = 0.5
# Lengths of the weights: usual, the longest that is believed, and up to which margins are normal.
_USUAL, _LONGEST, _LONG = 0.6, 3.0, 2.0
# Shorter weights than this are none; at least so much of a length is left by the clip, and how
# firmly it is held to what is believed.
_SHORTEST, _LEAST_LEFT, _HELD = 1e-3, 0.75, 0.01
# The least part of the way to the minimum that steps are believed to go, and which part of a length
# is in doubt all the same.
_LEAST_WAY, _LENGTH_DOUBT = 0.5, 0.1
# How far a mean of exponentials may be off if margins are not normal, by the length squared; and
# which part of what the clip cuts, and of slopes far from the end, is in doubt.
_SKEWED, _CUT, _FAR = 0.15, 0.5, 0.25
# A Gauss-Hermite rule for normal margins.
_POINTS, _RULE = np.polynomial.hermite_e.hermegauss(15)


@dataclass(frozen=True)
class MeanAsked:
    """The accesses that tell the mean of the targets."""

    counts: Gaussian | Laplace
    mean: Gaussian | Laplace
    sizes: Gaussian | None  # of the groups', if a record is a group
    rows: float  # in units of the noise that the whole budget has; µ n / k

    @property
    def first(self) -> tuple[tuple[Gaussian | Laplace, int], ...]:
        """Those that a run begins with."""
        targets = (self.counts, 1), (self.mean, 1)
        return targets if self.sizes is None else ((self.sizes, 1), *targets)


@dataclass(frozen=True)
class LogLink(MeanAsked):
    """The accesses, and what public numbers a run needs besides them."""

    calibration: Gaussian
    calibration_share: float  # of the budget, in units of mu²
    rule: Rule  # for settings that follow the rows' mean weight, once it is learned

    @property
    def last(self) -> tuple[Gaussian, int]:
        """What it ends with."""
        return self.calibration, _ROUNDS


@dataclass(frozen=True)
class Counted:
    """How many rows of a group count as one record, in a tuple that is empty if a record is a row.

    And on average over the records: what a group counts so, by which part of itself that may be
    wrong, and what a group weighs.
    """

    rows: tuple[float, ...]
    part: float
    doubt: float
    weight: float

    def ridge(self, ridge: float) -> float:
        """A ridge beside the mean loss of rows, beside sums of what these rows weigh."""
        return ridge * self.part / self.weight


@dataclass(frozen=True)
class Spread:
    """What the counts tell of the targets."""

    mean: float
    doubt: float  # deviation of the mean, over it
    relative: float  # standard deviation over the mean
    top: float  # upper end of the highest octave that stands out of the noise, or the sum's cut
    law: TargetLaw
    level: Counted  # in counts and calibration
    steps: Counted  # in the gradients
    size: tuple[float, ...] = ()  # of the loss's range without lines, over that declared

    def reach(self, clip: float) -> float:
        """Of slopes clipped at so many spreads, in means."""
        return min(clip * self.relative, self.top / self.mean)

    def seen_by(self, shape: ProblemShape) -> ProblemShape:
        """The shape with the loss that gradients are of."""
        return replace(shape, loss=shape.loss.zoomed(*self.size)) if self.size else shape

    @property
    def often(self) -> float:
        """Which part of a mean's logarithm is in how many targets are not 0, if any are.

        Of counts of a Poisson law nearly all if few are not 0; it is less the more targets were
        seen to spread beyond that law, and half is usual.
        """
        if self.law.low > 0.0:
            return 0.0
        shares, seen = self.law.shares, np.minimum(self.law.middles, self.top)
        some = min(max(float(shares.sum()), _SHORTEST), 1.0 - _SHORTEST)
        mean = -math.log(1.0 - some)
        # Over their own mean: an octave of one count says little of where in it that is.
        square = float(shares @ seen**2) / max(float(shares @ seen), 1e-300) ** 2 - 1.0
        beyond = max(1.0, mean * square)
        return max(_OFTEN, (1.0 - some) * mean / some / beyond)


def shares(rows: float, dim: int) -> tuple[float, float, float]:
    """Of the budget, in units of mu², for the counts, the mean and the calibration.

    `rows` is µ n / k.
    """
    # Rare targets hide in the noise of the counts where other tables have rows enough.
    for_counts = min(0.4, max(0.03, min(0.1, 100.0 / rows), (40.0 / rows) ** 2))
    worth = _worth(rows / dim, dim) ** 2
    for_mean = _MEAN_SHARE + _MORE_MEAN * (1.0 - worth)
    # A gradient of d entries is √d times as long as the part of the mean in it: noise in d weights
    # is d² times that of the mean with the same budget, which is least in all with d times less.
    # Where counts take much, that is of what they leave.
    for_part = min(_MOST_MEAN, _PART / dim, 0.5 - 0.75 * for_counts)
    return for_counts, max(for_mean, worth * for_part), _CALIBRATION_SHARE


def _worth(u: float, dim: int) -> float:
    """How far weights are worth learning, where few rows leave the mean in doubt."""
    return min(1.0, max(u / _WORTH, u * dim / _WORTH_IN_ALL))


def planned(shape: ProblemShape, u: float, limit: float, release: Release, rule: Rule) -> LogLink:
    """Settle the accesses from public quantities; `release` calibrates one from its share."""
    rows = u * shape.dim
    for_counts, for_mean, for_calibration = shares(rows, shape.dim)
    # Columns: weights, and the intercept, or a constant column in its place if there is one.
    query = RelativeGradient(shape, 1.0, limit, 2)
    octaves = TargetCounts(shape, octaves_told(shape.loss))
    return LogLink(
        counts=release(for_counts, octaves, COUNTS),
        mean=release(for_mean, TargetSum(shape), MEAN),
        calibration=release(for_calibration / _ROUNDS, query, _CALIBRATION),
        rows=rows,
        calibration_share=for_calibration,
        rule=rule,
        sizes=_groups.planned_sizes(release, shape) if shape.several_rows else None,
    )


def learned(link: LogLink, settings: Any, spread: Spread, shape: ProblemShape) -> Any:
    """`settings` for rows of the weight that was learned: light ones tell as little as few rows."""
    share = spread.level.weight / shape.max_weight
    u = settings.rows_per_weight * spread.steps.weight / shape.max_weight
    found = link.rule.settings(u)
    found["clip"] = max(found["clip"], _LEAST_MEANS / spread.relative)
    changes = {name: found[name] for name in link.rule.free}
    changes["link"] = replace(link, rows=link.rows * share)
    changes["ground"] = _SHORTENED * _left_by_clip(shape.loss, spread, found["clip"])
    return replace(settings, rows_per_weight=u, **changes)


def _left_by_clip(loss: Loss, spread: Spread, clip: float) -> float:
    """Which part of the curvature at the mean slopes have that are clipped, by the targets' law."""
    values, shares = spread.law.around(0.0)
    unit = float(curvature(loss, spread.mean)[0])
    limit = _SHORTENING * unit * spread.reach(clip)
    margins = np.full(len(values), math.log(spread.mean))
    _, slopes, bends = loss(margins, spread.mean * values)
    return float(shares @ np.where(np.abs(slopes) < limit, bends, 0.0)) / unit


def automatic_settings(u: float, dim: int) -> dict[str, Any]:
    """What "auto" stands for, where that differs from other losses.

    The clip is in units of the residuals' spread; steps are shorter where noise is low, since
    curvatures differ by as much as the means do.
    """
    worth = _worth(u, dim)
    step = worth**2 * min(1.0, (u / 2.5) ** 2) / min(2.0, max(1.0, (u / 30.0) ** 0.35))
    settings = {
        "clip": min(2.1, max(_LEAST_CLIP, 0.35 * (u / 30.0) ** 0.45)),
        "learning_share": (0.4 + 0.6 * worth) * min(0.15, 0.05 + 2.0 / u),
        "step": step,
        "intercept_step": step,
    }
    return settings if u >= _CORRELATED else settings | {"correlation_share": 0.0}


def longest_row(shape: ProblemShape) -> float:
    """Length in the coordinates from which on rows count less."""
    return math.sqrt(shape.dim) / _SHORTENING


def learn_spread(link: MeanAsked, shape: ProblemShape, curator: Curator) -> Spread:
    """Mean, spread and range of the targets, from noisy counts."""
    query = link.counts.query
    assert isinstance(query, TargetCounts)
    level, steps = _counted(link, shape, curator)
    counts = curator.release(link.counts, *level.rows)
    edges, noise = query.edges, link.counts.stddev
    weight = _weight(shape, counts, edges, noise, level.weight)
    total = weight * shape.n_samples
    low, high = shape.loss.target_range
    law = TargetLaw.of(edges[1:], counts[1:] / total, noise / total, low)
    mean, deviation, cut = _mean(link, curator, law, total, level.rows)
    mean = min(max(mean, low, edges[0]), high)
    top = float(edges[1 + highest(counts[1:], noise)])
    # Of many low octaves one stands out of the noise by chance.
    top = top if top >= mean else cut
    # Beyond the top it is noise that squares add up to, and the sum may be below 0.
    square = float(law.shares @ np.minimum(law.middles, top) ** 2) / mean**2
    least = math.sqrt(max(square - 1.0, _LEAST_RELATIVE**2))
    return Spread(
        mean=mean,
        doubt=math.hypot(deviation / mean, level.doubt),
        relative=min(8.0, max(least, law.relative * law.mean / mean)),
        top=top,
        law=law,
        level=replace(level, weight=weight),
        steps=replace(steps, weight=steps.weight * weight / level.weight),
        size=_size(shape.loss, mean, link.rows / shape.dim * weight / shape.max_weight),
    )


def _size(loss: Loss, mean: float, u: float) -> tuple[float, ...]:
    """By how much the range without lines of a Tweedie loss must grow for this mean, if at all.

    It is declared with the bounds of the targets.  If these are wide, most means are below it, on a
    line along which weights come out 1 / (2 - power) times too long.  With few rows, `u` a weight,
    a line not far below the mean makes up for what the clip cuts.
    """
    if loss.name in ("poisson", "gamma", "negative-binomial") or loss.width is None:
        return ()  # no line below the lowest target
    below = min(_FAR_BELOW, _BELOW + _FARTHER * max(0.0, math.log(u / _MANY)))
    width = min(below - math.log(mean), WIDEST)
    return (min(width / loss.width, _LARGEST),) if width > loss.width else ()


def _counted(link: MeanAsked, shape: ProblemShape, curator: Curator) -> tuple[Counted, Counted]:
    """For mean and calibration, and for gradients, if all rows have the largest weight.

    The mean of all rows is that of large groups, too, but what decides it may be the same in all:
    so rows count alike as soon as two numbers can be learned, and later in the gradients.
    """
    if link.sizes is None:
        return (Counted((), 1.0, 0.0, shape.max_weight),) * 2
    counts = curator.release(link.sizes)
    law = _groups.seen_sizes(link.sizes, counts)

    def as_many_as(least: float) -> Counted:
        assert link.sizes is not None
        rows, _ = law.counted(min(1.0, least / link.rows))
        part, deviation = _groups.mean_part(link.sizes, counts, shape.n_samples, rows)
        return Counted((rows,), part, deviation / part, shape.max_weight * part)

    return as_many_as(_PLENTY), as_many_as(_EACH * shape.dim)


def _weight(shape: ProblemShape, counts: Vector, edges: Vector, noise: float, most: float) -> float:
    """Sum of the rows' weights over the number of records; `most` if they all weigh the same."""
    total = shape.n_samples * most
    # Most of the counts' noise is in octaves that hold little.
    share, doubt = TargetLaw.of(edges[1:], counts[1:] / total, noise / total).total()
    found = float(counts[0]) / shape.n_samples + most * share
    doubt = math.hypot(noise / shape.n_samples, most * doubt)
    # Mostly all rows weigh the same.
    if most - found < _ALIKE * doubt:
        return most
    return min(most, max(found, noise / shape.n_samples))


def _mean(
    link: MeanAsked, curator: Curator, law: TargetLaw, total: float, rows: tuple[float, ...]
) -> tuple[float, float, float]:
    """Of the targets, and its deviation: from the law, and from a sum of targets that are cut.

    They are cut where noise and the doubt in what lies beyond weigh the same; there is the last.
    """
    noise = link.mean.stddev / total
    top = law.best_cut(noise)
    found = float(curator.release(link.mean, top, *rows)[0]) * top / total
    return *law.told(top, found, noise * top), top


def curvature(loss: Loss, mean: float | Vector) -> Vector:
    """Of the loss where it is least, for targets of this mean: a slope over a relative residual."""
    # The mean of a rounded law may lie a rounding beyond the targets, where the loss is linear.
    means = np.clip(np.atleast_1d(np.asarray(mean, dtype=np.float64)), *loss.target_range)
    return loss(np.log(means), means)[2]


@dataclass(frozen=True)
class Direction:
    """What the descent found."""

    weights: Vector  # with which the margin of a typical row is 0
    length: float  # of the weights in the coordinates
    noise: float  # the length that noise alone would give them
    way: float  # which part of the way to the minimum lies behind it
    seen: float  # and behind the points that gradients were asked for at
    clip: float  # of its slopes, in spreads of the targets
    constant: Vector | None  # weights with which every margin is 1, if there are any


def calibrated(
    link: LogLink,
    shape: ProblemShape,
    curator: Curator,
    found: Direction,
    limit: float,
    spread: Spread,
    ridge: float,
) -> tuple[Vector, tuple[float, float]]:
    """The weights with intercept and length estimated from a few releases of their slopes.

    And what predictions are kept in: a margin far from all others is that of a row unlike those
    that the fit saw, and of its exponential noise makes anything.

    Before any of these the length is that which noise does not explain, and the mean is known as
    far as the targets told.  Slopes are compared with those expected of targets with the law of all
    targets, up to a factor, around means of normal margins.
    """
    # Rows are as much shorter than white ones.
    white = 1.0 / (1.0 + _SHORT * shape.dim / link.rows)
    length, noise = white * found.length, white * found.noise
    of_length = found.weights / length if length > 0.0 else found.weights
    nothing = np.zeros_like(of_length)
    columns = of_length, nothing if found.constant is None else found.constant
    count = 1 if found.constant is None else 2  # of these that are not nothing
    pair = bounded(shape, np.ascontiguousarray(np.column_stack(columns)), limit)
    believed, doubt = _believed(length, noise, found, shape.n_features)
    stretch = _stretched(shape.loss, spread)
    believed /= math.sqrt(stretch)
    doubt = math.hypot(doubt / math.sqrt(stretch), _STRETCHED * (stretch - 1.0) * believed)
    left = _left_of_length(shape.loss, spread, believed, spread.reach(found.clip))
    # Steps that hardly moved did not come to where the clip holds them.
    left = 1.0 - min(1.0, found.way) * (1.0 - left)
    doubt = math.hypot(doubt, _CUT * (1.0 - left) * believed) / left
    believed /= left
    mechanism = link.calibration
    assert mechanism.query is not None
    at = curator.fix(mechanism.query, pair, *spread.level.rows)
    wide = _WIDE * spread.relative * math.sqrt(link.rows * math.sqrt(link.calibration_share))
    wide = min(max(_LEAST, wide), _BEYOND * spread.top / spread.mean)
    unit = wide * float(curvature(shape.loss, spread.mean)[0])
    scale = unit / (shape.n_samples * spread.level.weight)
    law = *spread.law.around(believed), spread.often
    told: list[tuple[Vector, Vector, Vector]] = []

    def misfits(theta: Vector) -> Vector:
        """Of what was believed and told, in units of their deviations."""
        parts = [np.array([(theta[0] - believed) / doubt])]
        if len(theta) > 1:
            # The mean of exp(<x, w>) over normal <x, w> of this deviation.
            square = min(theta[0], _LONG) ** 2
            off = theta[1] + 0.5 * square - math.log(spread.mean)
            parts.append(np.array([off / math.hypot(spread.doubt, _SKEWED * square)]))
        for q, slopes, deviations in told:
            expected, _ = _slopes(shape.loss, q, theta, law, unit)
            parts.append((slopes - expected) / deviations)
        return np.concatenate(parts)

    q = np.array([believed, math.log(spread.mean) - 0.5 * min(believed, _LONG) ** 2])[:count]
    for _ in range(_ROUNDS):
        released = curator.release(mechanism, at, pair[:, :count] @ q, unit, *spread.size)
        slopes = released[:count] * scale
        _, cut = _slopes(shape.loss, q, q, law, unit)
        # What the clip cuts is doubted alike in all rounds, and slopes far from the end altogether.
        doubt_of_cut = _CUT * math.sqrt(_ROUNDS) * np.abs(cut)
        known = math.hypot(mechanism.stddev * scale, _FAR * float(np.abs(slopes).max()))
        told.append((q, slopes, np.hypot(known, doubt_of_cut)))
        q = _least_squares(misfits, q)
    if ridge > 0.0:

        def unclipped(at: Vector) -> Vector:
            return _slopes(shape.loss, at, q, law, math.inf)[0]

        bend = _derivative(unclipped, q, unclipped(q))
        drawn = pair[: shape.n_features, :count]  # the intercept is left alone
        q = np.linalg.solve(bend + spread.level.ridge(ridge) * drawn.T @ drawn, bend @ q)
    middle, far = float(q[1]) if len(q) > 1 else 0.0, _KEPT * abs(float(q[0]))
    largest = math.log(_BEYOND * max(spread.top, spread.mean))
    w = np.asarray(pair[:, :count] @ q, dtype=np.float64)
    return w, (middle - far, max(middle + far, largest))


def _believed(length: float, noise: float, found: Direction, count: int) -> tuple[float, float]:
    """Length of the weights less what noise explains, and its deviation.

    As James & Stein (1961), and no more than is likely of weights of a usual length.  The descent
    went part of the way to the minimum, and its noise is what it is; beyond the points that were
    asked for nobody saw whether the loss is curved as it is believed to be.
    """
    explained = min(1.0, (noise / length) ** 2) if length > 0.0 else 1.0
    way = min(1.0, max(_LEAST_WAY, found.way))
    seen = min(way, max(_LEAST_WAY, found.seen))
    usual = 1.0 / (1.0 + (noise / way / _USUAL) ** 2)
    believed = min(_LONGEST, length / way * min(1.0 - explained, usual))
    doubts = (
        noise / seen * math.sqrt(usual / count),
        0.25 * explained * usual * length / seen,
        _LENGTH_DOUBT * believed,
    )
    return believed, min(_LONGEST, max(1e-6, math.hypot(*doubts)))


def _stretched(loss: Loss, spread: Spread) -> float:
    """By which factor the descent's weights may be too long where most targets are 0.

    Clipped slopes of the others count them, and those of zeros are in proportion to a power of the
    mean, for Tweedie's laws ``2 - q``.  They balance at the mean's own weights if the others are as
    frequent as the mean to that power; at weights longer by its inverse if as frequent as the mean.
    """
    zeros = max(0.0, 1.0 - float(spread.law.shares.sum()))
    _, slope, bend = (float(part[0]) for part in loss([math.log(spread.mean)], [0.0]))
    return float(min(1.0, max(0.1, bend / slope)) ** -zeros)


def _left_of_length(loss: Loss, spread: Spread, length: float, clip: float) -> float:
    """Which part of the weights' length clipped slopes of counts leave, by the targets' law.

    Large counts are cut, and more of them where means are high.
    """
    if loss.target_range[0] > 0.0 or length < _SHORTEST:
        return 1.0
    means = spread.mean * np.exp(length * _POINTS - 0.5 * length**2)
    targets, shares = _around_means(means, *spread.law.around(length), spread.often)
    unit = float(curvature(loss, spread.mean)[0])
    limit = _SHORTENING * unit * clip
    directions = np.stack([_POINTS, np.ones(len(_POINTS))])
    start = np.array([length, math.log(spread.mean) - 0.5 * length**2])

    def misfits(q: Vector) -> Vector:
        """Of slopes that are to be 0, and a little of the place, if all slopes are cut."""
        margins = np.broadcast_to((q @ directions)[:, None], targets.shape)
        slopes = loss(margins.ravel(), targets.ravel())[1].reshape(targets.shape)
        clipped = (np.clip(slopes, -limit, limit) * shares).sum(axis=1)
        found = directions @ (clipped * _RULE) / (unit * _RULE.sum())
        return np.concatenate([found, _HELD * (q - start)])

    return min(1.0, max(_LEAST_LEFT, float(_least_squares(misfits, start)[0]) / length))


def _around_means(
    means: Vector, values: Vector, shares: Vector, often: float
) -> tuple[Matrix, Matrix]:
    """Targets by the law around each of the means, and their shares, a row each.

    A part `often` of a mean's logarithm is in how many targets are not 0, which no clip cuts.
    """
    if often == 0.0:
        return means[:, None] * values, np.broadcast_to(shares, (len(means), len(shares)))
    some = max(1.0 - float(shares[0]), _SHORTEST)
    relative = means * _RULE.sum() / float(means @ _RULE)
    more = np.minimum(1.0 / some, relative**often)[:, None]
    targets = means[:, None] * values / more
    targets[:, 0] = 0.0
    shares = shares * more
    shares[:, 0] = 1.0 - shares[:, 1:].sum(axis=1)
    return targets, shares


def _least_squares(misfits: Callable[[Vector], Vector], start: Vector) -> Vector:
    """Where the sum of their squares is least, the first number not below 0: Gauss-Newton steps."""
    at = start
    for _ in range(_STEPS):
        here = misfits(at)
        slopes = _derivative(misfits, at, here)
        move = -np.linalg.solve(slopes.T @ slopes, slopes.T @ here)
        at = at + move * min(1.0, _FARTHEST / max(float(np.linalg.norm(move)), 1e-300))
        at[0] = max(at[0], 0.0)
    return at


def _derivative(
    function: Callable[[Vector], Vector], at: Vector, here: Vector, step: float = 1e-4
) -> Matrix:
    """A column for each argument; `here` is the function at the point."""
    moved = [function(at + step * unit) - here for unit in np.eye(len(at))]
    return np.column_stack(moved) / step


def _slopes(
    loss: Loss, q: Vector, theta: Vector, law: tuple[Vector, Vector, float], clip: float
) -> tuple[Vector, Vector]:
    """Expected clipped slopes in length and intercept at `q`, and what the clip cuts from them.

    Margins are normal, and means those of `theta`; the law has values in units of their mean.
    """
    nodes, weights = _POINTS, _RULE
    directions = np.stack([nodes, np.ones(len(nodes))])[: len(q)]
    targets, shares = _around_means(np.exp(theta @ directions), *law)
    margins = np.broadcast_to((q @ directions)[:, None], targets.shape)
    slopes = loss(margins.ravel(), targets.ravel())[1].reshape(targets.shape)
    limits = clip / np.maximum(1.0, np.linalg.norm(directions, axis=0))[:, None]
    clipped = np.clip(slopes, -limits, limits)
    weights = weights / weights.sum()
    parts = [(part * shares).sum(axis=1) * weights for part in (clipped, slopes - clipped)]
    return directions @ parts[0], directions @ parts[1]


def octaves_told(loss: Loss) -> int:
    """So many that the whole range of positive targets is told apart."""
    low, high = loss.target_range
    whole = math.ceil(math.log2(high / low)) if low > 0.0 else 0
    return 1 + min(64, max(_OCTAVES, whole))
