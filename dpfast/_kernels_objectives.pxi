# ---- Sums behind objectives that are not plain risks --------------------------------------------

cdef extern from "dpfast.h" nogil:
    ptrdiff_t dpfast_objective_scratch(ptrdiff_t n, ptrdiff_t dim)
    dpfast_status dpfast_dense_row_sum(
        const dpfast_dense *rows, const double *s, double *scratch, double *sum)
    dpfast_status dpfast_csr_row_sum(
        const dpfast_csr *rows, const double *s, double *scratch, double *sum)
    dpfast_status dpfast_dense_tilted(
        const dpfast_dense *rows, const dpfast_loss *loss, double tilt, const double *w,
        double *scratch, double *gradient, double *peak, double *excess)
    dpfast_status dpfast_csr_tilted(
        const dpfast_csr *rows, const dpfast_loss *loss, double tilt, const double *w,
        double *scratch, double *gradient, double *peak, double *excess)
    dpfast_status dpfast_dense_shifted(
        const dpfast_dense *rows, const dpfast_loss *loss, double shift, double rounding,
        const double *w, double *scratch, double *gradient, double *loss_sum, double *pull)
    dpfast_status dpfast_csr_shifted(
        const dpfast_csr *rows, const dpfast_loss *loss, double shift, double rounding,
        const double *w, double *scratch, double *gradient, double *loss_sum, double *pull)
    ptrdiff_t dpfast_multinomial_scratch(ptrdiff_t n, ptrdiff_t n_classes)
    dpfast_status dpfast_dense_multinomial(
        const dpfast_dense *rows, ptrdiff_t n_classes, const double *w, double clip_norm,
        double *scratch, double *gradient)
    dpfast_status dpfast_csr_multinomial(
        const dpfast_csr *rows, ptrdiff_t n_classes, const double *w, double clip_norm,
        double *scratch, double *gradient)


cdef int _check_block(rows, ptrdiff_t start, ptrdiff_t stop, ptrdiff_t dim) except -1:
    """Refuse rows of another kind, an empty range, and vectors of another length."""
    if not isinstance(rows, (DenseRows, CsrRows)):
        raise TypeError(f"rows must be DenseRows or CsrRows; got {type(rows).__name__}.")
    if stop <= start:
        raise ValueError(f"rows [{start}, {stop}) must be at least one row.")
    if dim != rows.dim:
        raise ValueError(f"w and out must have {rows.dim} entries; got {dim}.")
    return 0


def row_sum(rows, ptrdiff_t start, ptrdiff_t stop, const double[::1] s not None,
            double[::1] out not None):
    """out = sum of s[i] times row i over the range; s[0] belongs to row `start`."""
    cdef dpfast_dense dense
    cdef dpfast_csr sparse
    cdef dpfast_status status
    _check_block(rows, start, stop, out.shape[0])
    _check_length("s", s.shape[0], stop - start)
    cdef double[::1] scratch = np.empty(dpfast_objective_scratch(stop - start, rows.dim))
    if isinstance(rows, DenseRows):
        dense = (<DenseRows>rows)._slice(start, stop)
        with nogil:
            status = dpfast_dense_row_sum(&dense, &s[0], &scratch[0], &out[0])
    else:
        sparse = (<CsrRows>rows)._slice(start, stop)
        with nogil:
            status = dpfast_csr_row_sum(&sparse, &s[0], &scratch[0], &out[0])
    _check(status, "sum of rows")


def tilted_sum(rows, ptrdiff_t start, ptrdiff_t stop, LossSpec loss not None, double tilt,
               const double[::1] w not None, const double[::1] target, double[::1] out not None):
    """(peak, excess) of the tilted losses of a range of rows, and out = their tilted gradient.

    peak is the largest weighted loss v_i; excess the sum of exp(tilt (v_i - peak)) - 1; out the sum
    of exp(tilt (v_i - peak)) times the gradient of v_i.  `target` replaces the rows' targets over
    the range, if given.
    """
    cdef dpfast_dense dense
    cdef dpfast_csr sparse
    cdef dpfast_status status
    cdef double peak = 0.0, excess = 0.0
    _check_block(rows, start, stop, w.shape[0])
    _check_block(rows, start, stop, out.shape[0])
    if target is not None:
        _check_length("target", target.shape[0], stop - start)
    cdef double[::1] scratch = np.empty(dpfast_objective_scratch(stop - start, rows.dim))
    if isinstance(rows, DenseRows):
        dense = (<DenseRows>rows)._slice(start, stop)
        if target is not None:
            dense.target = &target[0]
        with nogil:
            status = dpfast_dense_tilted(
                &dense, &loss._loss, tilt, &w[0], &scratch[0], &out[0], &peak, &excess)
    else:
        sparse = (<CsrRows>rows)._slice(start, stop)
        if target is not None:
            sparse.target = &target[0]
        with nogil:
            status = dpfast_csr_tilted(
                &sparse, &loss._loss, tilt, &w[0], &scratch[0], &out[0], &peak, &excess)
    _check(status, "tilted losses")
    return peak, excess


