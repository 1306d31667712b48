"""Losses written in Python: equal to the kernels' own, checked, and minimized to a certificate."""

import math

import numpy as np
import pytest

from dpfast import Problem, ProblemShape, _kernels
from dpfast.objectives import (
    OBJECTIVES,
    Erm,
    PythonErm,
    PythonErmShape,
    PythonLoss,
    objective_shape,
)
from dpfast.objectives._sums import row_sum, weighted_gram
from dpfast.optimizers import OPTIMIZERS


def logistic(z, y):
    p = 1.0 / (1.0 + np.exp(y * z))
    return np.logaddexp(0.0, -y * z), -y * p, p * (1.0 - p)


LOGISTIC = PythonLoss(logistic, lipschitz=1.0, smoothness=0.25, at_zero=math.log(2.0))
WITHOUT_CURVATURE = PythonLoss(lambda z, y: logistic(z, y)[:2], 1.0, 0.25, math.log(2.0))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_as_the_kernels_loss(layout, weighted, case):
    problem = case(layout, "logistic", weighted).problem
    python, native = PythonErm(problem, 0.3, LOGISTIC), Erm(problem, 0.3)
    w = np.linspace(-1.0, 2.0, 7)
    (value, gradient), (expected, slope) = (f.value_and_gradient(w) for f in (python, native))
    assert value == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(gradient, slope, atol=1e-14)
    np.testing.assert_allclose(python.hessian(w), native.hessian(w), atol=1e-13)
    differences = PythonErm(problem, 0.3, WITHOUT_CURVATURE).hessian(w)
    np.testing.assert_allclose(differences, native.hessian(w), atol=1e-6)
    for relation in ("replace_one", "add_or_remove_one"):
        assert python.shape.minimizer_sensitivity(relation) == pytest.approx(
            native.shape.minimizer_sensitivity(relation)
        )
    for name in ("dim", "n_samples", "lipschitz", "smoothness", "minimizer_norm"):
        assert getattr(python.shape, name) == pytest.approx(getattr(native.shape, name))
    assert native.gradient_error(2.0) <= python.gradient_error(2.0) < 1e-12


@pytest.mark.parametrize("loss", [LOGISTIC, WITHOUT_CURVATURE], ids=["curvature", "differences"])
@pytest.mark.parametrize("optimizer", ["lbfgs", "newton"])
def test_optimizers_certify_the_minimizer(loss, optimizer, case):
    problem = case("float64", "logistic").problem
    result = OPTIMIZERS[optimizer](PythonErm(problem, 0.1, loss), tolerance=1e-10)
    assert result.converged
    expected = OPTIMIZERS["newton"](Erm(problem, 0.1), tolerance=1e-12).w
    np.testing.assert_allclose(result.w, expected, atol=1e-8)


