"""The exponential mechanism on a ball: its law, its price, and how good it is."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare, norm

from dpfast import Budget, Problem, ProblemShape, plan, solve
from dpfast.privacy import audit_epsilon
from dpfast.random import SecureGenerator
from dpfast.solvers import SOLVERS, _ball, exponential, localized_exponential

FALSE_ALARM = 1e-6
TEMPERATURES = [1.0, 2 / 3, 3 / 2]


def make(n, d, seed=0, R=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X *= (R / np.linalg.norm(X, axis=1))[:, None]
    y = np.where(X @ np.linspace(1.0, 2.0, d) + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, y


def objective(X, y, alpha, points):
    """F at the rows of `points`."""
    margins = points @ (X * y[:, None]).T
    return np.logaddexp(0.0, -margins).mean(axis=1) + 0.5 * alpha * (points**2).sum(axis=1)


def draw(X, y, ball, count, seed, center=None):
    problem = Problem(X, y, data_norm=1.0, intercept=0.0)
    center = np.zeros(X.shape[1]) if center is None else center
    draws = ball.draws(problem, center, SecureGenerator(seed))
    return np.array(list(itertools.islice(draws, count)))


def ball_for(X, alpha, epsilon, radius=None, relation="replace_one", offset=0.0):
    shape = ProblemShape(*X.shape, data_norm=1.0, intercept=0.0, alpha=alpha)
    return _ball.settle(
        shape, epsilon, relation, radius=radius or shape.minimizer_norm(alpha), offset=offset
    )


def with_scale(ball, factor):
    return _ball.Ball(**{**vars(ball), "scale": ball.scale * factor})


def law_on_cells(X, y, ball, center, edges, fine=40):
    """Probabilities of the cells of a grid, by sums over a finer one."""
    centers = [
        (low + (high - low) * (np.arange(fine) + 0.5) / fine)
        for low, high in itertools.pairwise(edges)
    ]
    axis = np.concatenate(centers)
    points = np.stack(np.meshgrid(*[axis] * X.shape[1], indexing="ij"), axis=-1)
    flat = points.reshape(-1, X.shape[1])
    density = np.exp(-ball.scale * (objective(X, y, ball.alpha, flat + center) - 0.3))
    density *= np.linalg.norm(flat, axis=1) <= ball.radius
    cells = len(edges) - 1
    split = density.reshape([cells, fine] * X.shape[1])
    law = split.sum(axis=tuple(range(1, 2 * X.shape[1], 2))).ravel()
    return law / law.sum()


def fit_of(points, edges, law):
    """The chi-square test's p-value; rare cells are put together."""
    counts = np.histogramdd(points, [edges] * points.shape[1])[0].ravel()
    assert counts.sum() == len(points)
    common = law * len(points) >= 10
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(law[common], law[~common].sum()) * len(points)
    keep = expected > 0
    return chisquare(observed[keep], expected[keep]).pvalue


@pytest.mark.parametrize("factor", TEMPERATURES)
@pytest.mark.parametrize(("d", "epsilon", "offset"), [(1, 30.0, 0.0), (2, 60.0, 0.4)])
def test_samples_have_the_law_and_no_other_temperature(d, epsilon, offset, factor):
    X, y = make(12, d)
    center = np.full(d, -offset / math.sqrt(d))
    ball = ball_for(X, 0.2, epsilon, radius=1.5 if offset else None, offset=offset)
    points = draw(X, y, with_scale(ball, factor), 2500, 1, center) - center
    edges = np.linspace(-ball.radius, ball.radius, 25 if d == 1 else 11)
    p = fit_of(points, edges, law_on_cells(X, y, ball, center, edges))
    assert (p > FALSE_ALARM) == (factor == 1.0)


@pytest.fixture(scope="module")
def cold():
    """Samples in five dimensions, so cold that the ball's edge plays no role."""
    X, y = make(300, 5)
    ball = ball_for(X, 0.1, 60.0)
    return X, y, ball, draw(X, y, ball, 2000, 2)


def gradients(X, y, alpha, points):
    margins = points @ (X * y[:, None]).T
    return -(y / (1.0 + np.exp(margins))) @ X / len(X) + alpha * points


def test_moments_in_five_dimensions(cold):
    """Integrating by parts, E grad F = 0 and E <grad F, w - a> = d / s."""
    X, y, ball, points = cold
    slopes = gradients(X, y, ball.alpha, points)
    limit = norm.isf(FALSE_ALARM / 20)
    deviation = slopes.std(axis=0) / math.sqrt(len(points))
    assert np.all(np.abs(slopes.mean(axis=0)) <= limit * deviation)
    virial = (slopes * (points - points.mean(axis=0))).sum(axis=1)
    error = limit * virial.std() / math.sqrt(len(points))
    for factor in TEMPERATURES:
        right = abs(virial.mean() - 5 / (ball.scale * factor)) <= error
        assert right == (factor == 1.0)


