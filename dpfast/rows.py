"""Where the rows of a problem live, and how the kernels get at them chunk by chunk.

Dense float64 and float32 arrays with contiguous rows (C order, slices of rows or of leading
columns, read-only, memory-mapped) are used in place.  Any other dense array (Fortran order, steps
between columns, integers, half precision, foreign byte order) is converted one chunk at a time,
never as a whole.  Sparse CSR is used in place, with a fast path where every stored value is 1;
other sparse formats are converted once, with a warning, and silently where columns are not sorted
within each row, since one row decides that.  Rows in codes are written out as CSR one chunk at a
time.  Arithmetic is float64 throughout.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dpfast import _kernels
from dpfast._arrays import numbers_in
from dpfast._typing import Vector
from dpfast._validation import warn
from dpfast.coded import CodedMatrix
from dpfast.errors import ConversionWarning

# Arrays up to this size are copied once rather than converted in every pass.
_COPIED_BYTES = 2**30


class Rows(Protocol):
    """Rows of a problem with what belongs to each row."""

    n_samples: int
    n_features: int
    #: Bytes read by one pass over all rows.
    nbytes: int
    sparse: bool
    #: The array or CSR matrix that is read.
    matrix: Any

    def set_weight(self, weight: Vector | None) -> None: ...

    def set_row_scale(self, row_scale: Vector | None) -> None: ...

    def set_inverse_norm(
        self, inverse_norm: NDArray[np.float32] | None, consistent: bool = False
    ) -> None: ...

    def chunk(self, start: int, stop: int) -> tuple[Any, int, int]:
        """Kernel object that holds rows [start, stop), and their range in it."""
        ...


class NativeRows:
    """Rows that the kernels read in place.

    `kernel` is one of the row classes of ``dpfast._kernels``, `matrix` what it reads, of `nbytes`
    bytes.
    """

    def __init__(self, kernel: Any, nbytes: int, matrix: Any) -> None:
        self._kernel = kernel
        self.matrix = matrix
        self.sparse = isinstance(kernel, _kernels.CsrRows)
        self.n_samples = int(kernel.n_samples)
        self.n_features = int(kernel.n_features)
        self.nbytes = nbytes
        self.set_weight = kernel.set_weight
        self.set_row_scale = kernel.set_row_scale
        self.set_inverse_norm = kernel.set_inverse_norm

    def chunk(self, start: int, stop: int) -> tuple[Any, int, int]:
        """The one kernel object, and the same range."""
        return self._kernel, start, stop


class _WrittenRows:
    """Rows that are brought into the kernels' layout one chunk at a time."""

    sparse: bool
    nbytes: int

    def __init__(self, matrix: Any, target: Vector, intercept: float) -> None:
        self.matrix = matrix
        self._target, self._intercept = target, intercept
        self._parts: dict[str, NDArray[Any] | None] = {}
        self._inverse_norm: NDArray[np.float32] | None = None
        self._consistent = False
        self.n_samples, self.n_features = matrix.shape

    def _kernel(self, start: int, stop: int) -> Any:
        """A kernel object over the rows and targets of a chunk alone."""
        raise NotImplementedError

    def set_weight(self, weight: Vector | None) -> None:
        """Weights of the rows' losses; None: one."""
        self._parts["set_weight"] = weight

    def set_row_scale(self, row_scale: Vector | None) -> None:
        """Factors of the rows; None: one."""
        self._parts["set_row_scale"] = row_scale

    def set_inverse_norm(
        self, inverse_norm: NDArray[np.float32] | None, consistent: bool = False
    ) -> None:
        """Lower bounds of the rows' inverse norms, for gradient clipping."""
        self._inverse_norm, self._consistent = inverse_norm, consistent

    def chunk(self, start: int, stop: int) -> tuple[Any, int, int]:
        """A kernel object over a converted copy of the chunk."""
        kernel = self._kernel(start, stop)
        for setter, values in self._parts.items():
            if values is not None:
                getattr(kernel, setter)(values[start:stop])
        if self._inverse_norm is not None:
            kernel.set_inverse_norm(self._inverse_norm[start:stop], self._consistent)
        return kernel, 0, stop - start


class ConvertedRows(_WrittenRows):
    """Dense rows of any real dtype and any strides; `alike` as for :func:`as_rows`."""

    sparse = False

    def __init__(self, array: NDArray[Any], target: Vector, intercept: float, alike: bool) -> None:
        super().__init__(array, target, intercept)
        self._alike = alike
        self.nbytes = 8 * array.size

    def _kernel(self, start: int, stop: int) -> Any:
        copy = np.ascontiguousarray(self.matrix[start:stop], dtype=np.float64)
        return _kernels.DenseRows(copy, self._target[start:stop], self._intercept, self._alike)


