r"""Error bounds of noisy first-order methods, and what they say about noise, steps and iterations.

After Kuru, Birbil, Gürbüzbalaban & Yıldırım 2020, "Differentially private accelerated optimization
algorithms", and the paper behind it, Aybat, Fallah, Gürbüzbalaban & Ozdaglar 2019, "A universally
optimal multistage accelerated stochastic gradient method".

The objective F is μ-strongly convex with Hessians between ``μI`` and ``LI``.  Iteration t uses the
gradient plus noise of mean zero, uncorrelated with the state, of variance ``σ_t²`` in each of d
coordinates.  Every bound has the form (29) of the paper,

``E F(x_T) - F* <= a_0 E_0 + Σ_t a_t σ_t²``,  ``E_0 = F(x_0) - F*``,

with the dimension inside ``a_t`` (the paper's ``a_{T,t} b_t² d`` is ``a_t σ_t²`` for Laplace noise
of scale ``b_t``, variance ``2 b_t²``).  All methods start at rest, ``x_{-1} = x_0``.

Where this departs from the paper:

- (28) and (29) state for ``E_t`` what holds for the Lyapunov function
  ``V_t = F(x_t) - F* + (μ/2)‖v_t - x*‖²``.  At rest ``V_0 <= 2 E_0``, so ``a_0`` is twice the
  paper's.  (28) itself fails at t = 1: on a quadratic of curvature μ, ``E_1 = (1 - q²)² E_0``,
  ``q = sqrt(μ α)``, which exceeds ``(1 - q) E_0`` for small q.
- In (18), ``B = (-α, 0)``.  (23) is read with ``L α²/2`` times the *total* variance, which is what
  its proof gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._typing import Vector
from dpfast._validation import check_integer, check_real


@dataclass(frozen=True)
class Response:
    """How the final error answers to the starting error and to the noise of each iteration.

    Attributes
    ----------
    initial : float
        ``a_0``.
    noise : ndarray of shape (n_iterations,)
        ``a_t``, per unit of variance in every coordinate.
    """

    initial: float
    noise: Vector

    def bound(self, initial_error: float, variance: ArrayLike) -> float:
        """``a_0 E_0 + Σ a_t σ_t²``, (29).

        Parameters
        ----------
        initial_error : float
            ``E_0``, or a bound of it.
        variance : float or array-like of shape (n_iterations,)
            ``σ_t²``.
        """
        return float(self.initial * initial_error + np.sum(self.noise * np.asarray(variance)))


@dataclass(frozen=True)
class Decay:
    """A bound whose coefficients shrink by the same factor in every iteration.

    ``a_0 = start · rate^T`` and ``a_t = gain · rate^{T - t}``.

    Attributes
    ----------
    start, rate, gain : float
        ``rate`` in [0, 1).
    """

    start: float
    rate: float
    gain: float

    def response(self, iterations: int) -> Response:
        """The coefficients of a run of `iterations`."""
        powers = self.rate ** np.arange(iterations - 1.0, -1.0, -1.0)
        return Response(self.start * self.rate**iterations, self.gain * powers)

    def initial(self, lengths: NDArray[Any]) -> Vector:
        """``a_0`` for several numbers of iterations."""
        return np.asarray(self.start * self.rate ** np.asarray(lengths, dtype=np.float64))

    def total(self, lengths: NDArray[Any], exponent: float = 1.0) -> Vector:
        """``Σ a_t^exponent`` for several numbers of iterations."""
        lengths = np.asarray(lengths, dtype=np.float64)
        if not 0.0 < self.rate < 1.0:
            return np.full(len(lengths), self.gain**exponent)
        log_rate = exponent * math.log(self.rate)
        return np.asarray(self.gain**exponent * np.expm1(lengths * log_rate) / math.expm1(log_rate))


@dataclass(frozen=True)
class Stage:
    """Iterations with one step size and momentum; each stage starts at rest.

    Attributes
    ----------
    length : int
    step : float
    momentum : float
    """

    length: int
    step: float
    momentum: float


# ---- responses ----------------------------------------------------------------------------------


def descent_decay(step: float, mu: float, smoothness: float, trace: float) -> Decay:
    """Gradient descent, ``0 < step < 2 / smoothness``.

    With ``x⁺ = x - α∇F(x)``, ``F(x⁺) - F* <= (1 - αμ(2 - αL)) (F(x) - F*)`` by smoothness and
    ``‖∇F‖² >= 2μ (F - F*)``; noise z adds ``E (α²/2) z^T M z`` at most, where M bounds the
    Hessians: ``(α²/2) σ² tr M``.  For a loss of margins, ``tr M`` is the loss's smoothness plus d
    times the ridge, not d times L.

    Parameters
    ----------
    step : float
        ``α``.
    mu, smoothness : float
        ``μ`` and ``L``.
    trace : float
        ``tr M``; ``d L`` always holds.

    Returns
    -------
    Decay
    """
    rate = _rate_of_descent(step, mu, smoothness)
    return Decay(1.0, rate, 0.5 * step**2 * trace)


def _rate_of_descent(step: float, mu: float, smoothness: float) -> float:
    check_real("step", step, low=0.0, high=2.0 / smoothness, low_open=True, high_open=True)
    return max(0.0, 1.0 - step * mu * (2.0 - step * smoothness))


def nesterov_momentum(step: float, mu: float) -> float:
    """``β = (1 - sqrt(μα)) / (1 + sqrt(μα))``, for which :func:`accelerated_response` holds."""
    root = math.sqrt(mu * step)
    return (1.0 - root) / (1.0 + root)


def nesterov_decay(step: float, mu: float, smoothness: float, dim: int) -> Decay:
    """Nesterov's method in one stage, see :func:`accelerated_response`."""
    gain = 0.5 * step * (1.0 + step * smoothness) * dim
    return Decay(2.0, 1.0 - math.sqrt(mu * step), gain)


