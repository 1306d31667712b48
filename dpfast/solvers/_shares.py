"""How the releases of a run share a budget."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpfast.mechanisms import Gaussian, Laplace, Query
from dpfast.privacy import ACCOUNTANTS, Budget, Event, budget_epsilon

#: Calibrates a release from its share of the budget, its query, and its name in the ledger.
Release = Callable[[float, Query, str], Gaussian]


def releases(mu: float, neighboring_relation: str) -> Release:
    """The releases that share a budget `mu`; shares are in units of mu² and add up."""

    def release(share: float, query: Query, where: str) -> Gaussian:
        budget = Budget(mu=mu * math.sqrt(share))
        return Gaussian.calibrate(budget, query, neighboring_relation, where=where)

    return release


def pure_releases(epsilon: float, neighboring_relation: str) -> Callable[..., Laplace]:
    """The releases with Laplace noise that share a pure budget; shares are of ε and add up."""

    def release(share: float, query: Query, where: str) -> Laplace:
        budget = Budget(epsilon * share)
        return Laplace.calibrate(budget, query, neighboring_relation, where=where)

    return release


def left_of_pure(budget: Budget, *spent: tuple[Event, ...]) -> Budget:
    """What is left of a pure budget after these events, and a hair less."""
    events = [event for part in spent for event in part]
    epsilon = budget_epsilon(budget) - ACCOUNTANTS["pure"].spent(events, budget)
    return Budget(epsilon * (1.0 - 2.0**-40))
