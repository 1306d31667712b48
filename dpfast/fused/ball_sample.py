r"""The exponential mechanism over the grid points of a ball, sampled exactly by rejection.

Law
---
Over the points ``w = w₀ + γk`` of a grid with ``‖γk‖ <= r`` (and ``‖w‖ <= R``, where constants are
declared for that ball only) ::

    P(k) ∝ exp(-V(k)),   V(k) = |V - s F(w)| <= e up to a constant

with F µ-strongly convex: the risk of a problem with its ridge, or any objective by its declared
constants (:class:`~dpfast.objectives.GeneralShape`).  Everything but V depends on public quantities
and earlier releases alone.

Privacy
-------
Let ``h = F - F'`` for neighbors, and ``ω`` bound ``max h - min h`` over the points.  ``V - V'``
lies in an interval of length ``s ω + 4e``, and ``log(P/P')``, which differs from it by the constant
``log(Z'/Z)``, in another one, which holds 0 since both laws add up to one: an event of
``epsilon = s ω + 4e`` (McSherry & Talwar 2007; Lowy & Razaviyayn 2021, Algorithm 9, has
``2 e = 0``).

* Problem: the ridge cancels in h, and ``ω = k ρ / n``, with
  :func:`~dpfast.privacy.records_apart` ``k`` and ``ρ`` the range of one record's loss over the
  ball.  That is at most ``2 r L``; around the origin it is also at most ``max(ℓ(-m), ℓ(m))``,
  ``m`` the largest margin, because a loss of classification is convex and not negative, which is
  half of it for the logistic loss.
* Objective: ``‖∇h‖ <= G`` (:meth:`~dpfast.objectives.GeneralShape.difference_lipschitz`), and any
  two of the points are joined by a segment of length at most ``2 min(r, R)`` on which it holds, so
  ``ω = 2 G min(r, R)``.  With ``G = 2L`` this is the ``4LR`` of lowy2021; for a mean of n terms G,
  and with it ω, is n times smaller.

Sampling
--------
The proposals are discrete Gaussian around a grid point ``γm``, of variance ``1/κ``, ``κ`` just
below ``sµ``.  Accepted with probability ``exp(-A)``, and only inside the region, ::

    A(u) = s F(w) - (κ/2) ‖u - γm‖² - min >= 0,   u = γk,

they have the law ``exp(-s F)``, whatever m is and wherever the minimizer lies.  ``s F`` being
``sµ``-strongly convex, A is convex, so the line through any one point p bounds it from below:
``A(u) >= A(p) + ∇A(p)·(u - p)``.  That takes ``F(p)`` and ``∇F(p)``, no knowledge of a minimizer;
but proposals are few where p is about the minimizer *over the region* and the line is flat:

* inside the region, ``∇F(p) = 0``, and with ``γm`` next to ``p - ∇F(p)/µ`` so is ``∇A(p)``;
* on its boundary (rare: a localized ball misses the minimizer with a probability of 10⁻⁶), F falls
  to the outside alone: ``-∇F(p) = Σ λ_i (p - c_i)``, ``λ_i >= 0``, over the centers ``c_i`` of the
  balls on whose edge p lies.  ``-(p - c)·(w - p) >= (‖p - c‖² - ‖w - c‖²)/2 >= 0`` for w in a ball
  of radius ``‖p - c‖``, so this part of the gradient lifts A and is left in it; ``γm`` is next to
  ``p - (∇F(p) + Σ λ_i (p - c_i))/µ``.

**It ends.**  With p the minimizer over the region K and ``γm = p``, a proposal is accepted with
probability ``(sµ/2π)^(d/2) ∫_K exp(-s (F - F(p)))``, up to the grid.  K holds a ball of radius
``r/2`` (as ``r <= 2R``, about), and its image ``K_t`` under shrinking towards p by
``t = min(1, 1/(2 s H r))``, ``H`` a bound of ``‖∇F‖`` on K, on which ``s (F - F(p)) <= 1``.  So the
probability is at least
``exp(-1) (sµ/2π)^(d/2) t^d vol(r/2)``: a public number above 0, whatever the data, and there is no
run that must be given up, hence no other release that would have to be accounted for.

Proposals are exact (integers), ``A`` as computed is rounded to a multiple of ``2^-40``, and a
Bernoulli variable of probability ``exp(-A)`` is drawn exactly in integers (Canonne, Kamath &
Steinke 2020, Algorithm 1).  So V is what was computed, the law is exact for it, and ``e`` bounds
its floating-point error.  How many proposals it takes depends on the data, and this time is not
protected.

A Markov chain would be faster in high dimension, but one that has not provably mixed is not
private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.optimize

from dpfast._typing import Vector
from dpfast.losses import Loss
from dpfast.mechanisms import Access
from dpfast.objectives import Erm, GeneralShape
from dpfast.optimizers.balls import minimize_in_balls
from dpfast.privacy import Event, ExponentialEvent, records_apart
from dpfast.random import SecureGenerator
from dpfast.shape import UNIT, ProblemShape

# Accuracy of the computed exponents A.
_EXPONENT_BITS = 40
# Standard deviation of the proposals in grid steps, at least.
_MIN_STDDEV = 2**24
# Proposals drawn at a time.
_PROPOSALS = 32
# A point this close to a ball's edge, relative to its radius, is on it.
_ON_THE_EDGE = 1e-9


class BallSample(Access[Vector]):
    """One point of the coldest law on a ball that costs at most `epsilon`.

    Parameters
    ----------
    shape : ProblemShape or GeneralShape
        A problem's with a ridge.
    epsilon : float
        What one sample is charged.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    radius : float
        ``r``.
    offset : float, default=0.0
        Bound of the norm of the ball's center ``w₀``.
    where : str, default=""
        The place in the algorithm, for the ledger.

    Attributes
    ----------
    scale : float
        ``s``: the inverse temperature.
    error : float
        ``e``.
    domain : float
        ``R``: no point is longer.

    Raises
    ------
    TypeError, ValueError
        If the law is not proved for this shape.
    """

    def __init__(
        self,
        shape: Any,
        epsilon: float,
        neighboring_relation: str,
        *,
        radius: float,
        offset: float = 0.0,
        where: str = "",
    ) -> None:
        check_shape(shape, "exponential")
        self.shape, self.neighboring_relation = shape, neighboring_relation
        self.epsilon, self.radius, self.offset = epsilon, radius, offset
        self.where = where
        self.domain = math.inf
        radius_charged = radius * (1.0 + 1e-9)
        if isinstance(shape, ProblemShape):
            price, rounding = _problem_price(shape, neighboring_relation, radius_charged, offset)
        else:
            # Its constants are declared for this ball; a computed norm may be too small by
            # rounding.
            self.domain = shape.minimizer_norm * (1.0 - 1e-9)
            price, rounding = _objective_price(shape, neighboring_relation, radius_charged)
        last = math.ldexp(1.0, -_EXPONENT_BITS)
        self.scale = (epsilon - 4.0 * last) / (price + 4.0 * rounding) * (1.0 - 1e-9)
        self.error = self.scale * rounding + last

    @property
    def alpha(self) -> float:
        """The strong convexity µ, which is a problem's ridge."""
        return _modulus(self.shape)

    @property
    def grid_step(self) -> float:
        """``γ``, a power of two at most 2^-24 proposal standard deviations."""
        width = 1.0 / math.sqrt(self.scale * self.alpha)
        return math.ldexp(1.0, math.floor(math.log2(width / _MIN_STDDEV)))

    def events(self, count: int = 1) -> tuple[Event, ...]:
        """Return what `count` samples are charged as."""
        return (
            ExponentialEvent(
                epsilon=self.epsilon,
                neighboring_relation=self.neighboring_relation,
                where=self.where,
                count=count,
            ),
        )

    def check(self, *point: Any) -> None:
        """Refuse a center beyond the offset, for which the price does not hold."""
        if not all(np.shape(each) == (self.shape.dim,) for each in point) or len(point) > 1:
            raise ValueError(
                f"center must be one array of {self.shape.dim} numbers, or left out; got "
                f"{point}. Nothing was spent."
            )
        norm = float(np.linalg.norm(point[0])) if point else 0.0
        if not norm <= self.offset:
            raise ValueError(
                f"center must have a norm of at most {self.offset:.6g}, which the sample is "
                f"charged for; got {norm:.6g}."
            )

    def answer(self, prepared: Any, rng: SecureGenerator, *point: Any) -> Vector:
        """One point around the center, the argument; without one, around the origin."""
        center = point[0] if point else np.zeros(self.shape.dim)
        return next(self.draws(prepared, center, rng))

    def draws(self, problem: Any, center: Vector, rng: SecureGenerator) -> Iterator[Vector]:
        """Draw points, each of which costs one event; for studies of public data."""
        s, mu, step = self.scale, self.alpha, self.grid_step
        reach = min(self.offset + self.radius, self.domain)
        # One more, so that κ <= sµ in spite of the root's rounding.
        stddev = math.ceil(1.0 / (step * math.sqrt(s * mu))) + 1
        kappa = 1.0 / (float(stddev) * step) ** 2
        objective, part, ridge = self._function(problem, reach)

        # About the minimizer over the region.  Wherever a point is, the samples' law is the same.
        balls = [(center, self.radius)]
        if math.isfinite(self.domain):
            balls.append((np.zeros(len(center)), self.domain))
        tolerance = 4.0 * self.shape.gradient_error(reach)
        point = minimize_in_balls(objective, balls, tolerance=tolerance, sharpness=s)
        if not float(np.linalg.norm(point - center)) <= 2.0 * self.radius:  # NaN, too
            point = center.copy()
        inner = point - center
        gradient = objective.value_and_gradient(point)[1]
        # What holds the minimizer on the edge of a ball; see the module.
        edges = [
            (edge, radius)
            for edge, radius in ((inner, self.radius), (point, self.domain))
            if float(np.linalg.norm(edge)) >= (1.0 - _ON_THE_EDGE) * radius
        ]
        hold, slack = np.zeros(len(point)), 0.0
        if edges:
            normals = np.stack([edge for edge, _ in edges], axis=1)
            weights = scipy.optimize.nnls(normals, -gradient)[0]
            hold = normals @ weights
            for weight, (edge, radius) in zip(weights, edges, strict=True):
                outside = 0.5 * (radius**2 * (1.0 + 2.0**-40) - float(edge @ edge))
                slack += s * float(weight) * max(0.0, outside)
        integers = np.rint((inner - (gradient + hold) / mu) / step).astype(np.int64)
        pull = kappa * step * integers.astype(np.float64)
        # ∇A(p) except for what holds p on the edge: rounding errors, of whichever origin.
        tilt = s * (gradient + hold) - kappa * inner + pull
        tilted = float(np.linalg.norm(tilt)) + s * self.shape.gradient_error(reach)
        slack += 2.0 * self.radius * tilted

        def exponent(u: Vector) -> float:
            w = center + u
            lifted = part(w) + ridge * float(center @ u)
            # κ is sα for a problem, up to the rounding of `stddev`.
            return s * lifted + float(pull @ u) - 0.5 * (kappa - s * ridge) * float(u @ u)

        least = exponent(inner) - slack - 2.0 * self.error
        while True:
            noise = rng.discrete_gaussian(stddev, _PROPOSALS * len(integers))
            proposals = step * (integers + noise.reshape(_PROPOSALS, -1)).astype(np.float64)
            inside = np.linalg.norm(proposals, axis=1) <= self.radius
            inside &= np.linalg.norm(center + proposals, axis=1) <= self.domain
            for u in proposals[inside]:
                if _accepts(max(0.0, exponent(u) - least), rng):
                    yield center + u

    def _function(self, problem: Any, reach: float) -> tuple[Any, Callable[[Vector], float], float]:
        """F as an objective, and as ``f + (ridge/2)‖w‖²`` with the values of f."""
        if not isinstance(self.shape, ProblemShape):
            return problem, lambda w: float(problem.value_and_gradient(w)[0]), 0.0
        # Public bound of a row's loss on the ball: acts only on rounding errors.
        loss_clip = _largest_loss(self.shape, reach) * (1.0 + 1e-9)
        n = self.shape.n_samples
        return (
            Erm(problem, self.alpha),
            lambda w: float(problem.objective(w, loss_clip)) / n,
            self.alpha,
        )