def accelerated_response(
    stages: tuple[Stage, ...], mu: float, smoothness: float, dim: int
) -> Response:
    """Nesterov's method in one stage (29) or several (34), ``step <= 1 / smoothness`` in each.

    Within a stage ``E V_{t+1} <= (1 - q) V_t + (α/2)(1 + αL) d σ²``, ``q = sqrt(μα)``, with
    ``V_t = F(x_t) - F* + (μ/2)‖v_t - x*‖²``, ``v_t = x_t + (1/q - 1)(x_t - x_{t-1})``.  The first
    term gains ``(Lα²/2) d σ²`` by smoothness; noise moves ``v`` by ``(α/q) z``, which adds
    ``(μ/2)(α²/q²) d σ² = (α/2) d σ²`` (Aybat et al. 2019, Theorem 2.3).  A stage starts at rest,
    where ``V <= 2 (F - F*)`` by strong convexity: a factor of two for each, the first included.

    Parameters
    ----------
    stages : tuple of Stage
        With the momentum of :func:`nesterov_momentum`.
    mu, smoothness : float
    dim : int

    Returns
    -------
    Response
    """
    remaining = 1.0
    parts = []
    for stage in reversed(stages):
        check_real("step", stage.step, low=0.0, low_open=True, high=(1.0 + 1e-12) / smoothness)
        rate = 1.0 - math.sqrt(mu * stage.step)
        powers = rate ** np.arange(stage.length - 1.0, -1.0, -1.0)
        gain = 0.5 * stage.step * (1.0 + stage.step * smoothness) * dim
        parts.append(remaining * gain * powers)
        remaining *= 2.0 * rate**stage.length
    return Response(remaining, np.concatenate(parts[::-1]))


def single_stage(iterations: int, step: float, mu: float) -> tuple[Stage, ...]:
    """Nesterov's method as one stage."""
    return (Stage(iterations, step, nesterov_momentum(step, mu)),)


