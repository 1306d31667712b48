"""What classifiers share: classes, their weights, margins and predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dpfast._arrays import check_alike, check_labels
from dpfast._typing import Matrix, Vector
from dpfast.curator import Curator
from dpfast.estimators._base import PrivateLinearModel
from dpfast.estimators._classes import (
    balanced,
    budget_left,
    check_class_weight,
    declared,
    heaviest,
    learned_shares,
    planned_count,
)
from dpfast.estimators._targets import Signs, Targets
from dpfast.privacy import Budget, Event, Ledger
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape
from dpfast.solvers import Plan
from dpfast.sums import RowSums, single_rows


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear classifiers: two classes by one problem, more by one against the rest.

    Parameters
    ----------
    alpha : float, str or None, default="auto"
        Ridge of the mean loss, as in scikit-learn's SGDClassifier (``C = 1 / (alpha * n_samples)``
        there). "auto" or None lets the solver choose it from public quantities; some solvers
        accept the names of other rules.
    classes : array-like of shape (n_classes,) or None, default=None
        The public class labels in any order. As in scikit-learn, ``classes_`` is sorted, and the
        last of two is the positive one. None takes them from `y` with a
        :class:`~dpfast.errors.PrivacyLeakWarning`.
    objective : {"erm", "tilted", "adversarial"}, default="erm"
        What the fit minimizes: the mean loss, a tilted mean that weights large losses more, or the
        mean loss under the worst perturbation of every row. "output-perturbation" supports all.
    objective_options : dict or None, default=None
        ``tilt`` (tilted); ``radius``, ``norm``, ``smoothing`` (adversarial). See
        :func:`dpfast.objectives.objective_shape`.
    class_weight : dict, "balanced" or None, default=None
        Public weights by class, ``{class: weight}``; missing classes have weight 1. The noise is
        proportional to the largest weight. "balanced" makes all classes count the same, with a
        largest weight of 1, by a private count of the classes that costs a twentieth of the budget.
        If the shares p_k of K classes are public, pass ``1 / (K p_k)`` instead. For rare classes,
        weights cost more accuracy than they gain; see the guide to rare events.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private weights: one row for two classes, otherwise one for each class.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Private intercepts; 0 without `fit_intercept`.
    classes_ : ndarray of shape (n_classes,)
    class_shares_ : ndarray of shape (n_classes,)
        Private shares of the classes; only if the fit counted them.
    """

    _solver_parameters = ("alpha", "optimizer", "objective", "objective_options")
    _takes_labels = True

    classes: ArrayLike | None = None
    objective: str = "erm"
    objective_options: Mapping[str, Any] | None = None
    class_weight: Mapping[Any, float] | str | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise for a few dozen rows drowns the signal: generic accuracy checks do not apply.
        tags.classifier_tags.poor_score = True
        return tags

    def _checked_y(self, y: NDArray[Any]) -> NDArray[Any]:
        check_labels("y", y)
        return y

    def _parts(self) -> int:
        """One problem for two classes, one a class for more; they must be declared."""
        return len(self._resolve_targets(None)[0])

    def _resolve_targets(
        self, y: NDArray[Any] | None
    ) -> tuple[tuple[Targets, ...], tuple[str, ...]]:
        loss = self._loss()
        classes, notes = self._resolve_classes(y)
        declared(check_class_weight(self.class_weight), classes)
        positives = classes if len(classes) > 2 else classes[-1:]
        if len(positives) > 1:
            loss = loss.fixed()
        return tuple(Signs(loss, classes, positive) for positive in positives), notes

    def _counts_classes(self) -> bool:
        return isinstance(self.class_weight, str)

    def _planned(
        self, shape: ProblemShape, budget: Budget, parts: int | None = None
    ) -> tuple[Plan[Any], tuple[Event, ...]]:
        parts = self._parts() if parts is None else parts
        weights = check_class_weight(self.class_weight)
        counts, n_classes = self._counts_classes(), max(2, parts)
        if parts > 1:
            # A hinge of a class with less than half of the rows is least at a constant: a wide
            # corner orders such classes, a narrow one does not.
            shape = replace(shape, loss=shape.loss.fixed())
        if shape.blocks is not None and (weights or counts):
            raise ValueError(
                "class_weight must be None, and threshold a number, for rows in blocks; got "
                f"{self.class_weight!r}. Give the source weights of its rows instead."
            )
        if shape.unit == "group" and counts:
            raise ValueError(
                "class_weight and threshold must not be 'balanced' with groups: the count of the "
                "classes, which that takes, promises privacy for one row of a group only. Declare "
                "the weight of each class, or the threshold."
            )
        shape = shape.weighted_by(heaviest(weights, n_classes))
        if not counts:
            return self._planned_parts(shape, budget, parts)
        plan, events = self._planned_parts(shape, budget_left(budget), parts)
        return plan, (*planned_count(plan, n_classes, budget).events(), *events)

    def _learned(
        self,
        plan: Plan[Any],
        budget: Budget,
        stored: NDArray[Any] | None,
        targets: Targets,
        begun: tuple[Ledger, SecureGenerator],
    ) -> dict[str, Any]:
        assert stored is not None and isinstance(targets, Signs)
        access = planned_count(plan, len(targets.classes), budget)
        positions = np.searchsorted(targets.classes, stored)
        return {"class_shares_": learned_shares(Curator(positions, *begun), access)}

    def _weighed(
        self,
        problem: RowSums,
        stored: NDArray[Any] | None,
        targets: Targets,
        learned: Mapping[str, Any],
    ) -> RowSums:
        if self.class_weight is None:
            return problem
        assert stored is not None and isinstance(targets, Signs)
        weights = check_class_weight(self.class_weight)
        values = declared(weights, targets.classes)
        if self.class_weight == "balanced":
            values = balanced(learned["class_shares_"])
        factors = values[np.searchsorted(targets.classes, stored)]
        most = heaviest(weights, len(values))
        return single_rows(problem, "weights of classes").weighted_by(factors, most)

    def _resolve_classes(self, y: NDArray[Any] | None) -> tuple[NDArray[Any], tuple[str, ...]]:
        """The classes, sorted, and notes for the report."""
        if self.classes is not None:
            try:
                classes = np.asarray(self.classes)
                different, missing = np.unique(classes), bool(np.any(classes != classes))
            except (TypeError, ValueError):  # lists of several lengths; labels without an order
                classes, different, missing = np.empty((0, 0)), np.empty(0), True
            if classes.ndim != 1 or len(different) < max(2, len(classes)) or missing:
                raise ValueError(
                    "classes must hold two different labels, or more of them, in a list, and no "
                    f"missing one; got {self.classes!r}."
                )
            return np.sort(classes), ()
        notes = self._inferred(
            y,
            "classes",
            "were not given, so the class labels are taken from y.",
            "classes=[...], all labels that there may be. (As in scikit-learn they are sorted, and "
            "of two the last is the positive one.)",
            "the class labels were taken from y",
        )
        assert y is not None
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(
                "y must hold two classes; got 1 class. If the other class is merely absent from "
                "these rows, pass classes=[...], all labels that there may be."
            )
        return classes, notes

    def _fitted(
        self, plan: Plan[Any], targets: Targets, coef: Matrix, intercept: Vector
    ) -> dict[str, Any]:
        assert isinstance(targets, Signs)
        return {"classes_": targets.classes, "coef_": coef, "intercept_": intercept}

    def decision_function(self, X: ArrayLike) -> Vector:
        """Margins ``<x, coef_> + intercept_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or blocks of rows

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_classes) for more than two classes
            Positive favors ``classes_[1]``; of more classes, the largest wins.
        """
        check_is_fitted(self)
        two = len(self.classes_) == 2
        coef, intercept = (
            (self.coef_[0], self.intercept_[0]) if two else (self.coef_.T, self.intercept_)
        )
        margins: Vector = self._affine(X, coef, intercept)
        return margins

    def _least_margin(self) -> float:
        """From which on a row counts as the second of two classes."""
        return 0.0

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Most probable class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or blocks of rows

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        margins = self.decision_function(X)
        least = self._least_margin()
        index = (margins > least).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[index]
        return labels

    score = PrivateLinearModel.score  # and not the mixin's

    def _scored(self, found: NDArray[Any], predicted: NDArray[Any], weight: Vector | None) -> float:
        check_alike("y", found, self.classes_)
        return float(np.average(found == predicted, weights=weight))
