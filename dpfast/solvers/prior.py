"""Fits that begin with known coefficients, such as an earlier fit's: see :func:`run_refit`.

Privacy: Gaussian releases, whose noise is fixed beforehand; the rest is post-processing.
docs/priors.md has what it brings, and where it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian
from dpfast.privacy import Budget, affordable
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import CoordinateGradient, bounded
from dpfast.shape import ProblemShape
from dpfast.solvers import dp_whitened_gd
from dpfast.solvers._contract import Outcome, Plan, check_supported
from dpfast.solvers._coordinates import Coordinates, entry_bound
from dpfast.solvers._intercept import normal_nodes, probability, share_doubt
from dpfast.solvers._normal_rows import mean_bends
from dpfast.solvers._shares import Release, releases
from dpfast.solvers._target_range import Place
from dpfast.solvers._whitened_descent import PRIOR_EFFECT, Settings, tells_shares, told_of
from dpfast.solvers._whitened_rules import (
    automatic_consistent,
    automatic_narrowing,
    automatic_settings,
    rows_per_weight,
)
from dpfast.solvers.dp_whitened_gd import MAX_COVARIANCE_DIM

# Up to so many gradients, and half of them, are released at the prior's weights, and tell whether
# these are wrong: if their mean is so many deviations longer than chance has it, or the square of
# its part along the weights so many times.
_TRIED, _CHANCE, _CHANCE_ALONG, _CHANCE_LITTLE = 8, 5.0, 12.0, 4.0
# Share of the budget, in units of mu², of the release along the prior's weights: the square of the
# first over rows a weight, but no more than the last, nor than the larger of the third and the
# square of the second over all rows.  Its clip norm, of which little but the side of rows is left;
# and more deviations than this say that the prior's weights are too long.
_FOR_TEST, _ENOUGH_FOR_TEST, _LEAST_FOR_TEST, _MOST_FOR_TEST = 2.5, 25.0, 0.05, 0.35
_TEST_CLIP, _LONG = 0.1, 2.0
# More deviations of its noise than the first say that labels follow the weights less than believed;
# a move whose square in deviations of the belief is beyond the second, that this is wrong.  The
# moves that are considered, in these deviations.
_SEEN, _FARTHEST, _GRID = 2.0, 25.0, np.linspace(-6.0, 6.0, 61)
# What share of their length weights may be too long beside: noise, and what is chance in one sample
# of rows, lengthen those that are right, too.
_STRETCHED = 0.2
# The release is made up to so many rows behind a weight, times µ; more of them tell as well.  From
# the second on a prior is tried if it knows at least these shares of what prior and gradients
# would, on average and in the direction in which it knows least.
_FEW, _AMPLE, _WORTH, _WORTH_LEAST = 30.0, 18.0, 0.2, 0.01
# The variances of margins that are believed in beside coefficients of no fit.
_MODERATE = np.geomspace(1.0, 100.0, 30)
# How far the constant may be from that of a constant prediction, since weights explain labels.
_APART_BY_WEIGHTS = 0.5
# Labels that are more certain than margins of such a deviation are not believed in.
_CERTAIN = 12.0
# A gradient stands out if its square is so many times what is expected, and this more: then
# covariances are widened, in steps of a factor, and the loss is taken to bend more than where it
# bends most.
_STANDS_OUT, _BY_CHANCE, _WIDER, _WIDEST, _CAUTIOUS = 3.0, 10.0, 1.2, 1e6, 1.5
# What share of a step is uncertain, since bends are guesses.
_ASTRAY = 0.5
# What of an earlier fit's rows a weight, times µ, counts; by what its covariance grows; and by what
# share of their length weights are believed to have moved since.
_REMEMBERED, _FORGOTTEN, _MOVED = 0.9, 1.1, 0.05
# An earlier fit to labels with fewer rows a weight, times µ, tells no more than a constant, and its
# covariance is far too small: gradients at its weights lead astray.  Next to a fit with more rows,
# it needs this share of them, and at most so many.
_LEAST_KNOWN, _LEAST_BESIDE, _ENOUGH = 1.8, 0.8, 4.0
# Rows count by the variance of their labels, in full from shares of .21 on.
_AS_HALVES = 6.0


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Weights that are known beforehand, such as those of an earlier fit."""

    w: Vector
    covariance: Matrix  # of what they are wrong by
    rows_per_weight: float  # the u that a fit would need to be as accurate; 0: not known