def multistage(
    iterations: int,
    step: float,
    mu: float,
    smoothness: float,
    *,
    p: int = 1,
    first: int | None = None,
) -> tuple[Stage, ...]:
    """Stages of MASG, (33), cut off after `iterations`.

    ``α_1 = step``, ``n_1 = first``; ``α_k = step / 2^{2k}`` and
    ``n_k = 2^k ceil(sqrt(κ) ln 2^{p+2})``, ``κ = L/μ``, for ``k >= 2``.

    Parameters
    ----------
    iterations : int
    step : float
        Of the first stage; 1/L in the paper, c/L in its experiments.
    mu, smoothness : float
    p : int, default=1
    first : int or None
        Length of the first stage, which the theory leaves open; None: ``n_k`` at k = 1.

    Returns
    -------
    tuple of Stage

    Examples
    --------
    >>> [stage.length for stage in multistage(100, 1 / 20, 1.0, 20.0)]
    [20, 40, 40]
    """
    check_integer("iterations", iterations, low=1)
    unit = math.ceil(math.sqrt(smoothness / mu) * math.log(2.0 ** (p + 2)))
    stages: list[Stage] = []
    left, k = iterations, 1
    while left > 0:
        length = min(left, first if k == 1 and first is not None else 2**k * unit)
        size = step if k == 1 else step / 4.0**k
        stages.append(Stage(length, size, nesterov_momentum(size, mu)))
        left -= length
        k += 1
    return tuple(stages)


# ---- the heavy ball -----------------------------------------------------------------------------


@dataclass(frozen=True)
class HeavyBallCertificate:
    """A solution of the matrix inequality (22), at c = 1.

    ``V(ξ) = ξ^T (P ⊗ I) ξ + F(x_t) - F*`` of ``ξ = (x_t - x*, x_{t-1} - x*)`` shrinks by
    `rate_squared` an iteration, apart from the noise.

    Attributes
    ----------
    rate_squared : float
        ``ρ²``.
    P : ndarray of shape (2, 2)
    c0 : float
    """

    rate_squared: float
    P: NDArray[np.float64]
    c0: float

    def decay(self, step: float, mu: float, smoothness: float, dim: int) -> Decay:
        """The bound (23).

        ``E V_{t+1} <= ρ² V_t + α² (P_11 + L/2) d σ²``; ``V_0 <= (2 s/μ + 1) E_0`` at rest, s the
        sum of the entries of P; and minimizing V over ``x_{t-1}`` gives
        ``V_T >= (1 + 2|P| / (P_22 L)) (F(x_T) - F*)``.
        """
        (p11, p12), (_, p22) = self.P
        determinant = max(0.0, p11 * p22 - p12 * p12)
        share = 1.0 + (2.0 * determinant / (p22 * smoothness) if p22 > 0.0 else 0.0)
        start = 1.0 + 2.0 * (p11 + 2.0 * p12 + p22) / mu
        gain = step**2 * (p11 + 0.5 * smoothness) * dim
        return Decay(start / share, self.rate_squared, gain / share)


def simple_certificate(
    step: float, momentum: float, mu: float, smoothness: float
) -> HeavyBallCertificate | None:
    """A solution of (22) in closed form: ``ρ² = max(1 - αμ, β² / (1 - αL))``, for ``αL < 1``.

    ``V = F(x_t) - F* + s ‖x_t - x_{t-1}‖²`` with ``s = (1 - αL) / (2α)``: smoothness gives
    ``V_{t+1} <= F - F* + β(1 - 2αk) <u, x_t - x_{t-1}> - (α - kα²) ‖u‖² + k β² ‖x_t - x_{t-1}‖²``
    with ``k = L/2 + s = 1/(2α)``, which removes the inner product and leaves
    ``(F - F*) - (α/2) ‖u‖² + (β²/2α) ‖x_t - x_{t-1}‖²``; then ``‖u‖² >= 2μ (F - F*)``.

    Returns
    -------
    HeavyBallCertificate or None
        None if the rate is not below 1.
    """
    room = 1.0 - step * smoothness
    if room <= 0.0:
        return None
    rate = max(1.0 - step * mu, momentum**2 / room)
    if rate >= 1.0:
        return None
    s = room / (2.0 * step)
    return HeavyBallCertificate(rate, s * np.array([[1.0, -1.0], [-1.0, 1.0]]), 0.0)


