"""The command line: one command a file, listed in `COMMANDS`.

Results go to standard output; notes, warnings, errors and progress go to standard error. The exit
code is

* 0 after success,
* 2 after an error before any private data was touched: nothing was spent,
* 3 after an error in or after a private fit: its budget is spent,
* 4 where values were never declared, with --fail-on-undeclared,
* 130 after Ctrl-C; the message says whether a budget was spent.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from dpfast._validation import did_you_mean
from dpfast._version import __version__
from dpfast.cli import (
    bench,
    certify,
    check,
    completion,
    demo,
    evaluate,
    fit,
    plan,
    predict,
    solvers,
)
from dpfast.cli._screen import SpentError, UndeclaredError, describe, note, show_warning
from dpfast.errors import DpfastError

__all__ = ["COMMANDS", "main", "parser"]

#: Modules with ``add(commands)``, which adds the parser of one command and names its function.
COMMANDS = (demo, check, fit, predict, evaluate, certify, plan, solvers, bench, completion)

_EPILOG = (
    "Exit codes: 0 success; 2 an error, nothing was spent; 3 an error after the budget was spent; "
    "4 undeclared values, on request; 130 Ctrl-C. Every command takes --json: one JSON object on "
    "standard output, for machines."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str or None, default=None
        Arguments without the program's name; None takes them from ``sys.argv``.

    Returns
    -------
    int
        Exit code.
    """
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            arguments.run(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt as stop:
        note(f"interrupted. {stop.args[0] if stop.args else 'Nothing was spent.'}")
        return 130
    except BrokenPipeError:
        # The reader of a pipe has gone; keep Python from complaining again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SpentError as error:
        note(f"error: {describe(error)}")
        return 3
    except UndeclaredError as error:
        note(f"error: {describe(error)}")
        return 4
    except MemoryError as error:
        note(f"error: not enough memory. {describe(error)}".rstrip())
        return 2
    except (DpfastError, TypeError, ValueError, OSError, ImportError, Warning) as error:
        note(f"error: {describe(error)}")
        return 2
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (see '{self.prog} --help')\n")

    def parse_known_args(self, *given: Any, **how: Any) -> Any:
        """Refuse what is unknown here, in whose help the right name stands."""
        found, unknown = super().parse_known_args(*given, **how)
        if unknown:
            known = [name for action in self._actions for name in action.option_strings]
            hint = did_you_mean(unknown[0].partition("=")[0], known)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{'.' * bool(hint)}{hint}")
        return found, unknown


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    result = _Parser(
        prog="dpfast",
        description="Differentially private linear models from the command line.",
        epilog=_EPILOG,
    )
    result.add_argument("--version", action="version", version=f"dpfast {__version__}")
    commands = result.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add(commands)
    return result
