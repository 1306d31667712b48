"""Private search: what is released, what is charged, and that it finds the better candidate."""

import math
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier, is_regressor

from dpfast import (
    BudgetAccountant,
    BudgetExceeded,
    HuberRegressor,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    PrivacyReport,
)
from dpfast.errors import CertificateNotReached, QuestionableSettingWarning
from dpfast.model_selection import SCORINGS, PrivateSearchCV, _shuffled, best_of_runs
from dpfast.privacy import (
    ACCOUNTANTS,
    NEIGHBORING_RELATIONS,
    Budget,
    GaussianEvent,
    Ledger,
    PureSelectionEvent,
    SelectionEvent,
    audit_epsilon,
)
from dpfast.queries import ScoreSum
from dpfast.random import SecureGenerator

GRID = {"alpha": [1e-3, 1e2]}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 4))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X, np.where(X @ [4.0, -3.0, 2.0, 0.0] + 0.3 * rng.standard_normal(1500) > 0, 1, 0)


def classifier(**settings):
    settings = {"solver": "output-perturbation", "data_norm": 1.0, "classes": [0, 1], **settings}
    return LogisticRegression(**settings)


def search(estimator=None, grid=GRID, **settings):
    settings = {"epsilon": 8.0, "random_state": 0, **settings}
    return PrivateSearchCV(estimator or classifier(), grid, **settings)


def test_a_search_that_is_refused_leaves_the_one_before_it(table):
    X, y = table
    found = search().fit(X, y)
    report, before = found.privacy_, found.predict(X)
    with BudgetAccountant(Budget(0.1, 1e-6)), pytest.raises(BudgetExceeded):
        found.fit(X[:, :2], y)
    assert (found.privacy_, found.n_features_in_) == (report, 4)
    np.testing.assert_array_equal(found.predict(X), before)


def test_a_split_does_not_depend_on_numbers_where_words_are_equal():
    """Which of two records of one word is held out would follow from the ids of groups."""
    draws = [np.array([7, 3, 7, 1]), np.array([7, 3, 8, 1])]
    words = SimpleNamespace(uint64=lambda count: draws.pop(0).astype(np.uint64))
    assert _shuffled(4, words).tolist() == [3, 1, 0, 2]
    assert not draws


