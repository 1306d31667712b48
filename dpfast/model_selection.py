r"""Private search over hyper-parameters, in the manner of scikit-learn.

:class:`PrivateSearchCV` fits and scores a random number of randomly chosen candidates and releases
the best one.  What that costs is worked out in :mod:`dpfast.privacy.selection` (Papernot & Steinke
2022): more than one fit, much less than all of them, provided that nothing but the winner comes
out.

One run
-------
A run draws a candidate uniformly, fits it to the training rows with a private solver, and adds
noise to its score on the held-out rows.  The split is drawn once, without looking at the data, so
a record is in one part and its neighbor's replacement (or its absence, which leaves a zero
contribution in its place) in the same one:

* if it is a training row, what the run releases differs by the fit's accesses, and the noisy score
  is a post-processing of the fitted model and of rows that both neighbors have;
* if it is held out, the fit has one and the same law, and given its outcome the scores differ by
  one row's: numbers in [0, 1] whose sum moves by at most 1, whether a row is replaced or absent.

With `groups`, whole groups of rows are held out, and a group's score is the mean over its rows:
what is said above of a record is true of a group.  That a row's score is its own to the last bit is
seen to for the scores that have names; a callable that multiplies dense rows by BLAS may move some
by a few units, with the number of rows.

So a run costs the fit *or* the score, never both: for the Renyi divergence, the larger one
(parallel composition), and over the random draw of the candidate the largest of any candidate's.
The event lists these alternatives.  The noise of the score is calibrated to the same budget as the
fits: it is free.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse
import scipy.special
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dpfast._arrays import fitted_or_as_before, validated
from dpfast._typing import Vector
from dpfast._validation import check_choice, check_flag, check_real, warn
from dpfast.curator import Curator
from dpfast.errors import QuestionableSettingWarning, RepeatedFitWarning
from dpfast.estimators._base import PrivateLinearModel
from dpfast.estimators._classifier import PrivateLinearClassifier
from dpfast.groups import GroupedRows, index_groups
from dpfast.mechanisms import Access, Gaussian, Laplace
from dpfast.privacy import (
    ACCOUNTANTS,
    Budget,
    Event,
    GDPEvent,
    Ledger,
    PrivacyReport,
    PureSelectionEvent,
    SelectionEvent,
    budget_filter,
    gaussian_epsilon,
    relation_of,
)
from dpfast.privacy.budget import check_promise
from dpfast.privacy.ledger import merged
from dpfast.privacy.repeats import FITS
from dpfast.privacy.selection import REPETITIONS, law_parameter, number_of_runs
from dpfast.queries import ScoreSum
from dpfast.random import SecureGenerator
from dpfast.shape import ProblemShape

Scorer = Callable[[Any, Any, NDArray[Any]], ArrayLike]

__all__ = ["SCORINGS", "PrivateSearchCV"]

# What the search itself sets.
_OWN = ("epsilon", "delta", "neighboring_relation", "accountant", "random_state", "verbose")
_WHERE = "search: the best of a random number of runs"
_SCORE = "score on held-out rows"
# A held-out row's logarithmic loss counts at most this much.
_LOG_LOSS_LIMIT = 3.0
# The Poisson law has fewer runs far from its mean: preferred where it costs this little in noise.
_POISSON_WORTH = 0.9
_SHRINKAGE = 0.99
_UNITS: tuple[Literal["row"], Literal["group"]] = ("row", "group")
_MAX_TURNS = 200
# Rows on which a scorer is tried.
_MADE_UP = 32
# How likely a score above 0 is taken for one of 0, at most.
_TAIL = 0.01


# ---- scores: one number in [0, 1] a row, the larger the better -----------------------------------


def _accuracy(model: Any, X: Any, y: NDArray[Any]) -> ArrayLike:
    return np.asarray(model.predict(X) == y, dtype=np.float64)


def _neg_log_loss(model: Any, X: Any, y: NDArray[Any]) -> ArrayLike:
    columns = np.searchsorted(model.classes_, y)
    gains: Vector = model.predict_log_proba(X)[np.arange(len(y)), columns]
    return 1.0 + gains / _LOG_LOSS_LIMIT


def _neg_absolute_error(model: Any, X: Any, y: NDArray[Any]) -> ArrayLike:
    errors: Vector = np.abs(model.predict(X) - y)
    return 1.0 - errors / _width(model)


def _neg_squared_error(model: Any, X: Any, y: NDArray[Any]) -> ArrayLike:
    errors: Vector = (model.predict(X) - y) / _width(model)
    return 1.0 - errors**2


def _width(model: Any) -> float:
    low, high = model.target_bounds
    return float(high) - float(low)


SCORINGS: Mapping[str, tuple[Scorer, Callable[[Any], float]]] = {
    "accuracy": (_accuracy, lambda model: 0.0),
    "neg_log_loss": (_neg_log_loss, lambda model: _LOG_LOSS_LIMIT),
    "neg_mean_absolute_error": (_neg_absolute_error, _width),
    "neg_mean_squared_error": (_neg_squared_error, lambda model: _width(model) ** 2),
}
"""By name: a score of each row, cut to [0, 1], and the loss that 0 stands for (none: it is the
score itself)."""


def _has(name: str) -> Callable[[Any], bool]:
    return lambda search: hasattr(search.estimator, name)


# ---- the plan of a search -----------------------------------------------------------------------


@dataclass(frozen=True)
class _SearchPlan:
    """What a search will do, from public quantities."""

    event: SelectionEvent | PureSelectionEvent
    run_budget: Budget
    score: Gaussian | Laplace
    fits: tuple[tuple[Event, ...], ...]


class _Search(Access[tuple[float, tuple[int, Any]]]):
    """The best of a random number of runs, each of which fits a candidate and scores it.

    The number of runs and all runs but the best stay secret, so this is one access, and trusted, as
    are the scorer and what a candidate's fit does with the training rows: that goes through a
    ledger of its own, whose budget is what the event charges a run for.  If a run fails, nothing is
    released, as when a single fit fails: one record may decide whether an optimizer reaches its
    certificate, and a failure that counted as a bad score would let it decide who wins.

    The rows are two parts, those to be fitted and those held out: X, y, and whose rows they are, or
    None.
    """

    def __init__(
        self, estimator: Any, candidates: list[dict[str, Any]], plan: _SearchPlan, score: Scorer
    ) -> None:
        self._estimator, self._candidates = estimator, candidates
        self._plan, self._score = plan, score

    def events(self, count: int = 1) -> tuple[Event, ...]:
        """Return the event of the search."""
        return (replace(self._plan.event, count=count * self._plan.event.count),)

    def answer(
        self, prepared: Any, rng: SecureGenerator, *point: Any
    ) -> tuple[float, tuple[int, Any]]:
        """Return the best run's noisy score, its candidate's number, and its model."""

        def run() -> tuple[float, tuple[int, Any]]:
            index = rng.below(len(self._candidates))
            noisy, model = self._run(index, prepared, rng)
            return noisy, (index, model)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # their number would tell that of the runs
            return best_of_runs(self._plan.event, run, rng)

    def _run(self, index: int, parts: Any, rng: SecureGenerator) -> tuple[float, Any]:
        """Fit one candidate and release its score."""
        training, held_out = parts
        _, y_held, groups = held_out
        # One number for each record: a group's rows have one score.
        records = y_held if groups is None else np.zeros(groups.count)
        model = self._fit(index, training, rng)
        ledger = Ledger(self._plan.run_budget, accounts=())
        noisy = Curator((held_out, records), ledger, rng).release(
            self._plan.score, partial(self._scores, model)
        )
        return float(noisy[0]) / len(records), model

    def _fit(self, index: int, training: tuple[Any, Any, Any], rng: SecureGenerator) -> Any:
        """The model of one candidate."""
        budget, params = self._plan.run_budget, self._candidates[index]
        seed = int(rng.uint64(1)[0] >> np.uint64(1)) if rng.reproducible else None
        model = clone(self._estimator).set_params(
            **params, epsilon=budget.epsilon, delta=budget.delta, accountant="auto",
            random_state=seed, verbose=0,
        )  # fmt: skip
        X, y, groups = training
        model._fit(X, y, {} if groups is None else {"groups": groups}, accounts=(), alone=False)
        report = model.privacy_
        if not report.adaptive and _counted(report.events) != _counted(self._plan.fits[index]):
            raise RuntimeError(
                f"the fit of {params!r} made other accesses than were planned and paid for; "
                "nothing is released. Please report this."
            )
        return model

    def _scores(
        self, model: Any, held_out: tuple[Any, Any, GroupedRows | None], records: NDArray[Any]
    ) -> ArrayLike:
        """What the scorer makes of the held-out records."""
        X, y, groups = held_out
        try:
            scores = np.asarray(self._score(model, X, y), dtype=np.float64)
        except Exception as error:
            raise RuntimeError(
                f"scoring must return numbers; it failed with a {type(error).__name__}, whose text "
                "is not shown, since it may quote rows. Nothing is released, and the privacy cost "
                "of the search stays spent."
            ) from None
        return scores if groups is None else _means(scores, groups, len(y))


def _means(scores: ArrayLike, groups: GroupedRows, n_rows: int) -> Vector:
    """Mean over the rows of each group of scores, cut to [0, 1]; 0 of those that are no numbers."""
    each = np.asarray(scores, dtype=np.float64)
    if each.shape != (n_rows,):
        raise ValueError("scoring must return one number for each of the rows; got another shape.")
    cut = np.clip(np.nan_to_num(each, nan=0.0), 0.0, 1.0)
    sums: Vector = np.add.reduceat(groups.ordered(cut), groups.start[:-1])
    return np.minimum(sums / groups.sizes, 1.0)


@dataclass(eq=False, repr=False)
class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Hyper-parameters and a model, chosen and fitted under one guarantee.

    Parameters
    ----------
    estimator : dpfast estimator
        Its bounds (`data_norm`, and `classes` or `target_bounds`) must be declared. Leave out
        `epsilon` and `delta`, which the search gives it; other values than the search's are
        refused. `accountant` and `random_state` are not used.
    param_grid : dict or list of dicts
        As for :class:`sklearn.model_selection.GridSearchCV`.
    epsilon : float, default=1.0
        Privacy loss ε of the whole search, including the released model.
    delta : float, default=1e-6
        0 asks for a pure guarantee.
    scoring : str, callable or None, default=None
        "accuracy", "neg_log_loss" (a row's loss cut at 3), "neg_mean_absolute_error",
        "neg_mean_squared_error"; None is the first for classifiers and the third for regressors.
        A callable receives the fitted model, X and y, and returns a score in [0, 1] for each row,
        which may depend only on that row and the model; scores outside are clipped. It is tried
        on rows that are made up, before anything is spent.
    validation_fraction : float, default=0.2
        Share of the rows to hold out for scoring.
    mean_runs : float or None, default=None
        Mean number of runs; None is the number of candidates, at least 2 and at most 20.
    repetitions : {"auto", "poisson", "negative-binomial"}
        Law of the number of runs; see :mod:`dpfast.privacy.selection`.  "auto" is "poisson" where
        it needs at most some ten percent more noise.
    shape : float, default=1.0
        Of the negative binomial law: 1 is the logarithmic one, 2 the geometric one.
    refit : bool, default=True
        Whether to keep the model of the best run as `best_estimator_`. This model **is** the
        release that the budget paid for; there is no second fit, which would cost again.
    random_state : None, int or NumPy generator, default=None
        None draws from the operating system's randomness.  Anything else makes the search
        repeatable, and the report says not to release it.

    Attributes
    ----------
    best_params_ : dict
    best_score_ : float
        The noisy score of the best run: the largest of several, so biased upwards.
    best_estimator_ : estimator
        Fitted to the training part; its `privacy_` is the whole search's.
    best_index_ : int
        0: `cv_results_` has one row.
    cv_results_ : dict
        As in scikit-learn, but of the chosen candidate alone. The guarantee does not cover other
        candidates' scores or the number of runs, so they are not available.
    n_candidates_, n_train_ : int
        Public: the size of the grid, and of the training part.
    privacy_ : dpfast.privacy.PrivacyReport
        The guarantee of the whole search.
    classes_ : ndarray
        For classifiers.

    Notes
    -----
    The running time of a search reveals the number of runs, which the guarantee assumes to be
    secret: do not let recipients of the model measure it.

    Examples
    --------
    >>> from dpfast import LogisticRegression
    >>> from dpfast.datasets import load_randhie
    >>> from dpfast.model_selection import PrivateSearchCV
    >>> X, y = load_randhie(return_X_y=True)
    >>> model = LogisticRegression(solver="output-perturbation", data_norm=65.0, classes=[0, 1])
    >>> grid = {"alpha": [1e-3, 1e-2, 1e-1]}
    >>> search = PrivateSearchCV(model, grid, epsilon=1.0, delta=1e-6).fit(X, y)
    >>> len(search.cv_results_["params"]), search.privacy_.epsilon <= 1.0
    (1, True)
    """

    estimator: Any
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-6
    scoring: str | Scorer | None = None
    validation_fraction: float = 0.2
    mean_runs: float | None = None
    repetitions: str = "auto"
    shape: float = 1.0
    refit: bool = True
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, PrivateLinearModel):
            inner = self.estimator.__sklearn_tags__()
            tags.estimator_type = inner.estimator_type
            tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
            tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, *, groups: ArrayLike | None = None) -> Self:
        """Search, and keep the best run.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,) or None, default=None
            Whose row each is, as for the estimators' `fit`: the guarantee is for whole groups,
            which are fitted or held out as a whole.

        Raises
        ------
        TypeError, ValueError
            If a parameter, a candidate or the data are not as documented; nothing is spent.
        BudgetExceeded
            By a surrounding :class:`~dpfast.BudgetAccountant`; nothing is spent.
        dpfast.errors.CertificateNotReached, RuntimeError
            If the fit of a candidate or the scoring fails; nothing is released, and the privacy
            cost of the search stays spent.
        """
        with fitted_or_as_before(self):
            return self._search(X, y, groups)

    def _search(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None) -> Self:
        budget = Budget(self.epsilon, self.delta)
        candidates = self._candidates()
        score, worst = self._scorer()
        check_flag("refit", self.refit)
        labels = is_classifier(self.estimator)
        rows, target = validated(
            self, X, y, labels=labels, dtype=[np.float64, np.float32], accept_sparse="csr"
        )
        indexed = None if groups is None else index_groups(groups, len(target), len(target))
        count = len(target) if indexed is None else indexed.count
        held_out = self._held_out(count)
        self._check_target(candidates, target, {} if groups is None else {"groups": groups})
        shape = ProblemShape(count - held_out, rows.shape[1], 1.0, unit=_UNITS[indexed is not None])
        check_promise(budget, count, shape.unit)
        plan = self._planned(budget, candidates, shape, held_out)
        if callable(self.scoring):
            self._try_scorer(score, candidates[0], rows[:0], plan.run_budget)

        ledger, rng = Ledger(budget), SecureGenerator(self.random_state)
        search = _Search(self.estimator, candidates, plan, score)
        parts = self._parts(rows, target, indexed, _shuffled(count, rng), held_out)
        with np.errstate(all="ignore"):
            noisy, (index, model) = Curator(parts, ledger, rng).release(search)
            found = model.privacy_
            report = PrivacyReport.from_ledger(
                ledger, reproducible=rng.reproducible, notes=found.notes, prior=found.prior
            )
        limit = worst(model)
        best_score = noisy if limit == 0.0 else (noisy - 1.0) * limit
        model.privacy_, repeated = FITS.note(count, rows.shape[1], report)
        # All at once: an interrupt leaves no old result beside a new report.
        self.__dict__.update(
            n_candidates_=len(candidates),
            n_train_=count - held_out,
            **self._found(model, candidates[index], best_score),
        )
        # Last, since a warning may be made an error: what was paid for is kept by now.
        if noisy * held_out < _largest_of_nothing(plan):
            warn(
                f"the best run's noisy score is {noisy:.2g} of 1, no more than noise makes of 0: "
                "scores are low, or too few rows are held out at this budget. The parameters are "
                "as if drawn by lot.",
                QuestionableSettingWarning,
            )
        if repeated is not None:
            warn(repeated, RepeatedFitWarning)
        return self

    def _parts(
        self,
        rows: Any,
        target: NDArray[Any],
        indexed: GroupedRows | None,
        order: NDArray[np.intp],
        held_out: int,
    ) -> list[tuple[Any, ...]]:
        """Rows to train with and rows to score, with their targets and whose they are."""
        training, tested = (
            _rows_of(np.sort(part), indexed) for part in (order[held_out:], order[:held_out])
        )
        held = _safe_indexing(rows, tested[0])
        if indexed is not None and not callable(self.scoring):
            # Products of dense rows may differ in their last bits by how many rows there are.
            held = scipy.sparse.csr_array(held)
        return [
            (_safe_indexing(rows, training[0]), target[training[0]], training[1]),
            (held, target[tested[0]], _indexed(tested[1])),
        ]

    def _found(self, model: Any, params: dict[str, Any], score: float) -> dict[str, Any]:
        """Attributes that name the best candidate, in scikit-learn's form: no other is released."""
        found = {
            "privacy_": model.privacy_,
            "best_params_": params,
            "best_score_": score,
            "best_index_": 0,
            "cv_results_": {
                **{f"param_{name}": [value] for name, value in params.items()},
                "params": [params],
                "mean_test_score": np.array([score]),
                "rank_test_score": np.array([1]),
            },
        }
        if self.refit:
            found["best_estimator_"] = model
        if is_classifier(self.estimator):
            found["classes_"] = model.classes_
        return found

    # ---- what the search makes of its parameters -------------------------------------------------

    def _candidates(self) -> list[dict[str, Any]]:
        estimator = self.estimator
        if not isinstance(estimator, PrivateLinearModel):
            raise TypeError(
                "estimator must be a linear model of dpfast, such as LogisticRegression, whose "
                f"fits go through a ledger; got {type(estimator).__name__}. In a pipeline the "
                "search is the last step, after what dpfast.preprocessing encodes."
            )
        for name in ("epsilon", "delta"):
            own, whole = getattr(estimator, name), getattr(self, name)
            if own not in (whole, getattr(type(estimator), name)):
                raise ValueError(
                    f"{name} must be that of the whole search, {whole!r}; got {own!r} on the "
                    f"estimator, where it has no effect. Give PrivateSearchCV the {name} to "
                    "promise, and leave it out of the estimator."
                )
        candidates = [dict(params) for params in ParameterGrid(self.param_grid)]
        bounds = "classes" if isinstance(estimator, PrivateLinearClassifier) else "target_bounds"
        for params in candidates:
            taken = sorted(set(params) & set(_OWN))
            if taken:
                raise ValueError(
                    f"param_grid must not hold {', '.join(taken)}, which the search sets or "
                    "which are part of what is promised."
                )
            made = clone(estimator).set_params(**params)
            for name in ("data_norm", bounds):
                if getattr(made, name) is None:
                    raise ValueError(
                        f"{name} must be declared on the estimator for a search: what a candidate "
                        "takes from the data is not covered by any guarantee; got None."
                    )
        if not candidates:
            raise ValueError(f"param_grid must hold candidates; got {self.param_grid!r}.")
        return candidates

    def _scorer(self) -> tuple[Scorer, Callable[[Any], float]]:
        if callable(self.scoring):
            return self.scoring, lambda model: 0.0
        classifier = isinstance(self.estimator, PrivateLinearClassifier)
        names = [name for name in SCORINGS if (name in ("accuracy", "neg_log_loss")) == classifier]
        if not hasattr(self.estimator, "predict_log_proba"):
            names = [name for name in names if name != "neg_log_loss"]
        if self.scoring is None:
            return SCORINGS[names[0]]
        return SCORINGS[check_choice("scoring", self.scoring, tuple(names))]

    def _try_scorer(self, score: Scorer, params: dict[str, Any], X: Any, budget: Budget) -> None:
        """Refuse a scorer that fails on made-up rows, lest it fail on all when all is paid.

        `X` has no rows; it says of which type and width they are.
        """
        model = clone(self.estimator).set_params(
            **params, epsilon=budget.epsilon, delta=budget.delta, random_state=0, verbose=0
        )
        made = np.random.default_rng(0).uniform(-1.0, 1.0, (_MADE_UP, X.shape[1])) / X.shape[1]
        X = type(X)(made.astype(X.dtype)) if scipy.sparse.issparse(X) else made.astype(X.dtype)
        if isinstance(model, PrivateLinearClassifier):
            y = np.resize(np.asarray(model.classes), _MADE_UP)
        else:
            y = np.resize(np.asarray(model.target_bounds, dtype=np.float64), _MADE_UP)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                model._fit(X, y, {}, accounts=(), alone=False)
            except Exception:
                return  # so few rows need not be enough
            try:
                shape = np.asarray(score(model, X, y), dtype=np.float64).shape
            except Exception as error:
                raise ValueError(
                    "scoring must take a fitted model, X and y, and return a score in [0, 1] for "
                    f"each row, whatever it holds; it raised {type(error).__name__} for rows that "
                    "were made up to try it. Nothing was spent."
                ) from error
        if shape != (_MADE_UP,):
            raise ValueError(
                f"scoring must return one number for each of the {_MADE_UP} rows that were made up "
                f"to try it; got shape {shape}. Nothing was spent. (A scorer of scikit-learn "
                "returns one number for all rows.)"
            )

    def _held_out(self, n: int) -> int:
        share = check_real(
            "validation_fraction", self.validation_fraction,
            low=0.0, high=1.0, low_open=True, high_open=True,
        )  # fmt: skip
        if n < 2:
            raise ValueError(f"X must have at least 2 rows, one of them held out; got {n}.")
        return min(max(1, round(share * n)), n - 1)

    def _check_target(
        self, candidates: list[dict[str, Any]], y: NDArray[Any], fit_params: dict[str, Any]
    ) -> None:
        """Refuse what no fit of a candidate takes, and labels that it does not declare.

        No run must fail by the rows it gets.
        """
        y = self.estimator._checked_y(y)
        for params in candidates:
            made = clone(self.estimator).set_params(**params)
            made._check_settings(fit_params)
            made._by_exposure(None, y, fit_params)
            targets, _ = made._resolve_targets(y)
            targets[-1](y)

    def _planned(
        self,
        budget: Budget,
        candidates: list[dict[str, Any]],
        shape: ProblemShape,
        held_out: int,
    ) -> _SearchPlan:
        """Find the largest budget of a run with which the search is within `budget`."""
        mean_runs = self.mean_runs
        if mean_runs is None:
            mean_runs = float(min(max(2, len(candidates)), 20))
        check_choice("repetitions", self.repetitions, ("auto", *REPETITIONS))
        for name in REPETITIONS if self.repetitions == "auto" else (self.repetitions,):
            law_parameter(name, mean_runs, self.shape)
        law = _best_law(budget, self.repetitions, float(mean_runs), float(self.shape))
        relation = relation_of(self.estimator.neighboring_relation, shape.unit)
        run_epsilon = _run_epsilon(budget, law)
        estimators = [
            clone(self.estimator).set_params(**params, accountant="auto") for params in candidates
        ]
        for _ in range(_MAX_TURNS):
            if not run_epsilon > 0.0:
                break
            run_budget = Budget(run_epsilon, budget.delta)
            fits = tuple(_events_of(one, run_budget, shape) for one in estimators)
            mechanism = Gaussian if budget.delta > 0.0 else Laplace
            sums = ScoreSum(held_out, "l2" if budget.delta > 0.0 else "l1")
            score = mechanism.calibrate(run_budget, sums, relation, where=_SCORE)
            alternatives = (*map(_merged, fits), score.events())
            event: SelectionEvent | PureSelectionEvent
            settings: dict[str, Any] = {
                "repetitions": law[0],
                "mean_runs": law[1],
                "shape": law[2],
                "neighboring_relation": relation,
                "where": _WHERE,
            }
            if budget.delta > 0.0:
                event = SelectionEvent(alternatives=tuple(dict.fromkeys(alternatives)), **settings)
            else:
                largest = max(map(_pure_sum, alternatives))
                event = PureSelectionEvent(epsilon_of_run=largest, **settings)
            affordable = Ledger(budget, accounts=()).can_afford(event)
            if affordable:
                return _SearchPlan(event, run_budget, score, fits)
            # Prices are nearly proportional to a run's epsilon.
            spent = ACCOUNTANTS["rdp" if budget.delta > 0.0 else "pure"].spent([event], budget)
            run_epsilon *= min(max(budget.limit / spent, 0.3), _SHRINKAGE)
        raise ValueError(
            f"epsilon={budget.epsilon:.4g} and delta={budget.delta:.4g} are too small for a search "
            f"of {mean_runs:.4g} runs on average: nothing is left for one of them. Give more, or "
            "fewer runs."
        )

    # ---- the best model ----------------------------------------------------------------------

    def _best(self) -> Any:
        check_is_fitted(self, "best_params_")
        if not self.refit:
            raise AttributeError("refit=False kept no model: only best_params_ and best_score_.")
        return self.best_estimator_

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predictions of the best run's model, shape (n_samples,); rows are as in :meth:`fit`."""
        predictions: NDArray[Any] = self._best().predict(X)
        return predictions

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Accuracy or R² of the best run's model; **not private** on rows that are."""
        return float(self._best().score(X, y))

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike) -> Vector:
        """Margins of the best run's model, as its own method gives them."""
        margins: Vector = self._best().decision_function(X)
        return margins

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Vector:
        """Probabilities by the best run's model, shape (n_samples, n_classes)."""
        probabilities: Vector = self._best().predict_proba(X)
        return probabilities


