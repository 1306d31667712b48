"""Differentially private logistic regression."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpfast._validation import check_real
from dpfast.errors import PrivacyLeakWarning
from dpfast.privacy import Budget
from dpfast.problem import Problem
from dpfast.solvers import plan, solve


class LogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Binary logistic regression with an (ε, δ)-differential-privacy guarantee.

    Minimizes ``(1/n) Σ log(1 + exp(-y_i <x̃_i, w>)) + (α/2)‖w‖²`` privately, where ``x̃_i`` is row i
    scaled into the ball of radius `data_norm`, followed by the constant `intercept_scaling`.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss ε > 0.
    delta : float, default=1e-6
        Probability δ in [0, 1) outside the ε bound; 0 asks for pure ε-differential privacy.
        Should be well below ``1 / n_samples``.
    solver : str, default="auto"
        Private algorithm; see :data:`dpfast.solvers.SOLVERS`.
    alpha : float or str, default="auto"
        Ridge of the mean loss, as in scikit-learn's SGDClassifier (``C = 1 / (alpha * n_samples)``
        there). "auto" lets the solver choose it from public quantities; a solver may know further
        rules by name.
    data_norm : float or None, default=None
        Public bound of the rows' Euclidean norms (intercept not counted); longer rows are scaled
        down. None takes it from the data with a :class:`~dpfast.errors.PrivacyLeakWarning`.
    fit_intercept : bool, default=True
    intercept_scaling : float, default=1.0
        Value of the constant column. The intercept is penalized like the other weights, and the
        constant counts in the row norm.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        What one person's influence means: her record replaced by any other, or absent.
    classes : array-like of shape (2,) or None, default=None
        The two class labels, public. None takes them from `y` with a
        :class:`~dpfast.errors.PrivacyLeakWarning`.
    objective : {"erm", "tilted", "adversarial"}, default="erm"
        What is minimized: the mean loss, a tilted mean that heeds the largest losses more, or the
        mean loss under the worst perturbation of every row. Solver "output-perturbation" knows all.
    objective_options : dict or None, default=None
        ``tilt`` (tilted); ``radius``, ``norm``, ``smoothing`` (adversarial). See
        :func:`dpfast.objectives.make_objective`.
    solver_options : dict or None, default=None
        Further options of the solver.
    optimizer : str or callable, default="auto"
        Non-private inner optimizer, for solvers that have one.
    accountant : str, default="auto"
        How privacy is added up; "auto" takes the smallest valid ε.
    random_state : None, int or NumPy generator, default=None
        None draws the noise from the operating system's randomness. Anything else makes the fit
        repeatable and the report says not to release it.
    n_jobs : int or None, default=None
        Threads; None means one, -1 all cores. The result does not depend on it.
    verbose : int, default=0
        1 prints the plan before anything is spent.
    strict : bool, default=False
        Raise an error instead of a :class:`~dpfast.errors.PrivacyLeakWarning`.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Private weights.
    intercept_ : ndarray of shape (1,)
        Private intercept; 0 without `fit_intercept`.
    classes_ : ndarray of shape (2,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if `X` had string column names.
    privacy_ : dpfast.privacy.PrivacyReport
        The guarantee and the ledger that supports it.

    Notes
    -----
    The number of rows and the shape of X are treated as public.

    Examples
    --------
    >>> from dpfast import LogisticRegression
    >>> from dpfast.datasets import load_randhie
    >>> X, y = load_randhie(return_X_y=True)
    >>> model = LogisticRegression(epsilon=1.0, delta=1e-6, data_norm=65.0, classes=[0, 1])
    >>> model.fit(X, y).privacy_.epsilon <= 1.0
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        solver: str = "auto",
        alpha: float | str = "auto",
        data_norm: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        neighboring_relation: str = "replace_one",
        classes: ArrayLike | None = None,
        objective: str = "erm",
        objective_options: Mapping[str, Any] | None = None,
        solver_options: Mapping[str, Any] | None = None,
        optimizer: Any = "auto",
        accountant: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        strict: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.solver = solver
        self.alpha = alpha
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.neighboring_relation = neighboring_relation
        self.classes = classes
        self.objective = objective
        self.objective_options = objective_options
        self.solver_options = solver_options
        self.optimizer = optimizer
        self.accountant = accountant
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.strict = strict

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        # Noise for a few dozen rows drowns the signal: generic accuracy checks do not apply.
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = self.random_state is None
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> LogisticRegression:
        """Fit the model privately; the budget is spent when this returns or fails after planning.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Dense float64 and float32 rows and CSR are read in place.
        y : array-like of shape (n_samples,)

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If a parameter or the data are not as documented; nothing is spent.
        dpfast.errors.CertificateNotReached
            If the inner optimizer could not prove its accuracy; nothing is released.
        """
        budget = Budget(self.epsilon, self.delta)
        # Layouts and float32 are left as they are: the problem reads them block by block.
        rows, labels = validate_data(
            self, X, y, dtype=[np.float64, np.float32], accept_sparse="csr"
        )
        check_classification_targets(labels)
        classes, notes = self._resolve_classes(labels)
        problem = Problem(
            rows,
            _signs(labels, classes),
            "logistic",
            data_norm=self.data_norm,
            intercept=self._constant(),
            n_jobs=self.n_jobs,
            strict=self.strict,
        )
        settings = {
            "neighboring_relation": self.neighboring_relation,
            "accountant": self.accountant,
            **self._options(),
        }
        if self.verbose:
            print(plan(problem, self.solver, budget, **settings))
        result = solve(
            problem, self.solver, budget, random_state=self.random_state, notes=notes, **settings
        )
        d = self.n_features_in_
        self.classes_ = classes
        self.coef_ = result.w[np.newaxis, :d].copy()
        self.intercept_ = result.w[d:] * self._constant() if self.fit_intercept else np.zeros(1)
        self.privacy_ = result.privacy
        return self

    def _constant(self) -> float:
        if not self.fit_intercept:
            return 0.0
        return check_real(
            "intercept_scaling", self.intercept_scaling, low=0.0, low_open=True, high=1e100
        )

    def _options(self) -> dict[str, Any]:
        options = dict(self.solver_options or {})
        own = ("alpha", "optimizer", "objective", "objective_options")
        if not options.keys().isdisjoint(own):
            raise ValueError(
                f"solver_options must not hold {', '.join(map(repr, own))}, which are parameters "
                f"of the estimator; got {sorted(options)}."
            )
        return {**{name: getattr(self, name) for name in own}, **options}

    def _resolve_classes(self, y: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
        if self.classes is not None:
            classes = np.asarray(self.classes)
            if classes.shape != (2,) or classes[0] == classes[1]:
                raise ValueError(
                    f"classes must hold two different labels; got {self.classes!r}. "
                    "Problems with more classes are not supported."
                )
            if not np.all(np.isin(y, classes)):
                raise ValueError(
                    f"y must hold only the declared classes {classes.tolist()}; "
                    "it has at least one other label."
                )
            return np.sort(classes), ()
        message = (
            "classes were not given, so the class labels are taken from y. The privacy guarantee "
            "does not cover that: pass classes=[negative, positive]."
        )
        if self.strict:
            raise ValueError(f"classes must be given when strict=True; got None. {message}")
        classes = np.unique(y)
        if len(classes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"y must hold two classes; got {len(classes)}."
            )
        if len(classes) < 2:
            raise ValueError(
                "y must hold two classes; got 1 class. If the other class is merely absent from "
                "these rows, pass classes=[negative, positive]."
            )
        warnings.warn(message, PrivacyLeakWarning, stacklevel=3)
        return classes, ("the class labels were taken from y",)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Margins ``<x, coef_> + intercept_``; positive favors ``classes_[1]``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], accept_sparse="csr", reset=False)
        margins: NDArray[np.float64] = X @ self.coef_[0] + self.intercept_[0]
        return margins

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Most probable class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        positive = self.decision_function(X) > 0.0
        labels: NDArray[Any] = self.classes_[positive.astype(np.intp)]
        return labels

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, 2)
        """
        margins = self.decision_function(X)
        return np.column_stack([expit(-margins), expit(margins)])

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, 2)
        """
        margins = self.decision_function(X)
        return -np.column_stack([np.logaddexp(0.0, margins), np.logaddexp(0.0, -margins)])


def _signs(y: NDArray[Any], classes: Sequence[Any] | NDArray[Any]) -> NDArray[np.float64]:
    """+1 where `y` is the second class, -1 elsewhere."""
    return np.where(y == classes[1], 1.0, -1.0)
