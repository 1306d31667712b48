r"""Sums of weighted scores and curvatures in learned coordinates, for estimates with a covariance.

A row's score is its loss's slope ``ψ_i`` times the row, its curvature ``ψ'_i`` times the row's
products with itself.  Both are weighted by the same public function of the row *without its
target*,

    ``ω_i = min(1, C / (M_i l_i))``,

with ``M_i`` the largest slope that any target could have at the row's margin, and ``l_i`` the
length of the row in coordinates, at least 1.  Slopes of mean zero given the row stay of mean zero
under such weights: nothing is clipped by its target, so the weighted scores have their root where
the unweighted ones do, if the model holds.  Curvatures are cut further, to ``K / (κ_i h_i²)`` with
``κ_i`` the largest curvature at the margin and ``h_i`` the length in coordinates of their own: what
is cut makes the covariance larger and leaves the root alone.

The fixed argument stacks three linear functions of the row, ``[G | H | w]``: coordinates in which
scores are bounded, those in which curvatures are, and the weights of the margin.

Rounding.  An entry of the three is wrong by at most ``e = (D + 8) u`` times the reach of the
stack, see :mod:`dpfast.queries.coordinates`.  Since ``ω M l <= C`` and ``l, h >= 1``, that moves a
contribution of at most b by at most ``2 b e (5 + 2 β / M)``, β the largest curvature and M the
least that ``M_i`` can be: relatively, e by the row itself, as much by each length (twice by
``h²``), ``β e / M`` by slope and by ``M_i``, and e by ``κ_i``, whose logarithm has slope 1 at most;
of products, twice that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpfast.chunks import add_up
from dpfast.losses import Loss
from dpfast.privacy import records_apart
from dpfast.queries.coordinates import (
    ColumnMoments,
    InCoordinates,
    _factors,
    _pieces,
    _unit,
    upper_triangle,
)
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class _Weighted(InCoordinates):
    """A sum over rows that are weighted as the module says.

    Parameters
    ----------
    shape : ProblemShape
        Of the logistic or the squared loss; targets of the latter are clipped to [-1, 1].
    score_radius : float
        ``C``.
    curvature_bound : float
        ``K``.
    limit : float
        Of the reach of the fixed argument.
    """

    def __init__(
        self, shape: ProblemShape, score_radius: float, curvature_bound: float, limit: float
    ) -> None:
        super().__init__(shape, limit)
        self.score_radius, self.curvature_bound = score_radius, curvature_bound
        self.dimension = shape.dim * (shape.dim + 1) // 2

    @property
    def _single(self) -> float:
        """Bound of one row's contribution in l2 norm."""
        raise NotImplementedError

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        raise NotImplementedError

    def rounding_error(self) -> float:
        """Return the error of a sum whose rows' entries are wrong by the reach, see the module."""
        return self._single * (_unit(self.shape) + _moved(self.shape) * self.limit)

    def prepare(self, rows: RowSums, *fixed: Any) -> tuple[RowSums, Matrix]:
        """The rows, and the stack."""
        return rows, np.ascontiguousarray(fixed[0])

    def __call__(self, prepared: tuple[RowSums, Matrix], *point: Any) -> Vector:
        """The sum."""
        rows, stack = prepared
        total: Vector = add_up(rows.map_blocks(partial(_summed, query=self, stack=stack)))
        return total

    def contribution(self, z: Matrix, target: Vector, counts: Vector) -> Vector:
        """What some rows add up to: their images under the stack, targets and given weights."""
        raise NotImplementedError

    def _weights(self, z: Matrix, counts: Vector) -> Vector:
        """``c_i ω_i``."""
        lengths = np.sqrt(np.maximum(_squares(z[:, : self.shape.dim]), 1.0))
        largest = largest_slope(self.shape.loss, z[:, -1])
        weights: Vector = counts * np.minimum(1.0, self.score_radius / (largest * lengths))
        return weights


