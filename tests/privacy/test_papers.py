"""The papers' formulas: valid where they are accepted, never better than the defaults."""

import math

import pytest

from dpfast.privacy import (
    Budget,
    SubsampledGaussianEvent,
    gaussian_delta,
    gaussian_mu,
    smallest_noise,
    zcdp_epsilon,
    zcdp_rho,
)
from dpfast.privacy.papers import (
    advanced_composition,
    advanced_composition_share,
    gaussian_stddev,
    sgd_advanced_stddev,
    zcdp_simple_rho,
)

DELTAS = [1e-12, 1e-8, 1e-5, 1e-2, 0.1]


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 50.0])
def test_analytic_needs_at_most_the_noise_of_zhao(epsilon, delta):
    budget = Budget(epsilon, delta)
    analytic, zhao = (gaussian_stddev(budget, 3.0, name) for name in ("analytic", "zhao"))
    assert analytic == 3.0 / gaussian_mu(epsilon, delta) <= zhao
    assert zhao < 2 * analytic or delta > 1e-6
    assert gaussian_delta(epsilon, 3.0 / zhao) <= delta
    # The printed formula, which cancels at small delta.
    if delta > 1e-9:
        c = math.sqrt(math.log(2 / (math.sqrt(16 * delta + 1) - 1)))
        printed = (c + math.sqrt(c * c + epsilon)) / (math.sqrt(2) * epsilon) * 3.0
        assert zhao == pytest.approx(printed, rel=1e-6)


@pytest.mark.parametrize("delta", DELTAS)
def test_the_classical_formula_is_valid_up_to_one_and_refused_beyond(delta):
    for epsilon in (1e-3, 0.5, 1.0):
        stddev = gaussian_stddev(Budget(epsilon, delta), 1.0, "classical")
        assert stddev == pytest.approx(math.sqrt(2 * math.log(1.25 / delta)) / epsilon)
        assert gaussian_delta(epsilon, 1 / stddev) <= delta
    with pytest.raises(ValueError, match="not private"):
        gaussian_stddev(Budget(1.001, delta), 1.0, "classical")


def test_the_classical_formula_is_really_not_private_for_large_epsilon():
    epsilon, delta = 20.0, 1e-2
    stddev = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert gaussian_delta(epsilon, 1 / stddev) > delta


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("count", [1, 10, 10_000])
def test_advanced_composition_in_both_directions(epsilon, count):
    share = advanced_composition_share(epsilon, 1e-6, count)
    total, delta = advanced_composition(share, 0.0, count, 1e-6)
    assert epsilon * (1 - 1e-8) < total <= epsilon
    assert delta == 1e-6
    assert advanced_composition(share * (1 + 1e-6), 0.0, count, 1e-6)[0] > epsilon
    assert share >= epsilon / count * (1 - 1e-9)


def test_advanced_composition_formula():
    spread = math.sqrt(2 * 50 * math.log(1e5)) * 0.1
    expected = spread + 50 * 0.1 * (math.exp(0.1) - 1)
    assert advanced_composition(0.1, 1e-8, 50, 1e-5)[0] == pytest.approx(expected)
    assert advanced_composition(0.1, 1e-8, 50, 1e-5)[1] == pytest.approx(1e-5 + 5e-7)
    assert advanced_composition(2.0, 0.0, 3, 1e-6)[0] == 6.0
    assert advanced_composition(1e4, 0.9, 3, 1e-6) == (3e4, 1.0)


def test_sgd_with_advanced_composition_wastes_its_budget():
    """The table of lessons says 40 times: by the same noise, the epsilon is many times smaller."""
    budget = Budget(1.0, 1e-8)
    sizes = {"batch": 200, "n_samples": 40_000}
    stddev = sgd_advanced_stddev(budget, 1.0, steps=2_000, **sizes)

    def events_of(noise):
        yield SubsampledGaussianEvent(
            sensitivity=1.0,
            stddev=noise,
            dimension=1,
            sampling="poisson",
            neighboring_relation="add_or_remove_one",
            where="step",
            count=2_000,
            **sizes,
        )

    assert stddev > 3 * smallest_noise(events_of, budget)


def test_zcdp_by_the_simple_rule():
    for epsilon in (1e-3, 1.0, 50.0):
        rho = zcdp_simple_rho(epsilon, 1e-6)
        simple = rho + 2.0 * math.sqrt(rho * math.log(1e6))
        assert epsilon * (1.0 - 1e-9) <= simple <= epsilon
        assert zcdp_epsilon(rho, 1e-6) <= simple
        assert rho < zcdp_rho(epsilon, 1e-6)


@pytest.mark.parametrize("calibration", ["zhao", "classical"])
@pytest.mark.parametrize("budget", [Budget(1.0), Budget(rho=1.0), Budget(mu=1.0)], ids=str)
def test_budgets_without_epsilon_and_delta_are_refused(calibration, budget):
    with pytest.raises(ValueError, match=r"Give Budget\(epsilon, delta\)"):
        gaussian_stddev(budget, 1.0, calibration)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: gaussian_stddev(1.0, 1.0), "budget must be"),
        (lambda: gaussian_stddev(Budget(1.0, 1e-6), 0.0), "sensitivity must be"),
        (lambda: gaussian_stddev(Budget(1.0, 1e-6), math.nan), "sensitivity must be"),
        (lambda: gaussian_stddev(Budget(1.0, 1e-6), 1.0, "tight"), "calibration must be"),
        (lambda: gaussian_stddev(Budget(1.0, 0.5), 1.0, "zhao"), "delta < 1/2"),
        (lambda: advanced_composition(-1.0, 0.0, 1, 0.1), "epsilon must be"),
        (lambda: advanced_composition(1.0, 1.0, 1, 0.1), "delta must be"),
        (lambda: advanced_composition(1.0, 0.0, 0, 0.1), "count must be"),
        (lambda: advanced_composition(1.0, 0.0, 1, 0.0), "slack must be"),
        (lambda: advanced_composition_share(0.0, 0.1, 3), "epsilon must be"),
        (lambda: advanced_composition_share(1.0, 0.1, 2.5), "count must be"),
        (lambda: zcdp_simple_rho(1.0, 0.0), "delta must be"),
        (lambda: zcdp_simple_rho(math.nan, 0.1), "epsilon must be"),
        (
            lambda: sgd_advanced_stddev(Budget(1.0), 1.0, steps=1, batch=1, n_samples=2),
            "needs Budget",
        ),
        (
            lambda: sgd_advanced_stddev(Budget(1.0, 1e-6), 1.0, steps=1, batch=3, n_samples=2),
            "batch must be",
        ),
    ],
)
def test_bad_arguments(call, match):
    with pytest.raises((TypeError, ValueError), match=match):
        call()
