"""How a loss bends where rows are normal, against rows that are drawn."""

import numpy as np
import pytest

from dpfast.losses import Loss
from dpfast.solvers._normal_rows import _EVEN, _RESIDUAL, mean_bends

ROWS = np.column_stack([np.random.default_rng(0).standard_normal((100_000, 3)), np.ones(100_000)])
V = np.array([1.2, -0.9, 0.0, 0.7])


def drawn(loss, cut, consistent):
    """Second moments of the rows, each weighed as its clipped slope bends."""
    rng, margins = np.random.default_rng(1), ROWS @ V
    if loss.kind == "regression":
        targets = margins + _RESIDUAL * rng.standard_normal(len(margins))
    else:
        targets = np.where(rng.random(len(margins)) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
    _, slopes, bends = loss(margins, targets)
    sizes = np.abs(slopes) / loss.lipschitz
    sizes = np.maximum(sizes, 1.0 - sizes) if consistent else sizes
    return (ROWS.T * (bends * np.minimum(1.0, cut / sizes))) @ ROWS / len(ROWS)


@pytest.mark.parametrize(("cut", "consistent"), [(1.0, False), (0.3, False), (0.7, True)])
def test_labels_that_follow_the_model(cut, consistent):
    loss = Loss("logistic")
    found, true = mean_bends(loss, V, 3, cut, consistent), drawn(loss, cut, consistent)
    usual = found[2, 2]  # across the weights
    np.testing.assert_allclose(usual, true[2, 2], rtol=0.02)
    # Rows are taken to bend more alike than normal ones.
    more = (found - usual * np.eye(4)) * (1.0 + _EVEN)
    np.testing.assert_allclose(more + usual * np.eye(4), true, atol=0.03 * usual)


def test_residuals_bend_alike_everywhere():
    loss = Loss("huber", 0.5)
    found = mean_bends(loss, V, 3, 1.0, False)
    np.testing.assert_allclose(found, drawn(loss, 1.0, False), atol=0.02)
    np.testing.assert_allclose(found, found[0, 0] * np.eye(4), atol=2e-3)
