"""Table 3 of Zhang et al. 2017: gradient descent with output perturbation, delta = 0.001."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.arrange import curve, grouped, index, legend, mean, panels, pick, spread, ticks
from bench.harness import Document, Record, Run
from bench.papers.zhang2017_tables import (
    DELTA,
    EPSILONS,
    LOADERS,
    PUBLISHED,
    REGRESSIONS,
    SCALINGS,
    scaled,
)
from bench.problems import randhie
from bench.report import Table, duration, plain

NAME = "zhang2017"
TITLE = "Output perturbation on the tables of Zhang et al. 2017"
PAPER, TIGHT = "their noise", "tight noise"
SGD, LONG_SGD = "mini-batch SGD", "mini-batch SGD, n²/50 steps"
FAMILY, AUTO = "output perturbation", "auto"
COMPETITORS = {
    PAPER: "(epsilon, delta)-DP (replace one): their T, step, sensitivity and formula, exact noise",
    TIGHT: "the same T; the sensitivity of descent itself and the exact Gaussian calibration",
    FAMILY: "(epsilon, delta)-DP (replace one): certified minimizer, default ridge if above µ",
    AUTO: "(epsilon, delta)-DP (replace one): what dpfast takes if no solver is named",
    SGD: "(epsilon, delta)-DP by Bassily et al. 2014, 50 rows a step, n²/50² steps",
    LONG_SGD: "the same with fifty times the steps",
}
# The paper does not say: two digits that bring "their noise" to the published error at epsilon = 1,
# of Bike at 0.1.
_MU = {"Bank": 0.0029, "Adult": 0.0013, "Credit Card": 0.0048, "Wine": 0.022, "Bike": 0.083}
_OTHER_MU = 0.005
_HUBER = 1.0
# Rows of a step of theirs.
_BATCH = 50
# Stands for the missing ridge where the optimum of the convex objective is computed.
_TINY_RIDGE = 1e-7
# Group of the records that try other scalings, at these budgets, and the most steps they may take.
_SCALING = "scaling"
_SCALING_EPSILONS = (0.1, 1.0)
_MOST_STEPS = 2500

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """Runs, the largest number of rows, the budgets, and the runs of SGD at some of them.

    Output perturbation is solved once for all its runs; "auto" is not.  `sgd` takes n²/50² steps,
    `long_sgd` n²/50.  `scalings` of the convex problems are tried, with so many draws of noise.
    """

    runs: int = 100
    auto_runs: int = 20
    rows: int = 10**9
    epsilons: tuple[float, ...] = EPSILONS
    sgd: Mapping[str, int] = field(default_factory=dict)
    long_sgd: Mapping[str, int] = field(default_factory=dict)
    scalings: int = len(SCALINGS)
    scaling_runs: int = 8


# A run of SGD takes some seconds on Bank and Adult, and with n²/50 steps on Wine.
FULL = Sizes(
    sgd={"Bank": 5, "Adult": 5, "Credit Card": 10, "Wine": 100, "Bike": 20},
    long_sgd={"Wine": 5},
)
QUICK = Sizes(
    runs=10, auto_runs=3, rows=5_000, epsilons=(0.5, 2.0), sgd={"Wine": 2}, scalings=2,
    scaling_runs=2,
)  # fmt: skip


def run(settings: Run, sizes: Sizes) -> list[Record]:
    records = []
    for task in _tasks(settings, sizes):
        settings.say(f"  {task.name}, {task.X.shape[0]:,} x {task.X.shape[1]}, µ = {task.mu:g}")
        records += _errors(task, sizes)
    records += _scalings(settings, sizes)
    # Last, since it takes the longest.
    for task in _tasks(settings, sizes):
        settings.say(f"  mini-batch SGD on {task.name}, µ = {task.mu:g}")
        records += sgd_errors(task, SGD, sizes.sgd.get(task.name, 0), sizes.epsilons)
        records += sgd_errors(task, LONG_SGD, sizes.long_sgd.get(task.name, 0), sizes.epsilons)
    return records


class _Task:
    """One table and its objective, whose minimum is known."""

    def __init__(self, name: str, X: Rows, y: Rows, loss: Any, mu: float) -> None:
        from dpfast import Problem
        from dpfast.objectives import Erm
        from dpfast.optimizers import OPTIMIZERS

        self.name, self.X, self.mu = name, X, mu
        self.problem = Problem(X, y, loss, data_norm=1.0, intercept=0.0)
        self.best = OPTIMIZERS["newton"](Erm(self.problem, mu or _TINY_RIDGE), tolerance=1e-10).w
        self.norm = float(np.linalg.norm(self.best))
        self.optimum = 0.0
        self.optimum = self.error(self.best)
        self.start = self.error(np.zeros(X.shape[1]))

    def error(self, w: Rows) -> float:
        return float(self.problem.value_and_gradient(w, self.mu)[0] - self.optimum)


def _tasks(settings: Run, sizes: Sizes) -> Iterator[_Task]:
    for name, X, y, loss in _data(settings):
        for mu in (0.0, _MU.get(name, _OTHER_MU)):
            yield _Task(name, X[: sizes.rows], y[: sizes.rows], loss, mu)


def _errors(task: _Task, sizes: Sizes) -> list[Record]:
    from bench.released import perturbed, unperturbed
    from dpfast import Budget, plan

    problem, mu = task.problem, task.mu
    records = []
    theirs = {"mode": "iterate", "alpha": mu, "minimizer_norm": task.norm}
    methods: dict[str, dict[str, Any]] = {
        PAPER: {**theirs, "calibration": "paper", "noise": "gaussian"},
        TIGHT: theirs,
        FAMILY: {},
    }
    for epsilon in sizes.epsilons:
        budget = Budget(epsilon, DELTA)
        descents: dict[tuple[int, float], tuple[Rows, float]] = {}
        for method, options in methods.items():
            settled = plan(problem, "output-perturbation", budget, **options)
            if settled.shape.alpha is not None and settled.shape.alpha < mu:
                # µ is part of the objective: the rule is asked for no less.
                settled = plan(problem, "output-perturbation", budget, **{**options, "alpha": mu})
            # Where both noises go with the same steps, they are taken once.
            steps = settled.settings.iterations or 0, settled.settings.step or 0.0
            if steps[0] and steps in descents:
                point, seconds = descents[steps]
            else:
                start = time.process_time()
                point = unperturbed(settled, problem)
                seconds = time.process_time() - start
                descents[steps] = point, seconds
            errors = [task.error(perturbed(settled, point, seed)) for seed in range(sizes.runs)]
            more = {
                "iterations": float(steps[0]),
                "noiseless": task.error(point),
                "ridge": settled.shape.alpha or 0.0,
                "seconds": seconds,
            }
            records.append(_record(task, epsilon, method, errors, more))
        ridge = {"alpha": mu} if mu else {}
        errors, seconds = _solved(task, "auto", budget, sizes.auto_runs, ridge)
        records.append(_record(task, epsilon, AUTO, errors, {"seconds": seconds}))
    return records


def sgd_errors(task: _Task, name: str, runs: int, epsilons: Sequence[float]) -> list[Record]:
    """The private SGD of Bassily et al. with n²/m² steps of m rows, or n²/m."""
    from bench.papers.zhang2017 import bassily_options
    from dpfast import Budget

    shape = task.problem.shape.with_alpha(task.mu) if task.mu else task.problem.shape
    options = dict(bassily_options(shape, min(_BATCH, shape.n_samples)))
    if name == SGD:
        options["steps"] = math.ceil(options["steps"] / options["batch"])
    if task.mu:
        options["alpha"] = task.mu
    records = []
    for epsilon in epsilons if runs else ():
        budget = Budget(epsilon, DELTA)
        errors, seconds = _solved(task, "dp-sgd", budget, runs, options)
        records.append(_record(task, epsilon, name, errors, {"seconds": seconds}))
    return records


def _solved(
    task: _Task, solver: str, budget: Any, runs: int, options: Mapping[str, Any]
) -> tuple[list[float], float]:
    """Errors of whole runs, and the mean processor time of one."""
    from dpfast import solve

    start = time.process_time()
    found = [
        solve(task.problem, solver, budget, random_state=seed, **options).w for seed in range(runs)
    ]
    seconds = (time.process_time() - start) / runs
    return [task.error(w) for w in found], seconds


def _scalings(settings: Run, sizes: Sizes) -> list[Record]:
    """Their convex algorithm on the classifications, scaled in other ways."""
    from dpfast import Loss
    from dpfast.theory.zhang2017 import Setting, paper_sensitivity

    records = []
    for name, X, y in _loaded(settings, regressions=False):
        for scaling in list(SCALINGS)[: sizes.scalings]:
            settings.say(f"  {name}, {scaling}")
            rows = scaled(X[: sizes.rows], scaling)
            task = _Task(name, rows, y[: sizes.rows], Loss("logistic"), 0.0)
            n, d = rows.shape
            smoothness, lipschitz = task.problem.shape.smoothness, task.problem.shape.lipschitz
            w, taken, rng = np.zeros(d), 0, np.random.default_rng(0)
            for epsilon in _SCALING_EPSILONS:
                case = Setting(0.0, smoothness, lipschitz, task.norm, n, d, epsilon, DELTA)
                count = case.iterations
                values = {
                    "best_norm": task.norm,
                    "iterations": float(count),
                    "mean_square_norm": float(np.einsum("ij,ij->", rows, rows)) / n,
                    "published": PUBLISHED[name, False].error[EPSILONS.index(epsilon)],
                }
                if count <= _MOST_STEPS:
                    for _ in range(count - taken):
                        w = w - task.problem.value_and_gradient(w, 0.0)[1] / smoothness
                    taken = count
                    apart = paper_sensitivity(count, 0.0, smoothness, lipschitz, n)
                    scale = math.sqrt(2.0 * math.log(2.0 / DELTA)) * apart / epsilon
                    values["noiseless"] = task.error(w)
                    values["error"] = float(
                        np.mean(
                            [
                                task.error(w + scale * rng.standard_normal(d))
                                for _ in range(sizes.scaling_runs)
                            ]
                        )
                    )
                case: dict[str, int | float | str] = {
                    "table": name, "scaling": scaling, "epsilon": epsilon,
                }  # fmt: skip
                records.append(Record(_SCALING, case, PAPER, values))
    return records


def _record(
    task: _Task, epsilon: float, method: str, errors: list[float], more: dict[str, float]
) -> Record:
    values = {**spread(errors), "zero": task.start, "best_norm": task.norm, **more}
    published = PUBLISHED.get((task.name, task.mu > 0.0))
    if published is not None and epsilon in EPSILONS:
        place = EPSILONS.index(epsilon)
        values["published"] = published.error[place]
        values["published_sgd"] = published.sgd_error[place]
        values["published_seconds"] = published.seconds[place]
        values["published_sgd_seconds"] = published.sgd_seconds[place]
    case: dict[str, int | float | str] = {
        "n": task.X.shape[0], "d": task.X.shape[1], "mu": task.mu, "epsilon": epsilon,
    }  # fmt: skip
    return Record(task.name, case, method, values)


# ---- data ---------------------------------------------------------------------------------------


def _loaded(settings: Run, *, regressions: bool = True) -> list[tuple[str, Rows, Rows]]:
    def load(data: Path, name: str) -> tuple[str, Rows, Rows]:
        return (name, *LOADERS[name](data))

    names = [name for name in LOADERS if regressions or name not in REGRESSIONS]
    return list(settings.tables({name: partial(load, name=name) for name in names}))


def _data(settings: Run) -> Iterator[tuple[str, Rows, Rows, Any]]:
    """Rows of norm 1: columns on [0, 1] by their ranges, then every row over its own norm.

    The ranges are read off the data, as was usual then; a release would have to declare them.
    """
    from dpfast import Loss

    other = randhie()
    for name, X, y in _loaded(settings) or [(other.name, other.X, other.y)]:
        loss = Loss("huber", _HUBER) if name in REGRESSIONS else Loss("logistic")
        yield name, scaled(X, next(iter(SCALINGS))), y, loss


# ---- report -------------------------------------------------------------------------------------


_READING = (
    "The paper says neither how it scaled the data, nor µ, nor the norm of the best weights that "
    "its T needs. Read here: columns on [0, 1] by their ranges, then rows of norm 1; the targets "
    f"of Wine and Bike as they are, Huber's threshold {_HUBER:g}; ‖ŵ‖ for the norm (its running "
    "times, which go as T n d, ask for 2.2 times Bank's on Adult and 0.17 times on Wine; here it "
    "is 2.0 and 0.19); µ such that 'their noise' meets the published error at epsilon = 1, one "
    "number a table, after which the other three rows have nothing left to fit. 'Their noise' and"
    " 'tight noise' are told ‖ŵ‖, as the paper's experiments must have been; the other columns "
    "are private throughout and guess 6. 'Without noise' is what T steps leave of the "
    "optimization. Of SGD the paper says 'a mini-batch version with batch size m = 50', since n² "
    "steps take too long, which 'preserves the same order of privacy' by amplification: n²/m² "
    "steps, whose rows sampled, squared and summed, are those of n² steps of one row. Its times "
    "agree rather with that: at the time an entry that its convex gradient descent takes, n²/m "
    "steps would have taken 5 (Bank), 14 (Adult) and 2 times (Wine) what is published. n²/m "
    "steps, the other reading, stand beside it on Wine. What is published for SGD with a ridge "
    "hardly falls with epsilon, so that it is not noise which keeps it tens to hundreds of times "
    "above ours; how they chose the steps and the start is not said."
)
_STEPS = (
    "Whitened descent, which 'auto' takes, moves a margin by about Huber's threshold a step at "
    "most, and targets are up to nine thresholds away: at small epsilon it has too few steps."
)
# What is left between "published" and "their noise", by table.
_DIFFERENCES = {
    ("Bank", 0.0): "'Their noise' is 0.6 to 0.9 of the published errors and falls with epsilon as "
    "they do: a T a third longer would close that (the constant of its Θ, or another coding of the "
    "categories, which moves ‖ŵ‖).",
    ("Bank", _MU["Bank"]): "'Their noise' meets the published column.",
    ("Adult", 0.0): "The published errors are more than ten times below 'their noise' at every "
    "epsilon, and below what their T steps leave without noise. Other scalings of the data do not "
    "explain it (last table).",
    ("Adult", _MU["Adult"]): "'Their noise' meets the published column but for the first row, half "
    "of it: where noise is so large the logistic loss is straight, and only the ridge is curved.",
    ("Credit Card", 0.0): "As on Adult: the published errors are 18 to 32 times below 'their "
    "noise', and other scalings do not explain it (last table).",
    ("Credit Card", _MU["Credit Card"]): "'Their noise' meets the published column.",
    ("Wine", 0.0): "'Their noise' meets the published column in all four rows, with nothing "
    f"fitted. {_STEPS}",
    ("Wine", _MU["Wine"]): "'Their noise' meets the published column; in the first row noise "
    f"reaches the straight part of Huber's loss. {_STEPS}",
    (
        "Bike",
        0.0,
    ): "Not reproduced: the paper says neither the target's unit (here rentals, as they "
    "are) nor Huber's threshold. By the published times descent took 5 to 40 steps here, at the "
    "time an entry that it took elsewhere, so that 'published' shows where it stopped.",
    ("Bike", _MU["Bike"]): "Not reproduced but for the first row, to which µ was fitted: the "
    "published column levels off at 0.023, which is no noise; by its times 4 to 7 steps were "
    "taken.",
}


_ON_SCALINGS = (
    "Every number over what is printed, 1 being agreement, in brackets what T steps leave without "
    "any noise; smoothness 1/4 and rows of norm at most 1 throughout, as their T and their noise "
    "take them."
)


def _cases(document: Document) -> dict[tuple[str, float], list[Record]]:
    """Records by table and ridge, in their order."""
    return grouped((r for r in document.records if r.group != _SCALING), "group", "mu")


def _kind(mu: float) -> str:
    return f"µ = {mu:g}" if mu else "convex"


def tables(document: Document) -> list[Table]:
    said = {} if document.quick else _DIFFERENCES  # fewer rows have other errors
    made = [_error_table(*key, here, said) for key, here in _cases(document).items()]
    made[0] = replace(made[0], text=f"{made[0].text} {_READING}")
    return [*made, *_time_table(document), *_scaling_table(document)]


def _error_table(
    name: str, mu: float, here: list[Record], said: dict[tuple[str, float], str]
) -> Table:
    first, runs = here[0], grouped(here, "competitor")
    methods = [method for method in COMPETITORS if method in runs]
    rows = []
    for epsilon, line in grouped(here, "epsilon").items():
        of = index(line, "competitor")
        values = of[PAPER].values
        published = (f"{values[key]:g}" if key in values else ""
                     for key in ("published", "published_sgd"))  # fmt: skip
        rows.append(
            (
                plain(epsilon),
                next(published),
                *(_shown(of.get(method)) for method in methods),
                next(published),
                plain(values["iterations"]),
                f"{values['noiseless']:.2g}",
            )
        )
    counts = ", ".join(f"{plain(runs[m][0].values['runs'])} of {m}" for m in methods)
    return Table(
        f"{name}, strongly convex, {_kind(mu)}" if mu else f"{name}, convex",
        f"{plain(first.case['n'])} rows, {plain(first.case['d'])} columns, delta = "
        f"{DELTA:g}. Mean of F(w) - F(ŵ) with its standard error; runs: {counts}. Weights "
        f"of zero have {first.values['zero']:.3g}; ‖ŵ‖ = {first.values['best_norm']:.3g}. "
        f"{said.get((name, mu), '')} {_behind(here)}",
        ("epsilon", "published", *methods, "published SGD", "T", "without noise"),
        rows,
    )


def _shown(record: Record | None) -> str:
    """Mean and standard error; a dash for what was not run."""
    alone = record is not None and record.values["runs"] < 2
    return f"{record.values['error']:.2g}" if record and alone else mean(record)


def _time_table(document: Document) -> list[Table]:
    """The forty cells of Table 3 with a runtime, theirs and ours."""
    rows = []
    methods = (PAPER, FAMILY, AUTO, SGD)
    for (name, mu), here in _cases(document).items():
        for epsilon, line in grouped(here, "epsilon").items():
            of = index(line, "competitor")
            known = of[PAPER].values
            theirs, theirs_sgd = (
                f"{known[key]:.4g} s" if key in known else ""
                for key in ("published_seconds", "published_sgd_seconds")
            )
            ours = (duration(of[m].values["seconds"]) if m in of else "-" for m in methods)
            rows.append((name, _kind(mu), plain(epsilon), theirs, *ours, theirs_sgd))
    return [
        Table(
            "Processor time",
            "Of one run, on one thread. The paper does not say on what machine its times were "
            "taken. 'Their noise' takes the steps that the tables above count; "
            "'auto' and SGD include their plans.",
            ("table", "", "epsilon", "published", *methods, "published SGD"),
            rows,
        )
    ]


def _scaling_table(document: Document) -> list[Table]:
    records = pick(document.records, group=_SCALING)
    rows = []
    for (name, scaling), pair in grouped(records, "table", "scaling").items():
        values = pair[0].values
        rows.append(
            (
                name,
                scaling,
                f"{values['best_norm']:.3g}",
                f"{values['mean_square_norm']:.2g}",
                plain(values["iterations"]),
                *map(_ratios, pair),
            )
        )
    if not rows:
        return []
    epsilons = list(grouped(records, "epsilon"))
    return [
        Table(
            "Is it the scaling? Their convex algorithm over the published error",
            _ON_SCALINGS,
            (
                "table",
                "scaling",
                "‖ŵ‖",
                "mean of ‖x‖²",
                f"T at epsilon = {epsilons[0]:g}",
                *(f"over published at {e:g} (without noise)" for e in epsilons),
            ),
            rows,
        )
    ]


def _ratios(record: Record) -> str:
    if "error" not in record.values:
        return f"more than {_MOST_STEPS:,} steps"
    over = (record.values[key] / record.values["published"] for key in ("error", "noiseless"))
    return f"{next(over):.2g} ({next(over):.2g})"


def _behind(records: list[Record]) -> str:
    """Where the published number, or another column's mean, is below ours, in words."""
    parts = []
    for ours in (AUTO, FAMILY):
        lost = []
        for record in pick(records, competitor=ours):
            error, limit = record.values["error"], record.values["error"]
            limit -= 2.0 * record.values["error_standard_error"]
            rivals = {"published": record.values.get("published", math.inf)}
            rivals |= {
                r.competitor: r.values["error"]
                for r in records
                if r.case == record.case and r.competitor in (PAPER, TIGHT, SGD, LONG_SGD)
            }
            lost += [
                f"{rival} at epsilon = {record.case['epsilon']:g} (factor {error / value:.2g})"
                for rival, value in rivals.items()
                if value < limit
            ]
        where = f"behind {', '.join(lost)}" if lost else "nowhere behind"
        parts.append(f"{ours} is {where}")
    return f"By more than two standard errors, {'; '.join(parts)}."


def draw(document: Document, figure: Any) -> None:
    """Error over epsilon, one panel a table."""
    cases = _cases(document)
    axes = panels(figure, len(cases), 2, (4.6, 3.0))
    for axis, ((name, mu), here) in zip(axes, cases.items(), strict=True):
        lines = {
            method: (found, "error", f"C{list(COMPETITORS).index(method)}o-")
            for method, found in grouped(here, "competitor").items()
        }
        theirs = pick(here, competitor=PAPER)
        lines["published"] = theirs, "published", "k:"
        lines["published SGD"] = theirs, "published_sgd", "k-."
        for label, (found, key, style) in lines.items():
            curve(axis, found, "epsilon", key, fmt=style, markersize=4, label=label)
        axis.axhline(here[0].values["zero"], color="0.7", linewidth=1.0, label="weights of zero")
        axis.set(yscale="log", xlabel="epsilon", ylabel="F(w) - F(ŵ)")
        ticks(axis, grouped(here, "epsilon"))
        axis.set_title(f"{name}, {_kind(mu)}", fontsize=10)
    legend(figure)
