"""inference=True: what a fit has then, in whose units, and what is refused before it is paid."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import dpfast
from dpfast import HuberRegressor, LinearRegression, LogisticRegression
from dpfast.blocks import from_npy
from dpfast.column_blocks import ColumnBlock

NAMES = ["age", "income", "score"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (9000, 3))
    margins = X @ [1.0, -0.7, 0.0] + 0.3
    return X, (margins + rng.logistic(size=9000) > 0).astype(int), margins + rng.normal(size=9000)


def logistic(**settings):
    declared = {"data_norm": 1.8, "classes": [0, 1], "strict": True, "random_state": 0}
    return LogisticRegression(
        **{**declared, "neighboring_relation": "add_or_remove_one", "inference": True, **settings}
    )


def linear(**settings):
    declared = {"data_norm": 1.8, "target_bounds": (-5.0, 6.0), "strict": True, "random_state": 0}
    return LinearRegression(
        **{**declared, "neighboring_relation": "add_or_remove_one", "inference": True, **settings}
    )


def huber(**settings):
    declared = {"data_norm": 1.8, "target_bounds": (-5.0, 6.0), "strict": True, "random_state": 0}
    return HuberRegressor(
        **{**declared, "neighboring_relation": "add_or_remove_one", "inference": True, **settings}
    )


@pytest.mark.parametrize("cov_type", ["robust", "nonrobust"])
@pytest.mark.parametrize("kind", [logistic, linear, huber])
def test_what_a_fit_has(rows, kind, cov_type):
    X, labels, numbers = rows
    frame = pd.DataFrame(X, columns=NAMES)
    model = kind(cov_type=cov_type).fit(frame, labels if kind is logistic else numbers)
    assert model.privacy_.epsilon <= 1.0
    estimates = np.append(np.ravel(model.coef_), model.intercept_)
    assert np.all(np.abs(estimates - [1.0, -0.7, 0.0, 0.3]) < 4.5 * model.bse_)
    np.testing.assert_allclose(model.bse_**2, np.diag(model.cov_params_))
    table = model.conf_int(0.9)
    assert list(table.index) == [*NAMES, "Intercept"] and list(table) == ["lower", "upper"]
    ends = table.to_numpy()
    np.testing.assert_allclose(ends.mean(axis=1), estimates, atol=1e-12)
    assert model.conf_int(0.9, ["income", 3]).equals(table.loc[["income", "Intercept"]])
    assert model.pvalues_[0] < 1e-3 < model.pvalues_[2]
    summary = model.summary(0.9)
    assert list(summary.to_frame().index) == [*NAMES, "Intercept"]
    assert ("odds ratio" in str(summary)) == (kind is logistic)
    for said in ("9,000", "epsilon=1.0", "add_or_remove_one", cov_type):
        assert said in str(summary)
    again = pickle.loads(pickle.dumps(model))
    assert str(again.summary(0.9)) == str(summary)
    assert clone(model).get_params() == model.get_params()


def test_intervals_are_an_array_where_features_have_no_names(rows, monkeypatch):
    X, labels, _ = rows
    plain = logistic().fit(X, labels).conf_int()
    assert isinstance(plain, np.ndarray) and plain.shape == (4, 2)
    named = logistic().fit(pd.DataFrame(X, columns=NAMES), labels)
    np.testing.assert_array_equal(named.conf_int().to_numpy(), plain)
    monkeypatch.setitem(sys.modules, "pandas", None)
    np.testing.assert_array_equal(named.conf_int(), plain)
    assert isinstance(named.conf_int(), np.ndarray)


def test_units_follow_the_targets(rows):
    X, _, numbers = rows
    small = linear().fit(X, numbers)
    large = linear(target_bounds=(-49.0, 61.0)).fit(X, 10.0 * numbers + 1.0)
    np.testing.assert_allclose(large.coef_, 10.0 * small.coef_)
    np.testing.assert_allclose(large.intercept_, 10.0 * small.intercept_ + 1.0)
    np.testing.assert_allclose(large.cov_params_, 100.0 * small.cov_params_)


def test_units_follow_the_constant_column(rows):
    X, labels, _ = rows
    one, two = (logistic(intercept_scaling=k, epsilon=30.0).fit(X, labels) for k in (1.0, 2.0))
    np.testing.assert_allclose(two.bse_, one.bse_, rtol=0.05)
    without = logistic(fit_intercept=False).fit(X, labels)
    assert without.bse_.shape == (3,)
    assert "Intercept" not in str(without.summary())


def test_the_ledger_is_the_plan(rows):
    X, labels, _ = rows
    model = logistic().fit(X, labels)
    shape = dpfast.ProblemShape(9000, 3, 1.8)
    settled = dpfast.plan(
        shape, "dp-newton", dpfast.Budget(1.0, 1e-6), neighboring_relation="add_or_remove_one"
    )
    counted = {}
    for event in model.privacy_.events:
        counted[event.where] = counted.get(event.where, 0) + event.count
    planned = {}
    for event in settled.events:
        planned[event.where] = planned.get(event.where, 0) + event.count
    assert counted == planned


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": 0.05}, r"X must have at least [\d,]+ rows for inference=True with 4 coeffic"),
        ({"alpha": 0.1}, r"alpha must be 'auto', no ridge, for inference=True; got 0\.1"),
        ({"solver": "dp-gd"}, "solver must be 'auto' or 'dp-newton' for inference=True; got 'dp-g"),
        ({"delta": 0.0}, r"delta must be > 0 for inference=True, .*; got 0\.0"),
        ({"cov_type": "cluster"}, "groups must be given for cov_type='cluster'"),
        ({"cov_type": "HC3"}, "cov_type must be one of 'auto', 'robust', 'nonrobust', 'cluster'"),
        ({"prior": (np.ones((2, 3)), [0, 1])}, "prior must be None for inference=True"),
        ({"classes": [0, 1, 2]}, "classes must be two for inference=True; got 3"),
        ({"objective": "tilted"}, "objective"),
    ],
)
def test_what_is_refused_costs_nothing(rows, settings, message):
    X, labels, _ = rows
    with dpfast.BudgetAccountant(dpfast.Budget(1.0, 1e-6)) as account:
        with pytest.raises(ValueError, match=message):
            logistic(**settings).fit(X, labels)
        assert account.guarantee().epsilon == 0.0


@pytest.mark.parametrize("unit", ["row", "group"])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_another_relation_is_advised_where_it_is_another(rows, relation, unit):
    X, labels, _ = rows
    groups = None if unit == "row" else np.arange(len(X)) // 2
    with pytest.raises(ValueError, match="larger epsilon would do") as refused:
        logistic(epsilon=0.05, neighboring_relation=relation).fit(X, labels, groups=groups)
    advised = f"half the {unit}s with neighboring_relation" in str(refused.value)
    assert advised is (relation == "replace_one")


@pytest.mark.parametrize("kind", [logistic, linear])
def test_groups_are_clusters(rows, kind):
    X, labels, numbers = rows
    y = labels if kind is logistic else numbers
    # Everybody twice: rows of their own would say that errors are smaller by a factor of √2.
    who = np.tile(np.arange(len(X)), 2)
    twice = kind(random_state=1).fit(np.vstack([X, X]), np.tile(y, 2), groups=who)
    asked = kind(random_state=1, cov_type="cluster")
    asked.fit(np.vstack([X, X]), np.tile(y, 2), groups=who)
    np.testing.assert_array_equal(asked.bse_, twice.bse_)
    once = kind().fit(X, y)
    assert twice.privacy_.unit == "group" and twice.privacy_.epsilon <= 1.0
    np.testing.assert_allclose(twice.bse_, once.bse_, rtol=0.25)
    for said in ("Groups", "9,000", "cluster"):
        assert said in str(twice.summary())


def test_groups_of_several_rows_ask_for_clusters(rows):
    X, labels, _ = rows
    who = np.arange(len(X)) // 2
    with dpfast.BudgetAccountant(dpfast.Budget(1.0, 1e-6)) as account:
        with pytest.raises(ValueError, match="cov_type must be 'cluster' where a group has"):
            logistic(cov_type="robust").fit(X, labels, groups=who)
        with pytest.raises(ValueError, match=r"at least [0-9,]+ groups for inference=True"):
            logistic(epsilon=0.3).fit(X, labels, groups=who)
        assert account.guarantee().epsilon == 0.0


FAMILIES = {
    "poisson": (dpfast.PoissonRegressor, {"target_bounds": (0.0, 30.0)}),
    "gamma": (dpfast.GammaRegressor, {"target_bounds": (0.01, 100.0)}),
    "tweedie": (dpfast.TweedieRegressor, {"target_bounds": (0.0, 60.0)}),
    "negative-binomial": (
        dpfast.NegativeBinomialRegressor,
        {"target_bounds": (0.0, 60.0), "dispersion": 0.5},
    ),
}


def family(name, **settings):
    kind, bounds = FAMILIES[name]
    declared = {"data_norm": 1.8, "strict": True, "random_state": 0, "inference": True, **bounds}
    return kind(**{**declared, "neighboring_relation": "add_or_remove_one", **settings})


def positive(name, n=12_000):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    mean = np.exp(X @ [0.6, -0.4, 0.0] + 0.5)
    if name == "gamma":
        return X, rng.gamma(2.0, mean / 2.0)
    if name == "tweedie":
        counts = rng.poisson(mean)
        return X, np.where(counts > 0, rng.gamma(np.maximum(counts, 1)), 0.0)
    return X, rng.poisson(mean * (rng.gamma(2.0, 0.5, n) if "neg" in name else 1.0))


@pytest.mark.parametrize("cov_type", ["robust", "nonrobust"])
@pytest.mark.parametrize("name", FAMILIES)
def test_families_have_ratios_of_means(name, cov_type):
    X, y = positive(name)
    model = family(name, cov_type=cov_type).fit(pd.DataFrame(X, columns=NAMES), y)
    assert model.privacy_.epsilon <= 1.0
    estimates = np.append(model.coef_, model.intercept_)
    assert np.all(np.abs(estimates - [0.6, -0.4, 0.0, 0.5]) < 4.5 * model.bse_)
    frame = model.summary().to_frame()
    ratio = "mean" if name in ("gamma", "tweedie") else "rate"
    np.testing.assert_allclose(frame[f"{ratio} ratio"], np.exp(estimates))
    ends = model.conf_int().to_numpy()
    np.testing.assert_allclose(frame[f"{ratio[0]}r [0.025"], np.exp(ends[:, 0]))


@pytest.mark.parametrize("cov_type", ["robust", "nonrobust"])
def test_exposures_are_part_of_the_record(cov_type):
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.0, 1.0, (16_000, 3))
    exposure = rng.uniform(0.05, 2.0, len(X))
    y = rng.poisson(exposure * np.exp(X @ [0.6, -0.4, 0.0] + 0.5))
    model = family("poisson", max_exposure=2.0, cov_type=cov_type, target_bounds=(0.0, 60.0))
    model.fit(X, y, exposure=exposure)
    z = (np.append(model.coef_, model.intercept_) - [0.6, -0.4, 0.0, 0.5]) / model.bse_
    assert np.all(np.abs(z) < 4.5)
    with pytest.raises(ValueError, match="sample_weight must be None with inference=True"):
        model.fit(X, y, exposure=exposure, sample_weight=np.ones(len(X)))


def test_units_of_the_targets_move_the_intercept_alone():
    X, y = positive("gamma")
    small = family("gamma").fit(X, y)
    large = family("gamma", target_bounds=(1.0, 10_000.0)).fit(X, 100.0 * y)
    np.testing.assert_allclose(large.coef_, small.coef_, rtol=1e-6)
    np.testing.assert_allclose(large.intercept_, small.intercept_ + np.log(100.0), rtol=1e-6)
    np.testing.assert_allclose(large.bse_, small.bse_, rtol=1e-6)


def test_declared_columns_are_within_one():
    shape = dpfast.ProblemShape(9000, 3, 1.8)
    said = dpfast.ProblemShape(9000, 3, 1.8, columns=(ColumnBlock("number", 0, 3),))
    bounds = [
        dpfast.plan(s, "dp-newton", dpfast.Budget(1.0, 1e-6)).settings.column_bound
        for s in (shape, said)
    ]
    assert bounds == [1.8, 1.0]


def test_rows_that_are_needed_are_enough(rows):
    X, labels, _ = rows
    with pytest.raises(ValueError, match="at least") as refusal:
        logistic(epsilon=0.05).fit(X, labels)
    needed = int(str(refusal.value).split("at least ")[1].split(" rows")[0].replace(",", ""))
    shape = dpfast.ProblemShape(needed, 3, 1.8)
    budget = dpfast.Budget(0.05, 1e-6)
    logistic(epsilon=0.05)._planned(shape, budget)
    with pytest.raises(ValueError, match="at least"):
        logistic(epsilon=0.05)._planned(dpfast.ProblemShape(needed - 1, 3, 1.8), budget)


def test_weights_of_rows_are_refused(rows):
    X, labels, _ = rows
    with pytest.raises(ValueError, match="sample_weight must be None with inference=True"):
        logistic(max_weight=1.0).fit(X, labels, sample_weight=np.ones(9000))
    in_blocks = from_npy(X, labels, np.ones(9000))
    with pytest.raises(ValueError, match="sample_weight must be None with inference=True"):
        logistic(max_weight=1.0).fit(in_blocks)


def test_without_inference_there_is_none(rows):
    X, labels, _ = rows
    model = logistic().fit(X, labels)
    model.set_params(inference=False).fit(X, labels)
    for name in ("bse_", "cov_params_", "pvalues_"):
        assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="after a fit with inference=True"):
        model.summary()
    with pytest.raises(AttributeError, match="after a fit with inference=True"):
        model.conf_int()


def test_refused_coefficients_say_so(rows):
    X, _, numbers = rows
    model = linear(data_norm=2.1, epsilon=3.0).fit(np.column_stack([X, X[:, 0]]), numbers)
    assert np.isnan(model.bse_[[0, 3, 4]]).all() and np.isfinite(model.bse_[2])
    assert "No standard error" in str(model.summary())
    assert np.all(np.isfinite(model.coef_))


def test_blocks_have_the_same(rows, tmp_path):
    from dpfast.blocks import from_npy

    X, labels, _ = rows
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", labels)
    whole = logistic().fit(X, labels)
    source = from_npy(tmp_path / "X.npy", tmp_path / "y.npy", block_rows=2000)
    np.testing.assert_allclose(logistic().fit(source).bse_, whole.bse_, rtol=1e-3)
