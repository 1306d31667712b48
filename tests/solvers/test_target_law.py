"""The law of targets behind noisy octave counts."""

import math

import numpy as np
import pytest

from dpfast.solvers._target_law import Bins, Sides, TargetLaw, highest

EDGES = 2.0 ** np.arange(-8.0, 5.0)


def shares(y):
    """Of the targets by octave; those below the first edge are left out."""
    octave = np.searchsorted(EDGES, np.minimum(y, EDGES[-1]))
    return np.bincount(octave[y > 0.5 * EDGES[0]], minlength=len(EDGES)) / len(y)


def lognormal(mean, width, zeros=0.0, n=200_000):
    rng = np.random.default_rng(0)
    y = np.exp(width * rng.standard_normal(n) - 0.5 * width**2) * mean / (1.0 - zeros)
    return np.where(rng.random(n) < zeros, 0.0, np.minimum(y, EDGES[-1]))


@pytest.mark.parametrize("zeros", [0.0, 0.8])
@pytest.mark.parametrize("width", [0.4, 1.2])
def test_without_noise_the_counts_are_believed(width, zeros):
    y = lognormal(1.0, width, zeros)
    law = TargetLaw.of(EDGES, shares(y), 1e-9)
    np.testing.assert_allclose(law.shares, shares(y), atol=1e-6)
    assert law.mean == pytest.approx(y.mean(), rel=0.1)
    assert law.relative == pytest.approx(y.std() / y.mean(), rel=0.15, abs=0.15)


def test_under_noise_the_law_is_nearer_than_the_counts():
    """Noise in the highest octave, whose targets are largest, would be most of the mean."""
    y, noise = lognormal(0.3, 1.0), 0.02
    draws = noise * np.random.default_rng(1).standard_normal((60, len(EDGES)))
    found = np.array([TargetLaw.of(EDGES, shares(y) + draw, noise).mean for draw in draws])
    plain = np.array([0.72 * (np.maximum(shares(y) + draw, 0.0) @ EDGES) for draw in draws])
    error, counted = (np.median(np.abs(np.log(values / y.mean()))) for values in (found, plain))
    assert error < 0.3 and error < 0.5 * counted


def test_a_second_mode_is_believed_where_it_stands_out():
    """Half of the targets far below the others: no smooth law has both, but counts tell of them."""
    y = np.where(np.arange(200_000) % 2 == 0, 0.01, 4.0) * lognormal(1.0, 0.4)
    law = TargetLaw.of(EDGES, shares(y), 0.003)
    assert law.shares.sum() == pytest.approx(1.0, abs=0.02)
    assert law.mean == pytest.approx(y.mean(), rel=0.1)


@pytest.mark.parametrize("noise", [1e-9, 0.003, 0.03])
def test_a_sum_tells_the_mean_with_a_doubt(noise):
    y, rng = lognormal(1.0, 1.2), np.random.default_rng(2)
    misses = []
    for _ in range(8):
        law = TargetLaw.of(EDGES, shares(y) + noise * rng.standard_normal(13), noise)
        top = law.best_cut(noise)
        found = np.minimum(y, top).mean() + noise * top * rng.standard_normal()
        mean, doubt = law.told(top, found, noise * top)
        misses.append((mean - y.mean()) / doubt)
        assert doubt < 0.02 + 15.0 * noise
    assert np.sqrt(np.mean(np.square(misses))) < 2.0


@pytest.mark.parametrize("noise", [0.005, 0.02])
def test_noise_in_octaves_that_hold_nothing_adds_nothing(noise):
    """Positive parts of it would make the mean and, by the square, the spread too large."""
    y, rng = np.random.default_rng(0).gamma(20.0, 0.05, 50_000), np.random.default_rng(1)
    wide = 2.0 ** np.arange(-8.0, 13.0)
    exact = np.append(shares(y), np.zeros(8))
    laws = [TargetLaw.of(wide, exact + noise * rng.standard_normal(21), noise) for _ in range(20)]
    assert np.mean([law.mean for law in laws]) == pytest.approx(1.0, abs=0.08)
    assert np.median([law.relative for law in laws]) < 0.7


def test_gamma_laws_are_among_those_fitted():
    """A tail that a lognormal law with as wide logarithms would have ten times heavier."""
    y = np.minimum(np.random.default_rng(0).gamma(0.4, 1.0, 200_000), EDGES[-1])
    noisy = shares(y) + 0.01 * np.random.default_rng(1).standard_normal((20, len(EDGES)))
    found = [TargetLaw.of(EDGES, draw, 0.01).mean for draw in noisy]
    assert np.median(found) == pytest.approx(y.mean(), rel=0.25)


def test_what_margins_explain_is_taken_from_the_spread():
    law = TargetLaw.of(EDGES, shares(lognormal(1.0, 1.0)), 1e-9)
    spreads = []
    for length in (0.0, 0.8):
        values, parts = law.around(length)
        assert parts.sum() == pytest.approx(1.0) and parts @ values == pytest.approx(1.0)
        spreads.append(math.log(parts @ values**2))
    assert spreads[1] == pytest.approx(spreads[0] - 0.64, abs=0.1)


def test_nothing_stands_out_of_noise_alone():
    noisy = np.random.default_rng(3).standard_normal(len(EDGES))
    assert highest(noisy, 1.0) == 0
    noisy[7] += 30.0
    assert highest(noisy, 1.0) >= 7
    law = TargetLaw.of(EDGES, np.zeros(len(EDGES)), 0.1)
    assert 0.0 <= law.mean < 0.5 * EDGES[-1]
    assert math.isfinite(law.relative)


