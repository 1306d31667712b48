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
is cut makes the covariance larger and leaves the root alone, but steps longer.  Residuals have no
first curvature, which tells what the coordinates stretched too far, so their ``ω_i`` are ``K / (κ_i
h_i²)`` at most: no curvature is cut, and no step is too long.

The slope of a logistic loss is bounded by itself.  That of the squared loss and of Huber's is a
residual, which is cut at a scale ``τ`` and counted in units of it: ``ψ = clip(z - y, ± τ) / τ``
with ``M = 1``.  Its curvature is in units of ``1/τ``, and falls from 1 to 0 on a short way around
τ, so that rounding cannot make a leap of it.

The slope of a loss with a log link is cut at a scale, too, times the row's share ``e = c_i / c`` of
the largest weight, which says how long it was exposed: ``ψ = clip(e ℓ', ± τ) / (e τ)``.  So what is
cut is the residual of a count, not that of a rate, which is large wherever exposures are short;
``c_i ψ_i`` is at most c.  Its curvature is the one expected where the model holds, a function of
the margin alone: a curvature with large targets in it could not be bounded without bias.  Margins
above the width, where means lie above all targets, are brought to it.

The fixed argument stacks three linear functions of the row, ``[G | H | w]``: coordinates in which
scores are bounded, those in which curvatures are, and the weights of the margin.  The others are
τ, 1 where slopes have no scale, and the part of a record that one row is, 1 where a record is a
row.

Groups.  Where a record is a group of rows, with weights ``c_i`` times the part, all that bounds a
row's contribution is added up over the group before anything else is: if ``Σ_i c_i ω_i M_i l_i``
is beyond ``C c``, c the largest weight, the weights of the whole group are lowered in the same
proportion, and so with ``Σ_i c_i ω'_i κ_i h_i²`` and ``K c``; of residuals, what they may add to
their curvature counts with the first sum where it is more.  For scores with a log link the bound of
``c_i ψ_i`` takes the place of ``c_i M_i``.  A group of many rows counts less, whatever their
targets are: its score ``Σ_i c_i ω_i ψ_i z_i`` has mean zero given its rows if each of them has,
however alike its targets are.

Rounding.  The images of a row under the stack are wrong by at most ``e = (D + 8) u`` times the
reach of the stack in all, see :mod:`dpfast.queries.coordinates`.  That moves a contribution of at
most b by at most ``b e (10 + a s)``, s the steepest in the margin of ``ψ / M``, of M relatively,
and of a curvature that falls.  For, over b and in units of e, since ``ω M l <= C``,
``ω' κ h² <= K`` and ``l, h >= 1``:

- the row itself counts 1, l as much; its products and ``h²`` count 2; M, where it is not constant,
  ``1/2``, as its logarithm rises by ``1 - M`` at most, and κ counts 1, as that of a mean does;
- so ω counts 2 at most, by ``M l`` or by the ``h²`` of residuals, whose κ is 1; and ω' 3;
- scores: 3, and s for ψ, so a = 1;
- curvatures: 5, and 1 for κ or s for what falls, so a = 1;
- products: 6, and 2 s, twice what scores count, so a = 2;
- squared slopes: 2 s for ``ψ²``, and s for the other entry, over ``√2``, so a = 2;
- counts by size: 4.1 over the least size that is told apart.  With a log link that is up to ``√2``
  below the least scale: 5.8 s, so a = 6.  For residuals it is the least scale, over which s is 2.5:
  a = 2 would do; it is 4.

The 8 in e is for the row's own arithmetic: at a limit of ``4 √2 (D + 1)`` and more, it charges many
times the ``(2 D + 80) u b`` that this has.  The sum that a group is lowered by is as wrong,
relatively, as what is lowered, so each time doubles the error of the weights: four times for
groups, whose curvatures are lowered twice.  Additions within a group count three times in these,
and four times in products: twice as those of its score, twice as those of what lowers it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpfast._typing import Matrix, Vector
from dpfast.chunks import add_up
from dpfast.losses import Loss
from dpfast.privacy import records_apart
from dpfast.queries.coordinates import InCoordinates, _unit, triangle_of
from dpfast.shape import MOST_ROWS, UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums

Indices = NDArray[np.int64]

# Scales of slopes: the least one, and that of residuals where it adds no more than so much rounding
# to a sum, per unit of a record's bound, with coordinates that reach as far as is needed.
_LEAST_SCALE, _LEAST_RESIDUAL, _LITTLE = 2.0**-8, 2.0**-12, 0.05
# How much farther than the least limit coordinates need to reach, for tens of categories or columns
# that are sixteen times narrower than their bounds; and how far they may, of any loss.  What
# rounding may add to a sum for each, per unit of a record's bound, and for what is usual.
_NEEDED, _FARTHEST = 2.0**4, 2.0**9
_FOR_NEEDED, _FOR_FARTHEST, _USUAL = 0.2, 0.01, 2e-4
# How often the steepest slope counts in what rounding moves, if nothing less is shown for a query;
# and for counts by the size of slopes with a log link.
_STEEP, _STEEP_SIZES = 4.0, 6.0
# How often additions within a group count at most.
_WITHIN = 4
# Octaves below the highest target that are told apart, at least.
_OCTAVES = 14.0
# Around the scale the curvature falls from 1 to 0 over this share of it.
_FALL = 0.4
#: Lengths that rows are told apart by, over the root of their weights' number.
LENGTHS = 2.0 ** (0.5 * np.arange(8.0, -1.0, -1.0))


def served(loss: Loss) -> bool:
    """Whether slopes and curvatures at a margin are bounded over the targets as below.

    Those of residuals are, once these are cut, those with a log link, and those of the logistic
    loss, which alone has several classes.
    """
    return scaled(loss) or loss.multiclass


def scaled(loss: Loss) -> bool:
    """Whether slopes have no bound of their own that is of use, and are cut at a scale."""
    return loss.even or loss.log_link


def scales(shape: ProblemShape) -> tuple[float, float]:
    """The least and the largest scale; both 1 where slopes have none."""
    loss, least = shape.loss, _LEAST_RESIDUAL
    if loss.log_link:
        return _LEAST_SCALE, max(1.0, loss.lipschitz)
    if not loss.even:
        return 1.0, 1.0
    needed = _NEEDED * _least_limit(shape)
    while least < _LEAST_SCALE and _moved_at(shape, least) * needed > _LITTLE:
        least *= 2.0
    return least, 1.0


def sizes_of(shape: ProblemShape) -> Vector:
    """Sizes that slopes are told apart by, from the largest scale down."""
    least, largest = scales(shape)
    steps = math.ceil(2.0 * math.log2(largest / least))
    return largest * 2.0 ** (-0.5 * np.arange(steps + 1.0))


def target_ladder(loss: Loss) -> Vector:
    """Sizes that targets are told apart by, from the highest down, half an octave apart."""
    low, high = loss.target_range
    octaves = math.log2(high / low) if low > 0.0 else 0.0
    steps = math.ceil(2.0 * min(64.0, max(_OCTAVES, octaves)))
    return high * 2.0 ** (-0.5 * np.arange(steps + 1.0))


@dataclass(frozen=True)
class Records:
    """Some rows as a query sees them."""

    z: Matrix  # images under the stack
    target: Vector
    counts: Vector  # given weights, times the part of a record
    whole: float  # the largest that a count can be
    first: Indices | None  # where each group begins; None if a record is a row

    @property
    def margin(self) -> Vector:
        return self.z[:, -1]


class _Weighted(InCoordinates):
    """A sum over rows that are weighted as the module says.

    Parameters
    ----------
    shape : ProblemShape
        Of the logistic, the squared or Huber's loss, or one with a log link.
    score_radius : float
        ``C``.
    curvature_bound : float
        ``K``.
    limit : float
        Of the reach of the fixed argument.
    """

    # How often the steepest slope counts in what rounding moves, see the module.
    _steep = _STEEP

    def __init__(
        self, shape: ProblemShape, score_radius: float, curvature_bound: float, limit: float
    ) -> None:
        super().__init__(shape, limit, 2 * shape.dim + 1)
        self.takes = (*self.takes, (), ())
        self.score_radius, self.curvature_bound = score_radius, curvature_bound
        self.dimension = shape.dim * (shape.dim + 1) // 2

    @property
    def _single(self) -> float:
        """Bound of one record's contribution in l2 norm."""
        raise NotImplementedError

    def rounding_error(self) -> float:
        """Return the error of a sum whose rows' entries are wrong by the reach, see the module."""
        least, _ = scales(self.shape)
        moved = _moved_at(self.shape, least, self._steep) * self.limit
        return self._single * (_added(self.shape) + moved)

    def check_point(self, *point: Any) -> None:
        """Refuse scales and parts that the bounds are not stated for."""
        super().check_point(*point)
        if len(point) == self.fixed:
            return  # the stack alone
        scale, part = point
        least, largest = scales(self.shape)
        if not least <= scale <= largest:
            raise ValueError(
                f"the scale must be from {least:g} to {largest:g} for the loss "
                f"{self.shape.loss.name!r}; got {scale!r}. Nothing was spent on it."
            )
        if not (1e-100 <= part <= 1e100 if self.shape.several_rows else part == 1.0):
            raise ValueError(
                "the part of a record that a row is must be positive, and 1 where a record is a "
                f"row; got {part!r}. Nothing was spent on it."
            )

    def prepare(self, rows: RowSums, *fixed: Any) -> tuple[RowSums, Matrix]:
        """The rows, and the stack."""
        stack = fixed[0]
        if not self._bends:
            stack = np.delete(stack, slice(self.shape.dim, -1), axis=1)
        return rows, np.ascontiguousarray(stack)

    @property
    def _bends(self) -> bool:
        """Whether H is looked at."""
        return self.shape.loss.even

    def __call__(self, prepared: tuple[RowSums, Matrix], *point: Any) -> Vector:
        """The sum."""
        rows, stack = prepared
        scale, part = point
        summed = _summed_by_group if self.shape.several_rows else _summed
        work = partial(summed, query=self, stack=stack, scale=scale, part=part)
        total = add_up(rows.map_blocks(work))
        return triangle_of(total) if total.ndim == 2 else np.asarray(total)

    def contribution(self, rows: Records, scale: float) -> Vector | Matrix:
        """What some records add up to, slopes in units of a scale; of a matrix all of it."""
        raise NotImplementedError

    def _cut(self, rows: Records) -> Vector:
        """``ω_i``, lowered by groups."""
        loss = self.shape.loss
        lengths = np.sqrt(np.maximum(_squares(rows.z[:, : self.shape.dim]), 1.0))
        # A row's score, and for residuals its curvature, over what a record's may be.
        part = largest_slope(loss, rows.margin) * lengths / self.score_radius
        whole = part * _bounds(loss, rows)
        if loss.even:
            bend = self._bend(rows) / self.curvature_bound
            part, whole = np.maximum(part, bend), np.maximum(whole, bend * rows.counts)
        return _lowered(1.0 / np.maximum(1.0, part), whole, rows.first, self.shape.max_weight)

    def _bend(self, rows: Records) -> Vector:
        """``κ_i h_i²``."""
        squares = _squares(rows.z[:, self.shape.dim : -1])
        return largest_curvature(self.shape.loss, rows.margin) * np.maximum(squares, 1.0)

    def _scores(self, rows: Records, scale: float) -> Vector:
        """``c_i ω_i ψ_i``."""
        loss = self.shape.loss
        return _bounds(loss, rows) * self._cut(rows) * _slopes(loss, rows, scale)


class WeightedScores(_Weighted):
    """``Σ_i c_i ω_i ψ_i Gᵀ x̃_i``.

    Sensitivity: ``k C c``, c the largest weight: ``ω |ψ| ‖Gᵀ x̃‖ <= ω M l <= C``; of a group, the
    sum of these over its rows is at most ``C c``.
    """

    _steep = 1.0

    def __init__(
        self, shape: ProblemShape, score_radius: float, curvature_bound: float, limit: float
    ) -> None:
        super().__init__(shape, score_radius, curvature_bound, limit)
        self.dimension = shape.dim

    @property
    def _single(self) -> float:
        return self.score_radius * self.shape.max_weight

    def sensitivity(self, neighboring_relation: str) -> float:
        return records_apart(neighboring_relation) * self._single

    def contribution(self, rows: Records, scale: float) -> Vector:
        """The scores of some records."""
        return self._scores(rows, scale) @ rows.z[:, : self.shape.dim]


class WeightedCurvature(_Weighted):
    """Upper triangle of ``Σ_i c_i ω'_i ψ'_i z_i z_iᵀ``, its diagonal over ``√2``, ``z = Hᵀ x̃``.

    With ``ω' = min(ω, K / (κ h²))``, ``ψ'`` in units of ``1/τ``.  Sensitivity: ``√(k/2) K c``, as
    that of :class:`~dpfast.queries.Gram`: one row contributes a positive semi-definite matrix of
    Frobenius norm ``c ω' ψ' ‖z‖² <= c ω' κ h² <= c K``; of a group, the sum of these over its rows
    is at most ``K c``.
    """

    _bends, _steep = True, 1.0

    @property
    def _single(self) -> float:
        return self.curvature_bound * self.shape.max_weight

    def sensitivity(self, neighboring_relation: str) -> float:
        return math.sqrt(records_apart(neighboring_relation) / 2.0) * self._single

    def contribution(self, rows: Records, scale: float) -> Matrix:
        """The curvature of some records."""
        bend = self._bend(rows)
        cut = rows.counts * np.minimum(self._cut(rows), self.curvature_bound / bend)
        weights = _lowered(cut, bend, rows.first, self._single)
        curvatures = _curvatures(self.shape.loss, rows, scale)
        return _gram(rows.z[:, self.shape.dim : -1], weights * curvatures)


class ScoreProducts(_Weighted):
    """Upper triangle of ``Σ_r s_r s_rᵀ``, its diagonal over ``√2``, over records r.

    ``s_r`` is the sum of ``c_i ω_i ψ_i Gᵀ x̃_i`` over the rows of the record: a group's score as a
    whole, so that scores that are alike within a group are counted as such.

    Sensitivity: ``√(k/2) C² c²``, as that of :class:`~dpfast.queries.Gram`, for ``‖s‖ <= C c``.
    """

    _steep = 2.0

    @property
    def _single(self) -> float:
        return (self.score_radius * self.shape.max_weight) ** 2

    def sensitivity(self, neighboring_relation: str) -> float:
        return math.sqrt(records_apart(neighboring_relation) / 2.0) * self._single

    def contribution(self, rows: Records, scale: float) -> Matrix:
        """The products of some records."""
        factors, z = self._scores(rows, scale), rows.z[:, : self.shape.dim]
        if rows.first is None:
            return _gram(z, factors * factors)
        scores = np.add.reduceat(z * factors[:, None], rows.first, axis=0)
        return _gram(scores, np.ones(len(rows.first)))


class SquaredSlopes(_Weighted):
    """``Σ_i (b_i ψ_i², c_i ψ'_i / κ)``, ``ψ'`` in units of ``1/τ``, κ the largest curvature.

    ``b_i`` is the weight ``c_i``; with a log link the largest one, c, and ψ_i then e times what it
    is otherwise.

    Sensitivity: ``√2 c``: both entries of a row are from 0 to c, and those of a group, whose
    weights are lowered until they add up to c at most.
    """

    _steep = 2.0

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

    def contribution(self, rows: Records, scale: float) -> Vector:
        """Both sums of some records."""
        loss, most = self.shape.loss, self.shape.max_weight
        weights = _lowered(_bounds(loss, rows), np.ones(len(rows.counts)), rows.first, most)
        curvature = _curvatures(loss, rows, scale) / steepest_curvature(loss)
        if loss.log_link:
            curvature *= rows.counts / rows.whole
        return np.array([weights @ _slopes(loss, rows, scale) ** 2, weights @ curvature])


class _Counts(_Weighted):
    """Rows by a size of theirs: counts at a ladder of sizes, by weight.

    The ladder falls by ``√2`` from step to step.  A size between two of its steps is divided among
    them, in proportion to how near it is on a logarithmic scale; one beyond the first or the last
    belongs to that.

    Sensitivity: ``√k c``, c the largest weight.  What a row adds has no negative entry and adds up
    to its weight, so it is no longer than c, and so is what a group adds, whose weights are lowered
    until they add up to c at most; two such vectors have a product >= 0, so they are at most √2
    times their length apart.  The position on the ladder moves by less than 3 units of the size
    over the least one, two counts with it.
    """

    ladder: Vector
    # Whether rows count alike, whatever their weight.
    _alike = False
    _bends = False

    def __init__(
        self, shape: ProblemShape, score_radius: float, curvature_bound: float, limit: float
    ) -> None:
        super().__init__(shape, score_radius, curvature_bound, limit)
        self.dimension = len(self.ladder)

    @property
    def _single(self) -> float:
        return self.shape.max_weight

    def sensitivity(self, neighboring_relation: str) -> float:
        return math.sqrt(records_apart(neighboring_relation)) * self._single

    def sizes(self, rows: Records) -> Vector:
        """Of some rows."""
        raise NotImplementedError

    def contribution(self, rows: Records, scale: float) -> Vector:
        """The counts of some records; they do not depend on the scale."""
        del scale
        ladder, first = self.ladder, rows.first
        counts = _bounds(self.shape.loss, rows) if self._alike else rows.counts
        sizes = np.clip(self.sizes(rows), ladder[-1], ladder[0])
        place = np.clip(-2.0 * np.log2(sizes / ladder[0]), 0.0, len(ladder) - 1.0)
        lower = np.minimum(place.astype(np.intp), len(ladder) - 2)
        weights = _lowered(counts, np.ones(len(counts)), first, self._single)
        beyond: Vector = weights * (place - lower)
        counted = np.bincount(lower, weights - beyond, len(ladder))
        return np.asarray(counted + np.bincount(lower + 1, beyond, len(ladder)), dtype=np.float64)


class ResidualSizes(_Counts):
    """Rows by the size of their slope, at the sizes of :func:`sizes_of`, by weight.

    That is their residual ``|z - y|``; with a log link, ``e |ℓ'|``, e the share of the largest
    weight, where every row counts as one of that weight.

    Sensitivity: ``√k c``, c the largest weight: see the counts above, of which it is one.
    """

    def __init__(
        self, shape: ProblemShape, score_radius: float, curvature_bound: float, limit: float
    ) -> None:
        if not scaled(shape.loss):
            raise ValueError(
                "the loss must be one of residuals, or have a log link, to have slopes of many "
                f"sizes; got {shape.loss.name!r}."
            )
        self.ladder = sizes_of(shape)
        super().__init__(shape, score_radius, curvature_bound, limit)
        self._alike = shape.loss.log_link
        self._steep = _STEEP_SIZES if shape.loss.log_link else _STEEP

    def sizes(self, rows: Records) -> Vector:
        """Of slopes."""
        if not self.shape.loss.log_link:
            return np.abs(rows.margin - rows.target)
        return np.maximum(-_log_link_slopes(self.shape.loss, rows), 0.0)


class TargetSizes(_Counts):
    """Rows by their target, at the sizes of :func:`target_ladder`, by weight; with a log link.

    Sensitivity: ``√k c``, c the largest weight: see the counts above, of which it is one.
    """

    def __init__(
        self, shape: ProblemShape, score_radius: float, curvature_bound: float, limit: float
    ) -> None:
        self.ladder = target_ladder(shape.loss)
        super().__init__(shape, score_radius, curvature_bound, limit)

    def sizes(self, rows: Records) -> Vector:
        """Of targets; the stack is not looked at."""
        return rows.target


class RowLengths(_Counts):
    """Rows by their length ``‖Gᵀ x̃‖`` over the root of its dimension: counts at :data:`LENGTHS`.

    Sensitivity: ``√k c``, c the largest weight: see the counts above, of which it is one.
    """

    def __init__(
        self, shape: ProblemShape, score_radius: float, curvature_bound: float, limit: float
    ) -> None:
        self.ladder = LENGTHS
        super().__init__(shape, score_radius, curvature_bound, limit)

    def sizes(self, rows: Records) -> Vector:
        """Of rows; targets are not looked at."""
        return np.sqrt(_squares(rows.z[:, : self.shape.dim]) / self.shape.dim)


def stack_limit(shape: ProblemShape) -> float:
    """Largest reach that rounding is charged for.

    What it adds to a sum is next to nothing, or up to a fifth of a record's bound where columns ask
    for so far a reach that are narrower than their bounds; more only for twice the reach of the
    coordinates to begin with, which is the least.
    """
    moved, least = _moved(shape), _least_limit(shape)
    needed = min(_FOR_NEEDED / moved, _NEEDED * least)
    farthest = min(_FOR_FARTHEST / moved, _FARTHEST * least)
    return max(_USUAL / moved, farthest, needed, least)


def _least_limit(shape: ProblemShape) -> float:
    """Twice the reach of the coordinates to begin with."""
    return 4.0 * math.sqrt(2.0) * (shape.dim + 1.0)


def _added(shape: ProblemShape) -> float:
    """What additions add to a sum, per unit of a record's bound: those of all, within a group."""
    within = _WITHIN * MOST_ROWS if shape.several_rows else 0
    return _unit(shape) + 1.01 * UNIT * within * shape.n_samples


def _moved(shape: ProblemShape) -> float:
    """What all rows' own rounding adds to a sum, per unit of the reach and of a record's bound."""
    return _moved_at(shape, scales(shape)[0])


def _moved_at(shape: ProblemShape, least: float, often: float = _STEEP) -> float:
    """The same if this is the least scale, and the steepest slope counts so often."""
    loss = shape.loss
    if loss.even:
        steep = 1.0 / (_FALL * least)
    elif loss.log_link:
        # Within the scale a slope rises by the expected curvature and the scale at most: it is
        # ``κ (1 - y exp(-z))``, and κ rises by κ at most.  A tenth more is for good measure.
        steep = 1.1 * (steepest_curvature(loss) / least + 1.0)
    else:
        steep = loss.smoothness / float(largest_slope(loss, np.zeros(1))[0])
    moved = (10.0 + often * steep) * (4.0 if shape.several_rows else 1.0)
    return 1.01 * UNIT * (shape.dim + 8) * shape.n_samples * moved


def largest_slope(loss: Loss, margin: Vector) -> Vector:
    """Largest ``|ψ|`` at a margin over all targets."""
    return np.ones(len(margin)) if scaled(loss) else expit(np.abs(margin))


def largest_curvature(loss: Loss, margin: Vector) -> Vector:
    """Largest ``ψ'`` at a margin over all targets; above 0."""
    if loss.even:
        return np.ones(len(margin))
    if loss.log_link:
        # Expected, it is the slope of the target 0: that of all of them is ℓ' = κ (1 - y exp(-z)).
        curvature = loss(_inside(loss, margin), np.zeros(len(margin)))[1]
        return np.maximum(curvature, 1e-300)
    half = np.exp(-0.5 * np.minimum(np.abs(margin), 600.0))
    return np.asarray((half / (1.0 + half * half)) ** 2, dtype=np.float64)


def steepest_curvature(loss: Loss) -> float:
    """Largest expected curvature of residuals, or with a log link, at any margin."""
    return float(largest_curvature(loss, np.array([loss.width or 0.0]))[0])


def _inside(loss: Loss, margin: Vector) -> Vector:
    """Margins of means no higher than the highest target, and not so low that curvatures vanish."""
    return np.clip(margin, -600.0, float(loss.width or 0.0))


def _log_link_slopes(loss: Loss, rows: Records) -> Vector:
    """``e ℓ'``."""
    slope = loss(_inside(loss, rows.margin), rows.target)[1]
    return slope * np.asarray(rows.counts / rows.whole)


def _bounds(loss: Loss, rows: Records) -> Vector:
    """What ``c_i ψ_i`` is bounded by, per unit of the largest slope."""
    return np.full(len(rows.counts), rows.whole) if loss.log_link else rows.counts


def _slopes(loss: Loss, rows: Records, scale: float) -> Vector:
    """``c_i ψ_i`` over its bound; of residuals and with a log link in units of the scale."""
    if loss.log_link:
        return np.clip(_log_link_slopes(loss, rows) / scale, -1.0, 1.0)
    if loss.even:
        return np.clip((rows.margin - rows.target) / scale, -1.0, 1.0)
    slope: Vector = -rows.target * expit(-rows.target * rows.margin)
    return slope


def _curvatures(loss: Loss, rows: Records, scale: float) -> Vector:
    """``ψ'``; of a residual in units of one over the scale."""
    if not loss.even:
        return largest_curvature(loss, rows.margin)
    residual = np.abs(rows.margin - rows.target) / scale
    return np.clip(0.5 + (1.0 - residual) / _FALL, 0.0, 1.0)


def _lowered(weights: Vector, bounds: Vector, first: Indices | None, most: float) -> Vector:
    """Weights with which ``Σ_i w_i b_i`` is at most `most` for every group; rows have theirs."""
    if first is None:
        return weights
    total = np.add.reduceat(weights * bounds, first)
    sizes = np.diff(np.append(first, len(weights)))
    return weights * np.repeat(most / np.maximum(total, most), sizes)


def _summed(
    problem: RowAccess, query: _Weighted, stack: Matrix, scale: float, part: float
) -> Vector | Matrix:
    """A query's sum over rows that are one array."""
    counts = problem.sample_weight

    def parts() -> Iterator[Vector | Matrix]:
        start = 0
        for z in problem.map_rows(lambda block: block @ stack):
            rows = slice(start, start + len(z))
            weights = np.ones(len(z)) if counts is None else counts[rows]
            # The part is 1, see `check_point`.
            records = Records(z, problem.target[rows], weights, part * query.shape.max_weight, None)
            yield query.contribution(records, scale)
            start += len(z)

    return add_up(parts())


def _summed_by_group(
    problem: RowAccess, query: _Weighted, stack: Matrix, scale: float, part: float
) -> Vector | Matrix:
    """The same over groups of rows."""
    counts = problem.sample_weight

    def work(block: Matrix, rows: slice, first: Indices) -> Vector | Matrix:
        weights = np.full(len(block), part)
        if counts is not None:
            weights *= counts[rows]
        whole = part * query.shape.max_weight
        records = Records(block @ stack, problem.target[rows], weights, whole, first)
        return query.contribution(records, scale)

    return add_up(problem.map_group_rows(work))


def _gram(z: Matrix, factors: Vector) -> Matrix:
    """``Σ_i f_i z_i z_iᵀ``."""
    return np.asarray(z.T @ (z * factors[:, None]))


def _squares(z: Matrix) -> Vector:
    squares: Vector = np.einsum("ij,ij->i", z, z)
    return squares