def largest_momentum(step: float, mu: float, smoothness: float) -> float:
    """The largest momentum at which :func:`simple_certificate` has the rate ``1 - αμ``."""
    return math.sqrt(max(0.0, 1.0 - step * smoothness) * (1.0 - step * mu))


def lookahead_certificate(
    step: float, momentum: float, mu: float, smoothness: float
) -> HeavyBallCertificate | None:
    """A faster solution in closed form, for ``αL < 1`` and large momentum.

    With ``λ = β/(1 - β)``, the point ``y_t = x_t + λ(x_t - x_{t-1})`` moves by
    ``y_{t+1} = y_t - γ∇F(x_t)``, ``γ = α/(1 - β)``.  Let
    ``V = F(x_t) - F* + s‖δ‖² + p‖y_t - x*‖²``, ``δ = x_t - x_{t-1}``, ``u = ∇F(x_t)``.  Smoothness
    bounds ``F(x_{t+1})``, and strong convexity ``<u, x_t - x*>`` from below by
    ``F - F* + (μ/2)‖x_t - x*‖²``.  With ``s = (1 - αL)/(2α) - p/(1 - β)²`` the terms in
    ``<u, δ>`` cancel, and what is left is::

        V⁺ <= (1 - 2γp)(F - F*) - (α/2)‖u‖² + β²(1/(2α) - p/(1 - β)²)‖δ‖²
              + p‖y_t - x*‖² - γpμ‖x_t - x*‖²

    Take ``ρ² = 1 - γμ/(1 + τ)`` for a ``τ > 0``.  ``‖u‖² >= 2μ(F - F*)`` gives the first two terms
    the factor ``ρ²`` if ``2p >= μ/(1 + τ) - (1 - β)μ``.  Young's inequality,
    ``‖y_t - x*‖² <= (1 + τ)‖x_t - x*‖² + (1 + 1/τ)λ²‖δ‖²``, does so for the others if
    ``pγμλ²/τ + β²(1/(2α) - p/(1 - β)²) <= ρ² s``.  The least p that the first condition allows is
    taken, and the least τ of a grid for which the second holds.

    The rate is up to ``1/(1 - β)`` times that of gradient steps, and the noise, which
    ``α²(P_11 + L/2) = α/2`` counts, adds up to ``(1 + τ)(1 - β)/(2μ)``, that much less.

    Returns
    -------
    HeavyBallCertificate or None
        None if no ``τ`` will do.
    """
    room, rest = 1.0 - step * smoothness, 1.0 - momentum
    if room <= 0.0:
        return None
    lag, long_step = momentum / rest, step / rest
    tau = np.geomspace(1e-3, 1e3, 121)
    rate = 1.0 - long_step * mu / (1.0 + tau)
    p = np.maximum(0.0, 0.5 * mu * (1.0 / (1.0 + tau) - rest))
    s = room / (2.0 * step) - p / rest**2
    left = p * long_step * mu * lag**2 / tau + momentum**2 * (0.5 / step - p / rest**2)
    holds = np.flatnonzero((rate >= 0.0) & (s >= 0.0) & (left <= rate * s))
    if not len(holds):
        return None
    k = holds[0]
    return HeavyBallCertificate(float(rate[k]), _weights(float(s[k]), float(p[k]), lag), 0.0)


def _weights(s: float, p: float, lag: float) -> NDArray[np.float64]:
    """``P`` of ``s‖x_t - x_{t-1}‖² + p‖x_t + λ(x_t - x_{t-1}) - x*‖²``."""
    last, far = np.array([1.0, -1.0]), np.array([1.0 + lag, -lag])
    return np.asarray(s * np.outer(last, last) + p * np.outer(far, far))


