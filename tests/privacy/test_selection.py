"""The best of a random number of runs: its law, and what it costs, by integration."""

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from dpfast.errors import UnsupportedEvent
from dpfast.privacy import (
    ACCOUNTANTS,
    Budget,
    GaussianEvent,
    GDPEvent,
    L2LaplaceObjectiveEvent,
    Ledger,
    ObjectivePerturbationEvent,
    PureSelectionEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
    ZCDPEvent,
    to_dp_event,
)
from dpfast.privacy.selection import law_parameter, number_of_runs, selection_epsilon

COMMON = {"neighboring_relation": "add_or_remove_one", "where": "search"}
LAWS = [
    ("poisson", 1.0),
    ("negative-binomial", 0.5),
    ("negative-binomial", 1.0),
    ("negative-binomial", 2.0),
]


def selection(alternatives, repetitions="negative-binomial", mean=5.0, shape=1.0, **common):
    return SelectionEvent(
        repetitions=repetitions,
        mean_runs=mean,
        shape=shape,
        alternatives=alternatives,
        **{**COMMON, **common},
    )


def gdp(mu):
    return (GDPEvent(mu=mu, **COMMON),)


@lru_cache
def masses(repetitions, mean, shape, top=4000):
    """P(K = k) by the definition."""
    parameter = law_parameter(repetitions, mean, shape)
    k = np.arange(1, top)
    if repetitions == "poisson":
        p = stats.poisson.pmf(k, parameter)
    else:
        logs = k * np.log1p(-parameter) + [
            math.lgamma(i + shape - 1) - math.lgamma(i + 1) for i in k
        ]
        p = np.exp(logs)
    return k, p / p.sum()


def generating(repetitions, mean, shape, x):
    """E x^K and its derivative, by summation."""
    k, p = masses(repetitions, mean, shape)
    x = np.atleast_1d(x)[:, None]
    return (p * x**k).sum(axis=1), (p * k * x ** (k - 1.0)).sum(axis=1)


@pytest.mark.parametrize(("repetitions", "shape"), LAWS)
@pytest.mark.parametrize("mean", [1.2, 6.0])
def test_the_number_of_runs_has_its_law(repetitions, shape, mean):
    k, p = masses(repetitions, mean, shape)
    assert np.sum(k * p) == pytest.approx(mean, rel=1e-6)
    uniforms = (np.arange(4000) + 0.5) / 4000
    runs = [number_of_runs(repetitions, mean, shape, float(u)) for u in uniforms]
    for value in range(1, 6):
        assert np.mean(np.array(runs) == value) == pytest.approx(p[value - 1], abs=6e-4)
    assert number_of_runs(repetitions, mean, shape, 0.0) == 1
    assert number_of_runs(repetitions, mean, shape, 1.0 - 2.0**-53) < 10**6


@pytest.mark.parametrize("mean", [20.0, 800.0, 1e4])
def test_large_numbers_of_runs_keep_to_the_poisson_law(mean):
    parameter = law_parameter("poisson", mean, 1.0)
    for uniform in (1e-9, 0.1, 0.5, 0.9, 1.0 - 1e-9):
        runs = number_of_runs("poisson", mean, 1.0, uniform)
        assert runs == max(1, stats.poisson.ppf(uniform, parameter))


@pytest.mark.parametrize(("shape", "mean"), [(0.25, 20.0), (0.5, 400.0), (1.0, 3000.0)])
def test_the_tail_of_the_law_is_not_cut_off(shape, mean):
    """The rare large numbers make up the mean, and with it what is charged."""
    parameter = law_parameter("negative-binomial", mean, shape)
    for rare in (1e-2, 1e-4):
        runs = number_of_runs("negative-binomial", mean, shape, 1.0 - rare)
        # P(K > k) = sum over j > k of E[K] P(J = j - 1) / j, J negative binomial of this shape.
        j = np.unique(np.geomspace(runs + 1.0, 2e8, 400_000).astype(np.int64))
        density = np.exp(stats.nbinom.logpmf(j - 1, shape, parameter)) / j
        tail = mean * (np.trapezoid(density, j) + 0.5 * density[0])
        assert tail == pytest.approx(rare, rel=0.01)


@pytest.mark.parametrize(("shape", "mean"), [(0.25, 1000.0), (0.25, 40.0), (0.5, 2000.0)])
def test_a_law_that_no_search_can_keep_to_is_refused(shape, mean):
    for make in (law_parameter, lambda *law: number_of_runs(*law, 0.5)):
        with pytest.raises(ValueError, match="mean_runs must be smaller for shape"):
            make("negative-binomial", mean, shape)
    with pytest.raises(ValueError, match="mean_runs must be smaller for shape"):
        selection((gdp(0.1),), mean=mean, shape=shape)
    law_parameter("poisson", mean, shape)


