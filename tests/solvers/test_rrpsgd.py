"""RRPSGD, and Theorems 5 and 6 of Zhang et al. 2017."""

import numpy as np
import pytest
from scipy import stats

from dpfast import Budget, Loss, Problem, ProblemShape, plan, solve
from dpfast.fused import State, Walk
from dpfast.random import SecureGenerator
from dpfast.solvers._noisy_epochs import SCHEDULES
from dpfast.solvers.papers import rrpsgd

BUDGET = Budget(1.0, 1e-3)
SCHEDULE_NAMES = ["constant", "1/sqrt(t)", "1/t"]


def sigmoid_problem(n=150):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, 3))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.where(X @ [2.0, -1.0, 0.5] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return Problem(X, y, Loss("sigmoid"), data_norm=1.0)


def square_norm(problem, w):
    return float(np.sum(problem.value_and_gradient(w)[1] ** 2))


@pytest.mark.parametrize("schedule", SCHEDULE_NAMES)
def test_number_of_rounds_has_its_law(schedule):
    n_steps, step, smoothness, count = 12, 0.9, 1.1, 3000
    sizes = step * SCHEDULES[schedule](np.arange(1.0, n_steps + 1))
    weights = 2 * sizes - smoothness * sizes**2
    rng = SecureGenerator(0)
    drawn = [rrpsgd.draw_rounds(rng, step, schedule, n_steps, smoothness) for _ in range(count)]
    expected = count * weights / weights.sum()
    observed = np.bincount(drawn, minlength=n_steps)
    assert len(observed) == n_steps
    assert stats.chisquare(observed, expected).pvalue > 1e-6
    # One step later, as in the paper, is another law.
    if schedule != "constant":
        assert stats.chisquare(np.roll(observed, 1), expected).pvalue < 1e-6


@pytest.mark.parametrize("schedule", SCHEDULE_NAMES)
@pytest.mark.parametrize("n_steps", [3, 40, 5000])
def test_bound_sums_the_sizes(schedule, n_steps):
    sizes = 0.8 * SCHEDULES[schedule](np.arange(1.0, n_steps + 1))
    mass = np.sum(2 * sizes - 1.2 * sizes**2)
    expected = (2 * 0.5 + 1.2 * 3.0 * np.sum(sizes**2)) / mass
    got = rrpsgd.gradient_norm_bound(0.8, schedule, n_steps, 1.2, 3.0, 0.5)
    assert got == pytest.approx(expected, rel=2e-2)


@pytest.mark.parametrize("n, dim", [(100, 3), (16_384, 1), (16_385, 1), (32_768, 20), (10**7, 999)])
def test_noise_is_exact_by_default_however_many_rows(n, dim):
    settled = plan(ProblemShape(n, dim, 1.0, Loss("sigmoid"), intercept=0.0), "rrpsgd", BUDGET)
    assert settled.settings.noise == "discrete"
    assert "floating-point" not in settled.events[0].where
    assert settled.settings.steps == min(n**2, 2**28 // dim)


def test_all_steps_are_paid_for_whatever_the_number_taken():
    problem = sigmoid_problem()
    results = [solve(problem, "rrpsgd", BUDGET, random_state=seed) for seed in range(4)]
    rounds = [int(result.history["rounds"][0]) for result in results]
    assert len(set(rounds)) == 4
    assert all(0 <= r < 150**2 for r in rounds)
    for result in results:
        assert sum(event.count for event in result.privacy.events) == 150**2
        assert result.privacy.epsilon <= 1.0
        assert result.privacy.epsilon == results[0].privacy.epsilon
    # The data do not enter: another problem of the same shape takes as many rounds.
    other = Problem(np.zeros((150, 3)), np.ones(150), Loss("sigmoid"), data_norm=1.0)
    again = solve(other, "rrpsgd", BUDGET, random_state=2)
    assert again.history["rounds"][0] == rounds[2]


@pytest.mark.parametrize("schedule", ["constant", "1/sqrt(t)"])
def test_gradient_norm_is_below_theorem_5_in_expectation(schedule):
    problem = sigmoid_problem()
    settled = plan(problem, "rrpsgd", Budget(8.0, 1e-3), schedule=schedule)
    bound = settled.expected["gradient_norm_bound"]
    norms = [
        square_norm(
            problem,
            solve(problem, "rrpsgd", Budget(8.0, 1e-3), schedule=schedule, random_state=seed).w,
        )
        for seed in range(100)
    ]
    assert np.mean(norms) + 3 * np.std(norms) / np.sqrt(100) < bound
    # Neither so loose that nothing could fail it.
    assert bound < 100 * np.mean(norms)


def test_gradient_norm_is_below_theorem_6_with_its_probability():
    theory = pytest.importorskip("bench.papers.zhang2017")
    problem = sigmoid_problem(100)
    settled = plan(problem, "rrpsgd", Budget(8.0, 1e-3))
    shape, size = settled.shape, settled.settings.step
    steps, failure, n_steps, every = settled.settings.access, 0.1, 100**2, 50
    bound = theory.rrpsgd_high_probability_bound(
        size, shape.smoothness, shape.lipschitz, shape.dim, steps.stddev, 0.5, failure,
        iterations=n_steps,
    )  # fmt: skip
    rng, misses = SecureGenerator(5), 0
    for _ in range(10):
        state, norms = State(np.zeros(shape.dim)), []
        for _ in range(0, n_steps, every):
            norms.append(square_norm(problem, state.w))
            state = steps.answer(problem, rng, state, Walk(lambda a, b: size), every)
        misses += np.mean(norms) > bound
    assert misses <= stats.binom.isf(1e-6, 10, failure)


def test_bound_is_that_of_the_theory_module():
    theory = pytest.importorskip("bench.papers.zhang2017")
    settled = plan(ProblemShape(1000, 5, 1.0, Loss("sigmoid")), "rrpsgd", BUDGET)
    shape, deviation = settled.shape, settled.settings.access.stddev
    variance = theory.rrpsgd_variance(shape.lipschitz, shape.dim, deviation)
    expected = theory.rrpsgd_gradient_bound(
        settled.settings.step, shape.smoothness, variance, 0.5, iterations=10**6
    )
    assert settled.expected["gradient_norm_bound"] == pytest.approx(expected)


@pytest.mark.parametrize("epsilon", [0.05, 1.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
@pytest.mark.parametrize("n", [20, 1000, 50_000])
def test_the_papers_noise_is_that_of_theorem_4_and_is_charged_as_it_is(epsilon, delta, n):
    shape, budget = ProblemShape(n, 5, 2.0, Loss("sigmoid")), Budget(epsilon, delta)
    theirs = plan(shape, "rrpsgd", budget, calibration="paper")
    ours = plan(shape, "rrpsgd", budget)
    logs = np.log(3 * n / delta) * np.log(2 / delta)
    stddev = theirs.settings.access.stddev
    assert stddev == pytest.approx(2 * shape.lipschitz * np.sqrt(logs) / epsilon, rel=1e-4)
    assert stddev >= 2 * shape.lipschitz * np.sqrt(logs) / epsilon
    assert ours.settings.access.stddev < 0.7 * stddev
    (event,) = theirs.events
    assert event.count == n**2
    assert event.stddev == stddev


def test_the_papers_noise_is_refused_where_it_is_not_proved():
    shape = ProblemShape(100, 5, 1.0, Loss("sigmoid"))
    with pytest.raises(ValueError, match="epsilon up to 1"):
        plan(shape, "rrpsgd", Budget(1.01, 1e-3), calibration="paper")
    with pytest.raises(ValueError, match=r"noise for n² steps, here 10,000; with steps=10,000,000"):
        plan(shape, "rrpsgd", Budget(1.0, 1e-3), calibration="paper", steps=10**7)
    with pytest.raises(ValueError, match="calibration must be one of"):
        plan(shape, "rrpsgd", BUDGET, calibration="classical")


def test_the_report_of_the_papers_noise_says_what_was_spent():
    problem = sigmoid_problem()
    result = solve(problem, "rrpsgd", BUDGET, calibration="paper", random_state=0)
    assert 0.0 < result.privacy.epsilon < 0.7 * BUDGET.epsilon


def test_a_ridge_adds_to_the_smoothness_and_not_to_the_sensitivity():
    shape = ProblemShape(100, 5, 1.0)
    without, ridge = (plan(shape, "rrpsgd", BUDGET, **o) for o in ({}, {"alpha": 3.0}))
    assert without.events == ridge.events
    assert ridge.parameters["step"] <= 1.0 / (shape.smoothness + 3.0)


def test_wrong_options_are_refused():
    shape = ProblemShape(100, 5, 1.0)
    for options, message in [
        ({"steps": 0}, "steps must be"),
        ({"step": 1.01 / shape.smoothness}, "step must be"),
        ({"schedule": "linear"}, "schedule must be one of"),
        ({"initial_gap": 0.0}, "initial_gap must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            plan(shape, "rrpsgd", BUDGET, **options)
    with pytest.raises(ValueError, match=r"neighboring_relation must be 'replace_one' for solver"):
        plan(shape, "rrpsgd", BUDGET, neighboring_relation="add_or_remove_one")
    with pytest.raises(ValueError, match="loss must be smooth for rrpsgd; got 'hinge'"):
        plan(ProblemShape(100, 5, 1.0, Loss("hinge")), "rrpsgd", BUDGET)
    huber = ProblemShape(100, 5, 1.0, Loss("huber"))
    with pytest.raises(ValueError, match="initial_gap must be given for the loss 'huber'"):
        plan(huber, "rrpsgd", BUDGET)
    assert plan(huber, "rrpsgd", BUDGET, initial_gap=2.0).events
