"""How the settings of whitened descent follow from public quantities.

Everything rests on `u`, the rows behind one weight times the privacy loss allowed to one of them
(:func:`rows_per_weight`); docs/whitened.md has the rules in one table, and where they come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from dpfast.losses import Loss
from dpfast.privacy import Budget, records_apart
from dpfast.privacy.calibration import budget_mu
from dpfast.shape import ProblemShape
from dpfast.solvers._target_range import TargetRange

# Rows behind one weight, times µ, below which full steps would mostly follow the noise.
_HOPELESS = 2.75
# And below which noise makes them too long where labels tell little.
_FULL = 8.0
# The weight of the counts of the classes beside columns' moments, which tell the less of the two
# the fewer rows there are; and the most of the budget that both may take together.
COUNTED, _MOST_COUNTED, _FEW = 0.3, 3.0, 6.0
_MOST_LEARNED = 0.8
# From here on rows are clipped by factors that do not depend on their labels: that has less bias,
# but a longer way to the minimum, for which noise allows too few steps below.
_CONSISTENT = 20.0
# Up to the first there is no momentum; from the second on there are more steps, and correlations
# have two rounds.
_SLOW, _MANY = 30.0, 200.0
# Up to the first, gradients that follow a descent alone tell how far to go; up to the second they
# tell half of it at least.
_CONFIRMED_ALONE, CONFIRMED = 3.0, 6.0
# From the second on quantiles take this part of them, as many as just before it: more gain nothing.
_QUANTILE_WAY = 2.0 / 3.0
# From here on correlations are learned from a smaller share of the budget.
_AMPLE = 300.0
# With a log link fewer columns than this take less of it: the norm of the noise in the matrix of
# all correlations is less.
_SEVERAL = 8
# The width that a corner ends with, times the rows behind one weight and µ; and the least.
_CORNER, NARROWEST_CORNER = 2.5, 0.01
# Share of the iterates that is averaged, and by how much less for each unit that a corner narrows.
_AVERAGE, _LESS_AVERAGE = 0.75, 0.5
# From here on weights explain as much as they will.
_LEARNED = 10.0
# From here on a descent minimizes the loss of a quantile itself, if that is no farther out than the
# second number or its mirror image; of others the later the fewer rows lie around them.
_OUTER, _FAR_OUT = 20.0, 0.9
# Plans with shorter steps say that they fall back to little more than the intercept.
_FULL_STEP = 0.5
ALL_WEIGHTS = "all weights"
"""What the budget is enough for, at best."""
# Rows of a class behind one weight, times µ, with fewer of which next to nothing is learned of it.
_RARE = 0.5
#: A number of fewer deviations of its noise is no reason to move.
SURE = 2.0


class Rule(NamedTuple):
    """What settings follow that were left `free`, once sizes of groups or weights are known."""

    free: tuple[str, ...]
    settings: Callable[..., dict[str, Any]]  # by name, from rows behind one weight


def rows_per_weight(
    shape: ProblemShape, budget: Budget, neighboring_relation: str, accountant: str = "auto"
) -> float:
    """``u = µ n / (k d)``: rows behind one weight, times the privacy loss allowed to each."""
    mu = budget_mu(budget, accountant) / records_apart(neighboring_relation)
    return mu * shape.n_samples / shape.dim


def automatic_settings(
    u: float,
    shape: ProblemShape,
    counts: float = COUNTED,
    consistent: bool = False,
    narrowing: float = 1.0,
) -> dict[str, Any]:
    """What "auto" stands for; docs/whitened.md and docs/auto.md have the studies.

    Everything follows from `u`, since in white coordinates the noise in a mean over the rows is
    ``c √d / (u d) = c / (u √d)`` a coordinate: more of it asks for more clipping, fewer and shorter
    steps and less belief in what was learned. The intercept is one number and not d of them: the
    same noise lets it go ``d`` times as far.

    What the classes' `counts` add to the price of the columns' moments is taken from the gradients.
    Clipping that is `consistent` has no bias if the model is right, so more is clipped, and the
    minimum is farther.  With a `narrowing` corner steps get shorter, so there are more, and the
    late ones are averaged; a wide corner had its minimum at longer weights, which hid what the
    shrinkage takes.
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
    if shape.loss.quantile is not None and u >= _MANY:
        way *= _QUANTILE_WAY
    least, most, steps = 16.0 if consistent else 10.0, 16.0, 10.0 * (u / 20.0) ** 0.5
    if u >= _MANY:
        least, begin = (32.0, 600.0) if consistent else (24.0, 1500.0)
        most, steps = 40.0, least * (u / begin) ** 0.35
    momentum = 0.0
    if u >= _SLOW:
        momentum = max(min(0.6, 0.35 * math.log2(u / 20.0)), min(0.78, 0.35 * math.log2(u / 60.0)))
    # Coordinates need not be better than to some per cent: what is left over goes to the gradients.
    correlated = 0.15 * max(0.0, u - _HOPELESS) / (u + 10.0) * math.sqrt(_AMPLE / max(u, _AMPLE))
    if shape.loss.log_link:
        correlated *= min(1.0, shape.n_features / _SEVERAL)
    slower = (u / _FULL) ** 0.4 if shape.loss.kind == "classification" else 1.0
    return {
        "iterations": int(way * min(most, max(least, steps))),
        "clip": slope * min(2.0, max(0.25, 0.5 * (u / 20.0) ** (0.25 if consistent else 0.4))),
        "rounds": 3,
        "learning_clip": min(4.0, max(1.0, (u / 20.0) ** 0.4)),
        "correlation_clip": max(1.0, (u / 100.0) ** 0.4),
        "learning_share": with_counts(min(0.2, 0.035 + 2.5 / u), counts),
        "correlation_share": correlated,
        "average": _AVERAGE - _LESS_AVERAGE * (1.0 - narrowing) * (shape.loss.width or 0.0),
        "step": min(1.0, (u / _HOPELESS) ** 4, slower),
        "intercept_step": min(1.0, slope * shape.dim * (u / 6.0) ** 2),
        "momentum": momentum,
        "shrinkage": narrowing * min(0.05, 0.3 / u),
        "james_stein": True,
    }


