"""What is public of a learning problem: sizes, bounds, and the rounding that they allow.

A :class:`ProblemShape` is all that a plan may depend on.  It also says how sums over the rows
are divided, which depends on the shape alone, and bounds what rounding does to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from dpfast import _kernels
from dpfast._validation import check_choice, check_integer, check_real, keep_python_numbers
from dpfast.column_blocks import ColumnBlock
from dpfast.losses import Loss
from dpfast.mechanisms import LARGEST_ARGUMENT
from dpfast.privacy import records_apart

_LOGISTIC = Loss("logistic")
#: Rounding unit of float64.
UNIT = 2.0**-53
# Chunks of about this many bytes: long enough that a Python call is free, short enough that Ctrl-C
# is answered within milliseconds.
_CHUNK_BYTES = 4 * 2**20
# What map_rows hands to NumPy at once: fresh arrays of some megabytes cost more than the work.
_DENSE_BYTES = 2**18
# Each chunk has a gradient of its own until it is added to the sum; rows of all but the last are a
# multiple of so many.
_MAX_CHUNKS, _CHUNK_UNIT = 256, 64
# Of a longer chunk, the chain of additions would be charged.
_LONG_CHUNK_ROWS = 2**16
# Rows of one chunk of a line search at most: its three vectors stay in cache between the margins
# and the losses.
_LINE_SEARCH_ROWS = 8192
#: Whose data neighbors differ in: a row, or all rows of one group, such as a person.
UNITS = ("row", "group")
#: Rows of one group that are read at most: rounding errors of what a group contributes grow with
#: their number.
MOST_ROWS = 1000


@dataclass(frozen=True)
class BlockSizes:
    """How many blocks the rows come in, where they are not one array.

    Parameters
    ----------
    count : int
        Number of blocks.
    distinct : tuple of int
        The different numbers of rows that they have.
    """

    count: int
    distinct: tuple[int, ...]

    def __post_init__(self) -> None:
        check_integer("count", self.count, low=1)
        if not self.distinct:
            raise ValueError("distinct must hold the blocks' numbers of rows; got none.")
        for rows in self.distinct:
            check_integer("distinct", rows, low=1, high=2**53)
        object.__setattr__(self, "distinct", tuple(map(int, self.distinct)))
        keep_python_numbers(self)

    @classmethod
    def of_groups(cls, n_groups: int, block_rows: int) -> BlockSizes:
        """What is public of blocks of whole groups, each but the last of `block_rows` or more.

        How many rows there are is private, and so is how many blocks: rounding is bounded for the
        most that there can be.
        """
        most = n_groups * MOST_ROWS
        return cls(most // block_rows + 1, (min(most, block_rows + MOST_ROWS),))


@dataclass(frozen=True)
class ProblemShape:
    """The public quantities of a problem: all that a plan may depend on.

    Parameters
    ----------
    n_samples : int
        Number of records: rows, or groups of rows, see `unit`; public under both neighboring
        relations.
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
    max_weight : float, default=1.0
        Bound of the rows' weights; multiplies all constants of the loss.
    blocks : BlockSizes or None, default=None
        Set where the rows come in blocks, each of which is summed by itself.
    unit : {"row", "group"}, default="row"
        What a record is.  Groups are all rows of one person, say: their number is public, and the
        number of rows is not.
    max_rows_per_group : int or None, default=None
        Rows of a group that are used at most.  If it is given, every row counts this part of a
        record, and a group counts at most as one record, as the sums over weighted rows need it
        that are not clipped by group.  None: at most 1000 are read.
    columns : tuple of ColumnBlock, default=()
        How all columns were declared, with entries in [-1, 1]; empty if nothing is known.  Wrong
        declarations cost accuracy, never privacy.
    weighted : bool, default=False
        Whether rows have weights of their own.

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
    loss: Loss = _LOGISTIC
    intercept: float = 1.0
    alpha: float | None = None
    max_weight: float = 1.0
    blocks: BlockSizes | None = None
    unit: Literal["row", "group"] = "row"
    max_rows_per_group: int | None = None
    columns: tuple[ColumnBlock, ...] = ()
    weighted: bool = False

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
        check_real("max_weight", self.max_weight, low=1e-100, high=1e100)
        if self.alpha is not None:
            check_real("alpha", self.alpha, low=1e-100, high=1e100)
        check_choice("unit", self.unit, UNITS)
        if self.max_rows_per_group is not None:
            check_integer("max_rows_per_group", self.max_rows_per_group, low=1, high=MOST_ROWS)
            if self.unit == "row":
                raise ValueError(
                    "max_rows_per_group must be None where a record is a row; got "
                    f"{self.max_rows_per_group}. With unit='group' it is a group of rows."
                )
        if self.columns:
            _check_columns(self.columns, self.n_features)
        keep_python_numbers(self)

    @property
    def dim(self) -> int:
        """Length of the weight vector, the intercept included."""
        return self.n_features + (self.intercept != 0.0)

    @property
    def row_norm(self) -> float:
        """Bound of ``‖(x_i, intercept)‖₂``, rounded up: the intercept counts."""
        if self.intercept == 0.0:
            return self.data_norm
        return math.hypot(self.data_norm, self.intercept) * (1.0 + 4.0 * UNIT)

    @property
    def lipschitz(self) -> float:
        """``L``: bound of the norm of one row's gradient, ``max|ℓ'| · row_norm · max_weight``."""
        return self.loss.lipschitz * self.row_norm * self.max_weight

    @property
    def record_lipschitz(self) -> float:
        """Bound of the norm of one record's gradient: `lipschitz`, with a `record_weight`."""
        return self.loss.lipschitz * self.row_norm * self.record_weight

    @property
    def largest_weights(self) -> float:
        """Norm of weights with which losses and gradients of any rows add up to finite numbers.

        A row's loss is at most about ``z²`` at the margin z, or ``max|ℓ'| |z|`` where that is
        bounded; the rest is for their weights, their number and the targets.
        """
        largest = min(LARGEST_ARGUMENT, 1e140 / (self.row_norm * math.sqrt(self.max_weight)))
        if self.loss.lipschitz < math.inf:
            largest = min(largest, 1e280 / max(1e140, self.lipschitz))
        return largest

    @property
    def smoothness(self) -> float:
        """``β``: bound of the mean loss's Hessian norm, ``max|ℓ''| · row_norm² · max_weight``."""
        return self.loss.smoothness * self.row_norm**2 * self.max_weight

    @property
    def several_rows(self) -> bool:
        """Whether a record can have several rows."""
        return self.unit == "group" and self.max_rows_per_group != 1

    @property
    def record_weight(self) -> float:
        """Bound of the weights of one record's rows together, which is `max_weight`.

        Raises
        ------
        ValueError
            Where a group can have many rows, each of which counts as a record does.
        """
        if self.several_rows and self.max_rows_per_group is None:
            raise ValueError(
                "max_rows_per_group must be given for sums over weighted rows where a record is a "
                "group of rows; got None. Each row then counts 1/max_rows_per_group of a record."
            )
        return self.max_weight

    @property
    def most_rows(self) -> int:
        """Bound of the number of rows, which is private where a record is a group."""
        if self.unit == "row":
            return self.n_samples
        return self.n_samples * (self.max_rows_per_group or MOST_ROWS)

    def check_rows(self, rows: ProblemShape, fewer: bool, any_loss: bool) -> None:
        """Refuse rows of which bounds for this shape need not hold.

        Parameters
        ----------
        rows : ProblemShape
            Of the rows.
        fewer : bool
            Whether they may be a part of half of these or less, whose rounding is less, however it
            is divided; but not blocks, which add up in chains of their own.
        any_loss : bool
            Whether their loss may be another one.

        Raises
        ------
        ValueError
        """
        alike = ["n_features", "intercept", "unit", "max_rows_per_group"]
        alike += [] if any_loss else ["loss"]
        if not (fewer and rows.blocks is None and 2 * rows.n_samples <= self.n_samples + 1):
            alike += ["n_samples", "blocks"]
        most = ("n_samples", "data_norm", "max_weight")
        wrong = [name for name in alike if getattr(rows, name) != getattr(self, name)]
        wrong += [name for name in most if not getattr(rows, name) <= getattr(self, name)]
        if wrong:
            raise ValueError(
                "what is asked must be made for the shape of the rows; got one with "
                f"{', '.join(f'{n}={getattr(self, n)!r}' for n in dict.fromkeys(wrong))}. Nothing "
                "was spent on it."
            )

    def of_rows(self, n_rows: int) -> ProblemShape:
        """The shape of so many rows, whatever belongs together."""
        if self.unit == "row" and n_rows == self.n_samples:
            return self
        return replace(self, n_samples=n_rows, unit="row", max_rows_per_group=None)

    def with_alpha(self, alpha: float | None) -> ProblemShape:
        """The same shape with the ridge `alpha`; None: without one."""
        return replace(self, alpha=alpha)

    def weighted_by(self, most: float) -> ProblemShape:
        """The same shape with weights that are multiplied by factors of at most `most`."""
        return replace(self, max_weight=self.max_weight * most)

    def minimizer_norm(self, alpha: float) -> float:
        """Bound of ``‖w*‖₂`` for the ridge `alpha`.

        ``(α/2)‖w*‖² <= F(w*) <= F(0) <= ℓ(0)``, and ``α w* = -mean gradient`` of norm at most
        ``L``.
        """
        at_zero = self.loss.at_zero * self.max_weight
        return min(self.lipschitz / alpha, math.sqrt(2.0 * at_zero / alpha))

    def minimizer_sensitivity(self, alpha: float, neighboring_relation: str) -> float:
        """Largest distance between the minimizers of neighboring data sets.

        The difference ``h`` of two neighbors' objectives has gradients of norm at most ``2L/n``
        (`replace_one`: ``(ℓ - ℓ')/n``) or ``L/n`` (`add_or_remove_one`, the absent record being a
        zero contribution); both objectives are α-strongly convex, so ``α‖w* - w'*‖ <= ‖∇h‖``
        (Chaudhuri, Monteleoni & Sarwate 2011, Lemma 7).  The ridge is the same for both and does
        not enter.
        """
        records = records_apart(neighboring_relation)
        return records * self.record_lipschitz / (alpha * self.n_samples)

    def group_additions(self) -> int:
        """The same for :meth:`Problem.group_gradient`."""
        return self.longest_chain(_group_additions)

    def chunk_rows(self) -> int:
        """Rows of one chunk; depends on the shape alone, never on the number of threads."""
        rows = max(_CHUNK_BYTES // (8 * self.n_features), -(-self.n_samples // _MAX_CHUNKS))
        return max(_CHUNK_UNIT, -(-rows // _CHUNK_UNIT) * _CHUNK_UNIT)

    def few_chunks_rows(self) -> int:
        """Rows of one chunk where its result is large, a matrix even: at most some 16 chunks.

        They have many times as many rows as columns, but no more than `_LONG_CHUNK_ROWS`.
        """
        rows = max(-(-self.n_samples // 16), 16 * self.dim)
        return max(self.chunk_rows(), min(rows, _LONG_CHUNK_ROWS))

    def line_search_rows(self) -> int:
        """Rows of one chunk of a line search: X is read in it, too."""
        return min(_LINE_SEARCH_ROWS, self.chunk_rows())

    def dense_rows(self) -> int:
        """Rows of one dense copy for :meth:`Problem.map_rows`; depends on the shape alone."""
        # In the cache with its copies; sums over very many rows stay short in both directions.
        return max(64, _DENSE_BYTES // (8 * self.dim), math.isqrt(self.n_samples) // 4)

    def additions(self) -> int:
        """Longest chain of additions behind an entry of a sum over all rows."""
        return self.longest_chain(_additions)

    def gram_additions(self) -> int:
        """The same for :meth:`Problem.gram`, whose chunks are longer for sparse rows."""
        return self.longest_chain(_gram_additions)

    def longest_chain(self, additions: Callable[[ProblemShape], int]) -> int:
        """Longest chain of additions behind an entry of a sum, whether in blocks or not.

        Rows that come in blocks are added up within every block like a separate problem,
        and then block by block in their order.  So an entry passes through at most the chain
        within its own block and one addition for each block: the largest of ``additions(b)`` over
        the blocks' shapes ``b``, plus their number.  Never less than for the same rows in one
        array, so that where the rows are kept does not change a plan unless it must.

        Parameters
        ----------
        additions : callable
            The chain in rows that are one array, of their shape.  A function of a module, since
            its results are kept.
        """
        shape = self.of_rows(self.most_rows)
        any_number = self.unit == "group"
        if self.blocks is None:
            return _chain(shape, additions, any_number)
        return _chain_over_blocks(shape, additions, any_number)

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
        margin = (self.dim + 6) * self.row_norm * w_norm
        row = (
            self.max_weight
            * self.row_norm
            * (self.loss.smoothness * margin + 8.0 * self.loss.lipschitz)
        )
        ridge = 4.0 * (self.alpha or 0.0) * w_norm
        return 1.1 * UNIT * (row + (self.additions() + 8) * self.lipschitz + ridge)

    def gradient_sum_error(self, clip_norm: float = math.inf, rows: int | None = None) -> float:
        """Bound of what rounding can add to the distance of neighbors' gradient sums, halved.

        A row's computed gradient is a function of that row (and of w) alone and, the clamp being
        rounded down, no longer than ``c min(clip_norm, L)`` up to a few units; so only the order of
        additions couples the rows.  Each entry passes through at most ``m`` additions, which moves
        the sum by at most ``m u Σ_i ‖g_i‖ <= m u n c min(clip_norm, L)``, ``u = 2^-53``.  Eight
        more units cover that a derivative's last bits may depend on the row's place in a block, and
        for sparse rows other rows' lengths decide that.  A mechanism charges twice this value (once
        for each neighbor) to the l2 sensitivity.

        Parameters
        ----------
        clip_norm : float, default=inf
        rows : int or None, default=None
            Rows in the sum, if they are a sample.
        """
        longest = min(clip_norm * self.max_weight, self.lipschitz)
        return 1.01 * UNIT * (self.additions() + 8) * (rows or self.n_samples) * longest

    def loss_sum_error(self, loss_clip: float) -> float:
        """Bound of the rounding error of a sum of losses clipped at `loss_clip`.

        As for :meth:`gradient_sum_error`: ``m u n c loss_clip``.  The logarithm of a block's
        product of factors ``1 + e`` adds an absolute error of a few units a row.

        Parameters
        ----------
        loss_clip : float
        """
        additions = max(self.additions(), self.longest_chain(_line_search_additions))
        largest = self.max_weight * loss_clip
        row = (additions + 16) * largest + 8.0 * self.max_weight
        return float(1.01 * UNIT * self.n_samples * row)


def _check_columns(columns: tuple[ColumnBlock, ...], n_features: int) -> None:
    """Refuse declarations that are not of all columns, each once and in their order."""
    ends = [0, *(block.stop for block in columns)]
    if [block.start for block in columns] != ends[:-1] or ends[-1] != n_features:
        raise ValueError(
            f"columns (of an estimator: column_blocks) must declare each of the {n_features} "
            f"columns once, in their order; got {[(each.start, each.stop) for each in columns]}. "
            "dpfast.preprocessing.column_blocks lists those of a fitted ColumnTransformer or "
            "Pipeline; declare every other column i as ColumnBlock('number', i, i + 1)."
        )


def _additions(shape: ProblemShape) -> int:
    """Longest chain behind an entry of a sum over rows in one array: in a chunk, then chunks."""
    chunk = min(shape.chunk_rows(), shape.n_samples)
    return int(_kernels.addition_depth(chunk)) + -(-shape.n_samples // chunk)


def _gram_additions(shape: ProblemShape) -> int:
    longest = min(shape.n_samples, max(gram_rows(shape.dim), -(-shape.n_samples // 16)))
    return max(_additions(shape), longest + -(-shape.n_samples // gram_rows(shape.dim)))


def _group_additions(shape: ProblemShape) -> int:
    chunk = min(shape.chunk_rows() + MOST_ROWS, shape.n_samples)
    within = _kernels.group_addition_depth(chunk, min(MOST_ROWS, shape.n_samples))
    return int(within) + -(-shape.n_samples // shape.chunk_rows())


def _line_search_additions(shape: ProblemShape) -> int:
    rows = shape.line_search_rows()
    return int(_kernels.line_search_addition_depth(rows)) + -(-shape.n_samples // rows)


def _chain(shape: ProblemShape, additions: Callable[[ProblemShape], int], any_number: bool) -> int:
    """The chain in rows that are one array, or in any number of them up to so many.

    Fewer rows may have more chunks: most of them, of any length, where the next row makes all
    chunks longer.
    """
    if not any_number:
        return additions(shape)
    turn = _MAX_CHUNKS * _CHUNK_UNIT
    fewer = max(1, shape.n_samples // turn * turn)
    return max(additions(shape), additions(shape.of_rows(fewer)))


@lru_cache(maxsize=1024)
def _chain_over_blocks(
    shape: ProblemShape, additions: Callable[[ProblemShape], int], any_number: bool
) -> int:
    """See :meth:`ProblemShape.longest_chain`."""
    assert shape.blocks is not None
    whole = replace(shape, blocks=None)
    within = (
        _chain(replace(whole, n_samples=rows), additions, any_number)
        for rows in shape.blocks.distinct
    )
    return max(_chain(whole, additions, any_number), max(within) + shape.blocks.count)


def gram_rows(dim: int) -> int:
    """Rows of one chunk of a Gram or Hessian matrix."""
    return max(64, 2**18 // dim)
