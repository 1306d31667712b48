"""Objective perturbation: the linear term, certified minimizers, the ridge, whole runs."""

import math
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dpfast import Budget, CertificateNotReached, Ledger, Problem, ProblemShape, plan, solve
from dpfast.column_blocks import ColumnBlock
from dpfast.losses import Loss
from dpfast.objectives import Erm, LinearTerm
from dpfast.optimizers import OPTIMIZERS, OptimizeResult
from dpfast.privacy import ACCOUNTANTS
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out
from dpfast.solvers._mean_unit import drawn_to_mean

NAME = "objective-perturbation"
SHAPE = ProblemShape(n_samples=1000, n_features=4, data_norm=1.0)
BUDGETS = [Budget(1.0, 1e-6), Budget(1.0)]
RELATIONS = ["replace_one", "add_or_remove_one"]


class TestLinearTerm:
    def test_value_gradient_and_constants(self, classification):
        X, y = classification
        erm = Erm(Problem(X, y, data_norm=2.0), 0.1)
        b, w = np.linspace(-1.0, 1.0, 7), np.linspace(0.3, -0.2, 7)
        term = LinearTerm(erm, b)
        value, gradient = term.value_and_gradient(w)
        assert value == pytest.approx(erm.value_and_gradient(w)[0] + b @ w, rel=1e-14)
        for k in range(7):
            step = 1e-6 * np.eye(7)[k]
            slope = (
                term.value_and_gradient(w + step)[0] - term.value_and_gradient(w - step)[0]
            ) / 2e-6
            assert gradient[k] == pytest.approx(slope, abs=1e-8)
        np.testing.assert_array_equal(term.hessian(w), erm.hessian(w))
        assert (term.dim, term.strong_convexity, term.smoothness) == (
            erm.dim, erm.strong_convexity, erm.smoothness)  # fmt: skip
        assert term.gradient_error(1.0) > erm.gradient_error(1.0)

    @pytest.mark.parametrize("optimizer", ["lbfgs", "newton"])
    def test_its_minimizer_balances_it(self, classification, optimizer):
        X, y = classification
        erm = Erm(Problem(X, y, data_norm=2.0), 0.1)
        b = np.linspace(-1.0, 1.0, 7)
        result = OPTIMIZERS[optimizer](LinearTerm(erm, b), tolerance=1e-10)
        assert result.converged
        np.testing.assert_allclose(erm.value_and_gradient(result.w)[1], -b, atol=1e-9)

    @pytest.mark.parametrize("optimizer", ["lbfgs", "newton"])
    def test_a_ridge_of_single_weights(self, classification, optimizer):
        X, y = classification
        erm = Erm(Problem(X, y, data_norm=2.0), 0.1)
        b, w = np.linspace(-1.0, 1.0, 7), np.linspace(0.3, -0.2, 7)
        ridge = np.array([0.0, 0.2, 0.0, 1.0, 0.0, 0.0, 3.0])
        plain, term = LinearTerm(erm, b), LinearTerm(erm, b, ridge)
        (value, gradient), (least, flat) = (f.value_and_gradient(w) for f in (term, plain))
        assert value == pytest.approx(least + 0.5 * ridge @ w**2, rel=1e-14)
        np.testing.assert_allclose(gradient, flat + ridge * w, rtol=1e-14)
        np.testing.assert_allclose(term.hessian(w), plain.hessian(w) + np.diag(ridge))
        assert term.strong_convexity == erm.strong_convexity
        assert term.smoothness == erm.smoothness + 3.0
        assert term.gradient_error(2.0) > plain.gradient_error(2.0)
        found = OPTIMIZERS[optimizer](term, tolerance=1e-10)
        assert found.converged
        at_minimum = erm.value_and_gradient(found.w)[1]
        np.testing.assert_allclose(at_minimum, -b - ridge * found.w, atol=1e-9)

    @pytest.mark.parametrize("bad", [np.ones(3), np.full(7, -1.0), np.full(7, np.inf)])
    def test_bad_ridges(self, classification, bad):
        X, y = classification
        with pytest.raises(ValueError, match="ridge must hold 7 finite numbers >= 0"):
            LinearTerm(Erm(Problem(X, y, data_norm=2.0), 0.1), np.zeros(7), bad)

    @pytest.mark.parametrize("bad", [np.zeros(3), np.full(7, np.nan), np.full(7, np.inf)])
    def test_bad_coefficients(self, classification, bad):
        X, y = classification
        with pytest.raises(ValueError, match="coefficients must hold 7 finite numbers"):
            LinearTerm(Erm(Problem(X, y, data_norm=2.0), 0.1), bad)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_events_charge_everything(budget, relation):
    noise = "gaussian" if budget.delta else "l2-laplace"
    settled = plan(SHAPE, NAME, budget, alpha=0.01, neighboring_relation=relation, noise=noise)
    linear, output = settled.events
    assert linear.lipschitz >= SHAPE.lipschitz
    assert linear.smoothness >= SHAPE.smoothness
    assert linear.ridge <= settled.shape.alpha * 1000
    tolerance = settled.settings.gradient_tolerance
    assert output.sensitivity >= 2 * tolerance / settled.shape.alpha
    # The output costs next to nothing, and next to all of the budget is used.
    accountant = ACCOUNTANTS["objective" if budget.delta else "pure"]
    alone = accountant.epsilon([linear], budget.delta)
    total = accountant.epsilon([linear, output], budget.delta)
    assert 0.998 * budget.epsilon <= alone < total <= budget.epsilon
    assert total >= 0.9999999 * budget.epsilon


