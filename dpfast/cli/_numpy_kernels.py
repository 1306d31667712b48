"""The passes over the rows in plain NumPy, under the names and signatures of the native ones.

Inside :func:`in_numpy` every solver runs as it is, with the same plans, noise and batches, but
reads the rows through NumPy: the yardstick for what compiled kernels buy, and an independent check
of them.  It is written as well as NumPy allows: BLAS products, blocks of rows that stay in cache
between the two products, scratch arrays that are written in place, no temporary of the size of X.
Logistic and squared loss, dense rows without weights.

A gradient's kernel also sums the losses, which costs it next to nothing and NumPy a third of the
pass.  Here they are computed only for who reads them, and are NaN for all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from dpfast import _kernels
from dpfast._typing import Vector
from dpfast.objectives import Erm
from dpfast.sums import RowSums

Rows = NDArray[np.float64]

# Numbers of X in one block, 1 MB: the fastest of 128 KB to all at once, within the L2 cache.
_BLOCK_NUMBERS = 2**17
# And of a copy of them on which several functions are taken.
_PIECE_NUMBERS = 2**15
_NAMES = {entry["id"]: name for name, entry in _kernels.loss_table().items()}
_NativeSpec = _kernels.LossSpec
# How many callers wait for the sum of the losses beside a gradient.
_readers = 0


class NumpyLoss:
    """A loss as the kernels take it: values and derivatives of a block of margins, in place."""

    def __init__(self, id: int, parameter: float = 0.0, width: float = 0.0) -> None:
        self._native = _NativeSpec(id, parameter, width)
        self._name = _NAMES[id]

    def constants(self) -> tuple[float, float, float]:
        return self._native.constants()

    def target_range(self) -> tuple[float, float]:
        return self._native.target_range()

    def points(self, margin: Vector, target: Vector) -> tuple[Vector, Vector, Vector]:
        """Value, first and second derivative; fresh arrays."""
        value, slope, curvature = (np.empty_like(margin) for _ in range(3))
        scratch = np.empty((3, len(margin)))
        self.values(margin, target, scratch, value)
        self.slopes(margin, target, scratch, slope)
        self.curvatures(margin, target, scratch, curvature)
        return value, slope, curvature

    def _exponentials(self, z: Vector, y: Vector, scratch: Rows) -> tuple[Vector, Vector]:
        """``m = y z`` and ``exp(-|m|)``."""
        m, e = scratch[:2]
        np.multiply(z, y, out=m)
        np.abs(m, out=e)
        np.negative(e, out=e)
        np.exp(e, out=e)
        return m, e

    @staticmethod
    def _logistic_slopes(m: Vector, e: Vector, y: Vector, out: Vector) -> None:
        """``-y / (1 + exp(m))`` from ``e = exp(-|m|)``, which is lost, without overflow."""
        np.copyto(out, e)
        out[m < 0.0] = 1.0
        e += 1.0
        out /= e
        out *= y
        np.negative(out, out=out)

    def values(self, z: Vector, y: Vector, scratch: Rows, out: Vector) -> None:
        if self._name == "logistic":
            m, e = self._exponentials(z, y, scratch)
            np.log1p(e, out=out)
            np.minimum(m, 0.0, out=m)
            out -= m
        elif self._name == "squared":
            np.subtract(z, y, out=out)
            np.square(out, out=out)
            out *= 0.5
        else:
            raise NotImplementedError(self._name)

    def slopes(self, z: Vector, y: Vector, scratch: Rows, out: Vector) -> None:
        if self._name == "logistic":
            self._logistic_slopes(*self._exponentials(z, y, scratch), y, out)
        elif self._name == "squared":
            np.subtract(z, y, out=out)
        else:
            raise NotImplementedError(self._name)

    def values_and_slopes(
        self, z: Vector, y: Vector, scratch: Rows, value: Vector, slope: Vector
    ) -> None:
        """Both, with one exponential."""
        if self._name != "logistic":
            self.values(z, y, scratch, value)
            self.slopes(z, y, scratch, slope)
            return
        m, e = self._exponentials(z, y, scratch)
        np.log1p(e, out=value)
        self._logistic_slopes(m, e, y, slope)
        np.minimum(m, 0.0, out=m)
        value -= m

    def curvatures(self, z: Vector, y: Vector, scratch: Rows, out: Vector) -> None:
        if self._name == "logistic":
            _, e = self._exponentials(z, y, scratch)
            np.add(e, 1.0, out=out)
            np.square(out, out=out)
            np.divide(e, out, out=out)
        elif self._name == "squared":
            out[:] = 1.0
        else:
            raise NotImplementedError(self._name)


class NumpyRows:
    """Dense rows, as :class:`dpfast._kernels.DenseRows`."""

    def __init__(
        self, x: NDArray[Any], target: Vector, intercept: float = 1.0, alike: bool = False
    ) -> None:
        if alike:
            raise NotImplementedError("margins that are the same wherever a row is")
        if x.dtype != np.float64 or not x.flags.c_contiguous:
            raise _kernels.LayoutError("rows must be float64 and contiguous.")
        self.x, self.target, self.intercept = x, target, intercept
        self.n_samples, self.n_features = x.shape
        self.dim = self.n_features + (intercept != 0.0)
        self.row_scale: Vector | None = None
        self.inverse_norm: NDArray[np.float32] | None = None
        self.consistent = False
        self.block_rows = max(64, _BLOCK_NUMBERS // self.n_features)
        self._scratch = np.empty((6, min(self.n_samples, self.block_rows)))

    def set_weight(self, weight: Vector | None) -> None:
        if weight is not None:
            raise NotImplementedError("weights")

    def set_row_scale(self, row_scale: Vector | None) -> None:
        self.row_scale = row_scale

    def set_inverse_norm(
        self, inverse_norm: NDArray[np.float32] | None, consistent: bool = False
    ) -> None:
        self.inverse_norm, self.consistent = inverse_norm, consistent

    def blocks(self, start: int, stop: int) -> Iterator[slice]:
        for first in range(start, stop, self.block_rows):
            yield slice(first, min(first + self.block_rows, stop))

    def row_norms(self, start: int, stop: int, out: Vector) -> None:
        """Upper bounds, as the native ones."""
        X = self.x[start:stop]
        np.einsum("ij,ij->i", X, X, out=out)
        np.sqrt(out, out=out)
        out *= 1.0 + (0.5 * self.n_features + 8.0) * 2.0**-52
        if not math.isfinite(out.sum()):
            raise FloatingPointError("rows must be finite.")

    def _margins(self, rows: slice, w: Vector, out: Vector) -> Vector:
        np.dot(self.x[rows], w[: self.n_features], out=out)
        if self.row_scale is not None:
            out *= self.row_scale[rows]
        if self.dim > self.n_features:
            out += self.intercept * w[-1]
        return out

    def margins(self, start: int, stop: int, w: Vector, out: Vector) -> None:
        for rows in self.blocks(start, stop):
            self._margins(rows, w, out[rows.start - start : rows.stop - start])

    def gradient(
        self,
        start: int,
        stop: int,
        loss: NumpyLoss,
        w: Vector,
        clip_norm: float,
        loss_clip: float,
        out: Vector,
    ) -> float:
        out[:] = 0.0
        total = 0.0
        for rows in self.blocks(start, stop):
            scratch = self._scratch[:, : rows.stop - rows.start]
            z, value, slope = scratch[3:]
            self._margins(rows, w, z)
            if _readers:
                loss.values_and_slopes(z, self.target[rows], scratch, value, slope)
                if loss_clip < math.inf:
                    np.minimum(value, loss_clip, out=value)
                total += float(value.sum())
            else:
                loss.slopes(z, self.target[rows], scratch, slope)
            if clip_norm < math.inf:
                assert self.inverse_norm is not None
                limit = np.multiply(self.inverse_norm[rows], clip_norm, out=scratch[0])
                if self.consistent:
                    larger = np.abs(slope, out=scratch[1])
                    np.maximum(larger, 1.0 - larger, out=larger)
                    slope *= np.minimum(limit / larger, 1.0, out=larger)
                np.minimum(slope, limit, out=slope)
                np.negative(limit, out=limit)
                np.maximum(slope, limit, out=slope)
            self.add(rows, slope, out)
        return total if _readers else math.nan

    def add(self, rows: slice, s: Vector, out: Vector) -> None:
        """``out += Σ s_i x̃_i``; `s` may be written to."""
        if self.dim > self.n_features:
            out[-1] += self.intercept * s.sum()
        if self.row_scale is not None:
            s *= self.row_scale[rows]
        out[: self.n_features] += s @ self.x[rows]

    def objective(
        self, start: int, stop: int, loss: NumpyLoss, w: Vector, loss_clip: float
    ) -> float:
        total = 0.0
        for rows in self.blocks(start, stop):
            scratch = self._scratch[:, : rows.stop - rows.start]
            z, value = scratch[3:5]
            self._margins(rows, w, z)
            loss.values(z, self.target[rows], scratch, value)
            if loss_clip < math.inf:
                np.minimum(value, loss_clip, out=value)
            total += float(value.sum())
        return total

    def curvature_rows(
        self, start: int, stop: int, loss: NumpyLoss, w: Vector, out: Rows, sign: int = 1
    ) -> None:
        if sign != 1:
            raise NotImplementedError("losses that are not convex")
        for rows in self.blocks(start, stop):
            scratch = self._scratch[:, : rows.stop - rows.start]
            z, root = scratch[3:5]
            self._margins(rows, w, z)
            loss.curvatures(z, self.target[rows], scratch, root)
            np.sqrt(root, out=root)
            self.scaled(rows, root, out[rows.start - start : rows.stop - start])

    def scaled(self, rows: slice, s: Vector, out: Rows) -> None:
        """``out_i = s_i x̃_i``; `s` may be written to."""
        if self.dim > self.n_features:
            np.multiply(s, self.intercept, out=out[:, -1])
        if self.row_scale is not None:
            s *= self.row_scale[rows]
        np.multiply(self.x[rows], s[:, np.newaxis], out=out[:, : self.n_features])


def row_sum(rows: NumpyRows, start: int, stop: int, s: Vector, out: Vector) -> None:
    out[:] = 0.0
    for part in rows.blocks(start, stop):
        rows.add(part, s[part.start - start : part.stop - start].copy(), out)


def weighted_gram_block(rows: NumpyRows, start: int, stop: int, weight: Vector, out: Rows) -> None:
    for part in rows.blocks(start, stop):
        here = slice(part.start - start, part.stop - start)
        rows.scaled(part, np.sqrt(weight[here]), out[here])


class NumpyMap:
    """Stands in for ``_kernels.RowMap``."""

    def __init__(
        self,
        transform: Rows | None = None,
        *,
        factor: Vector | None = None,
        shift: Vector | None = None,
    ) -> None:
        self.transform, self.factor, self.shift = transform, factor, shift
        mapped = factor if transform is None else transform
        assert mapped is not None
        self.columns = mapped.shape[-1]

    def of(self, rows: NumpyRows, start: int, stop: int) -> Rows:
        """Rows of a range in the coordinates."""
        wide = np.empty((stop - start, rows.dim))
        rows.scaled(slice(start, stop), np.ones(stop - start), wide)
        if self.transform is not None:
            return wide @ self.transform
        wide = wide[:, : self.columns]
        wide *= self.factor
        wide += self.shift
        return wide


def coordinates(rows: NumpyRows, start: int, stop: int, to: NumpyMap, squares: Vector) -> None:
    for part in rows.blocks(start, stop):
        z = to.of(rows, part.start, part.stop)
        np.einsum("ij,ij->i", z, z, out=squares[part.start - start : part.stop - start])


def gram(
    rows: NumpyRows,
    start: int,
    stop: int,
    to: NumpyMap,
    radius: float,
    share: Vector | None,
    out: Rows,
) -> None:
    for part in rows.blocks(start, stop):
        z = to.of(rows, part.start, part.stop)
        factor = _shortening(np.einsum("ij,ij->i", z, z), z.shape[1], radius)
        if share is not None:
            factor *= np.sqrt(share[part.start - start : part.stop - start])
        z *= factor[:, np.newaxis]
        out += z.T @ z


def _shortening(squares: Vector, columns: int, radius: float) -> Vector:
    """What shortens rows to the radius, rounded down."""
    return np.asarray(radius / np.maximum(np.sqrt(squares) * (1.0 + 8e-16 * columns), radius))


def affine_rows_float(
    rows: NumpyRows, start: int, stop: int, factor: Vector, shift: Vector, out: NDArray[np.float32]
) -> None:
    out[:] = NumpyMap(factor=factor, shift=shift).of(rows, start, stop)


def column_counts(
    rows: NumpyRows,
    start: int,
    stop: int,
    slot: NDArray[np.intp],
    low: Vector,
    per_bin: Vector,
    share: Vector | None,
    out: Rows,
) -> None:
    for part in rows.blocks(start, stop):
        x = np.empty((part.stop - part.start, rows.dim))
        rows.scaled(part, np.ones(len(x)), x)
        counts = None if share is None else share[part.start - start : part.stop - start]
        for column in np.flatnonzero(slot >= 0):
            line = slot[column]
            place = np.clip((x[:, column] - low[line]) * per_bin[line], 0.0, out.shape[1] - 1.0)
            out[line] += np.bincount(place.astype(np.intp), counts, out.shape[1])


def part_sums(
    rows: NumpyRows,
    start: int,
    stop: int,
    factor: Vector,
    shift: Vector,
    radius: float,
    share: Vector | None,
    out: Rows,
) -> None:
    step = max(1, _PIECE_NUMBERS // rows.n_features)
    for first in range(start, stop, step):
        last = min(first + step, stop)
        z = NumpyMap(factor=factor, shift=shift).of(rows, first, last)
        shorter = _shortening(np.einsum("ij,ij->i", z, z), len(factor), radius)
        count = shorter if share is None else shorter * share[first - start : last - start]
        out[0] += count @ np.maximum(z, 0.0)
        out[1] += count @ np.maximum(-z, 0.0)
        if len(out) == 3:
            out[2] += (count * shorter) @ np.square(z, out=z)


def line_search(
    margin: Vector,
    direction_margin: Vector,
    target: Vector,
    weight: Vector | None,
    loss: NumpyLoss,
    loss_clip: float,
    steps: Vector,
    out: Vector,
) -> None:
    if weight is not None:
        raise NotImplementedError("weights")
    scratch = np.empty((4, len(margin)))
    z, value = np.empty((2, len(margin)))
    for k, step in enumerate(steps):
        np.multiply(direction_margin, -step, out=z)
        z += margin
        loss.values(z, target, scratch, value)
        if loss_clip < math.inf:
            np.minimum(value, loss_clip, out=value)
        out[k] = value.sum()


def private_epoch(
    rows: NumpyRows,
    loss: NumpyLoss,
    w: Vector,
    step: float | Vector,
    *,
    sampling: str,
    noise: str,
    stream: Any,
    n_steps: int,
    batch: int,
    capacity: int,
    divisor: float | None = None,
    stddev: float = 0.0,
    grid: float = 0.0,
    scale: int = 0,
    alpha: float = 0.0,
    clip_norm: float = math.inf,
    w_radius: float = math.inf,
    momentum: float = 0.0,
    velocity: Vector | None = None,
    snapshot: Vector | None = None,
    snapshot_gradient: Vector | None = None,
    average: Vector | None = None,
    average_weight: Vector | None = None,
) -> None:
    """Noisy mini-batch steps; batches and noise are those that the native epoch draws."""
    n, d = rows.n_samples, rows.n_features
    steps = np.broadcast_to(np.asarray(step, dtype=np.float64), n_steps)
    divisor = float(batch) if divisor is None else divisor
    limit_rows = min(n, capacity) if sampling == "poisson" else batch
    integers, normals = np.empty(rows.dim, dtype=np.int64), np.empty(rows.dim)
    for t in range(n_steps):
        index = _kernels.draw_batch(stream, sampling, n, batch, limit_rows)
        if noise == "discrete":
            stream.fill_discrete_gaussian(scale, integers)
        else:
            stream.fill_gaussian(normals)
        X, y = rows.x[index], rows.target[index]
        scratch, slope = np.empty((2, len(index))), np.empty(len(index))
        row_scale = 1.0 if rows.row_scale is None else rows.row_scale[index]

        def margin(v: Vector, X: Rows = X, row_scale: float | Vector = row_scale) -> Vector:
            z = X @ v[:d]
            z *= row_scale
            if rows.dim > d:
                z += rows.intercept * v[-1]
            return z

        loss.slopes(margin(w), y, scratch, slope)
        if snapshot is not None:
            before = np.empty(len(index))
            loss.slopes(margin(snapshot), y, scratch, before)
            slope -= before
        if clip_norm < math.inf:
            assert rows.inverse_norm is not None
            limit = clip_norm * rows.inverse_norm[index].astype(np.float64)
            np.clip(slope, -limit, limit, out=slope)
        total = np.empty(rows.dim)
        if rows.dim > d:
            total[-1] = rows.intercept * slope.sum()
        slope *= row_scale
        total[:d] = slope @ X
        if noise == "discrete":
            total = (np.rint(total / grid) + integers) * grid
        else:
            total = np.rint((total + stddev * normals) / grid) * grid
        total /= divisor
        if snapshot_gradient is not None:
            total += snapshot_gradient
        if velocity is not None:
            velocity *= momentum
            velocity += total
            total = velocity
        w *= 1.0 - steps[t] * alpha
        w -= steps[t] * total
        norm = float(np.linalg.norm(w))
        if norm > w_radius:
            w *= w_radius / norm
        if average is not None:
            average += (1.0 if average_weight is None else average_weight[t]) * w


def reads_losses(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, whose caller reads the sum of the losses, too."""

    @wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        global _readers
        _readers += 1
        try:
            return method(*arguments, **options)
        finally:
            _readers -= 1

    return call


@contextmanager
def in_numpy() -> Iterator[None]:
    """Problems that are made here have NumPy's rows, and solvers use them.

    For one fit at a time: what is replaced is replaced for all threads.
    """
    with (
        mock.patch.multiple(
            _kernels,
            DenseRows=NumpyRows,
            LossSpec=NumpyLoss,
            affine_rows_float=affine_rows_float,
            RowMap=NumpyMap,
            column_counts=column_counts,
            coordinates=coordinates,
            gram=gram,
            line_search=line_search,
            part_sums=part_sums,
            private_epoch=private_epoch,
            row_sum=row_sum,
            weighted_gram_block=weighted_gram_block,
        ),
        mock.patch.object(RowSums, "value_and_gradient", reads_losses(RowSums.value_and_gradient)),
        mock.patch.object(Erm, "snapshot", reads_losses(Erm.snapshot)),
    ):
        yield
