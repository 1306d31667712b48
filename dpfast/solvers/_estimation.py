"""Newton steps with private scores, and the covariance of where they lead.

Everything is in learned coordinates ``z = Wᵀ x̃``; what the rows are asked, and why the estimate's
law is known, is in :mod:`dpfast.solvers.dp_newton` and :mod:`dpfast.queries.estimating`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import CoordinateGradient, WeightedCurvature, bounded, symmetric
from dpfast.queries.estimating import (
    LENGTHS,
    largest_curvature,
    scales,
    sizes_of,
    steepest_curvature,
    target_ladder,
)
from dpfast.shape import ProblemShape
from dpfast.solvers._long_tail import LongTail

# Of the descent: its momentum, and the longest step, in coordinates in which a row's typical entry
# is 1; and the longest Newton step there.
_MOMENTUM, _LONGEST_DESCENT, _LONGEST_STEP = 0.35, 1.5, 3.0
# The mean curvature of a descent's margins over that at their mean, and a step over its inverse.
_DESCENT_CURVATURE = 1.65
# With a log link: what directions of large means have more, or two times the mean one.
_LOG_LINK_CURVATURE = 2.0
# The mean curvature is at least this share of what it may be.
_LEAST_UNIT = 0.01
# Eigenvalues of the first curvature are at least this share of their mean, or of its noise's norm.
_LEAST_SHARE, _LEAST_NOISE = 0.15, 1.0
# Of the curvature's noise, times the root of the weights' number: what eigenvalues are at least.
_FLOOR = 1.0
# Variances are refused where margins move farther than this part of what the curvature bears.
_MOVE = 0.75
# And with a log link, where a larger share of the curvature is cut, the mean square of the margins'
# moves is larger, or the last step, beside the scores, or what it misses, beside the errors; that
# of any intercept, where it misses a larger part of its error.
_LOST, _STRAYED, _ASTRAY, _BENT, _MISSED_BY_INTERCEPT = 0.33, 0.06, 0.1, 0.5, 0.5
# Why one is refused: its directions hide in the noise, margins move too far, most others are, or
# what is cut may move it.
_HIDES, _MOVES, _AMONG, _CUT = 1.0, 2.0, 3.0, 4.0
# Where more than this share is refused, so are the rest.
_MOST = 0.75
# Of the limit of a stack's reach, for each of its three blocks.
_BLOCK = 0.5
# Deviations of the noise by which counts of large residuals must stand out together, and how far
# beyond the largest size that does residuals are not cut.
_HEARD, _ROOM = 3.5, 1.6
# What is cut off a long tail moves the intercept by at most this part of its error.
_MISSED = 0.25
# How far scores may reach at most, over the root of the weights' number, and what part of the
# weight that is taken from long rows is expected to move the estimate.
_FARTHEST, _TAKEN = 3.0, 0.15
# What a variance's relative noise adds to it, so that 95% intervals hold: (1.96² + 1) / 4.
_UNSURE = 1.21
# Points of a Gauss-Hermite rule for the mean curvature of normal margins.
_POINTS, _RULE = np.polynomial.hermite_e.hermegauss(40)


@dataclass(frozen=True)
class Course:
    """The order of the steps."""

    parts: tuple[float, ...]  # how the scores' share of the budget is divided
    curvature_at: int  # before which of the scores the curvature is released
    averaged_from: int  # from which of them on they are averaged
    hidden: float  # the share of a variance that may come from directions that are not seen
    sized_at: tuple[int, ...] = ()  # before which of them the scale of the residuals is learned
    seen: float = 2.0  # what the curvature of a direction that is seen passes, in noise's norms

    def weights(self, scales: Vector) -> Vector:
        """Of the first scores, with these scales, in their mean, by the precision of each.

        Those that cut slopes as large as were seen later are off by what they cut: none of it.
        """
        late = np.arange(len(scales)) >= min(self.averaged_from, len(scales) - 1)
        whole = _ROOM * scales >= scales[-1]
        kept = np.where(late & whole, self.parts[: len(scales)] / scales**2, 0.0)
        weights: Vector = kept / kept.sum()
        return weights


#: After a descent the start is near.  Residuals start at zero weights, where the targets' range
#: bounds them; their scale is learned twice, for the first one is found with more noise.  Less may
#: hide of what determines them: moves of the margins, which tell of it, too, mean nothing to them.
LOGISTIC = Course((0.15, 0.25, 0.60), curvature_at=2, averaged_from=0, hidden=0.05)
RESIDUALS = Course(
    (0.06, 0.14, 0.80), curvature_at=2, averaged_from=1, hidden=0.02, sized_at=(1, 2), seen=2.5
)
#: With a log link the first score is too far off to be averaged; the scale is learned at the start,
#: and anew for the last score.
LOG_LINK = Course((0.10, 0.25, 0.65), curvature_at=2, averaged_from=1, hidden=0.02, sized_at=(2,))


@dataclass(frozen=True)
class Found:
    """Where the steps led."""

    v: Vector  # the estimate
    moved: Vector  # from where the curvature was released
    curvature: Matrix  # without the ridge
    inverse: Matrix  # with it
    # Of the curvature where it is nearly the identity: eigenvalues and vectors, and whether the
    # value stands out of the noise.
    values: Vector
    vectors: Matrix
    seen: NDArray[np.bool_]
    cut: float  # of the residuals' mean, where they were cut: at most, as far as counts tell
    noise: Matrix  # covariance of that in the mean score, the curvature's included
    scale: float  # at which residuals are cut; 1 for other slopes
    strayed: float  # mean square of the margins' moves to the estimate from where scores were asked
    missed: Vector  # of the estimate, what a linear step misses of an exponential
    curvature_bound: float  # of a row, in units of the mean curvature


@dataclass(frozen=True)
class _Tail:
    """Of residuals: shares of the rows, at most, that are beyond some sizes; none if none is cut.

    Counts hide the residuals' sign, and the noise hides the largest.  They are taken to be on one
    side, like those of an exponential law less its mean: ``P(r > x) = exp(-(1 + x / t))``, so that
    a share and its size tell t.
    """

    shares: Vector = field(default_factory=lambda: np.zeros(0))
    sizes: Vector = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, counts: Vector, noise: float, sizes: Vector) -> _Tail:
        """From counts at sizes, from the largest down, with this noise: one deviation up."""
        beyond = np.maximum(np.cumsum(counts)[: len(sizes)], 0.0)
        beyond += noise * np.sqrt(np.arange(1.0, len(sizes) + 1.0))
        return cls(np.minimum(beyond / max(float(counts.sum()), noise), 1.0), sizes)

    def beyond(self, size: float) -> float:
        """Mean of what residuals have above a size, the least that a share allows."""
        if len(self.sizes) == 0:
            return 0.0
        lengths = self.sizes / np.maximum(-np.log(self.shares) - 1.0, 0.1)
        return float(np.min(self.shares * lengths * np.exp((self.sizes - size) / lengths)))


@dataclass(frozen=True)
class _Path:
    """Points, the scores that were released there, and the scales and noise of these."""

    course: Course
    points: list[Vector]
    scores: list[Vector] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    deviations: list[float] = field(default_factory=list)

    def add(self, score: Vector, scale: float, deviation: float) -> None:
        self.scores.append(score)
        self.scales.append(scale)
        self.deviations.append(deviation)

    def mean(self) -> tuple[Vector, Vector, float]:
        """Of points and scores, and the deviation of an entry's noise in it."""
        weights = self.course.weights(np.array(self.scales))
        deviation = float(np.linalg.norm(weights * self.deviations))
        return weights @ np.array(self.points), weights @ np.array(self.scores), deviation

    def cut(self, tail: _Tail) -> float:
        """What the scales of the mean score cut off the mean of the residuals, at most."""
        beyond = [tail.beyond(scale) for scale in self.scales]
        return float(self.course.weights(np.array(self.scales)) @ beyond)

    def strayed(self, v: Vector, metric: Matrix) -> float:
        """Mean square distance of a point from where the scores were released."""
        away = np.array(self.points) - v
        weights = self.course.weights(np.array(self.scales))
        return float(weights @ np.einsum("ij,jk,ik->i", away, metric, away))


