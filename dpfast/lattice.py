r"""Vectors of integers k of law proportional to ``exp(-‖k‖₂ / λ)``, drawn exactly.

``exp(-u)`` is a mixture of Gaussians of all widths: with ``N_t(u) = exp(-u²/(4t))``,
``exp(-u) = ∫ (π t)^{-1/2} e^{-t} N_t(u) dt``.  The trapezoid rule in ``ln t`` turns it into a sum
of a few hundred terms that is hardly different for all u that matter.  So a term is chosen, every
coordinate is drawn from the discrete Gaussian of its width ``σ = λ √(2t)``, and the vector is
accepted with probability ``p(k) / (M q(k))``, p the law that is wanted and q the one that was drawn
from; otherwise all begins anew.  M is 1 and a little, so most vectors are accepted.

What makes it exact:

- Terms are chosen by whole numbers ``n_j``, so that ``q(k) = Σ_j n_j exp(-‖k‖²/(2σ_j²)) / Z_j^d``
  is known, not approximated: ``Z_j = σ_j √(2π)``, by Poisson summation up to a relative
  ``2 exp(-2π²σ_j²)``, which is below ``10^-8000`` for σ of 1000 and more.
- The vector is accepted if a uniform number is below the ratio.  Both are computed in floating
  point first, and in decimals of growing length as long as they cannot be told apart.
- Vectors with ``‖k‖/λ`` outside ``[low, high]`` are refused.  They have less than ``2^-1000`` of
  the mass; so do the same places for a neighbor's law, centered up to 300 λ away: those far out,
  since they are 300 λ farther out than that, those close by, since no ball has more of the mass
  than one of the same radius around the center.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector

_WEIGHT_BITS = 1600
_TAIL = 1040.0 * math.log(2.0)
# Neighbors' values may be so many λ apart; privacy with more has lost its meaning.
_SEEN_FROM = 300.0
_SLACK = math.log1p(0.02)
# Between terms, in 1/√u for the largest u: the sum is within 10^-3 of the integral.
_STEP = 1.6
_NARROWEST = -12.0


@dataclass(frozen=True)
class Mixture:
    """Terms of which a law is made, for dimension d and scale λ.

    `widths` are the ``σ_j``, `weights` the ``n_j``, `low` and `high` bounds of ``‖k‖ / λ``.
    """

    dimension: int
    scale: int
    widths: tuple[int, ...]
    weights: tuple[int, ...]
    low: float
    high: float

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, dimension: int, scale: int) -> Mixture:
        """The mixture for a dimension and a scale, which is at least 2^19."""
        low, high, logs, weights = _terms(dimension)
        widths = tuple(round(scale * math.sqrt(2.0 * math.exp(s))) for s in logs)
        return cls(dimension, scale, widths, weights, low, high)

    def choose(self, below: Callable[[int], int]) -> int:
        """The width of a term that is chosen by the weights; `below` draws uniform integers."""
        return self.widths[bisect_right(self._ends, below(self._ends[-1]))]

    def accepts(self, k: NDArray[np.int64], below: Callable[[int], int]) -> bool:
        """Whether a vector that was drawn is kept."""
        square = sum(x * x for x in k.tolist())
        distance = math.sqrt(square) / self.scale
        if not self.low <= distance <= self.high:
            return False
        bits = 53
        uniform = below(1 << bits)
        error = 1e-10 + 1e-14 * (self.dimension + distance)
        ratio = math.exp(self.log_ratio(distance))
        if abs(uniform / 2.0**bits - ratio) > 1e-15 + 2.0 * error:
            return uniform / 2.0**bits < ratio
        while True:
            bits += 128
            uniform = uniform << 128 | below(1 << 128)
            with localcontext(Context(prec=bits // 2, Emax=10**9, Emin=-(10**9))):
                exact = self._exact_ratio(square) * (1 << bits)
                margin = exact * Decimal(10) ** (20 - bits // 2)
                if not uniform - margin - 1 <= exact <= uniform + margin + 1:
                    return uniform < exact

    def log_ratio(self, distance: float) -> float:
        """``ln(p/(M q))`` at ``‖k‖ = distance · λ``, never above 0, in floating point."""
        return -distance - self._log_mixed(distance) - self._top

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(self.weights))

    @cached_property
    def _floats(self) -> tuple[Vector, Vector]:
        """Widths in units of λ, and the logarithms of the terms' heights at 0."""
        widths = np.array(self.widths) / self.scale
        logs = np.array([_log(weight) for weight in self.weights])
        return widths, logs - logs.max() - self.dimension * np.log(widths)

    @cached_property
    def _top(self) -> float:
        """The largest logarithm of p/q, in some places, and more than it ripples in between."""
        widths, logs = self._floats
        places = np.linspace(self.low, self.high, 64)
        terms = logs - 0.5 * (places[:, None] / widths) ** 2
        tops = terms.max(axis=1)
        mixed = tops + np.log(np.exp(terms - tops[:, None]).sum(axis=1))
        return float(np.max(-places - mixed) + _SLACK)

    def _log_mixed(self, distance: float) -> float:
        widths, logs = self._floats
        terms = logs - 0.5 * (distance / widths) ** 2
        top = float(terms.max())
        return float(top + math.log(float(np.exp(terms - top).sum())))

    def _exact_ratio(self, square: int) -> Decimal:
        """The same as the exponential of `log_ratio`, in the decimals of the context."""
        scale, half, most = Decimal(self.scale), Decimal("0.5"), max(self.weights)
        mixed = sum(
            (
                Decimal(weight)
                / Decimal(most)
                / (Decimal(width) / scale) ** self.dimension
                * (-half * square / Decimal(width) ** 2).exp()
                for width, weight in zip(self.widths, self.weights, strict=True)
            ),
            Decimal(0),
        )
        return (-Decimal(square).sqrt() / scale - Decimal(self._top)).exp() / mixed


