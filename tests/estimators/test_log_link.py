"""Regressors of counts, costs and durations: what they minimize, their range, how well they do."""

import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from sklearn.metrics import d2_tweedie_score

from dpfast import (
    Budget,
    GammaRegressor,
    HuberRegressor,
    NegativeBinomialRegressor,
    PoissonRegressor,
    PrivacyLeakWarning,
    TweedieRegressor,
)
from dpfast.privacy.calibration import budget_mu

CASES = {
    "poisson": (PoissonRegressor, {}, 1.0, (0.0, 40.0)),
    "gamma": (GammaRegressor, {}, 2.0, (0.05, 40.0)),
    "tweedie": (TweedieRegressor, {}, 1.5, (0.0, 40.0)),
    "tweedie 1.2": (TweedieRegressor, {"power": 1.2}, 1.2, (0.0, 40.0)),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """An estimator's maker, the power, and rows with targets around 2 of its law."""
    cls, settings, power, bounds = CASES[request.param]
    rng = np.random.default_rng(1)
    X = rng.standard_normal((6000, 3))
    X *= 2.0 / np.maximum(2.0, np.linalg.norm(X, axis=1))[:, None]
    mean = np.exp(0.5 + X @ [0.5, -0.3, 0.1])
    y = {
        1.0: rng.poisson(mean), 2.0: rng.gamma(3.0, mean / 3.0),
        1.5: rng.gamma(np.maximum(rng.poisson(2.0 * mean), 1e-300), 0.5),
        1.2: rng.gamma(np.maximum(rng.poisson(2.0 * mean), 1e-300), 0.5),
    }[power].astype(float)  # fmt: skip

    def make(**given):
        public = {"data_norm": 2.0, "target_bounds": bounds, "random_state": 0}
        return cls(**{**public, **settings, **given})

    return make, power, X, np.clip(y, *bounds)


def half_deviance(y, mean, power):
    """Up to terms of y alone."""
    if power == 1.0:
        return mean - y * np.log(mean)
    if power == 2.0:
        return np.log(mean) + y / mean
    return mean ** (2 - power) / (2 - power) + y * mean ** (1 - power) / (power - 1)


def minimizer(X, y, power, *, center, fit_intercept, alpha):
    """Weights for targets divided by exp(center), the intercept's last, and back."""
    rows = np.hstack([X, np.ones((len(X), 1))]) if fit_intercept else X
    target = y / np.exp(center)

    def objective(w):
        return half_deviance(target, np.exp(rows @ w), power).mean() + 0.5 * alpha * w @ w

    best = scipy.optimize.minimize(objective, np.zeros(rows.shape[1]), tol=1e-10).x
    return best[:3], best[3] + center if fit_intercept else 0.0


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_noise_it_minimizes_the_deviance(noiseless, case, fit_intercept):
    make, power, X, y = case
    settings = {"solver": "output-perturbation", "alpha": 0.01, "fit_intercept": fit_intercept}
    model = make(epsilon=1e4, **settings).fit(X, y)
    low, high = model.target_bounds
    center = 0.5 * np.log(low * high) if power == 2.0 else np.log(high) - 3.0
    coef, intercept = minimizer(
        X, y, power, center=center if fit_intercept else 0.0, fit_intercept=fit_intercept,
        alpha=0.01,
    )  # fmt: skip
    np.testing.assert_allclose(model.coef_, coef, atol=2e-3)
    assert model.intercept_ == pytest.approx(intercept, abs=2e-3)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_with_much_budget_the_default_is_near_the_minimizer(case, fit_intercept):
    """Rows that are far out count less in learned coordinates, and slopes are clipped there."""
    make, power, X, y = case
    model = make(epsilon=1e5, fit_intercept=fit_intercept).fit(X, y)
    coef, intercept = minimizer(X, y, power, center=0.0, fit_intercept=fit_intercept, alpha=0.0)
    np.testing.assert_allclose(model.coef_, coef, atol=0.06)
    assert model.intercept_ == pytest.approx(intercept, abs=0.06)


@pytest.mark.parametrize("epsilon, share", [(0.3, 0.5), (1.0, 0.8), (8.0, 0.97)])
def test_a_share_of_the_deviance_is_explained(case, epsilon, share):
    make, _, X, y = case
    best = make(epsilon=1e5).fit(X, y).score(X, y)
    scores = [make(epsilon=epsilon, random_state=seed).fit(X, y).score(X, y) for seed in range(4)]
    assert np.mean(scores) > share * best


def test_budgets_without_delta(case):
    make, _, X, y = case
    model = make(epsilon=20.0, delta=0.0).fit(X, y)
    assert model.privacy_.delta == 0.0
    assert model.score(X, y) > 0.5 * make(epsilon=1e5).fit(X, y).score(X, y)


def test_the_score_is_the_deviance_explained(case):
    make, power, X, y = case
    model = make().fit(X, y)
    weight = np.linspace(0.0, 2.0, len(y))
    predicted = np.exp(X @ model.coef_ + model.intercept_)
    assert model.score(X, y) == pytest.approx(d2_tweedie_score(y, predicted, power=power))
    expected = d2_tweedie_score(y, predicted, power=power, sample_weight=weight)
    assert model.score(X, y, sample_weight=weight) == pytest.approx(expected)


def test_predictions_stay_in_the_bounds(case):
    make, _, X, y = case
    model = make().fit(X, y)
    low, high = model.target_bounds
    model.coef_ = 1e6 * model.coef_
    found = model.predict(np.vstack([X, -X]))
    assert found.max() == high
    assert found.min() > 0.0 and found.min() >= low


def test_the_unit_of_the_target_does_not_matter(case):
    make, _, X, y = case
    first = make().fit(X, y)
    low, high = first.target_bounds
    second = make(target_bounds=(1000.0 * low, 1000.0 * high)).fit(X, 1000.0 * y)
    np.testing.assert_allclose(second.predict(X), 1000.0 * first.predict(X), rtol=1e-6)
    np.testing.assert_allclose(second.coef_, first.coef_, rtol=1e-6)


def test_targets_beyond_the_bounds_are_clipped(case):
    make, _, X, y = case
    narrow = (0.5, 3.0)
    first = make(target_bounds=narrow).fit(X, y)
    second = make(target_bounds=narrow).fit(X, np.clip(y, *narrow))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert np.any(first.coef_ != make().fit(X, y).coef_)


def test_bounds_from_the_data(case):
    make, power, X, y = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        with pytest.raises(ValueError, match=r"y must be >=? ?0.*Declare target_bounds"):
            make(target_bounds=None).fit(X, np.where(np.arange(len(y)) == 5, -1.0, y))
        if power == 2.0:
            with pytest.raises(ValueError, match=r"y must be > 0.*zeros .* TweedieRegressor"):
                make(target_bounds=None).fit(X, np.where(np.arange(len(y)) == 5, 0.0, y))
        constant = make(target_bounds=None, epsilon=100.0).fit(X, np.full(len(y), 4.0))
    np.testing.assert_allclose(constant.predict(X), 4.0, rtol=0.2)


def test_zeros_alone():
    X = np.linspace(-1.0, 1.0, 500)[:, None]
    for cls in (PoissonRegressor, TweedieRegressor):
        model = cls(data_norm=1.0, target_bounds=(0, 9), random_state=0).fit(X, np.zeros(500))
        assert np.all(np.isfinite(model.predict(X))) and np.all(model.predict(X) < 4.0)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"target_bounds": (-1, 5)}, ValueError, r"target_bounds\[0\] must be >=? 0.*got -1"),
        ({"target_bounds": (3, 3)}, ValueError, "must hold the lower number first"),
        ({"solver": "dp-adassp"}, ValueError, "loss must be 'squared'"),
        ({"solver": "exponential", "delta": 0.0}, ValueError, "loss must be one of classification"),
    ],
)
def test_bad_parameters(case, settings, error, message):
    make, _, X, y = case
    with pytest.raises(error, match=message):
        make(**settings).fit(X, y)


