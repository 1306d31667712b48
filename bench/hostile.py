"""Tables that break defaults: ``python -m bench.hostile --data DIR``.

What users bring, and tuned benchmarks leave out.

Categories after Zipf of which some are empty, words, heavy tails, a constant column of the user's
own, columns far narrower than their bounds, lone long rows, rare positives, no signal at all, from
50 to a million rows, and more columns than rows.  Settings are chosen on the tables with
``half="chosen on"`` alone, and judged by the others.

A line a table and ε: the excess of the mean log-loss on the training rows above its minimum, with
its standard error, and those of the share of positives as a constant, known exactly, and learned
with the whole budget.  Flags: ``>const``, worse than the share known exactly, and ``rises``, worse
than at the ε before, both by more than two standard errors.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bench import problems
from dpfast import Budget, Problem, solve
from dpfast.column_blocks import ColumnBlock
from dpfast.privacy.calibration import budget_mu

Vector = NDArray[np.float64]
Half = Literal["chosen on", "judged by"]

EPSILONS = (0.05, 0.2, 1.0, 4.0, 16.0)
DELTA = 1e-8


@dataclass(frozen=True)
class Table:
    """Rows with labels -1 and +1, and what is publicly known of them.

    Attributes
    ----------
    indicators : tuple of (int, int)
        Columns ``[start, stop)`` of each declared category: at most one of them is 1, the others 0.
    intercept : bool
        False where the table has a constant column of its own.
    twin : str
        Name of a table with the same rows in other units or another order, whose excess loss should
        be the same; empty for none.
    """

    name: str
    X: Vector
    y: Vector
    data_norm: float
    half: Half
    relation: str
    indicators: tuple[tuple[int, int], ...] = ()
    intercept: bool = True
    real: bool = False
    twin: str = ""


# ---- columns ------------------------------------------------------------------------------------


def zipf(rows: int, size: int, exponent: float, empty: int, rng: np.random.Generator) -> Vector:
    """One-hot columns of a category; its last `empty` values and mostly one more are never seen."""
    used = size - empty
    shares = np.arange(1.0, used + 1.0) ** -exponent
    chosen = rng.choice(used, size=rows, p=shares / shares.sum())
    columns = np.zeros((rows, size))
    columns[np.arange(rows), chosen] = 1.0
    return columns


def heavy(rows: int, columns: int, zeros: float, spread: float, rng: np.random.Generator) -> Vector:
    """Log-normal values in [0, 1], a share of them zero, of which the largest are rare spikes."""
    sizes = rng.uniform(0.5, 1.0, columns) * spread
    values = np.exp(rng.standard_normal((rows, columns)) * sizes - 2.0 * spread)
    seldom = rng.uniform(0.5 * zeros, min(1.0, 1.5 * zeros), columns)
    values *= rng.random((rows, columns)) >= seldom
    return np.minimum(values, 1.0)


def labels(
    margins: Vector, signal: float, positives: float | None, rng: np.random.Generator
) -> Vector:
    """Logistic labels; margins get the deviation `signal`, and a share of positives."""
    spread = margins.std()
    margins = (margins - margins.mean()) * (signal / spread if spread > 0.0 else 0.0)
    if positives is not None:
        margins = problems.with_positives(margins, positives)
    y = np.where(rng.logistic(size=len(margins)) < margins, 1.0, -1.0)
    if abs(y.sum()) == len(y):  # a table of one class has no finite minimizer
        y[: 1 + len(y) // 500] *= -1.0
    return y


# ---- families -----------------------------------------------------------------------------------


def one_hot(
    rows: int,
    sizes: Sequence[int],
    numeric: int,
    *,
    exponent: float = 1.2,
    empty: int = 1,
    signal: float = 1.5,
    positives: float | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Declared categories, some of whose values no row has, and a few numbers in [-1, 1]."""
    rng = np.random.default_rng(seed)
    parts = [zipf(rows, size, exponent, empty, rng) for size in sizes]
    parts.append(np.clip(rng.standard_normal((rows, numeric)) / 3.0, -1.0, 1.0))
    X = np.hstack(parts)
    effects = rng.standard_normal(X.shape[1])
    effects[len(effects) - numeric :] *= 3.0 / math.sqrt(max(1, numeric))
    stops = np.cumsum(sizes)
    return {
        "X": X,
        "y": labels(X @ effects, signal, positives, rng),
        "data_norm": math.sqrt(len(sizes) + numeric),
        "indicators": tuple(zip((stops - sizes).tolist(), stops.tolist(), strict=True)),
    }


