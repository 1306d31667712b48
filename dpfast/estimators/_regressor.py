"""What regressors share: bounds of the targets and predictions within them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dpfast._arrays import as_float64
from dpfast._typing import Matrix, Vector
from dpfast._validation import check_real
from dpfast.estimators._base import PrivateLinearModel
from dpfast.estimators._targets import ANY, Affine, Targets
from dpfast.solvers import Outcome, Plan


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLinearRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear regressors: targets are brought to [-1, 1] by public bounds, and back.

    Parameters
    ----------
    alpha : float, "auto" or None, default="auto"
        Ridge of the mean loss, for targets scaled to [-1, 1]. "auto" or None lets the solver
        choose it from public quantities.
    target_bounds : tuple of two floats or None, default=None
        Public lowest and highest target, in units of the target. Targets beyond them are clipped;
        inside the model, targets are scaled to [-1, 1] (without an intercept, divided by the larger
        absolute bound). None takes the bounds from `y` with a
        :class:`~dpfast.errors.PrivacyLeakWarning`.

    Attributes
    ----------
    prediction_range_ : tuple of two floats
        Lowest and highest prediction: `target_bounds`, or the part of them that the fit's releases
        support, if the solver learns where targets are (as those of "auto" do with a δ).
    """

    _takes_labels = False

    target_bounds: tuple[float, float] | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise for a few dozen rows drowns the signal: generic accuracy checks do not apply.
        tags.regressor_tags.poor_score = True
        return tags

    def _checked_y(self, y: NDArray[Any]) -> NDArray[Any]:
        return as_float64("y", y)

    def _targets_in(self, low: float, high: float) -> Targets:
        """How targets of this public range are brought into that of the loss."""
        return Affine.of(self._loss(), low, high, centered=self.fit_intercept)

    def _resolve_targets(
        self, y: NDArray[Any] | None
    ) -> tuple[tuple[Targets, ...], tuple[str, ...]]:
        if self.target_bounds is not None:
            return (self._targets_in(*_pair(self.target_bounds)),), ()
        notes = self._inferred(
            y,
            "target_bounds",
            "were not given, so the range of the targets is taken from y.",
            "target_bounds=(lowest, highest), known without looking at the data (what is beyond is "
            "clipped).",
            "target_bounds were taken from the data",
        )
        assert y is not None
        return (self._targets_in(float(y.min()), float(y.max())),), notes

    def _fitted(
        self, plan: Plan[Any], targets: Targets, coef: Matrix, intercept: Vector
    ) -> dict[str, Any]:
        return {"coef_": coef[0], "intercept_": float(intercept[0])}

    def _model(self, plan: Plan[Any], outcomes: Sequence[Outcome], targets: Any) -> dict[str, Any]:
        (outcome,) = outcomes
        return {
            **super()._model(plan, outcomes, targets),
            "prediction_range_": targets.prediction_range(outcome.prediction_range or ANY),
        }

    def _link(self, margins: Vector) -> Vector:
        """What margins predict."""
        return margins

    def predict(self, X: ArrayLike) -> Vector:
        """Predicted target of each row, ``<x, coef_> + intercept_``, kept in `prediction_range_`.

        With a log link the predicted mean, which is the exponential of that.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or blocks of rows

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        predicted = self._link(self._affine(X, self.coef_, self.intercept_))
        return np.clip(predicted, *self.prediction_range_)

    score = PrivateLinearModel.score  # and not the mixin's

    def _scored(self, found: Vector, predicted: Vector, weight: Vector | None) -> float:
        from sklearn.metrics import r2_score  # takes long to import

        with np.errstate(over="ignore", invalid="ignore"):
            return float(r2_score(found, predicted, sample_weight=weight))


def _pair(bounds: Any) -> tuple[float, float]:
    try:
        first, second = bounds
    except (TypeError, ValueError):
        raise ValueError(
            f"target_bounds must be two numbers (lowest, highest); got {bounds!r}."
        ) from None
    low = check_real("target_bounds[0]", first, low=-1e100, high=1e100)
    high = check_real("target_bounds[1]", second, low=-1e100, high=1e100)
    if not low < high:
        raise ValueError(
            f"target_bounds must hold the lower number first, then a higher one; got {bounds!r}."
        )
    return low, high
