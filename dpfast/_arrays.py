"""Arrays as they are meant: what would be read as other numbers is refused, and no entry is quoted.

Mostly it follows from containers and types alone whether something is refused; entries count where
they are missing, infinite or no label. Messages name shapes and types. What scikit-learn says is
passed on where it is known to quote nothing (:func:`validated`).
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from numbers import Complex, Real
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

_ENCODE = (
    "Encode them by what is publicly known of them: "
    "dpfast.preprocessing.PublicOneHotEncoder(categories), or dpfast.TableModel, which takes "
    "tables as they are."
)
_CONVERT = "Convert what spells numbers with .astype(float); labels are for classifiers."
_MIXED = "text, categories or dates"
_DATES = (
    "Turn them into numbers by a public rule, such as days since a fixed date: "
    "(x - np.datetime64('2020-01-01')) / np.timedelta64(1, 'D')."
)
# By the kind of a dtype: what it holds, and what to do about it.
_REFUSED = {
    "M": ("dates", _DATES),
    "m": ("durations", "Divide them by a unit, such as np.timedelta64(1, 'D')."),
    "c": (
        "complex numbers",
        "Complex data not supported: give real and imaginary parts as columns of their own.",
    ),
    "V": (
        "records",
        "Give their fields as columns: numpy.lib.recfunctions.structured_to_unstructured.",
    ),
    "N": ("missing entries", ""),
    "O": ("other objects", "Convert them to numbers, for instance with .astype(float)."),
}
_TEXT = "UST"
_LABELS = "class labels of one kind (integers, truth values or texts)"
# Missing values other than NaN, by the names of their types.
_MISSING = ("NoneType", "NAType", "NaTType")
_IMPUTE = (
    "Put a number there that is known beforehand, and a column that says where; dpfast.TableModel "
    "does, as declared. (An imputer that looks at the rows is a release that nobody pays for.)"
)
LEAVE_OUT = "Leave out such rows, or fill them by a rule that is fixed without looking at the data."
# What scikit-learn says without quoting an entry. Names of columns and numbers of rows are public.
_QUOTES_NOTHING = re.compile(
    r"^(X has \d+ features|The feature names|Feature names|np\.matrix is not supported|"
    r"Sparse data was passed|This \w+ estimator requires y|fill value must be 0 when converting)"
)
# The same of what says only what came.
_EXPECTED = {
    "Found array with 0": "X must have at least one row and one column. ",
    "Found input variables with inconsistent": "X and y must have as many entries as rows. ",
    "fill value must be 0": "X must have 0 in all places that are not stored, as a sparse matrix. "
    "Convert its columns: X.sparse.to_dense(). It was refused since ",
    "The feature names should match": "X must have the columns of fit, in their order: "
    "X[model.feature_names_in_]. ",
    "Feature names are only": "X must have names of one kind. ",
}


def numbers_in(name: str, values: Any) -> Any:
    """`values`, lists as an array, that hold real numbers; some may be missing or NaN.

    What is no number, or whose number would be another than it seems (masked, dates, text,
    categories), is refused.
    """
    values = _as_given(name, values)
    if is_frame(values):
        _check_columns(name, values)
        return values
    kind = _kind(values)
    if kind not in "biuf":
        _refuse(name, kind, f"got {{}}{_shape(values)}")
    return values


def as_float64(name: str, values: Any) -> NDArray[np.float64]:
    """An array of real numbers as float64; those beyond it become infinite."""
    values = numbers_in(name, values)
    if scipy.sparse.issparse(values):
        raise TypeError(f"{name} must be dense; got a sparse matrix. Use .toarray().ravel().")
    try:
        with np.errstate(over="ignore"):
            return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass  # what it says may quote an entry
    raise ValueError(
        f"{name} must hold numbers that float64 can hold; got others. Convert them first: "
        "np.asarray(x, dtype=float)."
    )


def labels_in(name: str, values: Any) -> Any:
    """`values`, lists as an array, that can be class labels; numbers may have fractions yet."""
    if isinstance(values, list | tuple):
        kinds = {issubclass(kind, str) for kind in {*map(type, values)}}
        if len(kinds) > 1:  # NumPy would make texts of them all
            values = np.fromiter(values, dtype=object, count=len(values))
    values = _as_given(name, values)
    if not is_frame(values):
        _check_label_kind(name, values)
    return values


def vector_in(name: str, values: Any, *, labels: bool = False) -> NDArray[Any]:
    """`values` as a vector of finite numbers, or of labels."""
    from sklearn.utils.validation import column_or_1d  # takes long to import

    if values is None:
        raise ValueError(f"{name} must be given with X; got None.")
    given = _column_in(name, values, labels)
    with _quoting_nothing():
        vector: NDArray[Any] = column_or_1d(given, warn=True)
    if not labels:
        vector = as_float64(name, vector)
    if vector.dtype.kind == "f" and not np.all(np.isfinite(vector)):
        raise ValueError(f"Input {name} contains NaN or infinity. {LEAVE_OUT}")
    return vector


def _column_in(name: str, values: Any, labels: bool) -> Any:
    """Numbers or labels with one dimension, or in one column."""
    given = labels_in(name, values) if labels else numbers_in(name, values)
    if len(given.shape) != 1 and given.shape[1:] != (1,):
        raise ValueError(
            f"{name} must have one entry for each row; got shape {tuple(given.shape)}. {name} "
            "should be a 1d array: choose a column, or fit a model for each."
        )
    return given


def check_labels(name: str, values: NDArray[Any]) -> None:
    """Refuse an array that does not hold class labels (TypeError, ValueError)."""
    _check_label_kind(name, values)
    if values.dtype.kind == "f" and np.any(values != np.floor(values)):
        raise ValueError(
            f"{name} must hold {_LABELS}; got numbers with fractions. Unknown label type: "
            "continuous. Regressors, such as dpfast.HuberRegressor, take such targets."
        )


def may_be_rounded(values: NDArray[Any]) -> bool:
    """Whether an array holds floats that may have been integers, and others."""
    return values.dtype.kind == "f" and bool(np.any(np.abs(values) >= np.float64(2**53)))


def check_alike(name: str, values: NDArray[Any], classes: NDArray[Any]) -> None:
    """Refuse texts where the declared classes are none, and the reverse; and what was rounded."""
    if not values.size:
        return
    found, declared = (_holds_text(array) for array in (values, classes))
    if found != declared:
        words = {True: "texts", False: "numbers or truth values"}
        # Some of scikit-learn's wrappers pass numbers, and say texts again of the predictions.
        wrapped = (
            " (If scikit-learn made the numbers, as VotingClassifier, StackingClassifier and "
            "cross_val_predict with method='predict_proba' do, declare "
            f"classes={list(range(len(classes)))}: the places of the texts in sorted order; of two "
            "classes at a time, as OneVsRestClassifier and OneVsOneClassifier do, classes=[0, 1].)"
        )
        raise ValueError(
            f"{name} must hold labels such as the classes, which are {words[declared]}; got "
            f"{words[found]}. Convert one to the other.{wrapped * declared * (len(classes) < 20)}"
        )
    if classes.dtype.kind != "f" and may_be_rounded(values):
        # One float makes a whole list floats, and two labels of others one.
        raise ValueError(
            f"{name} must hold labels beyond 2**53 as integers; got floating-point numbers, which "
            "round them. Convert them with .astype('int64'), or to text."
        )


def refuse_masked(name: str, values: Any) -> None:
    """Refuse masked entries: a plain array would show what the mask hides (ValueError)."""
    parts = values if isinstance(values, list | tuple) else (values,)
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise ValueError(
            f"{name} must hold numbers or labels without a mask; got an array with masked entries"
            f"{_shape(values)}. Fill them by a rule that is fixed without looking at the data: "
            "np.ma.filled(x, value)."
        )


def check_sparse(name: str, matrix: Any) -> None:
    """Refuse a sparse matrix whose indices lead out of it: reading it could crash the process."""
    fault = _fault_of(matrix)
    if fault is not None:
        raise ValueError(
            f"{name} must be a sound sparse matrix; got one of shape {matrix.shape} in "
            f"{matrix.format} format in which {fault}. Build it anew: its arrays were changed, or "
            "come from elsewhere."
        )


def in_order(name: str, matrix: Any) -> Any:
    """A sound sparse matrix, in whose CSR form every row has its columns in order.

    SciPy orders all rows as soon as one of them is not, and entries that have one place in any
    order, so that their sums would depend on whether another row is.  Here they keep theirs.
    """
    if matrix.format not in _FAULTS:
        matrix = matrix.tocsr()
    check_sparse(name, matrix)
    if matrix.ndim != 2:
        return matrix
    if matrix.format == "csr":
        # Through columns: entries of one place stay in their order.
        return matrix if matrix.has_sorted_indices else matrix.tocsc().tocsr()
    if matrix.format == "csc":
        return matrix
    blocks = matrix.format == "bsr"
    matrix = matrix.tocoo() if blocks else matrix
    order = np.lexsort((matrix.col, matrix.row))
    places = matrix.row[order], matrix.col[order]
    ordered = type(matrix)((matrix.data[order], places), matrix.shape)
    return ordered.tocsr() if blocks else ordered


def validated(estimator: Any, X: Any, /, *target: Any, labels: bool = False, **how: Any) -> Any:
    """What scikit-learn's ``validate_data`` returns; errors quote no entry, nothing else is said.

    Finite entries may overflow in sums that look for NaN: a warning of that would tell of them.

    `target` are the targets, if there are any (None is refused), and labels if `labels` says so;
    `how` goes to ``validate_data``.
    """
    from sklearn import config_context  # takes long to import
    from sklearn.utils.validation import validate_data

    listed = isinstance(X, list | tuple)
    X = numbers_in("X", X)
    if listed and X.dtype.kind == "f":
        # One entry of another type would make it so, and change the last bits of other rows' sums.
        X = X.astype(np.float64, copy=False)
    if len(X.shape) != 2:
        raise ValueError(
            f"X must have two dimensions, rows and columns; got shape {tuple(X.shape)}. Expected "
            "2D array. Reshape your data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for "
            "one row."
        )
    if target and target[0] is not None:
        target = (_column_in("y", target[0], labels),)
    if target:
        how["y_numeric"] = not labels
    # NaN must be refused before anything is spent, whatever scikit-learn was told to assume.
    with _quoting_nothing(), config_context(assume_finite=False):
        return validate_data(estimator, X, *target, **how)


@contextmanager
def fitted_or_as_before(estimator: Any) -> Iterator[None]:
    """A fit that ends by an error leaves the estimator as it was, until it has a new report.

    What was paid for before stays of use: :func:`validated` sets the columns at once, which are not
    those of the older coefficients.
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        if vars(estimator).get("privacy_") is before.get("privacy_"):
            vars(estimator).clear()
            vars(estimator).update(before)
        raise


