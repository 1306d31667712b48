"""The intercept from noisy shares and clipped slopes: against sums over rows of known margins."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit

from dpfast.solvers._intercept import Released, expected_intercept, root

# Margins of a normal law, evenly by their ranks.
RANKS = np.sort(np.random.default_rng(0).standard_normal(200_001))
NOTHING = Released(0.5, 10.0, 0.0, 10.0, 0.0, 0.0, 1.0)


def mean_probability(intercept, length):
    return expit(intercept + length * RANKS).mean()


@pytest.mark.parametrize("share", [0.003, 0.1, 0.5, 0.97])
@pytest.mark.parametrize("length", [0.0, 0.1])
def test_a_share_without_noise_is_the_mean_probability(share, length):
    released = replace(NOTHING, share=share, share_noise=1e-7)
    found = mean_probability(expected_intercept(released, length, released.intercept), length)
    assert found == pytest.approx(share, rel=0.03 if length else 1e-3)


@pytest.mark.parametrize(("true", "length", "cut"), [(-2.2, 0.0, 0.25), (-2.0, 0.5, 0.25)])
def test_slopes_that_were_cut_do_not_mislead(true, length, cut):
    """The descent ends where the cut slopes are zero; the share of positives is another."""
    actual = expit(true + length * RANKS)

    def slope(b):
        predicted = expit(b + length * RANKS)
        up, down = np.minimum(predicted, cut), np.minimum(1.0 - predicted, cut)
        return np.mean((1.0 - actual) * up - actual * down)

    misled = brentq(slope, -20.0, 20.0)
    share = actual.mean()
    released = Released(share, 0.1 * share, 0.0, 1e-4, misled, length, cut)
    found = expected_intercept(released, length, released.intercept)
    assert abs(misled - true) > 0.5
    assert abs(found - true) < 0.75 * abs(misled - true)


def test_slopes_of_rows_that_count_less_have_their_zero_at_the_share():
    """Whichever label a row has, it counts as much: the descent ends at the true intercept."""
    true = -2.2
    released = Released(0.2, 0.1, 0.0, 1e-4, true, 0.0, 0.25, consistent=True)
    assert expected_intercept(released, 0.0, true) == pytest.approx(true, abs=0.01)
    misled = expected_intercept(replace(released, consistent=False), 0.0, true)
    assert misled > true + 0.3


def test_slopes_that_were_not_cut_tell_the_share():
    """One gradient with little noise is as good as a count, wherever it was."""
    share, asked = 0.2, -0.3
    released = replace(NOTHING, slope=expit(asked) - share, slope_noise=1e-6, intercept=asked)
    assert expit(expected_intercept(released, 0.0, 0.0)) == pytest.approx(share, abs=1e-4)


def test_a_rare_class_is_as_frequent_as_noise_allows_to_expect():
    released = replace(NOTHING, share=-0.01, share_noise=0.01)
    assert 1e-4 < expit(expected_intercept(released, 0.0, 0.0)) < 0.01


def test_margins_of_rare_rows_in_far_tails_are_left_alone():
    """A law of the tails is a guess: there the descent knows better."""
    released = Released(0.003, 1e-3, 0.002, 1e-3, -8.0, 6.0, 1.0)
    assert expected_intercept(released, 6.0, -8.0) == pytest.approx(-8.0, abs=0.05)


def test_without_evidence_both_classes_are_as_frequent():
    assert abs(expected_intercept(NOTHING, 0.7, 0.0)) < 1e-2


@pytest.mark.parametrize("length", [0.0, 1e-12, 30.0, 1e6])
@pytest.mark.parametrize("noise", [1e-12, 1.0, 1e6])
@pytest.mark.parametrize("seen", [-1e3, 0.0, 1.0, 1e3])
def test_no_release_leads_to_anything_but_a_number(length, noise, seen):
    released = Released(seen, noise, seen, noise, seen, length, 0.25)
    assert np.isfinite(expected_intercept(released, length, released.intercept))


@pytest.mark.parametrize("place", [-39.0, -0.3, 0.0, 12.0])
@pytest.mark.parametrize("start", [-8.0, 0.0, 35.0])
def test_roots_of_what_bends_or_does_not(place, start):
    functions = [
        lambda b: (np.tanh(b - place), 1.0 / np.cosh(b - place) ** 2),
        lambda b: (min(max(b - place, -0.1), 0.1), float(abs(b - place) < 0.1)),
        lambda b: (np.cbrt(b - place), 0.3 / np.cbrt(b - place) ** 2 if b != place else 0.0),
        lambda b: (float(np.sign(b - place)), 0.0),
    ]
    for function in functions:
        assert root(function, start) == pytest.approx(place, abs=1e-10)
    assert root(lambda b: (1.0, 0.0), start) == pytest.approx(-40.0)
    assert root(lambda b: (-1.0, 0.0), start) == pytest.approx(40.0)


def test_the_ridge_has_its_part():
    """Where the counts are exact, mean probability and the ridge's slope make them up."""
    released = replace(NOTHING, share=0.3, share_noise=1e-6)
    found = expected_intercept(released, 0.0, 0.0, (0.05, 0.02))
    assert expit(found) + 0.05 + 0.02 * found == pytest.approx(0.3, abs=1e-5)
