"""Certificates of the distance to the minimizer, which privacy rests on: this file is trusted.

A solver releases a point as one within ``τ/µ`` of the minimizer, and takes no optimizer's word for
it.  In the place of the objective an optimizer is given a :class:`Witness`, which remembers what it
computed at the point that it evaluated last, and certifies points from that alone; any other point
is evaluated again.  So a wrong optimizer costs accuracy, or the fit, never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast.objectives import FiniteSum, Objective, Rounded, SaddleProblem, Smoothable, Snapshot
from dpfast.shape import UNIT

# Halvings of the width, from 1, in the search for the tightest duality gap.
MAX_HALVINGS = 40


@dataclass(frozen=True)
class OptimizeResult:
    """What an optimizer found; it depends on private data in every field.

    Attributes
    ----------
    w : ndarray of shape (dim,)
    value : float
        Objective at `w`.
    gradient_norm : float
        Upper bound of ``‖∇F(w)‖₂``: the computed norm plus the bound of its rounding error.
        Infinite where ``F`` has kinks.
    certificate : float
        Upper bound of the distance ``‖w - w*‖₂``.  For a µ-strongly convex ``F``,
        ``µ‖w - w*‖ <= ‖∇F(w) - ∇F(w*)‖ = ‖∇F(w)‖``, so it is ``gradient_norm / µ``; and
        ``(µ/2)‖w - w*‖² <= F(w) - F(w*)``, so ``√(2 gap / µ)`` will do where an upper bound of that
        difference (a duality gap) is known and smaller.
    passes : int
        Reads of all rows: evaluations of the gradient or the Hessian, stochastic steps by n.
    converged : bool
        Whether ``µ · certificate`` reached the tolerance.
    """

    w: Vector
    value: float
    gradient_norm: float
    certificate: float
    passes: int
    converged: bool


def certified(
    objective: Objective,
    w: Vector,
    value: float,
    gradient: Vector,
    passes: int,
    tolerance: float,
    gap: float = math.inf,
) -> OptimizeResult:
    """Result at `w` with the certificate that its computed gradient, or `gap`, supports.

    `gap` is an upper bound of ``F(w) - F(w*)``, rounding included.
    """
    norm = float(np.linalg.norm(gradient)) + objective.gradient_error(float(np.linalg.norm(w)))
    if math.isnan(norm):
        norm = math.inf
    certificate = norm / objective.strong_convexity
    converged = norm <= tolerance
    if gap < math.inf:
        distance = math.sqrt(2.0 * gap / objective.strong_convexity) * (1.0 + 2.0**-50)
        certificate = min(certificate, distance)
        converged = converged or objective.strong_convexity * distance <= tolerance
    return OptimizeResult(
        w=w,
        value=value,
        gradient_norm=norm,
        certificate=certificate,
        passes=passes,
        converged=converged,
    )


class Averages:
    r"""Weighted averages of points, values, and lines below the objective, rounding included.

    A computed value ``F_t`` and subgradient ``G_t`` at ``w_t`` give, for every ``v``,
    ``F(v) >= c_t + <g_t, v> + (µ/2)‖v‖²`` with ``g_t = G_t - µ w_t`` and
    ``c_t = F_t - <G_t, w_t> + (µ/2)‖w_t‖²``.  Averages of such bounds are bounds, and the right
    side is at least ``c - ‖g‖²/(2µ)``.  Convexity bounds ``F`` at the average point by the average
    value.  So the duality gap costs no pass of its own.

    The objective is evaluated by :meth:`add` itself.  The gap needs its `rounding`
    (:class:`~dpfast.objectives.Rounded`); without it it is infinite.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._mu = objective.strong_convexity
        self._point: Vector = np.zeros(objective.dim)
        self._slope: Vector = np.zeros(objective.dim)
        self._value = self._intercept = 0.0
        self._count, self._lower = 0, -math.inf
        # Accumulated bounds: of numbers, of the slope, of the point.
        self._error = self._slope_error = self._point_error = 0.0

    def add(self, share: float, w: Vector) -> tuple[float, Vector]:
        """Mix in a point with weight `share`; what is there keeps ``1 - share``.

        Returns the objective's value and gradient there; a ValueError if the result would be no
        average.
        """
        if not (share == 1.0 or (0.0 <= share < 1.0 and self._count > 0)):
            raise ValueError(
                f"share must be 1 for the first point, then a number in [0, 1]; got {share!r}."
            )
        value, gradient = self._objective.value_and_gradient(w)
        self._count += 1
        mu, kept = self._mu, 1.0 - share
        norm, steepness = float(np.linalg.norm(w)), float(np.linalg.norm(gradient))
        slope = gradient - mu * w
        intercept = value - float(gradient @ w) + 0.5 * mu * float(w @ w)
        if isinstance(self._objective, Rounded):
            error, slope_error = self._objective.rounding(norm)
        else:
            error = slope_error = math.inf
        self._point = kept * self._point + share * w
        self._slope = kept * self._slope + share * slope
        self._value = kept * self._value + share * value
        self._intercept = kept * self._intercept + share * intercept
        # Turning ‖v - w‖ of the slope's error into ‖v‖ costs its product with ‖w‖.
        size = abs(value) + steepness * norm + mu * norm * norm
        error += slope_error * norm + 2.0 * (len(w) + 8) * UNIT * size
        slope_error += 8.0 * UNIT * (steepness + mu * norm)
        self._error = kept * self._error + share * error
        self._error += 8.0 * UNIT * (abs(self._value) + abs(self._intercept))
        self._slope_error = kept * self._slope_error + share * slope_error
        self._slope_error += 8.0 * UNIT * float(np.linalg.norm(self._slope))
        self._point_error = kept * self._point_error
        self._point_error += 8.0 * UNIT * float(np.linalg.norm(self._point))
        self._lower = max(self._lower, self._lower_bound())
        return value, gradient

    def _lower_bound(self) -> float:
        """A number that the minimum of the objective cannot be below."""
        steepest = float(np.linalg.norm(self._slope)) * (1.0 + 2.0**-40) + self._slope_error
        bound = 0.5 * steepest * steepest / self._mu
        return self._intercept - self._error - bound * (1.0 + 8.0 * UNIT)

    def gap(self) -> float:
        """Bound of ``(µ/2)‖w - w*‖²`` for the averaged point as computed."""
        gap = max(0.0, self._value + self._error - self._lower)
        gap += 4.0 * UNIT * (abs(self._value) + abs(self._lower))
        distance = math.sqrt(2.0 * gap / self._mu) + self._point_error
        return 0.5 * self._mu * distance * distance * (1.0 + 8.0 * UNIT)

    @property
    def w(self) -> Vector:
        """The average point."""
        return self._point.copy()

    @property
    def value(self) -> float:
        """Average value, which the value at the average point does not exceed."""
        return self._value


