"""Fits that can be interrupted: which problems have them, and what makes two fits the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpfast.blocks import BlockProblem
from dpfast.privacy import Ledger
from dpfast.privacy.checkpoint import Checkpoint, fingerprint
from dpfast.random import SecureGenerator


@contextmanager
def logged(
    path: str | os.PathLike[str] | None,
    problem: Any,
    plan: Any,
    ledger: Ledger,
    rng: SecureGenerator,
    *settings: Any,
) -> Iterator[Checkpoint | None]:
    """Have a fresh `ledger` write down what it spends in the file `path`, if one is given.

    If the checkpoint's `outcome` is set, the fit was complete: its events are on the ledger again,
    and nothing is left to do.  `settings` are what else makes this fit another one if it changes.
    """
    if path is None:
        yield None
        return
    if not isinstance(problem, BlockProblem):
        raise ValueError(
            "checkpoint must be None for rows in memory; got "
            f"{os.fspath(path)!r}. Only rows in blocks (dpfast.blocks) can be told from others "
            "without a look at their values."
        )
    fit = {
        "data": problem.source.digest(),
        "problem": fingerprint(problem.shape, problem.make_target),
        "plan": fingerprint(
            plan.solver,
            plan.budget,
            plan.neighboring_relation,
            ledger.accountant,
            [event.to_dict() for event in plan.events],
            settings,
        ),
        "random_state given": rng.reproducible,
    }
    with Checkpoint.open(path, fit) as log:
        ledger.log = log
        try:
            if log.outcome is not None:
                log.spend_again(ledger)
            yield log
        finally:
            ledger.log = None
