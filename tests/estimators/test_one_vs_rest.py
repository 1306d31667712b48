"""More than two classes: one budget for all the problems, and scikit-learn's shapes."""

import numpy as np
import pytest
from refusals import refused
from sklearn.linear_model import LogisticRegression as Reference

import dpfast
from dpfast import Budget, LinearSVC, LogisticRegression, Problem
from dpfast.estimators._one_vs_rest import share_of
from dpfast.privacy import budget_mu
from dpfast.shape import ProblemShape
from dpfast.solvers import SOLVERS

NAMES = np.array(["ash", "oak", "yew"])


@pytest.fixture
def trees(three_centers):
    X, kind = three_centers
    return X, NAMES[kind]


def fitted(data, cls=LogisticRegression, **settings):
    settings = {"data_norm": 2.0, "classes": NAMES, "random_state": 0, **settings}
    if cls is LogisticRegression:
        settings = {"multi_class": "ovr", **settings}
    return cls(**settings).fit(*data)


@pytest.mark.parametrize("cls", [LogisticRegression, LinearSVC])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_it_learns_with_epsilon_one(trees, cls, delta):
    X, y = trees
    model = fitted(trees, cls, epsilon=1.0, delta=delta)
    assert model.coef_.shape == (3, 2)
    assert model.intercept_.shape == (3,)
    assert model.decision_function(X).shape == (3000, 3)
    np.testing.assert_array_equal(model.classes_, NAMES)
    # The majority has about a third.
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_noise_each_class_is_its_own_problem(noiseless, trees, fit_intercept):
    X, y = trees
    model = fitted(
        trees, alpha=0.01, epsilon=1e4, solver="output-perturbation", fit_intercept=fit_intercept
    )
    rows = np.hstack([X, np.ones((3000, 1))]) if fit_intercept else X
    for k, name in enumerate(NAMES):
        reference = Reference(C=1 / 30, fit_intercept=False, tol=1e-12, max_iter=10_000)
        w = reference.fit(rows, y == name).coef_[0]
        np.testing.assert_allclose(model.coef_[k], w[:2], atol=1e-5)
        np.testing.assert_allclose(model.intercept_[k], w[2] if fit_intercept else 0.0, atol=1e-5)


def test_probabilities(trees):
    X, _ = trees
    model = fitted(trees, least_probability=0.0)
    probability = model.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(NAMES[probability.argmax(axis=1)], model.predict(X))
    alone = 1.0 / (1.0 + np.exp(-model.decision_function(X)))
    np.testing.assert_allclose(probability, alone / alone.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(np.log(probability), model.predict_log_proba(X))
    # Where every class is as good as impossible, they are still numbers that add up.
    model.intercept_ = np.full(3, -2000.0)
    far = model.predict_proba(X)
    np.testing.assert_allclose(far.sum(axis=1), 1.0)
    assert not hasattr(LinearSVC(), "predict_proba")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"delta": 0.0},
        {"accountant": "gdp"},
        {"accountant": "zcdp"},
        {"accountant": "rdp"},
        {"accountant": "basic"},
        {"accountant": "pure"},
        {"accountant": "objective"},
        {"solver": "output-perturbation"},
        {"solver": "output-perturbation", "delta": 0.0},
        {"solver": "objective-perturbation"},
        {"solver": "dp-gd", "solver_options": {"iterations": 3}},
        {"solver": "dp-gd", "solver_options": {"iterations": 3}, "delta": 0.0},
        {"neighboring_relation": "add_or_remove_one"},
    ],
    ids=str,
)
def test_all_classes_share_one_budget(trees, settings):
    model = fitted(trees, epsilon=2.0, **settings)
    privacy = model.privacy_
    assert privacy.epsilon <= 2.0
    assert privacy.delta <= settings.get("delta", 1e-6)
    # One ledger holds the accesses of three fits.
    counts = {}
    for event in privacy.events:
        counts[event.where] = counts.get(event.where, 0) + event.count
    assert all(count % 3 == 0 for count in counts.values())
    if "objective" not in f"{settings}":
        assert privacy.epsilon > 1.99


