"""What every additive mechanism must do, tried over the table."""

import math

import numpy as np
import pytest

from dpfast.errors import BudgetExceeded, GridOverflow, UnsupportedEvent
from dpfast.mechanisms import MECHANISMS, Gaussian, L2Laplace
from dpfast.privacy import EVENTS, Budget, Ledger
from dpfast.random import SecureGenerator

SETTINGS = {"sensitivity": 0.5, "dimension": 4, "neighboring_relation": "replace_one"}
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
PAIRS = [
    pytest.param(kind, budget, id=f"{name}-{budget}")
    for name, kind in MECHANISMS.items()
    for budget in BUDGETS
    if budget.kind != {"gaussian": "pure", "l2_laplace": "gdp"}[name]
]


@pytest.fixture(params=MECHANISMS)
def kind(request):
    return MECHANISMS[request.param]


@pytest.fixture
def rng():
    return SecureGenerator(random_state=7)


def calibrated(kind, **changes):
    return kind.calibrate(Budget(1.0, 1e-6), **{**SETTINGS, **changes})


def test_the_table_has_the_names_of_the_events():
    assert set(MECHANISMS) <= set(EVENTS)
    for name, kind in MECHANISMS.items():
        event = calibrated(kind).event("here")
        assert event.mechanism == name
        assert (event.where, event.count, event.dimension) == ("here", 1, 4)


@pytest.mark.parametrize(("kind", "budget"), PAIRS)
@pytest.mark.parametrize("changes", [{}, {"error": 0.1}, {"bound": 1e3}, {"dimension": 10_000}])
def test_a_calibrated_release_fits_its_budget_and_less_noise_does_not(kind, budget, changes):
    mechanism = kind.calibrate(budget, **{**SETTINGS, **changes})
    Ledger(budget).spend(mechanism.event("release"))
    less = kind(mechanism.event("").noise * (1 - 1e-5), **{**SETTINGS, **changes})
    with pytest.raises(BudgetExceeded):
        Ledger(budget).spend(less.event("release"))


def test_gaussian_calibrated_for_another_accountant():
    budget = Budget(1.0, 1e-6)
    Ledger(budget, "zcdp").spend(
        Gaussian.calibrate(budget, **SETTINGS, accountant="zcdp").event("release")
    )
    with pytest.raises(BudgetExceeded):
        Ledger(budget, "zcdp").spend(Gaussian.calibrate(budget, **SETTINGS).event("release"))


def test_the_charge_covers_error_and_rounding(kind):
    mechanism = calibrated(kind, error=0.01)
    event = mechanism.event("x")
    least = 0.5 + 2 * 0.01 + 2.0 * mechanism.grid_step
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
    mechanism.release(query, rng=rng, ledger=ledger, where="x")
    assert seen == [(mechanism.event("x"),)]


def test_a_query_that_fails_stays_paid(kind, rng):
    ledger = Ledger(Budget(1.0, 1e-6))

    def query():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrated(kind).release(query, rng=rng, ledger=ledger, where="x")
    assert len(ledger.events) == 1


@pytest.mark.parametrize(
    ("ledger", "error"),
    [(Ledger(Budget(0.5, 1e-6)), BudgetExceeded), (Ledger(Budget(0.5)), Exception)],
)
def test_a_refused_query_is_not_called(kind, rng, ledger, error):
    def query():
        pytest.fail("the data was touched")

    with pytest.raises(error) as caught:
        calibrated(kind).release(query, rng=rng, ledger=ledger, where="x")
    assert isinstance(caught.value, BudgetExceeded | UnsupportedEvent)
    assert ledger.events == ()


@pytest.mark.parametrize("value", [np.zeros(3), np.zeros((4, 1)), 0.0, np.zeros(0)])
def test_a_wrong_shape_is_an_error_and_stays_paid(kind, rng, value):
    ledger = Ledger(Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match=r"shape \(4,\)"):
        calibrated(kind).release(lambda: value, rng=rng, ledger=ledger, where="x")
    assert len(ledger.events) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_an_error_that_does_not_quote_it(kind, rng, bad):
    ledger = Ledger(Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="finite") as caught:
        calibrated(kind).release(lambda: [123.25, bad, 0.0, 0.0], rng=rng, ledger=ledger, where="x")
    assert "123" not in str(caught.value)
    assert len(ledger.events) == 1


