"""What public rows bring to a private fit: ``python -m bench.priors --data DIR``.

Excess log-loss of fits without and with a prior and of the public rows alone, by rows behind one
weight; and what a prior does that is of other rows, of other labels, or of none.  With --monthly:
twelve monthly fits, each of which begins with the one before, next to twelve that do not; with
--drift, of labels by weights that move over the year by a share of their length.  With --wrong:
coefficients of a fit of four times the rows, right and wrong ones.  Not timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize
from scipy.special import expit

from bench.problems import Dataset, bank, letter, numeric_adult, randhie, wine
from dpfast import Budget, Ledger, Problem, plan, solve
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out
from dpfast.solvers.prior import Coefficients, known_rows, plan_refit, tells_more
from dpfast.solvers.public_rows import from_rows, plan_with_rows

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
_PUBLIC, _DRAWS = 300, 3
_ROWS_PER_WEIGHT = (0.3, 1.0, 2.5, 6.0, 10.0, 20.0)


def same(data: Dataset, rng: np.random.Generator) -> tuple[Matrix, Vector]:
    """Rows of the same table."""
    del rng
    return data.X[:_PUBLIC], data.y[:_PUBLIC]


def shifted(data: Dataset, rng: np.random.Generator) -> tuple[Matrix, Vector]:
    """Of the third that is farthest in a random direction, 15% of the labels made positive."""
    far = np.argsort(data.X @ rng.standard_normal(data.X.shape[1]))[-len(data.y) // 3 :]
    rows = rng.permutation(far)[:_PUBLIC]
    return data.X[rows], np.where(rng.random(_PUBLIC) < 0.15, 1.0, data.y[rows])


def opposite(data: Dataset, rng: np.random.Generator) -> tuple[Matrix, Vector]:
    """Labels the other way round."""
    del rng
    return data.X[:_PUBLIC], -data.y[:_PUBLIC]


def shuffled(data: Dataset, rng: np.random.Generator) -> tuple[Matrix, Vector]:
    """Labels that have nothing to do with the rows."""
    return data.X[:_PUBLIC], rng.permutation(data.y[:_PUBLIC])


KINDS: dict[str, Callable[[Dataset, np.random.Generator], tuple[Matrix, Vector]]] = {
    "same": same,
    "shifted": shifted,
    "opposite": opposite,
    "shuffled": shuffled,
}


def measure(
    data: Dataset, rows_per_weight: Sequence[float], repetitions: int, seed: int
) -> NDArray[np.float64]:
    """Excess of fits without a prior, of the prior and of fits with it, by kind and u.

    Parameters
    ----------
    data : Dataset
        Its first rows are public.
    rows_per_weight : sequence of float
    repetitions, seed : int
        So many fits, of seeds from the latter on.

    Returns
    -------
    ndarray of shape (kinds, len(rows_per_weight), 3, repetitions)
    """
    problem = Problem(data.X[_PUBLIC:], data.y[_PUBLIC:], "logistic", data_norm=data.data_norm)
    shape = problem.shape
    best = _least(problem)

    def excess(w: Vector) -> float:
        return problem.objective(w) / shape.n_samples - best

    seeds = range(seed, seed + repetitions)
    found = np.empty((len(KINDS), len(rows_per_weight), 3, repetitions))
    for j, u in enumerate(rows_per_weight):
        budget = Budget(mu=2.0 * u * shape.dim / shape.n_samples)
        alone = [excess(solve(problem, "dp-whitened-gd", budget, random_state=k).w) for k in seeds]
        for i, draw in enumerate(KINDS.values()):
            prior = from_rows(shape, *draw(data, np.random.default_rng(3)))
            settled = plan_with_rows(shape, prior, budget)
            fits = [
                excess(carry_out(settled, problem, SecureGenerator(k), Ledger(budget)).w)
                for k in seeds
            ]
            found[i, j] = alone, [excess(prior.origin)] * repetitions, fits
    return found


def _lines(found: NDArray[np.float64]) -> Iterator[str]:
    """A line a kind and u: means, and the last over the smaller of the others with its error.

    Parameters
    ----------
    found : ndarray of shape (draws, kinds, len(_ROWS_PER_WEIGHT), 3, repetitions)
    """
    means = found.mean(axis=(0, 4))
    # Of the noise in fits: draws of the public rows are what they are.
    errors = np.sqrt(np.mean(found.var(axis=4), axis=0) / (len(found) * found.shape[4])) / means
    for i, kind in enumerate(KINDS):
        for j, u in enumerate(_ROWS_PER_WEIGHT):
            alone, public, both = means[i, j]
            ratio, least = both / min(alone, public), int(public < alone)
            error = ratio * np.hypot(errors[i, j, 2], errors[i, j, least])
            yield (
                f"{kind} | {u:g} | {alone:.3f} | {public:.3f} | {both:.3f} | {both / alone:.2f} | "
                f"{ratio:.2f} ± {error:.2f}"
            )


_MONTHS = 12
# Of the budget µ of independent fits: the first month's and the others', whose squares add up to
# 0.6² of twelve.
_FIRST, _LATER = 1.0, 0.5494


def monthly(
    data: Dataset, u: float, repetitions: int, drift: float | None = None
) -> tuple[float, float, float, NDArray[np.float64]]:
    """Mean excess of independent fits, of them at 60% of the budget, of a chain of re-fits at that.

    Every month has a sample of its own of as many rows as the table has, drawn from it with
    replacement, and its own minimizer, over whose loss the excess is.

    Parameters
    ----------
    data : Dataset
    u : float
        Rows behind one weight, times µ, of the independent fits.
    repetitions : int
    drift : float or None, default=None
        None: the table's own labels.

    Returns
    -------
    independent, cheaper, chain : float
    by_month : ndarray of shape (12,)
        Of the chain.
    """
    rng, n = np.random.default_rng(5), len(data.y)
    samples = [rng.integers(0, n, n) for _ in range(_MONTHS)]
    labels = [data.y] * _MONTHS if drift is None else _moving_labels(data, drift, rng)
    problems = [
        Problem(data.X[rows], y[rows], "logistic", data_norm=data.data_norm)
        for rows, y in zip(samples, labels, strict=True)
    ]
    best = [_least(problem) for problem in problems]
    shape = problems[0].shape
    mu = 2.0 * u * shape.dim / n
    found = np.empty((repetitions, 3, _MONTHS))
    for k in range(repetitions):
        known: Coefficients | None = None
        for month, problem in enumerate(problems):
            seed = 100 * k + month

            def excess(w: Vector, problem: Problem = problem, least: float = best[month]) -> float:
                return problem.objective(w) / n - least

            for at, factor in ((0, 1.0), (1, 0.6)):
                budget = Budget(mu=factor * mu)
                w = solve(problem, "dp-whitened-gd", budget, random_state=seed).w
                found[k, at, month] = excess(w)
            budget = Budget(mu=mu * (_FIRST if known is None else _LATER))
            if known is None:
                settled = plan(problem, "dp-whitened-gd", budget)
            else:
                settled = plan_refit(shape, known, budget)
            outcome = carry_out(settled, problem, SecureGenerator(seed), Ledger(budget))
            assert outcome.covariance is not None
            known = Coefficients(outcome.w, outcome.covariance, known_rows(settled))
            found[k, 2, month] = excess(outcome.w)
    means = found.mean(axis=(0, 2))
    return float(means[0]), float(means[1]), float(means[2]), found[:, 2].mean(axis=0)


def wrong(data: Dataset, u: float, repetitions: int) -> dict[str, float]:
    """Mean excess of fits with coefficients of fits of four times the rows, over those without.

    Parameters
    ----------
    data : Dataset
    u : float
        Rows behind one weight, times µ.
    repetitions : int

    Returns
    -------
    dict of float
        By what became of the coefficients before: nothing, minus, three times, a third of their
        length away in a random direction of the covariance; the minimizer with errors of variance
        1; and zeros of variance 40, which say next to nothing.
    """
    problem = Problem(data.X, data.y, "logistic", data_norm=data.data_norm)
    shape, least = problem.shape, _minimize(problem)
    best = float(least.fun)
    budgets = [Budget(mu=factor * 2.0 * u * shape.dim / shape.n_samples) for factor in (1.0, 4.0)]
    alone, larger = (plan(problem, "dp-whitened-gd", budget) for budget in budgets)
    rng, found = np.random.default_rng(1), dict[str, list[float]]()
    for k in range(repetitions):
        earlier = carry_out(larger, problem, SecureGenerator(1000 + k), Ledger(budgets[1]))
        w, covariance = earlier.w, earlier.covariance
        assert covariance is not None
        root = np.linalg.cholesky(covariance)
        way = rng.standard_normal(len(w))
        way *= np.linalg.norm(np.linalg.solve(root, w)) / np.linalg.norm(way)
        rows, told = known_rows(larger), {"right": w, "minus": -w, "three times": 3.0 * w}
        told["a third away"] = w + root @ way / 3.0
        priors = {name: Coefficients(v, covariance, rows) for name, v in told.items()}
        vague = least.x + rng.standard_normal(len(w))
        priors["vague"] = Coefficients(vague, np.eye(len(w)), 0.0)
        priors["nothing"] = Coefficients(0.0 * w, 40.0 * np.eye(len(w)), 0.0)
        assert tells_more(priors["nothing"], shape)  # or estimators would ignore it
        plans = {name: plan_refit(shape, prior, budgets[0]) for name, prior in priors.items()}
        for name, settled in {"alone": alone, **plans}.items():
            v = carry_out(settled, problem, SecureGenerator(k), Ledger(budgets[0])).w
            found.setdefault(name, []).append(problem.objective(v) / shape.n_samples - best)
    without = float(np.mean(found.pop("alone")))
    return {name: float(np.mean(losses)) / without for name, losses in found.items()}


def _moving_labels(data: Dataset, drift: float, rng: np.random.Generator) -> list[Vector]:
    """Labels of every month, by the table's weights, which move in a random direction."""
    problem = Problem(data.X, data.y, "logistic", data_norm=data.data_norm)
    w, (n, d) = _minimize(problem).x, data.X.shape
    root = np.linalg.cholesky(np.cov(data.X.T) + 1e-9 * np.eye(d))
    way = rng.standard_normal(d)
    way *= np.linalg.norm(root.T @ w[:d]) / np.linalg.norm(way)
    centered = data.X - data.X.mean(axis=0)
    margins = data.X @ w[:d] + problem.shape.intercept * w[-1]
    changes = drift * (centered @ np.linalg.solve(root.T, way))
    chances = (expit(margins + month / (_MONTHS - 1) * changes) for month in range(_MONTHS))
    return [np.where(rng.random(n) < chance, 1.0, -1.0) for chance in chances]


