"""Private gradient descent, heavy ball, Nesterov's method and MASG."""

import math

import numpy as np
import pytest
from declared import Unlimited

from dpfast import Budget, Ledger, Problem, ProblemShape, plan, solve
from dpfast.privacy import gaussian_epsilon
from dpfast.privacy.auditing import audit_mu
from dpfast.queries import gradient
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out
from dpfast.theory import kuru2020 as theory

METHODS = ("dp-gd", "dp-hb", "dp-nag", "dp-nag-opt", "dp-masg", "dp-masg-opt")
SHAPE = ProblemShape(5000, 6, 1.0, intercept=0.0, alpha=0.01)


def spent(settled):
    ledger = Ledger(settled.budget)
    for event in settled.events:
        ledger.spend(event)
    return ledger.guarantee()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("budget", [Budget(0.3), Budget(3.0), Budget(0.3, 1e-7), Budget(3.0, 1e-5),
                                    Budget(rho=0.2), Budget(mu=0.7)], ids=str)  # fmt: skip
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_budget_is_used_and_not_passed(method, budget, relation):
    settled = plan(SHAPE, method, budget, neighboring_relation=relation, iterations=12)
    assert len(settled.events) == 12
    guarantee = spent(settled)
    if budget.epsilon is not None:
        assert 0.999 * budget.epsilon <= guarantee.epsilon <= budget.epsilon
    elif budget.mu is not None:
        assert 0.999 * budget.mu <= guarantee.mu <= budget.mu
    else:
        assert 0.999 * budget.rho <= guarantee.rho <= budget.rho


@pytest.mark.parametrize(
    ("method", "budget"),
    [*((method, Budget(1.0)) for method in METHODS), ("dp-nag", Budget(1.0, 1e-6))],
    ids=str,
)
def test_samples_are_priced_and_drawn(method, budget, classification):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0, alpha=0.05)
    result = solve(problem, method, budget, iterations=4, batch=50, random_state=1)
    assert {event.mechanism.partition("_")[0] for event in result.privacy.events} == {"subsampled"}
    assert 0.97 * budget.epsilon <= result.privacy.epsilon <= budget.epsilon
    whole = plan(problem, method, budget, iterations=4)
    # Amplified: much less noise on a sum than without sampling.
    assert result.plan.events[0].noise < 0.5 * whole.events[0].noise
    with pytest.raises(ValueError, match="batch must be None for neighboring_relation="):
        plan(problem, method, budget, batch=50, neighboring_relation="add_or_remove_one")


def test_the_noise_of_a_sample_follows_the_formula():
    epsilon, T, n, m = 1.0, 10, 5000, 100
    settled = plan(SHAPE, "dp-nag", Budget(epsilon), iterations=T, batch=m, data_l1_norm=1.5)
    event = settled.events[0]
    e0 = math.log(1 + (math.exp(epsilon / T) - 1) * n / m)
    assert event.scale == pytest.approx(2 * 1.5 / e0, rel=1e-6)
    assert settled.settings.gradient.query.sensitivity("replace_one") == pytest.approx(3.0)


def steep(sign, n=2, R=0.05):
    """All rows zero but one, on the steep side of a hinge: the worst record for every gradient."""
    X = np.zeros((n, 1))
    X[0] = R * sign
    return Problem(X, np.ones(n), "huberized-hinge", data_norm=R, intercept=0.0, alpha=1e-4)


def last_weights(method, budget, runs, relation="replace_one", n=2, **options):
    """Final weights of whole runs on worst-case neighbors; linear in the noisy gradients."""
    other = -1.0 if relation == "replace_one" else 0.0
    settled = plan(steep(1.0, n), method, budget, neighboring_relation=relation, **options)
    for sign, seed in ((1.0, 11), (other, 12)):
        problem, rng = steep(sign, n), SecureGenerator(seed)
        yield np.array([carry_out(settled, problem, rng, Unlimited()).w[0] for _ in range(runs)])


def halve(monkeypatch):
    honest = gradient.records_apart
    monkeypatch.setattr(gradient, "records_apart", lambda r: 0.5 * honest(r))


# ---- the last iterate ---------------------------------------------------------------------------


