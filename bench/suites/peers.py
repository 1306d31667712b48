"""Other libraries on the same tables: what they promise, what they reach, time and memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import arrange, peer_process
from bench.competitors import COMPETITORS as ALL
from bench.competitors import (
    diffprivlib_logistic,
    dpfast_native,
    jax_descent,
    lightning_saga,
    majority,
    opacus_sgd,
    opendp_descent,
    sklearn_nonprivate,
    torch_descent,
)
from bench.harness import Document, Record, Run, scores
from bench.machine import ROOT
from bench.problems import Dataset, adult, bank, randhie
from bench.report import (
    NAMED,
    TIME,
    Cell,
    Table,
    case,
    duration,
    mean,
    plain,
    rows_of,
    value,
)

NAME = "peers"
TITLE = "dpfast beside other libraries"
_OURS = (dpfast_native, dpfast_native.UNBOUNDED, dpfast_native.PURE)
_MODULES = (
    *_OURS, diffprivlib_logistic, opacus_sgd, opendp_descent,
    torch_descent, jax_descent, sklearn_nonprivate, lightning_saga, majority,
)  # fmt: skip
NAMES = tuple(module.NAME for module in _MODULES)
COMPETITORS = {name: ALL[name].GUARANTEE for name in NAMES}
METRICS = ("accuracy", "log_loss", "auc")
# One thread, for every library that somebody here uses.
_ONE_THREAD = {
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
    ),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}
_MEBIBYTE = 2.0**20


@dataclass(frozen=True)
class Sizes:
    """Budgets, splits, and processor seconds after which a competitor begins no further split."""

    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    delta: float = 1e-6
    seeds: int = 3
    limit: float = 60.0
    names: tuple[str, ...] = NAMES
    #: Rows of a table are cut to this.
    rows: int = 10**9
    #: None: as many as there are.
    tables: int | None = None


FULL = Sizes()
QUICK = Sizes(epsilons=(1.0,), seeds=2, limit=5.0, tables=1)


def run(settings: Run, sizes: Sizes) -> list[Record]:
    found = interpreters(sizes.names, settings)
    note_versions(found, settings)
    records: list[Record] = []
    tables = chain([randhie()], settings.tables({"Adult": adult, "Bank": bank}))
    for data in islice(tables, sizes.tables):
        if len(data.y) > sizes.rows:
            data = data.rows(slice(sizes.rows))
        splits = [data.split(seed) for seed in range(sizes.seeds)]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.npz"
            parts = {f"X{i}": train.X for i, (train, _) in enumerate(splits)}
            parts |= {f"y{i}": train.y for i, (train, _) in enumerate(splits)}
            np.savez(file, data_norm=data.data_norm, **parts)
            for name, python in found.items():
                settings.say(f"  {data.name}: {name}")
                records += _measure(settings, sizes, data, splits, name, python, file)
    return records


def interpreters(names: Sequence[str], settings: Run) -> dict[str, str]:
    """Where each competitor can run; what can run nowhere is noted."""
    found: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for python in (sys.executable, *map(str, settings.pythons)):
        left = [name for name in names if name not in found]
        if not left:
            break
        answer = _ask(python, ["missing", *left])
        if isinstance(answer, str):
            settings.note(f"{Path(python).name} of --python left out: {answer}.")
            continue
        for name, reason in answer.items():
            if reason is None:
                found[name] = python
            else:
                reasons.setdefault(name, reason)
    for name in names:
        if name not in found:
            settings.note(f"{name} left out: {reasons.get(name, 'it runs nowhere')}.")
    return {name: found[name] for name in names if name in found}


def note_versions(found: Mapping[str, str], settings: Run) -> None:
    """With what each of the interpreters ran."""
    for python in dict.fromkeys(found.values()):
        answer = _ask(python, ["versions"])
        if not isinstance(answer, str):
            names = "; ".join(name for name in found if found[name] == python)
            with_ = ", ".join(f"{name} {version}" for name, version in answer.items())
            settings.note(f"{names}: with {with_}.")


def _ask(python: str, words: Sequence[str]) -> Any:
    """The answer of a process, or why there is none."""
    # "-P" keeps the folder of this command out, "PYTHONPATH" brings this package in.
    environment = {**os.environ, **_ONE_THREAD, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            [python, "-W", "ignore", "-m", "bench.peer_process", *words],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            errors="replace",
        )  # fmt: skip
    except OSError as error:
        return str(error)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    if done.returncode:
        return lines[-1] if lines else f"exit code {done.returncode}"
    return json.loads(lines[-1])


def _measure(
    settings: Run,
    sizes: Sizes,
    data: Dataset,
    splits: Sequence[tuple[Dataset, Dataset]],
    name: str,
    python: str,
    file: Path,
) -> list[Record]:
    wanted = peer_process.Settings(
        sizes.epsilons, sizes.delta, sizes.seeds, sizes.limit, data.blocks
    )
    answer = _ask(python, peer_process.arguments(name, str(file), wanted))
    if isinstance(answer, str):
        settings.note(f"{name} left out on {data.name}: {answer}.")
        return []
    competitor = ALL[name]
    records = []
    for epsilon in dict.fromkeys(fit["epsilon"] for fit in answer["fits"]):
        own = [fit for fit in answer["fits"] if fit["epsilon"] == epsilon]
        values = summary([(np.array(f["weights"]), splits[f["seed"]][1]) for f in own])
        if not values:
            settings.note(f"{name}'s weights on {data.name} are not finite.")
            continue
        seconds = [fit["seconds"] for fit in own]
        values |= {
            "seconds": min(seconds),
            "median_seconds": statistics.median(seconds),
            "rounds": float(len(seconds)),
            "first_seconds": answer["first_seconds"],
            "peak_bytes": answer["peak_bytes"],
            "growth_bytes": answer["growth_bytes"],
        }
        n, d = data.X.shape
        where: dict[str, int | float | str] = {"n": n, "d": d, "relation": competitor.RELATION}
        if competitor.RELATION != "none":
            where |= {"epsilon": epsilon, "delta": sizes.delta if competitor.DELTA else 0.0}
        records.append(Record(data.name, where, name, values))
    return records


def summary(found: Sequence[tuple[NDArray[np.float64], Dataset]]) -> dict[str, float]:
    """Means and standard errors of the scores; empty if some weights are not finite."""
    if not all(np.all(np.isfinite(w)) for w, _ in found):
        return {}
    reached = [(*evaluate(w, test), auc(test.X @ w[:-1], test.y)) for w, test in found]
    return scores(**dict(zip(METRICS, zip(*reached, strict=True), strict=True)))


def evaluate(w: NDArray[np.float64], test: Dataset) -> tuple[float, float]:
    """Share of right signs and mean logistic loss of weights with the intercept last."""
    margins = test.y * (test.X @ w[:-1] + w[-1])
    # A margin of zero predicts the negative class, as dpfast and scikit-learn do.
    right = (margins > 0.0) | ((margins == 0.0) & (test.y < 0.0))
    return float(np.mean(right)), float(np.mean(np.logaddexp(0.0, -margins)))


def auc(margin: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Chance that a positive row is above a negative one, ties counting half."""
    from scipy.stats import rankdata

    positive = y > 0.0
    n, m = int(positive.sum()), int((~positive).sum())
    if not n or not m:
        return 0.5
    return float((rankdata(margin)[positive].sum() - 0.5 * n * (n + 1)) / (n * m))


