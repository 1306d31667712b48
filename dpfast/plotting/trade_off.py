"""What a guarantee leaves to an attacker: the two errors of telling neighbors apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from dpfast.plotting._axes import Display, legend_above
from dpfast.privacy import Budget, PrivacyReport, zcdp_delta

Curve = NDArray[np.float64]


def trade_off(alpha: ArrayLike, guarantee: Budget) -> Curve:
    """Smallest type II error of any test of type I error alpha between neighboring data sets.

    Parameters
    ----------
    alpha : array-like
        Type I errors, in [0, 1].
    guarantee : Budget
        (ε, δ): ``max(0, 1 - δ - e^ε α, e^-ε (1 - δ - α))`` (Wasserman & Zhou 2010; Kairouz, Oh &
        Viswanath 2015). µ-GDP: ``Φ(Φ⁻¹(1 - α) - µ)`` (Dong, Roth & Su 2022). ρ-zCDP: the largest of
        the curves of the (ε, δ) that it implies, at 200 values of ε; a bound, not the whole of what
        ρ-zCDP promises.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> from dpfast import Budget
    >>> from dpfast.plotting import trade_off
    >>> [round(float(b), 3) for b in trade_off([0.0, 0.05, 1.0], Budget(1.0))]
    [1.0, 0.864, 0.0]
    """
    errors = np.asarray(alpha, dtype=np.float64)
    if not (errors >= 0.0).all() or not (errors <= 1.0).all():
        raise ValueError(f"alpha must be within [0, 1]; got {alpha!r}.")
    if guarantee.mu is not None:
        return np.asarray(ndtr(ndtri(1.0 - errors) - guarantee.mu), dtype=np.float64)
    if guarantee.epsilon is not None:
        return _approximate(errors, guarantee.epsilon, guarantee.delta)
    rho = guarantee.limit
    # Beyond, delta is below 1e-9 (the simple rule of zCDP).
    epsilons = np.linspace(0.0, rho + 2.0 * np.sqrt(rho * np.log(1e9)), 200)
    curves = [_approximate(errors, e, zcdp_delta(rho, e)) for e in epsilons.tolist()]
    return np.asarray(np.max(curves, axis=0), dtype=np.float64)


def _approximate(errors: Curve, epsilon: float, delta: float) -> Curve:
    with np.errstate(over="ignore", invalid="ignore"):
        steep = 1.0 - delta - np.where(errors > 0.0, np.exp(epsilon) * errors, 0.0)
    flat = np.exp(-epsilon) * (1.0 - delta - errors)
    return np.asarray(np.maximum(0.0, np.maximum(steep, flat)), dtype=np.float64)


class TradeOffDisplay(Display):
    """Trade-off curves of guarantees: type II against type I error of the best attack.

    An attacker sees the result, knows everything but one record, and guesses which of two
    neighboring data sets it came from. Whatever she does, her two errors lie on or above the curve.

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

        Returns
        -------
        TradeOffDisplay

        Raises
        ------
        TypeError
            If `report` is something else.
        ImportError
            If matplotlib is not installed.
        """
        if not isinstance(report, PrivacyReport):
            raise TypeError(f"report must be a PrivacyReport; got {type(report).__name__}.")
        guarantees = {
            f"ε = {report.epsilon:.3g}, δ = {report.delta:.3g}": Budget(
                report.epsilon, report.delta
            )
        }
        if report.mu is not None:
            guarantees[f"µ-GDP, µ = {report.mu:.3g}"] = Budget(mu=report.mu)
        elif report.rho is not None:
            guarantees[f"ρ-zCDP, ρ = {report.rho:.3g}"] = Budget(rho=report.rho)
        return cls(guarantees).plot(ax)

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
