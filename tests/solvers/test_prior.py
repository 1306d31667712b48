"""How far a fit goes towards the weights of public rows: what a slope half-way tells."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpfast import Budget, Problem
from dpfast.solvers.prior import _share_of_way, from_rows, plan_with_prior


def told(loss, change, rows_per_weight=1e4, weights=None):
    """The share where the private rows are the public ones, and `change` is done to their slope."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (400, 3))
    margins = X @ [2.0, -1.0, 0.5]
    y = np.where(margins + rng.logistic(size=400) > 0, 1.0, -1.0)
    if loss == "huber":
        y = np.clip(0.3 * margins + 0.1 * rng.standard_normal(400), -1.0, 1.0)
    top = None if weights is None else float(weights.max())
    problem = Problem(X, y, loss, data_norm=2.0, sample_weight=weights, max_weight=top)
    shape, prior = problem.shape, from_rows(problem.shape, X, y)
    settled = plan_with_prior(shape, prior, Budget(mu=2.0 * rows_per_weight * 4 / 400))
    curator = SimpleNamespace(
        fix=lambda query, transform: query.prepare(problem, transform),
        release=lambda mechanism, at, *point: change * mechanism.query(at, *point),
    )
    typical = 1.0 if weights is None else float(weights.mean()) / top
    return _share_of_way(settled.settings, shape, curator, np.zeros(4), typical)


@pytest.mark.parametrize("loss", ["logistic", "huber", "huberized-hinge"])
def test_the_slope_half_way_says_where_the_minimum_is(loss):
    """As exactly as the loss is a parabola."""
    shares = [told(loss, change) for change in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    assert shares[0] < 0.1 < shares[1] < 0.4 < shares[2] < 0.6 < shares[3] < 0.9 < shares[4]
    assert shares[2] == 0.5


def test_what_noise_hides_leaves_it_in_the_middle():
    shares = [told("logistic", 1.0, u) for u in (1e-4, 0.1, 1.0, 10.0)]
    assert shares[0] == pytest.approx(0.5, abs=1e-3)
    assert shares == sorted(shares)


def test_weights_of_rows_do_not_change_it():
    plain = told("logistic", 0.7)
    assert told("logistic", 0.7, weights=np.full(400, 3.0)) == pytest.approx(plain, abs=1e-6)
    some = np.where(np.arange(400) % 2 == 0, 1.0, 0.2)
    assert told("logistic", 0.7, weights=some) == pytest.approx(plain, abs=0.05)
