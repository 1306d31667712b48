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

from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import CoordinateGradient, bounded, upper_triangle
from dpfast.queries.estimating import LARGEST_SCALE, LEAST_SCALE, LENGTHS, SIZES, largest_curvature
from dpfast.shape import ProblemShape

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Of the descent: its momentum, and the longest step, in coordinates in which a row's typical entry
# is 1; and the longest Newton step there.
_MOMENTUM, _LONGEST_DESCENT, _LONGEST_STEP = 0.35, 1.5, 3.0
# The mean curvature of a descent's margins over that at their mean, and a step over its inverse.
_DESCENT_CURVATURE = 1.65
# Eigenvalues of the first curvature are at least this share of their mean, or of its noise's norm.
_LEAST_SHARE, _LEAST_NOISE = 0.15, 1.0
# Of the curvature's noise, times the root of the weights' number: what eigenvalues are at least,
# and what they must pass to be seen.
_FLOOR, _SEEN = 1.0, 2.0
# What is refused: the margins' move.
_MOVE = 0.75
_HIDES, _MOVES, _AMONG = 1.0, 2.0, 3.0
# Where more than this share is refused, so are the rest.
_MOST = 0.75
# Of the limit of a stack's reach, for each of its three blocks.
_BLOCK = 0.5
# Deviations of the noise by which counts of large residuals must stand out together, and how far
# beyond the largest size that does residuals are not cut.
_HEARD, _ROOM = 3.5, 1.6
# How far scores may reach at most, over the root of the weights' number, and what part of the
# weight that is taken from long rows is expected to move the estimate.
_FARTHEST, _TAKEN = 3.0, 0.15
# What a variance's relative noise adds to it, so that 95% intervals hold: (1.96² + 1) / 4.
_UNSURE = 1.21
# Points of a Gauss-Hermite rule for the mean curvature of normal margins.
_POINTS, _RULE = np.polynomial.hermite_e.hermegauss(40)


@dataclass(frozen=True)
class Course:
    """The order of the steps.

    Attributes
    ----------
    parts : tuple of float
        How the scores' share of the budget is divided.
    curvature_at : int
        Before which of the scores the curvature is released.
    averaged_from : int
        From which of them on they are averaged.
    hidden : float
        The share of a variance that may come from directions that are not seen.
    sized_at : tuple of int, default=()
        Before which of them the scale of the residuals is learned.
    """

    parts: tuple[float, ...]
    curvature_at: int
    averaged_from: int
    hidden: float
    sized_at: tuple[int, ...] = ()

    def weights(self, scales: Vector) -> Vector:
        """Of the first scores, with these scales, in their mean, by the precision of each."""
        late = np.arange(len(scales)) >= min(self.averaged_from, len(scales) - 1)
        kept = np.where(late, self.parts[: len(scales)] / scales**2, 0.0)
        weights: Vector = kept / kept.sum()
        return weights


#: After a descent the start is near.  Residuals start at zero weights, where the targets' range
#: bounds them; their scale is learned twice, for the first one is found with more noise.  Less may
#: hide of what determines them: moves of the margins, which tell of it, too, mean nothing to them.
LOGISTIC = Course((0.15, 0.25, 0.60), curvature_at=2, averaged_from=0, hidden=0.05)
RESIDUALS = Course(
    (0.06, 0.14, 0.80), curvature_at=2, averaged_from=1, hidden=0.02, sized_at=(1, 2)
)


@dataclass(frozen=True)
class Found:
    """Where the steps led.

    Attributes
    ----------
    v : ndarray of shape (dim,)
        The estimate.
    moved : ndarray of shape (dim,)
        From where the curvature was released.
    curvature, inverse : ndarray of shape (dim, dim)
        Without and with the ridge.
    values, vectors, seen : ndarray
        Of the curvature where it is nearly the identity: eigenvalues and vectors, and whether the
        value stands out of the noise.
    noise : ndarray of shape (dim, dim)
        Covariance of the noise in the mean score, that of the curvature included.
    scale : float
        At which residuals are cut; 1 for other slopes.
    """

    v: Vector
    moved: Vector
    curvature: Matrix
    inverse: Matrix
    values: Vector
    vectors: Matrix
    seen: NDArray[np.bool_]
    noise: Matrix
    scale: float


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