@dataclass(frozen=True, eq=False)
class RefitSettings:
    """What a fit follows that begins with known coefficients; its numbers are its parts'."""

    prior: Coefficients
    test: Gaussian | None  # the release along the prior's weights
    descent: Settings  # a whitened descent, whose coordinates and gradients these are
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
    if shape.loss.log_link:
        raise ValueError(
            f"prior must be None for a loss with a log link; got one, for {shape.loss.name!r}."
        )
    reason = dp_whitened_gd.refusal(shape.loss)
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
    """Settle a whitened descent, of which some gradients first tell whether a prior is right.

    If it is, the others tell where the minimum is, beside it; if not, the descent is without it.
    """
    check_shape(shape, budget, neighboring_relation, accountant)
    test, left, mu = None, budget, budget_mu(budget, accountant)
    u = rows_per_weight(shape, budget, neighboring_relation, accountant)
    enough = max(_LEAST_FOR_TEST, (_ENOUGH_FOR_TEST / (u * shape.dim)) ** 2)
    share = min(_MOST_FOR_TEST, (_FOR_TEST / u) ** 2, enough)
    # The gradients tell where rows are many; and zeros say nothing of labels.
    tested = shape.loss.multiclass and u < _FEW and prior.w.any()
    if tested:
        left = Budget(mu=mu * math.sqrt(1.0 - share))
    own = shape
    if shape.loss.quantile is not None:
        # A prior's weights are of this quantile, and so are the gradients there.
        own = replace(shape, loss=shape.loss.fixed())
    gradients: int | str = "auto"
    if shape.loss.multiclass:  # those that follow a prior are consistent
        gradients = automatic_settings(u, shape, consistent=True)["iterations"]
    descent = dp_whitened_gd.plan(
        own,
        left,
        neighboring_relation=neighboring_relation,
        accountant=accountant,
        iterations=gradients,
        consistent=automatic_consistent(shape, u),
        narrowing=automatic_narrowing(shape, u),
    )
    if shape.loss.multiclass:
        release = releases(budget_mu(left, accountant), neighboring_relation)
        descent = _choosing(descent, release)
    accesses = list(descent.accesses)
    if tested:
        along = CoordinateGradient(shape, _TEST_CLIP, descent.settings.limit, True, 1)
        test = releases(mu, neighboring_relation)(share, along, "gradient along the prior")
        first = [mechanism for mechanism, _ in accesses].index(descent.settings.gradient)
        accesses.insert(first, (test, 1))
    settings = RefitSettings(
        prior=prior,
        test=test,
        descent=descent.settings,
        rows_per_weight=descent.settings.rows_per_weight,
        prior_rows_per_weight=prior.rows_per_weight,
        iterations=descent.settings.iterations,
        clip=descent.settings.clip,
    )
    return Plan(
        solver=dp_whitened_gd.NAME,
        shape=replace(descent.shape, loss=shape.loss),
        budget=budget,
        neighboring_relation=neighboring_relation,
        settings=settings,
        accesses=tuple(accesses),
    )


def _choosing(descent: Plan[Settings], release: Release) -> Plan[Settings]:
    """The same, with gradients that are told whether slopes are consistent, at the same price."""
    settings = descent.settings
    before = settings.gradient.query
    assert isinstance(before, CoordinateGradient)
    query = CoordinateGradient(before.shape, before.clip_norm, before.limit, None)
    share = settings.gradient_share / settings.iterations
    settings = replace(settings, gradient=release(share, query, settings.gradient.where))
    return replace(descent, settings=settings, accesses=dp_whitened_gd.accesses(settings))


def tells_more(prior: Coefficients, shape: ProblemShape) -> bool:
    """Whether weights are known better, in some direction, than every fit takes them to be.

    What has deviations of ten units of the margin across a column's range says nothing.
    """
    least = float(np.linalg.eigvalsh(prior.covariance[: shape.n_features, : shape.n_features])[0])
    return least * entry_bound(shape) ** 2 < PRIOR_EFFECT**2


def least_rows(
    shape: ProblemShape, budget: Budget, neighboring_relation: str, accountant: str
) -> float:
    """The rows behind a weight, times µ, with fewer of which an earlier fit harms; 0: any do."""
    if not shape.loss.multiclass:
        return 0.0
    return _least_beside(rows_per_weight(shape, budget, neighboring_relation, accountant))


