"""Fits with fewer rows than weights, in units of µ: a direction that later releases confirm."""

import math
from types import SimpleNamespace

import numpy as np

from dpfast import Budget, Ledger, LogisticRegression, Problem, plan, solve
from dpfast.curator import Curator
from dpfast.random import SecureGenerator
from dpfast.solvers import _few_rows
from dpfast.solvers._coordinates import learn

BUDGET, ROWS, COLUMNS = Budget(mu=0.04), 3000, 150
ALONG = "gradient along the weights"


def rows(signal):
    """Columns that three factors move, and labels that follow one of these so far."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((ROWS, 3))
    X = 0.3 * factors @ rng.standard_normal((3, COLUMNS)) + 0.3 * rng.standard_normal(
        (ROWS, COLUMNS)
    )
    X = np.clip(X / 2.0, -1.0, 1.0)
    y = np.where(rng.logistic(size=ROWS) < signal * factors[:, 0], 1.0, -1.0)
    return X, y


def table(signal, **options):
    return Problem(*rows(signal), data_norm=math.sqrt(COLUMNS), **options)


def losses(problem, seeds=3):
    fits = [solve(problem, "auto", BUDGET, random_state=k) for k in range(seeds)]
    return np.array([problem.objective(fit.w) / ROWS for fit in fits]), fits


def names(problem, budget=BUDGET, **options):
    return [
        access.where for access, _ in plan(problem, "dp-whitened-gd", budget, **options).accesses
    ]


def test_few_rows_show_what_one_direction_tells():
    found, _ = losses(table(2.0))
    assert found.max() < 0.9 * math.log(2.0)


def test_what_rows_do_not_confirm_goes():
    found, fits = losses(table(0.0), seeds=6)
    assert found.mean() < math.log(2.0) + 0.01
    assert np.mean([np.std(rows(0.0)[0] @ fit.w[:-1]) for fit in fits]) < 0.12


def test_public_quantities_alone_decide():
    problem = table(1.0)
    assert ALONG in names(problem)
    assert ALONG not in names(problem, Budget(mu=1.0))  # rows enough for coordinates
    assert ALONG not in names(problem, Budget(mu=0.001))  # and too few to confirm anything
    assert ALONG not in names(problem, clip=1.0)
    assert ALONG not in names(problem, alpha=0.1)
    assert ALONG not in names(table(1.0, intercept=0.0))


def test_exact_slopes_lead_to_the_best_scale():
    problem = table(2.0)
    settings = plan(problem, "dp-whitened-gd", BUDGET).settings
    curator = Curator(problem, Ledger(BUDGET), SecureGenerator(0))
    coordinates = learn(settings.learning, problem.shape, curator)
    exact = SimpleNamespace(
        fix=curator.fix,
        release=lambda access, fixed, *point: (
            access.query(access.query.prepare(problem, *fixed.values), *point)
            if hasattr(fixed, "values")
            else curator.release(access, fixed, *point)
        ),
    )
    w, used, norms = _few_rows.descended(settings, problem.shape, exact, coordinates)
    scales = used.transform.diagonal()[:-1]
    assert np.ptp(scales) == 0.0 and len(norms) == settings.iterations

    def loss(scale):  # typical rows keep their margins
        constant = w[-1] + (1.0 - scale) * float(rows(2.0)[0].mean(axis=0) @ w[:-1])
        return problem.objective(np.append(scale * w[:-1], constant))

    assert loss(1.0) < min(loss(0.5), loss(2.0))


def test_estimators_take_it():
    X, y = rows(2.0)
    model = LogisticRegression(
        epsilon=0.2, data_norm=math.sqrt(COLUMNS), classes=[-1.0, 1.0], random_state=0
    )
    assert model.fit(X, y).score(X, y) > 0.55
    assert ALONG in {event.where for event in model.privacy_.events}
