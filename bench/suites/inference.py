"""Whether private intervals hold, how wide they are, and when they are refused.

Tables, real and made, are populations: rows, or persons with all their rows, are drawn from them
with replacement, and the truth is the fit to the whole population.  An interval is counted where it
is printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from bench.arrange import grouped, pick
from bench.harness import Document, Record, Run
from bench.problems import (
    bank,
    bounded,
    claims_panel,
    health_panel,
    numeric_adult,
    randhie,
    text_columns,
    wine,
)
from bench.report import NAMED, Cell, Table, case, rows_of, value

Rows = NDArray[np.float64]

NAME = "inference"
TITLE = "Private standard errors: coverage, width, refusals"
ROBUST, TRUSTING, CLUSTER = "robust", "nonrobust", "cluster"
NAIVE, TEXTBOOK = "noise ignored", "not private"
COMPETITORS = {
    ROBUST: "(epsilon, delta)-DP, add_or_remove_one: inference=True, cov_type='robust'",
    TRUSTING: "the same with cov_type='nonrobust'",
    CLUSTER: "the same with cov_type='cluster', for persons with all their rows",
    NAIVE: "none: the default solver's private coefficients, with the textbook's standard errors",
    TEXTBOOK: "none: maximum likelihood, or least squares, with standard errors of the same kind",
}
_DELTA, _Z = 1e-6, 1.959963984540054
# A coordinate whose interval is printed less often is not looked at by itself.
_OFTEN = 0.3
# More rows are drawn where there are more columns than this.
_WIDE = 20
# Where the other kind of errors, and intervals that ignore the noise, are tried, too.
_COMPARED = ("plain", "linear, plain", "poisson", "RAND HIE")
# Columns of the table of rentals: two that turn, and shares.
_RENTALS = ("hr", "mnth", "workingday", "yr", "temp", "hum", "windspeed")
# Populations of at most so many rows, the real tables, are fitted with weights, too.
_SMALL = 100_000


@dataclass(frozen=True)
class Sizes:
    """Repetitions, rows of made populations, budgets, rows and persons that are drawn."""

    repetitions: int
    population: int
    epsilons: tuple[float, ...]
    rows: int = 15_000
    wide_rows: int = 45_000
    persons: int = 8_000
    families: tuple[str, ...] = ()
    real: bool = True


FULL = Sizes(300, 300_000, (1.0, 2.0))
QUICK = Sizes(
    20, 50_000, (1.0,), families=("plain", "linear, plain", "persons, 0.5 alike"), real=False
)


@dataclass(frozen=True)
class Population:
    """Rows with entries in [-1, 1], targets, and what a fit to all of them finds.

    `null` marks coefficients that are 0 where rows were made; `begins` where each person's rows
    begin, None where every row is a person's; `rows` is how many rows, or persons, are drawn
    instead of the usual number.
    """

    name: str
    loss: Any
    X: Rows
    y: Rows
    truth: Rows
    null: NDArray[np.bool_]
    begins: NDArray[np.int64] | None = None
    rows: int | None = None

    @classmethod
    def of(
        cls,
        name: str,
        loss: Any,
        X: Rows,
        y: Rows,
        null: Any = False,
        owner: NDArray[np.int64] | None = None,
        rows: int | None = None,
    ) -> Population:
        begins = None
        if owner is not None:
            order = np.argsort(owner, kind="stable")
            X, y, owner = X[order], y[order], owner[order]
            begins = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
        truth = textbook(X, y, loss)[0]
        none = np.zeros(len(truth), dtype=bool)
        none[:-1] = null
        return cls(name, loss, X, y, truth, none, begins, rows)

    @property
    def columns(self) -> int:
        return int(self.X.shape[1])

    def drawn(self, n: int, seed: int) -> Sample:
        """So many rows, or persons with all their rows."""
        rng = np.random.default_rng([1, seed])
        if self.begins is None:
            which = rng.integers(len(self.y), size=n)
            return Sample(self.X[which], self.y[which], None)
        ends = np.append(self.begins[1:], len(self.y))
        who = rng.integers(len(self.begins), size=n)
        sizes = (ends - self.begins)[who]
        which = np.repeat(self.begins[who] - np.cumsum(sizes) + sizes, sizes)
        which += np.arange(len(which))
        return Sample(self.X[which], self.y[which], np.repeat(np.arange(n), sizes))


@dataclass(frozen=True)
class Sample:
    """Rows that were drawn, and whose they are."""

    X: Rows
    y: Rows
    owner: NDArray[np.int64] | None


def textbook(
    X: Rows,
    y: Rows,
    loss: Any,
    owner: NDArray[np.int64] | None = None,
    start: Rows | None = None,
) -> tuple[Rows, Rows]:
    """Coefficients, the intercept's last, and robust standard errors, of persons if there are.

    From `start`, which a fit near it reaches in fewer steps; None: zero, or least squares.
    """
    rows = np.column_stack([X, np.ones(len(X))])
    if start is not None:
        w = start
    else:
        w = np.linalg.lstsq(rows, y)[0] if loss.even else _start(rows.shape[1], y, loss)
    for _ in range(30):
        _, slope, curvature = loss(rows @ w, y)
        inverse = np.linalg.pinv((rows * curvature[:, None]).T @ rows, hermitian=True)
        step = inverse @ (rows.T @ slope)
        longest = 2.0 if loss.log_link else 8.0
        w = w - step * min(1.0, longest / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-9:
            break
    scores = rows * slope[:, None]
    if owner is not None:
        scores = np.add.reduceat(scores, np.flatnonzero(np.diff(owner, prepend=-1)), axis=0)
    errors: Rows = np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))
    return np.asarray(w), errors


def _start(columns: int, y: Rows, loss: Any) -> Rows:
    """Zero weights, and the intercept of the mean where that is known."""
    w = np.zeros(columns)
    if loss.log_link:
        w[-1] = math.log(y.mean())
    return w


def leverage_weighted(population: Population, clip: float) -> Rows:
    """The fit to the population with weights as `dp-newton` has them in coordinates without noise.

    Rows whose largest possible score is beyond the bound count less; where no model holds, that is
    another estimand.
    """
    loss, root = population.loss, math.sqrt(population.columns + 1)
    X = population.X - population.X.mean(axis=0)
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    kept = values > 1e-9 * values[-1]
    z = np.column_stack([X @ (vectors[:, kept] / np.sqrt(values[kept])), np.ones(len(X))])
    w = np.linalg.lstsq(z, population.y)[0] if loss.even else None
    if w is None:
        w = _start(z.shape[1], population.y, loss)
    weight, metric = np.ones(len(z)), np.eye(z.shape[1])
    for step in range(60):
        _, slope, curvature = loss(z @ w, population.y)
        hessian = (z * (weight * curvature)[:, None]).T @ z
        change = np.linalg.solve(hessian, z.T @ (weight * slope))
        w = w - change * min(1.0, 3.0 / float(np.linalg.norm(change)))
        if step in (20, 35):  # the metric follows the curvature
            values, vectors = np.linalg.eigh(hessian / len(z))
            stretch = values**-0.25
            metric = (vectors * (stretch * root / np.linalg.norm(stretch))) @ vectors.T
        if step >= 20:
            alike = loss.even or loss.log_link
            largest = np.ones(len(z)) if alike else 1.0 / (1.0 + np.exp(-np.abs(z @ w)))
            lengths = np.maximum(np.linalg.norm(z @ metric, axis=1), 1.0)
            weight = np.minimum(1.0, clip * root / (largest * lengths))
    back = np.zeros((population.columns + 1, z.shape[1]))
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    back[:-1, :-1] = vectors[:, kept] / np.sqrt(values[kept])
    back[-1, :-1] = -population.X.mean(axis=0) @ back[:-1, :-1]
    back[-1, -1] = 1.0
    found: Rows = back @ w
    return found


def run(settings: Run, sizes: Sizes) -> list[Record]:
    records = []
    for population in _populations(settings, sizes):
        n = population.rows or (sizes.wide_rows if population.columns > _WIDE else sizes.rows)
        if population.begins is not None:
            n = population.rows or sizes.persons
        for epsilon in sizes.epsilons:
            settled = _plan(population, n, epsilon)
            needed = settled.expected["rows_for_coverage"]
            if n < needed:
                settings.note(
                    f"{population.name} at epsilon = {epsilon:g}: refused by the plan, which asks "
                    f"for {needed:,.0f} where there are {n:,}."
                )
                continue
            settings.say(f"  {population.name}, {n:,} x {population.columns}, {epsilon:g}")
            whole = epsilon == sizes.epsilons[0] and population.name in _COMPARED
            records += _cell(population, n, epsilon, sizes.repetitions, settled, whole)
    return records


def _plan(population: Population, n: int, epsilon: float) -> Any:
    from dpfast import Budget, ProblemShape, plan

    persons = population.begins is not None
    unit: Any = "group" if persons else "row"
    shape = ProblemShape(
        n, population.columns, math.sqrt(population.columns), population.loss, unit=unit
    )
    return plan(
        shape,
        "dp-newton",
        Budget(epsilon, _DELTA),
        neighboring_relation="add_or_remove_one",
        cov_type=CLUSTER if persons else ROBUST,
        column_bound=1.0,
    )


def _cell(
    population: Population, n: int, epsilon: float, repetitions: int, settled: Any, whole: bool
) -> list[Record]:
    """All competitors on the same draws of rows."""
    persons = population.begins is not None
    methods: dict[str, Callable[..., tuple[Rows, Rows]]] = {
        CLUSTER if persons else ROBUST: _private
    }
    if whole:
        methods |= {TRUSTING: _private, NAIVE: _naive}
    found: dict[str, list[tuple[Rows, Rows]]] = {name: [] for name in (*methods, TEXTBOOK)}
    for seed in range(repetitions):
        sample = population.drawn(n, seed)
        usual = textbook(sample.X, sample.y, population.loss, sample.owner, population.truth)
        found[TEXTBOOK].append(usual)
        for name, method in methods.items():
            found[name].append(method(sample, population.loss, epsilon, seed, name, usual))
    usual_errors = np.median([errors for _, errors in found[TEXTBOOK]], axis=0)
    where: dict[str, int | float | str] = {
        "n": n, "d": population.columns + 1, "epsilon": epsilon, "loss": population.loss.name,
        "unit": "person" if persons else "row", "forecast": settled.expected["width_ratio"],
    }  # fmt: skip
    weighted = None
    if not persons and len(population.y) <= _SMALL:
        weighted = leverage_weighted(population, settled.settings.clip)
    return [
        Record(
            population.name,
            where,
            name,
            _values(population, pairs, usual_errors, weighted if name != TEXTBOOK else None),
        )
        for name, pairs in found.items()
    ]


def _problem(sample: Sample, loss: Any) -> Any:
    from dpfast import Problem

    bound = math.sqrt(sample.X.shape[1])
    return Problem(sample.X, sample.y, loss, data_norm=bound, groups=sample.owner)


def _solved(
    sample: Sample, loss: Any, solver: str, epsilon: float, seed: int, **options: Any
) -> Any:
    from dpfast import Budget, solve

    return solve(
        _problem(sample, loss),
        solver,
        Budget(epsilon, _DELTA),
        neighboring_relation="add_or_remove_one",
        random_state=seed,
        **options,
    )


def _private(
    sample: Sample, loss: Any, epsilon: float, seed: int, kind: str, usual: tuple[Rows, Rows]
) -> tuple[Rows, Rows]:
    del usual
    found = _solved(sample, loss, "dp-newton", epsilon, seed, cov_type=kind, column_bound=1.0)
    errors = np.sqrt(np.diag(found.history["covariance"]))
    return found.w, np.where(found.history["refused"] == 0, errors, np.nan)


def _naive(
    sample: Sample, loss: Any, epsilon: float, seed: int, kind: str, usual: tuple[Rows, Rows]
) -> tuple[Rows, Rows]:
    del kind
    return _solved(sample, loss, "auto", epsilon, seed).w, usual[1]


def _values(
    population: Population,
    pairs: list[tuple[Rows, Rows]],
    usual: Rows,
    weighted: Rows | None = None,
) -> dict[str, float]:
    """What is shown of one competitor's coefficients and standard errors."""
    w, errors = (np.array(part) for part in zip(*pairs, strict=True))
    printed = np.isfinite(errors)
    reach = _Z * np.where(printed, errors, 0.0)
    held = printed & (np.abs(w - population.truth) <= reach)
    often = printed.mean(axis=0) >= _OFTEN
    by_coordinate = held.sum(axis=0) / np.maximum(printed.sum(axis=0), 1)
    values = {"repetitions": float(len(pairs)), "refused": float(1.0 - printed.mean())}
    if not printed.any():
        return values
    values["coverage"] = float(held.sum() / printed.sum())
    values["width"] = float(np.median((errors / usual)[printed]))
    if often.any():
        values["worst"] = float(by_coordinate[often].min())
    if weighted is not None:
        near = printed & (np.abs(w - weighted) <= reach)
        values["weighted coverage"] = float(near.sum() / printed.sum())
    null = printed & population.null
    if null.any():  # of the population's own value, which is 0 but for the rows it was made of
        values["rejected"] = float((null & ~held).sum() / null.sum())
    # Power: the coefficients that are not 0, from the smallest.
    for place, j in enumerate(np.argsort(np.abs(population.truth[:-1]))):
        seen = printed[:, j]
        if seen.any() and population.name == "power":
            rejected = np.abs(w[seen, j]) > _Z * errors[seen, j]
            values[f"effect {place}"] = float(population.truth[j])
            values[f"power {place}"] = float(rejected.mean())
    return values


