/* Public entry of the sparse kernels: argument checks, choice of instruction set, and the refusal
 * of anything that is not finite. */
#include "csr_ops.h"
#include "finite.h"

#include <float.h>
#include <math.h>

#include "simd.h"

static const dpfast_csr_ops *ops(void)
{
    return &DPFAST_OF_ISA_IN_USE(dpfast_csr_ops);
}

static ptrdiff_t dimension(const dpfast_csr *rows)
{
    return rows->d + (rows->intercept != 0.0);
}

/* Everything that can be told without reading indices and values. */
static int valid_rows(const dpfast_csr *rows)
{
    const ptrdiff_t most = PTRDIFF_MAX / (ptrdiff_t)sizeof(double) - 1;
    return rows->n >= 0 && rows->n <= most && rows->d >= 0 && rows->d <= most &&
           rows->indptr != NULL &&
           (rows->indptr_type == DPFAST_INT32 || rows->indptr_type == DPFAST_INT64) &&
           (rows->index_type == DPFAST_INT32 || rows->index_type == DPFAST_INT64 ||
            rows->index_type == DPFAST_UINT16) &&
           (rows->scalar == DPFAST_FLOAT64 || rows->scalar == DPFAST_FLOAT32) &&
           isfinite(rows->intercept);
}

/* Losses of these rows can be evaluated. */
static int valid_problem(const dpfast_csr *rows, const dpfast_loss *loss, const double *w)
{
    return valid_rows(rows) && (rows->n == 0 || rows->target != NULL) && w != NULL &&
           dpfast_loss_valid(loss);
}

static int all_finite_float(ptrdiff_t n, const float *x)
{
    ptrdiff_t i;
    for (i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            return 0;
        }
    }
    return 1;
}

/* ---- Check of a whole matrix ----------------------------------------------------------------- */

static int valid_indptr(const dpfast_csr *rows, ptrdiff_t nnz)
{
    int64_t previous = 0;
    ptrdiff_t i;
    if (dpfast_index_at(rows->indptr, rows->indptr_type, 0) != 0) {
        return 0;
    }
    for (i = 1; i <= rows->n; i++) {
        const int64_t next = dpfast_index_at(rows->indptr, rows->indptr_type, i);
        if (next < previous) {
            return 0;
        }
        previous = next;
    }
    return previous == (int64_t)nnz;
}

DPFAST_INLINE dpfast_csr_defect columns_defect(const dpfast_csr *rows, int index_type)
{
    ptrdiff_t i, k, end = 0;
    for (i = 0; i < rows->n; i++) {
        int64_t previous = -1;
        k = end;
        end = (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, i + 1);
        for (; k < end; k++) {
            const int64_t column = dpfast_index_at(rows->indices, index_type, k);
            if (column < 0 || column >= (int64_t)rows->d) {
                return DPFAST_CSR_BAD_INDEX;
            }
            if (column <= previous) {
                return DPFAST_CSR_BAD_ORDER;
            }
            previous = column;
        }
    }
    return DPFAST_CSR_SOUND;
}

static dpfast_csr_defect find_defect(const dpfast_csr *rows, ptrdiff_t nnz)
{
    dpfast_csr_defect columns;
    if (!valid_rows(rows) || nnz < 0 || nnz > PTRDIFF_MAX / (ptrdiff_t)sizeof(double) ||
        (nnz > 0 && rows->indices == NULL)) {
        return DPFAST_CSR_BAD_SIZE;
    }
    if (!valid_indptr(rows, nnz)) {
        return DPFAST_CSR_BAD_INDPTR;
    }
    columns = rows->index_type == DPFAST_INT32   ? columns_defect(rows, DPFAST_INT32)
              : rows->index_type == DPFAST_INT64 ? columns_defect(rows, DPFAST_INT64)
                                                 : columns_defect(rows, DPFAST_UINT16);
    if (columns != DPFAST_CSR_SOUND || rows->values == NULL) {
        return columns;
    }
    return (rows->scalar == DPFAST_FLOAT64 ? all_finite(nnz, (const double *)rows->values)
                                           : all_finite_float(nnz, (const float *)rows->values))
               ? DPFAST_CSR_SOUND
               : DPFAST_CSR_NONFINITE;
}

dpfast_status dpfast_csr_check(const dpfast_csr *rows, ptrdiff_t nnz, dpfast_csr_defect *defect)
{
    const dpfast_csr_defect found = find_defect(rows, nnz);
    if (defect != NULL) {
        *defect = found;
    }
    return found == DPFAST_CSR_SOUND       ? DPFAST_OK
           : found == DPFAST_CSR_NONFINITE ? DPFAST_ERR_NONFINITE
                                           : DPFAST_ERR_ARGUMENT;
}

/* ---- The kernels ----------------------------------------------------------------------------- */

