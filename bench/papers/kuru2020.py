"""Kuru et al. 2020: bounds of the heavy ball that no plan rests on.

See :mod:`dpfast.theory.kuru2020`, which has the notation and where it departs from the paper.  The
rate (26) is that of Nesterov's method.  The heavy ball's roots are those of
``z² - (1 + β - αλ) z + β = 0``, as in the paper's own Appendix B.3.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._validation import check_integer
from dpfast.theory.kuru2020 import HeavyBallCertificate, simple_certificate

Vector = NDArray[np.float64]


def heavy_ball_inequality(
    step: float, momentum: float, mu: float, smoothness: float, rate_squared: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The 3 x 3 matrix inequality (22) at c = 1, as ``M0 + Σ θ_j M_j >= 0``.

    ``M = X1 + (1 - ρ²) X2 - Φ(P) + c0 X0`` and ``θ = (P_11, P_12, P_22, c0)``.  Re-derived: with
    ``u = ∇F(x_t)`` and ``η = (ξ, u)``, smoothness and strong convexity give
    ``η^T (X1 + (1 - ρ²) X2) η <= ρ² (F(x_t) - F*) - (F(x_{t+1}) - F*)``, ``η^T Φ(P) η`` is the
    change ``V_P(ξ_{t+1}) - ρ² V_P(ξ_t)`` (all three without noise), and ``η^T X0 η <= 0`` is
    ``(u - μx)^T (u - Lx) <= 0``, so M >= 0 implies that V shrinks by ρ².

    Returns
    -------
    constant : ndarray of shape (3, 3)
    coefficients : ndarray of shape (4, 3, 3)
    """
    a, b, L = step, momentum, smoothness
    X0 = np.array([[2 * mu * L, 0, -(mu + L)], [0, 0, 0], [-(mu + L), 0, 2]])
    cross = (1 - L * a) * b
    X1 = 0.5 * np.array(
        [
            [-L * b * b, L * b * b, -cross],
            [L * b * b, -L * b * b, cross],
            [-cross, cross, a * (2 - L * a)],
        ]
    )
    X2 = 0.5 * np.array([[mu, 0, -1], [0, 0, 0], [-1, 0, 0]])
    after = np.array([[1 + b, -b, -a], [1.0, 0.0, 0.0]])
    before = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    basis = (np.array([[1, 0], [0, 0]]), np.array([[0, 1], [1, 0]]), np.array([[0, 0], [0, 1]]))
    changes = [after.T @ P @ after - rate_squared * before.T @ P @ before for P in basis]
    return X1 + (1 - rate_squared) * X2, np.array([*(-change for change in changes), X0])


@lru_cache(maxsize=1024)
def heavy_ball_certificates(
    step: float, momentum: float, mu: float, smoothness: float
) -> tuple[HeavyBallCertificate, ...]:
    """Solutions of (22) by grid search, for a choice of rates.

    The grid runs over ``P = s (1, -1)(1, -1)^T + p (1 + λ, -λ)(1 + λ, -λ)^T``, ``λ = β/(1 - β)``:
    weights of the last step and of ``x_t + λ (x_t - x_{t-1})``, which gradient steps of size
    ``α/(1 - β)`` move; and over ``c_0`` and ``ρ²``.  For each rate the solution with the smallest
    ``P_11``, that is with the least noise, is kept.  :func:`simple_certificate` is among them.

    Returns
    -------
    tuple of HeavyBallCertificate
        May be empty.
    """
    simple = simple_certificate(step, momentum, mu, smoothness)
    found = [] if simple is None else [simple]
    long_step = step / (1.0 - momentum)
    lag = momentum / (1.0 - momentum)
    last = np.array([[1.0, -1.0], [-1.0, 1.0]])
    far = np.outer([1.0 + lag, -lag], [1.0 + lag, -lag])
    s = np.concatenate([[0.0], np.geomspace(1e-3, 4.0, 24)]) / (2.0 * step)
    p = np.concatenate([[0.0], np.geomspace(0.05 * mu, 2.0 * max(mu, 1.0 / long_step), 24)])
    c0 = np.concatenate([[0.0], np.geomspace(1e-3, 2.0, 10)]) * long_step
    for share in (0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 1.9):
        rate = 1.0 - share * mu * long_step
        if rate <= 0.0:
            continue
        constant, M = heavy_ball_inequality(step, momentum, mu, smoothness, rate)
        of_last = M[0] - M[1] + M[2]
        of_far = far[0, 0] * M[0] + far[0, 1] * M[1] + far[1, 1] * M[2]
        grid = np.stack(np.meshgrid(s, p, c0, indexing="ij"), -1).reshape(-1, 3)
        grid = grid[np.argsort(grid[:, 0] + grid[:, 1] * far[0, 0], kind="stable")]
        matrices = constant + np.tensordot(grid, np.array([of_last, of_far, M[3]]), 1)
        holds = np.flatnonzero(np.linalg.eigvalsh(matrices)[:, 0] >= 0.0)
        if len(holds):
            of_s, of_p, of_u = grid[holds[0]]
            found.append(HeavyBallCertificate(rate, of_s * last + of_p * far, float(of_u)))
    return tuple(found)


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
