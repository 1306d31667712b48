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
    ptrdiff_t dpfast_dense_addition_depth(ptrdiff_t n, ptrdiff_t d)


class LayoutError(ValueError):
    """An array laid out in a way that the kernels do not read."""


cdef class DenseRows:
    """Rows ``(scale_i * x_i, intercept)`` of a problem, with their targets.

    Keeps references to the arrays it was given, never copies.  The methods take a row range, so
    that threads can work on different blocks of the same object.

    Parameters
    ----------
    x : float64 or float32 array (n, d), rows contiguous
    target : float64 array (n,)
    intercept : float
        Value of the constant column; 0 means none.
    alike : bool
        Whether a row's margin is to be the same to the last bit wherever the row is.
    """

    cdef readonly ptrdiff_t n_samples, n_features, dim
    cdef readonly double intercept
    cdef object _x  # keeps the buffer alive
    cdef const double[::1] _target
    cdef const double[::1] _weight
    cdef const double[::1] _row_scale
    cdef const float[::1] _inverse_norm
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
        if n < 1 or d < 1:
            raise ValueError(f"x must have at least one row and one column; got shape {(n, d)}.")
        if target.shape[0] != n:
            raise ValueError(f"target must have {n} entries; got {target.shape[0]}.")
        # The stride of an axis of length 1 means nothing and may be anything.
        if d > 1 and column_bytes != size:
            raise LayoutError("x must have contiguous rows (C order).")
        if n > 1 and (row_bytes < d * size or row_bytes % size != 0):
            raise LayoutError("x must have rows one after another, whole entries apart.")
        self._x = x
        self._target = target
        self._weight = None
        self._row_scale = None
        self._inverse_norm = None
        self.n_samples = n
        self.n_features = d
        self.dim = d + (1 if intercept != 0.0 else 0)
        self.intercept = intercept
        self._rows.n = n
        self._rows.d = d
        if self._rows.scalar == DPFAST_FLOAT64:
            self._rows.x = &x64[0, 0]
        else:
            self._rows.x = &x32[0, 0]
        self._rows.row_stride = row_bytes // size if n > 1 else d
        self._rows.target = &target[0]
        self._rows.weight = NULL
        self._rows.row_scale = NULL
        self._rows.inverse_norm = NULL
        self._rows.consistent = False
        self._rows.intercept = intercept
        self._rows.alike = alike

    cdef int _check_rows(self, str name, ptrdiff_t length) except -1:
        if length != self.n_samples:
            raise ValueError(f"{name} must have {self.n_samples} entries; got {length}.")
        return 0

    def set_weight(self, const double[::1] weight):
        """Multiply row i's loss and clipped gradient by ``weight[i] >= 0``; None: by one."""
        if weight is None:
            self._rows.weight = NULL
        else:
            self._check_rows("weight", weight.shape[0])
            self._rows.weight = &weight[0]
        self._weight = weight

    def set_row_scale(self, const double[::1] row_scale):
        """Multiply row i by ``row_scale[i]`` from now on; None: by one."""
        if row_scale is None:
            self._rows.row_scale = NULL
        else:
            self._check_rows("row_scale", row_scale.shape[0])
            self._rows.row_scale = &row_scale[0]
        self._row_scale = row_scale

    def set_inverse_norm(self, const float[::1] inverse_norm, bint consistent=False):
        """Lower bounds of the rows' inverse norms, which gradient clipping needs.

        If `consistent`, clipped rows count less whichever their label is, see csrc/dense.h.
        """
        if inverse_norm is None:
            self._rows.inverse_norm = NULL
        else:
            self._check_rows("inverse_norm", inverse_norm.shape[0])
            self._rows.inverse_norm = &inverse_norm[0]
        self._inverse_norm = inverse_norm
        self._rows.consistent = consistent

    cdef dpfast_dense _slice(self, ptrdiff_t start, ptrdiff_t stop) except *:
        cdef dpfast_dense rows = self._rows
        if not 0 <= start <= stop <= self.n_samples:
            raise ValueError(f"rows [{start}, {stop}) are outside [0, {self.n_samples}).")
        rows.n = stop - start
        if rows.scalar == DPFAST_FLOAT64:
            rows.x = <const double *>rows.x + start * rows.row_stride
        else:
            rows.x = <const float *>rows.x + start * rows.row_stride
        rows.target += start
        if rows.weight != NULL:
            rows.weight += start
        if rows.row_scale != NULL:
            rows.row_scale += start
        if rows.inverse_norm != NULL:
            rows.inverse_norm += start
        return rows

    cdef int _check_weights(self, const double[::1] w) except -1:
        if w.shape[0] != self.dim:
            raise ValueError(f"w must have {self.dim} entries; got {w.shape[0]}.")
        return 0

    def row_norms(self, ptrdiff_t start, ptrdiff_t stop, double[::1] out not None):
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

    def margins(self, ptrdiff_t start, ptrdiff_t stop, const double[::1] w not None,
                double[::1] out not None):
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

    def gradient(self, ptrdiff_t start, ptrdiff_t stop, LossSpec loss not None,
                 const double[::1] w not None, double clip_norm, double loss_clip,
                 double[::1] out not None):
        """out = sum of the rows' clipped gradients; returns the sum of their clipped losses."""
        cdef dpfast_dense rows = self._slice(start, stop)
        cdef double loss_sum = 0.0
        cdef dpfast_status status
        self._check_weights(w)
        if out.shape[0] != self.dim:
            raise ValueError(f"out must have {self.dim} entries; got {out.shape[0]}.")
        with nogil:
            status = dpfast_dense_gradient(
                &rows, &loss._loss, &w[0], clip_norm, loss_clip, &out[0], &loss_sum)
        _check(status, "gradient")
        return loss_sum

    def objective(self, ptrdiff_t start, ptrdiff_t stop, LossSpec loss not None,
                  const double[::1] w not None, double loss_clip):
        """Sum of the rows' clipped losses."""
        cdef dpfast_dense rows = self._slice(start, stop)
        cdef double loss_sum = 0.0
        cdef dpfast_status status
        self._check_weights(w)
        with nogil:
            status = dpfast_dense_objective(&rows, &loss._loss, &w[0], loss_clip, &loss_sum)
        _check(status, "objective")
        return loss_sum

    def curvature_rows(self, ptrdiff_t start, ptrdiff_t stop, LossSpec loss not None,
                       const double[::1] w not None, double[:, ::1] out not None, int sign=1):
        """out = the rows, each times the root of its weighted curvature's part of that sign."""
        cdef dpfast_dense rows = self._slice(start, stop)
        cdef dpfast_status status
        self._check_weights(w)
        if out.shape[0] < rows.n or out.shape[1] != self.dim:
            raise ValueError(
                f"out must have shape ({rows.n} or more, {self.dim}); "
                f"got {(out.shape[0], out.shape[1])}.")
        if rows.n == 0:
            return
        with nogil:
            status = dpfast_dense_curvature_rows(&rows, &loss._loss, &w[0], sign, &out[0, 0])
        _check(status, "curvature rows")


def dense_addition_depth(ptrdiff_t n, ptrdiff_t d):
    """Longest chain of additions behind an entry of a gradient over n rows."""
    return dpfast_dense_addition_depth(n, d)
