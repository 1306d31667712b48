"""Rows whose columns a few factors move, of one of which the labels tell."""

from functools import cache

import numpy as np

ROWS, COLUMNS = 3000, 150


@cache
def rows(signal, intercept=0.0):
    """Columns that three factors move, and labels that follow one of these so far."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((ROWS, 3))
    X = 0.3 * factors @ rng.standard_normal((3, COLUMNS)) + 0.3 * rng.standard_normal(
        (ROWS, COLUMNS)
    )
    X = np.clip(X / 2.0, -1.0, 1.0)
    y = np.where(rng.logistic(size=ROWS) < signal * factors[:, 0] + intercept, 1.0, -1.0)
    return X, y
