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
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpfast import _kernels
from dpfast._typing import Matrix, Vector
from dpfast.chunks import add_up
from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.queries._linear import (
    Affine,
    affine_of,
    check_rows_per_group,
    gram,
    lengths,
    measured,
    part_sums,
    relative_weights,
    scaled,
    with_rows_per_group,
)
from dpfast.queries.columns import SHARES
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums, check_consistent, single_rows

_SQRT_2 = math.sqrt(2.0)
# Of the reach of a transform that was brought to the limit: so far it may be beyond.
_HAIR = 1.0 + 2.0**-40
# Reach from which on no square of a length that matters, and product with a slope, underflows.
_LEAST_REACH, _LEAST_SLOPE = 1e-100, 1e-290
#: Bounds of the multinomial loss in the K margins: norm of the derivative, of the second one.
#: ``diag(p) - ppᵀ <= 1/2``, since its rows' absolute entries add up to ``2 p_k (1 - p_k) <= 1/2``.
CLASS_SLOPE, CLASS_CURVATURE = _SQRT_2, 0.5


class ColumnParts(Query):
    """``Σ_i (z_i⁺, z_i⁻, ω z_i², κ ω ‖z_i‖², λ C e_i)`` of columns ``z = (x - center) / scale``.

    Positive and negative parts and squares entry by entry, ``ω = 1/C``; ``e_i`` has row i's weight
    over the largest at the place of its class, and zeros elsewhere.  Rows are clipped to
    ``‖z‖ <= C``.  The arguments are center and scale.  A group of rows contributes the mean over
    them.

    Sensitivity: ``C √(k (1 + 1 + λ²) + κ²)``, without the second 1 if squares are left out and
    without ``λ²`` if there are no classes.  All entries are >= 0; ``‖(z⁺, z⁻)‖ = ‖z‖ <= C``,
    ``‖ω z²‖ <= ω ‖z‖² <= C`` and ``‖λ C e‖ <= λ C``, so a row contributes a vector of at most
    ``C √(1 + 1 + λ²)``, and so do means of such vectors.  Two vectors without negative entries have
    a product >= 0, so they are at most √2 times their length apart.  ``κ ω ‖z‖²`` is one number
    from 0 to ``κ C``, of whatever row, and so is a mean of such numbers.

    Parameters
    ----------
    shape : ProblemShape
        Of a classification loss, there are counts of the targets -1 and +1.
    radius : float
        ``C``.
    squares : bool, default=True
    n_classes : int or None, default=None
        Count that many labels instead of the signs of the targets; 0: count none.
    relative_weight : float, default=0.3
        ``λ``; at 0.3 what the counts add to the noise of the rest is two or four per cent.
    weight_of_lengths : float, default=0
        ``κ``; 0: without the rows' lengths.
    """

    any_parameter = True

    def __init__(
        self,
        shape: ProblemShape,
        radius: float,
        squares: bool = True,
        n_classes: int | None = None,
        relative_weight: float = 0.3,
        weight_of_lengths: float = 0.0,
    ) -> None:
        self.shape, self.radius, self.squares = shape, radius, squares
        self.relative_weight, self.weight_of_lengths = relative_weight, weight_of_lengths
        self.weight = 1.0 / radius
        self.takes = (shape.n_features,), (shape.n_features,)
        self.n_classes = n_classes
        signs = 2 if shape.loss.kind == "classification" else 0
        self.counted = signs if n_classes is None else n_classes
        self.label_weight = relative_weight * radius
        self.dimension = (2 + squares) * shape.n_features + (weight_of_lengths > 0.0) + self.counted

    def sensitivity(self, neighboring_relation: str) -> float:
        parts = 1.0 + self.squares + (self.relative_weight**2 if self.counted else 0.0)
        apart = records_apart(neighboring_relation) * parts + self.weight_of_lengths**2
        return math.sqrt(apart) * self.radius

    def rounding_error(self) -> float:
        """Return the error of sums to which a row adds at most ``(2 + 2 κ + max(1, λ)) C`` in all.

        That is of its own, and twice that where sparse rows are put together of stored entries and
        shifts, see :mod:`dpfast.queries._linear`.
        """
        most = 2.0 + 2.0 * self.weight_of_lengths + max(1.0, self.relative_weight)
        return _unit(self.shape) * 2.0 * most * self.radius

    def split(self, sums: Vector) -> tuple[Vector, Vector, Vector, Vector, Vector]:
        """Sums of ``z⁺``, ``z⁻``, ``z²``, ``‖z‖²`` and classes, their weights taken out."""
        d, last = self.shape.n_features, len(sums) - self.counted
        above, below, squares, lengths, counts = np.split(
            sums, [d, 2 * d, (2 + self.squares) * d, last]
        )
        lengths = lengths / (self.weight * (self.weight_of_lengths or 1.0))
        return above, below, squares / self.weight, lengths, counts / self.label_weight

    def check_point(self, *point: Any) -> None:
        """Refuse a scale that takes rows beyond floating point."""
        super().check_point(*point)
        center, scale = point
        least, farthest = float(np.min(scale)), self.shape.data_norm + float(np.max(np.abs(center)))
        lowest = farthest / self.largest_argument
        if not 0.0 < lowest <= least:
            raise ValueError(
                f"scale must be positive, and at least {lowest:.3g} where columns and "
                f"centers may be {farthest:.3g} apart; got {least:.3g}. Nothing was spent on it."
            )

    def __call__(self, prepared: RowSums, *point: Any) -> Vector:
        """The sums for a center and a scale."""
        center, scale = point
        columns = Affine(1.0 / scale, -center / scale, self.radius)
        classes = None
        if self.counted:
            classes = partial(_class_weights, shape=self.shape, n_classes=self.n_classes)
        squares = self.squares or self.weight_of_lengths > 0.0
        work = partial(_parts, columns=columns, squares=squares, classes=classes)
        # Differences that ought to be >= 0 are, to the last bit.
        sums: Vector = np.maximum(_sum_over_blocks(prepared, work), 0.0)
        d = self.shape.n_features
        if squares:
            sums[2 * d : 3 * d] *= self.weight
        if self.weight_of_lengths > 0.0:
            length = self.weight_of_lengths * sums[2 * d : 3 * d].sum()
            kept = (2 + self.squares) * d
            sums = np.concatenate([sums[:kept], [length], sums[3 * d :]])
        largest = 1.0 if self.shape.several_rows else self.shape.max_weight
        sums[self.dimension - self.counted :] *= self.label_weight / largest
        return sums