# ---- populations --------------------------------------------------------------------------------


def _populations(settings: Run, sizes: Sizes) -> Iterator[Population]:
    """One after the other, since they are large."""
    for name in sizes.families or tuple(FAMILIES):
        yield FAMILIES[name](sizes.population)
    if not sizes.real:
        return
    yield TABLES["RAND HIE"](settings.data)
    others = {name: load for name, load in TABLES.items() if name != "RAND HIE"}
    yield from settings.tables(others)


def _losses() -> tuple[Any, Any, Any]:
    from dpfast import Loss

    return Loss("logistic"), Loss("squared"), Loss("huber", 0.2)


def _table(name: str, data: Any, loss: Any, rows: int | None = None) -> Population:
    return Population.of(name, loss, data.X, data.y, rows=rows)


def _panel(name: str, panel: Any, rows: int) -> Population:
    return Population.of(name, _losses()[0], panel.X, panel.y, owner=panel.persons, rows=rows)


#: Real tables; wine and the health panel have fewer rows than are drawn from the others.
TABLES: dict[str, Callable[[Any], Population]] = {
    "RAND HIE": lambda data: _table("RAND HIE", randhie(), _losses()[0]),
    "Adult, numbers": lambda data: _table("Adult, numbers", numeric_adult(data), _losses()[0]),
    "Bank": lambda data: _table("Bank", bank(data), _losses()[0]),
    "Wine": lambda data: _table("Wine", wine(data), _losses()[0], 6_497),
    "Wine, quality": lambda data: _table(
        "Wine, quality", wine(data, target="quality"), _losses()[1], 6_497
    ),
    "health panel": lambda data: _panel("health panel", health_panel(data), 6_127),
    "claims panel": lambda data: _panel("claims panel", claims_panel(data), 15_000),
    "RAND HIE, visits": lambda data: _visits(),
    "Bike, rentals": lambda data: _rentals(data),
}


