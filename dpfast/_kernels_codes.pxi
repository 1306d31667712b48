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
    ptrdiff_t dpfast_coded_levels(const dpfast_coded *rows)
    int dpfast_coded_shared_by(const dpfast_coded *rows, ptrdiff_t most, int32_t *count)
    dpfast_status dpfast_coded_table(const dpfast_coded *rows, const double *w, double *table)
    dpfast_status dpfast_coded_fold(const dpfast_coded *rows, const double *table, double *out)
    dpfast_status dpfast_coded_gather(
        const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop, const double *table, double *out)
    dpfast_status dpfast_coded_scatter(
        const dpfast_coded *rows, ptrdiff_t start, ptrdiff_t stop, const double *s, double *table)
    dpfast_status dpfast_coded_gradient(
        const dpfast_coded *rows, ptrdiff_t start, const dpfast_csr *beside,
        const dpfast_loss *loss, const double *w, double clip_norm, double loss_clip,
        double *scratch, double *gradient, double *loss_sum)


_CODE_TYPES = {
    np.dtype(np.uint8): DPFAST_CODE_UINT8,
    np.dtype(np.uint16): DPFAST_CODE_UINT16,
    np.dtype(np.uint32): DPFAST_CODE_UINT32,
}
_NUMBER_TYPES = {
    np.dtype(np.float32): DPFAST_NUMBER_FLOAT32,
    np.dtype(np.float64): DPFAST_NUMBER_FLOAT64,
}


# Levels that may share a column: what the chain of additions behind a sum has room for.
_MOST_LEVELS = 4


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

    cdef readonly ptrdiff_t n_samples, n_features, nbytes, n_levels
    #: Whether few levels share a column, so that sums by levels are as exact as those by columns.
    cdef readonly bint plain
    #: (level, column, value) of the entries of codes; and (level, column, array) of numbers.
    cdef readonly tuple entries_of_levels
    cdef readonly list numbers
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
        self._lay_out()
        self.n_levels = dpfast_coded_levels(&self._rows)
        shared = np.empty(self.n_features, dtype=np.int32)
        self.plain = dpfast_coded_shared_by(
            &self._rows, _MOST_LEVELS, <int32_t *><size_t>shared.ctypes.data)

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

    cdef int _lay_out(self) except -1:
        """Levels and columns, counted over all parts."""
        cdef ptrdiff_t p, level = 0
        entries, self.numbers = [], []
        for p, (rows, levels) in enumerate(self._arrays):
            first = self._parts[p].first
            if levels is None:
                self.numbers.append((level, first, rows))
                level += 1
                continue
            _, offsets, columns, values = levels
            count = len(offsets) - 1
            entries.append((np.repeat(np.arange(level, level + count), np.diff(offsets)),
                            columns.astype(np.intp) + first, values))
            level += count
        nothing = (np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), np.empty(0))
        self.entries_of_levels = tuple(
            np.concatenate(some) for some in zip(nothing, *entries, strict=True))
        return 0

    cdef int _set_part(self, dpfast_part *part, rows, levels) except -1:
        types = _NUMBER_TYPES if levels is None else _CODE_TYPES
        part.rows = _vector_of(rows, "rows", types)
        part.type = types[rows.dtype]
        _check_length("rows", len(rows), self.n_samples)
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

    def table(self, const double[::1] w not None):
        """Sum of value times weight for each level; the weight of a number."""
        cdef double[::1] table = np.empty(self.n_levels)
        if w.shape[0] < self.n_features:
            raise ValueError(f"w must have {self.n_features} entries; got {w.shape[0]}.")
        _check(dpfast_coded_table(&self._rows, &w[0], &table[0]), "table of levels")
        return np.asarray(table)

    def fold(self, const double[::1] table not None):
        """For each column the sum of value times entry of the table over its levels."""
        cdef double[::1] out = np.empty(self.n_features)
        _check_length("table", table.shape[0], self.n_levels)
        _check(dpfast_coded_fold(&self._rows, &table[0], &out[0]), "table of levels")
        return np.asarray(out)