class Asking:
    """Who asks, in which coordinates.

    `pull` is the ridge in the coordinates, `limit` what the reach of a stack may be, and `part`
    what one row counts of a record.
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
        self.shape, self.curator, self.transform = shape, curator, transform
        self.limit, self.pull, self.part = limit, pull, part
        self.n, self.dim = shape.n_samples, shape.dim

    def stack(self, metric: Matrix, whiten: Matrix, v: Vector) -> Matrix:
        """The fixed argument of the queries, within their limit."""
        part = _BLOCK * self.limit
        blocks = [bounded(self.shape, self.transform @ b, part) for b in (metric, whiten)]
        return np.hstack([*blocks, self._shortened(self.transform @ v, part)[:, None]])

    def release(self, mechanism: Gaussian, stack: Matrix, scale: float = LARGEST_SCALE) -> Vector:
        """A noisy sum."""
        return self.curator.release(mechanism, stack, scale, self.part)

    def symmetric(self, mechanism: Gaussian, stack: Matrix, scale: float = LARGEST_SCALE) -> Matrix:
        """A matrix of means, from its noisy triangle."""
        upper, entries = upper_triangle(self.dim)
        noisy = np.zeros((self.dim, self.dim))
        noisy[upper] = self.release(mechanism, stack, scale) / entries / self.n
        matrix: Matrix = noisy + np.triu(noisy, 1).T
        return matrix

    def _shortened(self, w: Vector, reach: float) -> Vector:
        """Weights whose margins are no larger than `reach`, which rounding is charged for."""
        units = np.full(self.dim, self.shape.data_norm)
        if self.shape.intercept != 0.0:
            units[-1] = abs(self.shape.intercept)
        own = math.sqrt(2.0) * float(np.linalg.norm(units * w))
        return w * min(1.0, reach / own) if own > 0.0 else w


class Start:
    """From coordinates to a point, and to the frame of the steps there."""

    def __init__(self, ask: Asking) -> None:
        self.ask = ask

    def descend(self, mechanism: Gaussian, steps: int) -> Vector:
        """A rough start: noisy gradient descent, the late half averaged.

        The first gradient, at zero, tells how many rows are positive.
        """
        gradient = self._gradient(mechanism)
        v = last = total = np.zeros(self.ask.dim)
        curvature = self.ask.shape.loss.smoothness
        for step in range(steps):
            z = v + _MOMENTUM * (v - last)
            slope = gradient(z) / self.ask.n
            if step == 0 and self.ask.shape.intercept != 0.0:
                positive = min(0.98, max(0.02, 0.5 - slope[-1]))
                v = last = np.append(
                    np.zeros(self.ask.dim - 1), math.log(positive / (1.0 - positive))
                )
                curvature = _DESCENT_CURVATURE * positive * (1.0 - positive)
                continue
            change = slope / curvature
            change *= min(1.0, _LONGEST_DESCENT / float(np.linalg.norm(change)))
            v, last = z - change, v
            if step >= steps // 2:
                total = total + v
        mean: Vector = total / (steps - steps // 2)
        return mean

    def _gradient(self, mechanism: Gaussian) -> Callable[[Vector], Vector]:
        """The function of a point that releases the gradient there: of rows, or of groups."""
        ask, query, identity = self.ask, mechanism.query, np.eye(self.ask.dim)
        if not isinstance(query, CoordinateGradient):
            return lambda z: ask.release(mechanism, ask.stack(identity, identity, z))
        at = ask.curator.fix(query, ask.transform)
        return lambda z: ask.curator.release(mechanism, at, ask.transform @ z)

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
        bias, spread = 0.0, float(np.linalg.norm(v))
        if self.ask.shape.intercept != 0.0:
            bias, spread = float(v[-1]), float(np.linalg.norm(v[:-1]))
        curvature = largest_curvature(self.ask.shape.loss, bias + spread * _POINTS)
        return max(0.01, float(_RULE @ curvature / _RULE.sum()))

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
        noise = mechanism.stddev * np.sqrt(np.arange(1.0, len(lengths) + 1.0))
        heard = np.cumsum(np.cumsum(lengths) > _HEARD * noise) > 0
        counts = np.where(heard, lengths, 0.0)
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
        path, curvature, scale = _Path(course, [v]), self.first, LARGEST_SCALE
        for k, mechanism in enumerate(scores):
            stack = self.ask.stack(self.metric, self.whiten, path.points[-1])
            if k in course.sized_at and sizes is not None:
                scale = self._scale(sizes, stack, largest)
            if k == course.curvature_at:
                values, vectors, seen = self._curvature(second, stack, scale)
                # Where it is not seen no long steps are taken; what rests on them is refused.
                steady = np.where(seen, values, np.maximum(values, 1.0))
                root = self.color @ vectors
                curvature = np.asarray((root * steady) @ root.T)
            score = scale * self.back @ self.ask.release(mechanism, stack, scale) / self.ask.n
            deviation = scale * mechanism.stddev / self.ask.n
            path.add(score + self.ask.pull @ path.points[-1], scale, deviation)
            if k + 1 < len(scores):
                path.points.append(self._next(path, curvature))
        inverse = np.asarray(np.linalg.inv(curvature + self.ask.pull), dtype=np.float64)
        mean, score, deviation = path.mean()
        change = -inverse @ score
        noise = self._noise(deviation, second.stddev / self.ask.n, change)
        moved = mean + change - path.points[course.curvature_at]
        return Found(mean + change, moved, curvature, inverse, values, vectors, seen, noise, scale)

    def spread(self, found: Found, products: Gaussian | None, residuals: Gaussian | None) -> Matrix:
        """``J``: what the records' scores vary by."""
        stack = self.ask.stack(self.metric, self.whiten, found.v)
        if products is not None:
            released = _semidefinite(self.ask.symmetric(products, stack, found.scale))
            return found.scale**2 * self.back @ released @ self.back
        if residuals is None:
            return found.curvature
        squares, counted = self.ask.release(residuals, stack, found.scale)
        # One deviation up: what noise hides of the residuals must not make the intervals shorter.
        least = residuals.stddev
        mean = float(max(squares + least, least) / max(counted, least))
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
        self, found: Found, covariance: Matrix, peaks: Vector, bend: float | None, most: float
    ) -> Vector:
        """Why each weight's variance is not believed; 0 where it is.

        `peaks` are how far a rare entry of each column is from a common one, and `bend` is a move
        of the margins with which the curvature changes; None: with none.  `most` is the share of a
        variance that may hide.
        """
        loads = (self.ask.transform @ self.whiten @ found.vectors) ** 2 / found.values
        hidden = loads[:, ~found.seen].sum(axis=1) > most * loads.sum(axis=1)
        far = np.zeros(self.ask.dim, dtype=bool)
        if bend is not None:
            far = self._far(found, covariance, peaks, _MOVE * bend)
        refused: Vector = np.where(hidden, _HIDES, np.where(far, _MOVES, 0.0))
        if np.mean(refused > 0.0) > _MOST:
            refused[refused == 0.0] = _AMONG  # it rests on what the others could not
        return refused

    def _far(
        self, found: Found, covariance: Matrix, peaks: Vector, most: float
    ) -> NDArray[np.bool_]:
        """Whether margins move farther with a weight than the curvature bears."""
        along = (found.vectors.T @ self.color @ found.moved)[found.seen]
        if along @ along > most**2 * self.unit:
            return np.ones(self.ask.dim, dtype=bool)  # the curvature was that of another place
        by_columns = self.ask.transform @ found.inverse
        variances = np.einsum("ij,ij->i", by_columns, self.ask.transform)
        # Typical move of the margins for a move of the weight; peaks: of its rare rows.
        drive = np.maximum(np.linalg.norm(by_columns, axis=1) / variances, peaks)
        allowed = float(ndtri(0.975)) * np.sqrt(np.diag(covariance))
        far: NDArray[np.bool_] = (allowed + np.abs(self.ask.transform @ found.moved)) * drive > most
        return far

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
        following: Vector = path.points[0] + step
        return following

    def _scale(self, sizes: Gaussian, stack: Matrix, largest: float) -> float:
        """Beyond which hardly any residual is, of those whose counts stand out of the noise."""
        beyond = np.cumsum(self.ask.release(sizes, stack))
        noise = sizes.stddev * np.sqrt(np.arange(1.0, len(beyond) + 1.0))
        heard = np.flatnonzero(beyond > _HEARD * noise)
        size = float(SIZES[heard[0]]) if len(heard) else LARGEST_SCALE
        return min(largest, max(LEAST_SCALE, _ROOM * size))

    def _curvature(
        self, mechanism: Gaussian, stack: Matrix, scale: float
    ) -> tuple[Vector, Matrix, NDArray[np.bool_]]:
        """Eigenvalues, kept above the noise, and vectors, and which of them are seen."""
        values, vectors = np.linalg.eigh(self.ask.symmetric(mechanism, stack, scale))
        noise = math.sqrt(self.ask.dim) * mechanism.stddev / self.ask.n
        return np.maximum(values, _FLOOR * noise), vectors, values > _SEEN * noise

    def _noise(self, deviation: float, of_curvature: float, change: Vector) -> Matrix:
        """Covariance of the noise in the system that the last step solves.

        Noise E in the curvature adds ``E u`` for the step u, whose covariance is
        ``s² (‖u‖² + u uᵀ)``, s the deviation of its entries, in the coordinates it was released in.
        """
        u = self.color @ change
        by_curvature = of_curvature**2 * (u @ u * np.eye(self.ask.dim) + np.outer(u, u))
        by_scores = deviation**2 * self.back @ self.back
        noise: Matrix = by_scores + self.color @ by_curvature @ self.color
        return noise


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
