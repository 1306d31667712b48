r"""Output perturbation: minimize, prove how close, add noise once.

**mode="certificate"** (default).  The release is a point that is certified to be close to the
minimizer (:class:`~dpfast.queries.CertifiedMinimizer`), plus Gaussian or l2-Laplace noise.

**mode="iterate"**.  Zhang et al. 2017, Algorithm 1: T steps of gradient descent from a fixed
``w_0``, whose iterate itself is perturbed (:class:`~dpfast.queries.DescentIterate`).  No
certificate is needed, and no ridge.

Numbers of groups of rows, with a pure budget, may be far from filling their declared bounds: their
range is counted first, as objective perturbation does it for rows.

The noisy weights are projected onto a ball that holds the minimizer of every data set, which is
post-processing and can only bring them closer to it.

Sources: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1; Zhang et al. 2017, Algorithm 1; Lowy &
Razaviyayn 2021, Algorithms 1, 6 and 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpfast._typing import Vector
from dpfast._validation import check_choice, check_real
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian, L2Laplace
from dpfast.objectives import ErmShape, SaddleShape
from dpfast.optimizers._contract import project
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, records_apart
from dpfast.privacy.calibration import budget_epsilon, budget_mu
from dpfast.privacy.papers import gaussian_stddev
from dpfast.queries import CertifiedMinimizer, DescentIterate, MinimizerInUnits
from dpfast.queries.minimizer import check_certifiable
from dpfast.shape import ProblemShape
from dpfast.solvers import _seconds, _target_range
from dpfast.solvers._contract import TYPICAL_NUMBER, Outcome, Plan, Solver
from dpfast.solvers._ridge import Task, settle_alpha
from dpfast.solvers._target_range import FARTHEST, TargetRange
from dpfast.solvers.papers import _rules
from dpfast.theory import lowy2021, zhang2017

NAME = "output-perturbation"

MODES = ("certificate", "iterate")
#: How the Gaussian's scale follows from (ε, δ); "paper" also takes zhang2017's own sensitivities.
CALIBRATIONS = ("analytic", "zhao", "classical", "paper")

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
# Stands for no ridge where bounds are added up: none of them feels it.
_NO_RIDGE = 1e-100


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run follows; None: of the other mode."""

    mechanism: Gaussian | L2Laplace
    mode: str
    noise: str
    objective: str
    objective_options: Mapping[str, Any]
    gradient_tolerance: float | None = None
    certified_accuracy: float | None = None
    optimizer: str | Callable[..., Any] | None = None
    optimizer_options: Mapping[str, Any] | None = None
    iterations: int | None = None
    step: float | None = None
    w0: Vector | None = None
    minimizer_sensitivity: float
    radius: float
    target_range: TargetRange | None = None
    widening: float = 1.0


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
    target_rounds: int | str = "auto",
) -> Plan[Settings]:
    """Settle ridge, tolerance and noise from public quantities.

    Parameters
    ----------
    shape : ProblemShape, or the public shape of an objective
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
        Guess of the norm of the best weights, for the rules above; None is 6 over the row norm,
        3 where targets are in units of their range.
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
        See :func:`dpfast.objectives.objective_shape`.
    optimizer_options : mapping or None, default=None
        Further arguments of the optimizer, such as ``max_passes``.
    iterations : int or None, default=None
        T of ``mode="iterate"``; None takes that of zhang2017's Theorem 2 or 3, with the constant 1.
    step : float or None, default=None
        Step of ``mode="iterate"``, at most ``2/(β + µ)``; None is ``2/(β + µ)``, ``1/β`` without a
        ridge, and with ``calibration="paper"`` their ``1/(β + µ)`` or ``1/β``.
    w0 : array-like of shape (dim,) or None, default=None
        Public start of ``mode="iterate"``; None is zero.
    target_rounds : int or "auto"
        Rounds in which the range of numeric targets is learned, 0 for none; "auto" is 3 for groups
        of several rows with a pure budget, and none otherwise, nor with `w_radius`, an iterate, or
        another objective.
    """
    check_choice("mode", mode, MODES)
    check_choice("calibration", calibration, CALIBRATIONS)
    check_choice("noise", noise, ("auto", *_NOISES))
    check_choice("risk", risk, lowy2021.RISKS)
    if w_radius is not None:
        w_radius = check_real("w_radius", w_radius, low=0.0, low_open=True)
    noise = _choose_noise(noise, shape.dim, budget, accountant, calibration)
    whole, learns = budget, mode == "certificate" and objective == "erm" and w_radius is None
    target_range, budget = _learned_range(
        learns, target_rounds, shape, budget, neighboring_relation
    )
    if target_range is not None and minimizer_norm is None:
        minimizer_norm = TYPICAL_NUMBER / shape.row_norm
    factor = _noise_factor(shape.dim, budget, noise, accountant, calibration)
    task = Task(
        shape, budget, neighboring_relation, noise, factor, objective, objective_options,
        minimizer_norm, risk,
    )  # fmt: skip
    if mode == "iterate":
        if optimizer != "auto" or optimizer_options:
            raise ValueError(
                "optimizer must be 'auto' with mode='iterate', which is gradient descent; "
                f"got {optimizer!r}."
            )
        _refuse_given(mode, tolerance=tolerance)
        chosen = _settle_iterate(task, alpha, iterations, step, w0, calibration == "paper")
    else:
        _refuse_given(mode, iterations=iterations, step=step, w0=w0)
        chosen = _settle_certificate(
            task, alpha, tolerance, optimizer, optimizer_options, target_range is not None
        )
    query, goal, ridge = chosen.query, chosen.goal, chosen.ridge
    mechanism = _mechanism(
        query, noise, budget, neighboring_relation, accountant, calibration, _WHERE[mode]
    )
    deviation = factor * mechanism.charged_sensitivity
    return Plan(
        solver=NAME,
        shape=task.problem.with_alpha(ridge) if task.problem is not None and ridge else task.bare,
        budget=whole,
        neighboring_relation=neighboring_relation,
        accesses=(*(target_range.accesses if target_range else ()), (mechanism, 1)),
        settings=Settings(
            mechanism=mechanism,
            mode=mode,
            noise=noise,
            objective=task.name,
            objective_options=MappingProxyType(dict(task.options)),
            **chosen.settings,
            minimizer_sensitivity=chosen.exact_sensitivity,
            radius=min(chosen.radius, w_radius) if w_radius is not None else chosen.radius,
            target_range=target_range,
            widening=target_range.widening if target_range else 1.0,
        ),
        expected={
            "noise_stddev_per_weight": deviation,
            "excess_risk_bound": chosen.optimization_risk + task.risk_bound(goal, deviation),
            **_lower_bound(task),
            **_minimax_gradients(goal, chosen.optimization_risk),
            **_expected_seconds(task, query),
        },
        objective=goal if task.given else None,
    )


