"""Samples of a ball: their law, and its price."""

import copy
import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binomtest, chisquare, norm

from dpfast import Budget, Ledger, Problem, ProblemShape, plan
from dpfast.curator import Curator
from dpfast.fused import BallSample, ball_sample
from dpfast.objectives import Erm, General, GeneralShape
from dpfast.optimizers import OPTIMIZERS
from dpfast.random import SecureGenerator
from dpfast.solvers.papers.exponential import excess_risk

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
    return BallSample(
        shape, epsilon, relation, radius=radius or shape.minimizer_norm(alpha), offset=offset
    )


def with_scale(ball, factor):
    """The same law but for its temperature, and so for what it costs."""
    other = copy.copy(ball)
    vars(other)["scale"] = ball.scale * factor
    return other


def law_on_cells(value, ball, center, edges, fine=40):
    """Probabilities of the cells of a grid, by sums over a finer one of ``value(points)``."""
    centers = [
        (low + (high - low) * (np.arange(fine) + 0.5) / fine)
        for low, high in itertools.pairwise(edges)
    ]
    axis = np.concatenate(centers)
    d = len(center)
    points = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1)
    flat = points.reshape(-1, d)
    inside = np.linalg.norm(flat, axis=1) <= ball.radius
    inside &= np.linalg.norm(flat + center, axis=1) <= ball.domain
    values = np.where(inside, value(flat + center), np.inf)
    density = np.exp(-ball.scale * (values - values.min()))
    cells = len(edges) - 1
    split = density.reshape([cells, fine] * d)
    law = split.sum(axis=tuple(range(1, 2 * d, 2))).ravel()
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


@pytest.mark.parametrize(("d", "epsilon", "offset"), [(1, 30.0, 0.0), (2, 60.0, 0.4)])
def test_samples_have_the_law_and_no_other_temperature(d, epsilon, offset):
    X, y = make(12, d)
    center = np.full(d, -offset / math.sqrt(d))
    ball = ball_for(X, 0.2, epsilon, radius=1.5 if offset else None, offset=offset)
    points = draw(X, y, ball, 2500, 1, center) - center
    edges = np.linspace(-ball.radius, ball.radius, 25 if d == 1 else 11)
    for factor in TEMPERATURES:
        law = law_on_cells(
            lambda at: objective(X, y, 0.2, at), with_scale(ball, factor), center, edges
        )
        assert (fit_of(points, edges, law) > FALSE_ALARM) == (factor == 1.0)


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
    assert 0.2 * excess_risk(ball) < excess < excess_risk(ball)
    loss_range = ball.radius * 1.0
    assert excess_risk(ball) == pytest.approx(5 * 2 * loss_range / (300 * 60.0), rel=0.05)


def test_the_envelope_is_one(cold, monkeypatch):
    """Exponents are never negative, also around a point that is no minimizer."""
    X, y, ball, _ = cold
    exponents = []

    def record(exponent, rng):
        exponents.append(exponent)
        return True

    monkeypatch.setattr(ball_sample, "_accepts", record)
    draw(X, y, ball, 100, 3)
    monkeypatch.setattr(ball_sample, "minimize_in_balls", lambda *_, **__: np.full(5, 0.2))
    draw(X, y, ball_for(X, 0.5, 0.5), 100, 3)
    assert min(exponents) > 0.0


@pytest.mark.parametrize("point", [0.0, math.nan, math.inf, 1e300])
def test_the_law_does_not_depend_on_where_the_envelope_touches(point, monkeypatch):
    X, y = make(12, 1)
    ball = ball_for(X, 0.5, 5.0)
    monkeypatch.setattr(ball_sample, "minimize_in_balls", lambda *_, **__: np.array([point]))
    points = draw(X, y, ball, 2500, 4)
    edges = np.linspace(-ball.radius, ball.radius, 25)
    law = law_on_cells(lambda at: objective(X, y, 0.5, at), ball, np.zeros(1), edges)
    assert fit_of(points, edges, law) > FALSE_ALARM


