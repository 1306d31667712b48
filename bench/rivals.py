"""What single kernels are compared with; each function imports its library itself.

These are parts of algorithms, not whole fits: whole fits are in :mod:`bench.competitors`.  All are
for logistic regression with an intercept of 1, the last weight.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

_TORCH_ROWS = 4096  # of one tensor of per-sample gradients


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


def loss_sums(margins: Iterator[Vector], y: Vector, loss_clip: float) -> Vector:
    """Sum of the clipped losses of every vector of margins."""
    sums = []
    for margin in margins:
        margin *= y
        loss = np.log1p(np.exp(-np.abs(margin)))
        loss -= np.minimum(margin, 0.0)
        sums.append(np.minimum(loss, loss_clip, out=loss).sum())
    return np.array(sums)


def line_search_from_rows(
    X: Any, y: Vector, w: Vector, direction: Vector, steps: Vector, loss_clip: float
) -> Vector:
    """A product with X for every step size."""
    points = (w - step * direction for step in steps)
    return loss_sums((_margins(X, point) for point in points), y, loss_clip)


def line_search_from_margins(
    X: Any, y: Vector, w: Vector, direction: Vector, steps: Vector, loss_clip: float
) -> Vector:
    """Two products with X, then vectors only."""
    margin, direction_margin = _margins(X, w), _margins(X, direction)
    return loss_sums((margin - step * direction_margin for step in steps), y, loss_clip)


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


# ---- PyTorch ------------------------------------------------------------------------------------


def torch_missing() -> str | None:
    try:
        import torch  # noqa: F401
    except ImportError:
        return "torch is not installed"
    return None


@contextmanager
def torch_on_one_thread() -> Iterator[None]:
    """Hold PyTorch to one thread, where it is installed."""
    if torch_missing() is not None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def per_sample_gradients(
    X: NDArray[Any], y: Vector, w: Vector, clip_norm: float, loss_clip: float
) -> Callable[[], tuple[Vector, float]]:
    """The clipped sums as per-sample-gradient libraries take them: every gradient is stored.

    A tensor of gradients for each batch of 4096 rows, its norms, the factors that clip, and the
    sum.  The derivatives come from a formula, not from automatic differentiation, which would only
    be slower.
    """
    import torch

    rows, labels = torch.from_numpy(X), torch.from_numpy(y).to(torch.from_numpy(X).dtype)
    weights = torch.from_numpy(w).to(rows.dtype)
    n, d = X.shape

    def run() -> tuple[Vector, float]:
        total = torch.zeros(d + 1, dtype=rows.dtype)
        loss_sum = 0.0
        for start in range(0, n, _TORCH_ROWS):
            x, t = rows[start : start + _TORCH_ROWS], labels[start : start + _TORCH_ROWS]
            margin = t * torch.addmv(weights[-1], x, weights[:-1])
            loss_sum += torch.nn.functional.softplus(-margin).clamp(max=loss_clip).sum().item()
            s = -t * torch.sigmoid(-margin)
            gradients, intercepts = s[:, None] * x, s
            norms = torch.hypot(torch.linalg.vector_norm(gradients, dim=1), intercepts)
            factors = (clip_norm / norms.clamp(min=1e-12)).clamp(max=1.0)
            total[:-1] += factors @ gradients
            total[-1] += factors @ intercepts
        return total.double().numpy(), loss_sum

    return torch.no_grad()(run)


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
