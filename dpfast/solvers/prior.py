"""Private descent from what public rows tell: coordinates, and where the weights may be.

Or from known coefficients, see :func:`run_refit`: those of an earlier private fit, say.

Public rows cost nothing to look at.  A run

1. asks for the columns' moments, and scales and centers columns anew that are clearly other than
   among the public rows;
2. descends in these coordinates from a constant prediction, as without a prior;
3. goes the same way on the public rows, whose minimizer is known: that tells what clipping and few
   steps make of a minimizer;
4. weighs both, the public rows the less the less they agree with where the descent ended
   (`dpfast/solvers/_power_prior.py`).

Privacy: two kinds of Gaussian releases, whose noise is fixed beforehand; the rest is
post-processing.  docs/guide/priors.md has what it brings, and where it does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.privacy import Budget, affordable
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import CandidateLosses, ColumnParts, CoordinateGradient, bounded
from dpfast.queries.coordinates import column_transform
from dpfast.shape import ProblemShape
from dpfast.solvers import _target_range, dp_whitened_gd
from dpfast.solvers._contract import Outcome, Plan, check_supported
from dpfast.solvers._coordinates import Columns, Coordinates, learn
from dpfast.solvers._power_prior import Course, PublicLaw, weigh
from dpfast.solvers._whitened_descent import Place, Settings, descend, flat_noise, way_and_noise
from dpfast.solvers.dp_whitened_gd import MOST_KNOWN

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_CHOICE, _MOMENTS = "loss of the prior", "column moments"
# Share of the budget, in units of mu², of the moments.
_FOR_MOMENTS = 0.1
# The same of the choice between coefficients and zero: the first, but from so many rows a weight on
# less in proportion, since losses are known the better the more there are.
_FOR_CHOICE, _FEW_ROWS, _LEAST_CHOICE = 0.06, 6.0, 0.01
# Losses are cut at so many times that at zero.
_LOSS_CLIP = 2.0
# Deviations of the noise, and a share of the scale, by which a column must differ from the prior's;
# and which share of the noise's deviation a variance is at least.
_APART, _NEAR, _HIDDEN = 4.0, 0.5, 1.0 / 100.0
# What the descent on public rows may do more or less than the linear theory says, and by what its
# deviations grow for all that neither says.
_LEAST_PACE, _MOST_PACE, _ROUGH = 0.3, 3.0, 1.1
# Rounds of the moments; from the second on rows are cut to so many times the expected length.
_ROUNDS, _REACH = 2, 2.0
# Deviations of its square by which a change must stand out of prior and noise.
_STANDS_OUT, _WIDEST = 2.0, 100.0
#: Rows behind one weight, times µ, from which on public rows are left alone: wrong ones would cost
#: too much.
FEW = 6.0
# What of an earlier fit's rows a weight, times µ, counts, and by what its covariance grows: nobody
# knows what has changed since, nor exactly how wrong it was.
_REMEMBERED, _FORGOTTEN = 0.9, 1.1
# Deviations of the noise by which zero must be better than known coefficients.
_DROPPED = 2.0
# Mean curvature of a loss over its largest, roughly.
_BENT = 0.6
# Weights in white coordinates are standard normal beforehand; the intercept is wider.
_INTERCEPT_PRECISION = 0.1


@dataclass(frozen=True, eq=False)
class Known:
    """What public rows tell, in the units of a problem.

    Attributes
    ----------
    origin : ndarray of shape (dim,)
        The weights.
    precision : ndarray of shape (dim, dim)
        Inverse of the covariance of what they are wrong by.
    transform : ndarray of shape (dim, dim)
        ``W``: rows ``Wᵀ x̃`` are expected to be nearly centered and white.
    beforehand : ndarray of shape (dim, dim)
        The part of the precision that was there before the rows.
    X, y : ndarray
        The public rows, with the constant, and their targets.
    """

    origin: Vector
    precision: Matrix
    transform: Matrix
    beforehand: Matrix
    X: Matrix
    y: Vector


@dataclass(frozen=True, eq=False)
class PriorSettings:
    """What a run follows."""

    prior: Known
    descent: Settings
    moments: tuple[Gaussian, ...]
    rows_per_weight: float
    public_rows: int
    iterations: int
    clip: float


def from_rows(shape: ProblemShape, X: Matrix, y: Vector) -> Known:
    """The prior of public rows.

    Parameters
    ----------
    shape : ProblemShape
        Of the private problem.
    X : ndarray of shape (m, n_features)
        No longer than the private rows.
    y : ndarray of shape (m,)
        Targets as the loss takes them.

    Returns
    -------
    Known
    """
    rows = X
    if shape.intercept != 0.0:
        rows = np.column_stack([X, np.full(len(X), shape.intercept)])
    transform = _white(shape, rows)
    v, hessian = _most_likely(shape, rows @ transform, y)
    back = np.linalg.inv(transform)
    beforehand = back.T @ np.diag(_beforehand(shape)) @ back
    precision = back.T @ hessian @ back - beforehand
    if shape.loss.kind == "regression":
        # A loss of numbers is no likelihood until it is divided by what residuals scatter.
        _, slopes, bends = shape.loss(rows @ (transform @ v), y)
        precision *= float(bends.sum()) / max(float(slopes @ slopes), 1e-6 * len(y))
    return Known(transform @ v, precision + beforehand, transform, beforehand, rows, y)


def _beforehand(shape: ProblemShape) -> Vector:
    """Precision of weights in white coordinates before any rows are seen."""
    precision = np.ones(shape.dim)
    if shape.intercept != 0.0:
        precision[-1] = _INTERCEPT_PRECISION
    return precision


def _white(shape: ProblemShape, rows: Matrix) -> Matrix:
    """Coordinates in which these rows are nearly white, and others like them not much longer."""
    m, d = len(rows), shape.n_features
    center = rows[:, :d].mean(axis=0) if shape.intercept != 0.0 else np.zeros(d)
    scale = np.sqrt(np.mean((rows[:, :d] - center) ** 2, axis=0))
    # A column that hardly varies in these rows may do so in others.
    entry = shape.data_norm / math.sqrt(shape.dim)
    scale = np.where(scale < entry / math.sqrt(m), entry, scale)
    z = (rows[:, :d] - center) / scale
    moments = z.T @ z / (m + d)
    np.fill_diagonal(moments, 1.0)
    values, vectors = np.linalg.eigh(moments)
    change = np.eye(shape.dim)
    change[:d, :d] = vectors / np.sqrt(values)
    return column_transform(shape, center, scale) @ change


def _most_likely(shape: ProblemShape, z: Matrix, y: Vector) -> tuple[Vector, Matrix]:
    """Weights of the rows `z` that are standard normal beforehand, and the curvature there."""
    precision = _beforehand(shape)

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
    return v, hessian


def plan_with_prior(
    shape: ProblemShape,
    prior: Known,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
) -> Plan[PriorSettings]:
    """Settle everything from public quantities, the prior among them.

    Parameters
    ----------
    shape : ProblemShape
    prior : Known
    budget : Budget
        Not pure.
    neighboring_relation, accountant
        As for :func:`dpfast.plan`.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If the budget or the loss does not suit.
    """
    _check_shape(shape, budget, neighboring_relation)
    affordable((), budget, accountant)  # refuses a budget that the accountant cannot limit
    mu = budget_mu(budget, accountant)
    u = dp_whitened_gd.rows_per_weight(shape, budget, neighboring_relation, accountant)
    descent = dp_whitened_gd.plan(
        shape,
        budget,
        neighboring_relation=neighboring_relation,
        accountant=accountant,
        rounds=_ROUNDS,
        learning_share=_FOR_MOMENTS,
        learning_clip=_REACH,
        correlation_share=0.0,
        shrinkage=0.0,
        james_stein=False,
        target_rounds=0,
    ).settings
    each = Budget(mu=mu * math.sqrt(_FOR_MOMENTS / _ROUNDS))
    moments = tuple(
        Gaussian.calibrate(each, ColumnParts(shape, length), neighboring_relation, where=_MOMENTS)
        for length in (math.sqrt(shape.dim), *[descent.radius] * (_ROUNDS - 1))
    )
    return Plan(
        solver=dp_whitened_gd.NAME,
        shape=shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        settings=PriorSettings(
            prior=prior,
            descent=descent,
            moments=moments,
            rows_per_weight=u,
            public_rows=len(prior.y),
            iterations=descent.iterations,
            clip=descent.clip,
        ),
        accesses=(
            *((mechanism, 1) for mechanism in moments),
            (descent.gradient, descent.iterations),
        ),
        expected=MappingProxyType({}),
    )


def _check_shape(shape: ProblemShape, budget: Budget, neighboring_relation: str) -> None:
    """Refuse problems that a prior is of no use for, or not yet."""
    check_supported(dp_whitened_gd.SOLVER, budget, neighboring_relation)
    reason = "without a log link" if shape.loss.log_link else dp_whitened_gd.refusal(shape.loss)
    if reason is not None:
        raise ValueError(f"loss must be {reason}, for a fit with a prior; got {shape.loss.name!r}.")
    if shape.dim > dp_whitened_gd.MAX_DIM:
        raise ValueError(
            f"X must have at most {dp_whitened_gd.MAX_DIM} columns, the intercept's included, for "
            f"a fit with a prior; got {shape.dim}."
        )
    if shape.unit == "group":
        raise ValueError("prior must be None where a record is a group of rows; got one.")


def _loss_clip(shape: ProblemShape) -> float:
    """Where losses of a row are cut."""
    return _LOSS_CLIP * min(shape.loss.at_zero, shape.loss.lipschitz)


def has_prior(plan: Plan[Any]) -> bool:
    """Whether a plan was made by :func:`plan_with_prior`."""
    return isinstance(plan.settings, PriorSettings)


def run_with_prior(plan: Plan[PriorSettings], curator: Curator) -> Outcome:
    """Look at the coordinates, descend, and weigh what was found with the public rows.

    Returns
    -------
    Outcome
        Its history has the share of a private row that a public one counted as, and the norms of
        the noisy gradients.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford a release; its data is not touched.
    """
    settings, shape = plan.settings, plan.shape
    prior = settings.prior
    coordinates = _coordinates(settings, shape, curator)
    transform = coordinates.transform
    back = np.linalg.inv(transform)
    start = None
    if shape.loss.kind == "regression":
        start = back @ _constant(shape, prior)
    v, norms, change = descend(settings.descent, shape, curator, coordinates, None, start)
    law = PublicLaw(
        back @ prior.origin,
        transform.T @ prior.precision @ transform,
        transform.T @ prior.beforehand @ transform,
        shape.n_features,
    )
    course = _course(settings, shape, coordinates, law, start, change)
    v, counted = weigh(v, course, law)
    history: dict[str, Any] = {"public_row": counted, "gradient_norm": norms}
    return Outcome(transform @ v, MappingProxyType(history))


# ---- coefficients that are known, with their covariance ----------------------------------------


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Weights that are known beforehand, such as those of an earlier fit.

    Attributes
    ----------
    w : ndarray of shape (dim,)
    covariance : ndarray of shape (dim, dim)
        Of what they are wrong by.
    rows_per_weight : float
        The `u` that a fit would need to be as accurate; 0: not known.
    """

    w: Vector
    covariance: Matrix
    rows_per_weight: float


