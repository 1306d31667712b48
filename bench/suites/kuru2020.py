"""The experiments of Kuru et al. 2020, Figures 1 to 4: six first-order methods at epsilon = 1."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bench import iteration_cost
from bench.arrange import curve, grouped, index, legend, mean, panels, pick, spread, ticks
from bench.harness import Document, Record, Run
from bench.report import NAMED, Table, case, plain, rows_of, value

NAME = "kuru2020"
TITLE = "Private first-order methods at pure epsilon (Kuru et al. 2020)"
METHODS = ("dp-gd", "dp-hb", "dp-nag", "dp-masg", "dp-nag-opt", "dp-masg-opt")
COMPETITORS = dict.fromkeys(METHODS, "epsilon-DP (replace one), exact Laplace noise") | {
    "published code": "epsilon = 1, its Laplace scale corrected (means of its own runs)"
}
_ERROR = "final error"
_BEST = "best number of iterations"
_AUTO = "planned"
_CERTIFIED = "certificates"
_RATE = "rate of the heavy ball"
_BOUND = "bound of the heavy ball"
_NOISE = "best noise"
# The authors' code with its noise scale corrected, full batch, c = 1, start 10: mean F - F*.
_PUBLISHED = {
    "dp-gd": (13.9, 0.014, 0.075, 0.344),
    "dp-hb": (0.015, 0.181, 0.768, 1.76),
    "dp-nag": (0.044, 0.076, 0.444, 2.09),
    "dp-masg": (0.031, 0.014, 0.082, 0.134),
    "dp-nag-opt": (0.0074, 0.012, 0.016, 0.010),
    "dp-masg-opt": (0.0064, 0.011, 0.0069, math.nan),
}
_PUBLISHED_T = (100, 200, 500, 1000)
_ALPHA = 0.02  # twice the paper's lambda = 0.01
# Figure 1: curvatures, steps, momenta (None: the one of Nesterov's method) and noise sqrt(.)/T.
_CURVATURES = (0.5, 1.0)
_STEPS = (0.1, 0.5, 1.0)
_MOMENTA = (0.0, 0.3, 0.7, None)
_NOISES = (1e-4, 1e-2)
# Figure 2: stages.
_STAGES = (2, 3, 4, 5)
# Steps, in 1/L, and momenta between which Proposition 3.4's bounds are minimized.
_CERTIFIED_STEPS = (0.5, 0.35, 0.2, 0.1, 0.05, 0.02, 0.01)
_RESTS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0)


@dataclass(frozen=True)
class Sizes:
    """Rows, columns, samples, iterations, step sizes c, and draws of data and of noise.

    Data are drawn with the seeds 0, 1, 2, ..., which were not chosen; `runs` have other noise.
    `finer` are numbers of iterations at which gradient descent and the heavy ball are compared.
    """

    n: int = 100_000
    d: int = 20
    batches: tuple[int, ...] = (100_000, 1000)
    iterations: tuple[int, ...] = (100, 200, 500, 1000)
    steps: tuple[float, ...] = (0.1, 1.0)
    draws: int = 5
    runs: int = 1
    finer: tuple[int, ...] = (20, 40, 60, 80, 100, 120, 150, 200, 250, 300, 500, 1000)
    finer_steps: tuple[float, ...] = (1.0,)
    epsilon: float = 1.0
    cost_shapes: tuple[tuple[int, int], ...] = ((1_000_000, 20), (500_000, 120))


FULL = Sizes()
QUICK = Sizes(
    20_000, 10, (20_000, 500), (20, 50), (1.0,), 2, 1, (10, 20, 50), (1.0,),
    cost_shapes=((100_000, 20),),
)  # fmt: skip


def run(settings: Run, sizes: Sizes) -> list[Record]:
    data = [_data(sizes, seed) for seed in range(sizes.draws)]
    records = _heavy_ball() + _best_noise() + _certificates(sizes)
    for start in (10.0, 0.0):
        at = np.full(sizes.d, start)
        errors = [problem.value_and_gradient(at)[0] - optimum for problem, optimum in data]
        values = {"error": float(np.mean(errors)), "least": min(errors), "largest": max(errors)}
        records.append(Record("start", {"start": start}, "-", values))
        settings.say(f"  start {start:g}: F - F* = {values['error']:.3g}")
    for batch in sizes.batches:
        for c in sizes.steps:
            for start in (10.0, 0.0):
                if start == 0.0 and c != sizes.steps[-1]:
                    continue
                settings.say(f"  {batch:,} rows a gradient, c = {c:g}, start {start:g}")
                records += [
                    _descents(data, name, sizes, start, batch, c, T)
                    for T in sizes.iterations
                    for name in METHODS
                ]
    settings.say("  gradient descent and the heavy ball, by their best number of iterations")
    records += _best_lengths(data, sizes)
    settings.say("  planned")
    records += _planned(data, sizes)
    return records + iteration_cost.measure(settings, METHODS, sizes.cost_shapes)


def _data(sizes: Sizes, seed: int) -> tuple[Any, float]:
    """A problem, and its least value."""
    from dpfast import Problem
    from dpfast.datasets import make_uniform_classification
    from dpfast.objectives import Erm
    from dpfast.optimizers import OPTIMIZERS

    X, y = make_uniform_classification(sizes.n, sizes.d, seed=seed)
    # float32 takes half the time to read; on the unit cube it rounds by 3e-8.
    X = X.astype(np.float32)
    problem = Problem(X, y, data_norm=math.sqrt(sizes.d), intercept=0.0, alpha=_ALPHA)
    best = OPTIMIZERS["newton"](Erm(problem, _ALPHA), tolerance=1e-10).w
    return problem, float(problem.value_and_gradient(best)[0])


def _fits(
    data: list[tuple[Any, float]], name: str, sizes: Sizes, **options: Any
) -> Iterator[tuple[Any, Callable[[Any], float], int]]:
    """Runs on every draw of the data, with the error of weights there and the draw's number."""
    from dpfast import Budget, solve

    for draw, (problem, optimum) in enumerate(data):

        def error(w: Any, problem: Any = problem, optimum: float = optimum) -> float:
            return float(problem.value_and_gradient(w)[0]) - optimum

        for k in range(sizes.runs):
            seed = draw * sizes.runs + k
            given = {"data_l1_norm": float(sizes.d), "random_state": seed, **options}
            yield solve(problem, name, Budget(sizes.epsilon), **given), error, draw


