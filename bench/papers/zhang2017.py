"""Zhang et al. 2017: rates and bounds of their two algorithms that no plan rests on.

See :mod:`dpfast.theory.zhang2017`, which has the notation.  The paper states its utility as rates,
``O(·)`` and ``Θ(·)``.  Here a function named `..._rate` is such a rate with the constant 1, and a
function named `..._bound` is an inequality with all its constants, proved in its docstring.
`distance` is the bound ``D`` of ``‖ŵ‖``, `failure` the ``γ`` of a bound that holds with probability
``1 - γ`` (None: in expectation), `variance` the ``σ²`` of a noisy gradient, `noise_stddev` the
``σ_z`` of the noise in a coordinate, `initial_gap` a bound of ``F(w_0) - F*``.  A `step` is one
number for so many `iterations`, or an array without.

Where this departs from the paper:

- Theorem 3 reads ``(βLd‖ŵ‖²/(nε))^{2/3}``; the T that it states gives ``√β``, as in
  :func:`convex_rate`.
- The step of Theorem 5 is read as ``min(1/β, D_F/(σn))``, as in its source (Ghadimi & Lan 2013,
  Corollary 2.2, with ``N = n²`` steps).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast import ProblemShape
from dpfast._validation import check_real
from dpfast.solvers._contract import TYPICAL_MARGIN
from dpfast.solvers._noisy_epochs import natural_norm
from dpfast.theory.zhang2017 import (
    Setting,
    descent_bound,
    descent_sensitivity,
    paper_sensitivity,
)


def noise_bound(smoothness: float, second_moment: float) -> float:
    """``E F(w + z) - F(w) <= (β/2) E‖z‖²`` for noise of mean zero: the descent lemma."""
    return 0.5 * smoothness * second_moment


def strongly_convex_rate(s: Setting) -> float:
    """Theorem 2: excess risk ``βL²d²/(µ²n²ε²)``, ``d log(1/δ)`` in the place of ``d²``.

    The paper's text leaves out ``µ²`` where µ counts as a constant; its proof has it.
    """
    scale = s.lipschitz / (s.mu * s.n_samples * s.epsilon)
    return float(s.smoothness * scale**2 * s.dim_squared)


def convex_rate(s: Setting) -> float:
    """Theorem 3: excess risk ``(√β L d D²/(nε))^{2/3}``; for δ > 0, ``√(d log(1/δ))`` for d."""
    width = math.sqrt(s.smoothness * s.dim_squared)
    scale = width * s.lipschitz * s.distance**2 / (s.n_samples * s.epsilon)
    return float(scale ** (2.0 / 3.0))


def excess_risk_bound(s: Setting) -> float:
    """Theorems 2 and 3 (µ = 0) with constants: bound of ``E F(w_priv) - F(ŵ)`` for Algorithm 1.

    ``E F(w_T + z) - F* <= (F(w_T) - F*) + (β/2) E‖z‖²``, :func:`descent_bound` and
    :func:`noise_bound`, for the theorems' step and T (with the constant 1), noise calibrated to
    :func:`paper_sensitivity` by the paper's formulas: ``E‖z‖² = d(d + 1) Δ²/ε²`` for ``δ = 0``,
    ``2d log(2/δ) Δ²/ε²`` otherwise.
    """
    count, step = s.iterations, 1.0 / (s.smoothness + s.mu)
    scale = paper_sensitivity(count, s.mu, s.smoothness, s.lipschitz, s.n_samples) / s.epsilon
    width = s.dim * (s.dim + 1.0)
    if s.delta > 0.0:
        width = 2.0 * s.dim * math.log(2.0 / s.delta)
    optimization = descent_bound(count, step, s.mu, s.smoothness, s.distance)
    return optimization + noise_bound(s.smoothness, width * scale**2)


def population_rate(s: Setting, failure: float) -> float:
    """After Theorem 2, for δ > 0: population risk ``L²√(βd)/(nεµ^{3/2}√γ)`` of strong convexity.

    With probability ``1 - γ``, logarithms left out: ``L √(2 (F(w) - F(ŵ))/µ)`` (Shalev-Shwartz et
    al. 2009) at :func:`strongly_convex_rate` over γ.  The text has ``µ`` and ``γ`` without their
    exponents, which the step from Theorem 2 gives and which make a loss of it.
    :func:`population_bound` is smaller.
    """
    failure = check_real("failure", failure, low=0.0, low_open=True, high=1.0)
    width = math.sqrt(s.smoothness * s.dim / (s.mu * failure))
    return s.lipschitz**2 * width / (s.mu * s.n_samples * s.epsilon)


def population_bound(s: Setting, failure: float | None = None) -> float:
    """The same with all constants: bound of ``E G(w_priv) - G(w*)`` for Algorithm 1, ``µ > 0``.

    ``G`` is the mean over the population that the records are drawn from, ``w*`` its minimizer.
    The noise has mean zero and does not depend on the records, so ``E G(w_T + z) - G(w_T) <=
    (β/2) E‖z‖²``.  ``E G(w_T) - F(w_T) <= L Δ``, Δ the distance of neighbors' iterates: a fresh
    record takes the place of one of the sample, and what does not depend on records cancels (Hardt,
    Recht & Singer 2016, Theorem 2.2).  ``F(w_T) - F(w*) <= F(w_T) - F(ŵ)``.  The paper bounds the
    first of these by ``L‖z‖``, the root of what it is here.
    """
    mu = check_real("mu", s.mu, low=0.0, low_open=True)
    step, distance = 1.0 / (s.smoothness + mu), 2.0 * s.lipschitz / s.n_samples
    apart = descent_sensitivity(s.iterations, step, mu, s.smoothness, distance)
    bound = excess_risk_bound(s) + s.lipschitz * apart
    if failure is None:
        return bound
    return bound / check_real("failure", failure, low=0.0, low_open=True, high=1.0)


def rrpsgd_variance(lipschitz: float, dim: int, noise_stddev: float) -> float:
    """``σ²`` of Theorem 5: ``E‖g - ∇F‖² <= 4L² + dσ_z²`` for the noisy gradient of one record."""
    return 4.0 * lipschitz**2 + dim * noise_stddev**2


def rrpsgd_step(iterations: int, smoothness: float, variance: float, distance: float) -> float:
    """Constant step ``min(1/β, D/(σ√N))`` of Theorem 5, ``N = n²`` there."""
    return min(1.0 / smoothness, distance / math.sqrt(variance * iterations))


def stopping_weights(step: ArrayLike, smoothness: float) -> NDArray[np.float64]:
    """Probabilities of stopping after 1, 2, ... steps: proportional to ``2η_k - βη_k²``."""
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
    """
    failure = check_real("failure", failure, low=0.0, low_open=True, high=1.0)
    _, squares, mass = _stopping_mass(step, iterations, smoothness)
    tail = math.log(2.0 / failure)
    spread = max(16.0 * lipschitz**2, 8.0 * dim * noise_stddev**2)
    # |η - βη²| <= η for η < 2/β.
    martingale = math.sqrt(3.0 * tail * squares * spread) * lipschitz
    energy = 0.5 * smoothness * (1.0 + tail) * spread * squares
    return 2.0 * (initial_gap + martingale + energy) / mass


