r"""Whitened private gradient descent: learn coordinates in which noise hurts least, then descend.

Isotropic noise wastes budget where columns are badly scaled, far from centered, or correlated: the
excess loss that it causes grows with ``tr(A) tr(A⁻¹) >= d²``, ``A`` the rows' second moments.  Both
traces are ``d`` in coordinates ``z = Wᵀx̃`` in which the rows are centered and white.  So a run

1. learns center and scale of every column privately, in rounds, each in the coordinates that the
   one before it left (as Biswas, Dong, Kamath & Ullman 2020 do for covariances), so that errors are
   relative, and averages the rounds by their precision: `_moments`;
2. learns the correlations privately, and removes those that stand out of the noise: `_correlation`;
3. descends on ``v``, ``w = W v``, by full-batch gradients that are clipped *in these coordinates*,
   with momentum where there are rows enough, and averages the late iterates: `descend`.

Losses with a log link come with no scale of their slopes: a run learns mean and spread of the
targets first, and corrects intercept and length of the weights in the end
(`dpfast/solvers/_log_link.py`).

Where a record is a group of rows, such as all rows of a person, its gradient is clipped as one
vector, by a radius that is learned on the way (`dpfast/solvers/_groups.py`).

Where noise would drown everything (few rows a weight, tiny budgets), steps get so short that the
weights stay near zero, and the intercept, a single number, is learned as far as the noise lets it:
the fallback is a constant prediction.

The center moves the weight of the intercept, which is one more column; without an intercept columns
are scaled and not centered.  Mapping back with ``W`` is post-processing.

Privacy
-------
All three steps are Gaussian releases of sums (:mod:`dpfast.queries.coordinates`) whose noise
multipliers are fixed beforehand, so GDP is exact for their composition (Dong, Roth & Su 2022,
Corollary 3.3).  The ridge is data-independent, and everything else here is post-processing.

Source: an extension, to coordinates learned privately, of noisy gradient descent (Bassily, Smith &
Thakurta 2014; Lee & Kifer 2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_flag, check_integer, check_real
from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian, Query
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, records_apart
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import (
    ColumnMoments,
    CoordinateGradient,
    Gram,
    RelativeGradient,
    bounded,
    upper_triangle,
)
from dpfast.queries.coordinates import column_transform, reach_limit
from dpfast.shape import ProblemShape
from dpfast.solvers import _groups, _log_link, _seconds
from dpfast.solvers._contract import Outcome, Plan, Solver
from dpfast.solvers._groups import Groups
from dpfast.solvers._lengths import said_of_lengths
from dpfast.solvers._log_link import LogLink, Spread

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NAME = "dp-whitened-gd"

# A dozen matrices of this many columns are held, and one is diagonalized.
MAX_DIM = 10_000
_MOMENTS, _CORRELATION, _GRADIENT = "column moments", "column correlations", "gradient"
# What is taken off an eigenvalue's distance from 1, and below what it is not told from 0; in units
# of the noise's norm.
_BELIEF, _FLOOR = 0.5, 0.5
# Rows behind one weight, times µ, below which full steps would mostly follow the noise.
_HOPELESS = 2.5
# From here on coordinates are learned from a smaller share of the budget.
_AMPLE = 300.0
# The curvature, in units of the loss's largest, at which noise is taken to pile up over the steps:
# slopes that are clipped, at half the largest and less, do not follow the weights.
_CLIPPED_CURVATURE, _FREE_CURVATURE = 0.15, 0.5
# Plans with shorter steps say that they fall back to little more than the intercept.
_FULL_STEP = 0.5
# What follows the sizes of groups, once they are known.
_FOLLOWING = ("clip", "step", "intercept_step", "momentum", "shrinkage", "james_stein")
# Beyond this the last bit of convergence is not worth its time.
_MANY_ENTRIES = 1e7


@dataclass(frozen=True)
class Settings:
    """What a run follows; the numbers are those of :func:`plan` or derived from them."""

    moments: tuple[Gaussian, ...]
    correlation: Gaussian | None
    gradient: Gaussian
    curvature: float
    radius: float
    limit: float
    regime: str
    clip_norm: float
    rounds: int
    iterations: int
    clip: float
    learning_clip: float
    average: float
    ridge: float
    step: float
    intercept_step: float
    momentum: float
    shrinkage: float
    james_stein: bool
    learning_share: float
    correlation_share: float
    classes: int | None = None
    link: LogLink | None = None
    groups: Groups | None = None


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    iterations: int | str = "auto",
    clip: float | str = "auto",
    rounds: int | str = "auto",
    learning_clip: float | str = "auto",
    learning_share: float | str = "auto",
    correlation_share: float | str = "auto",
    average: float = 0.75,
    step: float | str = "auto",
    intercept_step: float | str = "auto",
    momentum: float | str = "auto",
    shrinkage: float | str = "auto",
    james_stein: bool | str = "auto",
) -> Plan[Settings]:
    """Settle coordinates' rounds, clipping and iterations from public quantities.

    Parameters
    ----------
    shape : ProblemShape
    budget : Budget
        Not pure.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    accountant : str, default="auto"
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss.  None takes that of `shape`, or "auto" if it has none; "auto" is no
        ridge: the noise is held down by the number of steps.
    iterations : int or "auto"
        Gradient steps.
    clip : float or "auto"
        Radius of the gradients in the learned coordinates is ``clip √dim`` times the largest slope
        of the loss; with a log link, times the spread of the slopes, which is learned.
    rounds : int or "auto"
        Rounds in which the columns' moments are learned.
    learning_clip : float or "auto"
        While moments and correlations are learned, rows are clipped to ``learning_clip √dim``.
    learning_share : float or "auto"
        Share of the budget, in units of mu², that the rounds take together.
    correlation_share : float or "auto"
        The same for the correlations; 0 leaves them alone.
    average : float, default=0.75
        Share of the iterates, from the last, that is averaged; 0 takes the last one alone.
    step, intercept_step : float or "auto"
        Steps of the weights and of the intercept, in units of one over the loss's largest
        curvature (with a log link, over that at the mean, which is learned); at most 2.
    momentum : float or "auto"
        Nesterov's, less than 1.
    shrinkage : float or "auto"
        Ridge in the learned coordinates, the intercept left alone, as a share of the loss's largest
        curvature.
    james_stein : bool or "auto"
        Whether weights that noise alone would explain are drawn to zero in the end, see
        :func:`kept`; "auto" where steps are full.

    Returns
    -------
    Plan

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or the loss is not convex, or its slope or its curvature is
        unbounded.
    """
    reason = refusal(shape.loss)
    if reason is not None:
        raise ValueError(f"loss must be {reason}, for {NAME}; got {shape.loss.name!r}.")
    if shape.dim > MAX_DIM:
        raise ValueError(
            f"X must have at most {MAX_DIM} columns, the intercept's included, for {NAME}, which "
            f"works on matrices of that size; got {shape.dim}. solver='objective-perturbation' and "
            "'output-perturbation' take more."
        )
    if alpha is None:
        alpha = shape.alpha if shape.alpha is not None else "auto"
    ridge = 0.0 if alpha == "auto" else check_real("alpha", alpha, low=1e-100, high=1e100)
    mu = budget_mu(budget, accountant)
    u = rows_per_weight(shape, budget, neighboring_relation, accountant)
    linked = shape.loss.log_link
    automatic = partial(automatic_settings, shape=shape)
    settings = automatic(u)
    grouped = clips_groups(shape)
    if grouped:
        settings = _groups.automatic_settings(automatic, u)
    if linked:
        settings |= _log_link.automatic_settings(u)
    chosen = {
        "iterations": iterations,
        "clip": clip,
        "rounds": rounds,
        "learning_clip": learning_clip,
        "learning_share": learning_share,
        "correlation_share": correlation_share,
        "step": step,
        "intercept_step": intercept_step,
        "momentum": momentum,
        "shrinkage": shrinkage,
        "james_stein": james_stein,
    }
    settings |= {name: value for name, value in chosen.items() if value != "auto"}
    free = tuple(name for name in _FOLLOWING if chosen[name] == "auto")
    steps = check_integer("iterations", settings["iterations"], low=1, high=10**6)
    turns = check_integer("rounds", settings["rounds"], low=1, high=100)
    clip = check_real("clip", settings["clip"], low=0.0, low_open=True, high=1e100)
    reach = check_real("learning_clip", settings["learning_clip"], low=1.0, high=1e100)
    for_moments = check_real("learning_share", settings["learning_share"], low=0.0, low_open=True)
    for_correlation = check_real("correlation_share", settings["correlation_share"], low=0.0)
    stride = check_real("step", settings["step"], low=0.0, low_open=True, high=2.0)
    stride_0 = check_real(
        "intercept_step", settings["intercept_step"], low=0.0, low_open=True, high=2.0
    )
    inertia = check_real("momentum", settings["momentum"], low=0.0, high=1.0, high_open=True)
    shrink = check_real("shrinkage", settings["shrinkage"], low=0.0, high=1.0)
    stein = check_flag("james_stein", settings["james_stein"])
    if shape.dim - (shape.intercept != 0.0) < 2:
        for_correlation = 0.0  # one column is correlated with nothing
    for_targets = sum(_log_link.shares(u * shape.dim)) if linked else 0.0
    for_targets += _groups.SIZES_SHARE if grouped else 0.0
    if for_moments + for_correlation + for_targets >= 1.0:
        raise ValueError(
            f"learning_share + correlation_share must be less than {1.0 - for_targets:g}, or "
            f"nothing is left for the gradients; got {for_moments} + {for_correlation}."
        )
    average = check_real("average", average, low=0.0, high=1.0)

    radius = reach * math.sqrt(shape.dim)
    # With a log link slopes and curvatures are in units that the run learns.
    slope, largest = shape.loss.lipschitz, shape.loss.smoothness * shape.max_weight
    if linked:
        slope, largest = 1.0, 1.0
    clip_norm = clip * math.sqrt(shape.dim) * slope
    limit = reach_limit(shape, clip_norm, radius)
    if grouped:
        limit = _groups.limit_of(shape, radius)

    def release(share: float, query: Query, where: str) -> Gaussian:
        budget = Budget(mu=mu * math.sqrt(share))
        return Gaussian.calibrate(budget, query, neighboring_relation, where=where)

    # To begin with no row is longer than √dim, and less radius is less noise.
    moments = tuple(
        release(for_moments / turns, ColumnMoments(shape, bound), _MOMENTS)
        for bound in [math.sqrt(shape.dim)] + [radius] * (turns - 1)
    )
    correlation = None
    if for_correlation > 0.0:
        correlation = release(for_correlation, Gram(shape, radius, limit), _CORRELATION)
    for_gradients = 1.0 - for_moments - for_correlation - for_targets
    query: Query = CoordinateGradient(shape, clip_norm, limit)
    link = _log_link.planned(shape, u, limit, release) if linked else None
    if linked:
        longest = _log_link.longest_row(shape)
        query = RelativeGradient(shape, clip_norm, limit, shape.dim, longest)
    groups = None
    if grouped:
        query = _groups.gradient_query(shape, limit, neighboring_relation)
        groups = _groups.planned(release, shape, free, automatic, u)
    gradient = release(for_gradients / steps, query, _GRADIENT)
    accesses = [(mechanism, 1) for mechanism in moments]
    if correlation is not None:
        accesses.append((correlation, 1))
    accesses.append((gradient, steps))
    if link is not None:
        accesses = [link.accesses[0], *accesses, link.accesses[1]]
    if groups is not None:
        accesses.insert(0, (groups.sizes, 1))
    # What noise does to the average of the iterates, at a quarter of the largest curvature.
    curvature = largest / 4.0
    # Of groups as if each had one row: how many rows there are is not known yet.
    deviation = gradient.stddev * (clip_norm * shape.max_weight if grouped else 1.0)
    variance = (deviation / shape.n_samples) ** 2 / max(1.0, average * steps)
    by_noise = 0.5 * shape.dim * variance / curvature
    return Plan(
        solver=NAME,
        shape=shape if alpha == "auto" else shape.with_alpha(ridge),
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=tuple(accesses),
        settings=Settings(
            moments=moments,
            correlation=correlation,
            gradient=gradient,
            curvature=largest,
            radius=radius,
            limit=limit,
            regime="near a constant prediction" if stride < _FULL_STEP else "all weights",
            clip_norm=clip_norm,
            rounds=turns,
            iterations=steps,
            clip=clip,
            learning_clip=reach,
            average=average,
            ridge=ridge,
            step=stride,
            intercept_step=stride_0,
            momentum=inertia,
            shrinkage=shrink,
            james_stein=stein,
            learning_share=for_moments,
            correlation_share=for_correlation,
            link=link,
            groups=groups,
        ),
        expected=MappingProxyType(
            {
                "excess_loss_by_noise": by_noise,
                "excess_risk_guess": excess_risk_guess(shape, by_noise),
                "seconds": _seconds.preparation(shape)
                + _seconds.whitening(shape, turns, correlation is not None)
                + turns * _seconds.release(2 * shape.n_features)
                + (_seconds.release(correlation.dimension) if correlation is not None else 0.0)
                + steps * (_seconds.gradient(shape) + _seconds.release(shape.dim)),
            }
        ),
    )


def clips_groups(shape: ProblemShape) -> bool:
    """Whether groups of rows are clipped as one vector, and not row by row with less weight."""
    return shape.several_rows and not shape.loss.log_link


def excess_risk_guess(shape: ProblemShape, by_noise: float) -> float:
    """What the noise costs, bent so that it stays below what can be lost.

    Where noise is large, few or short steps leave the weights near a constant prediction, which
    loses a share of the loss at zero (for targets of at most one): a third, as a guess.  Data in
    which the curvature is far from a quarter of its largest value (rare classes, very strong
    signals) lose more; docs/auto.md compares the guess with what was measured.

    Parameters
    ----------
    shape : ProblemShape
    by_noise : float
        Excess loss by noise alone, at a quarter of the largest curvature.

    Returns
    -------
    float
        Grows with `by_noise`.
    """
    most = min(shape.loss.at_zero, shape.loss.lipschitz) * shape.max_weight / 3.0
    return by_noise / (1.0 + by_noise / most)


def automatic_settings(u: float, shape: ProblemShape) -> dict[str, Any]:
    """What "auto" stands for; docs/whitened.md and docs/auto.md have the studies.

    Everything follows from `u`, since in white coordinates the noise in a mean over the rows is
    ``c √d / (u d) = c / (u √d)`` a coordinate: more of it asks for more clipping, fewer and shorter
    steps and less belief in what was learned. The intercept is one number and not d of them: the
    same noise lets it go ``d`` times as far.

    Parameters
    ----------
    u : float
        See :func:`rows_per_weight`.
    shape : ProblemShape
        Its number of weights frees the intercept; of many numbers fewer steps are made.

    Returns
    -------
    dict
    """
    # A slope of this loss is a residual, for targets brought to [-1, 1] as the estimators do.
    even = shape.loss.even
    slope = min(1.0, 0.5 / shape.loss.lipschitz) if even else 1.0
    # A full step moves a margin by slope over curvature, the logistic loss's by 4 at most; where
    # that is less, the way takes more steps.  Residuals of the Huber loss have no such way to go.
    by_step = shape.loss.lipschitz / shape.loss.smoothness
    way = min(3.0, max(1.0, math.sqrt(4.0 / by_step)))
    if even or shape.loss.log_link:
        way = 1.0
    most = 80.0 if shape.n_samples * shape.dim <= _MANY_ENTRIES else 40.0
    # Coordinates need not be better than to some per cent: what is left over goes to the gradients.
    ample = math.sqrt(_AMPLE / max(u, _AMPLE))
    return {
        "iterations": int(min(most, way * max(10.0, 10.0 * (u / 20.0) ** 0.5))),
        "clip": slope * min(2.0, max(0.25, 0.5 * (u / 20.0) ** 0.4)),
        "rounds": 2 if u < 50.0 else 3,
        "learning_clip": min(4.0, max(1.0, (u / 20.0) ** 0.4)),
        "learning_share": 0.2 if u < 50.0 else 0.1 * ample,
        "correlation_share": 0.0 if u < _HOPELESS else 0.1 if u < 50.0 else 0.2 * ample,
        "step": min(1.0, (u / _HOPELESS) ** 2),
        "intercept_step": min(1.0, shape.dim * (u / 6.0) ** 2),
        "momentum": min(0.7, max(0.0, 0.35 * math.log2(u / 50.0))),
        "shrinkage": min(0.05, 0.5 / u),
        "james_stein": u >= _HOPELESS,
    }


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Learn coordinates, descend in them, and map the average of the late iterates back.

    Returns
    -------
    Outcome
        Its history has the norms of the noisy gradients in the learned coordinates.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford a release; its data is not touched.
    """
    plan = with_sizes(plan, curator)
    link = plan.settings.link
    if link is None:
        transform = learn_coordinates(plan, curator)
        v, norms = descend(plan, curator, transform)
    else:
        spread = _log_link.learn_spread(link, plan.shape, curator)
        transform = learn_coordinates(plan, curator)
        v, norms = descend(plan, curator, transform, spread)
        ridge = plan.settings.ridge
        v = _log_link.calibrated(link, plan.shape, curator, transform, v, spread, ridge)
    history = MappingProxyType({"gradient_norm": norms})
    return Outcome(transform @ v, history, lengths_told(plan.shape, transform))