def test_excess_risk_is_below_its_bound(cold):
    """d / s, the constant behind Theorem G.1 (d L R / epsilon up to constants, over n for ERM)."""
    X, y, ball, points = cold
    least = objective(X, y, ball.alpha, points).min()
    optimum = plan(Problem(X, y, data_norm=1.0, intercept=0.0), "exponential", Budget(60.0))
    assert optimum.expected["excess_risk_bound"] > 0.0
    excess = objective(X, y, ball.alpha, points).mean() - least
    assert 0.2 * ball.excess_risk < excess < ball.excess_risk
    loss_range = ball.radius * 1.0
    assert ball.excess_risk == pytest.approx(5 * 2 * loss_range / (300 * 60.0), rel=0.05)


def test_the_envelope_is_one(cold, monkeypatch):
    """Exponents are never negative, also around a point that is no minimizer."""
    X, y, ball, _ = cold
    exponents = []

    def record(exponent, rng):
        exponents.append(exponent)
        return True

    monkeypatch.setattr(_ball, "_accepts", record)
    draw(X, y, ball, 100, 3)

    class Wrong:
        w = np.full(5, 0.2)

    monkeypatch.setattr(_ball, "OPTIMIZERS", {"newton": lambda *_, **__: Wrong})
    draw(X, y, ball_for(X, 0.5, 0.5), 100, 3)
    assert min(exponents) > 0.0


def test_the_law_does_not_depend_on_where_the_envelope_touches(monkeypatch):
    X, y = make(12, 1)
    ball = ball_for(X, 0.5, 5.0)

    class Wrong:
        w = np.array([0.0])

    monkeypatch.setattr(_ball, "OPTIMIZERS", {"newton": lambda *_, **__: Wrong})
    points = draw(X, y, ball, 2500, 4)
    edges = np.linspace(-ball.radius, ball.radius, 25)
    law = law_on_cells(X, y, ball, np.zeros(1), edges)
    assert fit_of(points, edges, law) > FALSE_ALARM


@pytest.mark.parametrize("exponent", [0.0, 0.3, 1.0, 2.7])
def test_coins_of_exponential_bias(exponent):
    rng = SecureGenerator(5)
    heads = sum(_ball._accepts(exponent, rng) for _ in range(4000))
    assert binomtest(heads, 4000, math.exp(-exponent)).pvalue > FALSE_ALARM
    if exponent:
        for wrong in (exponent * 2 / 3, exponent * 3 / 2):
            assert binomtest(heads, 4000, math.exp(-wrong)).pvalue < FALSE_ALARM


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_the_charged_range_covers_worst_case_neighbors(relation, offset):
    """The two ends of the ball along the record, where the range is reached around the origin."""
    shape = ProblemShape(50, 2, 1.0, intercept=0.0, alpha=0.1)
    radius = 3.0
    ball = _ball.settle(shape, 1.0, relation, radius=radius, offset=offset)
    t = np.linspace(-radius, radius, 1001) + offset
    changes = [np.logaddexp(0, -t) - other for other in (np.logaddexp(0, t), np.logaddexp(0, -t))]
    if relation == "add_or_remove_one":
        changes = [np.logaddexp(0, -t), np.logaddexp(0, t)]
    reached = max(np.ptp(change) for change in changes) * ball.scale / 50
    assert reached <= ball.epsilon
    if offset == 0.0:
        assert reached >= 0.98 * ball.epsilon


@pytest.mark.audit
@pytest.mark.parametrize(("relation", "other"), [("replace_one", -1.0), ("add_or_remove_one", 0.0)])
@pytest.mark.parametrize("factor", [1.0, 8.0])
def test_samples_on_worst_case_neighbors(relation, other, factor):
    """The lower bounds are wrong with probability 1e-6 at most. On these neighbors the mechanism
    loses half of its claim, the two laws being mirror images; eight times too cold must show."""
    X = np.ones((1, 1))
    ball = with_scale(ball_for(X, 0.05, 1.5, radius=3.0, relation=relation), factor)
    first = draw(X, np.ones(1), ball, 3000, 6)
    second = draw(X * abs(other), np.array([other or 1.0]), ball, 3000, 7)
    found = audit_epsilon(first[:, 0], second[:, 0]).value
    assert (found > 1.5) == (factor == 8.0)


def loss_of_neighbors(ball, center):
    """Largest log-ratio of the exact laws with and without a row ``x = 1, y = 1``, d = 1."""
    t = np.linspace(-ball.radius, ball.radius, 40_001)
    w = t + center
    n = ball.shape.n_samples
    logs = []
    for rows in (0, 1):
        log_law = -ball.scale * (rows * np.logaddexp(0.0, -w) / n + 0.5 * ball.alpha * w**2)
        logs.append(log_law - np.log(np.exp(log_law - log_law.max()).sum()) - log_law.max())
    return float(np.abs(logs[0] - logs[1]).max())


