r"""Output perturbation: minimize, prove how close, add noise once.

For a convex loss the minimizer of ``F(w) = (1/n) Σ ℓ_i + (α/2)‖w‖²`` moves by at most
``Δ_F = 2L/(αn)`` when one record is replaced (``L/(αn)`` when one is added or removed), see
:meth:`dpfast.ProblemShape.minimizer_sensitivity`; every other public shape of
:mod:`dpfast.objectives` states its own ``Δ_F`` and strong convexity ``µ``.

**mode="certificate"** (default).  What is perturbed is not the minimizer but a point ``ŵ`` that an
optimizer certifies: ``‖∇F(ŵ)‖ <= τ``, rounding error included, which implies ``‖ŵ - w*‖ <= τ/µ`` by
strong convexity; for the hinge a duality gap of at most ``τ²/(2µ)``, which implies the same, as
does the gap of a saddle point (:mod:`dpfast.objectives.saddle`).
Neighbors' certified points are therefore at most ``Δ = Δ_F + 2τ/µ`` apart **on every run**, and
Gaussian or l2-Laplace noise calibrated to Δ makes the release (ε, δ)- or ε-differentially private.
(Lowy & Razaviyayn 2021, Algorithm 1, bound the expected suboptimality of a randomized optimizer
instead, which leaves the tail unprotected.)  An optimizer that misses the certificate is followed
by a deterministic one; if none reaches it, nothing is released.

**mode="iterate"**.  Zhang et al. 2017, Algorithm 1: T steps of gradient descent from a fixed
``w_0``, whose iterate itself is perturbed.  Its sensitivity is that of
:func:`dpfast.theory.zhang2017.descent_sensitivity` with ``g = 2L/n`` or ``L/n``: one record's loss
has gradients no longer than L everywhere, and the ridge is the same for both neighbors.  What
rounding adds to a step, at most ``ηe``, contracts like the rest and is charged.  No certificate is
needed, and no ridge.

Sources: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1; Zhang et al. 2017, Algorithm 1; Lowy &
Razaviyayn 2021, Algorithms 1, 6 and 8.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike, NDArray

from dpfast._validation import check_choice, check_integer, check_real
from dpfast.errors import CertificateNotReached
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian, L2Laplace
from dpfast.objectives import (
    AdversarialShape,
    ErmShape,
    GeneralShape,
    SaddleShape,
    TiltedShape,
    make_objective,
    objective_shape,
)
from dpfast.optimizers import OPTIMIZERS, OptimizeResult, as_minimizer, minimax_appa
from dpfast.optimizers._contract import project
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, Ledger, records_apart
from dpfast.privacy.calibration import budget_epsilon, budget_mu
from dpfast.privacy.papers import gaussian_stddev
from dpfast.problem import Problem
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape
from dpfast.solvers import _seconds
from dpfast.solvers._contract import TYPICAL_MARGIN, Outcome
from dpfast.solvers._contract import LegacyPlan as Plan
from dpfast.theory import lowy2021, zhang2017

Vector = NDArray[np.float64]

NAME = "output-perturbation"
OPTIONS = (
    "alpha", "optimizer", "noise", "minimizer_norm", "mode", "calibration", "tolerance", "w_radius",
    "risk", "objective", "objective_options", "optimizer_options", "iterations", "step", "w0",
)  # fmt: skip
BUDGET_KINDS = ("pure", "approximate", "zcdp", "gdp")
RELATIONS = NEIGHBORING_RELATIONS
MINIMIZES = True
EXACT: Mapping[str, Any] = MappingProxyType({})
EXPECTS = "excess_risk_bound"

MODES = ("certificate", "iterate")
#: How the Gaussian's scale follows from (ε, δ); "paper" also takes zhang2017's own sensitivities.
CALIBRATIONS = ("analytic", "zhao", "classical", "paper")
#: Rules for the ridge by name.
RIDGES = ("auto", "lowy2021", "zhang2017")

_WHERE = {
    "certificate": "output: certified minimizer",
    "iterate": "output: last iterate of gradient descent",
}
# Kinds of noise, and the accountants under which one release can use up the budget.
_NOISES = {
    "gaussian": ("auto", "gdp", "zcdp", "basic", "rdp"),
    "l2-laplace": ("auto", "pure", "basic", "optimal"),
}
# The optimizer's share of the sensitivity: small enough to cost neither accuracy nor agreement with
# the exact minimizer to six digits, large enough to be reached in floating point.
_TOLERANCE_SHARE = 1e-6
# A duality gap is the square of a distance, and its rounding error does not shrink: 1e-2 of the
# distance is 1e-4 of the gap, some n² times the smallest that floating point can certify.
_KINK_SHARE = 1e-2
# Newton factors d x d matrices; beyond this L-BFGS is faster.
_NEWTON_MAX_DIM = 1000
# Probability with which the population bound behind zhang2017's ridge may fail.
_FAILURE = 0.1
# More full gradients than this are a mistake: T of the theorems grows with β/α.
_MAX_ITERATIONS = 10**7
# Which optimizers can work on what.
ROW_OPTIMIZERS = ("sgd", "svrg", "katyusha")
_KINK_OPTIMIZERS = ("subgradient", "sgd", "smoothing")
_SADDLE_OPTIMIZER = "minimax_appa"


def plan(
    shape: Any,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    optimizer: str | Callable[..., Any] = "auto",
    noise: str = "auto",
    minimizer_norm: float | None = None,
    mode: str = "certificate",
    calibration: str = "analytic",
    tolerance: float | str | None = None,
    w_radius: float | None = None,
    risk: str = "erm",
    objective: str = "erm",
    objective_options: Mapping[str, Any] | None = None,
    optimizer_options: Mapping[str, Any] | None = None,
    iterations: int | None = None,
    step: float | None = None,
    w0: ArrayLike | None = None,
) -> Plan:
    """Settle ridge, tolerance and noise from public quantities.

    Parameters
    ----------
    shape : ProblemShape, or the public shape of an objective
    budget : Budget
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    accountant : str, default="auto"
        The accountant of the ledger that will be charged.
    alpha : float, "auto", "lowy2021", "zhang2017" or None, default=None
        Ridge of the mean loss.  None takes that of `shape`, or "auto" if it has none.  "auto"
        minimizes the excess-risk bound over the ridge.  "lowy2021" is the better of their Theorems
        3.4 and 3.5 (Propositions 4.3 and 4.4 for ``risk="population"``).  "zhang2017" is 0 for
        ``risk="erm"`` (which needs ``mode="iterate"``) and otherwise the ridge after Theorem 3.
    optimizer : str or callable, default="auto"
        A name in :data:`dpfast.optimizers.OPTIMIZERS`, or a function for
        :func:`dpfast.optimizers.as_minimizer`, whose result is certified like any other.
    noise : {"auto", "gaussian", "l2-laplace"}
        "auto" takes the one with the smaller standard deviation; l2-Laplace when ``δ = 0``.
    minimizer_norm : float or None
        Guess of the norm of the best weights, for the rules above; None is 6 over the row norm.
        A wrong guess costs accuracy, never privacy.
    mode : {"certificate", "iterate"}
        See the module's first lines.
    calibration : {"analytic", "zhao", "classical", "paper"}
        Scale of Gaussian noise: exact; lowy2021's; ``√(2 ln(1.25/δ)) Δ/ε``, for ``ε <= 1``;
        zhang2017's ``√(2 ln(2/δ)) Δ/ε``, and in ``mode="iterate"`` their steps and sensitivities.
        "paper" is accepted where the exact condition says that it is private.
    tolerance : float, "machine" or None, default=None
        Gradient norm (times ``µ`` a distance) to certify; None is a millionth of what the
        sensitivity allows, "machine" the least that float64 can certify.
    w_radius : float or None, default=None
        Project the noisy weights on this ball too.  It should hold the minimizer.
    risk : {"erm", "population"}
        For which risk ``alpha="lowy2021"`` and ``"zhang2017"`` are made.
    objective : {"erm", "tilted", "adversarial"}
    objective_options : mapping or None, default=None
        See :func:`dpfast.objectives.make_objective`.
    optimizer_options : mapping or None, default=None
        Further arguments of the optimizer, such as ``max_passes``.
    iterations : int or None, default=None
        T of ``mode="iterate"``; None takes that of zhang2017's Theorem 2 or 3, with the constant 1.
    step : float or None, default=None
        Step of ``mode="iterate"``, at most ``2/(β + µ)``; None is ``2/(β + µ)``, ``1/β`` without a
        ridge, and with ``calibration="paper"`` their ``1/(β + µ)`` or ``1/β``.
    w0 : array-like of shape (dim,) or None, default=None
        Public start of ``mode="iterate"``; None is zero.

    Returns
    -------
    Plan

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or the objective has no certificate.
    """
    check_choice("mode", mode, MODES)
    check_choice("calibration", calibration, CALIBRATIONS)
    check_choice("noise", noise, ("auto", *_NOISES))
    check_choice("risk", risk, lowy2021.RISKS)
    if w_radius is not None:
        w_radius = check_real("w_radius", w_radius, low=0.0, low_open=True)
    noise = _choose_noise(noise, shape.dim, budget, accountant)
    if calibration != "analytic" and noise != "gaussian" and budget.kind != "pure":
        if accountant not in _NOISES["gaussian"]:
            raise ValueError(
                f"calibration must be 'analytic' with accountant={accountant!r}; "
                f"got {calibration!r}."
            )
        noise = "gaussian"
    factor = _noise_factor(shape.dim, budget, noise, accountant, calibration)
    task = _Task(
        shape, budget, neighboring_relation, noise, factor, objective, objective_options,
        minimizer_norm, risk,
    )  # fmt: skip
    if mode == "iterate":
        settled = _plan_iterate(
            task, alpha, tolerance, calibration, iterations=iterations, step=step, w0=w0
        )
    else:
        for name, value in (("iterations", iterations), ("step", step), ("w0", w0)):
            if value is not None:
                raise ValueError(f"{name} must be None with mode='certificate'; got {value!r}.")
        settled = _plan_certificate(task, alpha, tolerance)
        settled["parameters"]["optimizer"] = choose_optimizer(optimizer, settled["goal"])
        settled["parameters"]["optimizer_options"] = MappingProxyType(dict(optimizer_options or {}))
    if mode == "iterate" and (optimizer != "auto" or optimizer_options):
        raise ValueError(
            f"optimizer must be 'auto' with mode='iterate', which is gradient descent; "
            f"got {optimizer!r}."
        )

    radius = settled["radius"]
    mechanism = _mechanism(
        noise,
        budget,
        accountant,
        calibration,
        sensitivity=settled["sensitivity"],
        error=settled["error"],
        dimension=shape.dim,
        neighboring_relation=neighboring_relation,
        bound=settled["bound"] if math.isfinite(settled["bound"]) else None,
    )
    event = mechanism.event(_WHERE[mode])
    deviation = factor * event.sensitivity
    goal, ridge = settled["goal"], settled["alpha"]
    theorem = _theorem(task, goal)
    return Plan(
        solver=NAME,
        shape=task.problem.with_alpha(ridge) if task.problem is not None and ridge else task.bare,
        budget=budget,
        neighboring_relation=neighboring_relation,
        events=(event,),
        parameters=MappingProxyType(
            {
                "mechanism": mechanism,
                "mode": mode,
                "noise": noise,
                "objective": task.name,
                "objective_options": MappingProxyType(dict(task.options)),
                **settled["parameters"],
                "minimizer_sensitivity": settled["exact_sensitivity"],
                "radius": min(radius, w_radius) if w_radius is not None else radius,
                **_papers(theorem),
            }
        ),
        expected=MappingProxyType(
            {
                "noise_stddev_per_weight": deviation,
                "excess_risk_bound": settled["optimization_risk"]
                + _risk_bound(goal, ridge, deviation, task.norm, noise),
                **_paper_risks(task, goal, ridge, theorem),
                **_expected_seconds(task, settled["parameters"]),
            }
        ),
        objective=goal if task.given else None,
    )


def _expected_seconds(task: _Task, parameters: Mapping[str, Any]) -> dict[str, float]:
    """For the mean loss of a problem; of other objectives the plan knows too little."""
    shape = task.problem
    if shape is None or task.name != "erm":
        return {}
    if "iterations" in parameters:
        passes = int(parameters["iterations"]) * _seconds.gradient(shape)
        return {"seconds": _seconds.preparation(shape) + passes + _seconds.release(shape.dim)}
    return _seconds.whole_fit(shape, str(parameters["optimizer"]))


class _Task:
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
        self.problem: ProblemShape | None = getattr(shape, "problem", None if self.given else shape)
        self.budget, self.relation, self.risk = budget, neighboring_relation, risk
        self.noise, self.factor = noise, factor
        if minimizer_norm is not None:
            minimizer_norm = check_real("minimizer_norm", minimizer_norm, low=0.0, low_open=True)
        elif self.problem is not None:
            minimizer_norm = TYPICAL_MARGIN / self.problem.row_norm
        else:
            minimizer_norm = shape.minimizer_norm
        self.norm: float = minimizer_norm
        if isinstance(shape, ErmShape):
            _check_loss(shape.problem.loss)
        if not self.given:
            objective_shape(self.name, shape, 1.0, **self.options)  # refuses unknown names first
            _check_loss(shape.loss)

    def goal(self, alpha: float) -> Any:
        """The public shape of the objective with this ridge."""
        if self.given:
            return self.bare
        assert self.problem is not None
        return objective_shape(self.name, self.problem, alpha, **self.options)

    def sensitivity(self, goal: Any) -> float:
        """Distance of neighbors' minimizers."""
        return float(goal.minimizer_sensitivity(self.relation))

    def risk_bound(self, alpha: float) -> float:
        """The bound that "auto" minimizes."""
        goal = self.goal(alpha)
        return _risk_bound(goal, alpha, self.factor * self.sensitivity(goal), self.norm, self.noise)


