"""Fits that begin with known coefficients, such as an earlier fit's: see :func:`run_refit`.

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
from dpfast.queries import CandidateLosses
from dpfast.shape import ProblemShape
from dpfast.solvers import dp_whitened_gd
from dpfast.solvers._contract import Outcome, Plan, check_supported
from dpfast.solvers._coordinates import learn
from dpfast.solvers._whitened_descent import Settings, descend, flat_noise
from dpfast.solvers.dp_whitened_gd import MOST_KNOWN

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_CHOICE = "loss of the prior"
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
# Deviations of the noise by which zero must be better than known coefficients.
_DROPPED = 2.0
# Mean curvature of a loss over its largest, roughly.
_BENT = 0.6


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


def _loss_clip(shape: ProblemShape) -> float:
    """Where losses of a row are cut."""
    return _LOSS_CLIP * min(shape.loss.at_zero, shape.loss.lipschitz)


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
    check_shape(shape, budget, neighboring_relation)
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
    spread = dp_whitened_gd.learn_place(descent, curator)
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