@pytest.mark.parametrize("power", [0.0, 0.9, 2.1, 3.0])
def test_powers_without_bounded_gradients(power):
    with pytest.raises(ValueError, match=r"power must be a real number in \[1, 2\]"):
        TweedieRegressor(power=power, target_bounds=(0, 1), data_norm=1.0).fit([[1.0]] * 9, [1] * 9)


@pytest.mark.parametrize(("power", "cls"), [(1.0, PoissonRegressor), (2.0, GammaRegressor)])
def test_the_ends_of_the_powers(power, cls):
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-1.0, 1.0, (500, 2)), rng.uniform(0.5, 4.0, 500)
    public = {"data_norm": 1.5, "target_bounds": (0.2, 5.0), "random_state": 0}
    first, second = TweedieRegressor(power=power, **public), cls(**public)
    np.testing.assert_array_equal(first.fit(X, y).coef_, second.fit(X, y).coef_)
    assert first.score(X, y) == second.score(X, y)


def test_intervals_are_of_the_logarithm(case):
    make, _, X, y = case
    model = make(solver="output-perturbation", alpha=0.01, epsilon=10.0).fit(X, y)
    interval = model.noise_interval()
    assert np.all((interval.low < model.coef_) & (model.coef_ < interval.high))
    assert interval.intercept_low < model.intercept_ < interval.intercept_high
    middle = 0.5 * (interval.intercept_low + interval.intercept_high)
    assert middle == pytest.approx(model.intercept_)


