r"""Objective perturbation: a random linear term in the objective, then its minimizer.

The release is :class:`~dpfast.fused.PerturbedMinimizer`.  Noise that enters before the minimization
is bent by the curvature of the data: directions in which the rows say much are disturbed by
``b / (curvature + Λ)`` and not, as in output perturbation, like those in which they say nothing.
The noise that covers the optimizer's tolerance is at most a hundredth of that, and costs next to
nothing.

Numbers with a pure budget may be far from filling their declared bounds: their range is counted
first, with Laplace noise (`dpfast/solvers/_target_range.py`), and the release is in units of it; of
counts and costs it is in units of their mean (`dpfast/solvers/_mean_unit.py`).

Sources: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2; Kifer, Smith & Thakurta 2012; Iyengar et
al. 2019; Redberg, Koskela & Wang 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize

from dpfast._validation import check_choice, check_real
from dpfast.curator import Curator
from dpfast.fused import PerturbedMinimizer
from dpfast.fused.perturbed_minimizer import (
    ROUND_UP,
    deviation,
    linear_event,
    minimizer_reach,
    refusal,
    standard_deviation,
)
from dpfast.losses import Loss
from dpfast.mechanisms import Access
from dpfast.optimizers import OPTIMIZERS
from dpfast.privacy import (
    ACCOUNTANTS,
    NEIGHBORING_RELATIONS,
    Budget,
    Event,
    ObjectivePerturbationEvent,
    affordable,
    records_apart,
)
from dpfast.privacy.calibration import budget_epsilon, gaussian_mu
from dpfast.privacy.conversions import gaussian_delta
from dpfast.shape import ProblemShape
from dpfast.solvers import _mean_unit, _seconds, _target_range
from dpfast.solvers._contract import TYPICAL_NUMBER, Outcome, Plan, Solver, check_alpha, check_shape
from dpfast.solvers._coordinates import declared
from dpfast.solvers._mean_unit import MeanUnit
from dpfast.solvers._target_range import FARTHEST, TargetRange, learn_range

NAME = "objective-perturbation"

# Kinds of noise, and the accountants under which they can use up the budget.
_NOISES = {"gaussian": ("auto", "objective"), "l2-laplace": ("auto", "pure", "basic")}
# Who prices both releases in the budget's unit.
_PRICED_BY = {"gaussian": "objective", "l2-laplace": "pure"}
# The output noise's µ (or ε) as a share of the linear term's: 5e-5 of the Gaussian budget, where
# squares add, and 1e-3 of the pure one.
_OUTPUT_MU = 0.01
_OUTPUT_EPSILON = 1e-3
# What it may cost: a share of σ/Λ, and of the excess risk; the optimizer's tolerance follows.
_OUTPUT_NOISE = 0.01
_OUTPUT_RISK = 0.01
# Guesses that set the ridge: the norm of the best weights as the margin of a longest row, and the
# curvature in a typical direction as a share of the largest trace over the dimension.  Margins of 8
# to 12 and shares of 0.05 to 0.1 came within some 20 % of the best ridge's excess log-loss on three
# public tables at ε from 0.1 to 8; smaller ridges are the greater risk.  Numbers, which estimators
# scale to bounds of ±1, have smaller ones: with 10 they lose twice as much, with 1 a bit more; and
# so have logarithms of means.
_TYPICAL_MARGIN, _TYPICAL_LOG = 10.0, 1.0
_TYPICAL_CURVATURE = 0.05
# Where noise costs this share of what losses differ by, it costs twice as much as to second order.
# Between 0.015 and 0.03 log-losses hardly changed; without it weights are worse than a constant
# prediction where it matters at all (Bank, replace_one, ε = 0.05).
_SMALL_NOISE = 0.02
# Where the rows say nothing, as of empty categories, noise may move a declared category's weight by
# this share of the typical margin.
_UNSEEN = 0.15
# The ridge never gets so small that the Jacobian would cost more than this.
_MAX_JACOBIAN = 60.0


@dataclass(frozen=True)
class Settings:
    """What a run follows; the rest is derived from the access, for display."""

    access: PerturbedMinimizer
    noise: str
    linear_noise: float
    optimizer: str | Callable[..., Any]
    gradient_tolerance: float
    alpha_added: float
    category_alpha: float | None
    target_range: TargetRange | None = None
    widening: float = 1.0
    mean_unit: MeanUnit | None = None


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    optimizer: str | Callable[..., Any] = "auto",
    noise: str = "auto",
    minimizer_norm: float | None = None,
    target_rounds: int | str = "auto",
) -> Plan[Settings]:
    """Settle ridge, linear term, tolerance and output noise from public quantities.

    Parameters
    ----------
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss, a lower bound: privacy needs more than ``β / (n (exp(ε) - 1))``, and
        more than that again pays off; what is added stands in the plan as `alpha_added`.  None
        takes that of `shape`, or "auto", which is 0, if it has none.
    optimizer : {"auto", "newton", "lbfgs"}
    noise : {"auto", "gaussian", "l2-laplace"}
        Of the linear term, and of the output.  "auto" takes the smaller :func:`excess_risk_guess`;
        l2-Laplace when ``δ = 0``.
    minimizer_norm : float or None
        Guess of the norm of the best weights, for the ridge; None is 10 over the row norm, 3 for
        losses of numbers, 1 with a log link.  A wrong guess costs accuracy, never privacy.
    target_rounds : int or "auto"
        Rounds in which the range of numeric targets is learned, 0 for none; "auto" is 3 for losses
        of numbers without a log link, with a pure budget, and none for others.  With a log link and
        an intercept "auto" learns the mean instead, and the release is in units of it.
    """
    if not callable(optimizer):
        check_choice("optimizer", optimizer, ("auto", *OPTIMIZERS))
    check_choice("noise", noise, ("auto", *_NOISES))
    check_shape(NAME, shape, refusal(shape.loss))
    if minimizer_norm is None:
        minimizer_norm = _typical_margin(shape.loss) / shape.row_norm
    minimizer_norm = check_real("minimizer_norm", minimizer_norm, low=0.0, low_open=True)
    floor = check_alpha(alpha, shape) or 0.0
    target_range, left = _target_range.planned_of_pure(
        target_rounds, shape, budget, neighboring_relation
    )
    mean_unit, whole = None, shape
    if target_rounds == "auto":
        mean_unit, shape, left = _mean_unit.planned(shape, left, neighboring_relation)
    laws = [
        law(shape, left, neighboring_relation, None if target_range is None else FARTHEST)
        for law in (_LAWS[name] for name in _noises(noise, budget, accountant))
    ]
    ridges = [_best_ridge(law, shape, floor * shape.n_samples, minimizer_norm) for law in laws]
    law, ridge = min(
        zip(laws, ridges, strict=True),
        key=lambda pair: pair[0].risk(pair[1], pair[0].approximate(pair[1]), minimizer_norm),
    )
    settled = _settle(law, ridge, floor, optimizer, minimizer_norm, mean_unit is not None)
    first: tuple[tuple[Access[Any], int], ...]
    learned: dict[str, Any]
    if mean_unit is not None:
        first, learned = mean_unit.asked.first, {"mean_unit": mean_unit}
    elif target_range is not None:
        first = target_range.accesses
        learned = {"target_range": target_range, "widening": target_range.widening}
    else:
        return settled
    return replace(
        settled,
        shape=whole.with_alpha(settled.shape.alpha),
        budget=budget,
        accesses=(*first, *settled.accesses),
        settings=replace(settled.settings, **learned),
    )


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Ask for the perturbed minimizer.

    Raises
    ------
    CertificateNotReached
        If no optimizer could certify its point; the budget stays spent, nothing is released.
    """
    access, target_range = plan.settings.access, plan.settings.target_range
    if plan.settings.mean_unit is not None:
        spread, lower = plan.settings.mean_unit.learned(plan.shape, curator)
        w = curator.release(access, spread.mean)
        stddev = standard_deviation(access.noise, plan.shape.dim, access.scale)
        w = _mean_unit.drawn_to_mean(w, spread, access.shape, stddev)
        w[-1] += math.log(spread.mean / lower) / plan.shape.intercept
        return Outcome(w)
    if target_range is None:
        return Outcome(curator.release(access))
    place = learn_range(target_range, curator)
    half = place.wide(plan.settings.widening)
    w = half * curator.release(access, place.center, half)
    if place.center != 0.0:
        w[-1] += place.center / plan.shape.intercept
    return Outcome(w, said=place.said(), unit=half)


