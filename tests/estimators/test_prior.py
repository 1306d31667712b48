"""Fits that begin with public rows: what they cost, and whom they believe."""

import pickle
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import log_loss

from dpfast import (
    Budget,
    BudgetAccountant,
    CoefficientPrior,
    HuberRegressor,
    Ledger,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    Loss,
    PoissonRegressor,
    Problem,
    QuantileRegressor,
    blocks,
    plan,
    solve,
)
from dpfast.datasets import load_randhie
from dpfast.errors import PrivacyLeakWarning
from dpfast.model_selection import PrivateSearchCV
from dpfast.privacy import PrivacyReport
from dpfast.random import SecureGenerator
from dpfast.solvers import carry_out
from dpfast.solvers.prior import (
    Coefficients,
    _Belief,
    _told_along,
    known_rows,
    least_rows,
    plan_refit,
    tells_more,
)
from dpfast.solvers.public_rows import from_rows, plan_with_rows

DECLARED = {"data_norm": 3.0, "random_state": 0, "strict": True, "delta": 1e-6}
LINE = 4 * ["gradient along the public weights"]
WEIGHTS = np.array([3.0, -2.0, 0.0, 1.0, 0.0])


def table(n=3000, seed=0):
    """Rows of unequal columns, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 5)) * [1.0, 1.0, 0.3, 1.0, 0.3]
    return X, np.where(rng.logistic(size=n) < X @ WEIGHTS - 0.5, 1, 0)


def mean_loss(n, prior=None, times=8, **settings):
    """Mean log-loss of some fits to n rows."""
    X, y = table(n)
    found = []
    for k in range(times):
        given = {**DECLARED, "classes": [0, 1], **settings, "random_state": k}
        p = LogisticRegression(**given, prior=prior).fit(X, y).predict_proba(X)
        found.append(-np.mean(np.log(p[np.arange(n), y])))
    return float(np.mean(found))


def test_public_rows_help_where_private_ones_are_few():
    prior = table(200, 1)
    assert mean_loss(1000, prior, epsilon=0.1) < mean_loss(1000, epsilon=0.1) - 0.03


def test_many_private_rows_need_no_prior():
    X, y = table(20_000)
    settings = {**DECLARED, "classes": [0, 1]}
    with_prior = LogisticRegression(**settings, prior=table(50, 1)).fit(X, y)
    np.testing.assert_array_equal(with_prior.coef_, LogisticRegression(**settings).fit(X, y).coef_)


def test_a_prior_that_is_wrong_is_left_alone():
    X, y = table(300, 1)
    right, wrong, alone = (
        mean_loss(2000, prior, epsilon=0.12) for prior in ((X, y), (X, 1 - y), None)
    )
    assert right < wrong < alone + 0.03


def problem(n=2000, seed=0):
    X, y = table(n, seed)
    return Problem(X, np.where(y == 1, 1.0, -1.0), "logistic", data_norm=3.0)


def run(rows, known, epsilon=1.0, seed=0):
    budget = Budget(epsilon, 1e-6)
    settled = plan_with_rows(rows.shape, known, budget)
    return carry_out(settled, rows, SecureGenerator(seed), Ledger(budget))


def test_the_run_says_how_far_it_went_to_the_public_rows():
    rows = problem(3000)
    X, y = table(300, 1)
    signs = np.where(y == 1, 1.0, -1.0)
    right, wrong = (run(rows, from_rows(rows.shape, X, s), 0.1).history for s in (signs, -signs))
    assert wrong["public_share"] < 0.2 < 0.6 < right["public_share"] <= 1.0


def test_the_more_budget_the_nearer():
    rows = problem(20_000)
    X, y = table(60, 1)
    known = from_rows(rows.shape, X, np.where(y == 1, 1.0, -1.0))
    losses = [rows.objective(run(rows, known, e).w) for e in (1e-3, 4e-3, 2e-2)]
    assert losses[0] > losses[1] > losses[2]


def test_what_the_private_rows_contradict_counts_less():
    """Public rows of another law of labels, whose intercept is right."""
    rows = problem(20_000)
    X, y = table(3000, 1)
    alike = from_rows(rows.shape, X, np.where(y == 1, 1.0, -1.0))
    logits = X @ WEIGHTS[[2, 0, 1, 4, 3]] - 0.5
    drawn = np.random.default_rng(2).logistic(size=3000) < logits
    other = from_rows(rows.shape, X, np.where(drawn, 1.0, -1.0))
    believed = [
        sum(run(rows, known, 0.05, seed).history["public_share"] for seed in range(4))
        for known in (alike, other)
    ]
    assert believed[1] < 0.5 * believed[0]


def test_without_private_rows_to_speak_of_the_public_ones_decide():
    X, y = table(500, 1)
    rows, people = problem(30), problem(20_000, 2)
    known = from_rows(rows.shape, X, np.where(y == 1, 1.0, -1.0))
    found, public, constant = (
        people.objective(w) for w in (run(rows, known, 0.1).w, known.origin, np.zeros(6))
    )
    # Nobody can tell whether they are wrong, so they count a share.
    assert found - public < 0.3 * (constant - public)


def test_few_rows_tell_coefficients_from_those_of_the_other_sign():
    X, y = table(2000)
    problem = Problem(X, 2.0 * y - 1.0, "logistic", data_norm=3.0)
    right = np.append(WEIGHTS, -0.5 / problem.shape.intercept)
    budget = Budget(mu=5.0 * problem.shape.dim / len(y))  # 2.5 rows behind a weight, times mu
    for w, left in ((right, 0), (-right, 6)):
        plan = plan_refit(problem.shape, Coefficients(w, 0.02 * np.eye(6), 0.0), budget)
        fits = [carry_out(plan, problem, SecureGenerator(k), Ledger(budget)) for k in range(6)]
        # Neither was left before.
        assert sum(np.isinf(fit.history["wider"]) for fit in fits) == left


def test_few_rows_tell_labels_that_agree_from_labels_that_are_turned():
    X, y = table(2000)
    problem = Problem(X, 2.0 * y - 1.0, "logistic", data_norm=3.0)
    public, seen = table(300, 1)
    best = minimize(lambda w: problem.value_and_gradient(w, 1e-9), np.zeros(6), jac=True).fun
    budget = Budget(mu=2.0 * problem.shape.dim / len(y))  # one row behind a weight, times mu
    for labels, most in ((seen, 0.006), (1 - seen, 0.18)):
        plan = plan_with_rows(
            problem.shape, from_rows(problem.shape, public, 2.0 * labels - 1.0), budget
        )
        fits = [carry_out(plan, problem, SecureGenerator(k), Ledger(budget)).w for k in range(6)]
        mean = np.mean([problem.objective(w) for w in fits]) / len(y)
        assert mean - best < most  # .016 and .24 before that


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_it_costs_what_the_plan_says(relation):
    X, y = table(500)
    settings = {**DECLARED, "classes": [0, 1], "neighboring_relation": relation}
    model = LogisticRegression(**settings, epsilon=0.2, prior=table(50, 1)).fit(X, y)
    assert 0.199 < model.privacy_.epsilon <= 0.2
    assert [event.where for event in model.privacy_.events] == LINE + 3 * ["gradient"]


@pytest.mark.parametrize("cls", [LogisticRegression, LinearSVC, LinearRegression, HuberRegressor])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_loss_without_a_log_link_takes_one(cls, fit_intercept):
    X, y = table()
    named = {"classes": [0, 1]} if "classes" in cls().get_params() else {"target_bounds": (-1, 1)}
    settings = {**DECLARED, **named, "fit_intercept": fit_intercept, "prior": table(200, 1)}
    model = cls(**settings, epsilon=0.05).fit(X, y)
    assert [event.where for event in model.privacy_.events][:3] == LINE[:3]
    assert np.corrcoef(model.coef_.ravel(), WEIGHTS)[0, 1] > 0.6
    assert (np.ravel(model.intercept_)[0] != 0.0) == fit_intercept


def test_long_and_constant_public_rows():
    """Rows beyond the norm are shortened; a column that does not vary may do so in private ones."""
    X, y = table(200, 1)
    X[:, 3] = 0.2
    X[0] *= 1e6
    prior = X, y
    assert mean_loss(2000, prior, epsilon=0.12) < mean_loss(2000, epsilon=0.12) + 0.02


def test_rows_in_blocks_and_in_memory_fit_alike(tmp_path):
    X, y = table(1000)
    settings = {**DECLARED, "classes": [0, 1], "epsilon": 0.1, "prior": table(200, 1)}
    whole = LogisticRegression(**settings).fit(X, y)
    parts, source = LogisticRegression(**settings), blocks.from_npy(X, y, block_rows=300)
    np.testing.assert_allclose(parts.fit(source).coef_, whole.coef_, atol=1e-3)
    begun = parts.fit(source, checkpoint=tmp_path / "c").coef_
    np.testing.assert_array_equal(parts.fit(source, checkpoint=tmp_path / "c").coef_, begun)


def test_a_prior_is_cloned_with_its_estimator():
    X, y = table(300)
    model = LogisticRegression(0.1, **DECLARED, classes=[0, 1], prior=table(50, 1))
    np.testing.assert_array_equal(clone(model).fit(X, y).coef_, model.fit(X, y).coef_)
    known = LogisticRegression(1.0, **DECLARED, classes=[0, 1]).fit(X, y)
    model.set_params(prior=known)
    again = clone(clone(model))
    assert again.prior is not known
    np.testing.assert_array_equal(again.fit(X, y).coef_, model.fit(X, y).coef_)
    with pytest.raises(ValueError, match=r"prior must be a fitted model; .*as_prior\(\)"):
        model.set_params(prior=clone(known)).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"prior": "last month"}, TypeError, r"prior must be None, a pair \(X, y\).*load\(file"),
        ({"prior": (np.ones((3, 5)),)}, ValueError, r"prior must be a pair \(X, y\)"),
        ({"prior": (np.ones((3, 4)), [0, 1, 0])}, ValueError, "prior must have a target for each"),
        ({"prior": (np.ones((3, 5)), [0, 1])}, ValueError, "prior must have a target for each"),
        ({"prior": (np.ones((3, 5)), [1, 1, 1])}, ValueError, "rows of different targets"),
        ({"prior": (np.full((3, 5), np.nan), [0, 1, 0])}, ValueError, r"prior\[0\] contains NaN"),
        ({"prior": (np.ones((2, 5)), [0, 7])}, ValueError, "y must hold only the declared classes"),
        ({"alpha": 0.1}, ValueError, "nothing else is asked of it"),
        ({"solver": "dp-gd"}, ValueError, "prior must be None unless"),
        ({"delta": 0.0}, ValueError, "budget must be one of"),
        ({"classes": [0, 1, 2]}, ValueError, "one or two classes"),
        ({"classes": None, "strict": False}, ValueError, "classes or target_bounds must be given"),
    ],
)
@pytest.mark.filterwarnings("ignore::dpfast.PrivacyLeakWarning")
def test_what_is_refused(settings, error, message):
    X, y = table(100)
    given = {**DECLARED, "classes": [0, 1], "prior": table(50, 1), **settings}
    with pytest.raises(error, match=message):
        LogisticRegression(**given).fit(X, y)


def test_public_targets_that_all_lie_beyond_the_bounds_are_refused():
    """Within the bounds they are one target."""
    X, _ = table(50)
    given = {**DECLARED, "target_bounds": (0.0, 1.0), "prior": (X, np.arange(2.0, 52.0))}
    with pytest.raises(ValueError, match="rows of different targets, within target_bounds"):
        LinearRegression(**given).fit(X, X[:, 0])


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_single_column_that_is_constant_may_have_a_prior():
    given = {**DECLARED, "target_bounds": (-1.0, 1.0), "fit_intercept": False, "epsilon": 100.0}
    X, y = np.ones((3000, 1)), np.linspace(-0.2, 0.8, 3000)
    known = LinearRegression(**given).fit(X, y)
    assert LinearRegression(**given, prior=known).fit(X, y).coef_ == pytest.approx(0.3, abs=0.05)


def test_ranges_of_columns_are_known_with_a_prior_too():
    X, y = table()
    known = LogisticRegression(0.5, **DECLARED, classes=[0, 1]).fit(X, y)
    model = LogisticRegression(0.5, **DECLARED, classes=[0, 1], prior=known).fit(X, y)
    np.testing.assert_array_equal(model.column_ranges_, known.column_ranges_)


def test_what_a_prior_leaves_unprotected_stands_in_the_report():
    X, y = table(300)
    settings = {"classes": [0, 1], "strict": False}
    with pytest.warns(PrivacyLeakWarning):
        earlier = LogisticRegression(**settings, random_state=0).fit(X, y)
    fresh = LogisticRegression(**settings, data_norm=2.0, prior=earlier).fit(X, y).privacy_
    assert not fresh.reproducible
    assert any("data_norm" in note and "prior" in note for note in fresh.notes)
    assert any("random_state repeats" in note for note in fresh.notes)
    model = LogisticRegression(**settings, data_norm=2.0, prior=earlier)
    search = PrivateSearchCV(model, {"intercept_scaling": [1.0, 2.0]}, epsilon=3.0).fit(X, y)
    assert search.privacy_.notes[:2] == fresh.notes[:2]
    # Coefficients take it along, through copies too.
    for prior in (earlier.as_prior(), deepcopy(earlier.as_prior())):
        model = clone(LogisticRegression(**settings, data_norm=2.0, prior=prior))
        report = model.fit(X, y).privacy_
        assert report.notes[:2] == fresh.notes[:2]
        assert "CoefficientPrior fitted before, whose records nothing protects" in report.prior


def test_the_report_names_the_prior_that_was_used():
    X, y = table(300)
    settings = {**DECLARED, "classes": [0, 1]}
    fresh = {**settings, "random_state": None}
    earlier = LogisticRegression(**fresh).fit(X, y)
    assert earlier.privacy_.prior == ""
    for prior, words in (
        (earlier, "a LogisticRegression fitted before, whose own account protects its records"),
        (LogisticRegression(**settings).fit(X, y), "whose records nothing protects"),
        (
            CoefficientPrior(np.zeros(5), 0.0, np.ones(6)),
            "coefficients taken to be public",
        ),
        ((X[:50], y[:50]), "50 rows taken to be public"),
    ):
        report = LogisticRegression(**settings, prior=prior).fit(X, y).privacy_
        assert words in report.prior
        assert report.prior in str(report)
        assert PrivacyReport.from_json(report.to_json()) == report
    many = LogisticRegression(**{**settings, "epsilon": 50.0}, prior=(X[:50], y[:50])).fit(X, y)
    assert many.privacy_.prior == ""  # it was not looked at


def test_log_links_take_none():
    X, y = table(100)
    model = PoissonRegressor(**DECLARED, target_bounds=(0, 3), prior=table(50, 1))
    with pytest.raises(ValueError, match="prior must be None for a loss with a log link"):
        model.fit(X, y)


@pytest.mark.parametrize(
    "prior",
    [table(50, 1), *(CoefficientPrior(WEIGHTS, 0.0, np.ones(6), rows) for rows in (0.5, 9.0))],
    ids=["rows", "an earlier fit of few rows", "an earlier fit"],
)
def test_groups_take_none(prior):
    X, y = table(100)
    model = LogisticRegression(**DECLARED, classes=[0, 1], prior=prior)
    with pytest.raises(ValueError, match="where a record is a group"):
        model.fit(X, y, groups=np.arange(100) // 2)


class TestCoefficients:
    """Priors that are coefficients with a covariance: published ones, or an earlier model's."""

    PUBLIC: ClassVar = {**DECLARED, "classes": [0, 1]}

    def fitted(self, seed=0, prior=None, epsilon=0.3, n=3000, **settings):
        X, y = table(n, seed)
        given = {**self.PUBLIC, "random_state": seed, **settings}
        return LogisticRegression(epsilon, **given, prior=prior).fit(X, y)

    def test_a_chain_of_fits_is_nearer_than_single_ones(self):
        def loss(model):
            X, y = table(20_000, 99)
            return -np.mean(np.log(model.predict_proba(X)[np.arange(len(y)), y]))

        alone = [self.fitted(seed, epsilon=0.15) for seed in range(12)]
        chain = [alone[0]]
        for seed in range(1, 12):
            chain.append(self.fitted(seed, chain[-1], epsilon=0.15))
        least = loss(self.fitted(1, epsilon=30.0, n=20_000))
        excess = [np.mean([loss(m) - least for m in some[3:]]) for some in (alone, chain)]
        assert excess[1] < 0.9 * excess[0]

    def test_it_costs_what_a_fit_costs(self):
        X, y = table()
        first = self.fitted()
        for relation in ("replace_one", "add_or_remove_one"):
            settings = {**self.PUBLIC, "neighboring_relation": relation}
            model = LogisticRegression(0.3, **settings, prior=first).fit(X, y)
            assert 0.299 < model.privacy_.epsilon <= 0.3
            assert sum(event.where == "gradient" for event in model.privacy_.events) > 0

    def test_the_model_and_what_it_stands_for_are_the_same_prior(self):
        first = self.fitted()
        found = first.as_prior()
        np.testing.assert_array_equal(found.coef, first.coef_[0])
        assert found.intercept == first.intercept_[0]
        assert found.covariance.shape == (6, 6)
        one, two = self.fitted(1, first), self.fitted(1, found)
        np.testing.assert_array_equal(one.coef_, two.coef_)
        again = self.fitted(1, pickle.loads(pickle.dumps(first)))
        np.testing.assert_array_equal(again.coef_, one.coef_)

    def test_precise_coefficients_stay_and_vague_ones_do_not_matter(self):
        exact = CoefficientPrior(WEIGHTS, -0.5, np.full(6, 1e-6))
        near = self.fitted(prior=exact, epsilon=0.05)
        np.testing.assert_allclose(near.coef_[0], WEIGHTS, atol=0.05)
        vague = CoefficientPrior(np.zeros(5), 0.0, np.full(6, 1e4))
        free, alone = self.fitted(prior=vague, epsilon=3.0), self.fitted(epsilon=3.0)
        np.testing.assert_allclose(free.coef_, alone.coef_, atol=0.8)

    def test_what_says_little_does_no_harm_where_rows_are_few(self):
        """Zeros that may be wrong by six, hardly narrower than what is ignored."""
        data = load_randhie()
        low, high = np.transpose([data.bounds[name] for name in data.feature_names])
        signs = np.where(data.target == data.classes[1], 1.0, -1.0)
        X = 2.0 * (data.data - low) / (high - low) - 1.0
        rows = Problem(X, signs, "logistic", data_norm=3.0)
        dim = rows.shape.dim
        least = minimize(lambda w: rows.value_and_gradient(w, 1e-9), np.zeros(dim), jac=True).fun
        budget = Budget(mu=5.0 * dim / len(signs))  # 2.5 rows behind a weight, times mu
        known = Coefficients(np.zeros(dim), 40.0 * np.eye(dim), 0.0)
        assert tells_more(known, rows.shape)
        plans = plan_refit(rows.shape, known, budget), plan(rows, "dp-whitened-gd", budget)
        assert all(access.where != "gradient along the prior" for access, _ in plans[0].accesses)
        found, alone = (
            sum(
                rows.objective(carry_out(each, rows, SecureGenerator(k), Ledger(budget)).w)
                for k in range(8)
            )
            for each in plans
        )
        least *= 8.0 * len(signs)
        assert found - least < 1.6 * (alone - least)  # 3.6 times before

    @pytest.mark.parametrize(
        ("rows", "epsilon", "used"),
        [(1.7, 0.01, False), (1.9, 0.01, True), (3.8, 0.1, False), (4.1, 0.1, True)],
    )
    def test_an_earlier_fit_to_labels_of_hardly_any_rows_is_not_used(self, rows, epsilon, used):
        """Its covariance is too small; next to a fit with more rows it needs more, up to 4."""
        earlier = CoefficientPrior(WEIGHTS, -0.5, np.full(6, 0.1), rows)
        alone = self.fitted(epsilon=epsilon)
        said = (
            nullcontext()
            if used
            else pytest.warns(match=f"ignored: it is of a fit with {rows} private")
        )
        with said:
            found = self.fitted(prior=earlier, epsilon=epsilon)
        assert np.array_equal(found.coef_, alone.coef_) != used
        numbers = replace(problem(1000).shape, loss=Loss("squared"))
        assert least_rows(numbers, Budget(0.1, 1e-6), "add_or_remove_one", "auto") == 0.0

    @staticmethod
    def left(y, w, variance, u0, u):
        """How many of four fits to 40 columns leave an earlier fit's weights, and its rows."""
        X = np.random.default_rng(0).uniform(-1.0, 1.0, (4000, 40))
        rows = Problem(X, y(X), "logistic", data_norm=6.4)
        known = Coefficients(w / np.append(np.ones(40), rows.shape.intercept), variance, u0)
        budget = Budget(mu=2.0 * u * 41 / 4000)
        settled = plan_refit(rows.shape, known, budget)
        runs = [carry_out(settled, rows, SecureGenerator(k), Ledger(budget)) for k in range(4)]
        left = [bool(np.isinf(run.history["wider"])) for run in runs]
        assert left == [known_rows(settled, history=run.history) < 0.9 * u0 for run in runs]
        return sum(left)

    @pytest.mark.parametrize(("share", "left"), [(0.5, 0), (0.03, 4)])
    def test_of_a_rare_class_an_earlier_fit_needs_more_rows(self, share, left):
        """A row of one of 3 % tells a ninth of what one of two halves does."""

        def labels(X):
            return np.where(np.random.default_rng(1).random(len(X)) < share, 1.0, -1.0)

        w = np.append(np.full(40, 1e-3), np.log(share / (1.0 - share)))
        assert self.left(labels, w, np.eye(41), 6.0, 2.0) == left

    @pytest.mark.parametrize(
        ("stretch", "left"), [(1.2, {0}), (1.25, {0, 1}), (3.0, {4}), (-1.0, {4})]
    )
    def test_a_right_earlier_fit_that_is_somewhat_too_long_is_kept(self, stretch, left):
        """As noise and one sample's chance make them; a test allows for a fifth."""
        w = np.append(np.random.default_rng(2).normal(0.0, 0.35, 40), -0.5)

        def labels(X):
            noise = np.random.default_rng(1).logistic(size=len(X))
            return np.where(noise < X @ w[:-1] + w[-1], 1.0, -1.0)

        assert self.left(labels, stretch * w, 1e-3 * np.eye(41), 32.0, 6.0) in left

    def test_a_slope_along_the_weights_tells_their_multiple(self):
        mean = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
        z = np.random.default_rng(0).standard_normal(200_000)
        p = expit(2.0 * z)

        def told(multiple, variance, doubt):
            weight = np.minimum(1.0, 0.1 / (np.abs(z) * np.maximum(p, 1.0 - p)))
            slope = np.mean((p - expit(2.0 * multiple * z)) * weight * z)
            belief = _Belief(mean, variance * np.diag([1.0, 1.0, 1.0, 1.0, 0.01]), 4)
            return _told_along(belief, float(slope), doubt, 0.1, (0.5, 0.01))

        for multiple in (-0.5, 0.0, 0.5):
            found = told(multiple, 4.0, 0.004)
            np.testing.assert_allclose(found.mean, multiple * mean, atol=0.2)
            assert found.covariance[:4, :4].sum() / 4.0 < 0.2
            assert np.linalg.eigvalsh(found.covariance)[0] > 0.0
        assert told(-0.5, 0.01, 0.001) is None
        assert np.array_equal(told(1.5, 4.0, 0.004).mean, mean)  # nothing makes weights longer

    @pytest.mark.parametrize("u", [4.0, 8.0])
    def test_the_descent_that_is_left_loses_hardly_more_than_a_fit_without_one(self, u):
        """Its gradients are clipped as that fit's, and not as those that follow a prior."""
        X = np.random.default_rng(0).uniform(-1.0, 1.0, (4000, 40))
        w = np.append(np.random.default_rng(2).normal(0.0, 0.35, 40), -0.5)
        noise = np.random.default_rng(1).logistic(size=4000)
        rows = Problem(X, np.where(noise < X @ w[:-1] + w[-1], 1.0, -1.0), data_norm=6.4)
        units, budget = np.append(np.ones(40), rows.shape.intercept), Budget(mu=2.0 * u * 41 / 4000)
        known = Coefficients(-w / units, 1e-3 * np.eye(41), 32.0)
        plans = plan_refit(rows.shape, known, budget), plan(rows, "dp-whitened-gd", budget)
        least = (
            minimize(lambda w: rows.value_and_gradient(w, 1e-9), np.zeros(41), jac=True).fun * 4000
        )
        excess = [
            sum(
                rows.objective(carry_out(each, rows, SecureGenerator(k), Ledger(budget)).w) - least
                for k in range(8)
            )
            for each in plans
        ]
        assert excess[0] < 1.25 * excess[1]  # clipped as beside a prior 1.9 and 2 times

    @pytest.mark.parametrize("signs", [1.0, -1.0])
    def test_what_the_rows_contradict_is_left_alone(self, signs):
        rows = problem(20_000)
        known = Coefficients(signs * np.append(WEIGHTS, -0.5), 0.001 * np.eye(6), 0.0)
        budget = Budget(1.0, 1e-6)
        settled = plan_refit(rows.shape, known, budget)
        found = carry_out(settled, rows, SecureGenerator(0), Ledger(budget))
        assert bool(found.history["wider"] > 10.0) is (signs < 0.0)
        assert np.corrcoef(found.w[:5], WEIGHTS)[0, 1] > 0.95

    @pytest.mark.parametrize("change", ["three times", "turned", "opposite"])
    def test_what_is_sure_and_wrong_costs_next_to_nothing(self, change):
        """Its gradients tell, and the descent that is left has most of the budget."""
        rows, budget = problem(20_000), Budget(1.0, 1e-6)
        turned = np.append(WEIGHTS[::-1] * 0.5, 0.5)
        w = {"turned": turned, "three times": 3.0 * np.append(WEIGHTS, -0.5)}.get(change, -turned)
        settled = plan_refit(rows.shape, Coefficients(w, 1e-6 * np.eye(6), 0.0), budget)
        found = carry_out(settled, rows, SecureGenerator(0), Ledger(budget))
        assert found.history["wider"] == np.inf
        assert len(found.history["gradient_norm"]) == settled.settings.iterations
        assert found.covariance is not None
        alone = solve(rows, "dp-whitened-gd", budget, random_state=0)
        losses = [rows.objective(v) / rows.shape.n_samples for v in (found.w, alone.w)]
        assert losses[0] < losses[1] + 5e-4

    def test_one_coefficient_that_is_known_stays_beside_what_rows_tell(self):
        rows, budget = problem(20_000), Budget(1.0, 1e-6)
        variances = np.full(6, 1e4)
        variances[0] = 1e-8
        known = Coefficients(np.append([3.1], np.zeros(5)), np.diag(variances), 0.0)
        settled = plan_refit(rows.shape, known, budget)
        found = carry_out(settled, rows, SecureGenerator(0), Ledger(budget))
        alone = solve(rows, "dp-whitened-gd", budget, random_state=0).w
        assert found.history["wider"] == 1.0
        assert found.w[0] == pytest.approx(3.1, abs=0.01)
        np.testing.assert_allclose(found.w[1:], alone[1:], atol=0.3)

    @pytest.mark.parametrize(("times", "intercept"), [(100.0, 0.0), (10.0, 0.0), (1.0, -8.0)])
    def test_coefficients_in_other_units_are_forgotten(self, times, intercept):
        X, y = table(20_000)
        wrong = CoefficientPrior(times * WEIGHTS, intercept, np.full(6, 0.1))
        found, alone = self.fitted(prior=wrong, n=20_000), self.fitted(n=20_000)
        losses = [log_loss(y, model.predict_proba(X)) for model in (found, alone)]
        assert losses[0] < losses[1] + 0.003

    @pytest.mark.parametrize("loss", [HuberRegressor, LinearSVC])
    def test_chains_of_other_losses(self, loss):
        X = table(2000)[0]
        score = X @ WEIGHTS
        numbers = loss is HuberRegressor
        public = {"target_bounds": (-10, 10)} if numbers else {"classes": [0, 1]}
        right = []
        for seed in (0, 100, 200, 300) if numbers else (0,):
            model = None
            for month in range(6):
                noise = np.random.default_rng(month).normal(size=len(X))
                y = score + noise if numbers else (score + noise > 0).astype(int)
                given = {**DECLARED, **public, "random_state": seed + month}
                model = loss(0.1, **given, prior=model).fit(X, y)
            right.append(np.corrcoef(np.ravel(model.coef_), WEIGHTS)[0, 1])
        assert np.mean(right) > (0.95 if numbers else 0.9)

    @pytest.mark.parametrize("n", [20_000, 100_000])
    def test_a_median_is_as_near_as_without_a_prior(self, n):
        """The corner gets as narrow, and steps do not jump over it where residuals are dense."""
        far, models = np.random.default_rng(9).uniform(-1.0, 1.0, (2000, 5)), []
        given = {**DECLARED, "data_norm": 2.25, "target_bounds": (-10, 10)}
        for month in range(2):
            rng = np.random.default_rng(month)
            X = rng.uniform(-1.0, 1.0, (n, 5))
            y = X @ WEIGHTS + rng.exponential(0.6, n)
            prior = models[-1] if models else None
            model = QuantileRegressor(4.0, **{**given, "random_state": month}, prior=prior)
            models.append(model.fit(X, y))
        median = far @ WEIGHTS + 0.6 * np.log(2.0)
        apart = [np.sqrt(np.mean((model.predict(far) - median) ** 2)) for model in models]
        assert apart[1] < 2.0 * apart[0]

    def test_the_plan_says_what_it_changes(self):
        rows = problem()
        known = Coefficients(np.zeros(6), np.eye(6), 40.0)
        with_prior, without = (
            plan_refit(rows.shape, replace(known, rows_per_weight=u), Budget(0.5, 1e-6))
            for u in (40.0, 0.0)
        )
        text = str(with_prior)
        assert "prior_rows_per_weight = 40" in text
        assert known_rows(with_prior) > 36.0 > known_rows(without)

    def test_units_of_targets_and_of_the_constant(self):
        X = table()[0]
        z = 100.0 + 20.0 * (X @ WEIGHTS) + np.random.default_rng(0).normal(size=len(X))
        public = {**DECLARED, "target_bounds": (0, 200), "intercept_scaling": 2.0}
        exact = CoefficientPrior(20.0 * WEIGHTS, 100.0, np.full(6, 1e-4))
        model = HuberRegressor(0.05, **public, prior=exact).fit(X, z)
        np.testing.assert_allclose(model.coef_, 20.0 * WEIGHTS, atol=0.5)
        assert model.intercept_ == pytest.approx(100.0, abs=0.5)
        chained = [
            HuberRegressor(0.3, **{**public, "random_state": seed}, prior=model).fit(X, z).coef_
            for seed in range(4)
        ]
        np.testing.assert_allclose(np.mean(chained, axis=0), 20.0 * WEIGHTS, atol=1.5)

    def test_rows_in_blocks_and_checkpoints(self, tmp_path):
        X, y = table()
        first = self.fitted()
        source = blocks.from_npy(X, y, block_rows=300)
        model = LogisticRegression(0.3, **self.PUBLIC, prior=first)
        one = model.fit(source, checkpoint=tmp_path / "c").coef_
        two = model.fit(source, checkpoint=tmp_path / "c").as_prior()
        np.testing.assert_array_equal(one[0], two.coef)
        np.testing.assert_allclose(model.fit(X, y).coef_, model.fit(source).coef_, atol=1e-3)

    def test_months_of_disjoint_people(self):
        account = BudgetAccountant(Budget(0.3, 1e-6))
        parts = account.disjoint("months", Budget(0.3, 1e-6))
        model = None
        for month in range(3):
            with account, parts[f"m{month}"]:
                model = self.fitted(month, model)
        assert len(account.events) == 1

    @pytest.mark.parametrize(
        ("prior", "error", "message"),
        [
            (CoefficientPrior([1.0, 2.0], 0.0, np.eye(6)), ValueError, "a coefficient for each of"),
            (CoefficientPrior(WEIGHTS), ValueError, "covariance of the prior must be given"),
            (
                CoefficientPrior(WEIGHTS, 0.0, np.ones(6), privacy=1.0),
                TypeError,
                "privacy of the prior must be None or the privacy_ of",
            ),
            (CoefficientPrior(WEIGHTS, 0.0, np.eye(5)), ValueError, "must be for 6 numbers"),
            (CoefficientPrior(WEIGHTS, 0.0, -np.eye(6)), ValueError, "positive definite"),
            (CoefficientPrior(WEIGHTS, 0.0, np.triu(np.ones((6, 6)))), ValueError, "symmetric"),
            (CoefficientPrior(WEIGHTS * np.nan, 0.0, np.eye(6)), ValueError, "finite numbers"),
            (CoefficientPrior(WEIGHTS * 1e145, 0.0, np.eye(6)), ValueError, "leave finite"),
            (CoefficientPrior(WEIGHTS, -1e145, np.eye(6)), ValueError, "leave finite"),
            (CoefficientPrior(WEIGHTS, "a", np.eye(6)), TypeError, "intercept of the prior"),
            (LogisticRegression(), Exception, "prior must be a fitted model"),
        ],
    )
    def test_what_is_refused(self, prior, error, message):
        with pytest.raises(error, match=message):
            self.fitted(prior=prior)

    @pytest.mark.parametrize("shape", ["units", "singular"])
    def test_a_covariance_that_rounding_made_singular_is_a_prior(self, shape):
        root = np.diag(np.logspace(-9.0, 0.0, 6))
        if shape == "singular":
            root = np.random.default_rng(0).standard_normal((6, 4))
        covariance = root @ root.T
        assert np.linalg.eigvalsh(covariance)[0] < 1e-14 * np.linalg.eigvalsh(covariance)[-1]
        model = self.fitted(prior=CoefficientPrior(WEIGHTS, 0.0, covariance))
        assert np.isfinite(model.coef_).all()

    def test_columns_and_classes_in_another_order_are_refused(self):
        X, y = table(200)
        frame = pd.DataFrame(X, columns=list("abcde"))
        turned = frame[list("bacde")]
        first = LogisticRegression(**self.PUBLIC).fit(frame, y)
        for prior in (first, (frame, y)):
            with pytest.raises(ValueError, match="prior must have the columns of X in their order"):
                LogisticRegression(**self.PUBLIC, prior=prior).fit(turned, y)
            LogisticRegression(**self.PUBLIC, prior=prior).fit(frame, y)
        with pytest.raises(ValueError, match=r"classes of this model in their order, \[1, 0\]"):
            LogisticRegression(**DECLARED, classes=[1, 0], prior=first).fit(frame, y)
        with pytest.raises(ValueError, match="prior must be a model of the same task"):
            LinearRegression(**DECLARED, target_bounds=(0, 1), prior=first).fit(frame, y)

    def test_models_without_a_covariance(self):
        pure = self.fitted(delta=0.0, solver="output-perturbation", epsilon=1.0)
        with pytest.raises(ValueError, match="must have been fitted by solver='dp-whitened-gd'"):
            self.fitted(1, pure)
        with pytest.raises(ValueError, match="where a record is a group"):
            X, y = table(100)
            model = LogisticRegression(**self.PUBLIC, prior=self.fitted())
            model.fit(X, y, groups=np.arange(100) // 2)