def _problem_price(
    shape: ProblemShape, neighboring_relation: str, radius: float, offset: float
) -> tuple[float, float]:
    """``ω`` and the rounding error of ``V / s``, for a problem."""
    reach = offset + radius
    alpha = _modulus(shape)
    spread = 2.0 * radius * shape.record_lipschitz
    if offset == 0.0:
        spread = min(spread, _largest_loss(shape, reach))
    # ‖pull‖ / s, a gradient at the touching point among it.
    slope = shape.lipschitz + alpha * (offset + 2.0 * radius)
    # A mean of losses (chunk by chunk, in whatever order within one), its margins, and the three
    # scalar products.
    additions = shape.longest_chain(_mean_additions)
    rounding = 1.1 * UNIT * (
        (additions + 24) * _largest_loss(shape, reach) * 1.01
        + 8.0 * shape.max_weight
        + (shape.dim + 6) * shape.lipschitz * reach
        + 3.0 * (shape.dim + 8) * slope * reach
    )  # fmt: skip
    return records_apart(neighboring_relation) * spread / shape.n_samples, rounding


def _objective_price(
    shape: GeneralShape, neighboring_relation: str, radius: float
) -> tuple[float, float]:
    """``ω`` and the rounding error of ``V / s``, for an objective by its constants."""
    domain = shape.minimizer_norm
    apart = shape.difference_lipschitz(neighboring_relation)
    # A gradient vanishes somewhere in the domain, the diameter of which is 2R.
    slope = 2.0 * (shape.smoothness + shape.strong_convexity) * domain
    rounding = shape.value_error(domain) + 1.1 * UNIT * (
        8.0 * shape.largest_value + 4.0 * (shape.dim + 8) * slope * domain
    )
    return 2.0 * min(radius, domain) * apart, rounding


