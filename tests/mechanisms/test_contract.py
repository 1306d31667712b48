"""What every mechanism must do, tried over the table."""

import math

import numpy as np
import pytest
from declared import calibrate, release

from dpfast.errors import BudgetExceeded, GridOverflow, UnsupportedEvent
from dpfast.mechanisms import (
    MECHANISMS,
    AdditiveMechanism,
    Exponential,
    Gaussian,
    L2Laplace,
    Laplace,
    NoisyMax,
    SelectingMechanism,
)
from dpfast.privacy import EVENTS, Budget, Ledger
from dpfast.random import SecureGenerator

ADDITIVE = {name: kind for name, kind in MECHANISMS.items() if issubclass(kind, AdditiveMechanism)}
SELECTING = {
    name: kind for name, kind in MECHANISMS.items() if issubclass(kind, SelectingMechanism)
}
SETTINGS = {"sensitivity": 0.5, "dimension": 4, "neighboring_relation": "replace_one"}


OF = {
    Exponential: {"score_range": 1.0, "candidates": 4, "neighboring_relation": "replace_one"},
    NoisyMax: {"sensitivity": 0.5, "candidates": 4, "neighboring_relation": "replace_one"},
}
"""Arguments for each mechanism, its query having four numbers; SETTINGS for the additive ones."""


BUDGETS = [
    Budget(1e-3),
    Budget(1.0),
    Budget(100.0),
    Budget(1e-2, 1e-12),
    Budget(1.0, 1e-6),
    Budget(1e4, 0.1),
    Budget(rho=0.05),
    Budget(mu=0.7),
]
UNPAYABLE = {name: "pure" if name == "gaussian" else "gdp" for name in MECHANISMS}
PAIRS = [
    pytest.param(kind, budget, id=f"{name}-{budget}")
    for name, kind in MECHANISMS.items()
    for budget in BUDGETS
    if budget.kind != UNPAYABLE[name]
]
ADDITIVE_PAIRS = [pair for pair in PAIRS if pair.values[0] in ADDITIVE.values()]


@pytest.fixture(params=MECHANISMS)
def kind(request):
    return MECHANISMS[request.param]


@pytest.fixture(params=ADDITIVE)
def additive(request):
    return ADDITIVE[request.param]


@pytest.fixture(params=SELECTING)
def selecting(request):
    return SELECTING[request.param]


@pytest.fixture
def rng():
    return SecureGenerator(random_state=7)


def calibrated(kind, **changes):
    return calibrate(kind, Budget(1.0, 1e-6), **{**OF.get(kind, SETTINGS), **changes})


def test_the_table_has_the_names_of_the_events():
    assert set(MECHANISMS) <= set(EVENTS)
    for name, kind in MECHANISMS.items():
        event = calibrated(kind).event("here")
        assert event.mechanism == name
        assert (event.where, event.count) == ("here", 1)
        assert event.neighboring_relation == "replace_one"
        if name in ADDITIVE:
            assert event.dimension == 4
    assert ADDITIVE.keys() | SELECTING.keys() == MECHANISMS.keys()


@pytest.mark.parametrize(("kind", "budget"), PAIRS)
@pytest.mark.parametrize("changes", [{}, {"error": 0.1}, {"bound": 1e3}])
def test_a_calibrated_release_fits_its_budget_and_less_noise_does_not(kind, budget, changes):
    arguments = {**OF.get(kind, SETTINGS), **changes}
    mechanism = calibrate(kind, budget, **arguments)
    Ledger(budget).spend(mechanism.event("release"))
    if kind is Exponential:
        less = kind(mechanism.epsilon * (1 + 1e-5), **arguments)
    else:
        less = kind(mechanism.event("").noise * (1 - 1e-5), **arguments)
    with pytest.raises(BudgetExceeded):
        Ledger(budget).spend(less.event("release"))


@pytest.mark.parametrize(("additive", "budget"), ADDITIVE_PAIRS)
def test_so_does_one_in_many_dimensions(additive, budget):
    arguments = {**SETTINGS, "dimension": 10_000}
    mechanism = calibrate(additive, budget, **arguments)
    Ledger(budget).spend(mechanism.event("release"))
    less = additive(mechanism.event("").noise * (1 - 1e-5), **arguments)
    with pytest.raises(BudgetExceeded):
        Ledger(budget).spend(less.event("release"))


