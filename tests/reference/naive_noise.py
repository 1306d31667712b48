"""Floating-point noise as it is written without a second thought, and the attacks on it."""

import math

import numpy as np


def laplace(rng, value, scale, n):
    """``value + scale log(u)`` with a random sign; u is a multiple of 2^-53, as from NumPy."""
    sign = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    logarithms = np.array([math.log(u) for u in 1.0 - rng.random(n)])
    return value + sign * scale * logarithms


def gaussian(rng, value, stddev, n):
    """The sum of a float and NumPy's normal noise."""
    return value + stddev * rng.standard_normal(n)


def reachable(output, value, scale, reach=8):
    """Whether :func:`laplace` can give `output` at `value` (Mironov 2012).

    The multiples of 2^-53 next to ``exp(-abs(output - value) / scale)`` are all tried. Up to
    rounding errors of a few units of the last place, only they can be meant.
    """
    center = math.floor(math.exp(-abs(output - value) / scale) * 2.0**53)
    sign = -1.0 if output > value else 1.0
    return any(
        value + sign * scale * math.log(k * 2.0**-53) == output
        for k in range(max(1, center - reach), min(2**53, center + reach) + 1)
    )


def trailing_zeros(outputs):
    """The number of zero bits at the end of each significand; 0 for outputs above 1/8.

    A sum is rounded to the spacing of floats near its larger term. So where value and noise have
    almost cancelled, the last bits are zeros; where the value is 0, they are the noise's own.
    """
    mantissa, _ = np.frexp(outputs)
    digits = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = np.maximum(digits & -digits, 1)
    zeros = np.log2(lowest.astype(np.float64))
    return np.where(np.abs(outputs) < 0.125, zeros, 0.0)
