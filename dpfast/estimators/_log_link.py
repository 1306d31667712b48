"""What the regressors of counts, costs and durations share: means that are exponentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.estimators._base import PrivateLinearRegressor
from dpfast.estimators._targets import LogMean, Targets
from dpfast.losses import Loss

Vector = NDArray[np.float64]


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLogLinkRegressor(PrivateLinearRegressor):
    """Means are ``exp(<x, coef_> + intercept_)``; the score is the deviance explained."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _family(self) -> Loss:
        """The loss, of any width; parameters checked."""
        raise NotImplementedError

    @property
    def deviance_power(self) -> float:
        """Power of the mean that the variance is taken to be in proportion to."""
        raise NotImplementedError

    def _loss(self) -> Loss:
        """The loss for declared bounds."""
        return self._declared().loss

    def _declared(self) -> LogMean:
        (targets,), _ = self._resolve_targets(None)
        assert isinstance(targets, LogMean)
        return targets

    def _targets_in(self, low: float, high: float) -> Targets:
        family = self._family()
        positive = family.target_range[0] > 0.0
        if low < 0.0 or (positive and low == 0.0):
            raise ValueError(
                f"target_bounds[0] must be {'> 0' if positive else '>= 0'} for the loss "
                f"{family.name!r}; got {low:g}. The targets' lowest possible value is meant."
            )
        return LogMean.of(family, low, high, centered=self.fit_intercept)

    def predict(self, X: ArrayLike) -> Vector:
        """Predicted mean of each row, ``exp(<x, coef_> + intercept_)``, kept in `target_bounds`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or blocks of rows

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        margins = super().predict(X)
        # A model from a file has no more than its declared bounds.
        targets: LogMean = vars(self).get("_targets") or self._declared()
        return targets.means(margins)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of the deviance that the predictions explain, D²: 1 is perfect, a constant has 0.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or blocks of rows
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
            Not private: it is computed from `y`.
        """
        from sklearn.metrics import d2_tweedie_score  # takes long to import

        found = d2_tweedie_score(
            y, self.predict(X), sample_weight=sample_weight, power=self.deviance_power
        )
        return float(found)