@contextmanager
def _quoting_nothing() -> Iterator[None]:
    """Reads of arrays by scikit-learn: neither errors nor warnings tell of an entry."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(_passed_on(error)) from None  # the cause may quote an entry


def is_frame(values: Any) -> bool:
    """Whether this is a table with columns of their own types: of pandas, polars or Arrow."""
    return (hasattr(values, "dtypes") and hasattr(values, "columns")) or (
        hasattr(values, "schema") and hasattr(values, "column_names")
    )


def _as_given(name: str, values: Any) -> Any:
    """Lists and what makes an array of itself as an array, the rest as it is; no entry is read."""
    if not _is_array_like(values):
        raise TypeError(
            f"{name} must be an array, a table or a list; got {type(values).__name__}. Make one "
            "of it first, where it is a dict, an iterator or a single entry."
        )
    refuse_masked(name, values)
    if scipy.sparse.issparse(values):
        return in_order(name, values)
    # Types that pandas adds are converted by scikit-learn.
    if is_frame(values) or isinstance(values, np.matrix) or hasattr(values, "isna"):
        return values
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        pass  # what it says may quote an entry
    raise ValueError(
        f"{name} must be of one shape; got a {type(values).__name__} that NumPy makes no array of. "
        "Look for rows that are longer or shorter than others, or for lists within entries."
    )


def _is_array_like(values: Any) -> bool:
    if scipy.sparse.issparse(values):
        return True
    if isinstance(values, str | bytes | bytearray | Mapping | type):
        return False
    return (
        isinstance(values, Sequence)
        or hasattr(values, "__array__")
        or hasattr(values, "__array_interface__")
    )


def _shape(values: Any) -> str:
    shape = getattr(values, "shape", None)
    return "" if shape is None else f" (shape {tuple(shape)})"


def _kind(values: Any) -> str:
    """Kind of the entries of an array, a series or a sparse matrix."""
    return _kind_of(values.dtype, lambda: np.asarray(values).ravel())


def _kind_of(dtype: Any, entries: Callable[[], Iterable[Any]]) -> str:
    """Kind of a column: that of its dtype, or "?" for the others; objects are looked through."""
    if hasattr(dtype, "is_numeric"):  # of polars
        if dtype.is_temporal():
            return "m" if str(dtype).startswith("Duration") else "M"
        return "f" if dtype.is_numeric() or str(dtype) == "Boolean" else "?"
    if not isinstance(dtype, np.dtype):
        kind = str(getattr(dtype, "kind", "?"))
        return kind if kind in "biufcMm" else "?"
    return _kind_of_objects(entries()) if dtype.kind == "O" else dtype.kind


def _kind_of_objects(entries: Iterable[Any]) -> str:
    """What kind these objects are: "f" if all are numbers, "N" if some are and some missing."""
    kinds = {_kind_of_type(kind) for kind in set(map(type, entries))} - {"f"}
    return "?" if len(kinds) > 1 else next(iter(kinds), "f")


def _kind_of_type(kind: type) -> str:
    for one, types in (
        ("U", (str, bytes)),
        # A timedelta64 is an integer to NumPy.
        ("m", (np.timedelta64, datetime.timedelta)),
        ("M", (np.datetime64, datetime.date, datetime.time)),
        ("f", (Real, np.bool_, Decimal)),
        ("c", (Complex,)),
    ):
        if issubclass(kind, types):
            return one
    return "N" if kind.__name__ in _MISSING else "O"


def _columns(table: Any) -> list[tuple[Any, str]]:
    """Names and kinds of a table's columns."""
    if not hasattr(table, "dtypes"):  # of Arrow
        exact = r"(u?int\d+|half_?float|float|double|bool|decimal.*)"
        types = [str(kind) for kind in table.schema.types]
        kinds = ["f" if re.fullmatch(exact, kind) else "?" for kind in types]
        return list(zip(table.column_names, kinds, strict=True))
    read = getattr(table, "iloc", table)
    return [
        (column, _kind_of(dtype, partial(_column, read, i)))
        for i, (column, dtype) in enumerate(zip(table.columns, list(table.dtypes), strict=True))
    ]


