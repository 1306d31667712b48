"""Pictures: what they show is what is in the ledger, and the labels do not run into each other."""

import sys
from itertools import pairwise

import numpy as np
import pytest

from dpfast import (
    Budget,
    BudgetAccountant,
    HuberRegressor,
    Ledger,
    LogisticRegression,
    Problem,
    ProblemShape,
    TableModel,
    plan,
    solve,
)
from dpfast.plotting import (
    AttackDisplay,
    BudgetDisplay,
    CoefficientDisplay,
    PrivacyUtilityDisplay,
    SolverComparisonDisplay,
    TradeOffDisplay,
    plot_history,
    plot_ledger,
    plot_risk_bounds,
    trade_off,
)
from dpfast.plotting.utility import _LOSSES
from dpfast.privacy import (
    ExponentialEvent,
    GaussianEvent,
    PrivacyReport,
    SubsampledGaussianEvent,
    belief,
    budget_rho,
    reconstruction,
    zcdp_delta,
)

PLACE = {"neighboring_relation": "replace_one", "where": "step"}


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def gaussian(mu, count=1):
    return GaussianEvent(sensitivity=mu, stddev=1.0, dimension=2, count=count, **PLACE)


def no_overlaps(ax):
    """Labels and legend within the figure, and not over each other."""
    figure = ax.figure
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    labels = [label for label in (ax.xaxis.label, ax.yaxis.label) if label.get_text()]
    boxes = [label.get_window_extent(renderer) for label in labels]
    boxes.append(ax.get_legend().get_window_extent(renderer))
    for i, box in enumerate(boxes):
        assert box.x0 >= 0 and box.y0 >= 0
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[:i])


@pytest.mark.parametrize("adaptive", [False, True])
def test_the_curve_is_the_running_cost_and_the_line_the_limit(pyplot, adaptive):
    budget = Budget(1.0, 1e-6)
    ledger = Ledger(budget, adaptive=adaptive)
    events = [gaussian(0.02, count=3), ExponentialEvent(epsilon=0.1, **PLACE), gaussian(0.05)]
    ledger.spend_all(events)
    ax = plot_ledger(ledger)
    curve = ax.lines[0]
    np.testing.assert_array_equal(curve.get_xdata(), [0, 3, 4, 5])
    np.testing.assert_allclose(
        curve.get_ydata(), np.cumsum([0.0, 3 * 0.0002, 0.00125, 0.00125]), rtol=1e-12
    )
    assert ax.lines[-1].get_ydata()[0] == pytest.approx(budget_rho(budget))
    assert "ρ" in ax.get_ylabel()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "gaussian",
        "exponential",
        "limit",
    ]
    no_overlaps(ax)


def test_the_unit_follows_the_events(pyplot):
    ledger = Ledger(Budget(mu=0.5))
    ledger.spend(gaussian(0.4))
    ax = plot_ledger(ledger)
    assert "µ²" in ax.get_ylabel()
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(0.16)
    assert ax.lines[-1].get_ydata()[0] == 0.25
    account = BudgetAccountant(Budget(1.0))
    account.charge([ExponentialEvent(epsilon=0.25, **PLACE)])
    ax = plot_ledger(account)
    assert "ε" in ax.get_ylabel() and ax.lines[-1].get_ydata()[0] == 1.0


def test_a_report_has_no_limit_and_axes_can_be_given(pyplot):
    ledger = Ledger(Budget(mu=0.5))
    ledger.spend(gaussian(0.4))
    ax = pyplot.subplots()[1]
    made = plot_ledger(PrivacyReport.from_ledger(ledger, reproducible=False), ax=ax)
    assert made is ax
    assert "limit" not in [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_history_is_drawn_to_scale(pyplot):
    history = {
        "objective": np.array([4.0, 2.0, 1.0]),
        "gradient": np.array([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]]),
        "empty": np.array([]),
    }
    ax = plot_history(history)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [1.0, 0.5, 0.25])
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [1.0, 0.2, 0.0])
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [1, 2, 3])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "objective (largest 4)",
        "gradient (largest 5)",
    ]
    no_overlaps(ax)
    alone = plot_history({"objective": [4.0, 2.0]})
    np.testing.assert_array_equal(alone.lines[0].get_ydata(), [4.0, 2.0])
    no_overlaps(alone)