def test_gaussian_shares_add_up_by_squares(trees):
    shape = ProblemShape(n_samples=3000, n_features=2, data_norm=2.0)
    budget = Budget(1.0, 1e-6)
    solver, share, accountant = share_of(budget, 9, "auto", "auto", shape, ["alpha"])
    assert (solver, share.kind, accountant) == ("dp-whitened-gd", "gdp", "auto")
    assert share.mu == pytest.approx(budget_mu(budget) / 3, rel=1e-8)
    _, share, _ = share_of(Budget(1.0), 9, "auto", "auto", shape, ["alpha"])
    assert share.epsilon == pytest.approx(1 / 9)
    assert share.kind == "pure"
    # As a GDP statement of the whole: no loss against one fit with all of the budget.
    assert fitted(trees).privacy_.mu == pytest.approx(budget_mu(budget), rel=1e-6)


def test_every_class_has_its_own_noise(trees):
    model = fitted(trees)
    assert len(np.unique(model.coef_)) == 6
    again = fitted(trees)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    assert np.all(fitted(trees, random_state=None).coef_ != model.coef_)


def test_an_account_that_cannot_pay_for_all_classes_pays_for_none(trees):
    # Two thirds of the pure budget would be enough for two classes.
    with refused(dpfast.BudgetExceeded, budget=Budget(0.7)):
        fitted(trees, epsilon=1.0, delta=0.0)


def test_declared_classes_may_be_absent(trees):
    X, y = trees
    two = y != "oak"
    model = fitted((X[two], y[two]))
    assert model.coef_.shape == (3, 2)
    assert set(model.predict(X[two])) <= set(NAMES)
    with pytest.raises(ValueError, match="y must hold only the declared classes"):
        fitted((X, np.where(y == "ash", "elm", y)))


def test_verbose_says_how_many_plans_there_are(trees, capsys):
    fitted(trees, verbose=1)
    assert "3 classes, one against the rest, each:\nPlan: " in capsys.readouterr().out


def test_a_solver_that_decides_along_the_way_is_refused(trees, monkeypatch):
    import dataclasses

    solver = SOLVERS["output-perturbation"]
    adaptive = lambda *a, **k: dataclasses.replace(solver.plan(*a, **k), adaptive=True)  # noqa: E731
    monkeypatch.setitem(
        SOLVERS, solver.name, dataclasses.replace(solver, plan=adaptive, options=solver.options)
    )
    with refused(ValueError, "solver must fix its accesses to the data beforehand"):
        fitted(trees, solver="output-perturbation", delta=0.0)


def test_weights_and_bounds_go_with_the_rows(trees, noiseless):
    """Other targets on the same rows: the same as a problem made from scratch."""
    X, y = trees
    weight = np.linspace(0.0, 1.0, len(y))
    target = [np.where(y == name, 1.0, -1.0) for name in NAMES]
    problem = Problem(X, target[0], data_norm=1.0, sample_weight=weight, max_weight=0.9)
    problem.clipped_gradient(np.ones(3), 0.5)
    for other in target:
        twin = problem.with_target(other)
        fresh = Problem(X, other, data_norm=1.0, sample_weight=weight, max_weight=0.9)
        for clip in (np.inf, 0.5):
            expected = fresh.clipped_gradient(np.ones(3), clip)
            found = twin.clipped_gradient(np.ones(3), clip)
            np.testing.assert_array_equal(found[0], expected[0])
            assert found[1] == expected[1]
    with pytest.raises(ValueError, match="y must hold -1 and \\+1 only"):
        problem.with_target(np.zeros(len(y)))
    with pytest.raises(ValueError, match="y must have shape"):
        problem.with_target([1.0])
