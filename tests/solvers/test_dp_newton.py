"""Newton steps with a covariance: the law of what comes out, and what it refuses to say."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr

from dpfast import Budget, Loss, Problem, ProblemShape, plan, solve
from dpfast.column_blocks import ColumnBlock
from dpfast.queries.coordinates import reach_of
from dpfast.queries.estimating import scales
from dpfast.solvers import _estimation, _estimation_coordinates
from dpfast.solvers._estimation import Start, _denoised, _semidefinite, _Tail
from dpfast.solvers.dp_newton import (
    _COORDINATES,
    COV_TYPES,
    LEAST_RATIO,
    range_round,
    shares_of,
)

BUDGET = Budget(1.0, 1e-6)
LOSSES = (Loss("logistic"), Loss("squared"), Loss("huber", 0.2))
LOGISTIC, SQUARED, HUBER = LOSSES
OF_ROWS = COV_TYPES[:2]


def table(loss, n, rng, d=3):
    """Rows in [-1, 1], targets of the model, and its weights, the intercept's last."""
    w = np.array([1.0, -0.7, 0.0, 0.3])[[*range(d), 3]]
    X = rng.uniform(-1.0, 1.0, (n, d))
    margins = X @ w[:-1] + w[-1]
    if loss is LOGISTIC:
        return X, np.where(margins + rng.logistic(size=n) > 0, 1.0, -1.0), w
    return X, 0.3 * margins + 0.15 * rng.standard_normal(n), 0.3 * w


def problem(X, y, loss, **settings):
    return Problem(X, y, loss, data_norm=math.sqrt(X.shape[1]), **settings)


def fitted(X, y, loss, seed, budget=BUDGET, **options):
    options = {"neighboring_relation": "add_or_remove_one", "column_bound": 1.0, **options}
    return solve(problem(X, y, loss), "dp-newton", budget, random_state=seed, **options)


def reference(X, y, loss, robust, groups=None):
    """The minimizer and its covariance, from the textbook."""
    rows = np.column_stack([X, np.ones(len(X))])
    w = np.zeros(rows.shape[1]) if loss is LOGISTIC else np.linalg.lstsq(rows, y)[0]
    for _ in range(30):
        _, slope, curvature = loss(rows @ w, y)
        hessian = (rows * curvature[:, None]).T @ rows
        w = w - np.linalg.solve(hessian, rows.T @ slope)
    inverse = np.linalg.inv(hessian)
    scores = rows * slope[:, None]
    if groups is not None:
        scores = np.array([scores[groups == one].sum(axis=0) for one in np.unique(groups)])
    middle = scores.T @ scores
    if not robust:
        middle = hessian * (1.0 if loss is LOGISTIC else np.mean(slope**2) / np.mean(curvature))
    return w, inverse @ middle @ inverse


def check_found(result, w, covariance, atol, rtol):
    """Weights and deviations are those of a reference, and nothing is refused."""
    np.testing.assert_allclose(result.w, w, atol=atol)
    np.testing.assert_array_equal(result.history["refused"], 0)
    deviations = np.sqrt(np.diag(result.history["covariance"]))
    np.testing.assert_allclose(deviations, np.sqrt(np.diag(covariance)), rtol=rtol)


# Also with a threshold that most residuals pass.
@pytest.mark.parametrize(
    ("loss", "rows", "atol", "rtol"),
    [*((loss, 4000, 2e-3, 0.03) for loss in LOSSES), (Loss("huber", 0.05), 20_000, 3e-3, 0.04)],
    ids=str,
)
@pytest.mark.parametrize("cov_type", OF_ROWS)
def test_with_hardly_any_noise_it_is_the_textbook(loss, rows, atol, rtol, cov_type):
    X, y, _ = table(loss, rows, np.random.default_rng(0))
    result = fitted(X, y, loss, 1, Budget(mu=900.0), cov_type=cov_type, clip=8.0)
    check_found(result, *reference(X, y, loss, cov_type == "robust"), atol, rtol)


def scores(loss, cov_type, repetitions, n):
    """Errors over their stated deviations, a row a repetition, and the deviations.

    NaN for what is refused, which must be few.
    """
    z, errors = [], []
    for seed in range(repetitions):
        X, y, w = table(loss, n, np.random.default_rng(seed))
        result = fitted(X, y, loss, 1000 + seed, cov_type=cov_type)
        believed = result.history["refused"] == 0
        errors.append(np.sqrt(np.diag(result.history["covariance"])))
        z.append(np.where(believed, (result.w - w) / errors[-1], np.nan))
    assert np.mean(np.isnan(z)) < 0.1
    return np.array(z), np.array(errors)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("cov_type", OF_ROWS)