def _settle_alpha(task: _Task, alpha: float | str | None, *, iterate: bool) -> float:
    """The ridge; 0 only where `iterate` allows it."""
    if task.given:
        if alpha is not None:
            raise ValueError(
                f"alpha must be None for a given objective, which has its own; got {alpha!r}."
            )
        return float(getattr(task.bare, "alpha", 0.0))
    assert task.problem is not None
    if alpha is None:
        alpha = task.problem.alpha if task.problem.alpha is not None else "auto"
    if alpha == "lowy2021":
        found = _theorem(task, task.goal(1.0))
        if found is None:
            raise ValueError(
                "alpha='lowy2021' needs Budget(epsilon) or Budget(epsilon, delta) with delta < "
                f"1/2; got {task.budget!r}."
            )
        assert found.ridge is not None
        alpha = found.ridge
    elif alpha == "zhang2017":
        alpha = _zhang_ridge(task, iterate)
    elif alpha == "auto":
        if task.name == "erm" and math.isfinite(task.problem.smoothness):
            alpha = auto_alpha(task.problem, task.relation, task.factor, task.norm)
        else:
            alpha = _search_alpha(task)
    if iterate and alpha == 0.0:
        return 0.0
    return check_real("alpha", alpha, low=1e-100, high=1e100, hint=f"Or pass one of {RIDGES}.")


