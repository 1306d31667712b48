"""Queries whose sensitivity the test declares, and what mechanisms release of them."""

from __future__ import annotations

from typing import Any

from dpfast.curator import Curator
from dpfast.mechanisms import Query


class Declared(Query):
    """Returns what the rows, a function without arguments, return."""

    def __init__(self, sensitivity, dimension, *, error=0.0, bound=None, norm="l2", monotone=False):
        self._sensitivity, self.dimension, self._error = sensitivity, dimension, error
        self.bound, self.norm, self.monotone = bound, norm, monotone

    def sensitivity(self, neighboring_relation: str) -> float:
        return self._sensitivity

    def rounding_error(self) -> float:
        return self._error

    def __call__(self, prepared: Any, *point: Any) -> Any:
        return prepared()


def query_of(kind: type, settings: dict[str, Any]) -> Declared:
    """The query that a constructor's arguments describe; what belongs to it is taken from them."""
    taken = {name: settings.pop(name) for name in ("error", "bound") if name in settings}
    if kind.norm != "range":
        size = settings.pop("dimension")
        return Declared(settings.pop("sensitivity"), size, norm=kind.norm, **taken)
    size, monotone = settings.pop("candidates"), settings.pop("monotone", False)
    length = settings.pop("score_range", None)
    if length is None:
        length = settings.pop("sensitivity") * (1.0 if monotone else 2.0)
    return Declared(length, size, norm="range", monotone=monotone, **taken)


def calibrate(kind: type, budget: Any, **settings: Any) -> Any:
    """The mechanism of least noise for a query with declared sensitivity."""
    query = query_of(kind, settings)
    return kind.calibrate(budget, query, settings.pop("neighboring_relation"), **settings)


def release(mechanism: Any, query: Any, *, rng: Any, ledger: Any, where: str) -> Any:
    """What a curator releases of `query`, a function without arguments."""
    access = mechanism.named(where)
    size = getattr(mechanism, "dimension", None) or mechanism.candidates
    vars(access)["query"] = Declared(1.0, size, norm=mechanism.norm)
    return Curator(query, ledger, rng).release(access)


class Unlimited:
    """Admits everything: a ledger's arithmetic would take most of the time of many small runs."""

    adaptive, log = False, None

    def spend_all(self, events):
        pass

    def check(self, *events):
        pass

    def can_afford(self, *events):
        return True

    def used(self):
        return 0.0
