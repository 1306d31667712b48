"""Every solver's ledgers, priced by two libraries that share no code with this one.

dp-accounting (privacy loss distributions, Renyi divergences) and prv-accountant (privacy random
variables, Gopi, Lee & Wutschitz 2021), whose answer is an interval that holds the truth.
"""

import math
from functools import lru_cache

import pytest

import dpfast
from dpfast import Budget, Ledger
from dpfast.errors import UnsupportedEvent
from dpfast.privacy import (
    ACCOUNTANTS,
    ExponentialEvent,
    GaussianEvent,
    GDPEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    SubsampledGaussianEvent,
    budget_filter,
    to_dp_event,
)
from dpfast.privacy.accountants import AdditiveAccountant
from dpfast.privacy.ledger import merged
from dpfast.solvers import SOLVERS

dp_accounting = pytest.importorskip("dp_accounting")
prv = pytest.importorskip("prv_accountant")

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
}
ERROR = 2e-3  # of the interval, relative to epsilon


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


def by_loss_distributions(events, relation, delta):
    """Epsilon by dp-accounting, None if it has no distribution for an event."""
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(getattr(dp_accounting.NeighboringRelation, relation.upper()))
    try:
        event = to_dp_event(events)
    except UnsupportedEvent:
        return None
    return accountant.compose(event).get_epsilon(delta) if accountant.supports(event) else None


def by_divergences(events, relation, delta):
    """Epsilon by dp-accounting's Renyi divergences; a choice is zCDP, as it is here."""
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(
        neighboring_relation=getattr(dp_accounting.NeighboringRelation, relation.upper())
    )
    for event in events:
        if isinstance(event, ExponentialEvent):
            accountant.compose(dp_accounting.ZCDpEvent(event.epsilon**2 / 8.0), event.count)
        else:
            accountant.compose(to_dp_event([event]))
    return accountant.get_epsilon(delta)


def by_random_variables(events, delta, size):
    """Epsilon by prv-accountant, as an interval; None if it has no variable for an event."""
    pure = ACCOUNTANTS["pure"]
    assert isinstance(pure, AdditiveAccountant)
    variables = []
    for event in events:
        if isinstance(event, GaussianEvent | GDPEvent):
            variables.append(prv.GaussianMechanism(1.0 / event.mu))
        elif isinstance(event, SubsampledGaussianEvent) and event.sampling == "poisson":
            variables.append(
                prv.PoissonSubsampledGaussianMechanism(event.sampling_rate, event.noise_multiplier)
            )
        elif isinstance(event, LaplaceEvent) and event.dimension == 1:
            variables.append(prv.LaplaceMechanism(mu=event.epsilon))
        elif pure.supports(event):
            variables.append(prv.PureDPMechanism(pure.price(event)))
        else:
            return None
    counts = [event.count for event in events]
    accountant = prv.PRVAccountant(
        prvs=variables,
        max_self_compositions=counts,
        eps_error=ERROR * size,
        delta_error=1e-4 * delta,
        eps_max=4.0 * size + 1.0,
    )
    low, _, high = accountant.compute_epsilon(delta, counts)
    return low, high


def kinds_of(events):
    return {type(event) for event in events}


def test_every_solver_is_heard():
    assert {name for name, _ in ledgers()} == set(SOLVERS)
    assert len(ledgers()) >= 90


@pytest.mark.filterwarnings("ignore:Assuming that true epsilon")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("index", range(len(named())), ids=named())
def test_nobody_finds_more_than_is_claimed_or_much_less(index):
    _, ledger = ledgers()[index]
    events, guarantee = merged(ledger.events), ledger.guarantee()
    relation, claimed = guarantee.neighboring_relation, guarantee.epsilon
    if kinds_of(events) & {ObjectivePerturbationEvent}:
        return check_objective(events, claimed, guarantee.delta)
    # A pure claim holds at every delta, and nearly reaches its epsilon at a small one.
    delta = guarantee.delta or 1e-9
    found = by_loss_distributions(events, relation, delta)
    interval = by_random_variables(events, delta, claimed)
    if found is None or interval is None:
        # Fixed-size samples and zCDP have divergences only: ours may be the sharper ones.
        theirs = by_divergences(events, relation, delta)
        sampled = any(isinstance(event, SubsampledGaussianEvent) for event in events)
        assert (0.2 if sampled else 0.98) * theirs <= claimed <= 1.02 * theirs
        return None
    if ExponentialEvent in kinds_of(events) and guarantee.accountant in ("zcdp", "rdp"):
        # Priced as a choice, for which the libraries have the costlier randomized response.
        assert 0.98 * by_divergences(events, relation, delta) <= claimed <= interval[1] * 1.01
        return None
    low, high = interval
    assert low <= claimed
    assert found <= claimed * (1.0 + 1e-3) + 1e-4
    # The two agree with each other.
    assert low - 1e-3 * found - 1e-4 <= found <= high + 1e-3 * found + 1e-4
    # What composition and conversion lose: nothing for Gaussian noise, but in the unit of zCDP.
    slack = {"gdp": 1.005, "zcdp": 1.3, "rdp": 2.5}.get(guarantee.accountant)
    if slack is None:
        slack = 1.05 if sum(event.count for event in events) <= 4 else math.inf
    assert claimed <= slack * high


def check_objective(events, claimed, delta):
    """The corners of one objective perturbation, with dp-accounting's Gaussian delta."""
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    (objective,) = (event for event in events if isinstance(event, ObjectivePerturbationEvent))
    others = [event for event in events if event is not objective]
    assert kinds_of(others) <= {GaussianEvent} and objective.count == 1
    square = math.fsum(event.count * (event.sensitivity / event.stddev) ** 2 for event in others)
    jacobian = math.log1p(objective.smoothness / objective.ridge)
    total = math.fsum(
        many
        * GaussianPrivacyLoss(1.0 / math.sqrt(norm * norm + square)).get_delta_for_epsilon(
            claimed - jacobian
        )
        for many, norm in objective.shifts
    )
    assert 0.99 * delta <= total <= delta * (1.0 + 1e-6)
