"""Bounds and tables of Lowy & Razaviyayn 2021."""

import dataclasses
import itertools
import math

import numpy as np
import outputs
import pytest

from bench.papers import lowy2021 as tables
from dpfast import Budget, Problem, plan
from dpfast.objectives import (
    Erm,
    ErmShape,
    Tilted,
    TiltedShape,
    objective_shape,
)
from dpfast.optimizers import OPTIMIZERS
from dpfast.privacy.papers import gaussian_stddev
from dpfast.random import SecureGenerator
from dpfast.theory import lowy2021
from dpfast.theory.lowy2021 import Setting

SETTINGS = [
    Setting(
        1.5, 3.0, d, n, epsilon, delta, strong_convexity=mu, smoothness=beta, mean=mean, spread=c
    )
    for d, n, (epsilon, delta), mu, beta, mean, c in itertools.product(
        [1, 20], [200, 10**6], [(0.3, 0.0), (0.3, 1e-6), (40.0, 0.0), (40.0, 1e-6)],
        [0.0, 0.01], [0.5, 4.0], [True, False], [1.0, 3.0],
    )
    if mean or c == 1.0
]  # fmt: skip


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("risk", lowy2021.RISKS)
def test_evaluated_bounds_stay_below_the_stated_constants(smooth, risk):
    """Where the theorem applies.  The stated population bound of the Lipschitz class lacks the
    stability term, and Theorem 5.2 a factor of the spread."""
    seen = 0
    for setting in SETTINGS:
        found = lowy2021.guarantee(setting, smooth=smooth, risk=risk)
        if not found.applies or (risk == "population" and not setting.mean):
            continue
        seen += 1
        stated = tables.stated_risk(setting, smooth=smooth, risk=risk)
        if not smooth and setting.strong_convexity:
            # L is that of the whole function there: ours plus the ridge's.
            whole = 1.0 + setting.strong_convexity * setting.radius / setting.lipschitz
            stated *= whole
        if risk == "population":
            lost = 2.0 * setting.lipschitz * setting.radius / math.sqrt(setting.n_samples)
            assert found.exact_risk <= stated * (1 + 1e-9) + (0.0 if smooth else lost)
        else:
            assert found.risk <= stated
        assert found.exact_risk <= found.risk
    assert seen >= 8


def test_the_stated_population_bound_misses_the_stability():
    """At p → 0 the ridge is L/(R√n), and stability alone is 2LR/√n."""
    setting = Setting(1.0, 1.0, 1, 100, epsilon=1e12)
    found = lowy2021.guarantee(setting, smooth=False, risk="population")
    assert found.exact_risk > 2.0 * tables.stated_risk(setting, smooth=False, risk="population")


def test_the_stated_accuracy_of_theorem_34_2b_is_not_enough():
    setting = Setting(1.0, 1.0, 400, 10**8, epsilon=0.1, delta=1e-6)
    added = lowy2021.ridge(setting, smooth=False)
    risks = {
        alpha: lowy2021.excess_risk(
            setting, smooth=False, strong_convexity=added, accuracy=alpha, added_ridge=True
        )
        for alpha in (setting.ratio**1.5, lowy2021.accuracy(setting, smooth=False))
    }
    stated = tables.stated_risk(setting, smooth=False)
    assert lowy2021.guarantee(setting, smooth=False).applies
    assert max(risks.values()) > 10.0 * stated > 10.0 * min(risks.values())


