"""What a private solver is: a plan made from public quantities, and a run that follows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.privacy import Budget, Event, Ledger, PrivacyReport
from dpfast.problem import Problem, ProblemShape
from dpfast.random import SecureGenerator

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """Everything a private fit will do, settled before any data is touched.

    Attributes
    ----------
    solver : str
        Name of the algorithm.
    shape : ProblemShape
        Public quantities of the problem, with the ridge that was chosen.
    budget : Budget
    neighboring_relation : str
    events : tuple of Event
        The noisy accesses to data, as they will stand in the ledger.
    parameters : mapping
        What the solver settled (noise scales, tolerances, iteration counts).
    expected : mapping
        What to expect of the result, from public quantities alone (noise, excess-risk bound).
    """

    solver: str
    shape: ProblemShape
    budget: Budget
    neighboring_relation: str
    events: tuple[Event, ...]
    parameters: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    expected: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def __str__(self) -> str:
        shape = self.shape
        lines = [
            f"Plan: {self.solver} on {shape.n_samples:,} rows x {shape.n_features:,} columns"
            f"{' + intercept' if shape.intercept else ''}, {shape.loss.name} loss, "
            f"ridge alpha={shape.alpha:.4g}",
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
class Result:
    """What a private fit releases.

    Attributes
    ----------
    w : ndarray of shape (dim,)
        Private weights, the intercept's last if there is one.
    privacy : PrivacyReport
        The guarantee, computed from the ledger.
    plan : Plan
    """

    w: Vector
    privacy: PrivacyReport
    plan: Plan


class Solver(Protocol):
    """A module of this package that holds one private algorithm."""

    NAME: str
    #: Names of the options that `plan` takes besides those below.
    OPTIONS: tuple[str, ...]

    def plan(
        self,
        shape: ProblemShape,
        budget: Budget,
        *,
        neighboring_relation: str,
        accountant: str,
        **options: Any,
    ) -> Plan:
        """Settle the run from public quantities; spends and touches nothing."""
        ...

    def run(self, plan: Plan, problem: Problem, rng: SecureGenerator, ledger: Ledger) -> Vector:
        """Carry out `plan`, spending each event on `ledger` before its data access."""
        ...
