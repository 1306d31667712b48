r"""Zhang, Zheng, Mou & Wang 2017, "Efficient private ERM for smooth objectives": Theorems 1 to 6.

``F(w) = (1/n) Σ f(w, ξ_i)``, every ``f`` L-Lipschitz in what depends on the data, ``F`` µ-strongly
convex (or ``µ = 0``, convex) and β-smooth, the ridge included in both.  Algorithm 1 takes T steps
of gradient descent and adds noise to the last iterate; Algorithm 2 (RRPSGD) stops noisy stochastic
steps at a random time, for objectives that need not be convex.

The paper states its utility as rates, ``O(·)`` and ``Θ(·)``.  Here a function named `..._rate` is
such a rate with the constant 1, and a function named `..._bound` is an inequality with all its
constants, proved in its docstring.

Where this departs from the paper:

- Lemmas 2 and 3 bound the sensitivity of Algorithm 1 by ``3LT/(nβ)`` and ``5L(µ + β)/(nµβ)``.
  :func:`descent_sensitivity` is smaller and is reached (a linear loss).
- The noise of Algorithm 1 has the variance ``2 log(2/δ) Δ²/ε²``, whose proof needs ``ε <= 1``;
  Theorem 1 claims every ε.  At given (ε, δ) the exact condition tells whether the formula holds
  (:mod:`dpfast.privacy.papers`): at ``δ = 0.001`` it does at the ``ε = 2`` of their Table 3.
- Theorem 3 reads ``(βLd‖ŵ‖²/(nε))^{2/3}``; the T that it states gives ``√β``, as in
  :func:`convex_rate`.
- The step of Theorem 5 is read as ``min(1/β, D_F/(σn))``, as in its source (Ghadimi & Lan 2013,
  Corollary 2.2, with ``N = n²`` steps).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast._validation import check_integer, check_real

# ---- Algorithm 1: gradient descent and noise on its last iterate --------------------------------


def descent_contraction(step: float, mu: float, smoothness: float) -> float:
    """``c``: a gradient step brings two points at least this much closer.

    ``w - η∇F(w)`` has the Jacobian ``I - η∇²F`` with eigenvalues in ``[1 - ηβ, 1 - ηµ]``, so
    ``c = max(|1 - ηµ|, |1 - ηβ|)``; it is at most 1 for ``η <= 2/β`` and least at ``2/(β + µ)``.

    Parameters
    ----------
    step : float
        ``0 < η <= 2/β``.
    mu, smoothness : float
        ``0 <= µ <= β``.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the step is longer than ``2/β``, where descent need not be stable.
    """
    mu = check_real("mu", mu, low=0.0)
    smoothness = check_real("smoothness", smoothness, low=mu, low_open=mu == 0.0)
    step = check_real("step", step, low=0.0, low_open=True)
    if step * smoothness > 2.0 * (1.0 + 1e-12):
        raise ValueError(f"step must be <= 2 / smoothness = {2.0 / smoothness:.6g}; got {step!r}.")
    return min(1.0, max(abs(1.0 - step * mu), abs(1.0 - step * smoothness)))


def descent_sensitivity(
    iterations: int, step: float, mu: float, smoothness: float, gradient_distance: float
) -> float:
    """Distance of the iterates of neighboring data sets after T steps from the same start.

    ``‖w_{t+1} - w'_{t+1}‖ <= c ‖w_t - w'_t‖ + η g``: the step of ``F`` at both points contracts by
    ``c`` (:func:`descent_contraction`), and at ``w'_t`` the gradients of ``F`` and ``F'`` differ by
    at most ``g`` (``2L/n`` when one record is replaced, ``L/n`` when one is added or removed).
    Summed: ``ηg (1 - c^T)/(1 - c)``, or ``ηgT`` for ``c = 1``.  The limit for ``η <= 2/(β + µ)`` is
    ``g/µ``, the sensitivity of the minimizer.

    Parameters
    ----------
    iterations : int
        ``T``.
    step, mu, smoothness : float
        As for :func:`descent_contraction`.
    gradient_distance : float
        ``g``.

    Returns
    -------
    float

    Examples
    --------
    >>> round(descent_sensitivity(1000, 1.0, 0.1, 1.0, 2.0 / 500), 6)
    0.04
    """
    iterations = check_integer("iterations", iterations, low=1)
    c = descent_contraction(step, mu, smoothness)
    # Σ_{t<T} c^t, without cancellation for c near 1.
    total = float(iterations)
    if 0.0 < c < 1.0:
        total = min(total, -math.expm1(iterations * math.log(c)) / (1.0 - c))
    elif c == 0.0:
        total = 1.0
    return step * check_real("gradient_distance", gradient_distance, low=0.0) * total


def paper_sensitivity(
    iterations: int, mu: float, smoothness: float, lipschitz: float, n_samples: int
) -> float:
    """``5L(µ + β)/(nµβ)`` (Lemma 3), or ``3LT/(nβ)`` for ``µ = 0`` (Lemma 2).

    For the steps of the theorems, ``1/(β + µ)`` and ``1/β``, where :func:`descent_sensitivity` is
    at most ``2L/(nµ)`` and ``2LT/(nβ)``, so both are valid.

    Parameters
    ----------
    iterations : int
    mu, smoothness, lipschitz : float
    n_samples : int

    Returns
    -------
    float
    """
    if mu == 0.0:
        return 3.0 * lipschitz * iterations / (n_samples * smoothness)
    return 5.0 * lipschitz * (mu + smoothness) / (n_samples * mu * smoothness)


def descent_bound(
    iterations: int, step: float, mu: float, smoothness: float, distance: float
) -> float:
    """Bound of ``F(w_T) - F*`` from ``‖w_0 - w*‖ <= distance``.

    ``(β/2) c^{2T} D²``, since ``‖w_T - w*‖ <= c^T D``; also ``D²/(2ηT)`` for ``η <= 1/β`` (Nesterov
    2004, section 2.1.5).

    Parameters
    ----------
    iterations : int
    step, mu, smoothness : float
        As for :func:`descent_contraction`.
    distance : float
        ``D``.

    Returns
    -------
    float
    """
    c = descent_contraction(step, mu, smoothness)
    bound = 0.5 * smoothness * c ** (2 * iterations) * distance**2
    if iterations > 0 and step * smoothness <= 1.0 + 1e-12:
        bound = min(bound, distance**2 / (2.0 * step * iterations))
    return bound


def noise_bound(smoothness: float, second_moment: float) -> float:
    """``E F(w + z) - F(w) <= (β/2) E‖z‖²`` for noise of mean zero: the descent lemma.

    Parameters
    ----------
    smoothness : float
    second_moment : float
        ``E‖z‖²``: ``d(d + 1) Δ²/ε²`` (l2-Laplace), ``dσ²`` (Gaussian).

    Returns
    -------
    float
    """
    return 0.5 * smoothness * second_moment


def _effective_dim_squared(dim: int, delta: float) -> float:
    """What stands in the place of d² in the rates: d² for δ = 0, d log(1/δ) otherwise."""
    return float(dim) ** 2 if delta == 0.0 else dim * max(1.0, -math.log(delta))


def strongly_convex_iterations(
    mu: float,
    smoothness: float,
    lipschitz: float,
    distance: float,
    n_samples: int,
    dim: int,
    epsilon: float,
    delta: float,
) -> int:
    """T of Theorem 2 with the constant 1, at least 1.

    ``(µ² + β²)/(µβ) · log(µ²n²ε²D²/(L²d²))``, ``d log(1/δ)`` in the place of ``d²`` for ``δ > 0``.

    Parameters
    ----------
    mu, smoothness, lipschitz : float
    distance : float
        ``D``, bound of ``‖ŵ‖``.
    n_samples, dim : int
    epsilon, delta : float

    Returns
    -------
    int
    """
    ratio = (mu * n_samples * epsilon * distance / lipschitz) ** 2
    ratio /= _effective_dim_squared(dim, delta)
    kappa = (mu**2 + smoothness**2) / (mu * smoothness)
    return max(1, math.ceil(kappa * math.log(max(ratio, 1.0))))


def convex_iterations(
    smoothness: float,
    lipschitz: float,
    distance: float,
    n_samples: int,
    dim: int,
    epsilon: float,
    delta: float,
) -> int:
    """T of Theorem 3 with the constant 1, at least 1.

    ``(β²n²ε²D²/(L²d²))^{1/3}``, ``d log(1/δ)`` in the place of ``d²`` for ``δ > 0``: where the
    optimization error ``βD²/T`` and the noise's ``d²L²T²/(βn²ε²)`` meet.

    Parameters
    ----------
    smoothness, lipschitz, distance : float
    n_samples, dim : int
    epsilon, delta : float

    Returns
    -------
    int
    """
    ratio = (smoothness * n_samples * epsilon * distance / lipschitz) ** 2
    ratio /= _effective_dim_squared(dim, delta)
    return max(1, math.ceil(float(ratio ** (1.0 / 3.0))))


def strongly_convex_rate(
    mu: float,
    smoothness: float,
    lipschitz: float,
    n_samples: int,
    dim: int,
    epsilon: float,
    delta: float,
) -> float:
    """Theorem 2: excess risk ``βL²d²/(µ²n²ε²)``, ``d log(1/δ)`` in the place of ``d²``.

    The paper's text leaves out ``µ²`` where µ counts as a constant; its proof has it.

    Parameters
    ----------
    mu, smoothness, lipschitz : float
    n_samples, dim : int
    epsilon, delta : float

    Returns
    -------
    float
    """
    scale = lipschitz / (mu * n_samples * epsilon)
    return float(smoothness * scale**2 * _effective_dim_squared(dim, delta))


def convex_rate(
    smoothness: float,
    lipschitz: float,
    distance: float,
    n_samples: int,
    dim: int,
    epsilon: float,
    delta: float,
) -> float:
    """Theorem 3: excess risk ``(√β L d D²/(nε))^{2/3}``, ``√(d log(1/δ))`` in the place of ``d``.

    Parameters
    ----------
    smoothness, lipschitz, distance : float
    n_samples, dim : int
    epsilon, delta : float

    Returns
    -------
    float
    """
    width = math.sqrt(_effective_dim_squared(dim, delta))
    scale = math.sqrt(smoothness) * lipschitz * width * distance**2 / (n_samples * epsilon)
    return float(scale ** (2.0 / 3.0))


def population_ridge(
    smoothness: float,
    lipschitz: float,
    distance: float,
    n_samples: int,
    dim: int,
    epsilon: float,
    failure: float,
) -> float:
    """Ridge of the text after Theorem 3, for the population risk of convex losses.

    ``2 L^{1/2} (βd)^{1/4} / (√(nεγ) R)``; ``d²`` takes the place of ``d`` where the budget is
    pure, for which the paper gives no ridge of its own.

    Parameters
    ----------
    smoothness, lipschitz : float
    distance : float
        ``R``.
    n_samples, dim : int
        `dim` is ``d``, or ``d²`` for pure budgets.
    epsilon : float
    failure : float
        ``γ``, the probability with which the bound may fail.

    Returns
    -------
    float
    """
    check_real("failure", failure, low=0.0, low_open=True, high=1.0)
    top = 2.0 * math.sqrt(lipschitz) * (smoothness * dim) ** 0.25
    return float(top / (math.sqrt(n_samples * epsilon * failure) * distance))


def excess_risk_bound(
    mu: float,
    smoothness: float,
    lipschitz: float,
    distance: float,
    n_samples: int,
    dim: int,
    epsilon: float,
    delta: float,
) -> float:
    """Theorems 2 and 3 with their constants: bound of ``E F(w_priv) - F(ŵ)`` for Algorithm 1.

    ``E F(w_T + z) - F* <= (F(w_T) - F*) + (β/2) E‖z‖²``, :func:`descent_bound` and
    :func:`noise_bound`, for the theorems' step and T (with the constant 1), noise calibrated to
    :func:`paper_sensitivity` by the paper's formulas: ``E‖z‖² = d(d + 1) Δ²/ε²`` for ``δ = 0``,
    ``2d log(2/δ) Δ²/ε²`` otherwise.

    Parameters
    ----------
    mu, smoothness, lipschitz : float
        ``µ = 0`` is Theorem 3.
    distance : float
        ``D``, bound of ``‖ŵ‖``; descent starts from 0.
    n_samples, dim : int
    epsilon, delta : float

    Returns
    -------
    float
    """
    common = (lipschitz, distance, n_samples, dim, epsilon, delta)
    if mu == 0.0:
        count, step = convex_iterations(smoothness, *common), 1.0 / smoothness
    else:
        count = strongly_convex_iterations(mu, smoothness, *common)
        step = 1.0 / (smoothness + mu)
    scale = paper_sensitivity(count, mu, smoothness, lipschitz, n_samples) / epsilon
    width = dim * (dim + 1.0) if delta == 0.0 else 2.0 * dim * math.log(2.0 / delta)
    optimization = descent_bound(count, step, mu, smoothness, distance)
    return optimization + noise_bound(smoothness, width * scale**2)


# ---- Algorithm 2: RRPSGD ------------------------------------------------------------------------


def rrpsgd_noise_stddev(lipschitz: float, n_samples: int, epsilon: float, delta: float) -> float:
    """Noise of one step of Algorithm 2, ``2L √(log(3n/δ) log(2/δ))/ε``, for ``ε <= 1`` (Theorem 4).

    For ``n²`` steps along single records drawn uniformly, by advanced composition.  An accountant
    of subsampled Gaussians needs much less.

    Parameters
    ----------
    lipschitz : float
    n_samples : int
    epsilon, delta : float

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If ``ε > 1`` or δ is not in (0, 1).
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, low_open=True, high=1.0)
    delta = check_real("delta", delta, low=0.0, low_open=True, high=1.0)
    log_terms = math.log(3.0 * n_samples / delta) * math.log(2.0 / delta)
    return 2.0 * lipschitz * math.sqrt(log_terms) / epsilon