def test_last_iterate_plans_have_less_noise():
    budget = Budget(1.0, 1e-6)
    for T, alpha in ((1, 0.1), (50, 0.1), (50, 0.001)):
        hidden, open_ = (
            plan(SHAPE.with_alpha(alpha), "dp-gd", budget, iterations=T, step=1.0, analysis=kind)
            for kind in ("last-iterate", "composition")
        )
        assert spent(hidden).epsilon <= budget.epsilon
        ratio = hidden.expected["gradient_noise_stddev"] / open_.expected["gradient_noise_stddev"]
        assert ratio <= 1.0 + 1e-4
        if T == 50 and alpha == 0.1:
            assert ratio < 0.7


@pytest.mark.parametrize(
    "options",
    [{"clip_norm": 0.1}, {"batch": 10}, {"average": 0.5}, {"split": "optimal"},
     {"keep_iterates": True}],
    ids=lambda o: next(iter(o)),
)  # fmt: skip
def test_the_last_iterate_needs_its_conditions(options):
    with pytest.raises(ValueError, match="with analysis='last-iterate'"):
        plan(SHAPE, "dp-gd", Budget(1.0, 1e-6), analysis="last-iterate", **options)
    with pytest.raises(ValueError, match="noise must be 'gaussian'"):
        plan(SHAPE, "dp-gd", Budget(1.0), analysis="last-iterate")


def test_the_last_iterate_is_an_accountant_by_name(classification):
    X, y = classification
    problem, budget = Problem(X, y, data_norm=2.0, alpha=0.5), Budget(1.0, 1e-6)
    named = solve(problem, "dp-gd", budget, accountant="last-iterate", random_state=0)
    other = solve(problem, "dp-gd", budget, analysis="last-iterate", random_state=0)
    np.testing.assert_array_equal(named.w, other.w)
    assert named.privacy.events == other.privacy.events
    assert named.privacy.epsilon == other.privacy.epsilon <= 1.0
    for solver in ("dp-nag", "dp-sgd", "auto"):
        with pytest.raises(ValueError, match="solver must be 'dp-gd' for accountant="):
            plan(SHAPE, solver, budget, accountant="last-iterate")
    with pytest.raises(ValueError, match="analysis must be 'last-iterate'"):
        plan(SHAPE, "dp-gd", budget, accountant="last-iterate", analysis="composition")


@pytest.mark.audit
def test_audit_of_the_last_iterate(monkeypatch):
    """Strong ridge: the last iterate forgets, and its price is far below composition's."""
    budget, claim = Budget(mu=2.0), 2.0
    options = {"iterations": 6, "step": 1.0, "alpha": 0.01, "n": 20, "w_radius": 100.0}

    def audited():
        # Weights stay so small that the worst record is on the steep side.
        return audit_mu(*last_weights("dp-gd", budget, 500, analysis="last-iterate", **options))

    assert 0.5 * claim < audited().value <= claim
    halve(monkeypatch)
    assert audited().value > claim


def test_the_last_iterate_alone_is_released(classification):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0, alpha=0.5)
    result = solve(problem, "dp-gd", Budget(1.0, 1e-6), analysis="last-iterate", random_state=0)
    assert dict(result.history) == {}
    (event,) = result.privacy.events
    assert event.mechanism == "gdp"
    assert gaussian_epsilon(event.mu, 1e-6) <= 1.0
    assert np.linalg.norm(result.w) <= result.plan.settings.w_radius * (1 + 1e-12)


# ---- convergence --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_without_noise_the_error_falls_as_its_bound(method, noiseless, classification):
    from optimizers.test_optimizers import reference_minimizer

    X, y = classification
    problem = Problem(X, y, data_norm=2.0)
    best = problem.value_and_gradient(reference_minimizer(X, y, 0.01), 0.01)[0]
    start = math.log(2.0) - best
    previous = math.inf
    for T in (1, 10, 60, 200):
        result = solve(problem, method, Budget(1e4), alpha=0.01, iterations=T, step=0.5)
        error = problem.value_and_gradient(result.w, 0.01)[0] - best
        assert result.plan.settings.schedule.iterations == T
        expected = result.plan.expected["excess_risk_bound"]
        assert error <= expected
        assert error < min(previous, start)
        previous = error
        assert result.history["gradient_norm"].shape == (T,)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("batch", [None, 100])
