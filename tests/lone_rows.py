"""Solvers seen from outside: a record where it shows most."""

import numpy as np

from dpfast import Problem


def lone_row(y, n=1, loss="huberized-hinge", *, R=0.01, weight=None):
    """One row of full length among rows of zeros, which say nothing; no row at all for ``y = 0``.

    It is on the steep side of a hinge, where slope and curvature are constant.
    """
    X = np.zeros((n, 1))
    X[0] = R if y else 0.0
    weights = {} if weight is None else {"sample_weight": np.full(n, weight), "max_weight": weight}
    return Problem(X, np.full(n, y or 1.0), loss, data_norm=R, intercept=0.0, **weights)