@pytest.mark.parametrize(("epsilon", "center"), [(2.0, 0.0), (3.0, -12.0), (8.0, -12.0)])
def test_the_exact_laws_of_neighbors_keep_the_claim_and_half_the_noise_does_not(epsilon, center):
    """The sampler's law is what the tests above say; here is what it gives away."""
    shape = ProblemShape(1, 1, 1.0, intercept=0.0, alpha=0.02)
    ball = _ball.settle(shape, epsilon, "add_or_remove_one", radius=3.0, offset=abs(center))
    assert 0.6 * epsilon < loss_of_neighbors(ball, center) <= epsilon
    # Half the noise: s is twice as large, as if a record moved the objective half as much.
    assert loss_of_neighbors(with_scale(ball, 2.0), center) > 1.2 * epsilon


@pytest.mark.slow
@pytest.mark.audit
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_draws_with_half_the_noise_are_refuted(factor):
    """40,000 draws on each neighbor; a lower bound is wrong with probability 1e-6 at most."""
    ball = ball_for(np.ones((1, 1)), 0.05, 2.0, radius=3.0, relation="add_or_remove_one")
    ball = with_scale(ball, factor)
    first = draw(np.ones((1, 1)), np.ones(1), ball, 40_000, 8)
    second = draw(np.zeros((1, 1)), np.ones(1), ball, 40_000, 9)
    found = audit_epsilon(first[:, 0], second[:, 0]).value
    assert (found > 2.0) == (factor == 2.0)


class TestPlans:
    shape = ProblemShape(100_000, 5, 1.0)

    @pytest.mark.parametrize("solver", ["exponential", "localized-exponential"])
    def test_the_whole_budget_is_charged(self, solver):
        for budget in (Budget(0.3), Budget(2.0, 1e-6)):
            settled = plan(self.shape, solver, budget)
            total = sum(event.epsilon for event in settled.events)
            assert budget.epsilon * (1 - 1e-6) < total <= budget.epsilon

    def test_localization_gains_where_strong_convexity_does(self):
        """Proposition G.2: d^2 L^2 / (alpha n^2 eps^2) against d L R / (n eps)."""
        for n, gains in ((300, False), (100_000, True), (10**6, True)):
            shape = ProblemShape(n, 5, 1.0)
            bounds = [
                plan(shape, name, Budget(1.0), alpha=0.05).parameters["ball"].excess_risk
                for name in ("exponential", "localized-exponential")
            ]
            assert (bounds[1] < bounds[0]) == gains

    def test_localization_gains_on_data(self):
        X, y = make(2000, 3)
        problem = Problem(X, y, data_norm=1.0, intercept=0.0)
        excess = {}
        for name in ("exponential", "localized-exponential"):
            runs = [
                solve(problem, name, Budget(2.0), alpha=0.1, random_state=seed).w
                for seed in range(12)
            ]
            excess[name] = objective(X, y, 0.1, np.array(runs)).mean()
        optimum = solve(problem, "output-perturbation", Budget(1e6), alpha=0.1, random_state=0).w
        least = objective(X, y, 0.1, optimum[None])[0]
        assert excess["localized-exponential"] - least < 0.5 * (excess["exponential"] - least)

    def test_the_estimate_of_the_work_is_not_far_below_it(self, monkeypatch):
        X, y = make(200, 4)
        trials = []
        honest = _ball._accepts
        monkeypatch.setattr(
            _ball, "_accepts", lambda exponent, rng: trials.append(1) or honest(exponent, rng)
        )
        ball = ball_for(X, 0.02, 3.0)
        draw(X, y, ball, 200, 10)
        assert len(trials) / 200 < 1.5 * ball.trials

    @pytest.mark.parametrize("solver", ["exponential", "localized-exponential"])
    def test_what_is_hopeless_is_refused_and_the_alternative_named(self, solver):
        with pytest.raises(ValueError, match=r"alpha=0.0001 .* passes .*output-perturbation"):
            plan(self.shape, solver, Budget(1.0), alpha=1e-4)
        with pytest.raises(ValueError, match=r"alpha='auto' finds no ridge .*output-perturbation"):
            plan(ProblemShape(10, 200, 1.0), solver, Budget(0.01))

    @pytest.mark.parametrize("solver", ["exponential", "localized-exponential"])
    @pytest.mark.parametrize(
        ("loss", "reason"),
        [("huber", "classification"), ("hinge", "smooth"), ("sigmoid", "convex")],
    )
    def test_losses_it_is_not_proved_for(self, solver, loss, reason):
        with pytest.raises(ValueError, match=f"loss must be .*{reason}"):
            plan(ProblemShape(100, 2, 1.0, loss), solver, Budget(1.0))

    @pytest.mark.parametrize(
        ("option", "value"),
        [("alpha", 0.0), ("alpha", math.nan), ("max_trials", 0.5), ("minimizer_norm", -1.0)],
    )
    def test_bad_options(self, option, value):
        with pytest.raises(ValueError, match=option):
            plan(self.shape, "exponential", Budget(1.0), **{option: value})
        with pytest.raises(ValueError, match="share"):
            plan(self.shape, "localized-exponential", Budget(1.0), share=1.0)

    def test_in_the_table(self):
        assert SOLVERS["exponential"] is exponential
        assert SOLVERS["localized-exponential"] is localized_exponential
