"""The Laplace mechanism: its law, and what is charged in l1."""

import math

import hypothesis.strategies as st
import numpy as np
from declared import release
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from scipy.stats import kstest, laplace

from dpfast.mechanisms import Laplace
from dpfast.mechanisms._grid import Grid
from dpfast.privacy import Budget, Ledger
from dpfast.random import SecureGenerator

SETTINGS = {"sensitivity": 1.0, "neighboring_relation": "replace_one"}


def test_the_law_has_the_stated_scale():
    """Each Kolmogorov-Smirnov test has a false-alarm rate of 1e-6; wrong scales must be seen.

    A scale passed where a standard deviation is expected, as in DPAccGradMethods, is off by the
    square root of 2, and would be seen too.
    """
    mechanism = Laplace(3.0, dimension=100_000, **SETTINGS)
    draws = release(
        mechanism,
        lambda: np.full(100_000, 7.0),
        rng=SecureGenerator(random_state=11),
        ledger=Ledger(Budget(1e4)),
        where="x",
    )
    assert kstest(draws, laplace(7.0, 3.0).cdf).pvalue > 1e-6
    for factor in (2 / 3, math.sqrt(0.5), math.sqrt(2.0), 3 / 2):
        assert kstest(draws, laplace(7.0, 3.0 * factor).cdf).pvalue < 1e-6


def test_the_charge():
    mechanism = Laplace(
        1.0, sensitivity=1.0, dimension=9, neighboring_relation="replace_one", error=0.25
    )
    event = mechanism.event("x")
    least = 1.0 + 2 * 3 * 0.25 + 9 * mechanism.grid_step
    assert least <= event.epsilon * mechanism.scale <= least * (1 + 1e-14)


VECTORS = arrays(np.float64, 4, elements=st.floats(-1e3, 1e3))


@settings(max_examples=100)
@given(VECTORS, VECTORS, VECTORS, VECTORS, st.integers(-70, 0))
def test_neighbors_move_apart_by_at_most_what_is_charged_in_l1(x, y, u, v, exponent):
    """Exact values x and y, computed with errors u and v of at most `error` in l2."""
    error = max(np.linalg.norm(u), np.linalg.norm(v))
    mechanism = Laplace(
        2.0 ** (exponent + 31),
        sensitivity=max(np.abs(x - y).sum(), 1e-3),
        dimension=4,
        neighboring_relation="replace_one",
        error=error,
    )
    grid = Grid(mechanism.grid_step)
    moved = np.abs((grid.round(x + u) - grid.round(y + v)).astype(np.float64)).sum() * grid.step
    # The additions here are rounded, which the error does not know of.
    assert moved <= mechanism.charged_sensitivity * (1 + 1e-12) + 1e-12


def test_the_charge_for_rounding_and_for_errors_is_attained():
    grid = Grid(1.0)
    x, y = np.full(9, 0.5 + 1e-9), np.full(9, 0.5 - 1e-9)
    assert np.abs(grid.round(x) - grid.round(y)).sum() == 9
    # An error of l2 norm 3 that is the same in nine coordinates has l1 norm sqrt(9) * 3.
    assert np.abs(np.ones(9)).sum() == math.sqrt(9) * np.linalg.norm(np.ones(9))
