"""Output perturbation: sensitivity on worst-case neighbors, certificates, the ridge rule."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

from dpfast import (
    Budget,
    CertificateNotReached,
    Ledger,
    Problem,
    ProblemShape,
    plan,
    solve,
)
from dpfast.objectives import Erm, ErmShape
from dpfast.optimizers import OPTIMIZERS, OptimizeResult
from dpfast.privacy.calibration import gaussian_mu
from dpfast.queries import CertifiedMinimizer, MinimizerInUnits
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out

SHAPE = ProblemShape(n_samples=1000, n_features=4, data_norm=1.0)


def test_the_event_charges_everything():
    """Minimizer, certificate, grid: the event's sensitivity is above the bare one, slightly."""
    for budget in (Budget(1.0, 1e-6), Budget(1.0)):
        settled = plan(SHAPE, "output-perturbation", budget, alpha=0.01)
        (event,) = settled.events
        bare = SHAPE.minimizer_sensitivity(0.01, "replace_one")
        tolerance = settled.settings.gradient_tolerance
        assert bare + 2 * tolerance / 0.01 <= event.sensitivity <= bare * 1.001


def test_noise_scale_is_the_analytic_one():
    settled = plan(SHAPE, "output-perturbation", Budget(1.0, 1e-6), alpha=0.01, noise="gaussian")
    (event,) = settled.events
    exact = event.sensitivity / gaussian_mu(1.0, 1e-6)
    assert exact <= event.stddev * (1 + 1e-12)
    assert event.stddev <= exact * (1 + 1e-5)
    (event,) = plan(SHAPE, "output-perturbation", Budget(0.5), alpha=0.01).events
    assert event.sensitivity / 0.5 <= event.scale * (1 + 1e-12)
    assert event.scale <= event.sensitivity / 0.5 * (1 + 1e-5)


def test_quieter_noise_is_chosen():
    for d, epsilon, delta in [(1, 0.5, 1e-12), (2, 8.0, 1e-12), (200, 0.5, 1e-6), (3, 1.0, 1e-5)]:
        shape = ProblemShape(1000, d, 1.0, intercept=0.0)
        budget = Budget(epsilon, delta)
        deviation = {
            noise: plan(shape, "output-perturbation", budget, alpha=0.1, noise=noise).expected[
                "noise_stddev_per_weight"
            ]
            for noise in ("gaussian", "l2-laplace")
        }
        chosen = plan(shape, "output-perturbation", budget, alpha=0.1).settings.noise
        assert chosen == min(deviation, key=deviation.get)


def test_auto_alpha_minimizes_the_bound():
    for budget in (Budget(0.1, 1e-6), Budget(1.0), Budget(5.0, 1e-9)):
        settled = plan(SHAPE, "output-perturbation", budget, minimizer_norm=3.0)
        factor = settled.expected["noise_stddev_per_weight"] / settled.events[0].sensitivity

        def bound(log_alpha, factor=factor):
            alpha = math.exp(log_alpha)
            deviation = factor * SHAPE.minimizer_sensitivity(alpha, "replace_one")
            goal = ErmShape(SHAPE, alpha)
            return goal.ridge_risk(3.0) + goal.noise_risk(deviation, math.inf)

        best = scipy.optimize.minimize_scalar(bound, bounds=(-20, 10), method="bounded")
        assert settled.shape.alpha == pytest.approx(math.exp(best.x), rel=1e-2)


@pytest.mark.parametrize("budget", [Budget(0.5), Budget(0.5, 1e-6)], ids=str)
def test_excess_risk_bound_holds_on_average(budget, classification):
    X, y = classification
    X, y = np.tile(X, (4, 1)), np.tile(y, 4)
    problem = Problem(X, y, data_norm=2.0)
    reference = OPTIMIZERS["newton"](Erm(problem, 0.02), tolerance=1e-12).w
    norm = float(np.linalg.norm(reference))
    best = problem.value_and_gradient(reference, 0.0)[0]
    runs = [
        solve(problem, "output-perturbation", budget, minimizer_norm=norm, random_state=seed)
        for seed in range(200)
    ]
    excess = np.array([problem.value_and_gradient(run.w, 0.0)[0] - best for run in runs])
    assert excess.mean() <= runs[0].plan.expected["excess_risk_bound"]


