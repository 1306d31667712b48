"""Weights that are known beforehand, where rows are far fewer than weights: one number more.

A fit without a prior finds one direction there, and gradients along it and the constant tell how
far to go (`_few_rows.py`).  With known weights these tell it of three numbers together: the
multiple of the known weights that rows follow, none or the opposite if need be, the direction, and
the constant.  Margins along both are taken for normal, of unknown widths and correlation, and
labels for logistic; the gradients' noise is known.  So what is most likely is a least-squares
problem of eight numbers, and each gradient is released at what is so by then.

Privacy: the accesses of a fit without a prior, of one coordinate more; the rest is post-processing.
docs/priors.md has what it brings, and where it does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

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

# Beforehand the multiple of the known weights is half of 1, the deviation of their margins taken
# for at most the first, and deviates by the second; that of the direction is 0, and deviates so.
_RIGHT, _SHIFTED, _LONG, _MOVED, _CONSTANT_MOVED, _MULTIPLE, _FAR = 0.4, 0.1, 2.0, 0.1, 0.2, 1.2, 1.0
# Deviations of the constant, of the logarithms of widths, of the correlation (its hyperbolic
# arctangent), and of means: of widths and correlation less where public rows show them.
_CONSTANT, _KNOWN, _WIDTH, _CORRELATED, _CENTER = 1.0, 0.3, 0.7, 0.7, 0.5
# What slopes are taken to be wrong by, since rows are not normal.
_NOT_NORMAL = 0.01
_NODES, _RULE = np.polynomial.hermite_e.hermegauss(11)
_FIRST, _SECOND = (nodes.ravel() for nodes in np.meshgrid(_NODES, _NODES))
_SHARES = np.outer(_RULE, _RULE).ravel() / _RULE.sum() ** 2


@dataclass(frozen=True, eq=False)
class AlongSettings:
    """What a fit follows that asks how far to go along known weights, too."""

    prior: Any  # what the weights are from
    w: Vector
    descent: Settings  # a whitened descent where rows are far fewer than weights
    rows_per_weight: float
    public_rows: int
    iterations: int
    clip: float


def plan_along(
    shape: ProblemShape,
    prior: Any,
    w: Vector,
    budget: Budget,
    neighboring_relation: str,
    accountant: str,
    public_rows: int = 0,
) -> Plan[AlongSettings] | None:
    """Settle a fit along weights, which are from a prior, too; None if rows are not few."""
    how = {"neighboring_relation": neighboring_relation, "accountant": accountant}
    u = rows_per_weight(shape, budget, neighboring_relation, accountant)
    if not (_few_rows.serves(shape, u) and w[: shape.n_features].any()):
        return None
    plain = dp_whitened_gd.plan(shape, budget, **how)
    release = releases(budget_mu(budget, accountant), neighboring_relation)
    along = _few_rows.along(shape, plain.settings.limit, release, directions=2)
    descent = replace(plain.settings, along=along)
    settings = AlongSettings(
        prior=prior,
        w=w,
        descent=descent,
        rows_per_weight=descent.rows_per_weight,
        public_rows=public_rows,
        iterations=descent.iterations,
        clip=descent.clip,
    )
    return replace(plain, settings=settings, accesses=dp_whitened_gd.accesses(descent))


def run_along(plan: Plan[AlongSettings], curator: Curator) -> Outcome:
    """Find a direction as without a prior, and how far to go along it and the known weights.

    The history has the multiple of these, and the norms of the noisy mean gradients in the
    coordinates.
    """
    settings, shape, shares = plan.settings, plan.shape, list[float]()
    coordinates, place = dp_whitened_gd.learn_places(settings.descent, shape, curator)
    confirm = partial(_confirmed, settings, shape, curator, shares)
    found = dp_whitened_gd.descended(
        settings.descent, shape, curator, coordinates, place, confirm
    )
    return replace(found, history={"prior_share": np.array(shares[0]), **found.history})


def _confirmed(
    settings: AlongSettings,
    shape: ProblemShape,
    curator: Curator,
    shares: list[float],
    coordinates: Coordinates,
    direction: Vector,
) -> Vector:
    """The weights: so far along the known ones, which is kept, the direction, and the constant."""
    transform, along = coordinates.transform, settings.descent.along
    assert along is not None and along.query is not None
    v = coordinates.of_weights(settings.w)
    unit = max(float(np.linalg.norm(v[:-1])), 1e-12)
    ways = transform[:, :-1] @ np.column_stack([v[:-1] / unit, direction])
    three = bounded(shape, np.column_stack([ways, transform[:, -1]]), settings.descent.limit)
    start = float(start_of(shape.loss, coordinates)[-1])
    law = _Law.of(unit, float(v[-1]), start, coordinates, along.stddev / shape.n_samples)
    fixed, point = curator.fix(along.query, three), np.array([0.0, 0.0, start])
    for _ in range(_few_rows.STEPS):
        told = curator.release(along, fixed, three @ point) / shape.n_samples
        law.told.append((point, told))
        point, right = law.expected()
    shares.append(right)
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
        right = min(1.0, (_LONG / unit) ** 4)
        apart = _MOVED * unit
        beliefs = [
            (_RIGHT * right, unit, apart, _MOVED, constant, _CONSTANT_MOVED),
            (_SHIFTED * right, unit, apart, _FAR, start, _CONSTANT),
            (1.0 - (_RIGHT + _SHIFTED) * right, 0.0, _MULTIPLE, _FAR, start, _CONSTANT),
        ]
        spread = [_KNOWN, _WIDTH, _CORRELATED, _CENTER, _CENTER]
        beliefs = [
            (probability, np.array([most, 0.0, at] + 5 * [0.0]), np.array([*sizes, off, *spread]))
            for probability, most, *sizes, at, off in beliefs
        ]
        share = float(coordinates.probabilities()[1]), float(coordinates.class_shares()[1])
        return cls(beliefs, share, math.hypot(noise, _NOT_NORMAL), [])

    def expected(self) -> tuple[Vector, float]:
        """How far to go along the directions and the constant, and whether the prior is right.

        Less along the second, the more of it may be noise.
        """
        found, evidence = [], []
        for probability, guess, deviation in self.beliefs:
            missed = partial(self._missed, guess, deviation)
            fit = least_squares(missed, np.zeros(8), method="lm")
            covariance = np.linalg.inv(fit.jac.T @ fit.jac)
            numbers = guess + deviation * fit.x
            far, doubt = max(0.0, numbers[1]), covariance[1, 1] * deviation[1] ** 2
            change = far * far**2 / (far**2 + doubt) - numbers[1]
            numbers += deviation * covariance[:, 1] * deviation[1] / doubt * change
            found.append(numbers[:3])
            known = 0.5 * float(np.linalg.slogdet(covariance)[1])
            evidence.append(math.log(probability) - fit.cost + known)
        weights = np.exp(np.array(evidence) - max(evidence))
        weights /= weights.sum()
        return np.asarray(weights @ np.array(found)), float(weights[:2].sum())

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
    one, two = np.exp(numbers[3:5])
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
