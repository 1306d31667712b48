"""Filters: never past the limit, whatever is asked in whatever order, and exact to the last bit."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpfast.errors import BudgetExceeded, UnsupportedEvent
from dpfast.privacy import (
    Budget,
    ExponentialEvent,
    GaussianEvent,
    GDPEvent,
    GDPFilter,
    L2LaplaceEvent,
    Ledger,
    NoisyMaxEvent,
    PureFilter,
    ZCDPEvent,
    ZCDPFilter,
    budget_filter,
    filters,
    gaussian_epsilon,
    zcdp_epsilon,
)

COMMON = {"neighboring_relation": "replace_one", "where": "step"}
FILTERS = [PureFilter, ZCDPFilter, GDPFilter]


def event(kind, price, count=1):
    """An access that costs `price` in the filter's unit."""
    if kind is PureFilter:
        return ExponentialEvent(epsilon=price, count=count, **COMMON)
    if kind is ZCDPFilter:
        return ZCDPEvent(rho=price, count=count, **COMMON)
    return GDPEvent(mu=price, count=count, **COMMON)


def exact_total(kind, events):
    """The sum in rational arithmetic, in the prices as the accountants round them."""
    power = 2 if kind is GDPFilter else 1
    prices = [
        e.mu * e.mu if kind is GDPFilter else e.rho if kind is ZCDPFilter else e.epsilon
        for e in events
    ]
    return sum((e.count * Fraction(p) for e, p in zip(events, prices, strict=True)), Fraction(0)), (
        power
    )


@settings(max_examples=60)
@given(
    kind=st.sampled_from(FILTERS),
    limit=st.floats(1e-6, 1e3),
    shares=st.lists(st.tuples(st.floats(1e-12, 0.7), st.integers(1, 5)), max_size=40),
)
def test_random_requests_never_pass_the_limit(kind, limit, shares):
    limited = kind(limit)
    admitted = []
    for share, count in shares:
        asked = event(kind, share * limit, count)
        total, power = exact_total(kind, [*admitted, asked])
        fits = total <= Fraction(limit) ** power
        assert limited.can_afford(asked) == fits
        before = limited.spent
        if fits:
            limited.spend(asked)
            admitted.append(asked)
        else:
            with pytest.raises(BudgetExceeded, match="Nothing was spent"):
                limited.spend(asked)
            assert limited.spent == before
    total, power = exact_total(kind, admitted)
    # Reported on the safe side, and to the last bit.
    assert total <= Fraction(limited.spent) ** power
    assert limited.spent == 0.0 or Fraction(math.nextafter(limited.spent, 0.0)) ** power < total
    assert total + Fraction(limited.remaining) ** power <= Fraction(limit) ** power


@pytest.mark.parametrize("kind", FILTERS)
def test_small_prices_do_not_get_lost_in_the_sum(kind):
    """In floating point, 1 + 1e-17 is 1: a thousand such accesses would be free."""
    limited = kind(math.nextafter(1.0, 2.0))
    limited.spend(event(kind, 1.0))
    tiny = event(kind, 1e-9 if kind is GDPFilter else 1e-17)
    admitted = 0
    while limited.can_afford(tiny):
        limited.spend(tiny)
        admitted += 1
    room = math.nextafter(1.0, 2.0) - 1.0
    expected = (2.0 * room if kind is GDPFilter else room) / (1e-18 if kind is GDPFilter else 1e-17)
    assert admitted == math.floor(expected)


def test_a_price_that_underflows_is_not_free():
    limited = GDPFilter(1.0)
    limited.spend(GDPEvent(mu=1e-200, **COMMON))
    assert limited.spent > 0.0
    assert not GDPFilter(1e-162).can_afford(GDPEvent(mu=1e-200, count=10**9, **COMMON))


@pytest.mark.parametrize("kind", FILTERS)
def test_the_limit_itself_can_be_spent_and_nothing_more(kind):
    limited = kind(0.75)
    limited.spend(event(kind, 0.75))
    assert (limited.spent, limited.remaining) == (0.75, 0.0)
    assert not limited.can_afford(event(kind, 1e-12))
    assert limited.can_afford()


@pytest.mark.parametrize("kind", FILTERS)
def test_all_or_none(kind):
    limited = kind(1.0)
    part = event(kind, 0.75)
    assert limited.can_afford(part) and not limited.can_afford(part, part)
    with pytest.raises(BudgetExceeded):
        limited.spend(part, part)
    assert limited.spent == 0.0
    limited.spend(part)


def test_an_infinite_price_is_refused():
    huge = GaussianEvent(sensitivity=1e300, stddev=1e-300, dimension=1, **COMMON)
    for limited in (ZCDPFilter(1e6), GDPFilter(1e3)):
        assert not limited.can_afford(huge)
        with pytest.raises(BudgetExceeded, match="to inf"):
            limited.spend(huge)


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize("kind", FILTERS)
def test_bad_limits(kind, limit):
    with pytest.raises((TypeError, ValueError), match="limit"):
        kind(limit)


