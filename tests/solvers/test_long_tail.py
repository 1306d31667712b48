"""The tail of a law of sizes: what lies beyond a size, from counts with noise."""

import numpy as np
import pytest

from dpfast.solvers._long_tail import LongTail

PLACES = np.arange(-8.0, 8.0, 0.5)


def shares(sizes):
    """Near each place, half an octave apart."""
    ends = np.append(PLACES - 0.25, PLACES[-1] + 0.25)
    return np.histogram(np.log2(sizes), ends)[0] / len(sizes)


def beyond(sizes, reach):
    return np.mean(np.maximum(sizes - reach, 0.0))


@pytest.mark.parametrize("width", [0.4, 1.0])
def test_a_lognormal_tail_is_found(width):
    sizes = np.exp(width * np.random.default_rng(0).standard_normal(400_000))
    law = LongTail.of(PLACES, shares(sizes))
    for reach in np.exp(width * np.array([1.5, 2.0, 2.5])):
        assert law.beyond(np.array([reach]))[0] == pytest.approx(beyond(sizes, reach), rel=0.25)


def test_shorter_tails_are_about_right():
    rng = np.random.default_rng(1)
    for sizes in (rng.exponential(size=400_000), np.abs(rng.standard_normal(400_000))):
        law = LongTail.of(PLACES, shares(sizes))
        for reach in np.quantile(sizes, [0.97, 0.995]):
            assert law.beyond(np.array([reach]))[0] < 3.0 * beyond(sizes, reach)
            assert law.beyond(np.array([reach]))[0] > 0.5 * beyond(sizes, reach)


def test_noise_does_not_make_a_tail():
    rng = np.random.default_rng(2)
    sizes, noise = rng.exponential(size=400_000), 0.002
    far = np.array([float(np.quantile(sizes, 0.999))])
    found = [
        LongTail.of(PLACES, shares(sizes) + noise * rng.standard_normal(len(PLACES)))
        for _ in range(20)
    ]
    assert np.median([law.beyond(far)[0] for law in found]) < 0.01
    assert all(law.top < 50.0 for law in found)