def test_intervals_hold_as_often_as_they_say(loss, cov_type):
    n = 6000 if loss is SQUARED else 2500
    z, errors = scores(loss, cov_type, 60, n)
    # 240 intervals, nearly independent: the deviation of their share is 0.014.
    known = ~np.isnan(z)
    assert 0.95 - 4 * 0.014 < np.mean(np.abs(z[known]) < 1.96) < 0.95 + 3.5 * 0.014
    assert np.all(np.abs(np.nanmean(z, axis=0)) < 4.0 / math.sqrt(60))
    # The test can fail: noise is a large part of what is covered.
    X, y, _ = table(loss, n, np.random.default_rng(0))
    alone = np.sqrt(np.diag(reference(X, y, loss, robust=True)[1]))
    assert np.all(np.median(errors, axis=0) > 1.1 * alone)
    by_sampling = np.abs(z) * np.median(errors, axis=0) / alone
    assert np.mean(by_sampling[known] < 1.96) < np.mean(np.abs(z[known]) < 1.96) - 0.01


LOG_LINKS = (
    Loss("poisson"),
    Loss("gamma"),
    Loss("tweedie", 1.5),
    Loss("negative-binomial", 0.5),
)


def positive(loss, n, rng):
    """Rows in [-1, 1], targets of the mean exp(z), and weights, the intercept's last."""
    w = np.array([0.6, -0.4, 0.0, 0.2])
    X = rng.uniform(-1.0, 1.0, (n, 3))
    mean = np.exp(X @ w[:-1] + w[-1])
    if loss.name == "gamma":
        y = rng.gamma(2.0, mean / 2.0)
    elif loss.name == "tweedie":
        counts = rng.poisson(mean)
        y = np.where(counts > 0, rng.gamma(np.maximum(counts, 1)), 0.0)
    else:
        more = rng.gamma(2.0, 0.5, n) if loss.name == "negative-binomial" else 1.0
        y = rng.poisson(mean * more).astype(float)
    return X, np.clip(y, *loss.target_range), w


def quasi_likelihood(X, y, loss, robust):
    """The root of the scores, and its covariance with expected curvatures."""
    rows, w = np.column_stack([X, np.ones(len(X))]), np.array([0.0, 0.0, 0.0, np.log(y.mean())])
    for _ in range(60):
        z = rows @ w
        slope = loss(z, y)[1]
        curvature = loss(z, np.exp(z))[2]  # of the mean itself
        hessian = (rows * curvature[:, None]).T @ rows
        w = w - np.linalg.solve(hessian, rows.T @ slope)
    inverse = np.linalg.inv(hessian)
    scores = rows * slope[:, None]
    middle = scores.T @ scores if robust else hessian * np.mean(slope**2) / np.mean(curvature)
    return w, inverse @ middle @ inverse


@pytest.mark.parametrize("loss", LOG_LINKS, ids=lambda loss: loss.name)
@pytest.mark.parametrize("cov_type", OF_ROWS)
def test_with_hardly_any_noise_it_is_the_quasi_likelihood(loss, cov_type):
    X, y, _ = positive(loss, 4000, np.random.default_rng(0))
    result = fitted(X, y, loss, 1, Budget(mu=900.0), cov_type=cov_type, clip=8.0)
    w, covariance = quasi_likelihood(X, y, loss, cov_type == "robust")
    check_found(result, w, covariance, 0.15 * np.sqrt(covariance.diagonal().min()), 0.07)


@pytest.mark.parametrize("loss", LOG_LINKS, ids=lambda loss: loss.name)
def test_intervals_of_a_log_link_hold_as_often_as_they_say(loss):
    z, repetitions = [], 60
    for seed in range(repetitions):
        X, y, w = positive(loss, 6000, np.random.default_rng(seed))
        result = fitted(X, y, loss, 1000 + seed)
        deviations = np.sqrt(np.diag(result.history["covariance"]))
        believed = result.history["refused"] == 0
        z.append(np.where(believed, (result.w - w) / deviations, np.nan))
    z = np.array(z)
    assert np.mean(np.isnan(z)) < 0.2
    held = np.mean(np.abs(z[~np.isnan(z)]) < 1.96)
    assert 0.95 - 4 * 0.014 < held < 0.95 + 3.5 * 0.014
    assert np.nanstd(z) > 0.8  # no wider than they need be


def test_margins_that_differ_by_much_are_refused():
    rng = np.random.default_rng(0)
    X = np.clip(rng.standard_normal((20_000, 3)) / 4.0, -1.0, 1.0)
    y = np.minimum(rng.poisson(0.005 * np.exp(X @ [8.0, 0.0, 0.0])), 20.0).astype(float)
    assert np.all(fitted(X, y, Loss("poisson"), 0, Budget(8.0, 1e-6)).history["refused"] > 0)


