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
from dpfast.solvers import SOLVERS, plan

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
        module = SOLVERS[arguments.name]
        described = {**_describe(module), "losses": _losses(module), "text": _text(module)}
        if arguments.json:
            show_json("solvers", described)
        else:
            _show_one(described)
        return
    every = [_describe(module) for module in SOLVERS.values()]
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


def _describe(module: Any) -> dict[str, Any]:
    return {
        "name": module.NAME,
        "summary": " ".join(_text(module).split("\n\n")[0].replace("``", "").split()),
        "budgets": list(module.BUDGET_KINDS),
        "neighboring_relations": list(module.RELATIONS),
        "options": list(module.OPTIONS),
    }


def _text(module: Any) -> str:
    return inspect.cleandoc(module.__doc__ or "")


def _losses(module: Any) -> list[str]:
    """Losses that it takes with its default options, found by planning a large problem."""
    kind = {"pure": Budget(1.0), "approximate": Budget(1.0, 1e-6)}
    budget = next(kind[name] for name in ("approximate", "pure") if name in module.BUDGET_KINDS)
    taken = []
    for name in loss_names():
        try:
            plan(ProblemShape(10**6, 2, 1.0, Loss(name)), module.NAME, budget)
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
