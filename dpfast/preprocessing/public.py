"""Data-independent transformers: what they do is fixed by public parameters, never by the data.

They learn nothing in ``fit``, so they cost no privacy budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dpfast._arrays import may_be_rounded, refuse_masked, validated
from dpfast._validation import check_choice, check_real, warn
from dpfast.column_blocks import ColumnBlock
from dpfast.errors import UndeclaredValueWarning
from dpfast.preprocessing._columns import NumberColumns, by_column, column_bounds, interval
from dpfast.preprocessing.matching import Distinct, Index, alone, is_null, meanings, objects
from dpfast.queries.columns import scale_to_range


def one_hot(
    column: ArrayLike, categories: Sequence[Any], *, other: bool = True
) -> NDArray[np.float64]:
    """Encode one column over a public list of categories.

    Parameters
    ----------
    column : array-like of shape (n,)
        Compared as text if the categories are text (``TRUE`` means ``True``, and 1.0 means 1), as
        numbers otherwise.
    categories : sequence of k str, or of k real numbers
    other : bool, default=True
        Append a column that is 1 where the value is not in the list. Otherwise such a row is 0.

    Returns
    -------
    ndarray of shape (n, k + 1), or (n, k) without `other`

    Raises
    ------
    ValueError
        If the categories are text of which none can be a number and the column holds numbers, or
        if they are numbers and the column holds text that is not a number.

    Examples
    --------
    >>> one_hot(["no", "yes", "maybe"], ["no", "yes"])
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    codes = _positions(alone(column), categories)
    k = len(categories)
    # The last row is that of all other values.
    table = np.zeros((k + 1, k + other))
    table[:, : k + other] = np.eye(k + 1)[:, : k + other]
    return table[np.minimum(codes, k)]


def _positions(values: NDArray[Any] | Distinct, categories: Sequence[Any]) -> NDArray[np.intp]:
    """Positions of the categories that values mean; k or more for those that mean none."""
    if not isinstance(categories[0], str):
        if isinstance(values, Distinct):
            codes = _positions(np.array(values.texts, dtype=object), categories)
            return np.asarray(codes[values.places])
        return _positions_of_numbers(_numbers(values), categories)
    index = Index(categories)
    if not isinstance(values, Distinct):
        _refuse_kind(values.dtype)
    if isinstance(values, Distinct) or values.dtype.kind not in "biuf":
        return index.codes(values if isinstance(values, Distinct) else _texts(values))
    # A whole column of unknowns is a slip, not data.
    if not any(len(meanings(c)) > 1 for c in categories):
        raise ValueError(
            f"a column with text categories must hold text; got {values.dtype}. Convert the "
            "column to text, or give the categories as numbers."
        )
    codes = index.codes(values)
    if values.dtype.kind == "f":
        codes[np.isnan(values)] = index["nan"]  # as among texts
    return codes


def _refuse_kind(dtype: Any) -> None:
    """Refuse complex numbers and bytes: a single one makes such of all numbers and texts."""
    if getattr(dtype, "kind", "") in tuple("cSV"):
        raise ValueError(f"Complex data not supported, nor bytes; got {dtype}. Convert the column.")


def _numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "a column with numbers as categories must hold numbers; got others. Give the "
            "categories as text, or convert the column."
        ) from None  # the cause quotes an entry


def _texts(values: NDArray[Any]) -> list[str]:
    entries: list[Any] = values.tolist()
    if set(map(type, entries)) <= {str}:
        return entries
    # As in an array of their own, which has other digits: what an entry means is its own.
    plain = [float(x) if isinstance(x, np.floating) else x for x in entries]
    return [x if type(x) is str else "nan" if is_null(x) else str(x) for x in plain]


def _positions_of_numbers(
    numbers: NDArray[np.float64], categories: Sequence[Any]
) -> NDArray[np.intp]:
    known = np.array(categories, dtype=np.float64)
    order = np.argsort(known)
    codes = order[np.minimum(np.searchsorted(known, numbers, sorter=order), len(known) - 1)]
    return np.where(known[codes] == numbers, codes, len(known))