@dataclass(frozen=True, eq=False)
class RefitSettings:
    """What a fit follows that begins with known coefficients.

    Attributes
    ----------
    prior : Coefficients
    descent : Settings
        Of the whitened descent in the middle.
    choice : Gaussian
        The release of two losses.
    """

    prior: Coefficients
    descent: Settings
    choice: Gaussian
    rows_per_weight: float
    prior_rows_per_weight: float
    iterations: int
    clip: float


def plan_refit(
    shape: ProblemShape,
    prior: Coefficients,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
) -> Plan[RefitSettings]:
    """Settle a whitened descent that begins with known coefficients.

    The clip is that of as many rows a weight as both have together: what is clipped less has more
    noise, which the prior takes out, and less bias, which it cannot.

    Parameters
    ----------
    shape : ProblemShape
    prior : Coefficients
    budget : Budget
        Not pure.
    neighboring_relation, accountant
        As for :func:`dpfast.plan`.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If the budget or the loss does not suit.
    """
    _check_shape(shape, budget, neighboring_relation)
    affordable((), budget, accountant)  # refuses a budget that the accountant cannot limit
    mu = budget_mu(budget, accountant)
    u = dp_whitened_gd.rows_per_weight(shape, budget, neighboring_relation, accountant)
    together = math.hypot(u, _REMEMBERED * prior.rows_per_weight)
    automatic = dp_whitened_gd.automatic_settings(together, shape)
    losses = CandidateLosses(
        shape, 2, _loss_clip(shape), float(np.linalg.norm(prior.w)) or 1.0, norm="l2"
    )
    for_choice = max(_LEAST_CHOICE, _FOR_CHOICE * min(1.0, _FEW_ROWS / u))
    each = Budget(mu=mu * math.sqrt(for_choice))
    choice = Gaussian.calibrate(each, losses, neighboring_relation, where=_CHOICE)
    descent = dp_whitened_gd.plan(
        shape,
        Budget(mu=mu * math.sqrt(1.0 - for_choice)),
        neighboring_relation=neighboring_relation,
        shrinkage=0.0,
        james_stein=False,
        clip=automatic["clip"],
    )
    settings = RefitSettings(
        prior=prior,
        descent=descent.settings,
        choice=choice,
        rows_per_weight=u,
        prior_rows_per_weight=prior.rows_per_weight,
        iterations=descent.settings.iterations,
        clip=descent.settings.clip,
    )
    return Plan(
        solver=dp_whitened_gd.NAME,
        shape=descent.shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        settings=settings,
        accesses=((choice, 1), *descent.accesses),
        expected=MappingProxyType({}),
    )


