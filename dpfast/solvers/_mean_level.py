"""The intercept of a mean over groups of rows, from one sum of residuals in the end of a descent.

Groups' gradients are cut by how long most of them are, so of a skewed tail a part is lost, and with
it a part of the mean.  A sum of residuals is one number, which may be cut farther out for the same
noise: what it says at the final weights is added to the intercept.  The other weights stay as they
are.  Of single rows counts of the tails do better (`dpfast/solvers/_target_tails.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpfast._typing import Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import ResidualSum
from dpfast.shape import ProblemShape
from dpfast.solvers._groups import SizeLaw
from dpfast.solvers._shares import Release
from dpfast.solvers._whitened_rules import is_mean, sure

_RESIDUALS = "sum of residuals"
# Share of the budget, in units of mu².
SHARE = 0.03
# Share of the residuals beyond half the range of the targets, as a guess.  If more are beyond the
# fewer the farther out, as of laws of finite variance, noise and bias are least in the geometric
# mean of that range and the one with as much noise.  No residual is longer than the last.
_BEYOND, _LONGEST = 0.05, 2.0


@dataclass(frozen=True)
class MeanLevel:
    """The access.

    Attributes
    ----------
    residuals : Gaussian
    rows : float
        How many groups there are.
    """

    residuals: Gaussian
    rows: float

    @property
    def accesses(self) -> tuple[tuple[Gaussian, int], ...]:
        """What is asked, and how often."""
        return ((self.residuals, 1),)

    def settled(
        self,
        w: Vector,
        shape: ProblemShape,
        curator: Curator,
        half: float,
        size: float,
        sizes: SizeLaw | None,
    ) -> Vector:
        """The weights with an intercept at which residuals add up to nothing."""
        del size
        noise = self.residuals.stddev / self.rows  # in units of the cut
        fewest, counted = (1.0, 1.0) if sizes is None else sizes.counted_above(noise)
        noise /= counted
        cut = min(_LONGEST, half * math.sqrt(_BEYOND / noise))
        told = curator.release(self.residuals, w, cut, fewest)
        mean = float(told[0]) / (self.rows * counted)
        moved = w.copy()
        moved[-1] -= sure(mean, noise) * mean * cut / shape.intercept
        return moved


def planned(shape: ProblemShape, release: Release) -> MeanLevel | None:
    """Settle the access, if a mean is asked for that noise does not hide."""
    if not (is_mean(shape.loss) and shape.several_rows) or shape.intercept == 0.0:
        return None
    residuals, rows = release(SHARE, ResidualSum(shape), _RESIDUALS), float(shape.n_samples)
    return MeanLevel(residuals, rows) if residuals.stddev <= _BEYOND * rows else None