def panel(loss, n, size, rng):
    """Groups of `size` rows on average whose columns and residuals have much in common."""
    sizes = rng.integers(1, 2 * size, n)
    who = np.repeat(np.arange(n), sizes)

    def alike(*shape):
        shared = rng.standard_normal((n, *shape))[who]
        return 0.9 * shared + math.sqrt(0.19) * rng.standard_normal((len(who), *shape))

    w = np.array([1.0, -0.7, 0.0, 0.3])
    X = np.clip(alike(3) / 3.0, -1.0, 1.0)
    margins = X @ w[:-1] + w[-1]
    if loss is LOGISTIC:
        chance = ndtr(alike())
        y = np.where(np.log(chance / (1.0 - chance)) < margins, 1.0, -1.0)
        return X, y, who, w
    return X, 0.3 * margins + 0.15 * alike(), who, 0.3 * w


def fitted_by_group(X, y, loss, seed, budget, groups, most=None, **options):
    data = problem(X, y, loss, groups=groups, max_rows_per_group=most)
    options |= {"neighboring_relation": "add_or_remove_one", "column_bound": 1.0}
    return solve(data, "dp-newton", budget, random_state=seed, cov_type="cluster", **options)


@pytest.mark.parametrize("most", [None, 12])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_with_hardly_any_noise_groups_are_the_textbook(loss, most):
    X, y, who, _ = panel(loss, 1500, 4, np.random.default_rng(0))
    result = fitted_by_group(X, y, loss, 1, Budget(mu=900.0), who, most, clip=8.0)
    w, covariance = reference(X, y, loss, True, who)
    check_found(result, w, covariance, 3e-3, 0.06)
    # As rows of their own, they would seem to say far more.
    assert np.all(
        np.sqrt(np.diag(covariance)) > 1.3 * np.sqrt(np.diag(reference(X, y, loss, True)[1]))
    )


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_intervals_of_groups_hold_as_often_as_they_say(loss):
    z = []
    for seed in range(50):
        X, y, who, w = panel(loss, 3000, 3, np.random.default_rng(seed))
        found = fitted_by_group(X, y, loss, 1000 + seed, Budget(2.0, 1e-6), who)
        errors = np.sqrt(np.diag(found.history["covariance"]))
        z.append(np.where(found.history["refused"] == 0, (found.w - w) / errors, np.nan))
    known = np.isfinite(z)
    assert known.mean() > 0.8
    # 200 intervals, nearly independent: the deviation of their share is 0.016.
    assert 0.95 - 4 * 0.016 < np.mean(np.abs(np.array(z)[known]) < 1.96) < 0.95 + 3.1 * 0.016


def test_intervals_follow_the_residuals_and_not_the_declared_range():
    X, y, _ = table(SQUARED, 20_000, np.random.default_rng(0))
    widths = [
        np.sqrt(np.diag(fitted(X, far * y, SQUARED, 0).history["covariance"])) / far
        for far in (1.0, 0.2)
    ]
    np.testing.assert_allclose(widths[1], widths[0], rtol=0.5)
    alone = np.sqrt(np.diag(reference(X, y, SQUARED, robust=True)[1]))
    assert np.all(widths[0] < 1.5 * alone)


def long_rows(n, rng):
    """Rows of which few are long, and which the line does not fit there."""
    X = rng.uniform(-0.1, 0.1, (n, 3))
    X[rng.random(n) < 0.01] *= 10.0
    return X, 0.3 * X[:, 0] - 0.6 * X[:, 0] ** 3 + 0.05 * rng.standard_normal(n)


def test_scores_reach_farther_where_rows_are_long():
    X, y = long_rows(40_000, np.random.default_rng(0))
    w, _ = reference(X, y, SQUARED, robust=True)
    budget = Budget(2.0, 1e-6)
    clip = plan(problem(X, y, SQUARED), "dp-newton", budget).settings.clip
    apart = {
        kind: np.mean(
            [abs(fitted(X, y, SQUARED, seed, budget, clip=kind).w[0] - w[0]) for seed in range(5)]
        )
        for kind in ("auto", clip)
    }
    assert apart["auto"] < 0.85 * apart[clip]


def test_scores_reach_no_farther_where_rows_are_alike():
    X, y, _ = table(SQUARED, 40_000, np.random.default_rng(0))
    clip = plan(problem(X, y, SQUARED), "dp-newton", BUDGET).settings.clip
    widths = [
        np.sqrt(np.diag(fitted(X, y, SQUARED, 0, clip=kind).history["covariance"]))
        for kind in ("auto", clip)
    ]
    assert np.mean(widths[0] / widths[1]) < 1.2


def test_only_residuals_of_single_rows_have_their_lengths_counted():
    for loss in LOSSES:
        for settings, counted in (({}, loss is not LOGISTIC), ({"unit": "group"}, False)):
            shape = ProblemShape(50_000, 6, 1.0, loss, **settings)
            kind = "cluster" if settings else "robust"
            assert ("lengths" in shares_of(shape, kind)) == counted
            assert "lengths" not in shares_of(shape, kind, adaptive=False)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_noise_in_the_products_widens_intervals_by_what_it_takes(loss, monkeypatch):
    X, y, _ = table(loss, 8000, np.random.default_rng(0))

    def larger(budget):
        """Variances over those that are believed to be without noise."""
        found = []
        for part in (_estimation._UNSURE, 0.0):
            monkeypatch.setattr(_estimation, "_UNSURE", part)
            found.append(np.diag(fitted(X, y, loss, 0, budget).history["covariance"]))
        monkeypatch.undo()
        return found[0] / found[1]

    assert np.all((larger(BUDGET) > 1.001) & (larger(BUDGET) < 1.3))
    np.testing.assert_allclose(larger(Budget(mu=900.0)), 1.0, atol=1e-5)