def _with_log_link(
    name: str, loss: Any, X: Rows, y: Rows, low: float, high: float, **more: Any
) -> Population:
    """Targets between public bounds, in the units that an estimator brings them to."""
    from dataclasses import replace

    from dpfast.estimators._targets import LogMean

    targets = LogMean.of(loss, low, high, centered=True)
    made = targets.loss
    if loss.name == "negative-binomial":
        made = replace(made, parameter=loss.parameter * math.exp(targets.center))
    return Population.of(name, made, X, targets(y), **more)


def _visits() -> Population:
    """Visits to a doctor in a year, at most 100."""
    from dpfast import Loss
    from dpfast.datasets import load_randhie

    bunch = load_randhie(target="visits")
    X = bounded(dict(zip(bunch.feature_names, bunch.data.T, strict=True)), bunch.bounds)
    return _with_log_link("RAND HIE, visits", Loss("poisson"), X, bunch.target, 0.0, 100.0)


def _rentals(data: Any) -> Population:
    """Bicycles rented in an hour, at most 1,500, by hour, season, weather and kind of day."""
    from dpfast import Loss

    texts = text_columns(data, "bike_hour.csv")
    read = {name: texts[name].astype(np.float64) for name in _RENTALS}
    turns = [2.0 * math.pi * read["hr"] / 24.0, 2.0 * math.pi * read["mnth"] / 12.0]
    waves = [wave(k * turns[0]) for k in (1.0, 2.0) for wave in (np.sin, np.cos)]
    waves += [np.sin(turns[1]), np.cos(turns[1])]
    numbers = bounded(read, dict.fromkeys(_RENTALS[2:], (0.0, 1.0)))
    X = np.column_stack([*waves, numbers])
    y = texts["cnt"].astype(np.float64)
    return _with_log_link("Bike, rentals", Loss("poisson"), X, y, 0.0, 1500.0)


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


