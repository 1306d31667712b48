"""The private scalers: sensitivity, noise, budgets, and pipelines on one account."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import scipy.stats
import sklearn
from refusals import refused
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpfast
from dpfast import Budget, BudgetAccountant, BudgetExceeded
from dpfast.errors import QuestionableSettingWarning
from dpfast.preprocessing import (
    PrivateQuantileScaler,
    PrivateRangeScaler,
    PrivateStandardScaler,
    RowNormClipper,
)
from dpfast.preprocessing.private_range_scaler import RangeSearch
from dpfast.privacy import gaussian_epsilon
from dpfast.privacy.ledger import kinds
from dpfast.queries import RankScores

SCALERS = [PrivateStandardScaler, PrivateQuantileScaler, PrivateRangeScaler]
RELATIONS = ["replace_one", "add_or_remove_one"]


@parametrize_with_checks(
    [
        PrivateStandardScaler(bounds=(-10, 10)),
        PrivateQuantileScaler(bounds=(-10, 10), delta=0.0),
        PrivateRangeScaler(bounds=(-10, 10)),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    return rng.normal([40.0, -2.0, 0.1], [10.0, 0.5, 0.02], size=(5000, 3))


BOUNDS = [(0, 100), (-5, 5), (0, 1)]


class TestMeansAndVariances:
    @pytest.mark.parametrize("delta", [1e-6, 0.0])
    def test_without_noise_it_is_scikit_learns(self, noiseless, table, delta):
        model = PrivateStandardScaler(BOUNDS, epsilon=1e4, delta=delta).fit(table)
        np.testing.assert_allclose(model.mean_, table.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(model.var_, table.var(axis=0), rtol=1e-3)
        scaled = model.transform(table)
        np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-3)
        np.testing.assert_allclose(scaled.std(axis=0), 1.0, atol=1e-3)

    @pytest.mark.parametrize("delta", [1e-6, 0.0])
    def test_the_noise_is_that_of_the_event(self, delta):
        """The spread of 600 released means: 2/3 and 3/2 of the noise would be seen."""
        X = np.full((300, 20), 0.25)
        rng = np.random.default_rng(0)
        fits = [
            PrivateStandardScaler((-1, 1), epsilon=99.0, delta=delta, random_state=rng).fit(X)
            for _ in range(30)
        ]
        event = fits[0].privacy_.events[0]
        stddev = event.noise * (1.0 if delta else 41.0**0.5) / 300.0
        errors = (np.array([model.mean_ for model in fits]) - 0.25).ravel() / stddev
        # The deviation of 600 values' spread is 3 to 5 %: a false alarm has six of them.
        assert 0.8 < np.sqrt(np.mean(errors**2)) < 1.25
        assert abs(errors.mean()) < 0.25

    def test_values_beyond_the_bounds_are_cut(self, table):
        wild = table.copy()
        wild[0] = 1e300, -1e300, 50.0
        cut = np.clip(wild, *np.array(BOUNDS, dtype=float).T)
        models = [PrivateStandardScaler(BOUNDS, random_state=0).fit(X) for X in (wild, cut)]
        np.testing.assert_array_equal(models[0].mean_, models[1].mean_)
        np.testing.assert_array_equal(models[0].transform(wild), models[1].transform(cut))

    def test_a_constant_column_is_not_blown_up(self):
        X = np.full((1000, 1), 0.3)
        model = PrivateStandardScaler((0, 1), random_state=0).fit(X)
        assert abs(model.transform(X)).max() < 3.0

    def test_with_a_budget_too_small_it_says_so_by_its_scale(self):
        model = PrivateStandardScaler((0, 1), epsilon=1e-3, random_state=0).fit([[0.2], [0.9]])
        assert 0.0 <= model.mean_[0] <= 1.0
        assert model.scale_[0] == 0.5


def scores(column, ends, target):
    return RankScores(len(ends))(np.asarray(column)[:, None], 0, ends, target)


class TestQuantiles:
    def test_scores_are_those_of_the_definition(self):
        rng = np.random.default_rng(1)
        column, ends = rng.normal(size=9000), np.linspace(-1.0, 1.0, 6)
        column[:3] = ends[0], ends[2], ends[5]
        expected = [-abs(np.sum(np.clip(column, -1.0, 1.0) < end) - 17) for end in ends]
        np.testing.assert_array_equal(scores(column, ends, 17), expected)

    def test_choices_follow_the_exponential_mechanism(self):
        """Chi-square over 4 steps; the false-alarm rate is 1e-6."""
        X = np.repeat([[0.1], [0.4], [0.6], [0.9]], 2, axis=0)
        rng = np.random.default_rng(0)
        settings = {"quantiles": (0.5, 1.0), "resolution": 4, "epsilon": 40.0, "delta": 0.0}
        fits = [
            PrivateQuantileScaler((0, 1), random_state=rng, **settings).fit(X.repeat(20, axis=1))
            for _ in range(15)
        ]
        # Each of the 40 choices has epsilon 1: weights exp(score / 2).
        weights = [np.exp(0.5 * scores(X[:, 0], np.linspace(0, 1, 5), t)) for t in (4, 8)]
        joint = np.outer(*(w / w.sum() for w in weights))
        expected, observed = np.zeros((5, 5)), np.zeros((5, 5))
        for i in range(5):
            for j in range(5):
                low, high = min(i, j), max(i, j)
                if low == high:
                    low, high = max(low - 1, 0), min(high + 1, 4)
                expected[low, high] += joint[i, j]
        for i, j in np.rint(4.0 * np.hstack([model.quantiles_ for model in fits])).astype(int).T:
            observed[i, j] += 1
        reached = expected > 0
        assert observed[~reached].sum() == 0
        statistic = np.sum((observed - 300 * expected)[reached] ** 2 / (300 * expected[reached]))
        assert statistic < scipy.stats.chi2.isf(1e-6, reached.sum() - 1)

    def test_without_noise_it_finds_the_quantiles(self, noiseless, table):
        model = PrivateQuantileScaler(BOUNDS, (0.1, 0.9), delta=0.0).fit(table)
        width = np.diff(BOUNDS, axis=1)[:, 0] / 4096
        found = np.abs(model.quantiles_ - np.quantile(table, [0.1, 0.9], axis=0))
        assert np.all(found <= 1.01 * width + [1e-2, 1e-3, 1e-4])
        scaled = model.transform(table)
        assert scaled.min() == -1.0
        assert scaled.max() == 1.0

    @pytest.mark.parametrize("delta", [1e-6, 0.0])
    def test_bounds_a_thousand_times_too_wide_do_little_harm(self, table, delta):
        model = PrivateQuantileScaler((-1e4, 1e4), resolution=2**18, delta=delta, random_state=0)
        low, high = model.fit(table[:, :1]).quantiles_[:, 0]
        assert 20.0 < low < 27.0
        assert 53.0 < high < 60.0

    def test_quantiles_never_coincide(self):
        model = PrivateQuantileScaler((0, 1), epsilon=99, delta=0.0, resolution=8)
        low, high = model.fit(np.full((100, 1), 0.5)).quantiles_[:, 0]
        assert low < high
        narrow = (1e15, 1e15 + 0.25)
        low, high = PrivateQuantileScaler(narrow, delta=0.0).fit([[1e15]]).quantiles_[:, 0]
        assert narrow[0] <= low < high <= narrow[1]


class TestRanges:
    @pytest.mark.parametrize("width", [1.0, 1e3, 1e6])
    @pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-6), (1.0, 0.0)])
    def test_whatever_the_width_of_the_bounds(self, width, epsilon, delta):
        rng = np.random.default_rng(1)
        X = np.column_stack(
            [
                rng.normal(40.0, 10.0, 20_000),
                rng.lognormal(3.0, 0.5, 20_000),
                rng.normal(0.0, 1.0, 20_000),
                2000.0 + rng.normal(0.0, 10.0, 20_000),
            ]
        )
        bounds = [(-200 * width, 200 * width), (0, 500 * width), (-9 * width, 9 * width),
                  (0, 4000 * width)]  # fmt: skip
        settings = {"epsilon": epsilon, "delta": delta, "random_state": 0}
        low, high = PrivateRangeScaler(bounds, **settings).fit(X).range_
        first, last = np.quantile(X, [0.05, 0.95], axis=0)
        inside = np.mean((low <= X) & (high >= X), axis=0)
        assert (inside > 0.85).all()
        assert (high - low < 6.0 * (last - first)).all()

    def test_without_noise_it_leaves_out_one_row_in_a_hundred(self, noiseless):
        X = np.random.default_rng(0).uniform(0.0, 1.0, (10_000, 1))
        scaler = PrivateRangeScaler((-50, 50), epsilon=1e4).fit(X)
        # One in a hundred on either side, and to three deviations of a normal law.
        further = 0.5 * (3.0 / scipy.stats.norm.ppf(0.99) - 1.0) * 0.98
        assert scaler.range_[0, 0] == pytest.approx(0.01 - further, abs=0.01)
        assert scaler.range_[1, 0] == pytest.approx(0.99 + further, abs=0.01)

    def test_a_column_of_zeros_and_a_few(self):
        X = np.zeros((20_000, 1))
        X[:1000, 0] = np.random.default_rng(0).exponential(1000.0, 1000)
        low, high = PrivateRangeScaler((0, 1e7), random_state=0).fit(X).range_[:, 0]
        assert low == 0.0
        assert 500.0 < high < 20_000.0

    def test_a_constant_column_keeps_its_bounds_or_finds_it(self):
        X = np.full((5000, 1), 0.3)
        low, high = PrivateRangeScaler((0, 1), random_state=0).fit(X).range_[:, 0]
        assert 0.0 <= low < high <= 1.0
        assert low <= 0.3 <= high

    def test_the_number_of_rows_that_it_takes_is_known_beforehand(self):
        needed = RangeSearch.plan(10, 2, Budget(0.5, 1e-6), "replace_one").rows_needed
        X = np.random.default_rng(0).normal(size=(needed, 2))
        settings = {"epsilon": 0.5, "random_state": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            low, high = PrivateRangeScaler((-1e4, 1e4), **settings).fit(X).range_
        assert (low < 0.0).all() and (high > 0.0).all() and (high - low < 100.0).all()
        with pytest.warns(UserWarning, match=f"It takes {needed:,} rows"):
            PrivateRangeScaler((-1e4, 1e4), **settings).fit(X[:-1])


@pytest.mark.parametrize("cls", SCALERS)
class TestBoth:
    @pytest.mark.parametrize("relation", RELATIONS)
    @pytest.mark.parametrize("delta", [1e-6, 0.0])
    def test_the_budget_is_used_and_kept(self, cls, delta, relation, table):
        model = cls(BOUNDS, 0.7, delta=delta) if cls is PrivateStandardScaler else cls(BOUNDS)
        model.set_params(epsilon=0.7, delta=delta, neighboring_relation=relation)
        privacy = model.fit(table).privacy_
        assert 0.69 < privacy.epsilon <= 0.7
        assert privacy.delta <= delta
        assert privacy.neighboring_relation == relation
        assert privacy.notes == ()
        assert not privacy.reproducible

    def test_missing_values_are_refused_before_anything_is_spent(self, cls, table):
        table = table.copy()
        table[1, 1] = np.nan
        model = cls(BOUNDS, delta=0.0, random_state=0)
        with (
            BudgetAccountant(Budget(1.0, 1e-6)) as account,
            sklearn.config_context(assume_finite=True),
            pytest.raises(ValueError, match="contains NaN"),
        ):
            model.fit(table)
        assert account.charges == 0

    def test_random_states(self, cls, table):
        def learned(random_state):
            model = cls(BOUNDS, delta=0.0, random_state=random_state).fit(table)
            assert model.privacy_.reproducible == (random_state is not None)
            return model.transform(table)

        np.testing.assert_array_equal(learned(3), learned(3))
        assert np.any(learned(None) != learned(None))

    def test_frames_names_and_types(self, cls, table):
        names = ["a", "b", "c"]
        bounds = dict(zip(reversed(names), reversed(BOUNDS), strict=True))
        frame = pd.DataFrame(table, columns=names)
        model = cls(bounds, delta=0.0, random_state=0).set_output(transform="pandas").fit(frame)
        result = model.transform(frame)
        assert list(result.columns) == names == list(model.get_feature_names_out())
        expected = cls(BOUNDS, delta=0.0, random_state=0).fit(table).transform(table)
        np.testing.assert_array_equal(result, expected)
        polars = pl.DataFrame(table, schema=names)
        model = clone(model).set_output(transform="polars").fit(polars)
        np.testing.assert_array_equal(model.transform(polars).to_numpy(), expected)
        single = cls(BOUNDS, delta=0.0, random_state=0).fit_transform(table.astype(np.float32))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, expected, atol=1e-4)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.transform(polars), expected)

    def test_the_report_lists_every_access(self, cls, table):
        privacy = cls(BOUNDS).fit(table).privacy_
        assert (
            len(privacy.events)
            == {PrivateStandardScaler: 1, PrivateQuantileScaler: 6, PrivateRangeScaler: 14}[cls]
        )
        assert cls.__name__ not in str(privacy)
        assert "Differential privacy with epsilon" in str(privacy)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"epsilon": 0.0}, "epsilon must be"),
            ({"epsilon": "1"}, "epsilon must be"),
            ({"delta": 1.0}, "delta must be"),
            ({"delta": 0.1}, "delta must be below one over the number of rows"),
            ({"neighboring_relation": "swap"}, "neighboring_relation must be one of 'replace_one'"),
            ({"random_state": -1}, "random_state must be"),
            ({"random_state": "x"}, "random_state must be None"),
            ({"bounds": (1, 0)}, "bounds must have low < high"),
            ({"bounds": [(0, 1)]}, "bounds must have as many entries as X has columns, 3"),
            ({"bounds": None}, "bounds must be a sequence with one entry for each column of X"),
            ({"bounds": {"a": (0, 1)}}, "bounds is a dict, but X has no column names"),
        ],
    )
    def test_bad_parameters_spend_nothing(self, cls, settings, message, table):
        model = cls(BOUNDS).set_params(**settings)
        with refused((TypeError, ValueError), message):
            model.fit(table)

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            ([[np.nan]], "NaN"),
            ([[np.inf]], "infinity"),
            (np.empty((0, 1)), "0 sample"),
            ([1.0], "2D array"),
            (scipy.sparse.csr_array([[1.0]]), "[Ss]parse"),
        ],
        ids=["nan", "inf", "empty", "vector", "sparse"],
    )
    def test_bad_data_spends_nothing(self, cls, X, message):
        with refused((TypeError, ValueError), message):
            cls((0, 1)).fit(X)

    def test_a_fit_that_is_refused_leaves_the_one_before_it(self, cls, table):
        model = cls((-9.0, 9.0), random_state=0).fit(table)
        report, before = model.privacy_, model.transform(table)
        with BudgetAccountant(Budget(0.1, 1e-6)), pytest.raises(BudgetExceeded):
            model.fit(table[:, :2])
        assert model.privacy_ is report
        np.testing.assert_array_equal(model.transform(table), before)

    def test_a_weak_promise_is_said_to_be(self, cls, table):
        with pytest.warns(QuestionableSettingWarning, match="epsilon = 60 is hardly a promise"):
            cls(BOUNDS, epsilon=60.0).fit(table)

    def test_partial_fit_is_absent(self, cls):
        assert not hasattr(cls((0, 1)), "partial_fit")
        assert "`partial_fit`" in cls.__doc__

    def test_an_account_that_cannot_pay_is_not_charged(self, cls, table):
        with refused(dpfast.BudgetExceeded, budget=Budget(0.5, 1e-6)):
            cls(BOUNDS, epsilon=0.7).fit(table)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quantiles": 0.5}, "quantiles must be a pair"),
        ({"quantiles": (0.5, 0.5)}, "quantiles must have low < high"),
        ({"quantiles": (0.5, 1.5)}, "quantiles must be a real number in"),
        ({"resolution": 0}, "resolution must be an integer in"),
        ({"resolution": 2.0}, "resolution must be an integer in"),
        ({"feature_range": (1, -1)}, "feature_range must have low < high"),
    ],
)
def test_bad_parameters_of_the_quantile_scaler(settings, message):
    with refused((TypeError, ValueError), message):
        PrivateQuantileScaler((0, 1), **settings).fit([[0.5]])


class TestPipelineOnOneAccount:
    @pytest.fixture
    def data(self):
        rng = np.random.default_rng(0)
        X = rng.normal([50.0, 3.0], [10.0, 0.2], size=(6000, 2))
        score = (X - [50.0, 3.0]) / [10.0, 0.2] @ [2.0, -2.0]
        return X, np.where(score + rng.logistic(size=6000) > 0, "yes", "no")

    @pytest.mark.parametrize("scaler", SCALERS)
    @pytest.mark.parametrize("delta", [1e-6, 0.0])
    def test_the_total_is_one_number(self, data, scaler, delta):
        X, y = data
        pipeline = make_pipeline(
            scaler([(0, 100), (0, 10)], epsilon=0.3, delta=delta / 2),
            RowNormClipper(data_norm=3.0),
            dpfast.LogisticRegression(
                epsilon=0.7, delta=delta / 2, data_norm=3.0, classes=["no", "yes"], strict=True
            ),
        )
        total = Budget(1.0, delta)
        with BudgetAccountant(total, adaptive=False) as account:
            pipeline.fit(X, y)
        guarantee = account.guarantee()
        assert guarantee.epsilon <= 1.0
        assert guarantee.delta <= delta
        # More than either part, and what the two ledgers hold.
        assert guarantee.epsilon > 0.7
        parts = [kinds(pipeline[k].privacy_.events) for k in (0, -1)]
        assert kinds(account.events) == parts[0] + parts[1] and account.charges == 2
        assert "used" in account.to_text()
        assert pipeline.score(X, y) > 0.7
        if delta and scaler is PrivateStandardScaler:
            # Gaussian releases add up by squares: less than the sum of the parts.
            mu = np.hypot(pipeline[0].privacy_.mu, pipeline[-1].privacy_.mu)
            assert guarantee.epsilon == pytest.approx(gaussian_epsilon(mu, delta), rel=1e-6)
            assert guarantee.epsilon < 0.95
        # There is nothing left for a second fit.
        with account, pytest.raises(dpfast.BudgetExceeded):
            pipeline.fit(X, y)

    def test_neighboring_relations_must_agree(self, data):
        pipeline = make_pipeline(
            PrivateStandardScaler((0, 100), 0.3, neighboring_relation="add_or_remove_one"),
            dpfast.LogisticRegression(0.3, data_norm=3.0, classes=["no", "yes"]),
        )
        with (
            BudgetAccountant(Budget(1.0, 1e-5)),
            pytest.raises(ValueError, match="cannot mix neighboring relations"),
        ):
            pipeline.fit(*data)


class TestGroups:
    """Rows of persons, of whom each counts the mean over her rows."""

    KINDS = (PrivateStandardScaler, PrivateQuantileScaler, PrivateRangeScaler)

    @pytest.mark.parametrize("kind", KINDS)
    def test_one_row_a_group_is_a_row(self, kind, table):
        rows = kind((0, 100), random_state=0).fit(table)
        groups = kind((0, 100), random_state=0).fit(table, groups=np.arange(len(table)))
        np.testing.assert_allclose(groups.transform(table), rows.transform(table), atol=1e-6)
        assert groups.privacy_.unit == "group"
        assert groups.privacy_.neighboring_relation == "replace_one_group"

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_person_with_many_rows_counts_as_one(self, kind):
        """With rows that repeat, in whichever order, the same is learned to the last bit."""
        rng = np.random.default_rng(0)
        X = rng.normal(50.0, 10.0, (3000, 2))
        who = np.arange(3000)
        again = rng.permutation(np.repeat(who, np.where(who < 200, 64, 1)))
        one, many = (
            kind((0, 100), random_state=0).fit(X[rows], groups=rows) for rows in (who, again)
        )
        np.testing.assert_allclose(many.transform(X[:5]), one.transform(X[:5]), rtol=1e-12)

    def test_bad_groups(self, table):
        with pytest.raises(TypeError, match="floating-point"):
            PrivateRangeScaler((0, 100)).fit(table, groups=np.arange(len(table)) / 2)

    def test_too_few_groups_are_said_to_be(self, table):
        with pytest.warns(UserWarning, match="40 groups are too few"):
            PrivateRangeScaler((0, 100)).fit(table, groups=np.arange(len(table)) % 40)
        with pytest.warns(UserWarning, match="1 group is too few"):
            PrivateRangeScaler((0, 100)).fit(table, groups=np.zeros(len(table), dtype=int))
