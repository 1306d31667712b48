"""What the scores of a private model are compared with: models without privacy."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
)
from sklearn.svm import LinearSVC

from dpfast.tabular import Scores, TableFit, TableModel, output_of, scores_of

_LARGEST = 2**24
"""Entries of encoded rows beyond which no other model is fitted: it would take too long."""

_USUAL: dict[str, Any] = {
    "logistic": lambda: LogisticRegression(max_iter=1000),
    "svm": LinearSVC,
    "linear": LinearRegression,
    "huber": lambda: HuberRegressor(max_iter=1000),
    "poisson": lambda: PoissonRegressor(alpha=0.0, max_iter=1000),
    "gamma": lambda: GammaRegressor(alpha=0.0, max_iter=1000),
}


def baselines(
    model: TableModel, fit: TableFit, test: str, threshold: float | None
) -> dict[str, Scores]:
    """Scores on test rows of scikit-learn's model of the family, and of a constant.

    Rows that are not held in memory, or are very many, are compared with the constant alone.
    """
    y, usual = fit.targets(), _usual_model(model, fit)
    targets: list[Any] = []
    exposures: list[Any] = []
    outputs: list[Any] = []
    # The encoded rows are not kept: with many categories they take more memory than there is.
    for part in model.encoded(test, with_target=True):
        targets.append(part.target)
        exposures.append(part.exposure)
        if usual is not None:
            outputs.append(output_of(usual, part.X))
    y_test, weight_test = np.concatenate(targets), model.weights_of(exposures)
    found: dict[str, Scores] = {}
    if usual is not None:
        # By what the family is scored: scikit-learn's models do not say their deviance.
        found["non_private"] = scores_of(
            model.estimator_, y_test, np.concatenate(outputs), threshold, weight_test
        )
    classes = getattr(fit.plan.schema.target, "classes", None)
    if classes is not None:
        shares = np.bincount(y.astype(np.intp), minlength=len(classes)) / len(y)
        output = np.broadcast_to(shares, (len(y_test), len(classes)))
        if hasattr(model.estimator_, "predict_proba"):
            constant = scores_of(model.estimator_, y_test, output, threshold)
        else:
            constant = {"accuracy": float(np.mean(y_test == shares.argmax()))}
        found["majority_class"] = constant
    else:
        quantile = getattr(model.estimator_, "quantile", None)
        value = fit.mean_target() if quantile is None else float(np.quantile(y, quantile))
        output = np.full(len(y_test), value)
        found["constant"] = scores_of(model.estimator_, y_test, output, None, weight_test)
    return found


def _usual_model(model: TableModel, fit: TableFit) -> Any:
    """Scikit-learn's model of the family, fitted to the same rows; None where there is none."""
    y, small = fit.targets(), fit.n_samples * len(fit.plan.schema.feature_names) <= _LARGEST
    several = len(np.unique(y)) > 1
    if not (model.family in _USUAL and several and fit.plan.in_memory and small):
        return None
    X, y, arguments = fit.dense()
    if hasattr(model.estimator_, "deviance_explained"):
        y = np.clip(y, *model.estimator_.target_bounds)  # it takes no others
    usual = _USUAL[model.family]().fit(X, y, sample_weight=arguments.get("sample_weight"))
    return usual if _complete(usual, model) else None


def _complete(usual: Any, model: TableModel) -> bool:
    """Whether it has seen all classes, so that its positions are those of the declaration."""
    classes = getattr(model.schema_.target, "classes", None)
    return classes is None or len(usual.classes_) == len(classes)
