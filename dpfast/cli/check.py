"""``dpfast check``: how a table fits its declaration, looked at without protection."""

from __future__ import annotations

import argparse

from rich.table import Table

from dpfast._validation import counted
from dpfast.cli._arguments import Commands, add_csv, add_json, add_table, schema_of
from dpfast.cli._screen import UndeclaredError, console, reading, say, show_json
from dpfast.tabular import TableModel, Tally

_UNPROTECTED = (
    "This looked at the rows WITHOUT PROTECTION. What it says is for whoever may see them: do not "
    "release it, and correct the declaration from public knowledge, not until it fits."
)


def add(commands: Commands) -> None:
    """Add the command's parser."""
    check = commands.add_parser(
        "check",
        help="how a table fits its declaration (looks at the rows without protection)",
        description="Read a table as 'dpfast fit' would, and count the values that the bounds do "
        "not know and the numbers outside their range. The counts are exact: this is NOT PRIVATE. "
        "No model is fitted, nothing is spent, nothing is written.",
    )
    check.add_argument(
        "data", metavar="DATA", help="rows with their target: .csv, .csv.gz or .parquet"
    )
    add_table(check, required=True)
    add_csv(check, "the bounds say")
    check.add_argument(
        "--fail-on-undeclared", action="store_true",
        help="exit with code 4 if values were never declared",
    )  # fmt: skip
    add_json(check)
    check.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, count, print."""
    model = TableModel(schema_of(arguments))
    with reading(arguments.data) as progress:
        tally = model.check(arguments.data, progress=progress)
    if arguments.json:
        show_json(
            "check",
            {
                "data": arguments.data,
                "covered_by_guarantee": False,
                "rows": tally.rows,
                "undeclared": tally.undeclared,
                "outside_range": tally.cut,
                "only_ends": sorted(tally.only_ends or ()),
            },
        )
    else:
        _show(arguments.data, tally)
    if tally.undeclared and arguments.fail_on_undeclared:
        raise UndeclaredError("values were never declared, see above.")


def _show(path: str, tally: Tally) -> None:
    """The counts by column, and what to declare otherwise."""
    advice = f"{tally.advice}\n\n" * bool(tally.advice)
    if not (tally.undeclared or tally.cut):
        as_declared = f"{path}: every value of {counted(tally.rows, 'row')} is as it was declared."
        say(f"{as_declared}\n\n{advice}{_UNPROTECTED}")
        return
    screen = Table(title=f"{path}: {counted(tally.rows, 'row')}", title_justify="left")
    screen.add_column("column")
    for name in ("never declared", "outside the range"):
        screen.add_column(name, justify="right")
    for column in sorted({*tally.undeclared, *tally.cut}):
        counts = (kind.get(column) for kind in (tally.undeclared, tally.cut))
        screen.add_row(column, *("" if count is None else f"{count:,}" for count in counts))
    console().print(screen)
    say(
        "In a fit as in a prediction, a value that was never declared has the average effect of "
        "its column, and a number outside its range is cut to it. Where it is a code such as -99 "
        'for a missing value, declare it in "missing_values"; where truth values are other words '
        f'than yes and no, declare {{"boolean": ["nein", "ja"]}}.\n\n{advice}{_UNPROTECTED}'
    )
