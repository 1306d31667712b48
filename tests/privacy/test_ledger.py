"""The ledger: it refuses in time, keeps what it admitted, and reports what it enforces."""

import copy
import dataclasses
import json
import math
import pickle
import threading
import time

import pytest
from threads import in_threads

from dpfast.errors import BudgetExceeded, UnsupportedEvent
from dpfast.privacy import (
    ACCOUNTANTS,
    Budget,
    Event,
    GaussianEvent,
    L2LaplaceEvent,
    LaplaceEvent,
    Ledger,
    NoisyMaxEvent,
    PrivacyReport,
    SelectionEvent,
    SubsampledGaussianEvent,
    budget_epsilon,
    budget_mu,
    gaussian_epsilon,
    zcdp_epsilon,
)
from dpfast.privacy.accountants import AUTOMATIC
from dpfast.privacy.events import sampler_delta

BUDGETS = [
    Budget(1.0, 1e-6),
    Budget(1e-3, 1e-12),
    Budget(50.0, 0.1),
    Budget(rho=0.3),
    Budget(mu=0.7),
]


def gaussian(mu, count=1, relation="replace_one", where="gradient"):
    return GaussianEvent(
        sensitivity=mu,
        stddev=1.0,
        dimension=3,
        neighboring_relation=relation,
        where=where,
        count=count,
    )


def laplace(epsilon, count=1):
    return L2LaplaceEvent(
        sensitivity=epsilon,
        scale=1.0,
        dimension=3,
        neighboring_relation="replace_one",
        where="output",
        count=count,
    )


@pytest.mark.parametrize("parts", [1, 3, 100])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_plan_that_uses_the_budget_up_fits_and_nothing_more_does(budget, parts):
    ledger = Ledger(budget)
    for _ in range(parts):
        ledger.spend(gaussian(budget_mu(budget) / math.sqrt(parts)))
    if budget.epsilon is not None:
        assert ledger.guarantee().epsilon <= budget.epsilon
    with pytest.raises(BudgetExceeded):
        ledger.spend(gaussian(1e-3 * budget_mu(budget)))
    assert len(ledger.events) == parts


@pytest.mark.parametrize("parts", [1, 3, 100])
@pytest.mark.parametrize(
    ("budget", "accountant"),
    [(Budget(1.0), "auto"), (Budget(0.3, 1e-6), "pure"), (Budget(rho=0.3), "auto")],
)
def test_the_same_for_pure_releases(budget, accountant, parts):
    ledger = Ledger(budget, accountant)
    share = math.sqrt(parts) if budget.kind == "zcdp" else parts
    for _ in range(parts):
        ledger.spend(laplace(budget_epsilon(budget) / share))
    with pytest.raises(BudgetExceeded):
        ledger.spend(laplace(0.05 * budget_epsilon(budget)))


def test_a_pure_ledger_reports_no_delta():
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.spend(laplace(0.75))
    guarantee = ledger.guarantee()
    assert (guarantee.epsilon, guarantee.delta, guarantee.accountant) == (0.75, 0.0, "pure")
    assert guarantee.mu is None and guarantee.rho == pytest.approx(0.75**2 / 2)


def test_auto_takes_the_smallest_valid_epsilon():
    ledger = Ledger(Budget(10.0, 1e-6))
    ledger.spend(gaussian(0.5))
    assert ledger.guarantee().accountant == "gdp"
    ledger.spend(laplace(0.01))
    assert ledger.guarantee().accountant == "basic"
    ledger.spend(laplace(0.01, count=1000))
    assert ledger.guarantee().accountant == "rdp"
    for name in ("zcdp", "basic", "rdp"):
        other = Ledger(Budget(1000.0, 1e-6), name)
        for event in ledger.events:
            other.spend(event)
        assert ledger.guarantee().epsilon <= other.guarantee().epsilon


@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(50.0, 0.1)])
def test_where_one_accountant_is_exact_no_other_could_state_less(budget):
    events = [gaussian(0.02, 1), gaussian(1e-4, 40)]
    ledger = Ledger(budget)
    ledger.spend_all(events)
    stated = ledger.guarantee()
    assert stated.accountant == "gdp"
    others = [ACCOUNTANTS[name] for name in AUTOMATIC if name != "gdp"]
    supporting = [a for a in others if all(map(a.supports, events))]
    assert supporting
    for accountant in supporting:
        assert stated.epsilon <= accountant.epsilon(events, budget.delta) * (1.0 + 1e-12)


