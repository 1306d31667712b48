"""Multinomial regression: kernel against its twin, sensitivity, the noiseless optimum, budgets."""

import math

import numpy as np
import pytest
import scipy.sparse
import scipy.special
from reference.multinomial import multinomial
from refusals import refused
from sklearn.linear_model import LogisticRegression as Reference

import dpfast
from dpfast import Budget, Ledger, LogisticRegression, Problem, ProblemShape, _kernels
from dpfast.curator import Curator
from dpfast.mechanisms import Gaussian
from dpfast.queries.coordinates import CLASS_CURVATURE, CLASS_SLOPE, multinomial_gradient
from dpfast.random import SecureGenerator
from dpfast.solvers import _whitened_descent, _whitened_rules, dp_whitened_gd
from dpfast.solvers._class_shares import expected_class_shares
from dpfast.solvers.multinomial import plan_multinomial, run_multinomial


def rows_of(kind, X, intercept, weight=None, scale=None, inverse=None):
    target = np.zeros(len(X))
    if kind == "csr":
        csr = scipy.sparse.csr_array(X)
        rows = _kernels.CsrRows(
            csr.indptr, csr.indices, csr.data, X.shape[1], target, intercept
        )  # fmt: skip
    else:
        rows = _kernels.DenseRows(np.ascontiguousarray(X, dtype=kind), target, intercept)
    rows.set_weight(weight)
    rows.set_row_scale(scale)
    rows.set_inverse_norm(inverse)
    return rows


@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
@pytest.mark.parametrize(("n", "d", "classes"), [(1, 1, 2), (37, 5, 3), (60, 300, 4)])
def test_kernel_is_its_slow_twin(isa, kind, n, d, classes):
    rng = np.random.default_rng(n)
    X = np.where(rng.random((n, d)) < 0.5, 0.0, rng.normal(size=(n, d))).astype(np.float32)
    X = X.astype(np.float64)
    scale, weight, labels = rng.random(n), rng.random(n), rng.integers(classes, size=n) * 1.0
    stored = np.hstack([scale[:, None] * X, np.full((n, 1), 0.5)])
    w = rng.normal(size=(classes, d + 1))
    lengths = np.linalg.norm(stored, axis=1)
    inverse = (1.0 / lengths).astype(np.float32)
    for clip_norm in (0.3, np.inf):
        rows = rows_of(kind, X, 0.5, weight, scale, inverse)
        out = np.empty_like(w)
        _kernels.multinomial_gradient(rows, 0, n, labels, w, clip_norm, out)
        expected = multinomial(stored, labels, w, clip_norm, weight, 1.0 / inverse.astype(float))
        np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-12)
    # A range of the rows, without weights, lengths and factors.
    plain = rows_of(kind, X, 0.0)
    first, out = n // 2, np.empty((classes, d))
    _kernels.multinomial_gradient(plain, first, n, labels[first:], w[:, :d].copy(), 0.1, out)
    np.testing.assert_allclose(out, multinomial(X[first:], labels[first:], w[:, :d]), atol=1e-12)


def test_gradient_is_the_derivative_of_the_loss():
    rng = np.random.default_rng(0)
    X, labels, w = rng.normal(size=(30, 4)), rng.integers(3, size=30), rng.normal(size=(3, 5))
    out = np.empty_like(w)
    rows = rows_of("float64", X, 1.0)
    _kernels.multinomial_gradient(rows, 0, 30, labels * 1.0, w, np.inf, out)

    def loss(w):
        margins = X @ w[:, :-1].T + w[:, -1]
        return -scipy.special.log_softmax(margins, axis=1)[np.arange(30), labels].sum()

    for index in np.ndindex(3, 5):
        step = np.zeros_like(w)
        step[index] = 1e-5
        slope = (loss(w + step) - loss(w - step)) / 2e-5
        assert slope == pytest.approx(out[index], rel=1e-6, abs=1e-6)


