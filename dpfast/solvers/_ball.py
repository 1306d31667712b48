r"""The exponential mechanism over the grid points of a ball, sampled exactly by rejection.

Law
---
Over the points ``w = w₀ + γk`` of a grid with ``‖γk‖ <= r`` ::

    P(k) ∝ exp(-V(k)),   V(k) = |V - s F(w)| <= e up to a constant,   F = f + (α/2)‖w‖²

``f`` the mean loss.  Everything but V depends on public quantities and earlier releases alone.

Privacy
-------
Let ``h = f - f'`` for neighbors, and ``ω`` bound ``max h - min h`` over the ball.  The ridge
cancels, so ``V - V'`` lies in an interval of length ``s ω + 4e``, and ``log(P/P')``, which differs
from it by the constant ``log(Z'/Z)``, in another one, which holds 0 since both laws add up to one:
an event of ``epsilon = s ω + 4e`` (McSherry & Talwar 2007; Lowy & Razaviyayn 2021, Algorithm 9,
has ``2 e = 0``).  ``ω = k ρ / n``, with :func:`~dpfast.privacy.records_apart` ``k`` and ``ρ`` the
range of one record's loss over the ball.  That is at most ``2 r L``; around the origin it is also
at most ``max(ℓ(-m), ℓ(m))``, ``m`` the largest margin, because a loss of classification is convex
and not negative, which is half of it for the logistic loss.

Sampling
--------
For *any* point p, the gradient ``g = ∇f(p) + αw₀`` gives, ``f`` being convex, ``u = γk``::

    s F(w) = (s α / 2) ‖u - ū‖² + A(u) + const,   ū = -g / α,
    A(u) = s [f(w) + αw₀·u + αu·ū] - min >= 0

so discrete Gaussian proposals around the grid point next to ``ū``, each accepted with probability
``exp(-A)`` and only inside the ball, have the law ``exp(-s F)``: the strong convexity's Gaussian is
the envelope, and nothing need be known about the minimizer.  (That p is close to it only makes A
small.)  Proposals are exact (integers), ``A`` as computed is rounded to a multiple of ``2^-40``,
and a Bernoulli variable of probability ``exp(-A)`` is drawn exactly in integers (Canonne, Kamath &
Steinke 2020, Algorithm 1).  So V is what was computed, the law is exact for it, and ``e`` bounds
its floating-point error.  Points with ``A > 1000`` are never accepted, within ``exp(-1000)`` of the
law.  How many proposals it takes depends on the data, and this time is not protected.

A Markov chain would be faster in high dimension, but one that has not provably mixed is not
private.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from dpfast.objectives import Erm
from dpfast.optimizers import OPTIMIZERS
from dpfast.privacy import ExponentialEvent, records_apart
from dpfast.problem import Problem, ProblemShape
from dpfast.random import SecureGenerator

Vector = NDArray[np.float64]

_UNIT = 2.0**-53
# Accuracy of the computed exponents A, and the largest that is ever accepted.
_EXPONENT_BITS = 40
_MAX_EXPONENT = 1000.0
# Standard deviation of the proposals in grid steps, at least.
_MIN_STDDEV = 2**24
_NEWTON_MAX_DIM = 1000


@dataclass(frozen=True)
class Ball:
    """A public description of the law: all but the data.

    Attributes
    ----------
    shape : ProblemShape
        With the ridge α.
    neighboring_relation : str
    radius : float
        ``r``.
    offset : float
        Bound of ``‖w₀‖``.
    scale : float
        ``s``: the inverse temperature.
    epsilon : float
        What one sample is charged.
    error : float
        ``e``.
    """

    shape: ProblemShape
    neighboring_relation: str
    radius: float
    offset: float
    scale: float
    epsilon: float
    error: float

    @property
    def alpha(self) -> float:
        """The ridge."""
        assert self.shape.alpha is not None
        return self.shape.alpha

    @property
    def grid_step(self) -> float:
        """``γ``, a power of two at most 2^-24 proposal standard deviations."""
        width = 1.0 / math.sqrt(self.scale * self.alpha)
        return math.ldexp(1.0, math.floor(math.log2(width / _MIN_STDDEV)))

    @property
    def excess_risk(self) -> float:
        """Bound ``d / s`` of the expected excess of F over its minimum on the ball.

        For a convex F, ``E F - min F <= d / s`` under the density ``exp(-s F)`` on a convex body
        (de Klerk & Laurent 2018, Theorem 3.3; equality for linear F on a cone).
        """
        return self.shape.dim / self.scale

    @property
    def trials(self) -> float:
        """Estimate of the proposals for one sample, from public quantities.

        On the whole space it is at most ``det(I + A/α)^½``, where ``A = max|ℓ''| mean x̃x̃ᵀ`` has
        trace β at most, hence at most ``(1 + β/(dα))^(d/2) <= exp(β/(2α))`` (arithmetic and
        geometric means).  That is divided by the share of the widest Gaussian, of variance
        ``1/(sα)``, that a ball around its center holds.
        """
        d, alpha = self.shape.dim, self.alpha
        inside = float(chi2.cdf(self.scale * alpha * self.radius**2, d))
        growth = 0.5 * d * math.log1p(self.shape.smoothness / (d * alpha))
        return math.exp(min(growth, 600.0)) / max(inside, 1e-300)

    def event(self, where: str) -> ExponentialEvent:
        """Return the event that one sample is charged as."""
        return ExponentialEvent(
            epsilon=self.epsilon, neighboring_relation=self.neighboring_relation, where=where
        )

    def sample(self, problem: Problem, center: Vector, rng: SecureGenerator) -> Vector:
        """Draw one point.  The event must have been spent, and `center` be public."""
        return next(self.draws(problem, center, rng))

    def draws(self, problem: Problem, center: Vector, rng: SecureGenerator) -> Iterator[Vector]:
        """Draw points, each of which costs one event."""
        s, alpha, step = self.scale, self.alpha, self.grid_step
        n = self.shape.n_samples
        stddev = math.ceil(1.0 / (step * math.sqrt(s * alpha)))
        # Public bound of a row's loss on the ball: never acts but for rounding.
        loss_clip = _largest_loss(self.shape, self.offset + self.radius) * (1.0 + 1e-9)

        optimizer = "newton" if self.shape.dim <= _NEWTON_MAX_DIM else "lbfgs"
        point = OPTIMIZERS[optimizer](
            Erm(problem, alpha),
            tolerance=4.0 * self.shape.gradient_error(self.offset + self.radius),
        ).w
        inner = point - center
        norm = float(np.linalg.norm(inner))
        if norm > self.radius:
            inner *= self.radius / norm
        point = center + inner

        gradient = problem.clipped_gradient(point)[0] / n + alpha * center
        middle = np.rint(-gradient / alpha / step)
        # s α γ² stddev² is 1 up to rounding: what counts is that both parts of V use one value.
        pull = middle / (float(stddev) ** 2 * step)
        residual = float(np.linalg.norm(s * gradient + pull))

        def linear(u: Vector) -> float:
            return float(s * (problem.objective(center + u, loss_clip) / n + alpha * (center @ u))
                         + pull @ u)  # fmt: skip

        slack = 2.0 * self.radius * (residual + s * self.shape.gradient_error(self.offset + norm))
        least = linear(inner) - slack - 2.0 * self.error
        integers = middle.astype(np.int64)
        while True:
            moved = integers + rng.discrete_gaussian(stddev, len(integers))
            u = step * moved.astype(np.float64)
            if float(np.linalg.norm(u)) > self.radius:
                continue
            exponent = max(0.0, linear(u) - least)
            if exponent <= _MAX_EXPONENT and _accepts(exponent, rng):
                yield center + u


def settle(
    shape: ProblemShape,
    epsilon: float,
    neighboring_relation: str,
    *,
    radius: float,
    offset: float = 0.0,
) -> Ball:
    """Return the coldest law on the ball that costs at most `epsilon`.

    Parameters
    ----------
    shape : ProblemShape
        With a ridge.
    epsilon : float
    neighboring_relation : str
    radius : float
    offset : float, default=0.0
        Bound of the center's norm.

    Returns
    -------
    Ball
    """
    assert shape.alpha is not None
    radius_charged = radius * (1.0 + 1e-9)
    reach = offset + radius_charged
    spread = 2.0 * radius_charged * shape.lipschitz
    if offset == 0.0:
        spread = min(spread, _largest_loss(shape, reach))
    records = records_apart(neighboring_relation)
    slope = shape.lipschitz + shape.alpha * offset
    # A mean of losses (chunk by chunk, in whatever order within one), its margins, and the two
    # scalar products.
    additions = shape.longest_chain(_mean_additions)
    rounding = 1.1 * _UNIT * (
        (additions + 24) * _largest_loss(shape, reach) * 1.01
        + 8.0 * shape.max_weight
        + (shape.dim + 6) * shape.lipschitz * reach
        + 2.0 * (shape.dim + 8) * slope * reach
    )  # fmt: skip
    last = math.ldexp(1.0, -_EXPONENT_BITS)
    price = records * spread / shape.n_samples + 4.0 * rounding
    scale = (epsilon - 4.0 * last) / price * (1.0 - 1e-9)
    return Ball(
        shape=shape,
        neighboring_relation=neighboring_relation,
        radius=radius,
        offset=offset,
        scale=scale,
        epsilon=epsilon,
        error=scale * rounding + last,
    )


def _largest_loss(shape: ProblemShape, reach: float) -> float:
    """Return a bound of one weighted row's loss at ``‖w‖ <= reach``, for classification."""
    margin = shape.row_norm * reach * (1.0 + 1e-9)
    values = shape.loss(np.array([-margin, margin]), np.ones(2))[0]
    return float(values.max()) * shape.max_weight * (1.0 + 1e-9)