def test_what_cannot_be_plotted(pyplot, classification):
    with pytest.raises(TypeError, match="ledger must be"):
        plot_ledger([gaussian(0.1)])
    with pytest.raises(ValueError, match="got none"):
        plot_ledger(Ledger(Budget(1.0)))
    sampled = SubsampledGaussianEvent(
        sensitivity=1.0,
        stddev=8.0,
        dimension=2,
        batch=5,
        n_samples=100,
        sampling="fixed-size",
        **PLACE,
    )
    report = PrivacyReport(
        epsilon=1.0,
        delta=1e-6,
        neighboring_relation="replace_one",
        events=(sampled,),
        accountant="rdp",
    )
    with pytest.raises(ValueError, match="subsampled_gaussian"):
        plot_ledger(report)
    with pytest.raises(TypeError, match="history must be"):
        plot_history([1.0, 2.0])
    with pytest.raises(ValueError, match=r"history\['names'\]"):
        plot_history({"names": ["a"]})
    X, y = classification
    result = solve(Problem(X, y, data_norm=2.0), "output-perturbation", Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="at least one released series"):
        plot_history(result)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ledger = Ledger(Budget(mu=0.5))
    ledger.spend(gaussian(0.4))
    for plot, argument in ((plot_ledger, ledger), (plot_history, {"objective": [1.0]})):
        with pytest.raises(ImportError, match=r"dpfast\[plot\]"):
            plot(argument)


SHAPE = ProblemShape(20_000, 10, 1.0)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_risk_bounds_are_those_of_the_plans(pyplot, delta):
    grid = [0.1, 1.0, 10.0]
    ax = plot_risk_bounds(SHAPE, delta, grid, mark=1.0)
    curves = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    expected = [
        plan(SHAPE, "output-perturbation", Budget(e, delta)).expected["excess_risk_bound"]
        for e in grid
    ]
    np.testing.assert_array_equal(curves["ridge by default"], expected)
    lowest = [
        plan(SHAPE, "output-perturbation", Budget(e, delta)).expected["lower_bound"] for e in grid
    ]
    np.testing.assert_array_equal(curves["no private method, for the worst loss"], lowest)
    assert len([label for label in curves if not label.startswith("_")]) == 5
    for values in curves.values():
        if len(values) == len(grid):
            assert np.all(np.diff(values) < 0)
    no_overlaps(ax)


def test_risk_bounds_leave_out_what_does_not_apply(pyplot):
    ax = plot_risk_bounds(ProblemShape(20_000, 10, 1.0, "hinge"), 0.0, [0.5, 1.0])
    labels = [line.get_label() for line in ax.get_lines()]
    assert not any("descent" in label for label in labels)
    assert "ridge by default" in labels
    with pytest.raises(ValueError, match="epsilons must be"):
        plot_risk_bounds(SHAPE, epsilons=[0.0, 1.0])
    with pytest.raises(ValueError, match="minimizer_norm must be"):
        plot_risk_bounds(SHAPE, minimizer_norm=-1.0)


def test_a_budget_display_can_be_drawn_again(pyplot):
    ledger = Ledger(Budget(mu=0.5))
    ledger.spend_all([gaussian(0.1, count=2), gaussian(0.3)])
    display = BudgetDisplay.from_ledger(ledger)
    np.testing.assert_allclose(display.costs, [0.02, 0.09])
    assert (display.unit, display.limit) == ("mu", 0.25)
    first = display.ax_
    assert display.plot().ax_ is not first
    assert display.figure_ is display.ax_.figure
    np.testing.assert_allclose(display.line_.get_ydata(), [0.0, 0.02, 0.11])


