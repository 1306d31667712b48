"""``--account``: one budget over many fits, in a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dpfast._files import parse_json, read_text
from dpfast.cli._arguments import Commands
from dpfast.cli._screen import check_writable
from dpfast.errors import BudgetFileError
from dpfast.privacy import Budget, BudgetAccountant, Ledger


def add_account(command: Commands) -> None:
    """Add ``--account`` and ``--account-budget``."""
    command.add_argument(
        "--account",
        metavar="FILE",
        help="file that adds up all fits to the same records, and refuses what passes its budget",
    )
    command.add_argument(
        "--account-budget",
        type=budget,
        metavar="E,D",
        help="epsilon and delta of a new account",
    )


def budget(text: str) -> Budget:
    """Epsilon and delta."""
    try:
        epsilon, delta = (float(part) for part in text.split(","))
        return Budget(epsilon, delta)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(
            f"expected epsilon and delta as in 3,1e-5; got {text!r}"
        ) from error


def open_account(arguments: argparse.Namespace) -> BudgetAccountant | None:
    """The account that the arguments name; a new one has no file before it is :func:`begun`.

    A ValueError if a new one has no budget, or a budget no account; a BudgetFileError if the file
    is damaged or was begun with another budget.
    """
    path, given = arguments.account, arguments.account_budget
    if path is None:
        if given is not None:
            raise ValueError("--account-budget must come with --account FILE.")
        return None
    if not Path(path).exists():
        if given is None:
            raise ValueError(
                f"there is no account {path} yet: give its budget as --account-budget E,D, the "
                "limit of all fits together."
            )
        check_writable(path)
        return BudgetAccountant(given)
    try:
        text = read_text(path)
        ledger, begun = Ledger.from_json(text), parse_json(text)["account"]
        how = begun["accountant"], begun["adaptive"]
    except (ValueError, KeyError, TypeError) as error:
        raise BudgetFileError(f"{path} is not a valid account: {error}") from error
    return BudgetAccountant(given or ledger.budget, path, *how)


def begun(
    account: BudgetAccountant | None, arguments: argparse.Namespace
) -> BudgetAccountant | None:
    """The same account with its file, which a refused fit does not leave behind."""
    if account is None or account.path is not None:
        return account
    return BudgetAccountant(account.budget, arguments.account)


def account_facts(account: BudgetAccountant) -> dict[str, Any]:
    """What an account has spent, for JSON."""
    total = account.guarantee()
    return {
        "file": str(account.path),
        "budget": account.budget.to_dict(),
        "epsilon": total.epsilon,
        "delta": total.delta,
        "remaining": account.remaining(),
    }


def account_text(account: BudgetAccountant) -> str:
    """The same in words."""
    facts = account_facts(account)
    # Of fits that may be chosen by earlier results, only the whole budget is a guarantee.
    verb = "stay within" if account.adaptive else "so far have"
    return (
        f"Account {facts['file']}: all its fits together {verb} epsilon = {facts['epsilon']:.3g}, "
        f"delta = {facts['delta']:.3g}; {100.0 * facts['remaining']:.3g} % of its budget "
        f"({account.budget.unit} = {account.budget.limit:g}, delta = {account.budget.delta:g}) is "
        "left."
    )