class WeightedScores(_Weighted):
    """``Σ_i c_i ω_i ψ_i Gᵀ x̃_i``.

    Sensitivity: ``k C c``, c the largest weight: ``ω |ψ| ‖Gᵀ x̃‖ <= ω M l <= C``.
    """

    def __init__(
        self, shape: ProblemShape, score_radius: float, curvature_bound: float, limit: float
    ) -> None:
        super().__init__(shape, score_radius, curvature_bound, limit)
        self.dimension = shape.dim

    @property
    def _single(self) -> float:
        return self.score_radius * self.shape.max_weight

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        return records_apart(neighboring_relation) * self._single

    def contribution(self, z: Matrix, target: Vector, counts: Vector) -> Vector:
        """The scores of some rows."""
        slope, _ = _derivatives(self.shape.loss, z[:, -1], target)
        total: Vector = (self._weights(z, counts) * slope) @ z[:, : self.shape.dim]
        return total


class WeightedCurvature(_Weighted):
    """Upper triangle of ``Σ_i c_i ω'_i ψ'_i z_i z_iᵀ``, its diagonal over ``√2``, ``z = Hᵀ x̃``.

    With ``ω' = min(ω, K / (κ h²))``.  Sensitivity: ``√(k/2) K c``, as that of
    :class:`~dpfast.queries.Gram`: one row contributes a positive semi-definite matrix of Frobenius
    norm ``c ω' ψ' ‖z‖² <= c ω' κ h² <= c K``.
    """

    @property
    def _single(self) -> float:
        return self.curvature_bound * self.shape.max_weight

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        return math.sqrt(records_apart(neighboring_relation) / 2.0) * self._single

    def contribution(self, z: Matrix, target: Vector, counts: Vector) -> Vector:
        """The curvature of some rows."""
        loss, margin, rows = self.shape.loss, z[:, -1], z[:, self.shape.dim : -1]
        _, curvature = _derivatives(loss, margin, target)
        bound = largest_curvature(loss, margin) * np.maximum(_squares(rows), 1.0)
        cut = counts * np.minimum(1.0, self.curvature_bound / bound)
        return _triangle(rows, np.minimum(self._weights(z, counts), cut) * curvature)


class ScoreProducts(_Weighted):
    """Upper triangle of ``Σ_i s_i s_iᵀ``, its diagonal over ``√2``, ``s_i = c_i ω_i ψ_i Gᵀ x̃_i``.

    Sensitivity: ``√(k/2) C² c²``, as that of :class:`~dpfast.queries.Gram`, for ``‖s‖ <= C c``.
    """

    @property
    def _single(self) -> float:
        return (self.score_radius * self.shape.max_weight) ** 2

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        return math.sqrt(records_apart(neighboring_relation) / 2.0) * self._single

    def contribution(self, z: Matrix, target: Vector, counts: Vector) -> Vector:
        """The products of some rows."""
        slope, _ = _derivatives(self.shape.loss, z[:, -1], target)
        factors = self._weights(z, counts) * slope
        return _triangle(z[:, : self.shape.dim], factors * factors)


class SquaredSlopes(_Weighted):
    """``Σ_i c_i v_i (ψ_i² / 4, 1)`` with ``v_i = min(1, 4 / M_i²)``: the slopes' mean square.

    Sensitivity: ``√2 c``, c the largest weight: both entries of a row are from 0 to c.
    """

    def __init__(
        self, shape: ProblemShape, score_radius: float, curvature_bound: float, limit: float
    ) -> None:
        super().__init__(shape, score_radius, curvature_bound, limit)
        self.dimension = 2

    @property
    def _single(self) -> float:
        return math.sqrt(2.0) * self.shape.max_weight

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves, for both relations."""
        del neighboring_relation
        return self._single

    def contribution(self, z: Matrix, target: Vector, counts: Vector) -> Vector:
        """Both sums of some rows."""
        margin, loss = z[:, -1], self.shape.loss
        slope, _ = _derivatives(loss, margin, target)
        weights = counts * np.minimum(1.0, 4.0 / largest_slope(loss, margin) ** 2)
        return np.array([weights @ (0.25 * slope * slope), weights.sum()])


class ColumnShapes(ColumnMoments):
    """``Σ_i (z_i⁺, z_i⁻, z_i² / C)`` of the columns ``z = (x - center) / scale``, entry by entry.

    Rows are clipped to ``‖z‖ <= C``.  The arguments are center and scale.

    Sensitivity: ``√(2k) C``.  One row contributes ``(z⁺, z⁻)`` of norm ``‖z‖ <= C``, and
    ``‖z² / C‖ <= ‖z‖² / C <= C``, a vector of norm ``√2 C`` at most; its entries are >= 0, and two
    such vectors are no farther apart than ``√2`` times that.

    Parameters
    ----------
    shape : ProblemShape
    radius : float
        ``C``.
    """

    def __init__(self, shape: ProblemShape, radius: float) -> None:
        super().__init__(shape, radius)
        self.dimension = 3 * shape.n_features

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        return math.sqrt(2.0 * records_apart(neighboring_relation)) * self.radius

    def rounding_error(self) -> float:
        """Return the error of the sum, each of whose rows adds at most ``√2 C``."""
        return _unit(self.shape) * 2.0 * self.radius

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The sums for a center and a scale."""
        center, scale = point
        d, radius = self.shape.n_features, self.radius

        def sums(block: Matrix) -> Vector:
            total = np.zeros(3 * d)
            for part, _ in _pieces(block):
                z = (part[:, :d] - center) / scale
                z *= _factors(_squares(z), d, radius)[:, None]
                up = np.maximum(z, 0.0)
                total[:d] += up.sum(axis=0)
                total[d : 2 * d] += (up - z).sum(axis=0)
                z *= z
                total[2 * d :] += z.sum(axis=0) / radius
            return total

        found: Vector = prepared.sum_rows(sums)
        return found


