"""What every storage of rows can do, and what only rows in memory can."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._arrays import LEAVE_OUT, as_float64
from dpfast._typing import Matrix, Vector
from dpfast._validation import check_integer, check_real
from dpfast.groups import GroupClip
from dpfast.losses import Loss
from dpfast.shape import ProblemShape

T = TypeVar("T")


class RowSums(ABC):
    """Sums over all rows of a learning problem, wherever they are kept.

    Attributes
    ----------
    shape : ProblemShape
        The public quantities.
    leaks : tuple of str
        What was inferred from private data, in words.
    """

    shape: ProblemShape
    leaks: tuple[str, ...]

    @abstractmethod
    def clipped_gradient(
        self,
        w: ArrayLike,
        clip_norm: float = math.inf,
        loss_clip: float = math.inf,
        *,
        clip_order: int = 2,
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
        takes the place of ``c clip_norm``.  What rounding adds is
        :meth:`ProblemShape.gradient_sum_error`.
        """

    @abstractmethod
    def objective(self, w: ArrayLike, loss_clip: float = math.inf) -> float:
        """``Σ_i c_i min(ℓ_i, loss_clip)``, without the ridge and without a gradient."""

    @abstractmethod
    def line_search_losses(
        self, w: ArrayLike, direction: ArrayLike, steps: ArrayLike, loss_clip: float = math.inf
    ) -> Vector:
        """``Σ_i c_i min(ℓ_i, loss_clip)`` at ``w - a · direction`` for every step size ``a``.

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

    @abstractmethod
    def margins(self, w: ArrayLike) -> Vector:
        """``<x̃_i, w>`` for every row, an array of shape (n_samples,)."""

    @abstractmethod
    def map_blocks(self, function: Callable[[RowAccess], T]) -> Iterator[T]:
        """`function` on the problem of each block of rows, in their order; memory is one block.

        For sums that take one row at a time and no kernel computes: what is added up over the
        blocks must not depend on how the rows are divided.

        Parameters
        ----------
        function : callable
            Takes a problem with some of the rows.  It is to be a function of a module, or a
            ``functools.partial`` of one, since it may be sent to another process.
        """

    @abstractmethod
    def clipped_by_lengths(
        self,
        lengths: Callable[[RowAccess], Vector],
        longest: float = math.inf,
        consistent: bool = False,
    ) -> Self:
        """The same problem, whose gradients are clipped by other lengths of the rows.

        Parameters
        ----------
        lengths : callable
            Takes a problem with all or some of the rows, as `function` of :meth:`map_blocks`;
            returns upper bounds of its rows' lengths, in the norm to clip in.
            ``clipped_gradient(w, clip_norm)`` then clamps a row's derivative to ``± clip_norm``
            over its length.
        longest : float, default=inf
            The weights of longer rows are divided by what they are too long by, instead of the
            bound of their derivatives.
        consistent : bool, default=False
            Multiply a row's derivative ``ℓ'`` by ``min(1, t / max(|ℓ'|, 1 - |ℓ'|))``, ``± t`` its
            bounds, before it is clamped: by the same number whichever the row's label is, so that
            the sum's expectation is 0 at weights that the labels follow.  For the logistic loss.

        Raises
        ------
        ValueError
            If `consistent` and the loss is another one.
        """

    @abstractmethod
    def with_target(self, y: Any) -> Self:
        """The same rows, weights and bounds with other targets; shares the rows with this one.

        `y` may be a function that makes them of what the targets are.
        """

    @abstractmethod
    def in_unit(self, unit: float, loss: Loss) -> Self:
        """The same rows with a `loss`, and targets over `unit` > 0 that are cut to its own."""

    @abstractmethod
    def weighted_gram(
        self, w: Vector, loss: Loss, max_rows: int | None = None
    ) -> tuple[Matrix, float]:
        """``Σ_i c_i ℓ''_i x̃_i x̃_i^T`` over about `max_rows` rows (None: all), and their number.

        If a record is a group, the number of groups that so many rows are on average.
        """

    @abstractmethod
    def count_groups(self, edges: Vector) -> Vector:
        """Groups whose numbers of rows are between two edges, from one to before the next."""

    @abstractmethod
    def with_rows_per_group(self, rows: float) -> Self:
        """The same problem, whose groups count as one record if they have `rows` rows or more.

        A row counts its weight over `rows`, or over the number of its group's rows if that is
        more, whatever part of a record it was declared to be: so the weights of a group add up to
        at most the largest one.
        """

    @abstractmethod
    def with_weights_cut(self, at: float) -> Self:
        """The same problem of single rows, whose weights are cut at `at` and then stretched.

        So that the largest is the largest there may be, as before.
        """

    @abstractmethod
    def measured_by(
        self, measure: Callable[[Matrix], tuple[Matrix, Vector]], transform: Matrix
    ) -> Self:
        """The same problem, whose groups' gradients are measured in other coordinates.

        `measure` takes a piece of the rows to their coordinates, ``transform.T @ x̃_i``, and upper
        bounds of their lengths there.
        """

    @abstractmethod
    def group_gradient(self, w: Matrix, clip: GroupClip) -> tuple[Matrix, float]:
        """Sum of the gradients of whole groups, each clipped as one vector.

        Of the multinomial loss if `w` has several rows, one a class.

        Returns
        -------
        gradient_sum : ndarray of the shape of `w`
        share : float
            Sum over the groups of ``min(1, gauge r / l)``, l the length of a group's gradient in
            the coordinates of :meth:`measured_by` and r the root mean square of its rows'.
        """

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
    ) -> Matrix:
        """``∇²F(w)``, shape (dim, dim): dense rows through BLAS, sparse rows by their non-zeros.

        Parameters
        ----------
        w : array-like of shape (dim,)
        alpha : float or None, default=None
            Ridge; None takes the problem's own (0 if it has none).
        max_rows : int or None, default=None
            Estimate it from chunks of rows spread evenly over the data, about this many rows in
            all; None takes all rows.
        """
        loss = self.shape.loss
        if max_rows is not None:
            max_rows = check_integer("max_rows", max_rows, low=1)
        total, rows = self.weighted_gram(self._weights("w", w), loss, max_rows)
        total /= rows
        total[np.diag_indices(self.shape.dim)] += self._ridge(alpha)
        return total

    def gram(self) -> Matrix:
        """``Σ_i c_i x̃_i x̃_i^T``, shape (dim, dim): the Hessian of the sum of squared losses."""
        return self.weighted_gram(np.zeros(self.shape.dim), Loss("squared"))[0]

    def with_loss(self, loss: Loss) -> Self:
        """The same rows, targets and bounds with another loss of the same kind."""
        if loss.kind != self.shape.loss.kind:
            raise ValueError(
                f"loss must be for {self.shape.loss.kind}, as {self.shape.loss.name!r} is; "
                f"got {loss.name!r}."
            )
        return self._view(shape=replace(self.shape, loss=loss))

    def _view(self, **changes: Any) -> Self:
        """A copy that shares the rows, with other attributes."""
        other = copy.copy(self)
        other.__dict__.update(changes)
        return other

    def _ridge(self, alpha: float | None) -> float:
        if alpha is not None:
            return check_real("alpha", alpha, low=0.0)
        return self.shape.alpha or 0.0

    def _weights(self, name: str, w: ArrayLike) -> Vector:
        vector = np.ascontiguousarray(w, dtype=np.float64)
        if vector.shape != (self.shape.dim,):
            raise ValueError(f"{name} must have shape ({self.shape.dim},); got {vector.shape}.")
        if not np.all(np.isfinite(vector)):
            raise ValueError(f"{name} must be finite; got NaN or infinity.")
        return vector


class RowAccess(RowSums):
    """Sums, and single rows: what only rows in memory have."""

    @property
    @abstractmethod
    def target(self) -> Vector:
        """Targets of the rows, as float64."""

    @property
    @abstractmethod
    def sample_weight(self) -> Vector | None:
        """Weights of the rows, none above `max_weight`; None: all are one."""

    @property
    @abstractmethod
    def labels(self) -> Vector:
        """Classes of the rows, see :meth:`with_labels`."""

    @property
    @abstractmethod
    def sparse(self) -> bool:
        """Whether the rows are stored sparsely."""

    @abstractmethod
    def sampled_gradient(
        self, rows: NDArray[np.int64], w: ArrayLike, clip_norm: float, clip_order: int = 2
    ) -> Vector:
        """As :meth:`clipped_gradient`, over copies of the rows with these numbers."""

    @abstractmethod
    def map_rows(self, work: Callable[[Matrix], T]) -> Iterator[T]:
        """What `work` returns for each piece of the scaled rows ``x̃_i``, in their order.

        It takes a float64 array of shape (m, dim) that it may write to, and is called from several
        threads with ``n_jobs > 1``.
        """

    @abstractmethod
    def map_group_rows(self, work: Callable[[Matrix, slice, NDArray[np.int64]], T]) -> Iterator[T]:
        """`work` on pieces of whole groups, in their order.

        It takes the rows of a piece, which of the problem's they are, and where each group begins.
        """

    @abstractmethod
    def row_shares(self) -> Vector | None:
        """One over the number of rows of each row's group; None: every row is a record."""

    @abstractmethod
    def map_chunks(
        self, work: Callable[[Any, int, int, int, int], T], *, few: bool = False
    ) -> Iterator[T]:
        """``work(kernel, first, last, start, stop)`` on every chunk; results in chunk order.

        Rows [start, stop) of the problem are rows [first, last) of `kernel`, one of the row classes
        of ``dpfast._kernels``.  Chunks may run on several threads at once.  With `few` there are
        about 16 of them, for results that are much larger than a chunk.
        """

    @abstractmethod
    def chunks(self) -> Iterator[tuple[Any, int, int, int, int]]:
        """The arguments of :meth:`map_chunks`, for work that goes one chunk after another."""

    @abstractmethod
    def kernel_rows(self, *, clipped: bool = False) -> Any:
        """All rows as one kernel object, for the stochastic epochs.

        Rows that the kernels cannot read in place are converted as a whole.

        `clipped`: rows' gradients are to be clipped, which needs the rows' lengths.
        """

    @abstractmethod
    def part(self, start: int, stop: int) -> Self:
        """Rows [start, stop) as a problem of their own, with the same bounds."""

    @abstractmethod
    def weighted_by(self, factors: ArrayLike, most: float) -> Self:
        """The same rows, each of whose weights is multiplied by a factor, cut at `most`."""

    @abstractmethod
    def with_labels(self, labels: ArrayLike) -> Self:
        """The same rows with the classes 0, 1, ... that losses of several classes look at."""