def _last(columns: int) -> NDArray[np.bool_]:
    return np.arange(10) >= 10 - columns


def _logistic(
    name: str,
    seed: int,
    correlation: float = 0.0,
    *,
    null: Any = None,
    bend: Callable[[Rows, Rows], Rows] = lambda margins, Z: margins,
) -> Callable[[int], Population]:
    """Margins of deviation 1, unless `bend` makes others of them and of the columns."""

    def make(n: int) -> Population:
        rng, Z = _normal(n, seed, correlation)
        if name == "heavy-tailed":
            rng = np.random.default_rng(seed)
            Z = np.clip(rng.standard_t(3, (n, 10)), -9.0, 9.0)
        drawn = np.zeros(n) if name in ("no signal", "power") else _margins(rng, Z)
        margins = bend(drawn, Z)
        X = np.clip(Z / (6.0 * Z.std(axis=0)), -1.0, 1.0)
        zero = _last(2) if null is None else null
        return Population.of(name, _losses()[0], X, _signs(rng, margins), zero)

    return make


def _bent(margins: Rows, Z: Rows) -> Rows:
    return margins + (0.5 * (Z[:, 0] ** 2 - 1.0) - 0.7 * (np.abs(Z[:, 1]) > 1.0))


def _one_hot(n: int) -> Population:
    rng = np.random.default_rng(9)
    blocks = []
    for _ in range(3):
        shares = np.arange(1.0, 5.0) ** -1.0
        level = rng.choice(4, n, p=shares / shares.sum())
        blocks.append(np.eye(4)[level][:, 1:])
    X = np.hstack(blocks)
    return Population.of("one-hot", _losses()[0], X, _signs(rng, _margins(rng, X, 0) - 0.5))


