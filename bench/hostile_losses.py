"""Tables that break the other losses' defaults: ``python -m bench.hostile_losses --data DIR``.

Regressions, support vector machines and several classes, with ``solver="auto"``.  Excess is the
mean loss on the training rows above its minimum; of regressions in units of what the best constant
loses, so that it is a loss of R², or the like of it.  A line a table, loss and ε: excess with its
standard error, that of the best constant, and that of one learnt privately with the whole budget
(of targets whose range is known).  Flags: ``>const``, worse than the best constant, and ``rises``,
worse than at the ε before, both by more than two standard errors.  Settings are chosen on the
tables with ``half="chosen on"`` alone, and judged by the others.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special
from numpy.typing import NDArray

from bench import hostile, problems
from dpfast import HuberRegressor, LinearRegression, LinearSVC, LogisticRegression
from dpfast import QuantileRegressor as Quantile
from dpfast.privacy import Budget, records_apart
from dpfast.privacy.calibration import budget_mu

Vector = NDArray[np.float64]

EPSILONS = (0.05, 0.1, 0.4, 1.5, 6.0, 30.0)
DELTA = 1e-6
_MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "squares": (LinearRegression, {}),
    "huber": (HuberRegressor, {}),
    "median": (Quantile, {"quantile": 0.5}),
    "q90": (Quantile, {"quantile": 0.9}),
    "svm": (LinearSVC, {}),
    "classes": (LogisticRegression, {}),
}


@dataclass(frozen=True)
class Table:
    """Columns, targets, and what is publicly known of them.

    Attributes
    ----------
    bounds : tuple of two floats
        Of the targets, as wide as they are; classes are 0, 1, ..., bounds[1].
    wide : float
        By how much the declared bounds are wider.
    losses : tuple of str
    """

    name: str
    half: hostile.Half
    relation: str
    X: Vector
    y: Vector
    data_norm: float
    bounds: tuple[float, float]
    losses: tuple[str, ...]
    wide: float = 1.0
    indicators: tuple[tuple[int, int], ...] = ()

    def options(self, loss: str) -> dict[str, Any]:
        """What the estimator is told."""
        found: dict[str, Any] = {"data_norm": self.data_norm, "neighboring_relation": self.relation}
        if loss in ("svm", "classes"):
            found["classes"] = list(range(int(self.bounds[1]) + 1))
        else:
            low, high = self.bounds
            middle, reach = 0.5 * (low + high), 0.5 * self.wide * (high - low)
            found["target_bounds"] = (middle - reach, middle + 1.1 * reach)
        if self.indicators:
            found["column_blocks"] = hostile.blocks(self.indicators, self.X.shape[1])
        return found


_ALL = ("squares", "huber", "median", "q90")
_LS = ("squares",)
_ON, _BY = hostile._On, hostile._By
_REPLACE, _ADD = hostile._REPLACE, hostile._ADD
# Name, half, relation, family and its options, deviation and law of the residuals (of "0/1" and
# "stay" before targets are 0 or 1, or days, of which many are none; of "costs" nine in ten are
# none, of "income" logarithms, and "gamma" tells of no column), width of the bounds, losses.
_REGRESSIONS: tuple[tuple[Any, ...], ...] = (
    ("plain", _ON, _REPLACE, (2_000, 8), {}, 0.5, "normal", 1.0, _ALL),
    ("plain, × 1,000", _ON, _REPLACE, (2_000, 8), {}, 0.5, "normal", 1e3, _ALL),
    ("log-normal", _ON, _REPLACE, (20_000, 8), {}, 1.0, "log-normal", 1.0, _ALL),
    ("correlated", _ON, _ADD, (20_000, 25), {"factors": 4}, 0.5, "normal", 1.0, _LS),
    ("narrow", _ON, _ADD, (20_000, 10), {"narrow": (1e-2,) * 5}, 0.5, "normal", 1.0, _ALL),
    ("no signal", _ON, _ADD, (5_000, 15), {}, 1e6, "normal", 1.0, _ALL),
    ("50 rows", _ON, _ADD, (50, 5), {}, 0.5, "normal", 1.0, _ALL),
    ("400 columns", _ON, _REPLACE, (200, 400), {}, 0.5, "normal", 1.0, _ALL),
    ("one-hot", _ON, _ADD, (10_000, (3, 8, 20), 3), {"empty": 2}, 1.0, "normal", 1.0, _ALL),
    ("long rows", _ON, _ADD, (10_000, 12), {"long_rows": 1}, 0.5, "normal", 1.0, _LS),
    ("plain, 3,000 rows", _BY, _ADD, (3_000, 10), {}, 0.3, "normal", 1.0, _ALL),
    ("× 1,000, 3,000 rows", _BY, _ADD, (3_000, 10), {}, 0.3, "normal", 1e3, _ALL),
    ("× 10,000, 3,000 rows", _BY, _ADD, (3_000, 10), {}, 0.3, "normal", 1e4, _ALL),
    ("Student's t", _BY, _ADD, (10_000, 6), {}, 1.0, "t", 1.0, _ALL),
    ("log-normal, × 1,000", _BY, _REPLACE, (20_000, 5), {}, 1.0, "log-normal", 1e3, _ALL),
    ("factors", _BY, _REPLACE, (15_000, 12), {"factors": 3}, 0.3, "normal", 1.0, _LS),
    ("wide features", _BY, _ADD, (10_000, 8), {"wide": 30.0}, 0.5, "normal", 1.0, _ALL),
    ("heavy features", _BY, _ADD, (15_000, 10), {"kind": "heavy"}, 0.5, "normal", 1.0, _LS),
    ("no signal, × 1,000", _BY, _REPLACE, (8_000, 10), {}, 1e6, "normal", 1e3, _ALL),
    ("60 rows", _BY, _REPLACE, (60, 3), {}, 0.5, "normal", 1e3, _ALL),
    ("300 rows", _BY, _ADD, (300, 4), {}, 0.5, "normal", 1.0, _ALL),
    ("1,000 columns", _BY, _ADD, (300, 1_000), {}, 0.5, "normal", 1.0, _LS),
    ("one-hot, few", _BY, _REPLACE, (3_000, (4, 12, 9), 0), {"empty": 3}, 1.0, "normal", 1.0, _ALL),
    ("200,000 rows", _BY, _REPLACE, (200_000, 10), {"kind": "skew"}, 0.5, "normal", 1.0, _LS),
    ("a fifth ones", _ON, _ADD, (10_000, 8), {}, 2.0, "0/1", 1.0, _LS),
    ("length of stay", _BY, _REPLACE, (30_000, 8), {}, 0.9, "stay", 1.0, _LS),
    ("costs", _BY, _REPLACE, (20_000, 8), {}, 0.9, "costs", 1.0, _LS),
    ("no signal, gamma", _BY, _REPLACE, (4_000, 10), {}, 1.0, "gamma", 1.0, _ALL),
    ("income, 3,000 rows", _BY, _REPLACE, (3_000, 10), {}, 0.7, "income", 1.0, _ALL),
)  # fmt: skip
# Name, half, relation, rows and columns, signal, shares of the classes.
_CLASSES: tuple[tuple[Any, ...], ...] = (
    ("two, a fifth", _ON, _ADD, (5_000, 10), 2.0, (0.8, 0.2)),
    ("two, no signal", _ON, _REPLACE, (5_000, 15), 0.0, (0.6, 0.4)),
    ("three", _ON, _ADD, (10_000, 8), 1.5, (0.33, 0.33, 0.34)),
    ("five, rare", _ON, _ADD, (10_000, 8), 1.5, (0.6, 0.3, 0.08, 0.015, 0.005)),
    ("three, no signal", _ON, _REPLACE, (5_000, 10), 0.0, (0.5, 0.3, 0.2)),
    ("two, 3%", _BY, _ADD, (8_000, 12), 2.0, (0.97, 0.03)),
    ("two, 60 rows", _BY, _ADD, (60, 4), 2.0, (0.5, 0.5)),
    ("three, 300 rows", _BY, _ADD, (300, 5), 2.0, (0.5, 0.3, 0.2)),
    ("three, rare", _BY, _REPLACE, (6_000, 10), 1.5, (0.9, 0.09, 0.01)),
    ("ten", _BY, _ADD, (20_000, 12), 1.5, (0.1,) * 10),
    ("five, no signal", _BY, _ADD, (6_000, 12), 0.0, (0.4, 0.3, 0.2, 0.05, 0.05)),
)


def tables(data: Path | None = None) -> Iterator[Table]:
    """The made tables, then, of a directory, the real ones."""
    for number, (name, half, relation, size, options, spread, law, wide, losses) in enumerate(
        _REGRESSIONS
    ):
        rng = np.random.default_rng(1000 + number)
        family = hostile.one_hot if len(size) > 2 else hostile.numbers
        made = family(*size, **options, seed=number)
        X = made["X"]
        margin = X @ (rng.standard_normal(X.shape[1]) / np.maximum(X.std(axis=0), 1e-3))
        margin /= margin.std()
        noise = rng.standard_normal(len(X))
        if law == "log-normal":
            noise = np.exp(noise) - np.exp(0.5)
        elif law == "t":
            noise = rng.standard_t(2.5, len(X))
        if law == "stay":
            days = np.round(np.exp(0.4 + 0.5 * margin + spread * noise))
            y, bounds = np.where(rng.random(len(X)) < 0.35, 0.0, days), (0.0, 365.0)
        elif law == "costs":
            paid = 1_500.0 * np.exp(0.5 * margin + spread * noise)
            y, bounds = np.where(rng.random(len(X)) < 0.9, 0.0, paid), (0.0, 1e5)
        elif law == "gamma":
            y, bounds = 3.0 * rng.gamma(0.7, size=len(X)), (0.0, 100.0)
        elif law == "income":
            y, bounds = np.exp(10.3 + 0.5 * margin + spread * noise), (0.0, 5e5)
        elif law == "0/1":
            scores = margin + spread * noise
            y, bounds = (scores > np.quantile(scores, 0.8)).astype(float), (0.0, 1.0)
        else:
            y = 40.0 + (margin + spread * noise) * (5.0 / max(1.0, spread))
            bounds = (float(np.quantile(y, 1e-3)), float(np.quantile(y, 1.0 - 1e-3)))
        y, hot = np.clip(y, *bounds), made.get("indicators", ())
        yield Table(name, half, relation, X, y, made["data_norm"], bounds, losses, wide, hot)
    for number, (name, half, relation, (rows, columns), signal, shares) in enumerate(_CLASSES):
        rng = np.random.default_rng(2000 + number)
        X = np.clip(rng.standard_normal((rows, columns)) / 4.0, -1.0, 1.0)
        scores = 4.0 * signal / np.sqrt(columns) * X @ rng.standard_normal((columns, len(shares)))
        drawn = np.log(shares) + scores + rng.gumbel(size=scores.shape)
        y = np.argmax(drawn, axis=1).astype(float)
        y[: len(shares)] = np.arange(len(shares))
        losses = ("svm",) if len(shares) == 2 else ("classes",)
        yield Table(name, half, relation, X, y, columns**0.5, (0.0, len(shares) - 1.0), losses)
    if data is not None:
        yield from _real(data)


def _real(data: Path) -> Iterator[Table]:
    from bench import counts

    def table(
        name: str, half: hostile.Half, X: Vector, y: Vector, bounds: Any, *losses: str
    ) -> Table:
        return Table(name, half, _ADD, X, y, X.shape[1] ** 0.5, bounds, losses)

    X, rented, _ = counts.rentals(data)
    yield table("bike", _BY, X, rented, (0.0, 1000.0), *_ALL)
    yield table("bike, log", _BY, X, np.log(rented), (0.0, 7.0), *_ALL)
    wine = problems.wine(data, target="quality")
    yield table("wine", _ON, wine.X, wine.y, (-1.0, 1.0), *_ALL)
    graded = np.clip(np.round(5.0 * wine.y) - 0.0, -1.0, 2.0) + 1.0
    yield table("wine, classes", _ON, wine.X, graded, (0.0, 3.0), "classes")
    letter = problems.letter(data, all_classes=True)
    yield table("letter", _BY, letter.X, letter.y, (0.0, 25.0), "classes")
    credit = hostile.credit_default(data)
    yield replace(
        table("credit", _BY, credit.X, np.maximum(credit.y, 0.0), (0.0, 1.0), "svm"),
        data_norm=credit.data_norm,
        indicators=credit.indicators,
    )
    names = {name: bounds for name, bounds in problems._HEALTH.items() if name != "hhninc"}
    health = problems.text_columns(data, "health_panel.csv", [*names, "hhninc"])
    income = np.clip(health["hhninc"].astype(float), 0.0, 50.0)
    yield table("income", _BY, problems.bounded(health, names), income, (0.0, 50.0), *_ALL)


def loss_of(loss: str, y: Vector, margins: Vector) -> tuple[float, Vector]:
    """Mean loss and its slopes in the margins; the Huber loss bends at a standard deviation."""
    n = len(y)
    if loss == "classes":
        logs = scipy.special.log_softmax(margins, axis=1)
        rows = np.arange(n)
        slopes = np.exp(logs)
        slopes[rows, y.astype(int)] -= 1.0
        return -float(logs[rows, y.astype(int)].mean()), slopes / n
    if loss == "svm":
        signs = 2.0 * y - 1.0
        short = np.maximum(1.0 - signs * margins, 0.0)
        return float(short.mean()), -signs * (short > 0.0) / n
    over = y - margins
    if loss in ("squares", "huber"):
        bend = np.inf if loss == "squares" else y.std()
        cut = np.clip(over, -bend, bend)
        return float(np.mean(cut * (over - 0.5 * cut))), -cut / n
    q = 0.5 if loss == "median" else 0.9
    return float(np.mean(np.maximum(q * over, (q - 1.0) * over))), np.where(over > 0, -q, 1 - q) / n


def _least(loss: str, y: Vector, Z: Vector) -> float:
    """The minimum over linear functions of the columns `Z`."""
    if loss == "squares":
        return loss_of(loss, y, Z @ np.linalg.lstsq(Z, y, rcond=None)[0])[0]
    if loss in ("svm", "median", "q90"):
        return _least_kinked(loss, y, Z)
    width = int(y.max()) + 1 if loss == "classes" else 1
    Q, _ = np.linalg.qr(Z)
    Q *= np.sqrt(len(y))

    def of(w: Vector) -> tuple[float, Vector]:
        margins = Q @ w.reshape(-1, width)
        value, slopes = loss_of(loss, y, margins if loss == "classes" else margins[:, 0])
        return value, (Q.T @ slopes.reshape(len(y), width)).ravel()

    start = np.zeros(Q.shape[1] * width)
    return float(scipy.optimize.minimize(of, start, jac=True, options={"maxiter": 500}).fun)


def _least_kinked(loss: str, y: Vector, Z: Vector) -> float:
    """A linear program: residuals have a positive and a negative part.

    In units of the columns and of the targets, and with sums in place of means, what a solver takes
    for zero is little.
    """
    n, d = Z.shape
    Z = Z / np.maximum(np.abs(Z).max(axis=0), np.finfo(np.float64).tiny)
    if loss == "svm":
        rows, right, costs = (2.0 * y - 1.0)[:, None] * Z, np.ones(n), (1.0, 0.0)
    else:
        q = 0.5 if loss == "median" else 0.9
        rows, right, costs = Z, y, (q, 1.0 - q)
    # The dual has as many equations as there are columns.
    bounds = (-costs[1], costs[0])
    unit = float(np.abs(right).mean()) or 1.0
    found = scipy.optimize.linprog(-right / unit, A_eq=rows.T, b_eq=np.zeros(d), bounds=bounds)
    return float(-found.fun) * unit / n


def measure(table: Table, loss: str, epsilon: float, runs: int, seed: int = 0) -> Vector:
    """The mean loss of each of some private fits."""
    estimator, options = _MODELS[loss]
    found = np.empty(runs)
    for run in range(runs):
        model = estimator(epsilon, DELTA, **options, **table.options(loss), random_state=seed + run)
        model.fit(table.X, table.y)
        binary = loss in ("svm", "classes")
        margins = model.decision_function(table.X) if binary else model.predict(table.X)
        found[run] = loss_of(loss, table.y, margins)[0]
    return found


def constants(table: Table, loss: str, epsilon: float, draws: int = 2_000) -> tuple[float, float]:
    """Mean loss of the best constant, and of one with the noise that the whole budget needs."""
    y, n, ones = table.y, len(table.y), np.ones((len(table.y), 1))
    best = _least(loss, y, ones)
    apart = records_apart(table.relation)
    mu, rng = budget_mu(Budget(epsilon, DELTA), "auto"), np.random.default_rng(0)
    if loss == "svm":
        return best, best
    if loss == "classes":
        shares = np.bincount(y.astype(int)) / n
        noisy = shares + np.sqrt(apart) / (mu * n) * rng.standard_normal((draws, len(shares)))
        noisy = np.maximum(noisy, np.sqrt(apart) / (mu * n))
        return best, float(np.mean(-np.log(noisy / noisy.sum(axis=1, keepdims=True)) @ shares))
    center = {"median": np.median(y), "q90": np.quantile(y, 0.9)}.get(loss, y.mean())
    noise = 0.5 * apart * (table.bounds[1] - table.bounds[0]) / (mu * n)
    found = [center + noise * z for z in rng.standard_normal(100)]
    return best, float(np.mean([loss_of(loss, y, np.clip(c, *table.bounds))[0] for c in found]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print, a line a table, loss and ε."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="directory of the real tables")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--half", choices=("chosen on", "judged by"))
    parser.add_argument("--losses", nargs="+", default=list(_MODELS))
    parser.add_argument("--names", nargs="+", help="of made tables; default: all")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for table in tables(given.data):
        if given.half not in (None, table.half) or (given.names and table.name not in given.names):
            continue
        for loss in (one for one in table.losses if one in given.losses):
            least = _least(loss, table.y, np.column_stack([table.X, np.ones(len(table.y))]))
            unit, before = 1.0, np.array([np.inf, np.inf])
            for epsilon in given.epsilons:
                best, private = constants(table, loss, epsilon)
                if loss not in ("svm", "classes"):
                    unit = best
                found = measure(table, loss, epsilon, given.repetitions) / unit
                error = found.std(ddof=1) / len(found) ** 0.5
                flags = " >const" * bool(found.mean() > best / unit + 2.0 * error)
                rise = found.mean() - before[0]
                flags += " rises" * bool(rise > 2.0 * np.hypot(error, before[1]))
                before = np.array([found.mean(), error])
                print(
                    f"| {table.half} | {table.name} | {loss} | {epsilon:g} | "
                    f"{found.mean() - least / unit:.4f} ± {error:.4f} | "
                    f"{(best - least) / unit:.4f}, {(private - least) / unit:.4f} |{flags}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
