r"""Whitened private gradient descent: learn coordinates in which noise hurts least, then descend.

Isotropic noise wastes budget where columns are badly scaled, far from centered, or correlated: the
excess loss that it causes grows with ``tr(A) tr(A⁻¹) >= d²``, ``A`` the rows' second moments.  Both
traces are ``d`` in coordinates ``z = Wᵀx̃`` in which the rows are centered and white.  So a run

1. learns center and scale of every column privately, in rounds, each in the coordinates that the
   one before it left (as Biswas, Dong, Kamath & Ullman 2020 do for covariances), so that errors are
   relative; then the correlations that stand out of the noise: `dpfast/solvers/_coordinates.py`;
2. descends on ``v``, ``w = W v``, by full-batch gradients that are clipped *in these coordinates*,
   with momentum where there are rows enough, averages the late iterates, and takes away what noise
   alone would explain: `dpfast/solvers/_whitened_descent.py`.

Targets that are numbers may be far narrower than their declared bounds: a run learns their range
first, and clips slopes in units of it (`dpfast/solvers/_target_range.py`); if a mean is asked for,
of a range as wide as counts of the tails are worth (`dpfast/solvers/_target_tails.py`).  Losses
with a log link come with no scale of their slopes, either: a run learns mean and spread of the
targets first, and corrects intercept and length of the weights in the end
(`dpfast/solvers/_log_link.py`).

Where a record is a group of rows, such as all rows of a person, its gradient is clipped as one
vector, by a radius that is learned on the way (`dpfast/solvers/_groups.py`).

Where noise would drown everything (few rows a weight, tiny budgets), steps get so short that the
weights stay near zero, and the intercept, a single number, is learned as far as the noise lets it:
the fallback is a constant prediction.

The center moves the weight of the intercept, which is one more column, or that of a constant column
of the table's own; without either columns are scaled and not centered.  Mapping back with ``W`` is
post-processing.

Privacy
-------
All steps are Gaussian releases of sums (:mod:`dpfast.queries`) whose noise multipliers are fixed
beforehand, so GDP is exact for their composition (Dong, Roth & Su 2022, Corollary 3.3).  The ridge
is data-independent, and everything else here is post-processing.

Source: an extension, to coordinates learned privately, of noisy gradient descent (Bassily, Smith &
Thakurta 2014; Lee & Kifer 2018).
"""

from __future__ import annotations

import math
from dataclasses import replace
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
    ColumnParts,
    CoordinateGradient,
    Gram,
    RelativeGradient,
)
from dpfast.queries.coordinates import reach_limit
from dpfast.shape import ProblemShape
from dpfast.solvers import (
    _column_ranges,
    _groups,
    _log_link,
    _seconds,
    _target_range,
    _target_tails,
)
from dpfast.solvers._contract import Outcome, Plan, Solver
from dpfast.solvers._coordinates import (
    CATEGORY_EFFECT,
    Columns,
    Coordinates,
    Learning,
    indicators,
    learn,
)
from dpfast.solvers._lengths import said_of_lengths
from dpfast.solvers._log_link import Direction, Spread
from dpfast.solvers._target_range import Place, TargetRange
from dpfast.solvers._whitened_descent import (
    Settings,
    descend,
    drawn_by_rareness,
    flat_noise,
    moderate_effects,
    noise_of_weights,
)

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NAME = "dp-whitened-gd"

