"""``dpfast demo``: what privacy costs, on data that come with the package."""

from __future__ import annotations

import argparse
import json
import math

import numpy as np
from rich.table import Table
from sklearn.linear_model import LogisticRegression as NonPrivateLogisticRegression

from dpfast._typing import Matrix
from dpfast.cli._arguments import Commands, add_json
from dpfast.cli._screen import (
    Labels,
    Scores,
    console,
    legend,
    say,
    scores,
    show_json,
    show_report,
    track,
)
from dpfast.datasets import load_randhie
from dpfast.estimators import LogisticRegression
from dpfast.preprocessing import BoundedScaler
from dpfast.privacy.repeats import FITS

_EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
_DELTA = 1e-6
_REPEATS = 10
_REPORT_EPSILON = 1.0


def add(commands: Commands) -> None:
    """Add the command's parser."""
    demo = commands.add_parser(
        "demo",
        help="what privacy costs, on data that come with the package",
        description="Fit the same model at several privacy levels on public health-insurance data "
        "that come with the package, and compare it with a non-private fit. Takes seconds.",
    )
    add_json(demo)
    demo.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Fit, compare, show one report."""
    data = load_randhie()
    X = BoundedScaler(list(data.bounds.values())).fit_transform(data.data)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = np.split(order, [int(0.8 * len(X))])

    fits: dict[float, list[LogisticRegression]] = {epsilon: [] for epsilon in _EPSILONS}
    for epsilon in track(_EPSILONS * _REPEATS, "fitting"):
        model = LogisticRegression(
            epsilon=epsilon,
            delta=_DELTA,
            data_norm=math.sqrt(X.shape[1]),
            classes=data.classes,
            strict=True,
        )
        with FITS.public_rows():
            fits[epsilon].append(model.fit(X[train], data.target[train]))
    X_test, y_test = X[test], data.target[test]
    means = {
        epsilon: _mean([scores(model.decision_function(X_test), y_test) for model in models])
        for epsilon, models in fits.items()
    }
    others = _baselines(X[train], data.target[train], X_test, y_test)
    report = fits[_REPORT_EPSILON][0].privacy_
    if arguments.json:
        show_json(
            "demo",
            {
                "rows": len(train),
                "test_rows": len(test),
                "features": X.shape[1],
                "delta": _DELTA,
                "repeats": _REPEATS,
                "private": [{"epsilon": epsilon, **mean} for epsilon, mean in means.items()],
                **others,
                "privacy": json.loads(report.to_json()),
            },
        )
        return
    say(
        "Did a person see a doctor this year? Logistic regression on the RAND Health Insurance "
        f"Experiment: {len(train):,} person-years to learn from, {len(test):,} others to test on, "
        f"{X.shape[1]} features.\n"
    )
    _show(means, others)
    say(f"The privacy report of one model with epsilon = {_REPORT_EPSILON:g}:\n")
    show_report(report)
    say(
        "Here one record is one person in one year. A person has up to five records, and this "
        "guarantee is about each of them, not about all together: these data do not say whose row "
        "each is. Where yours do, give --person, and it is about all rows of a person."
    )


def _show(means: dict[float, Scores], others: dict[str, Scores]) -> None:
    """A table of the scores, and what they are."""
    screen = Table()
    for name in ("epsilon", "max. factor", "test accuracy", "test log-loss"):
        screen.add_column(name, justify="right")
    for epsilon, mean in means.items():
        screen.add_row(f"{epsilon:g}", f"{math.exp(epsilon):,.2f}", *_cells(mean))
    screen.add_section()
    screen.add_row("not private", "no limit", *_cells(others["non_private"]))
    screen.add_row("larger class", "", *_cells(others["majority_class"]))
    console().print(screen, "")
    legend(
        [
            ("epsilon", f"the privacy loss (with delta = {_DELTA:g}); smaller is more private"),
            ("max. factor", "e^epsilon: how many times likelier one row can make any result"),
            ("test accuracy", "share of the test rows that are predicted right; higher is better"),
            ("test log-loss", "how far the probabilities are from what happened; lower is better"),
            ("not private", "scikit-learn's LogisticRegression on the same rows"),
            ("larger class", "the same answer for everybody, without looking at the features"),
        ]
    )
    say(
        f"\nEach private row is the average of {_REPEATS} fits with fresh noise; of private "
        "data only one of them could be released at its epsilon. The test scores themselves are "
        "computed without noise and no guarantee covers them; that is fine here because the data "
        "are public.\n"
    )


def _baselines(X: Matrix, y: Labels, X_test: Matrix, y_test: Labels) -> dict[str, Scores]:
    """Test scores of a non-private model and of the larger class."""
    result = {}
    if 0 < y.sum() < len(y):
        usual = NonPrivateLogisticRegression(max_iter=1000).fit(X, y)
        result["non_private"] = scores(usual.decision_function(X_test), y_test)
    share = float(np.clip(np.mean(y), 1e-9, 1.0 - 1e-9))
    constant = np.full(len(y_test), math.log(share / (1.0 - share)))
    return {**result, "majority_class": scores(constant, y_test)}


def _mean(each: list[Scores]) -> Scores:
    return {key: float(np.mean([one[key] for one in each])) for key in each[0]}


def _cells(score: Scores) -> tuple[str, str]:
    return f"{100.0 * score['accuracy']:.1f} %", f"{score['log_loss']:.4f}"
