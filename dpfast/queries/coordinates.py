"""Sums over rows in coordinates that were learned from earlier releases.

Rows are ``z = Wᵀ x̃``, ``W`` public, and clipped *in these coordinates*.  What one row contributes
is a function of that row and of public arguments.

Rounding.  A sum of n rows, each of which contributes at most ``b``, is wrong by at most
``m u n b``, with ``u = 2^-53`` and ``m`` counting the longest chain of additions, a product with
``W`` and the row's own arithmetic.  Directions in which the rows hardly move ask for a large ``W``,
which stretches rounding errors along with them: its reach ``√2 ‖S W‖_F``, S the bounds of the row's
entries, bounds ``‖|W|ᵀ |x̃|‖``, and a transform beyond the stated `limit` is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast import _kernels
from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums, single_rows

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_SQRT_2 = math.sqrt(2.0)
# Rows are worked on in pieces of so many entries, which stay in cache in between.
_PIECE_ENTRIES = 2**15
_LONG_ROW = 100
# Of the reach of a transform that was brought to the limit.
_HAIR = 1.0 + 2.0**-40
#: Bounds of the multinomial loss in the K margins: norm of the derivative, of the second one.
#: ``diag(p) - ppᵀ <= 1/2``, since its rows' absolute entries add up to ``2 p_k (1 - p_k) <= 1/2``.
CLASS_SLOPE, CLASS_CURVATURE = _SQRT_2, 0.5


class ColumnMoments(Query):
    """``Σ_i (z_i, ω z_i²)`` of the columns ``z = (x - center) / scale``, squares entry by entry.

    Rows are clipped to ``‖z‖ <= C``, and ``ω = 1/C``.  The arguments are center and scale.  A group
    of rows contributes the mean over them.

    Sensitivity: ``√((k C)² + k ω² C⁴)``.  One row contributes ``z`` with ``‖z‖ <= C``, and ``ω z²``
    with ``‖z²‖ <= ‖z‖² <= C²`` and entries >= 0; two such vectors are at most ``√2 C²`` apart.  The
    same is true of means of such vectors.

    Parameters
    ----------
    shape : ProblemShape
    radius : float
        ``C``.
    """

    def __init__(self, shape: ProblemShape, radius: float) -> None:
        self.shape, self.radius = shape, radius
        self.weight = 1.0 / radius
        self.dimension = 2 * shape.n_features

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        apart = records_apart(neighboring_relation)
        return math.sqrt((apart * self.radius) ** 2 + apart * self.radius**2)

    def rounding_error(self) -> float:
        """Return the error of the sum, of whose rows each adds at most ``2 C``."""
        return _unit(self.shape) * 2.0 * self.radius

    def check_point(self, *point: Any) -> None:
        """Refuse a scale that takes rows beyond floating point.

        Raises
        ------
        ValueError
        """
        super().check_point(*point)
        center, scale = point
        least, farthest = float(np.min(scale)), self.shape.data_norm + float(np.max(np.abs(center)))
        lowest = farthest / self.largest_argument
        if not 0.0 < lowest <= least:
            raise ValueError(
                f"scale must be positive, and at least {lowest:.3g} where columns and "
                f"centers may be {farthest:.3g} apart; got {least:.3g}. Nothing was spent."
            )

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The sums for a center and a scale."""
        center, scale = point
        d, radius = self.shape.n_features, self.radius
        # For short rows one product is several times faster than loops over their entries.
        affine = None
        if d < _LONG_ROW:
            affine = np.ascontiguousarray(column_transform(self.shape, center, scale)[:, :d])
        ones = np.ones(d)

        def sums(block: Matrix, parts: Vector | None = None) -> Vector:
            total = np.zeros(2 * d)
            for part, counted in _pieces(block, parts):
                z = (part[:, :d] - center) / scale if affine is None else part @ affine
                square = z * z
                factor = _factors(square @ ones, d, radius)
                own = factor if counted is None else factor * counted
                total[:d] += own @ z
                total[d:] += (own * factor) @ square
            total[d:] *= self.weight
            return total

        moments: Vector = _sum_of_records(prepared, self.shape, sums)
        return moments


