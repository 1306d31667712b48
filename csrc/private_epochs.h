/* Whole epochs of noisy mini-batch steps: the batch is drawn, its rows' gradients are clipped and
 * added up, noise is added and the step is taken, all in C.
 *
 * As in epochs.h, an epoch may be cut anywhere into calls on consecutive steps, and a call that
 * returns DPFAST_ERR_NONFINITE leaves the arrays in an unspecified state. */
#ifndef DPFAST_PRIVATE_EPOCHS_H
#define DPFAST_PRIVATE_EPOCHS_H

#include <stddef.h>
#include <stdint.h>

#include "batches.h"
#include "csr.h"
#include "dense.h"
#include "loss.h"
#include "random.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dpfast_sampling {
    DPFAST_BATCH_GIVEN = 0,     /* indices and batch_start */
    DPFAST_BATCH_POISSON = 1,   /* each row with probability batch / n */
    DPFAST_BATCH_FIXED_SIZE = 2 /* a uniform subset of `batch` rows */
} dpfast_sampling;

typedef enum dpfast_step_noise {
    DPFAST_NOISE_NONE = 0,
    DPFAST_NOISE_GIVEN = 1,    /* n_steps x dim numbers, added to the sums */
    DPFAST_NOISE_GAUSSIAN = 2, /* stddev times dpfast_fill_gaussian; the result rounded to the grid */
    DPFAST_NOISE_DISCRETE = 3  /* sums rounded to the grid, plus grid times an exact discrete Gaussian */
} dpfast_step_noise;

/* Step t with the batch B_t, the step size h_t and s_i = loss'(<x~_i, w>; y_i), less the same at the
 * snapshot if there is one, is
 *
 *   G <- sum_{i in B_t} weight_i clamp(s_i, +-clip_norm / ||x~_i||) x~_i, noisily
 *   v <- momentum v + G / divisor + snapshot_gradient
 *   w <- P((1 - h_t alpha) w - h_t v),   average <- average + average_weight_t w,
 *
 * P the projection on the ball of radius w_radius about 0.  One row moves G by at most
 * clip_norm max weight_i, l2 norm. */
typedef struct dpfast_private_epoch {
    double alpha;     /* ridge of the mean loss, >= 0; exact, and no part of the clipping */
    double clip_norm; /* > 0; infinity, or rows without inverse_norm: no clipping */
    double w_radius;  /* > 0; infinity: no projection */
    double momentum;  /* in [0, 1) */
    double divisor;   /* > 0 */

    const double *snapshot;          /* dim entries, or NULL */
    const double *snapshot_gradient; /* dim entries, or NULL: 0 */

    ptrdiff_t n_steps;
    const double *step;           /* h_t = step[t * step_stride] */
    ptrdiff_t step_stride;        /* 1, or 0 for a constant step size */
    const double *average_weight; /* n_steps, or NULL: all ones */

    dpfast_sampling sampling;
    ptrdiff_t batch;            /* 1 <= batch <= n, unless the batches are given */
    ptrdiff_t capacity;         /* entries of index; >= batch */
    int64_t *index;             /* scratch space, unless the batches are given */
    uint64_t *set;              /* scratch space of DPFAST_BATCH_SET_WORDS(n) words, zero */
    const int64_t *indices;     /* given batches, one after another, each index in [0, n) */
    const int64_t *batch_start; /* n_steps + 1 offsets into indices */

    dpfast_step_noise noise;
    double stddev;             /* > 0, for GAUSSIAN */
    double grid;               /* a power of two, for GAUSSIAN and DISCRETE */
    uint64_t scale;            /* stddev / grid, for DISCRETE: in [1, 2^32] */
    const double *given_noise; /* n_steps x dim, for GIVEN */
    double *noise_work;        /* dim entries, for GAUSSIAN */
    int64_t *discrete_work;    /* dim entries, for DISCRETE */

    double *w;        /* dim entries */
    double *velocity; /* dim entries; NULL: momentum is 0 */
    double *average;  /* dim entries, added to; NULL: no average */
    double *work;     /* dim entries of scratch space */
} dpfast_private_epoch;

/* `stream` may be NULL if batches and noise are given.  Sums are clamped to +-2^61 steps of the grid
 * where the noise is discrete. */
dpfast_status dpfast_dense_private_epoch(const dpfast_dense *rows, const dpfast_loss *loss,
                                         const dpfast_private_epoch *epoch,
                                         dpfast_stream *stream);
dpfast_status dpfast_csr_private_epoch(const dpfast_csr *rows, const dpfast_loss *loss,
                                       const dpfast_private_epoch *epoch, dpfast_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
