"""Every optimizer of the table: the known optimum, an honest certificate, a bounded effort."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from dpfast import Problem
from dpfast.objectives import Erm
from dpfast.optimizers import OPTIMIZERS
from dpfast.optimizers._contract import Progress

NAMES = sorted(OPTIMIZERS)
# Need the gradients of single rows.
STOCHASTIC = ["katyusha", "sgd", "svrg"]
# Sublinear: a tolerance of 1e-9 is out of their reach.
SLOW = ["sgd", "subgradient"]
FULL = [name for name in NAMES if name not in STOCHASTIC]
LINEAR = [name for name in NAMES if name not in SLOW]


def reference_minimizer(X, y, alpha, intercept=1.0, penalized=True):
    """scikit-learn's minimizer of the same objective, in which the constant may be penalized."""
    model = LogisticRegression(
        C=1 / (alpha * len(X)),
        fit_intercept=not penalized,
        tol=1e-12,
        max_iter=10_000,
        solver="lbfgs",
    )
    rows = np.hstack([X, np.full((len(X), 1), intercept)]) if penalized else X
    model.fit(rows, y)
    return model.coef_[0] if penalized else np.append(model.coef_[0], model.intercept_ / intercept)


class Quadratic:
    """``(1/2) Σ h_j (w_j - c_j)²``: the minimizer and all constants are known."""

    def __init__(self, curvatures, center, error=0.0):
        self.h, self.c, self.error = np.asarray(curvatures), np.asarray(center), error
        self.dim = len(self.h)
        self.strong_convexity, self.smoothness = self.h.min(), self.h.max()
        self.passes = 0

    def value_and_gradient(self, w):
        self.passes += 1
        r = w - self.c
        return 0.5 * float(self.h @ r**2), self.h * r

    def hessian(self, w, *, max_rows=None):
        self.passes += 1
        return np.diag(self.h)

    def gradient_error(self, w_norm):
        return self.error


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("alpha", [1e-4, 1e-2, 1.0, 100.0])
def test_reaches_the_known_optimum(name, alpha, classification):
    X, y = classification
    result = OPTIMIZERS[name](Erm(Problem(X, y, data_norm=2.0), alpha), tolerance=1e-9)
    assert result.converged
    assert result.gradient_norm <= 1e-9
    expected = reference_minimizer(X, y, alpha)
    np.testing.assert_allclose(result.w, expected, atol=1e-6)


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("alpha", [1e-2, 1.0])
def test_sublinear_methods_come_close_to_the_known_optimum(name, alpha, classification):
    X, y = classification
    objective = Erm(Problem(X, y, data_norm=2.0), alpha)
    result = OPTIMIZERS[name](objective, tolerance=5e-3, max_passes=400)
    assert result.converged
    distance = np.linalg.norm(result.w - reference_minimizer(X, y, alpha))
    assert distance <= result.certificate <= 5e-3 / alpha
    assert distance <= 0.05


def problems(kind, X, y):
    """The same rows in other clothes."""
    rng = np.random.default_rng(5)
    if kind == "csr":
        X = np.where(np.abs(X) > 0.5, X, 0.0)
        return Problem(scipy.sparse.csr_array(X), y, data_norm=2.0)
    if kind == "float32":
        return Problem(X.astype(np.float32), y, data_norm=2.0)
    if kind == "fortran order":
        return Problem(np.asfortranarray(X), y, data_norm=2.0)
    if kind == "clipped rows, no intercept":
        return Problem(X, y, data_norm=1.0, intercept=0.0)
    if kind == "weights":
        return Problem(X, y, data_norm=2.0, sample_weight=rng.uniform(0.0, 3.0, len(y)),
                       max_weight=2.0, intercept=0.5)  # fmt: skip
    target = X @ np.arange(X.shape[1]) + rng.standard_normal(len(X))
    return Problem(X, target, loss=kind, data_norm=2.0)