@lru_cache(maxsize=16)
def _terms(dimension: int) -> tuple[float, float, tuple[float, ...], tuple[int, ...]]:
    """Bounds of ``‖k‖/λ``, and each term's ``ln t`` and weight."""
    low, high = bounds(dimension)
    step = _STEP / math.sqrt(high)
    logs = np.arange(_NARROWEST, math.log(2.0 * high) + step, step)
    # Times Z_j^d, up to a constant.
    exponents = logs / 2.0 - np.exp(logs) + 0.5 * dimension * logs
    weights = [_whole(x) for x in (exponents - exponents.max()).tolist()]
    kept = [j for j, weight in enumerate(weights) if weight > 0]
    return low, high, tuple(float(logs[j]) for j in kept), tuple(weights[j] for j in kept)


def _log(number: int) -> float:
    """Natural logarithm of a whole number of any size."""
    shift = max(0, number.bit_length() - 60)
    return math.log(number >> shift) + shift * math.log(2.0)


def _whole(exponent: float) -> int:
    """``2^1600 exp(exponent)`` as a whole number."""
    mantissa, power = math.modf(exponent / math.log(2.0))
    shift = _WEIGHT_BITS + int(power) - 53
    return round(math.ldexp(2.0**mantissa, 53)) << shift if shift >= 0 else 0


@lru_cache(maxsize=256)
def bounds(dimension: int) -> tuple[float, float]:
    """Bounds of a Gamma(d) variable, which ``‖k‖/λ`` is, up to the lattice.

    By Chernoff ``P(X >= x)`` and ``P(X <= x)`` are at most ``exp(-(x - d - d ln(x/d)))`` on their
    side of d.
    """
    d = float(dimension)

    def exponent(x: float) -> float:
        return x - d - d * math.log(x / d)

    high = 2.0 * d + 4.0 * _TAIL
    for _ in range(60):
        nearer = 0.98 * high
        if nearer <= d or exponent(nearer) < _TAIL:
            break
        high = nearer
    low = d
    while low > 1e-3 and exponent(low) < _TAIL:
        low *= 0.98
    return low if exponent(low) >= _TAIL else 0.0, high + _SEEN_FROM


def largest_width(dimension: int) -> float:
    """The widest term, in units of λ."""
    return 1.1 * math.sqrt(4.0 * bounds(dimension)[1])
