"""Fits that begin with what is known: public rows, or coefficients, such as an earlier fit's.

Public rows cost nothing to look at.  A run

1. fits as without them, by :mod:`dpfast.solvers.dp_whitened_gd`, with most of the budget;
2. asks for one number, the slope of the loss half-way between these weights and those of the public
   rows, and goes as far along this line as the slope says.

Known coefficients: see :func:`run_refit`.

Privacy: Gaussian releases, whose noise is fixed beforehand; the rest is post-processing.
docs/guide/priors.md has what it brings, and where it does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.privacy import Budget, affordable
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import CandidateLosses, RelativeGradient
from dpfast.queries.coordinates import column_transform, reach_limit, reach_of
from dpfast.shape import ProblemShape
from dpfast.solvers import _target_range, dp_whitened_gd
from dpfast.solvers._contract import Outcome, Plan, check_supported
from dpfast.solvers._coordinates import Columns, learn
from dpfast.solvers._whitened_descent import Place, Settings, descend, flat_noise
from dpfast.solvers.dp_whitened_gd import MOST_KNOWN

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_CHOICE, _LINE = "loss of the prior", "slope towards the public rows"
# Share of the budget, in units of mu², of the slope towards the public rows: between the last two,
# and the square of the first over rows a weight, since that is how the noise in a number falls.
_FOR_LINE, _LEAST_LINE, _MOST_LINE = 1.25, 0.06, 0.5
# Slopes are cut at so many times their size among the public rows.
_CUT = 1.8
# Where the best weights are on the line from the private fit to the public rows' before the slope
# is known: their distance from the middle is so much of it.
_ANYWHERE = 0.7
#: Rows behind one weight, times µ, from which on public rows are left alone.
FEW = 25.0
# Share of the budget, in units of mu², of the choice between coefficients and zero: the first, but
# from so many rows a weight on less in proportion, since losses are known the better the more there
# are.
_FOR_CHOICE, _FEW_ROWS, _LEAST_CHOICE = 0.06, 6.0, 0.01
# Losses are cut at so many times that at zero.
_LOSS_CLIP = 2.0
# Deviations of its square by which a change must stand out of prior and noise.
_STANDS_OUT, _WIDEST = 2.0, 100.0
# What of an earlier fit's rows a weight, times µ, counts, and by what its covariance grows: nobody
# knows what has changed since, nor exactly how wrong it was.
_REMEMBERED, _FORGOTTEN = 0.9, 1.1
# Deviations of the noise by which zero must be better than known coefficients, and weights less
# than 1.
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
    X, y : ndarray
        The public rows, with the constant, and their targets.
    """

    origin: Vector
    X: Matrix
    y: Vector


@dataclass(frozen=True, eq=False)
class PriorSettings:
    """What a run follows.

    Attributes
    ----------
    prior : Known
    alone : Plan
        Of the fit without it.
    line : Gaussian
        The release of the slope towards the public rows.
    """

    prior: Known
    alone: Plan[Settings]
    line: Gaussian
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
    return Known(transform @ _most_likely(shape, rows @ transform, y), rows, y)


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


def _most_likely(shape: ProblemShape, z: Matrix, y: Vector) -> Vector:
    """Weights of the rows `z` that are standard normal beforehand."""
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
    return v


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
    for_line = min(_MOST_LINE, max(_LEAST_LINE, (_FOR_LINE / u) ** 2))
    alone = dp_whitened_gd.plan(
        shape,
        Budget(mu=mu * math.sqrt(1.0 - for_line)),
        neighboring_relation=neighboring_relation,
    )
    slope = RelativeGradient(shape, 1.0, reach_limit(shape, 1.0, 1.0), 1)
    each = Budget(mu=mu * math.sqrt(for_line))
    line = Gaussian.calibrate(each, slope, neighboring_relation, where=_LINE)
    return Plan(
        solver=dp_whitened_gd.NAME,
        shape=alone.shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        settings=PriorSettings(
            prior=prior,
            alone=alone,
            line=line,
            rows_per_weight=u,
            public_rows=len(prior.y),
            iterations=alone.settings.iterations,
            clip=alone.settings.clip,
        ),
        accesses=(*alone.accesses, (line, 1)),
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
    """Fit without the public rows, and go towards them as far as the private rows agree.

    Returns
    -------
    Outcome
        Its history has the share of the way that was gone, and the norms of the noisy gradients.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford a release; its data is not touched.
    """
    settings = plan.settings
    found, coordinates = dp_whitened_gd.run_in_coordinates(settings.alone, curator)
    share = _share_of_way(settings, plan.shape, curator, found.w, _weight(coordinates.columns))
    w = found.w + share * (settings.prior.origin - found.w)
    history: dict[str, Any] = {"public_share": share, **found.history}
    return Outcome(w, MappingProxyType(history), found.said)


def _weight(columns: Columns) -> float:
    """What a row weighs on average, over the largest weight; 1 unless the counts say otherwise."""
    if not len(columns.shares):
        return 1.0
    total = float(columns.shares.sum())
    noise = math.sqrt(len(columns.shares)) * columns.share_deviation
    return max(total, noise) if total < 1.0 - _DROPPED * noise else 1.0


def _share_of_way(
    settings: PriorSettings, shape: ProblemShape, curator: Curator, w: Vector, typical: float
) -> float:
    """How far to go from `w` to the public rows' weights, of 0 to 1.

    Along the line the loss is nearly a parabola: the slope grows evenly, by as much as it does for
    the public rows.  So the slope half-way, over half of this growth, is -1 where the minimum is at
    the public rows' weights, and 1 where it is at `w`.
    """
    prior, query = settings.prior, settings.line.query
    assert isinstance(query, RelativeGradient)
    way, most = prior.origin - w, shape.loss.lipschitz
    moves = prior.X @ way
    first, last = (shape.loss(prior.X @ end, prior.y)[1] for end in (w, prior.origin))
    cut = _CUT * math.sqrt(float(np.mean(first**2)) * float(np.mean(moves**2)))
    line = most * way[:, None]
    cut = max(cut, 1.001 * reach_of(shape, line) / query.limit, 1e-100)
    middle = w + 0.5 * way
    told = curator.release(settings.line, curator.fix(query, line / cut), middle, most)
    unit = shape.n_samples * shape.max_weight
    slope, noise = float(told[0]) / unit, settings.line.stddev / unit
    # Not negative, since slopes only grow along the line, row by row, cut or not.
    ends = np.clip(np.stack([first, last]) * moves / cut, -1.0, 1.0)
    half = 0.5 * typical * float(np.mean(ends[1] - ends[0]))
    hidden = noise / (2.0 * _ANYWHERE)
    share = 0.5 - 0.5 * slope * half / (half**2 + hidden**2)
    return min(1.0, max(0.0, share))


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
    # Without a prior, weights that noise alone would explain are drawn to zero, as in other fits.
    descent = replace(descent, james_stein=not believed)
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
