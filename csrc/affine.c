/* Public entry of the affine kernels: argument checks, choice of instruction set, the refusal of
 * anything that is not finite, and sparse rows written out. */
#include "affine_ops.h"
#include "csr_ops.h"
#include "finite.h"

#include <math.h>
#include <string.h>

static int valid_columns(ptrdiff_t n, ptrdiff_t d, double intercept, ptrdiff_t columns)
{
    return n >= 0 && d >= 0 && isfinite(intercept) && columns >= 0 &&
           columns - (intercept != 0.0) <= d; /* d + 1 might overflow */
}

static int valid_dense(const dpfast_dense *rows, ptrdiff_t columns)
{
    return valid_columns(rows->n, rows->d, rows->intercept, columns) &&
           rows->row_stride >= rows->d && (rows->n == 0 || rows->d == 0 || rows->x != NULL) &&
           (rows->scalar == DPFAST_FLOAT64 || rows->scalar == DPFAST_FLOAT32);
}

static const dpfast_affine_ops *ops(const dpfast_dense *rows)
{
    return &DPFAST_OF_ISA_IN_USE(dpfast_affine_ops)[rows->scalar];
}

dpfast_status dpfast_dense_affine_rows_float(const dpfast_dense *rows, ptrdiff_t columns,
                                             const double *factor, const double *shift,
                                             float *out)
{
    if (!valid_dense(rows, columns) || factor == NULL || shift == NULL || out == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    ops(rows)->affine_rows_float(rows, columns, factor, shift, out);
    return DPFAST_OK; /* the caller sees a NaN in what it computes of them */
}

dpfast_status dpfast_dense_part_sums(const dpfast_dense *rows, const double *factor,
                                     const double *shift, double radius, const double *share,
                                     double *z, double *above, double *below, double *squares)
{
    if (!valid_dense(rows, rows->d) || !(radius > 0.0) || factor == NULL || shift == NULL ||
        z == NULL || above == NULL || below == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    return ops(rows)->part_sums(rows, factor, shift, radius, share, z, above, below, squares)
               ? DPFAST_OK
               : DPFAST_ERR_NONFINITE;
}

static double stored_value(const dpfast_csr *rows, ptrdiff_t k)
{
    if (rows->values == NULL) {
        return 1.0;
    }
    return rows->scalar == DPFAST_FLOAT64 ? ((const double *)rows->values)[k]
                                          : (double)((const float *)rows->values)[k];
}

/* One row; returns its sum of squares. */
static double csr_affine_row(const dpfast_csr *rows, ptrdiff_t i, ptrdiff_t columns,
                             const double *factor, const double *shift, double *out)
{
    const double scale = rows->row_scale != NULL ? rows->row_scale[i] : 1.0;
    const ptrdiff_t end = (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, i + 1);
    ptrdiff_t k = (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, i);
    double square = 0.0;
    ptrdiff_t j;
    memcpy(out, shift, (size_t)columns * sizeof *out);
    for (; k < end; k++) {
        const ptrdiff_t column = (ptrdiff_t)dpfast_index_at(rows->indices, rows->index_type, k);
        if (column < columns) {
            out[column] += stored_value(rows, k) * scale * factor[column];
        }
    }
    if (rows->d < columns) {
        out[rows->d] += rows->intercept * factor[rows->d];
    }
    for (j = 0; j < columns; j++) {
        square += out[j] * out[j];
    }
    return square;
}

dpfast_status dpfast_csr_affine_rows(const dpfast_csr *rows, ptrdiff_t columns,
                                     const double *factor, const double *shift, double *out,
                                     double *squares)
{
    ptrdiff_t i;
    if (!valid_columns(rows->n, rows->d, rows->intercept, columns) || rows->indptr == NULL ||
        factor == NULL || shift == NULL || out == NULL || squares == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    for (i = 0; i < rows->n; i++) {
        squares[i] = csr_affine_row(rows, i, columns, factor, shift, out + i * columns);
    }
    return all_finite(rows->n, squares) ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}

/* The positive part, exactly, and without a branch, since signs of entries are not foreseen. */
static double positive(double x) { return 0.5 * (fabs(x) + x); }

/* Column and mapped value of the stored entry k of a row. */
static double mapped(const dpfast_csr *rows, ptrdiff_t k, double scale, const double *factor,
                     const double *shift, ptrdiff_t *column)
{
    *column = (ptrdiff_t)dpfast_index_at(rows->indices, rows->index_type, k);
    return stored_value(rows, k) * scale * factor[*column] + shift[*column];
}

static double sum_of_squares(ptrdiff_t d, const double *x)
{
    double sum = 0.0;
    ptrdiff_t j;
    for (j = 0; j < d; j++) {
        sum += x[j] * x[j];
    }
    return sum;
}

/* What shortens row i to the radius, rounded down; `empty` is the square of the shift's norm.  The
 * square of the row's is a sum of differences: what rounding did to the terms is added to it, which
 * makes it an upper bound.  A NaN if it is not finite. */
static double shortening(const dpfast_csr *rows, ptrdiff_t i, const double *factor,
                         const double *shift, double radius, double empty)
{
    const double unit = 0x1p-53 * (double)(rows->d + 8);
    const double scale = rows->row_scale != NULL ? rows->row_scale[i] : 1.0;
    const ptrdiff_t end = (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, i + 1);
    ptrdiff_t k = (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, i);
    double square = 0.0, terms = empty, norm;
    for (; k < end; k++) {
        ptrdiff_t j;
        const double z = mapped(rows, k, scale, factor, shift, &j);
        square += z * z - shift[j] * shift[j];
        terms += z * z + shift[j] * shift[j];
    }
    square += empty;
    norm = sqrt((square > 0.0 ? square : 0.0) + 2.0 * unit * terms) * (1.0 + unit);
    if (!isfinite(norm)) {
        return NAN;
    }
    return norm > radius ? radius / norm : 1.0;
}

static int valid_csr_map(const dpfast_csr *rows, const double *factor, const double *shift,
                         double radius)
{
    return valid_columns(rows->n, rows->d, rows->intercept, rows->d) && rows->indptr != NULL &&
           factor != NULL && shift != NULL && radius > 0.0;
}

dpfast_status dpfast_csr_shortening(const dpfast_csr *rows, const double *factor,
                                    const double *shift, double radius, double *out)
{
    double empty;
    ptrdiff_t i;
    if (!valid_csr_map(rows, factor, shift, radius) || out == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    empty = sum_of_squares(rows->d, shift);
    for (i = 0; i < rows->n; i++) {
        out[i] = shortening(rows, i, factor, shift, radius, empty);
    }
    return all_finite(rows->n, out) ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}

dpfast_status dpfast_csr_part_sums(const dpfast_csr *rows, const double *factor,
                                   const double *shift, double radius, const double *share,
                                   double *above, double *below, double *squares)
{
    double empty, counts = 0.0, quadratic = 0.0;
    ptrdiff_t i, j, k;
    if (!valid_csr_map(rows, factor, shift, radius) || above == NULL || below == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    empty = sum_of_squares(rows->d, shift);
    for (i = 0; i < rows->n; i++) {
        const double scale = rows->row_scale != NULL ? rows->row_scale[i] : 1.0;
        const ptrdiff_t end = (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, i + 1);
        const double shorter = shortening(rows, i, factor, shift, radius, empty);
        const double count = share != NULL ? share[i] * shorter : shorter;
        counts += count;
        quadratic += count * shorter;
        for (k = (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, i); k < end; k++) {
            const double z = mapped(rows, k, scale, factor, shift, &j);
            above[j] += count * (positive(z) - positive(shift[j]));
            below[j] += count * (positive(-z) - positive(-shift[j]));
            if (squares != NULL) {
                squares[j] += count * shorter * (z * z - shift[j] * shift[j]);
            }
        }
    }
    for (j = 0; j < rows->d; j++) {
        above[j] += counts * positive(shift[j]);
        below[j] += counts * positive(-shift[j]);
        if (squares != NULL) {
            squares[j] += quadratic * shift[j] * shift[j];
        }
    }
    return isfinite(counts) ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}