def test_gaussian_calibrated_for_another_accountant():
    budget = Budget(1.0, 1e-6)
    Ledger(budget, "zcdp").spend(
        calibrate(Gaussian, budget, **SETTINGS, accountant="zcdp").event("release")
    )
    with pytest.raises(BudgetExceeded):
        Ledger(budget, "zcdp").spend(calibrate(Gaussian, budget, **SETTINGS).event("release"))


def test_the_charge_covers_error_and_rounding(additive):
    mechanism = calibrated(additive, error=0.01)
    event = mechanism.event("x")
    # In l1, the diagonal of a cube of four dimensions has length 4, and an l2 error counts twice.
    l1 = additive is Laplace
    least = 0.5 + 2 * 0.01 * (2.0 if l1 else 1.0) + (4.0 if l1 else 2.0) * mechanism.grid_step
    assert least <= event.sensitivity <= least * (1 + 1e-12)
    assert event.sensitivity == mechanism.charged_sensitivity


def test_money_before_goods(kind, rng):
    """The event is on the ledger when the query is called."""
    ledger = Ledger(Budget(1.0, 1e-6))
    seen = []

    def query():
        seen.append(ledger.events)
        return np.zeros(4)

    mechanism = calibrated(kind)
    release(mechanism, query, rng=rng, ledger=ledger, where="x")
    assert seen == [(mechanism.event("x"),)]


def test_a_query_that_fails_stays_paid(kind, rng):
    """diffprivlib's accountant spends after the fit, so that an interruption costs nothing."""
    ledger = Ledger(Budget(1.0, 1e-6))

    def query():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        release(calibrated(kind), query, rng=rng, ledger=ledger, where="x")
    assert len(ledger.events) == 1


@pytest.mark.parametrize(
    ("ledger", "error"),
    [(Ledger(Budget(0.5, 1e-6)), BudgetExceeded), (Ledger(Budget(0.5)), Exception)],
)
def test_a_refused_query_is_not_called(kind, rng, ledger, error):
    def query():
        pytest.fail("the data was touched")

    with pytest.raises(error) as caught:
        release(calibrated(kind), query, rng=rng, ledger=ledger, where="x")
    assert isinstance(caught.value, BudgetExceeded | UnsupportedEvent)
    assert ledger.events == ()


@pytest.mark.parametrize("value", [np.zeros(3), np.zeros((4, 1)), 0.0, np.zeros(0)])
def test_a_wrong_shape_is_an_error_and_stays_paid(kind, rng, value):
    ledger = Ledger(Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match=r"shape \(4,\)"):
        release(calibrated(kind), lambda: value, rng=rng, ledger=ledger, where="x")
    assert len(ledger.events) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_an_error_that_does_not_quote_it(kind, rng, bad):
    ledger = Ledger(Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="finite") as caught:
        release(
            calibrated(kind), lambda: [123.25, bad, 0.0, 0.0], rng=rng, ledger=ledger, where="x"
        )
    assert "123" not in str(caught.value)
    assert len(ledger.events) == 1


def test_without_noise_the_value_comes_back_on_the_grid(additive, noiseless, rng):
    mechanism = calibrated(additive)
    value = np.array([0.1, -3.0, 1e5, 0.0])
    ledger = Ledger(Budget(1.0, 1e-6))
    released = release(mechanism, lambda: value, rng=rng, ledger=ledger, where="x")
    assert released.dtype == np.float64 and released.shape == (4,)
    assert np.abs(released - value).max() <= mechanism.grid_step / 2


def test_values_far_outside_are_clamped_not_refused(additive, noiseless, rng):
    mechanism = calibrated(additive)
    released = release(
        mechanism,
        lambda: [1e300, -1e300, 0.0, 1.0],
        rng=rng,
        ledger=Ledger(Budget(1.0, 1e-6)),
        where="x",
    )
    limit = 2.0**61 * mechanism.grid_step
    np.testing.assert_array_equal(released[:2], [limit, -limit])


