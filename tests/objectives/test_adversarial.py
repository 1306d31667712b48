"""Adversarial risk against its slow twin, real perturbations, and worst-case neighbors."""

import math

import numpy as np
import pytest
from reference import objectives as reference

from dpfast import Budget, Problem, ProblemShape, solve
from dpfast.objectives import Adversarial, AdversarialShape, Erm
from dpfast.optimizers import OPTIMIZERS

NORMS = ["l2", "linf"]
LOSSES = ["logistic", "huberized-hinge", "squared-hinge", "huber"]


def twin(data, alpha, radius, norm, smoothing=1e-3):
    shape = AdversarialShape(data.problem.shape, alpha, radius, norm, smoothing)
    return lambda w: reference.adversarial(
        data.rows, 6, data.target, w, data.loss, alpha, radius, norm, shape.width,
        shape.residual_width, data.weight,
    )  # fmt: skip


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_value_and_gradient_match_the_twin(layout, norm, loss, case, isa):
    data = case(layout, loss, weighted=True)
    objective = Adversarial(data.problem, 0.3, 0.25, norm, smoothing=0.1)
    value = twin(data, 0.3, 0.25, norm, smoothing=0.1)
    w = np.linspace(-1.0, 2.0, 7)
    computed, gradient = objective.value_and_gradient(w)
    assert computed == pytest.approx(value(w), rel=1e-13)
    np.testing.assert_allclose(gradient, reference.gradient(value, w), atol=2e-8)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [0.0, 1.3])
def test_derivatives_are_consistent(norm, loss, intercept, case):
    data = case("float64", loss, intercept=intercept)
    objective = Adversarial(data.problem, 0.3, 0.25, norm, smoothing=0.5)
    w = np.linspace(-0.6, 1.1, objective.dim)
    reference.check_derivatives(objective, w, 0.3)


@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("weighted", [False, True])
def test_hessian_of_every_layout(layout, loss, norm, weighted, case):
    data = case(layout, loss, weighted)
    objective = Adversarial(data.problem, 0.3, 0.25, norm, smoothing=0.5)
    w = np.linspace(-0.6, 1.1, 7)
    rows = [
        reference.gradient(lambda v, j=j: objective.value_and_gradient(v)[1][j], w)
        for j in range(7)
    ]
    np.testing.assert_allclose(objective.hessian(w), rows, atol=1e-6)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", ["logistic", "huberized-hinge", "huber"])
def test_no_perturbation_is_worse_than_the_closed_form(norm, loss, case):
    """Perturb rows for real: at random never worse, in the stated direction exactly as bad."""
    data = case("float64", loss, n=12)
    tight = 1e-9
    objective = Adversarial(data.problem, 1e-12, 0.4, norm, smoothing=tight)
    rng = np.random.default_rng(0)
    w = rng.standard_normal(7)
    worst = np.mean([
        reference.worst_perturbation(x, y, w, 6, data.loss, 0.4, norm, rng, 200)
        for x, y in zip(data.rows, data.target, strict=True)
    ])  # fmt: skip
    assert objective.value_and_gradient(w)[0] == pytest.approx(worst, rel=1e-7)
    # Rounding off errs on the safe side, by no more than it says.
    rounded = Adversarial(data.problem, 1e-12, 0.4, norm, smoothing=0.05)
    columns = 6 if norm == "linf" else 1
    above = rounded.value_and_gradient(w)[0] - worst
    shape = rounded.shape
    assert 0.0 < above <= data.loss.lipschitz * (0.4 * columns * shape.width + shape.residual_width)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_radius_zero_is_the_plain_risk(layout, norm, loss, case):
    problem = case(layout, loss, True).problem
    w = np.linspace(-1.0, 2.0, 7)
    objective, plain = Adversarial(problem, 0.3, 0.0, norm), Erm(problem, 0.3)
    (value, gradient), (expected, slope) = (f.value_and_gradient(w) for f in (objective, plain))
    assert value == pytest.approx(expected, rel=1e-14)
    np.testing.assert_allclose(gradient, slope, atol=1e-14)
    np.testing.assert_allclose(objective.hessian(w), plain.hessian(w), atol=1e-13)
    shape = objective.shape
    for relation in ("replace_one", "add_or_remove_one"):
        assert shape.minimizer_sensitivity(relation) == pytest.approx(
            problem.shape.minimizer_sensitivity(0.3, relation), rel=1e-11
        )
    assert objective.smoothness == pytest.approx(plain.smoothness, rel=1e-11)
    assert shape.minimizer_norm == pytest.approx(problem.shape.minimizer_norm(0.3), rel=1e-11)


