"""Bounds of the excess risk of output perturbation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpfast.plotting._axes import axes_for, epsilon_axis, epsilon_grid, legend_above
from dpfast.privacy import Budget
from dpfast.problem import Problem
from dpfast.shape import ProblemShape
from dpfast.solvers import plan

#: Curves of :func:`plot_risk_bounds`: label, options of output perturbation, line style.
_RISKS: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    ("ridge by default", {}, "-"),
    ("ridge of Lowy & Razaviyayn 2021", {"alpha": "lowy2021"}, "--"),
    (
        "gradient descent of Zhang et al. 2017",
        {"mode": "iterate", "alpha": "zhang2017", "calibration": "paper"},
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

    Returns the axes.

    The bounds are for the mean loss, over the best weights of the norm that the plans guess; below
    them is what no private method can promise for every loss of the same slope and curvature
    (:func:`dpfast.theory.lowy2021.lower_bound`). A curve is left out where its method does not
    apply: a loss with kinks has no descent, and a formula for noise may not be private at every
    epsilon.

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

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or no method applies.
    """
    grid = epsilon_grid(epsilons)
    shape = problem if isinstance(problem, ProblemShape) else problem.shape
    # Refused here, a wrong argument is not taken for a method that does not apply.
    plan(shape, "output-perturbation", Budget(float(grid[0]), delta), **options)
    ax = axes_for(ax)
    for label, settings, style in _RISKS:
        points = []
        for epsilon in grid:
            budget = Budget(float(epsilon), delta)
            try:
                planned = plan(shape, "output-perturbation", budget, **{**options, **settings})
            except ValueError:
                continue
            points.append((epsilon, planned.expected["excess_risk_bound"]))
        if points:
            ax.plot(*zip(*points, strict=True), style, linewidth=1.6, label=label)
    lowest = []
    for epsilon in grid:
        planned = plan(shape, "output-perturbation", Budget(float(epsilon), delta), **options)
        if "lower_bound" in planned.expected:
            lowest.append((epsilon, planned.expected["lower_bound"]))
    if lowest:
        label = "no private method, for the worst loss"
        ax.plot(*zip(*lowest, strict=True), ":", color="0.3", linewidth=1.6, label=label)
    ax.axhline(
        shape.loss.at_zero * shape.max_weight,
        color="0.6",
        linewidth=1.0,
        label="weights of zero",
    )
    epsilon_axis(ax, delta, mark)
    ax.set_yscale("log")
    ax.set_ylabel("bound of the expected excess risk")
    legend_above(ax)
    return ax