class Asking:
    """What the rows are asked in the coordinates, and what was learned of their slopes.

    `pull` is the ridge in the coordinates, `limit` what the reach of a stack may be, and `part`
    what one row counts of a record.  Slopes are cut at `scale`, and the mean weight of the rows is
    `weight`, as far as these are learned.
    """

    def __init__(
        self,
        shape: ProblemShape,
        curator: Curator,
        transform: Matrix,
        limit: float,
        pull: Matrix,
        part: float = 1.0,
    ) -> None:
        self.scale, self.weight, self.tail = scales(shape)[1], 1.0, _Tail()
        self.shape, self.curator, self.transform = shape, curator, transform
        self.limit, self.pull, self.part = limit, pull, part
        self.n, self.dim = shape.n_samples, shape.dim

    def stack(self, metric: Matrix, whiten: Matrix, v: Vector) -> Matrix:
        """The fixed argument of the queries, within their limit."""
        part = _BLOCK * self.limit
        blocks = [bounded(self.shape, self.transform @ b, part) for b in (metric, whiten)]
        return np.hstack([*blocks, self._shortened(self.transform @ v, part)[:, None]])

    def release(self, mechanism: Gaussian, stack: Matrix) -> Vector:
        """A noisy sum, slopes being cut at the scale."""
        return self.curator.release(mechanism, stack, self.scale, self.part)

    def learn_mean(self, mechanism: Gaussian, stack: Matrix) -> float:
        """Of the targets, with a log link; and the mean weight of the rows."""
        counts, ladder = self.release(mechanism, stack), target_ladder(self.shape.loss)
        total = max(float(counts.sum()), mechanism.stddev)
        self.weight = min(self.shape.max_weight, total / self.n)
        first = _first_heard(counts, mechanism.stddev)
        seen = np.maximum(counts[first or 0 :], 0.0) @ ladder[first or 0 :] / total
        return min(max(float(seen), float(ladder[-1])), float(ladder[0]))

    def learn_scale(
        self, sizes: Gaussian, stack: Matrix, largest: float, deviation: float = 0.0
    ) -> None:
        """Where slopes are cut from now on: hardly any is larger.

        Residuals on both sides are cut beyond the largest size whose count stands out of the noise.
        With a log link one tail is long, and what is cut off it moves the intercept: by at most a
        part of its error, as far as a law that is fitted to the counts tells.  `deviation` is that
        of the noise in a mean score, for slopes cut at 1.
        """
        counts, loss = self.release(sizes, stack), self.shape.loss
        first = _first_heard(counts, sizes.stddev)
        size = largest if first is None else _ROOM * float(sizes_of(self.shape)[first])
        self.tail = _Tail()
        if loss.even and first is not None and size < largest:
            # Sizes of a step begin half way to the one below.
            ends = 2.0**-0.25 * sizes_of(self.shape)[: first + 1]
            self.tail = _Tail.of(counts, sizes.stddev, ends)
        if loss.log_link:
            size = max(size, self._tail(counts, deviation))
        self.scale = min(largest, max(scales(self.shape)[0], size))

    def _tail(self, counts: Vector, deviation: float) -> float:
        """The size beyond which slopes add little to their mean."""
        ladder, whole = sizes_of(self.shape), self.n * self.shape.max_weight
        law = LongTail.of(np.log2(ladder)[::-1], counts[::-1] / whole)
        reaches = np.geomspace(ladder[-1], ladder[0], 8 * len(ladder))
        square = np.maximum(counts, 0.0) @ np.where(ladder < law.top, ladder, 0.0) ** 2 / whole
        error = np.sqrt(square / self.n + (deviation * reaches) ** 2)
        little = law.beyond(reaches) <= _MISSED * error
        return float(reaches[np.argmax(little)] if little.any() else reaches[-1])

    def curvatures(self, v: Vector, shift: float = 0.0) -> Vector:
        """Largest ones of rows that are normal in the coordinates, at the points of the rule."""
        bias, spread = 0.0, float(np.linalg.norm(v))
        if self.shape.intercept != 0.0:
            bias, spread = float(v[-1]), float(np.linalg.norm(v[:-1]))
        return largest_curvature(self.shape.loss, bias + shift + spread * _POINTS)

    def growth(self, v: Vector) -> float:
        """By what power of ``exp(margin)`` their mean grows, with a log link."""
        means = [float(_RULE @ self.curvatures(v, shift)) for shift in (-0.05, 0.05)]
        lower, upper = (math.log(max(mean, 1e-300)) for mean in means)  # far out they may vanish
        return (upper - lower) / 0.1

    def symmetric(self, mechanism: Gaussian, stack: Matrix) -> Matrix:
        """A matrix of means, from its noisy triangle."""
        return symmetric(self.release(mechanism, stack), self.dim) / self.n

    def _shortened(self, w: Vector, reach: float) -> Vector:
        """Weights whose margins are no larger than `reach`, which rounding is charged for."""
        units = np.full(self.dim, self.shape.data_norm)
        if self.shape.intercept != 0.0:
            units[-1] = abs(self.shape.intercept)
        own = math.sqrt(2.0) * float(np.linalg.norm(units * w))
        return w * min(1.0, reach / own) if own > 0.0 else w


