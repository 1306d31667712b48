"""Ridges and iteration counts of output perturbation by the rules of papers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import scipy.optimize

from dpfast.objectives import TiltedShape
from dpfast.theory import lowy2021, zhang2017

if TYPE_CHECKING:
    from dpfast.solvers._ridge import Task

# Probability with which the population bound behind zhang2017's ridge may fail.
_FAILURE = 0.1


def lowy_ridge(task: Task) -> float:
    """The ridge of the theorem of Lowy & Razaviyayn 2021 with the smaller bound.

    Of a tilted risk the sensitivity depends on how far the losses spread where minimizers can be,
    so on the ridge itself: more ridge, less spread, and less ridge is asked for.  The two meet once
    in each family of bounds.
    """
    goal = task.goal(1.0)
    setting = _setting(task, goal)
    if not isinstance(goal, TiltedShape):
        return _ridge_of(lowy2021.guarantee(setting, risk=task.risk))

    def at(log_ridge: float, smooth: bool) -> lowy2021.Guarantee:
        there = _setting(task, replace(goal, alpha=math.exp(log_ridge)))
        return lowy2021.guarantee(there, smooth=smooth, risk=task.risk)

    def excess(log_ridge: float, smooth: bool) -> float:
        return math.log(_ridge_of(at(log_ridge, smooth))) - log_ridge

    found = []
    for smooth in (False, True) if setting.smooth else (False,):
        root = scipy.optimize.brentq(excess, -100.0, 100.0, args=(smooth,), xtol=1e-12)
        found.append(at(float(root), smooth))
    return _ridge_of(min(found, key=lambda guarantee: (not guarantee.applies, guarantee.risk)))


def _ridge_of(found: lowy2021.Guarantee) -> float:
    assert found.ridge is not None
    return found.ridge


def _setting(task: Task, goal: Any) -> lowy2021.Setting:
    """The goal without its ridge, as the paper describes it."""
    budget = task.budget
    delta = budget.delta if budget.kind == "approximate" else 0.0
    if budget.kind not in ("pure", "approximate") or budget.epsilon is None or delta >= 0.5:
        raise ValueError(
            "alpha='lowy2021' needs Budget(epsilon) or Budget(epsilon, delta) with delta < "
            f"1/2; got {task.budget!r}."
        )
    spread = 1.0
    if isinstance(goal, TiltedShape):
        # C is what the sensitivity is over that of the mean's minimizer.
        share = goal.minimizer_sensitivity("replace_one") * goal.alpha / (2.0 * goal.lipschitz)
        spread = max(1.0, goal.n_samples * share)
    return lowy2021.Setting(
        lipschitz=goal.lipschitz,
        radius=task.norm,
        dim=goal.dim,
        n_samples=goal.n_samples,
        epsilon=budget.epsilon,
        delta=delta,
        # That of the loss part, however large the ridge is.
        smoothness=replace(goal, alpha=1e-100).smoothness,
        spread=spread,
    )


def zhang_ridge(task: Task, iterate: bool) -> float:
    """0 (their convex algorithm), or the ridge for the population's risk."""
    assert task.problem is not None
    if task.risk == "erm":
        if not iterate:
            raise ValueError(
                "alpha='zhang2017' with risk='erm' means no ridge, which needs mode='iterate'; "
                "got mode='certificate'."
            )
        return 0.0
    if task.budget.epsilon is None:
        raise ValueError(f"alpha='zhang2017' needs a budget with epsilon; got {task.budget!r}.")
    return zhang2017.population_ridge(_zhang_setting(task, 0.0, task.problem.smoothness), _FAILURE)


def zhang_iterations(task: Task, mu: float, beta: float) -> int:
    """T of zhang2017's theorems."""
    return _zhang_setting(task, mu, beta).iterations


def _zhang_setting(task: Task, mu: float, beta: float) -> zhang2017.Setting:
    """The mean loss as that paper has it; an equivalent (ε, 0) stands for budgets without ε."""
    assert task.problem is not None
    shape, budget = task.problem, task.budget
    epsilon = budget.epsilon
    delta = budget.delta if budget.kind == "approximate" else 0.0
    if epsilon is None:
        # The noise of l2-Laplace at ε = √(d+1)/factor is that of this budget.
        epsilon = math.sqrt(shape.dim + 1.0) / task.factor
    return zhang2017.Setting(
        mu, beta, shape.lipschitz, task.norm, shape.n_samples, shape.dim, epsilon, delta
    )
