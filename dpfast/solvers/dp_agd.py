r"""Gradient descent that decides along the way how much each iteration may cost.

An iteration releases the sum of the rows' clipped gradients plus Gaussian noise, normalizes it, and
chooses privately among step sizes from 0 to a largest one by the objective's value at each.  If
step 0 wins, the direction was no good: the gradient is measured again, for a share `gamma` more,
all measurements at this point are averaged with weights proportional to their prices, and the
choice is repeated.  It ends when the next access would pass the budget: the ledger is asked before
each, never after (Lee & Kifer 2018, Algorithm 2, spend first and discard what was too much).

By default a direction remembers the ones before it (momentum, post-processing), the candidates are
spaced geometrically, and gradient and choice are priced in ρ.  On the paper's table Bank (add or
remove one, δ = 1e-8) this is far more accurate than the paper's own settings for ε up to 0.4, on a
par with them at 1.6, and takes a sixth of the iterations.  ``calibration="paper"`` has those.

Privacy, in units of ρ-zCDP, which a filter adds up as the accesses are chosen (see
:mod:`dpfast.privacy.filters`), k being :func:`dpfast.privacy.records_apart` of the relation and c
the largest weight of a row:

- *Gradient.*  A clipped row adds a vector of norm at most ``c C``, so neighbors' sums are at most
  ``k c C`` apart, and noise of variance ``(k c C)² / (2ρ)`` a coordinate is ρ-zCDP (Bun & Steinke
  2016, Proposition 1.6).  An average of releases is post-processing.
- *Choice.*  A score is ``Σ_i c_i min(ℓ_i, K)`` plus the ridge, which depends on what was released
  alone and is the same for neighbors.  A record present in one of them moves all scores by values
  in ``[0, c K]``, or in ``[-c K, 0]``; a replaced record by values in ``[-c K, c K]``.  Both are
  intervals of length ``k c K`` that hold 0, so the exponential mechanism with log-probabilities
  ``-a`` times the scores and ``η = a k c K`` is (η²/8)-zCDP
  (:class:`~dpfast.mechanisms.Exponential`; Cesar & Rogers 2021, Lemma 3.4).  The paper's noisy
  minimum is η-DP, hence (η²/2)-zCDP: four times the price.
- *Blocks.*  With `batch` the rows are cut into consecutive blocks, by their number alone, and an
  iteration looks at the next block.  A round over all blocks is charged one gradient and one
  choice, of prices that are fixed before it, although it makes as many of each as there are blocks.
  Neighbors differ in the record of one place, so in one block.  Whatever was released before, an
  access to another block has the same distribution for both, and costs nothing between them; their
  own block is looked at once for a gradient and once for a choice in each round.  So for every pair
  the prices, each fixed before its access, add up to what is charged at most.
- *Rounding* of the two sums is charged (``gradient_sum_error``, ``loss_sum_error``).

Speed: the sum of the gradients reads X once; the losses at all step sizes come from the margins of
the weights, which are kept up to date, and those of the direction, another read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_choice, check_integer, check_real
from dpfast.mechanisms import Exponential, Gaussian, NoisyMax
from dpfast.privacy import (
    NEIGHBORING_RELATIONS,
    Budget,
    Event,
    Ledger,
    budget_filter,
    records_apart,
)
from dpfast.problem import Problem
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape
from dpfast.solvers._contract import LegacyPlan as Plan
from dpfast.solvers._contract import Outcome
from dpfast.solvers._noisy_gradient import NoisyGradient

Vector = NDArray[np.float64]

NAME = "dp-agd"
OPTIONS = (
    "alpha",
    "splits",
    "gamma",
    "clip_norm",
    "loss_clip",
    "candidates",
    "max_step",
    "step_ratio",
    "selection_share",
    "momentum",
    "calibration",
    "noise",
    "max_iterations",
    "batch",
)
BUDGET_KINDS = ("approximate", "zcdp")
RELATIONS = NEIGHBORING_RELATIONS
# Without noise the choice of a step still rounds its scores, which leaves some 1e-5 of the weights.
MINIMIZES = False
EXACT: Mapping[str, Any] = MappingProxyType({})
EXPECTS = "gradient_noise_stddev"

_GRADIENT = "noisy gradient"
_AGAIN = "noisy gradient, measured again"
_CHOICE = "step size"
_HISTORY = ("gradient_norm", "gradient_rho", "max_step", "step", "budget_used")
# The largest candidate is set anew after this many steps, to so many times the largest of them.
_PERIOD = 10
_GROWTH = 1.1
# Rounding of prices that are added up; a planned course must not fail by it.
_BELOW_ONE = 1.0 - 1e-9


@dataclass(frozen=True)
class _Prices:
    """What the accesses cost in ρ, and what chooses the step."""

    gradient: float
    chooser: Exponential | NoisyMax


def plan(
    shape: ProblemShape,
    budget: Budget,
    *,
    neighboring_relation: str = "replace_one",
    accountant: str = "auto",
    alpha: float | str | None = None,
    splits: int | None = None,
    gamma: float | None = None,
    clip_norm: float | None = None,
    loss_clip: float | None = None,
    candidates: int = 20,
    max_step: float | None = None,
    step_ratio: float | None = None,
    selection_share: float | None = None,
    momentum: float | None = None,
    calibration: str = "tight",
    noise: str = "exponential",
    max_iterations: int | None = None,
    batch: int | None = None,
) -> Plan:
    """Settle prices and candidates from public quantities.

    Parameters
    ----------
    shape : ProblemShape
    budget : Budget
    neighboring_relation : {"replace_one", "add_or_remove_one"}
    accountant : {"auto", "zcdp"}, default="auto"
    alpha : float, "auto" or None, default=None
        Ridge of the mean loss.  None takes that of `shape`; "auto" is none at all: the step sizes
        are what keeps the weights small.
    splits : int or None, default=None
        Iterations that the budget pays for if no gradient has to be measured again.  None: 100, or
        as many, but at least 10, as leave the noise of a choice below 0.1 of a mean loss.
    gamma : float or None, default=None
        By which share a gradient's price grows each time it was no good; None is 0.2.
    clip_norm : float or None, default=None
        C, the bound of a row's gradient, its weight not counted; None is 0.7 of the row norm:
        less bends the descent the further the more steps there are, more is noise.
    loss_clip : float or None, default=None
        K, the bound of a row's loss, its weight not counted, in the choice of the step; None is 3.
    candidates : int, default=20
        Step sizes to choose from, 0 among them.
    max_step : float or None, default=None
        The largest of them at the start, the direction being of length one; None is
        ``8 / row_norm``.  After every ten steps it becomes 1.1 times the largest of these; whenever
        step 0 wins, all candidates shrink by `step_ratio`, or by half if the loss has kinks: near
        one, no long step helps, however good the direction.
    step_ratio : float or None, default=None
        Quotient of neighboring step sizes; 1 spaces them equally.  None is 0.9, and down to 0.8
        where a gradient's noise is 0.1 to 0.2 of C or more: noisy directions need short steps, but
        where these are among the candidates, the largest one soon is short too.
    selection_share : float or None, default=None
        Part of an iteration's price that the choice takes; None is 0.3.
    momentum : float or None, default=None
        In [0, 1): how much of the last direction goes into the next; None is 0.7.
    calibration : {"tight", "paper"}
        "paper" chooses by a noisy minimum at (η²/2)-zCDP and divides the budget as Lee & Kifer do:
        ``ε / (2 splits)`` each for choice and gradient, the latter's noise by the classical
        formula.  Its defaults are theirs: ``splits=60``, ``gamma=0.1``, ``clip_norm=3``,
        ``max_step=2``, ``step_ratio=1``, ``momentum=0``.
    noise : {"exponential", "laplace"}
        Of the paper's noisy minimum.
    max_iterations : int or None, default=None
        Stop after this many gradients that led to a step, whatever is left.
    batch : int or None, default=None
        About how many rows an iteration looks at; None: all.  For so many rows that time matters
        and noise does not: at equal price and `splits` an iteration reads ``n / batch`` times less,
        and the noise of its mean gradient is ``sqrt(n / batch)`` times larger.  A gradient that was
        no good is not measured again; the next round pays for better ones.  Rows should be in no
        particular order.

    Returns
    -------
    Plan
        Its events stand for a run in which every gradient leads to a step; with `batch`, each
        stands for a round over all blocks.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.
    """
    check_choice(
        "accountant",
        accountant,
        ("auto", "zcdp"),
        hint=f"{NAME} adds up Gaussian noise and private choices as it goes, in zCDP.",
    )
    check_choice("calibration", calibration, ("tight", "paper"))
    check_choice("noise", noise, ("exponential", "laplace"))
    paper = calibration == "paper"
    if paper and budget.kind != "approximate":
        raise ValueError(
            f"budget must be Budget(epsilon, delta) for calibration='paper'; got {budget!r}."
        )
    if paper and selection_share is not None:
        raise ValueError(
            "selection_share must be None for calibration='paper', which has its own; got "
            f"{selection_share!r}."
        )
    blocks = 1
    if batch is not None:
        check_integer("batch", batch, low=1, high=shape.n_samples)
        if paper:
            raise ValueError(f"batch must be None for calibration='paper'; got {batch!r}.")
        blocks = -(-shape.n_samples // batch)
    total = budget_filter(budget, "auto").limit
    shape = _with_ridge(shape, alpha)
    # What an iteration sees.
    seen = replace(shape, n_samples=-(-shape.n_samples // blocks))
    settled = _settle(
        shape,
        paper,
        splits=splits,
        gamma=gamma,
        clip_norm=clip_norm,
        loss_clip=loss_clip,
        candidates=candidates,
        max_step=max_step,
        step_ratio=step_ratio,
        selection_share=selection_share,
        momentum=momentum,
    )
    loss_clip, share = settled["loss_clip"], settled["selection_share"]
    largest = shape.max_weight * loss_clip
    records = records_apart(neighboring_relation)
    if splits is None and not paper:
        quiet = 0.1 * seen.n_samples * math.sqrt(8.0 * share * total) / (records * largest)
        settled["splits"] = round(min(100.0, max(10.0, blocks * quiet**2)))
    if step_ratio is None and not paper:
        # Root mean square of a gradient's noise, in units of C.
        price = (1.0 - share) * total / max(1, round(settled["splits"] / blocks))
        noisy = records * math.sqrt(shape.dim / (2.0 * price)) / seen.n_samples
        settled["step_ratio"] = min(0.9, max(0.8, 1.0 - noisy))
    kinks = not paper and math.isinf(shape.loss.smoothness)
    settled["shrink"] = min(settled["step_ratio"], 0.5) if kinks else settled["step_ratio"]
    if max_iterations is not None:
        check_integer("max_iterations", max_iterations, low=1)
    gradient = NoisyGradient.settle(
        seen, neighboring_relation, noise="gaussian", clip_norm=settled["clip_norm"]
    )
    chooser: Exponential | NoisyMax
    settings: dict[str, Any] = {
        "candidates": settled["candidates"],
        "minimum": True,
        "neighboring_relation": neighboring_relation,
    }
    settings |= _arithmetic(seen, loss_clip)
    if paper:
        assert budget.epsilon is not None
        part = budget.epsilon / (2.0 * settled["splits"])
        price = part**2 / (4.0 * math.log(1.25 / budget.delta))
        chooser = NoisyMax._calibrate(
            Budget(part),
            sensitivity=largest,
            noise_kind=cast(Literal["exponential", "laplace"], noise),
            monotone=neighboring_relation == "add_or_remove_one",
            **settings,
        )
        course = max(1, math.floor(_BELOW_ONE * total / (price + 0.5 * part**2)))
    else:
        course = max(1, round(settled["splits"] / blocks))
        each = _BELOW_ONE * total / course
        price = (1.0 - share) * each
        chooser = Exponential._calibrate(
            Budget(rho=share * each),
            score_range=records * largest,
            **settings,
        )
    first = _mechanism(gradient, price)
    if max_iterations is not None:
        course = min(course, -(-max_iterations // blocks))
    return Plan(
        solver=NAME,
        shape=shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        events=(first.event(_GRADIENT, course), chooser.event(_CHOICE, course)),
        parameters=MappingProxyType(
            {
                **settled,
                "clip_norm": gradient.clip_norm,
                "calibration": calibration,
                "max_iterations": max_iterations,
                "blocks": blocks,
                "gradient": gradient,
                "prices": _Prices(price, chooser),
            }
        ),
        expected=MappingProxyType(
            {
                # Of one gradient for all that gradients may cost.
                EXPECTS: math.sqrt(float(gradient.variance(math.sqrt(2.0 * total)))),
                "first_gradient_noise_stddev": float(first.event("").noise) / seen.n_samples,
                "choice_noise_scale": chooser.scale / seen.n_samples,
            }
        ),
        adaptive=True,
    )


def run(plan: Plan, problem: Problem, rng: SecureGenerator, ledger: Ledger) -> Outcome:
    """Descend until the ledger cannot afford the next access.

    Returns
    -------
    Outcome
        Its history holds, for every choice of a step: the norm of the noisy mean gradient (with the
        ridge), its price in ρ so far, the largest candidate, the chosen step size, and the share of
        the budget that is used.

    Raises
    ------
    BudgetExceeded
        If the ledger cannot afford the first gradient and choice; no data is touched.
    ValueError
        If the ledger is not adaptive.
    """
    parameters = plan.parameters
    gradient: NoisyGradient = parameters["gradient"]
    prices: _Prices = parameters["prices"]
    chooser = prices.chooser
    n, alpha = plan.shape.n_samples, plan.shape.alpha or 0.0
    ledger.check(
        _mechanism(gradient, prices.gradient).event(_GRADIENT),
        chooser.event(_CHOICE),
    )
    if not ledger.adaptive:
        raise ValueError(
            f"ledger must be Ledger(budget, adaptive=True) for {NAME}, whose accesses depend on "
            "what was released; got one that is not adaptive."
        )

    if parameters["blocks"] > 1:
        return _run_blocks(plan, problem, rng, ledger)
    w, velocity = np.zeros(plan.shape.dim), np.zeros(plan.shape.dim)
    price, max_step = prices.gradient, parameters["max_step"]
    chosen: list[float] = []
    history: dict[str, list[float]] = {name: [] for name in _HISTORY}

    while parameters["max_iterations"] is None or len(chosen) < parameters["max_iterations"]:
        at = _AtPoint(gradient, problem, w, rng, ledger)
        if not at.measure(price, chooser, _GRADIENT):
            break
        while True:
            slope = at.estimate / n + alpha * w
            norm = float(np.linalg.norm(slope))
            # A zero noisy gradient has no direction; it takes zero noise to meet one.
            if norm == 0.0 or not ledger.can_afford(chooser.event(_CHOICE)):
                return _outcome(w, history)
            moving = slope + parameters["momentum"] * velocity
            direction = moving / (float(np.linalg.norm(moving)) or 1.0)
            steps = candidate_steps(max_step, parameters["candidates"], parameters["step_ratio"])
            index = chooser.release(
                partial(_scores, problem, w, direction, steps, parameters["loss_clip"], alpha),
                rng=rng,
                ledger=ledger,
                where=_CHOICE,
            )
            for name, value in zip(
                history, (norm, at.price, max_step, steps[index], ledger.used()), strict=True
            ):
                history[name].append(float(value))
            if index > 0:
                break
            if not at.measure(parameters["gamma"] * price, chooser, _AGAIN):
                return _outcome(w, history)
            price, velocity = at.price, np.zeros_like(w)
            max_step *= parameters["shrink"]
        velocity = moving
        # The same expression as in the line search, whose margins are then known.
        w = w - steps[index] * direction
        chosen.append(float(steps[index]))
        if len(chosen) % _PERIOD == 0:
            max_step = _GROWTH * max(chosen[-_PERIOD:])
    return _outcome(w, history)


def _run_blocks(plan: Plan, problem: Problem, rng: SecureGenerator, ledger: Ledger) -> Outcome:
    """Descend block by block, paying for a round over all of them before it begins."""
    parameters = plan.parameters
    gradient: NoisyGradient = parameters["gradient"]
    chooser = parameters["prices"].chooser
    alpha = plan.shape.alpha or 0.0
    w, velocity = np.zeros(plan.shape.dim), np.zeros(plan.shape.dim)
    price, max_step = parameters["prices"].gradient, parameters["max_step"]
    chosen: list[float] = []
    history: dict[str, list[float]] = {name: [] for name in _HISTORY}
    edges = [
        plan.shape.n_samples * k // parameters["blocks"] for k in range(parameters["blocks"] + 1)
    ]
    blocks = [problem.part(start, stop) for start, stop in itertools.pairwise(edges)]
    while True:
        mechanism = _mechanism(gradient, price)
        events = mechanism.event(_GRADIENT), chooser.event(_CHOICE)
        if not ledger.can_afford(*events):
            return _outcome(w, history)
        ledger.spend_all(events)
        failures = 0
        for block in blocks:
            paid = cast(Ledger, _PaidOnce(list(events)))
            noisy = mechanism.release(
                partial(_gradient_sum, block, w, gradient.clip_norm),
                rng=rng,
                ledger=paid,
                where=_GRADIENT,
            )
            slope = noisy / block.shape.n_samples + alpha * w
            moving = slope + parameters["momentum"] * velocity
            direction = moving / (float(np.linalg.norm(moving)) or 1.0)
            steps = candidate_steps(max_step, parameters["candidates"], parameters["step_ratio"])
            index = chooser.release(
                partial(_scores, block, w, direction, steps, parameters["loss_clip"], alpha),
                rng=rng,
                ledger=paid,
                where=_CHOICE,
            )
            norm = float(np.linalg.norm(slope))
            for name, value in zip(
                history, (norm, price, max_step, steps[index], ledger.used()), strict=True
            ):
                history[name].append(float(value))
            if index == 0:
                failures += 1
                velocity = np.zeros_like(w)
                max_step *= parameters["shrink"]
                continue
            velocity = moving
            w = w - steps[index] * direction
            chosen.append(float(steps[index]))
            if len(chosen) % _PERIOD == 0:
                max_step = _GROWTH * max(chosen[-_PERIOD:])
            if len(chosen) == parameters["max_iterations"]:
                return _outcome(w, history)
        price *= 1.0 + parameters["gamma"] * failures / len(blocks)


@dataclass
class _PaidOnce:
    """In place of the ledger for one block in one round: what the round paid for, once each."""

    left: list[Event]

    def spend(self, event: Event) -> None:
        self.left.remove(event)


def _gradient_sum(problem: Problem, w: Vector, clip_norm: float) -> Vector:
    return problem.clipped_gradient(w, clip_norm)[0]


@lru_cache(maxsize=1024)
def _mechanism(gradient: NoisyGradient, rho: float) -> Gaussian:
    """Gaussian noise of which one release is rho-zCDP: mu-GDP with ``mu² / 2 = rho``."""
    return cast(Gaussian, gradient.mechanism(math.sqrt(2.0 * rho)))


class _AtPoint:
    """The gradient sum at one point: measured, and measured again."""

    def __init__(
        self,
        gradient: NoisyGradient,
        problem: Problem,
        w: Vector,
        rng: SecureGenerator,
        ledger: Ledger,
    ) -> None:
        self._gradient, self._problem, self._w = gradient, problem, w
        self._rng, self._ledger = rng, ledger
        self._exact: Vector | None = None
        self.price = 0.0
        self.estimate = np.zeros(len(w))

    def measure(self, price: float, chooser: Exponential | NoisyMax, where: str) -> bool:
        """Spend `price` on another estimate and average, if the choice after it is affordable too.

        Estimates of variance proportional to 1/ρ are best averaged with weights ρ, which gives one
        of their total price (the paper's GradAvg).  They must not be normalized before.
        """
        mechanism = _mechanism(self._gradient, price)
        if not self._ledger.can_afford(mechanism.event(where), chooser.event(_CHOICE)):
            return False
        fresh = mechanism.release(self._sum, rng=self._rng, ledger=self._ledger, where=where)
        total = self.price + price
        self.estimate = (self.price * self.estimate + price * fresh) / total
        self.price = total
        return True

    def _sum(self) -> Vector:
        """The sum of the clipped gradients; each release of it is paid for, X is read once."""
        if self._exact is None:
            self._exact = self._problem.clipped_gradient(self._w, self._gradient.clip_norm)[0]
        return self._exact


def candidate_steps(max_step: float, candidates: int, step_ratio: float) -> Vector:
    """Step sizes from 0 to `max_step`, equally spaced or each a fixed multiple of the next.

    Examples
    --------
    >>> candidate_steps(2.0, 5, 1.0).tolist(), candidate_steps(2.0, 5, 0.5).tolist()
    ([0.0, 0.5, 1.0, 1.5, 2.0], [0.0, 0.25, 0.5, 1.0, 2.0])
    """
    if step_ratio == 1.0:
        return np.linspace(0.0, max_step, candidates)
    powers = step_ratio ** np.arange(candidates - 2, -1, -1.0)
    return np.concatenate([[0.0], max_step * powers])


def _scores(
    problem: Problem, w: Vector, direction: Vector, steps: Vector, loss_clip: float, alpha: float
) -> Vector:
    """Sums of clipped losses, plus n times the ridge's change, which neighbors share."""
    scores = problem.line_search_losses(w, direction, steps, loss_clip)
    if alpha == 0.0:
        return scores
    squares = steps * (steps * float(direction @ direction) - 2.0 * float(w @ direction))
    # Where the ridge outweighs all losses it decides, by whatever amount: so the scores stay in a
    # public range.
    largest = problem.shape.n_samples * problem.shape.max_weight * loss_clip
    ridge = np.clip(0.5 * alpha * problem.shape.n_samples * squares, -largest, largest)
    return np.asarray(scores + ridge)


def _arithmetic(shape: ProblemShape, loss_clip: float) -> dict[str, float]:
    """Rounding error and largest absolute value of a score."""
    largest = 2.001 * shape.n_samples * shape.max_weight * loss_clip
    # The sum of losses and ridge is rounded once more.
    return {"error": shape.loss_sum_error(loss_clip) + 2.0**-53 * largest, "bound": largest}


def _outcome(w: Vector, history: Mapping[str, list[float]]) -> Outcome:
    return Outcome(
        w, MappingProxyType({name: np.array(values) for name, values in history.items()})
    )


def _with_ridge(shape: ProblemShape, alpha: float | str | None) -> ProblemShape:
    if alpha is None or alpha == "auto":
        return shape if alpha is None else replace(shape, alpha=None)
    return shape.with_alpha(
        check_real("alpha", alpha, low=1e-100, high=1e100, hint='Or pass "auto".')
    )


def _settle(shape: ProblemShape, paper: bool, **given: Any) -> dict[str, Any]:
    """The numbers that were given, checked, and the defaults of the others."""
    defaults = {
        "splits": 60,
        "gamma": 0.1 if paper else 0.2,
        "clip_norm": 3.0 if paper else 0.7 * shape.row_norm,
        "loss_clip": 3.0,
        # Beyond this, a typical row's margin would be 8.
        "max_step": 2.0 if paper else 8.0 / shape.row_norm,
        "step_ratio": 1.0 if paper else 0.9,
        "selection_share": 0.3,
        "momentum": 0.0 if paper else 0.7,
    }
    ranges: dict[str, dict[str, Any]] = {
        "gamma": {"low": 0.0, "low_open": True, "high": 1e6},
        "clip_norm": {"low": 1e-100, "high": 1e100},
        "loss_clip": {"low": 1e-100, "high": 1e100},
        "max_step": {"low": 1e-100, "high": 1e50},
        "step_ratio": {"low": 1e-3, "high": 1.0},
        "selection_share": {"low": 0.0, "low_open": True, "high": 1.0, "high_open": True},
        "momentum": {"low": 0.0, "high": 1.0, "high_open": True},
    }
    settled = {key: defaults[key] if value is None else value for key, value in given.items()}
    check_integer("splits", settled["splits"], low=1, high=10**6)
    check_integer("candidates", settled["candidates"], low=2, high=10**6)
    return settled | {key: check_real(key, settled[key], **r) for key, r in ranges.items()}
