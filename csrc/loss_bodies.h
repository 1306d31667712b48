/* The losses: scalar functions of margin z and target y, and their public constants.
 *
 * For each loss `name` of loss_list.h:
 *   name_value(y, z, p), name_derivative(y, z, p), name_curvature(y, z, p)
 *   name_lipschitz(p), name_smoothness(p), name_at_zero(p)
 *   name_block(...)   derivative and clipped sum over a block of rows, the hot loop.
 * They are stamped once per instruction set by dense_body.h.  NaN in gives NaN out. */
#ifndef DPFAST_LOSS_BODIES_H
#define DPFAST_LOSS_BODIES_H

#include <math.h>
#include <stddef.h>

#include "simd.h"
#include "vecmath.h"

/* Rows of one block at most; a multiple of 8.  The running product below needs 2^ROWS finite. */
#define DPFAST_BLOCK_ROWS 512

/* ---- logistic: log(1 + exp(-y z)), y in {-1, +1} ---------------------------------------------- */

DPFAST_INLINE double logistic_value(double y, double z, double p)
{
    double m = y * z;
    (void)p;
    return (m < 0.0 ? -m : 0.0) + log1p(dpfast_exp_inline(-fabs(m)));
}

/* 1 / (1 + exp(m)) from e = exp(-|m|), without cancellation on either side. */
DPFAST_INLINE double logistic_tail(double m, double e)
{
    double q = 1.0 / (1.0 + e);
    return m < 0.0 ? q : e * q;
}

DPFAST_INLINE double logistic_derivative(double y, double z, double p)
{
    double m = y * z;
    (void)p;
    return -y * logistic_tail(m, dpfast_exp_inline(-fabs(m)));
}

DPFAST_INLINE double logistic_curvature(double y, double z, double p)
{
    double e = dpfast_exp_inline(-fabs(y * z));
    double q = 1.0 / (1.0 + e);
    (void)p;
    return e * q * q;
}

DPFAST_INLINE double logistic_lipschitz(double p)
{
    (void)p;
    return 1.0;
}

DPFAST_INLINE double logistic_smoothness(double p)
{
    (void)p;
    return 0.25;
}

DPFAST_INLINE double logistic_at_zero(double p)
{
    (void)p;
    return 0.69314718055994530942;
}

/* The sum of log(1 + e_i) over the block is one logarithm of a product of at most
 * DPFAST_BLOCK_ROWS factors in [1, 2], which cannot overflow. */
DPFAST_INLINE double logistic_block(ptrdiff_t n, const double *DPFAST_RESTRICT z,
                                    const double *DPFAST_RESTRICT y, double p, double loss_clip,
                                    double *DPFAST_RESTRICT derivative)
{
    double linear[DPFAST_BLOCK_ROWS], factor[DPFAST_BLOCK_ROWS];
    /* loss > loss_clip  <=>  m < -log(expm1(loss_clip)), written so that it cannot overflow. */
    const double threshold = -(loss_clip + log(-expm1(-loss_clip)));
    vec4 product0 = vec4_set(1.0), product1 = vec4_set(1.0);
    vec4 sum0 = vec4_set(0.0), sum1 = vec4_set(0.0);
    double product, sum;
    ptrdiff_t i;
    (void)p;

    for (i = 0; i < n; i++) {
        double m = y[i] * z[i];
        double e = dpfast_exp_inline(-fabs(m));
        double part = m < 0.0 ? -m : 0.0;
        double grow = 1.0 + e;
        derivative[i] = -y[i] * (m < 0.0 ? 1.0 / grow : e / grow);
        linear[i] = m < threshold ? loss_clip : part;
        factor[i] = m < threshold ? 1.0 : grow;
    }
    for (i = 0; i + 8 <= n; i += 8) {
        product0 = vec4_mul(product0, vec4_load(factor + i));
        product1 = vec4_mul(product1, vec4_load(factor + i + 4));
        sum0 = vec4_add(sum0, vec4_load(linear + i));
        sum1 = vec4_add(sum1, vec4_load(linear + i + 4));
    }
    product = vec4_product(vec4_mul(product0, product1));
    sum = vec4_sum(vec4_add(sum0, sum1));
    for (; i < n; i++) {
        product *= factor[i];
        sum += linear[i];
    }
    return sum + log(product);
}

#endif
