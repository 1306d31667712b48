r"""Newton steps in learned coordinates, for estimates with a covariance.

Whitened descent (:mod:`dpfast.solvers.dp_whitened_gd`) fits best where its answer is shrunk and its
steps are few; what it hands back has no known law.  This solver spends its budget on an estimate
whose law is known:

1. coordinates ``z = Wᵀ x̃`` are learned, as there, after counts of where the columns' entries are,
   if there are rows enough and an intercept; for the logistic loss and those with a log link
   a rough descent is made in them, and a first curvature released, which tells the coordinates
   ``H`` in which the curvature is nearly the identity, and the metric ``G`` in which scores are
   bounded;
2. scores are released three times, each at the estimate that those before it give, drawn to where
   they began as far as noise asks for it, and the curvature ``K`` before the last;
3. the estimate is one Newton step from the mean of the points, with the mean score: its noise is
   linear in that of the scores, whose law is public.

Residuals, of the squared loss and of Huber's, are bounded by the targets' range at first.  Before
the second and the third score their sizes are counted, and from then on they are cut beyond the
largest size that stands out of the noise, with room to spare; Huber's at its threshold, if that is
less.  Scores are as much less noisy as that scale is below the range.  One that cut residuals, or
slopes, as large as stood out later is left out of the mean.

Slopes of losses with a log link (counts, costs, durations) have one long tail, a score of a large
target.  Targets are counted for the mean, where the descent begins; sizes of slopes are counted
there and before the last score.  A lognormal tail that is fitted to the counts tells where to cut:
so far out that the mean of what is cut off is small beside the error of the intercept.

Rows are weighted by functions of the row alone (:mod:`dpfast.queries.estimating`), so that nothing
is clipped by its target.  The estimand is the minimizer of the loss so weighted: rows of much
leverage count less.  Where the model holds it is the model's coefficients; where it does not, it is
another projection than the one without weights.  Residuals make more of that than labels, whose
slopes are small where the fit is sure: for single rows with residuals, lengths are counted first,
and scores reach farther where long rows would lose so much weight that it is worth the noise.

With n rows, the covariance of the estimate in the coordinates is

    ``K⁻¹ (J / n + N) K⁻¹``,

N that of the mean score's noise, and J the products of the scores: released (``cov_type="robust"``,
or ``"cluster"`` where a record is a group of rows) or what the model says of them
(``"nonrobust"``): K for the logistic loss, and K times the mean square of the slopes over their
mean curvature, which are released, for the others: with a log link a dispersion, as in
quasi-likelihood.  Where J is released, it is drawn to the shape of K as far as its noise asks for
it (James & Stein), so that sums of weights have errors, too; and its noise makes variances
uncertain: they are made larger by what makes intervals of 95% hold for all that.

Groups.  Where a record is a group of several rows, all of the above is over groups: n is their
number, a group's scores are added up before they are multiplied, and a group counts less if its
rows together could have too large a score.  Their sizes are counted first, and rows count one over
the mean size.  A descent releases the same scores as the steps.

What is not believed.  A coefficient's variance is refused, by what was released alone, where

* more than a twentieth of it, of residuals a fiftieth, comes from directions whose curvature does
  not stand out of the noise: the others are those of the model without these;
* the margins of the rows that determine it would move by more than the curvature bears, of
  residuals past where they are cut, when the coefficient moves by what the interval allows, or did
  move in the last steps;
* the mean is an exponential, of margins that differ by more than the bound of a row's curvature
  bears, or that moved so far that a linear step misses what they bend, by half of the estimates'
  errors if rows are normal in the coordinates, or whose mean score was not small beside the
  scores: slopes that are all cut lead nowhere;
* it is the intercept's, and another hides so, or half of its error may be missing: by that bend, or
  by the residuals that are cut, if the largest are on one side;
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

from dpfast._typing import Vector
from dpfast._validation import check_choice, check_real
from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian, Query
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, records_apart
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import (
    ColumnParts,
    CoordinateGradient,
    Gram,
    GroupSizes,
    ResidualSizes,
    RowLengths,
    ScoreProducts,
    SquaredSlopes,
    TargetSizes,
    WeightedCurvature,
    WeightedScores,
)
from dpfast.queries.estimating import scaled, scales, served, stack_limit
from dpfast.shape import ProblemShape
from dpfast.solvers import (
    _column_ranges,
    _estimation,
    _estimation_coordinates,
    _groups,
    _seconds,
)
from dpfast.solvers._column_ranges import ColumnRanges
from dpfast.solvers._contract import Outcome, Plan, Solver, check_alpha, check_shape
from dpfast.solvers._coordinates import declared
from dpfast.solvers._shares import Release, releases

NAME = "dp-newton"

#: The last for groups of rows, the others for single rows.
COV_TYPES = ("robust", "nonrobust", "cluster")
#: Rows behind one weight, times µ, over the root of the weights' number: below this intervals did
#: not hold what they promise (docs/guide/standard_errors.md).
LEAST_RATIO = 45.0
MAX_DIM = 1000

# Shares of the budget in units of µ²; what is left goes to the scores.
_SHARES = {"columns": 0.03, "correlations": 0.10, "curvature": 0.10}
_LOGISTIC_SHARES = {"descent": 0.08, "first curvature": 0.08}
_RESIDUAL_SHARES, _LENGTHS = {"sizes of residuals": 0.05}, {"lengths": 0.01}
_LOG_LINK_SHARES = {"counts": 0.02, "sizes of residuals": 0.08} | _LOGISTIC_SHARES
_PRODUCTS, _RESIDUALS = {"products": 0.06}, {"residuals": 0.01}
_GROUPS = {"sizes of groups": _groups.SIZES_SHARE}
# Rounds in which columns are learned; how the correlations' share is divided.
_ROUNDS, _CORRELATION_PARTS = 3, (0.4, 0.6)
# Steps of the descent, and how far its gradients reach over the root of the weights' number.
_STEPS, _DESCENT_CLIP = 12, 0.75
# Rows' curvatures are bounded by this, times the number of weights, in units of the mean's; by more
# where there are so many rows, times µ, for each unit, and at most so much: of the first curvature,
# and of the second, which grows later, and farther.  What it cuts off the few rows that have most
# of the curvature along a weight makes its steps too long, its interval wide; rows of residuals,
# where no first curvature brings back what the coordinates stretched too far, lose weight for it.
_CURVATURE_REACH = 4.0
_HEARD_FIRST, _HEARD = (15.0, 12.0), (60.0, 25.0)
# Part of a stack's reach that the coordinates may have.
_COORDINATES = 0.25
# A forecast for residuals is for deviations of this share of the scale that they are cut at.
_RESIDUAL = 0.28
# Margins of a log link bend sooner than those of labels: their curvature is as large as the mean.
_LOG_LINK_BEND = 0.7
# And with a log link, whose residuals have one long tail.
_LONG_TAIL = 0.14
# What is asked once, if it has a share; its query, and its name in the ledger.
_ASKED_ONCE: tuple[tuple[str, Callable[..., Query], str], ...] = (
    ("counts", TargetSizes, "targets"),
    ("lengths", RowLengths, "lengths"),
    ("products", ScoreProducts, "products of scores"),
    ("residuals", SquaredSlopes, "squared residuals"),
)


@dataclass(frozen=True, kw_only=True)
class Mechanisms:
    """What a run asks for; see the module."""

    groups: Gaussian | None = None
    ranges: ColumnRanges | None = None
    columns: tuple[Gaussian, ...]
    correlations: tuple[Gaussian, ...]
    counts: Gaussian | None = None
    gradient: Gaussian | None = None
    first_curvature: Gaussian | None = None
    lengths: Gaussian | None = None
    sizes: Gaussian | None = None
    scores: tuple[Gaussian, ...]
    curvature: Gaussian
    products: Gaussian | None = None
    residuals: Gaussian | None = None

    def in_order(self, course: _estimation.Course) -> tuple[tuple[Gaussian, int], ...]:
        """The accesses as they are made, and how often."""
        asked: list[tuple[Gaussian | None, int]] = [(self.groups, 1)]
        if self.ranges is not None:
            asked += [(self.ranges.histogram, self.ranges.rounds), (self.ranges.long_rows, 1)]
        asked += [(mechanism, 1) for mechanism in (*self.columns, *self.correlations)]
        if self.counts is not None:
            asked += [(self.counts, 1), (self.sizes, 1)]
        asked += [(self.gradient, _STEPS), (self.first_curvature, 1), (self.lengths, 1)]
        for k, score in enumerate(self.scores):
            asked += [(self.sizes, 1)] * (k in course.sized_at)
            asked += [(self.curvature, 1)] * (k == course.curvature_at)
            asked.append((score, 1))
        asked += [(self.products, 1), (self.residuals, 1)]
        return tuple((mechanism, count) for mechanism, count in asked if mechanism is not None)


@dataclass(frozen=True)
class Settings:
    """What a run follows; the numbers are those of :func:`plan` or derived from them."""

    mechanisms: Mechanisms
    course: _estimation.Course
    shares: Mapping[str, float]
    cov_type: str
    column_bound: float
    clip: float
    price: float
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
        Of the logistic, the squared or Huber's loss, or of one with a log link.
    budget : Budget
        Not pure.
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss, which belongs to the estimand then.  None takes that of `shape`, or
        "auto", which is none.
    cov_type : {"robust", "nonrobust", "cluster"}, default="robust"
        Whether the products of scores are released, or the covariance trusts the model: its mean
        and variance for the logistic loss; equal variances of the residuals for the others.  Where
        a record is a group of rows it is "cluster": products of whole groups' scores.
    column_bound : float or None, default=None
        Public bound of the entries of the rows, 1 for columns scaled to [-1, 1]; None: 1 where the
        columns were declared, otherwise that of the rows' norms.  It tells rare values from noise;
        no guarantee rests on it.
    clip : float or "auto"
        Scores are no longer than ``clip √dim`` in coordinates in which a row's typical entry is 1.
        Automatic: by the plan, and for residuals of single rows farther, up to 3, where rows are
        long.

    Returns
    -------
    Plan
        Its expectations: `width_ratio`, the width of an interval over that without privacy, for
        balanced classes, or normal residuals, and for groups whose rows are alike;
        `rows_for_coverage`, the rows, or groups of them, from which on intervals hold.  Its
        settings have the `shares` of the budget.
    """
    _check_served(shape)
    _check_cov_type(shape, cov_type)
    ridge = check_alpha(alpha, shape)
    bound = 1.0 if shape.columns else shape.data_norm
    if column_bound is not None:
        bound = check_real("column_bound", column_bound, low=0.0, low_open=True, high=1e100)
    mu = budget_mu(budget, accountant)
    by_row = mu / records_apart(neighboring_relation)
    adaptive = clip == "auto"
    if adaptive:
        clip = automatic_clip(shape, by_row)
    clip = check_real("clip", clip, low=0.0, low_open=True, high=1e100)
    course = _course(shape.loss)
    a_round = range_round(shape, by_row)
    shares = shares_of(shape, cov_type, adaptive, a_round)
    ratio = width_ratio(shape, clip, by_row, shares["scores"])

    release = releases(mu, neighboring_relation)
    mechanisms = _mechanisms(shape, shares, course, clip, by_row, release, a_round)
    accesses = mechanisms.in_order(course)
    looks = sum(count for _, count in accesses)
    return Plan(
        solver=NAME,
        shape=shape.with_alpha(ridge),
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=accesses,
        settings=Settings(
            mechanisms=mechanisms,
            course=course,
            shares=MappingProxyType(shares),
            cov_type=cov_type,
            column_bound=min(bound, shape.data_norm),
            clip=clip,
            price=(ratio**2 - 1.0) / clip**2,
            limit=stack_limit(shape),
            ridge=ridge or 0.0,
        ),
        expected={
            "width_ratio": ratio,
            "rows_for_coverage": rows_for_coverage(shape, by_row),
            "seconds": _seconds.preparation(shape)
            + _seconds.whitening(shape, _ROUNDS, True)
            + looks * (_seconds.gradient(shape) + _seconds.release(shape.dim)),
        },
    )