def _descents(
    data: list[tuple[Any, float]],
    name: str,
    sizes: Sizes,
    start: float,
    batch: int,
    c: float,
    T: int,
) -> Record:
    """Mean error at the end and on the way, over draws of data and of noise."""
    options = _options(name, sizes, start, batch, c, T)
    last: list[float] = []
    errors: dict[int, list[float]] = {}
    for result, error, _ in _fits(data, name, sizes, keep_iterates=True, **options):
        iterates = result.history["iterates"]
        length = len(iterates)
        at = np.unique(np.round(np.geomspace(1, length, min(length, 32))).astype(int))
        errors.setdefault(0, []).append(error(options["w0"]))
        for t in map(int, at):
            errors.setdefault(t, []).append(error(iterates[t - 1]))
        last.append(errors[length][-1])
    values = spread(last) | {
        "iterations": length,
        "bound": float(result.plan.expected["excess_risk_bound"]),
    }
    values |= {f"after {t}": float(np.mean(found)) for t, found in errors.items()}
    return Record(_ERROR, {"start": start, "batch": batch, "c": c, "T": T}, name, values)


def _best_lengths(data: list[tuple[Any, float]], sizes: Sizes) -> list[Record]:
    """Errors of gradient descent and the heavy ball by draw, at more numbers of iterations."""
    records = []
    for start in (10.0, 0.0):
        for c in sizes.finer_steps:
            for name in ("dp-gd", "dp-hb"):
                for T in sizes.finer:
                    options = _options(name, sizes, start, sizes.n, c, T)
                    by_draw: list[list[float]] = [[] for _ in data]
                    for result, error, draw in _fits(data, name, sizes, **options):
                        by_draw[draw].append(error(result.w))
                    values = {f"draw {k}": float(np.mean(v)) for k, v in enumerate(by_draw)}
                    case = {"start": start, "c": c, "T": T}
                    records.append(Record(_BEST, case, name, values))
    return records