def test_moments_are_those_of_the_calibrated_noise():
    for delta, d in itertools.product([1e-9, 0.01, 0.4], [1, 30]):
        setting = Setting(1.0, 1.0, d, 10, epsilon=2.0, delta=delta)
        stddev = gaussian_stddev(Budget(2.0, delta), 0.7, "zhao")
        first, second = setting.moments(0.7)
        assert second == pytest.approx(d * stddev**2)
        assert first == pytest.approx(math.sqrt(second))
    rng = np.random.default_rng(0)
    lengths = rng.gamma(30, 0.7 / 2.0, 200_000)
    first, second = Setting(1.0, 1.0, 30, 10, epsilon=2.0).moments(0.7)
    assert lengths.mean() == pytest.approx(first, rel=1e-2)
    assert (lengths**2).mean() == pytest.approx(second, rel=1e-2)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_private_mean_stays_below_the_bounds(delta):
    """``f = (µ/2)‖w - x‖²``: the minimizer is the mean, whose noise is all there is."""
    rng = np.random.default_rng(1)
    mu, d, n = 0.5, 6, 400
    X = rng.uniform(-1.0, 1.0, (n, d)) / math.sqrt(d)
    setting = Setting(mu, 1.0, d, n, 1.0, delta, strong_convexity=mu, smoothness=mu)
    sensitivity = 2.0 / n
    if delta == 0.0:
        z = rng.standard_normal((20_000, d))
        z *= (rng.gamma(d, sensitivity, 20_000) / np.linalg.norm(z, axis=1))[:, None]
    else:
        stddev = gaussian_stddev(Budget(1.0, delta), sensitivity, "zhao")
        z = stddev * rng.standard_normal((20_000, d))
    values = 0.5 * mu * ((X.mean(axis=0) + z)[:, None, :] - X.mean(axis=0)) ** 2
    measured = values.sum(axis=(1, 2)).mean()
    found = lowy2021.guarantee(setting, smooth=True)
    assert measured <= found.exact_risk * 1.03
    assert measured >= 0.95 * found.exact_risk  # and the bound is tight here
    population = lowy2021.guarantee(setting, smooth=True, risk="population")
    # Against the distribution's mean, 0: the sample's variance comes on top.
    assert measured + 0.5 * mu * X.var() * d / n <= population.exact_risk


# ---- theorems against runs on data of their class -----------------------------------------------

OBJECTIVES = {
    "erm": ("logistic", {}),
    "hinge": ("hinge", {}),
    "tilted": ("logistic", {"tilt": 1.5}),
    "adversarial": ("logistic", {"radius": 0.3, "smoothing": 0.05}),
}


