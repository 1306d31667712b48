"""What a guarantee leaves to an attacker, drawn for a decision about a release."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from dpfast.plotting._axes import Display
from dpfast.privacy import PrivacyReport, advantage, belief, reconstruction


class AttackDisplay(Display):
    """Belief after a suspicion, and success of a reconstruction, at most; by what was known before.

    Parameters
    ----------
    report : PrivacyReport

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    lines_ : list of matplotlib.lines.Line2D

    See Also
    --------
    TradeOffDisplay : The errors of telling neighbors apart.
    """

    lines_: list[Any]

    def __init__(self, report: PrivacyReport) -> None:
        if not isinstance(report, PrivacyReport):
            raise TypeError(f"report must be a PrivacyReport; got {type(report).__name__}.")
        self.report = report

    @classmethod
    def from_report(cls, report: PrivacyReport, *, ax: Any = None) -> Self:
        """Draw what a report, such as a model's ``privacy_``, leaves to an attacker.

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
        return cls(report).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on given axes, or on a new figure; returns the display."""
        ax = self._begin(ax, (5.6, 4.6))
        before = np.geomspace(1e-4, 0.999, 300)
        after = {
            "belief after a suspicion": [belief(self.report, float(p)) for p in before],
            "success of a reconstruction": [reconstruction(self.report, float(p)) for p in before],
        }
        self.lines_ = [
            ax.plot(before, values, linewidth=1.6, label=label)[0]
            for label, values in after.items()
        ]
        ax.plot(before, before, color="0.6", linewidth=1.0, label="without the result")
        ax.set_xscale("log")
        ax.set_xlim(1e-4, 1.0)
        ax.set_ylim(0.0, 1.0)
        ax.set_xlabel("probability before the result is seen")
        ax.set_ylabel("probability afterwards, at most")
        ax.set_title(
            f"ε = {self.report.epsilon:.3g}, δ = {self.report.delta:.3g}; membership advantage at "
            f"most {advantage(self.report):.3g}",
            fontsize="medium",
            loc="left",
        )
        ax.legend(loc="upper left", frameon=False)
        return self
