r"""DP-AGD: descent that decides along the way what an iteration may cost (Lee & Kifer 2018).

An iteration releases the sum of the rows' clipped gradients plus Gaussian noise, normalizes it, and
chooses privately among step sizes from 0 to a largest one by the objective's value at each.  If
step 0 wins, the direction was no good: the gradient is measured again, for a share `gamma` more,
all measurements at this point are averaged with weights proportional to their prices, and the
choice is repeated.  It ends when the next access would pass the budget: the ledger is asked before
each, never after (the paper's Algorithm 2 spends first and discards what was too much).

By default a direction remembers the ones before it (momentum, post-processing), the candidates are
spaced geometrically, and gradient and choice are priced in ρ.  On the paper's table Bank (add or
remove one, δ = 1e-8) this is far more accurate than the paper's own settings for ε up to 0.4, on a
par with them at 1.6, and takes a sixth of the iterations.  ``calibration="paper"`` has those.

Accesses, in units of ρ-zCDP, which a filter adds up as they are chosen (see
:mod:`dpfast.privacy.filters`):

- *Gradient.*  A Gaussian release of :class:`~dpfast.queries.ClippedGradient`: μ-GDP with
  ``μ² / 2 = ρ``.  An average of releases is post-processing.
- *Choice.*  The exponential mechanism on :class:`~dpfast.queries.LineSearchLosses`, of range η, is
  (η²/8)-zCDP.  The paper's noisy minimum is η-DP, hence (η²/2)-zCDP: four times the price.
- *Blocks.*  With `batch` the rows are cut into consecutive blocks, by their number alone, and an
  iteration looks at the next block.  A round over all blocks is charged one gradient and one
  choice, although it makes as many of each as there are blocks
  (:meth:`dpfast.curator.Curator.disjoint`).

Speed: the sum of the gradients reads X once, however often it is measured at one point; the losses
at all step sizes come from the margins of the weights, which are kept up to date, and those of the
direction, another read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from dpfast._typing import Vector
from dpfast._validation import check_choice, check_integer, check_real
from dpfast.curator import Curator
from dpfast.errors import BudgetExceeded
from dpfast.mechanisms import Exponential, Gaussian, NoisyMax
from dpfast.privacy import (
    NEIGHBORING_RELATIONS,
    Budget,
    NoisyMaxEvent,
    budget_filter,
    records_apart,
)
from dpfast.privacy.papers import zcdp_simple_rho
from dpfast.queries import ClippedGradient, LineSearchLosses
from dpfast.shape import ProblemShape
from dpfast.solvers._contract import Outcome, Plan, Solver, check_alpha

NAME = "dp-agd"

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
class Accesses:
    """What is asked of the rows, and the price of the first gradient in ρ."""

    query: ClippedGradient
    price: float
    gradient: Gaussian
    choice: Exponential | NoisyMax


@dataclass(frozen=True)
class Settings:
    """What a run follows; the numbers are those of :func:`plan` or derived from them."""

    splits: int
    gamma: float
    clip_norm: float
    loss_clip: float
    candidates: int
    max_step: float
    step_ratio: float
    selection_share: float
    momentum: float
    shrink: float
    calibration: str
    max_iterations: int | None
    blocks: int
    limit: float
    accesses: Accesses


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
) -> Plan[Settings]:
    """Settle prices and candidates from public quantities.

    Parameters
    ----------
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
        ``max_step=2``, ``step_ratio=1``, ``momentum=0``.  It ends at the ρ of their equation (5),
        ``ε = ρ + 2 √(ρ log(1/δ))``, less than what (ε, δ) allow.
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
    """
    check_choice(
        "accountant",
        accountant,
        ("auto", "zcdp"),
        hint=f"{NAME} adds up Gaussian noise and private choices as it goes, in zCDP.",
    )
    check_choice("calibration", calibration, ("tight", "paper"))
    check_choice("noise", noise, ("exponential", "laplace"))
    if max_iterations is not None:
        check_integer("max_iterations", max_iterations, low=1)
    paper = calibration == "paper"
    if paper:
        _check_paper(budget, selection_share, batch)
    blocks = 1 if batch is None else _blocks(batch, shape)
    total = budget_filter(budget, "auto").limit
    shape = shape.with_alpha(check_alpha(alpha, shape))
    # What an iteration sees.
    seen = replace(shape, n_samples=-(-shape.n_samples // blocks))
    chosen = _settle(
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
    query = ClippedGradient(seen, chosen["clip_norm"])
    chosen["clip_norm"] = query.clip_norm
    scores = LineSearchLosses(seen, chosen["candidates"], chosen["loss_clip"])
    if paper:
        prices = _prices_of_paper(budget, chosen["splits"], scores, neighboring_relation, noise)
    else:
        automatic = {"splits": splits is None, "step_ratio": step_ratio is None}
        prices = _equal_prices(total, blocks, scores, neighboring_relation, chosen, automatic)
    kinks = not paper and math.isinf(shape.loss.smoothness)
    chosen["shrink"] = min(chosen["step_ratio"], 0.5) if kinks else chosen["step_ratio"]
    choice, course = prices.choice, prices.course
    first = _measurement(query, neighboring_relation, prices.gradient)
    if max_iterations is not None:
        course = min(course, -(-max_iterations // blocks))
    by_noise = query.sensitivity(neighboring_relation) / seen.n_samples / math.sqrt(2.0 * total)
    return Plan(
        solver=NAME,
        shape=shape,
        budget=budget,
        neighboring_relation=neighboring_relation,
        accesses=((first, course), (choice, course)),
        settings=Settings(
            **chosen,
            calibration=calibration,
            max_iterations=max_iterations,
            blocks=blocks,
            limit=prices.limit,
            accesses=Accesses(query, prices.gradient, first, choice),
        ),
        expected={
            # Of one gradient for all that gradients may cost.
            "gradient_noise_stddev": by_noise,
            "first_gradient_noise_stddev": first.stddev / seen.n_samples,
            "choice_noise_scale": choice.scale / seen.n_samples,
        },
        adaptive=True,
    )


def _check_paper(budget: Budget, selection_share: float | None, batch: int | None) -> None:
    """Refuse what the paper's calibration has no place for."""
    if budget.kind != "approximate":
        raise ValueError(
            f"budget must be Budget(epsilon, delta) for calibration='paper'; got {budget!r}."
        )
    if selection_share is not None:
        raise ValueError(
            "selection_share must be None for calibration='paper', which has its own; got "
            f"{selection_share!r}."
        )
    if batch is not None:
        raise ValueError(f"batch must be None for calibration='paper'; got {batch!r}.")


