/* Losses along a line: sum_i weight_i min(loss(m_i - a q_i), loss_clip) for many step sizes a, from
 * margins m and the direction's margins q, without reading X. */
#ifndef DPFAST_LINE_SEARCH_H
#define DPFAST_LINE_SEARCH_H

#include <stddef.h>

#include "loss.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out[k] = the sum at step size steps[k], in one pass over the n-vectors.  weight NULL: all ones. */
dpfast_status dpfast_line_search(ptrdiff_t n, const double *margin, const double *direction_margin,
                                 const double *target, const double *weight,
                                 const dpfast_loss *loss, double loss_clip, ptrdiff_t n_steps,
                                 const double *steps, double *out);

/* Longest chain of additions behind one of the sums over n rows. */
ptrdiff_t dpfast_line_search_addition_depth(ptrdiff_t n);

#ifdef __cplusplus
}
#endif

#endif