def _learned_range(
    learns: bool, target_rounds: int | str, shape: Any, budget: Budget, relation: str
) -> tuple[TargetRange | None, Budget]:
    """How the range of numeric targets is learned, if it can be, and the budget that it leaves."""
    if learns and isinstance(shape, ProblemShape):
        return _target_range.planned_of_pure(
            target_rounds, shape, budget, relation, shape.several_rows
        )
    if target_rounds not in ("auto", 0):
        raise ValueError(
            "target_rounds must be 0 but for mode='certificate', objective='erm' and no w_radius; "
            f"got {target_rounds!r}."
        )
    return None, budget


def _refuse_given(mode: str, **options: Any) -> None:
    """Refuse options of the other mode."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} must be None with mode={mode!r}; got {value!r}.")


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Ask for the perturbed weights, and project them on the public ball.

    Raises
    ------
    CertificateNotReached
        If no optimizer could certify its point; the budget stays spent, nothing is released.
    """
    settings = plan.settings
    if settings.target_range is None:
        return Outcome(project(curator.release(settings.mechanism), settings.radius))
    place = _target_range.learn_range(settings.target_range, curator)
    half = place.wide(settings.widening)
    found = curator.release(settings.mechanism, place.center, half)
    w = half * project(found, settings.radius)
    if place.center != 0.0:
        w[-1] += place.center / plan.shape.intercept
    # Beyond the ball the noise does not say how far the weights are from those without it.
    inside = np.linalg.norm(found) < settings.radius
    return Outcome(w, said=place.said(), unit=half if inside else math.inf)


