"""What privacy costs: ``solver="auto"``, untuned, against solvers tuned on the answers.

The rest of the family of dp-nag is close to it (suite `kuru2020`), dp-agd behind it (`lee2018`),
and the mechanisms of exponential type serve few weights only: they are left out to save time.
Adult is a9a.  All competitors run with the same seeds: an oracle that ends at auto's own settings
has auto's own excess, and does not win or lose by luck; it chooses with other seeds.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from bench import problems
from bench.arrange import curve, grouped, index, legend, panels, pick, ticks
from bench.harness import Document, Record, Run, scores
from bench.report import Table, mean, plain

Vector = NDArray[np.float64]

NAME = "frontier"
TITLE = "What privacy costs: solver='auto' against rivals tuned on the answers"
AUTO, MAJORITY = "auto", "majority"
PUBLISHED = "objective perturbation, published"
MULTINOMIAL, ONE_AGAINST_THE_REST = "multinomial", "one against the rest"
_RELATIONS = ("replace_one", "add_or_remove_one")
_MANY_WEIGHTS = 50
# Width of the corners of losses by which models are judged.
_SHARP = 0.01


def _grid(**values: Sequence[Any]) -> list[dict[str, Any]]:
    """Every combination."""
    found: list[dict[str, Any]] = [{}]
    for name, choices in values.items():
        found = [{**options, name: value} for options in found for value in choices]
    return found


# Several classes are learned by dp-whitened-gd alone, at once, so the oracle has one grid.
CLASSES_GRID = [{"clip": 0.3, "iterations": 60}, {"clip": 1.0, "iterations": 160}]
# What an oracle may choose from, besides the defaults: settings that a user who may look at the
# answers would try.  A clip is a multiple of the largest slope (dp-whitened-gd) or a share of the
# row norm (the others), an iteration count absolute.
GRIDS: dict[str, list[dict[str, Any]]] = {
    "dp-whitened-gd": [
        *_grid(iterations=(10, 30), clip=(0.3, 0.8)),
        {"iterations": 60, "clip": 1.5},
        {"rounds": 1},
        {"correlation_share": 0.0},
    ],
    "objective-perturbation": _grid(margin=(1.0, 3.0, 30.0)),
    "output-perturbation": _grid(margin=(2.0, 20.0)),
    "dp-nag": _grid(share=(0.1, 0.3), iterations=(20,)),
    "dp-sgd": [],
    "dp-adassp": _grid(floor=(0.1, 0.25, 1.0, 2.0)),
}
COMPETITORS = {
    AUTO: "(epsilon, delta)-DP under the relation of the table, no setting touched",
    **{
        name: "the same guarantee; the better of its defaults and of "
        f"{len(grid)} other settings, chosen by the mean of the answers, then run anew"
        for name, grid in GRIDS.items()
    },
    PUBLISHED: "(epsilon, delta)-DP, replace_one: Kifer, Smith & Thakurta 2012, Algorithm 1; "
    "epsilon-DP for delta = 0: Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2",
    ONE_AGAINST_THE_REST: "the guarantee of auto, for several classes: a binary fit each",
    MAJORITY: "none (not private): the best constant prediction",
}


@dataclass(frozen=True)
class Sizes:
    """Budgets, runs with fresh noise, runs by which the oracle chooses, and which problems."""

    epsilons: tuple[float, ...] = (0.05, 0.4, 1.6, 8.0)
    delta: float = 1e-8
    runs: int = 4
    tuning_runs: int = 2
    #: Real tables with few weights under both relations; otherwise real tables take
    #: add_or_remove_one and synthetic ones replace_one.
    both: bool = True
    real: bool = True
    #: Tables with many weights, which take most of the time.
    wide: bool = True
    families: tuple[str, ...] | None = None
    #: Rows of the synthetic problems are cut to this.
    largest: int = 10**9
    solvers: tuple[str, ...] | None = None
    #: Settings of each grid that are tried at most, besides the defaults.
    tries: int = 100
    #: Settings tried at most on tables with many weights.
    wide_tries: int = 3
    #: Budgets of the problems with other losses, with delta = 0, and with several classes.
    others: tuple[float, ...] = (0.2, 1.0, 8.0)
    classes: bool = True


FULL = Sizes()
QUICK = Sizes(
    epsilons=(0.1, 1.6), runs=3, tuning_runs=1, both=False, wide=False,
    families=("plain", "conditioning", "rare"), others=(1.0,), classes=False,
    solvers=("dp-whitened-gd", "objective-perturbation", "output-perturbation", "dp-adassp"),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One objective: rows, targets, loss and a public bound of the rows' norms."""

    name: str
    X: Vector
    y: Vector
    data_norm: float
    loss: str = "logistic"
    real: bool = True


