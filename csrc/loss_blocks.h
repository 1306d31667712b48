/* Loops over a block of rows, stamped for every loss of the list, once per instruction set: include
 * this in a file of one instruction set.  The kernels call them through one pointer per block. */
#ifndef DPFAST_LOSS_BLOCKS_H
#define DPFAST_LOSS_BLOCKS_H

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "loss.h"
#include "loss_bodies.h"
#include "loss_list.h"
#include "simd.h"

/* Rows of one block at most; a multiple of 8.  The running product of the logistic loss needs
 * 2^DPFAST_BLOCK_ROWS finite. */
#define DPFAST_BLOCK_ROWS 512

/* Returns sum_i weight_i min(loss_i, loss_clip) over n <= DPFAST_BLOCK_ROWS rows, and writes the
 * derivatives (without the weights) unless `derivative` is NULL.  weight NULL: all ones. */
typedef double (*loss_block)(ptrdiff_t n, const double *z, const double *y, const double *weight,
                             const dpfast_loss *p, double loss_clip, double *derivative);
/* Second derivatives in the margin. */
typedef void (*curvature_block)(ptrdiff_t n, const double *z, const double *y,
                                const dpfast_loss *p, double *curvature);

/* Sum of n <= DPFAST_BLOCK_ROWS values in a fixed order. */
DPFAST_INLINE double block_sum(ptrdiff_t n, const double *value)
{
    vec4 s0 = vec4_set(0.0), s1 = vec4_set(0.0);
    double sum;
    ptrdiff_t i;
    for (i = 0; i + 8 <= n; i += 8) {
        s0 = vec4_add(s0, vec4_load(value + i));
        s1 = vec4_add(s1, vec4_load(value + i + 4));
    }
    sum = vec4_sum(vec4_add(s0, s1));
    for (; i < n; i++) {
        sum += value[i];
    }
    return sum;
}

DPFAST_INLINE double weighted_sum(ptrdiff_t n, double *DPFAST_RESTRICT value,
                                  const double *DPFAST_RESTRICT weight)
{
    ptrdiff_t i;
    if (weight != NULL) {
        for (i = 0; i < n; i++) {
            value[i] *= weight[i];
        }
    }
    return block_sum(n, value);
}

/* From the derivatives of a block of rows to the factors s_i of x_i in the gradient: clipped to
 * +-clip_norm * inverse_norm (NULL: not clipped), then weighted, then scaled.  Returns the sum of
 * the derivatives before scaling, which belongs to the constant column. */
DPFAST_INLINE double settle_derivatives(ptrdiff_t n, const float *inverse_norm, double clip_norm,
                                        const double *weight, const double *row_scale,
                                        double *DPFAST_RESTRICT s)
{
    double sum;
    ptrdiff_t i;
    if (inverse_norm != NULL) {
        for (i = 0; i < n; i++) {
            const double limit = clip_norm * (double)inverse_norm[i];
            double v = s[i]; /* NaN fails both comparisons and stays NaN */
            v = v > limit ? limit : v;
            s[i] = v < -limit ? -limit : v;
        }
    }
    if (weight != NULL) {
        for (i = 0; i < n; i++) {
            s[i] *= weight[i];
        }
    }
    sum = block_sum(n, s);
    if (row_scale != NULL) {
        for (i = 0; i < n; i++) {
            s[i] *= row_scale[i];
        }
    }
    return sum;
}

/* Unweighted logistic losses: the sum of log(1 + e_i) is one logarithm of a product of at most
 * DPFAST_BLOCK_ROWS factors in [1, 2], which cannot overflow. */
