/* Dense rows in float64 or float32.  Arithmetic is float64 throughout: float32 only halves the
 * memory that is read, and rounding errors, which privacy pays for, stay those of float64. */
#ifndef DPFAST_DENSE_H
#define DPFAST_DENSE_H

#include <stddef.h>

#include "loss.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dpfast_scalar { DPFAST_FLOAT64 = 0, DPFAST_FLOAT32 = 1 } dpfast_scalar;

typedef struct dpfast_dense {
    ptrdiff_t n, d;
    const void *x;             /* row i starts row_stride entries after row i - 1 */
    ptrdiff_t row_stride;      /* >= d */
    dpfast_scalar scalar;      /* type of the entries of x */
    const double *target;      /* n, or NULL where targets are not used */
    const double *weight;      /* n weights >= 0, or NULL: all ones */
    const double *row_scale;   /* n factors in (0, 1], or NULL: all ones */
    const float *inverse_norm; /* n lower bounds of 1 / ||x~_i||, or NULL: no gradient clipping */
    int consistent;            /* clipped rows count less whichever their label is; logistic loss */
    double intercept;          /* value of the constant column; 0: none */
    int alike;                 /* whether a row's margin is the same to the last bit wherever it is */
} dpfast_dense;

/* norms[i] = an upper bound of ||x_i||_2, within (d / 2 + 8) 2^-52 relative; overflow and
 * underflow of the squares are handled.  DPFAST_ERR_NONFINITE if x has a NaN or an infinity. */
dpfast_status dpfast_dense_row_norms(const dpfast_dense *rows, double *norms);

/* margins[i] = <x~_i, w>. */
dpfast_status dpfast_dense_margins(const dpfast_dense *rows, const double *w, double *margins);

/* margins[k n + i] = <x~_i, w_k> for n_classes vectors, dim apart. */
dpfast_status dpfast_dense_class_margins(const dpfast_dense *rows, ptrdiff_t n_classes, const double *w,
                                        double *margins);

/* sum[k dim + j] += sum_i s[k n + i] x~_i[j]; whether it is finite is the caller's to see. */
dpfast_status dpfast_dense_add_class_rows(const dpfast_dense *rows, ptrdiff_t n_classes, const double *s,
                                         double *sum);

/* loss_sum = sum_i weight_i min(loss_i, loss_clip) and
 * gradient = sum_i weight_i clip(loss'_i x~_i, clip_norm), in one read of x.  clip_norm = infinity or
 * inverse_norm = NULL switches gradient clipping off; loss_clip = infinity the clipping of losses.
 * gradient (dim entries) is overwritten.
 *
 * A row's gradient has norm |loss'_i| ||x~_i||, so clipping is a clamp of loss'_i to
 * +-t, t = clip_norm / ||x~_i||: no per-row gradient is ever stored.  If `consistent`, loss'_i is
 * multiplied by min(1, t / max(|loss'_i|, 1 - |loss'_i|)) before: the same for both labels, as their
 * logistic slopes have sizes that add up to 1.  DPFAST_ERR_ARGUMENT for another loss. */
dpfast_status dpfast_dense_gradient(const dpfast_dense *rows, const dpfast_loss *loss,
                                    const double *w, double clip_norm, double loss_clip,
                                    double *gradient, double *loss_sum);

/* loss_sum alone. */
dpfast_status dpfast_dense_objective(const dpfast_dense *rows, const dpfast_loss *loss,
                                     const double *w, double loss_clip, double *loss_sum);

/* out (n x dim, row-major) = sqrt(weight_i max(sign loss''_i, 0)) x~_i, so that out^T out is the part of
 * the Hessian of the sum that has the sign of `sign` (+1; -1 for losses that are not convex). */
dpfast_status dpfast_dense_curvature_rows(const dpfast_dense *rows, const dpfast_loss *loss,
                                          const double *w, int sign, double *out);

/* Longest chain of additions that an entry of the gradient, or the loss sum, of n rows of any layout
 * passes through: the m of the summation bound |computed - exact| <= m u / (1 - m u) * sum |terms|,
 * u = 2^-53 (Higham 2002, section 4.2).  What the out of dpfast_csr_add_hessian held before counts as
 * one more row. */
ptrdiff_t dpfast_addition_depth(ptrdiff_t n);

/* Sum of n numbers, as fast as memory can be read: the yardstick of the benchmarks. */
double dpfast_read_sum(ptrdiff_t n, const double *x);

#ifdef __cplusplus
}
#endif

#endif
