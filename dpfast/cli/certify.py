"""``dpfast certify``: what a model file promises, for whoever decides about its release."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from dpfast._files import atomic_writer, ends_in
from dpfast.cli._arguments import PICTURES, Commands, add_json
from dpfast.cli._screen import check_writable, console, save_picture, say, show_json
from dpfast.privacy import Certificate
from dpfast.tabular import TableModel


def add(commands: Commands) -> None:
    """Add the command's parser."""
    certify = commands.add_parser(
        "certify",
        help="what a model promises to whoever gets it: the papers for its release",
        description="Check a model file and print its guarantee, its unit, what an attacker can "
        "do at most, every access to the data, what is not covered, and answers to the questions "
        "of NIST SP 800-226. Computed from the ledger in the file; nothing is spent.",
    )
    certify.add_argument("model", metavar="MODEL.json", help="model file written by 'dpfast fit'")
    certify.add_argument(
        "-o", "--output", metavar="FILE", help="also write it: JSON if the name ends in .json"
    )
    certify.add_argument(
        "--plot", metavar="FILE", help=f"also draw the bounds on attacks ({', '.join(PICTURES)})"
    )
    add_json(certify)
    certify.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, check, print, write, draw."""
    for path, other in ((arguments.output, None), (arguments.plot, arguments.output)):
        if path is not None:
            check_writable(path, arguments.model, other)
    if arguments.plot and not arguments.plot.endswith(PICTURES):
        raise ValueError(f"--plot must end in {', '.join(PICTURES)}; got {arguments.plot!r}.")
    model = TableModel.load(arguments.model)
    certificate = Certificate(model.privacy_, _subject(arguments.model, model))
    if arguments.output:
        as_json = ends_in(arguments.output, (".json",))
        with atomic_writer(arguments.output) as stream:
            stream.write(f"{certificate.to_json() if as_json else certificate}\n")
    if arguments.plot:
        from dpfast.plotting import AttackDisplay

        save_picture(AttackDisplay.from_report(model.privacy_).figure_, arguments.plot)
    if arguments.json:
        show_json("certify", certificate.to_dict())
        return
    for title, lines in certificate.sections():
        console().print(title, style="bold")
        for line in lines:
            say(f"- {line}")
        say("")
    for path in filter(None, (arguments.output, arguments.plot)):
        say(f"Written to {path}.")


def _subject(path: str, model: TableModel) -> dict[str, Any]:
    """What the file is about."""
    schema = model.schema_
    return {
        "file": Path(path).name,
        "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
        "family": model.family,
        "target": schema.target.name,
        "columns": ", ".join(column.name for column in schema.features),
        "numbers_released": _numbers_released(model),
    }


def _numbers_released(model: TableModel) -> int:
    """Numbers of the file that come from the data: not only coefficients."""
    found = [model.coef_, model.intercept_, *model.learned_ranges.values()]
    others = (vars(model.estimator_).get(name) for name in ("column_ranges_", "_covariance"))
    found += [numbers for numbers in others if numbers is not None]
    estimates = vars(model.estimator_).get("_estimates")
    if estimates is not None:
        found += [estimates.covariance, estimates.sampling]
    kept = vars(model.estimator_).get("prediction_range_")
    if kept is not None:
        (targets,), _ = model.estimator_._resolve_targets(None)
        found.append([end for end in kept if end not in targets.prediction_range()])
    # A threshold that follows from the counts of the classes is one, too.
    counted = any(event.where == "classes" for event in model.privacy_.events)
    return counted + sum(int(np.isfinite(numbers).sum()) for numbers in found)