DPFAST_INLINE double logistic_fast_block(ptrdiff_t n, const double *DPFAST_RESTRICT z,
                                         const double *DPFAST_RESTRICT y, double loss_clip,
                                         double *DPFAST_RESTRICT derivative)
{
    double linear[DPFAST_BLOCK_ROWS], factor[DPFAST_BLOCK_ROWS];
    /* loss > loss_clip  <=>  m < -log(expm1(loss_clip)), written so that it cannot overflow */
    const double threshold = -(loss_clip + log(-expm1(-loss_clip)));
    vec4 product0 = vec4_set(1.0), product1 = vec4_set(1.0);
    double product;
    ptrdiff_t i;

    if (derivative != NULL) {
        for (i = 0; i < n; i++) {
            const double m = y[i] * z[i];
            const double e = dpfast_exp_inline(-fabs(m));
            const double part = m < 0.0 ? -m : 0.0;
            const double grow = 1.0 + e;
            derivative[i] = -y[i] * ((m < 0.0 ? 1.0 : e) / grow);
            linear[i] = m < threshold ? loss_clip : part;
            factor[i] = m < threshold ? 1.0 : grow;
        }
    } else {
        for (i = 0; i < n; i++) {
            const double m = y[i] * z[i];
            const double grow = 1.0 + dpfast_exp_inline(-fabs(m));
            const double part = m < 0.0 ? -m : 0.0;
            linear[i] = m < threshold ? loss_clip : part;
            factor[i] = m < threshold ? 1.0 : grow;
        }
    }
    for (i = 0; i + 8 <= n; i += 8) {
        product0 = vec4_mul(product0, vec4_load(factor + i));
        product1 = vec4_mul(product1, vec4_load(factor + i + 4));
    }
    product = vec4_product(vec4_mul(product0, product1));
    for (; i < n; i++) {
        product *= factor[i];
    }
    return block_sum(n, linear) + log(product);
}

#define STAMP_LOSS_BLOCKS(id, name, kind, convex, parameter, parameter_high, width)                \
    static double name##_loss_block(ptrdiff_t n, const double *DPFAST_RESTRICT z,                  \
                                    const double *DPFAST_RESTRICT y, const double *weight,         \
                                    const dpfast_loss *p, double loss_clip,                        \
                                    double *DPFAST_RESTRICT derivative)                            \
    {                                                                                              \
        double value[DPFAST_BLOCK_ROWS];                                                           \
        const dpfast_loss q = *p; /* a copy that no store can alias */                             \
        ptrdiff_t i;                                                                               \
        assert(n >= 0 && n <= DPFAST_BLOCK_ROWS);                                                  \
        if ((id) == 0 && weight == NULL) {                                                         \
            return logistic_fast_block(n, z, y, loss_clip, derivative);                            \
        }                                                                                          \
        for (i = 0; i < n; i++) {                                                                  \
            const double v = name##_value(y[i], z[i], &q);                                         \
            value[i] = v > loss_clip ? loss_clip : v;                                              \
        }                                                                                          \
        if (derivative != NULL) {                                                                  \
            for (i = 0; i < n; i++) {                                                              \
                derivative[i] = name##_derivative(y[i], z[i], &q);                                 \
            }                                                                                      \
        }                                                                                          \
        return weighted_sum(n, value, weight);                                                     \
    }                                                                                              \
    static void name##_curvature_block(ptrdiff_t n, const double *DPFAST_RESTRICT z,               \
                                       const double *DPFAST_RESTRICT y, const dpfast_loss *p,      \
                                       double *DPFAST_RESTRICT curvature)                          \
    {                                                                                              \
        const dpfast_loss q = *p;                                                                  \
        ptrdiff_t i;                                                                               \
        for (i = 0; i < n; i++) {                                                                  \
            curvature[i] = name##_curvature(y[i], z[i], &q);                                       \
        }                                                                                          \
    }
DPFAST_LOSS_LIST(STAMP_LOSS_BLOCKS)

#define LIST_LOSS_BLOCK(id, name, kind, convex, parameter, parameter_high, width) name##_loss_block,
#define LIST_CURVATURE_BLOCK(id, name, kind, convex, parameter, parameter_high, width)             \
    name##_curvature_block,
static const loss_block loss_blocks[] = {DPFAST_LOSS_LIST(LIST_LOSS_BLOCK)};
static const curvature_block curvature_blocks[] = {DPFAST_LOSS_LIST(LIST_CURVATURE_BLOCK)};

#endif
