/* dpfast: kernels for differentially private linear models.
 *
 * C99, no Python, no heap allocation, no global state but the instruction set in use; every
 * function is safe to call from several threads at once.  Matrices are row-major; sizes are
 * ptrdiff_t counts of elements.  Functions that can fail return a dpfast_status.
 *
 * A row of the problem is x~_i = (scale_i * x_i, intercept): `row_scale` brings rows into the ball
 * that the privacy analysis assumes, and the constant column is never stored.  Weight vectors and
 * gradients have d + 1 entries when intercept != 0, and d otherwise ("dim" below). */
#ifndef DPFAST_H
#define DPFAST_H

#include <stddef.h>

#include "dispatch.h"
#include "random.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Losses ----------------------------------------------------------------------------------- */

typedef enum dpfast_target_kind {
    DPFAST_CLASSIFICATION = 0, /* targets are -1 and +1 */
    DPFAST_REGRESSION = 1
} dpfast_target_kind;

typedef struct dpfast_loss {
    int id;           /* position in the loss list */
    double parameter; /* width, threshold or quantile; ignored by losses that have none */
} dpfast_loss;

int dpfast_loss_count(void);
/* NULL for an unknown id, as for all functions below that return pointers. */
const char *dpfast_loss_name(int id);
dpfast_target_kind dpfast_loss_kind(int id);
/* sup |loss'| and sup |loss''| over margins and valid targets; NaN for an unknown id. */
double dpfast_loss_lipschitz(dpfast_loss loss);
double dpfast_loss_smoothness(dpfast_loss loss);
/* sup over valid targets of the loss at margin 0. */
double dpfast_loss_at_zero(dpfast_loss loss);
/* Value, derivative and curvature in z at n points; any of the outputs may be NULL. */
dpfast_status dpfast_loss_points(dpfast_loss loss, ptrdiff_t n, const double *margin,
                                 const double *target, double *value, double *derivative,
                                 double *curvature);

/* ---- Dense rows, float64 ---------------------------------------------------------------------- */

typedef struct dpfast_dense {
    ptrdiff_t n, d;
    const double *x;          /* row i starts at x + i * row_stride */
    ptrdiff_t row_stride;     /* >= d */
    const double *target;     /* n, or NULL where targets are not used */
    const double *row_scale;  /* n factors in (0, 1], or NULL: all ones */
    const float *inverse_norm; /* n lower bounds of 1 / ||x~_i||, or NULL: no gradient clipping */
    double intercept;         /* value of the constant column; 0: none */
} dpfast_dense;

/* norms[i] = an upper bound of ||x_i||_2, within (d / 2 + 8) 2^-52 relative; overflow and
 * underflow of the squares are handled.  DPFAST_ERR_NONFINITE if x has a NaN or an infinity. */
dpfast_status dpfast_dense_row_norms(const dpfast_dense *rows, double *norms);

/* margins[i] = <x~_i, w>. */
dpfast_status dpfast_dense_margins(const dpfast_dense *rows, const double *w, double *margins);

/* loss_sum = sum_i min(loss_i, loss_clip) and gradient = sum_i clip(loss'_i x~_i, clip_norm), in one
 * read of x.  clip_norm = infinity or inverse_norm = NULL switches gradient clipping off; loss_clip
 * = infinity the clipping of losses.  gradient (dim entries) is overwritten.
 *
 * A row's gradient has norm |loss'_i| ||x~_i||, so clipping is a clamp of loss'_i to
 * +-clip_norm / ||x~_i||: no per-row gradient is ever stored. */
dpfast_status dpfast_dense_gradient(const dpfast_dense *rows, dpfast_loss loss, const double *w,
                                    double clip_norm, double loss_clip, double *gradient,
                                    double *loss_sum);

/* loss_sum alone. */
dpfast_status dpfast_dense_objective(const dpfast_dense *rows, dpfast_loss loss, const double *w,
                                     double loss_clip, double *loss_sum);

/* out (n x dim, row-major) = sqrt(loss''_i) x~_i, so that out^T out is the Hessian of the sum. */
dpfast_status dpfast_dense_curvature_rows(const dpfast_dense *rows, dpfast_loss loss,
                                          const double *w, double *out);

/* Longest chain of additions that an entry of the gradient or the loss sum of n rows passes
 * through: the m of the summation bound |computed - exact| <= m u / (1 - m u) * sum |terms|,
 * u = 2^-53 (Higham 2002, section 4.2). */
ptrdiff_t dpfast_dense_addition_depth(ptrdiff_t n, ptrdiff_t d);

/* Sum of n numbers, as fast as memory can be read: the yardstick of the benchmarks. */
double dpfast_read_sum(ptrdiff_t n, const double *x);

/* exp as the kernels compute it, for tests of its accuracy. */
void dpfast_exp_points(ptrdiff_t n, const double *x, double *out);

#ifdef __cplusplus
}
#endif

#endif