def test_the_guarantee_comes_from_the_events():
    ledger = Ledger(Budget(5.0, 1e-6))
    assert ledger.guarantee().epsilon == 0.0
    assert ledger.guarantee().neighboring_relation is None
    ledger.spend(gaussian(0.3, count=2))
    ledger.spend(gaussian(0.1, where="elsewhere"))
    guarantee = ledger.guarantee()
    assert guarantee.mu == pytest.approx(math.sqrt(0.19))
    assert guarantee.epsilon == pytest.approx(gaussian_epsilon(math.sqrt(0.19), 1e-6))
    assert (guarantee.delta, guarantee.neighboring_relation) == (1e-6, "replace_one")


def test_a_refusal_spends_nothing_and_says_what_to_do():
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.spend(gaussian(0.1))
    before = ledger.guarantee()
    with pytest.raises(BudgetExceeded, match=r"^Budget\(epsilon=1.0.*Nothing.* Ask .*0\.39"):
        ledger.spend(gaussian(10.0))
    assert ledger.guarantee() == before
    assert len(ledger.events) == 1
    ledger.spend(gaussian(0.1))


@pytest.mark.parametrize("event", [gaussian(1e300), gaussian(1e5), laplace(1e300)])
@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(rho=1.0)], ids=str)
def test_an_absurd_price_is_refused_not_an_overflow(budget, event):
    ledger = Ledger(budget)
    with pytest.raises(BudgetExceeded):
        ledger.spend(event)
    assert ledger.events == ()


def test_relations_do_not_mix():
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.spend(gaussian(0.1))
    with pytest.raises(ValueError, match="mix neighboring relations"):
        ledger.spend(gaussian(0.1, relation="add_or_remove_one"))
    assert len(ledger.events) == 1


@pytest.mark.parametrize(
    ("budget", "accountant", "event"),
    [
        (Budget(1.0), "auto", gaussian(0.1)),
        (Budget(mu=1.0), "auto", laplace(0.1)),
        (Budget(1.0, 1e-6), "pure", gaussian(0.1)),
        (Budget(1.0, 1e-6), "gdp", laplace(0.1)),
    ],
)
def test_unknown_never_means_free(budget, accountant, event):
    ledger = Ledger(budget, accountant)
    with pytest.raises(UnsupportedEvent, match="Nothing was spent"):
        ledger.spend(event)
    assert ledger.events == ()


def test_an_event_without_an_accountant_is_refused():
    class Unknown(Event):
        mechanism = "unknown"

    event = Unknown(neighboring_relation="replace_one", where="x")
    with pytest.raises(UnsupportedEvent, match="unknown"):
        Ledger(Budget(1.0, 1e-6)).spend(event)


@pytest.mark.parametrize("event", [None, 1.0, {"mechanism": "gaussian"}])
def test_only_events_can_be_spent(event):
    with pytest.raises(TypeError, match="event"):
        Ledger(Budget(1.0, 1e-6)).spend(event)


@pytest.mark.parametrize(
    ("budget", "accountant", "error"),
    [
        (1.0, "auto", TypeError),
        (Budget(1.0), "gdp", ValueError),
        (Budget(rho=1.0), "gdp", ValueError),
        (Budget(mu=1.0), "zcdp", ValueError),
        (Budget(1.0, 1e-6), "moments", ValueError),
    ],
)
def test_bad_constructions(budget, accountant, error):
    with pytest.raises(error):
        Ledger(budget, accountant)


def test_threads_cannot_overspend_together(monkeypatch):
    """Threads that all check before any of them writes would pass the limit together."""
    accountant = ACCOUNTANTS["gdp"]
    price = accountant.total

    def slow_price(events):
        spent = price(events)
        time.sleep(1e-3)  # lets the other threads run between check and writing
        return spent

    monkeypatch.setattr(accountant, "total", slow_price)
    ledger = Ledger(Budget(mu=1.0))
    share = budget_mu(ledger.budget) / math.sqrt(10)
    barrier = threading.Barrier(8)
    refusals = []

    def work():
        barrier.wait()
        for _ in range(4):
            try:
                ledger.spend(gaussian(share))
            except BudgetExceeded:
                refusals.append(1)

    in_threads(work, 8)
    assert len(ledger.events) == 10
    assert len(refusals) == 22
    assert ledger.guarantee().mu <= 1.0