def _modulus(shape: Any) -> float:
    """µ: a problem's ridge, or what is declared."""
    if isinstance(shape, ProblemShape):
        assert shape.alpha is not None
        return shape.alpha
    return float(shape.strong_convexity)


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
        while rng.below(whole * k) < part:
            k += 1
        if k % 2 == 0:
            return False
        remaining -= part
    return True


def _mean_additions(shape: ProblemShape) -> int:
    """Longest chain behind a mean of losses over rows in one array."""
    chunk = min(shape.chunk_rows(), shape.n_samples)
    return chunk + -(-shape.n_samples // chunk)


def check_shape(shape: Any, name: str) -> None:
    """Refuse losses, and objectives without a constant, that the proof does not cover."""
    if isinstance(shape, ProblemShape):
        reason = refusal(shape.loss)
        if reason is not None:
            raise ValueError(f"loss must be {reason}, for {name}; got {shape.loss.name!r}.")
        return
    if not isinstance(shape, GeneralShape):
        raise TypeError(
            f"problem must be a Problem, or a General objective with declared constants, for "
            f"solver={name!r}; got {type(shape).__name__}."
        )
    for constant, why in (
        ("minimizer_norm", "it is the ball that is sampled from"),
        ("largest_value", "rounding errors of values are charged by it"),
        ("smoothness", "it bounds the number of proposals"),
    ):
        if not math.isfinite(getattr(shape, constant)):
            raise ValueError(
                f"{constant} of the objective must be finite for solver={name!r}, since {why}; "
                f"got inf."
            )


def refusal(loss: Loss) -> str | None:
    """What a loss must be and is not, or None."""
    needs = {
        "one of classification, whose values are bounded on a ball": loss.kind == "classification",
        "convex, so that the ridge makes an envelope": loss.convex,
        "of bounded slope, so that one record's influence is bounded": math.isfinite(
            loss.lipschitz
        ),
        "smooth, so that the number of proposals is bounded": math.isfinite(loss.smoothness),
    }
    return next((need for need, met in needs.items() if not met), None)