@pytest.mark.parametrize("relation", NEIGHBORING_RELATIONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_better_candidate_wins_and_all_is_paid_for(table, relation, delta):
    found = search(
        classifier(neighboring_relation=relation),
        delta=delta,
        mean_runs=6.0,
        epsilon=40.0,
        scoring="neg_log_loss",
    )
    found.fit(*table)
    assert found.best_params_ == {"alpha": 1e-3}
    assert found.score(*table) > 0.9
    assert -0.6 < found.best_score_ < -0.1
    report = found.privacy_
    (event,) = report.events
    assert isinstance(event, SelectionEvent if delta else PureSelectionEvent)
    assert 0.9 * 40.0 < report.epsilon <= 40.0
    assert (report.delta, report.neighboring_relation) == (delta, relation)
    assert found.best_estimator_.privacy_ is report
    assert PrivacyReport.from_json(report.to_json()) == report


def test_a_run_costs_the_fit_or_the_score(table):
    model = classifier(solver_options={"noise": "gaussian"})
    found = search(model).fit(*table)
    *fits, (score,) = found.privacy_.events[0].alternatives
    assert isinstance(score, GaussianEvent)
    assert score.sensitivity == pytest.approx(1.0, rel=1e-6)
    # Both use up a run's budget; their sum is nowhere charged.
    gdp = ACCOUNTANTS["gdp"]
    assert gdp.total([score]) == pytest.approx(max(map(gdp.total, fits)), rel=1e-3)
    together = SelectionEvent(
        **{
            **{
                name: getattr(found.privacy_.events[0], name)
                for name in ("repetitions", "mean_runs", "shape", "neighboring_relation", "where")
            },
            "alternatives": ((*fits[0], score),),
        }
    )
    assert not Ledger(Budget(8.0, 1e-6)).can_afford(together)


def test_only_the_winner_is_released(table):
    found = search(grid={"alpha": [1e-3, 1e-2, 1e-1]}, mean_runs=10.0).fit(*table)
    assert {key: len(value) for key, value in found.cv_results_.items()} == {
        "param_alpha": 1, "params": 1, "mean_test_score": 1, "rank_test_score": 1,
    }  # fmt: skip
    assert found.cv_results_["params"][found.best_index_] == found.best_params_
    fitted = {name for name in vars(found) if name.endswith("_")}
    assert fitted == {
        "best_params_", "best_score_", "best_estimator_", "best_index_", "cv_results_",
        "n_candidates_", "n_train_", "privacy_", "classes_", "n_features_in_",
    }  # fmt: skip
    # Nothing tells how many runs there were, or how the others did.
    assert not [name for name in vars(found.best_estimator_) if "run" in name]


def test_runs_warn_nobody(table, monkeypatch):
    """How many warnings there were would tell how many runs."""
    honest = LogisticRegression._fit

    def fit(self, *given, **options):
        warnings.warn("one more run", UserWarning, stacklevel=1)
        return honest(self, *given, **options)

    monkeypatch.setattr(LogisticRegression, "_fit", fit)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(epsilon=20.0).fit(*table)


def test_one_record_that_makes_a_candidate_fail_does_not_choose_another(table, monkeypatch):
    """Whether an optimizer reaches its certificate may depend on one record."""
    honest = LogisticRegression._fit

    def fit(self, *given, **options):
        if self.alpha == 1e-3:
            raise CertificateNotReached("not on these rows")
        return honest(self, *given, **options)

    monkeypatch.setattr(LogisticRegression, "_fit", fit)
    with (
        BudgetAccountant(Budget(50.0, 1e-3)) as account,
        pytest.raises(CertificateNotReached),
    ):
        search(epsilon=20.0, mean_runs=12.0).fit(*table)
    assert len(account.events) == 1


def test_one_record_that_the_scorer_cannot_take_does_not_move_the_others_scores(table):
    """A failure that counted as 0 would change the sum by all held-out records at once."""
    X, y = table
    X = X.copy()
    X[:, 3] = np.where(np.arange(len(X)) == 5, 0.875, 0.0)

    def scorer(model, X, y):
        if np.any(X[:, 3] == 0.875):
            raise ValueError(f"no logarithm of {X[:, 3].max()}")
        return np.ones(len(y))

    for seed in range(9):
        searched = search(scoring=scorer, mean_runs=2.0, random_state=seed)
        try:
            assert searched.fit(X, y).best_score_ > 0.9
        except RuntimeError as error:
            assert "ValueError" in str(error) and "0.875" not in str(error)
            break
    else:
        raise AssertionError("the record was never held out")


def test_scores_of_persons_do_not_depend_on_how_many_rows_another_has(monkeypatch):
    rng = np.random.default_rng(0)
    X, groups = rng.standard_normal((240, 40)), np.repeat(np.arange(120), 2)
    y = np.where(X[:, 0] > 0.0, 1, 0)
    honest, worst = SCORINGS["accuracy"]
    margins = []

    def scorer(model, X, y):
        margins.append(model.decision_function(X))
        return honest(model, X, y)

    monkeypatch.setitem(SCORINGS, "accuracy", (scorer, worst))
    model = classifier(data_norm=9.0, max_rows_per_group=2, alpha=0.1)
    for person in range(120):  # one after another, until one is held out
        more = [np.r_[part[-1:], part] for part in (X, y)]
        for rows, labels, owner in ((X, y, groups), (*more, np.r_[person, groups])):
            search(model, {"alpha": [0.1]}, mean_runs=2.0).fit(rows, labels, groups=owner)
        first, second = margins[0], margins[-1]
        if len(second) > len(first):
            break
        margins.clear()
    np.testing.assert_array_equal(second[1:], first)


@pytest.mark.parametrize("stored", [np.asarray, scipy.sparse.csr_array])
def test_scores_do_not_depend_on_whether_another_row_is_beyond_the_ranges(stored):
    """Rows that are next to none of two classes, by a model that knows the columns' ranges."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        d, n = int(rng.integers(5, 40)), int(rng.integers(5, 12))
        far, coef = 3.0 * rng.standard_normal(d), rng.standard_normal(d)
        drawn = np.sign(far) * np.where(np.abs(far) > 1.0, 1.0 / far**2, np.abs(far))
        coef -= drawn * (drawn @ coef) / (drawn @ drawn)
        model = classifier(data_norm=9.0)
        model.__dict__.update(
            n_features_in_=d,
            classes_=np.array([0, 1]),
            coef_=coef[np.newaxis],
            intercept_=np.zeros(1),
            column_ranges_=np.outer([-1.0, 1.0], np.ones(d)),
        )
        X, query = np.tile(far, (n, 1)), ScoreSum(n, "l2")
        near = X.copy()
        near[0] = 0.1
        scores = partial(SCORINGS["accuracy"][0], model)
        one, other = (query.evaluate((stored(x), np.ones(n)), scores)[0] for x in (X, near))
        assert abs(one - other) <= query.sensitivity("replace_one")


def test_searches_repeat_with_their_seed_only(table):
    first, again, other = (search(random_state=seed).fit(*table) for seed in (3, 3, None))
    np.testing.assert_array_equal(first.best_estimator_.coef_, again.best_estimator_.coef_)
    assert first.best_score_ == again.best_score_
    assert first.privacy_.reproducible and not other.privacy_.reproducible
    assert np.any(first.best_estimator_.coef_ != other.best_estimator_.coef_)


def test_an_accountant_is_charged_for_the_search_once(table):
    with BudgetAccountant(Budget(9.0, 2e-6)) as accountant:
        search().fit(*table)
        assert len(accountant.events) == 1
        with pytest.raises(BudgetExceeded):
            search().fit(*table)
        assert len(accountant.events) == 1
        # Fits outside of a search are charged as ever.
        with pytest.raises(BudgetExceeded):
            classifier(epsilon=8.0).fit(*table)


@pytest.mark.parametrize(
    ("settings", "grid"),
    [
        ({"solver": "dp-sgd"}, {"solver_options": [{"epochs": 1}, {"epochs": 3}]}),
        ({"solver": "dp-agd"}, {"alpha": ["auto", 0.01]}),
        ({}, {"solver": ["dp-gd", "output-perturbation"]}),
    ],
    ids=["subsampled", "adaptive", "solvers"],
)
def test_solvers_of_all_kinds(table, settings, grid):
    relation = "add_or_remove_one"
    found = search(classifier(neighboring_relation=relation, **settings), grid, mean_runs=2.0)
    found.fit(*table)
    assert found.privacy_.epsilon <= 8.0
    assert found.score(*table) > 0.7


@pytest.mark.parametrize(("k", "multi_class"), [(2, "auto"), (3, "auto"), (3, "ovr")])
def test_what_auto_stands_for(table, k, multi_class):
    """A solver with many equal accesses, and the multinomial loss, are planned as they are made."""
    X, y = table
    y = y if k == 2 else np.where(X[:, 1] > 0.5, 2, y)
    model = classifier(solver="auto", classes=list(range(k)), multi_class=multi_class)
    grid = {"solver_options": [{"iterations": 3}, {"iterations": 6}]}
    found = search(model, grid, mean_runs=2.0).fit(X, y)
    first, second, _ = found.privacy_.events[0].alternatives
    more = sum(event.count for event in second) - sum(event.count for event in first)
    assert more == (3 * k if multi_class == "ovr" else 3)
    assert found.privacy_.epsilon <= 8.0


def test_more_classes_regressors_and_sparse_rows(table):
    X, y = table
    three = np.where(X[:, 1] > 0.5, 2, y)
    found = search(classifier(classes=[0, 1, 2]), mean_runs=2.0).fit(X, three)
    assert found.predict_proba(X).shape == (1500, 3)
    assert is_classifier(found) and found.decision_function(X[:2]).shape == (2, 3)
    model = HuberRegressor(solver="output-perturbation", data_norm=1.0, target_bounds=(-6.0, 6.0))
    target = X @ [4.0, -3.0, 2.0, 0.0]
    for scoring in (None, "neg_mean_squared_error"):
        found = search(model, {"alpha": [1e-3, 10.0]}, scoring=scoring, epsilon=60.0, mean_runs=6.0)
        found.fit(scipy.sparse.csr_array(X), target)
        assert is_regressor(found)
        assert found.best_params_ == {"alpha": 1e-3}
        assert -4.0 < found.best_score_ < 0.1
    assert not hasattr(found, "predict_proba")


def test_scores_of_ones_own_are_cut_to_their_range(table):
    X, y = table

    def wild(model, X, y):
        scores = np.full(len(y), 1e9)
        scores[0] = math.nan
        return scores

    found = search(scoring=wild, mean_runs=2.0).fit(X, y)
    assert abs(found.best_score_ - 299 / 300) < 0.05
    texts = search(
        scoring=lambda model, X, y: ["text" if len(y) == 300 else 0] * len(y), mean_runs=2.0
    )
    with pytest.raises(RuntimeError, match="failed with a ValueError") as caught:
        texts.fit(X, y)
    assert "'text'" not in str(caught.value) and caught.value.__suppress_context__
    with pytest.warns(QuestionableSettingWarning, match="as if drawn by lot"):
        search(scoring=lambda model, X, y: np.zeros(len(y)), mean_runs=2.0).fit(X, y)
    losses = search(scoring="neg_log_loss", mean_runs=2.0).fit(X, y)
    assert -1.0 < losses.best_score_ < 0.0


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        (lambda model, X, y: 1.0, r"one number for each of .*got shape \(\)"),
        (lambda y, predicted: y == predicted, "raised TypeError"),
        (lambda model, X, y: ["text"] * len(y), "raised ValueError"),
        (lambda model, X, y: model.predict_probability(X)[:, 1], "raised AttributeError"),
    ],
)
def test_a_scorer_that_fails_on_any_rows_is_refused_before_anything_is_spent(
    table, scoring, message
):
    X, y = table
    model = HuberRegressor(solver="output-perturbation", data_norm=1.0, target_bounds=(0, 1))
    for each, rows in ((search(scoring=scoring), X), (search(model, scoring=scoring), X[:60])):
        with BudgetAccountant(Budget(9.0, 1e-6)) as account:
            with pytest.raises(ValueError, match=f"scoring must .*{message}"):
                each.fit(scipy.sparse.csr_array(rows), y[: len(rows)])
            assert account.events == ()


def test_without_refit_no_model_is_kept(table):
    found = search(refit=False).fit(*table)
    assert not hasattr(found, "best_estimator_")
    with pytest.raises(AttributeError, match="refit=False"):
        found.predict(table[0])
    assert clone(found).get_params()["refit"] is False


def test_nothing_is_spent_on_a_wrong_search(table):
    X, y = table
    counts = PoissonRegressor(data_norm=1.0, target_bounds=(0.0, 2.0))
    wrong = [
        (search(estimator=LinearSVC(data_norm=1.0)), ValueError, "classes must be declared"),
        (search(estimator=classifier(data_norm=None)), ValueError, "data_norm must be declared"),
        (search(grid={"epsilon": [1.0, 2.0]}), ValueError, "must not hold epsilon"),
        # A budget of the model's own would be replaced in silence.
        (search(classifier(epsilon=0.5)), ValueError, r"epsilon must be .*, 8\.0; got 0\.5 on"),
        (search(classifier(delta=0.0)), ValueError, r"delta must be .*, 1e-06; got 0\.0 on"),
        (search(grid={"alpha": [-1.0]}), ValueError, "alpha must be"),
        (search(grid={"alpah": [1.0]}), ValueError, "alpah"),
        (search(mean_runs=1.0), ValueError, "mean_runs must be"),
        (search(repetitions="once"), ValueError, "repetitions must be"),
        (search(validation_fraction=1.0), ValueError, "validation_fraction must be"),
        (search(scoring="r2"), ValueError, "scoring must be"),
        (search(epsilon=0.0), ValueError, "epsilon must be"),
        (
            search(estimator=classifier(solver="objective-perturbation")),
            ValueError,
            "solver must have Renyi divergences",
        ),
        (search(refit="accuracy"), TypeError, "refit must be"),
        (search(estimator="logistic"), TypeError, "estimator must be .*; got str"),
        (search(grid={"n_jobs": [1, 0]}), ValueError, "n_jobs must be"),
        (search(grid={"class_weight": [None, {7: 1.0}]}), ValueError, "class_weight must have"),
        (search(estimator=classifier(max_weight=-1.0)), ValueError, "max_weight must be"),
        (search(estimator=classifier(strict="no")), TypeError, "strict must be"),
        (search(estimator=counts, grid={"max_exposure": [2.0]}), ValueError, "exposure must be"),
    ]
    with BudgetAccountant(Budget(100.0, 1e-3)) as accountant:
        for one, error, message in wrong:
            with pytest.raises(error, match=message):
                one.fit(X, y)
        with pytest.raises(ValueError, match="only the declared classes"):
            search().fit(X, y + 1)
        assert accountant.events == ()


def test_the_same_budget_may_stand_twice(table):
    assert search(classifier(epsilon=8.0)).fit(*table).privacy_.epsilon <= 8.0


def test_no_warning_of_a_leak(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search().fit(*table)


@pytest.mark.audit
def test_an_audit_finds_more_than_one_run_and_less_than_the_price():
    """Runs of ``ln 2`` whose best outcome the neighbor has twice as often, the second best half.

    That the best of them is the second best outcome tells four times as much as a run does: a
    search sold at the price of one run is refuted, by the same draws that are below its own.
    """
    epsilon = math.log(2.0)
    event = PureSelectionEvent(
        repetitions="negative-binomial", mean_runs=30.0, shape=2.0, epsilon_of_run=epsilon,
        neighboring_relation="replace_one", where="search",
    )  # fmt: skip
    rng, draws = SecureGenerator(5), np.random.default_rng(1)
    samples = []
    for chances in ((0.2, 0.2), (0.4, 0.1)):
        outcomes = draws.choice(3, 300_000, p=[1.0 - sum(chances), chances[1], chances[0]])
        run = iter([(float(outcome), None) for outcome in outcomes]).__next__
        samples.append([best_of_runs(event, run, rng)[0] == 1.0 for _ in range(6000)])
    ours, others = np.array(samples, dtype=float)
    found = audit_epsilon(ours, others, confidence=0.999).value
    assert 1.3 * epsilon < found < event.epsilon
