"""What a private solver is: a plan made from public quantities, and a run that follows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast.mechanisms import Access
from dpfast.privacy import Budget, Event, Ledger, PrivacyReport
from dpfast.problem import Problem
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape

Vector = NDArray[np.float64]
S = TypeVar("S")

#: Guess of the margin of a typical longest row: this over the row norm is the solvers' guess of the
#: norm of the best weights where nobody states a better one.  Between 4 and 10 the log-loss of
#: output perturbation on three public tables at ε from 0.1 to 4 hardly changed.
TYPICAL_MARGIN = 6.0


@dataclass(frozen=True)
class Plan(Generic[S]):
    """Everything a private fit will do, settled before any data is touched.

    Attributes
    ----------
    solver : str
        Name of the algorithm.
    shape : ProblemShape
        Public quantities of the problem, with the ridge that was chosen; for an objective that is
        no risk of a problem, its own public shape.
    budget : Budget
    neighboring_relation : str
    settings : object
        What the solver settled (accesses, tolerances, iteration counts): a frozen dataclass of its
        own.
    accesses : tuple of (Access, int)
        What the run will ask the curator for, in order, and how often.
    expected : mapping
        What to expect of the result, from public quantities alone (noise, excess-risk bound).
    adaptive : bool
        Whether the run decides along the way, from what it has released, which accesses to make;
        `accesses` then stands for one possible course, and the guarantee is the whole budget.
    objective : ObjectiveShape or None
        Public shape of the objective, where the plan was made for one instead of a problem.
    """

    solver: str
    shape: Any
    budget: Budget
    neighboring_relation: str
    settings: S
    accesses: tuple[tuple[Access[Any], int], ...]
    expected: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    adaptive: bool = False
    objective: Any = None

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The noisy accesses to data, as they will stand in the ledger."""
        return tuple(e for access, count in self.accesses for e in access.events(count))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The settings by name."""
        settings: Any = self.settings
        return MappingProxyType({f.name: getattr(settings, f.name) for f in fields(settings)})

    def __str__(self) -> str:
        shape = self.shape
        if isinstance(shape, ProblemShape):
            what = (
                f"{shape.n_samples:,} rows x {shape.n_features:,} columns"
                f"{' + intercept' if shape.intercept else ''}, {shape.loss.name} loss, "
                f"{'no ridge' if shape.alpha is None else f'ridge alpha={shape.alpha:.4g}'}"
            )
        else:
            what = (
                f"{shape.dim:,} weights of a given objective, "
                f"strong convexity {shape.strong_convexity:.4g}"
            )
        lines = [
            f"Plan: {self.solver} on {what}",
            f"  budget: {self.budget}, {self.neighboring_relation}",
        ]
        for title, values in (("parameters", self.parameters), ("expected", self.expected)):
            shown = ", ".join(
                f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                for key, value in values.items()
                if isinstance(value, (str, int, float))
            )
            lines.append(f"  {title}: {shown}")
        return "\n".join(lines)


@dataclass(frozen=True)
class LegacyPlan:
    """Everything a private fit will do, settled before any data is touched.

    Attributes
    ----------
    solver : str
        Name of the algorithm.
    shape : ProblemShape
        Public quantities of the problem, with the ridge that was chosen; for an objective that is
        no risk of a problem, its own public shape.
    budget : Budget
    neighboring_relation : str
    events : tuple of Event
        The noisy accesses to data, as they will stand in the ledger.
    parameters : mapping
        What the solver settled (noise scales, tolerances, iteration counts).
    expected : mapping
        What to expect of the result, from public quantities alone (noise, excess-risk bound).
    adaptive : bool
        Whether the run decides along the way, from what it has released, which accesses to make;
        `events` then stands for one possible course, and the guarantee is the whole budget.
    objective : ObjectiveShape or None
        Public shape of the objective, where the plan was made for one instead of a problem.
    """

    solver: str
    shape: Any
    budget: Budget
    neighboring_relation: str
    events: tuple[Event, ...]
    parameters: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    expected: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    adaptive: bool = False
    objective: Any = None

    def __str__(self) -> str:
        shape = self.shape
        if isinstance(shape, ProblemShape):
            what = (
                f"{shape.n_samples:,} rows x {shape.n_features:,} columns"
                f"{' + intercept' if shape.intercept else ''}, {shape.loss.name} loss, "
                f"{'no ridge' if shape.alpha is None else f'ridge alpha={shape.alpha:.4g}'}"
            )
        else:
            what = (
                f"{shape.dim:,} weights of a given objective, "
                f"strong convexity {shape.strong_convexity:.4g}"
            )
        lines = [
            f"Plan: {self.solver} on {what}",
            f"  budget: {self.budget}, {self.neighboring_relation}",
        ]
        for title, values in (("parameters", self.parameters), ("expected", self.expected)):
            shown = ", ".join(
                f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                for key, value in values.items()
                if isinstance(value, (str, int, float))
            )
            lines.append(f"  {title}: {shown}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Outcome:
    """What a solver's run hands back.

    Attributes
    ----------
    w : ndarray of shape (dim,)
    history : mapping
        Released quantities along the way, each an array with one entry an iteration: covered by the
        ledger, like `w`.
    """

    w: Vector
    history: Mapping[str, NDArray[Any]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Result:
    """What a private fit releases.

    Attributes
    ----------
    w : ndarray of shape (dim,)
        Private weights, the intercept's last if there is one.
    privacy : PrivacyReport
        The guarantee, computed from the ledger.
    plan : Plan
    history : mapping
        Released quantities along the way (see the solver), covered by the guarantee.
    """

    w: Vector
    privacy: PrivacyReport
    plan: Plan[Any]
    history: Mapping[str, NDArray[Any]] = field(default_factory=lambda: MappingProxyType({}))


class Solver(Protocol):
    """A module of this package that holds one private algorithm."""

    NAME: str
    #: Names of the options that `plan` takes besides those below.
    OPTIONS: tuple[str, ...]
    #: Kinds of budgets it can serve ("pure", "approximate", "zcdp", "gdp"); `plan` refuses others
    #: with a ValueError that names an alternative.
    BUDGET_KINDS: tuple[str, ...]
    #: Neighboring relations it can serve.
    RELATIONS: tuple[str, ...]
    #: Whether its weights approach the minimizer of the objective as the noise goes to zero (with
    #: the options in `EXACT`).
    MINIMIZES: bool
    #: Options with which a noiseless run reaches the minimizer to 1e-6, for the tests.
    EXACT: Mapping[str, Any]
    #: The entry of `Plan.expected` that falls as epsilon grows.
    EXPECTS: str
    # A solver of one loss alone names it in LOSS.
    # A module whose OPTIONS have "objective", or that has a true TAKES_OBJECTIVES, also takes
    # objectives in the place of problems.
    # A solver that looks at single rows in a random order says so by RANDOM_ROWS = True.
    # One that draws between its releases what later ones rest on, by RANDOM_STEPS = True: it cannot
    # go on from a checkpoint, which holds releases alone.

    def plan(
        self,
        shape: ProblemShape,
        budget: Budget,
        *,
        neighboring_relation: str,
        accountant: str,
        **options: Any,
    ) -> Plan[Any]:
        """Settle the run from public quantities; spends and touches nothing."""
        ...

    def run(
        self, plan: Plan[Any], problem: Problem, rng: SecureGenerator, ledger: Ledger
    ) -> Outcome:
        """Carry out `plan`, spending each event on `ledger` before its data access."""
        ...


def check_planned(plan: Plan[Any], problem: Any) -> None:
    """Refuse to run a plan on anything but what it was made for: its noise would be for others.

    Raises
    ------
    ValueError
        If an objective has another public shape, or a problem's differs in more than the ridge.
    """
    shape = getattr(problem, "shape", None)
    if plan.objective is not None:
        if shape != plan.objective:
            raise ValueError(
                f"problem must be the objective that the plan was made for, {plan.objective!r}; "
                f"got {type(problem).__name__}."
            )
        return
    if not isinstance(shape, ProblemShape):
        raise ValueError(
            "problem must be a Problem, as the plan was made for one; got "
            f"{type(problem).__name__}."
        )
    differ = [
        f"{f.name}={getattr(shape, f.name)!r} instead of {getattr(plan.shape, f.name)!r}"
        for f in fields(ProblemShape)
        if f.name != "alpha" and getattr(shape, f.name) != getattr(plan.shape, f.name)
    ]
    if differ:
        raise ValueError(
            "problem must have the public quantities that the plan was made for; got "
            f"{', '.join(differ)}. Plan again for this problem."
        )


def check_supported(module: Any, budget: Budget, neighboring_relation: str) -> None:
    """Refuse a budget or a neighboring relation that a solver cannot serve.

    Raises
    ------
    ValueError
    """
    if budget.kind not in module.BUDGET_KINDS:
        raise ValueError(
            f"budget must be one of {', '.join(_WRITTEN[kind] for kind in module.BUDGET_KINDS)} "
            f"for solver={module.NAME!r}; got {budget!r}. "
            "solver='output-perturbation' takes every kind."
        )
    if neighboring_relation not in module.RELATIONS:
        raise ValueError(
            f"neighboring_relation must be {' or '.join(map(repr, module.RELATIONS))} for "
            f"solver={module.NAME!r}; got {neighboring_relation!r}."
        )


_WRITTEN = {
    "pure": "Budget(epsilon)",
    "approximate": "Budget(epsilon, delta)",
    "zcdp": "Budget(rho=...)",
    "gdp": "Budget(mu=...)",
}
