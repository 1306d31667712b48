"""Weights of public rows, where private ones are far fewer than weights: one number more.

A fit without a prior finds one direction there, and gradients along it and the constant tell how
far to go (`_few_rows.py`).  With the weights of public rows these tell it of three numbers
together: the multiple of the known weights that rows follow, none or the opposite if need be, the
direction, and the constant.  Margins along both are taken for normal, of unknown widths and
correlation, and labels for logistic; the gradients' noise is known.  So what is most likely is a
least-squares problem of eight numbers, for each of few beliefs about the known weights, which are
weighed by Bayes' law (Laplace's approximation).  Each gradient is released at what is expected by
then.

Privacy: the accesses of a fit without a prior, of one coordinate more; the rest is post-processing.
docs/priors.md has what it brings, and where it does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import least_squares
from scipy.special import expit

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.privacy import Budget
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import bounded
from dpfast.shape import ProblemShape
from dpfast.solvers import _few_rows, dp_whitened_gd
from dpfast.solvers._contract import Outcome, Plan
from dpfast.solvers._coordinates import Coordinates
from dpfast.solvers._shares import releases
from dpfast.solvers._whitened_descent import Settings, start_of
from dpfast.solvers._whitened_rules import rows_per_weight

# All rows, times µ over how many one record changes, of which fewer do not tell three numbers.
_ROWS = 100.0
# Probabilities that rows follow all of the known weights, with their constant, and part of them;
# the first falls with the fourth power of the length beyond the third, to no less than the
# fourth of it: few margins are so long.
_RIGHT, _PART, _LONG, _LEAST = 0.5, 0.15, 3.0, 1e-12
# Then deviations of the multiple, as a share, of the way along the direction, and of the constant.
_MOVED, _LITTLE, _CONSTANT_MOVED = 0.1, 0.1, 0.2
# If rows follow part, its share, and the deviation of that; and deviations of the multiple, around
# 0, where they follow neither, and of the other two, around 0 and what class counts tell.
_HALF, _HALVES = 0.5, 0.3
_MULTIPLE, _FAR, _CONSTANT = 1.2, 1.0, 1.0
# Deviations of the logarithms of the margins' deviations along the known weights and the direction,
# of the hyperbolic arctangent of their correlation, and of their means.
_SPREAD = (0.3, 0.7, 0.7, 0.9, 0.5)
# The most of the first two logarithms; and weights beyond which they are no direction.
_WIDEST, _MOST_WEIGHT = 4.0, 1e12
# The least deviation of margins by public rows, over what it is of columns that go apart.
_NARROWEST = 0.03
# What slopes are taken to be wrong by, since rows are not normal; and how near the most likely
# numbers are found, as a share of themselves.
_NOT_NORMAL, _NEAR = 0.01, 1e-4
_NODES, _RULE = np.polynomial.hermite_e.hermegauss(11)
_FIRST, _SECOND = (nodes.ravel() for nodes in np.meshgrid(_NODES, _NODES))
_SHARES = np.outer(_RULE, _RULE).ravel() / _RULE.sum() ** 2


@dataclass(frozen=True, eq=False)
class AlongSettings:
    """What a fit follows that asks how far to go along known weights, too."""

    w: Vector  # the known weights
    margins: tuple[float, float]  # their mean and deviation by these, as public rows tell
    descent: Settings  # a whitened descent where rows are far fewer than weights
    rows_per_weight: float
    iterations: int
    clip: float


def serves(shape: ProblemShape, w: Vector, u: float) -> bool:
    """Whether a fit with known weights, and so many rows behind one weight, asks so."""
    known = float(np.abs(w[: shape.n_features]).max(initial=0.0))
    few = _few_rows.serves(shape, u) and u * shape.dim >= _ROWS
    return few and 0.0 < known < _MOST_WEIGHT


def plan_along(
    shape: ProblemShape,
    w: Vector,
    budget: Budget,
    neighboring_relation: str,
    accountant: str,
    margins: tuple[float, float],
) -> Plan[AlongSettings] | None:
    """Settle a fit that asks how far to go along known weights, too; None if rows are not few.

    `margins` are the mean and deviation of public rows' margins by these weights.
    """
    how = {"neighboring_relation": neighboring_relation, "accountant": accountant}
    u = rows_per_weight(shape, budget, neighboring_relation, accountant)
    if not serves(shape, w, u):
        return None
    plain = dp_whitened_gd.plan(shape, budget, **how)
    release = releases(budget_mu(budget, accountant), neighboring_relation)
    along = _few_rows.along(shape, plain.settings.limit, release, directions=2)
    descent = replace(plain.settings, along=along)
    settings = AlongSettings(
        w=w,
        margins=margins,
        descent=descent,
        rows_per_weight=descent.rows_per_weight,
        iterations=descent.iterations,
        clip=descent.clip,
    )
    return Plan(
        solver=plain.solver,
        shape=plain.shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        settings=settings,
        accesses=dp_whitened_gd.accesses(descent),
        expected=plain.expected,
    )


def run_along(plan: Plan[AlongSettings], curator: Curator) -> Outcome:
    """Find a direction as without a prior, and how far to go along it and the known weights.

    The history has the norms of the noisy mean gradients in the coordinates.
    """
    settings, shape = plan.settings, plan.shape
    coordinates, place = dp_whitened_gd.learn_places(settings.descent, shape, curator)
    confirm = partial(_confirmed, settings, shape, curator)
    return dp_whitened_gd.descended(settings.descent, shape, curator, coordinates, place, confirm)


def _confirmed(
    settings: AlongSettings,
    shape: ProblemShape,
    curator: Curator,
    coordinates: Coordinates,
    direction: Vector,
) -> Vector:
    """The weights: so far along the known ones, along the direction, and along the constant."""
    transform, along = coordinates.transform, settings.descent.along
    assert along is not None and along.query is not None
    v, constant = coordinates.of_weights(settings.w), transform[:, -1]
    middle, unit = settings.margins
    unit = max(unit, _NARROWEST * float(np.linalg.norm(v[:-1])), 1e-12)
    known = (settings.w - middle * constant) / unit
    three = np.column_stack([known, transform[:, :-1] @ direction, constant])
    three = bounded(shape, three, settings.descent.limit)
    start = float(start_of(shape.loss, coordinates)[-1])
    law = _Law.of(unit, middle, start, coordinates, along.stddev / shape.n_samples)
    fixed, point = curator.fix(along.query, three), np.array([0.0, 0.0, start])
    for _ in range(_few_rows.STEPS):
        told = curator.release(along, fixed, three @ point) / shape.n_samples
        law.told.append((point, told))
        point = law.expected()
    return np.asarray(three @ point, dtype=np.float64)


@dataclass
class _Law:
    """What rows may be like along two directions, and what labels follow along these.

    Eight numbers: how far labels follow each direction and the constant, the logarithms of the
    margins' deviations, the hyperbolic arctangent of their correlation, and their means.
    """

    beliefs: list[tuple[float, Vector, Vector]]  # probability, most likely numbers, deviations
    share: tuple[float, float]  # of the positive class, as counted, and the deviation of its noise
    noise: float  # deviation in mean gradients
    told: list[tuple[Vector, Vector]]  # points, and mean gradients there

    @classmethod
    def of(
        cls, unit: float, constant: float, start: float, coordinates: Coordinates, noise: float
    ) -> _Law:
        """Before anything is released along weights of that length, which have a constant."""
        right, apart = min(1.0, max(_LEAST, (_LONG / unit) ** 4)), _MOVED * unit
        beliefs = []
        for probability, multiple, at, deviations in (
            (_RIGHT * right, unit, constant, (apart, _LITTLE, _CONSTANT_MOVED)),
            (_PART, _HALF * unit, start, (_HALVES * unit, _FAR, _CONSTANT)),
            (1.0 - _RIGHT * right - _PART, 0.0, start, (_MULTIPLE, _FAR, _CONSTANT)),
        ):
            guess = np.array([multiple, 0.0, at, *np.zeros(len(_SPREAD))])
            beliefs.append((probability, guess, np.array(deviations + _SPREAD)))
        share = float(coordinates.probabilities()[1]), float(coordinates.class_shares()[1])
        return cls(beliefs, share, math.hypot(noise, _NOT_NORMAL), [])

    def expected(self) -> Vector:
        """How far to go along the directions and the constant."""
        fits = [self._likely(*belief) for belief in self.beliefs]
        evidence = np.array([each for _, each in fits])
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        expected: Vector = weights @ np.array([point for point, _ in fits])
        return expected

    def _likely(self, probability: float, guess: Vector, deviation: Vector) -> tuple[Vector, float]:
        """What is most likely by one belief, and the logarithm of how likely that is.

        Less along the direction, the more of it may be noise, and what the others are then.
        """
        missed = partial(self._missed, guess, deviation)
        fit = least_squares(missed, np.zeros(len(guess)), method="lm", ftol=_NEAR, xtol=_NEAR)
        covariance = np.linalg.inv(fit.jac.T @ fit.jac)
        evidence = math.log(probability) - fit.cost + 0.5 * np.linalg.slogdet(covariance)[1]
        covariance *= np.outer(deviation, deviation)
        numbers, doubt = guess + deviation * fit.x, covariance[1, 1]
        far = max(0.0, numbers[1])
        numbers += covariance[:, 1] / doubt * (far**3 / (far**2 + doubt) - numbers[1])
        return numbers[:3], float(evidence)

    def _missed(self, guess: Vector, deviation: Vector, x: Vector) -> Vector:
        """Residuals of the releases, and of what was believed, over their deviations."""
        numbers = guess + deviation * x
        z = _rows(numbers)
        positive = expit(z @ numbers[:3])
        share = (float(_SHARES @ positive) - self.share[0]) / self.share[1]
        points, told = (np.array(each) for each in zip(*self.told, strict=True))
        missed = (_slopes(z, positive, points) - told) / self.noise
        return np.concatenate([x, [share], missed.ravel()])


def _rows(numbers: Vector) -> Matrix:
    """Nodes of the normal law of the margins, and the constant."""
    one, two = np.exp(np.clip(numbers[3:5], -_WIDEST, _WIDEST))
    shared = math.tanh(numbers[5])
    second = shared * _FIRST + math.sqrt(1.0 - shared**2) * _SECOND
    ways = numbers[6] + one * _FIRST, numbers[7] + two * second
    return np.column_stack([*ways, np.ones(len(_FIRST))])


def _slopes(z: Matrix, positive: Vector, points: Matrix) -> Matrix:
    """Mean gradients at points, of rows that are clipped as the query clips them."""
    predicted = expit(points @ z.T)
    reach = _few_rows.CLIP / np.linalg.norm(z, axis=1)
    kept = np.minimum(1.0, reach / np.maximum(predicted, 1.0 - predicted))
    return np.asarray((_SHARES * kept * (predicted - positive)) @ z, dtype=np.float64)
