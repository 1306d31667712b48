"""Kuru et al. 2020: bounds of the heavy ball that no plan rests on.

See :mod:`dpfast.theory.kuru2020`, which has the notation and where it departs from the paper.  The
rate (26) is that of Nesterov's method.  The heavy ball's roots are those of
``z² - (1 + β - αλ) z + β = 0``, as in the paper's own Appendix B.3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._validation import check_integer

Vector = NDArray[np.float64]


def heavy_ball_rate(step: float, momentum: float, curvatures: ArrayLike) -> float:
    """``ρ``: the largest root of ``z² - (1 + β - αλ) z + β`` over the curvatures λ.

    The amplitude shrinks by ρ an iteration, the error by ρ².  The largest is at an end of
    ``[μ, L]``, so two curvatures are enough.
    """
    return _largest_root(1.0 + momentum - step * _vector(curvatures), momentum)


def nesterov_rate(step: float, momentum: float, curvatures: ArrayLike) -> float:
    """The rate (26), which is that of Nesterov's method.

    The largest root of ``z² - (1 + β)(1 - αλ) z + β (1 - αλ)`` over the curvatures λ.
    """
    left = 1.0 - step * _vector(curvatures)
    return _largest_root((1.0 + momentum) * left, momentum * left)


def _largest_root(total: Vector, product: Vector | float) -> float:
    spread = np.sqrt(np.asarray(total * total - 4.0 * product, dtype=complex))
    return float(np.max(np.maximum(np.abs(total + spread), np.abs(total - spread))) / 2.0)


def heavy_ball_noise(step: float, momentum: float, curvatures: ArrayLike) -> Vector:
    """``E z²`` per unit of noise variance, in the long run: ``m(α, β)`` of Theorem 3.5.

    The second-order recursion ``z_{t+1} = (1 + β - αλ) z_t - β z_{t-1} - α w_t`` has the stationary
    variance ``α (1 + β) / ((1 - β) λ (2 + 2β - αλ))`` for every curvature λ.
    """
    curvature = _vector(curvatures)
    return np.asarray(
        step * (1.0 + momentum)
        / ((1.0 - momentum) * curvature * (2.0 + 2.0 * momentum - step * curvature))
    )  # fmt: skip


def heavy_ball_quadratic_bound(
    iterations: int,
    step: float,
    momentum: float,
    curvatures: ArrayLike,
    *,
    initial_error: float,
    variance: float,
) -> float:
    """Theorem 3.5, the bound (25), with its constants made explicit.

    ``E F(x_T) - F* <= C_T² ρ^{2T} E_0 + (σ²/2) Σ_i λ_i m_i``, ``C_T = 2T + 1``, ρ of
    :func:`heavy_ball_rate` and ``m_i`` of :func:`heavy_ball_noise`.  Along an eigenvector the roots
    ``r_1, r_2`` of the recursion have ``h_t = Σ_j r_1^j r_2^{t-j}``, so ``|h_t| <= (t + 1) ρ^t``,
    and product ``β``, ``|β| <= ρ²``.  A start at rest is multiplied by ``h_T - β h_{T-1}``, at most
    ``(T + 1) ρ^T + T ρ^{T+1} <= C_T ρ^T``; noise adds the variance ``α² σ² Σ_{t<T} h_t²``, of which
    ``σ² m_i`` is the limit.  The paper leaves ``C_T = O(T)`` open, and bounds λ_i by L.

    Parameters
    ----------
    iterations : int
    step, momentum : float
    curvatures : array-like of shape (d,)
        Eigenvalues of the Hessian.
    initial_error : float
        ``E_0``.
    variance : float
        ``σ²``, in every coordinate and iteration.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If ρ is not below 1, where the method need not converge.
    """
    check_integer("iterations", iterations, low=0)
    curvature = _vector(curvatures)
    rate = heavy_ball_rate(step, momentum, curvature)
    if not rate < 1.0:
        raise ValueError(
            f"step and momentum must give a rate below 1; got step={step!r} and "
            f"momentum={momentum!r}, whose rate is {rate:.6g}."
        )
    start = (2.0 * iterations + 1.0) ** 2 * rate ** (2 * iterations)
    noise = 0.5 * float(np.sum(curvature * heavy_ball_noise(step, momentum, curvature)))
    return start * initial_error + noise * variance


def _vector(values: ArrayLike) -> Vector:
    return np.atleast_1d(np.asarray(values, dtype=np.float64))
