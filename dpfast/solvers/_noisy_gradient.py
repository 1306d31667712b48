r"""The noisy mean gradient: what gradient methods see of the data.

One release is the sum of the rows' clipped gradients, over all rows or a fresh sample of fixed
size, plus noise, divided by the public number of rows in it.

Sensitivity.  A row's gradient is ``c ℓ' x̃`` with ``‖ℓ' x̃‖ <= C`` after clipping, so neighbors'
sums are at most ``records · c · C`` apart, ``records = records_apart(relation)``: a replaced row
takes one such vector away and brings another.  Gaussian noise uses the l2 norm; Laplace noise, one
draw a coordinate, the l1 norm (Dwork, McSherry, Nissim & Smith 2006), where C is
``max|ℓ'| · (data_l1_norm + |intercept|)``, enforced by clipping in l1, or ``sqrt(dim)`` times the
l2 bound.  Without a smaller `clip_norm` C is the bound that every row obeys.  The ridge is
data-independent and stays outside.

Samples.  A uniform subset of `batch` rows without replacement, drawn afresh and kept secret, with
neighbors that differ in a replaced row: an ε₀-DP release of the sample is
``ln(1 + (batch/n)(e^{ε₀} - 1))``-DP for the data (Balle, Barthe & Gaboardi 2018, Theorem 9);
Gaussian noise is priced by the ledger's accountant.  With neighbors that differ in a row's
*presence*, a sample of fixed size has no such guarantee here, and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_choice, check_integer, check_real
from dpfast.mechanisms import Gaussian, Laplace
from dpfast.privacy import (
    Budget,
    Event,
    GDPEvent,
    Ledger,
    SubsampledGaussianEvent,
    SubsampledLaplaceEvent,
    budget_epsilon,
    budget_mu,
    records_apart,
)
from dpfast.problem import Problem
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape

Vector = NDArray[np.float64]

#: The exponent by which the variance of noise falls with its price: ``1/ε²``, ``1/μ²``.
POWER = {"laplace": 2, "gaussian": 1}


class _SampledGaussian(Gaussian):
    """Gaussian noise on the sum over a sample; its event says so."""

    #: Set after calibration, which asks for events; until then nothing is amplified.
    sample: tuple[int, int] = (1, 1)

    def event(self, where: str | None = None, count: int = 1) -> Any:
        """Return the event that `count` releases are charged as."""
        batch, n_samples = self.sample
        return SubsampledGaussianEvent(
            sensitivity=self.charged_sensitivity,
            stddev=self.stddev,
            dimension=self.dimension,
            batch=batch,
            n_samples=n_samples,
            sampling="fixed-size",
            neighboring_relation=self.neighboring_relation,
            where=where or "",
            count=count,
        )


class _SampledLaplace(Laplace):
    """Laplace noise on the sum over a sample; its event says so."""

    #: Set after calibration, which asks for events; until then nothing is amplified.
    sample: tuple[int, int] = (1, 1)

    def event(self, where: str | None = None, count: int = 1) -> Any:
        """Return the event that `count` releases are charged as."""
        batch, n_samples = self.sample
        return SubsampledLaplaceEvent(
            sensitivity=self.charged_sensitivity,
            scale=self.scale,
            dimension=self.dimension,
            batch=batch,
            n_samples=n_samples,
            sampling="fixed-size",
            neighboring_relation=self.neighboring_relation,
            where=where or "",
            count=count,
        )


@dataclass(frozen=True)
class NoisyGradient:
    """What is summed, how it is clipped, and what it is worth; no noise chosen yet.

    Attributes
    ----------
    shape : ProblemShape
    neighboring_relation : str
    noise : {"gaussian", "laplace"}
    clip_norm : float
        Bound of a row's gradient in the norm of order `clip_order`; infinite where every row obeys
        the bound anyway.
    clip_order : {2, 1}
    sensitivity : float
        Of the sum; l2 for Gaussian, l1 for Laplace noise.
    batch : int or None
        Rows in a sample; None: all rows.
    """

    shape: ProblemShape
    neighboring_relation: str
    noise: str
    clip_norm: float
    clip_order: int
    sensitivity: float
    batch: int | None

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
        """Settle norms and sensitivity from public quantities.

        Parameters
        ----------
        shape : ProblemShape
        neighboring_relation : {"replace_one", "add_or_remove_one"}
        noise : {"gaussian", "laplace"}
        clip_norm : float or None
            Bound C of ``‖ℓ' x̃‖₂``; None: ``max|ℓ'|`` times the row norm, which clips nothing.
        data_l1_norm : float or None
            Bound of ``‖x_i‖₁``, the intercept not counted; for Laplace noise.
        batch : int or None

        Raises
        ------
        TypeError, ValueError
            If an argument is out of range, or a sample cannot be combined with the relation.
        """
        check_choice("noise", noise, tuple(POWER))
        if batch is not None:
            check_integer("batch", batch, low=1, high=shape.n_samples)
            if neighboring_relation != "replace_one":
                raise ValueError(
                    "batch must be None for neighboring_relation='add_or_remove_one'; got "
                    f"{batch}. Amplification by samples of fixed size is proved for a replaced "
                    "record: use neighboring_relation='replace_one', or full batches."
                )
        natural = shape.loss.lipschitz * shape.row_norm
        if not math.isfinite(natural) and clip_norm is None:
            raise ValueError(
                f"clip_norm must be given for the loss {shape.loss.name!r}, whose slope has no "
                "bound; got None."
            )
        longest = natural
        clips, order = math.inf, 2
        if clip_norm is not None:
            longest = check_real("clip_norm", clip_norm, low=1e-100, high=1e100)
            if longest >= natural:
                longest = natural
            else:
                clips = longest
        if noise == "gaussian":
            if data_l1_norm is not None:
                raise ValueError(
                    f"data_l1_norm must be None for Gaussian noise; got {data_l1_norm!r}."
                )
        else:
            bound = math.sqrt(shape.dim) * longest * (1.0 + 2.0**-50)
            if data_l1_norm is not None:
                check_real("data_l1_norm", data_l1_norm, low=1e-100, high=1e100)
                if clip_norm is not None:
                    raise ValueError(
                        "clip_norm and data_l1_norm cannot both be given: rows' gradients are "
                        "clipped in one norm only."
                    )
                within = shape.loss.lipschitz * (data_l1_norm + abs(shape.intercept))
                if within < bound:
                    bound, clips, order = within, within, 1
            longest = bound
        return cls(
            shape,
            neighboring_relation,
            noise,
            clips,
            order,
            records_apart(neighboring_relation) * shape.max_weight * longest,
            None if batch == shape.n_samples else batch,
        )

    @property
    def rows(self) -> int:
        """Rows in a sum."""
        return self.batch or self.shape.n_samples

    @property
    def clips(self) -> bool:
        """Whether rows' gradients can be shortened, so that means of them are biased."""
        return self.clip_norm < math.inf and (
            self.clip_order == 2
            or self.clip_norm
            < self.shape.loss.lipschitz * math.sqrt(self.shape.dim) * self.shape.row_norm
        )

    def sampling_variance(self) -> float:
        """Bound of the variance of a sample's mean gradient, in all coordinates together.

        ``(G²/m)(n - m)/(n - 1)`` where G bounds the rows' gradients: the population's variance is
        at most its mean square.  The paper's (21) with a radius in place of an l1 diameter.
        """
        if self.batch is None:
            return 0.0
        n, m = self.shape.n_samples, self.batch
        longest = min(self.clip_norm * self.shape.max_weight, self.shape.lipschitz)
        return longest**2 / m * (n - m) / max(1, n - 1)

    def mechanism(self, price: float) -> Gaussian | Laplace:
        """The mechanism of which one release, of a sum over all rows of it, costs `price`.

        Parameters
        ----------
        price : float
            ε for Laplace noise, μ for Gaussian noise; on the sample, if there is one.
        """
        settings: dict[str, Any] = {
            "sensitivity": self.sensitivity,
            "dimension": self.shape.dim,
            "neighboring_relation": self.neighboring_relation,
            "error": self.shape.gradient_sum_error(
                self.clip_norm if self.clip_order == 2 else math.inf, self.rows
            ),
            # No coordinate of the sum is larger, so none is clamped.
            "bound": max(1.0, 1.001 * self.rows) * self.sensitivity,
        }
        made: Gaussian | Laplace
        if self.noise == "gaussian":
            made = self._kind(Gaussian, _SampledGaussian)._calibrate(Budget(mu=price), **settings)
        else:
            made = self._kind(Laplace, _SampledLaplace)._calibrate(Budget(price), **settings)
        return made

    def _kind(self, whole: Any, sampled: Any) -> Any:
        """The mechanism's class; one that samples knows the sizes before it is calibrated."""
        if self.batch is None:
            return whole
        return type(sampled.__name__, (sampled,), {"sample": (self.batch, self.shape.n_samples)})

    def variance(self, price: Any) -> Any:
        """Variance of a coordinate of the mean gradient's noise, to first order in the charges."""
        if self.noise == "gaussian":
            return (self.sensitivity / self.rows / price) ** 2
        return 2.0 * (self.sensitivity / self.rows / price) ** 2

    def mechanisms(
        self, budget: Budget, accountant: str, shares: Vector
    ) -> tuple[Gaussian | Laplace, ...]:
        """One mechanism an iteration, which together use up `budget`.

        Parameters
        ----------
        budget : Budget
        accountant : str
            Of the ledger that will be charged.
        shares : ndarray of shape (n_iterations,)
            Parts of the whole price that the iterations may spend (of ε, or of μ²); they sum to 1.

        Raises
        ------
        UnsupportedEvent
            If no accountant prices the events.
        """
        cache: dict[float, Gaussian | Laplace] = {}

        def made(prices: Vector) -> tuple[Gaussian | Laplace, ...]:
            for price in map(float, prices):
                if price not in cache:
                    cache[price] = self.mechanism(price)
            return tuple(cache[float(price)] for price in prices)

        if self.noise == "laplace":
            return made(self.sample_prices(budget_epsilon(budget) * shares))
        if self.batch is None:
            return made(budget_mu(budget, accountant) * np.sqrt(shares))
        return made(self._sampled_mu(budget, accountant, shares) * np.sqrt(shares))

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

        def affordable(mu: float) -> bool:
            events: list[Event] = [
                self.mechanism(mu * float(value)).event("gradient", int(count))
                for value, count in zip(values, counts, strict=True)
            ]
            return Ledger(budget, accountant).can_afford(*events)

        return largest(affordable, budget_mu(budget))


