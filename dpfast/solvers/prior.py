"""Fits that begin with known coefficients, such as an earlier fit's: see :func:`run_refit`.

Privacy: Gaussian releases, whose noise is fixed beforehand; the rest is post-processing.
docs/guide/priors.md has what it brings, and where it does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator
from dpfast.privacy import Budget, affordable
from dpfast.queries import bounded
from dpfast.shape import ProblemShape
from dpfast.solvers import _target_range, dp_whitened_gd
from dpfast.solvers._contract import Outcome, Plan, check_supported
from dpfast.solvers._coordinates import Coordinates, learn
from dpfast.solvers._normal_rows import mean_bends
from dpfast.solvers._whitened_descent import Settings
from dpfast.solvers.dp_whitened_gd import MOST_KNOWN

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Gradients that are released.
_STEPS = 8
# Mean square of the change, in units of prior and noise, beyond which the prior is widened, and the
# factor in steps of which it is.
_STANDS_OUT, _WIDER, _WIDEST = 3.0, 1.2, 1e6
# What of an earlier fit's rows a weight, times µ, counts; by what its covariance grows; and by what
# share of their length weights are believed to have moved since.
_REMEMBERED, _FORGOTTEN, _MOVED = 0.9, 1.1, 0.05


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
        Of a whitened descent, whose coordinates and gradients these are.
    """

    prior: Coefficients
    descent: Settings
    rows_per_weight: float
    prior_rows_per_weight: float
    iterations: int
    clip: float


def check_shape(shape: ProblemShape, budget: Budget, neighboring_relation: str) -> None:
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