def test_a_matrix_of_products_keeps_its_trace():
    rng = np.random.default_rng(0)
    for size in (1, 2, 7):
        for shift in (-3.0, 0.3, 5.0):
            noise = rng.standard_normal((size, size))
            matrix = noise + noise.T + shift * np.eye(size)
            nearest = _semidefinite(matrix)
            assert np.linalg.eigvalsh(nearest)[0] > -1e-9
            assert np.trace(nearest) == pytest.approx(max(np.trace(matrix), 0.0), abs=1e-9)
    kept = np.diag([3.0, 1.0, 0.4])
    np.testing.assert_allclose(_semidefinite(kept), kept, atol=1e-12)
    np.testing.assert_allclose(_semidefinite(np.diag([3.0, -1.0])), np.diag([2.0, 0.0]), atol=1e-12)


def test_products_that_noise_hides_are_those_of_the_model_and_others_are_their_own():
    rng = np.random.default_rng(0)
    model, own = np.diag(np.linspace(0.5, 1.5, 8)), np.diag(np.linspace(4.0, 0.4, 8))
    least, alone = [], []
    for _ in range(20):
        noise = rng.standard_normal((8, 8))
        noise = (noise + noise.T) / math.sqrt(2.0)  # √2 on the diagonal, 1 off it
        least.append(np.linalg.eigvalsh(_denoised(3.0 * model + noise, model, 1.0))[0])
        alone.append(np.linalg.eigvalsh(_semidefinite(3.0 * model + noise))[0])
    assert np.mean(alone) < 0.2  # an interval of a sum of weights would have no width
    assert np.min(least) > 0.5 and 1.0 < np.mean(least) < 1.6
    np.testing.assert_allclose(_denoised(own, model, 1e-4), own, atol=1e-6)
    assert _denoised(3.0 * np.eye(1), np.eye(1), 1.0) == pytest.approx(3.0)


@pytest.mark.parametrize("trace", [-20.0, -1.0, 0.0, 1.0])
def test_products_whose_trace_is_noise_have_one_deviation_of_that(trace):
    model = np.diag(np.linspace(0.5, 1.5, 8))
    matrix = np.diag(np.linspace(-9.0, 9.0, 8)) + trace / 8.0 * np.eye(8)
    # Diagonal entries have √2 times the deviation, and there are eight.
    np.testing.assert_allclose(_denoised(matrix, model, 0.5), 2.0 * model / 8.0)


@pytest.mark.parametrize("loss", LOG_LINKS, ids=lambda loss: loss.name)
def test_what_a_linear_step_misses_of_an_exponential_is_foretold(loss):
    """From off points, for rows that are normal in the coordinates, without noise."""
    shape, dim = ProblemShape(10_000, 2, 2.0, loss), 3
    ask = _estimation.Asking(shape, None, np.eye(dim), 1e9, np.zeros((dim, dim)))
    points, weights = np.polynomial.hermite_e.hermegauss(24)
    weights = np.outer(weights, weights).ravel() / weights.sum() ** 2
    rows = np.column_stack([np.repeat(points, 24), np.tile(points, 24), np.ones(24 * 24)])
    right = np.array([0.5, -0.3, 0.0])

    def score(v):
        expected = np.exp(rows @ right)
        lower, upper = (loss(rows @ v, np.full(len(rows), y))[1] for y in loss.target_range)
        low, high = loss.target_range  # slopes are linear in the target
        slopes = lower + (upper - lower) * (expected - low) / (high - low)
        return rows.T @ (weights * slopes)

    away = 0.1 * np.array([[9.0, 9.0, 9.0], [0.7, 0.2, -0.4], [0.5, -0.6, 0.3]])
    course = _estimation.LOG_LINK
    path = _estimation._Path(course, list(right + away))
    for v in path.points:
        path.add(score(v), 1.0, 1.0)
    mean, mean_score, _ = path.mean()
    bend = _estimation.largest_curvature(loss, rows @ path.points[course.curvature_at])
    curvature = (rows * (weights * bend)[:, None]).T @ rows
    found = mean - np.linalg.solve(curvature, mean_score)
    steps = _estimation.Steps(ask, 1.0, np.ones(dim), np.eye(dim))
    foretold = steps._missed(path, right)
    assert np.linalg.norm(found - right - foretold) < 0.35 * np.linalg.norm(found - right)