def test_weights_that_noise_explains_go_so_there_is_no_interval_of_the_noise(case):
    make, _, X, y = case
    fits = [make(solver="objective-perturbation", delta=delta).fit(X, y) for delta in (0.0, 1e-6)]
    with pytest.raises(ValueError, match="'objective-perturbation', with delta > 0, for interv"):
        fits[0].noise_interval()
    assert np.all(fits[1].noise_interval().low < fits[1].coef_)


def test_sample_weights(case):
    """Rows of weight zero are as good as absent, up to the noise of so many rows."""
    make, _, X, y = case
    wild = np.concatenate([y, np.full(3000, make().target_bounds[1])])
    rows = np.vstack([X, X[:3000]])
    weight = np.concatenate([np.full(6000, 2.0), np.zeros(3000)])
    model = make(epsilon=20.0, max_weight=2.0).fit(rows, wild, sample_weight=weight)
    expected = make(epsilon=20.0).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=0.05)
    assert model.intercept_ == pytest.approx(expected.intercept_, abs=0.05)


def test_default_is_whitened_descent_however_many_rows():
    from dpfast import Loss, ProblemShape, plan

    shape = ProblemShape(10**8, 3, 1.0, Loss("poisson"))
    settled = plan(shape, "auto", Budget(8.0, 1e-6))
    assert settled.solver == "dp-whitened-gd"
    charged = sum(count * access.events()[0].mu ** 2 for access, count in settled.accesses)
    assert charged <= budget_mu(Budget(8.0, 1e-6)) ** 2


