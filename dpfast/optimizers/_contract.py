"""What the optimizers share: their signature, points that are examined, checks, projections."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast._typing import Vector
from dpfast._validation import check_integer, check_real
from dpfast.objectives import FiniteSum, Objective, Smoothable, Snapshot
from dpfast.optimizers.certificates import MAX_HALVINGS, OptimizeResult, certified

Callback = Callable[[OptimizeResult], None]

# Row indices drawn at once: what they take stays in a few megabytes however many rows there are.
_INDICES = 2**18


class Minimizer(Protocol):
    """Minimize a strongly convex objective to a certified distance; what all optimizers share.

    Parameters
    ----------
    objective : Objective
    tolerance : float
        Target for ``µ`` times the certified distance: without kinks, for the gradient norm,
        rounding error included.
    max_passes : int
        Passes over the rows, mostly evaluations of the gradient, before giving up.
    w0 : ndarray of shape (dim,), default=None
        Start; None is zero.
    radius : float or None, default=None
        Of those that project: onto the ball of this radius, in every step.  The certificate is
        about the minimizer over all of space, so a ball that does not hold it leaves
        ``converged=False``.
    rng : int or numpy.random.Generator, default=0
        Of those that look at single rows: seed of their order, which is no secret, since
        certificates hold for every order.
    callback : callable or None, default=None
        Of most: called with the :class:`OptimizeResult` at every point that is certified.

    Returns
    -------
    OptimizeResult
        With ``converged=False`` when the tolerance was not reached: nothing is raised.

    Raises
    ------
    TypeError, ValueError
        If the objective does not suit, such as one with kinks, or an argument is out of range.
    """

    def __call__(
        self,
        objective: Objective,
        *,
        tolerance: float,
        max_passes: int = ...,
        w0: Vector | None = ...,
    ) -> OptimizeResult: ...


class Progress:
    """The best point so far, the passes used, and whether to go on.

    `tolerance` is the target for ``µ · certificate``; `callback` is called with the result at every
    point that is examined.
    """

    def __init__(
        self,
        objective: Objective,
        tolerance: float,
        max_passes: int,
        callback: Callback | None = None,
    ) -> None:
        self.objective = objective
        self.tolerance = check_real("tolerance", tolerance, low=0.0, low_open=True)
        self.max_passes = check_integer("max_passes", max_passes, low=1)
        self.passes = 0
        self._callback = callback
        self._best: OptimizeResult | None = None
        self._rank = (math.inf, math.inf)
        self._hopeless = False

    def evaluate(self, w: Vector) -> tuple[float, Vector]:
        """Value and gradient at `w`, which become a candidate for the result."""
        self.passes += 1
        value, gradient = self.objective.value_and_gradient(w)
        self.examine(w, value, gradient)
        return value, gradient

    def snapshot(self, rows: FiniteSum, w: Vector) -> Snapshot:
        """What an epoch needs to know about `w`, which becomes a candidate for the result."""
        self.passes += 2
        found = rows.snapshot(w)
        self.examine(w, found.value, found.gradient)
        return found

    def examine(self, w: Vector, value: float, gradient: Vector, gap: float = math.inf) -> None:
        """Certify a point whose passes have been counted."""
        result = certified(
            self.objective, np.array(w), value, gradient, self.passes, self.tolerance, gap
        )
        norm = float(np.linalg.norm(gradient))
        # Certificates may all be infinite; then the gradients as computed decide.
        rank = (result.certificate, norm)
        if self._best is None or rank < self._rank:
            self._best, self._rank = result, rank
        # The bound of the gradient's rounding error alone exceeds the tolerance, and the computed
        # gradient is below one of them: more passes cannot help.
        error = result.gradient_norm - norm
        floor = error if error < math.inf else self.tolerance
        if error > self.tolerance and norm <= floor:
            self._hopeless = True
        if self._callback is not None:
            self._callback(result)

    def examine_kinked(self, w: Vector, width: float) -> float:
        """Certify `w` by the duality gap of the best width near `width`; returns that width."""
        objective = self.objective
        assert isinstance(objective, Smoothable)
        value, gradient = objective.value_and_gradient(w)
        gap = objective.duality_gap(w, width)
        self.passes += 3
        for _ in range(MAX_HALVINGS):
            if self.passes + 2 > self.max_passes:
                break
            narrower = objective.duality_gap(w, 0.5 * width)
            self.passes += 2
            if not narrower < gap:
                break
            width, gap = 0.5 * width, narrower
        self.examine(w, value, gradient, gap)
        return width

    def affords(self, passes: int) -> bool:
        """Whether to go on with something that takes this many passes."""
        if self._best is not None and self._best.converged:
            return False
        return self.passes + passes <= self.max_passes and not self._hopeless

    def result(self) -> OptimizeResult:
        """The best point, with all passes counted."""
        assert self._best is not None
        return replace(self._best, passes=self.passes)


def check_start(objective: Objective, w0: Vector | None) -> Vector:
    """A copy of the start; zero if there is none."""
    if w0 is None:
        return np.zeros(objective.dim)
    start = np.array(w0, dtype=np.float64)
    if start.shape != (objective.dim,):
        raise ValueError(f"w0 must have shape ({objective.dim},); got {start.shape}.")
    if not np.all(np.isfinite(start)):
        raise ValueError("w0 must be finite; got NaN or infinity.")
    return start


def check_radius(radius: float | None) -> float:
    """Radius of the ball to project on; None is infinity."""
    if radius is None:
        return math.inf
    return check_real("radius", radius, low=0.0, low_open=True)


def project(w: Vector, radius: float) -> Vector:
    """The point of the ball ``‖w‖ <= radius`` that is closest to `w`."""
    norm = float(np.linalg.norm(w))
    return w * (radius / norm) if norm > radius else w


def check_smooth(objective: Objective, optimizer: str) -> None:
    """Refuse an objective with kinks (ValueError)."""
    if not math.isfinite(objective.smoothness):
        raise ValueError(
            f"objective must be smooth for the optimizer {optimizer!r}; its smoothness is "
            f"{objective.smoothness!r}. Optimizers for losses with kinks: 'subgradient', 'sgd', "
            f"'smoothing'."
        )


def check_finite_sum(objective: Any, optimizer: str) -> FiniteSum:
    """Refuse an objective without access to single rows (TypeError)."""
    if not isinstance(objective, FiniteSum):
        raise TypeError(
            f"objective must be a mean over rows (dpfast.objectives.FiniteSum) for the optimizer "
            f"{optimizer!r}; got {type(objective).__name__}."
        )
    return objective


def random_rows(
    rng: np.random.Generator, n_samples: int, n_steps: int
) -> Iterator[NDArray[np.int64]]:
    """`n_steps` rows drawn uniformly with replacement, in arrays of bounded length."""
    for start in range(0, n_steps, _INDICES):
        yield rng.integers(n_samples, size=min(_INDICES, n_steps - start), dtype=np.int64)
