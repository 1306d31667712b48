"""What a noisy descent and public rows tell together, the less of the latter the less they agree.

Public rows give a normal law of the weights.  Its likelihood is taken to a power between 0 and 1
(power prior: Ibrahim & Chen 2000), so that one row counts as that share of a private one; which
powers are likely, the descent's end tells, whose own law is nearly known: the noise is public, and
what clipping and few steps make of the weights is tried out on the public rows.  The result is the
mean over all powers, so that nothing hangs on one decision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_POWERS = (1.0, 1.0 / 2.0, 1.0 / 4.0, 1.0 / 8.0, 1.0 / 16.0, 1.0 / 64.0, 0.0)
# By what the weights may be less spread beforehand where public rows count less.
_NARROWER = (1.0, 4.0, 16.0)


@dataclass(frozen=True, eq=False)
class PublicLaw:
    """Weights in some coordinates, normal by what public rows tell.

    Attributes
    ----------
    mean : ndarray of shape (dim,)
    precision : ndarray of shape (dim, dim)
    beforehand : ndarray of shape (dim, dim)
        The part of the precision that was there before the rows.
    free : int
        Coordinates that are not the intercept's.
    """

    mean: Vector
    precision: Matrix
    beforehand: Matrix
    free: int

    def tempered(self, power: float, narrower: float) -> tuple[Vector, Matrix]:
        """Mean and covariance if the rows count by this power, and weights are less spread."""
        own = np.full(len(self.mean), math.sqrt(narrower))
        own[self.free :] = 1.0
        precision = power * (self.precision - self.beforehand) + own[:, None] * (
            self.beforehand * own
        )
        covariance = np.linalg.inv(precision)
        return power * covariance @ (self.precision @ self.mean), covariance

    def share(self, weights: Vector) -> float:
        """How much of the rows' own weights is in others."""
        along = self.beforehand[: self.free, : self.free] @ self.mean[: self.free]
        whole = float(along @ self.mean[: self.free])
        return float(along @ weights[: self.free]) / whole if whole > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class Course:
    """What a descent makes of the minimizer ``w``: ``M w``, noise, and what `missed` says.

    Attributes
    ----------
    matrix : ndarray of shape (dim, dim)
        ``M``.
    missed : ndarray of shape (dim,)
        What is not linear, in the descent to the public rows' weights.
    noise : ndarray of shape (dim, dim)
        Covariance.
    """

    matrix: Matrix
    missed: Vector
    noise: Matrix


def weigh(v: Vector, course: Course, law: PublicLaw) -> tuple[Vector, float]:
    """The weights to expect, where a descent ended at `v`, and the power to expect."""
    M, logs, means, powers = course.matrix, [], [], []
    for power in _POWERS:
        choices = (1.0,) if power == 1.0 else _NARROWER
        for narrower in choices:
            mean, covariance = law.tempered(power, narrower)
            gap = v - M @ mean - law.share(mean) * course.missed
            spread = M @ covariance @ M.T + course.noise
            explained = np.linalg.solve(spread, gap)
            surprise = float(np.linalg.slogdet(spread)[1] + gap @ explained)
            logs.append(-0.5 * surprise - math.log(len(choices)))
            means.append(mean + covariance @ M.T @ explained)
            powers.append(power)
    likely = np.exp(np.array(logs) - max(logs))
    likely /= likely.sum()
    found: Vector = likely @ np.array(means)
    return found, float(likely @ np.array(powers))