def _zhang_ridge(task: _Task, iterate: bool) -> float:
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


def _plan_certificate(
    task: _Task, alpha: float | str | None, tolerance: float | str | None
) -> dict[str, Any]:
    ridge = _settle_alpha(task, alpha, iterate=False)
    goal = task.goal(ridge)
    saddle = isinstance(goal, SaddleShape)
    kinked = saddle or not math.isfinite(goal.smoothness)
    if kinked and not (
        saddle or (isinstance(goal, ErmShape) and goal.problem.loss.smoothed is not None)
    ):
        raise ValueError(
            "objective must be smooth, or the empirical risk of the hinge, for a certificate; got "
            f"{type(goal).__name__} with smoothness={goal.smoothness!r}."
        )
    mu, sensitivity = goal.strong_convexity, task.sensitivity(goal)
    radius = goal.minimizer_norm
    if saddle:
        floor = 2.0 * math.sqrt(2.0 * mu * goal.gap_error)
    elif kinked:
        floor = _gap_floor(goal)
    else:
        # Four times the rounding error is what an optimizer can be sure to certify.
        floor = 4.0 * goal.gradient_error(
            2.0 * (radius if math.isfinite(radius) else goal.lipschitz / mu)
        )
    if tolerance is None:
        share = _KINK_SHARE if kinked else _TOLERANCE_SHARE
        target = max(share * mu * sensitivity / 2.0, floor)
    elif isinstance(tolerance, str):
        check_choice("tolerance", tolerance, ("machine",))
        if floor == 0.0:
            raise ValueError("tolerance must be a number where gap_error is 0; got 'machine'.")
        target = floor
    else:
        target = check_real("tolerance", tolerance, low=0.0, low_open=True)
    distance = target / mu
    return {
        "goal": goal,
        "alpha": ridge,
        "exact_sensitivity": sensitivity,
        "sensitivity": sensitivity + 2.0 * distance,
        "error": 0.0,
        "radius": radius,
        "bound": radius + distance,
        # F(ŵ) - F* <= τ²/(2µ), of no account beside the bound's other terms.
        "optimization_risk": 0.5 * target * distance,
        "parameters": {
            "gradient_tolerance": target,
            "certified_accuracy": 0.5 * target * distance,
        },
    }


