"""What the estimators share: parameters, the problem's settings, and one private solve."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpfast._validation import check_flag, check_real
from dpfast.blocks import Block, BlockProblem, Executor, from_dask, is_dask
from dpfast.errors import PrivacyLeakWarning
from dpfast.estimators._intervals import CoefficientInterval, WeightNoise, check_level
from dpfast.estimators._one_vs_rest import planned, solve_each
from dpfast.losses import Loss
from dpfast.privacy import Budget, Event
from dpfast.privacy.open_accounts import Charged
from dpfast.problem import Problem
from dpfast.shape import ProblemShape
from dpfast.solvers import Plan, Result, solve

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
# Layouts and float32 are left as they are: the problem reads them block by block.
_READ: Mapping[str, Any] = {"dtype": [np.float64, np.float32], "accept_sparse": "csr"}


class FitParameters(TypedDict, total=False):
    """What `fit` takes by keyword."""

    sample_weight: ArrayLike | None
    checkpoint: str | os.PathLike[str] | None


_UNASKED = {"optimizer": "auto", "objective": "erm", "objective_options": None}


class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """A linear model whose weights a private solver finds; parameters as in the subclasses.

    `sample_weight` is no named argument of `fit`: to scikit-learn's checks that name promises that
    a weight of 2 gives the very model that repeating the row does. No private fit can keep that,
    for its noise depends on the number of rows, which is public. It is declared for metadata
    routing here, and :meth:`fit` takes it by keyword.
    """

    __metadata_request__fit: ClassVar[dict[str, None]] = {"sample_weight": None}

    # Parameters of the estimator that go to the solver by their own names.
    _solver_parameters: tuple[str, ...] = ("alpha", "optimizer")

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
        solver_options: Mapping[str, Any] | None = None,
        optimizer: str = "auto",
        accountant: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        strict: bool = False,
        max_weight: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.solver = solver
        self.alpha = alpha
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.neighboring_relation = neighboring_relation
        self.solver_options = solver_options
        self.optimizer = optimizer
        self.accountant = accountant
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.strict = strict
        self.max_weight = max_weight

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        return tags

    def _loss(self) -> Loss:
        """The loss of the margin, parameters checked."""
        raise NotImplementedError

    def _constant(self) -> float:
        if not self.fit_intercept:
            return 0.0
        return check_real(
            "intercept_scaling", self.intercept_scaling, low=0.0, low_open=True, high=1e100
        )

    def _options(self) -> dict[str, Any]:
        options = _named("solver_options", self.solver_options)
        own = self._solver_parameters
        if not options.keys().isdisjoint(own):
            raise ValueError(
                f"solver_options must not hold {' or '.join(map(repr, own))}, which are parameters "
                f"of the estimator; got {sorted(options)}."
            )
        # Not every solver knows each of them: only what was asked for is passed on.
        given = {name: getattr(self, name) for name in own}
        _named("objective_options", given.get("objective_options"))
        for name, unasked in _UNASKED.items():
            if given.get(name, unasked) == unasked:
                given.pop(name, None)
        return {**given, **options}

    def _row_weights(self, fit_params: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments of the Problem that say how much each row counts."""
        unknown = sorted(set(fit_params) - {"sample_weight", "checkpoint"})
        if unknown:
            raise TypeError(
                "fit must get no keyword arguments but sample_weight; got "
                f"{', '.join(unknown)}. (Rows in blocks can have a checkpoint, too.)"
            )
        if fit_params.get("checkpoint") is not None:
            raise ValueError(
                f"checkpoint must be None for rows in memory; got {fit_params['checkpoint']!r}. "
                "Rows in blocks (dpfast.blocks) can have one."
            )
        bound = self.max_weight
        if bound is not None:
            bound = check_real("max_weight", bound, low=1e-100, high=1e100)
        weight = fit_params.get("sample_weight")
        if weight is None:
            return {}
        if bound is None:
            raise ValueError(
                "max_weight must be given with sample_weight; got None. The weights are as private "
                "as the rows, and noise is in proportion to the largest: declare it, known without "
                "looking at the data (larger weights are lowered to it)."
            )
        return {"sample_weight": weight, "max_weight": bound}

    def _from_dask(self, X: Any, y: Any, fit_params: Mapping[str, Any]) -> Executor:
        """The source that dask collections make, once what is public about them is checked."""
        if y is None:
            raise ValueError("y must be given with X; got None.")
        if self.data_norm is None:
            raise ValueError(
                "data_norm must be given for rows in dask collections; got None. It is a public "
                "bound of the rows' norms (longer rows are scaled down)."
            )
        return from_dask(X, y, self._row_weights(fit_params).get("sample_weight"))

    def _over_blocks(
        self,
        source: Executor,
        y: Any,
        fit_params: Mapping[str, Any],
        loss: Loss,
        target: Callable[[NDArray[Any]], Vector],
    ) -> BlockProblem:
        """The problem over the blocks of `source`; nothing is read."""
        if y is not None or self._row_weights({**fit_params, "checkpoint": None}):
            raise ValueError(
                "y and sample_weight must be left out for rows in blocks, whose source has them; "
                f"got y of type {type(y).__name__} and {sorted(fit_params)}."
            )
        problem = BlockProblem(
            source,
            loss,
            data_norm=self.data_norm,
            intercept=self._constant(),
            max_weight=self.max_weight,
            target=target,
            n_jobs=self.n_jobs,
        )
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_ = np.array(source.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return problem

    def _settings(self) -> dict[str, Any]:
        """Keyword arguments of :func:`dpfast.plan`."""
        return {
            "neighboring_relation": self.neighboring_relation,
            "accountant": self.accountant,
            **self._options(),
        }

    def _planned(
        self, shape: ProblemShape, budget: Budget, parts: int | None = None
    ) -> tuple[Plan[Any], tuple[Event, ...]]:
        """Plan of a fit to rows of this shape, and the accesses of all its problems."""
        parts = self._parts() if parts is None else parts
        return planned(shape, parts, self.solver, budget, **self._settings())

    def _parts(self) -> int:
        """Problems of a fit."""
        return 1

    @property
    def _together(self) -> str:
        """How several classes are learned, for the printed plan."""
        return "one against the rest, each"

    def _solve(self, problem: Problem, budget: Budget, how: Mapping[str, Any]) -> Result:
        """Fit one problem; `how` holds notes, checkpoint and accounts."""
        with self._shown(problem, budget):
            return solve(
                problem,
                self.solver,
                budget,
                random_state=self.random_state,
                **how,
                **self._settings(),
            )

    def _set_fitted(self, **attributes: Any) -> None:
        """Set what a fit gives, all at once.

        A fit that is interrupted leaves the model before it whole: never its report with new
        weights, which may promise more than they keep.
        """
        self.__dict__.update(attributes)

    @contextmanager
    def _shown(self, problem: Problem, budget: Budget, parts: int = 1) -> Iterator[None]:
        """Print the plan before anything is spent, and progress over blocks, if asked for."""
        if not self.verbose:
            yield
            return
        from dpfast.estimators._progress import planned_passes, shown  # rich takes long to import

        settled, _ = self._planned(problem.shape, budget, parts)
        print(settled if parts == 1 else f"{parts} classes, {self._together}:\n{settled}")
        if not isinstance(problem, BlockProblem):
            yield
            return
        with shown(problem.source, planned_passes(settled) if parts == 1 else None):
            yield

    def confidence_interval(self, confidence_level: float = 0.95) -> CoefficientInterval:
        """Intervals for the coefficients that cover **the privacy noise, and nothing else**.

        Each holds what its coefficient would be without noise, fitted to the same rows with the
        same ridge, with this probability over the noise. How a coefficient varies from one sample
        of rows to another is not covered, nor is what ridge and clipping shift.

        Post-processing: computed from the released coefficients and the public law of the noise.
        For output perturbation that law is the interval's; for objective perturbation the noise is
        drawn many times (a parametric bootstrap of the noise alone), and since how far it moves
        the coefficients depends on curvature that only the data know, the widest case is taken.

        Parameters
        ----------
        confidence_level : float, default=0.95
            For each coefficient by itself; in (0, 0.9999].

        Returns
        -------
        CoefficientInterval
            With `low` and `high`, `intercept_low` and `intercept_high`, and `covers` in words.

        Raises
        ------
        ValueError
            If the model was not fitted by "output-perturbation" (with its certificate) or
            "objective-perturbation": what noise in every step does to the coefficients has no law
            that is known without the data.
        """
        check_is_fitted(self)
        level = check_level(confidence_level)
        noise: WeightNoise | None = getattr(self, "_noise", None)
        if noise is None:
            raise ValueError(
                "solver must be 'output-perturbation' (with mode='certificate') or "
                f"'objective-perturbation' for confidence intervals; got solver={self.solver!r}, "
                "whose noise reaches the coefficients in ways that depend on the data. "
                "Fit again with one of them."
            )
        unit, constant, center = self._unit, self._constant_column, self._center
        coef = np.atleast_2d(self.coef_) / unit
        rows = coef
        if constant != 0.0:
            intercept = (np.atleast_1d(self.intercept_) - center) / (unit * constant)
            rows = np.column_stack([coef, intercept])
        ends = np.stack([np.stack(noise.interval(w, level)) for w in rows], axis=1)
        d = coef.shape[1]
        low, high = (end.reshape(np.shape(self.coef_)) * unit for end in ends[:, :, :d])
        if constant != 0.0:
            below, above = (end[:, d] * unit * constant + center for end in ends)
        else:
            below, above = np.zeros(len(rows)), np.zeros(len(rows))
        if np.ndim(self.intercept_) == 0:
            return CoefficientInterval(low, high, float(below[0]), float(above[0]), level)
        return CoefficientInterval(low, high, below, above, level)

    def _affine(self, X: Any, coef: NDArray[np.float64], intercept: Any) -> Any:
        """``X @ coef + intercept`` of the rows to predict for."""
        check_is_fitted(self)
        if is_dask(X):
            X = from_dask(X)
        if not isinstance(X, Executor):
            return validate_data(self, X, reset=False, **_READ) @ coef + intercept
        if X.n_features != self.n_features_in_:
            raise ValueError(
                f"X must have {self.n_features_in_} features, as in fit; got {X.n_features}."
            )
        return np.concatenate(list(X.map(partial(_on_rows, coef=coef, intercept=intercept))))


class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear classifiers: two classes by one problem, more by one against the rest."""

    _solver_parameters = ("alpha", "optimizer", "objective", "objective_options")

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
        optimizer: str = "auto",
        accountant: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        strict: bool = False,
        max_weight: float | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            solver=solver,
            alpha=alpha,
            data_norm=data_norm,
            fit_intercept=fit_intercept,
            intercept_scaling=intercept_scaling,
            neighboring_relation=neighboring_relation,
            solver_options=solver_options,
            optimizer=optimizer,
            accountant=accountant,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            strict=strict,
            max_weight=max_weight,
        )
        self.classes = classes
        self.objective = objective
        self.objective_options = objective_options

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise for a few dozen rows drowns the signal: generic accuracy checks do not apply.
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: ArrayLike | None = None, **fit_params: Unpack[FitParameters]) -> Self:
        """Fit the model privately; the budget is spent when this returns or fails after planning.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or blocks of rows
            Dense float64 and float32 rows and CSR are read in place.  Rows that do not fit in
            memory come in blocks that hold their labels and weights, see :mod:`dpfast.blocks`, or
            in dask collections, like `y` and the weights then;
            `data_norm` and `classes` must then be given, and multinomial loss is not available.
        y : array-like of shape (n_samples,)
            Left out for blocks.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts, >= 0; needs `max_weight`. Private like the rows. The mean is
            over the number of rows, not over the sum of the weights, which is private.
        checkpoint : path-like, optional
            For blocks: file from which the fit goes on if it was interrupted, see
            :func:`dpfast.solve`.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If a parameter or the data are not as documented; nothing is spent.  What is wrong with
            rows in blocks is found when they are read, with what was paid by then spent.
        dpfast.errors.CertificateNotReached
            If the inner optimizer could not prove its accuracy; nothing is released.
        """
        return self._fit(X, y, fit_params)

    def _fit(
        self,
        X: Any,
        y: ArrayLike | None,
        fit_params: Mapping[str, Any],
        accounts: Sequence[Charged] | None = None,
    ) -> Self:
        """Fit, charging `accounts`; None: those whose blocks surround the call."""
        budget = Budget(self.epsilon, self.delta)
        for name in ("fit_intercept", "strict"):
            _check_switch(name, getattr(self, name))
        loss = self._loss()
        if is_dask(X, y):
            X, y, fit_params = self._from_dask(X, y, fit_params), None, {}
        if isinstance(X, Executor):
            return self._fit_blocks(X, y, fit_params, loss, budget, accounts)
        counted = self._row_weights(fit_params)
        rows, labels = validate_data(self, X, y, **_READ)
        check_classification_targets(labels)
        classes, notes = self._resolve_classes(labels)
        problem = Problem(
            rows,
            _signs(labels, classes[-1]),
            loss,
            data_norm=self.data_norm,
            intercept=self._constant(),
            n_jobs=self.n_jobs,
            strict=self.strict,
            **counted,
        )
        how = {"notes": notes, "accounts": accounts}
        if len(classes) == 2:
            return self._keep(self._solve(problem, budget, how), classes)
        return self._keep(self._solve_classes(problem, labels, classes, budget, how), classes)

    def _fit_blocks(
        self,
        source: Executor,
        y: Any,
        fit_params: Mapping[str, Any],
        loss: Loss,
        budget: Budget,
        accounts: Sequence[Charged] | None,
    ) -> Self:
        if self.classes is None:
            raise ValueError(
                "classes must be given for rows in blocks; got None. The labels are not looked at "
                "before the fit pays for it."
            )
        classes, notes = self._resolve_classes(None)
        targets = [partial(_checked_signs, classes=classes, positive=label) for label in classes]
        problem = self._over_blocks(source, y, fit_params, loss, targets[-1])
        how = {"notes": notes, "accounts": accounts, "checkpoint": fit_params.get("checkpoint")}
        if len(classes) == 2:
            return self._keep(self._solve(problem, budget, how), classes)
        return self._keep(self._solve_targets(problem, targets, budget, how), classes)

    def _keep(self, found: Result, classes: NDArray[Any]) -> Self:
        """Set what `fit` learned."""
        d, constant = self.n_features_in_, self._constant()
        weights = np.atleast_2d(found.w)
        self._set_fitted(
            classes_=classes,
            coef_=weights[:, :d].copy(),
            intercept_=weights[:, d] * constant if constant else np.zeros(len(weights)),
            privacy_=found.privacy,
            _noise=WeightNoise.of(found.plan),
            _unit=1.0,
            _constant_column=constant,
            _center=0.0,
        )
        return self

    def _solve_classes(
        self,
        problem: Problem,
        labels: NDArray[Any],
        classes: NDArray[Any],
        budget: Budget,
        how: Mapping[str, Any],
    ) -> Result:
        """Fit more than two classes, one against the rest."""
        targets = [partial(_signs, labels, label) for label in classes]
        return self._solve_targets(problem, targets, budget, how)

    def _solve_targets(
        self,
        problem: Problem,
        targets: Sequence[Callable[..., Vector]],
        budget: Budget,
        how: Mapping[str, Any],
    ) -> Result:
        """Fit one problem for each vector of targets, within one budget."""
        with self._shown(problem, budget, len(targets)):
            return solve_each(
                problem,
                targets,
                self.solver,
                budget,
                random_state=self.random_state,
                **how,
                **self._settings(),
            )

    def _parts(self) -> int:
        """One problem for two classes, one a class for more; they must be declared."""
        classes = self._resolve_classes(None)[0]
        return 1 if len(classes) == 2 else len(classes)

    def _resolve_classes(self, y: NDArray[Any] | None) -> tuple[NDArray[Any], tuple[str, ...]]:
        """The classes, sorted, and notes for the report; without `y`, they must be declared."""
        if self.classes is not None:
            try:
                classes = np.asarray(self.classes)
            except ValueError:  # lists of several lengths
                classes = np.empty((0, 0))
            if classes.ndim != 1 or len(classes) < 2 or len(np.unique(classes)) < len(classes):
                raise ValueError(
                    "classes must hold two different labels, or more of them; "
                    f"got {self.classes!r}."
                )
            if y is not None:
                _check_labels(y, classes)
            return np.sort(classes), ()
        message = (
            "classes were not given, so the class labels are taken from y. The privacy guarantee "
            "does not cover that: pass classes=[negative, positive]."
        )
        if self.strict:
            raise ValueError(f"classes must be given when strict=True; got None. {message}")
        assert y is not None
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(
                "y must hold two classes; got 1 class. If the other class is merely absent from "
                "these rows, pass classes=[negative, positive]."
            )
        warnings.warn(message, PrivacyLeakWarning, stacklevel=3)
        return classes, ("the class labels were taken from y",)

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
        index = (margins > 0.0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[index]
        return labels


class PrivateLinearRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear regressors: targets are brought to [-1, 1] by public bounds, and back."""

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
        target_bounds: tuple[float, float] | None = None,
        solver_options: Mapping[str, Any] | None = None,
        optimizer: str = "auto",
        accountant: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        strict: bool = False,
        max_weight: float | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            solver=solver,
            alpha=alpha,
            data_norm=data_norm,
            fit_intercept=fit_intercept,
            intercept_scaling=intercept_scaling,
            neighboring_relation=neighboring_relation,
            solver_options=solver_options,
            optimizer=optimizer,
            accountant=accountant,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            strict=strict,
            max_weight=max_weight,
        )
        self.target_bounds = target_bounds

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise for a few dozen rows drowns the signal: generic accuracy checks do not apply.
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: ArrayLike | None = None, **fit_params: Unpack[FitParameters]) -> Self:
        """Fit the model privately; the budget is spent when this returns or fails after planning.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or blocks of rows
            Dense float64 and float32 rows and CSR are read in place.  Rows that do not fit in
            memory come in blocks that hold their targets and weights, see :mod:`dpfast.blocks`, or
            in dask collections, like `y` and the weights then;
            `data_norm` and `target_bounds` must then be given.
        y : array-like of shape (n_samples,)
            Clipped to `target_bounds`; left out for blocks.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts, >= 0; needs `max_weight`. Private like the rows. The mean is
            over the number of rows, not over the sum of the weights, which is private.
        checkpoint : path-like, optional
            For blocks: file from which the fit goes on if it was interrupted, see
            :func:`dpfast.solve`.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If a parameter or the data are not as documented; nothing is spent.  What is wrong with
            rows in blocks is found when they are read, with what was paid by then spent.
        dpfast.errors.CertificateNotReached
            If the inner optimizer could not prove its accuracy; nothing is released.
        """
        return self._fit(X, y, fit_params)

    def _fit(
        self,
        X: Any,
        y: ArrayLike | None,
        fit_params: Mapping[str, Any],
        accounts: Sequence[Charged] | None = None,
    ) -> Self:
        """Fit, charging `accounts`; None: those whose blocks surround the call."""
        budget = Budget(self.epsilon, self.delta)
        for name in ("fit_intercept", "strict"):
            _check_switch(name, getattr(self, name))
        loss = self._loss()
        if is_dask(X, y):
            X, y, fit_params = self._from_dask(X, y, fit_params), None, {}
        if isinstance(X, Executor):
            return self._fit_blocks(X, y, fit_params, loss, budget, accounts)
        counted = self._row_weights(fit_params)
        rows, target = validate_data(self, X, y, y_numeric=True, **_READ)
        target = np.asarray(target, dtype=np.float64)
        center, half, notes = self._resolve_bounds(target)
        problem = Problem(
            rows,
            _scaled(target, center, half),
            loss,
            data_norm=self.data_norm,
            intercept=self._constant(),
            n_jobs=self.n_jobs,
            strict=self.strict,
            **counted,
        )
        how = {"notes": notes, "accounts": accounts}
        return self._keep(self._solve(problem, budget, how), center, half)

    def _fit_blocks(
        self,
        source: Executor,
        y: Any,
        fit_params: Mapping[str, Any],
        loss: Loss,
        budget: Budget,
        accounts: Sequence[Charged] | None,
    ) -> Self:
        if self.target_bounds is None:
            raise ValueError(
                "target_bounds must be given for rows in blocks; got None. The targets are not "
                "looked at before the fit pays for it."
            )
        center, half, notes = self._resolve_bounds(None)
        target = partial(_scaled, center=center, half=half)
        problem = self._over_blocks(source, y, fit_params, loss, target)
        how = {"notes": notes, "accounts": accounts, "checkpoint": fit_params.get("checkpoint")}
        return self._keep(self._solve(problem, budget, how), center, half)

    def _keep(self, found: Result, center: float, half: float) -> Self:
        """Set what `fit` learned."""
        w, d, constant = found.w, self.n_features_in_, self._constant()
        self._set_fitted(
            coef_=w[:d] * half,
            intercept_=float(w[d] * constant * half + center) if constant else 0.0,
            privacy_=found.privacy,
            _noise=WeightNoise.of(found.plan),
            _unit=half,
            _constant_column=constant,
            _center=center,
        )
        return self

    def _resolve_bounds(self, y: Vector | None) -> tuple[float, float, tuple[str, ...]]:
        """What is taken off the targets, and what they are divided by."""
        notes: tuple[str, ...] = ()
        if self.target_bounds is None:
            message = (
                "target_bounds were not given, so the range of the targets is taken from y. The "
                "privacy guarantee does not cover that: pass target_bounds=(lowest, highest), "
                "known without looking at the data (what is beyond is clipped)."
            )
            if self.strict:
                raise ValueError(
                    f"target_bounds must be given when strict=True; got None. {message}"
                )
            warnings.warn(message, PrivacyLeakWarning, stacklevel=3)
            assert y is not None
            low, high = float(y.min()), float(y.max())
            notes = ("target_bounds were taken from the data",)
        else:
            low, high = _pair(self.target_bounds)
        if not self.fit_intercept:
            # Without an intercept nothing could add the center back.
            return 0.0, max(abs(low), abs(high)) or 1.0, notes
        return 0.5 * low + 0.5 * high, (0.5 * high - 0.5 * low) or 1.0, notes

    def predict(self, X: ArrayLike) -> Vector:
        """Predicted target of each row, ``<x, coef_> + intercept_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or blocks of rows

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        prediction: Vector = self._affine(X, self.coef_, self.intercept_)
        return prediction


def _check_switch(name: str, value: Any) -> None:
    """A flag that may come out of a grid of NumPy's."""
    check_flag(name, bool(value) if isinstance(value, np.bool_) else value)


