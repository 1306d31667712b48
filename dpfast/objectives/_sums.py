"""Sums over a problem's rows with factors that an objective brings along."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast import _kernels
from dpfast._typing import Vector
from dpfast.sums import RowAccess

# Entries of the block of dense rows that BLAS multiplies at a time.
_GRAM_ENTRIES = 2**18


def row_sum(problem: RowAccess, factors: Vector) -> Vector:
    """``Σ_i s_i x̃_i`` in one read of X; ``s_i`` may have any sign."""

    def work(kernel: Any, first: int, last: int, start: int, stop: int) -> Vector:
        out = np.empty(problem.shape.dim)
        _kernels.row_sum(kernel, first, last, factors[start:stop], out)
        return out

    total = np.zeros(problem.shape.dim)
    for part in problem.map_chunks(work):
        total += part
    return total


def weighted_gram(problem: RowAccess, factors: Vector) -> NDArray[np.float64]:
    """``Σ_i h_i x̃_i x̃_i^T`` for ``h_i >= 0``, in one read of X."""
    dim = problem.shape.dim
    total = np.zeros((dim, dim))
    step = max(64, _GRAM_ENTRIES // dim)
    buffer = np.empty((0 if problem.sparse else min(step, problem.shape.n_samples), dim))

    for kernel, first, last, start, stop in problem.chunks():
        if problem.sparse:
            _kernels.weighted_gram_block(kernel, first, last, factors[start:stop], total)
            continue
        for begin in range(first, last, step):
            end = min(begin + step, last)
            weight = factors[start + begin - first : start + end - first]
            _kernels.weighted_gram_block(kernel, begin, end, weight, buffer)
            part = buffer[: end - begin]
            total += part.T @ part
    if not np.all(np.isfinite(total)):
        raise FloatingPointError("Hessian: a result is too large for float64.")
    return total
