"""Which ridge, step and number of iterations of a gradient method have the least error bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_real
from dpfast.fused.last_iterate import contraction, last_iterate_factor
from dpfast.solvers._noisy_gradient import POWER, NoisyGradient
from dpfast.theory import kuru2020 as theory

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Schedule:
    """A method with its numbers.

    Attributes
    ----------
    method : {"descent", "heavy-ball", "nesterov", "multistage"}
    stages : tuple of Stage
        Steps and momentum; all but "multistage" have one.
    """

    method: str
    stages: tuple[theory.Stage, ...]

    @property
    def iterations(self) -> int:
        """Iterations of all stages."""
        return sum(stage.length for stage in self.stages)


@dataclass(frozen=True)
class Choice:
    """The bound as a function of ridge, step and iterations."""

    method: str
    gradient: NoisyGradient
    price: float  # ε or μ, of all iterations together
    optimal: bool
    hidden: bool
    p: int
    first_stage: int | None
    momentum: float | str

    def schedule(self, ridge: float, c: float, length: int) -> Schedule:
        """Steps and momentum."""
        smoothness = self.gradient.shape.smoothness + ridge
        # Rounded down, so that c = 1 does not pass 1 / L.
        step = c / smoothness * (1.0 - 2.0**-50)
        if self.method == "multistage":
            stages = theory.multistage(
                length, step, ridge, smoothness, p=self.p, first=self.first_stage
            )
        else:
            stages = (theory.Stage(length, step, 0.0),)
        if self.method == "nesterov":
            stages = theory.single_stage(length, step, ridge)
        elif self.method == "heavy-ball":
            chosen = theory.largest_momentum(step, ridge, smoothness)
            if c >= 1.0:
                chosen = (1.0 - math.sqrt(step * ridge)) ** 2  # critical at the least curvature
            stages = (theory.Stage(length, step, chosen),)
        if self.momentum != "auto":
            value = check_real("momentum", self.momentum, low=0.0, high=1.0, high_open=True)
            if self.method == "descent" and value != 0.0:
                raise ValueError(f"momentum must be 0 or 'auto' for descent; got {value}.")
            stages = tuple(theory.Stage(s.length, s.step, value) for s in stages)
        return Schedule(self.method, stages)

    def response(self, ridge: float, schedule: Schedule) -> tuple[theory.Response, bool]:
        """The bound's coefficients, and whether they hold beyond quadratics."""
        shape = self.gradient.shape
        smoothness, dim = shape.smoothness + ridge, shape.dim
        (stage, length) = schedule.stages[0], schedule.iterations
        if self.method == "descent":
            trace = min(shape.smoothness + dim * ridge, dim * smoothness)
            return theory.gradient_descent_response(
                length, stage.step, ridge, smoothness, trace
            ), True
        if self.method == "heavy-ball":
            found = theory.simple_certificate(stage.step, stage.momentum, ridge, smoothness)
            if found is not None:
                return found.response(length, stage.step, ridge, smoothness, dim), True
        elif all(
            s.momentum == theory.nesterov_momentum(s.step, ridge)
            and s.step * smoothness <= 1.0 + 1e-12
            for s in schedule.stages
        ):
            return theory.accelerated_response(schedule.stages, ridge, smoothness, dim), True
        return self._of_quadratics(ridge, schedule), False

    def _of_quadratics(self, ridge: float, schedule: Schedule) -> theory.Response:
        """The worst spectrum, for parameters that no certificate covers."""
        shape = self.gradient.shape
        curvatures = np.geomspace(ridge, shape.smoothness + ridge, 24)
        remaining, parts = 1.0, []
        for stage in reversed(schedule.stages):
            answers = [
                theory.quadratic_response(
                    stage.length,
                    stage.step,
                    stage.momentum,
                    [curvature],
                    nesterov=self.method != "heavy-ball",
                )
                for curvature in curvatures
            ]
            parts.append(remaining * shape.dim * np.max([a.noise for a in answers], axis=0))
            remaining *= max(a.initial for a in answers)
        return theory.Response(remaining, np.concatenate(parts[::-1]))

    def best(
        self,
        ridges: Iterable[float],
        steps: Iterable[float],
        lengths: NDArray[Any],
        first_error: Callable[[float], float],
        minimizer_norm: float,
    ) -> tuple[float, float, int]:
        """Ridge, step and iterations of the least bound, the ridge's own cost included."""
        found: list[tuple[float, float, float, int]] = []
        for ridge in ridges:
            error = first_error(ridge)
            for c in steps:
                bounds = self.bounds(ridge, c, lengths, error) + 0.5 * ridge * minimizer_norm**2
                at = int(np.argmin(bounds))
                found.append((float(bounds[at]), ridge, c, int(lengths[at])))
        # Of equal ones the first.
        return min(found, key=lambda entry: entry[0])[1:]

    def bounds(self, ridge: float, c: float, lengths: NDArray[Any], error: float) -> Vector:
        """The bound for several numbers of iterations, to first order in the charges."""
        length = int(lengths.max())
        schedule = self.schedule(ridge, c, length)
        if self.method == "multistage" or len(lengths) == 1:
            return np.array([self._bound(ridge, c, int(T), error) for T in lengths])
        response, _ = self.response(ridge, schedule)
        # Backwards from the end, one stage's coefficients do not depend on the length.
        backwards = response.noise[::-1]
        whole = np.cumsum(backwards)[lengths - 1]
        if length > 1 and response.noise[-1] > 0.0:
            rate = float(response.noise[-2] / response.noise[-1])
            initial = response.initial * _power(rate, lengths - length)
        else:
            initial = np.full(len(lengths), response.initial)
        exponent = 1.0 / (POWER[self.gradient.noise] + 1.0)
        roots = np.cumsum(backwards**exponent)[lengths - 1]
        if self.hidden:
            shrinks = contraction(self.gradient.shape.with_alpha(ridge), schedule.stages[0].step)
            factors = np.array([last_iterate_factor(shrinks, int(T)) for T in lengths])
            noise = whole * self._variance(1.0) * factors**2
        elif self.optimal:
            noise = roots ** (1.0 / exponent) * self._variance(1.0)
        else:
            noise = whole * self._variance(1.0 / lengths)
        per_total = self.gradient.sampling_variance() * self._per_total(ridge)
        return np.asarray(initial * error + noise + whole * per_total)

    def _bound(self, ridge: float, c: float, length: int, error: float) -> float:
        """The bound of one setting: sums of powers, stage by stage."""
        schedule = self.schedule(ridge, c, length)
        exponent = 1.0 / (POWER[self.gradient.noise] + 1.0) if self.optimal else 1.0
        shape = self.gradient.shape
        if self.method == "multistage" and self.momentum == "auto":
            smoothness, remaining, total, plain = shape.smoothness + ridge, 1.0, 0.0, 0.0
            for stage in reversed(schedule.stages):
                rate = 1.0 - math.sqrt(ridge * stage.step)
                gain = 0.5 * stage.step * (1.0 + stage.step * smoothness) * shape.dim * remaining
                total += gain**exponent * _geometric(rate**exponent, stage.length)
                plain += gain * _geometric(rate, stage.length)
                remaining *= 2.0 * rate**stage.length
            initial, scale = remaining, 1.0 / shape.dim
        else:
            response, _ = self.response(ridge, schedule)
            total = float(np.sum(response.noise**exponent))
            plain, initial = float(response.noise.sum()), response.initial
            scale = self._per_total(ridge)
        if self.hidden:
            shrinks = contraction(shape.with_alpha(ridge), schedule.stages[0].step)
            variance = self._variance(1.0) * last_iterate_factor(shrinks, length) ** 2
        else:
            variance = self._variance(1.0 if self.optimal else 1.0 / length)
        noise = total ** (1.0 / exponent) * variance
        return float(initial * error + noise + self.gradient.sampling_variance() * scale * plain)

    def _variance(self, share: Any) -> Any:
        """Noise variance of a release that may cost a share of the budget; shares may be many."""
        gradient = self.gradient
        if gradient.noise == "laplace":
            return gradient.variance(gradient.sample_prices(self.price * share))
        # Of a sample, for small prices: amplified by n/m.  The accountant has the last word.
        amplified = gradient.shape.n_samples / gradient.rows
        return gradient.variance(self.price * np.sqrt(share) * amplified)

    def sampling_error(self, ridge: float, response: theory.Response) -> float:
        """What the choice of the samples adds to the bound."""
        variance = self.gradient.sampling_variance()
        return float(variance * self._per_total(ridge) * response.noise.sum())

    def _per_total(self, ridge: float) -> float:
        """Coefficients per unit of total variance, over those per unit in every coordinate."""
        shape = self.gradient.shape
        if self.method != "descent":
            return 1.0 / shape.dim
        # (η²/2) L instead of (η²/2) tr M: a sample's noise need not be isotropic.
        smoothness = shape.smoothness + ridge
        return smoothness / min(shape.smoothness + shape.dim * ridge, shape.dim * smoothness)

    def average_bound(
        self, ridge: float, schedule: Schedule, error: float, variance: Vector, share: float
    ) -> float:
        """The mean of the last iterates' bounds, which bounds their mean's error by convexity."""
        total = schedule.iterations
        kept = math.ceil(share * total)
        sampling = self.gradient.sampling_variance()
        bounds = []
        # Every iterate, or some two hundred of them.
        for stop in np.unique(np.linspace(total - kept + 1, total, min(kept, 200)).astype(int)):
            left, stages = int(stop), []
            for stage in schedule.stages:
                if left > 0:
                    length = min(left, stage.length)
                    stages.append(theory.Stage(length, stage.step, stage.momentum))
                    left -= length
            part = Schedule(schedule.method, tuple(stages))
            response, _ = self.response(ridge, part)
            extra = sampling * self._per_total(ridge) * response.noise.sum()
            bounds.append(response.bound(error, variance[:stop]) + extra)
        return float(np.mean(bounds))


def _geometric(rate: float, length: int) -> float:
    return -math.expm1(length * math.log(rate)) / (1.0 - rate) if 0.0 < rate < 1.0 else 1.0


def _power(rate: float, exponents: NDArray[Any]) -> Vector:
    return np.asarray(np.exp(np.minimum(700.0, math.log(max(rate, 1e-300)) * exponents)))
