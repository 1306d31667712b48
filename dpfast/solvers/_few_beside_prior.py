"""Weights that are known beforehand, where rows are far fewer than weights: how far to go.

Along known weights a row is one number, its margin, and a few releases of the slope of that and of
the constant tell which multiple of the weights rows follow: all of them, none, or another.  These
are weighed by Bayes' law, with margins that are taken for normal.  What is left of the budget makes
a fit that begins there, as one without a prior begins at a constant (`_few_rows.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import CoordinateGradient, bounded
from dpfast.shape import ProblemShape
from dpfast.solvers._coordinates import Coordinates
from dpfast.solvers._few_rows import LEAST_ROWS, Start
from dpfast.solvers._shares import Release

#: Releases along the weights.
STEPS = 3
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


def share(rows: float) -> float:
    """Of the budget for the releases, by all rows, times µ; not so much that too little is left."""
    return max(0.0, min(_MOST, (_FOR_LINE / rows) ** 2, 1.0 - (1.001 * LEAST_ROWS / rows) ** 2))


def planned(shape: ProblemShape, limit: float, part: float, release: Release) -> Gaussian:
    """One of the releases, which have this part of the budget together."""
    query = CoordinateGradient(shape, _CLIP, limit, True, 2)
    return release(part / STEPS, query, "gradient along the prior")


@dataclass(frozen=True)
class Found:
    """Where rows follow the weights, and how probable it is that they follow all of them."""

    start: Start
    right: float


def start_along(
    w: Vector,
    line: Gaussian,
    shape: ProblemShape,
    curator: Curator,
    coordinates: Coordinates,
    spread: float | None = None,
) -> Found:
    """Where to begin, for known weights, along which margins have a `spread` if that is known."""
    transform = coordinates.transform
    v = coordinates.of_weights(w)
    unit = max(float(np.linalg.norm(v[:-1])) if spread is None else spread, 1e-12)
    pair = np.column_stack([transform[:, :-1] @ v[:-1] / unit, transform[:, -1]])
    assert isinstance(line.query, CoordinateGradient)
    pair = bounded(shape, pair, line.query.limit)
    fixed, noise = curator.fix(line.query, pair), line.stddev / shape.n_samples
    law = _Law.of(unit, float(v[-1]), coordinates, _SPREADS if spread is None else np.ones(1))
    point = law.constant()
    for _ in range(STEPS):
        law.hear(point, curator.release(line, fixed, pair @ point) / shape.n_samples, noise)
        point = law.expected()
    start = np.append(point[0] / unit * v[:-1], point[1])
    return Found(Start(start, law.width()), law.probably_right())


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
        k, spread, at, which = (each.ravel() for each in np.meshgrid(*axes, indexing="ij"))
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
        return found / found.sum()

    def constant(self) -> Vector:
        """The best constant prediction."""
        none = np.where(self.far == 0.0, self.probabilities, 0.0)
        return np.array([0.0, float(none @ self.mean / none.sum())])

    def expected(self) -> Vector:
        """How far to go along the weights, and the constant there."""
        p = self.probabilities
        return np.array([p @ self.far, p @ (self.mean - self.far * self.offset)])

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
