"""What whitened descent does more for losses with a log link (counts, costs, durations).

Their slopes have no scale that is known beforehand: a slope is a residual in units of a mean, and
the mean may be far below the highest target that was declared.  So a run

1. releases counts of the targets by octave: mean, spread and the highest octave that stands out of
   the noise follow; the descent begins at the mean, its steps are of the curvature there, and rows
   are clipped in units of the spread;
2. descends as for any loss;
3. corrects intercept and length of the weights by a few releases of their two slopes.  Rows are
   skewed and clipped, so the descent ends below the mean, too flat or too steep, but in the right
   direction; two numbers can be learned with a clip so wide that it hardly matters.

All sums are of :mod:`dpfast.queries`; docs/log_link.md has the study behind the constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian, Query
from dpfast.queries import RelativeGradient, TargetCounts
from dpfast.shape import ProblemShape
from dpfast.solvers._target_law import TargetLaw, highest

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_COUNTS, _CALIBRATION = "targets by size", "intercept and length"
# Octaves below the highest target that are told apart, at least.
_OCTAVES = 12
# Releases of the two slopes.
_ROUNDS = 4
# A round moves intercept and length no farther than this.
_FARTHEST = 0.7
# Its clip: a factor of the rule, and in means at least.
_WIDE, _LEAST = 0.25, 2.0
# Below so many rows a weight the weights are drawn to zero first.
_FEW = 10.0
# Below so many rows a weight correlations are left alone.
_CORRELATED = 20.0
# The largest means are below the highest target that stands out times this.
_BEYOND = 1.4


@dataclass(frozen=True)
class LogLink:
    """The accesses, and what public numbers a run needs besides them.

    Attributes
    ----------
    counts, calibration : Gaussian
    rows : float
        ``µ n / k`` of the whole budget.
    calibration_share : float
        Share of the budget, in units of mu².
    """

    counts: Gaussian
    calibration: Gaussian
    rows: float
    calibration_share: float

    @property
    def accesses(self) -> tuple[tuple[Gaussian, int], tuple[Gaussian, int]]:
        """The first and the last of a run."""
        return (self.counts, 1), (self.calibration, _ROUNDS)


@dataclass(frozen=True)
class Spread:
    """What the counts tell of the targets.

    Attributes
    ----------
    mean : float
    relative : float
        Standard deviation over the mean.
    top : float
        Upper end of the highest octave that stands out of the noise.
    weight : float
        Sum of the rows' weights over the number of rows.
    law : TargetLaw
    """

    mean: float
    relative: float
    top: float
    weight: float
    law: TargetLaw


def shares(rows: float) -> tuple[float, float]:
    """Of the budget, in units of mu², for the counts and for the calibration; `rows` is µ n / k."""
    return min(0.4, max(0.03, (40.0 / rows) ** 2)), min(0.15, max(0.1, 40.0 / rows))


def planned(
    shape: ProblemShape, u: float, limit: float, release: Callable[[float, Query, str], Gaussian]
) -> LogLink:
    """Settle the accesses from public quantities; `release` calibrates one from its share."""
    rows = u * shape.dim
    for_counts, for_calibration = shares(rows)
    # Columns: weights, and the intercept if there is one.
    query = RelativeGradient(shape, 1.0, limit, 1 + (shape.intercept != 0.0))
    return LogLink(
        counts=release(for_counts, TargetCounts(shape, _octaves(shape.loss)), _COUNTS),
        calibration=release(for_calibration / _ROUNDS, query, _CALIBRATION),
        rows=rows,
        calibration_share=for_calibration,
    )


def automatic_settings(u: float) -> dict[str, Any]:
    """What "auto" stands for, where that differs from other losses.

    The clip is in units of the residuals' spread; steps are shorter where noise is low, since
    curvatures differ by as much as the means do.
    """
    step = min(1.0, (u / 2.5) ** 2) / min(2.0, max(1.0, (u / 30.0) ** 0.35))
    settings = {
        "clip": min(2.1, max(0.35, 0.35 * (u / 30.0) ** 0.45)),
        "step": step,
        "intercept_step": step,
        "james_stein": u < _FEW,
    }
    return settings if u >= _CORRELATED else settings | {"correlation_share": 0.0}


def longest_row(shape: ProblemShape) -> float:
    """Length in the coordinates from which on rows count less."""
    return math.sqrt(shape.dim) / 1.5


def learn_spread(link: LogLink, shape: ProblemShape, curator: Curator) -> Spread:
    """Mean, spread and range of the targets, from noisy counts."""
    query = link.counts.query
    assert isinstance(query, TargetCounts)
    counts = curator.release(link.counts)
    edges, noise = query.edges, link.counts.stddev
    weight = min(shape.max_weight, max(float(counts.sum()), noise) / shape.n_samples)
    total = weight * shape.n_samples
    law = TargetLaw.of(edges[1:], counts[1:] / total, noise / total)
    low, high = shape.loss.target_range
    return Spread(
        mean=min(max(law.mean, low, edges[0]), high),
        relative=min(8.0, max(0.3, law.relative)),
        top=float(edges[1 + highest(counts[1:], noise)]),
        weight=weight,
        law=law,
    )


def curvature(loss: Loss, mean: float | Vector) -> Vector:
    """Of the loss where it is least, for targets of this mean: a slope over a relative residual."""
    # The mean of a rounded law may lie a rounding beyond the targets, where the loss is linear.
    means = np.clip(np.atleast_1d(np.asarray(mean, dtype=np.float64)), *loss.target_range)
    found: Vector = loss(np.log(means), means)[2]
    return found


def calibrated(
    link: LogLink,
    shape: ProblemShape,
    curator: Curator,
    transform: Matrix,
    v: Vector,
    spread: Spread,
    ridge: float,
) -> Vector:
    """`v` with intercept and length of the weights corrected by a few releases of their slopes."""
    d = shape.n_features
    length = float(np.linalg.norm(v[:d]))
    direction = v[:d] / length if length > 0.0 else np.eye(d)[0]
    columns = [transform[:, :d] @ direction]
    if shape.intercept != 0.0:
        columns.append(transform[:, d])
    pair = np.ascontiguousarray(np.column_stack(columns))
    mechanism = link.calibration
    assert mechanism.query is not None
    at = curator.fix(mechanism.query, pair)
    length = min(length, 3.0)
    # The mean of exp(<x, w>) over normal <x, w> of this deviation; the descent's own is too low.
    center = math.log(spread.mean) - 0.5 * min(length, 2.0) ** 2
    q = np.array([length, center][: len(columns)])
    found, precision = [], []
    wide = _WIDE * spread.relative * math.sqrt(link.rows * math.sqrt(link.calibration_share))
    wide = min(max(_LEAST, wide), _BEYOND * spread.top / spread.mean)
    unit = wide * float(curvature(shape.loss, spread.mean)[0])
    for _ in range(_ROUNDS):
        hessian, _ = _hessian(shape.loss, q)
        slopes = curator.release(mechanism, at, pair @ q, unit) * unit / shape.n_samples
        penalty = ridge * pair.T @ pair
        move = -np.linalg.solve(hessian * spread.weight + penalty, slopes + penalty @ q)
        q = q + move * min(1.0, _FARTHEST / max(float(np.linalg.norm(move)), 1e-300))
        q[0] = max(q[0], 0.0)
        found.append(q)
        noise = mechanism.stddev * unit / shape.n_samples / (hessian[0, 0] * spread.weight)
        precision.append(noise**-2)
    q = np.average(found[1:], axis=0, weights=precision[1:])
    if shape.intercept != 0.0:
        # Clipped slopes miss what the highest targets add to the mean.
        q[1] += spread.law.missed(shape.loss, math.log(_hessian(shape.loss, q)[1]), unit)
    # The length changes as far as that stands out of its noise.
    change = q[0] - length
    if change != 0.0:
        deviation = 1.0 / math.sqrt(sum(precision[1:]))
        change *= max(0.0, 1.0 - 2.0 * (deviation / change) ** 2)
    kept = np.zeros_like(v)
    kept[:d] = direction * max(0.0, length + change)
    if shape.intercept != 0.0:
        kept[d] = q[1]
    return kept


def _octaves(loss: Loss) -> int:
    """So many that the whole range of positive targets is told apart."""
    low, high = loss.target_range
    whole = math.ceil(math.log2(high / low)) if low > 0.0 else 0
    return 1 + min(64, max(_OCTAVES, whole))


def _hessian(loss: Loss, q: Vector) -> tuple[Matrix, float]:
    """Expected one in length and intercept for normal margins, and the mean of the targets."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)
    weights = weights / weights.sum()
    center = q[1] if len(q) > 1 else 0.0
    low, high = -float(loss.width or 0.0), float(loss.width or 0.0)
    means = np.exp(np.clip(center + q[0] * nodes, low, high))
    bend = weights * curvature(loss, means)
    full = np.array([[bend @ nodes**2, bend @ nodes], [bend @ nodes, bend.sum()]])
    return full[: len(q), : len(q)], float(weights @ means)