def rrpsgd_variance(lipschitz: float, dim: int, noise_stddev: float) -> float:
    """``σ²`` of Theorem 5: ``E‖g - ∇F‖² <= 4L² + dσ_z²`` for the noisy gradient of one record.

    Parameters
    ----------
    lipschitz : float
    dim : int
    noise_stddev : float
        ``σ_z``, of the noise in each coordinate.

    Returns
    -------
    float
    """
    return 4.0 * lipschitz**2 + dim * noise_stddev**2


def rrpsgd_step(iterations: int, smoothness: float, variance: float, distance: float) -> float:
    """Constant step ``min(1/β, D/(σ√N))`` of Theorem 5, ``N = n²`` there.

    Parameters
    ----------
    iterations : int
        ``N``.
    smoothness, variance : float
        ``β`` and ``σ²``.
    distance : float
        ``D_F = √(2(F(w_0) - F*)/β)``; for convex objectives the bound of ``‖w_0 - ŵ‖``.

    Returns
    -------
    float
    """
    return min(1.0 / smoothness, distance / math.sqrt(variance * iterations))


def stopping_weights(step: ArrayLike, smoothness: float) -> NDArray[np.float64]:
    """Probabilities of stopping after 1, 2, ... steps: proportional to ``2η_k - βη_k²``.

    Parameters
    ----------
    step : array-like of shape (iterations,)
        ``η_k < 2/β``.
    smoothness : float

    Returns
    -------
    ndarray of shape (iterations,)

    Raises
    ------
    ValueError
        If a step is not in ``(0, 2/β)``.
    """
    steps = np.asarray(step, dtype=np.float64)
    weights = 2.0 * steps - smoothness * steps**2
    if not (steps.ndim == 1 and steps.size and np.all(weights > 0.0)):
        raise ValueError(f"step must hold numbers in (0, 2/{smoothness!r}); got {step!r}.")
    return np.asarray(weights / weights.sum())