def excess_risk_bound(
    shape: ProblemShape, ridge: float, stddev: float, minimizer_norm: float
) -> float:
    """Bound of the expected excess risk over the best weights of norm `minimizer_norm`.

    With ``J = Σ ℓ_i + (Λ/2)‖w‖²``, ``w₀`` its minimizer: ``J(ŵ) + <b, ŵ> + (Λ/2)‖ŵ - w₀‖²`` is at
    most ``J(w₀) + <b, w₀>``, so ``J(ŵ) - J(w₀) <= <b, w₀ - ŵ> - (Λ/2)‖ŵ - w₀‖² <= ‖b‖²/(2Λ)``;
    with ``J(w₀) <= J(v)``, the mean losses of ŵ and v differ by at most
    ``((Λ/2)‖v‖² + dσ²/(2Λ)) / n`` in expectation.  The ridge Λ is that of the sum, and σ the
    standard deviation of the linear term in each coordinate.
    """
    noise = shape.dim * stddev**2 / ridge
    return 0.5 * (ridge * minimizer_norm**2 + noise) / shape.n_samples


def excess_risk_guess(
    shape: ProblemShape, ridge: float, stddev: float, minimizer_norm: float
) -> float:
    """What the ridge is chosen by: :func:`excess_risk_bound` with some curvature in the data.

    To second order the noise costs ``(σ²/2) tr (A + Λ)^-1``, ``A`` the Hessian of the sum of
    losses; each eigenvalue of A is taken to be 0.05 of the mean at its largest possible trace,
    ``nβ/d``.  That is N; where it is not small beside what losses differ by, ``L‖v‖``, the
    expansion is of little worth, and noise costs more: ``N (1 + (N / (0.02 L‖v‖))²)``, which
    changes the ridge where weights are hardly better than none.  Each term falls with σ, so the
    minimum over Λ falls as ε grows.
    """
    curvature = _TYPICAL_CURVATURE * shape.n_samples * shape.smoothness / shape.dim
    noise = 0.5 * shape.dim * stddev**2 / (ridge + curvature) / shape.n_samples
    excess = noise / (_SMALL_NOISE * shape.lipschitz * minimizer_norm)
    return 0.5 * ridge * minimizer_norm**2 / shape.n_samples + noise * (1.0 + excess * excess)