def check_consistent(consistent: bool, loss: Loss) -> None:
    """Refuse a weight that is the same for both labels where slopes do not add up to 1."""
    if consistent and not loss.multiclass:
        raise ValueError(
            f"consistent must be False for the {loss.name} loss; got True. The slopes of a row's "
            "two labels add up to 1 for the logistic loss alone."
        )


def check_cut(at: float, shape: ProblemShape, weighted: bool) -> float:
    """Return what weights may be cut at; refuse rows without weights and those of groups."""
    if not weighted or shape.several_rows:
        raise ValueError(
            "problem must have weighted rows that are records, to have weights cut; got others."
        )
    return check_real("at", at, low=1e-100, high=1e100)


def single_rows(problem: RowSums, what: str) -> RowAccess:
    """The same problem, refused if its rows are not in memory."""
    if not isinstance(problem, RowAccess):
        raise TypeError(
            f"problem must have its rows in memory for {what}; got rows in blocks, which are only "
            "ever read one block after another. Use a method of full batches, or load the rows "
            "into a dpfast.Problem."
        )
    return problem


def divided(
    y: ArrayLike, unit: float, loss: Loss, make: Callable[..., ArrayLike] | None = None
) -> Vector:
    """Targets, or what `make` makes of them, over the unit, and cut to those of the loss."""
    target = np.asarray(y if make is None else make(y), dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.clip(target / unit, *loss.target_range)


def as_vector(name: str, values: ArrayLike, length: int | None) -> Vector:
    """A float64 copy or view of a vector of finite numbers, of this length if one is given."""
    raw = as_float64(name, values)
    if raw.ndim != 1 or (length is not None and len(raw) != length):
        expected = "(n,)" if length is None else f"({length},)"
        raise ValueError(
            f"{name} must have shape {expected}; got {raw.shape}. Give one number for each row."
        )
    if not np.all(np.isfinite(raw)):
        raise ValueError(f"{name} must hold finite numbers only; got NaN or infinity. {LEAVE_OUT}")
    return np.ascontiguousarray(raw)
