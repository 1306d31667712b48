"""A contract over the table of accountants, and the formulas each of them stands for."""

import inspect
import math

import pytest
from scipy.stats import norm

from dpfast.errors import UnsupportedEvent
from dpfast.privacy import (
    ACCOUNTANTS,
    EVENTS,
    Budget,
    Event,
    GaussianEvent,
    L2LaplaceEvent,
    Ledger,
    budget_mu,
    calibration,
    gaussian_delta,
    gaussian_epsilon,
    zcdp_epsilon,
)

COMMON = {"dimension": 2, "neighboring_relation": "replace_one", "where": "here"}


def gaussian(mu, count=1):
    return GaussianEvent(sensitivity=mu, stddev=1.0, count=count, **COMMON)


def laplace(epsilon, count=1):
    return L2LaplaceEvent(sensitivity=epsilon, scale=1.0, count=count, **COMMON)


MAKE = {"gaussian": gaussian, "l2_laplace": laplace}
PAIRS = [
    (name, mechanism)
    for name, accountant in ACCOUNTANTS.items()
    for mechanism, make in MAKE.items()
    if accountant.supports(make(1.0))
]


class Unknown(Event):
    mechanism = "unknown"


def test_the_tables_match():
    assert set(MAKE) <= set(EVENTS)
    assert all(accountant.name == name for name, accountant in ACCOUNTANTS.items())
    # calibration.py lies below the accountants and cannot read their table.
    source = inspect.getsource(calibration.budget_mu)
    assert all(f'"{name}"' in source for name in ACCOUNTANTS)
    for name in ACCOUNTANTS:
        if name not in ("pure", "optimal"):
            assert budget_mu(Budget(1.0, 1e-6), name) > 0.0


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_an_unknown_event_is_not_free(name):
    event = Unknown(neighboring_relation="replace_one", where="here")
    assert not ACCOUNTANTS[name].supports(event)
    with pytest.raises(UnsupportedEvent, match="unknown"):
        ACCOUNTANTS[name].epsilon([event], 1e-6)


@pytest.mark.parametrize(("name", "mechanism"), PAIRS)
class TestContract:
    def test_nothing_costs_nothing(self, name, mechanism):
        for delta in (0.0, 1e-6):
            assert ACCOUNTANTS[name].epsilon([], delta) == 0.0
        assert ACCOUNTANTS[name].delta([], 0.0) == 0.0

    def test_more_noise_costs_less_and_more_events_cost_more(self, name, mechanism):
        accountant, make = ACCOUNTANTS[name], MAKE[mechanism]
        costs = [accountant.epsilon([make(x)], 1e-6) for x in (0.1, 0.5, 2.0)]
        assert costs == sorted(costs) and costs[0] < costs[-1]
        one, two = ([make(0.5)] * k for k in (1, 2))
        assert accountant.epsilon(one, 1e-6) < accountant.epsilon(two, 1e-6)
        assert accountant.delta(one, 0.1) < accountant.delta(two, 0.1)

    def test_count_equals_repetition(self, name, mechanism):
        accountant, make = ACCOUNTANTS[name], MAKE[mechanism]
        together, apart = [make(0.3, count=5)], [make(0.3)] * 5
        assert accountant.epsilon(together, 1e-6) == pytest.approx(
            accountant.epsilon(apart, 1e-6), rel=1e-12
        )

    def test_delta_undoes_epsilon(self, name, mechanism):
        accountant = ACCOUNTANTS[name]
        events = [MAKE[mechanism](0.5, count=3)]
        epsilon = accountant.epsilon(events, 1e-6)
        assert accountant.delta(events, epsilon) <= 1e-6 * (1 + 1e-9)
        if mechanism == "gaussian":
            assert accountant.delta(events, epsilon) >= 1e-6 * (1 - 1e-6)


def test_pure_adds():
    events = [laplace(0.25, count=2), laplace(0.5)]
    assert ACCOUNTANTS["pure"].epsilon(events, 0.0) == 1.0
    assert ACCOUNTANTS["pure"].delta(events, 1.0) == 0.0


def test_pure_delta_is_that_of_randomized_response():
    keep = math.exp(0.7) / (1 + math.exp(0.7))
    expected = keep - math.exp(0.2) * (1 - keep)
    assert ACCOUNTANTS["pure"].delta([laplace(0.7)], 0.2) == pytest.approx(expected, rel=1e-12)