def test_private_weights_stay_in_the_public_ball():
    """Tiny budgets must not produce enormous weights."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 3)), rng.choice([-1.0, 1.0], 50)
    problem = Problem(X, y, data_norm=1.0)
    for epsilon in (1e-5, 1e-2, 1.0):
        result = solve(problem, "output-perturbation", Budget(epsilon, 1e-6), alpha=1e-3)
        assert np.linalg.norm(result.w) <= result.plan.settings.radius * (1 + 1e-12)


def lazy(result_w):
    """An optimizer that pretends: it stops early and says so in `converged`."""

    def minimize(objective, *, tolerance, max_passes=1, w0=None):
        value, gradient = objective.value_and_gradient(result_w)
        norm = float(np.linalg.norm(gradient))
        return OptimizeResult(
            result_w, value, norm, norm / objective.strong_convexity, 1, norm <= tolerance
        )

    return minimize


def test_a_missed_certificate_is_polished(monkeypatch, noiseless, classification):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0)
    honest = solve(problem, "output-perturbation", Budget(1.0, 1e-6), alpha=0.1).w
    monkeypatch.setitem(OPTIMIZERS, "lbfgs", lazy(np.zeros(7)))
    polished = solve(
        problem, "output-perturbation", Budget(1.0, 1e-6), alpha=0.1, optimizer="lbfgs"
    ).w
    np.testing.assert_allclose(polished, honest, atol=1e-4)
    assert np.linalg.norm(polished) > 0.1


def test_without_a_certificate_nothing_is_released(monkeypatch, classification):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0)
    for name in OPTIMIZERS:
        monkeypatch.setitem(OPTIMIZERS, name, lazy(np.ones(7)))
    settled = plan(problem, "output-perturbation", Budget(1.0, 1e-6), alpha=0.1)
    ledger = Ledger(settled.budget)
    with pytest.raises(CertificateNotReached, match="nothing is released"):
        carry_out(settled, problem, SecureGenerator(), ledger)
    assert ledger.events == settled.events  # the attempt looked at the data: it stays spent


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": 0.0}, ValueError, "alpha must be a real number in"),
        ({"alpha": "big"}, TypeError, "alpha must be"),
        ({"alpha": float("nan")}, ValueError, "alpha must be"),
        ({"optimizer": "sgd9"}, ValueError, "optimizer must be one of 'auto'"),
        ({"noise": "uniform"}, ValueError, "noise must be one of"),
        ({"minimizer_norm": -1.0}, ValueError, "minimizer_norm must be a real number > 0"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        plan(SHAPE, "output-perturbation", Budget(1.0, 1e-6), **options)


def test_noise_and_accountant_must_agree():
    budget = Budget(1.0, 1e-6)
    with pytest.raises(ValueError, match="noise must be 'l2-laplace' with accountant='pure'"):
        plan(SHAPE, "output-perturbation", budget, noise="gaussian", accountant="pure")
    with pytest.raises(ValueError, match="noise must be 'gaussian' with accountant='zcdp'"):
        plan(SHAPE, "output-perturbation", budget, noise="l2-laplace", accountant="zcdp")


def test_gaussian_needs_delta():
    with pytest.raises(ValueError, match="delta"):
        plan(SHAPE, "output-perturbation", Budget(1.0), noise="gaussian")


def test_extreme_public_quantities_plan():
    """Plans at the corners of the allowed ranges are finite and honest."""
    for n in (1, 10**9):
        for d in (1, 10**5):
            for R in (1e-6, 1.0, 1e6):
                for epsilon in (1e-3, 50.0):
                    shape = ProblemShape(n, d, R)
                    settled = plan(shape, "output-perturbation", Budget(epsilon, 1e-6))
                    assert 0 < settled.shape.alpha < math.inf
                    assert 0 < settled.expected["noise_stddev_per_weight"] < math.inf


@pytest.mark.parametrize(("loss", "reason"), [("sigmoid", "convex"), ("squared", "bounded slope")])
def test_losses_without_the_needed_constants_are_refused(loss, reason):
    with pytest.raises(ValueError, match=f"loss must be .*{reason}.* got {loss!r}"):
        plan(ProblemShape(100, 3, 1.0, loss), "output-perturbation", Budget(1.0))


@pytest.mark.parametrize("loss", ["huberized-hinge", "squared-hinge", "huber", "pinball"])
def test_other_losses_reach_their_optimum(loss, noiseless, classification):
    X, y = classification
    problem = Problem(X, y, loss, data_norm=2.0)
    result = solve(problem, "output-perturbation", Budget(1e4, 1e-6), alpha=0.05)

    def objective(w):
        value, gradient = problem.value_and_gradient(w, 0.05)
        return value, gradient

    best = scipy.optimize.minimize(objective, np.zeros(7), jac=True, tol=1e-12).x
    np.testing.assert_allclose(result.w, best, atol=1e-4)


def numbers(n=1500, center=0.3, half=0.02, **groups):
    """Targets that fill a small part of their bounds."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    y = center + half * (X @ [0.5, -0.3, 0.0] + 0.2 * rng.uniform(-1.0, 1.0, n))
    return Problem(X, y, "huber", data_norm=2.0, **groups)