def _planned(data: list[tuple[Any, float]], sizes: Sizes) -> list[Record]:
    """What the methods do when step, momentum and iterations are left to their bounds."""
    records = []
    plans: tuple[tuple[str, dict[str, Any]], ...] = (
        *((name, {}) for name in METHODS),
        ("dp-hb", {"bound": "strongly convex"}),
        *((name, {"max_iterations": 100}) for name in METHODS),
    )
    for name, options in plans:
        errors = []
        for result, error, _ in _fits(data, name, sizes, **options):
            errors.append(error(result.w))
        settings = result.plan.settings
        smoothness = 0.25 * sizes.d + _ALPHA
        values = spread(errors) | {
            "iterations": settings.iterations,
            "c": settings.step * smoothness,
            "momentum": settings.momentum,
            "bound": float(result.plan.expected["excess_risk_bound"]),
            "holds": float(settings.bound == "strongly convex"),
        }
        case = {"options": ", ".join(f"{k}={v!r}" for k, v in options.items())}
        records.append(Record(_AUTO, case, name, values))
    return records


def _certificates(sizes: Sizes) -> list[Record]:
    """Proposition 3.4: least bounds over steps and momenta, by the certificates used."""
    from dpfast.theory import kuru2020 as theory

    mu, smoothness, dim = _ALPHA, 0.25 * sizes.d + _ALPHA, sizes.d
    settings = []
    for c in _CERTIFIED_STEPS:
        step = c / smoothness
        rest = 1.0 - theory.largest_momentum(step, mu, smoothness)
        settings += [(step, 1.0 - k * rest) for k in _RESTS if k * rest < 1.0]
    records = []
    for T in sizes.iterations:
        # Laplace noise of T equal shares, and the paper's guess of the first error.
        variance = 2.0 * (2.0 * sizes.d * T / (sizes.n * sizes.epsilon)) ** 2

        def bound(response: Any, variance: float = variance) -> float:
            return float(response.bound(10.0, variance))

        best = {"simple": math.inf, "grid": math.inf, "lookahead": math.inf, "quadratic": math.inf}
        for step, momentum in settings:
            given = (step, momentum, mu, smoothness)
            closed = [theory.simple_certificate(*given), theory.lookahead_certificate(*given)]
            grid = theory.heavy_ball_certificates(*given)
            kinds = {"simple": closed[:1], "lookahead": closed[1:], "grid": grid}
            for kind, certificates in kinds.items():
                for found in certificates:
                    if found is not None:
                        decay = found.decay(step, mu, smoothness, dim)
                        best[kind] = min(best[kind], bound(decay.response(T)))
        for c in (*_CERTIFIED_STEPS, 1.0):
            step = c / smoothness
            momentum = (1.0 - math.sqrt(step * mu)) ** 2
            paths = theory.quadratic_paths(T, step, momentum, np.geomspace(mu, smoothness, 24))
            worst = theory.Response(paths[0][:, T].max(), dim * paths[1].max(axis=0))
            best["quadratic"] = min(best["quadratic"], bound(worst))
        nesterov = theory.nesterov_decay(1.0 / smoothness, mu, smoothness, dim)
        best["nesterov"] = bound(nesterov.response(T))
        records.append(Record(_CERTIFIED, {"T": T}, "dp-hb", best))
    return records


def _options(name: str, sizes: Sizes, start: float, batch: int, c: float, T: int) -> dict[str, Any]:
    """The paper's settings; its T' <= T of the least bound for the guess E_0 = 10."""
    from dpfast import Budget, ProblemShape, plan

    options: dict[str, Any] = {
        "alpha": _ALPHA,
        "iterations": T,
        "step": c,
        "data_l1_norm": float(sizes.d),
        "w0": np.full(sizes.d, start),
        "initial_error": 10.0,
    }
    if batch != sizes.n:
        options["batch"] = batch
    root = math.sqrt((0.25 * sizes.d + _ALPHA) / _ALPHA)
    if name == "dp-hb":
        momentum = math.sqrt(c) / root
        options["momentum"] = (1.0 - momentum) / (1.0 + momentum)
    if name.startswith("dp-masg"):
        # Which the theory leaves open; as the authors' code has it.
        options["first_stage"] = math.ceil(2.0 * root * math.log(root))
    if name.endswith("-opt"):
        shape = ProblemShape(sizes.n, sizes.d, math.sqrt(sizes.d), intercept=0.0, alpha=_ALPHA)
        grid = np.unique(np.round(np.geomspace(min(5, T), T, 24)).astype(int))
        options["iterations"] = int(
            min(
                grid,
                key=lambda length: plan(
                    shape, name, Budget(sizes.epsilon), **{**options, "iterations": int(length)}
                ).expected["excess_risk_bound"],
            )
        )
    return options


