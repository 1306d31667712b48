"""What public rows and gradients of private ones tell together, with noise and without."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpfast import Budget, Ledger, Problem
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out
from dpfast.solvers.public_rows import _Model, _Told, from_rows, plan_with_rows, run_with_rows

LOSSES = ("logistic", "huber", "huberized-hinge")


def table(n, seed, loss="logistic"):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    margins = X @ [2.0, -1.0, 0.5] + 0.3
    if loss == "huber":
        return X, np.clip(0.3 * margins + 0.1 * rng.standard_normal(n), -1.0, 1.0)
    return X, np.where(margins + rng.logistic(size=n) > 0, 1.0, -1.0)


def budget(u, n):
    """That of u rows behind one of the four weights, times µ, under "replace_one"."""
    return Budget(mu=2.0 * u * 4 / n)


def told(problem, known, u, noise=0.0):
    """The run's outcome with noise of this many of its deviations."""
    rng = np.random.default_rng(1)
    settled = plan_with_rows(problem.shape, known, budget(u, problem.shape.n_samples))
    curator = SimpleNamespace(
        fix=lambda query, transform: query.prepare(problem, transform),
        release=lambda mechanism, at, *point: (
            mechanism.query(at, *point)
            + noise * mechanism.stddev * rng.standard_normal(mechanism.query.dimension)
        ),
    )
    return run_with_rows(settled, curator)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["right", "wrong"])
def test_without_noise_it_ends_at_the_minimum(loss, sign):
    """Whatever the public targets are: coordinates are right, and gradients say the rest."""
    X, y = table(4000, 0, loss)
    problem = Problem(X, y, loss, data_norm=2.0)
    public, targets = table(300, 1, loss)
    best = from_rows(problem.shape, X, y).origin
    found = told(problem, from_rows(problem.shape, public, sign * targets), 24.0)
    away = problem.objective(found.w) - problem.objective(best)
    constant = problem.objective(np.zeros(4)) - problem.objective(best)
    assert away < 0.05 * constant


def test_what_gradients_say_decides_how_much_is_believed():
    X, y = table(4000, 0)
    problem = Problem(X, y, "logistic", data_norm=2.0)
    draws = [table(300, seed) for seed in range(1, 5)]

    def believed(sign, u):
        """The share at the end, on average over draws of the public rows."""
        fits = (
            told(problem, from_rows(problem.shape, public, sign * labels), u)
            for public, labels in draws
        )
        return np.mean([fit.history["public_share"] for fit in fits])

    shares = {(sign, u): believed(sign, u) for sign in (1.0, -1.0) for u in (1e-3, 1.0, 10.0)}
    # Nothing is known where noise hides all: the share is the probability beforehand.
    assert shares[1.0, 1e-3] == pytest.approx(0.87, abs=0.02)
    assert shares[-1.0, 1e-3] == pytest.approx(0.87, abs=0.02)
    assert shares[-1.0, 10.0] < 0.1 < shares[-1.0, 1.0] < 0.3
    assert shares[1.0, 1.0] > 0.75 and shares[1.0, 10.0] > 0.95


