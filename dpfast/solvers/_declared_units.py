"""Weights where rows are far fewer than weights: a direction, and how far to go along it.

Noise hides single columns there, and coordinates in which they have one scale spread it evenly over
directions that rows hardly move along.  In the units that columns were declared in, margins have
the noise of the rows' length alone, whatever the number of columns.  So a descent in these finds a
direction.  Whether it is more than noise cannot be told from its length; but rows have one number
along it, whose slope is known as well as that of the constant.  A second descent in these two
numbers tells how far to go: nowhere, unless the rows confirm it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpfast._typing import Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import CoordinateGradient, bounded
from dpfast.queries.coordinates import column_transform
from dpfast.shape import ProblemShape
from dpfast.solvers import _lengths
from dpfast.solvers._coordinates import Coordinates
from dpfast.solvers._intercept import Released, expected_intercept
from dpfast.solvers._shares import Release
from dpfast.solvers._whitened_descent import Secants, Settings, start_of
from dpfast.solvers._whitened_rules import sure

# Rows behind one weight, times µ, below which this is done, and so many of all rows.
_FEW, _ROWS = 1.0, 50.0
# Shares of the budget: of what columns and classes are learned by, of lengths, and of the second
# descent.
_LEARNING, _LENGTHS, _ALONG_SHARE = 0.2, 0.05, 0.2
SHARE = _LENGTHS + _ALONG_SHARE
# Gradients of each descent, how many of the second come from too far, and clips of both: over the
# length of rows, and along the direction.
_ITERATIONS, STEPS, _BEGIN, _CLIP, _CLIP_ALONG = 10, 5, 1, 0.5, 1.0
# Deviation of the margins that noise is to make, and the longest step, in units of one over the
# largest curvature that rows of the usual length may have.
_SPREAD, _LONGEST = 0.5, 2.0
# How many gradients without common errors those along the direction are worth.
_APART = 2.0
# Length of the first step along the direction, over that of the others.
_FIRST = 0.4
# The curvature along the direction, over the largest of a standard normal number, is within these.
_FLATTEST, _STEEPEST = 0.06, 1.5

#: Settings of such plans.
SETTINGS = {"iterations": _ITERATIONS, "clip": _CLIP, "learning_share": _LEARNING}


@dataclass(frozen=True)
class Declared:
    """The accesses besides the gradients."""

    lengths: Gaussian
    along: Gaussian


def serves(shape: ProblemShape, u: float) -> bool:
    """Whether a fit with so many rows behind one weight, times µ, is to be found so."""
    plain = shape.loss.multiclass and not shape.several_rows and not shape.weighted
    return plain and shape.intercept != 0.0 and u < _FEW and u * shape.dim >= _ROWS


def planned(shape: ProblemShape, limit: float, release: Release) -> Declared:
    """Settle the accesses."""
    query = CoordinateGradient(shape, _CLIP_ALONG, limit, True, 2)
    along = release(_ALONG_SHARE / STEPS, query, "gradient along the weights")
    return Declared(_lengths.planned(shape, _LENGTHS, release), along)


def as_declared(coordinates: Coordinates, shape: ProblemShape, length: float) -> Coordinates:
    """Coordinates that differ from the columns by one factor, and by centers, if these are known.

    Rows have the length of white ones.
    """
    columns = coordinates.columns
    known = float(columns.center @ columns.center)
    off = float(columns.deviation @ columns.deviation)
    center = columns.center * max(0.0, 1.0 - 2.0 * off / max(known, 1e-300))
    scale = np.full(shape.n_features, length / math.sqrt(shape.dim))
    transform = column_transform(shape, center, scale)
    return replace(coordinates, transform=transform)


def descended(
    settings: Settings, asked: Declared, shape: ProblemShape, curator: Curator, found: Coordinates
) -> tuple[Vector, Coordinates, list[float]]:
    """The weights, the coordinates, and the norms of the noisy mean gradients in these."""
    length = shape.data_norm * _lengths.told_length(asked.lengths, curator)
    coordinates = as_declared(found, shape, length)
    declared = bounded(shape, coordinates.transform, settings.limit)
    coordinates = replace(coordinates, transform=declared)
    way, spread, norms = _direction(settings, shape, curator, coordinates)
    constant = coordinates.transform[:, -1]
    transform = np.column_stack([coordinates.transform[:, :-1] @ way / spread, constant])
    transform = bounded(shape, transform, settings.limit)
    far = _confirmed(settings, asked.along, shape, curator, coordinates, transform)
    return transform @ far, coordinates, norms


def _direction(
    settings: Settings, shape: ProblemShape, curator: Curator, coordinates: Coordinates
) -> tuple[Vector, float, list[float]]:
    """Where a descent ends, how far apart the margins are about, and the gradients' norms."""
    mechanism, v = settings.gradient, start_of(shape.loss, coordinates)
    assert mechanism.query is not None
    fixed = curator.fix(mechanism.query, coordinates.transform)
    points, slopes = list[Vector](), list[Vector]()
    noise = mechanism.stddev / shape.n_samples / settings.curvature
    step = min(_LONGEST / shape.dim, _SPREAD / (noise * math.sqrt(shape.dim * _ITERATIONS)))
    for _ in range(settings.iterations):
        told = curator.release(mechanism, fixed, coordinates.transform @ v) / shape.n_samples
        points.append(v[:-1].copy())
        slopes.append(told[:-1])
        v[:-1] -= step / settings.curvature * told[:-1]
    # Slopes along the way tell the margins' variance where it is more than noise makes it.
    by_noise = settings.iterations * shape.dim * (step * noise) ** 2
    end, gone = v[:-1], np.array(points) - np.mean(points, axis=0)
    along = gone @ end
    bent = float(along @ (np.array(slopes) @ end)) / settings.curvature
    variance = float(end @ end) * bent / float(along @ along)
    norms = [float(np.linalg.norm(slope)) for slope in slopes]
    return end, math.sqrt(max(by_noise, variance)), norms


