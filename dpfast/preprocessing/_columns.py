"""Public bounds and categories, column by column; which columns of a result belong together."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpfast._validation import check_real
from dpfast.column_blocks import ColumnBlock


class NumberColumns(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer from numbers to as many numbers."""

    n_features_in_: int

    @property
    def column_blocks_(self) -> tuple[ColumnBlock, ...]:
        """Every column of the result is one of numbers."""
        check_is_fitted(self)
        return _numbers(0, self.n_features_in_)


def column_blocks(transformer: Any) -> tuple[ColumnBlock, ...]:
    """Say which columns of what a transformer returns belong together, by its declarations.

    This is how they get past a :class:`~sklearn.compose.ColumnTransformer` to the `column_blocks`
    of a private estimator, which sees the columns alone.

    Parameters
    ----------
    transformer : fitted ColumnTransformer, Pipeline, or transformer with `column_blocks_`
        A few rows are enough to fit what stands in :mod:`dpfast.preprocessing` and learns nothing
        from them. Columns that are passed through are taken for numbers.

    Returns
    -------
    tuple of ColumnBlock
        If each is at most 1 long, as with the defaults of :class:`BoundedScaler` and
        :class:`PublicOneHotEncoder`, a row is at most as long as the square root of their number.

    Raises
    ------
    TypeError
        If a transformer does not say what its columns are.
    sklearn.exceptions.NotFittedError
        If it was not fitted.

    Examples
    --------
    >>> from sklearn.compose import make_column_transformer
    >>> from dpfast.preprocessing import BoundedScaler, PublicOneHotEncoder, column_blocks
    >>> encode = make_column_transformer(
    ...     (BoundedScaler((18, 110)), [0]), (PublicOneHotEncoder(["A", "B"]), [1])
    ... )
    >>> for block in column_blocks(encode.fit([[44, "A"]])):
    ...     print(block)
    ColumnBlock(kind='number', start=0, stop=1)
    ColumnBlock(kind='one-hot', start=1, stop=4)
    """
    # Whoever has such a transformer has loaded these, which take a fifth of a second.
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    if isinstance(transformer, Pipeline):
        steps = [step for _, step in transformer.steps if step not in (None, "passthrough")]
        return column_blocks(steps[-1] if steps else None)
    if isinstance(transformer, ColumnTransformer):
        check_is_fitted(transformer)
        placed = sorted(transformer.output_indices_.items(), key=lambda item: item[1].start)
        return tuple(
            block
            for name, place in placed
            if place.start < place.stop
            for block in _moved(transformer.named_transformers_[name], place)
        )
    if not hasattr(type(transformer), "column_blocks_"):
        raise TypeError(
            "transformer must be a ColumnTransformer or Pipeline of transformers that declare "
            "their columns, as BoundedScaler, PublicOneHotEncoder and the private scalers of "
            f"dpfast.preprocessing do; got {type(transformer).__name__}. Give the steps before "
            "the model, pipeline[:-1]; of other transformers list the blocks yourself."
        )
    blocks: tuple[ColumnBlock, ...] = transformer.column_blocks_
    return blocks


def _moved(part: Any, place: slice) -> tuple[ColumnBlock, ...]:
    """Blocks of a part of a table, where its columns stand."""
    from sklearn.preprocessing import FunctionTransformer

    if part == "passthrough" or (isinstance(part, FunctionTransformer) and part.func is None):
        return _numbers(place.start, place.stop)
    return tuple(
        ColumnBlock(block.kind, place.start + block.start, place.start + block.stop)
        for block in column_blocks(part)
    )


def _numbers(start: int, stop: int) -> tuple[ColumnBlock, ...]:
    return tuple(ColumnBlock("number", column, column + 1) for column in range(start, stop))


def column_bounds(
    bounds: Any, n_features: int, feature_names: NDArray[Any] | None
) -> tuple[list[float], list[float]]:
    """Lower and upper ends for each column, from one pair, a sequence of pairs or a dict.

    Raises
    ------
    TypeError, ValueError
        If they are not finite numbers ``low < high``, or do not match the columns.
    """
    if is_pair(bounds):
        pairs = [interval("bounds", bounds)] * n_features
    else:
        entries = by_column("bounds", bounds, n_features, feature_names)
        pairs = [interval(f"bounds of column {key!r}", pair) for key, pair in entries]
    low, high = zip(*pairs, strict=True)
    return list(low), list(high)


def by_column(
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
            wrong = [f"no entry for {missing}"] * bool(missing)
            wrong += [f"no column for {unused}"] * bool(unused)
            raise ValueError(f"{name} must name the columns of X; {', '.join(wrong)}.")
        return [(column, value[column]) for column in columns]
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(
            f"{name} must be a sequence with one entry for each column of X, or a dict by column "
            f"name; got {value!r}."
        )
    entries = list(value)
    if len(entries) != n_features:
        raise ValueError(
            f"{name} must have as many entries as X has columns, {n_features}; got {len(entries)}."
        )
    columns = [f"x{j}" for j in range(n_features)] if feature_names is None else list(feature_names)
    return list(zip(columns, entries, strict=True))


def is_pair(value: Any) -> bool:
    """Whether `value` is a sequence of two real numbers."""
    return (
        isinstance(value, Sequence | np.ndarray)
        and len(value) == 2
        and all(isinstance(end, numbers.Real) for end in value)
    )


def interval(name: str, value: Any) -> tuple[float, float]:
    """Return `value` as ``(low, high)``, finite and ``low < high``."""
    if not is_pair(value):
        raise ValueError(f"{name} must be a pair of numbers (low, high); got {value!r}.")
    low, high = (check_real(name, end) for end in value)
    if not 0.0 < high - low < math.inf:
        raise ValueError(f"{name} must have low < high (and a finite width); got {value!r}.")
    return low, high