class _Law:
    """Law of the linear term, calibrated to a budget for any ridge that leaves some of it."""

    noise: str

    def __init__(
        self,
        shape: ProblemShape,
        budget: Budget,
        neighboring_relation: str,
        farthest: float | None = None,
    ) -> None:
        self.shape, self.farthest = shape, farthest
        self.budget = budget
        self.relation = neighboring_relation
        self.records = records_apart(neighboring_relation)
        self.lipschitz = shape.lipschitz * ROUND_UP
        self.smoothness = shape.smoothness * ROUND_UP
        self.epsilon = budget_epsilon(budget)

    def left(self, ridge: float) -> float:
        """What the Jacobian leaves of ε."""
        return self.epsilon - math.log1p(self.smoothness / ridge) * ROUND_UP

    def approximate(self, ridge: float) -> float:
        """Standard deviation of a coordinate, to a few percent."""
        raise NotImplementedError

    def scale(self, ridge: float) -> float:
        """The law's own scale, such that both releases fit the budget, up to rounding."""
        raise NotImplementedError

    def output_loss(self, ridge: float, scale: float) -> float:
        """The output's µ or ε."""
        raise NotImplementedError

    def stddev(self, scale: float) -> float:
        """Standard deviation of a coordinate."""
        return standard_deviation(self.noise, self.shape.dim, scale)

    def deviation(self, ridge: float, scale: float) -> float:
        """η: bound of the distance between the drawn vector and an exact draw."""
        return deviation(self.shape, self.noise, ridge, scale, self.farthest)

    def risk(self, ridge: float, stddev: float, minimizer_norm: float) -> float:
        """:func:`excess_risk_guess`, and what the least possible output noise adds to it."""
        guess = excess_risk_guess(self.shape, ridge, stddev, minimizer_norm)
        scale = stddev / self.stddev(1.0)
        return guess + _output_risk(self, ridge, self.least_output(ridge, scale))

    def least_output(self, ridge: float, scale: float) -> float:
        """Scale of the output noise for the smallest tolerance that can be certified."""
        distance = (_least_tolerance(self, ridge, scale) * self.shape.n_samples) / ridge
        distance += self.deviation(ridge, scale) / ridge
        least = 2.0 * distance / self.output_loss(ridge, scale)
        reach = minimizer_reach(self.shape, self.noise, ridge, scale, self.farthest)
        return max(least, 2.0**-40 * reach)


