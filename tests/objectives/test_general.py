"""A user's own function: its declared constants, its checks, and the tightness of 2L/µ."""

import numpy as np
import pytest

from dpfast import Problem
from dpfast.objectives import Erm, ErmShape, General, GeneralShape
from dpfast.objectives.linear_term import LinearTerm
from dpfast.optimizers import OPTIMIZERS

CONSTANTS = {"lipschitz": 2.0, "strong_convexity": 0.5, "smoothness": 3.0}


class Quadratic:
    """``L x·w + (µ/2)‖w‖²``, the hardest member of the class."""

    def __init__(self, x, lipschitz=2.0, mu=0.5):
        self.x, self.lipschitz, self.mu = np.asarray(x, float), lipschitz, mu

    def value_and_gradient(self, w):
        slope = self.lipschitz * self.x
        return float(slope @ w + 0.5 * self.mu * w @ w), slope + self.mu * w


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("optimizer", ["lbfgs", "newton"])
def test_the_sensitivity_is_reached_and_not_passed(relation, optimizer):
    x = np.array([0.6, -0.8, 0.0])
    a, b = (General(Quadratic(v), 3, **CONSTANTS) for v in (x, -x))
    found = [OPTIMIZERS[optimizer](f, tolerance=1e-9).w for f in (a, b)]
    declared = a.shape.minimizer_sensitivity(relation)
    distance = np.linalg.norm(found[0] - found[1])
    assert 0.999 * declared <= distance <= declared + 1e-8
    assert declared == pytest.approx(8.0)


def test_where_the_whole_gradient_is_bounded_half_is_enough():
    """Lowy & Razaviyayn 2021, Appendix F, with one record: on the ball of radius L/(2µ) that holds
    the minimizers ``(L/2) x·w + (µ/2)‖w‖²`` is L-Lipschitz, and minimizers are L/µ apart."""
    L, mu = 3.0, 0.25
    x = np.array([1.0, 0.0])
    declared = L / mu
    shape = {"lipschitz": L, "strong_convexity": mu, "smoothness": mu, "sensitivity": declared}
    found = [
        OPTIMIZERS["lbfgs"](General(Quadratic(v, L / 2, mu), 2, **shape), tolerance=1e-9).w
        for v in (x, -x)
    ]
    assert np.linalg.norm(found[0] - found[1]) == pytest.approx(declared)
    assert np.linalg.norm(Quadratic(x, L / 2, mu).value_and_gradient(-found[0])[1]) <= L + 1e-9


def test_declared_sensitivities():
    shape = GeneralShape(2, **CONSTANTS, sensitivity={"replace_one": 0.3})
    assert shape.minimizer_sensitivity("replace_one") == 0.3
    with pytest.raises(ValueError, match=r"declared for .'replace_one'.; got 'add"):
        shape.minimizer_sensitivity("add_or_remove_one")
    assert GeneralShape(2, **CONSTANTS, sensitivity=0.2).minimizer_sensitivity("replace_one") == 0.2
    with pytest.raises(ValueError, match="neighboring_relation"):
        shape.minimizer_sensitivity("neighbours")
    assert GeneralShape(2, **CONSTANTS, rounding=lambda norm: 7.0).gradient_error(1.0) == 7.0


def test_the_gradients_sensitivity_is_that_of_minimizers_times_mu():
    shape = GeneralShape(2, **CONSTANTS)
    assert shape.difference_lipschitz("replace_one") == 4.0
    assert shape.minimizer_sensitivity("replace_one") == pytest.approx(4.0 / 0.5)
    declared = GeneralShape(2, **CONSTANTS, gradient_sensitivity={"replace_one": 0.01})
    assert declared.difference_lipschitz("replace_one") == 0.01
    assert declared.minimizer_sensitivity("replace_one") == pytest.approx(0.02)
    with pytest.raises(ValueError, match=r"declared for .'replace_one'.; got 'add"):
        declared.minimizer_sensitivity("add_or_remove_one")
    both = GeneralShape(2, **CONSTANTS, gradient_sensitivity=0.01, sensitivity=0.5)
    assert both.minimizer_sensitivity("add_or_remove_one") == 0.5
    assert both.difference_lipschitz("add_or_remove_one") == 0.01
    with pytest.raises(ValueError, match="neighboring_relation"):
        shape.difference_lipschitz("neighbours")