def known_rows(plan: Plan[Any], accountant: str = "auto") -> float:
    """The rows behind a weight, times µ, that a fit by this plan and its prior know together.

    0 if it is no fit to single rows with Gaussian noise.
    """
    shape = plan.shape
    if plan.solver != dp_whitened_gd.NAME or shape.unit == "group":
        return 0.0
    u = dp_whitened_gd.rows_per_weight(shape, plan.budget, plan.neighboring_relation, accountant)
    before = 0.0
    if isinstance(plan.settings, RefitSettings):
        before = _REMEMBERED * plan.settings.prior_rows_per_weight
    return math.hypot(u, before)


def run_refit(plan: Plan[RefitSettings], curator: Curator) -> Outcome:
    """Ask whether the prior is any good, descend from there, and weigh what was found with it.

    Returns
    -------
    Outcome
        Its history has whether the run began with the prior, the factor by which its covariance
        was widened, and the norms of the noisy gradients.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford a release; its data is not touched.
    """
    settings, shape, prior = plan.settings, plan.shape, plan.settings.prior
    n, descent = shape.n_samples, settings.descent
    losses = curator.release(settings.choice, np.stack([prior.w, np.zeros_like(prior.w)])) / n
    noise = math.sqrt(2.0) * settings.choice.stddev / n
    believed = bool(losses[0] <= losses[1] + _DROPPED * noise)
    spread: Place | None = None
    if descent.target_range is not None:
        spread = Place(*_target_range.learn_range(descent.target_range, curator))
    coordinates = learn(descent.learning, shape, curator)
    # Weights of this run's units: of half the range of numeric targets.
    unit = 1.0 if spread is None else spread.half
    transform = unit * coordinates.transform
    back = np.linalg.inv(transform)
    origin: Vector = np.asarray(back @ prior.w, dtype=np.float64)
    start = origin if believed else None
    v, norms, change = descend(descent, shape, curator, coordinates, spread, start)
    # Of the noise, and of minimizers of so many rows of one population.
    variance = (flat_noise(descent, n) * change) ** 2
    variance += 1.0 / (_BENT * shape.loss.smoothness * n)
    covariance: Matrix = variance * np.eye(shape.dim)
    wider = math.inf
    if believed:
        precision = np.linalg.inv(_FORGOTTEN * back @ prior.covariance @ back.T)
        moved, wider = _drawn(v - origin, np.full(shape.dim, math.sqrt(variance)), precision)
        v = origin + moved
        covariance = np.linalg.inv(precision / wider + np.eye(shape.dim) / variance)
    history: dict[str, Any] = {"believed": believed, "wider": wider, "gradient_norm": norms}
    told = dp_whitened_gd.lengths_told(shape, coordinates.columns)
    released = transform @ covariance @ transform.T if shape.dim <= MOST_KNOWN else None
    return Outcome(transform @ v, MappingProxyType(history), told, released)