def test_measured_error_is_below_the_expected(method, batch, classification):
    from optimizers.test_optimizers import reference_minimizer

    X, y = classification
    problem = Problem(X, y, data_norm=2.0)
    best = problem.value_and_gradient(reference_minimizer(X, y, 0.05), 0.05)[0]
    options = {"alpha": 0.05, "iterations": 15, "step": 0.4, "batch": batch}
    runs = [solve(problem, method, Budget(20.0), random_state=k, **options) for k in range(12)]
    errors = [problem.value_and_gradient(run.w, 0.05)[0] - best for run in runs]
    assert np.mean(errors) <= runs[0].plan.expected["excess_risk_bound"]


def test_averages_projections_and_starts(classification):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0, alpha=0.05)
    start = np.linspace(-1.0, 1.0, 7)
    last, mean = (
        solve(problem, "dp-nag", Budget(2.0, 1e-6), iterations=20, w0=start, w_radius=0.5,
              average=share, random_state=3)
        for share in (0.0, 1.0)
    )  # fmt: skip
    assert np.linalg.norm(last.w) <= 0.5 * (1 + 1e-12)
    assert np.linalg.norm(mean.w) < np.linalg.norm(last.w)
    assert tuple(last.privacy.events) == tuple(mean.privacy.events)


@pytest.mark.parametrize("method", METHODS)
def test_iterates_on_request_are_those_of_shorter_runs(method, classification):
    """Post-processing of the same releases: neither events nor weights change."""
    X, y = classification
    problem = Problem(X, y, data_norm=2.0, alpha=0.05)
    options = {"iterations": 12, "step": 0.5, "w_radius": 3.0, "random_state": 4}
    plain = solve(problem, method, Budget(2.0), **options)
    kept = solve(problem, method, Budget(2.0), keep_iterates=True, **options)
    assert "iterates" not in plain.history
    iterates = kept.history["iterates"]
    assert iterates.shape == (12, 7)
    assert tuple(kept.privacy.events) == tuple(plain.privacy.events)
    np.testing.assert_array_equal(iterates[-1], plain.w)
    if method == "dp-gd":
        steps = np.diff(np.vstack([np.zeros(7), iterates]), axis=0)
        np.testing.assert_allclose(
            np.linalg.norm(steps, axis=1), kept.history["step"] * kept.history["gradient_norm"]
        )
    mean = solve(problem, method, Budget(2.0), keep_iterates=True, average=0.5, **options)
    np.testing.assert_allclose(mean.w, iterates[-6:].mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_iterations_are_as_few_as_a_good_bound_needs(method):
    """On the paper's problem; beyond 100 where the bound asks for more."""
    shape = ProblemShape(100_000, 20, math.sqrt(20.0), intercept=0.0, alpha=0.02)
    options = {"data_l1_norm": 20.0, "initial_error": 10.0}

    def bound(**given):
        return plan(shape, method, Budget(1.0), **options, **given).expected["excess_risk_bound"]

    chosen = plan(shape, method, Budget(1.0), **options)
    T = chosen.settings.iterations
    best = min(bound(iterations=int(k)) for k in np.geomspace(10, 4000, 25))
    assert chosen.expected["excess_risk_bound"] <= 1.08 * best
    assert bound(max_iterations=20) > chosen.expected["excess_risk_bound"]
    assert plan(shape, method, Budget(1.0), max_iterations=T, **options).settings.iterations <= T
    assert T > 100 or method in ("dp-hb", "dp-nag", "dp-nag-opt")


def test_the_heavy_ball_is_planned_by_quadratics_or_by_certificates():
    shape = ProblemShape(100_000, 20, math.sqrt(20.0), intercept=0.0, alpha=0.02)
    options = {"data_l1_norm": 20.0, "initial_error": 10.0}
    quick = plan(shape, "dp-hb", Budget(1.0), **options)
    safe = plan(shape, "dp-hb", Budget(1.0), bound="strongly convex", **options)
    assert quick.settings.bound == "quadratic"
    assert safe.settings.bound == "strongly convex"
    assert quick.expected["excess_risk_bound"] < 0.1 * safe.expected["excess_risk_bound"]
    # The certificates of the grid and the faster one in closed form are used.
    mu, smoothness, T = 0.02, 5.02, 1000
    for step, momentum in ((0.1, 0.5), (0.01, 0.98)):
        given = {"iterations": T, "step": step, "momentum": momentum, "bound": "strongly convex"}
        settled = plan(shape, "dp-hb", Budget(1.0), **given, **options)
        stage = settled.settings.schedule.stages[0]
        simple = theory.simple_certificate(stage.step, momentum, mu, smoothness)
        response = simple.decay(stage.step, mu, smoothness, 20).response(T)
        variance = settled.expected["gradient_noise_stddev"] ** 2
        ridge = 0.5 * mu * (6.0 / shape.row_norm) ** 2
        plain = response.bound(10.0, variance) + ridge
        assert settled.expected["excess_risk_bound"] < 0.5 * plain
    # No certificate covers this momentum: the worst quadratic prices it.
    settled = plan(shape, "dp-hb", Budget(1.0), momentum=0.9, step=1.0, bound="strongly convex")
    assert settled.settings.bound == "quadratic"


@pytest.mark.parametrize(("n", "d", "epsilon"), [(1000, 10, 1.0), (30_000, 100, 1.0)])
def test_the_heavy_ball_moves_under_pure_budgets(n, d, epsilon):
    settled = plan(ProblemShape(n, d, 1.0), "dp-hb", Budget(epsilon))
    assert settled.settings.iterations > 1
    assert settled.shape.alpha > 1e-3
    assert settled.expected["excess_risk_bound"] < math.log(2.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": 5, "max_iterations": 9}, "max_iterations must be None unless"),
        ({"max_iterations": 0}, "max_iterations must be an integer in"),
        ({"keep_iterates": 2}, "keep_iterates must be"),
        ({"iterations": 0}, "iterations must be an integer in"),
        ({"step": math.nan}, "step must be a real number"),
        ({"step": 1.5}, "step must be a real number"),
        ({"momentum": 1.0}, "momentum must be a real number"),
        ({"batch": 5001}, "batch must be an integer in"),
        ({"w0": [1.0]}, "w0 must hold 6 finite numbers"),
        ({"w0": [math.inf] * 6}, "w0 must hold 6 finite numbers"),
        ({"clip_norm": 0.0}, "clip_norm must be a real number"),
        ({"data_l1_norm": 1.0}, "data_l1_norm must be None for Gaussian noise"),
        ({"noise": "uniform"}, "noise must be one of"),
        ({"average": 2.0}, "average must be a real number"),
        ({"split": "random"}, "split must be one of"),
        ({"alpha": -1.0}, "alpha must be a real number"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_bad_options_are_named(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        plan(SHAPE, "dp-nag", Budget(1.0, 1e-6), **options)


def test_losses_without_guarantees_are_refused():
    for loss, message in (("sigmoid", "convex"), ("hinge", "smooth")):
        with pytest.raises(ValueError, match=f"loss must be {message}"):
            plan(ProblemShape(100, 2, 1.0, loss), "dp-gd", Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="clip_norm must be given for the loss 'squared'"):
        plan(ProblemShape(100, 2, 1.0, "squared"), "dp-gd", Budget(1.0, 1e-6))
    shape = ProblemShape(100, 2, 1.0, "squared")
    assert plan(shape, "dp-gd", Budget(1.0, 1e-6), clip_norm=1.0).events


def test_optimal_shares_lower_the_expected_error():
    for budget in (Budget(1.0), Budget(1.0, 1e-6)):
        options = {"iterations": 60, "step": 0.5, "minimizer_norm": 0.1}
        even, best = (plan(SHAPE, name, budget, **options) for name in ("dp-nag", "dp-nag-opt"))
        assert best.expected["excess_risk_bound"] < 0.95 * even.expected["excess_risk_bound"]
        noise = [event.noise for event in best.events]
        assert noise[0] > 1.1 * noise[-1]
