"""How far to go along what a descent found, where noise hides whether it is more than noise.

With few rows a weight, the end of a descent points somewhere, and no release so far tells how far
the rows follow.  But along a direction a row is one number, whose slope is known as well as that of
the constant.  So a few last gradients, along two directions and the constant, tell where to go:

* the end of the descent itself, in coordinates in which all columns have one scale;
* all its gradients together in the columns' own units, as a first step there would follow: better
  where columns of small scale, such as rare categories, have more noise than signal.

The first of these gradients tells the mix of the two.  Along that, the margins of rows are taken
for normal: gradients tell their width, and which length of the weights the labels have.  With more
rows a weight the descent tells how far to go as well: then it is the mean of the two ends.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries import CoordinateGradient, bounded
from dpfast.shape import ProblemShape
from dpfast.solvers._coordinates import UNCERTAIN_EFFECT, Columns, Coordinates
from dpfast.solvers._few_rows import FEW_WEIGHTS, STEPS, confirms
from dpfast.solvers._intercept import normal_nodes, of_mean_probability, probability
from dpfast.solvers._normal_rows import logistic_bends
from dpfast.solvers._shares import Release
from dpfast.solvers._whitened_descent import Settings, settled_intercept, start_of
from dpfast.solvers._whitened_rules import CONFIRMED, confirmed_part, sure

# Error of the length that is asked for, and the least and the most of the budget for it.
_ERROR, _LEAST, _MOST = 0.04, 0.02, 0.15
# Largest slope of a row in a coordinate, and of how many coordinates one is constant.
_CLIP, _COORDINATES = math.sqrt(0.5), 3
# Of the margins along the mix, what their deviation may be over what was told, and the length
# that the labels' weights may have, with the deviations of both before any of it is seen.
_WIDTHS, _ABOUT = np.geomspace(0.4, 3.2, 10), 0.5
_LENGTHS, _USUAL = np.linspace(0.0, 8.0, 65), 1.5
# Part of the way after the first gradient, and of how far the intercept follows longer margins.
_FIRST, _FOLLOWS = 0.5, 0.3
# The least logarithm of a probability: beyond, doubts would be squares that are no numbers.
_UNLIKELY = -300.0
# The least curvature across the mix, over the largest.
_LEAST_BEND = 0.2


def share(shape: ProblemShape, u: float) -> float:
    """Of the budget, with so many rows behind one weight, times µ; 0 if there is to be none.

    None for few weights: their noise is hardly more than that of three numbers with a part of it.
    """
    if u >= CONFIRMED or shape.dim <= FEW_WEIGHTS or not confirms(shape, u):
        return 0.0
    needed = (4.0 * _CLIP * math.sqrt(_COORDINATES) / (_ERROR * u * shape.dim)) ** 2
    return min(_MOST, max(_LEAST, needed))


def planned(shape: ProblemShape, limit: float, release: Release, share: float) -> Gaussian | None:
    """Settle the access to the gradients."""
    if share == 0.0:
        return None
    clip = _CLIP * math.sqrt(_COORDINATES)
    query = CoordinateGradient(shape, clip, limit, True, _COORDINATES)
    return release(share / STEPS, query, "gradient along the weights")


def confirmed(
    w: Vector,
    slopes: Vector,
    settings: Settings,
    shape: ProblemShape,
    curator: Curator,
    coordinates: Coordinates,
) -> Vector:
    """The weights that a descent ended with, as far as rows confirm them.

    `slopes` are its gradients together, in the coordinates.
    """
    d, free, columns = shape.n_features, coordinates.free, coordinates.columns
    declared = -coordinates.columns_of_inverse(np.arange(d))[:free].T @ slopes[:free]
    ends = np.column_stack([w[:d], _limited(declared, columns)])
    found = _apart(ends / np.maximum(np.abs(ends).max(axis=0), 1e-300), coordinates)
    transform = np.zeros((shape.dim, _COORDINATES))
    transform[:d, :-1] = found
    transform[d, :-1] = -(columns.center @ found) / shape.intercept
    transform[:, -1] = coordinates.transform[:, -1]
    transform = bounded(shape, transform, settings.limit)
    along = replace(coordinates, transform=transform)
    end = transform @ _followed(settings, shape, curator, along)
    end[:d] = _limited(end[:d], columns)  # a mix of two that are need not be
    part = confirmed_part(settings.rows_per_weight)
    return part * end + (1.0 - part) * w


def _limited(direction: Vector, columns: Columns) -> Vector:
    """The direction, along which categories that were not seen to have rows move less than others.

    By one deviation of the noise: of so many columns many have fewer rows than counts tell surely.
    """
    unseen = columns.categories & (columns.frequency < columns.frequency_deviation)
    most = UNCERTAIN_EFFECT * float(np.abs(direction[~unseen]).max(initial=0.0))
    return np.where(unseen, np.clip(direction, -most, most), direction) if most else direction


def _apart(found: Matrix, coordinates: Coordinates) -> Matrix:
    """Directions along which rows have numbers of variance 1, and which do not go together.

    As far as columns' scales tell.
    """
    units = np.sqrt(coordinates.squares())[:, None]
    rows = np.vstack([found, np.zeros((1, found.shape[1]))])
    inside = units * coordinates.of_weights(rows)[: coordinates.free]
    lengths = np.maximum(np.linalg.norm(inside, axis=0), 1e-300)
    found = found / lengths
    triangle = np.linalg.qr(inside / lengths)[1]
    if np.abs(np.diagonal(triangle)).min() <= 1e-9:
        return np.asarray(found)
    apart: Matrix = found @ np.linalg.inv(triangle)
    signed: Matrix = apart * np.sign(np.diagonal(triangle))
    return signed


class _Belief:
    """What gradients along a direction tell: how wide margins are, and where the labels' are."""

    def __init__(self, share: float) -> None:
        self._nodes, self._weights = normal_nodes()
        best = np.array([of_mean_probability(share, x, (0.0, 0.0), 0.0) for x in _LENGTHS])
        self._labels = probability(best[:, None] + _LENGTHS[:, None] * self._nodes)
        log_width, length = np.log(_WIDTHS)[:, None] / _ABOUT, _LENGTHS / _USUAL
        self._logs: Matrix = -0.5 * (np.square(log_width) + np.square(length))
        self._far: Matrix = _LENGTHS / _WIDTHS[:, None]

    def add(self, slope: float, noise: float, at: float, intercept: float) -> None:
        """Take in the slope at a point, over the largest curvature of the logistic loss."""
        z = _WIDTHS[:, None] * self._nodes
        predicted = probability(intercept + at * z)
        longest = _CLIP * math.sqrt(_COORDINATES) / np.sqrt(_COORDINATES - 1.0 + np.square(z))
        alike = np.minimum(1.0, longest / np.maximum(predicted, 1.0 - predicted))
        weighed = 4.0 * z * alike * self._weights
        slopes = (weighed * predicted).sum(axis=1)[:, None] - weighed @ self._labels.T
        self._logs = self._logs - 0.5 * np.square((slope - slopes) / noise)

    def told(self) -> tuple[float, float, float]:
        """How far to go along the direction, how sure that is, and the margins' deviation there.

        As sure as it is that labels have a length at all: a width that is hardly known is no doubt.
        """
        chance = np.exp(np.maximum(self._logs - self._logs.max(), _UNLIKELY))
        chance /= chance.sum()
        of_lengths = chance.sum(axis=0)
        length = float(of_lengths @ _LENGTHS)
        doubt = math.sqrt(float(of_lengths @ np.square(_LENGTHS - length)))
        width = math.exp(float(np.sum(chance * np.log(_WIDTHS)[:, None])))
        return float(np.sum(chance * self._far)), sure(length, doubt), width


