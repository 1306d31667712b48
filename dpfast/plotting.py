"""Pictures: where a budget went, what a fit released along the way, what a plan promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpfast._validation import check_real
from dpfast.privacy import (
    ACCOUNTANTS,
    Budget,
    BudgetAccountant,
    Ledger,
    PrivacyReport,
    budget_filter,
)
from dpfast.problem import Problem, ProblemShape
from dpfast.solvers import Result, plan

_UNITS = {"epsilon": "pure", "mu": "gdp", "rho": "zcdp"}
_SYMBOLS = {"epsilon": "ε", "mu": "µ²", "rho": "ρ"}


def plot_ledger(ledger: Ledger | BudgetAccountant | PrivacyReport, ax: Any = None) -> Any:
    """Plot the privacy cost of a run, added up over its accesses, against the limit.

    The cost is in the unit in which it adds up: ε for pure releases, µ² if all are Gaussian, ρ
    (zCDP) otherwise. Nothing private is shown: the events are public.

    Parameters
    ----------
    ledger : Ledger, BudgetAccountant or PrivacyReport
        A report, such as a model's ``privacy_``, has no budget, so no limit is drawn.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    TypeError
        If `ledger` is something else.
    ValueError
        If there are no events, or no unit prices them all.
    ImportError
        If matplotlib is not installed.
    """
    if not isinstance(ledger, Ledger | BudgetAccountant | PrivacyReport):
        raise TypeError(
            "ledger must be a Ledger, a BudgetAccountant or a PrivacyReport; "
            f"got {type(ledger).__name__}."
        )
    events = ledger.events
    if not events:
        raise ValueError("ledger must have events to be plotted; got none.")
    unit = _unit_of(events)
    prices = getattr(ACCOUNTANTS[_UNITS[unit]], "prices")  # noqa: B009
    costs = np.array([event.count * prices[type(event)](event) for event in events])
    accesses = np.cumsum([event.count for event in events])
    places = list(dict.fromkeys(event.mechanism for event in events))
    ax = _axes(ax)
    total = np.concatenate([[0.0], np.cumsum(costs)])
    ax.plot(np.concatenate([[0], accesses]), total, color="0.6", linewidth=1.0, zorder=1)
    for place in places:
        chosen = np.array([event.mechanism == place for event in events])
        ax.plot(
            accesses[chosen],
            total[1:][chosen],
            "o",
            markersize=5.0 if len(events) <= 100 else 2.0,
            label=place.replace("_", " "),
        )
    limit = None if isinstance(ledger, PrivacyReport) else _limit(ledger, unit)
    if limit is not None:
        ax.axhline(limit, color="black", linestyle="--", linewidth=1.0, label="limit")
    ax.set_xlim(left=0.0)
    ax.set_ylim(0.0, 1.12 * max(total[-1], limit or 0.0))
    ax.set_xlabel("accesses to the data")
    ax.set_ylabel(f"privacy cost {_SYMBOLS[unit]}, added up")
    ax.legend(loc="lower right", frameon=True)
    return ax


def plot_history(history: Result | Mapping[str, Any], ax: Any = None) -> Any:
    """Plot what a fit released along the way.

    Parameters
    ----------
    history : Result or mapping
        A result of :func:`dpfast.solve` or its ``history``. Each entry has one value an iteration;
        of one with several values an iteration the Euclidean norm is shown. The entries share no
        unit, so each is divided by its largest magnitude, which the legend names.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    TypeError
        If `history` is something else.
    ValueError
        If it has no entries with numbers.
    ImportError
        If matplotlib is not installed.
    """
    entries = history.history if isinstance(history, Result) else history
    if not isinstance(entries, Mapping):
        raise TypeError(
            f"history must be a Result or a mapping of names to arrays; got "
            f"{type(history).__name__}."
        )
    series = {name: _series(name, values) for name, values in entries.items()}
    series = {name: values for name, values in series.items() if values.size}
    if not series:
        raise ValueError(
            "history must hold at least one released series; got none. The solver releases only "
            "its weights."
        )
    ax = _axes(ax)
    scales = {name: float(np.max(np.abs(values))) or 1.0 for name, values in series.items()}
    alone = len(series) == 1
    for name, values in series.items():
        scale = 1.0 if alone else scales[name]
        label = name.replace("_", " ")
        ax.plot(
            np.arange(1, values.size + 1),
            values / scale,
            marker="o" if values.size <= 50 else None,
            markersize=3.0,
            linewidth=1.2,
            label=label if alone else f"{label} (largest {scale:.3g})",
        )
    ax.set_xlabel("iteration")
    ax.set_ylabel("released value" if alone else "share of its largest magnitude")
    ax.margins(y=0.08)
    # Above the axes: no curve can lie below it.
    ax.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.01), borderaxespad=0.0, ncols=2, frameon=False
    )
    return ax


#: Curves of :func:`plot_risk_bounds`: label, options of output perturbation, what is drawn.
_RISKS: tuple[tuple[str, Mapping[str, Any], str, str], ...] = (
    ("ridge by default", {}, "excess_risk_bound", "-"),
    ("ridge of Lowy & Razaviyayn 2021", {"alpha": "lowy2021"}, "excess_risk_bound", "--"),
    ("the same, as their theorem bounds it", {"alpha": "lowy2021"}, "lowy2021_risk", ":"),
    (
        "gradient descent of Zhang et al. 2017",
        {"mode": "iterate", "alpha": "zhang2017", "calibration": "paper"},
        "excess_risk_bound",
        "-.",
    ),
)


def plot_risk_bounds(
    problem: Problem | ProblemShape,
    delta: float = 1e-6,
    epsilons: Any = None,
    *,
    mark: float | None = None,
    ax: Any = None,
    **options: Any,
) -> Any:
    """Plot bounds of the excess risk of output perturbation against epsilon, from public numbers.

    The bounds are for the mean loss, over the best weights of the norm that the plans guess. A
    curve is left out where its method does not apply: a loss with kinks has no descent, and a
    formula for noise may not be private at every epsilon.

    Parameters
    ----------
    problem : Problem or ProblemShape
        Of a problem, only its shape is used.
    delta : float, default=1e-6
        0 for pure budgets.
    epsilons : array-like, optional
        By default 41 values from 0.01 to 100.
    mark : float, optional
        An epsilon to point out.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    **options
        Further arguments of :func:`dpfast.plan` for every curve.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or no method applies.
    ImportError
        If matplotlib is not installed.
    """
    grid = np.geomspace(0.01, 100.0, 41) if epsilons is None else np.asarray(epsilons, np.float64)
    if grid.ndim != 1 or not grid.size:
        raise ValueError(f"epsilons must be a list of numbers; got {epsilons!r}.")
    for epsilon in grid:
        check_real("epsilons", float(epsilon), low=0.0, low_open=True)
    shape = problem if isinstance(problem, ProblemShape) else problem.shape
    # Refused here, a wrong argument is not taken for a method that does not apply.
    plan(shape, "output-perturbation", Budget(float(grid[0]), delta), **options)
    ax = _axes(ax)
    for label, settings, entry, style in _RISKS:
        points = []
        for epsilon in grid:
            budget = Budget(float(epsilon), delta)
            try:
                settled = plan(shape, "output-perturbation", budget, **{**options, **settings})
            except ValueError:
                continue
            points.append((epsilon, settled.expected[entry]))
        if points:
            ax.plot(*zip(*points, strict=True), style, linewidth=1.6, label=label)
    ax.axhline(
        shape.loss.at_zero * shape.max_weight,
        color="0.6",
        linewidth=1.0,
        label="weights of zero",
    )
    if mark is not None:
        ax.axvline(mark, color="0.8", linewidth=1.0, zorder=0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("ε" if delta == 0.0 else f"ε (δ = {delta:g})")
    ax.set_ylabel("bound of the expected excess risk")
    ax.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.01), borderaxespad=0.0, ncols=1, frameon=False
    )
    return ax


def _axes(ax: Any) -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib; install it with `pip install 'dpfast[plot]'`."
        ) from error
    return pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")[1] if ax is None else ax


def _unit_of(events: tuple[Any, ...]) -> str:
    for unit, name in _UNITS.items():
        if all(ACCOUNTANTS[name].supports(event) for event in events):
            return unit
    raise ValueError(
        "ledger must have events whose costs add up in one unit to be plotted; got "
        f"{sorted({event.mechanism for event in events})}."
    )


def _limit(ledger: Ledger | BudgetAccountant, unit: str) -> float | None:
    """Return the budget in the unit of the plot, None where it has none."""
    try:
        limit = budget_filter(ledger.budget, _UNITS[unit]).limit
    except ValueError:
        return None
    return limit * limit if unit == "mu" else limit


def _series(name: str, values: Any) -> Any:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"history[{name!r}] must hold real numbers; got dtype {array.dtype}.")
    array = array.astype(np.float64)
    if array.ndim > 1:
        array = np.sqrt(np.sum(np.square(array), axis=tuple(range(1, array.ndim))))
    return np.atleast_1d(array)
