"""A learning problem whose rows come in blocks that need not fit in memory together."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._blas import one_blas_thread
from dpfast._typing import Matrix, Vector
from dpfast._validation import check_integer, check_real
from dpfast.blocks._contract import Block, Executor
from dpfast.chunks import add_up, thread_count
from dpfast.column_blocks import ColumnBlock
from dpfast.errors import DataError
from dpfast.groups import GroupClip
from dpfast.losses import Loss
from dpfast.problem import Problem
from dpfast.shape import ProblemShape
from dpfast.sums import RowAccess, RowSums, as_vector, check_consistent, check_cut, divided

T = TypeVar("T")
# From a piece of the rows to their coordinates and bounds of their lengths, and the transform.
Measure = tuple[Callable[[Matrix], tuple[Matrix, Vector]], Matrix]

# Blocks that an estimate of the Hessian takes its rows from.
_SAMPLED_BLOCKS = 8
# Problems that stay with a block in memory: of a few targets or losses, used in turn.
_KEPT_PROBLEMS = 4


class BlockProblem(RowSums):
    """A learning problem over blocks of rows, for sums alone; otherwise as a :class:`Problem`.

    Every quantity is a sum over the blocks, each of which is summed as a
    :class:`~dpfast.Problem` of its own: its rows are scaled into the ball of radius `data_norm`,
    its targets and weights checked and its gradients clipped while it is in memory, so that nothing
    is kept with one entry a row.  In memory at any time are the blocks that the executor holds (two
    on one machine) and, for Hessians and Gram matrices, a few of ``dim x dim`` entries.

    Parameters
    ----------
    source : Executor
        The rows; see :func:`dpfast.blocks.from_npy` and its neighbors.
    loss : Loss or str, default="logistic"
    alpha : float or None, default=None
        Ridge of the mean loss; None leaves the choice to the solver.
    data_norm : float
        Public bound of ``‖x_i‖₂``; longer rows are scaled down.
    intercept : float, default=1.0
        Value of the constant column; 0 for none.  Whether `alpha` draws its weight to zero is
        up to the solver (`Solver.penalizes_intercept`).
    max_weight : float or None, default=None
        Public bound of the weights; needed if, and only if, the source has weights.
    max_rows_per_group : int or None, default=None
        As for :class:`Problem`, if the source has groups.
    target : callable or None, default=None
        Makes targets (-1 and +1, or finite numbers) of a block's stored ones: a function of a
        module or a ``functools.partial`` of one.  None: they are targets.
    n_jobs : int or None, default=None
        Threads that work on a block; None means one, -1 all cores.
    columns : sequence of ColumnBlock, default=()
        How all columns were declared, see :class:`~dpfast.ProblemShape`.

    Attributes
    ----------
    shape : ProblemShape
        With the blocks' sizes, from which the bounds of rounding errors follow.
    source : Executor
    make_target : callable or None
        The argument `target`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not of the stated kind.  The rows are not looked at: what is wrong with
        them is found when they are read, with the privacy cost of that look spent.

    Notes
    -----
    Not available, since they would need a row here and a row there or a vector with one entry a
    row: stochastic solvers and optimizers, and objectives other than the mean loss.
    """

    def __init__(
        self,
        source: Executor,
        loss: Loss | str = "logistic",
        alpha: float | None = None,
        data_norm: float | None = None,
        *,
        intercept: float = 1.0,
        max_weight: float | None = None,
        max_rows_per_group: int | None = None,
        target: Callable[[NDArray[Any]], ArrayLike] | None = None,
        n_jobs: int | None = None,
        columns: Sequence[ColumnBlock] = (),
    ) -> None:
        if not isinstance(source, Executor):
            raise TypeError(
                "source must hold blocks of rows, such as dpfast.blocks.from_npy returns; got "
                f"{type(source).__name__}."
            )
        if data_norm is None:
            raise ValueError(
                "data_norm must be given for rows in blocks; got None. It is a public bound of the "
                "rows' norms, known without looking at the data (longer rows are scaled down)."
            )
        if not source.targeted:
            raise ValueError(
                "source must have targets; got none. Make it with y, or with target= and the name "
                "of their column."
            )
        if source.weighted != (max_weight is not None):
            raise ValueError(
                f"max_weight must be {'given' if source.weighted else 'None'} for rows "
                f"{'with' if source.weighted else 'without'} weights; got {max_weight!r}."
            )
        self.n_jobs = thread_count(n_jobs)
        self.leaks = ()
        self.source = source
        if source.n_groups is None and max_rows_per_group is not None:
            raise ValueError(
                "max_rows_per_group must be None for rows without groups; got "
                f"{max_rows_per_group!r}. The source must be made with groups=."
            )
        self.shape = ProblemShape(
            sum(source.sizes) if source.n_groups is None else source.n_groups,
            source.n_features,
            data_norm,
            Loss.of(loss),
            intercept,
            alpha,
            1.0 if max_weight is None else max_weight,
            source.layout,
            "row" if source.n_groups is None else "group",
            max_rows_per_group,
            columns=tuple(columns),
            weighted=source.weighted,
        )
        self.make_target = target
        self._lengths: Callable[[RowAccess], Vector] | None = None
        self._longest = math.inf
        self._consistent = False
        self._measure: Measure | None = None
        self._rows_per_group: float | None = None
        self._weights_cuts: tuple[float, ...] = ()

    # ---- sums over blocks -----------------------------------------------------------------------

    def map_blocks(self, function: Callable[[RowAccess], T]) -> Iterator[T]:
        return self._over(function)

    def _over(
        self, function: Callable[[Problem], T], numbers: Sequence[int] | None = None
    ) -> Iterator[T]:
        recipe = _Recipe(
            self.shape,
            self.source.weighted,
            self.make_target,
            self._lengths,
            self._longest,
            self._consistent,
            self._measure,
            self._rows_per_group,
            self._weights_cuts,
            self.n_jobs,
            self.source.feature_names,
        )
        return self.source.map(partial(_on_block, recipe, self.source.sizes, function), numbers)

    def clipped_gradient(
        self,
        w: ArrayLike,
        clip_norm: float = math.inf,
        loss_clip: float = math.inf,
        *,
        clip_order: int = 2,
    ) -> tuple[Vector, float]:
        vector = self._weights("w", w)
        clip_norm = check_real("clip_norm", clip_norm, low=0.0, low_open=True, allow_inf=True)
        loss_clip = check_real("loss_clip", loss_clip, low=0.0, low_open=True, allow_inf=True)
        clip_order = check_integer("clip_order", clip_order, low=1, high=2)
        work = methodcaller("clipped_gradient", vector, clip_norm, loss_clip, clip_order=clip_order)
        total, loss_sum = np.zeros(self.shape.dim), 0.0
        for part, value in self._over(work):
            total += part
            loss_sum += value
        return total, loss_sum

    def objective(self, w: ArrayLike, loss_clip: float = math.inf) -> float:
        work = methodcaller("objective", self._weights("w", w), loss_clip)
        return float(sum(self._over(work)))

    def line_search_losses(
        self, w: ArrayLike, direction: ArrayLike, steps: ArrayLike, loss_clip: float = math.inf
    ) -> Vector:
        work = methodcaller(
            "line_search_losses",
            self._weights("w", w),
            self._weights("direction", direction),
            as_vector("steps", steps, None),
            loss_clip,
        )
        losses: Vector = add_up(self._over(work))
        return losses

    def margins(self, w: ArrayLike) -> Vector:
        return np.concatenate(list(self._over(methodcaller("margins", self._weights("w", w)))))

    def weighted_gram(
        self, w: Vector, loss: Loss, max_rows: int | None = None
    ) -> tuple[Matrix, int]:
        numbers: Sequence[int] | None = None
        taken = len(self.source.sizes)
        n = self.shape.n_samples
        if max_rows is not None and n <= 2 * max_rows:
            max_rows = None
        if max_rows is not None:
            if self.source.seekable and taken > _SAMPLED_BLOCKS:
                # From the middle of as many parts of equal length.
                middles = (np.arange(_SAMPLED_BLOCKS) + 0.5) * (taken / _SAMPLED_BLOCKS)
                numbers = middles.astype(int).tolist()
                taken = _SAMPLED_BLOCKS
            max_rows = -(-max_rows // taken)
        total, rows = np.zeros((self.shape.dim, self.shape.dim)), 0
        work = methodcaller("weighted_gram", w, loss, max_rows)
        for part, count in self._over(work, numbers):
            total += part
            rows += count
        return total, rows

    def count_groups(self, edges: Vector) -> Vector:
        counts: Vector = add_up(self._over(methodcaller("count_groups", edges)))
        return counts

    def group_gradient(self, w: Matrix, clip: GroupClip) -> tuple[Matrix, float]:
        if self._measure is None:
            raise ValueError("groups must be measured first; use measured_by.")
        total, shares = np.zeros_like(w), 0.0
        for part, share in self._over(methodcaller("group_gradient", w, clip)):
            total += part
            shares += share
        return total, shares

    # ---- other views ----------------------------------------------------------------------------

    def clipped_by_lengths(
        self,
        lengths: Callable[[RowAccess], Vector],
        longest: float = math.inf,
        consistent: bool = False,
    ) -> Self:
        check_consistent(consistent, self.shape.loss)
        # Found in every pass.
        return self._view(_lengths=lengths, _longest=longest, _consistent=consistent)

    def with_rows_per_group(self, rows: float) -> Self:
        return self._view(_rows_per_group=rows)

    def with_weights_cut(self, at: float) -> Self:
        at = check_cut(at, self.shape, self.source.weighted)
        return self._view(_weights_cuts=(*self._weights_cuts, at))

    def measured_by(
        self, measure: Callable[[Matrix], tuple[Matrix, Vector]], transform: Matrix
    ) -> Self:
        return self._view(_measure=(measure, transform))  # in every pass

    def with_target(self, y: Any) -> Self:
        """The same rows, weights and bounds with other targets.

        `y` is a function that makes them of a block's stored ones, as `target` does.
        """
        if not callable(y):
            raise TypeError(
                "y must be a function that makes targets of a block's, for rows in blocks; got "
                f"{type(y).__name__}."
            )
        return self._view(make_target=y)

    def in_unit(self, unit: float, loss: Loss) -> Self:
        make = partial(divided, unit=unit, loss=loss, make=self.make_target)
        return self.with_loss(loss).with_target(make)


@dataclass(frozen=True)
class _Recipe:
    """How a block becomes a problem; public, and small enough to be sent along with every task."""

    shape: ProblemShape
    weighted: bool
    target: Callable[[NDArray[Any]], ArrayLike] | None
    lengths: Callable[[RowAccess], Vector] | None
    longest: float
    consistent: bool
    measure: Measure | None
    rows_per_group: float | None
    weights_cuts: tuple[float, ...]
    n_jobs: int
    names: tuple[str, ...] | None

    def problem(self, block: Block) -> Problem:
        """The problem of one block, new or made before."""
        key = None if block.made is None else self._key()
        if block.made is None or key is None:
            return self._new(block)
        problem: Problem | None = block.made.pop(key, None)
        if problem is None:
            problem = self._new(block)
            if len(block.made) >= _KEPT_PROBLEMS:
                del block.made[next(iter(block.made))]
        block.made[key] = problem  # the last to go
        # Results depend on the block and the arguments alone, not on what was asked before.
        problem.forget_line()
        return problem

    def _key(self) -> bytes | None:
        """Equal for equal recipes, in whichever process they were made."""
        try:
            # With `lengths` come dim x dim numbers, which are not to be kept beside the block.
            return hashlib.sha256(pickle.dumps(self)).digest()
        except (pickle.PicklingError, AttributeError, TypeError):
            # Functions that only cloudpickle can send: they cannot be told apart.
            return None

    def _new(self, block: Block) -> Problem:
        """The problem of one block, with bounds that hold for all of them."""
        shape = self.shape
        if block.y is None:
            raise DataError("there are no targets: say which column has them.")
        problem = Problem(
            block.X,
            block.y if self.target is None else self.target(block.y),
            shape.loss,
            shape.alpha,
            shape.data_norm,
            intercept=shape.intercept,
            sample_weight=block.weight,
            max_weight=shape.max_weight if self.weighted else None,
            groups=block.groups,
            max_rows_per_group=shape.max_rows_per_group,
            n_jobs=self.n_jobs,
        )
        if self.rows_per_group is not None:
            problem = problem.with_rows_per_group(self.rows_per_group)
        for at in self.weights_cuts:
            problem = problem.with_weights_cut(at)
        if self.measure is not None:
            return problem.measured_by(*self.measure)
        if self.lengths is None:
            return problem
        return problem.clipped_by_lengths(self.lengths, self.longest, self.consistent)


@one_blas_thread()
@np.errstate(all="ignore")  # what NumPy warns of in a worker would tell of rows
def _on_block(
    recipe: _Recipe, sizes: tuple[int, ...], function: Callable[[Problem], T], block: Block
) -> T:
    """`function` of the problem of one block; runs wherever the block is."""
    rows, columns = np.shape(block.X)
    expected = sizes[block.number], recipe.shape.n_features
    if (rows, columns) != expected:
        raise DataError(
            f"{block.where}: the block must have {expected[0]} rows and {expected[1]} columns, as "
            f"was found when the data were opened; got {rows} and {columns}."
        )
    if (block.weight is not None) != recipe.weighted:
        raise DataError(f"{block.where}: either all blocks must have weights or none.")
    try:
        return function(recipe.problem(block))
    except (DataError, ValueError, TypeError) as error:
        # GridOverflow and the like are none of the data's; whatever else is wrong keeps its type.
        kind = TypeError if isinstance(error, TypeError) else DataError
        raise kind(f"{block.where}{_culprit(recipe, block)}: {error}") from error


def _culprit(recipe: _Recipe, block: Block) -> str:
    """The column that holds NaN or infinity, if that is what is wrong."""
    if not isinstance(block.X, np.ndarray) or block.X.dtype.kind != "f":
        return ""
    bad = np.flatnonzero(~np.isfinite(block.X).all(axis=0))
    if not len(bad):
        return ""
    number = int(bad[0])
    return f", column {recipe.names[number]!r}" if recipe.names else f", column {number}"