def largest(affordable: Callable[[float], bool], start: float) -> float:
    """The largest value that is affordable, to a relative 1e-3, on the safe side."""
    low = start
    while not affordable(low):
        low *= 0.5
        if low < 1e-12 * start:
            raise ValueError("the budget is too small for any noise.")
    high = 2.0 * low
    while high <= 2.0**20 * start and affordable(high):
        low, high = high, 2.0 * high
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if affordable(middle) else (low, middle)
    return low


def release(
    gradient: NoisyGradient,
    mechanism: Gaussian | Laplace,
    problem: Problem,
    w: Vector,
    rng: SecureGenerator,
    ledger: Ledger,
    where: str,
) -> Vector:
    """Spend, sum, perturb: the noisy mean gradient of the loss at w, without the ridge."""

    def query() -> Vector:
        rows = None
        if gradient.batch is not None:
            rows = random_subset(rng, gradient.shape.n_samples, gradient.batch)
        return problem.clipped_gradient(
            w, gradient.clip_norm, clip_order=gradient.clip_order, rows=rows
        )[0]

    return mechanism.release(query, rng=rng, ledger=ledger, where=where) / gradient.rows


def random_subset(rng: SecureGenerator, n: int, size: int) -> NDArray[np.int64]:
    """A uniform subset of ``{0, ..., n - 1}``, from the secure stream.

    The first `size` different values of uniform draws are a uniform subset, by symmetry; words that
    would favor some values are dropped.  Of a large subset the complement is drawn.

    Parameters
    ----------
    rng : SecureGenerator
    n, size : int

    Returns
    -------
    ndarray of shape (size,), dtype int64
        Sorted.
    """
    drawn = min(size, n - size)
    limit = 2**64 - 2**64 % n
    chosen = np.empty(0, dtype=np.int64)
    while len(chosen) < drawn:
        words = rng.uint64(2 * (drawn - len(chosen)) + 16)
        if limit < 2**64:
            words = words[words < np.uint64(limit)]
        values = np.concatenate([chosen, (words % np.uint64(n)).astype(np.int64)])
        _, first = np.unique(values, return_index=True)
        chosen = values[np.sort(first)][:drawn]
    chosen = np.sort(chosen)
    if drawn == size:
        return chosen
    kept = np.ones(n, dtype=bool)
    kept[chosen] = False
    return np.flatnonzero(kept).astype(np.int64, copy=False)