def _accepts(exponent: float, rng: SecureGenerator) -> bool:
    """Draw True with probability exp(-exponent), exactly for the exponent rounded to 2^-40."""
    whole = 1 << _EXPONENT_BITS
    remaining = round(math.ldexp(exponent, _EXPONENT_BITS))
    while remaining > 0:
        part = min(remaining, whole)
        # exp(-x) for x <= 1: the parity of the first k at which a coin of bias x / k shows tails.
        k = 1
        while _below(whole * k, rng) < part:
            k += 1
        if k % 2 == 0:
            return False
        remaining -= part
    return True


def _mean_additions(shape: ProblemShape) -> int:
    """Longest chain behind a mean of losses over rows in one array."""
    chunk = min(shape.chunk_rows(), shape.n_samples)
    return chunk + -(-shape.n_samples // chunk)


def _below(bound: int, rng: SecureGenerator) -> int:
    """Draw a uniform integer in [0, bound), bound < 2^63."""
    limit = (1 << 64) // bound * bound
    while True:
        word = int(rng.uint64(1)[0])
        if word < limit:
            return word % bound


def refusal_reason(shape: ProblemShape) -> str | None:
    """Return what the loss must be and is not, or None."""
    loss = shape.loss
    needs = {
        "one of classification, whose values are bounded on a ball": loss.kind == "classification",
        "convex, so that the ridge makes an envelope": loss.convex,
        "of bounded slope, so that one record's influence is bounded": math.isfinite(
            loss.lipschitz
        ),
        "smooth, so that the number of proposals is bounded": math.isfinite(loss.smoothness),
    }
    return next((need for need, met in needs.items() if not met), None)