def _numeric(shape: ProblemShape) -> NDArray[np.intp]:
    """The columns whose ranges may be far too wide; none without an intercept to center them."""
    if shape.intercept == 0.0:
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero(~declared(shape, "one-hot", "binary"))


def range_round(shape: ProblemShape, mu: float) -> float:
    """Share of the budget of one round of the columns' ranges; 0 if rows are too few."""
    return _column_ranges.share(shape.n_samples * mu, len(_numeric(shape)))


def shares_of(
    shape: ProblemShape, cov_type: str, adaptive: bool = True, a_round: float = 0.0
) -> dict[str, float]:
    """Shares of the budget in units of µ², which add up to 1; `adaptive` if lengths are counted."""
    shares = _SHARES | (_RESIDUAL_SHARES if shape.loss.even else _LOGISTIC_SHARES)
    if shape.loss.log_link:
        shares |= _LOG_LINK_SHARES
    if shape.several_rows:
        shares |= _GROUPS
    elif scaled(shape.loss) and adaptive:
        shares |= _LENGTHS
    if cov_type != "nonrobust":
        shares |= _PRODUCTS
    elif scaled(shape.loss):
        shares |= _RESIDUALS
    if a_round > 0.0:
        shares["ranges"] = _column_ranges.cost(_column_ranges.ROUNDS, a_round)
    return {**shares, "scores": 1.0 - sum(shares.values())}


