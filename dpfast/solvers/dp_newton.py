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
  coefficient moves by what the interval allows, or did move in the last steps;
* more than three quarters of all coefficients are refused.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_choice, check_real
from dpfast.curator import Curator
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
)
from dpfast.queries.estimating import served, stack_limit
from dpfast.shape import ProblemShape
from dpfast.solvers import _coordinates, _estimation, _seconds
from dpfast.solvers._contract import Outcome, Plan, Solver

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NAME = "dp-newton"

COV_TYPES = ("robust", "nonrobust")
#: Rows behind one weight, times µ, over the root of the weights' number: below this intervals did
#: not hold what they promise (docs/guide/standard_errors.md).
LEAST_RATIO = 45.0
MAX_DIM = 1000

# Shares of the budget in units of µ²; what is left goes to the scores.
_SHARES = {"columns": 0.04, "correlations": 0.12, "curvature": 0.10}
_LOGISTIC_SHARES = {"descent": 0.10, "first curvature": 0.08}
_PRODUCTS, _RESIDUALS = {"products": 0.08}, {"residuals": 0.01}
# Rounds in which columns are learned; how the correlations' share is divided.
_ROUNDS, _CORRELATION_PARTS = 3, (0.4, 0.6)
# Steps of the descent, and how far its gradients reach over the root of the weights' number.
_STEPS, _DESCENT_CLIP = 12, 0.75
# Rows' curvatures are bounded by this, times the number of weights, in units of the mean's.
_CURVATURE_REACH = 4.0
# Part of a stack's reach that the coordinates may have.
_COORDINATES = 0.25
# A forecast for the squared loss is for residuals of this size, the targets being in [-1, 1].
_RESIDUAL = 0.25


@dataclass(frozen=True)
class Mechanisms:
    """What a run asks for; see the module."""

    columns: tuple[Gaussian, ...]
    correlations: tuple[Gaussian, ...]
    gradient: Gaussian | None
    first_curvature: Gaussian | None
    scores: tuple[Gaussian, ...]
    curvature: Gaussian
    products: Gaussian | None
    residuals: Gaussian | None

    def in_order(self, course: _estimation.Course) -> tuple[tuple[Gaussian, int], ...]:
        """The accesses as they are made, and how often."""
        first = [(mechanism, 1) for mechanism in (*self.columns, *self.correlations)]
        if self.gradient is not None and self.first_curvature is not None:
            first += [(self.gradient, _STEPS), (self.first_curvature, 1)]
        steps = [(score, 1) for score in self.scores]
        steps.insert(course.curvature_at, (self.curvature, 1))
        last = [(m, 1) for m in (self.products, self.residuals) if m is not None]
        return (*first, *steps, *last)


@dataclass(frozen=True)
class Settings:
    """What a run follows; the numbers are those of :func:`plan` or derived from them."""

    mechanisms: Mechanisms
    course: _estimation.Course
    shares: Mapping[str, float]
    cov_type: str
    column_bound: float
    clip: float
    limit: float
    ridge: float


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    cov_type: str = "robust",
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
    cov_type : {"robust", "nonrobust"}, default="robust"
        Whether the products of scores are released, or the covariance trusts the model: its mean
        and variance for the logistic loss; equal variances of the residuals for the squared one.
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
        rows from which on intervals hold.  Its settings have the `shares` of the budget.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or the loss is another one.
    """
    _check_served(shape)
    if alpha is None:
        alpha = shape.alpha if shape.alpha is not None else "auto"
    ridge = 0.0 if alpha == "auto" else check_real("alpha", alpha, low=1e-100, high=1e100)
    check_choice("cov_type", cov_type, COV_TYPES)
    bound = shape.data_norm
    if column_bound is not None:
        bound = check_real("column_bound", column_bound, low=0.0, low_open=True, high=1e100)
    mu = budget_mu(budget, accountant)
    by_row = mu / records_apart(neighboring_relation)
    reach = automatic_clip(shape, by_row)
    if clip != "auto":
        reach = check_real("clip", clip, low=0.0, low_open=True, high=1e100)
    course = _estimation.SQUARED if shape.loss.quadratic else _estimation.LOGISTIC
    shares = shares_of(shape.loss, cov_type)

    def release(share: float, query: Query, where: str) -> Gaussian:
        part = Budget(mu=mu * math.sqrt(share))
        return Gaussian.calibrate(part, query, neighboring_relation, where=where)

    mechanisms = _mechanisms(shape, shares, course, reach, by_row, release)
    accesses = mechanisms.in_order(course)
    looks = sum(count for _, count in accesses)
    return Plan(
        solver=NAME,
        shape=shape if alpha == "auto" else shape.with_alpha(ridge),
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=accesses,
        settings=Settings(
            mechanisms=mechanisms,
            course=course,
            shares=MappingProxyType(shares),
            cov_type=cov_type,
            column_bound=min(bound, shape.data_norm),
            clip=reach,
            limit=stack_limit(shape),
            ridge=ridge,
        ),
        expected=MappingProxyType(
            {
                "width_ratio": width_ratio(shape, reach, by_row, shares["scores"]),
                "rows_for_coverage": rows_for_coverage(shape, by_row),
                "seconds": _seconds.preparation(shape)
                + _seconds.whitening(shape, _ROUNDS, True)
                + looks * (_seconds.gradient(shape) + _seconds.release(shape.dim)),
            }
        ),
    )


def shares_of(loss: Loss, cov_type: str) -> dict[str, float]:
    """Shares of the budget in units of µ², which add up to 1."""
    shares = dict(_SHARES) if loss.quadratic else {**_SHARES, **_LOGISTIC_SHARES}
    if cov_type == "robust":
        shares |= _PRODUCTS
    elif loss.quadratic:
        shares |= _RESIDUALS
    return {**shares, "scores": 1.0 - sum(shares.values())}


def automatic_clip(shape: ProblemShape, mu: float) -> float:
    """The larger the signal, the fewer rows are to count less; residuals reach beyond 1."""
    signal = shape.n_samples * mu**2 / shape.dim
    clip: float = min(3.0, max(1.15, 0.62 * signal ** (1.0 / 6.0)))
    return 1.5 * clip if shape.loss.quadratic else clip


def width_ratio(shape: ProblemShape, clip: float, mu: float, share: float) -> float:
    """What noise makes of the intervals' width: that of the scores, and as a guess 40% more."""
    spread = _RESIDUAL**2 if shape.loss.quadratic else 0.75 * 0.25
    noise = shape.dim * clip**2 / (share * shape.n_samples * mu**2)
    ratio: float = math.sqrt(1.0 + 1.4 * noise / spread)
    return ratio


