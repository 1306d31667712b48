"""Gradients along the constant alone, as long as a class may have too few rows to learn weights.

Near a constant prediction the loss is curved as ``p (1 - p)``, ``p`` the share of the rarer class,
but the noise in a clipped gradient is the same for all shares.  So rows behind a weight count by
``4 p (1 - p)``, times their own weights over the largest.  Where that leaves too few of them the
fit is to be a constant, for which most of the budget is far better spent on the constant's own
slope: with nothing else in them, rows are as long as they may be, and noise is √d times smaller.

Several classes have far more weights than intercepts, and if nothing but noise is seen of the
weights they go: the intercepts are what is left to be wrong.  Some gradients are spent on these,
more if a class is rare, since a share that is off costs the more the smaller it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.special import softmax

from dpfast._typing import Matrix
from dpfast.curator import Curator
from dpfast.queries.coordinates import reach_of
from dpfast.shape import ProblemShape
from dpfast.solvers._class_shares import constant_of, longest_slope
from dpfast.solvers._coordinates import Coordinates
from dpfast.solvers._whitened_descent import Settings, start_of, tells_shares, told_of
from dpfast.solvers._whitened_rules import ALL_WEIGHTS, SURE, least_share

# Rows behind one weight, times µ, as if classes were even, from which on weights are learned.
_ENOUGH = 1.0
# Several classes are counted until noise in their shares costs no more than this of the log-loss,
# by at most one gradient in so many.
_COST, _ONE_IN = 0.005, 8


def counted(
    settings: Settings, shape: ProblemShape, curator: Curator, coordinates: Coordinates
) -> tuple[Settings, Coordinates]:
    """The coordinates with what such gradients tell of the classes, and settings of what is left.

    The last gradient is always left.
    """
    settled = settings.james_stein and settings.groups is None
    if not settled or not tells_shares(shape, coordinates):
        return settings, coordinates
    _, noise, total = coordinates.class_shares()
    # Rows count by their own weights, too; the noise is that of a sum of both classes.
    doubt = 0.0 if total == 1.0 else SURE * math.sqrt(2.0) * noise
    rows = total * max(0.0, 1.0 - doubt) * settings.rows_per_weight / settings.mean_weight
    return counted_until(partial(_enough, rows), 1, settings, shape, curator, coordinates)


def counted_until(
    enough: Callable[[Coordinates], bool],
    left: int,
    settings: Settings,
    shape: ProblemShape,
    curator: Curator,
    coordinates: Coordinates,
) -> tuple[Settings, Coordinates]:
    """The same until what the coordinates tell is `enough`, or only `left` gradients are left."""
    if enough(coordinates):
        return settings, coordinates
    mechanism, total = settings.gradient, coordinates.class_shares()[2]
    assert mechanism.query is not None
    # Slopes at 0 tell most of the shares, but of rows' mean weight as much.
    v = np.zeros(shape.dim) if total == 1.0 else start_of(shape.loss, coordinates)
    share = 0.5 + 0.5 * math.tanh(0.5 * float(v[-1]))
    longest = settings.clip_norm / max(share, 1.0 - share)
    transform, length = _constant_alone(settings, shape, coordinates, longest)
    fixed = curator.fix(mechanism.query, transform, *told_of(settings))
    point = coordinates.transform @ v
    unit = length * shape.n_samples * shape.max_weight * total
    while settings.iterations > left and not enough(coordinates):
        slope = float(curator.release(mechanism, fixed, point)[-1]) / unit
        told = np.array([1.0 - share + slope, share - slope])
        coordinates = coordinates.with_shares(told, mechanism.stddev / unit)
        settings = replace(settings, iterations=settings.iterations - 1)
    return settings, coordinates


def counted_classes(
    settings: Settings, shape: ProblemShape, curator: Curator, coordinates: Coordinates
) -> tuple[Settings, Coordinates]:
    """The same of several classes, whatever there is to learn of their weights."""
    settled = settings.james_stein and settings.groups is None
    if not settled or not coordinates.tells_shares:
        return settings, coordinates
    classes, mechanism = settings.classes or 0, settings.gradient
    assert mechanism.query is not None
    total = coordinates.class_shares()[2]
    v = constant_of(coordinates, classes)
    if total == 1.0:
        v[-1] = 0.0
    shares = softmax(v[-1])
    longest = settings.clip_norm / longest_slope(shares)
    transform, length = _constant_alone(settings, shape, coordinates, longest)
    fixed, point = curator.fix(mechanism.query, transform), coordinates.transform @ v
    unit = length * shape.n_samples * shape.max_weight * total
    noise = mechanism.stddev / unit * math.sqrt(1.0 - 1.0 / classes)
    for _ in range(settings.iterations // _ONE_IN):
        found, doubt, _ = coordinates.class_shares()
        if 0.5 * float(np.sum(doubt**2 / np.maximum(found, doubt))) <= _COST:
            break
        noisy = curator.release(mechanism, fixed, point)
        slopes = noisy.reshape(-1, classes)[-1] / unit
        coordinates = coordinates.with_shares(shares - slopes + slopes.mean(), noise)
        settings = replace(settings, iterations=settings.iterations - 1)
    return settings, coordinates


def rareness_told(
    settings: Settings, shape: ProblemShape, coordinates: Coordinates
) -> tuple[str, ...]:
    """What to say where a class has too few rows for what the plan has budget enough for."""
    if settings.regime != ALL_WEIGHTS or not tells_shares(shape, coordinates):
        return ()
    shares, noise, total = coordinates.class_shares()
    least = least_share(total * settings.rows_per_weight / settings.mean_weight)
    if float(shares.min()) + SURE * noise >= least:
        return ()
    return (
        f"A class has less than {100.0 * least:.2g} % of the rows, as far as the private releases "
        "of this fit tell: too few for this budget to learn much more than its share. Fewer "
        "columns or categories, more rows or a larger epsilon help.",
    )


def _constant_alone(
    settings: Settings, shape: ProblemShape, coordinates: Coordinates, longest: float
) -> tuple[Matrix, float]:
    """The transform to coordinates of which the constant alone has a length, and that length.

    Rows are as long as they may be if no slope is to be cut, which is `longest`; less where a
    column takes the intercept's place that could, by its bounds, have far larger entries.
    """
    transform = np.zeros(coordinates.transform.shape)
    transform[:, -1] = coordinates.transform[:, -1]
    length = min(longest, settings.limit / reach_of(shape, transform))
    transform[:, -1] *= length
    return transform, length


def _enough(rows: float, coordinates: Coordinates) -> bool:
    """Whether the rarer class has rows enough for sure."""
    shares, noise, _ = coordinates.class_shares()
    rarer = max(0.0, float(shares.min()) - SURE * noise)
    return 4.0 * rarer * (1.0 - rarer) * rows >= _ENOUGH
