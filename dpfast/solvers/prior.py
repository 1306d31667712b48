"""Private descent from what public rows tell: a start, its precision, coordinates.

Or from known coefficients, see :func:`run_refit`: those of an earlier private fit, say.

Public rows cost nothing to look at.  A run

1. asks for the loss of their weights, of a constant and of zeros, and begins at the best of them,
   as far as the noise tells it: a prior that is seen to be wrong is left alone;
2. asks for the columns' moments, and scales and centers columns anew that are clearly other than
   among the public rows;
3. descends from there by gradients that are clipped in these coordinates.  What clipping takes off
   the gradients of the *public* rows is added back: it is an estimate of what it takes off the
   private ones, and the smaller the clip, the nearer the fit to that of the public rows;
4. draws the change to zero, where the prior is, by the prior's precision and that of the noise.
   If the two are farther apart than both explain, the prior's covariance is widened until they are
   not.  Public rows that tell nothing of their own targets hold it less, and are left out of 3.

Privacy: three kinds of Gaussian releases, whose noise is fixed beforehand; the rest is
post-processing.  docs/guide/priors.md has what it brings, and where it does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian, Query
from dpfast.privacy import Budget, affordable
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import CandidateLosses, ColumnParts, CoordinateGradient, bounded
from dpfast.queries.coordinates import column_transform, reach_limit
from dpfast.shape import ProblemShape
from dpfast.solvers import _target_range, dp_whitened_gd
from dpfast.solvers._contract import Outcome, Plan, check_supported
from dpfast.solvers._coordinates import learn
from dpfast.solvers._whitened_descent import Place, Settings, descend, flat_noise
from dpfast.solvers.dp_whitened_gd import MOST_KNOWN

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_CHOICE, _MOMENTS, _GRADIENT = "loss of the prior", "column moments", "gradient"
# Shares of the budget, in units of mu², of the choice of a start and of the moments.
_FOR_CHOICE, _FOR_MOMENTS = 0.06, 0.1
# Losses are cut at so many times that at zero.
_LOSS_CLIP = 2.0
# Deviations of the noise by which another start must be better than the prior.
_BETTER = 1.0
# Deviations by which a statistic of the public rows must be above its mean if they told nothing.
_TELLS = 2.0
# By what the covariance grows of a prior that tells nothing.
_UNTOLD = 4.0
# Deviations of the noise, and a share of the scale, by which a column must differ from the prior's;
# and which share of the noise's deviation a variance is at least.
_APART, _NEAR, _HIDDEN = 4.0, 0.5, 1.0 / 16.0
# In the second round rows are cut to so many times the expected length.
_REACH = 2.0
# Deviations of its square by which a change must stand out of prior and noise.
_STANDS_OUT, _WIDEST = 2.0, 100.0
#: Rows behind one weight, times µ, from which on a prior costs more than it brings.
FEW = 6.0
# What of an earlier fit's rows a weight, times µ, counts, and by what its covariance grows: nobody
# knows what has changed since, nor exactly how wrong it was.
_REMEMBERED, _FORGOTTEN = 0.9, 1.1
# Deviations of the noise by which zero must be better than known coefficients.
_DROPPED = 2.0
# Mean curvature of a loss over its largest, roughly.
_BENT = 0.6
# A step's share of the whole way, in units of the clip and of the rows behind a weight, times µ.
_BEND = 0.06
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
    constant : ndarray of shape (dim,)
        Weights of a constant prediction.
    X, y : ndarray
        The public rows, with the constant, and their targets.
    telling : bool
        Whether their targets have to do with their columns, as far as they can show.
    """

    origin: Vector
    precision: Matrix
    transform: Matrix
    constant: Vector
    X: Matrix
    y: Vector
    telling: bool

    def cut_off(self, loss: Loss, w: Vector, transform: Matrix, clip_norm: float) -> Vector:
        """Mean of what clipping takes off the public rows' gradients, in the coordinates."""
        z = self.X @ transform
        slopes = loss(self.X @ w, self.y)[1]
        most = clip_norm / np.maximum(np.linalg.norm(z, axis=1), 1e-300)
        found: Vector = z.T @ (slopes - np.clip(slopes, -most, most)) / len(z)
        return found