def _gap_floor(goal: ErmShape) -> float:
    """``√(2µ gap)`` for four times the gap that rounding leaves (:meth:`Erm.duality_gap`)."""
    shape, unit = goal.problem, 2.0**-53
    reach = shape.row_norm * goal.minimizer_norm
    value = shape.max_weight * (2 * shape.dim + 40) * (1.0 + 2.0 * reach)
    slope = unit * (shape.additions() + 24) * shape.lipschitz
    return math.sqrt(2.0 * goal.alpha * 4.0 * (unit * value + slope**2 / goal.alpha))


def _plan_iterate(
    task: _Task,
    alpha: float | str | None,
    tolerance: float | str | None,
    calibration: str,
    *,
    iterations: int | None,
    step: float | None,
    w0: ArrayLike | None,
) -> dict[str, Any]:
    if task.given or task.name != "erm":
        raise ValueError(
            "objective must be 'erm' with mode='iterate', whose sensitivity adds up the steps of a "
            f"mean over records; got {task.name if not task.given else type(task.bare).__name__!r}."
        )
    if tolerance is not None:
        raise ValueError(f"tolerance must be None with mode='iterate'; got {tolerance!r}.")
    assert task.problem is not None
    shape = task.problem
    if not math.isfinite(shape.smoothness):
        raise ValueError(f"loss must be smooth, for mode='iterate'; got {shape.loss.name!r}.")
    ridge = _settle_alpha(task, alpha, iterate=True)
    mu, beta = ridge, shape.smoothness + ridge
    paper = calibration == "paper"
    if step is None:
        step = 1.0 / beta if mu == 0.0 else (1.0 if paper else 2.0) / (beta + mu)
    step = check_real("step", step, low=0.0, low_open=True)
    if step > 2.0 / (beta + mu) * (1.0 + 1e-12):
        raise ValueError(
            f"step must be <= 2/(smoothness + strong convexity) = {2.0 / (beta + mu):.6g}; "
            f"got {step!r}."
        )
    start = np.zeros(shape.dim) if w0 is None else np.array(w0, dtype=np.float64)
    if start.shape != (shape.dim,) or not np.all(np.isfinite(start)):
        raise ValueError(f"w0 must hold {shape.dim} finite numbers; got {w0!r}.")
    count = _iterations(task, mu, beta) if iterations is None else iterations
    count = check_integer(
        "iterations", count, low=1, high=_MAX_ITERATIONS, hint="Give a number, or a larger alpha."
    )

    apart = records_apart(task.relation) * shape.lipschitz / shape.n_samples
    exact = zhang2017.descent_sensitivity(count, step, mu, beta, apart)
    sensitivity = exact
    if paper:
        if step * (beta + mu) > 1.0 + 1e-12:
            raise ValueError(
                f"step must be <= 1/(smoothness + strong convexity) = {1.0 / (beta + mu):.6g} "
                f"with calibration='paper'; got {step!r}."
            )
        sensitivity = zhang2017.paper_sensitivity(
            count, mu, beta, shape.lipschitz, shape.n_samples
        ) * (0.5 * records_apart(task.relation))
        sensitivity = max(sensitivity, exact)
    # ‖w⁺‖ <= (1 - ηα)‖w‖ + ηL.
    start_norm = float(np.linalg.norm(start))
    reach = start_norm + step * shape.lipschitz * count
    if mu > 0.0:
        reach = min(reach, max(start_norm, shape.lipschitz / mu))
    reach *= 1.0 + 2.0**-20
    longest = shape.lipschitz + beta * reach
    rounding = step * (shape.with_alpha(mu) if mu else shape).gradient_error(reach)
    rounding += 2.0**-51 * (reach + step * longest)
    error = zhang2017.descent_sensitivity(count, step, mu, beta, rounding / step)
    start.flags.writeable = False
    return {
        "goal": ErmShape(shape, mu) if mu else _Unridged(shape),
        "alpha": mu,
        "exact_sensitivity": exact,
        "sensitivity": sensitivity,
        "error": error,
        "radius": shape.minimizer_norm(mu) if mu else math.inf,
        "bound": reach,
        "optimization_risk": zhang2017.descent_bound(count, step, mu, beta, task.norm + start_norm),
        "parameters": {"iterations": count, "step": step, "w0": start},
    }