def test_as_many_bits_are_drawn_as_decide():
    mean, shape = 5.0, 1.0
    parameter = law_parameter("negative-binomial", mean, shape)
    first = (1.0 - parameter) / -math.log(parameter)  # P(K = 1)
    edge = math.floor(first * 2**64)
    for words, expected, drawn in (
        ([edge - 2**20], 1, 1), ([edge + 2**20], 2, 1), ([2**64 - 1] * 20, None, None),
    ):  # fmt: skip
        left = list(words)
        runs = number_of_runs("negative-binomial", mean, shape, lambda left=left: left.pop(0))
        if expected is None:
            assert 1 <= len(left) < len(words) and runs > 100
        else:
            assert (runs, len(words) - len(left)) == (expected, drawn)


@pytest.mark.parametrize(("repetitions", "shape"), LAWS)
@pytest.mark.parametrize("mu", [0.1, 1.0])
def test_the_price_is_above_the_divergence_of_the_best_score(repetitions, shape, mu):
    """Runs that release a Gaussian score: the density of the best is ``Q f'(F)``."""
    z = np.linspace(-13.0, 13.0, 4001)
    parameter = law_parameter(repetitions, 5.0, shape)

    def slope(x):
        if repetitions == "poisson":
            return 5.0 * np.exp(-parameter * (1.0 - x))
        return 5.0 * (parameter / (1.0 - (1.0 - parameter) * x)) ** shape

    points = np.array([0.0, 0.3, 0.9, 1.0])
    np.testing.assert_allclose(
        slope(points), generating(repetitions, 5.0, shape, points)[1], rtol=1e-6
    )
    laws = [stats.norm.pdf(z, loc=m) * slope(stats.norm.cdf(z, loc=m)) for m in (0.0, mu)]
    assert np.trapezoid(laws[0], z) == pytest.approx(1.0, abs=1e-9)
    event = selection((gdp(mu),), repetitions, 5.0, shape)
    for excess in (1.0, 4.0, 30.0):
        worst = max(
            np.log(np.trapezoid(np.exp((1.0 + excess) * np.log(p) - excess * np.log(q)), z))
            for p, q in (laws, laws[::-1])
        )
        assert worst <= ACCOUNTANTS["rdp"].log_moment([event], excess)
        if excess == 1.0 and (repetitions == "poisson" or shape == 2.0):
            # At one run's price the search would be sold too cheap.
            assert worst > 1.2 * mu**2


@pytest.mark.parametrize(("repetitions", "shape"), LAWS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_pure_prices_are_safe_and_one_run_is_not_enough(repetitions, shape, epsilon):
    """The worst runs: a good score that the neighbor has more often, a fair one less often."""
    mean, ratio = 200.0, math.exp(epsilon)
    price = selection_epsilon(epsilon, repetitions, mean, shape)
    worst = 0.0
    for good in np.geomspace(1e-3, 0.3, 12):
        fair = 1e-4
        ours, others = (good, fair), (good * ratio, fair / ratio)
        if sum(others) > 1.0 or 1 - sum(ours) > ratio * (1 - sum(others)):
            continue  # not epsilon-DP: neither would be "nothing"
        chances = []
        for top, middle in (ours, others):
            f = generating(repetitions, mean, shape, [1 - top, 1 - top - middle])[0]
            chances.append(f[0] - f[1])
        worst = max(worst, abs(math.log(chances[0] / chances[1])))
    assert worst <= price
    if repetitions == "poisson" or shape >= 1.0:
        assert worst > 1.3 * epsilon


def test_a_run_costs_its_dearest_alternative():
    cheap, dear = gdp(0.2), (ZCDPEvent(rho=0.3, **COMMON), GDPEvent(mu=0.1, **COMMON))
    rdp = ACCOUNTANTS["rdp"]
    for repetitions, shape in LAWS[::2]:
        alone = rdp.epsilon([selection((dear,), repetitions, shape=shape)], 1e-6)
        both = rdp.epsilon([selection((cheap, dear), repetitions, shape=shape)], 1e-6)
        assert both == pytest.approx(alone, rel=1e-9)
        assert rdp.epsilon(dear, 1e-6) < both < 5.0 * rdp.epsilon(dear, 1e-6)
    with pytest.raises(ValueError, match="none of them empty"):
        selection((cheap, ()))
    with pytest.raises(ValueError, match="of 'replace_one'"):
        selection(((GDPEvent(mu=1.0, neighboring_relation="replace_one", where="x"),),))
    with pytest.raises(TypeError, match="events"):
        selection(((1.0,),))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mean_runs", 1.0, "mean_runs"),
        ("shape", 0.1, "shape"),
        ("repetitions", "fixed", "repetitions"),
    ],
)
def test_wrong_laws_are_refused(name, value, message):
    fields = {"repetitions": "poisson", "mean_runs": 3.0, "shape": 1.0, name: value}
    with pytest.raises(ValueError, match=message):
        PureSelectionEvent(epsilon_of_run=1.0, **fields, **COMMON)


