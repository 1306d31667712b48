"""``dpfast evaluate``: how good a model file is on rows whose target is known."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpfast._validation import counted
from dpfast.cli._arguments import Commands, add_json, add_scored, scored_model
from dpfast.cli._screen import reading, say, show_json, show_scores
from dpfast.tabular import Tally

_UNPROTECTED = (
    "These scores are NOT PRIVATE: they are computed from the rows without noise, and the "
    "guarantee of the model does not cover them. Show them only to people who may see the rows. "
    "On the rows of the fit they say nothing about new ones."
)


def add(commands: Commands) -> None:
    """Add the command's parser."""
    evaluate = commands.add_parser(
        "evaluate",
        help="score a model file on rows with their target (without protection)",
        description="Score the predictions of a model file on rows that the fit did not see. The "
        "scores are exact: this is NOT PRIVATE. No model is fitted, nothing is spent, nothing is "
        "written.",
    )
    add_scored(evaluate, "rows with their target")
    add_json(evaluate)
    evaluate.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, predict, compare, print."""
    model, tally = scored_model(arguments), Tally()
    with reading(arguments.data) as progress:
        scores = model.evaluate(arguments.data, arguments.threshold, tally=tally, progress=progress)
    if arguments.json:
        show_json(
            "evaluate",
            {
                "model": arguments.model,
                "data": arguments.data,
                "covered_by_guarantee": False,
                "rows": tally.rows,
                "undeclared": tally.undeclared,
                "outside_range": tally.cut,
                "scores": scores,
            },
        )
        return
    title = f"{counted(tally.rows, 'row')} of {Path(arguments.data).name}"
    show_scores(title, {Path(arguments.model).name: scores})
    say(_UNPROTECTED)