def stack_limit(shape: ProblemShape) -> float:
    """Largest reach with which rounding stays far below one row's contribution.

    But at least twice that of the coordinates to begin with.
    """
    return max(2e-4 / _moved(shape), 4.0 * math.sqrt(2.0) * (shape.dim + 1.0))


def _moved(shape: ProblemShape) -> float:
    """What all rows' own rounding adds to a sum, per unit of the reach and of a row's bound."""
    least = float(largest_slope(shape.loss, np.zeros(1))[0])
    moved = 2.0 * (5.0 + 2.0 * shape.loss.smoothness / least)
    return 1.01 * UNIT * (shape.dim + 8) * shape.n_samples * moved


def served(loss: Loss) -> bool:
    """Whether slopes and curvatures at a margin are bounded over the targets as below."""
    return loss.multiclass or loss.quadratic


def largest_slope(loss: Loss, margin: Vector) -> Vector:
    """Largest ``|ψ|`` at a margin over all targets: ±1, or those in [-1, 1]."""
    size: Vector = np.abs(margin)
    return expit(size) if loss.multiclass else 1.0 + size


def largest_curvature(loss: Loss, margin: Vector) -> Vector:
    """Largest ``ψ'`` at a margin over all targets; above 0."""
    if loss.quadratic:
        return np.ones(len(margin))
    half = np.exp(-0.5 * np.minimum(np.abs(margin), 600.0))
    curvature: Vector = (half / (1.0 + half * half)) ** 2
    return curvature


def _derivatives(loss: Loss, margin: Vector, target: Vector) -> tuple[Vector, Vector]:
    """``ψ`` and ``ψ'``, numbers as targets clipped to [-1, 1]."""
    if loss.multiclass:
        return -target * expit(-target * margin), largest_curvature(loss, margin)
    return margin - np.clip(target, -1.0, 1.0), np.ones(len(margin))


def _summed(problem: RowAccess, query: _Weighted, stack: Matrix) -> Vector:
    """A query's sum over rows that are one array."""
    total, start = np.zeros(query.dimension), 0
    counts = problem.sample_weight
    for z in _images(problem, stack):
        rows = slice(start, start + len(z))
        weights = np.ones(len(z)) if counts is None else counts[rows]
        total += query.contribution(z, problem.target[rows], weights)
        start += len(z)
    return total


def _images(problem: RowAccess, stack: Matrix) -> Iterator[Matrix]:
    """``x̃_i`` under the stack, for pieces of the rows in their order."""
    for images in problem.map_rows(lambda block: [part @ stack for part, _ in _pieces(block)]):
        yield from images


def _triangle(z: Matrix, factors: Vector) -> Vector:
    """Upper triangle of ``Σ_i f_i z_i z_iᵀ``, its diagonal over ``√2``."""
    upper, entries = upper_triangle(z.shape[1])
    triangle: Vector = (z.T @ (z * factors[:, None]))[upper] * entries
    return triangle


def _squares(z: Matrix) -> Vector:
    squares: Vector = np.einsum("ij,ij->i", z, z)
    return squares
