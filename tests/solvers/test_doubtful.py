"""Weights that noise may have made up stay within those that it did not."""

import numpy as np
import pytest

from dpfast import Budget, Problem, solve
from dpfast.column_blocks import ColumnBlock
from dpfast.solvers._doubtful import within_others


def test_doubtful_weights_are_within_others_or_what_several_of_them_reach():
    weights, doubtful = np.append(np.arange(1.0, 11.0), -4.0), np.arange(11) < 10
    most = [2.0] * 11
    np.testing.assert_array_equal(
        within_others(weights, doubtful, 0.5)[:10], np.minimum(weights, most)[:10]
    )
    assert within_others(weights, doubtful, 0.5)[10] == -4.0
    # Eight of the ten reach 3.
    several = np.append(np.minimum(weights[:10], 3.0), 0.0)
    np.testing.assert_array_equal(within_others(doubtful * weights, doubtful, 0.5), several)
    everything = within_others(weights, np.ones(11, bool), 0.5)
    np.testing.assert_array_equal(everything, np.clip(weights, -4.0, 4.0))


def test_all_of_fewer_are_several():
    np.testing.assert_array_equal(
        within_others(np.array([3.0, -1.0]), np.ones(2, bool), 0.7), [1, -1]
    )


def test_weights_of_several_classes_are_bounded_alike():
    weights = np.array([[3.0, -5.0, 2.0], [1.0, 0.5, -1.5], [0.0, -2.0, 2.0]])
    found = within_others(weights, np.array([True, True, False]), 0.5)
    np.testing.assert_array_equal(found[:2], np.clip(weights[:2], -1.0, 1.0))
    np.testing.assert_array_equal(found[2], weights[2])


def test_nothing_in_doubt_changes_nothing():
    weights = np.array([3.0, -1.0])
    for of in (weights, 0.0 * weights):
        np.testing.assert_array_equal(within_others(of, np.zeros(2, bool), 0.7), of)


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_no_category_without_rows_has_the_largest_weight(loss):
    """Where counts tell none of them."""
    n, rng = 400, np.random.default_rng(1)
    shares = np.arange(1.0, 21.0) ** -1.0
    X = np.eye(30)[rng.choice(20, size=n, p=shares / shares.sum())]
    y = X @ rng.standard_normal(30) + 0.3 * rng.standard_normal(n)
    if loss == "logistic":
        y = np.where(y > np.median(y), 1.0, -1.0)
    problem = Problem(X, y, loss, data_norm=1.0, columns=(ColumnBlock("one-hot", 0, 30),))
    ratios = []
    for seed in range(6):
        w = np.abs(solve(problem, "dp-whitened-gd", Budget(mu=0.05), random_state=seed).w)
        ratios.append(w[20:30].max() / max(w[:20].max(), 1e-300))
    assert max(ratios) == 1.0  # several are as large as that