def test_large_margins_and_what_is_no_number():
    rows = rows_of("float64", np.array([[1000.0], [-1000.0]]), 0.0)
    out, w = np.empty((2, 1)), np.array([[1.0], [-1.0]])
    _kernels.multinomial_gradient(rows, 0, 2, np.array([0.0, 0.0]), w, np.inf, out)
    np.testing.assert_allclose(out, [[1000.0], [-1000.0]])
    for bad in (np.nan, np.inf):
        broken = rows_of("float64", np.array([[bad]]), 0.0)
        with pytest.raises(FloatingPointError):
            _kernels.multinomial_gradient(broken, 0, 1, np.array([0.0]), w, np.inf, out)
    for label in (-1.0, 2.0, 0.5, np.nan, 1e300):
        with pytest.raises(ValueError, match="outside its documented range"):
            _kernels.multinomial_gradient(rows, 0, 1, np.array([label]), w, np.inf, out)
    for clip_norm in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="outside its documented range"):
            _kernels.multinomial_gradient(rows, 0, 1, np.array([0.0]), w, clip_norm, out)
    with pytest.raises(ValueError, match="w and out must have two rows or more"):
        _kernels.multinomial_gradient(rows, 0, 1, np.array([0.0]), w[:1], np.inf, out[:1])
    with pytest.raises(ValueError, match="label must have 1 entries; got 2"):
        _kernels.multinomial_gradient(rows, 0, 1, np.zeros(2), w, np.inf, out)
    with pytest.raises(ValueError, match="must have 1 entries; got 2"):
        _kernels.multinomial_gradient(rows, 0, 1, np.zeros(1), np.ones((2, 2)), np.inf, out)
    with pytest.raises(TypeError, match="rows must be DenseRows or CsrRows"):
        _kernels.multinomial_gradient(None, 0, 1, np.zeros(1), w, np.inf, out)


def test_the_constants_bound_slope_and_curvature():
    rng = np.random.default_rng(0)
    slope = curvature = 0.0
    for p in [np.array([0.5, 0.5, 0.0]), *rng.dirichlet([0.2, 0.2, 0.2], size=300)]:
        slope = max(slope, np.linalg.norm(p - np.eye(3)[0]))
        curvature = max(curvature, np.linalg.norm(np.diag(p) - np.outer(p, p), 2))
    assert 0.99 * CLASS_SLOPE < slope <= CLASS_SLOPE
    assert 0.99 * CLASS_CURVATURE < curvature <= CLASS_CURVATURE


def problem_of(X, **settings):
    return Problem(X, np.ones(X.shape[0]), data_norm=2.0, **settings)


@pytest.mark.parametrize("sparse", [False, True])
def test_sums_do_not_depend_on_threads_or_storage(sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 40))
    labels, w = rng.integers(4, size=30_000) * 1.0, rng.normal(size=(4, 41))
    data = scipy.sparse.csr_array(X) if sparse else X
    one = multinomial_gradient(problem_of(data).with_labels(labels), w)
    two = multinomial_gradient(problem_of(data, n_jobs=2).with_labels(labels), w)
    np.testing.assert_array_equal(one, two)
    other = multinomial_gradient(problem_of(np.asfortranarray(X)).with_labels(labels), w)
    np.testing.assert_allclose(one, other, atol=1e-8)


def test_events_are_those_of_the_plan_and_come_before_the_data(three_centers, monkeypatch):
    X, kind = three_centers
    problem, budget = problem_of(X), Budget(1.0, 1e-6)
    plan = plan_multinomial(problem.shape, 3, budget)
    ledger = Ledger(budget)
    curator = Curator(problem.with_labels(kind * 1.0), ledger, SecureGenerator(0))
    w = run_multinomial(plan, curator).w
    assert w.shape == (3, 3)
    np.testing.assert_allclose(w.sum(axis=0), 0.0, atol=1e-12)
    counted = {}
    for event in ledger.events:
        counted[event.where] = counted.get(event.where, 0) + event.count
    planned = {}
    for event in plan.events:
        planned[event.where] = planned.get(event.where, 0) + event.count
    assert counted == planned
    assert 0.99 < ledger.guarantee().epsilon <= 1.0
    # With a spent ledger no row is read.
    monkeypatch.setattr(Problem, "map_rows", lambda *a: pytest.fail("data were touched"))
    with pytest.raises(dpfast.BudgetExceeded):
        run_multinomial(plan, curator)


