"""The ridge of output perturbation: by rules, or least by the bound of the excess risk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.optimize

from dpfast._validation import check_real
from dpfast.objectives import RiskShape, objective_shape
from dpfast.privacy import Budget
from dpfast.shape import ProblemShape
from dpfast.solvers._contract import TYPICAL_MARGIN
from dpfast.solvers.papers import _rules

#: Rules for the ridge by name.
RIDGES = ("auto", "lowy2021", "zhang2017")


class Task:
    """What all modes need to know: the objective's family, the budget and the norm's guess."""

    def __init__(
        self,
        shape: Any,
        budget: Budget,
        neighboring_relation: str,
        noise: str,
        factor: float,
        objective: str,
        objective_options: Mapping[str, Any] | None,
        minimizer_norm: float | None,
        risk: str,
    ) -> None:
        self.given = not isinstance(shape, ProblemShape)
        self.name, self.options = objective, dict(objective_options or {})
        if self.given and (objective != "erm" or self.options):
            raise ValueError(
                "objective and objective_options must be left out for a given objective; "
                f"got objective={objective!r}."
            )
        self.bare = shape
        self.problem: ProblemShape | None = None
        if not self.given:
            self.problem = shape
        elif isinstance(shape, RiskShape):
            self.problem = shape.problem
        self.budget, self.relation, self.risk = budget, neighboring_relation, risk
        self.noise, self.factor = noise, factor
        if minimizer_norm is not None:
            minimizer_norm = check_real("minimizer_norm", minimizer_norm, low=0.0, low_open=True)
        elif self.problem is not None:
            minimizer_norm = TYPICAL_MARGIN / self.problem.row_norm
        else:
            minimizer_norm = shape.minimizer_norm
        self.norm: float = minimizer_norm
        lacks = self.goal(1.0).lacks  # refuses unknown names first
        if lacks is not None:
            assert self.problem is not None
            raise ValueError(
                f"loss must be {lacks}, for output-perturbation; got {self.problem.loss.name!r}."
            )

    def goal(self, alpha: float) -> Any:
        """The public shape of the objective with this ridge."""
        if self.given:
            return self.bare
        assert self.problem is not None
        return objective_shape(self.name, self.problem, alpha, **self.options)

    def sensitivity(self, goal: Any) -> float:
        """Distance of neighbors' minimizers."""
        return float(goal.minimizer_sensitivity(self.relation))

    def bound(self, alpha: float) -> float:
        """The bound that "auto" minimizes."""
        goal = self.goal(alpha)
        return self.risk_bound(goal, self.factor * self.sensitivity(goal))

    def risk_bound(self, goal: Any, noise_stddev: float) -> float:
        """Bound of the expected excess risk over the best weights of the norm that was guessed.

        ``E F_0(ŵ + z) - F_0(v) <= (α/2)‖v‖² + (v_z/2)(β + αd)`` for noise of mean zero and
        variance ``v_z`` in each coordinate, ``F_0`` the objective without its ridge: ``F_0 <= F``;
        along ``z`` the Hessian is at most ``max|ℓ''| (1/n) Σ x̃_i x̃_i^T + αI``, whose trace is at
        most ``β + αd``; and ``F(ŵ) <= F(v)``.  Lowy & Razaviyayn 2021, Theorem 3.5, bound the noise
        term by ``(β + α) d`` instead, since they do not use that the loss is a function of a
        margin.  For the weights before they are projected on the ball, where ``z`` is the same in
        all directions.

        ``E‖z‖ <= √d σ``, and for the l2-Laplace law it is d scales where ``σ²`` is ``d + 1``
        squared scales.
        """
        length = math.sqrt(goal.dim) * noise_stddev
        if self.noise == "l2-laplace":
            length *= math.sqrt(goal.dim / (goal.dim + 1.0))
        return float(goal.ridge_risk(self.norm) + goal.noise_risk(noise_stddev, length))


def settle_alpha(task: Task, alpha: float | str | None, *, iterate: bool) -> float:
    """The ridge; 0 only where `iterate` allows it."""
    if task.given:
        if alpha is not None:
            raise ValueError(
                f"alpha must be None for a given objective, which has its own; got {alpha!r}."
            )
        return float(task.bare.alpha) if isinstance(task.bare, RiskShape) else 0.0
    assert task.problem is not None
    if alpha is None:
        alpha = task.problem.alpha if task.problem.alpha is not None else "auto"
    if alpha == "lowy2021":
        alpha = _rules.lowy_ridge(task)
    elif alpha == "zhang2017":
        alpha = _rules.zhang_ridge(task, iterate)
    elif alpha == "auto":
        if task.name == "erm" and math.isfinite(task.problem.smoothness):
            alpha = auto_alpha(task.problem, task.relation, task.factor, task.norm)
        else:
            alpha = _search_alpha(task)
    if iterate and alpha == 0.0:
        return 0.0
    return check_real("alpha", alpha, low=1e-100, high=1e100, hint=f"Or pass one of {RIDGES}.")


def auto_alpha(
    shape: ProblemShape, neighboring_relation: str, noise_factor: float, minimizer_norm: float
) -> float:
    """Ridge that minimizes :meth:`Task.risk_bound` for the mean of a smooth loss.

    With ``v_z = (c/α)²`` the bound is ``(α/2)B² + βc²/(2α²) + dc²/(2α)``; its derivative vanishes
    at the one positive root of ``B²α³ - dc²α - 2βc²``, ``B`` the minimizer's norm and ``c/α`` the
    noise's deviation, `noise_factor` times the sensitivity.
    """
    c = noise_factor * shape.minimizer_sensitivity(1.0, neighboring_relation)
    linear = shape.dim * (c / minimizer_norm) ** 2
    constant = 2.0 * shape.smoothness * (c / minimizer_norm) ** 2
    # The root lies between the roots of the two-term equations and twice their maximum.
    high = 2.0 * max(math.sqrt(linear), constant ** (1.0 / 3.0))
    root = scipy.optimize.brentq(
        lambda a: a * (a * a - linear) - constant, 0.0, high, xtol=high * 1e-12, rtol=1e-12
    )
    return min(max(float(root), 1e-100), 1e100)


def _search_alpha(task: Task) -> float:
    """Ridge that minimizes the bound where it has no closed form: a grid, then a refinement."""
    assert task.problem is not None
    center = math.log(task.problem.lipschitz / task.norm)
    grid = center + np.linspace(-40.0, 25.0, 131)
    bounds = [task.bound(math.exp(x)) for x in grid]
    best = grid[int(np.argmin(bounds))]
    found = scipy.optimize.minimize_scalar(
        lambda x: task.bound(math.exp(x)), bounds=(best - 0.5, best + 0.5), method="bounded"
    )
    return math.exp(float(found.x))