dpfast_status dpfast_csr_row_norms(const dpfast_csr *rows, double *norms)
{
    ptrdiff_t i;
    if (!valid_rows(rows) || norms == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    for (i = 0; i < rows->n; i++) {
        const ptrdiff_t start = (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, i);
        const ptrdiff_t end = (ptrdiff_t)dpfast_index_at(rows->indptr, rows->indptr_type, i + 1);
        if (rows->values == NULL) {
            /* As of stored ones: another row's entry, which is none, must not move the last bit. */
            const double stored = (double)(end - start);
            norms[i] = sqrt(stored) * (1.0 + (stored / 2.0 + 4.0) * DBL_EPSILON);
        } else {
            /* No column occurs twice, so the stored entries have the norm of the row. */
            dpfast_dense entries = {0};
            dpfast_status status;
            entries.n = 1;
            entries.d = entries.row_stride = end - start;
            entries.scalar = rows->scalar;
            entries.x = rows->scalar == DPFAST_FLOAT64
                            ? (const void *)((const double *)rows->values + start)
                            : (const void *)((const float *)rows->values + start);
            status = dpfast_dense_row_norms(&entries, &norms[i]);
            if (status != DPFAST_OK) {
                return status;
            }
        }
    }
    return DPFAST_OK;
}

/* The kernels read the weights of stored columns only: a NaN in another one must not pass
 * unnoticed, so w is looked at as a whole. */

dpfast_status dpfast_csr_margins(const dpfast_csr *rows, const double *w, double *margins)
{
    if (!valid_rows(rows) || w == NULL || margins == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    ops()->margins(rows, w, margins);
    return all_finite(dimension(rows), w) && all_finite(rows->n, margins) ? DPFAST_OK
                                                                         : DPFAST_ERR_NONFINITE;
}

dpfast_status dpfast_csr_class_margins(const dpfast_csr *rows, ptrdiff_t n_classes, const double *w,
                                       double *margins)
{
    dpfast_status status = n_classes >= 1 && w != NULL && margins != NULL ? DPFAST_OK
                                                                          : DPFAST_ERR_ARGUMENT;
    ptrdiff_t k;
    for (k = 0; k < n_classes && status == DPFAST_OK; k++) {
        status = dpfast_csr_margins(rows, w + k * dimension(rows), margins + k * rows->n);
    }
    return status;
}

dpfast_status dpfast_csr_add_class_rows(const dpfast_csr *rows, ptrdiff_t n_classes, const double *s,
                                        double *sum)
{
    ptrdiff_t k;
    if (!valid_rows(rows) || n_classes < 1 || s == NULL || sum == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    for (k = 0; k < n_classes; k++) {
        ops()->add_rows(rows, s + k * rows->n, sum + k * dimension(rows));
    }
    return DPFAST_OK;
}

dpfast_status dpfast_csr_gradient(const dpfast_csr *rows, const dpfast_loss *loss, const double *w,
                                  double clip_norm, double loss_clip, double *gradient,
                                  double *loss_sum)
{
    if (!valid_problem(rows, loss, w) || gradient == NULL || loss_sum == NULL ||
        !(clip_norm > 0.0) || !(loss_clip > 0.0) ||
        (rows->consistent && loss->id != DPFAST_LOSS_logistic)) {
        return DPFAST_ERR_ARGUMENT;
    }
    *loss_sum = ops()->gradient(rows, loss, w, clip_norm, loss_clip, gradient);
    return isfinite(*loss_sum) && all_finite(dimension(rows), w) &&
                   all_finite(dimension(rows), gradient)
               ? DPFAST_OK
               : DPFAST_ERR_NONFINITE;
}

dpfast_status dpfast_csr_objective(const dpfast_csr *rows, const dpfast_loss *loss,
                                   const double *w, double loss_clip, double *loss_sum)
{
    if (!valid_problem(rows, loss, w) || loss_sum == NULL || !(loss_clip > 0.0)) {
        return DPFAST_ERR_ARGUMENT;
    }
    *loss_sum = ops()->gradient(rows, loss, w, INFINITY, loss_clip, NULL);
    return isfinite(*loss_sum) && all_finite(dimension(rows), w) ? DPFAST_OK
                                                                : DPFAST_ERR_NONFINITE;
}

/* Copies the upper triangle to the lower one, in tiles that fit the cache; returns whether all is
 * finite. */
static int mirror(ptrdiff_t dim, double *out)
{
    const ptrdiff_t tile = 32;
    int finite = 1;
    ptrdiff_t row, column, i, j;
    for (row = 0; row < dim; row += tile) {
        for (column = row; column < dim; column += tile) {
            for (i = row; i < dim && i < row + tile; i++) {
                for (j = i > column ? i : column; j < dim && j < column + tile; j++) {
                    const double value = out[i * dim + j];
                    finite &= isfinite(value) != 0;
                    out[j * dim + i] = value;
                }
            }
        }
    }
    return finite;
}

dpfast_status dpfast_csr_add_hessian(const dpfast_csr *rows, const dpfast_loss *loss,
                                     const double *w, double *out)
{
    ptrdiff_t dim;
    if (!valid_problem(rows, loss, w) || out == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    dim = dimension(rows);
    if (dim > 0 && dim > PTRDIFF_MAX / (ptrdiff_t)sizeof(double) / dim) {
        return DPFAST_ERR_ARGUMENT;
    }
    ops()->add_hessian(rows, loss, w, out);
    return mirror(dim, out) && all_finite(dim, w) ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}

dpfast_status dpfast_csr_quadratic_forms(const dpfast_csr *rows, const double *matrix,
                                         double *forms)
{
    if (!valid_rows(rows) || matrix == NULL || forms == NULL) {
        return DPFAST_ERR_ARGUMENT;
    }
    ops()->quadratic_forms(rows, matrix, forms);
    return all_finite(rows->n, forms) ? DPFAST_OK : DPFAST_ERR_NONFINITE;
}