def _column(table: Any, i: int) -> Any:
    return table[:, i]


def _check_columns(name: str, table: Any) -> None:
    columns = _columns(table)
    counts = Counter(column for column, _ in columns)
    repeated = _listed(column for column, count in counts.items() if count > 1)
    if repeated:
        raise ValueError(
            f"{name} must have columns of different names; got more than one of {repeated}. Rename "
            "them, or leave out the copies."
        )
    bad = [(column, kind) for column, kind in columns if kind not in "biuf"]
    if bad:
        kinds = {kind for _, kind in bad}
        kind = kinds.pop() if len(kinds) == 1 else "?"
        listed = _listed(column for column, _ in bad)
        _refuse(
            name,
            kind,
            f"the column{'s' * (len(bad) > 1)} {listed} hold{'s' * (len(bad) == 1)} {{}}",
        )


def _listed(names: Iterable[Any]) -> str:
    found = list(map(repr, names))
    return f"{', '.join(found[:8])}{', ...' * (len(found) > 8)}"


def _refuse(name: str, kind: str, what: str) -> None:
    """Refuse a kind of entries where numbers are needed."""
    words, remedy = _REFUSED.get(kind) or ("text" if kind in _TEXT else _MIXED, "")
    if not remedy:
        remedy = _ENCODE if name == "X" else _CONVERT
    if kind == "N":
        remedy = _known_beforehand(name)
    if kind == "O":
        remedy += " (float()'s argument must be a string or a real number.)"
    error = ValueError if kind in "cN" else TypeError
    raise error(f"{name} must hold real numbers; {what.format(words)}. {remedy}")