def _coordinates(settings: PriorSettings, shape: ProblemShape, curator: Curator) -> Coordinates:
    """The prior's coordinates, with the private rows' center and scale of columns that differ."""
    d, W = shape.n_features, settings.prior.transform
    mixed = W[:d, :d]
    # Of rows that are white in these coordinates.
    scale = np.sqrt(np.diag(np.linalg.inv(mixed @ mixed.T)))
    center: Any = np.zeros(d)
    if shape.intercept != 0.0:
        center = -shape.intercept * np.linalg.solve(mixed.T, W[d, :d])
    change = np.eye(shape.dim)
    change[:d, :d] = scale[:, None] * mixed
    found = _moments(settings, shape, curator)
    elsewhere = np.abs(found.center - center) > _APART * found.center_noise + 0.5 * _NEAR * scale
    center = np.where(elsewhere, found.center, center)
    other = np.abs(found.variance - scale**2) > _APART * found.noise + _NEAR * scale**2
    # A column that the prior takes for short may be as long as the noise hides.
    likely = np.maximum(scale**2, _HIDDEN * found.noise)
    scale = np.sqrt(np.where(other, np.maximum(found.variance, found.noise), likely))
    transform = column_transform(shape, center, scale) @ change
    anchor = d if shape.intercept != 0.0 else None
    return Coordinates(
        bounded(shape, transform, settings.descent.limit),
        anchor,
        shape.intercept if shape.intercept != 0.0 else 1.0,
        _columns(center, scale, found),
    )