# ---- rows and whose they are --------------------------------------------------------------------


def _rows_of(
    records: NDArray[np.intp], indexed: GroupedRows | None
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """The rows of records with these numbers, ascending, and whose rows they are."""
    if indexed is None:
        return records.astype(np.int64), None
    owner = np.repeat(np.arange(indexed.count), indexed.sizes)
    places = np.flatnonzero(np.isin(owner, records))
    rows = places if indexed.order is None else indexed.order[places]
    order = np.argsort(rows)
    return rows[order], owner[places][order]


def _shuffled(count: int, rng: SecureGenerator) -> NDArray[np.intp]:
    """Numbers of records in random order, exactly: words that are not all different are refused.

    Groups are numbered by their ids, so that one group's id moves others' numbers; a split of which
    some were likelier than others, such as one that breaks ties by numbers, would tell of them.
    """
    while True:
        words = rng.uint64(count)
        order = np.argsort(words)
        if np.all(np.diff(words[order])):
            return order


def _indexed(owner: NDArray[np.int64] | None) -> GroupedRows | None:
    return None if owner is None else index_groups(owner, len(owner), len(owner))


# ---- budgets ----------------------------------------------------------------------------------


def _best_law(
    budget: Budget, repetitions: str, mean_runs: float, shape: float
) -> tuple[str, float, float]:
    """Return the law that is asked for, or the one that leaves a run more."""
    if repetitions != "auto":
        return repetitions, mean_runs, shape
    poisson, other = ((name, mean_runs, shape) for name in REPETITIONS)
    worth = _POISSON_WORTH * _run_epsilon(budget, other)
    return poisson if _run_epsilon(budget, poisson) >= worth else other


@lru_cache(maxsize=256)
def _run_epsilon(budget: Budget, law: tuple[str, float, float]) -> float:
    """Return the epsilon of a run whose noise is all Gaussian, or pure; 0 if nothing is left."""
    repetitions, mean_runs, shape = law
    common: dict[str, Any] = {
        "repetitions": repetitions,
        "mean_runs": mean_runs,
        "shape": shape,
        "neighboring_relation": "replace_one",
        "where": "calibration",
    }

    def affords(log_size: float) -> bool:
        size = math.exp(log_size)
        if budget.delta == 0.0:
            return ledger.can_afford(PureSelectionEvent(epsilon_of_run=size, **common))
        run = GDPEvent(mu=size, neighboring_relation="replace_one", where="calibration")
        return ledger.can_afford(SelectionEvent(alternatives=((run,),), **common))

    # Unlike a ledger of a fit, this one stands behind no data: no accountant is asked.
    ledger = Ledger(budget, accounts=())
    low, high = math.log(budget.limit) - 25.0, math.log(budget.limit) + 5.0
    if not affords(low):
        return 0.0
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if affords(middle) else (low, middle)
    if budget.delta == 0.0:
        return math.exp(low)
    return gaussian_epsilon(math.exp(low), budget.delta)


def _events_of(
    estimator: PrivateLinearModel, budget: Budget, shape: ProblemShape
) -> tuple[Event, ...]:
    """Return what a fit of the estimator will be charged, whatever the rows."""
    shape = replace(
        shape,
        data_norm=estimator.data_norm,  # type: ignore[arg-type]
        loss=estimator._loss(),
        intercept=estimator._constant(),
        columns=estimator._columns(),
        max_rows_per_group=estimator.max_rows_per_group,
    )
    plan, events = estimator._planned(shape, budget)
    if plan.adaptive:
        # Whatever it chooses along the way, it stays within one limit fixed beforehand.
        limited = budget_filter(budget, estimator.accountant)
        return (limited.as_event(plan.neighboring_relation, "accesses along the way"),)
    if budget.delta > 0.0 and not all(map(ACCOUNTANTS["rdp"].supports, events)):
        raise ValueError(
            "solver must have Renyi divergences for a search with a delta; got "
            f"{plan.solver!r}. Take another, such as 'dp-whitened-gd', or delta=0."
        )
    return events


def _merged(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Return equal accesses as one of their count."""
    counts: dict[Event, int] = {}
    for event in events:
        alike = replace(event, where="fit to the training rows", count=1)
        counts[alike] = counts.get(alike, 0) + event.count
    return tuple(replace(event, count=count) for event, count in counts.items())


def _pure_sum(events: tuple[Event, ...]) -> float:
    """Return the sum of the events' epsilons."""
    ledger = Ledger(Budget(1e6), "pure", accounts=())
    ledger.spend_all(events)
    return ledger.guarantee().epsilon


def _counted(events: Sequence[Event]) -> list[str]:
    """The accesses, whatever their order: some are planned as one event of their number."""
    return sorted(map(repr, merged(events)))


def _largest_of_nothing(plan: _SearchPlan) -> float:
    """What the largest noise in any of the runs' sums of scores stays below, most likely."""
    tail = _TAIL / max(1.0, plan.event.mean_runs)
    if isinstance(plan.score, Gaussian):
        return float(plan.score.stddev * scipy.special.ndtri(1.0 - tail))
    return plan.score.scale * math.log(0.5 / tail)


# ---- runs and draws ---------------------------------------------------------------------------


def best_of_runs(
    event: SelectionEvent | PureSelectionEvent,
    run: Callable[[], tuple[float, Any]],
    rng: SecureGenerator,
) -> tuple[float, Any]:
    """Return the best of a random number of runs, which `event` has paid for, and forget the rest.

    `run` returns a score and whatever else is released, independently from call to call.  Of equal
    scores the first is the best: as good as a random one, the runs being alike.
    """
    runs = number_of_runs(
        event.repetitions, event.mean_runs, event.shape, lambda: int(rng.uint64(1)[0])
    )
    best = run()
    for _ in range(runs - 1):
        other = run()
        if other[0] > best[0]:
            best = other
    return best