def _check_label_kind(name: str, values: Any) -> None:
    dtype = values.dtype
    if not isinstance(dtype, np.dtype) and getattr(dtype, "kind", "O") not in "cMm":
        if _misses(values):
            raise ValueError(f"{name} must hold {_LABELS}; at least one is missing. {LEAVE_OUT}")
        return  # categories and their like; scikit-learn makes an array of them
    kind = str(dtype.kind)
    if kind in "biufUT":
        return
    remedy = "Convert them, for instance with .astype(int) or .astype(str)."
    if kind != "O":
        words = _REFUSED[kind][0] if kind in _REFUSED else "bytes"
        remedy = "Complex data not supported." if kind == "c" else remedy
        error = ValueError if kind == "c" else TypeError
        raise error(f"{name} must hold {_LABELS}; got {words}{_shape(values)}. {remedy}")
    types = {type(value) for value in np.asarray(values).ravel()}
    names = sorted({kind.__name__ for kind in types})
    if any(missing in names for missing in _MISSING):
        raise ValueError(f"{name} must hold {_LABELS}; at least one is missing. {LEAVE_OUT}")
    if all(issubclass(kind, (bool, np.bool_)) for kind in types):
        remedy = "Convert them with .astype(bool)."
    if not all(issubclass(kind, str) for kind in types):
        raise ValueError(
            f"{name} must hold {_LABELS}; got dtype object with entries of type "
            f"{', '.join(names)}. Unknown label type: unknown. {remedy}"
        )