class _GaussianLaw(_Law):
    noise = "gaussian"

    def approximate(self, ridge: float) -> float:
        sides = 1.0 if self.shape.loss.monotone else 2.0
        return (
            self.records * self.lipschitz / gaussian_mu(self.left(ridge), self.budget.delta / sides)
        )

    def scale(self, ridge: float) -> float:
        left, delta = self.left(ridge), self.budget.delta
        event = linear_event(self.shape, self.relation, self.noise, ridge, self.lipschitz)
        assert isinstance(event, ObjectivePerturbationEvent)
        unit = event.shifts

        def excess(log_shift: float) -> float:
            shift = math.exp(log_shift)
            extra = _OUTPUT_MU * self.records
            total = math.fsum(
                many * gaussian_delta(left, shift * math.hypot(corner, extra))
                for many, corner in unit
            )
            return math.log(max(total, 1e-305) / delta)

        high = math.log(gaussian_mu(left, delta) / self.records)
        low = high - 0.1
        while excess(low) > 0.0:
            low -= 1.0
        return self.lipschitz / math.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-12))

    def output_loss(self, ridge: float, scale: float) -> float:
        return _OUTPUT_MU * self.records * self.lipschitz / scale


class _L2LaplaceLaw(_Law):
    noise = "l2-laplace"

    def approximate(self, ridge: float) -> float:
        return self.stddev(self.records * self.lipschitz / self.left(ridge))

    def scale(self, ridge: float) -> float:
        return self.records * self.lipschitz / (self.left(ridge) * (1.0 - _OUTPUT_EPSILON))

    def output_loss(self, ridge: float, scale: float) -> float:
        return _OUTPUT_EPSILON * self.left(ridge)


_LAWS: dict[str, type[_Law]] = {law.noise: law for law in (_GaussianLaw, _L2LaplaceLaw)}


def _typical_margin(loss: Loss) -> float:
    if loss.log_link:
        return _TYPICAL_LOG
    return _TYPICAL_MARGIN if loss.kind == "classification" else TYPICAL_NUMBER


def _noises(noise: str, budget: Budget, accountant: str) -> list[str]:
    """The noises that are allowed and that the accountant prices in the budget's unit."""
    priced = [name for name in _NOISES if accountant in _NOISES[name]]
    if budget.kind == "pure":
        priced = [name for name in priced if name != "gaussian"]
    if not priced:
        raise ValueError(
            f"accountant must be one of 'auto', 'objective', 'pure', 'basic' for {NAME}; "
            f"got {accountant!r} with {budget!r}. solver='output-perturbation' takes every one."
        )
    if noise == "auto":
        return priced
    if noise not in priced:
        raise ValueError(
            f"noise must be {' or '.join(map(repr, priced))} with {budget!r} and "
            f"accountant={accountant!r}; got {noise!r}. Gaussian noise needs a delta > 0."
        )
    return [noise]


def _best_ridge(law: _Law, shape: ProblemShape, floor: float, minimizer_norm: float) -> float:
    """Ridge of the sum, at least `floor`, that minimizes the risk that the law expects."""
    # Half of ε left over, and the two-term optimum with it, bracket the solution generously.
    least = law.smoothness / math.expm1(min(0.999 * law.epsilon, _MAX_JACOBIAN))
    least = max(least, 1e-90 * shape.n_samples)
    half = law.smoothness / math.expm1(min(0.5 * law.epsilon, _MAX_JACOBIAN))
    spread = math.sqrt(shape.dim) * law.approximate(max(half, least)) / minimizer_norm
    low, high = max(floor, least), max(floor, 4.0 * (half + spread))
    if low >= high:
        return low

    def risk(log_ridge: float) -> float:
        ridge = math.exp(log_ridge)
        return math.log(law.risk(ridge, law.approximate(ridge), minimizer_norm))

    grid = np.linspace(math.log(low), math.log(high), 8)
    risks = [risk(x) for x in grid]
    best = int(np.argmin(risks))
    found = scipy.optimize.minimize_scalar(
        risk,
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]),
        method="bounded",
        options={"xatol": 1e-2},
    )
    # The search leaves the ends alone, which may be the best.
    best_log = min((float(found.x), float(grid[best])), key=risk)
    return min(max(math.exp(best_log), low), high)