def shifted_sum(rows, ptrdiff_t start, ptrdiff_t stop, LossSpec loss not None, double shift,
                double rounding, const double[::1] w not None, double[::1] out not None):
    """(loss sum, derivative in the shift) of losses under the worst shift of their margins.

    out = gradient of the loss sum at a fixed shift.
    """
    cdef dpfast_dense dense
    cdef dpfast_csr sparse
    cdef dpfast_status status
    cdef double loss_sum = 0.0, pull = 0.0
    _check_block(rows, start, stop, w.shape[0])
    _check_block(rows, start, stop, out.shape[0])
    cdef double[::1] scratch = np.empty(dpfast_objective_scratch(stop - start, rows.dim))
    if isinstance(rows, DenseRows):
        dense = (<DenseRows>rows)._slice(start, stop)
        with nogil:
            status = dpfast_dense_shifted(
                &dense, &loss._loss, shift, rounding, &w[0], &scratch[0], &out[0], &loss_sum,
                &pull)
    else:
        sparse = (<CsrRows>rows)._slice(start, stop)
        with nogil:
            status = dpfast_csr_shifted(
                &sparse, &loss._loss, shift, rounding, &w[0], &scratch[0], &out[0], &loss_sum,
                &pull)
    _check(status, "shifted losses")
    return loss_sum, pull


def weighted_gram_block(rows, ptrdiff_t start, ptrdiff_t stop, const double[::1] weight not None,
                        double[:, ::1] out not None):
    """The sum of weight[i] >= 0 times the outer product of row i, over the range.

    Sparse rows: added to `out`, of shape (dim, dim).  Dense rows: out[:stop - start] = the rows,
    each times the root of its weight, so that BLAS can multiply them.
    """
    cdef dpfast_dense dense
    cdef dpfast_csr sparse
    cdef dpfast_status status
    cdef LossSpec squared = LossSpec(DPFAST_LOSS_squared)
    _check_block(rows, start, stop, out.shape[1])
    cdef double[::1] zeros = np.zeros(rows.dim)
    _check_length("weight", weight.shape[0], stop - start)
    if out.shape[0] < (stop - start if isinstance(rows, DenseRows) else rows.dim):
        raise ValueError(f"out must have more rows; got shape {(out.shape[0], out.shape[1])}.")
    if isinstance(rows, DenseRows):
        dense = (<DenseRows>rows)._slice(start, stop)
        dense.weight = &weight[0]
        with nogil:
            status = dpfast_dense_curvature_rows(
                &dense, &squared._loss, &zeros[0], 1, &out[0, 0])
    else:
        sparse = (<CsrRows>rows)._slice(start, stop)
        sparse.weight = &weight[0]
        with nogil:
            status = dpfast_csr_add_hessian(&sparse, &squared._loss, &zeros[0], &out[0, 0])
    _check(status, "weighted Gram matrix")


def multinomial_gradient(rows, ptrdiff_t start, ptrdiff_t stop, const double[::1] label not None,
                         const double[:, ::1] w not None, double clip_norm,
                         double[:, ::1] out not None):
    """out = gradient of multinomial logistic regression, rows clipped.

    label[i], a class 0, 1, ..., is that of row `start` + i; w and out have shape (n_classes, dim).
    """
    cdef dpfast_dense dense
    cdef dpfast_csr sparse
    cdef dpfast_status status
    cdef ptrdiff_t n_classes = w.shape[0]
    _check_block(rows, start, stop, w.shape[1])
    _check_block(rows, start, stop, out.shape[1])
    if out.shape[0] != n_classes or n_classes < 2:
        raise ValueError(f"w and out must have two rows or more; got {n_classes}, {out.shape[0]}.")
    _check_length("label", label.shape[0], stop - start)
    cdef double[::1] scratch = np.empty(
        dpfast_multinomial_scratch(stop - start, n_classes))
    if isinstance(rows, DenseRows):
        dense = (<DenseRows>rows)._slice(start, stop)
        dense.target = &label[0]
        with nogil:
            status = dpfast_dense_multinomial(
                &dense, n_classes, &w[0, 0], clip_norm, &scratch[0], &out[0, 0])
    else:
        sparse = (<CsrRows>rows)._slice(start, stop)
        sparse.target = &label[0]
        with nogil:
            status = dpfast_csr_multinomial(
                &sparse, n_classes, &w[0, 0], clip_norm, &scratch[0], &out[0, 0])
    _check(status, "multinomial gradient")