def _parts(
    problem: RowAccess,
    *,
    columns: Affine,
    squares: bool,
    classes: Callable[[RowAccess], Vector] | None,
) -> Vector:
    """Sums of entries and weights of classes, in one pass over a block."""
    sums = part_sums(problem, columns=columns, squares=squares).ravel()
    return sums if classes is None else np.append(sums, classes(problem))


def _class_weights(problem: RowAccess, shape: ProblemShape, n_classes: int | None) -> Vector:
    """Sums of some rows' weights by class; None: by the sign of their targets.

    Where a record is a group of rows, each counts its part of it, times its weight over the
    largest, rounded down so that sums are exact.
    """
    labels = problem.target > 0.0 if n_classes is None else problem.labels
    weight, shares = problem.sample_weight, problem.row_shares()
    if shares is not None:
        weight = np.floor(SHARES * shares * relative_weights(problem, shape)) / SHARES
    counts = np.bincount(labels.astype(np.intp), weight, n_classes or 2)
    return counts.astype(np.float64)


class InCoordinates(Query):
    """A query whose first argument is the transform ``W``, of bounded reach."""

    fixed = 1

    def __init__(self, shape: ProblemShape, limit: float, columns: int | None = None) -> None:
        self.shape, self.limit = shape, limit
        self.columns = shape.dim if columns is None else columns
        self.takes = ((shape.dim, self.columns),)

    def check(self, *fixed: Any) -> None:
        """Refuse transforms beyond the limit, or in which lengths underflow."""
        (transform,) = fixed
        reach = reach_of(self.shape, transform)
        if reach < _LEAST_REACH:
            raise ValueError(
                f"transform must have a reach of at least {_LEAST_REACH:g}, or lengths in its "
                f"coordinates vanish; got {reach:.6g}. Nothing was spent on it."
            )
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

    any_parameter = True

    def __init__(self, shape: ProblemShape, radius: float, limit: float) -> None:
        super().__init__(shape, limit)
        self.radius = radius
        self.dimension = shape.n_features * (shape.n_features + 1) // 2

    def sensitivity(self, neighboring_relation: str) -> float:
        return math.sqrt(records_apart(neighboring_relation) / 2.0) * self.radius**2

    def rounding_error(self) -> float:
        """Return the error of the sum, and of products of entries that are wrong by the reach.

        Where sparse rows are put together of stored entries and shifts, no entry is wrong by the
        reach, and terms are as large as this has room for, see :mod:`dpfast.queries._linear`.
        """
        return _unit(self.shape) * self.radius * self._largest()

    def _largest(self) -> float:
        """How large terms are that are added up, over C."""
        return max(9.0 * self.radius, self.radius + 2.0 * self.limit)

    def prepare(self, rows: RowSums, *fixed: Any) -> tuple[RowSums, Matrix]:
        """The rows, and the transform."""
        return rows, fixed[0]

    def __call__(self, prepared: tuple[RowSums, Matrix], *point: Any) -> Vector:
        """The triangle."""
        rows, transform = prepared
        d = self.shape.n_features
        columns = affine_of(self.shape, transform, self.radius)
        coordinates = transform[:, :d] if columns is None else columns
        largest = self.radius * self._largest()
        work = partial(gram, coordinates=coordinates, radius=self.radius, largest=largest)
        return triangle_of(_sum_over_blocks(rows, work))


