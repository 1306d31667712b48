"""What a few gradients along one direction and the constant tell of rows and labels.

Rows have one number along the direction.  It is taken for normal, of unknown mean and width, and
labels for logistic, with weights of unknown length, 0 if they do not follow the direction at all,
and an intercept by which the share of positives is what class counts tell.  The noise of gradients
is known, so Bayes' law weighs each of so many tables; where the loss to expect of these together is
least is how far to go, and the intercept.  That is 0 along the direction only if surely nothing
follows it, and short where that is likely, or where margins may be wide.
"""

from __future__ import annotations

import math

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast.solvers._intercept import (
    log_prior,
    normal_nodes,
    of_mean_probability,
    probability,
)

# Widths of margins over what was told, and means over these, with the deviations of both before
# any of it is seen.
_WIDTHS, _ABOUT = np.geomspace(0.3, 4.0, 9), 0.7
_MEANS, _ASIDE = np.linspace(-1.5, 1.5, 7), 0.6
# Lengths of the labels' weights, how likely the first is before, and the others' deviation.
_LENGTHS, _NOTHING, _USUAL = np.linspace(0.0, 6.0, 25), 0.5, 1.5
# Shares of positives: so many, within these deviations of the noise, and how near 0 or 1 at most,
# over what is to be expected.
_SHARES, _WITHIN, _RARER = 7, 2.0, 0.3
# What slopes are taken to be wrong by, since rows are not normal: at 0, where margins have yet to
# show how wide they are, and farther on.
_AT_ZERO, _NOT_NORMAL = 0.03, 0.01
# Newton's steps to the least loss: how many, how near is near enough, and the longest.
_STEPS, _NEAR, _LONGEST = 30, 1e-7, 1.0


class NormalMargins:
    """Normal margins and logistic labels that gradients make more or less likely.

    Parameters
    ----------
    told : float
        Share of positives as counted.
    deviation : float
        Of the noise in that.
    share : float
        What to expect of it, between 0 and 1.
    """

    def __init__(self, told: float, deviation: float, share: float) -> None:
        self._nodes, self._weights = normal_nodes()
        shares = _likely_shares(share, deviation)
        best = np.array([[_intercept(each, x) for each in shares] for x in _LENGTHS]).ravel()
        lengths = np.repeat(_LENGTHS, len(shares))
        self._labels = probability(best[:, None] + lengths[:, None] * self._nodes)
        counted = log_prior(shares * (1.0 - shares)) - 0.5 * np.square((shares - told) / deviation)
        widths, means = (each.ravel() for each in np.meshgrid(_WIDTHS, _MEANS))
        self._margins: Matrix = means[:, None] + widths[:, None] * self._nodes
        rows = np.square(np.log(widths) / _ABOUT) + np.square(means / (_ASIDE * widths))
        self._logs: Matrix = -0.5 * rows[:, None] + (_before()[:, None] + counted).ravel()

    def add(self, slopes: Vector, noise: float, v: Vector, clip: float) -> None:
        """Take in the mean gradient at `v`, of rows that were clipped by weights."""
        z = self._margins
        predicted = probability(v[1] + v[0] * z)
        doubt = math.hypot(noise, _NOT_NORMAL if v[0] else _AT_ZERO)
        longest = clip / np.sqrt(1.0 + np.square(z))
        kept = np.minimum(1.0, longest / np.maximum(predicted, 1.0 - predicted)) * self._weights
        for slope, part in zip(slopes, (kept * z, kept), strict=True):
            expected = (part * predicted).sum(axis=1)[:, None] - part @ self._labels.T
            self._logs -= 0.5 * np.square((slope - expected) / doubt)

    def best(self, v: Vector) -> Vector:
        """How far to go along the direction and the constant; found from `v` on."""
        chances = np.exp(self._logs - self._logs.max())
        chances /= chances.sum()
        rows = chances.sum(axis=1)[:, None] * self._weights
        labels = (chances @ self._labels) * self._weights
        inputs = np.stack([self._margins, np.ones_like(self._margins)])
        for _ in range(_STEPS):
            p = probability(v[1] + v[0] * self._margins)
            slope = np.tensordot(inputs, rows * p - labels, 2)
            bend = np.einsum("aij,bij->ab", inputs * (rows * p * (1.0 - p)), inputs)
            move = np.linalg.solve(bend + 1e-12 * np.eye(2), slope)
            move *= min(1.0, _LONGEST / max(float(np.abs(move).max()), 1e-300))
            v = v - move
            if np.abs(move).max() < _NEAR:
                break
        return v


def _likely_shares(share: float, deviation: float) -> Vector:
    """Shares about what is to be expected, whose logits are evenly apart."""
    least = max(share - _WITHIN * deviation, _RARER * share)
    most = min(share + _WITHIN * deviation, 1.0 - _RARER * (1.0 - share))
    ends = math.log(least / (1.0 - least)), math.log(most / (1.0 - most))
    return np.asarray(probability(np.linspace(*ends, _SHARES)))


def _intercept(share: float, length: float) -> float:
    """By which the mean probability is so large with weights of that length."""
    return of_mean_probability(share, length, (0.0, 0.0), 0.0)


def _before() -> Vector:
    """Logarithms of how likely the lengths are."""
    likely = np.exp(-0.5 * np.square(_LENGTHS / _USUAL))
    likely *= (1.0 - _NOTHING) / likely[1:].sum()
    likely[0] = _NOTHING
    return np.asarray(np.log(likely), dtype=np.float64)