def numbers(
    rows: int,
    columns: int,
    *,
    kind: str = "normal",
    signal: float = 2.0,
    positives: float | None = None,
    narrow: Sequence[float] = (),
    factors: int = 0,
    long_rows: int = 0,
    zeros: float = 0.0,
    constant: float = 0.0,
    wide: float = 1.0,
    seed: int = 0,
) -> dict[str, Any]:
    """Numeric columns in [-1, 1].

    Parameters
    ----------
    rows, columns : int
    kind : {"normal", "skew", "heavy"}
    signal : float
        Deviation of the margins.
    positives : float or None
        Share of labels +1.
    narrow : sequence of float
        Factors of the first columns' deviations; each of these columns lies somewhere else.
    factors : int
        Common factors that correlate the columns; 0 for none.
    long_rows : int
        Rows, with labels that contradict the others, that are as long as the bounds allow.
    zeros : float
        Share of zeros in heavy-tailed columns.
    constant : float
        Value of one more column, in the middle, which takes the intercept's place; 0 for none.
    wide : float
        How many times wider than needed the bounds are.
    """
    rng = np.random.default_rng(seed)
    if kind == "heavy":
        X = heavy(rows, columns, zeros, 1.5, rng)
        plain = np.log1p(20.0 * X)
    elif kind == "skew":
        X = 2.0 * rng.beta(0.7, 4.0, (rows, columns)) - 1.0
        plain = X
    else:
        X = rng.standard_normal((rows, columns))
        if factors:
            X = 0.4 * X + rng.standard_normal((rows, factors)) @ rng.standard_normal(
                (factors, columns)
            ) / math.sqrt(factors)
        plain = X
        X = X / 4.0
    effects = rng.standard_normal(columns) / np.maximum(plain.std(axis=0), 1e-12)
    y = labels(plain @ effects, signal, positives, rng)
    for j, factor in enumerate(narrow):
        X[:, j] = rng.uniform(-0.5, 0.5) + factor * X[:, j]
    X = np.clip(X / wide, -1.0, 1.0)
    if long_rows:
        X /= 20.0
        best = np.sign(plain.T @ y)
        X[:long_rows], y[:long_rows] = best, -1.0
    if constant:
        X = np.insert(X, columns // 2, constant, axis=1)
    norm = math.sqrt(columns + constant**2)
    return {"X": X, "y": y, "data_norm": norm, "intercept": not constant}


def words(
    rows: int, columns: int, a_row: int, *, signal: float = 1.5, seed: int = 0
) -> dict[str, Any]:
    """Counts of words after Zipf, so many in a row, which is brought to length 1."""
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1.0, columns + 1.0)
    chosen = rng.choice(columns, size=(rows, a_row), p=shares / shares.sum())
    X = np.zeros((rows, columns))
    np.add.at(X, (np.arange(rows)[:, None], chosen), 1.0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return {
        "X": X,
        "y": labels(X @ rng.standard_normal(columns), signal, None, rng),
        "data_norm": 1.0,
    }


def in_unit_range(table: Mapping[str, Any]) -> dict[str, Any]:
    """The same rows with all columns in [0, 1] instead of [-1, 1]."""
    return {**table, "X": 0.5 * (table["X"] + 1.0)}


def inside(table: Mapping[str, Any]) -> dict[str, Any]:
    """The same rows with the intercept as a column of ones of the user's own, in the middle."""
    X = table["X"]
    found = {**table, "X": np.insert(X, X.shape[1] // 2, 1.0, axis=1), "intercept": False}
    return {**found, "data_norm": math.hypot(table["data_norm"], 1.0)}


def undeclared(table: Mapping[str, Any]) -> dict[str, Any]:
    """The same rows without a word on which columns are categories."""
    return {**table, "indicators": ()}


def reordered(table: Mapping[str, Any]) -> dict[str, Any]:
    """The same rows with their columns in the opposite order."""
    return {**table, "X": np.ascontiguousarray(table["X"][:, ::-1])}


_REPLACE, _ADD = "replace_one", "add_or_remove_one"
_On: Half = "chosen on"
_By: Half = "judged by"
Maker = Callable[[], dict[str, Any]]


def _of(make: Callable[..., dict[str, Any]], *args: Any, **options: Any) -> Maker:
    return lambda: make(*args, **options)


def _changed(change: Callable[[Mapping[str, Any]], dict[str, Any]], make: Maker) -> Maker:
    return lambda: change(make())


_SKEW_ON = _of(numbers, 10_000, 12, kind="skew", positives=0.3, seed=11)
_SKEW_BY = _of(numbers, 6_000, 8, kind="skew", signal=1.5, seed=61)
_ONE_HOT_ON = _of(one_hot, 20_000, (3, 5, 8, 12, 20), 3, seed=1)
_ONE_HOT_BY = _of(one_hot, 60_000, (30, 6, 2, 2, 9), 0, exponent=2.0, seed=54)
_NORMAL_BY = _of(numbers, 15_000, 10, factors=3, positives=0.2, seed=62)
# Name, half, relation, maker, twin.
FAMILIES: tuple[tuple[str, Half, str, Maker, str], ...] = (
    ("one-hot", _On, _ADD, _ONE_HOT_ON, ""),
    ("one-hot, undeclared", _On, _ADD, _changed(undeclared, _ONE_HOT_ON), ""),
    ("one-hot, many rows", _On, _REPLACE,
     _of(one_hot, 100_000, (10, 15, 11), 0, exponent=1.5, empty=2, seed=2), ""),
    ("one-hot, 3% positives", _On, _ADD,
     _of(one_hot, 10_000, (4, 9, 15), 4, empty=2, positives=0.03, seed=3), ""),
    ("heavy tails", _On, _ADD, _of(numbers, 3_677, 57, kind="heavy", zeros=0.6, seed=4), ""),
    ("heavy tails, few", _On, _REPLACE, _of(numbers, 15_000, 10, kind="heavy", seed=5), ""),
    ("constant column", _On, _REPLACE, _of(numbers, 10_000, 10, constant=1.0, seed=6), ""),
    ("skew, [-1, 1]", _On, _ADD, _SKEW_ON, ""),
    ("skew, ones inside", _On, _ADD, _changed(inside, _SKEW_ON), "skew, [-1, 1]"),
    ("skew, [0, 1]", _On, _ADD, _changed(in_unit_range, _SKEW_ON), "skew, [-1, 1]"),
    ("narrow columns", _On, _REPLACE,
     _of(numbers, 20_000, 10, narrow=(1e-3, 1e-3, 1e-2, 1e-2, 0.1), seed=7), ""),
    ("long rows", _On, _ADD, _of(numbers, 10_000, 12, long_rows=1, seed=8), ""),
    ("0.3% positives", _On, _ADD, _of(numbers, 20_000, 8, positives=0.003, seed=9), ""),
    ("no signal", _On, _REPLACE, _of(numbers, 5_000, 15, signal=0.0, seed=10), ""),
    ("strong signal", _On, _ADD, _of(numbers, 10_000, 15, signal=8.0, seed=12), ""),
    ("correlated", _On, _ADD, _of(numbers, 20_000, 25, factors=4, seed=13), ""),
    ("white", _On, _REPLACE, _of(numbers, 10_000, 20, signal=1.5, positives=0.5, seed=14), ""),
    ("50 rows", _On, _ADD, _of(numbers, 50, 5, seed=15), ""),
    ("500 rows", _On, _ADD, _of(numbers, 500, 6, positives=0.3, seed=16), ""),
    ("more columns than rows", _On, _ADD, _of(numbers, 200, 400, seed=17), ""),

    ("one-hot, wide", _By, _ADD,
     _of(one_hot, 30_000, (40, 25, 12, 4), 5, exponent=1.5, empty=3, seed=51), ""),
    ("one-hot, few rows", _By, _REPLACE, _of(one_hot, 2_000, (4, 6, 10), 2, seed=52), ""),
    ("one-hot, 0.3% positives", _By, _ADD,
     _of(one_hot, 40_000, (6, 12, 8), 3, empty=2, positives=0.003, seed=53), ""),
    ("one-hot, only", _By, _ADD, _ONE_HOT_BY, ""),
    ("one-hot, only, undeclared", _By, _ADD, _changed(undeclared, _ONE_HOT_BY), ""),
    ("heavy tails, 40 columns", _By, _ADD,
     _of(numbers, 8_000, 40, kind="heavy", zeros=0.5, positives=0.4, seed=55), ""),
    ("heavy tails, 20 columns", _By, _REPLACE,
     _of(numbers, 30_000, 20, kind="heavy", zeros=0.2, signal=1.0, seed=56), ""),
    ("constant of 0.3", _By, _ADD,
     _of(numbers, 8_000, 12, constant=0.3, positives=0.15, seed=57), ""),
    ("skewed, [-1, 1]", _By, _REPLACE, _SKEW_BY, ""),
    ("skewed, ones inside", _By, _REPLACE, _changed(inside, _SKEW_BY), "skewed, [-1, 1]"),
    ("skewed, [0, 1]", _By, _REPLACE, _changed(in_unit_range, _SKEW_BY), "skewed, [-1, 1]"),
    ("factors", _By, _ADD, _NORMAL_BY, ""),
    ("factors, ones inside", _By, _ADD, _changed(inside, _NORMAL_BY), "factors"),
    ("factors, reordered", _By, _ADD, _changed(reordered, _NORMAL_BY), "factors"),
    ("a thousand times narrower", _By, _ADD,
     _of(numbers, 40_000, 8, narrow=(1e-3,) * 8, signal=1.5, seed=63), ""),
    ("wide bounds", _By, _ADD, _of(numbers, 12_000, 14, wide=30.0, positives=0.35, seed=64), ""),
    ("lone long rows", _By, _REPLACE, _of(numbers, 20_000, 10, long_rows=2, seed=65), ""),
    ("1% positives, few rows", _By, _ADD, _of(numbers, 2_000, 6, positives=0.01, seed=66), ""),
    ("half positives, weak", _By, _ADD, _of(numbers, 10_000, 30, signal=0.5, seed=67), ""),
    ("no signal, 10% positives", _By, _ADD,
     _of(numbers, 8_000, 25, signal=0.0, positives=0.1, seed=68), ""),
    ("strong, correlated", _By, _ADD,
     _of(numbers, 12_000, 12, factors=3, signal=6.0, positives=0.4, seed=69), ""),
    ("60 rows", _By, _ADD, _of(numbers, 60, 3, positives=0.3, seed=70), ""),
    ("300 rows", _By, _REPLACE, _of(numbers, 300, 10, seed=71), ""),
    ("300 rows, 1,000 columns", _By, _ADD, _of(numbers, 300, 1000, seed=72), ""),
    ("ZIP codes, undeclared", _By, _REPLACE,
     _changed(undeclared, _of(one_hot, 20_000, (400,), 3, exponent=1.0, seed=74)), ""),
    ("words, undeclared", _By, _ADD, _of(words, 10_000, 500, 10, seed=75), ""),
    ("200 columns", _By, _REPLACE, _of(numbers, 20_000, 200, seed=76), ""),
    ("one factor, 50 columns", _By, _ADD, _of(numbers, 2_000, 50, factors=1, seed=77), ""),
    ("constant of 0.003", _By, _ADD,
     _of(numbers, 8_000, 12, constant=0.003, positives=0.15, seed=79), ""),
    ("300,000 rows", _By, _REPLACE, _of(numbers, 300_000, 12, kind="skew", seed=73), ""),
)  # fmt: skip


def made(half: Half | None = None, names: Sequence[str] | None = None) -> Iterator[Table]:
    """The made tables, or one half of them, or some by name."""
    for name, side, relation, make, twin in FAMILIES:
        if half in (None, side) and (names is None or name in names):
            yield Table(name=name, half=side, relation=relation, twin=twin, **make())


# ---- real tables --------------------------------------------------------------------------------


def real(data: Path, half: Half | None = None, *, largest: int = 10**9) -> Iterator[Table]:
    """The real tables, or one half of them; at most `largest` rows of each, at random.

    Those of the older benchmarks, on which settings were chosen before, are all in one half.
    """
    makers: dict[str, tuple[Half, Callable[[], Table]]] = {
        "RAND HIE": (_On, lambda: _as_table(problems.randhie())),
        "Bank": (_On, lambda: _as_table(problems.bank(data))),
        "Wine": (_On, lambda: _as_table(problems.wine(data))),
        "letter": (_On, lambda: _as_table(problems.letter(data))),
        "Adult": (_On, lambda: adult(data)),
        "a9a": (_On, lambda: _as_table(problems.a9a(data))),
        "MNIST-5k": (_On, lambda: _as_table(problems.mnist(data))),
        "credit default": (_By, lambda: credit_default(data)),
        "health panel": (_By, lambda: health_panel(data)),
        "KDD Cup 1999": (_By, lambda: kddcup(data, largest)),
    }
    for side, make in makers.values():
        if half in (None, side):
            yield cut(make(), largest)


def _as_table(data: problems.Dataset) -> Table:
    return Table(data.name, data.X, data.y, data.data_norm, _On, _ADD, real=True)


def cut(table: Table, largest: int) -> Table:
    """At most so many rows of a table, at random."""
    if len(table.y) <= largest:
        return table
    rows = np.sort(np.random.default_rng(0).permutation(len(table.y))[:largest])
    return replace(table, X=np.ascontiguousarray(table.X[rows]), y=table.y[rows])


def _encoded(
    name: str, columns: Mapping[str, Any], bounds: Mapping[str, Any], y: Vector, half: Half
) -> Table:
    """A table of text or numbers, encoded by a schema as the command line does."""
    from dpfast.tabular import TableSchema

    schema = TableSchema.from_bounds({**bounds, "_": ["a", "b"]}, target="_")
    blocks = tuple((b.start, b.stop) for b in schema.column_blocks if b.kind == "one-hot")
    X = np.ascontiguousarray(schema.transform(columns))
    return Table(name, X, y, schema.row_norm_bound, half, _ADD, blocks, real=True)


def adult(data: Path) -> Table:
    """Income above 50,000 dollars, of the training rows."""
    found = problems.adult(data, ["adult_train.csv"])
    hot = tuple((start, stop) for kind, start, stop in found.blocks if kind == "one-hot")
    return replace(_as_table(found), indicators=hot)


def credit_default(data: Path) -> Table:
    """Default of credit card clients; codes are categories, amounts have round bounds."""
    table = problems.text_columns(data, "credit_default.csv")
    y = np.where(table["default"] == "1", 1.0, -1.0)
    bounds: dict[str, Any] = {
        "limit_bal": [0.0, 1e6],
        "sex": ["1", "2"],
        "education": [str(code) for code in range(7)],
        "marriage": [str(code) for code in range(4)],
        "age": [18.0, 100.0],
    }
    repaid = [name for name in table if name.startswith("pay_") and not name.startswith("pay_amt")]
    bounds |= {name: [-2.0, 9.0] for name in repaid}
    bounds |= {name: [-1e6, 1e6] for name in table if name.startswith("bill_amt")}
    bounds |= {name: [0.0, 1e6] for name in table if name.startswith("pay_amt")}
    return _encoded("credit default", table, bounds, y, _By)


def health_panel(data: Path) -> Table:
    """Any visit to a doctor in the year; German health panel."""
    table = problems.text_columns(data, "health_panel.csv")
    y = np.where(table["docvis"] == "0", -1.0, 1.0)
    bounds: dict[str, Any] = {
        "year": [str(year) for year in range(1984, 1989)],
        "edlevel": ["1", "2", "3", "4"],
        "age": [18.0, 100.0],
        **{name: ["0", "1"] for name in ("outwork", "female", "married", "kids", "self")},
        "hhninc": [0.0, 50.0],
        "educ": [0.0, 25.0],
    }
    return _encoded("health panel", table, bounds, y, _By)


def kddcup(data: Path, largest: int) -> Table:
    """KDD Cup 1999, its 10% sample: is a connection an attempt to deny a service?"""
    with problems.opened(data, "kddcup99_10pct.csv") as file:
        lines = file.read().splitlines()
    kept = np.sort(np.random.default_rng(0).permutation(len(lines))[:largest])
    rows = [lines[i].split(",") for i in kept]
    y = np.where(np.isin([row[41] for row in rows], problems._KDD_DENIALS), 1.0, -1.0)
    columns: dict[str, Any] = {}
    bounds: dict[str, Any] = {}
    for j in range(41):
        values = np.array([row[j] for row in rows])
        if j in problems._KDD_TEXT:
            columns[f"c{j}"], bounds[f"c{j}"] = values, sorted(set(values.tolist()))
        elif j in problems._KDD_RATES:
            columns[f"c{j}"], bounds[f"c{j}"] = values, [0.0, 1.0]
        else:  # counts, seconds, bytes
            columns[f"c{j}"] = np.log1p(np.maximum(values.astype(np.float64), 0.0))
            bounds[f"c{j}"] = [0.0, math.log1p(2.0**31)]
    return _encoded("KDD Cup 1999", columns, bounds, y, _By)


# ---- what is lost on them -----------------------------------------------------------------------


def problem_of(table: Table) -> Problem:
    """The table with what is declared of it: categories and numbers, or nothing."""
    return Problem(
        table.X,
        table.y,
        "logistic",
        data_norm=table.data_norm,
        intercept=float(table.intercept),
        columns=() if _undeclared(table) else blocks(table.indicators, table.X.shape[1]),
    )


def _undeclared(table: Table) -> bool:
    return "undeclared" in table.name or (table.real and not table.indicators)


def blocks(indicators: Sequence[tuple[int, int]], columns: int) -> tuple[ColumnBlock, ...]:
    """Categories where these are, numbers elsewhere."""
    found, at = [], 0
    for start, stop in (*sorted(indicators), (columns, columns)):
        found += [ColumnBlock("number", j, j + 1) for j in range(at, start)]
        found += [ColumnBlock("one-hot", start, stop)] if stop > start else []
        at = stop
    return tuple(found)


def measure(problem: Problem, relation: str, epsilon: float, repetitions: int) -> Vector:
    """Mean losses of private fits."""
    budget, options = Budget(epsilon, DELTA), {"neighboring_relation": relation}
    fits = (solve(problem, "auto", budget, **options, random_state=k) for k in range(repetitions))
    return np.array([problem.objective(fit.w) for fit in fits]) / problem.shape.n_samples


def constants(table: Table, epsilon: float, draws: int = 1_000) -> tuple[float, float]:
    """Mean loss of the share of positives, and of what to expect of one with noise.

    The latter is the mean of its posterior law from a flat prior, for the whole budget.
    """
    n, share = len(table.y), float(np.mean(table.y > 0.0))
    noise = 1.0 / (budget_mu(Budget(epsilon, DELTA), "auto") * n)  # whichever the relation
    noisy = share + noise * np.random.default_rng(0).standard_normal(draws)
    shares = (np.arange(2_000) + 0.5) / 2_000
    belief = -0.5 * np.square((noisy[:, None] - shares) / max(noise, 1.0 / 2_000))
    belief = np.exp(belief - belief.max(axis=1, keepdims=True))
    learned = belief @ shares / belief.sum(axis=1)

    def loss(p: Any) -> float:
        return float(np.mean(-share * np.log(p) - (1.0 - share) * np.log1p(-p)))

    return loss(share), loss(learned)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="directory of the real tables")
    parser.add_argument("--repetitions", type=int, default=8)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--half", choices=("chosen on", "judged by"))
    parser.add_argument("--names", nargs="+", help="of made tables; default: all")
    parser.add_argument("--largest", type=int, default=40_000, help="rows of a table at most")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    tables = [cut(table, given.largest) for table in made(given.half, given.names)]
    if given.data is not None:
        tables += real(given.data, given.half, largest=given.largest)
    for table in tables:
        problem, before = problem_of(table), np.array([np.inf, 0.0])
        least = problems.least_loss(problem)
        for epsilon in given.epsilons:
            found = measure(problem, table.relation, epsilon, given.repetitions) - least
            now = np.array([found.mean(), found.std(ddof=1) / math.sqrt(len(found))])
            exact, learned = constants(table, epsilon)
            flags = " >const" * bool(now[0] > exact - least + 2.0 * now[1])
            flags += " rises" * bool(now[0] > before[0] + 2.0 * math.hypot(now[1], before[1]))
            before = now
            print(
                f"| {table.half} | {table.name} | {epsilon:g} | {now[0]:.5f} ± {now[1]:.5f} | "
                f"{exact - least:.5f}, {learned - least:.5f} |{flags}",
                flush=True,
            )


if __name__ == "__main__":
    main()
