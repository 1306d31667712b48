/* Sums over rows behind objectives that are not plain risks: tilted losses, losses under the worst
 * perturbation of a row, and weighted sums of rows for losses evaluated elsewhere.
 *
 * Built on the kernels of dense.h and csr.h, so that every instruction set they know serves these
 * too.  Each reads X from memory once: a block of rows is fetched for its margins and read again
 * from cache for X^T s.  No n x dim temporary is formed.  `scratch` has
 * dpfast_objective_scratch(n, dim) entries. */
#ifndef DPFAST_OBJECTIVES_H
#define DPFAST_OBJECTIVES_H

#include <stddef.h>

#include "csr.h"
#include "dense.h"
#include "loss.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of the longest block: sparse rows are taken in long blocks, since each touches all of the
 * gradient. */
#define DPFAST_OBJECTIVE_BLOCK 65536

ptrdiff_t dpfast_objective_scratch(ptrdiff_t n, ptrdiff_t dim);

/* sum = sum_i s_i x~_i.  `weight` and `inverse_norm` of the rows are not used. */
dpfast_status dpfast_dense_row_sum(const dpfast_dense *rows, const double *s, double *scratch,
                                   double *sum);
dpfast_status dpfast_csr_row_sum(const dpfast_csr *rows, const double *s, double *scratch,
                                 double *sum);

/* With v_i = weight_i loss_i, *peak = max_i v_i and p_i = exp(tilt (v_i - *peak)):
 *   *excess  = sum_i (p_i - 1), which keeps its relative accuracy as tilt goes to 0;
 *   gradient = sum_i p_i weight_i loss'_i x~_i.
 * The maximum is found on the way: sums are scaled down when a larger v_i turns up. n >= 1. */
dpfast_status dpfast_dense_tilted(const dpfast_dense *rows, const dpfast_loss *loss, double tilt,
                                  const double *w, double *scratch, double *gradient,
                                  double *peak, double *excess);
dpfast_status dpfast_csr_tilted(const dpfast_csr *rows, const dpfast_loss *loss, double tilt,
                                const double *w, double *scratch, double *gradient, double *peak,
                                double *excess);

/* Losses with the margin moved by `shift` >= 0 in the direction that hurts:
 *   classification: loss(z_i - y_i shift; y_i), the worst case for losses that do not increase in
 *   y z;
 *   regression: loss(a_i + shift; 0), a_i = sqrt((z_i - y_i)^2 + rounding^2), the worst case for losses
 *   of |z - y| that do not decrease, its kink at z = y rounded off.
 * *loss_sum = sum_i weight_i loss_i, *pull = sum_i weight_i d loss_i / d shift >= 0, and
 * gradient = sum_i weight_i (d loss_i / d z_i) x~_i. */
dpfast_status dpfast_dense_shifted(const dpfast_dense *rows, const dpfast_loss *loss, double shift,
                                   double rounding, const double *w, double *scratch,
                                   double *gradient, double *loss_sum, double *pull);
dpfast_status dpfast_csr_shifted(const dpfast_csr *rows, const dpfast_loss *loss, double shift,
                                 double rounding, const double *w, double *scratch,
                                 double *gradient, double *loss_sum, double *pull);

/* Multinomial logistic loss: rows->target holds classes 0, 1, ..., n_classes - 1, w and gradient are
 * n_classes x dim, row-major.  With p = softmax(w x~_i), gradient = sum_i weight_i times the outer
 * product of p - e_(y_i) and x~_i, whose norm is the product of theirs: where inverse_norm is given
 * it is scaled down to clip_norm, and no n_classes x dim matrix of a row is ever formed.
 * n >= 1; DPFAST_ERR_ARGUMENT for other targets.  `scratch` has
 * dpfast_multinomial_scratch(n, n_classes) entries. */
ptrdiff_t dpfast_multinomial_scratch(ptrdiff_t n, ptrdiff_t n_classes);
dpfast_status dpfast_dense_multinomial(const dpfast_dense *rows, ptrdiff_t n_classes,
                                       const double *w, double clip_norm, double *scratch,
                                       double *gradient);
dpfast_status dpfast_csr_multinomial(const dpfast_csr *rows, ptrdiff_t n_classes, const double *w,
                                     double clip_norm, double *scratch, double *gradient);

#ifdef __cplusplus
}
#endif

#endif
