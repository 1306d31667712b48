"""Minimizers of users: their points are taken, their claims are not."""

import numpy as np
import pytest
import scipy.optimize

from dpfast import Problem
from dpfast.objectives import Erm
from dpfast.optimizers import OPTIMIZERS, OptimizeResult, as_minimizer


def with_scipy(objective, *, tolerance, max_passes, w0):
    found = scipy.optimize.minimize(
        objective.value_and_gradient, w0, jac=True, method="BFGS", options={"gtol": tolerance / 2}
    )
    return found.x


def liar(objective, *, tolerance, max_passes, w0):
    return OptimizeResult(np.ones(7), -1.0, 0.0, 0.0, 1, True)


@pytest.fixture
def objective(classification):
    X, y = classification
    return Erm(Problem(X, y, data_norm=2.0), 0.1)


def test_an_honest_one_is_certified(objective):
    exact = OPTIMIZERS["newton"](objective, tolerance=1e-13).w
    result = as_minimizer(with_scipy)(objective, tolerance=1e-6)
    assert result.converged
    assert np.linalg.norm(result.w - exact) <= result.certificate <= 1e-5
    assert result.passes > 2


def test_a_false_claim_counts_for_nothing(objective):
    exact = OPTIMIZERS["newton"](objective, tolerance=1e-13).w
    result = as_minimizer(liar)(objective, tolerance=1e-6)
    assert not result.converged
    assert np.linalg.norm(np.ones(7) - exact) <= result.certificate
    assert result.value == objective.value_and_gradient(np.ones(7))[0]


def test_a_loss_with_kinks_is_certified_by_its_gap(classification):
    X, y = classification
    hinge = Erm(Problem(X, y, loss="hinge", data_norm=2.0), 0.1)
    exact = OPTIMIZERS["smoothing"](hinge, tolerance=1e-7)

    def copy(objective, *, tolerance, max_passes, w0):
        return exact.w

    near = as_minimizer(copy)(hinge, tolerance=1e-3)
    assert near.certificate <= 0.05
    far = as_minimizer(liar)(hinge, tolerance=1e-3)
    assert not far.converged
    assert np.linalg.norm(far.w - exact.w) <= far.certificate + exact.certificate


def test_what_comes_back_is_checked(objective):
    for bad, match in (
        (np.zeros(6), r"shape \(7,\); got \(6,\)"),
        (np.full(7, np.nan), "finite weights"),
    ):

        def returns_it(objective, *, tolerance, max_passes, w0, bad=bad):
            return bad

        with pytest.raises(ValueError, match=match):
            as_minimizer(returns_it)(objective, tolerance=1e-3)
    with pytest.raises(TypeError, match="optimizer must be callable; got 'newton'"):
        as_minimizer("newton")