def lengths_told(shape: ProblemShape, transform: Matrix) -> tuple[str, ...]:
    """What the released coordinates tell of the rows' lengths: in them, rows are white."""
    back = np.linalg.inv(transform)[:, : shape.n_features]
    return said_of_lengths(shape, float(np.sum(back**2)))


def with_sizes(plan: Plan[Settings], curator: Curator) -> Plan[Settings]:
    """The plan with what the sizes of the groups, if there are any, make of its settings."""
    settings = plan.settings
    if settings.groups is None:
        return plan
    return replace(plan, settings=_groups.learned(settings.groups, settings, curator))


def learn_coordinates(plan: Plan[Settings], curator: Curator) -> Matrix:
    """``W``, private: the coordinates ``Wᵀ x̃`` in which the rows are nearly centered and white."""
    settings, shape = plan.settings, plan.shape
    center, scale = _moments(plan, curator)
    transform = bounded(shape, column_transform(shape, center, scale), settings.limit)
    if settings.correlation is not None:
        change = _correlation(plan, settings.correlation, curator, transform)
        transform = bounded(shape, transform @ change, settings.limit)
    return transform


def _moments(plan: Plan[Settings], curator: Curator) -> tuple[Vector, Vector]:
    """Center and scale of every column, private."""
    shape = plan.shape
    d, n = shape.n_features, shape.n_samples
    radius = math.sqrt(shape.dim)
    centered = shape.intercept != 0.0
    # Both in units of the scale to begin with, so that nothing here over- or underflows.
    unit = shape.data_norm / radius
    center, scale = np.zeros(d), np.ones(d)
    # All rounds' estimates count, each by its precision, which is public: later rounds resolve
    # short columns, and the first, in which no row is clipped, knows the long ones best.
    centers, variances = _Estimate(d), _Estimate(d)
    for mechanism in plan.settings.moments:
        weight = 1.0 / radius
        noisy = curator.release(mechanism, unit * center, unit * scale)
        mean = noisy[:d] / n if centered else np.zeros(d)
        variance = noisy[d:] / (n * weight) - mean**2
        deviation = mechanism.stddev / n
        center = centers.add(center + scale * mean, scale * deviation)
        known = variances.add(scale**2 * variance, scale**2 * (deviation / weight))
        # What is below the noise cannot be told from zero.
        scale = np.sqrt(np.maximum(known, variances.deviation()))
        radius = plan.settings.radius
    return unit * center, unit * scale


