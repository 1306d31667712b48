# ---- Sparse rows --------------------------------------------------------------------------------

cdef extern from "dpfast.h" nogil:
    ctypedef enum dpfast_index:
        DPFAST_INT32
        DPFAST_INT64
        DPFAST_UINT16

    ctypedef struct dpfast_csr:
        ptrdiff_t n
        ptrdiff_t d
        const void *indptr
        dpfast_index indptr_type
        const void *indices
        dpfast_index index_type
        const void *values
        dpfast_scalar scalar
        const double *target
        const double *weight
        const double *row_scale
        const float *inverse_norm
        int consistent
        double intercept

    ctypedef enum dpfast_csr_defect:
        DPFAST_CSR_SOUND
        DPFAST_CSR_BAD_INDPTR
        DPFAST_CSR_BAD_INDEX
        DPFAST_CSR_BAD_ORDER

    dpfast_status dpfast_csr_check(
        const dpfast_csr *rows, ptrdiff_t nnz, dpfast_csr_defect *defect)
    dpfast_status dpfast_csr_row_norms(const dpfast_csr *rows, double *norms)
    dpfast_status dpfast_csr_margins(const dpfast_csr *rows, const double *w, double *margins)
    dpfast_status dpfast_csr_gradient(
        const dpfast_csr *rows, const dpfast_loss *loss, const double *w, double clip_norm,
        double loss_clip, double *gradient, double *loss_sum)
    dpfast_status dpfast_csr_objective(
        const dpfast_csr *rows, const dpfast_loss *loss, const double *w, double loss_clip,
        double *loss_sum)
    dpfast_status dpfast_csr_add_hessian(
        const dpfast_csr *rows, const dpfast_loss *loss, const double *w, double *out)


cdef const void *_vector_of(object array, str name, object dtypes) except? NULL:
    """Address of a contiguous vector of one of the dtypes."""
    if array.dtype not in dtypes:
        raise ValueError(
            f"{name} must be {' or '.join(str(t) for t in dtypes)}; got {array.dtype}.")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one axis; got shape {array.shape}.")
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise LayoutError(f"{name} must be contiguous and aligned.")
    return <const void *><size_t>array.ctypes.data


_INDEX_TYPES = {
    np.dtype(np.int32): DPFAST_INT32,
    np.dtype(np.int64): DPFAST_INT64,
    np.dtype(np.uint16): DPFAST_UINT16,
}
_INDPTR_TYPES = (np.dtype(np.int32), np.dtype(np.int64))
_VALUE_TYPES = {np.dtype(np.float64): DPFAST_FLOAT64, np.dtype(np.float32): DPFAST_FLOAT32}


