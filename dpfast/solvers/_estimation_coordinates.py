"""Coordinates for estimation: white as far as the noise shows, and never stretched beyond it.

Whitened descent can live with coordinates in which a rare category's rows are very long: they are
clipped, and their coefficient stays near zero.  An estimate with a covariance cannot.  So here a
column is not stretched further than the rows of its rare value can be heard under the scores'
bound, and what was added to its variance for that is kept in its correlations.

Counts tell where the entries of a column are, which bounds that are far too wide do not.  Mean,
mean absolute deviation and variance are learned from there, in rounds, each in the units that the
one before it left; then the correlations, twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import bounded, symmetric
from dpfast.queries.coordinates import column_transform
from dpfast.shape import ProblemShape
from dpfast.solvers._column_ranges import ALL, ColumnRanges, learn_ranges
from dpfast.solvers._coordinates import Estimate, declared

#: Radius of rows while columns and correlations are learned, over the root of their number; in the
#: first round no row is longer than 1.
REACH = 1.5
# Of a bound, how far the rows of a column's rare value may reach.
_HEARD = 0.7
# A column's height is at least this many deviations, and no variance is smaller, in squared units.
_LEAST_HEIGHT, _LEAST_VARIANCE = 1.25, 1e-6
# Eigenvalues of a correlation matrix are not below so much of its noise's norm.
_FLOOR = 0.5
# Columns whose range counts tell begin so many deviations wide, and end so many of these farther.
_WIDER, _SPIKES_END = 2.0, 15.0
# Norm of that noise below which heights tell which rows of a rare value are cut.
_QUIET = 0.125


@dataclass(frozen=True)
class Columns:
    """Mean and standard deviation of the columns, and their heights.

    That is half of how far a typical non-zero entry is from a common one: for a column that is h
    with a small probability and 0 otherwise, variance over mean absolute deviation is h/2.
    """

    center: Vector
    scale: Vector
    height: Vector


def learn_columns(
    shape: ProblemShape,
    bound: float,
    ranges: ColumnRanges | None,
    mechanisms: tuple[Gaussian, ...],
    curator: Curator,
) -> Columns:
    """Mean, deviation and height of every column, whose entries are within `bound`, private.

    The values of declared categories are 0 and 1, which need not be learned.
    """
    d, n, root = shape.n_features, shape.n_samples, math.sqrt(shape.dim)
    # In these units no row is longer than the root.
    unit = shape.data_norm / root
    center, scale, top, radius = np.zeros(d), np.ones(d), np.full(d, bound / unit), root
    if ranges is not None:
        told = learn_ranges(ranges, bound, curator, mostly=ALL)
        center = np.where(told.believed, told.center / unit, center)
        wide = _WIDER * told.deviation / unit
        scale = np.where(told.believed, np.minimum(wide, scale), scale)
        top = np.where(told.believed, np.minimum(_SPIKES_END * wide, top), top)
    categories = declared(shape, "one-hot")
    least = _LEAST_VARIANCE * scale**2
    centers, variances, sizes = Estimate(d), Estimate(d), Estimate(d)
    for turn, mechanism in enumerate(mechanisms):
        noisy = curator.release(mechanism, unit * center, unit * scale) / n
        noise = mechanism.stddev / n
        above, below, squares = noisy[:d], noisy[d : 2 * d], radius * noisy[2 * d :]
        mean = above - below if shape.intercept != 0.0 else np.zeros(d)
        away = scale * (above + below)
        if turn > 0:  # the first is around zero
            away = sizes.add(away, scale * noise)
        blur = sizes.deviation() if turn > 0 else math.sqrt(2.0) * scale * noise
        variance = variances.add(scale**2 * (squares - mean**2), scale**2 * radius * noise)
        center = centers.add(center + scale * mean, scale * noise)
        known = np.maximum(variance, 0.0)
        square = np.minimum(known + 1.5 * variances.deviation(), top * (away + 2.0 * blur))
        square = np.maximum(square, np.maximum(away - blur, 0.0) ** 2)
        deviation = np.sqrt(np.maximum(square, least))
        sure = np.maximum(np.maximum(away - 2.0 * blur, 0.15 * away), 1e-9)
        height = (known + 2.0 * variances.deviation()) / sure
        height = np.minimum(np.maximum(height, _LEAST_HEIGHT * deviation), top)
        height = np.where(categories, 0.5 / unit, height)
        # Rows of a rare value are to stay within the radius of the next round.
        radius = REACH * root
        scale = np.maximum(deviation, height / (_HEARD * radius))
    return Columns(unit * center, unit * deviation, unit * height)


def learn_transform(
    shape: ProblemShape,
    columns: Columns,
    clip: float,
    mechanisms: tuple[Gaussian, ...],
    curator: Curator,
    limit: float,
) -> Matrix:
    """``W``, private, of a reach up to `limit`: coordinates ``Wᵀ x̃`` that are nearly white.

    Scores are bounded by `clip` times the root of the weights' number, so that rows are still heard
    that are ``√(clip² - 1)`` times as long.
    """
    d, n, root = shape.n_features, shape.n_samples, math.sqrt(shape.dim)
    heard = math.sqrt(max(clip**2 - 1.0, 0.1)) * root
    least = _HEARD * columns.height / heard
    added = np.maximum(least**2 - columns.scale**2, 0.0)
    scale = np.sqrt(columns.scale**2 + added)
    transform = bounded(shape, column_transform(shape, columns.center, scale), limit)
    radius = REACH * root
    half = columns.height / scale
    rare = half > _HEARD * radius
    if 2.0 * root * mechanisms[0].stddev / n < _QUIET:
        # How far the rarer of two values is: with it a row of typical others may be cut already.
        farther = half + np.sqrt(np.maximum(half**2 - 1.0, 0.0))
        rare |= farther**2 + d > radius**2
    for turn, mechanism in enumerate(mechanisms):
        gram = symmetric(curator.release(mechanism, transform), d) / n
        noise = mechanism.stddev / n
        if turn == 0:  # what the radius cut off a rare column is not to be scaled up
            lost = np.maximum(1.0 - added / scale**2 - np.diag(gram) - 2.0 * noise, 0.0)
            added = np.where(rare, np.maximum(added, lost * scale**2), added)
        loads = transform[:d, :d]
        gram += (loads.T * added) @ loads
        values, vectors = np.linalg.eigh(gram)
        values = np.maximum(values, min(1.0, _FLOOR * 2.0 * root * noise))
        change = np.eye(shape.dim)
        change[:d, :d] = vectors / np.sqrt(values)
        transform = bounded(shape, transform @ change, limit)
    return transform
