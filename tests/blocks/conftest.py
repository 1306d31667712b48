"""Fixtures shared by the tests of blocks."""

import numpy as np
import pytest


@pytest.fixture
def rows():
    """Float32 rows, some of them outside the ball of radius 2, labels and weights."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 5)).astype(np.float32)
    y = np.where(X @ np.arange(-2.0, 3.0) + rng.logistic(size=500) > 0, 1.0, -1.0)
    return X, y, rng.random(500)