def _blocks(batch: int, shape: ProblemShape) -> int:
    """How many blocks of about so many rows there are."""
    check_integer("batch", batch, low=1, high=shape.n_samples)
    if shape.unit == "group":
        raise ValueError(
            f"batch must be None for groups of rows; got {batch!r}. In which block a group is "
            "depends on the others' ids and rows, so that neighbors may differ in several."
        )
    return -(-shape.n_samples // batch)


class _Prices(NamedTuple):
    """ρ of a gradient, a choice, how many of both a run may make, and the ρ at which it ends."""

    gradient: float
    choice: Exponential | NoisyMax
    course: int
    limit: float


def _equal_prices(
    total: float,
    blocks: int,
    scores: LineSearchLosses,
    relation: str,
    chosen: dict[str, Any],
    automatic: Mapping[str, bool],
) -> _Prices:
    """Every round's part of ρ, of which the choice takes a share.

    Of the `chosen` numbers those that are automatic are settled by how loud the noise is.
    """
    share = chosen["selection_share"]
    if automatic["splits"]:
        chosen["splits"] = _quiet_splits(scores, relation, share * total, blocks)
    course = max(1, round(chosen["splits"] / blocks))
    if automatic["step_ratio"]:
        rho = (1.0 - share) * total / course
        chosen["step_ratio"] = _ratio_for_noise(scores.shape, relation, rho)
    each = _BELOW_ONE * total / course
    choice = Exponential.calibrate(
        Budget(rho=share * each), scores, relation, minimum=True, where=_CHOICE
    )
    return _Prices((1.0 - share) * each, choice, course, math.inf)


def _prices_of_paper(
    budget: Budget, splits: int, scores: LineSearchLosses, relation: str, noise: str
) -> _Prices:
    """Lee & Kifer's: ``ε / (2 splits)`` for each, up to the ρ of their equation (5)."""
    assert budget.epsilon is not None
    part = budget.epsilon / (2.0 * splits)
    choice = NoisyMax.calibrate(
        Budget(part),
        scores,
        relation,
        noise_kind=cast(Literal["exponential", "laplace"], noise),
        minimum=True,
        where=_CHOICE,
    )
    price = part**2 / (4.0 * math.log(1.25 / budget.delta))
    limit = _BELOW_ONE * zcdp_simple_rho(budget.epsilon, budget.delta)
    course = max(1, math.floor(_BELOW_ONE * limit / (price + _choice_price(choice))))
    return _Prices(price, choice, course, limit)


def _quiet_splits(scores: LineSearchLosses, relation: str, rho: float, blocks: int) -> int:
    """As many choices as share `rho` with noise below 0.1 of a mean loss: 10 to 100."""
    quiet = 0.1 * scores.shape.n_samples * math.sqrt(8.0 * rho) / scores.sensitivity(relation)
    return round(min(100.0, max(10.0, blocks * quiet**2)))


def _ratio_for_noise(shape: ProblemShape, relation: str, rho: float) -> float:
    """Of neighboring step sizes, from a gradient's root mean square noise in units of C."""
    noise = records_apart(relation) * math.sqrt(shape.dim / (2.0 * rho)) / shape.n_samples
    return min(0.9, max(0.8, 1.0 - noise))


def run(plan: Plan[Settings], curator: Curator) -> Outcome:
    """Descend until the curator cannot be paid for the next access.

    The history holds, for every choice of a step: the norm of the noisy mean gradient (with the
    ridge), its price in ρ so far, the largest candidate, the chosen step size, and the share of the
    budget that is used.
    """
    first = plan.settings.accesses
    if not curator.can_afford(first.gradient, first.choice):
        raise BudgetExceeded(
            f"what is left of the budget does not pay for the first gradient and choice of {NAME}. "
            "Nothing was spent."
        )
    descent = _Descent(plan, curator)
    (_by_points if plan.settings.blocks == 1 else _by_blocks)(plan, curator, descent)
    history = {name: np.array(values) for name, values in descent.history.items()}
    return Outcome(descent.w, history)


def _by_points(plan: Plan[Settings], curator: Curator, descent: _Descent) -> None:
    """Step from one point after the other, at each of which the gradient may be measured again."""
    settings, n, alpha = plan.settings, plan.shape.n_samples, plan.shape.alpha or 0.0
    query, choice = settings.accesses.query, settings.accesses.choice
    price, gradient = settings.accesses.price, settings.accesses.gradient
    while not descent.finished:
        at = curator.fix(query, descent.w)
        known = _Average(len(descent.w))
        measurement, cost = gradient, price
        while True:
            if not curator.can_afford(measurement, choice) or not descent.pay(cost):
                return
            known.add(curator.release(measurement, at), cost)
            slope = known.value / n + alpha * descent.w
            # A zero noisy gradient has no direction; it takes zero noise to meet one.
            if not slope.any() or not curator.can_afford(choice):
                return
            if descent.step(curator, n, slope, known.price):
                break
            cost = settings.gamma * known.price
            measurement = _measurement(query, plan.neighboring_relation, cost, _AGAIN)
        if known.price > price:
            price = known.price
            gradient = _measurement(query, plan.neighboring_relation, price)


def _by_blocks(plan: Plan[Settings], curator: Curator, descent: _Descent) -> None:
    """Step block by block, paying for a round over all of them before it begins."""
    settings, n, alpha = plan.settings, plan.shape.n_samples, plan.shape.alpha or 0.0
    query, choice = settings.accesses.query, settings.accesses.choice
    price, gradient = settings.accesses.price, settings.accesses.gradient
    edges = [n * k // settings.blocks for k in range(settings.blocks + 1)]
    sizes = [stop - start for start, stop in pairwise(edges)]
    while curator.can_afford(gradient, choice):
        failures = 0
        for part, size in zip(curator.disjoint(edges, gradient, choice), sizes, strict=True):
            slope = part.release(gradient, descent.w) / size + alpha * descent.w
            failures += not descent.step(part, size, slope, price)
            if descent.finished:
                return
        if failures > 0:
            price *= 1.0 + settings.gamma * failures / settings.blocks
            gradient = _measurement(query, plan.neighboring_relation, price)


def _measurement(
    query: ClippedGradient, neighboring_relation: str, rho: float, where: str = _GRADIENT
) -> Gaussian:
    """Gaussian noise of which one release is rho-zCDP: mu-GDP with ``mu² / 2 = rho``."""
    budget = Budget(mu=math.sqrt(2.0 * rho))
    return Gaussian.calibrate(budget, query, neighboring_relation, where=where)


def _choice_price(choice: Exponential | NoisyMax) -> float:
    """In ρ, as the paper counts: an η-DP choice is (η²/2)-zCDP."""
    (event,) = choice.events()
    assert isinstance(event, NoisyMaxEvent)
    return 0.5 * event.epsilon**2


class _Average:
    """Of measurements at one point.

    Estimates of variance proportional to 1/ρ are best averaged with weights ρ, which gives one of
    their total price (the paper's GradAvg).  They must not be normalized before.
    """

    def __init__(self, dim: int) -> None:
        self.value, self.price = np.zeros(dim), 0.0

    def add(self, fresh: Vector, price: float) -> None:
        total = self.price + price
        self.value = (self.price * self.value + price * fresh) / total
        self.price = total


class _Descent:
    """Where a run is: weights, momentum and step sizes, all of them functions of releases."""

    def __init__(self, plan: Plan[Settings], curator: Curator) -> None:
        self._settings, self._curator = plan.settings, curator
        self._left = plan.settings.limit
        self.w, self._velocity = np.zeros(plan.shape.dim), np.zeros(plan.shape.dim)
        self._max_step = plan.settings.max_step
        self._taken: list[float] = []
        self.history: dict[str, list[float]] = {name: [] for name in _HISTORY}

    @property
    def finished(self) -> bool:
        """Whether as many steps were taken as were asked for."""
        return len(self._taken) == self._settings.max_iterations

    def pay(self, cost: float) -> bool:
        """Take the prices of a gradient and a choice from what the paper has, if it has them."""
        if math.isinf(self._left):
            return True
        self._left -= cost + _choice_price(self._settings.accesses.choice)
        return self._left >= 0.0

    def step(self, rows: Curator, n: int, slope: Vector, price: float) -> bool:
        """Ask n rows for a step against a noisy slope and take it; False if it is none."""
        settings = self._settings
        moving = slope + settings.momentum * self._velocity
        direction = moving / (float(np.linalg.norm(moving)) or 1.0)
        steps = candidate_steps(self._max_step, settings.candidates, settings.step_ratio)
        index = rows.release(settings.accesses.choice, self.w, direction, steps, n)
        size = float(steps[index])
        norm = float(np.linalg.norm(slope))
        values = norm, price, self._max_step, size, self._curator.used()
        for name, value in zip(_HISTORY, values, strict=True):
            self.history[name].append(value)
        if index == 0:
            self._velocity = np.zeros_like(self.w)
            self._max_step *= settings.shrink
            return False
        self._velocity = moving
        # The same expression as in the line search, whose margins are then known.
        self.w = self.w - steps[index] * direction
        self._taken.append(size)
        if len(self._taken) % _PERIOD == 0:
            self._max_step = _GROWTH * max(self._taken[-_PERIOD:])
        return True


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
    chosen = {key: defaults[key] if value is None else value for key, value in given.items()}
    check_integer("splits", chosen["splits"], low=1, high=10**6)
    check_integer("candidates", chosen["candidates"], low=2, high=10**6)
    return chosen | {key: check_real(key, chosen[key], **r) for key, r in ranges.items()}


SOLVER = Solver(
    name=NAME,
    doc=__doc__,
    plan=plan,
    run=run,
    budgets=("approximate", "zcdp"),
    relations=NEIGHBORING_RELATIONS,
    row_access="sums",
    weighs_groups=True,
    resumable=True,
    # Without noise the choice of a step still rounds its scores, which leaves some 1e-5 of the
    # weights.
    minimizes=False,
    expects="gradient_noise_stddev",
)