def _iterations(task: _Task, mu: float, beta: float) -> int:
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


class _Unridged:
    """What the bounds ask of the mean loss alone."""

    def __init__(self, problem: ProblemShape) -> None:
        self.problem, self.alpha = problem, 0.0
        self.dim, self.lipschitz = problem.dim, problem.lipschitz
        self.smoothness, self.strong_convexity = problem.smoothness, 0.0


def run(plan: Plan, problem: Any, rng: SecureGenerator, ledger: Ledger) -> Outcome:
    """Spend, minimize to the certificate (or take T steps), perturb, project on the public ball.

    The projection onto ``‖w‖ <= radius``, a ball that holds the minimizer of every data set, is
    post-processing and can only bring the weights closer to it.

    Parameters
    ----------
    plan : Plan
    problem : Problem or Objective
        What the plan was made for.
    rng : SecureGenerator
    ledger : Ledger

    Returns
    -------
    Outcome

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford the release; no data is touched.
    CertificateNotReached
        If no optimizer could certify its point; the budget stays spent, nothing is released.
    """
    if plan.objective is not None and getattr(problem, "shape", None) != plan.objective:
        raise ValueError(
            f"problem must be the objective that the plan was made for, {plan.objective!r}; "
            f"got {type(problem).__name__}."
        )
    return perturb(plan, lambda: unperturbed(plan, problem), rng, ledger)


def perturb(
    plan: Plan, query: Callable[[], ArrayLike], rng: SecureGenerator, ledger: Ledger
) -> Outcome:
    """Spend, ask `query` for the weights, add the plan's noise, project on the public ball.

    `query` must keep what the plan charges for, as :func:`unperturbed` does.
    """
    mechanism: Gaussian | L2Laplace = plan.parameters["mechanism"]
    where = _WHERE[str(plan.parameters["mode"])]
    w = mechanism.release(query, rng=rng, ledger=ledger, where=where)
    return Outcome(project(w, float(plan.parameters["radius"])))


def unperturbed(plan: Plan, problem: Any) -> Vector:
    """The certified minimizer or last iterate: **not private**, for studies of public data.

    Raises
    ------
    CertificateNotReached
    """
    if plan.parameters["mode"] == "iterate":
        return _last_iterate(plan, problem)
    return _certified_weights(plan, problem)


def _last_iterate(plan: Plan, problem: Problem) -> Vector:
    """``w_T``, the same floating-point operations on every data set."""
    step, alpha = float(plan.parameters["step"]), plan.shape.alpha or 0.0
    w: Vector = np.array(plan.parameters["w0"])
    for _ in range(int(plan.parameters["iterations"])):
        w = w - step * problem.value_and_gradient(w, alpha)[1]
    return w


def _certified_weights(plan: Plan, problem: Any) -> Vector:
    if isinstance(plan.objective, SaddleShape):
        return _certified_saddle(plan, problem)
    if plan.objective is not None:
        return _certified_minimizer(plan, problem).w
    objective = make_objective(
        str(plan.parameters["objective"]),
        problem,
        plan.shape.alpha,
        **plan.parameters["objective_options"],
    )
    return _certified_minimizer(plan, objective).w