class Witness:
    """An objective that remembers what it computed where, and certifies points by it.

    It serves an optimizer as the objective itself would.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective: Any = objective
        # What is known of the point that was evaluated last.
        self._point: Vector | None = None
        self._gradient: Vector | None = None
        self._gap = math.inf
        self._averages: Averages | None = None

    def certifies(self, w: Vector, tolerance: float) -> bool:
        """Say whether ``µ‖w - w*‖ <= tolerance`` is proved, by the gradient or a duality gap.

        The point is evaluated here unless it was the point evaluated last, to the bit.
        """
        gradient, gap = self._evidence(w)
        return certified(self._objective, w, 0.0, gradient, 0, tolerance, gap).converged

    def _evidence(self, w: Vector) -> tuple[Vector, float]:
        """The gradient at `w` and the least duality gap that is known."""
        if self._averages is not None and _same(w, self._averages.w):
            return np.full(self.dim, math.inf), self._averages.gap()
        if self._gradient is None or not _same(w, self._point):
            self.value_and_gradient(w)
        assert self._gradient is not None
        return self._gradient, self._gap

    def _look_at(self, w: Vector) -> None:
        """Forget what is known of another point than `w`."""
        if not _same(w, self._point):
            self._point, self._gradient, self._gap = np.array(w), None, math.inf

    # ---- what an optimizer asks for -------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Everything else that the objective has."""
        return getattr(self._objective, name)

    @property
    def dim(self) -> int:
        """Length of the weight vector."""
        return int(self._objective.dim)

    @property
    def strong_convexity(self) -> float:
        """Modulus ``µ`` of the objective."""
        return float(self._objective.strong_convexity)

    @property
    def smoothness(self) -> float:
        """Bound ``β`` of the Hessian's norm."""
        return float(self._objective.smoothness)

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Value and gradient at `w`, which is remembered."""
        value, gradient = self._objective.value_and_gradient(w)
        self._look_at(w)
        self._gradient = np.array(gradient)
        return value, gradient

    def hessian(self, w: Vector, *, max_rows: int | None = None) -> NDArray[np.float64]:
        """Second derivative of the objective at `w`."""
        hessian: NDArray[np.float64] = self._objective.hessian(w, max_rows=max_rows)
        return hessian

    def gradient_error(self, w_norm: float) -> float:
        """Bound of the rounding error (l2) of a computed gradient at ``‖w‖ <= w_norm``."""
        return float(self._objective.gradient_error(w_norm))

    def averages(self) -> Averages:
        """New averages of points, whose gap is remembered."""
        self._averages = Averages(self)
        return self._averages


class LineWitness(Witness):
    """The same for a function that tells what rounding does to lines below it."""

    def rounding(self, w_norm: float) -> tuple[float, float]:
        """Bounds of the rounding errors of a value and of a subgradient."""
        errors: tuple[float, float] = self._objective.rounding(w_norm)
        return errors


class KinkWitness(LineWitness):
    """The same for an objective whose kinks can be rounded off."""

    def _evidence(self, w: Vector) -> tuple[Vector, float]:
        gradient, gap = super()._evidence(w)
        if gap == math.inf and self.smoothness == math.inf:
            width = 1.0
            for _ in range(MAX_HALVINGS):
                before = self._gap
                if not self.duality_gap(w, width) < before:
                    break
                width *= 0.5
            gap = self._gap
        return gradient, gap

    def smoothed(self, width: float) -> Any:
        """The objective with its kinks rounded off; points are not remembered there."""
        return self._objective.smoothed(width)

    def limit(self, before: Vector, w: Vector, width: float, shrink: float) -> Vector | None:
        """Where the smoothed minimizers lead."""
        ahead: Vector | None = self._objective.limit(before, w, width, shrink)
        return ahead

    def duality_gap(self, w: Vector, width: float, slopes_at: Vector | None = None) -> float:
        """Upper bound of ``F(w) - F(w*)``, which is remembered."""
        gap = float(self._objective.duality_gap(w, width, slopes_at))
        self._look_at(w)
        self._gap = min(self._gap, gap)
        return gap


class RowWitness(KinkWitness):
    """The same for a mean over rows, which offers more to ask for."""

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self._objective.n_samples)

    @property
    def row_smoothness(self) -> float:
        """Bound of the Hessian's norm of every single row's loss."""
        return float(self._objective.row_smoothness)

    @property
    def minimizer_norm(self) -> float:
        """Bound of ``‖w*‖₂``."""
        return float(self._objective.minimizer_norm)

    def snapshot(self, w: Vector) -> Snapshot:
        """What an epoch needs to know about `w`, which is remembered."""
        found: Snapshot = self._objective.snapshot(w)
        self._look_at(w)
        self._gradient = np.array(found.gradient)
        return found

    def sgd_epoch(self, *given: Any, **named: Any) -> None:
        """Steps along single rows."""
        self._objective.sgd_epoch(*given, **named)

    def katyusha_epoch(self, *given: Any, **named: Any) -> None:
        """Katyusha's steps."""
        self._objective.katyusha_epoch(*given, **named)


