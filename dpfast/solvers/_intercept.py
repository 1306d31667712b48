"""The intercept of logistic regression, from all that was released about it.

Two things were: noisy weights of the two classes, and the gradients along the constant.  Where
gradients are clipped the latter have their zero elsewhere: slopes of at most a quarter say how many
rows lie on either side, and a class of a tenth looks like one of a fortieth.  And the weights are
drawn to zero in the end, which leaves the intercept behind.

Margins are taken for normal, with the mean and the deviation that the weights have in coordinates
in which rows are white.  Then the share of positives that an intercept stands for has a likelihood,
and the model gets the mean probability that is to be expected of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast.solvers._coordinates import expected_shares

# Intercepts that are thought of: between the ends, so many at a time, the likely ones more closely.
_FARTHEST, _POINTS, _TURNS = 16.0, 81, 10
# The share of positives before anything is seen: mostly Beta(4, 4), else Beta(0.6, 0.6), which has
# rare classes.
_EVEN, _ORDINARY, _RARE = 0.9, 4.0, 0.6
_PRIOR = [
    (part * math.gamma(2.0 * a) / math.gamma(a) ** 2, a)
    for part, a in ((_EVEN, _ORDINARY), (1.0 - _EVEN, _RARE))
]
# Margins among which roots are, how near one is near enough, and the most steps, Newton's first.
_ENDS, _NEAR, _STEPS, _NEWTON = (-40.0, 40.0), 1e-12, 100, 30
# Rows may be shorter than believed: slopes were cut where it says, or at a multiple of that.
_CUTS = (1.0, 2.0, 4.0)
# By how much a share of such margins may be wrong if they are not normal: a part that grows with
# their deviation, more so in the tails.
_SKEWED, _IN_TAILS = 0.1, 0.5


@dataclass(frozen=True)
class Released:
    """What was released about the intercept."""

    share: float  # of the positive class
    share_noise: float
    slope: float  # the mean derivative along the constant
    slope_noise: float
    intercept: float  # where that was: mean and deviation of the margins
    length: float
    cut: float  # no row's derivative was larger
    consistent: bool = False  # whether rows were cut by weights, see CoordinateGradient


def expected_intercept(
    released: Released, length: float, given: float, ridge: tuple[float, float] = (0.0, 0.0)
) -> float:
    """The intercept with the mean probability to expect, for margins of the deviation `length`.

    Less the slope of a `ridge` that the constant has a part in: at the intercept 0, and by how much
    it grows with the intercept.

    Examples
    --------
    >>> seen = Released(0.1, 1e-3, 0.0, 1e-3, -3.6, 0.0, 0.25)
    >>> round(expected_intercept(seen, 0.0, -3.6), 1)  # the slope's zero is that of a rarer class
    -2.2
    """
    nodes, weights = normal_nodes()
    p = float(expected_shares(np.array([released.share]), released.share_noise)[0])
    doubt = share_doubt(p, length)
    variance = released.share_noise**2 + (p * (1.0 - p) * doubt) ** 2
    predicted_slopes = _predicted_slopes(released)
    low, high = -_FARTHEST, _FARTHEST
    for _ in range(_TURNS):
        intercepts = np.linspace(low, high, _POINTS)
        probabilities = probability(intercepts[:, None] + length * nodes)
        shares = probabilities @ weights
        belief = -0.5 * np.square(released.share - shares) / variance
        belief += _log_of_slopes(released, predicted_slopes(probabilities))
        belief += log_prior(shares * (1.0 - shares))
        belief = np.exp(belief - belief.max())
        belief /= belief.sum()
        center = float(belief @ intercepts)
        deviation = math.sqrt(float(belief @ np.square(intercepts - center)))
        spacing = (high - low) / (_POINTS - 1)
        if deviation > 2.0 * spacing:
            break
        reach = max(8.0 * deviation, 4.0 * spacing)
        low, high = center - reach, center + reach
    found = of_mean_probability(float(belief @ shares), length, ridge, center)
    trust = 1.0 / (1.0 + doubt**2)
    return trust * found + (1.0 - trust) * given


def share_doubt(share: float, length: float) -> float:
    """By which part of itself a share may be wrong if margins of this deviation are not normal."""
    return length * (_SKEWED + _IN_TAILS * length * (1.0 - 2.0 * share) ** 2)


def _predicted_slopes(released: Released) -> Callable[[Matrix], Matrix]:
    """The function of rows' probabilities that has the slopes to see, a column a cut."""
    nodes, weights = normal_nodes()
    predicted = probability(released.intercept + released.length * nodes)
    cuts = released.cut * np.array(_CUTS)[:, None]
    positive, negative = np.minimum(1.0 - predicted, cuts), np.minimum(predicted, cuts)
    if released.consistent:
        alike = np.minimum(1.0, cuts / np.maximum(predicted, 1.0 - predicted))
        positive, negative = alike * (1.0 - predicted), alike * predicted
    of_negative, both = negative @ weights, ((negative + positive) * weights).T
    return lambda probabilities: of_negative - probabilities @ both


def _log_of_slopes(released: Released, slopes: Matrix) -> Vector:
    """Logarithm of how likely the slope that was released is, whichever the cut was."""
    by_cut = -0.5 * np.square((released.slope - slopes) / released.slope_noise)
    best = by_cut.max(axis=1)
    found: Vector = best + np.log(np.exp(by_cut - best[:, None]).sum(axis=1))
    return found


def of_mean_probability(
    target: float, length: float, ridge: tuple[float, float], start: float
) -> float:
    """The intercept at which mean probability and slope of the ridge add up to the target."""
    nodes, weights = normal_nodes()

    def rising(b: float) -> tuple[float, float]:
        p = probability(b + length * nodes)
        slope = float(weights @ (p * (1.0 - p)))
        return float(weights @ p) - target + ridge[0] + ridge[1] * b, slope + ridge[1]

    return root(rising, start)


def log_prior(spread: Vector) -> Vector:
    """Of shares p, as a density of their logits; `spread` is ``p (1 - p)``."""
    density = sum(factor * spread**power for factor, power in _PRIOR)
    return np.asarray(np.log(density), dtype=np.float64)


def probability(margin: Matrix) -> Matrix:
    return 0.5 + 0.5 * np.tanh(0.5 * margin)


@lru_cache(maxsize=1)
def normal_nodes() -> tuple[Vector, Vector]:
    """Nodes and weights of means over a standard normal law."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    return nodes, weights / weights.sum()


def root(rising: Callable[[float], tuple[float, float]], start: float = 0.0) -> float:
    """Where a function that never falls, and comes with its slope, changes its sign among margins.

    Newton's steps, if they stay between points of either sign, and not too many of them.
    """
    (low, high), at = _ENDS, start
    for count in range(_STEPS):
        value, slope = rising(at)
        if value == 0.0:
            return at
        low, high = (low, min(high, at)) if value > 0.0 else (max(low, at), high)
        moved = at - value / slope if slope > 0.0 and count < _NEWTON else high
        if not low < moved < high:
            moved = 0.5 * (low + high)
        if abs(moved - at) < _NEAR:
            return moved
        at = moved
    return at