def _regions(n: int) -> Population:
    """One-hot columns of which three have hardly any positives: what is to be refused.

    Weights are drawn first, so that these are the same three, however many rows there are.
    """
    rng = np.random.default_rng(10)
    weights = rng.normal(0.0, 0.8, (3, 8)) - 5.0 * (rng.random((3, 8)) < 0.15)
    shares = np.arange(1.0, 10.0) ** -1.3
    levels = rng.choice(9, (3, n), p=shares / shares.sum())
    X = np.hstack([np.eye(9)[level][:, 1:] for level in levels])
    margins = X @ weights.ravel() - 1.0
    return Population.of("one-hot, no positives", _losses()[0], X, _signs(rng, margins))


def _linear(name: str, seed: int, correlation: float = 0.0) -> Callable[[int], Population]:
    """Margins of deviation .3 and residuals of deviation .2, the targets' range being [-1, 1]."""

    def make(n: int) -> Population:
        rng, Z = _normal(n, seed, correlation)
        X = np.clip(Z / 6.0, -1.0, 1.0)
        spread = 0.2 * np.ones(n)
        if name == "heavy-tailed":
            Z = np.clip(rng.standard_t(3, (n, 10)), -9.0, 9.0)
            X = Z / 9.0
        if name == "unequal variances":
            spread = 0.1 + 0.6 * np.abs(X[:, 0])
        noise = rng.exponential(size=n) - 1.0 if name == "skewed" else rng.standard_normal(n)
        y = 0.3 * _margins(rng, Z) + spread * noise
        if name == "misspecified":
            y += 0.15 * (Z[:, 1] ** 2 - 1.0)
        null = False if name in ("misspecified", "skewed") else _last(2)
        return Population.of(f"linear, {name}", _losses()[1], X, np.clip(y, -1.0, 1.0), null)

    return make


