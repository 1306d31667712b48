"""``dpfast solvers``: the private algorithms, what each promises and takes."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
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
        described = {
            **_describe(solver),
            "losses": _losses(solver),
            "text": plain_text(_text(solver)),
        }
        if arguments.json:
            show_json("solvers", described)
        else:
            _show_one(described, _options(solver))
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
        "summary": " ".join(plain_text(_text(solver).split("\n\n")[0]).split()),
        "budgets": list(solver.budgets),
        "neighboring_relations": list(solver.relations),
        "options": list(solver.options),
    }


# Where the source of a step stands, which is of no use on a screen.
_SOURCE = re.compile(r":?\s+\(?`*dpfast/[\w/]+\.py`*\)?")


def _text(solver: Solver[Any]) -> str:
    return _SOURCE.sub("", inspect.cleandoc(solver.doc or ""))


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


# An entry of a docstring's parameters: names, type if any, and what is said of them.
_ENTRY = re.compile(r"^(\S[^\n]*?)(?: : ([^\n]*))?\n((?:(?: {4}[^\n]*)?(?:\n|$))*)", re.MULTILINE)


def _options(solver: Solver[Any]) -> list[tuple[str, str]]:
    """The options with their types and meanings, from the docstring of the solver's plan."""
    plan = getattr(solver.plan, "func", solver.plan)  # solvers of one family share it
    section = (inspect.getdoc(plan) or "").partition("Parameters\n----------\n")[2]
    section = re.split(r"\n\n\S[^\n]*\n-{3,}", section)[0]
    found = []
    for names, kind, text in _ENTRY.findall(section):
        if taken := ", ".join(name for name in names.split(", ") if name in solver.options):
            meaning = " ".join(plain_text(text).split())
            found.append((taken, f"({kind}) {meaning}" if kind else meaning))
    return found


def _promises(one: dict[str, Any]) -> str:
    return ", ".join(_PROMISES[kind] for kind in one["budgets"])


def _what(one: dict[str, Any]) -> str:
    summary: str = one["summary"]
    relations = one["neighboring_relations"]
    return summary if len(relations) > 1 else f"{summary} Under {relations[0]} only."


def _show_one(one: dict[str, Any], options: list[tuple[str, str]]) -> None:
    legend(
        [
            ("solver", one["name"]),
            ("budgets", _promises(one)),
            ("relations", ", ".join(one["neighboring_relations"])),
            ("losses", f"{', '.join(one['losses'])} (with the default options)"),
        ]
    )
    say("")
    for paragraph in one["text"].split("\n\n"):
        for lead, text in _items(paragraph):
            screen = Table.grid(padding=(0, 1))
            screen.add_row(lead, text) if lead else screen.add_row(text)
            console().print(screen)
        say("")
    say("Options (solver_options in Python; alpha is a parameter of its own)\n")
    legend(options)


# Code between two backticks, a role with its target, a name, strong, emphasized.
_MARKUP = re.compile(
    r"``(?P<code>.+?)``|:[\w:]+:`~?(?P<target>[^`]+)`|`(?P<name>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*"
    r"|(?<![\w*])\*(?P<weak>[^\s*][^*]*)\*(?![\w*])",
    re.DOTALL,
)
_UNDERLINE = re.compile(r"\n[-=~^]{3,}$", re.MULTILINE)
_ITEM = re.compile(r"(?:[*-]|\d+\.) ")


def plain_text(text: str) -> str:
    """A docstring without its markup.

    Examples
    --------
    >>> plain_text("**Noise** of :class:`~dpfast.mechanisms.Gaussian`, ``a * b * c``, *here*")
    'Noise of Gaussian, a * b * c, here'
    """

    def plain(found: re.Match[str]) -> str:
        if target := found["target"]:
            return (
                str(target).rpartition(".")[2] if found[0].partition("`")[2][0] == "~" else target
            )
        return next(part for part in found.groups() if part is not None)

    return _MARKUP.sub(plain, _UNDERLINE.sub("\n", text))


def _items(paragraph: str) -> Iterator[tuple[str, str]]:
    """Items of a list with what marks them, or one whole paragraph; each on one line."""
    lead = ""
    lines: list[str] = []
    for line in paragraph.splitlines():
        found = _ITEM.match(line)
        if found and lines:
            yield lead, " ".join(lines)
            lines = []
        if found:
            lead, line = found[0].strip(), line[found.end() :]
        lines.append(line.strip())
    yield lead, " ".join(lines)
