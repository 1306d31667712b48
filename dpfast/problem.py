"""Rows in memory, loss and ridge of one learning problem, and the sums over its chunks.

A :class:`~dpfast.ProblemShape` holds what is public; a :class:`Problem` adds the private rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from dpfast import _kernels
from dpfast._typing import Matrix, Vector
from dpfast._validation import check_integer, check_real, warn
from dpfast.chunks import add_up, finish, map_in_order, thread_count
from dpfast.coded import CodedMatrix
from dpfast.column_blocks import ColumnBlock
from dpfast.errors import PrivacyLeakWarning
from dpfast.groups import GroupClip, GroupedRows, index_groups
from dpfast.losses import Loss
from dpfast.rows import Rows, as_rows, check_matrix, is_dask
from dpfast.shape import MOST_ROWS, UNIT, ProblemShape, gram_rows
from dpfast.sums import RowAccess, as_vector, check_consistent, check_cut, divided

T = TypeVar("T")

A_BOUND = "a bound known without looking at the data (what is beyond it is scaled down)"
_ALL = slice(None)
# What is read twice in a row in pieces of this size comes from cache the second time.
_CACHE_BYTES = 2**18
# Margins that were updated this often are computed afresh: rounding errors have added up.
_MAX_UPDATES = 30
# Entries beyond this are brought back before anything else: products with them could overflow, and
# a factor that takes such a row into the ball could be subnormal, which has few bits.
_LARGEST_ENTRY = 1e150
# Targets beyond this are set to it, or sums of losses could overflow.
_LARGEST_TARGET = 1e100
# Rows of groups that are measured at once, at least.
_MEASURED_ROWS = 1024
# Problems below this size stay on one thread; handing chunks to others costs more than it saves.
_THREADING_BYTES = 8 * 2**20


class Problem(RowAccess):
    """A learning problem: private rows, a loss, a ridge, and public bounds.

    ``F(w) = (1/n) Σ_i c_i ℓ(<x̃_i, w>; y_i) + (α/2)‖w‖²`` with ``x̃_i = (t_i x_i, intercept)`` and
    ``t_i = min(1, data_norm / ‖x_i‖₂)``: rows outside the ball of radius `data_norm` are brought
    onto it, a transform that looks at one row at a time and therefore costs no privacy.

    A problem belongs to one thread at a time; of the threads it starts itself (`n_jobs`), it takes
    care.

    Parameters
    ----------
    X : array-like, SciPy sparse matrix or array, or CodedMatrix of shape (n_samples, n_features)
        Dense float64 and float32 arrays with contiguous rows, sparse CSR and rows in codes are used
        in place and never written to; see :mod:`dpfast.rows` for the others.  Do not change them
        while the problem is used: its bounds hold for the entries that it found.
    y : array-like of shape (n_samples,)
        -1 or +1 for a classification loss, finite numbers for a regression loss (beyond ±1e100 they
        are set to that).
    loss : Loss or str, default="logistic"
    alpha : float or None, default=None
        Ridge of the mean loss; None leaves the choice to the solver.
    data_norm : float or None, default=None
        Public bound of ``‖x_i‖₂``.  None takes it from the data, which the guarantee does not
        cover, with a warning.
    intercept : float, default=1.0
        Value of the constant column; 0 for none.  Whether `alpha` draws its weight to zero is
        up to the solver (`Solver.penalizes_intercept`).
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Weights ``c_i >= 0`` of the rows.  They are private like the rows; the mean is over n, not
        over their sum.  Weights beyond `max_weight` are lowered to it.
    max_weight : float or None, default=None
        Public bound of the weights.  None takes it from the data, with a warning, where there are
        weights.
    groups : array-like of shape (n_samples,) or None, default=None
        Whose row each is, a person's, say: integers, texts or other values that can be told apart.
        Neighbors then differ in all rows of one group.  The number of groups is public, the number
        of rows is not: ``F(w)`` is over the number of groups, and a row counts ``1/m`` of
        `max_rows_per_group`, m, if that is given.
    max_rows_per_group : int or None, default=None
        Public bound of the rows of a group that are used: of a longer one so many, chosen evenly.
        None: 1000, and only solvers that need no such bound can be used.
    n_jobs : int or None, default=None
        Threads; None means one, -1 all cores.  Results do not depend on it.
    strict : bool, default=False
        Refuse instead of warn when something public would be inferred from data.
    columns : sequence of ColumnBlock, default=()
        How all columns were declared, see :class:`~dpfast.ProblemShape`.

    Attributes
    ----------
    shape : ProblemShape
        The public quantities.
    leaks : tuple of str
        What was inferred from private data, in words.

    Raises
    ------
    TypeError, ValueError
        If an argument is not of the stated kind, X is not two-dimensional or has no rows, X or y
        has NaN or infinities, or lengths differ.
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        loss: Loss | str = "logistic",
        alpha: float | None = None,
        data_norm: float | None = None,
        *,
        intercept: float = 1.0,
        sample_weight: ArrayLike | None = None,
        max_weight: float | None = None,
        groups: ArrayLike | None = None,
        max_rows_per_group: int | None = None,
        n_jobs: int | None = None,
        strict: bool = False,
        columns: Sequence[ColumnBlock] = (),
    ) -> None:
        if is_dask(X, y, sample_weight, groups):
            # NumPy would compute it, and bring all rows here without saying so.
            raise TypeError(
                "X, y, sample_weight and groups must be in memory; got a dask collection. "
                "dpfast.blocks.BlockProblem(dpfast.blocks.from_dask(X, y), ...) sums where the "
                "partitions are."
            )
        self.n_jobs = thread_count(n_jobs)
        self.leaks = ()
        loss = Loss.of(loss)
        intercept = check_real("intercept", intercept, low=-1e100, high=1e100)
        if data_norm is not None:
            data_norm = check_real("data_norm", data_norm, low=1e-100, high=1e100)
        matrix = check_matrix(X)
        target = _as_target(y, loss, matrix.shape[0])
        self._groups = _grouped(groups, max_rows_per_group, matrix.shape[0])
        records = matrix.shape[0]
        if self._groups is not None:
            records = self._groups.count
            matrix, target = _rows_at(matrix, self._groups.order), self._groups.ordered(target)
        # What a group contributes must not depend on where its rows are: that follows from the
        # others' ids, and from where their rows are, even if one row of each is kept.
        self._alike = groups is not None
        self._target = target
        self._matrix = matrix
        self._rows = as_rows(matrix, self._target, intercept, alike=self._alike)
        self._inverse_norms: tuple[int, NDArray[np.float32]] | None = None
        self._consistent = False
        self._line: _Line | None = None
        self._measured: _kernels.RowGroups | None = None
        # The sums below need the sizes; the bounds are filled in as they become known.
        self.shape = ProblemShape(
            records,
            self._rows.n_features,
            data_norm or 1.0,
            loss,
            intercept,
            alpha,
            unit="row" if groups is None else "group",
            max_rows_per_group=max_rows_per_group,
            columns=tuple(columns),
        )
        self._layout = self.shape.of_rows(self._rows.n_samples)
        self._weight = self._settle_weights(sample_weight, max_weight, strict)
        self._settle_rows(data_norm, strict)
        self._labels: Vector | None = None

    # ---- construction ---------------------------------------------------------------------------

    def _bound_of(self, name: str, what: str, largest: float, strict: bool) -> float:
        """The largest of something as its bound, with a warning, or refuse."""
        if strict:
            raise ValueError(f"{name} must be given when strict=True; got None. Pass {A_BOUND}.")
        warn(
            f"{name} was not given, so {what} is taken from the data. The privacy guarantee does "
            f"not cover that: pass {A_BOUND}.",
            PrivacyLeakWarning,
        )
        self.leaks = (*self.leaks, f"{name} was taken from the data")
        bound = largest or 1.0  # where all are zero, any bound will do
        if not 1e-100 <= bound <= 1e100:
            raise ValueError(
                f"{name} must be given where {what} is beyond [1e-100, 1e100]; got None. What is "
                "beyond the bound is scaled down."
            )
        return bound

    def _settle_weights(
        self, sample_weight: ArrayLike | None, max_weight: float | None, strict: bool
    ) -> Vector | None:
        if max_weight is not None:
            max_weight = check_real("max_weight", max_weight, low=1e-100, high=1e100)
        if sample_weight is None:
            if max_weight is not None:
                raise ValueError(
                    f"max_weight must be None without sample_weight; got {max_weight!r}."
                )
            return self._parts_of_records(None)
        weight = self._per_row("sample_weight", sample_weight).copy()
        if weight.min() < 0.0:
            raise ValueError(
                "sample_weight must hold numbers >= 0; got a negative one. A weight of 0 leaves a "
                "row out."
            )
        if max_weight is None:
            largest = float(weight.max())
            max_weight = self._bound_of("max_weight", "the largest weight", largest, strict)
        elif weight.max() > max_weight:
            weight = np.minimum(weight, max_weight)
        self.shape = replace(self.shape, max_weight=max_weight, weighted=True)
        return self._parts_of_records(weight)

    def _parts_of_records(self, weight: Vector | None) -> Vector | None:
        """Weights of which those of a group add up to at most the largest one."""
        most = self.shape.max_rows_per_group or 1
        if most > 1:
            part = (1.0 - 8.0 * UNIT) / most
            weight = np.full(self._rows.n_samples, part) if weight is None else weight * part
        self._rows.set_weight(weight)
        return weight

    def _per_row(self, name: str, values: ArrayLike) -> Vector:
        """A vector with a finite number for each of the rows that were given, as they are kept."""
        if self._groups is None:
            return as_vector(name, values, self._rows.n_samples)
        ordered: Vector = self._groups.ordered(as_vector(name, values, self._groups.n_given))
        return ordered

    def _settle_rows(self, data_norm: float | None, strict: bool) -> None:
        """Scale rows onto the ball of radius `data_norm`; rounding never leaves them outside."""
        largest = self._largest_norm()
        if largest > _LARGEST_ENTRY and self._shorten_huge_rows():
            largest = self._largest_norm()
        if data_norm is None:
            data_norm = self._bound_of("data_norm", "the largest row norm", largest, strict)
        self.shape = replace(self.shape, data_norm=data_norm)
        self._row_scale: Vector | None = None
        if largest <= data_norm:
            return
        scale = np.empty(self._rows.n_samples)

        def work(start: int, stop: int) -> None:
            norms = self._norms(start, stop)
            shrunk = (data_norm / np.maximum(norms, data_norm)) * (1.0 - 4.0 * UNIT)
            scale[start:stop] = np.where(norms <= data_norm, 1.0, shrunk)

        finish(self._map(work))
        self._rows.set_row_scale(scale)
        self._row_scale = scale

    def _largest_norm(self) -> float:
        return max(self._map(lambda start, stop: float(self._norms(start, stop).max())))

    def _shorten_huge_rows(self) -> bool:
        """Divide rows with entries that are too large for arithmetic by powers of two, in a copy.

        They remain far outside the ball of radius `data_norm`, so where they end on it is the same.
        """
        matrix = _entries(self._rows.matrix)
        if scipy.sparse.issparse(matrix):
            sizes = np.maximum.reduceat(
                np.append(abs(matrix.data), 0.0), np.minimum(matrix.indptr[:-1], matrix.nnz)
            )
            sizes[np.diff(matrix.indptr) == 0] = 0.0
        else:
            sizes = abs(matrix).max(axis=1)
        huge = sizes > _LARGEST_ENTRY
        if not huge.any():
            return False
        # The largest entry of each comes close to what is allowed, 2^498.  Those of others would
        # overflow, and NumPy's warning tell of them.
        factors = np.where(huge, np.ldexp(1.0, np.minimum(498 - np.frexp(sizes)[1], 0)), 1.0)
        if scipy.sparse.issparse(matrix):
            matrix = matrix.copy()
            matrix.data *= np.repeat(factors, np.diff(matrix.indptr))
        else:
            matrix = np.array(matrix, dtype=np.float64)
            matrix *= factors[:, np.newaxis]
        self._matrix = matrix
        self._rows = as_rows(matrix, self._target, self.shape.intercept, alike=self._alike)
        if self._weight is not None:
            self._rows.set_weight(self._weight)
        return True

    def _norms(self, start: int, stop: int) -> Vector:
        """Upper bounds of the norms of stored rows, before scaling."""
        norms = np.empty(stop - start)
        kernel, first, last = self._rows.chunk(start, stop)
        try:
            kernel.row_norms(first, last, norms)
        except FloatingPointError:
            raise ValueError(
                "X must hold finite numbers only; got NaN or infinity. Remove or fill such values "
                "by a rule fixed without looking at the data."
            ) from None
        return norms

    def _prepare_clipping(self, order: int = 2) -> None:
        """Lower bounds of ``1/‖x̃_i‖`` in float32, so that they cost half the memory traffic."""
        if self._inverse_norms is not None and self._inverse_norms[0] == order:
            return
        inverse = np.empty(self._rows.n_samples, dtype=np.float32)

        def work(start: int, stop: int) -> None:
            if order == 1:
                whole = self._l1_norms(start, stop)
            else:
                norms = np.minimum(self._norms(start, stop), self.shape.data_norm)
                whole = np.hypot(norms, self.shape.intercept)
            with np.errstate(divide="ignore", over="ignore"):
                exact = (1.0 - 8.0 * UNIT) / whole
                inverse[start:stop] = _rounded_down(exact)

        finish(self._map(work))
        self._rows.set_inverse_norm(inverse, self._consistent)
        self._inverse_norms = order, inverse

    def _l1_norms(self, start: int, stop: int) -> Vector:
        """Upper bounds of ``‖x̃_i‖₁``: a sum of d terms is within d units of the exact one."""
        # As float64 first: the least integer of a type has no absolute value in it.
        block = abs(_entries(self._sliceable()[start:stop]).astype(np.float64))
        norms = np.asarray(block.sum(axis=1, dtype=np.float64), dtype=np.float64).ravel()
        if self._row_scale is not None:
            norms = norms * self._row_scale[start:stop]
        rounding = 1.0 + (self.shape.dim + 8) * 2.0 * UNIT
        return np.asarray((norms + abs(self.shape.intercept)) * rounding)

    def _sliceable(self) -> Any:
        """The matrix in a form whose rows can be picked."""
        if scipy.sparse.issparse(self._matrix) and self._matrix.format != "csr":
            self._matrix = self._matrix.tocsr()
        return self._matrix

    def _rows_of(
        self,
        matrix: Any,
        target: Vector,
        inverse_norm: NDArray[np.float32] | None,
        which: slice | NDArray[np.int64] = _ALL,
    ) -> Rows:
        """Rows of `matrix`, which are those at `which` here, with all that belongs to them."""
        rows = as_rows(matrix, target, self.shape.intercept, alike=self._alike)
        if self._weight is not None:
            rows.set_weight(self._weight[which])
        if self._row_scale is not None:
            rows.set_row_scale(self._row_scale[which])
        if inverse_norm is not None:
            rows.set_inverse_norm(inverse_norm, self._consistent)
        return rows

    # ---- sums over chunks -----------------------------------------------------------------------

    def _map(self, work: Callable[[int, int], T], step: int | None = None) -> Iterator[T]:
        """`work` on every chunk; results in the order of the chunks, as they come."""
        threads = self.n_jobs if self._rows.nbytes > _THREADING_BYTES else 1
        step = step or self._layout.chunk_rows()
        return map_in_order(work, self._rows.n_samples, step, threads)

    def map_chunks(
        self, work: Callable[[Any, int, int, int, int], T], *, few: bool = False
    ) -> Iterator[T]:
        step = self._layout.few_chunks_rows() if few else None
        return self._map(
            lambda start, stop: work(*self._rows.chunk(start, stop), start, stop), step
        )

    def chunks(self) -> Iterator[tuple[Any, int, int, int, int]]:
        n, step = self._rows.n_samples, self._layout.chunk_rows()
        for start in range(0, n, step):
            stop = min(start + step, n)
            yield (*self._rows.chunk(start, stop), start, stop)

    @property
    def sparse(self) -> bool:
        return self._rows.sparse

    def margins(self, w: ArrayLike) -> Vector:
        vector = self._weights("w", w)
        out = np.empty(self._rows.n_samples)
        finish(self._map(lambda start, stop: self._fill_margins(start, stop, [(vector, out)])))
        return out

    def _fill_margins(self, start: int, stop: int, pairs: list[tuple[Vector, Vector]]) -> None:
        """``out[start:stop]`` = margins at `w` for each pair ``(w, out)``, in one read of X."""
        kernel, first, last = self._rows.chunk(start, stop)
        row_bytes = max(1, self._rows.nbytes // self._rows.n_samples)
        # The rows of a block are in cache for the second vector.
        step = last - first if len(pairs) == 1 else max(64, _CACHE_BYTES // row_bytes)
        for at in range(first, last, step):
            end = min(at + step, last)
            for vector, out in pairs:
                kernel.margins(at, end, vector, out[start + at - first : start + end - first])

    def clipped_gradient(
        self,
        w: ArrayLike,
        clip_norm: float = math.inf,
        loss_clip: float = math.inf,
        *,
        clip_order: int = 2,
    ) -> tuple[Vector, float]:
        work = self._gradient_of(self._rows, w, clip_norm, loss_clip, clip_order)
        total, loss_sum = np.zeros(self.shape.dim), 0.0
        for part, value in self._map(work):
            total += part
            loss_sum += value
        return total, loss_sum

    def sampled_gradient(
        self, rows: NDArray[np.int64], w: ArrayLike, clip_norm: float, clip_order: int = 2
    ) -> Vector:
        self._refuse_groups("samples of rows")
        picked = _as_indices(rows, self.shape)
        if clip_norm < math.inf:
            self._prepare_clipping(clip_order)
        inverse = None if self._inverse_norms is None else self._inverse_norms[1][picked]
        sample = self._rows_of(self._sliceable()[picked], self._target[picked], inverse, picked)
        work = self._gradient_of(sample, w, clip_norm, math.inf, clip_order)
        total = np.zeros(self.shape.dim)
        for part, _ in map_in_order(work, len(rows), self._layout.chunk_rows(), 1):
            total += part
        return total

    def _gradient_of(
        self, rows: Rows, w: ArrayLike, clip_norm: float, loss_clip: float, clip_order: int
    ) -> Callable[[int, int], tuple[Vector, float]]:
        """The function of a chunk of `rows` that sums its clipped gradients and losses."""
        vector = self._weights("w", w)
        clip_norm = check_real("clip_norm", clip_norm, low=0.0, low_open=True, allow_inf=True)
        loss_clip = check_real("loss_clip", loss_clip, low=0.0, low_open=True, allow_inf=True)
        clip_order = check_integer("clip_order", clip_order, low=1, high=2)
        if clip_norm < math.inf:
            self._prepare_clipping(clip_order)
        loss = self.shape.loss.spec

        def work(start: int, stop: int) -> tuple[Vector, float]:
            kernel, first, last = rows.chunk(start, stop)
            out = np.empty(self.shape.dim)
            value = kernel.gradient(first, last, loss, vector, clip_norm, loss_clip, out)
            return out, value

        return work

    def objective(self, w: ArrayLike, loss_clip: float = math.inf) -> float:
        vector = self._weights("w", w)
        loss_clip = check_real("loss_clip", loss_clip, low=0.0, low_open=True, allow_inf=True)
        loss = self.shape.loss.spec

        def work(start: int, stop: int) -> float:
            kernel, first, last = self._rows.chunk(start, stop)
            return float(kernel.objective(first, last, loss, vector, loss_clip))

        return float(sum(self._map(work)))

    def line_search_losses(
        self, w: ArrayLike, direction: ArrayLike, steps: ArrayLike, loss_clip: float = math.inf
    ) -> Vector:
        """See :meth:`RowSums.line_search_losses`.

        The margins of `w` and of `direction` are computed once and kept; a later search that
        starts from one of these points does not read X for its margins again.  So a descent that
        searches along one direction an iteration reads X once for each direction.
        """
        start_point = self._weights("w", w)
        vector = self._weights("direction", direction)
        sizes = as_vector("steps", steps, None)
        loss_clip = check_real("loss_clip", loss_clip, low=0.0, low_open=True, allow_inf=True)
        direction_margin = np.empty(self._rows.n_samples)
        unknown = [(vector, direction_margin)]
        kept = self._line.margins_at(start_point) if self._line is not None else None
        if kept is None:
            margin, updates = np.empty(self._rows.n_samples), 0
            unknown.append((start_point, margin))
        else:
            assert self._line is not None
            margin, updates = kept, self._line.updates + 1
        loss, weight = self.shape.loss.spec, self._weight

        def work(start: int, stop: int) -> Vector:
            self._fill_margins(start, stop, unknown)
            out = np.empty(len(sizes))
            _kernels.line_search(
                margin[start:stop],
                direction_margin[start:stop],
                self._target[start:stop],
                None if weight is None else weight[start:stop],
                loss,
                loss_clip,
                sizes,
                out,
            )
            return out

        total = np.zeros(len(sizes))
        for part in self._map(work, step=self._layout.line_search_rows()):
            total += part
        self._line = _Line(start_point, vector, sizes, margin, direction_margin, updates)
        return total

    def weighted_gram(
        self, w: Vector, loss: Loss, max_rows: int | None = None
    ) -> tuple[Matrix, float]:
        n, dim = self._rows.n_samples, self.shape.dim
        step, stride = min(n, gram_rows(dim)), 1
        if self.sparse:
            # Each chunk has a sum of its own, of dim x dim entries.
            step = max(step, -(-n // 16))
        if max_rows is not None and n > 2 * max_rows:
            # Short chunks, so that they are many.
            step = max(64, max_rows // (8 if self.sparse else 100))
            stride = n // max_rows
        gram = self._sparse_gram if self.sparse else self._dense_gram

        def work(start: int, _: int) -> Matrix:
            return gram(*self._rows.chunk(start, min(start + step, n)), w, loss)

        total = add_up(self._map(work, stride * step))
        if not np.all(np.isfinite(total)):
            raise FloatingPointError("Hessian: a result is too large for float64.")
        rows = sum(min(step, n - start) for start in range(0, n, stride * step))
        # Groups that these rows stand for, if a record is a group.
        return total, rows * (self.shape.n_samples / n)

    def _dense_gram(self, kernel: Any, first: int, last: int, w: Vector, loss: Loss) -> Matrix:
        """``Σ_i c_i ℓ''_i x̃_i x̃_i^T`` over rows of a kernel object, by BLAS."""
        rows = np.empty((last - first, self.shape.dim))
        kernel.curvature_rows(first, last, loss.spec, w, rows, 1)
        total: Matrix = rows.T @ rows
        if not loss.convex:
            kernel.curvature_rows(first, last, loss.spec, w, rows, -1)
            total -= rows.T @ rows
        return total

    def _sparse_gram(self, kernel: Any, first: int, last: int, w: Vector, loss: Loss) -> Matrix:
        """The same over sparse rows, by their non-zeros."""
        total = np.zeros((self.shape.dim, self.shape.dim))
        kernel.add_hessian(first, last, loss.spec, w, total)
        return total

    def map_rows(self, work: Callable[[Matrix], T]) -> Iterator[T]:
        def on_chunk(start: int, stop: int) -> T:
            return work(self._dense(start, stop))

        return self._map(on_chunk, step=self._layout.dense_rows())

    def _dense(self, start: int, stop: int) -> Matrix:
        """Rows [start, stop) as the sums see them, in an array of their own."""
        d = self.shape.n_features
        rows = np.empty((stop - start, self.shape.dim))
        part = _entries(self._rows.matrix[start:stop])
        rows[:, :d] = part.toarray() if scipy.sparse.issparse(part) else part
        if self._row_scale is not None:
            rows[:, :d] *= self._row_scale[start:stop, None]
        rows[:, d:] = self.shape.intercept
        return rows

    def map_group_rows(self, work: Callable[[Matrix, slice, NDArray[np.int64]], T]) -> Iterator[T]:
        begins = self._with_groups().start

        def on_groups(first: int, last: int) -> T:
            start, stop = int(begins[first]), int(begins[last])
            rows = self._dense(start, stop)
            return work(rows, slice(start, stop), begins[first:last] - start)

        return self._map_groups(on_groups, self._layout.dense_rows())

    def row_shares(self) -> Vector | None:
        if not self.shape.several_rows:
            return None
        sizes = self._with_groups().sizes
        shares: Vector = np.repeat(1.0 / sizes, sizes)
        return shares

    def count_groups(self, edges: Vector) -> Vector:
        counts = np.histogram(self._with_groups().sizes, edges)[0]
        return counts.astype(np.float64)

    def group_gradient(self, w: Matrix, clip: GroupClip) -> tuple[Matrix, float]:
        groups, measured = self._with_groups(), self._measured
        if measured is None:
            raise ValueError("groups must be measured first; use measured_by.")
        loss = self.shape.loss.spec if len(w) == 1 else None
        how, points = asdict(clip), np.ascontiguousarray(w)

        def work(first: int, last: int) -> tuple[Matrix, float]:
            start, stop = int(groups.start[first]), int(groups.start[last])
            kernel, at, _ = self._rows.chunk(start, stop)
            labels = None if len(w) == 1 else self.labels[start:stop]
            out = np.empty_like(points)
            share = _kernels.group_gradient(
                kernel, at, measured, first, last, loss, labels, points, how, out
            )
            return out, share

        total, shares = np.zeros_like(points), 0.0
        for part, share in self._map_groups(work, self._layout.chunk_rows()):
            total += part
            shares += share
        return total, shares

    def _map_groups(self, work: Callable[[int, int], T], step: int) -> Iterator[T]:
        """`work` on ranges of whole groups with about `step` rows, in their order."""
        edges = self._with_groups().edges(step)
        threads = self.n_jobs if self._rows.nbytes > _THREADING_BYTES else 1

        def on_range(number: int, _: int) -> T:
            return work(int(edges[number]), int(edges[number + 1]))

        return map_in_order(on_range, len(edges) - 1, 1, threads)

    def _with_groups(self) -> GroupedRows:
        if self._groups is None:
            raise ValueError("problem must have groups; got none.")
        return self._groups

    def _refuse_groups(self, what: str) -> None:
        if self.shape.several_rows:
            raise TypeError(
                f"problem must have no groups for {what}; got some: what rows promise holds for "
                "one row of a group only."
            )

    def map_blocks(self, function: Callable[[RowAccess], T]) -> Iterator[T]:
        yield function(self)

    # ---- row by row -----------------------------------------------------------------------------

    @property
    def target(self) -> Vector:
        return self._target

    @property
    def sample_weight(self) -> Vector | None:
        return self._weight

    @property
    def labels(self) -> Vector:
        if self._labels is None:
            raise ValueError("the problem must have labels; got none: use with_labels.")
        return self._labels

    def kernel_rows(self, *, clipped: bool = False) -> Any:
        self._refuse_groups("single rows in a random order")
        if clipped:
            self._prepare_clipping()
        return self._rows.chunk(0, self._rows.n_samples)[0]

    # ---- other views ----------------------------------------------------------------------------

    def _view(self, **changes: Any) -> Self:
        return super()._view(_line=None, **changes)

    def forget_line(self) -> None:
        """Compute margins afresh in the next line search, instead of updating kept ones."""
        self._line = None

    def clipped_by_lengths(
        self,
        lengths: Callable[[RowAccess], Vector],
        longest: float = math.inf,
        consistent: bool = False,
    ) -> Self:
        check_consistent(consistent, self.shape.loss)
        return self._clipped_by(lengths(self), longest, consistent)

    def _clipped_by(
        self, lengths: Vector, longest: float = math.inf, consistent: bool = False
    ) -> Self:
        norms = as_vector("lengths", lengths, self._rows.n_samples)
        weight = self._weight
        if longest < math.inf:
            counted = np.minimum(1.0, longest * (1.0 - 4.0 * UNIT) / np.maximum(norms, longest))
            weight = counted if weight is None else counted * weight
            norms = np.minimum(norms, longest)
        with np.errstate(divide="ignore", over="ignore"):
            inverse = _rounded_down((1.0 - 8.0 * UNIT) / norms)
        twin = self._view(_weight=weight, _consistent=consistent)
        # In place of those of the Euclidean norm.
        twin._inverse_norms = 2, inverse
        twin._rows = twin._rows_of(self._rows.matrix, self._target, inverse)
        return twin

    def with_rows_per_group(self, rows: float) -> Self:
        sizes, most = self._with_groups().sizes, self.shape.max_rows_per_group or 1
        # A hair less, for what this and the division by `most` before may round up.
        parts = (1.0 - 8.0 * UNIT) * most / np.maximum(sizes, rows)
        weight = np.repeat(parts, sizes)
        return self._weighing(weight if self._weight is None else weight * self._weight)

    def with_weights_cut(self, at: float) -> Self:
        largest, weight = self.shape.max_weight, self._weight
        at = check_cut(at, self.shape, weight is not None)
        assert weight is not None
        return self._weighing(np.minimum(np.minimum(weight, at) * (largest / at), largest))

    def measured_by(
        self, measure: Callable[[Matrix], tuple[Matrix, Vector]], transform: Matrix
    ) -> Self:
        groups = self._with_groups()
        measured = _kernels.RowGroups(groups.start, groups.room(2 * self.shape.dim), transform)
        lengths = np.empty(self._rows.n_samples)

        def work(first: int, last: int) -> None:
            start, stop = groups.start[first], groups.start[last]
            z, lengths[start:stop] = measure(self._dense(start, stop))
            measured.set_products(first, last, np.ascontiguousarray(z))

        finish(self._map_groups(work, max(self._layout.dense_rows(), _MEASURED_ROWS)))
        return self._clipped_by(lengths)._view(_measured=measured)

    def with_target(self, y: Any) -> Self:
        if callable(y):
            target = _as_target(y(self._target), self.shape.loss, self._rows.n_samples)
        else:
            given = self._rows.n_samples if self._groups is None else self._groups.n_given
            target = _as_target(y, self.shape.loss, given)
            if self._groups is not None:
                target = self._groups.ordered(target)
        inverse = None if self._inverse_norms is None else self._inverse_norms[1]
        rows = self._rows_of(self._rows.matrix, target, inverse)
        return self._view(_target=target, _rows=rows)

    def in_unit(self, unit: float, loss: Loss) -> Self:
        return self.with_loss(loss).with_target(partial(divided, unit=unit, loss=loss))

    def weighted_by(self, factors: ArrayLike, most: float) -> Self:
        weight = np.minimum(self._per_row("factors", factors), most)
        if weight.min() < 0.0:
            raise ValueError("factors must hold numbers >= 0; got a negative one.")
        if self._weight is not None:
            weight = weight * self._weight
        return self._weighing(weight, shape=self.shape.weighted_by(most))

    def _weighing(self, weight: Vector, **changes: Any) -> Self:
        twin = self._view(_weight=weight, **changes)
        inverse = None if self._inverse_norms is None else self._inverse_norms[1]
        twin._rows = twin._rows_of(self._rows.matrix, self._target, inverse)
        return twin

    def with_labels(self, labels: ArrayLike) -> Self:
        return self._view(_labels=self._per_row("labels", labels))

    def part(self, start: int, stop: int) -> Self:
        if self.shape.unit == "group":
            # Even of one row each: another id, or rows elsewhere, move all rows in between.
            raise TypeError(
                "problem must have no groups for parts of the rows; got some: in which part a "
                "group is depends on the others."
            )
        check_integer("start", start, low=0)
        check_integer("stop", stop, low=start + 1, high=self.shape.n_samples)
        which = slice(start, stop)
        matrix, target = self._sliceable()[which], self._target[which]
        inverse = None if self._inverse_norms is None else self._inverse_norms[1][which]
        shape = replace(self.shape, n_samples=stop - start)
        return self._view(
            shape=shape,
            _layout=shape,
            _matrix=matrix,
            _target=target,
            _rows=self._rows_of(matrix, target, inverse, which),
            _labels=None if self._labels is None else self._labels[which],
            _weight=None if self._weight is None else self._weight[which],
            _row_scale=None if self._row_scale is None else self._row_scale[which],
            _inverse_norms=self._inverse_norms and (self._inverse_norms[0], inverse),
        )


@dataclass
class _Line:
    """The last line search: margins along ``w - a · direction``."""

    w: Vector
    direction: Vector
    steps: Vector
    margin: Vector
    direction_margin: Vector
    updates: int

    def margins_at(self, w: Vector) -> Vector | None:
        """Margins at a point of the line, if it is one that was searched."""
        if np.array_equal(w, self.w):
            return self.margin
        if self.updates >= _MAX_UPDATES:
            return None
        for step in self.steps:
            if np.array_equal(w, self.w - step * self.direction):
                margins: Vector = self.margin - step * self.direction_margin
                return margins
        return None


def _rounded_down(exact: Vector) -> NDArray[np.float32]:
    """Positive numbers in float32, none larger than it was."""
    rounded = exact.astype(np.float32)
    too_large = rounded > exact
    rounded[too_large] = np.nextafter(rounded[too_large], np.float32(0.0))
    return rounded


def _as_indices(rows: NDArray[np.int64], shape: ProblemShape) -> NDArray[np.int64]:
    indices = np.asarray(rows)
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise TypeError(
            f"rows must be a vector of integers; got shape {indices.shape}, dtype {indices.dtype}."
        )
    if len(indices) and (indices.min() < 0 or indices.max() >= shape.n_samples):
        raise ValueError(
            f"rows must be in [0, {shape.n_samples}); got {indices.min()} to {indices.max()}."
        )
    return indices.astype(np.int64, copy=False)


def _grouped(groups: ArrayLike | None, most: int | None, n_rows: int) -> GroupedRows | None:
    """Which rows belong together, and at most how many of them are kept; None without groups."""
    if groups is None:
        if most is not None:
            raise ValueError(f"max_rows_per_group must be None without groups; got {most!r}.")
        return None
    if most is not None:
        most = check_integer("max_rows_per_group", most, low=1, high=MOST_ROWS)
    return index_groups(groups, n_rows, most or MOST_ROWS)


def _rows_at(matrix: Any, order: NDArray[np.int64] | None) -> Any:
    """A copy of the rows with these numbers; None: the matrix as it is."""
    if order is None:
        return matrix
    if scipy.sparse.issparse(matrix) and matrix.format != "csr":
        matrix = matrix.tocsr()
    return matrix[order]


def _entries(part: Any) -> Any:
    """Some rows as an array or a sparse matrix."""
    return part.tocsr() if isinstance(part, CodedMatrix) else part


def _as_target(y: ArrayLike, loss: Loss, length: int) -> Vector:
    target = as_vector("y", y, length).copy()  # or it could be changed when it was checked
    if loss.kind == "classification" and not np.all(np.abs(target) == 1.0):
        raise ValueError(
            f"y must hold -1 and +1 only for the loss {loss.name!r}; it has another value. "
            "Estimators, such as dpfast.LogisticRegression(classes=...), take any labels."
        )
    low, high = loss.target_range
    if target.min() < low or target.max() > high:
        raise ValueError(
            f"y must be in [{low:.17g}, {high:.17g}] for the loss {loss.name!r} of width "
            f"{loss.width:g}; it has other targets. Divide them by a public constant, or clip them."
        )
    if np.abs(target).max() > _LARGEST_TARGET:
        target = np.clip(target, -_LARGEST_TARGET, _LARGEST_TARGET)
    return target