def _step_sums(step: ArrayLike, iterations: int | None) -> tuple[float, float, float]:
    """``Ση``, ``Ση²`` and the largest step, of an array or of a constant."""
    steps = np.asarray(step, dtype=np.float64)
    if iterations is not None:
        size = check_real("step", float(steps), low=0.0, low_open=True)
        return iterations * size, iterations * size**2, size
    return float(steps.sum()), float((steps**2).sum()), float(steps.max())


def _stopping_mass(step: ArrayLike, iterations: int | None, smoothness: float) -> tuple[float, ...]:
    total, squares, largest = _step_sums(step, iterations)
    if not largest * smoothness < 2.0:
        raise ValueError(f"step must be < 2 / smoothness = {2.0 / smoothness:.6g}; got {largest}.")
    return total, squares, 2.0 * total - smoothness * squares


def rrpsgd_gradient_bound(
    step: ArrayLike,
    smoothness: float,
    variance: float,
    initial_gap: float,
    iterations: int | None = None,
) -> float:
    """Theorem 5: bound of ``E‖∇F(w_R)‖²``, convex or not.

    ``β (D_F² + σ²Ση²)/Σ(2η - βη²)``, ``D_F² = 2(F(w_0) - F*)/β``: the descent lemma along one step
    with a gradient of mean ``∇F`` and variance ``σ²`` loses ``(η - βη²/2)‖∇F‖²`` and gains at most
    ``βη²σ²/2``; summed over the steps, and weighted as R is drawn.

    Parameters
    ----------
    step : float or array-like of shape (iterations,)
        ``η < 2/β``.
    smoothness, variance : float
        ``β`` and ``σ²``.
    initial_gap : float
        Bound of ``F(w_0) - F*``.
    iterations : int or None, default=None
        Number of steps, if `step` is one number.

    Returns
    -------
    float
    """
    _, squares, mass = _stopping_mass(step, iterations, smoothness)
    return (2.0 * initial_gap + smoothness * variance * squares) / mass