class _Estimate:
    """Mean of noisy values, each weighted by its precision."""

    def __init__(self, size: int) -> None:
        self.total = np.zeros(size)
        self.precision = np.zeros(size)

    def add(self, value: Vector, deviation: Vector) -> Vector:
        """The mean, with one more value a coordinate and the deviations of their noise."""
        self.total += value / deviation**2
        self.precision += 1.0 / deviation**2
        return self.total / self.precision

    def deviation(self) -> Vector:
        """Of the mean's noise."""
        found: Vector = 1.0 / np.sqrt(self.precision)
        return found


def _correlation(
    plan: Plan[Settings], mechanism: Gaussian, curator: Curator, transform: Matrix
) -> Matrix:
    """Rotation and scaling that takes out the correlations that stand out of the noise."""
    d, n = plan.shape.n_features, plan.shape.n_samples
    upper, entries = upper_triangle(d)
    noisy = np.zeros((d, d))
    noisy[upper] = curator.release(mechanism, transform) / entries
    moments = (noisy + np.triu(noisy, 1).T) / n
    eigenvalues, vectors = np.linalg.eigh(moments)
    # The noise's norm: that of a symmetric Gaussian matrix is 2 √d times its entries' deviation.
    noise = 2.0 * math.sqrt(d) * mechanism.stddev / n
    # White is the guess; only what is further from it than the noise reaches is believed.
    away = eigenvalues - 1.0
    shrunk = 1.0 + np.sign(away) * np.maximum(np.abs(away) - _BELIEF * noise, 0.0)
    shrunk = np.maximum(shrunk, min(1.0, _FLOOR * noise))
    change = np.eye(plan.shape.dim)
    change[:d, :d] = vectors / np.sqrt(shrunk)
    return change


