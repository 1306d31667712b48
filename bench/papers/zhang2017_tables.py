"""Tables 2 and 3 of Zhang et al. 2017: what they print, their data, and how these may be scaled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.problems import text_columns

Rows = NDArray[np.float64]

EPSILONS = (0.1, 0.5, 1.0, 2.0)
DELTA = 1e-3


@dataclass(frozen=True)
class Published:
    """Means over 100 runs at the four epsilons: theirs and those of mini-batch private SGD."""

    error: tuple[float, ...]
    sgd_error: tuple[float, ...]
    seconds: tuple[float, ...]
    sgd_seconds: tuple[float, ...]


# By table and whether there is a ridge.
PUBLISHED: dict[tuple[str, bool], Published] = {
    ("Bank", False): Published(
        (0.3983, 0.2231, 0.1459, 0.0838), (2.2552, 1.4585, 1.0203, 0.7824),
        (12.613, 36.796, 58.305, 92.501), (518.67, 519.33, 519.02, 518.27)),
    ("Bank", True): Published(
        (0.2566, 0.0106, 0.0025, 0.0005), (0.4829, 0.4090, 0.3387, 0.2475),
        (20.483, 40.541, 49.311, 57.947), (518.03, 519.44, 516.73, 520.17)),
    ("Adult", False): Published(
        (0.0499, 0.0208, 0.0122, 0.0065), (0.6229, 0.6081, 0.4781, 0.3691),
        (23.813, 69.536, 110.20, 175.01), (250.50, 254.14, 254.18, 253.72)),
    ("Adult", True): Published(
        (3.2039, 0.1287, 0.0309, 0.0080), (5.2166, 5.1532, 5.1148, 5.1009),
        (112.09, 193.98, 229.23, 264.23), (256.70, 255.36, 255.69, 257.23)),
    ("Credit Card", False): Published(
        (0.0293, 0.0102, 0.0053, 0.0024), (0.4106, 0.4220, 0.3140, 0.2708),
        (4.9595, 14.591, 22.983, 36.721), (190.30, 190.89, 188.67, 188.86)),
    ("Credit Card", True): Published(
        (0.3643, 0.0141, 0.0035, 0.0008), (1.3271, 1.2973, 1.2792, 1.2501),
        (13.664, 22.012, 25.743, 29.256), (190.36, 189.97, 188.81, 187.97)),
    ("Wine", False): Published(
        (0.6061, 0.2487, 0.1713, 0.1110), (6.1755, 4.1900, 3.0972, 1.3609),
        (0.1672, 0.4328, 0.7469, 1.1719), (6.3859, 6.3828, 6.4234, 6.3016)),
    ("Wine", True): Published(
        (1.0842, 0.0364, 0.0101, 0.0024), (8.2900, 7.9584, 6.5471, 5.3811),
        (0.0922, 0.1437, 0.1891, 0.1812), (6.4328, 6.3625, 6.5391, 6.4484)),
    ("Bike", False): Published(
        (5.4659, 4.0404, 3.2768, 2.4081), (35.279, 30.822, 27.196, 23.865),
        (0.1531, 0.4375, 0.6922, 1.1766), (6.4953, 6.2375, 6.2734, 6.3969)),
    ("Bike", True): Published(
        (0.0555, 0.0301, 0.0242, 0.0232), (3.0770, 3.0448, 2.1792, 1.0406),
        (0.1031, 0.1578, 0.1625, 0.1984), (6.5766, 6.5094, 6.4094, 6.3625)),
}  # fmt: skip


# ---- data ---------------------------------------------------------------------------------------


def _encode(
    columns: dict[str, Any],
    target: str,
    first: int,
    categories: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> tuple[Rows, Any]:
    """Numbers as they are, a 0/1 column for each category from the `first` one on; the target."""
    parts = []
    for name, values in columns.items():
        if name == target or name in left_out:
            continue
        try:
            if name in categories:
                raise ValueError
            parts.append(values.astype(np.float64)[:, np.newaxis])
        except ValueError:
            found = values[:, np.newaxis] == np.unique(values)[first:]
            parts.append(found.astype(np.float64))
    return np.hstack(parts), columns[target]


def _signs(X: Rows, texts: Any) -> tuple[Rows, Rows]:
    return X, np.where(texts == np.unique(texts)[-1], 1.0, -1.0)


def _with_constant(X: Rows) -> Rows:
    return np.hstack([X, np.ones((len(X), 1))])


def _bank(folder: Path) -> tuple[Rows, Rows]:
    """42 columns, as in the paper: the first category of each text column has none."""
    return _signs(*_encode(text_columns(folder, "bank_full.csv"), "y", 1))


def _adult(folder: Path) -> tuple[Rows, Rows]:
    """108 columns, one for each category; the paper has 110 and does not say which."""
    return _signs(*_encode(text_columns(folder, "adult_train.csv"), "income", 0))


def _credit_card(folder: Path) -> tuple[Rows, Rows]:
    """33 columns, one for each sex, education and marriage, and a constant: the paper's 34."""
    categories = ("sex", "education", "marriage")
    columns = text_columns(folder, "credit_default.csv")
    X, y = _signs(*_encode(columns, "default", 0, categories))
    return _with_constant(X), y


