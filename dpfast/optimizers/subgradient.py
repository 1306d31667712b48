"""The projected subgradient method, which carries a dual certificate along."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.objectives import Objective, Rounded
from dpfast.optimizers._contract import (
    Callback,
    OptimizeResult,
    Progress,
    check_radius,
    check_start,
    project,
)

Vector = NDArray[np.float64]

_UNIT = 2.0**-53


class _Averages:
    r"""Weighted averages of points, values, and lines below the objective, rounding included.

    A computed value ``F_t`` and subgradient ``G_t`` at ``w_t`` give, for every ``v``,
    ``F(v) >= c_t + <g_t, v> + (µ/2)‖v‖²`` with ``g_t = G_t - µ w_t`` and
    ``c_t = F_t - <G_t, w_t> + (µ/2)‖w_t‖²``.  Averages of such bounds are bounds, and the right
    side is at least ``c - ‖g‖²/(2µ)``.  Convexity bounds ``F`` at the average point by the average
    value.  So the duality gap costs no pass of its own.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._mu = objective.strong_convexity
        self.w: Vector = np.zeros(objective.dim)
        self._slope: Vector = np.zeros(objective.dim)
        self._value = self._intercept = 0.0
        # Accumulated bounds: of numbers, of the slope, of the point.
        self._error = self._slope_error = self._point_error = 0.0

    def add(self, share: float, w: Vector, value: float, gradient: Vector) -> None:
        """Mix in a point with weight `share`; what is there keeps ``1 - share``."""
        mu, kept = self._mu, 1.0 - share
        norm, steepness = float(np.linalg.norm(w)), float(np.linalg.norm(gradient))
        slope = gradient - mu * w
        intercept = value - float(gradient @ w) + 0.5 * mu * float(w @ w)
        if isinstance(self._objective, Rounded):
            error, slope_error = self._objective.rounding(norm)
        else:
            error = slope_error = math.inf
        self.w = kept * self.w + share * w
        self._slope = kept * self._slope + share * slope
        self._value = kept * self._value + share * value
        self._intercept = kept * self._intercept + share * intercept
        # Turning ‖v - w‖ of the slope's error into ‖v‖ costs its product with ‖w‖.
        size = abs(value) + steepness * norm + mu * norm * norm
        error += slope_error * norm + 2.0 * (len(w) + 8) * _UNIT * size
        slope_error += 8.0 * _UNIT * (steepness + mu * norm)
        self._error = kept * self._error + share * error
        self._error += 8.0 * _UNIT * (abs(self._value) + abs(self._intercept))
        self._slope_error = kept * self._slope_error + share * slope_error
        self._slope_error += 8.0 * _UNIT * float(np.linalg.norm(self._slope))
        self._point_error = kept * self._point_error
        self._point_error += 8.0 * _UNIT * float(np.linalg.norm(self.w))

    def lower_bound(self) -> float:
        """A number that the minimum of the objective cannot be below."""
        steepest = float(np.linalg.norm(self._slope)) * (1.0 + 2.0**-40) + self._slope_error
        bound = 0.5 * steepest * steepest / self._mu
        return self._intercept - self._error - bound * (1.0 + 8.0 * _UNIT)

    def gap(self, lower: float) -> float:
        """Bound of ``(µ/2)‖w - w*‖²`` for the averaged point as computed."""
        gap = max(0.0, self._value + self._error - lower)
        gap += 4.0 * _UNIT * (abs(self._value) + abs(lower))
        distance = math.sqrt(2.0 * gap / self._mu) + self._point_error
        return 0.5 * self._mu * distance * distance * (1.0 + 8.0 * _UNIT)

    @property
    def value(self) -> float:
        """Average value, which the value at the average point does not exceed."""
        return self._value


def minimize(
    objective: Objective,
    *,
    tolerance: float,
    max_passes: int = 20_000,
    w0: Vector | None = None,
    radius: float | None = None,
    callback: Callback | None = None,
) -> OptimizeResult:
    r"""Minimize a strongly convex objective, with kinks or without, by subgradients.

    Lowy & Razaviyayn 2021, Algorithm 2: ``w_{t+1} = Π(w_t - 2/(µ(t + 1)) G_t)``, and the average of
    the ``w_t`` with weights ``2t/(T(T + 1))``, for which ``F(w̄) - F* <= 2L²/(µ(T + 1))`` with
    ``L`` the largest subgradient (Lacoste-Julien, Schmidt & Bach 2012).

    Without projection the method is conditional gradient on the dual with steps ``2/(t + 1)``: the
    same weights average the subgradients into a dual point, and the duality gap falls as ``1/T``,
    too (Bach 2015).  That gap is computed along the way, see :class:`_Averages`, and
    ``√(2 gap/µ)`` certifies the average.  It falls slowly; where a tight certificate is wanted
    `smoothing` is the method.

    Parameters
    ----------
    objective : Objective
        The gap needs its `rounding` (:class:`dpfast.objectives.Rounded`); without it only points of
        small gradient are certified.
    tolerance : float
        Target for ``µ`` times the certified distance, as for the other optimizers.
    max_passes : int, default=20000
        Subgradient evaluations before giving up.
    w0 : ndarray of shape (dim,), default=None
        Start; None is zero.
    radius : float or None, default=None
        Project every step on the ball of this radius.  The certificate is about the minimizer over
        all of space.
    callback : callable or None, default=None
        Called with the :class:`OptimizeResult` at every average.

    Returns
    -------
    OptimizeResult
        Its value is an upper bound of the objective at an average.  ``converged=False`` when the
        tolerance was not reached: nothing is raised.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    mu, bound = objective.strong_convexity, check_radius(radius)
    progress = Progress(objective, tolerance, max_passes, callback)
    averages = _Averages(objective)
    w = project(check_start(objective, w0), bound)
    lower, t = -math.inf, 0
    while progress.affords(1):
        t += 1
        value, gradient = objective.value_and_gradient(w)
        progress.passes += 1
        share = 2.0 / (t + 1.0)
        averages.add(share, w, value, gradient)
        lower = max(lower, averages.lower_bound())
        progress.examine(w, value, gradient)
        if progress.affords(0):
            # Any slope of infinite norm says that the average has no gradient bound of its own.
            nowhere = np.full(objective.dim, math.inf)
            progress.examine(averages.w, averages.value, nowhere, averages.gap(lower))
        w = project(w - (share / mu) * gradient, bound)
    return progress.result()
