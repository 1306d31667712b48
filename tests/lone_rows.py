"""Solvers seen from outside: a record where it shows most, and runs that are not accounted for."""

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


class Prepaid:
    """Takes every event: a ledger's arithmetic would take most of the time of many small runs."""

    adaptive, log = False, None

    def check(self, *events):
        pass

    def spend_all(self, events):
        pass
