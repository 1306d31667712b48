# ---- Rows in codes ------------------------------------------------------------------------------

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free


cdef extern from "dpfast.h" nogil:
    ctypedef enum dpfast_code:
        DPFAST_CODE_UINT8
        DPFAST_CODE_UINT16
        DPFAST_CODE_UINT32
        DPFAST_NUMBER_FLOAT32
        DPFAST_NUMBER_FLOAT64

    ctypedef struct dpfast_part:
        dpfast_code type
        const void *rows
        ptrdiff_t first
        ptrdiff_t width
        ptrdiff_t levels
        const int64_t *level
        const int32_t *columns
        const double *values

    ctypedef struct dpfast_coded:
        ptrdiff_t n
        ptrdiff_t d
        ptrdiff_t parts
        const dpfast_part *part

    dpfast_status dpfast_coded_check(const dpfast_coded *rows)
    dpfast_status dpfast_coded_offsets(
        const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop, int64_t *offset)
    dpfast_status dpfast_coded_entries(
        const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop, const int64_t *offset,
        dpfast_index index_type, void *columns, double *values)


_CODE_TYPES = {
    np.dtype(np.uint8): DPFAST_CODE_UINT8,
    np.dtype(np.uint16): DPFAST_CODE_UINT16,
    np.dtype(np.uint32): DPFAST_CODE_UINT32,
}
_NUMBER_TYPES = {
    np.dtype(np.float32): DPFAST_NUMBER_FLOAT32,
    np.dtype(np.float64): DPFAST_NUMBER_FLOAT64,
}


cdef class CodedParts:
    """Parts of rows in codes, which are written out as compressed rows, a range at a time.

    Keeps references to the arrays it was given.  Levels are checked once and must not change; codes
    and numbers are checked whenever they are read, so that a wrong one is an error and never a
    wrong access.

    Parameters
    ----------
    parts : list of (rows, levels)
        By the columns that they fill, one after another.  Numbers have a float32 or float64 array
        (n,) and None; they fill one column.  Codes have a uint8, uint16 or uint32 array (n,) and a
        tuple (width, offsets, columns, values): code c stands for the entries
        ``offsets[c] <= k < offsets[c + 1]``, in column ``columns[k]`` of `width`; int64, int32 and
        float64 arrays.

    Raises
    ------
    LayoutError
        If an array is not contiguous.
    ValueError
        If anything else is wrong with them, or a code has no level.
    """

    cdef readonly ptrdiff_t n_samples, n_features, nbytes
    cdef dpfast_part *_parts
    cdef dpfast_coded _rows
    cdef list _arrays  # keeps the buffers alive
    cdef object _offsets

    def __cinit__(self, list parts not None):
        cdef ptrdiff_t p
        if not parts:
            raise ValueError("parts must hold at least one; got none.")
        self._parts = <dpfast_part *>calloc(len(parts), sizeof(dpfast_part))
        if self._parts == NULL:
            raise MemoryError
        self._arrays = list(parts)
        self.n_samples = len(parts[0][0])
        for p, (rows, levels) in enumerate(parts):
            self._set_part(&self._parts[p], rows, levels)
        self._rows.n = self.n_samples
        self._rows.d = self.n_features
        self._rows.parts = len(parts)
        self._rows.part = self._parts
        _check(dpfast_coded_check(&self._rows), "parts of rows")
        self._count()

    def __dealloc__(self):
        free(self._parts)

    cdef int _count(self) except -1:
        """Where each row's entries begin; so all codes are looked at once."""
        cdef int64_t[::1] counted
        cdef dpfast_status status
        offsets = np.empty(self.n_samples + 1, dtype=np.int64)
        counted = offsets
        with nogil:
            status = dpfast_coded_offsets(&self._rows, 0, self._rows.n, &counted[0])
        _check(status, "codes")
        small = offsets[self.n_samples] < 2**32
        self._offsets = offsets.astype(np.uint32) if small else offsets
        return 0

    cdef int _set_part(self, dpfast_part *part, rows, levels) except -1:
        types = _NUMBER_TYPES if levels is None else _CODE_TYPES
        part.rows = _vector_of(rows, "rows", types)
        part.type = types[rows.dtype]
        if len(rows) != self.n_samples:
            raise ValueError(f"rows must have {self.n_samples} entries; got {len(rows)}.")
        self.nbytes += rows.nbytes
        part.first = self.n_features
        part.width = 1
        if levels is not None:
            width, offsets, columns, values = levels
            part.width = width
            part.levels = len(offsets) - 1
            part.level = <const int64_t *>_vector_of(offsets, "offsets", (np.dtype(np.int64),))
            part.columns = <const int32_t *>_vector_of(columns, "columns", (np.dtype(np.int32),))
            part.values = <const double *>_vector_of(values, "values", (np.dtype(np.float64),))
            if part.levels < 1 or not len(columns) == len(values) == offsets[part.levels]:
                raise ValueError("levels must have as many columns and values as offsets say.")
        self.n_features += part.width
        return 0

    def entries(self, ptrdiff_t start, ptrdiff_t stop):
        """(offsets, columns, values) of the rows of the range, as :class:`CsrRows` takes them."""
        cdef const int64_t[::1] offset
        cdef double[::1] numbers
        cdef void *places
        cdef dpfast_index kind
        cdef dpfast_status status
        if not 0 <= start <= stop <= self.n_samples:
            raise ValueError(f"rows [{start}, {stop}) are outside [0, {self.n_samples}).")
        offsets = self._offsets[start : stop + 1].astype(np.int64)
        offsets -= offsets[0]
        count = offsets[stop - start]
        # One more, so that there is a first one.
        columns = np.empty(count + 1, dtype=np.uint16 if self.n_features <= 65536 else np.int32)
        values = np.empty(count + 1)
        kind = _INDEX_TYPES[columns.dtype]
        places = <void *>_vector_of(columns, "columns", _INDEX_TYPES)
        numbers, offset = values, offsets
        with nogil:
            status = dpfast_coded_entries(
                &self._rows, start, stop, &offset[0], kind, places, &numbers[0])
        _check(status, "rows in codes")
        return offsets, columns[:count], values[:count]

    def rows(self, ptrdiff_t start, ptrdiff_t stop, const double[::1] target not None,
             double intercept):
        """The rows of the range as :class:`CsrRows`; `target` is theirs."""
        offsets, columns, values = self.entries(start, stop)
        return CsrRows(
            offsets, columns, values, self.n_features, target, intercept, sound=True)
