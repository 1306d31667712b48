"""The intercept of a mean over persons' rows: where residuals add up to nothing."""

import numpy as np
import pytest

import dpfast
from dpfast import LinearRegression, QuantileRegressor
from dpfast.losses import Loss
from dpfast.privacy import Budget
from dpfast.solvers._groups import SizeLaw

BUDGET = Budget(2.0, 1e-6)


def level_of(kind="huber", parameter=2.0, n=4000, **settings):
    shape = dpfast.ProblemShape(n, 4, 1.0, Loss(kind, parameter), **settings)
    return dpfast.plan(shape, "dp-whitened-gd", BUDGET).settings.level


def test_persons_skewed_targets_have_their_mean():
    # Groups' gradients alone leave .75 to .81 of it, as their radius cuts the tail.
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(6000), 2)
    X = rng.uniform(-1.0, 1.0, (12_000, 10))
    y = np.minimum(np.exp(0.3 * X[:, 0] + rng.standard_normal(12_000)), 60.0)
    model = LinearRegression(2.0, 1e-6, data_norm=3.2, target_bounds=(0.0, 60.0), random_state=0)
    model.fit(X, y, groups=who)
    assert np.mean(model.predict(X)) == pytest.approx(np.mean(y), rel=0.12)
    assert [event.where for event in model.privacy_.events].count("sum of residuals") == 1


@pytest.mark.parametrize("most", [None, 3])
def test_rows_of_persons_count_by_their_weights(most):
    """They all counted alike, and the intercept was that of other rows."""
    rng = np.random.default_rng(0)
    X, light = rng.uniform(-1.0, 1.0, (6000, 2)), rng.random(6000) < 0.5
    y, weight = 10.0 + X[:, 0] + 3.0 * light + rng.standard_normal(6000), np.where(light, 0.1, 1.0)
    declared = {"data_norm": 1.5, "target_bounds": (0.0, 100.0), "max_weight": 1.0}
    settings = {"max_rows_per_group": most, "random_state": 0, **declared}
    rows = {"sample_weight": weight, "groups": np.arange(6000) // 2}
    model = LinearRegression(4.0, 1e-6, **settings).fit(X, y, **rows)
    assert abs(np.average(y - model.predict(X), weights=weight)) < 0.1  # it was 1.2
    model = QuantileRegressor(4.0, 1e-6, quantile=0.9, **settings).fit(X, y, **rows)
    below = np.average(y <= model.predict(X), weights=weight)
    assert below == pytest.approx(0.9, abs=0.02)  # and .98


class Noise:
    """Stands for a curator whose answers are three deviations of noise around nothing."""

    @staticmethod
    def release(access, *_):
        return np.array([3.0 * access.stddev])


@pytest.mark.parametrize(("kind", "parameter"), [("huber", 2.0), ("pinball", 0.9)])
def test_a_few_persons_of_very_many_rows_do_not_decide_the_intercept(kind, parameter):
    """If one of 500 rows counts one, groups count a fiftieth, and noise moves it by far."""
    level = level_of(kind, parameter, unit="group")
    shape = dpfast.ProblemShape(4000, 4, 1.0, Loss(kind, parameter), unit="group")
    law, alike = (SizeLaw(np.array([1.0, most]), np.array([0.98, 0.02])) for most in (500.0, 1.0))
    w = np.zeros(5)
    found, single = (level.settled(w, shape, Noise, 0.5, 0.5, each)[-1] for each in (law, alike))
    assert found == single != 0.0


def test_it_is_paid_for_where_it_helps():
    assert level_of(unit="group") is not None
    assert level_of() is None  # single rows have counts of their tails
    assert level_of(n=60, unit="group") is None
    assert level_of(parameter=0.5, unit="group") is None  # outliers are not to count
    assert level_of(unit="group", intercept=0.0) is None
    assert level_of(unit="group", alpha=0.1) is None  # the ridge's minimum has another intercept
