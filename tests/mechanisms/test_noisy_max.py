"""Report noisy max: its proof step by step, its law, and the sign that others got wrong."""

import hypothesis.strategies as st
import numpy as np
import pytest
from declared import Unlimited, release
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from reference.selection import loss, selection_law
from scipy import stats

from dpfast.mechanisms import NoisyMax
from dpfast.mechanisms._grid import Grid
from dpfast.privacy import records_apart
from dpfast.random import SecureGenerator

KINDS = ["exponential", "laplace", "gumbel"]
ALARM = 1e-7


def make(scale=1.0, relation="add_or_remove_one", candidates=4, **changes):
    return NoisyMax(
        scale,
        **{
            "sensitivity": 1.0,
            "candidates": candidates,
            "neighboring_relation": relation,
            **changes,
        },
    )


def test_monotone_scores_need_a_relation_for_which_they_exist():
    with pytest.raises(ValueError, match=r"monotone=True must not .* replacing a record takes one"):
        make(relation="replace_one", monotone=True)


def test_the_relation_of_the_records_and_the_factor_of_the_event_agree():
    """Sums of losses in [0, C]: C for one record's presence, 2 C for a replaced record."""
    for relation, monotone in (("add_or_remove_one", True), ("replace_one", False)):
        event = make(6.0, relation, monotone=monotone, sensitivity=3.0).event("x")
        assert event.epsilon == pytest.approx(records_apart(relation) * 3.0 / 6.0, rel=1e-8)


@pytest.mark.parametrize("monotone", [False, True])
def test_the_charge(monotone):
    mechanism = make(error=0.125, monotone=monotone)
    sides = 1 if monotone else 2
    least = (sides + 4 * 0.125 + 2 * mechanism.grid_step) / sides
    assert least <= mechanism.charged_sensitivity <= least * (1 + 1e-14)
    assert mechanism.event("x").epsilon >= sides * least / mechanism.scale


@pytest.mark.parametrize("kind", KINDS)
def test_an_interval_of_changes_is_all_that_counts(kind):
    """Steps 2 to 4 on exact laws: changes in [A, A + D] cost D / s, for any A, ties included."""
    rng = np.random.default_rng(8)
    scale, length = 4, 3
    worst = 0.0
    for _ in range(150):
        scores = rng.integers(-6, 7, size=rng.integers(2, 6))
        start = rng.integers(-5, 6)
        neighbor = scores + start + rng.integers(0, length, size=len(scores), endpoint=True)
        worst = max(
            worst, loss(selection_law(scores, scale, kind), selection_law(neighbor, scale, kind))
        )
    assert 0.9 * length / scale < worst <= length / scale * (1 + 1e-9)


@pytest.mark.parametrize("k", [2, 3, 8, 21])
def test_subtracted_exponential_noise_costs_k_minus_1_times_the_claim(k):
    """The published code of DP-AGD subtracts; here is its loss, by enumeration.

    For k = 2 it is right: the difference of two exponential variables is Laplace, the same law
    whatever the common sign. For more, the candidate that is behind loses against the *least* of
    k - 1 noises.
    """
    scale, shift = 40, 2
    tie, behind = np.zeros(k, dtype=int), np.zeros(k, dtype=int)
    tie[-1] = 1  # the last one loses ties, so that equal sums are as if by one step behind
    behind[-1] = 1 - shift
    claim = shift / scale

    def cost(sign):
        laws = (selection_law(s, scale, "exponential", sign)[-1] for s in (tie, behind))
        return abs(np.subtract(*np.log(list(laws))))

    assert cost(+1) <= claim * (1 + 1e-9)
    # The discrete law is a bit off the continuous one, by terms of order k / scale.
    assert cost(-1) == pytest.approx((k - 1) * claim, rel=0.35 if k > 2 else 0.05)
    if k > 2:
        assert cost(-1) > 1.5 * claim


SCORES = arrays(np.float64, 5, elements=st.floats(-1e3, 1e3))
UNIT = arrays(np.float64, 5, elements=st.floats(-1.0, 1.0))


@settings(max_examples=150)
@given(SCORES, UNIT, UNIT, UNIT, st.integers(-40, 0), st.booleans(), st.floats(0, 3), st.booleans())
def test_rounded_scores_change_by_at_most_what_is_charged(
    scores, change, first, second, exponent, monotone, error, falls
):
    """Step 1, with coarse grids and with errors larger than the grid."""
    mechanism = make(2.0 ** (exponent + 31), candidates=5, error=error, monotone=monotone)
    grid = Grid(mechanism.grid_step)
    if monotone:
        change = -np.abs(change) if falls else np.abs(change)
    rounded = [grid.round(v) for v in (scores + error * first, scores + change + error * second)]
    moves = (rounded[1] - rounded[0]).astype(np.float64) * grid.step
    sides = 1.0 if monotone else 2.0
    assert np.ptp(moves) <= sides * mechanism.charged_sensitivity * (1 + 1e-9) + 1e-9


def counts(mechanism, scores, runs, seed):
    rng = SecureGenerator(random_state=seed)
    chosen = [
        release(mechanism, lambda: scores, rng=rng, ledger=Unlimited(), where="x")
        for _ in range(runs)
    ]
    return np.bincount(chosen, minlength=len(scores))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("minimum", [False, True])
def test_the_law(kind, minimum):
    """Chi-square, false-alarm rate 1e-7: accepts the scale, rejects it at 2/3 and at 3/2."""
    scores = np.array([0.0, 0.5, -1.0, 0.25])
    mechanism = make(0.5, noise_kind=kind, minimum=minimum)
    found = counts(mechanism, scores, 8_000, seed=1)
    # Enumeration on a grid of 1/200 of the scale: off by less than 1e-2 / sqrt(8000).
    steps = np.rint(scores / 0.5 * 1200).astype(int) * (-1 if minimum else 1)

    def pvalue(factor):
        law = selection_law(steps, round(1200 * factor), kind)
        return stats.chisquare(found, law / law.sum() * found.sum()).pvalue

    assert pvalue(1.0) > ALARM
    assert pvalue(2 / 3) < ALARM
    assert pvalue(3 / 2) < ALARM


def test_the_minimum_is_the_maximum_of_the_negated_scores():
    scores = np.random.default_rng(0).standard_normal(9)
    for kind in KINDS:
        pair = [make(candidates=9, noise_kind=kind, minimum=m) for m in (False, True)]
        found = [counts(m, s, 50, seed=5) for m, s in zip(pair, (scores, -scores), strict=True)]
        np.testing.assert_array_equal(*found)


def test_one_candidate_is_chosen():
    assert counts(make(candidates=1), np.array([3.0]), 5, seed=0) == [5]


def test_exponential_noise_is_the_best_of_the_three():
    """At the same scale, so the same epsilon; proved for "gumbel", found here for "laplace"."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        scores = rng.integers(-10, 11, size=rng.integers(2, 6))
        values = {kind: selection_law(scores, 4, kind) @ scores for kind in KINDS}
        assert values["exponential"] >= max(values["laplace"], values["gumbel"]) - 1e-9
