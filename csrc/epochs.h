/* Stochastic epochs: many small steps in one call, on rows that the caller has drawn.  Nothing
 * here is random, and nothing here knows about privacy.
 *
 * An epoch may be cut anywhere into calls on consecutive steps: all state is in the arrays passed.
 * A call that returns DPFAST_ERR_NONFINITE leaves them in an unspecified state; after
 * DPFAST_ERR_ARGUMENT they are untouched.  Arrays that are written must not overlap others. */
#ifndef DPFAST_EPOCHS_H
#define DPFAST_EPOCHS_H

#include <stddef.h>
#include <stdint.h>

#include "csr.h"
#include "dense.h"
#include "loss.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Stochastic gradient steps.  With the row i of step t and the step size h_t, step t is
 *
 *   g <- weight_i (loss'(<x~_i, w>; y_i) - s~_i) x~_i + g~
 *   w <- P((1 - h_t alpha) w - h_t g),   average <- average + average_weight_t w,
 *
 * P the projection on the ball of radius w_radius about 0.  Without a snapshot s~ and g~ are 0:
 * SGD.  With the derivatives s~ and the mean loss gradient g~ of a snapshot w~ it is SVRG (Johnson
 * & Zhang 2013, Figure 1): the step there is grad f_i(w) - grad f_i(w~) + grad F(w~) with the ridge
 * in every f_i, and the ridge's terms in w~ cancel. */
typedef struct dpfast_sgd {
    double alpha;    /* ridge of the mean loss, >= 0 */
    double w_radius; /* > 0; infinity: no projection */

    const double *snapshot_derivative; /* n times loss'(<x~_i, w~>; y_i), or NULL */
    const double *snapshot_gradient;   /* dim entries, without the ridge; NULL: 0 */

    ptrdiff_t n_steps;
    const int64_t *indices; /* one row a step */
    const double *step;     /* h_t = step[t * step_stride] */
    ptrdiff_t step_stride;  /* 1, or 0 for a constant step size */
    const double *average_weight; /* n_steps, or NULL: all ones */

    double *w;       /* dim entries */
    double *average; /* dim entries, added to; NULL: no average */
} dpfast_sgd;

/* DPFAST_ERR_ARGUMENT also if an index is outside [0, n). */
dpfast_status dpfast_dense_sgd_epoch(const dpfast_dense *rows, const dpfast_loss *loss,
                                     const dpfast_sgd *epoch);

/* The same on sparse rows.  A step costs what its row's stored entries cost and not the columns;
 * the numbers agree to rounding. */
dpfast_status dpfast_csr_sgd_epoch(const dpfast_csr *rows, const dpfast_loss *loss,
                                   const dpfast_sgd *epoch);

/* Katyusha steps (Allen-Zhu 2018, Algorithm 1, option I for y), with psi(w) = (alpha / 2) ||w||^2
 * and each row's loss, its weight included, beta-smooth in w.  With tau2 = 1/2,
 * gamma = 1 / (3 tau1 beta) and a snapshot w~ with mean loss gradient g~ and derivatives s~, the
 * step with row i is
 *
 *   w <- tau1 z + tau2 w~ + (1 - tau1 - tau2) y
 *   g <- weight_i (loss'(<x~_i, w>; y_i) - s~_i) x~_i + g~
 *   z <- P((z - gamma g) / (1 + gamma alpha))
 *   y <- P((3 beta w - g) / (3 beta + alpha))
 *
 * The steps in z and y are the proximal steps of psi plus the indicator of the ball: both
 * minimize a multiple of ||. - c||^2 over the ball, so the solution is the projection of c.
 *
 * The next snapshot is sum_j theta^j y_{j + 1} / sum_j theta^j, theta = 1 + gamma alpha.  Its
 * denominator overflows in long epochs, so the average is updated as average += (y - average) / S
 * with S <- 1 + S / theta, the sum of the powers relative to the latest one, which is at most
 * 1 + 1 / (gamma alpha). */
typedef struct dpfast_katyusha {
    double alpha;      /* >= 0 */
    double smoothness; /* beta > 0 */
    double tau1;       /* in (0, 1/2] */
    double w_radius;   /* > 0; infinity: no projection */

    const double *snapshot;            /* w~, dim entries */
    const double *snapshot_gradient;   /* dim entries, without the ridge */
    const double *snapshot_margin;     /* n */
    const double *snapshot_derivative; /* n */

    ptrdiff_t n_steps;
    const int64_t *indices; /* one row a step */

    double *z, *y;         /* dim entries each; both w~ at the very first step */
    double *average;       /* dim entries; its content is ignored when *average_scale is 0 */
    double *average_scale; /* S; 0 at the beginning of an epoch */
} dpfast_katyusha;

dpfast_status dpfast_dense_katyusha_epoch(const dpfast_dense *rows, const dpfast_loss *loss,
                                          const dpfast_katyusha *epoch);

/* The same on sparse rows; lazy as dpfast_csr_sgd_epoch, unless there is a projection. */
dpfast_status dpfast_csr_katyusha_epoch(const dpfast_csr *rows, const dpfast_loss *loss,
                                        const dpfast_katyusha *epoch);

#ifdef __cplusplus
}
#endif

#endif