@pytest.mark.parametrize("d", [1, 2])
def test_a_ball_that_misses_the_minimizer_is_sampled_in_reasonable_time(d, monkeypatch):
    """The minimizer is six proposal widths outside: of proposals around it one in 10⁸ would be
    accepted."""
    X, y = make(12, d)
    center = np.full(d, -4.0 / math.sqrt(d))
    ball = ball_for(X, 0.2, 16.0, radius=2.0, offset=4.0)
    minimizer = OPTIMIZERS["newton"](
        Erm(Problem(X, y, data_norm=1.0, intercept=0.0), 0.2), tolerance=1e-9
    ).w
    widths = (np.linalg.norm(minimizer - center) - 2.0) * math.sqrt(ball.scale * 0.2)
    assert widths > 6.0
    coins = []
    honest = ball_sample._accepts
    monkeypatch.setattr(
        ball_sample,
        "_accepts",
        lambda exponent, rng: coins.append(exponent) or honest(exponent, rng),
    )
    points = draw(X, y, ball, 300, 12, center) - center
    assert len(coins) < 40 * len(points)
    assert min(coins) > 0.0
    # Finer where the samples are, next to the minimizer.
    edges = np.append(-2.0, np.linspace(1.8, 2.0, 25) if d == 1 else np.linspace(0.8, 2.0, 13))
    for factor, right in ((1.0, True), (0.5, False), (2.0, False)):
        law = law_on_cells(
            lambda at: objective(X, y, 0.2, at), with_scale(ball, factor), center, edges
        )
        assert (fit_of(points, edges, law) > FALSE_ALARM) == right


@pytest.mark.parametrize("exponent", [0.0, 0.3, 1.0, 2.7])
def test_coins_of_exponential_bias(exponent):
    rng = SecureGenerator(5)
    heads = sum(ball_sample._accepts(exponent, rng) for _ in range(4000))
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
    ball = BallSample(shape, 1.0, relation, radius=radius, offset=offset)
    t = np.linspace(-radius, radius, 1001) + offset
    changes = [np.logaddexp(0, -t) - other for other in (np.logaddexp(0, t), np.logaddexp(0, -t))]
    if relation == "add_or_remove_one":
        changes = [np.logaddexp(0, -t), np.logaddexp(0, t)]
    reached = max(np.ptp(change) for change in changes) * ball.scale / 50
    assert reached <= ball.epsilon
    if offset == 0.0:
        assert reached >= 0.98 * ball.epsilon


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
    ball = BallSample(shape, epsilon, "add_or_remove_one", radius=3.0, offset=abs(center))
    assert 0.6 * epsilon < loss_of_neighbors(ball, center) <= epsilon
    # Half the noise: s is twice as large, as if a record moved the objective half as much.
    assert loss_of_neighbors(with_scale(ball, 2.0), center) > 1.2 * epsilon


class Bowl:
    """A user's function, no mean over records: ``√(1 + ‖A(w - a)‖²) + (µ/2)‖w‖²``, ``‖A‖ = 1``."""

    def __init__(self, d, mu=0.5):
        self.matrix, self.shift, self.mu = np.diag(np.linspace(1.0, 0.6, d)), np.full(d, 1.5), mu

    def values(self, points):
        root = np.sqrt(1.0 + (((points - self.shift) @ self.matrix) ** 2).sum(axis=-1))
        return root + 0.5 * self.mu * (points**2).sum(axis=-1)

    def value_and_gradient(self, w):
        away = self.matrix @ (w - self.shift)
        root = math.sqrt(1.0 + away @ away)
        return float(self.values(w)), self.matrix @ away / root + self.mu * w


def bowl(d, **changes):
    """With ``‖w*‖ <= L/µ = 2``."""
    constants = {
        "lipschitz": 1.0, "strong_convexity": 0.5, "smoothness": 1.5, "minimizer_norm": 2.0,
        "largest_value": 10.0, **changes,
    }  # fmt: skip
    return General(Bowl(d), d, **constants)


