"""The law of targets, from noisy counts by octave.

Most of a heavy tail lies in octaves whose counts do not stand out of the noise, and clipped slopes
do not see it either.  So the counts are drawn towards those of a lognormal law (and a mass below
all octaves) that is fitted to them, each as far as its noise asks for.  All of it is
post-processing of the counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpfast.losses import Loss

Vector = NDArray[np.float64]

# Of the targets in an octave: their mean and mean square, in units of its upper end.
_MIDDLE, _SQUARE = 0.72, 0.56
# Deviations of the noise by which what lies beyond an edge must stand out.
_SEEN = 2.5
# Standard deviations of the lognormal laws, in octaves.
_NARROWEST, _WIDEST, _WIDTHS = 0.25, 3.0, 16
# How far a count may lie from the fitted one: in units of it, or of what may lie an octave below.
_APART, _DECAY = 0.5, 0.4


@dataclass(frozen=True)
class TargetLaw:
    """Shares of the targets by octave.

    Attributes
    ----------
    edges : ndarray of shape (k,)
        Upper ends of the octaves.
    shares : ndarray of shape (k,)
        What is missing to 1 lies below.
    """

    edges: Vector
    shares: Vector

    @classmethod
    def of(cls, edges: Vector, noisy: Vector, noise: float) -> TargetLaw:
        """From shares with noise of this standard deviation."""
        cells = _lognormal(len(edges))
        height = np.clip((cells @ noisy) / np.einsum("ij,ij->i", cells, cells), 0.0, 1.0)
        misfit = np.sum((noisy - height[:, None] * cells) ** 2, axis=1) / noise**2
        likely = np.exp(-0.5 * (misfit - misfit.min()))
        fitted = (likely * height / likely.sum()) @ cells
        apart = _APART * fitted
        for octave in range(1, len(apart)):
            apart[octave] = max(apart[octave], _DECAY * apart[octave - 1])
        known = apart**2 / (apart**2 + noise**2)
        return cls(edges, np.maximum(fitted + known * (noisy - fitted), 0.0))

    @property
    def mean(self) -> float:
        """Of the targets."""
        return _MIDDLE * float(self.shares @ self.edges)

    @property
    def relative(self) -> float:
        """Standard deviation over the mean."""
        root = math.sqrt(_SQUARE * float(self.shares @ self.edges**2))
        return math.sqrt(max((root / max(self.mean, 1e-300)) ** 2 - 1.0, 0.0))

    def missed(self, loss: Loss, margin: float, clip: float) -> float:
        """By how much the logarithm of the mean is above a margin at which clipped slopes cancel.

        Parameters
        ----------
        loss : Loss
        margin : float
            Where the sum of the slopes, clipped at `clip` over the length of ``(1, r)``, r standard
            normal, is zero.
        clip : float
        """
        nodes, weights = np.polynomial.hermite_e.hermegauss(9)
        limits = clip / np.sqrt(1.0 + nodes**2)
        below = max(0.0, 1.0 - float(self.shares.sum()))
        values = np.append(0.5 * self.edges[0], _MIDDLE * self.edges)
        shares = np.append(below, self.shares)
        low, high = loss.target_range
        # The shape of the law is known better than its scale, which the margin tells.
        scale = math.exp(margin) / max(self.mean, 1e-300)
        for _ in range(4):
            targets = np.clip(scale * values, low, high)
            center = _center(loss, targets, shares, limits, weights)
            mean = float(shares @ targets) / float(shares.sum())
            scale *= math.exp(margin - center)
        return math.log(mean) - center


def highest(noisy: Vector, noise: float) -> int:
    """The highest octave from which on the rest of the counts stands out of the noise."""
    beyond = np.cumsum(noisy[::-1])[::-1]
    apart = noise * np.sqrt(np.arange(len(beyond), 0.0, -1.0))
    out = np.flatnonzero(beyond > _SEEN * apart)
    return int(out[-1]) if len(out) else 0


def normal_shares(ends: Vector, centers: Vector, widths: Vector) -> NDArray[np.float64]:
    """Shares between the ends of normal laws of every center and every width, one a row."""
    center, width = (grid.ravel()[:, None] for grid in np.meshgrid(centers, widths, indexing="ij"))
    return np.asarray(np.diff(ndtr((ends - center) / width), axis=1), dtype=np.float64)


def _lognormal(octaves: int) -> NDArray[np.float64]:
    """Shares in each octave of many lognormal laws, one a row."""
    centers = np.arange(-1.5, octaves + 0.75, 0.25)
    widths = np.geomspace(_NARROWEST, _WIDEST, _WIDTHS)
    cells = normal_shares(np.arange(octaves + 1.0), centers, widths)
    kept: NDArray[np.float64] = cells[cells.sum(axis=1) > 0.3]
    return kept


def _center(loss: Loss, targets: Vector, shares: Vector, limits: Vector, weights: Vector) -> float:
    """The margin at which the mean clipped slope is zero."""
    width = float(loss.width or 0.0)
    low, high = -width, width
    for _ in range(40):
        middle = 0.5 * (low + high)
        slopes = loss(np.full(len(targets), middle), targets)[1]
        if shares @ np.clip(slopes[:, None], -limits, limits) @ weights > 0.0:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)
