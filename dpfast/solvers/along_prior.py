"""Weights that are known beforehand, where rows are far fewer than weights: how far to go.

Along known weights a row is one number, its margin, and a few releases of the slope of that and of
the constant tell which multiple of the weights rows follow: all of them, none, or another.  These
are weighed by Bayes' law, with margins that are taken for normal.  What is left of the budget makes
a fit that begins there, as one without a prior begins at a constant (`_few_rows.py`).

Privacy: Gaussian releases, whose noise is fixed beforehand; the rest is post-processing.
docs/priors.md has what it brings, and where it does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpfast._typing import Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.privacy import Budget
from dpfast.privacy.calibration import budget_mu
from dpfast.queries import CoordinateGradient, bounded
from dpfast.shape import ProblemShape
from dpfast.solvers import _few_rows, dp_whitened_gd
from dpfast.solvers._contract import Outcome, Plan
from dpfast.solvers._coordinates import Coordinates
from dpfast.solvers._few_rows import Start
from dpfast.solvers._shares import releases
from dpfast.solvers._whitened_descent import Settings
from dpfast.solvers._whitened_rules import rows_per_weight

# Releases along the weights.
_STEPS = 3
# Their share of the budget, in units of mu²: the square of the first over all rows, times µ, and
# at most the second.  And their clip norm.
_FOR_LINE, _MOST, _CLIP = 30.0, 0.15, 1.0
# Probabilities that rows follow the weights, or none; else multiples of these are normal around 0,
# with this deviation.
_RIGHT, _NONE, _DEVIATION = 0.4, 0.2, 1.0
_MULTIPLES = np.linspace(-2.0, 2.0, 81)
# Deviations of the margins over those of rows that are alike along all directions.
_SPREADS = 2.0 ** np.arange(-1.0, 4.0)
# Means of the margins, less the constant, in units of the weights' length, that are thought of, and
# their deviation; or what the constant tells, if it is right, or right for the opposite weights.
_OFFSETS, _OFF = np.linspace(-1.6, 1.6, 9), 0.6
_CALIBRATED, _OPPOSITE = 0.5, 0.1
# Shares of the positive class, in deviations of what noise there is in their count.
_SHARES = np.linspace(-1.5, 1.5, 3)
_NODES, _RULE = np.polynomial.hermite_e.hermegauss(31)
_RULE = _RULE / _RULE.sum()
# What slopes are taken to be wrong by, since rows are not normal.
_NOT_NORMAL = 0.01


@dataclass(frozen=True, eq=False)
class AlongSettings:
    """What a fit follows that asks how far to go along known weights."""

    prior: Any  # what the weights are from
    w: Vector
    spread: float | None  # deviation of the margins along these, if it is known
    line: Gaussian  # the releases along these
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
    *,
    spread: float | None = None,
    public_rows: int = 0,
) -> Plan[AlongSettings] | None:
    """Settle a fit that begins along weights, which are from a prior; None if rows are not few."""
    how = {"neighboring_relation": neighboring_relation, "accountant": accountant}
    u = rows_per_weight(shape, budget, neighboring_relation, accountant)
    share = _share(u * shape.dim)
    if not (_few_rows.serves(shape, u) and share > 0.0 and w[: shape.n_features].any()):
        return None
    mu = budget_mu(budget, accountant)
    descent = dp_whitened_gd.plan(shape, Budget(mu=mu * math.sqrt(1.0 - share)), **how)
    settings = descent.settings
    query = CoordinateGradient(shape, _CLIP, settings.limit, True, 2)
    line = releases(mu, neighboring_relation)(share / _STEPS, query, "gradient along the prior")
    accesses = list(descent.accesses)
    first = [mechanism for mechanism, _ in accesses].index(settings.gradient)
    accesses.insert(first, (line, _STEPS))
    return Plan(
        solver=dp_whitened_gd.NAME,
        shape=descent.shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        settings=AlongSettings(
            prior=prior,
            w=w,
            spread=spread,
            line=line,
            descent=settings,
            rows_per_weight=settings.rows_per_weight,
            public_rows=public_rows,
            iterations=settings.iterations,
            clip=settings.clip,
        ),
        accesses=tuple(accesses),
    )


def _share(rows: float) -> float:
    """Of the budget for the releases, by all rows, times µ; not so much that too little is left."""
    return min(_MOST, (_FOR_LINE / rows) ** 2, 1.0 - (1.001 * _few_rows.LEAST_ROWS / rows) ** 2)


def run_along(plan: Plan[AlongSettings], curator: Curator) -> Outcome:
    """Begin as far along the weights as rows follow these.

    The history has the probability that they follow all of them, and the norms of the noisy mean
    gradients in the coordinates.
    """
    settings, shape = plan.settings, plan.shape
    coordinates, place = dp_whitened_gd.learn_places(settings.descent, shape, curator)
    right = []

    def begin(coordinates: Coordinates) -> Start:
        law, start = _heard(settings, shape, curator, coordinates)
        right.append(law.probably_right())
        return start

    found = dp_whitened_gd.descended(settings.descent, shape, curator, coordinates, place, begin)
    return replace(found, history={"prior_share": np.array(right[0]), **found.history})


def _heard(
    settings: AlongSettings, shape: ProblemShape, curator: Curator, coordinates: Coordinates
) -> tuple[_Law, Start]:
    """What the releases along the weights tell, and where to begin."""
    transform, line, spread = coordinates.transform, settings.line, settings.spread
    v = coordinates.of_weights(settings.w)
    unit = max(float(np.linalg.norm(v[:-1])) if spread is None else spread, 1e-12)
    pair = np.column_stack([transform[:, :-1] @ v[:-1] / unit, transform[:, -1]])
    assert isinstance(line.query, CoordinateGradient)
    pair = bounded(shape, pair, line.query.limit)
    fixed, noise = curator.fix(line.query, pair), line.stddev / shape.n_samples
    law = _Law.of(unit, float(v[-1]), coordinates, _SPREADS if spread is None else np.ones(1))
    point = law.constant()
    for _ in range(_STEPS):
        law.hear(point, curator.release(line, fixed, pair @ point) / shape.n_samples, noise)
        point = law.expected()
    start = np.append(point[0] / unit * v[:-1], point[1])
    return law, Start(start, law.width())


@dataclass
class _Law:
    """What rows may be like along the weights, as entries of vectors, and how probable it is.

    Their margins are normal, and labels follow a multiple of these, whose mean probability is the
    share of a class.
    """

    far: Vector  # the multiple, in units of the direction
    spread: Vector  # deviation of the rows along it
    offset: Vector  # and mean
    mean: Vector  # of the margins that labels follow
    right: NDArray[np.bool_]  # whether the multiple is 1
    log: Vector  # of the probabilities

    @classmethod
    def of(cls, unit: float, constant: float, coordinates: Coordinates, spreads: Vector) -> _Law:
        """Before anything is released along weights that are so many units long."""
        multiples = np.append(_MULTIPLES, [1.0, 0.0])
        broad = np.exp(-0.5 * (_MULTIPLES / _DEVIATION) ** 2)
        broad *= (1.0 - _RIGHT - _NONE) / broad.sum()
        probable = np.append(broad, [_RIGHT, _NONE])
        offsets = np.append(_OFFSETS, [0.0, 0.0])
        other = np.exp(-0.5 * (_OFFSETS / _OFF) ** 2)
        other *= (1.0 - _CALIBRATED - _OPPOSITE) / other.sum()
        believed = np.append(other, [_CALIBRATED, _OPPOSITE])
        noise, expected = coordinates.class_shares()[1], float(coordinates.probabilities()[1])
        shares = np.clip(expected + noise * _SHARES, 0.3 * expected, 0.7 + 0.3 * expected)
        axes = (np.arange(len(multiples)), spreads, np.arange(len(offsets)), np.arange(len(shares)))
        k, each, at, which = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
        spread = np.asarray(each, dtype=np.float64)
        share = shares[which]
        log = np.log(probable[k]) + np.log(believed[at]) - 0.5 * _SHARES[which] ** 2
        far, offset = unit * multiples[k], offsets[at]
        own = _intercepts(share, unit * spread)
        offset = np.where(at == len(_OFFSETS), (own - constant) / unit, offset)
        offset = np.where(at == len(_OFFSETS) + 1, -(own + constant) / unit, offset)
        mean = _intercepts(share, np.abs(far) * spread)
        return cls(far, spread, offset, mean, k == len(_MULTIPLES), log)

    @property
    def probabilities(self) -> Vector:
        found: Vector = np.exp(self.log - self.log.max())
        found /= found.sum()
        return found

    def constant(self) -> Vector:
        """The best constant prediction."""
        none = np.where(self.far == 0.0, self.probabilities, 0.0)
        return np.array([0.0, float(none @ self.mean / none.sum())])

    def expected(self) -> Vector:
        """How far to go along the weights, and the constant there."""
        p = self.probabilities
        constant = float(p @ (self.mean - self.far * self.offset))
        return np.array([float(p @ self.far), constant])

    def width(self) -> float:
        """Deviation of the margins there."""
        p = self.probabilities
        return abs(float(p @ self.far)) * math.sqrt(float(p @ self.spread**2))

    def probably_right(self) -> float:
        return float(self.probabilities @ self.right)

    def hear(self, point: Vector, told: Vector, noise: float) -> None:
        """Take in mean slopes along the weights and the constant at a point, clipped there."""
        z = self.offset + self.spread * _NODES[:, None]
        predicted = expit(point[0] * z + point[1])
        positive = expit(self.mean + self.far * self.spread * _NODES[:, None])
        kept = _CLIP / np.sqrt(z**2 + 1.0) / np.maximum(predicted, 1.0 - predicted)
        slopes = _RULE[:, None] * np.minimum(1.0, kept) * (predicted - positive)
        missed = (told[0] - (slopes * z).sum(axis=0)) ** 2 + (told[1] - slopes.sum(axis=0)) ** 2
        self.log = self.log - 0.5 * missed / (noise**2 + _NOT_NORMAL**2)


def _intercepts(shares: Vector, widths: Vector) -> Vector:
    """Means of normal margins of these deviations, whose mean probabilities are the shares."""
    found: Vector = np.log(shares / (1.0 - shares)) * np.sqrt(1.0 + widths**2 / 2.9)
    for _ in range(3):
        p = expit(widths * _NODES[:, None] + found)
        steepness = np.maximum(_RULE @ (p * (1.0 - p)), 1e-6)
        found = found - np.clip((_RULE @ p - shares) / steepness, -1.0, 1.0)
    return found