def _wine(folder: Path) -> tuple[Rows, Rows]:
    """11 measurements and the color; the quality, 3 to 9, as it is."""
    X, quality = _encode(text_columns(folder, "wine_quality.csv"), "quality", 1)
    return X, quality.astype(np.float64)


def _bike(folder: Path) -> tuple[Rows, Rows]:
    """61 columns, one for each category, and a constant: the paper's 62; rentals as they are."""
    categories = ("season", "yr", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit")
    left_out = ("dteday", "casual", "registered")
    X, count = _encode(text_columns(folder, "bike_hour.csv"), "cnt", 0, categories, left_out)
    return _with_constant(X), count.astype(np.float64)


#: Rows and targets by table, in the paper's order.
LOADERS: dict[str, Callable[[Path], tuple[Rows, Rows]]] = {
    "Bank": _bank,
    "Adult": _adult,
    "Credit Card": _credit_card,
    "Wine": _wine,
    "Bike": _bike,
}
REGRESSIONS = ("Wine", "Bike")


# ---- scalings -----------------------------------------------------------------------------------


def _columns_to_one(X: Rows) -> Rows:
    low, high = X.min(axis=0), X.max(axis=0)
    # A constant column stays one.
    return np.where(high > low, (X - low) / np.where(high > low, high - low, 1.0), 1.0)


def _standardized(X: Rows) -> Rows:
    deviation = X.std(axis=0)
    varies = deviation > 0.0
    return np.where(varies, (X - X.mean(axis=0)) / np.where(varies, deviation, 1.0), 1.0)


def _standardized_numbers(X: Rows) -> Rows:
    return np.where(np.all((X == 0.0) | (X == 1.0), axis=0), X, _standardized(X))


def _columns_of_norm_one(X: Rows) -> Rows:
    norms = np.sqrt(np.einsum("ij,ij->j", X, X))
    return X / np.maximum(norms, 1e-12)


def _unit_rows(X: Rows) -> Rows:
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    return X / np.maximum(norms, 1e-12)[:, np.newaxis]


def _by_the_longest(X: Rows) -> Rows:
    return np.asarray(X / np.sqrt(np.einsum("ij,ij->i", X, X).max()))


#: Rows of norm 1 at most, all read off the data, as was usual then; the first is the suite's.
SCALINGS: dict[str, Callable[[Rows], Rows]] = {
    "columns on [0, 1], rows of norm 1": lambda X: _unit_rows(_columns_to_one(X)),
    "columns on [0, 1], longest row 1": lambda X: _by_the_longest(_columns_to_one(X)),
    "columns on [0, 1], over √d": lambda X: _columns_to_one(X) / math.sqrt(X.shape[1]),
    "as they are, rows of norm 1": _unit_rows,
    "as they are, longest row 1": _by_the_longest,
    "standardized, rows of norm 1": lambda X: _unit_rows(_standardized(X)),
    "standardized, longest row 1": lambda X: _by_the_longest(_standardized(X)),
    "numbers standardized, rows of norm 1": lambda X: _unit_rows(_standardized_numbers(X)),
    "numbers standardized, longest row 1": lambda X: _by_the_longest(_standardized_numbers(X)),
    "columns of norm 1, rows of norm 1": lambda X: _unit_rows(_columns_of_norm_one(X)),
    "columns of norm 1, longest row 1": lambda X: _by_the_longest(_columns_of_norm_one(X)),
}


def scaled(X: Rows, scaling: str) -> Rows:
    """Rows of norm below 1 by a hair, so that none is cut for rounding."""
    return np.ascontiguousarray(SCALINGS[scaling](X) * (1.0 - 1e-12))
