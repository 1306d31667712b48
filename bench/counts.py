"""How much of the deviance of counts is explained: ``python -m bench.counts --data DIR``.

Share of what the best Poisson regression without privacy explains, mean of some fits with its
standard error, by ε; 0 is a constant.  Not timed.  With ``--persons``, ε is for a person.  With
``--ideal U``, what one ideal release would explain with so many rows behind a weight, times µ.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from sklearn.linear_model import PoissonRegressor as NotPrivate

from bench.problems import _CLAIMS, _HEALTH, bounded, text_columns
from dpfast import PoissonRegressor

Vector = NDArray[np.float64]
Table = tuple[Vector, Vector, float]

_EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 8.0)
_BIKE = dict.fromkeys(("yr", "holiday", "workingday", "temp", "hum", "windspeed"), (0.0, 1.0))
_PERIODS = {"season": 4.0, "mnth": 12.0, "hr": 24.0, "weekday": 7.0}


def visits(data: Path) -> Table:
    """Visits to a doctor in a year, German health panel."""
    return _table(data, "health_panel.csv", _HEALTH, "docvis", 365.0)


def visits_randhie(data: Path) -> Table:
    """Visits to a doctor in a year, RAND HIE."""
    from dpfast.datasets import load_randhie

    bunch = load_randhie()
    X = bounded(dict(zip(bunch.feature_names, bunch.data.T, strict=True)), bunch.bounds)
    texts = text_columns(data, "randhie.csv", ["mdvis"])
    return X, texts["mdvis"].astype(np.float64), 100.0


def rentals(data: Path) -> Table:
    """Rentals of bicycles an hour, times as periodic functions."""
    X, y, highest = _table(data, "bike_hour.csv", _BIKE, "cnt", 2000.0)
    texts = text_columns(data, "bike_hour.csv", list(_PERIODS))
    turns = [2.0 * np.pi * texts[name].astype(float) / p for name, p in _PERIODS.items()]
    turns.append(2.0 * turns[list(_PERIODS).index("hr")])
    waves = [wave(turn) for turn in turns for wave in (np.sin, np.cos)]
    return np.column_stack([X, *waves]), y, highest


def claims(data: Path) -> Table:
    """Claims on motor policies in a period."""
    return _table(data, "claims_panel.csv", _CLAIMS, "numclaims", 100.0)


def _table(
    data: Path, file: str, bounds: Mapping[str, tuple[float, float]], target: str, highest: float
) -> Table:
    texts = text_columns(data, file, [*bounds, target])
    return bounded(texts, bounds), texts[target].astype(float), highest


TABLES: tuple[Callable[[Path], Table], ...] = (visits, visits_randhie, rentals, claims)
# Whose the rows are, and how many a person has at most.
PERSONS = {visits: ("health_panel.csv", "id", 5), claims: ("claims_panel.csv", "policyID", 3)}


def persons_of(load: Callable[[Path], Table], data: Path) -> tuple[NDArray[np.int64], int]:
    """The person of each row of a table, and the most rows that one has."""
    file, who, most = PERSONS[load]
    return text_columns(data, file, [who])[who].astype(np.float64).astype(np.int64), most


def measure(
    table: Table,
    epsilon: float,
    repetitions: int,
    persons: tuple[NDArray[np.int64], int] | None = None,
) -> Vector:
    """Share of the deviance explained that each of some private fits explains.

    Parameters
    ----------
    table : tuple of ndarray, ndarray, float
        Columns in [-1, 1], counts, and their public bound.
    epsilon : float
    repetitions : int
    persons : tuple of ndarray and int, optional
        See :func:`persons_of`; without them a record is a row.

    Returns
    -------
    ndarray of shape (repetitions,)
    """
    X, y, highest = table
    best = NotPrivate(alpha=0.0, max_iter=1000).fit(X, y).score(X, y)
    settings = {"data_norm": np.sqrt(X.shape[1]), "target_bounds": (0.0, highest)}
    groups, most = persons if persons is not None else (None, None)
    settings |= {"max_rows_per_group": most}
    found = np.empty(repetitions)
    for k in range(repetitions):
        model = PoissonRegressor(epsilon, 1e-6, **settings, random_state=k)
        found[k] = model.fit(X, y, groups=groups).score(X, y) / best
    return found


def ideal(table: Table, u: float, share: float, draws: int = 4_000) -> float:
    """Share that the best direction explains of one clipped gradient with a share of the budget.

    Everything else is known: the rows' covariance, the mean and the weights' length, the best clip
    of slopes and rows, and where clipped slopes vanish.  To second order in the weights.
    """
    X, y, _ = table
    best = NotPrivate(alpha=0.0, max_iter=1000).fit(X, y).coef_
    n, d = X.shape
    values, vectors = np.linalg.eigh(np.cov(X.T))
    Z = (X - X.mean(axis=0)) @ (vectors / np.sqrt(values))
    best = np.sqrt(values) * (vectors.T @ best)
    best, lengths, found = best / np.linalg.norm(best), np.linalg.norm(Z, axis=1) / np.sqrt(d), 0.0
    noise = np.random.default_rng(0).standard_normal((draws, d)) / (u * (d + 1) * np.sqrt(share))
    for clip in (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 4.0, 7.0):  # in means
        for longest in (0.35, 0.7, 1.0, 1.5):
            limits = clip * longest / np.maximum(lengths, longest)

            def clipped(z: float, limits: Vector = limits) -> Vector:
                return np.clip(y / y.mean() - np.exp(z), -limits, limits)

            if clipped(-5.0).mean() < 0.0:
                continue
            zero = scipy.optimize.brentq(lambda z, of=clipped: of(z).mean(), -5.0, 5.0)
            told = Z.T @ clipped(zero) / n + clip * longest * np.sqrt(d) * noise
            along = told @ best / np.linalg.norm(told, axis=1)
            found = max(found, float(np.mean(np.square(np.maximum(along, 0.0)))))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print, a line a table and ε."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory of the tables")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--persons", action="store_true", help="of tables that tell them")
    parser.add_argument("--ideal", type=float, metavar="U")
    given = parser.parse_args(arguments)
    if given.ideal is not None:
        for load in TABLES:
            table = load(given.data)
            whole, half = (ideal(table, given.ideal, share) for share in (1.0, 0.5))
            print(f"| {load.__name__} | u = {given.ideal:g} | {whole:.3f} | {half:.3f} |")
        return
    for load in (load for load in TABLES if load in PERSONS or not given.persons):
        table = load(given.data)
        persons = persons_of(load, given.data) if given.persons else None
        for epsilon in _EPSILONS:
            found = measure(table, epsilon, given.repetitions, persons)
            error = found.std(ddof=1) / np.sqrt(len(found))
            print(
                f"| {load.__name__} | {table[0].shape} | {epsilon:g} | {found.mean():.3f} | "
                f"{error:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
