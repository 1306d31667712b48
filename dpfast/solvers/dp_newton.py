r"""Newton steps in learned coordinates, for estimates with a covariance.

Whitened descent (:mod:`dpfast.solvers.dp_whitened_gd`) fits best where its answer is shrunk and its
steps are few; what it hands back has no known law.  This solver spends its budget on an estimate
whose law is known:

1. coordinates ``z = Wᵀ x̃`` are learned, and a rough descent is made in them, as there; the squared
   loss needs no descent;
2. a first curvature is released for the logistic loss, which tells the coordinates ``H`` in which
   the curvature is nearly the identity, and the metric ``G`` in which scores are bounded;
3. scores are released three times, each at the point to which a Newton step from the one before
   leads, and the curvature ``K`` once in between;
4. the estimate is one Newton step from the mean of the three points, with the mean score: its noise
   is linear in that of the scores, whose law is public.

Rows are weighted by functions of the row alone (:mod:`dpfast.queries.estimating`), so that nothing
is clipped by its target.  The estimand is the minimizer of the loss so weighted: rows of much
leverage count less.  Where the model holds it is the model's coefficients; where it does not, it is
another projection than the one without weights.

With n rows, the covariance of the estimate in the coordinates is

    ``K⁻¹ (J / n + N) K⁻¹``,

N that of the mean score's noise, and J the products of the scores: released (``cov_type="robust"``)
or what the model says of them (``"nonrobust"``): K for the logistic loss, and K times the mean
square of the residuals, which is released, for the squared loss.

What is not believed.  A coefficient's variance is refused, by what was released alone, where

* more than a tenth of it comes from directions whose curvature does not stand out of the noise;
* the margins of the rows that determine it would move by more than the curvature bears, when the
  coefficient moves by what the interval allows, or did move in the last steps.

Privacy
-------
Every look is a Gaussian release of a sum with a noise multiplier that was fixed beforehand; GDP is
exact for their composition.  All else is post-processing.

Sources: the weights are of the kind of Hampel's for generalized linear models (Künsch, Stefanski &
Carroll 1989); one-step estimates with private scores and curvature as Avella-Medina, Bradshaw & Loh
2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpfast._validation import check_choice, check_real
from dpfast.curator import Curator, Fixed
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian, Query
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, records_apart
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import (
    ColumnShapes,
    CoordinateGradient,
    Gram,
    ScoreProducts,
    SquaredSlopes,
    WeightedCurvature,
    WeightedScores,
    bounded,
    upper_triangle,
)
from dpfast.queries.estimating import SERVED, largest_curvature, stack_limit
from dpfast.shape import ProblemShape
from dpfast.solvers import _coordinates, _seconds
from dpfast.solvers._contract import Outcome, Plan, Solver

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NAME = "dp-newton"

COV_TYPES = ("nonrobust", "robust")
#: Rows behind one weight, times µ, over the root of the weights' number: below this intervals did
#: not hold what they promise (docs/guide/standard_errors.md).
LEAST_RATIO = 45.0
MAX_DIM = 1000

_COLUMNS, _CORRELATION, _GRADIENT, _PREVIEW, _CURVATURE, _SCORES, _PRODUCTS, _SLOPES = (
    "columns", "column correlations", "gradient", "first curvature", "curvature", "scores",
    "products of scores", "squared residuals",
)  # fmt: skip
# Shares of the budget in units of µ²; what is left goes to the three scores, so divided.
_COLUMN_SHARE, _CORRELATION_SHARES, _DESCENT_SHARE = 0.04, (0.05, 0.07), 0.10
_PREVIEW_SHARE, _CURVATURE_SHARE, _PRODUCT_SHARE, _SLOPE_SHARE = 0.08, 0.10, 0.08, 0.01
# Rounds in which columns are learned, steps of the descent, their momentum, how far its gradients
# reach over the root of the weights' number, and the length of a step in the coordinates.
_ROUNDS, _STEPS, _MOMENTUM, _DESCENT_CLIP, _LONGEST_DESCENT = 3, 12, 0.35, 0.75, 1.5
# Rows' curvatures are bounded by this, times the number of weights, in units of the mean's.
_CURVATURE_REACH = 4.0
# Eigenvalues of the first curvature are at least this share of their mean, or of its noise's norm.
_LEAST_SHARE, _LEAST_NOISE = 0.15, 1.0
# Of the curvature's noise, times the root of the weights' number: what eigenvalues are at least,
# and what they must pass to be seen.
_FLOOR, _SEEN = 1.0, 2.0
# A Newton step is no longer than this, in coordinates in which a row's typical entry is 1.
_LONGEST_STEP = 3.0
# What is refused: the share of a variance in directions that are not seen, and the margins' move.
_HIDDEN, _MOVE = 0.05, 0.75
# A forecast for the squared loss is for residuals of this size, the targets being in [-1, 1].
_RESIDUAL = 0.25
# Points of a Gauss-Hermite rule for the mean curvature of normal margins.
_POINTS, _RULE = np.polynomial.hermite_e.hermegauss(40)


@dataclass(frozen=True)
class Course:
    """How the scores' share is divided, before which of them the curvature is released, and from
    which of them on they are averaged."""

    parts: tuple[float, ...]
    curvature_at: int
    averaged_from: int

    @property
    def weights(self) -> Vector:
        """Of the scores in the mean."""
        kept = np.where(np.arange(len(self.parts)) >= self.averaged_from, self.parts, 0.0)
        weights: Vector = kept / kept.sum()
        return weights


# After a descent the start is near; the squared loss starts at zero, with its curvature known.
_LOGISTIC = Course((0.15, 0.25, 0.60), curvature_at=2, averaged_from=0)
_SQUARED = Course((0.10, 0.90), curvature_at=0, averaged_from=1)


@dataclass(frozen=True)
class Settings:
    """What a run follows; the numbers are those of :func:`plan` or derived from them."""

    columns: tuple[Gaussian, ...]
    correlations: tuple[Gaussian, ...]
    gradient: Gaussian | None
    preview: Gaussian | None
    curvature: Gaussian
    scores: tuple[Gaussian, ...]
    products: Gaussian | None
    slopes: Gaussian | None
    course: Course
    cov_type: str
    column_bound: float
    clip: float
    limit: float
    ridge: float
    score_share: float


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    cov_type: str = "nonrobust",
    column_bound: float | None = None,
    clip: float | str = "auto",
) -> Plan[Settings]:
    """Settle coordinates, curvature and scores from public quantities.

    Parameters
    ----------
    shape : ProblemShape
        Of the logistic or the squared loss.
    budget : Budget
        Not pure.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    accountant : str, default="auto"
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss, which belongs to the estimand then.  None takes that of `shape`, or
        "auto", which is none.
    cov_type : {"nonrobust", "robust"}, default="nonrobust"
        Whether the covariance trusts the model (its mean and variance for the logistic loss; equal
        variances of the residuals for the squared one), or the products of scores are released.
    column_bound : float or None, default=None
        Public bound of the entries of the rows, 1 for columns scaled to [-1, 1]; None: that of the
        rows' norms.  It tells rare values from noise; no guarantee rests on it.
    clip : float or "auto"
        Scores are no longer than ``clip √dim`` in coordinates in which a row's typical entry is 1.

    Returns
    -------
    Plan
        Its expectations: `width_ratio`, the width of an interval over that without privacy, for
        balanced classes, or residuals of an eighth of the targets' range; `rows_for_coverage`, the
        rows from which on intervals hold.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or the loss is another one.
    """
    reason = refusal(shape.loss)
    if reason is not None:
        raise ValueError(f"loss must be {reason}, for {NAME}; got {shape.loss.name!r}.")
    if shape.dim > MAX_DIM:
        raise ValueError(
            f"X must have at most {MAX_DIM} columns, the intercept's included, for {NAME}, which "
            f"releases a matrix of that size; got {shape.dim}."
        )
    if alpha is None:
        alpha = shape.alpha if shape.alpha is not None else "auto"
    ridge = 0.0 if alpha == "auto" else check_real("alpha", alpha, low=1e-100, high=1e100)
    check_choice("cov_type", cov_type, COV_TYPES)
    mu = budget_mu(budget, accountant)
    apart = records_apart(neighboring_relation)
    signal = shape.n_samples * (mu / apart) ** 2 / shape.dim
    if clip == "auto":
        clip = min(3.0, max(1.15, 0.62 * signal ** (1.0 / 6.0)))
        clip *= 1.5 if shape.loss.quadratic else 1.0
    entries = shape.data_norm
    if column_bound is not None:
        entries = check_real("column_bound", column_bound, low=0.0, low_open=True, high=1e100)
    clip = check_real("clip", clip, low=0.0, low_open=True, high=1e100)
    radius = clip * math.sqrt(shape.dim)
    limit = stack_limit(shape)
    bound = _CURVATURE_REACH * shape.dim
    quadratic, robust = shape.loss.quadratic, cov_type == "robust"
    left = 1.0

    def release(share: float, query: Query, where: str) -> Gaussian:
        nonlocal left
        left -= share
        part = Budget(mu=mu * math.sqrt(share))
        return Gaussian.calibrate(part, query, neighboring_relation, where=where)

    root = math.sqrt(shape.dim)
    reaches = [root] + [_coordinates.REACH * root] * (_ROUNDS - 1)
    columns = tuple(
        release(_COLUMN_SHARE / _ROUNDS, ColumnShapes(shape, reach), _COLUMNS) for reach in reaches
    )
    correlations = tuple(
        release(share, Gram(shape, reaches[-1], limit), _CORRELATION)
        for share in _CORRELATION_SHARES
    )
    gradient = preview = products = slopes = None
    if not quadratic:
        query = CoordinateGradient(shape, _DESCENT_CLIP * root, limit)
        gradient = release(_DESCENT_SHARE / _STEPS, query, _GRADIENT)
        left -= _DESCENT_SHARE * (1.0 - 1.0 / _STEPS)
        first = WeightedCurvature(shape, radius, _first_bound(shape, mu / apart), limit)
        preview = release(_PREVIEW_SHARE, first, _PREVIEW)
    second = WeightedCurvature(shape, radius, bound, limit)
    curvature = release(_CURVATURE_SHARE, second, _CURVATURE)
    if robust:
        products = release(_PRODUCT_SHARE, ScoreProducts(shape, radius, bound, limit), _PRODUCTS)
    elif quadratic:
        slopes = release(_SLOPE_SHARE, SquaredSlopes(shape, radius, bound, limit), _SLOPES)
    score_share, course = left, _SQUARED if quadratic else _LOGISTIC
    scores = tuple(
        release(score_share * part, WeightedScores(shape, radius, bound, limit), _SCORES)
        for part in course.parts
    )
    accesses = [(mechanism, 1) for mechanism in (*columns, *correlations)]
    if gradient is not None and preview is not None:
        accesses += [(gradient, _STEPS), (preview, 1)]
    accesses += [(score, 1) for score in scores]
    accesses.insert(len(accesses) - len(scores) + course.curvature_at, (curvature, 1))
    accesses += [(last, 1) for last in (products, slopes) if last is not None]
    steps = sum(count for _, count in accesses)
    return Plan(
        solver=NAME,
        shape=shape if alpha == "auto" else shape.with_alpha(ridge),
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=tuple(accesses),
        settings=Settings(
            columns=columns,
            correlations=correlations,
            gradient=gradient,
            preview=preview,
            curvature=curvature,
            scores=scores,
            products=products,
            slopes=slopes,
            course=course,
            cov_type=cov_type,
            column_bound=min(entries, shape.data_norm),
            clip=clip,
            limit=limit,
            ridge=ridge,
            score_share=score_share,
        ),
        expected=MappingProxyType(
            {
                "width_ratio": width_ratio(shape, radius, mu / apart, score_share),
                "rows_for_coverage": rows_for_coverage(shape, mu / apart),
                "seconds": _seconds.preparation(shape)
                + _seconds.whitening(shape, 3, True)
                + steps * (_seconds.gradient(shape) + _seconds.release(shape.dim)),
            }
        ),
    )


def _first_bound(shape: ProblemShape, mu: float) -> float:
    """``K`` of the first curvature, in units of the mean one: the more rows, the larger."""
    ratio = mu * shape.n_samples / shape.dim**1.5
    return shape.dim * min(12.0, max(4.0, ratio / 15.0))


def width_ratio(shape: ProblemShape, radius: float, mu: float, share: float) -> float:
    """What noise in the scores makes of the intervals' width; curvatures are another 40%."""
    spread = _RESIDUAL**2 if shape.loss.quadratic else 0.75 * 0.25
    return math.sqrt(1.0 + 1.4 * radius**2 / (share * shape.n_samples * mu**2 * spread))