def _settle(
    law: _Law,
    ridge: float,
    floor: float,
    optimizer: str | Callable[..., Any],
    minimizer_norm: float,
    in_unit: bool = False,
) -> Plan[Settings]:
    """The plan for a ridge; the noise grows by some 1e-9 until its exact price fits."""
    n = law.shape.n_samples
    # Never above that of the objective: see PerturbedMinimizer, which takes it from alpha again.
    alpha = ridge / n * ROUND_UP if ridge > floor * n else floor
    ridge = alpha * n / ROUND_UP
    shape = law.shape.with_alpha(alpha)
    scale = law.scale(ridge)
    categories = np.zeros(shape.dim, dtype=bool)
    categories[: shape.n_features] = declared(shape, "one-hot")
    for attempt in range(60):
        stddev = law.stddev(scale)
        guess = excess_risk_guess(shape, ridge, stddev, minimizer_norm)
        unit_risk = _output_risk(law, ridge, 1.0)
        wanted = min(_OUTPUT_NOISE * scale / ridge, math.sqrt(_OUTPUT_RISK * guess / unit_risk))
        noise = max(wanted, law.least_output(ridge, scale))
        loss = law.output_loss(ridge, scale)
        least = stddev / (_UNSEEN * minimizer_norm * shape.row_norm) / n
        access = PerturbedMinimizer(
            shape,
            law.relation,
            noise=law.noise,
            scale=scale,
            tolerance=(0.5 * noise * loss * ridge - law.deviation(ridge, scale)) / n,
            output_noise=noise,
            optimizer=optimizer,
            more_ridge=np.where(categories, max(0.0, least - alpha), 0.0),
            farthest=law.farthest,
            in_unit=in_unit,
        )
        if _fits(access.events(), law):
            break
        scale *= 1.0 + 2.0**attempt * 1e-9
    else:
        raise ValueError(
            f"budget must be larger for this problem: with {law.budget!r} the noise is so small "
            "beside rounding errors that no release fits. solver='output-perturbation' may serve."
        )
    output_risk = _output_risk(law, ridge, noise)
    return Plan(
        solver=NAME,
        shape=shape,
        budget=law.budget,
        neighboring_relation=law.relation,
        accesses=((access, 1),),
        settings=Settings(
            access=access,
            noise=law.noise,
            linear_noise=scale,
            optimizer=access.optimizer,
            gradient_tolerance=access.tolerance,
            alpha_added=max(alpha - floor, 0.0),
            category_alpha=max(alpha, least) if categories.any() else None,
        ),
        expected={
            "noise_stddev_per_weight": math.hypot(stddev / ridge, law.stddev(noise)),
            "excess_risk_guess": guess + output_risk,
            "excess_risk_bound": output_risk
            + excess_risk_bound(shape, ridge, stddev, minimizer_norm)
            + 0.5 * float(np.max(access.more_ridge)) * minimizer_norm**2,
            **_seconds.whole_fit(shape, str(access.optimizer), _seconds.NEWTON_WITH_LINEAR_TERM),
        },
    )


def _fits(events: tuple[Event, ...], law: _Law) -> bool:
    """Whether the budget pays for both; where prices are a sum, a ledger, slower, is asked last."""
    name = _PRICED_BY[law.noise]
    if name == "pure" and ACCOUNTANTS[name].spent(events, law.budget) > law.budget.limit:
        return False
    return affordable(events, law.budget, name)


def _least_tolerance(law: _Law, ridge: float, scale: float) -> float:
    """Four times the rounding error of a gradient, which an optimizer can be sure to certify."""
    shape, n = law.shape.with_alpha(ridge / law.shape.n_samples), law.shape.n_samples
    noise_norm = law.stddev(scale) * (math.sqrt(shape.dim) + 6.0)
    # Where the minimizer is likely to be.
    norm = 2.0 * (shape.minimizer_norm(ridge / n) + noise_norm / ridge)
    if law.farthest is not None:
        norm += law.farthest / (abs(shape.intercept) or 1.0)
    return 4.0 * (shape.gradient_error(norm) + 2.0**-51 * noise_norm / n)


def _output_risk(law: _Law, ridge: float, noise: float) -> float:
    """Excess risk by output noise of this scale: half its variance times the Hessian's trace."""
    trace = law.shape.smoothness + ridge / law.shape.n_samples * law.shape.dim
    return 0.5 * law.stddev(noise) ** 2 * trace


SOLVER = Solver(
    name=NAME,
    doc=__doc__,
    plan=plan,
    run=run,
    budgets=("pure", "approximate"),
    relations=NEIGHBORING_RELATIONS,
    row_access="sums",
    resumable=True,
    minimizes=True,
    expects="excess_risk_guess",
    refusal=refusal,
)