def test_steps_of_slopes_that_are_all_cut_are_refused(monkeypatch):
    """The descent ended far above all targets, where no slope is seen."""
    learn, descend = _estimation.Asking.learn_scale, Start.descend

    def learn_scale(ask, *looked):
        learn(ask, *looked)
        ask.scale = scales(ask.shape)[0]

    X, y, _ = positive(LOG_LINKS[0], 6000, np.random.default_rng(0))
    assert np.mean(fitted(X, y, LOG_LINKS[0], 0).history["refused"] == 0) > 0.5
    monkeypatch.setattr(_estimation.Asking, "learn_scale", learn_scale)
    monkeypatch.setattr(Start, "descend", lambda *asked: descend(*asked) + 3.0 * np.eye(4)[3])
    assert np.all(fitted(X, y, LOG_LINKS[0], 0).history["refused"] > 0)


def test_equal_variances_are_not_believed_in_without_need():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60_000, 1))
    y = 0.1 + 0.6 * np.abs(X[:, 0]) ** 3 * rng.choice([-1.0, 1.0], 60_000)
    robust, trusting = (
        np.sqrt(np.diag(fitted(X, y, SQUARED, 0, Budget(mu=50.0), cov_type=kind)
                        .history["covariance"]))
        for kind in OF_ROWS
    )  # fmt: skip
    expected = np.sqrt(np.diag(reference(X, y, SQUARED, robust=True)[1]))
    np.testing.assert_allclose(robust, expected, rtol=0.05)
    assert trusting[0] < 0.8 * robust[0]


def test_a_value_that_hardly_occurs_is_refused_and_the_others_are_not():
    rng = np.random.default_rng(3)
    X, y, _ = table(LOGISTIC, 20_000, rng)
    rare = (rng.random(20_000) < 2e-4).astype(float)
    refused = fitted(np.column_stack([X, rare]), y, LOGISTIC, 0).history["refused"]
    assert refused[3] > 0
    np.testing.assert_array_equal(refused[:3], 0)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("share", [0.02, 0.04])
def test_rare_values_are_not_stretched_farther_by_every_round(loss, share):
    # They were where budgets are ample: residuals had steps that led away from the minimum.
    z, names = [], np.arange(1, 4)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, _, w = table(loss, 10_000, rng)
        shares = [0.5 - share / 2, 0.3 - share / 2, 0.2, share]
        X = np.column_stack([X, rng.choice(4, len(X), p=shares)[:, None] == names])
        w = np.concatenate([w[:-1], (1.0 if loss is LOGISTIC else 0.3) * w[[0, 1, 0, 3]]])
        margins = X @ w[:-1] + w[-1]
        y = margins + 0.15 * rng.standard_normal(len(X))
        if loss is LOGISTIC:
            y = np.where(margins + rng.logistic(size=len(X)) > 0, 1.0, -1.0)
        result = fitted(X, y, loss, seed, Budget(8.0, 1e-6))
        z.append((result.w - w) / np.sqrt(np.diag(result.history["covariance"])))
    assert np.max(np.abs(z)) < 4.0


def spiked(share, effect, noise, seed):
    """Rows of which few have their third entry at 1, the others near -1; targets; the weights."""
    rng = np.random.default_rng(seed)
    X, _, _ = table(SQUARED, 15_000, rng)
    X[:, 2] = np.where(rng.random(len(X)) < share, 1.0, 0.01 * rng.random(len(X)) - 1.0)
    w = np.array([0.3, -0.2, effect, 0.1])
    return X, X @ w[:3] + w[3] + noise * rng.standard_normal(len(X)), w


def test_intervals_of_residuals_hold_where_few_rows_stand_far_out():
    z = []
    for seed in range(12):
        X, y, w = spiked(0.003, 0.15, 0.05, seed)
        found = fitted(X, y, SQUARED, seed, Budget(mu=5.0))
        assert found.history["refused"][2] == 0
        z.append((found.w[2] - w[2]) / math.sqrt(found.history["covariance"][2, 2]))
    # With steps 1.4 times too long their mean was nearly 3.
    assert abs(np.mean(z)) < 4.0 / math.sqrt(12) and np.mean(np.abs(z) < 1.96) > 0.7


def test_scores_that_cut_what_was_seen_later_are_not_averaged(monkeypatch):
    learn, told = _estimation.Asking.learn_scale, []
    for seed in range(12):
        # Residuals of few rows are .3: the noise hides these from the first look alone.
        scales = iter([0.1, 0.5])

        def learn_scale(ask, *looked, scales=scales):
            learn(ask, *looked)
            ask.scale = next(scales)

        monkeypatch.setattr(_estimation.Asking, "learn_scale", learn_scale)
        X, y, w = spiked(0.003, 0.15, 0.03, seed)
        found = fitted(X, y, SQUARED, seed, Budget(mu=10.0))
        told.append((found.w[2] - w[2]) / math.sqrt(found.history["covariance"][2, 2]))
    # When the score that cut them was averaged, their mean was -4.4.
    assert abs(np.mean(told)) < 4.0 / math.sqrt(12)


