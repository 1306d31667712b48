"""What a fit released along the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpfast.plotting._axes import axes_for, legend_above
from dpfast.solvers import Result


def plot_history(history: Result | Mapping[str, Any], ax: Any = None) -> Any:
    """Plot what a fit released along the way; returns the axes.

    Parameters
    ----------
    history : Result or mapping
        A result of :func:`dpfast.solve` or its ``history``. Each entry has one value an iteration;
        of one with several values an iteration the Euclidean norm is shown. The entries share no
        unit, so each is divided by its largest magnitude, which the legend names.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Raises
    ------
    TypeError
        If `history` is something else.
    ValueError
        If it has no entries with numbers.
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
    ax = axes_for(ax)
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
    legend_above(ax, ncols=2)
    return ax


def _series(name: str, values: Any) -> Any:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"history[{name!r}] must hold real numbers; got dtype {array.dtype}.")
    array = array.astype(np.float64)
    if array.ndim > 1:
        array = np.sqrt(np.sum(np.square(array), axis=tuple(range(1, array.ndim))))
    return np.atleast_1d(array)