def _least_beside(u: float) -> float:
    # From there on what a prior knows is weighed with what the fit finds without it.
    return _LEAST_KNOWN if u >= _AMPLE else max(_LEAST_KNOWN, min(_LEAST_BESIDE * u, _ENOUGH))


def _is_of_few(settings: RefitSettings, shape: ProblemShape, coordinates: Coordinates) -> bool:
    """Whether too few rows of a class are behind an earlier fit: a rare one's tell less."""
    u0, u = settings.prior_rows_per_weight, settings.rows_per_weight
    if u0 == 0.0 or u >= _AMPLE or not tells_shares(shape, coordinates):
        return False
    probability = float(coordinates.probabilities()[1])
    told = min(1.0, _AS_HALVES * probability * (1.0 - probability))
    return told * u0 < _least_beside(told * u)


def known_rows(
    plan: Plan[Any], accountant: str = "auto", history: Mapping[str, Any] | None = None
) -> float:
    """The rows behind a weight, times µ, that a fit by this plan and its prior know together.

    Without the prior's if the fit's history says that it was left; 0 if it is no fit to single rows
    with Gaussian noise.
    """
    shape, settings = plan.shape, plan.settings
    if plan.solver != dp_whitened_gd.NAME or shape.unit == "group":
        return 0.0
    u = rows_per_weight(shape, plan.budget, plan.neighboring_relation, accountant)
    if not isinstance(settings, RefitSettings):
        return u
    if history is not None and np.isinf(history["wider"]):
        return settings.rows_per_weight  # the test of the prior had the rest
    return math.hypot(u, _REMEMBERED * settings.prior_rows_per_weight)


def run_refit(plan: Plan[RefitSettings], curator: Curator) -> Outcome:
    """Release gradients where the minimum is expected, and expect it where prior and they say.

    A Kalman filter: a gradient tells where the minimum is by how the loss bends where rows are
    white and normal.  A prior that the first gradients contradict is left for a descent.

    The history has the factor by which covariances were widened, infinite for a prior that was
    left, and the norms of the noisy mean gradients in the coordinates.
    """
    settings, shape = plan.settings, plan.shape
    descent = dp_whitened_gd.with_records(settings.descent, curator)
    coordinates, place = dp_whitened_gd.learn_places(descent, shape, curator)
    transform = bounded(shape, _white(coordinates, settings), descent.limit)
    followed = replace(descent, consistent=shape.loss.multiclass)
    ask = _Asking.of(followed, shape, curator, transform, place)
    belief = _believed(settings.prior, ask.unit * transform, coordinates.free)
    if settings.prior_rows_per_weight == 0.0:
        belief = _moderate(belief)
        belief = _counted(belief, coordinates) if tells_shares(shape, coordinates) else belief
    bends = partial(mean_bends, ask.loss, free=coordinates.free)
    cut_bends = partial(bends, cut=descent.clip, consistent=followed.consistent)
    told: _Belief | None = belief
    if settings.test is not None:
        share = None
        if tells_shares(shape, coordinates):
            found, noise, _ = coordinates.class_shares()
            share = float(found[1]), noise
        told = _tested(belief, settings.test, curator, transform, share)
        belief = belief if told is None else told
    bent, gradient = cut_bends(belief.mean), None
    wrong = told is None or _is_of_few(settings, shape, coordinates)
    if not wrong and _is_tried(belief, ask, bent, settings):
        gradient = _at_prior(belief, ask, bent, descent.iterations)
    if gradient is None:
        rest = _alone(descent, shape, descent.iterations - len(ask.norms))
        left = dp_whitened_gd.descended(rest, shape, curator, coordinates, place)
        if not ask.norms and not wrong:
            return _together(left, settings.prior)
        norms = np.append(ask.norms, left.history["gradient_norm"])
        return replace(left, history={"wider": np.array(math.inf), "gradient_norm": norms})
    belief, wider = _followed(belief, gradient, ask, cut_bends, descent.iterations)
    covariance = None
    if shape.dim <= MAX_COVARIANCE_DIM:
        # Minimizers of so many rows of one population differ, too.
        sampling = np.linalg.inv(bends(belief.mean, cut=1.0, consistent=False)) / shape.n_samples
        covariance = ask.unit**2 * transform @ (belief.covariance + sampling) @ transform.T
    w, kept = dp_whitened_gd.finished(
        ask.unit * (transform @ belief.mean),
        belief.mean,
        belief.free,
        descent,
        shape,
        curator,
        place,
    )
    return Outcome(
        w,
        {"wider": np.array(wider), "gradient_norm": np.array(ask.norms)},
        dp_whitened_gd.bounds_told(shape, coordinates.columns, place),
        covariance,
        column_ranges=coordinates.columns.ranges,
        prediction_range=kept,
    )


