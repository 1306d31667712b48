"""Public bounds and categories, column by column."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast._validation import check_real


def column_bounds(
    bounds: Any, n_features: int, feature_names: NDArray[Any] | None
) -> tuple[list[float], list[float]]:
    """Lower and upper ends for each column, from one pair, a sequence of pairs or a dict."""
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
            f"{name} must have one entry for each of the {n_features} columns of X; "
            f"got {len(entries)}."
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
