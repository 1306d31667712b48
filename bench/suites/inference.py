"""Whether private intervals hold, how wide they are, and when they are refused.

Tables, real and made, are populations: rows are drawn from them with replacement, and the truth is
the fit to the whole population.  An interval is counted where it is printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.harness import Document, Record, Run
from bench.problems import real
from bench.report import Table, plain

Rows = NDArray[np.float64]

NAME = "inference"
TITLE = "Private standard errors: coverage, width, refusals"
ROBUST, TRUSTING = "robust", "nonrobust"
NAIVE, TEXTBOOK = "noise ignored", "not private"
COMPETITORS = {
    ROBUST: "(epsilon, delta)-DP, add_or_remove_one: inference=True, cov_type='robust'",
    TRUSTING: "the same with cov_type='nonrobust'",
    NAIVE: "none: the default solver's private coefficients, with the textbook's standard errors",
    TEXTBOOK: "none: maximum likelihood, or least squares, with robust standard errors",
}
_DELTA, _Z = 1e-6, 1.959963984540054
# A coordinate whose interval is printed less often is not looked at by itself.
_OFTEN = 0.3


@dataclass(frozen=True)
class Sizes:
    """Repetitions, those on tables of more than 20 columns, rows of populations, and budgets."""

    repetitions: int
    wide_repetitions: int
    population: int
    epsilons: tuple[float, ...]
    rows: int = 15_000
    wide_rows: int = 45_000
    families: tuple[str, ...] = ()
    real: bool = True


FULL = Sizes(300, 100, 300_000, (1.0, 2.0))
QUICK = Sizes(20, 4, 50_000, (1.0,), families=("plain", "linear, plain"), real=False)


@dataclass(frozen=True)
class Population:
    """Rows with entries in [-1, 1], targets, and what a fit to all of them finds."""

    name: str
    loss: str
    X: Rows
    y: Rows
    truth: Rows
    null: NDArray[np.bool_]

    @classmethod
    def of(cls, name: str, loss: str, X: Rows, y: Rows, null: Any = False) -> Population:
        truth = textbook(X, y, loss)[0]
        none = np.zeros(len(truth), dtype=bool)
        none[:-1] = null
        return cls(name, loss, X, y, truth, none)


def textbook(X: Rows, y: Rows, loss: str) -> tuple[Rows, Rows]:
    """Coefficients, the intercept's last, and their robust standard errors."""
    from dpfast import Loss

    rows = np.column_stack([X, np.ones(len(X))])
    w = np.zeros(rows.shape[1])
    for _ in range(30):
        _, slope, curvature = Loss(loss)(rows @ w, y)
        inverse = np.linalg.pinv((rows * curvature[:, None]).T @ rows, hermitian=True)
        step = inverse @ (rows.T @ slope)
        w = w - step * min(1.0, 8.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-9:
            break
    products = (rows * (slope * slope)[:, None]).T @ rows
    return w, np.sqrt(np.diag(inverse @ products @ inverse))


def run(settings: Run, sizes: Sizes) -> list[Record]:
    records = []
    for population in _populations(settings, sizes):
        wide = population.X.shape[1] > 20
        n = sizes.wide_rows if wide else sizes.rows
        repetitions = sizes.wide_repetitions if wide else sizes.repetitions
        for epsilon in sizes.epsilons:
            if not _enough(population, n, epsilon):
                settings.note(
                    f"{population.name} at epsilon = {epsilon:g}: refused by the plan, {n:,} rows "
                    f"are too few for {len(population.truth)} coefficients."
                )
                continue
            settings.say(f"  {population.name}, {n:,} x {population.X.shape[1]}, {epsilon:g}")
            records += _cell(population, n, epsilon, repetitions)
    return records


def _enough(population: Population, n: int, epsilon: float) -> bool:
    """Whether the plan has the rows that it asks for."""
    from dpfast import Budget, ProblemShape, plan

    columns = population.X.shape[1]
    shape = ProblemShape(n, columns, math.sqrt(columns), population.loss)
    budget = Budget(epsilon, _DELTA)
    settled = plan(shape, "dp-newton", budget, neighboring_relation="add_or_remove_one")
    return n >= settled.expected["rows_for_coverage"]


def _cell(population: Population, n: int, epsilon: float, repetitions: int) -> list[Record]:
    """All competitors on the same draws of rows."""
    methods: dict[str, Callable[..., tuple[Rows, Rows]]] = {
        ROBUST: _private, TRUSTING: _private, NAIVE: _naive,
    }  # fmt: skip
    found: dict[str, list[tuple[Rows, Rows]]] = {name: [] for name in (*methods, TEXTBOOK)}
    for seed in range(repetitions):
        drawn = np.random.default_rng([1, seed]).integers(len(population.y), size=n)
        X, y = population.X[drawn], population.y[drawn]
        usual = textbook(X, y, population.loss)
        found[TEXTBOOK].append(usual)
        for name, method in methods.items():
            found[name].append(method(X, y, population.loss, epsilon, seed, name, usual))
    usual_errors = np.median([errors for _, errors in found[TEXTBOOK]], axis=0)
    case: dict[str, int | float | str] = {
        "n": n, "d": population.X.shape[1] + 1, "epsilon": epsilon, "loss": population.loss,
    }  # fmt: skip
    return [
        Record(population.name, case, name, _values(population, pairs, usual_errors))
        for name, pairs in found.items()
    ]


def _private(
    X: Rows, y: Rows, loss: str, epsilon: float, seed: int, kind: str, usual: tuple[Rows, Rows]
) -> tuple[Rows, Rows]:
    from dpfast import Budget, Problem, solve

    del usual
    problem = Problem(X, y, loss, data_norm=math.sqrt(X.shape[1]))
    found = solve(
        problem,
        "dp-newton",
        Budget(epsilon, _DELTA),
        neighboring_relation="add_or_remove_one",
        random_state=seed,
        cov_type=kind,
        column_bound=1.0,
    )
    errors = np.sqrt(np.diag(found.history["covariance"]))
    return found.w, np.where(found.history["refused"] == 0, errors, np.nan)


def _naive(
    X: Rows, y: Rows, loss: str, epsilon: float, seed: int, kind: str, usual: tuple[Rows, Rows]
) -> tuple[Rows, Rows]:
    from dpfast import Budget, Problem, solve

    del kind
    problem = Problem(X, y, loss, data_norm=math.sqrt(X.shape[1]))
    found = solve(
        problem,
        "auto",
        Budget(epsilon, _DELTA),
        neighboring_relation="add_or_remove_one",
        random_state=seed,
    )
    return found.w, usual[1]


def _values(
    population: Population, pairs: list[tuple[Rows, Rows]], usual: Rows
) -> dict[str, float]:
    """What is shown of one competitor's coefficients and standard errors."""
    w, errors = (np.array(part) for part in zip(*pairs, strict=True))
    printed = np.isfinite(errors)
    held = printed & (np.abs(w - population.truth) <= _Z * np.where(printed, errors, 0.0))
    often = printed.mean(axis=0) >= _OFTEN
    by_coordinate = held.sum(axis=0) / np.maximum(printed.sum(axis=0), 1)
    values = {
        "repetitions": float(len(pairs)),
        "refused": float(1.0 - printed.mean()),
        "coverage": float(held.sum() / max(1, printed.sum())),
        "worst": float(by_coordinate[often].min()) if often.any() else math.nan,
        "width": float(np.median((errors / usual)[printed])) if printed.any() else math.nan,
    }
    null = printed & population.null
    if null.any():
        rejected = null & (np.abs(w) > _Z * np.where(printed, errors, np.inf))
        values["rejected"] = float(rejected.sum() / null.sum())
    # Power: the coefficients that are not 0, from the smallest.
    for place, j in enumerate(np.argsort(np.abs(population.truth[:-1]))):
        seen = printed[:, j]
        if seen.any() and population.name == "power":
            rejected = np.abs(w[seen, j]) > _Z * errors[seen, j]
            values[f"effect {place}"] = float(population.truth[j])
            values[f"power {place}"] = float(rejected.mean())
    return values


# ---- populations --------------------------------------------------------------------------------


def _populations(settings: Run, sizes: Sizes) -> list[Population]:
    chosen = sizes.families or tuple(FAMILIES)
    made = [FAMILIES[name](sizes.population) for name in chosen]
    if not sizes.real:
        return made
    tables = [
        Population.of(data.name, "logistic", data.X, data.y)
        for data in real(settings.data, settings.note)
    ]
    return [*made, *tables]


def _normal(n: int, seed: int, correlation: float = 0.0) -> tuple[Any, Rows]:
    """Ten columns, of deviation a sixth so that few are clipped at ±1."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 10))
    Z = math.sqrt(1.0 - correlation) * Z
    Z += math.sqrt(correlation) * rng.standard_normal((n, 1))
    return rng, Z


def _signs(rng: Any, margins: Rows) -> Rows:
    return np.where(rng.logistic(size=len(margins)) < margins, 1.0, -1.0)


def _margins(rng: Any, Z: Rows, null: int = 2) -> Rows:
    """Of deviation 1; the last columns have no weight."""
    w = rng.standard_normal(Z.shape[1])
    w[len(w) - null :] = 0.0
    margins = Z @ w
    scaled: Rows = margins / margins.std()
    return scaled


def _logistic(name: str, Z: Rows, margins: Rows, rng: Any, null: Any = False) -> Population:
    X = np.clip(Z / (6.0 * Z.std(axis=0)), -1.0, 1.0)
    return Population.of(name, "logistic", X, _signs(rng, margins), null)


def _last(columns: int) -> NDArray[np.bool_]:
    return np.arange(10) >= 10 - columns


def _plain(n: int) -> Population:
    rng, Z = _normal(n, 1)
    return _logistic("plain", Z, _margins(rng, Z), rng, _last(2))


def _correlated(n: int) -> Population:
    rng, Z = _normal(n, 2, 0.8)
    return _logistic("correlated", Z, _margins(rng, Z), rng, _last(2))


def _heavy(n: int) -> Population:
    rng = np.random.default_rng(3)
    Z = np.clip(rng.standard_t(3, (n, 10)), -9.0, 9.0)
    return _logistic("heavy-tailed", Z, _margins(rng, Z), rng, _last(2))


def _imbalanced(n: int) -> Population:
    rng, Z = _normal(n, 4)
    return _logistic("5% positive", Z, _margins(rng, Z) - 3.4, rng, _last(2))


def _misspecified(n: int) -> Population:
    rng, Z = _normal(n, 5)
    bent = 0.5 * (Z[:, 0] ** 2 - 1.0) - 0.7 * (np.abs(Z[:, 1]) > 1.0)
    return _logistic("misspecified", Z, _margins(rng, Z) + bent, rng)


def _strong(n: int) -> Population:
    rng, Z = _normal(n, 6)
    return _logistic("strong", Z, 3.0 * _margins(rng, Z), rng, _last(2))


def _no_signal(n: int) -> Population:
    rng, Z = _normal(n, 7)
    return _logistic("no signal", Z, np.full(n, -0.5), rng, _last(10))


def _power(n: int) -> Population:
    rng, Z = _normal(n, 8)
    return _logistic("power", Z, Z @ np.linspace(0.0, 0.1, 10), rng)


def _one_hot(n: int) -> Population:
    rng = np.random.default_rng(9)
    blocks = []
    for _ in range(3):
        shares = np.arange(1.0, 5.0) ** -1.0
        level = rng.choice(4, n, p=shares / shares.sum())
        blocks.append(np.eye(4)[level][:, 1:])
    X = np.hstack(blocks)
    return Population.of("one-hot", "logistic", X, _signs(rng, _margins(rng, X, 0) - 0.5))


def _regions(n: int) -> Population:
    """One-hot columns of which some have hardly any positives: what is to be refused."""
    rng = np.random.default_rng(10)
    blocks, weights = [], []
    for _ in range(3):
        shares = np.arange(1.0, 10.0) ** -1.3
        level = rng.choice(9, n, p=shares / shares.sum())
        blocks.append(np.eye(9)[level][:, 1:])
        weights.append(rng.normal(0.0, 0.8, 8) - 5.0 * (rng.random(8) < 0.15))
    X = np.hstack(blocks)
    margins = X @ np.concatenate(weights) - 1.0
    return Population.of("one-hot, no positives", "logistic", X, _signs(rng, margins))


def _linear(name: str, seed: int, correlation: float = 0.0) -> Callable[[int], Population]:
    """Margins of deviation .3 and residuals of deviation .2, the targets' range being [-1, 1]."""

    def make(n: int) -> Population:
        rng, Z = _normal(n, seed, correlation)
        X = np.clip(Z / 6.0, -1.0, 1.0)
        spread = 0.2 * np.ones(n)
        if name == "unequal variances":
            spread = 0.1 + 0.6 * np.abs(X[:, 0])
        noise = rng.exponential(size=n) - 1.0 if name == "skewed" else rng.standard_normal(n)
        y = 0.3 * _margins(rng, Z) + spread * noise
        if name == "misspecified":
            y += 0.15 * (Z[:, 1] ** 2 - 1.0)
        null = False if name in ("misspecified", "skewed") else _last(2)
        return Population.of(f"linear, {name}", "squared", X, np.clip(y, -1.0, 1.0), null)

    return make


FAMILIES: dict[str, Callable[[int], Population]] = {
    "plain": _plain,
    "correlated": _correlated,
    "heavy-tailed": _heavy,
    "5% positive": _imbalanced,
    "misspecified": _misspecified,
    "strong": _strong,
    "no signal": _no_signal,
    "power": _power,
    "one-hot": _one_hot,
    "one-hot, no positives": _regions,
    "linear, plain": _linear("plain", 11),
    "linear, correlated": _linear("correlated", 12, 0.8),
    "linear, skewed": _linear("skewed", 13),
    "linear, unequal variances": _linear("unequal variances", 14),
    "linear, misspecified": _linear("misspecified", 15),
}


# ---- report -------------------------------------------------------------------------------------


def tables(document: Document) -> list[Table]:
    found = []
    for epsilon in dict.fromkeys(r.case["epsilon"] for r in document.records):
        records = [r for r in document.records if r.case["epsilon"] == epsilon]
        found.append(
            Table(
                f"epsilon = {epsilon:g}",
                "Intervals of 95%, delta = 1e-6, add_or_remove_one. Coverage and width (over that "
                "of robust intervals without privacy, the median) where intervals are printed; the "
                f"worst coordinate among those printed in {_OFTEN:.0%} of the repetitions or more; "
                "rejected: tests at 5% of coefficients that are 0.",
                ("table", "rows", "weights", "repetitions", "competitor", "coverage", "worst",
                 "width", "refused", "rejected"),
                [_row(r) for r in records],
            )
        )  # fmt: skip
    return found


def _row(record: Record) -> tuple[str, ...]:
    values = record.values

    def share(name: str) -> str:
        value = values.get(name, math.nan)
        return "" if math.isnan(value) else f"{value:.3f}"

    width = values["width"]
    return (
        record.group,
        plain(record.case["n"]),
        plain(record.case["d"]),
        plain(values["repetitions"]),
        record.competitor,
        share("coverage"),
        share("worst"),
        "" if math.isnan(width) else f"{width:.2f}",
        f"{values['refused']:.0%}",
        share("rejected"),
    )


def draw(document: Document, figure: Any) -> None:
    """Coverage against width, and power against the effect."""
    figure.set_size_inches(10, 4)
    left, right = figure.subplots(1, 2)
    for name, color in zip((ROBUST, NAIVE), ("C0", "C3"), strict=True):
        chosen = [r for r in document.records if r.competitor == name and r.values["refused"] < 0.9]
        widths = [r.values["width"] for r in chosen]
        left.plot(widths, [r.values["coverage"] for r in chosen], "o", color=color, label=name)
    left.axhline(0.95, color="0.6", linewidth=1.0)
    left.set_xlabel("width over that without privacy")
    left.set_ylabel("share of intervals that hold")
    left.legend(frameon=False)
    for record in document.records:
        if record.group == "power" and record.competitor in (ROBUST, TEXTBOOK):
            places = [k for k in range(10) if f"power {k}" in record.values]
            style = "-" if record.competitor == ROBUST else "--"
            right.plot(
                [abs(record.values[f"effect {k}"]) for k in places],
                [record.values[f"power {k}"] for k in places],
                f"o{style}",
                label=f"{record.competitor}, epsilon = {record.case['epsilon']:g}",
            )
    right.axhline(0.05, color="0.6", linewidth=1.0)
    right.set_xlabel("coefficient of a column in [-1, 1]")
    right.set_ylabel("share of tests at 5% that reject")
    right.legend(frameon=False, fontsize=8)