def _alone(descent: Settings, shape: ProblemShape, left: int) -> Settings:
    """The settings of a fit without a prior, for so many gradients as are left.

    If these are more, steps are shorter: noise in each is larger, and it piles up over more.
    """
    usual = automatic_settings(descent.rows_per_weight, shape, consistent=descent.consistent)
    part = min(1.0, math.sqrt(usual["iterations"] / left)) if shape.loss.multiclass else 1.0
    return replace(
        descent,
        iterations=left,
        step=part * descent.step,
        intercept_step=part * descent.intercept_step,
    )


def _together(found: Outcome, prior: Coefficients) -> Outcome:
    """What a descent found, weighed with the prior by their covariances if these explain both."""
    left = replace(found, history={"wider": np.array(math.inf), **found.history})
    if found.covariance is None:
        return left
    apart, covariance = prior.w - found.w, found.covariance
    both = covariance + prior.covariance
    told = np.linalg.solve(both, np.column_stack([apart, found.w]))
    if apart @ told[:, 0] > _STANDS_OUT * len(apart) + _BY_CHANCE:
        return left
    # A prior that knows little is not to change the weights' length, of which descents know least.
    if (found.w @ told[:, 0]) ** 2 > _CHANCE_LITTLE * (found.w @ told[:, 1]):
        return left
    gain = np.linalg.solve(both, covariance).T
    return replace(
        found,
        w=found.w + gain @ apart,
        history={"wider": np.array(1.0), **found.history},
        covariance=covariance - gain @ covariance,
    )


@dataclass(frozen=True, eq=False)
class _Asking:
    """Who releases mean gradients in the coordinates, whose entries' noise has a deviation.

    Weights are in units of half the range of numeric targets, `unit`, and the loss is the one in
    these units, its corner as narrow as in the end.
    """

    release: Callable[[Vector], Vector]
    deviation: float
    loss: Loss
    unit: float
    numbers: bool
    norms: list[float] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        descent: Settings,
        shape: ProblemShape,
        curator: Curator,
        transform: Matrix,
        place: Place | None,
    ) -> _Asking:
        mechanism = descent.gradient
        rows = shape.n_samples * shape.max_weight * descent.mean_weight
        loss, unit = shape.loss, 1.0
        units: tuple[float, ...] = ()
        if place is not None:
            unit, units = place.half, (place.stretch(loss),)
        if place is not None or descent.narrowing < 1.0:
            loss, units = loss.zoomed(descent.narrowing), (*units, unit * descent.narrowing)
        assert mechanism.query is not None
        at = curator.fix(mechanism.query, transform, *told_of(descent))

        def release(v: Vector) -> Vector:
            return curator.release(mechanism, at, unit * (transform @ v), *units) / rows

        return cls(release, mechanism.stddev / rows, loss, unit, place is not None)

    def __call__(self, v: Vector) -> Vector:
        gradient = self.release(v)
        self.norms.append(float(np.linalg.norm(gradient)))
        return gradient


def _is_tried(belief: _Belief, ask: _Asking, bends: Matrix, settings: RefitSettings) -> bool:
    """Whether a prior may be right, and knows enough beside the gradients."""
    free = belief.free
    if not ask.numbers and np.linalg.norm(belief.mean[:free]) > _CERTAIN:
        return False
    # A descent whose covariance is not kept cannot be weighed with a prior in the end.
    if settings.rows_per_weight < _AMPLE or len(belief.mean) > MAX_COVARIANCE_DIM:
        return True
    expected = (bends @ belief.covariance @ bends)[:free, :free]
    told = settings.iterations / ask.deviation**2 * np.linalg.eigvalsh(expected)
    worth = 1.0 / (1.0 + np.maximum(told, 0.0))
    return free > 0 and bool(worth.mean() >= _WORTH and worth.min() >= _WORTH_LEAST)


