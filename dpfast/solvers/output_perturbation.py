r"""Output perturbation: minimize, prove how close, add noise once.

For a convex loss the minimizer of ``F(w) = (1/n) Σ ℓ_i + (α/2)‖w‖²`` moves by at most
``Δ_F = 2L/(αn)`` when one record is replaced (``L/(αn)`` when one is added or removed), see
:meth:`dpfast.ProblemShape.minimizer_sensitivity`.  What is perturbed is not the minimizer but a
point ``ŵ`` that an optimizer certifies: ``‖∇F(ŵ)‖ <= τ``, rounding error included, which implies
``‖ŵ - w*‖ <= τ/α`` by strong convexity.  Neighbors' certified points are therefore at most
``Δ = Δ_F + 2τ/α`` apart **on every run**, and Gaussian or l2-Laplace noise calibrated to Δ makes
the release (ε, δ)- or ε-differentially private.  (Lowy & Razaviyayn 2021, Algorithm 1, bound the
expected suboptimality of a randomized optimizer instead, which leaves the tail unprotected.)  If no
optimizer reaches the certificate, nothing is released.

Sources: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1; Zhang et al. 2017, Algorithm 1; Lowy &
Razaviyayn 2021, Algorithms 1 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from dpfast._validation import check_choice, check_real
from dpfast.errors import CertificateNotReached
from dpfast.losses import Loss
from dpfast.mechanisms import Gaussian, L2Laplace
from dpfast.objectives import Erm
from dpfast.optimizers import OPTIMIZERS, OptimizeResult
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, Ledger
from dpfast.privacy.calibration import budget_epsilon, budget_mu
from dpfast.problem import Problem, ProblemShape
from dpfast.random import SecureGenerator
from dpfast.solvers._contract import Outcome, Plan

Vector = NDArray[np.float64]

NAME = "output-perturbation"
OPTIONS = ("alpha", "optimizer", "noise", "minimizer_norm")
BUDGET_KINDS = ("pure", "approximate", "zcdp", "gdp")
RELATIONS = NEIGHBORING_RELATIONS
MINIMIZES = True
EXACT: Mapping[str, Any] = MappingProxyType({})
EXPECTS = "excess_risk_bound"

_WHERE = "output: certified minimizer"
# Kinds of noise, and the accountants under which one release can use up the budget.
_NOISES = {
    "gaussian": ("auto", "gdp", "zcdp", "basic", "rdp"),
    "l2-laplace": ("auto", "pure", "basic", "optimal"),
}
# The optimizer's share of the sensitivity: small enough to cost neither accuracy nor agreement with
# the exact minimizer to six digits, large enough to be reached in floating point.
_TOLERANCE_SHARE = 1e-6
# Newton factors d x d matrices; beyond this L-BFGS is faster.
_NEWTON_MAX_DIM = 1000
# Guess of the margin of a typical longest row, which sets ‖w‖ when the user states no better guess:
# between 4 and 10 the log-loss on three public tables at ε from 0.1 to 4 hardly changed.
_TYPICAL_MARGIN = 6.0


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    optimizer: str = "auto",
    noise: str = "auto",
    minimizer_norm: float | None = None,
) -> Plan:
    """Settle ridge, tolerance and noise from public quantities.

    Parameters
    ----------
    shape : ProblemShape
    budget : Budget
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    accountant : str, default="auto"
        The accountant of the ledger that will be charged.
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss.  None takes that of `shape`, or "auto" if it has none.  "auto"
        minimizes the excess-risk bound of :func:`excess_risk_bound` over the ridge.
    optimizer : {"auto", "newton", "lbfgs"}
    noise : {"auto", "gaussian", "l2-laplace"}
        "auto" takes the one with the smaller standard deviation; l2-Laplace when ``δ = 0``.
    minimizer_norm : float or None
        Guess of the norm of the best weights, for "auto" alpha; None is 6 over the row norm.
        A wrong guess costs accuracy, never privacy.

    Returns
    -------
    Plan

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or the loss is not smooth (no gradient certificate).
    """
    check_choice("optimizer", optimizer, ("auto", *OPTIMIZERS))
    check_choice("noise", noise, ("auto", *_NOISES))
    _check_loss(shape.loss)
    if minimizer_norm is None:
        minimizer_norm = _TYPICAL_MARGIN / shape.row_norm
    minimizer_norm = check_real("minimizer_norm", minimizer_norm, low=0.0, low_open=True)

    noise = _choose_noise(noise, shape, budget, accountant)
    noise_factor = _noise_factor(shape, budget, noise, accountant)
    if alpha is None:
        alpha = shape.alpha if shape.alpha is not None else "auto"
    if alpha == "auto":
        alpha = auto_alpha(shape, neighboring_relation, noise_factor, minimizer_norm)
    alpha = check_real("alpha", alpha, low=1e-100, high=1e100, hint='Or pass "auto".')
    shape = shape.with_alpha(alpha)

    sensitivity = shape.minimizer_sensitivity(alpha, neighboring_relation)
    radius = shape.minimizer_norm(alpha)
    # Four times the rounding error is what an optimizer can be sure to certify.
    tolerance = max(
        _TOLERANCE_SHARE * alpha * sensitivity / 2.0, 4.0 * shape.gradient_error(2.0 * radius)
    )
    distance = tolerance / alpha
    mechanism = _mechanism(
        noise,
        budget,
        accountant,
        sensitivity=sensitivity + 2.0 * distance,
        dimension=shape.dim,
        neighboring_relation=neighboring_relation,
        bound=radius + distance,
    )
    event = mechanism.event(_WHERE)
    deviation = noise_factor * event.sensitivity
    return Plan(
        solver=NAME,
        shape=shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        events=(event,),
        parameters=MappingProxyType(
            {
                "mechanism": mechanism,
                "noise": noise,
                "optimizer": _choose_optimizer(optimizer, shape),
                "gradient_tolerance": tolerance,
                "minimizer_sensitivity": sensitivity,
                "radius": radius,
            }
        ),
        expected=MappingProxyType(
            {
                "noise_stddev_per_weight": deviation,
                "excess_risk_bound": excess_risk_bound(shape, alpha, deviation, minimizer_norm),
            }
        ),
    )


def run(plan: Plan, problem: Problem, rng: SecureGenerator, ledger: Ledger) -> Outcome:
    """Spend, minimize to the certificate, perturb, and project onto the public ball.

    The projection onto ``‖w‖ <= radius``, a ball that holds the minimizer of every data set, is
    post-processing and can only bring the weights closer to it.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford the release; no data is touched.
    CertificateNotReached
        If no optimizer could certify its point; the budget stays spent, nothing is released.
    """
    mechanism: Gaussian | L2Laplace = plan.parameters["mechanism"]
    w = mechanism.release(
        lambda: _certified_minimizer(plan, problem).w, rng=rng, ledger=ledger, where=_WHERE
    )
    norm = float(np.linalg.norm(w))
    radius = float(plan.parameters["radius"])
    return Outcome(w * (radius / norm) if norm > radius else w)


def _certified_minimizer(plan: Plan, problem: Problem) -> OptimizeResult:
    assert plan.shape.alpha is not None
    objective = Erm(problem, plan.shape.alpha)
    tolerance = float(plan.parameters["gradient_tolerance"])
    first = str(plan.parameters["optimizer"])
    result = OPTIMIZERS[first](objective, tolerance=tolerance)
    for polish in ("newton", "lbfgs"):
        if result.converged:
            break
        if polish == "newton" and objective.dim > 4 * _NEWTON_MAX_DIM:
            continue
        result = OPTIMIZERS[polish](objective, tolerance=tolerance, w0=result.w)
    if not result.converged:
        raise CertificateNotReached(
            "no optimizer could bring the gradient norm below the tolerance that the noise is "
            f"calibrated for ({tolerance:.3g}), so nothing is released. A larger alpha (here "
            f"{plan.shape.alpha:.3g}) makes the problem better conditioned."
        )
    return result


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
    """
    variance = noise_stddev**2
    return 0.5 * (alpha * minimizer_norm**2 + variance * (shape.smoothness + alpha * shape.dim))


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


