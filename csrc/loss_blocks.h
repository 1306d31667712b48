/* Loops over a block of rows, stamped for every loss of the list, once per instruction set: include
 * this in a file of one instruction set.  The kernels call them through one pointer per block. */
#ifndef DPFAST_LOSS_BLOCKS_H
#define DPFAST_LOSS_BLOCKS_H

#include "isa_headers.h"
#include "loss.h"
#include "loss_bodies.h"
#include "loss_list.h"
#include "simd.h"

/* Rows of one block at most; a multiple of 16.  The running product of the logistic loss needs
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
    vec s0 = vec_set(0.0), s1 = vec_set(0.0);
    double sum;
    ptrdiff_t i;
    for (i = 0; i + 2 * DPFAST_LANES <= n; i += 2 * DPFAST_LANES) {
        s0 = vec_add(s0, vec_load(value + i));
        s1 = vec_add(s1, vec_load(value + i + DPFAST_LANES));
    }
    sum = vec_sum(vec_add(s0, s1));
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

/* Multiplies logistic derivatives by what the larger one of a row's two labels has to be multiplied
 * by to be within +-clip_norm * inverse_norm, up to rounding: their sizes add up to 1. */
DPFAST_INLINE void weigh_labels_alike(ptrdiff_t n, const float *inverse_norm, double clip_norm,
                                      double *DPFAST_RESTRICT s)
{
    ptrdiff_t i;
    for (i = 0; i < n; i++) {
        const double own = fabs(s[i]), other = 1.0 - own;
        const double factor = clip_norm * (double)inverse_norm[i] / (own > other ? own : other);
        s[i] *= factor < 1.0 ? factor : 1.0; /* NaN, for which this is 1, stays NaN */
    }
}

/* From the derivatives of a block of rows to the factors s_i of x_i in the gradient: clipped to
 * +-clip_norm * inverse_norm (NULL: not clipped), then weighted, then scaled.  Returns the sum of
 * the derivatives before scaling, which belongs to the constant column. */
DPFAST_INLINE double settle_derivatives(ptrdiff_t n, const float *inverse_norm, int consistent,
                                        double clip_norm, const double *weight,
                                        const double *row_scale, double *DPFAST_RESTRICT s)
{
    double sum;
    ptrdiff_t i;
    if (inverse_norm != NULL && consistent) {
        weigh_labels_alike(n, inverse_norm, clip_norm, s);
    }
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

/* Unweighted logistic losses: log(1 + exp(-t)) = max(-t, 0) + log(1 + exp(-|t|)) at t = y z, and
 * the sum of the logarithms is one logarithm of a product of at most DPFAST_BLOCK_ROWS factors in
 * [1, 2], which cannot overflow. */
typedef struct logistic_sums {
    vec linear, product;
} logistic_sums;

DPFAST_INLINE logistic_sums logistic_begin(void)
{
    const logistic_sums sums = {vec_set(0.0), vec_set(1.0)};
    return sums;
}

/* Losses are clipped below this t: loss > loss_clip  <=>  t < -log(expm1(loss_clip)), written so
 * that it cannot overflow. */
static double logistic_threshold(double loss_clip)
{
    return -(loss_clip + log(-expm1(-loss_clip)));
}

/* Takes the losses at t into the sums; returns exp(-|t|). */
DPFAST_INLINE vec logistic_add(logistic_sums *sums, vec t, vec threshold, vec loss_clip)
{
    const vec zero = vec_set(0.0), one = vec_set(1.0);
    const vec e = vec_exp(vec_minus_abs(t), 1);
    /* For NaN: the factor is NaN. */
    const vec part = vec_select_less(t, zero, vec_sub(zero, t), zero);
    sums->linear =
        vec_add(sums->linear, vec_select_less(t, threshold, loss_clip, part));
    sums->product =
        vec_mul(sums->product, vec_select_less(t, threshold, one, vec_add(one, e)));
    return e;
}

DPFAST_INLINE double logistic_end(const logistic_sums *sums)
{
    return vec_sum(sums->linear) + log(vec_product(sums->product));
}

/* -y / (1 + exp(t)) from e = exp(-|t|), without cancellation on either side. */
DPFAST_INLINE vec logistic_slope(vec y, vec t, vec e)
{
    const vec one = vec_set(1.0);
    const vec above = vec_select_less(t, vec_set(0.0), one, e);
    return vec_mul(vec_sub(vec_set(0.0), y), vec_div(above, vec_add(one, e)));
}

/* A large t adds nothing to the sums. */
#define LOGISTIC_NOTHING 1e4

DPFAST_INLINE double logistic_fast_block(ptrdiff_t n, const double *DPFAST_RESTRICT z,
                                         const double *DPFAST_RESTRICT y, double clip,
                                         double *DPFAST_RESTRICT derivative)
{
    const vec threshold = vec_set(logistic_threshold(clip)), loss_clip = vec_set(clip);
    logistic_sums sums = logistic_begin();
    ptrdiff_t i;

    for (i = 0; i + DPFAST_LANES <= n; i += DPFAST_LANES) {
        const vec target = vec_load(y + i);
        const vec t = vec_mul(target, vec_load(z + i));
        const vec e = logistic_add(&sums, t, threshold, loss_clip);
        if (derivative != NULL) {
            vec_store(derivative + i, logistic_slope(target, t, e));
        }
    }
    if (i < n) {
        double rest[DPFAST_LANES];
        vec target, t, e;
        ptrdiff_t k;
        for (k = 0; k < DPFAST_LANES; k++) {
            rest[k] = i + k < n ? y[i + k] * z[i + k] : LOGISTIC_NOTHING;
        }
        target = vec_load_part(y + i, n - i);
        t = vec_load(rest);
        e = logistic_add(&sums, t, threshold, loss_clip);
        if (derivative != NULL) {
            vec_store_part(derivative + i, logistic_slope(target, t, e), n - i);
        }
    }
    return logistic_end(&sums);
}

#define STAMP_LOSS_BLOCKS(id, name, ...)                                                           \
    static double name##_loss_block(ptrdiff_t n, const double *DPFAST_RESTRICT z,                  \
                                    const double *DPFAST_RESTRICT y, const double *weight,         \
                                    const dpfast_loss *p, double loss_clip,                        \
                                    double *DPFAST_RESTRICT derivative)                            \
    {                                                                                              \
        double value[DPFAST_BLOCK_ROWS];                                                           \
        const dpfast_loss q = *p; /* a copy that no store can alias */                             \
        ptrdiff_t i;                                                                               \
        assert(n >= 0 && n <= DPFAST_BLOCK_ROWS);                                                  \
        if ((id) == DPFAST_LOSS_logistic && weight == NULL) {                                               \
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

#define LIST_LOSS_BLOCK(id, name, ...) name##_loss_block,
#define LIST_CURVATURE_BLOCK(id, name, ...) name##_curvature_block,
static const loss_block loss_blocks[] = {DPFAST_LOSS_LIST(LIST_LOSS_BLOCK)};
static const curvature_block curvature_blocks[] = {DPFAST_LOSS_LIST(LIST_CURVATURE_BLOCK)};

#endif
