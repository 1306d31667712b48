"""From a table to a private model: one estimator for tables with declared bounds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin, clone, is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dpfast._arrays import refuse_masked
from dpfast._table_files import Progress
from dpfast._validation import check_choice, warn
from dpfast.errors import DataError, QuestionableSettingWarning, UndeclaredValueWarning
from dpfast.estimators import CoefficientPrior
from dpfast.estimators._estimator import Estimator
from dpfast.estimators._messages import question_regime
from dpfast.estimators._prior import question_prior
from dpfast.inference import Summary
from dpfast.privacy import Budget, PrivacyReport, row_relation
from dpfast.privacy.budget import check_promise
from dpfast.tabular.columns import NumberColumn
from dpfast.tabular.families import (
    FAMILIES,
    exposure_exponent,
    family_of,
    output_of,
    scores_of,
    task_of,
    unfitted,
)
from dpfast.tabular.fitting import FitPlan, TableFit, block_rows, plan_fit
from dpfast.tabular.frames import (
    Chunk,
    check_persons,
    chunks,
    column_names,
    form_of,
    is_path,
    plain_chunk,
    raw_chunks,
)
from dpfast.tabular.model_file import read_model, restored, stored, write_model
from dpfast.tabular.rows import RowCoder, TableRows, encode
from dpfast.tabular.schema import TableSchema, read_bounds
from dpfast.tabular.scores import Scores
from dpfast.tabular.tally import Tally
from dpfast.tabular.targets import ClassTarget, Target
from dpfast.tabular.values import in_one

# Encoded rows that take more memory than this are read in blocks.
_HELD_BYTES = 2**26
# As many rows a person are expected when it is decided whether the rows go into memory.
_ROWS_OF_PERSON = 5
# Numbers of rows that a plan is tried for before they are counted.
_MANY, _FEW = 10**6, 1000
_IN_UNITS = (
    "An effect is that of one more, after the column's transform; of a day; of true against false; "
    "of a category against its reference; of a missing value against what was declared for it, "
    "else against the middle or the reference. The intercept is that in the middle of all ranges, "
    "halfway from false to true, and at the references."
)


@dataclass(frozen=True)
class EncodedRows:
    """Some rows of a table, encoded.

    Attributes
    ----------
    X : ndarray of shape (n, n_columns)
    target : ndarray of shape (n,) or None
        Positions of classes, or numbers, over the exposure if there is one.
    exposure : ndarray of shape (n,) or None
    kept : dict of str to column
        Columns that were passed on, of the type that they are stored in.
    """

    X: NDArray[np.float64]
    target: NDArray[Any] | None
    exposure: NDArray[np.float64] | None
    kept: dict[str, Any]

    def totals(self, rates: NDArray[Any]) -> NDArray[Any]:
        """What is predicted for the rows' exposures, from what is for one unit of it."""
        return rates if self.exposure is None else rates * self.exposure


def _has(method: str) -> Callable[[Any], bool]:
    """Whether the estimator of a TableModel has a method."""

    def check(model: TableModel) -> bool:
        inner = model.__dict__.get("estimator_")
        kind = FAMILIES[family_of(model.estimator, model._schema().task)]
        return hasattr(kind if inner is None else inner, method)

    return check