class CoordinateGradient(InCoordinates):
    """``Wᵀ Σ_i c_i clip(ℓ'_i) x̃_i``: gradient in the coordinates, clipped there.

    The derivative of row i is clamped to ``± C / ‖z_i‖``, so its gradient ``ℓ'_i z_i`` is no longer
    than ``C``; nor than the largest slope L times the reach, which bounds ``‖z_i‖``.  The arguments
    are the transform, the weights ``w`` of the columns, and, if a corner of the loss is to be
    rounded off over less, the factor.

    Where labels follow the model at ``w``, the gradient's expectation is 0, but not that of the
    clamped one: the clamp cuts the slope ``1 - p`` of the less likely label, not the ``p`` of the
    other.  If `consistent`, slopes are first multiplied by ``ω_i = min(1, t / max(|ℓ'_i|, 1 -
    |ℓ'_i|))``, ``t = C / ‖z_i‖``, which is the same for both labels, as ``|ℓ'_i|`` is one minus
    the probability of the row's own: ``E[ω_i ℓ'_i | x_i] = 0``, conditionally unbiased bounded
    influence [1]_.  It is the gradient of a convex loss, too.  If it is None, whether slopes are is
    an argument, after the transform.

    Sensitivity: ``k min(C, L limit) c``, c the largest weight; `consistent` or not, since ``ω_i``
    is in [0, 1] and the clamp comes after it, so that either may follow from earlier releases; and
    whatever the factor is, on which L does not depend.

    Parameters
    ----------
    shape : ProblemShape
    clip_norm : float
        ``C``.
    limit : float
        Of the transform's reach.
    consistent : bool or None, default=False
        For the logistic loss; None: as the argument says.
    columns : int or None, default=None
        Of the transform; None: as many as there are weights.

    Raises
    ------
    ValueError
        If `consistent` is True or None and the loss is another one.

    References
    ----------
    .. [1] Künsch, Stefanski and Carroll (1989), Conditionally unbiased bounded-influence estimation
       in general regression models, with applications to generalized linear models, Journal of the
       American Statistical Association 84.
    """

    slope: float
    # What lengths are taken to be at least, and from which on rows count less.
    least, longest = 0.0, math.inf

    def __init__(
        self,
        shape: ProblemShape,
        clip_norm: float,
        limit: float,
        consistent: bool | None = False,
        columns: int | None = None,
    ) -> None:
        check_consistent(consistent is None or consistent, shape.loss)
        super().__init__(shape, limit, columns)
        self.clip_norm, self.consistent = clip_norm, consistent
        self.fixed = 1 + (consistent is None)
        self.slope = shape.loss.lipschitz
        self.dimension = self.columns
        self.optional = len(self._units())
        told = ((),) * (self.fixed - 1)
        self.takes = (*self.takes, *told, (shape.dim,), *((),) * self.optional)
        self.largest_argument = shape.largest_weights

    def sensitivity(self, neighboring_relation: str) -> float:
        longest = min(self.clip_norm, self.slope * (self.limit * _HAIR))
        return records_apart(neighboring_relation) * longest * self.shape.record_weight

    def rounding_error(self) -> float:
        """Return the error of the sum, of whose rows each adds at most L times the reach."""
        return _unit(self.shape) * (self.slope * self.shape.max_weight) * self.limit

    def check(self, *fixed: Any) -> None:
        """Refuse transforms beyond the limit, and a flag that is neither True nor False."""
        transform, *told = fixed
        super().check(transform)
        if not all(isinstance(each, bool) for each in told):
            raise TypeError(
                f"consistent must be True or False; got {told[0]!r}. Nothing was spent on it."
            )

    def prepare(self, rows: RowSums, *fixed: Any) -> tuple[RowSums, Matrix]:
        """The rows with their lengths in the coordinates, and the transform."""
        transform, *told = fixed
        consistent = bool(told[0] if told else self.consistent)
        lengths = _lengths_in(self.shape, transform, self.least)
        rows = rows.clipped_by_lengths(lengths, self.longest, consistent)
        return rows, operator(self.shape, transform)

    def check_point(self, *point: Any) -> None:
        """Refuse units with which products would leave the range of float64."""
        super().check_point(*point)
        for name, unit in zip(self._units(), point[1:], strict=False):
            if not 1e-100 <= unit <= 1e100:
                raise ValueError(
                    f"the {name} unit must be between 1e-100 and 1e100; got {unit!r}. Nothing was "
                    "spent."
                )

    def _units(self) -> tuple[str, ...]:
        """Whose units the arguments after the weights are."""
        return ("corner's",) if self.shape.loss.cornered else ()

    def __call__(self, prepared: tuple[RowSums, Matrix], *point: Any) -> Vector:
        """The gradient at w."""
        view, transform = prepared
        w, *corner = point
        if corner:
            view = view.with_loss(self.shape.loss.zoomed(*corner))
        return transform.T @ view.clipped_gradient(w, self.clip_norm)[0]