def witness(objective: Objective) -> Witness:
    """The witness that offers an optimizer what the objective does."""
    if isinstance(objective, FiniteSum):
        return RowWitness(objective)
    if isinstance(objective, Smoothable) and isinstance(objective, Rounded):
        return KinkWitness(objective)
    return LineWitness(objective) if isinstance(objective, Rounded) else Witness(objective)


def averages_of(objective: Objective) -> Averages:
    """Averages of points of an objective; a witness remembers them."""
    return objective.averages() if isinstance(objective, Witness) else Averages(objective)


class SaddleWitness:
    """A convex-concave function that remembers what it computed where, as :class:`Witness` does.

    The bound of :func:`saddle_gap` holds for adversaries inside their set, so only those are
    believed that :meth:`project` returned.

    Parameters
    ----------
    game : SaddleProblem
    """

    def __init__(self, game: SaddleProblem) -> None:
        self._game = game
        self._projected: Vector | None = None
        self._last: tuple[Vector, Vector, Vector, Vector] | None = None

    def certifies(self, w: Vector, v: Vector, tolerance: float) -> bool:
        """Say whether ``µ‖w - w*‖ <= tolerance`` is proved, up to rounding.

        The points are evaluated here, `v` projected on its set, unless they were evaluated last.
        """
        if self._last is None or not (_same(w, self._last[0]) and _same(v, self._last[1])):
            self.value_and_gradients(w, self.project(v))
        assert self._last is not None
        gap, mu = saddle_gap(self._game, *self._last[1:]), self.strong_convexity
        return mu * math.sqrt(2.0 * gap / mu) <= tolerance

    @property
    def dim(self) -> int:
        """Length of `w`."""
        return self._game.dim

    @property
    def dim_adversary(self) -> int:
        """Length of `v`."""
        return self._game.dim_adversary

    @property
    def strong_convexity(self) -> float:
        """``µ`` in `w`."""
        return self._game.strong_convexity

    @property
    def strong_concavity(self) -> float:
        """``ν`` in `v`."""
        return self._game.strong_concavity

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient."""
        return self._game.smoothness

    def value_and_gradients(self, w: Vector, v: Vector) -> tuple[float, Vector, Vector]:
        """Value and gradients, which are remembered if `v` lies in its set."""
        value, gradient, ascent = self._game.value_and_gradients(w, v)
        inside = _same(v, self._projected) or (self._last is not None and _same(v, self._last[1]))
        kept = np.array(w), np.array(v), np.array(gradient), np.array(ascent)
        self._last = kept if inside else None
        return value, gradient, ascent

    def project(self, v: Vector) -> Vector:
        """The point of the set that is closest to `v`."""
        point = self._game.project(v)
        self._projected = np.array(point)
        return point

    def support(self, direction: Vector) -> float:
        """``max_{v ∈ V} <direction, v>``."""
        return self._game.support(direction)


def saddle_gap(game: SaddleProblem, v: Vector, gradient: Vector, ascent: Vector) -> float:
    """Upper bound of ``G(w) - min G``, ``G = max_v H``, from the gradients at one point.

    For every ``w'``, ``G(w') >= H(w', v) >= H(w, v) - ‖∇_w H‖²/(2µ)``, and
    ``G(w) - H(w, v) <= max_{u ∈ V} <∇_v H, u - v> - (ν/2)‖u - v‖²`` by concavity.  So the gap is
    at most that maximum plus ``‖∇_w H‖²/(2µ)``.  It takes constants and gradients for exact.

    `v` is in ``V``; `gradient` and `ascent` are ``∇_w H`` and ``∇_v H``.
    """
    # Rounding may leave the best v a little worse than this one.
    adversary = max(0.0, game.support(ascent) - float(ascent @ v))
    if game.strong_concavity > 0.0:
        # max over V of <ascent, u - v> - (ν/2)‖u - v‖², attained at a projection; all of space
        # gives a bound, too.
        adversary = min(adversary, 0.5 * float(ascent @ ascent) / game.strong_concavity)
        move = game.project(v + ascent / game.strong_concavity) - v
        inside = float(ascent @ move) - 0.5 * game.strong_concavity * float(move @ move)
        adversary = min(adversary, max(0.0, inside))
    return adversary + 0.5 * float(gradient @ gradient) / game.strong_convexity


def _same(first: Any, second: Vector | None) -> bool:
    """Whether two vectors are equal to the bit."""
    return second is not None and np.asarray(first, np.float64).tobytes() == second.tobytes()