def _counts(name: str, seed: int) -> Callable[[int], Population]:
    """Log-means of deviation .6; counts of mean e and costs of mean 1, in wide public bounds."""

    def make(n: int) -> Population:
        from dpfast import Loss

        rng, Z = _normal(n, seed)
        X = np.clip(Z / 6.0, -1.0, 1.0)
        costs = name in ("gamma", "tweedie")
        mean = np.exp(0.6 * _margins(rng, Z) + (0.0 if costs else 1.0))
        extra = rng.gamma(1.0, 1.0, n)  # of a law whose dispersion is 1
        if name == "gamma":
            loss, y, bounds = Loss("gamma"), rng.gamma(2.0, mean / 2.0), (0.02, 50.0)
        elif name == "tweedie":
            counts = rng.poisson(mean)
            y = np.where(counts > 0, rng.gamma(np.maximum(counts, 1)), 0.0)
            loss, bounds = Loss("tweedie", 1.5), (0.0, 100.0)
        elif name == "poisson":
            loss, y, bounds = Loss("poisson"), rng.poisson(mean), (0.0, 50.0)
        else:
            loss = Loss("negative-binomial", 1.0) if "negative" in name else Loss("poisson")
            y, bounds = rng.poisson(mean * extra), (0.0, 100.0)
        return _with_log_link(name, loss, X, y, *bounds, null=_last(2))

    return make


def _huber(n: int) -> Population:
    """One residual in twenty is ten times as large."""
    rng, Z = _normal(n, 16)
    X = np.clip(Z / 6.0, -1.0, 1.0)
    spread = np.where(rng.random(n) < 0.05, 0.8, 0.08)
    y = 0.3 * _margins(rng, Z) + spread * rng.standard_normal(n)
    return Population.of("huber, outliers", _losses()[2], X, np.clip(y, -1.0, 1.0), _last(2))