@dataclass(frozen=True)
class PriorSettings:
    """What a run follows."""

    prior: Known
    choice: Gaussian
    moments: tuple[Gaussian, ...]
    gradient: Gaussian
    rows_per_weight: float
    public_rows: int
    iterations: int
    clip: float
    clip_norm: float
    radius: float
    limit: float
    curvature: float


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
    constant = np.zeros(shape.dim)
    if shape.intercept != 0.0:
        one = np.full((len(y), 1), shape.intercept)
        constant[-1] = _most_likely(shape, one, y)[0][0]
    telling = _telling(shape, rows, y, constant)
    return Known(transform @ v, back.T @ hessian @ back, transform, constant, rows, y, telling)


def _telling(shape: ProblemShape, rows: Matrix, y: Vector, constant: Vector) -> bool:
    """Whether a score test tells the public rows from such whose targets were drawn anew.

    Rows that tell nothing would still hold the private ones to weights near zero.
    """
    columns = rows[:, : shape.n_features]
    if shape.intercept != 0.0:
        columns = columns - columns.mean(axis=0)
    scores = columns * shape.loss(rows @ constant, y)[1][:, None]
    total, spread = scores.sum(axis=0), scores.T @ scores
    values, vectors = np.linalg.eigh(spread)
    kept = values > 1e-9 * max(float(values[-1]), 1e-300)
    statistic = float(np.sum((vectors.T @ total)[kept] ** 2 / values[kept]))
    d = int(np.count_nonzero(kept))
    return statistic > d + _TELLS * math.sqrt(2.0 * d)


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
    precision = np.ones(z.shape[1])
    if shape.intercept != 0.0:
        precision[-1] = _INTERCEPT_PRECISION

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
    settings = dp_whitened_gd.automatic_settings(u, shape)
    radius = _REACH * math.sqrt(shape.dim)
    clip_norm = settings["clip"] * math.sqrt(shape.dim) * shape.loss.lipschitz
    limit = reach_limit(shape, clip_norm, radius)
    starts = _starts(prior)
    longest = float(np.linalg.norm(starts, axis=1).max())
    loss_clip = _loss_clip(shape)

    def release(share: float, query: Query, where: str) -> Gaussian:
        each = Budget(mu=mu * math.sqrt(share))
        return Gaussian.calibrate(each, query, neighboring_relation, where=where)

    losses = CandidateLosses(shape, len(starts), loss_clip, longest, norm="l2")
    steps = settings["iterations"]
    gradient = CoordinateGradient(shape, clip_norm, limit)
    found = PriorSettings(
        prior=prior,
        choice=release(_FOR_CHOICE, losses, _CHOICE),
        moments=tuple(
            release(_FOR_MOMENTS / 2.0, ColumnParts(shape, length), _MOMENTS)
            for length in (math.sqrt(shape.dim), radius)
        ),
        gradient=release((1.0 - _FOR_CHOICE - _FOR_MOMENTS) / steps, gradient, _GRADIENT),
        rows_per_weight=u,
        public_rows=len(prior.y),
        iterations=steps,
        clip=settings["clip"],
        clip_norm=clip_norm,
        radius=radius,
        limit=limit,
        curvature=shape.loss.smoothness * shape.max_weight,
    )
    return Plan(
        solver=dp_whitened_gd.NAME,
        shape=shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        settings=found,
        accesses=(
            (found.choice, 1),
            *((mechanism, 1) for mechanism in found.moments),
            (found.gradient, steps),
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
    """Choose a start, look at the coordinates, descend, and weigh the change.

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
    settings, shape = plan.settings, plan.shape
    origin, believed = _start(settings, shape, curator)
    transform = _coordinates(settings, shape, curator)
    telling = settings.prior.telling
    v, norms = _descend(settings, shape, curator, origin, transform, believed and telling)
    precision = np.eye(shape.dim)
    if believed:
        precision = transform.T @ settings.prior.precision @ transform
        precision /= 1.0 if telling else _UNTOLD
    v, wider = _drawn(v, _deviation(settings, shape), precision)
    history: dict[str, Any] = {"believed": believed, "wider": wider, "gradient_norm": norms}
    return Outcome(origin + transform @ v, MappingProxyType(history))


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
    each = Budget(mu=mu * math.sqrt(_FOR_CHOICE))
    choice = Gaussian.calibrate(each, losses, neighboring_relation, where=_CHOICE)
    descent = dp_whitened_gd.plan(
        shape,
        Budget(mu=mu * math.sqrt(1.0 - _FOR_CHOICE)),
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


def _starts(prior: Known) -> Matrix:
    """The prior, its constant, and zero."""
    return np.stack([prior.origin, prior.constant, np.zeros_like(prior.origin)])


def _start(settings: PriorSettings, shape: ProblemShape, curator: Curator) -> tuple[Vector, bool]:
    """Weights to begin with, by the noisy losses, and whether they are those of the prior."""
    starts = _starts(settings.prior)
    losses = curator.release(settings.choice, starts) / shape.n_samples
    noise = math.sqrt(2.0) * settings.choice.stddev / shape.n_samples
    best = int(np.argmin(losses + _BETTER * noise * np.array([0.0, 1.0, 1.0])))
    return starts[best], best == 0


def _coordinates(settings: PriorSettings, shape: ProblemShape, curator: Curator) -> Matrix:
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
    return bounded(shape, column_transform(shape, center, scale) @ change, settings.limit)


@dataclass(frozen=True)
class _Columns:
    """Noisy centers and variances of the private rows' columns, and the noise's deviations."""

    center: Vector
    center_noise: Vector
    variance: Vector
    noise: Vector


def _moments(settings: PriorSettings, shape: ProblemShape, curator: Curator) -> _Columns:
    """Two rounds: the second in units of what the first has found."""
    d, n = shape.n_features, shape.n_samples
    center, scale = np.zeros(d), np.full(d, shape.data_norm / math.sqrt(shape.dim))
    for mechanism in settings.moments:
        query = mechanism.query
        assert isinstance(query, ColumnParts)
        noisy, noise = curator.release(mechanism, center, scale) / n, mechanism.stddev / n
        above, below, squares, _ = query.split(noisy)
        mean = above - below if shape.intercept != 0.0 else np.zeros(d)
        variance = scale**2 * (squares - mean**2)
        apart = math.sqrt(2.0) * scale * noise
        found = _Columns(center + scale * mean, apart, variance, scale**2 * noise / query.weight)
        center, scale = found.center, np.sqrt(np.maximum(variance, found.noise))
    return found


def _descend(
    settings: PriorSettings,
    shape: ProblemShape,
    curator: Curator,
    origin: Vector,
    transform: Matrix,
    believed: bool,
) -> tuple[Vector, Vector]:
    """Mean of the late changes, in the coordinates, and the norms of the noisy gradients."""
    mechanism, loss = settings.gradient, shape.loss
    assert mechanism.query is not None
    at = curator.fix(mechanism.query, transform)
    v: Vector = np.zeros(shape.dim)
    changes, norms = np.empty((settings.iterations, shape.dim)), np.empty(settings.iterations)
    for k in range(settings.iterations):
        w = origin + transform @ v
        noisy = curator.release(mechanism, at, w) / shape.n_samples
        norms[k] = np.linalg.norm(noisy)
        if believed:
            noisy += settings.prior.cut_off(loss, w, transform, settings.clip_norm)
        v = v - noisy / settings.curvature
        changes[k] = v
    return changes[_first(settings) :].mean(axis=0), norms


def _first(settings: PriorSettings) -> int:
    """The step from which on changes are averaged."""
    return settings.iterations // 4


def _deviation(settings: PriorSettings, shape: ProblemShape) -> Vector:
    """Of the noise in the average of the changes."""
    # Where noise carries the weights far out, next to nothing holds them.
    kept = 1.0 - _BEND * settings.clip * min(FEW, settings.rows_per_weight)
    steps = np.arange(settings.iterations)
    averaged = steps[_first(settings) :]
    # What the noise of step j is in the average of those from it on.
    pulses = [np.sum(kept ** (averaged[averaged >= j] - j)) / len(averaged) for j in steps]
    step = settings.gradient.stddev / shape.n_samples / settings.curvature
    return np.full(shape.dim, step * float(np.linalg.norm(pulses)))


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
