"""Priors where rows are far fewer than weights: how far along the known weights rows go."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

from dpfast import Budget, Ledger, LogisticRegression, Problem, plan
from dpfast.curator import Curator
from dpfast.errors import BudgetExceeded
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out
from dpfast.solvers.along_prior import AlongSettings, _Law, plan_along
from dpfast.solvers.public_rows import PublicSettings, from_rows, plan_with_rows

ROWS, COLUMNS, BUDGET = 3000, 100, Budget(mu=0.08)
ALONG = "gradient along the weights"


@pytest.fixture(scope="module")
def data():
    """Columns of one scale, and labels that follow all of them a little."""
    rng = np.random.default_rng(0)
    X = np.clip(rng.standard_normal((ROWS + 200, COLUMNS)) / 3.0, -1.0, 1.0)
    w = rng.choice([-1.0, 1.0], COLUMNS) * 0.5
    y = np.where(rng.logistic(size=len(X)) < X @ w - 0.7, 1.0, -1.0)
    problem = Problem(X[200:], y[200:], "logistic", data_norm=math.sqrt(COLUMNS))
    return SimpleNamespace(problem=problem, w=np.append(w, -0.7), X=X[:200], y=y[:200])


def planned(problem, rows, w, budget=BUDGET, relation="replace_one"):
    margins = rows @ w[:-1] + w[-1]
    told = float(margins.mean()), float(margins.std())
    return plan_along(problem.shape, w, budget, relation, "auto", told)


def mean_loss(problem, settled, seeds=2):
    fits = (carry_out(settled, problem, SecureGenerator(k), Ledger(BUDGET)) for k in range(seeds))
    return np.mean([problem.objective(fit.w) / ROWS for fit in fits])


def law(multiple, far, constant, seed=0):
    """Of exact slopes of normal rows that follow so much of weights of length 1.5."""
    z = np.random.default_rng(seed).standard_normal((100_000, 3)) * [1.0, 0.8, 0.0] + [0, 0, 1.0]
    z[:, 1] += 0.4 * z[:, 0]
    positive = expit(z @ [multiple, far, constant])
    share = float(positive.mean())
    counted = SimpleNamespace(
        probabilities=lambda: np.array([1.0 - share, share]),
        class_shares=lambda: (np.array([1.0 - share, share]), 0.01, 1.0),
    )
    found = _Law.of(1.5, -0.5, math.log(share / (1.0 - share)), counted, 0.01)
    point = np.zeros(3)
    for _ in range(5):
        predicted = expit(z @ point)
        reach = 1.0 / np.linalg.norm(z, axis=1) / np.maximum(predicted, 1.0 - predicted)
        told = (np.minimum(1.0, reach) * (predicted - positive)) @ z / len(z)
        found.told.append((point, told))
        point = found.expected()
    return point


@pytest.mark.parametrize("truth", [(1.5, 0.0, -0.5), (-1.5, 0.0, 0.5), (0.3, 1.0, 0.2)])
def test_exact_slopes_tell_all_three_numbers(truth):
    np.testing.assert_allclose(law(*truth), truth, atol=0.15)


def test_rows_decide_whether_a_prior_is_followed(data):
    problem, w = data.problem, data.w
    none = mean_loss(problem, plan(problem, "auto", BUDGET))
    best = problem.objective(w) / ROWS
    shuffled = np.append(np.random.default_rng(1).permutation(w[:-1]), w[-1])
    right, opposite, long, other = (
        mean_loss(problem, planned(problem, data.X, v)) - best for v in (w, -w, 5.0 * w, shuffled)
    )
    assert right < 0.1 * (none - best)
    assert max(opposite, long) < 0.6 * (none - best)
    assert other < 1.15 * (none - best)


def test_opposite_public_rows_tell_as_well(data):
    problem = data.problem
    losses = [
        mean_loss(
            problem, plan_with_rows(problem.shape, from_rows(problem.shape, data.X, y), BUDGET)
        )
        for y in (data.y, -data.y)
    ]
    assert max(losses) < mean_loss(problem, plan(problem, "auto", BUDGET))


def test_public_rows_tell_how_long_margins_are():
    rng = np.random.default_rng(4)
    factor, own = rng.standard_normal((2 * ROWS, 1)), rng.standard_normal((2 * ROWS, COLUMNS))
    X = np.clip(0.3 * factor + 0.04 * own, -1.0, 1.0)
    w = np.append(np.resize([8.0, -8.0], COLUMNS), 1.0)  # across what columns share
    y = np.where(rng.logistic(size=len(X)) < X @ w[:-1] + 1.0, 1.0, -1.0)
    private = Problem(X[ROWS:], y[ROWS:], "logistic", data_norm=math.sqrt(COLUMNS))
    found = mean_loss(private, planned(private, X[:ROWS], w)) - private.objective(w) / ROWS
    assert found < 0.02  # where their lengths were guessed by the columns' scales, .23


def test_public_quantities_alone_decide(data):
    shape, rows = data.problem.shape, from_rows(data.problem.shape, data.X, data.y)
    few = Budget(mu=0.06)  # one direction without public rows
    for budget, taken in ((BUDGET, True), (Budget(mu=1.0), False), (few, False)):
        settled = plan_with_rows(shape, rows, budget)
        assert isinstance(settled.settings, AlongSettings) is taken
        assert isinstance(settled.settings, PublicSettings) is not taken
        assert str(settled)
    assert planned(data.problem, data.X, 0.0 * data.w) is None


@pytest.mark.parametrize(
    ("relation", "budget"),
    [
        ("replace_one", Budget(0.4, 1e-6)), ("replace_one", Budget(rho=0.0032)),
        ("replace_one", BUDGET), ("add_or_remove_one", Budget(0.16, 1e-6)),
        ("add_or_remove_one", Budget(mu=0.04)),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_charged_is_within_the_budget_and_asked_for(data, budget, relation, monkeypatch):
    settled = planned(data.problem, data.X, data.w, budget, relation)
    Ledger(budget).check(*settled.events)
    with pytest.raises(BudgetExceeded):
        Ledger(budget).check(*settled.events, settled.events[0])
    finish, left = Curator.finish, []

    def watched(self):
        left.append(self._due(0))
        finish(self)

    monkeypatch.setattr(Curator, "finish", watched)
    ledger = Ledger(budget)
    carry_out(settled, data.problem, SecureGenerator(0), ledger)
    assert left == [None]
    assert sum(event.count for event in ledger.events) == sum(n for _, n in settled.accesses)


@pytest.mark.filterwarnings("ignore::dpfast.errors.QuestionableSettingWarning")
def test_estimators_take_public_rows(data):
    given = {"epsilon": 0.35, "data_norm": math.sqrt(COLUMNS), "classes": [-1.0, 1.0]}
    rng = np.random.default_rng(3)
    rows = np.clip(rng.standard_normal((ROWS, COLUMNS)) / 3.0, -1.0, 1.0)
    labels = np.where(rng.logistic(size=ROWS) < rows @ data.w[:-1] - 0.7, 1.0, -1.0)
    model = LogisticRegression(**given, prior=(data.X, data.y), random_state=0).fit(rows, labels)
    assert ALONG in {event.where for event in model.privacy_.events}
    assert model.privacy_.epsilon <= 0.35
    assert model.score(rows, labels) > 0.55
