"""Fits that begin with known coefficients, such as an earlier fit's: see :func:`run_refit`.

Privacy: Gaussian releases, whose noise is fixed beforehand; the rest is post-processing.
docs/guide/priors.md has what it brings, and where it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.privacy import Budget, affordable
from dpfast.queries import bounded
from dpfast.shape import ProblemShape
from dpfast.solvers import dp_whitened_gd
from dpfast.solvers._contract import Outcome, Plan, check_supported
from dpfast.solvers._coordinates import Coordinates, entry_bound, learn
from dpfast.solvers._normal_rows import mean_bends
from dpfast.solvers._whitened_descent import PRIOR_EFFECT, Settings
from dpfast.solvers._whitened_rules import automatic_settings, rows_per_weight
from dpfast.solvers.dp_whitened_gd import MAX_COVARIANCE_DIM

# Gradients that are released up to so many rows behind one weight, times µ; beyond, the number is
# as the square root of these, and at most the last.
_STEPS, _FEW, _MOST_STEPS = 8, 20.0, 24
# A gradient stands out if its square is so many times what is expected, and this more: then
# covariances are widened, in steps of a factor, and the loss is taken to bend more than where it
# bends most.
_STANDS_OUT, _BY_CHANCE, _WIDER, _WIDEST, _CAUTIOUS = 3.0, 10.0, 1.2, 1e6, 1.5
# What would have to be widened by more than this factor is wrong, and forgotten.
_WRONG = 30.0
# What share of a step is uncertain, since bends are guesses.
_ASTRAY = 0.5
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


def check_shape(
    shape: ProblemShape, budget: Budget, neighboring_relation: str, accountant: str
) -> None:
    """Refuse problems that a prior is of no use for, or not yet, and budgets."""
    check_supported(dp_whitened_gd.SOLVER, budget, neighboring_relation)
    affordable((), budget, accountant)  # refuses a budget that the accountant cannot limit
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
    if shape.alpha is not None:
        raise ValueError(f"alpha must be None for a fit with a prior; got {shape.alpha}.")


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
    check_shape(shape, budget, neighboring_relation, accountant)
    u = rows_per_weight(shape, budget, neighboring_relation, accountant)
    together = math.hypot(u, _REMEMBERED * prior.rows_per_weight)
    descent = dp_whitened_gd.plan(
        shape,
        budget,
        neighboring_relation=neighboring_relation,
        accountant=accountant,
        iterations=int(min(_MOST_STEPS, _STEPS * max(1.0, math.sqrt(u / _FEW)))),
        clip=automatic_settings(together, shape)["clip"],
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
    return Plan(
        solver=dp_whitened_gd.NAME,
        shape=descent.shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        settings=settings,
        accesses=descent.accesses,
    )


def tells_more(prior: Coefficients, shape: ProblemShape) -> bool:
    """Whether weights are known better, in some direction, than every fit takes them to be.

    What has deviations of ten units of the margin across a column's range says nothing.
    """
    least = float(np.linalg.eigvalsh(prior.covariance[: shape.n_features, : shape.n_features])[0])
    return least * entry_bound(shape) ** 2 < PRIOR_EFFECT**2


def known_rows(plan: Plan[Any], accountant: str = "auto") -> float:
    """The rows behind a weight, times µ, that a fit by this plan and its prior know together.

    0 if it is no fit to single rows with Gaussian noise.
    """
    shape = plan.shape
    if plan.solver != dp_whitened_gd.NAME or shape.unit == "group":
        return 0.0
    u = rows_per_weight(shape, plan.budget, plan.neighboring_relation, accountant)
    before = 0.0
    if isinstance(plan.settings, RefitSettings):
        before = _REMEMBERED * plan.settings.prior_rows_per_weight
    return math.hypot(u, before)


def run_refit(plan: Plan[RefitSettings], curator: Curator) -> Outcome:
    """Release gradients where the minimum is expected, and expect it where prior and they say.

    A Kalman filter: a gradient tells where the minimum is by how the loss bends where rows are
    white and normal.

    Returns
    -------
    Outcome
        Its history has the factor by which covariances were widened, and the norms of the noisy
        mean gradients in the coordinates.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford a release; its data is not touched.
    """
    settings, shape = plan.settings, plan.shape
    descent, loss = settings.descent, shape.loss
    unit = 1.0
    units: tuple[float, ...] = ()
    place = dp_whitened_gd.learn_place(descent, curator)
    if place is not None:
        # Weights and losses are those of residuals in units of half the range of the targets.
        unit = place.half
        units = (place.stretch(loss),)
    if place is not None or descent.narrowing < 1.0:
        loss, units = loss.zoomed(descent.narrowing), (*units, unit * descent.narrowing)
    coordinates = learn(descent.learning, shape, curator)
    transform = bounded(shape, _white(coordinates, settings), descent.limit)
    belief = _believed(settings.prior, unit * transform, coordinates.free)
    bends = partial(mean_bends, loss, free=coordinates.free)
    cut_bends = partial(bends, cut=descent.clip, consistent=descent.consistent)
    mechanism, rows = descent.gradient, shape.n_samples * shape.max_weight
    assert mechanism.query is not None
    at, norms = curator.fix(mechanism.query, transform), np.zeros(descent.iterations)
    wider, cautious, steep, before = 1.0, _CAUTIOUS, 1.0, np.zeros(shape.dim)
    deviation = mechanism.stddev / rows
    # How dense residuals are at their minimum is a guess; what is not noise corrects it.
    clear = _STANDS_OUT * deviation * math.sqrt(shape.dim) if place is not None else math.inf
    for step in range(descent.iterations):
        w = unit * (transform @ belief.mean)
        gradient = curator.release(mechanism, at, w, *units) / rows
        norms[step] = np.linalg.norm(gradient)
        if before @ gradient < -0.5 * norms[step - 1] * norms[step]:  # the step went too far
            cautious *= 2.0
            steep *= 2.0 if min(norms[step - 1], norms[step]) > clear else 1.0
        before = gradient
        belief, factor = belief.told(gradient, deviation, cut_bends, steep, cautious)
        wider *= factor
    weights = unit * (transform @ belief.mean)
    if descent.level is not None:
        size = unit * descent.narrowing
        weights = descent.level.settled(weights, shape, curator, unit, size, None)
    covariance = None
    if shape.dim <= MAX_COVARIANCE_DIM:
        # Minimizers of so many rows of one population differ, too.
        rest = np.linalg.inv(bends(belief.mean, cut=1.0, consistent=False)) / shape.n_samples
        covariance = unit**2 * transform @ (belief.covariance + rest) @ transform.T
    return Outcome(
        weights,
        {"wider": np.array(wider), "gradient_norm": norms},
        dp_whitened_gd.lengths_told(shape, coordinates.columns),
        covariance,
    )


def _white(coordinates: Coordinates, settings: RefitSettings) -> Matrix:
    """The transform to coordinates in which rows are white, of what this run and the prior know.

    A private fit's precision is as the second moments of its rows, up to a factor.
    """
    transform, anchored = coordinates.transform, coordinates.anchor is not None
    earlier, now = settings.prior_rows_per_weight**2, settings.rows_per_weight**2
    moments = transform.T @ np.linalg.inv(settings.prior.covariance) @ transform
    moments /= moments[-1, -1] if anchored else np.trace(moments) / len(moments)
    moments = (now * np.eye(len(moments)) + earlier * moments) / (now + earlier)
    # The change is triangular, so that the constant coordinate, which is the last, stays as it is.
    upper = np.linalg.cholesky(moments[::-1, ::-1])[::-1, ::-1]
    found: Matrix = transform @ np.linalg.inv(upper).T
    return found


def _believed(prior: Coefficients, transform: Matrix, free: int) -> _Belief:
    """The prior in the coordinates; an earlier fit's less certain: nobody knows what changed."""
    back = np.linalg.inv(transform)
    mean: Vector = np.asarray(back @ prior.w, dtype=np.float64)
    covariance: Matrix = back @ prior.covariance @ back.T
    if prior.rows_per_weight > 0.0:
        moved = (_MOVED * float(np.linalg.norm(mean[:free]))) ** 2 / max(1, free)
        covariance = _FORGOTTEN * covariance + moved * np.eye(len(mean))
    return _Belief(mean, covariance, free)