def test_weights_count_in_both_constants():
    shape = ProblemShape(1000, 4, 1.0, max_weight=3.0)
    heavy = plan(shape, NAME, Budget(1.0, 1e-6), noise="gaussian").events[0]
    light = plan(SHAPE, NAME, Budget(1.0, 1e-6), noise="gaussian").events[0]
    assert heavy.lipschitz == pytest.approx(3.0 * light.lipschitz)
    assert heavy.smoothness == pytest.approx(3.0 * light.smoothness)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_a_given_ridge_is_a_lower_bound(epsilon):
    free = plan(SHAPE, NAME, Budget(epsilon, 1e-6))
    assert free.settings.alpha_added == free.shape.alpha
    small = plan(SHAPE, NAME, Budget(epsilon, 1e-6), alpha=1e-9)
    assert small.shape.alpha == pytest.approx(free.shape.alpha, rel=0.05)
    assert small.settings.alpha_added > 0.0
    assert "alpha_added" in str(small)
    large = plan(SHAPE, NAME, Budget(epsilon, 1e-6), alpha=10.0)
    assert (large.shape.alpha, large.settings.alpha_added) == (10.0, 0.0)
    # Privacy alone needs this much.
    assert free.shape.alpha * 1000 > SHAPE.smoothness / math.expm1(epsilon)


def with_categories(n=4_000, first=None):
    """Labels that depend on a number and on five categories, of which the last is empty."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1.0, 1.0, n), np.eye(5)[rng.integers(0, 4, n)]])
    y = (X @ [1.0, -1.0, 0.0, 0.5, 1.0, 0.0] + rng.logistic(size=n) > 0.0) * 2.0 - 1.0
    if first is not None:
        X[0], y[0] = first
    columns = (ColumnBlock("number", 0, 1), ColumnBlock("one-hot", 1, 6))
    return Problem(X, y, data_norm=1.5, columns=columns)


def test_empty_categories_have_no_large_weights():
    """Without a ridge of their own they have ones of 10 to 30."""
    problem = with_categories()
    for budget in (Budget(16.0), Budget(16.0, 1e-6)):
        settled = plan(problem, NAME, budget)
        assert settled.settings.category_alpha > 5.0 * settled.shape.alpha
        assert "category_alpha" in str(settled)
        rng, ledger = SecureGenerator, Ledger
        runs = [carry_out(settled, problem, rng(k), ledger(budget)).w for k in range(8)]
        assert np.sqrt(np.mean([w[5] ** 2 for w in runs])) < 3.0
        assert np.allclose(np.mean(runs, axis=0)[0], 1.0, atol=0.2)
    assert plan(SHAPE, NAME, Budget(1.0)).settings.category_alpha is None


@pytest.mark.parametrize("intercept", [1.0, 0.0])
@pytest.mark.parametrize("loss", ["huber", "pinball"])
def test_pure_budgets_learn_where_numbers_lie(loss, intercept):
    """In bounds a thousand times too wide, where noise would be hundreds of times their range."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (3_000, 3))
    y = 0.4 * intercept + 1e-3 * (X @ [1.0, -1.0, 0.5] + 0.3 * rng.standard_normal(3_000))
    problem = Problem(X, y, loss, data_norm=2.0, intercept=intercept)
    settled = plan(problem, NAME, Budget(2.0))
    assert ACCOUNTANTS["pure"].spent(settled.events, Budget(2.0)) == pytest.approx(2.0, abs=1e-6)
    errors = []
    for seed in range(5):
        ledger = Ledger(Budget(2.0))
        w = carry_out(settled, problem, SecureGenerator(seed), ledger).w
        errors.append(problem.margins(w) - 0.4 * intercept - 1e-3 * (X @ [1.0, -1.0, 0.5]))
        assert ACCOUNTANTS["pure"].spent(ledger.events, Budget(2.0)) <= 2.0
    assert np.sqrt(np.mean(np.square(errors))) < 0.5e-3
    if loss == "pinball":
        return
    # In fits without it errors are as long as the range of all targets, or longer.
    unlearned = plan(problem, NAME, Budget(2.0), target_rounds=0)
    w = carry_out(unlearned, problem, SecureGenerator(0), Ledger(Budget(2.0))).w
    assert np.std(problem.margins(w)) > 3e-3