class TestExposure:
    """Rows that were watched for different times: an offset in the margin."""

    @staticmethod
    def watched(n=4000):
        rng = np.random.default_rng(3)
        X = rng.uniform(-1.0, 1.0, (n, 2))
        exposure = rng.uniform(0.2, 2.0, n)
        return X, rng.poisson(exposure * np.exp(0.5 + X @ [0.8, -0.4])).astype(float), exposure

    @pytest.mark.parametrize(
        ("cls", "power"), [(PoissonRegressor, 1.0), (TweedieRegressor, 1.5), (GammaRegressor, 2.0)]
    )
    def test_it_is_a_fit_to_rates_with_weights(self, cls, power):
        X, y, exposure = self.watched()
        y = y + 0.5
        public = {"data_norm": 1.5, "target_bounds": (0.1, 40.0), "random_state": 0}
        model = cls(**public, max_exposure=2.0).fit(X, y, exposure=exposure)
        weights = {"sample_weight": exposure ** (2.0 - power)}
        rates = cls(**public, max_weight=2.0 ** (2.0 - power)).fit(X, y / exposure, **weights)
        np.testing.assert_array_equal(model.coef_, rates.coef_)
        assert model.privacy_.events == rates.privacy_.events

    def test_without_noise_it_is_the_offset(self, noiseless):
        X, y, exposure = self.watched()
        model = PoissonRegressor(
            epsilon=1e4, solver="output-perturbation", alpha=1e-9, data_norm=1.5,
            target_bounds=(0.0, 60.0), max_exposure=2.0, random_state=0,
        ).fit(X, y, exposure=exposure)  # fmt: skip
        rows = np.column_stack([X, np.ones(len(X))])

        def objective(w):
            margins = rows @ w + np.log(exposure)
            return (np.exp(margins) - y * margins).mean()

        best = scipy.optimize.minimize(objective, np.zeros(3), tol=1e-10).x
        np.testing.assert_allclose(np.append(model.coef_, model.intercept_), best, atol=2e-3)

    def test_the_sensitivity_follows_the_longest_exposure(self):
        """A row watched for ten times as long may weigh ten times as much, but for its count."""
        X, y, exposure = self.watched(400)
        public = {"data_norm": 1.5, "target_bounds": (0.0, 40.0), "random_state": 0}
        noise = [
            PoissonRegressor(**public, max_exposure=longest)
            .fit(X, y, exposure=exposure)
            .privacy_.events[1]
            .sensitivity
            for longest in (2.0, 20.0)
        ]
        assert noise[1] == pytest.approx(10.0 * noise[0])
        longer = exposure.copy()
        longer[0] = 7.0
        capped = PoissonRegressor(**public, max_exposure=2.0).fit(X, y, exposure=longer)
        again = PoissonRegressor(**public, max_weight=2.0).fit(
            X, y / longer, sample_weight=np.minimum(longer, 2.0)
        )
        np.testing.assert_array_equal(capped.coef_, again.coef_)

    def test_a_weight_whose_product_is_beyond_float64_is_lowered_as_others_are(self):
        X, y, exposure = self.watched(400)
        weight = np.ones(400)
        fits = []
        for weight[0] in (1e10, 1e308):
            model = PoissonRegressor(
                data_norm=1.5, target_bounds=(0.0, 40.0), random_state=0, max_exposure=20.0,
                max_weight=1.0,
            )  # fmt: skip
            fits.append(model.fit(X, y, exposure=10.0 * exposure, sample_weight=weight))
        np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)

    @pytest.mark.parametrize(
        ("settings", "given", "error", "match"),
        [
            ({}, [1.0] * 9, ValueError, "max_exposure must be given with exposure"),
            ({"max_exposure": 2.0}, None, ValueError, "exposure must be given to fit with"),
            (
                {"max_exposure": 2.0},
                [0.0] + [1.0] * 8,
                ValueError,
                "exposure must hold numbers > 0",
            ),
            ({"max_exposure": 2.0}, [np.nan] + [1.0] * 8, ValueError, "exposure must hold finite"),
            ({"max_exposure": 2.0}, [1.0] * 8, ValueError, r"exposure must have shape \(9,\)"),
            ({"max_exposure": 0.0}, [1.0] * 9, ValueError, "max_exposure must be"),
            ({"max_exposure": "2"}, [1.0] * 9, TypeError, "max_exposure must be"),
        ],
    )
    def test_arguments(self, settings, given, error, match):
        model = PoissonRegressor(data_norm=1.0, target_bounds=(0, 3), **settings)
        with pytest.raises(error, match=match):
            model.fit(np.ones((9, 1)), np.ones(9), exposure=given)

    def test_families_without_one(self):
        for cls in (NegativeBinomialRegressor, HuberRegressor):
            model = cls(data_norm=1.0, target_bounds=(0, 3))
            with pytest.raises(TypeError, match="got exposure"):
                model.fit(np.ones((9, 1)), np.ones(9), exposure=np.ones(9))

    def test_offsets_are_said_to_be_logarithms_of_them(self):
        with pytest.raises(TypeError, match=r"got offset.*take: exposure=numpy\.exp\(offset\)"):
            PoissonRegressor(data_norm=1.0).fit(np.ones((9, 1)), np.ones(9), offset=np.ones(9))


class TestNegativeBinomial:
    def test_the_targets_scale_does_not_matter_but_to_the_dispersion(self, noiseless):
        """It minimizes its own likelihood, with the dispersion of the targets as they are."""
        rng = np.random.default_rng(2)
        X = rng.uniform(-1.0, 1.0, (5000, 2))
        mean = np.exp(1.0 + X @ [0.8, -0.4])
        y = rng.poisson(rng.gamma(2.0, mean / 2.0)).astype(float)
        rows = np.column_stack([X, np.ones(len(X))])
        for dispersion in (0.05, 0.5, 3.0):

            def objective(w, a=dispersion):
                z = rows @ w
                return ((y + 1.0 / a) * np.log1p(a * np.exp(z)) - y * z).mean()

            best = scipy.optimize.minimize(objective, np.zeros(3), tol=1e-10).x
            model = NegativeBinomialRegressor(
                epsilon=1e4, solver="output-perturbation", alpha=1e-9, data_norm=1.5,
                target_bounds=(0.0, y.max()), dispersion=dispersion, random_state=0,
            ).fit(X, y)  # fmt: skip
            found = np.append(model.coef_, model.intercept_)
            np.testing.assert_allclose(found, best, atol=3e-3)

    def test_the_score_is_the_share_of_its_deviance(self):
        y, mean = np.array([0.0, 1.0, 4.0, 2.0]), np.array([0.5, 1.0, 3.0, 1.5])
        model = NegativeBinomialRegressor(dispersion=0.5)
        law = scipy.stats.nbinom

        def likelihood(m):
            return law.logpmf(y, 2.0, 2.0 / (2.0 + m)).sum()

        whole = likelihood(np.where(y > 0, y, 1e-12)) - likelihood(np.full(4, y.mean()))
        left = likelihood(np.where(y > 0, y, 1e-12)) - likelihood(mean)
        assert model.deviance_explained(y, mean) == pytest.approx(1.0 - left / whole)
        assert model.deviance_explained(y, np.full(4, y.mean())) == pytest.approx(0.0)
        with pytest.raises(ValueError, match="y must hold numbers >= 0"):
            model.deviance_explained(-y, mean)

    def test_the_default_is_near_the_minimizer(self):
        rng = np.random.default_rng(4)
        X = rng.uniform(-1.0, 1.0, (20_000, 3))
        mean = np.exp(0.5 + X @ [0.8, -0.5, 0.3])
        y = rng.poisson(rng.gamma(1.0, mean)).astype(float)
        model = NegativeBinomialRegressor(data_norm=2.0, target_bounds=(0, 60), random_state=0)
        best = model.deviance_explained(y, mean)
        assert model.fit(X, y).score(X, y) > 0.8 * best

    @pytest.mark.parametrize("dispersion", [0.0, -1.0, np.inf, "1"])
    def test_bad_dispersions(self, dispersion):
        model = NegativeBinomialRegressor(
            dispersion=dispersion, data_norm=1.0, target_bounds=(0, 3)
        )
        with pytest.raises((TypeError, ValueError), match="dispersion must be"):
            model.fit(np.ones((9, 1)), np.ones(9))