# A dozen matrices of this many columns are held, and one is diagonalized.
MAX_DIM = 10_000
_MOMENTS, _CORRELATION, _GRADIENT = "column moments", "column correlations", "gradient"
# Rows behind one weight, times µ, below which full steps would mostly follow the noise.
_HOPELESS = 2.5
# From here on squares tell more of a column's variance than noise hides.
_SQUARES = 15.0
# The weight of the counts of the classes beside columns' moments, which tell the less of the two
# the fewer rows there are; and the most of the budget that both may take together.
_COUNTED, _MOST_COUNTED, _FEW = 0.3, 3.0, 6.0
_MOST_LEARNED = 0.8
#: Up to so many weights the covariance of what noise does to them is kept.
MOST_KNOWN = 500
# From here on clipped rows count less whichever their label is: what that takes from the bias it
# adds to the way to the minimum, and noise allows too few steps below.
_CONSISTENT = 20.0
# Up to the first there is no momentum; from the second on there are more steps and more rounds.
_SLOW, _MANY = 30.0, 200.0
# From here on correlations are learned from a smaller share of the budget.
_AMPLE = 300.0
# Share of the targets, on either side, that the range they are in units of need not hold: of kinks,
# which look at one place of the law, and of residuals, whose tails have a part in the mean.
_TAIL, _TAIL_OF_RESIDUALS = 0.15, 0.05
# Columns this many times narrower than their bounds are let be, where their ranges are learned.
_NARROWEST = 1e4
# Rows behind one weight, times µ, up to which a corner stays as wide as it is; and the narrowest
# that a descent ends with, over that which it begins with.
_WIDE, _NARROWEST_CORNER = 5.0, 0.02
# Share of the iterates that is averaged if the corner stays, and if it gets far narrower.
_AVERAGE, _AVERAGE_OF_NARROW = 0.75, 0.5
# From here on weights explain as much as they will.
_LEARNED = 10.0
# Plans with shorter steps say that they fall back to little more than the intercept.
_FULL_STEP = 0.5
# What follows the sizes of groups, once they are known.
_FOLLOWING = ("clip", "step", "intercept_step", "momentum", "shrinkage", "james_stein")


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
    correlation_clip: float | str = "auto",
    learning_share: float | str = "auto",
    correlation_share: float | str = "auto",
    average: float | str = "auto",
    step: float | str = "auto",
    intercept_step: float | str = "auto",
    momentum: float | str = "auto",
    shrinkage: float | str = "auto",
    james_stein: bool | str = "auto",
    target_rounds: int | str = "auto",
    range_rounds: int | str = "auto",
    consistent: bool | str = "auto",
    narrowing: float | str = "auto",
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
        From the second round of the moments on, rows are clipped to ``learning_clip √dim``.
    correlation_clip : float or "auto"
        The same for the correlations.
    learning_share : float or "auto"
        Share of the budget, in units of mu², that the rounds take together.
    correlation_share : float or "auto"
        The same for the correlations; 0 leaves them alone.
    average : float or "auto"
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
        :func:`kept`.
    target_rounds : int or "auto"
        Rounds in which the range of numeric targets is learned, 0 for none; "auto" is 5 for losses
        of numbers without a log link, which has its own, and none for classes.  With any of them, a
        loss that is quadratic in the whole range has the tails counted, too, if there are rows
        enough to see them.
    range_rounds : int or "auto"
        Rounds in which the ranges of numeric columns are learned, 0 to 5; "auto" is 3 where the
        rows stand out of the noise, and none for groups of rows.
    consistent : bool or "auto"
        Whether clipped rows count less whichever their label is, see
        :class:`~dpfast.queries.CoordinateGradient`; for the logistic loss, not for groups of rows.
    narrowing : float or "auto"
        Over how much of its width the rounded-off corner of a hinge is rounded off in the end, at
        most 1.  "auto" is the less the more rows there are, if the loss has its default width, and
        1 otherwise, and for groups of rows.  The plan's `width` is the one in the end.

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
    counts = min(_MOST_COUNTED, max(_COUNTED, _COUNTED * _FEW / u))
    # In the end the intercept is settled by the counts: there they have a part of their own.
    settled = james_stein is not False and shape.loss.multiclass and not shape.several_rows
    grouped = clips_groups(shape)
    if consistent == "auto":
        consistent = shape.loss.multiclass and not grouped and u >= _CONSISTENT
    elif check_flag("consistent", consistent) and grouped:
        raise ValueError("consistent must be False for groups of rows; got True.")
    narrow = automatic_narrowing(shape, u)
    if narrowing != "auto":
        narrow = check_real("narrowing", narrowing, low=0.0, low_open=True, high=1.0)
        if narrow < 1.0 and not _narrows(shape):
            raise ValueError(
                f"narrowing must be 1 for the loss {shape.loss.name!r} of {shape.unit}s; got "
                f"{narrow}. It is for the rounded-off hinge, where a record is a row."
            )
    automatic = partial(
        automatic_settings,
        shape=shape,
        counts=counts if settled else _COUNTED,
        consistent=bool(consistent),
        narrowing=narrow,
    )
    settings = automatic(u)
    if grouped:
        settings = _groups.automatic_settings(automatic, u)
    if linked:
        settings |= _log_link.automatic_settings(u)
    chosen = {
        "iterations": iterations,
        "clip": clip,
        "rounds": rounds,
        "learning_clip": learning_clip,
        "correlation_clip": correlation_clip,
        "learning_share": learning_share,
        "correlation_share": correlation_share,
        "average": average,
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
    reach_2 = check_real("correlation_clip", settings["correlation_clip"], low=1.0, high=1e100)
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
    numbers = shape.loss.kind == "regression" and not linked
    if target_rounds == "auto":
        target_rounds = _target_range.ROUNDS if numbers and not grouped else 0
    for_range = check_integer("target_rounds", target_rounds, low=0, high=100)
    if for_range > 0 and (grouped or not numbers):
        whose = "groups of rows" if grouped else f"the loss {shape.loss.name!r}"
        raise ValueError(
            f"target_rounds must be 0 for {whose}; got {for_range}. Only single numbers without a "
            "log link have a range that is learned."
        )
    for_targets = sum(_log_link.shares(u * shape.dim)) if linked else 0.0
    apart = math.sqrt(records_apart(neighboring_relation))
    if for_range > 0:
        for_targets = _target_range.share(u * shape.dim * apart)
    for_tails = 0.0
    if for_range > 0 and _is_mean(shape.loss):
        for_tails = _target_tails.share(u * shape.dim * apart)
    for_targets += _groups.SIZES_SHARE if grouped else 0.0
    numeric = np.flatnonzero(~indicators(shape))
    a_round = 0.0 if grouped else _column_ranges.share(u * shape.dim * apart, len(numeric))
    if range_rounds == "auto":
        range_rounds = _column_ranges.ROUNDS if a_round > 0.0 else 0
    ranging = check_integer("range_rounds", range_rounds, low=0, high=5)
    if ranging > 0 and a_round == 0.0:
        raise ValueError(
            "range_rounds must be 0 for groups of rows, and where noise would hide all rows; got "
            f"{ranging}."
        )
    for_ranges = (ranging + _column_ranges.OF_LONG_ROWS) * a_round if ranging > 0 else 0.0
    for_others = for_targets + for_ranges + for_tails
    if for_moments + for_correlation + for_others >= 1.0:
        raise ValueError(
            f"learning_share + correlation_share must be less than {1.0 - for_others:g}, or "
            f"nothing is left for the gradients; got {for_moments} + {for_correlation}."
        )
    averaged = check_real("average", settings["average"], low=0.0, high=1.0)

    radius = reach * math.sqrt(shape.dim)
    # With a log link slopes and curvatures are in units that the run learns.
    slope, largest = shape.loss.lipschitz, shape.loss.smoothness * shape.max_weight
    if linked:
        slope, largest = 1.0, 1.0
    clip_norm = clip * math.sqrt(shape.dim) * slope
    farthest = _NARROWEST * math.sqrt(shape.dim) if ranging > 0 else 0.0
    limit = reach_limit(shape, clip_norm, radius, farthest)
    if grouped:
        limit = _groups.limit_of(shape, radius)

    def release(share: float, query: Query, where: str) -> Gaussian:
        budget = Budget(mu=mu * math.sqrt(share))
        return Gaussian.calibrate(budget, query, neighboring_relation, where=where)

    # To begin with no row is longer than √dim, and less radius is less noise; and squares tell
    # nothing that is worth their noise.
    squares = u >= _SQUARES
    queries = [ColumnParts(shape, math.sqrt(shape.dim), False, None, counts)]
    queries += [ColumnParts(shape, radius, squares, None, counts)] * (turns - 1)
    moments = tuple(release(for_moments / turns, query, _MOMENTS) for query in queries)
    correlation = None
    if for_correlation > 0.0:
        gram = Gram(shape, reach_2 * math.sqrt(shape.dim), limit)
        correlation = release(for_correlation, gram, _CORRELATION)
    ranges = None
    if ranging > 0:
        ranges = _column_ranges.planned(shape, numeric, ranging, a_round, release)
    for_gradients = 1.0 - for_moments - for_correlation - for_others
    query: Query = CoordinateGradient(shape, clip_norm, limit, bool(consistent))
    link = _log_link.planned(shape, u, limit, release) if linked else None
    if linked:
        longest = _log_link.longest_row(shape)
        query = RelativeGradient(shape, clip_norm, limit, shape.dim, longest)
    target_range = None
    if for_range > 0:
        tail = _TAIL_OF_RESIDUALS if shape.loss.even else _TAIL
        begin = _quantile(shape.loss, u)
        target_range = _target_range.planned(
            shape, 1.0, for_range, for_targets, release, tail, begin
        )
        query = RelativeGradient(shape, clip_norm, limit, shape.dim)
    groups = None
    if grouped:
        query = _groups.gradient_query(shape, limit, neighboring_relation)
        groups = _groups.planned(release, shape, free, automatic, u)
    gradient = release(for_gradients / steps, query, _GRADIENT)
    accesses = [] if ranges is None else [(ranges.histogram, ranging), (ranges.long_rows, 1)]
    accesses += [(mechanism, 1) for mechanism in moments]
    if correlation is not None:
        accesses.append((correlation, 1))
    accesses.append((gradient, steps))
    if target_range is not None:
        accesses.insert(0, (target_range.histogram, for_range))
    if link is not None:
        accesses = [*link.first, *accesses, link.last]
    if groups is not None:
        accesses.insert(0, (groups.sizes, 1))
    # What noise does to the average of the iterates, at a quarter of the largest curvature.
    curvature = largest / 4.0
    # Of groups as if each had one row: how many rows there are is not known yet.
    deviation = gradient.stddev * (clip_norm * shape.max_weight if grouped else 1.0)
    variance = (deviation / shape.n_samples) ** 2 / max(1.0, averaged * steps)
    by_noise = 0.5 * shape.dim * variance / curvature
    tails = None
    if for_tails > 0.0:
        tails = _target_tails.planned(shape, 1.0, for_tails, release, clip, by_noise)
        accesses.insert(1, (tails.histogram, 1))
    return Plan(
        solver=NAME,
        shape=shape if alpha == "auto" else shape.with_alpha(ridge),
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=tuple(accesses),
        settings=Settings(
            learning=Learning(ranges, moments, correlation, limit, evened=stein),
            gradient=gradient,
            curvature=largest,
            radius=radius,
            limit=limit,
            regime=_regime(stride, target_range),
            clip_norm=clip_norm,
            rounds=turns,
            iterations=steps,
            clip=clip,
            learning_clip=reach,
            correlation_clip=reach_2,
            average=averaged,
            ridge=ridge,
            step=stride,
            intercept_step=stride_0,
            momentum=inertia,
            shrinkage=shrink,
            james_stein=stein,
            learning_share=for_moments,
            correlation_share=for_correlation,
            link=link,
            target_range=target_range,
            tails=tails,
            groups=groups,
            rows_per_weight=u,
            consistent=bool(consistent),
            narrowing=narrow,
            width=None if shape.loss.width is None or linked else narrow * shape.loss.width,
        ),
        expected=MappingProxyType(
            {
                "excess_loss_by_noise": by_noise,
                "excess_risk_guess": excess_risk_guess(shape, by_noise),
                "seconds": _seconds.preparation(shape)
                + _seconds.column_ranges(shape, ranging)
                + _seconds.whitening(shape, turns, correlation is not None)
                + sum(_seconds.release(mechanism.dimension) for mechanism in moments)
                + (_seconds.release(correlation.dimension) if correlation is not None else 0.0)
                + steps * (_seconds.gradient(shape) + _seconds.release(shape.dim)),
                "megabytes": _seconds.megabytes(shape, _seconds.WHITENING_MATRICES),
            }
        ),
    )


def _regime(step: float, target_range: TargetRange | None) -> str:
    """What the budget is enough for."""
    said = "near a constant prediction" if step < _FULL_STEP else "all weights"
    if target_range is not None and not target_range.found:
        said += "; not to find targets in bounds that are far too wide"
    return said


def _is_mean(loss: Loss) -> bool:
    """Whether the loss asks for the mean of targets, and not for what outliers cannot move."""
    return loss.even and loss.lipschitz >= 1.0


def _quantile(loss: Loss, u: float) -> float | None:
    """Of the targets, where the descent begins: up to halfway to the median.

    What weights explain brings the residuals' quantile nearer to the middle than that of the
    targets, and how much they do follows from how well they can be learned.
    """
    if loss.quantile is None:
        return None
    return loss.quantile + 0.5 * min(1.0, (u / _LEARNED) ** 2) * (0.5 - loss.quantile)


def clips_groups(shape: ProblemShape) -> bool:
    """Whether groups of rows are clipped as one vector, and not row by row with less weight."""
    return shape.several_rows and not shape.loss.log_link


def _narrows(shape: ProblemShape) -> bool:
    """Whether the loss has a corner that a descent can round off over less and less."""
    return shape.loss.cornered and not clips_groups(shape)


def automatic_narrowing(shape: ProblemShape, u: float) -> float:
    """The corner's width in the end over that in the beginning.

    A wide corner moves the minimum, most where there is no signal and margins pile up at it.  A
    narrow one takes more steps and less shrinkage, and so lets in more noise where rows are few.

    Parameters
    ----------
    shape : ProblemShape
        A width that was chosen stays.
    u : float
        See :func:`rows_per_weight`.

    Returns
    -------
    float
    """
    if not (_narrows(shape) and shape.loss.default_width):
        return 1.0
    return min(1.0, max(_NARROWEST_CORNER, _WIDE / u))


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


def automatic_settings(
    u: float,
    shape: ProblemShape,
    counts: float = _COUNTED,
    consistent: bool = False,
    narrowing: float = 1.0,
) -> dict[str, Any]:
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
    counts : float, default=0.3
        Weight of the counts of the classes.  What they add to the price of the columns' moments is
        taken from the gradients, and steps are as much shorter.
    consistent : bool, default=False
        Whether clipped rows count less whichever their label is.  That has no bias if the model is
        right, so more is clipped, and the minimum is farther.
    narrowing : float, default=1.0
        Of the corner: steps get shorter, so there are more, and the late ones are averaged.  A wide
        corner had its minimum at longer weights, which hid what the shrinkage takes.

    Returns
    -------
    dict
    """
    # A slope of this loss is a residual, for targets brought to [-1, 1] as the estimators do; the
    # longer residuals get, the more noise there is in a step of the intercept.
    even = shape.loss.even
    slope = min(1.0, 0.5 / shape.loss.lipschitz) if even else 1.0
    # A full step moves a margin by slope over curvature, the logistic loss's by 4 at most; where
    # that is less, the way takes more steps.  Residuals of the Huber loss have no such way to go.
    by_step = shape.loss.lipschitz / shape.loss.smoothness
    way = min(3.0, max(1.0, math.sqrt(4.0 / by_step)))
    if even or shape.loss.log_link:
        way = 1.0
    way *= 1.5 - 0.5 * narrowing
    most, least = 16.0, 16.0 if consistent else 10.0
    steps, growth = 10.0 * (u / 20.0) ** 0.5, 0.25 if consistent else 0.4
    momentum = 0.35 * math.log2(u / 20.0) if u >= _SLOW else 0.0
    if u >= _MANY:
        most, least = 40.0, 32.0 if consistent else 24.0
        steps = 24.0 * (u / 1500.0) ** 0.35
        momentum = 0.35 * math.log2(u / 60.0)
    # Coordinates need not be better than to some per cent: what is left over goes to the gradients.
    correlated = 0.15 * math.sqrt(_AMPLE / max(u, _AMPLE))
    if u < 50.0:
        correlated = 0.0 if u < _HOPELESS else 0.05 if u < 20.0 else 0.1
    columns = min(0.2, 0.05 + 2.5 / u)
    learned = min(_MOST_LEARNED, columns * (1.0 + counts**2) / (1.0 + _COUNTED**2))
    left = u * math.sqrt((1.0 - learned) / (1.0 - columns))
    return {
        "iterations": int(way * min(most, max(least, steps))),
        "clip": slope * min(2.0, max(0.25, 0.5 * (u / 20.0) ** growth)),
        "rounds": 3 if u < _MANY else 5,
        "learning_clip": min(4.0, max(1.0, (u / 20.0) ** 0.4)),
        "correlation_clip": max(1.0, (u / 100.0) ** 0.4),
        "learning_share": learned,
        "correlation_share": correlated,
        "average": _AVERAGE_OF_NARROW + (_AVERAGE - _AVERAGE_OF_NARROW) * narrowing,
        "step": min(1.0, (left / _HOPELESS) ** 4),
        "intercept_step": min(1.0, slope * shape.dim * (u / 6.0) ** 2),
        "momentum": min(0.6 if u < _MANY else 0.78, momentum),
        "shrinkage": narrowing * min(0.05, 0.3 / u),
        "james_stein": True,
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
    return run_in_coordinates(plan, curator)[0]


def run_in_coordinates(plan: Plan[Settings], curator: Curator) -> tuple[Outcome, Coordinates]:
    """The same, and the coordinates that were learned."""
    plan = with_sizes(plan, curator)
    settings, shape, link = plan.settings, plan.shape, plan.settings.link
    spread: Spread | Place | None = None
    if link is not None:
        spread = _log_link.learn_spread(link, shape, curator)
    else:
        spread = learn_place(settings, curator)
    coordinates = learn(settings.learning, shape, curator)
    v, norms, change = descend(settings, shape, curator, coordinates, spread)
    unit = spread.half if isinstance(spread, Place) else 1.0
    noise = noise_of_weights(settings, shape, change)
    if link is not None and isinstance(spread, Spread):
        found = _direction(settings, shape, coordinates, v, change)
        w = _log_link.calibrated(
            link, shape, curator, found, settings.limit, spread, settings.ridge
        )
    else:
        w = unit * coordinates.weights(v, noise)
    history = MappingProxyType({"gradient_norm": norms})
    covariance = None
    if shape.dim <= MOST_KNOWN and link is None:
        flat = flat_noise(settings, shape.n_samples) * change
        covariance = unit**2 * _covariance(flat, shape, coordinates)
    return Outcome(w, history, lengths_told(shape, coordinates.columns), covariance), coordinates


def learn_place(settings: Settings, curator: Curator) -> Place | None:
    """Where numeric targets are, and how far slopes may reach; None if that is not learned."""
    if settings.target_range is None:
        return None
    place = _target_range.learn_range(settings.target_range, curator)
    return (
        place if settings.tails is None else _target_tails.widened(place, settings.tails, curator)
    )


def _direction(
    settings: Settings, shape: ProblemShape, coordinates: Coordinates, v: Vector, change: float
) -> Direction:
    """The weights of a loss with a log link, and what noise has of their length."""
    of_noise, constant = 0.0, None
    if settings.james_stein:
        v, of_noise = drawn_by_rareness(v, settings, shape, coordinates, change)
    if shape.intercept != 0.0:
        constant = coordinates.transform[:, -1]
        v = np.append(v[:-1], 0.0)
    w = coordinates.weights(v, noise_of_weights(settings, shape, change))
    length = float(np.linalg.norm(np.linalg.solve(coordinates.transform, w)))
    return Direction(w, length, of_noise, constant)


def _covariance(noise: float, shape: ProblemShape, coordinates: Coordinates) -> Matrix:
    """Of the noise in the weights where the loss is flat, and of what else is believed of them.

    `noise` is its deviation in the learned coordinates.
    """
    back: Matrix = np.asarray(np.linalg.inv(coordinates.transform), dtype=np.float64)
    precision = moderate_effects(shape, coordinates)
    columns = coordinates.columns
    precision[: shape.n_features] += columns.categories * (columns.height / CATEGORY_EFFECT) ** 2
    found = np.linalg.inv(back.T @ back / noise**2 + np.diag(precision))
    return np.asarray(found, dtype=np.float64)


def lengths_told(shape: ProblemShape, columns: Columns) -> tuple[str, ...]:
    """What the released centers and scales tell of the rows' lengths."""
    return said_of_lengths(
        shape, float(columns.center @ columns.center + columns.scale @ columns.scale)
    )


def with_sizes(plan: Plan[Settings], curator: Curator) -> Plan[Settings]:
    """The plan with what the sizes of the groups, if there are any, make of its settings."""
    settings = plan.settings
    if settings.groups is None:
        return plan
    return replace(plan, settings=_groups.learned(settings.groups, settings, curator))


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
        "target_rounds": 0,
        "narrowing": 1.0,
    },
    weighs_groups=True,
    clips_groups=clips_groups,
    max_dim=MAX_DIM,
    refusal=refusal,
)