@pytest.mark.parametrize("low", [0.02, 1.0, 9.0, 15.0])
def test_noise_alone_leaves_the_mean_in_the_middle_of_known_bounds(low):
    noise, high = 5.0, EDGES[-1]
    draws = noise * np.random.default_rng(3).standard_normal((20, len(EDGES)))
    half = 0.5 * math.log(high / low)
    for draw in draws:
        law = TargetLaw.of(EDGES, draw, noise, low)
        assert law.shares.sum() == pytest.approx(1.0) and not law.shares[low >= EDGES].any()
        mean, doubt = law.told(high, draw[0] * high, noise * high)
        assert abs(math.log(mean / low) - half) < 0.5 * half
        assert doubt < high


@pytest.mark.parametrize("zeros", [0.0, 0.6])
def test_many_targets_may_be_the_lowest(zeros):
    y = np.maximum(lognormal(1.0, 0.8, zeros), 0.02)
    law = TargetLaw.of(EDGES, shares(y), 1e-4, 0.02)
    mean, doubt = law.told(EDGES[-1], y.mean(), 0.01)
    assert law.mean == pytest.approx(y.mean(), rel=0.1)
    assert mean == pytest.approx(y.mean(), rel=0.02) and doubt < 0.02


def test_a_rare_mode_far_above_counts_where_it_stands_out():
    """One in a hundred targets is fifty times the others: a third of the mean."""
    y, noise = lognormal(0.2, 0.4), 0.0012
    y[::100] *= 50.0
    draws = noise * np.random.default_rng(5).standard_normal((20, len(EDGES)))
    means = [TargetLaw.of(EDGES, shares(y) + draw, noise).mean for draw in draws]
    assert np.median(means) == pytest.approx(y.mean(), rel=0.15)


def test_noise_of_three_deviations_far_above_is_no_mode():
    """In one of many empty octaves: as a mode it would multiply the mean by four."""
    y, noise = lognormal(0.05, 0.4), 0.01
    exact = shares(y)
    means = []
    for off in (0.0, 3.2):
        exact[-2] = off * noise
        means.append(TargetLaw.of(EDGES, exact, noise).mean)
    assert means[1] < 1.3 * means[0]


def sides(y, noise=1e-9):
    """Laws of the distances from 0."""
    rng = np.random.default_rng(7)

    def law(of):
        share = shares(of)
        return TargetLaw.of(EDGES, share + noise * rng.standard_normal(len(EDGES)), noise)

    return Sides(law(np.maximum(-y, 0.0)), law(np.maximum(y, 0.0)))


@pytest.mark.parametrize("cut", [0.5, 2.0, 8.0])
def test_what_a_cut_takes_from_a_mean(cut):
    y = lognormal(1.0, 1.2) - 0.5
    (lost,), (variance,) = sides(y).lost(np.array([cut]))
    assert lost == pytest.approx(np.mean(y - np.clip(y, -cut, cut)), abs=0.05)
    assert variance < 0.05**2


def test_a_center_that_is_cut_is_below_the_mean_of_a_skewed_law_alone():
    skewed, even = lognormal(1.0, 1.2) - 0.5, np.random.default_rng(1).standard_normal(200_000)
    center = 0.0
    for _ in range(50):
        center += np.clip(skewed - center, -0.5, 0.5).mean()
    bias = sides(skewed).bias(0.5)[0]
    assert bias == pytest.approx(skewed.mean() - center, abs=0.05) and bias > 0.3
    # Wherever distances are from.
    for y in (even, even + 0.3):
        assert abs(sides(y).bias(0.5)[0]) < 0.06


def test_a_center_is_near_most_targets_however_far_away_the_mean_is():
    """Looked for around the mean, it was not reached: steps are as short as the cut."""
    y = lognormal(1.0, 1.2, 0.7)
    assert sides(y).bias(1e-3)[0] == pytest.approx(y.mean(), abs=0.05)


def test_a_cut_is_the_farther_out_the_less_noise_there_is():
    found = sides(lognormal(1.0, 1.2), 0.003)
    cuts = [found.best_cut(noise)[0] for noise in (0.3, 0.03, 0.003)]
    assert cuts[0] < cuts[1] < cuts[2]


def gaps(y, noise, draws=1):
    """That counts in bins tell, in units of the targets' deviation; half of it cuts slopes."""
    rng, half = np.random.default_rng(2), 2.5 * y.std()
    counts = np.histogram(np.clip(y, -half, half), np.linspace(-half, half, 34))[0] / len(y)
    found = []
    for _ in range(draws):
        noisy = counts + noise * rng.standard_normal(33)
        noisy += (1.0 - noisy.sum()) / 33
        found.append(Bins(-half, half, noisy, noise).gap(0.5 * y.std()) / y.std())
    return np.array(found)


def test_bins_foretell_a_part_of_the_gap_of_a_skewed_law():
    skewed = np.random.default_rng(0).exponential(1.0, 100_000) - 1.0
    for sign in (1.0, -1.0):
        assert sign * gaps(sign * skewed, 1e-6)[0] == pytest.approx(0.15, abs=0.02)  # of .24
        assert sign * gaps(sign * skewed, 0.01, 40).mean() > 0.06
    assert np.mean(gaps(skewed, 0.1, 40) == 0.0) > 0.9  # noise hides it


@pytest.mark.parametrize("noise", [1e-6, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("law", ["normal", "uniform", "heaped"])
def test_bins_foretell_no_gap_of_even_laws(law, noise):
    rng = np.random.default_rng(1)
    y = rng.uniform(-1.0, 1.0, 50_000) if law == "uniform" else rng.standard_normal(50_000)
    if law == "heaped":
        y = np.where(rng.random(50_000) < 0.6, 0.0, y)
    found = gaps(y, noise, 40)
    assert np.mean(found == 0.0) > 0.9 and np.abs(found).mean() < 0.02
