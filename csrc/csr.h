/* Sparse rows: compressed rows (CSR) of float64, float32, or implicit ones.  Arithmetic is float64
 * throughout, as for dense rows.
 *
 * Row i holds the entries indptr[i] <= k < indptr[i + 1]: values[k] in column indices[k].  Columns
 * are strictly increasing within a row, so that none occurs twice: a repeated column would make
 * the norm of the stored entries smaller than the norm of the row that they add up to. */
#ifndef DPFAST_CSR_H
#define DPFAST_CSR_H

#include <stddef.h>

#include "dense.h"
#include "loss.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dpfast_index {
    DPFAST_INT32 = 0,
    DPFAST_INT64 = 1,
    DPFAST_UINT16 = 2
} dpfast_index;

typedef struct dpfast_csr {
    ptrdiff_t n, d;
    const void *indptr;        /* n + 1 offsets into indices and values */
    dpfast_index indptr_type;  /* DPFAST_INT32 or DPFAST_INT64 */
    const void *indices;       /* columns */
    dpfast_index index_type;   /* type of the entries of indices */
    const void *values;        /* NULL: every stored entry is 1 */
    dpfast_scalar scalar;      /* type of the entries of values */
    const double *target;      /* n, or NULL where targets are not used */
    const double *weight;      /* n weights >= 0, or NULL: all ones */
    const double *row_scale;   /* n factors in (0, 1], or NULL: all ones */
    const float *inverse_norm; /* n lower bounds of 1 / ||x~_i||, or NULL: no gradient clipping */
    int consistent;            /* clipped rows count less whichever their label is; logistic loss */
    double intercept;          /* value of the constant column; 0: none */
} dpfast_csr;

typedef enum dpfast_csr_defect {
    DPFAST_CSR_SOUND = 0,
    DPFAST_CSR_BAD_SIZE = 1,   /* a negative or too large size, an unknown type, a missing array */
    DPFAST_CSR_BAD_INDPTR = 2, /* does not start at 0, decreases, or does not end at nnz */
    DPFAST_CSR_BAD_INDEX = 3,  /* a column outside [0, d) */
    DPFAST_CSR_BAD_ORDER = 4,  /* columns not strictly increasing within a row */
    DPFAST_CSR_NONFINITE = 5   /* a NaN or an infinity among the values */
} dpfast_csr_defect;

/* Checks a whole matrix with nnz stored entries in one read.  The other functions trust the arrays:
 * a wrong index would be a write outside the gradient.  Call this first, and do not let the arrays
 * change afterwards.
 *
 * *defect (may be NULL) says what is wrong.  Returns DPFAST_ERR_NONFINITE for a value that is not
 * finite, DPFAST_ERR_ARGUMENT for any other defect. */
dpfast_status dpfast_csr_check(const dpfast_csr *rows, ptrdiff_t nnz, dpfast_csr_defect *defect);

/* The functions below take a checked matrix or a range of its rows: n smaller, indptr and the
 * arrays of one entry a row moved on to the first row, indices and values as they are. */

/* norms[i] = an upper bound of ||x_i||_2, within (k / 2 + 8) 2^-52 relative for a row of k entries;
 * overflow and underflow of the squares are handled.  DPFAST_ERR_NONFINITE if a value is a NaN or
 * an infinity. */
dpfast_status dpfast_csr_row_norms(const dpfast_csr *rows, double *norms);

/* margins[i] = <x~_i, w>. */
dpfast_status dpfast_csr_margins(const dpfast_csr *rows, const double *w, double *margins);

/* margins[k n + i] = <x~_i, w_k> for n_classes vectors, dim apart. */
dpfast_status dpfast_csr_class_margins(const dpfast_csr *rows, ptrdiff_t n_classes, const double *w,
                                        double *margins);

/* sum[k dim + j] += sum_i s[k n + i] x~_i[j]; whether it is finite is the caller's to see. */
dpfast_status dpfast_csr_add_class_rows(const dpfast_csr *rows, ptrdiff_t n_classes, const double *s,
                                         double *sum);

/* loss_sum = sum_i weight_i min(loss_i, loss_clip) and
 * gradient = sum_i weight_i clip(loss'_i x~_i, clip_norm), in one read of the rows from memory; as
 * dpfast_dense_gradient.  gradient (dim entries) is overwritten. */
dpfast_status dpfast_csr_gradient(const dpfast_csr *rows, const dpfast_loss *loss, const double *w,
                                  double clip_norm, double loss_clip, double *gradient,
                                  double *loss_sum);

/* loss_sum alone. */
dpfast_status dpfast_csr_objective(const dpfast_csr *rows, const dpfast_loss *loss,
                                   const double *w, double loss_clip, double *loss_sum);

/* out (dim x dim, row-major, symmetric) += sum_i weight_i loss''_i x~_i x~_i^T.  The upper triangle
 * is added to and then copied to the lower one. */
dpfast_status dpfast_csr_add_hessian(const dpfast_csr *rows, const dpfast_loss *loss,
                                     const double *w, double *out);

/* forms[i] = x~_i^T matrix x~_i for a symmetric matrix (dim x dim), whose upper triangle is read. */
dpfast_status dpfast_csr_quadratic_forms(const dpfast_csr *rows, const double *matrix,
                                         double *forms);

#ifdef __cplusplus
}
#endif

#endif
