"""Every solver's ledgers, priced by libraries that share no code with this one.

What :mod:`opinions` compares here from both sides, `second_opinion` of conftest.py holds from below
against every claim that any test asks a ledger for.
"""

from collections import Counter
from dataclasses import asdict, replace
from functools import lru_cache

import pytest

import dpfast
from dpfast import Budget, Ledger
from dpfast.errors import UnsupportedEvent
from dpfast.privacy import (
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    SubsampledGaussianEvent,
    budget_filter,
)
from dpfast.privacy.ledger import merged
from dpfast.solvers import SOLVERS

pytest.importorskip("dp_accounting")
pytest.importorskip("prv_accountant")
opinions = pytest.importorskip("opinions")

BUDGETS = [
    Budget(0.2, 1e-6),
    Budget(3.0, 1e-6),
    Budget(0.5),
    Budget(rho=0.05, delta=1e-6),
    Budget(mu=0.3, delta=1e-6),
]
RELATIONS = ("replace_one", "add_or_remove_one")
OPTIONS = {
    "objective-perturbation": ({"noise": "gaussian"}, {"noise": "l2-laplace"}),
    "output-perturbation": ({"noise": "gaussian"}, {"noise": "l2-laplace"}),
    # Whose default number of iterations is searched for long, at every collection of the tests.
    **{name: ({"iterations": 50},) for name in ("dp-hb", "dp-masg", "dp-masg-opt")},
}


@lru_cache
def ledgers():
    """Name, budget and ledger of every plan that a solver makes for these budgets."""
    made = []
    for name in SOLVERS:
        loss = "squared" if name == "dp-adassp" else "logistic"
        shape = dpfast.ProblemShape(2000, 4, 1.0, loss, alpha=0.1)
        for options in OPTIONS.get(name, ({},)):
            for relation in RELATIONS:
                for budget in BUDGETS:
                    try:
                        plan = dpfast.plan(
                            shape, name, budget, neighboring_relation=relation, **options
                        )
                    except (ValueError, UnsupportedEvent):
                        continue  # what a solver does not offer
                    ledger = Ledger(plan.budget)
                    if plan.adaptive:
                        ledger.spend(budget_filter(budget).as_event(relation, "all of it"))
                    else:
                        ledger.spend_all(plan.events)
                    made.append((name, ledger))
    return made


def named():
    return [f"{i} {name} {ledger.budget}" for i, (name, ledger) in enumerate(ledgers())]


def kinds_of(events):
    return {type(event) for event in events}


PRICES = {}


def once(price, events, *numbers):
    """A library's price, once for events that differ in what it does not ask for."""

    def told(event):
        told = asdict(event)
        for noise in {"stddev", "scale"} & told.keys():
            if "sensitivity" in told:
                told["sensitivity"] = f"{told['sensitivity'] / told.pop(noise):.7g}"
        del told["neighboring_relation"], told["where"]
        return type(event), tuple(sorted(told.items()))

    key = price, tuple(map(told, events)), tuple(f"{number:.7g}" for number in numbers)
    if key not in PRICES:
        PRICES[key] = price(events, *numbers)
    return PRICES[key]


def test_every_solver_is_heard():
    assert {name for name, _ in ledgers()} == set(SOLVERS)
    assert len(ledgers()) >= 90


@pytest.mark.filterwarnings("ignore:Assuming that true epsilon")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("index", range(len(named())), ids=named())
def test_nobody_finds_more_than_is_claimed_or_much_less(index):
    _, ledger = ledgers()[index]
    events, guarantee = merged(ledger.events), ledger.guarantee()
    claimed, used = guarantee.epsilon, guarantee.accountant
    if ObjectivePerturbationEvent in kinds_of(events):
        found = opinions.objective_delta(events, claimed)
        assert 0.99 * guarantee.delta <= found <= guarantee.delta * (1.0 + 1e-6)
        return None
    # A pure claim holds at every delta, and nearly reaches its epsilon at a small one.
    delta = guarantee.delta or 1e-9
    if ExponentialEvent in kinds_of(events) and used in ("zcdp", "rdp"):
        # A choice has a smaller price than the randomized response that the libraries have.
        assert 0.95 * once(opinions.by_divergences, events, delta) <= claimed
        assert claimed <= 1.001 * once(opinions.by_loss_distributions, events, delta)
        return None
    found = once(opinions.by_loss_distributions, events, delta)
    interval = once(opinions.by_random_variables, events, delta, claimed)
    if found is None or interval is None:
        # Fixed-size samples and zCDP have divergences only, where ours are sharper for samples.
        theirs = once(opinions.by_divergences, events, delta)
        sampled = SubsampledGaussianEvent in kinds_of(events)
        # Of a pure claim, divergences at a tiny delta only show that it is not far from the truth.
        least = 0.2 if sampled else 0.99 if used == "pure" else 0.995
        assert least * theirs <= claimed <= 1.005 * theirs
        return None
    low, high = interval
    assert low <= claimed
    assert found <= claimed * (1.0 + 1e-3) + 3e-4
    # The two agree with each other, but for Laplace noise on several numbers, priced as on one.
    if LaplaceEvent not in kinds_of(events):
        assert low - 1e-3 * found - 3e-4 <= found <= high + 1e-3 * found + 3e-4
    # What composition and conversion lose: nothing for Gaussian noise, but in the unit of zCDP.
    slack = {"gdp": 1.005, "zcdp": 1.3, "rdp": 2.5}.get(used)
    if slack is None:
        slack = 1.05 if sum(event.count for event in events) <= 4 else 1.5
    assert claimed <= slack * high
    return None


