"""Coefficients with what noise may have done to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dpfast._validation import check_integer, check_real
from dpfast.plotting._axes import Display
from dpfast.privacy import GaussianEvent, L2LaplaceEvent


class CoefficientDisplay(Display):
    """Coefficients as points, with a band for each.

    Parameters
    ----------
    names : sequence of str
    coefficients : array-like of shape (n_features,)
    lower, upper : array-like of shape (n_features,)
        Ends of the bands.
    band : str
        What the bands are, for the legend.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    points_ : matplotlib.lines.Line2D
    bands_ : matplotlib.collections.LineCollection

    See Also
    --------
    CoefficientDisplay.from_estimator : Make one from a fitted model.
    """

    points_: Any
    bands_: Any

    def __init__(
        self, names: Sequence[str], coefficients: ArrayLike, lower: ArrayLike, upper: ArrayLike,
        band: str = "band",
    ) -> None:  # fmt: skip
        self.names = list(names)
        self.coefficients: NDArray[np.float64] = np.asarray(coefficients, dtype=np.float64)
        self.lower: NDArray[np.float64] = np.asarray(lower, dtype=np.float64)
        self.upper: NDArray[np.float64] = np.asarray(upper, dtype=np.float64)
        self.band = band
        shape = (len(self.names),)
        if not self.coefficients.shape == self.lower.shape == self.upper.shape == shape:
            raise ValueError(
                f"coefficients, lower and upper must hold one number for each of the {shape[0]} "
                f"names; got shapes {self.coefficients.shape}, {self.lower.shape} and "
                f"{self.upper.shape}."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        intervals: ArrayLike | None = None,
        deviations: float = 2.0,
        row: int = 0,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the coefficients of a fitted model of dpfast.

        Parameters
        ----------
        estimator : estimator
            Fitted. Without `intervals` it must come from ``solver="output-perturbation"``: only
            there is the noise of each coefficient known without the data.
        intervals : array-like of shape (n_features, 2), optional
            Bands to draw instead.
        deviations : float, default=2.0
            Half the width of a band, in standard deviations of the noise.
        row : int, default=0
            Which class, for a classifier of more than two.
        feature_names : sequence of str, optional
            By default ``feature_names_in_``, or x0, x1, ...
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        CoefficientDisplay

        Notes
        -----
        The bands show the privacy noise alone, not how much the coefficients would vary with
        other rows, and not the pull of the ridge.

        Raises
        ------
        TypeError, ValueError
            If the noise of the coefficients is not known, or an argument does not fit.
        ImportError
            If matplotlib is not installed.
        """
        check_is_fitted(estimator, "coef_")
        weights = np.atleast_2d(estimator.coef_)
        row = check_integer("row", row, low=0, high=len(weights) - 1)
        coefficients = weights[row]
        if feature_names is None:
            feature_names = getattr(
                estimator, "feature_names_in_", [f"x{j}" for j in range(len(coefficients))]
            )
        if intervals is not None:
            ends = np.asarray(intervals, dtype=np.float64)
            if ends.shape != (len(coefficients), 2):
                raise ValueError(
                    f"intervals must have shape ({len(coefficients)}, 2); got {ends.shape}."
                )
            lower, upper, band = ends[:, 0], ends[:, 1], "given interval"
        else:
            deviations = check_real("deviations", deviations, low=0.0)
            half = deviations * _noise(estimator, row)
            lower, upper = coefficients - half, coefficients + half
            band = f"± {deviations:g} standard deviations of the privacy noise"
        return cls(feature_names, coefficients, lower, upper, band).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on given axes, or on a new figure; returns the display."""
        ax = self._begin(ax, (6.4, max(2.4, 1.2 + 0.28 * len(self.names))))
        places = np.arange(len(self.names))
        ax.axvline(0.0, color="0.6", linewidth=1.0, zorder=0)
        self.bands_ = ax.hlines(
            places, self.lower, self.upper, color="C0", alpha=0.35, linewidth=6.0, label=self.band
        )
        (self.points_,) = ax.plot(
            self.coefficients, places, "o", color="C0", markersize=5.0, label="coefficient"
        )
        ax.set_yticks(places, self.names)
        ax.set_ylim(len(self.names) - 0.5, -0.5)
        ax.set_xlabel("coefficient")
        ax.legend(
            loc="lower left", bbox_to_anchor=(0.0, 1.01), borderaxespad=0.0, ncols=2, frameon=False
        )
        return self


def _noise(estimator: Any, row: int) -> float:
    """Standard deviation of the noise in a coefficient."""
    events = estimator.privacy_.events
    output = [event for event in events if event.where.startswith("output")]
    if len(output) != len(events):
        raise ValueError(
            "estimator must be fitted with solver='output-perturbation', or intervals be given: "
            "only there is the noise of each coefficient known without the data; its accesses are "
            f"{sorted({event.where for event in events})}."
        )
    event = output[row]
    if isinstance(event, GaussianEvent):
        noise = float(event.stddev)
    elif isinstance(event, L2LaplaceEvent):
        # The squared radius, Gamma(d) distributed, has the mean d (d + 1), spread over d entries.
        noise = event.scale * float(np.sqrt(event.dimension + 1.0))
    else:
        raise ValueError(f"estimator must have Gaussian or l2-Laplace noise; got {event}.")
    if not hasattr(estimator, "target_bounds"):
        return noise
    if estimator.target_bounds is None:
        raise ValueError(
            "estimator must have target_bounds, to which its coefficients are scaled; got None."
        )
    low, high = estimator.target_bounds
    return float(noise * (high - low) / 2.0)