def test_its_noise_is_drawn_with_the_calibrated_scale(three_centers, monkeypatch):
    X, kind = three_centers
    used = []
    answer = Gaussian.answer

    def record(self, *given):
        used.append((self.stddev / self.charged_sensitivity, self.dimension))
        return answer(self, *given)

    monkeypatch.setattr(Gaussian, "answer", record)
    model = fitted(X, kind)
    assert {d for _, d in used[-20:]} == {9}
    total = sum(1.0 / ratio**2 for ratio, _ in used) ** 0.5
    assert total == pytest.approx(model.privacy_.mu, rel=1e-6)


def fitted(X, y, **settings):
    declared = {"data_norm": 2.0, "classes": np.unique(y), "random_state": 0, "strict": True}
    return LogisticRegression(**{**declared, "multi_class": "multinomial", **settings}).fit(X, y)


@pytest.mark.parametrize(("fit_intercept", "weighted"), [(True, False), (False, True)])
def test_without_noise_it_is_scikit_learns(noiseless, three_centers, fit_intercept, weighted):
    X, y = three_centers[0][:400], three_centers[1][:400]
    weight = np.linspace(0.0, 2.0, 400) if weighted else None
    declared = {"max_weight": 2.0} if weighted else {}
    model = LogisticRegression(
        epsilon=1e4, alpha=0.05, data_norm=2.0, classes=[0, 1, 2], fit_intercept=fit_intercept,
        solver_options={"iterations": 400, "clip": 10.0, "average": 0.0}, least_probability=0.0,
        **declared,
    ).fit(X, y, sample_weight=weight)  # fmt: skip
    reference = Reference(
        C=1 / (0.05 * 400), fit_intercept=fit_intercept, tol=1e-10, max_iter=10_000
    ).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, atol=1e-4)
    probability = model.predict_proba(X)
    np.testing.assert_allclose(probability, reference.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probability)
    np.testing.assert_array_equal(model.predict(X), reference.predict(X))


def test_a_ridge_does_not_shorten_the_steps(noiseless, three_centers):
    """It is far from white where the rows are: gradient steps short enough for it stay near 0."""
    X, y = three_centers[0] * [1.0, 0.02], three_centers[1]
    model = LogisticRegression(
        epsilon=1e4, alpha=1e-4, data_norm=2.0, classes=[0, 1, 2],
        solver_options={"clip": 10.0},
    ).fit(X, y)  # fmt: skip
    rows = np.hstack([X, np.ones((3000, 1))])
    reference = Reference(C=1 / (1e-4 * 3000), fit_intercept=False, tol=1e-10, max_iter=10_000)
    best = reference.fit(rows, y).coef_

    def value(w):
        margins = rows @ w.T
        losses = np.logaddexp.reduce(margins, axis=1) - margins[np.arange(3000), y]
        return losses.mean() + 0.5e-4 * np.sum(w**2)

    found = np.column_stack([model.coef_, model.intercept_])
    least, nothing = value(best), value(np.zeros((3, 3)))
    assert value(found) - least < 0.02 * (nothing - least)
    assert np.linalg.norm(found[:, 1]) > 0.5 * np.linalg.norm(best[:, 1])