# ---- the last iterate alone ---------------------------------------------------------------------


class HiddenStep(Gaussian):
    """Gaussian noise on a whole step, whose result is not released but stepped from again."""

    def perturb(self, value: Vector, rng: SecureGenerator) -> Vector:
        """The value rounded to the grid plus exact noise; the caller has paid."""
        return self._grid.to_float(self._grid.round(value) + self._noise(rng))


def last_iterate_factor(contraction: float, iterations: int) -> float:
    """``sqrt((1 - c^T)(1 + c) / ((1 + c^T)(1 - c)))``: μ of the last iterate over one step's.

    At most ``sqrt(T)``, which is composition.  Bok, Su & Altschuler 2024, Theorem 1.4, re-derived:
    two runs of a c-contraction φ with steps apart by at most s and noise σ a step.  Interpolate
    between them, paying ``a_t`` of their distance in step t: ``z_t = c z_{t-1} + s - a_t`` from
    ``z_0 = 0`` to ``z_T = 0``, so ``Σ c^{T-t} a_t = s Σ c^{T-t}``; the price ``Σ a_t²/σ²`` is least
    for ``a_t`` proportional to ``c^{T-t}`` (Cauchy and Schwarz), namely
    ``(s/σ)² (Σ c^j)² / Σ c^{2j}``.
    """
    if contraction <= 0.0:
        return 1.0
    if contraction >= 1.0:
        return math.sqrt(iterations)
    power = contraction**iterations
    squared = (1.0 - power) / (1.0 + power) * (1.0 + contraction) / (1.0 - contraction)
    # 1 - c^T cancels when c is close to 1; composition is an upper bound always.
    return min(math.sqrt(squared) * (1.0 + 1e-9), math.sqrt(iterations))