@dataclass(frozen=True, eq=False)
class _Belief:
    """Where the minimum is: mean and covariance, in coordinates of which some are not constant."""

    mean: Vector
    covariance: Matrix
    free: int

    def told(
        self,
        gradient: Vector,
        deviation: float,
        bends: Callable[[Vector], Matrix],
        steep: float,
        cautious: float,
    ) -> tuple[_Belief, float]:
        """What is believed after a mean gradient at the mean, with noise of this deviation.

        And the factor by which the covariance had to be widened, so that it explains the gradient.
        The loss bends `steep` times as much as was guessed.
        """
        found, wider = self._weighed(gradient, deviation, steep * bends(self.mean))
        if wider > _WRONG:
            # Where margins are far off the loss hardly bends, and steps would lead anywhere.
            nothing = PRIOR_EFFECT**2 * np.eye(len(gradient))
            return replace(self, mean=np.zeros_like(self.mean), covariance=nothing), wider
        if wider > 1.0:
            # The minimum is far, and the loss bends most where margins are 0.
            constant = self.mean.copy()
            constant[: self.free] = 0.0
            found, wider = self._weighed(gradient, deviation, cautious * steep * bends(constant))
        astray = _ASTRAY**2 * float(np.mean((found.mean - self.mean) ** 2))
        return replace(found, covariance=found.covariance + astray * np.eye(len(gradient))), wider

    def _weighed(self, gradient: Vector, deviation: float, bends: Matrix) -> tuple[_Belief, float]:
        """The same for one guess of how the loss bends: Kalman's update."""
        spread = self.covariance @ bends
        values, vectors = np.linalg.eigh(bends @ spread)
        values = np.maximum(values, 0.0) / deviation**2
        told, wider = vectors.T @ gradient / deviation, 1.0
        most = _STANDS_OUT * len(told) + _BY_CHANCE
        while wider < _WIDEST and np.sum(told**2 / (1.0 + wider * values)) > most:
            wider *= _WIDER
        shares = 1.0 / (1.0 + wider * values)
        gain = (wider * spread @ vectors * shares) @ vectors.T / deviation**2
        mean: Vector = self.mean - gain @ gradient
        # Joseph's form, which stays positive whatever is rounded.
        left = np.eye(len(gradient)) - gain @ bends
        covariance: Matrix = wider * left @ self.covariance @ left.T
        covariance += deviation**2 * gain @ gain.T
        return replace(self, mean=mean, covariance=covariance), wider