def _least(problem: Problem) -> float:
    """The smallest mean loss."""
    return float(_minimize(problem).fun)


def _minimize(problem: Problem) -> OptimizeResult:
    return minimize(
        lambda w: problem.value_and_gradient(w, 1e-9),
        np.zeros(problem.shape.dim),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 3000},
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print, a line a table, kind of prior and u."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="directory of the tables; RAND HIE needs none")
    parser.add_argument("--repetitions", type=int, default=6)
    parser.add_argument("--monthly", action="store_true", help="twelve monthly re-fits instead")
    parser.add_argument("--wrong", action="store_true", help="right and wrong coefficients instead")
    parser.add_argument("--drift", type=float, help="of the months' weights, made labels")
    given = parser.parse_args(arguments)
    tables = [randhie()]
    if given.data is not None:
        tables += [load(given.data) for load in (wine, letter, bank, numeric_adult)]
    for table in tables:
        if given.wrong:
            for u in (2.5, 6.0, 20.0, 60.0, 200.0):
                ratios = wrong(table, u, given.repetitions)
                cells = " | ".join(f"{ratio:.2f}" for ratio in ratios.values())
                print(f"| {table.name} | {u:g} | {cells} |", flush=True)
            continue
        if given.monthly:
            for u in (6.0, 20.0, 60.0):
                alone, cheaper, chain, months = monthly(table, u, given.repetitions, given.drift)
                print(
                    f"| {table.name} | {u:g} | {alone:.4f} | {cheaper:.4f} | {chain:.4f} | "
                    f"{chain / alone:.2f} | {months[0]:.4f}, {months[-1]:.4f} |"
                )
            continue
        found = []
        for draw in range(_DRAWS):
            order = np.random.default_rng(50 + draw).permutation(len(table.y))
            mixed = Dataset(table.name, table.X[order], table.y[order], table.data_norm)
            # Seeds of their own, so that the noise of all fits without a prior is not the same.
            found.append(measure(mixed, _ROWS_PER_WEIGHT, given.repetitions, 1000 * draw))
        for line in _lines(np.array(found)):
            print(f"| {table.name} | {line} |", flush=True)


if __name__ == "__main__":
    main()