class InCoordinates(Query):
    """A query whose first argument is the transform ``W``, of bounded reach."""

    fixed = 1

    def __init__(self, shape: ProblemShape, limit: float) -> None:
        self.shape, self.limit = shape, limit

    def check(self, *fixed: Any) -> None:
        """Refuse transforms beyond the limit.

        Raises
        ------
        ValueError
        """
        (transform,) = fixed
        reach = reach_of(self.shape, transform)
        if not reach <= self.limit * _HAIR:
            raise ValueError(
                f"transform must have a reach of at most {self.limit:.6g}, which rounding errors "
                f"are charged for; got {reach:.6g}. dpfast.queries.bounded lowers it."
            )


class Gram(InCoordinates):
    """Upper triangle of ``Σ_i z_i z_iᵀ``, its diagonal over ``√2``, ``z = Wᵀ x̃`` of the columns.

    Rows are clipped to ``‖z‖ <= C``; the intercept's coordinate is left out.  A group of rows
    contributes the mean over them.

    Sensitivity: ``√(k/2) C²``.  With the diagonal divided by ``√2`` the norm of a symmetric
    matrix's triangle is its Frobenius norm over ``√2``: ``‖z zᵀ‖_F / √2 <= C²/√2``.  As
    ``tr(z zᵀ z'z'ᵀ) >= 0``, two such matrices are at most ``√2 C²`` apart, their triangles ``C²``;
    this is true of means of such matrices, too, which are positive semidefinite.

    Parameters
    ----------
    shape : ProblemShape
    radius : float
        ``C``.
    limit : float
        Of the transform's reach.
    """

    def __init__(self, shape: ProblemShape, radius: float, limit: float) -> None:
        super().__init__(shape, limit)
        self.radius = radius
        self.dimension = shape.n_features * (shape.n_features + 1) // 2

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        return math.sqrt(records_apart(neighboring_relation) / 2.0) * self.radius**2

    def rounding_error(self) -> float:
        """Return the error of the sum, and of products of entries that are wrong by the reach."""
        return _unit(self.shape) * self.radius * (self.radius + 2.0 * self.limit)

    def prepare(self, rows: RowSums, *fixed: Any) -> tuple[RowSums, Matrix]:
        """The rows, and the transform's columns but the intercept's."""
        return rows, np.ascontiguousarray(fixed[0][:, : self.shape.n_features])

    def __call__(self, prepared: tuple[RowSums, Matrix], *point: Any) -> Vector:
        """The triangle."""
        problem, columns = prepared
        d, radius = self.shape.n_features, self.radius
        upper, entries = upper_triangle(d)

        def sums(block: Matrix, parts: Vector | None = None) -> Matrix:
            total = np.zeros((d, d))
            for part, counted in _pieces(block, parts):
                z = part @ columns
                z *= _factors(np.einsum("ij,ij->i", z, z), d, radius)[:, None]
                total += (z if counted is None else z * counted[:, None]).T @ z
            return total

        triangle: Vector = _sum_of_records(problem, self.shape, sums)[upper] * entries
        return triangle


class CoordinateGradient(InCoordinates):
    """``Wᵀ Σ_i c_i clip(ℓ'_i) x̃_i``: gradient in the coordinates, clipped there.

    The derivative of row i is clamped to ``± C / ‖z_i‖``, so its gradient ``ℓ'_i z_i`` is no longer
    than ``C``; nor than the largest slope L times the reach, which bounds ``‖z_i‖``.  The arguments
    are the transform and the weights ``w`` of the columns.

    Sensitivity: ``k min(C, L limit) c``, c the largest weight.

    Parameters
    ----------
    shape : ProblemShape
    clip_norm : float
        ``C``.
    limit : float
        Of the transform's reach.
    """

    slope: float

    def __init__(self, shape: ProblemShape, clip_norm: float, limit: float) -> None:
        super().__init__(shape, limit)
        self.clip_norm = clip_norm
        self.slope = shape.loss.lipschitz
        self.dimension = shape.dim

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        longest = min(self.clip_norm, self.slope * self.limit)
        return records_apart(neighboring_relation) * longest * self.shape.max_weight

    def rounding_error(self) -> float:
        """Return the error of the sum, of whose rows each adds at most L times the reach."""
        return _unit(self.shape) * (self.slope * self.shape.max_weight) * self.limit

    def prepare(self, rows: RowSums, *fixed: Any) -> tuple[RowSums, Matrix]:
        """The rows with their lengths in the coordinates, and the transform."""
        (transform,) = fixed
        return rows.clipped_by_lengths(_lengths_in(self.shape, transform)), transform

    def __call__(self, prepared: tuple[RowSums, Matrix], *point: Any) -> Vector:
        """The gradient at w."""
        view, transform = prepared
        gradient: Vector = transform.T @ view.clipped_gradient(point[0], self.clip_norm)[0]
        return gradient