class Start:
    """From coordinates to a point, and to the frame of the steps there."""

    def __init__(self, ask: Asking, gradient: Gaussian | None) -> None:
        self.ask = ask
        self._gradient = None if gradient is None else self._asked(gradient)

    def at_rate(self) -> tuple[Vector, float]:
        """Where margins tell how many rows are positive, and the curvature, by one gradient."""
        v = np.zeros(self.ask.dim)
        positive = min(0.98, max(0.02, 0.5 - self._slopes(v)[-1]))
        v[-1] = math.log(positive / (1.0 - positive))
        return v, _DESCENT_CURVATURE * positive * (1.0 - positive)

    def at_mean(
        self, counts: Gaussian, sizes: Gaussian, largest: float, deviation: float
    ) -> tuple[Vector, float]:
        """Where margins tell the mean of the targets, and the curvature; of a log link.

        The scale of the slopes is learned there, too.
        """
        ask, identity = self.ask, np.eye(self.ask.dim)
        v = np.zeros(ask.dim)
        mean = ask.learn_mean(counts, ask.stack(identity, identity, v))
        if ask.shape.intercept != 0.0:
            v[-1] = math.log(mean)
        ask.learn_scale(sizes, ask.stack(identity, identity, v), largest, deviation)
        curvature = float(largest_curvature(ask.shape.loss, v[-1:])[0])
        return v, _LOG_LINK_CURVATURE * ask.weight * curvature

    def descend(self, v: Vector, curvature: float, steps: int) -> Vector:
        """A rough start: noisy gradient descent, the late half averaged."""
        last, total, late = v, np.zeros(self.ask.dim), (steps + 1) // 2
        for step in range(steps):
            z = v + _MOMENTUM * (v - last)
            change = self._slopes(z) / curvature
            change *= _LONGEST_DESCENT / max(_LONGEST_DESCENT, float(np.linalg.norm(change)))
            v, last = z - change, v
            if step >= steps - late:
                total = total + v
        return total / late

    def _slopes(self, v: Vector) -> Vector:
        """The noisy mean gradient at a point."""
        assert self._gradient is not None
        return self._gradient(v) / self.ask.n

    def _asked(self, mechanism: Gaussian) -> Callable[[Vector], Vector]:
        """The function of a point that releases the gradient there: of rows, or weighted scores."""
        ask, query, identity = self.ask, mechanism.query, np.eye(self.ask.dim)
        if isinstance(query, CoordinateGradient):
            at = ask.curator.fix(query, ask.transform)
            return lambda z: ask.curator.release(mechanism, at, ask.transform @ z)
        return lambda z: ask.scale * ask.release(mechanism, ask.stack(identity, identity, z))

    def frame(self, v: Vector, mechanism: Gaussian | None) -> Steps:
        """The frame at a point: by a first curvature, or where it is known beforehand."""
        unit = self._unit(v)
        first = unit * np.eye(self.ask.dim)
        if mechanism is not None:
            first = unit * self._first_curvature(mechanism, v, unit)
        values, vectors = np.linalg.eigh(first)
        return Steps(self.ask, unit, values, vectors)

    def _unit(self, v: Vector) -> float:
        """Mean curvature, for rows that are normal in the coordinates."""
        loss, curvature = self.ask.shape.loss, self.ask.curvatures(v)
        least = _LEAST_UNIT * steepest_curvature(loss) if loss.log_link else _LEAST_UNIT
        return max(least, self.ask.weight * float(_RULE @ curvature / _RULE.sum()))

    def _first_curvature(self, mechanism: Gaussian, v: Vector, unit: float) -> Matrix:
        """In units of the mean one, its eigenvalues kept up."""
        identity = np.eye(self.ask.dim)
        stack = self.ask.stack(identity, identity / math.sqrt(unit), v)
        values, vectors = np.linalg.eigh(self.ask.symmetric(mechanism, stack))
        noise = math.sqrt(self.ask.dim) * mechanism.stddev / self.ask.n
        least = max(_LEAST_SHARE * max(float(values.mean()), 0.2), _LEAST_NOISE * noise)
        found: Matrix = (vectors * np.maximum(values, least)) @ vectors.T
        return found