# ---- problems -----------------------------------------------------------------------------------


def synthetic(
    rows: int,
    columns: int,
    *,
    condition: float = 1.0,
    offset: float = 0.0,
    density: float = 1.0,
    positives: float | None = None,
    signal: float = 2.0,
    seed: int = 0,
) -> tuple[Vector, Vector, float]:
    """Gaussian rows and logistic labels.

    Parameters
    ----------
    rows, columns : int
    condition : float
        Largest over smallest standard deviation, along random axes.
    offset : float
        Added to every entry.
    density : float
        Mean share of the entries that are not zero, from twice to a fifth of it by column.
    positives : float or None
        Share of labels +1; None takes no intercept.
    signal : float
        Standard deviation of the margins.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns))
    axes = np.geomspace(1.0, 1.0 / condition, columns)
    if density < 1.0:
        X *= rng.random(X.shape) < density * np.geomspace(2.0, 0.2, columns)
    if condition > 1.0:
        X = (X * axes) @ np.linalg.qr(rng.standard_normal((columns, columns)))[0]
        margins = X @ np.linalg.lstsq(X, rng.standard_normal(rows), rcond=None)[0]
    else:
        margins = X @ rng.standard_normal(columns)
    margins *= signal / margins.std()
    if positives is not None:
        margins = problems.with_positives(margins, positives)
    y = np.where(rng.logistic(size=rows) < margins, 1.0, -1.0)
    X += offset
    # As people declare bounds: with room to spare.
    bound = 1.5 * math.sqrt(density * columns * (float(np.mean(axes**2)) + offset**2))
    return X, y, bound


FAMILIES: dict[str, dict[str, Any]] = {
    "plain": {"rows": 10_000, "columns": 20},
    "few rows": {"rows": 1000, "columns": 10},
    "many rows": {"rows": 100_000, "columns": 20},
    "many columns": {"rows": 10_000, "columns": 200},
    "conditioning": {"rows": 10_000, "columns": 20, "condition": 1e3},
    "offset": {"rows": 10_000, "columns": 20, "condition": 30.0, "offset": 0.5},
    "sparse": {"rows": 10_000, "columns": 50, "density": 0.1},
    "rare": {"rows": 20_000, "columns": 10, "positives": 0.01},
    "no signal": {"rows": 10_000, "columns": 20, "signal": 1e-9},
    "strong signal": {"rows": 10_000, "columns": 20, "signal": 8.0},
}
_REAL: dict[str, Callable[[Path], problems.Dataset]] = {
    "Wine": problems.wine,
    "letter": problems.letter,
    "Bank": problems.bank,
    "a9a": problems.a9a,
    "MNIST-5k": problems.mnist,
}


def _cases(settings: Run, sizes: Sizes) -> Iterator[Case]:
    """Logistic problems: real tables, then the families."""
    if sizes.real:
        for name in ("RAND HIE", *_REAL):
            data = _real(name, settings)
            if data is not None:
                yield Case(name, data.X, data.y, data.data_norm)
    for name, family in FAMILIES.items():
        if sizes.families is None or name in sizes.families:
            rows = min(family["rows"], sizes.largest)
            yield Case(name, *synthetic(**{**family, "rows": rows}), real=False)


def _real(name: str, settings: Run) -> problems.Dataset | None:
    if name == "RAND HIE":
        return problems.randhie()
    return next(settings.tables({name: _REAL[name]}), None)


def _other_cases(settings: Run, sizes: Sizes) -> Iterator[Case]:
    """Other losses: SVM on Bank, regression on Wine's quality; synthetic where they are absent."""
    bank = _real("Bank", settings) if sizes.real else None
    if bank is not None:
        yield Case("Bank, SVM", bank.X, bank.y, bank.data_norm, "huberized-hinge")
    X, y, bound = synthetic(min(10_000, sizes.largest), 10, condition=30.0)
    name = "synthetic regression"
    noise = np.random.default_rng(1).standard_normal(len(y))
    y = np.clip(0.3 * X @ np.linspace(1.0, -1.0, 10) + 0.1 * noise, -1.0, 1.0)
    if sizes.real and settings.data is not None and _real("Wine", settings) is not None:
        wine = problems.wine(settings.data, target="quality")
        name, X, y, bound = "Wine quality", wine.X, wine.y, wine.data_norm
    for loss in ("squared", "huber", "pinball"):
        yield Case(f"{name}, {loss}", X, y, bound, loss, real=bank is not None)