def rrpsgd_convex_bound(
    step: ArrayLike,
    smoothness: float,
    variance: float,
    distance: float,
    iterations: int | None = None,
) -> float:
    """Theorem 5 for convex objectives: bound of ``E F(w_R) - F*``.

    ``(D² + σ²Ση²)/Σ(2η - βη²)``, ``D = ‖w_0 - w*‖``: ``E‖w⁺ - w*‖² <= ‖w - w*‖² - 2η<∇F, w - w*>
    + η²(‖∇F‖² + σ²)``, and ``‖∇F‖² <= β<∇F, w - w*>``.

    Parameters
    ----------
    step, smoothness, variance, iterations
        As for :func:`rrpsgd_gradient_bound`.
    distance : float
        ``D``.

    Returns
    -------
    float
    """
    _, squares, mass = _stopping_mass(step, iterations, smoothness)
    return (distance**2 + variance * squares) / mass


def rrpsgd_high_probability_bound(
    step: ArrayLike,
    smoothness: float,
    lipschitz: float,
    dim: int,
    noise_stddev: float,
    initial_gap: float,
    failure: float,
    iterations: int | None = None,
) -> float:
    """Theorem 6: with probability ``1 - γ``, bound of ``‖∇F(w_R)‖²`` averaged over R alone.

    With ``ζ`` the error of the noisy gradient, the sum behind :func:`rrpsgd_gradient_bound` is,
    without expectations, ``Σ(η - βη²/2)‖∇F‖² <= F(w_0) - F* - Σ(η - βη²)<∇F, ζ> +
    (β/2)Ση²‖ζ‖²``.  ``E exp(‖ζ‖²/s²) <= e`` for ``s² = max(16L², 8dσ_z²)`` (``‖ζ‖² <= 8L² +
    2‖z‖²``, and ``E exp(2‖z‖²/s²) <= (1 - 1/(2d))^{-d/2} <= √e``).  So with probability ``1 - γ/2``
    each, the martingale is below ``√(3 log(2/γ) Σ(η - βη²)²) L s`` (Lemma 4) and the last sum
    below ``(1 + log(2/γ)) s² Ση²`` (Jensen and Markov).

    Parameters
    ----------
    step, smoothness, initial_gap, iterations
        As for :func:`rrpsgd_gradient_bound`.
    lipschitz : float
    dim : int
    noise_stddev : float
        ``σ_z``.
    failure : float
        ``γ``.

    Returns
    -------
    float
    """
    failure = check_real("failure", failure, low=0.0, low_open=True, high=1.0)
    _, squares, mass = _stopping_mass(step, iterations, smoothness)
    tail = math.log(2.0 / failure)
    spread = max(16.0 * lipschitz**2, 8.0 * dim * noise_stddev**2)
    # |η - βη²| <= η for η < 2/β.
    martingale = math.sqrt(3.0 * tail * squares * spread) * lipschitz
    energy = 0.5 * smoothness * (1.0 + tail) * spread * squares
    return 2.0 * (initial_gap + martingale + energy) / mass
