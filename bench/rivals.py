"""What single kernels are compared with, beside the rows' passes in NumPy that dpfast has.

These are parts of algorithms, not whole fits: whole fits are in :mod:`bench.competitors`.  All are
for logistic regression with an intercept of 1, the last weight.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# ---- whole arrays: NumPy, and SciPy for sparse X ------------------------------------------------


def inverse_norms(X: Any) -> Vector:
    """``1 / ‖(x_i, 1)‖``; X is an array or a SciPy CSR matrix."""
    if isinstance(X, np.ndarray):
        squares = np.einsum("ij,ij->i", X, X)
    else:
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return 1.0 / np.sqrt(squares + 1.0)


def clipped_gradient(
    X: Any, y: Vector, inverse_norm: Vector, w: Vector, clip_norm: float, loss_clip: float
) -> tuple[Vector, float]:
    """Sums of clipped gradients and clipped losses: two products with X, vectors in between."""
    margin, e = _exponentials(X, y, w)
    loss = np.log1p(e)
    loss -= np.minimum(margin, 0.0)
    loss_sum = np.minimum(loss, loss_clip, out=loss).sum()
    s = np.where(margin < 0.0, 1.0, e)  # -y / (1 + exp(margin)), without overflow
    e += 1.0
    s /= e
    s *= -y
    limit = clip_norm * inverse_norm
    np.clip(s, -limit, limit, out=s)
    return np.append(X.T @ s, s.sum()), float(loss_sum)


def line_search(
    X: Any, y: Vector, w: Vector, direction: Vector, steps: Vector, loss_clip: float
) -> Vector:
    """Sums of clipped losses, with a product with X for every step size."""
    sums = []
    for step in steps:
        margin, e = _exponentials(X, y, w - step * direction)
        loss = np.log1p(e)
        loss -= np.minimum(margin, 0.0)
        sums.append(np.minimum(loss, loss_clip, out=loss).sum())
    return np.array(sums)


def _margins(X: Any, w: Vector) -> Vector:
    margin = X @ w[:-1]
    margin += w[-1]
    return margin


def _exponentials(X: Any, y: Vector, w: Vector) -> tuple[Vector, Vector]:
    margin = _margins(X, w)
    margin *= y
    e = np.abs(margin)
    np.negative(e, out=e)
    return margin, np.exp(e, out=e)


def categorical(rows: int, *, ones: bool) -> tuple[scipy.sparse.csr_array, Vector]:
    """One of some categories in each of 14 columns; values of magnitude at most 1."""
    rng = np.random.default_rng(2)
    categories = np.array([len(part) for part in np.array_split(np.arange(120), 14)])
    first = np.cumsum(categories) - categories
    indices = (first + rng.integers(0, categories, (rows, 14))).astype(np.int32).ravel()
    values = np.ones(14 * rows) if ones else rng.uniform(-1.0, 1.0, 14 * rows)
    indptr = np.arange(0, 14 * rows + 1, 14, dtype=np.int32)
    y = np.where(rng.random(rows) < 0.3, 1.0, -1.0)
    return scipy.sparse.csr_array((values, indices, indptr), shape=(rows, 120)), y


# ---- scikit-learn's SAGA ------------------------------------------------------------------------


def saga_missing() -> str | None:
    try:
        from sklearn import __version__
        from sklearn.linear_model._sag import sag_solver  # noqa: F401
    except ImportError:
        return "scikit-learn, or its function sag_solver, is not there"
    # Earlier ones may take labels -1 and +1, and both versions run on wrong labels without a word.
    if tuple(map(int, __version__.split(".")[:2])) < (1, 9):
        return f"scikit-learn is {__version__}, older than 1.9"
    return None


def saga(X: NDArray[Any], y: Vector, alpha: float, epochs: int) -> Vector:
    """Weights after so many epochs of n steps, without the validation that `fit` would add."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model._sag import sag_solver

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = sag_solver(
            X,
            0.5 * (y + 1.0),
            loss="log",
            alpha=alpha * len(y),
            max_iter=epochs,
            tol=0.0,
            random_state=0,
            check_input=False,
            max_squared_sum=1.0,
            warm_start_mem={"coef": np.zeros((X.shape[1] + 1, 1))},
            is_saga=True,
        )
    coefficients: Vector = solution[2]["coef"][:, 0]
    return coefficients


# ---- noise --------------------------------------------------------------------------------------


def l2_laplace(rng: np.random.Generator, d: int, scale: float, n: int) -> Vector:
    z: Vector = rng.standard_normal((n, d))
    z *= (rng.gamma(d, scale, n) / np.sqrt(np.einsum("ij,ij->i", z, z)))[:, None]
    return z