def _columns(center: Vector, scale: Vector, found: _Moments) -> Columns:
    """What is known of the columns, none of which is taken for a category's."""
    nothing = np.zeros(len(center))
    return Columns(
        center=center,
        scale=scale,
        deviation=found.center_noise,
        counted=nothing > 0.0,
        taken=nothing > 0.0,
        height=1.0,
        frequency=nothing,
        frequency_deviation=nothing,
        spiky=nothing > 0.0,
        shares=found.shares,
        share_deviation=found.share_noise,
    )


@dataclass(frozen=True)
class _Moments:
    """Noisy centers and variances of the private rows' columns, and the noise's deviations.

    And the shares of the classes, in weights over the largest.
    """

    center: Vector
    center_noise: Vector
    variance: Vector
    noise: Vector
    shares: Vector
    share_noise: float


def _moments(settings: PriorSettings, shape: ProblemShape, curator: Curator) -> _Moments:
    """Two rounds: the second in units of what the first has found."""
    d, n = shape.n_features, shape.n_samples
    center, scale = np.zeros(d), np.full(d, shape.data_norm / math.sqrt(shape.dim))
    labels = []
    for mechanism in settings.moments:
        query = mechanism.query
        assert isinstance(query, ColumnParts)
        noisy, noise = curator.release(mechanism, center, scale) / n, mechanism.stddev / n
        above, below, squares, shares = query.split(noisy)
        labels.append(shares)
        mean = above - below if shape.intercept != 0.0 else np.zeros(d)
        variance = scale**2 * (squares - mean**2)
        apart = math.sqrt(2.0) * scale * noise
        found = _Moments(
            center + scale * mean,
            apart,
            variance,
            scale**2 * noise / query.weight,
            np.mean(labels, axis=0),
            noise / query.label_weight / math.sqrt(len(labels)),
        )
        center, scale = found.center, np.sqrt(np.maximum(variance, found.noise))
    return found