def _confirmed(
    settings: Settings,
    along: Gaussian,
    shape: ProblemShape,
    curator: Curator,
    coordinates: Coordinates,
    transform: Vector,
) -> Vector:
    """How far to go along the direction and the constant."""
    assert along.query is not None
    fixed, secants = curator.fix(along.query, transform), Secants(1)
    noise = along.stddev / shape.n_samples / settings.curvature
    v, followed = np.array([0.0, float(start_of(shape.loss, coordinates)[-1])]), 0.0
    points, told = np.zeros((2, STEPS, 2))
    for k in range(STEPS):
        gradient = curator.release(along, fixed, transform @ v) / shape.n_samples
        gradient = gradient / settings.curvature
        points[k], told[k] = v, gradient
        secants.add(v, gradient, noise, followed)
        followed = 1.0 / max(1.0, secants.most)
        # The margins' variance may be many times what was told: the first step is short.
        short = _FIRST if k == 0 else 1.0
        v = v - short * secants.stretched(v, followed * gradient, noise)
    curved = min(_STEEPEST, max(_FLATTEST, secants.along(noise)))
    far = float(np.mean(points[_BEGIN:, 0] - told[_BEGIN:, 0] / curved))
    # Points follow the noise of the gradients before them, so that their errors are not apart.
    doubt = noise / curved / math.sqrt(_APART)
    kept = max(0.0, far) * sure(far, doubt)
    shares, share_noise, weight = coordinates.class_shares()
    unit = shape.max_weight * weight
    width = math.sqrt(min(1.0, curved))
    released = Released(
        share=float(shares[1]),
        share_noise=share_noise,
        slope=float(told[:, 1].mean()) * settings.curvature / unit,
        slope_noise=noise * settings.curvature / unit / math.sqrt(STEPS),
        intercept=float(points[:, 1].mean()),
        length=width * abs(float(points[:, 0].mean())),
        cut=_CLIP_ALONG / math.sqrt(2.0),
        consistent=True,
    )
    return np.array([kept, expected_intercept(released, width * kept, float(v[1]))])