def descend(
    plan: Plan[Settings], curator: Curator, transform: Matrix, spread: Spread | None = None
) -> tuple[Matrix, Vector]:
    """Noisy gradient descent in the coordinates of `transform`.

    Parameters
    ----------
    plan : Plan
        With ``classes``, weights are a matrix of as many columns, one a class; adding the same
        vector to all of them changes no loss, so what their noise has in common is taken out.
    curator : Curator
    transform : ndarray of shape (dim, dim)
        ``W``, released before.
    spread : Spread or None, default=None
        Of the targets, released before, for a loss with a log link.

    Returns
    -------
    v : ndarray of shape (dim,) or (dim, classes)
        Weights in the coordinates.
    norms : ndarray of shape (iterations,)
        Of the noisy mean gradients in the learned coordinates.
    """
    shape, settings = plan.shape, plan.settings
    n, steps, classes = shape.n_samples, settings.iterations, settings.classes
    mechanism, ridge, curvature = settings.gradient, settings.ridge, settings.curvature
    metric = transform.T @ transform
    # The ridge in the learned coordinates is the same for all data sets.
    pull = np.full(shape.dim, settings.shrinkage * curvature)
    step = np.full(shape.dim, settings.step)
    if shape.intercept != 0.0:
        pull[-1], step[-1] = 0.0, settings.intercept_step
    step /= curvature
    # The ridge, (α/2) ‖Wv‖², is taken by its proximal step: along its curvature, which has the
    # spread that whitening takes from the rows, gradient steps would have to be tiny.
    damped = np.eye(shape.dim) + ridge * step[:, None] * metric
    if classes is not None:
        pull, step = pull[:, None], step[:, None]
    momentum = settings.momentum
    first = first_averaged(settings)
    assert mechanism.query is not None
    at = curator.fix(mechanism.query, transform)
    v = last = np.zeros(shape.dim if classes is None else (shape.dim, classes))
    unit: tuple[float, ...] = ()
    change = 1.0
    if spread is not None:
        # Slopes are in units of the spread, and the curvature is that at the mean.
        relative = min(spread.relative, spread.top / (spread.mean * settings.clip))
        change = relative / spread.weight
        unit = (relative * float(_log_link.curvature(shape.loss, spread.mean)[0]),)
        step, pull = step * change, pull / change
        damped = np.eye(shape.dim) + ridge * step[:, None] / unit[0] * metric
        if shape.intercept != 0.0:
            v[-1] = math.log(spread.mean)
    pace = None
    if settings.groups is not None:
        pace = _groups.Pace(settings.groups, mechanism, shape, settings.clip_norm)
        step, pull = step / pace.rows, pull * pace.rows
        damped = np.eye(shape.dim) + ridge * step.reshape(-1, 1) * metric
    total = np.zeros_like(v)
    norms = np.empty(steps)
    for iteration in range(steps):
        z = v + momentum * (v - last)
        if pace is not None:
            unit = pace.point
        noisy = curator.release(mechanism, at, transform @ z, *unit)
        if pace is not None:
            noisy = pace.gradient(noisy)
        noisy = noisy.reshape(v.shape) / n
        if classes is not None:
            noisy -= noisy.mean(axis=1, keepdims=True)
        norms[iteration] = np.linalg.norm(noisy)
        moved = z - step * (noisy + pull * z)
        v, last = np.linalg.solve(damped, moved) if ridge > 0.0 else moved, v
        if iteration >= first:
            total += v
    mean = total / (steps - first)
    if settings.james_stein:
        free = mean[: shape.n_features]
        if pace is not None:
            change = pace.norm / pace.rows
        noisy_entries = free.size if classes is None else free.size - len(free)
        deviation = noise_gain(settings) * change * mechanism.stddev / n
        free *= kept(free, deviation, noisy_entries)
    return mean, norms


