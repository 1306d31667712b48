"""Sums over batches of rows: what one step of a stochastic method sees."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpfast._typing import Vector
from dpfast._validation import check_integer
from dpfast.mechanisms import Query
from dpfast.privacy import records_apart
from dpfast.queries.gradient import within_norm
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess

_LOG_OVERFLOW = 200.0 * math.log(2.0)


class BatchSum(Query):
    """``Σ_{i in B} c_i clip(g_i)`` over a batch of rows, every ``g_i`` a multiple of ``x̃_i``.

    ``g_i`` is the gradient ``ℓ'_i x̃_i`` at w or, with `differences`, that less the same at a
    snapshot.  It is clipped to the norm ``C``, and never longer than the loss's slope allows: ``L``
    times the row norm, twice that for differences.  The arguments are w, the batch's row numbers,
    and the snapshot, if there is one.  The stochastic solvers' sums are computed in C
    (:class:`~dpfast.fused.SampledSteps`); this function is the same in NumPy.

    Sensitivity, for one batch: ``k C c``, c the largest weight: a record's presence changes the sum
    by one vector no longer than ``C c``, and a replaced record by two.

    Parameters
    ----------
    shape : ProblemShape
    sampling : {"poisson", "fixed-size"}
    batch : int
        (Expected) number of rows.
    clip_norm : float
        ``C``, if it is less than what the loss allows; may be infinite if that is not.
    differences : bool, default=False
    """

    def __init__(
        self,
        shape: ProblemShape,
        sampling: str,
        batch: int,
        clip_norm: float,
        *,
        differences: bool = False,
    ) -> None:
        self.shape, self.sampling, self.differences = shape, sampling, differences
        self.largest_argument = shape.largest_weights
        self.batch = check_integer("batch", batch, low=1, high=shape.n_samples)
        natural = shape.loss.lipschitz * shape.row_norm * (2.0 if differences else 1.0)
        self.longest = within_norm(clip_norm, natural, shape)
        #: What the kernel clips to; infinite if no row is longer anyway.
        self.clip_norm = clip_norm if clip_norm < natural else math.inf
        #: Rows that a batch never exceeds.
        self.capacity = batch
        if sampling == "poisson":
            self.capacity = poisson_capacity(batch, shape.n_samples)
        self.dimension = shape.dim
        self.takes = ((shape.dim,), (-1,), (shape.dim,))[: 2 + differences]

    def sensitivity(self, neighboring_relation: str) -> float:
        return records_apart(neighboring_relation) * self.longest * self.shape.record_weight

    def rounding_error(self) -> float:
        """Return the error of a sum of at most `capacity` rows, added up in any order."""
        largest = self.longest * self.shape.max_weight
        return 1.01 * UNIT * (self.capacity + 8) * self.capacity * largest

    def check_point(self, *point: Any) -> None:
        """Refuse a batch with a row twice, or with more rows than rounding is charged for."""
        super().check_point(*point)
        rows, n = point[1], self.shape.n_samples
        known = np.all((rows >= 0) & (rows < n) & (rows == np.floor(rows)))
        if np.any(rows[1:] <= rows[:-1]):  # mostly they come in order
            rows = np.sort(rows)
        if not known or np.any(rows[1:] == rows[:-1]) or not 0 < len(rows) <= self.capacity:
            raise ValueError(
                f"a batch must be different rows from 0 to {n - 1}, 1 to {self.capacity}; got "
                f"{len(rows)}. Nothing was spent on it."
            )

    def __call__(self, prepared: RowAccess, *point: Any) -> Vector:
        """The sum at w over the rows with these numbers."""
        w, rows, *snapshot = point
        rows = rows.astype(np.int64)
        if not self.differences:
            return prepared.sampled_gradient(rows, w, self.clip_norm)
        loss, target = self.shape.loss, prepared.target
        slopes = loss(prepared.margins(w), target)[1] - loss(prepared.margins(*snapshot), target)[1]
        # The first array of rows is the only one: a batch has few of them.
        x = np.concatenate(list(prepared.map_rows(np.copy)))[rows]
        lengths = np.maximum(np.linalg.norm(x, axis=1), 1e-300)
        clamp = self.clip_norm / lengths
        weight = 1.0 if prepared.sample_weight is None else prepared.sample_weight[rows]
        total: Vector = (weight * np.clip(slopes[rows], -clamp, clamp)) @ x
        return total


def poisson_capacity(batch: int, n_samples: int) -> int:
    """Rows that a Poisson batch exceeds with probability below ``2^-200``.

    By Chernoff's bound ``P(X >= x) <= exp(-(x ln(x/m) - x + m))`` for a sum of independent trials
    of mean m.
    """

    def exponent(x: float) -> float:
        return x * math.log(x / batch) - x + batch

    low, high = float(batch), 2.0 * batch + 200.0
    while exponent(high) < _LOG_OVERFLOW:
        high *= 2.0
    while high - low > 0.5:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exponent(middle) < _LOG_OVERFLOW else (low, middle)
    return min(n_samples, math.ceil(high))