@pytest.mark.parametrize("cls", [PoissonRegressor, GammaRegressor])
@pytest.mark.parametrize("bounds", [(80.0, 300.0), (0.01, 10_000.0)])
def test_few_rows_predict_the_middle_of_declared_bounds(cls, bounds):
    low, high = bounds
    y = np.clip(np.geomspace(low, high, 20), *bounds)
    model = cls(0.01, 1e-5, data_norm=1.0, target_bounds=bounds, random_state=0)
    prediction = model.fit(np.zeros((20, 1)), y).predict(np.zeros((1, 1)))[0]
    assert 0.25 < np.log(prediction / low) / np.log(high / low) < 0.85


@pytest.mark.parametrize(("data_norm", "epsilon"), [(100.0, 1.0), (1000.0, 4.0)])
def test_a_flag_beside_an_age_in_years_keeps_its_effect(data_norm, epsilon):
    # Bounds of a row are far too wide for the flag, so that its effect across them is enormous.
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(18, 90, 40_000), rng.random(40_000) < 0.5]).astype(float)
    y = rng.poisson(np.exp(0.02 * (X[:, 0] - 50.0) + 0.3 * X[:, 1] - 1.5))
    settings = {"data_norm": data_norm, "target_bounds": (0.0, 20.0), "epsilon": epsilon}
    model = PoissonRegressor(random_state=0, **settings).fit(X, y)
    np.testing.assert_allclose(model.coef_, [0.02, 0.3], rtol=0.3)


@pytest.mark.parametrize("seed", [14, 28])
def test_a_category_without_rows_does_not_widen_the_prior(seed):
    # Noise leads its weight farther than it is counted, which is no effect across wide bounds.
    rng = np.random.default_rng(seed)
    shares = np.array([0.5, 0.25, 0.1, 0.05, 0.05, 0.03, 0.02, 0.0])
    categories = np.eye(8)[rng.choice(8, 5000, p=shares)]
    X = np.hstack([rng.normal(0.0, 0.1, (5000, 4)), categories])
    means = np.exp(X @ np.array([4.0, -3.0, 0.0, 2.0, *rng.normal(0.0, 0.3, 8)]))
    y = rng.gamma(2.0, means / 2.0)
    settings = {"data_norm": 1.6, "target_bounds": (0.01, 50.0), "epsilon": 8.0}
    model = GammaRegressor(random_state=seed, **settings).fit(X, y)
    assert abs(model.coef_[-1]) < 10.0


def test_weights_of_rare_counts_are_not_too_long_by_a_tweedie_loss():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, (20_000, 5))
    w = np.array([0.5, -0.4, 0.3, 0.2, 0.0])
    y = rng.poisson(0.1 * np.exp(X @ w))
    models = [
        TweedieRegressor(1.0, 1e-6, data_norm=2.3, target_bounds=(0, 20), random_state=seed)
        for seed in range(16)
    ]
    lengths = [np.linalg.norm(model.fit(X, y).coef_) for model in models]
    assert 0.6 < np.mean(lengths) / np.linalg.norm(w) < 1.4