def test_scores_count_by_their_precision_as_long_as_they_cut_nothing_that_was_seen():
    course = _estimation.RESIDUALS
    by_precision = np.array([0.0, 0.14 / 4.0, 0.80]) / (0.14 / 4.0 + 0.80)
    np.testing.assert_allclose(course.weights(np.array([1.0, 0.4, 0.2])), by_precision)
    assert course.weights(np.array([1.0, 0.2, 0.3]))[1] > 0.0  # room was left for these
    np.testing.assert_array_equal(course.weights(np.array([1.0, 0.2, 0.4])), [0.0, 0.0, 1.0])


def test_a_weight_of_few_rows_far_out_is_refused_or_its_interval_holds():
    z = []
    for seed in range(12):
        X, y, w = spiked(0.004, 0.13, 1.0 / 30.0, seed)
        found = fitted(X, y, SQUARED, seed, Budget(3.5, 1e-6))
        errors = np.sqrt(np.diag(found.history["covariance"]))
        z.append(np.where(found.history["refused"] == 0, (found.w - w) / errors, np.nan))
    known = ~np.isnan(z)
    assert np.mean(known[:, :2]) > 0.9
    held = np.abs(np.array(z)[known])
    assert held.max() < 4.0 and np.mean(held < 1.96) > 0.85


def skewed(n, seed):
    """Rows in [-1, 1], targets with residuals of an exponential law less its mean; the weights."""
    rng = np.random.default_rng(seed)
    X, _, w = table(SQUARED, n, rng)
    return X, 0.25 * (X @ w[:3] + w[3]) + 0.06 * (rng.exponential(size=n) - 1.0), 0.25 * w


def test_an_intercept_that_cut_residuals_move_is_refused_and_it_alone():
    off, refused = [], []
    for seed in range(8):
        X, y, w = skewed(6000, seed)
        found = fitted(X, y, SQUARED, seed, Budget(0.4, 1e-6))
        off.append((found.w - w) / np.sqrt(np.diag(found.history["covariance"])))
        refused.append(found.history["refused"])
    assert np.mean(off, axis=0)[3] < -1.5  # what an interval would be off by
    assert np.mean(np.array(refused)[:, 3] == 4) > 0.7
    assert np.mean(np.array(refused)[:, :3] == 0) > 0.9


def test_the_tail_of_cut_residuals_is_that_of_a_skewed_law_and_short_where_counts_say_so():
    sizes = 2.0 ** (-0.5 * np.arange(12.0)) * 8.0
    skew = np.diff(np.exp(-1.0 - sizes), prepend=0.0) * 1e5
    exact = np.exp(-1.0 - 3.5)  # of the mean above 3.5
    tail = _Tail.of(np.append(skew, 1e5 - skew.sum()), 0.1, sizes)
    assert exact < tail.beyond(3.5) < 1.1 * exact
    noisy = _Tail.of(np.append(skew, 1e5 - skew.sum()), 300.0, sizes)
    assert noisy.beyond(3.5) > tail.beyond(3.5)
    normal = np.diff(2.0 * ndtr(-sizes), prepend=0.0) * 1e5
    assert _Tail.of(np.append(normal, 1e5 - normal.sum()), 10.0, sizes).beyond(3.5) < 0.1 * exact
    assert _Tail().beyond(0.5) == 0.0  # nothing was cut


@pytest.mark.parametrize("height", [0.03, 0.003])
def test_an_intercept_is_refused_where_hidden_columns_move_it(height):
    """Six rows of a hundred have a value that hides, and a large effect."""
    off, refused = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, _, w = table(LOGISTIC, 15_000, rng)
        X[:, 2], w[2] = np.where(rng.random(len(X)) < 0.06, height, 0.0), 3.0 / height
        y = np.where(X @ w[:3] + w[3] + rng.logistic(size=len(X)) > 0, 1.0, -1.0)
        found = fitted(X, y, LOGISTIC, seed)
        off.append((found.w - w) / np.sqrt(np.diag(found.history["covariance"])))
        refused.append(found.history["refused"])
    assert np.mean(off, axis=0)[3] > 3.0  # what an interval would be off by
    np.testing.assert_array_equal(np.array(refused)[:, 2:], 1)
    assert np.mean(np.array(refused)[:, :2] == 0) > 0.9


def test_equal_columns_are_refused_for_what_only_their_difference_would_show():
    refused = []
    for seed in range(12):
        X, y, _ = table(SQUARED, 20_000, np.random.default_rng(seed))
        result = fitted(np.column_stack([X, X[:, 0]]), y, SQUARED, seed)
        refused.append(result.history["refused"])
    np.testing.assert_array_equal(np.array(refused)[:, [0, 3, 4]], 1)  # and the intercept
    assert np.mean(np.array(refused)[:, 1:3] > 0) < 0.25  # of 24: a ninth in the long run


