"""Pictures of where a budget went and of what a fit released along the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpfast.privacy import (
    ACCOUNTANTS,
    BudgetAccountant,
    Ledger,
    PrivacyReport,
    budget_filter,
)
from dpfast.solvers import Result

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