class TestTradeOff:
    def test_against_gaussian_distributions(self):
        # The best test between N(0, 1) and N(mu, 1) cuts at t: errors P(x > t) and P(x + mu < t).
        from scipy.stats import norm

        t = np.linspace(-3.0, 4.0, 50)
        mu = 0.7
        np.testing.assert_allclose(
            trade_off(norm.sf(t), Budget(mu=mu)), norm.cdf(t - mu), rtol=1e-10
        )

    def test_against_randomized_response(self):
        # A bit kept with probability e/(1 + e) has the curve of pure epsilon, exactly.
        epsilon = 0.8
        flip = 1.0 / (1.0 + np.exp(epsilon))
        curve = trade_off([0.0, flip, 1.0], Budget(epsilon))
        np.testing.assert_allclose(curve, [1.0, flip, 0.0], atol=1e-12)
        # The points between are mixtures of those tests.
        np.testing.assert_allclose(
            trade_off([0.5 * flip], Budget(epsilon)), [0.5 * (1.0 + flip)], rtol=1e-12
        )

    def test_delta_and_zcdp(self):
        assert trade_off([0.0], Budget(1.0, 0.25))[0] == pytest.approx(0.75)
        alpha = np.linspace(0.0, 1.0, 11)
        curve = trade_off(alpha, Budget(rho=0.1))
        one = 1.0 - zcdp_delta(0.1, 0.5) - np.exp(0.5) * alpha
        assert np.all(curve >= one - 2e-4)  # the grid is not at 0.5 exactly
        # rho-zCDP contains the Gaussian mechanism with mu = sqrt(2 rho), whose curve is above.
        assert np.all(curve <= trade_off(alpha, Budget(mu=np.sqrt(0.2))) + 1e-12)

    def test_huge_epsilon_hides_nothing(self):
        np.testing.assert_array_equal(trade_off([0.0, 0.1, 1.0], Budget(1e6)), [1.0, 0.0, 0.0])

    @pytest.mark.parametrize("alpha", [[-0.1], [1.1], [np.nan]])
    def test_wrong_alpha(self, alpha):
        with pytest.raises(ValueError, match=r"alpha must be within \[0, 1\]"):
            trade_off(alpha, Budget(1.0))

    def test_display(self, pyplot):
        ledger = Ledger(Budget(1.0, 1e-6))
        ledger.spend(gaussian(0.2))
        display = TradeOffDisplay.from_report(PrivacyReport.from_ledger(ledger, reproducible=False))
        assert [line.get_label() for line in display.lines_] == [
            "ε = 0.834, δ = 1e-06",
            "µ-GDP, µ = 0.2",
        ]
        for line, guarantee in zip(display.lines_, display.guarantees.values(), strict=True):
            np.testing.assert_array_equal(line.get_ydata(), trade_off(line.get_xdata(), guarantee))
        no_overlaps(display.ax_)
        many = {f"a long label, as they are for Gaussian noise, {i}": Budget(1.0) for i in range(6)}
        no_overlaps(TradeOffDisplay(many).plot().ax_)

    def test_what_cannot_be_drawn(self):
        with pytest.raises(ValueError, match="guarantees must be"):
            TradeOffDisplay({})
        with pytest.raises(TypeError, match=r"guarantees\['a'\] must be a Budget"):
            TradeOffDisplay({"a": 1.0})
        with pytest.raises(TypeError, match="report must be a PrivacyReport"):
            TradeOffDisplay.from_report(Ledger(Budget(1.0)))


class TestAttacks:
    def test_display(self, pyplot):
        ledger = Ledger(Budget(1.0, 1e-6))
        ledger.spend(gaussian(0.2))
        report = PrivacyReport.from_ledger(ledger, reproducible=False)
        display = AttackDisplay.from_report(report)
        before = display.lines_[0].get_xdata()
        for line, bound in zip(display.lines_, (belief, reconstruction), strict=True):
            np.testing.assert_array_equal(line.get_ydata(), [bound(report, p) for p in before])
            assert (line.get_ydata() >= before).all()
        no_overlaps(display.ax_)
        with pytest.raises(TypeError, match="report must be a PrivacyReport"):
            AttackDisplay.from_report(ledger)