@pytest.mark.parametrize("optimizer", ["lbfgs", "newton"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("radius", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_every_run_is_certified(optimizer, norm, radius, loss, case):
    """With a large radius all weights sit in the kink, with a middle one some of them."""
    objective = Adversarial(case("float64", loss).problem, 0.02, radius, norm)
    result = OPTIMIZERS[optimizer](objective, tolerance=1e-8)
    assert result.converged
    other = OPTIMIZERS["lbfgs" if optimizer == "newton" else "newton"](objective, tolerance=1e-8)
    assert np.linalg.norm(result.w - other.w) <= result.certificate + other.certificate
    if radius == 3.0:
        assert np.abs(result.w[:6]).max() < 1e-2
    assert np.linalg.norm(result.w) <= objective.shape.minimizer_norm


@pytest.mark.parametrize("norm", NORMS)
def test_the_exact_objective_takes_the_least_subgradient(norm, case):
    """Where all weights vanish the kink absorbs what it can; the remainder is what is certified."""
    data = case("float64", "logistic", intercept=0.0)
    small, large = (Adversarial(data.problem, 0.02, r, norm, smoothing=0.0) for r in (1e-3, 3.0))
    assert math.isinf(large.smoothness)
    assert not large.value_and_gradient(np.zeros(6))[1].any()  # 0 is the minimizer
    value, gradient = small.value_and_gradient(np.zeros(6))
    assert gradient.any()
    # Along minus the least subgradient the objective falls at the rate of its squared norm.
    step = 1e-7
    fall = (value - small.value_and_gradient(-step * gradient)[0]) / step
    assert fall == pytest.approx(gradient @ gradient, rel=1e-5)
    # With no weight at zero the objective is smooth, and the certificate is reached.
    result = OPTIMIZERS["newton"](small, tolerance=1e-9)
    assert result.converged
    rounded = Adversarial(data.problem, 0.02, 1e-3, norm, smoothing=1e-6)
    np.testing.assert_allclose(result.w, OPTIMIZERS["newton"](rounded, tolerance=1e-9).w, atol=1e-5)
    if norm == "linf":
        w = np.array([0.5, 0.0, -1.0, 0.0, 2.0, 1.0])
        best = small.value_and_gradient(w)[1]
        for signs in ([1, 1], [1, -1], [-1, 1], [-1, -1]):
            nearby = w.copy()
            nearby[[1, 3]] = 1e-12 * np.array(signs)
            assert (
                np.linalg.norm(best) <= np.linalg.norm(small.value_and_gradient(nearby)[1]) + 1e-9
            )


def aligned(n, side, norm, d=4, R=0.5):
    """Rows along one direction, of which the first agrees, disagrees or is absent."""
    direction = np.full(d, 1.0 / math.sqrt(d)) if norm == "linf" else np.eye(d)[0]
    weight, y = np.ones(n), np.ones(n)
    weight[0], y[0] = abs(side), side or 1.0
    return Problem(
        np.tile(R * direction, (n, 1)), y, "huberized-hinge", data_norm=R, intercept=0.0,
        sample_weight=weight, max_weight=1.0,
    )  # fmt: skip


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [6, 50])
@pytest.mark.parametrize("radius", [0.01, 0.1])
@pytest.mark.parametrize(("relation", "other"), [("replace_one", 1.0), ("add_or_remove_one", 0.0)])
def test_the_sensitivity_is_reached(norm, n, radius, relation, other):
    """A row against the others' direction is hurt by the adversary with its full strength: it is
    worth R + r* against an absent one, and 2R against one that agrees, which is hurt as much."""
    alpha, smoothing = 2.0, 1e-6
    problems = [aligned(n, side, norm) for side in (-1.0, other)]
    shape = AdversarialShape(problems[0].shape, alpha, radius, norm, smoothing)
    found = [
        OPTIMIZERS["newton"](Adversarial(p, alpha, radius, norm, smoothing), tolerance=1e-10)
        for p in problems
    ]
    assert all(result.converged for result in found)
    declared = shape.minimizer_sensitivity(relation)
    distance = float(np.linalg.norm(found[0].w - found[1].w))
    assert 0.999 * declared <= distance <= declared * (1 + 1e-9) + 1e-9
    longest = 0.5 if relation == "replace_one" else shape.longest_perturbation
    assert declared == pytest.approx((0.5 + longest) / (alpha * n), rel=1e-9)


def test_a_strong_adversary_costs_noise():
    """Beyond the rows' own length the pull of one record counts in full."""
    problem = ProblemShape(10, 2, 1.0, intercept=0.0)
    for radius, factor in [(0.0, 2.0), (1.0, 2.0), (1.5, 2.5), (4.0, 5.0)]:
        shape = AdversarialShape(problem, 1.0, radius)
        assert shape.minimizer_sensitivity("replace_one") == pytest.approx(factor / 10)
        assert shape.minimizer_sensitivity("add_or_remove_one") == pytest.approx((1 + radius) / 10)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_no_pair_of_neighbors_is_farther_apart(norm, loss, relation):
    rng = np.random.default_rng(5)
    for n in (1, 2, 6):
        for radius in (0.1, 1.0, 3.0):
            X = rng.standard_normal((n, 3))
            X /= np.linalg.norm(X, axis=1)[:, None]
            y = rng.choice([-1.0, 1.0], n) * (10.0 if loss == "huber" else 1.0)
            X2, y2, weight = X.copy(), y.copy(), np.ones(n)
            if relation == "replace_one":
                X2[0], y2[0] = -X[0], -y[0] if rng.random() < 0.5 else y[0]
            else:
                weight[0] = 0.0
            problems = [
                Problem(A, b, loss, data_norm=1.0, intercept=0.5, sample_weight=c, max_weight=1.0)
                for A, b, c in ((X, y, np.ones(n)), (X2, y2, weight))
            ]
            shape = AdversarialShape(problems[0].shape, 0.5, radius, norm)
            found = [
                OPTIMIZERS["newton"](Adversarial(p, 0.5, radius, norm), tolerance=1e-9)
                for p in problems
            ]
            assert all(result.converged for result in found)
            distance = float(np.linalg.norm(found[0].w - found[1].w))
            assert distance <= shape.minimizer_sensitivity(relation) + 1e-8


@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.parametrize("norm", NORMS)
def test_gradients_of_one_record_stay_within_the_constant(loss, norm):
    """The Lipschitz constant, and that it is reached (misclassified rows, large residuals)."""
    rng = np.random.default_rng(1)
    largest = 0.0
    for k in range(200):
        x = rng.standard_normal((1, 3))
        x /= np.linalg.norm(x)
        w = 50.0 * rng.standard_normal(4)
        if k == 0:
            w[:3] = -50.0 * (np.sign(x[0]) if norm == "linf" else x[0])
            if norm == "linf":
                x[:] = np.sign(x) / math.sqrt(3.0)
        y = 1.0 if loss == "logistic" else 1000.0
        problem = Problem(x, [y], loss, data_norm=1.0, intercept=0.5)
        objective = Adversarial(problem, 1e-100, 0.3, norm)
        length = float(np.linalg.norm(objective.value_and_gradient(w)[1]))
        assert length <= objective.shape.lipschitz * (1 + 1e-12)
        largest = max(largest, length / objective.shape.lipschitz)
    assert largest > 0.7


def test_results_do_not_depend_on_threads(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 40)), rng.choice([-1.0, 1.0], 3000)
    monkeypatch.setattr("dpfast.shape._CHUNK_BYTES", 40_000)
    monkeypatch.setattr("dpfast.problem._THREADING_BYTES", 0)
    w = np.linspace(-1.0, 1.0, 41)
    one, three = (
        Adversarial(Problem(X, y, data_norm=5.0, n_jobs=jobs), 0.1).value_and_gradient(w)
        for jobs in (1, 3)
    )
    assert one[0] == three[0]
    np.testing.assert_array_equal(one[1], three[1])


def test_the_rounding_bound_holds(case):
    """Against the twin's exact sums, differentiated in closed form at radius 0."""
    for layout in ("float64", "csr"):
        data = case(layout, "logistic")
        objective = Adversarial(data.problem, 0.3, 0.2, smoothing=0.1)
        w = np.linspace(-1.0, 2.0, 7)
        size = math.hypot(*w[:6], objective.shape.width)
        z = np.array([math.fsum(x * w) for x in data.rows]) * data.target - 0.2 * size
        pull = 1.0 / (1.0 + np.exp(z))
        exact = np.array([math.fsum(c) for c in (data.rows * (-data.target * pull)[:, None]).T])
        exact[:6] += 0.2 * math.fsum(pull) * w[:6] / size
        exact = exact / 150 + 0.3 * w
        error = np.linalg.norm(objective.value_and_gradient(w)[1] - exact)
        assert error <= objective.gradient_error(float(np.linalg.norm(w))) < 1e-12


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"radius": -0.1}, ValueError, "radius must be"),
        ({"radius": float("inf")}, ValueError, "radius must be"),
        ({"norm": "l1"}, ValueError, "norm must be one of"),
        ({"smoothing": -1.0}, ValueError, "smoothing must be"),
        ({"alpha": 0.0}, ValueError, "alpha must be"),
        ({"loss": "huber", "smoothing": 0.0}, ValueError, "smoothing must be > 0"),
        ({"loss": "pinball"}, ValueError, "absolute value"),
        ({"loss": "sigmoid"}, ValueError, "convex"),
        ({"loss": "squared"}, ValueError, "bounded slope"),
    ],
)
def test_bad_arguments(options, error, message):
    problem = ProblemShape(10, 2, 1.0, options.pop("loss", "logistic"))
    with pytest.raises(error, match=message):
        AdversarialShape(problem, **{"alpha": 0.1, **options})