@dataclass(frozen=True)
class _Settled:
    """What a mode decides."""

    query: CertifiedMinimizer | DescentIterate
    goal: Any  # public shape of the objective
    ridge: float
    exact_sensitivity: float  # before what the certificate, or a paper, adds
    radius: float  # of a ball that holds every minimizer
    optimization_risk: float  # bound of the excess risk of the query's value
    settings: dict[str, Any]  # of the mode alone


def _settle_certificate(
    task: Task,
    alpha: float | str | None,
    tolerance: float | str | None,
    optimizer: str | Callable[..., Any],
    optimizer_options: Mapping[str, Any] | None,
    in_units: bool,
) -> _Settled:
    ridge = settle_alpha(task, alpha, iterate=False)
    goal = task.goal(ridge)
    check_certifiable(goal)
    floor = goal.least_tolerance()
    sensitivity = task.sensitivity(goal)
    if tolerance is None:
        share = _TOLERANCE_SHARE if goal.certificate == "gradient" else _KINK_SHARE
        target = share * goal.strong_convexity * sensitivity / 2.0
        target = max(target, floor, goal.easy_tolerance())
    elif isinstance(tolerance, str):
        check_choice("tolerance", tolerance, ("machine",))
        if floor == 0.0:
            raise ValueError("tolerance must be a number where gap_error is 0; got 'machine'.")
        target = floor
    else:
        target = check_real("tolerance", tolerance, low=0.0, low_open=True)
    given: dict[str, Any] = {"optimizer": optimizer, "optimizer_options": optimizer_options or {}}
    radius, query = goal.minimizer_norm, CertifiedMinimizer(goal, target, **given)
    if in_units:
        # What rounding hides where the center of the units is far away.
        radius = goal.problem.lipschitz / ridge
        away = radius + FARTHEST / (abs(goal.problem.intercept) or 1.0)
        target = max(target, 4.0 * goal.gradient_error(away))
        query = MinimizerInUnits(goal, target, FARTHEST, **given)
    # F(ŵ) - F* <= τ²/(2µ), of no account beside the bound's other terms.
    risk = 0.5 * target * query.distance
    settings = {
        "gradient_tolerance": query.tolerance,
        "certified_accuracy": risk,
        "optimizer": query.optimizer,
        "optimizer_options": query.optimizer_options,
    }
    return _Settled(query, goal, ridge, sensitivity, radius, risk, settings)


def _settle_iterate(
    task: Task,
    alpha: float | str | None,
    iterations: int | None,
    step: float | None,
    w0: ArrayLike | None,
    paper: bool,
) -> _Settled:
    if task.given or task.name != "erm":
        raise ValueError(
            "objective must be 'erm' with mode='iterate', whose sensitivity adds up the steps of a "
            f"mean over records; got {task.name if not task.given else type(task.bare).__name__!r}."
        )
    assert task.problem is not None
    shape = task.problem
    if not math.isfinite(shape.smoothness):
        raise ValueError(f"loss must be smooth, for mode='iterate'; got {shape.loss.name!r}.")
    mu = settle_alpha(task, alpha, iterate=True)
    beta = shape.smoothness + mu
    if step is None:
        step = 1.0 / beta if mu == 0.0 else (1.0 if paper else 2.0) / (beta + mu)
    count = _rules.zhang_iterations(task, mu, beta) if iterations is None else iterations
    query = DescentIterate(shape, mu, count, step, w0, paper=paper)
    away = task.norm + float(np.linalg.norm(query.start))
    return _Settled(
        query,
        ErmShape(shape, mu or _NO_RIDGE),
        mu,
        query.exact_sensitivity(task.relation),
        shape.minimizer_norm(mu) if mu else math.inf,
        zhang2017.descent_bound(query.iterations, query.step, mu, beta, away),
        {"iterations": query.iterations, "step": query.step, "w0": query.start},
    )


def _lower_bound(task: Task) -> dict[str, float]:
    """For the mean loss of a problem: other losses of the same constants need no less."""
    budget = task.budget
    delta = budget.delta if budget.kind == "approximate" else 0.0
    if task.problem is None or task.name != "erm" or budget.epsilon is None or delta >= 0.5:
        return {}
    if not (math.isfinite(task.problem.lipschitz) and math.isfinite(task.norm)):
        return {}
    setting = lowy2021.Setting(
        task.problem.lipschitz,
        task.norm,
        task.problem.dim,
        task.problem.n_samples,
        budget.epsilon,
        delta,
        smoothness=task.problem.smoothness,
    )
    replacements = 2 // records_apart(task.relation)
    return {"lower_bound": lowy2021.lower_bound(setting, replacements=replacements)}