@pytest.mark.parametrize(("relation", "other"), [("replace_one", -1.0), ("add_or_remove_one", 0.0)])
def test_the_sensitivity_is_reached(relation, other):
    """A linear loss of slope ±1, which the kernels do not have, moves minimizers all the way."""
    loss = PythonLoss(lambda z, y: (y * z, y + 0.0 * z, 0.0 * z), 1.0, 0.0)
    found = []
    for sign in (1.0, other):
        problem = Problem([[0.5], [0.0], [0.0]], [sign, 0.0, 0.0], "squared", data_norm=0.5,
                          intercept=0.0)  # fmt: skip
        objective = PythonErm(problem, 0.2, loss)
        found.append(OPTIMIZERS["newton"](objective, tolerance=1e-13).w[0])
    declared = objective.shape.minimizer_sensitivity(relation)
    assert abs(found[0] - found[1]) == pytest.approx(declared, rel=1e-9)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda z, y: z, TypeError, "must return .value, derivative."),
        (lambda z, y: (z, z[:-1]), ValueError, r"derivative of shape \(150,\)"),
        (lambda z, y: (z[0], z), ValueError, r"value of shape \(150,\); got \(\)"),
        (lambda z, y: (z, np.nan * z), FloatingPointError, "derivative"),
        (lambda z, y: (z / 0.0, 0.0 * z), FloatingPointError, "value"),
        (lambda z, y: (z, 0.0 * z, np.inf + z), FloatingPointError, "curvature"),
        (lambda z, y: (z, 1.1 + 0.0 * z), ValueError, "lipschitz must bound"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bad_answers(function, error, message, case):
    objective = PythonErm(case("float64", "logistic").problem, 0.1, PythonLoss(function, 1.0, 1.0))
    with pytest.raises(error, match=message):
        objective.value_and_gradient(np.linspace(1.0, 2.0, 7))


def test_a_loss_that_is_not_convex_is_noticed(case):
    loss = PythonLoss(lambda z, y: (np.sin(z), np.cos(z), -np.sin(z)), 1.0, 1.0)
    objective = PythonErm(case("float64", "logistic").problem, 0.1, loss)
    with pytest.raises(ValueError, match="convex"):
        objective.hessian(np.linspace(1.0, 2.0, 7))


def test_bad_arguments(case):
    problem = case("float64", "logistic").problem
    with pytest.raises(TypeError, match="loss must be a PythonLoss"):
        PythonErm(problem, 0.1, "logistic")
    with pytest.raises(TypeError, match="function must be callable"):
        PythonLoss(3, 1.0, 1.0)
    with pytest.raises(ValueError, match="lipschitz must be"):
        PythonLoss(logistic, math.inf, 1.0)
    with pytest.raises(ValueError, match="alpha must be"):
        PythonErmShape(problem.shape, -1.0, LOGISTIC)


@pytest.mark.parametrize("intercept", [0.0, 0.7])
def test_sums_of_rows(layout, intercept, case, isa):
    data = case(layout, "logistic", True, intercept=intercept)
    factors = np.random.default_rng(0).standard_normal(150)
    np.testing.assert_allclose(row_sum(data.problem, factors), data.rows.T @ factors, atol=1e-13)
    weights = factors**2
    np.testing.assert_allclose(
        weighted_gram(data.problem, weights), (data.rows.T * weights) @ data.rows, atol=1e-12
    )


def test_kernels_refuse_bad_ranges(case):
    problem = case("float64", "logistic").problem
    kernel = next(problem.chunks())[0]
    loss, w = problem.shape.loss.spec, np.zeros(7)
    with pytest.raises(ValueError, match="at least one row"):
        _kernels.tilted_sum(kernel, 3, 3, loss, 1.0, w, None, np.empty(7))
    with pytest.raises(ValueError, match=r"outside \[0, 150\)"):
        _kernels.shifted_sum(kernel, 100, 151, loss, 0.1, 0.0, w, np.empty(7))
    with pytest.raises(ValueError, match="must have 7 entries; got 6"):
        _kernels.row_sum(kernel, 0, 150, np.ones(150), np.empty(6))
    with pytest.raises(ValueError, match="s must have 150 entries"):
        _kernels.row_sum(kernel, 0, 150, np.ones(149), np.empty(7))
    with pytest.raises(ValueError, match="argument is outside"):
        _kernels.tilted_sum(kernel, 0, 150, loss, -1.0, w, None, np.empty(7))
    with pytest.raises(ValueError, match="argument is outside"):
        _kernels.shifted_sum(kernel, 0, 150, loss, math.nan, 0.0, w, np.empty(7))
    with pytest.raises(TypeError, match="rows must be DenseRows or CsrRows"):
        _kernels.row_sum(3, 0, 1, np.ones(1), np.empty(7))
    with pytest.raises(FloatingPointError):
        _kernels.tilted_sum(kernel, 0, 150, loss, 1.0, np.full(7, np.nan), None, np.empty(7))
    with pytest.raises(ValueError, match="weight must have 150"):
        _kernels.weighted_gram_block(kernel, 0, 150, np.ones(3), np.empty((150, 7)))
    with pytest.raises(ValueError, match="out must have more rows"):
        _kernels.weighted_gram_block(kernel, 0, 150, np.ones(150), np.empty((149, 7)))


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_the_table(name, case):
    problem = case("float64", "logistic").problem
    shape = objective_shape(name, problem.shape, 0.2)
    objective = shape.on(problem)
    assert objective.shape == shape
    for attribute in ("dim", "strong_convexity", "smoothness"):
        assert getattr(objective, attribute) == getattr(shape, attribute)
    assert objective.gradient_error(3.0) == shape.gradient_error(3.0) > 0.0
    with pytest.raises(ValueError, match="got 'tild'"):
        objective_shape(name, problem.shape, 0.2, tild=1.0)


def test_an_unknown_objective_is_refused():
    with pytest.raises(ValueError, match="objective must be one of"):
        objective_shape("max", ProblemShape(10, 2, 1.0), 0.1)
