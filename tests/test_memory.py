"""Fits leave nothing behind. (The kernels allocate nothing: there is no heap in csrc.)"""

import gc
import sys

import numpy as np
import pytest

from dpfast import LogisticRegression


def fit_many(n_fits):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (30, 4))
    y = np.where(rng.random(30) < 0.5, -1.0, 1.0)
    model = LogisticRegression(data_norm=1.0, classes=[-1, 1], solver="output-perturbation")
    for _ in range(n_fits):
        model.fit(X, y)


def blocks():
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.slow
def test_ten_thousand_fits_take_no_memory():
    """A leak of one vector of five weights a fit would be 400 kB and 10,000 blocks."""
    resource = pytest.importorskip("resource")
    fit_many(500)
    before, peak = blocks(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fit_many(10_000)
    assert blocks() - before < 1000

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 4000
