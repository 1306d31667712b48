"""Coefficients with what noise may have done to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dpfast._validation import check_integer
from dpfast.plotting._axes import Display, legend_above
from dpfast.tabular import TableModel


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
    inner : array-like of shape (n_features, 2), optional
        Ends of shorter bands inside: what of them would be left without noise.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    points_ : matplotlib.lines.Line2D
    bands_ : matplotlib.collections.LineCollection
    inner_ : matplotlib.collections.LineCollection or None
    """

    points_: Any
    bands_: Any
    inner_: Any

    def __init__(
        self, names: Sequence[str], coefficients: ArrayLike, lower: ArrayLike, upper: ArrayLike,
        band: str = "band", inner: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        self.names = list(names)
        self.coefficients: NDArray[np.float64] = np.asarray(coefficients, dtype=np.float64)
        self.lower: NDArray[np.float64] = np.asarray(lower, dtype=np.float64)
        self.upper: NDArray[np.float64] = np.asarray(upper, dtype=np.float64)
        self.band = band
        self.inner = None if inner is None else np.asarray(inner, dtype=np.float64)
        shape = (len(self.names),)
        if not self.coefficients.shape == self.lower.shape == self.upper.shape == shape:
            raise ValueError(
                f"coefficients, lower and upper must hold one number for each of the {shape[0]} "
                f"names; got shapes {self.coefficients.shape}, {self.lower.shape} and "
                f"{self.upper.shape}."
            )
        if self.inner is not None and self.inner.shape != (*shape, 2):
            raise ValueError(f"inner must have shape {(*shape, 2)}; got {self.inner.shape}.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        intervals: ArrayLike | None = None,
        confidence_level: float = 0.95,
        row: int = 0,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the coefficients of a fitted model of dpfast.

        Parameters
        ----------
        estimator : estimator
            Fitted; of a :class:`~dpfast.TableModel` the encoded columns are drawn. With
            ``inference=True`` the bands are its intervals, that of sampling alone inside.
            Otherwise, without `intervals`, it must have a ``noise_interval``: come from the solver
            "output-perturbation" or "objective-perturbation".
        intervals : array-like of shape (n_features, 2), optional
            Bands to draw instead. One that is not finite is left out.
        confidence_level : float, default=0.95
            Of each band by itself; over the privacy noise alone without ``inference=True``.
        row : int, default=0
            Which class, for a classifier of more than two.
        feature_names : sequence of str, optional
            By default ``feature_names_in_``, or x0, x1, ...
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.

        Notes
        -----
        Without ``inference=True`` the bands show the privacy noise alone, not how much the
        coefficients would vary with other rows, and not the pull of the ridge.

        Raises
        ------
        TypeError, ValueError
            If the noise of the coefficients is not known, or an argument does not fit.
        """
        check_is_fitted(estimator, "coef_")
        if isinstance(estimator, TableModel):
            feature_names = feature_names or list(estimator.get_feature_names_out())
            estimator = estimator.estimator_
        weights = np.atleast_2d(estimator.coef_)
        row = check_integer("row", row, low=0, high=len(weights) - 1)
        coefficients, inner = weights[row], None
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
        elif hasattr(estimator, "bse_"):
            places = range(len(coefficients))
            ends, inner = (
                np.asarray(estimator.conf_int(confidence_level, places, sampling_only=only))
                for only in (False, True)
            )
            lower, upper = ends.T
            band = f"{100.0 * confidence_level:g} % interval; inside: without the noise"
        else:
            found = estimator.noise_interval(confidence_level)
            lower, upper = np.atleast_2d(found.low)[row], np.atleast_2d(found.high)[row]
            band = f"{100.0 * confidence_level:g} % interval of the privacy noise alone"
        return cls(feature_names, coefficients, lower, upper, band, inner).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on given axes, or on a new figure; returns the display."""
        ax = self._begin(ax, (6.4, max(2.4, 1.2 + 0.28 * len(self.names))))
        places = np.arange(len(self.names))
        ax.axvline(0.0, color="0.6", linewidth=1.0, zorder=0)
        self.bands_ = ax.hlines(
            places, self.lower, self.upper, color="C0", alpha=0.35, linewidth=6.0, label=self.band
        )
        self.inner_ = None
        if self.inner is not None:
            self.inner_ = ax.hlines(places, *self.inner.T, color="C0", alpha=0.6, linewidth=6.0)
        (self.points_,) = ax.plot(
            self.coefficients, places, "o", color="C0", markersize=5.0, label="coefficient"
        )
        ax.set_yticks(places, self.names)
        ax.set_ylim(len(self.names) - 0.5, -0.5)
        ax.set_xlabel("coefficient")
        legend_above(ax, ncols=2)
        return self