def test_gdp_is_pythagoras():
    events = [gaussian(0.3), gaussian(0.2, count=4)]
    mu = math.hypot(0.3, 0.4)
    assert ACCOUNTANTS["gdp"].total(events) == pytest.approx(mu, rel=1e-15)
    assert ACCOUNTANTS["gdp"].epsilon(events, 1e-6) == pytest.approx(gaussian_epsilon(mu, 1e-6))
    assert ACCOUNTANTS["gdp"].epsilon(events, 0.0) == math.inf


def test_gdp_is_exact_for_one_wide_release():
    """Ten releases along ten axes are one release whose sensitivity is the diagonal."""
    delta = ACCOUNTANTS["gdp"].delta([gaussian(0.4, count=10)], 1.0)
    t = 1.0 / (0.4 * math.sqrt(10)) - 0.2 * math.sqrt(10)
    exact = norm.sf(t) - math.e * norm.sf(t + 0.4 * math.sqrt(10))
    assert delta == pytest.approx(exact, rel=1e-9)


def test_zcdp_adds_both_kinds():
    events = [gaussian(0.4, count=2), laplace(0.2, count=3)]
    rho = 2 * 0.08 + 3 * 0.02
    assert ACCOUNTANTS["zcdp"].total(events) == pytest.approx(rho, rel=1e-12)
    assert ACCOUNTANTS["zcdp"].epsilon(events, 1e-6) == pytest.approx(zcdp_epsilon(rho, 1e-6))
    assert ACCOUNTANTS["zcdp"].epsilon(events, 0.0) == math.inf


def test_basic_adds_the_two_parts():
    events = [laplace(0.25), gaussian(0.5), laplace(0.5)]
    epsilon = ACCOUNTANTS["basic"].epsilon(events, 1e-6)
    assert epsilon == pytest.approx(0.75 + gaussian_epsilon(0.5, 1e-6))
    assert ACCOUNTANTS["basic"].delta(events, 1.0) == pytest.approx(gaussian_delta(0.25, 0.5))
    assert ACCOUNTANTS["basic"].delta(events, 0.5) == 1.0
    assert ACCOUNTANTS["basic"].epsilon([laplace(0.5)], 0.0) == 0.5


def test_basic_bounds_the_true_composition():
    """One pure and one Gaussian release: the worst pure one is randomized response."""
    keep = 1 / (1 + math.exp(-0.75))
    for epsilon in (0.8, 1.0, 2.0):
        exact = keep * gaussian_delta(epsilon - 0.75, 0.5) + (1 - keep) * gaussian_delta(
            epsilon + 0.75, 0.5
        )
        assert exact <= ACCOUNTANTS["basic"].delta([laplace(0.75), gaussian(0.5)], epsilon)


@pytest.mark.parametrize(
    ("budget", "accepting"),
    [
        (Budget(1.0), {"pure"}),
        (Budget(1.0, 1e-6), {"pure", "gdp", "zcdp", "basic", "optimal", "rdp"}),
        (Budget(rho=1.0), {"zcdp"}),
        (Budget(mu=1.0), {"gdp"}),
    ],
)
def test_which_budgets_an_accountant_accepts(budget, accepting):
    assert {name for name, a in ACCOUNTANTS.items() if a.accepts(budget)} == accepting


def test_the_prices_of_all_accountants_side_by_side():
    """A thousand pure releases: the plain sum, and what the others make of it at a delta."""
    events = [laplace(0.02, count=1000)]
    prices = {
        name: accountant.epsilon(events, 1e-6)
        for name, accountant in ACCOUNTANTS.items()
        if accountant.supports(events[0])
    }
    assert sorted(prices, key=prices.__getitem__) == ["optimal", "rdp", "zcdp", "pure", "basic"]
    assert prices["pure"] == prices["basic"] == pytest.approx(20.0)
    assert prices["zcdp"] < 4.0


def test_no_accountant_promises_less_than_the_exact_price():
    """Of Gaussian releases, whose exact price is known."""
    for mu in (1e-3, 0.1, 1.0, 10.0):
        for delta in (1e-12, 1e-6, 0.1):
            exact = gaussian_epsilon(mu, delta)
            for accountant in ACCOUNTANTS.values():
                if accountant.supports(gaussian(mu)):
                    assert accountant.epsilon([gaussian(mu)], delta) >= exact


def test_what_a_budget_buys_fits_a_ledger_of_the_same_accountant():
    for epsilon, delta in ((1e-3, 1e-12), (1.0, 1e-6), (50.0, 0.1)):
        budget = Budget(epsilon, delta)
        for name in ("auto", "gdp", "zcdp", "basic", "rdp"):
            Ledger(budget, name).spend(gaussian(budget_mu(budget, name)))