def _certified_saddle(plan: Plan, objective: Any) -> Vector:
    """A gap that holds after rounding: ``gap + error <= τ²/(2µ)``."""
    shape, target = objective.shape, float(plan.parameters["gradient_tolerance"])
    left = target**2 - 2.0 * shape.strong_convexity * shape.gap_error
    if left > 0.0:
        options = plan.parameters["optimizer_options"]
        result = minimax_appa(objective.game, tolerance=math.sqrt(left), **options)
        if result.converged:
            return result.w
    raise CertificateNotReached(
        f"no saddle point could be certified to the tolerance that the noise is calibrated for "
        f"({target:.3g}), so nothing is released. Allow more max_passes, or a larger tolerance."
    )


def _certified_minimizer(plan: Plan, objective: Any) -> OptimizeResult:
    return certified_minimizer(
        objective,
        float(plan.parameters["gradient_tolerance"]),
        plan.parameters["optimizer"],
        **plan.parameters["optimizer_options"],
    )


def certified_minimizer(
    objective: Any, tolerance: float, first: str | Callable[..., Any], **options: Any
) -> OptimizeResult:
    """Minimize to a certificate of `tolerance`, with the optimizer `first` and then with others.

    Raises
    ------
    CertificateNotReached
        If none of them can certify its point.
    """
    minimize = OPTIMIZERS[first] if isinstance(first, str) else as_minimizer(first)
    result = minimize(objective, tolerance=tolerance, **options)
    smooth = math.isfinite(objective.smoothness)
    for polish in ("newton", "lbfgs") if smooth else ("smoothing",):
        if _holds(result, objective, tolerance):
            return result
        if polish == "newton" and objective.dim > 4 * _NEWTON_MAX_DIM:
            continue
        result = OPTIMIZERS[polish](objective, tolerance=tolerance, w0=result.w)
    if not _holds(result, objective, tolerance):
        raise CertificateNotReached(
            "no optimizer could certify its point to the tolerance that the noise is calibrated "
            f"for ({tolerance:.3g}), so nothing is released. A stronger ridge (here the strong "
            f"convexity is {objective.strong_convexity:.3g}) makes the problem better conditioned, "
            "a larger tolerance asks for less."
        )
    return result


def _holds(result: OptimizeResult, objective: Any, tolerance: float) -> bool:
    """Whether the distance that the noise covers is certified, whatever `converged` says."""
    covered = objective.strong_convexity * result.certificate <= tolerance * (1.0 + 2.0**-40)
    return bool(result.converged and covered)


def excess_risk_bound(
    shape: ProblemShape, alpha: float, noise_stddev: float, minimizer_norm: float
) -> float:
    """Bound of the expected excess risk over the best weights of norm `minimizer_norm`.

    ``E F_0(ŵ + z) - F_0(v) <= (α/2)‖v‖² + (v_z/2)(β + αd)`` for noise of mean zero and variance
    ``v_z`` in each coordinate, ``F_0`` the objective without its ridge: ``F_0 <= F``; along ``z``
    the Hessian is at most ``max|ℓ''| (1/n) Σ x̃_i x̃_i^T + αI``, whose trace is at most ``β + αd``;
    and ``F(ŵ) <= F(v)``.  Lowy & Razaviyayn 2021, Theorem 3.5, bound the noise term by
    ``(β + α) d`` instead, since they do not use that the loss is a function of a margin.

    Parameters
    ----------
    shape : ProblemShape
    alpha : float
        Ridge ``α``.
    noise_stddev : float
        Standard deviation of the noise in each coordinate.
    minimizer_norm : float
        ``‖v‖``.

    Returns
    -------
    float

    Notes
    -----
    For the weights before they are projected on the ball, where ``z`` is the same in all
    directions.  Projected, they are within ``‖z‖`` of ``ŵ``, which proves ``(β + α) d`` in the
    place of ``β + αd``.
    """
    variance = noise_stddev**2
    return 0.5 * (alpha * minimizer_norm**2 + variance * (shape.smoothness + alpha * shape.dim))


def _risk_bound(
    goal: Any, alpha: float, noise_stddev: float, minimizer_norm: float, noise: str
) -> float:
    """:func:`excess_risk_bound` for every objective.

    The trace of the Hessian is at most ``β + αd`` where the loss part's curvature is a mean of
    ``ℓ'' x̃x̃^T`` (and, tilted, ``t Cov(∇v)``, of trace ``tL²``, which its β includes), otherwise at
    most d times the smoothness.  The loss part rises by at most ``L E‖z‖``, too, smooth or not;
    then the ridge, whose excess is not counted, adds no noise of its own.  ``E‖z‖ <= √d σ``, and
    for the l2-Laplace law it is d scales where ``σ²`` is ``d + 1`` squared scales.
    """
    dim, smoothness = int(goal.dim), float(goal.smoothness)
    if isinstance(goal, AdversarialShape | GeneralShape):
        trace = dim * smoothness
    else:
        trace = smoothness - alpha + alpha * dim
    curved = 0.5 * noise_stddev**2 * trace
    bias = 0.5 * alpha * minimizer_norm**2 if alpha > 0.0 else 0.0
    if isinstance(goal, GeneralShape):
        # Its ridge, if it has one, is part of the function whose excess is counted.
        return curved
    if isinstance(goal, ErmShape) and math.isfinite(goal.smoothness):
        return bias + curved
    length = math.sqrt(dim) * noise_stddev
    if noise == "l2-laplace":
        length *= math.sqrt(dim / (dim + 1.0))
    return bias + min(curved, float(goal.lipschitz) * length)


