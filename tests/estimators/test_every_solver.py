"""Every solver that is listed runs with its defaults: by an estimator, and from a file."""

import json

import numpy as np
import pandas as pd
import pytest

from dpfast import (
    Budget,
    LinearRegression,
    LogisticRegression,
    Loss,
    Problem,
    ProblemShape,
    TableModel,
    cli,
    plan,
    solve,
)
from dpfast.model_selection import PrivateSearchCV
from dpfast.preprocessing import PrivateStandardScaler
from dpfast.solvers import SOLVERS

NAMES = sorted(SOLVERS)
N = 400


def family(solver):
    """The kind of model that a solver is for."""
    return "linear" if solver == "dp-adassp" else "logistic"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(N, 2))
    return X, (X[:, 0] + 0.3 * rng.normal(size=N) > 0).astype(int)


@pytest.mark.parametrize("solver", NAMES)
def test_by_an_estimator(solver, data):
    X, y = data
    kinds = {
        "linear": lambda: LinearRegression(data_norm=1.5, target_bounds=(0, 1), solver=solver),
        "logistic": lambda: LogisticRegression(data_norm=1.5, classes=[0, 1], solver=solver),
    }
    model = kinds[family(solver)]().fit(X, y)
    assert model.privacy_.epsilon <= 1.0
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("solver", NAMES)
@pytest.mark.parametrize("size", [1.0, 1e-80])
def test_numpy_settings_of_the_user_change_nothing(solver, size, data):
    """Products of tiny numbers underflow, by noise or by rows: no error, least of all after it."""
    X, y = size * data[0], data[1]
    cls, targets = LogisticRegression, {"classes": [0, 1]}
    if family(solver) == "linear":
        cls, targets = LinearRegression, {"target_bounds": (0, 1)}
    models = [cls(data_norm=1.5 * size, solver=solver, random_state=0, **targets) for _ in range(2)]
    with np.errstate(all="raise"):
        models[0].fit(X, y)
    models[1].fit(X, y)
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_numpy_settings_change_no_table_nor_search(data):
    X, y = data
    table = pd.DataFrame({"a": 1e-90 * X[:, 0], "b": X[:, 1], "y": y})
    bounds = {"a": {"range": [-9.0, 9.0], "learn": True}, "b": [-1, 1], "y": [0, 1], "target": "y"}
    with np.errstate(all="raise"):
        fitted = TableModel(bounds, epsilon=8.0, random_state=0).fit(table)
        model = LogisticRegression(data_norm=1.5, classes=[0, 1])
        grid = {"alpha": [1e-3, 1e-2]}
        PrivateSearchCV(model, grid, epsilon=2.0, random_state=0).fit(1e-90 * X, y)
        PrivateStandardScaler((-1.0, 1.0), random_state=0).fit(1e-90 * X)
    assert np.isfinite(fitted.coef_).all()


@pytest.mark.parametrize("solver", NAMES)
def test_from_a_file(solver, data, tmp_path, capsys):
    X, y = data
    table, bounds = tmp_path / "t.csv", tmp_path / "b.json"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(table, index=False)
    target = [0, 1] if family(solver) == "logistic" else {"range": [0, 1]}
    bounds.write_text(json.dumps({"a": [-1, 1], "b": [-1, 1], "y": target, "target": "y"}))
    code = cli.main(
        ["fit", str(table), "--bounds", str(bounds), "--epsilon", "1", "--delta", "1e-6",
         "--solver", solver, "-o", str(tmp_path / "m.json")]
    )  # fmt: skip
    assert (code, capsys.readouterr().err) == (0, "")
    assert cli.main(["certify", str(tmp_path / "m.json")]) == 0


def test_a_solver_that_fails_does_not_take_the_others_with_it(monkeypatch, capsys):
    import dataclasses

    def fail(*args, **settings):
        raise TypeError("a slip")

    monkeypatch.setitem(SOLVERS, "privgene", dataclasses.replace(SOLVERS["privgene"], plan=fail))
    size = ("--rows", "500", "--columns", "3", "--repeat", "1")
    solvers = ("--solver", "privgene", "--solver", "output-perturbation")
    assert cli.main(["bench", "--json", *size, *solvers]) == 0
    out, err = capsys.readouterr()
    assert [fit["solver"] for fit in json.loads(out)["fits"]] == ["output-perturbation"]
    assert err == "note: privgene is left out: a slip\n"


@pytest.mark.parametrize(
    ("rows", "relation", "budget", "expected"),
    [
        (1_000, "replace_one", Budget(1.0, 1e-6), "rrpsgd"),
        (32_769, "replace_one", Budget(1.0, 1e-6), "dp-sgd"),
        (1_000, "add_or_remove_one", Budget(1.0, 1e-6), "dp-sgd"),
        (1_000, "replace_one", Budget(1.0), "privgene"),
        (1_000, "replace_one", Budget(rho=0.1), "privgene"),
    ],
)
def test_the_solver_of_a_loss_that_is_not_convex(rows, relation, budget, expected):
    shape = ProblemShape(rows, 3, 1.0, Loss("sigmoid"))
    assert plan(shape, "auto", budget, neighboring_relation=relation).solver == expected


def test_auto_learns_with_the_sigmoid_loss(data):
    X, y = data
    problem = Problem(X, 2.0 * y - 1.0, "sigmoid", data_norm=1.5)
    for budget in (Budget(50.0, 1e-6), Budget(50.0)):
        w = solve(problem, "auto", budget, random_state=0).w
        assert np.mean((X @ w[:2] + w[2] > 0) == y) > 0.8


@pytest.mark.parametrize("loss", ["squared", "squared-hinge"])
def test_no_solver_asks_for_an_option_that_it_does_not_take(loss):
    """Where it wants more than the defaults, it names an option of its own."""
    for solver in NAMES:
        try:
            plan(ProblemShape(1_000, 3, 1.0, Loss(loss)), solver, Budget(1.0, 1e-6))
        except ValueError as error:
            name, _, rest = str(error).partition(" must be given")
            assert not rest or name in SOLVERS[solver].options, error