def test_released_values_lie_on_one_grid_whatever_the_data(additive, rng):
    """The low bits of the noise must not meet low bits of the value (Mironov 2012)."""
    mechanism = calibrated(additive)
    for value in (np.zeros(4), np.full(4, 1.0 / 3.0), np.array([1e-9, 0.1, 0.2, 0.3])):
        for _ in range(20):
            released = release(
                mechanism,
                lambda value=value: value,
                rng=rng,
                ledger=Ledger(Budget(1.0, 1e-6)),
                where="x",
            )
            steps = released / mechanism.grid_step
            np.testing.assert_array_equal(steps, np.rint(steps))


def test_every_coordinate_gets_fresh_noise(additive, rng):
    """tensorflow-privacy's bolt-on adds no noise to the bias."""
    mechanism = calibrated(additive, dimension=1000)
    draws = [
        release(
            mechanism, lambda: np.zeros(1000), rng=rng, ledger=Ledger(Budget(1.0, 1e-6)), where="x"
        )
        for _ in range(2)
    ]
    # Equal values among 2,000 draws on some 2^31 points: below 1e-3 in expectation.
    assert len(np.unique(np.concatenate(draws))) >= 1998


def test_without_noise_the_extreme_candidate_is_chosen(selecting, noiseless, rng):
    scores = np.array([0.25, 7.0, -3.0, 7.0])
    for minimum, best in ((False, 1), (True, 2)):
        index = release(
            calibrated(selecting, minimum=minimum),
            lambda: scores,
            rng=rng,
            ledger=Ledger(Budget(1.0, 1e-6)),
            where="x",
        )
        assert type(index) is int and index == best


def test_scores_far_outside_are_clamped_not_refused(selecting, rng):
    index = release(
        calibrated(selecting),
        lambda: [-1e300, 0.0, 1e300, 1.0],
        rng=rng,
        ledger=Ledger(Budget(1.0, 1e-6)),
        where="x",
    )
    assert index == 2


def test_rounding_that_costs_more_than_the_budget(additive):
    # The exact Laplace sampler has a finer grid to offer, that of l2-Laplace vectors a coarser one.
    limits = {Gaussian: Budget(mu=1e-9), Laplace: Budget(1e-13), L2Laplace: Budget(1e-7)}
    budget = limits.get(additive, Budget(1e-9))
    with pytest.raises(GridOverflow, match="too small for dimension"):
        calibrate(additive, budget, **{**SETTINGS, "dimension": 10_000})


@pytest.mark.parametrize("epsilon", [1e-5, 1e-7, 1e-9])
def test_tiny_budgets_are_served_by_a_finer_grid(epsilon):
    """On the usual grid rounding would cost more than 2^-31 d: all of the budget, and more."""
    budget = Budget(epsilon)
    common = {"sensitivity": 1.0, "neighboring_relation": "replace_one"}
    for mechanism, sides in (
        (calibrate(Laplace, budget, dimension=10_000, **common), 1.0),
        (calibrate(NoisyMax, budget, candidates=10, **common), 2.0),
    ):
        Ledger(budget).spend(mechanism.event("x"))
        assert mechanism.scale == pytest.approx(sides / epsilon, rel=1e-2)
        assert mechanism.integer_scale <= 2**52


@pytest.mark.parametrize("kind", [Gaussian, Laplace])
def test_the_noise_is_rounded_up_to_an_integer_scale(kind):
    for noise in (1.0, math.pi, 1.0 - 2.0**-53, 1e-5):
        mechanism = kind(noise, **SETTINGS)
        actual = getattr(mechanism, mechanism.noise_name)
        assert noise <= actual <= noise * (1 + 2.0**-31)
        assert actual == mechanism.integer_scale * mechanism.grid_step
        assert 2**31 <= mechanism.integer_scale <= 2**32
    assert 2**20 <= kind(1.0, bound=1e12, **SETTINGS).integer_scale < 2**23


