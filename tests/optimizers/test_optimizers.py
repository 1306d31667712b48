"""Every optimizer of the table: the known optimum, an honest certificate, a bounded effort."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dpfast import Problem
from dpfast.objectives import Erm
from dpfast.optimizers import OPTIMIZERS

NAMES = sorted(OPTIMIZERS)


def reference_minimizer(X, y, alpha, intercept=1.0):
    """scikit-learn's minimizer of the same objective: the constant column is penalized."""
    rows = np.hstack([X, np.full((len(X), 1), intercept)])
    model = LogisticRegression(
        C=1 / (alpha * len(X)), fit_intercept=False, tol=1e-12, max_iter=10_000, solver="lbfgs"
    )
    return model.fit(rows, y).coef_[0]


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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("alpha", [1e-4, 1e-2, 1.0, 100.0])
def test_reaches_the_known_optimum(name, alpha, classification):
    X, y = classification
    result = OPTIMIZERS[name](Erm(Problem(X, y, data_norm=2.0), alpha), tolerance=1e-9)
    assert result.converged
    assert result.gradient_norm <= 1e-9
    expected = reference_minimizer(X, y, alpha)
    np.testing.assert_allclose(result.w, expected, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tolerance", [1.0, 1e-2, 1e-5, 1e-8])
def test_certificate_bounds_the_true_distance(name, tolerance, classification):
    X, y = classification
    objective = Erm(Problem(X, y, data_norm=2.0), 1e-3)
    exact = OPTIMIZERS["newton"](objective, tolerance=1e-13).w
    result = OPTIMIZERS[name](objective, tolerance=tolerance)
    assert np.linalg.norm(result.w - exact) <= result.certificate
    assert result.certificate == result.gradient_norm / 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_quadratic_with_a_wide_spectrum(name):
    objective = Quadratic(np.geomspace(1e-3, 1e3, 12), np.arange(12.0))
    result = OPTIMIZERS[name](objective, tolerance=1e-8)
    assert result.converged
    assert np.linalg.norm(result.w - objective.c) <= result.certificate <= 1e-5
    assert result.passes == objective.passes


@pytest.mark.parametrize("name", NAMES)
def test_an_unreachable_tolerance_is_admitted(name, classification):
    """The rounding error alone exceeds the tolerance: the result must say so, not pretend."""
    objective = Quadratic([1.0, 2.0], [3.0, 4.0], error=1e-3)
    result = OPTIMIZERS[name](objective, tolerance=1e-4, max_passes=50)
    assert not result.converged
    assert result.gradient_norm >= 1e-3
    X, y = classification
    tight = OPTIMIZERS[name](Erm(Problem(X, y, data_norm=2.0), 1e-2), tolerance=1e-300)
    assert not tight.converged
    assert tight.gradient_norm < 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_effort_is_bounded(name):
    objective = Quadratic(np.geomspace(1e-6, 1e6, 40), np.ones(40))
    result = OPTIMIZERS[name](objective, tolerance=1e-15, max_passes=3)
    assert result.passes == objective.passes <= 3
    assert result.converged == (result.gradient_norm <= 1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_start_at_the_optimum_takes_one_pass(name):
    objective = Quadratic([1.0, 2.0], [3.0, 4.0])
    result = OPTIMIZERS[name](objective, tolerance=1e-6, w0=np.array([3.0, 4.0]))
    assert result.converged
    assert result.passes == 1


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
