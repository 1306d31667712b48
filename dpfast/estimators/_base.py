"""What the estimators share: parameters, the problem's settings, and one private solve."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Never, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dpfast._arrays import fitted_or_as_before, validated, vector_in
from dpfast._typing import Matrix, Vector
from dpfast._validation import check_flag, check_real, warn
from dpfast.blocks import BlockProblem, Executor, from_dask, is_dask
from dpfast.chunks import thread_count
from dpfast.coded import CodedMatrix
from dpfast.column_blocks import ColumnBlock
from dpfast.errors import PrivacyLeakWarning, QuestionableSettingWarning, RepeatedFitWarning
from dpfast.estimators._estimator import Estimator
from dpfast.estimators._fit_parameters import (
    FitParameters,
    refuse_beside_blocks,
    refuse_limit,
    row_arguments,
)
from dpfast.estimators._intervals import CoefficientInterval, WeightNoise
from dpfast.estimators._margins import Cut, affine, affine_of_block, compared
from dpfast.estimators._messages import question_norm, question_regime
from dpfast.estimators._one_vs_rest import planned
from dpfast.estimators._prior import (
    CoefficientPrior,
    begins_with_prior,
    check_asked,
    described,
    notes_of,
    plan_with_prior,
    question_prior,
    what_is_known,
)
from dpfast.estimators._targets import Targets, units_of
from dpfast.inference.estimates import check_level
from dpfast.losses import Loss
from dpfast.privacy import Budget, Event, Ledger, PrivacyReport
from dpfast.privacy.budget import check_promise
from dpfast.privacy.open_accounts import Charged
from dpfast.privacy.repeats import FITS
from dpfast.problem import A_BOUND, Problem
from dpfast.random import SecureGenerator
from dpfast.rows import by_rows
from dpfast.shape import ProblemShape
from dpfast.solvers import Outcome, Plan, begin, fit_each
from dpfast.solvers.multinomial import is_multinomial
from dpfast.solvers.prior import known_rows
from dpfast.sums import RowSums

# Layouts and float32 are left as they are: the problem reads them block by block.
_READ: Mapping[str, Any] = {"dtype": [np.float64, np.float32], "accept_sparse": "csr"}


_UNASKED = {"optimizer": "auto", "objective": "erm", "objective_options": None}


@dataclass(eq=False, repr=False)
class PrivateLinearModel(Estimator):
    """A linear model whose weights a private solver finds.

    `sample_weight` is no named argument of `fit`: to scikit-learn's checks that name promises that
    a weight of 2 gives the very model that repeating the row does. No private fit can keep that,
    for its noise depends on the number of rows, which is public. It is declared for metadata
    routing here, and :meth:`fit` takes it by keyword.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss ε > 0.
    delta : float or None, default=1e-6
        Probability δ in [0, 1) with which the ε bound may fail, well below ``1 / n_samples``; 0 or
        None is pure ε-differential privacy.
    solver : str, default="auto"
        Private algorithm, a name in :data:`dpfast.solvers.SOLVERS`. "auto" chooses one from public
        quantities.
    data_norm : float or None, default=None
        Public bound of the rows' Euclidean norms, in the units of `X`, without the intercept.
        Longer rows are scaled down, in the fit and in predictions; scale them, too, where you apply
        `coef_` yourself. None takes it from the data with a
        :class:`~dpfast.errors.PrivacyLeakWarning`.
    fit_intercept : bool, default=True
    intercept_scaling : float, default=1.0
        Value of the constant column, which counts in the row norm. "dp-whitened-gd" and "dp-adassp"
        leave the intercept out of the ridge; other solvers shrink it like the weights.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets are neighbors: one record is replaced by any other, or is absent. The number
        of rows is public either way.
    solver_options : dict or None, default=None
        Further options of the solver; ``dpfast solvers NAME`` explains them.
    optimizer : str or callable, default="auto"
        Non-private inner optimizer (:mod:`dpfast.optimizers`), for solvers that have one.
    accountant : str, default="auto"
        How the costs of the accesses are added up; "auto" takes the smallest valid ε.
    random_state : None, int or NumPy generator, default=None
        None draws the noise from the operating system's randomness. Anything else makes the fit
        repeatable, and its report says not to release it.
    n_jobs : int or None, default=None
        Number of threads: None means one, -1 all cores. The result does not depend on it.
    verbose : int, default=0
        1 prints the plan before anything is spent and, for blocks on a terminal, the progress.
    strict : bool, default=False
        Raise an error instead of a :class:`~dpfast.errors.PrivacyLeakWarning`.
    max_weight : float or None, default=None
        Public bound of the weights, required if `fit` gets a `sample_weight`. Larger weights are
        lowered to it, and the noise is proportional to it.
    column_blocks : sequence of ColumnBlock or None, default=None
        How the columns were declared: :func:`dpfast.preprocessing.column_blocks` of what encoded
        them. The solver uses this public structure to reduce the effect of the noise. A wrong
        declaration costs accuracy, never privacy.
    max_rows_per_group : int or None, default=None
        Largest number of rows that the fit uses from one group, if `fit` gets `groups`; it picks
        them evenly from a larger group. Required by solvers that weigh rows by it.
    prior : tuple (X, y), CoefficientPrior, fitted model or None, default=None
        Public rows with their targets, in the form of the private ones; or coefficients with a
        covariance, such as those of an earlier dpfast model. The fit starts from them and spends no
        budget on them. See the guide to priors.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private weights.
    intercept_ : float
        Private intercept; 0.0 without `fit_intercept`.
    column_ranges_ : ndarray of shape (2, n_features) or None
        Lowest and highest entries of each column that the fit found by its releases, infinite
        where these do not tell; None if none do. Predictions move an entry r times as far from the
        middle as the ends are to 1 / r² of that distance. Otherwise a code such as 999 for a
        missing value among numbers up to 5 would count 200 times as much as they.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if `X` had string column names.
    privacy_ : dpfast.privacy.PrivacyReport
        The guarantee and the ledger that supports it.

    Notes
    -----
    The number of rows and the shape of X are treated as public.

    There is no `partial_fit`: every call would spend budget, and noise added many times hurts more
    than noise added once. Fit on all rows at once.
    """

    __metadata_request__fit: ClassVar[dict[str, None]] = {"sample_weight": None, "groups": None}
    # Parameters of the estimator that go to the solver by their own names.
    _solver_parameters: ClassVar[tuple[str, ...]] = ("alpha", "optimizer")
    # Whether targets are labels, not numbers.
    _takes_labels: ClassVar[bool]

    epsilon: float = 1.0
    delta: float = 1e-6
    solver: str = "auto"
    alpha: float | str | None = "auto"
    data_norm: float | None = None
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    neighboring_relation: str = "replace_one"
    _: KW_ONLY
    solver_options: Mapping[str, Any] | None = None
    optimizer: str = "auto"
    accountant: str = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    strict: bool = False
    max_weight: float | None = None
    column_blocks: Sequence[ColumnBlock] | None = None
    max_rows_per_group: int | None = None
    prior: Any = None

    def __sklearn_clone__(self) -> Self:
        made: Self = super().__sklearn_clone__()
        if hasattr(self.prior, "as_prior"):
            # What is known beforehand is no part of what is to be fitted anew.
            made.prior = copy.deepcopy(self.prior)
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        return tags

    def _loss(self) -> Loss:
        """The loss of the margin, parameters checked."""
        raise NotImplementedError

    def _resolve_targets(
        self, y: NDArray[Any] | None
    ) -> tuple[tuple[Targets, ...], tuple[str, ...]]:
        """Targets of each problem of a fit, and notes for the report.

        Without `y`, what they need of it must be declared.
        """
        raise NotImplementedError

    def _checked_y(self, y: NDArray[Any]) -> NDArray[Any]:
        """Targets or labels that are of the right kind."""
        raise NotImplementedError

    def _fitted(
        self, plan: Plan[Any], targets: Targets, coef: Matrix, intercept: Vector
    ) -> dict[str, Any]:
        """Fitted attributes, from coefficients with a row for each problem or class."""
        raise NotImplementedError

    def _estimated(
        self, plan: Plan[Any], outcomes: Sequence[Outcome], targets: Targets
    ) -> dict[str, Any]:
        """Attributes of estimators that know the errors of their coefficients."""
        del plan, outcomes, targets
        return {}

    def _question_bounds(self) -> None:
        """Warn of declared bounds with which the model can hardly be of use."""

    def _constant(self) -> float:
        _check_switch("fit_intercept", self.fit_intercept)
        if not self.fit_intercept:
            return 0.0
        return check_real(
            "intercept_scaling", self.intercept_scaling, low=0.0, low_open=True, high=1e100
        )

    def _columns(self) -> tuple[ColumnBlock, ...]:
        """How the columns were declared."""
        blocks = () if self.column_blocks is None else self.column_blocks
        listed = isinstance(blocks, Sequence) and not isinstance(blocks, str)
        if not listed or not all(isinstance(block, ColumnBlock) for block in blocks):
            raise TypeError(
                "column_blocks must be None or a list of ColumnBlock, such as dpfast.preprocessing."
                f"column_blocks(encoder); got {blocks!r}."
            )
        return tuple(blocks)

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
        if self.alpha is None:
            given["alpha"] = "auto"
        _named("objective_options", given.get("objective_options"))
        for name, unasked in _UNASKED.items():
            if given.get(name, unasked) == unasked:
                given.pop(name, None)
        return {**given, **options}

    def _check_settings(self, fit_params: Mapping[str, Any]) -> None:
        """Refuse what a fit refuses of the parameters that no plan reads."""
        _check_switch("strict", self.strict)
        thread_count(self.n_jobs)
        self._row_weights(fit_params)

    def _row_weights(self, fit_params: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments of the Problem that say how much each row counts, and whose it is."""
        return row_arguments(fit_params, self._weight_bound(), self.max_rows_per_group)

    def _by_exposure(
        self, X: Any, y: Any, fit_params: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Targets and arguments of a fit, with the exposure in them, if the family has one."""
        del X
        return y, fit_params

    def _weight_bound(self) -> float | None:
        """Public bound of the weights."""
        return self.max_weight

    def _from_dask(self, X: Any, y: Any, fit_params: Mapping[str, Any]) -> Executor:
        """The source that dask collections make, once what is public about them is checked."""
        if y is None:
            raise ValueError("y must be given with X; got None.")
        if self.data_norm is None:
            raise ValueError(
                "data_norm must be given for rows in dask collections; got None. It is a public "
                "bound of the rows' norms (longer rows are scaled down)."
            )
        beside = self._row_weights(fit_params)
        return from_dask(X, y, beside.get("sample_weight"), beside.get("groups"))

    def _in_memory(
        self, rows: Any, y: NDArray[Any], targets: Targets, counted: Mapping[str, Any]
    ) -> Problem:
        """The problem of checked rows, with arguments that say how much each of them counts."""
        return Problem(
            by_rows(rows),
            targets(y),
            targets.loss,
            data_norm=self.data_norm,
            intercept=self._constant(),
            n_jobs=self.n_jobs,
            strict=self.strict,
            columns=self._columns(),
            **counted,
        )

    def _over_blocks(
        self, source: Executor, y: Any, fit_params: Mapping[str, Any], targets: Targets
    ) -> BlockProblem:
        """The problem over the blocks of `source`; nothing is read."""
        refuse_beside_blocks(y, fit_params)
        if source.n_groups is None:
            refuse_limit(self.max_rows_per_group)
        problem = BlockProblem(
            source,
            targets.loss,
            data_norm=self.data_norm,
            intercept=self._constant(),
            max_weight=self.max_weight,
            max_rows_per_group=self.max_rows_per_group,
            target=targets,
            n_jobs=self.n_jobs,
            columns=self._columns(),
        )
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_ = np.array(source.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return problem

    def _inferred(
        self, y: NDArray[Any] | None, name: str, leak: str, remedy: str, note: str
    ) -> tuple[str, ...]:
        """Warn that something public is taken from `y`, or refuse; the note for the report."""
        if y is None:
            raise ValueError(
                f"{name} must be given for rows in blocks; got None. The targets are not looked at "
                "before the fit pays for it."
            )
        if self.strict:
            if self.data_norm is None:
                name, remedy = f"{name} and data_norm", f"{remedy} Pass as data_norm {A_BOUND}."
            raise ValueError(f"{name} must be given when strict=True; got None. Pass {remedy}")
        warn(
            f"{name} {leak} The privacy guarantee does not cover that: pass {remedy}",
            PrivacyLeakWarning,
        )
        return (note,)

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *by_position: Never,
        **fit_params: Unpack[FitParameters],
    ) -> Self:
        """Fit the model privately; this spends the budget, also if it fails after its checks.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or blocks of rows
            Dense float64 and float32 rows, CSR and rows in codes (:mod:`dpfast.coded`) are read in
            place.  Rows that do not fit in memory come in blocks that hold their targets and
            weights, see :mod:`dpfast.blocks`, or in dask collections; then `y` and the weights are
            dask collections, too.  Both need `data_norm` and `classes` or `target_bounds`, and do
            not support the multinomial loss.
        y : array-like of shape (n_samples,)
            Class labels, or numbers, which are clipped to `target_bounds`; omit it for blocks.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, >= 0, private like the rows; they require `max_weight`. The mean
            divides by the number of rows, not by the sum of the weights, which is private.
        groups : array-like of shape (n_samples,), optional
            The group of each row, such as a person: integers, texts or other exact ids; the texts
            "7" and "7.0" are two. The guarantee then covers all rows of a group together, its
            `n_samples` is the number of groups, and the number of rows is private; see the guide
            "Which unit?".
        checkpoint : path-like, optional
            For blocks: file from which an interrupted fit continues, see :func:`dpfast.solve`.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If a parameter or the data are not as documented; nothing is spent.  Errors in rows in
            blocks are found when they are read; what was paid by then stays spent.
        dpfast.errors.CertificateNotReached
            If the inner optimizer could not prove its accuracy; nothing is released.
        """
        if by_position:
            raise TypeError(
                f"fit must get no more than X and y by position; got {2 + len(by_position)} "
                "arguments. Name the others: fit(X, y, sample_weight=weights, groups=ids)."
            )
        # What noise does to a number is no error, whatever the user has set for others.
        with np.errstate(all="ignore"), fitted_or_as_before(self):
            return self._fit(X, y, fit_params)

    def _fit(
        self,
        X: Any,
        y: ArrayLike | None,
        fit_params: Mapping[str, Any],
        accounts: Sequence[Charged] | None = None,
        *,
        alone: bool = True,
    ) -> Self:
        """Fit, charging `accounts`; None: those whose blocks surround the call.

        A fit that is not `alone` is a part of something, such as the fit of a table, which checks
        and notes the whole by itself.
        """
        budget = Budget(self.epsilon, self.delta)
        _check_switch("strict", self.strict)
        problem, stored, targets, notes = self._posed(X, y, fit_params)
        if alone:
            shape = problem.shape
            check_promise(budget, shape.n_samples, shape.unit)
            self._question_bounds()
        plan, events = self._planned(problem.shape, budget, len(targets))
        if alone:
            question_norm(shape, plan.solver)
            question_regime(plan, shape.unit)
            question_prior(self.prior, plan, self.accountant)
        with self._shown(plan, problem, len(targets)):
            begun, learned = None, {}
            if self._counts_classes():
                begun = begin(plan, budget, self.accountant, self.random_state, accounts)
                begun[0].check(*events)
                learned = self._learned(plan, budget, stored, targets[-1], begun)
            problem = self._weighed(problem, stored, targets[-1], learned)
            outcomes, report = fit_each(
                plan,
                self._problems(plan, problem, targets, stored),
                problem,
                budget,
                accountant=self.accountant,
                events=events,
                random_state=self.random_state,
                notes=(*notes, *notes_of(self.prior)),
                checkpoint=fit_params.get("checkpoint"),
                accounts=accounts,
                distinction=(self._settings(), targets, *what_is_known(self.prior)),
                begun=begun,
            )
        if begins_with_prior(plan):
            report = replace(report, prior=described(self.prior))
        learned.update(self._model(plan, outcomes, targets[-1]))
        said = [text for outcome in outcomes for text in outcome.said]
        self._keep(problem.shape, learned, report, said, alone)
        return self

    def _keep(
        self,
        shape: ProblemShape,
        learned: Mapping[str, Any],
        report: PrivacyReport,
        said: Sequence[str],
        alone: bool,
    ) -> None:
        """Set the fitted attributes, then say what there is to say of the fit."""
        repeated = None
        if alone:
            report, repeated = FITS.note(shape.n_samples, shape.n_features, report)
        # All at once: a fit that is interrupted leaves the model before it whole, never its report
        # with new weights, which may promise more than they keep.
        self.__dict__.update(
            privacy_=report,
            # Rows of a table are never longer: that need not be looked up.
            _row_bound=self.data_norm if alone and self.data_norm is not None else math.inf,
            **learned,
        )
        # Last, since a warning may be made an error: what was paid for is kept by now.
        if repeated is not None:
            warn(repeated, RepeatedFitWarning)
        if alone:
            for text in dict.fromkeys(said):
                warn(text, QuestionableSettingWarning)

    def _posed(
        self, X: Any, y: ArrayLike | None, fit_params: Mapping[str, Any]
    ) -> tuple[RowSums, NDArray[Any] | None, tuple[Targets, ...], tuple[str, ...]]:
        """The problem, its targets if they are in memory, those of each fit, notes for the report.

        The problem is that of the last fit.
        """
        y, fit_params = self._by_exposure(X, y, fit_params)
        if is_dask(X, y):
            X, y, fit_params = self._from_dask(X, y, fit_params), None, {}
        if isinstance(X, Executor):
            targets, notes = self._resolve_targets(None)
            return self._over_blocks(X, y, fit_params, targets[-1]), None, targets, notes
        counted = self._row_weights(fit_params)
        rows, labels = self._validated(X, y, labels=self._takes_labels)
        stored = self._checked_y(labels)
        targets, notes = self._resolve_targets(stored)
        return self._in_memory(rows, stored, targets[-1], counted), stored, targets, notes

    def _model(
        self, plan: Plan[Any], outcomes: Sequence[Outcome], targets: Targets
    ) -> dict[str, Any]:
        """Attributes of what was learned, in the units of the targets as they came."""
        weights = np.concatenate([np.atleast_2d(outcome.w) for outcome in outcomes])
        d, constant = self.n_features_in_, self._constant()
        units, shift = units_of(targets, weights.shape[1], constant)
        weights = weights * units + shift
        intercept = weights[:, d] if constant else np.zeros(len(weights))
        covariance = outcomes[0].covariance if len(outcomes) == 1 else None
        if covariance is not None:
            covariance = covariance * np.outer(units, units)
            covariance = 0.5 * (covariance + covariance.T)
        return {
            "_noise": WeightNoise.of(plan, float(outcomes[0].unit)),
            "_constant_column": constant,
            "_targets": targets,
            "_covariance": covariance,
            "column_ranges_": _told_of_columns(outcomes, d),
            "_known_rows": known_rows(plan, self.accountant, outcomes[0].history),
            **self._estimated(plan, outcomes, targets),
            **self._fitted(plan, targets, weights[:, :d], intercept),
        }

    def _problems(
        self,
        plan: Plan[Any],
        problem: RowSums,
        targets: tuple[Targets, ...],
        stored: NDArray[Any] | None,
    ) -> list[Callable[[], RowSums]]:
        """The problems of a fit, made when their turn comes; `stored` are targets in memory."""
        if len(targets) == 1:
            return [lambda: problem]

        def with_target(to_signs: Targets) -> RowSums:
            return problem.with_target(to_signs if stored is None else to_signs(stored))

        return [partial(with_target, each) for each in targets]

    def _settings(self) -> dict[str, Any]:
        """Keyword arguments of :func:`dpfast.plan`."""
        return {
            "neighboring_relation": self.neighboring_relation,
            "accountant": self.accountant,
            **self._options(),
        }

    def _validated(self, *data: Any, **how: Any) -> Any:
        """Rows, and targets if there are any, checked."""
        if isinstance(data[0], CodedMatrix):
            return self._coded(*data, **how)
        return validated(self, *data, **how, **_READ)

    def _coded(
        self, X: CodedMatrix, y: Any = None, *, reset: bool = True, labels: bool = False
    ) -> Any:
        """The same for rows in codes, which were checked when they were made."""
        if reset:
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X must have {self.n_features_in_} features, as in fit; got {X.shape[1]}."
            )
        if not reset:
            return X
        y = vector_in("y", y, labels=labels)
        if len(y) != X.shape[0]:
            raise ValueError(f"y must have {X.shape[0]} entries, as X has rows; got {len(y)}.")
        return X, y

    def _planned(
        self, shape: ProblemShape, budget: Budget, parts: int | None = None
    ) -> tuple[Plan[Any], tuple[Event, ...]]:
        """Plan of a fit to rows of this shape, and the accesses of all its problems."""
        parts = self._parts() if parts is None else parts
        return self._planned_parts(shape, budget, parts)

    def _planned_parts(
        self, shape: ProblemShape, budget: Budget, parts: int
    ) -> tuple[Plan[Any], tuple[Event, ...]]:
        """The same for so many problems, of which each has its share of the budget."""
        known = self._planned_with_prior(shape, budget, parts)
        if known is not None:
            return known, known.events
        return planned(shape, parts, self.solver, budget, **self._settings())

    def _planned_with_prior(
        self, shape: ProblemShape, budget: Budget, parts: int
    ) -> Plan[Any] | None:
        """Plan of a fit that begins with what public rows tell; None if that would not help."""
        if self.prior is None:
            return None
        settings = self._settings()
        how = {name: settings.pop(name) for name in ("neighboring_relation", "accountant")}
        check_asked(self, parts, settings)
        (targets,), _ = self._resolve_targets(None)
        return plan_with_prior(self.prior, shape, targets, budget, **how)

    def _counts_classes(self) -> bool:
        """Whether a fit begins with a private count of the classes."""
        return False

    def _learned(
        self,
        plan: Plan[Any],
        budget: Budget,
        stored: NDArray[Any] | None,
        targets: Targets,
        begun: tuple[Ledger, SecureGenerator],
    ) -> dict[str, Any]:
        """Fitted attributes that a private count of the classes gives."""
        raise NotImplementedError

    def _weighed(
        self,
        problem: RowSums,
        stored: NDArray[Any] | None,
        targets: Targets,
        learned: Mapping[str, Any],
    ) -> RowSums:
        """The problem whose rows count as much as their classes do."""
        del stored, targets, learned
        return problem

    def _parts(self) -> int:
        """Problems of a fit."""
        return 1

    @contextmanager
    def _shown(self, plan: Plan[Any], problem: RowSums, parts: int) -> Iterator[None]:
        """Print the plan before anything is spent, and progress over blocks, if asked for."""
        if not self.verbose:
            yield
            return
        from dpfast.estimators._progress import planned_passes, shown  # rich takes long to import

        together = "multinomial" if is_multinomial(plan) else "one against the rest, each"
        print(plan if parts == 1 else f"{parts} classes, {together}:\n{plan}")
        if not isinstance(problem, BlockProblem):
            yield
            return
        with shown(problem.source, planned_passes(plan) if parts == 1 else None):
            yield

    def as_prior(self) -> CoefficientPrior:
        """Coefficients and what the noise may have done to them, for the `prior` of another fit.

        It only post-processes what was released. A fit to other people uses it for free; a fit to
        the same people pays for its own releases.

        Returns
        -------
        CoefficientPrior
            Coefficients and intercept of one or two classes, in units of the columns, their
            covariance, and the report of this fit.

        Raises
        ------
        ValueError
            If the model has no covariance: it was not fitted by "dp-whitened-gd", was read from a
            model file of an earlier version, has several classes, a log link or more than 500
            coefficients.
        """
        check_is_fitted(self)
        covariance = getattr(self, "_covariance", None)
        if covariance is None:
            raise ValueError(
                "the model must have been fitted by solver='dp-whitened-gd', for one or two "
                "classes, without a log link and with at most 500 coefficients, to be a prior; "
                "model files of earlier versions do not keep what the noise may have done. "
                "dpfast.CoefficientPrior takes any coefficients with a covariance."
            )
        with_intercept = len(covariance) > self.n_features_in_
        return CoefficientPrior(
            np.ravel(self.coef_),
            float(np.ravel(self.intercept_)[0]) if with_intercept else 0.0,
            covariance,
            self._known_rows,
            getattr(self, "privacy_", None),
        )

    def noise_interval(self, confidence_level: float = 0.95) -> CoefficientInterval:
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
            "objective-perturbation" (of counts and costs, with a delta): what noise in every step
            or shrinkage does to the coefficients has no law that is known without the data.
        """
        check_is_fitted(self)
        level = check_level("confidence_level", confidence_level)
        noise: WeightNoise | None = getattr(self, "_noise", None)
        if noise is None:
            delta = ", with delta > 0," if self._loss().log_link else ""
            raise ValueError(
                "solver must be 'output-perturbation' (with mode='certificate') or "
                f"'objective-perturbation'{delta} for intervals of the noise; got "
                f"solver={self.solver!r}, whose noise reaches the coefficients in ways that depend "
                "on the data. Fit again with one of them."
            )
        d, constant = self.n_features_in_, self._constant_column
        rows = np.column_stack([np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)])
        rows = rows if constant != 0.0 else rows[:, :d]
        units, shift = units_of(self._targets, rows.shape[1], constant)
        ends = [np.stack(noise.interval(w, level)) for w in (rows - shift) / units]
        both = np.stack(ends, axis=1) * units + shift
        low, high = both[:, :, :d].reshape(2, *np.shape(self.coef_))
        below, above = np.zeros((2, len(rows))) if constant == 0.0 else both[:, :, d]
        if np.ndim(self.intercept_) == 0:
            below, above = float(below[0]), float(above[0])
        return CoefficientInterval(low, high, below, above, level)

    def score(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy of a classifier, R² of a regressor, D² with a log link.

        R² and D² are shares of the variance and of the deviance: 1 is perfect, a constant has 0.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or blocks of rows
        y : array-like of shape (n_samples,), optional
            Left out for blocks of rows, whose source has it, and the weights.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
            Not private: it is computed from `y`.
        """
        predicted = self.predict(X)
        found, weight = compared(X, y, sample_weight, len(predicted), labels=self._takes_labels)
        return self._scored(self._checked_y(found), predicted, weight)

    def _scored(self, found: NDArray[Any], predicted: NDArray[Any], weight: Vector | None) -> float:
        """Score of predictions, of rows that may weigh differently."""
        raise NotImplementedError

    def _affine(self, X: Any, coef: NDArray[np.float64], intercept: Any) -> Any:
        """``X @ coef + intercept`` of the rows to predict for, cut as the fit cuts them."""
        check_is_fitted(self)
        if is_dask(X):
            X = from_dask(X)
        how = Cut(vars(self).get("_row_bound", math.inf), vars(self).get("column_ranges_"))
        if not isinstance(X, Executor):
            return affine(self._validated(X, reset=False), coef, intercept, how)
        if X.n_features != self.n_features_in_:
            raise ValueError(
                f"X must have {self.n_features_in_} features, as in fit; got {X.n_features}."
            )
        names, given = getattr(self, "feature_names_in_", None), X.feature_names
        if names is not None and given is not None and [*names] != [*given]:
            raise ValueError(
                f"X must have the columns {[*names]}, in the order of fit; got {[*given]}. Give "
                "them in that order."
            )
        on_rows = partial(affine_of_block, coef=coef, intercept=intercept, cut=how)
        return np.concatenate(list(X.map(on_rows)))


def _told_of_columns(outcomes: Sequence[Outcome], columns: int) -> NDArray[np.float64] | None:
    """Their ranges, as most fits tell them, and None if they tell of none."""
    unknown = np.outer([-math.inf, math.inf], np.ones(columns))
    told = [unknown if one.column_ranges is None else one.column_ranges for one in outcomes]
    found = np.median(told, axis=0)
    return found if np.isfinite(found).any() else None


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