def test_auto_is_multinomial_where_that_is_served(three_centers):
    X, y = three_centers
    for settings, expected in (
        ({}, True),
        ({"solver": "dp-whitened-gd", "solver_options": {"iterations": 5}}, True),
        ({"delta": 0.0}, False),
        ({"solver": "output-perturbation"}, False),
        ({"solver_options": {"noise": "gaussian"}, "solver": "output-perturbation"}, False),
        ({"accountant": "optimal", "delta": 1e-6}, False),
    ):
        model = fitted(X, y, multi_class="auto", epsilon=3.0, **settings)
        found = any("all classes" in event.where for event in model.privacy_.events)
        assert found == expected, settings
        assert model.privacy_.epsilon <= 3.0
        assert model.coef_.shape == (3, 2)
        assert model.score(X, y) > 0.5


def test_it_needs_less_noise_than_one_against_the_rest(three_centers):
    X, y = three_centers
    rng = np.random.default_rng(0)
    losses = {}
    for multi_class in ("multinomial", "ovr"):
        chances = []
        for _ in range(3):
            model = fitted(X, y, multi_class=multi_class, epsilon=0.5, random_state=rng)
            chances.append(np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean())
        losses[multi_class] = -np.mean(chances)
    assert losses["multinomial"] < losses["ovr"]


def test_two_classes_are_one_problem(three_centers):
    X, y = three_centers[0], three_centers[1] > 0
    np.testing.assert_array_equal(fitted(X, y).coef_, fitted(X, y, multi_class="ovr").coef_)


def test_pickle_clone_verbose_and_layouts(three_centers, capsys):
    import pickle

    from sklearn.base import clone

    X, y = three_centers
    model = fitted(X, y, verbose=1)
    assert "3 classes, multinomial:\nPlan: dp-whitened-gd" in capsys.readouterr().out
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert clone(model).multi_class == "multinomial"
    other = fitted(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-8)
    assert np.all(fitted(X, y, random_state=None).coef_ != model.coef_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"multi_class": "crammer"}, "multi_class must be one of 'auto', 'multinomial', 'ovr'"),
        ({"solver": "dp-gd"}, "solver must be 'auto' or 'dp-whitened-gd' with multi_class='mult"),
        ({"delta": 0.0}, "budget must be one of"),
        ({"accountant": "pure"}, "Gaussian|pure"),
        ({"neighboring_relation": "swap"}, "neighboring_relation must be"),
        ({"solver_options": {"cheese": 1}}, "options must be among .* got cheese"),
        ({"solver_options": {"iterations": 0}}, "iterations must be an integer"),
        ({"objective": "tilted"}, "options must be among .* got objective"),
    ],
)
def test_bad_parameters_spend_nothing(three_centers, settings, message):
    with refused(ValueError, message):
        fitted(*three_centers, **settings)


def test_bad_plans():
    shape = ProblemShape(100, 2, 1.0)
    with pytest.raises(ValueError, match="n_classes must be an integer in"):
        plan_multinomial(shape, 1, Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="loss must be 'logistic'"):
        plan_multinomial(ProblemShape(100, 2, 1.0, "huber"), 3, Budget(1.0, 1e-6))


def consistent_slopes(w, X, labels, limits):
    """Of every row, scaled as the one of its labels needs it whose slopes are the longest."""
    probabilities = scipy.special.softmax(X @ w[:, :-1].T + w[:, -1], axis=1)
    every = [np.linalg.norm(probabilities - one, axis=1) for one in np.eye(len(w))]
    factors = np.minimum(1.0, limits / np.max(every, axis=0))
    return factors[:, None] * (probabilities - np.eye(len(w))[labels.astype(int)]), factors


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("scalar", [np.float64, np.float32])
def test_consistent_gradients_against_whole_arrays(sparse, scalar):
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((500, 3)).astype(scalar), rng.integers(0, 4, 500).astype(float)
    w, lengths = rng.standard_normal((4, 4)), 1.0 + rng.random(500)
    rows = scipy.sparse.csr_array(X) if sparse else X
    problem = Problem(rows, np.ones(500), data_norm=9.0).with_labels(labels)
    view = problem.clipped_by_lengths(lambda _: lengths, consistent=True)
    slopes, factors = consistent_slopes(w, X.astype(float), labels, 0.6 / lengths)
    expected = slopes.T @ np.column_stack([X, np.ones(500)])
    np.testing.assert_allclose(multinomial_gradient(view, w, 0.6), expected, atol=3e-5)
    assert (factors < 1.0).mean() > 0.5