class TestCoefficients:
    @pytest.mark.parametrize("solver", ["output-perturbation", "objective-perturbation"])
    def test_bands_are_the_intervals_of_the_model(self, pyplot, classification, solver):
        X, y = classification
        model = LogisticRegression(
            solver=solver, data_norm=2.0, classes=[-1, 1], random_state=0
        ).fit(X, y)
        display = CoefficientDisplay.from_estimator(model, confidence_level=0.9)
        np.testing.assert_array_equal(display.points_.get_xdata(), model.coef_[0])
        ends = np.array([segment[:, 0] for segment in display.bands_.get_segments()])
        expected = model.noise_interval(0.9)
        np.testing.assert_array_equal(ends[:, 0], expected.low[0])
        np.testing.assert_array_equal(ends[:, 1], expected.high[0])
        no_overlaps(display.ax_)

    def test_names_and_regressors(self, pyplot):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1.0, 1.0, (500, 3))
        model = HuberRegressor(
            solver="output-perturbation", data_norm=2.0, target_bounds=(0.0, 40.0), random_state=0
        ).fit(X, 20.0 + 5.0 * X[:, 0])
        display = CoefficientDisplay.from_estimator(model, feature_names=["a", "b", "c"])
        np.testing.assert_array_equal(display.upper, model.noise_interval().high)
        assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["a", "b", "c"]

    def test_of_a_table_the_encoded_columns(self, pyplot):
        rng = np.random.default_rng(0)
        table = {"age": rng.integers(18, 90, 500), "ward": rng.choice(["A", "B"], 500)}
        table["ill"] = np.where(table["age"] > 50, "yes", "no")
        bounds = {"age": [18, 90], "ward": ["A", "B"], "ill": ["no", "yes"], "target": "ill"}
        model = TableModel(bounds, LogisticRegression(solver="output-perturbation")).fit(table)
        display = CoefficientDisplay.from_estimator(model)
        np.testing.assert_array_equal(display.points_.get_xdata(), model.coef_[0])
        names = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert names == ["age", "ward_A", "ward_B"]

    def test_intervals_of_inference_and_their_part_by_sampling(self, pyplot):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1.0, 1.0, (9000, 2))
        y = (X[:, 0] + rng.logistic(size=9000) > 0).astype(int)
        model = LogisticRegression(
            inference=True, data_norm=1.5, classes=[0, 1], random_state=0
        ).fit(X, y)
        display = CoefficientDisplay.from_estimator(model, confidence_level=0.9)
        ends, inside = (
            np.array([segment[:, 0] for segment in lines.get_segments()])
            for lines in (display.bands_, display.inner_)
        )
        np.testing.assert_array_equal(ends, model.conf_int(0.9)[:2])
        assert np.all(inside[:, 0] > ends[:, 0]) and np.all(inside[:, 1] < ends[:, 1])
        no_overlaps(display.ax_)
        with pytest.raises(ValueError, match=r"inner must have shape \(1, 2\); got \(2,\)"):
            CoefficientDisplay(["a"], [1.0], [0.0], [2.0], inner=[0.5, 1.5])

    def test_given_intervals_and_refusals(self, pyplot, classification):
        X, y = classification
        model = LogisticRegression(
            solver="dp-gd", data_norm=2.0, classes=[-1, 1], random_state=0
        ).fit(X, y)
        with pytest.raises(ValueError, match="'objective-perturbation' for intervals of the noise"):
            CoefficientDisplay.from_estimator(model)
        with pytest.raises(ValueError, match="intervals must have shape"):
            CoefficientDisplay.from_estimator(model, intervals=[[0.0, 1.0]] * 99)
        ends = np.column_stack([model.coef_[0] - 1.0, model.coef_[0] + 2.0])
        display = CoefficientDisplay.from_estimator(model, intervals=ends)
        np.testing.assert_array_equal(display.upper, ends[:, 1])
        with pytest.raises(ValueError, match="one number for each of the 1 names"):
            CoefficientDisplay(["a"], [1.0, 2.0], [0.0, 0.0], [1.0, 1.0])


