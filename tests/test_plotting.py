"""Pictures: what they show is what is in the ledger, and the labels do not run into each other."""

import sys

import numpy as np
import pytest

from dpfast import Budget, BudgetAccountant, Ledger, Problem, ProblemShape, plan, solve
from dpfast.plotting import plot_history, plot_ledger, plot_risk_bounds
from dpfast.privacy import (
    ExponentialEvent,
    GaussianEvent,
    PrivacyReport,
    SubsampledGaussianEvent,
    budget_rho,
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
    boxes = [label.get_window_extent(renderer) for label in (ax.xaxis.label, ax.yaxis.label)]
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
