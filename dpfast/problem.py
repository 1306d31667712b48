"""Rows, loss and ridge of one learning problem, and its sums over row blocks.

A :class:`ProblemShape` holds what is public; a :class:`Problem` adds the private rows.  Every
full-batch quantity is a sum over a fixed list of row chunks whose boundaries depend on the shape
alone; chunks may run on several threads and are always added in the same order, so results do not
depend on `n_jobs`.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast import _kernels
from dpfast._validation import check_integer, check_real
from dpfast.errors import PrivacyLeakWarning
from dpfast.losses import Loss

Vector = NDArray[np.float64]
T = TypeVar("T")

# Rounding unit of float64.
_UNIT = 2.0**-53
# Chunks of about this many bytes: long enough that a Python call is free, short enough that Ctrl-C
# is answered within milliseconds.
_CHUNK_BYTES = 4 * 2**20
# Problems below this size stay on one thread; starting others would cost more than it saves.
_THREADING_BYTES = 2 * 2**20


@dataclass(frozen=True)
class ProblemShape:
    """The public quantities of a problem: all that a plan may depend on.

    Parameters
    ----------
    n_samples : int
        Number of rows; public under both neighboring relations.
    n_features : int
        Number of columns, the intercept not counted.
    data_norm : float
        Bound ``R`` of the rows' Euclidean norms ``‖x_i‖₂``, the intercept not counted.
    loss : Loss or str, default="logistic"
    intercept : float, default=1.0
        Value of the constant column; 0 means no intercept.
    alpha : float or None, default=None
        Ridge ``α`` of the mean loss, ``F(w) = (1/n) Σ ℓ_i + (α/2)‖w‖²``; None leaves the choice to
        the solver.

    Raises
    ------
    TypeError, ValueError
        If an argument is not of the stated kind or range.

    Examples
    --------
    >>> shape = ProblemShape(n_samples=50_000, n_features=30, data_norm=1.0)
    >>> shape.dim, shape.row_norm > 2**0.5
    (31, True)
    """

    n_samples: int
    n_features: int
    data_norm: float
    loss: Loss = Loss("logistic")
    intercept: float = 1.0
    alpha: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.loss, str):
            object.__setattr__(self, "loss", Loss(self.loss))
        elif not isinstance(self.loss, Loss):
            raise TypeError(f"loss must be a Loss or its name; got {self.loss!r}.")
        # 2**53: n enters formulas as a float64, where larger integers are not exact.
        check_integer("n_samples", self.n_samples, low=1, high=2**53)
        check_integer("n_features", self.n_features, low=1, high=2**53)
        check_real("data_norm", self.data_norm, low=1e-100, high=1e100)
        check_real("intercept", self.intercept, low=-1e100, high=1e100)
        if self.alpha is not None:
            check_real("alpha", self.alpha, low=1e-100, high=1e100)

    @property
    def dim(self) -> int:
        """Length of the weight vector, the intercept included."""
        return self.n_features + (self.intercept != 0.0)

    @property
    def row_norm(self) -> float:
        """Bound of ``‖(x_i, intercept)‖₂``, rounded up: the intercept counts."""
        if self.intercept == 0.0:
            return self.data_norm
        return math.hypot(self.data_norm, self.intercept) * (1.0 + 4.0 * _UNIT)

    @property
    def lipschitz(self) -> float:
        """``L``: bound of the norm of one row's gradient, ``max|ℓ'| · row_norm``."""
        return self.loss.lipschitz * self.row_norm

    @property
    def smoothness(self) -> float:
        """``β``: bound of the Hessian norm of the mean loss, ``max|ℓ''| · row_norm²``."""
        return self.loss.smoothness * self.row_norm**2

    def with_alpha(self, alpha: float) -> ProblemShape:
        """The same shape with the ridge `alpha`."""
        return replace(self, alpha=alpha)

    def minimizer_norm(self, alpha: float) -> float:
        """Bound of ``‖w*‖₂`` for the ridge `alpha`.

        ``(α/2)‖w*‖² <= F(w*) <= F(0) <= ℓ(0)``, and ``α w* = -mean gradient`` of norm at most
        ``L``.
        """
        return min(self.lipschitz / alpha, math.sqrt(2.0 * self.loss.at_zero / alpha))

    def minimizer_sensitivity(self, alpha: float, neighboring_relation: str) -> float:
        """Largest distance between the minimizers of neighboring data sets.

        The difference ``h`` of two neighbors' objectives has gradients of norm at most ``2L/n``
        (`replace_one`: ``(ℓ - ℓ')/n``) or ``L/n`` (`add_or_remove_one`, the absent record being a
        zero contribution); both objectives are α-strongly convex, so ``α‖w* - w'*‖ <= ‖∇h‖``
        (Chaudhuri, Monteleoni & Sarwate 2011, Lemma 7).  The ridge is the same for both and does
        not enter.
        """
        records = 2.0 if neighboring_relation == "replace_one" else 1.0
        return records * self.lipschitz / (alpha * self.n_samples)

    def chunk_rows(self) -> int:
        """Rows of one chunk; depends on the number of columns alone."""
        rows = _CHUNK_BYTES // (8 * self.n_features)
        return max(64, rows - rows % 64)

    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error of the computed mean gradient at ``‖w‖ <= w_norm``.

        With ``u = 2^-53``, ``D`` the dimension and ``ρ`` the row norm: a margin is wrong by at most
        ``(D + 6) u ρ ‖w‖`` (any order of summation; Higham 2002, section 3.1), hence a derivative
        by that times ``max|ℓ''|`` plus ``8 u max|ℓ'|`` of its own evaluation, and a row's gradient
        by ``ρ`` times the sum.  An entry of the sum of all rows passes through at most ``m``
        additions, which costs ``m u`` times the mean of the rows' gradient norms, at most ``L``.
        The ridge term adds a few units of ``α ‖w‖``, which is at most ``L`` in the region where
        optimizers work.  The factor 1.1 covers products of small terms.
        """
        chunk = min(self.chunk_rows(), self.n_samples)
        additions = (
            _kernels.dense_addition_depth(chunk, self.n_features)
            + -(-self.n_samples // chunk)
            + 8
        )
        margin = (self.dim + 6) * self.row_norm * w_norm
        row = self.row_norm * (
            self.loss.smoothness * margin + 8.0 * self.loss.lipschitz
        )
        ridge = 4.0 * (self.alpha or 0.0) * w_norm
        return 1.1 * _UNIT * (row + additions * self.lipschitz + ridge)


class Problem:
    """A learning problem: private rows, a loss, a ridge, and public bounds.

    ``F(w) = (1/n) Σ_i ℓ(<x̃_i, w>; y_i) + (α/2)‖w‖²`` with ``x̃_i = (t_i x_i, intercept)`` and
    ``t_i = min(1, data_norm / ‖x_i‖₂)``: rows outside the ball of radius `data_norm` are brought
    onto it, a transform that looks at one row at a time and therefore costs no privacy.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Converted to C-contiguous float64 if it is not; kept by reference otherwise and never
        written to.
    y : array-like of shape (n_samples,)
        -1 or +1 for a classification loss, finite numbers for a regression loss.
    loss : Loss or str, default="logistic"
    alpha : float or None, default=None
        Ridge of the mean loss; None leaves the choice to the solver.
    data_norm : float or None, default=None
        Public bound of ``‖x_i‖₂``.  None takes it from the data, which the guarantee does not
        cover, with a warning.
    intercept : float, default=1.0
        Value of the constant column (penalized like the others); 0 for none.
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
        X: ArrayLike,
        y: ArrayLike,
        loss: Loss | str = "logistic",
        alpha: float | None = None,
        data_norm: float | None = None,
        *,
        intercept: float = 1.0,
        n_jobs: int | None = None,
        strict: bool = False,
    ) -> None:
        loss = Loss(loss) if isinstance(loss, str) else loss
        rows = _as_rows(X)
        target = _as_target(y, loss, rows.shape[0])
        self.n_jobs = _thread_count(n_jobs)
        intercept = check_real("intercept", intercept, low=-1e100, high=1e100)
        self._rows = _kernels.DenseRows(rows, target, intercept)
        self._inverse_norm: NDArray[np.float32] | None = None
        self.leaks: tuple[str, ...] = ()

        if data_norm is not None:
            data_norm = check_real("data_norm", data_norm, low=1e-100, high=1e100)
        provisional = ProblemShape(rows.shape[0], rows.shape[1], data_norm or 1.0, loss, intercept)
        self.shape = provisional
        norms = self._row_norms()
        if data_norm is None:
            data_norm = self._infer_data_norm(norms, strict)
        self.shape = replace(provisional, data_norm=data_norm, alpha=alpha)
        self._clip_rows(norms)

    # ---- construction ---------------------------------------------------------------------------

    def _infer_data_norm(self, norms: Vector, strict: bool) -> float:
        message = (
            "data_norm was not given, so the largest row norm is taken from the data. The privacy "
            "guarantee does not cover that: pass a bound known without looking at the data "
            "(rows beyond it are scaled down)."
        )
        if strict:
            raise ValueError(f"data_norm must be given when strict=True; got None. {message}")
        warnings.warn(message, PrivacyLeakWarning, stacklevel=4)
        self.leaks = (*self.leaks, "data_norm was taken from the data")
        # All-zero rows: any bound will do.
        return float(norms.max()) or 1.0

    def _row_norms(self) -> Vector:
        norms = np.empty(self.shape.n_samples)
        try:
            self._run(lambda start, stop: self._rows.row_norms(start, stop, norms[start:stop]))
        except FloatingPointError:
            raise ValueError(
                "X must hold finite numbers only; got NaN or infinity. Remove or fill such values "
                "by a rule fixed without looking at the data."
            ) from None
        return norms

    def _clip_rows(self, norms: Vector) -> None:
        """Scale rows onto the ball of radius `data_norm`; rounding never leaves them outside."""
        radius = self.shape.data_norm
        if np.any(norms > radius):
            with np.errstate(over="ignore"):
                scale = np.minimum(1.0, (radius / np.maximum(norms, radius)) * (1.0 - 4.0 * _UNIT))
            scale[norms <= radius] = 1.0
            self._rows.set_row_scale(scale)
            norms = np.minimum(norms, radius)
        self._norms = norms

    # ---- sums over chunks -----------------------------------------------------------------------

    def _chunks(self) -> list[tuple[int, int]]:
        n, step = self.shape.n_samples, self.shape.chunk_rows()
        return [(start, min(start + step, n)) for start in range(0, n, step)]

    def _run(self, work: Callable[[int, int], T]) -> Iterator[T] | list[T]:
        """`work` on every chunk, results in the order of the chunks."""
        chunks = self._chunks()
        nbytes = 8 * self.shape.n_samples * self.shape.n_features
        threads = min(self.n_jobs, len(chunks)) if nbytes > _THREADING_BYTES else 1
        if threads == 1:
            return [work(start, stop) for start, stop in chunks]
        pool = ThreadPoolExecutor(threads)
        try:
            return list(pool.map(lambda chunk: work(*chunk), chunks))
        finally:
            # On Ctrl-C the chunks that have not started are dropped at once.
            pool.shutdown(wait=True, cancel_futures=True)

    def _weights(self, w: ArrayLike) -> Vector:
        vector = np.ascontiguousarray(w, dtype=np.float64)
        if vector.shape != (self.shape.dim,):
            raise ValueError(f"w must have shape ({self.shape.dim},); got {vector.shape}.")
        if not np.all(np.isfinite(vector)):
            raise ValueError("w must be finite; got NaN or infinity.")
        return vector

    def margins(self, w: ArrayLike) -> Vector:
        """``<x̃_i, w>`` for every row.

        Parameters
        ----------
        w : array-like of shape (dim,)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        vector = self._weights(w)
        out = np.empty(self.shape.n_samples)
        self._run(lambda start, stop: self._rows.margins(start, stop, vector, out[start:stop]))
        return out

    def clipped_gradient(
        self, w: ArrayLike, clip_norm: float = math.inf, loss_clip: float = math.inf
    ) -> tuple[Vector, float]:
        """Sum of the rows' clipped gradients and of their clipped losses, in one read of X.

        Parameters
        ----------
        w : array-like of shape (dim,)
        clip_norm : float, default=inf
            Each row's gradient is scaled to this norm if it is longer.
        loss_clip : float, default=inf
            Each row's loss is replaced by this value if it is larger.

        Returns
        -------
        gradient_sum : ndarray of shape (dim,)
            ``Σ_i clip(ℓ'_i x̃_i)``, without the ridge.
        loss_sum : float
            ``Σ_i min(ℓ_i, loss_clip)``, without the ridge.

        Raises
        ------
        ValueError
            If `w` has another shape or is not finite, or a bound is not positive.

        Notes
        -----
        The l2 sensitivity of `gradient_sum` is ``2 clip_norm`` (`replace_one`) or ``clip_norm``
        (`add_or_remove_one`); without clipping, `shape.lipschitz` takes the place of `clip_norm`.
        """
        vector = self._weights(w)
        clip_norm = check_real("clip_norm", clip_norm, low=0.0, low_open=True, allow_inf=True)
        loss_clip = check_real("loss_clip", loss_clip, low=0.0, low_open=True, allow_inf=True)
        if clip_norm < math.inf and self._inverse_norm is None:
            self._inverse_norm = self._inverse_norms()
            self._rows.set_inverse_norm(self._inverse_norm)
        loss = self.shape.loss

        def work(start: int, stop: int) -> tuple[Vector, float]:
            out = np.empty(self.shape.dim)
            value = self._rows.gradient(
                start, stop, loss.id, loss.parameter, vector, clip_norm, loss_clip, out
            )
            return out, value

        total, loss_sum = np.zeros(self.shape.dim), 0.0
        for part, value in self._run(work):
            total += part
            loss_sum += value
        return total, loss_sum

    def _inverse_norms(self) -> NDArray[np.float32]:
        """Lower bounds of ``1/‖x̃_i‖`` in float32, so that they cost half the memory traffic."""
        with np.errstate(divide="ignore", over="ignore"):
            inverse = 1.0 / np.hypot(self._norms, self.shape.intercept)
            inverse *= 1.0 - 8.0 * _UNIT
            rounded = inverse.astype(np.float32)
        too_large = rounded > inverse
        rounded[too_large] = np.nextafter(rounded[too_large], np.float32(0.0))
        return rounded

    def objective(self, w: ArrayLike, loss_clip: float = math.inf) -> float:
        """``Σ_i min(ℓ_i, loss_clip)``, without the ridge and without a gradient."""
        vector = self._weights(w)
        loss_clip = check_real("loss_clip", loss_clip, low=0.0, low_open=True, allow_inf=True)
        loss = self.shape.loss
        parts = self._run(
            lambda start, stop: self._rows.objective(
                start, stop, loss.id, loss.parameter, vector, loss_clip
            )
        )
        return float(sum(parts))

    def value_and_gradient(
        self, w: ArrayLike, alpha: float | None = None
    ) -> tuple[float, Vector]:
        """``F(w)`` and ``∇F(w)``: mean loss plus ridge.

        Parameters
        ----------
        w : array-like of shape (dim,)
        alpha : float or None, default=None
            Ridge; None takes the problem's own (0 if it has none).
        """
        vector = self._weights(w)
        ridge = self._ridge(alpha)
        gradient, loss_sum = self.clipped_gradient(vector)
        n = self.shape.n_samples
        gradient /= n
        gradient += ridge * vector
        return loss_sum / n + 0.5 * ridge * float(vector @ vector), gradient

    def hessian(self, w: ArrayLike, alpha: float | None = None) -> NDArray[np.float64]:
        """``∇²F(w)``, through BLAS in row blocks.

        Returns
        -------
        ndarray of shape (dim, dim)
        """
        vector = self._weights(w)
        loss = self.shape.loss
        n, dim = self.shape.n_samples, self.shape.dim
        block = min(n, max(64, 2**18 // dim))
        buffer = np.empty((block, dim))
        total = np.zeros((dim, dim))
        for start in range(0, n, block):
            stop = min(start + block, n)
            self._rows.curvature_rows(start, stop, loss.id, loss.parameter, vector, buffer)
            part = buffer[: stop - start]
            total += part.T @ part
        total /= n
        total[np.diag_indices(dim)] += self._ridge(alpha)
        if not np.all(np.isfinite(total)):
            raise FloatingPointError("Hessian: a result is too large for float64.")
        return total

    def _ridge(self, alpha: float | None) -> float:
        if alpha is not None:
            return check_real("alpha", alpha, low=0.0)
        return self.shape.alpha or 0.0


def _as_rows(X: ArrayLike) -> NDArray[np.float64]:
    rows = np.asarray(X)
    if rows.dtype.kind not in "fiub":
        raise TypeError(f"X must hold real numbers; got an array of dtype {rows.dtype}.")
    if rows.ndim != 2:
        raise ValueError(f"X must be two-dimensional (rows, columns); got shape {rows.shape}.")
    if rows.shape[0] < 1 or rows.shape[1] < 1:
        raise ValueError(f"X must have at least one row and one column; got shape {rows.shape}.")
    return np.ascontiguousarray(rows, dtype=np.float64)


def _as_target(y: ArrayLike, loss: Loss, n_samples: int) -> Vector:
    raw = np.asarray(y)
    if raw.dtype.kind not in "fiub":
        raise TypeError(f"y must hold real numbers; got an array of dtype {raw.dtype}.")
    if raw.shape != (n_samples,):
        raise ValueError(f"y must have shape ({n_samples},), one entry a row; got {raw.shape}.")
    target = np.ascontiguousarray(raw, dtype=np.float64)
    if loss.kind == "classification":
        if not np.all(np.abs(target) == 1.0):
            raise ValueError(f"y must hold -1 and +1 only for the loss {loss.name!r}.")
    elif not np.all(np.isfinite(target)):
        raise ValueError("y must hold finite numbers only; got NaN or infinity.")
    return target


def _thread_count(n_jobs: int | None) -> int:
    if n_jobs is None:
        return 1
    count = check_integer("n_jobs", n_jobs, low=-(2**15), high=2**15)
    if count == 0:
        raise ValueError("n_jobs must be None, a positive number, or -1 for all cores; got 0.")
    return count if count > 0 else max(1, (os.cpu_count() or 1) + 1 + count)