def test_consistent_gradients_vanish_where_labels_follow_the_model():
    """Every row with each label, as often as the model says; scaled by their own they do not."""
    rng = np.random.default_rng(1)
    X, w = rng.standard_normal((200, 2)), 2.0 * rng.standard_normal((3, 3))
    probabilities = scipy.special.softmax(X @ w[:, :-1].T + w[:, -1], axis=1)
    problem = Problem(
        np.repeat(X, 3, axis=0), np.ones(600), data_norm=9.0,
        sample_weight=probabilities.ravel(), max_weight=1.0,
    ).with_labels(np.tile([0.0, 1.0, 2.0], 200))  # fmt: skip
    consistent, scaled = (
        multinomial_gradient(
            problem.clipped_by_lengths(lambda _: np.full(600, 2.0), consistent=flag), w, 0.5
        )
        for flag in (True, False)
    )
    assert np.abs(consistent).max() < 1e-4 and np.linalg.norm(scaled) > 1.0


@pytest.mark.parametrize("groups", [{}, {"unit": "group", "max_rows_per_group": 5}])
def test_rows_and_groups_are_scaled_whichever_their_label(groups):
    settings = plan_multinomial(ProblemShape(5000, 9, 1.0, **groups), 3, Budget(1.0, 1e-6)).settings
    assert settings.consistent
    assert groups or settings.gradient.query.consistent


def test_what_auto_stands_for():
    """Full steps but for the fewest rows; momentum, fewer steps for it, more for many classes."""
    for n, momentum in ((500, 0.0), (1_000_000, 0.78)):
        shape = ProblemShape(n, 10, 1.0)
        two = dp_whitened_gd.plan(shape, Budget(1.0, 1e-6), consistent=False).parameters
        rows = _whitened_rules.rows_per_weight(shape, Budget(1.0, 1e-6), "replace_one", "auto")
        several = plan_multinomial(shape, 4, Budget(1.0, 1e-6)).parameters
        assert several["step"] == 1.0 and several["shrinkage"] == 0.0 and not several["goes_far"]
        assert several["intercept_step"] == two["step"] == min(1.0, (rows / 8.0) ** 0.4)
        assert several["momentum"] == two["momentum"] == pytest.approx(momentum)
        most = min(4 * two["iterations"], 160)
        for classes, more in ((4, 1.25), (26, 2.0)):
            settled = plan_multinomial(shape, classes, Budget(1.0, 1e-6)).parameters
            more = more if momentum else 1.0
            more *= math.sqrt(min(1.0, rows / 20.0))
            assert settled["iterations"] == round(more * (1.0 - 0.8 * momentum) * most)
    few = plan_multinomial(ProblemShape(100, 10, 1.0), 4, Budget(0.1, 1e-6)).parameters
    assert few["intercept_step"] < few["step"] < 0.1
    assert few["regime"] == "near a constant prediction"
    # Few rows pay for the counts of the classes; what noise explains is drawn to zero.
    assert few["learning_share"] == 0.8 and several["learning_share"] < 0.1
    assert several["james_stein"] and few["james_stein"]
    asked = {
        "step": 0.3,
        "shrinkage": 0.2,
        "james_stein": False,
        "learning_share": 0.3,
        "momentum": 0.1,
        "iterations": 7,
    }
    settled = plan_multinomial(shape, 4, Budget(1.0, 1e-6), **asked).parameters
    assert {name: settled[name] for name in asked} == asked


