r"""Zhang, Zheng, Mou & Wang 2017, "Efficient private ERM for smooth objectives": Algorithm 1.

``F(w) = (1/n) Σ f(w, ξ_i)``, every ``f`` L-Lipschitz in what depends on the data, ``F`` µ-strongly
convex (or ``µ = 0``, convex) and β-smooth, the ridge included in both.  Algorithm 1 takes T steps
of gradient descent and adds noise to the last iterate.

Where this departs from the paper:

- Lemmas 2 and 3 bound the sensitivity of Algorithm 1 by ``3LT/(nβ)`` and ``5L(µ + β)/(nµβ)``.
  :func:`descent_sensitivity` is smaller and is reached (a linear loss).
- The noise of Algorithm 1 has the variance ``2 log(2/δ) Δ²/ε²``, whose proof needs ``ε <= 1``;
  Theorem 1 claims every ε.  At given (ε, δ) the exact condition tells whether the formula holds
  (:mod:`dpfast.privacy.papers`): at ``δ = 0.001`` it does at the ``ε = 2`` of their Table 3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dpfast._validation import check_integer, check_real


def descent_contraction(step: float, mu: float, smoothness: float) -> float:
    """``c``: a gradient step brings two points at least this much closer.

    ``w - η∇F(w)`` has the Jacobian ``I - η∇²F`` with eigenvalues in ``[1 - ηβ, 1 - ηµ]``, so
    ``c = max(|1 - ηµ|, |1 - ηβ|)``; it is at most 1 for ``η <= 2/β`` and least at ``2/(β + µ)``.
    A step that is longer by rounding is admitted, with the c above 1 that it has.

    Parameters
    ----------
    step : float
        ``0 < η <= 2/β``.
    mu, smoothness : float
        ``0 <= µ <= β``.

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
    return max(abs(1.0 - step * mu), abs(1.0 - step * smoothness))


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
    elif c > 1.0:
        total = math.expm1(iterations * math.log(c)) / (c - 1.0) * (1.0 + 2.0**-40)
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
    """
    c = descent_contraction(step, mu, smoothness)
    bound = 0.5 * smoothness * c ** (2 * iterations) * distance**2
    if iterations > 0 and step * smoothness <= 1.0 + 1e-12:
        bound = min(bound, distance**2 / (2.0 * step * iterations))
    return bound


class Setting(NamedTuple):
    """A class of functions, a data set's size, and a budget, as the theorems have them.

    Attributes
    ----------
    mu, smoothness, lipschitz : float
        ``µ`` (0 for functions that are only convex), ``β`` and ``L``.
    distance : float
        ``D``, bound of ``‖ŵ‖``.
    n_samples, dim : int
    epsilon, delta : float
    """

    mu: float
    smoothness: float
    lipschitz: float
    distance: float
    n_samples: int
    dim: int
    epsilon: float
    delta: float

    @property
    def dim_squared(self) -> float:
        """What stands for d² in the rates: d² for δ = 0, d log(1/δ) otherwise."""
        if self.delta == 0.0:
            return float(self.dim) ** 2
        return self.dim * max(1.0, -math.log(self.delta))

    @property
    def iterations(self) -> int:
        """T of Theorems 2 and 3 with the constant 1, at least 1.

        ``(µ² + β²)/(µβ) · log(µ²n²ε²D²/(L²d²))``; for ``µ = 0`` ``(β²n²ε²D²/(L²d²))^{1/3}``, where
        the optimization error ``βD²/T`` and the noise's ``d²L²T²/(βn²ε²)`` meet.
        """
        mu, beta = self.mu, self.smoothness
        bend = mu if mu > 0.0 else beta
        ratio = (bend * self.n_samples * self.epsilon * self.distance / self.lipschitz) ** 2
        ratio /= self.dim_squared
        if mu == 0.0:
            return max(1, math.ceil(float(ratio ** (1.0 / 3.0))))
        return max(1, math.ceil((mu**2 + beta**2) / (mu * beta) * math.log(max(ratio, 1.0))))


def population_ridge(setting: Setting, failure: float) -> float:
    """Ridge of the text after Theorem 3, for the population risk of convex losses.

    ``2 L^{1/2} (βd)^{1/4} / (√(nεγ) R)`` with the distance as R; ``d²`` takes the place of ``d``
    where the budget is pure, for which the paper gives no ridge of its own.

    Parameters
    ----------
    setting : Setting
    failure : float
        ``γ``, the probability with which the bound may fail.
    """
    check_real("failure", failure, low=0.0, low_open=True, high=1.0)
    dim = setting.dim if setting.delta > 0.0 else setting.dim**2
    top = 2.0 * math.sqrt(setting.lipschitz) * (setting.smoothness * dim) ** 0.25
    spread = math.sqrt(setting.n_samples * setting.epsilon * failure)
    return float(top / (spread * setting.distance))
