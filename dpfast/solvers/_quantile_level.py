"""The intercept of a quantile, from slopes along the constant alone, in the end of a descent.

Above an outer quantile slopes are many times as long as below it, and a clip cuts the longer ones:
clipped gradients have their zero nearer to the median.  Along the constant nothing need be clipped,
and noise is that of a single number.  So a few releases of the sum of these slopes at the final
weights, each at an intercept that the ones before it tell, bring the share of the targets below to
the quantile that was asked for.  The other weights stay as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpfast._typing import Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import QuantileSlopes
from dpfast.shape import ProblemShape
from dpfast.solvers._groups import SizeLaw
from dpfast.solvers._shares import Release
from dpfast.solvers._whitened_rules import sure

ROUNDS, _SLOPES = 5, "slopes along the constant"
# Of all rounds together, the share of the budget, in units of mu², with which a mean slope has this
# noise, but no more than the most; where that leaves more than this part of q (1 - q), none.
_NOISE, _LEAST, _MOST, _HIDDEN = 0.01, 0.01, 0.1, 0.4
# How dense residuals are taken to be, in units of half the range of the targets, times q (1 - q);
# the longest first move, in these units, and how much longer than one the next may be.
_DENSE, _FIRST, _LONGER = 6.0, 0.25, 2.0


@dataclass(frozen=True)
class QuantileLevel:
    """The accesses, ROUNDS of them.

    Attributes
    ----------
    slopes : Gaussian
    rows : float
        How many there are, or groups of them, by their weights at most.
    """

    slopes: Gaussian
    rows: float

    @property
    def accesses(self) -> tuple[tuple[Gaussian, int], ...]:
        """What is asked, and how often."""
        return ((self.slopes, ROUNDS),)

    def settled(
        self,
        w: Vector,
        shape: ProblemShape,
        curator: Curator,
        half: float,
        size: float,
        sizes: SizeLaw | None,
    ) -> Vector:
        """The weights with an intercept that the slopes tell.

        Parameters
        ----------
        w : ndarray of shape (dim,)
        shape : ProblemShape
        curator : Curator
        half : float
            Half the width of the range that the targets are in.
        size : float
            Of the loss's corner, over what was declared.
        sizes : SizeLaw or None
            Of the groups.
        """
        q, moved, start = shape.loss.quantile or 0.5, w.copy(), float(w[-1])
        noise = self.slopes.stddev / self.rows
        fewest, counted = (1.0, 1.0) if sizes is None else sizes.counted_above(noise)
        rows = self.rows * counted
        search = _Search(noise / counted, _DENSE * q * (1.0 - q) / half, _FIRST * half)
        for _ in range(ROUNDS):
            told = curator.release(self.slopes, moved, size, fewest)
            search.add(float(told[0]) / rows)
            moved[-1] = start + search.at / shape.intercept
        return moved


def share(shape: ProblemShape, rows: float) -> float:
    """Of the budget, in units of mu²; `rows` is ``µ n / √k``.  None for the median, which is even.

    Examples
    --------
    >>> from dpfast import Loss, ProblemShape
    >>> shape = ProblemShape(5_000, 3, 1.0, Loss("pinball", 0.9))
    >>> round(share(shape, 1_000.0), 4), share(shape, 20.0)
    (0.0405, 0.0)
    """
    q = shape.loss.quantile
    if q is None or q == 0.5 or shape.intercept == 0.0:
        return 0.0
    unit = math.sqrt(ROUNDS) * shape.loss.lipschitz / rows
    if unit > _HIDDEN * q * (1.0 - q) * math.sqrt(_MOST):
        return 0.0
    return min(_MOST, max(_LEAST, (unit / _NOISE) ** 2))


def planned(shape: ProblemShape, share: float, release: Release) -> QuantileLevel:
    """Settle the accesses; `release` calibrates one from its share of the budget."""
    rows = shape.n_samples * (1.0 if shape.several_rows else shape.max_weight)
    return QuantileLevel(release(share / ROUNDS, QuantileSlopes(shape), _SLOPES), rows)


@dataclass
class _Search:
    """Where a noisy function that never falls is 0.

    Attributes
    ----------
    noise : float
        Deviation of that in a value.
    dense : float
        How steep the function is, as far as is known.
    most : float
        The longest move.
    at : float
        Where to look next.
    below, above : tuple of (float, float) or None
        The last place with a negative value, and the last with another one, and these values.
    """

    noise: float
    dense: float
    most: float
    at: float = 0.0
    below: tuple[float, float] | None = None
    above: tuple[float, float] | None = None

    def add(self, value: float) -> None:
        """Take in the value where it was looked, and move."""
        before = self.below if value < 0.0 else self.above
        if value < 0.0:
            self.below = self.at, value
        else:
            self.above = self.at, value
        if self.below is not None and self.above is not None:
            self._between(value, before is not None)
        else:
            self._on(value, before)

    def _between(self, value: float, again: bool) -> None:
        """On a line between the ends; half the value of one that stays lets the other catch up."""
        assert self.below is not None and self.above is not None
        (low, down), (high, up) = self.below, self.above
        if again:
            down, up = (down, 0.5 * up) if value < 0.0 else (0.5 * down, up)
        self.at = low - (high - low) * down / (up - down)

    def _on(self, value: float, before: tuple[float, float] | None) -> None:
        """Farther in the same direction."""
        if before is not None and before[0] != self.at:
            steepness = (value - before[1]) / (self.at - before[0])
            self.dense = max(self.dense / _LONGER, steepness)
        move = sure(value, self.noise) * value / self.dense
        self.at -= min(self.most, max(-self.most, move))
        self.most *= _LONGER