def kept(v: Matrix, deviation: float, entries: int) -> float:
    """Which share of `v` to keep, if noise of such a deviation is part of so many entries of it.

    ``max(0, 1 - r²)``, with ``r`` the part of ``‖v‖²`` that noise alone would have on average (less
    two entries, as James & Stein 1961).  Theirs is ``1 - r``; the square leaves weights alone that
    stand out of the noise, since a descent of few steps ends short of the minimum anyway.

    Examples
    --------
    >>> kept(np.full(10, 2.0), 1.0, 10), kept(np.full(10, 0.5), 1.0, 10)
    (0.96, 0.0)
    """
    square = float(np.sum(v * v))
    noise = max(0, entries - 2) * deviation**2
    return 1.0 - min(1.0, noise / square) ** 2 if square > 0.0 else 1.0


def noise_gain(settings: Settings) -> float:
    """Deviation of the averaged weights per unit of noise in a mean gradient, on flat ground.

    The recursion of `descend` is linear in the noise at a fixed curvature; so the share of each
    step's noise in the average follows from what a single pulse does.
    """
    steps, momentum = settings.iterations, settings.momentum
    first = first_averaged(settings)
    clipped = min(1.0, max(0.0, 2.0 - 2.0 * settings.clip))
    ground = clipped * _CLIPPED_CURVATURE + (1.0 - clipped) * _FREE_CURVATURE
    pull = settings.shrinkage + ground
    v, last = -settings.step / settings.curvature, 0.0
    pulse = np.empty(steps)
    for k in range(steps):
        pulse[k] = v
        z = v + momentum * (v - last)
        v, last = z - settings.step * pull * z, v
    # What began at step t has gone on for i - t steps in iterate i, of which the last are averaged.
    sums = np.append(0.0, np.cumsum(pulse))
    begun = np.arange(steps)
    shares = (sums[steps - begun] - sums[np.maximum(first - begun, 0)]) / (steps - first)
    return float(np.linalg.norm(shares))