# ---- the hinge ----------------------------------------------------------------------------------


def hinge(norm="l2", radius=0.2, n=150, alpha=0.1, seed=0, weights=None, intercept=0.7):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.where(X @ [1.0, -1.0, 0.3, 0.0] + 0.4 * rng.standard_normal(n) > 0.2, 1.0, -1.0)
    most = None if weights is None else 1.0
    problem = Problem(
        X, y, "hinge", data_norm=1.0, intercept=intercept, sample_weight=weights, max_weight=most
    )
    return Adversarial(problem, alpha, radius, norm, smoothing=0.0), X, y


def primal_and_dual(objective, X, y, w, share, weights):
    """``G(w)`` and the dual value of slopes ``share``, from their definitions."""
    shape = objective.shape
    alpha, r, n = shape.alpha, shape.radius, len(y)
    rows = np.column_stack([X, np.full(n, shape.problem.intercept)])
    size = np.linalg.norm(w[:-1], 2 if shape.norm == "l2" else 1)
    slack = 1.0 - y * (rows @ w) + r * size
    primal = np.mean(weights * np.maximum(slack, 0.0)) + 0.5 * alpha * w @ w
    pull, mean = rows.T @ (weights * share * y) / n, np.mean(weights * share)
    # min over v of -<g, v> + r s ‖v‖' + (α/2)‖v‖², by its optimality conditions.
    if shape.norm == "l2":
        left = max(0.0, np.linalg.norm(pull[:-1]) - r * mean) ** 2
    else:
        left = np.sum(np.maximum(np.abs(pull[:-1]) - r * mean, 0.0) ** 2)
    return primal, mean - (left + pull[-1] ** 2) / (2.0 * alpha)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gap_of_the_hinge_is_primal_minus_dual(norm, weighted):
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.1, 1.0, 150) if weighted else np.ones(150)
    objective, X, y = hinge(norm, weights=weights if weighted else None)
    for width in (1.0, 0.1, 1e-4):
        for w in (rng.standard_normal(5), 1e-3 * rng.standard_normal(5), np.zeros(5)):
            at = w if width < 1.0 else rng.standard_normal(5)
            smooth = objective.smoothed(width).shape
            assert smooth.problem.loss.name == "huberized-hinge"
            slack = 1.0 - y * (X @ at[:-1] + 0.7 * at[-1])
            if norm == "l2":
                slack += 0.2 * math.hypot(np.linalg.norm(at[:-1]), smooth.width)
            else:
                slack += 0.2 * np.hypot(at[:-1], smooth.width).sum()
            share = np.clip((slack + width) / (2.0 * width), 0.0, 1.0)
            primal, dual = primal_and_dual(objective, X, y, w, share, weights)
            gap = objective.duality_gap(w, width, at)
            if at is w:
                assert gap == objective.duality_gap(w, width)
            assert objective.value_and_gradient(w)[0] == pytest.approx(primal, rel=1e-12)
            assert primal - dual - 1e-15 <= gap <= primal - dual + 1e-9
            # The dual value is below the objective everywhere.
            for v in rng.standard_normal((20, 5)):
                assert objective.value_and_gradient(v)[0] >= dual - 1e-12


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("radius", "alpha"), [(0.0, 0.1), (0.2, 0.1), (0.2, 0.01), (2.0, 0.1)])
def test_every_run_of_the_hinge_is_certified(norm, radius, alpha, noiseless):
    objective, X, y = hinge(norm, radius, alpha=alpha)
    options = {"objective": "adversarial", "alpha": alpha,
               "objective_options": {"radius": radius, "norm": norm, "smoothing": 0.0}}  # fmt: skip
    problem = Problem(X, y, "hinge", data_norm=1.0, intercept=0.7)
    result = solve(problem, "output-perturbation", Budget(1.0, 1e-6), **options)
    assert result.plan.settings.optimizer == "smoothing"
    tolerance = result.plan.settings.gradient_tolerance
    best = OPTIMIZERS["smoothing"](objective, tolerance=1e-7, max_passes=20_000)
    assert best.certificate * alpha < 0.1 * tolerance
    assert np.linalg.norm(result.w - best.w) <= 1.1 * tolerance / alpha
    # No point is below what the gap of the best one leaves.
    rng = np.random.default_rng(0)
    for step in 10.0 ** rng.uniform(-4, 0, 50):
        v = best.w + step * rng.standard_normal(5)
        assert objective.value_and_gradient(v)[0] >= best.value - best.certificate**2 * alpha


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("labels", ["one", "random"])
def test_rows_that_tie_at_the_kink_are_certified(norm, labels, noiseless):
    """A strong adversary: the intercept alone is left, and a whole class is at the kink."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 10))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.ones(3000) if labels == "one" else np.where(rng.random(3000) < 0.3, 1.0, -1.0)
    problem = Problem(X, y, "hinge", data_norm=1.0)
    result = solve(
        problem, "output-perturbation", Budget(1.0, 1e-6), alpha=0.01, objective="adversarial",
        objective_options={"radius": 0.5, "norm": norm, "smoothing": 0.0},
    )  # fmt: skip
    tolerance = result.plan.settings.gradient_tolerance
    best = np.zeros(11)
    best[-1] = 1.0 if labels == "one" else -1.0
    assert np.linalg.norm(result.w - best) <= 1.001 * tolerance / 0.01


@pytest.mark.parametrize("norm", NORMS)
def test_neighbors_of_the_hinge_stay_within_the_sensitivity(norm):
    objective, X, y = hinge(norm, 0.05, n=12, alpha=1.0)
    best = OPTIMIZERS["smoothing"](objective, tolerance=1e-6, max_passes=20_000).w
    rng = np.random.default_rng(4)
    largest = 0.0
    for _ in range(40):
        row = rng.standard_normal(4)
        moved, labels = X.copy(), y.copy()
        moved[0], labels[0] = row / np.linalg.norm(row), rng.choice([-1.0, 1.0])
        problem = Problem(moved, labels, "hinge", data_norm=1.0, intercept=0.7)
        other = Adversarial(problem, 1.0, 0.05, norm, smoothing=0.0)
        found = OPTIMIZERS["smoothing"](other, tolerance=1e-6, max_passes=20_000).w
        largest = max(largest, float(np.linalg.norm(found - best)))
    bound = objective.shape.minimizer_sensitivity("replace_one")
    assert 0.5 * bound < largest <= bound


def test_a_gap_of_the_hinge_that_rounding_leaves_can_be_reached():
    for norm in NORMS:
        objective, _, _ = hinge(norm)
        floor = objective.shape.least_tolerance()
        assert floor < 1e-5
        found = OPTIMIZERS["smoothing"](objective, tolerance=floor, max_passes=50_000)
        assert found.converged
    with pytest.raises(ValueError, match=r"smoothing must be 0 for the loss 'hinge'"):
        AdversarialShape(objective.shape.problem, 0.1, 0.1)
