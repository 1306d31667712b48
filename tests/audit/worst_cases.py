"""Worst cases for every solver of the table: neighbors, options and a score for each.

A cell of the audit is a solver (in a variant, where it has several proofs), a loss, a neighboring
relation and a kind of budget. Its two data sets differ in one record that moves the release as far
as it ever can: its slope is at the bound of the loss and stays there, nothing else pulls in its
direction, and for selections the scores are where one record matters most.

**Many canaries in one fit.** Where the noise of different weights is independent, K canaries
``e_1, ..., e_K`` sit in columns of their own. The law of weight j then depends on the record j
alone, so K weights of a fit on the one data set, and K of a fit on the data set in which all
canaries are exchanged, are independent samples of what a fit says about one record, from two data
sets that differ in it. Only cases in which this holds have more than one column.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import outputs

from dpfast import Budget, Ledger, Loss, Problem, plan
from dpfast.blocks import BlockProblem, from_npy
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.privacy import audit_epsilon, audit_mu, budget_filter
from dpfast.privacy.conversions import gaussian_epsilon
from dpfast.random import SecureGenerator
from dpfast.solvers import SOLVERS, Outcome, carry_out, dp_whitened_gd
from dpfast.solvers._whitened_rules import is_mean
from dpfast.solvers.multinomial import is_multinomial, plan_multinomial, run_multinomial

CONFIDENCE = 0.999
EPSILON, DELTA = 2.0, 0.01
BUDGETS = {"pure": Budget(EPSILON), "approximate": Budget(EPSILON, DELTA)}
#: Samples of each data set in the whole suite, for the first loss of a case and for the others:
#: where a fit gives many samples, or many samples follow from one minimization, and where not.
CHEAP, DEAR = (100_000, 20_000), (10_000, 2_500)
#: Of whole transcripts, which evaluate every query on both data sets.
TRANSCRIPTS = (4_000, 2_000)

Pulls = list[bool]

#: Every loss, with a parameter for which its slope is at the bound around margin zero, if any is.
LOSSES = {
    "logistic": Loss("logistic"),
    "hinge": Loss("hinge"),
    "huberized-hinge": Loss("huberized-hinge"),
    "squared-hinge": Loss("squared-hinge", 1.0),
    "huber": Loss("huber"),
    "squared": Loss("squared"),
    "pinball": Loss("pinball", 0.5),
    "sigmoid": Loss("sigmoid"),
    "poisson": Loss("poisson"),
    "gamma": Loss("gamma", width=0.5),
    "tweedie": Loss("tweedie", 1.1, 2.0),
    "negative-binomial": Loss("negative-binomial", 0.1, 2.3),
}
LOG_LINKED = tuple(name for name, loss in LOSSES.items() if loss.log_link)
SMOOTH = ("huberized-hinge", "logistic", "squared-hinge", "huber", "pinball", *LOG_LINKED)
_FAR = 1e6  # a target so far off that its residual's slope never changes


class Multinomial:
    """The solver of several classes, which is none of the table; of two unless rows have labels."""

    budgets, relations = dp_whitened_gd.SOLVER.budgets, dp_whitened_gd.SOLVER.relations

    @staticmethod
    def run(settled: Any, curator: Curator) -> Outcome:
        w = run_multinomial(settled, curator).w
        return Outcome(w[0] - w[1])


MODULES: dict[str, Any] = {**SOLVERS, "multinomial": Multinomial}


def settle(problem: Problem, solver: str, budget: Budget, **options: Any) -> Any:
    """The plan of a solver."""
    if solver == "multinomial":
        return plan_multinomial(problem.shape, options.pop("classes", 2), budget, **options)
    return plan(problem, solver, budget, **options)


class Draws(SecureGenerator):
    """A generator whose public draws are new in every run, as they are where nobody gives a seed.

    A run's own generator for what is drawn in public is a function of the seed alone: the same in
    all runs of one data set, and another one for the other, it would tell them apart.
    """

    runs = 0

    def independent(self, purpose: str) -> SecureGenerator:
        self.runs += 1
        return super().independent(f"{purpose} of run {self.runs}")


def run(settled: Any, problem: Problem, rng: Any, ledger: Any) -> Outcome:
    """Carry out a plan, whosever it is."""
    if settled.parameters.get("classes") is None:
        return carry_out(settled, problem, rng, ledger)
    return Multinomial.run(settled, Curator(labeled(problem, settled), ledger, rng))


def labeled(problem: Problem, settled: Any) -> Problem:
    """Of two classes the target is the label; of more the rows have their labels already."""
    if settled.parameters.get("classes") != 2:
        return problem
    return problem.with_labels(0.5 * (1.0 - problem.target))


@dataclass(frozen=True)
class Pair:
    """Two neighbors (in every canary's record at once, if there are several), and a direction."""

    first: Problem
    second: Problem
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    #: From an outcome to the canaries' scores: large ones speak for the first data set.
    score: Callable[[Any], Any] = field(default=lambda outcome: outcome.w)

    @property
    def columns(self) -> int:
        """How many canaries a fit holds, at least."""
        return self.first.shape.n_features // 2 + 1


@dataclass(frozen=True)
class WorstCase:
    """How a solver is audited.

    Attributes
    ----------
    solver, variant : str
    losses : tuple of str
        Those that the solver takes.
    pair : callable
        From loss, relation, kind of budget to a Pair.
    sampler : callable
        From plan, problem, generator, pair and a number of samples to that many scores.
    relations, kinds : tuple of str
        What the variant serves; all that the solver does, by default.
    most : int
        Samples of each data set, at most.
    """

    solver: str
    variant: str
    losses: tuple[str, ...]
    pair: Callable[[str, str, str], Pair]
    sampler: Callable[..., np.ndarray]
    relations: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    most: int = CHEAP[0]

    def cells(self) -> Iterator[Cell]:
        module = MODULES[self.solver]
        for loss in self.losses:
            for relation in self.relations or module.relations:
                for kind in self.kinds or tuple(k for k in BUDGETS if k in module.budgets):
                    yield Cell(self, loss, relation, kind)


@dataclass(frozen=True)
class Cell:
    """One audit."""

    case: WorstCase
    loss: str
    relation: str
    kind: str

    def __str__(self) -> str:
        return "-".join([self.case.solver, self.case.variant, self.loss, self.relation, self.kind])

    def settle(self) -> tuple[Any, Pair]:
        """The plan, and the data sets."""
        pair = self.case.pair(self.loss, self.relation, self.kind)
        settled = settle(
            pair.first,
            self.case.solver,
            BUDGETS[self.kind],
            neighboring_relation=self.relation,
            **pair.options,
        )
        return settled, pair

    def samples(self, pair: Pair) -> int:
        """How many samples of each data set the whole suite takes."""
        cheap = self.case.sampler in (perturbed, ball_draws) or pair.columns > 1
        sizes = TRANSCRIPTS if self.case.sampler is transcripts else CHEAP if cheap else DEAR
        return min(self.case.most, sizes[0 if self.loss == self.case.losses[0] else 1])

    def audit(self, samples: int | None = None) -> dict[str, Any]:
        """Claim and lower bounds; the same at every call."""
        settled, pair = self.settle()
        samples = samples or self.samples(pair)
        seed = zlib.crc32(str(self).encode())
        budget = BUDGETS[self.kind]
        # What is claimed is read from the ledger of a real run.
        ledger = Ledger(budget, adaptive=settled.adaptive)
        run(settled, pair.first, SecureGenerator(seed), ledger)
        claim = ledger.guarantee()
        scores = [
            self.case.sampler(settled, problem, Draws(seed + k), pair, samples)
            for k, problem in enumerate((pair.first, pair.second))
        ]
        # Two bounds, of which the better is taken: each may fail half as often.
        confidence = 1.0 - 0.5 * (1.0 - CONFIDENCE)
        measured = audit_epsilon(*scores, delta=claim.delta, confidence=confidence).value
        mu = None
        if claim.mu is not None and not settled.adaptive:
            mu = audit_mu(*scores, confidence=confidence).value
            if claim.delta > 0.0:
                measured = max(measured, gaussian_epsilon(mu, claim.delta) if mu > 0.0 else 0.0)
        return {
            "solver": self.case.solver,
            "variant": self.case.variant,
            "loss": self.loss,
            "relation": self.relation,
            "kind": self.kind,
            "claimed_epsilon": claim.epsilon,
            "delta": claim.delta,
            "measured_epsilon": measured,
            "claimed_mu": claim.mu if mu is not None else None,
            "measured_mu": mu,
            "samples": samples,
            "confidence": CONFIDENCE,
        }


class Tally:
    """In place of a ledger for many independent runs of one plan: admits what its budget admits.

    A real ledger sorts, prices and reports; a hundred thousand of them would cost more than the
    fits. One real run stands before each audit.
    """

    log = None

    def __init__(self, budget: Budget, adaptive: bool) -> None:
        self.adaptive = adaptive
        self._filter = copy(_filter(budget)) if adaptive else None

    def spend_all(self, events: Any) -> None:
        if self._filter is not None:
            for event in events:
                self._filter.spend(event)

    def check(self, *events: Any) -> None:
        pass

    def can_afford(self, *events: Any) -> bool:
        return self._filter is None or bool(self._filter.can_afford(*events))

    def used(self) -> float:
        return 0.0


@lru_cache
def _filter(budget: Budget) -> Any:
    return budget_filter(budget, "auto")


# ---- samplers -----------------------------------------------------------------------------------


def whole_fits(settled: Any, problem: Problem, rng: Any, pair: Pair, count: int) -> np.ndarray:
    """Whole runs of the solver."""
    found, have = [], 0
    while have < count:
        ledger = Tally(settled.budget, settled.adaptive)
        values = np.atleast_1d(pair.score(run(settled, problem, rng, ledger)))
        found.append(values)
        have += len(values)
    return np.concatenate(found)[:count]


def perturbed(settled: Any, problem: Problem, rng: Any, pair: Pair, count: int) -> np.ndarray:
    """Output perturbation: what comes before the noise is one and the same on every run."""
    point = outputs.unperturbed(settled, problem)
    assert np.array_equal(point, outputs.unperturbed(settled, problem))
    found, have = [], 0
    while have < count:
        outcome = Outcome(outputs.perturbed(settled, point, rng))
        found.append(np.atleast_1d(pair.score(outcome)))
        have += len(found[-1])
    return np.concatenate(found)[:count]


def ball_draws(settled: Any, problem: Problem, rng: Any, pair: Pair, count: int) -> np.ndarray:
    """The exponential mechanism's law, of which many points are drawn after one minimization."""
    draws = settled.settings.ball.draws(problem, np.zeros(settled.shape.dim), rng)
    return np.array([next(draws)[0] for _ in range(count)])


class Witness(Curator):
    """Compares each release with the exact values on both data sets, as who has both can.

    `evidence` is the logarithm of the densities' ratio of all releases: the best test of all.
    """

    evidence = 0.0
    other: Curator

    def _answer(self, access: Any, fixed: Any, point: tuple[Any, ...]) -> Any:
        answer = super()._answer(access, fixed, point)
        assert isinstance(access, Gaussian), access
        own, others = (
            np.ravel(access.query(curator._prepare(access.query, fixed), *point))
            for curator in (self, self.other)
        )
        noise = np.ravel(answer) - 0.5 * (own + others)
        self.evidence += float(noise @ (own - others)) / access.stddev**2
        return answer


class Listener(Curator):
    """Keeps what was released."""

    answers: list[Any]

    def _answer(self, access: Any, fixed: Any, point: tuple[Any, ...]) -> Any:
        self.answers.append(super()._answer(access, fixed, point))
        return self.answers[-1]


def heard_fits(settled: Any, problem: Problem, rng: Any, pair: Pair, count: int) -> np.ndarray:
    """Whole runs, and all that they release: the outcome's history has the `answers`."""
    found, have = [], 0
    while have < count:
        listener = Listener(problem, Tally(settled.budget, settled.adaptive), rng)
        listener.answers = []
        outcome = MODULES[settled.solver].run(settled, listener)
        found.append(pair.score(Outcome(outcome.w, {"answers": listener.answers})))
        have += len(found[-1])
    return np.concatenate(found)[:count]


def transcripts(settled: Any, problem: Problem, rng: Any, pair: Pair, count: int) -> np.ndarray:
    """Whole runs, of which every release is looked at."""
    is_first = problem is pair.first
    rows = [labeled(p, settled) if "classes" in settled.parameters else p
            for p in (problem, pair.second if is_first else pair.first)]  # fmt: skip
    solver = Multinomial if is_multinomial(settled) else MODULES[settled.solver]
    found = np.empty(count)
    for k in range(count):
        witness = Witness(rows[0], Tally(settled.budget, settled.adaptive), rng)
        witness.other = Curator(rows[1], Tally(settled.budget, settled.adaptive), rng)
        solver.run(settled, witness)
        found[k] = witness.evidence if is_first else -witness.evidence
    return found


# ---- data ---------------------------------------------------------------------------------------


def problems(loss: Loss, *data: tuple[Any, Any], intercept: float = 0.0) -> list[Problem]:
    """The problems of some rows and targets, of rows in the unit ball."""
    return [Problem(*each, loss, data_norm=1.0, intercept=intercept) for each in data]


def canaries(
    loss: str, relation: str, *, columns: int, rest: int = 0, intercept: float = 0.0
) -> list[Problem]:
    """Canaries ``e_j`` and rows of zeros; exchanged, a canary pulls the other way or is absent."""
    made = LOSSES[loss]
    low, high = np.clip(made.target_range, -_FAR, _FAR)
    X, y = np.zeros((columns + rest, columns)), np.ones(columns + rest)
    X[:columns] = np.eye(columns)
    y[:columns] = high
    other_X, other_y = X.copy(), y.copy()
    if relation == "replace_one":
        other_y[:columns] = low
    else:
        other_X[:columns] = 0.0
    return problems(made, (X, y), (other_X, other_y), intercept=intercept)


def tilted_rows(relation: str, columns: int, tilt: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows ``(tilt, b e_j)`` of length 1, and what they are on the neighbor."""
    b = np.sqrt(1.0 - tilt**2) * (1.0 - 1e-12)
    X = np.zeros((columns, columns + 1))
    X[:, 0] = tilt
    X[:, 1:] = b * np.eye(columns)
    other = X.copy()
    other[:, 1:] *= -1.0 if relation == "replace_one" else 0.0
    if relation != "replace_one":
        other[:, 0] = 0.0
    return X, other


def tilted_canaries(relation: str, columns: int, tilt: float) -> list[Problem]:
    """Logistic: canaries ``(tilt, b e_j)`` whose slope is set by the weight of the first column.

    A replaced record exchanges the sign of b, not that of the slope: no pair in one dimension moves
    a gradient by twice the bound.
    """
    rows = tilted_rows(relation, columns, tilt)
    return problems(LOSSES["logistic"], *((Z, np.ones(columns)) for Z in rows))


def leverage(relation: str, n: int = 200_000, tilt: float = 0.4) -> list[Problem]:
    """Logistic: n - 1 rows pull the first weight far to where the canary's slope is nearly 1.

    They have no curvature in the direction in which it differs.
    """
    X, y = np.zeros((n, 2)), np.ones(n)
    X[:, 0] = -1.0
    X[0] = tilt, np.sqrt(1.0 - tilt**2) * (1.0 - 1e-12)
    other = X.copy()
    other[0] = (tilt, -X[0, 1]) if relation == "replace_one" else (0.0, 0.0)
    return problems(LOSSES["logistic"], (X, y), (other, y))


# ---- the cases ----------------------------------------------------------------------------------

_COLUMNS = 50


def _columns(outcome: Any) -> Any:
    return outcome.w[-_COLUMNS:]


def _output(loss: str, relation: str, kind: str) -> Pair:
    noise = {"noise": "l2-laplace" if kind == "pure" else "gaussian"}
    if loss == "logistic":
        pair = leverage(relation)
        return Pair(*pair, {"alpha": 4.5e-6, **noise}, lambda outcome: outcome.w[1])
    return Pair(*_many_rows(loss, relation, kind), {"alpha": 2.0, **noise})


def _many_rows(loss: str, relation: str, kind: str) -> list[Problem]:
    """So many rows that the noise hardly ever reaches the public ball's end."""
    columns = 1 if kind == "pure" else _COLUMNS
    return canaries(loss, relation, columns=columns, rest=40 * columns)


def _iterate(loss: str, relation: str, kind: str) -> Pair:
    noise = {"noise": "l2-laplace" if kind == "pure" else "gaussian"}
    options = {"mode": "iterate", "iterations": 5, "alpha": 2.0, **noise}
    if loss == "logistic":
        pair = tilted_canaries(relation, 1, 0.2)
        start = {"w0": np.array([-50.0, 0.0]), "alpha": 1e-3, "step": 0.01}
        return Pair(*pair, {**options, **start}, lambda outcome: outcome.w[1])
    return Pair(*_many_rows(loss, relation, kind), options)


def _on_the_edge(loss: str, relation: str, kind: str) -> Pair:
    """An optimizer that goes as far as the certificate lets it, to where the data sets differ."""
    first, second = canaries(loss, relation, columns=1, rest=39)
    tolerance = 0.02

    def drift(objective: Any, w0: Any = None, **settings: Any) -> Any:
        from dpfast.optimizers import OPTIMIZERS

        exact = OPTIMIZERS["newton"](objective, tolerance=1e-13).w
        sign = 1.0 if float(exact[0]) > 1e-3 else -1.0
        return exact + 0.999 * sign * tolerance / objective.strong_convexity

    noise = "l2-laplace" if kind == "pure" else "gaussian"
    return Pair(
        first,
        second,
        {"alpha": 2.0, "tolerance": tolerance, "optimizer": drift, "noise": noise},
    )


def _objective(loss: str, relation: str, kind: str) -> Pair:
    # A ridge beside which the Jacobian is small, and with which slopes stay where they are.
    columns = 1 if kind == "pure" else _COLUMNS
    pair = canaries(loss, relation, columns=columns)
    noise = "l2-laplace" if kind == "pure" else "gaussian"
    return Pair(*pair, {"alpha": 60.0 / columns, "noise": noise})


def _gradient(loss: str, relation: str, kind: str) -> Pair:
    options: dict[str, Any] = {"iterations": 4, "step": 1e-6, "alpha": 1e-3}
    columns = _COLUMNS
    if kind == "pure":
        # One gradient: of several, whose epsilons add up, the last weights show the sum alone.
        options |= {"data_l1_norm": 1.0, "iterations": 1}
    if loss == "squared" or loss in LOG_LINKED:
        # Gradients are clipped in l2, so that Laplace noise has to grow with the dimension.
        options.pop("data_l1_norm", None)
        options["clip_norm"] = 1.0 if loss == "squared" else 0.2
        columns = 1 if kind == "pure" else columns
    if loss == "logistic":
        pair = tilted_canaries(relation, columns, 0.1)
        options["w0"] = np.concatenate([[-100.0], np.zeros(columns)])
        return Pair(*pair, options, _columns)
    return Pair(*canaries(loss, relation, columns=columns), options)


def _hidden(loss: str, relation: str, kind: str) -> Pair:
    pair = canaries(loss, relation, columns=_COLUMNS)
    options = {"iterations": 4, "alpha": 1.0, "analysis": "last-iterate", "step": 0.5}
    return Pair(*pair, options, _columns)


def _sampled_gradient(loss: str, relation: str, kind: str) -> Pair:
    options: dict[str, Any] = {"iterations": 2, "step": 1e-6, "alpha": 1e-3, "batch": 5}
    return Pair(*canaries(loss, relation, columns=1, rest=9), options)


def _agd(loss: str, relation: str, kind: str) -> Pair:
    """All in one gradient, whose size and sign are released."""
    options = {"splits": 1, "max_iterations": 1, "selection_share": 0.02, "clip_norm": 0.2}
    return Pair(*canaries(loss, relation, columns=1, rest=3), options, _signed_gradient)


def _signed_gradient(outcome: Any) -> float:
    if len(outcome.history["gradient_norm"]) == 0:
        return 0.0
    return float(np.sign(outcome.w[0]) * outcome.history["gradient_norm"][0])


def _choice(loss: str, relation: str, kind: str) -> Pair:
    """All in one choice, of a long step or none, in a direction that 200 rows have settled.

    Their losses are at the clip here and there; the canary's falls from the clip to 0, another's,
    in its place, rises from 0 to it, and two rows are against the step, so that it is rare.
    """
    step = 1e4
    options = {
        "splits": 1, "max_iterations": 1, "selection_share": 0.98, "candidates": 2,
        "max_step": step, "loss_clip": 0.125, "clip_norm": 1e-6, "gamma": 1e-6,
    }  # fmt: skip
    X = np.ones((203, 1))
    y = np.concatenate([[step], np.zeros(2), np.full(200, 0.5)])
    other_X, other_y = X.copy(), y.copy()
    if relation == "replace_one":
        other_y[0] = 0.0
    else:
        other_X[0] = 0.0
    pair = [
        Problem(*data, LOSSES[loss], data_norm=1.0, intercept=0.0)
        for data in ((X, y), (other_X, other_y))
    ]
    return Pair(*pair, options, _right_way)


def _right_way(outcome: Any) -> float:
    return float(np.sign(outcome.w[0]))


def _sgd(loss: str, relation: str, kind: str) -> Pair:
    options = {
        "batch": "full", "steps": 4, "step": 1e-6, "average": "none", "clip_norm": 0.2,
    }  # fmt: skip
    return Pair(*canaries(loss, relation, columns=_COLUMNS), options, _columns)


def _sampled_sgd(loss: str, relation: str, kind: str) -> Pair:
    options = {"batch": 5, "steps": 4, "step": 1e-6, "average": "none", "clip_norm": 0.2}
    if relation == "add_or_remove_one":
        # Poisson samples: rows are in a batch independently of each other.
        return Pair(*canaries(loss, relation, columns=_COLUMNS), options, _columns)
    return Pair(*canaries(loss, relation, columns=1, rest=19), options)


def _svrg(loss: str, relation: str, kind: str) -> Pair:
    """Nearly all on one snapshot; the differences, of which there are none, get little noise."""
    options = {
        "epochs": 1, "steps_per_epoch": 1, "batch": "full", "snapshot_share": 0.99, "step": 1e-6,
        "clip_norm": 0.2, "difference_clip_norm": 1e-6,
    }  # fmt: skip
    return Pair(*canaries(loss, relation, columns=_COLUMNS), options, _columns)


def _svrg_steps(loss: str, relation: str, kind: str) -> Pair:
    """Nearly all on the steps, whose differences are at their clip; but the first one's is 0.

    The rest pull the first weight. A row's difference has the sign of the way along it, so that a
    row that is reflected in all columns but the first pulls back by as much.
    """
    steps, size = 20, 1e-3
    options = {
        "epochs": 1, "steps_per_epoch": steps, "batch": "full", "snapshot_share": 0.02,
        "step": size, "clip_norm": 1.0, "difference_clip_norm": 1e-6,
    }  # fmt: skip
    rest = np.zeros((1000, _COLUMNS + 1))
    rest[:, 0] = 1.0
    pair = []
    for canaries_of in tilted_rows(relation, _COLUMNS, 0.3):
        X = np.concatenate([canaries_of, rest])
        pair.append(Problem(X, np.ones(len(X)), LOSSES[loss], data_norm=1.0, intercept=0.0))

    def without_snapshot(outcome: Any) -> Any:
        """What the steps added to the way along the snapshot's gradient."""
        (snapshot, _) = outcome.history["answers"]
        return -(outcome.w + size * steps * snapshot / len(X))[-_COLUMNS:]

    return Pair(*pair, options, without_snapshot)


def _rrpsgd(loss: str, relation: str, kind: str) -> Pair:
    """One record, which every step meets; how many steps there are is known."""
    options: dict[str, Any] = {"steps": 20, "step": 1e-6}
    made = LOSSES[loss]
    if not math.isfinite(made.at_zero):
        options["initial_gap"] = 1.0  # changes defaults only
    targets = np.clip(made.target_range, -_FAR, _FAR)
    between = options["step"] * float(made(np.zeros(2), targets)[1].mean())

    def from_between(outcome: Any) -> Any:
        """How far from the middle of where the two records lead in so many steps."""
        return outcome.w + outcome.history["rounds"] * between

    return Pair(*canaries(loss, relation, columns=1), options, from_between)


def _whitened(loss: str, relation: str, kind: str) -> Pair:
    """Next to nothing for the coordinates; gradients so small that they are always clipped.

    And nothing of the rows' lengths, which one number tells of all canaries together.
    """
    options = {
        "iterations": 1, "rounds": 1, "learning_share": 0.02, "correlation_share": 0.0,
        "learning_clip": 1.0, "clip": 1e-3, "shrinkage": 0.0, "average": 0.0, "james_stein": False,
        "range_rounds": 0,
    }  # fmt: skip
    if LOSSES[loss].log_link:
        # Targets of all rows settle the unit of all gradients: only one canary may be exchanged.
        return Pair(*canaries(loss, relation, columns=1, rest=19), options)
    # Few rows would spend half of the budget on the range of numbers instead of the gradient; and
    # the tails of all settle the unit of the gradients of a mean.
    rest = 100 if LOSSES[loss].kind == "regression" else 0
    columns = 1 if is_mean(LOSSES[loss]) else 20
    return Pair(*canaries(loss, relation, columns=columns, rest=rest), options)


def _learned(loss: str, relation: str, kind: str) -> Pair:
    """All of the budget that can be on the coordinates: moments and correlations at their bounds.

    A replaced record lies across the other one.
    """
    options = {
        "iterations": 1, "rounds": 1, "learning_share": 0.5, "correlation_share": 0.48,
        "learning_clip": 1.0, "clip": 1e-3, "shrinkage": 0.0, "average": 0.0, "james_stein": False,
    }  # fmt: skip
    X, y = np.zeros((20, 2)), np.ones(20)
    X[0, 0] = 1.0
    other_X, other_y = np.zeros_like(X), y.copy()
    if relation == "replace_one":
        other_X[0, 1], other_y[0] = 1.0, -1.0
    return Pair(*problems(LOSSES[loss], (X, y), (other_X, other_y)), options)


def _numbers(loss: str, relation: str, kind: str) -> Pair:
    """One record among some, of which every release tells: ranges, tails, gradients."""
    return Pair(*canaries(loss, relation, columns=1, rest=199, intercept=1.0), {"iterations": 4})


def _three_classes(loss: str, relation: str, kind: str) -> Pair:
    """As `_whitened`, for three classes, of which the record is in one or another."""
    options = {**_whitened("logistic", relation, kind).options, "classes": 3}
    first, second = canaries(loss, relation, columns=1, rest=19)
    labels = np.zeros(20)
    other = labels.copy()
    other[0] = 1.0 if relation == "replace_one" else 0.0
    return Pair(first.with_labels(labels), second.with_labels(other), options)


def swapped_persons(
    loss: str,
    relation: str,
    columns: int,
    pulls: tuple[Pulls, Pulls],
    rest: int = 0,
    block_rows: int | None = None,
    **settings: Any,
) -> tuple[Problem, Problem]:
    """Canaries that are persons: of each row that one has, whether it pulls up or down.

    On the neighbor they have the second rows, as many as these are, or rows of zeros.  `rest`:
    others of one row of zeros each.  A person's rows lie between those of others, but for blocks.
    """
    made, pair = LOSSES[loss], []
    low, high = np.clip(made.target_range, -_FAR, _FAR)
    for up in pulls:
        owner = np.tile(np.arange(columns), len(up))
        X = np.eye(columns)[owner]
        if pair and relation != "replace_one":
            X *= 0.0
        X = np.concatenate([X, np.zeros((rest, columns))])
        y = np.concatenate([np.where(np.repeat(up, columns), high, low), np.ones(rest)])
        ids = np.concatenate([owner, columns + np.arange(rest)])
        settings |= {"loss": made, "data_norm": 1.0, "intercept": 0.0}
        if block_rows is None:
            pair.append(Problem(X, y, groups=ids, **settings))
        else:
            order = np.argsort(ids, kind="stable")
            source = from_npy(X[order], y[order], groups=ids[order], block_rows=block_rows)
            pair.append(BlockProblem(source, **settings))
    return pair[0], pair[1]


def _persons(
    first: Pulls,
    second: Pulls,
    columns: int = 1,
    rest: int = 100,
    block_rows: int | None = None,
) -> Callable[[str, str, str], Pair]:
    """Whitened descent, which clips whole persons, with these rows of one person or another.

    The sizes of all persons say how long steps are, and so how large the noise in the weights is:
    only one canary may be exchanged, among others that stay.
    """

    def pair(loss: str, relation: str, kind: str) -> Pair:
        pulls = first, second
        made = swapped_persons(loss, relation, columns, pulls, rest, block_rows=block_rows)
        return Pair(*made, _whitened("logistic", relation, kind).options)

    return pair


#: More rows than are read of a person, and as many of another.
_PARTS: dict[str, Any] = {"pulls": ([True] * 7, [False] * 3), "max_rows_per_group": 3}


def _gradients_of_parts(loss: str, relation: str, kind: str) -> Pair:
    """The generic path, in which so many rows of a person count as one row."""
    single = _gradient(loss, relation, kind)
    columns = single.first.shape.n_features
    return Pair(*swapped_persons(loss, relation, columns, **_PARTS), single.options)


def _output_of_parts(loss: str, relation: str, kind: str) -> Pair:
    columns = 1 if kind == "pure" else _COLUMNS
    made = swapped_persons(loss, relation, columns, **_PARTS, rest=40 * columns)
    return Pair(*made, _output(loss, relation, kind).options)


def _moments_of_parts(loss: str, relation: str, kind: str) -> Pair:
    made = swapped_persons("squared", relation, 1, **_PARTS, rest=39)
    return Pair(*made, _adassp(loss, relation, kind).options)


def _counts_of_persons(loss: str, relation: str, kind: str) -> Pair:
    """With a log link, where the targets of all persons settle the unit; others have one row."""
    made = swapped_persons(loss, relation, 1, ([True] * 20, [False] * 12), rest=19)
    return Pair(*made, _whitened(loss, relation, kind).options)


def _persons_of_classes(loss: str, relation: str, kind: str) -> Pair:
    """As `_three_classes`: five rows of one class, against three of another."""
    rows = ([True] * 5, [True] * 3)
    first, second = swapped_persons("logistic", relation, 1, rows, rest=19)
    labels = np.zeros(3 + 19)
    labels[:3] = 1.0 if relation == "replace_one" else 0.0
    return Pair(
        first.with_labels(np.zeros(5 + 19)),
        second.with_labels(labels),
        _three_classes(loss, relation, kind).options,
    )


def _newton(loss: str, relation: str, kind: str) -> Pair:
    """Scores so small that they are always at their bound, of a record against which others pull.

    The others are short, and so many that the coordinates are theirs, in which the record is long.
    """
    X = np.full((3000, 1), 0.1)
    X[::2] *= -1.0
    y = -np.sign(X[:, 0])
    X[0], y[0] = 1.0, 1.0
    other = X.copy()
    other[0] = -1.0 if relation == "replace_one" else 0.0
    made = LOSSES[loss]
    if made.log_link:
        y = np.exp(0.4 * y)
    return Pair(*problems(made, (X, y), (other, y)), {"clip": 1e-3})


def _adassp(loss: str, relation: str, kind: str) -> Pair:
    """The canary's moment decides the weight; a replaced one has the other sign."""
    first, second = canaries("squared", relation, columns=1, rest=39)
    return Pair(first, second, {"alpha": 1e3})


def _exponential(loss: str, relation: str, kind: str) -> Pair:
    """Rows that pull one way, so that the other end of the ball is rare, where one record counts.

    A neighbor moves the density there, and by the constant everywhere else, the other way.
    """
    # The end is so rare that what moves it counts in full, and not much rarer than delta.
    made, rest = LOSSES[loss], 3 if relation == "replace_one" else 1
    X, y = np.ones((rest + 1, 1)), np.ones(rest + 1)
    other_X, other_y = X.copy(), y.copy()
    if relation == "replace_one":
        other_y[0] = -1.0
    else:
        other_X[0] = 0.0
    return Pair(*problems(made, (X, y), (other_X, other_y)), {"alpha": 2.0})


def _privgene(loss: str, relation: str, kind: str) -> Pair:
    """One generation; a record's loss is 0 on one side and clipped on the other, which is rare.

    With a log link the target is the lowest, so that the loss falls from one end to the other; for
    other regression it is the end of the range of the candidates.
    """
    options: dict[str, Any] = {"generations": 1, "parents": 1, "population": 8, "radius": 1e4}
    made, entry, target = LOSSES[loss], 1.0, 1.0
    if made.kind == "classification":
        options["loss_clip"] = 0.5 if loss == "sigmoid" else 1.0
    elif made.log_link:
        entry, target, options["loss_clip"] = -1.0, made.target_range[0], 100.0
    else:
        clip = float(made(np.zeros(1), np.ones(1))[0][0])
        options |= {"radius": 1.0, "loss_clip": clip}
    # So rare that the ratio of probabilities is near its bound, and not much rarer than delta.
    rows = 4 if relation == "replace_one" else 2
    X, y = np.full((rows, 1), entry), np.full(rows, target)
    other = X.copy()
    other[0] = -entry if relation == "replace_one" else 0.0
    return Pair(*problems(made, (X, y), (other, y)), options)


_ALL = ("huberized-hinge", *(name for name in LOSSES if name != "huberized-hinge"))
_FAMILY = ("dp-gd", "dp-hb", "dp-nag", "dp-nag-opt", "dp-masg", "dp-masg-opt")
_BOUNDED = tuple(name for name in _ALL if name != "squared")

CASES: tuple[WorstCase, ...] = (
    WorstCase("output-perturbation", "certificate", (*SMOOTH, "hinge"), _output, perturbed),
    WorstCase("output-perturbation", "iterate", SMOOTH, _iterate, perturbed),
    WorstCase(
        "output-perturbation", "edge of the certificate", ("huberized-hinge",), _on_the_edge,
        perturbed,
    ),
    WorstCase(
        "output-perturbation", "parts of persons", ("huberized-hinge",), _output_of_parts,
        perturbed, most=10_000,
    ),
    WorstCase("objective-perturbation", "linear term", SMOOTH, _objective, whole_fits),
    WorstCase("dp-whitened-gd", "gradient", SMOOTH, _whitened, whole_fits),
    WorstCase(
        "dp-whitened-gd", "persons", ("logistic", "huber"),
        _persons([True] * 9, [False] * 4),
        whole_fits, most=10_000,
    ),
    WorstCase(
        "dp-whitened-gd", "persons of one row or many", ("logistic",),
        _persons([True], [False] * 60), whole_fits, most=10_000,
    ),
    WorstCase(
        "dp-whitened-gd", "persons of opposed rows", ("logistic",),
        _persons([True] * 8, [True, False] * 6), whole_fits, most=10_000,
    ),
    WorstCase(
        "dp-whitened-gd", "persons in several chunks", ("logistic",),
        _persons([True] * 900, [False] * 700, columns=40, rest=0), whole_fits, most=10_000,
    ),
    WorstCase(
        "dp-whitened-gd", "persons in blocks", ("logistic",),
        _persons([True] * 9, [False] * 4, block_rows=40), whole_fits, most=10_000,
    ),
    WorstCase(
        "dp-whitened-gd", "counts of persons", ("poisson",), _counts_of_persons, whole_fits,
        most=4_000,
    ),
    WorstCase(
        "dp-whitened-gd", "moments and correlations", ("logistic",), _learned, transcripts
    ),
    WorstCase("dp-whitened-gd", "all releases", ("huber", "pinball"), _numbers, transcripts),
    WorstCase("multinomial", "gradient", ("logistic",), _whitened, whole_fits),
    WorstCase("multinomial", "three classes", ("logistic",), _three_classes, transcripts),
    WorstCase("multinomial", "persons", ("logistic",), _persons_of_classes, transcripts),
    WorstCase("dp-adassp", "moments", ("squared",), _adassp, whole_fits),
    WorstCase(
        "dp-adassp", "parts of persons", ("squared",), _moments_of_parts, whole_fits, most=4_000
    ),
    WorstCase(
        "dp-newton", "all releases", ("squared", "huber", "logistic", *LOG_LINKED), _newton,
        transcripts,
    ),
    *(WorstCase(name, "gradients", (*SMOOTH, "squared"), _gradient, whole_fits)
      for name in _FAMILY),
    WorstCase(
        "dp-gd", "parts of persons", ("huberized-hinge", "squared"), _gradients_of_parts,
        whole_fits, most=10_000,
    ),
    WorstCase("dp-gd", "last iterate", ("huber",), _hidden, whole_fits, kinds=("approximate",)),
    WorstCase(
        "dp-gd", "samples", ("huberized-hinge",), _sampled_gradient, whole_fits,
        relations=("replace_one",),
    ),
    WorstCase("dp-agd", "gradient", _ALL, _agd, whole_fits),
    WorstCase("dp-agd", "choice", ("huber",), _choice, whole_fits),
    WorstCase("dp-sgd", "full batches", _ALL, _sgd, whole_fits),
    WorstCase("dp-sgd", "random batches", ("huberized-hinge",), _sampled_sgd, whole_fits),
    WorstCase("dp-svrg", "snapshot", tuple(n for n in _ALL if n != "hinge"), _svrg, whole_fits),
    WorstCase("dp-svrg", "steps", ("logistic",), _svrg_steps, heard_fits),
    WorstCase("rrpsgd", "steps", tuple(n for n in _BOUNDED if n != "hinge"), _rrpsgd, whole_fits),
    WorstCase(
        "exponential", "ball", ("huberized-hinge", "logistic", "squared-hinge"), _exponential,
        ball_draws,
    ),
    WorstCase(
        "localized-exponential", "ball", ("huberized-hinge", "logistic", "squared-hinge"),
        _exponential, whole_fits,
    ),
    WorstCase("privgene", "choices", _ALL, _privgene, whole_fits),
)  # fmt: skip


def cells() -> list[Cell]:
    """All cells of the audit."""
    return [cell for case in CASES for cell in case.cells()]