def bassily_options(shape: ProblemShape, batch: int = 50) -> dict[str, Any]:
    """Options of dp-sgd for the private SGD of Bassily et al. as zhang2017 and lowy2021 compare it.

    ``n²/m`` steps along batches of m rows (n² steps of one row in the original), noise by advanced
    composition, the last iterate; step sizes ``1/(αt)`` with a ridge, which is Algorithm 1 for
    strongly convex losses (projected on the ball that holds the minimizer), and ``B/(G√t)``
    without, G² the mean squared norm of a noisy gradient without noise.

    Parameters
    ----------
    shape : ProblemShape
        With its ridge, if any.
    batch : int, default=50
        m; zhang2017's choice.

    Returns
    -------
    options : dict
    """
    options: dict[str, Any] = {
        "batch": batch,
        "steps": math.ceil(shape.n_samples**2 / batch),
        "average": "none",
        "calibration": "advanced",
        "clip_norm": natural_norm(shape),
    }
    if shape.alpha is not None:
        radius = shape.minimizer_norm(shape.alpha)
        return options | {"schedule": "1/t", "step": 1.0 / shape.alpha, "w_radius": radius}
    radius = TYPICAL_MARGIN / shape.row_norm
    step = radius / shape.lipschitz
    return options | {"schedule": "1/sqrt(t)", "step": step, "w_radius": radius}