@pytest.mark.parametrize("u", [0.3, 2.0, 10.0, 20.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_units_of_the_rows_do_not_matter(loss, u):
    """Nor that of the constant: coordinates take them out."""
    found = []
    public, targets = table(300, 1, loss)
    for factor in (1.0, 2.0):
        X, y = table(4000, 0, loss)
        units = np.array([factor, 1.0, 1.0 / factor])
        problem = Problem(X * units, y, loss, data_norm=2.0 * factor)
        known = from_rows(problem.shape, public * units, targets)
        w = told(problem, known, u, noise=1.0).w
        found.append(w * np.append(units, problem.shape.intercept))
    np.testing.assert_allclose(found[0], found[1], rtol=0.05, atol=0.02)


def test_rows_of_another_place_and_scale_do_not_throw_it_off():
    """Public rows from a corner, in which columns hardly vary: steps must not overshoot."""
    X, y = table(20_000, 0)
    problem = Problem(X, y, "logistic", data_norm=2.0)
    best = from_rows(problem.shape, X, y).origin
    public, labels = table(300, 1)
    known = from_rows(problem.shape, public * [0.5, 0.4, 1.0] + [0.5, 0.3, 0.0], labels)
    constant = problem.objective(np.zeros(4)) - problem.objective(best)
    settled = plan_with_rows(problem.shape, known, budget(20.0, 20_000))
    for seed in range(3):
        ledger = Ledger(settled.budget)
        w = carry_out(settled, problem, SecureGenerator(seed), ledger).w
        assert problem.objective(w) - problem.objective(best) < 0.2 * constant


def lost(loss, factors, shifts, u):
    """Of what zero weights lose, by a fit with public rows in other places and units."""
    problem = Problem(*table(20_000, 0, loss), loss, data_norm=2.0)
    best = problem.objective(from_rows(problem.shape, *table(20_000, 0, loss)).origin)
    public, targets = table(300, 1, loss)
    known = from_rows(problem.shape, public * factors + shifts, targets)
    found = problem.objective(told(problem, known, u).w)
    return (found - best) / (problem.objective(np.zeros(4)) - best)


def test_numbers_of_rows_that_vary_far_more_than_public_ones_are_not_overshot():
    """Gradients that differ by more than public rows bend tell it: .35 of a constant's before."""
    assert lost("huber", [0.2, 1.0, 1.0], np.zeros(3), 20.0) < 0.05


def test_labels_of_rows_that_vary_far_more_than_public_ones_are_not_overshot():
    """They are alike in a column, in a corner of it: steps that were too long get shorter."""
    assert lost("logistic", [0.05, 1.0, 1.0], [0.5, 0.0, 0.0], 24.0) < 0.5


@pytest.mark.parametrize(
    ("times", "deviation", "grows"), [(40.0, 1e-4, True), (40.0, 4.0, False), (1.0, 1e-4, False)]
)
def test_a_curvature_grows_by_what_two_gradients_show_beyond_noise(times, deviation, grows):
    """Along the way between them and beside it, if steps overshoot."""
    public, labels = table(300, 1)
    problem = Problem(public, labels, "logistic", data_norm=2.0)
    model = _Model(problem.shape, from_rows(problem.shape, public, labels), 24.0)
    step, steep = np.array([0.1, 0.0, 0.0, 0.0]), np.array([0.6, 0.8, 0.0, 0.0])
    first = _Told(np.zeros(4), np.zeros(4), deviation, 2.0, np.eye(4))
    usual = model.bends(first, step)
    more = times * usual[0, 0] * np.outer(steep, steep)
    model.hear(first)
    model.hear(_Told(step, (usual + more) @ step, deviation, 2.0, np.eye(4)))
    np.testing.assert_allclose(model.steeper, more if grows else 0.0, rtol=0.02, atol=0.02)


def test_bounds_may_be_far_too_wide():
    """A narrow column is known as well as any other."""
    X, y = table(4000, 0)
    public, labels = table(300, 1)
    found = []
    for narrow in (1.0, 0.003):
        units = np.array([narrow, 1.0, 1.0])
        problem = Problem(X * units, y, "logistic", data_norm=2.0)
        known = from_rows(problem.shape, public * units, labels)
        found.append(told(problem, known, 6.0, noise=1.0).w * np.append(units, 1.0))
    np.testing.assert_allclose(found[0], found[1], rtol=0.01, atol=0.01)


def test_beliefs_about_numbers_are_in_units_of_the_targets():
    """A hundred times as narrow, and so is what they may be wrong by."""
    X, y = table(4000, 0, "huber")
    public, targets = table(300, 1, "huber")
    found = []
    for narrow in (1.0, 0.01):
        problem = Problem(X, narrow * y, "huber", data_norm=2.0)
        known = from_rows(problem.shape, public, narrow * targets)
        beliefs = _Model(problem.shape, known, 20.0).beliefs
        covariances = [root @ root.T for _, _, root, _ in beliefs]
        found.append(np.array(covariances) / narrow**2)
    np.testing.assert_allclose(found[0], found[1], rtol=0.1, atol=1e-3)


def test_labels_that_say_nothing_give_little_but_their_constant():
    """The ridge is the one that predicts rows best that are left out."""
    X, y = table(4000, 0)
    shape = Problem(X, y, "logistic", data_norm=2.0).shape
    public, labels = table(300, 1)
    right = np.linalg.norm(from_rows(shape, public, labels).origin[:3])
    drawn = from_rows(shape, public, np.random.default_rng(0).permutation(labels))
    assert np.linalg.norm(drawn.origin[:3]) < 0.2 * right


def test_many_columns_and_ridge_are_refused():
    wide = Problem(np.zeros((3, 501)), np.array([1.0, -1.0, 1.0]), "logistic", data_norm=1.0)
    known = from_rows(wide.shape, np.zeros((2, 501)), np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="at most 500 columns"):
        plan_with_rows(wide.shape, known, Budget(mu=1.0))
    X, y = table(100, 0)
    ridge = Problem(X, y, "logistic", data_norm=2.0, alpha=0.1)
    with pytest.raises(ValueError, match="alpha must be None"):
        plan_with_rows(ridge.shape, from_rows(ridge.shape, X, y), Budget(mu=1.0))


def test_a_column_that_varies_in_few_public_rows_may_vary_more_in_others():
    """Its scale is larger than theirs by what so few rows leave open; of others hardly."""
    X, y = table(300, 1)
    X[:, 2] = np.arange(300) < 3
    shape = Problem(X, y, "logistic", data_norm=2.0).shape
    back = np.linalg.inv(from_rows(shape, X, y).transform)
    scales = np.linalg.norm(back[:3, :3], axis=0) / np.std(X, axis=0)
    assert 1.4 < scales[2] < 1.6
    assert np.all((scales[:2] > 1.0) & (scales[:2] < 1.1))