class TestUtility:
    def test_curves_are_those_of_the_plans(self, pyplot):
        grid = [0.1, 1.0, 10.0]
        display = PrivacyUtilityDisplay.from_plans(SHAPE, 1e-6, grid, mark=1.0)
        for solver in ("objective-perturbation", "output-perturbation"):
            plans = [plan(SHAPE, solver, Budget(e, 1e-6)) for e in grid]
            entry = next(name for name in _LOSSES if name in plans[0].expected)
            np.testing.assert_array_equal(
                display.curves[f"{solver}: {_LOSSES[entry]}"],
                [settled.expected[entry] for settled in plans],
            )
        assert len(display.lines_) == 3
        assert all(line.get_ydata()[0] > line.get_ydata()[-1] for line in display.lines_)
        no_overlaps(display.ax_)

    def test_what_does_not_apply_is_left_out(self, pyplot):
        display = PrivacyUtilityDisplay.from_plans(SHAPE, 0.0, [0.1, 1.0])
        assert not any("whitened" in label for label in display.curves)
        with pytest.raises(ValueError, match="solvers must hold one that states"):
            PrivacyUtilityDisplay.from_plans(SHAPE, 0.0, [1.0], solvers=["dp-whitened-gd"])
        with pytest.raises(ValueError, match="epsilons must be"):
            PrivacyUtilityDisplay.from_plans(SHAPE, epsilons=[0.0])
        with pytest.raises(ValueError, match="accountant must be"):
            PrivacyUtilityDisplay.from_plans(SHAPE, accountant="none")
        with pytest.raises(ValueError, match="one for each of the 2 epsilons"):
            PrivacyUtilityDisplay([1.0, 2.0], {"a": [1.0]}, "loss")

    def test_scores_of_fits(self, pyplot, classification):
        X, y = classification
        model = LogisticRegression(data_norm=2.0, classes=[-1, 1], random_state=0)
        seen = []

        def scoring(fitted, X_test, y_test):
            seen.append((fitted.solver, fitted.epsilon))
            return fitted.epsilon + len(seen) % 2

        test = {"X_test": X, "y_test": y, "repeats": 2, "scoring": scoring}
        display = PrivacyUtilityDisplay.from_estimator(model, X, y, epsilons=[1.0, 2.0], **test)
        assert [epsilon for _, epsilon in seen] == [1.0, 1.0, 2.0, 2.0]
        np.testing.assert_allclose(display.lines_[0].get_ydata(), [1.5, 2.5])
        np.testing.assert_allclose(display.spreads["LogisticRegression"], [0.5, 0.5])
        no_overlaps(display.ax_)
        seen.clear()
        solvers = ["output-perturbation", "objective-perturbation"]
        compared = SolverComparisonDisplay.from_estimator(
            model, X, y, solvers=solvers, references={"other": 0.5}, **test
        )
        assert [name for name, _ in seen] == [solvers[0]] * 2 + [solvers[1]] * 2
        drawn = np.asarray(compared.points_.lines[0].get_xdata(), dtype=float)
        np.testing.assert_allclose(drawn, [1.5, 1.5])
        assert compared.seconds.shape == (2,)
        no_overlaps(compared.ax_)
        ticks = [label.get_window_extent() for label in compared.ax_.get_xticklabels()]
        assert not any(a.overlaps(b) for a, b in pairwise(ticks))
        with pytest.raises(ValueError, match="scores must have an entry for each of the 2"):
            SolverComparisonDisplay(["a", "b"], [[1.0]])
