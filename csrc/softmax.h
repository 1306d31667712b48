/* Private: the multinomial loss of a block of rows. */
#ifndef DPFAST_SOFTMAX_H
#define DPFAST_SOFTMAX_H

#include <math.h>
#include <stddef.h>

#include "dense_ops.h"
#include "status.h"

/* z[k m + i], the margin of row i for class k, becomes the clipped and weighted derivative of its
 * loss by that margin.  If `consistent`, a row is scaled as that of its labels needs it whose
 * derivatives are the longest. */
static inline dpfast_status softmax_slopes(ptrdiff_t m, ptrdiff_t n_classes, const double *target,
                                           const double *weight, const float *inverse_norm,
                                           int consistent, double clip_norm, double *z)
{
    ptrdiff_t i;
    for (i = 0; i < m; i++) {
        const double y = target[i];
        if (!(y >= 0.0 && y < (double)n_classes)) { /* so also if it is NaN */
            return DPFAST_ERR_ARGUMENT;
        }
        /*@ admit \is_finite(y); */
        if ((double)(ptrdiff_t)y != y) {
            return DPFAST_ERR_ARGUMENT;
        }
    }
    return isnan(DPFAST_OF_ISA_IN_USE(dpfast_vector_ops).softmax(
               m, n_classes, target, weight, inverse_norm, consistent, clip_norm, z))
               ? DPFAST_ERR_NONFINITE
               : DPFAST_OK;
}

#endif
