# ---- Dense rows ---------------------------------------------------------------------------------

cdef extern from "dpfast.h" nogil:
    ctypedef enum dpfast_scalar:
        DPFAST_FLOAT64
        DPFAST_FLOAT32

    ctypedef struct dpfast_dense:
        ptrdiff_t n
        ptrdiff_t d
        const void *x
        ptrdiff_t row_stride
        dpfast_scalar scalar
        const double *target
        const double *weight
        const double *row_scale
        const float *inverse_norm
        int consistent
        double intercept
        int alike

    dpfast_status dpfast_dense_row_norms(const dpfast_dense *rows, double *norms)
    dpfast_status dpfast_dense_margins(const dpfast_dense *rows, const double *w, double *margins)
    dpfast_status dpfast_dense_gradient(
        const dpfast_dense *rows, const dpfast_loss *loss, const double *w, double clip_norm,
        double loss_clip, double *gradient, double *loss_sum)
    dpfast_status dpfast_dense_objective(
        const dpfast_dense *rows, const dpfast_loss *loss, const double *w, double loss_clip,
        double *loss_sum)
    dpfast_status dpfast_dense_curvature_rows(
        const dpfast_dense *rows, const dpfast_loss *loss, const double *w, int sign, double *out)
    ptrdiff_t dpfast_addition_depth(ptrdiff_t n)


cdef class DenseRows(_Rows):
    """Dense rows.

    Parameters
    ----------
    x : float64 or float32 array (n, d), rows contiguous
    target : float64 array (n,)
    intercept : float
        Value of the constant column; 0 means none.
    alike : bool
        Whether a row's margin is to be the same to the last bit wherever the row is.
    """

    cdef object _x  # keeps the buffer alive
    cdef dpfast_dense _rows

    def __init__(self, x, const double[::1] target not None, double intercept=0.0,
                 bint alike=False):
        cdef const double[:, :] x64
        cdef const float[:, :] x32
        cdef ptrdiff_t n, d, size, row_bytes, column_bytes
        if x.dtype == np.float64:
            x64 = x
            n, d, size = x64.shape[0], x64.shape[1], sizeof(double)
            row_bytes, column_bytes = x64.strides[0], x64.strides[1]
            self._rows.scalar = DPFAST_FLOAT64
        elif x.dtype == np.float32:
            x32 = x
            n, d, size = x32.shape[0], x32.shape[1], sizeof(float)
            row_bytes, column_bytes = x32.strides[0], x32.strides[1]
            self._rows.scalar = DPFAST_FLOAT32
        else:
            raise ValueError(f"x must be float64 or float32; got {x.dtype}.")
        self._begin(n, d, target, intercept)
        # The stride of an axis of length 1 means nothing and may be anything.
        if d > 1 and column_bytes != size:
            raise LayoutError("x must have contiguous rows (C order).")
        if n > 1 and (row_bytes < d * size or row_bytes % size != 0):
            raise LayoutError("x must have rows one after another, whole entries apart.")
        self._x = x
        self._rows.d = d
        if self._rows.scalar == DPFAST_FLOAT64:
            self._rows.x = &x64[0, 0]
        else:
            self._rows.x = &x32[0, 0]
        self._rows.row_stride = row_bytes // size if n > 1 else d
        self._rows.intercept = intercept
        self._rows.alike = alike
        self._attach()

    cdef int _attach(self) except -1:
        self._rows = self._slice(0, self.n_samples)
        return 0

    cdef dpfast_dense _slice(self, ptrdiff_t start, ptrdiff_t stop) except *:
        cdef dpfast_dense rows = self._rows
        self._check_range(start, stop)
        rows.n = stop - start
        if rows.scalar == DPFAST_FLOAT64:
            rows.x = <const double *>rows.x + start * rows.row_stride
        else:
            rows.x = <const float *>rows.x + start * rows.row_stride
        rows.target = _from(self._target, start)
        rows.weight = _from(self._weight, start)
        rows.row_scale = _from(self._row_scale, start)
        rows.inverse_norm = self._inverse_norms_from(start)
        rows.consistent = self._consistent
        return rows

    cdef dpfast_status _row_norms(self, ptrdiff_t start, ptrdiff_t stop, double *out) except *:
        cdef dpfast_dense rows = self._slice(start, stop)
        with nogil:
            return dpfast_dense_row_norms(&rows, out)

    cdef dpfast_status _margins(self, ptrdiff_t start, ptrdiff_t stop, const double *w,
                                double *out) except *:
        cdef dpfast_dense rows = self._slice(start, stop)
        with nogil:
            return dpfast_dense_margins(&rows, w, out)

    cdef dpfast_status _gradient(self, ptrdiff_t start, ptrdiff_t stop, const dpfast_loss *loss,
                                 const double *w, double clip_norm, double loss_clip,
                                 double *out, double *loss_sum) except *:
        cdef dpfast_dense rows = self._slice(start, stop)
        with nogil:
            return dpfast_dense_gradient(&rows, loss, w, clip_norm, loss_clip, out, loss_sum)

    cdef dpfast_status _objective(self, ptrdiff_t start, ptrdiff_t stop, const dpfast_loss *loss,
                                  const double *w, double loss_clip, double *loss_sum) except *:
        cdef dpfast_dense rows = self._slice(start, stop)
        with nogil:
            return dpfast_dense_objective(&rows, loss, w, loss_clip, loss_sum)

    def curvature_rows(self, ptrdiff_t start, ptrdiff_t stop, LossSpec loss not None,
                       const double[::1] w not None, double[:, ::1] out not None, int sign=1):
        """out = the rows, each times the root of its weighted curvature's part of that sign."""
        cdef dpfast_dense rows = self._slice(start, stop)
        cdef dpfast_status status
        _check_length("w", w.shape[0], self.dim)
        if out.shape[0] < rows.n or out.shape[1] != self.dim:
            raise ValueError(
                f"out must have shape ({rows.n} or more, {self.dim}); "
                f"got {(out.shape[0], out.shape[1])}.")
        if rows.n == 0:
            return
        with nogil:
            status = dpfast_dense_curvature_rows(&rows, &loss._loss, &w[0], sign, &out[0, 0])
        _check(status, "curvature rows")


def addition_depth(ptrdiff_t n):
    """Longest chain of additions behind an entry of a gradient over n rows of any layout."""
    return dpfast_addition_depth(n)