def test_calibration_ends_for_any_sensitivity(additive):
    """An excess of the last digits must not stay below one step of the grid forever."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        sensitivity = 10.0 ** rng.uniform(-8, 3)
        budget = Budget(10.0 ** rng.uniform(-2, 1.5), 1e-6)
        dimension = int(rng.integers(1, 200))
        calibrate(
            additive,
            budget,
            sensitivity=sensitivity,
            dimension=dimension,
            neighboring_relation="replace_one",
        )


# ---- Bad input ----------------------------------------------------------------------------------

BAD = [
    ("neighboring_relation", "swap"),
    ("neighboring_relation", None),
    ("error", -1.0),
    ("error", math.nan),
    ("error", math.inf),
    ("bound", -1.0),
    ("bound", 0.0),
    ("bound", "1"),
]
BAD_SIZES = [0.0, -1.0, math.nan, math.inf, "1", True, None]
BAD_COUNTS = [0, -1, 2.0, True, "3", math.nan]
OWN = {
    **{key: {"sensitivity": BAD_SIZES, "dimension": BAD_COUNTS} for key in ADDITIVE.values()},
    NoisyMax: {
        "sensitivity": BAD_SIZES,
        "candidates": BAD_COUNTS,
        "noise_kind": ["cauchy", 1],
        "monotone": [1, "yes", None],
        "minimum": [1, "yes", None],
    },
    Exponential: {"score_range": BAD_SIZES, "candidates": BAD_COUNTS, "minimum": [1, "yes", None]},
}
BAD_ARGUMENTS = [
    pytest.param(kind, name, value, id=f"{key}-{name}-{value}")
    for key, kind in MECHANISMS.items()
    for name, value in [*BAD, *((n, v) for n, values in OWN[kind].items() for v in values)]
]


@pytest.mark.parametrize(("kind", "name", "value"), BAD_ARGUMENTS)
def test_bad_arguments_name_themselves_and_what_was_expected(kind, name, value):
    """Nothing can have been spent: there is no mechanism yet whose release would spend.

    A sensitivity of 0 is refused too: diffprivlib's LinearRegression adds no noise at all where it
    computes one of 0 from bounds (0, b).
    """
    arguments = {**OF.get(kind, SETTINGS), name: value}
    with pytest.raises((TypeError, ValueError), match=rf"{name} must be .*; got"):
        kind(1.0, **arguments)


@pytest.mark.parametrize("noise", [0.0, -1.0, math.nan, math.inf, "1", True, None])
def test_bad_noise(kind, noise):
    with pytest.raises((TypeError, ValueError), match=f"{kind.noise_name} must be .*; got"):
        kind(noise, **OF.get(kind, SETTINGS))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"epsilon": 1.0, "delta": -1e-6}, "delta"),
        ({"epsilon": 1.0, "delta": math.nan}, "delta"),
        ({"epsilon": 1.0, "delta": 1e-320}, "delta"),
        ({"rho": 0.0}, "rho"),
        ({"mu": -1.0}, "mu"),
    ],
)
def test_bad_budgets_never_reach_a_mechanism(arguments, name):
    with pytest.raises(ValueError, match=rf"{name} must be .*; got"):
        Budget(**arguments)


def test_budgets_that_cannot_pay(kind):
    arguments = OF.get(kind, SETTINGS)
    if kind is Gaussian:
        with pytest.raises(ValueError, match="no pure guarantee"):
            calibrate(kind, Budget(1.0), **arguments)
    else:
        with pytest.raises(ValueError, match=r"priced in epsilon.*Give Budget\(epsilon\)"):
            calibrate(kind, Budget(mu=1.0), **arguments)


@pytest.mark.parametrize("noise", [1e-290, 1e290])
def test_enormous_and_tiny_scales_say_what_to_do(kind, noise):
    """By the noise, or, for the mechanism that takes an epsilon, by the range of the scores."""
    arguments = dict(OF.get(kind, SETTINGS))
    if kind is Exponential:
        arguments["score_range"], noise = noise, 1.0
    with pytest.raises(GridOverflow, match="Rescale"):
        kind(noise, **arguments)


def test_bounds_out_of_reach(kind):
    with pytest.raises(GridOverflow, match="Give a smaller bound"):
        calibrated(kind, bound=1e30)
