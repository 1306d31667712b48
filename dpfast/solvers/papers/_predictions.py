"""What lowy2021 and zhang2017 choose and predict, beside what output perturbation does.

Nothing of it enters the guarantee.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import scipy.optimize

from dpfast.objectives import ErmShape, GeneralShape, TiltedShape
from dpfast.theory import lowy2021, zhang2017

if TYPE_CHECKING:
    from dpfast.solvers._ridge import Task

# Probability with which the population bound behind zhang2017's ridge may fail.
_FAILURE = 0.1


def _setting(task: Task, goal: Any) -> lowy2021.Setting | None:
    """The goal without its ridge as lowy2021 describes it; None for budgets they do not treat."""
    budget = task.budget
    delta = budget.delta if budget.kind == "approximate" else 0.0
    if budget.kind not in ("pure", "approximate") or budget.epsilon is None or delta >= 0.5:
        return None
    if not (math.isfinite(task.norm) and task.norm > 0.0):
        return None
    mean = not isinstance(goal, GeneralShape)
    spread = 1.0
    if isinstance(goal, TiltedShape):
        # C is what the sensitivity is over that of the mean's minimizer.
        share = goal.minimizer_sensitivity("replace_one") * goal.alpha / (2.0 * goal.lipschitz)
        spread = max(1.0, goal.n_samples * share)
    # The rules for convex functions want the smoothness without the ridge, however large that is.
    bare = dataclasses.replace(goal, alpha=1e-100) if mean else goal
    return lowy2021.Setting(
        lipschitz=goal.lipschitz,
        radius=task.norm,
        dim=goal.dim,
        n_samples=goal.n_samples or 1,
        epsilon=budget.epsilon,
        delta=delta,
        strong_convexity=0.0 if mean else goal.strong_convexity,
        smoothness=bare.smoothness,
        mean=mean,
        spread=spread,
    )


def theorem(task: Task, goal: Any) -> lowy2021.Guarantee | None:
    """lowy2021's theorem for the goal without its ridge, at the ridge that it asks for.

    Of a tilted risk the sensitivity depends on how far the losses spread where minimizers can be,
    so on the ridge itself: more ridge, less spread, and less ridge is asked for.  The two meet once
    in each family of bounds.
    """
    setting = _setting(task, goal)
    if setting is None or not isinstance(goal, TiltedShape):
        return None if setting is None else lowy2021.guarantee(setting, risk=task.risk)

    def at(log_ridge: float, smooth: bool) -> lowy2021.Guarantee:
        there = _setting(task, dataclasses.replace(goal, alpha=math.exp(log_ridge)))
        assert there is not None
        return lowy2021.guarantee(there, smooth=smooth, risk=task.risk)

    def excess(log_ridge: float, smooth: bool) -> float:
        asked = at(log_ridge, smooth).ridge
        assert asked is not None
        return math.log(asked) - log_ridge

    found = []
    for smooth in (False, True) if setting.smooth else (False,):
        root = scipy.optimize.brentq(excess, -100.0, 100.0, args=(smooth,), xtol=1e-12)
        found.append(at(float(root), smooth))
    return min(found, key=lambda guarantee: (not guarantee.applies, guarantee.risk))


def choices(found: lowy2021.Guarantee | None) -> dict[str, Any]:
    """What lowy2021's theorem would take: a ridge, an accuracy in the mean, iterations."""
    if found is None:
        return {}
    return {
        "lowy2021_source": found.source,
        "lowy2021_accuracy": found.accuracy,
        "lowy2021_optimizer": found.optimizer,
        "lowy2021_iterations": found.iterations,
        **({"lowy2021_ridge": found.ridge} if found.ridge is not None else {}),
    }


def risks(
    task: Task, goal: Any, alpha: float, found: lowy2021.Guarantee | None
) -> dict[str, float]:
    """The papers' bounds: lowy2021's at its own ridge, zhang2017's at this one, which it counts."""
    setting = _setting(task, goal)
    if setting is None or found is None:
        return {}
    bounds = {"lowy2021_risk": found.exact_risk}
    if isinstance(goal, ErmShape) and setting.smooth:
        common = (setting.n_samples, setting.dim, setting.epsilon, setting.delta)
        beta, scale = setting.smoothness + alpha, setting.lipschitz
        if alpha > 0.0:
            bounds["zhang2017_rate"] = zhang2017.strongly_convex_rate(alpha, beta, scale, *common)
        else:
            bounds["zhang2017_rate"] = zhang2017.convex_rate(beta, scale, task.norm, *common)
        bounds["zhang2017_bound"] = zhang2017.excess_risk_bound(
            alpha, beta, scale, task.norm, *common
        )
    return bounds


def lowy_ridge(task: Task) -> float:
    """The ridge of lowy2021's theorem."""
    found = theorem(task, task.goal(1.0))
    if found is None:
        raise ValueError(
            "alpha='lowy2021' needs Budget(epsilon) or Budget(epsilon, delta) with delta < "
            f"1/2; got {task.budget!r}."
        )
    assert found.ridge is not None
    return found.ridge


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
    shape = task.problem
    dim = shape.dim if task.budget.kind == "approximate" else shape.dim**2
    return zhang2017.population_ridge(
        shape.smoothness, shape.lipschitz, task.norm, shape.n_samples, dim, task.budget.epsilon,
        _FAILURE,
    )  # fmt: skip


def zhang_iterations(task: Task, mu: float, beta: float) -> int:
    """T of zhang2017's theorems; an equivalent (ε, 0) stands for budgets without epsilon."""
    assert task.problem is not None
    shape, budget = task.problem, task.budget
    epsilon = budget.epsilon
    delta = budget.delta if budget.kind == "approximate" else 0.0
    if epsilon is None:
        # The noise of l2-Laplace at ε = √(d+1)/factor is that of this budget.
        epsilon = math.sqrt(shape.dim + 1.0) / task.factor
    common = (shape.lipschitz, task.norm, shape.n_samples, shape.dim, epsilon, delta)
    if mu > 0.0:
        return zhang2017.strongly_convex_iterations(mu, beta, *common)
    return zhang2017.convex_iterations(beta, *common)
