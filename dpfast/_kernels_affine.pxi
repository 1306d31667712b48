# ---- Rows after an affine map of their columns --------------------------------------------------

cdef extern from "dpfast.h" nogil:
    enum: DPFAST_PART_ROWS
    dpfast_status dpfast_csr_affine_rows(
        const dpfast_csr *rows, ptrdiff_t columns, const double *factor, const double *shift,
        double *out, double *squares)
    dpfast_status dpfast_dense_affine_rows_float(
        const dpfast_dense *rows, ptrdiff_t columns, const double *factor, const double *shift,
        float *out)
    dpfast_status dpfast_dense_part_sums(
        const dpfast_dense *rows, const double *factor, const double *shift, double radius,
        const double *share, double *z, double *above, double *below, double *squares)
    dpfast_status dpfast_csr_part_sums(
        const dpfast_csr *rows, const double *factor, const double *shift, double radius,
        const double *share, double *above, double *below, double *squares)
    dpfast_status dpfast_dense_column_counts(
        const dpfast_dense *rows, ptrdiff_t asked, const ptrdiff_t *slot, const double *low,
        const double *per_bin, ptrdiff_t bins, const double *share, double *counts)
    dpfast_status dpfast_csr_column_counts(
        const dpfast_csr *rows, ptrdiff_t asked, const ptrdiff_t *slot, const double *low,
        const double *per_bin, ptrdiff_t bins, const double *share, double *counts)
    dpfast_status dpfast_csr_shortening(
        const dpfast_csr *rows, const double *factor, const double *shift, double radius,
        double *out)
    dpfast_status dpfast_csr_quadratic_forms(
        const dpfast_csr *rows, const double *matrix, double *forms)


cdef int _check_affine(rows, ptrdiff_t start, ptrdiff_t stop, const double[::1] factor,
                       const double[::1] shift, ptrdiff_t n, ptrdiff_t columns) except -1:
    """Refuse rows of another kind, an empty range, and arrays of other shapes."""
    _check_block(rows, start, stop, getattr(rows, "dim", 0))
    if not 1 <= columns <= rows.dim:
        raise ValueError(f"out must have 1 to {rows.dim} columns; got {columns}.")
    if factor.shape[0] != columns or shift.shape[0] != columns:
        raise ValueError(
            f"factor and shift must have {columns} entries, as many as out has columns; got "
            f"{factor.shape[0]}, {shift.shape[0]}.")
    if n != stop - start:
        raise ValueError(f"out must have {stop - start} rows; got {n}.")
    return 0


def affine_rows(CsrRows rows not None, ptrdiff_t start, ptrdiff_t stop,
                const double[::1] factor not None, const double[::1] shift not None,
                double[:, ::1] out not None, double[::1] squares not None):
    """out = the first columns of the range's rows, times `factor`, plus `shift`.

    squares = the sums of the rows' squares.
    """
    cdef dpfast_csr sparse
    cdef dpfast_status status
    cdef ptrdiff_t columns = out.shape[1]
    _check_affine(rows, start, stop, factor, shift, out.shape[0], columns)
    _check_length("squares", squares.shape[0], stop - start)
    sparse = rows._slice(start, stop)
    with nogil:
        status = dpfast_csr_affine_rows(
            &sparse, columns, &factor[0], &shift[0], &out[0, 0], &squares[0])
    _check(status, "affine rows")


def affine_rows_float(DenseRows rows not None, ptrdiff_t start, ptrdiff_t stop,
                      const double[::1] factor not None, const double[::1] shift not None,
                      float[:, ::1] out not None):
    """The same of dense rows, each entry rounded to float32; without the squares."""
    cdef dpfast_dense dense
    cdef dpfast_status status
    cdef ptrdiff_t columns = out.shape[1]
    _check_affine(rows, start, stop, factor, shift, out.shape[0], columns)
    dense = rows._slice(start, stop)
    with nogil:
        status = dpfast_dense_affine_rows_float(
            &dense, columns, &factor[0], &shift[0], &out[0, 0])
    _check(status, "affine rows")


cdef int _check_map(rows, ptrdiff_t start, ptrdiff_t stop, const double[::1] factor,
                    const double[::1] shift, double radius) except -1:
    """Refuse a map that is not of all columns but the intercept's, and a radius of nothing."""
    _check_affine(rows, start, stop, factor, shift, stop - start, rows.n_features)
    if not radius > 0.0:
        raise ValueError(f"radius must be positive; got {radius}.")
    return 0


