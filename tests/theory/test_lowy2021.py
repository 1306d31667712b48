"""Bounds and tables of Lowy & Razaviyayn 2021."""

import itertools
import math

import numpy as np
import pytest

from dpfast.privacy import Budget
from dpfast.privacy.papers import gaussian_stddev
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
        stated = lowy2021.stated_risk(setting, smooth=smooth, risk=risk)
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
    assert found.exact_risk > 2.0 * lowy2021.stated_risk(setting, smooth=False, risk="population")


def test_the_stated_accuracy_of_theorem_34_2b_is_not_enough():
    setting = Setting(1.0, 1.0, 400, 10**8, epsilon=0.1, delta=1e-6)
    added = lowy2021.ridge(setting, smooth=False)
    risks = {
        alpha: lowy2021.excess_risk(
            setting, smooth=False, strong_convexity=added, accuracy=alpha, added_ridge=True
        )
        for alpha in (setting.ratio**1.5, lowy2021.accuracy(setting, smooth=False))
    }
    stated = lowy2021.stated_risk(setting, smooth=False)
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
    assert found.optimizer == "sgd"
    assert found.iterations == math.ceil(2 * 1.8**2 / (0.1 * found.accuracy))


def test_optimizers_of_the_corollaries():
    common = {"dim": 5, "n_samples": 1000, "epsilon": 50.0, "smoothness": 2.0}
    names = {
        (mean, spread, smooth): lowy2021.guarantee(
            Setting(1.0, 1.0, mean=mean, spread=spread, **common), smooth=smooth
        ).optimizer
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
        rows = lowy2021.table(number, pure)
        assert {row.function_class for row in rows} >= {"F", "H", "G", "J"}
        for row in rows:
            assert 0.0 < row.risk(pure) <= 1.0
            assert row.runtime is None or row.runtime(pure) > 0.0
    for number in (4, 6):
        approximate = Setting(1.0, 1.0, **plain, strong_convexity=0.1, delta=1e-6)
        names = {row.reference for row in lowy2021.table(number, approximate, "H")}
        assert any("Zhang" in name for name in names)
        loud = Setting(1.0, 1.0, **{**plain, "epsilon": 5.0}, strong_convexity=0.1, delta=1e-6)
        names = {row.reference for row in lowy2021.table(number, loud, "H")}
        assert not any("Zhang" in name for name in names)  # their proof needs epsilon <= 1
    general = Setting(1.0, 1.0, 10, 1000, 100.0, smoothness=0.5, mean=False)
    assert {row.function_class for row in lowy2021.table(1, general)} == {"G", "J"}
    with pytest.raises(ValueError, match=r"number must be odd for delta=0\.0; got 2"):
        lowy2021.table(2, pure)
    assert all(row.risk(pure) <= 1.0 for row in lowy2021.ROWS if row.table == 1)


def test_rates_of_the_tables_follow_the_theorems():
    """Rates with the constant 1 lie below the bounds, and fall with n as they do."""
    risks = []
    for n in (10**5, 8 * 10**5):
        s = Setting(1.0, 1.0, 10, n, 1.0, smoothness=0.5)
        (row,) = (r for r in lowy2021.table(5, s, "J") if r.reference.startswith("Corollary"))
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