cdef class CsrRows(_Rows):
    """Sparse rows.

    Row ``i`` has ``data[k]`` in column ``indices[k]`` for ``indptr[i] <= k < indptr[i + 1]``, as in
    SciPy's ``csr_array``.  The arrays are checked once, and must not change afterwards.

    Parameters
    ----------
    indptr : int32 or int64 array (n + 1,)
    indices : int32, int64 or uint16 array (nnz,)
        Strictly increasing within each row.
    data : float64 or float32 array (nnz,), or None
        None: every stored entry is 1.  An array of ones is not kept either, so that indicator
        columns cost no memory for values and are processed faster.
    n_features : int
        Number of columns ``d``.
    target : float64 array (n,)
    intercept : float
        Value of the constant column; 0 means none.
    sound : bool
        Leave the checks out: the arrays are those of :class:`CodedParts`, which made them sound.
    compact : bool
        Work on a uint16 copy of `indices` if ``d <= 65536``: 2 more bytes a stored entry (the
        caller may then let the original go), half or a quarter of the memory read for indices.

    Raises
    ------
    LayoutError
        If an array is not contiguous, or a row has a column twice or columns out of order: SciPy's
        ``sum_duplicates()`` brings a matrix into order.
    FloatingPointError
        If data has NaN or infinities.
    ValueError
        If anything else is wrong with the arrays.
    """

    cdef readonly ptrdiff_t n_stored
    #: Bytes of the arrays that one pass over all rows reads.
    cdef readonly ptrdiff_t nbytes
    cdef tuple _arrays  # keeps the buffers alive
    cdef dpfast_csr _rows

    def __init__(self, indptr, indices, data, ptrdiff_t n_features,
                 const double[::1] target not None, double intercept=0.0, bint compact=False,
                 bint sound=False):
        self._rows.indptr = _vector_of(indptr, "indptr", _INDPTR_TYPES)
        self._rows.indices = _vector_of(indices, "indices", _INDEX_TYPES)
        self._rows.indptr_type = _INDEX_TYPES[indptr.dtype]
        self._rows.index_type = _INDEX_TYPES[indices.dtype]
        if data is not None:
            self._rows.values = _vector_of(data, "data", _VALUE_TYPES)
            self._rows.scalar = _VALUE_TYPES[data.dtype]
            if len(data) != len(indices):
                raise ValueError(
                    f"data must have {len(indices)} entries, as many as indices; got {len(data)}.")
            if not sound and np.all(data == 1.0):
                data = None
        if data is None:
            self._rows.values = NULL
            self._rows.scalar = DPFAST_FLOAT64
        self._begin(len(indptr) - 1, n_features, target, intercept)
        self.n_stored = len(indices)
        self._rows.d, self._rows.intercept = n_features, intercept
        self._attach()
        if not sound:
            self._check_arrays()
        # Only now is every index known to fit 16 bits.
        if compact and n_features <= 65536 and self._rows.index_type != DPFAST_UINT16:
            indices = indices.astype(np.uint16)
            self._rows.indices = _vector_of(indices, "indices", _INDEX_TYPES)
            self._rows.index_type = DPFAST_UINT16
        self._arrays = (indptr, indices, data)
        self.nbytes = sum(array.nbytes for array in self._arrays if array is not None)

    cdef int _check_arrays(self) except -1:
        cdef dpfast_csr_defect defect
        cdef dpfast_status status
        cdef ptrdiff_t nnz = self.n_stored
        with nogil:
            status = dpfast_csr_check(&self._rows, nnz, &defect)
        if defect == DPFAST_CSR_BAD_INDPTR:
            raise ValueError(
                f"indptr must start at 0, never decrease, and end at {nnz}, the number of stored "
                "entries.")
        if defect == DPFAST_CSR_BAD_INDEX:
            raise ValueError(f"indices must be columns in [0, {self.n_features}).")
        if defect == DPFAST_CSR_BAD_ORDER:
            raise LayoutError(
                "indices must be strictly increasing within each row. Call sum_duplicates() on the "
                "SciPy matrix first.")
        return _check(status, "sparse rows")

    def entries(self, ptrdiff_t start, ptrdiff_t stop):
        """(offsets, columns, values) of the rows of the range, scaled; columns may be uint16.

        Row `start` + i has the entries from ``offsets[i]`` to before ``offsets[i + 1]``.
        """
        self._check_range(start, stop)
        indptr, indices, data = self._arrays
        offsets = indptr[start : stop + 1]
        first, last = offsets[0], offsets[stop - start]
        values = np.ones(last - first) if data is None else data[first:last].astype(np.float64)
        if self._row_scale is not None:
            values *= np.repeat(np.asarray(self._row_scale[start:stop]), np.diff(offsets))
        return offsets - first, indices[first:last], values

    cdef int _attach(self) except -1:
        self._rows = self._beside(0, self.n_samples)
        return 0

    cdef dpfast_csr _beside(self, ptrdiff_t start, ptrdiff_t stop) except *:
        """What belongs to rows of a range, but for their entries."""
        cdef dpfast_csr rows = self._rows
        self._check_range(start, stop)
        rows.n = stop - start
        rows.target = _from(self._target, start)
        rows.weight = _from(self._weight, start)
        rows.row_scale = _from(self._row_scale, start)
        rows.inverse_norm = self._inverse_norms_from(start)
        rows.consistent = self._consistent
        return rows

    cdef dpfast_csr _slice(self, ptrdiff_t start, ptrdiff_t stop) except *:
        cdef dpfast_csr rows = self._beside(start, stop)
        rows.indptr = <const char *>rows.indptr + start * (
            4 if rows.indptr_type == DPFAST_INT32 else 8)
        return rows

    cdef dpfast_status _row_norms(self, ptrdiff_t start, ptrdiff_t stop, double *out) except *:
        cdef dpfast_csr rows = self._slice(start, stop)
        with nogil:
            return dpfast_csr_row_norms(&rows, out)

    cdef dpfast_status _margins(self, ptrdiff_t start, ptrdiff_t stop, const double *w,
                                double *out) except *:
        cdef dpfast_csr rows = self._slice(start, stop)
        with nogil:
            return dpfast_csr_margins(&rows, w, out)

    cdef dpfast_status _gradient(self, ptrdiff_t start, ptrdiff_t stop, const dpfast_loss *loss,
                                 const double *w, double clip_norm, double loss_clip,
                                 double *out, double *loss_sum) except *:
        cdef dpfast_csr rows = self._slice(start, stop)
        with nogil:
            return dpfast_csr_gradient(&rows, loss, w, clip_norm, loss_clip, out, loss_sum)

    cdef dpfast_status _objective(self, ptrdiff_t start, ptrdiff_t stop, const dpfast_loss *loss,
                                  const double *w, double loss_clip, double *loss_sum) except *:
        cdef dpfast_csr rows = self._slice(start, stop)
        with nogil:
            return dpfast_csr_objective(&rows, loss, w, loss_clip, loss_sum)

    def add_hessian(self, ptrdiff_t start, ptrdiff_t stop, LossSpec loss not None,
                    const double[::1] w not None, double[:, ::1] out not None):
        """out += sum of the rows' weighted Hessians; out is symmetric before and after."""
        cdef dpfast_csr rows = self._slice(start, stop)
        cdef dpfast_status status
        _check_length("w", w.shape[0], self.dim)
        if out.shape[0] != self.dim or out.shape[1] != self.dim:
            raise ValueError(
                f"out must have shape {(self.dim, self.dim)}; got {(out.shape[0], out.shape[1])}.")
        with nogil:
            status = dpfast_csr_add_hessian(&rows, &loss._loss, &w[0], &out[0, 0])
        _check(status, "Hessian")