def _heavy_ball() -> list[Record]:
    """Figure 1: Theorem 3.5 on a quadratic, for noise that grows with the iterations paid for."""
    from bench.papers import kuru2020 as bounds
    from dpfast.theory import kuru2020 as theory

    records = []
    for step in _STEPS:
        for momentum in np.linspace(0.0, 0.98, 50):
            values = {
                "heavy ball": bounds.heavy_ball_rate(step, momentum, _CURVATURES),
                "Nesterov": bounds.nesterov_rate(step, momentum, _CURVATURES),
            }
            records.append(Record(_RATE, {"step": step, "momentum": momentum}, "-", values))
        for noise in _NOISES:
            for momentum in _MOMENTA:
                used = theory.nesterov_momentum(step, min(_CURVATURES))
                used = used if momentum is None else momentum
                values = {
                    f"T = {T}": bounds.heavy_ball_quadratic_bound(
                        int(T), step, used, _CURVATURES, initial_error=10.0,
                        variance=(T * noise) ** 2,
                    )
                    for T in np.unique(np.round(np.geomspace(1, 250, 40)).astype(int))
                }  # fmt: skip
                case = {"step": step, "noise": noise,
                        "momentum": "best" if momentum is None else momentum}  # fmt: skip
                records.append(Record(_BOUND, case, "-", values))
    return records


def _best_noise() -> list[Record]:
    """Figure 2: best Laplace scales of MASG for mu = 1, L = 20, in units of S_1 / (n epsilon)."""
    from dpfast.theory import kuru2020 as theory

    mu, smoothness = 1.0, 20.0
    root = math.sqrt(smoothness / mu)
    first = math.floor(2.0 * root * math.log(root))
    records = []
    for K in _STAGES:
        length = first + math.ceil(root * math.log(8.0)) * (2 ** (K + 1) - 4)
        stages = theory.multistage(length, 1.0 / smoothness, mu, smoothness, p=1, first=first)
        response = theory.accelerated_response(stages, mu, smoothness, 1)
        scales = 1.0 / theory.optimal_shares(response.noise, 2, ratio=1.0)
        # Both ends of every stage, and some points between.
        ends = np.cumsum([0, *(stage.length for stage in stages)])
        shown = {*ends[:-1], *(ends[1:] - 1), *np.linspace(0, length - 1, 60).astype(int)}
        values = {f"t = {t + 1}": float(scales[t]) for t in sorted(map(int, shown))}
        records.append(Record(_NOISE, {"stages": K, "T": length}, "dp-masg-opt", values))
    return records


# ---- report -------------------------------------------------------------------------------------


def _is_published(document: Document, *setting: float) -> bool:
    """Whether the authors' code was run so: start, rows a gradient, c."""
    sizes = document.sizes
    return (*setting, sizes["n"], sizes["d"]) == (10.0, 100_000, 1.0, 100_000, 20)


def tables(document: Document) -> list[Table]:
    errors = pick(document.records, group=_ERROR)
    return [
        _best_table(document),
        _planned_table(document),
        _certified_table(document),
        *(
            _error_table(document, setting, here)
            for setting, here in grouped(errors, "start", "batch", "c").items()
        ),
        iteration_cost.table(document, dict.fromkeys(METHODS, 1.0)),
        rows_of(
            "Where the methods start",
            "F - F* before the first iteration: what a method must beat to be of use. Over the "
            "draws of the data, whose seeds are 0, 1, 2 and so on.",
            pick(document.records, group="start"),
            {"start": case("start"), "mean": value("error", "{:.3g}".format)}
            | {key: value(key, "{:.3g}".format) for key in ("least", "largest")},
        ),
    ]


def _error_table(document: Document, setting: tuple[float, int, float], here: Any) -> Table:
    """Errors at the end, by method and number of iterations."""
    start, batch, c = setting
    compare = _is_published(document, *setting)
    cells = index(here, "competitor", "T")
    text = (
        f"Mean of F - F* at the end over {plain(here[0].values['runs'])} runs, with its standard "
        f"error: {document.sizes['draws']} draws of the data, each with "
        f"{document.sizes['runs']} of the noise."
    )
    if compare:
        text += (
            " In brackets: the authors' code, noise corrected, on its one draw of the data, where "
            "the starts have F - F* = 71.5 and 0.173. The number of its runs behind a mean is not "
            "known."
        )
    return Table(
        f"Start {start:g}, {plain(batch)} rows a gradient, c = {c:g}",
        text,
        ("method", *(f"T = {T}" for T in grouped(here, "T"))),
        [
            (name, *(_cell(cells[name, T], T, name, compare) for T in grouped(here, "T")))
            for name in METHODS
        ],
    )