class RelativeGradient(CoordinateGradient):
    """``Wᵀ Σ_i c_i ω_i clip(ℓ'_i / s) x̃_i``: the gradient in units of a slope s that was learned.

    Rows that are longer than `longest` in the coordinates count less, ``ω_i = longest / ‖z_i‖``;
    cut by their slopes alone, they would be cut on one side where the targets are skewed.  With
    ``l_i`` the length ``‖z_i‖``, at least 1 and at most `longest`, the derivative over s is clamped
    to ``± C / l_i``.  The arguments are the transform, of any number of columns, the weights ``w``
    of the rows' own columns, and ``s > 0``.

    Sensitivity: ``k C c``, c the largest weight, whatever s is: ``ω_i ‖z_i‖ <= l_i``.  And no slope
    is beyond ``± C``, by which rounding is bounded.

    Parameters
    ----------
    shape : ProblemShape
    clip_norm : float
        ``C``.
    limit : float
        Of the transform's reach.
    columns : int
        Of the transform.
    longest : float, default=inf
        At least 1.
    """

    def __init__(
        self,
        shape: ProblemShape,
        clip_norm: float,
        limit: float,
        columns: int,
        longest: float = math.inf,
    ) -> None:
        super().__init__(shape, clip_norm, limit)
        self.slope = clip_norm
        self.dimension, self.longest = columns, longest

    def sensitivity(self, neighboring_relation: str) -> float:
        """Return the l2 distance that the docstring proves."""
        return records_apart(neighboring_relation) * self.clip_norm * self.shape.max_weight

    def prepare(self, rows: RowSums, *fixed: Any) -> tuple[RowSums, Matrix]:
        """The rows with their lengths in the coordinates, and the transform."""
        (transform,) = fixed
        lengths = _lengths_in(self.shape, transform, least=1.0)
        return rows.clipped_by_lengths(lengths, self.longest), transform

    def check_point(self, *point: Any) -> None:
        """Refuse units with which products would leave the range of float64.

        Raises
        ------
        ValueError
        """
        super().check_point(*point)
        if len(point) > 1 and not 1e-100 <= point[1] <= 1e100:
            raise ValueError(
                f"the slope's unit must be between 1e-100 and 1e100; got {point[1]!r}. Nothing was "
                "spent."
            )

    def __call__(self, prepared: tuple[RowSums, Matrix], *point: Any) -> Vector:
        """The gradient at w, in units of the slope."""
        view, transform = prepared
        w, unit = point
        # Less than C by what the product and the division may round up.
        clip_norm = self.clip_norm * unit * (1.0 - 4.0 * UNIT)
        gradient: Vector = transform.T @ view.clipped_gradient(w, clip_norm)[0] / unit
        return gradient


