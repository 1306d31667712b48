"""Margins of rows to predict for, which are cut as a fit cuts them, and what they should be."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dpfast._arrays import vector_in
from dpfast._typing import Vector
from dpfast.blocks import Block, Executor, is_dask
from dpfast.coded import CodedMatrix
from dpfast.rows import row_lengths
from dpfast.sums import as_vector

# Rows that are as long as the bound but for rounding are left as they are.
_ROUNDED = 1e-9
# Entries of rows that predictions copy at once: they stay in cache.
_COPIED_ENTRIES = 2**17
# Rows that are taken for one where ends of columns are looked for.
_TOGETHER = 64
_LARGEST = float(np.finfo(np.float64).max)


class Cut(NamedTuple):
    """How rows to predict for are cut: to a length, and columns to their ranges, if known."""

    length: float
    ranges: NDArray[np.float64] | None

    def scaled(self, factor: float) -> Cut:
        """The same of rows that are multiplied by a factor."""
        ranges = None if self.ranges is None else self.ranges * factor
        return Cut(self.length * factor, ranges)


def affine(X: Any, coef: NDArray[np.float64], intercept: Any, cut: Cut) -> Any:
    """``X @ coef + intercept`` of rows that are cut as a fit cuts them.

    Beyond float64 it is the largest number, with the right sign.
    """
    with np.errstate(all="ignore"):
        margins = _product(X, coef, cut) + intercept
        beyond = ~np.isfinite(margins)
        if beyond.any():
            product = _product(X * 2.0**-600, coef, cut.scaled(2.0**-600)) * 2.0**600
            margins = np.where(beyond, np.clip(product + intercept, -_LARGEST, _LARGEST), margins)
    return margins


def affine_of_block(block: Block, coef: NDArray[np.float64], intercept: Any, cut: Cut) -> Any:
    """The same for one block."""
    return affine(block.X, coef, intercept, cut)


def compared(
    X: Any, y: Any, sample_weight: Any, n_rows: int, *, labels: bool
) -> tuple[NDArray[Any], Vector | None]:
    """Targets or labels, and weights, to compare with the predictions for so many rows."""
    if y is None:
        if sample_weight is not None or not (isinstance(X, Executor) and X.targeted):
            raise TypeError(
                "y must be given to score, but for blocks of rows, whose source has it; got None."
            )
        y, sample_weight = _targets_of(X)
    if is_dask(y, sample_weight):
        y, sample_weight = (
            None if part is None else np.asarray(part) for part in (y, sample_weight)
        )
    found = vector_in("y", y, labels=labels)
    if len(found) != n_rows:
        raise ValueError(
            f"y must have {n_rows} entries, as X has rows; got {len(found)}. Give X and y of the "
            "same rows."
        )
    if sample_weight is None:
        return found, None
    weight = as_vector("sample_weight", sample_weight, n_rows)
    most = float(weight.max(initial=0.0))
    if weight.min(initial=0.0) < 0.0 or most == 0.0:
        raise ValueError(
            "sample_weight must hold numbers >= 0, one of them at least > 0; got others."
        )
    return found, np.ldexp(weight, -int(np.frexp(most)[1]))  # their sum stays finite


def _targets_of(source: Executor) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The targets of all rows, and their weights if they have any."""
    targets, weights = zip(*source.map(attrgetter("y", "weight")), strict=True)
    return np.concatenate(targets), np.concatenate(weights) if source.weighted else None


def _times(X: Any, coef: NDArray[np.float64]) -> Any:
    """``X @ coef``, for which NumPy copies rows that are not float64: some of them at a time."""
    if not isinstance(X, np.ndarray) or X.dtype == np.float64:
        return X @ coef
    rows = max(64, _COPIED_ENTRIES // max(1, X.shape[1]))
    starts = range(0, max(1, len(X)), rows)
    return np.concatenate([X[start : start + rows] @ coef for start in starts])


def _product(X: Any, coef: NDArray[np.float64], cut: Cut) -> Any:
    """``X @ coef`` of cut rows; NaN where a length is beyond float64."""
    lengths = None if cut.length == math.inf else row_lengths(X)
    product = _shortened(X, coef, lengths, cut.length)
    if cut.ranges is None:
        return product
    columns = np.flatnonzero(np.isfinite(cut.ranges).all(axis=0))
    if not len(columns):  # a model file may hold no range at all
        return product
    low, high = cut.ranges[:, columns]
    others = coef.copy()
    others[columns] = 0.0
    count = max(64, _COPIED_ENTRIES // (4 * len(columns)))
    for start in range(0, X.shape[0], count):
        part = slice(start, start + count)
        entries = _dense(X[part], columns)
        if lengths is not None and lengths[part].max() > cut.length:
            entries = entries * np.minimum(1.0, cut.length / lengths[part])[:, None]
        lowest, highest = _ends(entries)
        if np.all(lowest >= low) and np.all(highest <= high):
            continue
        far = np.flatnonzero(((entries < low) | (entries > high)).any(axis=1))
        of_far = None if lengths is None else lengths[part][far]
        rest = _shortened(_apart(X[part][far]), others, of_far, cut.length)
        product[start + far] = rest + _apart(_drawn(entries[far], low, high)) @ coef[columns]
    return product


def _apart(rows: Any) -> Any:
    """The same rows, stored so that the product of each is the same whichever are beside it.

    Which ones are far is said by the rows, and in dense products last bits follow from where a row
    is among them; what is predicted for a row, and a private score of that, must not.
    """
    return rows if isinstance(rows, CodedMatrix) else scipy.sparse.csr_array(rows)


def _drawn(
    entries: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Entries of which those ``r > 1`` times as far from the middle as its ends are ``1 / r²``.

    The farther away an entry is the less is known of what it means: 999 is a code.
    """
    middle = 0.5 * low + 0.5 * high
    far = np.maximum(1.0, np.abs(entries - middle) / (0.5 * high - 0.5 * low))
    drawn = middle + (entries - middle) / far / far / far
    return np.where((entries < low) | (entries > high), drawn, entries)


def _ends(entries: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The columns' lowest and highest entries, faster than NumPy finds them along short rows."""
    left, d = len(entries) % _TOGETHER, entries.shape[1]
    long = entries[left:].reshape(-1, _TOGETHER * d)
    if len(long) > 1:
        ends = (end.reshape(-1, d) for end in (long.min(axis=0), long.max(axis=0)))
        entries = np.concatenate([entries[:left], *ends])
    return entries.min(axis=0), entries.max(axis=0)


def _dense(rows: Any, columns: NDArray[np.intp]) -> NDArray[np.float64]:
    """Some columns of rows of any storage."""
    if isinstance(rows, CodedMatrix):
        rows = rows.tocsr()
    found = rows if len(columns) == rows.shape[1] else rows[:, columns]
    return np.asarray(found.toarray() if scipy.sparse.issparse(found) else found, dtype=np.float64)


def _shortened(
    X: Any, coef: NDArray[np.float64], lengths: NDArray[np.float64] | None, bound: float
) -> Any:
    """``X @ coef`` of rows of these lengths that are cut to this one."""
    product = _times(X, coef)
    if lengths is None:
        return product
    long = lengths > bound * (1.0 + _ROUNDED)
    if not long.any():
        return product
    lengths = np.where(np.isinf(lengths), np.nan, lengths)
    return np.where(long, product.T / lengths * bound, product.T).T
