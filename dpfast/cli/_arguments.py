"""Arguments that commands share, and what a shell may offer for them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from dpfast.privacy import NEIGHBORING_RELATIONS
from dpfast.solvers import SOLVERS
from dpfast.tabular import TableSchema, read_bounds

Commands = Any  # argparse keeps the type of add_subparsers() to itself


def suggest(action: argparse.Action, words: Iterable[str]) -> None:
    """Give the shell's completion words for an argument that checks its values elsewhere."""
    setattr(action, "suggestions", tuple(words))  # noqa: B010


def suggestions(action: argparse.Action) -> tuple[str, ...]:
    """What a shell may offer as the value of an argument; nothing means file names."""
    words = action.choices if action.choices is not None else getattr(action, "suggestions", ())
    return tuple(map(str, words))


def add_json(command: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    command.add_argument("--json", action="store_true", help="print one JSON object, nothing else")


def add_relation(command: argparse.ArgumentParser) -> None:
    """Add ``--neighboring-relation``."""
    command.add_argument(
        "--neighboring-relation",
        choices=NEIGHBORING_RELATIONS,
        default="replace_one",
        help="what the guarantee hides: %(choices)s (default: %(default)s)",
        metavar="R",
    )


def add_solver(command: argparse.ArgumentParser, **settings: Any) -> None:
    """Add ``--solver``."""
    settings = {"default": "auto", "help": "private algorithm (default: auto)", **settings}
    suggest(command.add_argument("--solver", metavar="S", **settings), ("auto", *SOLVERS))


def add_categorical(command: argparse.ArgumentParser) -> None:
    """Add ``--categorical``."""
    command.add_argument(
        "--categorical",
        default="",
        metavar="A,B",
        help="columns whose list of numbers means categories, not a range",
    )


def schema_of(arguments: argparse.Namespace) -> TableSchema:
    """What ``--bounds``, ``--target`` and ``--categorical`` declare."""
    return TableSchema.from_bounds(
        read_bounds(arguments.bounds),
        target=arguments.target,
        categorical=[name.strip() for name in arguments.categorical.split(",") if name.strip()],
    )


def count(text: str) -> int:
    """An integer from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer >= 1, got {text!r}")
    return int(text)


def seed(text: str) -> int:
    """An integer from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected an integer >= 0, got {text!r}")
    return int(text)


def alpha(text: str) -> float | str:
    """A number, or "auto"."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or auto, got {text!r}") from None