class Steps:
    """Newton steps in a frame, and what follows from them.

    Curvatures are released where the first one is the identity (`whiten` leads there, `color`
    back), scores half way (`metric`, `back`), which makes the least of their noise.
    """

    def __init__(self, ask: Asking, unit: float, values: Vector, vectors: Matrix) -> None:
        self.ask = ask
        metric = values**-0.25
        metric *= math.sqrt(self.ask.dim) / float(np.linalg.norm(metric))
        self.metric = (vectors * metric) @ vectors.T
        self.back = (vectors / metric) @ vectors.T
        self.whiten = (vectors / np.sqrt(values)) @ vectors.T
        self.color = (vectors * np.sqrt(values)) @ vectors.T
        self.first: Matrix = (vectors * values) @ vectors.T
        self.unit = unit

    def reach(self, mechanism: Gaussian, clip: float, price: float) -> None:
        """Let scores reach farther where rows are long, and noise is worth it.

        A row `r` times as long as a typical one loses ``1 - c/r`` of its weight to a reach c, which
        moves the estimate by an unknown part of ``√n Σ (r - c)⁺ / n`` of its errors, where no model
        holds; noise adds `price` times c² to a variance of 1.
        """
        stack = self.ask.stack(self.metric, self.whiten, np.zeros(self.ask.dim))
        lengths = self.ask.release(mechanism, stack)
        counts = np.where(np.cumsum(_heard(lengths, mechanism.stddev)) > 0, lengths, 0.0)
        reaches = np.linspace(clip, max(clip, _FARTHEST), 40)
        taken = np.maximum(LENGTHS - reaches[:, None], 0.0) @ counts
        moved = _TAKEN * np.maximum(taken, 0.0) / math.sqrt(self.ask.n)
        farther = float(reaches[np.argmin(price * reaches**2 + moved**2)]) / clip
        # The bound of a score stands; the metric it is measured in is shorter.
        self.metric, self.back = self.metric / farther, self.back * farther

    def walk(
        self,
        v: Vector,
        course: Course,
        scores: tuple[Gaussian, ...],
        second: Gaussian,
        sizes: Gaussian | None,
        largest: float,
    ) -> Found:
        """From a point to the estimate; residuals are cut at `largest`, or where few are larger."""
        path, curvature = _Path(course, [v]), self.first
        for k, mechanism in enumerate(scores):
            stack = self.ask.stack(self.metric, self.whiten, path.points[-1])
            if k in course.sized_at and sizes is not None:
                self.ask.learn_scale(sizes, stack, largest, mechanism.stddev / self.ask.n)
            if k == course.curvature_at:
                told = self._curvature(second, stack, course.seen)
                curvature = self._steady(*told)
            scale = self.ask.scale
            score = scale * self.back @ self.ask.release(mechanism, stack) / self.ask.n
            deviation = scale * mechanism.stddev / self.ask.n
            path.add(score + self.ask.pull @ path.points[-1], scale, deviation)
            if k + 1 < len(scores):
                path.points.append(self._next(path, curvature))
        return self._found(path, second, curvature, told)

    def _steady(self, values: Vector, vectors: Matrix, seen: NDArray[np.bool_]) -> Matrix:
        """The curvature with which steps are taken: no long ones along directions that hide.

        What rests on these is refused.
        """
        root = self.color @ vectors
        steady = np.where(seen, values, np.maximum(values, 1.0))
        return np.asarray((root * steady) @ root.T)

    def _found(
        self,
        path: _Path,
        second: Gaussian,
        curvature: Matrix,
        told: tuple[Vector, Matrix, NDArray[np.bool_]],
    ) -> Found:
        """Where the path leads, by a last step from the mean of its points."""
        inverse = np.asarray(np.linalg.inv(curvature + self.ask.pull), dtype=np.float64)
        mean, score, deviation = path.mean()
        change = -inverse @ score
        values, vectors, seen = told
        noise = self._noise(deviation, second.stddev / self.ask.n, change)
        moved = mean + change - path.points[path.course.curvature_at]
        assert isinstance(second.query, WeightedCurvature)
        return Found(
            v=mean + change,
            moved=moved,
            curvature=curvature,
            inverse=inverse,
            values=values,
            vectors=vectors,
            seen=seen,
            cut=path.cut(self.ask.tail),
            noise=noise,
            scale=path.scales[-1],
            strayed=path.strayed(mean + change, curvature) / self.unit,
            missed=self._missed(path, mean + change),
            curvature_bound=second.query.curvature_bound,
        )

    def _missed(self, path: _Path, v: Vector) -> Vector:
        """The second order of the slopes along the way, of which a linear step knows nothing.

        Where margins were off by t, and by s where the curvature was released, which grows as
        ``exp(g m)``, slopes miss ``t ((g - 1/2) t - g s)`` times the curvature: regressed on rows
        that are normal in the coordinates, and weighted by their curvature around ``g v``.
        """
        if not self.ask.shape.loss.log_link:
            return np.zeros(self.ask.dim)
        growth, ends = self.ask.growth(v), self.ask.shape.intercept != 0.0
        center = growth * v
        if ends:
            center[-1] = 1.0

        def regressed(first: Vector, second: Vector) -> Vector:
            product = (center @ first) * second + (center @ second) * first
            if ends:
                whole = (center @ first) * (center @ second) + first[:-1] @ second[:-1]
                product[-1] = whole - center[:-1] @ product[:-1]
            return product

        away = np.array(path.points) - v
        at = away[path.course.curvature_at]
        weights = path.course.weights(np.array(path.scales))
        missed: Vector = np.zeros(self.ask.dim)
        for weight, off in zip(weights, away, strict=True):
            missed -= weight * regressed(off, (growth - 0.5) * off - growth * at)
        return missed

    def spread(self, found: Found, products: Gaussian | None, residuals: Gaussian | None) -> Matrix:
        """``J``: what the records' scores vary by."""
        stack = self.ask.stack(self.metric, self.whiten, found.v)
        if products is not None:
            released = _denoised(
                self.ask.symmetric(products, stack),
                self.metric @ found.curvature @ self.metric,
                products.stddev / self.ask.n,
            )
            return found.scale**2 * self.back @ released @ self.back
        if residuals is None:
            return found.curvature
        squares, counted = self.ask.release(residuals, stack)
        # One deviation up: what noise hides of the residuals must not make the intervals shorter.
        least = residuals.stddev
        mean = float(max(squares + least, least) / max(counted, least))
        if self.ask.shape.loss.log_link:
            mean *= self.ask.shape.max_weight / steepest_curvature(self.ask.shape.loss)
        return found.scale**2 * mean * found.curvature

    def covariance(
        self, found: Found, spread: Matrix, products: Gaussian | None
    ) -> tuple[Matrix, Matrix]:
        """Of the weights of the columns: all of it, and what sampling alone would leave.

        The noise of the products makes a variance uncertain, by which intervals would hold less
        often, as those of Student's law would with a normal quantile: it is made larger for that.
        """
        by_columns = self.ask.transform @ found.inverse
        sampling: Matrix = by_columns @ (spread / self.ask.n) @ by_columns.T
        whole: Matrix = sampling + by_columns @ found.noise @ by_columns.T
        if products is None:
            return whole, sampling
        lengths = np.sum((by_columns @ self.back) ** 2, axis=1)
        unsure = math.sqrt(2.0) * found.scale**2 * products.stddev / self.ask.n**2 * lengths
        larger = np.sqrt(1.0 + _UNSURE * np.minimum(unsure / np.diag(whole), 1.0) ** 2)
        return whole * np.outer(larger, larger), sampling

    def refused(
        self,
        found: Found,
        covariance: Matrix,
        spread: Matrix,
        peaks: Vector,
        bend: float,
        most: float,
    ) -> Vector:
        """Why each weight's variance is not believed; 0 where it is.

        `peaks` are how far a rare entry of each column is from a common one, and `bend` is a move
        of the margins with which the curvature changes: of residuals, what they are cut at, for
        rows beyond it count no more.  `most` is the share of a variance that may hide.

        Where something hides, the others are those of the model without it.  The intercept of that
        model has the mean of what hides in it, times its weight, which may be any: it is refused.
        """
        loads = (self.ask.transform @ self.whiten @ found.vectors) ** 2 / found.values
        hidden = loads[:, ~found.seen].sum(axis=1) > most * loads.sum(axis=1)
        far = self._far(found, covariance, spread, peaks, _MOVE * bend)
        refused: Vector = np.where(hidden, _HIDES, np.where(far, _MOVES, 0.0))
        if np.mean(refused > 0.0) > _MOST:
            refused[refused == 0.0] = _AMONG  # it rests on what the others could not
        if self.ask.shape.intercept != 0.0 and refused[-1] == 0.0:
            cut = found.cut / abs(self.ask.shape.intercept)
            if hidden.any():
                refused[-1] = _HIDES
            elif cut > _MISSED_BY_INTERCEPT * math.sqrt(covariance[-1, -1]):
                refused[-1] = _CUT
        return refused

    def _astray(self, found: Found, spread: Matrix) -> bool:
        """Whether the mean score was not small beside the scores, and what noise hides of them."""
        scores = spread + _ASTRAY * self.ask.n * found.noise
        level = float(np.trace(found.inverse @ scores)) / self.ask.dim
        return float(found.moved @ found.curvature @ found.moved) > _ASTRAY * level

    def _far(
        self, found: Found, covariance: Matrix, spread: Matrix, peaks: Vector, most: float
    ) -> NDArray[np.bool_]:
        """Whether margins move farther with a weight than the curvature bears."""
        along = (found.vectors.T @ self.color @ found.moved)[found.seen]
        if along @ along > most**2 * self.unit:
            return np.ones(self.ask.dim, dtype=bool)  # the curvature was that of another place
        log_link = self.ask.shape.loss.log_link
        if log_link and (
            self._lost(found) > _LOST  # a few rows had most of it
            or found.strayed > _STRAYED
            or self._bent(found, spread) > _BENT
            or self._astray(found, spread)
        ):
            return np.ones(self.ask.dim, dtype=bool)
        by_columns = self.ask.transform @ found.inverse
        variances = np.einsum("ij,ij->i", by_columns, self.ask.transform)
        # Typical move of the margins for a move of the weight; peaks: of its rare rows.
        drive = np.maximum(np.linalg.norm(by_columns, axis=1) / variances, peaks)
        allowed = float(ndtri(0.975)) * np.sqrt(np.diag(covariance))
        far: NDArray[np.bool_] = (allowed + np.abs(self.ask.transform @ found.moved)) * drive > most
        if log_link and self.ask.shape.intercept != 0.0:
            # What a linear step misses of an exponential goes to the intercept.
            error = abs(self.ask.shape.intercept) * math.sqrt(covariance[-1, -1])
            far[-1] |= 0.5 * found.strayed > _MISSED_BY_INTERCEPT * error
        return far

    def _bent(self, found: Found, spread: Matrix) -> float:
        """What a linear step misses of the estimate, in errors."""
        score = np.linalg.solve(found.inverse, found.missed)
        variance = spread / self.ask.n + found.noise
        square = float(score @ np.linalg.solve(variance, score))
        return math.sqrt(square / self.ask.dim) if square >= 0.0 else math.inf

    def _lost(self, found: Found) -> float:
        """The share of the curvature along the weights that the bound of a row's cuts off.

        For rows that are normal in the coordinates: where margins differ by much, a few rows with
        large means have most of the curvature, and they are cut.
        """
        curvature = self.ask.curvatures(found.v)
        mean = float(_RULE @ curvature / _RULE.sum())
        size = curvature / mean * (_POINTS**2 + self.ask.dim - 1.0)
        kept = np.minimum(1.0, found.curvature_bound / size)
        along = _RULE * curvature * _POINTS**2
        return 1.0 - float(along @ kept / along.sum())

    def _next(self, path: _Path, curvature: Matrix) -> Vector:
        """The point of the next score: the estimate so far, drawn to the start as noise asks for.

        By the rule of James and Stein, in the metric of the curvature: a start that is better than
        what the first scores tell is not left for that.
        """
        inverse = np.asarray(np.linalg.inv(curvature + self.ask.pull))
        mean, score, deviation = path.mean()
        step = mean - inverse @ score - path.points[0]
        noise = deviation**2 * float(np.trace(inverse @ self.back @ self.back))
        step *= max(0.0, 1.0 - noise / max(float(step @ curvature @ step), 1e-300))
        step *= min(1.0, _LONGEST_STEP / max(float(np.linalg.norm(step)), 1e-300))
        return path.points[0] + step

    def _curvature(
        self, mechanism: Gaussian, stack: Matrix, seen: float
    ) -> tuple[Vector, Matrix, NDArray[np.bool_]]:
        """Eigenvalues, kept above the noise, and vectors, and which of them are seen."""
        values, vectors = np.linalg.eigh(self.ask.symmetric(mechanism, stack))
        noise = math.sqrt(self.ask.dim) * mechanism.stddev / self.ask.n
        return np.maximum(values, _FLOOR * noise), vectors, values > seen * noise

    def _noise(self, deviation: float, of_curvature: float, change: Vector) -> Matrix:
        """Covariance of the noise in the system that the last step solves.

        Noise E in the curvature adds ``E u`` for the step u, whose covariance is
        ``s² (‖u‖² + u uᵀ)``, s the deviation of its entries, in the coordinates it was released in.
        """
        u = self.color @ change
        by_curvature = of_curvature**2 * (u @ u * np.eye(self.ask.dim) + np.outer(u, u))
        by_scores = deviation**2 * self.back @ self.back
        return by_scores + self.color @ by_curvature @ self.color


