"""Run a solver on one data set, then on its neighbor with the same releases forced upon it.

What a solver asks next may depend on what was released and on nothing else: with the releases of
the first run the second one must ask for the same accesses at the same points.  And at each point
the exact values of the query on both data sets must be no farther apart than the access charges.
Fused accesses, whose steps in between nobody sees, are forced and not looked into: they have audits
of their own.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpfast import Ledger
from dpfast.curator import Curator
from dpfast.mechanisms import Mechanism
from dpfast.random import SecureGenerator
from dpfast.solvers import SOLVERS, Outcome, Plan


@dataclass
class Seen:
    """One access as it was made."""

    access: Any
    fixed: tuple[Any, ...]
    point: tuple[Any, ...]
    exact: Any
    answer: Any


class Recording(Curator):
    """Writes down what is asked, and what it would be without noise."""

    seen: list[Seen]

    def _answer(self, access, fixed, point):
        values = () if fixed is None else fixed.values
        try:
            answer = super()._answer(access, fixed, point)
        except Exception as error:
            self.seen.append(Seen(access, values, point, None, error))
            raise
        exact = self._exact(access, fixed, point) if isinstance(access, Mechanism) else None
        self.seen.append(Seen(access, values, point, exact, answer))
        return answer

    def _exact(self, access, fixed, point):
        return np.asarray(access.query(self._prepare(access.query, fixed), *point))

    def disjoint(self, edges, *accesses):
        parts = super().disjoint(edges, *accesses)
        for part in parts:
            part.seen = self.seen
            if isinstance(self, Forced):
                part.script = self.script
        return parts


class Forced(Recording):
    """Answers what was answered before."""

    script: list[Seen]

    def _check_rows(self, access):
        """The plan is for all records: here one may be absent, where it would count nothing."""

    def _answer(self, access, fixed, point):
        before = self.script[len(self.seen)]
        # Some make their accesses along the way.
        equal = type(access) is type(before.access) and access.events() == before.access.events()
        assert equal, f"{access.where!r} was asked for {before.access.where!r}"
        values = () if fixed is None else fixed.values
        unchanged = same((values, point), (before.fixed, before.point))
        assert unchanged, f"{access.where!r}: another point"
        if isinstance(before.answer, Exception):
            self.seen.append(before)
            Curator._answer(self, access, fixed, point)  # which must fail alike
            raise AssertionError(
                f"{access.where!r} failed on one of two neighbors: {before.answer}"
            )
        exact = None if before.exact is None else self._exact(access, fixed, point)
        self.seen.append(Seen(access, values, point, exact, before.answer))
        return before.answer


def same(one: Any, two: Any) -> bool:
    """Whether two public arguments are equal to the bit."""
    if isinstance(one, np.ndarray):
        return isinstance(two, np.ndarray) and np.array_equal(one, two, equal_nan=True)
    if isinstance(one, tuple | list):
        return len(one) == len(two) and all(map(same, one, two))
    if hasattr(one, "__dataclass_fields__"):
        return type(one) is type(two) and all(
            same(getattr(one, name), getattr(two, name)) for name in one.__dataclass_fields__
        )
    return callable(one) or one == two


def outcomes(plan: Plan[Any], data: Any, neighbor: Any, run: Any = None) -> tuple[Any, Any]:
    """Run `plan` on both, the second time with the first run's releases.

    Returns
    -------
    results : list of (outcome, share of the budget that is used)
        Of each run; the outcome is the bytes of all that it handed back, or the error that it ended
        with.
    accesses : list of (access, array, array)
        With the exact values on both, of those that can be looked into.

    Raises
    ------
    AssertionError
        If the second run asks for something else.
    """
    run = run or SOLVERS[plan.solver].run
    curators: list[Any] = []
    results = []
    for kind, rows in ((Recording, data), (Forced, neighbor)):
        ledger = Ledger(plan.budget, adaptive=plan.adaptive)
        planned = None if plan.adaptive else plan.accesses
        curator = kind(rows, ledger, SecureGenerator(3), planned)
        curator.seen = []
        if curators:
            curator.script = curators[0].seen
        curators.append(curator)
        try:
            outcome: Any = packed(run(plan, curator))
        except Exception as error:
            if isinstance(error, AssertionError):
                raise
            outcome = repr(error)
        results.append((outcome, ledger.used()))
    first, second = (curator.seen for curator in curators)
    assert len(first) == len(second)
    looks = [
        (one.access, one.exact, two.exact)
        for one, two in zip(first, second, strict=True)
        if one.exact is not None
    ]
    return results, looks


def packed(outcome: Outcome) -> bytes:
    """All that a run hands back, to the bit."""
    history = {name: np.asarray(values) for name, values in outcome.history.items()}
    return pickle.dumps((outcome.w, history, outcome.said, outcome.covariance, outcome.unit))


def replay(plan: Plan[Any], data: Any, neighbor: Any, run: Any = None) -> list[tuple[float, float]]:
    """Run `plan` on both; return how far apart each access's values were, and what it charged.

    Raises
    ------
    AssertionError
        If something else was asked or handed back, or by rounding charged too little.
    """
    (first, second), looks = outcomes(plan, data, neighbor, run)
    assert isinstance(first[0], bytes), first
    assert first == second
    found = []
    for access, one, two in looks:
        found.append((distance(access, one - two), charged(access)))
        assert found[-1][0] <= found[-1][1], f"{access.where!r}: {found[-1]}"
    return found


def distance(mechanism: Any, change: np.ndarray) -> float:
    """The change of the exact values in the norm of the mechanism."""
    if mechanism.norm == "range":
        return float(np.ptp(np.append(change, 0.0)))
    return float(np.linalg.norm(change, 1 if mechanism.norm == "l1" else 2))


def charged(mechanism: Any) -> float:
    """The change that the mechanism's event is the price of."""
    if mechanism.norm != "range":
        return float(mechanism.charged_sensitivity)
    sides = 1.0 if getattr(mechanism, "monotone", True) else 2.0
    return float(getattr(mechanism, "charged_range", 0.0) or sides * mechanism.charged_sensitivity)