@pytest.mark.parametrize(("loss", "part"), [(LOGISTIC, 1e-3), (SQUARED, 1e-2)])
def test_columns_may_be_far_narrower_than_their_bounds(loss, part):
    X, y, _ = table(loss, 20_000, np.random.default_rng(0))
    X[:, 1] = np.where(X[:, 1] > 0.5, 1.0, 0.0)  # most rows have one value
    narrow = np.array([part, part, 1.0])
    result = fitted(X * narrow, y, loss, 1, Budget(3.0, 1e-6))
    _, usual = reference(X, y, loss, robust=True)
    assert not result.history["refused"].any()
    widths = np.sqrt(np.diag(result.history["covariance"]) / np.diag(usual))
    assert (widths * np.append(narrow, 1.0) < 2.0).all()


def test_targets_may_be_a_thousand_times_narrower_than_their_bounds():
    X, y, w = table(SQUARED, 20_000, np.random.default_rng(0))
    result = fitted(X, 1e-3 * y, SQUARED, 1, Budget(3.0, 1e-6))
    _, usual = reference(X, y, SQUARED, robust=True)
    widths = 1e3 * np.sqrt(np.diag(result.history["covariance"]) / np.diag(usual))
    assert not result.history["refused"].any() and (widths < 3.0).all()
    errors = np.sqrt(np.diag(result.history["covariance"]))
    assert (np.abs(result.w - 1e-3 * w) < 4.0 * errors).all()


def test_residuals_are_told_apart_as_finely_as_rounding_lets():
    """Rounding is charged as if all slopes were cut at the least scale."""
    least = []
    for n, d in ((20_000, 3), (100_000, 200), (1_000_000, 100), (1_000_000, 5)):
        shape = ProblemShape(n, d, 1.0, SQUARED)
        least.append(math.log2(scales(shape)[0]))
        for mechanism, _ in plan(shape, "dp-newton", BUDGET).accesses:
            query = mechanism.query
            assert query.rounding_error() <= 0.21 * query.sensitivity("replace_one")
    assert least == [-12.0, -8.0, -8.0, -12.0]


@pytest.mark.parametrize("loss", [SQUARED, HUBER, "gamma"], ids=str)
def test_many_rows_let_coordinates_reach_as_far_as_narrow_columns_and_categories_ask(loss):
    """Where rounding kept them short, a million rows had intervals 25 times too wide, or none."""
    k = 60
    shares = 1.0 / np.arange(1.0, k + 1.0)
    shares /= shares.sum()
    categories = np.diag(shares[1:]) - np.outer(shares[1:], shares[1:])
    narrow = np.eye(12) / 36.0
    for n, norm, columns in ((300_000, 2.0, categories), (1_000_000, math.sqrt(12.0), narrow)):
        shape = ProblemShape(n, len(columns), norm, loss)
        values, vectors = np.linalg.eigh(columns)
        white = np.eye(shape.dim)
        white[:-1, :-1] = vectors / np.sqrt(values)
        settled = plan(shape, "dp-newton", BUDGET)
        assert reach_of(shape, white) <= _COORDINATES * settled.settings.limit
        for mechanism, _ in settled.accesses:
            rounding = mechanism.query.rounding_error()
            assert rounding <= 0.21 * mechanism.query.sensitivity("replace_one")