def _frame_column(column: Any) -> NDArray[Any] | Distinct:
    """A column of a pandas frame; text and categories by their distinct values."""
    kind = str(column.dtype)
    if kind == "category" and column.cat.categories.dtype == bool:
        column, kind = column.astype(object), "object"
    if kind == "category":
        _refuse_kind(column.cat.categories.dtype)
        places, found = column.cat.codes.to_numpy(), column.cat.categories.tolist()
    elif kind in ("str", "string"):
        places, found = column.factorize()
        found = found.tolist()
    else:
        values: NDArray[Any] = column.to_numpy()
        if values.dtype == object:
            values = np.where(column.isna(), np.nan, values)  # pandas' NA is no number
        if may_be_rounded(values):
            # A missing integer is no reason to round the others.
            return np.asarray(column.to_numpy(dtype=object, na_value=math.nan))
        return values.astype(object) if values.dtype.kind in "mM" else values
    # The last is meant where there is no value, whose place is -1.
    return Distinct([*_texts(objects(found)), "nan"], places)


class BoundedScaler(NumberColumns):
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
    column_blocks_ : tuple of ColumnBlock
        One of numbers for each column; see :func:`column_blocks`.
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

        Raises
        ------
        TypeError, ValueError
            If the bounds or the range are not as documented, or do not match the columns.
        """
        validated(self, X, dtype=(np.float64, np.float32))
        self._columns()
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Cut and scale; the result has the shape of `X`, (n_samples, n_features)."""
        check_is_fitted(self)
        X = validated(self, X, dtype=(np.float64, np.float32), reset=False)
        low, high, feature_range = self._columns()
        return scale_to_range(X, low, high, feature_range)

    def _columns(self) -> tuple[list[float], list[float], tuple[float, float]]:
        # Derived from the parameters at each call, not kept: they are the only state.
        feature_range = interval("feature_range", self.feature_range)
        names = getattr(self, "feature_names_in_", None)
        low, high = column_bounds(self.bounds, self.n_features_in_, names)
        return low, high, feature_range