def _class_cases(settings: Run, sizes: Sizes) -> Iterator[tuple[str, Vector, Vector, float]]:
    """Rows with more than two classes."""
    rng = np.random.default_rng(2)
    X, _, bound = synthetic(min(10_000, sizes.largest), 10)
    scores = X @ rng.standard_normal((10, 3)) + rng.gumbel(size=(len(X), 3))
    yield "three classes", X, np.argmax(scores, axis=1).astype(np.float64), bound
    if sizes.real:
        loaders = {"letter, 26 classes": problems.letter, "MNIST-5k, 10 classes": problems.mnist}
        for name, load in loaders.items():
            for data in settings.tables({name: partial(load, all_classes=True)}):
                if sizes.wide or data.X.shape[1] < _MANY_WEIGHTS:
                    yield name, data.X, data.y, data.data_norm


# ---- measuring ----------------------------------------------------------------------------------


def run(settings: Run, sizes: Sizes) -> list[Record]:
    records: list[Record] = []
    for case in _cases(settings, sizes):
        wide = case.X.shape[1] >= _MANY_WEIGHTS
        if wide and not sizes.wide:
            continue
        relations = _RELATIONS
        if wide or not (sizes.both and case.real):
            relations = _RELATIONS[1:] if case.real else _RELATIONS[:1]
        for relation in relations:
            records += _measure(settings, sizes, case, relation, sizes.epsilons, sizes.delta)
    for case in _other_cases(settings, sizes):
        records += _measure(settings, sizes, case, _RELATIONS[1], sizes.others, sizes.delta)
    for name in ("RAND HIE", "Bank"):
        data = _real(name, settings) if sizes.real else None
        if data is not None:
            case = Case(f"{name}, pure", data.X, data.y, data.data_norm)
            records += _measure(settings, sizes, case, _RELATIONS[0], sizes.others, 0.0)
    if sizes.classes:
        for name, X, y, bound in _class_cases(settings, sizes):
            records += _measure_classes(settings, sizes, name, X, y, bound)
    return records


def _measure(
    settings: Run, sizes: Sizes, case: Case, relation: str, epsilons: Sequence[float], delta: float
) -> list[Record]:
    from dpfast import Loss, Problem

    settings.say(f"  {case.name}, {relation}")
    problem = Problem(case.X, case.y, case.loss, data_norm=case.data_norm)
    judge = problem
    if problem.shape.loss.cornered:  # nobody asks for the loss with a corner rounded off
        sharp = Loss(case.loss, width=_SHARP)
        judge = Problem(case.X, case.y, sharp, data_norm=case.data_norm)
    least = problems.least_loss(judge)
    n = problem.shape.n_samples

    def excess(w: Vector) -> float:
        return judge.objective(w) / n - least

    where = {"n": n, "d": problem.shape.dim, "relation": relation, "delta": delta}
    constant = _record(case, where, MAJORITY, [excess(_constant(judge))])
    records = [constant]
    names = [name for name in GRIDS if sizes.solvers is None or name in sizes.solvers]
    if problem.shape.dim > _MANY_WEIGHTS:  # their noise averages out within one run
        tries = min(sizes.tries, sizes.wide_tries)
        sizes = replace(sizes, runs=max(2, sizes.runs - 2), tuning_runs=1, tries=tries)
    for epsilon in epsilons:
        here = {**where, "epsilon": epsilon, "real": int(case.real)}
        for name in (AUTO, *names):
            found = _solver(problem, name, epsilon, delta, relation, sizes, excess)
            if found is not None:
                chosen, sample = found
                more = {}
                if name == AUTO:
                    more["guess"] = _guess(problem, epsilon, delta, relation)
                records.append(_record(case, {**here, "chosen": chosen}, name, sample, **more))
        if relation == _RELATIONS[0] and case.loss == "logistic":
            sample = [excess(_published(problem, epsilon, delta, s)) for s in range(sizes.runs)]
            records.append(_record(case, here, PUBLISHED, sample))
    return records


