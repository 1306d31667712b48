"""Noisy mean gradients: which noise a share of the budget pays for, on all rows or on samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpfast._typing import Vector
from dpfast._validation import check_choice, check_real
from dpfast.fused import SampledGradient
from dpfast.fused.sampled_gradient import check_sample
from dpfast.mechanisms import Access, Gaussian, Laplace
from dpfast.privacy import Budget, affordable, budget_epsilon, budget_mu
from dpfast.queries import ClippedGradient
from dpfast.shape import ProblemShape

#: The exponent by which the variance of noise falls with its price: ``1/ε²``, ``1/μ²``.
POWER = {"laplace": 2, "gaussian": 1}

_WHERE = "noisy gradient"


@dataclass(frozen=True)
class NoisyGradient:
    """What is summed and how it is perturbed; no noise chosen yet."""

    query: ClippedGradient
    neighboring_relation: str
    noise: str
    clip_norm: float | None = None  # as given
    data_l1_norm: float | None = None
    batch: int | None = None  # rows in a sample; None: all rows

    @classmethod
    def settle(
        cls,
        shape: ProblemShape,
        neighboring_relation: str,
        *,
        noise: str,
        clip_norm: float | None = None,
        data_l1_norm: float | None = None,
        batch: int | None = None,
    ) -> NoisyGradient:
        """Check the arguments of the query, and that a sample goes with the relation."""
        check_choice("noise", noise, tuple(POWER))
        if batch is not None:
            check_sample(shape, batch, neighboring_relation)
        for name, value in (("clip_norm", clip_norm), ("data_l1_norm", data_l1_norm)):
            if value is not None:
                check_real(name, value, low=1e-100, high=1e100)
        query = ClippedGradient(
            shape,
            clip_norm,
            norm="l1" if noise == "laplace" else "l2",
            data_l1_norm=data_l1_norm,
            n_rows=batch,
        )
        batch = None if batch == shape.n_samples else batch
        return cls(query, neighboring_relation, noise, clip_norm, data_l1_norm, batch)

    @property
    def shape(self) -> ProblemShape:
        """The problem's."""
        return self.query.shape

    @property
    def rows(self) -> int:
        """Rows in a sum."""
        return self.query.n_rows

    def sampling_variance(self) -> float:
        """Bound of the variance of a sample's mean gradient, in all coordinates together.

        ``(G²/m)(n - m)/(n - 1)`` where G bounds the rows' gradients: the population's variance is
        at most its mean square.  The paper's (21) with a radius in place of an l1 diameter.
        """
        if self.batch is None:
            return 0.0
        n, m = self.shape.n_samples, self.batch
        longest = min(self.query.clip_norm * self.shape.max_weight, self.shape.lipschitz)
        return longest**2 / m * (n - m) / max(1, n - 1)

    def access(self, price: float) -> Access[Vector]:
        """The access of which one answer costs this ε, or μ, on the sample if there is one."""
        relation = self.neighboring_relation
        if self.batch is not None:
            return SampledGradient(
                self.shape,
                self.batch,
                price,
                noise=self.noise,
                neighboring_relation=relation,
                clip_norm=self.clip_norm,
                data_l1_norm=self.data_l1_norm,
                where=_WHERE,
            )
        if self.noise == "laplace":
            return Laplace.calibrate(Budget(price), self.query, relation, where=_WHERE)
        return Gaussian.calibrate(Budget(mu=price), self.query, relation, where=_WHERE)

    def variance(self, price: Any) -> Any:
        """Variance of a coordinate of the mean gradient's noise, to first order in the charges."""
        scale = self.query.sensitivity(self.neighboring_relation) / self.rows / price
        return self._of_scale(scale)

    def variance_of(self, access: Access[Vector]) -> float:
        """The same of an access, exactly."""
        event: Any = access.events()[0]
        return float(self._of_scale(event.noise / self.rows))

    def _of_scale(self, scale: Any) -> Any:
        return scale**2 if self.noise == "gaussian" else 2.0 * scale**2

    def accesses(
        self, budget: Budget, accountant: str, shares: Vector
    ) -> tuple[Access[Vector], ...]:
        """One access an iteration; `shares` of the price (of ε, or of μ²) sum to 1."""
        if self.noise == "laplace":
            prices = self.sample_prices(budget_epsilon(budget) * shares)
        elif self.batch is None:
            prices = budget_mu(budget, accountant) * np.sqrt(shares)
        else:
            prices = self._sampled_mu(budget, accountant, shares) * np.sqrt(shares)
        made = {float(price): self.access(float(price)) for price in np.unique(prices)}
        return tuple(made[float(price)] for price in prices)

    def sample_prices(self, prices: Any) -> Any:
        """ε₀ of a sample for each ε: ``ln(1 + (e^ε - 1) n/m)``, (13)."""
        if self.batch is None:
            return prices
        ratio = self.shape.n_samples / self.batch
        small = np.minimum(prices, 30.0)
        exact = np.log1p(np.expm1(small) * ratio)
        return np.where(prices > 30.0, prices + math.log(ratio), exact) * (1.0 - 1e-12)

    def _sampled_mu(self, budget: Budget, accountant: str, shares: Vector) -> float:
        """The largest total μ of the samples' releases that the accountant lets pass."""
        values, counts = np.unique(np.sqrt(shares), return_counts=True)

        def fits(mu: float) -> bool:
            events = [
                event
                for value, count in zip(values, counts, strict=True)
                for event in self.access(mu * float(value)).events(int(count))
            ]
            return affordable(events, budget, accountant)

        return largest(fits, budget_mu(budget))


def largest(fits: Callable[[float], bool], start: float) -> float:
    """The largest value that fits, to a relative 1e-3, on the safe side."""
    low = start
    while not fits(low):
        low *= 0.5
        if low < 1e-12 * start:
            raise ValueError("the budget is too small for any noise.")
    high = 2.0 * low
    while high <= 2.0**20 * start and fits(high):
        low, high = high, 2.0 * high
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