def weight_of_counts(u: float) -> float:
    """Of the counts of the classes beside columns' moments."""
    return min(_MOST_COUNTED, max(COUNTED, COUNTED * _FEW / u))


def with_counts(share: float, counts: float) -> float:
    """Share of the budget for moments, if gradients pay for class counts of this weight."""
    return min(_MOST_LEARNED, share * (1.0 + counts**2) / (1.0 + COUNTED**2))


def automatic_consistent(shape: ProblemShape, u: float) -> bool:
    """Whether rows are clipped by factors that do not depend on their labels.

    Not those of persons with two classes, unless most turn out to have one row: where what decides
    a person's labels besides the columns is alike for all its rows, as on real panels, they lose up
    to twice as much by it, or more.
    """
    return shape.loss.multiclass and not clips_groups(shape) and u >= _CONSISTENT


def averages_late(shape: ProblemShape, u: float) -> bool:
    """Whether a rare class has later iterates averaged; of few rows noise leaves no choice."""
    return shape.loss.multiclass and not clips_groups(shape) and u >= _MANY


def correlation_rounds(u: float, shape: ProblemShape) -> int:
    """Rounds of correlations: in a second one, of columns of known range, errors are relative.

    These are numbers, and it takes more of them than of other columns.
    """
    others = sum(block.stop - block.start for block in shape.columns if block.kind != "number")
    return 2 if u >= _MANY and 2 * others < shape.n_features else 1


def automatic_narrowing(shape: ProblemShape, u: float) -> float:
    """The corner's width in the end over that in the beginning.

    A wide corner moves the minimum, most where there is no signal and margins pile up at it.  A
    narrow one takes more steps and less shrinkage, and so lets in more noise where rows are few, as
    they are around an outer quantile: ``4 q (1 - q)`` times as many as around the median, or so.  A
    width that was chosen stays.
    """
    if not (shape.loss.cornered and shape.loss.default_width):
        return 1.0
    width = max(NARROWEST_CORNER, _CORNER / (_around(shape.loss.quantile or 0.5) * u))
    return min(1.0, width / (shape.loss.width or 1.0))


def is_mean(loss: Loss) -> bool:
    """Whether the loss asks for the mean of targets, and not for what outliers cannot move."""
    return loss.even and loss.lipschitz >= 1.0


