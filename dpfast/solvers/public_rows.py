"""Fits that begin with public rows, which cost nothing to look at.

Where private rows are far fewer than weights, `along_prior.py` takes this one's place.

Public rows tell the coordinates to descend in, how the loss bends, and weights, which are right or
wrong to an unknown extent.  A run

1. weighs beliefs about the private weights against each other: that they are the public rows', or
   none but their constant, or another constant, or the opposite; and deviate from that by nothing
   or by up to as much as the public weights are long;
2. releases few gradients, each at the weights that are then expected.  With the public rows' bends
   each tells where the minimum is, in normal noise; so the beliefs' probabilities and what they
   expect follow by Bayes' law.

The first, with the least noise, tells whether the labels agree with the public rows' weights, the
next are of the gradient along these and the constant alone.

Privacy: Gaussian releases, whose noise is fixed beforehand; the rest is post-processing.
docs/priors.md has what it brings, and where it does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.privacy import Budget
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import CoordinateGradient, bounded
from dpfast.queries.coordinates import column_transform, reach_limit
from dpfast.shape import ProblemShape
from dpfast.solvers import dp_whitened_gd
from dpfast.solvers._contract import Outcome, Plan
from dpfast.solvers._shares import releases
from dpfast.solvers._whitened_rules import rows_per_weight
from dpfast.solvers.along_prior import AlongSettings, plan_along
from dpfast.solvers.prior import check_shape

_LINE, _GRADIENT = "gradient along the public weights", "gradient"
#: Rows behind one weight, times µ, from which on public rows are left alone; and weights beyond
#: which they are, since beliefs hold a matrix each.
FEW, MOST_KNOWN = 25.0, 500
# Gradients that are released from so many rows behind one weight, times µ, on; lines before them.
_STEPS, _LINES = ((12.0, 12), (5.0, 8), (0.0, 3)), 3
# Share of the budget, in units of mu², of the line: the square of the first over rows a weight,
# since that is how the noise in a number falls, and at most the second.
_FOR_LINE, _MOST_LINE = 1.25, 0.9
# Of the logistic loss, the share of that for the first, which is at weights of 0, of rows of which
# nothing but the side is left: then the labels alone count.  And its clip norm, as for the line's.
_FOR_TEST, _TEST_CLIP = 0.7, 0.1
# Slopes are taken to be up to so many times their root mean square among the public rows, and at
# least this share of the largest there are.
_LARGE_SLOPE, _LEAST_SLOPE = 2.5, 0.02
# Clip norm of the line's rows in these units: of the logistic loss, whose cut is without bias, so
# small that little but directions is left; and of others, which have a line up to here only.
_LINE_CLIP, _BIASED_LINE_CLIP, _BIASED_FEW = 0.3, 1.3, 5.0
# Beliefs: shares of the public rows' weights (-1 for labels the other way round), variances of the
# constant beyond what these rows tell, and probabilities; and variances of all weights, in units of
# the mean square of these, or of weights of length 1 if they are shorter, with theirs.  Variances
# and lengths of numbers are in units of the public targets'.
_SHARES = (
    (1.0, 0.0, 0.81),
    (1.0, 1.0, 0.06),
    (-1.0, 0.0, 0.03),
    (0.0, 0.0, 0.07),
    (0.0, 1.0, 0.03),
)
_VARIANCES = ((0.0, 0.7), (0.05, 0.15), (0.25, 0.1), (1.0, 0.05))
# From so many rows behind one weight, times µ, on gradients decide, and weights far longer than the
# public rows' are believed in, too.
_FAR_FROM, _FAR = 5.0, ((5.0, 0.02), (25.0, 0.01))
# What the private rows bend beyond the public ones: along every direction, by a part that their
# number does not mend and one that it does.
_BENT, _UNKNOWN_BENDS = 0.1, 2.0
# Variance, over the number of public rows, of the share by which they mistake how the loss bends
# along few directions, rows being cut without bias; and that variance elsewhere.
_MISTAKEN, _MISTAKEN_ELSEWHERE = 2.0, 0.3
# By so many deviations of its noise two gradients must show that the loss bends more than expected.
_DOUBT = 4.0
# And of the logistic loss once that it bends so many times as much, which steps overshoot.
_OVERSHOT = 4.0
# Times that what is expected is found anew, with the bends on the way there.
_GUESSES = 2
# Deviations by which the variances of columns are taken to be larger than those of public rows.
_DOUBTED = 2.0
# Rows as these in which a column must vary, if it is narrow, for its scale to be told; and how
# narrow it may be, in units of what one row of the largest entry does.
_VARIES_IN, _HARDLY = 8.0, 1e-9
# Precision of the intercept in white coordinates before any rows are seen; that of other weights is
# the one of these with which public rows are best predicted by the others.
_INTERCEPT_PRECISION = 0.1
_PRECISIONS = (1.0, 4.0, 16.0, 64.0)


@dataclass(frozen=True, eq=False)
class Known:
    """What public rows tell, in the units of a problem."""

    origin: Vector  # the weights
    transform: Matrix  # to coordinates in which the rows are nearly white
    X: Matrix  # the public rows, with the constant
    y: Vector
    precision: Vector  # of the weights in the coordinates before the rows were seen


@dataclass(frozen=True, eq=False)
class PublicSettings:
    """What a run follows."""

    prior: Known
    test: Gaussian | None  # the release along the public rows' weights
    line: Gaussian | None  # the releases along the public rows' weights and the constant
    gradient: Gaussian
    rows_per_weight: float
    public_rows: int
    iterations: int
    clip: float


def from_rows(shape: ProblemShape, X: Matrix, y: Vector) -> Known:
    """What public rows tell, no longer than private ones, with targets as the loss takes them."""
    constant = np.full((len(X), shape.dim - shape.n_features), shape.intercept)
    rows = np.column_stack([X, constant])
    transform = _white(shape, rows)
    z, found = rows @ transform, []
    for each in _PRECISIONS:
        precision = np.full(shape.dim, each)
        precision[shape.n_features :] = _INTERCEPT_PRECISION
        v = _most_likely(shape, z, y, precision)
        found.append((_left_out(shape, z, y, precision, v), v, precision))
    _, v, precision = min(found, key=lambda each: each[0])
    return Known(transform @ v, transform, rows, y, precision)


def _left_out(shape: ProblemShape, z: Matrix, y: Vector, precision: Vector, v: Vector) -> float:
    """About the mean loss of rows for which weights are found without them."""
    _, slopes, bends = shape.loss(z @ v, y)
    inverse = np.linalg.inv((z.T * bends) @ z + np.diag(precision))
    leverage = np.einsum("ij,jk,ik->i", z, inverse, z, optimize=True)
    margins = z @ v + slopes * leverage / (1.0 - np.minimum(bends * leverage, 0.99))
    return float(np.mean(shape.loss(margins, y)[0]))


def _white(shape: ProblemShape, rows: Matrix) -> Matrix:
    """Coordinates in which these rows are nearly white, and others like them not much longer."""
    m, d = len(rows), shape.n_features
    center = rows[:, :d].mean(axis=0) if shape.intercept != 0.0 else np.zeros(d)
    away = rows[:, :d] - center
    variance = np.mean(away**2, axis=0)
    fourth = np.mean(away**4, axis=0)
    # Others may vary more: so many deviations of what these rows tell, or all there is of a column
    # that hardly varies in them, or narrowly and in few.
    doubt = np.sqrt(np.maximum(fourth - variance**2, 0.0) / m)
    scale = np.sqrt(variance + _DOUBTED * doubt)
    entry = shape.data_norm / math.sqrt(shape.dim)
    few = m * variance**2 < _VARIES_IN * fourth
    hardly = variance < np.where(few, 1.0, _HARDLY) * entry**2 / m
    scale = np.where(hardly, entry, scale)
    z = away / scale
    moments = z.T @ z / (m + d)
    np.fill_diagonal(moments, 1.0)
    values, vectors = np.linalg.eigh(moments)
    change = np.eye(shape.dim)
    change[:d, :d] = vectors / np.sqrt(values)
    return column_transform(shape, center, scale) @ change


def _most_likely(shape: ProblemShape, z: Matrix, y: Vector, precision: Vector) -> Vector:
    """Weights of the rows `z` that are normal beforehand, around 0."""

    def value(v: Vector) -> float:
        return float(shape.loss(z @ v, y)[0].sum() + 0.5 * precision @ v**2)

    v = np.zeros(z.shape[1])
    for _ in range(100):
        _, slopes, bends = shape.loss(z @ v, y)
        hessian = (z.T * bends) @ z + np.diag(precision)
        gradient = z.T @ slopes + precision * v
        move = np.linalg.solve(hessian, gradient)
        if float(gradient @ move) < 1e-12 * len(y):
            break
        step, now = 1.0, value(v)
        while value(v - step * move) > now and step > 1e-6:
            step *= 0.5
        v = v - step * move
    return v


def plan_with_rows(
    shape: ProblemShape,
    prior: Known,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
) -> Plan[PublicSettings] | Plan[AlongSettings]:
    """Settle everything from public quantities, the prior among them.

    Where rows are far fewer than weights, they tell how far to go along those of the public rows.
    """
    check_shape(shape, budget, neighboring_relation, accountant)
    if shape.dim > MOST_KNOWN:
        raise ValueError(
            f"X must have at most {MOST_KNOWN} columns, the intercept's included, for a fit with "
            f"public rows; got {shape.dim}."
        )
    margins = prior.X @ prior.origin
    told = float(margins.mean()), float(margins.std())
    few = plan_along(shape, prior.origin, budget, neighboring_relation, accountant, told)
    if few is not None:
        return few
    u = rows_per_weight(shape, budget, neighboring_relation, accountant)
    steps = next(steps for least, steps in _STEPS if u >= least)
    clip = min(1.0, max(0.3, 0.5 * (u / 20.0) ** 0.4))
    slope = _large_slope(shape, prior)
    clip_norm = clip * math.sqrt(shape.dim) * slope
    release = releases(budget_mu(budget, accountant), neighboring_relation)
    limit = reach_limit(shape, min(1.0, clip_norm), 1.0)
    prior = replace(prior, transform=bounded(shape, prior.transform, limit))
    columns, consistent = 1 + (shape.intercept != 0.0), shape.loss.multiclass
    test, line, for_line, for_test = None, None, 0.0, 0.0
    if consistent or u < _BIASED_FEW:
        for_line = min(_MOST_LINE, (_FOR_LINE / u) ** 2)
        line_clip = (_LINE_CLIP if consistent else _BIASED_LINE_CLIP) * slope
        along = CoordinateGradient(shape, line_clip, limit, consistent, columns)
        if consistent:
            for_test = _FOR_TEST * for_line
            sides = CoordinateGradient(shape, _TEST_CLIP * slope, limit, consistent, 1)
            test = release(for_test, sides, _LINE)
        line = release((for_line - for_test) / _LINES, along, _LINE)
    query = CoordinateGradient(shape, clip_norm, limit, consistent)
    gradient = release((1.0 - for_line) / steps, query, _GRADIENT)
    return Plan(
        solver=dp_whitened_gd.NAME,
        shape=shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        settings=PublicSettings(
            prior=prior,
            test=test,
            line=line,
            gradient=gradient,
            rows_per_weight=u,
            public_rows=len(prior.y),
            iterations=steps,
            clip=clip,
        ),
        accesses=(
            *([] if test is None else [(test, 1)]),
            *([] if line is None else [(line, _LINES)]),
            (gradient, steps),
        ),
    )


def _large_slope(shape: ProblemShape, prior: Known) -> float:
    """How large slopes are but for few rows, as far as public rows tell."""
    slopes = shape.loss(prior.X @ prior.origin, prior.y)[1]
    found = _LARGE_SLOPE * math.sqrt(float(np.mean(slopes**2)))
    return shape.loss.lipschitz * min(1.0, max(_LEAST_SLOPE, found / shape.loss.lipschitz))


def run_with_rows(plan: Plan[PublicSettings], curator: Curator) -> Outcome:
    """Release gradients where the minimum is expected, and expect it where they say.

    The history has the probability in the end that the public rows' weights are right, and the
    norms of the noisy mean gradients in the coordinates.
    """
    settings, shape, prior = plan.settings, plan.shape, plan.settings.prior
    unit = shape.n_samples * shape.max_weight
    model = _Model(shape, prior, settings.rows_per_weight)
    point, share = model.expected(model.weights)
    if settings.test is not None:
        point = np.zeros(shape.dim)
    for mechanism, times, along in (
        (settings.test, 1, model.margins()),
        (settings.line, _LINES, model.line()),
        (settings.gradient, settings.iterations, np.eye(shape.dim)),
    ):
        if mechanism is None:
            continue
        query, norms = mechanism.query, []
        assert isinstance(query, CoordinateGradient)
        at = curator.fix(query, prior.transform @ along)
        for _ in range(times):
            mean = curator.release(mechanism, at, prior.transform @ point) / unit
            model.hear(_Told(point, mean, mechanism.stddev / unit, query.clip_norm, along))
            norms.append(np.linalg.norm(mean))
            point, share = model.expected(point)
    history: dict[str, Any] = {"public_share": share, "gradient_norm": np.array(norms)}
    return Outcome(prior.transform @ point, history)


@dataclass(frozen=True, eq=False)
class _Told:
    """A noisy mean gradient of clipped rows at a point, along some directions."""

    point: Vector
    gradient: Vector
    deviation: float
    clip_norm: float
    directions: Matrix

    @property
    def few(self) -> bool:
        """Whether it is along few directions."""
        return len(self.directions.T) < len(self.directions)


@dataclass(frozen=True, eq=False)
class _Model:
    """What public rows say of the gradients of private ones, in their coordinates."""

    shape: ProblemShape
    prior: Known
    rows_per_weight: float
    told: list[_Told] = field(default_factory=list)  # along all directions

    @cached_property
    def steeper(self) -> Matrix:
        """By how much private rows bend more than public ones, as far as gradients show."""
        return np.zeros((self.shape.dim, self.shape.dim))

    @cached_property
    def rows(self) -> Matrix:
        """The public rows in the coordinates."""
        return np.asarray(self.prior.X @ self.prior.transform)

    @cached_property
    def weights(self) -> Vector:
        """Of the public rows, in the coordinates."""
        return np.asarray(np.linalg.solve(self.prior.transform, self.prior.origin), np.float64)

    def margins(self) -> Matrix:
        """The direction of the public rows' weights and intercept."""
        return self.weights[:, None] / max(float(np.linalg.norm(self.weights)), 1e-12)

    def line(self) -> Matrix:
        """The direction of the public rows' weights, and the constant if there is one."""
        dim, free = self.shape.dim, self.shape.n_features
        way = np.zeros((dim, 1 + dim - free))
        length = float(np.linalg.norm(self.weights[:free]))
        way[:free, 0] = self.weights[:free] / max(length, 1e-12)
        way[free:, 1:] = 1.0
        return way

    @cached_property
    def beliefs(self) -> tuple[tuple[float, Vector, Matrix, float], ...]:
        """Shares of the public weights; centers, roots of covariances, log of probabilities."""
        shape, free, v = self.shape, self.shape.n_features, self.weights
        _, slopes, bends = shape.loss(self.rows @ v, self.prior.y)
        # Of a likelihood, the slopes' squares are the bends on average; of other losses not.
        unit = float(np.sum(slopes**2)) / max(float(np.sum(bends)), 1e-12)
        hessian = (self.rows.T * bends) @ self.rows + np.diag(self.prior.precision)
        inverse = unit * np.linalg.inv(hessian)
        constant, alone = np.zeros(shape.dim), self.rows[:, free:]
        constant[free:] = _most_likely(shape, alone, self.prior.y, self.prior.precision[free:])
        usual = float(np.var(self.prior.y)) if shape.loss.kind == "regression" else 1.0
        size = (float(v[:free] @ v[:free]) + usual) / max(1, free)
        variances = _VARIANCES + (_FAR if self.rows_per_weight >= _FAR_FROM else ())
        found = []
        for (share, loose, one), (variance, other) in product(_SHARES, variances):
            center = share * v + (1.0 - share) * constant
            covariance = (variance * size + 1e-9 * usual) * np.eye(shape.dim)
            covariance[:free, :free] += share**2 * inverse[:free, :free]
            covariance[free:, free:] += inverse[free:, free:] + loose * usual
            root: Matrix = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
            found.append((share, center, root, math.log(one * other)))
        return tuple(found)

    @cached_property
    def lines(self) -> list[tuple[Matrix, Vector, float]]:
        """What was told along few directions, as each belief understands it."""
        return [self._precision([], center) for _, center, _, _ in self.beliefs]

    def hear(self, each: _Told) -> None:
        """Keep what was told; along few directions, by how the loss bends on each belief's way."""
        if not each.few:
            self._learn_bend(each)
            self.told.append(each)
            return
        for k, (before, belief) in enumerate(zip(self.lines, self.beliefs, strict=True)):
            more = self._precision([each], belief[1])
            self.lines[k] = before[0] + more[0], before[1] + more[1], before[2] + more[2]

    def _learn_bend(self, each: _Told) -> None:
        """Take in how two gradients differ, where that is more than public rows bend."""
        if not self.told:
            return
        step, change = each.point - self.told[-1].point, each.gradient - self.told[-1].gradient
        length, noise = max(float(np.linalg.norm(step)), 1e-12), 2.0 * each.deviation**2
        way, beyond = step / length, change - self.bends(self.told[-1], each.point) @ step
        along, left = float(way @ beyond), 0.0
        more = along - _DOUBT * math.sqrt(noise)
        aside = beyond - along * way
        if self.shape.loss.multiclass:
            # Cut rows hide bends: what steps would overshoot is taken in, and then all of it.
            usual = 0.0 if self.steeper.any() else float(way @ change) - along
            more = more if more > (_OVERSHOT - 1.0) * usual else 0.0
            left = max(0.0, 1.0 - noise * (len(way) - 1) / max(float(aside @ aside), 1e-300))
        if more > 0.0:
            # The change of rank one that explains what is not noise.
            beyond = along * way + left * aside
            self.steeper[:] += more / (along**2 * length) * np.outer(beyond, beyond)

    def expected(self, guess: Vector) -> tuple[Vector, float]:
        """Where the minimum is expected, and how probably the public rows' weights are right.

        How the loss bends on the way there, and how well that is known, depends on a guess: `guess`
        and then what this tells.
        """
        for _ in range(_GUESSES):
            guess, share = self._expected(self._precision(self.told, guess))
        return guess, share

    def _precision(self, told: list[_Told], guess: Vector) -> tuple[Matrix, Vector, float]:
        """Of the minimum, by what was told; times where it is; and -2 log evidence of 0."""
        dim = self.shape.dim
        precision, pull, square = np.zeros((dim, dim)), np.zeros(dim), 0.0
        for each in told:
            bends = self.bends(each, guess)
            value = bends @ each.point - each.gradient
            # The bends are not known exactly: what is far away tells less.
            way = bends @ (each.point - guess)
            known = each.few and self.shape.loss.multiclass
            mistaken = _MISTAKEN / len(self.prior.y) if known else _MISTAKEN_ELSEWHERE
            variance = each.deviation**2 + mistaken * float(way @ way) / len(way)
            precision += bends.T @ bends / variance
            pull += bends.T @ value / variance
            square += float(value @ value) / variance + len(way) * math.log(variance)
        return precision, pull, square

    def _expected(self, known: tuple[Matrix, Vector, float]) -> tuple[Vector, float]:
        """The beliefs' centers and shares, weighed by Bayes' law."""
        evidence, centers = [], []
        for (_, center, root, probable), line in zip(self.beliefs, self.lines, strict=True):
            precision, pull, square = known[0] + line[0], known[1] + line[1], known[2] + line[2]
            away = root.T @ (pull - precision @ center)
            system = np.eye(len(pull)) + root.T @ precision @ root
            move = np.linalg.solve(system, away)
            missed = square - 2.0 * pull @ center + center @ precision @ center - away @ move
            evidence.append(probable - 0.5 * (missed + np.linalg.slogdet(system)[1]))
            centers.append(center + root @ move)
        weights = np.exp(np.array(evidence) - max(evidence))
        weights /= weights.sum()
        shares = np.array([share for share, *_ in self.beliefs])
        return np.asarray(weights @ np.array(centers)), float(weights @ (shares > 0.0))

    def bends(self, told: _Told, goal: Vector) -> Matrix:
        """How gradients at `told`'s point grow with the way from `goal`, rows being clipped."""
        loss, y = self.shape.loss, self.prior.y
        rows = self.rows @ told.directions
        reach = told.clip_norm / np.maximum(np.linalg.norm(rows, axis=1), 1e-100)
        ways = [told.point + part * (goal - told.point) for part in (0.1, 0.5, 0.9)]
        bends = np.mean([loss(self.rows @ way, y)[2] for way in ways], axis=0)
        slopes = np.abs(loss(self.rows @ told.point, y)[1])
        if loss.multiclass:
            slopes = np.maximum(slopes, 1.0 - slopes)
        bends *= np.minimum(1.0, reach / np.maximum(slopes, 1e-100))
        more = 0.0 if told.few else _BENT + _UNKNOWN_BENDS * self.shape.dim / len(y)
        even = more * float(np.mean(bends) * np.mean(rows**2))
        found: Matrix = (rows.T * bends) @ self.rows / len(y) + even * told.directions.T
        return found / (1.0 + more) + told.directions.T @ self.steeper
