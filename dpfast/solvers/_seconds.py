"""About how long a fit takes, and how much memory, from public quantities and what was measured.

The speeds are those of dense float64 rows in memory, one thread and one core of a server of 2021
(Xeon at 2.5 GHz, AVX2): what is predicted is the work, to a factor of two on machines of its kind.
Reading files and validation come on top; sparse rows and threads take less.  Memory is what a fit
takes beside the rows.
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
#: Matrices of dim x dim numbers that are held at once: by whitened descent, by Newton's method.
WHITENING_MATRICES, _NEWTON_MATRICES = 10.0, 5.0
# Numbers held for each row, and what pieces of rows and other copies take at most.
_NUMBERS_A_ROW, _PIECES_MB = 10.0, 20.0


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
    """Entries of a plan's expectations for a fit that minimizes once; empty if unknown."""
    found = minimization(shape, optimizer, counts)
    if found is None:
        return {}
    return {
        "seconds": preparation(shape) + found + release(shape.dim),
        "megabytes": megabytes(shape, _NEWTON_MATRICES if optimizer == "newton" else 0.0),
    }


def megabytes(shape: ProblemShape, matrices: float) -> float:
    """Memory at most that a fit to rows in memory takes, with so many dim x dim matrices."""
    # Some dozens of vectors, of an optimizer's history for example.
    numbers = matrices * shape.dim**2 + 50.0 * shape.dim + _NUMBERS_A_ROW * shape.n_samples
    return 8e-6 * numbers + _PIECES_MB


def column_ranges(shape: ProblemShape, rounds: int) -> float:
    """Counts of the entries in bins, and one pass of the rows' lengths."""
    n, d = shape.n_samples, shape.n_features
    return _NANO * n * (rounds * (30.0 + 2.4 * d) + 30.0 + 4.0 * d) if rounds > 0 else 0.0


def whitening(shape: ProblemShape, rounds: int, correlations: int) -> float:
    """Column moments, correlation matrices and the rows' lengths, over pieces that are in cache."""
    n, d = shape.n_samples, shape.n_features
    moments = 30.0 + 2.7 * d
    lengths = 30.0 + 4.0 * d + 0.022 * d**2
    gram = (40.0 + 2.0 * d + 0.04 * d**2) * correlations
    # A decomposition of the d x d transform or two, cubic in d.
    decompositions = (0.8 + 0.4 * correlations) * d**3
    return _NANO * (n * (rounds * moments + gram + lengths) + decompositions)