def rows_for_coverage(shape: ProblemShape, mu: float) -> float:
    """Rows from which on intervals hold what they promise."""
    return float(math.ceil(LEAST_RATIO * float(shape.dim) ** 1.5 / mu))


def _mechanisms(
    shape: ProblemShape,
    shares: Mapping[str, float],
    course: _estimation.Course,
    clip: float,
    mu: float,
    release: Callable[[float, Query, str], Gaussian],
) -> Mechanisms:
    """All of them, calibrated."""
    root, limit = math.sqrt(shape.dim), stack_limit(shape)
    within, radius, bound = _COORDINATES * limit, clip * root, _CURVATURE_REACH * shape.dim
    reach = _coordinates.REACH * root

    gradient = first = products = residuals = None
    if "descent" in shares:
        descent = CoordinateGradient(shape, _DESCENT_CLIP * root, within)
        gradient = release(shares["descent"] / _STEPS, descent, "gradient")
        # In units of the mean curvature: the more rows, the longer ones are to be heard.
        most = shape.dim * min(12.0, max(4.0, mu * shape.n_samples / shape.dim**1.5 / 15.0))
        preview = WeightedCurvature(shape, radius, most, limit)
        first = release(shares["first curvature"], preview, "first curvature")
    if "products" in shares:
        squares = ScoreProducts(shape, radius, bound, limit)
        products = release(shares["products"], squares, "products of scores")
    if "residuals" in shares:
        slopes = SquaredSlopes(shape, radius, bound, limit)
        residuals = release(shares["residuals"], slopes, "squared residuals")
    return Mechanisms(
        columns=tuple(
            release(shares["columns"] / _ROUNDS, ColumnShapes(shape, length), "columns")
            for length in (root, *[reach] * (_ROUNDS - 1))
        ),
        correlations=tuple(
            release(part * shares["correlations"], Gram(shape, reach, within), "correlations")
            for part in _CORRELATION_PARTS
        ),
        gradient=gradient,
        first_curvature=first,
        scores=tuple(
            release(part * shares["scores"], WeightedScores(shape, radius, bound, limit), "scores")
            for part in course.parts
        ),
        curvature=release(
            shares["curvature"], WeightedCurvature(shape, radius, bound, limit), "curvature"
        ),
        products=products,
        residuals=residuals,
    )


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Learn coordinates, take Newton steps, and work out the covariance.

    Returns
    -------
    Outcome
        Its history has the `covariance` of the weights, what of it would be left without noise,
        `sampling`, and for each weight why its variance is `refused`: 0 if it is not, 1 where
        directions hide in the noise, 2 where margins move too far, 3 for the rest where more than
        three quarters are refused.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford a release; its data is not touched.
    """
    settings, shape, asked = plan.settings, plan.shape, plan.settings.mechanisms
    columns = _coordinates.learn_columns(shape, settings.column_bound, asked.columns, curator)
    transform = _coordinates.learn_transform(
        shape, columns, settings.clip, asked.correlations, curator, _COORDINATES * settings.limit
    )
    pull = settings.ridge * transform.T @ transform
    start = _estimation.Start(_estimation.Asking(shape, curator, transform, settings.limit, pull))
    v = np.zeros(shape.dim)
    if asked.gradient is not None:
        v = start.descend(asked.gradient, _STEPS)
    steps = start.frame(v, asked.first_curvature)
    found = steps.walk(v, settings.course, asked.scores, asked.curvature)
    spread = steps.spread(found, asked.products, asked.residuals)
    covariance, sampling = steps.covariance(found, spread)
    peaks = np.append(2.0 * columns.height, np.full(shape.dim - shape.n_features, shape.intercept))
    refused = steps.refused(found, covariance, peaks)
    history = {"covariance": covariance, "sampling": sampling, "refused": refused}
    return Outcome(transform @ found.v, MappingProxyType(history))


def refusal(loss: Loss) -> str | None:
    """What a loss lacks for the method, or None if it will do."""
    return None if served(loss) else "'logistic' or 'squared', whose scores have public bounds"


def _check_served(shape: ProblemShape) -> None:
    """Refuse other losses, and more columns than a matrix is worth."""
    reason = refusal(shape.loss)
    if reason is not None:
        raise ValueError(f"loss must be {reason}, for {NAME}; got {shape.loss.name!r}.")
    if shape.unit != "row":
        raise ValueError(
            f"groups must be None for {NAME}, whose covariance is for rows that are independent; "
            "got groups of rows. Give one row a group, or use solver='auto' without inference."
        )
    if shape.dim > MAX_DIM:
        raise ValueError(
            f"X must have at most {MAX_DIM} columns, the intercept's included, for {NAME}, which "
            f"releases a matrix of that size; got {shape.dim}."
        )


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
