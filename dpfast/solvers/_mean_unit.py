"""The mean of counts and costs with a pure budget, and a loss in units of it.

Slopes are as long as the highest target is beside the unit that targets are in.  A mean that was
learned, by Laplace counts and a sum as whitened descent does (`dpfast/solvers/_log_link.py`), is
the best unit: a few times as much is all that most targets reach, the others are cut, and where
noise hides what else there is to learn, a ridge draws the fit to that mean.  Where targets spread
by a part of their mean alone, noise that the ridge leaves is more than they do: there weights that
noise explains go, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpfast._typing import Vector
from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.privacy import Budget, budget_epsilon, records_apart
from dpfast.queries import TargetCounts, TargetSum
from dpfast.shape import ProblemShape
from dpfast.solvers._log_link import COUNTS, MEAN, MeanAsked, Spread, learn_spread, octaves_told
from dpfast.solvers._shares import left_of_pure, pure_releases

# Of the budget, for the counts and for the sum: at least, at most, and in between so much over the
# number of rows, times ε.
_SHARE, _MOST_SHARE, _ROWS = 0.1, 0.35, 30.0
# Where targets are cut, in means: for few rows, and by the root of how many more there are behind
# one weight, times ε.
_CUT, _FEW = 5.0, 1000.0
# Positive targets are cut on both sides, and curvatures grow as the square: in logarithms so much.
_POSITIVE = 0.7
# What rows are expected to have of the longest one's square; and noise counts in full where its
# margins have such a part of the targets' variance.
_SQUARE, _COUNTS = 0.5, 0.1


@dataclass(frozen=True)
class MeanUnit:
    """What tells the mean, and the loss for targets in units of it."""

    asked: MeanAsked
    loss: Loss

    def learned(self, shape: ProblemShape, curator: Curator) -> tuple[Spread, float]:
        """Mean and spread, and by which factor the mean of targets cut around it is lower."""
        spread = learn_spread(self.asked, shape, curator)
        values, shares = spread.law.around(0.0)
        return spread, float(values.clip(*self.loss.target_range) @ shares)


def drawn_to_mean(w: Vector, spread: Spread, shape: ProblemShape, stddev: float) -> Vector:
    """The weights, in units of the mean, without what noise explains (after James & Stein 1961).

    As far as the noise, of this deviation in the linear term, is not small beside what targets
    differ by: otherwise it costs little, and weights that the ridge has shortened are few enough.
    """
    square = _SQUARE * shape.row_norm**2
    curvature = (shape.alpha or 0.0) + spread.level.weight * square / shape.dim
    variance = (stddev / (shape.n_samples * curvature)) ** 2
    explained = min(1.0, shape.dim * variance / max(float(w @ w), 1e-300))
    return w * (1.0 - explained * min(1.0, variance * square / (_COUNTS * spread.relative**2)))


def planned(
    shape: ProblemShape, budget: Budget, relation: str
) -> tuple[MeanUnit | None, ProblemShape, Budget]:
    """The accesses, the shape in units of the mean, and the budget that is left.

    None for a budget with a delta, a loss without a log link, and where nothing is gained.
    """
    able = shape.loss.log_link and shape.intercept != 0.0 and not shape.several_rows
    if budget.kind != "pure" or not able:
        return None, shape, budget
    epsilon, positive = budget_epsilon(budget), shape.loss.target_range[0] > 0.0
    rows = epsilon * shape.n_samples / records_apart(relation)
    width = math.log(_CUT * math.sqrt(max(1.0, rows / shape.dim / _FEW))) * (
        _POSITIVE if positive else 1.0
    )
    # A dispersion is one in a unit; Poisson's law has the same means, and none.
    family = Loss("poisson") if shape.loss.name == "negative-binomial" else shape.loss
    loss = replace(family, width=min(width, shape.loss.width or width), lowest=0.0)
    release = pure_releases(epsilon, relation)
    share = min(_MOST_SHARE, max(_SHARE, _ROWS / rows))
    counts = release(share, TargetCounts(shape, octaves_told(shape.loss), "l1"), COUNTS)
    mean = release(share, TargetSum(shape, "l1"), MEAN)
    left = left_of_pure(budget, counts.events(), mean.events())
    return MeanUnit(MeanAsked(counts, mean, None, rows), loss), replace(shape, loss=loss), left
