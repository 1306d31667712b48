/* Private: refusing what is not finite. */
#ifndef DPFAST_FINITE_H
#define DPFAST_FINITE_H

#include <math.h>
#include <stddef.h>

static inline int all_finite(ptrdiff_t n, const double *x)
{
    int finite = 1; /* without an early end compilers take several at a time */
    ptrdiff_t i;
    for (i = 0; i < n; i++) {
        finite &= fabs(x[i]) < INFINITY;
    }
    return finite;
}

#endif