@pytest.mark.parametrize("shares", [[0.3, 0.3, 0.4], [0.9, 0.08, 0.015, 0.005], [0.1] * 10])
def test_shares_of_classes_are_expected_from_noisy_counts(shares):
    truth, rng = np.array(shares), np.random.default_rng(0)
    np.testing.assert_allclose(expected_class_shares(truth, 1e-6), truth, atol=1e-5)
    worst = np.log(len(truth)) + truth @ np.log(truth)
    for noise in (0.1, 1.0, 100.0):
        lost = []
        for _ in range(20):
            found = truth + noise * rng.standard_normal(len(truth))
            found -= (found.sum() - 1.0) / len(truth)
            lost.append(truth @ np.log(truth / expected_class_shares(found, noise)))
        assert np.mean(lost) < worst + 0.03


def test_few_rows_lose_little_to_equal_shares():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1.0, 1.0, (100, 4)), np.arange(100) % 3
    declared = {"data_norm": 2.0, "classes": [0, 1, 2]}
    for epsilon in (0.01, 0.3):
        fits = [LogisticRegression(epsilon, 1e-5, **declared, random_state=k) for k in range(8)]
        found = [fit.fit(X, y).predict_proba(X)[np.arange(100), y] for fit in fits]
        assert -np.log(found).mean() < np.log(3.0) + 0.03


def test_weights_without_a_signal_are_drawn_to_zero():
    rng = np.random.default_rng(0)
    X = np.clip(rng.standard_normal((5_000, 6)) / 3.0, -1.0, 1.0)
    y = rng.choice(3, 5_000, p=[0.5, 0.3, 0.2])
    declared = {"data_norm": 2.5, "classes": [0, 1, 2], "random_state": 1}
    drawn = LogisticRegression(0.3, 1e-6, **declared).fit(X, y)
    noisy = LogisticRegression(0.3, 1e-6, **declared, solver_options={"james_stein": False})
    assert np.linalg.norm(drawn.coef_) < 0.9 * np.linalg.norm(noisy.fit(X, y).coef_)


@pytest.mark.parametrize(
    ("n", "d", "classes", "above"), [(3_000, 100, 3, 0.1), (2_000, 20, 10, 0.15)]
)
def test_without_a_signal_few_rows_end_near_the_constant(n, d, classes, above):
    """Noise that few clipped steps pile up is more than where the loss is curved as usual."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, classes, n)
    found = []
    for seed in range(8):
        model = LogisticRegression(
            0.3, classes=list(range(classes)), data_norm=1.0, random_state=seed
        )
        told = model.fit(X, y).predict_proba(X)[np.arange(n), y]
        found.append(-np.mean(np.log(told)))
    assert np.mean(found) < math.log(classes) + above


def test_many_classes_with_a_strong_signal_average_late_iterates(monkeypatch):
    """The earlier ones are far from the minimum, as gradients of one sign tell beyond doubt."""
    rng = np.random.default_rng(0)
    X = np.clip(rng.standard_normal((2_000, 3)) / 4.0, -1.0, 1.0)
    scores = 30.0 * X @ rng.standard_normal((3, 12))
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)

    def loss():
        settings = {"data_norm": 2.0, "neighboring_relation": "add_or_remove_one"}
        model = LogisticRegression(30.0, 1e-6, classes=range(12), random_state=0, **settings)
        return -np.log(model.fit(X, y).predict_proba(X)[np.arange(len(y)), y]).mean()

    late = loss()
    monkeypatch.setattr(_whitened_descent, "_on_the_way", lambda _: 0.0)
    assert late < loss() - 0.005


def test_without_a_signal_intercepts_are_those_of_the_counts():
    rng = np.random.default_rng(1)
    X = np.clip(rng.standard_normal((6_000, 10)) / 4.0, -1.0, 1.0)
    y, rows = rng.integers(0, 10, 6_000), np.arange(6_000)
    found = []
    for seed in range(6):
        model = LogisticRegression(0.1, 1e-6, classes=range(10), data_norm=3.2, random_state=seed)
        found.append(-np.mean(np.log(model.fit(X, y).predict_proba(X)[rows, y])))
    # Those in which the descent ends lose .04.
    assert np.mean(found) < math.log(10.0) + 0.01
