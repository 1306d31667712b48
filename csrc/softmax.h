/* Private: the multinomial loss of a block of rows. */
#ifndef DPFAST_SOFTMAX_H
#define DPFAST_SOFTMAX_H

#include <math.h>
#include <stddef.h>

#include "line_search.h"
#include "status.h"

/* z[k m + i], the margin of row i for class k, becomes the clipped and weighted derivative of its
 * loss by that margin; lost[i] its weighted loss.  If `consistent`, a row is scaled as that
 * of its labels needs it whose derivatives are the longest. */
static inline dpfast_status softmax_slopes(ptrdiff_t m, ptrdiff_t n_classes, const double *target,
                                    const double *weight, const float *inverse_norm, int consistent,
                                    double clip_norm, double *z, double *lost)
{
    ptrdiff_t i, k;
    for (i = 0; i < m; i++) {
        const double y = target[i];
        double top = z[i], own;
        ptrdiff_t label;
        if (!(y >= 0.0 && y < (double)n_classes)) { /* so also if it is NaN */
            return DPFAST_ERR_ARGUMENT;
        }
        /*@ admit \is_finite(y); */
        label = (ptrdiff_t)y;
        if ((double)label != y) {
            return DPFAST_ERR_ARGUMENT;
        }
        own = z[label * m + i];
        for (k = 1; k < n_classes; k++) {
            top = z[k * m + i] > top ? z[k * m + i] : top;
        }
        /* NaN and infinity, which may be lost in the comparisons, come back here. */
        for (k = 0; k < n_classes; k++) {
            z[k * m + i] -= top;
        }
        lost[i] = top - own;
    }
    dpfast_exp_points(n_classes * m, z, z);
    for (i = 0; i < m; i++) {
        /* The targets were looked at above. */
        /*@ admit \is_finite(target[i]) && 0 <= target[i] < n_classes; */
        const ptrdiff_t label = (ptrdiff_t)target[i];
        const double c = weight != NULL ? weight[i] : 1.0;
        double sum = 0.0, square = 0.0, own, least, factor, length;
        for (k = 0; k < n_classes; k++) {
            sum += z[k * m + i];
        }
        least = own = z[label * m + i] / sum;
        for (k = 0; k < n_classes; k++) {
            const double p = z[k * m + i] / sum, slope = p - (k == label);
            least = p < least ? p : least;
            z[k * m + i] = slope;
            square += slope * slope;
        }
        /* The gradient is the outer product of the slopes and the row.  Those of another label k
         * have the square ||p||^2 - 2 p_k + 1; never less than the row's own, own >= least. */
        length = sqrt(consistent ? square + 2.0 * (own - least) : square);
        factor = inverse_norm != NULL ? clip_norm * (double)inverse_norm[i] : INFINITY;
        factor = length > factor ? c * (factor / length) : c;
        for (k = 0; k < n_classes; k++) {
            z[k * m + i] *= factor;
        }
        lost[i] = c * (lost[i] + log(sum));
    }
    return DPFAST_OK;
}

#endif
