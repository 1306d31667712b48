"""How good predictions are on rows whose target is known; computed without noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dpfast._typing import Vector

Scores = dict[str, float]


def classification_scores(
    y: NDArray[Any], prediction: NDArray[Any], scores: NDArray[Any], probability: Any = None
) -> Scores:
    """Scores of a classifier.

    Parameters
    ----------
    y, prediction : ndarray of shape (n,)
        Positions of classes.
    scores : ndarray of shape (n,) or (n, n_classes)
        Margins, or probabilities.
    probability : ndarray of shape (n, n_classes) or None
        None for a classifier that has none.

    Returns
    -------
    dict of str to float
        ``accuracy``; ``auc``, the area under the ROC curve; ``recall``, the share of the positive
        rows that were found; ``precision``, the share of positive rows among those predicted so
        (of more than two classes, as ``auc``, the means over the classes); with probabilities
        ``log_loss`` and ``deviance_explained``, the share of the log-loss of a constant that is
        gone.

    Examples
    --------
    >>> y, p = np.array([0, 0, 1, 1]), np.array([0.1, 0.6, 0.4, 0.8])
    >>> found = classification_scores(y, p > 0.5, p, np.stack([1 - p, p], axis=1))
    >>> print(*(f"{name} {value:.3f}" for name, value in found.items()), sep=", ")
    accuracy 0.500, auc 0.750, recall 0.500, precision 0.500, log_loss 0.540, deviance_explained \
0.221
    """
    by_class = {1: scores} if scores.ndim == 1 else dict(enumerate(scores.T))
    found = {
        "accuracy": float(np.mean(prediction == y)),
        "auc": _mean([auc(y == k, score) for k, score in by_class.items()]),
        "recall": _mean([_share(prediction == k, y == k) for k in by_class]),
        "precision": _mean([_share(y == k, prediction == k) for k in by_class]),
    }
    if probability is not None:
        n, k = len(y), probability.shape[1]
        chosen = np.clip(probability[np.arange(n), y], 1e-300, 1.0)
        found["log_loss"] = float(-np.mean(np.log(chosen)))
        shares = np.bincount(y, minlength=k) / n
        constant = -float(np.sum(shares[shares > 0.0] * np.log(shares[shares > 0.0])))
        if constant > 0.0:
            found["deviance_explained"] = 1.0 - found["log_loss"] / constant
    return {name: value for name, value in found.items() if np.isfinite(value)}


def regression_scores(
    y: Vector,
    prediction: Vector,
    quantile: float | None = None,
    explained: Callable[[Vector, Vector, Vector | None], float] | None = None,
    weight: Vector | None = None,
) -> Scores:
    """Scores of a mean: ``r2``, ``mean_absolute_error``, ``rmse``; of a quantile, its own alone.

    ``deviance_explained`` is the share of a constant's loss that is gone: of squares (as R²), of
    the pinball loss, whose constant is the quantile of these rows, or what `explained` makes of
    targets, predictions and weights.  Where all targets are the same there is nothing to explain,
    and no share of it.  `weight` weighs the rows, except for a quantile.
    """
    error = y - prediction
    if quantile is not None:
        found = {
            "pinball_loss": _pinball(error, quantile),
            "share_below": float(np.mean(y <= prediction)),
        }
        constant = _pinball(y - np.quantile(y, quantile), quantile)
        if constant > 0.0:
            found["deviance_explained"] = 1.0 - found["pinball_loss"] / constant
        return found
    square = float(np.average(error**2, weights=weight))
    spread = float(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))
    found = {
        "mean_absolute_error": float(np.average(np.abs(error), weights=weight)),
        "rmse": float(np.sqrt(square)),
    }
    if spread > 0.0:
        found["r2"] = 1.0 - square / spread
    if explained is not None:
        if spread > 0.0:
            found["deviance_explained"] = explained(y, prediction, weight)
    elif "r2" in found:
        found["deviance_explained"] = found["r2"]
    return found


def auc(positive: NDArray[np.bool_], score: Vector) -> float:
    """Chance that a positive row scores above a negative one; NaN if there are only such."""
    many = int(np.count_nonzero(positive))
    few = len(positive) - many
    if not many or not few:
        return float("nan")
    ranks = float(rankdata(score)[positive].sum())
    return (ranks - many * (many + 1) / 2.0) / (many * few)


def _share(these: NDArray[np.bool_], among: NDArray[np.bool_]) -> float:
    return float(np.mean(these[among])) if among.any() else float("nan")


def _mean(values: list[float]) -> float:
    kept = [value for value in values if np.isfinite(value)]
    return float(np.mean(kept)) if kept else float("nan")


def _pinball(error: Vector, quantile: float) -> float:
    return float(np.mean(np.maximum(quantile * error, (quantile - 1.0) * error)))
