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
from numpy.typing import NDArray
from scipy.optimize import brentq

from dpfast.solvers._coordinates import expected_shares

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Intercepts that are thought of: between the ends, so many at a time, the likely ones more closely.
_FARTHEST, _POINTS, _TURNS = 16.0, 81, 10
# The share of positives before anything is seen: mostly Beta(4, 4), else Beta(0.6, 0.6), which has
# rare classes.
_EVEN, _ORDINARY, _RARE = 0.9, 4.0, 0.6
# Rows may be shorter than believed: slopes were cut where it says, or at a multiple of that.
_CUTS = (1.0, 2.0, 4.0)
# By how much a share of such margins may be wrong if they are not normal: a part that grows with
# their deviation, more so in the tails.
_SKEWED, _IN_TAILS = 0.1, 0.5


@dataclass(frozen=True)
class Released:
    """What was released about the intercept.

    Attributes
    ----------
    share, share_noise : float
        Of the positive class, and the deviation of the noise in it.
    slope, slope_noise : float
        The mean derivative along the constant, and the deviation of the noise in it.
    intercept, length : float
        Where that was: mean and deviation of the margins.
    cut : float
        No row's derivative was larger.
    """

    share: float
    share_noise: float
    slope: float
    slope_noise: float
    intercept: float
    length: float
    cut: float


def expected_intercept(
    released: Released,
    length: float,
    given: float,
    ridge: Callable[[float], float] = lambda b: 0.0,
) -> float:
    """The intercept with the mean probability to expect, for margins of the deviation `length`.

    Less the slope of a `ridge` that the constant has a part in, as a function of the intercept.

    Examples
    --------
    >>> seen = Released(0.1, 1e-3, 0.0, 1e-3, -3.6, 0.0, 0.25)
    >>> round(expected_intercept(seen, 0.0, -3.6), 1)  # the slope's zero is that of a rarer class
    -2.2
    """
    nodes, weights = _normal_nodes()
    low, high = -_FARTHEST, _FARTHEST
    for _ in range(_TURNS):
        intercepts = np.linspace(low, high, _POINTS)
        probabilities = _probability(intercepts[:, None] + length * nodes)
        shares = probabilities @ weights
        belief = _log_belief(released, length, probabilities, shares)
        belief = np.exp(belief - belief.max())
        belief /= belief.sum()
        center = float(belief @ intercepts)
        deviation = math.sqrt(float(belief @ np.square(intercepts - center)))
        spacing = (high - low) / (_POINTS - 1)
        if deviation > 2.0 * spacing:
            break
        reach = max(8.0 * deviation, 4.0 * spacing)
        low, high = center - reach, center + reach
    target = float(belief @ shares)
    found = root(lambda b: float(weights @ _probability(b + length * nodes)) - target + ridge(b))
    trust = 1.0 / (1.0 + _doubt(released, length) ** 2)
    return trust * found + (1.0 - trust) * given


def _doubt(released: Released, length: float) -> float:
    """By which part of itself a share may be wrong if margins of this deviation are not normal."""
    p = float(expected_shares(np.array([released.share]), released.share_noise)[0])
    return length * (_SKEWED + _IN_TAILS * length * (1.0 - 2.0 * p) ** 2)


def _log_belief(released: Released, length: float, probabilities: Matrix, shares: Vector) -> Vector:
    """Logarithm of how likely each of some intercepts is, of which these are the probabilities."""
    nodes, weights = _normal_nodes()
    p = float(expected_shares(np.array([released.share]), released.share_noise)[0])
    variance = released.share_noise**2 + (p * (1.0 - p) * _doubt(released, length)) ** 2
    found = -0.5 * np.square(released.share - shares) / variance
    predicted = _probability(released.intercept + released.length * nodes)
    by_cut = []
    for times in _CUTS:
        cut = times * released.cut
        positive, negative = np.minimum(1.0 - predicted, cut), np.minimum(predicted, cut)
        slopes = weights @ negative - probabilities @ (weights * (negative + positive))
        by_cut.append(-0.5 * np.square((released.slope - slopes) / released.slope_noise))
    belief: Vector = found + np.logaddexp.reduce(by_cut) + _log_prior(shares * (1.0 - shares))
    return belief


def _log_prior(spread: Vector) -> Vector:
    """Of shares p, as a density of their logits; `spread` is ``p (1 - p)``."""
    parts = ((_EVEN, _ORDINARY), (1.0 - _EVEN, _RARE))
    density = sum(part * math.gamma(2.0 * a) / math.gamma(a) ** 2 * spread**a for part, a in parts)
    return np.asarray(np.log(density), dtype=np.float64)


def _probability(margin: Matrix) -> Matrix:
    return 0.5 + 0.5 * np.tanh(0.5 * margin)


@lru_cache(maxsize=1)
def _normal_nodes() -> tuple[Vector, Vector]:
    """Nodes and weights of means over a standard normal law."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    return nodes, weights / weights.sum()


def root(rising: Callable[[float], float]) -> float:
    """Where a function that never falls changes its sign, among margins."""
    low, high = -40.0, 40.0
    if rising(low) >= 0.0:
        return low
    return float(brentq(rising, low, high, xtol=1e-13)) if rising(high) > 0.0 else high
