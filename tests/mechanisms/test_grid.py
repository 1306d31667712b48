"""The grid: powers of two, a rounding that moves no further than charged, and its limits."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

from dpfast.errors import GridOverflow
from dpfast.mechanisms._grid import Grid


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 0.5, 1.0, math.nextafter(2.0, 0.0), 2.0, 3.7e150])
def test_the_step_is_a_power_of_two_below_the_scale(scale):
    grid = Grid.for_noise("stddev", scale, None)
    assert math.frexp(grid.step)[0] == 0.5
    assert 2.0**31 <= scale / grid.step < 2.0**32


@pytest.mark.parametrize("bound", [1.0, 2.0**29, 2.0**30, 1e12, 2.0**41])
def test_a_bound_passes_unclamped(bound):
    grid = Grid.for_noise("stddev", 1.0, bound)
    assert bound / grid.step <= 2.0**61
    assert 1.0 / grid.step >= 2.0**20
    steps = grid.round(np.array([bound, -bound]))
    np.testing.assert_array_equal(grid.to_float(steps), [bound, -bound])


def test_too_small_a_scale_for_the_bound():
    with pytest.raises(GridOverflow, match=r"bound=.*smaller bound"):
        Grid.for_noise("stddev", 1.0, 2.0**42)


@pytest.mark.parametrize("scale", [1e-290, 1e290])
def test_the_limits_of_floats(scale):
    with pytest.raises(GridOverflow, match="Rescale"):
        Grid.for_noise("stddev", scale, None)
    with pytest.raises(GridOverflow, match="Rescale"):
        Grid.for_noise("stddev", 1.0, 1e300)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf])
def test_bad_bounds(bound):
    with pytest.raises(ValueError, match="bound"):
        Grid.for_noise("stddev", 1.0, bound)


def test_values_are_clamped():
    grid = Grid.for_noise("stddev", 1e-100, None)
    steps = grid.round(np.array([1e300, -1e300, 0.0]))
    np.testing.assert_array_equal(steps, [2**61, -(2**61), 0])


VECTORS = arrays(np.float64, 4, elements=st.floats(-1e3, 1e3))


@settings(max_examples=300)
@given(VECTORS, VECTORS, st.integers(-70, 0))
def test_rounding_and_clamping_move_neighbors_apart_by_at_most_what_is_charged(x, y, exponent):
    """The coarse grids make rounding matter, the fine ones clamping."""
    grid = Grid(2.0**exponent)
    moved = np.linalg.norm((grid.round(x) - grid.round(y)).astype(np.float64)) * grid.step
    assert moved <= np.linalg.norm(x - y) * (1 + 1e-12) + grid.rounding(4)


def test_the_rounding_charge_is_attained():
    grid = Grid(1.0)
    x, y = np.full(9, 0.5 + 1e-9), np.full(9, 0.5 - 1e-9)
    moved = np.linalg.norm((grid.round(x) - grid.round(y)).astype(float))
    assert moved == pytest.approx(grid.rounding(9))
