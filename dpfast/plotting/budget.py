"""Where a budget went, access by access."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpfast.plotting._axes import Display
from dpfast.privacy import ACCOUNTANTS, BudgetAccountant, Ledger, PrivacyReport, budget_filter
from dpfast.privacy.accountants import AdditiveAccountant

_UNITS = {"epsilon": "pure", "mu": "gdp", "rho": "zcdp"}
_SYMBOLS = {"epsilon": "ε", "mu": "µ²", "rho": "ρ"}


class BudgetDisplay(Display):
    """Privacy cost of a run, added up over its accesses to the data, against the limit.

    Make one with :meth:`from_ledger`. The cost is in the unit in which it adds up: ε for pure
    releases, µ² if all are Gaussian, ρ (zCDP) otherwise. Nothing private is shown: the events are
    public.

    Parameters
    ----------
    accesses : array-like of shape (n_events,)
        Number of accesses up to and including each event.
    costs : array-like of shape (n_events,)
        What each event cost.
    mechanisms : sequence of str
        Of each event.
    unit : {"epsilon", "mu", "rho"}
    limit : float or None

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    line_ : matplotlib.lines.Line2D
        The cost, added up.
    """

    line_: Any

    def __init__(
        self,
        accesses: Any,
        costs: Any,
        mechanisms: Any,
        unit: str,
        limit: float | None = None,
    ) -> None:
        self.accesses: NDArray[np.float64] = np.asarray(accesses)
        self.costs: NDArray[np.float64] = np.asarray(costs, dtype=np.float64)
        self.mechanisms = list(mechanisms)
        self.unit = unit
        self.limit = limit

    @classmethod
    def from_ledger(
        cls, ledger: Ledger | BudgetAccountant | PrivacyReport, *, ax: Any = None
    ) -> Self:
        """Draw what was spent.

        Parameters
        ----------
        ledger : Ledger, BudgetAccountant or PrivacyReport
            A report, such as a model's ``privacy_``, has no budget, so no limit is drawn.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.

        Raises
        ------
        TypeError
            If `ledger` is something else.
        ValueError
            If there are no events, or no unit prices them all.
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
        accountant = ACCOUNTANTS[_UNITS[unit]]
        assert isinstance(accountant, AdditiveAccountant)
        return cls(
            np.cumsum([event.count for event in events]),
            [event.count * accountant.price(event) for event in events],
            [event.mechanism for event in events],
            unit,
            None if isinstance(ledger, PrivacyReport) else _limit(ledger, unit),
        ).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on given axes, or on a new figure; returns the display."""
        ax = self._begin(ax)
        total = np.concatenate([[0.0], np.cumsum(self.costs)])
        (self.line_,) = ax.plot(
            np.concatenate([[0], self.accesses]), total, color="0.6", linewidth=1.0, zorder=1
        )
        for mechanism in dict.fromkeys(self.mechanisms):
            chosen = np.array([name == mechanism for name in self.mechanisms])
            ax.plot(
                self.accesses[chosen],
                total[1:][chosen],
                "o",
                markersize=5.0 if len(chosen) <= 100 else 2.0,
                label=mechanism.replace("_", " "),
            )
        if self.limit is not None:
            ax.axhline(self.limit, color="black", linestyle="--", linewidth=1.0, label="limit")
        ax.set_xlim(left=0.0)
        ax.set_ylim(0.0, 1.12 * max(total[-1], self.limit or 0.0))
        ax.set_xlabel("accesses to the data")
        ax.set_ylabel(f"privacy cost {_SYMBOLS[self.unit]}, added up")
        ax.legend(loc="lower right", frameon=True)
        return self


def plot_ledger(ledger: Ledger | BudgetAccountant | PrivacyReport, ax: Any = None) -> Any:
    """Plot the privacy cost of a run by :meth:`BudgetDisplay.from_ledger`; returns the axes."""
    return BudgetDisplay.from_ledger(ledger, ax=ax).ax_


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