class _Rehearsal:
    """Answers what a curator would, of public rows and without noise."""

    def __init__(self, shape: ProblemShape, prior: Known, weight: float) -> None:
        self.shape, self.prior, self.weight = shape, prior, weight

    def fix(self, query: CoordinateGradient, transform: Matrix) -> tuple[Matrix, Vector]:
        """The rows in the coordinates, and the largest slope of each."""
        z = self.prior.X @ transform
        return z, query.clip_norm / np.maximum(np.linalg.norm(z, axis=1), 1e-300)

    def release(self, _: Gaussian, at: tuple[Matrix, Vector], w: Vector) -> Vector:
        """The clipped gradient at w, of as many such rows as there are private ones."""
        (z, most), n = at, self.shape.n_samples
        slopes = self.shape.loss(self.prior.X @ w, self.prior.y)[1]
        found: Vector = z.T @ np.clip(slopes, -most, most) * (self.weight * n / len(z))
        return found


def _constant(shape: ProblemShape, prior: Known) -> Vector:
    """Weights of the public rows' best constant prediction, the middle of their targets."""
    found = np.zeros(shape.dim)
    if shape.intercept != 0.0:
        found[-1] = float(np.mean(prior.y)) / shape.intercept
    return found


def _course(
    settings: PriorSettings,
    shape: ProblemShape,
    coordinates: Coordinates,
    law: PublicLaw,
    start: Vector | None,
    change: float,
) -> Course:
    """What the descent makes of a minimizer, by linear theory and by a rehearsal."""
    d, prior, descent = shape.n_features, settings.prior, settings.descent
    columns, typical = coordinates.columns, 1.0
    if len(columns.shares):
        typical = min(1.0, max(float(columns.shares.sum()), columns.share_deviation))
        shares = typical * np.array([np.mean(prior.y < 0.0), np.mean(prior.y > 0.0)])
        columns = replace(columns, shares=shares)
    public = _Rehearsal(shape, prior, typical * shape.max_weight)
    # It asks for nothing but what a rehearsal answers.
    end = descend(
        descent, shape, cast(Curator, public), replace(coordinates, columns=columns), None, start
    )[0]
    z = prior.X @ coordinates.transform
    moments = np.eye(shape.dim)
    moments[:d, :d] = z[:, :d].T @ z[:, :d] / len(z)
    values, vectors = np.linalg.eigh(moments)
    way, noise = way_and_noise(descent, shape.n_samples, typical * np.maximum(values, 0.0))
    matrix = (vectors * way) @ vectors.T
    linear = matrix[:d, :d] @ law.mean[:d]
    pace = float(end[:d] @ linear) / max(float(linear @ linear), 1e-300)
    matrix *= min(_MOST_PACE, max(_LEAST_PACE, pace))
    if coordinates.anchor is not None:
        # The intercept begins near its end.
        matrix[d], matrix[:, d], matrix[d, d] = 0.0, 0.0, 1.0
    spread = (vectors * (_ROUGH * change * noise) ** 2) @ vectors.T
    return Course(matrix, end - matrix @ law.mean, spread)


def _drawn(v: Vector, deviation: Vector, precision: Matrix) -> tuple[Vector, float]:
    """The most likely change, and the factor by which the prior's covariance was widened.

    `v` is the change and noise.  The factor is the least, at least 1, with which `v` does not stand
    out of both.
    """
    # In units of the noise.
    values, vectors = np.linalg.eigh((deviation[:, None] * precision) * deviation)
    values, t = np.maximum(values, 0.0), vectors.T @ (v / deviation)

    def length(wider: float) -> float:
        """Its square is the number of weights on average, if prior and noise are all there is."""
        return float(np.sum(t**2 * values / (values + wider)))

    wider = 1.0
    if length(wider) > len(t) + _STANDS_OUT * math.sqrt(2.0 * len(t)):
        while wider < _WIDEST and length(wider) > len(t):
            wider *= 1.1
    change: Vector = deviation * (vectors @ (t * wider / (values + wider)))
    return change, wider