def _check_loss(loss: Loss) -> None:
    """Refuse losses for which the sensitivity or the certificate does not hold."""
    needs = {
        "convex, so that the ridge makes its minimizer stable": loss.convex,
        "of bounded slope, so that one record's influence is bounded": math.isfinite(
            loss.lipschitz
        ),
        "smooth, since minimizers are certified by their gradient": math.isfinite(loss.smoothness),
    }
    for need, met in needs.items():
        if not met:
            raise ValueError(f"loss must be {need}, for {NAME}; got {loss.name!r}.")


def _noise_factor(shape: ProblemShape, budget: Budget, noise: str, accountant: str) -> float:
    """Standard deviation of the noise in one coordinate, per unit of sensitivity."""
    if noise == "gaussian":
        return 1.0 / budget_mu(budget, accountant)
    # E‖z‖² = d (d + 1) scale² for the l2-Laplace law.
    return math.sqrt(shape.dim + 1.0) / budget_epsilon(budget)


def _choose_noise(noise: str, shape: ProblemShape, budget: Budget, accountant: str) -> str:
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
    return min(priced, key=lambda name: _noise_factor(shape, budget, name, accountant))


def _mechanism(
    noise: str, budget: Budget, accountant: str, **settings: Any
) -> Gaussian | L2Laplace:
    if noise == "gaussian":
        return Gaussian.calibrate(budget, accountant=accountant, **settings)
    return L2Laplace.calibrate(budget, **settings)


def _choose_optimizer(optimizer: str, shape: ProblemShape) -> str:
    if optimizer != "auto":
        return optimizer
    return "newton" if shape.dim <= _NEWTON_MAX_DIM else "lbfgs"
