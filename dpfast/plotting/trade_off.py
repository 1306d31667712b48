"""What a guarantee leaves to an attacker: the two errors of telling neighbors apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from dpfast.plotting._axes import Display, legend_above
from dpfast.privacy import Budget, PrivacyReport, guarantees_of, trade_off


class TradeOffDisplay(Display):
    """Trade-off curves of guarantees: type II against type I error of the best attack.

    An attacker sees the result, knows everything but one record, and guesses which of two
    neighboring data sets it came from. Any attacker's two errors lie on or above the curve.

    Parameters
    ----------
    guarantees : mapping of str to Budget
        Label to guarantee.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    lines_ : list of matplotlib.lines.Line2D
        One for each guarantee.

    See Also
    --------
    TradeOffDisplay.from_report : What a fitted model promises.
    trade_off : The curve.
    """

    lines_: list[Any]

    def __init__(self, guarantees: Mapping[str, Budget]) -> None:
        if not isinstance(guarantees, Mapping) or not guarantees:
            raise ValueError(
                f"guarantees must be a mapping of labels to Budgets; got {guarantees!r}."
            )
        for label, guarantee in guarantees.items():
            if not isinstance(guarantee, Budget):
                raise TypeError(f"guarantees[{label!r}] must be a Budget; got {guarantee!r}.")
        self.guarantees = dict(guarantees)

    @classmethod
    def from_report(cls, report: PrivacyReport, *, ax: Any = None) -> Self:
        """Draw what a report, such as a model's ``privacy_``, promises, in every form it has.

        Parameters
        ----------
        report : PrivacyReport
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.

        Raises
        ------
        TypeError
            If `report` is something else.
        """
        if not isinstance(report, PrivacyReport):
            raise TypeError(f"report must be a PrivacyReport; got {type(report).__name__}.")
        return cls({label(form): form for form in guarantees_of(report)}).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on given axes, or on a new figure; returns the display."""
        # The square, and above it a line of the legend for each curve.
        ax = self._begin(ax, (4.8, 4.9 + 0.24 * (1 + len(self.guarantees))))
        alpha = np.concatenate([[0.0], np.geomspace(1e-6, 1e-2, 100), np.linspace(0.01, 1.0, 400)])
        ax.plot([0.0, 1.0], [1.0, 0.0], color="0.6", linewidth=1.0, label="blind guessing")
        self.lines_ = [
            ax.plot(alpha, trade_off(alpha, guarantee), linewidth=1.6, label=label)[0]
            for label, guarantee in self.guarantees.items()
        ]
        ax.set_xlim(0.0, 1.0)
        ax.set_ylim(0.0, 1.0)
        ax.set_aspect("equal")
        ax.set_xlabel("type I error: a wrong accusation")
        ax.set_ylabel("type II error: a miss")
        legend_above(ax)
        return self


def label(guarantee: Budget) -> str:
    """What a curve is called."""
    if guarantee.mu is not None:
        return f"µ-GDP, µ = {guarantee.mu:.3g}"
    if guarantee.rho is not None:
        return f"ρ-zCDP, ρ = {guarantee.rho:.3g}"
    return f"ε = {guarantee.limit:.3g}, δ = {guarantee.delta:.3g}"