# ---- reporting ----------------------------------------------------------------------------------


def tables(document: Document) -> list[Table]:
    found = [_promises(document)]
    for name, own in arrange.grouped(document.records, "group").items():
        text = (
            f"{plain(own[0].case['n'])} rows, {plain(own[0].case['d'])} columns; 80 % train, "
            "20 % test; mean over the splits ± standard error. Every competitor has a process of "
            "its own, on one thread. Time is the processor's for the best fit of the splits, after "
            "one that does not count ('first'); memory the peak of the process, and in brackets by "
            "how much fitting raised it above libraries and rows. Who takes long has the first of "
            "the splits only, as the last column says. Of Adult, dpfast is told which columns are "
            "the categories of one, as its encoders say; the others have no use for that."
        )
        found.append(rows_of(name, text, own, _COLUMNS))
    return found


def _promises(document: Document) -> Table:
    ran = {r.competitor for r in document.records}
    rows = []
    for name in document.competitors:
        one = ALL[name]
        # The entry of dpfast with the same kind of promise: an epsilon of both says the same.
        same = [
            m.NAME for m in _OURS if (m.RELATION, m.DELTA) == (one.RELATION, one.DELTA)
        ]  # fmt: skip
        delta = f"{document.sizes['delta']:g}" if one.DELTA else "0"
        rows.append(
            (
                name,
                one.RELATION,
                "-" if one.RELATION == "none" else delta,
                same[0] if same else "-",
                "yes" if name in ran else "no",
            )
        )
    return Table(
        "What is promised",
        "An epsilon under one relation is not the same promise under another: what "
        "add_or_remove_one hides with epsilon, replace_one hides with up to twice that. So dpfast "
        "runs under each of them, and stands beside each library with that library's own.",
        ("competitor", "relation", "delta", "dpfast with the same promise", "took part"),
        rows,
    )