def test_a_ledger_prices_it_with_other_releases():
    ledger = Ledger(Budget(2.0, 1e-6))
    ledger.spend(selection((gdp(0.1), gdp(0.2))))
    before = ledger.guarantee().epsilon
    ledger.spend(GDPEvent(mu=0.1, **COMMON))
    assert ledger.guarantee().accountant == "rdp"
    assert before < ledger.guarantee().epsilon <= 2.0
    again = Ledger.from_json(ledger.to_json())
    assert again.events == ledger.events
    with pytest.raises(UnsupportedEvent):
        Ledger(Budget(2.0, 1e-6)).spend(selection(((objective(),),)))


def objective():
    return ObjectivePerturbationEvent(
        lipschitz=1.0, smoothness=0.25, ridge=2.5, dimension=3, stddev=10.0, monotone=True, **COMMON
    )


class TestAgreement:
    @pytest.fixture(autouse=True)
    def opinion_of(self):
        self.opinion = pytest.importorskip("dp_accounting")

    @pytest.mark.parametrize(("repetitions", "shape"), [LAWS[0], LAWS[2], LAWS[3]])
    def test_dp_accounting_agrees(self, repetitions, shape):
        from dp_accounting.rdp import RdpAccountant

        event = selection((gdp(0.2), gdp(0.3)), repetitions, 8.0, shape)
        orders = 1.0 + np.geomspace(0.2, 300.0, 60)
        theirs = RdpAccountant(orders).compose(to_dp_event([event]))._rdp
        ours = [ACCOUNTANTS["rdp"].log_moment([event], a - 1.0) / (a - 1.0) for a in orders]
        # Theirs is monotone in the order: compare where ours rises.
        best = int(np.argmin(ours))
        ratio = np.array(ours[best:]) / np.array(theirs)[best:]
        assert np.all(ratio <= 1.0 + 2e-3)
        # Their Poisson bound takes a run's delta from Renyi divergences, ours is exact.
        assert np.all(ratio > (0.7 if repetitions == "poisson" else 0.98))

    def test_what_has_no_event_is_refused_with_the_reason(self):
        with pytest.raises(UnsupportedEvent, match="Jacobian"):
            to_dp_event([objective()])
        with pytest.raises(UnsupportedEvent, match="one thing or another"):
            sampled = SubsampledGaussianEvent(
                sensitivity=1.0, dimension=1, stddev=1.0, batch=5, n_samples=100,
                sampling="poisson", **COMMON,
            )  # fmt: skip
            to_dp_event([selection((gdp(0.1), (sampled,)))])
        with pytest.raises(UnsupportedEvent, match="shape below 1"):
            to_dp_event([selection((gdp(0.1),), shape=0.5)])

    def test_pure_objective_perturbation_is_dominated_by_randomized_response(self):
        event = L2LaplaceObjectiveEvent(
            lipschitz=1.0, smoothness=0.25, ridge=2.5, dimension=3, scale=10.0, **COMMON
        )
        (translated,) = to_dp_event([event]).events
        p = translated.noise_parameter
        assert math.log((2 - p) / p) == pytest.approx(event.epsilon, rel=1e-12)

    def test_pure_runs_are_repeated_randomized_response(self):
        event = PureSelectionEvent(
            repetitions="negative-binomial", mean_runs=4.0, shape=2.0, epsilon_of_run=0.3, **COMMON
        )
        (translated,) = to_dp_event([event]).events
        assert (translated.mean, translated.shape) == (4.0, 1.0)
        gaussian = GaussianEvent(sensitivity=1.0, stddev=2.0, dimension=1, **COMMON)
        (translated,) = to_dp_event([selection(((gaussian,),), shape=1.0)]).events
        assert translated.event == self.opinion.GaussianDpEvent(2.0)