def closed_certificates(
    step: float, momentum: float, mu: float, smoothness: float
) -> list[HeavyBallCertificate]:
    """The solutions in closed form that there are."""
    both = (
        simple_certificate(step, momentum, mu, smoothness),
        lookahead_certificate(step, momentum, mu, smoothness),
    )
    return [certificate for certificate in both if certificate is not None]


def heavy_ball_momenta(step: float, mu: float, smoothness: float) -> tuple[float, ...]:
    """Momenta to choose among: the largest that is covered, and smaller ones."""
    rest = 1.0 - largest_momentum(step, mu, smoothness)
    return tuple(1.0 - k * rest for k in (1.0, 1.2, 1.5, 2.0, 3.0, 5.0) if k * rest < 1.0)


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
    """Solutions of (22): those in closed form, and those of a grid search for a choice of rates.

    The grid runs over ``P = s (1, -1)(1, -1)^T + p (1 + λ, -λ)(1 + λ, -λ)^T``, ``λ = β/(1 - β)``:
    weights of the last step and of ``x_t + λ (x_t - x_{t-1})``, which gradient steps of size
    ``α/(1 - β)`` move; and over ``c_0`` and ``ρ²``.  For each rate the solution with the smallest
    ``P_11``, that is with the least noise, is kept.

    Returns
    -------
    tuple of HeavyBallCertificate
        May be empty.
    """
    found = closed_certificates(step, momentum, mu, smoothness)
    long_step = step / (1.0 - momentum)
    lag = momentum / (1.0 - momentum)
    s = np.concatenate([[0.0], np.geomspace(1e-3, 4.0, 24)]) / (2.0 * step)
    p = np.concatenate([[0.0], np.geomspace(0.05 * mu, 2.0 * max(mu, 1.0 / long_step), 24)])
    c0 = np.concatenate([[0.0], np.geomspace(1e-3, 2.0, 10)]) * long_step
    grid = np.stack(np.meshgrid(s, p, c0, indexing="ij"), -1).reshape(-1, 3)
    grid = grid[np.argsort(grid[:, 0] + grid[:, 1] * (1.0 + lag) ** 2, kind="stable")]
    of_s, of_p = _weights(1.0, 0.0, lag), _weights(0.0, 1.0, lag)
    for share in (0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 1.9):
        rate = 1.0 - share * mu * long_step
        if rate <= 0.0:
            continue
        constant, M = heavy_ball_inequality(step, momentum, mu, smoothness, rate)
        parts = [P[0, 0] * M[0] + P[0, 1] * M[1] + P[1, 1] * M[2] for P in (of_s, of_p)]
        matrices = constant + np.tensordot(grid, np.array([*parts, M[3]]), 1)
        holds = np.flatnonzero(_semidefinite(matrices))
        if len(holds):
            weight, far, of_u = map(float, grid[holds[0]])
            found.append(HeavyBallCertificate(rate, _weights(weight, far, lag), of_u))
    return tuple(found)