def auto_alpha(
    shape: ProblemShape, neighboring_relation: str, noise_factor: float, minimizer_norm: float
) -> float:
    """Ridge that minimizes :func:`excess_risk_bound`.

    With ``v_z = (c/α)²`` the bound is ``(α/2)B² + βc²/(2α²) + dc²/(2α)``; its derivative vanishes
    at the one positive root of ``B²α³ - dc²α - 2βc²``.

    Parameters
    ----------
    shape : ProblemShape
    neighboring_relation : str
    noise_factor : float
        Standard deviation of the noise per unit of sensitivity.
    minimizer_norm : float
        ``B``.

    Returns
    -------
    float
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


def _search_alpha(task: _Task) -> float:
    """Ridge that minimizes the bound where it has no closed form: a grid, then a refinement."""
    assert task.problem is not None
    center = math.log(task.problem.lipschitz / task.norm)
    grid = center + np.linspace(-40.0, 25.0, 131)
    bounds = [task.risk_bound(math.exp(x)) for x in grid]
    best = grid[int(np.argmin(bounds))]
    found = scipy.optimize.minimize_scalar(
        lambda x: task.risk_bound(math.exp(x)), bounds=(best - 0.5, best + 0.5), method="bounded"
    )
    return math.exp(float(found.x))


# ---- what the papers predict --------------------------------------------------------------------


def _setting(task: _Task, goal: Any, alpha: float) -> lowy2021.Setting | None:
    """The goal's class as lowy2021 describes it; None for budgets that they do not treat."""
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
    own = goal.strong_convexity if isinstance(goal, GeneralShape) else alpha
    # The rules for convex functions want the smoothness without the ridge, however large that is.
    bare = goal if isinstance(goal, GeneralShape) else dataclasses.replace(goal, alpha=1e-100)
    loss_part = bare.smoothness
    return lowy2021.Setting(
        lipschitz=goal.lipschitz,
        radius=task.norm,
        dim=goal.dim,
        n_samples=goal.n_samples or 1,
        epsilon=budget.epsilon,
        delta=delta,
        strong_convexity=own,
        smoothness=loss_part + alpha,
        mean=mean,
        spread=spread,
    )


def _theorem(task: _Task, goal: Any) -> lowy2021.Guarantee | None:
    """lowy2021's theorem for the goal without its ridge, at the ridge that it asks for.

    Of a tilted risk the sensitivity depends on how far the losses spread where minimizers can be,
    so on the ridge itself: more ridge, less spread, and less ridge is asked for.  The two meet once
    in each family of bounds.
    """
    goal = goal if not isinstance(goal, _Unridged) else ErmShape(goal.problem, 1.0)
    setting = _setting(task, goal, 0.0)
    if setting is None or not isinstance(goal, TiltedShape):
        return None if setting is None else lowy2021.guarantee(setting, risk=task.risk)

    def at(log_ridge: float, smooth: bool) -> lowy2021.Guarantee:
        there = _setting(task, dataclasses.replace(goal, alpha=math.exp(log_ridge)), 0.0)
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


def _papers(found: lowy2021.Guarantee | None) -> dict[str, Any]:
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


def _paper_risks(
    task: _Task, goal: Any, alpha: float, found: lowy2021.Guarantee | None
) -> dict[str, float]:
    """The papers' bounds: lowy2021's at its own ridge, zhang2017's at this one, which it counts."""
    goal = goal if not isinstance(goal, _Unridged) else ErmShape(goal.problem, 1.0)
    setting = _setting(task, goal, 0.0)
    if setting is None or found is None:
        return {}
    risks = {"lowy2021_risk": found.exact_risk}
    if isinstance(goal, ErmShape) and setting.smooth:
        common = (setting.n_samples, setting.dim, setting.epsilon, setting.delta)
        beta, scale = setting.smoothness + alpha, setting.lipschitz
        if alpha > 0.0:
            risks["zhang2017_rate"] = zhang2017.strongly_convex_rate(alpha, beta, scale, *common)
        else:
            risks["zhang2017_rate"] = zhang2017.convex_rate(beta, scale, task.norm, *common)
        risks["zhang2017_bound"] = zhang2017.excess_risk_bound(
            alpha, beta, scale, task.norm, *common
        )
    return risks


# ---- noise --------------------------------------------------------------------------------------