cdef class CodedRows(CsrRows):
    """Rows of a range in codes, as :class:`CsrRows`.

    Gradients, losses, margins and norms are computed from the codes; for anything else the rows are
    written out, once.

    Parameters
    ----------
    parts : CodedParts
    start, stop : int
        The range.
    target : float64 array (stop - start,)
    intercept : float
    """

    cdef CodedParts _parts
    cdef ptrdiff_t _start
    cdef bint _written

    def __init__(self, CodedParts parts not None, ptrdiff_t start, ptrdiff_t stop,
                 const double[::1] target not None, double intercept=0.0):
        if not 0 <= start < stop <= parts.n_samples:
            raise ValueError(f"rows [{start}, {stop}) are none of [0, {parts.n_samples}).")
        self._begin(stop - start, parts.n_features, target, intercept)
        self._parts, self._start, self._written = parts, start, False
        self.n_stored = int(parts._offsets[stop]) - int(parts._offsets[start])
        self.nbytes = parts.nbytes * (stop - start) // parts.n_samples
        self._rows.d, self._rows.intercept = self.n_features, intercept
        self._rows.indptr = self._rows.indices = self._rows.values = NULL
        self._rows.indptr_type, self._rows.scalar = DPFAST_INT64, DPFAST_FLOAT64
        self._attach()

    cdef int _write(self) except -1:
        if self._written:
            return 0
        self._arrays = self._parts.entries(self._start, self._start + self.n_samples)
        indptr, indices, data = self._arrays
        self._rows.indptr = _vector_of(indptr, "indptr", _INDPTR_TYPES)
        self._rows.indices = _vector_of(indices, "indices", _INDEX_TYPES)
        self._rows.index_type = _INDEX_TYPES[indices.dtype]
        self._rows.values = _vector_of(data, "data", _VALUE_TYPES)
        self._written = True
        return 0

    cdef dpfast_csr _slice(self, ptrdiff_t start, ptrdiff_t stop) except *:
        self._write()
        return CsrRows._slice(self, start, stop)

    def entries(self, ptrdiff_t start, ptrdiff_t stop):
        self._write()
        return CsrRows.entries(self, start, stop)

    @property
    def parts(self):
        """The parts of all rows."""
        return self._parts

    def numbers(self, ptrdiff_t start, ptrdiff_t stop):
        """(level, column, numbers of the rows of a range) for each part of numbers."""
        self._beside(start, stop)
        first = self._start + start
        return [(level, column, rows[first : self._start + stop].astype(np.float64))
                for level, column, rows in self._parts.numbers]

    def scaled(self, ptrdiff_t start, ptrdiff_t stop):
        """Which rows of a range are not as they are stored."""
        if self._row_scale is None:
            return np.zeros(stop - start, dtype=bool)
        return np.asarray(self._row_scale[start:stop]) != 1.0

    def gather(self, ptrdiff_t start, ptrdiff_t stop, const double[::1] table not None):
        """Sums of a table over the levels of each row of a range, before scaling."""
        cdef double[::1] out = np.empty(stop - start + 1)
        cdef dpfast_csr rows = self._beside(start, stop)
        cdef dpfast_status status
        cdef ptrdiff_t first = self._start + start
        _check_length("table", table.shape[0], self._parts.n_levels)
        with nogil:
            status = dpfast_coded_gather(
                &self._parts._rows, first, first + rows.n, &table[0], &out[0])
        _check(status, "rows in codes")
        return np.asarray(out)[: stop - start]

    def scatter(self, ptrdiff_t start, ptrdiff_t stop, const double[::1] s not None):
        """For each level the sum of s over its rows of a range, before scaling."""
        cdef double[::1] table = np.empty(2 * self._parts.n_levels)
        cdef dpfast_csr rows = self._beside(start, stop)
        cdef dpfast_status status
        cdef ptrdiff_t first = self._start + start
        if s.shape[0] != rows.n or rows.n < 1:
            raise ValueError(f"s must have {rows.n} entries, at least one; got {s.shape[0]}.")
        with nogil:
            status = dpfast_coded_scatter(
                &self._parts._rows, first, first + rows.n, &s[0], &table[0])
        _check(status, "rows in codes")
        return np.asarray(table)[: self._parts.n_levels]

    def row_norms(self, ptrdiff_t start, ptrdiff_t stop, double[::1] out not None):
        level, _, values = self._parts.entries_of_levels
        # Without any entries the table is one of integers.
        table = np.bincount(level, values * values, self._parts.n_levels).astype(np.float64)
        squares = self.gather(start, stop, table)
        for _, _, own in self.numbers(start, stop):
            squares += own * own
        _check_length("out", out.shape[0], stop - start)
        # Terms are positive, and as many as stored entries: see dpfast_dense_row_norms.
        first = self._start + start
        stored = np.diff(self._parts._offsets[first : self._start + stop + 1])
        norms = np.sqrt(squares) * (1.0 + (stored / 2.0 + 4.0) * 2.0**-52)
        # Of these squares may have underflowed, so they are written out.  No others: the last bits
        # of a row's norm must not depend on which rows it is among.
        unsure = ~((squares > 1e-280) & (squares < np.inf))
        if unsure.any():
            written = np.empty(stop - start)
            CsrRows.row_norms(self, start, stop, written)
            norms[unsure] = written[unsure]
        np.asarray(out)[:] = norms

    def margins(self, ptrdiff_t start, ptrdiff_t stop, const double[::1] w not None,
                double[::1] out not None):
        _check_length("w", w.shape[0], self.dim)
        found = self.gather(start, stop, self._parts.table(w))
        if not np.all(np.isfinite(w)):
            raise FloatingPointError("margins: w must be finite.")
        _check_length("out", out.shape[0], stop - start)
        if self._row_scale is not None:
            found *= self._row_scale[start:stop]
        if self.intercept != 0.0:
            found += self.intercept * w[self.n_features]
        np.asarray(out)[:] = found

    cdef dpfast_status _gradient(self, ptrdiff_t start, ptrdiff_t stop, const dpfast_loss *loss,
                                 const double *w, double clip_norm, double loss_clip,
                                 double *out, double *loss_sum) except *:
        cdef dpfast_csr rows = self._beside(start, stop)
        cdef double[::1] scratch = np.empty(3 * self._parts.n_levels)
        with nogil:
            return dpfast_coded_gradient(
                &self._parts._rows, self._start + start, &rows, loss, w, clip_norm, loss_clip,
                &scratch[0], out, loss_sum)

    cdef dpfast_status _objective(self, ptrdiff_t start, ptrdiff_t stop, const dpfast_loss *loss,
                                  const double *w, double loss_clip, double *loss_sum) except *:
        return self._gradient(start, stop, loss, w, float("inf"), loss_clip, NULL, loss_sum)