def _cell(record: Record, T: int, name: str, compare: bool) -> str:
    text = mean(record)
    if record.values["iterations"] != T:
        text += f" (T'={int(record.values['iterations'])})"
    if compare and T in _PUBLISHED_T:
        value = _PUBLISHED[name][_PUBLISHED_T.index(T)]
        text += f" [{value:g}]" if math.isfinite(value) else " [-]"
    return text


def _planned_table(document: Document) -> Table:
    return rows_of(
        "What is planned when nothing is given",
        "Step, momentum and iterations by the bounds, start 0, full batches, alpha = 0.02. "
        "The bound counts the ridge, and holds for every loss or, of the heavy ball, for "
        "quadratics alone.",
        pick(document.records, group=_AUTO),
        {
            "method": NAMED["competitor"],
            "options": lambda r: str(r.case["options"]) or "-",
            "T": value("iterations", "{:.0f}".format),
            "c": value("c", "{:.2g}".format),
            "momentum": value("momentum", "{:.3f}".format),
            "bound": value("bound", "{:.2g}".format),
            "holds for": lambda r: "every loss" if r.values["holds"] else "quadratics",
            "F - F*": mean,
        },
    )


def _certified_table(document: Document) -> Table:
    kinds = {"closed form": "simple", "grid": "grid", "lookahead": "lookahead",
             "quadratics": "quadratic", "Nesterov": "nesterov"}  # fmt: skip
    return rows_of(
        "Proposition 3.4: bounds of the heavy ball",
        "Least over steps and momenta, for the guess E_0 = 10 and Laplace noise, epsilon = 1: "
        "by the closed form for gradient steps, by all certificates with the grid search, by "
        "the closed form for lookahead points, for quadratics alone; and Nesterov's bound at "
        "c = 1.",
        pick(document.records, group=_CERTIFIED),
        {"T": case("T")} | {k: value(kind, "{:.3g}".format) for k, kind in kinds.items()},
    )


def _best_table(document: Document) -> Table:
    """The paper's comparison of DP-GD and DP-HB by their best T, draw by draw."""
    listed, rows = document.sizes["iterations"], []
    for (start, c), here in grouped(pick(document.records, group=_BEST), "start", "c").items():
        for which in ("of the paper", "of all"):
            cells, best = [], {}
            for name, found in grouped(here, "competitor").items():
                tried = [r for r in found if which == "of all" or r.case["T"] in listed]
                least = min(tried, key=lambda r: statistics.fmean(r.values.values()))
                best[name] = list(least.values.values())
                shown = Record(_BEST, {}, name, spread(best[name]))
                cells.append(f"{mean(shown)} (T = {int(least.case['T'])})")
            won = sum(a < b for a, b in zip(best["dp-hb"], best["dp-gd"], strict=True))
            row = (f"{start:g}", f"{c:g}", which, *cells, f"{won} of {len(best['dp-hb'])}")
            rows.append(row)
    return Table(
        "The best of DP-HB against the best of DP-GD",
        "The paper: 'the best of DP-HB (at T = 100) outperforms the best of DP-GD (at T = 1000)', "
        "of T = 100, 200, 500, 1000. Mean F - F* over the draws, full batches, at the number of "
        "iterations where it is least, of the paper's four and of all that were tried; and on how "
        "many draws of the data the heavy ball was better.",
        ("start", "c", "T", "dp-gd", "dp-hb", "dp-hb better"),
        rows,
    )


def draw(document: Document, figure: Any) -> None:
    """Final error over the number of iterations, one panel a setting."""
    errors = grouped(pick(document.records, group=_ERROR), "start", "batch", "c")
    (zero,) = pick(document.records, group="start", start=0.0)
    axes = panels(figure, len(errors), 3, (4.4, 3.4), sharey=True)
    for axis, ((start, batch, c), here) in zip(axes, errors.items(), strict=True):
        for name, found in grouped(here, "competitor").items():
            style = "o-" if name.endswith("-opt") else "o--"
            color = f"C{METHODS.index(name.removesuffix('-opt'))}"
            curve(axis, found, "T", "error", fmt=style, color=color, label=name, markersize=4)
            if _is_published(document, start, batch, c):
                label = "published code, repaired" if name == METHODS[0] else None
                axis.plot(_PUBLISHED_T, _PUBLISHED[name], "x", color=color, label=label)
        axis.axhline(zero.values["error"], color="0.5", linewidth=0.8, linestyle=":", label="w = 0")
        axis.set(yscale="log", xlabel="iterations allowed, T")
        ticks(axis, document.sizes["iterations"])
        axis.set_title(f"start {start:g}, {plain(batch)} rows, c = {c:g}", fontsize=10)
    axes[0].set_ylabel("F - F* at the end")
    legend(figure)