def _heard(counts: Vector, noise: float) -> NDArray[np.bool_]:
    """Whether the counts up to each of them stand out of the noise together."""
    found: NDArray[np.bool_] = np.cumsum(counts) > _HEARD * (
        noise * np.sqrt(np.arange(1.0, len(counts) + 1.0))
    )
    return found


def _first_heard(counts: Vector, noise: float) -> int | None:
    """The first place up to which counts stand out; None if none does."""
    heard = np.flatnonzero(_heard(counts, noise))
    return int(heard[0]) if len(heard) else None


def _denoised(matrix: Matrix, model: Matrix, deviation: float) -> Matrix:
    """Products of scores, drawn to what a model says of them, as far as noise asks for it.

    By the rule of James and Stein; of the model only the shape counts.  Where noise hides all but
    the trace no direction is left without variance, which an interval of a sum of weights might
    rest on.  A trace that its own noise hides is taken to be one deviation of that.
    """
    trace, hidden = float(np.trace(matrix)), deviation * math.sqrt(2.0 * len(matrix))
    shape = model * (max(trace, hidden) / float(np.trace(model)))
    if trace <= hidden:
        return shape
    noise = deviation**2 * (len(matrix) * (len(matrix) + 1.0) - 2.0)
    away = matrix - shape
    kept = max(0.0, 1.0 - noise / max(float(np.sum(away**2)), 1e-300))
    return _semidefinite(shape + kept * away)


def _semidefinite(matrix: Matrix) -> Matrix:
    """The nearest matrix without negative eigenvalues that has the same trace, if that is positive.

    Negative ones set to zero alone would make the trace larger, and intervals too wide.
    """
    values, vectors = np.linalg.eigh(matrix)
    values, total = values[::-1], max(float(values.sum()), 0.0)
    # Projection onto a simplex: what all that remain positive are lowered by.
    excess = (np.cumsum(values) - total) / np.arange(1.0, len(values) + 1.0)
    last = int(np.flatnonzero(values >= excess)[-1])
    kept = np.maximum(values - excess[last], 0.0)[::-1]
    nearest: Matrix = (vectors * kept) @ vectors.T
    return nearest