def rows_for_coverage(shape: ProblemShape, mu: float) -> float:
    """Rows from which on intervals hold what they promise."""
    return math.ceil(LEAST_RATIO * shape.dim**1.5 / mu)


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Learn coordinates, take Newton steps, and work out the covariance.

    Returns
    -------
    Outcome
        Its history has the `covariance` of the weights, and for each of them why its variance is
        `refused`: 0 if it is not, 1 where directions hide in the noise, 2 where margins move too
        far.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford a release; its data is not touched.
    """
    settings = plan.settings
    shape, limit = plan.shape, settings.limit / 4.0
    columns = _coordinates.learn_columns(shape, settings.column_bound, settings.columns, curator)
    transform = _coordinates.learn_transform(
        shape, columns, settings.clip, settings.correlations, curator, limit
    )
    v = np.zeros(shape.dim)
    if settings.gradient is not None:
        v = _descend(shape, settings.gradient, curator, transform)
    peaks = np.append(2.0 * columns.height, np.full(shape.dim - shape.n_features, shape.intercept))
    found = _Newton(plan, curator, transform).estimate(v)
    covariance = found.covariance()
    refused = found.refused(covariance, peaks)
    history = {"covariance": covariance, "refused": refused}
    return Outcome(found.weights, MappingProxyType(history))


def _descend(
    shape: ProblemShape, mechanism: Gaussian, curator: Curator, transform: Matrix
) -> Vector:
    """A rough start: noisy gradient descent in the coordinates, the late half averaged.

    The first gradient, at zero, tells how many rows are positive.
    """
    n, query = shape.n_samples, mechanism.query
    assert query is not None
    at = curator.fix(query, transform)
    v, total, curvature = np.zeros(shape.dim), np.zeros(shape.dim), 0.25
    last = v
    for step in range(_STEPS):
        z = v + _MOMENTUM * (v - last)
        slope = curator.release(mechanism, at, transform @ z) / n
        if step == 0 and shape.intercept != 0.0:
            positive = min(0.98, max(0.02, 0.5 - slope[-1]))
            v[-1] = math.log(positive / (1.0 - positive))
            curvature, last = 1.65 * positive * (1.0 - positive), v
            continue
        change = slope / curvature
        change *= min(1.0, _LONGEST_DESCENT / float(np.linalg.norm(change)))
        v, last = z - change, v
        if step >= _STEPS // 2:
            total += v
    mean: Vector = total / (_STEPS - _STEPS // 2)
    return mean


class _Newton:
    """The steps from learned coordinates on."""

    def __init__(self, plan: Plan[Settings], curator: Curator, transform: Matrix) -> None:
        self.shape, self.settings, self.curator = plan.shape, plan.settings, curator
        self.transform = transform
        self.n, self.dim = plan.shape.n_samples, plan.shape.dim
        # The ridge, in the coordinates.
        self.pull = self.settings.ridge * transform.T @ transform

    def estimate(self, v: Vector) -> _Newton:
        """From a rough start to the weights, and what their covariance rests on."""
        settings, unit = self.settings, self._unit(v)
        self.unit = unit
        first = unit * np.eye(self.dim)
        if settings.preview is not None:
            first = self._preview(settings.preview, v, unit)
        values, vectors = np.linalg.eigh(first)
        metric = values**-0.25
        metric *= math.sqrt(self.dim) / np.linalg.norm(metric)
        self.metric = (vectors * metric) @ vectors.T
        self.back = (vectors / metric) @ vectors.T
        self.whiten = (vectors / np.sqrt(values)) @ vectors.T
        self.color = (vectors * np.sqrt(values)) @ vectors.T
        points, scores, curvature = [v], [], first
        for k, mechanism in enumerate(settings.scores):
            if k == settings.course.curvature_at:
                curvature = self._curvature(points[-1])
            scores.append(self._score(mechanism, points[-1]))
            step = np.linalg.solve(curvature + self.pull, scores[-1])
            step *= min(1.0, _LONGEST_STEP / np.linalg.norm(step))
            points.append(points[-1] - step)
        weights = settings.course.weights
        self.inverse = np.linalg.inv(curvature + self.pull)
        start = weights @ np.array(points[:-1])
        self.v = start - self.inverse @ (weights @ np.array(scores))
        self.moved = self.v - points[settings.course.curvature_at]
        self.noise = self._noise(weights, self.v - start)
        self.products = self._products(points[-1], curvature)
        return self

    @property
    def weights(self) -> Vector:
        """Of the columns."""
        weights: Vector = self.transform @ self.v
        return weights

    def covariance(self) -> Matrix:
        """Of the weights."""
        middle = self.products / self.n + self.noise
        by_columns = self.transform @ self.inverse
        covariance: Matrix = by_columns @ middle @ by_columns.T
        return covariance

    def refused(self, covariance: Matrix, peaks: Vector) -> Vector:
        """Why each weight's variance is not believed; 0 where it is."""
        loads = (self.transform @ self.whiten @ self.vectors) ** 2 / self.values
        hidden = loads[:, ~self.seen].sum(axis=1) / loads.sum(axis=1)
        by_columns = self.transform @ self.inverse
        variance = np.einsum("ij,ij->i", by_columns, self.transform)
        # Typical move of margins for a move of the weight, and its rare rows' as their column says.
        drive = np.linalg.norm(by_columns, axis=1) / variance
        allowed = float(ndtri(0.975)) * np.sqrt(np.diag(covariance))
        moved = np.abs(self.transform @ self.moved)
        far = (allowed + moved) * np.maximum(drive, peaks) > _MOVE
        along = (self.vectors.T @ self.color @ self.moved)[self.seen]
        if along @ along > _MOVE**2 * self.unit:
            far[:] = True  # the curvature was that of another place
        if self.shape.loss.quadratic:
            far[:] = False  # the curvature is the same everywhere
        refused: Vector = np.where(hidden > _HIDDEN, 1.0, np.where(far, 2.0, 0.0))
        return refused

    def _unit(self, v: Vector) -> float:
        """Mean curvature, for rows that are normal in the coordinates."""
        if self.shape.loss.quadratic:
            return 1.0
        bias, spread = 0.0, float(np.linalg.norm(v))
        if self.shape.intercept != 0.0:
            bias, spread = float(v[-1]), float(np.linalg.norm(v[:-1]))
        curvature = largest_curvature(self.shape.loss, bias + spread * _POINTS)
        return max(0.01, float(_RULE @ curvature / _RULE.sum()))

    def _stack(self, metric: Matrix, whiten: Matrix, v: Vector) -> Matrix:
        """The fixed argument of the queries, within their limit."""
        part = self.settings.limit / 2.0
        blocks = (metric, whiten, v[:, None])
        return np.hstack([_limited(self.shape, self.transform @ b, part) for b in blocks])

    def _preview(self, mechanism: Gaussian, v: Vector, unit: float) -> Matrix:
        """The first curvature, its eigenvalues kept up."""
        whiten = np.eye(self.dim) / math.sqrt(unit)
        noisy = self._matrix(mechanism, self._stack(np.eye(self.dim), whiten, v))
        values, vectors = np.linalg.eigh(noisy)
        noise = math.sqrt(self.dim) * mechanism.stddev / self.n
        least = max(_LEAST_SHARE * max(float(values.mean()), 0.2), _LEAST_NOISE * noise)
        found: Matrix = (vectors * np.maximum(values, least)) @ vectors.T * unit
        return found

    def _curvature(self, v: Vector) -> Matrix:
        """The curvature that the covariance rests on, and which directions of it are seen."""
        mechanism = self.settings.curvature
        self.fixed_at = self._stack(self.metric, self.whiten, v)
        values, self.vectors = np.linalg.eigh(self._matrix(mechanism, self.fixed_at))
        noise = math.sqrt(self.dim) * mechanism.stddev / self.n
        self.seen = values > _SEEN * noise
        self.values = np.maximum(values, _FLOOR * noise)
        # Where it is not seen no long steps are taken: what rests on them is refused in the end.
        steady = np.where(self.seen, self.values, np.maximum(self.values, 1.0))
        root = self.color @ self.vectors
        found: Matrix = (root * steady) @ root.T
        return found

    def _score(self, mechanism: Gaussian, v: Vector) -> Vector:
        """The mean score at a point, with the ridge's."""
        noisy = self.curator.release(mechanism, self._stack(self.metric, self.whiten, v))
        score: Vector = self.back @ noisy / self.n + self.pull @ v
        return score

    def _products(self, v: Vector, curvature: Matrix) -> Matrix:
        """``J``."""
        settings = self.settings
        stack = self._stack(self.metric, self.whiten, v)
        if settings.products is not None:
            noisy = self._matrix(settings.products, stack)
            values, vectors = np.linalg.eigh(noisy)
            found: Matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
            return self.back @ found @ self.back
        if settings.slopes is None:
            return curvature
        squares, counted = self.curator.release(settings.slopes, stack)
        deviation = settings.slopes.stddev
        # One deviation up: what noise hides of the residuals must not make the intervals shorter.
        mean = 4.0 * max(squares + deviation, deviation) / max(counted, deviation)
        return min(4.0, mean) * curvature

    def _noise(self, weights: Vector, step: Vector) -> Matrix:
        """Covariance of the noise in the system that the last step solves: of scores and curvature.

        Noise E in the curvature adds ``E u`` for the step u, whose covariance is
        ``s² (‖u‖² + u uᵀ)``, s the deviation of its entries, in the coordinates it was released in.
        """
        settings = self.settings
        of_scores = sum(
            (weight * m.stddev / self.n) ** 2
            for weight, m in zip(weights, settings.scores, strict=True)
        )
        u = self.color @ step
        of_curvature = (u @ u * np.eye(self.dim) + np.outer(u, u)) * (
            settings.curvature.stddev / self.n
        ) ** 2
        noise: Matrix = of_scores * self.back @ self.back
        return noise + self.color @ of_curvature @ self.color

    def _matrix(self, mechanism: Gaussian, stack: Matrix | Fixed) -> Matrix:
        """A symmetric matrix of means, from its noisy triangle."""
        upper, entries = upper_triangle(self.dim)
        noisy = np.zeros((self.dim, self.dim))
        noisy[upper] = self.curator.release(mechanism, stack) / entries / self.n
        return noisy + np.triu(noisy, 1).T


def _limited(shape: ProblemShape, block: Matrix, limit: float) -> Matrix:
    """A block of a stack, made smaller where rounding would matter."""
    if block.shape[1] == shape.dim:
        return bounded(shape, block, limit)
    units = np.full(shape.dim, shape.data_norm)
    if shape.intercept != 0.0:
        units[-1] = abs(shape.intercept)
    reach = math.sqrt(2.0) * float(np.linalg.norm(units[:, None] * block))
    return block * min(1.0, limit / reach) if reach > 0.0 else block


def refusal(loss: Loss) -> str | None:
    """What a loss lacks for the method, or None if it will do."""
    if loss.name in SERVED:
        return None
    return " or ".join(map(repr, SERVED)) + ", whose scores are bounded without their targets"


SOLVER = Solver(
    name=NAME,
    doc=__doc__,
    plan=plan,
    run=run,
    budgets=("approximate", "zcdp", "gdp"),
    relations=NEIGHBORING_RELATIONS,
    row_access="sums",
    resumable=True,
    minimizes=False,
    expects="width_ratio",
    max_dim=MAX_DIM,
    refusal=refusal,
)