def _semidefinite(matrices: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether symmetric 3 x 3 matrices are positive semi-definite: no principal minor is < 0."""
    a, b, c = matrices[:, 0, 0], matrices[:, 0, 1], matrices[:, 0, 2]
    d, e, f = matrices[:, 1, 1], matrices[:, 1, 2], matrices[:, 2, 2]
    low, mixed = d * f - e * e, b * f - c * e
    determinant = a * low - b * mixed + c * (b * e - c * d)
    least = np.minimum.reduce([a, d, f, a * d - b * b, a * f - c * c, low, determinant])
    return np.asarray(least >= 0.0)


# ---- quadratics ---------------------------------------------------------------------------------


def quadratic_paths(
    iterations: int, step: float, momentum: float, curvatures: ArrayLike, *, nesterov: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What is left of the start after 0, 1, ... iterations, and of noise 1, 2, ... iterations ago.

    The exact answer on a quadratic, in place of the bound (25) with its unknown ``C_t``.  For every
    curvature λ the error is ``(λ/2) z²``; z follows a linear recursion, so its start and the noise
    of each iteration reach the end through the recursion's impulse responses.

    Parameters
    ----------
    iterations : int
    step, momentum : float
        A momentum of 0 is gradient descent.
    curvatures : array-like of shape (d,)
        Eigenvalues of the Hessian.
    nesterov : bool, default=False
        Nesterov's method instead of the heavy ball.

    Returns
    -------
    starts : ndarray of shape (d, iterations + 1)
        ``E_t / E_0`` for a start along each eigenvector.
    noises : ndarray of shape (d, iterations)
        What the noise of one iteration, of unit variance, is in the error so many iterations later.
    """
    from scipy.signal import lfilter  # which takes longer to import than the whole package

    curvature = _vector(curvatures)
    starts = np.zeros((len(curvature), iterations + 1))
    noises = np.zeros((len(curvature), iterations))
    unit = np.zeros(iterations + 1)
    unit[0] = 1.0
    for k, value in enumerate(curvature):
        left = 1.0 - step * value
        total = (1.0 + momentum) * left if nesterov else left + momentum
        product = momentum * left if nesterov else momentum
        # z_{t+1} = total z_t - product z_{t-1}, from an impulse; from rest z_1 = total - product.
        impulse = lfilter([1.0], [1.0, -total, product], unit)
        starts[k] = impulse**2
        starts[k, 1:] = (impulse[1:] - product * impulse[:-1]) ** 2
        noises[k] = 0.5 * step**2 * value * impulse[:-1] ** 2
    return starts, noises


def _vector(values: ArrayLike) -> Vector:
    return np.atleast_1d(np.asarray(values, dtype=np.float64))


# ---- dividing the budget ------------------------------------------------------------------------


def optimal_shares(noise: ArrayLike, power: int, *, ratio: float = 1.3) -> Vector:
    """Shares of the budget of the iterations that minimize ``Σ a_t σ_t²``.

    Noise bought at the price r has a variance proportional to ``1 / r^power``: 2 for Laplace noise
    priced in epsilon (``2 S²/ε²``, Proposition 4.2), 1 for Gaussian noise priced in ρ or μ²
    (``Δ²/(2ρ)``).  Then ``r_t`` is proportional to ``a_t^{1/(power + 1)}``: by Hölder's inequality
    ``Σ a_t^{1/(p+1)} = Σ (a_t / r_t^p)^{1/(p+1)} r_t^{p/(p+1)} <= (Σ a_t / r_t^p)^{1/(p+1)}
    (Σ r_t)^{p/(p+1)}``, with equality there, so that the least value is
    ``(Σ a_t^{1/(p+1)})^{p+1} / (Σ r_t)^p``; for p = 1 it is Cauchy and Schwarz.

    Neighboring iterations whose ``a_t`` differ by less than a factor of `ratio` get equal shares
    (the best for equal ones: that of their mean ``a_t``), so that a ledger has few kinds of events;
    no share is below a thousandth of an equal one.

    Parameters
    ----------
    noise : array-like of shape (n_iterations,)
        ``a_t``.
    power : int
    ratio : float, default=1.3
        1 gives every iteration its own share.

    Returns
    -------
    ndarray of shape (n_iterations,)
        Sums to 1.
    """
    a = np.maximum(_vector(noise), 1e-300)
    logs = np.log(a)
    # At most about 24 kinds, however long the run.
    width = max(math.log(ratio), float(np.ptp(logs)) / 24.0) if ratio > 1.0 else 0.0
    means = a.copy()
    if width > 0.0:
        edges, first = [0], logs[0]
        for t in range(1, len(a)):
            if abs(logs[t] - first) > width:
                edges.append(t)
                first = logs[t]
        for start, stop in zip(edges, [*edges[1:], len(a)], strict=True):
            means[start:stop] = a[start:stop].mean()
    shares = means ** (1.0 / (power + 1))
    shares = np.maximum(shares / shares.sum(), 1e-3 / len(a))
    return np.asarray(shares / shares.sum())