@pytest.mark.parametrize("name", ["poisson", "gamma", "negative-binomial"])
def test_pure_budgets_learn_the_mean_of_counts_and_costs(name):
    """Otherwise fits were hundreds of times worse than a constant in such bounds."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (4_000, 3))
    margins = X @ [0.6, -0.6, 0.3] - 2.5
    loss = Loss(name, width=4.0)
    y = np.clip(rng.gamma(2.0, 0.5 * np.exp(margins)), *loss.target_range)
    problem = Problem(X, y, loss, data_norm=2.0)
    settled, found = plan(problem, NAME, Budget(1.0)), np.zeros(4)
    assert ACCOUNTANTS["pure"].spent(settled.events, Budget(1.0)) == pytest.approx(1.0, abs=1e-6)
    for seed in range(4):
        ledger = Ledger(Budget(1.0))
        w = carry_out(settled, problem, SecureGenerator(seed), ledger).w
        assert ACCOUNTANTS["pure"].spent(ledger.events, Budget(1.0)) <= 1.0
        found += problem.margins(w) @ np.c_[X, np.ones(4_000)] / 4_000 / 4
    exact = margins @ np.c_[X, np.ones(4_000)] / 4_000
    np.testing.assert_allclose(found, exact, atol=0.1)
    unlearned = plan(problem, NAME, Budget(1.0), target_rounds=0)
    assert unlearned.settings.mean_unit is None
    plain = replace(problem.shape, intercept=0.0)
    assert plan(plain, NAME, Budget(1.0)).settings.mean_unit is None
    assert plan(problem, NAME, Budget(1.0, 1e-6)).settings.mean_unit is None


def test_noise_goes_where_costs_spread_by_a_part_of_their_mean():
    """Weights that are noise cost several times what there is to explain."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (10_000, 6))
    y = np.clip(rng.gamma(100.0, 0.01 * np.exp(0.1 * X[:, 0])), 0.02, 50.0)
    problem = Problem(X, y, Loss("gamma", width=4.0), data_norm=2.5)
    settled = plan(problem, NAME, Budget(0.1))
    lengths = []
    for seed in range(4):
        w = carry_out(settled, problem, SecureGenerator(seed), Ledger(Budget(0.1))).w
        lengths.append(np.linalg.norm(w[:-1]))
    assert np.mean(lengths) < 0.2
    # Of plain counts they stay, and few rows spend more on the mean.
    spread = SimpleNamespace(relative=1.0, level=SimpleNamespace(weight=1.0))
    plain, w = ProblemShape(20_000, 6, 2.5, Loss("poisson"), alpha=1e-3), np.full(7, 0.2)
    assert drawn_to_mean(w, spread, plain, 500.0) == pytest.approx(w, rel=0.1)
    spread.relative = 0.1
    assert drawn_to_mean(w, spread, plain, 5_000.0) == pytest.approx(0.0 * w)


def test_few_rows_spend_a_pure_budget_on_the_mean():
    shares = []
    for n in (100, 1_000, 100_000):
        shape = ProblemShape(n, 4, 1.0, Loss("poisson", width=4.0))
        counts, mean = (access for access, _ in plan(shape, NAME, Budget(0.2)).accesses[:2])
        shares.append(
            sum(e.sensitivity / e.scale for e in (*counts.events(), *mean.events())) / 0.2
        )
    assert shares == pytest.approx([0.7, 0.6, 0.2], rel=0.01)


def test_ranges_are_learned_of_numbers_with_a_pure_budget():
    numbers = ProblemShape(1000, 4, 1.0, "huber")
    assert plan(numbers, NAME, Budget(1.0)).settings.target_range is not None
    counts = ProblemShape(1000, 4, 1.0, Loss("poisson", width=4.0))
    for shape, budget in [
        (SHAPE, Budget(1.0)), (counts, Budget(1.0)), (numbers, Budget(1.0, 1e-6)),
    ]:  # fmt: skip
        assert plan(shape, NAME, budget).settings.target_range is None
        with pytest.raises(ValueError, match="target_rounds must be 0"):
            plan(shape, NAME, budget, target_rounds=2)


