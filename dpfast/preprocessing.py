"""Data-independent transformers: what they do is fixed by public parameters, never by the data.

Scaling by a range, a mean or a list of categories that was read off private data leaks them, and no
noise added later takes that back. The transformers here learn nothing in ``fit``, so they cost no
privacy budget and can stand in front of a private estimator in a pipeline.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dpfast._validation import check_choice, check_real


def scale_to_range(
    X: NDArray[Any],
    low: ArrayLike,
    high: ArrayLike,
    feature_range: tuple[float, float] = (-1.0, 1.0),
) -> NDArray[Any]:
    """Cut values to ``[low, high]`` and map that interval linearly onto `feature_range`.

    The result lies in `feature_range` exactly: what rounding takes outside is cut again.

    Parameters
    ----------
    X : ndarray of shape (n, d), floating point
    low, high : array-like of shape (d,) or float
        Public, ``low < high``.
    feature_range : (float, float), default=(-1.0, 1.0)

    Returns
    -------
    ndarray of shape (n, d), of the dtype of `X`

    Examples
    --------
    >>> scale_to_range(np.array([[17.0], [53.5], [120.0]]), 17.0, 90.0).ravel()
    array([-1.,  0.,  1.])
    """
    start, stop = feature_range
    floor, ceiling = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    # In float64 whatever X is: bounds that differ may be equal in float32.
    result = np.clip(X.astype(np.float64), floor, ceiling)
    result -= floor
    result /= ceiling - floor
    result *= stop - start
    result += start
    return np.clip(result, start, stop, out=result).astype(X.dtype, copy=False)


def one_hot(
    column: ArrayLike, categories: Sequence[Any], *, other: bool = True
) -> NDArray[np.float64]:
    """Encode one column over a public list of categories.

    Parameters
    ----------
    column : array-like of shape (n,)
        Compared as text if the categories are text, as numbers otherwise.
    categories : sequence of k str, or of k real numbers
    other : bool, default=True
        Append a column that is 1 where the value is not in the list. Otherwise such a row is 0.

    Returns
    -------
    ndarray of shape (n, k + 1), or (n, k) without `other`

    Raises
    ------
    ValueError
        If the categories are text and the column is floating point, or if they are numbers and the
        column holds text that is not a number.

    Examples
    --------
    >>> one_hot(["no", "yes", "maybe"], ["no", "yes"])
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    values = np.asarray(column)
    if isinstance(categories[0], str):
        # "1.0" would never equal a category "1": a whole column of unknowns is a slip, not data.
        if values.dtype.kind in "fc":
            raise ValueError(
                f"a column with text categories must hold text or integers; got {values.dtype}. "
                "Convert the column to text, or give the categories as numbers."
            )
        values = values.astype(np.str_)
    else:
        values = values.astype(np.float64)
    result = np.empty((len(values), len(categories) + other))
    for j, category in enumerate(categories):
        np.equal(values, category, out=result[:, j])
    if other:
        known = result[:, :-1].sum(axis=1)
        np.subtract(1.0, known, out=result[:, -1])
    return result


class BoundedScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Cut each column to public bounds and scale it linearly.

    Use it where :class:`sklearn.preprocessing.MinMaxScaler` or ``StandardScaler`` would read the
    range off the data. With the default range every value lies in [-1, 1], so a row of d columns
    has a norm of at most ``sqrt(d)``: a public `data_norm` for a private estimator.

    Parameters
    ----------
    bounds : (low, high), sequence of (low, high), or dict of str to (low, high)
        Public bounds, ``low < high``, finite: one pair for all columns, one pair for each column in
        order, or one pair for each column name (for data frames). Values outside are cut to them,
        so a bound that is too narrow costs accuracy and never privacy.
    feature_range : (float, float), default=(-1, 1)
        Where the bounds are mapped to.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if `X` had string column names.

    Notes
    -----
    Missing or infinite values are an error, which itself depends on the data: replace them by a
    fixed value beforehand if nothing but the noisy result may leave the room.

    Examples
    --------
    >>> scaler = BoundedScaler(bounds=[(0, 10), (17, 90)])
    >>> scaler.fit_transform([[5.0, 17.0], [20.0, 90.0]])
    array([[ 0., -1.],
           [ 1.,  1.]])
    """

    def __init__(
        self,
        bounds: Sequence[Any] | Mapping[str, Sequence[float]] | NDArray[Any],
        feature_range: tuple[float, float] = (-1, 1),
    ) -> None:
        self.bounds = bounds
        self.feature_range = feature_range

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> BoundedScaler:
        """Check the parameters against the columns of `X`; nothing is learned from its values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If the bounds or the range are not as documented, or do not match the columns.
        """
        validate_data(self, X, dtype=(np.float64, np.float32))
        self._columns()
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Cut and scale.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        low, high, feature_range = self._columns()
        return scale_to_range(X, low, high, feature_range)

    def _columns(self) -> tuple[list[float], list[float], tuple[float, float]]:
        # Derived from the parameters at each call, not kept: they are the only state.
        feature_range = _interval("feature_range", self.feature_range)
        if _is_pair(self.bounds):
            pairs = [_interval("bounds", self.bounds)] * self.n_features_in_
        else:
            names = getattr(self, "feature_names_in_", None)
            entries = _by_column("bounds", self.bounds, self.n_features_in_, names)
            pairs = [_interval(f"bounds of column {key!r}", pair) for key, pair in entries]
        low, high = zip(*pairs, strict=True)
        return list(low), list(high), feature_range


class PublicOneHotEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """One-hot encode columns over public lists of categories.

    :class:`sklearn.preprocessing.OneHotEncoder` reads its categories off the data by default, which
    tells whether anybody in the data has a rare one. Here they are declared. Each column becomes a
    row of norm 1 (at most 1 with ``handle_unknown="ignore"``), so k columns together have a norm of
    at most ``sqrt(k)``.

    Parameters
    ----------
    categories : sequence of sequences, or dict of str to sequence
        Public categories of each column in order, or by column name (for data frames): all text or
        all numbers within a column.
    handle_unknown : {"other", "ignore"}, default="other"
        What a value that is not in its list becomes: a 1 in a further column ``<other>``, or zeros.
        There is no choice that raises an error, since it would depend on the data.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if `X` had string column names.

    Examples
    --------
    >>> encoder = PublicOneHotEncoder(categories=[["no", "yes"]])
    >>> encoder.fit_transform([["yes"], ["perhaps"]])
    array([[0., 1., 0.],
           [0., 0., 1.]])
    >>> encoder.get_feature_names_out(["smoker"])
    array(['smoker_no', 'smoker_yes', 'smoker_<other>'], dtype=object)
    """

    def __init__(
        self,
        categories: Sequence[Sequence[Any]] | Mapping[str, Sequence[Any]],
        handle_unknown: str = "other",
    ) -> None:
        self.categories = categories
        self.handle_unknown = handle_unknown

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> PublicOneHotEncoder:
        """Check the parameters against the columns of `X`; nothing is learned from its values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If the categories are not as documented, or do not match the columns.
        """
        validate_data(self, X, dtype=None, ensure_all_finite=False)
        self._columns()
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Encode.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_columns_out)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=None, ensure_all_finite=False, reset=False)
        blocks = []
        for j, (name, categories) in enumerate(self._columns()):
            try:
                blocks.append(one_hot(X[:, j], categories, other=self.handle_unknown == "other"))
            except (TypeError, ValueError) as error:
                raise ValueError(f"Column {name!r}: {error}") from error
        return np.hstack(blocks)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Names of the columns of the result: ``column_category``.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            None takes the names seen in `fit`, or ``x0``, ``x1`` and so on.

        Returns
        -------
        ndarray of str objects

        Raises
        ------
        ValueError
            If the names do not match those seen in `fit`.
        """
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        if input_features is None:
            names = [f"x{j}" for j in range(self.n_features_in_)] if known is None else list(known)
        else:
            names = [str(name) for name in np.asarray(input_features, dtype=object)]
            if len(names) != self.n_features_in_ or (known is not None and names != list(known)):
                raise ValueError(
                    f"input_features must be the {self.n_features_in_} columns seen in fit; "
                    f"got {names!r}."
                )
        return np.asarray(
            [
                f"{name}_{category}"
                for name, (_, categories) in zip(names, self._columns(), strict=True)
                for category in [*categories, *(["<other>"] * (self.handle_unknown == "other"))]
            ],
            dtype=object,
        )

    def _columns(self) -> list[tuple[str, list[Any]]]:
        check_choice("handle_unknown", self.handle_unknown, ("other", "ignore"))
        names = getattr(self, "feature_names_in_", None)
        entries = _by_column("categories", self.categories, self.n_features_in_, names)
        return [(key, _categories(f"categories of column {key!r}", raw)) for key, raw in entries]


def _by_column(
    name: str, value: Any, n_features: int, feature_names: NDArray[Any] | None
) -> list[tuple[str, Any]]:
    """Pairs (column name, entry) in column order, from a sequence or a dict."""
    if isinstance(value, Mapping):
        if feature_names is None:
            raise ValueError(
                f"{name} is a dict, but X has no column names. Pass a data frame, or "
                f"list({name}.values()) if the dict is in column order."
            )
        columns = list(feature_names)
        missing = [column for column in columns if column not in value]
        unused = [key for key in value if key not in columns]
        if missing or unused:
            raise ValueError(
                f"{name} must name the columns of X; no entry for {missing}, no column for "
                f"{unused}."
            )
        return [(column, value[column]) for column in columns]
    entries = list(value)
    if len(entries) != n_features:
        raise ValueError(
            f"{name} must have one entry for each of the {n_features} columns of X; "
            f"got {len(entries)}."
        )
    columns = [f"x{j}" for j in range(n_features)] if feature_names is None else list(feature_names)
    return list(zip(columns, entries, strict=True))


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, Sequence | np.ndarray)
        and len(value) == 2
        and all(isinstance(end, numbers.Real) for end in value)
    )


def _interval(name: str, value: Any) -> tuple[float, float]:
    if not _is_pair(value):
        raise ValueError(f"{name} must be a pair of numbers (low, high); got {value!r}.")
    low, high = (check_real(name, end) for end in value)
    if not 0.0 < high - low < math.inf:
        raise ValueError(f"{name} must have low < high (and a finite width); got {value!r}.")
    return low, high


def _categories(name: str, value: Any) -> list[Any]:
    if isinstance(value, str) or np.ndim(value) != 1 or len(value) == 0:
        raise ValueError(f"{name} must be a non-empty list; got {value!r}.")
    categories = list(value)
    text = all(isinstance(entry, str) for entry in categories)
    numbers = all(
        isinstance(entry, int | float | np.number | np.bool_) and not math.isnan(entry)
        for entry in categories
    )
    if not (text or numbers):
        raise TypeError(f"{name} must be all text or all numbers, without NaN; got {value!r}.")
    if len(set(categories)) < len(categories):
        raise ValueError(f"{name} must differ from each other; got {value!r}.")
    return categories
