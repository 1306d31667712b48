"""Weights of classes, their private count, and the threshold that follows from it."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Usual

from dpfast import Budget, BudgetExceeded, LinearSVC, LogisticRegression, blocks
from dpfast.errors import QuestionableSettingWarning
from dpfast.privacy import BudgetAccountant
from dpfast.tabular import TableModel

DECLARED = {"data_norm": 2.0, "random_state": 0, "strict": True, "classes": ["no", "yes"]}


def table(n=4000, share=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    margin = 3.0 * X[:, 0] + np.log(share / (1.0 - share)) - 0.6
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-margin)), "yes", "no")


def balanced_accuracy(model, X, y):
    return np.mean([np.mean(model.predict(X[y == label]) == label) for label in model.classes_])


def two_ways(cls, solver):
    """Fits with weights that are declared for classes, and with the same ones given for rows."""
    X, y = table(500)
    weight = np.where(y == "yes", 4.0, 0.5)
    by_class = cls(**DECLARED, solver=solver, class_weight={"yes": 4.0, "no": 0.5}).fit(X, y)
    by_row = cls(**DECLARED, solver=solver, max_weight=4.0).fit(X, y, sample_weight=weight)
    return by_class, by_row


@pytest.mark.parametrize("cls", [LogisticRegression, LinearSVC])
def test_declared_weights_are_weights_of_the_rows(cls):
    by_class, by_row = two_ways(cls, "output-perturbation")
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)
    assert by_class.privacy_.events == by_row.privacy_.events


@pytest.mark.parametrize("cls", [LogisticRegression, LinearSVC])
def test_weights_that_are_declared_need_no_counts(cls):
    """Given for rows they may be far below their bound; those of classes are what they are."""
    by_class, by_row = two_ways(cls, "dp-whitened-gd")
    paid = [{event.where for event in fit.privacy_.events} for fit in (by_class, by_row)]
    assert paid[1] - paid[0] == {"rows by weight"}
    assert not paid[0] - paid[1]


def test_they_multiply_the_weights_of_the_rows():
    X, y = table(500)
    weight = np.linspace(0.0, 2.0, 500)
    both = LogisticRegression(**DECLARED, class_weight={"yes": 4.0}, max_weight=2.0)
    one = LogisticRegression(**DECLARED, max_weight=8.0)
    np.testing.assert_array_equal(
        both.fit(X, y, sample_weight=weight).coef_,
        one.fit(X, y, sample_weight=weight * np.where(y == "yes", 4.0, 1.0)).coef_,
    )


@pytest.mark.parametrize("cls", [LogisticRegression, LinearSVC])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_balanced_weights_come_from_a_count_that_is_paid_for(cls, delta):
    X, y = table()
    model = cls(**DECLARED, epsilon=4.0, delta=delta, class_weight="balanced").fit(X, y)
    count, *others = model.privacy_.events
    assert (count.where, count.count) == ("classes", 1)
    assert others and all(event.where != "classes" for event in others)
    assert 3.8 < model.privacy_.epsilon <= 4.0 if delta == 0.0 else model.privacy_.epsilon <= 4.0
    share = np.mean(y == "yes")
    np.testing.assert_allclose(model.class_shares_, [1.0 - share, share], atol=0.02)
    assert model.class_shares_[1] != share
    plain = cls(**DECLARED, epsilon=4.0, delta=delta).fit(X, y)
    assert balanced_accuracy(model, X, y) > balanced_accuracy(plain, X, y) + 0.05


def test_without_noise_balanced_weights_are_those_of_scikit_learn(noiseless):
    X, y = table()
    settings = {**DECLARED, "epsilon": 1e4, "solver": "output-perturbation", "alpha": 1e-3}
    model = LogisticRegression(**settings, class_weight="balanced").fit(X, y)
    # The largest weight is one here, and there the mean weight is.
    largest = 0.5 / np.mean(y == "yes")
    usual = Usual(C=1.0 / (1e-3 * largest * len(y)), class_weight="balanced", tol=1e-9)
    ones = np.column_stack([X, np.ones(len(X))])  # the intercept is penalized here
    usual.set_params(fit_intercept=False).fit(ones, y)
    np.testing.assert_allclose(model.coef_, usual.coef_[:, :3], atol=2e-3)


@pytest.mark.parametrize("multi_class", ["multinomial", "ovr"])
def test_more_classes(multi_class):
    X, y = table()
    y = np.where((y == "no") & (X[:, 1] > 0.8), "maybe", y)
    declared = {**DECLARED, "classes": ["yes", "no", "maybe"]}
    model = LogisticRegression(
        **declared, epsilon=8.0, class_weight="balanced", multi_class=multi_class
    ).fit(X, y)
    shares = [np.mean(y == label) for label in model.classes_]
    np.testing.assert_allclose(model.class_shares_, shares, atol=0.02)
    plain = LogisticRegression(**declared, epsilon=8.0, multi_class=multi_class).fit(X, y)
    assert balanced_accuracy(model, X, y) > balanced_accuracy(plain, X, y)


def test_objective_perturbation_counts_with_its_own_accountant():
    X, y = table()
    model = LogisticRegression(
        **DECLARED, solver="objective-perturbation", class_weight="balanced", epsilon=2.0
    ).fit(X, y)
    assert model.privacy_.epsilon <= 2.0 and model.privacy_.delta <= 1e-6


def test_a_balanced_threshold_is_the_private_share():
    X, y = table()
    model = LogisticRegression(**DECLARED, epsilon=4.0, threshold="balanced").fit(X, y)
    assert model.threshold_ == model.class_shares_[1]
    assert model.privacy_.epsilon <= 4.0
    likely = model.predict_proba(X)[:, 1] > model.threshold_
    np.testing.assert_array_equal(model.predict(X) == "yes", likely)
    at_half = model.set_params(threshold=0.5).predict(X)
    assert np.sum(at_half == "yes") < 0.5 * np.sum(likely)


def test_a_threshold_of_the_class_that_sorting_puts_first_is_questioned():
    # A share of 0.1 of "ok" is passed by every row, and no fraud would ever be predicted.
    X, y = np.linspace(-1.0, 1.0, 300)[:, None], np.repeat(["ok", "fraud"], 150)
    settings = {"epsilon": 8.0, "data_norm": 1.0, "classes": ["ok", "fraud"], "random_state": 0}
    with pytest.warns(QuestionableSettingWarning, match="probability of 'ok'.*: 0.9"):
        LogisticRegression(threshold=0.1, **settings).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", QuestionableSettingWarning)
        LogisticRegression(threshold="balanced", **settings).fit(X, y)
        LogisticRegression(threshold=0.1, **{**settings, "classes": ["fraud", "ok"]}).fit(X, y)


def test_a_count_of_nobody_keeps_the_threshold_away_from_zero():
    X, _ = table(200)
    settings = {**DECLARED, "epsilon": 0.1}
    for seed in range(5):
        model = LogisticRegression(**{**settings, "random_state": seed}, threshold="balanced")
        model.fit(X, np.full(200, "no"))
        assert 0.0 < model.threshold_ < 1.0
        assert np.all(np.isfinite(model.predict_proba(X)))


def test_an_account_refuses_the_count_with_the_fit():
    X, y = table(500)
    model = LogisticRegression(**DECLARED, epsilon=1.0, class_weight="balanced")
    with BudgetAccountant(Budget(0.5, 1e-5)) as account:
        with pytest.raises(BudgetExceeded):
            model.fit(X, y)
        assert account.guarantee().epsilon == 0.0


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"class_weight": "even"}, TypeError, "class_weight must be None, 'balanced', or a dict"),
        ({"class_weight": 3.0}, TypeError, "class_weight must be None, 'balanced', or a dict"),
        ({"class_weight": {"perhaps": 1.0}}, ValueError, "class_weight must have keys among"),
        ({"class_weight": {"yes": -1.0}}, ValueError, "class_weight must be a real number"),
        ({"class_weight": {"yes": 0.0, "no": 0.0}}, ValueError, "largest"),
        ({"threshold": "best"}, ValueError, "threshold must be 'balanced'"),
        ({"threshold": 1.0}, ValueError, "threshold must be a real number"),
        (
            {"threshold": "balanced", "class_weight": "balanced"},
            ValueError,
            "threshold must be a number with class_weight",
        ),
        ({"classes": ["no", "yes", "x"], "threshold": 0.3}, ValueError, "threshold must be 0.5"),
    ],
)
def test_what_is_refused(settings, error, message):
    X, y = table(100)
    with pytest.raises(error, match=message):
        LogisticRegression(**{**DECLARED, **settings}).fit(X, y)


def test_rows_in_blocks_are_weighted_at_their_source():
    X, y = table(100)
    source = blocks.from_npy(X, (y == "yes").astype(int), block_rows=50)
    declared = {**DECLARED, "classes": [0, 1]}
    for settings in ({"class_weight": {1: 2.0}}, {"threshold": "balanced"}):
        with pytest.raises(ValueError, match="Give the source weights"):
            LogisticRegression(**declared, **settings).fit(source)


def test_a_table_names_its_classes_and_its_file_keeps_the_threshold(tmp_path):
    X, y = table(1000)
    data = {"a": X[:, 0], "b": X[:, 1], "kind": y}
    bounds = {"a": [-1, 1], "b": [-1, 1], "kind": {"classes": ["no", "yes"]}}
    common = {"target": "kind", "epsilon": 4.0, "delta": 1e-6, "random_state": 0}
    model = TableModel(bounds, estimator=LogisticRegression(threshold="balanced"), **common)
    model.fit(data)
    model.save(tmp_path / "model.json")
    again = TableModel.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    assert again.estimator_.threshold_ == model.estimator_.threshold_ < 0.3
    assert again.evaluate(data)["recall"] == pytest.approx(
        np.mean(model.predict(data)[y == "yes"] == "yes")
    )
    weighted = TableModel(bounds, estimator=LogisticRegression(class_weight={"yes": 5.0}), **common)
    assert weighted.fit(data).evaluate(data)["recall"] > 0.3
    with pytest.raises(ValueError, match="class_weight must have keys among"):
        TableModel(bounds, estimator=LogisticRegression(class_weight={"x": 5.0}), **common).fit(
            data
        )


@pytest.mark.parametrize("settings", [{"class_weight": "balanced"}, {"threshold": "balanced"}])
def test_groups_are_not_counted(settings):
    """A group of rows could change a count by all of them."""
    X, y = table(100)
    model = LogisticRegression(**DECLARED, **settings)
    with pytest.raises(ValueError, match="must not be 'balanced' with groups"):
        model.fit(X, y, groups=np.arange(100) // 2)