def records(n, seed, d=4):
    """Rows on the unit sphere, labels of a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X @ np.linspace(3.0, -3.0, d) + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    return X, y


def perturbed(problem, objective, options, alpha, delta, seeds):
    """Private weights of runs that share what comes before the noise."""
    settled = plan(
        problem,
        "output-perturbation",
        Budget(1.0, delta),
        alpha=alpha,
        objective=objective,
        objective_options=options,
        noise="gaussian" if delta else "l2-laplace",
        calibration="zhao" if delta else "analytic",
    )
    point = outputs.unperturbed(settled, problem)
    return settled, [outputs.perturbed(settled, point, SecureGenerator(seed)) for seed in seeds]


def setting_of(shape, problem, radius, delta, mu):
    """The class as the paper counts its constants, from the public shape of an objective."""
    spread = 1.0
    if isinstance(shape, TiltedShape):
        moved = shape.minimizer_sensitivity("replace_one") * shape.alpha / (2.0 * shape.lipschitz)
        spread = max(1.0, shape.n_samples * moved)
    smoothness = shape.smoothness - (0.0 if mu else shape.alpha)
    return Setting(
        shape.lipschitz, radius, shape.dim, shape.n_samples, 1.0, delta, mu, smoothness,
        spread=spread,
    )  # fmt: skip


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("mu", [0.0, 0.1], ids=["convex", "strongly-convex"])
@pytest.mark.parametrize(
    ("kind", "smooth"),
    [(k, s) for k in OBJECTIVES for s in (False, True) if (k, s) != ("hinge", True)],
)
def test_measured_excess_risk_stays_below_the_theorems(kind, smooth, mu, delta):
    """Theorems 3.1, 3.2, 3.4, 3.5, 5.1, 5.2 and their adversarial counterparts, by their class."""
    loss, options = OBJECTIVES[kind]
    X, y = records(3000, 0)
    problem = Problem(X, y, loss, data_norm=1.0, intercept=0.0)
    objective = "erm" if kind in ("erm", "hinge") else kind
    optimizer = OPTIMIZERS["smoothing" if kind == "hinge" else "lbfgs"]

    def shape(alpha):
        return objective_shape(objective, problem.shape, alpha, **options)

    def value(w, alpha):
        return shape(1e-3).on(problem).value_and_gradient(w)[0] + 0.5 * (alpha - 1e-3) * w @ w

    best = optimizer(shape(mu or 1e-3).on(problem), tolerance=1e-5).w
    if mu:
        setting = setting_of(shape(mu), problem, shape(mu).minimizer_norm, delta, mu)
        alpha = mu
    else:
        # Of a tilted risk the spread depends on the ridge, and the ridge on the spread.
        alpha, radius = 1.0, float(np.linalg.norm(best))
        for _ in range(100):
            setting = setting_of(shape(alpha), problem, radius, delta, mu)
            alpha = math.sqrt(alpha * lowy2021.ridge(setting, smooth=smooth))
    bound = lowy2021.guarantee(setting, smooth=smooth).exact_risk
    _, runs = perturbed(problem, objective, options, alpha, delta, range(25))
    excess = np.mean([value(w, mu) for w in runs]) - value(best, mu)
    assert 0.0 < excess <= bound


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("mu", [0.0, 0.1], ids=["convex", "strongly-convex"])
@pytest.mark.parametrize("smooth", [False, True], ids=["lipschitz", "smooth"])
def test_measured_population_risk_stays_below_the_propositions(smooth, mu, delta):
    """Propositions 4.1 to 4.4: samples of a finite population, whose risk is known."""
    loss = "logistic" if smooth else "hinge"
    X, y = records(5000, 1)
    population = Problem(X, y, loss, data_norm=1.0, intercept=0.0)
    optimizer = OPTIMIZERS["newton" if smooth else "smoothing"]
    best = optimizer(Erm(population, mu or 1e-3), tolerance=1e-5).w
    n, radius = 1000, float(np.linalg.norm(best))
    shape = ErmShape(dataclasses.replace(population.shape, n_samples=n), mu or 1.0)
    setting = setting_of(shape, population, shape.minimizer_norm if mu else radius, delta, mu)
    alpha = mu or lowy2021.ridge(setting, smooth=smooth, risk="population")
    bound = lowy2021.guarantee(setting, smooth=smooth, risk="population").exact_risk
    rng, excess = np.random.default_rng(2), []
    for seed in range(12):
        drawn = rng.integers(len(X), size=n)
        sample = Problem(X[drawn], y[drawn], loss, data_norm=1.0, intercept=0.0)
        _, (w,) = perturbed(sample, "erm", {}, alpha, delta, [seed])
        excess.append(population.value_and_gradient(w, mu)[0])
    assert 0.0 < np.mean(excess) - population.value_and_gradient(best, mu)[0] <= bound


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_tilted_plan_takes_the_ridge_of_its_own_theorem(delta):
    """The noise that the bound counts is the noise that the plan adds, at that ridge."""
    X, y = records(3000, 0)
    problem = Problem(X, y, data_norm=1.0, intercept=0.0)
    settled, runs = perturbed(problem, "tilted", {"tilt": 1.5}, "lowy2021", delta, range(25))
    shape = TiltedShape(problem.shape, settled.shape.alpha, 1.5)
    norm = 6.0  # the default guess, over the row norm
    setting = setting_of(shape, problem, norm, delta, 0.0)
    found = lowy2021.guarantee(setting)
    assert found.ridge == pytest.approx(settled.shape.alpha, rel=1e-9)
    reference = Tilted(problem, 1e-3, 1.5)
    best = OPTIMIZERS["newton"](reference, tolerance=1e-8)
    assert np.linalg.norm(best.w) <= norm
    values = [reference.value_and_gradient(w)[0] - 5e-4 * w @ w for w in runs]
    excess = np.mean(values) - best.value + 5e-4 * best.w @ best.w
    assert 0.0 < excess <= found.exact_risk


def test_ridges_and_accuracies_follow_the_theorems():
    s = Setting(1.5, 3.0, 4, 1000, epsilon=0.5, smoothness=2.0)
    p = 4 / (0.5 * 1000)
    assert s.ratio == pytest.approx(p)
    assert lowy2021.ridge(s, smooth=False) == pytest.approx(0.5 / math.sqrt(1 + 1 / p))
    assert lowy2021.ridge(s, smooth=True) == pytest.approx((2 * 0.25) ** (1 / 3) * p ** (2 / 3))
    assert lowy2021.ridge(s, smooth=False, risk="population") == pytest.approx(
        0.5 * (math.sqrt(p) + 1000**-0.5)
    )
    assert lowy2021.ridge(s, smooth=True, risk="population") == pytest.approx(
        (2 * 0.25) ** (1 / 3) * (p ** (2 / 3) + 1000**-0.5)
    )
    assert lowy2021.accuracy(s, smooth=False) == pytest.approx(4.5 * p**1.5 / (1 + 8.0) ** 2)
    steep = (1.5**4 * 9 / 2) ** (1 / 3) * (1 / 8) ** (2 / 3) * 1000 ** (-4 / 3)
    assert lowy2021.accuracy(s, smooth=True) == pytest.approx(steep)
    strong = Setting(1.5, 3.0, 4, 1000, epsilon=0.5, smoothness=2.0, strong_convexity=0.1)
    assert lowy2021.accuracy(strong, smooth=True) == pytest.approx(22.5 / 1000**2)
    assert lowy2021.accuracy(strong, smooth=False) == pytest.approx(22.5 / 1000**2)
    found = lowy2021.guarantee(strong, smooth=False)
    name, iterations, _ = tables.effort(strong, smooth=False)
    assert name == "sgd"
    assert iterations == math.ceil(2 * 1.8**2 / (0.1 * found.accuracy))


def test_optimizers_of_the_corollaries():
    common = {"dim": 5, "n_samples": 1000, "epsilon": 50.0, "smoothness": 2.0}
    names = {
        (mean, spread, smooth): tables.effort(
            Setting(1.0, 1.0, mean=mean, spread=spread, **common), smooth=smooth
        )[0]
        for mean, spread, smooth in itertools.product([True, False], [1.0, 2.0], [True, False])
    }
    assert names[True, 1.0, True] == "katyusha"
    assert names[True, 1.0, False] == "sgd"
    assert {names[k] for k in names if k[2] and k[:2] != (True, 1.0)} == {"agd"}
    assert {names[k] for k in names if not k[2] and k[:2] != (True, 1.0)} == {"subgradient"}


def test_tables_offer_what_the_setting_allows():
    plain = {"dim": 10, "n_samples": 100_000, "epsilon": 1.0, "smoothness": 0.5}
    pure = Setting(1.0, 1.0, **plain, strong_convexity=0.1)
    for number in (3, 5):
        rows = tables.table(number, pure)
        assert {row.function_class for row in rows} >= {"F", "H", "G", "J"}
        for row in rows:
            assert 0.0 < row.risk(pure) <= 1.0
            assert row.runtime is None or row.runtime(pure) > 0.0
    for number in (4, 6):
        approximate = Setting(1.0, 1.0, **plain, strong_convexity=0.1, delta=1e-6)
        names = {row.reference for row in tables.table(number, approximate, "H")}
        assert any("Zhang" in name for name in names)
        loud = Setting(1.0, 1.0, **{**plain, "epsilon": 5.0}, strong_convexity=0.1, delta=1e-6)
        names = {row.reference for row in tables.table(number, loud, "H")}
        assert not any("Zhang" in name for name in names)  # their proof needs epsilon <= 1
    general = Setting(1.0, 1.0, 10, 1000, 100.0, smoothness=0.5, mean=False)
    assert {row.function_class for row in tables.table(1, general)} == {"G", "J"}
    with pytest.raises(ValueError, match=r"number must be odd for delta=0\.0; got 2"):
        tables.table(2, pure)
    assert all(row.risk(pure) <= 1.0 for row in tables.ROWS if row.table == 1)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("mean", [True, False])
def test_rows_with_constants_are_bounds(mean, delta):
    """This paper's rows and those of Zhang et al.; all others are rates."""
    common = {"dim": 10, "n_samples": 10**6, "epsilon": 1.0 if mean else 200.0, "delta": delta}
    s = Setting(1.0, 1.0, **common, strong_convexity=0.1, smoothness=0.5, mean=mean)
    seen = set()
    for row in tables.ROWS:
        if row.table % 2 != (delta == 0.0) or (row.table <= 2) == mean:
            continue
        own = row.reference.startswith(("Corollary", "Proposition 4", "Theorem 5"))
        assert (row.bound is not None) == (own or "Zhang" in row.reference)
        if row.bound is not None:
            seen.add(row.function_class)
            # A rate with the constant 1 and without logarithms is no bound, but none is below it.
            assert 0.9 * row.risk(s) <= row.bound(s) <= (1e4 if own else 1e6) * row.risk(s)
    assert seen >= {"F", "H", "G", "J"}
    (strong,) = (
        r for r in tables.table(5 + (delta > 0.0), s, "H") if "Corollary" in r.reference
    ) if mean else (None,)  # fmt: skip
    if strong is not None:
        assert strong.bound(s) == lowy2021.guarantee(s).exact_risk


