"""Normal laws that noisy counts are weighed against, and the ranges that they leave."""

import numpy as np
import pytest

from dpfast.solvers._range_laws import Search, ends, normal_laws, place, seen

LAWS = normal_laws(33, 14)


def mixture(counts, rows):
    counts = np.atleast_2d(counts)
    rows = np.full(len(counts), rows)
    return LAWS.mixture(LAWS.likelihoods(counts, rows), LAWS.weight)


def noisy(law, rows, histograms, seed=0):
    rng = np.random.default_rng(seed)
    return rows * LAWS.shares[law] + rng.standard_normal((histograms, 33))


@pytest.mark.parametrize(("bins", "count"), [(33, 14), (101, 10)])
def test_laws_are_everywhere_and_weigh_alike(bins, count):
    laws = normal_laws(bins, count)
    assert laws.weight.sum() == pytest.approx(1.0)
    assert laws.weight @ laws.center == pytest.approx(0.5 * bins)
    np.testing.assert_allclose(laws.shares.sum(axis=1), 1.0, rtol=1e-5)
    widths, places = np.unique(laws.width, return_inverse=True)
    weights = np.bincount(places, laws.weight)
    assert len(widths) == count and widths[0] == 0.25
    np.testing.assert_allclose(weights, weights.mean(), rtol=0.4)


def test_likelihoods_are_those_of_normal_noise_and_a_misfit():
    counts, rows = noisy(200, 10.0, 3), np.full(3, 10.0)
    apart = np.square(counts[:, None] - 10.0 * LAWS.shares).sum(axis=2) / (1.0 + 0.3**2)
    found = LAWS.likelihoods(counts, rows)
    expected = np.exp(-0.5 * (apart - apart.min(axis=1, keepdims=True)))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("rows", [20.0, 1e3, 1e9])
def test_the_law_of_the_counts_is_found(rows):
    law = np.flatnonzero((LAWS.center == 20.0) & (LAWS.width < 1.0))[1]
    shares = mixture(noisy(law, rows, 5), rows)
    np.testing.assert_allclose(shares @ np.arange(0.5, 33), 20.0, atol=1.0)
    first, last = ends(shares, noisy(law, rows, 5))
    assert np.all((first > 14.0) & (first < 19.5) & (last > 20.5) & (last < 26.0))


def test_histograms_do_not_tell_of_each_other():
    counts = np.concatenate([noisy(law, 20.0, 1, seed=law) for law in range(0, 300, 100)])
    together = mixture(counts, 20.0)
    for line, count in enumerate(counts):
        np.testing.assert_allclose(mixture(count, 20.0)[0], together[line], rtol=1e-4, atol=1e-9)


def test_what_is_likely_without_counts_is_everywhere():
    shares = mixture(np.zeros(33), 1e-4)
    assert place(shares, 0.02) < 2.0 and place(shares, 0.98) > 31.0


def test_rows_that_weigh_less_than_they_might_are_found():
    counts = noisy(100, 1000.0, 1)
    np.testing.assert_allclose(mixture(counts, 1e3), mixture(counts, 1e5), atol=0.02)


def test_places():
    shares = np.array([[0.5, 0.0, 0.5], [0.1, 0.2, 0.7]])
    np.testing.assert_allclose(place(shares, 0.25), [0.5, 1.75])
    np.testing.assert_allclose(place(shares, 0.75), [2.5, 2.0 + 0.45 / 0.7])


def test_what_stands_out():
    counts = np.zeros((1, 16))
    assert seen(counts) == (np.inf, -np.inf)
    counts[0, 6] = 5.0
    assert seen(counts) == (np.inf, -np.inf)  # with the noise of the six bins before it
    counts[0, 5:9] = 100.0
    counts[0, 2] = 3.0
    assert seen(counts) == (5, 9)
    counts[0, 12:] = 10.0
    assert seen(counts) == (5, 16)
    assert seen(counts, (0.0, 50.0)) == (5, 9)  # forty rows are a high tail
    assert seen(counts, (50.0, 0.0)) == (5, 16)


def test_counts_add_up_until_a_range_is_narrower():
    search = Search(np.array([-1.0, -1.0]), np.array([1.0, 1.0]), 4, 2.0)
    for _ in range(3):
        counts, row = search.add(np.ones(8))
    np.testing.assert_allclose(counts, 3.0 / (2.0 * np.sqrt(3.0)))
    np.testing.assert_allclose(row, 3.0 / (2.0 * np.sqrt(3.0)))
    search.narrow(np.array([-1.0, 2.0]), np.array([3.7, 3.0]))  # the first hardly is
    np.testing.assert_allclose(search.low, [-1.0, 0.0])
    np.testing.assert_allclose(search.high, [1.0, 0.5])
    counts, row = search.add(np.ones(8))
    np.testing.assert_allclose(counts[:, 0], [4.0 / 4.0, 1.0 / 2.0])
    np.testing.assert_allclose(row, [4.0 / 4.0, 1.0 / 2.0])