class ClassGradient(CoordinateGradient):
    """The gradients of all K classes of the multinomial loss, in the coordinates, clipped together.

    With ``p = softmax(V z)``, row i's gradient in the weights V is the outer product of
    ``s = p - e_y`` and ``z``, of Frobenius norm ``‖s‖ ‖z‖``; the kernel scales s so that this is at
    most C.  As ``‖s‖² = Σ_{k≠y} p_k² + (1 - p_y)² <= 2 (1 - p_y)² <= 2``, the largest slope is
    ``√2``.  The labels are the rows' own (:meth:`dpfast.Problem.with_labels`).  The arguments are
    the transform and the weights, of shape (dim, K); the values are such a matrix, raveled.

    Sensitivity: as for :class:`CoordinateGradient`, one release for all classes.

    Parameters
    ----------
    shape : ProblemShape
    clip_norm : float
        ``C``.
    limit : float
        Of the transform's reach.
    n_classes : int
        K.
    """

    def __init__(self, shape: ProblemShape, clip_norm: float, limit: float, n_classes: int) -> None:
        super().__init__(shape, clip_norm, limit)
        self.slope = CLASS_SLOPE
        self.n_classes = n_classes
        self.dimension = n_classes * shape.dim

    def rounding_error(self) -> float:
        """Return the same with a product with the K slopes more, and their norm."""
        chain = _class_additions(self.shape) + self.shape.dim + self.n_classes + 60
        unit = 1.01 * UNIT * chain * self.shape.n_samples
        return unit * CLASS_SLOPE * self.shape.max_weight * self.limit

    def __call__(self, prepared: tuple[RowSums, Matrix], *point: Any) -> Vector:
        """The gradients at the weights."""
        view, transform = single_rows(prepared[0], "several classes"), prepared[1]
        gradient: Vector = multinomial_gradient(view, point[0].T, self.clip_norm)[0].T
        return (transform.T @ gradient).ravel()


def multinomial_gradient(
    problem: RowAccess, w: Matrix, clip_norm: float = math.inf
) -> tuple[Matrix, float]:
    """Sum of the rows' gradients and of their losses, in one read of X; **not private**.

    Parameters
    ----------
    problem : Problem
        With labels; rows are clipped by the lengths of :meth:`dpfast.Problem.clipped_by`, and not
        at all without these.
    w : ndarray of shape (K, dim)
    clip_norm : float, default=inf

    Returns
    -------
    gradient : ndarray of shape (K, dim)
    loss_sum : float
    """
    w = np.ascontiguousarray(w)
    labels = problem.labels

    def work(kernel: Any, first: int, last: int, start: int, stop: int) -> tuple[Matrix, float]:
        out = np.empty_like(w)
        loss = _kernels.multinomial_sum(kernel, first, last, labels[start:stop], w, clip_norm, out)
        return out, loss

    total, losses = np.zeros_like(w), 0.0
    for part, loss in problem.map_chunks(work):
        total += part
        losses += loss
    return total, losses


def column_transform(shape: ProblemShape, center: Vector, scale: Vector) -> Matrix:
    """``W`` with ``Wᵀ x̃ = ((x - center) / scale, 1)``."""
    d = shape.n_features
    transform = np.zeros((shape.dim, shape.dim))
    transform[np.arange(d), np.arange(d)] = 1.0 / scale
    if shape.intercept != 0.0:
        transform[d, :d] = -center / (scale * shape.intercept)
        transform[d, d] = 1.0 / shape.intercept
    return transform


def upper_triangle(d: int) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], Vector]:
    """Indices of the upper triangle, and its entries' factors: ``√½`` on the diagonal."""
    upper = np.triu_indices(d)
    return upper, np.where(upper[0] == upper[1], math.sqrt(0.5), 1.0)


def bounded(shape: ProblemShape, transform: Matrix, limit: float) -> Matrix:
    """`transform`, stretched less where its reach would pass `limit`."""
    if reach_of(shape, transform) <= limit:
        return transform
    units = _units(shape)
    left, values, right = np.linalg.svd(units[:, None] * transform)
    highest = limit / (_SQRT_2 * math.sqrt(len(values)))
    lowered: Matrix = ((left * np.minimum(values, highest)) @ right) / units[:, None]
    return lowered


def reach_limit(shape: ProblemShape, clip_norm: float, radius: float) -> float:
    """Largest reach with which rounding stays far below one row's contribution.

    But at least twice that of the coordinates to begin with.
    """
    slope = shape.loss.lipschitz * shape.max_weight
    return max(
        1e-4 * min(clip_norm * shape.max_weight, radius) / (_unit(shape) * max(slope, 2.0)),
        2.0 * _SQRT_2 * (shape.dim + 1.0),
    )


