/* Public entry of the line search. */
#include "dense_ops.h"

#include <math.h>

dpfast_status dpfast_line_search(ptrdiff_t n, const double *margin, const double *direction_margin,
                                 const double *target, const double *weight,
                                 const dpfast_loss *loss, double loss_clip, ptrdiff_t n_steps,
                                 const double *steps, double *out)
{
    ptrdiff_t k;
    if (n < 0 || n_steps < 0 || !dpfast_loss_valid(loss) || !(loss_clip > 0.0) ||
        (n > 0 && (margin == NULL || direction_margin == NULL || target == NULL)) ||
        (n_steps > 0 && (steps == NULL || out == NULL))) {
        return DPFAST_ERR_ARGUMENT;
    }
    DPFAST_OF_ISA_IN_USE(dpfast_vector_ops)
        .line_search(n, margin, direction_margin, target, weight, loss, loss_clip, n_steps, steps,
                     out);
    for (k = 0; k < n_steps; k++) {
        if (!isfinite(out[k])) {
            return DPFAST_ERR_NONFINITE;
        }
    }
    return DPFAST_OK;
}

ptrdiff_t dpfast_line_search_addition_depth(ptrdiff_t n)
{
    /* A block of 512 rows is a chain of 256 at most, and adds one logarithm; where losses are clipped
     * high, blocks of products have 40 rows at least. */
    return n / 40 + 256 + 8;
}
