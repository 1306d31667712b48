"""Weights where rows are far fewer than weights: a direction, and how far to go along it.

Noise hides single columns there, and coordinates in which they have one scale spread it evenly over
directions that rows hardly move along.  In the units that columns were declared in, margins have
the noise of the rows' length alone, whatever the number of columns.  So a descent in these finds a
direction.  Its steps are short to begin with, since all columns may follow one factor, and get
longer as far as gradients deny that.  Whether it is more than noise cannot be told from its length;
but rows have one number along it, whose slope is known as well as that of the constant.  A few
gradients in these two numbers tell how far to go (`_normal_margins.py`).  Without a signal the
constant is all that there is: the first of the descent's gradients go along it alone, until it is
known well enough, most of them if a class is rare.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import CoordinateGradient, bounded
from dpfast.queries.coordinates import column_transform
from dpfast.shape import ProblemShape
from dpfast.solvers import _lengths
from dpfast.solvers._class_counts import counted_until
from dpfast.solvers._coordinates import Columns, Coordinates
from dpfast.solvers._doubtful import SEVERAL
from dpfast.solvers._normal_margins import NormalMargins
from dpfast.solvers._shares import Release
from dpfast.solvers._whitened_descent import Settings, start_of

# Rows behind one weight, times µ, below which this is done: in general, and with FEW_WEIGHTS or
# fewer, of which `_confirmation` asks for no gradients.
_FEW, FEW_WEIGHTS, _FEW_OF_THESE = 1.5, 64, 1.8
# So many of all rows, times µ, or more.
_ROWS = 50.0
# Shares of the budget for the rows' lengths and for the gradients along the direction.
_LENGTHS, _ALONG = 0.05, 0.2
SHARE = _LENGTHS + _ALONG
# Count and weight of a category may be noise alone if their squares, over its variance, sum to
# less than this and twice the logarithm of the columns.
_DOUBTFUL = 8.0
# Gradients along the direction, and their clip.
STEPS, CLIP = 5, 1.0
# Deviation of the intercept that is known well enough, and how many gradients are left in any case.
_KNOWN, _LEFT = 0.3, 2
# Deviation of the margins that noise is to make, and the first step, in units of one over the
# largest curvature that rows of the usual length may have.
_SPREAD, _SHORTEST = 0.5, 2.0
# By how much a step is longer than the last, at most, and how many deviations of the noise the
# curvature may be off what a secant tells.
_GROWTH, _DOUBT = 3.0, 1.4

#: Settings of the first descent, which ends where it ends.
SETTINGS = {
    "iterations": 10, "clip": 0.5, "learning_share": 0.12, "average": 0.0, "shrinkage": 0.0,
    "james_stein": False,
}  # fmt: skip

#: Tells weights by the coordinates and a direction in these.
Confirm = Callable[[Coordinates, Vector], Vector]


def serves(shape: ProblemShape, u: float) -> bool:
    """Whether a fit with so many rows behind one weight, times µ, is to be found so."""
    few = _FEW_OF_THESE if shape.dim <= FEW_WEIGHTS else _FEW
    return u < few and confirms(shape, u)


def confirms(shape: ProblemShape, u: float) -> bool:
    """Whether so many rows behind one weight, times µ, can tell how far to go along weights."""
    plain = shape.loss.multiclass and not shape.several_rows and not shape.weighted
    return plain and shape.intercept != 0.0 and u * shape.dim >= _ROWS


def planned(shape: ProblemShape, limit: float, release: Release) -> dict[str, Any]:
    """Settle the accesses besides the gradients of the first descent."""
    lengths = _lengths.planned(shape, _LENGTHS, release)
    return {"row_lengths": lengths, "along": along(shape, limit, release)}


def along(shape: ProblemShape, limit: float, release: Release, directions: int = 1) -> Gaussian:
    """Settle the gradients along so many directions and the constant."""
    query = CoordinateGradient(shape, CLIP, limit, True, directions + 1)
    return release(_ALONG / STEPS, query, "gradient along the weights")


def with_steps(settings: Settings, shape: ProblemShape) -> Settings:
    """The settings with a first step that no rows of the usual length make go astray."""
    return replace(settings, step=min(_SHORTEST / shape.dim, _longest(settings, shape)))


def _longest(settings: Settings, shape: ProblemShape) -> float:
    """The step after which noise moves margins by what it may."""
    noise = settings.gradient.stddev / shape.n_samples / settings.curvature
    return _SPREAD / (noise * math.sqrt(shape.dim * settings.iterations))


def descended(
    settings: Settings,
    shape: ProblemShape,
    curator: Curator,
    coordinates: Coordinates,
    confirm: Confirm | None = None,
) -> tuple[Vector, Coordinates, Vector]:
    """The weights, the coordinates, and the norms of the noisy mean gradients in these.

    `confirm` tells the weights in the end, by the direction and more, if that is not all.
    """
    assert settings.row_lengths is not None
    center = _center(coordinates.columns, shape)
    length = shape.data_norm * _lengths.told_length(settings.row_lengths, curator, center=center)
    # One factor for all columns, with which rows of this length are as long as white ones.
    scale = np.full(shape.n_features, length / math.sqrt(shape.dim))
    transform = bounded(shape, column_transform(shape, center, scale), settings.limit)
    coordinates = replace(coordinates, transform=transform)
    settings, coordinates = counted_until(
        _knows_intercept, _LEFT, settings, shape, curator, coordinates
    )
    direction, spread, off, norms = _direction(settings, shape, curator, coordinates)
    direction = _limited(direction, coordinates.columns, off) / spread
    if confirm is not None:
        return confirm(coordinates, direction), coordinates, norms
    pair = np.column_stack([transform[:, :-1] @ direction, transform[:, -1]])
    pair = bounded(shape, pair, settings.limit)
    two = replace(coordinates, transform=pair)
    return pair @ _confirmed(settings, shape, curator, two), coordinates, norms


def _knows_intercept(coordinates: Coordinates) -> bool:
    """Whether the shares of the classes tell where a constant prediction is."""
    _, noise, _ = coordinates.class_shares()
    return noise <= _KNOWN * float(np.prod(coordinates.probabilities()))


def _center(columns: Columns, shape: ProblemShape) -> Vector:
    """Where to center the rows, whatever the noise no farther out than they reach.

    Numbers at the mean of their centers, as far as that exceeds its noise (from 1.4 deviations on):
    one factor of all columns may follow it.  Beyond that all columns at their own, as far as these
    do.
    """
    center, numbers = np.zeros(shape.n_features), ~columns.categories
    if numbers.any():
        mean = float(columns.center[numbers].mean())
        off = float(np.square(columns.deviation[numbers]).mean()) / int(numbers.sum())
        center[numbers] = mean * _known(mean**2, 2.0 * off)
    apart = columns.center - center
    known, off = (float(np.square(sizes).sum()) for sizes in (apart, columns.deviation))
    center += apart * _known(known, off)
    return center * min(1.0, shape.data_norm / max(float(np.linalg.norm(center)), 1e-300))


def _known(square: float, off: float) -> float:
    """Which part of what has this square to keep, if noise makes so much of it."""
    return max(0.0, 1.0 - off / max(square, 1e-300))


def _direction(
    settings: Settings, shape: ProblemShape, curator: Curator, coordinates: Coordinates
) -> tuple[Vector, float, float, Vector]:
    """Where a descent ends, how far apart the margins are about, how far noise alone leads along
    one column, and the gradients' norms."""
    mechanism, v = settings.gradient, start_of(shape.loss, coordinates)
    assert mechanism.query is not None
    fixed = curator.fix(mechanism.query, coordinates.transform)
    points, slopes = np.zeros((2, settings.iterations, shape.dim - 1))
    noise = mechanism.stddev / shape.n_samples / settings.curvature
    steps, longest, most = np.full(len(points), settings.step), _longest(settings, shape), 1e-12
    for k in range(len(points)):
        told = curator.release(mechanism, fixed, coordinates.transform @ v) / shape.n_samples
        points[k], slopes[k] = v[:-1], told[:-1] / settings.curvature
        if k > 0:
            moved, changed = points[k] - points[k - 1], slopes[k] - slopes[k - 1]
            bend, doubt = _bent(moved, changed, noise, steps[k - 1])
            most = max(most, bend - doubt)  # later moves are mostly along flat directions
            steepest = max(most, bend + doubt)
            steps[k] = max(settings.step, min(longest, _GROWTH * steps[k - 1], 1.0 / steepest))
        v[:-1] -= steps[k] * slopes[k]
    off = noise * float(np.linalg.norm(steps))
    end = v[:-1]
    variance = _variance(points, slopes, steps, end, noise)
    norms = settings.curvature * np.linalg.norm(slopes, axis=1)
    return end, math.sqrt(max(shape.dim * off**2, variance)), off, norms