def test_a_ridge_of_single_weights_leaves_neighbors_as_near_as_charged():
    """The linear terms that lead to the same minimizer, and the volumes around them."""
    rare, common = np.eye(6)[5], np.eye(6)[1] + np.eye(6)[0]
    near, far = with_categories(40, (rare, 1.0)), with_categories(40, (common, -1.0))
    access = plan(near, NAME, Budget(16.0)).settings.access
    event, ridge = access.events()[0], np.diag(access.more_ridge)
    assert np.any(ridge > 0.0)
    rng = np.random.default_rng(2)
    for w in rng.standard_normal((50, 7)) * np.geomspace(0.01, 10.0, 50)[:, None]:
        risks = [Erm(problem, access.alpha) for problem in (near, far)]
        terms = [-40.0 * (risk.value_and_gradient(w)[1] + ridge @ w) for risk in risks]
        assert np.linalg.norm(terms[0] - terms[1]) <= event.sensitivity
        volumes = [np.linalg.slogdet(risk.hessian(w) + ridge)[1] for risk in risks]
        assert abs(volumes[0] - volumes[1]) <= event.log_jacobian


@pytest.mark.parametrize("delta", [0.0, 1e-8])
def test_no_cliff_in_the_expected_risk(delta):
    shape = ProblemShape(36_000, 32, 4.0)
    plans = [plan(shape, NAME, Budget(e, delta)) for e in np.geomspace(0.01, 10.0, 30)]
    risks = np.array([p.expected["excess_risk_guess"] for p in plans])
    assert np.all(np.diff(risks) < 0.0)
    # From one epsilon to the next, 27 % larger, it falls by a bounded factor.
    assert np.all(risks[1:] > 0.4 * risks[:-1])
    ridges = np.array([p.shape.alpha for p in plans])
    assert np.all(ridges[1:] > 0.4 * ridges[:-1])


@pytest.mark.parametrize("budget", [Budget(0.5), Budget(0.5, 1e-6)], ids=str)
def test_excess_risk_bound_holds_on_average(budget, classification):
    X, y = classification
    problem = Problem(np.tile(X, (4, 1)), np.tile(y, 4), data_norm=2.0)
    reference = OPTIMIZERS["newton"](Erm(problem, 0.02), tolerance=1e-12).w
    norm = float(np.linalg.norm(reference))
    best = problem.value_and_gradient(reference, 0.0)[0]
    noise = "gaussian" if budget.delta else "l2-laplace"
    settled = plan(problem, NAME, budget, minimizer_norm=norm, noise=noise)
    runs = [
        carry_out(settled, problem, SecureGenerator(seed), Ledger(budget)).w for seed in range(60)
    ]
    excess = np.array([problem.value_and_gradient(w, 0.0)[0] - best for w in runs])
    assert excess.mean() <= settled.expected["excess_risk_bound"]


def test_nothing_is_released_without_a_certificate(classification, monkeypatch):
    X, y = classification
    problem = Problem(X, y, data_norm=2.0)
    settled = plan(problem, NAME, Budget(1.0, 1e-6))

    def stuck(objective, *, tolerance, w0=None):
        return OptimizeResult(np.zeros(7), 0.0, 1.0, 1.0, 1, False)

    monkeypatch.setitem(OPTIMIZERS, "newton", stuck)
    monkeypatch.setitem(OPTIMIZERS, "lbfgs", stuck)
    ledger = Ledger(Budget(1.0, 1e-6))
    with pytest.raises(CertificateNotReached, match="nothing is released"):
        carry_out(settled, problem, SecureGenerator(), ledger)
    assert ledger.events == settled.events