def _measure_classes(
    settings: Run, sizes: Sizes, name: str, X: Vector, y: Vector, bound: float
) -> list[Record]:
    """Mean log-loss of several classes above its minimum."""
    from sklearn.linear_model import LogisticRegression as NonPrivate

    from dpfast import LogisticRegression

    settings.say(f"  {name}")
    relation, classes = _RELATIONS[1], np.unique(y)
    columns = np.searchsorted(classes, y)

    def loss(probabilities: Vector) -> float:
        chosen = probabilities[np.arange(len(y)), columns]
        return float(-np.mean(np.log(np.maximum(chosen, 1e-300))))

    free = NonPrivate(C=1e6, max_iter=1000, tol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where classes are separable there is no minimizer
        least = loss(free.fit(X, y).predict_proba(X))
    case = Case(name, X, y, bound, MULTINOMIAL, real=name != "three classes")
    where = {"n": len(y), "d": (X.shape[1] + 1) * len(classes), "relation": relation,
             "delta": sizes.delta}  # fmt: skip
    shares = np.bincount(columns) / len(y)
    records = [_record(case, where, MAJORITY, [float(-shares @ np.log(shares)) - least])]
    for epsilon in sizes.others:

        def runs(options: Mapping[str, Any], way: str, seeds: range, eps: float = epsilon) -> Any:
            model = LogisticRegression(
                eps, sizes.delta, data_norm=bound, classes=classes, neighboring_relation=relation,
                multi_class=way, solver_options=dict(options),
            )  # fmt: skip
            fits = (model.set_params(random_state=s).fit(X, y) for s in seeds)
            return [loss(fit.predict_proba(X)) - least for fit in fits]

        here = {**where, "epsilon": epsilon, "real": int(case.real)}
        final = range(2 if where["d"] > _MANY_WEIGHTS else sizes.runs)
        auto = runs({}, "auto", final)
        records.append(_record(case, {**here, "chosen": MULTINOMIAL}, AUTO, auto, guess=0.0))
        grid: list[dict[str, Any]] = [{}, *CLASSES_GRID[: sizes.tries]]
        tuning = range(1000, 1000 + min(sizes.tuning_runs, len(final)))
        best = min(grid, key=lambda options: statistics.fmean(runs(options, MULTINOMIAL, tuning)))
        sample = auto if not best else runs(best, MULTINOMIAL, final)
        chosen = {**here, "chosen": f"{MULTINOMIAL}, {_shown(best)}"}
        records.append(_record(case, chosen, "dp-whitened-gd", sample))
        sample = runs({}, "ovr", final)
        records.append(_record(case, {**here, "chosen": "defaults"}, ONE_AGAINST_THE_REST, sample))
    return records


def _record(
    case: Case,
    where: Mapping[str, Any],
    competitor: str,
    sample: Sequence[float],
    **more: float,
) -> Record:
    values = scores(excess=sample) | {"runs": float(len(sample)), **more}
    return Record(case.name, dict(where), competitor, values)


def _guess(problem: Any, epsilon: float, delta: float, relation: str) -> float:
    """What the plan expects the excess to be; 0 if it does not say."""
    from dpfast import Budget, plan

    budget = Budget(epsilon, delta)
    expected = plan(problem, AUTO, budget, neighboring_relation=relation).expected
    return float(expected.get("excess_risk_guess", 0.0))


def _solver(
    problem: Any,
    name: str,
    epsilon: float,
    delta: float,
    relation: str,
    sizes: Sizes,
    excess: Callable[[Vector], float],
) -> tuple[str, list[float]] | None:
    """The options chosen and the excesses of fresh runs; None if the solver does not serve this."""
    from dpfast import Budget, plan, solve

    budget = Budget(epsilon, delta)

    def runs(options: Mapping[str, Any], seeds: range) -> list[float]:
        settled = _settled(name, options, problem.shape)
        return [
            excess(
                solve(
                    problem, name, budget, neighboring_relation=relation, random_state=s, **settled
                ).w
            )
            for s in seeds
        ]

    if name == AUTO:
        settled = plan(problem, name, budget, neighboring_relation=relation)
        return settled.solver, runs({}, range(sizes.runs))
    try:
        plan(problem, name, budget, neighboring_relation=relation)
    except ValueError:
        return None
    best: tuple[float, Mapping[str, Any]] = (math.inf, {})
    grid = [{}, *GRIDS[name][: sizes.tries]] if GRIDS[name] else []
    for options in grid:
        value = statistics.fmean(runs(options, range(1000, 1000 + sizes.tuning_runs)))
        if value < best[0]:
            best = value, options
    options = best[1]
    return _shown(options), runs(options, range(sizes.runs))


def _shown(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value:g}" for key, value in options.items()) or "defaults"


def _settled(name: str, options: Mapping[str, Any], shape: Any) -> dict[str, Any]:
    """Options of a grid in the solver's own units."""
    settled = dict(options)
    if "margin" in settled:  # of a longest row
        settled["minimizer_norm"] = settled.pop("margin") / shape.row_norm
    if "share" in settled:
        settled["clip_norm"] = settled.pop("share") * shape.loss.lipschitz * shape.row_norm
    return settled


def _constant(problem: Any) -> Vector:
    """The best weights with nothing but an intercept."""
    w = np.zeros(problem.shape.dim)

    def loss(b: float) -> float:
        w[-1] = b
        return float(problem.objective(w))

    w[-1] = scipy.optimize.minimize_scalar(loss, bounds=(-20.0, 20.0), method="bounded").x
    return w


def _published(problem: Any, epsilon: float, delta: float, seed: int) -> Vector:
    """Objective perturbation as the papers have it, with floating-point noise, solved exactly."""
    from dpfast.objectives import Erm, LinearTerm
    from dpfast.optimizers import OPTIMIZERS

    rng = np.random.default_rng(seed)
    shape = problem.shape
    n, d, slope, curvature = shape.n_samples, shape.dim, shape.lipschitz, shape.smoothness
    direction = rng.standard_normal(d)
    if delta > 0.0:
        ridge = 2.0 * curvature / epsilon
        deviation = slope * math.sqrt(8.0 * math.log(2.0 / delta) + 4.0 * epsilon) / epsilon
        b = deviation * direction
    else:
        # Their e' = e - 2 log(1 + c/(n Lambda)), with the ridge that makes it e/2.
        ridge = curvature / math.expm1(epsilon / 4.0)
        scale = 2.0 * slope / (epsilon / 2.0)
        b = rng.gamma(d, scale) * direction / np.linalg.norm(direction)
    objective = LinearTerm(Erm(problem, ridge / n), b / n)
    return np.asarray(OPTIMIZERS["newton"](objective, tolerance=1e-6 * slope).w)


# ---- reporting ----------------------------------------------------------------------------------


def frontier(records: Sequence[Record]) -> list[dict[str, Any]]:
    """For each problem, relation and budget: auto, the oracle's best solver, and how they compare.

    `ratio` is auto's excess over the best one's, `behind` the difference in standard errors.
    """
    where = ("group", "relation", "delta")
    majority = index(pick(records, competitor=MAJORITY), *where)
    cells = grouped((r for r in records if "epsilon" in r.case), *where, "epsilon")
    found = []
    for (*key, epsilon), members in cells.items():
        (auto,) = pick(members, competitor=AUTO)
        rivals = [r for r in members if r is not auto]
        if not rivals:
            continue
        best = min(rivals, key=lambda r: r.values["excess"])
        error = math.hypot(*(r.values["excess_standard_error"] for r in (auto, best)))
        apart = auto.values["excess"] - best.values["excess"]
        found.append(
            {
                "name": key[0], "relation": key[1], "delta": key[2], "epsilon": epsilon,
                "real": bool(auto.case["real"]), "auto": auto, "best": best,
                "majority": majority[tuple(key)],
                "ratio": auto.values["excess"] / max(best.values["excess"], 1e-12),
                "behind": apart / error if error > 0.0 else math.copysign(math.inf, apart),
            }
        )  # fmt: skip
    return found


def tables(document: Document) -> list[Table]:
    lines = frontier(document.records)
    kept = [line for line in lines if line["ratio"] <= 1.1 or line["behind"] <= 0.0]
    beaten = [line for line in lines if line["ratio"] > 1.1 and line["behind"] > 2.0]
    short = {
        "cells (problem, relation, epsilon)": len(lines),
        "auto within 10 % of the oracle's best solver, or better": len(kept),
        "auto more than 10 % and more than two standard errors behind it": len(beaten),
        "auto worse than the majority by more than two standard errors": sum(
            map(_worse_than_majority, lines)
        ),
    }
    text = (
        "`guess` is the excess that auto's plan expects, before it sees any row. Excess is the "
        "mean loss on the training rows, without the rounding off of corners, above its minimum; "
        f"delta = {document.sizes['delta']:g} unless pure."
    )
    found = [Table("In short", text, ("what", "cells"), [(k, str(n)) for k, n in short.items()])]
    header = ("relation", "epsilon", "auto", "its solver", "best tuned", "its solver", "ratio",
              "guess")  # fmt: skip
    excess = mean("excess", 5)
    for name in dict.fromkeys(line["name"] for line in lines):
        own = [line for line in lines if line["name"] == name]
        case = own[0]["auto"].case
        text = (
            f"{plain(case['n'])} rows, {plain(case['d'])} weights; the majority has an excess of "
            f"{own[0]['majority'].values['excess']:.4f}."
        )
        rows = [
            (
                str(line["relation"]),
                plain(line["epsilon"]),
                excess(line["auto"]),
                str(line["auto"].case["chosen"]),
                excess(line["best"]),
                _named(line["best"]),
                f"{line['ratio']:.2f}",
                f"{line['auto'].values['guess']:.4f}",
            )
            for line in own
        ]
        found.append(Table(name, text, header, rows))
    return found


def _worse_than_majority(line: Mapping[str, Any]) -> bool:
    auto, majority = line["auto"].values, line["majority"].values
    return bool(auto["excess"] > majority["excess"] + 2.0 * auto["excess_standard_error"])


def _named(record: Record) -> str:
    settings = record.case.get("chosen")
    return f"{record.competitor} ({settings})" if settings else record.competitor


def draw(document: Document, figure: Any) -> None:
    """Excess over epsilon, a panel a problem, one relation each."""
    records = [
        replace(r, values={**r.values, "shown": max(r.values["excess"], 1e-5)})
        for r in document.records
        if r.case["delta"]
    ]
    by_name = {  # under the first relation that was measured
        name: pick(own, relation=own[0].case["relation"])
        for name, own in grouped(records, "group").items()
    }
    axes = panels(figure, len(by_name) + 1, 4, (3.4, 2.4))  # one more for the guesses
    _draw_guesses(axes[len(by_name)], document.records)
    shown = {r.competitor for own in by_name.values() for r in own}
    labels = [name for name in COMPETITORS if name in shown]
    colors = {name: f"C{i}" for i, name in enumerate(n for n in labels if n != MAJORITY)}
    styles = {name: {"color": color, "linewidth": 1.0} for name, color in colors.items()}
    styles[AUTO] = {"color": "black", "linewidth": 2.0, "marker": "o", "markersize": 4}
    for axis, (name, own) in zip(axes, by_name.items(), strict=False):
        for competitor in labels:
            found = pick(own, competitor=competitor)
            if competitor != MAJORITY:
                curve(axis, found, "epsilon", "shown", label=competitor, **styles[competitor])
            elif found:
                level = found[0].values["excess"]
                axis.axhline(level, color="0.5", linestyle="--", label=competitor)
        axis.set_yscale("log")
        ticks(axis, sorted({r.case["epsilon"] for r in own if "epsilon" in r.case}))
        low, high = axis.get_ylim()
        if high < 30.0 * low:  # a power of ten on its own is no scale
            marks = [m * 10.0**k for k in range(-6, 2) for m in (1, 2, 5)]
            axis.set_yticks([t for t in marks if low <= t <= high])
            axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.tick_params(labelsize=8)
        axis.set_title(name, fontsize=9)
        axis.set_xlabel("epsilon", fontsize=8)
    for axis in axes[: len(by_name) : 4]:
        axis.set_ylabel("excess loss")
    legend(figure)


def _draw_guesses(axis: Any, records: Sequence[Record]) -> None:
    """What auto's plans expected, and what it was."""
    for real, color in ((1, "C0"), (0, "C1")):
        own = [r.values for r in pick(records, competitor=AUTO, real=real)]
        points = [(v["guess"], max(v["excess"], 1e-5)) for v in own if v.get("guess")]
        axis.plot(*np.reshape(points, (-1, 2)).T, "o", markersize=3, color=color)
    limits = [1e-5, 1.0]
    axis.plot(limits, limits, color="0.5", linewidth=1.0)
    axis.set(xscale="log", yscale="log", xlabel="excess that the plan expects")
    axis.set_title("auto (blue: real tables)", fontsize=9)