class CodedRows(_WrittenRows):
    """Rows in codes, written out as CSR where sums are not had by levels; `alike` as above."""

    sparse = True

    def __init__(self, matrix: CodedMatrix, target: Vector, intercept: float, alike: bool) -> None:
        super().__init__(matrix, target, intercept)
        self.nbytes = matrix.nbytes
        # The last bits of a margin by levels may depend on where the row is.
        self._by_levels = matrix.kernel.plain and not alike

    def _kernel(self, start: int, stop: int) -> Any:
        parts, target = self.matrix.kernel, self._target[start:stop]
        if self._by_levels:
            return _kernels.CodedRows(parts, start, stop, target, self._intercept)
        offsets, columns, values = parts.entries(start, stop)
        return _kernels.CsrRows(
            offsets, columns, values, self.n_features, target, self._intercept, sound=True
        )


def as_rows(matrix: Any, target: Vector, intercept: float, *, alike: bool = False) -> Rows:
    """Rows of a matrix, in place where the kernels can read them.

    Parameters
    ----------
    matrix : result of :func:`check_matrix`, of shape (n_samples, n_features)
    target : ndarray of shape (n_samples,)
        float64, contiguous.
    intercept : float
        Value of the constant column; 0 means none.
    alike : bool, default=False
        Whether a row's margin is to be the same to the last bit wherever the row is; that of a
        sparse row is, anyway.
    """
    if isinstance(matrix, CodedMatrix):
        return CodedRows(matrix, target, intercept, alike)
    if scipy.sparse.issparse(matrix):
        return _sparse_rows(matrix, target, intercept)
    if matrix.dtype in (np.float64, np.float32) and matrix.dtype.isnative:
        try:
            kernel = _kernels.DenseRows(matrix, target, intercept, alike)
            return NativeRows(kernel, matrix.nbytes, matrix)
        except _kernels.LayoutError:
            pass  # strides that the kernels do not read
    return ConvertedRows(matrix, target, intercept, alike)


def _sparse_rows(matrix: Any, target: Vector, intercept: float) -> NativeRows:
    original = matrix
    reason = ""
    if matrix.format != "csr":
        reason = f"it is stored as {matrix.format}, not csr"
        matrix = matrix.tocsr()
    if matrix.dtype not in (np.float64, np.float32) or not matrix.dtype.isnative:
        reason = reason or f"its values are {matrix.dtype}, not float64 or float32"
        matrix = matrix.astype(np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy() if matrix is original else matrix
        matrix.sum_duplicates()
    try:
        kernel = _kernels.CsrRows(
            matrix.indptr, matrix.indices, matrix.data, matrix.shape[1], target, intercept
        )
    except FloatingPointError as error:
        raise ValueError(
            "X must hold finite numbers only; got NaN or infinity. Remove or fill such values "
            "by a rule fixed without looking at the data."
        ) from error
    if reason:
        # How many bytes that took, the rows alone know.
        warn(f"X was copied: {reason}.", ConversionWarning)
    return NativeRows(kernel, kernel.nbytes, matrix)


def row_lengths(X: Any) -> Vector:
    """Norms of the rows of an array, of a sparse matrix or of rows in codes.

    Those whose squares are beyond float64 are infinite.
    """
    if isinstance(X, CodedMatrix):
        X = X.tocsr()
    squares: Vector
    if scipy.sparse.issparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        entries = np.square(X.data, dtype=np.float64), X.indices, X.indptr
        # Faster than their sum.
        squares = scipy.sparse.csr_array(entries, X.shape) @ np.ones(X.shape[1])
    else:
        wider = None if X.dtype == np.float64 else np.float64  # where it is named it takes longer
        squares = np.einsum("ij,ij->i", X, X, dtype=wider)
    return np.sqrt(squares)


def by_rows(X: Any) -> Any:
    """The same rows one after another, if they were stored by columns, as data frames are.

    Converted in every pass, they would take three times as long.  Larger arrays than a gigabyte are
    left as they are.
    """
    by_columns = isinstance(X, np.ndarray) and X.ndim == 2 and X.strides[1] != X.itemsize
    return np.ascontiguousarray(X) if by_columns and X.nbytes <= _COPIED_BYTES else X


def is_dask(*collections: Any) -> bool:
    """Whether one of these is a dask collection; does not import dask."""
    return any(
        type(part).__module__.partition(".")[0] in ("dask", "dask_expr") for part in collections
    )


def check_matrix(X: Any) -> Any:
    """X as a two-dimensional matrix of real numbers, in any form; what is one is not copied."""
    if isinstance(X, CodedMatrix):
        return X
    given = numbers_in("X", X)
    array = given if scipy.sparse.issparse(given) else np.asarray(given)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"X must hold real numbers; got an array of dtype {array.dtype}.")
    if array.ndim != 2:
        raise ValueError(f"X must be two-dimensional (rows, columns); got shape {array.shape}.")
    if array.shape[0] < 1 or array.shape[1] < 1:
        raise ValueError(f"X must have at least one row and one column; got shape {array.shape}.")
    return array