def test_minimizers_in_other_units_are_those_of_targets_that_were_scaled():
    center, half = 0.3, 0.02
    shape = ErmShape(numbers().shape, 0.02)
    found = MinimizerInUnits(shape, 1e-9, 1e3).evaluate(numbers(), center, half)
    scaled = numbers().with_target((numbers().target - center) / half)
    expected = CertifiedMinimizer(shape, 1e-9).evaluate(scaled)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    query = MinimizerInUnits(shape, 1e-9, 1e3)
    for point in ((0.0, 0.0), (2.0, 1e-3), (math.nan, 1.0)):
        with pytest.raises(ValueError, match="Nothing was spent"):
            query.check_point(*point)
    with pytest.raises(ValueError, match="center must be 0 without an intercept"):
        MinimizerInUnits(ErmShape(replace(shape.problem, intercept=0.0), 0.02), 1e-9, 1e3
                         ).check_point(0.1, 1.0)  # fmt: skip
    with pytest.raises(ValueError, match="loss must be one of numbers"):
        MinimizerInUnits(ErmShape(SHAPE, 0.02), 1e-9, 1e3)


def test_pure_budgets_find_persons_targets_in_wide_bounds():
    """They were in units of the bounds: a hundred times farther from the mean than the rows."""
    persons = numbers(3000, groups=np.arange(3000) // 2, max_rows_per_group=2)
    settled = plan(persons, "auto", Budget(4.0))
    assert settled.solver == "output-perturbation" and settled.settings.target_range.rounds == 3
    X, y = np.random.default_rng(3).uniform(-1.0, 1.0, (3000, 3)), persons.target
    for seed in range(3):
        w = solve(persons, "auto", Budget(4.0), random_state=seed).w
        assert np.mean(np.square(y - X @ w[:3] - w[3])) < 0.6 * np.var(y)


def test_ranges_of_targets_are_learned_where_that_is_proved():
    grouped = replace(numbers().shape, unit="group", max_rows_per_group=2)
    for given in ({}, {"mode": "iterate"}, {"w_radius": 1.0}):
        shape = numbers().shape if not given else grouped
        settled = plan(shape, "output-perturbation", Budget(1.0), **given)
        assert settled.settings.target_range is None and len(settled.accesses) == 1
    with pytest.raises(ValueError, match="target_rounds must be 0 but for"):
        plan(grouped, "output-perturbation", Budget(1.0), w_radius=1.0, target_rounds=2)
    with pytest.raises(ValueError, match="target_rounds must be 0 for the loss"):
        plan(grouped, "output-perturbation", Budget(1.0, 1e-6), target_rounds=2)
