"""Rows in codes: a column of categories is held as one small integer a row.

One-hot encoding makes as many columns of a column as it has categories, all but one of them zero.
Held in codes, such a column takes a byte a row, and the table keeps its natural size.  What a code
stands for is said once, by its level: a row of the encoded columns.  Margins, losses, gradients and
sums of columns look levels up and add, and differ from those of the same rows in CSR by rounding
alone; for every other sum a chunk of rows is written out as CSR while it is worked on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dpfast import _kernels
from dpfast._validation import counted

# Rows that are written out at once.
_ROWS = 8192
# Entries beyond this would have to be shortened before they are squared.
_LARGEST = 1e150

_CODES = tuple(map(np.dtype, (np.uint8, np.uint16, np.uint32)))
_NUMBERS = tuple(map(np.dtype, (np.float64, np.float32)))

Levels = tuple[int, NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]
Part = tuple[NDArray[Any], Levels | None]


class CodedMatrix:
    """A matrix whose rows are held in codes and in numbers, for :class:`dpfast.Problem`.

    Parameters
    ----------
    parts : sequence of (values, table)
        One after another by the columns that they fill.  Codes are a uint8, uint16 or uint32 array
        of shape (n_samples,), with a table of shape (levels, width), an array or SciPy sparse
        matrix: code c stands for row c of it.  Numbers are a float64 or float32 array of shape
        (n_samples,), with None; they fill one column.  Arrays are used in place and must not
        change.

    Attributes
    ----------
    shape : (int, int)
    nbytes : int
        Bytes of codes and numbers.

    Raises
    ------
    TypeError, ValueError
        If a part is not as stated: other types or lengths, a code without a level, numbers that
        are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> color = np.array([0, 2, 1], dtype=np.uint8)
    >>> matrix = CodedMatrix([(color, np.eye(3)), (np.array([0.5, -1.0, 0.0]), None)])
    >>> matrix.toarray()
    array([[ 1. ,  0. ,  0. ,  0.5],
           [ 0. ,  0. ,  1. , -1. ],
           [ 0. ,  1. ,  0. ,  0. ]])
    """

    ndim = 2
    dtype = np.dtype(np.float64)

    def __init__(self, parts: Sequence[tuple[Any, Any]]) -> None:
        if not parts:
            raise ValueError("parts must hold at least one column; got none.")
        self._set([_checked(np.asarray(rows), table) for rows, table in parts])

    def _set(self, parts: list[Part]) -> None:
        self._parts = parts
        #: What the kernels read.
        self.kernel = _kernels.CodedParts(parts)
        self.shape = self.kernel.n_samples, self.kernel.n_features
        self.nbytes = int(self.kernel.nbytes)

    @classmethod
    def _of(cls, parts: list[Part]) -> CodedMatrix:
        """A matrix of parts that were checked."""
        matrix = cls.__new__(cls)
        matrix._set(parts)
        return matrix

    @classmethod
    def stack(cls, matrices: Sequence[CodedMatrix]) -> CodedMatrix:
        """The rows of several matrices of the same levels, one after another."""
        columns = zip(*(matrix._parts for matrix in matrices), strict=True)
        return cls._of(
            [(np.concatenate([rows for rows, _ in some]), some[0][1]) for some in columns]
        )

    def __repr__(self) -> str:
        rows, columns = counted(self.shape[0], "row"), counted(self.shape[1], "column")
        return f"<{rows} x {columns} in {self.nbytes:,} bytes>"

    def __reduce__(self) -> Any:
        return CodedMatrix._of, (self._parts,)

    def __getitem__(self, rows: Any) -> CodedMatrix:
        """Some rows, by a slice or by their numbers."""
        return self._of(
            [(np.ascontiguousarray(part[rows]), levels) for part, levels in self._parts]
        )

    def __matmul__(self, other: Any) -> Any:
        n, d = self.shape
        if isinstance(other, np.ndarray) and other.shape == (d,) and other.dtype == np.float64:
            rows = _kernels.CodedRows(self.kernel, 0, n, np.zeros(n))
            return rows.gather(0, n, self.kernel.table(np.ascontiguousarray(other)))
        products = [self.tocsr(at, min(at + _ROWS, n)) @ other for at in range(0, n, _ROWS)]
        return np.concatenate(products)

    def tocsr(self, start: int = 0, stop: int | None = None) -> Any:
        """Rows [start, stop) as a SciPy CSR array."""
        stop = self.shape[0] if stop is None else stop
        offsets, columns, values = self.kernel.entries(start, stop)
        shape = stop - start, self.shape[1]
        # SciPy takes columns of 32 bits, or 64.
        kind = offsets.dtype if len(columns) > np.iinfo(np.int32).max else np.int32
        return scipy.sparse.csr_array((values, columns.astype(kind), offsets.astype(kind)), shape)

    def toarray(self) -> NDArray[np.float64]:
        """All rows as a dense array."""
        found: NDArray[np.float64] = self.tocsr().toarray()
        return found


def _checked(rows: NDArray[Any], table: Any) -> Part:
    """A part as the kernels take it."""
    kinds = _CODES if table is not None else _NUMBERS
    if rows.dtype not in kinds or rows.ndim != 1 or not len(rows):
        raise TypeError(
            f"parts must have vectors of {', '.join(kind.name for kind in kinds)} here; got shape "
            f"{rows.shape}, dtype {rows.dtype}."
        )
    rows = np.ascontiguousarray(rows)
    if table is None:
        # A NaN is not below anything.
        largest = min(_LARGEST, float(np.finfo(rows.dtype).max))
        pieces = (rows[at : at + _ROWS] for at in range(0, len(rows), _ROWS))
        if not all((abs(piece) < largest).all() for piece in pieces):
            raise ValueError(
                f"numbers must be finite, and smaller than {largest:g}; got others. Remove or "
                "fill such values by a rule fixed without looking at the data."
            )
        return rows, None
    levels = scipy.sparse.csr_array(table, dtype=np.float64)
    levels.sum_duplicates()
    if not (abs(levels.data) < _LARGEST).all():
        raise ValueError(f"a table must hold finite numbers smaller than {_LARGEST:g}.")
    return rows, (
        levels.shape[1],
        levels.indptr.astype(np.int64),
        levels.indices.astype(np.int32),
        levels.data,
    )