def _unit(shape: ProblemShape) -> float:
    """Rounding of a sum of rows, per unit of what a row contributes."""
    return 1.01 * UNIT * (_additions(shape) + shape.dim + 40) * shape.n_samples


def _additions(shape: ProblemShape) -> int:
    """Longest chain of additions in a sum over all rows, by the kernels or over dense blocks."""
    return max(shape.additions(), shape.longest_chain(_dense_additions))


def _dense_additions(shape: ProblemShape) -> int:
    """The same over dense blocks of rows that are one array."""
    rows = min(shape.dense_rows(), shape.n_samples)
    return rows + -(-shape.n_samples // rows)


def _class_additions(shape: ProblemShape) -> int:
    """The same by the kernel of several classes: within blocks, blocks, chunks."""
    shape = shape.of_rows(shape.most_rows)
    chunk = min(shape.chunk_rows(), shape.n_samples)
    # The kernel's blocks have 8 to 1024 dense rows, or all rows of the chunk if they are sparse.
    return shape.additions() + chunk // 8 + 1 + -(-shape.n_samples // chunk)


def _units(shape: ProblemShape) -> Vector:
    """The diagonal of S."""
    units = np.full(shape.dim, shape.data_norm)
    if shape.intercept != 0.0:
        units[-1] = abs(shape.intercept)
    return units


def reach_of(shape: ProblemShape, transform: Matrix) -> float:
    """``√2 ‖S W‖_F``, a bound of ``‖|W|ᵀ|x̃|‖``."""
    return _SQRT_2 * float(np.linalg.norm(_units(shape)[:, None] * transform))


def _lengths_in(
    shape: ProblemShape, transform: Matrix, least: float = 0.0
) -> Callable[[Matrix], Vector]:
    """The function of a block of rows that bounds ``‖Wᵀ x̃_i‖`` from above, rounding included.

    It can be pickled, and equal ones pickle alike: workers know by that the problems they keep.
    """
    # Entry by entry, |computed - exact| <= (D + 2) u (|W|ᵀ |x̃|), whose norm is at most the reach.
    grow = (shape.dim + 8) * UNIT
    more = grow * reach_of(shape, transform) * (1.0 + grow)
    return partial(_lengths, transform=transform, factor=1.0 + grow, more=more, least=least)


def _lengths(block: Matrix, transform: Matrix, factor: float, more: float, least: float) -> Vector:
    """``factor ‖Wᵀ x̃_i‖ + more``, or `least` if that is more, for the rows of a block."""
    found = []
    for part, _ in _pieces(block):
        z = part @ transform
        found.append(np.sqrt(np.einsum("ij,ij->i", z, z)) * factor + more)
    lengths: Vector = np.maximum(np.concatenate(found), least)
    return lengths


def coordinates_of(
    shape: ProblemShape, transform: Matrix
) -> Callable[[Matrix], tuple[Matrix, Vector]]:
    """The function of a block of rows that has ``Wᵀ x̃_i`` and bounds of their lengths."""
    lengths = _lengths_in(shape, transform)

    def measure(block: Matrix) -> tuple[Matrix, Vector]:
        return block @ transform, lengths(block)

    return measure


def _sum_of_records(rows: RowSums, shape: ProblemShape, sums: Callable[..., Matrix]) -> Any:
    """Sum of `sums` of pieces of the rows; if a record is a group, of its rows' mean."""
    if not shape.several_rows:
        return rows.sum_rows(sums)
    return single_rows(rows, "groups").sum_over_groups(sums)


def _pieces(block: Matrix, parts: Vector | None = None) -> Iterator[tuple[Matrix, Vector | None]]:
    """The rows of a block in pieces that stay in cache, and what belongs to them of `parts`."""
    rows = max(256, _PIECE_ENTRIES // block.shape[1])
    for start in range(0, len(block), rows):
        stop = start + rows
        yield block[start:stop], None if parts is None else parts[start:stop]


def _factors(squares: Vector, d: int, radius: float) -> Vector:
    """What shortens rows of `d` entries to `radius`, from their squared norms; rounded down."""
    norms = np.sqrt(squares) * (1.0 + (d + 8) * UNIT)
    factors: Vector = radius / np.maximum(norms, radius)
    return factors