def _persons(name: str, alike: float, linear: bool = False) -> Callable[[int], Population]:
    """One to five rows a person, whose columns and residuals have so much in common."""

    def make(n: int) -> Population:
        rng = np.random.default_rng(17)
        sizes = rng.integers(1, 6, n // 15)
        owner = np.repeat(np.arange(len(sizes)), sizes)

        def drawn(*shape: int) -> Rows:
            shared = rng.standard_normal((len(sizes), *shape))[owner]
            own = rng.standard_normal((len(owner), *shape))
            both: Rows = math.sqrt(alike) * shared + math.sqrt(1.0 - alike) * own
            return both

        Z = drawn(6)
        X, margins = np.clip(Z / 6.0, -1.0, 1.0), _margins(rng, Z)
        if linear:
            y, loss = np.clip(0.3 * margins + 0.2 * drawn(), -1.0, 1.0), _losses()[1]
        else:
            chance = scipy.stats.norm.cdf(drawn())
            y = np.where(np.log(chance / (1.0 - chance)) < margins, 1.0, -1.0)
            loss = _losses()[0]
        return Population.of(name, loss, X, y, np.arange(6) >= 4, owner)

    return make


FAMILIES: dict[str, Callable[[int], Population]] = {
    "plain": _logistic("plain", 1),
    "correlated": _logistic("correlated", 2, 0.8),
    "heavy-tailed": _logistic("heavy-tailed", 3),
    "5% positive": _logistic("5% positive", 4, bend=lambda margins, Z: margins - 3.4),
    "misspecified": _logistic("misspecified", 5, null=False, bend=_bent),
    "strong": _logistic("strong", 6, bend=lambda margins, Z: 3.0 * margins),
    "no signal": _logistic("no signal", 7, null=_last(10), bend=lambda margins, Z: margins - 0.5),
    "power": _logistic(
        "power", 8, null=False, bend=lambda margins, Z: Z @ np.linspace(0.0, 0.1, 10)
    ),
    "one-hot": _one_hot,
    "one-hot, no positives": _regions,
    "linear, plain": _linear("plain", 11),
    "linear, correlated": _linear("correlated", 12, 0.8),
    "linear, skewed": _linear("skewed", 13),
    "linear, heavy-tailed": _linear("heavy-tailed", 18),
    "linear, unequal variances": _linear("unequal variances", 14),
    "linear, misspecified": _linear("misspecified", 15),
    "huber, outliers": _huber,
    **{
        name: _counts(name, seed)
        for seed, name in enumerate(
            ("poisson", "poisson, overdispersed", "negative-binomial", "gamma", "tweedie"), 20
        )
    },
    **{
        f"persons, {kind}{alike:g} alike": _persons(
            f"persons, {kind}{alike:g} alike", alike, linear
        )
        for kind, linear, shares in (("", False, (0.0, 0.5, 0.9)), ("linear, ", True, (0.5, 0.9)))
        for alike in shares
    },
}


# ---- report -------------------------------------------------------------------------------------


def tables(document: Document) -> list[Table]:
    text = (
        "Intervals of 95%, delta = 1e-6, add_or_remove_one. Coverage and width (over that of "
        "robust intervals without privacy, the median; as foretold by the plan) where intervals "
        "are printed; the worst coordinate among those printed in "
        f"{_OFTEN:.0%} of the repetitions or more; of the fit with rows of much leverage weighted "
        "as the solver weighs them: the same coverage; rejected: tests at 5% that coefficients "
        "which are 0 where rows are made have their population's value."
    )
    return [
        rows_of(f"epsilon = {epsilon:g}", text, records, _COLUMNS)
        for epsilon, records in grouped(document.records, "epsilon").items()
    ]


def _share(name: str, digits: int = 3, kinds: tuple[str, ...] = ()) -> Cell:
    """A value where there is one, of some competitors or all."""

    def cell(record: Record) -> str:
        known = record.values | {"forecast": record.case["forecast"]}
        shown = name in known and record.competitor in (kinds or COMPETITORS)
        return f"{known[name]:.{digits}f}" if shown else ""

    return cell


_PRIVATE = (ROBUST, TRUSTING, CLUSTER)
_COLUMNS: dict[str, Cell] = {
    "table": lambda r: r.group,
    "rows or persons": case("n"),
    "weights": case("d"),
    "repetitions": value("repetitions"),
    **NAMED,
    "coverage": _share("coverage"),
    "worst": _share("worst"),
    "of the weighted fit": _share("weighted coverage", kinds=_PRIVATE),
    "width": _share("width", 2),
    "foretold": _share("forecast", 2, _PRIVATE),
    "refused": value("refused", "{:.0%}".format),
    "rejected": _share("rejected"),
}


def draw(document: Document, figure: Any) -> None:
    """Coverage against width, and power against the effect."""
    figure.set_size_inches(10, 4)
    left, right = figure.subplots(1, 2)
    for name, color in zip((ROBUST, CLUSTER, NAIVE), ("C0", "C2", "C3"), strict=True):
        chosen = [r.values for r in pick(document.records, competitor=name) if "width" in r.values]
        points = np.reshape([(v["width"], v["coverage"]) for v in chosen], (-1, 2))
        left.plot(*points.T, "o", color=color, label=name)
    left.axhline(0.95, color="0.6", linewidth=1.0)
    left.set(xlabel="width over that without privacy", ylabel="share of intervals that hold")
    left.legend(frameon=False)
    for kind, style in ((ROBUST, "o-"), (TEXTBOOK, "o--")):
        for record in pick(document.records, group="power", competitor=kind):
            v, label = record.values, f"{kind}, epsilon = {record.case['epsilon']:g}"
            places = [k for k in range(10) if f"power {k}" in v]
            points = np.array([(abs(v[f"effect {k}"]), v[f"power {k}"]) for k in places])
            right.plot(*points.reshape(-1, 2).T, style, label=label)
    right.axhline(0.05, color="0.6", linewidth=1.0)
    right.set(
        xlabel="coefficient of a column in [-1, 1]", ylabel="share of tests at 5% that reject"
    )
    if pick(document.records, group="power"):
        right.legend(frameon=False, fontsize=8)