def _variance(points: Matrix, slopes: Matrix, steps: Vector, end: Vector, noise: float) -> float:
    """The margins' variance at the end, as far as slopes along the way tell more than noise."""
    gone = points - points.mean(axis=0)
    along = gone @ end
    # The noise of each slope led to the end, the farther the longer its step.
    bent = float(along @ (slopes @ end + len(end) * noise**2 * steps))
    return float(end @ end) * bent / float(along @ along)


def _bent(moved: Vector, changed: Vector, noise: float, followed: float) -> tuple[float, float]:
    """The curvature along a step that `followed` a gradient so far, and what noise may hide of it.

    Gradients `changed` over it; the noise in the first of them led it, and looks like curvature.

    Examples
    --------
    >>> step = np.array([2.0, 0.0])
    >>> _bent(step, 0.5 * step, 0.0, 1.0)
    (0.5, 0.0)
    """
    square = max(float(moved @ moved), 1e-300)
    bend = (float(moved @ changed) - followed * len(moved) * noise**2) / square
    return bend, _DOUBT * noise / math.sqrt(square)


def _limited(direction: Vector, columns: Columns, off: float) -> Vector:
    """The direction, along which no category without rows is to move farther than all others.

    It moves by noise of deviation `off`, and its count is noise, too.  Categories that may be so
    move as far as the farthest column that is not, or as several of them do, some of which have
    rows.
    """
    sizes, counts = np.abs(direction), np.maximum(columns.frequency, 0.0)
    told = np.square(counts / columns.frequency_deviation) + np.square(sizes / off)
    doubtful = columns.categories & (told < _DOUBTFUL + 2.0 * math.log(len(sizes)))
    several = np.sort(sizes[doubtful])[-SEVERAL:][:1]
    most = np.concatenate([sizes[~doubtful], several]).max()
    return np.where(doubtful, np.clip(direction, -most, most), direction)


def _confirmed(
    settings: Settings, shape: ProblemShape, curator: Curator, coordinates: Coordinates
) -> Vector:
    """How far to go along the direction and the constant, which the coordinates are."""
    along, transform = settings.along, coordinates.transform
    assert along is not None and along.query is not None
    fixed = curator.fix(along.query, transform)
    shares, deviation, _ = coordinates.class_shares()
    share = float(coordinates.probabilities()[1])
    margins = NormalMargins(float(shares[1]), deviation, share)
    v = np.array([0.0, float(start_of(shape.loss, coordinates)[-1])])
    for _ in range(STEPS):
        told = curator.release(along, fixed, transform @ v) / shape.n_samples
        margins.add(told, along.stddev / shape.n_samples, v, CLIP)
        v = margins.best(v)
    return v