def test_the_error_of_values_follows_what_was_declared():
    """Longest chain of additions times the largest sum, and a scalar product's error."""
    assert GeneralShape(2, **CONSTANTS).value_error(1.0) == np.inf
    small, large = (
        GeneralShape(2, **CONSTANTS, n_samples=n, largest_value=8.0).value_error(1.0)
        for n in (10, 10_000)
    )
    assert 10_000 * 8.0 * 2.0**-53 < large < 2 * 10_066 * 13.0 * 2.0**-53
    assert small < large / 50


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"dim": 0}, ValueError, "dim must be"),
        ({"lipschitz": 0.0}, ValueError, "lipschitz must be"),
        ({"lipschitz": float("nan")}, ValueError, "lipschitz must be"),
        ({"strong_convexity": -1.0}, ValueError, "strong_convexity must be"),
        ({"smoothness": 0.1}, ValueError, "smoothness must be"),
        ({"smoothness": float("inf")}, ValueError, "rounding must be given"),
        ({"sensitivity": 0.0}, ValueError, "sensitivity must be"),
        ({"sensitivity": {"other": 1.0}}, ValueError, "neighboring_relation must be"),
        ({"sensitivity": {}}, ValueError, "sensitivity must name"),
        ({"gradient_sensitivity": -1.0}, ValueError, "gradient_sensitivity must be"),
        ({"gradient_sensitivity": {}}, ValueError, "gradient_sensitivity must name"),
        ({"largest_value": -1.0}, ValueError, "largest_value must be"),
        ({"n_samples": 1.5}, TypeError, "n_samples must be"),
        ({"minimizer_norm": -2.0}, ValueError, "minimizer_norm must be"),
        ({"rounding": 1e-10}, TypeError, "rounding must be callable"),
        ({"function": 3.0}, TypeError, "function must be callable"),
    ],
)
def test_bad_constants(change, error, message):
    arguments = {"function": Quadratic([1.0, 0.0]), "dim": 2, **CONSTANTS, **change}
    with pytest.raises(error, match=message):
        General(**arguments)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ((1.0, [1.0]), ValueError, r"gradient of shape \(2,\); got \(1,\)"),
        ((float("nan"), [1.0, 2.0]), FloatingPointError, "NaN"),
        ((1.0, [1.0, float("inf")]), FloatingPointError, "infinity"),
        ([1.0], TypeError, "must return"),
    ],
)
def test_bad_answers(answer, error, message):
    with pytest.raises(error, match=message):
        General(lambda w: answer, 2, **CONSTANTS).value_and_gradient(np.zeros(2))


def test_a_wrong_strong_convexity_is_noticed():
    objective = General(Quadratic([1.0, 0.0], mu=0.4), 2, **CONSTANTS)
    with pytest.raises(ValueError, match="strong_convexity must hold"):
        OPTIMIZERS["newton"](objective, tolerance=1e-9)


def test_it_reproduces_a_risk(classification):
    """An empirical risk handed over as a black box has the same minimizer."""
    X, y = classification
    erm = Erm(Problem(X, y, data_norm=2.0), 0.1)
    shape = erm.shape
    black_box = General(
        erm.value_and_gradient, 7, lipschitz=shape.lipschitz, n_samples=500,
        strong_convexity=0.1, smoothness=shape.smoothness, minimizer_norm=shape.minimizer_norm,
        sensitivity={"replace_one": shape.minimizer_sensitivity("replace_one")},
    )  # fmt: skip
    expected = OPTIMIZERS["newton"](erm, tolerance=1e-11).w
    for name in ("newton", "lbfgs"):
        result = OPTIMIZERS[name](black_box, tolerance=1e-9)
        assert result.converged
        np.testing.assert_allclose(result.w, expected, atol=1e-8)
    np.testing.assert_allclose(black_box.hessian(expected), erm.hessian(expected), atol=1e-5)


def test_the_shape_of_a_risk(classification):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0)
    shape = ErmShape(problem.shape, 0.1)
    assert Erm(problem, 0.1).shape == shape
    for relation in ("replace_one", "add_or_remove_one"):
        assert shape.minimizer_sensitivity(relation) == problem.shape.minimizer_sensitivity(
            0.1, relation
        )
    assert shape.gradient_error(1.0) == Erm(problem, 0.1).gradient_error(1.0)
    assert shape.smoothness == Erm(problem, 0.1).smoothness
    with pytest.raises(ValueError, match="alpha must be"):
        ErmShape(problem.shape, 0.0)


def test_a_linear_term_shifts_the_gradient(classification):
    X, y = classification
    erm = Erm(Problem(X, y, data_norm=2.0), 0.1)
    b = np.arange(7.0) - 3.0
    shifted = LinearTerm(erm, b / 500)
    w = np.linspace(-1.0, 1.0, 7)
    (value, gradient), (plain_value, plain) = (f.value_and_gradient(w) for f in (shifted, erm))
    assert value == pytest.approx(plain_value + b @ w / 500)
    np.testing.assert_allclose(gradient, plain + b / 500, atol=1e-15)
    for name in ("newton", "lbfgs"):
        result = OPTIMIZERS[name](shifted, tolerance=1e-10)
        assert result.converged
        at_minimum = erm.value_and_gradient(result.w)[1]
        np.testing.assert_allclose(at_minimum, -b / 500, atol=2e-10)
    assert shifted.gradient_error(1.0) > erm.gradient_error(1.0)
    with pytest.raises(ValueError, match="coefficients must hold 7 finite numbers"):
        LinearTerm(erm, b[:3])
    with pytest.raises(ValueError, match="coefficients must hold 7 finite numbers"):
        LinearTerm(erm, b * np.nan)
