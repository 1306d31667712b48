"""Which ridge, step and number of iterations of a gradient method have the least error bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast._validation import check_real
from dpfast.fused.last_iterate import contraction, last_iterate_factor
from dpfast.solvers._noisy_gradient import POWER, NoisyGradient
from dpfast.theory import kuru2020 as theory

# A bound that is this much smaller is not worth more passes over the rows.
_SLACK = 0.05


@dataclass(frozen=True)
class Schedule:
    """A method with its steps and momentum; of all but "multistage" there is one stage."""

    method: str
    stages: tuple[theory.Stage, ...]

    @property
    def iterations(self) -> int:
        """Iterations of all stages."""
        return sum(stage.length for stage in self.stages)

    def until(self, stop: int) -> Schedule:
        """The first iterations."""
        stages = []
        for stage in self.stages:
            length = min(stop, stage.length)
            if length > 0:
                stages.append(theory.Stage(length, stage.step, stage.momentum))
            stop -= length
        return Schedule(self.method, tuple(stages))


@dataclass(frozen=True)
class Choice:
    """The bound as a function of ridge, step, momentum and iterations."""

    method: str
    gradient: NoisyGradient
    price: float  # ε or μ, of all iterations together
    optimal: bool
    hidden: bool
    p: int
    first_stage: int | None
    momentum: float | str
    certified: bool = True

    def momenta(self, ridge: float, c: float) -> tuple[float | None, ...]:
        """The momenta to choose among for a ridge and a step; None: what the method prescribes."""
        if self.momentum != "auto":
            value = check_real("momentum", self.momentum, low=0.0, high=1.0, high_open=True)
            if self.method == "descent" and value != 0.0:
                raise ValueError(f"momentum must be 0 or 'auto' for descent; got {value}.")
            return (value,)
        if self.method != "heavy-ball":
            return (None,)
        smoothness = self.gradient.shape.smoothness + ridge
        step = self._step(ridge, c)
        covered = theory.heavy_ball_momenta(step, ridge, smoothness) if self.certified else ()
        # Otherwise the one that is critical at the least curvature.
        return covered or ((1.0 - math.sqrt(step * ridge)) ** 2,)

    def _step(self, ridge: float, c: float) -> float:
        # Rounded down, so that c = 1 does not pass 1 / L.
        return c / (self.gradient.shape.smoothness + ridge) * (1.0 - 2.0**-50)

    def schedule(self, ridge: float, c: float, momentum: float | None, length: int) -> Schedule:
        """Steps and momentum, one of :meth:`momenta`."""
        smoothness = self.gradient.shape.smoothness + ridge
        step = self._step(ridge, c)
        if self.method == "multistage":
            stages = theory.multistage(
                length, step, ridge, smoothness, p=self.p, first=self.first_stage
            )
        elif self.method == "nesterov":
            stages = theory.single_stage(length, step, ridge)
        else:
            stages = (theory.Stage(length, step, 0.0),)
        if momentum is not None:
            stages = tuple(theory.Stage(s.length, s.step, momentum) for s in stages)
        return Schedule(self.method, stages)

    def _decays(self, ridge: float, stage: theory.Stage, *, grid: bool) -> list[theory.Decay]:
        """The bounds for one stage that hold for all losses; the heavy ball has several or none."""
        shape = self.gradient.shape
        smoothness, dim = shape.smoothness + ridge, shape.dim
        if self.method == "descent":
            trace = min(shape.smoothness + dim * ridge, dim * smoothness)
            return [theory.descent_decay(stage.step, ridge, smoothness, trace)]
        if not self.certified:
            return []
        if self.method == "nesterov":
            covered = (
                stage.momentum == theory.nesterov_momentum(stage.step, ridge)
                and stage.step * smoothness <= 1.0 + 1e-12
            )
            return [theory.nesterov_decay(stage.step, ridge, smoothness, dim)] if covered else []
        setting = (stage.step, stage.momentum, ridge, smoothness)
        search = theory.heavy_ball_certificates if grid else theory.closed_certificates
        return [found.decay(stage.step, ridge, smoothness, dim) for found in search(*setting)]

    def response(
        self, ridge: float, schedule: Schedule, error: float
    ) -> tuple[theory.Response, bool]:
        """The coefficients of the least bound, and whether they hold beyond quadratics."""
        shape, length = self.gradient.shape, schedule.iterations
        if self.method == "multistage":
            if self.momentum == "auto":
                smoothness = shape.smoothness + ridge
                return (
                    theory.accelerated_response(schedule.stages, ridge, smoothness, shape.dim),
                    True,
                )
            return self._of_quadratics(ridge, schedule), False
        decays = self._decays(ridge, schedule.stages[0], grid=True)
        if not decays:
            return self._of_quadratics(ridge, schedule), False
        lengths = np.array([length])
        step = schedule.stages[0].step

        def bound(decay: theory.Decay) -> float:
            return float(self._of_decay(ridge, step, lengths, error, decay)[0])

        return min(decays, key=bound).response(length), True

    def _of_quadratics(self, ridge: float, schedule: Schedule) -> theory.Response:
        """The worst spectrum, for parameters that no certificate covers."""
        remaining, parts = 1.0, []
        for stage in reversed(schedule.stages):
            starts, noises = self._worst_quadratic(ridge, stage, 24)
            parts.append(remaining * self.gradient.shape.dim * noises[::-1])
            remaining *= float(starts[-1])
        return theory.Response(remaining, np.concatenate(parts[::-1]))

    def _worst_quadratic(
        self, ridge: float, stage: theory.Stage, count: int
    ) -> tuple[Vector, Vector]:
        """Largest over so many curvatures: what each iteration leaves of the start and of noise."""
        smoothness = self.gradient.shape.smoothness + ridge
        starts, noises = theory.quadratic_paths(
            stage.length,
            stage.step,
            stage.momentum,
            np.geomspace(ridge, smoothness, count),
            nesterov=self.method != "heavy-ball",
        )
        return starts.max(axis=0), noises.max(axis=0)

    def best(
        self,
        ridges: Iterable[float],
        steps: Iterable[float],
        lengths: NDArray[Any],
        first_error: Callable[[float], float],
        minimizer_norm: float,
    ) -> tuple[float, Schedule]:
        """Ridge and schedule of the least bound, the ridge's own cost included.

        Of settings whose bounds are within `_SLACK` of the least, the one of fewest iterations.
        """
        settings, found = [], []
        for ridge in ridges:
            error = first_error(ridge)
            for c in steps:
                for momentum in self.momenta(ridge, c):
                    bounds = self.bounds(ridge, c, momentum, lengths, error)
                    settings.append((ridge, c, momentum))
                    found.append(bounds + 0.5 * ridge * minimizer_norm**2)
        table = np.array(found)
        good = table <= (1.0 + _SLACK) * table.min()
        column = int(np.flatnonzero(good.any(axis=0))[0])
        ridge, c, momentum = settings[int(np.argmin(table[:, column]))]
        return ridge, self.schedule(ridge, c, momentum, int(lengths[column]))

    def bounds(
        self, ridge: float, c: float, momentum: float | None, lengths: NDArray[Any], error: float
    ) -> Vector:
        """The bound for several numbers of iterations, to first order in the charges.

        The heavy ball's is the better of those in closed form.
        """
        if self.method == "multistage":
            return np.array([self._of_stages(ridge, c, momentum, int(T), error) for T in lengths])
        (stage,) = self.schedule(ridge, c, momentum, int(lengths.max())).stages
        decays = self._decays(ridge, stage, grid=False)
        if not decays:
            # Few curvatures will do for a choice: the worst are near the ends.
            starts, noises = self._worst_quadratic(ridge, stage, 6)
            noises = self.gradient.shape.dim * noises
            total = np.cumsum(noises**self._exponent)[lengths - 1]
            plain = np.cumsum(noises)[lengths - 1]
            return self._bound(ridge, stage.step, lengths, error, starts[lengths], total, plain)
        of_all = [self._of_decay(ridge, stage.step, lengths, error, decay) for decay in decays]
        return np.asarray(np.min(of_all, axis=0))

    def _of_decay(
        self, ridge: float, step: float, lengths: NDArray[Any], error: float, decay: theory.Decay
    ) -> Vector:
        total, plain = decay.total(lengths, self._exponent), decay.total(lengths)
        return self._bound(ridge, step, lengths, error, decay.initial(lengths), total, plain)

    def _of_stages(
        self, ridge: float, c: float, momentum: float | None, length: int, error: float
    ) -> float:
        """The bound of several stages: sums of powers, stage by stage."""
        schedule = self.schedule(ridge, c, momentum, length)
        if momentum is not None:
            response = self._of_quadratics(ridge, schedule)
            remaining, plain = response.initial, float(response.noise.sum())
            total = float(np.sum(response.noise**self._exponent))
        else:
            smoothness, dim = self.gradient.shape.smoothness + ridge, self.gradient.shape.dim
            remaining, total, plain = 1.0, 0.0, 0.0
            for stage in reversed(schedule.stages):
                decay = theory.nesterov_decay(stage.step, ridge, smoothness, dim)
                decay = replace(decay, gain=remaining * decay.gain)
                total += float(decay.total(np.array([stage.length]), self._exponent)[0])
                plain += float(decay.total(np.array([stage.length]))[0])
                remaining *= decay.start * decay.rate**stage.length
        step = schedule.stages[0].step
        sums = (np.array([value]) for value in (remaining, total, plain))
        return float(self._bound(ridge, step, np.array([length]), error, *sums)[0])

    @property
    def _exponent(self) -> float:
        """What coefficients are raised to before they are summed, for the noise of best shares."""
        return 1.0 / (POWER[self.gradient.noise] + 1.0) if self.optimal else 1.0

    def _bound(
        self,
        ridge: float,
        step: float,
        lengths: NDArray[Any],
        error: float,
        initial: Vector,
        total: Vector,
        plain: Vector,
    ) -> Vector:
        """``a_0 E_0`` and the noise, of coefficients with these sums."""
        if self.hidden:
            shrinks = contraction(self.gradient.shape.with_alpha(ridge), step)
            factors = np.array([last_iterate_factor(shrinks, int(T)) for T in lengths])
            noise = plain * self._variance(1.0) * factors**2
        elif self.optimal:
            noise = total ** (1.0 / self._exponent) * self._variance(1.0)
        else:
            noise = plain * self._variance(1.0 / lengths)
        sampling = self.gradient.sampling_variance() * self._per_total(ridge)
        return np.asarray(initial * error + noise + plain * sampling)

    def _variance(self, share: Any) -> Any:
        """Noise variance of a release that may cost a share of the budget; shares may be many."""
        gradient = self.gradient
        if gradient.noise == "laplace":
            return gradient.variance(gradient.sample_prices(self.price * share))
        # Of a sample, for small prices: amplified by n/m.  The accountant has the last word.
        amplified = gradient.shape.n_samples / gradient.rows
        return gradient.variance(self.price * np.sqrt(share) * amplified)

    def shares(self, response: theory.Response) -> Vector:
        """Of the budget, for each iteration."""
        if self.optimal:
            return theory.optimal_shares(response.noise, POWER[self.gradient.noise])
        return np.full(len(response.noise), 1.0 / len(response.noise))

    def _per_total(self, ridge: float) -> float:
        """Coefficients per unit of total variance, over those per unit in every coordinate."""
        shape = self.gradient.shape
        if self.method != "descent":
            return 1.0 / shape.dim
        # (η²/2) L instead of (η²/2) tr M: a sample's noise need not be isotropic.
        smoothness = shape.smoothness + ridge
        return smoothness / min(shape.smoothness + shape.dim * ridge, shape.dim * smoothness)

    def error_bound(
        self, ridge: float, schedule: Schedule, error: float, variance: Vector, average: float
    ) -> float:
        """The bound for noise of this variance in each iteration.

        That of the last iterates' mean is the mean of theirs, by convexity.
        """
        total = schedule.iterations
        kept = max(1, math.ceil(average * total))
        sampling = self.gradient.sampling_variance() * self._per_total(ridge)
        bounds = []
        # Every iterate, or some two hundred of them.
        for stop in np.unique(np.linspace(total - kept + 1, total, min(kept, 200)).astype(int)):
            response, _ = self.response(ridge, schedule.until(int(stop)), error)
            extra = sampling * response.noise.sum()
            bounds.append(response.bound(error, variance[:stop]) + extra)
        return float(np.mean(bounds))