def test_rates_of_the_tables_follow_the_theorems():
    """Rates with the constant 1 lie below the bounds, and fall with n as they do."""
    risks = []
    for n in (10**5, 8 * 10**5):
        s = Setting(1.0, 1.0, 10, n, 1.0, smoothness=0.5)
        (row,) = (r for r in tables.table(5, s, "J") if r.reference.startswith("Corollary"))
        risks.append((row.risk(s), lowy2021.guarantee(s, smooth=True).exact_risk))
        assert row.risk(s) <= lowy2021.guarantee(s).risk
    assert risks[0][0] / risks[1][0] == pytest.approx(4.0)
    assert risks[0][1] / risks[1][1] == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 0.5}, "delta must be < 1/2"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"lipschitz": math.nan}, "lipschitz must be"),
        ({"smoothness": 0.01, "strong_convexity": 0.1}, "smoothness must be"),
        ({"spread": 0.5}, "spread must be"),
        ({"dim": 0}, "dim must be"),
    ],
)
def test_bad_settings_are_refused(change, message):
    plain = {"lipschitz": 1.0, "radius": 1.0, "dim": 3, "n_samples": 10, "epsilon": 1.0}
    with pytest.raises(ValueError, match=message):
        Setting(**{**plain, **change})


def test_smooth_bounds_need_a_smooth_function():
    with pytest.raises(ValueError, match="smoothness must be finite"):
        lowy2021.guarantee(Setting(1.0, 1.0, 3, 10, 1.0), smooth=True)