def _named(name: str, options: Any) -> dict[str, Any]:
    """Options by name, from a mapping or None."""
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise TypeError(f"{name} must be None or a dict of options by name; got {options!r}.")
    return dict(options)


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
        raise ValueError(f"target_bounds must hold the lower number first; got {bounds!r}.")
    return low, high


def _signs(y: NDArray[Any], positive: Any) -> Vector:
    """+1 where `y` is the class `positive`, -1 elsewhere."""
    return np.where(y == positive, 1.0, -1.0)


def _checked_signs(y: NDArray[Any], *, classes: NDArray[Any], positive: Any) -> Vector:
    """:func:`_signs` of the labels of a block."""
    _check_labels(y, classes)
    return _signs(y, positive)


def _check_labels(y: NDArray[Any], classes: NDArray[Any]) -> None:
    """Refuse labels that were not declared, without quoting them: they are private."""
    if not np.all(np.isin(y, classes)):
        raise ValueError(
            f"y must hold only the declared classes {classes.tolist()}; it has at least one other "
            "label."
        )


def _scaled(y: NDArray[Any], center: float, half: float) -> Vector:
    """Targets brought to [-1, 1]."""
    scaled: Vector = np.clip((np.asarray(y, dtype=np.float64) - center) / half, -1.0, 1.0)
    return scaled


def _on_rows(block: Block, coef: NDArray[np.float64], intercept: Any) -> Any:
    """``X @ coef + intercept`` of one block."""
    return block.X @ coef + intercept
