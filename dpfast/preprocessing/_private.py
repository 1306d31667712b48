"""What the private scalers share: parameters, validation, one ledger, one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpfast._arrays import fitted_or_as_before, validated
from dpfast._typing import Vector
from dpfast._validation import check_choice
from dpfast.curator import Curator
from dpfast.groups import index_groups
from dpfast.preprocessing._columns import NumberColumns, column_bounds
from dpfast.privacy import NEIGHBORING_RELATIONS, Budget, Ledger, PrivacyReport, relation_of
from dpfast.privacy.budget import check_promise
from dpfast.queries.columns import GroupedColumns
from dpfast.random import SecureGenerator
from dpfast.shape import MOST_ROWS

DTYPES = (np.float64, np.float32)


class Task(NamedTuple):
    """What a scaler learns from: so many records, through a curator, cut to public bounds."""

    n_records: int
    n_columns: int
    low: Vector
    high: Vector
    budget: Budget
    curator: Curator
    relation: str


class PrivateScaler(NumberColumns):
    """A scaler that learns from the data what its budget allows.

    Every value is cut to its declared bounds before anything is computed from it.

    Parameters
    ----------
    bounds : (low, high), sequence of (low, high), or dict of str to (low, high)
        Public bounds, as for :class:`BoundedScaler`: values outside are cut to them.
    epsilon : float, default=1.0
        Privacy loss ε > 0 of the fit.
    delta : float, default=1e-6
        Probability δ in [0, 1) outside the ε bound; 0 asks for pure ε-differential privacy.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets are neighbors: one record is replaced by any other, or is absent.
    random_state : None, int or NumPy generator, default=None
        None draws the noise from the operating system's randomness. Anything else makes the fit
        repeatable and the report says not to release it.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if `X` had string column names.
    column_blocks_ : tuple of ColumnBlock
        Every column is one of numbers.
    privacy_ : dpfast.privacy.PrivacyReport
        The guarantee and the ledger that supports it.

    Notes
    -----
    Missing or infinite values are an error, which itself depends on the data.

    There is no `partial_fit`: every access to the data is paid for, and fitting again pays again.
    """

    def __init__(
        self,
        bounds: Sequence[Any] | Mapping[str, Sequence[float]] | NDArray[Any],
        epsilon: float = 1.0,
        delta: float = 1e-6,
        neighboring_relation: str = "replace_one",
        random_state: Any = None,
    ) -> None:
        self.bounds = bounds
        self.epsilon = epsilon
        self.delta = delta
        self.neighboring_relation = neighboring_relation
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.non_deterministic = self.random_state is None
        return tags

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Learn privately; the budget is spent when this returns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        groups : array-like of shape (n_samples,) or None, default=None
            Whose row each is, a person's, say, as in the estimators' `fit`: the guarantee is then
            for all rows of one group together, of which the mean counts (of more than 1000 rows,
            that of 1000 chosen ones).  The number of groups is public, that of rows is not.

        Raises
        ------
        TypeError, ValueError
            If a parameter is not as documented, or does not match the columns; nothing is spent.
        dpfast.BudgetExceeded
            If an accountant around this cannot afford it; nothing is spent.
        """
        budget = Budget(self.epsilon, self.delta)
        check_choice("neighboring_relation", self.neighboring_relation, NEIGHBORING_RELATIONS)
        # Else an older report could stand beside what is learned now.
        with np.errstate(all="ignore"), fitted_or_as_before(self):
            X = validated(self, X, dtype=DTYPES)
            low, high = self._bounds()
            rng = SecureGenerator(self.random_state)
            ledger = Ledger(budget)
            rows, records, unit = X, len(X), "row"
            if groups is not None:
                found = index_groups(groups, records, MOST_ROWS)
                rows = GroupedColumns(found.ordered(X), np.repeat(found.sizes, found.sizes))
                records, unit = found.count, "group"
            check_promise(budget, records, unit)
            relation = relation_of(self.neighboring_relation, unit)
            curator = Curator(rows, ledger, rng)
            self._learn(Task(records, X.shape[1], low, high, budget, curator, relation))
            self.privacy_ = PrivacyReport.from_ledger(ledger, reproducible=rng.reproducible)
        return self

    def _learn(self, task: Task) -> None:
        """Set the fitted attributes, from what the curator releases."""
        raise NotImplementedError

    def _bounds(self) -> tuple[Vector, Vector]:
        names = getattr(self, "feature_names_in_", None)
        low, high = column_bounds(self.bounds, self.n_features_in_, names)
        return np.asarray(low), np.asarray(high)

    def transform(self, X: Any) -> NDArray[Any]:
        """Cut to public bounds, or to what was learned within them, and scale.

        The result has the shape of `X`, (n_samples, n_features).
        """
        check_is_fitted(self)
        return self._scaled(validated(self, X, dtype=DTYPES, reset=False))

    def _scaled(self, X: NDArray[Any]) -> NDArray[Any]:
        """Rows by the fitted attributes."""
        raise NotImplementedError