def _misses(values: Any) -> bool:
    """Whether a column with a type of its own, of pandas, polars or Arrow, has missing entries."""
    if hasattr(values, "isna"):
        return bool(np.any(values.isna()))
    count = getattr(values, "null_count", 0)
    return bool(count() if callable(count) else count)


def _holds_text(array: NDArray[Any]) -> bool:
    kind = array.dtype.kind
    return kind in "UT" or (kind == "O" and isinstance(array.flat[0], str))  # all or none is


def _known_beforehand(name: str) -> str:
    return _IMPUTE if name == "X" else LEAVE_OUT


def _passed_on(error: Exception) -> str:
    """What to say instead of an error that may quote an entry: its own text where it does not."""
    text = str(error)
    if found := re.match(r"Input (\w+) contains (NaN|infinity)", text):
        return f"{text.splitlines()[0]} {_known_beforehand(found[1])}"
    for start, expected in _EXPECTED.items():
        if text.startswith(start):
            return expected + text
    if _QUOTES_NOTHING.match(text):
        return text
    return (
        "X and y must hold numbers that float64 can hold (or labels); got others, which cannot be "
        f"read ({type(error).__name__}). Convert them first: np.asarray(X, dtype=float)."
    )


def _fault_of_compressed(matrix: Any) -> str | None:
    rows, columns = matrix.blocksize if matrix.format == "bsr" else (1, 1)
    major, minor = matrix.shape[0] // rows, matrix.shape[1] // columns
    if matrix.format == "csc":
        major, minor = minor, major
    start, index = matrix.indptr, matrix.indices
    if len(matrix.data) != len(index):
        return "data and indices have different lengths"
    if len(start) != major + 1 or start[0] != 0 or start[-1] != len(index):
        return "indptr does not go from 0 to the number of stored entries"
    if np.any(start[1:] < start[:-1]):
        return "indptr decreases"
    return _fault_of_index(index, minor)


def _fault_of_coordinates(matrix: Any) -> str | None:
    coordinates = (matrix.row, matrix.col)
    if {len(index) for index in coordinates} != {len(matrix.data)}:
        return "data and coordinates have different lengths"
    faults = (_fault_of_index(index, n) for index, n in zip(coordinates, matrix.shape, strict=True))
    return next((fault for fault in faults if fault), None)


def _fault_of_index(index: Any, length: int) -> str | None:
    if len(index) and (index.min() < 0 or index.max() >= length):
        return f"an index is not in [0, {length})"
    return None


_FAULTS = {
    **dict.fromkeys(("csr", "csc", "bsr"), _fault_of_compressed),
    "coo": _fault_of_coordinates,
}


def _fault_of(matrix: Any) -> str | None:
    """What is wrong with a sparse matrix; None for those of one dimension, which are refused."""
    find = _FAULTS.get(matrix.format)
    return find(matrix) if find and matrix.ndim == 2 else None
