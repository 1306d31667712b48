"""Tilted risk against its slow twin, its limits, and neighbors that approach its sensitivity."""

import math

import mpmath
import numpy as np
import pytest
from reference import objectives as reference

from dpfast import Problem, ProblemShape
from dpfast.objectives import Erm, Tilted, TiltedShape
from dpfast.optimizers import OPTIMIZERS

TILTS = [1e-8, 1e-3, 1.0, 30.0, 1e6]


@pytest.mark.parametrize("tilt", TILTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_value_and_gradient_match_the_twin(layout, tilt, weighted, case, isa):
    data = case(layout, "logistic", weighted)
    objective = Tilted(data.problem, 0.3, tilt)
    w = np.linspace(-1.0, 2.0, 7)
    value, gradient = objective.value_and_gradient(w)
    expected, slope = reference.tilted(data.rows, data.target, w, data.loss, tilt, 0.3, data.weight)
    assert value == pytest.approx(expected, rel=1e-13)
    bound = objective.gradient_error(float(np.linalg.norm(w)))
    # The rows of the twin are scaled with rounding of their own.
    assert np.linalg.norm(gradient - slope) <= bound + 1e-14 * (1.0 + tilt)
    assert bound < 1e-6 if tilt <= 1e6 else True


@pytest.mark.parametrize("loss", ["huber", "pinball", "huberized-hinge", "squared-hinge"])
@pytest.mark.parametrize("intercept", [0.0, 1.3])
def test_other_losses_match_the_twin(loss, intercept, case):
    data = case("float64", loss, intercept=intercept)
    bound = 1.5 if loss in ("huber", "pinball") else None
    objective = Tilted(data.problem, 0.2, 2.0, target_bound=bound)
    target = data.target if bound is None else np.clip(data.target, -bound, bound)
    assert bound is None or np.any(target != data.target)
    w = np.linspace(-1.0, 1.0, objective.dim)
    value, gradient = objective.value_and_gradient(w)
    expected, slope = reference.tilted(data.rows, target, w, data.loss, 2.0, 0.2)
    assert value == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(gradient, slope, atol=1e-13)


@pytest.mark.parametrize("tilt", [1e-3, 1.0, 8.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives_are_consistent(layout, tilt, weighted, case):
    objective = Tilted(case(layout, "logistic", weighted).problem, 0.3, tilt)
    w = np.linspace(-0.5, 1.0, 7)
    reference.check_derivatives(objective, w, 0.3)


def test_a_small_tilt_is_the_mean(layout, case):
    problem = case(layout, "logistic", True).problem
    w = np.linspace(-1.0, 2.0, 7)
    mean_value, mean = Erm(problem, 0.3).value_and_gradient(w)
    value, gradient = Tilted(problem, 0.3, 1e-14).value_and_gradient(w)
    assert value == pytest.approx(mean_value, rel=1e-12)
    np.testing.assert_allclose(gradient, mean, atol=1e-12)
    for relation in ("replace_one", "add_or_remove_one"):
        assert TiltedShape(problem.shape, 0.3, 1e-14).minimizer_sensitivity(
            relation
        ) == pytest.approx(problem.shape.minimizer_sensitivity(0.3, relation), rel=1e-9)


def test_a_large_tilt_approaches_the_largest_loss(layout, case):
    data = case(layout, "logistic")
    w = np.linspace(-1.0, 2.0, 7)
    largest = np.logaddexp(0.0, -data.target * (data.rows @ w)).max()
    ridge = 0.15 * w @ w
    values = [
        Tilted(data.problem, 0.3, t).value_and_gradient(w)[0] - ridge
        for t in (0.1, 1.0, 10.0, 100.0, 1e4, 1e100)
    ]
    assert np.all(np.diff(values) >= -1e-14)
    for t, value in zip((0.1, 1.0, 10.0, 100.0, 1e4, 1e100), values, strict=True):
        assert largest - math.log(150) / t - 1e-13 <= value <= largest + 1e-13


def test_results_do_not_depend_on_threads(monkeypatch):
    """Maxima differ between chunks, so that sums are brought to one scale in chunk order."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 40))
    y = rng.choice([-1.0, 1.0], 3000)
    monkeypatch.setattr("dpfast.shape._CHUNK_BYTES", 40_000)
    monkeypatch.setattr("dpfast.problem._THREADING_BYTES", 0)
    w = np.linspace(-1.0, 1.0, 41)
    one, three = (
        Tilted(Problem(X, y, data_norm=5.0, n_jobs=jobs), 0.1, 3.0).value_and_gradient(w)
        for jobs in (1, 3)
    )
    assert one[0] == three[0]
    np.testing.assert_array_equal(one[1], three[1])
    scaled = X * np.minimum(1.0, 5.0 / np.linalg.norm(X, axis=1))[:, None]
    rows = np.hstack([scaled, np.ones((3000, 1))])
    margins = y * (rows @ w)
    losses = np.logaddexp(0.0, -margins)
    share = np.exp(3.0 * (losses - losses.max()))
    slope = rows.T @ (-y * share / (1.0 + np.exp(margins))) / share.sum() + 0.1 * w
    np.testing.assert_allclose(one[1], slope, atol=1e-13)


@pytest.mark.parametrize("optimizer", ["lbfgs", "newton"])
@pytest.mark.parametrize("tilt", [1e-6, 1.0, 20.0])
def test_optimizers_certify_the_minimizer(optimizer, tilt, case):
    objective = Tilted(case("float64", "logistic").problem, 0.1, tilt)
    result = OPTIMIZERS[optimizer](objective, tolerance=1e-9)
    assert result.converged
    assert np.linalg.norm(result.w) <= objective.shape.minimizer_norm
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = result.w + 0.1 * rng.standard_normal(7)
        rise = objective.value_and_gradient(other)[0] - result.value
        assert rise >= 0.05 * np.linalg.norm(other - result.w) ** 2 - 1e-9


def minimizer(problem, alpha, tilt, **options):
    objective = Tilted(problem, alpha, tilt, **options)
    tolerance = max(1e-12, 4.0 * objective.gradient_error(objective.shape.minimizer_norm))
    result = OPTIMIZERS["newton"](objective, tolerance=tolerance)
    assert result.converged
    return result.w


def lone_row(n, x, target, weight=None, loss="huberized-hinge", R=1.0, background=0.0):
    """One row among others that say nothing (or lean to one side)."""
    X = np.full((n, 1), background)
    X[0] = x
    y = np.ones(n)
    y[0] = target
    weights = {} if weight is None else {"sample_weight": weight, "max_weight": 1.0}
    return Problem(X, y, loss, data_norm=R, intercept=0.0, **weights)


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
@pytest.mark.parametrize("tilt", [1e-6, 1e-2])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_small_tilt_reaches_the_sensitivity(n, tilt, relation):
    """A large ridge and short rows keep the losses at 1, the hinge on its steep side: what one
    record can do is then all that the bound allows, up to the tilt itself."""
    alpha = 1e3
    problem = lone_row(n, 1.0, 1.0)
    if relation == "replace_one":
        neighbor = lone_row(n, 1.0, -1.0)
    else:
        # Absent others: those that are present but silent have the loss 1, not 0.
        weight = np.zeros(n)
        neighbor = lone_row(n, 1.0, 1.0, weight=weight)
        problem = lone_row(n, 1.0, 1.0, weight=np.r_[1.0, weight[1:]])
    declared = TiltedShape(problem.shape, alpha, tilt).minimizer_sensitivity(relation)
    distance = abs(minimizer(problem, alpha, tilt) - minimizer(neighbor, alpha, tilt))[0]
    assert distance <= declared * (1 + 1e-9)
    assert distance >= 0.9 * declared


@pytest.mark.parametrize("n", [1, 2, 10])
def test_any_tilt_reaches_the_sensitivity_with_absent_others(n):
    """Loss 1 against absent records' 0: the lone row's share is E/(n - 1 + E) with E = exp(t)."""
    for tilt in (0.5, 3.0, 50.0):
        alpha = 1e4
        weight = np.r_[1.0, np.zeros(n - 1)]
        a, b = (lone_row(n, 1.0, y, weight=weight) for y in (1.0, -1.0))
        declared = TiltedShape(a.shape, alpha, tilt).minimizer_sensitivity("replace_one")
        distance = abs(minimizer(a, alpha, tilt) - minimizer(b, alpha, tilt))[0]
        assert 0.98 * declared <= distance <= declared


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("alpha", [0.05, 1.0, 50.0])
@pytest.mark.parametrize("tilt", [0.1, 2.0, 30.0])
def test_no_pair_of_neighbors_is_farther_apart(relation, alpha, tilt):
    rng = np.random.default_rng(5)
    for n in (1, 2, 6):
        for _ in range(4):
            X = rng.standard_normal((n, 2))
            X *= rng.choice([0.1, 1.0], n)[:, None] / np.linalg.norm(X, axis=1)[:, None]
            y, weight = rng.choice([-1.0, 1.0], n), np.ones(n)
            weight[rng.random(n) < 0.3] = 0.0
            weight[0] = 1.0
            X2, y2, weight2 = X.copy(), y.copy(), weight.copy()
            if relation == "replace_one":
                X2[0], y2[0] = rng.standard_normal(2), rng.choice([-1.0, 1.0])
            else:
                weight2[0] = 0.0
            problems = [
                Problem(A, b, data_norm=1.0, intercept=0.5, sample_weight=c, max_weight=1.0)
                for A, b, c in ((X, y, weight), (X2, y2, weight2))
            ]
            shape = TiltedShape(problems[0].shape, alpha, tilt)
            found = [OPTIMIZERS["lbfgs"](Tilted(p, alpha, tilt), tolerance=1e-9) for p in problems]
            distance = float(np.linalg.norm(found[0].w - found[1].w))
            slack = sum(result.certificate for result in found)
            assert distance <= shape.minimizer_sensitivity(relation) + slack
            assert max(np.linalg.norm(r.w) for r in found) <= shape.minimizer_norm + slack


@pytest.mark.parametrize("tilt", [1e-9, 0.1, 1.0, 100.0, 1e50])
def test_sensitivity_is_never_above_the_papers(tilt):
    for n in (1, 10, 10**6):
        for alpha in (1e-3, 1.0, 1e3):
            shape = TiltedShape(ProblemShape(n, 3, 1.0), alpha, tilt)
            spread = shape.loss_bound(shape.minimizer_norm)
            paper = 2.0 * shape.lipschitz / alpha * min(1.0, math.exp(min(tilt * spread, 700)) / n)
            replace, remove = map(shape.minimizer_sensitivity, ("replace_one", "add_or_remove_one"))
            assert 0.0 < replace <= paper * (1 + 1e-9)
            assert 0.0 < remove <= 2.0 * shape.lipschitz / alpha * (1 + 1e-9)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tilt": 0.0}, ValueError, "tilt must be"),
        ({"tilt": -1.0}, ValueError, "tilt must be"),
        ({"tilt": float("nan")}, ValueError, "tilt must be"),
        ({"alpha": 0.0}, ValueError, "alpha must be"),
        ({"target_bound": 1.0}, ValueError, "target_bound must be None"),
        ({"loss": "huber"}, ValueError, "target_bound must be given"),
        ({"loss": "huber", "target_bound": -1.0}, ValueError, "target_bound must be"),
        ({"loss": "sigmoid"}, ValueError, "loss must be convex"),
        ({"loss": "squared"}, ValueError, "bounded slope"),
    ],
)
def test_bad_arguments(options, error, message):
    problem = ProblemShape(10, 2, 1.0, options.pop("loss", "logistic"))
    with pytest.raises(error, match=message):
        TiltedShape(problem, **{"alpha": 0.1, "tilt": 1.0, **options})


def test_bad_weights(case):
    objective = Tilted(case("float64", "logistic").problem, 0.1)
    with pytest.raises(ValueError, match=r"w must have shape \(7,\)"):
        objective.value_and_gradient(np.zeros(6))
    with pytest.raises(ValueError, match="w must be finite"):
        objective.value_and_gradient(np.full(7, np.nan))
    assert math.isinf(TiltedShape(ProblemShape(10, 2, 1.0), 0.1, 1e30).gradient_error(1.0))


@pytest.mark.parametrize("n", [30, 1000])
@pytest.mark.parametrize("tilt", [0.1, 3.0, 1e5])
def test_one_row_that_outweighs_all_others_costs_digits_that_the_bound_has(n, tilt):
    """The sum of shares is then about 1, and it is computed as n less what they lack of 1."""
    X = np.full((n, 1), 1e-3)
    X[n // 2] = 0.9
    y = np.where(np.arange(n) == n // 2, -1.0, 1.0)
    w = np.array([61.3])
    objective = Tilted(Problem(X, y, "logistic", data_norm=1.0, intercept=0.0), 0.1, tilt)
    with mpmath.workdps(40):  # of all others, which are equal, and of the one
        rows = [mpmath.mpf(float(x)) for x in (X[0, 0], X[n // 2, 0])]
        margins = [-rows[0] * mpmath.mpf(w[0]), rows[1] * mpmath.mpf(w[0])]
        losses = [mpmath.log1p(mpmath.exp(z)) for z in margins]
        shares = [
            count * mpmath.exp(mpmath.mpf(tilt) * (v - max(losses)))
            for count, v in zip((n - 1, 1), losses, strict=True)
        ]
        slopes = [
            x / (1 + mpmath.exp(-z)) for x, z in zip((-rows[0], rows[1]), margins, strict=True)
        ]
        exact = mpmath.fdot(shares, slopes) / mpmath.fsum(shares)
        error = abs(objective.value_and_gradient(w)[1][0] - exact - mpmath.mpf(0.1) * w[0])
    bound = objective.gradient_error(61.3)
    assert error <= bound < 1e-7