@dataclass(eq=False, repr=False)
class TableModel(TransformerMixin, Estimator):  # type: ignore[misc]
    """A private linear model of a table, from public knowledge about its columns.

    The model scales numbers by their declared ranges and encodes categories, dates and truth
    values. The bound of the rows' norms follows from the declaration. The budget pays for all that
    is learned from the data.

    Parameters
    ----------
    bounds : path, dict or TableSchema
        The declaration of the columns (required); see the guide "Your own table".
    estimator : str or estimator, default="auto"
        "logistic", "svm", "linear", "huber", "quantile", "poisson", "gamma", "tweedie",
        "negative-binomial", or a dpfast estimator with your own parameters, such as
        ``QuantileRegressor(quantile=0.9)``. "auto" is "logistic" for a target with classes and
        "linear" for a number.
    epsilon : float, default=1.0
        Privacy loss ε > 0 of the fit, including all that it learns about the columns.
    delta : float, default=1e-6
        Probability δ in [0, 1) outside the ε bound; 0 or None is pure ε-differential privacy.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets are neighbors: one record is replaced by any other, or is absent.
    target, person, weight : str or None, default=None
        Columns of the target, of whose row it is, and of how much a row counts; None takes those
        that the bounds name.
    exposure : str or None, default=None
        Column that says how long each row was observed, or how many units it covers, for the
        families "poisson", "gamma" and "tweedie"; None takes the column that the bounds name. The
        declared range of the target is then that of the target divided by the exposure. Rows to
        predict need the column, too, and predictions are for their exposure.
    max_rows_per_group : int or None, default=None
        Largest number of rows that count for one person, with `person`.
    undeclared : {"warn", "error", "ignore"}, default="warn"
        What a prediction does about values outside declared categories and ranges: "warn" counts
        them in a :class:`~dpfast.errors.UndeclaredValueWarning`, "error" raises an error, "ignore"
        does nothing. A fit never reports them, since the counts depend on the private rows (see
        :meth:`check`).
    in_memory : bool or "auto", default="auto"
        Whether to hold the encoded rows in memory; if most encoded entries are zero, a column of
        categories takes one code per row. "auto" reads the rows in blocks if they would take more
        than 64 MiB, with five rows for each person. Solvers that need single rows need True.
    random_state : None, int or NumPy generator, default=None
        None draws the noise from the operating system's randomness. Anything else makes the fit
        repeatable and the report says not to release it.

    Attributes
    ----------
    schema_ : TableSchema
        The declaration, with learned ranges.
    estimator_ : estimator
        The fitted estimator of the encoded rows.
    coef_, intercept_ : ndarray
        Weights of the encoded columns, which :meth:`get_feature_names_out` names, and intercept.
    classes_ : ndarray
        The labels in the declared order; classifiers only.
    column_blocks_ : tuple of ColumnBlock
        Which encoded columns belong together.
    privacy_ : dpfast.privacy.PrivacyReport
        The guarantee and the ledger that supports it.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        The columns of the table that are read for a prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from dpfast import TableModel
    >>> rng = np.random.default_rng(0)
    >>> age, smoker = rng.integers(18, 90, 5000), rng.random(5000) < 0.3
    >>> ill = np.where(age + 40 * smoker + rng.normal(0, 10, 5000) > 80, "yes", "no")
    >>> table = {"age": age, "smoker": smoker, "ill": ill}
    >>> bounds = {"age": [18, 90], "smoker": [False, True], "ill": ["no", "yes"]}
    >>> model = TableModel(bounds, target="ill", epsilon=1.0, random_state=0).fit(table)
    >>> model.predict({"age": [25, 85], "smoker": ["FALSE", "TRUE"]}).tolist()
    ['no', 'yes']
    >>> model.privacy_.epsilon <= 1.0
    True
    """

    bounds: Any = None
    estimator: Any = "auto"
    epsilon: float = 1.0
    delta: float = 1e-6
    neighboring_relation: str = "replace_one"
    target: str | None = None
    person: str | None = None
    weight: str | None = None
    exposure: str | None = None
    max_rows_per_group: int | None = None
    undeclared: str = "warn"
    in_memory: bool | str = "auto"
    random_state: Any = None

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of the estimator as ``estimator__NAME``; returns self."""
        given = params.get("estimator", self.estimator)
        if isinstance(given, str) and any(name.startswith("estimator__") for name in params):
            family = self.family if given == "auto" else family_of(given)
            params["estimator"] = FAMILIES[family]()
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None
        try:
            schema = self.__dict__.get("schema_") or self._schema()
            inner = unfitted(self.estimator, schema, {}).__sklearn_tags__()
        except (TypeError, ValueError, OSError):
            return tags  # what is wrong with the parameters is for `fit` to say
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        return tags

    # ---- fitting --------------------------------------------------------------------------------

    def prepare(self, data: Any, y: Any = None, *, progress: Progress | None = None) -> TableFit:
        """Read and check everything that a fit needs; nothing is spent.

        Parameters
        ----------
        data : data frame, dict of columns, path of a CSV or Parquet file, or 2-d array
            Arrays have the columns of the bounds in their order, without the target.
        y : array-like of shape (n_samples,) or None, default=None
            The target, if it is not a column of `data`.
        progress : callable, optional
            Called with the share of a file that was read.

        Returns
        -------
        TableFit
            With the plan; its ``run()`` spends the budget.

        Raises
        ------
        TypeError, ValueError, DataError
            If a parameter, the bounds or a value of the table is invalid.
        """
        self._check_choices()
        schema = self._schema()
        self._refuse_unread(schema)
        if y is not None:
            _question_order(schema.target)
        data = self._with_target(data, y, schema)
        used = schema.columns_read(fit=True)
        rows = TableRows(*self._coded(data, schema, progress))
        plan = self.plan(rows.n_records)
        plan.check_affordable()
        names = column_names(data, form_of(data, schema.csv))
        unused = tuple(name for name in names if name not in used)
        return TableFit(plan, rows, unused, self._set_fitted, self.random_state)

    def _refuse_unread(self, schema: TableSchema) -> None:
        """Refuse, before the rows are read, what no number of them would allow."""
        if schema.learns:
            return
        try:
            self._planned(schema, _MANY, True)
        except Exception as error:
            try:
                self._planned(schema, _FEW, True)
            except Exception as other:
                if str(other) == str(error):
                    raise error from None

    def plan(self, n_samples: int) -> FitPlan:
        """What a fit to that many rows would do and cost; needs no data and spends nothing.

        Parameters
        ----------
        n_samples : int
            With a person column, the number of persons.

        Returns
        -------
        FitPlan

        Raises
        ------
        TypeError, ValueError, DataError
            If a parameter or the bounds are invalid, or no plan supports them.
        """
        self._check_choices()
        schema = self._schema()
        check_promise(Budget(self.epsilon, self.delta), n_samples, schema.unit)
        if schema.target.name not in schema.learns:
            self._unfitted(schema)._question_bounds()
        # How many rows a person has is private.
        rows = n_samples * (1 if schema.person is None else _ROWS_OF_PERSON)
        plan = self._planned(schema, n_samples, rows * schema.row_bytes <= _HELD_BYTES)
        question_regime(plan.solver, plan.noun)
        question_prior(plan.estimator.prior, plan.solver, plan.estimator.accountant)
        return plan

    def _planned(self, schema: TableSchema, n_samples: int, small: bool) -> FitPlan:
        """A plan for rows that are small enough for memory, or not."""
        held = small if self.in_memory == "auto" else bool(self.in_memory)
        return plan_fit(self._unfitted(schema), schema, n_samples, held)

    def fit(self, data: Any, y: Any = None, **unknown: Any) -> Self:
        """Fit privately; the budget is spent when this returns.

        Parameters
        ----------
        data, y
            As for :meth:`prepare`.
        **unknown
            Refused: weights, exposures and persons are columns.

        Raises
        ------
        TypeError, ValueError, DataError
            As for :meth:`prepare`; nothing is spent.
        dpfast.BudgetExceeded
            If an accountant around this cannot afford it; nothing is spent.
        """
        if unknown:
            raise TypeError(
                "fit must get the table and, if it is none of its columns, y; got "
                f"{', '.join(unknown)}. Weights, exposures and persons are columns of the table: "
                "name them as weight, exposure or person of the TableModel."
            )
        self.prepare(data, y).run()
        return self

    def check(self, data: Any, *, progress: Progress | None = None) -> Tally:
        """Look at a table **without protection**: count the values that were never declared.

        And name the numbers that may be truth values. Reads what a fit would read and spends
        nothing. The counts are exact numbers of private rows, for people who may see the rows; no
        guarantee covers their use. Bounds that you change until they fit the data are no longer
        public.

        Parameters
        ----------
        data, progress
            As for :meth:`prepare`.

        Returns
        -------
        Tally
            Counts by column; as text, a sentence, which is empty if all was declared.

        Raises
        ------
        DataError
            If a value does not fit its declaration; the message names every such column.
        """
        schema = self._schema()
        coder, parts = self._coded(data, schema, progress)
        coder.tally.only_ends = {c.name for c in schema.features if isinstance(c, NumberColumn)}
        wrong: dict[str, DataError] = {}
        for chunk in parts:
            coder.codes(chunk, wrong)
        if wrong:
            raise in_one(list(wrong.values()))
        return coder.tally

    @property
    def family(self) -> str:
        """Name of the kind of model."""
        given = isinstance(self.estimator, str) and self.estimator == "auto"
        return family_of(self.estimator, self._schema().task if given else None)

    @property
    def task(self) -> str | None:
        """What the estimator that was given does: "classification", "regression", or either."""
        if isinstance(self.estimator, str) and self.estimator == "auto":
            return None
        return task_of(family_of(self.estimator))

    @property
    def learned_ranges(self) -> dict[str, tuple[float, float]]:
        """Ranges that were learned from the data, after the columns' transforms."""
        check_is_fitted(self)
        columns = (*self.schema_.features, self.schema_.target)
        found = {column.name: getattr(column, "learned", None) for column in columns}
        return {name: ends for name, ends in found.items() if ends is not None}

    def _check_choices(self) -> None:
        check_choice("undeclared", self.undeclared, ("warn", "error", "ignore"))
        if self.in_memory not in (True, False, "auto"):
            raise ValueError(f"in_memory must be True, False or 'auto'; got {self.in_memory!r}.")

    def _schema(self) -> TableSchema:
        """The declaration, checked, with what standard errors need."""
        schema, estimator = self._declared(), self.estimator
        if getattr(estimator, "inference", False) and getattr(estimator, "fit_intercept", False):
            return schema.with_references()
        return schema

    def _declared(self) -> TableSchema:
        """The declaration, checked."""
        bounds = self.bounds
        if bounds is None:
            raise ValueError(
                "bounds must be given; got None. They declare what is publicly known of the "
                'columns: {"age": [18, 110], "ill": ["no", "yes"], "target": "ill"}, or a file.'
            )
        if isinstance(bounds, TableSchema):
            return bounds
        if is_path(bounds):
            if not os.path.exists(bounds):
                raise FileNotFoundError(
                    "bounds must be a dict, or the path of a JSON file with one; there is no file "
                    f"{os.fspath(bounds)[:60]!r}."
                )
            bounds = read_bounds(bounds)
        return TableSchema.from_bounds(
            bounds,
            target=self.target,
            person=self.person,
            weight=self.weight,
            exposure=self.exposure,
            task=self.task,
        )

    def _unfitted(self, schema: TableSchema) -> Any:
        """The estimator of the encoded rows, with the whole budget."""
        settings = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighboring_relation": self.neighboring_relation,
            "random_state": self.random_state,
        }
        if schema.person is None:
            if self.max_rows_per_group is not None:
                raise ValueError(
                    "max_rows_per_group must be None without a person column; got "
                    f"{self.max_rows_per_group!r}. Name the column by person."
                )
        else:
            settings["max_rows_per_group"] = self.max_rows_per_group
        estimator = unfitted(self.estimator, schema, settings)
        try:
            estimator._resolve_targets(None)
        except ValueError as error:
            if "target_bounds" not in str(error):
                raise
            raise ValueError(
                f"{error} (Of a table these are the declared range of {schema.target.name!r}.)"
            ) from None
        return estimator

    def _with_target(self, data: Any, y: Any, schema: TableSchema) -> Any:
        """The table with its target, from the forms in which scikit-learn passes it."""
        if isinstance(data, np.ndarray | list):
            names = [column.name for column in schema.features]
            data = _named(data, names)
        if y is None:
            return data
        if is_path(data):
            raise ValueError("y must be None where the table is a file, which has its target.")
        target = schema.target.name
        if target in column_names(data):
            raise ValueError(
                f"y must be None: the table has the target {target!r} as a column. Leave out one."
            )
        columns = {name: data[name] for name in column_names(data)}
        refuse_masked("y", y)
        return {**columns, target: y if hasattr(y, "to_numpy") else np.asarray(y)}

    def _coded(
        self, data: Any, schema: TableSchema, progress: Progress | None
    ) -> tuple[RowCoder, Iterator[Chunk]]:
        """What makes codes of the table's rows, and the rows."""
        form, names = form_of(data, schema.csv), schema.columns_read(fit=True)
        if schema.person is not None:
            check_persons(data, schema.person, names)
        return RowCoder(schema, fit=True, form=form), chunks(data, names, progress, form)

    def _say(self, tally: Tally) -> None:
        """Say what was never declared of rows to predict, or refuse it."""
        if not tally or self.undeclared == "ignore":
            return
        if self.undeclared == "error":
            raise DataError(f"{tally} Declare what may be, or set undeclared='warn'.")
        warn(str(tally), UndeclaredValueWarning)

    # ---- predictions ----------------------------------------------------------------------------

    def as_prior(self) -> CoefficientPrior:
        """Coefficients of the encoded columns and what the noise may have done to them.

        The model itself is the `prior` of the estimator of another TableModel that is declared
        alike: ``TableModel(bounds, LogisticRegression(prior=last_month))``.
        """
        check_is_fitted(self)
        prior: CoefficientPrior = self.estimator_.as_prior()
        return replace(prior, privacy=self.privacy_)  # of all that was learned, ranges among it

    def encoded(
        self,
        data: Any,
        *,
        with_target: bool = False,
        keep: Sequence[str] = (),
        tally: Tally | None = None,
        progress: Progress | None = None,
    ) -> Iterator[EncodedRows]:
        """The encoded rows of a table, some thousands at a time.

        Parameters
        ----------
        data
            As for :meth:`predict`.
        with_target : bool, default=False
            Read the target, too.
        keep : sequence of str, default=()
            Columns that are passed on as they are.
        tally : Tally, optional
            Gets the counts of what was never declared.
        progress : callable, optional
            Called with the share of a file that was read.
        """
        check_is_fitted(self)
        schema = self.schema_
        if with_target:
            schema = replace(schema, weight=None, person=None)
        data = self._with_target(data, None, schema)
        form = form_of(data, schema.csv)
        coder = RowCoder(schema, fit=with_target, form=form)
        coder.tally = Tally() if tally is None else tally
        names = dict.fromkeys([*schema.columns_read(fit=with_target), *keep])
        # A chunk of text may have many rows, and these thousands of columns.
        step = block_rows(len(schema.feature_names))
        for chunk in raw_chunks(data, list(names), progress, form):
            records = coder.codes(plain_chunk(chunk))
            for start in range(0, len(records), step):
                span = slice(start, start + step)
                some = records[span]
                yield EncodedRows(
                    encode(schema, some),
                    np.array(some["target"]) if with_target else None,
                    np.array(some["exposure"]) if schema.exposure is not None else None,
                    {name: getattr(chunk[name], "iloc", chunk[name])[span] for name in keep},
                )

    def transform(self, data: Any) -> NDArray[np.float64]:
        """The encoded rows of a table, shape (n_samples, n_columns)."""
        return self._on_rows(lambda part: part.X, data)

    def predict(self, data: Any) -> NDArray[Any]:
        """Label, or predicted number, of each row; of a rate, that times the row's exposure.

        Parameters
        ----------
        data : data frame, dict of columns, path of a CSV or Parquet file, or 2-d array
            Columns other than those of ``feature_names_in_`` are ignored.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self.labels(
            self._on_rows(lambda part: part.totals(self.estimator_.predict(part.X)), data)
        )

    def labels(self, codes: NDArray[Any]) -> NDArray[Any]:
        """What the estimator of the encoded rows calls by its position; numbers stay numbers."""
        target = self.schema_.target
        return target.labels[codes] if isinstance(target, ClassTarget) else codes

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, data: Any) -> NDArray[np.float64]:
        """Probability of each class, in the order of ``classes_``; shape (n_samples, n_classes)."""
        check_is_fitted(self)
        return self._on_rows(lambda part: self.estimator_.predict_proba(part.X), data)

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, data: Any) -> NDArray[np.float64]:
        """Margins; of two classes, positive favors the second."""
        check_is_fitted(self)
        return self._on_rows(lambda part: self.estimator_.decision_function(part.X), data)

    def score(self, data: Any, y: Any = None) -> float:
        """Accuracy of a classifier, R² of a mean; D² of a quantile, and with a log link.

        Not private: it is computed from the targets.
        """
        found = self.evaluate(self._with_target(data, y, self.schema_))
        name = "accuracy" if is_classifier(self.estimator_) else "deviance_explained"
        if name not in found:
            raise DataError(
                f"the target {self.schema_.target.name!r} must hold different numbers for a share "
                "of what is explained; got one number in all rows. Score more rows."
            )
        return found[name]

    def evaluate(
        self,
        data: Any,
        threshold: float | None = None,
        *,
        tally: Tally | None = None,
        progress: Progress | None = None,
    ) -> Scores:
        """Scores on rows with a target, computed without noise: the guarantee does not cover them.

        Parameters
        ----------
        data
            As for :meth:`predict`, with the target.
        threshold : float or None, default=None
            Of two classes, the probability from which on a row counts as the second; None is that
            of the model, mostly 0.5.
        tally, progress
            As for :meth:`encoded`.

        Returns
        -------
        dict of str to float
            See :mod:`dpfast.tabular.scores`; with exposures, of rates, which weigh what they do in
            the fit.

        Raises
        ------
        DataError
            If targets are none of the family: zeros or negative ones for "gamma".
        """
        check_is_fitted(self)
        inner, tally = self.estimator_, Tally() if tally is None else tally
        y: list[Any] = []
        outputs: list[Any] = []
        exposures: list[Any] = []
        for part in self.encoded(data, with_target=True, tally=tally, progress=progress):
            y.append(part.target)
            outputs.append(output_of(inner, part.X))
            exposures.append(part.exposure)
        self._say(tally)
        weight, targets = self.weights_of(exposures), np.concatenate(y)
        if hasattr(inner, "check_targets"):
            try:
                inner.check_targets(f"the target {self.schema_.target.name!r}", targets)
            except ValueError as error:
                raise DataError(str(error)) from None
        return scores_of(inner, targets, np.concatenate(outputs), threshold, weight)

    def weights_of(self, exposures: Sequence[Any]) -> NDArray[np.float64] | None:
        """What rates over these exposures weigh in a score; None where there are none."""
        if self.schema_.exposure is None:
            return None
        found: NDArray[np.float64] = np.concatenate(exposures)
        return found ** exposure_exponent(self.estimator_)

    def _on_rows(self, function: Callable[[EncodedRows], Any], data: Any) -> NDArray[Any]:
        """A function of the encoded rows."""
        tally = Tally()
        parts = [function(part) for part in self.encoded(data, tally=tally)]
        self._say(tally)
        return np.concatenate(parts)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the encoded columns."""
        check_is_fitted(self)
        return np.array(self.schema_.feature_names, dtype=object)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients of the encoded columns."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.coef_)

    @property
    def intercept_(self) -> Any:
        """Intercepts."""
        check_is_fitted(self)
        return self.estimator_.intercept_

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels in the order in which they were declared."""
        check_is_fitted(self)
        target = self.schema_.target
        if not isinstance(target, ClassTarget):
            raise AttributeError("a regressor has no classes_.")
        return target.labels

    @property
    def column_blocks_(self) -> Any:
        """Which encoded columns belong together."""
        check_is_fitted(self)
        return self.schema_.column_blocks

    def __sklearn_is_fitted__(self) -> bool:
        return "schema_" in self.__dict__

    def _set_fitted(self, schema: TableSchema, estimator: Any, report: PrivacyReport) -> Self:
        """Set what a fit gives, all at once."""
        names = np.array([column.name for column in schema.features], dtype=object)
        self.__dict__.update(
            schema_=schema,
            estimator_=estimator,
            privacy_=report,
            feature_names_in_=names,
            n_features_in_=len(names),
        )
        return self

    def summary(self, level: float = 0.95) -> Summary:
        """The table of the columns' effects, for an estimator with ``inference=True``.

        Parameters
        ----------
        level : float, default=0.95
            Of the intervals.

        Returns
        -------
        Summary
            In units of the table, as its notes say: an effect is that of one more (after the
            column's transform), of a day, of true against false, or of a category against its
            reference.  ``estimator_.summary()`` has those of the encoded columns.

        Raises
        ------
        AttributeError
            If the estimator was fitted without standard errors.
        """
        check_is_fitted(self)
        found: Summary = self.estimator_.summary(level)
        steps = self.schema_.unit_steps()
        factors = np.ones(len(found.estimates.names))  # the intercept is the last, if there is one
        factors[: len(steps)] = steps
        in_units = found.estimates.in_units(factors)
        return replace(found, estimates=in_units, notes=(*found.notes, _IN_UNITS))

    # ---- files ----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model file: JSON with coefficients, declaration and privacy report.

        Standard errors (``inference=True``) are in it.

        Raises
        ------
        OSError
            If it cannot be written; an existing file stays unchanged.
        """
        check_is_fitted(self)
        write_model(path, stored(self.estimator_, self.schema_, self.privacy_))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model file; everything in it is checked, nothing is executed.

        Raises
        ------
        dpfast.errors.ModelFileError
            If the file is not a complete model.
        """
        found = read_model(path)
        report = found.privacy
        model = cls(
            found.schema.to_dict(),
            clone(FAMILIES[found.family](**found.parameters)),
            epsilon=report.epsilon,
            delta=report.delta,
            neighboring_relation=row_relation(report.neighboring_relation),
        )
        estimator = restored(found)
        estimator._file = os.path.basename(path)  # by which a report names it as a prior
        return model._set_fitted(found.schema, estimator, report)


def _question_order(target: Target) -> None:
    """Warn of an order of classes that scikit-learn, which passes `y`, does not expect."""
    if not isinstance(target, ClassTarget) or np.all(target.labels[1:] > target.labels[:-1]):
        return
    warn(
        f"the classes of {target.name!r} are not declared in sorted order; got "
        f"{', '.join(map(repr, target.classes[:8]))}. The model keeps your order in classes_ and "
        "predict_proba, but scikit-learn's own scores (roc_auc, neg_log_loss) and meta-estimators "
        "(calibration) take classes as sorted, and would be wrong or fail. score() and evaluate() "
        "are right. For the others declare sorted classes, such as [false, true], and pass y as "
        "one of these.",
        QuestionableSettingWarning,
    )


def _named(data: Any, names: list[str]) -> dict[str, Any]:
    """The columns of an array, which are those of the bounds in their order."""
    refuse_masked("X", data)
    array = np.asarray(data, dtype=None if isinstance(data, np.ndarray) else object)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise ValueError(
            f"X must have the {len(names)} columns of the bounds in their order, {names[:8]}; got "
            f"{type(data).__name__} of shape {array.shape}. A data frame has names, as of a list "
            "pandas.DataFrame(rows). (Of several Parquet files, give what "
            "pyarrow.dataset.dataset(files).to_table() returns.)"
        )
    return {name: array[:, j] for j, name in enumerate(names)}