def test_without_noise_the_value_comes_back_on_the_grid(kind, noiseless, rng):
    mechanism = calibrated(kind)
    value = np.array([0.1, -3.0, 1e5, 0.0])
    ledger = Ledger(Budget(1.0, 1e-6))
    released = mechanism.release(lambda: value, rng=rng, ledger=ledger, where="x")
    assert released.dtype == np.float64 and released.shape == (4,)
    assert np.abs(released - value).max() <= mechanism.grid_step / 2


def test_values_far_outside_are_clamped_not_refused(kind, noiseless, rng):
    mechanism = calibrated(kind)
    released = mechanism.release(
        lambda: [1e300, -1e300, 0.0, 1.0], rng=rng, ledger=Ledger(Budget(1.0, 1e-6)), where="x"
    )
    limit = 2.0**61 * mechanism.grid_step
    np.testing.assert_array_equal(released[:2], [limit, -limit])


def test_released_values_lie_on_one_grid_whatever_the_data(kind, rng):
    """The low bits of the noise must not meet low bits of the value (Mironov 2012)."""
    mechanism = calibrated(kind)
    for value in (np.zeros(4), np.full(4, 1.0 / 3.0), np.array([1e-9, 0.1, 0.2, 0.3])):
        for _ in range(20):
            released = mechanism.release(
                lambda value=value: value, rng=rng, ledger=Ledger(Budget(1.0, 1e-6)), where="x"
            )
            steps = released / mechanism.grid_step
            np.testing.assert_array_equal(steps, np.rint(steps))


def test_every_coordinate_gets_fresh_noise(kind, rng):
    mechanism = calibrated(kind, dimension=1000)
    draws = [
        mechanism.release(
            lambda: np.zeros(1000), rng=rng, ledger=Ledger(Budget(1.0, 1e-6)), where="x"
        )
        for _ in range(2)
    ]
    # Equal values among 2,000 draws on some 2^31 points: below 1e-3 in expectation.
    assert len(np.unique(np.concatenate(draws))) >= 1998


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sensitivity", 0.0),
        ("sensitivity", -1.0),
        ("sensitivity", math.nan),
        ("sensitivity", math.inf),
        ("sensitivity", "1"),
        ("sensitivity", True),
        ("dimension", 0),
        ("dimension", 2.0),
        ("neighboring_relation", "swap"),
        ("error", -1.0),
        ("error", math.nan),
        ("bound", -1.0),
        ("bound", "1"),
    ],
)
def test_bad_arguments_name_themselves(kind, name, value):
    for make in (lambda **s: kind(1.0, **s), lambda **s: kind.calibrate(Budget(1.0, 1e-6), **s)):
        with pytest.raises((TypeError, ValueError), match=name):
            make(**{**SETTINGS, name: value})


@pytest.mark.parametrize("noise", [0.0, -1.0, math.nan, math.inf, "1", True])
def test_bad_noise(kind, noise):
    with pytest.raises((TypeError, ValueError), match=kind.noise_name):
        kind(noise, **SETTINGS)


def test_bounds_out_of_reach(kind):
    with pytest.raises(GridOverflow, match="bound"):
        calibrated(kind, bound=1e30)


def test_rounding_that_costs_more_than_the_budget(kind):
    budget = Budget(mu=1e-9) if kind is Gaussian else Budget(1e-9)
    with pytest.raises(GridOverflow, match="too small for dimension"):
        kind.calibrate(budget, **{**SETTINGS, "dimension": 10_000})


def test_budgets_that_cannot_pay():
    with pytest.raises(ValueError, match="no pure guarantee"):
        Gaussian.calibrate(Budget(1.0), **SETTINGS)
    with pytest.raises(ValueError, match="priced in epsilon"):
        L2Laplace.calibrate(Budget(mu=1.0), **SETTINGS)


def test_calibration_ends_for_any_sensitivity(kind):
    """An excess of the last digits must not stay below one step of the grid forever."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        sensitivity = 10.0 ** rng.uniform(-8, 3)
        budget = Budget(10.0 ** rng.uniform(-2, 1.5), 1e-6)
        dimension = int(rng.integers(1, 200))
        kind.calibrate(
            budget,
            sensitivity=sensitivity,
            dimension=dimension,
            neighboring_relation="replace_one",
        )