def automatic_clip(shape: ProblemShape, mu: float) -> float:
    """The larger the signal, the fewer rows are to count less."""
    signal = shape.n_samples * mu**2 / shape.dim
    clip: float = min(3.0, max(1.15, 0.62 * signal ** (1.0 / 6.0)))
    return clip


def width_ratio(shape: ProblemShape, clip: float, mu: float, share: float) -> float:
    """What noise makes of the intervals' width: that of the scores, and as a guess 40% more."""
    spread = 0.75 * 0.25
    if scaled(shape.loss):
        spread = (_LONG_TAIL if shape.loss.log_link else _RESIDUAL) ** 2
    noise = shape.dim * clip**2 / (share * shape.n_samples * mu**2)
    return math.sqrt(1.0 + 1.4 * noise / spread)


def rows_for_coverage(shape: ProblemShape, mu: float) -> float:
    """Rows from which on intervals hold what they promise."""
    return float(math.ceil(LEAST_RATIO * float(shape.dim) ** 1.5 / mu))


def _mechanisms(
    shape: ProblemShape,
    shares: Mapping[str, float],
    course: _estimation.Course,
    clip: float,
    mu: float,
    release: Release,
    a_round: float,
) -> Mechanisms:
    """All of them, calibrated."""
    root, limit = math.sqrt(shape.dim), stack_limit(shape)
    within, radius = _COORDINATES * limit, clip * root
    # In units of the mean curvature: the more rows, the longer ones are to be heard.
    heard = mu * shape.n_samples / shape.dim**1.5
    first_bound, bound = (
        shape.dim * min(farthest, max(_CURVATURE_REACH, heard / each))
        for each, farthest in (_HEARD_FIRST, _HEARD)
    )
    reach = _estimation_coordinates.REACH * root

    asked: dict[str, Gaussian] = {
        name: release(shares[name], query(shape, radius, bound, limit), where)
        for name, query, where in _ASKED_ONCE
        if name in shares
    }
    if "sizes of groups" in shares:
        asked["groups"] = release(shares["sizes of groups"], GroupSizes(shape), "sizes of groups")
    ranges = None
    if a_round > 0.0:
        rounds = _column_ranges.ROUNDS
        ranges = _column_ranges.planned(shape, _numeric(shape), rounds, a_round, release)
    if "sizes of residuals" in shares:
        looks = len(course.sized_at) + ("counts" in shares)
        sizes = ResidualSizes(shape, radius, bound, limit)
        asked["sizes"] = release(shares["sizes of residuals"] / looks, sizes, "sizes of residuals")
    if "descent" in shares:
        descent: Query = CoordinateGradient(shape, _DESCENT_CLIP * root, within)
        if shape.several_rows or shape.loss.log_link:
            descent = WeightedScores(shape, _DESCENT_CLIP * root, bound, limit)
        asked["gradient"] = release(shares["descent"] / _STEPS, descent, "gradient")
        first = WeightedCurvature(shape, radius, first_bound, limit)
        asked["first_curvature"] = release(shares["first curvature"], first, "first curvature")
    return Mechanisms(
        **asked,
        ranges=ranges,
        columns=tuple(
            release(shares["columns"] / _ROUNDS, ColumnParts(shape, length, n_classes=0), "columns")
            for length in (root, *[reach] * (_ROUNDS - 1))
        ),
        correlations=tuple(
            release(part * shares["correlations"], Gram(shape, reach, within), "correlations")
            for part in _CORRELATION_PARTS
        ),
        scores=tuple(
            release(part * shares["scores"], WeightedScores(shape, radius, bound, limit), "scores")
            for part in course.parts
        ),
        curvature=release(
            shares["curvature"], WeightedCurvature(shape, radius, bound, limit), "curvature"
        ),
    )


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Learn coordinates, take Newton steps, and work out the covariance.

    The history has the `covariance` of the weights, what of it would be left without noise,
    `sampling`, and for each weight why its variance is `refused`: 0 if it is not, 1 where
    directions hide in the noise, 2 where margins move too far, 3 for the rest where more than three
    quarters are refused, 4 for an intercept that residuals which are cut may move.
    """
    settings, shape, asked = plan.settings, plan.shape, plan.settings.mechanisms
    part = 1.0
    if asked.groups is not None:
        part = (shape.max_rows_per_group or 1) / _groups.learned_sizes(asked.groups, curator).mean
    columns = _estimation_coordinates.learn_columns(
        shape, settings.column_bound, asked.ranges, asked.columns, curator
    )
    transform = _estimation_coordinates.learn_transform(
        shape, columns, settings.clip, asked.correlations, curator, _COORDINATES * settings.limit
    )
    pull = settings.ridge * transform.T @ transform
    ask = _estimation.Asking(shape, curator, transform, settings.limit, pull, part)
    start, cut = _estimation.Start(ask, asked.gradient), _largest_scale(shape)
    v = _begun(start, asked, shape, cut)
    steps = start.frame(v, asked.first_curvature)
    if asked.lengths is not None:
        steps.reach(asked.lengths, settings.clip, settings.price)
    found = steps.walk(v, settings.course, asked.scores, asked.curvature, asked.sizes, cut)
    spread = steps.spread(found, asked.products, asked.residuals)
    covariance, sampling = steps.covariance(found, spread, asked.products)
    peaks = np.append(2.0 * columns.height, np.full(shape.dim - shape.n_features, shape.intercept))
    bend = _LOG_LINK_BEND if shape.loss.log_link else found.scale
    refused = steps.refused(found, covariance, spread, peaks, bend, settings.course.hidden)
    history = {"covariance": covariance, "sampling": sampling, "refused": refused}
    return Outcome(transform @ found.v, history)


def _begun(start: _estimation.Start, asked: Mechanisms, shape: ProblemShape, cut: float) -> Vector:
    """Where the steps begin: residuals at zero weights, others where a descent ends."""
    v, curvature, steps = np.zeros(shape.dim), shape.loss.smoothness, _STEPS
    if asked.gradient is None:
        return v
    if asked.counts is not None and asked.sizes is not None:
        v, curvature = start.at_mean(
            asked.counts, asked.sizes, cut, asked.scores[-1].stddev / shape.n_samples
        )
    elif shape.intercept != 0.0:
        (v, curvature), steps = start.at_rate(), steps - 1
    return start.descend(v, curvature, steps)


def _course(loss: Loss) -> _estimation.Course:
    """Of the steps."""
    if loss.log_link:
        return _estimation.LOG_LINK
    return _estimation.RESIDUALS if loss.even else _estimation.LOGISTIC


def refusal(loss: Loss) -> str | None:
    """What a loss lacks for the method, or None if it will do."""
    if served(loss):
        return None
    return "'logistic', 'squared' or 'huber', or have a log link"


def _largest_scale(shape: ProblemShape) -> float:
    """Where slopes are cut at most."""
    loss, (_, largest) = shape.loss, scales(shape)
    return min(largest, loss.parameter or largest) if loss.even else largest


def _check_cov_type(shape: ProblemShape, cov_type: str) -> None:
    """Refuse what is for single rows where groups have several, and the other way round."""
    check_choice("cov_type", cov_type, COV_TYPES)
    if shape.several_rows and cov_type != "cluster":
        raise ValueError(
            "cov_type must be 'cluster' where a group has several rows, which are not independent; "
            f"got {cov_type!r}."
        )
    if cov_type == "cluster" and shape.unit == "row":
        raise ValueError(
            "groups must be given for cov_type='cluster', to say whose row each is; got none. The "
            "guarantee is then for whole groups, too."
        )


def _check_served(shape: ProblemShape) -> None:
    """Refuse other losses, and more columns than a matrix is worth."""
    check_shape(NAME, shape, refusal(shape.loss), MAX_DIM, "Choose fewer, beforehand.")
    least, _ = scales(shape)
    if shape.loss.even and _largest_scale(shape) < least:
        raise ValueError(
            f"threshold must be at least {least:g} for {NAME}, in units of half the targets' "
            f"range; got {shape.loss.parameter:g}. Narrower bounds of the targets make it larger."
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
    any_rows_per_group=True,
    minimizes=False,
    expects="width_ratio",
    max_dim=MAX_DIM,
    refusal=refusal,
)