# ---- lower bounds -------------------------------------------------------------------------------


def greedy_code(dim, distance):
    """Words of signs that differ in at least so many places, one after another."""
    code = []
    for word in range(2**dim):
        if all((word ^ other).bit_count() >= distance for other in code):
            code.append(word)
    return code


def test_codes_are_no_larger_than_those_that_exist():
    for dim in (1, 4, 7):
        signs = np.arange(1, dim + 1)
        for h, log_count in zip(signs, lowy2021._log_code_sizes(dim, signs), strict=True):
            assert math.exp(log_count) + 1.0 <= len(greedy_code(dim, int(h))) + 1e-6
            assert log_count >= 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-2])
def test_no_private_mean_is_better_than_the_lower_bound(delta):
    """Methods whose error is known: 0, the mean plus noise, and one that picks a record."""
    for dim, n, epsilon in itertools.product([1, 3, 40], [1, 10, 1000], [0.01, 0.5, 3.0]):
        found = lowy2021.private_mean_error(dim, n, epsilon, delta)
        assert 0.0 < found <= 1.0
        noisy = Setting(1.0, 1.0, dim, n, epsilon, delta)
        assert found <= noisy.moments(2.0 / n)[1]
        if delta > 0.0:
            # Released as it is with probability δ, and 0 otherwise.
            assert found <= 1.0 - delta + 1e-12


def test_randomized_response_is_near_the_lower_bound():
    """One record, one dimension: the sign with probability e^ε/(1 + e^ε), scaled at best."""
    for epsilon in (0.1, 1.0, 3.0):
        keep = 1.0 / (1.0 + math.exp(-epsilon))
        scale = 2.0 * keep - 1.0
        error = keep * (1.0 - scale) ** 2 + (1.0 - keep) * (1.0 + scale) ** 2
        found = lowy2021.private_mean_error(1, 1, epsilon)
        assert found <= error
        assert found > 0.4 * (1.0 - keep)