def _memory(record: Record) -> str:
    peak, growth = (record.values[key] / _MEBIBYTE for key in ("peak_bytes", "growth_bytes"))
    return f"{peak:,.0f} ({growth:,.0f})"


_COLUMNS: dict[str, Cell] = {
    **NAMED,
    **{key: case(key) for key in ("relation", "epsilon", "delta")},
    "accuracy": mean("accuracy", 2, " %"),
    "log-loss": mean("log_loss", 4),
    "AUC": mean("auc", 3),
    **TIME,
    "first": value("first_seconds", duration),
    "memory, MiB": _memory,
    "splits": value("rounds"),
}
_STYLES: dict[str, dict[str, Any]] = {
    dpfast_native.NAME: {"color": "black", "linewidth": 2.2, "marker": "o"},
    dpfast_native.UNBOUNDED.NAME: {"color": "black", "linewidth": 2.2, "marker": "o"},
    dpfast_native.PURE.NAME: {"color": "0.5", "linewidth": 2.2, "marker": "o"},
    diffprivlib_logistic.NAME: {"color": "C3", "marker": "s"},
    opacus_sgd.NAME: {"color": "C0", "marker": "^"},
    opendp_descent.NAME: {"color": "C2", "marker": "v"},
    torch_descent.NAME: {"color": "C1", "marker": "D"},
    jax_descent.NAME: {"color": "C4", "marker": "P"},
}
_LINES = {"replace_one": "-", "add_or_remove_one": "--"}


def draw(document: Document, figure: Any) -> None:
    """A column a table: accuracy and log-loss over epsilon, what is not private as lines."""
    by_table = arrange.grouped(document.records, "group")
    axes = arrange.panels(figure, 2 * len(by_table), len(by_table), (3.2, 2.9))
    upper, lower = np.split(axes, 2)
    for above, below, (name, own) in zip(upper, lower, by_table.items(), strict=True):
        above.set_title(name, fontsize=11)
        _draw_metric(above, own, "accuracy", 100.0)
        _draw_metric(below, own, "log_loss", 1.0)
        below.set_xlabel("epsilon")
    upper[0].set_ylabel("test accuracy, %")
    lower[0].set_ylabel("test log-loss")
    figure.suptitle("solid: replace_one, dashed: add_or_remove_one", fontsize=9)
    arrange.legend(figure, 3)


def _draw_metric(axis: Any, records: Sequence[Record], metric: str, factor: float) -> None:
    reference = {sklearn_nonprivate.NAME: ("C5", "-"), majority.NAME: ("0.6", "-.")}
    shown = []
    for name, own in arrange.grouped(records, "competitor").items():
        levels = [factor * r.values[metric] for r in own]
        if name in reference:
            color, line = reference[name]
            axis.axhline(levels[0], color=color, linestyle=line, linewidth=1.2, label=name)
        elif name in _STYLES:
            line = _LINES[own[0].case["relation"]]
            arrange.curve(axis, own, "epsilon", metric, bars=True, scale=factor, markersize=4,
                          capsize=2, label=name, linestyle=line, **_STYLES[name])  # fmt: skip
        if name in (dpfast_native.NAME, dpfast_native.UNBOUNDED.NAME, *reference):
            shown += levels
    epsilons = sorted({float(r.case["epsilon"]) for r in records if "epsilon" in r.case})
    if epsilons:
        arrange.ticks(axis, epsilons)
    # Of the others, what is far worse than no model at all is off the picture; the tables have it.
    low, high = min(shown), max(shown)
    worse, better = 0.5 * (high - low), 0.1 * (high - low)
    if metric == "accuracy":
        axis.set_ylim(low - worse, high + better + 1e-3)
    else:
        axis.set_ylim(low - better - 1e-3, high + worse)
