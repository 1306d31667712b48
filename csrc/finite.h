/* Private: refusing what is not finite. */
#ifndef DPFAST_FINITE_H
#define DPFAST_FINITE_H

#include <math.h>
#include <stddef.h>

static inline int all_finite(ptrdiff_t n, const double *x)
{
    ptrdiff_t i;
    for (i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            return 0;
        }
    }
    return 1;
}

#endif
