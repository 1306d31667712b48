"""A user's own function: its declared constants, its checks, and the tightness of 2L/µ."""

import numpy as np
import pytest

from dpfast import Budget, CertificateNotReached, Problem, plan, solve
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


# ---- kinks --------------------------------------------------------------------------------------


class AccuracyAtTop:
    """Positives that do not rank above every negative, by a margin of 1, and a ridge.

    ``(1/n) Σ_{y_i > 0} max(0, 1 + max_{y_j < 0} x_j·w - x_i·w) + (µ/2)‖w‖²`` (after Boyd, Cortes,
    Mohri & Radovanovic 2012): neither a mean over records nor smooth.  Rows in the unit ball, so a
    subgradient of the data's part is no longer than 2, and no positives or negatives are no error.
    """

    def __init__(self, X, y, mu):
        self.X, self.y, self.mu = X, y, mu

    def value_and_gradient(self, w):
        score, positive = self.X @ w, self.y > 0.0
        value, gradient = 0.5 * self.mu * w @ w, self.mu * w
        if positive.any() and not positive.all():
            top = np.flatnonzero(~positive)[np.argmax(score[~positive])]
            below = positive & (1.0 + score[top] > score)
            value = value + np.sum(1.0 + score[top] - score[below]) / len(self.y)
            pull = below.sum() * self.X[top] - self.X[below].sum(axis=0)
            gradient = gradient + pull / len(self.y)
        return float(value), gradient


def at_the_top(X, y, mu=0.5, **changes):
    n, d = X.shape
    constants = {
        "lipschitz": 2.0,
        "strong_convexity": mu,
        "smoothness": np.inf,
        "n_samples": n,
        "minimizer_norm": 2.0 / mu,
        "rounding": lambda norm: 2.0**-50 * (n + d + 64) * (2.0 + mu * norm),
        "value_rounding": lambda norm: 2.0**-50 * (n + d + 64) * (1.0 + norm) * (1.0 + mu * norm),
    }
    return General(AccuracyAtTop(X, y, mu), d, **{**constants, **changes})


def ranked(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(X @ [2.0, -1.0] + 0.3 * rng.standard_normal(n) > 1.0, 1.0, -1.0)


def minimum(objective):
    """The minimizer in the plane, by grids that close in."""
    center, size = np.zeros(2), 4.0
    for _ in range(22):
        steps = np.linspace(-size, size, 9)
        points = [center + np.array([a, b]) for a in steps for b in steps]
        values = [objective.value_and_gradient(w)[0] for w in points]
        center, size = points[int(np.argmin(values))], 0.6 * size
    return center


def test_accuracy_at_the_top_is_certified(noiseless):
    objective = at_the_top(*ranked())
    best = minimum(objective)
    result = solve(objective, "output-perturbation", Budget(1.0, 1e-6))
    settings = result.plan.settings
    assert settings.optimizer == "subgradient"
    assert settings.gradient_tolerance == pytest.approx(0.06 * 2.0)
    assert np.linalg.norm(result.w - best) <= settings.gradient_tolerance / 0.5
    (event,) = result.privacy.events
    assert event.sensitivity >= 8.0 + 2.0 * settings.gradient_tolerance / 0.5
    # A smaller tolerance takes more subgradients.
    closer = solve(objective, "output-perturbation", Budget(1.0, 1e-6), tolerance=0.04)
    assert np.linalg.norm(closer.w - best) <= 0.04 / 0.5
    with pytest.raises(CertificateNotReached, match="nothing is released"):
        solve(objective, "output-perturbation", Budget(1.0, 1e-6), tolerance=1e-4,
              optimizer_options={"max_passes": 50})  # fmt: skip


def test_neighbors_at_the_top_stay_within_the_sensitivity():
    """One negative that ranks first pulls every positive along: no bound that shrinks with n."""
    X, y = ranked()
    moved = X.copy()
    first = int(np.argmax(np.where(y < 0.0, -np.inf, X @ [2.0, -1.0])))
    for neighbor, sign in ((X, -1.0), (-X, 1.0)):
        moved[first] = neighbor[first]
        labels = y.copy()
        labels[first] = sign
        ends = [minimum(at_the_top(*data)) for data in ((X, y), (moved, labels))]
        assert np.linalg.norm(ends[0] - ends[1]) <= at_the_top(X, y).shape.minimizer_sensitivity(
            "replace_one"
        )


def test_lines_below_hold_up_to_the_declared_rounding():
    objective = at_the_top(*ranked())
    rng = np.random.default_rng(1)
    for _ in range(200):
        w, v = 3.0 * rng.standard_normal((2, 2))
        value, gradient = objective.value_and_gradient(w)
        error, slope = objective.rounding(float(np.linalg.norm(w)))
        step = v - w
        line = value + gradient @ step + 0.25 * step @ step - error - slope * np.linalg.norm(step)
        assert objective.value_and_gradient(v)[0] >= line


def test_kinks_need_a_bound_of_the_rounding():
    X, y = ranked(40)
    with pytest.raises(ValueError, match="declare value_rounding"):
        plan(at_the_top(X, y, value_rounding=None).shape, "output-perturbation", Budget(1.0))
    with pytest.raises(ValueError, match=r"optimizer must be one of 'subgradient', 'sgd'"):
        plan(at_the_top(X, y).shape, "output-perturbation", Budget(1.0), optimizer="smoothing")
    with pytest.raises(TypeError, match="value_rounding must be callable"):
        at_the_top(X, y, value_rounding=1.0)
    # What floating point cannot certify is not asked for.
    coarse = at_the_top(X, y, value_rounding=lambda norm: 1e-3)
    assert coarse.shape.least_tolerance() > 0.06
    settled = plan(coarse.shape, "output-perturbation", Budget(1.0), tolerance="machine")
    assert settled.settings.gradient_tolerance == coarse.shape.least_tolerance()