def test_a_thousand_equal_iterations_are_charged_quickly_and_exactly():
    budget = Budget(1.0, 1e-6)
    ledger = Ledger(budget)
    share = budget_mu(budget) / math.sqrt(1000)
    for k in range(1000):
        ledger.spend(gaussian(share, where=f"iteration {k}"))
    assert [event.where for event in ledger.events] == [f"iteration {k}" for k in range(1000)]
    assert 1.0 - 1e-6 < ledger.guarantee().epsilon <= 1.0


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_json_round_trip(budget):
    ledger = Ledger(budget)
    ledger.spend(gaussian(0.6 * budget_mu(budget)))
    ledger.spend(gaussian(0.1 * budget_mu(budget), count=3))
    again = Ledger.from_json(ledger.to_json())
    assert (again.budget, again.accountant) == (ledger.budget, ledger.accountant)
    assert again.events == ledger.events
    assert again.guarantee() == ledger.guarantee()
    assert Ledger.from_json(Ledger(budget).to_json()).events == ()


def test_a_forged_ledger_is_refused():
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.spend(gaussian(0.2))
    record = json.loads(ledger.to_json())
    record["events"] *= 2
    with pytest.raises(BudgetExceeded):
        Ledger.from_json(json.dumps(record))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": "dpfast.ledger", "version": 3}',
        '{"schema": "dpfast.ledger", "version": 2}',
    ],
)
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match=r"dpfast\.ledger"):
        Ledger.from_json(text)


def test_several_events_are_spent_together_or_not_at_all():
    for adaptive in (False, True):
        ledger = Ledger(Budget(mu=1.0), adaptive=adaptive)
        assert not ledger.can_afford(gaussian(0.9), gaussian(0.9))
        with pytest.raises(BudgetExceeded):
            ledger.spend_all([gaussian(0.9), gaussian(0.9)])
        with pytest.raises(TypeError):
            ledger.spend_all([gaussian(0.1), None])
        assert ledger.events == () and ledger.used() == 0.0
        ledger.spend_all(gaussian(mu) for mu in (0.3, 0.4))
        assert ledger.events == (gaussian(0.3), gaussian(0.4))
        assert ledger.used() == pytest.approx(0.25)
        ledger.check(gaussian(0.8))
        with pytest.raises(BudgetExceeded):
            ledger.check(gaussian(0.9))
        assert len(ledger.events) == 2


def test_the_totals_are_in_every_unit_that_prices_all():
    ledger = Ledger(Budget(5.0, 1e-6))
    assert ledger.totals() == {"epsilon": 0.0, "mu": 0.0, "rho": 0.0}
    ledger.spend(gaussian(0.3))
    assert ledger.totals() == pytest.approx({"mu": 0.3, "rho": 0.045})
    ledger.spend(laplace(0.1))
    assert ledger.totals() == pytest.approx({"rho": 0.05})
    assert ledger.used() == ledger.guarantee().epsilon / 5.0


@pytest.mark.parametrize(
    ("budget", "accountant", "expected"),
    [
        (Budget(1.0, 1e-6), "auto", (1.0, 1e-6, "zcdp")),
        (Budget(1.0, 1e-6), "gdp", (1.0, 1e-6, "gdp")),
        (Budget(rho=0.1), "auto", (zcdp_epsilon(0.1, 1e-6), 1e-6, "zcdp")),
        (Budget(mu=0.5), "auto", (gaussian_epsilon(0.5, 1e-6), 1e-6, "gdp")),
    ],
    ids=str,
)
def test_an_adaptive_ledger_promises_its_budget_whatever_was_spent(budget, accountant, expected):
    ledger = Ledger(budget, accountant, adaptive=True)
    assert ledger.guarantee().epsilon == 0.0
    promises = []
    for _ in range(3):
        ledger.spend(gaussian(0.01))
        promises.append(ledger.guarantee())
    assert len(set(promises)) == 1
    promise = promises[0]
    assert (promise.epsilon, promise.delta, promise.accountant) == expected
    assert promise.adaptive and promise.neighboring_relation == "replace_one"
    again = Ledger.from_json(ledger.to_json())
    assert again.adaptive and again.guarantee() == promise and again.events == ledger.events