def gaussian_or_poisson():
    """Numbers of ledgers of Gaussian noise on all rows or on Poisson samples."""
    for index, (_, ledger) in enumerate(ledgers()):
        instances = [opinions.instance_of(event) for event in ledger.events]
        if all(one is not None and one.kind == "gaussian" for one in instances):
            yield index


@pytest.mark.skipif(opinions.opake is None, reason="opake-accounting is not installed")
@pytest.mark.parametrize("index", list(gaussian_or_poisson()))
def test_a_third_library_agrees(index):
    """Gaussian noise to eight digits, the price of samples as dp-accounting has it."""
    _, ledger = ledgers()[index]
    events, guarantee = merged(ledger.events), ledger.guarantee()
    claimed, instances = guarantee.epsilon, opinions.instances_of(events, 0.5)
    sampled = SubsampledGaussianEvent in kinds_of(events)
    step = 4e-5 if sampled else 1e-3 * claimed
    found = opinions.by_distributions_in_rust(instances, guarantee.delta, step)
    assert found <= claimed * (1.0 + 1e-8)
    if guarantee.accountant == "gdp":
        assert found == pytest.approx(claimed, rel=1e-8)
    if sampled:
        other = opinions.by_loss_distributions(events, guarantee.delta)
        assert found == pytest.approx(other, rel=1e-3, abs=3e-4)


#: What a claim may be too small by, and is found out.
LIARS = {
    "gaussian": (GaussianEvent, {"sensitivity": 1.0, "stddev": 2.0, "dimension": 1}, 1, 0.99),
    "laplace": (LaplaceEvent, {"sensitivity": 1.0, "scale": 2.0, "dimension": 3}, 4, 0.7),
    "choices": (ExponentialEvent, {"epsilon": 0.5}, 20, 0.85),
    "one choice": (ExponentialEvent, {"epsilon": 3.0}, 2, 0.75),
    "poisson": (
        SubsampledGaussianEvent,
        {"sensitivity": 1.0, "stddev": 1.0, "dimension": 2, "n_samples": 1000, "batch": 10,
         "sampling": "poisson"}, 200, 0.55,
    ),
    "fixed-size": (
        SubsampledGaussianEvent,
        {"sensitivity": 1.0, "stddev": 1.0, "dimension": 2, "n_samples": 1000, "batch": 100,
         "sampling": "fixed-size"}, 100, 0.4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIARS)
def test_lower_bounds_admit_the_claim_and_find_a_smaller_one(name):
    kind, stated, count, share = LIARS[name]
    relation = "add_or_remove_one" if name == "poisson" else "replace_one"
    ledger = Ledger(Budget(50.0, 1e-5))
    ledger.spend(kind(**stated, count=count, neighboring_relation=relation, where="here"))
    events, claim = merged(ledger.events), ledger.guarantee()
    assert opinions.refuted(events, claim) is None
    assert opinions.refuted(events, replace(claim, epsilon=share * claim.epsilon)) is not None


@pytest.fixture
def compared(monkeypatch):
    """The claims that are compared, of a session that begins here."""
    claims = []
    monkeypatch.setattr(opinions, "refuted", lambda events, claim: claims.append(claim))
    monkeypatch.setattr(opinions.Claims, "_compared", set())
    monkeypatch.setattr(opinions.Claims, "_of_a_kind", Counter())
    monkeypatch.delenv("DPFAST_OPINIONS", raising=False)
    return claims


def claim_of(claims, scale, count):
    ledger = Ledger(Budget(50.0, 1e-5))
    ledger.spend(
        LaplaceEvent(sensitivity=1.0, scale=scale, dimension=1, count=count,
                     neighboring_relation="replace_one", where="here")
    )  # fmt: skip
    claims.kept_of(Ledger.guarantee)(ledger)


def test_of_the_claims_of_a_test_a_few_are_compared(compared):
    """Each takes up to a second, and some tests make a thousand fits."""
    claims = opinions.Claims()
    for count in range(1, 21):
        claim_of(claims, 2.0, count)
    assert claims.refuted() == []
    assert 1 < len(compared) <= 6


def test_of_many_tests_with_the_same_kind_of_claims_a_few_are_compared(compared):
    for number in range(20):
        claims = opinions.Claims()
        claim_of(claims, 2.0 + 1e-3 * number, 7)
        claim_of(claims, 0.2 + 1e-3 * number, 7)
        assert claims.refuted() == []
    assert len(compared) == 2 * opinions.MOST_OF_A_KIND
