"""Rows, loss and ridge of one learning problem, and its sums over row blocks.

A :class:`~dpfast.ProblemShape` holds what is public; a :class:`Problem` adds the private rows.
Every full-batch quantity is a sum over a fixed list of row chunks whose boundaries depend on the
shape alone; chunks may run on several threads and are always added in the same order, so results do
not depend on `n_jobs`.
"""

from __future__ import annotations

import copy
import math
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from dpfast import _kernels
from dpfast._validation import check_integer, check_real
from dpfast.errors import PrivacyLeakWarning
from dpfast.losses import Loss
from dpfast.rows import Rows, as_rows, check_matrix, is_dask
from dpfast.shape import UNIT, ProblemShape, gram_rows

Vector = NDArray[np.float64]
T = TypeVar("T")

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
# Problems below this size stay on one thread; handing chunks to others costs more than it saves.
_THREADING_BYTES = 8 * 2**20


class Problem:
    """A learning problem: private rows, a loss, a ridge, and public bounds.

    ``F(w) = (1/n) Σ_i c_i ℓ(<x̃_i, w>; y_i) + (α/2)‖w‖²`` with ``x̃_i = (t_i x_i, intercept)`` and
    ``t_i = min(1, data_norm / ‖x_i‖₂)``: rows outside the ball of radius `data_norm` are brought
    onto it, a transform that looks at one row at a time and therefore costs no privacy.

    A problem belongs to one thread at a time; of the threads it starts itself (`n_jobs`), it takes
    care.

    Parameters
    ----------
    X : array-like or SciPy sparse matrix or array of shape (n_samples, n_features)
        Dense float64 and float32 arrays with contiguous rows and sparse CSR are used in place and
        never written to; see :mod:`dpfast.rows` for the others.
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
        Value of the constant column (penalized like the others); 0 for none.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Weights ``c_i >= 0`` of the rows.  They are private like the rows; the mean is over n, not
        over their sum.  Weights beyond `max_weight` are lowered to it.
    max_weight : float or None, default=None
        Public bound of the weights.  None takes it from the data, with a warning, where there are
        weights.
    n_jobs : int or None, default=None
        Threads; None means one, -1 all cores.  Results do not depend on it.
    strict : bool, default=False
        Refuse instead of warn when something public would be inferred from data.

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
        n_jobs: int | None = None,
        strict: bool = False,
    ) -> None:
        if is_dask(X, y, sample_weight):
            # NumPy would compute it, and bring all rows here without saying so.
            raise TypeError(
                "X, y and sample_weight must be in memory; got a dask collection. "
                "dpfast.blocks.BlockProblem(dpfast.blocks.from_dask(X, y), ...) sums where the "
                "partitions are."
            )
        self.n_jobs = _thread_count(n_jobs)
        self.leaks: tuple[str, ...] = ()
        loss = Loss(loss) if isinstance(loss, str) else loss
        intercept = check_real("intercept", intercept, low=-1e100, high=1e100)
        if data_norm is not None:
            data_norm = check_real("data_norm", data_norm, low=1e-100, high=1e100)
        matrix = check_matrix(X)
        self._target = _as_target(y, loss, matrix.shape[0])
        self._matrix = matrix
        self._rows = as_rows(matrix, self._target, intercept)
        self._inverse_norms: tuple[int, NDArray[np.float32]] | None = None
        self._threads: tuple[int, ThreadPoolExecutor] | None = None
        self._line: _Line | None = None
        # The sums below need the sizes; the bounds are filled in as they become known.
        self.shape = ProblemShape(
            self._rows.n_samples, self._rows.n_features, data_norm or 1.0, loss, intercept, alpha
        )
        self._weight = self._settle_weights(sample_weight, max_weight, strict)
        self._settle_rows(data_norm, strict)
        self._labels: Vector | None = None

    # ---- construction ---------------------------------------------------------------------------

    def _infer(self, name: str, what: str, strict: bool) -> None:
        """Warn that a public quantity is taken from the data, or refuse."""
        message = (
            f"{name} was not given, so {what} is taken from the data. The privacy guarantee does "
            f"not cover that: pass a bound known without looking at the data (what is beyond it is "
            f"scaled down)."
        )
        if strict:
            raise ValueError(f"{name} must be given when strict=True; got None. {message}")
        warnings.warn(message, PrivacyLeakWarning, stacklevel=5)
        self.leaks = (*self.leaks, f"{name} was taken from the data")

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
            return None
        weight = _as_vector("sample_weight", sample_weight, self.shape.n_samples)
        if weight.min() < 0.0:
            raise ValueError("sample_weight must hold numbers >= 0; got a negative one.")
        if max_weight is None:
            self._infer("max_weight", "the largest weight", strict)
            max_weight = float(weight.max()) or 1.0
        elif weight.max() > max_weight:
            weight = np.minimum(weight, max_weight)
        self.shape = replace(self.shape, max_weight=max_weight)
        self._rows.set_weight(weight)
        return weight

    def _settle_rows(self, data_norm: float | None, strict: bool) -> None:
        """Scale rows onto the ball of radius `data_norm`; rounding never leaves them outside."""
        largest = self._largest_norm()
        if largest > _LARGEST_ENTRY and self._shorten_huge_rows():
            largest = self._largest_norm()
        if data_norm is None:
            self._infer("data_norm", "the largest row norm", strict)
            # All-zero rows: any bound will do.
            data_norm = largest or 1.0
        self.shape = replace(self.shape, data_norm=data_norm)
        self._row_scale: Vector | None = None
        if largest <= data_norm:
            return
        scale = np.empty(self.shape.n_samples)

        def work(start: int, stop: int) -> None:
            norms = self._norms(start, stop)
            shrunk = (data_norm / np.maximum(norms, data_norm)) * (1.0 - 4.0 * UNIT)
            scale[start:stop] = np.where(norms <= data_norm, 1.0, shrunk)

        _finish(self._map(work))
        self._rows.set_row_scale(scale)
        self._row_scale = scale

    def _largest_norm(self) -> float:
        return max(self._map(lambda start, stop: float(self._norms(start, stop).max())))

    def _shorten_huge_rows(self) -> bool:
        """Divide rows with entries that are too large for arithmetic by powers of two, in a copy.

        They remain far outside the ball of radius `data_norm`, so where they end on it is the same.
        """
        matrix = self._rows.matrix
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
        # The largest entry of each comes close to what is allowed, 2^498.
        factors = np.where(huge, np.ldexp(1.0, 498 - np.frexp(sizes)[1]), 1.0)
        if scipy.sparse.issparse(matrix):
            matrix = matrix.copy()
            matrix.data *= np.repeat(factors, np.diff(matrix.indptr))
        else:
            matrix = np.array(matrix, dtype=np.float64)
            matrix *= factors[:, np.newaxis]
        self._matrix = matrix
        self._rows = as_rows(matrix, self._target, self.shape.intercept)
        if self._weight is not None:
            self._rows.set_weight(self._weight)
        return True

    def _norms(self, start: int, stop: int) -> Vector:
        """Upper bounds of the norms of stored rows, before scaling."""
        norms = np.empty(stop - start)
        kernel, first, last = self._rows.block(start, stop)
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
        inverse = np.empty(self.shape.n_samples, dtype=np.float32)

        def work(start: int, stop: int) -> None:
            if order == 1:
                whole = self._l1_norms(start, stop)
            else:
                norms = np.minimum(self._norms(start, stop), self.shape.data_norm)
                whole = np.hypot(norms, self.shape.intercept)
            with np.errstate(divide="ignore", over="ignore"):
                exact = (1.0 - 8.0 * UNIT) / whole
                inverse[start:stop] = _rounded_down(exact)

        _finish(self._map(work))
        self._rows.set_inverse_norm(inverse)
        self._inverse_norms = order, inverse

    def _l1_norms(self, start: int, stop: int) -> Vector:
        """Upper bounds of ``‖x̃_i‖₁``: a sum of d terms is within d units of the exact one."""
        # As float64 first: the least integer of a type has no absolute value in it.
        block = abs(self._sliceable()[start:stop].astype(np.float64))
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

    def _made_rows(
        self,
        matrix: Any,
        target: Vector,
        inverse_norm: NDArray[np.float32] | None,
        which: slice | NDArray[np.int64] = _ALL,
    ) -> Rows:
        """Rows of `matrix`, which are those at `which` here, with all that belongs to them."""
        made = as_rows(matrix, target, self.shape.intercept)
        if self._weight is not None:
            made.set_weight(self._weight[which])
        if self._row_scale is not None:
            made.set_row_scale(self._row_scale[which])
        if inverse_norm is not None:
            made.set_inverse_norm(inverse_norm)
        return made

    def _sample(self, rows: NDArray[np.int64]) -> Rows:
        """Copies of some rows."""
        inverse = None if self._inverse_norms is None else self._inverse_norms[1][rows]
        return self._made_rows(self._sliceable()[rows], self._target[rows], inverse, rows)

    # ---- sums over chunks -----------------------------------------------------------------------

    def _chunks(self, step: int | None = None) -> list[tuple[int, int]]:
        n, step = self.shape.n_samples, step or self.shape.chunk_rows()
        return [(start, min(start + step, n)) for start in range(0, n, step)]

    def _map(self, work: Callable[[int, int], T], step: int | None = None) -> Iterator[T]:
        """`work` on every chunk; results in the order of the chunks, as they come."""
        chunks = self._chunks(step)
        threads = min(self.n_jobs, len(chunks)) if self._rows.nbytes > _THREADING_BYTES else 1
        if threads == 1:
            for start, stop in chunks:
                yield work(start, stop)
            return
        queue = _Queue(chunks, work)
        helpers = [self._pool().submit(queue.run) for _ in range(threads - 1)]
        try:
            yield from queue.results()
        finally:
            # On Ctrl-C, the chunks that have not started are dropped; those that have are waited
            # for, since they write into arrays of the caller.
            queue.close()
            for helper in helpers:
                helper.cancel()
            wait(helpers)

    def _pool(self) -> ThreadPoolExecutor:
        """Threads of this problem: started once, and again in a forked child, which has none."""
        if self._threads is None or self._threads[0] != os.getpid():
            # The caller's thread is one of them.
            self._threads = (os.getpid(), ThreadPoolExecutor(max(1, self.n_jobs - 1)))
        return self._threads[1]

    def _weights(self, name: str, w: ArrayLike) -> Vector:
        vector = np.ascontiguousarray(w, dtype=np.float64)
        if vector.shape != (self.shape.dim,):
            raise ValueError(f"{name} must have shape ({self.shape.dim},); got {vector.shape}.")
        if not np.all(np.isfinite(vector)):
            raise ValueError(f"{name} must be finite; got NaN or infinity.")
        return vector

    def map_blocks(self, work: Callable[[Any, int, int, int, int], T]) -> Iterator[T]:
        """``work(kernel, first, last, start, stop)`` on every chunk; results in chunk order.

        Rows [start, stop) of the problem are rows [first, last) of `kernel`, one of the row classes
        of ``dpfast._kernels``.  Chunks may run on several threads at once.
        """
        return self._map(lambda start, stop: work(*self._rows.block(start, stop), start, stop))

    def blocks(self) -> Iterator[tuple[Any, int, int, int, int]]:
        """The arguments of :meth:`map_blocks`, for work that goes one chunk after another."""
        for start, stop in self._chunks():
            yield (*self._rows.block(start, stop), start, stop)

    @property
    def sparse(self) -> bool:
        """Whether the rows are stored sparsely."""
        return self._rows.sparse

    def margins(self, w: ArrayLike) -> Vector:
        """``<x̃_i, w>`` for every row.

        Parameters
        ----------
        w : array-like of shape (dim,)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        vector = self._weights("w", w)
        out = np.empty(self.shape.n_samples)
        _finish(self._map(lambda start, stop: self._fill_margins(start, stop, [(vector, out)])))
        return out

    def _fill_margins(self, start: int, stop: int, pairs: list[tuple[Vector, Vector]]) -> None:
        """``out[start:stop]`` = margins at `w` for each pair ``(w, out)``, in one read of X."""
        kernel, first, last = self._rows.block(start, stop)
        row_bytes = max(1, self._rows.nbytes // self.shape.n_samples)
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
        rows: NDArray[np.int64] | None = None,
    ) -> tuple[Vector, float]:
        """Sum of the rows' clipped gradients and of their clipped losses, in one read of X.

        Parameters
        ----------
        w : array-like of shape (dim,)
        clip_norm : float, default=inf
            Each row's gradient is scaled to this norm if it is longer.
        loss_clip : float, default=inf
            Each row's loss is replaced by this value if it is larger.
        clip_order : {2, 1}, default=2
            The norm that `clip_norm` bounds: l2 or l1.
        rows : int64 array or None, default=None
            Indices of the rows to sum over; they are copied. None: all rows.

        Returns
        -------
        gradient_sum : ndarray of shape (dim,)
            ``Σ_i c_i clip(ℓ'_i x̃_i)``, without the ridge.
        loss_sum : float
            ``Σ_i c_i min(ℓ_i, loss_clip)``, without the ridge.

        Raises
        ------
        ValueError
            If `w` has another shape or is not finite, a bound is not positive, or `clip_order` is
            neither 2 nor 1.

        Notes
        -----
        The l2 sensitivity of `gradient_sum` is ``2 c clip_norm`` (`replace_one`) or ``c clip_norm``
        (`add_or_remove_one`) with ``c = shape.max_weight``; without clipping, `shape.lipschitz`
        takes the place of ``c clip_norm``.  What rounding adds is :meth:`gradient_sum_error`.
        """
        vector = self._weights("w", w)
        clip_norm = check_real("clip_norm", clip_norm, low=0.0, low_open=True, allow_inf=True)
        loss_clip = check_real("loss_clip", loss_clip, low=0.0, low_open=True, allow_inf=True)
        clip_order = check_integer("clip_order", clip_order, low=1, high=2)
        if clip_norm < math.inf:
            self._prepare_clipping(clip_order)
        loss = self.shape.loss.spec
        store = self._rows if rows is None else self._sample(_as_indices(rows, self.shape))

        def work(start: int, stop: int) -> tuple[Vector, float]:
            kernel, first, last = store.block(start, stop)
            out = np.empty(self.shape.dim)
            value = kernel.gradient(first, last, loss, vector, clip_norm, loss_clip, out)
            return out, value

        if rows is None:
            parts = self._map(work)
        else:
            step = self.shape.chunk_rows()
            parts = (
                work(start, min(start + step, len(rows))) for start in range(0, len(rows), step)
            )
        total, loss_sum = np.zeros(self.shape.dim), 0.0
        for part, value in parts:
            total += part
            loss_sum += value
        return total, loss_sum

    def objective(self, w: ArrayLike, loss_clip: float = math.inf) -> float:
        """``Σ_i c_i min(ℓ_i, loss_clip)``, without the ridge and without a gradient."""
        vector = self._weights("w", w)
        loss_clip = check_real("loss_clip", loss_clip, low=0.0, low_open=True, allow_inf=True)
        loss = self.shape.loss.spec

        def work(start: int, stop: int) -> float:
            kernel, first, last = self._rows.block(start, stop)
            return float(kernel.objective(first, last, loss, vector, loss_clip))

        return float(sum(self._map(work)))

    def line_search_losses(
        self, w: ArrayLike, direction: ArrayLike, steps: ArrayLike, loss_clip: float = math.inf
    ) -> Vector:
        """``Σ_i c_i min(ℓ_i, loss_clip)`` at ``w - a · direction`` for every step size ``a``.

        The margins of `w` and of `direction` are computed once and kept; a later search that
        starts from one of these points does not read X for its margins again.  So a descent that
        searches along one direction an iteration reads X once for each direction.

        Parameters
        ----------
        w, direction : array-like of shape (dim,)
        steps : array-like of shape (n_steps,)
        loss_clip : float, default=inf

        Returns
        -------
        ndarray of shape (n_steps,)
            Without the ridge.

        Raises
        ------
        ValueError
            If an argument has another shape, is not finite, or the bound is not positive.

        Notes
        -----
        The sums of one row's change differ by at most ``c loss_clip`` at every step size,
        ``c = shape.max_weight``, for losses >= 0.
        """
        start_point = self._weights("w", w)
        vector = self._weights("direction", direction)
        sizes = _as_vector("steps", steps, None)
        loss_clip = check_real("loss_clip", loss_clip, low=0.0, low_open=True, allow_inf=True)
        direction_margin = np.empty(self.shape.n_samples)
        unknown = [(vector, direction_margin)]
        kept = self._line.margins_at(start_point) if self._line is not None else None
        if kept is None:
            margin, updates = np.empty(self.shape.n_samples), 0
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
        for part in self._map(work, step=self.shape.line_search_rows()):
            total += part
        self._line = _Line(start_point, vector, sizes, margin, direction_margin, updates)
        return total

    def value_and_gradient(self, w: ArrayLike, alpha: float | None = None) -> tuple[float, Vector]:
        """``F(w)`` and ``∇F(w)``: mean loss plus ridge.

        Parameters
        ----------
        w : array-like of shape (dim,)
        alpha : float or None, default=None
            Ridge; None takes the problem's own (0 if it has none).
        """
        vector = self._weights("w", w)
        ridge = self._ridge(alpha)
        gradient, loss_sum = self.clipped_gradient(vector)
        n = self.shape.n_samples
        gradient /= n
        gradient += ridge * vector
        return loss_sum / n + 0.5 * ridge * float(vector @ vector), gradient

    def hessian(
        self, w: ArrayLike, alpha: float | None = None, *, max_rows: int | None = None
    ) -> NDArray[np.float64]:
        """``∇²F(w)``: dense rows through BLAS in blocks, sparse rows by their non-zeros.

        Parameters
        ----------
        w : array-like of shape (dim,)
        alpha : float or None, default=None
            Ridge; None takes the problem's own (0 if it has none).
        max_rows : int or None, default=None
            Estimate it from blocks of rows spread evenly over the data, about this many rows in
            all; None takes all rows.

        Returns
        -------
        ndarray of shape (dim, dim)
        """
        loss = self.shape.loss
        if max_rows is not None:
            max_rows = check_integer("max_rows", max_rows, low=1)
        total, rows = self._weighted_gram(self._weights("w", w), loss, max_rows)
        total /= rows
        total[np.diag_indices(self.shape.dim)] += self._ridge(alpha)
        return total

    def gram(self) -> NDArray[np.float64]:
        """``Σ_i c_i x̃_i x̃_i^T``, the Hessian of the sum of squared losses.

        Returns
        -------
        ndarray of shape (dim, dim)
        """
        return self._weighted_gram(np.zeros(self.shape.dim), Loss("squared"))[0]

    def _weighted_gram(
        self, w: Vector, loss: Loss, max_rows: int | None = None
    ) -> tuple[NDArray[np.float64], int]:
        """``Σ_i c_i ℓ''_i x̃_i x̃_i^T`` and the number of rows in the sum."""
        n, dim = self.shape.n_samples, self.shape.dim
        total = np.zeros((dim, dim))
        signs = (1,) if loss.convex else (1, -1)
        block_rows = min(n, gram_rows(dim))
        buffer: NDArray[np.float64] | None = None
        if self._rows.sparse:
            # Each call touches all of a dim x dim matrix.
            block_rows = max(block_rows, -(-n // 16))
        blocks = self._chunks(block_rows)
        if max_rows is not None and n > 2 * max_rows:
            # Short blocks, so that they are many.
            block_rows = max(64, max_rows // (8 if self._rows.sparse else 100))
            blocks = self._chunks(block_rows)[:: n // max_rows]
        # One block after another: BLAS brings its own threads.
        for start, stop in blocks:
            kernel, first, last = self._rows.block(start, stop)
            if self._rows.sparse:
                # Each block has a sum of its own, or an entry would pass through an addition for
                # every row, and `ProblemShape.gram_additions` promises fewer.
                own = np.zeros((dim, dim))
                kernel.add_hessian(first, last, loss.spec, w, own)
                total += own
                continue
            if buffer is None:
                buffer = np.empty((block_rows, dim))
            for sign in signs:
                kernel.curvature_rows(first, last, loss.spec, w, buffer, sign)
                part = buffer[: stop - start]
                total += sign * (part.T @ part)
        if not np.all(np.isfinite(total)):
            raise FloatingPointError("Hessian: a result is too large for float64.")
        return total, sum(stop - start for start, stop in blocks)

    def map_rows(self, work: Callable[[NDArray[np.float64]], T]) -> Iterator[T]:
        """`work` on blocks of the scaled rows ``x̃_i``, for sums that no kernel computes.

        Parameters
        ----------
        work : callable
            Takes a float64 array of shape (m, dim) that it may write to; called from several
            threads with ``n_jobs > 1``.

        Returns
        -------
        iterator
            Of what `work` returns, in the order of the rows.
        """
        dim, intercept, d = self.shape.dim, self.shape.intercept, self.shape.n_features
        sparse = scipy.sparse.issparse(self._rows.matrix)

        def on_chunk(start: int, stop: int) -> T:
            block = np.empty((stop - start, dim))
            part = self._rows.matrix[start:stop]
            block[:, :d] = part.toarray() if sparse else part
            if self._row_scale is not None:
                block[:, :d] *= self._row_scale[start:stop, None]
            block[:, d:] = intercept
            return work(block)

        return self._map(on_chunk, step=self.shape.block_rows())

    def sum_rows(self, work: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Any:
        """Sum of what `work` returns for the blocks of :meth:`map_rows`, in their order.

        Parameters
        ----------
        work : callable
            As for :meth:`map_rows`; returns an array, of the same shape for every block.

        Returns
        -------
        ndarray
        """
        return add_up(self.map_rows(work))

    def map_shards(self, function: Callable[[Problem], T]) -> Iterator[T]:
        """`function` on the problem of each block of rows; this one is a single block.

        For sums that take one row at a time and no kernel computes: what is added up over the
        shards must not depend on how the rows are divided.

        Parameters
        ----------
        function : callable
            Takes a Problem with some of the rows.  It is to be a function of a module, or a
            ``functools.partial`` of one, since it may be sent to another process.
        """
        yield function(self)

    def forget_line(self) -> None:
        """Compute margins afresh in the next line search, instead of updating kept ones."""
        self._line = None

    def clipped_by_lengths(
        self, lengths: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> Problem:
        """:meth:`clipped_by` the lengths that `lengths` finds for blocks of rows.

        Parameters
        ----------
        lengths : callable
            As the `work` of :meth:`map_rows`; returns upper bounds of the rows' lengths.
        """
        return self.clipped_by(np.concatenate(list(self.map_rows(lengths))))

    def clipped_by(self, norms: Vector) -> Problem:
        """The same problem, whose gradients are clipped by given lengths of the rows.

        Parameters
        ----------
        norms : ndarray of shape (n_samples,)
            Upper bound of each row's length in whatever norm the clipping is to be done:
            ``clipped_gradient(w, clip_norm)`` then clamps a row's derivative to
            ``± clip_norm / norms[i]``.  A row's length must be a function of that row alone.

        Returns
        -------
        Problem
            Shares the rows with this one.
        """
        lengths = _as_vector("norms", norms, self.shape.n_samples)
        twin = copy.copy(self)
        twin._line = None
        with np.errstate(divide="ignore", over="ignore"):
            inverse = _rounded_down((1.0 - 8.0 * UNIT) / lengths)
        twin._rows = self._made_rows(self._rows.matrix, self._target, inverse)
        # In place of those of the Euclidean norm.
        twin._inverse_norms = 2, inverse
        return twin

    def _ridge(self, alpha: float | None) -> float:
        if alpha is not None:
            return check_real("alpha", alpha, low=0.0)
        return self.shape.alpha or 0.0

    # ---- row by row -----------------------------------------------------------------------------

    @property
    def target(self) -> Vector:
        """Targets of the rows, as float64."""
        return self._target

    @property
    def sample_weight(self) -> Vector | None:
        """Weights of the rows, none above `max_weight`; None: all are one."""
        return self._weight

    def kernel_rows(self, *, clipped: bool = False) -> Any:
        """All rows as one kernel object, for the stochastic epochs.

        Rows that the kernels cannot read in place are converted as a whole.

        Parameters
        ----------
        clipped : bool, default=False
            Whether rows' gradients are to be clipped, which needs the rows' lengths.
        """
        if clipped:
            self._prepare_clipping()
        return self._rows.block(0, self.shape.n_samples)[0]

    def with_target(self, y: Any) -> Problem:
        """The same rows, weights and bounds with other targets.

        Parameters
        ----------
        y : array-like of shape (n_samples,)

        Returns
        -------
        Problem
            Shares the rows with this one.
        """
        other = copy.copy(self)
        other._line = None
        other._target = _as_target(y, self.shape.loss, self.shape.n_samples)
        inverse = None if self._inverse_norms is None else self._inverse_norms[1]
        other._rows = self._made_rows(self._rows.matrix, other._target, inverse)
        return other

    @property
    def labels(self) -> Vector:
        """Classes of the rows, see :meth:`with_labels`.

        Raises
        ------
        ValueError
            If there are none.
        """
        if self._labels is None:
            raise ValueError("the problem must have labels; got none: use with_labels.")
        return self._labels

    def with_labels(self, labels: ArrayLike) -> Problem:
        """The same rows with the classes 0, 1, ... that losses of several classes look at.

        Parameters
        ----------
        labels : array-like of shape (n_samples,)

        Returns
        -------
        Problem
            Shares the rows with this one; its targets stay what they are.
        """
        other = copy.copy(self)
        other._labels = _as_vector("labels", labels, self.shape.n_samples)
        return other

    def with_loss(self, loss: Loss) -> Problem:
        """The same rows, targets and bounds with another loss of the same kind.

        Raises
        ------
        ValueError
            If one loss is for classification and the other for regression.
        """
        if loss.kind != self.shape.loss.kind:
            raise ValueError(
                f"loss must be for {self.shape.loss.kind}, as {self.shape.loss.name!r} is; "
                f"got {loss.name!r}."
            )
        other = copy.copy(self)
        other.shape = replace(self.shape, loss=loss)
        other._line = None
        return other

    def part(self, start: int, stop: int) -> Problem:
        """Rows [start, stop) as a problem of their own, with the same bounds.

        Returns
        -------
        Problem
            Shares the rows with this one where they can be sliced.

        Raises
        ------
        ValueError
            If there is no such row.
        """
        check_integer("start", start, low=0)
        check_integer("stop", stop, low=start + 1, high=self.shape.n_samples)
        other = copy.copy(self)
        other.shape = replace(self.shape, n_samples=stop - start)
        other._line = None
        other._matrix = self._sliceable()[start:stop]
        other._target = self._target[start:stop]
        which = slice(start, stop)
        if self._labels is not None:
            other._labels = self._labels[which]
        inverse: NDArray[np.float32] | None = None
        if self._weight is not None:
            other._weight = self._weight[which]
        if self._row_scale is not None:
            other._row_scale = self._row_scale[which]
        if self._inverse_norms is not None:
            inverse = self._inverse_norms[1][which]
            other._inverse_norms = self._inverse_norms[0], inverse
        other._rows = self._made_rows(other._matrix, other._target, inverse, which)
        return other

    # ---- rounding -------------------------------------------------------------------------------

    def gradient_sum_error(self, clip_norm: float = math.inf) -> float:
        """:meth:`ProblemShape.gradient_sum_error` of this problem's shape."""
        return self.shape.gradient_sum_error(clip_norm)

    def loss_sum_error(self, loss_clip: float) -> float:
        """:meth:`ProblemShape.loss_sum_error` of this problem's shape."""
        return self.shape.loss_sum_error(loss_clip)


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


class _Queue(Generic[T]):
    """Chunks that threads take themselves, one after another, and their results in order.

    Whoever is faster works on more of them; which thread worked on what does not show in the
    results.  An exception takes the place of the result of its chunk, and no chunk is taken after
    it, so that the first one in the order of the chunks is raised.
    """

    def __init__(self, chunks: list[tuple[int, int]], work: Callable[[int, int], T]) -> None:
        self._chunks = chunks
        self._work = work
        self._taken = 0
        self._closed = False
        self._done: dict[int, tuple[T | None, BaseException | None]] = {}
        self._change = threading.Condition()

    def close(self) -> None:
        """No chunk is taken from now on."""
        with self._change:
            self._closed = True

    def run(self) -> None:
        """Work until no chunk is left."""
        while self._take():
            pass

    def _take(self) -> bool:
        with self._change:
            if self._closed or self._taken == len(self._chunks):
                return False
            number = self._taken
            self._taken += 1
        value, error = None, None
        try:
            value = self._work(*self._chunks[number])
        except BaseException as caught:  # raised in the thread of the caller
            error = caught
        with self._change:
            self._done[number] = (value, error)
            self._closed = self._closed or error is not None
            self._change.notify_all()
        return True

    def results(self) -> Iterator[T]:
        """The results in the order of the chunks; the caller's thread works on chunks, too."""
        for number in range(len(self._chunks)):
            while number not in self._done:
                if not self._take():
                    # Others are at work on it: chunks are taken in order.
                    with self._change:
                        while number not in self._done:
                            self._change.wait()
            value, error = self._done.pop(number)
            if error is not None:
                raise error
            yield cast(T, value)


def add_up(parts: Iterator[Any]) -> Any:
    """Sum of arrays of one shape, of which there is at least one, in their order."""
    total = np.array(next(parts), dtype=np.float64)
    for part in parts:
        total += part
    return total


def _finish(results: Iterator[Any]) -> None:
    """Run an iterator to its end for its effects."""
    deque(results, maxlen=0)


def _rounded_down(exact: Vector) -> NDArray[np.float32]:
    """Positive numbers in float32, none larger than it was."""
    rounded = exact.astype(np.float32)
    too_large = rounded > exact
    rounded[too_large] = np.nextafter(rounded[too_large], np.float32(0.0))
    return rounded


def _as_vector(name: str, values: ArrayLike, length: int | None) -> Vector:
    raw = np.asarray(values)
    if raw.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers; got an array of dtype {raw.dtype}.")
    if raw.ndim != 1 or (length is not None and len(raw) != length):
        expected = "(n,)" if length is None else f"({length},)"
        raise ValueError(f"{name} must have shape {expected}; got {raw.shape}.")
    if not np.all(np.isfinite(raw)):
        raise ValueError(f"{name} must hold finite numbers only; got NaN or infinity.")
    return np.ascontiguousarray(raw, dtype=np.float64)


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


def _as_target(y: ArrayLike, loss: Loss, length: int) -> Vector:
    target = _as_vector("y", y, length)
    if loss.kind == "classification" and not np.all(np.abs(target) == 1.0):
        raise ValueError(f"y must hold -1 and +1 only for the loss {loss.name!r}.")
    if np.abs(target).max() > _LARGEST_TARGET:
        target = np.clip(target, -_LARGEST_TARGET, _LARGEST_TARGET)
    return target


def _thread_count(n_jobs: int | None) -> int:
    if n_jobs is None:
        return 1
    count = check_integer("n_jobs", n_jobs, low=-(2**15), high=2**15)
    if count == 0:
        raise ValueError("n_jobs must be None, a positive number, or -1 for all cores; got 0.")
    return count if count > 0 else max(1, (os.cpu_count() or 1) + 1 + count)