def part_sums(rows, ptrdiff_t start, ptrdiff_t stop, const double[::1] factor not None,
              const double[::1] shift not None, double radius, const double[::1] share,
              double[:, ::1] out not None):
    """out (2 or 3 x columns) += the range's rows: their positive parts, negative parts, squares.

    Rows are mapped column by column, shortened to `radius`, and counted `share` times (None: once).
    """
    cdef dpfast_dense dense
    cdef dpfast_csr sparse
    cdef dpfast_status status
    cdef double[:, ::1] scratch
    cdef const double *counts = NULL
    cdef double *squares = NULL
    _check_map(rows, start, stop, factor, shift, radius)
    if out.shape[0] not in (2, 3) or out.shape[1] != rows.n_features:
        raise ValueError(
            f"out must be of shape (2 or 3, {rows.n_features}); got "
            f"{out.shape[0], out.shape[1]}.")
    if share is not None:
        _check_length("share", share.shape[0], stop - start)
        counts = _from(share, 0)
    if out.shape[0] == 3:
        squares = &out[2, 0]
    if isinstance(rows, DenseRows):
        dense = (<DenseRows>rows)._slice(start, stop)
        scratch = np.empty((DPFAST_PART_ROWS, out.shape[1]))
        with nogil:
            status = dpfast_dense_part_sums(
                &dense, &factor[0], &shift[0], radius, counts, &scratch[0, 0], &out[0, 0],
                &out[1, 0], squares)
    else:
        sparse = (<CsrRows>rows)._slice(start, stop)
        with nogil:
            status = dpfast_csr_part_sums(
                &sparse, &factor[0], &shift[0], radius, counts, &out[0, 0], &out[1, 0], squares)
    _check(status, "column parts")


def column_counts(rows, ptrdiff_t start, ptrdiff_t stop, const ptrdiff_t[::1] slot not None,
                  const double[::1] low not None, const double[::1] per_bin not None,
                  const double[::1] share, double[:, ::1] out not None):
    """out (columns asked for x bins) += how many of the range's rows have their entry in each bin.

    Line ``slot[j]`` is column j's, -1 leaves it out.  Bin b holds
    ``b <= (x - low) per_bin < b + 1``, the outer ones also what lies beyond.  Rows are counted
    `share` times (None: once).
    """
    cdef dpfast_dense dense
    cdef dpfast_csr sparse
    cdef dpfast_status status
    cdef const double *counts = NULL
    cdef ptrdiff_t asked = out.shape[0], bins = out.shape[1]
    _check_block(rows, start, stop, getattr(rows, "dim", 0))
    if asked < 1 or bins < 1 or low.shape[0] != asked or per_bin.shape[0] != asked:
        raise ValueError(
            f"low and per_bin must have as many entries, 1 or more, as out has lines of bins; got "
            f"{low.shape[0]}, {per_bin.shape[0]} and {asked, bins}.")
    _check_length("slot", slot.shape[0], rows.n_features)
    if share is not None:
        _check_length("share", share.shape[0], stop - start)
        counts = _from(share, 0)
    if isinstance(rows, DenseRows):
        dense = (<DenseRows>rows)._slice(start, stop)
        with nogil:
            status = dpfast_dense_column_counts(
                &dense, asked, &slot[0], &low[0], &per_bin[0], bins, counts, &out[0, 0])
    else:
        sparse = (<CsrRows>rows)._slice(start, stop)
        with nogil:
            status = dpfast_csr_column_counts(
                &sparse, asked, &slot[0], &low[0], &per_bin[0], bins, counts, &out[0, 0])
    _check(status, "counts of columns")


def shortening(CsrRows rows not None, ptrdiff_t start, ptrdiff_t stop,
               const double[::1] factor not None, const double[::1] shift not None, double radius,
               double[::1] out not None):
    """out[i] = what :func:`part_sums` shortens row `start` + i by."""
    cdef dpfast_csr sparse
    cdef dpfast_status status
    _check_map(rows, start, stop, factor, shift, radius)
    _check_length("out", out.shape[0], stop - start)
    sparse = rows._slice(start, stop)
    with nogil:
        status = dpfast_csr_shortening(&sparse, &factor[0], &shift[0], radius, &out[0])
    _check(status, "lengths of rows")


def quadratic_forms(CsrRows rows not None, ptrdiff_t start, ptrdiff_t stop,
                    const double[:, ::1] matrix not None, double[::1] out not None):
    """out[i] = row `start` + i times the symmetric matrix times that row."""
    cdef dpfast_csr sparse
    cdef dpfast_status status
    _check_block(rows, start, stop, matrix.shape[0])
    if matrix.shape[1] != rows.dim:
        raise ValueError(f"matrix must have {rows.dim} columns; got {matrix.shape[1]}.")
    _check_length("out", out.shape[0], stop - start)
    sparse = rows._slice(start, stop)
    with nogil:
        status = dpfast_csr_quadratic_forms(&sparse, &matrix[0, 0], &out[0])
    _check(status, "quadratic forms")
