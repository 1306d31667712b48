"""One file a suite, one table; a module is a suite if it has what `Suite` lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

from bench.harness import Document, Record, Run
from bench.report import Table
from bench.suites import (
    baseline,
    datasets,
    frontier,
    inference,
    kernels,
    kuru2020,
    lee2018,
    lowy2021,
    objective,
    peers,
    persons,
    price,
    scaling,
    sgd,
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


@dataclass(frozen=True)
class Schedule:
    """How a suite fits into a run of many.

    Attributes
    ----------
    minutes, quick_minutes : float
        Of one core, at full and at quick size.
    timed : bool
        Whether it measures times throughout and needs the machine to itself; a suite that times a
        part of its work asks for that part, see :func:`bench.harness.undisturbed`.
    groups : tuple of str
        Names under which it is run with others.
    """

    minutes: float
    quick_minutes: float
    timed: bool = False
    groups: tuple[str, ...] = ()


_TABLE: tuple[tuple[Any, Schedule], ...] = (
    (kernels, Schedule(2.0, 0.3, timed=True)),
    (baseline, Schedule(19.0, 0.6, timed=True)),
    (datasets, Schedule(1.0, 0.2)),
    (frontier, Schedule(13.0, 0.8)),
    (inference, Schedule(60.0, 0.3)),
    (kuru2020, Schedule(36.0, 0.5, groups=("papers",))),
    (lee2018, Schedule(32.0, 0.7, groups=("papers",))),
    (lowy2021, Schedule(3.0, 0.4, groups=("papers",))),
    (objective, Schedule(2.0, 0.2, timed=True)),
    (peers, Schedule(8.0, 1.3, timed=True)),
    (persons, Schedule(4.0, 0.3, timed=True)),
    (price, Schedule(12.0, 0.4, timed=True)),
    (scaling, Schedule(4.0, 0.4, timed=True)),
    (sgd, Schedule(6.0, 0.3, timed=True)),
    (zhang2017, Schedule(11.0, 0.5, groups=("papers",))),
)
SUITES: dict[str, Suite] = {module.NAME: cast(Suite, module) for module, _ in _TABLE}
SCHEDULE: dict[str, Schedule] = {module.NAME: schedule for module, schedule in _TABLE}
GROUPS: dict[str, tuple[str, ...]] = {
    "all": tuple(SUITES),
    **{
        group: tuple(name for name, s in SCHEDULE.items() if group in s.groups)
        for group in dict.fromkeys(group for s in SCHEDULE.values() for group in s.groups)
    },
}

__all__ = ["GROUPS", "SCHEDULE", "SUITES", "Schedule", "Suite"]
