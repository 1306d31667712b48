"""About how long a fit takes, from public quantities and from speeds that were measured once.

The speeds are those of dense float64 rows in memory, one thread and one core of a server of 2021
(Xeon at 2.5 GHz, AVX2): what is predicted is the work, to a factor of two on machines of its kind.
Reading files and validation come on top; sparse rows and threads take less.
"""

from __future__ import annotations

from dpfast.shape import ProblemShape

_NANO = 1e-9
#: Full gradients and Hessians that Newton's method takes to a tiny tolerance, and full gradients
#: of L-BFGS.
NEWTON, NEWTON_WITH_LINEAR_TERM, LBFGS = (6.0, 1.2), (8.0, 1.5), 60.0
#: A noisy release: ledger, grid, checks; and one entry of its exact noise.
_RELEASE, _NOISE = 7e-4, 55.0 * _NANO
# Calibrating mechanisms and other preparations.
_START = 5e-3


def gradient(shape: ProblemShape) -> float:
    """One clipped gradient."""
    return _NANO * shape.n_samples * (5.0 + 0.95 * shape.dim)


def hessian(shape: ProblemShape) -> float:
    """One Hessian or Gram matrix, by BLAS."""
    return _NANO * shape.n_samples * (20.0 + 3.0 * shape.dim + 0.04 * shape.dim**2)


def preparation(shape: ProblemShape) -> float:
    """What every fit does: checks of the rows, their norms."""
    return _START + _NANO * shape.n_samples * (15.0 + 0.95 * shape.dim)


def release(entries: int) -> float:
    """One noisy release of so many entries, its data access aside."""
    return _RELEASE + _NOISE * entries


def minimization(
    shape: ProblemShape, optimizer: str, counts: tuple[float, float] = NEWTON
) -> float | None:
    """A minimizer to a tiny tolerance; None for optimizers whose passes depend on the data."""
    if optimizer == "newton":
        gradients, hessians = counts
        return gradients * gradient(shape) + hessians * hessian(shape)
    return LBFGS * gradient(shape) if optimizer == "lbfgs" else None


def whole_fit(
    shape: ProblemShape, optimizer: str, counts: tuple[float, float] = NEWTON
) -> dict[str, float]:
    """An entry of a plan's expectations for a fit that minimizes once; empty if unknown."""
    found = minimization(shape, optimizer, counts)
    if found is None:
        return {}
    return {"seconds": preparation(shape) + found + release(shape.dim)}


def whitening(shape: ProblemShape, rounds: int, correlation: bool) -> float:
    """Column moments, a correlation matrix and the rows' lengths, by NumPy in blocks."""
    n, d = shape.n_samples, shape.n_features
    moments = 60.0 + (5.5 if d < 100 else 12.0) * d
    lengths = 60.0 + 4.5 * d + 0.042 * d**2
    gram = (100.0 + 7.0 * d + 0.098 * d**2) if correlation else 0.0
    # A decomposition of the d x d transform or two, cubic in d.
    decompositions = (1.2 if correlation else 0.8) * d**3
    return _NANO * (n * (rounds * moments + gram + lengths) + decompositions)