class RowNormClipper(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scale rows that are too long onto the ball of a public radius.

    A transform of one row at a time, which costs no privacy. Private estimators do the same with
    their own `data_norm`; this transformer can come before other steps.

    Parameters
    ----------
    data_norm : float, default=1.0
        Radius of the ball: no row of the result has a larger Euclidean norm. Shorter rows are left
        as they are.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if `X` had string column names.

    Examples
    --------
    >>> RowNormClipper(data_norm=5.0).fit_transform([[3.0, 4.0], [6.0, 8.0]]).round(6)
    array([[3., 4.],
           [3., 4.]])
    """

    def __init__(self, data_norm: float = 1.0) -> None:
        self.data_norm = data_norm

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> RowNormClipper:
        """Check the parameter; nothing is learned from `X` but its number of columns.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored

        Raises
        ------
        TypeError, ValueError
            If `data_norm` is not a positive number.
        """
        validated(self, X, dtype=(np.float64, np.float32), accept_sparse="csr")
        self._radius()
        return self

    def transform(self, X: Any) -> Any:
        """Shorten the rows that are too long, of an array or of a sparse matrix, which becomes CSR.

        The result has the shape of `X`, (n_samples, n_features).
        """
        check_is_fitted(self)
        X = validated(self, X, dtype=(np.float64, np.float32), accept_sparse="csr", reset=False)
        if scipy.sparse.issparse(X) and not X.has_canonical_format:
            # Entries of one place are one number, which may be longer than they are.
            X = X.copy()
            X.sum_duplicates()
        first, second = _shortening(X, self._radius())
        # In float64, or the factor is rounded before the product is, and may be subnormal.
        if scipy.sparse.issparse(X):
            result = X.copy()
            entries = np.diff(X.indptr)
            data = X.data if first is None else X.data * np.repeat(first, entries)
            result.data = (data * np.repeat(second, entries)).astype(X.dtype)
            return result
        whole = X if first is None else X * first[:, np.newaxis]
        return (whole * second[:, np.newaxis]).astype(X.dtype, copy=False)

    def _radius(self) -> float:
        return check_real("data_norm", self.data_norm, low=1e-30, high=1e30)


# Rows with larger entries are divided by a power of two first: the factor for the whole way could
# be subnormal, and have so few bits that it leaves a row twice as long as it may be.
_LARGEST_ENTRY = 1e150


def _shortening(X: Any, radius: float) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Two factors of each row; they leave none longer than `radius`, whatever rounding does.

    The first is None unless a row has huge entries, and a power of two then.
    """
    size = abs(X)
    largest = np.asarray(size.max(axis=1).todense() if scipy.sparse.issparse(X) else size.max(1))
    # By the largest entry, so that no square overflows or vanishes.
    unit = np.where(largest > 0.0, largest, 1.0).ravel().astype(np.float64)
    if scipy.sparse.issparse(X):
        scaled = scipy.sparse.csr_array(size, dtype=np.float64)
        scaled.data /= np.repeat(unit, np.diff(X.indptr))
        squares = np.asarray(scaled.power(2).sum(axis=1)).ravel()
    else:
        squares = np.square(size / unit[:, np.newaxis]).sum(axis=1)
    first: NDArray[np.float64] | None = None
    if unit.max() > _LARGEST_ENTRY:
        first = np.where(unit > _LARGEST_ENTRY, np.ldexp(1.0, 498 - np.frexp(unit)[1]), 1.0)
        unit = unit * first
    # A norm of d entries is known to d/2 + 2 units; the factor, the product and the result in the
    # dtype of X are rounded once each.
    norms = np.sqrt(squares) * unit * (1.0 + (X.shape[1] + 8) * 2.0**-52)
    shorter = radius / np.maximum(norms, radius) * (1.0 - 2.0 * float(np.finfo(X.dtype).eps))
    return first, np.where(norms <= radius, 1.0, shorter)


class PublicOneHotEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """One-hot encode columns over public lists of categories.

    :class:`sklearn.preprocessing.OneHotEncoder` reads its categories off the data by default, which
    reveals whether anyone in the data has a rare one. Here you declare them. Each column becomes a
    row of norm 1 (at most 1 with ``handle_unknown="ignore"``), so k columns together have a norm of
    at most ``sqrt(k)``.

    Parameters
    ----------
    categories : sequence, sequence of sequences, or dict of str to sequence
        Public categories: one list for all columns, one for each column in order, or one for each
        column name (for data frames). All text or all numbers within a column.
    handle_unknown : {"other", "ignore"}, default="other"
        How to encode a value that is not in its list: a 1 in an additional column ``<other>``, or
        zeros. No option raises an error, because the error would depend on the data.
    sparse_output : bool, default=True
        Return a SciPy CSR matrix, which stores only the ones: estimators read it in place. With
        three columns of five categories a fit is as fast with either, with more it is faster.
        False returns an array, which ``set_output(transform="pandas")`` asks for.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if `X` had string column names.
    column_blocks_ : tuple of ColumnBlock
        Which columns of the result belong together; see :func:`column_blocks`.

    Notes
    -----
    Values with the same meaning are equal: ``TRUE`` and ``True``, 1.0 and ``1``. All others are
    counted in an :class:`~dpfast.errors.UndeclaredValueWarning`.

    Examples
    --------
    >>> encoder = PublicOneHotEncoder(categories=[["no", "yes"]])
    >>> encoder.fit_transform([["yes"], ["perhaps"]]).toarray()
    array([[0., 1., 0.],
           [0., 0., 1.]])
    >>> encoder.get_feature_names_out(["smoker"])
    array(['smoker_no', 'smoker_yes', 'smoker_<other>'], dtype=object)
    """

    def __init__(
        self,
        categories: Sequence[Any] | Mapping[str, Sequence[Any]],
        handle_unknown: str = "other",
        sparse_output: bool = True,
    ) -> None:
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.sparse_output = sparse_output

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

        Raises
        ------
        TypeError, ValueError
            If the categories are not as documented, or do not match the columns.
        """
        self._values(X, reset=True)
        self._columns()
        return self

    def transform(self, X: Any) -> Any:
        """Encode; the result, an array or CSR, has shape (n_samples, n_columns_out)."""
        check_is_fitted(self)
        codes, unknown = [], {}
        for (name, categories), values in zip(
            self._columns(), self._values(X, reset=False), strict=True
        ):
            try:
                found = _positions(values, categories)
            except (TypeError, ValueError) as error:
                raise ValueError(f"Column {name!r}: {error}") from error
            codes.append(np.minimum(found, len(categories)))
            if count := int(np.count_nonzero(codes[-1] == len(categories))):
                unknown[name] = count
        if unknown:
            warn(
                f"Values that are none of the declared categories, of {len(codes[0]):,}: "
                + ", ".join(f"{count:,} in {name!r}" for name, count in unknown.items())
                + ". (This message is for you: no guarantee covers it.)",
                UndeclaredValueWarning,
            )
        return self._written(codes)

    def _values(self, X: Any, *, reset: bool) -> list[NDArray[Any] | Distinct]:
        """The columns of `X`; a pandas frame is not made one array of objects."""
        refuse_masked("X", X)
        if hasattr(X, "iloc") and hasattr(X, "columns") and min(X.shape) > 0:
            validate_data(self, X, skip_check_array=True, reset=reset)
            return [] if reset else [_frame_column(X.iloc[:, j]) for j in range(X.shape[1])]
        if hasattr(X, "get_columns"):  # of polars
            validate_data(self, X, skip_check_array=True, reset=reset)
            return [
                alone(column.to_list()) if column.null_count() else column.to_numpy()
                for column in (() if reset else X.get_columns())
            ]
        if isinstance(X, list | tuple):
            X = np.array(X, dtype=object)
        _refuse_kind(getattr(X, "dtype", None))
        listed = isinstance(X, np.ndarray) and X.dtype == object
        X = validate_data(self, X, dtype=None, ensure_all_finite=False, reset=reset)
        return [alone(column.tolist()) for column in X.T] if listed else list(X.T)

    def _written(self, codes: list[NDArray[np.intp]]) -> Any:
        """The encoded columns of the positions of all columns' values."""
        n, starts = len(codes[0]), [block.start for block in self.column_blocks_]
        n_columns = self.column_blocks_[-1].stop
        ignored = self.handle_unknown == "ignore"
        if not self.sparse_output:
            result = np.zeros((n, n_columns))
            rows = np.arange(n)
            for (_, categories), start, places in zip(self._columns(), starts, codes, strict=True):
                known = places < len(categories) if ignored else slice(None)
                result[rows[known], start + places[known]] = 1.0
            return result
        columns = np.stack(
            [s + c for s, c in zip(starts, codes, strict=True)], axis=1, dtype=np.int32
        )
        offsets = np.arange(0, columns.size + 1, len(codes), dtype=np.int64)
        if ignored:
            widths = [len(categories) for _, categories in self._columns()]
            known = np.stack([c < k for c, k in zip(codes, widths, strict=True)], axis=1)
            offsets = np.append(0, np.cumsum(known.sum(axis=1)))
            columns = columns[known]
        entries = np.ones(columns.size)
        return scipy.sparse.csr_matrix((entries, columns.ravel(), offsets), (n, n_columns))

    @property
    def column_blocks_(self) -> tuple[ColumnBlock, ...]:
        """Which columns of the result belong together: one block for each column of `X`."""
        check_is_fitted(self)
        blocks, start = [], 0
        for _, categories in self._columns():
            stop = start + len(categories) + (self.handle_unknown == "other")
            blocks.append(ColumnBlock("one-hot", start, stop))
            start = stop
        return tuple(blocks)

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
        raw = self.categories
        if _is_one_list(raw):
            raw = [raw] * self.n_features_in_
        entries = by_column("categories", raw, self.n_features_in_, names)
        return [(key, _categories(f"categories of column {key!r}", own)) for key, own in entries]


def _is_one_list(value: Any) -> bool:
    """Whether `value` is a list of categories, not of such lists."""
    return (
        isinstance(value, Sequence | np.ndarray)
        and not isinstance(value, str)
        and len(value) > 0
        and all(isinstance(entry, str) or np.ndim(entry) == 0 for entry in value)
    )


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
    # Numbers are compared as float64, where two integers may be one: a row must have one 1.
    if len(set(categories if text else map(float, categories))) < len(categories):
        raise ValueError(f"{name} must differ from each other; got {value!r}.")
    return categories
