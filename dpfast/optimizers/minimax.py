"""Saddle points: the minimizer of ``G(w) = max_v H(w, v)``."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpfast._typing import Vector
from dpfast._validation import check_integer, check_real
from dpfast.objectives import SaddleProblem
from dpfast.optimizers._contract import project
from dpfast.optimizers.certificates import saddle_gap


@dataclass(frozen=True)
class MinimaxResult:
    """What :func:`minimax_appa` found; it depends on private data in every field.

    Attributes
    ----------
    w, v : ndarray
    value : float
        ``H(w, v)``.
    gap : float
        Upper bound of ``G(w) - min G``.
    certificate : float
        Upper bound of ``‖w - w*‖₂``, ``√(2 gap/µ)``.
    passes : int
        Evaluations of ``H`` and its gradients.
    converged : bool
        Whether ``µ · certificate`` reached the tolerance.
    """

    w: Vector
    v: Vector
    value: float
    gap: float
    certificate: float
    passes: int
    converged: bool


class _Stop(Exception):
    """The certificate holds, or the passes are used up."""


class _Run:
    """Evaluations, counted and certified."""

    def __init__(self, problem: SaddleProblem, tolerance: float, max_passes: int) -> None:
        self.problem = problem
        self.tolerance, self.max_passes, self.passes = tolerance, max_passes, 0
        self.best: MinimaxResult | None = None

    def evaluate(self, w: Vector, v: Vector) -> tuple[Vector, Vector]:
        """Gradients at a point, which becomes a candidate; `v` must lie in ``V``."""
        if self.passes >= self.max_passes:
            raise _Stop
        self.passes += 1
        problem, mu = self.problem, self.problem.strong_convexity
        value, gradient, ascent = problem.value_and_gradients(w, v)
        gap = saddle_gap(problem, v, gradient, ascent)
        certificate = math.sqrt(2.0 * gap / mu)
        if self.best is None or gap < self.best.gap:
            self.best = MinimaxResult(
                w=w.copy(),
                v=v.copy(),
                value=value,
                gap=gap,
                certificate=certificate,
                passes=self.passes,
                converged=mu * certificate <= self.tolerance,
            )
            if self.best.converged:
                raise _Stop
        return gradient, ascent


def minimax_appa(
    problem: SaddleProblem,
    *,
    tolerance: float,
    max_passes: int = 200_000,
    w0: Vector | None = None,
    v0: Vector | None = None,
    radius: float = math.inf,
) -> MinimaxResult:
    r"""Minimize ``G(w) = max_{v ∈ V} H(w, v)`` to a certified distance.

    Minimax-APPA (Lin, Jin & Jordan 2020): an accelerated proximal point method in `w` whose
    subproblems ``min_w max_v H(w, v) + ℓ‖w - w̃‖²`` are solved by accelerated ascent in `v` over
    accelerated descent in `w` (their Maximin-AG2), ``O(√(κ_w κ_v))`` gradients up to logarithms.
    The added term makes the inner descent a problem of condition at most 3/2, and the ascent is on
    a function of smoothness ``3ℓ/2``.  Where ``ν = 0`` the ascent subtracts
    ``(ν'/2)‖v - v_0‖²`` with a ``ν'`` that is quartered as the certificate asks for it.

    The certificate needs one point only and holds whatever the path, see
    :func:`~dpfast.optimizers.certificates.saddle_gap`; ``√(2 gap/µ)`` bounds the distance to the
    minimizer of ``G``, which is µ-strongly convex.  It trusts the problem's constants, and, other
    than those of the table of optimizers, takes its gradients for exact.

    Parameters
    ----------
    problem : SaddleProblem
    tolerance : float
        Target for ``µ`` times the certified distance.
    max_passes : int, default=200000
        Evaluations of the gradients before giving up.
    w0, v0 : ndarray, default=None
        Start; None is zero, and its projection on ``V``.
    radius : float, default=inf
        Project `w` on the ball of this radius; the certificate is about the minimizer over all of
        space.

    Returns
    -------
    MinimaxResult
        With ``converged=False`` when the tolerance was not reached: nothing is raised.

    Raises
    ------
    ValueError
        If a constant or an argument is out of range.
    """
    tolerance = check_real("tolerance", tolerance, low=0.0, low_open=True)
    max_passes = check_integer("max_passes", max_passes, low=1)
    radius = check_real("radius", radius, low=0.0, low_open=True, allow_inf=True)
    mu = check_real("strong_convexity", problem.strong_convexity, low=0.0, low_open=True)
    nu = check_real("strong_concavity", problem.strong_concavity, low=0.0)
    ell = check_real("smoothness", problem.smoothness, low=mu)
    w = _start("w0", w0, problem.dim)
    center = problem.project(_start("v0", v0, problem.dim_adversary))
    run = _Run(problem, tolerance, max_passes)
    regularization = 0.0 if nu > 0.0 else ell
    try:
        run.evaluate(w, center)
        v = center
        while True:
            w, v = _proximal_points(run, w, v, center, mu, nu, regularization, ell, radius)
            regularization *= 0.25
            if nu > 0.0 or regularization < 1e-12 * ell:
                break
    except _Stop:
        pass
    assert run.best is not None
    best = run.best
    return MinimaxResult(
        best.w, best.v, best.value, best.gap, best.certificate, run.passes, best.converged
    )


def _start(name: str, given: Vector | None, length: int) -> Vector:
    start = np.zeros(length) if given is None else np.array(given, dtype=np.float64)
    if start.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},); got {start.shape}.")
    if not np.all(np.isfinite(start)):
        raise ValueError(f"{name} must be finite; got NaN or infinity.")
    return start


def _proximal_points(
    run: _Run,
    w: Vector,
    v: Vector,
    center: Vector,
    mu: float,
    nu: float,
    regularization: float,
    ell: float,
    radius: float,
) -> tuple[Vector, Vector]:
    """The outer loop; ends when a step hardly moves."""
    root = math.sqrt(ell / mu)
    theta = (2.0 * root - 1.0) / (2.0 * root + 1.0)
    prox = w
    # Rounds that bring the distance down by 1e-16, by the rate 1 - 1/(2√κ).
    for _ in range(int(75.0 * 2.0 * root) + 20):
        before = w
        w, v = _maximin(run, w, v, prox, center, nu + regularization, regularization, ell, radius)
        prox = w + theta * (w - before)
        if float(np.linalg.norm(w - before)) <= 1e-15 * (1.0 + float(np.linalg.norm(w))):
            break
        # What regularization leaves of the gap is not worth more rounds.
        if regularization > 0.0 and float(np.linalg.norm(w - before)) <= (
            1e-3 * run.tolerance / ell
        ):
            break
    return w, v


def _maximin(
    run: _Run,
    w: Vector,
    v: Vector,
    prox: Vector,
    center: Vector,
    concavity: float,
    regularization: float,
    ell: float,
    radius: float,
) -> tuple[Vector, Vector]:
    """Accelerated ascent on ``min_w H(w, v) + ℓ‖w - prox‖² - (ν'/2)‖v - center‖²``."""
    smoothness = 1.5 * ell + regularization
    root = math.sqrt(smoothness / concavity)
    theta = (root - 1.0) / (root + 1.0)
    project_v = run.problem.project
    ahead = v
    # A few times √κ rounds leave a small part of the error; the next proximal point starts here.
    for _ in range(int(3.0 * root) + 2):
        w, ascent = _descend(run, w, project_v(ahead), prox, ell, radius)
        point = project_v(ahead)
        ascent = ascent - regularization * (point - center)
        before = v
        v = project_v(point + ascent / smoothness)
        ahead = v + theta * (v - before)
        if float(np.linalg.norm(v - before)) <= 1e-16 * (1.0 + float(np.linalg.norm(v))):
            break
    return w, v


def _descend(
    run: _Run, w: Vector, v: Vector, prox: Vector, ell: float, radius: float
) -> tuple[Vector, Vector]:
    """Descent on ``H(w, v) + ℓ‖w - prox‖²``, whose curvature lies between 2ℓ and 3ℓ."""
    for _ in range(60):
        gradient, ascent = run.evaluate(w, v)
        step = (gradient + 2.0 * ell * (w - prox)) / (2.5 * ell)
        moved = project(w - step, radius)
        size = float(np.linalg.norm(moved - w))
        # Each step leaves a fifth of the error.
        if size <= max(1e-4 * run.tolerance / ell, 1e-15 * float(np.linalg.norm(w))):
            break
        w = moved
    return w, ascent
