"""Optimal composition against all the outcomes of randomized responses, written out."""

import itertools
import math
from decimal import Decimal, localcontext

import pytest

from dpfast.errors import UnsupportedEvent
from dpfast.privacy import ACCOUNTANTS, Budget, GaussianEvent, L2LaplaceEvent, Ledger

OPTIMAL, PURE = ACCOUNTANTS["optimal"], ACCOUNTANTS["pure"]
COMMON = {"dimension": 2, "neighboring_relation": "replace_one", "where": "here"}


def laplace(epsilon, count=1):
    return L2LaplaceEvent(sensitivity=epsilon, scale=1.0, count=count, **COMMON)


def enumerated(epsilons, at):
    """The delta at epsilon `at` of randomized responses, summed over all their outcomes."""
    terms = []
    for answers in itertools.product((True, False), repeat=len(epsilons)):
        P = Q = 1.0
        for true, epsilon in zip(answers, epsilons, strict=True):
            keep = 1 / (1 + math.exp(-epsilon))
            P *= keep if true else 1 - keep
            Q *= 1 - keep if true else keep
        terms.append(max(0.0, P - math.exp(at) * Q))
    return math.fsum(terms)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 4.0])
@pytest.mark.parametrize("count", [1, 2, 5, 10])
def test_equal_releases_are_exact(epsilon, count):
    total = epsilon * count
    for share in (0.0, 0.1, 0.37, 0.9):
        expected = enumerated([epsilon] * count, share * total)
        assert OPTIMAL.delta([laplace(epsilon, count)], share * total) == pytest.approx(
            expected, rel=1e-8
        )
    assert OPTIMAL.delta([laplace(epsilon, count)], total) == 0.0


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("count", [30, 3_000])
def test_epsilon_undoes_delta(epsilon, count, delta):
    events = [laplace(epsilon, count)]
    found = OPTIMAL.epsilon(events, delta)
    if 0.0 < found < PURE.epsilon(events, delta):
        assert OPTIMAL.delta(events, found) == pytest.approx(delta, rel=1e-6)
        assert OPTIMAL.delta(events, found * (1 + 1e-6)) <= delta
        assert OPTIMAL.delta(events, found * (1 - 1e-6)) > delta
    elif found == 0.0:
        assert OPTIMAL.delta(events, 0.0) <= delta


def exact_delta(epsilon, count, at):
    """The delta at epsilon `at` of equal randomized responses, in 50 digits."""
    with localcontext(prec=50):
        e, x, odds = Decimal(epsilon), Decimal(at), (-Decimal(epsilon)).exp()
        return sum(
            math.comb(count, j)
            * odds**j
            / (1 + odds) ** count
            * (1 - (x - (count - 2 * j) * e).exp())
            for j in range(count + 1)
            if (count - 2 * j) * e > x
        )


@pytest.mark.parametrize("share", [0.02, 0.05, 0.2])
@pytest.mark.parametrize("epsilon", [1e-9, 1.5757e-7, 1e-5])
@pytest.mark.parametrize("count", [2, 5, 60])
def test_what_it_states_of_tiny_releases_is_no_less_than_exact(epsilon, count, share):
    delta = share * epsilon * math.sqrt(count)
    found = OPTIMAL.epsilon([laplace(epsilon, count)], delta)
    assert exact_delta(epsilon, count, found) <= Decimal(delta)


@pytest.mark.parametrize(
    "epsilons", [(0.5, 0.1, 0.1, 0.1, 0.1, 0.1), (1.0, 0.9, 0.2), (0.3, 0.3, 0.1, 0.05, 0.05)]
)
def test_unequal_releases_are_bounded(epsilons):
    """In whatever order they come."""
    events = [laplace(epsilon) for epsilon in epsilons]
    for share in (0.1, 0.5, 0.8):
        at = share * sum(epsilons)
        bound = OPTIMAL.delta(events, at)
        assert enumerated(epsilons, at) <= bound <= PURE.delta(events, at)
        assert OPTIMAL.delta(events[::-1], at) == bound


def test_a_small_release_beside_many_large_ones_costs_one_more_at_most():
    many = [laplace(0.1, 500)]
    one_more = OPTIMAL.epsilon([laplace(0.1, 501)], 1e-6)
    assert OPTIMAL.epsilon([*many, laplace(1e-4, 20)], 1e-6) == pytest.approx(one_more, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5])
def test_it_is_the_smallest_of_all_for_equal_releases(epsilon):
    """And "auto" uses it; rdp and zcdp lose in their step to (epsilon, delta)."""
    events = [laplace(epsilon, 1000)]
    prices = {name: ACCOUNTANTS[name].epsilon(events, 1e-6) for name in ("rdp", "zcdp", "pure")}
    optimal = OPTIMAL.epsilon(events, 1e-6)
    assert optimal < prices["rdp"] < prices["zcdp"] < 2 * optimal
    ledger = Ledger(Budget(1e5, 1e-6))
    ledger.spend(events[0])
    guarantee = ledger.guarantee()
    assert (guarantee.accountant, guarantee.epsilon) == ("optimal", optimal)
    assert guarantee.delta == 1e-6


def test_delta_zero_and_a_single_release_are_the_plain_sum():
    events = [laplace(0.5), laplace(0.25, 2)]
    assert OPTIMAL.epsilon(events, 0.0) == OPTIMAL.epsilon(events, 1e-6) == 1.0
    assert OPTIMAL.epsilon([], 1e-6) == OPTIMAL.delta([], 0.0) == 0.0


def test_it_promises_nothing_without_delta():
    with pytest.raises(ValueError, match="cannot account for"):
        Ledger(Budget(1.0), "optimal")


def test_more_than_a_hundred_thousand_releases_fall_back_on_the_sum():
    events = [laplace(1e-7, 10**7)]
    assert OPTIMAL.epsilon(events, 1e-6) == PURE.epsilon(events, 1e-6)
    assert OPTIMAL.delta(events, 0.5) == PURE.delta(events, 0.5)


def test_gaussian_noise_is_refused():
    event = GaussianEvent(sensitivity=1.0, stddev=1.0, **COMMON)
    assert not OPTIMAL.supports(event)
    with pytest.raises(UnsupportedEvent, match="not pure"):
        OPTIMAL.epsilon([event], 1e-6)