def _tested(
    belief: _Belief,
    mechanism: Gaussian,
    curator: Curator,
    transform: Matrix,
    share: tuple[float, float] | None,
) -> _Belief | None:
    """What is believed after the release along a prior's weights, and the `share` of positives.

    None if labels agree with the weights less than these, or shorter ones, explain.
    """
    query = mechanism.query
    assert isinstance(query, CoordinateGradient)
    way = belief.mean / max(float(np.linalg.norm(belief.mean)), 1e-12)
    at = curator.fix(query, transform @ way[:, None])
    along = float(curator.release(mechanism, at, transform @ belief.mean)[0])
    unit = query.shape.n_samples * query.shape.max_weight
    # The cut rows' loss bends by at most a quarter of the cut.
    spread = 0.25 * query.clip_norm * math.sqrt(float(way @ belief.covariance @ way))
    # Longer weights make rows surer of their labels: a normal margin's mean sigmoid of the absolute
    # value grows so, times the length.
    length = float(np.linalg.norm(belief.mean[: belief.free]))
    longer = 0.2 * query.clip_norm * length / (1.0 + length * length / 2.9)
    doubt = math.hypot(mechanism.stddev / unit, _STRETCHED * longer)
    if along / unit > _LONG * math.hypot(doubt, spread):
        return None
    if along / unit <= _SEEN * doubt:
        return belief
    return _told_along(belief, along / unit, doubt, query.clip_norm, share)


def _told_along(
    belief: _Belief, slope: float, doubt: float, cut: float, share: tuple[float, float] | None
) -> _Belief | None:
    """What is believed after the slope along the mean; None if that contradicts it.

    It tells, with the `share` of positives and its noise, which multiple of the weights and which
    constant labels follow.  Margins are taken for normal.
    """
    mean, free, dim = belief.mean, belief.free, len(belief.mean)
    length, constant = float(np.linalg.norm(mean[:free])), float(mean[free:].sum())
    ways = np.zeros((2, dim))
    ways[0, :free] = mean[:free] / max(length, 1e-12)
    ways[1, free:] = 1.0
    nodes, weights = normal_nodes()
    rows = (constant + length * nodes) / max(float(np.linalg.norm(mean)), 1e-12)
    predicted = probability(constant + length * nodes)
    reach = cut / np.maximum(np.abs(rows) * np.maximum(predicted, 1.0 - predicted), 1e-12)
    weighed = weights * np.minimum(1.0, reach) * rows
    spread = ways @ belief.covariance
    before = spread @ ways.T
    before += 1e-12 * (1.0 + float(np.trace(before))) * np.eye(2)  # both may be known together
    grid = np.stack(np.meshgrid(_GRID, _GRID), axis=-1).reshape(-1, 2)
    apart = grid @ np.linalg.cholesky(before).T
    labels = probability(constant + apart[:, 1:] + (length + apart[:, :1]) * nodes)
    likely = np.square(grid).sum(axis=1) + ((slope - (predicted - labels) @ weighed) / doubt) ** 2
    if share is not None:
        shares = labels @ weights
        wrong = shares * (1.0 - shares) * share_doubt(share[0], length)
        likely += (share[0] - shares) ** 2 / (share[1] ** 2 + wrong**2)
    likely = np.exp(-0.5 * (likely - likely.min()))
    likely /= likely.sum()
    moved = likely @ apart
    if moved @ np.linalg.solve(before, moved) > _FARTHEST:
        return None
    if moved[0] > 0.0:
        return belief
    left = (likely * (apart - moved).T) @ (apart - moved)
    gain = np.linalg.solve(before, spread)
    covariance = belief.covariance - gain.T @ (before - left) @ gain
    return replace(belief, mean=mean + moved @ gain, covariance=covariance)


