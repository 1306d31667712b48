"""What queries compute of rows after a linear map: sums over rows in memory, and their lengths.

Dense rows are worked on in pieces that stay in cache until they are used.  Of sparse rows the
stored entries alone are touched: k of them cost k for sums of entries, and k² for a Gram matrix and
for a length, but k for one where columns are only scaled and shifted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from dpfast import _kernels
from dpfast._typing import Matrix, Vector
from dpfast.chunks import add_up, finish
from dpfast.shape import UNIT, ProblemShape
from dpfast.sums import RowAccess, RowSums

Entrywise = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# Entries of a piece of sparse rows that is written out, and rows and entries of one in float32: it
# stays in cache, and BLAS wants some hundred rows, but takes a third longer for a power of two.
_PIECE_ENTRIES, _PIECE_ROWS = 2**15, 240
# Sparse rows whose stored entries are copied at once.
_FACTOR_ROWS = 4096
# Rounding unit of float32, and from how many columns on it is worth its error.
_FLOAT32_UNIT, _FLOAT32_COLUMNS = 2.0**-24, 100
# Lengths of float32 may be too long by this share of √dim, and squares of lengths of sparse rows by
# that share of dim.
_FLOAT32_SHARE, _FORM_SHARE = 2.0**-7, 2.0**-16
# Shifts of sparse rows, in units of the radius, up to which what cancels is of no account.
_SHORT_SHIFT = 8.0
# What sparse rows are taken to be long at least, if no length is known to be more.
_SHORT_ROW = 2.0**-10
# Entries of a product of a transform with itself that entries of 1e150 have finite products with.
_LARGEST_FORM = 1e140


@dataclass(frozen=True)
class Affine:
    """Columns ``z = factor x + shift`` of the rows, which are clipped to ``‖z‖ <= radius``."""

    factor: Vector
    shift: Vector
    radius: float


def affine_of(shape: ProblemShape, transform: Matrix, radius: float) -> Affine | None:
    """The columns of a transform but the intercept's, if each is one of the rows', shifted."""
    d = shape.n_features
    square = transform[:d, :d]
    if np.count_nonzero(square) > np.count_nonzero(np.diagonal(square)):
        return None
    shift = shape.intercept * transform[d, :d] if shape.dim > d else np.zeros(d)
    return Affine(np.diagonal(square).copy(), shift, radius)


def part_sums(
    problem: RowAccess, *, columns: Affine, squares: bool, parts: Vector | None = None
) -> Matrix:
    """Sums over the rows, entry by entry: of ``f_i z_i⁺``, ``f_i z_i⁻`` and ``f_i² z_i²``.

    ``f_i <= 1`` shortens a row to the radius.  Where a record is a group, its rows' mean counts.
    Without `squares` there are the first two.  `parts`, from 0 to 1, say what a row counts besides.
    """
    written = problem.sparse and not _by_stored_entries(problem, columns)
    shares = _shares(problem)

    def work(kernel: Any, first: int, last: int, start: int, stop: int) -> Matrix:
        sums = np.zeros((2 + squares, len(columns.factor)))
        share = shares(start, stop)
        share = share if parts is None else share * parts[start:stop]
        if written:
            for piece, at, count in _dense(kernel, first, last):
                _part_sums(piece, *at, columns, share[count], sums)
        else:
            _part_sums(kernel, first, last, columns, share, sums)
        return sums

    # Of sparse rows a chunk has few entries beside the columns that it has sums of.
    return add_up(problem.map_chunks(work, few=problem.sparse))


def column_counts(
    problem: RowAccess, *, columns: NDArray[np.intp], low: Vector, high: Vector, bins: int
) -> Matrix:
    """How many rows have their entry of a column in each of so many bins from `low` to `high`.

    The outer bins also count what lies beyond.  Where a record is a group, its rows' mean counts.
    """
    slot = np.full(problem.shape.n_features, -1, dtype=np.intp)
    slot[columns] = np.arange(len(columns))
    per_bin = bins / (high - low)
    shares = _shares(problem)

    def work(kernel: Any, first: int, last: int, start: int, stop: int) -> Matrix:
        counts = np.zeros((len(columns), bins))
        count = _coded_column_counts if _in_codes(kernel, first, last) else _kernels.column_counts
        count(kernel, first, last, slot, low, per_bin, shares(start, stop), counts)
        return counts

    return add_up(problem.map_chunks(work, few=problem.sparse))


def _coded_column_counts(
    kernel: _kernels.CodedRows,
    first: int,
    last: int,
    slot: NDArray[np.intp],
    low: Vector,
    per_bin: Vector,
    shares: Vector,
    counts: Matrix,
) -> None:
    """The same of rows in codes: those of a level have the same entries."""

    def bin_of(x: Any, line: Any) -> NDArray[np.intp]:
        place = np.clip((x - low[line]) * per_bin[line], 0.0, counts.shape[1] - 1.0)
        return np.asarray(place, dtype=np.intp)

    level, at, values = kernel.parts.entries_of_levels
    asked = slot[at] >= 0
    line, rows = slot[at][asked], kernel.scatter(first, last, shares)[level[asked]]
    np.add.at(counts, (line, bin_of(values[asked], line)), rows)
    np.add.at(counts, (line, bin_of(0.0, line)), -rows)
    # All rows as zeros, and what levels and numbers change of that.
    every = np.arange(len(counts))
    counts[every, bin_of(0.0, every)] += shares.sum()
    for _, column, numbers in kernel.numbers(first, last):
        if slot[column] >= 0:
            own = slot[column]
            counts[own] += np.bincount(bin_of(numbers, own), shares, counts.shape[1])
            counts[own, bin_of(0.0, own)] -= shares.sum()


def shortened(problem: RowAccess, columns: Affine) -> Vector:
    """What shortens each row to the radius.

    Of sparse rows with short shifts stored entries alone are read: then squares of these are what
    cancels, and rounding is in proportion to them.
    """
    found = np.empty(problem.target.shape)
    stored = problem.sparse and np.linalg.norm(columns.shift) <= _SHORT_SHIFT * columns.radius

    def work(kernel: Any, first: int, last: int, start: int, stop: int) -> None:
        if stored:
            found[start:stop] = _factors(kernel, first, last, columns)
        else:
            squares = _squares(kernel, first, last, _row_map(columns))
            found[start:stop] = shortening(squares, len(columns.factor), columns.radius)

    finish(problem.map_chunks(work))
    return found


def _above(z: Vector) -> Vector:
    """Positive parts."""
    return np.maximum(z, 0.0)


def _below(z: Vector) -> Vector:
    """Negative parts, as numbers >= 0."""
    return np.maximum(-z, 0.0)


# Functions of entries, and the power in which shortening a row scales them.
_FUNCTIONS: tuple[tuple[Entrywise, int], ...] = ((_above, 1), (_below, 1), (np.square, 2))


def _by_stored_entries(problem: RowAccess, columns: Affine) -> bool:
    """Whether sums over the rows may be put together of stored entries and of shifts.

    Written as ``z = v + shift``, ``v`` zero where nothing is stored, a row that is shortened by f
    has ``‖f v‖ <= radius + ‖shift‖``.  With a shift no longer than the radius C, what is added up
    has at most ``3 C`` a row instead of C for z, ``3 C²`` for squares of its entries, and
    ``9 C²`` for products of them.
    """
    return problem.sparse and bool(np.linalg.norm(columns.shift) <= columns.radius)


def _shares(problem: RowAccess) -> Callable[[int, int], Vector]:
    """What each row of a range counts."""
    shares = problem.row_shares()
    return lambda start, stop: np.ones(stop - start) if shares is None else shares[start:stop]


def relative_weights(problem: RowAccess, shape: ProblemShape) -> Vector | float:
    """Weights of rows of groups, over the largest one that they may have; at most 1."""
    if problem.sample_weight is None:
        return 1.0
    # Where a row counts as a part of a group its weight is that part of it, and a hair less.
    largest = shape.max_weight / (shape.max_rows_per_group or 1) * (1.0 - 16.0 * UNIT)
    return np.minimum(1.0, problem.sample_weight / largest)


def check_rows_per_group(shape: ProblemShape, rows: tuple[float, ...]) -> None:
    """Refuse another argument than how many rows of a group count as one record.

    Raises
    ------
    ValueError
        Also without one where a record is a group, or with one where it is a row.
    """
    if len(rows) != shape.several_rows or not all(1.0 <= number < math.inf for number in rows):
        raise ValueError(
            "one number of rows of a group, at least 1, must be given where a record is a group, "
            f"and none otherwise; got {rows}. Nothing was spent on it."
        )


def with_rows_per_group(problem: RowSums, rows: tuple[float, ...]) -> RowSums:
    """The rows, of which so many of a group count as one record, if a record is a group."""
    return problem.with_rows_per_group(*rows) if rows else problem


def _part_sums(
    kernel: Any, first: int, last: int, columns: Affine, shares: Vector, sums: Matrix
) -> None:
    """Add the sums over a range of rows to `sums`."""
    if _in_codes(kernel, first, last):
        _coded_part_sums(kernel, first, last, columns, shares, sums)
        return
    factor, shift = columns.factor, columns.shift
    _kernels.part_sums(kernel, first, last, factor, shift, columns.radius, shares, sums)


def _in_codes(kernel: Any, first: int, last: int) -> TypeGuard[_kernels.CodedRows]:
    """Whether sums can be computed by levels: the rows of a level have the same entries."""
    return isinstance(kernel, _kernels.CodedRows) and not kernel.scaled(first, last).any()


def _coded_part_sums(
    kernel: _kernels.CodedRows,
    first: int,
    last: int,
    columns: Affine,
    shares: Vector,
    sums: Matrix,
) -> None:
    """The same of rows in codes: what rows count by level, times what entries of levels are."""
    d = len(columns.factor)
    level, at, values = kernel.parts.entries_of_levels
    z = values * columns.factor[at] + columns.shift[at]
    numbers = _numbers(kernel, first, last, columns)
    factors = _coded_factors(kernel, first, last, columns)
    functions = _FUNCTIONS[: len(sums)]
    counts = [shares * factors**power for power in sorted({power for _, power in functions})]
    by_level = [kernel.scatter(first, last, count) for count in counts]
    for row, (function, power) in zip(sums, functions, strict=True):
        count, empty = counts[power - 1], function(columns.shift)
        row += np.bincount(at, (function(z) - empty[at]) * by_level[power - 1][level], d)
        for column, own in numbers:
            row[column] += (function(own) - empty[column]) @ count
        row += count.sum() * empty


def _numbers(
    kernel: _kernels.CodedRows, first: int, last: int, columns: Affine
) -> list[tuple[int, Vector]]:
    """Columns of numbers, and what they become."""
    return [
        (column, columns.factor[column] * numbers + columns.shift[column])
        for _, column, numbers in kernel.numbers(first, last)
    ]


def _coded_factors(kernel: _kernels.CodedRows, first: int, last: int, columns: Affine) -> Vector:
    """What shortens each row to the radius, as the kernel of stored entries has it."""
    level, at, values = kernel.parts.entries_of_levels
    shift = columns.shift[at]
    z = values * columns.factor[at] + shift
    empty = float(columns.shift @ columns.shift)
    changes = np.bincount(level, z * z - shift * shift, kernel.parts.n_levels)
    squares = kernel.gather(first, last, changes.astype(np.float64)) + empty
    for column, own in _numbers(kernel, first, last, columns):
        squares += own * own - columns.shift[column] ** 2
    # Beside squares there were terms that cancel: those of shifts, twice, and there at most all.
    squares = np.maximum(squares, 0.0)
    squares += 2.0 * UNIT * (len(columns.factor) + 8) * (squares + 3.0 * empty)
    return shortening(squares, len(columns.factor), columns.radius)


def _factors(kernel: _kernels.CsrRows, first: int, last: int, columns: Affine) -> Vector:
    """What shortens each row of a range to the radius, to the last bit whatever the others are."""
    if _in_codes(kernel, first, last):
        return _coded_factors(kernel, first, last, columns)
    factors = np.empty(last - first)
    _kernels.shortening(kernel, first, last, columns.factor, columns.shift, columns.radius, factors)
    if isinstance(kernel, _kernels.CodedRows):
        kept = ~kernel.scaled(first, last)
        factors[kept] = _coded_factors(kernel, first, last, columns)[kept]
    return factors


def gram(
    problem: RowAccess, *, coordinates: Affine | Matrix, radius: float, largest: float = 0.0
) -> Matrix:
    """Upper triangle of ``Σ_i z_i z_iᵀ``, each row shortened to the radius; ``z_i = Wᵀ x̃_i``.

    Where a record is a group, the mean of its rows' matrices counts.  Put together of stored
    entries and of shifts s, a row adds at most ``(‖f v‖ + ‖s‖)² <= (C + 2 ‖s‖)²`` instead of
    ``C²``; that is done where it is no more than `largest`.
    """
    if (
        problem.sparse
        and isinstance(coordinates, Affine)
        and (radius + 2.0 * np.linalg.norm(coordinates.shift)) ** 2 <= largest
    ):
        return _stored_gram(problem, coordinates)
    to, shares = _row_map(coordinates), _shares(problem)

    def work(kernel: Any, first: int, last: int, start: int, stop: int) -> Matrix:
        total, share = np.zeros((to.columns, to.columns)), shares(start, stop)
        for piece, at, count in _dense(kernel, first, last):
            _kernels.gram(piece, *at, to, radius, share[count], total)
        return total

    return add_up(problem.map_chunks(work))


def _stored_gram(problem: RowAccess, columns: Affine) -> Matrix:
    """The same by products of stored entries; the columns are changed at the end."""
    d, dim = len(columns.factor), problem.shape.dim
    shares = _shares(problem)

    def work(
        kernel: Any, first: int, last: int, start: int, stop: int
    ) -> tuple[Matrix, Vector, float]:
        # In pieces: the chunks are long.
        edges = range(first, last, _FACTOR_ROWS)
        factors = [_factors(kernel, at, min(at + _FACTOR_ROWS, last), columns) for at in edges]
        share = shares(start, stop) * np.square(np.concatenate(factors))
        products, sums = np.zeros((dim, dim)), np.empty(dim)
        _kernels.weighted_gram_block(kernel, first, last, share, products)
        _kernels.row_sum(kernel, first, last, share, sums)
        return products, sums, float(share.sum())

    parts = problem.map_chunks(work, few=True)
    products, sums, count = next(parts)
    for part in parts:
        products += part[0]
        sums += part[1]
        count += part[2]
    # Σ f² (v + s)(v + s)ᵀ = Σ f² v vᵀ + a sᵀ + s aᵀ with a = Σ f² v + (Σ f² / 2) s.
    total = products[:d, :d] * columns.factor
    total *= columns.factor[:, None]
    half = columns.factor * sums[:d] + 0.5 * count * columns.shift
    blas.dsyr2(1.0, half, columns.shift, lower=1, a=total.T, overwrite_a=1)
    return total


def shortening(squares: Vector, d: int, radius: float) -> Vector:
    """What shortens rows of `d` entries to `radius`, from their squared norms; rounded down."""
    norms = np.sqrt(squares) * (1.0 + (d + 8) * UNIT)
    return radius / np.maximum(norms, radius)


def _dense(
    kernel: Any, first: int, last: int
) -> Iterator[tuple[_kernels.DenseRows, tuple[int, int], slice]]:
    """Dense rows, the range of them, and which of the rows of this range they are.

    Sparse rows are written out in pieces.
    """
    if not isinstance(kernel, _kernels.CsrRows):
        yield kernel, (first, last), slice(0, last - first)
        return
    d = kernel.n_features
    rows, ones, zeros = max(1, _PIECE_ENTRIES // d), np.ones(d), np.zeros(d)
    for start in range(first, last, rows):
        count = min(rows, last - start)
        piece, unused = np.empty((count, d)), np.empty(count)
        _kernels.affine_rows(kernel, start, start + count, ones, zeros, piece, unused)
        written = _kernels.DenseRows(piece, unused, kernel.intercept)
        yield written, (0, count), slice(start - first, start - first + count)


def _row_map(coordinates: Affine | Matrix) -> _kernels.RowMap:
    """The map to the coordinates, as kernels take it."""
    if isinstance(coordinates, Affine):
        return _kernels.RowMap(factor=coordinates.factor, shift=coordinates.shift)
    return _kernels.RowMap(np.ascontiguousarray(coordinates))


def _squares(kernel: Any, first: int, last: int, to: _kernels.RowMap) -> Vector:
    """Squared lengths of a range of rows in the coordinates."""
    found = np.empty(last - first)
    for piece, at, count in _dense(kernel, first, last):
        _kernels.coordinates(piece, *at, to, found[count])
    return found


# ---- lengths -------------------------------------------------------------------------------------


def lengths(problem: RowAccess, *, transform: Matrix, reach: float, least: float) -> Vector:
    """Upper bounds of ``‖Wᵀ x̃_i‖``, none below `least`, for all rows of a problem.

    ``reach`` bounds ``‖|W|ᵀ |x̃|‖``.  A computed entry of ``Wᵀ x̃`` is wrong by at most
    ``(D + 8) u (|W|ᵀ |x̃|)``, which for all of them has at most ``(D + 8) u`` times the reach as its
    norm, and the computed norm by a factor ``1 + (D + 8) u``; ``u`` is the rounding unit of the
    arithmetic that is used.  Where a record is a group, it is float64, by a kernel whose last bits
    do not depend on where a row is, which another group's id and number of rows decide; those of
    BLAS, which has float32, do.  Any R with ``RᵀR = W Wᵀ`` does as well as ``Wᵀ``, and its columns
    are as long as W's rows.
    """
    dim = problem.shape.dim
    of_forms = (3 * dim + 16) * UNIT * reach**2
    of_float32 = (dim + 16) * _FLOAT32_UNIT * reach
    wide = not problem.sparse and problem.shape.unit == "row" and dim >= _FLOAT32_COLUMNS
    measure: Callable[[Any, int, int], Vector]
    finite = dim * max(-float(transform.min()), float(transform.max())) ** 2 <= _LARGEST_FORM
    columns = scaled(problem.shape, transform)
    if problem.sparse and finite and of_forms <= _FORM_SHARE * dim:
        if columns is None:
            measure = partial(_by_forms, matrix=transform @ transform.T, error=of_forms)
        else:
            measure = partial(_by_entries, columns=columns, intercept=problem.shape.intercept)
    elif wide and columns is None and 1e-20 < of_float32 <= _FLOAT32_SHARE * math.sqrt(dim):
        measure = _in_float32(transform, of_float32)
    else:
        to = _row_map(transform if columns is None else columns)
        measure = partial(_in_float64, to=to, reach=reach)
    bounds = np.empty(problem.target.shape)

    def work(kernel: Any, first: int, last: int, start: int, stop: int) -> None:
        np.maximum(measure(kernel, first, last), least, out=bounds[start:stop])

    finish(problem.map_chunks(work))
    return bounds


def _by_entries(kernel: Any, first: int, last: int, *, columns: Affine, intercept: float) -> Vector:
    """Of sparse rows whose columns are scaled and shifted: by what shortens them to a radius.

    That is rounded down, with what rounding did to terms that cancel.
    """
    d = kernel.n_features
    mapped = Affine(columns.factor[:d], columns.shift[:d], _SHORT_ROW)
    constant = intercept * columns.factor[d:].sum()
    found = np.hypot(_SHORT_ROW / _factors(kernel, first, last, mapped), constant)
    return np.asarray(found * (1.0 + 8.0 * UNIT))


def _by_forms(kernel: Any, first: int, last: int, *, matrix: Matrix, error: float) -> Vector:
    """Of sparse rows: roots of ``x̃ᵀ W Wᵀ x̃``, by pairs of stored entries.

    An entry of ``W Wᵀ`` is no larger than the product of two rows' lengths, and ``Σ_j |x̃_j| ‖W_j‖``
    than the reach; so the form is wrong by at most ``(3 D + 8) u`` times the reach's square.
    """
    forms = np.empty(last - first)
    _kernels.quadratic_forms(kernel, first, last, matrix, forms)
    return np.sqrt(np.maximum(forms, 0.0) + error) * (1.0 + 4.0 * UNIT)


def scaled(shape: ProblemShape, transform: Matrix) -> Affine | None:
    """All columns, the constant one among them, if the transform scales and shifts each."""
    d = shape.n_features
    if transform.shape != (shape.dim, shape.dim) or np.any(transform[:d, d:]):
        return None
    columns = affine_of(shape, transform, math.inf)
    if columns is None:
        return None
    factor = np.append(columns.factor, np.diagonal(transform[d:, d:]))
    return Affine(factor, np.append(columns.shift, np.zeros(len(factor) - d)), math.inf)


def _in_float64(kernel: Any, first: int, last: int, *, to: _kernels.RowMap, reach: float) -> Vector:
    """Of the rows in the coordinates."""
    return _upper(_squares(kernel, first, last, to), kernel.dim, reach)


def measured(
    rows: Matrix, *, coordinates: Affine | Matrix, dim: int, reach: float
) -> tuple[Matrix, Vector]:
    """Rows of an array in the coordinates, and upper bounds of their lengths.

    A row's are the same to the last bit wherever it is among others.  Those of BLAS are not: it
    adds up what is left over beyond its own pieces in another order, and has other pieces for every
    number of threads; of rows that all but vanish nothing but last bits remains.
    """
    to, squares = _row_map(coordinates), np.empty(len(rows))
    z = np.empty((len(rows), to.columns))
    if len(rows):
        kernel = _kernels.DenseRows(np.ascontiguousarray(rows, dtype=np.float64), squares)
        _kernels.coordinates(kernel, 0, len(rows), to, squares, z)
    return z, _upper(squares, dim, reach)


def _upper(squares: Vector, dim: int, reach: float) -> Vector:
    """Upper bounds of ``‖z_i‖`` from what was computed of ``‖z_i‖²``, of rows of `dim` entries."""
    grow = (dim + 8) * UNIT
    return (np.sqrt(squares) + grow * reach) * (1.0 + grow)


def _in_float32(transform: Matrix, more: float) -> Callable[[Any, int, int], Vector]:
    """Of products in float32, with a triangular matrix where W has as many columns as rows."""
    dim, k = transform.shape
    # Columns in units of their lengths: no entry over- or underflows that matters.
    sizes = np.linalg.norm(transform, axis=1)
    columns = (transform / np.maximum(sizes, np.finfo(np.float64).tiny)[:, None]).T
    triangular = k >= dim
    if triangular:
        columns = np.linalg.qr(columns, mode="r")
    factor = np.asfortranarray(columns, dtype=np.float32)
    grow = 1.0 + (dim + 16) * _FLOAT32_UNIT

    def measure(kernel: Any, first: int, last: int) -> Vector:
        found = []
        step = max(_PIECE_ROWS, _PIECE_ENTRIES // dim)
        for start in range(first, last, step):
            stop = min(start + step, last)
            rows = np.empty((stop - start, dim), dtype=np.float32)
            _kernels.affine_rows_float(kernel, start, stop, sizes, np.zeros(dim), rows)
            if triangular:
                z = blas.strmm(1.0, factor, rows.T, overwrite_b=1)
            else:
                z = blas.sgemm(1.0, factor, rows.T)
            squares = np.einsum("ji,ji->i", z, z).astype(np.float64)
            found.append(np.sqrt(squares) * grow + more * grow)
        return np.concatenate(found)

    return measure