def descent_loss(loss: Loss, u: float) -> Loss:
    """The loss that a descent minimizes: of an outer quantile that of one nearer to the median.

    Around an outer quantile few rows tell the weights anything, and where residuals are alike the
    weights of all quantiles are the same; the intercept is settled in the end.  A width that was
    chosen stays, and so does its loss.

    Examples
    --------
    >>> [round(descent_loss(Loss("pinball", 0.99), u).quantile, 2) for u in (10, 20, 50, 70)]
    [0.62, 0.9, 0.9, 0.99]
    """
    if loss.quantile is None or not loss.default_width:
        return loss
    q = loss.quantile
    far = _OUTER * math.sqrt(max(1.0, _around(_FAR_OUT) / _around(q)))
    near = (_FAR_OUT - 0.5) / max(_FAR_OUT - 0.5, abs(q - 0.5))
    part = max(min(near, (u / _OUTER) ** 2), (u / far) ** 2)
    if part >= 1.0:
        return loss
    return replace(loss, parameter=q + (1.0 - part) * (0.5 - q))


def _around(quantile: float) -> float:
    """How many rows lie around a quantile, over those around the median."""
    return 4.0 * quantile * (1.0 - quantile)


def first_quantile(loss: Loss, u: float) -> float | None:
    """Of the targets, where the descent begins: up to halfway to the median.

    What weights explain brings the residuals' quantile nearer to the middle than that of the
    targets, and how much they do follows from how well they can be learned.
    """
    if loss.quantile is None:
        return None
    return loss.quantile + 0.5 * min(1.0, (u / _LEARNED) ** 2) * (0.5 - loss.quantile)


def confirmed_part(u: float) -> float:
    """Which part of the end the weights have that later gradients confirm, if these are asked for.

    All of it with few rows a weight; with more the descent's own end tells as much.  The loss of a
    mean of both is at most the mean of the losses.
    """
    beyond = (u - _CONFIRMED_ALONE) / (CONFIRMED - _CONFIRMED_ALONE)
    return 1.0 - 0.5 * min(1.0, max(0.0, beyond))


def sure(value: float, noise: float) -> float:
    """Which part of a number is a reason to move, if noise has this deviation: none up to two."""
    return 1.0 - min(1.0, SURE * noise / abs(value)) ** 2 if value else 0.0


def clips_groups(shape: ProblemShape) -> bool:
    """Whether groups of rows are clipped as one vector, and not row by row with less weight."""
    return shape.several_rows and not shape.loss.log_link


def regime(
    step: float, target_range: TargetRange | None, beyond: float = math.inf, directions: int = 0
) -> str:
    """What the budget is enough for.

    `beyond` a quantile lie so many rows, in units of the noise that a count of them has.  Where
    steps are short, weights may have so many `directions` that later gradients confirm.
    """
    if directions == 1:
        return "one direction of the weights"
    said = "two directions of the weights" if directions else "near a constant prediction"
    said = said if step < _FULL_STEP else ALL_WEIGHTS
    if target_range is not None and not target_range.found:
        said += "; not to find targets in bounds that are far too wide"
    return said + "; not to find a quantile so far out" * (beyond < 1.0)


def least_share(u: float) -> float:
    """Share of the rows below which little is learned of a class, of so many rows per weight."""
    return min(0.5, _RARE / u)


def rows_beyond(loss: Loss, rows: float) -> float:
    """How many of so many rows have targets beyond an outer quantile; infinite if none is asked."""
    q = loss.quantile
    return math.inf if q is None or q == 0.5 else rows * min(q, 1.0 - q)


def excess_risk_guess(shape: ProblemShape, by_noise: float) -> float:
    """What the noise costs, bent so that it stays below what can be lost.

    Where noise is large, few or short steps leave the weights near a constant prediction, which
    loses a share of the loss at zero (for targets of at most one): a third, as a guess.  Data in
    which the curvature is far from a quarter of its largest value (rare classes, very strong
    signals), for which `by_noise` is, lose more; docs/auto.md compares the guess with what was
    measured.
    """
    most = min(shape.loss.at_zero, shape.loss.lipschitz) * shape.max_weight / 3.0
    return by_noise / (1.0 + by_noise / most)