def test_a_ridge_belongs_to_the_estimand():
    X, y, _ = table(SQUARED, 4000, np.random.default_rng(0))
    result = fitted(X, y, SQUARED, 1, Budget(mu=900.0), clip=8.0, alpha=0.2)
    rows = np.column_stack([X, np.ones(len(X))])
    expected = np.linalg.solve(rows.T @ rows / 4000 + 0.2 * np.eye(4), rows.T @ y / 4000)
    np.testing.assert_allclose(result.w, expected, atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("cov_type", OF_ROWS)
def test_shares_are_public_and_what_the_accesses_cost(loss, cov_type):
    shape = ProblemShape(50_000, 6, 1.0, loss)
    settled = plan(shape, "dp-newton", Budget(mu=0.5), cov_type=cov_type)
    shares = settled.settings.shares
    assert dict(shares) == shares_of(shape, cov_type, a_round=range_round(shape, 0.25))
    assert sum(shares.values()) == pytest.approx(1.0)
    squares = sum(e.count * (e.sensitivity / e.stddev) ** 2 for e in settled.events)
    assert squares == pytest.approx(0.25, rel=1e-6)
    spent = {}
    for event in settled.events:
        part = event.count * (event.sensitivity / event.stddev) ** 2 / 0.25
        spent[event.where] = spent.get(event.where, 0.0) + part
    for_ranges = spent["column ranges"] + spent["long rows"]
    assert for_ranges == pytest.approx(shares["ranges"], rel=1e-6)
    assert spent["scores"] == pytest.approx(shares["scores"], rel=1e-6)
    assert spent["curvature"] == pytest.approx(shares["curvature"], rel=1e-6)


def test_the_forecast_falls_with_rows_and_names_those_that_are_needed():
    made = [
        plan(ProblemShape(n, 8, 1.0, "logistic"), "dp-newton", BUDGET, neighboring_relation=k)
        for k in ("replace_one", "add_or_remove_one")
        for n in (10_000, 40_000)
    ]
    ratios = [p.expected["width_ratio"] for p in made]
    assert ratios[0] > ratios[1] > 1.0 and ratios[0] > ratios[2] > ratios[3]
    rows = [p.expected["rows_for_coverage"] for p in made]
    assert rows[0] == rows[1] and rows[0] == pytest.approx(2 * rows[2], abs=2)
    mu = sum((e.sensitivity / e.stddev) ** 2 * e.count for e in made[2].events) ** 0.5
    assert rows[2] == pytest.approx(LEAST_RATIO * 9**1.5 / mu, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": Loss("pinball", 0.5)}, "loss must be 'logistic', 'squared' or .*; got 'pinball'"),
        ({"loss": Loss("huber", 1e-4)}, r"threshold must be at least 0\.00024.*; got 0\.0001"),
        ({"n_features": 1000}, "X must have at most 1000 columns, .*; got 1001"),
        ({"cov_type": "cluster"}, "groups must be given for cov_type='cluster'"),
        ({"cov_type": "HC3"}, "cov_type must be one of 'robust', 'nonrobust', 'cluster'; got 'HC"),
        ({"column_bound": 0.0}, r"column_bound must be .*; got 0\.0"),
        ({"clip": -1.0}, r"clip must be .*; got -1\.0"),
    ],
)
def test_what_it_does_not_serve(settings, message):
    public = {"n_features": 3, "loss": Loss("logistic")}
    public |= {k: settings[k] for k in public if k in settings}
    options = {k: v for k, v in settings.items() if k not in public}
    with pytest.raises(ValueError, match=message):
        plan(ProblemShape(1000, data_norm=1.0, **public), "dp-newton", BUDGET, **options)


@pytest.mark.parametrize("cov_type", OF_ROWS)
def test_groups_of_several_rows_are_clusters(cov_type):
    shape = ProblemShape(50_000, 3, 1.0, unit="group")
    with pytest.raises(ValueError, match="cov_type must be 'cluster' where a group has several"):
        plan(shape, "dp-newton", BUDGET, cov_type=cov_type)
    one = ProblemShape(50_000, 3, 1.0, unit="group", max_rows_per_group=1)
    plan(one, "dp-newton", BUDGET, cov_type=cov_type)


def test_steps_are_not_too_long_for_a_rare_value_that_is_thought_too_small(monkeypatch):
    learned = _estimation_coordinates.learn_columns

    def smaller(*arguments):
        columns = learned(*arguments)
        part = np.array([1.0, 1.0, 0.4])
        return replace(columns, scale=columns.scale * part, height=columns.height * part)

    monkeypatch.setattr(_estimation_coordinates, "learn_columns", smaller)
    X, y, w = table(SQUARED, 20_000, np.random.default_rng(0))
    rare = np.random.default_rng(1).random(len(X)) < 0.02
    y -= X[:, 2] * w[2] + 0.3 * rare
    X[:, 2] = rare
    errors = [fitted(X, y, SQUARED, seed).w[2] + 0.3 for seed in range(5)]
    assert np.max(np.abs(errors)) < 0.05


def test_rare_declared_categories_are_refused_less_than_undeclared_ones():
    """Of these 0 and 1 need not be learned, so noise makes no rare one look long."""
    k, n = 26, 4300
    shares, w = 1.0 / np.arange(1.0, k + 1.0), np.random.default_rng(5).normal(0.0, 0.6, k)
    refused = np.zeros((2, 6))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        level = rng.choice(k, n, p=shares / shares.sum())
        y = np.where(w[level] + rng.logistic(size=n) > 0.0, 1.0, -1.0)
        for declared, blocks in enumerate(((), (ColumnBlock("one-hot", 0, k - 1),))):
            made = Problem(np.eye(k)[level][:, 1:], y, LOGISTIC, data_norm=1.0, columns=blocks)
            options = {"neighboring_relation": "add_or_remove_one", "column_bound": 1.0}
            found = solve(made, "dp-newton", Budget(8.0, 1e-6), random_state=seed, **options)
            refused[declared, seed] = np.mean(found.history["refused"] > 0.0)
    assert refused[1].mean() < 0.85 * refused[0].mean()


def test_a_start_where_all_slopes_are_zero_stays_where_it_is():
    """Noise can be so, however rarely: nothing is divided by its length."""

    class Flat(Start):
        def __init__(self):
            self.ask = SimpleNamespace(dim=2)

        def _slopes(self, z):
            return np.zeros(2)

    place = np.array([1.0, -2.0])
    np.testing.assert_array_equal(Flat().descend(place, 1.0, 4), place)
