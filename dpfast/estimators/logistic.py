"""Differentially private logistic regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, log_softmax, logit, softmax
from sklearn.utils.validation import check_is_fitted

from dpfast._documented import documented
from dpfast._typing import Vector
from dpfast._validation import check_choice, check_real, warn
from dpfast.errors import QuestionableSettingWarning
from dpfast.estimators._classifier import PrivateLinearClassifier
from dpfast.estimators._inference import Inferential
from dpfast.estimators._one_vs_rest import BY_SQUARES
from dpfast.estimators._targets import Signs, Targets
from dpfast.losses import Loss
from dpfast.privacy import Budget, Event
from dpfast.shape import ProblemShape
from dpfast.solvers import SOLVERS, Plan, served
from dpfast.solvers.multinomial import is_multinomial, plan_multinomial
from dpfast.sums import RowSums, single_rows

# The solver that takes several classes at once.
_MULTINOMIAL = "dp-whitened-gd"


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class LogisticRegression(Inferential, PrivateLinearClassifier):
    """Logistic regression with an (ε, δ)-differential-privacy guarantee.

    Minimizes ``(1/n) Σ log(1 + exp(-y_i <x̃_i, w>)) + (α/2)‖w‖²`` privately, where ``y_i`` is -1 or
    1 and ``x̃_i`` is row i scaled into the ball of radius `data_norm`, followed by the constant
    `intercept_scaling`. More than two classes share the budget, see `multi_class`.

    Parameters
    ----------
    multi_class : {"auto", "multinomial", "ovr"}, default="auto"
        How to learn more than two classes. "multinomial" learns all at once by the multinomial
        loss, with ``solver="dp-whitened-gd"`` (or "auto"), and needs less noise; "ovr" learns one
        against the rest, with any solver. "auto" is multinomial if its solver supports the budget
        and the other parameters.
    threshold : float or "balanced", default=0.5
        Probability from which :meth:`predict` returns the second of two classes. "balanced" is the
        share of that class, from a private count of the classes that costs a twentieth of the
        budget. If the probabilities are right, it maximizes the mean of the two recalls.
    least_probability : float or "auto", default="auto"
        Added to each probability before these are divided by their sum, so that no class is said
        to be impossible. "auto" is ``1 / (n_samples * min(1, epsilon))``: smaller shares of the
        rows hide in the noise. 0 leaves the probabilities of the margins.

    Attributes
    ----------
    least_probability_ : float

    Notes
    -----
    With ``multi_class="ovr"``, each row is in the problem of every class, so the privacy losses add
    up. With Gaussian noise, each of k problems gets ``1/√k`` of the budget in units of µ (about
    ``√k`` times the noise of a binary fit); with a pure budget, ``ε/k``. The multinomial loss takes
    one sequence of releases for all classes (:mod:`dpfast.solvers.multinomial`).

    Examples
    --------
    >>> from dpfast import LogisticRegression
    >>> from dpfast.datasets import load_randhie
    >>> X, y = load_randhie(return_X_y=True)
    >>> model = LogisticRegression(epsilon=1.0, delta=1e-6, data_norm=65.0, classes=[0, 1])
    >>> model.fit(X, y).privacy_.epsilon <= 1.0
    True
    """

    multi_class: str = "auto"
    threshold: float | str = 0.5
    least_probability: float | str = "auto"

    _ratio = "odds ratio"
    _usual = (("class_weight", None), ("threshold", 0.5))

    def _loss(self) -> Loss:
        self._check_threshold()
        if self.least_probability != "auto":
            check_real(
                "least_probability", self.least_probability, low=0.0, high=0.5, hint='Or "auto".'
            )
        check_choice("multi_class", self.multi_class, ("auto", "multinomial", "ovr"))
        if self.multi_class == "multinomial" and self.solver not in ("auto", _MULTINOMIAL):
            raise ValueError(
                f"solver must be 'auto' or {_MULTINOMIAL!r} with multi_class='multinomial'; "
                f"got {self.solver!r}. multi_class='ovr' takes other solvers."
            )
        return Loss("logistic")

    def _resolve_classes(self, y: NDArray[Any] | None) -> tuple[NDArray[Any], tuple[str, ...]]:
        classes, notes = super()._resolve_classes(y)
        given = [] if self.classes is None else np.asarray(self.classes).tolist()
        last = classes.tolist()[-1]
        if len(given) == 2 and given[1] != last and self.threshold not in (0.5, "balanced"):
            warn(
                f"threshold is for the probability of {last!r}, the last of the sorted classes, "
                f"and not of {given[1]!r}, the last of those given. For a threshold of that one, "
                f"take 1 minus it: {1.0 - float(self.threshold):.6g}.",
                QuestionableSettingWarning,
            )
        return classes, notes

    def _check_threshold(self) -> None:
        if not isinstance(self.threshold, str):
            check_real("threshold", self.threshold, low=1e-12, high=1.0, high_open=True)
            return
        check_choice("threshold", self.threshold, ("balanced",), hint="Or a number below 1.")
        if self.class_weight is not None:
            raise ValueError(
                "threshold must be a number with class_weight, which moves the probabilities "
                f"already; got {self.threshold!r} with class_weight={self.class_weight!r}."
            )

    def _counts_classes(self) -> bool:
        return super()._counts_classes() or isinstance(self.threshold, str)

    @property
    def threshold_(self) -> float:
        """Probability from which on a row counts as the second of two classes."""
        check_is_fitted(self)
        self._check_threshold()
        if isinstance(self.threshold, str):
            return float(self.class_shares_[1])
        return float(self.threshold)

    @property
    def least_probability_(self) -> float:
        """By how much probabilities are raised."""
        check_is_fitted(self)
        if isinstance(self.least_probability, str):
            return float(vars(self).get("_raised", 0.0))  # as files of earlier versions
        return float(self.least_probability)

    def _least_margin(self) -> float:
        raised = self.least_probability_
        return float(logit(np.clip(self.threshold_ * (1.0 + 2.0 * raised) - raised, 0.0, 1.0)))

    def _problems(
        self,
        plan: Plan[Any],
        problem: RowSums,
        targets: tuple[Targets, ...],
        stored: NDArray[Any] | None,
    ) -> list[Callable[[], RowSums]]:
        if not is_multinomial(plan):
            return super()._problems(plan, problem, targets, stored)
        assert stored is not None and isinstance(targets[0], Signs)
        labels = np.searchsorted(targets[0].classes, stored)
        rows = single_rows(problem, "the multinomial loss")
        return [lambda: rows.with_labels(labels)]

    def _fitted(
        self, plan: Plan[Any], targets: Targets, coef: NDArray[np.float64], intercept: Vector
    ) -> dict[str, Any]:
        fitted = super()._fitted(plan, targets, coef, intercept)
        raised = 1.0 / (plan.shape.n_samples * min(1.0, self.epsilon))
        return {**fitted, "_softmax": is_multinomial(plan), "_raised": raised}

    def _all_at_once(self, shape: ProblemShape, budget: Budget) -> bool:
        """Whether more than two classes are learned by the multinomial loss."""
        return self.multi_class == "multinomial" or (
            self.multi_class == "auto"
            and self.solver in ("auto", _MULTINOMIAL)
            and self.accountant in BY_SQUARES
            and served(SOLVERS[_MULTINOMIAL], shape, budget, self._options())
        )

    def _planned_parts(
        self, shape: ProblemShape, budget: Budget, parts: int
    ) -> tuple[Plan[Any], tuple[Event, ...]]:
        if parts > 1 and self.threshold != 0.5:
            raise ValueError(
                "threshold must be 0.5 for more than two classes, the most probable of which is "
                f"predicted; got {self.threshold!r}."
            )
        if parts > 1 and shape.blocks is not None and self.multi_class == "multinomial":
            raise ValueError(
                "multi_class must be 'ovr' or 'auto' for rows in blocks; got 'multinomial', which "
                "needs the labels of all rows at once."
            )
        alone = parts == 1 or self.prior is not None or shape.blocks is not None
        if alone or not self._all_at_once(shape, budget):
            return super()._planned_parts(shape, budget, parts)
        plan = plan_multinomial(shape, parts, budget, **self._settings())
        return plan, plan.events

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or blocks of rows

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            With more than two classes, the softmax of the margins if they were learned all at once;
            otherwise each class's probability against the rest, divided by their sum.
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            found = np.column_stack([expit(-margins), expit(margins)])
        elif self._softmax:
            found = np.asarray(softmax(margins, axis=1))
        else:
            # By logarithms: all of them may be too small for float64.
            found = np.exp(_normalized(margins))
        raised = self.least_probability_
        probabilities: NDArray[np.float64] = (found + raised) / (1.0 + found.shape[1] * raised)
        return probabilities

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or blocks of rows

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        if self.least_probability_ > 0.0:
            return np.log(self.predict_proba(X))
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return -np.column_stack([np.logaddexp(0.0, margins), np.logaddexp(0.0, -margins)])
        return np.asarray(log_softmax(margins, axis=1)) if self._softmax else _normalized(margins)


def _normalized(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of the classes' probabilities against the rest, divided by their sum."""
    log_odds = log_expit(margins)
    result: NDArray[np.float64] = log_odds - np.logaddexp.reduce(log_odds, axis=1, keepdims=True)
    return result
