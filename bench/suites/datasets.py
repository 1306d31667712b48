"""Accuracy and log-loss on held-out rows of real tables, over a range of epsilon."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.competitors import COMPETITORS as ALL
from bench.competitors import Competitor, Task, dpfast_native, majority, present, sklearn_nonprivate
from bench.harness import Document, Record, Run
from bench.problems import Dataset, real
from bench.report import Table, mean_and_error, plain

NAME = "datasets"
TITLE = "Accuracy on real tables"
OURS, SKLEARN, MAJORITY = dpfast_native.NAME, sklearn_nonprivate.NAME, majority.NAME
COMPETITORS = {name: ALL[name].GUARANTEE for name in (OURS, SKLEARN, MAJORITY)}
METRICS = ("accuracy", "log_loss")


@dataclass(frozen=True)
class Sizes:
    """Budgets, and the number of random splits; each split draws its own noise."""

    epsilons: tuple[float, ...]
    seeds: int
    delta: float = 1e-6


FULL = Sizes((0.1, 0.5, 1.0, 2.0, 8.0), 10)
QUICK = Sizes((0.1, 1.0, 8.0), 3)


def run(settings: Run, sizes: Sizes) -> list[Record]:
    competitors = present(list(COMPETITORS), settings.note)
    records: list[Record] = []
    for data in real(settings.data, settings.note):
        settings.say(f"  {data.name}, {data.X.shape[0]:,} x {data.X.shape[1]}")
        splits = [data.split(seed) for seed in range(sizes.seeds)]
        for name, competitor in competitors.items():
            # A promise of "none" does not depend on epsilon.
            private = name == OURS
            for epsilon in sizes.epsilons if private else (math.inf,):
                records.append(_score(competitor, data, splits, epsilon, sizes.delta))
    return records


def _score(
    competitor: Competitor,
    data: Dataset,
    splits: Sequence[tuple[Dataset, Dataset]],
    epsilon: float,
    delta: float,
) -> Record:
    scores: dict[str, list[float]] = {metric: [] for metric in METRICS}
    for seed, (train, test) in enumerate(splits):
        private = {"epsilon": epsilon, "delta": delta} if math.isfinite(epsilon) else {}
        w = competitor.fit(Task(train.X, train.y, train.data_norm, seed=seed, **private))
        accuracy, log_loss = evaluate(w, test)
        scores["accuracy"].append(accuracy)
        scores["log_loss"].append(log_loss)
    values: dict[str, float] = {"seeds": len(splits)}
    for metric, sample in scores.items():
        values[metric] = statistics.fmean(sample)
        spread = statistics.stdev(sample) if len(sample) > 1 else 0.0
        values[f"{metric}_standard_error"] = spread / math.sqrt(len(sample))
    case: dict[str, int | float | str] = {"n": len(data.y), "d": data.X.shape[1]}
    if math.isfinite(epsilon):
        case |= {"epsilon": epsilon, "delta": delta}
    return Record(data.name, case, competitor.NAME, values)


def evaluate(w: NDArray[np.float64], test: Dataset) -> tuple[float, float]:
    """Share of right signs and mean logistic loss of weights with the intercept last."""
    margins = test.y * (test.X @ w[:-1] + w[-1])
    # A margin of zero predicts the negative class, as dpfast and scikit-learn do.
    right = (margins > 0.0) | ((margins == 0.0) & (test.y < 0.0))
    return float(np.mean(right)), float(np.mean(np.logaddexp(0.0, -margins)))


def tables(document: Document) -> list[Table]:
    found = []
    for name in dict.fromkeys(r.group for r in document.records):
        records = [r for r in document.records if r.group == name]
        best = next((r for r in records if r.competitor == SKLEARN), None)
        first = records[0]
        found.append(
            Table(
                name,
                f"{plain(first.case['n'])} rows, {plain(first.case['d'])} columns; 80 % train, "
                f"20 % test, {plain(first.values['seeds'])} random splits; mean ± standard error. "
                "Splits and seeds of the noise are the same at every epsilon. Private rows: "
                f"delta = {document.sizes['delta']:g}, replace_one.",
                ("competitor", "epsilon", "accuracy", "log-loss", "log-loss above non-private"),
                [
                    (
                        r.competitor,
                        plain(r.case["epsilon"]) if "epsilon" in r.case else "not private",
                        mean_and_error(
                            100 * r.values["accuracy"], 100 * r.values["accuracy_standard_error"], 2
                        )
                        + " %",
                        mean_and_error(
                            r.values["log_loss"], r.values["log_loss_standard_error"], 4
                        ),
                        f"{r.values['log_loss'] - best.values['log_loss']:+.4f}" if best else "",
                    )
                    for r in records
                ],
            )
        )
    return found


def draw(document: Document, figure: Any) -> None:
    """A row a data set: accuracy and log-loss over epsilon, references as lines."""
    names = list(dict.fromkeys(r.group for r in document.records))
    figure.set_size_inches(9, 0.6 + 3.0 * len(names))
    axes = figure.subplots(len(names), 2, squeeze=False)
    for row, name in zip(axes, names, strict=True):
        for axis, metric, factor, label in zip(
            row, METRICS, (100.0, 1.0), ("test accuracy, %", "test log-loss"), strict=True
        ):
            _draw_metric(axis, [r for r in document.records if r.group == name], metric, factor)
            axis.set_ylabel(label)
            axis.set_title(name, fontsize=10)
    for axis in axes[-1]:
        axis.set_xlabel("epsilon")
    axes[0][1].legend(frameon=False, fontsize=8)


def _draw_metric(axis: Any, records: list[Record], metric: str, factor: float) -> None:
    private = [r for r in records if "epsilon" in r.case]
    if private:
        epsilons = [float(r.case["epsilon"]) for r in private]
        axis.errorbar(
            epsilons,
            [factor * r.values[metric] for r in private],
            [factor * r.values[f"{metric}_standard_error"] for r in private],
            marker="o",
            capsize=3,
            color="C0",
            label=private[0].competitor,
        )
        axis.set_xscale("log")
        axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axis.minorticks_off()
    styles = {SKLEARN: ("C1", "-"), MAJORITY: ("0.5", "--")}
    for r in records:
        if r.competitor in styles:
            color, style = styles[r.competitor]
            axis.axhline(
                factor * r.values[metric], color=color, linestyle=style, label=r.competitor
            )
