"""What all pictures share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_real


def axes_for(ax: Any, figsize: tuple[float, float] = (6.4, 4.0)) -> Any:
    """The given axes, or those of a new figure.

    Raises
    ------
    ImportError
        If matplotlib is not installed; the message names the extra.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib; install it with `pip install 'dpfast[plot]'`."
        ) from error
    return pyplot.subplots(figsize=figsize, layout="constrained")[1] if ax is None else ax


def legend_above(ax: Any, ncols: int = 1) -> None:
    """A legend above the axes, where no curve can lie below it."""
    ax.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.01), borderaxespad=0.0, ncols=ncols, frameon=False
    )


def epsilon_grid(epsilons: Any, default: tuple[float, float, int] = (0.01, 100.0, 41)) -> Any:
    """Given epsilons, checked, or a geometric grid.

    Raises
    ------
    TypeError, ValueError
        If they are not positive numbers.
    """
    grid: NDArray[np.float64] = (
        np.geomspace(*default) if epsilons is None else np.asarray(epsilons, np.float64)
    )
    if grid.ndim != 1 or not grid.size:
        raise ValueError(f"epsilons must be a list of numbers; got {epsilons!r}.")
    for epsilon in grid:
        check_real("epsilons", float(epsilon), low=0.0, low_open=True)
    return grid


def epsilon_axis(ax: Any, delta: float, mark: float | None) -> None:
    """A logarithmic axis of epsilon, with one value pointed out."""
    if mark is not None:
        ax.axvline(mark, color="0.8", linewidth=1.0, zorder=0)
    ax.set_xscale("log")
    ax.set_xlabel("ε" if delta == 0.0 else f"ε (δ = {delta:g})")


class Display:
    """What the displays have in common: `ax_` and `figure_` once drawn."""

    ax_: Any
    figure_: Any

    def _begin(self, ax: Any, figsize: tuple[float, float] = (6.4, 4.0)) -> Any:
        self.ax_ = axes_for(ax, figsize)
        self.figure_ = self.ax_.figure
        return self.ax_