def plan_refit(
    shape: ProblemShape,
    prior: Coefficients,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
) -> Plan[RefitSettings]:
    """Settle gradients of a whitened descent that begins with known coefficients.

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
    check_shape(shape, budget, neighboring_relation)
    affordable((), budget, accountant)  # refuses a budget that the accountant cannot limit
    if shape.alpha is not None:
        raise ValueError(f"alpha must be None for a fit with a prior; got {shape.alpha}.")
    u = dp_whitened_gd.rows_per_weight(shape, budget, neighboring_relation, accountant)
    together = math.hypot(u, _REMEMBERED * prior.rows_per_weight)
    descent = dp_whitened_gd.plan(
        shape,
        budget,
        neighboring_relation=neighboring_relation,
        accountant=accountant,
        iterations=_STEPS,
        clip=dp_whitened_gd.automatic_settings(together, shape)["clip"],
        consistent=shape.loss.multiclass,
        james_stein=False,
    )
    settings = RefitSettings(
        prior=prior,
        descent=descent.settings,
        rows_per_weight=u,
        prior_rows_per_weight=prior.rows_per_weight,
        iterations=descent.settings.iterations,
        clip=descent.settings.clip,
    )
    return replace(descent, settings=settings, expected=MappingProxyType({}))


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
    """Release gradients where the minimum is expected, and expect it where prior and they say.

    A gradient tells where the minimum is, by how the loss bends where rows are white and normal.

    Returns
    -------
    Outcome
        Its history has the factor by which the prior's covariance was widened, and the norms of the
        noisy mean gradients in the coordinates.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford a release; its data is not touched.
    """
    settings, shape, prior = plan.settings, plan.shape, plan.settings.prior
    descent, loss = settings.descent, shape.loss
    unit, units = 1.0, ()
    if descent.target_range is not None:
        # Weights and losses are those of residuals in units of half the range of the targets.
        unit = _target_range.learn_range(descent.target_range, curator).half
        units = (loss.zoomed(unit).lipschitz / loss.lipschitz, unit)
    elif descent.narrowing < 1.0:
        loss, units = loss.zoomed(descent.narrowing), (descent.narrowing,)
    coordinates = learn(descent.learning, shape, curator)
    free, earlier = coordinates.free, settings.prior_rows_per_weight**2
    share = earlier / (earlier + settings.rows_per_weight**2)
    transform = bounded(shape, _together(coordinates, prior, share), descent.limit)
    belief = _believed(prior, unit * transform, free)
    mechanism, rows = descent.gradient, shape.n_samples * shape.max_weight
    assert mechanism.query is not None
    at, norms = curator.fix(mechanism.query, transform), np.empty(descent.iterations)
    for step in range(descent.iterations):
        point = belief.mean
        mean = curator.release(mechanism, at, unit * (transform @ point), *units) / rows
        norms[step] = np.linalg.norm(mean)
        # A long gradient is far from the minimum, which it tells the less, bends being guesses.
        variance = max((mechanism.stddev / rows) ** 2, norms[step] ** 2 / shape.dim)
        bends = mean_bends(loss, point, free, descent.clip, descent.consistent)
        belief = belief.told(point, mean, bends, variance)
    history: dict[str, Any] = {"wider": belief.wider, "gradient_norm": norms}
    covariance = None
    if shape.dim <= MOST_KNOWN:
        # Minimizers of so many rows of one population differ, too.
        bends = mean_bends(loss, belief.mean, free, 1.0, consistent=False)
        differ = belief.covariance + np.linalg.inv(bends) / shape.n_samples
        covariance = unit**2 * transform @ differ @ transform.T
    told = dp_whitened_gd.lengths_told(shape, coordinates.columns)
    w = unit * (transform @ belief.mean)
    return Outcome(w, MappingProxyType(history), told, covariance)


def _together(coordinates: Coordinates, prior: Coefficients, share: float) -> Matrix:
    """The transform to coordinates in which rows are white, of what this run and the prior know.

    The precision of a private fit is as the second moments of its rows, up to a factor.
    """
    transform = coordinates.transform
    moments = transform.T @ np.linalg.inv(prior.covariance) @ transform
    anchored = coordinates.anchor is not None
    moments /= moments[-1, -1] if anchored else np.trace(moments) / len(moments)
    moments = (1.0 - share) * np.eye(len(moments)) + share * moments
    # Of a triangular change the constant coordinate, which is the last, stays what it is.
    upper = np.linalg.cholesky(moments[::-1, ::-1])[::-1, ::-1]
    found: Matrix = transform @ np.linalg.inv(upper).T
    return found


def _believed(prior: Coefficients, transform: Matrix, free: int) -> _Belief:
    """The prior in the coordinates, and less certain, since nobody knows what changed."""
    dim, back = len(transform), np.linalg.inv(transform)
    origin: Vector = np.asarray(back @ prior.w, dtype=np.float64)
    covariance = _FORGOTTEN * back @ prior.covariance @ back.T
    moved = (_MOVED * float(np.linalg.norm(origin[:free]))) ** 2 / max(1, free)
    covariance += (moved + 1e-12 * np.trace(covariance) / dim) * np.eye(dim)
    root: Matrix = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    return _Belief(origin, root, np.zeros((dim, dim)), np.zeros(dim))


@dataclass(frozen=True, eq=False)
class _Belief:
    """Where the minimum is: a normal prior, and gradients that are linear around it, by Bayes' law.

    Attributes
    ----------
    origin : ndarray of shape (dim,)
        The prior's mean.
    root : ndarray of shape (dim, dim)
        Of its covariance.
    precision : ndarray of shape (dim, dim)
        Of what gradients tell.
    pull : ndarray of shape (dim,)
        This times where they say that the minimum is.
    """

    origin: Vector
    root: Matrix
    precision: Matrix
    pull: Vector

    def told(self, point: Vector, mean: Vector, bends: Matrix, variance: float) -> _Belief:
        """With one more mean gradient, whose noise has this variance, at a point."""
        return replace(
            self,
            precision=self.precision + bends @ bends / variance,
            pull=self.pull + bends @ (bends @ point - mean) / variance,
        )

    @cached_property
    def _parts(self) -> tuple[Vector, Matrix, Vector]:
        """Directions that prior and gradients tell of separately.

        Returns
        -------
        values, directions, change
            Precision of the gradients along them, in units of the prior's; the directions; and the
            gradients' pull from the origin.
        """
        values, vectors = np.linalg.eigh(self.root.T @ self.precision @ self.root)
        directions = self.root @ vectors
        change = directions.T @ (self.pull - self.precision @ self.origin)
        return np.maximum(values, 1e-12 * max(1.0, values[-1])), directions, change

    @cached_property
    def wider(self) -> float:
        """The least factor, at least 1, of the prior's covariance that explains the change."""
        values, _, change = self._parts
        wider = 1.0
        while wider < _WIDEST:
            if np.mean(change**2 / values / (1.0 + wider * values)) <= _STANDS_OUT:
                break
            wider *= _WIDER
        return wider

    @property
    def mean(self) -> Vector:
        """Where the minimum is expected."""
        values, directions, change = self._parts
        found: Vector = self.origin + directions @ (
            change * self.wider / (1.0 + self.wider * values)
        )
        return found

    @property
    def covariance(self) -> Matrix:
        """Of what the mean may be wrong by."""
        values, directions, _ = self._parts
        found: Matrix = (directions * self.wider / (1.0 + self.wider * values)) @ directions.T
        return found