class RelativeGradient(CoordinateGradient):
    """``Wᵀ Σ_i c_i ω_i clip(ℓ'_i / s) x̃_i``: the gradient in units of a slope s that was learned.

    Rows that are longer than `longest` in the coordinates count less, ``ω_i = longest / ‖z_i‖``,
    and the derivative over s is clamped to ``± C / longest`` in all rows: where targets are skewed,
    clamps that differ would make the means of rows differ.  Without `longest` it is clamped to
    ``± C / max(‖z_i‖, 1)``.  The arguments are the transform, of any number of columns, the weights
    ``w`` of the rows' own columns, ``s > 0``, and, if the loss is to be that of residuals in other
    units, their size; of a rounded-off corner, times that of the corner in these units.  Of groups,
    how many rows count as one record comes after the transform: each counts its weight over that
    number, or over that of its group's rows if it is more.

    Sensitivity: ``k C c``, c the largest weight, whatever s, the loss and `longest` are: a row's
    slope times ``ω_i ‖z_i‖`` is at most ``C ω_i ‖z_i‖ / longest <= C``, also of rows that are
    shorter, or ``C ‖z_i‖ / max(‖z_i‖, 1) <= C``.  A group adds vectors of length C times its rows'
    weights, which add up to at most c, however many they are.

    Rounding is bounded by the largest slope, ``C / longest`` or C, ``ω_i <= 1``: shorter rows have
    it whole.

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
    """

    any_parameter = True

    def __init__(
        self,
        shape: ProblemShape,
        clip_norm: float,
        limit: float,
        columns: int,
        longest: float = math.inf,
    ) -> None:
        super().__init__(shape, clip_norm, limit, columns=columns)
        self.longest = longest
        self.least = longest if longest < math.inf else 1.0
        self.slope = clip_norm / self.least
        self.fixed, self.optional = 1 + shape.several_rows, 1
        rows: tuple[tuple[int, ...], ...] = ((),) * shape.several_rows
        self.takes = (shape.dim, columns), *rows, (shape.dim,), (), ()

    def sensitivity(self, neighboring_relation: str) -> float:
        return records_apart(neighboring_relation) * self.clip_norm * self.shape.max_weight

    def check(self, *fixed: Any) -> None:
        """Refuse transforms beyond the limit, and a number of rows that is none."""
        transform, *rows = fixed
        super().check(transform)
        check_rows_per_group(self.shape, tuple(rows))

    def prepare(self, rows: RowSums, *fixed: Any) -> tuple[RowSums, Matrix]:
        """The rows with their lengths in the coordinates, and the transform."""
        transform, *per_group = fixed
        return super().prepare(with_rows_per_group(rows, tuple(per_group)), transform)

    def _units(self) -> tuple[str, ...]:
        return ("slope's", "residuals'")

    def check_point(self, *point: Any) -> None:
        """Refuse units with which slopes, before and where they are clamped, leave float64."""
        super().check_point(*point)
        clamp = min(self.clip_norm, self.slope)
        if len(point) > 1 and not clamp * point[1] >= _LEAST_SLOPE:
            raise ValueError(
                f"the slope's unit times {clamp:g}, at which slopes are clamped, must be at least "
                f"{_LEAST_SLOPE:g}; got {point[1]!r}. Nothing was spent on it."
            )
        loss, size = self.shape.loss, point[2:]
        if size and loss.log_link and not math.isfinite(loss.zoomed(*size).lipschitz):
            raise ValueError(
                f"the residuals' unit must leave slopes of the loss {loss.name!r} finite; got "
                f"{size[0]!r}. Take a smaller one. Nothing was spent on it."
            )

    def __call__(self, prepared: tuple[RowSums, Matrix], *point: Any) -> Vector:
        """The gradient at w, in units of the slope."""
        view, transform = prepared
        w, unit, *size = point
        if size:
            view = view.with_loss(self.shape.loss.zoomed(*size))
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

    If `consistent`, s is scaled by what the longest of ``p - e_k`` needs, of square ``‖p‖² + 1 - 2
    p_k``: the same whichever label the row has, so where labels follow the model the expectation
    is 0, as for :class:`CoordinateGradient`.

    Sensitivity: as for :class:`CoordinateGradient`, one release for all classes; `consistent` or
    not, since the longest is not shorter than the row's own.

    Parameters
    ----------
    shape : ProblemShape
    clip_norm : float
        ``C``.
    limit : float
        Of the transform's reach.
    n_classes : int
        K.
    consistent : bool, default=False
    """

    def __init__(
        self,
        shape: ProblemShape,
        clip_norm: float,
        limit: float,
        n_classes: int,
        consistent: bool = False,
    ) -> None:
        super().__init__(shape, clip_norm, limit, consistent)
        self.slope = CLASS_SLOPE
        self.n_classes = n_classes
        self.takes, self.optional = (self.takes[0], (shape.dim, n_classes)), 0
        self.dimension = n_classes * shape.dim

    def rounding_error(self) -> float:
        """Return the same with a product with the K slopes more, and their norm."""
        chain = self.shape.longest_chain(_class_additions) + self.shape.dim + self.n_classes + 60
        unit = 1.01 * UNIT * chain * self.shape.n_samples
        return unit * CLASS_SLOPE * self.shape.max_weight * self.limit

    def __call__(self, prepared: tuple[RowSums, Matrix], *point: Any) -> Vector:
        """The gradients at the weights."""
        view, transform = single_rows(prepared[0], "several classes"), prepared[1]
        gradient: Vector = multinomial_gradient(view, point[0].T, self.clip_norm).T
        return (transform.T @ gradient).ravel()


def multinomial_gradient(problem: RowAccess, w: Matrix, clip_norm: float = math.inf) -> Matrix:
    """Sum of the rows' gradients at w, of shape (K, dim), in one read of X; **not private**.

    Rows are clipped by the lengths that :meth:`dpfast.Problem.clipped_by_lengths` was given, and
    not at all without these.
    """
    w = np.ascontiguousarray(w)
    labels = problem.labels

    def work(kernel: Any, first: int, last: int, start: int, stop: int) -> Matrix:
        out = np.empty_like(w)
        _kernels.multinomial_gradient(kernel, first, last, labels[start:stop], w, clip_norm, out)
        return out

    return add_up(problem.map_chunks(work))


def column_transform(shape: ProblemShape, center: Vector, scale: Vector) -> Matrix:
    """``W`` with ``Wᵀ x̃ = ((x - center) / scale, 1)``."""
    d = shape.n_features
    transform = np.zeros((shape.dim, shape.dim))
    transform[np.arange(d), np.arange(d)] = 1.0 / scale
    if shape.intercept != 0.0:
        transform[d, :d] = -center / (scale * shape.intercept)
        transform[d, d] = 1.0 / shape.intercept
    return transform


def operator(shape: ProblemShape, transform: Matrix) -> Any:
    """The transform for products with it: sparse if it scales and shifts columns."""
    columns = scaled(shape, transform)
    if columns is None:
        return transform
    d, rest = shape.n_features, transform[shape.n_features :]
    dim = transform.shape[1]
    indices = np.append(np.arange(d), np.tile(np.arange(dim), len(rest)))
    ends = np.append(np.arange(d + 1), d + dim * np.arange(1, len(rest) + 1))
    return csr_array((np.append(columns.factor[:d], rest), indices, ends), shape=transform.shape)


def triangle_of(matrix: Matrix) -> Vector:
    """The upper triangle of a symmetric matrix, row by row, its diagonal times ``√½``."""
    triangle = np.concatenate([row[i:] for i, row in enumerate(matrix)])
    triangle[_diagonal(len(matrix))] *= math.sqrt(0.5)
    return triangle


def symmetric(triangle: Vector, d: int) -> Matrix:
    """The symmetric matrix of d columns that :func:`triangle_of` took this from."""
    matrix, starts = np.empty((d, d)), _diagonal(d)
    for i, start in enumerate(starts):
        matrix[i, i:] = matrix[i:, i] = triangle[start : start + d - i]
    matrix[np.arange(d), np.arange(d)] /= math.sqrt(0.5)
    return matrix


def _diagonal(d: int) -> NDArray[np.intp]:
    """Where it is in the triangle of a matrix of d columns."""
    row = np.arange(d)
    return row * (2 * d + 1 - row) // 2


def bounded(shape: ProblemShape, transform: Matrix, limit: float) -> Matrix:
    """`transform`, stretched less where its reach would pass `limit`.

    Where columns are only scaled and shifted, each by itself, and remain so.
    """
    if reach_of(shape, transform) <= limit:
        return transform
    units = _units(shape)
    highest = limit / (_SQRT_2 * math.sqrt(shape.dim))
    if affine_of(shape, transform, 1.0) is not None:
        sizes = np.linalg.norm(units[:, None] * transform, axis=0)
        shorter: Matrix = transform * (highest / np.maximum(sizes, highest))
        return shorter
    left, values, right = np.linalg.svd(units[:, None] * transform, full_matrices=False)
    lowered: Matrix = ((left * np.minimum(values, highest)) @ right) / units[:, None]
    return lowered


def reach_limit(
    shape: ProblemShape,
    clip_norm: float,
    radius: float,
    farthest: float = 0.0,
    slope: float | None = None,
) -> float:
    """Largest reach with which rounding stays far below one row's contribution.

    But at least twice that of the coordinates to begin with; and up to four times the usual one, if
    it is to get as far as `farthest`.  Slopes are up to `slope`, None for the loss's own.
    """
    slope = (shape.loss.lipschitz if slope is None else slope) * shape.max_weight
    usual = 1e-3 * min(clip_norm * shape.max_weight, radius) / (_unit(shape) * max(slope, 2.0))
    return max(usual, min(4.0 * usual, farthest), 2.0 * _SQRT_2 * (shape.dim + 1.0))


def _unit(shape: ProblemShape) -> float:
    """Rounding of a sum of rows, per unit of what a row contributes."""
    return 1.01 * UNIT * (_additions(shape) + shape.dim + 40) * shape.n_samples


def _additions(shape: ProblemShape) -> int:
    """Longest chain of additions in a sum over all rows, in whichever chunks."""
    return max(shape.additions(), shape.longest_chain(_few_chunks_additions))


def _few_chunks_additions(shape: ProblemShape) -> int:
    """The same in few chunks of rows that are one array."""
    rows = min(shape.few_chunks_rows(), shape.n_samples)
    return rows + 8 + -(-shape.n_samples // rows)


def _class_additions(shape: ProblemShape) -> int:
    """The same by the kernel of several classes: within blocks, blocks, chunks."""
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
    squares = np.square(_units(shape)) @ np.einsum("ij,ij->i", transform, transform)
    return _SQRT_2 * math.sqrt(float(squares))


def _lengths_in(
    shape: ProblemShape, transform: Matrix, least: float = 0.0
) -> Callable[[RowAccess], Vector]:
    """The function of a problem that bounds ``‖Wᵀ x̃_i‖`` from above, rounding included.

    It can be pickled, and equal ones pickle alike: workers know by that the problems they keep.
    """
    return partial(lengths, transform=transform, reach=reach_of(shape, transform), least=least)


def coordinates_of(
    shape: ProblemShape, transform: Matrix
) -> Callable[[Matrix], tuple[Matrix, Vector]]:
    """The function of a block of rows that has ``Wᵀ x̃_i`` and bounds of their lengths."""
    columns, reach = scaled(shape, transform), reach_of(shape, transform)
    coordinates = transform if columns is None else columns
    return partial(measured, coordinates=coordinates, dim=len(transform), reach=reach)


def _sum_over_blocks(rows: RowSums, work: Callable[[RowAccess], Matrix]) -> Matrix:
    """Sum of `work` over blocks of rows."""
    return add_up(rows.map_blocks(work))