def _followed(
    settings: Settings, shape: ProblemShape, curator: Curator, coordinates: Coordinates
) -> Vector:
    """Where gradients in the coordinates lead, the last of which is constant."""
    along, transform = settings.along, coordinates.transform
    assert along is not None and along.query is not None
    fixed = curator.fix(along.query, transform)
    noise = along.stddev / shape.n_samples / settings.curvature
    share = float(coordinates.probabilities()[1])
    belief, mix = _Belief(share), np.zeros(0)
    v: Vector = np.append(np.zeros(_COORDINATES - 1), start_of(shape.loss, coordinates)[-1])
    points, slopes = np.zeros((2, STEPS, _COORDINATES))
    across = np.zeros((STEPS, _COORDINATES - 1))
    for k in range(STEPS):
        told = curator.release(along, fixed, transform @ v) / shape.n_samples
        points[k], slopes[k] = v, told / settings.curvature
        weights, slope = v[:-1], slopes[k, :-1]
        if k == 0:
            mix = -slope * [1.0, _kept(slope[1], noise)]
            mix /= max(float(np.linalg.norm(mix)), 1e-300)
        at = float(weights @ mix)
        belief.add(float(slope @ mix), noise, at, float(v[-1]))
        far, certain, width = belief.told()
        far *= _FIRST if k == 0 else 1.0
        # Across the mix the loss bends as along the constant.
        bend = max(_LEAST_BEND, logistic_bends(float(v[-1]), at * width)[0])
        end = weights - slope / bend
        across[k] = end - (end @ mix) * mix
        beside = across[min(k, 1) : k + 1].mean(axis=0)
        beside *= _kept(float(np.linalg.norm(beside)), noise / bend / math.sqrt(max(1, k)))
        best = [of_mean_probability(share, x * width, (0.0, 0.0), 0.0) for x in (at, far)]
        v = np.append(far * mix + beside, v[-1] - slopes[k, -1] + _FOLLOWS * (best[1] - best[0]))
    found = far * certain * mix + beside * (certain > 0.0)
    second = replace(
        settings, gradient=along, iterations=STEPS, average=1.0, clip=_CLIP, consistent=True,
        rows_per_weight=math.inf,
    )  # fmt: skip
    units = np.append(np.full(_COORDINATES - 1, width), 1.0)
    averages = units * points.mean(axis=0), settings.curvature * slopes.mean(axis=0)
    end = units * np.append(found, v[-1])
    return np.append(found, settled_intercept(end, *averages, second, shape, coordinates, 1.0))


def _kept(value: float, noise: float) -> float:
    """Which part of a number to keep that noise of this deviation is in."""
    return 1.0 - min(1.0, noise / abs(value)) ** 2 if value else 0.0
