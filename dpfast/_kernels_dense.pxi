# ---- Dense rows ---------------------------------------------------------------------------------

cdef extern from "dpfast.h" nogil:
    ctypedef struct dpfast_dense:
        ptrdiff_t n
        ptrdiff_t d
        const double *x
        ptrdiff_t row_stride
        const double *target
        const double *row_scale
        const float *inverse_norm
        double intercept

    dpfast_status dpfast_dense_row_norms(const dpfast_dense *rows, double *norms)
    dpfast_status dpfast_dense_margins(const dpfast_dense *rows, const double *w, double *margins)
    dpfast_status dpfast_dense_gradient(
        const dpfast_dense *rows, dpfast_loss loss, const double *w, double clip_norm,
        double loss_clip, double *gradient, double *loss_sum)
    dpfast_status dpfast_dense_objective(
        const dpfast_dense *rows, dpfast_loss loss, const double *w, double loss_clip,
        double *loss_sum)
    dpfast_status dpfast_dense_curvature_rows(
        const dpfast_dense *rows, dpfast_loss loss, const double *w, double *out)
    ptrdiff_t dpfast_dense_addition_depth(ptrdiff_t n, ptrdiff_t d)


cdef class DenseRows:
    """Rows ``(scale_i * x_i, intercept)`` of a problem, with their targets.

    Keeps references to the arrays it was given, never copies.  The methods take a row range, so
    that threads can work on different blocks of the same object.

    Parameters
    ----------
    x : float64 array (n, d), rows contiguous
    target : float64 array (n,)
    intercept : float
        Value of the constant column; 0 means none.
    """

    cdef readonly ptrdiff_t n_samples, n_features, dim
    cdef readonly double intercept
    cdef const double[:, :] _x
    cdef const double[::1] _target
    cdef const double[::1] _row_scale
    cdef const float[::1] _inverse_norm
    cdef dpfast_dense _rows

    def __init__(self, const double[:, :] x, const double[::1] target, double intercept=0.0):
        cdef ptrdiff_t n = x.shape[0], d = x.shape[1]
        if n < 1 or d < 1:
            raise ValueError(f"x must have at least one row and one column; got shape {(n, d)}.")
        if target.shape[0] != n:
            raise ValueError(f"target must have {n} entries; got {target.shape[0]}.")
        # The stride of an axis of length 1 means nothing and may be anything.
        if d > 1 and x.strides[1] != sizeof(double):
            raise ValueError("x must have contiguous rows (C order).")
        if n > 1 and (x.strides[0] < d * <ptrdiff_t>sizeof(double)
                      or x.strides[0] % <ptrdiff_t>sizeof(double) != 0):
            raise ValueError("x must have rows one after another, a whole number of entries apart.")
        self._x = x
        self._target = target
        self._row_scale = None
        self._inverse_norm = None
        self.n_samples = n
        self.n_features = d
        self.dim = d + (1 if intercept != 0.0 else 0)
        self.intercept = intercept
        self._rows.n = n
        self._rows.d = d
        self._rows.x = &x[0, 0]
        self._rows.row_stride = x.strides[0] // <ptrdiff_t>sizeof(double) if n > 1 else d
        self._rows.target = &target[0]
        self._rows.row_scale = NULL
        self._rows.inverse_norm = NULL
        self._rows.intercept = intercept

    def set_row_scale(self, const double[::1] row_scale):
        """Multiply row i by ``row_scale[i]`` from now on; None: by one."""
        if row_scale is None:
            self._rows.row_scale = NULL
        elif row_scale.shape[0] != self.n_samples:
            raise ValueError(
                f"row_scale must have {self.n_samples} entries; got {row_scale.shape[0]}.")
        else:
            self._rows.row_scale = &row_scale[0]
        self._row_scale = row_scale

    def set_inverse_norm(self, const float[::1] inverse_norm):
        """Lower bounds of the rows' inverse norms, which gradient clipping needs."""
        if inverse_norm is None:
            self._rows.inverse_norm = NULL
        elif inverse_norm.shape[0] != self.n_samples:
            raise ValueError(
                f"inverse_norm must have {self.n_samples} entries; got {inverse_norm.shape[0]}.")
        else:
            self._rows.inverse_norm = &inverse_norm[0]
        self._inverse_norm = inverse_norm

    cdef dpfast_dense _slice(self, ptrdiff_t start, ptrdiff_t stop) except *:
        cdef dpfast_dense rows = self._rows
        if not 0 <= start <= stop <= self.n_samples:
            raise ValueError(f"rows [{start}, {stop}) are outside [0, {self.n_samples}).")
        rows.n = stop - start
        rows.x += start * rows.row_stride
        rows.target += start
        if rows.row_scale != NULL:
            rows.row_scale += start
        if rows.inverse_norm != NULL:
            rows.inverse_norm += start
        return rows

    cdef int _check_weights(self, const double[::1] w) except -1:
        if w.shape[0] != self.dim:
            raise ValueError(f"w must have {self.dim} entries; got {w.shape[0]}.")
        return 0

    def row_norms(self, ptrdiff_t start, ptrdiff_t stop, double[::1] out):
        """out = upper bounds of the norms of the stored rows (before scaling)."""
        cdef dpfast_dense rows = self._slice(start, stop)
        cdef dpfast_status status
        if out.shape[0] != rows.n:
            raise ValueError(f"out must have {rows.n} entries; got {out.shape[0]}.")
        if rows.n == 0:
            return
        with nogil:
            status = dpfast_dense_row_norms(&rows, &out[0])
        _check(status, "row norms")

    def margins(self, ptrdiff_t start, ptrdiff_t stop, const double[::1] w, double[::1] out):
        """out = <row, w> for the rows of the range."""
        cdef dpfast_dense rows = self._slice(start, stop)
        cdef dpfast_status status
        self._check_weights(w)
        if out.shape[0] != rows.n:
            raise ValueError(f"out must have {rows.n} entries; got {out.shape[0]}.")
        if rows.n == 0:
            return
        with nogil:
            status = dpfast_dense_margins(&rows, &w[0], &out[0])
        _check(status, "margins")

    def gradient(self, ptrdiff_t start, ptrdiff_t stop, int loss_id, double parameter,
                 const double[::1] w, double clip_norm, double loss_clip, double[::1] out):
        """out = sum of the rows' clipped gradients; returns the sum of their clipped losses."""
        cdef dpfast_dense rows = self._slice(start, stop)
        cdef dpfast_loss loss = dpfast_loss(loss_id, parameter)
        cdef double loss_sum = 0.0
        cdef dpfast_status status
        self._check_weights(w)
        if out.shape[0] != self.dim:
            raise ValueError(f"out must have {self.dim} entries; got {out.shape[0]}.")
        with nogil:
            status = dpfast_dense_gradient(
                &rows, loss, &w[0], clip_norm, loss_clip, &out[0], &loss_sum)
        _check(status, "gradient")
        return loss_sum

    def objective(self, ptrdiff_t start, ptrdiff_t stop, int loss_id, double parameter,
                  const double[::1] w, double loss_clip):
        """Sum of the rows' clipped losses."""
        cdef dpfast_dense rows = self._slice(start, stop)
        cdef dpfast_loss loss = dpfast_loss(loss_id, parameter)
        cdef double loss_sum = 0.0
        cdef dpfast_status status
        self._check_weights(w)
        with nogil:
            status = dpfast_dense_objective(&rows, loss, &w[0], loss_clip, &loss_sum)
        _check(status, "objective")
        return loss_sum

    def curvature_rows(self, ptrdiff_t start, ptrdiff_t stop, int loss_id, double parameter,
                       const double[::1] w, double[:, ::1] out):
        """out = the rows, each times the square root of its loss's curvature."""
        cdef dpfast_dense rows = self._slice(start, stop)
        cdef dpfast_loss loss = dpfast_loss(loss_id, parameter)
        cdef dpfast_status status
        self._check_weights(w)
        if out.shape[0] < rows.n or out.shape[1] != self.dim:
            raise ValueError(
                f"out must have shape ({rows.n} or more, {self.dim}); "
                f"got {(out.shape[0], out.shape[1])}.")
        if rows.n == 0:
            return
        with nogil:
            status = dpfast_dense_curvature_rows(&rows, loss, &w[0], &out[0, 0])
        _check(status, "curvature rows")


def dense_addition_depth(ptrdiff_t n, ptrdiff_t d):
    """Longest chain of additions behind an entry of a gradient over n rows."""
    return dpfast_dense_addition_depth(n, d)
