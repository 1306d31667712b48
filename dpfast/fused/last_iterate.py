"""Noisy gradient descent of which the last iterate alone comes out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpfast._typing import Vector
from dpfast._validation import check_integer, check_real
from dpfast.errors import GridOverflow
from dpfast.mechanisms import Access, Gaussian
from dpfast.optimizers._contract import project
from dpfast.privacy import Budget, GDPEvent
from dpfast.queries import GradientStep
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape
from dpfast.sums import RowSums


class LastIterate(Access[Vector]):
    r"""The last of T iterates ``w⁺ = P(w - η ∇F(w) + noise)``, P the projection onto a ball.

    Privacy.  One noisy step is s/σ-GDP for neighbors that start at one point, s the charged
    sensitivity of :class:`~dpfast.queries.GradientStep`.  Releasing all T steps would cost
    ``√T`` times that.  The last iterate costs :func:`last_iterate_factor` times that (Bok, Su &
    Altschuler 2024, Theorem 1.4), since

    - F is α-strongly convex with Hessians up to ``β + α``, so that an exact step with
      ``η < 2/(β + α)`` contracts by ``c = max(|1 - ηα|, |1 - η(β + α)|) < 1``;
    - projection onto a ball does not move points apart;
    - rows are not clipped beyond the bound that they all obey: clipped steps need not contract.

    Arithmetic.  The computed step is within :meth:`~dpfast.queries.GradientStep.rounding_error` of
    the exact one as long as ``‖w‖ <= radius``; rounding it to the grid, of step g, moves two values
    apart by at most ``g √d``, and the interpolated point of the proof must be on the grid too,
    another ``g √d``, which is the query's slack.  Points before the noise are on one grid, so that
    the exact discrete noise shifts by whole steps, as :class:`~dpfast.mechanisms.Gaussian`
    requires.

    Parameters
    ----------
    shape : ProblemShape
        With its ridge; the loss must be convex and of bounded slope.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    mu : float
        What the last iterate may cost.
    step : float
        ``η``.
    iterations : int
        ``T``.
    radius : float
        Of the ball.
    start : ndarray of shape (dim,)
        Public; projected onto the ball.
    """

    def __init__(
        self,
        shape: ProblemShape,
        neighboring_relation: str,
        *,
        mu: float,
        step: float,
        iterations: int,
        radius: float,
        start: Vector,
    ) -> None:
        if not shape.loss.convex or shape.alpha is None:
            raise ValueError(
                "shape must have a convex loss and a ridge for the last iterate; got the loss "
                f"{shape.loss.name!r} and alpha={shape.alpha}."
            )
        check_real("step", step, low=0.0, low_open=True)
        self.radius = check_real("radius", radius, low=0.0, low_open=True)
        self.iterations = check_integer("iterations", iterations, low=1)
        self.shape = shape
        self.where = f"last iterate of {iterations} noisy gradient steps"
        self._relation = neighboring_relation
        self._start = project(np.array(start, dtype=np.float64), self.radius)
        self._factor = last_iterate_factor(contraction(shape, step), iterations)
        target = Budget(mu=mu / self._factor * (1.0 - 1e-9))
        # Before it is projected, the start may be outside.
        reach = max(self.radius, float(np.linalg.norm(start)))
        rough = Gaussian.calibrate(target, GradientStep(shape, step, reach), neighboring_relation)
        # Twice the rough grid's step: the charge may move the noise to the next power of two.
        slack = rough.grid_step * math.sqrt(shape.dim)
        self._step = GradientStep(shape, step, reach, slack)
        self._mechanism = Gaussian.calibrate(target, self._step, neighboring_relation)
        if self._mechanism.grid_step > 2.0 * rough.grid_step:
            raise GridOverflow(
                f"mu must be larger for the last iterate of steps in {shape.dim} dimensions: with "
                "this much noise, rounding to the grid costs more than the step itself; got "
                f"{mu:g}. Give a larger budget or fewer dimensions."
            )

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise of a mean gradient, in each coordinate."""
        return self._mechanism.stddev / self._step.step

    def events(self, count: int = 1) -> tuple[GDPEvent, ...]:
        """Return what `count` such descents are charged as."""
        mechanism = self._mechanism
        mu = mechanism.charged_sensitivity / mechanism.stddev * self._factor
        return (
            GDPEvent(mu=mu, neighboring_relation=self._relation, where=self.where, count=count),
        )

    def answer(self, prepared: RowSums, rng: SecureGenerator, *point: Any) -> Vector:
        """Descend."""
        del point
        w = self._start
        for _ in range(self.iterations):
            noisy = self._mechanism.perturb(self._step.prepare(prepared, w), rng)
            w = project(noisy, self.radius)
        return w


def contraction(shape: ProblemShape, step: float) -> float:
    """``c = max(|1 - ηα|, |1 - η(β + α)|)`` of an exact step, rounded up."""
    assert shape.alpha is not None
    largest = shape.smoothness + shape.alpha
    return max(abs(1.0 - step * shape.alpha), abs(1.0 - step * largest)) + 2.0**-50


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
