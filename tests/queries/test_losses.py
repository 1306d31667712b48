"""Sums of clipped losses."""

import numpy as np
import pytest

from dpfast import Budget, Problem
from dpfast.mechanisms import Exponential, NoisyMax
from dpfast.privacy import records_apart
from dpfast.queries import LineSearchLosses


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_both_mechanisms_take_the_range_of_a_record(relation, classification):
    """Of one record present or absent the scores move one way, which the noisy minimum counts."""
    X, y = classification
    query = LineSearchLosses(Problem(X, y, data_norm=2.0).shape, 20, 3.0)
    choice = Exponential.calibrate(Budget(rho=0.1), query, relation, minimum=True)
    assert choice.score_range == 3.0 * records_apart(relation)
    noisy = NoisyMax.calibrate(Budget(0.5), query, relation, minimum=True)
    assert noisy.sensitivity == 3.0
    assert noisy.monotone is (relation == "add_or_remove_one")
    assert noisy.scale == pytest.approx(6.0 * records_apart(relation), rel=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "huber", "sigmoid"])
def test_scores_are_those_of_a_slow_twin(loss, classification):
    X, y = classification
    problem = Problem(X, y, loss, data_norm=2.0, alpha=0.05)
    rng = np.random.default_rng(1)
    w, direction = rng.standard_normal(7), rng.standard_normal(7)
    direction /= np.linalg.norm(direction)
    steps = np.append(0.0, 3.0 * 0.8 ** np.arange(18, -1, -1))
    query = LineSearchLosses(problem.shape, 20, 1.2)
    Z = np.column_stack([X, np.ones(500)])
    expected = np.array([
        np.minimum(problem.shape.loss(Z @ v, y)[0], 1.2).sum() + 500 * 0.025 * (v @ v - w @ w)
        for v in (w - a * direction for a in steps)
    ])  # fmt: skip
    scores = query.evaluate(problem, w, direction, steps, 500)
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    assert 0.0 < query.rounding_error() < 1e-8


def test_a_huge_ridge_stays_in_the_public_range(classification):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0, alpha=1e20)
    query = LineSearchLosses(problem.shape, 3, 1.0)
    steps = np.array([0.0, 1.0, 5.0])
    scores = query.evaluate(problem, np.ones(7), np.full(7, 7**-0.5), steps, 500)
    assert np.all(np.abs(scores) <= query.bound)
    assert np.argmin(scores) in (1, 2)