def test_an_adaptive_pure_ledger_promises_its_epsilon():
    ledger = Ledger(Budget(0.5), adaptive=True)
    ledger.spend(laplace(0.1))
    promise = ledger.guarantee()
    assert (promise.epsilon, promise.delta, promise.rho) == (0.5, 0.0, 0.125)


def test_the_ledger_can_be_read():
    ledger = Ledger(Budget(rho=1.0), adaptive=True)
    ledger.spend(gaussian(1.0, where="<b>", count=1))
    text, page = ledger.to_text(), ledger._repr_html_()
    assert text.splitlines()[0] == (
        "Privacy ledger: 50% of Budget(rho=1.0, delta=1e-06) used, accesses chosen along the way, "
        "replace_one"
    )
    assert "<b>: 1 x gaussian (sensitivity=1, dimension=3, stddev=1)" in text
    assert "<b>" not in page and "&lt;b&gt;" in page
    assert "fixed beforehand" in Ledger(Budget(1.0)).to_text()


def test_adaptive_is_a_boolean():
    with pytest.raises(TypeError, match="adaptive"):
        Ledger(Budget(1.0), adaptive="yes")


def test_a_ledger_cannot_be_duplicated():
    ledger = Ledger(Budget(1.0))
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="twice"):
            duplicate(ledger)


SAMPLED = {
    "sensitivity": 1.0, "stddev": 1e3, "dimension": 3, "batch": 10, "n_samples": 10_000,
    "sampling": "poisson", "neighboring_relation": "add_or_remove_one", "where": "step",
}  # fmt: skip


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_delta_below_what_samplers_add_is_refused(adaptive):
    """Batches are redrawn with a probability below 2^-200, values cut with one below 2^-1000."""
    steps = SubsampledGaussianEvent(**SAMPLED, count=1000)
    accountant = "rdp" if adaptive else "auto"
    assert steps.sampler_delta == 2.0**-199 + 3 * 2.0**-1000
    for delta, enough in ((1e-40, True), (1e-44, False), (1e-60, False)):
        ledger = Ledger(Budget(1.0, delta), accountant, adaptive)
        assert ledger.can_afford(steps) == enough
        if enough:
            ledger.spend(steps)
            assert 1000 * 2.0**-199 <= ledger.guarantee().sampler_delta <= 1e-13 * delta
            assert ledger.guarantee().delta == delta
            continue
        with pytest.raises(BudgetExceeded, match="is too small for the release"):
            ledger.spend(steps)
        assert ledger.events == ()


def test_what_samplers_add_is_summed_up():
    ledger = Ledger(Budget(1.0, 2e-286))
    value = GaussianEvent(
        sensitivity=1e-9, stddev=1.0, dimension=1, neighboring_relation="replace_one", where="x"
    )
    allowed = math.floor(1e-13 * 2e-286 / 2.0**-1000)
    for part in (allowed // 2, allowed - allowed // 2 - 1):
        ledger.spend(dataclasses.replace(value, count=part))
    assert not ledger.can_afford(dataclasses.replace(value, count=2))


def test_beside_a_delta_of_zero_it_is_stated():
    ledger = Ledger(Budget(1.0))
    ledger.spend(
        LaplaceEvent(
            sensitivity=0.5, scale=1.0, dimension=7, neighboring_relation="replace_one", where="x"
        )
    )
    guarantee = ledger.guarantee()
    assert (guarantee.delta, guarantee.sampler_delta) == (0.0, pytest.approx(7 * 2.0**-1000))
    report = PrivacyReport.from_ledger(ledger, reproducible=False)
    assert report.sampler_delta == 7 * 2.0**-1000
    assert "which adds at most 6.54e-301 to delta" in str(report)


def test_a_choice_has_a_value_for_each_candidate():
    choice = NoisyMaxEvent(
        sensitivity=1.0, scale=4.0, candidates=9, noise_kind="exponential", monotone=False,
        neighboring_relation="replace_one", where="choice", count=3,
    )  # fmt: skip
    assert sampler_delta([choice]) == 27 * 2.0**-1000


def test_a_search_has_what_its_runs_have():
    run = SubsampledGaussianEvent(**SAMPLED, count=10)
    search = SelectionEvent(
        alternatives=((run,),), repetitions="poisson", mean_runs=5.0, shape=1.0,
        neighboring_relation="add_or_remove_one", where="search", count=2,
    )  # fmt: skip
    assert sampler_delta([search]) == pytest.approx(2 * (2.0**-200 + 50 * 2.0**-199))