@pytest.mark.parametrize(
    ("loss", "reason"), [("hinge", "smooth"), ("sigmoid", "convex"), ("squared", "bounded slope")]
)
def test_losses_without_a_proof_are_refused(loss, reason):
    with pytest.raises(ValueError, match=f"loss must be .*{reason}.* got {loss!r}"):
        plan(ProblemShape(100, 3, 1.0, loss), NAME, Budget(1.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a real number in"),
        ({"alpha": float("nan")}, "alpha must be"),
        ({"optimizer": "sgd9"}, "optimizer must be one of 'auto'"),
        ({"noise": "uniform"}, "noise must be one of"),
        ({"minimizer_norm": -1.0}, "minimizer_norm must be a real number > 0"),
        ({"accountant": "gdp"}, "accountant must be one of"),
        ({"accountant": "pure", "noise": "gaussian"}, "noise must be 'l2-laplace'"),
        ({"accountant": "objective", "noise": "l2-laplace"}, "noise must be 'gaussian'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        plan(SHAPE, NAME, Budget(1.0, 1e-6), **options)


def test_gaussian_needs_delta():
    with pytest.raises(ValueError, match="Gaussian noise needs a delta"):
        plan(SHAPE, NAME, Budget(1.0), noise="gaussian")


@pytest.mark.parametrize(
    ("delta", "loss"), [(0.0, "logistic"), (1e-12, "logistic"), (0.1, "huber")]
)
def test_extreme_public_quantities_plan(delta, loss):
    for n in (1, 10**9):
        for d in (1, 10**5):
            for R in (1e-6, 1e6):
                for epsilon in (1e-3, 50.0):
                    settled = plan(ProblemShape(n, d, R, loss), NAME, Budget(epsilon, delta))
                    assert 0 < settled.shape.alpha < math.inf
                    assert 0 < settled.expected["excess_risk_bound"] < math.inf


@pytest.mark.parametrize("loss", ["huberized-hinge", "squared-hinge", "huber", "pinball"])
def test_other_losses_reach_their_optimum(loss, noiseless, classification):
    X, y = classification
    problem = Problem(X, y, loss, data_norm=2.0)
    result = solve(problem, NAME, Budget(1e4, 1e-6), alpha=0.05)
    best = OPTIMIZERS["newton"](Erm(problem, 0.05), tolerance=1e-10).w
    np.testing.assert_allclose(result.w, best, atol=1e-4)


# ---- real tables --------------------------------------------------------------------------------

DATA = os.environ.get("DPFAST_TEST_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="DPFAST_TEST_DATA names no directory")
# Of two published implementations on Bank at delta = 1e-8, their bugs repaired (objective
# perturbation with unit rows, and approximate minima perturbation untuned), the better train
# log-loss and the better test accuracy in percent above the majority, 88.3: measured under
# add_or_remove_one.
PUBLISHED = {
    0.05: (0.365, 0.0), 0.1: (0.342, 0.0), 0.2: (0.330, 0.0), 0.4: (0.286, 0.9), 0.8: (0.266, 1.3),
    1.6: (0.260, 1.4),
}  # fmt: skip


def log_loss(w, X, y):
    return float(np.mean(np.logaddexp(0.0, -y * (X @ w[:-1] + w[-1]))))


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
def test_bank_beats_published_implementations(relation):
    """By log-loss clearly; in accuracy up to three standard errors, under either relation, though
    `replace_one` promises twice as much as what was published."""
    from bench.problems import bank

    splits = [bank(Path(DATA)).split(k) for k in range(2)]
    problems = [Problem(train.X, train.y, data_norm=train.data_norm) for train, _ in splits]
    for epsilon, (published, over_majority) in PUBLISHED.items():
        budget = Budget(epsilon, 1e-8)
        losses, gains = [], []
        for problem, (train, test) in zip(problems, splits, strict=True):
            for seed in range(10):
                w = solve(problem, NAME, budget, neighboring_relation=relation, random_state=seed).w
                losses.append(log_loss(w, train.X, train.y))
                right = np.mean((test.X @ w[:-1] + w[-1] > 0.0) == (test.y > 0.0))
                gains.append(100.0 * (right - np.mean(test.y < 0.0)))
        assert np.mean(losses) < published, epsilon
        error = np.std(gains, ddof=1) / math.sqrt(len(gains))
        assert np.mean(gains) > over_majority - max(3.0 * error, 0.05), epsilon


@pytest.mark.slow
def test_no_cliff_on_a_real_table():
    """Mean log-loss of 50 runs at 60 epsilons, monotone within four standard errors."""
    from bench.problems import randhie

    data = randhie()
    problem = Problem(data.X, data.y, data_norm=data.data_norm)
    means, errors = [], []
    for epsilon in np.geomspace(0.01, 10.0, 60):
        settled = plan(problem, NAME, Budget(epsilon, 1e-6))
        runs = [
            carry_out(settled, problem, SecureGenerator(seed), Ledger(settled.budget)).w
            for seed in range(50)
        ]
        losses = [log_loss(w, data.X, data.y) for w in runs]
        means.append(np.mean(losses))
        errors.append(np.std(losses, ddof=1) / math.sqrt(50))
    means, errors = np.array(means), np.array(errors)
    slack = 4.0 * np.hypot(errors[1:], errors[:-1]) + 1e-6
    assert np.all(np.diff(means) <= slack)