def test_what_has_no_price_is_refused():
    gaussian = GaussianEvent(sensitivity=0.1, stddev=1.0, dimension=2, **COMMON)
    choice = NoisyMaxEvent(
        sensitivity=0.1, scale=1.0, candidates=3, noise_kind="laplace", monotone=True, **COMMON
    )
    for limited, unpriced in ((PureFilter(1.0), gaussian), (GDPFilter(1.0), choice)):
        assert not limited.supports(unpriced)
        with pytest.raises(UnsupportedEvent, match="Nothing was spent"):
            limited.can_afford(unpriced)
    assert ZCDPFilter(1.0).can_afford(gaussian, choice)
    with pytest.raises(TypeError, match="event"):
        PureFilter(1.0).spend(0.5)


def test_relations_do_not_mix():
    limited = ZCDPFilter(1.0)
    limited.spend(ZCDPEvent(rho=0.1, **COMMON))
    with pytest.raises(ValueError, match="mix neighboring relations"):
        limited.spend(ZCDPEvent(rho=0.1, neighboring_relation="add_or_remove_one", where="x"))


@pytest.mark.parametrize(
    ("budget", "accountant", "kind"),
    [
        (Budget(0.5), "auto", PureFilter),
        (Budget(0.5, 1e-6), "auto", ZCDPFilter),
        (Budget(0.5, 1e-6), "pure", PureFilter),
        (Budget(0.5, 1e-6), "gdp", GDPFilter),
        (Budget(rho=0.5), "auto", ZCDPFilter),
        (Budget(mu=0.5), "auto", GDPFilter),
    ],
)
def test_the_filter_of_a_budget_is_as_large_as_it_may_be(budget, accountant, kind):
    limited = budget_filter(budget, accountant)
    assert type(limited) is kind
    if limited.unit == budget.unit:
        assert limited.limit == budget.limit
        return
    convert = zcdp_epsilon if kind is ZCDPFilter else gaussian_epsilon
    assert convert(limited.limit, budget.delta) <= budget.epsilon
    assert convert(limited.limit * (1.0 + 1e-8), budget.delta) > budget.epsilon


@pytest.mark.parametrize(
    ("budget", "accountant", "error"),
    [
        (1.0, "auto", TypeError),
        (Budget(1.0), "zcdp", ValueError),
        (Budget(1.0), "gdp", ValueError),
        (Budget(rho=1.0), "pure", ValueError),
        (Budget(rho=1.0), "gdp", ValueError),
        (Budget(mu=1.0), "zcdp", ValueError),
        (Budget(1.0, 1e-6), "basic", ValueError),
        (Budget(1.0, 1e-6), "moments", ValueError),
    ],
)
def test_a_filter_that_would_not_keep_the_budget_is_refused(budget, accountant, error):
    with pytest.raises(error):
        budget_filter(budget, accountant)


def test_the_unit_is_not_chosen_along_the_way():
    """The plain ledger takes the better of two sums each time; an adaptive one must not."""
    budget = Budget(1.0, 1e-6)
    one = GaussianEvent(
        sensitivity=0.999 * GDPFilter(budget_filter(budget, "gdp").limit).limit,
        stddev=1.0,
        dimension=2,
        **COMMON,
    )
    assert Ledger(budget).can_afford(one)
    assert not Ledger(budget, adaptive=True).can_afford(one)
    assert Ledger(budget, "gdp", adaptive=True).can_afford(one)
    pure = L2LaplaceEvent(sensitivity=0.999, scale=1.0, dimension=2, **COMMON)
    assert Ledger(budget).can_afford(pure)
    assert not Ledger(budget, adaptive=True).can_afford(pure)


def test_the_whole_run_as_one_event():
    assert ZCDPFilter(0.3).as_event("replace_one", "run").rho == 0.3
    assert GDPFilter(0.3).as_event("replace_one", "run").mu == 0.3
    with pytest.raises(UnsupportedEvent, match="epsilon"):
        PureFilter(0.3).as_event("replace_one", "run")


@pytest.mark.parametrize(
    ("accountant", "calibration"), [("zcdp", "zcdp_rho"), ("gdp", "gaussian_mu")]
)
def test_a_limit_that_does_not_keep_the_budget_is_refused(accountant, calibration, monkeypatch):
    honest = getattr(filters, calibration)
    monkeypatch.setattr(filters, calibration, lambda *budget: 1.001 * honest(*budget))
    with pytest.raises(AssertionError, match="does not keep it"):
        budget_filter(Budget(1.0, 1e-6), accountant)