def first_averaged(settings: Settings) -> int:
    """The iteration from which on iterates are averaged."""
    steps = settings.iterations
    return min(steps - 1, math.floor(steps * (1.0 - settings.average)))


def refusal(loss: Loss) -> str | None:
    """What a loss lacks for the method, or None if it will do."""
    needs = {
        "convex": loss.convex,
        "of bounded slope, which the clipping is measured by": math.isfinite(loss.lipschitz),
        "of bounded curvature, which sets the step size": math.isfinite(loss.smoothness),
    }
    return next((need for need, met in needs.items() if not met), None)


def rows_per_weight(
    shape: ProblemShape, budget: Budget, neighboring_relation: str, accountant: str = "auto"
) -> float:
    """``u = µ n / (k d)``: rows behind one weight, times the privacy loss allowed to one of them.

    Parameters
    ----------
    shape : ProblemShape
    budget : Budget
        Not pure.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    accountant : str, default="auto"

    Returns
    -------
    float
    """
    mu = budget_mu(budget, accountant) / records_apart(neighboring_relation)
    return mu * shape.n_samples / shape.dim


SOLVER = Solver(
    name=NAME,
    doc=__doc__,
    plan=plan,
    run=run,
    budgets=("approximate", "zcdp", "gdp"),
    relations=NEIGHBORING_RELATIONS,
    row_access="sums",
    resumable=True,
    minimizes=True,
    expects="excess_loss_by_noise",
    exact={
        "iterations": 500,
        "clip": 10.0,
        "average": 0.0,
        "correlation_share": 0.1,
        "momentum": 0.0,
        "shrinkage": 0.0,
        "james_stein": False,
    },
    weighs_groups=True,
    clips_groups=clips_groups,
    max_dim=MAX_DIM,
    refusal=refusal,
)