def hidden_step(
    shape: ProblemShape,
    neighboring_relation: str,
    step: float,
    radius: float,
    contraction: float,
    iterations: int,
    mu: float,
) -> tuple[HiddenStep, GDPEvent]:
    r"""The noise of a step ``w - η ∇F(w)`` of which the last of T steps is mu-GDP, and its event.

    What is needed: F is α-strongly convex with Hessians up to ``β + α``, so that an exact step
    with ``η < 2/(β + α)`` contracts by ``c = max(|1 - ηα|, |1 - η(β + α)|) < 1``; neighbors' exact
    steps from one point are at most ``s = η records L / n`` apart; projection onto a ball does not
    move points apart.

    What arithmetic adds to s: the computed step is within e of the exact one for
    ``‖w‖ <= radius`` (both neighbors: 2e), rounding it to the grid moves two values apart by at
    most ``g sqrt(d)``, and the interpolated point of the proof must be on the grid too, another
    ``g sqrt(d)``.  Points before the noise are on one grid, so that the exact discrete noise shifts
    by whole steps, as :class:`Gaussian` requires.
    """
    factor = last_iterate_factor(contraction, iterations)
    sensitivity = step * records_apart(neighboring_relation) * shape.lipschitz / shape.n_samples
    error = step * shape.gradient_error(radius) + 8.0 * 2.0**-53 * (radius + step * shape.lipschitz)
    settings: dict[str, Any] = {
        "sensitivity": sensitivity,
        "dimension": shape.dim,
        "neighboring_relation": neighboring_relation,
        "bound": 2.0 * (radius + step * shape.lipschitz),
    }
    target = Budget(mu=mu / factor * (1.0 - 1e-9))
    rough = HiddenStep._calibrate(target, error=error, **settings)
    # Twice the rough grid's step: the charge may move the noise to the next power of two.
    grid = 2.0 * rough.grid_step * math.sqrt(shape.dim)
    made = HiddenStep._calibrate(target, error=error + 0.5 * grid, **settings)
    assert made.grid_step <= 2.0 * rough.grid_step
    event = GDPEvent(
        mu=made.charged_sensitivity / made.stddev * factor,
        neighboring_relation=neighboring_relation,
        where=f"last iterate of {iterations} noisy gradient steps",
    )
    return made, event
