/* Gradients of whole groups of rows (all rows of one person), each clipped as one vector.
 *
 * The gradient of a group is sum_i s_i x~_i over its rows, s_i the weighted slope of row i's loss.
 * It is measured in coordinates z_i = W^T x~_i and scaled down as a whole.  So what matters of W is
 * s^T G s, G the group's m x m products <z_i, z_j>: they are computed once, and each gradient costs
 * m^2 / 2 operations more, whatever the dimension, and no group's gradient is formed.  Long groups,
 * whose products would take more room than their rows, have their gradient added up and multiplied
 * by W^T instead.
 *
 * What a group contributes does not depend on where its rows are, but for the order of additions:
 * margins are computed in one way everywhere. */
#ifndef DPFAST_GROUPS_H
#define DPFAST_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "csr.h"
#include "dense.h"
#include "loss.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dpfast_groups {
    ptrdiff_t n;
    const int64_t *start;      /* n + 1: group g has the rows start[g] - start[0] <= i <
                                * start[g + 1] - start[0] */
    ptrdiff_t longest;         /* no group has more rows */
    const int64_t *gram_start; /* n + 1: where its products are; none for one row, or if it is long */
    const double *gram;        /* m (m + 1) / 2 of a group, the lower triangle row by row */
    const double *transform;   /* W, dim x dim, row-major; NULL: z_i = x~_i */
} dpfast_groups;

typedef struct dpfast_group_clip {
    double norm;     /* of a group's gradient in the coordinates, weights included */
    double row_norm; /* of a row's, before its weight: |s_i| <= row_norm inverse_norm_i.  Gradients
                      * of one row have no other: at most `norm` over the largest weight */
    double mass;     /* of sum_i |s_i| of a group, of one row, too, once it is scaled */
    double gauge;    /* see `share` below */
    double relative; /* error of s^T G s over m sum_i (s_i ||z_i||)^2 */
    double absolute; /* error of a length over sum_i |s_i| */
    int consistent;  /* labels have no part in what a group's slopes are multiplied by; logistic
                      * loss, or several classes */
    double correlation; /* of the slopes of a group's rows, in [0, 1]; if `consistent` */
} dpfast_group_clip;

/* The lower triangle of the products of the rows of z (start[n] - start[0] x dim, row-major) for
 * every group that has room for them in gram_start. */
dpfast_status dpfast_group_products(const dpfast_groups *groups, const double *z, ptrdiff_t dim,
                                    double *gram);

/* gradient = sum over groups of their scaled gradients (dim entries; overwritten).  inverse_norm of
 * the rows has lower bounds of 1 / ||z_i||; rows are clipped first, one by one, so that a group of
 * one row is as dpfast_dense_gradient has it, its slope cut to clip->mass.  A group's factor is the
 * largest at which its length, rounding included, is at most clip->norm, and its mass at most
 * clip->mass.
 *
 * If `consistent`, rows are cut by what the longest slope of any label needs, as in dense.h, and a
 * group's slopes are multiplied by min(1, norm / l) before anything else.  With a_i ||z_i||^-1 and
 * v_i ||z_i||^-2 the longest slope and the mean square of it if labels follow the model,
 *   l^2 = sum_i v_i + max_i (a_i^2 - v_i) + correlation ((sum_i a_i)^2 - sum_i a_i^2):
 * the length to expect, of one row with the label that is least likely.  Of one row it is a_i.
 *
 * *share = sum over groups of min(1, gauge r / l), l the length of the group's gradient and r the
 * root mean square of its rows': it falls the more alike a group's rows pull.
 *
 * n_classes > 1: the multinomial loss, rows->target classes 0, 1, ..., w and gradient n_classes x dim;
 * `loss` is not used.  Otherwise n_classes = 1.
 *
 * `scratch` has dpfast_group_scratch(longest, dim, n_classes) entries.  DPFAST_ERR_ARGUMENT if a
 * group is longer than `longest`, or the products of one are not of its size. */
ptrdiff_t dpfast_group_scratch(ptrdiff_t longest, ptrdiff_t dim, ptrdiff_t n_classes);
dpfast_status dpfast_dense_group_gradient(const dpfast_dense *rows, const dpfast_groups *groups,
                                          const dpfast_group_clip *clip, const dpfast_loss *loss,
                                          ptrdiff_t n_classes, const double *w, double *scratch,
                                          double *gradient, double *share);
dpfast_status dpfast_csr_group_gradient(const dpfast_csr *rows, const dpfast_groups *groups,
                                        const dpfast_group_clip *clip, const dpfast_loss *loss,
                                        ptrdiff_t n_classes, const double *w, double *scratch,
                                        double *gradient, double *share);

/* As dpfast_addition_depth, for n rows in groups of at most `longest`; scaling a row counts. */
ptrdiff_t dpfast_group_addition_depth(ptrdiff_t n, ptrdiff_t longest);

#ifdef __cplusplus
}
#endif

#endif
