"""``dpfast solvers``: the private algorithms, what each promises and takes."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

from rich.table import Table

from dpfast._validation import check_choice
from dpfast.cli._arguments import Commands, add_json, suggest
from dpfast.cli._screen import console, legend, say, show_json
from dpfast.losses import Loss, loss_names
from dpfast.privacy import Budget
from dpfast.shape import ProblemShape
from dpfast.solvers import SOLVERS, Solver, plan

_PROMISES = {"pure": "ε", "approximate": "(ε, δ)", "zcdp": "ρ", "gdp": "µ"}


def add(commands: Commands) -> None:
    """Add the command's parser."""
    solvers = commands.add_parser(
        "solvers",
        help="the private algorithms, what each promises and takes",
        description="List the private algorithms; with a NAME, show one with its options, its "
        "guarantee and its sources.",
    )
    suggest(
        solvers.add_argument("name", nargs="?", metavar="NAME", help="show this one at length"),
        SOLVERS,
    )
    add_json(solvers)
    solvers.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """List all, or show one."""
    if arguments.name is not None:
        check_choice("NAME", arguments.name, tuple(SOLVERS))
        solver = SOLVERS[arguments.name]
        described = {**_describe(solver), "losses": _losses(solver), "text": _text(solver)}
        if arguments.json:
            show_json("solvers", described)
        else:
            _show_one(described)
        return
    every = [_describe(solver) for solver in SOLVERS.values()]
    if arguments.json:
        show_json("solvers", {"solvers": every})
        return
    screen = Table(show_lines=True)
    screen.add_column("solver", no_wrap=True)
    screen.add_column("budgets", no_wrap=True)
    screen.add_column("what it does")
    for one in every:
        screen.add_row(one["name"], _promises(one), _what(one))
    console().print(screen, "")
    legend(
        [
            ("ε", "pure differential privacy: fit with --delta 0"),
            ("(ε, δ)", "approximate differential privacy"),
            ("ρ, µ", "zero-concentrated and Gaussian differential privacy (in Python)"),
        ]
    )
    say(
        "\nsolver 'auto', the default, chooses among them from public numbers. 'dpfast solvers "
        "NAME' tells more about one, 'dpfast plan --solver NAME' what it would cost."
    )


def _describe(solver: Solver[Any]) -> dict[str, Any]:
    return {
        "name": solver.name,
        "summary": " ".join(_text(solver).split("\n\n")[0].replace("``", "").split()),
        "budgets": list(solver.budgets),
        "neighboring_relations": list(solver.relations),
        "options": list(solver.options),
    }


def _text(solver: Solver[Any]) -> str:
    return inspect.cleandoc(solver.doc or "")


def _losses(solver: Solver[Any]) -> list[str]:
    """Losses that it takes with its default options, found by planning a large problem."""
    kind = {"pure": Budget(1.0), "approximate": Budget(1.0, 1e-6)}
    budget = next(kind[name] for name in ("approximate", "pure") if name in solver.budgets)
    taken = []
    for name in loss_names():
        try:
            plan(ProblemShape(10**6, 2, 1.0, Loss(name)), solver.name, budget)
        except (TypeError, ValueError):
            continue
        taken.append(name)
    return taken


def _promises(one: dict[str, Any]) -> str:
    return ", ".join(_PROMISES[kind] for kind in one["budgets"])


def _what(one: dict[str, Any]) -> str:
    summary: str = one["summary"]
    relations = one["neighboring_relations"]
    return summary if len(relations) > 1 else f"{summary} Under {relations[0]} only."


def _show_one(one: dict[str, Any]) -> None:
    legend(
        [
            ("solver", one["name"]),
            ("budgets", _promises(one)),
            ("relations", ", ".join(one["neighboring_relations"])),
            ("losses", f"{', '.join(one['losses'])} (with the default options)"),
            ("options", ", ".join(one["options"])),
        ]
    )
    say("")
    for paragraph in one["text"].split("\n\n"):
        say(f"{_reflowed(paragraph)}\n")


def _reflowed(paragraph: str) -> str:
    """A paragraph for a screen of any width; what is laid out in lines stays so."""
    lines = paragraph.replace("``", "").splitlines()
    laid_out = len(lines) > 1 and (
        lines[1].startswith("---") or any(line.startswith((" ", "*", "-")) for line in lines)
    )
    return "\n".join(lines) if laid_out else " ".join(lines)
