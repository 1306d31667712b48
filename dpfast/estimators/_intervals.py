r"""Confidence intervals for coefficients, from what was released and the public law of the noise.

Nothing here looks at data: it is post-processing and costs no privacy.

Write ``w`` for the released weights, ``w*`` for the minimizer of the same regularized objective on
the same rows, that is for what the fit would have been without noise.

**Output perturbation.**  ``w = ŵ + z``, ``‖ŵ - w*‖ <= r`` certified, the law of z known: ``w_j`` is
within ``q + r`` of ``w*_j`` with the wanted probability, q the quantile of ``|z_j|``.

**Objective perturbation.**  ``w = w(b) + z + c``, ``‖c‖ <= r`` certified, and ``∇J(w(b)) = -b``,
``∇J(w*) = 0``, J the sum of losses and the ridge ``(Λ/2)‖w‖²``.  The slope of the loss being
non-decreasing and Lipschitz, ``∇J(w(b)) - ∇J(w*) = H (w(b) - w*)`` with ``H = Σ h_i x̃_i x̃_iᵀ + Λ``,
``h_i >= 0``.  So ``w* - w(b) = M b`` with ``0 <= M <= 1/Λ`` as symmetric matrices, that is
``M = (1 + S)/(2Λ)`` with ``‖S‖ <= 1``, and ``|(M b)_j| <= (|b_j| + ‖b‖)/(2Λ)``, whatever the data.
The curvature of the data would make it smaller; nobody has paid for knowing it.  Where the range of
the targets was learned, all of this is in units of it, and ``w*`` is what the fit would have been
with the same range.

Solvers project ``w`` on a public ball that holds ``w*``.  Where that has happened, the interval is
the ball's; that can only raise the coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpfast._typing import Vector
from dpfast.privacy import (
    Event,
    GaussianEvent,
    L2LaplaceObjectiveEvent,
    ObjectivePerturbationEvent,
    QueryEvent,
)
from dpfast.shape import ProblemShape
from dpfast.solvers import Plan, objective_perturbation, output_perturbation

# Draws of the noise for a quantile without a formula, always the same ones: the intervals are no
# secret, and two calls should agree.
_DRAWS = 200_000
_SEED = 0


@dataclass(frozen=True)
class CoefficientInterval:
    """An interval for each coefficient of a private model.

    Attributes
    ----------
    low, high : ndarray of the shape of `coef_`
    intercept_low, intercept_high : ndarray or float, as `intercept_`
    confidence_level : float
    covers : str
        What the intervals cover, and what they do not.
    """

    low: Vector
    high: Vector
    intercept_low: Any
    intercept_high: Any
    confidence_level: float

    @property
    def covers(self) -> str:
        """What the intervals cover, and what they do not."""
        return (
            f"Privacy noise only: each interval holds, with probability {self.confidence_level:g} "
            "or more over the noise, what the coefficient would be without noise, fitted to the "
            "same rows with the same ridge and clipping. Not covered: how it varies from one "
            "sample of rows to another, and what ridge and clipping shift. Each holds by itself, "
            "not all at once."
        )

    def __str__(self) -> str:
        rows = np.atleast_2d(self.low), np.atleast_2d(self.high)
        lines = [
            " ".join(f"[{a:.4g}, {b:.4g}]" for a, b in zip(low, high, strict=True))
            for low, high in zip(*rows, strict=True)
        ]
        return "\n".join([*lines, self.covers])


@dataclass(frozen=True)
class WeightNoise:
    """What is public about the noise in released weights."""

    events: tuple[Event, ...]  # of one fit, that put noise on the weights, as planned
    slack: float  # bound of the distance that the optimizer left
    reach: float  # no weights without noise are longer than this
    ball: float  # radius of the ball on which the weights were projected
    unit: float = 1.0  # of the weights, in which noise and slack are; infinite if projected

    @classmethod
    def of(cls, plan: Plan[Any], unit: float = 1.0) -> WeightNoise | None:
        """Return the noise that a plan puts on the weights, in a unit; None if it is not known."""
        shape = plan.shape
        if not (isinstance(plan, Plan) and isinstance(shape, ProblemShape)) or shape.alpha is None:
            return None
        events: tuple[Event, ...]
        settings: Any = plan.settings
        erm, ball = True, math.inf
        if isinstance(settings, output_perturbation.Settings):
            if settings.gradient_tolerance is None:
                return None  # a last iterate
            slack = settings.gradient_tolerance / shape.alpha
            erm, ball = settings.objective == "erm", settings.radius
            events = tuple(settings.mechanism.events())
        elif isinstance(settings, objective_perturbation.Settings):
            if settings.mean_unit is not None:
                return None  # what noise explains of the weights is gone
            # The second release is declared for two points that are this far from the exact ones.
            slack = 0.5 * settings.access.output.charged_sensitivity
            events = settings.access.events()
        else:
            return None
        if settings.target_range is not None:
            # In units that were learned, weights are as far away as the targets are.
            erm, ball = False, math.inf
        return cls(
            events=events,
            slack=slack,
            reach=shape.minimizer_norm(shape.alpha) if erm else math.inf,
            ball=ball,
            unit=unit,
        )

    def half_width(self, confidence_level: float) -> float:
        """Return what the distance of one weight exceeds with probability 1 - level at most.

        In the unit.
        """
        output = self.events[-1]
        assert isinstance(output, QueryEvent)
        if len(self.events) == 1 and isinstance(output, GaussianEvent):
            # The scale is that of a discrete Gaussian on a grid of 2^-31 of it.
            quantile = float(ndtri(0.5 + 0.5 * confidence_level)) * output.stddev * (1.0 + 1e-6)
            return quantile + self.slack
        rng = np.random.default_rng(_SEED)
        entry, _ = _entry_and_norm(output, output.dimension, rng)
        distance = entry
        if len(self.events) == 2:
            linear = self.events[0]
            assert isinstance(linear, ObjectivePerturbationEvent | L2LaplaceObjectiveEvent)
            entry, norm = _entry_and_norm(linear, linear.dimension, rng)
            distance = distance + (entry + norm) / (2.0 * linear.ridge)
        # Up by four deviations of a quantile by simulation.
        rank = _DRAWS * confidence_level
        rank += 4.0 * math.sqrt(_DRAWS * confidence_level * (1.0 - confidence_level))
        ordered = np.sort(distance)
        return float(ordered[min(math.ceil(rank), _DRAWS - 1)]) + self.slack

    def interval(self, w: Vector, confidence_level: float) -> tuple[Vector, Vector]:
        """Ends for each entry of released weights."""
        width = self.unit * self.half_width(confidence_level)
        if np.linalg.norm(w) >= self.ball * (1.0 - 1e-12):
            width = math.inf
        return np.maximum(w - width, -self.reach), np.minimum(w + width, self.reach)


def _entry_and_norm(event: Event, dim: int, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Draws of ``|z_1|`` and ``‖z‖``, z the noise of an event: rotations leave its law alone."""
    entry = rng.standard_normal(_DRAWS)
    norm = np.sqrt(entry**2 + (rng.chisquare(dim - 1, _DRAWS) if dim > 1 else 0.0))
    entry = np.abs(entry)
    if isinstance(event, GaussianEvent | ObjectivePerturbationEvent):
        return entry * event.stddev, norm * event.stddev
    scale = float(event.scale)  # type: ignore[attr-defined]
    # Density exp(-‖z‖ / scale): any direction, and a norm of gamma law with dim degrees.
    length = rng.gamma(dim, scale, _DRAWS)
    return entry / norm * length, length
