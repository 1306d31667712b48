"""The estimators that a table can be fitted with, by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from dpfast._files import show_names
from dpfast._validation import check_real
from dpfast.estimators import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    NegativeBinomialRegressor,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
)
from dpfast.tabular.schema import TableSchema
from dpfast.tabular.scores import Scores, classification_scores, regression_scores
from dpfast.tabular.targets import ClassTarget

FAMILIES: dict[str, type] = {
    "logistic": LogisticRegression,
    "svm": LinearSVC,
    "linear": LinearRegression,
    "huber": HuberRegressor,
    "quantile": QuantileRegressor,
    "poisson": PoissonRegressor,
    "gamma": GammaRegressor,
    "tweedie": TweedieRegressor,
    "negative-binomial": NegativeBinomialRegressor,
}
"""Name to estimator. A new one needs a line here, and nothing else in this room."""

_DEFAULT = {"classification": "logistic", "regression": "linear"}
#: What a table sets, and an estimator that is given must leave as it is.
_DERIVED = (
    *("data_norm", "column_blocks", "classes", "target_bounds", "strict"),
    *("max_weight", "max_exposure"),
)
_OF_TABLE = ("epsilon", "delta", "neighboring_relation", "max_rows_per_group", "random_state")


def task_of(family: str) -> str:
    """What a family does: "classification" or "regression"."""
    return "classification" if is_classifier(FAMILIES[family]()) else "regression"


def family_of(estimator: Any, task: str | None = None) -> str:
    """Name of the family of the parameter `estimator`; `task` decides what "auto" is."""
    if isinstance(estimator, str):
        if estimator == "auto" and task is not None:
            return _DEFAULT[task]
        if estimator not in FAMILIES:
            raise ValueError(
                f"estimator must be 'auto', {', '.join(map(repr, FAMILIES))}, or an estimator of "
                f"dpfast; got {estimator!r}."
            )
        return estimator
    for name, kind in FAMILIES.items():
        if type(estimator) is kind:
            return name
    got = estimator if isinstance(estimator, type) else type(estimator)
    what = f"the class {got.__name__}" if got is estimator else got.__name__
    raise TypeError(
        f"estimator must be 'auto', {', '.join(map(repr, FAMILIES))}, or an estimator of dpfast, "
        f"such as dpfast.LogisticRegression(); got {what} of the module {got.__module__}."
    )


def exposure_exponent(estimator: Any) -> float:
    """Power of its exposure that a rate weighs in proportion to, as if it were an offset."""
    power = getattr(estimator, "deviance_power", None)
    if power is None:
        raise ValueError(
            "exposure must be left out except for the families 'poisson', 'gamma' and 'tweedie'; "
            f"got {family_of(estimator)!r}."
        )
    return 2.0 - float(power)


def largest_weight(estimator: Any, schema: TableSchema) -> float | None:
    """Public bound of what a row weighs; None: all weigh the same."""
    if schema.exposure is None:
        return None if schema.weight is None else schema.weight.high
    found: float = schema.exposure.high ** exposure_exponent(estimator)
    return found if schema.weight is None else found * schema.weight.high


def unfitted(estimator: Any, schema: TableSchema, settings: dict[str, Any]) -> Any:
    """A new estimator for encoded rows, with all that is public about them declared.

    Of `settings`, the budget and the like, only what its constructor knows is passed on.
    """
    family = family_of(estimator, schema.task)
    if task_of(family) != schema.task:
        raise ValueError(
            f"estimator must suit the target {schema.target.name!r}, which is declared for "
            f"{schema.task}; got {family!r}. Declare "
            + (
                "its range, a pair [low, high]."
                if schema.task == "classification"
                else 'its classes, {"classes": [...]}.'
            )
        )
    kind = FAMILIES[family]
    new = kind() if isinstance(estimator, str) else clone(estimator)
    defaults, given = kind().get_params(deep=False), new.get_params(deep=False)
    for name in (*_DERIVED, *_OF_TABLE):
        if name in given and given[name] is not None and given[name] != defaults[name]:
            instead = "takes it instead" if name in _OF_TABLE else "derives it from the declaration"
            raise ValueError(
                f"{name} must be left out of the estimator inside a TableModel, which {instead}; "
                f"got {given[name]!r}."
            )
    if hasattr(prior := given.get("prior"), "schema_"):
        new.set_params(prior=_encoded_prior(prior, schema))
    target = schema.target
    weights = given.get("class_weight")
    if isinstance(weights, Mapping) and isinstance(target, ClassTarget):
        new.set_params(class_weight=_by_position(weights, list(target.classes)))
    declared = {
        "data_norm": schema.row_norm_bound,
        "column_blocks": schema.column_blocks,
        "max_weight": largest_weight(new, schema),
        "strict": True,
        **(
            {"classes": list(range(len(target.classes)))}
            if isinstance(target, ClassTarget)
            else {"target_bounds": target.ends}
        ),
        **settings,
    }
    new.set_params(**{name: value for name, value in declared.items() if name in given})
    return new


def _encoded_prior(prior: Any, schema: TableSchema) -> Any:
    """The estimator of encoded rows of another TableModel, for rows that are encoded alike."""
    what = "prior must be a TableModel of the same columns and target, declared alike"
    if learned := (*schema.learns, *prior.schema_.learns):
        raise ValueError(
            f"{what}, without ranges that are learned; got the range of {learned[0]!r}, which is. "
            "Declare it for both fits, or fit without the prior."
        )
    theirs, own = ([*s.features, s.target] for s in (prior.schema_, schema))
    if theirs != own:
        raise ValueError(
            f"{what}; got {_difference(theirs, own)}. Declare what the prior has, or fit without "
            "it."
        )
    return prior.estimator_


def _difference(theirs: list[Any], own: list[Any]) -> str:
    """The first difference between two declarations, in words."""
    for known, other, whose in ((theirs, own, "the prior"), (own, theirs, "this declaration")):
        names = [column.name for column in other]
        if alone := [column.name for column in known if column.name not in names]:
            return f"{show_names(alone)}, which only {whose} has"
    if [column.name for column in theirs] != [column.name for column in own]:
        return f"another order, where the prior has {show_names([each.name for each in theirs])}"
    one, other = next(pair for pair in zip(theirs, own, strict=True) if pair[0] != pair[1])
    before, now = (json.dumps(column.declaration()) for column in (one, other))
    return f"{one.name!r} as {now:.200}, where the prior has {before:.200}"


def _by_position(weights: Mapping[Any, float], classes: list[Any]) -> dict[int, float]:
    """Weights of classes by their position in a declaration."""
    if unknown := [label for label in weights if label not in classes]:
        raise ValueError(
            f"class_weight must have keys among the classes {classes}; got {unknown[0]!r}."
        )
    return {classes.index(label): weight for label, weight in weights.items()}


def output_of(estimator: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """What scores need of rows: probabilities, else margins, else predicted numbers."""
    for method in ("predict_proba", "decision_function", "predict"):
        if hasattr(estimator, method):
            found: NDArray[np.float64] = getattr(estimator, method)(X)
            return found
    raise AssertionError


def scores_of(
    estimator: Any,
    y: NDArray[Any],
    output: NDArray[np.float64],
    threshold: float | None = None,
    weight: NDArray[np.float64] | None = None,
) -> Scores:
    """Scores of what :func:`output_of` returned; only numbers have weights."""
    if not is_classifier(estimator):
        check_threshold(threshold, None)
        quantile = getattr(estimator, "quantile", None)
        return regression_scores(
            y, output, quantile, getattr(estimator, "deviance_explained", None), weight
        )
    probability = output if hasattr(estimator, "predict_proba") else None
    check_threshold(threshold, probability)
    if output.ndim == 2 and output.shape[1] == 2:
        output = output[:, 1]
    if threshold is None:
        threshold = default_threshold(estimator)
    prediction = chosen(output, probability is not None, threshold)
    return classification_scores(y, prediction, output, probability)


def default_threshold(estimator: Any) -> float:
    """The probability from which on a fitted estimator itself takes the second of two classes."""
    return float(getattr(estimator, "threshold_", 0.5))


def chosen(
    output: NDArray[np.float64], probable: bool, threshold: float | None = None
) -> NDArray[np.intp]:
    """Positions of classes, from probabilities or margins (of the second of two classes)."""
    if output.ndim == 2:
        return np.asarray(output.argmax(axis=1))
    least = 0.0 if not probable else 0.5 if threshold is None else threshold
    return (output > least).astype(np.intp)


def check_threshold(threshold: Any, probability: NDArray[np.float64] | None) -> None:
    """Refuse a threshold where there is no probability of one of two classes."""
    if threshold is None:
        return
    check_real("threshold", threshold, low=0.0, high=1.0)
    if probability is None or probability.shape[1] != 2:
        raise ValueError(
            f"threshold must be None except for two classes with probabilities; got {threshold!r}."
        )


def parameters_of(estimator: Any) -> set[str]:
    """Names of an estimator's own parameters, that neither a table nor a machine sets."""
    return set(estimator.get_params(deep=False)) - {*_DERIVED, *_OF_TABLE, "n_jobs", "verbose"}


def own_parameters(estimator: Any) -> dict[str, Any]:
    """An estimator's own parameters where they are not its defaults, as far as JSON has them."""
    defaults = type(estimator)().get_params(deep=False)
    given = estimator.get_params(deep=False)
    found = {}
    for name in sorted(parameters_of(estimator)):
        # Of what a fit settles, what it is.
        settled = name in ("threshold", "least_probability")
        value = getattr(estimator, f"{name}_", given[name]) if settled else given[name]
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, str | int | float | None) and value != defaults[name]:
            found[name] = value
    return found
