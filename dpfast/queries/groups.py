"""Sums over groups of rows, such as all rows of one person, each clipped as one record.

A group's contribution is a function of its rows and of public arguments, wherever they are among
the others.  How many rows there are is private: no sum is divided by their number, and rounding
errors are charged for the largest number that is possible.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpfast._typing import Matrix, Vector
from dpfast.groups import GroupClip
from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.queries.coordinates import InCoordinates, coordinates_of, reach_of
from dpfast.shape import MOST_ROWS, UNIT, ProblemShape
from dpfast.sums import RowSums, check_consistent

#: A group's slopes add up to at most this times the bound of its gradient, by which rounding
#: errors are bounded.  Rows that cancel each other are all that it cuts.
MASS = 16.0


class GroupSizes(Query):
    """Groups by their number of rows: from one of the edges to before the next.

    Sensitivity: ``√k``.  A group is in one count; a replaced one leaves one and enters another.
    The counts are integers, exact in float64.

    Parameters
    ----------
    shape : ProblemShape
        Of groups.
    """

    any_parameter = True

    def __init__(self, shape: ProblemShape) -> None:
        self.shape = shape
        self.edges = _size_edges(shape.max_rows_per_group or MOST_ROWS)
        self.dimension = len(self.edges) - 1

    def sensitivity(self, neighboring_relation: str) -> float:
        return math.sqrt(records_apart(neighboring_relation))

    def rounding_error(self) -> float:
        """Return 0: counts are exact."""
        return 0.0

    def __call__(self, prepared: RowSums) -> Vector:
        """The counts."""
        return prepared.count_groups(self.edges)


class GroupGradient(InCoordinates):
    """``(Wᵀ Σ_u g_u / C, ω Σ_u a_u)``: gradients of groups, clipped as one vector, and how alike.

    With ``s_i`` the slope of row i, clamped to ``± R / ‖z_i‖`` and times the row's weight,
    ``Σ_i s_i x̃_i`` over the rows of a group u, scaled down as a whole, is ``g_u``: its length in
    the coordinates, rounding included, is at most C, and its ``Σ_i |s_i|`` at most ``MASS · C``.
    A group of one row has ``‖g_u‖ <= R c <= C``, c the largest weight, and is left to that, but for
    its slope, which is cut to ``MASS · C``, too: a row of no length in the coordinates could have
    any other.  The alikeness ``a_u`` in [0, 1] is ``min(1, γ r / l)``, l the length of the group's
    gradient before it is scaled and r the root mean square of its rows'.

    A group with a surprising label has a longer gradient than it had with another.  With the
    correlation ρ of the slopes of a group's rows, for the logistic loss, labels have no part in
    what its slopes are multiplied by to begin with: rows are cut as by
    :class:`~dpfast.queries.CoordinateGradient`, and groups by the length to expect of them, see
    csrc/groups.h: cut all the same, they have the expectation 0 where labels follow the model.
    What comes after leaves most of it.

    Of the multinomial loss, a row's slopes are the vector ``s - e_y`` of all K classes, and lengths
    are Frobenius norms; the labels are the rows' own.  The arguments are the transform, the weights
    (of shape (dim,) or (dim, K)), R, C, γ, ρ or None, and, if the loss is to be that of residuals
    in other units or with a narrower corner, their size.

    Sensitivity: ``√(k² + ω²)``, whatever the loss is, with ρ or without, since slopes are scaled
    down as above after that: the first parts of two groups are at most k apart, and the second at
    most ω.

    Parameters
    ----------
    shape : ProblemShape
        Of groups.
    limit : float
        Of the transform's reach.
    weight : float
        ``ω``.
    n_classes : int, default=1
        K; 1 for losses of one margin.
    """

    any_parameter = True

    def __init__(
        self,
        shape: ProblemShape,
        limit: float,
        weight: float,
        n_classes: int = 1,
    ) -> None:
        super().__init__(shape, limit)
        self.weight, self.n_classes = weight, n_classes
        self.largest_argument = shape.largest_weights
        self.dimension = n_classes * shape.dim + 1
        weights = (shape.dim,) if n_classes == 1 else (shape.dim, n_classes)
        self.takes, self.optional = (*self.takes, weights, (), (), (), None, ()), 1

    def sensitivity(self, neighboring_relation: str) -> float:
        return math.hypot(records_apart(neighboring_relation), self.weight)

    def rounding_error(self) -> float:
        """Return the error of sums to which a group adds slopes of ``MASS``, and at most ω."""
        shape = self.shape
        chain = shape.group_additions() + shape.dim + self.n_classes + 60
        unit = 1.01 * UNIT * chain * shape.n_samples
        return unit * (MASS * self.limit + self.weight)

    def prepare(self, rows: RowSums, *fixed: Any) -> tuple[RowSums, Matrix, float]:
        """The rows, measured in the coordinates, the transform, and its reach."""
        (transform,) = fixed
        measure = coordinates_of(self.shape, transform)
        problem = rows.measured_by(measure, transform)
        return problem, transform, reach_of(self.shape, transform)

    def check_point(self, *point: Any) -> None:
        """Refuse bounds with which products would leave the range of float64.

        And a correlation for another loss than the logistic one.
        """
        super().check_point(*point)
        bounds, correlation = (*point[1:4], *point[5:]), point[4:5]
        known = [rho for rho in correlation if rho is not None]
        check_consistent(bool(known), self.shape.loss)
        in_range = all(1e-100 <= bound <= 1e100 for bound in bounds)
        if not (in_range and all(np.ndim(rho) == 0 and 0.0 <= rho <= 1.0 for rho in known)):
            raise ValueError(
                "R, C, γ and sizes must be between 1e-100 and 1e100, and ρ between 0 and 1; got "
                f"{point[1:]}. Nothing was spent on it."
            )

    def __call__(self, prepared: tuple[RowSums, Matrix, float], *point: Any) -> Vector:
        """The gradient and the share at the weights."""
        problem, transform, reach = prepared
        w, row_norm, norm, gauge, correlation, *size = point
        if size:
            problem = problem.with_loss(self.shape.loss.zoomed(*size))
        points = w[None] if w.ndim == 1 else w.T
        clip = self._clip(row_norm, norm, gauge, correlation, reach)
        total, share = problem.group_gradient(points, clip)
        return np.append((transform.T @ total.T).ravel() / norm, self.weight * share)

    def _clip(
        self, row_norm: float, norm: float, gauge: float, correlation: float | None, reach: float
    ) -> GroupClip:
        """How groups are clipped so that what is stated of them holds."""
        shape = self.shape
        down = 1.0 - 8.0 * UNIT
        longest = shape.max_rows_per_group or MOST_ROWS
        largest = shape.max_weight / (shape.max_rows_per_group or 1)
        unit = (shape.dim + longest + 40) * UNIT
        return GroupClip(
            norm=norm * down,
            row_norm=min(row_norm, norm * down / largest),
            mass=MASS * norm * down,
            gauge=gauge,
            # Products of rows, and a form of them; each row in the coordinates.
            relative=2.0 * unit,
            absolute=2.0 * unit * reach,
            consistent=correlation is not None,
            correlation=correlation or 0.0,
        )


def _size_edges(most: int) -> Vector:
    """Sizes that are told apart: each up to four, then two an octave."""
    edges = [1, 2, 3, 4]
    while edges[-1] <= most:
        edges.append(edges[-1] * 3 // 2 if edges[-1] & (edges[-1] - 1) == 0 else edges[-2] * 2)
    kept = [edge for edge in edges if edge <= most]
    return np.array([*kept, most + 1], dtype=np.float64)