def _draw_heavy_ball(document: Document, figure: Any) -> None:
    """Figure 1: bounds over T for two kinds of noise, and the rate over the momentum."""
    rates = grouped(pick(document.records, group=_RATE), "step")
    bounds = grouped(pick(document.records, group=_BOUND), "noise", "step")
    axes = panels(figure, len(bounds) + len(rates), len(rates), (3.7, 2.7))
    for axis, ((noise, step), here) in zip(axes, sorted(bounds.items()), strict=False):
        for k, record in enumerate(here):
            momentum = record.case["momentum"]
            axis.plot(*_points(record, "T = "), "k-." if momentum == "best" else f"C{k}-",
                      label=f"momentum {momentum}")  # fmt: skip
        axis.set(yscale="log", xlabel="T", ylim=(1e-6, 1e5), ylabel="bound of F - F*")
        axis.set_title(f"step {step:g}, noise {noise:g} T", fontsize=10)
    for axis, (step, here) in zip(axes[len(bounds) :], rates.items(), strict=True):
        for kind, style in (("heavy ball", "-"), ("Nesterov", ":")):
            curve(axis, here, "momentum", kind, fmt=style, label=kind)
        axis.set(xlabel="momentum", ylabel="rate", ylim=(0.25, 1.0))
        axis.set_title(f"rate, step {step:g}", fontsize=10)
    axes[len(rates) - 1].legend(frameon=False, fontsize=7)
    axes[-1].legend(frameon=False, fontsize=7, title="(26) is Nesterov's", title_fontsize=7)


def _draw_best_noise(document: Document, figure: Any) -> None:
    """Figure 2: the best scales of Laplace noise, by iteration."""
    records = pick(document.records, group=_NOISE)
    axes = panels(figure, len(records), len(records), (3.0, 2.1))
    for axis, record in zip(axes, records, strict=True):
        axis.plot(*_points(record, "t = "))
        axis.set(xlabel="t", ylim=(0, None))
        axis.set_title(f"{record.case['stages']} stages, T = {record.case['T']}", fontsize=10)
    axes[0].set_ylabel("noise scale, in S1 / (n epsilon)")


def _points(record: Record, prefix: str) -> tuple[list[int], list[float]]:
    found = {int(k.removeprefix(prefix)): v for k, v in record.values.items() if prefix in k}
    return list(found), list(found.values())


def _draw_traces(document: Document, figure: Any, batch_index: int) -> None:
    """Figures 3 and 4: errors on the way, a row for each c, a color for each T."""
    sizes = document.sizes
    here = pick(document.records, group=_ERROR, batch=sizes["batches"][batch_index])
    found = grouped(here, "c", "competitor")
    axes = panels(figure, len(found), len(METHODS), (2.6, 2.9), sharex=True, sharey=True)
    for axis, ((c, name), records) in zip(axes, found.items(), strict=True):
        for record in records:
            known, errors = _points(record, "after ")
            k = sizes["iterations"].index(record.case["T"])
            far = record.case["start"] != 0.0
            axis.plot(np.add(known, 1), errors, color=f"C{k}", linestyle="-" if far else ":",
                      linewidth=1.2, label=f"T = {record.case['T']}" if far else None)  # fmt: skip
        axis.set(xscale="log", yscale="log")
        axis.set_title(f"{name}, c = {c:g}", fontsize=9)
    for axis in axes[-len(METHODS) :]:
        axis.set_xlabel("iterations + 1")
    for axis in axes[:: len(METHODS)]:
        axis.set_ylabel("F - F*")
    axes[0].legend(frameon=False, fontsize=7, title="dotted: from 0", title_fontsize=7)


FIGURES: dict[str, Callable[[Document, Any], None]] = {
    "Figure 1: Theorem 3.5 for the heavy ball on a quadratic": _draw_heavy_ball,
    "Figure 2: the best division of noise for MASG": _draw_best_noise,
    "Figure 3: errors on the way, full batches": partial(_draw_traces, batch_index=0),
    "Figure 4: errors on the way, samples": partial(_draw_traces, batch_index=1),
}