def _check_loss(loss: Loss) -> None:
    """Refuse losses for which the sensitivity or the certificate does not hold."""
    needs = {
        "convex, so that the ridge makes its minimizer stable": loss.convex,
        "of bounded slope, so that one record's influence is bounded": math.isfinite(
            loss.lipschitz
        ),
        "smooth or the hinge, since minimizers are certified by gradients or duality gaps": (
            math.isfinite(loss.smoothness) or loss.smoothed is not None
        ),
    }
    for need, met in needs.items():
        if not met:
            raise ValueError(f"loss must be {need}, for {NAME}; got {loss.name!r}.")


def _noise_factor(dim: int, budget: Budget, noise: str, accountant: str, calibration: str) -> float:
    """Standard deviation of the noise in one coordinate, per unit of sensitivity."""
    if noise == "gaussian":
        return _gaussian_factor(budget, accountant, calibration)
    # E‖z‖² = d (d + 1) scale² for the l2-Laplace law.
    return math.sqrt(dim + 1.0) / budget_epsilon(budget)


def _gaussian_factor(budget: Budget, accountant: str, calibration: str) -> float:
    """Standard deviation of Gaussian noise per unit of sensitivity, never less than the exact one.

    Raises
    ------
    ValueError
        If the formula of choice is not proved, or not private, for this budget.
    """
    exact = 1.0 / budget_mu(budget, accountant)
    if calibration == "analytic":
        return exact
    if calibration != "paper":
        stddev = gaussian_stddev(budget, 1.0, calibration)
    elif budget.kind != "approximate" or budget.epsilon is None:
        raise ValueError(f"calibration='paper' needs Budget(epsilon, delta); got {budget!r}.")
    else:
        stddev = math.sqrt(2.0 * math.log(2.0 / budget.delta)) / budget.epsilon
    if stddev < exact:
        raise ValueError(
            f"calibration={calibration!r} gives a standard deviation of {stddev:.6g} per unit of "
            f"sensitivity, but {budget} needs {exact:.6g} with accountant={accountant!r}. "
            "Use 'analytic'."
        )
    return stddev


def _choose_noise(noise: str, dim: int, budget: Budget, accountant: str) -> str:
    """The noise that was asked for if the accountant prices it, or the quieter of those it does."""
    priced = [name for name in _NOISES if accountant in _NOISES[name]]
    if noise != "auto":
        if noise not in priced and accountant in ("pure", "gdp", "zcdp"):
            raise ValueError(
                f"noise must be {priced[0]!r} with accountant={accountant!r}; got {noise!r}."
            )
        return noise
    if budget.kind == "pure":
        priced = [name for name in priced if name != "gaussian"]
    elif budget.kind != "approximate":
        priced = [name for name in priced if name == "gaussian"]
    return min(priced, key=lambda name: _noise_factor(dim, budget, name, accountant, "analytic"))


def _mechanism(
    noise: str,
    budget: Budget,
    accountant: str,
    calibration: str,
    *,
    sensitivity: float,
    **settings: Any,
) -> Gaussian | L2Laplace:
    if noise != "gaussian":
        return L2Laplace._calibrate(budget, sensitivity=sensitivity, **settings)
    exact = Gaussian._calibrate(budget, accountant=accountant, sensitivity=sensitivity, **settings)
    if calibration == "analytic":
        return exact
    factor = _gaussian_factor(budget, accountant, calibration)
    stddev = max(exact.stddev, factor * exact.charged_sensitivity)
    return Gaussian(stddev, sensitivity=sensitivity, **settings)


def choose_optimizer(optimizer: str | Callable[..., Any], goal: Any) -> Any:
    """The optimizer's name or the user's function, refused if it cannot work on the objective."""
    if isinstance(goal, SaddleShape):
        if optimizer not in ("auto", _SADDLE_OPTIMIZER):
            raise ValueError(
                f"optimizer must be 'auto' or {_SADDLE_OPTIMIZER!r} for a saddle point; "
                f"got {optimizer!r}."
            )
        return _SADDLE_OPTIMIZER
    if callable(optimizer):
        return optimizer
    check_choice("optimizer", optimizer, ("auto", *OPTIMIZERS))
    kinked = not math.isfinite(goal.smoothness)
    if optimizer == "auto":
        if kinked:
            return "smoothing"
        return "newton" if goal.dim <= _NEWTON_MAX_DIM else "lbfgs"
    if kinked and optimizer not in _KINK_OPTIMIZERS:
        raise ValueError(
            f"optimizer must be one of {', '.join(map(repr, _KINK_OPTIMIZERS))} for a loss with "
            f"kinks; got {optimizer!r}."
        )
    if optimizer in ROW_OPTIMIZERS and not isinstance(goal, ErmShape):
        raise ValueError(
            f"optimizer must work on whole objectives, such as 'newton' or 'agd', for "
            f"{type(goal).__name__.removesuffix('Shape').lower()} objectives; got {optimizer!r}, "
            "which takes steps along single rows of an empirical risk."
        )
    return optimizer