def test_the_lower_bound_has_the_rate_of_the_proposition():
    for dim, epsilon in itertools.product([1, 10, 1000], [0.01, 1.0]):
        n = int(20 * dim / epsilon)
        rates = [
            lowy2021.private_mean_error(dim, m, epsilon) / min(1.0, dim / (epsilon * m)) ** 2
            for m in (max(1, n // 400), n, 100 * n)
        ]
        # The order with a constant: none vanishes, and from some n on they agree.
        assert min(rates) > 1e-3
        assert rates[2] == pytest.approx(rates[1], rel=0.2)
    # With δ the packing gives way at log(1/δ).
    few = lowy2021.private_mean_error(1000, 10**6, 1.0, 1e-6)
    assert few < 0.01 * lowy2021.private_mean_error(1000, 10**6, 1.0)
    assert few > 1e-3 * (math.log(1e6) / 10**6) ** 2


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s.dim}-{s.n_samples}-{s.epsilon}")
def test_lower_bounds_are_below_the_upper_ones(setting):
    setting = dataclasses.replace(setting, mean=True, spread=1.0)
    low = lowy2021.lower_bound(setting)
    assert 0.0 < low <= setting.lipschitz * setting.radius
    for smooth in (False, True):
        assert low <= lowy2021.guarantee(setting, smooth=smooth).exact_risk
    assert lowy2021.lower_bound(setting, replacements=2) <= low


def test_the_hard_function_of_the_lower_bound_is_in_the_class():
    """Written from the docstring: gradients on the ball, where the bound's size comes from."""
    for setting in SETTINGS:
        unit = lowy2021.private_mean_error(
            setting.dim, setting.n_samples, setting.epsilon, setting.delta
        )
        size = lowy2021.lower_bound(setting) / unit
        scale, radius, mu = setting.lipschitz, setting.radius, setting.strong_convexity
        possible = [0.5 * mu * min(radius, scale / mu) ** 2] if mu else []
        for bend in np.geomspace(max(mu, 1e-6), setting.smoothness, 4000):
            own = min(radius, scale / bend - radius)
            if own > 0.0:
                assert bend * (radius + own) <= scale * (1 + 1e-12)
                possible.append(0.5 * bend * own**2)
        assert size == pytest.approx(max(possible), rel=1e-2)


def test_plans_state_the_lower_bound():
    shape = Problem(np.eye(3), [1.0, -1.0, 1.0], data_norm=1.0).shape
    shape = dataclasses.replace(shape, n_samples=10_000)
    for budget in (Budget(0.5), Budget(0.5, 1e-6)):
        settled = plan(shape, "output-perturbation", budget, minimizer_norm=2.0)
        setting = Setting(shape.lipschitz, 2.0, 4, 10_000, 0.5, budget.delta,
                          smoothness=shape.smoothness)  # fmt: skip
        assert settled.expected["lower_bound"] == lowy2021.lower_bound(setting)
        assert settled.expected["lower_bound"] < settled.expected["excess_risk_bound"]
        other = plan(shape, "output-perturbation", budget, minimizer_norm=2.0,
                     neighboring_relation="add_or_remove_one")  # fmt: skip
        assert other.expected["lower_bound"] < settled.expected["lower_bound"]
    assert "lower_bound" not in plan(shape, "output-perturbation", Budget(mu=1.0)).expected


# ---- minimax ------------------------------------------------------------------------------------


def test_minimax_gradients_are_those_of_the_corollaries():
    n, d, beta_v, rho = 400, 3, 0.7, 0.2
    setting = Setting(1.0, 2.0, d, n, 1.0, strong_convexity=0.1, smoothness=2.0)
    found = lowy2021.minimax_gradients(
        setting, adversary_smoothness=beta_v, diameter=math.sqrt(n) * rho
    )
    least = min(setting.kappa * (d / 1.0) ** 2, 1.0)
    # Corollary 5.1, part 2a.
    assert found == pytest.approx(n**1.5 * math.sqrt(2.0 * beta_v / least) * rho)
    general = dataclasses.replace(setting, mean=False)
    found = lowy2021.minimax_gradients(
        general, adversary_smoothness=beta_v, diameter=math.sqrt(n) * rho
    )
    assert found == pytest.approx(math.sqrt(n) * math.sqrt(2.0 * beta_v / least) * rho)
    strongly = lowy2021.minimax_gradients(
        setting, adversary_smoothness=beta_v, diameter=1.0, strong_concavity=0.07
    )
    assert strongly == pytest.approx(math.sqrt(setting.kappa * 10.0))
    with pytest.raises(ValueError, match="strongly convex and smooth"):
        lowy2021.minimax_gradients(
            dataclasses.replace(setting, smoothness=math.inf),
            adversary_smoothness=1.0,
            diameter=1.0,
        )