class TestObjectives:
    """A user's function by its declared constants, in the place of a problem."""

    @pytest.mark.parametrize(
        ("d", "radius", "offset"), [(1, 2.0, 0.0), (1, 0.8, 1.6), (2, 2.0, 0.0), (2, 0.9, 1.7)]
    )
    def test_samples_have_the_law_and_no_other_temperature(self, d, radius, offset):
        """Around the origin, and on what a shifted ball has in common with the domain; and the
        excess is below Theorem G.1's, ``d/s = 4LRd/ε`` around the origin."""
        function = bowl(d)
        ball = BallSample(function.shape, 150.0, "replace_one", radius=radius, offset=offset)
        center = np.full(d, offset / math.sqrt(d))
        draws = ball.draws(function, center, SecureGenerator(21))
        points = np.array(list(itertools.islice(draws, 1200)))
        assert np.linalg.norm(points, axis=1).max() <= 2.0
        values = Bowl(d).values(points)
        assert 0.1 * excess_risk(ball) < values.mean() - values.min() < excess_risk(ball)
        assert offset > 0.0 or excess_risk(ball) == pytest.approx(8.0 * d / 150.0, rel=1e-6)
        edges = np.linspace(-radius, radius, 25 if d == 1 else 11)
        for factor in TEMPERATURES:
            law = law_on_cells(Bowl(d).values, with_scale(ball, factor), center, edges)
            assert (fit_of(points - center, edges, law) > FALSE_ALARM) == (factor == 1.0)

    def test_a_corner_of_ball_and_domain(self, monkeypatch):
        """The minimizer is outside of both, which a wrong declaration brings about."""
        function = bowl(2, minimizer_norm=0.8)
        ball = BallSample(function.shape, 80.0, "replace_one", radius=0.6, offset=0.7)
        center, touched = np.array([0.0, 0.7]), []
        honest = ball_sample.minimize_in_balls
        monkeypatch.setattr(
            ball_sample,
            "minimize_in_balls",
            lambda *a, **k: touched.append(honest(*a, **k)) or touched[-1],
        )
        points = np.array(
            list(itertools.islice(ball.draws(function, center, SecureGenerator(23)), 350))
        )
        assert np.linalg.norm(touched[0]) == pytest.approx(0.8, abs=1e-6)
        assert np.linalg.norm(touched[0] - center) == pytest.approx(0.6, abs=1e-6)
        edges = np.linspace(-0.6, 0.6, 9)
        for factor in (0.5, 1.0, 2.0):
            law = law_on_cells(Bowl(2).values, with_scale(ball, factor), center, edges)
            assert (fit_of(points - center, edges, law) > FALSE_ALARM) == (factor == 1.0)

    @pytest.mark.parametrize("d", [1, 2])
    @pytest.mark.parametrize(("radius", "center"), [(2.0, 0.0), (0.5, -1.9)])
    @pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
    @pytest.mark.parametrize("epsilon", [0.05, 0.5, 5.0])
    def test_densities_of_worst_case_neighbors(self, d, radius, center, relation, epsilon):
        """``G w₁`` and nothing (or its mirror image), the exact laws on a grid; no data set's
        gradient is further from another's.  With half the noise the claim breaks."""
        G, mu = 1.0, 0.02
        apart = {"replace_one": 2.0 * G, "add_or_remove_one": G}
        shape = GeneralShape(
            d, lipschitz=G, strong_convexity=mu, smoothness=mu, minimizer_norm=2.0,
            gradient_sensitivity=apart, largest_value=10.0,
        )  # fmt: skip
        ball = BallSample(shape, epsilon, relation, radius=radius, offset=abs(center))
        axis = np.linspace(-radius, radius, 4001 if d == 1 else 401)
        points = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
        inside = np.linalg.norm(points, axis=1) <= radius
        points[:, 0] += center
        points = points[inside & (np.linalg.norm(points, axis=1) <= 2.0)]

        def loss(scale):
            logs = []
            for slope in (apart[relation], 0.0):
                # Of 2Gw and 0 the difference is that of Gw and -Gw.
                log_law = -scale * (slope * points[:, 0] + 0.5 * mu * (points**2).sum(axis=1))
                logs.append(log_law - logsumexp(log_law))
            return np.abs(logs[0] - logs[1]).max()

        # Of a ball around the domain's edge only a part is in it, on which the range is smaller.
        reached = loss(ball.scale) / epsilon
        assert (0.5 if center == 0.0 else 0.2) <= reached <= 1.0
        if center == 0.0:
            assert loss(2.05 * ball.scale) > epsilon


def test_a_center_beyond_the_offset_is_refused_before_anything_is_spent():
    X, y = make(12, 2)
    ball, ledger = ball_for(X, 0.2, 1.0, radius=1.5, offset=0.4), Ledger(Budget(1.0))
    problem = Problem(X, y, data_norm=1.0, intercept=0.0)
    curator = Curator(problem, ledger, SecureGenerator(0))
    with pytest.raises(ValueError, match=r"center must have a norm of at most 0\.4"):
        curator.release(ball, np.array([0.4, 0.1]))
    assert ledger.events == ()
    point = curator.release(ball, np.array([0.4, 0.0]))
    assert np.linalg.norm(point - [0.4, 0.0]) <= 1.5
    assert ledger.events == ball.events()


def test_the_sample_refuses_what_it_is_not_proved_for():
    for loss in ("huber", "hinge", "sigmoid"):
        with pytest.raises(ValueError, match="loss must be"):
            BallSample(ProblemShape(9, 2, 1.0, loss, alpha=0.1), 1.0, "replace_one", radius=1.0)
    with pytest.raises(ValueError, match="largest_value of the objective must be finite"):
        BallSample(bowl(2, largest_value=math.inf).shape, 1.0, "replace_one", radius=1.0)
