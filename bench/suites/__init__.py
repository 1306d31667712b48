"""One file a suite, one table; a module is a suite if it has what `Suite` lists."""

from __future__ import annotations

from typing import Any, Protocol, cast

from bench.harness import Document, Record, Run
from bench.report import Table
from bench.suites import (
    baseline,
    frontier,
    inference,
    kernels,
    kuru2020,
    lee2018,
    lowy2021,
    peers,
    persons,
    price,
    rrpsgd,
    zhang2017,
)


class Suite(Protocol):
    """Signature of the modules in this package."""

    NAME: str
    TITLE: str
    #: Competitors by name, with what they promise.
    COMPETITORS: dict[str, str]
    #: Dataclass instances with what may be made smaller.
    FULL: Any
    QUICK: Any

    def run(self, settings: Run, sizes: Any) -> list[Record]:
        """Measure."""
        ...

    def tables(self, document: Document) -> list[Table]:
        """Arrange the records for readers."""
        ...

    def draw(self, document: Document, figure: Any) -> None:
        """Draw the records on a matplotlib figure."""
        ...


_PAPERS = (kuru2020, lee2018, lowy2021, rrpsgd, zhang2017)
SUITES: dict[str, Suite] = {
    module.NAME: cast(Suite, module)
    for module in (kernels, baseline, frontier, inference, peers, persons, price, *_PAPERS)
}
GROUPS: dict[str, tuple[str, ...]] = {
    "all": tuple(SUITES),
    "papers": tuple(module.NAME for module in _PAPERS),
}

__all__ = ["GROUPS", "SUITES", "Suite"]
