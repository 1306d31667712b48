"""The same algorithm as dpfast's default in plain NumPy, written as well as NumPy allows.

BLAS products, row norms computed once, row blocks that stay in cache between the two products, and
scratch arrays that are written in place: no temporary of the size of X, and none of n numbers
beyond the result.  It is the yardstick for what compiled kernels buy, and an independent check of
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from bench.competitors._contract import Task

NAME = "NumPy"
GUARANTEE = (
    "(epsilon, delta)-DP under replace_one in real arithmetic only: floating-point noise is not "
    "safe"
)
RELATION, DELTA = "replace_one", True

Rows = NDArray[np.float64]
Vector = NDArray[np.float64]

# Numbers of X in one block, 1 MB: the fastest of 128 KB to all at once, within the L2 cache.
_BLOCK_NUMBERS = 2**17


def missing() -> str | None:
    return None


class NumpyProblem:
    """Sums over the rows of a logistic problem with an intercept of 1.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        -1 or +1.
    data_norm : float
        Longer rows are scaled down to this norm.
    """

    def __init__(self, X: Rows, y: Vector, data_norm: float) -> None:
        self.X, self.y = X, y
        self.n_samples, self.n_features = X.shape
        self.row_norm = math.hypot(data_norm, 1.0)
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
        if not math.isfinite(norms.sum()):
            raise ValueError("X must be finite.")
        self.row_scale = None
        if np.any(norms > data_norm):
            self.row_scale = data_norm / np.maximum(norms, data_norm)
            norms = np.minimum(norms, data_norm)
        self.inverse_norm = 1.0 / np.hypot(norms, 1.0)
        self._rows = min(self.n_samples, max(64, _BLOCK_NUMBERS // self.n_features))
        self._scratch = np.empty((4, self._rows))

    def _blocks(self) -> Iterator[slice]:
        for start in range(0, self.n_samples, self._rows):
            yield slice(start, min(start + self._rows, self.n_samples))

    def _margins_block(self, rows: slice, w: Vector, out: Vector) -> Vector:
        np.dot(self.X[rows], w[:-1], out=out)
        if self.row_scale is not None:
            out *= self.row_scale[rows]
        out += w[-1]
        return out

    def margins(self, w: Vector) -> Vector:
        """``<x_i, w> + b`` of every row."""
        out = np.empty(self.n_samples)
        for rows in self._blocks():
            self._margins_block(rows, w, out[rows])
        return out

    def _exponentials(self, rows: slice, w: Vector) -> Rows:
        """Scratch of a block; its rows 0 and 1 hold ``y z`` and ``exp(-|y z|)``."""
        scratch = self._scratch[:, : rows.stop - rows.start]
        m, e = scratch[:2]
        self._margins_block(rows, w, m)
        m *= self.y[rows]
        np.abs(m, out=e)
        np.negative(e, out=e)
        np.exp(e, out=e)
        return scratch

    def _losses_block(self, rows: slice, w: Vector, loss_clip: float) -> tuple[float, Rows]:
        """Clipped loss sum of a block, and its scratch, of which rows 2 and 3 are free again."""
        scratch = self._exponentials(rows, w)
        m, e, part, loss = scratch
        np.log1p(e, out=loss)
        np.minimum(m, 0.0, out=part)
        loss -= part
        if loss_clip < math.inf:
            np.minimum(loss, loss_clip, out=loss)
        return float(loss.sum()), scratch

    def objective(self, w: Vector, loss_clip: float = math.inf) -> float:
        """``Σ min(loss_i, loss_clip)``."""
        return math.fsum(self._losses_block(rows, w, loss_clip)[0] for rows in self._blocks())

    def clipped_gradient(
        self, w: Vector, clip_norm: float = math.inf, loss_clip: float = math.inf
    ) -> tuple[Vector, float]:
        """``Σ clip(gradient_i)`` and ``Σ min(loss_i, loss_clip)`` in one pass.

        A row's gradient is a number times the row, so clipping clamps that number to
        ``± clip_norm / ‖x_i‖``.
        """
        gradient, loss_sum = np.zeros(self.n_features + 1), 0.0
        for rows in self._blocks():
            loss, (m, e, s, limit) = self._losses_block(rows, w, loss_clip)
            loss_sum += loss
            # s = -y / (1 + exp(m)) from e = exp(-|m|), without overflow.
            np.copyto(s, e)
            s[m < 0.0] = 1.0
            e += 1.0
            s /= e
            s *= self.y[rows]
            np.negative(s, out=s)
            if clip_norm < math.inf:
                np.multiply(self.inverse_norm[rows], clip_norm, out=limit)
                np.minimum(s, limit, out=s)
                np.negative(limit, out=limit)
                np.maximum(s, limit, out=s)
            gradient[-1] += s.sum()
            if self.row_scale is not None:
                s *= self.row_scale[rows]
            gradient[:-1] += s @ self.X[rows]
        return gradient, loss_sum

    def value_and_gradient(self, w: Vector, alpha: float) -> tuple[float, Vector]:
        """Mean loss plus ridge, and its gradient."""
        gradient, loss_sum = self.clipped_gradient(w)
        gradient /= self.n_samples
        gradient += alpha * w
        return loss_sum / self.n_samples + 0.5 * alpha * float(w @ w), gradient

    def hessian(self, w: Vector, alpha: float) -> Rows:
        """Second derivative of mean loss plus ridge."""
        dim = self.n_features + 1
        weighted = np.empty((self._rows, dim))
        total = np.zeros((dim, dim))
        for rows in self._blocks():
            _, e, root, _ = self._exponentials(rows, w)
            # sqrt(e) / (1 + e) is the root of the loss's second derivative.
            np.sqrt(e, out=root)
            e += 1.0
            root /= e
            block = weighted[: len(root)]
            block[:, -1] = root
            if self.row_scale is not None:
                root *= self.row_scale[rows]
            np.multiply(self.X[rows], root[:, np.newaxis], out=block[:, :-1])
            total += block.T @ block
        total /= self.n_samples
        total[np.diag_indices(dim)] += alpha
        return total


def newton(problem: NumpyProblem, alpha: float, tolerance: float, max_passes: int = 200) -> Vector:
    """Minimizer to a gradient norm of `tolerance`: damped Newton, Hessians kept while they serve.

    Raises
    ------
    RuntimeError
        If the tolerance is not reached.
    """
    w = np.zeros(problem.n_features + 1)
    value, gradient = problem.value_and_gradient(w, alpha)
    norm, factor = float(np.linalg.norm(gradient)), None
    for _ in range(max_passes):
        if norm <= tolerance:
            return w
        if factor is None:
            factor = scipy.linalg.cho_factor(problem.hessian(w, alpha), lower=True)
        direction = scipy.linalg.cho_solve(factor, -gradient)
        slope, step = float(gradient @ direction), 1.0
        while step > 1e-10:
            candidate = w + step * direction
            new_value, new_gradient = problem.value_and_gradient(candidate, alpha)
            new_norm = float(np.linalg.norm(new_gradient))
            flat = new_value <= value * (1.0 + 1e-14) and new_norm < norm
            if new_value <= value + 1e-4 * step * slope or flat:
                break
            step *= 0.5
        else:
            break
        if step < 1.0 or new_norm > 0.2 * norm:
            factor = None
        w, value, gradient, norm = candidate, new_value, new_gradient, new_norm
    raise RuntimeError(f"gradient norm {norm:.3g} did not reach {tolerance:.3g}.")


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest sensitivity over standard deviation of an (ε, δ)-private Gaussian release.

    Balle & Wang 2018, Theorem 8: ``δ = Φ(µ/2 - ε/µ) - e^ε Φ(-µ/2 - ε/µ)``.
    """

    def excess(mu: float) -> float:
        tail = math.exp(epsilon + log_ndtr(-0.5 * mu - epsilon / mu))
        return float(ndtr(0.5 * mu - epsilon / mu) - tail) - delta

    return float(brentq(excess, 1e-6, 1e3, xtol=1e-12, rtol=1e-12))


def sensitivity(problem: NumpyProblem, alpha: float) -> float:
    """Distance between neighbors' certified minimizers: ``2L/(αn)``, widened by the tolerance."""
    return (2.0 * problem.row_norm / problem.n_samples + 2.0 * _tolerance(problem)) / alpha


def _tolerance(problem: NumpyProblem) -> float:
    """Gradient norm to reach: 1e-4 of what one record can change."""
    return 1e-4 * problem.row_norm / problem.n_samples


def _ridge(task: Task) -> float:
    if task.alpha is None:
        raise ValueError("alpha must be given: this competitor has no rule for it.")
    return task.alpha


def fit(task: Task) -> Vector:
    alpha = _ridge(task)
    problem = NumpyProblem(task.X, task.y, task.data_norm)
    w = newton(problem, alpha, _tolerance(problem))
    stddev = sensitivity(problem, alpha) / gaussian_mu(task.epsilon, task.delta)
    return w + np.random.default_rng(task.seed).normal(0.0, stddev, w.shape)


def minimize(task: Task) -> Vector:
    problem = NumpyProblem(task.X, task.y, task.data_norm)
    return newton(problem, _ridge(task), _tolerance(problem))
