"""How far a fit over blocks is: passes, rows a second and time left, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from dpfast.blocks import Executor
from dpfast.solvers import Plan


class _Speed(ProgressColumn):
    """Rows a second."""

    def render(self, task: Task) -> Text:
        """As rich asks for it."""
        speed = task.finished_speed or task.speed
        return Text("- rows/s" if speed is None else f"{speed:,.0f} rows/s")


def progress(screen: Console, *columns: Any) -> Progress:
    """A bar that is shown on terminals alone, and removed when it is done."""
    screen.quiet = not screen.is_terminal  # rich before 14.3 ends even hidden bars with a line
    return Progress(
        *columns,
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
        refresh_per_second=5,
    )


def planned_passes(plan: Plan[Any]) -> int | None:
    """Passes over the rows that a plan fixes; None if they follow from the data."""
    iterations = plan.parameters.get("iterations")
    if plan.adaptive or iterations is None:
        return None
    return max(int(iterations), sum(event.count for event in plan.events))


@contextmanager
def shown(
    source: Executor, passes: int | None = None, console: Console | None = None
) -> Iterator[None]:
    """Show the passes over `source` on standard error, if that is a terminal.

    For the eyes of whoever may see the data: how many passes an optimizer takes depends on them,
    like the time that it takes, and is not covered by the guarantee.  Without the `passes` of the
    whole fit, what is left is shown of the pass alone.
    """
    rows = sum(source.sizes)
    before = source.watch
    done = [0]
    columns = TextColumn("{task.description}"), BarColumn(), _Speed(), TimeRemainingColumn()
    with progress(console or Console(stderr=True), *columns) as bar:
        task = bar.add_task("pass 1", total=rows * (passes or 1))

        def watch(count: int) -> None:
            if before is not None:
                before(count)
            done[0] += count
            number, within = divmod(done[0], rows)
            settings: dict[str, Any] = {"completed": done[0] if passes else within or rows}
            number += within > 0
            of = f" of {passes}" if passes else ""
            bar.update(task, description=f"pass {number}{of}", **settings)

        source.watch = watch
        try:
            yield
        finally:
            source.watch = before