KINDS = ["csr", "float32", "fortran order", "clipped rows, no intercept", "weights", "huber",
         "pinball"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_all_agree_on_every_kind_of_problem(kind, classification):
    """Each is certified by itself; the objective written out in NumPy referees."""
    problem = problems(kind, *classification)
    objective = Erm(problem, 0.05)
    found = {name: OPTIMIZERS[name](objective, tolerance=1e-7) for name in LINEAR}
    for name, result in found.items():
        assert result.converged, name
        distance = np.linalg.norm(result.w - found["newton"].w)
        assert distance <= result.certificate + found["newton"].certificate, name

    # Written out from the definition, rows and all.
    X = classification[0].copy()
    if kind == "csr":
        X = np.where(np.abs(X) > 0.5, X, 0.0)
    if kind == "float32":
        X = X.astype(np.float32).astype(float)
    if kind == "clipped rows, no intercept":
        X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    intercept = problem.shape.intercept
    rows = X if intercept == 0.0 else np.hstack([X, np.full((len(X), 1), intercept)])
    weight = np.ones(len(X))
    if kind == "weights":
        weight = np.minimum(np.random.default_rng(5).uniform(0.0, 3.0, len(X)), 2.0)

    def direct(w):
        value, slope, _ = problem.shape.loss(rows @ w, problem.target)
        return weight @ value / len(X) + 0.025 * w @ w, rows.T @ (weight * slope) / len(
            X
        ) + 0.05 * w

    # Its gradient at our point: strong convexity turns it into a distance.
    assert np.linalg.norm(direct(found["newton"].w)[1]) <= 1.1e-7
    start = direct(np.zeros(rows.shape[1]))[0]
    assert direct(found["newton"].w)[0] < start


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tolerance", [1.0, 1e-2, 1e-5, 1e-8])
def test_certificate_bounds_the_true_distance(name, tolerance, classification):
    X, y = classification
    objective = Erm(Problem(X, y, data_norm=2.0), 1e-3)
    exact = OPTIMIZERS["newton"](objective, tolerance=1e-13).w
    options = {"max_passes": 200} if name in SLOW else {}
    result = OPTIMIZERS[name](objective, tolerance=tolerance, **options)
    assert np.linalg.norm(result.w - exact) <= result.certificate
    if name != "subgradient":
        assert result.certificate == result.gradient_norm / 1e-3
    assert result.converged == (1e-3 * result.certificate <= tolerance)


@pytest.mark.parametrize("name", ["agd", "lbfgs", "newton", "smoothing"])
def test_quadratic_with_a_wide_spectrum(name):
    objective = Quadratic(np.geomspace(1e-3, 1e3, 12), np.arange(12.0))
    # Condition number 1e6: plain gradient descent would take it times log(1/tolerance).
    options = {"max_passes": 60_000} if name == "agd" else {}
    result = OPTIMIZERS[name](objective, tolerance=1e-8, **options)
    assert result.converged
    assert np.linalg.norm(result.w - objective.c) <= result.certificate <= 1e-5
    assert result.passes == objective.passes


@pytest.mark.parametrize("name", FULL)
def test_an_unreachable_tolerance_is_admitted(name):
    """The rounding error alone exceeds the tolerance: the result must say so, not pretend."""
    objective = Quadratic([1.0, 2.0], [3.0, 4.0], error=1e-3)
    result = OPTIMIZERS[name](objective, tolerance=1e-4, max_passes=50)
    assert not result.converged
    assert result.gradient_norm >= 1e-3


@pytest.mark.parametrize("name", LINEAR)
def test_an_unreachable_tolerance_does_not_use_up_all_passes(name, classification):
    X, y = classification
    tight = OPTIMIZERS[name](Erm(Problem(X, y, data_norm=2.0), 1e-2), tolerance=1e-300)
    assert not tight.converged
    assert tight.gradient_norm < 1e-9
    assert tight.passes < 1000


@pytest.mark.parametrize("name", [*LINEAR, "subgradient"])
def test_no_certificate_without_a_bound_of_rounding_errors(name, classification):
    """The squared loss has unbounded slopes: the minimizer is found, nothing is claimed."""
    X, y = classification
    problem = Problem(X, y.copy(), loss="squared", data_norm=2.0)
    result = OPTIMIZERS[name](Erm(problem, 0.5), tolerance=1e-6, max_passes=3000)
    assert not result.converged
    assert result.certificate == np.inf
    rows = np.hstack([X, np.ones((len(X), 1))])
    exact = np.linalg.solve(rows.T @ rows / len(X) + 0.5 * np.eye(7), rows.T @ y / len(X))
    np.testing.assert_allclose(result.w, exact, atol=1e-4)


@pytest.mark.parametrize("name", FULL)
def test_effort_is_bounded(name):
    objective = Quadratic(np.geomspace(1e-6, 1e6, 40), np.ones(40))
    result = OPTIMIZERS[name](objective, tolerance=1e-15, max_passes=3)
    assert result.passes == objective.passes <= 3
    assert result.converged == (result.gradient_norm <= 1e-15)


@pytest.mark.parametrize("name", STOCHASTIC)
@pytest.mark.parametrize("passes", [2, 3, 5, 11])
def test_effort_of_stochastic_methods_is_bounded(name, passes, classification):
    X, y = classification
    objective = Erm(Problem(X, y, data_norm=2.0), 1e-3)
    exact = OPTIMIZERS["newton"](objective, tolerance=1e-13).w
    result = OPTIMIZERS[name](objective, tolerance=1e-12, max_passes=passes)
    assert result.passes <= passes
    assert not result.converged
    assert np.linalg.norm(result.w - exact) <= result.certificate


@pytest.mark.parametrize("name", NAMES)
def test_start_at_the_optimum_takes_one_look(name, classification):
    if name in STOCHASTIC:
        X, y = classification
        objective = Erm(Problem(X, y, data_norm=2.0), 1.0)
        start = OPTIMIZERS["newton"](objective, tolerance=1e-13).w
    else:
        objective, start = Quadratic([1.0, 2.0], [3.0, 4.0]), np.array([3.0, 4.0])
    result = OPTIMIZERS[name](objective, tolerance=1e-6, w0=start)
    assert result.converged
    assert result.passes <= 2
    np.testing.assert_array_equal(result.w, start)


@pytest.mark.parametrize("name", NAMES)
def test_the_start_is_not_written_to_and_runs_repeat(name, classification):
    X, y = classification
    objective = Erm(Problem(X, y, data_norm=2.0), 0.1)
    start = np.linspace(-1.0, 1.0, 7)
    start.flags.writeable = False
    first, second = (
        OPTIMIZERS[name](objective, tolerance=1e-4, max_passes=60, w0=start) for _ in range(2)
    )
    np.testing.assert_array_equal(first.w, second.w)
    assert first.certificate == second.certificate
    np.testing.assert_array_equal(start, np.linspace(-1.0, 1.0, 7))


NEW = ["agd", "gd", "katyusha", "sgd", "smoothing", "subgradient", "svrg"]


@pytest.mark.parametrize("name", NEW)
def test_arguments_are_checked(name, classification):
    X, y = classification
    objective = Erm(Problem(X, y, data_norm=2.0), 0.1)
    for options, error, match in [
        ({"w0": np.zeros(6)}, ValueError, r"w0 must have shape \(7,\); got \(6,\)"),
        ({"w0": np.full(7, np.nan)}, ValueError, "w0 must be finite"),
    ]:
        with pytest.raises(error, match=match):
            OPTIMIZERS[name](objective, tolerance=1e-3, **options)
    if name == "smoothing":
        with pytest.raises(ValueError, match="width must be a real number > 0"):
            OPTIMIZERS[name](objective, tolerance=1e-3, width=0.0)
        return
    for options, error, match in [
        ({"tolerance": 0.0}, ValueError, "tolerance must be a real number > 0"),
        ({"tolerance": np.nan}, ValueError, "tolerance must be a real number > 0"),
        ({"max_passes": 0}, ValueError, "max_passes must be an integer >= 1"),
        ({"max_passes": 2.5}, TypeError, "max_passes must be an integer >= 1"),
        ({"radius": 0.0}, ValueError, "radius must be a real number > 0"),
    ]:
        with pytest.raises(error, match=match):
            OPTIMIZERS[name](objective, **{"tolerance": 1e-3, **options})


def test_methods_refuse_what_they_cannot_solve(classification):
    X, y = classification
    kinked = Erm(Problem(X, y, loss="hinge", data_norm=2.0), 0.1)
    for name in ("agd", "gd", "katyusha", "svrg"):
        with pytest.raises(
            ValueError, match=f"objective must be smooth for the optimizer {name!r}"
        ):
            OPTIMIZERS[name](kinked, tolerance=1e-3)
    for name in STOCHASTIC:
        with pytest.raises(TypeError, match=r"must be a mean over rows .*; got Quadratic"):
            OPTIMIZERS[name](Quadratic([1.0], [1.0]), tolerance=1e-3)
    with pytest.raises(ValueError, match="must be 'hinge', the one with a kink; got 'logistic'"):
        Erm(Problem(X, y, data_norm=2.0), 0.1).smoothed(0.1)


@pytest.mark.parametrize("name", ["agd", "gd", "katyusha", "sgd", "subgradient", "svrg"])
def test_projection(name, classification):
    """A ball that holds the minimizer changes nothing; one that does not is never left, and the
    certificate stays about the minimizer over all of space."""
    X, y = classification
    objective = Erm(Problem(X, y, data_norm=2.0), 0.05)
    exact = OPTIMIZERS["newton"](objective, tolerance=1e-13).w
    size = np.linalg.norm(exact)
    limit = {"max_passes": 300}
    inside = OPTIMIZERS[name](objective, tolerance=1e-2, radius=1.5 * size, **limit)
    assert inside.converged
    small = OPTIMIZERS[name](objective, tolerance=1e-2, radius=0.5 * size, **limit)
    assert not small.converged
    assert np.linalg.norm(small.w - exact) <= small.certificate
    # The extrapolated points of agd may lie outside.
    assert np.linalg.norm(small.w) <= (0.75 if name == "agd" else 0.5 + 1e-9) * size


@pytest.mark.parametrize("order", ["shuffled", "sorted by class", "only unsampled rows matter"])
def test_newton_survives_any_order_of_rows(order):
    """Its first Hessians come from blocks of rows spread over the data."""
    rng = np.random.default_rng(0)
    n, d = 60_000, 5
    X = rng.standard_normal((n, d)) * [1.0, 2.0, 0.5, 0.1, 1.0]
    y = np.where(X @ [1.0, -1.0, 2.0, 0.0, 0.5] + rng.logistic(size=n) > 0, 1.0, -1.0)
    if order == "sorted by class":
        X, y = X[np.argsort(y)], np.sort(y)
    if order == "only unsampled rows matter":
        X[(np.arange(n) // 200) % 3 == 0] = 0.0
    objective = Erm(Problem(X, y, data_norm=20.0), 1e-3)
    result = OPTIMIZERS["newton"](objective, tolerance=1e-9)
    assert result.converged
    assert result.passes <= 40
    np.testing.assert_allclose(result.w, reference_minimizer(X, y, 1e-3), atol=1e-6)


def test_an_infinite_bound_of_rounding_is_no_reason_to_give_up():
    """As of the smoothed hinge: of two neighbors one would be given up at the first point."""

    class Unbounded:
        strong_convexity = 1.0

        def gradient_error(self, w):
            return np.inf

    progress = Progress(Unbounded(), 1e-3, 100)
    w = np.zeros(1)
    progress.examine(w, 1.0, np.array([0.5]))
    assert progress.affords(1)
    progress.examine(w, 1.0, np.array([1e-4]))  # as small as it was to become: nothing is left
    assert not progress.affords(1)