def _minimax_gradients(goal: Any, accuracy: float) -> dict[str, float]:
    """For the worst case over an adversary of whom enough was declared."""
    if not isinstance(goal, SaddleShape) or not math.isfinite(goal.game_smoothness):
        return {}
    if goal.strong_concavity == 0.0 and not math.isfinite(goal.diameter):
        return {}
    ell, mu = goal.game_smoothness, goal.strong_convexity
    # Of ε and the numbers of records and weights only the accuracy would depend.
    setting = lowy2021.Setting(
        goal.lipschitz, 1.0, goal.dim, 1, 1.0, strong_convexity=mu, smoothness=max(ell, mu)
    )
    count = lowy2021.minimax_gradients(
        setting,
        adversary_smoothness=ell,
        diameter=goal.diameter if math.isfinite(goal.diameter) else 0.0,
        strong_concavity=goal.strong_concavity,
        reach=accuracy,
    )
    return {"minimax_gradients": count}


def _expected_seconds(task: Task, query: CertifiedMinimizer | DescentIterate) -> dict[str, float]:
    """For the mean loss of a problem; of other objectives the plan knows too little."""
    shape = task.problem
    if shape is None or task.name != "erm":
        return {}
    if isinstance(query, DescentIterate):
        passes = query.iterations * _seconds.gradient(shape)
        return {"seconds": _seconds.preparation(shape) + passes + _seconds.release(shape.dim)}
    return _seconds.whole_fit(shape, str(query.optimizer))


# ---- noise --------------------------------------------------------------------------------------


def _noise_factor(dim: int, budget: Budget, noise: str, accountant: str, calibration: str) -> float:
    """Standard deviation of the noise in one coordinate, per unit of sensitivity."""
    if noise == "gaussian":
        return _gaussian_factor(budget, accountant, calibration)
    # E‖z‖² = d (d + 1) scale² for the l2-Laplace law.
    return math.sqrt(dim + 1.0) / budget_epsilon(budget)


def _gaussian_factor(budget: Budget, accountant: str, calibration: str) -> float:
    """Deviation of Gaussian noise per unit of sensitivity, never less than the exact one."""
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


def _choose_noise(noise: str, dim: int, budget: Budget, accountant: str, calibration: str) -> str:
    """The noise that was asked for if the accountant prices it, or the quieter of those it does.

    Formulas but the exact one are for Gaussian noise.
    """
    chosen = _priced_noise(noise, dim, budget, accountant)
    if calibration == "analytic" or budget.kind == "pure":
        return chosen
    if chosen != "gaussian" and accountant not in _NOISES["gaussian"]:
        raise ValueError(
            f"calibration must be 'analytic' with accountant={accountant!r}; got {calibration!r}."
        )
    return "gaussian"


def _priced_noise(noise: str, dim: int, budget: Budget, accountant: str) -> str:
    """The same for the exact formula."""
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
    query: CertifiedMinimizer | DescentIterate,
    noise: str,
    budget: Budget,
    neighboring_relation: str,
    accountant: str,
    calibration: str,
    where: str,
) -> Gaussian | L2Laplace:
    """The noise of that kind by that formula, never less than the budget asks for."""
    if noise != "gaussian":
        return L2Laplace.calibrate(budget, query, neighboring_relation, where=where)
    exact = Gaussian.calibrate(
        budget, query, neighboring_relation, accountant=accountant, where=where
    )
    if calibration == "analytic":
        return exact
    factor = _gaussian_factor(budget, accountant, calibration)
    stddev = max(exact.stddev, factor * exact.charged_sensitivity)
    return Gaussian.of_query(stddev, query, neighboring_relation, where=where)


SOLVER = Solver(
    name=NAME,
    doc=__doc__,
    plan=plan,
    run=run,
    budgets=("pure", "approximate", "zcdp", "gdp"),
    relations=NEIGHBORING_RELATIONS,
    row_access="sums",
    weighs_groups=True,
    resumable=True,
    minimizes=True,
    expects="excess_risk_bound",
    takes_objectives=True,
)