def _at_prior(belief: _Belief, ask: _Asking, bends: Matrix, iterations: int) -> Vector | None:
    """The mean of the first gradients, at the prior's mean; None if they contradict it.

    Then no more are released there.
    """
    noise, dim = ask.deviation**2, len(belief.mean)
    expected = bends @ belief.covariance @ bends
    most = dim + _CHANCE * math.sqrt(2.0 * dim) + 2.0
    if ask.numbers:  # how dense residuals are at their minimum is a guess
        most = _STANDS_OUT * dim + _BY_CHANCE
    along = belief.mean.copy()
    along[belief.free :] = 0.0
    total = np.zeros(dim)
    for count in range(1, max(1, min(_TRIED, iterations // 2)) + 1):
        total += ask(belief.mean)
        mean, covariance = total / count, expected + noise / count * np.eye(dim)
        if mean @ np.linalg.solve(covariance, mean) > most:
            return None
        if (along @ mean) ** 2 > _CHANCE_ALONG * (along @ covariance @ along):
            return None
    return mean


def _followed(
    belief: _Belief,
    gradient: Vector,
    ask: _Asking,
    bends: Callable[[Vector], Matrix],
    iterations: int,
) -> tuple[_Belief, float]:
    """What is believed after all gradients, and by which factor covariances were widened.

    The first ones have this mean.
    """
    first, numbers = len(ask.norms), ask.numbers
    cautious, steep = _CAUTIOUS, 1.0
    belief, wider = belief.told(gradient, ask.deviation / math.sqrt(first), bends, steep, cautious)
    # How dense residuals are at their minimum is a guess; what is not noise corrects it.
    clear = _STANDS_OUT * ask.deviation * math.sqrt(len(gradient)) if numbers else math.inf
    before, length = gradient, float(np.linalg.norm(gradient))
    for _ in range(first, iterations):
        gradient = ask(belief.mean)
        norm = ask.norms[-1]
        if before @ gradient < -0.5 * length * norm:  # the step went too far
            cautious *= 2.0
            steep *= 2.0 if min(length, norm) > clear else 1.0
        before, length = gradient, norm
        belief, factor = belief.told(gradient, ask.deviation, bends, steep, cautious)
        wider *= factor
    return belief, wider


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
    return transform @ np.linalg.inv(upper).T


def _believed(prior: Coefficients, transform: Matrix, free: int) -> _Belief:
    """The prior in the coordinates; an earlier fit's less certain: nobody knows what changed."""
    back = np.linalg.inv(transform)
    mean: Vector = np.asarray(back @ prior.w, dtype=np.float64)
    covariance: Matrix = back @ prior.covariance @ back.T
    if prior.rows_per_weight > 0.0:
        moved = (_MOVED * float(np.linalg.norm(mean[:free]))) ** 2 / max(1, free)
        covariance = _FORGOTTEN * covariance + moved * np.eye(len(mean))
    return _Belief(mean, covariance, free)


def _moderate(belief: _Belief) -> _Belief:
    """The same, and that margins vary moderately, as much as is most likely by the mean.

    An earlier fit's covariance has a belief of this kind; a published one may have none, and with
    few rows what is drawn from it, or noise, would be taken for weights of any length.
    """
    free = belief.free
    values, vectors = np.linalg.eigh(belief.covariance[:free, :free])
    variances = np.maximum(values, 0.0) + _MODERATE[:, None] / max(1, free)
    missed = np.log(variances) + np.square(vectors.T @ belief.mean[:free]) / variances
    likely = float(_MODERATE[np.argmin(missed.sum(axis=1))])
    drawn = belief.covariance[:, :free] @ np.linalg.inv(
        belief.covariance[:free, :free] + likely / max(1, free) * np.eye(free)
    )
    return replace(
        belief,
        mean=belief.mean - drawn @ belief.mean[:free],
        covariance=belief.covariance - drawn @ belief.covariance[:free],
    )


def _counted(belief: _Belief, coordinates: Coordinates) -> _Belief:
    """The same, with the constant that the noisy counts of the classes tell."""
    probability, noise = float(coordinates.probabilities()[1]), coordinates.class_shares()[1]
    free = belief.free
    margins = belief.mean[:free] @ belief.mean[:free] + np.trace(belief.covariance[:free, :free])
    stretch = math.sqrt(1.0 + margins / 2.9)  # a normal margin's, whose mean sigmoid this is
    constant = stretch * math.log(probability / (1.0 - probability))
    doubt = stretch * math.hypot(noise / (probability * (1.0 - probability)), _APART_BY_WEIGHTS)
    gain = belief.covariance[:, -1] / (belief.covariance[-1, -1] + doubt**2)
    return replace(
        belief,
        mean=belief.mean + gain * (constant - belief.mean[-1]),
        covariance=belief.covariance - np.outer(gain, belief.covariance[-1]),
    )


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
